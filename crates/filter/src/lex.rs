//! Tokens: the longest one at each position, as a scanner made by lex(1) reads them, with their byte ranges.

use std::ops::Range;

use crate::error::{ErrorKind, FilterError};
use crate::fields::{self, FieldTest, Fields, looks_like_field};
use crate::names::{CONSTANTS, PROTOCOLS, Protocol, lookup};

/// A word of the grammar that is no name of a number, protocol or address.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Word {
    Src,
    Dst,
    Host,
    Net,
    Mask,
    Port,
    PortRange,
    Proto,
    ProtoChain,
    Gateway,
    Type,
    Subtype,
    Dir,
    Addr1,
    Addr2,
    Addr3,
    Addr4,
    Ra,
    Ta,
    Less,
    Greater,
    Byte,
    Broadcast,
    Multicast,
    And,
    Or,
    Not,
    Len,
    Inbound,
    Outbound,
    IfIndex,
    Vlan,
    Mpls,
    Pppoed,
    Pppoes,
    Geneve,
    Vxlan,
    Llc,
    /// `rnr`, which is also the name of an LLC frame.
    RuleNumber,
    PfInterface,
    PfRuleset,
    PfSubrule,
    PfReason,
    PfAction,
    /// A word that exists only for link types that Weir does not decode.
    Elsewhere(&'static str, &'static str),
}

const ATM: &str = "SUNATM";
const SS7: &str = "SS7";

/// The words of the grammar.
pub(crate) const WORDS: &[(&str, Word)] = &[
    ("src", Word::Src),
    ("dst", Word::Dst),
    ("host", Word::Host),
    ("net", Word::Net),
    ("mask", Word::Mask),
    ("port", Word::Port),
    ("portrange", Word::PortRange),
    ("proto", Word::Proto),
    ("protochain", Word::ProtoChain),
    ("gateway", Word::Gateway),
    ("type", Word::Type),
    ("subtype", Word::Subtype),
    ("direction", Word::Dir),
    ("dir", Word::Dir),
    ("address1", Word::Addr1),
    ("addr1", Word::Addr1),
    ("address2", Word::Addr2),
    ("addr2", Word::Addr2),
    ("address3", Word::Addr3),
    ("addr3", Word::Addr3),
    ("address4", Word::Addr4),
    ("addr4", Word::Addr4),
    ("ra", Word::Ra),
    ("ta", Word::Ta),
    ("less", Word::Less),
    ("greater", Word::Greater),
    ("byte", Word::Byte),
    ("broadcast", Word::Broadcast),
    ("multicast", Word::Multicast),
    ("and", Word::And),
    ("or", Word::Or),
    ("not", Word::Not),
    ("len", Word::Len),
    ("length", Word::Len),
    ("inbound", Word::Inbound),
    ("outbound", Word::Outbound),
    ("ifindex", Word::IfIndex),
    ("vlan", Word::Vlan),
    ("mpls", Word::Mpls),
    ("pppoed", Word::Pppoed),
    ("pppoes", Word::Pppoes),
    ("geneve", Word::Geneve),
    ("vxlan", Word::Vxlan),
    ("llc", Word::Llc),
    ("rnr", Word::RuleNumber),
    ("rulenum", Word::RuleNumber),
    ("lane", Word::Elsewhere("lane", ATM)),
    ("metac", Word::Elsewhere("metac", ATM)),
    ("bcc", Word::Elsewhere("bcc", ATM)),
    ("oam", Word::Elsewhere("oam", ATM)),
    ("oamf4", Word::Elsewhere("oamf4", ATM)),
    ("oamf4ec", Word::Elsewhere("oamf4ec", ATM)),
    ("oamf4sc", Word::Elsewhere("oamf4sc", ATM)),
    ("sc", Word::Elsewhere("sc", ATM)),
    ("ilmic", Word::Elsewhere("ilmic", ATM)),
    ("vpi", Word::Elsewhere("vpi", ATM)),
    ("vci", Word::Elsewhere("vci", ATM)),
    ("connectmsg", Word::Elsewhere("connectmsg", ATM)),
    ("metaconnect", Word::Elsewhere("metaconnect", ATM)),
    ("on", Word::PfInterface),
    ("ifname", Word::PfInterface),
    ("rset", Word::PfRuleset),
    ("ruleset", Word::PfRuleset),
    ("srnr", Word::PfSubrule),
    ("subrulenum", Word::PfSubrule),
    ("reason", Word::PfReason),
    ("action", Word::PfAction),
    ("fisu", Word::Elsewhere("fisu", SS7)),
    ("lssu", Word::Elsewhere("lssu", SS7)),
    ("lsu", Word::Elsewhere("lssu", SS7)),
    ("msu", Word::Elsewhere("msu", SS7)),
    ("hfisu", Word::Elsewhere("hfisu", SS7)),
    ("hlssu", Word::Elsewhere("hlssu", SS7)),
    ("hmsu", Word::Elsewhere("hmsu", SS7)),
    ("sio", Word::Elsewhere("sio", SS7)),
    ("opc", Word::Elsewhere("opc", SS7)),
    ("dpc", Word::Elsewhere("dpc", SS7)),
    ("sls", Word::Elsewhere("sls", SS7)),
    ("hsio", Word::Elsewhere("hsio", SS7)),
    ("hopc", Word::Elsewhere("hopc", SS7)),
    ("hdpc", Word::Elsewhere("hdpc", SS7)),
    ("hsls", Word::Elsewhere("hsls", SS7)),
];

/// The words of an expression that are neither numbers nor names of hosts, ports and fields, in the order of their tables. Words
/// that exist only for link types that are not decoded, and those of OpenBSD's packet filter, are left out.
pub fn words() -> impl Iterator<Item = &'static str> {
    let grammar = WORDS.iter().filter(|(_, word)| {
        !matches!(
            word,
            Word::Elsewhere(..)
                | Word::RuleNumber
                | Word::PfInterface
                | Word::PfRuleset
                | Word::PfSubrule
                | Word::PfReason
                | Word::PfAction
        )
    });
    let protocols = PROTOCOLS.iter().map(|(word, _)| *word);
    grammar.map(|(word, _)| *word).chain(protocols).chain(CONSTANTS.iter().map(|(word, _)| *word))
}

/// The kind of a token.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Kind {
    Word(Word),
    Protocol(Protocol),
    /// A decimal, octal or hexadecimal number, or the name of one.
    Number(u32),
    /// Two to four numbers with dots: an IPv4 address or its first bytes, or a DECnet address.
    Dotted,
    /// An IPv6 address.
    V6([u8; 16]),
    /// A MAC address in any of its notations.
    Mac([u8; 6]),
    /// An ARCnet address.
    Arcnet(u8),
    /// Any other word, without a backslash before it.
    Name(String),
    /// An operator or a bracket.
    Sign(&'static str),
    /// A test of a field.
    Field(Box<FieldTest>),
}

/// A token and its position.
#[derive(Clone, Debug)]
pub(crate) struct Token {
    pub kind: Kind,
    pub span: Range<usize>,
}

const SIGNS: &[(&str, &str)] = &[
    (">=", ">="),
    ("<=", "<="),
    ("!=", "!="),
    ("==", "="),
    ("<<", "<<"),
    (">>", ">>"),
    ("&&", "&&"),
    ("||", "||"),
    ("+", "+"),
    ("-", "-"),
    ("*", "*"),
    ("/", "/"),
    ("%", "%"),
    (":", ":"),
    ("[", "["),
    ("]", "]"),
    ("!", "!"),
    ("<", "<"),
    (">", ">"),
    ("(", "("),
    (")", ")"),
    ("&", "&"),
    ("|", "|"),
    ("^", "^"),
    ("=", "="),
];

/// Splits an expression into tokens. Without fields, a test of a field is an error.
pub(crate) fn tokens(text: &str, fields: Option<&dyn Fields>) -> Result<Vec<Token>, FilterError> {
    let mut tokens = Vec::new();
    let bytes = text.as_bytes();
    let mut at = 0;
    while let Some(&b) = bytes.get(at) {
        if matches!(b, b' ' | b'\r' | b'\n' | b'\t') {
            at += 1;
            continue;
        }
        let (kind, len) = token(text, at)?;
        let (kind, len) = match &kind {
            Kind::Name(word) if looks_like_field(word, text.get(at + len..).unwrap_or_default()) => {
                field(text, at..at + len, fields)?
            }
            _ => (kind, len),
        };
        tokens.push(Token { kind, span: at..at + len });
        at += len;
    }
    Ok(tokens)
}

/// A test of the field that stands there.
fn field(text: &str, at: Range<usize>, fields: Option<&dyn Fields>) -> Result<(Kind, usize), FilterError> {
    let Some(fields) = fields else {
        let message = fields::needs_record(text.get(at.clone()).unwrap_or_default());
        return Err(FilterError::new(ErrorKind::Level, at, message));
    };
    let (test, end) = fields::test(text, at.clone(), fields)?;
    Ok((Kind::Field(Box::new(test)), end - at.start))
}

fn token(text: &str, at: usize) -> Result<(Kind, usize), FilterError> {
    let rest = &text[at..];
    // No IPv6 address is longer.
    let run = rest.bytes().take(64).take_while(|b| b.is_ascii_hexdigit() || b":.xX".contains(b)).count();
    let word = &rest[..name(rest)];
    let number = number(rest);
    let dotted = dotted(rest);
    let mac = mac(rest);
    let v6 = longest(&rest[..run], is_v6);
    let sloppy_mac = sloppy_mac(rest);
    let best =
        [word.len(), number, dotted, mac.map_or(0, |m| m.1), v6, sloppy_mac].into_iter().max().unwrap_or(0);
    let invalid = |message: String| Err(FilterError::new(ErrorKind::Value, at..at + best, message));
    if best == 0 {
        return sign(text, at);
    }
    let found = &rest[..best];
    if word.len() == best {
        if let Some(word) = lookup(WORDS, word) {
            return Ok((Kind::Word(word), best));
        }
        if let Some(protocol) = lookup(PROTOCOLS, word) {
            return Ok((Kind::Protocol(protocol), best));
        }
    }
    if let Some((mac, len)) = mac
        && len == best
    {
        return Ok((Kind::Mac(mac), best));
    }
    if number == best {
        return match parse_number(found) {
            Ok(value) => Ok((Kind::Number(value), best)),
            Err(message) => invalid(message),
        };
    }
    if dotted == best {
        return Ok((Kind::Dotted, best));
    }
    if v6 == best {
        return match found.parse::<std::net::Ipv6Addr>() {
            Ok(address) => Ok((Kind::V6(address.octets()), best)),
            Err(_) => invalid(format!("invalid IPv6 address {found}")),
        };
    }
    if sloppy_mac == best {
        return invalid(format!("invalid Ethernet address {found}"));
    }
    if let Some(value) = lookup(CONSTANTS, found) {
        return Ok((Kind::Number(value), best));
    }
    Ok((Kind::Name(found.to_owned()), best))
}

fn sign(text: &str, at: usize) -> Result<(Kind, usize), FilterError> {
    let rest = &text[at..];
    if let Some(escaped) = rest.strip_prefix('\\') {
        let len = escaped.find([' ', '!', '(', ')', '\n', '\t']).unwrap_or(escaped.len());
        if len > 0 {
            return Ok((Kind::Name(escaped[..len].to_owned()), 1 + len));
        }
    }
    if let Some(digits) = rest.strip_prefix('$') {
        let len = digits.bytes().take(2).take_while(u8::is_ascii_hexdigit).count();
        if len > 0 {
            let address = u8::from_str_radix(&digits[..len], 16).unwrap_or(0);
            return Ok((Kind::Arcnet(address), 1 + len));
        }
    }
    if let Some((found, sign)) = SIGNS.iter().find(|(found, _)| rest.starts_with(found)) {
        let kind = match *sign {
            "&&" => Kind::Word(Word::And),
            "||" => Kind::Word(Word::Or),
            "!" => Kind::Word(Word::Not),
            sign => Kind::Sign(sign),
        };
        return Ok((kind, found.len()));
    }
    let c = rest.chars().next().unwrap_or(' ');
    Err(FilterError::new(
        ErrorKind::Syntax,
        at..at + c.len_utf8(),
        format!("unexpected `{}`", c.escape_default()),
    ))
}

/// Length of a name in bytes: it may contain `-`, `_` and `.`, and may end with a dot but not with `-` or `_`.
fn name(rest: &str) -> usize {
    let Some(first) = rest.bytes().next() else { return 0 };
    if !first.is_ascii_alphanumeric() {
        return 0;
    }
    let run = rest.bytes().take_while(|b| b.is_ascii_alphanumeric() || b"-_.".contains(b)).count();
    rest[..run].trim_end_matches(['-', '_']).len().max(1)
}

/// Length of a number in bytes.
fn number(rest: &str) -> usize {
    let hex = rest.strip_prefix("0x").or_else(|| rest.strip_prefix("0X"));
    if let Some(digits) = hex {
        let len = digits.bytes().take_while(u8::is_ascii_hexdigit).count();
        if len > 0 {
            return 2 + len;
        }
    }
    rest.bytes().take_while(u8::is_ascii_digit).count()
}

/// Length in bytes of two to four numbers with dots between.
fn dotted(rest: &str) -> usize {
    let mut len = number(rest);
    if len == 0 {
        return 0;
    }
    let mut parts = 1;
    while parts < 4 {
        let Some(more) = rest[len..].strip_prefix('.') else { break };
        match number(more) {
            0 => break,
            n => len += 1 + n,
        }
        parts += 1;
    }
    if parts > 1 { len } else { 0 }
}

/// A MAC address: six bytes with the same separator between all, three groups of four digits with dots, or twelve
/// digits.
fn mac(rest: &str) -> Option<([u8; 6], usize)> {
    let hex = |s: &str| u8::from_str_radix(s, 16).ok();
    let digits = |s: &str, max: usize| s.bytes().take(max).take_while(u8::is_ascii_hexdigit).count();
    let mut best: Option<([u8; 6], usize)> = None;
    for sign in [':', '-', '.'] {
        let mut bytes = [0; 6];
        let mut at = 0;
        let mut whole = true;
        for (i, byte) in bytes.iter_mut().enumerate() {
            if i > 0 {
                if !rest[at..].starts_with(sign) {
                    whole = false;
                    break;
                }
                at += 1;
            }
            let len = digits(&rest[at..], 2);
            let Some(value) = hex(&rest[at..at + len]) else {
                whole = false;
                break;
            };
            *byte = value;
            at += len;
        }
        if whole && best.is_none_or(|(_, len)| at > len) {
            best = Some((bytes, at));
        }
    }
    for sign in ["", "."] {
        let mut all = String::new();
        let mut at = 0;
        for group in 0..3 {
            if group > 0 {
                if !rest[at..].starts_with(sign) {
                    break;
                }
                at += sign.len();
            }
            if digits(&rest[at..], 4) < 4 {
                break;
            }
            all.push_str(&rest[at..at + 4]);
            at += 4;
        }
        if let Ok(value) = u64::from_str_radix(&all, 16)
            && all.len() == 12
            && best.is_none_or(|(_, len)| at > len)
        {
            let [_, _, bytes @ ..] = value.to_be_bytes();
            best = Some((bytes, at));
        }
    }
    best
}

/// Length in bytes of a malformed MAC address: three groups or more with colons.
fn sloppy_mac(rest: &str) -> usize {
    let mut at = 0;
    let mut end = 0;
    let mut groups = 0;
    loop {
        let digits = rest[at..].bytes().take(2).take_while(u8::is_ascii_hexdigit).count();
        let colons = rest[at + digits..].bytes().take_while(|b| *b == b':').count();
        if digits == 0 || colons == 0 {
            break;
        }
        at += digits + colons;
        groups += 1;
        if groups >= 2 {
            end = at;
        }
    }
    end
}

/// Length of the longest prefix for which `is` holds.
fn longest(run: &str, is: impl Fn(&str) -> bool) -> usize {
    if !run.contains(':') {
        return 0;
    }
    (1..=run.len()).rev().find(|len| is(&run[..*len])).unwrap_or(0)
}

/// Whether the text has the form of an IPv6 address (RFC 4291 2.2). Numbers above 255 in its IPv4 part are found
/// later.
fn is_v6(s: &str) -> bool {
    let group = |g: &str| (1..=4).contains(&g.len()) && g.bytes().all(|b| b.is_ascii_hexdigit());
    let v4 = |g: &str| g.split('.').count() == 4 && dotted(g) == g.len();
    let (front, back) = match s.find("::") {
        Some(at) => (&s[..at], Some(&s[at + 2..])),
        None => (s, None),
    };
    let split = |part: &str| -> Vec<String> {
        if part.is_empty() { Vec::new() } else { part.split(':').map(str::to_owned).collect() }
    };
    let mut front = split(front);
    let mut back = back.map(split);
    let last = back.as_mut().unwrap_or(&mut front);
    let mut max = 8;
    if last.last().is_some_and(|g| v4(g)) {
        last.pop();
        max = 6;
    }
    let groups = front.len() + back.as_ref().map_or(0, Vec::len);
    let all = front.iter().chain(back.iter().flatten()).all(|g| group(g));
    all && if back.is_some() { groups < max } else { groups == max }
}

/// The value of a number in C notation.
pub(crate) fn parse_number(s: &str) -> Result<u32, String> {
    let overflow = |base: &str| format!("{base} number {s} overflows 32 bits");
    if let Some(digits) = s.strip_prefix("0x").or_else(|| s.strip_prefix("0X")) {
        return u32::from_str_radix(digits, 16).map_err(|_| overflow("hexadecimal"));
    }
    if !s.starts_with('0') {
        return s.parse().map_err(|_| overflow("decimal"));
    }
    let mut value = 0u32;
    for digit in s.bytes() {
        if digit > b'7' {
            return Err(format!("number {s} contains non-octal digit"));
        }
        if value >> 29 != 0 {
            return Err(overflow("octal"));
        }
        value = value << 3 | u32::from(digit - b'0');
    }
    Ok(value)
}
