//! Packets built header by header, for tests and traffic generators.
//!
//! ```
//! use weir_wire::{build, build::flags};
//! let frame = build::ethernet()
//!     .vlan(7)
//!     .ipv4([10, 0, 0, 1], [10, 0, 0, 2])
//!     .ttl(3)
//!     .tcp(40_000, 80, flags::PSH | flags::ACK)
//!     .seq(1)
//!     .payload(b"GET / HTTP/1.0\r\n\r\n");
//! assert_eq!(frame.len(), 14 + 4 + 20 + 20 + 18);
//! ```
//!
//! Lengths, the fields that say what follows, and checksums are filled in. Headers nest in any order, so that tunnels
//! are built by going on: `.udp(1, 4789).raw(&vxlan).frame().ipv4(..)`.

use crate::header::{Ethernet, Header, Icmp, Ipv4, Ipv6, Tcp, Udp, Vlan};
use crate::{LinkType, Packet, Time, checksum, decapsulate, decode};

/// TCP flags (RFC 9293 3.1, RFC 3168).
pub mod flags {
    /// No more data from the sender.
    pub const FIN: u8 = 0x01;
    /// Sequence numbers start.
    pub const SYN: u8 = 0x02;
    /// The connection is reset.
    pub const RST: u8 = 0x04;
    /// The data is to be handed to the application at once.
    pub const PSH: u8 = 0x08;
    /// The acknowledgement number is valid.
    pub const ACK: u8 = 0x10;
    /// The urgent pointer is valid.
    pub const URG: u8 = 0x20;
    /// Congestion was experienced.
    pub const ECE: u8 = 0x40;
    /// The congestion window was reduced.
    pub const CWR: u8 = 0x80;
}

/// Starts a frame with an Ethernet header.
pub fn ethernet() -> Builder {
    Builder { bytes: Vec::new(), headers: Vec::new(), link: LinkType::ETHERNET }.frame()
}

/// Starts with an IP header ([`LinkType::RAW`]).
pub fn ip() -> Builder {
    Builder { bytes: Vec::new(), headers: Vec::new(), link: LinkType::RAW }
}

/// A packet that is being built, outermost header first.
#[derive(Clone, Debug)]
pub struct Builder {
    bytes: Vec<u8>,
    headers: Vec<(Kind, usize)>,
    link: LinkType,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Ethernet,
    Vlan,
    Mpls,
    Pppoe,
    Ipv4,
    Ipv6,
    Extension,
    Gre,
    Tcp,
    Udp,
    Other,
}

/// The numbers that announce a header: its EtherType and its IP protocol.
struct Names(u16, u8);

impl Builder {
    /// An Ethernet header, between two locally administered addresses; also within a tunnel.
    #[must_use]
    pub fn frame(self) -> Self {
        let header = Ethernet { dst: [2, 0, 0, 0, 0, 2], src: [2, 0, 0, 0, 0, 1], ether_type: 0 };
        self.push(Kind::Ethernet, Names(0x6558, 97), &header)
    }

    /// Source and destination address of the last Ethernet header.
    #[must_use]
    pub fn mac(self, src: [u8; 6], dst: [u8; 6]) -> Self {
        self.patch(Kind::Ethernet, 0, &dst).patch(Kind::Ethernet, 6, &src)
    }

    /// An IEEE 802.1Q tag.
    #[must_use]
    pub fn vlan(self, id: u16) -> Self {
        self.tag(0x8100, id)
    }

    /// A VLAN tag with a tag protocol identifier of choice, 0x88a8 for a service tag.
    #[must_use]
    pub fn tag(self, protocol: u16, id: u16) -> Self {
        self.push(Kind::Vlan, Names(protocol, 0), &Vlan { control: id, ether_type: 0 })
    }

    /// An MPLS label of 20 bits. The last one in a row gets the bottom-of-stack bit.
    #[must_use]
    pub fn mpls(self, label: u32) -> Self {
        self.append(Kind::Mpls, Names(0x8847, 137), &(label << 12 | 0x140).to_be_bytes())
    }

    /// A PPPoE session header and PPP.
    #[must_use]
    pub fn pppoe(self, session: u16) -> Self {
        let [high, low] = session.to_be_bytes();
        self.append(Kind::Pppoe, Names(0x8864, 0), &[0x11, 0, high, low, 0, 0, 0, 0])
    }

    /// An IPv4 header with a time to live of 64.
    #[must_use]
    pub fn ipv4(self, src: [u8; 4], dst: [u8; 4]) -> Self {
        let header = Ipv4 { ttl: 64, src, dst, ..Ipv4::default() };
        self.push(Kind::Ipv4, Names(0x0800, 4), &header)
    }

    /// An IPv6 header with a hop limit of 64.
    #[must_use]
    pub fn ipv6(self, src: [u8; 16], dst: [u8; 16]) -> Self {
        let header = Ipv6 { hops: 64, next: 59, src, dst, ..Ipv6::default() };
        self.push(Kind::Ipv6, Names(0x86dd, 41), &header)
    }

    /// Time to live or hop limit of the last IP header.
    #[must_use]
    pub fn ttl(self, ttl: u8) -> Self {
        self.patch(Kind::Ipv4, 8, &[ttl]).patch(Kind::Ipv6, 7, &[ttl])
    }

    /// Turns the last IPv4 header into a fragment's: identification, offset in bytes, and the more-fragments flag.
    #[must_use]
    pub fn fragment(self, id: u16, offset: u16, more: bool) -> Self {
        let field = offset >> 3 | u16::from(more) << 13;
        self.patch(Kind::Ipv4, 4, &id.to_be_bytes()).patch(Kind::Ipv4, 6, &field.to_be_bytes())
    }

    /// Protocol of the last IPv4 header or next header of the last IPv6 header, where [`Builder::raw`] follows.
    #[must_use]
    pub fn proto(self, proto: u8) -> Self {
        self.patch(Kind::Ipv4, 9, &[proto]).patch(Kind::Ipv6, 6, &[proto])
    }

    /// Appends an IPv6 extension header of type `kind`. `rest` holds its bytes from the second on.
    #[must_use]
    pub fn extension(self, kind: u8, rest: &[u8]) -> Self {
        let mut header = vec![59];
        header.extend_from_slice(rest);
        self.append(Kind::Extension, Names(0, kind), &header)
    }

    /// A plain GRE header (RFC 2784).
    #[must_use]
    pub fn gre(self) -> Self {
        self.append(Kind::Gre, Names(0, 47), &[0; 4])
    }

    /// A TCP header with a window of 65,535 and no options.
    #[must_use]
    pub fn tcp(self, src: u16, dst: u16, flags: u8) -> Self {
        self.push(Kind::Tcp, Names(0, 6), &Tcp { src, dst, flags, window: u16::MAX, ..Tcp::default() })
    }

    /// Sequence number of the last TCP header.
    #[must_use]
    pub fn seq(self, seq: u32) -> Self {
        self.patch(Kind::Tcp, 4, &seq.to_be_bytes())
    }

    /// Acknowledgement number of the last TCP header.
    #[must_use]
    pub fn ack(self, ack: u32) -> Self {
        self.patch(Kind::Tcp, 8, &ack.to_be_bytes())
    }

    /// Window of the last TCP header.
    #[must_use]
    pub fn window(self, window: u16) -> Self {
        self.patch(Kind::Tcp, 14, &window.to_be_bytes())
    }

    /// Options of the TCP or IPv4 header that was just added, filled up to a multiple of 4 bytes, at most 40.
    #[must_use]
    pub fn options(mut self, options: &[u8]) -> Self {
        let Some(&(kind, start)) = self.headers.last() else { return self };
        let words = options.len().min(40).div_ceil(4);
        self.bytes.extend(options.iter().take(40));
        self.bytes.resize(start + 20 + words * 4, 0);
        match kind {
            Kind::Tcp => self.patch(kind, 12, &[((5 + words) << 4) as u8]),
            Kind::Ipv4 => self.patch(kind, 0, &[(0x45 + words) as u8]),
            _ => self,
        }
    }

    /// A UDP header.
    #[must_use]
    pub fn udp(self, src: u16, dst: u16) -> Self {
        // A computed checksum of 0 is sent as 0xffff: 0 means that there is no checksum (RFC 768).
        self.push(Kind::Udp, Names(0, 17), &Udp { src, dst, len: 0, checksum: 0xffff })
    }

    /// An ICMP message, or after IPv6 an ICMPv6 message.
    #[must_use]
    pub fn icmp(self, kind: u8, code: u8, rest: [u8; 4]) -> Self {
        let proto = match self.headers.last() {
            Some((Kind::Ipv6 | Kind::Extension, _)) => 58,
            _ => 1,
        };
        self.push(Kind::Other, Names(0, proto), &Icmp { kind, code, checksum: 0, rest })
    }

    /// Appends bytes that none of the other methods can build, such as a tunnel's header. The header before does not
    /// announce them.
    #[must_use]
    pub fn raw(mut self, bytes: &[u8]) -> Self {
        self.headers.push((Kind::Other, self.bytes.len()));
        self.bytes.extend_from_slice(bytes);
        self
    }

    /// Ends the packet with its payload and returns the packet's bytes, with lengths and checksums filled in. A length
    /// that does not fit into its field is written as 0, as in a segment that the network card has yet to split.
    pub fn payload(mut self, payload: &[u8]) -> Vec<u8> {
        self.bytes.extend_from_slice(payload);
        let end = self.bytes.len();
        for (kind, start) in self.headers.clone() {
            let len = |from: usize| u16::try_from(end - start - from).unwrap_or(0).to_be_bytes();
            match kind {
                Kind::Pppoe => self.put(start + 4, &len(6)),
                Kind::Ipv4 => self.put(start + 2, &len(0)),
                Kind::Ipv6 => self.put(start + 4, &len(40)),
                Kind::Udp => self.put(start + 4, &len(0)),
                _ => {}
            }
        }
        self.checksums();
        self.bytes
    }

    /// From the innermost level outward: an outer checksum covers the inner one.
    fn checksums(&mut self) {
        let packet = packet(&self.bytes, self.link);
        let mut levels = vec![decode(&packet)];
        while let Some(inner) = levels.last().and_then(|outer| decapsulate(&packet, outer)) {
            levels.push(inner);
        }
        for layers in levels.iter().rev() {
            checksum::fill(&mut self.bytes, layers);
        }
    }

    fn push<'a>(self, kind: Kind, names: Names, header: &impl Header<'a>) -> Self {
        let mut bytes = Vec::new();
        header.emit(&mut bytes);
        self.append(kind, names, &bytes)
    }

    /// Appends a header and announces it in the header before.
    fn append(mut self, kind: Kind, Names(ether_type, proto): Names, header: &[u8]) -> Self {
        if let Some(&(before, start)) = self.headers.last() {
            match before {
                Kind::Ethernet => self.put(start + 12, &ether_type.to_be_bytes()),
                Kind::Vlan | Kind::Gre => self.put(start + 2, &ether_type.to_be_bytes()),
                Kind::Mpls if kind == Kind::Mpls => self.not_bottom(start + 2),
                Kind::Pppoe => {
                    let protocol = if ether_type == 0x86dd { 0x0057_u16 } else { 0x0021 };
                    self.put(start + 6, &protocol.to_be_bytes());
                }
                Kind::Ipv4 => self.put(start + 9, &[proto]),
                Kind::Ipv6 => self.put(start + 6, &[proto]),
                Kind::Extension => self.put(start, &[proto]),
                Kind::Mpls | Kind::Tcp | Kind::Udp | Kind::Other => {}
            }
        }
        self.headers.push((kind, self.bytes.len()));
        self.bytes.extend_from_slice(header);
        self
    }

    /// Clears the bottom-of-stack bit in the third byte of a label.
    fn not_bottom(&mut self, at: usize) {
        if let Some(byte) = self.bytes.get_mut(at) {
            *byte &= !1;
        }
    }

    /// Overwrites bytes of the last header of a kind. Does nothing if the last IP header is of the other version.
    fn patch(mut self, kind: Kind, offset: usize, bytes: &[u8]) -> Self {
        let is_ip = |kind| matches!(kind, Kind::Ipv4 | Kind::Ipv6);
        let last = self.headers.iter().rev().find(|(k, _)| *k == kind || (is_ip(kind) && is_ip(*k)));
        match last {
            Some(&(found, start)) if found == kind => self.put(start + offset, bytes),
            _ => {}
        }
        self
    }

    fn put(&mut self, at: usize, bytes: &[u8]) {
        if let Some(place) = self.bytes.get_mut(at..at + bytes.len()) {
            place.copy_from_slice(bytes);
        }
    }
}

/// A complete packet of these bytes, at time 0.
pub fn packet(data: &[u8], link: LinkType) -> Packet<'_> {
    let wire_len = u32::try_from(data.len()).unwrap_or(u32::MAX);
    Packet { time: Time(0), data, wire_len, interface: 0, link, hints: crate::Hints::default(), number: 0 }
}
