//! Tests of the link layer: the protocol that it carries, and its group addresses.

use weir_wire::LinkType;

use super::{Base, Gen, Generator, Mode, NOT_SET};
use crate::ast::{ByteOperator, LlcType};
use crate::bpf::{extension, op};
use crate::error::ErrorKind;
use crate::graph::BlockId;
use crate::link::is_ethernet;
use crate::names::{Protocol, ethertype, sap};
use crate::view::ENCAPSULATIONS;

/// The largest value of Ethernet's type field that is a length.
const ETHERNET_MTU: u32 = 1500;

/// Types of Linux cooked captures for frames without an EtherType.
const SLL_802_3: u32 = 0x0001;
/// See [`SLL_802_3`].
const SLL_802_2: u32 = 0x0004;
/// Packet type of a sent packet, in Linux cooked captures and packet(7).
const SENT: u32 = 4;

/// Address families of BSD loopback headers: IPv4 is 2 everywhere, IPv6 is 24 on NetBSD, OpenBSD and BSD/OS, 28
/// on FreeBSD and 30 on Darwin.
const AF_INET: u32 = 2;
/// See [`AF_INET`].
const AF_INET6: [u32; 3] = [24, 28, 30];

/// PPP protocol numbers, by EtherType or SAP.
const PPP: &[(u32, u32)] = &[
    (ethertype::IP as u32, 0x0021),
    (ethertype::IPV6 as u32, 0x0057),
    (ethertype::DECNET as u32, 0x0027),
    (ethertype::ATALK as u32, 0x0029),
    (ethertype::NS as u32, 0x0025),
    (sap::ISO, 0x0023),
    (sap::SPANNING_TREE, 0x0031),
    (sap::IPX, 0x002b),
];

/// The name that libpcap has for a link type.
pub(super) fn dlt_name(link: LinkType) -> String {
    let name = match link {
        LinkType::NULL => "NULL",
        LinkType::ETHERNET => "EN10MB",
        LinkType::PPP => "PPP",
        LinkType::PPP_HDLC => "PPP_SERIAL",
        LinkType::PPP_ETHER => "PPP_ETHER",
        LinkType::RAW => "RAW",
        LinkType::C_HDLC => "C_HDLC",
        LinkType::IEEE802_11 => "IEEE802_11",
        LinkType::LOOP => "LOOP",
        LinkType::LINUX_SLL => "LINUX_SLL",
        LinkType::IEEE802_11_RADIOTAP => "IEEE802_11_RADIO",
        LinkType::IPV4 => "IPV4",
        LinkType::IPV6 => "IPV6",
        LinkType::LINUX_SLL2 => "LINUX_SLL2",
        other => match other.name() {
            Some(name) => name,
            None => return format!("link type {}", other.0),
        },
    };
    format!("DLT_{name}")
}

pub(super) fn is_wlan(link: LinkType) -> bool {
    matches!(link, LinkType::IEEE802_11 | LinkType::IEEE802_11_RADIOTAP | LinkType::PPI)
}

/// Whether libpcap supports only bytes and lengths for a link type: `link[0]`, `len` and the like.
pub(crate) fn has_bytes_only(link: LinkType) -> bool {
    /// From this number on, link types have equal numbers in files and in programs, and new link types are added.
    const MATCHING: u16 = 104;
    // Link-layer headers that do not start with the packet: Prism, AVS and netANALYZER.
    link.0 >= MATCHING && !matches!(link.0, 119 | 163 | 240 | 241)
}

impl Generator {
    /// A test that the link layer carries `proto`: an EtherType, or a SAP if it is at most 1500.
    pub(super) fn linktype(&mut self, proto: u32) -> Gen<BlockId> {
        if self.labels > 0 {
            return self.mpls_linktype(proto);
        }
        if self.context.mode == Mode::Encapsulated
            && !self.inside
            && ENCAPSULATIONS.iter().any(|t| u32::from(*t) == proto)
        {
            self.distinguishes = true;
            return Ok(self.extension(extension::HAS_TYPE | proto, op::JEQ, 1));
        }
        if self.context.mode == Mode::LookThrough
            && !self.inside
            && ENCAPSULATIONS.iter().any(|t| u32::from(*t) == proto)
        {
            self.distinguishes = true;
        }
        match self.link {
            _ if self.by_layers() => self.linktype_by_layers(proto),
            link if is_ethernet(link) => self.ethernet_linktype(proto),
            LinkType::FDDI => self.llc_linktype(proto),
            LinkType::ARCNET | LinkType::ARCNET_LINUX => self.arcnet_linktype(proto),
            LinkType::FRELAY => self.frame_relay_linktype(proto),
            LinkType::PFLOG => self.pflog_linktype(proto),
            LinkType::LINUX_SLL => self.sll_linktype(proto),
            LinkType::C_HDLC => {
                let proto = if proto == sap::ISO { proto << 8 | sap::ISO } else { proto };
                self.equal(Base::LinkType, 0, op::H, proto)
            }
            link if is_wlan(link) => {
                let b0 = self.wlan_data()?;
                let b1 = self.llc_linktype(proto)?;
                Ok(self.graph.and(b0, b1))
            }
            LinkType::RAW | LinkType::SLIP | LinkType::SLIP_BSDOS => match proto {
                p if p == u32::from(ethertype::IP) => self.equal_masked(Base::Link, 0, op::B, 0x40, 0xf0),
                p if p == u32::from(ethertype::IPV6) => self.equal_masked(Base::Link, 0, op::B, 0x60, 0xf0),
                _ => Ok(self.constant(false)),
            },
            LinkType::IPV4 => Ok(self.constant(proto == u32::from(ethertype::IP))),
            LinkType::IPV6 => Ok(self.constant(proto == u32::from(ethertype::IPV6))),
            LinkType::PPP | LinkType::PPP_HDLC | LinkType::PPP_ETHER => {
                let proto = PPP.iter().find(|(from, _)| *from == proto).map_or(proto, |(_, to)| *to);
                self.equal(Base::LinkType, 0, op::H, proto)
            }
            LinkType::NULL | LinkType::LOOP => match proto {
                p if p == u32::from(ethertype::IP) => self.loopback(AF_INET),
                p if p == u32::from(ethertype::IPV6) => {
                    let [a, b, c] = AF_INET6;
                    let b0 = self.loopback(a)?;
                    let b1 = self.loopback(b)?;
                    let b1 = self.graph.or(b0, b1);
                    let b0 = self.loopback(c)?;
                    Ok(self.graph.or(b0, b1))
                }
                _ => Ok(self.constant(false)),
            },
            _ if self.off_type.constant != NOT_SET => self.equal(Base::LinkType, 0, op::H, proto),
            _ => self.unsupported("link proto"),
        }
    }

    /// The address family is in the byte order of the capturing host, except for LOOP.
    fn loopback(&mut self, family: u32) -> Gen<BlockId> {
        if self.link == LinkType::LOOP {
            return self.equal(Base::Link, 0, op::W, family);
        }
        if self.context.mode == Mode::Strict {
            let family = if self.context.swapped { family } else { family.swap_bytes() };
            return self.equal(Base::Link, 0, op::W, family);
        }
        let b0 = self.equal(Base::Link, 0, op::W, family.swap_bytes())?;
        let b1 = self.equal(Base::Link, 0, op::W, family)?;
        Ok(self.graph.or(b0, b1))
    }

    /// A frame with a length in place of the EtherType.
    fn is_802_3(&mut self) -> Gen<BlockId> {
        self.at_most(Base::LinkType, 0, op::H, ETHERNET_MTU)
    }

    fn ethernet_linktype(&mut self, proto: u32) -> Gen<BlockId> {
        match proto {
            sap::ISO | sap::IP | sap::NETBEUI => {
                let b0 = self.is_802_3()?;
                let b1 = self.equal(Base::Llc, 0, op::H, proto << 8 | proto)?;
                Ok(self.graph.and(b0, b1))
            }
            sap::IPX => {
                let b0 = self.equal(Base::Llc, 0, op::B, sap::IPX)?;
                let b1 = self.equal(Base::Llc, 0, op::H, 0xffff)?;
                let b1 = self.graph.or(b0, b1);
                let b0 = self.snap(0, u32::from(ethertype::IPX))?;
                let b1 = self.graph.or(b0, b1);
                let b0 = self.is_802_3()?;
                let b1 = self.graph.and(b0, b1);
                let b0 = self.equal(Base::LinkType, 0, op::H, u32::from(ethertype::IPX))?;
                Ok(self.graph.or(b0, b1))
            }
            p if p == u32::from(ethertype::ATALK) || p == u32::from(ethertype::AARP) => {
                let b0 = self.is_802_3()?;
                let b1 = self.appletalk_snap(p)?;
                let b1 = self.graph.and(b0, b1);
                let b0 = self.equal(Base::LinkType, 0, op::H, p)?;
                Ok(self.graph.or(b0, b1))
            }
            _ if proto <= ETHERNET_MTU => {
                let b0 = self.is_802_3()?;
                let b1 = self.equal(Base::LinkType, 2, op::B, proto)?;
                Ok(self.graph.and(b0, b1))
            }
            _ => self.equal(Base::LinkType, 0, op::H, proto),
        }
    }

    /// AppleTalk has its own organisation code; its ARP does not.
    fn appletalk_snap(&mut self, proto: u32) -> Gen<BlockId> {
        let organisation = if proto == u32::from(ethertype::ATALK) { 0x08_00_07 } else { 0 };
        self.snap(organisation, proto)
    }

    fn sll_linktype(&mut self, proto: u32) -> Gen<BlockId> {
        match proto {
            sap::ISO | sap::IP | sap::NETBEUI => {
                let b0 = self.equal(Base::LinkType, 0, op::H, SLL_802_2)?;
                let b1 = self.equal(Base::Llc, 0, op::H, proto << 8 | proto)?;
                Ok(self.graph.and(b0, b1))
            }
            sap::IPX => {
                let b0 = self.equal(Base::Llc, 0, op::B, sap::IPX)?;
                let b1 = self.snap(0, u32::from(ethertype::IPX))?;
                let b1 = self.graph.or(b0, b1);
                let b0 = self.equal(Base::LinkType, 0, op::H, SLL_802_2)?;
                let b1 = self.graph.and(b0, b1);
                let b0 = self.equal(Base::LinkType, 0, op::H, SLL_802_3)?;
                let b1 = self.graph.or(b0, b1);
                let b0 = self.equal(Base::LinkType, 0, op::H, u32::from(ethertype::IPX))?;
                Ok(self.graph.or(b0, b1))
            }
            p if p == u32::from(ethertype::ATALK) || p == u32::from(ethertype::AARP) => {
                let b0 = self.equal(Base::LinkType, 0, op::H, SLL_802_2)?;
                let b1 = self.appletalk_snap(p)?;
                let b1 = self.graph.and(b0, b1);
                let b0 = self.equal(Base::LinkType, 0, op::H, p)?;
                Ok(self.graph.or(b0, b1))
            }
            _ if proto <= ETHERNET_MTU => {
                let b0 = self.equal(Base::LinkType, 0, op::H, SLL_802_2)?;
                let payload = self.off_payload.constant;
                let b1 = self.equal(Base::Link, payload, op::B, proto)?;
                Ok(self.graph.and(b0, b1))
            }
            _ => self.equal(Base::LinkType, 0, op::H, proto),
        }
    }

    /// A test of the protocol on link layers that always have an LLC header.
    fn llc_linktype(&mut self, proto: u32) -> Gen<BlockId> {
        match proto {
            sap::ISO | sap::IP | sap::NETBEUI => self.equal(Base::Llc, 0, op::H, proto << 8 | proto),
            sap::IPX => self.equal(Base::Llc, 0, op::B, sap::IPX),
            p if p == u32::from(ethertype::ATALK) => self.appletalk_snap(p),
            _ if proto <= ETHERNET_MTU => self.equal(Base::Llc, 0, op::B, proto),
            _ => self.equal(Base::Llc, 6, op::H, proto),
        }
    }

    /// LLC and SNAP headers with this organisation code and protocol.
    fn snap(&mut self, organisation: u32, proto: u32) -> Gen<BlockId> {
        let [_, a, b, c] = organisation.to_be_bytes();
        let [_, _, d, e] = proto.to_be_bytes();
        self.bytes(Base::Llc, 0, &[sap::SNAP as u8, sap::SNAP as u8, 0x03, a, b, c, d, e])
    }

    /// After an MPLS label: it must be the last one, and the version of IP is in the payload.
    fn mpls_linktype(&mut self, proto: u32) -> Gen<BlockId> {
        let version = match proto {
            p if p == u32::from(ethertype::IP) => 0x40,
            p if p == u32::from(ethertype::IPV6) => 0x60,
            _ => return Err(self.error(ErrorKind::Link, "unsupported protocol over mpls")),
        };
        let b0 = self.equal_masked(Base::Payload, 2u32.wrapping_neg(), op::B, 0x01, 0x01)?;
        let b1 = self.equal_masked(Base::Payload, 0, op::B, version, 0xf0)?;
        Ok(self.graph.and(b0, b1))
    }

    fn llc_any(&mut self) -> Gen<BlockId> {
        match self.link {
            LinkType::FDDI => Ok(self.constant(true)),
            link if is_ethernet(link) => {
                let b0 = self.is_802_3()?;
                // NetWare sends IPX directly in 802.3 frames.
                let b1 = self.equal(Base::Llc, 0, op::H, 0xffff)?;
                self.graph.not(b1);
                Ok(self.graph.and(b0, b1))
            }
            link if is_wlan(link) => self.wlan_data(),
            _ => self.unsupported("llc"),
        }
    }

    pub(super) fn llc(&mut self, kind: LlcType) -> Gen<BlockId> {
        const SUPERVISORY_MASK: u32 = 0x0f;
        const UNNUMBERED_MASK: u32 = 0xef;
        let b0 = self.llc_any()?;
        let b1 = match kind {
            LlcType::Any => return Ok(b0),
            LlcType::Information => self.no_bit(Base::Llc, 2, 0x01)?,
            LlcType::Supervisory => self.equal_masked(Base::Llc, 2, op::B, 0x01, 0x03)?,
            LlcType::Unnumbered => self.equal_masked(Base::Llc, 2, op::B, 0x03, 0x03)?,
            LlcType::SupervisoryOf(control) => {
                self.equal_masked(Base::Llc, 2, op::B, control, SUPERVISORY_MASK)?
            }
            LlcType::UnnumberedOf(control) => {
                self.equal_masked(Base::Llc, 2, op::B, control, UNNUMBERED_MASK)?
            }
        };
        Ok(self.graph.and(b0, b1))
    }

    pub(super) fn broadcast(&mut self, protocol: Option<Protocol>) -> Gen<BlockId> {
        match protocol {
            None | Some(Protocol::Link) => match self.link {
                link if is_ethernet(link) => {
                    let b1 = self.tunnel_has_link()?;
                    let b0 = self.bytes(Base::Link, 0, &[0xff; 6])?;
                    Ok(match b1 {
                        Some(b1) => self.graph.and(b1, b0),
                        None => b0,
                    })
                }
                link if is_wlan(link) => self.wlan_destination(&[0xff; 6]),
                _ => match self.media_group(true)? {
                    Some(b) => Ok(b),
                    None => self.unsupported("broadcast"),
                },
            },
            Some(Protocol::Ip) => {
                let Some(netmask) = self.context.netmask else {
                    let message = "netmask not known, so 'ip broadcast' not supported";
                    return Err(self.error(ErrorKind::Value, message));
                };
                let b0 = self.linktype(u32::from(ethertype::IP))?;
                let hosts = !netmask;
                let b1 = self.equal_masked(Base::Payload, 16, op::W, 0, hosts)?;
                let b2 = self.equal_masked(Base::Payload, 16, op::W, hosts, hosts)?;
                let b2 = self.graph.or(b1, b2);
                Ok(self.graph.and(b0, b2))
            }
            Some(other) => self.not_a_qualifier(other.name(), "broadcast"),
        }
    }

    pub(super) fn multicast(&mut self, protocol: Option<Protocol>) -> Gen<BlockId> {
        match protocol {
            None | Some(Protocol::Link) => match self.link {
                link if is_ethernet(link) => {
                    let b1 = self.tunnel_has_link()?;
                    let b0 = self.any_bit(Base::Link, 0, 1)?;
                    Ok(match b1 {
                        Some(b1) => self.graph.and(b1, b0),
                        None => b0,
                    })
                }
                link if is_wlan(link) => self.wlan_multicast(),
                _ => match self.media_group(false)? {
                    Some(b) => Ok(b),
                    None => self.unsupported("multicast"),
                },
            },
            Some(Protocol::Ip) => {
                let b0 = self.linktype(u32::from(ethertype::IP))?;
                let b1 = self.at_least(Base::Payload, 16, op::B, 224)?;
                Ok(self.graph.and(b0, b1))
            }
            Some(Protocol::Ip6) => {
                let b0 = self.linktype(u32::from(ethertype::IPV6))?;
                let b1 = self.equal(Base::Payload, 24, op::B, 255)?;
                Ok(self.graph.and(b0, b1))
            }
            Some(other) => self.not_a_qualifier(other.name(), "multicast"),
        }
    }

    /// `inbound` and `outbound`: read from the header of a cooked capture; otherwise known only in a live capture.
    pub(super) fn direction(&mut self, out: bool) -> Gen<BlockId> {
        if let Some(b) = self.media_direction(out)? {
            return Ok(b);
        }
        let b = match self.link {
            LinkType::LINUX_SLL => self.equal(Base::Link, 0, op::H, SENT)?,
            LinkType::LINUX_SLL2 => self.equal(Base::Link, 10, op::B, SENT)?,
            _ if self.context.live => self.extension(extension::PACKET_TYPE, op::JEQ, SENT),
            link => {
                let word = if out { "outbound" } else { "inbound" };
                let message = format!("not a live capture, '{word}' not supported on {}", dlt_name(link));
                return Err(self.error(ErrorKind::Link, message));
            }
        };
        if !out {
            self.graph.not(b);
        }
        Ok(b)
    }

    pub(super) fn interface(&mut self, index: u32) -> Gen<BlockId> {
        match self.link {
            LinkType::LINUX_SLL2 => self.equal(Base::Link, 4, op::W, index),
            _ => self.unsupported("ifindex"),
        }
    }

    pub(super) fn byte(&mut self, index: u32, operator: ByteOperator, value: u32) -> Gen<BlockId> {
        let (jump, negated) = match operator {
            ByteOperator::Equal => (op::JEQ, false),
            ByteOperator::Less => (op::JGE, true),
            ByteOperator::Greater => (op::JGT, false),
            ByteOperator::And | ByteOperator::Or => {
                // As libpcap does: the operation uses the value that the previous test has left in A.
                let alu = if operator == ByteOperator::And { op::AND } else { op::OR };
                let s = vec![self.stmt(op::ALU | alu | op::K, value)];
                let b = self.jump(op::JEQ, 0, s);
                self.graph.not(b);
                return Ok(b);
            }
        };
        let mut s = self.load(Base::Link, index, op::B)?;
        self.raw(&mut s);
        let b = self.jump(jump, value, s);
        if negated {
            self.graph.not(b);
        }
        Ok(b)
    }

    /// A load that names bytes of the frame reads the frame unchanged.
    pub(super) fn raw(&mut self, stmts: &mut [crate::graph::Stmt]) {
        if self.context.mode == Mode::Strict || self.inside {
            return;
        }
        self.distinguishes = true;
        if self.context.mode == Mode::Encapsulated
            && let Some(load) = stmts.last_mut()
        {
            load.code |= op::RAW;
        }
    }
}
