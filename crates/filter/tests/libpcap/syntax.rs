//! Random words, most of which form no valid expression: libpcap and we accept and reject the same ones.

use weir_filter::{Filter, Options};
use weir_wire::LinkType;

use crate::differential::{seed, setting};
use crate::ffi::Pcap;
use crate::grammar::Random;

/// Names occur only in positions where they are no hosts, so that libpcap sends no DNS query.
const WORDS: &[&str] = &[
    "host",
    "src",
    "dst",
    "net",
    "port",
    "portrange",
    "proto",
    "protochain",
    "tcp",
    "udp",
    "ip",
    "ip6",
    "ether",
    "arp",
    "vlan",
    "mpls",
    "pppoes",
    "llc",
    "type",
    "and",
    "or",
    "not",
    "(",
    ")",
    "(",
    ")",
    "(",
    ")",
    "and",
    "or",
    "[",
    "]",
    ":",
    "=",
    "<",
    ">>",
    "+",
    "-",
    "*",
    "/",
    "%",
    "&",
    "^",
    "len",
    "less",
    "greater",
    "byte",
    "mask",
    "0",
    "1",
    "2",
    "4",
    "80",
    "53",
    "1.2.3.4",
    "10",
    "10.0.0.0",
    "/",
    "8",
    "::1",
    "fe80::",
    "1:2:3:4:5:6",
    "tcp port smtp",
    "portrange 20-30",
    "ip proto \\tcp",
    "broadcast",
    "multicast",
    "icmptype",
    "tcp[13]",
    "ip[0]",
    "ip[2:2]",
    "port 80",
    "host 1.2.3.4",
    "tcp port",
    "src or dst",
    "src and dst",
    "net 10",
    "!",
    "&&",
    "||",
    "==",
    "!=",
    ">=",
    "<=",
    "1.2",
    "10/8",
    "0x10",
    "010",
    "ether proto \\ip",
    "icmp",
    "iso",
    "isis",
    "decnet",
    "1.1",
    "type data",
    "subtype",
    "dir",
    "gateway",
    "inbound",
    "ifindex",
    "geneve",
    "|",
    "<<",
    "aa-bb-cc-dd-ee-ff",
    "aabb.ccdd.eeff",
    "$a",
];

/// Expressions that versions after 1.10.3 accept or reject: a service alone as a range, and DECnet addresses by their
/// syntax.
fn newer(text: &str) -> bool {
    ["portrange", "decnet"].iter().any(|word| text.contains(word))
}

#[test]
fn acceptance_equals_libpcaps() {
    let mut r = Random::new(seed());
    let texts = setting("WEIR_DIFF_TEXTS", 30_000);
    let (mut both, mut neither, mut known) = (0, 0, 0);
    let pcap = Pcap::empty(LinkType::ETHERNET, 1_000);
    let options = Options { strict_bpf: true, netmask: Some(0), snaplen: 1_000, ..Options::default() };
    for _ in 0..texts {
        let len = 1 + r.below(9);
        let text = (0..len).map(|_| r.pick(WORDS)).collect::<Vec<_>>().join(" ");
        let theirs = pcap.compile(&text, true, 0);
        match (theirs, Filter::compile_for(&text, &[LinkType::ETHERNET], &options)) {
            (Ok(theirs), Ok(ours)) => {
                assert_eq!(ours.classic(LinkType::ETHERNET).unwrap(), theirs.insns(), "{text}");
                both += 1;
            }
            (Err(_), Err(_)) => neither += 1,
            _ if newer(&text) => known += 1,
            (Ok(_), Err(e)) => panic!("libpcap accepts it: {e}"),
            (Err(e), Ok(_)) => panic!("libpcap rejects `{text}`: {e}"),
        }
    }
    println!(
        "{texts} texts: {both} accepted by both, {neither} by neither, {known} decided by a newer version"
    );
}
