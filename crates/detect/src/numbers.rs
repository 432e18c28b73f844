//! Tests of numbers, in the form that many keywords share.

use crate::fault::Fault;
use crate::value::Value;

/// A test of an unsigned number. Ranges leave both of their ends out, as in Suricata ("Integer keywords" of its manual).
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum NumberTest {
    /// Equal.
    Is(u64),
    /// Not equal.
    Not(u64),
    /// Lower.
    Below(u64),
    /// Lower or equal.
    AtMost(u64),
    /// Higher.
    Above(u64),
    /// Higher or equal.
    AtLeast(u64),
    /// Higher than the first and lower than the second.
    Between(u64, u64),
    /// Not higher than the first, or not lower than the second.
    Outside(u64, u64),
    /// The bits of the first are the second.
    Bits(u64, u64),
    /// The bits of the first are not the second.
    NotBits(u64, u64),
}

impl NumberTest {
    /// Whether a number passes.
    #[inline]
    pub fn passes(self, number: u64) -> bool {
        match self {
            Self::Is(is) => number == is,
            Self::Not(is) => number != is,
            Self::Below(than) => number < than,
            Self::AtMost(than) => number <= than,
            Self::Above(than) => number > than,
            Self::AtLeast(than) => number >= than,
            Self::Between(from, to) => number > from && number < to,
            Self::Outside(from, to) => number <= from || number >= to,
            Self::Bits(mask, is) => number & mask == is,
            Self::NotBits(mask, is) => number & mask != is,
        }
    }

    /// Whether any number up to the greatest passes.
    fn can_pass(self, greatest: u64) -> bool {
        match self {
            Self::Is(is) | Self::AtLeast(is) => is <= greatest,
            Self::Below(than) => than > 0,
            Self::Above(than) => than < greatest,
            Self::Between(from, to) => from < greatest && to - from > 1,
            Self::Bits(mask, is) => is & !mask == 0 && is <= greatest,
            Self::Not(_) | Self::AtMost(_) | Self::Outside(..) | Self::NotBits(..) => true,
        }
    }

    /// The test of a value. Numbers are at most `greatest`; `words` are names of numbers.
    pub(crate) fn parse(value: Value<'_>, greatest: u64, words: &[(&str, u64)]) -> Result<Self, Fault> {
        let number = |value: Value<'_>| number_of(value, greatest, words);
        let value = value.trimmed();
        let test = if let Some(rest) = value.after("!=") {
            Self::Not(number(rest)?)
        } else if let Some(rest) = value.after("<=") {
            Self::AtMost(number(rest)?)
        } else if let Some(rest) = value.after(">=") {
            Self::AtLeast(number(rest)?)
        } else if let Some(rest) = value.after("<") {
            Self::Below(number(rest)?)
        } else if let Some(rest) = value.after(">") {
            Self::Above(number(rest)?)
        } else if let Some(rest) = value.after("=") {
            Self::Is(number(rest)?)
        } else if let Some(rest) = value.after("&") {
            bits(rest, false, greatest)?
        } else if let Some(rest) = value.after("!&") {
            bits(rest, true, greatest)?
        } else if let Some(rest) = value.after("!") {
            match range(rest, greatest)? {
                Some((from, to)) => Self::Outside(from, to),
                None => Self::Not(number(rest)?),
            }
        } else {
            match range(value, greatest)? {
                Some((from, to)) => Self::Between(from, to),
                None => Self::Is(number(value)?),
            }
        };
        if test.can_pass(greatest) {
            return Ok(test);
        }
        Err(value.wrong(format!("no number passes `{}`", value.shown())))
    }
}

/// Two numbers with `-` or `<>` between them, if the value is a range.
fn range(value: Value<'_>, greatest: u64) -> Result<Option<(u64, u64)>, Fault> {
    let find = |separator: &[u8]| value.bytes.windows(separator.len()).position(|part| part == separator);
    let Some((at, length)) = find(b"<>").map(|at| (at, 2)).or_else(|| find(b"-").map(|at| (at, 1))) else {
        return Ok(None);
    };
    // Names have dashes.
    if length == 1 && !value.bytes.first().is_some_and(u8::is_ascii_digit) {
        return Ok(None);
    }
    let (from, to) =
        (number_of(value.before(at), greatest, &[])?, number_of(value.from(at + length), greatest, &[])?);
    match from < to {
        true => Ok(Some((from, to))),
        false => Err(value.wrong(format!("the range `{}` ends before it begins", value.shown()))),
    }
}

/// A mask and what its bits are: `0xc0=0x80`.
fn bits(value: Value<'_>, negate: bool, greatest: u64) -> Result<NumberTest, Fault> {
    let Some(at) = value.bytes.iter().position(|byte| *byte == b'=') else {
        return Err(value.wrong("a mask is followed by `=` and a number"));
    };
    let (mask_end, negate) = match at.checked_sub(1).and_then(|before| value.bytes.get(before)) {
        Some(b'!') => (at - 1, !negate),
        _ => (at, negate),
    };
    let mask = number_of(value.before(mask_end), greatest, &[])?;
    let is = number_of(value.from(at + 1), greatest, &[])?;
    Ok(if negate { NumberTest::NotBits(mask, is) } else { NumberTest::Bits(mask, is) })
}

/// A number with its unit, or a name of one.
pub(crate) fn number_of(value: Value<'_>, greatest: u64, words: &[(&str, u64)]) -> Result<u64, Fault> {
    let value = value.trimmed();
    let named = |(word, _): &&(&str, u64)| word.as_bytes().eq_ignore_ascii_case(value.bytes);
    if let Some((_, number)) = words.iter().find(named) {
        return Ok(*number);
    }
    let lower = value.bytes.to_ascii_lowercase();
    let units: [(&[u8], u64); 6] = [
        (b"kib", 1 << 10),
        (b"kb", 1 << 10),
        (b"mib", 1 << 20),
        (b"mb", 1 << 20),
        (b"gib", 1 << 30),
        (b"gb", 1 << 30),
    ];
    // Digits of hexadecimal numbers are no units.
    let unit = units.iter().find(|(unit, _)| lower.ends_with(unit) && !lower.starts_with(b"0x"));
    let (digits, unit) =
        unit.map_or((value, 1), |(unit, by)| (value.before(value.bytes.len() - unit.len()), *by));
    let wrong = || {
        let words = if words.is_empty() { "" } else { ", or a name of one" };
        value.wrong(format!("`{}` is not a number from 0 to {greatest}{words}", value.shown()))
    };
    let text = digits.trimmed().text()?;
    let is_number =
        !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'x' || byte == b'X');
    let number = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        _ if !is_number => return Err(wrong()),
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    let number =
        number.ok().and_then(|number: u64| number.checked_mul(unit)).filter(|number| *number <= greatest);
    number.ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn test(text: &str) -> Result<NumberTest, String> {
        NumberTest::parse(Value::new(text.as_bytes(), 0), 65535, &[("text", 1)]).map_err(|fault| fault.reason)
    }

    #[test]
    fn all_forms() {
        use NumberTest::*;
        for (text, is) in [
            ("19", Is(19)),
            ("=0x13", Is(19)),
            ("!0x14", Not(20)),
            ("!=20", Not(20)),
            (">21", Above(21)),
            (">= 21", AtLeast(21)),
            ("<22", Below(22)),
            ("<=22", AtMost(22)),
            ("19-22", Between(19, 22)),
            ("19<>22", Between(19, 22)),
            ("!19-22", Outside(19, 22)),
            ("&0xc0=0x80", Bits(0xc0, 0x80)),
            ("&0xc0!=0", NotBits(0xc0, 0)),
            ("text", Is(1)),
            ("!text", Not(1)),
            ("4kb", Is(4096)),
        ] {
            assert_eq!(test(text), Ok(is), "{text}");
        }
    }

    #[test]
    fn wrong_numbers_say_why() {
        for (text, part) in [
            ("70000", "0 to 65535"),
            ("x", "a name of one"),
            ("", "not a number"),
            ("-3", "not a number"),
            ("9-3", "ends before"),
            ("3-4", "no number passes"),
            ("<0", "no number passes"),
            (">65535", "no number passes"),
            ("&0x0f=0x10", "no number passes"),
            ("18446744073709551616", "0 to"),
        ] {
            let fault = test(text).unwrap_err();
            assert!(fault.contains(part), "{text}: {fault}");
        }
    }

    #[test]
    fn ranges_leave_their_ends_out() {
        let between = test("1-4").unwrap();
        assert_eq!((0..6).filter(|number| between.passes(*number)).collect::<Vec<_>>(), [2, 3]);
        let outside = test("!1-4").unwrap();
        assert_eq!((0..6).filter(|number| outside.passes(*number)).collect::<Vec<_>>(), [0, 1, 4, 5]);
    }
}
