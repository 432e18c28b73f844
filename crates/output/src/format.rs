//! Formatting of values as bytes: a row has dozens of them, and a string for each would cost more than the rest of the
//! row.

use std::io::Write;
use std::net::IpAddr;

/// A number in decimal digits.
pub fn push_number(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

/// Each byte in decimal digits and a dot after it, with their number.
const DOTTED: [([u8; 4], u8); 256] = {
    let mut all = [([b'.'; 4], 0); 256];
    let mut byte = 0;
    while byte < all.len() {
        let (text, length) = &mut all[byte];
        let mut of_ten = if byte >= 100 {
            100
        } else if byte >= 10 {
            10
        } else {
            1
        };
        while of_ten > 0 {
            text[*length as usize] = b'0' + (byte / of_ten % 10) as u8;
            *length += 1;
            of_ten /= 10;
        }
        *length += 1;
        byte += 1;
    }
    all
};

/// An address in its text form.
pub fn push_address(out: &mut Vec<u8>, address: IpAddr) {
    match address {
        IpAddr::V4(v4) => {
            let (mut text, mut end) = ([0; 16], 0);
            for byte in v4.octets() {
                let (digits, length) = DOTTED.get(usize::from(byte)).unwrap_or(&([b'.'; 4], 1));
                if let Some(place) = text.get_mut(end..end + digits.len()) {
                    place.copy_from_slice(digits);
                }
                end += usize::from(*length);
            }
            // The last byte has no dot.
            out.extend_from_slice(text.get(..end.saturating_sub(1)).unwrap_or_default());
        }
        // Writing into memory does not fail.
        IpAddr::V6(v6) => write!(out, "{v6}").unwrap_or_default(),
    }
}

/// An address as Suricata writes it: of IPv6 all eight groups with four digits.
pub fn push_full_address(out: &mut Vec<u8>, address: IpAddr) {
    let IpAddr::V6(v6) = address else { return push_address(out, address) };
    for (at, group) in v6.segments().into_iter().enumerate() {
        if at > 0 {
            out.push(b':');
        }
        group.to_be_bytes().into_iter().for_each(|byte| push_hex(out, byte));
    }
}

/// Two hexadecimal digits.
pub fn push_hex(out: &mut Vec<u8>, byte: u8) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for digit in [byte >> 4, byte & 15] {
        out.extend(DIGITS.get(usize::from(digit)));
    }
}

/// Zeek's form of a flow's identifier: `C` and a fixed number of base-62 digits.
pub fn push_uid(out: &mut Vec<u8>, id: u64) {
    const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    let mut text = [b'0'; 12];
    let mut rest = id;
    // 62^11 is more than 2^64.
    for place in text.iter_mut().skip(1).rev() {
        *place = DIGITS.get((rest % 62) as usize).copied().unwrap_or(b'0');
        rest /= 62;
    }
    text[0] = b'C';
    out.extend_from_slice(&text);
}

/// The identifiers of one or two flows; the second is 0 if there is one.
pub(crate) fn push_uids(out: &mut Vec<u8>, [first, second]: [u64; 2], separator: &[u8]) {
    push_uid(out, first);
    if second != 0 {
        out.extend_from_slice(separator);
        push_uid(out, second);
    }
}

/// The identifier from its Zeek form.
pub fn read_uid(text: &str) -> Option<u64> {
    text.strip_prefix('C')?.bytes().try_fold(0_u64, |id, byte| {
        let digit = match byte {
            b'0'..=b'9' => byte - b'0',
            b'A'..=b'Z' => byte - b'A' + 10,
            b'a'..=b'z' => byte - b'a' + 36,
            _ => return None,
        };
        id.checked_mul(62)?.checked_add(digit.into())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_are_read_back() {
        for id in [0, 1, 61, 62, u64::MAX] {
            let mut out = Vec::new();
            push_uid(&mut out, id);
            assert_eq!(read_uid(std::str::from_utf8(&out).unwrap()), Some(id));
        }
        assert_eq!(["", "7", "C-", "Czzzzzzzzzzzzz"].map(read_uid), [None; 4]);
    }

    #[test]
    fn full_addresses_have_all_groups() {
        for (text, full) in [
            ("10.0.0.5", "10.0.0.5"),
            ("2001:db8::1", "2001:0db8:0000:0000:0000:0000:0000:0001"),
            ("::ffff:1.2.3.4", "0000:0000:0000:0000:0000:ffff:0102:0304"),
        ] {
            let mut out = Vec::new();
            push_full_address(&mut out, text.parse().unwrap());
            assert_eq!(out, full.as_bytes());
        }
    }

    #[test]
    fn addresses_equal_those_of_the_standard_library() {
        for text in ["0.0.0.0", "255.255.255.255", "10.0.0.5", "::", "2001:db8::1", "::ffff:1.2.3.4"] {
            let mut out = Vec::new();
            push_address(&mut out, text.parse().unwrap());
            assert_eq!(String::from_utf8(out).unwrap(), text);
        }
        for byte in 0..=255 {
            let address = std::net::Ipv4Addr::new(byte, 7, 255 - byte, byte);
            let mut out = Vec::new();
            push_address(&mut out, address.into());
            assert_eq!(String::from_utf8(out).unwrap(), address.to_string());
        }
    }

    #[test]
    fn every_byte_has_two_digits() {
        for byte in 0..=u8::MAX {
            let mut out = Vec::new();
            push_hex(&mut out, byte);
            assert_eq!(out, format!("{byte:02x}").into_bytes());
        }
    }
}
