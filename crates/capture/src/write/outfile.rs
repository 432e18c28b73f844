//! The file behind a writer: takes whole records, and ends on a whole record in every case.

use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::path::{Path, PathBuf};

use weir_files::Part;

use crate::file::Compression;

/// Records that are not yet in the file.
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

    /// Forgets the first `count` bytes; the packets that ended there.
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
    /// Writes some of `bytes`. `WouldBlock` when nothing can be written without waiting.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize>;
    /// Cuts the file to `length` bytes; `false` when that cannot be done here.
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

/// A pipe, a terminal, a device.
struct Pipe {
    file: File,
    /// Do not wait for its reader.
    shed: bool,
}

/// Number of bytes that a writable pipe takes without blocking (PIPE_BUF, pipe(7)).
const PIPE_ROOM: usize = 4_096;

impl Medium for Pipe {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !self.shed {
            return self.file.write(bytes);
        }
        // O_NONBLOCK would be set for every process that shares this end of the pipe, including a shell's terminal.
        if !writable(&self.file)? {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        self.file.write(bytes.get(..PIPE_ROOM).unwrap_or(bytes))
    }

    fn truncate(&mut self, _length: u64) -> bool {
        false
    }
}

#[allow(unsafe_code)]
fn writable(file: &File) -> io::Result<bool> {
    let mut poll = libc::pollfd { fd: file.as_raw_fd(), events: libc::POLLOUT, revents: 0 };
    // SAFETY: `poll` is one pollfd, as the count says, and outlives the call.
    match unsafe { libc::poll(&raw mut poll, 1, 0) } {
        -1 => Err(io::Error::last_os_error()),
        // An error on the pipe is reported by write(2).
        count => Ok(count > 0),
    }
}

/// Paths of a file in progress: `written` until it is finished, then `path`. Both are equal if it has its name from
/// the start.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct FilePlace {
    /// Its name while it is written.
    pub written: PathBuf,
    /// The name that it gets.
    pub path: PathBuf,
}

/// An open file and the records on their way into it.
pub(crate) struct Outfile {
    medium: Box<dyn Medium>,
    /// Of a regular file.
    place: Option<FilePlace>,
    /// Of a file that gets its name at the end.
    part: Option<Part>,
    compression: Compression,
    /// Bytes in the file, up to the end of a record.
    written: u64,
    /// Packets in the file.
    pub(crate) packets: u64,
    /// Compressed bytes for a pipe that it has not taken yet, and the packets in them.
    packed: Vec<u8>,
    packed_packets: u64,
}

impl Outfile {
    /// Makes the file. A regular file is a [`Part`] until it is finished, unless it is to be read while it grows
    /// (`direct`).
    pub(crate) fn create(
        path: &Path,
        compression: Compression,
        direct: bool,
        shed: bool,
    ) -> io::Result<Outfile> {
        if fs::metadata(path).is_ok_and(|data| !data.is_file()) {
            let file = OpenOptions::new().write(true).open(path)?;
            return Ok(Outfile::over(Box::new(Pipe { file, shed }), compression));
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

    pub(crate) fn stdout(compression: Compression, shed: bool) -> io::Result<Outfile> {
        let file = File::from(io::stdout().as_fd().try_clone_to_owned()?);
        Ok(Outfile::over(Box::new(Pipe { file, shed }), compression))
    }

    pub(crate) fn over(medium: Box<dyn Medium>, compression: Compression) -> Outfile {
        let (packed, place, part) = (Vec::new(), None, None);
        Outfile { medium, place, part, compression, written: 0, packets: 0, packed, packed_packets: 0 }
    }

    /// Its path, if it is a regular file.
    pub(crate) fn place(&self) -> Option<&FilePlace> {
        self.place.as_ref()
    }

    /// Compressed packets that have not been written yet.
    pub(crate) fn under_way(&self) -> u64 {
        self.packed_packets
    }

    /// Writes records. On an error the file is cut to its last whole record, and the records that are not in
    /// it stay pending. Records also stay pending where writing would have to wait and may not.
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
        // Bytes that a pipe has not taken must follow those that it has.
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

    /// Of `all` bytes `done` are written: cuts the file to `whole` of them, which end a record. How many
    /// the file now has.
    fn settle(&mut self, done: usize, whole: usize, all: usize) -> usize {
        let kept = if done == all || done == whole || !self.medium.truncate(self.written + whole as u64) {
            done
        } else {
            whole
        };
        self.written += kept as u64;
        kept
    }

    /// Whether it replaces another file, which must wait for the disk.
    pub(crate) fn replaces(&self) -> bool {
        self.part.as_ref().is_some_and(Part::replaces)
    }

    /// Gives the file its name.
    pub(crate) fn finish(self) -> Result<(), (FilePlace, io::Error)> {
        match (self.part, self.place) {
            (Some(part), Some(place)) => part.finish().map_err(|error| (place, error)),
            _ => Ok(()),
        }
    }
}

/// One gzip member or zstd frame: each is whole for itself, so a file may be cut between any two.
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
