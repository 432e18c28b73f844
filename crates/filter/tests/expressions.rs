//! Valid and invalid expressions, error messages, and robustness.

// Helpers of tests may panic, as tests may.
#![allow(clippy::unwrap_used)]

use std::net::IpAddr;

use proptest::prelude::*;
use weir_filter::{ErrorKind, Filter, FilterError, LINK_TYPES, Options, Resolve};
use weir_wire::{Hints, LinkType, Packet, Time, decode};

fn compile(expression: &str) -> Result<Filter, FilterError> {
    Filter::compile(expression, &Options::default())
}

fn shown(expression: &str) -> String {
    compile(expression).unwrap_err().to_string()
}

#[test]
fn an_error_shows_its_position() {
    assert_eq!(
        shown("tcp and host and port 80"),
        "filter: expected an address after `host`, found `and`\n  \
         tcp and host and port 80\n               ^^^"
    );
    assert_eq!(
        shown("tpc port 80"),
        "filter: `tpc` has no qualifier; did you mean `tcp`?\n  \
         tpc port 80\n  ^^^"
    );
    let e = compile("udp and port 53 and prot 17").unwrap_err();
    assert_eq!((e.kind, e.span.clone()), (ErrorKind::Syntax, 25..27));
    assert!(shown("192.168.1.1").contains("did you mean `host 192.168.1.1`?"));
    assert!(shown("https").contains("did you mean `port https`?"));
    assert!(shown("tcp-syn").contains("did you mean `tcp[tcpflags] & tcp-syn != 0`?"));
    assert!(shown("tcp port 80 or").contains("expected a primitive after `or`, found the end"));
    assert!(shown("ip[0").contains("expected `]`"));
    assert!(shown("tcp[13] & 2").contains("expected a relation"));
    assert!(shown("port nosuch").contains("unknown port 'nosuch'"));
    let e = compile("tcp and host 300.1.1.1").unwrap_err();
    assert_eq!((e.kind, e.span.clone()), (ErrorKind::Value, 13..22));
    assert!(compile("1 = 2").is_err_and(|e| e.kind == ErrorKind::RejectsAll));
}

#[test]
fn a_long_expression_is_shown_around_the_error() {
    let text = format!("{} and host", vec!["port 80"; 200].join(" or "));
    let lines: Vec<String> = shown(&text).lines().map(str::to_owned).collect();
    assert_eq!(lines.len(), 3);
    assert!(lines.iter().all(|l| l.len() < 200), "{lines:?}");
    // Letters of more than one byte do not shift the caret.
    assert!(shown("host ÄÖÜ").contains("ÄÖÜ"));
}

#[test]
fn qualifiers_are_inherited() {
    let program = |text: &str| {
        let options = Options { strict_bpf: true, ..Options::default() };
        Filter::compile(text, &options).unwrap().classic(LinkType::ETHERNET).unwrap()
    };
    assert_eq!(program("tcp port 80 or 443"), program("tcp port 80 or tcp port 443"));
    assert_eq!(program("src host (1.1.1.1 or 2.2.2.2)"), program("src host 1.1.1.1 or src host 2.2.2.2"));
    assert_eq!(program("port 80 or (udp) or 90"), program("port 80 or udp or port 90"));
    assert_eq!(program("dst not 1.1.1.1"), program("not dst 1.1.1.1"));
    assert_eq!(program("tcp or udp and port 53"), program("(tcp or udp) and port 53"));
}

#[test]
fn an_empty_expression_matches_all() {
    for text in ["", "  \t\n"] {
        let filter = compile(text).unwrap();
        let p = packet(&[], LinkType::ETHERNET);
        assert!(filter.matches(&p, &decode(&p)));
        assert!(filter.only_flow_key());
    }
}

#[test]
fn expressions_that_a_flow_key_decides() {
    for text in ["tcp port 80", "host 10.0.0.1 and not udp", "net 10.0.0.0/8 or ip6 net fe80::/64", "icmp"] {
        assert!(compile(text).unwrap().only_flow_key(), "{text}");
    }
    for text in ["len > 100", "tcp[13] & 2 != 0", "vlan 5 and tcp", "arp", "ether host 2:0:0:0:0:1 or tcp"] {
        assert!(!compile(text).unwrap().only_flow_key(), "{text}");
    }
}

#[test]
fn names_are_resolved() {
    struct Hosts;
    impl Resolve for Hosts {
        fn addresses(&self, name: &str) -> Vec<IpAddr> {
            let both = ["10.0.0.9", "2001:db8::9"].map(|a| a.parse().unwrap());
            if name == "server" { both.to_vec() } else { Vec::new() }
        }
        fn network(&self, name: &str) -> Option<u32> {
            (name == "lab").then_some(10)
        }
        fn mac(&self, name: &str) -> Option<[u8; 6]> {
            (name == "server").then_some([2, 0, 0, 0, 0, 9])
        }
    }
    let options = Options { strict_bpf: true, resolver: Some(&Hosts), ..Options::default() };
    let program = |text: &str| {
        Filter::compile(text, &options).unwrap_or_else(|e| panic!("{e}")).classic(LinkType::ETHERNET).unwrap()
    };
    assert_eq!(program("host server"), program("host 10.0.0.9 or host 2001:db8::9"));
    assert_eq!(program("ip6 host server"), program("ip6 host 2001:db8::9"));
    assert_eq!(program("net lab"), program("net 10"));
    assert_eq!(program("ether host server"), program("ether host 02:00:00:00:00:09"));
    assert_eq!(program("gateway server"), program("ether host 02:00:00:00:00:09 and not host 10.0.0.9"));
    assert!(compile("host server").is_err_and(|e| e.message == "unknown host 'server'"));
}

#[test]
fn long_expressions_compile() {
    let hosts: Vec<String> = (0..10_000).map(|i| format!("host 10.1.{}.{}", i / 256, i % 256)).collect();
    let filter = compile(&hosts.join(" or ")).unwrap();
    let mut data = vec![2; 12];
    data.extend([8, 0, 0x45, 0, 0, 20, 0, 0, 0, 0, 64, 6, 0, 0, 10, 1, 39, 15, 9, 9, 9, 9]);
    let p = packet(&data, LinkType::ETHERNET);
    assert!(filter.matches(&p, &decode(&p)));
    data[26] = 11;
    let p = packet(&data, LinkType::ETHERNET);
    assert!(!filter.matches(&p, &decode(&p)));
    let all = hosts.iter().map(|h| format!("not {h}")).collect::<Vec<_>>().join(" and ");
    assert!(compile(&all).unwrap().matches(&p, &decode(&p)));
}

#[test]
fn expressions_beyond_the_limits_are_errors() {
    let deep = |n: usize| format!("{}tcp{}", "(".repeat(n), ")".repeat(n));
    assert!(compile(&deep(100)).is_ok());
    for text in [
        deep(200_000),
        format!("{}tcp", "not ".repeat(100_000)),
        format!("{}0{} = 0", "ip[".repeat(100_000), "]".repeat(100_000)),
        format!("{}1 = 1", "-".repeat(100_000)),
        format!("{}1 = 1", "1%".repeat(100_000)),
        "x".repeat(5 << 20),
    ] {
        assert!(compile(&text).is_err_and(|e| e.kind == ErrorKind::TooComplex), "{:.40}", text);
    }
    let registers = format!(
        "{} = 0",
        (0..40).map(|i| format!("(ip[{i}]")).collect::<Vec<_>>().join(" + ") + &")".repeat(40)
    );
    assert!(compile(&registers).is_err_and(|e| e.kind == ErrorKind::TooComplex));
}

#[test]
fn the_kernel_gets_what_it_can_decide() {
    let kernel = |text: &str, strict_bpf| {
        Filter::compile(text, &Options { strict_bpf, ..Options::default() })
            .unwrap()
            .to_cbpf(LinkType::ETHERNET)
    };
    let plain = kernel("udp port 53", true).unwrap();
    // A tag that the card has removed is left to the filter: ldb #vlan_avail, jeq #1.
    assert_eq!((plain[0].code, plain[0].k), (0x30, 0xffff_f030));
    assert_eq!((plain[1].code, plain[1].k), (0x15, 1));
    assert!(kernel("udp port 53", false).unwrap().len() > plain.len());
    assert!(kernel("vlan 5 and udp", false).is_some());
    assert!(kernel("ip6 protochain 17", true).is_none(), "it loops");
    assert!(kernel("geneve and udp", true).is_none());
    assert!(kernel("ether[0xfffff000] = 1 or tcp", true).is_none(), "the kernel reads other data there");
    let cooked = compile("udp").unwrap();
    assert!(cooked.to_cbpf(LinkType::LINUX_SLL).is_none());
    // Jumps of the kernel reach 255 instructions.
    let long = (0..300).map(|i| format!("udp port {i}")).collect::<Vec<_>>().join(" or ");
    assert!(kernel(&long, true).is_some_and(|p| p.len() > 600 && p.iter().any(|i| i.code == 0x05)));
}

fn packet(data: &[u8], link: LinkType) -> Packet<'_> {
    Packet {
        time: Time(0),
        data,
        wire_len: data.len() as u32,
        interface: 0,
        link,
        hints: Hints::default(),
        number: 0,
    }
}

/// Words of the language, so that text made of them is often valid.
fn words() -> impl Strategy<Value = String> {
    let word = prop_oneof![
        Just("host"),
        Just("src"),
        Just("dst"),
        Just("net"),
        Just("port"),
        Just("portrange"),
        Just("proto"),
        Just("protochain"),
        Just("gateway"),
        Just("tcp"),
        Just("udp"),
        Just("ip"),
        Just("ip6"),
        Just("ether"),
        Just("wlan"),
        Just("iso"),
        Just("isis"),
        Just("decnet"),
        Just("vlan"),
        Just("mpls"),
        Just("pppoes"),
        Just("geneve"),
        Just("vxlan"),
        Just("llc"),
        Just("type"),
        Just("subtype"),
        Just("dir"),
        Just("and"),
        Just("or"),
        Just("not"),
        Just("("),
        Just(")"),
        Just("["),
        Just("]"),
        Just(":"),
        Just("="),
        Just("<"),
        Just(">>"),
        Just("+"),
        Just("-"),
        Just("*"),
        Just("/"),
        Just("%"),
        Just("&"),
        Just("^"),
        Just("len"),
        Just("less"),
        Just("byte"),
        Just("mask"),
        Just("0"),
        Just("1"),
        Just("4"),
        Just("80"),
        Just("4294967295"),
        Just("1.2.3.4"),
        Just("10/8"),
        Just("::1"),
        Just("fe80::/10"),
        Just("1:2:3:4:5:6"),
        Just("$ab"),
        Just("data"),
        Just("smtp"),
        Just("20-30"),
        Just("\\tcp"),
        Just("broadcast"),
        Just("multicast"),
        Just("inbound"),
        Just("ifindex"),
        Just("tcp[13]"),
        Just("icmp6"),
        Just("arp"),
        Just("reason"),
    ];
    proptest::collection::vec(word, 0..24).prop_map(|words| words.join(" "))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20_000, failure_persistence: None, ..ProptestConfig::default() })]

    /// No text causes a panic, and every error can be displayed.
    #[test]
    fn any_text_compiles_or_gives_an_error(text in prop_oneof![words(), "\\PC{0,60}", "[a-z0-9:./ ()\\[\\]=&|!<>-]{0,60}"],
                data in proptest::collection::vec(any::<u8>(), 0..120), strict_bpf: bool, inner: bool) {
        let options = Options { strict_bpf, inner, live: true, netmask: Some(0xffff_ff00), ..Options::default() };
        match Filter::compile(&text, &options) {
            Ok(filter) => {
                for link in LINK_TYPES {
                    let p = packet(&data, *link);
                    filter.matches(&p, &decode(&p));
                    filter.to_cbpf(*link);
                }
            }
            Err(e) => {
                prop_assert!(e.span.start <= e.span.end && e.span.end <= text.len());
                prop_assert_eq!(e.to_string().lines().count(), 3);
            }
        }
    }
}
