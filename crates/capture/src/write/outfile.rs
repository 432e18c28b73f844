//! The output file of a writer: takes whole records, and always ends with a whole record.

use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use weir_files::Part;

use crate::file::Compression;

/// Records that are not written yet.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    pub(crate) bytes: Vec<u8>,
    /// End of each record in `bytes`, and whether it is a packet.
    ends: VecDeque<(usize, bool)>,
}

impl Pending {
    /// Marks the bytes appended since the last call as a record.
    pub(crate) fn seal(&mut self, packet: bool) {
        self.ends.push_back((self.bytes.len(), packet));
    }

    /// Packets among the records.
    pub(crate) fn packets(&self) -> u64 {
        self.ends.iter().filter(|(_, packet)| *packet).count() as u64
    }

    /// The last end of a record at or before `at`.
    fn boundary(&self, at: usize) -> usize {
        let after = self.ends.partition_point(|(end, _)| *end <= at);
        after.checked_sub(1).and_then(|last| self.ends.get(last)).map_or(0, |(end, _)| *end)
    }

    /// Removes the first `count` bytes. Returns the number of packets that ended in them.
    fn forget(&mut self, count: usize) -> u64 {
        self.bytes.drain(..count);
        let mut packets = 0;
        while let Some((end, packet)) = self.ends.front()
            && *end <= count
        {
            packets += u64::from(*packet);
            self.ends.pop_front();
        }
        for (end, _) in &mut self.ends {
            *end -= count;
        }
        packets
    }
}

/// The destination of bytes.
pub(crate) trait Medium: Send {
    /// Writes some of `bytes`. Returns `WouldBlock` if nothing can be written without waiting.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize>;
    /// Truncates the file to `length` bytes; `false` if this medium cannot.
    fn truncate(&mut self, length: u64) -> bool;
}

struct Disk(File);

impl Medium for Disk {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn truncate(&mut self, length: u64) -> bool {
        self.0.set_len(length).is_ok() && self.0.seek(SeekFrom::Start(length)).is_ok()
    }
}

/// Limits on a writer's wait for the reader of a pipe.
#[derive(Clone, Debug)]
pub struct Patience {
    /// Set when the run is to end. Until then the writer waits without a limit.
    pub ends: Arc<AtomicBool>,
    /// From then on, the time for which the reader may take nothing before the writer gives up. The remaining packets
    /// are lost and counted.
    pub grace: Duration,
}

/// A pipe, a terminal, a device.
struct Pipe {
    file: File,
    /// `None` waits without a limit.
    patience: Option<Patience>,
    /// Start of the time in which the reader has taken nothing, after the run is to end.
    idle_since: Option<Instant>,
    gave_up: bool,
}

/// Number of bytes that a writable pipe accepts without blocking (PIPE_BUF, pipe(7)).
const PIPE_ROOM: usize = 4_096;
/// Interval in milliseconds at which a waiting writer checks whether the run is to end.
const LOOK: libc::c_int = 50;

impl Pipe {
    fn new(file: File, patience: Option<Patience>) -> Pipe {
        Pipe { file, patience, idle_since: None, gave_up: false }
    }

    /// Waits until the pipe accepts bytes.
    ///
    /// # Errors
    /// `WouldBlock` when the writer gives up.
    fn wait(&mut self) -> io::Result<()> {
        while !writable(&self.file, if self.gave_up { 0 } else { LOOK })? {
            let Some(patience) = &self.patience else { continue };
            if !patience.ends.load(Ordering::Relaxed) {
                continue;
            }
            let idle_since = *self.idle_since.get_or_insert_with(Instant::now);
            self.gave_up |= idle_since.elapsed() >= patience.grace;
            if self.gave_up {
                return Err(io::ErrorKind::WouldBlock.into());
            }
        }
        self.idle_since = None;
        Ok(())
    }
}

impl Medium for Pipe {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // O_NONBLOCK is not used: it would apply to every process that shares this end of the pipe, including a shell
        // on a terminal.
        loop {
            self.wait()?;
            match self.file.write(bytes.get(..PIPE_ROOM).unwrap_or(bytes)) {
                // Another writer has filled the pipe.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                outcome => return outcome,
            }
        }
    }

    fn truncate(&mut self, _length: u64) -> bool {
        false
    }
}

/// Waits up to the given time until a write(2) of `file` would not block. Returns whether it would not.
#[allow(unsafe_code)]
fn writable(file: &File, milliseconds: libc::c_int) -> io::Result<bool> {
    let mut poll = libc::pollfd { fd: file.as_raw_fd(), events: libc::POLLOUT, revents: 0 };
    // SAFETY: `poll` is one pollfd, as the count says, and outlives the call.
    match unsafe { libc::poll(&raw mut poll, 1, milliseconds) } {
        -1 => match io::Error::last_os_error() {
            error if error.kind() == io::ErrorKind::Interrupted => Ok(false),
            error => Err(error),
        },
        // An error on the pipe is reported by write(2).
        count => Ok(count > 0),
    }
}

/// Opens a file that is not regular. Waits for the reader of a pipe within the limits of `patience`.
fn open_special(path: &Path, patience: Option<&Patience>) -> io::Result<File> {
    loop {
        match OpenOptions::new().write(true).custom_flags(libc::O_NONBLOCK).open(path) {
            Err(error) if error.raw_os_error() == Some(libc::ENXIO) => {
                if patience.is_some_and(|patience| patience.ends.load(Ordering::Relaxed)) {
                    return Err(error);
                }
                std::thread::sleep(Duration::from_millis(LOOK.unsigned_abs().into()));
            }
            opened => return opened,
        }
    }
}

/// Paths of a file in progress: `written` until it is finished, then `path`. They are equal if the file has its final
/// name from the start.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct FilePlace {
    /// The temporary name, under which the file is written.
    pub written: PathBuf,
    /// The final name.
    pub path: PathBuf,
}

/// An open file and the compressed records that wait to be written into it.
pub(crate) struct Outfile {
    medium: Box<dyn Medium>,
    /// `None` if the file is not regular.
    place: Option<FilePlace>,
    /// `None` if the file has its final name from the start.
    part: Option<Part>,
    compression: Compression,
    /// Bytes in the file, up to the end of its last whole record.
    written: u64,
    /// Packets in the file.
    pub(crate) packets: u64,
    /// Compressed bytes that the pipe has not taken yet, and the packets in them.
    packed: Vec<u8>,
    packed_packets: u64,
}

impl Outfile {
    /// Creates the file. A regular file is a [`Part`] until it is finished, unless it is to be readable while it grows
    /// (`direct`).
    pub(crate) fn create(
        path: &Path,
        compression: Compression,
        direct: bool,
        patience: Option<&Patience>,
    ) -> io::Result<Outfile> {
        if fs::metadata(path).is_ok_and(|data| !data.is_file()) {
            let pipe = Pipe::new(open_special(path, patience)?, patience.cloned());
            return Ok(Outfile::over(Box::new(pipe), compression));
        }
        if direct {
            let file = weir_files::create(path)?;
            let place = FilePlace { written: path.to_owned(), path: path.to_owned() };
            return Ok(Outfile { place: Some(place), ..Outfile::over(Box::new(Disk(file)), compression) });
        }
        let mut part = Part::create(path)?;
        let file = part.file().try_clone()?;
        let place = FilePlace { written: part.written().to_owned(), path: part.path().to_owned() };
        let over = Outfile::over(Box::new(Disk(file)), compression);
        Ok(Outfile { place: Some(place), part: Some(part), ..over })
    }

    pub(crate) fn stdout(compression: Compression, patience: Option<&Patience>) -> io::Result<Outfile> {
        let file = File::from(io::stdout().as_fd().try_clone_to_owned()?);
        Ok(Outfile::over(Box::new(Pipe::new(file, patience.cloned())), compression))
    }

    pub(crate) fn over(medium: Box<dyn Medium>, compression: Compression) -> Outfile {
        let (packed, place, part) = (Vec::new(), None, None);
        Outfile { medium, place, part, compression, written: 0, packets: 0, packed, packed_packets: 0 }
    }

    /// Path of a regular file.
    pub(crate) fn place(&self) -> Option<&FilePlace> {
        self.place.as_ref()
    }

    /// Compressed packets that have not been written yet.
    pub(crate) fn under_way(&self) -> u64 {
        self.packed_packets
    }

    /// Writes records. After an error the file is truncated to its last whole record, and the records that are not in
    /// it stay pending. Records also stay pending if writing would block and may not.
    pub(crate) fn put(&mut self, pending: &mut Pending) -> io::Result<()> {
        self.put_packed()?;
        if pending.bytes.is_empty() || !self.packed.is_empty() {
            return Ok(());
        }
        if self.compression == Compression::None {
            let (done, result) = self.write_all(&pending.bytes);
            let kept = self.settle(done, pending.boundary(done), pending.bytes.len());
            self.packets += pending.forget(kept);
            return result;
        }
        let member = pack(&pending.bytes, self.compression)?;
        let (done, result) = self.write_all(&member);
        if result.is_err() && self.settle(done, 0, member.len()) == 0 {
            return result;
        }
        // Bytes that a pipe has not taken must follow the bytes that it has taken.
        self.packed = member.get(done..).unwrap_or_default().to_vec();
        self.packed_packets = pending.forget(pending.bytes.len());
        if self.packed.is_empty() {
            self.written += if result.is_ok() { member.len() as u64 } else { 0 };
            self.packets += std::mem::take(&mut self.packed_packets);
        }
        result
    }

    fn put_packed(&mut self) -> io::Result<()> {
        let packed = std::mem::take(&mut self.packed);
        let (done, result) = self.write_all(&packed);
        self.packed = packed.get(done..).unwrap_or_default().to_vec();
        if self.packed.is_empty() {
            self.packets += std::mem::take(&mut self.packed_packets);
        }
        result
    }

    /// Writes as much as possible.
    fn write_all(&mut self, bytes: &[u8]) -> (usize, io::Result<()>) {
        let mut done = 0;
        while let Some(rest) = bytes.get(done..)
            && !rest.is_empty()
        {
            match self.medium.write(rest) {
                Ok(0) => return (done, Err(io::ErrorKind::WriteZero.into())),
                Ok(count) => done += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return (done, Ok(())),
                Err(error) => return (done, Err(error)),
            }
        }
        (done, Ok(()))
    }

    /// Of `all` bytes `done` are written: truncates the file to `whole` of them, which end a record. Returns the
    /// number of bytes that the file now has.
    fn settle(&mut self, done: usize, whole: usize, all: usize) -> usize {
        let kept = if done == all || done == whole || !self.medium.truncate(self.written + whole as u64) {
            done
        } else {
            whole
        };
        self.written += kept as u64;
        kept
    }

    /// Whether it replaces another file and must therefore wait for the disk.
    pub(crate) fn replaces(&self) -> bool {
        self.part.as_ref().is_some_and(Part::replaces)
    }

    /// Renames the file to its final name.
    pub(crate) fn finish(self) -> Result<(), (FilePlace, io::Error)> {
        match (self.part, self.place) {
            (Some(part), Some(place)) => part.finish().map_err(|error| (place, error)),
            _ => Ok(()),
        }
    }
}

/// Packs bytes into one gzip member or zstd frame. Each is complete in itself, so that a file may be cut between any
/// two.
pub(super) fn pack(bytes: &[u8], compression: Compression) -> io::Result<Vec<u8>> {
    match compression {
        Compression::None => Ok(bytes.to_vec()),
        Compression::Gzip => {
            // The fastest level: a capture must keep up with its link.
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            encoder.write_all(bytes)?;
            encoder.finish()
        }
        Compression::Zstd => zstd::bulk::compress(bytes, 0),
    }
}
