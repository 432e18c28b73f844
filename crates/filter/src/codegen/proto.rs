//! Tests of protocol numbers: in IP, in chains of IPv6 extension headers, in OSI headers.

use weir_wire::LinkType;

use super::{Base, Gen, Generator};
use crate::bpf::op;
use crate::error::ErrorKind;
use crate::graph::{BlockId, Stmt};
use crate::names::{Protocol, ethertype, ip_protocol, nlpid, sap};

/// PDU types of IS-IS (ISO/IEC 10589).
mod isis {
    pub const L1_HELLO: u32 = 15;
    pub const L2_HELLO: u32 = 16;
    pub const POINT_TO_POINT_HELLO: u32 = 17;
    pub const L1_LSP: u32 = 18;
    pub const L2_LSP: u32 = 20;
    pub const L1_CSNP: u32 = 24;
    pub const L2_CSNP: u32 = 25;
    pub const L1_PSNP: u32 = 26;
    pub const L2_PSNP: u32 = 27;
}

impl Generator {
    /// A protocol by itself.
    pub(super) fn protocol(&mut self, protocol: Protocol) -> Gen<BlockId> {
        use Protocol as P;
        use ip_protocol as ip;
        let isis: &[u32] = match protocol {
            P::Link => {
                let message = "link layer applied in wrong context";
                return Err(self.error(ErrorKind::Qualifier, message));
            }
            P::Radio => {
                return Err(self.error(ErrorKind::Qualifier, "'radio' is not a valid protocol type"));
            }
            P::Sctp => return self.proto(ip::SCTP, None),
            P::Tcp => return self.proto(ip::TCP, None),
            P::Udp => return self.proto(ip::UDP, None),
            P::Pim => return self.proto(ip::PIM, None),
            P::Ah => return self.proto(ip::AH, None),
            P::Esp => return self.proto(ip::ESP, None),
            P::Icmp => return self.proto(ip::ICMP, Some(P::Ip)),
            P::Igmp => return self.proto(ip::IGMP, Some(P::Ip)),
            P::Igrp => return self.proto(ip::IGRP, Some(P::Ip)),
            P::Vrrp | P::Carp => return self.proto(ip::VRRP, Some(P::Ip)),
            P::Icmp6 => return self.proto(ip::ICMPV6, Some(P::Ip6)),
            P::Esis => return self.proto(nlpid::ESIS, Some(P::Iso)),
            P::Isis => return self.proto(nlpid::ISIS, Some(P::Iso)),
            P::Clnp => return self.proto(nlpid::CLNP, Some(P::Iso)),
            P::Ip => return self.linktype(u32::from(ethertype::IP)),
            P::Ip6 => return self.linktype(u32::from(ethertype::IPV6)),
            P::Arp => return self.linktype(u32::from(ethertype::ARP)),
            P::Rarp => return self.linktype(u32::from(ethertype::RARP)),
            P::Atalk => return self.linktype(u32::from(ethertype::ATALK)),
            P::Aarp => return self.linktype(u32::from(ethertype::AARP)),
            P::Decnet => return self.linktype(u32::from(ethertype::DECNET)),
            P::Sca => return self.linktype(u32::from(ethertype::SCA)),
            P::Lat => return self.linktype(u32::from(ethertype::LAT)),
            P::Mopdl => return self.linktype(u32::from(ethertype::MOPDL)),
            P::Moprc => return self.linktype(u32::from(ethertype::MOPRC)),
            P::Iso => return self.linktype(sap::ISO),
            P::Stp => return self.linktype(sap::SPANNING_TREE),
            P::Ipx => return self.linktype(sap::IPX),
            P::Netbeui => return self.linktype(sap::NETBEUI),
            P::L1 => {
                &[isis::L1_HELLO, isis::POINT_TO_POINT_HELLO, isis::L1_LSP, isis::L1_CSNP, isis::L1_PSNP]
            }
            P::L2 => {
                &[isis::L2_HELLO, isis::POINT_TO_POINT_HELLO, isis::L2_LSP, isis::L2_CSNP, isis::L2_PSNP]
            }
            P::Iih => &[isis::L1_HELLO, isis::L2_HELLO, isis::POINT_TO_POINT_HELLO],
            P::Lsp => &[isis::L1_LSP, isis::L2_LSP],
            P::Snp => &[isis::L1_CSNP, isis::L2_CSNP, isis::L1_PSNP, isis::L2_PSNP],
            P::Csnp => &[isis::L1_CSNP, isis::L2_CSNP],
            P::Psnp => &[isis::L1_PSNP, isis::L2_PSNP],
        };
        // The second test is placed last, and each later one before the rest.
        let mut result = None;
        for (i, kind) in isis.iter().enumerate() {
            let b = self.proto(*kind, Some(P::Isis))?;
            result = Some(match result {
                None => b,
                Some(before) if i == 1 => self.graph.or(before, b),
                Some(before) => self.graph.or(b, before),
            });
        }
        Ok(result.unwrap_or_else(|| self.constant(false)))
    }

    /// Tests that the header of `protocol` announces `v`.
    pub(super) fn proto(&mut self, v: u32, protocol: Option<Protocol>) -> Gen<BlockId> {
        use Protocol as P;
        match protocol {
            None => {
                let b0 = self.proto(v, Some(P::Ip))?;
                let b1 = self.proto(v, Some(P::Ip6))?;
                Ok(self.graph.or(b0, b1))
            }
            Some(P::Link) => {
                if v > 0xffff {
                    return self.too_big("EtherType", v, 0xffff);
                }
                self.linktype(v)
            }
            Some(P::Ip) => {
                self.is_protocol_number(v)?;
                let b0 = self.linktype(u32::from(ethertype::IP))?;
                let b1 = self.equal(Base::Payload, 9, op::B, v)?;
                Ok(self.graph.and(b0, b1))
            }
            Some(P::Ip6) => {
                self.is_protocol_number(v)?;
                let b0 = self.linktype(u32::from(ethertype::IPV6))?;
                // In the fixed header, or in a fragment header.
                let b2 = self.equal(Base::Payload, 6, op::B, ip_protocol::FRAGMENT)?;
                let b1 = self.equal(Base::Payload, 40, op::B, v)?;
                let b1 = self.graph.and(b2, b1);
                let b2 = self.equal(Base::Payload, 6, op::B, v)?;
                let b1 = self.graph.or(b2, b1);
                Ok(self.graph.and(b0, b1))
            }
            Some(P::Iso) => {
                if v > 255 {
                    return self.too_big("ISO protocol", v, 255);
                }
                if self.link == LinkType::FRELAY {
                    return self.frame_relay_nlpid(v);
                }
                // Cisco HDLC has its own EtherType for OSI, and one more byte before the header.
                let (kind, offset) =
                    if self.link == LinkType::C_HDLC { (sap::ISO << 8 | sap::ISO, 1) } else { (sap::ISO, 0) };
                let b0 = self.linktype(kind)?;
                let b1 = self.equal(Base::PayloadNoSnap, offset, op::B, v)?;
                Ok(self.graph.and(b0, b1))
            }
            Some(P::Isis) => {
                if v > 255 {
                    return self.too_big("IS-IS PDU type", v, 255);
                }
                let b0 = self.proto(nlpid::ISIS, Some(P::Iso))?;
                let b1 = self.equal(Base::PayloadNoSnap, 4, op::B, v)?;
                Ok(self.graph.and(b0, b1))
            }
            Some(other) => self.not_a_qualifier(other.name(), "proto"),
        }
    }

    fn is_protocol_number(&self, v: u32) -> Gen<()> {
        if v > 255 {
            return self.too_big("protocol number", v, 255);
        }
        Ok(())
    }

    /// Tests that `v` is in the chain of headers. This is the only test with a loop: the block has jumps inside.
    pub(super) fn protochain(&mut self, v: u32, protocol: Option<Protocol>) -> Gen<BlockId> {
        let scratch = self.alloc()?;
        let v6 = match protocol {
            Some(Protocol::Ip) => false,
            Some(Protocol::Ip6) => true,
            None => {
                let b0 = self.protochain(v, Some(Protocol::Ip))?;
                let b1 = self.protochain(v, Some(Protocol::Ip6))?;
                return Ok(self.graph.or(b0, b1));
            }
            Some(other) => return self.not_a_qualifier(other.name(), "protochain"),
        };
        self.is_protocol_number(v)?;
        if self.off_payload.variable {
            let message = "'protochain' not supported with variable length headers";
            return Err(self.error(ErrorKind::Link, message));
        }
        self.optimizable = false;
        let network = self.off_payload.constant.wrapping_add(self.off_network);
        let b0 = self.linktype(u32::from(if v6 { ethertype::IPV6 } else { ethertype::IP }))?;
        let s = self.chain_loop(v, v6, network, scratch);
        let b = self.jump(op::JEQ, v, s);
        self.free(scratch);
        Ok(self.graph.and(b0, b))
    }

    /// A is the current protocol number, X the offset of its header from the network header.
    fn chain_loop(&mut self, v: u32, v6: bool, network: u32, scratch: u32) -> Vec<Stmt> {
        const JEQ: u16 = op::JMP | op::JEQ | op::K;
        let mut s = Vec::new();
        let mut add = |g: &mut Self, code: u16, k: u32| {
            s.push(g.stmt(code, k));
            s.len() - 1
        };
        add(self, op::LD | op::ABS | op::B, network.wrapping_add(if v6 { 6 } else { 9 }));
        if v6 {
            add(self, op::LDX | op::IMM, 40);
        } else {
            add(self, op::LDX | op::MSH | op::B, network);
        }
        let again = add(self, JEQ, v);
        let none = add(self, JEQ, ip_protocol::NONE);
        let back = |at: usize| (again as u32).wrapping_sub(at as u32).wrapping_sub(1);
        let mut extensions = Vec::new();
        let mut advance = None;
        if v6 {
            for header in [
                ip_protocol::HOP_OPTIONS,
                ip_protocol::DESTINATION_OPTIONS,
                ip_protocol::ROUTING,
                ip_protocol::FRAGMENT,
            ] {
                extensions.push(add(self, JEQ, header));
            }
            // X += (P[X + 1] + 1) * 8, A = P[previous X].
            advance = Some(add(self, op::LD | op::IND | op::B, network));
            add(self, op::ST, scratch);
            add(self, op::LD | op::IND | op::B, network.wrapping_add(1));
            add(self, op::ALU | op::ADD | op::K, 1);
            add(self, op::ALU | op::MUL | op::K, 8);
            add(self, op::ALU | op::ADD | op::X, 0);
            add(self, op::MISC | op::TAX, 0);
            let last = add(self, op::LD | op::MEM, scratch);
            add(self, op::JMP | op::JA, back(last + 1));
        } else {
            extensions.push(add(self, op::ALU | op::ADD | op::K, 0));
        }
        let ah = add(self, JEQ, ip_protocol::AH);
        // As in libpcap, the new X is the length of the header and not its end.
        let ah_body = add(self, op::MISC | op::TXA, 0);
        add(self, op::LD | op::IND | op::B, network);
        add(self, op::ST, scratch);
        add(self, op::MISC | op::TXA, 0);
        add(self, op::ALU | op::ADD | op::K, 1);
        add(self, op::MISC | op::TAX, 0);
        add(self, op::LD | op::IND | op::B, network);
        add(self, op::ALU | op::ADD | op::K, 2);
        add(self, op::ALU | op::MUL | op::K, 4);
        add(self, op::MISC | op::TAX, 0);
        let last = add(self, op::LD | op::MEM, scratch);
        add(self, op::JMP | op::JA, back(last + 1));
        let end = add(self, op::ALU | op::ADD | op::K, 0);

        let id = |s: &[Stmt], at: usize| s.get(at).map_or(0, |s| s.id);
        let mut join = |from: usize, jt: usize, jf: usize| {
            let (jt, jf) = (id(&s, jt), id(&s, jf));
            if let Some(stmt) = s.get_mut(from) {
                (stmt.jt, stmt.jf) = (jt, jf);
            }
        };
        join(again, end, none);
        let first = extensions.first().copied().unwrap_or(ah);
        join(none, end, first);
        if let Some(advance) = advance {
            for (i, at) in extensions.iter().enumerate() {
                join(*at, advance, extensions.get(i + 1).copied().unwrap_or(ah));
            }
        }
        join(ah, ah_body, end);
        s
    }
}
