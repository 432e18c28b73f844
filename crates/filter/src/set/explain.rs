//! Describes how the expressions of a set are evaluated, and whether one compiles at all.

use super::index::MAX_ATOMS;
use super::kind::{ARP, Kinds, OTHER, RARP, ip, ip6, ip6_fragment};
use super::lower::{Atom, Base, Comparison as Sign, Lowered, Term, Unshared, lower};
use super::ranges::{Addresses, Ranges};
use super::{Expression, Set};
use crate::error::FilterError;
use crate::filter::Options;
use crate::names::{IP_PROTOCOLS, ip_protocol};
use std::fmt::Display;
use std::net::{Ipv4Addr, Ipv6Addr};
use weir_wire::{LinkType, Tag};

/// How an expression of a set is evaluated.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Explanation {
    /// The data that decides it.
    pub decided: Decided,
    /// Its terms: a packet matches if all tests of one term hold. Empty for an expression that its program decides.
    pub terms: Vec<String>,
    /// The tests of its terms, without duplicates, in the order of the terms.
    pub comparisons: Vec<Comparison>,
    /// Whether its program decides all packets that are too short for a comparison, even if no term accepts them,
    /// because a `not` precedes the comparison.
    pub wary: bool,
    /// Whether its program decides packets of link types other than Ethernet.
    pub ethernet_only: bool,
    /// Number of instructions of its program for Ethernet; `None` if it can match nothing there.
    pub instructions: Option<usize>,
}

/// The data that decides an expression.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Decided {
    /// The addresses, ports, protocol and VLAN that all packets of a flow share: evaluated once for each flow.
    Flow,
    /// Also fields that can change from packet to packet of a flow: columns or an index, for each packet.
    Packet,
    /// Its own program for each packet.
    Program {
        /// The reason why it cannot share parts with others.
        reason: String,
    },
}

/// A comparison, and the number of its other users.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Comparison {
    /// Its text, close to the language.
    pub text: String,
    /// Whether its result can differ between packets of one flow.
    pub changes: bool,
    /// Whether it is left to a small program that runs once for all expressions that share it.
    pub has_program: bool,
    /// Number of other expressions of the set that make an equal comparison.
    pub others: usize,
}

/// Checks whether an expression compiles for some link type; an empty one does. Faster than
/// [`Filter::compile`](crate::Filter::compile), since most expressions are known to compile without a translation.
///
/// # Errors
///
/// The errors of [`Filter::compile`](crate::Filter::compile).
pub fn check(expression: &str, options: &Options<'_>) -> Result<(), FilterError> {
    Expression::new(expression, options).map(drop)
}

/// A part of a term that other terms can share.
#[derive(Clone, Debug, Eq, PartialEq)]
enum Part<'s> {
    Kinds(&'s Kinds),
    Address(End, &'s Addresses),
    Port(End, &'s Ranges<u16>),
    Tag(&'s Ranges<u16>),
    /// An atom by its name, see [`Atom::name`].
    Atom(String),
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum End {
    Source,
    Destination,
    Either,
}

impl End {
    fn word(self) -> &'static str {
        match self {
            End::Source => "src ",
            End::Destination => "dst ",
            End::Either => "",
        }
    }
}

impl Set {
    /// The evaluation of the expression with that number; `None` if it does not exist.
    pub fn explain(&self, index: usize) -> Option<Explanation> {
        let expression = self.expressions.get(index)?;
        let instructions = self.filter(index as u32).and_then(|filter| filter.classic(LinkType::ETHERNET));
        let program = |reason: String| Explanation {
            decided: Decided::Program { reason },
            terms: Vec::new(),
            comparisons: Vec::new(),
            wary: false,
            ethernet_only: false,
            instructions: instructions.as_ref().map(Vec::len),
        };
        let Some(lowered) = &expression.lowered else {
            let why = lower(expression.expr.as_ref(), !self.options.strict_bpf).err();
            return Some(program(why.map_or_else(String::new, |Unshared(why)| why.to_owned())));
        };
        if !self.atoms.fits(index as u32) {
            return Some(program(format!(
                "the expressions before it compare bytes in {MAX_ATOMS} ways, which is the maximum"
            )));
        }
        let comparisons = parts(lowered)
            .into_iter()
            .map(|(part, atom)| Comparison {
                text: part_text(&part, atom, &expression.text),
                changes: atom.is_some(),
                has_program: matches!(atom, Some(Atom::Program(_))),
                others: self.others(index, &part),
            })
            .collect();
        let decided = if lowered.atoms.is_empty() { Decided::Flow } else { Decided::Packet };
        Some(Explanation {
            decided,
            terms: lowered.terms.iter().map(|term| term_text(term, lowered, &expression.text)).collect(),
            comparisons,
            wary: lowered.wary,
            ethernet_only: lowered.ethernet_only,
            instructions: instructions.map(|program| program.len()),
        })
    }

    /// Number of other expressions that share a part.
    fn others(&self, index: usize, part: &Part<'_>) -> usize {
        let others = self.expressions.iter().enumerate().filter(|(other, _)| *other != index);
        let lowered = others.filter_map(|(_, expression)| expression.lowered.as_ref());
        lowered.filter(|lowered| parts(lowered).iter().any(|(other, _)| other == part)).count()
    }
}

/// The tests of an expression, without duplicates, with the atom of each if it is one.
fn parts<'s>(lowered: &'s Lowered) -> Vec<(Part<'s>, Option<&'s Atom>)> {
    let mut parts: Vec<(Part<'s>, Option<&'s Atom>)> = Vec::new();
    let mut add = |part: Part<'s>, atom: Option<&'s Atom>| {
        if !parts.iter().any(|(known, _)| *known == part) {
            parts.push((part, atom));
        }
    };
    for term in &lowered.terms {
        if term.kinds != Kinds::all() {
            add(Part::Kinds(&term.kinds), None);
        }
        for (end, set) in addresses(term) {
            add(Part::Address(end, set), None);
        }
        for (end, set) in ports(term) {
            add(Part::Port(end, set), None);
        }
        if let Some(set) = tags(term) {
            add(Part::Tag(set), None);
        }
        for atom in term.atoms.iter().filter_map(|(at, _)| lowered.atoms.get(*at)) {
            add(Part::Atom(atom.name()), Some(atom));
        }
    }
    parts
}

fn addresses(term: &Term) -> impl Iterator<Item = (End, &Addresses)> {
    let src = term.src.iter().map(|set| (End::Source, set));
    let dst = term.dst.iter().map(|set| (End::Destination, set));
    src.chain(dst).chain(term.either.iter().map(|set| (End::Either, set)))
}

fn ports(term: &Term) -> impl Iterator<Item = (End, &Ranges<u16>)> {
    let src = term.sport.iter().map(|set| (End::Source, set));
    let dst = term.dport.iter().map(|set| (End::Destination, set));
    src.chain(dst).chain(term.either_port.iter().map(|set| (End::Either, set)))
}

/// The VLAN tags that a term requires; not the test that tags are possible at all.
fn tags(term: &Term) -> Option<&Ranges<u16>> {
    term.tags.as_ref().filter(|tags| **tags != somewhere())
}

/// Every tag, and none, on link types that can have tags.
fn somewhere() -> Ranges<u16> {
    Ranges::one(0, Tag::TAGGED.1)
}

fn part_text(part: &Part<'_>, atom: Option<&Atom>, expression: &str) -> String {
    match part {
        Part::Kinds(kinds) => kinds_text(kinds),
        Part::Address(end, set) => address_text(*end, set),
        Part::Port(end, set) => port_text(*end, set),
        Part::Tag(set) => tag_text(set),
        Part::Atom(_) => atom.map_or_else(String::new, |atom| atom_text(atom, true, expression)),
    }
}

fn term_text(term: &Term, lowered: &Lowered, expression: &str) -> String {
    let mut said = Vec::new();
    if term.kinds != Kinds::all() {
        said.push(kinds_text(&term.kinds));
    }
    said.extend(addresses(term).map(|(end, set)| address_text(end, set)));
    said.extend(ports(term).map(|(end, set)| port_text(end, set)));
    said.extend(tags(term).map(tag_text));
    let atoms = term.atoms.iter().filter_map(|(at, holds)| Some((lowered.atoms.get(*at)?, *holds)));
    said.extend(atoms.map(|(atom, holds)| atom_text(atom, holds, expression)));
    if said.is_empty() { "every packet".to_owned() } else { said.join("; ") }
}

/// Maximum number of items of a list that are shown.
const MAX_SAID: usize = 6;

fn list(items: &[String], joined_by: &str) -> String {
    match items.len().checked_sub(MAX_SAID) {
        None | Some(0 | 1) => items.join(joined_by),
        Some(more) => format!("{}{joined_by}{more} more", items[..MAX_SAID].join(joined_by)),
    }
}

fn address_text(end: End, set: &Addresses) -> String {
    // Packets without an address are only in the complement of a set.
    let (not, said) = if set.none { ("not ", set.complement()) } else { ("", set.clone()) };
    let v4 = said.v4.as_slice().iter().map(|(low, high)| {
        let bits = prefix_length(u128::from(*low), u128::from(*high), 32);
        stretch_text(&Ipv4Addr::from(*low), &Ipv4Addr::from(*high), bits, 32)
    });
    let v6 = said.v6.as_slice().iter().map(|(low, high)| {
        stretch_text(&Ipv6Addr::from(*low), &Ipv6Addr::from(*high), prefix_length(*low, *high, 128), 128)
    });
    let items: Vec<String> = v4.chain(v6).collect();
    let items = list(&items, " or ");
    format!("{}{not}{}", end.word(), if items.is_empty() { "no address" } else { &items })
}

/// The prefix length of a range of addresses with the given number of bits; `None` if the range is not a prefix.
fn prefix_length(low: u128, high: u128, bits: u32) -> Option<u32> {
    let differ = low ^ high;
    let free = u128::BITS - differ.leading_zeros();
    (differ.count_ones() == free && low & differ == 0).then_some(bits - free)
}

fn stretch_text(low: &dyn Display, high: &dyn Display, prefix: Option<u32>, bits: u32) -> String {
    match prefix {
        Some(prefix) if prefix == bits => format!("host {low}"),
        Some(prefix) => format!("net {low}/{prefix}"),
        None => format!("net {low} to {high}"),
    }
}

fn port_text(end: End, set: &Ranges<u16>) -> String {
    let opposite = set.complement();
    let is_not = opposite.as_slice().len() < set.as_slice().len();
    let (not, said) = if is_not { ("not ", &opposite) } else { ("", set) };
    let items: Vec<String> = said
        .as_slice()
        .iter()
        .map(|(low, high)| if low == high { low.to_string() } else { format!("{low}-{high}") })
        .collect();
    format!("{}{not}port {}", end.word(), list(&items, " or "))
}

fn tag_text(set: &Ranges<u16>) -> String {
    // Untagged packets are only in the complement of a set.
    let is_not = set.contains(0);
    let said = if is_not { set.complement().intersection(&somewhere()) } else { set.clone() };
    let identifiers = |(low, high): &(u16, u16)| match (low - 1, high - 1) {
        (low, high) if low == high => low.to_string(),
        (low, high) => format!("{low}-{high}"),
    };
    let not = if is_not { "not " } else { "" };
    if said.as_slice() == [Tag::TAGGED] {
        return format!("{not}vlan");
    }
    let items: Vec<String> = said.as_slice().iter().map(identifiers).collect();
    format!("{not}vlan {}", list(&items, " or "))
}

fn atom_text(atom: &Atom, holds: bool, expression: &str) -> String {
    let sign = |comparison: &Sign, value: u32| match (comparison, holds) {
        (Sign::Equal, true) => "=",
        (Sign::Equal, false) => "!=",
        (Sign::Greater, true) if value == 0 => "!=",
        (Sign::Greater, false) if value == 0 => "=",
        (Sign::Greater, true) => ">",
        (Sign::Greater, false) => "<=",
        (Sign::AtLeast, true) => ">=",
        (Sign::AtLeast, false) => "<",
    };
    match atom {
        Atom::Length { comparison, value } => format!("len {} {value}", sign(comparison, *value)),
        Atom::Field { kinds, base, offset, size, mask, comparison, value } => {
            let (name, offset) = header(kinds, *base, *offset);
            let size = if *size == 1 { String::new() } else { format!(":{size}") };
            let mask = if *mask == u32::MAX { String::new() } else { format!(" & {mask:#x}") };
            let sign = sign(comparison, *value);
            let value = if *value > 9 { format!("{value:#x}") } else { value.to_string() };
            format!("{name}[{offset}{size}]{mask} {sign} {value}")
        }
        Atom::Program(test) => {
            let text = expression.get(test.span.clone()).unwrap_or_default();
            if holds { text.to_owned() } else { format!("not {text}") }
        }
    }
}

/// The word for the header of a load, and the offset within that header.
fn header(kinds: &Kinds, base: Base, offset: u32) -> (String, u32) {
    match base {
        Base::Link => ("ether".to_owned(), offset),
        Base::Network => {
            let name = [("ip", Kinds::ip()), ("ip6", Kinds::ip6()), ("arp", Kinds::of([ARP]))];
            match name.iter().find(|(_, of)| of == kinds) {
                Some((name, _)) => ((*name).to_owned(), offset),
                None if kinds.contains(RARP) => ("rarp".to_owned(), offset),
                None => ("icmp6".to_owned(), offset.saturating_sub(40)),
            }
        }
        Base::Transport => {
            let protocol = (0..=u8::MAX).find(|protocol| kinds.contains(ip(*protocol, false)));
            (protocol.map_or_else(String::new, protocol_name), offset)
        }
    }
}

fn protocol_name(number: u8) -> String {
    match u32::from(number) {
        ip_protocol::ICMPV6 => "icmp6".to_owned(),
        number => match IP_PROTOCOLS.iter().find(|(_, known)| *known == number && number != 0) {
            Some((name, _)) => (*name).to_owned(),
            None => format!("protocol {number}"),
        },
    }
}

/// The text of a set of kinds: the shorter of the set and its complement.
fn kinds_text(kinds: &Kinds) -> String {
    let (is, is_not) = (pieces(kinds), pieces(&kinds.complement()));
    let length = |pieces: &[String]| pieces.iter().map(String::len).sum::<usize>();
    match is.len() {
        0 => "no packet".to_owned(),
        _ if is_not.is_empty() => "every packet".to_owned(),
        _ if length(&is) <= length(&is_not) + 4 => is.join(", "),
        _ => format!("not {}", is_not.join(", ")),
    }
}

/// The elements of a set of kinds.
fn pieces(kinds: &Kinds) -> Vec<String> {
    let numbers = |wanted: &dyn Fn(u8) -> bool| (0..=u8::MAX).filter(|n| wanted(*n)).collect::<Vec<u8>>();
    let v4 = |n, later| kinds.contains(ip(n, later));
    let v6 = |n, later| kinds.contains(if later { ip6_fragment(n) } else { ip6(n) });
    let whole = [numbers(&|n| v4(n, false) && v4(n, true)), numbers(&|n| v6(n, false) && v6(n, true))];
    let first = [numbers(&|n| v4(n, false) && !v4(n, true)), numbers(&|n| v6(n, false) && !v6(n, true))];
    let later = [numbers(&|n| !v4(n, false) && v4(n, true)), numbers(&|n| !v6(n, false) && v6(n, true))];
    let mut out = Vec::new();
    for ([v4, v6], how) in [
        (whole, ""),
        (first, " (not later fragments)"),
        // In IPv6, the first fragment also has its transport header after the fragment header.
        (later, " (fragments only)"),
    ] {
        let families =
            if v4 == v6 && v4.len() <= MAX_SAID { vec![("", v4)] } else { vec![("IPv4", v4), ("IPv6", v6)] };
        out.extend(families.iter().filter_map(|(family, of)| Some(protocols(family, of)? + how)));
    }
    out.extend(
        [("ARP", ARP), ("RARP", RARP)]
            .iter()
            .filter(|(_, k)| kinds.contains(*k))
            .map(|(n, _)| (*n).to_owned()),
    );
    let others = (OTHER..).take(super::kind::KINDS - usize::from(OTHER)).filter(|kind| kinds.contains(*kind));
    match others.count() {
        0 => {}
        1 if !kinds.contains(OTHER) => out.push("one other EtherType".to_owned()),
        n if n == super::kind::KINDS - usize::from(OTHER) => out.push("other EtherTypes".to_owned()),
        _ => out.push("some other EtherTypes".to_owned()),
    }
    out
}

/// The text for protocols of an IP version; `None` for none.
fn protocols(family: &str, numbers: &[u8]) -> Option<String> {
    let names = |numbers: &[u8]| {
        let names: Vec<String> = numbers.iter().map(|number| protocol_name(*number)).collect();
        list(&names, ", ")
    };
    match numbers.len() {
        0 => None,
        256 => Some(family.to_owned()),
        129.. => {
            let missing: Vec<u8> = (0..=u8::MAX).filter(|number| !numbers.contains(number)).collect();
            Some(format!("{family} but not {}", names(&missing)))
        }
        _ => Some(format!("{family} {}", names(numbers)).trim_start().to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::Filter;

    fn explained(expressions: &[&str]) -> Explanation {
        Set::compile(expressions, &Options::default()).unwrap().explain(0).unwrap()
    }

    #[test]
    fn expressions_that_the_key_decides() {
        for (expression, terms) in [
            ("", &["every packet"][..]),
            ("tcp port 80", &["tcp (not later fragments); port 80"]),
            ("port 53", &["tcp, udp, sctp (not later fragments); port 53"]),
            ("tcp", &["tcp"]),
            ("not tcp", &["not tcp"]),
            ("ip and not tcp", &["IPv4 but not tcp"]),
            ("src net 10.0.0.0/8", &["src net 10.0.0.0/8"]),
            ("host 10.1.2.3 or arp", &["host 10.1.2.3", "ARP"]),
            ("net 10.0.0.0/24 or net 10.0.1.0/25", &["net 10.0.0.0 to 10.0.1.127"]),
            ("not net fe80::/10", &["src not net fe80::/10; dst not net fe80::/10"]),
            ("ip6 host fe80::1", &["IPv6; host fe80::1"]),
            ("vlan 5", &["vlan 5"]),
            ("not vlan", &["not vlan"]),
            ("vlan 5 or vlan 6 or vlan 9", &["vlan 5-6 or 9"]),
            ("not vlan 5 and tcp", &["tcp; not vlan 5"]),
            ("tcp or (vlan and udp)", &["tcp", "udp; vlan"]),
            ("udp dst portrange 100-200", &["udp (not later fragments); dst port 100-200"]),
        ] {
            let found = explained(&[expression]);
            assert_eq!(found.decided, Decided::Flow, "{expression}");
            assert_eq!(found.terms, terms, "{expression}");
            assert!(found.comparisons.iter().all(|c| !c.changes && c.others == 0), "{expression}");
            assert!(found.instructions.is_some_and(|n| n > 0), "{expression}");
        }
        assert!(explained(&["not port 80"]).wary && !explained(&["port 80"]).wary);
    }

    #[test]
    fn expressions_that_bytes_of_each_packet_decide() {
        for (expression, changing) in [
            ("tcp port 80 and tcp[13] & 2 != 0", &["tcp[13] & 0x2 != 0"][..]),
            ("less 100", &["len > 100"]),
            ("icmp[0] = 8 and greater 1000", &["icmp[0] = 8", "len >= 1000"]),
            ("ip[8] < 5", &["ip[8] >= 5"]),
            ("ether broadcast", &["ether[0:4] = 0xffffffff", "ether[4:2] = 0xffff"]),
            ("icmp6[0] = 135", &["icmp6[0] = 0x87"]),
            ("ip and (ip[2:2] - 40) > 100", &["(ip[2:2] - 40) > 100"]),
        ] {
            let found = explained(&[expression]);
            assert_eq!(found.decided, Decided::Packet, "{expression}");
            let changes: Vec<&str> =
                found.comparisons.iter().filter(|c| c.changes).map(|c| c.text.as_str()).collect();
            assert_eq!(changes, changing, "{expression}");
        }
        let found = explained(&["tcp port 80 and tcp[13] & 2 != 0"]);
        assert_eq!(found.terms, ["IPv4 tcp (not later fragments); port 80; tcp[13] & 0x2 != 0"]);
        assert!(!found.ethernet_only && explained(&["ether multicast"]).ethernet_only);
        let program = |expression| explained(&[expression]).comparisons.iter().any(|c| c.has_program);
        assert!(program("llc") && !program("less 100") && !program("vlan 5 and less 100"));
    }

    #[test]
    fn programs_have_a_reason() {
        let many: Vec<String> = (0..80).map(|n| format!("(src host 10.0.0.{n} and dst port {n})")).collect();
        for (expression, words) in [
            ("vlan 5 and vlan 6", "vlan"),
            ("ip protochain 6", "protochain"),
            ("mpls 7 and tcp", "mpls"),
            ("gateway 1.2.3.4", "gateway"),
            (many.join(" or ").as_str(), "64 terms"),
        ] {
            // gateway needs a resolver.
            let Ok(set) = Set::compile(&[expression], &Options::default()) else { continue };
            let found = set.explain(0).unwrap();
            let Decided::Program { reason } = &found.decided else { panic!("{expression}: {found:?}") };
            assert!(reason.contains(words), "{expression}: {reason}");
            assert!(found.terms.is_empty() && found.comparisons.is_empty());
        }
        let strict = Options { strict_bpf: true, ..Options::default() };
        let found = Set::compile(&["vlan 5"], &strict).unwrap().explain(0).unwrap();
        assert!(matches!(found.decided, Decided::Program { .. }));
        assert_eq!(Set::compile(&["tcp"], &strict).unwrap().explain(1), None);
    }

    /// Comparisons of bytes beyond the maximum.
    #[test]
    fn a_comparison_beyond_the_maximum() {
        let expressions: Vec<String> = (0..=MAX_ATOMS).map(|n| format!("greater {n}")).collect();
        let set = Set::compile(&expressions, &Options::default()).unwrap();
        assert_eq!(set.explain(MAX_ATOMS - 1).unwrap().decided, Decided::Packet);
        assert!(matches!(set.explain(MAX_ATOMS).unwrap().decided, Decided::Program { .. }));
    }

    #[test]
    fn shared_comparisons_are_counted() {
        let found = explained(&[
            "tcp port 80 and tcp[13] & 2 != 0",
            "tcp port 80",
            "udp port 80",
            "tcp[13] & 2 != 0",
            "tcp[13] & 2 = 0",
            "vlan 5 and vlan 6",
            "port 443",
        ]);
        let others: Vec<(&str, usize)> =
            found.comparisons.iter().map(|c| (c.text.as_str(), c.others)).collect();
        assert_eq!(
            others,
            [("IPv4 tcp (not later fragments)", 2), ("port 80", 2), ("tcp[13] & 0x2 != 0", 1)]
        );
    }

    /// `check` and a full compilation give equal results.
    #[test]
    fn check_agrees_with_compilation() {
        for expression in [
            "",
            " ",
            "tcp",
            "tcp prot 80",
            "port 99999",
            "tcp and udp",
            "ip and ip6",
            "vlan 5 and vlan 6",
            "host",
            "(",
            "less 100 and greater 200",
            "tcp[13] & 2 != 0 and tcp[14] = 7",
            "net 10.0.0.1/8",
            "ether host 1.2.3.4",
            "host nowhere.example",
            "ip6 net fe80::/10",
            "ip proto 300",
            "1 = 2",
            "len > 4294967295",
            "geneve",
            "not tcp",
            "port 80 and not port 80",
            "type mgt",
            "inbound",
            "ip6 protochain 6",
            "arp and port 80",
        ] {
            for strict_bpf in [false, true] {
                let options = Options { strict_bpf, ..Options::default() };
                let compiled = Filter::compile(expression, &options).map(drop);
                assert_eq!(check(expression, &options), compiled, "{expression} {strict_bpf}");
            }
        }
    }
}
