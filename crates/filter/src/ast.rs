//! An expression as a tree, independent of link types and offsets.
//!
//! A planner splits this form to find the parts that many expressions share and the parts that a flow's key decides.

use std::net::IpAddr;
use std::ops::Range;

use crate::fields::FieldTest;
use crate::names::Protocol;

/// A boolean expression.
#[derive(Clone, Debug, PartialEq)]
pub enum Expr {
    /// One or more operands from left to right: `and` and `or` bind equally (pcap-filter(7)), so that
    /// `a or b and c` is `(a or b) and c`.
    Chain(Box<Expr>, Vec<(Connective, Expr)>),
    /// Negation.
    Not(Box<Expr>),
    /// A primitive.
    Test(Test),
}

/// The operator between two operands.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Connective {
    /// Both hold.
    And,
    /// At least one holds.
    Or,
}

/// A primitive, and its position in the expression.
#[derive(Clone, Debug, PartialEq)]
pub struct Test {
    /// The test.
    pub primitive: Primitive,
    /// Byte range of the primitive in the text.
    pub span: Range<usize>,
}

/// The test of a primitive.
#[derive(Clone, Debug, PartialEq)]
pub enum Primitive {
    /// `[protocol] [direction] [kind] id`.
    Id(Qualifiers, Id),
    /// A protocol by itself.
    Protocol(Protocol),
    /// `arithmetic relation arithmetic`.
    Relation(Relation),
    /// `[protocol] broadcast`.
    Broadcast(Option<Protocol>),
    /// `[protocol] multicast`.
    Multicast(Option<Protocol>),
    /// `less n`: the wire length is at most `n` bytes.
    Less(u32),
    /// `greater n`: the wire length is at least `n` bytes.
    Greater(u32),
    /// `byte index operator value`.
    Byte(u32, ByteOperator, u32),
    /// `inbound`.
    Inbound,
    /// `outbound`.
    Outbound,
    /// `ifindex n`.
    Interface(u32),
    /// `vlan [id]`.
    Vlan(Option<u32>),
    /// `mpls [label]`.
    Mpls(Option<u32>),
    /// `pppoed`.
    PppoeDiscovery,
    /// `pppoes [session]`.
    PppoeSession(Option<u32>),
    /// `geneve [vni]`: the tests that follow apply to the carried packet.
    Geneve(Option<u32>),
    /// `vxlan [vni]`: the tests that follow apply to the carried packet.
    Vxlan(Option<u32>),
    /// `llc [type]`.
    Llc(LlcType),
    /// `type t`, `type t subtype s`, `subtype s`: the first byte of IEEE 802.11 frame control under a mask.
    WlanType {
        /// The required value.
        value: u32,
        /// Mask of the compared bits.
        mask: u32,
    },
    /// `dir d`: the direction bits of IEEE 802.11 frame control.
    WlanDirection(u32),
    /// A field of the packet filter's log.
    Pf(Pf),
    /// A word for a link type that Weir does not decode, and the name of that link type.
    Elsewhere(&'static str, &'static str),
    /// A test of a field of flows or records, which no packet has.
    Field(Box<FieldTest>),
}

/// Operators of `byte`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[allow(missing_docs)]
pub enum ByteOperator {
    Equal,
    Less,
    Greater,
    And,
    Or,
}

/// A field of the header of the log of OpenBSD's and FreeBSD's packet filter (pflog(4)), and the required value.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Pf {
    /// `ifname name`: the interface's name begins with this.
    Interface(String),
    /// `ruleset name`: the ruleset's name begins with this.
    Ruleset(String),
    /// `rulenum n`: the number of the rule.
    Rule(u32),
    /// `subrulenum n`: the number of the rule of an anchored ruleset.
    Subrule(u32),
    /// `reason code`: the reason why the packet was logged.
    Reason(u32),
    /// `action act`: the action that was taken.
    Action(u32),
}

impl Pf {
    /// The word for the field in an expression.
    pub fn name(&self) -> &'static str {
        match self {
            Pf::Interface(_) => "ifname",
            Pf::Ruleset(_) => "ruleset",
            Pf::Rule(_) => "rnr",
            Pf::Subrule(_) => "srnr",
            Pf::Reason(_) => "reason",
            Pf::Action(_) => "action",
        }
    }
}

/// Types of LLC frames (IEEE 802.2).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum LlcType {
    /// Any type.
    Any,
    /// Information.
    Information,
    /// Supervisory.
    Supervisory,
    /// Unnumbered.
    Unnumbered,
    /// A supervisory frame with this control byte.
    SupervisoryOf(u32),
    /// An unnumbered frame with this control byte.
    UnnumberedOf(u32),
}

/// The role of an id.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Qualifiers {
    /// The protocol, if one is written.
    pub protocol: Option<Protocol>,
    /// The side of the packet.
    pub direction: Side,
    /// Host, network, port ...
    pub kind: IdKind,
}

/// The side of a packet that is compared.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[allow(missing_docs)]
pub enum Side {
    /// Either side, if none is written.
    #[default]
    Default,
    Src,
    Dst,
    SrcOrDst,
    SrcAndDst,
    Addr1,
    Addr2,
    Addr3,
    Addr4,
    Ra,
    Ta,
}

impl IdKind {
    /// Whether it names a host, with or without the word.
    pub(crate) fn is_host(self) -> bool {
        matches!(self, IdKind::Default | IdKind::Host)
    }
}

impl Side {
    /// The word for a side that exists only in IEEE 802.11.
    pub fn wlan_name(self) -> Option<&'static str> {
        Some(match self {
            Side::Addr1 => "addr1",
            Side::Addr2 => "addr2",
            Side::Addr3 => "addr3",
            Side::Addr4 => "addr4",
            Side::Ra => "ra",
            Side::Ta => "ta",
            _ => return None,
        })
    }
}

/// The kind of object that an id names.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[allow(missing_docs)]
pub enum IdKind {
    /// A host, if no kind is written.
    #[default]
    Default,
    Host,
    Net,
    Port,
    PortRange,
    Proto,
    ProtoChain,
    Gateway,
}

impl IdKind {
    /// The word for the kind.
    pub fn name(self) -> &'static str {
        match self {
            IdKind::Default | IdKind::Host => "host",
            IdKind::Net => "net",
            IdKind::Port => "port",
            IdKind::PortRange => "portrange",
            IdKind::Proto => "proto",
            IdKind::ProtoChain => "protochain",
            IdKind::Gateway => "gateway",
        }
    }
}

/// An id.
#[derive(Clone, Debug, PartialEq)]
pub enum Id {
    /// A number.
    Number(u32),
    /// `1.2.3.4`, or its first bytes (`1.2`).
    Dotted(String),
    /// `1.2.3.0/24`.
    Prefix(String, u32),
    /// `1.2.3.0 mask 255.255.255.0`.
    Masked(String, String),
    /// An IPv6 address, as written, and its prefix length if one is written.
    V6([u8; 16], String, Option<u32>),
    /// A MAC address.
    Mac([u8; 6]),
    /// `$xx`.
    Arcnet(u8),
    /// A name and its resolved values.
    Name(String, Resolved),
}

/// The values of the name, resolved by [`crate::Resolve`] when the expression is parsed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Resolved {
    /// Addresses of a host.
    pub addresses: Vec<IpAddr>,
    /// Number of a network, in host byte order.
    pub network: Option<u32>,
    /// MAC address of a host.
    pub mac: Option<[u8; 6]>,
}

/// A comparison of two numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct Relation {
    /// Jump of the BPF machine that tests it.
    pub(crate) jump: u16,
    /// Whether the result is negated.
    pub(crate) reversed: bool,
    /// The left operand.
    pub left: Arithmetic,
    /// The right operand.
    pub right: Arithmetic,
}

/// A number that is computed per packet, in 32 bits without sign.
#[derive(Clone, Debug, PartialEq)]
pub enum Arithmetic {
    /// A constant.
    Number(u32),
    /// `len`: bytes on the wire.
    Len,
    /// `protocol[offset:size]`.
    Load(Protocol, Box<Arithmetic>, u32, Range<usize>),
    /// A first operand, then pairs of a BPF operator and an operand, evaluated from left to right.
    Chain(Box<Arithmetic>, Vec<(u16, Arithmetic)>, Range<usize>),
    /// `-a`.
    Negative(Box<Arithmetic>),
}

impl Expr {
    /// Calls `visit` with every primitive, from left to right.
    pub fn visit<'a>(&'a self, visit: &mut dyn FnMut(&'a Test)) {
        match self {
            Expr::Test(test) => visit(test),
            Expr::Not(inner) => inner.visit(visit),
            Expr::Chain(first, rest) => {
                first.visit(visit);
                for (_, operand) in rest {
                    operand.visit(visit);
                }
            }
        }
    }

    /// Whether the verdict depends only on addresses, ports and protocol, so that one packet of a flow decides for all
    /// of them. This holds for packets that are not fragments, have no IPv6 extension headers, and are captured up to
    /// their ports: the protocol of a flow is its transport protocol, while an expression tests only the first header.
    pub fn only_flow_key(&self) -> bool {
        let mut only = true;
        self.visit(&mut |test| only &= test.primitive.only_flow_key());
        only
    }
}

impl Primitive {
    fn only_flow_key(&self) -> bool {
        use Protocol::{Ah, Carp, Esp, Icmp, Icmp6, Igmp, Igrp, Ip, Ip6, Pim, Sctp, Tcp, Udp, Vrrp};
        match self {
            Primitive::Protocol(p) => {
                matches!(
                    p,
                    Ip | Ip6 | Tcp | Udp | Sctp | Icmp | Icmp6 | Igmp | Igrp | Pim | Vrrp | Carp | Ah | Esp
                )
            }
            Primitive::Id(q, _) => match q.kind {
                // A flow has no addresses of ARP and RARP packets.
                IdKind::Default | IdKind::Host | IdKind::Net => matches!(q.protocol, None | Some(Ip | Ip6)),
                IdKind::Port | IdKind::PortRange => true,
                IdKind::Proto => matches!(q.protocol, None | Some(Ip | Ip6)),
                IdKind::ProtoChain | IdKind::Gateway => false,
            },
            _ => false,
        }
    }
}
