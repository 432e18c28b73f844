//! One capture file, read block by block.

use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use weir_wire::PacketBuf;

use super::ahead::{ROOM, ReadAhead};
use super::bytes::{ByteSource, Compression, Filled};
use super::describe::{Format, InputInfo, InterfaceInfo};
use super::error::ReadError;
use super::idle::Stopped;
use super::interfaces::Interfaces;
use super::pcap::{self, Pcap};
use super::pcapng::{Comment, Findings, Pcapng};
use super::walk::{Limits, Stop, Walk};

/// A capture being read.
pub(crate) struct Capture {
    bytes: ByteSource,
    walker: Walker,
    /// Bytes read and not yet parsed: an incomplete record.
    carry: Vec<u8>,
    /// Offset of the first byte of `carry` in the capture, after decompression.
    base: u64,
    chunk_bytes: usize,
    recover: bool,
    state: State,
    /// The error to return after all packets before it.
    failure: Option<ReadError>,
    input: usize,
    pub(crate) info: InputInfo,
    /// Comments on the packets of the last filled buffer.
    pub(crate) comments: Vec<Comment>,
}

enum Walker {
    Pcap(Pcap),
    Pcapng(Pcapng),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    Walking,
    /// Skipping a block that is not needed: the remaining bytes, and the offset of its start.
    Skipping(u64, u64),
    /// Looking for the next plausible record after a corrupt one.
    Seeking,
    Ended,
}

/// The context for reading a capture.
pub(crate) struct Opening<'a> {
    pub(crate) name: &'a str,
    /// Index of the input in the run.
    pub(crate) input: usize,
    pub(crate) chunk_bytes: usize,
    pub(crate) recover: bool,
    /// Set when reading is to end.
    pub(crate) stop: Option<&'a Arc<AtomicBool>>,
}

impl Capture {
    /// Reads the start of a capture.
    pub(crate) fn open(
        file: File,
        opening: &Opening<'_>,
        interfaces: &mut Interfaces,
        info: &mut InputInfo,
    ) -> Result<Capture, ReadError> {
        let (mut bytes, compression) =
            ByteSource::new(file, opening.stop).map_err(|error| unpack_error(opening.name, 0, 0, error))?;
        info.compression = compression;
        let mut carry = Vec::new();
        while carry.len() < pcap::HEADER {
            let missing = pcap::HEADER - carry.len();
            match bytes.read(&mut carry, missing) {
                Ok(0) => break,
                Ok(_) => {}
                Err(error) if carry.is_empty() || Stopped::is(&error) => {
                    return Err(unpack_error(opening.name, 0, 0, error));
                }
                // The bytes before the error are more useful; the next read returns the error.
                Err(_) => break,
            }
        }
        if carry.is_empty() {
            let unpacked = compression != Compression::None;
            return Err(ReadError::Empty { input: opening.name.to_owned(), unpacked });
        }
        let walker = if carry.starts_with(&[0x0a, 0x0d, 0x0d, 0x0a]) {
            info.format = Some(Format::Pcapng);
            Walker::Pcapng(Pcapng::default())
        } else {
            let pcap = classic(&carry, opening, interfaces, info)?;
            carry.clear();
            Walker::Pcap(pcap)
        };
        Ok(Capture {
            base: if carry.is_empty() { pcap::HEADER as u64 } else { 0 },
            bytes,
            walker,
            carry,
            chunk_bytes: opening.chunk_bytes,
            recover: opening.recover,
            state: State::Walking,
            failure: None,
            input: opening.input,
            info: std::mem::take(info),
            comments: Vec::new(),
        })
    }

    /// Bytes read from the file, before decompression.
    pub(crate) fn taken(&self) -> u64 {
        self.bytes.taken()
    }

    /// Offset in the capture, after decompression, up to which records have been parsed.
    pub(crate) fn position(&self) -> u64 {
        self.base
    }

    /// Clears `chunk` and fills it with the next packets, at most `limits.packets`; without packets at the end.
    /// Returns an error after all packets before it. Takes blocks of `ahead`, if it is given.
    pub(crate) fn fill(
        &mut self,
        chunk: &mut PacketBuf,
        limits: &Limits,
        interfaces: &mut Interfaces,
        ahead: Option<&ReadAhead>,
    ) -> Result<bool, ReadError> {
        chunk.clear();
        self.comments.clear();
        if limits.packets == 0 {
            return Ok(false);
        }
        chunk.bytes.append(&mut self.carry);
        let mut at = 0;
        let mut ended = false;
        loop {
            let read_on = match self.state {
                State::Walking => {
                    let walk = self.walk(chunk, at, limits, interfaces);
                    let (next, read_on) = self.stopped(walk, chunk, ended);
                    at = next;
                    if !chunk.slots.is_empty() {
                        break;
                    }
                    read_on
                }
                State::Seeking => {
                    at = self.seek(&chunk.bytes, at, ended);
                    self.state == State::Seeking
                }
                State::Skipping(..) => true,
                State::Ended => break,
            };
            if read_on {
                // The blocks before `at` are not needed.
                chunk.bytes.drain(..at);
                self.base += at as u64;
                at = 0;
                ended = !self.more(chunk, &mut at, ahead);
            }
        }
        self.keep(chunk, at);
        if !chunk.slots.is_empty() {
            self.info.packets += chunk.slots.len() as u64;
            return Ok(true);
        }
        match self.failure.take() {
            Some(error) => {
                self.info.problem = Some(error.clone());
                Err(error)
            }
            None => Ok(false),
        }
    }

    /// Handles the reason why a walk stopped. Returns the offset at which to continue, and whether more bytes have to
    /// be read.
    fn stopped(&mut self, walk: Walk, chunk: &PacketBuf, ended: bool) -> (usize, bool) {
        let at = walk.at;
        let left = chunk.bytes.len() - at;
        match walk.stop {
            Stop::Enough => (at, false),
            Stop::More(_) if !chunk.slots.is_empty() || !ended => (at, true),
            Stop::More(need) => {
                self.end(left, at, need);
                (self.behind(at), false)
            }
            Stop::Skip(length) => {
                if let Walker::Pcapng(pcapng) = &self.walker {
                    pcapng.count(chunk.bytes.get(at..).unwrap_or_default(), &mut self.info);
                }
                self.state = State::Skipping(length - left as u64, self.base + at as u64);
                (chunk.bytes.len(), true)
            }
            Stop::Version(major, minor) => {
                self.fail(if self.base + at as u64 == 0 {
                    let (input, expected) = (self.info.name.clone(), "1.0 or 1.2");
                    ReadError::Version { input, format: "pcapng", offset: 12, major, minor, expected }
                } else {
                    let what = format!("section of version {major}.{minor}; expected 1.0 or 1.2");
                    self.corrupt(chunk, at, what)
                });
                (at, false)
            }
            Stop::Bad(what) => {
                let error = self.corrupt(chunk, at, what);
                self.fail(error);
                if self.recover {
                    self.state = State::Seeking;
                }
                (self.behind(at), false)
            }
        }
    }

    /// Offset at which to look for the next record when the one at `at` is corrupt.
    fn behind(&mut self, at: usize) -> usize {
        let step = usize::from(self.state == State::Seeking);
        self.info.skipped_bytes += step as u64;
        at + step
    }

    /// Keeps the bytes that have not been parsed for the next call.
    fn keep(&mut self, chunk: &mut PacketBuf, at: usize) {
        self.carry.extend_from_slice(chunk.bytes.get(at..).unwrap_or_default());
        chunk.bytes.truncate(at);
        self.base += at as u64;
    }

    fn walk(
        &mut self,
        chunk: &mut PacketBuf,
        at: usize,
        limits: &Limits,
        interfaces: &mut Interfaces,
    ) -> Walk {
        match &mut self.walker {
            Walker::Pcap(pcap) => pcap.walk(&chunk.bytes, at, &mut chunk.slots, limits),
            Walker::Pcapng(pcapng) => {
                let mut findings = Findings {
                    info: &mut self.info,
                    input: self.input,
                    interfaces,
                    comments: &mut self.comments,
                };
                pcapng.walk(&chunk.bytes, at, &mut chunk.slots, limits, &mut findings)
            }
        }
    }

    /// Reads more bytes; `false` at the end, and after an error. What was read before begins at `at` afterwards.
    fn more(&mut self, chunk: &mut PacketBuf, at: &mut usize, ahead: Option<&ReadAhead>) -> bool {
        let start = chunk.bytes.len();
        let room = self.chunk_bytes.saturating_sub(start).max(self.chunk_bytes / 2);
        // A block that was read ahead has room before its bytes, which the offset of the buffer's first byte accounts for.
        let takes_block = self.state == State::Walking && self.base >= ROOM as u64;
        let filled = match ahead {
            Some(ahead) if takes_block => self.bytes.read_on(&mut chunk.bytes, self.chunk_bytes, ahead),
            _ => {
                ahead.into_iter().for_each(ReadAhead::clear);
                self.bytes.read(&mut chunk.bytes, room).map(|count| Filled { count, from: 0 })
            }
        };
        if let Ok(filled) = &filled {
            *at = filled.from;
            self.base -= filled.from as u64;
        }
        match filled.map(|filled| filled.count) {
            Ok(0) => {
                if let State::Skipping(left, from) = self.state
                    && left > 0
                {
                    let what = format!("the file ends {left} bytes before the block does");
                    let (input, packets) = (self.info.name.clone(), self.info.packets);
                    self.fail(ReadError::Truncated { input, offset: from, packets, what });
                }
                false
            }
            Ok(count) => {
                if let State::Skipping(left, from) = self.state {
                    let passed = left.min(count as u64);
                    chunk.bytes.drain(start..start + passed as usize);
                    self.base += passed;
                    self.state =
                        if passed == left { State::Walking } else { State::Skipping(left - passed, from) };
                }
                true
            }
            Err(error) if Stopped::is(&error) => {
                self.state = State::Ended;
                false
            }
            Err(error) => {
                // The end of the last whole record; `base` is beyond it while a block is skipped.
                let offset = match self.state {
                    State::Skipping(_, from) => from,
                    _ => self.base,
                };
                self.fail(unpack_error(&self.info.name, offset, self.info.packets, error));
                false
            }
        }
    }

    /// Handles the end of the file; the `left` bytes from `at` on are not a whole record.
    fn end(&mut self, left: usize, at: usize, need: usize) {
        self.state = State::Ended;
        if left == 0 {
            return;
        }
        let offset = self.base + at as u64;
        let what = format!("record of {need} bytes or more, but only {left} are present");
        let (input, packets) = (self.info.name.clone(), self.info.packets);
        self.fail(ReadError::Truncated { input, offset, packets, what });
        if self.recover {
            self.state = State::Seeking;
        }
    }

    fn corrupt(&self, chunk: &PacketBuf, at: usize, what: String) -> ReadError {
        let packets = self.info.packets + chunk.slots.len() as u64;
        let input = self.info.name.clone();
        ReadError::Corrupt { input, offset: self.base + at as u64, packets, what }
    }

    /// Records the first error. It ends the input unless reading recovers.
    fn fail(&mut self, error: ReadError) {
        self.failure.get_or_insert(error);
        self.state = State::Ended;
    }

    /// Looks for the next offset at or after `at` at which a record may start. Returns the offset up to which it has
    /// looked.
    fn seek(&mut self, bytes: &[u8], at: usize, ended: bool) -> usize {
        let mut start = at;
        while let Some(rest) = bytes.get(start..)
            && !rest.is_empty()
        {
            let verdict = match &self.walker {
                Walker::Pcap(pcap) => pcap.plausible(rest, ended),
                Walker::Pcapng(pcapng) => pcapng.plausible(rest, ended),
            };
            match verdict {
                Some(true) => {
                    self.info.resumed += 1;
                    self.state = State::Walking;
                    break;
                }
                Some(false) => start += 1,
                None => break,
            }
        }
        if ended && self.state == State::Seeking {
            self.state = State::Ended;
        }
        self.info.skipped_bytes += (start - at) as u64;
        start
    }
}

/// Reads the file header of a classic pcap file.
fn classic(
    head: &[u8],
    opening: &Opening<'_>,
    interfaces: &mut Interfaces,
    info: &mut InputInfo,
) -> Result<Pcap, ReadError> {
    let input = opening.name.to_owned();
    let Some(magic) = pcap::Magic::of(head) else {
        return Err(ReadError::NotACapture { input, found: head.get(..8).unwrap_or(head).to_vec() });
    };
    let mut pcap = match Pcap::new(head) {
        Some(Ok(pcap)) => pcap,
        Some(Err(pcap::BadVersion { major, minor })) => {
            let expected = "2.0 to 2.4, or 543.0";
            return Err(ReadError::Version { input, format: "pcap", offset: 4, major, minor, expected });
        }
        None => {
            let what = format!("file header of {} bytes; expected {}", head.len(), pcap::HEADER);
            return Err(ReadError::Truncated { input, offset: 0, packets: 0, what });
        }
    };
    info.format = Some(Format::Pcap {
        big_endian: magic.big_endian,
        nanoseconds: magic.nanoseconds,
        modified: magic.modified,
    });
    info.links.push(pcap.link);
    pcap.interface = interfaces.add(InterfaceInfo {
        input: opening.input,
        link: pcap.link,
        snaplen: pcap.snaplen,
        ticks_per_second: if magic.nanoseconds { 1_000_000_000 } else { 1_000_000 },
        ..InterfaceInfo::default()
    });
    Ok(pcap)
}

/// Converts an error of the operating system, or of the decompressor, into a read error.
fn unpack_error(name: &str, offset: u64, packets: u64, error: io::Error) -> ReadError {
    let input = name.to_owned();
    if error.raw_os_error().is_some() || Stopped::is(&error) {
        return ReadError::Io { input, offset, packets, source: Arc::new(error) };
    }
    match error.kind() {
        io::ErrorKind::UnexpectedEof => {
            let what = "the compressed data end before their end mark".to_owned();
            ReadError::Truncated { input, offset, packets, what }
        }
        _ => ReadError::Corrupt { input, offset, packets, what: format!("compressed data: {error}") },
    }
}
