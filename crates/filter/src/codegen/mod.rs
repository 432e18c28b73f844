//! From the syntax tree to basic blocks: the tests of each primitive on a link type.
//!
//! The blocks, their order and their offsets equal those of libpcap's gencode, because a load beyond the captured
//! bytes rejects the packet: the order of tests is part of the verdict. The state follows gencode too: `vlan`, `mpls`,
//! `pppoes`, `geneve` and `vxlan` move the offsets of all later tests, if the mode requires it.

mod arithmetic;
mod encapsulation;
mod host;
mod linktype;
mod media;
mod port;
mod proto;
mod wlan;

pub(crate) use host::{dotted, high_bits};
pub(crate) use linktype::has_bytes_only;

use std::ops::Range;

use weir_wire::LinkType;

use crate::ast::{Connective, Expr, Id, IdKind, Primitive, Qualifiers, Side, Test};
use crate::bpf::{MEMORY_WORDS, op};
use crate::error::{ErrorKind, FilterError};
use crate::graph::{BlockId, Graph, Stmt};
use crate::link::{finds_network_by_layers, tagged_ethernet};
use crate::names::{
    IP_PROTOCOLS, ISO_PROTOCOLS, LINK_PROTOCOLS, Protocol, SERVICES, Transport, ethertype, ip_protocol,
    lookup,
};
use crate::view;

/// How VLAN tags, MPLS labels and PPPoE headers are treated.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Mode {
    /// As bytes of the frame, as libpcap sees them.
    Strict,
    /// They are removed, and `vlan`, `mpls` and `pppoes` test the removed headers.
    LookThrough,
    /// They are removed, for a packet that has some.
    Encapsulated,
}

/// The inputs of code generation besides the expression and the link type.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Context {
    pub mode: Mode,
    pub live: bool,
    pub swapped: bool,
    pub snaplen: u32,
    pub netmask: Option<u32>,
}

/// The code of an expression for one link type.
pub(crate) struct Code {
    pub graph: Graph,
    pub root: BlockId,
    /// Whether the optimiser may change it: not if blocks have jumps inside.
    pub optimizable: bool,
    /// Whether [`Mode::LookThrough`] and [`Mode::Encapsulated`] give different code.
    pub distinguishes: bool,
}

pub(crate) type Gen<T> = Result<T, FilterError>;

/// An offset from the start of the packet: a constant, plus the content of a scratch register if something before it
/// has a variable length.
#[derive(Clone, Copy, Debug, Default)]
struct Offset {
    variable: bool,
    constant: u32,
    register: Option<u32>,
}

/// No such offset.
const NOT_SET: u32 = u32::MAX;

/// The base of an offset.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Base {
    /// The link-layer header.
    Link,
    /// The 802.2 LLC header.
    Llc,
    /// The previous MPLS label stack entry.
    PreviousMpls,
    /// The link layer's type field.
    LinkType,
    /// The link layer's payload, after any SNAP header.
    Payload,
    /// The network header if there is no SNAP header.
    PayloadNoSnap,
    /// The transport header after IPv4.
    Transport4,
    /// The transport header after IPv6.
    Transport6,
}

/// The state of the code generator.
struct Generator {
    graph: Graph,
    context: Context,
    /// Link type of the packet.
    outermost: LinkType,
    /// Link type of the packet that is tested now.
    link: LinkType,
    off_link: Offset,
    off_payload: Offset,
    off_type: Offset,
    off_network: u32,
    off_network_no_snap: u32,
    /// MPLS labels passed.
    labels: u32,
    /// Whether the link layer is that of a packet inside a GENEVE or VXLAN tunnel.
    tunnelled: bool,
    /// Whether the code applies to such a packet, or to a part of it.
    inside: bool,
    /// VLAN tags, MPLS labels and PPPoE headers that were tested, in a mode that removes them.
    depth: Depth,
    registers: [bool; MEMORY_WORDS],
    register: usize,
    optimizable: bool,
    distinguishes: bool,
    /// The test being translated.
    span: Range<usize>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Depth {
    vlan: u32,
    mpls: u32,
    pppoe: u32,
}

impl Depth {
    fn max(self, other: Self) -> Self {
        Self {
            vlan: self.vlan.max(other.vlan),
            mpls: self.mpls.max(other.mpls),
            pppoe: self.pppoe.max(other.pppoe),
        }
    }
}

/// Translates an expression for a link type.
pub(crate) fn generate(
    expression: &str,
    expr: Option<&Expr>,
    link: LinkType,
    context: Context,
) -> Result<Code, FilterError> {
    let mut generator = Generator::new(link, context).map_err(|e| e.within(expression))?;
    let root = generator.program(expr).map_err(|e| e.within(expression))?;
    Ok(Code {
        graph: generator.graph,
        root,
        optimizable: generator.optimizable,
        distinguishes: generator.distinguishes,
    })
}

impl Generator {
    fn new(link: LinkType, context: Context) -> Gen<Self> {
        let fixed = |kind, payload, network, no_snap| (kind, Some(payload), network, no_snap, false);
        let (kind, payload, network, no_snap, prefixed) = match link {
            link if finds_network_by_layers(link) && context.mode != Mode::Strict => {
                fixed(view::LAYERS_TYPE, view::LAYERS_HEADER, 0, 0)
            }
            LinkType::NULL | LinkType::LOOP => fixed(0, 4, 0, 0),
            LinkType::PPP | LinkType::PPP_HDLC | LinkType::C_HDLC => fixed(2, 4, 0, 0),
            LinkType::PPP_ETHER => fixed(6, 8, 0, 0),
            LinkType::RAW | LinkType::IPV4 | LinkType::IPV6 | LinkType::FRELAY => fixed(NOT_SET, 0, 0, 0),
            LinkType::SLIP => fixed(NOT_SET, 16, 0, 0),
            LinkType::SLIP_BSDOS => fixed(NOT_SET, 24, 0, 0),
            LinkType::FDDI => fixed(13, 13, 8, 3),
            LinkType::ARCNET => fixed(2, 6, 0, 0),
            LinkType::ARCNET_LINUX => fixed(4, 8, 0, 0),
            LinkType::PFLOG => (0, None, 0, 0, false),
            LinkType::LINUX_SLL => fixed(14, 16, 0, 0),
            LinkType::LINUX_SLL2 => fixed(0, 20, 0, 0),
            LinkType::IEEE802_11 => (24, None, 8, 3, false),
            LinkType::IEEE802_11_RADIOTAP | LinkType::PPI => (24, None, 8, 3, true),
            link => match tagged_ethernet(link) {
                Some((_, kind)) => fixed(kind, kind + 2, 0, 3),
                None if linktype::has_bytes_only(link) => fixed(NOT_SET, NOT_SET, NOT_SET, NOT_SET),
                None => {
                    let name = linktype::dlt_name(link);
                    let message = format!("filter expressions are not supported on {name}");
                    return Err(FilterError::new(ErrorKind::Link, 0..0, message));
                }
            },
        };
        Ok(Self {
            graph: Graph::default(),
            context,
            outermost: link,
            link,
            off_link: Offset {
                variable: prefixed,
                constant: tagged_ethernet(link).map_or(0, |(addresses, _)| addresses),
                register: None,
            },
            off_payload: Offset {
                variable: payload.is_none(),
                constant: payload.unwrap_or(0),
                register: None,
            },
            off_type: Offset { constant: kind, ..Offset::default() },
            off_network: network,
            off_network_no_snap: no_snap,
            labels: 0,
            tunnelled: false,
            inside: false,
            depth: Depth::default(),
            registers: [false; MEMORY_WORDS],
            register: 0,
            optimizable: true,
            distinguishes: false,
            span: 0..0,
        })
    }

    fn program(&mut self, expr: Option<&Expr>) -> Gen<BlockId> {
        let snaplen = self.context.snaplen;
        let Some(expr) = expr else {
            return Ok(self.graph.block(op::RET, snaplen, Vec::new()));
        };
        let mut b = self.expr(expr)?;
        let head = self.graph[b].head;
        self.compute_offsets(head)?;
        if self.link == LinkType::PPI {
            let check = self.ppi_check();
            b = self.graph.and(check, b);
        }
        Ok(self.graph.finish(b, snaplen))
    }

    fn expr(&mut self, expr: &Expr) -> Gen<BlockId> {
        match expr {
            Expr::Test(test) => self.test(test),
            Expr::Not(inner) => {
                // A header tested under `not` may be absent: the next word tests for the same header.
                let depth = self.depth;
                let b = self.expr(inner)?;
                self.depth = depth;
                self.graph.not(b);
                Ok(b)
            }
            Expr::Chain(first, rest) => {
                let start = self.depth;
                let mut b = self.expr(first)?;
                for (connective, operand) in rest {
                    let before = self.depth;
                    if *connective == Connective::Or {
                        self.depth = start;
                    }
                    let next = self.expr(operand)?;
                    b = match connective {
                        Connective::And => self.graph.and(b, next),
                        Connective::Or => {
                            self.depth = before.max(self.depth);
                            self.graph.or(b, next)
                        }
                    };
                }
                Ok(b)
            }
        }
    }

    fn test(&mut self, test: &Test) -> Gen<BlockId> {
        self.span = test.span.clone();
        match &test.primitive {
            Primitive::Id(qualifiers, id) => self.id(*qualifiers, id),
            Primitive::Protocol(protocol) => self.protocol(*protocol),
            Primitive::Relation(relation) => self.relation(relation),
            Primitive::Broadcast(protocol) => self.broadcast(*protocol),
            Primitive::Multicast(protocol) => self.multicast(*protocol),
            Primitive::Greater(n) => Ok(self.length(op::JGE, *n)),
            Primitive::Less(n) => {
                let b = self.length(op::JGT, *n);
                self.graph.not(b);
                Ok(b)
            }
            Primitive::Byte(index, operator, value) => self.byte(*index, *operator, *value),
            Primitive::Inbound => self.direction(false),
            Primitive::Outbound => self.direction(true),
            Primitive::Interface(index) => self.interface(*index),
            Primitive::Vlan(id) => self.vlan(*id),
            Primitive::Mpls(label) => self.mpls(*label),
            Primitive::PppoeDiscovery => self.linktype(u32::from(ethertype::PPPOE_DISCOVERY)),
            Primitive::PppoeSession(session) => self.pppoe(*session),
            Primitive::Geneve(vni) => self.geneve(*vni),
            Primitive::Vxlan(vni) => self.vxlan(*vni),
            Primitive::Llc(kind) => self.llc(*kind),
            Primitive::WlanType { value, mask } => self.wlan_type(*value, *mask),
            Primitive::WlanDirection(direction) => self.wlan_direction(*direction),
            Primitive::Pf(field) => self.pf(field),
            Primitive::Elsewhere(name, link) => {
                Err(self.error(ErrorKind::Link, format!("'{name}' supported only on {link}")))
            }
            Primitive::Field(test) => {
                let message = format!("packets have no field `{}.{}`", test.field.table, test.field.name);
                Err(self.error(ErrorKind::Qualifier, message))
            }
        }
    }

    fn error(&self, kind: ErrorKind, message: impl Into<String>) -> FilterError {
        FilterError::new(kind, self.span.clone(), message)
    }

    fn unsupported<T>(&self, what: &str) -> Gen<T> {
        let message = format!("'{what}' not supported on {}", linktype::dlt_name(self.link));
        Err(self.error(ErrorKind::Link, message))
    }

    fn not_a_qualifier<T>(&self, qualifier: &str, of: &str) -> Gen<T> {
        Err(self.error(ErrorKind::Qualifier, format!("'{qualifier}' is not a valid qualifier for '{of}'")))
    }

    fn too_big<T>(&self, what: &str, value: u32, max: u32) -> Gen<T> {
        Err(self.error(ErrorKind::Value, format!("{what} {value} greater than maximum {max}")))
    }

    // Registers.

    fn alloc(&mut self) -> Gen<u32> {
        for _ in 0..MEMORY_WORDS {
            if !self.registers[self.register] {
                self.registers[self.register] = true;
                return Ok(self.register as u32);
            }
            self.register = (self.register + 1) % MEMORY_WORDS;
        }
        Err(self.error(ErrorKind::TooComplex, "too many registers needed to evaluate expression"))
    }

    fn free(&mut self, register: u32) {
        self.registers[register as usize] = false;
    }

    // Loads.

    fn stmt(&mut self, code: u16, k: u32) -> Stmt {
        self.graph.stmt(code, k)
    }

    /// Code that puts the variable part of an offset into X; `None` if it has none.
    fn variable_part(&mut self, which: fn(&mut Self) -> &mut Offset) -> Gen<Vec<Stmt>> {
        let offset = *which(self);
        if !offset.variable {
            return Ok(Vec::new());
        }
        let register = match offset.register {
            Some(register) => register,
            None => {
                let register = self.alloc()?;
                which(self).register = Some(register);
                register
            }
        };
        Ok(vec![self.stmt(op::LDX | op::MEM, register)])
    }

    fn load_at(&mut self, which: fn(&mut Self) -> &mut Offset, offset: u32, size: u16) -> Gen<Vec<Stmt>> {
        let mut s = self.variable_part(which)?;
        let k = which(self).constant.wrapping_add(offset);
        let mode = if s.is_empty() { op::ABS } else { op::IND };
        s.push(self.stmt(op::LD | mode | size, k));
        Ok(s)
    }

    /// Loads a value into A.
    fn load(&mut self, base: Base, offset: u32, size: u16) -> Gen<Vec<Stmt>> {
        let network = self.off_network;
        match base {
            Base::Link => {
                let mut s = self.load_at(|g| &mut g.off_link, offset, size)?;
                if self.by_layers() {
                    self.raw(&mut s);
                }
                Ok(s)
            }
            Base::Llc => self.load_at(|g| &mut g.off_payload, offset, size),
            Base::PreviousMpls => {
                self.load_at(|g| &mut g.off_payload, network.wrapping_sub(4).wrapping_add(offset), size)
            }
            Base::LinkType => self.load_at(|g| &mut g.off_type, offset, size),
            Base::Payload => self.load_at(|g| &mut g.off_payload, network.wrapping_add(offset), size),
            Base::PayloadNoSnap => {
                let network = self.off_network_no_snap;
                self.load_at(|g| &mut g.off_payload, network.wrapping_add(offset), size)
            }
            Base::Transport4 => {
                let mut s = self.load_ip_header_len()?;
                let k = self.off_payload.constant.wrapping_add(network).wrapping_add(offset);
                s.push(self.stmt(op::LD | op::IND | size, k));
                Ok(s)
            }
            Base::Transport6 => {
                self.load_at(|g| &mut g.off_payload, network.wrapping_add(40).wrapping_add(offset), size)
            }
        }
    }

    /// Loads the length of the IPv4 header into X, plus the variable part of the payload's offset.
    fn load_ip_header_len(&mut self) -> Gen<Vec<Stmt>> {
        let k = self.off_payload.constant.wrapping_add(self.off_network);
        let mut s = self.variable_part(|g| &mut g.off_payload)?;
        if s.is_empty() {
            s.push(self.stmt(op::LDX | op::MSH | op::B, k));
            return Ok(s);
        }
        s.push(self.stmt(op::LD | op::IND | op::B, k));
        s.push(self.stmt(op::ALU | op::AND | op::K, 0xf));
        s.push(self.stmt(op::ALU | op::LSH | op::K, 2));
        s.push(self.stmt(op::ALU | op::ADD | op::X, 0));
        s.push(self.stmt(op::MISC | op::TAX, 0));
        Ok(s)
    }

    // Comparisons.

    /// A block that ends in a jump on a constant.
    fn jump(&mut self, jump: u16, k: u32, stmts: Vec<Stmt>) -> BlockId {
        self.graph.block(op::JMP | jump | op::K, k, stmts)
    }

    fn compare(
        &mut self,
        base: Base,
        offset: u32,
        size: u16,
        mask: u32,
        jump: u16,
        value: u32,
    ) -> Gen<BlockId> {
        let mut s = self.load(base, offset, size)?;
        if mask != u32::MAX {
            s.push(self.stmt(op::ALU | op::AND | op::K, mask));
        }
        Ok(self.jump(jump, value, s))
    }

    fn equal(&mut self, base: Base, offset: u32, size: u16, value: u32) -> Gen<BlockId> {
        self.compare(base, offset, size, u32::MAX, op::JEQ, value)
    }

    fn equal_masked(&mut self, base: Base, offset: u32, size: u16, value: u32, mask: u32) -> Gen<BlockId> {
        self.compare(base, offset, size, mask, op::JEQ, value)
    }

    fn at_least(&mut self, base: Base, offset: u32, size: u16, value: u32) -> Gen<BlockId> {
        self.compare(base, offset, size, u32::MAX, op::JGE, value)
    }

    fn at_most(&mut self, base: Base, offset: u32, size: u16, value: u32) -> Gen<BlockId> {
        let b = self.compare(base, offset, size, u32::MAX, op::JGT, value)?;
        self.graph.not(b);
        Ok(b)
    }

    /// A test of bits of one byte.
    fn any_bit(&mut self, base: Base, offset: u32, bits: u32) -> Gen<BlockId> {
        let s = self.load(base, offset, op::B)?;
        Ok(self.jump(op::JSET, bits, s))
    }

    fn no_bit(&mut self, base: Base, offset: u32, bits: u32) -> Gen<BlockId> {
        let b = self.any_bit(base, offset, bits)?;
        self.graph.not(b);
        Ok(b)
    }

    /// Compares bytes from the end, in the widest words that fit.
    fn bytes(&mut self, base: Base, offset: u32, value: &[u8]) -> Gen<BlockId> {
        let mut rest = value;
        let mut result = None;
        while !rest.is_empty() {
            let (width, size) = match rest.len() {
                1 => (1, op::B),
                2 | 3 => (2, op::H),
                _ => (4, op::W),
            };
            let (front, word) = rest.split_at(rest.len() - width);
            let value = word.iter().fold(0, |v, b| v << 8 | u32::from(*b));
            let b = self.equal(base, offset.wrapping_add(front.len() as u32), size, value)?;
            result = Some(match result {
                Some(before) => self.graph.and(before, b),
                None => b,
            });
            rest = front;
        }
        match result {
            Some(b) => Ok(b),
            None => Ok(self.constant(true)),
        }
    }

    /// A test that always or never holds.
    fn constant(&mut self, holds: bool) -> BlockId {
        let s = vec![self.stmt(op::LD | op::IMM, u32::from(!holds))];
        self.jump(op::JEQ, 0, s)
    }

    fn extension(&mut self, k: u32, jump: u16, value: u32) -> BlockId {
        let s = vec![self.stmt(op::LD | op::EXT, k)];
        self.jump(jump, value, s)
    }

    fn length(&mut self, jump: u16, n: u32) -> BlockId {
        let s = vec![self.stmt(op::LD | op::LEN, 0)];
        self.jump(jump, n, s)
    }

    // Ids.

    fn id(&mut self, q: Qualifiers, id: &Id) -> Gen<BlockId> {
        match id {
            Id::Name(name, resolved) => match q.kind {
                IdKind::Net => {
                    let Some(mut network) = resolved.network.filter(|n| *n != 0) else {
                        return Err(self.error(ErrorKind::Value, format!("unknown network '{name}'")));
                    };
                    let mut mask = u32::MAX;
                    while network & 0xff00_0000 == 0 {
                        network <<= 8;
                        mask <<= 8;
                    }
                    self.host4(network, mask, q, "net <IPv4 address>")
                }
                IdKind::Default | IdKind::Host => self.named_host(q, name, resolved),
                IdKind::Gateway => self.gateway(q, name, resolved),
                IdKind::Port | IdKind::PortRange => self.named_port(q, name),
                IdKind::Proto => {
                    let v = self.protocol_number(q, name)?;
                    self.proto(v, q.protocol)
                }
                IdKind::ProtoChain => {
                    let v = self.protocol_number(q, name)?;
                    self.protochain(v, q.protocol)
                }
            },
            Id::Number(v) => match q.kind {
                IdKind::Port => self.port_number(q, *v, *v, "port"),
                IdKind::PortRange => self.port_number(q, *v, *v, "portrange"),
                IdKind::Proto => self.proto(*v, q.protocol),
                IdKind::ProtoChain => self.protochain(*v, q.protocol),
                IdKind::Gateway => self.not_a_qualifier("gateway", &v.to_string()),
                IdKind::Default | IdKind::Host | IdKind::Net => self.number_host(q, *v),
            },
            Id::Dotted(text) => {
                self.not_for_address(q, "IPv4 address")?;
                self.dotted_host(q, text)
            }
            Id::Prefix(text, len) => {
                self.not_for_address(q, "IPv4 address and prefix length")?;
                self.prefix(q, text, *len)
            }
            Id::Masked(text, mask) => {
                self.not_for_address(q, "IPv4 address and netmask")?;
                self.masked(q, text, mask)
            }
            Id::V6(address, text, len) => {
                let what = if len.is_some() { "IPv6 address and prefix length" } else { "IPv6 address" };
                self.not_for_address(q, what)?;
                self.v6(q, *address, text, *len)
            }
            Id::Mac(mac) => self.mac(q, mac),
            Id::Arcnet(address) => self.arcnet_host(q, *address),
        }
    }

    /// An error for an address after `port` or `proto`, which take none.
    fn not_for_address(&self, q: Qualifiers, what: &str) -> Gen<()> {
        match q.kind {
            IdKind::Port | IdKind::PortRange | IdKind::Proto | IdKind::ProtoChain => {
                let message = format!("'{}' qualifier applied to {what}", q.kind.name());
                Err(self.error(ErrorKind::Qualifier, message))
            }
            _ => Ok(()),
        }
    }

    fn protocol_number(&self, q: Qualifiers, name: &str) -> Gen<u32> {
        let kind = q.kind.name();
        let (found, context) = match q.protocol {
            None => (lookup(IP_PROTOCOLS, name), String::new()),
            Some(Protocol::Decnet) => return self.not_a_qualifier("decnet", kind),
            Some(p) => {
                let table = match p {
                    Protocol::Ip | Protocol::Ip6 => IP_PROTOCOLS,
                    Protocol::Link if q.kind == IdKind::Proto => LINK_PROTOCOLS,
                    Protocol::Iso if q.kind == IdKind::Proto => ISO_PROTOCOLS,
                    _ => &[],
                };
                (lookup(table, name), format!("{} ", p.name()))
            }
        };
        match found {
            Some(v) => Ok(v),
            None => Err(self.error(ErrorKind::Value, format!("unknown '{context}{kind}' value '{name}'"))),
        }
    }

    /// Port number and transport protocol of a service; a protocol of `None` means both.
    fn service(&self, name: &str) -> Gen<(u32, Option<u32>)> {
        if name.bytes().all(|b| b.is_ascii_digit()) || name.starts_with("0x") {
            return match crate::lex::parse_number(name) {
                Ok(v) => Ok((v, None)),
                Err(message) => Err(self.error(ErrorKind::Value, message)),
            };
        }
        match SERVICES.iter().find(|(known, _, _)| *known == name) {
            Some((_, port, Transport::Tcp)) => Ok((u32::from(*port), Some(ip_protocol::TCP))),
            Some((_, port, Transport::Udp)) => Ok((u32::from(*port), Some(ip_protocol::UDP))),
            Some((_, port, Transport::Both)) => Ok((u32::from(*port), None)),
            None => Err(self.error(ErrorKind::Value, format!("unknown port '{name}'"))),
        }
    }

    /// An error for a side that exists only in IEEE 802.11.
    fn no_wlan_side(&self, side: Side) -> Gen<()> {
        match side.wlan_name() {
            Some(name) => {
                Err(self.error(ErrorKind::Qualifier, format!("'{name}' is valid for 802.11 syntax only")))
            }
            None => Ok(()),
        }
    }
}

/// Blocks of a test that may hold for the source, the destination, either or both.
fn sides(
    generator: &mut Generator,
    side: Side,
    mut one: impl FnMut(&mut Generator, bool) -> Gen<BlockId>,
) -> Gen<BlockId> {
    match side {
        Side::Src => one(generator, true),
        Side::Dst => one(generator, false),
        Side::SrcAndDst => {
            let b0 = one(generator, true)?;
            let b1 = one(generator, false)?;
            Ok(generator.graph.and(b0, b1))
        }
        Side::Default | Side::SrcOrDst => {
            let b0 = one(generator, true)?;
            let b1 = one(generator, false)?;
            Ok(generator.graph.or(b0, b1))
        }
        Side::Addr1 | Side::Addr2 | Side::Addr3 | Side::Addr4 | Side::Ra | Side::Ta => {
            generator.no_wlan_side(side)?;
            Ok(generator.constant(false))
        }
    }
}
