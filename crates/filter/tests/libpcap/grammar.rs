//! Random expressions of the language, most of which compile.

use weir_wire::LinkType;

use crate::manual::{LLC_TYPES, PF_ACTIONS, PF_REASONS};

/// A random number generator with a seed (xorshift64*).
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub fn below(&mut self, n: usize) -> usize {
        ((self.next() >> 33) as usize) % n.max(1)
    }

    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    pub fn pick<'a>(&mut self, words: &[&'a str]) -> &'a str {
        words[self.below(words.len())]
    }
}

/// An expression for a link type; `tags`: whether `vlan` and similar words may occur in it.
pub fn expression(r: &mut Random, link: LinkType, tags: bool) -> String {
    let mut text = String::new();
    chain(r, link, tags, 3, &mut text);
    text
}

fn chain(r: &mut Random, link: LinkType, tags: bool, depth: usize, out: &mut String) {
    let operands = 1 + r.below(if depth == 3 { 4 } else { 3 });
    for i in 0..operands {
        if i > 0 {
            out.push_str(r.pick(&[" and ", " or ", " and ", " or ", " && ", " || "]));
        }
        if r.one_in(5) {
            out.push_str(r.pick(&["not ", "! "]));
        }
        if depth > 0 && r.one_in(4) {
            out.push('(');
            chain(r, link, tags, depth - 1, out);
            out.push(')');
        } else {
            out.push_str(&primitive(r, link, tags));
        }
    }
}

fn host4(r: &mut Random) -> String {
    // Addresses that occur in the captures, and others.
    match r.below(6) {
        0 => format!("10.0.0.{}", r.below(4)),
        1 => format!("192.168.{}.{}", r.below(3), r.below(255)),
        2 => format!("172.16.{}.{}", r.below(255), r.below(3)),
        3 => "127.0.0.1".to_owned(),
        4 => format!("224.0.0.{}", r.below(20)),
        _ => format!("{}.{}.{}.{}", r.below(256), r.below(256), r.below(256), r.below(256)),
    }
}

fn net4(r: &mut Random) -> String {
    match r.below(7) {
        0 => "10".to_owned(),
        1 => "192.168".to_owned(),
        2 => format!("{}.{}.{}", r.below(256), r.below(256), r.below(256)),
        3 => "10.0.0.0/8".to_owned(),
        4 => "192.168.0.0/16".to_owned(),
        5 => format!("{}.0.0.0 mask 255.0.0.0", r.below(256)),
        _ => format!("{}.{}.0.0/{}", r.below(256), r.below(256), 16 + r.below(17)),
    }
}

fn host6(r: &mut Random) -> String {
    match r.below(4) {
        0 => format!("fe80::{:x}", r.below(65536)),
        1 => format!("2001:db8::{:x}:{:x}", r.below(65536), r.below(65536)),
        2 => "::1".to_owned(),
        _ => format!("ff02::{:x}", r.below(32)),
    }
}

fn port(r: &mut Random) -> String {
    match r.below(4) {
        0 => r.pick(&["53", "80", "443", "25", "137", "5060", "22"]).to_owned(),
        1 => format!("{}", r.below(1024)),
        2 => format!("{:#x}", r.below(65536)),
        _ => format!("{}", r.below(65536)),
    }
}

fn mac(r: &mut Random) -> String {
    if r.one_in(3) {
        return "ff:ff:ff:ff:ff:ff".to_owned();
    }
    let bytes: Vec<String> = (0..6).map(|_| format!("{:x}", r.below(256))).collect();
    bytes.join(r.pick(&[":", "-", "."]))
}

/// A comparison that libpcap's optimiser decides, fully or in part, without reading the packet: constants that decide,
/// or one field twice.
pub fn folded(r: &mut Random, protocols: &[&str]) -> String {
    // Within headers, in the payload, and beyond most packets.
    let offset = [r.below(48), r.below(120), 40 + r.below(1500)][r.below(3)];
    let field = format!("{}[{offset}{}]", r.pick(protocols), r.pick(&["", ":1", ":2", ":4"]));
    let value = r.pick(&["0", "1", "255", "0xffffffff", "17"]);
    let relation = relation(r);
    match r.below(8) {
        0..=3 => {
            let operation = r.pick(&[
                "& 0",
                "* 0",
                ">> 31",
                "<< 31",
                "| 0xffffffff",
                "& 0xffffffff",
                "% 1",
                "/ 1",
                "* 1",
                "+ 0",
                "- 0",
                "^ 0",
                "| 0",
                "<< 0",
                ">> 0",
                "& 1",
                "| 1",
                "- 1",
                "^ 0xffffffff",
                "/ 0x80000000",
                "& (1 - 1)",
                "* -0",
            ]);
            format!("{field} {operation} {relation} {value}")
        }
        4 => {
            let operator = r.pick(&["&", "*", "/", "%", ">>", "<<", "|", "^", "-", "+"]);
            format!("{} {operator} {field} {relation} {value}", r.pick(&["0", "1", "0xffffffff"]))
        }
        5 => format!("{field} {} {field} {relation} {value}", r.pick(&["-", "^", "/", "%", "&", "|"])),
        6 => format!("{field} {relation} {field}"),
        _ => {
            // Two tests of one value, which may be equivalent.
            let mask = r.pick(&["", " & 1", " & 0xff"]);
            let joined = r.pick(&["or", "and", "or not", "and not"]);
            let (one, two) = (r.pick(&["=", "!=", ">", "<="]), r.pick(&["=", "!=", ">=", "<"]));
            let other = r.pick(&[value, value, "0", "1"]);
            format!("({field}{mask} {one} {value} {joined} {field}{mask} {two} {other})")
        }
    }
}

fn wireless(link: LinkType) -> bool {
    matches!(link, LinkType::IEEE802_11 | LinkType::IEEE802_11_RADIOTAP)
}

fn primitive(r: &mut Random, link: LinkType, tags: bool) -> String {
    let side = r.pick(&["", "", "src ", "dst ", "src or dst ", "src and dst "]).to_owned();
    match r.below(if tags { 27 } else { 24 }) {
        0 | 1 => {
            let proto = r.pick(&["", "", "ip ", "arp ", "rarp "]);
            let word = if side.is_empty() { "host " } else { r.pick(&["host ", ""]) };
            let list = match r.below(5) {
                0 => format!("({} or {})", host4(r), host4(r)),
                1 => format!("{} or {}", host4(r), host4(r)),
                _ => host4(r),
            };
            format!("{proto}{side}{word}{list}")
        }
        2 => format!("{}{side}net {}", r.pick(&["", "ip ", "arp "]), net4(r)),
        3 => {
            let word = if side.is_empty() { "host " } else { r.pick(&["host ", ""]) };
            format!("{}{side}{word}{}", r.pick(&["", "ip6 "]), host6(r))
        }
        4 => format!(
            "{}{side}net {}::/{}",
            r.pick(&["", "ip6 "]),
            r.pick(&["fe80", "2001:db8"]),
            32 + r.below(97)
        ),
        5 | 6 => {
            let list = match r.below(5) {
                0 => format!("({} or {})", port(r), port(r)),
                1 => format!("{} or {}", port(r), port(r)),
                _ => port(r),
            };
            format!("{}{side}port {list}", r.pick(&["", "tcp ", "udp ", "sctp "]))
        }
        7 => {
            format!("{}{side}portrange {}-{}", r.pick(&["", "tcp ", "udp "]), r.below(65536), r.below(65536))
        }
        8..=10 => r
            .pick(&[
                "ip", "ip6", "arp", "rarp", "tcp", "udp", "sctp", "icmp", "icmp6", "igmp", "igrp", "pim",
                "vrrp", "carp", "ah", "esp", "ip", "tcp", "udp", "ip6",
            ])
            .to_owned(),
        11 => r
            .pick(&[
                "atalk", "aarp", "decnet", "lat", "sca", "moprc", "mopdl", "iso", "esis", "isis", "l1", "l2",
                "iih", "lsp", "snp", "csnp", "psnp", "clnp", "stp", "ipx", "netbeui",
            ])
            .to_owned(),
        12 => match r.below(6) {
            0 => format!("ip proto {}", r.below(256)),
            1 => format!("ip6 proto {}", r.below(256)),
            2 => format!("proto {}", r.below(256)),
            3 => format!("ip proto {}", r.pick(&["\\tcp", "\\udp", "\\icmp"])),
            4 => format!("iso proto {}", r.pick(&["\\isis", "\\esis", "\\clnp", "131"])),
            _ => format!("isis proto {}", r.below(32)),
        },
        13 => match r.below(3) {
            0 => format!("ether proto {}", r.below(65536)),
            1 => format!(
                "ether proto {}",
                r.pick(&["0x800", "0x86dd", "0x806", "0x8100", "0x8847", "66", "254"])
            ),
            _ => format!(
                "ether proto {}",
                r.pick(&["\\ip", "\\ip6", "\\arp", "\\rarp", "\\atalk", "\\aarp", "\\stp", "\\ipx", "\\iso"])
            ),
        },
        14 => match r.below(4) {
            0 => format!("less {}", r.below(1600)),
            1 => format!("greater {}", r.below(1600)),
            2 => format!("byte {} {} {}", r.below(64), r.pick(&["=", "<", ">"]), r.below(256)),
            _ => format!("len {} {}", relation(r), r.below(1600)),
        },
        15 => r.pick(&["ip multicast", "ip6 multicast", "ip broadcast", "not ip broadcast"]).to_owned(),
        16 => match link {
            LinkType::ETHERNET => match r.below(4) {
                0 => r.pick(&["broadcast", "multicast", "ether broadcast", "ether multicast"]).to_owned(),
                1 => format!("llc {}", r.pick(LLC_TYPES)),
                _ => format!("ether {side}host {}", mac(r)),
            },
            _ if wireless(link) => wlan(r, &side),
            LinkType::LINUX_SLL | LinkType::LINUX_SLL2 | LinkType::SLIP => {
                r.pick(&["inbound", "outbound"]).to_owned()
            }
            LinkType::FDDI => match r.below(4) {
                0 => r.pick(&["broadcast", "multicast", "fddi broadcast", "link multicast"]).to_owned(),
                1 => format!("llc {}", r.pick(LLC_TYPES)),
                _ => format!("fddi {side}host {}", mac(r)),
            },
            LinkType::ARCNET | LinkType::ARCNET_LINUX => r.pick(&["broadcast", "link multicast"]).to_owned(),
            LinkType::PFLOG => pflog(r),
            // On links without such addresses both reject it.
            _ if r.one_in(8) => r
                .pick(&["broadcast", "ether multicast", "inbound", "llc", "rnr 1", "vlan", "ifindex 2"])
                .to_owned(),
            _ => "ip".to_owned(),
        },
        17 if wireless(link) => wlan(r, &side),
        18 if r.one_in(3) && !wireless(link) => {
            format!(
                "{}protochain {}",
                r.pick(&["ip ", "ip6 ", ""]),
                r.pick(&["6", "17", "58", "1", "44", "\\tcp"])
            )
        }
        19 if link == LinkType::ETHERNET => format!("decnet {side}host {}.{}", r.below(64), r.below(1024)),
        20 => r
            .pick(&[
                "tcp[tcpflags] & (tcp-syn|tcp-fin) != 0",
                "icmp[icmptype] = icmp-echo",
                "tcp[13] = 2",
                "ip[6:2] & 0x1fff = 0",
                "ip[0] & 0xf != 5",
                "icmp6[icmp6type] == 135",
                "ip[2:2] - ((ip[0]&0xf)<<2) - ((tcp[12]&0xf0)>>2) != 0",
            ])
            .to_owned(),
        21 => folded(r, &["ip", "tcp", "udp", "ether", "link", "icmp", "ip6", "arp"]),
        17..=23 => format!("{} {} {}", arithmetic(r, link, 2), relation(r), arithmetic(r, link, 2)),
        _ => match link {
            LinkType::ETHERNET => match r.below(8) {
                0 => "pppoed".to_owned(),
                1 => format!(
                    "pppoes{}",
                    if r.one_in(2) { format!(" {}", r.below(200)) } else { String::new() }
                ),
                2 => {
                    format!("mpls{}", if r.one_in(2) { format!(" {}", r.below(200)) } else { String::new() })
                }
                3 => {
                    format!("geneve{}", if r.one_in(2) { format!(" {}", r.below(20)) } else { String::new() })
                }
                _ => {
                    format!("vlan{}", if r.one_in(2) { format!(" {}", r.below(200)) } else { String::new() })
                }
            },
            LinkType::PPP | LinkType::C_HDLC => "mpls".to_owned(),
            _ if wireless(link) => r.pick(&["vlan", "vlan 7", "pppoes", "pppoed"]).to_owned(),
            _ => r.pick(&["geneve", "pppoed", "pppoes"]).to_owned(),
        },
    }
}

fn pflog(r: &mut Random) -> String {
    match r.below(8) {
        0 => r.pick(&["inbound", "outbound"]).to_owned(),
        1 => format!("{} em{}", r.pick(&["on", "ifname"]), r.below(2)),
        2 => format!("{} {}", r.pick(&["rset", "ruleset"]), r.pick(&["authpf", "ftp-proxy"])),
        3 => format!("{} {}", r.pick(&["rnr", "rulenum", "srnr", "subrulenum"]), r.below(4)),
        4 => format!("reason {}", r.below(16)),
        5 | 6 => format!("reason {}", r.pick(PF_REASONS)),
        _ => format!("action {}", r.pick(PF_ACTIONS)),
    }
}

fn wlan(r: &mut Random, side: &str) -> String {
    match r.below(5) {
        0 => format!("type {}", r.pick(&["mgt", "ctl", "data", "0", "4", "8"])),
        1 => format!("subtype {}", r.pick(&["beacon", "qos-data", "ack", "rts", "probe-resp", "data"])),
        2 => format!("dir {}", r.pick(&["nods", "tods", "fromds", "dstods"])),
        3 => format!("wlan {} {}", r.pick(&["addr1", "addr2", "addr3", "addr4", "ra", "ta"]), mac(r)),
        _ => format!("wlan {side}host {}", mac(r)),
    }
}

fn relation<'a>(r: &mut Random) -> &'a str {
    r.pick(&["=", "==", "!=", "<", ">", "<=", ">="])
}

fn arithmetic(r: &mut Random, link: LinkType, depth: usize) -> String {
    match r.below(if depth == 0 { 4 } else { 8 }) {
        0 => format!("{}", r.below(256)),
        1 => r.pick(&["0", "1", "0xffff", "65536", "0xff", "1500"]).to_owned(),
        2 => "len".to_owned(),
        3 | 4 => {
            let radio = if link == LinkType::IEEE802_11_RADIOTAP { "radio" } else { "ip" };
            let proto = r.pick(&[
                "ip", "ip", "tcp", "udp", "ether", "link", "icmp", "ip6", "arp", "icmp6", "sctp", "igmp",
                "rarp", radio, "vrrp",
            ]);
            let offset = if depth > 0 && r.one_in(4) {
                arithmetic(r, link, depth - 1)
            } else {
                format!("{}", r.below(48))
            };
            format!("{proto}[{offset}{}]", r.pick(&["", ":1", ":2", ":4"]))
        }
        5 => format!("-{}", r.below(100)),
        6 => format!("({})", arithmetic(r, link, depth - 1)),
        _ => {
            let operator = r.pick(&["+", "-", "*", "/", "%", "&", "|", "^", "<<", ">>"]);
            let right = match operator {
                "<<" | ">>" => format!("{}", r.below(34)),
                _ => arithmetic(r, link, depth - 1),
            };
            format!("{} {operator} {right}", arithmetic(r, link, depth - 1))
        }
    }
}
