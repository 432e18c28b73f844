//! Reads capture files, as far as the tests need it.

use std::path::{Path, PathBuf};

use weir_wire::{LinkType, Packet};

/// Packets of a classic pcap or pcapng file, little- or big-endian, as far as it can be read.
pub struct Capture {
    data: Vec<u8>,
    packets: Vec<(LinkType, usize, usize, u32)>,
}

impl Capture {
    pub fn read(path: &Path) -> Self {
        let data = std::fs::read(path).unwrap_or_default();
        let mut capture = Self { data, packets: Vec::new() };
        let magic = capture.data.first_chunk::<4>().copied().unwrap_or_default();
        match magic {
            [0xd4, 0xc3, 0xb2, 0xa1] | [0x4d, 0x3c, 0xb2, 0xa1] => capture.classic(true),
            [0xa1, 0xb2, 0xc3, 0xd4] | [0xa1, 0xb2, 0x3c, 0x4d] => capture.classic(false),
            [0x0a, 0x0d, 0x0d, 0x0a] => capture.next_generation(),
            _ => None,
        };
        capture
    }

    fn u32(&self, at: usize, little: bool) -> Option<u32> {
        let bytes = *self.data.get(at..)?.first_chunk::<4>()?;
        Some(if little { u32::from_le_bytes(bytes) } else { u32::from_be_bytes(bytes) })
    }

    fn add(&mut self, link: u32, at: usize, len: u32, wire_len: u32) -> Option<usize> {
        let end = at.checked_add(len as usize).filter(|end| *end <= self.data.len())?;
        self.packets.push((LinkType(link as u16), at, end, wire_len));
        Some(end)
    }

    fn classic(&mut self, little: bool) -> Option<()> {
        let link = self.u32(20, little)? & 0xffff;
        let mut at = 24;
        loop {
            let (len, wire_len) = (self.u32(at + 8, little)?, self.u32(at + 12, little)?);
            at = self.add(link, at + 16, len, wire_len)?;
        }
    }

    fn next_generation(&mut self) -> Option<()> {
        let (mut at, mut little, mut links) = (0, true, Vec::new());
        loop {
            if self.data.get(at..at + 4)? == [0x0a, 0x0d, 0x0d, 0x0a] {
                little = self.u32(at + 8, true)? == 0x1a2b_3c4d;
                links.clear();
            }
            let (kind, len) = (self.u32(at, little)?, self.u32(at + 4, little)? as usize);
            match kind {
                1 => links.push(u32::from(*self.data.get(at + if little { 8 } else { 9 })?)),
                6 => {
                    let link = *links.get(self.u32(at + 8, little)? as usize)?;
                    let (len, wire_len) = (self.u32(at + 20, little)?, self.u32(at + 24, little)?);
                    self.add(link, at + 28, len, wire_len)?;
                }
                _ => {}
            }
            at = at.checked_add(len.max(12))?;
        }
    }

    pub fn packets(&self) -> impl Iterator<Item = Packet<'_>> {
        self.packets.iter().map(|&(link, start, end, wire_len)| Packet {
            wire_len,
            ..weir_wire::build::packet(&self.data[start..end], link)
        })
    }
}

/// The folder of captures that are not in the repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data")
}

/// Every file under a folder.
pub fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        if path.is_dir() {
            walk(&path, found);
        } else {
            found.push(path);
        }
    }
}
