//! The output of parsers.

use crate::{Field, Span, Table};
use std::borrow::Cow;
use std::net::IpAddr;
use weir_wire::Time;

/// A row of a log: a transaction, a message or another event of a protocol.
#[derive(Clone, Debug, PartialEq)]
pub struct Record<'a> {
    /// The table.
    pub table: &'static Table,
    /// Time of its beginning; for a transaction, of its request.
    pub time: Time,
    /// Values in the order of the table's fields.
    pub values: Vec<Value<'a>>,
    /// Number of the packet at which the parser emitted it, see [`weir_wire::Packet::number`]; 0 if none has one.
    pub packet: u32,
    /// The bytes of the flow's streams that it stands for: for a transaction, its request and its response. A record from
    /// within a body has the message up to there. Empty for measurements and tunnels, and after the worker: outputs do not
    /// get it.
    pub at: Span,
}

/// The value of a field.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Value<'a> {
    /// No value, or not seen.
    #[default]
    None,
    /// Yes or no.
    Bool(bool),
    /// A number.
    Uint(u64),
    /// A number that can be below zero.
    Int(i64),
    /// A number with a fraction.
    Real(f64),
    /// A point in time.
    Time(Time),
    /// A duration in nanoseconds.
    Duration(u64),
    /// Bytes as captured.
    Text(Cow<'a, [u8]>),
    /// An address.
    Address(IpAddr),
    /// A list or set.
    List(Vec<Value<'a>>),
    /// Rows, each with the values of its fields in order.
    Rows(Vec<Vec<Value<'a>>>),
}

impl Eq for Table {}

impl PartialEq for Table {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl<'a> Value<'a> {
    /// A list; no value if it is empty.
    pub fn list<T: Into<Value<'a>>>(values: impl IntoIterator<Item = T>) -> Self {
        match values.into_iter().map(Into::into).collect::<Vec<_>>() {
            values if values.is_empty() => Self::None,
            values => Self::List(values),
        }
    }

    /// Rows; no value if there are none.
    pub fn rows(rows: impl IntoIterator<Item = Vec<Value<'a>>>) -> Self {
        match rows.into_iter().collect::<Vec<_>>() {
            rows if rows.is_empty() => Self::None,
            rows => Self::Rows(rows),
        }
    }
}

impl Value<'_> {
    /// The owned value.
    pub fn into_owned(self) -> Value<'static> {
        let owned = |values: Vec<Value<'_>>| values.into_iter().map(Value::into_owned).collect();
        match self {
            Self::None => Value::None,
            Self::Bool(yes) => Value::Bool(yes),
            Self::Uint(number) => Value::Uint(number),
            Self::Int(number) => Value::Int(number),
            Self::Real(number) => Value::Real(number),
            Self::Time(time) => Value::Time(time),
            Self::Duration(span) => Value::Duration(span),
            Self::Text(text) => Value::Text(Cow::Owned(text.into_owned())),
            Self::Address(address) => Value::Address(address),
            Self::List(values) => Value::List(owned(values)),
            Self::Rows(rows) => Value::Rows(rows.into_iter().map(owned).collect()),
        }
    }

    /// That number of absent values. `vec!` would clone each of them, which takes ten times as long.
    pub(crate) fn absent(number: usize) -> Vec<Self> {
        std::iter::repeat_with(|| Self::None).take(number).collect()
    }

    /// Whether there is no value.
    pub fn is_none(&self) -> bool {
        matches!(self, Self::None)
    }
}

impl<'a> Record<'a> {
    /// A record with no packet number and no bytes: the session sets them. [`record!`](crate::record!) makes one by the names of the
    /// fields.
    pub fn new(table: &'static Table, time: Time, values: Vec<Value<'a>>) -> Self {
        Self { table, time, values, packet: 0, at: Span::default() }
    }
}

impl<'a> Record<'a> {
    /// Sets the bytes that it stands for.
    pub(crate) fn over(self, at: Span) -> Self {
        Self { at, ..self }
    }
}

impl Record<'_> {
    /// The owned record.
    pub fn into_owned(self) -> Record<'static> {
        let values = self.values.into_iter().map(Value::into_owned).collect();
        Record { table: self.table, time: self.time, values, packet: self.packet, at: self.at }
    }

    /// Sets the value of a field, if the table has that field.
    pub fn set(&mut self, name: &str, value: Value<'static>) {
        let at = self.table.fields.iter().position(|field| field.name == name);
        if let Some(place) = at.and_then(|at| self.values.get_mut(at)) {
            *place = value;
        }
    }

    /// The value of a field; no value if the table lacks the field.
    pub fn get(&self, name: &str) -> &Value<'_> {
        let at = self.table.fields.iter().position(|field| field.name == name);
        at.and_then(|at| self.values.get(at)).unwrap_or(&Value::None)
    }
}

/// Checks the names of values against the fields of a table, or of the rows in a field. Evaluated by the compiler:
/// see [`values!`](crate::values!).
///
/// # Panics
///
/// If a name is not that of the field in its place, or if fields are missing; with `has_more`, fields may follow.
#[doc(hidden)]
#[expect(
    clippy::indexing_slicing,
    clippy::panic,
    reason = "it is evaluated by the compiler, for which a panic is an error"
)]
pub const fn assert_names(fields: &[Field], names: &[&str], has_more: bool) {
    let mut at = 0;
    while at < names.len() {
        if at == fields.len() || !is_equal(fields[at].name, names[at]) {
            panic!("{}", names[at]);
        }
        at += 1;
    }
    if at < fields.len() && !has_more {
        panic!("{}", fields[at].name);
    }
}

/// Whether two texts are equal, for the compiler.
#[expect(clippy::indexing_slicing, reason = "both have the length")]
const fn is_equal(one: &str, other: &str) -> bool {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    if one.len() != other.len() {
        return false;
    }
    let mut at = 0;
    while at < one.len() {
        if one[at] != other[at] {
            return false;
        }
        at += 1;
    }
    true
}

impl Table {
    /// Position of a field, for the compiler.
    ///
    /// # Panics
    ///
    /// If the table lacks the field.
    pub(crate) const fn at(&self, name: &str) -> usize {
        at(self.fields, name)
    }
}

/// Position of a field, for the compiler.
#[expect(
    clippy::indexing_slicing,
    clippy::panic,
    reason = "it is evaluated by the compiler, for which a panic is an error"
)]
pub(crate) const fn at(fields: &[Field], name: &str) -> usize {
    let mut at = 0;
    while at < fields.len() {
        if is_equal(fields[at].name, name) {
            return at;
        }
        at += 1;
    }
    panic!("the table has no such field");
}

/// The fields from a field on.
pub const fn fields_from(fields: &'static [Field], name: &str) -> &'static [Field] {
    fields.split_at(at(fields, name)).1
}

/// The values of a row: one for each of the fields, with the field's name, in the order of the fields.
///
/// The compiler compares the names with the fields, so that a value cannot get into another field's place, and the row
/// is made as fast as by position. `..more` in the end extends the row by values of the remaining fields.
#[macro_export]
macro_rules! values {
    ($fields:expr, $($name:ident = $value:expr),+ $(,)?) => {{
        const { $crate::assert_names(&$fields, &[$(stringify!($name)),+], false) };
        vec![$($crate::Value::from($value)),+]
    }};
    ($fields:expr, $($name:ident = $value:expr),+, ..$more:expr) => {{
        const { $crate::assert_names(&$fields, &[$(stringify!($name)),+], true) };
        let mut values = vec![$($crate::Value::from($value)),+];
        values.extend($more);
        values
    }};
}

/// The values of a row whose fields are in a set of [`Columns`](crate::Columns), as [`values!`] has them; those of other fields are
/// not computed, and [`Value::None`].
macro_rules! values_of {
    ($columns:expr, $fields:expr, $($name:ident = $value:expr),+ $(,)?) => {{
        const { $crate::assert_names(&$fields, &[$(stringify!($name)),+], false) };
        let columns: $crate::Columns = $columns;
        vec![$(
            match columns.has(const { $crate::record::at(&$fields, stringify!($name)) }) {
                true => $crate::Value::from($value),
                false => $crate::Value::None,
            }
        ),+]
    }};
}
pub(crate) use values_of;

/// A record of a table: its time, and its values with the names of their fields, see [`values!`](crate::values!).
#[macro_export]
macro_rules! record {
    ($table:ident, $time:expr, $($values:tt)+) => {
        $crate::Record::new(&$table, $time, $crate::values!($table.fields, $($values)+))
    };
}

/// Bytes as text: bytes that are not UTF-8 become `\xNN`.
pub fn lossless(bytes: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => {
            let mut text = String::with_capacity(bytes.len() + 16);
            for chunk in bytes.utf8_chunks() {
                text.push_str(chunk.valid());
                for byte in chunk.invalid() {
                    text.push_str(&format!("\\x{byte:02x}"));
                }
            }
            Cow::Owned(text)
        }
    }
}

/// Converts types of parsers into values.
macro_rules! from {
    ($($kind:ty => $make:expr,)*) => {
        $(impl<'a> From<$kind> for Value<'a> {
            fn from(value: $kind) -> Self {
                let make: fn($kind) -> Value<'a> = $make;
                make(value)
            }
        })*
    };
}

from! {
    bool => Value::Bool,
    u8 => |n| Value::Uint(n.into()),
    u16 => |n| Value::Uint(n.into()),
    u32 => |n| Value::Uint(n.into()),
    u64 => Value::Uint,
    usize => |n| Value::Uint(n as u64),
    i64 => Value::Int,
    f64 => Value::Real,
    Time => Value::Time,
    IpAddr => Value::Address,
    &'a [u8] => |bytes| Value::Text(Cow::Borrowed(bytes)),
    &'a str => |text| Value::Text(Cow::Borrowed(text.as_bytes())),
    &'a String => |text| Value::Text(Cow::Borrowed(text.as_bytes())),
    &'a Vec<u8> => |bytes| Value::Text(Cow::Borrowed(bytes)),
    Vec<u8> => |bytes| Value::Text(Cow::Owned(bytes)),
    String => |text| Value::Text(Cow::Owned(text.into_bytes())),
}

impl<'a, T: Into<Value<'a>>> From<Option<T>> for Value<'a> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Value::None, Into::into)
    }
}

impl<'a, T: Into<Value<'a>>> FromIterator<T> for Value<'a> {
    fn from_iter<I: IntoIterator<Item = T>>(values: I) -> Self {
        Value::List(values.into_iter().map(Into::into).collect())
    }
}
