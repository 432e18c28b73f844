//! Writing packets: pcap and pcapng, plain or compressed, to one file or a sequence of files.
//!
//! Records are gathered and written whole. When the disk is full, a file is cut to its last whole record, so that it
//! is readable at any time. The caller provides the clock: [`PacketWriter::tick`].

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
    /// A file. It is written as `.NAME.RANDOM.part` in the same folder and renamed when it is finished. It has its
    /// final name from the start with [`WriteOptions::unbuffered`], and if the name is that of a pipe or device.
    Path(PathBuf),
    /// Standard output.
    Stdout,
}

/// Options of writing.
#[derive(Clone, Debug, Default)]
pub struct WriteOptions {
    /// The format; `None`: by name. `.pcap`, `.cap` and `.dmp` are classic pcap, all others pcapng; a further `.gz` or
    /// `.zst` selects compression.
    pub format: Option<FileFormat>,
    /// Whether a classic pcap file has nanoseconds. It also has them if an interface, or else the first packet, does.
    pub nanoseconds: bool,
    /// The snaplen in headers if an interface has none; 0 means no limit.
    pub snaplen: u32,
    /// `-U`: every packet is written to the file at once, and the file has its final name from the start.
    pub unbuffered: bool,
    /// Limit on the wait for the reader of a pipe; `None` waits without a limit.
    pub patience: Option<Patience>,
    /// When to begin a new file.
    pub rotate: Rotate,
    /// The program's name and version, for pcapng.
    pub application: String,
    /// Comments on the capture, for pcapng.
    pub comments: Vec<String>,
}

/// The results of a writer. `packets + lost` is the number of packets given to the writer.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Written {
    /// Packets written, or buffered for writing.
    pub packets: u64,
    /// Packets that could not be written.
    pub lost: u64,
    /// Files started.
    pub files: u64,
}

/// Buffered records are written when they reach this many bytes, and at every tick.
const GATHER: usize = 256 << 10;
/// Flush interval of compressed files: each flush begins a new member.
const GATHER_PACKED: usize = 1 << 20;
/// Maximum number of bytes to hold while records cannot be written. Further packets are lost and counted.
const HELD: usize = 4 << 20;

/// Writes packets to a file, a sequence of files, or standard output.
///
/// The first error is returned, and [`PacketWriter::trouble`] reports it as long as it lasts. Meanwhile packets are
/// held, and beyond a limit lost and counted. Each tick tries to write again.
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
    /// The previous file, while it replaces another file and waits for the disk.
    finishing: Option<JoinHandle<Result<(), WriteError>>>,
}

impl PacketWriter {
    /// Starts the first file. Standard output is one file, regardless of [`WriteOptions::rotate`]. `interfaces` are
    /// the known interfaces in the order of [`Packet::interface`]; `now` is the time from which `-G` counts.
    ///
    /// # Errors
    ///
    /// The file cannot be created, or its name is not a valid time pattern.
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
        // The reader of a pipe may open it after the first packets: the first tick waits for it.
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

    /// Sets the packets that an interface has received and lost so far, for the statistics blocks of the file
    /// (pcapng).
    pub fn statistics(&mut self, interface: u32, statistics: Statistics) {
        self.statistics.insert(interface, statistics);
    }

    /// Writes a packet.
    ///
    /// # Errors
    ///
    /// Writing fails for the first time; see [`PacketWriter`]. A classic pcap file refuses each packet of another link
    /// type.
    pub fn write(&mut self, packet: &Packet<'_>) -> Result<(), WriteError> {
        self.write_with_comments(packet, std::iter::empty())
    }

    /// Writes a packet with comments; classic pcap cannot store comments.
    ///
    /// # Errors
    ///
    /// The errors of [`PacketWriter::write`].
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

    /// Sets the current time: writes the buffered packets, and starts a new file when one is due. Call it before the
    /// packets of a batch, and at least once a second while no packets arrive.
    ///
    /// # Errors
    ///
    /// The errors of [`PacketWriter::write`].
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

    /// Whether the number of files that `-W` requests with `-G` is complete. Further packets are not written.
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

    /// Path of the current file; `None` if it is not a regular file, or if no file is open at the moment.
    pub fn place(&self) -> Option<&FilePlace> {
        self.file.as_ref().and_then(Outfile::place)
    }

    /// Whether the output goes to a reader and not into a file. Call [`PacketWriter::tick`] when no more packets wait.
    pub fn is_pipe(&self) -> bool {
        self.file.as_ref().is_some_and(|file| file.place().is_none())
    }

    /// Writes the rest and renames the file to its final name.
    ///
    /// # Errors
    ///
    /// The rest cannot be written. Its packets are counted as lost, and the file still ends with a whole record.
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

    /// Records an error. Returns it only if no error was recorded before.
    fn note(&mut self, error: WriteError) -> Result<(), WriteError> {
        let known = self.trouble.replace(error.clone()).is_some();
        if known { Ok(()) } else { Err(error) }
    }

    /// Finishes the current file.
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
        // At the end of a file its error is returned even if it was returned before.
        let trouble = self.trouble.take().map_or(Ok(()), Err);
        flushed.and(trouble).and(renamed)
    }
}

impl PacketWriter {
    /// Renames a finished file. A thread does this if it replaces a file and must wait for the disk, because packets
    /// must not wait.
    fn finish(&mut self, file: Outfile) -> Result<(), WriteError> {
        let before = self.finish_last();
        if file.replaces() {
            self.finishing = Some(std::thread::spawn(move || named(file)));
            return before;
        }
        before.and(named(file))
    }

    /// Waits for the previous file.
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
    /// Finishes the file of a writer that was not closed; errors cannot be reported.
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

    /// A disk with a limited number of bytes.
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

    /// A folder in memory if possible: a disk is slow with this many small files.
    fn scratch() -> tempfile::TempDir {
        tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
    }

    /// Packet times of a complete file.
    fn packets(bytes: &[u8]) -> Vec<u64> {
        let directory = scratch();
        let path = directory.path().join("bytes");
        std::fs::write(&path, bytes).unwrap();
        let inputs = [Input::Path(path)];
        let mut files = Files::open(&inputs, &ReadOptions::default()).unwrap();
        let (mut chunk, mut found) = (PacketBuf::default(), Vec::new());
        while files.fill(&mut chunk).expect("the file ends with a whole record") {
            found.extend(chunk.slots.iter().map(|slot| slot.time.0));
        }
        found
    }

    fn packet(time: u64, data: &[u8]) -> Packet<'_> {
        let (wire_len, link) = (data.len() as u32, LinkType::ETHERNET);
        Packet { time: Time(time), data, wire_len, interface: 0, link, hints: Hints::default(), number: 0 }
    }

    /// A disk that is full at any byte and has free space later. The file is valid at each moment, and every packet is
    /// in it or counted as lost.
    #[test]
    fn writing_resumes_after_a_full_disk_and_records_stay_whole() {
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
                assert_eq!(emitted, u32::from(full), "emitted once");
                if room % 2 == 0 {
                    *disk.room.lock().unwrap() = usize::MAX;
                    writer.tick(Time(20)).unwrap();
                    assert!(writer.trouble().is_none(), "the disk has free space again");
                }
                let (written, result) = writer.close();
                assert_eq!(written.packets + written.lost, 10);
                let bytes = disk.bytes.lock().unwrap().clone();
                let found = if bytes.is_empty() { Vec::new() } else { packets(&bytes) };
                assert_eq!(found.len() as u64, written.packets, "{name}, room for {room}");
                assert_eq!(result.is_err(), room % 2 == 1 && full, "{name}, room for {room}: {result:?}");
                assert!(room % 2 == 1 || written.lost == 0, "held packets are written");
            }
        }
    }

    #[test]
    fn held_packets_are_bounded() {
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
