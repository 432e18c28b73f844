//! Tests of the ports of TCP, UDP and SCTP.

use super::{Base, Gen, Generator};
use crate::ast::{IdKind, Qualifiers, Side};
use crate::bpf::op;
use crate::error::ErrorKind;
use crate::graph::BlockId;
use crate::names::{Protocol, ethertype, ip_protocol};

const MAX: u32 = 65535;

/// The network protocol before a transport header.
#[derive(Clone, Copy, Eq, PartialEq)]
pub(super) enum Family {
    V4,
    V6,
}

impl Generator {
    pub(super) fn port_number(&mut self, q: Qualifiers, low: u32, high: u32, kind: &str) -> Gen<BlockId> {
        let transport = self.transport(q, kind)?;
        for port in [low, high] {
            if port > MAX {
                return self.too_big(&format!("{kind} number"), port, MAX);
            }
        }
        self.ports(low, high, transport, q, q.kind == IdKind::PortRange)
    }

    /// The protocol number of the written transport protocol.
    fn transport(&self, q: Qualifiers, kind: &str) -> Gen<Option<u32>> {
        if let Some(name) = q.direction.wlan_name() {
            return self.not_a_qualifier(name, kind);
        }
        match q.protocol {
            None => Ok(None),
            Some(Protocol::Tcp) => Ok(Some(ip_protocol::TCP)),
            Some(Protocol::Udp) => Ok(Some(ip_protocol::UDP)),
            Some(Protocol::Sctp) => Ok(Some(ip_protocol::SCTP)),
            Some(other) => self.not_a_qualifier(other.name(), kind),
        }
    }

    pub(super) fn named_port(&mut self, q: Qualifiers, name: &str) -> Gen<BlockId> {
        let kind = q.kind.name();
        let wanted = self.transport(q, kind)?;
        let is_range = q.kind == IdKind::PortRange;
        let (low, high, of) = if is_range {
            let (a, b) = self.split_range(name)?;
            let ((low, p), (high, r)) = (self.service(a)?, self.service(b)?);
            (low, high, if p == r { p } else { None })
        } else {
            let (port, of) = self.service(name)?;
            (port, port, of)
        };
        if let (Some(wanted), Some(of)) = (wanted, of)
            && wanted != of
        {
            let of = if of == ip_protocol::TCP { "tcp" } else { "udp" };
            let range = if is_range { " in range" } else { "" };
            return Err(self.error(ErrorKind::Value, format!("port{range} '{name}' is {of}")));
        }
        for port in [low, high] {
            if port > MAX {
                return self.too_big(&format!("{kind} number"), port, MAX);
            }
        }
        self.ports(low, high, wanted.or(of), q, is_range)
    }

    /// `a-b`. The name of a service can have hyphens, so that every hyphen is tried.
    fn split_range<'n>(&self, name: &'n str) -> Gen<(&'n str, &'n str)> {
        let mut found = None;
        for (at, _) in name.match_indices('-') {
            let (a, b) = (&name[..at], &name[at + 1..]);
            if a.is_empty() || b.is_empty() {
                continue;
            }
            found.get_or_insert((a, b));
            if self.service(a).is_ok() && self.service(b).is_ok() {
                return Ok((a, b));
            }
        }
        if self.service(name).is_ok() {
            return Ok((name, name));
        }
        found.ok_or_else(|| {
            self.error(ErrorKind::Value, format!("port range '{name}' is not of the form `low-high`"))
        })
    }

    fn ports(
        &mut self,
        low: u32,
        high: u32,
        transport: Option<u32>,
        q: Qualifiers,
        range: bool,
    ) -> Gen<BlockId> {
        let (low, high) = (low.min(high), low.max(high));
        let range = range.then_some(high);
        let b4 = self.port(Family::V4, low, range, transport, q.direction)?;
        let b6 = self.port(Family::V6, low, range, transport, q.direction)?;
        Ok(self.graph.or(b6, b4))
    }

    /// A port, or with `high` a range of ports.
    pub(super) fn port(
        &mut self,
        family: Family,
        low: u32,
        high: Option<u32>,
        transport: Option<u32>,
        side: Side,
    ) -> Gen<BlockId> {
        let ether_type = if family == Family::V4 { ethertype::IP } else { ethertype::IPV6 };
        let b0 = self.linktype(u32::from(ether_type))?;
        let b1 = match transport {
            Some(transport) => self.transport_port(family, low, high, transport, side)?,
            None => {
                let tmp = self.transport_port(family, low, high, ip_protocol::TCP, side)?;
                let b1 = self.transport_port(family, low, high, ip_protocol::UDP, side)?;
                let b1 = self.graph.or(tmp, b1);
                let tmp = self.transport_port(family, low, high, ip_protocol::SCTP, side)?;
                self.graph.or(tmp, b1)
            }
        };
        Ok(self.graph.and(b0, b1))
    }

    fn transport_port(
        &mut self,
        family: Family,
        low: u32,
        high: Option<u32>,
        transport: u32,
        side: Side,
    ) -> Gen<BlockId> {
        let b0 = match family {
            Family::V4 => {
                let tmp = self.equal(Base::Payload, 9, op::B, transport)?;
                let b0 = self.not_later_fragment()?;
                self.graph.and(tmp, b0)
            }
            Family::V6 => self.equal(Base::Payload, 6, op::B, transport)?,
        };
        let base = if family == Family::V4 { Base::Transport4 } else { Base::Transport6 };
        let b1 = super::sides(self, side, |g, src| {
            let offset = if src { 0 } else { 2 };
            let Some(high) = high else { return g.equal(base, offset, op::H, low) };
            let b1 = g.at_least(base, offset, op::H, low)?;
            let b2 = g.at_most(base, offset, op::H, high)?;
            Ok(g.graph.and(b1, b2))
        })?;
        Ok(self.graph.and(b0, b1))
    }

    /// A test that the packet is no later IPv4 fragment: only the first fragment has the transport header.
    pub(super) fn not_later_fragment(&mut self) -> Gen<BlockId> {
        let s = self.load(Base::Payload, 6, op::H)?;
        let b = self.jump(op::JSET, 0x1fff, s);
        self.graph.not(b);
        Ok(b)
    }
}
