//! Headers between the link layer and the network layer, and tunnels that an expression can enter.
//!
//! In [`Mode::Strict`], and inside a tunnel, each of these words moves the offsets of the tests after it. In the other
//! modes VLAN tags, MPLS labels and PPPoE headers have been removed, and the words test the removed headers.

use weir_wire::LinkType;

use super::linktype::is_wlan;
use super::port::Family;
use super::{Base, Gen, Generator, Mode, Offset};
use crate::ast::Side;
use crate::bpf::{extension, op};
use crate::graph::{BlockId, Stmt};
use crate::link::is_ethernet;
use crate::names::{ethertype, ip_protocol};

const GENEVE_PORT: u32 = 6081;
const VXLAN_PORT: u32 = 4789;
const MAX_VLAN: u32 = 0x0fff;
const MAX_LABEL: u32 = 0x000f_ffff;
const MAX_SESSION: u32 = 0xffff;
const MAX_VNI: u32 = 0x00ff_ffff;

impl Generator {
    /// Whether offsets move.
    fn moves(&self) -> bool {
        self.context.mode == Mode::Strict || self.inside
    }

    /// A test of a tag, label or session that was removed.
    fn taken_out(&mut self, k: u32, value: Option<u32>) -> BlockId {
        match value {
            Some(value) => self.extension(k, op::JEQ, value),
            None => {
                let b = self.extension(k, op::JEQ, extension::ABSENT);
                self.graph.not(b);
                b
            }
        }
    }

    pub(super) fn vlan(&mut self, id: Option<u32>) -> Gen<BlockId> {
        if self.labels > 0 {
            return Err(self.error(crate::ErrorKind::Link, "no VLAN match after MPLS"));
        }
        let cooked = matches!(self.link, LinkType::LINUX_SLL | LinkType::LINUX_SLL2);
        let strict = self.context.mode == Mode::Strict;
        let supported = match self.link {
            LinkType::PPI => !strict,
            link => is_ethernet(link) || is_wlan(link) || cooked && !strict,
        };
        if !supported {
            return self.unsupported("vlan");
        }
        if let Some(id) = id
            && id > MAX_VLAN
        {
            return self.too_big("VLAN tag", id, MAX_VLAN);
        }
        if !self.moves() && !is_wlan(self.link) {
            let depth = self.depth.vlan;
            self.depth.vlan += 1;
            return Ok(self.taken_out(extension::VLAN | depth, id));
        }
        let b0 = self.linktype(u32::from(ethertype::VLAN))?;
        let b1 = self.linktype(u32::from(ethertype::PROVIDER_BRIDGE))?;
        let b0 = self.graph.or(b0, b1);
        let b1 = self.linktype(u32::from(ethertype::QINQ_OLD))?;
        let mut b0 = self.graph.or(b0, b1);
        if let Some(id) = id {
            let b1 = self.equal_masked(Base::Payload, 0, op::H, id, MAX_VLAN)?;
            b0 = self.graph.and(b0, b1);
        }
        self.off_payload.constant = self.off_payload.constant.wrapping_add(4);
        self.off_type.constant = self.off_type.constant.wrapping_add(4);
        Ok(b0)
    }

    pub(super) fn mpls(&mut self, label: Option<u32>) -> Gen<BlockId> {
        const PPP_MPLS: u32 = 0x0281;
        let kind = match self.link {
            LinkType::C_HDLC => u32::from(ethertype::MPLS),
            link if is_ethernet(link) => u32::from(ethertype::MPLS),
            LinkType::PPP => PPP_MPLS,
            LinkType::PPP_HDLC | LinkType::LINUX_SLL | LinkType::LINUX_SLL2
                if self.context.mode != Mode::Strict =>
            {
                u32::from(ethertype::MPLS)
            }
            _ => return self.unsupported("mpls"),
        };
        if let Some(label) = label
            && label > MAX_LABEL
        {
            return self.too_big("MPLS label", label, MAX_LABEL);
        }
        if !self.moves() {
            let depth = self.depth.mpls;
            self.depth.mpls += 1;
            return Ok(self.taken_out(extension::MPLS | depth, label));
        }
        let mut b0 = if self.labels > 0 {
            // Another label follows if the previous one is not the last.
            self.equal_masked(Base::PreviousMpls, 2, op::B, 0, 0x01)?
        } else {
            self.linktype(kind)?
        };
        if let Some(label) = label {
            let b1 = self.equal_masked(Base::Payload, 0, op::W, label << 12, MAX_LABEL << 12)?;
            b0 = self.graph.and(b0, b1);
        }
        self.off_network_no_snap = self.off_network_no_snap.wrapping_add(4);
        self.off_network = self.off_network.wrapping_add(4);
        self.labels += 1;
        Ok(b0)
    }

    pub(super) fn pppoe(&mut self, session: Option<u32>) -> Gen<BlockId> {
        if let Some(session) = session
            && session > MAX_SESSION
        {
            return self.too_big("PPPoE session number", session, MAX_SESSION);
        }
        if !self.moves() && !is_wlan(self.link) {
            let depth = self.depth.pppoe;
            self.depth.pppoe += 1;
            return Ok(self.taken_out(extension::PPPOE | depth, session));
        }
        let mut b0 = self.linktype(u32::from(ethertype::PPPOE_SESSION))?;
        if let Some(session) = session {
            let b1 = self.equal_masked(Base::Payload, 0, op::W, session, MAX_SESSION)?;
            b0 = self.graph.and(b0, b1);
        }
        // PPP without framing follows after 6 bytes.
        self.tunnelled = false;
        self.link = LinkType::PPP;
        self.off_link = Offset {
            constant: self.off_payload.constant.wrapping_add(self.off_network).wrapping_add(6),
            ..self.off_payload
        };
        self.off_type = self.off_link;
        self.off_payload.constant = self.off_link.constant.wrapping_add(2);
        self.off_network = 0;
        self.off_network_no_snap = 0;
        Ok(b0)
    }

    pub(super) fn geneve(&mut self, vni: Option<u32>) -> Gen<BlockId> {
        // The first two bits are the version.
        let b0 = self.tunnel(Family::V4, GENEVE_PORT, (0, 0xc0), "Geneve VNI", vni)?;
        let b1 = self.tunnel(Family::V6, GENEVE_PORT, (0, 0xc0), "Geneve VNI", vni)?;
        let b0 = self.graph.or(b0, b1);
        let s = self.geneve_offsets()?;
        Ok(self.enter(b0, s))
    }

    pub(super) fn vxlan(&mut self, vni: Option<u32>) -> Gen<BlockId> {
        // The flag marks the VNI as valid.
        let b0 = self.tunnel(Family::V4, VXLAN_PORT, (0x08, 0x08), "VXLAN VNI", vni)?;
        let b1 = self.tunnel(Family::V6, VXLAN_PORT, (0x08, 0x08), "VXLAN VNI", vni)?;
        let b0 = self.graph.or(b0, b1);
        let s = self.vxlan_offsets()?;
        Ok(self.enter(b0, s))
    }

    /// Runs code if `b` holds. The tests that follow apply to the inner packet.
    fn enter(&mut self, b: BlockId, mut s: Vec<Stmt>) -> BlockId {
        let b1 = self.constant(true);
        let block = &mut self.graph[b1];
        s.append(&mut block.stmts);
        block.stmts = s;
        self.tunnelled = true;
        self.inside = true;
        self.graph.and(b, b1)
    }

    /// A UDP tunnel. Leaves the length of the IP header, with the variable part before it, in A and X.
    fn tunnel(
        &mut self,
        family: Family,
        port: u32,
        (value, mask): (u32, u32),
        what: &str,
        vni: Option<u32>,
    ) -> Gen<BlockId> {
        let base = if family == Family::V4 { Base::Transport4 } else { Base::Transport6 };
        let b0 = self.port(family, port, None, Some(ip_protocol::UDP), Side::Dst)?;
        let b1 = self.equal_masked(base, 8, op::B, value, mask)?;
        let mut b0 = self.graph.and(b0, b1);
        if let Some(vni) = vni {
            if vni > MAX_VNI {
                return self.too_big(what, vni, MAX_VNI);
            }
            let b1 = self.equal_masked(base, 12, op::W, vni << 8, MAX_VNI << 8)?;
            b0 = self.graph.and(b0, b1);
        }
        let s = match family {
            Family::V4 => {
                let mut s = self.load_ip_header_len()?;
                s.push(self.stmt(op::MISC | op::TXA, 0));
                s
            }
            Family::V6 => {
                let mut s = self.variable_part(|g| &mut g.off_payload)?;
                let varies = !s.is_empty();
                s.push(self.stmt(op::LD | op::IMM, 40));
                if varies {
                    s.push(self.stmt(op::ALU | op::ADD | op::X, 0));
                }
                s.push(self.stmt(op::MISC | op::TAX, 0));
                s
            }
        };
        // A and X are equal, so that this always holds.
        let b1 = self.graph.block(op::JMP | op::JEQ | op::X, 0, s);
        Ok(self.graph.and(b0, b1))
    }

    fn variable(&mut self) -> Gen<Offset> {
        Ok(Offset { variable: true, constant: 0, register: Some(self.alloc()?) })
    }

    /// Code that finds the inner packet's type field, link header and payload; A is the IP header's length.
    fn geneve_offsets(&mut self) -> Gen<Vec<Stmt>> {
        let transport = self.off_payload.constant.wrapping_add(self.off_network).wrapping_add(8);
        let mut s = vec![
            self.stmt(op::ALU | op::ADD | op::K, transport),
            self.stmt(op::MISC | op::TAX, 0),
            self.stmt(op::ALU | op::ADD | op::K, 2),
        ];
        self.off_type = self.variable()?;
        let off_type = self.off_type.register.unwrap_or(0);
        s.extend([
            self.stmt(op::ST, off_type),
            // Options are in words of 4 bytes.
            self.stmt(op::LD | op::IND | op::B, 0),
            self.stmt(op::ALU | op::AND | op::K, 0x3f),
            self.stmt(op::ALU | op::MUL | op::K, 4),
            self.stmt(op::ALU | op::ADD | op::K, 8),
            self.stmt(op::ALU | op::ADD | op::X, 0),
        ]);
        // Without an Ethernet header the type in the GENEVE header has the same meaning.
        self.link = LinkType::ETHERNET;
        self.off_link = self.variable()?;
        let off_link = self.off_link.register.unwrap_or(0);
        self.optimizable = false;
        s.extend([
            self.stmt(op::ST, off_link),
            self.stmt(op::LD | op::IND | op::H, 2),
            self.stmt(op::LDX | op::MEM, off_link),
        ]);
        let mut is_ethernet =
            self.stmt(op::JMP | op::JEQ | op::K, u32::from(ethertype::TRANSPARENT_BRIDGING));
        let ethernet = [
            self.stmt(op::MISC | op::TXA, 0),
            self.stmt(op::ALU | op::ADD | op::K, 12),
            self.stmt(op::ST, off_type),
            self.stmt(op::ALU | op::ADD | op::K, 2),
            self.stmt(op::MISC | op::TAX, 0),
        ];
        self.off_payload = self.variable()?;
        let store = self.stmt(op::STX, self.off_payload.register.unwrap_or(0));
        (is_ethernet.jt, is_ethernet.jf) = (ethernet[0].id, store.id);
        s.push(is_ethernet);
        s.extend(ethernet);
        s.push(store);
        self.off_network = 0;
        Ok(s)
    }

    /// Enters VXLAN, which always carries Ethernet.
    fn vxlan_offsets(&mut self) -> Gen<Vec<Stmt>> {
        let inner = self.off_payload.constant.wrapping_add(self.off_network).wrapping_add(8 + 8);
        self.link = LinkType::ETHERNET;
        self.off_link = self.variable()?;
        self.off_type = self.variable()?;
        self.off_payload = self.variable()?;
        self.off_network = 0;
        self.off_network_no_snap = 3;
        let [link, kind, payload] =
            [self.off_link, self.off_type, self.off_payload].map(|o| o.register.unwrap_or(0));
        Ok(vec![
            self.stmt(op::ALU | op::ADD | op::K, inner),
            self.stmt(op::ST, link),
            self.stmt(op::ALU | op::ADD | op::K, 12),
            self.stmt(op::ST, kind),
            self.stmt(op::ALU | op::ADD | op::K, 2),
            self.stmt(op::ST, payload),
        ])
    }

    /// Tests that the inner packet has a link-layer header, which tests of the link layer require.
    pub(super) fn tunnel_has_link(&mut self) -> Gen<Option<BlockId>> {
        if !self.tunnelled {
            return Ok(None);
        }
        let s = vec![
            self.stmt(op::LD | op::MEM, self.off_link.register.unwrap_or(0)),
            self.stmt(op::LDX | op::MEM, self.off_payload.register.unwrap_or(0)),
        ];
        let b = self.graph.block(op::JMP | op::JEQ | op::X, 0, s);
        self.graph.not(b);
        Ok(Some(b))
    }
}
