//! Tests of one field.

use super::operand::{Addresses, Number, Operand, Text, address_in};
use super::{FieldInfo, FieldKind};
use regex::bytes::{Regex, RegexBuilder};
use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::HashSet;
use std::sync::Arc;

/// Bytes that a compiled regular expression may take, and its cache.
pub const PATTERN: usize = 1 << 20;
/// Levels of groups in a regular expression.
const PATTERN_DEPTH: u32 = 100;

/// A test of a field's values.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldTest {
    /// The field.
    pub field: FieldInfo,
    /// The operator and its right side.
    pub operation: Operation,
}

/// The operator of a test, with its right side.
#[derive(Clone, Debug, PartialEq)]
pub enum Operation {
    /// It has a value.
    Present,
    /// A comparison.
    Compare(Comparison, Operand),
    /// The text is within the value.
    Contains(Text),
    /// The value begins with the text.
    Begins(Text),
    /// The value ends with the text.
    Ends(Text),
    /// The value is a domain, or a name below it.
    Under(Text),
    /// A regular expression is found in the value.
    Matches(Pattern),
    /// The value is one of a list.
    In(Arc<Within>),
}

/// Comparisons.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[allow(missing_docs)]
pub enum Comparison {
    Equal,
    NotEqual,
    Less,
    AtMost,
    Greater,
    AtLeast,
}

impl Comparison {
    fn holds(self, order: Ordering) -> bool {
        match self {
            Comparison::Equal => order.is_eq(),
            Comparison::NotEqual => order.is_ne(),
            Comparison::Less => order.is_lt(),
            Comparison::AtMost => order.is_le(),
            Comparison::Greater => order.is_gt(),
            Comparison::AtLeast => order.is_ge(),
        }
    }
}

/// A regular expression; two are equal if their texts are.
#[derive(Clone, Debug)]
pub struct Pattern {
    text: Box<str>,
    is_exact: bool,
    regex: Regex,
}

impl Pattern {
    /// Compiles a regular expression, for any case of ASCII letters unless it is exact.
    ///
    /// # Errors
    ///
    /// The error in the expression, on one line.
    pub fn new(text: &str, is_exact: bool) -> Result<Self, String> {
        let regex = RegexBuilder::new(text)
            .unicode(false)
            .case_insensitive(!is_exact)
            .size_limit(PATTERN)
            .dfa_size_limit(PATTERN)
            .nest_limit(PATTERN_DEPTH)
            .build()
            .map_err(|error| match error {
                regex::Error::CompiledTooBig(limit) => {
                    format!("the regular expression takes more than {limit} bytes when it is compiled")
                }
                other => {
                    let text = other.to_string();
                    let last = text.lines().last().unwrap_or_default();
                    format!("invalid regular expression: {}", last.trim_start_matches("error: "))
                }
            })?;
        Ok(Self { text: text.into(), is_exact, regex })
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        (&self.text, self.is_exact) == (&other.text, other.is_exact)
    }
}

/// A list of values. A lookup takes the same time for any length.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Within {
    /// In lower case.
    any_case: HashSet<Box<[u8]>>,
    exact: HashSet<Box<[u8]>>,
    numbers: Vec<Number>,
    bools: Vec<bool>,
    /// In order, none within another.
    addresses: Vec<Addresses>,
}

impl Within {
    /// A list of operands.
    pub fn new(operands: impl IntoIterator<Item = Operand>) -> Self {
        let mut list = Self::default();
        for operand in operands {
            match operand {
                Operand::Text(text) if text.is_exact => {
                    list.exact.insert(text.bytes);
                }
                Operand::Text(text) => {
                    list.any_case.insert(text.bytes);
                }
                Operand::Number(number) => list.numbers.push(number),
                Operand::Bool(yes) => list.bools.push(yes),
                Operand::Addresses(addresses) => list.addresses.push(addresses),
            }
        }
        list.numbers.sort_by(|a, b| a.order(*b));
        list.addresses.sort_unstable();
        let mut merged: Vec<Addresses> = Vec::with_capacity(list.addresses.len());
        for next in list.addresses.drain(..) {
            match merged.last_mut().filter(|last| next.low <= last.high) {
                Some(last) => last.high = last.high.max(next.high),
                None => merged.push(next),
            }
        }
        list.addresses = merged;
        list
    }

    fn has(&self, value: &FieldValue<'_>) -> bool {
        if !self.addresses.is_empty() {
            return value.address().is_some_and(|address| {
                let after = self.addresses.partition_point(|range| range.low <= address);
                let last = after.checked_sub(1).and_then(|at| self.addresses.get(at));
                last.is_some_and(|range| range.contain(address))
            });
        }
        if !self.numbers.is_empty() {
            return value
                .number()
                .is_some_and(|number| self.numbers.binary_search_by(|known| known.order(number)).is_ok());
        }
        if !self.bools.is_empty() {
            return value.bool().is_some_and(|yes| self.bools.contains(&yes));
        }
        let text = value.text();
        self.exact.contains(&*text)
            || !self.any_case.is_empty() && self.any_case.contains(text.to_ascii_lowercase().as_slice())
    }
}

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

impl<'v> FieldValue<'v> {
    fn number(&self) -> Option<Number> {
        match self {
            FieldValue::Number(number) => Some(*number),
            FieldValue::Text(text) => Number::parse(std::str::from_utf8(text).ok()?),
            FieldValue::Bool(_) | FieldValue::Address(_) => None,
        }
    }

    fn address(&self) -> Option<u128> {
        match self {
            FieldValue::Address(address) => Some(*address),
            FieldValue::Text(text) => address_in(text),
            FieldValue::Bool(_) | FieldValue::Number(_) => None,
        }
    }

    fn bool(&self) -> Option<bool> {
        match self {
            FieldValue::Bool(yes) => Some(*yes),
            _ => None,
        }
    }

    fn text(&self) -> Cow<'v, [u8]> {
        match self {
            FieldValue::Text(text) => Cow::Borrowed(text),
            FieldValue::Bool(yes) => Cow::Borrowed(if *yes { b"true" } else { b"false" }),
            FieldValue::Number(Number::Whole(whole)) => Cow::Owned(whole.to_string().into_bytes()),
            FieldValue::Number(Number::Real(real)) => Cow::Owned(real.to_string().into_bytes()),
            FieldValue::Address(address) => {
                let address = std::net::Ipv6Addr::from_bits(*address).to_canonical();
                Cow::Owned(address.to_string().into_bytes())
            }
        }
    }
}

impl FieldTest {
    /// Whether the test holds for a field with these values; none is a field without a value.
    pub fn holds<'v>(&self, values: impl IntoIterator<Item = FieldValue<'v>>) -> bool {
        let mut verdict = Verdict::default();
        for value in values {
            self.see(&mut verdict, &value);
        }
        self.verdict(verdict)
    }

    /// Takes a value of the field into account.
    pub fn see(&self, verdict: &mut Verdict, value: &FieldValue<'_>) {
        verdict.has_value = true;
        verdict.has_match |= self.matches(value);
    }

    /// The verdict after all values.
    pub fn verdict(&self, verdict: Verdict) -> bool {
        match self.operation {
            Operation::Compare(Comparison::NotEqual, _) => verdict.has_value && !verdict.has_match,
            _ => verdict.has_match,
        }
    }

    /// Whether a value matches; of `!=`, whether it is equal.
    fn matches(&self, value: &FieldValue<'_>) -> bool {
        match &self.operation {
            Operation::Present => true,
            Operation::Compare(Comparison::NotEqual, operand) => compare(Comparison::Equal, operand, value),
            Operation::Compare(comparison, operand) => compare(*comparison, operand, value),
            Operation::Contains(text) => text.is_in(&value.text()),
            Operation::Begins(text) => text.begins(&value.text()),
            Operation::Ends(text) => text.ends(&value.text()),
            Operation::Under(domain) => domain.is_above(&value.text()),
            Operation::Matches(pattern) => pattern.regex.is_match(&value.text()),
            Operation::In(list) => list.has(value),
        }
    }
}

/// The state of a test after some values of its field.
#[derive(Clone, Copy, Debug, Default)]
pub struct Verdict {
    has_value: bool,
    has_match: bool,
}

fn compare(comparison: Comparison, operand: &Operand, value: &FieldValue<'_>) -> bool {
    match operand {
        Operand::Bool(yes) => value.bool().is_some_and(|found| comparison.holds(found.cmp(yes))),
        Operand::Number(number) => value.number().is_some_and(|found| comparison.holds(found.order(*number))),
        Operand::Text(text) if comparison == Comparison::Equal => text.equals(&value.text()),
        Operand::Text(text) => comparison.holds(text.order_of(&value.text())),
        // A network is equal to each of its addresses, and has those below and above it.
        Operand::Addresses(range) => value.address().is_some_and(|found| {
            let order = match found {
                found if found < range.low => Ordering::Less,
                found if found > range.high => Ordering::Greater,
                _ => Ordering::Equal,
            };
            comparison.holds(order)
        }),
    }
}

impl FieldKind {
    /// Whether its values are in an order that `<` and `>` ask for.
    pub(super) fn is_ordered(self) -> bool {
        self != FieldKind::Bool
    }
}
