use super::{Digest, HEADERS};
use crate::{Target, seeds, sequence};
use weir_wire::{
    Checksum, FlowKey, Hints, IpFragment, Layers, LinkType, MAX_TUNNELS, Packet, Time, addresses, checksum,
    decapsulate, decode, innermost, is_pseudo_header_sum, steer_hash, verify,
};

pub const TARGET: Target = Target {
    name: "wire",
    about: "a packet after the number of its link type: decoded as every link type, inward through tunnels",
    seeds: seeds::packets,
    words: HEADERS,
    run,
};

/// Maximum number of tunnel levels: a tunnel header takes bytes, so that tunnels end by themselves; this is far beyond
/// the room in a packet.
const MAX_LEVELS: usize = 70_000;

fn run(input: &[u8]) -> u64 {
    let Some((&first, data)) = input.split_first() else { return 0 };
    let mut digest = Digest::default();
    one(data, sequence::link(first & 15), &mut digest);
    let own = digest.0;
    for number in 0..=15 {
        one(data, sequence::link(number), &mut digest);
    }
    // Outcomes count as new for the intended link type.
    own
}

fn one(data: &[u8], link: LinkType, digest: &mut Digest) {
    for beyond in [0, 400] {
        let wire_len = data.len() as u32 + beyond;
        let packet =
            Packet { time: Time(0), data, wire_len, interface: 0, link, hints: Hints::default(), number: 0 };
        let mut layers = decode(&packet);
        steer_hash(&packet, &layers);
        let mut levels = 0;
        loop {
            level(&packet, &layers, digest);
            let Some(inner) = decapsulate(&packet, &layers) else { break };
            assert!(inner.link >= layers.payload, "a tunnel that goes outward: {layers:?} {inner:?}");
            layers = inner;
            levels += 1;
            assert!(levels < MAX_LEVELS);
        }
        if levels <= MAX_TUNNELS {
            assert_eq!(innermost(&packet, &decode(&packet)), layers);
        }
    }
}

fn level(packet: &Packet<'_>, layers: &Layers, digest: &mut Digest) {
    digest.add(layers.network_kind as u64);
    // Numbers of unknown protocols are no new outcome.
    digest.add(if layers.has_transport() { u64::from(layers.ip_proto) } else { 0 });
    digest.add(layers.fragment as u64);
    digest.add(layers.tunnel as u64);
    digest.add(layers.error.map_or(0, |error| 1 + error.layer as u64 * 8 + error.kind as u64));
    digest.add(u64::from(layers.vlan_count.min(3)) << 8 | u64::from(layers.mpls_count.min(3)));

    let payload = layers.payload_of(packet.data);
    assert!(payload.len() <= packet.data.len());
    assert!(layers.network >= layers.link || layers.network == 0, "{layers:?}");
    assert!(layers.transport >= layers.network || layers.transport == 0, "{layers:?}");
    FlowKey::of(packet, layers);
    addresses(packet, layers);
    IpFragment::of(packet, layers);
    is_pseudo_header_sum(packet, layers);
    let sums = verify(packet, layers);
    digest.add(sums.network as u64 * 4 + sums.transport as u64);

    // Filled-in checksums are correct: a checksum that was found wrong is no longer wrong.
    if sums.network == Checksum::Bad || sums.transport == Checksum::Bad {
        let mut bytes = packet.data.to_vec();
        if checksum::fill(&mut bytes, layers) {
            let filled = verify(&Packet { data: &bytes, ..*packet }, layers);
            assert_ne!(filled.network, Checksum::Bad, "{layers:?}");
            assert_ne!(filled.transport, Checksum::Bad, "{layers:?}");
        }
    }
}
