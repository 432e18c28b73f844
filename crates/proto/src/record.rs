//! The output of parsers.

use crate::Table;
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

    /// Whether there is no value.
    pub fn is_none(&self) -> bool {
        matches!(self, Self::None)
    }
}

impl<'a> Record<'a> {
    /// A record with no packet number: the session sets it.
    pub fn new(table: &'static Table, time: Time, values: Vec<Value<'a>>) -> Self {
        Self { table, time, values, packet: 0 }
    }
}

impl Record<'_> {
    /// The owned record.
    pub fn into_owned(self) -> Record<'static> {
        let values = self.values.into_iter().map(Value::into_owned).collect();
        Record { table: self.table, time: self.time, values, packet: self.packet }
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
