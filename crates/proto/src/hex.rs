//! Bytes as hexadecimal digits.

/// Lower-case hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    let digit = |nibble: u8| char::from_digit(u32::from(nibble & 15), 16).unwrap_or('0');
    let mut text = String::with_capacity(bytes.len() * 2);
    text.extend(bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(*byte)]));
    text
}
