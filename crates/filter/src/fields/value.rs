//! Values of fields.

use super::operand::{Number, address_in};
use std::fmt::{self, Write as _};

/// A value of a field.
#[derive(Clone, Copy, Debug)]
pub enum FieldValue<'v> {
    /// Yes or no.
    Bool(bool),
    /// A number; of times and lengths of time, seconds.
    Number(Number),
    /// Text.
    Text(&'v [u8]),
    /// An address, IPv4 mapped into IPv6.
    Address(u128),
}

impl FieldValue<'_> {
    pub(crate) fn number(&self) -> Option<Number> {
        match self {
            FieldValue::Number(number) => Some(*number),
            FieldValue::Text(text) => Number::parse(std::str::from_utf8(text).ok()?),
            FieldValue::Bool(_) | FieldValue::Address(_) => None,
        }
    }

    pub(super) fn address(&self) -> Option<u128> {
        match self {
            FieldValue::Address(address) => Some(*address),
            FieldValue::Text(text) => address_in(text),
            FieldValue::Bool(_) | FieldValue::Number(_) => None,
        }
    }

    pub(super) fn bool(&self) -> Option<bool> {
        match self {
            FieldValue::Bool(yes) => Some(*yes),
            _ => None,
        }
    }

    /// Calls `decide` with the value as text.
    pub(crate) fn with_text<T>(&self, decide: impl FnOnce(&[u8]) -> T) -> T {
        let mut written = Written::default();
        // What does not fit would be cut; everything fits.
        let _ = match self {
            FieldValue::Text(text) => return decide(text),
            FieldValue::Bool(yes) => write!(written, "{yes}"),
            FieldValue::Number(Number::Whole(whole)) => write!(written, "{whole}"),
            FieldValue::Number(Number::Real(real)) => write!(written, "{real}"),
            FieldValue::Address(address) => {
                write!(written, "{}", std::net::Ipv6Addr::from_bits(*address).to_canonical())
            }
        };
        decide(written.bytes.get(..written.length).unwrap_or_default())
    }
}

/// The longest text of a number: -5e-324 without an exponent.
const MAX_NUMBER: usize = 328;

/// A number or an address as text, without memory from the heap.
struct Written {
    bytes: [u8; MAX_NUMBER],
    length: usize,
}

impl Default for Written {
    fn default() -> Self {
        Self { bytes: [0; MAX_NUMBER], length: 0 }
    }
}

impl fmt::Write for Written {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let end = self.length + text.len();
        let room = self.bytes.get_mut(self.length..end).ok_or(fmt::Error)?;
        room.copy_from_slice(text.as_bytes());
        self.length = end;
        Ok(())
    }
}
