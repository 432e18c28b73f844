//! Writing packets: pcap and pcapng, plain or compressed, in files that follow one another.
//!
//! Records are gathered and written whole. A file is cut to its last whole record when the disk is full,
//! and is readable from its first second on. The clock is the caller's: [`PacketWriter::tick`].

mod encode;
mod error;
mod name;
mod outfile;
mod repair;

use std::collections::HashMap;
use std::path::PathBuf;
use std::thread::JoinHandle;

use weir_wire::{Packet, Time};

pub use encode::{FileFormat, Statistics};
pub use error::WriteError;
pub use name::Rotate;
pub use outfile::{FilePlace, Patience};
pub use repair::{Repair, repair, salvage, salvage_leftovers};

use crate::file::{Compression, InterfaceInfo};
use encode::Encoder;
use name::Sequence;
use outfile::{Outfile, Pending};

/// The destination of packets.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Target {
    /// A file. It is written as `.NAME.RANDOM.part` beside its place and gets its name when it is finished; with
    /// [`WriteOptions::unbuffered`], and where the name is that of a pipe or device, it has its name at once.
    Path(PathBuf),
    /// Standard output.
    Stdout,
}

/// How packets are written.
#[derive(Clone, Debug, Default)]
pub struct WriteOptions {
    /// `None`: by name; `.pcap`, `.cap` and `.dmp` are classic pcap, all others pcapng. `.gz` and `.zst`
    /// behind that compress.
    pub format: Option<FileFormat>,
    /// Classic pcap with nanoseconds. It has them also when an interface, or else the first packet, does.
    pub nanoseconds: bool,
    /// The snaplen in headers if an interface has none; 0 means no limit.
    pub snaplen: u32,
    /// `-U`: every packet goes into the file at once, and the file has its name from the start.
    pub unbuffered: bool,
    /// How long to wait for the reader of a pipe; `None` waits without end.
    pub patience: Option<Patience>,
    /// When to begin a new file.
    pub rotate: Rotate,
    /// The program's name and version, for pcapng.
    pub application: String,
    /// Comments on the capture, for pcapng.
    pub comments: Vec<String>,
}

/// The results of a writer. `packets + lost` is the number of packets that it was given.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Written {
    /// Packets in files, or on their way there.
    pub packets: u64,
    /// Packets that could not be written.
    pub lost: u64,
    /// Files begun.
    pub files: u64,
}

/// Records are handed to the system when this many bytes are gathered, and by every tick.
const GATHER: usize = 256 << 10;
/// Flush interval of compressed files: each flush begins a new member.
const GATHER_PACKED: usize = 1 << 20;
/// Records that are held while they cannot be written. What comes then is lost, and counted.
const HELD: usize = 4 << 20;

/// Writes packets to a file, a sequence of files, or standard output.
///
/// When writing fails, the first error is returned, and [`PacketWriter::trouble`] reports it from then on. Packets are
/// held, then lost and counted, and each tick tries again.
pub struct PacketWriter {
    target: Target,
    options: WriteOptions,
    format: FileFormat,
    compression: Compression,
    interfaces: Vec<InterfaceInfo>,
    statistics: HashMap<u32, Statistics>,
    sequence: Sequence,
    encoder: Encoder,
    file: Option<Outfile>,
    path: String,
    pending: Pending,
    /// Bytes of this file, before compression.
    size: u64,
    given: u64,
    lost: u64,
    files: u64,
    now: Time,
    trouble: Option<WriteError>,
    complete: bool,
    /// The file before this one, where it replaces another and waits for the disk.
    finishing: Option<JoinHandle<Result<(), WriteError>>>,
}

impl PacketWriter {
    /// Begins the first file; standard output is one file, whatever [`WriteOptions::rotate`] says. `interfaces` are
    /// those that [`Packet::interface`] counts, as far as they are known; `now` is the time from which `-G` counts.
    ///
    /// # Errors
    ///
    /// When the file cannot be created, or its name is not a valid time pattern.
    pub fn create(
        target: Target,
        mut options: WriteOptions,
        interfaces: &[InterfaceInfo],
        now: Time,
    ) -> Result<PacketWriter, WriteError> {
        let pattern = match &target {
            Target::Path(path) => path.clone(),
            Target::Stdout => {
                options.rotate = Rotate::default();
                PathBuf::from("-")
            }
        };
        let (by_name, compression) = name::kind(&pattern);
        let format = options.format.unwrap_or(by_name);
        let mut writer = PacketWriter {
            sequence: Sequence::new(&pattern, &options.rotate, now),
            encoder: Encoder::new(format, options.nanoseconds, options.snaplen),
            path: pattern.display().to_string(),
            target,
            options,
            format,
            compression,
            interfaces: interfaces.to_vec(),
            statistics: HashMap::new(),
            file: None,
            pending: Pending::default(),
            size: 0,
            given: 0,
            lost: 0,
            files: 0,
            now,
            trouble: None,
            complete: false,
            finishing: None,
        };
        writer.begin()?;
        // The reader of a pipe may come later than the first packets: that is waited for with the first tick.
        if !writer.is_pipe() {
            writer.flush()?;
        }
        Ok(writer)
    }

    /// Adds the description of an interface for later packets.
    pub fn describe(&mut self, interface: u32, described: InterfaceInfo) {
        let index = interface as usize;
        if index <= crate::file::MAX_INTERFACES {
            let length = self.interfaces.len().max(index + 1);
            self.interfaces.resize_with(length, InterfaceInfo::default);
            if let Some(place) = self.interfaces.get_mut(index) {
                *place = described;
            }
        }
    }

    /// Notes the packets that an interface has received and lost so far, for the last blocks of the file (pcapng).
    pub fn statistics(&mut self, interface: u32, statistics: Statistics) {
        self.statistics.insert(interface, statistics);
    }

    /// Writes a packet.
    ///
    /// # Errors
    ///
    /// When something goes wrong that did not before; see [`PacketWriter`]. A packet of another link type
    /// than a classic pcap file's is refused each time.
    pub fn write(&mut self, packet: &Packet<'_>) -> Result<(), WriteError> {
        self.write_with_comments(packet, std::iter::empty())
    }

    /// Writes a packet and comments on it; classic pcap has no room for comments.
    ///
    /// # Errors
    ///
    /// As [`PacketWriter::write`].
    pub fn write_with_comments<'a>(
        &mut self,
        packet: &Packet<'_>,
        comments: impl Iterator<Item = &'a str>,
    ) -> Result<(), WriteError> {
        if self.complete {
            return Ok(());
        }
        self.given += 1;
        let mut first = Ok(());
        if self.sequence.size_over(self.size) {
            first = self.end();
            first = first.and(self.begin());
        }
        if self.file.is_none() || self.pending.bytes.len() >= HELD {
            self.lost += 1;
            return first;
        }
        let start = self.pending.bytes.len();
        if let Err(other) = self.encoder.packet(&mut self.pending.bytes, packet, comments, &self.interfaces) {
            self.pending.bytes.truncate(start);
            self.lost += 1;
            return Err(WriteError::LinkType {
                path: self.path.clone(),
                found: packet.link.to_string(),
                expected: other.0.to_string(),
            });
        }
        self.pending.seal(true);
        self.size += (self.pending.bytes.len() - start) as u64;
        let gather = if self.compression == Compression::None { GATHER } else { GATHER_PACKED };
        if self.trouble.is_none() && (self.options.unbuffered || self.pending.bytes.len() >= gather) {
            first = first.and(self.flush());
        }
        first
    }

    /// Takes the current time: writes the gathered packets, and begins a new file when it is due. Call it before the
    /// packets of a batch, and at least every second when none come.
    ///
    /// # Errors
    ///
    /// As [`PacketWriter::write`].
    pub fn tick(&mut self, now: Time) -> Result<(), WriteError> {
        self.now = now;
        if self.complete {
            return Ok(());
        }
        match self.sequence.period_over(now) {
            Some(true) => {
                let ended = self.end();
                ended.and(self.begin()).and(self.flush())
            }
            Some(false) => {
                self.complete = true;
                self.end()
            }
            None if self.file.is_none() => self.begin().and(self.flush()),
            None => self.flush(),
        }
    }

    /// Whether as many files are written as `-W` asks for with `-G`: what is written now is not wanted.
    pub fn is_complete(&self) -> bool {
        self.complete
    }

    /// The current error.
    pub fn trouble(&self) -> Option<&WriteError> {
        self.trouble.as_ref()
    }

    /// The results so far.
    pub fn written(&self) -> Written {
        Written { packets: self.given - self.lost, lost: self.lost, files: self.files }
    }

    /// Path of the current file; `None` if it is not a regular file, or if there is none at the moment.
    pub fn place(&self) -> Option<&FilePlace> {
        self.file.as_ref().and_then(Outfile::place)
    }

    /// Whether what is written goes to a reader and not into a file: it is to be ticked when nothing more waits.
    pub fn is_pipe(&self) -> bool {
        self.file.as_ref().is_some_and(|file| file.place().is_none())
    }

    /// Writes the rest and gives the file its name.
    ///
    /// # Errors
    ///
    /// When the rest cannot be written; its packets are then counted as lost, and the file ends on a whole
    /// record all the same.
    pub fn close(mut self) -> (Written, Result<(), WriteError>) {
        let result = self.end();
        let finished = self.finish_last();
        (self.written(), result.and(finished))
    }

    fn begin(&mut self) -> Result<(), WriteError> {
        let opened = match &self.target {
            Target::Stdout => {
                self.path = "standard output".to_owned();
                Outfile::stdout(self.compression, self.options.patience.as_ref())
            }
            Target::Path(_) => {
                let path = self.sequence.name()?;
                self.path = path.display().to_string();
                {
                    let WriteOptions { unbuffered, patience, .. } = &self.options;
                    Outfile::create(&path, self.compression, *unbuffered, patience.as_ref())
                }
            }
        };
        match opened {
            Ok(file) => {
                self.start(file);
                Ok(())
            }
            Err(source) => {
                let path = self.path.clone();
                self.note(WriteError::Create { path, source: source.into() })
            }
        }
    }

    fn start(&mut self, file: Outfile) {
        self.file = Some(file);
        self.files += 1;
        self.pending = Pending::default();
        self.encoder = Encoder::new(self.format, self.options.nanoseconds, self.options.snaplen);
        let (application, comments) = (&self.options.application, &self.options.comments);
        self.encoder.start(&mut self.pending.bytes, application, comments, &self.interfaces);
        self.pending.seal(false);
        self.size = self.pending.bytes.len() as u64;
    }

    fn flush(&mut self) -> Result<(), WriteError> {
        let Some(file) = &mut self.file else { return Ok(()) };
        match file.put(&mut self.pending) {
            Ok(()) => {
                self.trouble = None;
                Ok(())
            }
            Err(source) => {
                let error = WriteError::while_writing(&self.path, file.packets, source);
                self.note(error)
            }
        }
    }

    /// Notes what goes wrong; an error only when nothing did before.
    fn note(&mut self, error: WriteError) -> Result<(), WriteError> {
        let known = self.trouble.replace(error.clone()).is_some();
        if known { Ok(()) } else { Err(error) }
    }

    /// Ends the file that is being written.
    fn end(&mut self) -> Result<(), WriteError> {
        if self.file.is_none() {
            return self.trouble.take().map_or(Ok(()), Err);
        }
        self.encoder.finish(&mut self.pending.bytes, &self.statistics, self.now);
        self.pending.seal(false);
        let flushed = self.flush();
        let Some(file) = self.file.take() else { return flushed };
        self.lost += self.pending.packets() + file.under_way();
        self.pending = Pending::default();
        let renamed = self.finish(file);
        // At the end of a file its error is reported, even if it was before.
        let trouble = self.trouble.take().map_or(Ok(()), Err);
        flushed.and(trouble).and(renamed)
    }
}

impl PacketWriter {
    /// Gives a file its name. One that replaces another waits for the disk in a thread, because packets must not wait.
    fn finish(&mut self, file: Outfile) -> Result<(), WriteError> {
        let before = self.finish_last();
        if file.replaces() {
            self.finishing = Some(std::thread::spawn(move || named(file)));
            return before;
        }
        before.and(named(file))
    }

    /// Waits for the file before this one.
    fn finish_last(&mut self) -> Result<(), WriteError> {
        self.finishing.take().map_or(Ok(()), |thread| thread.join().unwrap_or(Ok(())))
    }
}

fn named(file: Outfile) -> Result<(), WriteError> {
    file.finish().map_err(|(place, source)| WriteError::Rename {
        path: place.path.display().to_string(),
        from: place.written.display().to_string(),
        source: source.into(),
    })
}

impl Drop for PacketWriter {
    /// A writer that is dropped without being closed ends its file as well as it can; errors cannot be reported.
    fn drop(&mut self) {
        if self.file.is_some() {
            let _ = self.end();
        }
        let _ = self.finish_last();
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::{Arc, Mutex};

    use weir_wire::{Hints, LinkType, PacketBuf};

    use super::*;
    use crate::file::{Files, Input, ReadOptions};

    /// A disk with room for a number of bytes.
    #[derive(Clone, Default)]
    struct Disk {
        bytes: Arc<Mutex<Vec<u8>>>,
        room: Arc<Mutex<usize>>,
    }

    impl outfile::Medium for Disk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let mut written = self.bytes.lock().unwrap();
            let count = bytes.len().min(*self.room.lock().unwrap() - written.len());
            if count == 0 {
                return Err(io::Error::from_raw_os_error(libc::ENOSPC));
            }
            written.extend_from_slice(&bytes[..count]);
            Ok(count)
        }

        fn truncate(&mut self, length: u64) -> bool {
            self.bytes.lock().unwrap().truncate(length as usize);
            true
        }
    }

    /// In memory where that can be had: a disk is slow at this many small files.
    fn scratch() -> tempfile::TempDir {
        tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
    }

    /// Packets in a file that is whole.
    fn packets(bytes: &[u8]) -> Vec<u64> {
        let directory = scratch();
        let path = directory.path().join("bytes");
        std::fs::write(&path, bytes).unwrap();
        let inputs = [Input::Path(path)];
        let mut files = Files::open(&inputs, &ReadOptions::default()).unwrap();
        let (mut chunk, mut found) = (PacketBuf::default(), Vec::new());
        while files.fill(&mut chunk).expect("the file ends on a whole record") {
            found.extend(chunk.slots.iter().map(|slot| slot.time.0));
        }
        found
    }

    fn packet(time: u64, data: &[u8]) -> Packet<'_> {
        let (wire_len, link) = (data.len() as u32, LinkType::ETHERNET);
        Packet { time: Time(time), data, wire_len, interface: 0, link, hints: Hints::default() }
    }

    /// A disk that is full at any byte, and has room again later: the file is whole at each moment, and every packet
    /// is in it or counted as lost.
    #[test]
    fn a_full_disk_leaves_whole_records_and_writing_resumes() {
        for (name, step) in [("x.pcap", 1), ("x.pcapng", 1), ("x.pcapng.gz", 7), ("x.pcap.zst", 7)] {
            for room in (0..700).step_by(step) {
                let directory = scratch();
                let disk = Disk::default();
                *disk.room.lock().unwrap() = room;
                let target = Target::Path(directory.path().join(name));
                let eth = InterfaceInfo { link: LinkType::ETHERNET, ..InterfaceInfo::default() };
                let mut writer =
                    PacketWriter::create(target, WriteOptions::default(), &[eth], Time(0)).unwrap();
                writer.start(Outfile::over(Box::new(disk.clone()), writer.compression));
                let mut emitted = 0;
                for second in 0..10 {
                    emitted += u32::from(
                        writer.write(&packet(second * 1_000, b"thirty bytes of a test packet")).is_err(),
                    );
                    emitted += u32::from(writer.tick(Time(second)).is_err());
                    let bytes = disk.bytes.lock().unwrap().clone();
                    if !bytes.is_empty() {
                        let found = packets(&bytes);
                        assert!(found.iter().copied().eq((0..found.len() as u64).map(|at| at * 1_000)));
                    }
                }
                let full = writer.trouble().is_some();
                assert_eq!(emitted, u32::from(full), "told once");
                if room % 2 == 0 {
                    *disk.room.lock().unwrap() = usize::MAX;
                    writer.tick(Time(20)).unwrap();
                    assert!(writer.trouble().is_none(), "there is room again");
                }
                let (written, result) = writer.close();
                assert_eq!(written.packets + written.lost, 10);
                let bytes = disk.bytes.lock().unwrap().clone();
                let found = if bytes.is_empty() { Vec::new() } else { packets(&bytes) };
                assert_eq!(found.len() as u64, written.packets, "{name}, room for {room}");
                assert_eq!(result.is_err(), room % 2 == 1 && full, "{name}, room for {room}: {result:?}");
                assert!(room % 2 == 1 || written.lost == 0, "what was held is written");
            }
        }
    }

    #[test]
    fn what_is_held_is_bounded() {
        let directory = scratch();
        let disk = Disk::default();
        let target = Target::Path(directory.path().join("x.pcap"));
        let mut writer = PacketWriter::create(target, WriteOptions::default(), &[], Time(0)).unwrap();
        writer.start(Outfile::over(Box::new(disk.clone()), Compression::None));
        let data = [0; 1_000];
        let mut emitted = 0;
        for number in 0..10_000 {
            emitted += u32::from(writer.write(&packet(number, &data)).is_err());
        }
        assert_eq!(emitted, 1);
        assert!(writer.pending.bytes.len() <= HELD + 2_000);
        let lost = writer.written().lost;
        assert!((5_000..6_000).contains(&lost), "{lost}");
        *disk.room.lock().unwrap() = usize::MAX;
        let (written, result) = writer.close();
        result.unwrap();
        assert_eq!(written.lost, lost);
        assert_eq!(packets(&disk.bytes.lock().unwrap()).len() as u64, written.packets);
    }
}
