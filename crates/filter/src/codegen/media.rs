//! Rare link types: the network protocol of a frame, addresses of the link layer, and fields of the headers that a
//! capturing system writes.
//!
//! libpcap looks for the network header at a fixed position, which is wrong for some frames of these link types (a
//! SLIP header before the packet, a frame relay address of four bytes). [`Mode::Strict`] keeps its verdict. In the
//! other modes the network header is where decoding has found it ([`finds_network_by_layers`]).

use weir_wire::LinkType;

use super::{Base, Gen, Generator, Mode, sides};
use crate::ast::{Arithmetic, Pf, Qualifiers, Relation, Side};
use crate::bpf::op;
use crate::error::ErrorKind;
use crate::graph::{BlockId, Stmt};
use crate::link::finds_network_by_layers;
use crate::names::{Protocol, ethertype, nlpid, sap};

/// Protocols of ARCNET frames.
mod arcnet {
    pub const INET6: u32 = 196;
    pub const IP: u32 = 212;
    pub const ARP: u32 = 213;
    pub const RARP: u32 = 214;
    pub const ATALK: u32 = 221;
    /// RFC 1051.
    pub const OLD_IP: u32 = 240;
    pub const OLD_ARP: u32 = 241;
}

/// Offsets of the packet filter's log header (pflog(4)), and lengths of the names in it.
mod pflog {
    pub const FAMILY: u32 = 1;
    pub const ACTION: u32 = 2;
    pub const REASON: u32 = 3;
    pub const INTERFACE: u32 = 4;
    pub const RULESET: u32 = 20;
    pub const RULE: u32 = 36;
    pub const SUBRULE: u32 = 40;
    pub const DIRECTION: u32 = 60;
    pub const NAME: usize = 16;
    pub const IN: u32 = 1;
    pub const OUT: u32 = 2;
    pub const INET: u32 = 2;
    /// Linux's own number. libpcap compares with it on Linux, whichever system wrote the log.
    pub const INET6: u32 = 10;
}

fn is_arcnet(link: LinkType) -> bool {
    matches!(link, LinkType::ARCNET | LinkType::ARCNET_LINUX)
}

impl Generator {
    /// Tests for any of several values at one position, in libpcap's order.
    fn any_of(&mut self, base: Base, offset: u32, size: u16, values: [u32; 2]) -> Gen<BlockId> {
        let b0 = self.equal(base, offset, size, values[0])?;
        let b1 = self.equal(base, offset, size, values[1])?;
        Ok(self.graph.or(b0, b1))
    }

    /// A test that an ARCNET frame carries a protocol. It never holds for protocols without an ARCNET number.
    pub(super) fn arcnet_linktype(&mut self, proto: u32) -> Gen<BlockId> {
        let base = Base::LinkType;
        match u16::try_from(proto) {
            Ok(ethertype::IP) => self.any_of(base, 0, op::B, [arcnet::IP, arcnet::OLD_IP]),
            Ok(ethertype::ARP) => self.any_of(base, 0, op::B, [arcnet::ARP, arcnet::OLD_ARP]),
            Ok(ethertype::IPV6) => self.equal(base, 0, op::B, arcnet::INET6),
            Ok(ethertype::RARP) => self.equal(base, 0, op::B, arcnet::RARP),
            Ok(ethertype::ATALK) => self.equal(base, 0, op::B, arcnet::ATALK),
            _ => Ok(self.constant(false)),
        }
    }

    /// Frame relay with an address of two bytes, unnumbered information and an NLPID.
    pub(super) fn frame_relay_linktype(&mut self, proto: u32) -> Gen<BlockId> {
        const IP: u32 = 0xcc;
        const IPV6: u32 = 0x8e;
        match proto {
            p if p == u32::from(ethertype::IP) => self.frame_relay_nlpid(IP),
            p if p == u32::from(ethertype::IPV6) => self.frame_relay_nlpid(IPV6),
            sap::ISO => {
                let b0 = self.frame_relay_nlpid(nlpid::CLNP)?;
                let b1 = self.frame_relay_nlpid(nlpid::ESIS)?;
                let b2 = self.frame_relay_nlpid(nlpid::ISIS)?;
                let b2 = self.graph.or(b1, b2);
                Ok(self.graph.or(b0, b2))
            }
            _ => Ok(self.constant(false)),
        }
    }

    pub(super) fn frame_relay_nlpid(&mut self, nlpid: u32) -> Gen<BlockId> {
        const UNNUMBERED: u32 = 0x03 << 8;
        self.equal(Base::Link, 2, op::H, UNNUMBERED | nlpid)
    }

    pub(super) fn pflog_linktype(&mut self, proto: u32) -> Gen<BlockId> {
        match u16::try_from(proto) {
            Ok(ethertype::IP) => self.equal(Base::Link, pflog::FAMILY, op::B, pflog::INET),
            Ok(ethertype::IPV6) => self.equal(Base::Link, pflog::FAMILY, op::B, pflog::INET6),
            _ => Ok(self.constant(false)),
        }
    }

    /// A test of the EtherType that decoding has found. LLC service access points are not EtherTypes.
    pub(super) fn linktype_by_layers(&mut self, proto: u32) -> Gen<BlockId> {
        const MAX_ACCESS_POINT: u32 = 0xff;
        match proto {
            0..=MAX_ACCESS_POINT if self.link == LinkType::FRELAY => self.frame_relay_linktype(proto),
            0..=MAX_ACCESS_POINT => Ok(self.constant(false)),
            _ => self.equal(Base::LinkType, 0, op::H, proto),
        }
    }

    /// Whether loads of the link-layer header read the frame as it was captured, and other loads the packet that
    /// decoding has found.
    pub(super) fn by_layers(&self) -> bool {
        self.context.mode != Mode::Strict && !self.inside && finds_network_by_layers(self.link)
    }

    /// `$xx`: an ARCNET address, the source first.
    pub(super) fn arcnet_host(&mut self, q: Qualifiers, address: u8) -> Gen<BlockId> {
        if !is_arcnet(self.link) {
            return self.unsupported("link host $XX");
        }
        if !q.kind.is_host() || q.protocol != Some(Protocol::Link) {
            return Err(self.error(ErrorKind::Qualifier, "ARCnet address used in non-arc expression"));
        }
        sides(self, q.direction, |g, src| g.arcnet_address(src, address))
    }

    fn arcnet_address(&mut self, src: bool, address: u8) -> Gen<BlockId> {
        self.equal(Base::Link, u32::from(!src), op::B, u32::from(address))
    }

    /// `broadcast` and `multicast` of link types other than Ethernet and IEEE 802.11; `None` if the link type has
    /// none.
    pub(super) fn media_group(&mut self, broadcast: bool) -> Gen<Option<BlockId>> {
        Ok(Some(match self.link {
            // ARCNET has only one group address.
            link if is_arcnet(link) => self.arcnet_address(false, 0)?,
            LinkType::FDDI if broadcast => self.fddi_host(&[0xff; 6], Side::Dst)?,
            LinkType::FDDI => self.any_bit(Base::Link, 1, 1)?,
            _ => return Ok(None),
        }))
    }

    pub(super) fn fddi_host(&mut self, mac: &[u8; 6], side: Side) -> Gen<BlockId> {
        sides(self, side, |g, src| g.bytes(Base::Link, if src { 7 } else { 1 }, mac))
    }

    /// A field of the packet filter's log.
    pub(super) fn pf(&mut self, field: &Pf) -> Gen<BlockId> {
        if self.link != LinkType::PFLOG {
            let message = format!("'{}' supported only on PFLOG linktype", field.name());
            return Err(self.error(ErrorKind::Link, message));
        }
        match field {
            Pf::Interface(name) | Pf::Ruleset(name) if name.len() >= pflog::NAME => {
                let what = if matches!(field, Pf::Interface(_)) { "interface" } else { "ruleset" };
                let message = format!("{what} names can only be {} characters", pflog::NAME - 1);
                Err(self.error(ErrorKind::Value, message))
            }
            Pf::Interface(name) => self.bytes(Base::Link, pflog::INTERFACE, name.as_bytes()),
            Pf::Ruleset(name) => self.bytes(Base::Link, pflog::RULESET, name.as_bytes()),
            Pf::Rule(number) => self.equal(Base::Link, pflog::RULE, op::W, *number),
            Pf::Subrule(number) => self.equal(Base::Link, pflog::SUBRULE, op::W, *number),
            Pf::Reason(code) => self.equal(Base::Link, pflog::REASON, op::B, *code),
            Pf::Action(code) => self.equal(Base::Link, pflog::ACTION, op::B, *code),
        }
    }

    /// `inbound` and `outbound` from the header of the link type; `None` if the header has no direction.
    pub(super) fn media_direction(&mut self, out: bool) -> Gen<Option<BlockId>> {
        /// Upper bits of the first byte of a Broadcom tag: from the switch, and to it.
        const BRCM: (u32, [u32; 2]) = (0xe0, [0x00, 0x20]);
        /// Upper bits of the first byte of a Marvell tag: from the switch, and to it.
        const DSA: (u32, [u32; 2]) = (0xc0, [0x00, 0x40]);
        let (offset, (mask, values)) = match self.link {
            LinkType::PFLOG => {
                let direction = if out { pflog::OUT } else { pflog::IN };
                return self.equal(Base::Link, pflog::DIRECTION, op::B, direction).map(Some);
            }
            LinkType::SLIP => return self.first_byte_is_zero(!out).map(Some),
            LinkType::FRELAY_WITH_DIR if self.context.mode != Mode::Strict => {
                return self.first_byte_is_zero(!out).map(Some);
            }
            LinkType::DSA_TAG_BRCM => (12, BRCM),
            LinkType::DSA_TAG_BRCM_PREPEND => (0, BRCM),
            LinkType::DSA_TAG_DSA => (12, DSA),
            LinkType::DSA_TAG_EDSA => (16, DSA),
            _ => return Ok(None),
        };
        // A tag before the addresses is not part of the link-layer header.
        let value = values[usize::from(out)];
        let offset = if self.link == LinkType::DSA_TAG_BRCM_PREPEND {
            0u32.wrapping_sub(self.off_link.constant)
        } else {
            offset
        };
        self.equal_masked(Base::Link, offset, op::B, value, mask).map(Some)
    }

    /// The test `link[0] = 0`, or `link[0] != 0`.
    fn first_byte_is_zero(&mut self, holds: bool) -> Gen<BlockId> {
        let zero = || Box::new(Arithmetic::Number(0));
        let left = Arithmetic::Load(Protocol::Link, zero(), 1, self.span.clone());
        self.relation_from_the_right(&Relation { jump: op::JEQ, reversed: !holds, left, right: *zero() })
    }

    /// Puts the length of the packet filter's log header, rounded up to a multiple of 4, into the register for the
    /// payload's offset.
    pub(super) fn pflog_length(&mut self, register: u32) -> Vec<Stmt> {
        vec![
            self.stmt(op::LD | op::B | op::ABS, 0),
            self.stmt(op::ALU | op::ADD | op::K, 3),
            self.stmt(op::ALU | op::AND | op::K, !3),
            self.stmt(op::ST, register),
            self.stmt(op::MISC | op::TAX, 0),
        ]
    }
}
