//! Answers to display filters of Wireshark (wireshark-filter(4)): the expression that says what they say.
//!
//! Nothing is compiled from them. Who types one from habit gets an error, and after it the expression to type. What a name
//! stands for is text, so that this crate needs no knowledge of a protocol.

/// What stands here for a name of Wireshark's.
#[derive(Clone, Copy)]
enum Meaning {
    /// Words that a value follows: `tcp port`.
    Value(&'static str),
    /// Addresses: a host, or a network if a length follows: `src`.
    Address(&'static str),
    /// A number that any operator compares.
    Number(&'static str),
    /// Bits that are set or are not.
    Bits(&'static str),
    /// A field of records.
    Field(&'static str),
    /// Whole: a protocol.
    Word(&'static str),
    /// Nothing; what to do instead.
    Nothing(&'static str),
}

use Meaning::{Address, Bits, Field, Nothing, Number, Value, Word};

/// Names of fields and protocols, ordered.
const NAMES: &[(&str, Meaning)] = &[
    ("arp.opcode", Number("arp[6:2]")),
    ("arp.src.hw_mac", Value("ether src")),
    ("bootp", Word("dhcp")),
    ("dhcp", Word("dhcp")),
    ("dhcp.hw.mac_addr", Field("dhcp.mac")),
    ("dhcp.option.hostname", Field("dhcp.host")),
    ("dns", Word("dns")),
    ("dns.a", Field("dns.answers")),
    ("dns.aaaa", Field("dns.answers")),
    ("dns.cname", Field("dns.answers")),
    ("dns.flags.rcode", Field("dns.rcode")),
    ("dns.id", Field("dns.id")),
    ("dns.qry.name", Field("dns.query")),
    ("dns.qry.type", Field("dns.type")),
    ("dns.resp.name", Field("dns.query")),
    ("dns.resp.ttl", Field("dns.ttls")),
    ("dns.time", Field("dns.rtt")),
    ("eth.addr", Value("ether host")),
    ("eth.dst", Value("ether dst")),
    ("eth.src", Value("ether src")),
    ("eth.type", Value("ether proto")),
    ("frame.cap_len", Nothing("-s N analyses the first N bytes of each packet")),
    ("frame.len", Number("len")),
    ("frame.number", Nothing("-c N stops after N packets")),
    ("frame.time", Nothing("the pages and `weir query ... since TIME until TIME` select times")),
    ("frame.time_epoch", Nothing("the pages and `weir query ... since TIME until TIME` select times")),
    ("frame.time_relative", Nothing("the pages and `weir query ... since TIME until TIME` select times")),
    ("ftp", Word("ftp_command")),
    ("ftp.request.arg", Field("ftp_command.argument")),
    ("ftp.request.command", Field("ftp_command.command")),
    ("ftp.response.code", Field("ftp_command.codes")),
    ("http", Word("http")),
    ("http.authorization", Field("http.authorization")),
    ("http.content_length", Field("http.response_body_len")),
    ("http.content_type", Field("http.content_type")),
    ("http.cookie", Field("http.cookie")),
    ("http.host", Field("http.host")),
    ("http.location", Field("http.redirect")),
    ("http.referer", Field("http.referrer")),
    ("http.request", Word("http")),
    ("http.request.full_uri", Field("http.url")),
    ("http.request.method", Field("http.method")),
    ("http.request.uri", Field("http.uri")),
    ("http.response", Word("http.status_code")),
    ("http.response.code", Field("http.status_code")),
    ("http.server", Field("http.server")),
    ("http.time", Field("http.duration")),
    ("http.user_agent", Field("http.user_agent")),
    ("icmp.code", Number("icmp[icmpcode]")),
    ("icmp.type", Number("icmp[icmptype]")),
    ("icmpv6", Word("icmp6")),
    ("icmpv6.code", Number("icmp6[icmp6code]")),
    ("icmpv6.type", Number("icmp6[icmp6type]")),
    ("imap", Word("imap")),
    ("ip.addr", Address("")),
    ("ip.dsfield.dscp", Number("(ip[1] >> 2)")),
    ("ip.dst", Address("dst ")),
    ("ip.dst_host", Address("dst ")),
    ("ip.flags.df", Bits("ip[6] & 0x40")),
    ("ip.flags.mf", Bits("ip[6] & 0x20")),
    ("ip.frag_offset", Number("(ip[6:2] & 0x1fff)")),
    ("ip.host", Address("")),
    ("ip.id", Number("ip[4:2]")),
    ("ip.len", Number("ip[2:2]")),
    ("ip.proto", Value("ip proto")),
    ("ip.src", Address("src ")),
    ("ip.src_host", Address("src ")),
    ("ip.ttl", Number("ip[8]")),
    ("ip.version", Number("(ip[0] >> 4)")),
    ("ipv6", Word("ip6")),
    ("ipv6.addr", Address("")),
    ("ipv6.dst", Address("dst ")),
    ("ipv6.hlim", Number("ip6[7]")),
    ("ipv6.nxt", Value("ip6 proto")),
    ("ipv6.plen", Number("ip6[4:2]")),
    ("ipv6.src", Address("src ")),
    ("irc", Word("irc")),
    ("llmnr", Word("llmnr_message")),
    ("mdns", Word("mdns_message")),
    ("mpls.label", Value("mpls")),
    ("mqtt.clientid", Field("mqtt_connect.client_id")),
    ("mqtt.topic", Field("mqtt_publish.topic")),
    ("ntp", Word("ntp")),
    ("ntp.stratum", Field("ntp.stratum")),
    ("pop", Word("pop3")),
    ("pop.request.command", Field("pop3.command")),
    ("quic", Word("quic_hello")),
    ("rdp", Word("rdp")),
    ("rtp", Word("rtp")),
    ("rtp.ssrc", Field("rtp.ssrc")),
    ("sip", Word("sip_message")),
    ("sip.Call-ID", Field("sip_message.call_id")),
    ("sip.Method", Field("sip_message.method")),
    ("sip.Status-Code", Field("sip_message.code")),
    ("smb", Word("smb")),
    ("smb2", Word("smb")),
    ("smb2.filename", Field("smb.filename")),
    ("smb2.tree", Field("smb.share")),
    ("smtp", Word("smtp_session")),
    ("snmp", Word("snmp_message")),
    ("snmp.community", Field("snmp_message.community")),
    ("socks", Word("socks")),
    ("ssh", Word("ssh")),
    ("ssl", Word("tls")),
    ("stun", Word("stun")),
    ("syslog", Word("syslog")),
    (
        "tcp.analysis.retransmission",
        Nothing("`weir query 'flows where flow.retransmitted > 0'` finds their flows"),
    ),
    ("tcp.dstport", Value("tcp dst port")),
    ("tcp.flags", Number("tcp[tcpflags]")),
    ("tcp.flags.ack", Bits("tcp[tcpflags] & tcp-ack")),
    ("tcp.flags.fin", Bits("tcp[tcpflags] & tcp-fin")),
    ("tcp.flags.push", Bits("tcp[tcpflags] & tcp-push")),
    ("tcp.flags.reset", Bits("tcp[tcpflags] & tcp-rst")),
    ("tcp.flags.syn", Bits("tcp[tcpflags] & tcp-syn")),
    ("tcp.flags.urg", Bits("tcp[tcpflags] & tcp-urg")),
    ("tcp.port", Value("tcp port")),
    ("tcp.seq_raw", Number("tcp[4:4]")),
    ("tcp.srcport", Value("tcp src port")),
    ("tcp.stream", Nothing("`weir talk FILE 'host A and port B'` prints the streams of two hosts")),
    ("tcp.window_size_value", Number("tcp[14:2]")),
    ("telnet", Word("telnet_session")),
    ("tftp", Word("tftp")),
    ("tls", Word("tls")),
    ("tls.handshake", Word("tls")),
    ("tls.handshake.extensions_server_name", Field("tls.server_name")),
    ("tls.handshake.ja3", Field("tls.ja3")),
    ("tls.handshake.ja3s", Field("tls.ja3s")),
    ("tls.handshake.ja4", Field("tls.ja4")),
    ("udp.dstport", Value("udp dst port")),
    ("udp.length", Number("udp[4:2]")),
    ("udp.port", Value("udp port")),
    ("udp.srcport", Value("udp src port")),
    ("vlan.id", Value("vlan")),
    ("wlan.addr", Value("wlan host")),
    ("wlan.da", Value("wlan dst")),
    ("wlan.sa", Value("wlan src")),
    ("x509sat.uTF8String", Field("x509.subject")),
];

/// Protocols that have equal names here.
const EQUAL: [&str; 7] = ["arp", "icmp", "igmp", "ip", "sctp", "tcp", "udp"];

/// Nested parentheses and negations that are followed.
const MAX_DEPTH: usize = 64;

/// The answer to a display filter: what to type. `None` if the text is none that is known here, or means here what it
/// means there.
pub(crate) fn answer(text: &str) -> Option<String> {
    let mut reader = Reader { tokens: tokens(text)?, at: 0, is_foreign: false, nothing: None };
    let found = reader.any(0);
    if let Some((name, instead)) = reader.nothing {
        return Some(format!(
            "`{name}` is a field of Wireshark's display filters that has no equivalent here: {instead}"
        ));
    }
    let found = found.filter(|_| reader.at == reader.tokens.len() && reader.is_foreign)?;
    Some(format!("this is a display filter of Wireshark; here it is `{}`", found.text))
}

#[derive(Debug, PartialEq)]
enum Token<'t> {
    Word(&'t str),
    Quoted(&'t str),
    Sign(&'static str),
}

/// Signs, the longer of two that begin alike first.
const SIGNS: [&str; 17] =
    ["&&", "||", "==", "!=", ">=", "<=", "~=", "(", ")", "{", "}", ",", "!", ">", "<", "~", "="];

/// Words that mean what a sign means.
const WORDS: [(&str, &str); 11] = [
    ("and", "&&"),
    ("or", "||"),
    ("not", "!"),
    ("eq", "=="),
    ("ne", "!="),
    ("gt", ">"),
    ("lt", "<"),
    ("ge", ">="),
    ("le", "<="),
    ("matches", "~"),
    ("any_eq", "=="),
];

fn tokens(text: &str) -> Option<Vec<Token<'_>>> {
    let mut found = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        if let Some(sign) = SIGNS.iter().find(|sign| rest.starts_with(**sign)) {
            found.push(Token::Sign(sign));
            rest = rest.get(sign.len()..)?.trim_start();
            continue;
        }
        if first == '"' {
            let (quoted, after) = rest.get(1..)?.split_once('"')?;
            found.push(Token::Quoted(quoted));
            rest = after.trim_start();
            continue;
        }
        let is_of_word = |c: char| c.is_ascii_alphanumeric() || "._:/-@".contains(c);
        let end = rest.find(|c| !is_of_word(c)).unwrap_or(rest.len());
        let word = rest.get(..end).filter(|word| !word.is_empty())?;
        found.push(match WORDS.iter().find(|(known, _)| *known == word) {
            Some((_, sign)) => Token::Sign(sign),
            None => Token::Word(word),
        });
        rest = rest.get(end..)?.trim_start();
    }
    Some(found)
}

/// An expression, and the connective of its outermost parts.
struct Written {
    text: String,
    joined_by: Option<&'static str>,
}

impl Written {
    fn whole(text: String) -> Self {
        Self { text, joined_by: None }
    }

    /// As a part of another: pcap-filter(7) gives `and` and `or` one rank.
    fn within(self, connective: &str) -> String {
        match self.joined_by {
            Some(by) if by != connective => format!("({})", self.text),
            _ => self.text,
        }
    }
}

struct Reader<'t> {
    tokens: Vec<Token<'t>>,
    at: usize,
    /// Whether a part is written otherwise here.
    is_foreign: bool,
    /// The first name that has no equal, and what to do instead.
    nothing: Option<(&'t str, &'static str)>,
}

impl<'t> Reader<'t> {
    fn takes(&mut self, sign: &str) -> bool {
        let is_there = matches!(self.tokens.get(self.at), Some(Token::Sign(there)) if *there == sign);
        self.at += usize::from(is_there);
        is_there
    }

    fn any(&mut self, depth: usize) -> Option<Written> {
        self.joined("||", "or", depth, Self::all)
    }

    fn all(&mut self, depth: usize) -> Option<Written> {
        self.joined("&&", "and", depth, Self::one)
    }

    fn joined(
        &mut self,
        sign: &str,
        word: &'static str,
        depth: usize,
        part: fn(&mut Self, usize) -> Option<Written>,
    ) -> Option<Written> {
        let mut parts = vec![part(self, depth)?];
        while self.takes(sign) {
            parts.push(part(self, depth)?);
        }
        if parts.len() == 1 {
            return parts.pop();
        }
        let texts: Vec<String> = parts.into_iter().map(|part| part.within(word)).collect();
        Some(Written { text: texts.join(&format!(" {word} ")), joined_by: Some(word) })
    }

    fn one(&mut self, depth: usize) -> Option<Written> {
        if depth >= MAX_DEPTH {
            return None;
        }
        if self.takes("!") {
            let text = self.one(depth + 1)?.within("not");
            return Some(Written::whole(format!("not {text}")));
        }
        if self.takes("(") {
            let inner = self.any(depth + 1)?;
            return self.takes(")").then_some(inner);
        }
        self.test()
    }

    /// A field with a comparison, or alone.
    fn test(&mut self) -> Option<Written> {
        let Some(Token::Word(name)) = self.tokens.get(self.at) else { return None };
        let name = *name;
        self.at += 1;
        if EQUAL.contains(&name) {
            return Some(Written::whole(name.to_owned()));
        }
        let at = NAMES.binary_search_by(|(known, _)| known.cmp(&name)).ok()?;
        let (_, meaning) = NAMES.get(at)?;
        self.is_foreign |= !matches!(meaning, Field(here) | Word(here) if *here == name);
        if let Nothing(instead) = meaning {
            self.nothing.get_or_insert((name, instead));
            return None;
        }
        for sign in ["==", "!=", ">=", "<=", "~", ">", "<", "="] {
            if self.takes(sign) {
                let value = self.value()?;
                return compared(*meaning, sign, &value);
            }
        }
        match self.tokens.get(self.at) {
            Some(Token::Word("contains")) => {
                self.at += 1;
                let value = self.value()?;
                compared(*meaning, "contains", &value)
            }
            Some(Token::Word("in")) => {
                self.at += 1;
                self.list(*meaning)
            }
            _ => alone(*meaning),
        }
    }

    fn value(&mut self) -> Option<String> {
        let value = match self.tokens.get(self.at)? {
            Token::Word(word) => (*word).to_owned(),
            Token::Quoted(text) => format!("\"{text}\""),
            Token::Sign(_) => return None,
        };
        self.at += 1;
        Some(value)
    }

    /// `{80, 443}`.
    fn list(&mut self, meaning: Meaning) -> Option<Written> {
        if !self.takes("{") {
            return None;
        }
        let mut parts = Vec::new();
        while !self.takes("}") {
            let value = self.value()?;
            parts.push(compared(meaning, "==", &value)?.within("or"));
            self.takes(",");
        }
        match parts.len() {
            0 => None,
            1 => parts.pop().map(Written::whole),
            _ => Some(Written { text: parts.join(" or "), joined_by: Some("or") }),
        }
    }
}

/// A name without a comparison: whether it is there.
fn alone(meaning: Meaning) -> Option<Written> {
    let text = match meaning {
        Word(word) | Field(word) => word.to_owned(),
        Bits(bits) => format!("{bits} != 0"),
        Value(_) | Address(_) | Number(_) | Nothing(_) => return None,
    };
    Some(Written::whole(text))
}

fn compared(meaning: Meaning, sign: &str, value: &str) -> Option<Written> {
    let bare = value.trim_matches('"');
    let negated = |text: String| match sign {
        "==" | "=" => Some(text),
        "!=" => Some(format!("not {text}")),
        _ => None,
    };
    let operator = if sign == "==" { "=" } else { sign };
    let text = match meaning {
        Value(words) => negated(format!("{words} {bare}"))?,
        Address(direction) => {
            let what = if bare.contains('/') { "net" } else { "host" };
            negated(format!("{direction}{what} {bare}"))?
        }
        Number(number) if !matches!(sign, "contains" | "~") => format!("{number} {operator} {bare}"),
        Bits(bits) => match (sign, bare.to_ascii_lowercase().as_str()) {
            ("==" | "=", "1" | "true") | ("!=", "0" | "false") => format!("{bits} != 0"),
            ("==" | "=", "0" | "false") | ("!=", "1" | "true") => format!("{bits} = 0"),
            _ => return None,
        },
        Field(field) => {
            let is_number = bare.parse::<f64>().is_ok();
            let value = if is_number { bare.to_owned() } else { format!("\"{bare}\"") };
            format!("{field} {operator} {value}")
        }
        Number(_) | Word(_) | Nothing(_) => return None,
    };
    Some(Written::whole(text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Filter, Options};

    fn here(text: &str) -> String {
        let answer = answer(text).unwrap_or_else(|| panic!("{text} has no answer"));
        answer.split('`').nth(1).unwrap().to_owned()
    }

    #[test]
    fn names_are_ordered() {
        assert!(NAMES.is_sorted_by(|(a, _), (b, _)| a < b));
    }

    #[test]
    fn display_filters_are_answered() {
        for (typed, expected) in [
            ("tcp.port==80", "tcp port 80"),
            ("ip.addr == 10.0.0.1", "host 10.0.0.1"),
            ("ip.src == 10.0.0.0/8 && udp.dstport != 53", "src net 10.0.0.0/8 and not udp dst port 53"),
            (
                "tcp.port in {80, 443} and ip.dst eq 192.0.2.1",
                "(tcp port 80 or tcp port 443) and dst host 192.0.2.1",
            ),
            (
                "tcp.flags.syn == 1 && tcp.flags.ack == 0",
                "tcp[tcpflags] & tcp-syn != 0 and tcp[tcpflags] & tcp-ack = 0",
            ),
            ("!(tcp.port == 22) || arp", "not tcp port 22 or arp"),
            ("not (tcp.port == 22 or udp.port == 53)", "not (tcp port 22 or udp port 53)"),
            ("frame.len > 1000", "len > 1000"),
            ("eth.addr == 00:11:22:33:44:55", "ether host 00:11:22:33:44:55"),
            ("ipv6.addr == 2001:db8::1", "host 2001:db8::1"),
            ("http.request.method == \"GET\"", "http.method = \"GET\""),
            ("http.request.uri contains example", "http.uri contains \"example\""),
            ("http.response.code >= 500", "http.status_code >= 500"),
            ("dns.qry.name matches \"^www\"", "dns.query ~ \"^www\""),
            (
                "tls.handshake.extensions_server_name == www.example.com",
                "tls.server_name = \"www.example.com\"",
            ),
            ("tcp.flags.reset", "tcp[tcpflags] & tcp-rst != 0"),
            ("vlan.id == 7", "vlan 7"),
        ] {
            assert_eq!(here(typed), expected, "{typed}");
        }
    }

    #[test]
    fn what_has_no_equal_says_what_to_do() {
        for name in
            ["frame.number == 7", "ip.addr == 10.0.0.1 && tcp.stream eq 3", "frame.time >= \"2026-01-01\""]
        {
            assert!(answer(name).unwrap().contains("has no equivalent here: "), "{name}");
        }
    }

    #[test]
    fn other_texts_have_no_answer() {
        for text in [
            "",
            "tcp port 80",
            "tcp",
            "host example.com",
            "tcp.unknown == 1",
            "tcp.port ==",
            "((((",
            "\"",
            "ip.addr == 1 &&",
            "http.host contains x",
            "dns",
        ] {
            assert_eq!(answer(text), None, "{text}");
        }
        let deep = "(".repeat(100_000);
        assert_eq!(answer(&deep), None);
        assert_eq!(answer(&"!".repeat(100_000)), None);
    }

    /// Each answer over packets compiles.
    #[test]
    fn answers_over_packets_are_expressions() {
        for (name, meaning) in NAMES {
            let value = match meaning {
                Address(_) => "192.0.2.1",
                Value(_) if name.starts_with("eth.type") => "0x0800",
                Value(words) if words.starts_with("ether") || words.starts_with("wlan") => {
                    "00:11:22:33:44:55"
                }
                Value(_) | Number(_) | Bits(_) => "1",
                Word(_) | Field(_) | Nothing(_) => continue,
            };
            let here = here(&format!("{name} == {value}"));
            let compiled = Filter::compile(&here, &Options::default());
            assert!(compiled.is_ok(), "{name}: {here}: {:?}", compiled.err());
        }
    }
}
