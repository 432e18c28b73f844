use super::Digest;
use crate::{Target, seeds, sequence};
use weir_filter::{Filter, LINK_TYPES, Options};
use weir_wire::{Hints, Packet, Time, decode};

pub const TARGET: Target = Target {
    name: "filter",
    about: "an expression, a newline, and a packet after the number of its link type: compiled and decided in all modes",
    seeds: seeds::expressions,
    words: &[
        b" and ",
        b" or ",
        b" not ",
        b"(",
        b")",
        b"host ",
        b"net ",
        b"port ",
        b"portrange ",
        b"src ",
        b"dst ",
        b"tcp",
        b"udp",
        b"icmp6",
        b"ip6 ",
        b"ether ",
        b"vlan ",
        b"mpls ",
        b"pppoes ",
        b"geneve ",
        b"proto ",
        b"protochain ",
        b"ip[0]",
        b"tcp[tcpflags]",
        b"[x:4]",
        b"len",
        b"inbound",
        b"less ",
        b"greater ",
        b"gateway ",
        b"broadcast",
        b"multicast",
        b"wlan addr1 ",
        b"type mgt ",
        b"subtype ",
        b"&",
        b"|",
        b"<<",
        b"/ 0",
        b"% 0",
        b"0xffffffff",
        b"4294967296",
        b"255.255.255.255",
        b"::1",
        b"/32",
        b"/129",
        b"-1",
        b"\\",
        b"/ (len - len)",
    ],
    run,
};

fn run(input: &[u8]) -> u64 {
    let end = input.iter().position(|octet| *octet == b'\n').unwrap_or(input.len());
    let (expression, packet) = input.split_at(end);
    let expression = String::from_utf8_lossy(expression);
    let (number, data) = packet.get(1..).and_then(|rest| rest.split_first()).unwrap_or((&0, &[]));
    let wire_len = data.len() as u32;
    let link = sequence::link(number & 15);
    let packet = Packet { time: Time(0), data, wire_len, interface: 0, link, hints: Hints::default() };
    let mut digest = Digest::default();
    let modes = [(true, false, false), (false, false, false), (false, true, false), (false, false, true)];
    for (strict_bpf, inner, live) in modes {
        let options = Options { strict_bpf, inner, live, netmask: Some(0xffff_ff00), ..Options::default() };
        match Filter::compile(&expression, &options) {
            Ok(filter) => {
                digest.add(1 + u64::from(filter.matches(&packet, &decode(&packet))));
                for link in LINK_TYPES {
                    let packet = Packet { link: *link, ..packet };
                    let matches = filter.matches(&packet, &decode(&packet));
                    // Where there is no program there is a reason, and no match.
                    if let Some(error) = filter.error(*link) {
                        assert!(
                            inner || !matches,
                            "`{expression}` matches a link type that has not what it asks for"
                        );
                        assert!(!error.to_string().is_empty());
                    }
                    filter.classic(*link);
                    digest.add(filter.to_cbpf(*link).map_or(0, |program| 1 + program.len() as u64 / 8));
                }
                filter.only_flow_key();
            }
            Err(error) => {
                let text = error.to_string();
                assert!(!text.is_empty());
                digest.add(2 + error.kind as u64);
            }
        }
    }
    digest.0
}
