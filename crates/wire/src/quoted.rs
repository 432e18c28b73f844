//! The packet that an ICMP or ICMPv6 error is about.

use crate::{FlowKey, Fragment, Hints, Layers, LinkType, Network, Packet, decode};
use std::ops::Range;

const ICMP: u8 = 1;
const ICMPV6: u8 = 58;
/// Bytes of an error message before the packet that it quotes.
const HEADER: usize = 8;

/// The beginning of a packet that an error message quotes: at least the network header and 8 more bytes (RFC 792), or as much
/// as fits (RFC 1812 4.3.2.3, RFC 4443 2.4). What an error quotes is the claim of its sender: a forged one quotes packets that
/// no one has sent.
#[derive(Clone, Copy, Debug)]
pub struct Quoted<'a> {
    /// The quoted bytes, as a packet of raw IP whose length on the wire is not known: 65,535 or more.
    pub packet: Packet<'a>,
    /// Its layers. A quote may end within the transport header: [`Layers::error`] says so, and the ports are there as long as
    /// their four bytes are. [`Network::None`] if it is no IP packet.
    pub layers: Layers,
    /// Offset of the quoted bytes in the data of the message's packet.
    at: usize,
}

impl Quoted<'_> {
    /// The place of the quoted bytes in the data of the message's packet.
    pub fn place(&self) -> Range<usize> {
        self.at..self.at + self.packet.data.len()
    }

    /// The key of the quoted packet's flow, and whether its sender is the lower endpoint: see [`FlowKey::of`]. `None` if the
    /// quote is no IP packet, or too short for its addresses.
    pub fn key(&self) -> Option<(FlowKey, bool)> {
        FlowKey::of(&self.packet, &self.layers)
    }
}

/// Whether a message of ICMP (`ip_proto` 1) or ICMPv6 (58) of a type quotes a packet: unreachable, source quench, redirect, time
/// exceeded and parameter problem (RFC 792), and errors 1 to 4 of ICMPv6 (RFC 4443 3).
pub fn quotes(ip_proto: u8, kind: u16) -> bool {
    match ip_proto {
        ICMP => matches!(kind, 3 | 4 | 5 | 11 | 12),
        ICMPV6 => matches!(kind, 1..=4),
        _ => false,
    }
}

/// The packet that an error message quotes. `layers` are those of the message, at any level of its packet. `None` if it is no such
/// message, or a fragment of one.
pub fn quoted<'a>(packet: &Packet<'a>, layers: &Layers) -> Option<Quoted<'a>> {
    let is_whole = layers.fragment == Fragment::Whole && layers.network_kind != Network::None;
    if !is_whole || !layers.has_transport() || !quotes(layers.ip_proto, layers.ports[0]) {
        return None;
    }
    let end = (layers.network.saturating_add(layers.network_len) as usize).min(packet.data.len());
    let at = (layers.transport as usize + HEADER).min(end);
    let data = packet.data.get(at..end)?;
    // It has its true length in its header, and most of it is missing.
    let wire_len = u32::from(u16::MAX).max(u32::try_from(data.len()).unwrap_or(u32::MAX));
    let packet = Packet { data, wire_len, link: LinkType::RAW, hints: Hints::default(), ..*packet };
    // A flow in a tunnel draws errors that are in the tunnel, too.
    let layers = Layers { within: layers.within, vlan: layers.vlan, ..decode(&packet) };
    Some(Quoted { packet, layers, at })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::build::{self, flags};

    const A: [u8; 4] = [192, 0, 2, 1];
    const B: [u8; 4] = [198, 51, 100, 2];
    const ROUTER: [u8; 4] = [203, 0, 113, 9];

    fn six(last: u8) -> [u8; 16] {
        [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last]
    }

    /// The key of a flow, and whether its sender is the lower endpoint.
    type Key = Option<(FlowKey, bool)>;

    /// The quote of a frame, with the key of its flow.
    fn quote(frame: &[u8]) -> Option<(Range<usize>, Key)> {
        let packet = build::packet(frame, LinkType::ETHERNET);
        quoted(&packet, &decode(&packet)).map(|quoted| (quoted.place(), quoted.key()))
    }

    fn key(frame: &[u8]) -> Key {
        let packet = build::packet(frame, LinkType::RAW);
        FlowKey::of(&packet, &decode(&packet))
    }

    #[test]
    fn an_error_shows_the_flow_that_drew_it() {
        let udp = build::ip().ipv4(A, B).udp(4000, 53).payload(b"query");
        for (kind, rest) in [(3, [0; 4]), (4, [0; 4]), (5, ROUTER), (11, [0; 4]), (12, [0; 4])] {
            let error = build::ethernet().ipv4(ROUTER, A).icmp(kind, 1, rest).payload(&udp);
            assert_eq!(quote(&error), Some((42..42 + udp.len(), key(&udp))), "{kind}");
        }
        let tcp = build::ip().ipv6(six(1), six(2)).tcp(4000, 80, flags::SYN).payload(&[]);
        for kind in 1..=4 {
            let error = build::ethernet().ipv6(six(9), six(1)).icmp(kind, 0, [0; 4]).payload(&tcp);
            assert_eq!(quote(&error), Some((62..62 + tcp.len(), key(&tcp))), "{kind}");
        }
    }

    #[test]
    fn eight_bytes_of_transport_show_the_ports() {
        let tcp = build::ip().ipv4(A, B).tcp(4000, 80, flags::SYN).payload(b"x");
        let of = |length: usize| {
            let error = build::ethernet().ipv4(ROUTER, A).icmp(3, 1, [0; 4]).payload(&tcp[..length]);
            quote(&error).and_then(|(_, key)| key)
        };
        assert_eq!(of(28), key(&tcp));
        assert_eq!(of(24), key(&tcp));
        // Without ports, the flow is between the two hosts alone.
        assert_eq!(of(22).map(|(key, _)| key.port), Some([0, 0]));
        assert_eq!(of(12), None);
        assert_eq!(of(0), None);
    }

    #[test]
    fn other_messages_quote_nothing() {
        let udp = build::ip().ipv4(A, B).udp(4000, 53).payload(b"query");
        for kind in [0, 8, 9, 13, 30] {
            assert_eq!(quote(&build::ethernet().ipv4(A, B).icmp(kind, 0, [0; 4]).payload(&udp)), None);
        }
        for kind in [128, 129, 133, 137] {
            let frame = build::ethernet().ipv6(six(1), six(2)).icmp(kind, 0, [0; 4]).payload(&udp);
            assert_eq!(quote(&frame), None);
        }
        assert_eq!(quote(&build::ethernet().ipv4(A, B).udp(1, 2).payload(&udp)), None);
    }

    #[test]
    fn what_a_liar_quotes_ends_where_the_message_does() {
        // The quoted header claims more than there is, and the message lies in a frame with a trailer.
        let mut udp = build::ip().ipv4(A, B).udp(4000, 53).payload(b"query");
        udp[2..4].copy_from_slice(&[0xff, 0xff]);
        let mut error = build::ethernet().ipv4(ROUTER, A).icmp(3, 3, [0; 4]).payload(&udp);
        let end = error.len();
        error.extend([7; 20]);
        assert_eq!(quote(&error).map(|(place, _)| place), Some(42..end));
        for length in 0..end {
            // No length panics.
            let _ = quote(&error[..length]);
        }
        // Noise is no IP packet.
        let noise = build::ethernet().ipv4(ROUTER, A).icmp(3, 3, [0; 4]).payload(&[0xff; 40]);
        assert_eq!(quote(&noise).map(|(_, key)| key), Some(None));
    }
}
