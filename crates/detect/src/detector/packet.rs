//! What conditions ask of a packet.

use crate::buffer::RuleBuffer;
use crate::condition::{ChecksumOf, Condition, IpOption, VlanLayer};
use crate::numbers::NumberTest;
use std::net::IpAddr;
use weir_wire::build::flags::{ACK, SYN};
use weir_wire::checksum::{Checksum, verify};
use weir_wire::header::{Header, Icmp, Ipv4, Ipv6, Tcp};
use weir_wire::{Fragment, Hints, Layers, LinkType, Network, Packet, Time};

/// A packet that is looked at, or the one that brought what is looked at.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    /// Its bytes, from the link-layer header on.
    pub data: &'a [u8],
    /// Its layers, of the level of the flow.
    pub layers: &'a Layers,
    /// What its source knows of it.
    pub hints: Hints,
}

impl<'a> Seen<'a> {
    /// A packet with its layers, of the level of the flow.
    pub fn of(packet: &Packet<'a>, layers: &'a Layers) -> Self {
        Self { data: packet.data, layers, hints: packet.hints }
    }
}

const ICMP: u8 = 1;
const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMPV6: u8 = 58;
/// The option of TCP that asks for Fast Open.
const FAST_OPEN: u8 = 34;
/// The beginning of an experimental option that asks for it.
const FAST_OPEN_EXPERIMENT: [u8; 2] = [0xf9, 0x89];

/// Types of ICMP whose second word has an identifier and a sequence number: echo, timestamp, information and address mask
/// (RFC 792, RFC 950).
const ICMP_WITH_ID: [u8; 8] = [0, 8, 13, 14, 15, 16, 17, 18];
/// Those of ICMPv6: echo (RFC 4443).
const ICMPV6_WITH_ID: [u8; 2] = [128, 129];

impl<'a> Seen<'a> {
    /// Its payload, as far as it was captured.
    pub fn payload(&self) -> &'a [u8] {
        self.layers.payload_of(self.data)
    }

    fn at(&self, from: u32, to: u32) -> &'a [u8] {
        self.data.get(from as usize..to as usize).unwrap_or_default()
    }

    /// The header of Ethernet. The link type is not known: a type that stands where Ethernet has it, and a length of tags and labels
    /// before the network header, tell it from others.
    fn ethernet(&self) -> Option<&'a [u8]> {
        const BYTES: u32 = 14;
        const TYPES: [u16; 8] = [0x0800, 0x86dd, 0x8100, 0x88a8, 0x9100, 0x8847, 0x8848, 0x8864];
        let Layers { link, network, .. } = *self.layers;
        let header = self.data.get(link as usize..(link + BYTES) as usize)?;
        let [.., high, low] = header else { return None };
        let is_known = TYPES.contains(&u16::from_be_bytes([*high, *low]));
        (is_known && network >= link + BYTES && (network - link - BYTES).is_multiple_of(4)).then_some(header)
    }

    /// Whether it was put together from fragments.
    pub(super) fn is_reassembled(&self) -> bool {
        self.hints.has(Hints::REASSEMBLED)
    }

    /// A checksum of its level: absent if it has none of this kind.
    fn checksum(&self, of: ChecksumOf) -> Checksum {
        use Network::{Ipv4, Ipv6};
        let (network, ip_proto) = match of {
            ChecksumOf::Ipv4 => (Ipv4, None),
            ChecksumOf::TcpV4 => (Ipv4, Some(TCP)),
            ChecksumOf::TcpV6 => (Ipv6, Some(TCP)),
            ChecksumOf::UdpV4 => (Ipv4, Some(UDP)),
            ChecksumOf::UdpV6 => (Ipv6, Some(UDP)),
            ChecksumOf::IcmpV4 => (Ipv4, Some(ICMP)),
            ChecksumOf::IcmpV6 => (Ipv6, Some(ICMPV6)),
        };
        if self.layers.network_kind != network || ip_proto.is_some_and(|is| is != self.layers.ip_proto) {
            return Checksum::Absent;
        }
        // A sum depends on bytes and hints alone.
        let packet = Packet {
            time: Time(0),
            data: self.data,
            wire_len: self.data.len() as u32,
            interface: 0,
            link: LinkType::RAW,
            hints: self.hints,
            number: 0,
        };
        let sums = verify(&packet, self.layers);
        if ip_proto.is_none() { sums.network } else { sums.transport }
    }

    fn ipv4(&self) -> Option<Ipv4<'a>> {
        (self.layers.network_kind == Network::Ipv4)
            .then(|| Ipv4::parse(self.data.get(self.layers.network as usize..)?))?
            .map(|(header, _)| header)
    }

    fn ipv6(&self) -> Option<Ipv6> {
        (self.layers.network_kind == Network::Ipv6)
            .then(|| Ipv6::parse(self.data.get(self.layers.network as usize..)?))?
            .map(|(header, _)| header)
    }

    pub(super) fn tcp(&self) -> Option<Tcp<'a>> {
        let is_tcp = self.layers.ip_proto == TCP && self.layers.has_transport();
        is_tcp
            .then(|| Tcp::parse(self.data.get(self.layers.transport as usize..)?))?
            .map(|(header, _)| header)
    }

    /// Whether it begins a handshake of TCP.
    pub(super) fn is_syn(&self) -> bool {
        let flags = self.layers.tcp_flags & (SYN | ACK);
        self.layers.ip_proto == TCP && self.layers.has_transport() && flags == SYN
    }

    /// Whether it asks for TCP Fast Open (RFC 7413, 4.1.1), by its own option or by an experimental one, as before it had a number
    /// (RFC 6994). Hosts take payload of a SYN with it alone.
    pub(super) fn asks_for_fast_open(&self) -> bool {
        let Some(tcp) = self.tcp() else { return false };
        let is_of_experiment = |kind: &u8| {
            let content = option_of(tcp.options, *kind);
            content.is_some_and(|content| content.starts_with(&FAST_OPEN_EXPERIMENT))
        };
        option_of(tcp.options, FAST_OPEN).is_some() || [253, 254].iter().any(is_of_experiment)
    }

    fn icmp(&self) -> Option<Icmp> {
        let is_icmp = [ICMP, ICMPV6].contains(&self.layers.ip_proto) && self.layers.has_transport();
        is_icmp
            .then(|| Icmp::parse(self.data.get(self.layers.transport as usize..)?))?
            .map(|(header, _)| header)
    }

    /// The identifier and the sequence number of a message of ICMP that has them.
    fn icmp_echo(&self) -> Option<(u16, u16)> {
        let icmp = self.icmp()?;
        let has_them = match self.layers.ip_proto {
            ICMP => ICMP_WITH_ID.contains(&icmp.kind),
            _ => ICMPV6_WITH_ID.contains(&icmp.kind),
        };
        let [a, b, c, d] = icmp.rest;
        has_them.then_some((u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])))
    }

    /// The source and the destination address.
    pub(super) fn addresses(&self) -> Option<(IpAddr, IpAddr)> {
        match (self.ipv4(), self.ipv6()) {
            (Some(ip), _) => Some((ip.src.into(), ip.dst.into())),
            (None, Some(ip)) => Some((ip.src.into(), ip.dst.into())),
            (None, None) => None,
        }
    }

    /// The bytes of a buffer of headers.
    pub(super) fn header(&self, buffer: &RuleBuffer) -> Option<Vec<u8>> {
        let Layers { network, transport, payload, ip_proto, .. } = *self.layers;
        let transport_of = |protocol: u8| {
            (ip_proto == protocol && self.layers.has_transport())
                .then(|| self.at(transport, payload).to_vec())
        };
        match buffer.name {
            "ether.hdr" => self.ethernet().map(<[u8]>::to_vec),
            "ipv4.hdr" => {
                self.ipv4().map(|ip| self.at(network, network + 20 + ip.options.len() as u32).to_vec())
            }
            "ipv6.hdr" => self.ipv6().map(|_| self.at(network, network + 40).to_vec()),
            "tcp.hdr" => transport_of(TCP),
            "udp.hdr" => transport_of(UDP),
            // The header and what it is about: the payload begins with the body of the message.
            "icmpv4.hdr" => transport_of(ICMP),
            "icmpv6.hdr" => transport_of(ICMPV6),
            "ip.src" => self.addresses().map(|(source, _)| bytes_of(source)),
            "ip.dst" => self.addresses().map(|(_, destination)| bytes_of(destination)),
            _ => None,
        }
    }

    /// Whether a condition on packets holds; `None` for one that is about something else.
    pub(super) fn holds(&self, condition: &Condition) -> Option<bool> {
        let layers = self.layers;
        Some(match condition {
            Condition::Ttl(test) => is_ip(layers) && test.passes(layers.ttl.into()),
            Condition::Tos(test) => {
                let class = |ip: Ipv6| (ip.class_and_flow >> 20) as u8;
                self.ipv4()
                    .map(|ip| ip.tos)
                    .or(self.ipv6().map(class))
                    .is_some_and(|tos| test.passes(tos.into()))
            }
            Condition::IpId(test) => self.ipv4().is_some_and(|ip| test.passes(ip.id.into())),
            Condition::IpProtocol(test) => is_ip(layers) && test.passes(layers.ip_proto.into()),
            Condition::IpOption(option) => self.ipv4().is_some_and(|ip| has_option(ip.options, *option)),
            Condition::FragmentBits(test) => {
                // The bits stand where they are in the first byte of the field.
                self.ipv4().is_some_and(|ip| test.passes((ip.fragment >> 8) as u8 & 0xe0))
            }
            Condition::FragmentOffset(test) => {
                self.ipv4().is_some_and(|ip| test.passes((ip.fragment & 0x1fff).into()))
            }
            Condition::SameIp => self.addresses().is_some_and(|(source, destination)| source == destination),
            Condition::TcpFlags(test) => self.tcp().is_some_and(|tcp| test.passes(tcp.flags)),
            Condition::Sequence(is) => self.tcp().is_some_and(|tcp| tcp.seq == *is),
            Condition::Acknowledgement(is) => self.tcp().is_some_and(|tcp| tcp.ack == *is),
            Condition::Window { is, is_negated } => {
                self.tcp().is_some_and(|tcp| (tcp.window == *is) != *is_negated)
            }
            Condition::VlanId(test, layer) => has_vlan(layers, *test, *layer),
            Condition::VlanLayers(test) => test.passes(layers.vlan_count.into()),
            Condition::Mss(test) => {
                self.tcp().and_then(|tcp| mss(tcp.options)).is_some_and(|mss| test.passes(mss.into()))
            }
            Condition::WindowScale(test) => {
                let shift = self.tcp().and_then(|tcp| window_scale(tcp.options));
                shift.is_some_and(|shift| test.passes(shift.into()))
            }
            Condition::IcmpType(test) => self.icmp().is_some_and(|icmp| test.passes(icmp.kind.into())),
            Condition::IcmpCode(test) => self.icmp().is_some_and(|icmp| test.passes(icmp.code.into())),
            Condition::IcmpId(is) => self.icmp_echo().is_some_and(|(id, _)| id == *is),
            Condition::IcmpSequence(is) => self.icmp_echo().is_some_and(|(_, sequence)| sequence == *is),
            Condition::IcmpMtu(test) => {
                let too_big = |icmp: &Icmp| layers.ip_proto == ICMPV6 && icmp.kind == 2;
                self.icmp()
                    .filter(too_big)
                    .is_some_and(|icmp| test.passes(u32::from_be_bytes(icmp.rest).into()))
            }
            Condition::PayloadSize(test) => {
                layers.fragment != Fragment::Later && test.passes(layers.payload_len.into())
            }
            Condition::Checksum { of, is_right } => match self.checksum(*of) {
                Checksum::Good => *is_right,
                Checksum::Bad => !*is_right,
                // Nothing is known of a sum that a card completes, or whose bytes were not all captured.
                Checksum::Absent | Checksum::Unknown => false,
            },
            _ => return None,
        })
    }
}

/// Whether a condition is about single packets: [`Seen::holds`] knows it.
pub(super) fn is_of_packet(condition: &Condition) -> bool {
    use Condition::{
        Acknowledgement, Checksum, FragmentBits, FragmentOffset, IcmpCode, IcmpId, IcmpMtu, IcmpSequence,
        IcmpType, IpId, IpOption, IpProtocol, Mss, PayloadSize, SameIp, Sequence, TcpFlags, Tos, Ttl, VlanId,
        VlanLayers, Window, WindowScale,
    };
    matches!(
        condition,
        Acknowledgement(_)
            | Checksum { .. }
            | FragmentBits(_)
            | FragmentOffset(_)
            | IcmpCode(_)
            | IcmpId(_)
            | IcmpMtu(_)
            | IcmpSequence(_)
            | IcmpType(_)
            | IpId(_)
            | IpOption(_)
            | IpProtocol(_)
            | Mss(_)
            | WindowScale(_)
            | PayloadSize(_)
            | SameIp
            | Sequence(_)
            | TcpFlags(_)
            | Tos(_)
            | Ttl(_)
            | VlanId(..)
            | VlanLayers(_)
            | Window { .. }
    )
}

fn is_ip(layers: &Layers) -> bool {
    matches!(layers.network_kind, Network::Ipv4 | Network::Ipv6)
}

/// Whether a tag of a VLAN passes. Two tags are known: the outermost one and the next one.
fn has_vlan(layers: &Layers, test: NumberTest, layer: VlanLayer) -> bool {
    let count = usize::from(layers.vlan_count);
    let known = layers.vlan.get(..count).unwrap_or(&layers.vlan);
    let passes = |id: &u16| test.passes((*id).into());
    match layer {
        VlanLayer::Any => known.iter().any(passes),
        VlanLayer::All => !known.is_empty() && known.iter().all(passes),
        VlanLayer::At(at) => {
            let place =
                usize::try_from(at).ok().or_else(|| count.checked_sub(usize::from(at.unsigned_abs())));
            place.and_then(|place| known.get(place)).is_some_and(passes)
        }
    }
}

fn bytes_of(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

/// Whether options of IPv4 (RFC 791 3.1) have one of a kind. A length that does not fit ends them.
fn has_option(options: &[u8], wanted: IpOption) -> bool {
    let mut rest = options;
    while let [kind, after @ ..] = rest {
        let is_wanted = match wanted {
            IpOption::Any => true,
            IpOption::Kind(number) => number == *kind,
        };
        if is_wanted {
            return true;
        }
        rest = match (kind, after.first()) {
            (0, _) => return false,
            (1, _) => after,
            (_, Some(length)) if *length >= 2 => rest.get(usize::from(*length)..).unwrap_or_default(),
            _ => return false,
        };
    }
    false
}

/// The maximum segment size among options of TCP (RFC 9293 3.2).
fn mss(options: &[u8]) -> Option<u16> {
    match option_of(options, 2)? {
        [high, low] => Some(u16::from_be_bytes([*high, *low])),
        _ => None,
    }
}

/// The shift of the window scale among options of TCP (RFC 7323 2.2).
fn window_scale(options: &[u8]) -> Option<u8> {
    match option_of(options, 3)? {
        [shift] => Some(*shift),
        _ => None,
    }
}

/// The content of the first option of TCP of a kind.
fn option_of(options: &[u8], wanted: u8) -> Option<&[u8]> {
    let mut rest = options;
    loop {
        rest = match rest {
            [1, after @ ..] => after,
            [kind, length, ..] if *kind != 0 && *length >= 2 => {
                let length = usize::from(*length);
                if *kind == wanted {
                    return rest.get(2..length);
                }
                rest.get(length..)?
            }
            _ => return None,
        };
    }
}
