//! Headers as values: parsed from bytes and emitted as the same bytes.
//!
//! [`crate::decode`] does not need them. They serve code that reads the remaining fields or writes packets. `emit` of
//! a parsed header returns the same bytes, including reserved bits, lengths and checksums.

use crate::Reader;

/// A header that can be read and written.
pub trait Header<'a>: Sized {
    /// The header at the front of `data`, and the bytes after it; `None` if it is truncated, or if its own length or
    /// version is invalid.
    fn parse(data: &'a [u8]) -> Option<(Self, &'a [u8])>;

    /// Appends the header.
    fn emit(&self, out: &mut Vec<u8>);
}

/// Ethernet (IEEE 802.3 3.2).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Ethernet {
    /// Destination address.
    pub dst: [u8; 6],
    /// Source address.
    pub src: [u8; 6],
    /// EtherType, or the length of an LLC frame.
    pub ether_type: u16,
}

impl<'a> Header<'a> for Ethernet {
    fn parse(data: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let mut r = Reader::new(data);
        let header = Self { dst: array(&mut r)?, src: array(&mut r)?, ether_type: r.u16()? };
        Some((header, r.rest()))
    }

    fn emit(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.dst);
        out.extend_from_slice(&self.src);
        out.extend_from_slice(&self.ether_type.to_be_bytes());
    }
}

/// A VLAN tag after the EtherType that announces it (IEEE 802.1Q 9).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Vlan {
    /// Priority (3 bits), drop eligibility (1), identifier (12).
    pub control: u16,
    /// The EtherType of the payload.
    pub ether_type: u16,
}

impl<'a> Header<'a> for Vlan {
    fn parse(data: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let mut r = Reader::new(data);
        let header = Self { control: r.u16()?, ether_type: r.u16()? };
        Some((header, r.rest()))
    }

    fn emit(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.control.to_be_bytes());
        out.extend_from_slice(&self.ether_type.to_be_bytes());
    }
}

/// IPv4 (RFC 791 3.1).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Ipv4<'a> {
    /// Differentiated services (6 bits) and congestion notification (2).
    pub tos: u8,
    /// Total length in bytes, header included.
    pub len: u16,
    /// Identification.
    pub id: u16,
    /// Reserved (1 bit), do not fragment (1), more fragments (1), offset in units of 8 bytes (13).
    pub fragment: u16,
    /// Time to live.
    pub ttl: u8,
    /// Protocol of the payload.
    pub proto: u8,
    /// Header checksum, as the header holds it.
    pub checksum: u16,
    /// Source address.
    pub src: [u8; 4],
    /// Destination address.
    pub dst: [u8; 4],
    /// Options, padding included: a multiple of 4 bytes, at most 40.
    pub options: &'a [u8],
}

impl<'a> Header<'a> for Ipv4<'a> {
    fn parse(data: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let mut r = Reader::new(data);
        let first = r.u8()?;
        let options = (usize::from(first & 0xf) * 4).checked_sub(20).filter(|_| first >> 4 == 4)?;
        let header = Self {
            tos: r.u8()?,
            len: r.u16()?,
            id: r.u16()?,
            fragment: r.u16()?,
            ttl: r.u8()?,
            proto: r.u8()?,
            checksum: r.u16()?,
            src: array(&mut r)?,
            dst: array(&mut r)?,
            options: r.take(options)?,
        };
        Some((header, r.rest()))
    }

    fn emit(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&[0x45 + (self.options.len() / 4) as u8, self.tos]);
        for word in [self.len, self.id, self.fragment] {
            out.extend_from_slice(&word.to_be_bytes());
        }
        out.extend_from_slice(&[self.ttl, self.proto]);
        out.extend_from_slice(&self.checksum.to_be_bytes());
        out.extend_from_slice(&self.src);
        out.extend_from_slice(&self.dst);
        out.extend_from_slice(self.options);
    }
}

/// IPv6 (RFC 8200 3).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Ipv6 {
    /// Traffic class (8 bits) and flow label (20).
    pub class_and_flow: u32,
    /// Bytes after this header.
    pub len: u16,
    /// Protocol of the payload, or an extension header.
    pub next: u8,
    /// Hop limit.
    pub hops: u8,
    /// Source address.
    pub src: [u8; 16],
    /// Destination address.
    pub dst: [u8; 16],
}

impl<'a> Header<'a> for Ipv6 {
    fn parse(data: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let mut r = Reader::new(data);
        let first = r.u32().filter(|first| first >> 28 == 6)?;
        let header = Self {
            class_and_flow: first & 0x0fff_ffff,
            len: r.u16()?,
            next: r.u8()?,
            hops: r.u8()?,
            src: array(&mut r)?,
            dst: array(&mut r)?,
        };
        Some((header, r.rest()))
    }

    fn emit(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&(6 << 28 | self.class_and_flow).to_be_bytes());
        out.extend_from_slice(&self.len.to_be_bytes());
        out.extend_from_slice(&[self.next, self.hops]);
        out.extend_from_slice(&self.src);
        out.extend_from_slice(&self.dst);
    }
}

/// TCP (RFC 9293 3.1).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Tcp<'a> {
    /// Source port.
    pub src: u16,
    /// Destination port.
    pub dst: u16,
    /// Sequence number of the first byte of payload, or of the SYN.
    pub seq: u32,
    /// The next sequence number that the sender expects, where ACK is set.
    pub ack: u32,
    /// The reserved bits after the data offset (4 bits, the last was once a nonce sum).
    pub reserved: u8,
    /// Flags: FIN is bit 0, SYN 1, RST 2, PSH 3, ACK 4, URG 5, ECE 6, CWR 7.
    pub flags: u8,
    /// Window, not scaled.
    pub window: u16,
    /// Checksum, as the header holds it.
    pub checksum: u16,
    /// Urgent pointer.
    pub urgent: u16,
    /// Options, padding included: a multiple of 4 bytes, at most 40.
    pub options: &'a [u8],
}

impl<'a> Header<'a> for Tcp<'a> {
    fn parse(data: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let mut r = Reader::new(data);
        let mut header =
            Self { src: r.u16()?, dst: r.u16()?, seq: r.u32()?, ack: r.u32()?, ..Self::default() };
        let offset = r.u8()?;
        header.reserved = offset & 0xf;
        header.flags = r.u8()?;
        header.window = r.u16()?;
        header.checksum = r.u16()?;
        header.urgent = r.u16()?;
        header.options = r.take((usize::from(offset >> 4) * 4).checked_sub(20)?)?;
        Some((header, r.rest()))
    }

    fn emit(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.src.to_be_bytes());
        out.extend_from_slice(&self.dst.to_be_bytes());
        out.extend_from_slice(&self.seq.to_be_bytes());
        out.extend_from_slice(&self.ack.to_be_bytes());
        out.extend_from_slice(&[((5 + self.options.len() / 4) << 4) as u8 | self.reserved, self.flags]);
        for word in [self.window, self.checksum, self.urgent] {
            out.extend_from_slice(&word.to_be_bytes());
        }
        out.extend_from_slice(self.options);
    }
}

/// UDP (RFC 768).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Udp {
    /// Source port.
    pub src: u16,
    /// Destination port.
    pub dst: u16,
    /// Bytes, header included.
    pub len: u16,
    /// Checksum, as the header holds it; 0 if the sender omitted it.
    pub checksum: u16,
}

impl<'a> Header<'a> for Udp {
    fn parse(data: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let mut r = Reader::new(data);
        let header = Self { src: r.u16()?, dst: r.u16()?, len: r.u16()?, checksum: r.u16()? };
        Some((header, r.rest()))
    }

    fn emit(&self, out: &mut Vec<u8>) {
        for word in [self.src, self.dst, self.len, self.checksum] {
            out.extend_from_slice(&word.to_be_bytes());
        }
    }
}

/// ICMP and ICMPv6 (RFC 792, RFC 4443 2.1).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Icmp {
    /// Type.
    pub kind: u8,
    /// Code.
    pub code: u8,
    /// Checksum, as the header holds it.
    pub checksum: u16,
    /// Four bytes whose meaning depends on the type; for echo, identifier and sequence number.
    pub rest: [u8; 4],
}

impl<'a> Header<'a> for Icmp {
    fn parse(data: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let mut r = Reader::new(data);
        let header = Self { kind: r.u8()?, code: r.u8()?, checksum: r.u16()?, rest: array(&mut r)? };
        Some((header, r.rest()))
    }

    fn emit(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&[self.kind, self.code]);
        out.extend_from_slice(&self.checksum.to_be_bytes());
        out.extend_from_slice(&self.rest);
    }
}

fn array<const N: usize>(r: &mut Reader<'_>) -> Option<[u8; N]> {
    r.take(N)?.first_chunk().copied()
}
