//! Helpers of the tests: files made by hand, reading to the end, and the captures of other projects.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use weir_capture::{Comment, Files, Input, InputInfo, ReadError, ReadOptions};
use weir_wire::{LinkType, PacketBuf, Time};

/// A packet, copied out of its buffer.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Owned {
    pub time: Time,
    pub data: Vec<u8>,
    pub wire_len: u32,
    pub interface: u32,
    pub link: LinkType,
    pub comments: Vec<String>,
}

/// The result of reading.
#[derive(Debug, Default)]
pub struct Outcome {
    pub packets: Vec<Owned>,
    pub errors: Vec<ReadError>,
    pub inputs: Vec<InputInfo>,
    pub interfaces: usize,
}

pub fn read(inputs: &[Input], options: &ReadOptions) -> Outcome {
    read_by(inputs, options, 1).0
}

/// Reads with several threads, each of which reads blocks and parses them in turn. Returns also how many blocks were read so.
pub fn read_by(inputs: &[Input], options: &ReadOptions, threads: usize) -> (Outcome, usize) {
    let mut outcome = Outcome::default();
    let files = match Files::open(inputs, options) {
        Ok(files) => files,
        Err(error) => {
            outcome.errors.push(error);
            return (outcome, 0);
        }
    };
    let (ahead, shared) = (files.ahead(), Mutex::new((files, outcome, false)));
    let blocks = AtomicUsize::new(0);
    let work = || {
        let mut chunk = PacketBuf::default();
        loop {
            if threads > 1 && ahead.read() {
                blocks.fetch_add(1, Ordering::Relaxed);
            }
            let mut shared = shared.lock().unwrap();
            let (files, outcome, ended) = &mut *shared;
            if *ended || !outcome.fill(files, &mut chunk) {
                *ended = true;
                ahead.clear();
                break;
            }
        }
    };
    std::thread::scope(|scope| {
        (1..threads).for_each(|_| drop(scope.spawn(work)));
        work();
    });
    let (mut files, mut outcome, _) = shared.into_inner().unwrap();
    assert!(!files.fill(&mut PacketBuf::default()).unwrap(), "no packets follow the end");
    outcome.inputs = files.describe().cloned().collect();
    outcome.interfaces = files.interfaces().len();
    assert_eq!(files.progress().packets, outcome.packets.len() as u64);
    let counted: u64 = outcome.inputs.iter().map(|input| input.packets).sum();
    assert!(counted >= outcome.packets.len() as u64);
    (outcome, blocks.into_inner())
}

impl Outcome {
    /// Adds the next packets, or an error; `false` at the end.
    fn fill(&mut self, files: &mut Files, chunk: &mut PacketBuf) -> bool {
        match files.fill(chunk) {
            Ok(true) => {
                assert!(!chunk.slots.is_empty());
                for (slot, packet) in chunk.batch().packets().enumerate() {
                    let described = &chunk.slots[slot];
                    assert_eq!(
                        packet.data.len(),
                        described.len as usize,
                        "a slot points outside of the bytes"
                    );
                    let of_slot = |comment: &&Comment| comment.slot == slot;
                    self.packets.push(Owned {
                        time: packet.time,
                        data: packet.data.to_vec(),
                        wire_len: packet.wire_len,
                        interface: packet.interface,
                        link: packet.link,
                        comments: files.comments().iter().filter(of_slot).map(|it| it.text.clone()).collect(),
                    });
                }
            }
            Ok(false) => return false,
            Err(error) => self.errors.push(error),
        }
        true
    }
}

pub fn read_path(path: &Path) -> Outcome {
    read(&[Input::Path(path.to_owned())], &ReadOptions::default())
}

pub fn read_bytes(bytes: &[u8]) -> Outcome {
    read_bytes_with(bytes, &ReadOptions::default())
}

pub fn read_bytes_with(bytes: &[u8], options: &ReadOptions) -> Outcome {
    let directory = scratch();
    let path = directory.path().join("bytes");
    std::fs::write(&path, bytes).unwrap();
    read(&[Input::Path(path)], options)
}

/// A folder in memory if possible: on a busy disk these tests took ten times as long.
pub fn scratch() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

/// A little-endian classic pcap file of Ethernet packets: (nanoseconds, bytes).
pub fn pcap(packets: &[(u64, &[u8])]) -> Vec<u8> {
    let mut file = pcap_header(0xa1b2_3c4d, 1);
    for (time, data) in packets {
        record(&mut file, *time, data);
    }
    file
}

pub fn pcap_header(magic: u32, link: u32) -> Vec<u8> {
    let mut file = magic.to_le_bytes().to_vec();
    file.extend([2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    file.extend(65_535_u32.to_le_bytes());
    file.extend(link.to_le_bytes());
    file
}

pub fn record(file: &mut Vec<u8>, time: u64, data: &[u8]) {
    let length = data.len() as u32;
    for field in [(time / 1_000_000_000) as u32, (time % 1_000_000_000) as u32, length, length] {
        file.extend(field.to_le_bytes());
    }
    file.extend_from_slice(data);
}

/// A pcapng block in either byte order; the body is padded.
pub fn block(big: bool, kind: u32, body: &[u8]) -> Vec<u8> {
    let mut body = body.to_vec();
    body.resize(body.len().next_multiple_of(4), 0);
    let length = words(big, &[body.len() as u32 + 12]);
    [words(big, &[kind]), length.clone(), body, length].concat()
}

pub fn words(big: bool, fields: &[u32]) -> Vec<u8> {
    fields.iter().flat_map(|field| if big { field.to_be_bytes() } else { field.to_le_bytes() }).collect()
}

pub fn halves(big: bool, fields: &[u16]) -> Vec<u8> {
    fields.iter().flat_map(|field| if big { field.to_be_bytes() } else { field.to_le_bytes() }).collect()
}

pub fn section(big: bool) -> Vec<u8> {
    let body = [words(big, &[0x1a2b_3c4d]), halves(big, &[1, 0]), vec![0xff; 8]].concat();
    block(big, 0x0a0d_0d0a, &body)
}

pub fn interface(big: bool, link: u16, options: &[u8]) -> Vec<u8> {
    block(big, 1, &[halves(big, &[link, 0]), words(big, &[0]), options.to_vec()].concat())
}

pub fn option(big: bool, code: u16, value: &[u8]) -> Vec<u8> {
    let mut option = halves(big, &[code, value.len() as u16]);
    option.extend_from_slice(value);
    option.resize(option.len().next_multiple_of(4), 0);
    option
}

pub fn enhanced(big: bool, number: u32, ticks: u64, data: &[u8], options: &[u8]) -> Vec<u8> {
    let length = data.len() as u32;
    let mut body = words(big, &[number, (ticks >> 32) as u32, ticks as u32, length, length]);
    body.extend_from_slice(data);
    body.resize(body.len().next_multiple_of(4), 0);
    body.extend_from_slice(options);
    block(big, 6, &body)
}

pub fn gzip(bytes: &[u8]) -> Vec<u8> {
    use std::io::Write;
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

pub fn zstandard(bytes: &[u8]) -> Vec<u8> {
    zstd::bulk::compress(bytes, 3).unwrap()
}

/// The folder with the captures of other projects; `None` if it is absent.
pub fn shared() -> Option<PathBuf> {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    if data.is_dir() {
        return Some(data);
    }
    println!("skipped: ../shared/data is absent");
    None
}

/// Every file under `directory`, in name order.
pub fn walk(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![directory.to_owned()];
    while let Some(next) = open.pop() {
        for entry in std::fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { open.push(path) } else { found.push(path) }
        }
    }
    found.sort();
    found
}

/// Whether a file has the content or the name of a capture.
pub fn is_capture(path: &Path) -> bool {
    let mut head = [0; 4];
    let known = std::fs::File::open(path)
        .and_then(|mut file| std::io::Read::read_exact(&mut file, &mut head))
        .is_ok_and(|()| {
            let value = u32::from_be_bytes(head);
            matches!(value, 0xa1b2_c3d4 | 0xd4c3_b2a1 | 0xa1b2_3c4d | 0x4d3c_b2a1 | 0x0a0d_0d0a)
                || head.starts_with(&[0x1f, 0x8b])
        });
    known || path.extension().is_some_and(|end| ["pcap", "pcapng", "cap"].iter().any(|name| end == *name))
}
