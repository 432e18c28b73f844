//! Literals: `content` and its modifiers.

use crate::fault::Fault;
use crate::value::Value;

/// Maximum length of a literal in bytes.
pub const MAX_CONTENT: usize = 65_535;

/// A number in a rule: written there, or read from the packet by an earlier `byte_extract` or `byte_math`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Amount {
    /// Written in the rule.
    Is(i64),
    /// The variable with this position in [`Rule::variables`](crate::Rule::variables).
    Variable(usize),
}

/// Whether a literal is the one by which a rule is found.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum FastPattern {
    /// Nothing is said.
    #[default]
    Unsaid,
    /// It is.
    Yes,
    /// It is, and needs no second look.
    Only,
    /// A part of it is: its first byte and its length.
    Part(usize, usize),
}

/// A literal in a buffer, and where it has to be.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Content {
    /// Its bytes, at least one.
    pub bytes: Box<[u8]>,
    /// Whether it must be absent from its place.
    pub is_negated: bool,
    /// Whether letters of ASCII match in either case.
    pub ignores_case: bool,
    /// The first byte of the buffer that it may begin at.
    pub offset: Option<Amount>,
    /// From the offset on, how many bytes it is searched in.
    pub depth: Option<Amount>,
    /// From the end of the last match on, how many bytes are skipped. May be negative.
    pub distance: Option<Amount>,
    /// From the end of the last match on, in how many bytes the literal ends.
    pub within: Option<Amount>,
    /// Whether it begins with the buffer.
    pub is_at_start: bool,
    /// Whether it ends with the buffer.
    pub is_at_end: bool,
    /// Whether it finds the rule.
    pub fast_pattern: FastPattern,
}

impl Content {
    /// Whether its place counts from the last match.
    pub fn is_relative(&self) -> bool {
        self.distance.is_some() || self.within.is_some()
    }

    /// Reads the value of `content`: `[!]"text|hex|"`.
    pub(crate) fn parse(value: Value<'_>) -> Result<Self, Fault> {
        let (is_negated, value) = value.negated();
        let bytes = literal(value.quoted()?)?;
        Ok(Self { is_negated, ..Self::of(bytes) })
    }

    /// The literal of these bytes, anywhere in the buffer.
    pub(crate) fn of(bytes: impl Into<Box<[u8]>>) -> Self {
        Self {
            bytes: bytes.into(),
            is_negated: false,
            ignores_case: false,
            offset: None,
            depth: None,
            distance: None,
            within: None,
            is_at_start: false,
            is_at_end: false,
            fast_pattern: FastPattern::Unsaid,
        }
    }

    /// Whether its modifiers agree. `at` is the place of the literal in the rule.
    pub(crate) fn check(&self, at: usize) -> Result<(), Fault> {
        let wrong = |reason: &str| Err(Fault::wrong(at, reason));
        let is_absolute = self.offset.is_some() || self.depth.is_some();
        if self.is_relative() && is_absolute {
            return wrong("a content has either offset and depth or distance and within, not both");
        }
        if self.is_at_start && (is_absolute || self.is_relative()) {
            return wrong(
                "`startswith` already says where the content is; it has no offset, depth, distance or within",
            );
        }
        let length = self.bytes.len() as i64;
        for (name, limit) in [("depth", self.depth), ("within", self.within)] {
            if let Some(Amount::Is(limit)) = limit
                && limit < length
                && !(self.is_negated && name == "within")
            {
                return Err(Fault::wrong(
                    at,
                    format!("{name} {limit} is less than the {length} bytes of the content"),
                ));
            }
        }
        match self.fast_pattern {
            FastPattern::Unsaid | FastPattern::Yes => Ok(()),
            FastPattern::Only if self.is_negated => wrong("a negated content cannot be `fast_pattern:only`"),
            FastPattern::Only if is_absolute || self.is_relative() => {
                wrong("`fast_pattern:only` searches the whole buffer; the content has a place of its own")
            }
            FastPattern::Only => Ok(()),
            FastPattern::Part(from, part) if from + part > self.bytes.len() || part == 0 => {
                wrong("the part for `fast_pattern` is not inside of the content")
            }
            FastPattern::Part(..) => Ok(()),
        }
    }
}

/// The bytes of a literal: text with escapes, and hexadecimal digits between bars.
pub(crate) fn literal(value: Value<'_>) -> Result<Vec<u8>, Fault> {
    let mut bytes = Vec::with_capacity(value.bytes.len());
    let mut at = 0;
    while let Some(byte) = value.bytes.get(at) {
        match byte {
            b'|' => at = hexadecimal(value, at, &mut bytes)?,
            b'\\' => {
                let Some(escaped) = value.bytes.get(at + 1) else {
                    return Err(value.from(at).wrong("`\\` stands before the end of the content"));
                };
                if !matches!(escaped, b'\\' | b'"' | b';' | b':' | b'|') {
                    let reason =
                        format!("`\\{}` is no escape; \\\\ \\\" \\; \\: and \\| are", char::from(*escaped));
                    return Err(value.from(at).wrong(reason));
                }
                bytes.push(*escaped);
                at += 2;
            }
            b'"' => return Err(value.from(at).wrong("a `\"` in a content is written as `\\\"` or |22|")),
            _ => {
                bytes.push(*byte);
                at += 1;
            }
        }
    }
    if bytes.is_empty() {
        return Err(value.wrong("the content is empty"));
    }
    if bytes.len() > MAX_CONTENT {
        return Err(
            value.wrong(format!("the content has {} bytes; at most {MAX_CONTENT} are accepted", bytes.len()))
        );
    }
    Ok(bytes)
}

/// Reads from a bar to the next one. Returns the place after it.
fn hexadecimal(value: Value<'_>, bar: usize, bytes: &mut Vec<u8>) -> Result<usize, Fault> {
    let inner = value.from(bar + 1);
    let Some(end) = inner.bytes.iter().position(|byte| *byte == b'|') else {
        return Err(value.from(bar).wrong("`|` begins hexadecimal digits and a second one is missing"));
    };
    let mut first = None;
    for (place, byte) in inner.before(end).bytes.iter().enumerate() {
        if byte.is_ascii_whitespace() {
            continue;
        }
        let Some(digit) = char::from(*byte).to_digit(16) else {
            return Err(inner
                .from(place)
                .wrong(format!("`{}` is not a hexadecimal digit", char::from(*byte))));
        };
        match first.take() {
            None => first = Some(digit),
            Some(high) => bytes.push((high * 16 + digit) as u8),
        }
    }
    match first {
        Some(_) => Err(inner.wrong("a byte has two hexadecimal digits; one is left")),
        None => Ok(bar + end + 2),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(text: &str) -> Result<Vec<u8>, String> {
        Content::parse(Value::new(text.as_bytes(), 0))
            .map(|content| content.bytes.to_vec())
            .map_err(|fault| fault.reason)
    }

    #[test]
    fn literals() {
        assert_eq!(bytes(r#""abc""#).unwrap(), b"abc");
        assert_eq!(bytes(r#" ! "a|0d 0A|b|2E2f|""#).unwrap(), b"a\r\nb./");
        assert_eq!(bytes(r#""\"\;\\\:""#).unwrap(), b"\";\\:");
        assert_eq!(bytes("\"\u{e9}\"").unwrap(), "\u{e9}".as_bytes());
    }

    #[test]
    fn wrong_literals_say_why() {
        for (text, part) in [
            ("abc", "without `\"`"),
            (r#""abc"#, "ends without"),
            (r#""""#, "empty"),
            (r#""||""#, "empty"),
            (r#""|4|""#, "one is left"),
            (r#""|4g|""#, "hexadecimal"),
            (r#""|41""#, "second one"),
            (r#""\n""#, "no escape"),
            (r#""a"b""#, "|22|"),
        ] {
            let fault = bytes(text).unwrap_err();
            assert!(fault.contains(part), "{text}: {fault}");
        }
        assert!(bytes(&format!("\"{}\"", "a".repeat(MAX_CONTENT))).is_ok());
        assert!(bytes(&format!("\"{}\"", "a".repeat(MAX_CONTENT + 1))).unwrap_err().contains("65535"));
    }
}
