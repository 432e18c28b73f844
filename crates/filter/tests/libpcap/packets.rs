//! Packets: those of every capture, the same packets with other link layers, and broken ones.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use weir_filter::LINK_TYPES;
use weir_wire::LinkType;

use crate::ffi::{Owned, Pcap};
use crate::grammar::Random;

/// Packets by link type.
pub type Pool = BTreeMap<LinkType, Vec<Owned>>;

fn captures(folder: &Path, found: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        if path.is_dir() {
            captures(&path, found);
        } else if path
            .extension()
            .is_some_and(|e| matches!(e.to_str(), Some("pcap" | "pcapng" | "cap" | "trace")))
        {
            found.push(path);
        }
    }
}

/// Link types for which libpcap compiles expressions: for the tags of switch chips the installed version supports only
/// bytes.
pub fn oracle() -> Vec<LinkType> {
    LINK_TYPES.iter().copied().filter(|link| !TAGGED.contains(link)).collect()
}

/// Ethernet with the tag of a switch chip.
pub const TAGGED: [LinkType; 4] =
    [LinkType::DSA_TAG_BRCM, LinkType::DSA_TAG_BRCM_PREPEND, LinkType::DSA_TAG_DSA, LinkType::DSA_TAG_EDSA];

/// Link types whose network header is found by decoding, unless the verdict has to be libpcap's.
pub const BY_LAYERS: [LinkType; 9] = [
    LinkType::SLIP,
    LinkType::SLIP_BSDOS,
    LinkType::FRELAY,
    LinkType::FRELAY_WITH_DIR,
    LinkType::PFLOG,
    LinkType::ARCNET,
    LinkType::ARCNET_LINUX,
    LinkType::NFLOG,
    LinkType::IPOIB,
];

/// Every packet of the captures that libpcap can read, at most `max` for each link type, and generated ones.
pub fn pool(max: usize) -> Pool {
    let mut files = Vec::new();
    for folder in ["data", "breadth"] {
        let shared = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared");
        captures(&shared.join(folder), &mut files);
    }
    files.sort();
    let mut pool = Pool::new();
    let mut total = 0;
    for file in &files {
        let Ok(mut pcap) = Pcap::open(file) else { continue };
        let link = pcap.link();
        while let Some(packet) = pcap.next_packet() {
            total += 1;
            pool.entry(link).or_default().push(packet);
        }
    }
    println!("{} captures, {total} packets", files.len());
    if pool.is_empty() {
        println!("skipped: ../shared/data is absent; generated packets only");
        pool.insert(LinkType::ETHERNET, vec![Owned { data: made(), wire_len: 60 }]);
    }
    pool.retain(|link, _| LINK_TYPES.contains(link));
    let frames = pool.get(&LinkType::ETHERNET).cloned().unwrap_or_default();
    for link in LINK_TYPES {
        let packets = pool.entry(*link).or_default();
        // A link type that few captures have gets converted Ethernet packets.
        if packets.len() < 20_000 {
            let step = (frames.len() / 20_000).max(1);
            packets.extend(frames.iter().step_by(step).filter_map(|f| reframe(f, *link)));
        }
        if packets.len() > max {
            let step = packets.len().div_ceil(max);
            *packets = packets.iter().step_by(step).cloned().collect();
        }
    }
    pool
}

/// A TCP SYN from 10.0.0.1 to 10.0.0.2.
fn made() -> Vec<u8> {
    let mut frame = vec![2; 12];
    frame.extend([8, 0, 0x45, 0, 0, 40, 0, 0, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    frame.extend([0x12, 0x34, 0, 80, 0, 0, 0, 1, 0, 0, 0, 0, 0x50, 2, 1, 0, 0, 0, 0, 0]);
    frame
}

/// The network packet of an Ethernet frame with another link layer.
pub fn reframe(frame: &Owned, link: LinkType) -> Option<Owned> {
    let (header, payload) = frame.data.split_at_checked(14)?;
    let kind = [header[12], header[13]];
    let mut data = match link {
        LinkType::RAW => Vec::new(),
        LinkType::IPV4 if kind == [8, 0] => Vec::new(),
        LinkType::IPV6 if kind == [0x86, 0xdd] => Vec::new(),
        LinkType::NULL => vec![if kind == [8, 0] { 2 } else { 24 }, 0, 0, 0],
        LinkType::LOOP => vec![0, 0, 0, if kind == [8, 0] { 2 } else { 30 }],
        LinkType::LINUX_SLL => {
            vec![0, header[0] & 4, 0, 1, 0, 6, header[6], header[7], 0, 0, 0, 0, 0, 0, kind[0], kind[1]]
        }
        LinkType::LINUX_SLL2 => {
            vec![kind[0], kind[1], 0, 0, 0, 0, 0, 3, 0, 1, header[0] & 4, 6, header[6], 0, 0, 0, 0, 0, 0, 0]
        }
        LinkType::PPP | LinkType::PPP_HDLC => vec![0xff, 3, 0, if kind == [8, 0] { 0x21 } else { 0x57 }],
        LinkType::C_HDLC => vec![0x0f, 0, kind[0], kind[1]],
        LinkType::NFLOG => {
            let len = (payload.len() as u16 + 4).to_le_bytes();
            let family = if kind == [8, 0] { 2 } else { 10 };
            vec![family, 0, 0, 5, 8, 0, 1, 0, kind[0], kind[1], 0, 0, len[0], len[1], 9, 0]
        }
        LinkType::PFLOG => {
            let mut data = vec![61, if kind == [8, 0] { 2 } else { 10 }, header[5] & 1, header[11] & 7];
            data.extend(b"em0\0\0\0\0\0\0\0\0\0\0\0\0\0authpf\0\0\0\0\0\0\0\0\0\0");
            data.extend([0, 0, 0, header[11] & 3, 0xff, 0xff, 0xff, 0xff]);
            data.extend([0; 16]);
            data.extend([1 + (header[0] & 1), 0, 0, 0]);
            data
        }
        // libpcap looks for the version of IP in the direction byte before it.
        LinkType::SLIP | LinkType::SLIP_BSDOS => {
            let mut data = vec![0; if link == LinkType::SLIP { 16 } else { 24 }];
            data[0] = [0, 1, 0x45, 0x60][usize::from(header[5] & 3)];
            data
        }
        LinkType::FRELAY => vec![0x18, 0x41, 3, if kind == [8, 0] { 0xcc } else { 0x8e }],
        LinkType::FRELAY_WITH_DIR => {
            vec![header[0] & 1, 0x18, 0x41, 3, if kind == [8, 0] { 0xcc } else { 0x8e }]
        }
        LinkType::FDDI => [&[0x50], &header[..12], &[0xaa, 0xaa, 3, 0, 0, 0], &kind].concat(),
        LinkType::IPOIB => [&[0; 40], &kind[..], &[0, 0]].concat(),
        LinkType::ARCNET | LinkType::ARCNET_LINUX => {
            let kind = match kind {
                [8, 0] => 212,
                [8, 6] => 213,
                [0x86, 0xdd] => 196,
                _ => return None,
            };
            let offset = if link == LinkType::ARCNET { 0 } else { 2 };
            [&[header[11], header[5] & 3][..], &[0; 2][..offset], &[kind, 0, 0, 1]].concat()
        }
        LinkType::DSA_TAG_BRCM | LinkType::DSA_TAG_DSA => {
            [&header[..12], &[header[5] << 5, 1, 2, 3], &kind].concat()
        }
        LinkType::DSA_TAG_EDSA => {
            [&header[..12], &[0xda, 0xda, 0, 0, header[5] << 6, 1, 2, 3], &kind].concat()
        }
        LinkType::DSA_TAG_BRCM_PREPEND => [&[header[5] << 5, 1, 2, 3], header].concat(),
        LinkType::PPP_ETHER => vec![0x11, 0, 0, 1, 0, 40, 0, if kind == [8, 0] { 0x21 } else { 0x57 }],
        LinkType::IEEE802_11 | LinkType::IEEE802_11_RADIOTAP | LinkType::PPI => {
            let mut data = Vec::new();
            if link == LinkType::PPI {
                data.extend([0, 0, 8, 0, 105, 0, 0, 0]);
            }
            if link == LinkType::IEEE802_11_RADIOTAP {
                data.extend([0, 0, 9, 0, 2, 0, 0, 0, header[11] & 0x20]);
            }
            data.extend([if header[5] & 1 == 0 { 0x08 } else { 0x88 }, header[4] & 3, 0, 0]);
            data.extend(&header[..12]);
            data.extend(&header[..6]);
            data.extend([0, 0]);
            if header[5] & 1 == 1 {
                data.extend([0, 0]);
            }
            data.extend([0xaa, 0xaa, 3, 0, 0, 0, kind[0], kind[1]]);
            data
        }
        _ => return None,
    };
    let wire_len = frame.wire_len - 14 + data.len() as u32;
    data.extend(payload);
    Some(Owned { data, wire_len })
}

/// A packet with one or two VLAN tags, if its link type can have them. Few identifiers are used, so that expressions
/// match them.
pub fn tagged(r: &mut Random, mut packet: Owned, link: LinkType) -> Owned {
    // Offset of its type, and offset of the payload after the type.
    let (kind_at, payload) = match link {
        LinkType::ETHERNET => (12, 14),
        LinkType::LINUX_SLL => (14, 16),
        LinkType::LINUX_SLL2 => (0, 20),
        _ => return packet,
    };
    let data = &mut packet.data;
    if data.len() < payload {
        return packet;
    }
    for _ in 0..1 + r.below(5) / 4 {
        let announces = [[0x81, 0x00], [0x81, 0x00], [0x88, 0xa8], [0x91, 0x00], [0x92, 0x00]][r.below(5)];
        let control = [0, 1, 5, 5, 6, 6, 7, 100, 4095][r.below(9)] | (r.below(8) as u16) << 13;
        let kind = [data[kind_at], data[kind_at + 1]];
        data[kind_at..kind_at + 2].copy_from_slice(&announces);
        data.splice(payload..payload, control.to_be_bytes().into_iter().chain(kind));
        packet.wire_len += 4;
    }
    packet
}

/// A packet of the pool, unchanged or broken.
pub fn any(r: &mut Random, packets: &[Owned]) -> Owned {
    let mut packet = packets[r.below(packets.len())].clone();
    let data = &mut packet.data;
    match r.below(6) {
        0 | 1 => {}
        2 => {
            // Truncated, usually within the headers.
            let max = if r.one_in(4) { data.len() } else { data.len().min(80) };
            data.truncate(r.below(max + 1));
        }
        _ => {
            for _ in 0..1 + r.below(6) {
                let max = if r.one_in(4) { data.len() } else { data.len().min(64) };
                if max == 0 {
                    break;
                }
                let at = r.below(max);
                data[at] = match r.below(3) {
                    0 => data[at] ^ 1 << r.below(8),
                    1 => r.below(256) as u8,
                    // Values that are significant in some header.
                    _ => {
                        [0x45, 0x60, 6, 17, 1, 58, 44, 51, 0, 4, 0x81, 0x86, 0xdd, 8, 0x88, 0x47][r.below(16)]
                    }
                };
            }
            if r.one_in(4) {
                data.truncate(r.below(data.len() + 1));
            }
        }
    }
    if r.one_in(8) {
        packet.wire_len = data.len() as u32 + r.below(2000) as u32;
    }
    packet.wire_len = packet.wire_len.max(packet.data.len() as u32);
    packet
}
