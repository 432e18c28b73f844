//! Search filters as text (RFC 4515).

use crate::ber::{tag, value};
use std::fmt::Write;
use weir_wire::Reader;

/// Maximum length of the text in bytes: longer filters are cut.
const MAX_TEXT: usize = 4096;
/// Maximum number of filters within each other.
const MAX_DEPTH: usize = 32;

/// The text of a filter; `None` if it is malformed.
pub(super) fn text(reader: &mut Reader<'_>) -> Option<String> {
    let mut text = String::new();
    write(reader, 0, &mut text)?;
    let end = text.floor_char_boundary(MAX_TEXT);
    text.truncate(end);
    Some(text)
}

fn write(reader: &mut Reader<'_>, depth: usize, text: &mut String) -> Option<()> {
    let (kind, content) = value(reader)?;
    let mut content = Reader::new(content);
    if text.len() > MAX_TEXT {
        return Some(());
    }
    if depth == MAX_DEPTH {
        return None;
    }
    text.push('(');
    match kind {
        0xa0 | 0xa1 => {
            text.push(if kind == 0xa0 { '&' } else { '|' });
            while !content.rest().is_empty() {
                write(&mut content, depth + 1, text)?;
            }
        }
        0xa2 => {
            text.push('!');
            write(&mut content, depth + 1, text)?;
        }
        0xa3 | 0xa5 | 0xa6 | 0xa8 => {
            escape(bytes(&mut content)?, text);
            text.push_str(match kind {
                0xa3 => "=",
                0xa5 => ">=",
                0xa6 => "<=",
                _ => "~=",
            });
            escape(bytes(&mut content)?, text);
        }
        0xa4 => substrings(&mut content, text)?,
        0x87 => {
            escape(content.rest(), text);
            text.push_str("=*");
        }
        0xa9 => extended(&mut content, text)?,
        _ => return None,
    }
    text.push(')');
    Some(())
}

fn bytes<'a>(reader: &mut Reader<'a>) -> Option<&'a [u8]> {
    value(reader).filter(|(kind, _)| *kind == tag::BYTES).map(|(_, bytes)| bytes)
}

/// Writes parts of a value, the first and the last of which may be absent.
fn substrings(content: &mut Reader<'_>, text: &mut String) -> Option<()> {
    escape(bytes(content)?, text);
    text.push('=');
    let (_, parts) = value(content).filter(|(kind, _)| *kind == tag::SEQUENCE)?;
    let (mut parts, mut is_open) = (Reader::new(parts), false);
    while !parts.rest().is_empty() {
        let (kind, part) = value(&mut parts)?;
        if kind != 0x80 && !is_open {
            text.push('*');
        }
        escape(part, text);
        is_open = kind != 0x82;
        if is_open {
            text.push('*');
        }
    }
    Some(())
}

/// Writes a rule with its attribute, its value and whether it includes the parts of names (RFC 4511, 4.5.1.7.7).
fn extended(content: &mut Reader<'_>, text: &mut String) -> Option<()> {
    let (mut rule, mut attribute, mut wanted, mut has_names) = (&[][..], &[][..], &[][..], false);
    while !content.rest().is_empty() {
        match value(content)? {
            (0x81, bytes) => rule = bytes,
            (0x82, bytes) => attribute = bytes,
            (0x83, bytes) => wanted = bytes,
            (0x84, bytes) => has_names = bytes != [0],
            _ => return None,
        }
    }
    escape(attribute, text);
    if has_names {
        text.push_str(":dn");
    }
    if !rule.is_empty() {
        text.push(':');
        escape(rule, text);
    }
    text.push_str(":=");
    escape(wanted, text);
    Some(())
}

/// Writes a value with the escapes of RFC 4515, 3: marks of the syntax, and bytes that are not text.
fn escape(bytes: &[u8], text: &mut String) {
    for chunk in bytes.utf8_chunks() {
        for letter in chunk.valid().chars() {
            match letter {
                '*' | '(' | ')' | '\\' => _ = write!(text, "\\{:02x}", letter as u32),
                letter if letter.is_control() => {
                    letter.encode_utf8(&mut [0; 4]).bytes().for_each(|byte| _ = write!(text, "\\{byte:02x}"));
                }
                letter => text.push(letter),
            }
        }
        chunk.invalid().iter().for_each(|byte| _ = write!(text, "\\{byte:02x}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_are_text() {
        let of = |bytes: &[u8]| text(&mut Reader::new(bytes));
        let class = b"\x87\x0bobjectClass";
        assert_eq!(of(class).as_deref(), Some("(objectClass=*)"));
        let name = b"\xa3\x0a\x04\x02cn\x04\x04A(*)";
        let both = [&b"\xa0\x19"[..], class, name].concat();
        assert_eq!(of(&both).as_deref(), Some("(&(objectClass=*)(cn=A\\28\\2a\\29))"));
        let not = [&b"\xa2\x0c"[..], name].concat();
        assert_eq!(of(&not).as_deref(), Some("(!(cn=A\\28\\2a\\29))"));
        assert_eq!(of(b"\xa4\x0d\x04\x02cn0\x07\x80\x01a\x82\x02bc").as_deref(), Some("(cn=a*bc)"));
        assert_eq!(
            of(b"\xa4\x0f\x04\x02cn0\x09\x81\x01a\x81\x01b\x81\x01c").as_deref(),
            Some("(cn=*a*b*c*)")
        );
        assert_eq!(of(b"\xa5\x07\x04\x01n\x04\x02\xff\x01").as_deref(), Some("(n>=\\ff\\01)"));
        assert_eq!(of(b"\xa9\x0d\x81\x031.2\x82\x01a\x83\x00\x84\x01\xff").as_deref(), Some("(a:dn:1.2:=)"));
        assert_eq!(of(b"\xa0\x04\x87\x09ab"), None);
        // Filters within each other are bounded.
        let mut deep = class.to_vec();
        for _ in 0..40 {
            deep = [&[0xa2, deep.len() as u8][..], &deep].concat();
        }
        assert_eq!(of(&deep), None);
    }
}
