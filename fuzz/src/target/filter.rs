use super::Digest;
use crate::{Target, seeds, sequence};
use std::sync::Arc;
use weir_filter::{Filter, LINK_TYPES, MatchCounter, Options, Set, Strategy};
use weir_wire::{Hints, Packet, PacketBuf, Time, decode};

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
    let end = input.iter().position(|byte| *byte == b'\n').unwrap_or(input.len());
    let (expression, packet) = input.split_at(end);
    let expression = String::from_utf8_lossy(expression);
    let (number, data) = packet.get(1..).and_then(|rest| rest.split_first()).unwrap_or((&0, &[]));
    let wire_len = data.len() as u32;
    let link = sequence::link(number & 15);
    let packet =
        Packet { time: Time(0), data, wire_len, interface: 0, link, hints: Hints::default(), number: 0 };
    let mut digest = Digest::default();
    let modes = [(true, false, false), (false, false, false), (false, true, false), (false, false, true)];
    for (mode, (strict_bpf, inner, live)) in modes.into_iter().enumerate() {
        let options = Options { strict_bpf, inner, live, netmask: Some(0xffff_ff00), ..Options::default() };
        match Filter::compile(&expression, &options) {
            Ok(filter) => {
                digest.add(1 + u64::from(filter.matches(&packet, &decode(&packet))));
                for link in LINK_TYPES {
                    let packet = Packet { link: *link, ..packet };
                    let matches = filter.matches(&packet, &decode(&packet));
                    // Without a program there is an error, and no match.
                    if let Some(error) = filter.error(*link) {
                        assert!(
                            inner || !matches,
                            "`{expression}` matches a link type without the tested field"
                        );
                        assert!(!error.to_string().is_empty());
                    }
                    filter.classic(*link);
                    digest.add(filter.to_cbpf(*link).map_or(0, |program| 1 + program.len() as u64 / 8));
                }
                filter.only_flow_key();
                // A set is more expensive to build than its check: one input in eight, in one mode.
                if input.len().is_multiple_of(8) && (input.len() / 8) % 4 == mode {
                    agrees(&expression, &options, &filter, &packet);
                }
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

/// In a set an expression gives the verdict that it gives alone, with each strategy.
fn agrees(expression: &str, options: &Options<'_>, filter: &Filter, packet: &Packet<'_>) {
    let texts = ["tcp", expression, "net 10.0.0.0/8 and not port 53"];
    let Ok(set) = Set::compile(&texts, options) else { return };
    let mut chunk = PacketBuf::default();
    for link in LINK_TYPES {
        chunk.push(&Packet { link: *link, ..*packet });
    }
    let batch = chunk.batch();
    let layers: Vec<_> = batch.packets().map(|packet| decode(&packet)).collect();
    let truth: Vec<bool> =
        batch.packets().zip(&layers).map(|(packet, l)| filter.matches(&packet, l)).collect();
    let with_remainder = Arc::new(set.with_remainders(vec![vec![1]]).by(Strategy::Columns));
    let mut counter = MatchCounter::new(with_remainder);
    counter.packets(batch, Some(&layers));
    let totals = counter.take();
    let matched = truth.iter().filter(|matches| **matches).count() as u64;
    assert_eq!(totals.expressions[1].packets, matched, "`{expression}` counted in a set");
    assert_eq!(totals.remainders[0].packets, truth.len() as u64 - matched, "what `{expression}` leaves");
    let Ok(set) = Set::compile(&texts, options) else { return };
    let mut found = vec![false; truth.len()];
    MatchCounter::new(Arc::new(set.by(Strategy::Index))).match_sets(
        batch,
        Some(&layers),
        &mut |at, matched| {
            found[at] = matched.contains(&1);
        },
    );
    assert_eq!(found, truth, "`{expression}` looked up in a set");
}
