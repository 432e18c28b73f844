//! Decodes every capture of ../shared/data and ../shared/breadth: nothing panics, every offset is within its limits, and
//! the required counts are reached.

use crate::pcap;
use std::collections::HashMap;
use weir_wire::header::{Header, Icmp, Ipv4, Ipv6, Tcp, Udp};
use weir_wire::{
    Checksum, ErrorKind, FlowKey, IpFragment, Layer, Layers, MAX_HEADERS, MAX_TUNNELS, Network, Packet,
    Tunnel, checksum, decapsulate, decode, innermost, steer_hash, verify,
};

/// Checks the invariants of the layers of any bytes.
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
    assert!(steer_hash(packet, layers) < 1 << 11);
}

/// A parsed header is emitted as the bytes that it was parsed from. A header that the snap length cut is not parsed.
fn identity<'a, H: Header<'a>>(packet: &Packet<'a>, at: u32, context: &str) {
    let data = &packet.data[at as usize..];
    if let Some((header, rest)) = H::parse(data) {
        let mut out = Vec::new();
        header.emit(&mut out);
        assert_eq!(out, data[..data.len() - rest.len()], "{context}");
    }
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
    /// What steers the packets of each pair of addresses outside of tunnels.
    owners: HashMap<[[u8; 16]; 2], u32>,
}

impl Tally {
    fn packet(&mut self, packet: &Packet<'_>, context: &str) {
        self.packets += 1;
        let layers = decode(packet);
        check(packet, &layers, context);
        if let Some((key, _)) = FlowKey::of(packet, &layers) {
            let owner = steer_hash(packet, &layers);
            assert_eq!(
                *self.owners.entry(key.addr).or_insert(owner),
                owner,
                "{context}: one flow, one worker"
            );
        }
        match layers.error.map(|error| error.kind) {
            Some(ErrorKind::UnknownLink) => self.unknown_link += 1,
            Some(_) => self.errors += 1,
            None => {}
        }
        self.values(packet, &layers, context);
        self.tunnels += u64::from(layers.tunnel != Tunnel::None);
        let (mut level, mut depth) = (layers, 0);
        while let Some(inner) = decapsulate(packet, &level) {
            check(packet, &inner, context);
            assert!(inner.link >= level.payload, "{context}: {level:?} {inner:?}");
            self.inner_errors += u64::from(inner.error.is_some());
            self.values(packet, &inner, context);
            level = inner;
            depth += 1;
        }
        if depth <= MAX_TUNNELS {
            assert_eq!(innermost(packet, &layers), level, "{context}");
        }
    }

    /// Checks that recomputed checksums equal the ones that were read, and that each header is emitted as it was
    /// parsed.
    fn values(&mut self, packet: &Packet<'_>, layers: &Layers, context: &str) {
        let sums = verify(packet, layers);
        self.good += u64::from(sums.transport == Checksum::Good);
        self.bad += u64::from(sums.transport == Checksum::Bad);
        if sums.transport == Checksum::Good && sums.network != Checksum::Bad {
            let mut data = packet.data.to_vec();
            assert!(checksum::fill(&mut data, layers), "{context}");
            assert_eq!(data, packet.data, "{context}");
        }
        match layers.network_kind {
            Network::Ipv4 => identity::<Ipv4>(packet, layers.network, context),
            Network::Ipv6 => identity::<Ipv6>(packet, layers.network, context),
            Network::None | Network::Arp => {}
        }
        match layers.ip_proto {
            _ if layers.transport == 0 || !layers.has_transport() => {}
            1 | 58 => identity::<Icmp>(packet, layers.transport, context),
            6 => identity::<Tcp>(packet, layers.transport, context),
            17 => identity::<Udp>(packet, layers.transport, context),
            _ => {}
        }
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

/// Packets that decode without an error. The other packets are malformed on purpose, cut by a short snap length, or of
/// a link type that is not decoded.
const REQUIRED: u64 = 80_218;

/// Tunnels found, and correct transport checksums, on any level.
const TUNNELS: u64 = 3_713;
const GOOD: u64 = 52_554;

#[test]
fn every_capture_decodes() {
    let mut files = Vec::new();
    for folder in [pcap::root(), pcap::root().with_file_name("breadth")] {
        pcap::walk(&folder, &mut files);
    }
    if files.is_empty() {
        println!("skipped: ../shared/data is absent");
        return;
    }
    files.sort();
    let (mut all, mut captures) = (Tally::default(), 0);
    for path in &files {
        let capture = pcap::Capture::read(path);
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
    let decoded = all.packets - all.errors - all.unknown_link;
    println!("passed {decoded} of {}, required {REQUIRED}", all.packets);
    assert!(decoded >= REQUIRED && all.inner_errors == 0 && all.tunnels >= TUNNELS && all.good >= GOOD);
}
