//! Data of records as text.

use super::wire::{Message, Rr, kind, options, strings};
use super::words;
use crate::Value;
use std::fmt::Write;
use std::net::{Ipv4Addr, Ipv6Addr};
use weir_wire::Reader;

/// Maximum number of bytes of a record's data in hexadecimal digits.
const MAX_HEX: usize = 256;

/// Zeek's text of a record in `answers`.
pub(super) enum Reply {
    /// No text, and none for the rest of the message.
    Suppressed,
    /// No text.
    Empty,
    /// This text.
    Shown(Value<'static>),
}

/// A name in Zeek's form: in lower case.
pub(super) fn lower(text: &[u8]) -> Vec<u8> {
    text.to_ascii_lowercase()
}

/// Zeek's text of a record in `answers`. Addresses stay addresses.
pub(super) fn reply(rr: &Rr, message: &Message, data: &[u8], is_netbios: bool) -> Reply {
    let bytes = rr.bytes(data);
    let shown = |text: String| Reply::Shown(text.into());
    let mut reader = Reader::new(bytes);
    match rr.kind {
        kind::A | kind::AAAA => match rr.address() {
            Some(address) => Reply::Shown(address.into()),
            None => Reply::Suppressed,
        },
        kind::NB if is_netbios => match netbios_address(bytes) {
            Some(address) => Reply::Shown(address.into()),
            None => Reply::Suppressed,
        },
        kind::NS | kind::CNAME | kind::PTR | kind::MX | kind::SRV | kind::SOA if !is_netbios => {
            match rr.target() {
                Some(name) => Reply::Shown(lower(message.text(name)).into()),
                None => Reply::Suppressed,
            }
        }
        kind::TXT | kind::SPF => {
            let word = if rr.kind == kind::TXT { "TXT" } else { "SPF" };
            let mut text = Vec::new();
            for string in strings(bytes) {
                if !text.is_empty() {
                    text.push(b' ');
                }
                text.extend(format!("{word} {} ", string.len()).into_bytes());
                text.extend(string);
            }
            if text.is_empty() { Reply::Empty } else { Reply::Shown(text.into()) }
        }
        kind::WKS => Reply::Empty,
        kind::HINFO | kind::CAA | kind::SVCB | kind::HTTPS | kind::OPT | kind::TKEY | kind::TSIG => {
            Reply::Suppressed
        }
        kind::NAPTR => naptr(rr, message, bytes).map_or(Reply::Suppressed, |text| Reply::Shown(text.into())),
        kind::RRSIG => {
            let signer = rr.target().map(|name| lower(message.text(name))).filter(|name| !name.is_empty());
            let mut text = format!("RRSIG {} ", reader.u16().unwrap_or_default()).into_bytes();
            text.extend(signer.as_deref().unwrap_or(b"<Root>"));
            Reply::Shown(text.into())
        }
        kind::DNSKEY => shown(format!("DNSKEY {}", bytes.get(3).copied().unwrap_or_default())),
        kind::NSEC => {
            let mut text = b"NSEC ".to_vec();
            text.extend(lower(message.text(rr.name)));
            text.push(b' ');
            text.extend(rr.target().map(|name| lower(message.text(name))).unwrap_or_default());
            Reply::Shown(text.into())
        }
        kind::NSEC3 => shown("NSEC3".to_owned()),
        kind::NSEC3PARAM => shown("NSEC3PARAM".to_owned()),
        kind::DS => {
            let at = |at: usize| bytes.get(at).copied().unwrap_or_default();
            shown(format!("DS {} {}", at(2), at(3)))
        }
        65534 => shown("BIND9 signing signal".to_owned()),
        kind::SSHFP => shown(format!("SSHFP: {}", hex(bytes.get(2..).unwrap_or_default(), ""))),
        kind::LOC => {
            let at = |at: usize| bytes.get(at).copied().unwrap_or_default();
            shown(format!("LOC:  {} {} {}", at(1), at(2), at(3)))
        }
        other => shown(format!("<unknown type={other}>")),
    }
}

/// The address of the first entry of a name service answer (RFC 1002, 4.2.13), after two bytes of flags.
pub(super) fn netbios_address(bytes: &[u8]) -> Option<std::net::IpAddr> {
    let bytes = bytes.get(2..)?.first_chunk::<4>()?;
    Some(Ipv4Addr::from(*bytes).into())
}

/// The NetBIOS name in a name of the name service (RFC 1001, 14.1): two letters for each byte. The sixteenth byte is
/// the kind of name.
pub(crate) fn netbios_name(text: &[u8]) -> Option<(Vec<u8>, u8)> {
    let coded = text.first_chunk::<32>()?;
    let (mut name, mut letters) = (Vec::with_capacity(16), coded.iter());
    while let (Some(high), Some(low)) = (letters.next(), letters.next()) {
        let nibble = |letter: u8| letter.checked_sub(b'A').filter(|nibble| *nibble < 16);
        name.push(nibble(*high)? << 4 | nibble(*low)?);
    }
    let suffix = name.pop()?;
    let len = name.iter().rposition(|byte| !matches!(byte, b' ' | 0)).map_or(0, |at| at + 1);
    name.truncate(len);
    Some((name, suffix))
}

/// The data of records with neither an address nor only a name, approximately in the form of zone files.
pub(super) fn data(rr: &Rr, message: &Message, packet: &[u8]) -> Option<Vec<u8>> {
    let bytes = rr.bytes(packet);
    let mut reader = Reader::new(bytes);
    let target = || rr.target().map(|name| message.text(name).to_vec()).unwrap_or_default();
    let mut text = String::new();
    match rr.kind {
        kind::HINFO => {
            let words: Vec<_> = strings(bytes).map(quoted).collect();
            return Some(words.join(&b' '));
        }
        kind::CAA => {
            let flags = reader.u8()?;
            let len = reader.u8()?;
            let tag = reader.take(usize::from(len))?;
            return Some([flags.to_string().as_bytes(), tag, &quoted(reader.rest())].join(&b' '));
        }
        kind::NAPTR => return naptr(rr, message, bytes),
        kind::MX => return Some([reader.u16()?.to_string().as_bytes(), &target()].join(&b' ')),
        kind::LOC => return location(bytes).map(String::into_bytes),
        kind::TLSA => {
            write!(text, "{} {} {} ", reader.u8()?, reader.u8()?, reader.u8()?).ok()?;
            text += &hex(reader.rest(), "");
        }
        kind::DS => {
            write!(text, "{} {} {} ", reader.u16()?, reader.u8()?, reader.u8()?).ok()?;
            text += &hex(reader.rest(), "");
        }
        kind::DNSKEY => {
            write!(text, "{} {} {} ", reader.u16()?, reader.u8()?, reader.u8()?).ok()?;
            text += &hex(reader.rest(), "");
        }
        kind::RRSIG | kind::SIG => {
            let covered = words::eve_type(reader.u16()?);
            write!(text, "{covered} {} {} {} ", reader.u8()?, reader.u8()?, reader.u32()?).ok()?;
            write!(text, "{} {} {} ", reader.u32()?, reader.u32()?, reader.u16()?).ok()?;
            let mut text = text.into_bytes();
            text.extend(target());
            return Some(text);
        }
        kind::NSEC => {
            let mut text = target();
            text.extend(types(rr.rest(packet)).into_bytes());
            return Some(text);
        }
        kind::NSEC3 => {
            write!(text, "{} {} {} ", reader.u8()?, reader.u8()?, reader.u16()?).ok()?;
            let len = reader.u8()?;
            text += &hex(reader.take(usize::from(len))?, "");
            let len = reader.u8()?;
            write!(text, " {}", hex(reader.take(usize::from(len))?, "")).ok()?;
            text += &types(reader.rest());
        }
        kind::SVCB | kind::HTTPS => {
            let mut text = format!("{} ", reader.u16()?).into_bytes();
            let target = target();
            text.extend(if target.is_empty() { b".".as_slice() } else { &target });
            for (key, value) in options(rr.rest(packet)) {
                text.push(b' ');
                text.extend(words::parameter(key).as_bytes());
                text.extend(parameter(key, value));
            }
            return Some(text);
        }
        kind::TSIG => {
            let mut rest = Reader::new(rr.rest(packet));
            let (high, low) = (rest.u16()?, rest.u32()?);
            let signed = u64::from(high) << 32 | u64::from(low);
            let mut text = target();
            text.extend(format!(" {signed} {}", rest.u16()?).into_bytes());
            return Some(text);
        }
        _ => return None,
    }
    Some(text.into_bytes())
}

fn naptr(rr: &Rr, message: &Message, bytes: &[u8]) -> Option<Vec<u8>> {
    let mut reader = Reader::new(bytes);
    let mut text = format!("NAPTR {} {}", reader.u16()?, reader.u16()?).into_bytes();
    let name = lower(message.text(rr.target()?));
    for string in strings(reader.rest()).take(2) {
        text.push(b' ');
        text.extend(string);
    }
    let expression = strings(reader.rest()).nth(2).unwrap_or_default();
    for part in [expression, &name].into_iter().filter(|part| !part.is_empty()) {
        text.push(b' ');
        text.extend(part);
    }
    Some(text)
}

fn quoted(text: &[u8]) -> Vec<u8> {
    [b"\"", text, b"\""].concat()
}

/// Bytes in hexadecimal digits with a separator.
pub(super) fn hex(bytes: &[u8], between: &str) -> String {
    let bytes = bytes.get(..MAX_HEX).unwrap_or(bytes);
    let mut text = String::with_capacity(bytes.len() * (2 + between.len()));
    for (at, byte) in bytes.iter().enumerate() {
        if at > 0 {
            text += between;
        }
        for nibble in [byte >> 4, byte & 0xf] {
            text.push(char::from_digit(nibble.into(), 16).unwrap_or_default());
        }
    }
    text
}

/// Types in a bit map (RFC 4034, 4.1.2), each with a space before it.
fn types(map: &[u8]) -> String {
    let (mut text, mut reader) = (String::new(), Reader::new(map));
    while let (Some(window), Some(len @ 1..=32)) = (reader.u8(), reader.u8()) {
        let Some(bits) = reader.take(len.into()) else { break };
        for (at, byte) in bits.iter().enumerate() {
            for bit in (0..8).filter(|bit| byte & 0x80 >> bit != 0) {
                text.push(' ');
                text += &words::eve_type(u16::from(window) << 8 | (at * 8 + bit) as u16);
            }
        }
        if text.len() > 1024 {
            break;
        }
    }
    text
}

/// A parameter of SVCB and HTTPS with its separator (RFC 9460, 14.3.2).
fn parameter(key: u16, value: &[u8]) -> Vec<u8> {
    let list = |parts: Vec<String>| format!("={}", parts.join(",")).into_bytes();
    match key {
        1 => [b"=".as_slice(), &strings(value).collect::<Vec<_>>().join(&b',')].concat(),
        3 => Reader::new(value).u16().map(|port| format!("={port}").into_bytes()).unwrap_or_default(),
        4 => list(value.as_chunks::<4>().0.iter().map(|a| Ipv4Addr::from(*a).to_string()).collect()),
        6 => list(value.as_chunks::<16>().0.iter().map(|a| Ipv6Addr::from(*a).to_string()).collect()),
        _ if value.is_empty() => Vec::new(),
        _ => format!("={}", hex(value, "")).into_bytes(),
    }
}

/// A location (RFC 1876): degrees, minutes and seconds of latitude and longitude, and altitude in metres.
fn location(bytes: &[u8]) -> Option<String> {
    let mut reader = Reader::new(bytes);
    let [version, ..] = reader.take(4)? else { return None };
    if *version != 0 {
        return None;
    }
    let angle = |value: u32, positive: char, negative: char| {
        let thousandths = i64::from(value) - (1 << 31);
        let side = if thousandths < 0 { negative } else { positive };
        let all = thousandths.unsigned_abs();
        let (seconds, minutes) = (all % 60_000, all / 60_000);
        format!("{} {} {}.{:03} {side}", minutes / 60, minutes % 60, seconds / 1000, seconds % 1000)
    };
    let (latitude, longitude) = (angle(reader.u32()?, 'N', 'S'), angle(reader.u32()?, 'E', 'W'));
    let centimetres = i64::from(reader.u32()?) - 10_000_000;
    Some(format!("{latitude} {longitude} {:.2}m", centimetres as f64 / 100.0))
}
