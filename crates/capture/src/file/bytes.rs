//! The bytes of an input, plain or decompressed.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use flate2::bufread::GzDecoder;

use super::ahead::{ROOM, ReadAhead};
use super::idle;
use super::read::read_spare;

/// Compression of an input.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Compression {
    /// No compression.
    #[default]
    None,
    /// gzip (RFC 1952), one member or several.
    Gzip,
    /// Zstandard (RFC 8878), one frame or several.
    Zstd,
}

/// The largest window that a zstd frame may request, as a power of two: 128 MiB, the default limit of `zstd -d`.
const ZSTD_WINDOW_LOG: u32 = 27;
const PACKED_BUFFER: usize = 64 << 10;
/// Number of bytes requested from a decompressor at a time.
const STEP: usize = 4 << 10;
/// Number of bytes returned at a time, so that a slow pipe does not delay bytes that have arrived.
const UNPACKED: usize = 128 << 10;

/// A stream of bytes that is decompressed if its first bytes are a compression format's magic number. Memory use does
/// not depend on the compression ratio: beyond the decoder's window it holds no more than the caller requests.
pub(crate) struct ByteSource {
    stream: Stream,
    taken: Arc<AtomicU64>,
    /// First bytes, read to detect the format and not returned yet.
    head: Vec<u8>,
    /// An error of the decompressor, reported after the bytes before it.
    broken: Option<io::Error>,
}

enum Stream {
    Plain(Counted),
    Gzip(BufReader<Gunzip>),
    Zstd(Box<BufReader<zstd::stream::read::Decoder<'static, BufReader<Replay>>>>),
}

impl ByteSource {
    /// Reads enough of `file` to detect the compression. Once `stop` is set, reading anything but a regular file,
    /// which might block forever, returns [`idle::Stopped`].
    pub(crate) fn new(file: File, stop: Option<&Arc<AtomicBool>>) -> io::Result<(ByteSource, Compression)> {
        let taken = Arc::new(AtomicU64::new(0));
        let is_regular = file.metadata().is_ok_and(|data| data.is_file());
        let stop = stop.filter(|_| !is_regular).cloned();
        let at = if is_regular { Some((&file).stream_position()?) } else { None };
        let mut file = Counted { file: Arc::new(file), at, taken: Arc::clone(&taken), stop };
        let mut head = Vec::with_capacity(4);
        while head.len() < 4 {
            let missing = 4 - head.len();
            if file.read_spare(&mut head, missing)? == 0 {
                break;
            }
        }
        let (stream, head, compression) = match head.as_slice() {
            [0x1f, 0x8b, ..] => {
                let packed = BufReader::with_capacity(PACKED_BUFFER, Replay { head, at: 0, file });
                (
                    Stream::Gzip(BufReader::with_capacity(STEP, Gunzip::new(packed))),
                    Vec::new(),
                    Compression::Gzip,
                )
            }
            [0x28, 0xb5, 0x2f, 0xfd] | [0x50..=0x5f, 0x2a, 0x4d, 0x18] => {
                let packed = BufReader::with_capacity(PACKED_BUFFER, Replay { head, at: 0, file });
                let mut decoder = zstd::stream::read::Decoder::with_buffer(packed)?;
                decoder.window_log_max(ZSTD_WINDOW_LOG)?;
                (
                    Stream::Zstd(Box::new(BufReader::with_capacity(STEP, decoder))),
                    Vec::new(),
                    Compression::Zstd,
                )
            }
            _ => (Stream::Plain(file), head, Compression::None),
        };
        Ok((ByteSource { stream, taken, head, broken: None }, compression))
    }

    /// Bytes read from the file so far, before decompression.
    pub(crate) fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }

    /// Appends up to `max` bytes to `out`, as many as one read gives; 0 at the end.
    pub(crate) fn read(&mut self, out: &mut Vec<u8>, max: usize) -> io::Result<usize> {
        if !self.head.is_empty() {
            let count = self.head.len();
            out.append(&mut self.head);
            return Ok(count);
        }
        match &mut self.stream {
            Stream::Plain(file) => file.read_spare(out, max),
            Stream::Gzip(gunzip) => append(gunzip, out, max, &mut self.broken),
            Stream::Zstd(decoder) => append(decoder, out, max, &mut self.broken),
        }
    }

    /// As [`ByteSource::read`], by a block that was read ahead, if there is one: then `out` is another buffer afterwards.
    pub(crate) fn read_on(&mut self, out: &mut Vec<u8>, max: usize, ahead: &ReadAhead) -> io::Result<Filled> {
        let block = match &mut self.stream {
            Stream::Plain(file) if self.head.is_empty() => file.take_block(max, ahead)?,
            _ => None,
        };
        let Some(mut block) = block else {
            return self.read(out, max).map(|count| Filled { count, from: 0 });
        };
        let count = block.len() - ROOM;
        let Some(from) = ROOM.checked_sub(out.len()) else {
            out.extend_from_slice(block.get(ROOM..).unwrap_or_default());
            ahead.reuse(block);
            return Ok(Filled { count, from: 0 });
        };
        block.get_mut(from..ROOM).unwrap_or_default().copy_from_slice(out);
        ahead.reuse(std::mem::replace(out, block));
        Ok(Filled { count, from })
    }
}

/// Bytes that were read into a buffer.
pub(crate) struct Filled {
    /// Their number; 0 at the end.
    pub(crate) count: usize,
    /// Where the bytes that were in the buffer before begin now: what is before them has no meaning.
    pub(crate) from: usize,
}

/// Decompresses up to `max` bytes, always in steps of the reader's buffer. A decoder that finds corrupt data loses the
/// output of the current step; small steps keep that loss small and reproducible.
fn append(
    from: &mut impl BufRead,
    out: &mut Vec<u8>,
    max: usize,
    broken: &mut Option<io::Error>,
) -> io::Result<usize> {
    if let Some(error) = broken.take() {
        return Err(error);
    }
    let start = out.len();
    let max = max.min(UNPACKED);
    while out.len() - start < max {
        match from.fill_buf() {
            Ok([]) => break,
            Ok(bytes) => {
                let count = bytes.len().min(max - (out.len() - start));
                out.extend_from_slice(bytes.get(..count).unwrap_or_default());
                from.consume(count);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if out.len() == start => return Err(error),
            Err(error) => {
                *broken = Some(error);
                break;
            }
        }
    }
    Ok(out.len() - start)
}

/// A file, and the count of bytes taken from it.
struct Counted {
    file: Arc<File>,
    /// Position of the next byte in a regular file. Descriptors that share one position do not disturb each other.
    at: Option<u64>,
    taken: Arc<AtomicU64>,
    /// Set when reading is to end; `None` if reading cannot block.
    stop: Option<Arc<AtomicBool>>,
}

impl Counted {
    /// Waits until bytes can be read, if reading may block.
    fn wait(&self) -> io::Result<()> {
        self.stop.as_ref().map_or(Ok(()), |stop| idle::wait(&self.file, stop))
    }

    /// Whether a failed read(2) is to be repeated. Waits first if the file is non-blocking.
    fn again(&self, error: &io::Error) -> bool {
        match error.kind() {
            io::ErrorKind::Interrupted => true,
            io::ErrorKind::WouldBlock => self.stop.is_some(),
            _ => false,
        }
    }

    /// Notes that bytes were read.
    fn count(&mut self, count: u64) {
        self.taken.fetch_add(count, Ordering::Relaxed);
        self.at = self.at.map(|at| at + count);
    }

    /// The block at the position in a regular file, if it was read ahead.
    fn take_block(&mut self, max: usize, ahead: &ReadAhead) -> io::Result<Option<Vec<u8>>> {
        let Some(at) = self.at else { return Ok(None) };
        let block = ahead.take(&self.file, at, max)?;
        if let Some(block) = &block {
            self.count((block.len() - ROOM) as u64);
        }
        Ok(block)
    }

    /// Makes one read(2), or pread(2) of a regular file, of at most `max` bytes to the end of `out`.
    fn read_spare(&mut self, out: &mut Vec<u8>, max: usize) -> io::Result<usize> {
        loop {
            self.wait()?;
            match read_spare(&self.file, out, max, self.at) {
                Ok(count) => {
                    self.count(count as u64);
                    return Ok(count);
                }
                Err(error) if self.again(&error) => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// The first bytes, then the rest of the file.
struct Replay {
    head: Vec<u8>,
    at: usize,
    file: Counted,
}

impl Read for Replay {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let head = self.head.get(self.at..).unwrap_or_default();
        if !head.is_empty() {
            let count = head.len().min(out.len());
            out[..count].copy_from_slice(&head[..count]);
            self.at += count;
            return Ok(count);
        }
        loop {
            self.file.wait()?;
            let file = &self.file;
            let read = match file.at {
                Some(at) => file.file.read_at(out, at),
                None => (&*file.file).read(out),
            };
            match read {
                Ok(count) => {
                    self.file.count(count as u64);
                    return Ok(count);
                }
                Err(error) if self.file.again(&error) => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// A sequence of gzip members. Data after the last member is ignored, as gzip(1) does.
struct Gunzip {
    state: Member,
}

enum Member {
    Inside(Box<GzDecoder<BufReader<Replay>>>),
    Done,
}

impl Gunzip {
    fn new(packed: BufReader<Replay>) -> Gunzip {
        Gunzip { state: Member::Inside(Box::new(GzDecoder::new(packed))) }
    }
}

impl Read for Gunzip {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        loop {
            let Member::Inside(member) = &mut self.state else { return Ok(0) };
            let count = member.read(out)?;
            if count > 0 || out.is_empty() {
                return Ok(count);
            }
            let Member::Inside(member) = std::mem::replace(&mut self.state, Member::Done) else {
                return Ok(0);
            };
            let mut packed = member.into_inner();
            // A buffer that ends inside the magic number holds one of its two bytes. It is taken as a member, and the
            // decoder checks the rest.
            if packed.fill_buf()?.first() == Some(&0x1f) {
                self.state = Member::Inside(Box::new(GzDecoder::new(packed)));
            }
        }
    }
}
