//! Questions for the hosts of a link, and their answers: ARP (RFC 826) and neighbour discovery (RFC 4861). They are packets of
//! no flow, since the packets of a question and of its answer have other addresses than those that they are about.

use weir_filter::FlowEndpoints;
use weir_wire::{Layers, Mac, Network, Packet, Reader, Time, mapped};

/// IP protocol of ICMPv6.
const ICMPV6: u8 = 58;
/// Types of ICMPv6 (RFC 4861 4.3 and 4.4).
const SOLICITATION: u8 = 135;
const ADVERTISEMENT: u8 = 136;
/// What ARP has in place of an IP protocol: reserved by IANA, so that no expression of a protocol matches it.
const NO_PROTOCOL: u8 = 255;

/// A question for the host with an address, or an answer to one.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Question {
    /// The host that asks.
    pub asker: Asker,
    /// The address that it asks for, IPv4 mapped into IPv6.
    pub target: [u8; 16],
    /// How it asks.
    pub kind: QuestionKind,
    /// Whether this is the answer of the target.
    pub is_answer: bool,
    /// The time of the packet.
    pub time: Time,
    /// The outer VLAN identifier; 0 for untagged.
    pub vlan: u16,
}

/// Who asks.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Asker {
    /// A host with an address, IPv4 mapped into IPv6.
    Host([u8; 16]),
    /// A host without an address: a probe of ARP (RFC 5227) has the hardware address alone.
    Station(Mac),
}

/// How a host asks.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum QuestionKind {
    /// By ARP.
    Arp,
    /// By neighbour discovery.
    Nd,
}

/// Whether a packet with these layers may be a question or an answer.
pub(crate) fn may_ask(layers: &Layers) -> bool {
    let kind = |kind: u8| layers.ports[0] == u16::from(kind);
    layers.network_kind == Network::Arp
        || (layers.ip_proto == ICMPV6 && (kind(SOLICITATION) || kind(ADVERTISEMENT)))
}

impl Question {
    /// The question or answer of a packet; `None` if it is neither. An announcement, or a gratuitous reply, asks nothing.
    pub fn of(packet: &Packet<'_>, layers: &Layers) -> Option<Self> {
        if layers.error.is_some() {
            return None;
        }
        let header = packet.data.get(layers.network as usize..)?;
        let (asker, target, kind, is_answer) = match layers.network_kind {
            Network::Arp => of_arp(header)?,
            Network::Ipv6 if layers.ip_proto == ICMPV6 => {
                of_discovery(header, packet.data.get(layers.transport as usize..)?)?
            }
            _ => return None,
        };
        Some(Self { asker, target, kind, is_answer, time: packet.time, vlan: layers.vlan[0] })
    }

    /// The ends of a flow from the asker to the target, for tests of flows. A station has no address.
    pub fn endpoints(&self) -> FlowEndpoints {
        let asker = match self.asker {
            Asker::Host(address) => address,
            Asker::Station(_) => mapped([0; 4]),
        };
        let protocol = match self.kind {
            QuestionKind::Arp => NO_PROTOCOL,
            QuestionKind::Nd => ICMPV6,
        };
        FlowEndpoints { address: [asker, self.target], port: [0; 2], protocol, vlan: self.vlan }
    }
}

/// Who asks for which address and how, and whether it is an answer.
type Parts = (Asker, [u8; 16], QuestionKind, bool);

/// A packet of ARP for IPv4. The link layer may be any with addresses of 6 bytes.
fn of_arp(header: &[u8]) -> Option<Parts> {
    const IPV4: u16 = 0x0800;
    const REQUEST: u16 = 1;
    const REPLY: u16 = 2;
    let mut reader = Reader::new(header);
    let (_, protocol, lengths) = (reader.u16()?, reader.u16()?, (reader.u8()?, reader.u8()?));
    if (protocol, lengths) != (IPV4, (6, 4)) {
        return None;
    }
    let is_answer = match reader.u16()? {
        REQUEST => false,
        REPLY => true,
        _ => return None,
    };
    let mut end = || Some((*reader.take(6)?.first_chunk::<6>()?, *reader.take(4)?.first_chunk::<4>()?));
    let (sender, receiver) = (end()?, end()?);
    // The sender of a reply is what was asked for.
    let ((mac, asker), (_, target)) = if is_answer { (receiver, sender) } else { (sender, receiver) };
    let is_host = |[first, ..]: [u8; 4]| (1..224).contains(&first);
    if asker == target || !is_host(target) {
        return None;
    }
    let asker = match asker {
        [0, 0, 0, 0] => Asker::Station(mac),
        address if is_host(address) => Asker::Host(mapped(address)),
        _ => return None,
    };
    Some((asker, mapped(target), QuestionKind::Arp, is_answer))
}

/// A message of neighbour discovery: the header of IPv6, and the message.
fn of_discovery(header: &[u8], message: &[u8]) -> Option<Parts> {
    /// A message from another link has fewer hops left (RFC 4861 7.1).
    const HOPS: u8 = 255;
    /// The flag of an answer to a question, in the first byte after the checksum.
    const SOLICITED: u8 = 0x40;
    const MULTICAST: u8 = 0xff;
    let mut reader = Reader::new(header);
    reader.take(7)?;
    let hops = reader.u8()?;
    let source = *reader.take(16)?.first_chunk::<16>()?;
    let destination = *reader.take(16)?.first_chunk::<16>()?;
    let mut reader = Reader::new(message);
    let (kind, code) = (reader.u8()?, reader.u8()?);
    reader.take(2)?;
    let flags = reader.u8()?;
    reader.take(3)?;
    let target = *reader.take(16)?.first_chunk::<16>()?;
    let (asker, is_answer) = match kind {
        SOLICITATION => (source, false),
        ADVERTISEMENT if flags & SOLICITED != 0 => (destination, true),
        _ => return None,
    };
    // A host that tests its own new address asks from none (RFC 4862 5.4.2).
    let is_host = |address: [u8; 16]| address != [0; 16] && address[0] != MULTICAST;
    let is_valid = hops == HOPS && code == 0 && is_host(asker) && is_host(target) && asker != target;
    is_valid.then_some((Asker::Host(asker), target, QuestionKind::Nd, is_answer))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use weir_wire::build::{self, packet};
    use weir_wire::{LinkType, decode};

    /// A packet of ARP: its operation, and the addresses of sender and receiver. The last byte of a hardware address is that of the
    /// address of IPv4, and 9 without one.
    pub fn arp(operation: u8, sender: [u8; 4], receiver: [u8; 4]) -> Vec<u8> {
        let mac = |address: [u8; 4]| [2, 0, 0, 0, 0, if address == [0; 4] { 9 } else { address[3] }];
        let head = [&[0xff; 6][..], &mac(sender), &[8, 6], &[0, 1, 8, 0, 6, 4, 0, operation]].concat();
        [&head[..], &mac(sender), &sender, &mac(receiver), &receiver].concat()
    }

    /// An address of the link, and the group in which the host with it is asked for.
    pub fn link(last: u8) -> [u8; 16] {
        [0xfe, 0x80, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0xff, 0xfe, 0, 0, last]
    }

    fn group(last: u8) -> [u8; 16] {
        [0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, 0, 0, last]
    }

    fn message(kind: u8, ends: [[u8; 16]; 2], flags: u8, target: [u8; 16]) -> Vec<u8> {
        let frame = build::ethernet().ipv6(ends[0], ends[1]).icmp(kind, 0, [flags, 0, 0, 0]);
        let mut frame = frame.payload(&target);
        frame[14 + 7] = 255;
        frame
    }

    /// A question of a host of the link, and its answer.
    pub fn solicitation(asker: u8, target: u8) -> Vec<u8> {
        message(SOLICITATION, [link(asker), group(target)], 0, link(target))
    }

    pub fn advertisement(asker: u8, target: u8) -> Vec<u8> {
        message(ADVERTISEMENT, [link(target), link(asker)], 0x60, link(target))
    }

    fn question(data: &[u8]) -> Option<Question> {
        let packet = packet(data, LinkType::ETHERNET);
        let layers = decode(&packet);
        let found = Question::of(&packet, &layers);
        assert!(found.is_none() || may_ask(&layers));
        found
    }

    const ONE: [u8; 4] = [10, 0, 0, 1];
    const TWO: [u8; 4] = [10, 0, 0, 2];

    #[test]
    fn requests_and_replies_of_arp() {
        let expected = |asker, is_answer| {
            let (kind, time) = (QuestionKind::Arp, Time::default());
            Some(Question { asker, target: mapped(TWO), kind, is_answer, time, vlan: 0 })
        };
        let host = Asker::Host(mapped(ONE));
        assert_eq!(question(&arp(1, ONE, TWO)), expected(host, false));
        assert_eq!(question(&arp(2, TWO, ONE)), expected(host, true));
        let station = Asker::Station([2, 0, 0, 0, 0, 9]);
        assert_eq!(question(&arp(1, [0; 4], TWO)), expected(station, false));
        assert_eq!(question(&arp(2, TWO, [0; 4])), expected(station, true));
        // Announcements, other operations, addresses of no host, and other lengths.
        let mut long = arp(1, ONE, TWO);
        long[19] = 16;
        let none = [
            arp(1, ONE, ONE),
            arp(2, ONE, ONE),
            arp(1, [0; 4], [0; 4]),
            arp(3, ONE, TWO),
            arp(9, ONE, TWO),
            arp(1, ONE, [0; 4]),
            arp(1, ONE, [255; 4]),
            arp(1, [224, 0, 0, 1], TWO),
            long,
        ];
        assert!(none.iter().all(|data| question(data).is_none()));
    }

    #[test]
    fn solicitations_and_their_advertisements() {
        let found = |data: &[u8]| question(data).map(|one| (one.asker, one.target, one.is_answer));
        let host = Asker::Host(link(1));
        assert_eq!(found(&solicitation(1, 2)), Some((host, link(2), false)));
        assert_eq!(found(&advertisement(1, 2)), Some((host, link(2), true)));
        // A host is asked directly whether it is still there.
        let direct = message(SOLICITATION, [link(1), link(2)], 0, link(2));
        assert_eq!(found(&direct), Some((host, link(2), false)));
        let mut far = solicitation(1, 2);
        far[14 + 7] = 254;
        let none = [
            far,
            message(SOLICITATION, [[0; 16], group(2)], 0, link(2)),
            message(SOLICITATION, [link(1), group(2)], 0, group(2)),
            message(ADVERTISEMENT, [link(2), group(1)], 0x60, link(2)),
            message(ADVERTISEMENT, [link(2), link(1)], 0x20, link(2)),
            message(128, [link(1), link(2)], 0, link(2)),
        ];
        assert!(none.iter().all(|data| found(data).is_none()));
    }

    #[test]
    fn packets_that_are_cut_ask_nothing() {
        for data in [arp(1, ONE, TWO), arp(2, TWO, ONE), solicitation(1, 2), advertisement(1, 2)] {
            assert!(question(&data).is_some());
            for len in 0..data.len() {
                assert_eq!(question(&data[..len]), None, "{len} of {}", data.len());
            }
        }
    }

    #[test]
    fn expressions_see_the_asker_and_the_target_as_ends_of_a_flow() {
        let ends = question(&arp(2, TWO, ONE)).unwrap().endpoints();
        assert_eq!(ends.address, [mapped(ONE), mapped(TWO)]);
        assert_eq!(question(&arp(1, ONE, TWO)).unwrap().endpoints().address, ends.address);
        assert_eq!(question(&solicitation(1, 2)).unwrap().endpoints().protocol, 58);
    }
}
