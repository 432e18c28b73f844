//! IEEE 802.11: addresses whose position depends on the kind of frame, and a header of variable length.

use weir_wire::LinkType;

use super::linktype::is_wlan;
use super::{Base, Gen, Generator, sides};
use crate::ast::Side;
use crate::bpf::op;
use crate::graph::{BlockId, Stmt};

/// Bits of the first byte of frame control.
const TYPE: u32 = 0x0c;
const SUBTYPE: u32 = 0xf0;
const CONTROL: u32 = 0x04;
const DATA: u32 = 0x08;
const CTS: u32 = 0xc0;
const ACK: u32 = 0xd0;
const QOS: u32 = 0x80;

/// Bits of the second byte.
const TO_DS: u32 = 0x01;
const FROM_DS: u32 = 0x02;

impl Generator {
    /// A data frame: the only kind that carries a network packet.
    pub(super) fn wlan_data(&mut self) -> Gen<BlockId> {
        let b0 = self.any_bit(Base::Link, 0, DATA)?;
        let b1 = self.no_bit(Base::Link, 0, CONTROL)?;
        Ok(self.graph.and(b1, b0))
    }

    pub(super) fn wlan_host(&mut self, mac: &[u8; 6], side: Side) -> Gen<BlockId> {
        match side {
            Side::Addr1 => self.bytes(Base::Link, 4, mac),
            Side::Addr2 => {
                let b2 = self.has_address2()?;
                let b1 = self.bytes(Base::Link, 10, mac)?;
                Ok(self.graph.and(b2, b1))
            }
            Side::Addr3 => {
                let b0 = self.equal_masked(Base::Link, 0, op::B, CONTROL, TYPE)?;
                self.graph.not(b0);
                let b1 = self.bytes(Base::Link, 16, mac)?;
                Ok(self.graph.and(b0, b1))
            }
            Side::Addr4 => {
                let both = TO_DS | FROM_DS;
                let b0 = self.equal_masked(Base::Link, 1, op::B, both, both)?;
                let b1 = self.bytes(Base::Link, 24, mac)?;
                Ok(self.graph.and(b0, b1))
            }
            Side::Ra => {
                let b1 = self.any_bit(Base::Link, 0, DATA)?;
                let b0 = self.bytes(Base::Link, 4, mac)?;
                Ok(self.graph.and(b1, b0))
            }
            Side::Ta => {
                let b2 = self.has_address2()?;
                let b1 = self.any_bit(Base::Link, 0, DATA)?;
                let b2 = self.graph.and(b1, b2);
                let b1 = self.bytes(Base::Link, 10, mac)?;
                Ok(self.graph.and(b2, b1))
            }
            _ => sides(self, side, |g, src| if src { g.wlan_source(mac) } else { g.wlan_destination(mac) }),
        }
    }

    /// CTS and ACK frames have one address only.
    fn has_address2(&mut self) -> Gen<BlockId> {
        let b0 = self.equal_masked(Base::Link, 0, op::B, CONTROL, TYPE)?;
        self.graph.not(b0);
        let b1 = self.equal_masked(Base::Link, 0, op::B, CTS, SUBTYPE)?;
        self.graph.not(b1);
        let b2 = self.equal_masked(Base::Link, 0, op::B, ACK, SUBTYPE)?;
        self.graph.not(b2);
        let b2 = self.graph.and(b1, b2);
        Ok(self.graph.or(b0, b2))
    }

    /// The source address: at 10, but in data frames from the distribution system at 16, and at 24 in those that
    /// also go to it.
    fn wlan_source(&mut self, mac: &[u8; 6]) -> Gen<BlockId> {
        let b1 = self.any_bit(Base::Link, 1, TO_DS)?;
        let b0 = self.bytes(Base::Link, 24, mac)?;
        let b0 = self.graph.and(b1, b0);
        let b2 = self.no_bit(Base::Link, 1, TO_DS)?;
        let b1 = self.bytes(Base::Link, 16, mac)?;
        let b1 = self.graph.and(b2, b1);
        let b0 = self.graph.or(b1, b0);
        let b1 = self.any_bit(Base::Link, 1, FROM_DS)?;
        let b0 = self.graph.and(b1, b0);
        let b2 = self.no_bit(Base::Link, 1, FROM_DS)?;
        let b1 = self.bytes(Base::Link, 10, mac)?;
        let b1 = self.graph.and(b2, b1);
        let b0 = self.graph.or(b1, b0);
        self.data_or_management(b0, |g| g.bytes(Base::Link, 10, mac))
    }

    /// The destination address: at 4, but in data frames to the distribution system at 16.
    pub(super) fn wlan_destination(&mut self, mac: &[u8; 6]) -> Gen<BlockId> {
        self.at_destination(|g, offset| g.bytes(Base::Link, offset, mac))
    }

    pub(super) fn wlan_multicast(&mut self) -> Gen<BlockId> {
        self.at_destination(|g, offset| g.any_bit(Base::Link, offset, 1))
    }

    fn at_destination(&mut self, test: impl Fn(&mut Self, u32) -> Gen<BlockId>) -> Gen<BlockId> {
        let b1 = self.any_bit(Base::Link, 1, TO_DS)?;
        let b0 = test(self, 16)?;
        let b0 = self.graph.and(b1, b0);
        let b2 = self.no_bit(Base::Link, 1, TO_DS)?;
        let b1 = test(self, 4)?;
        let b1 = self.graph.and(b2, b1);
        let b0 = self.graph.or(b1, b0);
        self.data_or_management(b0, |g| test(g, 4))
    }

    /// `data` for data frames, `management` for management frames; control frames have no such addresses.
    fn data_or_management(
        &mut self,
        data: BlockId,
        management: impl Fn(&mut Self) -> Gen<BlockId>,
    ) -> Gen<BlockId> {
        let b1 = self.any_bit(Base::Link, 0, DATA)?;
        let b0 = self.graph.and(b1, data);
        let b2 = self.no_bit(Base::Link, 0, DATA)?;
        let b1 = management(self)?;
        let b1 = self.graph.and(b2, b1);
        let b0 = self.graph.or(b1, b0);
        let b1 = self.no_bit(Base::Link, 0, CONTROL)?;
        Ok(self.graph.and(b1, b0))
    }

    pub(super) fn wlan_type(&mut self, value: u32, mask: u32) -> Gen<BlockId> {
        if !is_wlan(self.link) {
            return self.unsupported("type/subtype");
        }
        self.equal_masked(Base::Link, 0, op::B, value, mask)
    }

    pub(super) fn wlan_direction(&mut self, direction: u32) -> Gen<BlockId> {
        if !is_wlan(self.link) {
            return self.unsupported("dir");
        }
        self.equal_masked(Base::Link, 1, op::B, direction, TO_DS | FROM_DS)
    }

    /// Inserts before the first block the code that fills the registers of variable offsets.
    pub(super) fn compute_offsets(&mut self, head: BlockId) -> Gen<()> {
        if self.off_payload.register.is_some() && self.off_link.variable && self.off_link.register.is_none() {
            self.off_link.register = Some(self.alloc()?);
        }
        let mut s = match (self.outermost, self.off_link.register) {
            (LinkType::IEEE802_11_RADIOTAP | LinkType::PPI, Some(register)) => self.prefix_length(register),
            _ => Vec::new(),
        };
        if is_wlan(self.outermost)
            && let Some(register) = self.off_payload.register
        {
            let next = self.graph[head].stmts.first().map_or(0, |s| s.id);
            self.header_length(&mut s, register, next);
            self.optimizable = false;
        }
        if self.outermost == LinkType::PFLOG
            && let Some(register) = self.off_payload.register
        {
            s = self.pflog_length(register);
        }
        if !s.is_empty() {
            let block = &mut self.graph[head];
            s.append(&mut block.stmts);
            block.stmts = s;
        }
        Ok(())
    }

    /// The length of the radiotap or PPI header: two bytes at 2, the lower one first.
    fn prefix_length(&mut self, register: u32) -> Vec<Stmt> {
        vec![
            self.stmt(op::LD | op::B | op::ABS, 3),
            self.stmt(op::ALU | op::LSH | op::K, 8),
            self.stmt(op::MISC | op::TAX, 0),
            self.stmt(op::LD | op::B | op::ABS, 2),
            self.stmt(op::ALU | op::OR | op::X, 0),
            self.stmt(op::ST, register),
            self.stmt(op::MISC | op::TAX, 0),
        ]
    }

    /// The end of the 802.11 header: 24 bytes, 2 more with QoS, and padding if radiotap announces it.
    fn header_length(&mut self, s: &mut Vec<Stmt>, register: u32, next: u32) {
        const JSET: u16 = op::JMP | op::JSET | op::K;
        const ADD: u16 = op::ALU | op::ADD | op::K;
        const AND: u16 = op::ALU | op::AND | op::K;
        if s.is_empty() {
            s.push(self.stmt(op::LDX | op::IMM, 0));
        }
        let mut add = |g: &mut Self, code: u16, k: u32| {
            let stmt = g.stmt(code, k);
            s.push(stmt);
            stmt.id
        };
        add(self, op::MISC | op::TXA, 0);
        add(self, ADD, 24);
        add(self, op::ST, register);
        add(self, op::LD | op::IND | op::B, 0);
        let is_data = add(self, JSET, DATA);
        let is_control = add(self, JSET, CONTROL);
        let is_qos = add(self, JSET, QOS);
        let with_qos = add(self, op::LD | op::MEM, register);
        add(self, ADD, 2);
        add(self, op::ST, register);
        let mut jumps = vec![(is_data, is_control, next), (is_control, next, is_qos)];
        if self.link == LinkType::IEEE802_11_RADIOTAP {
            // Fields of radiotap are little-endian.
            let presence = add(self, op::LD | op::ABS | op::W, 4);
            let flags = add(self, JSET, 0x0000_0002u32.swap_bytes());
            let extended = add(self, JSET, 0x8000_0000u32.swap_bytes());
            let timestamp = add(self, JSET, 0x0000_0001u32.swap_bytes());
            let after_timestamp = add(self, op::LD | op::ABS | op::B, 16);
            let padded_a = add(self, JSET, 0x20);
            let first = add(self, op::LD | op::ABS | op::B, 8);
            let padded_b = add(self, JSET, 0x20);
            let round = add(self, op::LD | op::MEM, register);
            add(self, ADD, 3);
            add(self, AND, !3);
            add(self, op::ST, register);
            jumps.extend([
                (is_qos, with_qos, presence),
                (flags, extended, next),
                (extended, next, timestamp),
                (timestamp, after_timestamp, first),
                (padded_a, round, next),
                (padded_b, round, next),
            ]);
        } else {
            jumps.push((is_qos, with_qos, next));
        }
        for (from, jt, jf) in jumps {
            if let Some(stmt) = s.iter_mut().find(|s| s.id == from) {
                (stmt.jt, stmt.jf) = (jt, jf);
            }
        }
    }
}
