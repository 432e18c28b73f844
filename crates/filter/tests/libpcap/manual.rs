//! The names in pcap-filter(7), from its text (libpcap 1.10.3, 19 November 2022) and not from our own tables.

use weir_filter::{Filter, Options};
use weir_wire::LinkType;

use crate::ffi::{Pcap, name};

/// `llc type`, with `dm`, which the text omits and the language has.
pub const LLC_TYPES: &[&str] =
    &["i", "s", "u", "rr", "rnr", "rej", "ui", "ua", "disc", "sabme", "test", "xid", "frmr", "dm"];

/// `reason code`, with those of later versions of pf(4) that the text omits.
pub const PF_REASONS: &[&str] = &[
    "match",
    "bad-offset",
    "fragment",
    "short",
    "normalize",
    "memory",
    "bad-timestamp",
    "congestion",
    "ip-option",
    "proto-cksum",
    "state-mismatch",
    "state-insert",
    "state-limit",
    "src-limit",
    "synproxy",
];

/// `action act`, with those that the text omits.
pub const PF_ACTIONS: &[&str] = &[
    "pass",
    "block",
    "nat",
    "rdr",
    "binat",
    "scrub",
    "accept",
    "drop",
    "noscrub",
    "nonat",
    "nobinat",
    "nordr",
    "synproxy-drop",
];

/// A form, and the names that can replace its `%`.
const NAMES: &[(&str, &[&str])] = &[
    ("llc %", LLC_TYPES),
    ("reason %", PF_REASONS),
    ("action %", PF_ACTIONS),
    ("%", &["ah", "esp", "pim", "sctp", "tcp", "udp", "icmp", "icmp6", "igmp", "igrp", "vrrp", "carp"]),
    ("%", &["ip", "ip6", "arp", "rarp", "atalk", "aarp", "decnet", "iso", "stp", "ipx", "netbeui"]),
    ("%", &["lat", "moprc", "mopdl", "sca", "clnp", "esis", "isis", "es-is", "is-is"]),
    (
        "%",
        &[
            "l1", "l2", "iih", "lsp", "snp", "csnp", "psnp", "pppoed", "pppoes", "geneve", "mpls", "vlan",
            "llc",
        ],
    ),
    ("%", &["inbound", "outbound", "broadcast", "multicast", "ether broadcast", "ether multicast"]),
    ("%", &["ip broadcast", "ip multicast", "ip6 multicast", "less 5", "greater 5", "length > 5"]),
    (
        "ether proto \\%",
        &[
            "aarp", "arp", "atalk", "decnet", "ip", "ip6", "ipx", "iso", "lat", "loopback", "mopdl", "moprc",
            "netbeui", "rarp", "sca", "stp",
        ],
    ),
    ("ip proto \\%", &["ah", "esp", "eigrp", "icmp", "igmp", "pim", "sctp", "tcp", "udp", "vrrp"]),
    ("ip6 proto \\%", &["ah", "esp", "ipv6-icmp", "pim", "sctp", "tcp", "udp", "vrrp"]),
    ("proto \\%", &["ah", "esp", "icmp", "igmp", "pim", "sctp", "tcp", "udp", "vrrp", "ipv6-icmp"]),
    ("iso proto \\%", &["clnp", "esis", "isis"]),
    ("ip protochain \\%", &["tcp", "udp", "icmp"]),
    ("ip6 protochain %", &["6", "\\tcp", "44"]),
    (
        "%[0:2] = 1",
        &[
            "arp", "atalk", "carp", "decnet", "ether", "fddi", "icmp", "icmp6", "igmp", "igrp", "ip", "ip6",
            "lat", "link", "mopdl", "moprc", "pim", "ppp", "radio", "rarp", "sca", "sctp", "slip", "tcp",
            "tr", "udp", "vrrp", "wlan",
        ],
    ),
    ("icmp[%] = 1", &["icmptype", "icmpcode"]),
    ("icmp6[%] = 1", &["icmp6type", "icmp6code"]),
    (
        "tcp[tcpflags] = %",
        &["tcp-fin", "tcp-syn", "tcp-rst", "tcp-push", "tcp-ack", "tcp-urg", "tcp-ece", "tcp-cwr"],
    ),
    (
        "icmp[icmptype] = %",
        &[
            "icmp-echoreply",
            "icmp-unreach",
            "icmp-sourcequench",
            "icmp-redirect",
            "icmp-echo",
            "icmp-routeradvert",
            "icmp-routersolicit",
            "icmp-timxceed",
            "icmp-paramprob",
            "icmp-tstamp",
            "icmp-tstampreply",
            "icmp-ireq",
            "icmp-ireqreply",
            "icmp-maskreq",
            "icmp-maskreply",
        ],
    ),
    (
        "icmp6[icmp6type] = %",
        &[
            "icmp6-destinationunreach",
            "icmp6-packettoobig",
            "icmp6-timeexceeded",
            "icmp6-parameterproblem",
            "icmp6-echo",
            "icmp6-echoreply",
            "icmp6-multicastlistenerquery",
            "icmp6-multicastlistenerreportv1",
            "icmp6-multicastlistenerdone",
            "icmp6-routersolicit",
            "icmp6-routeradvert",
            "icmp6-neighborsolicit",
            "icmp6-neighboradvert",
            "icmp6-redirect",
            "icmp6-routerrenum",
            "icmp6-nodeinformationquery",
            "icmp6-nodeinformationresponse",
            "icmp6-ineighbordiscoverysolicit",
            "icmp6-ineighbordiscoveryadvert",
            "icmp6-multicastlistenerreportv2",
            "icmp6-homeagentdiscoveryrequest",
            "icmp6-homeagentdiscoveryreply",
            "icmp6-mobileprefixsolicit",
            "icmp6-mobileprefixadvert",
            "icmp6-certpathsolicit",
            "icmp6-certpathadvert",
            "icmp6-multicastrouteradvert",
            "icmp6-multicastroutersolicit",
            "icmp6-multicastrouterterm",
        ],
    ),
    ("type %", &["mgt", "ctl", "data", "management", "control"]),
    (
        "type mgt subtype %",
        &[
            "assoc-req",
            "assoc-resp",
            "reassoc-req",
            "reassoc-resp",
            "probe-req",
            "probe-resp",
            "beacon",
            "atim",
            "disassoc",
            "auth",
            "deauth",
        ],
    ),
    ("type ctl subtype %", &["ps-poll", "rts", "cts", "ack", "cf-end", "cf-end-ack"]),
    (
        "type data subtype %",
        &[
            "data",
            "data-cf-ack",
            "data-cf-poll",
            "data-cf-ack-poll",
            "null",
            "cf-ack",
            "cf-poll",
            "cf-ack-poll",
            "qos-data",
            "qos-data-cf-ack",
            "qos-data-cf-poll",
            "qos-data-cf-ack-poll",
            "qos",
            "qos-cf-poll",
            "qos-cf-ack-poll",
        ],
    ),
    (
        "subtype %",
        &["assoc-req", "beacon", "deauth", "ps-poll", "cf-end-ack", "data-cf-ack", "null", "qos-cf-ack-poll"],
    ),
    ("dir %", &["nods", "tods", "fromds", "dstods", "3"]),
    ("wlan % 1:2:3:4:5:6", &["ra", "ta", "addr1", "addr2", "addr3", "addr4"]),
    ("% em0", &["on", "ifname", "rset", "ruleset"]),
    (
        "% 5",
        &[
            "rnr",
            "rulenum",
            "srnr",
            "subrulenum",
            "vpi",
            "vci",
            "vlan",
            "mpls",
            "pppoes",
            "geneve",
            "ifindex",
        ],
    ),
    // Words for ATM, on Solaris. The text's `oamf4s` and `oamf4e` are in no version of the language.
    (
        "%",
        &[
            "lane",
            "oamf4s",
            "oamf4e",
            "oamf4",
            "oam",
            "metac",
            "bcc",
            "sc",
            "ilmic",
            "connectmsg",
            "metaconnect",
        ],
    ),
    (
        "% 1.2.3.4",
        &["dst host", "src host", "host", "ip host", "arp host", "rarp host", "dst net", "src net", "net"],
    ),
    (
        "% 1:2:3:4:5:6",
        &["ether dst", "ether src", "ether host", "fddi host", "tr host", "wlan host", "link host"],
    ),
    ("net 10.0.0.0 % 255.0.0.0", &["mask"]),
    ("net 10.0.0.0%", &["/8", "/32"]),
    ("% 53", &["dst port", "src port", "port", "tcp dst port", "udp src port", "sctp port"]),
    ("% 53-60", &["dst portrange", "src portrange", "portrange", "tcp portrange", "udp src portrange"]),
    ("decnet % 10.123", &["src", "dst", "host"]),
];

/// Each name in the manual has the same meaning for libpcap and for us on each link type that has it, and both reject
/// it on the others.
#[test]
fn every_name_of_the_manual_compiles_to_libpcaps_program() {
    const NETMASK: u32 = 0xffff_ff00;
    let links = [
        LinkType::ETHERNET,
        LinkType::IEEE802_11,
        LinkType::IEEE802_11_RADIOTAP,
        LinkType::LINUX_SLL2,
        LinkType::PFLOG,
        LinkType::SLIP,
        LinkType::FDDI,
        LinkType::ARCNET,
        LinkType::RAW,
        LinkType::PPP,
    ];
    let (mut taken, mut refused, mut known) = (0, 0, 0);
    for (form, names) in NAMES {
        for name in *names {
            let text = form.replace('%', name);
            let mut meant = false;
            for link in links {
                let pcap = Pcap::empty(link, 1_000);
                let options = Options {
                    strict_bpf: true,
                    netmask: Some(NETMASK),
                    snaplen: 1_000,
                    ..Options::default()
                };
                match (pcap.compile(&text, true, NETMASK), Filter::compile_for(&text, &[link], &options)) {
                    (Ok(theirs), Ok(ours)) => {
                        assert_eq!(ours.classic(link).unwrap(), theirs.insns(), "{link}: {text}");
                        meant = true;
                        taken += 1;
                    }
                    (Err(_), Err(_)) => refused += 1,
                    (Ok(_), Err(e)) => panic!("libpcap accepts `{text}` for {link}: {e}"),
                    (Err(e), Ok(_)) => panic!("libpcap rejects `{text}` for {link}: {e}"),
                }
            }
            known += u32::from(meant);
        }
    }
    println!("{known} names: {taken} programs equal, {refused} rejected by both");
    assert!(known > 250, "{known}");
}

/// Our names of link types equal libpcap's. A name that libpcap lacks is not a name that it has for another number.
#[test]
fn link_types_have_libpcaps_names() {
    /// Names from the registry, or names that tcpdump prints.
    const OTHERS: &[u16] = &[1, 50, 195];
    let (mut same, mut missing) = (0, 0);
    // Below this number, link types in files and in programs have different numbers.
    for number in 104..=400 {
        let link = LinkType(number);
        match (link.name(), name(link)) {
            (Some(ours), Some(theirs)) if !OTHERS.contains(&number) => {
                assert_eq!(ours, theirs, "{number}");
                same += 1;
            }
            (None, Some(_)) => missing += 1,
            _ => {}
        }
    }
    println!("{same} equal names, {missing} that only libpcap has");
    assert!(same > 80);
}
