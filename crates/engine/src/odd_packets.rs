//! What is odd about single packets, fragments and windows, told once for each flow, and of fragments once in ten minutes for two
//! hosts.
//!
//! The conditions are those of Zeek's analyzers of packets (`packet_analysis/protocol/{ip,tcp,udp,icmp}`, `IP.cc`, `Frag.cc`).

use std::collections::HashMap;
use weir_flow::defrag::OddFragment;
use weir_flow::{FlowIdentity, FlowPacket, MAX_SCALE, Oddities, Rows, Windows, window_scale};
use weir_proto::{OddPacket, Record, odd_packet, odd_segment};
use weir_wire::build::flags::SYN;
use weir_wire::{
    DecodeError, Direction, ErrorKind, FlowKey, Fragment, IpFragment, Layer, Layers, Network, Packet, Time,
};

/// Nanoseconds after which fragments of two hosts are told again: Zeek's time for repeated rows (`weird_ignore`).
const AGAIN: u64 = 600_000_000_000;
/// Maximum number of pairs of hosts that are remembered. If there are more, all are forgotten: a row is repeated then.
const MAX_PAIRS: usize = 4096;

/// IP protocols.
const TCP: u8 = 6;
const UDP: u8 = 17;
const GRE: u8 = 47;
const FRAGMENT: u8 = 44;
const NO_NEXT: u8 = 59;
const ICMPV6: u8 = 58;

/// A set of oddities.
#[derive(Clone, Copy, Default)]
struct Told(u64);

impl Told {
    /// Adds an oddity; whether it is new.
    fn add(&mut self, odd: OddPacket) -> bool {
        let is_new = self.0 & odd.bit() == 0;
        self.0 |= odd.bit();
        is_new
    }
}

/// The oddities of open flows and of pairs of hosts that were told.
#[derive(Default)]
pub(crate) struct OddPackets {
    flows: Rows<Told>,
    /// By the hosts of fragments, the sender first: the time of the first row, and what was told since.
    hosts: HashMap<FlowKey, (Time, Told)>,
    windows: Windows,
}

impl OddPackets {
    /// Emits what is odd about a packet and was not told of its flow.
    pub fn packet(&mut self, seen: &FlowPacket<'_>, mut emit: impl FnMut(Record<'static>)) {
        let FlowPacket { packet, layers, .. } = seen;
        of_packet(packet, layers, &mut |odd, detail| {
            if self.flows.make(seen.row).is_some_and(|told| told.add(odd)) {
                emit(record(odd, detail(), packet, layers, seen.direction));
            }
        });
        for name in self.windows.packet(seen).into_iter().flat_map(Oddities::names) {
            emit(odd_segment(name, seen.direction, packet.time));
        }
    }

    /// Emits that a packet's TCP, UDP or ICMP checksum is wrong if it was not told of its flow.
    pub fn wrong_checksum(&mut self, seen: &FlowPacket<'_>, mut emit: impl FnMut(Record<'static>)) {
        let odd = match seen.layers.ip_proto {
            TCP => OddPacket::TcpChecksum,
            UDP => OddPacket::UdpChecksum,
            _ => OddPacket::IcmpChecksum,
        };
        if self.flows.make(seen.row).is_some_and(|told| told.add(odd)) {
            emit(record(odd, String::new(), seen.packet, seen.layers, seen.direction));
        }
    }

    /// Emits that the checksum of a packet's IPv4 header is wrong if it was not reported of its hosts.
    pub fn wrong_header(
        &mut self,
        packet: &Packet<'_>,
        layers: &Layers,
        mut emit: impl FnMut(&FlowIdentity, Record<'static>),
    ) {
        if let Some((hosts, flow)) = between(packet, layers)
            && self.is_new(hosts, packet.time, OddPacket::IpChecksum)
        {
            emit(&flow, record(OddPacket::IpChecksum, String::new(), packet, layers, Direction::Forward));
        }
    }

    /// Whether an oddity was not told of two hosts in the last ten minutes. It is told now.
    fn is_new(&mut self, hosts: FlowKey, now: Time, odd: OddPacket) -> bool {
        if self.hosts.len() >= MAX_PAIRS && !self.hosts.contains_key(&hosts) {
            self.hosts.clear();
        }
        let (since, told) = self.hosts.entry(hosts).or_insert((now, Told::default()));
        if now.since(*since) >= AGAIN {
            (*since, *told) = (now, Told::default());
        }
        told.add(odd)
    }

    /// Emits what is odd about a fragment and was not reported of its hosts. `beside`: what is odd beside the fragments before it.
    pub fn fragment(
        &mut self,
        packet: &Packet<'_>,
        layers: &Layers,
        beside: OddFragment,
        mut emit: impl FnMut(&FlowIdentity, Record<'static>),
    ) {
        of_fragment(packet, layers, beside, &mut |odd, detail| {
            let Some((hosts, flow)) = between(packet, layers) else { return };
            if self.is_new(hosts, packet.time, odd) {
                emit(&flow, record(odd, detail(), packet, layers, Direction::Forward));
            }
        });
    }

    /// Forgets the flow of a row.
    pub fn end(&mut self, row: u32) {
        self.windows.end(row);
        if let Some(told) = self.flows.get_mut(row) {
            *told = Told::default();
        }
    }

    /// Memory in bytes.
    pub fn memory(&self) -> usize {
        self.flows.memory()
            + self.windows.memory()
            + self.hosts.capacity() * size_of::<(FlowKey, (Time, Told))>()
    }
}

fn record(
    odd: OddPacket,
    detail: String,
    packet: &Packet<'_>,
    layers: &Layers,
    direction: Direction,
) -> Record<'static> {
    let record = odd_packet(odd, layers.ip_proto, layers.within != 0, detail, direction, packet.time);
    Record { packet: packet.number, ..record }
}

/// The sender and the receiver of a packet, as a key with the sender first, and as a flow without ports that the sender begins.
fn between(packet: &Packet<'_>, layers: &Layers) -> Option<(FlowKey, FlowIdentity)> {
    // Without ports, and without the types of ICMP in their place, the lower address is first.
    let (key, initiator_is_lower) = FlowKey::of(packet, &Layers { ports: [0; 2], ip_proto: 0, ..*layers })?;
    let [lower, higher] = key.addr;
    let hosts = FlowKey { addr: if initiator_is_lower { [lower, higher] } else { [higher, lower] }, ..key };
    let key = FlowKey { proto: layers.ip_proto, ..key };
    Some((hosts, FlowIdentity { key, initiator_is_lower, first: packet.time, vlan: layers.vlan, alias: 0 }))
}

/// Takes an oddity, and its detail when it is needed.
type Note<'n> = &'n mut dyn FnMut(OddPacket, &dyn Fn() -> String);

fn nothing() -> String {
    String::new()
}

/// The 16-bit value at an offset, in network byte order.
fn word(data: &[u8], at: u32) -> Option<u16> {
    data.get(at as usize..)?.first_chunk().copied().map(u16::from_be_bytes)
}

/// Length in bytes of an IP packet as its header states it, 0 if IPv4 states 0; `None` for packets other than IP.
fn stated(packet: &Packet<'_>, layers: &Layers) -> Option<u32> {
    match layers.network_kind {
        Network::Ipv4 => word(packet.data, layers.network + 2).map(u32::from),
        Network::Ipv6 => word(packet.data, layers.network + 4).map(|len| 40 + u32::from(len)),
        Network::None | Network::Arp => None,
    }
}

/// What is odd about a whole packet.
fn of_packet(packet: &Packet<'_>, layers: &Layers, note: Note<'_>) {
    let Some(stated) = stated(packet, layers) else { return };
    if stated == 0 {
        note(OddPacket::IpLenZero, &nothing);
    }
    if stated > layers.network_len {
        // Zeek goes no further with such a packet.
        return note(OddPacket::IpLenBeyondFrame, &nothing);
    }
    if layers.common {
        return of_transport(packet, layers, stated, note);
    }
    let network_cut = DecodeError { layer: Layer::Network, kind: ErrorKind::Truncated };
    if layers.transport == 0 {
        if layers.network_kind == Network::Ipv4 && layers.error == Some(network_cut) {
            note(OddPacket::IpHeaderNotCaptured, &nothing);
        }
        return;
    }
    if layers.network_kind == Network::Ipv6 && layers.extended {
        of_routing(packet.data, layers, note);
        // What is odd about a fragment is reported of its hosts.
        if layers.fragment == Fragment::Whole {
            of_fragment_headers(packet.data, layers, layers.transport, note);
        }
    }
    match layers.network_kind {
        // A Teredo bubble has no next header, and layers do not tell which tunnel a packet is in.
        Network::Ipv6 if layers.ip_proto == NO_NEXT && layers.within == 0 => {
            note(OddPacket::NoNextHeader, &nothing);
        }
        // Zeek does not look after AH in IPv4.
        Network::Ipv4 if layers.extended => {}
        _ => of_transport(packet, layers, stated, note),
    }
}

/// The extension headers of an IPv6 packet that begin before an offset, each with its type and its first bytes.
fn extensions(data: &[u8], layers: &Layers, end: u32) -> impl Iterator<Item = (u8, [u8; 8])> {
    const AH: u8 = 51;
    let start = layers.network as usize;
    let mut rest = data.get(start + 40..end as usize).unwrap_or_default();
    let mut next = data.get(start + 6).copied().unwrap_or(NO_NEXT);
    std::iter::from_fn(move || {
        let header = *rest.first_chunk::<8>()?;
        let [after, len, ..] = header;
        let kind = std::mem::replace(&mut next, after);
        let size = match kind {
            FRAGMENT => 8,
            AH => (usize::from(len) + 2) * 4,
            _ => (usize::from(len) + 1) * 8,
        };
        rest = rest.get(size..).unwrap_or_default();
        Some((kind, header))
    })
}

/// IPv6 routing headers (RFC 8200 4.4) before the transport header.
#[cold]
fn of_routing(data: &[u8], layers: &Layers, note: Note<'_>) {
    const ROUTING: u8 = 43;
    let mut has_destination = false;
    for (_, [_, len, kind, left, ..]) in
        extensions(data, layers, layers.transport).filter(|(next, _)| *next == ROUTING)
    {
        if has_destination {
            note(OddPacket::RoutingTwice, &nothing);
        } else {
            match kind {
                // Each address takes two units of the length.
                0 if left > 0 && len >= 2 && len % 2 == 1 => {
                    note(OddPacket::Routing0Len, &nothing);
                }
                0 => has_destination = left > 0 && len >= 2,
                2 if left > 0 && len != 2 => note(OddPacket::Routing2Len, &nothing),
                2 => has_destination = left > 0,
                _ => note(OddPacket::RoutingType, &|| kind.to_string()),
            }
            if kind == 0 {
                note(OddPacket::Routing0, &nothing);
            }
        }
    }
}

/// Fragment headers of IPv6 that begin before an offset.
#[cold]
fn of_fragment_headers(data: &[u8], layers: &Layers, end: u32, note: Note<'_>) {
    /// The offset, and whether more fragments follow.
    const FIELD: u16 = 0xfff9;
    let headers = extensions(data, layers, end).filter(|(next, _)| *next == FRAGMENT);
    for (at, (_, [_, _, high, low, ..])) in headers.enumerate() {
        if u16::from_be_bytes([high, low]) & FIELD == 0 {
            note(OddPacket::FragmentHeaderUseless, &nothing);
        }
        if at > 0 {
            note(OddPacket::FragmentHeaderTwice, &nothing);
        }
    }
}

/// TCP, UDP, ICMP and ICMPv6.
fn of_transport(packet: &Packet<'_>, layers: &Layers, stated: u32, note: Note<'_>) {
    let end = layers.network.saturating_add(layers.network_len) as usize;
    let whole = packet.data.get(..end).unwrap_or(packet.data);
    let captured = whole.get(layers.transport as usize..).unwrap_or_default();
    let min = match layers.ip_proto {
        TCP => 20,
        UDP | 1 | ICMPV6 => 8,
        GRE => return of_gre(captured, note),
        _ => return,
    };
    let len = (layers.network + stated).saturating_sub(layers.transport);
    if len > 0 && len < min {
        return note(OddPacket::ShortHeader, &nothing);
    }
    if captured.len() < min as usize {
        return note(OddPacket::HeaderNotCaptured, &nothing);
    }
    // A packet that the sender's card has yet to split states no length.
    let len = if len == 0 { captured.len() as u32 } else { len };
    match layers.ip_proto {
        TCP => {
            let header = captured.get(12).map_or(0, |offset| u32::from(offset >> 4) * 4);
            if header < min {
                note(OddPacket::TcpHeaderLen, &nothing);
            } else if header > len || header as usize > captured.len() {
                note(OddPacket::TcpHeaderCut, &nothing);
            } else if layers.tcp_flags & SYN != 0
                && let Some(scale) = captured.get(..header as usize).and_then(window_scale)
                && scale > MAX_SCALE
            {
                note(OddPacket::WindowScale, &|| scale.to_string());
            }
        }
        UDP => {
            let own = word(captured, 4).unwrap_or_default();
            if u32::from(own) != len {
                note(OddPacket::UdpLen, &|| format!("{own} != {len}"));
            }
        }
        ICMPV6 if layers.network_kind == Network::Ipv6 => of_icmpv6(captured, note),
        _ => {}
    }
}

/// GRE (RFC 2784, RFC 2890, and version 1 of RFC 2637). A tunnel whose content is read is none of these.
#[cold]
fn of_gre(message: &[u8], note: Note<'_>) {
    /// Flags of the first word, and its version.
    const CHECKSUM: u16 = 0x8000;
    const ROUTING: u16 = 0x4000;
    const KEY: u16 = 0x2000;
    const SEQUENCE: u16 = 0x1000;
    const ACKNOWLEDGEMENT: u16 = 0x0080;
    const RESERVED: u16 = 0x0078;
    const VERSION: u16 = 7;
    /// PPP, the only content of version 1, and its protocols IPv4 and IPv6.
    const PPP: u16 = 0x880b;
    const PPP_IP: [u16; 2] = [0x0021, 0x0057];
    let (Some(flags), Some(carries)) = (word(message, 0), word(message, 2)) else {
        return note(OddPacket::GreCut, &nothing);
    };
    let version = flags & VERSION;
    if version > 1 {
        return note(OddPacket::GreVersion, &|| format!("version={version}"));
    }
    if version == 1 && carries != PPP {
        return note(OddPacket::GreProtocol, &|| format!("proto={carries}"));
    }
    if flags & ROUTING != 0 {
        return note(OddPacket::GreRouting, &nothing);
    }
    if flags & RESERVED != 0 {
        return note(OddPacket::GreFlags, &nothing);
    }
    let optional = [CHECKSUM, KEY, SEQUENCE, ACKNOWLEDGEMENT];
    let header = 4 + 4 * optional.into_iter().filter(|flag| flags & flag != 0).count();
    let Some(content) = message.get(header..) else { return note(OddPacket::GreCut, &nothing) };
    // Ethernet: transparent bridging, and ERSPAN of types I to III, of which the second and third have headers.
    let content_min = match (version, carries) {
        (1, _) => 4,
        (_, 0x6558) => 15,
        (_, 0x88be) if flags & SEQUENCE != 0 => 22,
        (_, 0x88be) => 15,
        (_, 0x22eb) => 27,
        _ => 0,
    };
    if content.len() < content_min {
        note(OddPacket::GreCut, &nothing);
    } else if version == 1 && !word(content, 2).is_some_and(|protocol| PPP_IP.contains(&protocol)) {
        note(OddPacket::GreContent, &nothing);
    }
}

/// Neighbour discovery (RFC 4861) and MLD (RFC 2710, RFC 3810).
fn of_icmpv6(message: &[u8], note: Note<'_>) {
    let (Some(kind), Some(body)) = (message.first(), message.get(8..)) else { return };
    let (cut, fixed) = match kind {
        131 | 132 => {
            if body.len() < 16 {
                note(OddPacket::Mld1Cut, &nothing);
            }
            return;
        }
        143 => return of_mld2(word(message, 6).unwrap_or_default(), body, note),
        // A router solicitation has nothing before its options.
        133 => (None, 0),
        134 => (Some(OddPacket::RouterAdvertisementCut), 8),
        135 => (Some(OddPacket::NeighborSolicitationCut), 16),
        136 => (Some(OddPacket::NeighborAdvertisementCut), 16),
        137 => (Some(OddPacket::RedirectCut), 32),
        _ => return,
    };
    let Some(mut options) = body.get(fixed..) else {
        if let Some(cut) = cut {
            note(cut, &|| format!("{fixed} (length {})", body.len()));
        }
        return;
    };
    // An option that ends after the message is none to Zeek: only what precedes its length counts.
    loop {
        options = match options {
            [] => return,
            [_] => return note(OddPacket::NdOptionCut, &nothing),
            [_, 0, ..] => return note(OddPacket::NdOptionZero, &nothing),
            [_, units, ..] => options.get(usize::from(*units) * 8..).unwrap_or_default(),
        };
    }
}

/// The records of a report of MLD version 2: type, length of auxiliary data in units of 4 bytes, number of sources, the group's
/// address and 16 bytes for each source (RFC 3810 5.2.4).
fn of_mld2(count: u16, body: &[u8], note: Note<'_>) {
    if body.len() < usize::from(count) * 20 {
        return note(OddPacket::Mld2Cut, &nothing);
    }
    let mut rest = body;
    for _ in 0..count {
        if rest.is_empty() {
            return;
        }
        let size = rest.first_chunk::<4>().map(|&[_, auxiliary, high, low]| {
            20 + usize::from(auxiliary) * 4 + usize::from(u16::from_be_bytes([high, low])) * 16
        });
        match size.and_then(|size| rest.get(size..)) {
            Some(next) => rest = next,
            None => return note(OddPacket::Mld2RecordCut, &nothing),
        }
    }
}

/// What is odd about a fragment.
fn of_fragment(packet: &Packet<'_>, layers: &Layers, beside: OddFragment, note: Note<'_>) {
    /// The smallest total length of a fragment before the last one, and the highest end of a fragment, in bytes.
    const SMALL: u32 = 64;
    const LARGE: u32 = 64_000;
    let Some(stated) = stated(packet, layers) else { return };
    if stated > layers.network_len {
        return note(OddPacket::IpLenBeyondFrame, &nothing);
    }
    let Some(fragment) = IpFragment::of(packet, layers) else { return };
    if fragment.data.len() < fragment.len as usize {
        return note(OddPacket::FragmentNotCaptured, &nothing);
    }
    let is_v6 = layers.network_kind == Network::Ipv6;
    if is_v6 {
        of_fragment_headers(packet.data, layers, fragment.start, note);
    }
    let has_df = layers.network_kind == Network::Ipv4
        && word(packet.data, layers.network + 6).is_some_and(|field| field & 0x4000 != 0);
    for (odd, is_so) in [
        (OddPacket::FragmentProtocol, beside.header),
        (OddPacket::FragmentDf, has_df),
        (OddPacket::FragmentSmall, fragment.more && layers.network_len < SMALL),
        (OddPacket::FragmentLarge, fragment.offset + fragment.len > LARGE),
        (OddPacket::FragmentSize, beside.size),
        (OddPacket::FragmentOverlap, beside.overlap && !beside.conflict),
        (OddPacket::FragmentConflict, beside.conflict),
        (OddPacket::FragmentLen, is_v6 && fragment.more && fragment.len % 8 != 0),
    ] {
        if is_so {
            note(odd, &nothing);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_proto::Value;
    use weir_wire::build::{self, Builder, flags};
    use weir_wire::{LinkType, decode};

    const LOW: [u8; 4] = [10, 0, 0, 1];
    const HIGH: [u8; 4] = [10, 0, 0, 2];

    fn v4() -> Builder {
        build::ip().ipv4(LOW, HIGH)
    }

    fn v6() -> Builder {
        build::ip().ipv6([0x20; 16], [0x21; 16])
    }

    /// What is odd about a packet of which `captured` bytes were captured.
    fn cut(data: &[u8], captured: usize) -> Vec<(OddPacket, String)> {
        let packet =
            Packet { wire_len: data.len() as u32, ..build::packet(&data[..captured], LinkType::RAW) };
        let (layers, mut all) = (decode(&packet), Vec::new());
        of_packet(&packet, &layers, &mut |odd, detail| all.push((odd, detail())));
        all
    }

    fn of(data: &[u8]) -> Vec<(OddPacket, String)> {
        cut(data, data.len())
    }

    fn only(odd: OddPacket) -> Vec<(OddPacket, String)> {
        vec![(odd, String::new())]
    }

    fn with(odd: OddPacket, detail: &str) -> Vec<(OddPacket, String)> {
        vec![(odd, detail.to_owned())]
    }

    fn patched(mut data: Vec<u8>, at: usize, bytes: &[u8]) -> Vec<u8> {
        data[at..at + bytes.len()].copy_from_slice(bytes);
        data
    }

    #[test]
    fn common_packets_are_not_odd() {
        let ack = flags::ACK;
        let options = [1_u8; 12];
        for data in [
            v4().tcp(1, 2, ack).payload(b"data"),
            v4().tcp(1, 2, ack).options(&options).payload(b""),
            v6().tcp(1, 2, ack).payload(b""),
            v4().udp(1, 2).payload(b""),
            v6().udp(1, 2).payload(b"data"),
            v4().icmp(8, 0, [0; 4]).payload(b""),
            v6().icmp(128, 0, [0; 4]).payload(b"ping"),
            v4().proto(89).raw(&[1]).payload(b""),
        ] {
            assert_eq!(of(&data), [], "{data:02x?}");
            let framed =
                [&[2; 12][..], if data[0] >> 4 == 4 { &[8, 0] } else { &[0x86, 0xdd] }, &data].concat();
            let packet = build::packet(&framed, LinkType::ETHERNET);
            of_packet(&packet, &decode(&packet), &mut |odd, _| panic!("{odd:?}"));
        }
    }

    #[test]
    fn lengths_of_ip_are_those_of_the_frame() {
        let data = v4().udp(1, 2).payload(b"data");
        assert_eq!(of(&patched(data.clone(), 2, &[0, 0])), only(OddPacket::IpLenZero));
        assert_eq!(of(&patched(data.clone(), 2, &[0, 33])), only(OddPacket::IpLenBeyondFrame));
        // A frame may be padded; then the datagram is as long as IP says.
        assert_eq!(of(&[&data[..], &[0; 9]].concat()), []);
        // What was not captured was still on the wire.
        assert_eq!(cut(&data, 28), []);
        let six = v6().udp(1, 2).payload(b"data");
        assert_eq!(of(&patched(six.clone(), 4, &[0, 13])), only(OddPacket::IpLenBeyondFrame));
        assert_eq!(of(&patched(six, 4, &[0, 12])), []);
        let options = v4().options(&[1; 8]).udp(1, 2).payload(b"data");
        assert_eq!(cut(&options, 27), only(OddPacket::IpHeaderNotCaptured));
        assert_eq!(cut(&options, 36), []);
    }

    #[test]
    fn headers_of_transports_are_whole() {
        for (proto, min) in [(6, 20_usize), (17, 8), (1, 8)] {
            let short = v4().proto(proto).raw(&vec![0; min - 1]).payload(b"");
            assert_eq!(of(&short), only(OddPacket::ShortHeader), "{proto}");
            let empty = v4().proto(proto).payload(b"");
            assert_eq!(of(&empty), only(OddPacket::HeaderNotCaptured), "{proto}");
        }
        for (data, min) in [
            (v4().tcp(1, 2, flags::ACK).payload(b"data"), 20),
            (v4().udp(1, 2).payload(b"data"), 8),
            (v4().icmp(8, 0, [0; 4]).payload(b"ping"), 8),
            (v6().icmp(128, 0, [0; 4]).payload(b"ping"), 8),
        ] {
            let start = data.len() - 4 - min;
            assert_eq!(cut(&data, start + min), [], "{data:02x?}");
            assert_eq!(cut(&data, start + min - 1), only(OddPacket::HeaderNotCaptured), "{data:02x?}");
        }
    }

    #[test]
    fn a_tcp_header_has_the_length_that_it_states() {
        let data = v4().tcp(1, 2, flags::ACK).options(&[1; 12]).payload(b"");
        assert_eq!(of(&patched(data.clone(), 32, &[0x40])), only(OddPacket::TcpHeaderLen));
        assert_eq!(of(&patched(data.clone(), 32, &[0x50])), []);
        assert_eq!(of(&patched(data.clone(), 32, &[0x90])), only(OddPacket::TcpHeaderCut));
        assert_eq!(cut(&data, 51), only(OddPacket::TcpHeaderCut));
        let framed = [&[2; 12][..], &[8, 0], &data].concat();
        let packet = Packet { wire_len: 66, ..build::packet(&framed[..60], LinkType::ETHERNET) };
        let (layers, mut all) = (decode(&packet), Vec::new());
        assert!(layers.common);
        of_packet(&packet, &layers, &mut |odd, _| all.push(odd));
        assert_eq!(all, [OddPacket::TcpHeaderCut]);
    }

    #[test]
    fn a_window_scale_is_at_most_14() {
        let syn = |flag, scale| of(&v4().tcp(1, 2, flag).options(&[1, 3, 3, scale]).payload(b""));
        assert_eq!(syn(flags::SYN, 14), []);
        assert_eq!(syn(flags::SYN, 15), with(OddPacket::WindowScale, "15"));
        assert_eq!(syn(flags::ACK, 15), [], "only a SYN has the option");
    }

    #[test]
    fn a_udp_header_states_the_length_of_its_packet() {
        let data = v4().udp(1, 2).payload(b"data");
        assert_eq!(of(&patched(data.clone(), 24, &[0, 11])), with(OddPacket::UdpLen, "11 != 12"));
        assert_eq!(of(&patched(data.clone(), 24, &[0, 13])), with(OddPacket::UdpLen, "13 != 12"));
        assert_eq!(of(&patched(data.clone(), 24, &[0, 0])), with(OddPacket::UdpLen, "0 != 12"));
        let extended = v6().extension(60, &[0, 1, 4, 0, 0, 0, 0]).udp(1, 2).payload(b"data");
        assert_eq!(of(&extended), []);
    }

    #[test]
    fn neighbour_discovery_has_its_fixed_part_and_options_with_lengths() {
        for (kind, fixed, odd) in [
            (134, 8, OddPacket::RouterAdvertisementCut),
            (135, 16, OddPacket::NeighborSolicitationCut),
            (136, 16, OddPacket::NeighborAdvertisementCut),
            (137, 32, OddPacket::RedirectCut),
        ] {
            let message = |body: &[u8]| v6().icmp(kind, 0, [0; 4]).payload(body);
            let short = format!("{fixed} (length {})", fixed - 4);
            assert_eq!(of(&message(&vec![0; fixed - 4])), with(odd, &short));
            let mut body = vec![0; fixed];
            assert_eq!(of(&message(&body)), []);
            body.extend([1, 1, 2, 2, 2, 2, 2, 2]);
            assert_eq!(of(&message(&body)), []);
            assert_eq!(of(&message(&[&body[..], &[1]].concat())), only(OddPacket::NdOptionCut));
            assert_eq!(of(&message(&[&body[..], &[1, 0]].concat())), only(OddPacket::NdOptionZero));
            // Only the length of an option has to be there.
            assert_eq!(of(&message(&[&body[..], &[1, 2]].concat())), []);
        }
        assert_eq!(of(&v6().icmp(133, 0, [0; 4]).payload(b"")), []);
        assert_eq!(of(&v6().icmp(133, 0, [0; 4]).payload(&[1])), only(OddPacket::NdOptionCut));
        // In IPv4 these types are others.
        assert_eq!(of(&v4().proto(58).raw(&[134, 0, 0, 0, 0, 0, 0, 0]).payload(b"")), []);
    }

    #[test]
    fn reports_of_multicast_listeners_have_their_records() {
        for kind in [131, 132] {
            assert_eq!(of(&v6().icmp(kind, 0, [0; 4]).payload(&[0; 15])), only(OddPacket::Mld1Cut));
            assert_eq!(of(&v6().icmp(kind, 0, [0; 4]).payload(&[0; 16])), []);
        }
        let report = |count, body: &[u8]| of(&v6().icmp(143, 0, [0, 0, 0, count]).payload(body));
        assert_eq!(report(2, &[0; 39]), only(OddPacket::Mld2Cut));
        assert_eq!(report(2, &[0; 40]), []);
        // One source, and four bytes of auxiliary data.
        let mut record = vec![1, 1, 0, 1];
        record.resize(40, 0);
        assert_eq!(report(1, &record), []);
        assert_eq!(report(1, &record[..39]), only(OddPacket::Mld2RecordCut));
    }

    #[test]
    fn routing_headers_are_of_known_types() {
        let routed = |kind: u8, left: u8, units: u8| {
            let mut rest = vec![units, kind, left];
            rest.resize(usize::from(units) * 8 + 7, 0);
            v6().extension(43, &rest)
        };
        let end = |builder: Builder| of(&builder.udp(1, 2).payload(b"data"));
        assert_eq!(end(routed(0, 1, 2)), only(OddPacket::Routing0));
        let odd = [only(OddPacket::Routing0Len), only(OddPacket::Routing0)].concat();
        assert_eq!(end(routed(0, 1, 3)), odd);
        assert_eq!(end(routed(2, 1, 2)), []);
        assert_eq!(end(routed(2, 1, 4)), only(OddPacket::Routing2Len));
        assert_eq!(end(routed(4, 0, 2)), with(OddPacket::RoutingType, "4"));
        let mut second = vec![2, 2, 1];
        second.resize(23, 0);
        assert_eq!(end(routed(2, 1, 2).extension(43, &second)), only(OddPacket::RoutingTwice));
        assert_eq!(end(routed(2, 0, 2).extension(43, &second)), []);
        assert_eq!(of(&v6().payload(b"")), only(OddPacket::NoNextHeader));
    }

    #[test]
    fn fragment_headers_of_whole_packets_and_second_ones() {
        let whole = v6().extension(44, &[0, 0, 0, 0, 0, 0, 7]);
        let end = |builder: Builder| of(&builder.udp(1, 2).payload(b"data"));
        assert_eq!(end(whole.clone()), only(OddPacket::FragmentHeaderUseless));
        let useless = || (OddPacket::FragmentHeaderUseless, String::new());
        let twice = [useless(), useless(), (OddPacket::FragmentHeaderTwice, String::new())];
        assert_eq!(end(whole.clone().extension(44, &[0, 0, 0, 0, 0, 0, 7])), twice);
        let fragment = |more: u8, bytes: &[u8]| {
            let data = v6().extension(44, &[0, 0, 8 | more, 0, 0, 0, 7]).payload(bytes);
            let (packet, mut all) = (build::packet(&data, LinkType::RAW), Vec::new());
            of_fragment(&packet, &decode(&packet), OddFragment::default(), &mut |odd, _| all.push(odd));
            all
        };
        assert_eq!(fragment(1, &[1; 64]), []);
        assert_eq!(fragment(1, &[1; 65]), [OddPacket::FragmentLen]);
        assert_eq!(fragment(0, &[1; 65]), [], "the last one has any length");
    }

    fn told(odd: &mut OddPackets, data: &[u8], time: u64, beside: OddFragment) -> Vec<Record<'static>> {
        let packet = Packet { time: Time(time), number: 3, ..build::packet(data, LinkType::RAW) };
        let mut all = Vec::new();
        odd.fragment(&packet, &decode(&packet), beside, |_, record| all.push(record));
        all
    }

    fn names(records: &[Record<'_>]) -> Vec<String> {
        let name = |record: &Record<'_>| match record.get("name") {
            Value::Text(name) => String::from_utf8_lossy(name).into_owned(),
            other => panic!("{other:?}"),
        };
        records.iter().map(name).collect()
    }

    #[test]
    fn fragments_are_odd_by_their_headers_and_beside_others() {
        let fragment = |offset, more, len: usize| {
            v4().fragment(7, offset, more).proto(17).raw(&vec![0; len]).payload(b"")
        };
        let usual = OddFragment::default();
        let once = |data: &[u8], beside| names(&told(&mut OddPackets::default(), data, 0, beside));
        assert_eq!(once(&fragment(0, true, 48), usual), [""; 0]);
        assert_eq!(once(&fragment(0, true, 40), usual), ["excessively_small_fragment"]);
        assert_eq!(once(&fragment(48, false, 8), usual), [""; 0], "the last one may be small");
        assert_eq!(once(&fragment(63_952, false, 48), usual), [""; 0]);
        assert_eq!(once(&fragment(63_952, false, 49), usual), ["excessively_large_fragment"]);
        let mut df = fragment(0, true, 48);
        df[6] |= 0x40;
        assert_eq!(once(&df, usual), ["fragment_with_DF"]);
        for (beside, name) in [
            (OddFragment { header: true, ..usual }, "fragment_protocol_inconsistency"),
            (OddFragment { size: true, ..usual }, "fragment_size_inconsistency"),
            (OddFragment { overlap: true, ..usual }, "fragment_overlap"),
            (OddFragment { overlap: true, conflict: true, ..usual }, "fragment_inconsistency"),
        ] {
            assert_eq!(once(&fragment(0, true, 48), beside), [name]);
        }
        let whole = fragment(0, true, 48);
        let packet = Packet { wire_len: 68, ..build::packet(&whole[..67], LinkType::RAW) };
        let mut all = Vec::new();
        OddPackets::default().fragment(&packet, &decode(&packet), usual, |_, record| all.push(record));
        assert_eq!(names(&all), ["incompletely_captured_fragment"]);
    }

    #[test]
    fn fragments_of_two_hosts_are_told_once_in_ten_minutes() {
        let small =
            |from, to| build::ip().ipv4(from, to).fragment(7, 0, true).proto(17).raw(&[0; 8]).payload(b"");
        let (there, back) = (small(HIGH, LOW), small(LOW, HIGH));
        let mut odd = OddPackets::default();
        let mut count = |data: &[u8], time| told(&mut odd, data, time, OddFragment::default()).len();
        assert_eq!([count(&there, 5), count(&there, 6), count(&back, 7)], [1, 0, 1]);
        assert_eq!([count(&there, AGAIN + 4), count(&there, AGAIN + 5)], [0, 1]);
        // The flow has no ports, and the sender begins it.
        let packet = build::packet(&there, LinkType::RAW);
        let (_, flow) = between(&packet, &decode(&packet)).unwrap();
        assert_eq!(flow.initiator(), (HIGH.into(), 0));
        assert_eq!((flow.responder(), flow.key.proto), ((LOW.into(), 0), 17));
        // Any number of pairs takes a bounded memory.
        for n in 0..2 * MAX_PAIRS as u16 {
            let [high, low] = n.to_be_bytes();
            let data = small([10, 1, high, low], LOW);
            assert_eq!(told(&mut odd, &data, 0, OddFragment::default()).len(), 1);
        }
        assert!(odd.memory() < 2 << 20, "{}", odd.memory());
    }

    #[test]
    fn gre_headers_are_odd_by_their_flags_and_by_what_they_announce() {
        let gre = |message: &[u8]| {
            let data = v4().proto(47).raw(message).payload(b"");
            of(&data)
        };
        // IPv4 without content, with all optional words, and with one of them cut.
        assert_eq!(gre(&[0, 0, 8, 0]), []);
        assert_eq!(gre(&[&[0xb0, 0x80, 8, 0][..], &[0; 16]].concat()), []);
        assert_eq!(gre(&[&[0xb0, 0x80, 8, 0][..], &[0; 15]].concat()), only(OddPacket::GreCut));
        assert_eq!(gre(&[0, 0, 8]), only(OddPacket::GreCut));
        assert_eq!(gre(&[0, 2, 8, 0]), with(OddPacket::GreVersion, "version=2"));
        assert_eq!(gre(&[0, 1, 8, 0]), with(OddPacket::GreProtocol, "proto=2048"));
        assert_eq!(gre(&[0x40, 0, 8, 0]), only(OddPacket::GreRouting));
        assert_eq!(gre(&[0, 8, 8, 0]), only(OddPacket::GreFlags));
        assert_eq!(
            gre(&[&[0x30, 1, 0x88, 0x0b][..], &[0; 8], &[0xff, 3, 0xc0, 0x21]].concat()),
            [(OddPacket::GreContent, String::new())]
        );
        assert_eq!(gre(&[&[0x30, 1, 0x88, 0x0b][..], &[0; 8], &[0xff, 3, 0, 0x21]].concat()), []);
        for (kind, flags, min) in
            [(0x6558_u16, 0, 15), (0x88be, 0, 15), (0x88be, 0x10, 26), (0x22eb, 0x10, 31)]
        {
            let [high, low] = kind.to_be_bytes();
            let whole = [&[flags, 0, high, low][..], &vec![0; min]].concat();
            assert_eq!(
                gre(&whole).iter().filter(|(odd, _)| *odd == OddPacket::GreCut).count(),
                0,
                "{kind:x}"
            );
            assert_eq!(gre(&whole[..whole.len() - 1]), only(OddPacket::GreCut), "{kind:x}");
        }
    }

    #[test]
    fn a_wrong_checksum_is_told_once_of_a_flow_and_of_two_hosts() {
        let mut odd = OddPackets::default();
        let mut all = Vec::new();
        for (row, data) in [
            (1, v4().tcp(1, 2, flags::ACK).payload(b"a")),
            (1, v4().tcp(1, 2, flags::ACK).payload(b"b")),
            (2, v4().udp(1, 2).payload(b"a")),
            (3, v4().icmp(8, 0, [0; 4]).payload(b"a")),
        ] {
            let packet = build::packet(&data, LinkType::RAW);
            let layers = decode(&packet);
            let (_, flow) = between(&packet, &layers).unwrap();
            let seen =
                FlowPacket { row, flow, direction: Direction::Forward, packet: &packet, layers: &layers };
            odd.wrong_checksum(&seen, |record| all.push(record));
            odd.wrong_header(&packet, &layers, |_, record| all.push(record));
        }
        let expected = ["bad_TCP_checksum", "bad_IP_checksum", "bad_UDP_checksum", "bad_ICMP_checksum"];
        assert_eq!(names(&all), expected);
    }

    #[test]
    fn an_oddity_of_a_flow_is_told_once() {
        let data = patched(v4().udp(1, 2).payload(b"data"), 24, &[0, 9]);
        let packet = build::packet(&data, LinkType::RAW);
        let layers = decode(&packet);
        let (_, flow) = between(&packet, &layers).unwrap();
        let mut odd = OddPackets::default();
        let mut count = |row, ends: bool| {
            let seen =
                FlowPacket { row, flow, direction: Direction::Reverse, packet: &packet, layers: &layers };
            let mut all = Vec::new();
            odd.packet(&seen, |record| all.push(record));
            if ends {
                odd.end(row);
            }
            names(&all).len()
        };
        assert_eq!(
            [count(4, false), count(4, false), count(5, false), count(4, true), count(4, false)],
            [1, 0, 1, 0, 1]
        );
    }
}
