//! Malformed ASN.1 (X.690) that overruns its readers.

use crate::rule::Asn1;

/// Maximum number of elements that are looked at, Suricata's limit.
const MAX_ELEMENTS: usize = 256;

/// Maximum depth of elements in each other.
const MAX_DEPTH: usize = 16;

/// An element: the byte of its type, its length and its content, as far as it is there.
struct Element<'a> {
    kind: u8,
    length: Option<u32>,
    content: &'a [u8],
    rest: &'a [u8],
}

/// Whether an element of the bytes is odd in a way that the test names.
pub(crate) fn is_odd(bytes: &[u8], test: &Asn1) -> bool {
    let mut left = MAX_ELEMENTS;
    has_odd(bytes, test, 0, &mut left)
}

fn has_odd(mut bytes: &[u8], test: &Asn1, depth: usize, left: &mut usize) -> bool {
    while let Some(element) = element(bytes) {
        *left = match left.checked_sub(1) {
            Some(left) if depth < MAX_DEPTH => left,
            _ => return false,
        };
        if is_element_odd(&element, test) {
            return true;
        }
        let is_constructed = element.kind & 0x20 != 0;
        if is_constructed && has_odd(element.content, test, depth + 1, left) {
            return true;
        }
        bytes = element.rest;
    }
    false
}

fn is_element_odd(element: &Element<'_>, test: &Asn1) -> bool {
    const BIT_STRING: u8 = 3;
    const REAL: u8 = 9;
    let is_long = |limit: u32| element.length.is_some_and(|length| length > limit);
    if test.oversize_length.is_some_and(is_long) {
        return true;
    }
    let is_universal = element.kind & 0xc0 == 0;
    let number = element.kind & 0x1f;
    if test.bitstring_overflow && is_universal && number == BIT_STRING {
        // More unused bits than a byte has, and more than the string has bits (MS04-007).
        let unused = element.content.first().copied().unwrap_or(0);
        if let Some(length) = element.length
            && (unused > 7 || length.saturating_sub(1).saturating_mul(8) < u32::from(unused))
        {
            return true;
        }
    }
    // A decimal number of more than 256 digits (CVE-2000-0941 and its like).
    let is_decimal = element.content.first().is_some_and(|first| first & 0xc0 == 0);
    test.double_overflow && is_universal && number == REAL && is_decimal && is_long(256)
}

/// The first element of bytes. Its content is what of it is there.
fn element(bytes: &[u8]) -> Option<Element<'_>> {
    let (kind, mut rest) = bytes.split_first()?;
    // A type of more than one byte: seven bits each.
    if kind & 0x1f == 0x1f {
        let end = rest.iter().take(5).position(|byte| byte & 0x80 == 0)?;
        rest = rest.get(end + 1..)?;
    }
    let (first, mut rest) = rest.split_first()?;
    let length = match first {
        0x80 => None,
        0..=0x7f => Some(u32::from(*first)),
        _ => {
            let count = usize::from(first & 0x7f);
            let digits = rest.get(..count)?;
            rest = rest.get(count..)?;
            let value = digits
                .iter()
                .try_fold(0_u32, |value, byte| value.checked_mul(256)?.checked_add(u32::from(*byte)));
            Some(value.unwrap_or(u32::MAX))
        }
    };
    let end = length.map_or(rest.len(), |length| (length as usize).min(rest.len()));
    let (content, rest) = rest.split_at_checked(end)?;
    Some(Element { kind: *kind, length, content, rest })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_elements_are_found_in_others() {
        let bits = Asn1 { bitstring_overflow: true, ..Asn1::default() };
        assert!(is_odd(&[0x30, 4, 3, 2, 9, 0xff], &bits));
        assert!(!is_odd(&[0x30, 4, 3, 2, 1, 0xff], &bits));
        let long = Asn1 { oversize_length: Some(100), ..Asn1::default() };
        assert!(is_odd(&[4, 0x82, 1, 0], &long) && !is_odd(&[4, 100], &long));
        assert!(is_odd(&[4, 0x88, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff], &long));
        let real = Asn1 { double_overflow: true, ..Asn1::default() };
        assert!(is_odd(&[9, 0x82, 1, 1, 3], &real) && !is_odd(&[9, 1, 3], &real));
    }

    #[test]
    fn nested_and_cut_elements_end() {
        let deep = [0x30, 0x80].repeat(10_000);
        assert!(!is_odd(&deep, &Asn1 { bitstring_overflow: true, ..Asn1::default() }));
        for cut in [&[][..], &[0x1f], &[0x1f, 0xff, 0xff], &[0x30, 0x84, 1]] {
            assert!(!is_odd(cut, &Asn1 { oversize_length: Some(1), ..Asn1::default() }));
        }
    }
}
