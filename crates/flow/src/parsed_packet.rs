//! Facts about a packet and its flow: only this module reads packet bytes.

#![deny(clippy::indexing_slicing)]

use crate::config::VerifiedChecksums;
use crate::hash::KeyHash;
use crate::index::Lines;
use crate::tcp::Segment;
use weir_wire::{
    Checksum, FlowKey, Fragment, Layers, LinkType, MAX_TUNNELS, Network, Packet, Tag, Time, Tunnel,
    decapsulate, shows_its_key, verify,
};

/// IP protocol number of UDP.
const UDP: u8 = 17;
/// IPv6 without payload (RFC 8200 4.7), which Teredo uses as keep-alive.
const NO_NEXT_HEADER: u8 = 59;

/// The flow and the sender of a packet.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FlowRef {
    /// Hash of the key, and the flow's cache line in the index: 0 before [`Looker::find`]. The line changes when the index grows.
    pub hash: u64,
    pub line: u32,
    pub key: FlowKey,
    /// 0 if the lower endpoint sent the packet.
    pub sender: u8,
}

/// The facts of a packet about its flow.
#[derive(Clone, Debug, Default)]
pub(crate) struct Facts {
    pub time: Time,
    /// Time of the earliest fragment that is counted here, else `time`.
    pub earliest: Time,
    pub ttl: u8,
    pub tunnel: Tunnel,
    /// Whether the next entry is the packet that this one carries.
    pub carrier: bool,
    /// The kind of tunnel, if the packet carries content. A Teredo bubble without a next header does not.
    pub carries: Tunnel,
    /// Whether the previous entry is the carrier of this packet.
    pub carried: bool,
    pub bad_checksum: bool,
    /// Whether the packet's own headers show the key, see [`shows_its_key`].
    pub regular: bool,
    /// It is an answer of DNS, NTP or Teredo to a port of its protocol: its sender was asked before.
    pub answers: bool,
    /// It is a request of NTP from a port of NTP: its sender is a client.
    pub asks: bool,
    /// The TCP header, if the packet has one.
    pub segment: Option<Segment>,
    pub packets: u32,
    /// Those of the packets that are fragments without the ports.
    pub later_fragments: u32,
    pub frame_bytes: u64,
    pub ip_bytes: u64,
    pub payload_bytes: u64,
    pub interface: u32,
    pub vlan: [u16; 2],
    pub tag: Tag,
    pub mac: [u8; 6],
}

/// Flow and facts of a packet that is not plain. A packet that a tunnel over UDP carries has two entries.
#[derive(Clone, Debug, Default)]
pub(crate) struct ParsedPacket {
    pub flow_ref: FlowRef,
    pub facts: Facts,
    /// The identifier of the tunnel directly over IP that carried the packet; 0 for none.
    pub outer: u64,
}

/// How packets are parsed.
#[derive(Clone, Debug)]
pub(crate) struct Looker {
    pub hash: KeyHash,
    pub lines: Lines,
    pub vlan: bool,
    pub checksums: VerifiedChecksums,
}

impl Looker {
    /// Whether a packet is whole, carries no other packet and has no checksum to verify: [`Looker::flow_ref`] and
    /// [`Looker::facts`] then return all facts.
    #[inline]
    pub fn is_plain(&self, layers: &Layers) -> bool {
        (layers.common || layers.tunnel == Tunnel::None && layers.fragment == Fragment::Whole)
            && self.checksums == VerifiedChecksums::None
    }

    /// A bit for each of the first 64 packets, the lowest for the first one: whether [`Looker::flow_ref_common`] applies, and
    /// there is no checksum to verify.
    #[inline]
    pub fn common_ones(&self, packets: &[Layers]) -> u64 {
        match self.checksums {
            VerifiedChecksums::None => Layers::common_ones(packets),
            VerifiedChecksums::Tcp | VerifiedChecksums::All => 0,
        }
    }

    /// Emits the parsed packets of a packet, outermost first, each with its layers; none for packets other than IP.
    /// Every one but the last is a carrier. `name` gives the identifier of each tunnel directly over IP.
    #[cold]
    pub fn look_inside(
        &self,
        packet: &Packet<'_>,
        outer: &Layers,
        mut name: impl FnMut(&ParsedPacket, Tunnel) -> u64,
        mut see: impl FnMut(ParsedPacket, &Layers),
    ) {
        let mut level = *outer;
        let mut parent = 0;
        let (mut tunnel, mut carried) = (Tunnel::None, false);
        for _ in 0..=MAX_TUNNELS {
            let Some(mut parsed) = self.level(packet, &level, outer, tunnel) else { return };
            parsed.facts.carried = carried;
            parsed.outer = parent;
            let inner = decapsulate(packet, &level).filter(|inner| self.is_flow(packet, inner));
            let Some(inner) = inner.filter(|_| !parsed.facts.bad_checksum) else {
                see(parsed, &level);
                return;
            };
            // The packets of a tunnel over UDP form a flow.
            if level.ip_proto == UDP {
                parsed.facts.carrier = true;
                if inner.ip_proto != NO_NEXT_HEADER {
                    parsed.facts.carries = level.tunnel;
                }
                carried = true;
                parent = 0;
                see(parsed, &level);
            } else {
                carried = false;
                parent = name(&parsed, level.tunnel);
            }
            tunnel = level.tunnel;
            level = inner;
        }
    }

    fn level(
        &self,
        packet: &Packet<'_>,
        layers: &Layers,
        outer: &Layers,
        tunnel: Tunnel,
    ) -> Option<ParsedPacket> {
        let vlan = if layers.vlan_count > 0 { layers.vlan } else { outer.vlan };
        let flow_ref = self.flow_ref(packet, layers, vlan)?;
        let regular = tunnel == Tunnel::None && shows_its_key(packet, layers);
        let mut facts = Facts { tunnel, vlan, ..self.facts(packet, layers, regular) };
        if self.checksums != VerifiedChecksums::None {
            let sums = verify(packet, layers);
            let is_all = self.checksums == VerifiedChecksums::All;
            if is_all && sums.network == Checksum::Bad {
                return None;
            }
            let is_verified =
                matches!(flow_ref.key.proto, 6) || is_all && matches!(flow_ref.key.proto, 1 | 17 | 58);
            facts.bad_checksum = is_verified && sums.transport == Checksum::Bad;
        }
        Some(ParsedPacket { flow_ref, facts, outer: 0 })
    }

    /// The flow of a packet, before [`Looker::find`]; `None` for packets other than IP.
    pub fn flow_ref(&self, packet: &Packet<'_>, layers: &Layers, vlan: [u16; 2]) -> Option<FlowRef> {
        let (mut key, is_lower) = FlowKey::of(packet, layers)?;
        if self.vlan {
            key.space = key.space.in_vlans(vlan);
        }
        Some(FlowRef { key, sender: u8::from(!is_lower), ..FlowRef::default() })
    }

    /// The flow of a packet that is [`Layers::common`] and thus untagged, before [`Looker::find`]. Layers that are not those of the
    /// data give some flow.
    #[inline(always)]
    pub fn flow_ref_common(data: &[u8], layers: &Layers) -> FlowRef {
        let (key, is_lower) = FlowKey::of_common(data, layers).unwrap_or_default();
        FlowRef { key, sender: u8::from(!is_lower), ..FlowRef::default() }
    }

    /// Sets the hash and the line in the index from the key.
    #[inline(always)]
    pub fn find(&self, flow_ref: &mut FlowRef) {
        flow_ref.hash = self.hash.of(&flow_ref.key);
        flow_ref.line = self.lines.of(flow_ref.hash);
    }

    /// A flow with its hash and its line in the index.
    pub fn found(&self, mut flow_ref: FlowRef) -> FlowRef {
        self.find(&mut flow_ref);
        flow_ref
    }

    /// The facts of one level of a packet.
    #[inline(always)]
    pub fn facts(&self, packet: &Packet<'_>, layers: &Layers, regular: bool) -> Facts {
        Facts {
            time: packet.time,
            earliest: packet.time,
            ttl: layers.ttl,
            tunnel: Tunnel::None,
            carrier: false,
            carries: Tunnel::None,
            carried: false,
            bad_checksum: false,
            regular,
            answers: layers.ip_proto == 17 && is_answer(packet, layers),
            asks: layers.ip_proto == 17 && layers.ports[0] == NTP && ntp_mode(packet, layers) == Some(3),
            segment: if layers.ip_proto == 6 { segment(packet, layers) } else { None },
            packets: 1,
            later_fragments: 0,
            frame_bytes: u64::from(packet.wire_len),
            ip_bytes: u64::from(layers.network_len),
            payload_bytes: u64::from(layers.payload_len),
            interface: packet.interface,
            vlan: layers.vlan,
            tag: Tag::of(packet.link, layers),
            mac: mac(packet),
        }
    }

    fn is_flow(&self, packet: &Packet<'_>, layers: &Layers) -> bool {
        matches!(layers.network_kind, Network::Ipv4 | Network::Ipv6) && FlowKey::of(packet, layers).is_some()
    }
}

/// Whether a datagram to a port of DNS (and of the protocols that have its form) or of NTP is a response, by its flags or
/// its mode; or one from the port of Teredo is a server's.
#[inline]
fn is_answer(packet: &Packet<'_>, layers: &Layers) -> bool {
    if layers.ports[0] == TEREDO && is_of_teredo_server(packet, layers).is_some() {
        return true;
    }
    match layers.ports[1] {
        53 | 137 | 5353 | 5355 => {
            layers.payload_len >= 12
                && packet.data.get(layers.payload as usize + 2).is_some_and(|flags| flags & 0x80 != 0)
        }
        NTP => ntp_mode(packet, layers) == Some(4),
        _ => false,
    }
}

/// The port of Teredo servers.
const TEREDO: u16 = 3544;

/// Whether only a server of Teredo sends such a datagram (RFC 4380, section 5.1.1 and 5.2.1): one with an origin
/// indication, or a router advertisement.
#[cold]
fn is_of_teredo_server(packet: &Packet<'_>, layers: &Layers) -> Option<()> {
    const IPV6: usize = 40;
    const ICMPV6: u8 = 58;
    const ADVERTISEMENT: u8 = 134;
    let data = packet.data.get(layers.payload as usize..)?;
    let data = match *data {
        // Authentication: lengths of an identifier and of a value, both, a nonce, and a byte of confirmation.
        [0, 1, id, value, ..] => data.get(4 + usize::from(id) + usize::from(value) + 8 + 1..)?,
        _ => data,
    };
    let is_origin = data.starts_with(&[0, 0]);
    let carries = || Some((data.first()? >> 4, *data.get(6)?, *data.get(IPV6)?));
    (is_origin || carries() == Some((6, ICMPV6, ADVERTISEMENT))).then_some(())
}

/// The port of NTP.
const NTP: u16 = 123;

/// The mode of a message of NTP (RFC 5905, section 7.3): 3 is a client's, 4 a server's.
fn ntp_mode(packet: &Packet<'_>, layers: &Layers) -> Option<u8> {
    const HEADER: u32 = 48;
    let first = *packet.data.get(layers.payload as usize)?;
    let is_known = layers.payload_len >= HEADER && (1..=4).contains(&(first >> 3 & 7));
    is_known.then_some(first & 7)
}

/// Ethernet source address.
#[inline]
fn mac(packet: &Packet<'_>) -> [u8; 6] {
    let address = || packet.data.get(6..)?.first_chunk::<6>().copied();
    if packet.link == LinkType::ETHERNET { address().unwrap_or_default() } else { [0; 6] }
}

/// The TCP header of a packet that has one.
#[inline(always)]
pub(crate) fn segment(packet: &Packet<'_>, layers: &Layers) -> Option<Segment> {
    if !layers.has_transport() {
        return None;
    }
    let header = packet.data.get(layers.transport as usize + 4..)?.first_chunk::<12>()?;
    let (seq, rest) = header.split_first_chunk()?;
    let (ack, rest) = rest.split_first_chunk()?;
    let end = layers.payload as usize + layers.payload_len as usize;
    Some(Segment {
        seq: u32::from_be_bytes(*seq),
        ack: u32::from_be_bytes(*ack),
        len: layers.payload_len,
        window: rest.last_chunk().copied().map_or(0, u16::from_be_bytes),
        flags: layers.tcp_flags,
        captured: end <= packet.data.len(),
    })
}
