//! From an expression to parts that expressions share: a union of terms. Each term has kinds of packets, addresses,
//! ports, and tests of further bytes.
//!
//! The verdict composed of these parts is libpcap's for every packet whose tested bytes are all captured. A load
//! beyond the captured bytes rejects a packet whatever else holds, so that the expression's own program decides such a
//! packet. [`Lowered::wary`] marks the expressions whose terms cannot even prove that such a packet does *not* match.

use super::kind::{ARP, Kinds, RARP, ip, ip6, other};
use super::ranges::{Addresses, Ranges};
use super::simd::prefetch;
use crate::ast::{Arithmetic, Connective, Expr, Id, IdKind, Primitive, Qualifiers, Relation, Side, Test};
use crate::bpf::op;
use crate::meaning;
use crate::names::{IP_PROTOCOLS, LINK_PROTOCOLS, Protocol, ethertype, ip_protocol, lookup};
use std::net::IpAddr;
use weir_wire::Tag;

/// Maximum number of terms of an expression; beyond it, its program decides.
const MAX_TERMS: usize = 64;

/// Maximum number of addresses or ports that one term may require on either side.
const MAX_EITHER: usize = 4;

/// Packets for which all of these tests hold.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Term {
    pub kinds: Kinds,
    /// Required source and destination; `None` for any.
    pub src: Option<Addresses>,
    pub dst: Option<Addresses>,
    /// The source or the destination must be in each of these.
    pub either: Vec<Addresses>,
    pub sport: Option<Ranges<u16>>,
    pub dport: Option<Ranges<u16>>,
    pub either_port: Vec<Ranges<u16>>,
    /// Accepted VLAN tags, as numbers of [`Tag`].
    pub tags: Option<Ranges<u16>>,
    /// Atoms of the expression that must hold, and atoms that must not.
    pub atoms: Vec<(usize, bool)>,
}

impl Term {
    /// Prefetches the terms after this one: first the terms, then the data that they refer to.
    pub fn expect<'t>(number: usize, term: impl Fn(usize) -> Option<&'t Self>) {
        if let Some(term) = term(number + 9) {
            prefetch(std::slice::from_ref(&term.kinds), 0);
            prefetch(std::slice::from_ref(&term.src), 0);
            prefetch(std::slice::from_ref(&term.dst), 0);
            prefetch(std::slice::from_ref(&term.either), 0);
            prefetch(std::slice::from_ref(&term.sport), 0);
            prefetch(std::slice::from_ref(&term.either_port), 0);
            prefetch(std::slice::from_ref(&term.atoms), 0);
        }
        if let Some(term) = term(number + 6) {
            prefetch(&term.either, 0);
            prefetch(&term.either_port, 0);
        }
        if let Some(term) = term(number + 3) {
            term.either.iter().for_each(|set| prefetch(set.v4.as_slice(), 0));
            term.either_port.iter().for_each(|set| prefetch(set.as_slice(), 0));
        }
    }
}

/// A test of bytes or of the length, which can change from packet to packet of a flow.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Atom {
    /// A comparison of a number at a fixed offset of a header, in packets of some kinds.
    Field {
        kinds: Kinds,
        base: Base,
        offset: u32,
        /// 1, 2 or 4 bytes.
        size: u8,
        mask: u32,
        comparison: Comparison,
        value: u32,
    },
    /// A comparison of the bytes on the wire.
    Length { comparison: Comparison, value: u32 },
    /// Anything else: decided by a small program.
    Program(Test),
}

/// The start of a field's header.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) enum Base {
    Link,
    Network,
    /// After an IPv4 header with its options.
    Transport,
}

/// An unsigned comparison.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) enum Comparison {
    Equal,
    Greater,
    AtLeast,
}

/// An expression in parts.
#[derive(Clone, Debug, Default)]
pub(super) struct Lowered {
    pub terms: Vec<Term>,
    pub atoms: Vec<Atom>,
    /// Whether a term can fail although its opposite would need a load beyond the packet, because a `not` precedes a
    /// port or an atom.
    pub wary: bool,
    /// Whether it contains a word that link types other than Ethernet do not have.
    pub ethernet_only: bool,
}

impl Lowered {
    /// Whether a part of it is left to a program.
    pub fn has_programs(&self) -> bool {
        self.atoms.iter().any(|atom| matches!(atom, Atom::Program(_)))
    }
}

impl Atom {
    /// A key that is equal for equal atoms only.
    pub fn name(&self) -> String {
        match self {
            Atom::Program(test) => format!("{:?}", test.primitive),
            other => format!("{other:?}"),
        }
    }
}

impl Term {
    fn of(kinds: Kinds) -> Self {
        Self {
            kinds,
            src: None,
            dst: None,
            either: Vec::new(),
            sport: None,
            dport: None,
            either_port: Vec::new(),
            tags: None,
            atoms: Vec::new(),
        }
    }

    fn all() -> Self {
        Self::of(Kinds::all())
    }

    /// Whether the term is obviously empty.
    fn is_empty(&self) -> bool {
        let no_address = |set: &Addresses| set.is_empty();
        self.kinds.is_empty()
            || self.src.as_ref().is_some_and(no_address)
            || self.dst.as_ref().is_some_and(no_address)
            || self.either.iter().any(no_address)
            || self.sport.as_ref().is_some_and(Ranges::is_empty)
            || self.dport.as_ref().is_some_and(Ranges::is_empty)
            || self.either_port.iter().any(Ranges::is_empty)
            || self.tags.as_ref().is_some_and(Ranges::is_empty)
            || self.atoms.windows(2).any(|pair| pair[0].0 == pair[1].0 && pair[0].1 != pair[1].1)
    }

    /// The intersection of two terms; `None` if the term would be too long.
    fn and(&self, other: &Self) -> Option<Self> {
        let mut both = Self {
            kinds: self.kinds.intersection(&other.kinds),
            src: meet(&self.src, &other.src, Addresses::intersection),
            dst: meet(&self.dst, &other.dst, Addresses::intersection),
            either: self.either.clone(),
            sport: meet(&self.sport, &other.sport, Ranges::intersection),
            dport: meet(&self.dport, &other.dport, Ranges::intersection),
            either_port: self.either_port.clone(),
            tags: meet(&self.tags, &other.tags, Ranges::intersection),
            atoms: self.atoms.clone(),
        };
        both.either.extend(other.either.iter().filter(|set| !self.either.contains(set)).cloned());
        both.either_port
            .extend(other.either_port.iter().filter(|set| !self.either_port.contains(set)).cloned());
        both.atoms.extend(&other.atoms);
        both.atoms.sort_unstable();
        both.atoms.dedup();
        (both.either.len() <= MAX_EITHER && both.either_port.len() <= MAX_EITHER).then_some(both)
    }

    /// Merges another term if the two differ in only one part.
    fn unite(&mut self, other: &Self) -> bool {
        if self.atoms != other.atoms {
            return false;
        }
        let same = [
            self.kinds == other.kinds,
            self.src == other.src,
            self.dst == other.dst,
            self.either == other.either,
            self.sport == other.sport,
            self.dport == other.dport,
            self.either_port == other.either_port,
            self.tags == other.tags,
        ];
        match same {
            [true, true, true, true, true, true, true, true] => true,
            [false, true, true, true, true, true, true, true] => {
                self.kinds = self.kinds.union(&other.kinds);
                true
            }
            [true, false, true, true, true, true, true, true] => {
                self.src = join(&self.src, &other.src, Addresses::union);
                true
            }
            [true, true, false, true, true, true, true, true] => {
                self.dst = join(&self.dst, &other.dst, Addresses::union);
                true
            }
            [true, true, true, false, true, true, true, true] => {
                unite_one(&mut self.either, &other.either, Addresses::union)
            }
            [true, true, true, true, false, true, true, true] => {
                self.sport = join(&self.sport, &other.sport, Ranges::union);
                true
            }
            [true, true, true, true, true, false, true, true] => {
                self.dport = join(&self.dport, &other.dport, Ranges::union);
                true
            }
            [true, true, true, true, true, true, false, true] => {
                unite_one(&mut self.either_port, &other.either_port, Ranges::union)
            }
            [true, true, true, true, true, true, true, false] => {
                self.tags = join(&self.tags, &other.tags, Ranges::union);
                true
            }
            _ => false,
        }
    }

    /// The complement, as disjoint terms: packets that fail the first part, then packets that pass it and fail the
    /// second, and so on.
    fn not(&self) -> Vec<Self> {
        let mut out = Vec::new();
        let mut held = Self::all();
        out.push(Self { kinds: self.kinds.complement(), ..held.clone() });
        held.kinds = self.kinds;
        if let Some(set) = &self.src {
            out.push(Self { src: Some(set.complement()), ..held.clone() });
            held.src = Some(set.clone());
        }
        if let Some(set) = &self.dst {
            out.push(Self { dst: Some(set.complement()), ..held.clone() });
            held.dst = Some(set.clone());
        }
        for set in &self.either {
            let none = Some(set.complement());
            out.push(Self {
                src: meet(&held.src, &none, Addresses::intersection),
                dst: meet(&held.dst, &none, Addresses::intersection),
                ..held.clone()
            });
            held.either.push(set.clone());
        }
        if let Some(set) = &self.sport {
            out.push(Self { sport: Some(set.complement()), ..held.clone() });
            held.sport = Some(set.clone());
        }
        if let Some(set) = &self.dport {
            out.push(Self { dport: Some(set.complement()), ..held.clone() });
            held.dport = Some(set.clone());
        }
        for set in &self.either_port {
            let none = Some(set.complement());
            out.push(Self {
                sport: meet(&held.sport, &none, Ranges::intersection),
                dport: meet(&held.dport, &none, Ranges::intersection),
                ..held.clone()
            });
            held.either_port.push(set.clone());
        }
        if let Some(set) = &self.tags {
            out.push(Self { tags: Some(set.complement()), ..held.clone() });
            held.tags = Some(set.clone());
        }
        for (atom, holds) in &self.atoms {
            out.push(Self {
                atoms: held.atoms.iter().copied().chain([(*atom, !holds)]).collect(),
                ..held.clone()
            });
            held.atoms.push((*atom, *holds));
        }
        out.retain(|term| !term.is_empty());
        out
    }
}

fn meet<T: Clone>(a: &Option<T>, b: &Option<T>, both: impl Fn(&T, &T) -> T) -> Option<T> {
    match (a, b) {
        (Some(a), Some(b)) => Some(both(a, b)),
        (a, b) => a.as_ref().or(b.as_ref()).cloned(),
    }
}

fn join<T>(a: &Option<T>, b: &Option<T>, any: impl Fn(&T, &T) -> T) -> Option<T> {
    Some(any(a.as_ref()?, b.as_ref()?))
}

fn unite_one<T>(mine: &mut [T], other: &[T], any: impl Fn(&T, &T) -> T) -> bool {
    match (mine, other) {
        ([mine], [other]) => {
            *mine = any(mine, other);
            true
        }
        _ => false,
    }
}

/// The reason why an expression is left to its program.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Unshared(pub &'static str);

const TOO_MANY: &str = "it has more than 64 terms";
const TOO_LONG: &str = "a term tests more than 4 addresses or ports of either side";
const ZERO_TWICE: &str =
    "it tests the same bits for 0 twice, and libpcap's optimiser may merge such tests into another verdict";
const ALL_ONES: &str =
    "libpcap's optimiser assumes that `& 0xffffffff` leaves a bit set, whatever the value is";
const VANISHES: &str = "libpcap's optimiser drops the loads of a calculation whose result is a constant, and with them their bounds checks";
const TWO_SIDES: &str = "it compares two numbers of the packet, after which libpcap's optimiser may lose the length of the IP header";
const FORM: &str = "it has an address, protocol or port that only a program can test";
const MAC: &str = "it has a link-layer address with a qualifier that only a program can test";
const MASK: &str = "it has a netmask that is no prefix, or an address with bits outside its mask";
const CHAIN: &str = "protochain follows any number of headers";
const GATEWAY: &str = "gateway tests for a link-layer address and for the absence of an IP address";

type Terms = Result<Vec<Term>, Unshared>;

/// Splits an expression into terms. `look_through` is true without [`crate::Options::strict_bpf`].
pub(super) fn lower(expr: Option<&Expr>, look_through: bool) -> Result<Lowered, Unshared> {
    let Some(expr) = expr else {
        return Ok(Lowered { terms: vec![Term::all()], ..Lowered::default() });
    };
    let mut lowering = Lowering { look_through, ..Lowering::default() };
    let mut terms = lowering.expr(expr)?;
    if lowering.asks_tags {
        // On link types without tags it matches nothing, whatever else holds.
        let somewhere = Term { tags: Some(Ranges::one(0, Tag::TAGGED.1)), ..Term::all() };
        terms = and(&terms, &[somewhere])?;
    }
    let wary = lowering.wary || lowering.can_lose_a_load();
    let Lowering { atoms, ethernet_only, .. } = lowering;
    Ok(Lowered { terms, atoms, wary, ethernet_only })
}

#[derive(Default)]
struct Lowering {
    look_through: bool,
    atoms: Vec<Atom>,
    wary: bool,
    ethernet_only: bool,
    /// Number of tests so far for which a packet can be too short.
    fragile: usize,
    /// Whether the expression has a `vlan`.
    asks_tags: bool,
    /// Number of tags that were tested so far. The next `vlan` tests the tag inside them.
    depth: usize,
    /// Tests so far that bits under a mask are all 0.
    zeros: Vec<Zero>,
    /// Whether the expression has ports.
    has_ports: bool,
}

/// A test that some bits of a field are all 0. If an expression has two equal tests of this kind, libpcap's optimiser
/// can merge them wrongly (`not src and dst net 0.0.0.0/2 and not net 0.0.0.0/2` accepts packets from that net). The
/// verdict is then left to the program.
#[derive(Clone, Copy, Eq, PartialEq)]
enum Zero {
    /// An address of the source (`true`) or the destination: the word, and the mask.
    Address {
        v6: bool,
        source: bool,
        word: u8,
        mask: u32,
    },
    Field {
        base: Base,
        offset: u32,
        size: u8,
        mask: u32,
    },
}

impl Lowering {
    fn expr(&mut self, expr: &Expr) -> Terms {
        match expr {
            Expr::Test(test) => self.test(test),
            Expr::Not(inner) => {
                let (before, depth) = (self.fragile, self.depth);
                let terms = self.expr(inner)?;
                self.wary |= self.fragile > before;
                // A header tested under `not` may be absent.
                self.depth = depth;
                terms.iter().try_fold(vec![Term::all()], |all, term| and(&all, &term.not()))
            }
            Expr::Chain(first, rest) => {
                let start = self.depth;
                let mut terms = self.expr(first)?;
                for (connective, operand) in rest {
                    let before = self.depth;
                    if *connective == Connective::Or {
                        self.depth = start;
                    }
                    let next = self.expr(operand)?;
                    terms = match connective {
                        Connective::And => and(&terms, &next)?,
                        Connective::Or => {
                            self.depth = before.max(self.depth);
                            or(terms, next)?
                        }
                    };
                }
                Ok(terms)
            }
        }
    }

    fn test(&mut self, test: &Test) -> Terms {
        match &test.primitive {
            Primitive::Protocol(protocol) => match kinds_of(*protocol) {
                Some(kinds) => Ok(vec![Term::of(kinds)]),
                None => Ok(self.program(test)),
            },
            Primitive::Id(qualifiers, id) => self.id(*qualifiers, id, test),
            Primitive::Relation(relation) => self.relation(relation, test),
            Primitive::Less(n) => {
                // At most n means not more than n.
                let atom = self.atom(Atom::Length { comparison: Comparison::Greater, value: *n });
                Ok(vec![Term { atoms: vec![(atom, false)], ..Term::all() }])
            }
            Primitive::Greater(n) => {
                let atom = self.atom(Atom::Length { comparison: Comparison::AtLeast, value: *n });
                Ok(vec![Term { atoms: vec![(atom, true)], ..Term::all() }])
            }
            Primitive::Multicast(Some(Protocol::Ip)) => {
                let groups = Addresses::v4(0xe000_0000, u32::MAX);
                Ok(vec![Term { dst: Some(groups), ..Term::of(Kinds::ip()) }])
            }
            Primitive::Multicast(Some(Protocol::Ip6)) => {
                let groups = Addresses::v6(0xff << 120, u128::MAX);
                Ok(vec![Term { dst: Some(groups), ..Term::of(Kinds::ip6()) }])
            }
            Primitive::Multicast(None | Some(Protocol::Link)) => {
                self.ethernet_only = true;
                let group = self.link_field(0, 1, 1, 1);
                Ok(vec![Term { atoms: vec![(group, true)], ..Term::all() }])
            }
            Primitive::Broadcast(None | Some(Protocol::Link)) => {
                self.ethernet_only = true;
                Ok(self.mac(0, [0xff; 6]))
            }
            Primitive::Vlan(id) if self.look_through && self.depth == 0 => {
                self.asks_tags = true;
                self.depth += 1;
                let (low, high) = match id.map(u16::try_from) {
                    None => Tag::TAGGED,
                    Some(Ok(id)) if id < Tag::TAGGED.1 => {
                        let tag = Tag::vlan(id).number();
                        (tag, tag)
                    }
                    Some(_) => return Err(Unshared(FORM)),
                };
                Ok(vec![Term { tags: Some(Ranges::one(low, high)), ..Term::all() }])
            }
            Primitive::Inbound | Primitive::Outbound | Primitive::Interface(_) | Primitive::Llc(_) => {
                self.ethernet_only = true;
                Ok(self.program(test))
            }
            other => Err(Unshared(why_not(other))),
        }
    }

    /// Whether libpcap's optimiser may remove a load because another test of the same value decides (`ether[60] = 0 or
    /// ether[60] != 0`). The expression can then match a packet that is too short for the load, although none of its
    /// atoms can be evaluated.
    fn can_lose_a_load(&self) -> bool {
        let same_place = |a: &Atom, b: &Atom| match (a, b) {
            (
                Atom::Field { base: a, offset: from, size: width, .. },
                Atom::Field { base: b, offset: to, size: other, .. },
            ) => {
                // A link-layer offset may be the offset of a field in a network header.
                let by_link = a != b && *a != Base::Transport && *b != Base::Transport;
                width == other && (by_link || (a == b && from == to))
            }
            _ => false,
        };
        let is_port =
            |atom: &Atom| matches!(atom, Atom::Field { base: Base::Transport, offset: 0 | 2, size: 2, .. });
        let has_program = self.atoms.iter().any(|atom| matches!(atom, Atom::Program(_)));
        let twice =
            |(at, atom): (usize, &Atom)| self.atoms.iter().skip(at + 1).any(|other| same_place(atom, other));
        has_program && self.fragile > 1
            || self.has_ports && self.atoms.iter().any(is_port)
            || self.atoms.iter().enumerate().any(twice)
    }

    /// Notes a test; an error if an equal test was noted before.
    fn zero(&mut self, zero: Zero) -> Result<(), Unshared> {
        if self.zeros.contains(&zero) {
            return Err(Unshared(ZERO_TWICE));
        }
        self.zeros.push(zero);
        Ok(())
    }

    /// Notes the tests of a network's words that are compared with 0 under a mask.
    fn zero_words(&mut self, side: Side, v6: bool, words: &[(u32, u32)]) -> Result<(), Unshared> {
        for (word, (value, mask)) in words.iter().enumerate() {
            if *value == 0 && *mask != u32::MAX {
                for source in [true, false] {
                    if side != if source { Side::Dst } else { Side::Src } {
                        self.zero(Zero::Address { v6, source, word: word as u8, mask: *mask })?;
                    }
                }
            }
        }
        Ok(())
    }

    fn atom(&mut self, atom: Atom) -> usize {
        self.fragile += usize::from(!matches!(atom, Atom::Length { .. }));
        match self.atoms.iter().position(|known| *known == atom) {
            Some(at) => at,
            None => {
                self.atoms.push(atom);
                self.atoms.len() - 1
            }
        }
    }

    fn program(&mut self, test: &Test) -> Vec<Term> {
        let atom = self.atom(Atom::Program(test.clone()));
        vec![Term { atoms: vec![(atom, true)], ..Term::all() }]
    }

    /// A test that a number in the frame has this value under a mask.
    fn link_field(&mut self, offset: u32, size: u8, mask: u32, value: u32) -> usize {
        let (kinds, base, comparison) = (Kinds::all(), Base::Link, Comparison::Equal);
        self.atom(Atom::Field { kinds, base, offset, size, mask, comparison, value })
    }

    /// A test for a MAC address at an offset.
    fn mac(&mut self, offset: u32, mac: [u8; 6]) -> Vec<Term> {
        let [a, b, c, d, e, f] = mac;
        let high = self.link_field(offset, 4, u32::MAX, u32::from_be_bytes([a, b, c, d]));
        let low = self.link_field(offset + 4, 2, u32::MAX, u32::from(u16::from_be_bytes([e, f])));
        let mut atoms = vec![(high, true), (low, true)];
        atoms.sort_unstable();
        vec![Term { atoms, ..Term::all() }]
    }

    fn id(&mut self, q: Qualifiers, id: &Id, test: &Test) -> Terms {
        match q.kind {
            IdKind::Port | IdKind::PortRange => self.ports(q, id),
            IdKind::Proto => {
                let number = match id {
                    Id::Number(v) => *v,
                    Id::Name(name, _) => {
                        let table = match q.protocol {
                            None | Some(Protocol::Ip | Protocol::Ip6) => IP_PROTOCOLS,
                            Some(Protocol::Link) => LINK_PROTOCOLS,
                            _ => return Err(Unshared(FORM)),
                        };
                        lookup(table, name).ok_or(Unshared(FORM))?
                    }
                    _ => return Err(Unshared(FORM)),
                };
                self.protocol_number(q, number, test)
            }
            IdKind::Default | IdKind::Host | IdKind::Net => match (q.protocol, id) {
                (Some(Protocol::Link), Id::Mac(mac)) => self.link_host(q, *mac),
                (Some(Protocol::Link), _) => Err(Unshared(MAC)),
                (_, Id::Mac(_)) => Err(Unshared(MAC)),
                _ => self.addresses(q, id),
            },
            IdKind::ProtoChain => Err(Unshared(CHAIN)),
            IdKind::Gateway => Err(Unshared(GATEWAY)),
        }
    }

    fn link_host(&mut self, q: Qualifiers, mac: [u8; 6]) -> Terms {
        if q.kind == IdKind::Net {
            return Err(Unshared(MAC));
        }
        self.ethernet_only = true;
        let (src, dst) = (self.mac(6, mac), self.mac(0, mac));
        match q.direction {
            Side::Src => Ok(src),
            Side::Dst => Ok(dst),
            Side::Default | Side::SrcOrDst => or(src, dst),
            Side::SrcAndDst => and(&src, &dst),
            _ => Err(Unshared(MAC)),
        }
    }

    fn protocol_number(&mut self, q: Qualifiers, number: u32, test: &Test) -> Terms {
        if q.protocol == Some(Protocol::Link) {
            let kinds = match u16::try_from(number) {
                Ok(ethertype::IP) => Kinds::ip(),
                Ok(ethertype::IPV6) => Kinds::ip6(),
                Ok(ethertype::ARP) => Kinds::of([ARP]),
                Ok(ethertype::RARP) => Kinds::of([RARP]),
                Ok(listed) if other(listed) != super::kind::OTHER => Kinds::of([other(listed)]),
                Ok(_) => return Ok(self.program(test)),
                Err(_) => return Err(Unshared(FORM)),
            };
            return Ok(vec![Term::of(kinds)]);
        }
        let number = u8::try_from(number).map_err(|_| Unshared(FORM))?;
        let kinds = match q.protocol {
            None => Kinds::ip_protocol(number).union(&Kinds::ip6_protocol(number)),
            Some(Protocol::Ip) => Kinds::ip_protocol(number),
            Some(Protocol::Ip6) => Kinds::ip6_protocol(number),
            _ => return Err(Unshared(FORM)),
        };
        Ok(vec![Term::of(kinds)])
    }

    fn addresses(&mut self, q: Qualifiers, id: &Id) -> Terms {
        let is_net = q.kind == IdKind::Net;
        let mut set = Addresses::default();
        let v4 = matches!(q.protocol, None | Some(Protocol::Ip | Protocol::Arp | Protocol::Rarp));
        let v6 = matches!(q.protocol, None | Some(Protocol::Ip6));
        match id {
            Id::Number(_) | Id::Dotted(_) | Id::Prefix(..) | Id::Masked(..) if v4 => {
                let (address, mask) = meaning::v4(id, is_net).ok_or(Unshared(FORM))?;
                set = masked(address, mask)?;
                self.zero_words(q.direction, false, &[(address, mask)])?;
            }
            Id::V6(..) if v6 => {
                let (low, mask) = meaning::v6(id).ok_or(Unshared(FORM))?;
                if low & !mask != 0 || (!is_net && mask != u128::MAX) {
                    return Err(Unshared(FORM));
                }
                set = Addresses::v6(low, low | !mask);
                let word = |number: u128, at: u32| (number >> (96 - 32 * at)) as u32;
                self.zero_words(q.direction, true, &[0, 1, 2, 3].map(|at| (word(low, at), word(mask, at))))?;
            }
            Id::Name(_, resolved) if !is_net && (v4 || v6) => {
                for address in &resolved.addresses {
                    let one = match address {
                        IpAddr::V4(a) if v4 => Addresses::v4(u32::from(*a), u32::from(*a)),
                        IpAddr::V6(a) if v6 => Addresses::v6(u128::from(*a), u128::from(*a)),
                        _ => continue,
                    };
                    set = set.union(&one);
                }
                if set.is_empty() {
                    return Err(Unshared(FORM));
                }
            }
            _ => return Err(Unshared(FORM)),
        }
        let kinds = match q.protocol {
            None => Kinds::all(),
            Some(Protocol::Ip) => Kinds::ip(),
            Some(Protocol::Ip6) => Kinds::ip6(),
            Some(Protocol::Arp) => Kinds::of([ARP]),
            Some(Protocol::Rarp) => Kinds::of([RARP]),
            Some(_) => return Err(Unshared(FORM)),
        };
        let term = Term::of(kinds);
        Ok(vec![match q.direction {
            Side::Src => Term { src: Some(set), ..term },
            Side::Dst => Term { dst: Some(set), ..term },
            Side::SrcAndDst => Term { src: Some(set.clone()), dst: Some(set), ..term },
            Side::Default | Side::SrcOrDst => Term { either: vec![set], ..term },
            _ => return Err(Unshared(FORM)),
        }])
    }

    fn ports(&mut self, q: Qualifiers, id: &Id) -> Terms {
        let wanted = match q.protocol {
            None => None,
            Some(Protocol::Tcp) => Some(ip_protocol::TCP),
            Some(Protocol::Udp) => Some(ip_protocol::UDP),
            Some(Protocol::Sctp) => Some(ip_protocol::SCTP),
            Some(_) => return Err(Unshared(FORM)),
        };
        // Ranges of names are left to the program.
        let names_a_range = |name: &str| name.bytes().any(|byte| !byte.is_ascii_digit() && byte != b'-');
        if q.kind == IdKind::PortRange && matches!(id, Id::Name(name, _) if names_a_range(name)) {
            return Err(Unshared(FORM));
        }
        let meaning::Ports { low, high, protocol: of } = meaning::ports(q.kind, id).ok_or(Unshared(FORM))?;
        if wanted.is_some() && of.is_some() && wanted != of {
            return Err(Unshared(FORM));
        }
        let protocols: Vec<u8> = match wanted.or(of) {
            Some(protocol) => vec![protocol as u8],
            None => vec![ip_protocol::TCP as u8, ip_protocol::UDP as u8, ip_protocol::SCTP as u8],
        };
        self.fragile += 1;
        self.has_ports = true;
        let set = Ranges::one(low, high);
        let term = Term::of(Kinds::with_ports(&protocols));
        Ok(vec![match q.direction {
            Side::Src => Term { sport: Some(set), ..term },
            Side::Dst => Term { dport: Some(set), ..term },
            Side::SrcAndDst => Term { sport: Some(set.clone()), dport: Some(set), ..term },
            Side::Default | Side::SrcOrDst => Term { either_port: vec![set], ..term },
            _ => return Err(Unshared(FORM)),
        }])
    }

    fn relation(&mut self, relation: &Relation, test: &Test) -> Terms {
        if masks_with_all_ones(&relation.left) || masks_with_all_ones(&relation.right) {
            return Err(Unshared(ALL_ONES));
        }
        if !is_constant(&relation.left) && !is_constant(&relation.right) {
            return Err(Unshared(TWO_SIDES));
        }
        if vanishes(&relation.left) || vanishes(&relation.right) {
            return Err(Unshared(VANISHES));
        }
        let Some(atom) = field(relation) else { return Ok(self.program(test)) };
        let mut of = Kinds::all();
        if let Atom::Field { kinds, base, offset, size, mask, comparison, value } = &atom {
            of = *kinds;
            if *comparison == Comparison::Equal && *value == 0 && *mask != u32::MAX {
                self.zero(Zero::Field { base: *base, offset: *offset, size: *size, mask: *mask })?;
            }
        }
        let (atom, holds) = positive(atom, !relation.reversed);
        let at = self.atom(atom);
        Ok(vec![Term { atoms: vec![(at, holds)], ..Term::of(of) }])
    }
}

/// The reason why a primitive is left to a program.
fn why_not(primitive: &Primitive) -> &'static str {
    match primitive {
        Primitive::Vlan(_) => "vlan moves the offsets of later tests, or tests a tag inside another one",
        Primitive::Mpls(_) => "mpls moves the offsets of later tests",
        Primitive::PppoeSession(_) => "pppoes moves the offsets of later tests",
        Primitive::Geneve(_) => "tests after geneve apply to the carried packet",
        Primitive::Vxlan(_) => "tests after vxlan apply to the carried packet",
        Primitive::Broadcast(_) => "ip broadcast depends on the interface's netmask",
        Primitive::Byte(..) => "byte compares bytes at any offset of the frame",
        Primitive::WlanType { .. } | Primitive::WlanDirection(_) => "it tests fields of IEEE 802.11",
        _ => "it has a word that only a program can test",
    }
}

/// The test with "above 0" in place of "not 0". A packet that passes no atom matches nothing, and the number of such
/// packets determines the cost of a set of `tcp[tcpflags] & tcp-syn != 0`.
fn positive(atom: Atom, holds: bool) -> (Atom, bool) {
    match atom {
        Atom::Field { comparison: Comparison::Equal, value: 0, kinds, base, offset, size, mask }
            if !holds =>
        {
            let comparison = Comparison::Greater;
            (Atom::Field { comparison, value: 0, kinds, base, offset, size, mask }, true)
        }
        atom => (atom, holds),
    }
}

/// Whether a number is masked with a constant that has all bits set.
fn masks_with_all_ones(number: &Arithmetic) -> bool {
    match number {
        Arithmetic::Chain(first, rest, _) => {
            let is_all_ones = |operand: &Arithmetic| !matches!(constant(operand), Some(k) if k != u32::MAX);
            let masks = rest.iter().any(|(operator, _)| *operator == op::AND);
            // The result of an operation on constants may also have all bits set.
            let may_be = std::iter::once(&**first)
                .chain(rest.iter().map(|(_, operand)| operand))
                .any(|operand| is_constant(operand) && is_all_ones(operand));
            masks && may_be
                || masks_with_all_ones(first)
                || rest.iter().any(|(_, operand)| masks_with_all_ones(operand))
        }
        Arithmetic::Negative(inner) => masks_with_all_ones(inner),
        Arithmetic::Load(_, offset, ..) => masks_with_all_ones(offset),
        Arithmetic::Number(_) | Arithmetic::Len => false,
    }
}

/// Whether libpcap's optimiser may replace a calculation on a packet's bytes by a constant: something times 0, masked
/// with 0, or 0 divided or shifted by something (`opt_stmt` in libpcap's optimize.c). It then drops the loads too, which
/// would have rejected a packet that is too short. Whether it does depends on what the expression loads elsewhere.
fn vanishes(number: &Arithmetic) -> bool {
    match number {
        Arithmetic::Chain(first, rest, _) => {
            let may_be_zero =
                |operand: &Arithmetic| is_constant(operand) && matches!(constant(operand), None | Some(0));
            let of_zero =
                |operator: u16| matches!(operator, op::MUL | op::AND | op::DIV | op::MOD | op::LSH | op::RSH);
            let begins_with_constants = rest.first().is_some_and(|(_, second)| is_constant(second));
            let first_may_be_zero = is_constant(first) && (may_be_zero(first) || begins_with_constants);
            let is_calculated = !is_constant(number);
            is_calculated
                && rest.iter().any(|(operator, operand)| {
                    of_zero(*operator) && (first_may_be_zero || may_be_zero(operand))
                })
                || vanishes(first)
                || rest.iter().any(|(_, operand)| vanishes(operand))
        }
        Arithmetic::Negative(inner) => vanishes(inner),
        Arithmetic::Load(_, offset, ..) => vanishes(offset),
        Arithmetic::Number(_) | Arithmetic::Len => false,
    }
}

/// Whether a number is equal for all packets.
fn is_constant(number: &Arithmetic) -> bool {
    match number {
        Arithmetic::Number(_) => true,
        Arithmetic::Negative(inner) => is_constant(inner),
        Arithmetic::Chain(first, rest, _) => is_constant(first) && rest.iter().all(|(_, r)| is_constant(r)),
        Arithmetic::Len | Arithmetic::Load(..) => false,
    }
}

/// The value of a constant operand; `None` for others, and for divisions and shifts that only the machine may
/// evaluate.
fn constant(operand: &Arithmetic) -> Option<u32> {
    match operand {
        Arithmetic::Number(value) => Some(*value),
        Arithmetic::Negative(value) => Some(constant(value)?.wrapping_neg()),
        Arithmetic::Chain(first, rest, _) => {
            rest.iter().try_fold(constant(first)?, |left, (operator, right)| {
                let right = constant(right)?;
                match *operator {
                    op::ADD => Some(left.wrapping_add(right)),
                    op::SUB => Some(left.wrapping_sub(right)),
                    op::MUL => Some(left.wrapping_mul(right)),
                    op::OR => Some(left | right),
                    op::AND => Some(left & right),
                    op::XOR => Some(left ^ right),
                    _ => None,
                }
            })
        }
        Arithmetic::Len | Arithmetic::Load(..) => None,
    }
}

/// A comparison of one field, or of the length, with a constant.
fn field(relation: &Relation) -> Option<Atom> {
    let value = constant(&relation.right)?;
    let comparison = match relation.jump {
        op::JEQ => Comparison::Equal,
        op::JGT => Comparison::Greater,
        op::JGE => Comparison::AtLeast,
        _ => return None,
    };
    let (load, mask) = match &relation.left {
        Arithmetic::Len => return Some(Atom::Length { comparison, value }),
        Arithmetic::Chain(load, rest, _) => match rest.as_slice() {
            // A mask without bits needs no load.
            [(op::AND, mask)] => (&**load, constant(mask).filter(|mask| *mask != 0)?),
            _ => return None,
        },
        load => (load, u32::MAX),
    };
    let Arithmetic::Load(protocol, offset, size, _) = load else { return None };
    let offset = constant(offset)?;
    let size = u8::try_from(*size).ok().filter(|size| matches!(size, 1 | 2 | 4))?;
    // Far beyond any packet, where sums of offsets would wrap; and a comparison that no number passes.
    if offset > 0xffff || (comparison == Comparison::Greater && value == u32::MAX) {
        return None;
    }
    let behind_ip = |protocol: u32| Some((Kinds::of([ip(protocol as u8, false)]), Base::Transport, offset));
    use Protocol as P;
    let (kinds, base, offset) = match protocol {
        P::Link => Some((Kinds::all(), Base::Link, offset)),
        P::Ip => Some((Kinds::ip(), Base::Network, offset)),
        P::Ip6 => Some((Kinds::ip6(), Base::Network, offset)),
        P::Arp => Some((Kinds::of([ARP]), Base::Network, offset)),
        P::Rarp => Some((Kinds::of([RARP]), Base::Network, offset)),
        P::Tcp => behind_ip(ip_protocol::TCP),
        P::Udp => behind_ip(ip_protocol::UDP),
        P::Sctp => behind_ip(ip_protocol::SCTP),
        P::Icmp => behind_ip(ip_protocol::ICMP),
        P::Igmp => behind_ip(ip_protocol::IGMP),
        P::Igrp => behind_ip(ip_protocol::IGRP),
        P::Pim => behind_ip(ip_protocol::PIM),
        P::Vrrp | P::Carp => behind_ip(ip_protocol::VRRP),
        P::Icmp6 => Some((Kinds::of([ip6(ip_protocol::ICMPV6 as u8)]), Base::Network, offset + 40)),
        _ => None,
    }?;
    Some(Atom::Field { kinds, base, offset, size, mask, comparison, value })
}

/// The kinds of packets that a protocol alone matches; `None` if further tests are needed.
fn kinds_of(protocol: Protocol) -> Option<Kinds> {
    use Protocol as P;
    let both = |number: u32| {
        let number = number as u8;
        Kinds::ip_protocol(number).union(&Kinds::ip6_protocol(number))
    };
    let v4 = |number: u32| Kinds::ip_protocol(number as u8);
    Some(match protocol {
        P::Ip => Kinds::ip(),
        P::Ip6 => Kinds::ip6(),
        P::Arp => Kinds::of([ARP]),
        P::Rarp => Kinds::of([RARP]),
        P::Tcp => both(ip_protocol::TCP),
        P::Udp => both(ip_protocol::UDP),
        P::Sctp => both(ip_protocol::SCTP),
        P::Pim => both(ip_protocol::PIM),
        P::Ah => both(ip_protocol::AH),
        P::Esp => both(ip_protocol::ESP),
        P::Icmp => v4(ip_protocol::ICMP),
        P::Igmp => v4(ip_protocol::IGMP),
        P::Igrp => v4(ip_protocol::IGRP),
        P::Vrrp | P::Carp => v4(ip_protocol::VRRP),
        P::Icmp6 => Kinds::ip6_protocol(ip_protocol::ICMPV6 as u8),
        P::Decnet => Kinds::of([other(ethertype::DECNET)]),
        P::Lat => Kinds::of([other(ethertype::LAT)]),
        P::Mopdl => Kinds::of([other(ethertype::MOPDL)]),
        P::Moprc => Kinds::of([other(ethertype::MOPRC)]),
        P::Sca => Kinds::of([other(ethertype::SCA)]),
        _ => return None,
    })
}

fn and(a: &[Term], b: &[Term]) -> Terms {
    let mut out = Vec::new();
    for a in a {
        for b in b {
            let both = a.and(b).ok_or(Unshared(TOO_LONG))?;
            if !both.is_empty() {
                out.push(both);
            }
        }
        if out.len() > MAX_TERMS {
            return Err(Unshared(TOO_MANY));
        }
    }
    Ok(out)
}

fn or(mut a: Vec<Term>, b: Vec<Term>) -> Terms {
    for term in b {
        if !a.iter_mut().any(|known| known.unite(&term)) {
            a.push(term);
        }
    }
    if a.len() > MAX_TERMS { Err(Unshared(TOO_MANY)) } else { Ok(a) }
}

/// A network; an error unless the mask is a prefix and no bit is set outside of it.
fn masked(address: u32, mask: u32) -> Result<Addresses, Unshared> {
    if mask.leading_ones() + mask.trailing_zeros() < 32 || address & !mask != 0 {
        return Err(Unshared(MASK));
    }
    Ok(Addresses::v4(address, address | !mask))
}
