//! Values in one form, however either program writes them.

use crate::fields::As;
use std::net::IpAddr;

/// The ends of a flow, the lower one first: programs differ in who began it.
pub type Flow = [(IpAddr, u16); 2];

/// The key of a flow in either direction.
pub fn flow(one: (IpAddr, u16), other: (IpAddr, u16)) -> Flow {
    if one <= other { [one, other] } else { [other, one] }
}

/// A value in the form in which it is compared; `None` if nothing is left to compare.
pub fn form(kind: As, value: &str) -> Option<String> {
    let text = || graphic(value);
    let formed = match kind {
        As::Text => text(),
        As::Words => text().to_lowercase(),
        As::List => text().replace(' ', ""),
        As::Name => text().to_lowercase().trim_end_matches('.').replace("<root>", ""),
        As::Number => number(value)?,
        As::Bool => matches!(value, "1" | "true" | "True").to_string(),
        As::Address => value.parse::<IpAddr>().ok().filter(|at| !at.is_unspecified())?.to_string(),
        As::Seconds => format!("{:.4}", value.parse::<f64>().ok()?),
        As::Power => value.parse::<u8>().map_or_else(
            |_| value.parse::<f64>().map(|seconds| format!("{:.0}", seconds.log2())).unwrap_or_default(),
            |exponent| exponent.cast_signed().to_string(),
        ),
        As::Hex => digits(value),
        As::Oid => value.split(['=', ' ']).next()?.trim_start_matches('.').to_owned(),
        As::MediaType => text().split(';').next()?.to_lowercase(),
        As::User => text().split(':').next()?.to_owned(),
        As::Header => text().split(':').next()?.trim().to_lowercase(),
        As::Time => digits_of_time(value)?,
        As::Cookie => text().trim_start_matches("Cookie:").trim_start_matches("mstshash=").to_owned(),
        As::Reason => value.splitn(3, ' ').nth(2).map_or_else(text, graphic),
        As::Path => text().trim_matches('\\').to_lowercase(),
        As::Mailbox => {
            let address = value.split_once(':').map_or(value, |(_, address)| address).trim();
            graphic(address.split(' ').next()?).trim_matches(['<', '>']).to_owned()
        }
        As::Verb => value.split(' ').next()?.to_owned(),
        As::Quoted => text().trim_matches('"').to_owned(),
        As::Capitals => text().to_uppercase(),
        As::Untagged => text().split(";tag=").next()?.to_owned(),
        As::Serial => digits(value).trim_start_matches('0').to_owned(),
        As::Guid => {
            let mut digits: Vec<char> = digits(value).chars().collect();
            digits.sort_unstable();
            digits.into_iter().collect()
        }
        As::Ungreased => number(value).filter(|number| !is_grease(number))?,
        As::NetBios => graphic(value.split('<').next()?).to_lowercase(),
        As::Protocols => text(),
        As::Fixed if value.contains('.') => format!("{:.4}", value.parse::<f64>().ok()?),
        As::Fixed => format!("{:.4}", value.parse::<f64>().ok()? / 65_536.0),
    };
    Some(formed).filter(|formed| !formed.is_empty())
}

/// Printable ASCII without blanks and without escapes, of which each program has its own.
fn graphic(value: &str) -> String {
    let mut left = value;
    let mut text = String::with_capacity(value.len());
    while let Some(next) = left.chars().next() {
        left = &left[next.len_utf8()..];
        if next == '\\' {
            // \n, \x9f and \u{9f} are bytes that are not text.
            let skip = match left.as_bytes() {
                [b'x', a, b, ..] if a.is_ascii_hexdigit() && b.is_ascii_hexdigit() => 3,
                [b'n' | b'r' | b't' | b'\\' | b'0', ..] => 1,
                _ => 0,
            };
            left = &left[skip..];
        } else if next.is_ascii_graphic() {
            text.push(next);
        }
    }
    text
}

/// A whole number in decimal digits, from decimal or hexadecimal ones.
fn number(value: &str) -> Option<String> {
    let number = match value.strip_prefix("0x") {
        Some(digits) => i128::from_str_radix(digits, 16).ok()?,
        None => value.parse::<i128>().ok().or_else(|| value.parse::<f64>().ok().map(|real| real as i128))?,
    };
    Some(number.to_string())
}

/// The hexadecimal digits in a value.
fn digits(value: &str) -> String {
    value.chars().filter(char::is_ascii_hexdigit).collect::<String>().to_lowercase()
}

/// Whether a number is reserved for clients that send numbers which nothing knows (GREASE, RFC 8701).
fn is_grease(number: &str) -> bool {
    number.parse::<u16>().is_ok_and(|number| number & 0x0f0f == 0x0a0a && number >> 8 == number & 0xff)
}

/// Minutes, seconds and milliseconds, from seconds since 1970 or from a date and time: tshark's time is local.
fn digits_of_time(value: &str) -> Option<String> {
    if let Some(at) = value.find(':') {
        return Some(value[at + 1..].chars().filter(char::is_ascii_digit).take(7).collect());
    }
    let millis = (value.parse::<f64>().ok()? * 1000.0) as u64;
    // A time that is not set.
    if millis == 0 {
        return None;
    }
    Some(format!("{:02}{:02}{:03}", millis / 60_000 % 60, millis / 1000 % 60, millis % 1000))
}
