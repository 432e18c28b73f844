//! Transport headers.

use super::frame::Frame;
use super::{malformed, truncated, tunnel};
use crate::{DecodeError, Fragment, Layer, Layers};

/// Decodes the payload of an IP packet by [`Layers::ip_proto`]. `f` ends where the IP packet ends.
#[inline(always)]
pub(super) fn transport(f: Frame<'_>, at: u32, l: &mut Layers) -> Result<(), DecodeError> {
    l.transport = at;
    l.payload = at;
    l.payload_len = f.left(at);
    if l.fragment == Fragment::Later {
        return Ok(());
    }
    match l.ip_proto {
        6 => tcp(f, at, l),
        17 => udp(f, at, l),
        _ => other(f, at, l),
    }
}

#[cold]
fn other(f: Frame<'_>, at: u32, l: &mut Layers) -> Result<(), DecodeError> {
    match l.ip_proto {
        1 | 58 => icmp(f, at, l),
        33 => dccp(f, at, l),
        // ESP: only the security parameters index and the sequence number are unencrypted (RFC 4303 2).
        50 => with_header(f, at, 8, l),
        // UDP-Lite has the checksum coverage where UDP has the length (RFC 3828 3.1).
        136 => with_ports(f, at, 8, l),
        132 => with_ports(f, at, 12, l),
        4 | 41 | 47 | 97 | 115 | 137 => tunnel::mark(f, l),
        _ => Ok(()),
    }
}

/// Moves the payload after a header of `len` bytes.
#[inline]
fn with_header(f: Frame<'_>, at: u32, len: u32, l: &mut Layers) -> Result<(), DecodeError> {
    if !f.has(at, len) {
        return Err(truncated(Layer::Transport));
    }
    l.payload = at + len;
    l.payload_len = f.left(at + len);
    Ok(())
}

/// A header of `len` bytes that starts with two ports.
#[inline]
fn with_ports(f: Frame<'_>, at: u32, len: u32, l: &mut Layers) -> Result<(), DecodeError> {
    let &[s0, s1, d0, d1] = f.array::<4>(at).ok_or_else(|| truncated(Layer::Transport))?;
    l.ports = [u16::from_be_bytes([s0, s1]), u16::from_be_bytes([d0, d1])];
    with_header(f, at, len, l)
}

/// TCP (RFC 9293 3.1). Options that the snap length cut off cause no error: all fields that are read are before them.
#[inline(always)]
fn tcp(f: Frame<'_>, at: u32, l: &mut Layers) -> Result<(), DecodeError> {
    let Some(&[s0, s1, d0, d1, _, _, _, _, _, _, _, _, offset, flags, ..]) = f.array::<20>(at) else {
        return with_ports(f, at, 20, l);
    };
    l.ports = [u16::from_be_bytes([s0, s1]), u16::from_be_bytes([d0, d1])];
    l.tcp_flags = flags;
    let header = u32::from(offset >> 4) * 4;
    let left = f.left(at);
    if header < 20 || header > left {
        return Err(malformed(Layer::Transport));
    }
    l.payload = at + header;
    l.payload_len = left - header;
    Ok(())
}

/// UDP (RFC 768). A length of 0 belongs to a datagram that is too long to state its length (RFC 2675 4). A length
/// beyond the end of the IP packet is cut to the packet.
#[inline(always)]
fn udp(f: Frame<'_>, at: u32, l: &mut Layers) -> Result<(), DecodeError> {
    let Some(&[s0, s1, d0, d1, l0, l1, _, _]) = f.array::<8>(at) else {
        return with_ports(f, at, 8, l);
    };
    l.ports = [u16::from_be_bytes([s0, s1]), u16::from_be_bytes([d0, d1])];
    let claimed = u32::from(u16::from_be_bytes([l0, l1]));
    if claimed < 8 && claimed != 0 {
        return Err(malformed(Layer::Transport));
    }
    l.payload = at + 8;
    l.payload_len = f.left(at + 8);
    if claimed != 0 {
        l.payload_len = l.payload_len.min(claimed - 8);
    }
    let is_tunnel = l.ports.iter().any(|&port| tunnel::is_port(port))
        || f.array::<8>(l.payload).is_some_and(|head| tunnel::fits_anywhere(head, l.payload_len));
    if is_tunnel { tunnel::mark(f, l) } else { Ok(()) }
}

/// ICMP and ICMPv6: type, code, checksum, and four bytes whose meaning depends on the type (RFC 792, RFC 4443). A
/// message may end before these four bytes.
fn icmp(f: Frame<'_>, at: u32, l: &mut Layers) -> Result<(), DecodeError> {
    let &[kind, code, _, _] = f.array::<4>(at).ok_or_else(|| truncated(Layer::Transport))?;
    l.ports = [u16::from(kind), u16::from(code)];
    let header = f.left(at).min(8);
    l.payload = at + header;
    l.payload_len = f.left(at + header);
    Ok(())
}

/// The offset of the data counts 32-bit words (RFC 4340 5.1).
fn dccp(f: Frame<'_>, at: u32, l: &mut Layers) -> Result<(), DecodeError> {
    with_ports(f, at, 12, l)?;
    let header = f.u8(at + 4).map_or(0, |words| u32::from(words) * 4);
    if header < 12 || header > f.left(at) {
        return Err(malformed(Layer::Transport));
    }
    l.payload = at + header;
    l.payload_len = f.left(at + header);
    Ok(())
}
