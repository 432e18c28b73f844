//! The entropy of a buffer (C. E. Shannon, "A Mathematical Theory of Communication", 1948).

use crate::fault::Fault;
use crate::value::Value;

/// `entropy`: a test of the entropy of the bytes of a buffer, in bits for each byte: 0 where all are equal, 8 where all values
/// are equally frequent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Entropy {
    /// The number of bytes, which must be there. 0: all from the offset on.
    pub bytes: u32,
    /// The first byte.
    pub offset: u32,
    /// What it must be.
    pub test: EntropyTest,
}

/// A test of an entropy.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum EntropyTest {
    /// Equal.
    Is(f64),
    /// Not equal.
    Not(f64),
    /// Lower.
    Below(f64),
    /// Lower or equal.
    AtMost(f64),
    /// Higher.
    Above(f64),
    /// Higher or equal.
    AtLeast(f64),
    /// Higher than the first and lower than the second.
    Between(f64, f64),
    /// Not higher than the first, or not lower than the second.
    Outside(f64, f64),
}

impl Entropy {
    pub(crate) fn parse(value: Value<'_>) -> Result<Self, Fault> {
        let number = |value: Value<'_>, what| Ok(value.number(what, 0, 65_535)? as u32);
        let (mut bytes, mut offset, mut test) = (0, 0, None);
        for part in value.unquoted().parts(b',') {
            let (name, argument) = part.name_and_argument();
            match name.bytes {
                b"bytes" => bytes = number(argument, "a number of bytes")?,
                b"offset" => offset = number(argument, "an offset")?,
                b"value" => test = Some(EntropyTest::parse(argument)?),
                _ => {
                    let reason = format!(
                        "`{}` is not an option of entropy; bytes, offset and value are",
                        part.shown()
                    );
                    return Err(part.wrong(reason));
                }
            }
        }
        let test = test.ok_or_else(|| value.wrong("`value` and an entropy are missing"))?;
        Ok(Self { bytes, offset, test })
    }

    /// Whether the entropy of a buffer passes. One that ends before the bytes does not.
    pub(crate) fn passes(&self, buffer: &[u8]) -> bool {
        let rest = buffer.get(self.offset as usize..);
        let part = match self.bytes {
            0 => rest,
            bytes => rest.and_then(|rest| rest.get(..bytes as usize)),
        };
        part.is_some_and(|part| self.test.passes(entropy(part)))
    }
}

impl EntropyTest {
    fn parse(value: Value<'_>) -> Result<Self, Fault> {
        let range = |value: Value<'_>| -> Result<Option<(f64, f64)>, Fault> {
            let Some(at) = value.bytes.iter().position(|byte| *byte == b'-') else { return Ok(None) };
            let (from, to) = (number(value.before(at))?, number(value.from(at + 1))?);
            match from < to {
                true => Ok(Some((from, to))),
                false => Err(value.wrong(format!("the range `{}` ends before it begins", value.shown()))),
            }
        };
        Ok(if let Some(rest) = value.after("!=") {
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
        } else if let Some(rest) = value.after("!") {
            match range(rest)? {
                Some((from, to)) => Self::Outside(from, to),
                None => Self::Not(number(rest)?),
            }
        } else {
            match range(value)? {
                Some((from, to)) => Self::Between(from, to),
                None => Self::Is(number(value)?),
            }
        })
    }

    fn passes(self, entropy: f64) -> bool {
        match self {
            Self::Is(is) => entropy == is,
            Self::Not(is) => entropy != is,
            Self::Below(than) => entropy < than,
            Self::AtMost(than) => entropy <= than,
            Self::Above(than) => entropy > than,
            Self::AtLeast(than) => entropy >= than,
            Self::Between(from, to) => entropy > from && entropy < to,
            Self::Outside(from, to) => entropy <= from || entropy >= to,
        }
    }
}

/// An entropy: 0 to 8.
fn number(value: Value<'_>) -> Result<f64, Fault> {
    let value = value.trimmed();
    let is_plain = value.bytes.iter().all(|byte| byte.is_ascii_digit() || *byte == b'.');
    let number = value.text()?.parse().ok().filter(|number| is_plain && (0.0..=8.0).contains(number));
    number.ok_or_else(|| value.wrong(format!("`{}` is not an entropy: 0 to 8 are", value.shown())))
}

/// The entropy of bytes; 0 without any.
fn entropy(bytes: &[u8]) -> f64 {
    let mut counts = [0_u32; 256];
    for byte in bytes {
        if let Some(count) = counts.get_mut(usize::from(*byte)) {
            *count += 1;
        }
    }
    let all = bytes.len() as f64;
    let shares = counts.iter().filter(|count| **count > 0).map(|count| f64::from(*count) / all);
    // A sum of nothing is 0, and no sum is -0.
    shares.map(|share| -share * share.log2()).sum::<f64>() + 0.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<Entropy, String> {
        Entropy::parse(Value::new(text.as_bytes(), 0)).map_err(|fault| fault.reason)
    }

    #[test]
    fn the_entropy_of_known_bytes() {
        let all: Vec<u8> = (0..=255).collect();
        for (bytes, expected) in
            [(&b""[..], 0.0), (b"aaaa", 0.0), (b"ab", 1.0), (b"aabc", 1.5), (b"abcdefgh", 3.0), (&all, 8.0)]
        {
            assert_eq!(entropy(bytes), expected, "{bytes:?}");
        }
    }

    #[test]
    fn forms() {
        use EntropyTest::*;
        for (text, bytes, offset, test) in [
            ("value > 4", 0, 0, Above(4.0)),
            ("bytes 10, offset 2, value <= 7.5", 10, 2, AtMost(7.5)),
            ("value 4-5.5,offset 3", 0, 3, Between(4.0, 5.5)),
            ("value !4-5", 0, 0, Outside(4.0, 5.0)),
            ("value !4", 0, 0, Not(4.0)),
            ("value != 4", 0, 0, Not(4.0)),
            ("value >=4", 0, 0, AtLeast(4.0)),
            ("value <4", 0, 0, Below(4.0)),
            ("value = 0", 0, 0, Is(0.0)),
            ("value 8", 0, 0, Is(8.0)),
        ] {
            assert_eq!(parsed(text), Ok(Entropy { bytes, offset, test }), "{text}");
        }
        for (text, part) in [
            ("", "not an option"),
            ("bytes 3", "missing"),
            ("value", "not an entropy"),
            ("value > 9", "0 to 8"),
            ("value nan", "not an entropy"),
            ("value 5-4", "ends before"),
            ("bytes x, value 1", "number of bytes"),
        ] {
            let fault = parsed(text).unwrap_err();
            assert!(fault.contains(part), "{text}: {fault}");
        }
    }

    #[test]
    fn bytes_that_are_not_there_have_none() {
        let passes = |text: &str, buffer: &[u8]| parsed(text).unwrap().passes(buffer);
        assert!(passes("value = 1", b"abab") && !passes("value = 1", b"aba"));
        assert!(
            passes("bytes 2, offset 1, value = 1", b"aab")
                && !passes("bytes 3, offset 1, value >= 0", b"aab")
        );
        assert!(passes("offset 2, value = 0", b"ab") && !passes("offset 3, value >= 0", b"ab"));
    }
}
