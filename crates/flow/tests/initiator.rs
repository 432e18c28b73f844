//! The initiator of a flow whose first packet is an answer.

mod captures;

use captures::Kept;
use weir_flow::{FlowConfig, FlowTable};
use weir_wire::build::{self, flags};
use weir_wire::{LinkType, decode};

const CLIENT: [u8; 4] = [10, 0, 0, 1];
const SERVER: [u8; 4] = [10, 0, 0, 2];

/// Whether the flow of this one packet, from the server, has the client as its initiator.
fn is_answer(data: &[u8]) -> bool {
    let mut table = FlowTable::new(&FlowConfig::default());
    let mut kept = Kept::default();
    let packet = build::packet(data, LinkType::ETHERNET);
    table.packet(&packet, &decode(&packet), &mut kept);
    table.drain(&mut kept);
    // A tunnel is the first of its flows to end; what it carries is another.
    let carriers = kept.records.iter().filter(|flow| matches!(flow.key.proto, 6 | 17));
    let lower = carriers.map(|flow| flow.initiator_is_lower).collect::<Vec<_>>();
    let [is_client] = lower.as_slice() else { panic!("{} flows", lower.len()) };
    *is_client
}

/// Only a server answers a SYN, whatever the ports.
#[test]
fn a_syn_ack_is_of_the_server() {
    for (from, to) in [(9999, 40_000), (40_000, 9999), (40_000, 80), (80, 443), (443, 80), (7, 7)] {
        let segment = |flags| build::ethernet().ipv4(SERVER, CLIENT).tcp(from, to, flags).payload(&[]);
        assert!(is_answer(&segment(flags::SYN | flags::ACK)), "{from} to {to}");
        assert!(!is_answer(&segment(flags::SYN)), "{from} to {to}");
    }
    let later = build::ethernet().ipv4(SERVER, CLIENT).tcp(9999, 40_000, flags::ACK).payload(b"x");
    assert!(!is_answer(&later), "a segment in the midst says nothing");
}

/// A router advertisement in IPv6, from a server of Teredo (RFC 4380, section 5.2.1), or a solicitation.
fn icmp6(kind: u8) -> Vec<u8> {
    let message = [kind, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let mut packet = vec![0x60, 0, 0, 0, 0, message.len() as u8, 58, 255];
    packet.extend([0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    packet.extend([0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);
    packet.extend(message);
    packet
}

#[test]
fn an_answer_of_teredo_is_of_the_server() {
    const ORIGIN: [u8; 8] = [0, 0, 0x63, 0xbf, 0xf5, 0xff, 0xff, 0xfe];
    const PROOF: [u8; 13] = [0, 1, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 0];
    const LONGER: [u8; 18] = [0, 1, 2, 3, 9, 9, 8, 8, 8, 1, 2, 3, 4, 5, 6, 7, 8, 0];
    let (asked, told) = (icmp6(133), icmp6(134));
    let datagram =
        |to, parts: &[&[u8]]| build::ethernet().ipv4(SERVER, CLIENT).udp(3544, to).payload(&parts.concat());
    // Of two ports that servers use, the content decides.
    for to in [3544, 443, 53] {
        for parts in [
            &[&ORIGIN[..], &told] as &[&[u8]],
            &[&told],
            &[&PROOF, &told],
            &[&PROOF, &ORIGIN, &told],
            &[&LONGER, &ORIGIN, &told],
        ] {
            assert!(is_answer(&datagram(to, parts)), "to {to}: {parts:?}");
        }
        for parts in [&[&asked[..]] as &[&[u8]], &[&PROOF, &asked], &[&LONGER, &asked]] {
            assert!(!is_answer(&datagram(to, parts)), "to {to}: {parts:?}");
        }
    }
    // A port that servers do not use is a client's.
    assert!(is_answer(&datagram(50_000, &[&asked])));
    // Whatever is cut off, nothing is read beyond it.
    let whole = [&LONGER[..], &ORIGIN, &told].concat();
    for end in 0..whole.len() {
        is_answer(&datagram(3544, &[&whole[..end]]));
    }
}
