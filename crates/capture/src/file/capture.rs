//! One capture file, read block by block.

use std::fs::File;
use std::io;
use std::sync::Arc;

use weir_wire::Chunk;

use super::describe::{Format, InputInfo, InterfaceInfo};
use super::error::ReadError;
use super::interfaces::Interfaces;
use super::octets::Octets;
use super::pcap::{self, Pcap};
use super::pcapng::{Comment, Findings, Pcapng};
use super::walk::{Limits, Stop, Walk};

/// A capture being read.
pub(crate) struct Capture {
    octets: Octets,
    walker: Walker,
    /// Octets read and not yet walked over: an incomplete record.
    carry: Vec<u8>,
    /// Offset in the capture, unpacked, of the first octet of `carry`.
    base: u64,
    chunk_bytes: usize,
    recover: bool,
    state: State,
    /// The error to give when all packets before it have been taken.
    failure: Option<ReadError>,
    input: usize,
    pub(crate) info: InputInfo,
    /// Comments on the packets of the chunk filled last.
    pub(crate) comments: Vec<Comment>,
}

enum Walker {
    Pcap(Pcap),
    Pcapng(Pcapng),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    Walking,
    /// Octets of an unwanted block to pass over, and where that block starts.
    Skipping(u64, u64),
    /// Looking for the next plausible record after a corrupt one.
    Seeking,
    Ended,
}

/// What reading a capture needs to know of the run.
pub(crate) struct Opening<'a> {
    pub(crate) name: &'a str,
    /// Index of the input in the run.
    pub(crate) input: usize,
    pub(crate) chunk_bytes: usize,
    pub(crate) recover: bool,
}

impl Capture {
    /// Reads what a capture begins with.
    pub(crate) fn open(
        file: File,
        opening: &Opening<'_>,
        interfaces: &mut Interfaces,
        info: &mut InputInfo,
    ) -> Result<Capture, ReadError> {
        let name = opening.name.to_owned();
        let io = |offset: u64, source: io::Error| ReadError::Io {
            input: opening.name.to_owned(),
            offset,
            packets: 0,
            source: Arc::new(source),
        };
        let (mut octets, compression) = Octets::new(file).map_err(|error| io(0, error))?;
        info.compression = compression;
        let mut carry = Vec::new();
        while carry.len() < pcap::HEADER {
            let missing = pcap::HEADER - carry.len();
            match octets.read(&mut carry, missing) {
                Ok(0) => break,
                Ok(_) => {}
                Err(error) if carry.is_empty() => return Err(unpack_error(opening.name, 0, 0, error)),
                Err(_) => break,
            }
        }
        let unpacked = compression != super::octets::Compression::None;
        if carry.is_empty() {
            return Err(ReadError::Empty { input: name, unpacked });
        }
        let mut base = 0;
        let walker = if carry.starts_with(&[0x0a, 0x0d, 0x0d, 0x0a]) {
            info.format = Some(Format::Pcapng);
            Walker::Pcapng(Pcapng::default())
        } else if let Some(magic) = pcap::Magic::of(&carry) {
            let mut pcap = match Pcap::new(&carry) {
                Some(Ok(pcap)) => pcap,
                Some(Err(bad)) => {
                    return Err(ReadError::Version {
                        input: name,
                        format: "pcap",
                        offset: 4,
                        major: bad.major,
                        minor: bad.minor,
                        expected: "2.0 to 2.4, or 543.0",
                    });
                }
                None => {
                    let what = format!("file header of {} bytes; expected {}", carry.len(), pcap::HEADER);
                    return Err(ReadError::Truncated { input: name, offset: 0, packets: 0, what });
                }
            };
            info.format = Some(Format::Pcap {
                big_endian: magic.big_endian,
                nanoseconds: magic.nanoseconds,
                modified: magic.modified,
            });
            info.links.push(pcap.link);
            carry.clear();
            base = pcap::HEADER as u64;
            pcap.interface = interfaces.add(InterfaceInfo {
                input: opening.input,
                link: pcap.link,
                snaplen: pcap.snaplen,
                ticks_per_second: if magic.nanoseconds { 1_000_000_000 } else { 1_000_000 },
                ..InterfaceInfo::default()
            });
            Walker::Pcap(pcap)
        } else {
            carry.truncate(8);
            return Err(ReadError::NotACapture { input: name, found: carry });
        };
        Ok(Capture {
            octets,
            walker,
            carry,
            base,
            chunk_bytes: opening.chunk_bytes,
            recover: opening.recover,
            state: State::Walking,
            failure: None,
            input: opening.input,
            info: std::mem::take(info),
            comments: Vec::new(),
        })
    }

    /// Octets taken from the file, packed as they are there.
    pub(crate) fn taken(&self) -> u64 {
        self.octets.taken()
    }

    /// Offset in the capture, unpacked, up to which it has been walked over.
    pub(crate) fn position(&self) -> u64 {
        self.base
    }

    /// Clears `chunk` and fills it with the next packets, `limits.packets` at most; no packet at the end.
    /// An error comes after all packets before it.
    pub(crate) fn fill(
        &mut self,
        chunk: &mut Chunk,
        limits: &Limits,
        interfaces: &mut Interfaces,
    ) -> Result<bool, ReadError> {
        chunk.clear();
        self.comments.clear();
        chunk.bytes.append(&mut self.carry);
        let mut at = 0;
        let mut ended = false;
        while self.state != State::Ended {
            if self.state == State::Walking {
                let walk = self.walk(chunk, at, limits, interfaces);
                at = walk.at;
                match walk.stop {
                    Stop::More(need) => {
                        if !chunk.slots.is_empty() {
                            break;
                        }
                        if ended {
                            let left = chunk.bytes.len() - at;
                            self.end(left, at, need);
                            if self.state == State::Seeking {
                                at += 1;
                                self.info.skipped_bytes += 1;
                            }
                            continue;
                        }
                    }
                    Stop::Enough => break,
                    Stop::Skip(length) => {
                        let have = (chunk.bytes.len() - at) as u64;
                        if let Walker::Pcapng(pcapng) = &self.walker {
                            pcapng.count(chunk.bytes.get(at..).unwrap_or_default(), &mut self.info);
                        }
                        self.state = State::Skipping(length - have, self.base + at as u64);
                        at = chunk.bytes.len();
                    }
                    Stop::Version(major, minor) => {
                        self.fail(if self.base + at as u64 == 0 {
                            let (input, expected) = (self.info.name.clone(), "1.0 or 1.2");
                            ReadError::Version { input, format: "pcapng", offset: 12, major, minor, expected }
                        } else {
                            let what = format!("section of version {major}.{minor}; expected 1.0 or 1.2");
                            self.corrupt(chunk, at, what)
                        });
                    }
                    Stop::Bad(what) => {
                        let error = self.corrupt(chunk, at, what);
                        self.fail(error);
                        if self.recover {
                            self.state = State::Seeking;
                            at += 1;
                            self.info.skipped_bytes += 1;
                        }
                    }
                }
                if !chunk.slots.is_empty() {
                    break;
                }
            }
            if self.state == State::Seeking {
                let (next, found) = self.seek(&chunk.bytes, at, ended);
                self.info.skipped_bytes += (next - at) as u64;
                at = next;
                if found {
                    self.info.resumed += 1;
                    self.state = State::Walking;
                    continue;
                }
                if ended {
                    self.state = State::Ended;
                    continue;
                }
            }
            if self.state == State::Ended {
                break;
            }
            // Nothing of what lies before `at` was wanted.
            chunk.bytes.drain(..at);
            self.base += at as u64;
            at = 0;
            ended = !self.more(chunk);
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

    /// Keeps what has not been walked over for the next time.
    fn keep(&mut self, chunk: &mut Chunk, at: usize) {
        self.carry.extend_from_slice(chunk.bytes.get(at..).unwrap_or_default());
        chunk.bytes.truncate(at);
        self.base += at as u64;
    }

    fn walk(&mut self, chunk: &mut Chunk, at: usize, limits: &Limits, interfaces: &mut Interfaces) -> Walk {
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

    /// Reads on; `false` at the end, and after an error.
    fn more(&mut self, chunk: &mut Chunk) -> bool {
        let start = chunk.bytes.len();
        let room = self.chunk_bytes.saturating_sub(start).max(self.chunk_bytes / 2);
        match self.octets.read(&mut chunk.bytes, room) {
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
            Err(error) => {
                // `base` is the end of the last whole record.
                self.fail(unpack_error(&self.info.name, self.base, self.info.packets, error));
                false
            }
        }
    }

    /// The file has ended; the `left` octets from `at` on are not a whole record.
    fn end(&mut self, left: usize, at: usize, need: usize) {
        self.state = State::Ended;
        if left == 0 {
            return;
        }
        let offset = self.base + at as u64;
        let what = format!("record of {need} bytes or more, of which {left} are there");
        let (input, packets) = (self.info.name.clone(), self.info.packets);
        self.fail(ReadError::Truncated { input, offset, packets, what });
        if self.recover {
            self.state = State::Seeking;
        }
    }

    fn corrupt(&self, chunk: &Chunk, at: usize, what: String) -> ReadError {
        let packets = self.info.packets + chunk.slots.len() as u64;
        let input = self.info.name.clone();
        ReadError::Corrupt { input, offset: self.base + at as u64, packets, what }
    }

    /// Notes the first thing that went wrong; unless reading goes on behind it, this is the end.
    fn fail(&mut self, error: ReadError) {
        self.failure.get_or_insert(error);
        self.state = State::Ended;
    }

    /// The next place at or after `at` where a record may start, or as far as that can be told.
    fn seek(&self, bytes: &[u8], at: usize, ended: bool) -> (usize, bool) {
        for start in at..bytes.len() {
            let rest = bytes.get(start..).unwrap_or_default();
            let verdict = match &self.walker {
                Walker::Pcap(pcap) => pcap.plausible(rest, ended),
                Walker::Pcapng(pcapng) => pcapng.plausible(rest, ended),
            };
            match verdict {
                Some(true) => return (start, true),
                Some(false) => {}
                None => return (start, false),
            }
        }
        (bytes.len(), false)
    }
}

/// What an error of the operating system, or of the unpacker, means for the reader of a capture.
fn unpack_error(name: &str, offset: u64, packets: u64, error: io::Error) -> ReadError {
    let input = name.to_owned();
    if error.raw_os_error().is_some() {
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
