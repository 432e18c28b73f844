//! Keys of records as bytes, so that a known key is found without memory from the heap.
//!
//! A key is the forms of its parts, end to end. Each begins with its kind, and equal values have equal forms.

use std::net::Ipv6Addr;
use weir_api::Datum;
use weir_filter::fields::{FieldValue, Number};

/// Maximum bytes of a text in a key. Longer ones are cut.
pub(super) const TEXT: usize = 256;
/// Maximum number of keys of one record: a field can have several values.
pub(super) const KEYS: usize = 64;

const NUMBER: u8 = 0;
const ADDRESS: u8 = 1;
const TEXT_OF: u8 = 2;

/// Keys, or values of one part, end to end in one piece of memory.
#[derive(Debug, Default)]
pub(super) struct Keys {
    bytes: Vec<u8>,
    /// The end of each.
    ends: Vec<usize>,
}

impl Keys {
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    /// Adds a key without parts.
    pub fn push_empty(&mut self) {
        self.ends.push(self.bytes.len());
    }

    /// Adds a value.
    pub fn push(&mut self, value: &FieldValue<'_>) {
        match value {
            FieldValue::Bool(value) => self.text(if *value { "true" } else { "false" }),
            FieldValue::Number(Number::Whole(number)) => match u64::try_from(*number) {
                Ok(number) => {
                    self.bytes.push(NUMBER);
                    self.bytes.extend_from_slice(&number.to_le_bytes());
                }
                Err(_) => self.text(&number.to_string()),
            },
            FieldValue::Number(Number::Real(number)) => self.text(&number.to_string()),
            FieldValue::Address(address) => {
                self.bytes.push(ADDRESS);
                self.bytes.extend_from_slice(&address.to_le_bytes());
            }
            FieldValue::Text(text) => {
                self.text(&String::from_utf8_lossy(text.get(..TEXT).unwrap_or(text)));
            }
        }
        self.ends.push(self.bytes.len());
    }

    /// A text of at most a few times [`TEXT`] bytes: characters in place of invalid bytes are longer than these.
    fn text(&mut self, text: &str) {
        self.bytes.push(TEXT_OF);
        self.bytes.extend_from_slice(&(text.len() as u16).to_le_bytes());
        self.bytes.extend_from_slice(text.as_bytes());
    }

    /// All of them as one key, of which each is a part.
    pub fn whole(&self) -> &[u8] {
        &self.bytes
    }

    /// Each of them.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).filter_map(|(start, end)| self.bytes.get(start..*end))
    }

    /// Every key with every value after it, at most [`KEYS`]. `spare` is reused memory.
    pub fn multiply(&mut self, values: &Keys, spare: &mut Keys) {
        if let ([end], [_]) = (self.ends.as_mut_slice(), values.ends.as_slice()) {
            self.bytes.extend_from_slice(&values.bytes);
            *end = self.bytes.len();
            return;
        }
        spare.clear();
        for (key, value) in
            self.iter().flat_map(|key| values.iter().map(move |value| (key, value))).take(KEYS)
        {
            spare.bytes.extend_from_slice(key);
            spare.bytes.extend_from_slice(value);
            spare.push_empty();
        }
        std::mem::swap(self, spare);
    }
}

/// The parts of a key.
pub(super) fn parts(mut key: &[u8]) -> Vec<Datum> {
    let mut parts = Vec::new();
    while let Some((part, rest)) = part(key) {
        parts.push(part);
        key = rest;
    }
    parts
}

/// The first part of a key, and the others.
fn part(key: &[u8]) -> Option<(Datum, &[u8])> {
    let (kind, rest) = key.split_first()?;
    match *kind {
        NUMBER => {
            let (number, rest) = rest.split_first_chunk()?;
            Some((Datum::Number(u64::from_le_bytes(*number)), rest))
        }
        ADDRESS => {
            let (address, rest) = rest.split_first_chunk()?;
            let address = Ipv6Addr::from_bits(u128::from_le_bytes(*address)).to_canonical();
            Some((Datum::Address(address), rest))
        }
        _ => {
            let (length, rest) = rest.split_first_chunk()?;
            let (text, rest) = rest.split_at_checked(u16::from_le_bytes(*length).into())?;
            Some((Datum::Text(String::from_utf8_lossy(text).into()), rest))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(values: &[FieldValue<'_>]) -> Keys {
        let mut keys = Keys::default();
        values.iter().for_each(|value| keys.push(value));
        keys
    }

    #[test]
    fn parts_are_what_was_pushed() {
        let long = [b'a'; 2 * TEXT];
        let values = [
            FieldValue::Bool(true),
            FieldValue::Number(Number::Whole(443)),
            FieldValue::Number(Number::Whole(-1)),
            FieldValue::Number(Number::Real(0.5)),
            FieldValue::Address(0xffff_c000_0207),
            FieldValue::Text(b"\xff."),
            FieldValue::Text(&long),
        ];
        let text = |text: &str| Datum::Text(text.into());
        let expected = [
            text("true"),
            Datum::Number(443),
            text("-1"),
            text("0.5"),
            Datum::Address("192.0.2.7".parse().unwrap()),
            text("\u{fffd}."),
            text(&"a".repeat(TEXT)),
        ];
        assert_eq!(keys(&values).iter().flat_map(parts).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn keys_are_all_combinations_up_to_a_limit() {
        let number = |number: i128| FieldValue::Number(Number::Whole(number));
        let mut keys = Keys::default();
        let mut spare = Keys::default();
        keys.push_empty();
        for values in [&[number(1)][..], &[number(2), number(3)], &[number(4)]] {
            keys.multiply(&self::keys(values), &mut spare);
        }
        let numbers = |keys: &Keys| -> Vec<Vec<Datum>> { keys.iter().map(parts).collect() };
        let row = |row: [u64; 3]| row.map(Datum::Number).to_vec();
        assert_eq!(numbers(&keys), [row([1, 2, 4]), row([1, 3, 4])]);
        let many: Vec<FieldValue<'_>> = (0..50).map(number).collect();
        keys.multiply(&self::keys(&many), &mut spare);
        assert_eq!(keys.iter().count(), KEYS);
        // A record without a value of a part has no key.
        keys.multiply(&Keys::default(), &mut spare);
        assert_eq!(keys.iter().count(), 0);
    }
}
