//! Tests of one field.

use super::list::List;
use super::operand::{Operand, Search, Text};
use super::value::FieldValue;
use super::{FieldInfo, FieldKind};
use regex::bytes::{Regex, RegexBuilder};
use std::cmp::Ordering;
use std::hash::{Hash, Hasher};
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
    Contains(Search),
    /// The value begins with the text.
    Begins(Text),
    /// The value ends with the text.
    Ends(Text),
    /// The value is a domain, or a name below it.
    Under(Text),
    /// The value is one of a list of domains, or a name below one.
    UnderAny(Arc<List>),
    /// A regular expression is found in the value.
    Matches(Pattern),
    /// The value is one of a list.
    In(Arc<List>),
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
    pub(crate) fn holds(self, order: Ordering) -> bool {
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

impl FieldTest {
    /// Its list.
    pub(crate) fn list(&self) -> Option<&Arc<List>> {
        match &self.operation {
            Operation::In(list) | Operation::UnderAny(list) => Some(list),
            _ => None,
        }
    }

    /// A hash of its field, operator and right side: equal for equal tests.
    pub(crate) fn hash(&self) -> u64 {
        let mut hasher = std::hash::DefaultHasher::new();
        (self.field.table, self.field.name).hash(&mut hasher);
        std::mem::discriminant(&self.operation).hash(&mut hasher);
        match &self.operation {
            Operation::Present => {}
            Operation::Compare(comparison, operand) => {
                std::mem::discriminant(comparison).hash(&mut hasher);
                match operand {
                    Operand::Bool(yes) => yes.hash(&mut hasher),
                    // Equal numbers can be whole or not, and of either zero.
                    Operand::Number(number) => (number.real() + 0.0).to_bits().hash(&mut hasher),
                    Operand::Text(text) => text.hash(&mut hasher),
                    Operand::Addresses(range) => (range.low, range.high).hash(&mut hasher),
                }
            }
            Operation::Contains(part) => part.text().hash(&mut hasher),
            Operation::Begins(text) | Operation::Ends(text) | Operation::Under(text) => {
                text.hash(&mut hasher)
            }
            Operation::UnderAny(list) | Operation::In(list) => list.len().hash(&mut hasher),
            Operation::Matches(pattern) => (&pattern.text, pattern.is_exact).hash(&mut hasher),
        }
        hasher.finish()
    }

    /// What was left out of the file of its list, with the numbers of the first lines.
    pub fn note(&self) -> Option<&str> {
        self.list()?.note.as_deref()
    }

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

    /// Whether it is the name of a table alone, as `dns`: every record of the table satisfies it.
    pub fn is_of_record(&self) -> bool {
        self.field.name == super::RECORD
    }

    /// The verdict after all values.
    pub fn verdict(&self, verdict: Verdict) -> bool {
        if self.is_of_record() {
            return true;
        }
        match self.operation {
            Operation::Compare(Comparison::NotEqual, _) => verdict.has_value && !verdict.has_match,
            _ => verdict.has_match,
        }
    }

    /// Whether a value matches; of `!=`, whether it is equal.
    pub(crate) fn matches(&self, value: &FieldValue<'_>) -> bool {
        match &self.operation {
            Operation::Present => true,
            Operation::Compare(Comparison::NotEqual, operand) => compare(Comparison::Equal, operand, value),
            Operation::Compare(comparison, operand) => compare(*comparison, operand, value),
            Operation::Contains(part) => value.with_text(|text| part.is_in(text)),
            Operation::Begins(front) => value.with_text(|text| front.begins(text)),
            Operation::Ends(back) => value.with_text(|text| back.ends(text)),
            Operation::Under(domain) => value.with_text(|text| domain.is_above(text)),
            Operation::UnderAny(list) => value.with_text(|text| list.has_domain_of(text)),
            Operation::Matches(pattern) => value.with_text(|text| pattern.regex.is_match(text)),
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
        Operand::Text(wanted) if comparison == Comparison::Equal => {
            value.with_text(|text| wanted.equals(text))
        }
        Operand::Text(wanted) => value.with_text(|text| comparison.holds(wanted.order_of(text))),
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
