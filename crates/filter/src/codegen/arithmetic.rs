//! Comparisons of computed numbers.

use weir_wire::LinkType;

use super::{Base, Gen, Generator};
use crate::ast::{Arithmetic, Relation};
use crate::bpf::op;
use crate::error::ErrorKind;
use crate::graph::{BlockId, Stmt};
use crate::names::{Protocol, ip_protocol};

/// A number that code leaves in a scratch register.
struct Number {
    /// Tests that a packet must pass before the code may run.
    guard: Option<BlockId>,
    code: Vec<Stmt>,
    register: u32,
}

impl Generator {
    pub(super) fn relation(&mut self, relation: &Relation) -> Gen<BlockId> {
        let left = self.number(&relation.left)?;
        let right = self.number(&relation.right)?;
        self.relate(relation, left, right)
    }

    /// A relation in which libpcap computes one side and takes the right side's registers first.
    pub(super) fn relation_from_the_right(&mut self, relation: &Relation) -> Gen<BlockId> {
        let right = self.number(&relation.right)?;
        let left = self.number(&relation.left)?;
        self.relate(relation, left, right)
    }

    fn relate(&mut self, relation: &Relation, mut left: Number, mut right: Number) -> Gen<BlockId> {
        let x = self.stmt(op::LDX | op::MEM, right.register);
        let a = self.stmt(op::LD | op::MEM, left.register);
        right.code.extend([x, a]);
        let code = if relation.jump == op::JEQ {
            let subtract = self.stmt(op::ALU | op::SUB | op::X, 0);
            right.code.push(subtract);
            op::JMP | op::JEQ | op::K
        } else {
            op::JMP | relation.jump | op::X
        };
        left.code.append(&mut right.code);
        let b = self.graph.block(code, 0, left.code);
        if relation.reversed {
            self.graph.not(b);
        }
        self.free(left.register);
        self.free(right.register);
        let guard = match (left.guard, right.guard) {
            (Some(a), Some(b)) => Some(self.graph.and(a, b)),
            (a, b) => a.or(b),
        };
        Ok(match guard {
            Some(guard) => self.graph.and(guard, b),
            None => b,
        })
    }

    fn number(&mut self, number: &Arithmetic) -> Gen<Number> {
        match number {
            Arithmetic::Number(value) => self.leaf(op::LD | op::IMM, *value),
            Arithmetic::Len => self.leaf(op::LD | op::LEN, 0),
            Arithmetic::Negative(inner) => {
                let mut n = self.number(inner)?;
                let code = [
                    self.stmt(op::LD | op::MEM, n.register),
                    self.stmt(op::ALU | op::NEG, 0),
                    self.stmt(op::ST, n.register),
                ];
                n.code.extend(code);
                Ok(n)
            }
            Arithmetic::Chain(first, rest, _) => {
                let mut left = self.number(first)?;
                for (operator, operand) in rest {
                    let right = self.number(operand)?;
                    left = self.binary(*operator, left, right)?;
                }
                Ok(left)
            }
            Arithmetic::Load(protocol, offset, size, span) => {
                let offset = self.number(offset)?;
                let outer = std::mem::replace(&mut self.span, span.clone());
                let loaded = self.field(*protocol, offset, *size)?;
                self.span = outer;
                Ok(loaded)
            }
        }
    }

    fn leaf(&mut self, code: u16, k: u32) -> Gen<Number> {
        let register = self.alloc()?;
        let code = vec![self.stmt(code, k), self.stmt(op::ST, register)];
        Ok(Number { guard: None, code, register })
    }

    fn binary(&mut self, operator: u16, mut left: Number, mut right: Number) -> Gen<Number> {
        if let Some(Stmt { code, k, .. }) = right.code.first()
            && *code == op::LD | op::IMM
        {
            let wrong = match operator {
                op::DIV if *k == 0 => Some("division by zero"),
                op::MOD if *k == 0 => Some("modulus by zero"),
                op::LSH | op::RSH if *k > 31 => Some("shift by more than 31 bits"),
                _ => None,
            };
            if let Some(message) = wrong {
                return Err(self.error(ErrorKind::Value, message));
            }
        }
        let code = [
            self.stmt(op::LDX | op::MEM, right.register),
            self.stmt(op::LD | op::MEM, left.register),
            self.stmt(op::ALU | operator | op::X, 0),
        ];
        left.code.append(&mut right.code);
        left.code.extend(code);
        self.free(left.register);
        self.free(right.register);
        left.register = self.alloc()?;
        let store = self.stmt(op::ST, left.register);
        left.code.push(store);
        // A field on the right is read even if its guard does not hold: libpcap keeps only the guard of the left one.
        Ok(left)
    }

    /// Code that adds the offset in a register to X, which holds the variable start of a header; or sets X to the
    /// offset if the header starts at a constant.
    fn index(&mut self, mut start: Vec<Stmt>, register: u32) -> Vec<Stmt> {
        if start.is_empty() {
            return vec![self.stmt(op::LDX | op::MEM, register)];
        }
        let add = [
            self.stmt(op::LD | op::MEM, register),
            self.stmt(op::ALU | op::ADD | op::X, 0),
            self.stmt(op::MISC | op::TAX, 0),
        ];
        start.extend(add);
        start
    }

    /// `protocol[offset:size]`.
    fn field(&mut self, protocol: Protocol, mut offset: Number, size: u32) -> Gen<Number> {
        use Protocol as P;
        let register = self.alloc()?;
        self.free(offset.register);
        let size = match size {
            1 => op::B,
            2 => op::H,
            4 => op::W,
            _ => return Err(self.error(ErrorKind::Value, "data size must be 1, 2, or 4")),
        };
        let network = self.off_payload.constant.wrapping_add(self.off_network);
        let mut s;
        match protocol {
            P::Radio => {
                if self.link != LinkType::IEEE802_11_RADIOTAP {
                    return Err(self.error(ErrorKind::Link, "radio information not present in capture"));
                }
                s = self.index(Vec::new(), offset.register);
                s.push(self.stmt(op::LD | op::IND | size, 0));
            }
            P::Link => {
                let start = self.variable_part(|g| &mut g.off_link)?;
                s = self.index(start, offset.register);
                let k = self.off_link.constant;
                s.push(self.stmt(op::LD | op::IND | size, k));
                self.raw(&mut s);
            }
            P::Ip
            | P::Arp
            | P::Rarp
            | P::Atalk
            | P::Decnet
            | P::Sca
            | P::Lat
            | P::Moprc
            | P::Mopdl
            | P::Ip6 => {
                let start = self.variable_part(|g| &mut g.off_payload)?;
                s = self.index(start, offset.register);
                s.push(self.stmt(op::LD | op::IND | size, network));
                let b = self.protocol(protocol)?;
                offset.guard = Some(self.guarded(offset.guard, b));
            }
            P::Sctp | P::Tcp | P::Udp | P::Icmp | P::Igmp | P::Igrp | P::Pim | P::Vrrp | P::Carp => {
                let start = self.load_ip_header_len()?;
                s = self.index(start, offset.register);
                s.push(self.stmt(op::LD | op::IND | size, network));
                let is = self.protocol(protocol)?;
                let b = self.not_later_fragment()?;
                let b = self.graph.and(is, b);
                let b = self.guarded(offset.guard, b);
                let ip = self.protocol(P::Ip)?;
                offset.guard = Some(self.graph.and(ip, b));
            }
            P::Icmp6 => {
                let b = self.protocol(P::Ip6)?;
                let before = self.guarded(offset.guard, b);
                let b = self.equal(Base::Payload, 6, op::B, ip_protocol::ICMPV6)?;
                offset.guard = Some(self.graph.and(before, b));
                let start = self.variable_part(|g| &mut g.off_payload)?;
                s = self.index(start, offset.register);
                s.push(self.stmt(op::LD | op::IND | size, network.wrapping_add(40)));
            }
            _ => {
                let message = format!("'{}' does not support the index operation", protocol.name());
                return Err(self.error(ErrorKind::Qualifier, message));
            }
        }
        offset.code.append(&mut s);
        offset.register = register;
        let store = self.stmt(op::ST, register);
        offset.code.push(store);
        Ok(offset)
    }

    fn guarded(&mut self, before: Option<BlockId>, b: BlockId) -> BlockId {
        match before {
            Some(before) => self.graph.and(before, b),
            None => b,
        }
    }

    /// Frames of a radio capture that are not IEEE 802.11 never match.
    pub(super) fn ppi_check(&mut self) -> BlockId {
        let s = vec![self.stmt(op::LD | op::ABS | op::W, 4)];
        debug_assert_eq!(self.outermost, LinkType::PPI);
        self.jump(op::JEQ, u32::from(LinkType::IEEE802_11.0).swap_bytes(), s)
    }
}
