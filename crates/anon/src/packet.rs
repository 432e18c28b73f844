//! Packets: every address is mapped, payload is blanked, and checksums that were correct are correct again.
//!
//! Bytes are rewritten in place, level by level of a tunnel, and lengths are kept. Unknown content is not passed on:
//! unless payload is kept, everything after the last known header is blanked, and so are trailers.

use super::body::{self, blank};
use super::scrub::Lines;
use super::{Anonymiser, Payload, dns};
use std::ops::Range;
use weir_wire::build::flags::SYN;
use weir_wire::{
    Checksum, Checksums, DecodeError, Fragment, Hints, Layer, Layers, LinkType, Network, Packet, Quoted,
    Tunnel, addresses, checksum, decode, final_destination, is_pseudo_header_sum, levels, quoted, quotes,
    verify,
};

impl Anonymiser {
    /// The anonymised packet, which is built in `out`.
    pub fn packet<'o>(&mut self, packet: &Packet<'_>, out: &'o mut Vec<u8>) -> Packet<'o> {
        out.clear();
        out.extend_from_slice(packet.data);
        let (keep, kept) = self.rewrite(packet, out);
        if self.policy.payload == Payload::Cut {
            out.truncate(keep);
        }
        out.truncate(kept);
        let time = self.time(packet.time);
        Packet {
            time,
            data: out,
            wire_len: packet.wire_len,
            interface: packet.interface,
            link: packet.link,
            hints: packet.hints,
            number: packet.number,
        }
    }

    /// Rewrites a packet in place. Returns the end of the header bytes, and the bytes that rules for fields keep.
    fn rewrite(&mut self, before: &Packet<'_>, out: &mut [u8]) -> (usize, usize) {
        let levels: Vec<Layers> = levels(before, &decode(before)).collect();
        self.link(out, before.link);
        let (mut keep, mut kept) = (out.len(), out.len());
        for (at, layers) in levels.iter().enumerate() {
            let inner = levels.get(at + 1);
            if let Some(inner) = inner {
                self.tunnel(out, layers, inner);
            }
            keep = self.level(before, out, layers, inner);
        }
        if !self.policy.fields.is_empty() {
            for layers in &levels {
                kept = kept.min(self.fields(before.data, out, layers, false));
            }
        }
        for layers in levels.iter().rev() {
            mend(before, layers, out);
            if !self.policy.fields.is_empty() {
                self.fields(before.data, out, layers, true);
            }
        }
        (keep.min(out.len()), kept)
    }

    /// Rewrites one level up to its payload. Returns the end of the rewritten bytes, which the carried level extends.
    fn level(
        &mut self,
        before: &Packet<'_>,
        out: &mut [u8],
        layers: &Layers,
        inner: Option<&Layers>,
    ) -> usize {
        let network = layers.network as usize;
        let is_blank = self.policy.payload != Payload::Keep;
        match layers.network_kind {
            Network::None => {
                let from = network.max(layers.link as usize + head(before.link, layers.link));
                if is_blank {
                    blank(out, from, usize::MAX);
                }
                return from;
            }
            Network::Arp => {
                self.arp(out, network);
                let end = network + layers.network_len as usize;
                if is_blank {
                    blank(out, end, usize::MAX);
                }
                return end;
            }
            Network::Ipv4 => self.ipv4(out, network),
            Network::Ipv6 => self.ipv6(out, network, layers),
        }
        let end = network + layers.network_len as usize;
        if is_blank {
            // Padding of the frame, which may hold old memory contents.
            blank(out, end, usize::MAX);
        }
        if inner.is_some() {
            return out.len();
        }
        let broken = matches!(
            layers.error,
            Some(DecodeError { layer: Layer::Link | Layer::Network | Layer::Transport, .. })
        );
        let mut payload = layers.payload as usize;
        if broken {
            // Ports are kept if the header contains them.
            let known = match layers.transport {
                0 => network + if layers.network_kind == Network::Ipv4 { 20 } else { 40 },
                transport => transport as usize + 4,
            };
            payload = known;
        } else if layers.fragment != Fragment::Later {
            payload = self.transport(before, out, layers, payload);
        }
        if !broken && layers.fragment == Fragment::Whole && self.is_kept(layers) {
            let end = payload + layers.payload_len as usize;
            let end = end.min(out.len());
            if let Some(message) = out.get_mut(payload..end) {
                dns::message(self, message);
            }
            return end;
        }
        if is_blank {
            blank(out, payload, end);
            return payload;
        }
        if !broken {
            self.lines(before, out, layers, payload..end);
        }
        out.len()
    }

    /// Rewrites lines in payload that is kept.
    fn lines(&mut self, before: &Packet<'_>, out: &mut [u8], layers: &Layers, payload: Range<usize>) {
        let is_all = payload.end <= out.len();
        let tcp = out.get(layers.transport as usize..).and_then(|tcp| tcp.first_chunk::<14>().copied());
        let Some(scrub) = out.get_mut(payload.start..payload.end.min(out.len())) else { return };
        let ends = addresses(before, layers).map(|(source, destination)| (source, destination, layers.ports));
        match (layers.fragment, tcp, ends) {
            (Fragment::Whole, Some(tcp), Some(ends)) if layers.ip_proto == 6 => {
                let [_, _, _, _, s0, s1, s2, s3, .., flags] = tcp;
                let mut seq = u32::from_be_bytes([s0, s1, s2, s3]);
                if flags & SYN != 0 {
                    seq = seq.wrapping_add(1);
                    self.directions.begin(&ends, seq);
                }
                if !scrub.is_empty() {
                    let mut lines = self.directions.at(&ends, seq);
                    lines.rewrite(self, scrub, false);
                    self.directions.note(&ends, seq.wrapping_add(scrub.len() as u32), lines);
                }
            }
            (Fragment::Whole, ..) => Lines::default().rewrite(self, scrub, is_all),
            (Fragment::Later, ..) => Lines::unknown().rewrite(self, scrub, false),
            (Fragment::First, ..) if layers.ip_proto == 6 => Lines::unknown().rewrite(self, scrub, false),
            (Fragment::First, ..) => Lines::default().rewrite(self, scrub, false),
        }
    }

    /// Whether the payload belongs to a protocol that is rewritten as a whole.
    fn is_kept(&self, layers: &Layers) -> bool {
        layers.ip_proto == 17 && layers.ports.iter().any(|port| matches!(port, 53 | 5353 | 5355))
    }

    /// Rewrites the addresses of a transport header. Returns the start of the payload.
    fn transport(&mut self, before: &Packet<'_>, out: &mut [u8], layers: &Layers, payload: usize) -> usize {
        let start = layers.transport as usize;
        let end = (layers.network + layers.network_len) as usize;
        let end = end.min(out.len());
        match layers.ip_proto {
            6 => body::tcp_options(self, out.get_mut(start + 20..payload.min(end)).unwrap_or_default()),
            1 | 2 | 58 if layers.fragment == Fragment::Whole => {
                let Some(message) = out.get_mut(start..end) else { return payload };
                let length = match layers.ip_proto {
                    1 => body::icmp(self, message),
                    2 => body::igmp(self, message),
                    _ => body::icmpv6(self, message),
                };
                let Some(quoted) = quoted(before, layers) else {
                    // An error whose quote is not found may have one.
                    if quotes(layers.ip_proto, message.first().copied().map_or(0, u16::from)) {
                        blank(message, 8, usize::MAX);
                    }
                    return start + length;
                };
                self.embedded(&quoted, out);
                return end;
            }
            _ => {}
        }
        payload
    }

    /// Rewrites the beginning of the packet that an error message is about.
    fn embedded(&mut self, quoted: &Quoted<'_>, out: &mut [u8]) {
        let Some(out) = out.get_mut(quoted.place()) else { return };
        let (packet, layers) = (&quoted.packet, &quoted.layers);
        if layers.network_kind == Network::None {
            if self.policy.payload != Payload::Keep {
                out.fill(0);
            }
            return;
        }
        // An error message about an error message is invalid.
        let is_icmp = matches!(layers.ip_proto, 1 | 2 | 58);
        if is_icmp {
            match layers.network_kind {
                Network::Ipv4 => self.ipv4(out, 0),
                _ => self.ipv6(out, 0, layers),
            }
            if self.policy.payload != Payload::Keep {
                blank(out, layers.transport as usize + 8, usize::MAX);
            }
        } else {
            self.level(packet, out, layers, None);
        }
        mend(packet, layers, out);
    }

    /// Rewrites the link-layer addresses of the whole packet.
    fn link(&mut self, out: &mut [u8], link: LinkType) {
        match link {
            LinkType::ETHERNET => self.macs(out, &[0, 6]),
            LinkType::LINUX_SLL => self.cooked(out, 2, 5, 6),
            LinkType::LINUX_SLL2 => self.cooked(out, 8, 11, 12),
            LinkType::IEEE802_11 => self.wifi(out, 0),
            LinkType::IEEE802_11_RADIOTAP => {
                let length = out.get(2..4).and_then(|l| l.first_chunk()).copied().map(u16::from_le_bytes);
                self.wifi(out, length.map_or(usize::MAX / 2, usize::from));
            }
            LinkType::DSA_TAG_BRCM | LinkType::DSA_TAG_DSA | LinkType::DSA_TAG_EDSA => {
                self.macs(out, &[0, 6]);
            }
            LinkType::DSA_TAG_BRCM_PREPEND => self.macs(out, &[4, 10]),
            LinkType::FDDI => self.macs(out, &[1, 7]),
            LinkType::PPI => self.ppi(out),
            // Stations, global identifiers, and a driver's copies of compressed headers.
            LinkType::ARCNET | LinkType::ARCNET_LINUX => blank(out, 0, 2),
            LinkType::IPOIB => blank(out, 0, 40),
            LinkType::SLIP => blank(out, 1, 16),
            LinkType::SLIP_BSDOS => blank(out, 0, 24),
            LinkType::NFLOG => nflog(out),
            // Users and processes; in the longer header of OpenBSD also the addresses before translation.
            LinkType::PFLOG => {
                let header = out.first().map_or(0, |len| usize::from(*len).next_multiple_of(4));
                blank(out, 44, header.min(60));
                blank(out, 61, header);
            }
            _ => {}
        }
    }

    /// Per-Packet Information: its fields, which include locations, and the addresses of the frame.
    fn ppi(&mut self, out: &mut [u8]) {
        let Some(&[_, _, l0, l1, d0, d1, d2, d3]) = out.first_chunk::<8>() else { return };
        let at = usize::from(u16::from_le_bytes([l0, l1]));
        blank(out, 8, at);
        match LinkType(u16::try_from(u32::from_le_bytes([d0, d1, d2, d3])).unwrap_or(u16::MAX)) {
            LinkType::ETHERNET => self.macs(out, &[at, at + 6]),
            LinkType::IEEE802_11 => self.wifi(out, at),
            LinkType::IEEE802_11_RADIOTAP => {
                let length = out.get(at + 2..at + 4).and_then(|l| l.first_chunk()).copied();
                let length = length.map_or(usize::MAX / 2, |l| usize::from(u16::from_le_bytes(l)));
                self.wifi(out, at + length);
            }
            _ => {}
        }
    }

    fn macs(&mut self, out: &mut [u8], places: &[usize]) {
        for at in places {
            if let Some(place) = out.get_mut(*at..*at + 6) {
                self.mac(place);
            }
        }
    }

    /// Linux "cooked" frames: the sender's address, of the given type and length.
    fn cooked(&mut self, out: &mut [u8], kind: usize, length: usize, at: usize) {
        let is_mac =
            out.get(length) == Some(&6) && matches!(out.get(kind..kind + 2), Some([0, 1] | [3, 0x20..=0x23]));
        if is_mac {
            self.macs(out, &[at]);
        } else if out.get(length).is_some_and(|length| *length != 0) {
            blank(out, at, at + 8);
        }
    }

    /// IEEE 802.11: up to four addresses. Control frames have fewer, and fewer bytes.
    fn wifi(&mut self, out: &mut [u8], at: usize) {
        let Some(&[control, flags]) = out.get(at..).and_then(|frame| frame.first_chunk::<2>()) else {
            return;
        };
        let is_data = control & 0x0c == 0x08;
        if control & 0x0c == 0x04 {
            self.macs(out, &[at + 4]);
            if !matches!(control >> 4, 0xc | 0xd) {
                self.macs(out, &[at + 10]);
            }
        } else {
            self.macs(out, &[at + 4, at + 10, at + 16]);
        }
        if is_data && flags & 3 == 3 {
            self.macs(out, &[at + 24]);
        }
    }

    /// RFC 826: sender and target, hardware and protocol address each.
    fn arp(&mut self, out: &mut [u8], at: usize) {
        let Some(&[_, _, p0, p1, hardware, protocol, _, _]) =
            out.get(at..).and_then(|header| header.first_chunk::<8>())
        else {
            return blank(out, at, usize::MAX);
        };
        let (hardware, protocol) = (usize::from(hardware), usize::from(protocol));
        let mut at = at + 8;
        for _ in 0..2 {
            match out.get_mut(at..at + hardware) {
                Some(place) if hardware == 6 => self.mac(place),
                Some(place) => place.fill(0),
                None => return blank(out, at, usize::MAX),
            }
            at += hardware;
            match out.get_mut(at..at + protocol) {
                Some(place) if protocol == 4 && [p0, p1] == [8, 0] => self.v4_at(place, 0),
                Some(place) => place.fill(0),
                None => return blank(out, at, usize::MAX),
            }
            at += protocol;
        }
    }

    /// Rewrites the IPv4 address at an offset.
    pub(super) fn v4_at(&mut self, out: &mut [u8], at: usize) {
        if let Some(place) = out.get_mut(at..).and_then(|rest| rest.first_chunk_mut::<4>()) {
            *place = self.addresses.v4(*place);
        }
    }

    /// Rewrites the IPv6 address at an offset.
    pub(super) fn v6_at(&mut self, out: &mut [u8], at: usize) {
        if let Some(place) = out.get_mut(at..).and_then(|rest| rest.first_chunk_mut::<16>()) {
            *place = self.addresses.v6(*place);
        }
    }

    fn ipv4(&mut self, out: &mut [u8], at: usize) {
        let header = out.get(at).map_or(20, |first| usize::from(first & 0xf) * 4);
        self.v4_at(out, at + 12);
        self.v4_at(out, at + 16);
        let end = (at + header).min(out.len());
        if let Some(options) = out.get_mut(at + 20..end) {
            body::ipv4_options(self, options);
        }
    }

    fn ipv6(&mut self, out: &mut [u8], at: usize, layers: &Layers) {
        self.v6_at(out, at + 8);
        self.v6_at(out, at + 24);
        if layers.extended {
            let end =
                if layers.transport == 0 { out.len() } else { (layers.transport as usize).min(out.len()) };
            let next = out.get(at + 6).copied().unwrap_or_default();
            if let Some(headers) = out.get_mut(at + 40..end) {
                body::ipv6_extensions(self, headers, next);
            }
        }
    }

    /// Rewrites tunnel headers with addresses, and the frame that starts the carried packet.
    fn tunnel(&mut self, out: &mut [u8], outer: &Layers, inner: &Layers) {
        let (from, to) = (outer.payload as usize, inner.link as usize);
        match outer.tunnel {
            // The mapped address of the client with all bits inverted (RFC 4380 5.1.1), and its authentication; the
            // origin, if present, is directly before the packet.
            Tunnel::Teredo => {
                let has_origin = to.saturating_sub(from) >= 8 && out.get(to - 8..to - 6) == Some(&[0, 0][..]);
                if has_origin
                    && let Some(place) = out.get_mut(to - 4..to).and_then(|p| p.first_chunk_mut::<4>())
                {
                    *place = self.addresses.v4(place.map(|byte| !byte)).map(|byte| !byte);
                }
                blank(out, from + 4, if has_origin { to - 8 } else { to });
            }
            // Identity and signature.
            Tunnel::Ayiya => blank(out, from + 8, to),
            _ => {}
        }
        let gap = (inner.network as usize).saturating_sub(to);
        let is_ethernet = gap >= 14
            && out
                .get(to + 12..)
                .and_then(|kind| kind.first_chunk::<2>())
                .is_some_and(|kind| !matches!(u16::from_be_bytes(*kind), 1501..0x600));
        if is_ethernet {
            self.macs(out, &[to, to + 6]);
        }
    }
}

/// Number of bytes of the link header that are kept if the rest is unknown.
fn head(link: LinkType, at: u32) -> usize {
    match link {
        _ if at != 0 => 0,
        LinkType::ETHERNET => 14,
        LinkType::LINUX_SLL => 16,
        LinkType::LINUX_SLL2 => 20,
        LinkType::NULL | LinkType::LOOP => 4,
        LinkType::IEEE802_11 => 24,
        _ => 0,
    }
}

/// Netfilter's log: blanks all attributes except the protocol and the packet, such as hardware addresses, users and
/// the rule's own text.
fn nflog(out: &mut [u8]) {
    const PACKET_HEADER: u16 = 1;
    const PAYLOAD: u16 = 9;
    let mut at = 4;
    let mut little_endian = None;
    while let Some(&[l0, l1, k0, k1]) = out.get(at..).and_then(|rest| rest.first_chunk::<4>()) {
        let little = *little_endian.get_or_insert(k1 == 0);
        let word = |bytes| if little { u16::from_le_bytes(bytes) } else { u16::from_be_bytes(bytes) };
        let (len, kind) = (usize::from(word([l0, l1])), word([k0, k1]) & 0x7fff);
        if len < 4 {
            return blank(out, at, usize::MAX);
        }
        if kind == PAYLOAD {
            return;
        }
        if kind != PACKET_HEADER {
            blank(out, at + 4, at + len);
        }
        at += len.next_multiple_of(4);
    }
}

/// Updates the checksums of a level: a correct checksum is correct afterwards. A wrong one is wrong by the same
/// difference, and so is one of a truncated packet.
fn mend(before: &Packet<'_>, layers: &Layers, out: &mut [u8]) {
    let packet = Packet { hints: Hints::default(), ..*before };
    let was: Checksums = verify(&packet, layers);
    let network_at = layers.network as usize + 10;
    let network_end = header_end(before.data, layers);
    let transport_at = place(layers.ip_proto).map(|offset| layers.transport as usize + offset);
    let is_v4 = layers.network_kind == Network::Ipv4;
    let network = word(out, network_at).filter(|_| is_v4 && was.network != Checksum::Good);
    let network = network.map(|stored| {
        let range = layers.network as usize..network_end;
        let (old, new) = (before.data.get(range.clone()), out.get(range));
        checksum::update(stored, old.unwrap_or_default(), new.unwrap_or_default())
    });
    let transport = transport_at
        .filter(|_| was.transport != Checksum::Good && layers.transport != 0)
        .filter(|_| layers.fragment != Fragment::Later)
        .and_then(|at| Some((at, word(out, at)?)))
        .map(|(at, stored)| {
            (at, if was.transport == Checksum::Absent { stored } else { moved(&packet, layers, out, stored) })
        });
    let sctp = (layers.ip_proto == 132 && was.transport != Checksum::Good)
        .then(|| out.get(layers.transport as usize + 8..).and_then(|rest| rest.first_chunk::<4>().copied()))
        .flatten();
    checksum::fill(out, layers);
    if let Some(value) = network {
        put(out, network_at, &value.to_be_bytes());
    }
    if let Some((at, value)) = transport {
        put(out, at, &value.to_be_bytes());
    }
    if let Some(value) = sctp {
        put(out, layers.transport as usize + 8, &value);
    }
}

/// Updates a wrong transport checksum after the bytes that it covers have changed.
fn moved(before: &Packet<'_>, layers: &Layers, out: &[u8], stored: u16) -> u16 {
    let after = Packet { data: out, ..*before };
    let has_pseudo_header = !matches!(layers.ip_proto, 1 | 2);
    let ends = |packet: &Packet<'_>| {
        let mut bytes = [0; 32];
        if let Some((source, destination)) = addresses(packet, layers).filter(|_| has_pseudo_header) {
            let last = if layers.source_routed { final_destination(packet.data, layers) } else { None };
            for (to, from) in bytes.iter_mut().zip(source.iter().chain(&last.unwrap_or(destination))) {
                *to = *from;
            }
        }
        bytes
    };
    let (old, new) = (ends(before), ends(&after));
    // An offloaded checksum is the sum of the addresses alone.
    if is_pseudo_header_sum(before, layers) {
        return !checksum::update(!stored, &old, &new);
    }
    let range = layers.transport as usize..((layers.network + layers.network_len) as usize).min(out.len());
    let updated = checksum::update(stored, &old, &new);
    let (old, new) = (before.data.get(range.clone()), out.get(range));
    checksum::update(updated, old.unwrap_or_default(), new.unwrap_or_default())
}

fn header_end(data: &[u8], layers: &Layers) -> usize {
    let start = layers.network as usize;
    let size = data.get(start).map_or(0, |first| usize::from(first & 0xf) * 4);
    (start + size).min(data.len())
}

/// Offset of the checksum in a transport header, for protocols with a ones' complement sum.
fn place(ip_proto: u8) -> Option<usize> {
    match ip_proto {
        6 => Some(16),
        17 | 33 | 136 => Some(6),
        1 | 2 | 58 => Some(2),
        _ => None,
    }
}

fn word(data: &[u8], at: usize) -> Option<u16> {
    data.get(at..)?.first_chunk().copied().map(u16::from_be_bytes)
}

fn put(data: &mut [u8], at: usize, value: &[u8]) {
    if let Some(place) = data.get_mut(at..at + value.len()) {
        place.copy_from_slice(value);
    }
}
