//! The right sides of tests.

use super::FieldKind;
use std::cmp::Ordering;
use std::net::{IpAddr, Ipv6Addr};

/// A number as it is written: whole, or with a fraction. Two are equal as they are written; [`Number::order`] compares values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    /// Whole.
    Whole(i128),
    /// With a fraction.
    Real(f64),
}

impl Number {
    /// Parses a number without a unit.
    pub fn parse(text: &str) -> Option<Self> {
        if let Ok(whole) = text.parse() {
            return Some(Number::Whole(whole));
        }
        let begins = text.trim_start_matches(['-', '+']).bytes().next()?;
        let real = text.parse::<f64>().ok().filter(|_| begins.is_ascii_digit() || begins == b'.')?;
        real.is_finite().then_some(Number::Real(real))
    }

    /// The order of two numbers; NaN is above all others.
    pub fn order(self, other: Self) -> Ordering {
        match (self, other) {
            (Number::Whole(a), Number::Whole(b)) => a.cmp(&b),
            (a, b) => {
                let (a, b) = (a.real(), b.real());
                // -0.0 equals 0.0, unlike in `total_cmp`.
                a.partial_cmp(&b).unwrap_or_else(|| a.total_cmp(&b))
            }
        }
    }

    /// The nearest floating-point number.
    pub fn real(self) -> f64 {
        match self {
            Number::Whole(whole) => whole as f64,
            Number::Real(real) => real,
        }
    }

    fn times(self, factor: i128) -> Option<Self> {
        Some(match self {
            Number::Whole(whole) => Number::Whole(whole.checked_mul(factor)?),
            Number::Real(real) => Number::Real(real * factor as f64),
        })
    }
}

/// Text to compare with, in any case of ASCII letters or as it is written.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Text {
    /// In lower case, unless it is exact.
    pub(super) bytes: Box<[u8]>,
    pub(super) is_exact: bool,
}

impl Text {
    /// The operand of a word, a text in quotes, or bytes.
    pub fn new(text: impl AsRef<[u8]>, is_exact: bool) -> Self {
        let mut bytes: Box<[u8]> = text.as_ref().into();
        if !is_exact {
            bytes.make_ascii_lowercase();
        }
        Self { bytes, is_exact }
    }

    /// Its bytes, in lower case unless it is exact.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(crate) fn is_exact(&self) -> bool {
        self.is_exact
    }

    pub(super) fn equals(&self, value: &[u8]) -> bool {
        if self.is_exact { *self.bytes == *value } else { self.bytes.eq_ignore_ascii_case(value) }
    }

    pub(super) fn order_of(&self, value: &[u8]) -> Ordering {
        match self.is_exact {
            true => value.cmp(&self.bytes),
            false => value.iter().map(u8::to_ascii_lowercase).cmp(self.bytes.iter().copied()),
        }
    }

    pub(super) fn begins(&self, value: &[u8]) -> bool {
        value.get(..self.bytes.len()).is_some_and(|front| self.equals(front))
    }

    pub(super) fn ends(&self, value: &[u8]) -> bool {
        let from = value.len().checked_sub(self.bytes.len());
        from.and_then(|from| value.get(from..)).is_some_and(|back| self.equals(back))
    }

    /// Whether a name is this domain or below it. A dot at the end of either does not count.
    pub(super) fn is_above(&self, name: &[u8]) -> bool {
        let (own, name) = (domain(&self.bytes, true), domain(name, false));
        let Some(cut) = name.len().checked_sub(own.len()) else { return false };
        let is_label = cut == 0 || own.is_empty() || name.get(cut - 1) == Some(&b'.');
        let back = name.get(cut..).unwrap_or_default();
        is_label && if self.is_exact { own == back } else { own.eq_ignore_ascii_case(back) }
    }
}

/// A name without a dot at its end; of an operand also without one at its beginning.
pub(crate) fn domain(name: &[u8], is_operand: bool) -> &[u8] {
    let name = name.strip_prefix(b".").filter(|_| is_operand).unwrap_or(name);
    name.strip_suffix(b".").unwrap_or(name)
}

/// A text that is searched for, in time linear in the searched value and without memory of its own (Knuth, Morris and Pratt).
#[derive(Clone, Debug, PartialEq)]
pub struct Search {
    text: Text,
    /// For each byte of the text: the length of the longest beginning of the text that ends there, short of all of it.
    borders: Box<[u32]>,
}

impl Search {
    /// The search for a text.
    pub fn new(text: Text) -> Self {
        let mut borders = vec![0_u32; text.bytes.len()];
        let mut matched = 0;
        for at in 1..text.bytes.len() {
            matched = step(&text.bytes, &borders, matched, text.bytes[at]);
            borders[at] = matched as u32;
        }
        Self { text, borders: borders.into() }
    }

    /// The text.
    pub(crate) fn text(&self) -> &Text {
        &self.text
    }

    /// Whether the text occurs in a value.
    pub fn is_in(&self, value: &[u8]) -> bool {
        let bytes = &self.text.bytes;
        let Some(first) = bytes.first() else { return true };
        let (mut at, mut matched) = (0, 0);
        while let Some(rest) = value.get(at..).filter(|rest| rest.len() + matched >= bytes.len()) {
            if matched == 0 {
                let found = match self.text.is_exact {
                    true => memchr::memchr(*first, rest),
                    false => memchr::memchr2(*first, first.to_ascii_uppercase(), rest),
                };
                let Some(found) = found else { return false };
                (at, matched) = (at + found + 1, 1);
            } else {
                let Some(byte) = rest.first() else { return false };
                let byte = if self.text.is_exact { *byte } else { byte.to_ascii_lowercase() };
                (at, matched) = (at + 1, step(bytes, &self.borders, matched, byte));
            }
            if matched == bytes.len() {
                return true;
            }
        }
        false
    }
}

/// The matched length of a text after one more byte.
fn step(text: &[u8], borders: &[u32], mut matched: usize, byte: u8) -> usize {
    while matched > 0 && text.get(matched) != Some(&byte) {
        matched = borders.get(matched - 1).map_or(0, |border| *border as usize);
    }
    matched + usize::from(text.get(matched) == Some(&byte))
}

/// Addresses from one to another, both included, IPv4 mapped into IPv6.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Addresses {
    /// The first.
    pub low: u128,
    /// The last.
    pub high: u128,
}

impl Addresses {
    /// Parses an address or a network: `192.0.2.1`, `10.0.0.0/8`, `2001:db8::/32`.
    pub fn parse(text: &str) -> Option<Self> {
        let (address, length) = text.split_once('/').map_or((text, None), |(a, b)| (a, Some(b)));
        let address: IpAddr = address.parse().ok()?;
        let number = number_of(address);
        let width = if address.is_ipv4() { 32 } else { 128 };
        let length = length.map_or(Some(width), |length| length.parse::<u32>().ok())?;
        let free = width.checked_sub(length)?;
        let mask = 1_u128.checked_shl(free).map_or(u128::MAX, |bit| bit - 1);
        Some(Self { low: number & !mask, high: number | mask })
    }

    /// Whether an address is among them.
    pub fn contain(&self, address: u128) -> bool {
        (self.low..=self.high).contains(&address)
    }
}

/// An address as a number, IPv4 mapped into IPv6.
pub(super) fn number_of(address: IpAddr) -> u128 {
    let v6 = match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped(),
        IpAddr::V6(v6) => v6,
    };
    v6.to_bits()
}

/// The address in a text, as a number.
pub(super) fn address_in(text: &[u8]) -> Option<u128> {
    let text = std::str::from_utf8(text).ok()?;
    let address: IpAddr = text.parse().ok().or_else(|| text.parse::<Ipv6Addr>().ok().map(IpAddr::V6))?;
    Some(number_of(address))
}

/// The right side of a test.
#[derive(Clone, Debug, PartialEq)]
pub enum Operand {
    /// Yes or no.
    Bool(bool),
    /// A number; of times and lengths of time, seconds.
    Number(Number),
    /// Text.
    Text(Text),
    /// An address or a network.
    Addresses(Addresses),
}

impl Operand {
    /// Parses the text of an operand for a kind of field.
    ///
    /// # Errors
    ///
    /// The accepted forms.
    pub fn parse(
        kind: FieldKind,
        text: &str,
        is_exact: bool,
        time: impl Fn(&str) -> Result<f64, String>,
    ) -> Result<Self, String> {
        let found = match kind {
            FieldKind::Text => Some(Operand::Text(Text::new(text, is_exact))),
            FieldKind::Bool => match text.to_ascii_lowercase().as_str() {
                "true" | "yes" | "t" | "1" => Some(Operand::Bool(true)),
                "false" | "no" | "f" | "0" => Some(Operand::Bool(false)),
                _ => None,
            },
            FieldKind::Number => with_unit(text, SIZES).map(Operand::Number),
            FieldKind::Duration => {
                let plain = Number::parse(text);
                plain.or_else(|| seconds(text).map(Number::Real)).map(Operand::Number)
            }
            FieldKind::Time => {
                let epoch = Number::parse(text).filter(|number| number.real() > 9999.0 || text.contains('.'));
                Some(Operand::Number(match epoch {
                    Some(number) => number,
                    None => Number::Real(time(text)?),
                }))
            }
            FieldKind::Address => Addresses::parse(text).map(Operand::Addresses),
        };
        let accepted = match kind {
            FieldKind::Text | FieldKind::Time => "text",
            FieldKind::Bool => "`true` or `false`",
            FieldKind::Number => "a number such as `404`, `1.5` or `10M`",
            FieldKind::Duration => "a length of time such as `0.2`, `200ms` or `5m`",
            FieldKind::Address => "an address or a network such as `192.0.2.1` or `10.0.0.0/8`",
        };
        found.ok_or_else(|| accepted.to_owned())
    }
}

static SIZES: &[(&str, i128)] = &[
    ("Ki", 1 << 10),
    ("Mi", 1 << 20),
    ("Gi", 1 << 30),
    ("Ti", 1 << 40),
    ("k", 1_000),
    ("K", 1_000),
    ("M", 1_000_000),
    ("G", 1_000_000_000),
    ("T", 1_000_000_000_000),
];

fn with_unit(text: &str, units: &[(&str, i128)]) -> Option<Number> {
    if let Some(plain) = Number::parse(text) {
        return Some(plain);
    }
    let (digits, factor) =
        units.iter().find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, factor)))?;
    Number::parse(digits)?.times(*factor)
}

/// Seconds of a length of time with its unit.
fn seconds(text: &str) -> Option<f64> {
    static UNITS: &[(&str, f64)] = &[
        ("ns", 1e-9),
        ("us", 1e-6),
        ("ms", 1e-3),
        ("s", 1.0),
        ("m", 60.0),
        ("h", 3600.0),
        ("d", 86_400.0),
        ("w", 7.0 * 86_400.0),
    ];
    let (digits, unit) = UNITS.iter().find_map(|(name, unit)| Some((text.strip_suffix(name)?, *unit)))?;
    let number = Number::parse(digits)?.real();
    // Below a second division is exact where multiplication is not: 3 / 1000 is 0.003.
    Some(if unit < 1.0 { number / (1.0 / unit).round() } else { number * unit })
}
