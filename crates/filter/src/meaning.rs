//! The numeric values of identifiers, for code that compares values without a program.

use crate::ast::{Id, IdKind};
use crate::codegen::{dotted, high_bits};
use crate::names::{SERVICES, Transport, ip_protocol};

/// The address and the mask of an IPv4 host or network; `None` for other identifiers.
pub(crate) fn v4(id: &Id, is_net: bool) -> Option<(u32, u32)> {
    let shifted = |(address, bits): (u32, u32)| address.checked_shl(32 - bits).unwrap_or(0);
    match id {
        Id::Number(number) => {
            let (mut address, mut mask) = (*number, u32::MAX);
            // `net 10` is 10.0.0.0/8.
            while is_net && address != 0 && address & 0xff00_0000 == 0 {
                address <<= 8;
                mask <<= 8;
            }
            Some((address, mask))
        }
        Id::Dotted(text) => dotted(text).map(|parts| (shifted(parts), high_bits(parts.1))),
        Id::Prefix(text, length) if is_net && *length <= 32 => {
            Some((shifted(dotted(text)?), high_bits(*length)))
        }
        Id::Masked(text, mask) if is_net => Some((shifted(dotted(text)?), shifted(dotted(mask)?))),
        _ => None,
    }
}

/// The address and the mask of an IPv6 host or network; `None` for other identifiers.
pub(crate) fn v6(id: &Id) -> Option<(u128, u128)> {
    let Id::V6(address, _, length) = id else { return None };
    let length = length.unwrap_or(128);
    let mask = !u128::MAX.checked_shr(length).unwrap_or(0);
    (length <= 128).then_some((u128::from_be_bytes(*address), mask))
}

/// A range of ports, both ends included, and the IP protocol if a service has only one.
pub(crate) struct Ports {
    pub low: u16,
    pub high: u16,
    pub protocol: Option<u32>,
}

/// The ports of a number, a range or a service; `None` for other identifiers.
pub(crate) fn ports(kind: IdKind, id: &Id) -> Option<Ports> {
    let (low, high, protocol) = match id {
        Id::Number(port) => (*port, *port, None),
        Id::Name(name, _) if kind == IdKind::PortRange => {
            let (low, high) = name.split_once('-')?;
            (service(low)?.0, service(high)?.0, None)
        }
        Id::Name(name, _) => {
            let (port, protocol) = service(name)?;
            (port, port, protocol)
        }
        _ => return None,
    };
    let (low, high) = (u16::try_from(low.min(high)).ok()?, u16::try_from(low.max(high)).ok()?);
    Some(Ports { low, high, protocol })
}

/// A service's port and its protocol; a protocol of `None` means both, as for a number.
fn service(name: &str) -> Option<(u32, Option<u32>)> {
    if !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit()) {
        return crate::lex::parse_number(name).ok().map(|port| (port, None));
    }
    let (_, port, transport) = SERVICES.iter().find(|(known, ..)| *known == name)?;
    let protocol = match transport {
        Transport::Tcp => Some(ip_protocol::TCP),
        Transport::Udp => Some(ip_protocol::UDP),
        Transport::Both => None,
    };
    Some((u32::from(*port), protocol))
}
