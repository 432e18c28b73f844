//! Addresses in options, extension headers and control messages.

use super::{Anonymiser, Payload};

/// Sets a range of bytes to 0, as far as they are captured.
pub(super) fn blank(out: &mut [u8], from: usize, to: usize) {
    let to = to.min(out.len());
    if let Some(place) = out.get_mut(from..to) {
        place.fill(0);
    }
}

/// IPv4 options (RFC 791 3.1): routes, recorded or given, and timestamps with addresses.
pub(super) fn ipv4_options(anonymiser: &mut Anonymiser, options: &mut [u8]) {
    each_option(options, |kind, option| match kind {
        // Loose and strict source route, record route: kind, length, pointer, addresses.
        131 | 137 | 7 => {
            for at in (3..option.len()).step_by(4) {
                anonymiser.v4_at(option, at);
            }
        }
        68 => {
            let step = match option.get(3).map(|flags| flags & 0xf) {
                Some(0) => return,
                _ => 8,
            };
            for at in (4..option.len()).step_by(step) {
                anonymiser.v4_at(option, at);
            }
        }
        // Router alert, MTU probe and reply, security, quick start: no addresses.
        148 | 11 | 12 | 130 | 133 | 134 | 25 => {}
        _ => blank(option, 2, usize::MAX),
    });
}

/// Rewrites TCP options with addresses (RFC 8684 3.4.1), and unknown ones.
pub(super) fn tcp_options(anonymiser: &mut Anonymiser, options: &mut [u8]) {
    const ADD_ADDRESS: u8 = 3;
    let keep = anonymiser.policy.payload == Payload::Keep;
    each_option(options, |kind, option| match kind {
        2..=5 | 8..=10 | 14 | 15 | 18 | 19 | 27 | 28 | 29 | 34 => {}
        30 if option.get(2).is_some_and(|kind| kind >> 4 == ADD_ADDRESS) => match option.len() {
            8 | 10 | 16 | 18 => anonymiser.v4_at(option, 4),
            20 | 22 | 28 | 30 => anonymiser.v6_at(option, 4),
            _ => blank(option, 2, usize::MAX),
        },
        30 => {}
        _ if keep => {}
        _ => blank(option, 2, usize::MAX),
    });
}

/// Calls `work` with each option in the form kind, length, value; kinds 0 and 1 are single bytes. Malformed options
/// are blanked.
fn each_option(options: &mut [u8], mut work: impl FnMut(u8, &mut [u8])) {
    let mut at = 0;
    while let Some(&kind) = options.get(at) {
        if kind == 0 {
            return blank(options, at, usize::MAX);
        }
        if kind == 1 {
            at += 1;
            continue;
        }
        let length = options.get(at + 1).map_or(0, |length| usize::from(*length));
        match options.get_mut(at..at + length) {
            Some(option) if length >= 2 => work(kind, option),
            _ => return blank(options, at, usize::MAX),
        }
        at += length;
    }
}

/// IPv6 extension headers from the first on: routes, and the home address of a mobile host.
pub(super) fn ipv6_extensions(anonymiser: &mut Anonymiser, headers: &mut [u8], next: u8) {
    const HOP_BY_HOP: u8 = 0;
    const ROUTING: u8 = 43;
    const FRAGMENT: u8 = 44;
    const AH: u8 = 51;
    const DESTINATION: u8 = 60;
    let (mut next, mut at) = (next, 0);
    while let Some(&[after, len, kind, _]) = headers.get(at..).and_then(|rest| rest.first_chunk::<4>()) {
        let size = match next {
            FRAGMENT => 8,
            AH => (usize::from(len) + 2) * 4,
            _ => (usize::from(len) + 1) * 8,
        };
        let end = (at + size).min(headers.len());
        let Some(header) = headers.get_mut(at..end) else { return };
        match next {
            ROUTING if matches!(kind, 0 | 2) => {
                (8..header.len()).step_by(16).for_each(|at| anonymiser.v6_at(header, at));
            }
            ROUTING if kind == 4 => {
                // Segments, then options that may name nodes.
                let last = header.get(4).map_or(0, |last| usize::from(*last));
                let segments = 8 + (last + 1) * 16;
                (8..segments.min(header.len())).step_by(16).for_each(|at| anonymiser.v6_at(header, at));
                blank(header, segments, usize::MAX);
            }
            ROUTING => blank(header, 4, usize::MAX),
            HOP_BY_HOP | DESTINATION => extension_options(anonymiser, header),
            FRAGMENT | AH => {}
            // Mobility, host identity, multihoming: addresses and identities in many forms.
            135 | 139 | 140 => blank(header, 8, usize::MAX),
            _ => return,
        }
        at += size;
        next = after;
    }
}

fn extension_options(anonymiser: &mut Anonymiser, header: &mut [u8]) {
    let mut at = 2;
    while let Some(&kind) = header.get(at) {
        if kind == 0 {
            at += 1;
            continue;
        }
        let length = header.get(at + 1).map_or(0, |length| usize::from(*length));
        match kind {
            // The home address (RFC 6275 6.3).
            0xc9 if length == 16 => anonymiser.v6_at(header, at + 2),
            // Padding, router alert, jumbo payload, tunnel limit, quick start.
            1 | 5 | 0xc2 | 4 | 0x26 => {}
            _ => blank(header, at + 2, at + 2 + length),
        }
        at += 2 + length;
    }
}

/// ICMP (RFC 792, RFC 1256), without the packet that an error quotes. Returns the end of what was rewritten.
pub(super) fn icmp(anonymiser: &mut Anonymiser, message: &mut [u8]) -> usize {
    match message.first() {
        // Redirect: the better router.
        Some(5) => {
            anonymiser.v4_at(message, 4);
            8.min(message.len())
        }
        // Router advertisement: addresses with a preference each.
        Some(9) => {
            let count = message.get(4).map_or(0, |count| usize::from(*count));
            (0..count).for_each(|n| anonymiser.v4_at(message, 8 + 8 * n));
            (8 + 8 * count).min(message.len())
        }
        // Times, and masks.
        Some(13 | 14) => 20.min(message.len()),
        Some(17 | 18) => 12.min(message.len()),
        _ => 8.min(message.len()),
    }
}

/// Rewrites the address at an offset.
type AddressAt = fn(&mut Anonymiser, &mut [u8], usize);

/// Rewrites the groups and sources of a membership report from byte 8 on (RFC 9776 4.2, RFC 9777 5.2), with addresses
/// of the given length. Returns the end.
fn memberships(anonymiser: &mut Anonymiser, message: &mut [u8], size: usize, address: AddressAt) -> usize {
    let mut at = 8;
    while let Some(&[_, extra, n0, n1]) = message.get(at..).and_then(|rest| rest.first_chunk::<4>()) {
        let sources = usize::from(u16::from_be_bytes([n0, n1]));
        (0..=sources).for_each(|n| address(anonymiser, message, at + 4 + size * n));
        at += 4 + size * (1 + sources);
        blank(message, at, at + 4 * usize::from(extra));
        at += 4 * usize::from(extra);
    }
    at
}

/// Rewrites the sources of a query after a header that ends with their number. Returns the end; `otherwise` for
/// earlier versions, which have no sources.
fn sources(
    anonymiser: &mut Anonymiser,
    message: &mut [u8],
    header: usize,
    otherwise: usize,
    size: usize,
    address: AddressAt,
) -> usize {
    let count =
        message.get(header - 2..header).and_then(|n| n.first_chunk()).copied().map(u16::from_be_bytes);
    let Some(count) = count.map(usize::from) else { return otherwise };
    (0..count).for_each(|n| address(anonymiser, message, header + size * n));
    header + size * count
}

/// IGMP (RFC 2236, RFC 9776): groups and sources. Returns the end of what was rewritten.
pub(super) fn igmp(anonymiser: &mut Anonymiser, message: &mut [u8]) -> usize {
    let known = match message.first() {
        Some(0x22) => memberships(anonymiser, message, 4, Anonymiser::v4_at),
        Some(0x11 | 0x12 | 0x16 | 0x17) => {
            anonymiser.v4_at(message, 4);
            sources(anonymiser, message, 12, 8, 4, Anonymiser::v4_at)
        }
        _ => 4,
    };
    known.min(message.len())
}

/// ICMPv6 (RFC 4443, RFC 4861, RFC 2710, RFC 9777), without the packet that an error quotes. Returns the end of what was
/// rewritten.
pub(super) fn icmpv6(anonymiser: &mut Anonymiser, message: &mut [u8]) -> usize {
    let known = match message.first() {
        Some(133) => neighbours(anonymiser, message, 8),
        Some(134) => neighbours(anonymiser, message, 16),
        Some(135 | 136) => {
            anonymiser.v6_at(message, 8);
            neighbours(anonymiser, message, 24)
        }
        Some(137) => {
            anonymiser.v6_at(message, 8);
            anonymiser.v6_at(message, 24);
            neighbours(anonymiser, message, 40)
        }
        Some(130..=132) => {
            anonymiser.v6_at(message, 8);
            sources(anonymiser, message, 28, 24, 16, Anonymiser::v6_at)
        }
        Some(143) => memberships(anonymiser, message, 16, Anonymiser::v6_at),
        _ => 8,
    };
    known.min(message.len())
}

/// Options of neighbour discovery.
fn neighbours(anonymiser: &mut Anonymiser, message: &mut [u8], from: usize) -> usize {
    let mut at = from;
    while let Some(&[kind, length]) = message.get(at..).and_then(|rest| rest.first_chunk::<2>()) {
        let length = usize::from(length) * 8;
        let Some(option) = message.get_mut(at..at + length).filter(|option| !option.is_empty()) else {
            blank(message, at, usize::MAX);
            break;
        };
        match kind {
            // Link-layer addresses; with Ethernet the option has 8 bytes.
            1 | 2 if length == 8 => {
                if let Some(place) = option.get_mut(2..8) {
                    anonymiser.mac(place);
                }
            }
            3 if length == 32 => anonymiser.v6_at(option, 16),
            5 | 14 => {}
            25 => (8..length).step_by(16).for_each(|at| anonymiser.v6_at(option, at)),
            // A route: the prefix may be truncated.
            24 if length == 24 => anonymiser.v6_at(option, 8),
            // The redirected packet, search domains, and unknown options.
            _ => blank(option, 2, usize::MAX),
        }
        at += length;
    }
    at
}
