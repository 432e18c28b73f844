//! Values of records as JSON.

use crate::format::{push_address, push_number};
use crate::json::{Object, push_list, push_text};
use crate::row::Times;
use crate::zone::{push_epoch_micros, push_rfc3339, push_seconds};
use std::io::Write;
use weir_proto::{Field, Kind, Table, Value};

/// How a format writes the values of a record as JSON.
#[derive(Clone, Copy)]
pub struct Style {
    /// Points in time and durations.
    pub times: Times,
    /// Name of a field, keys of nested objects joined by dots; an empty name omits it. A last key `*` stands for rows of a
    /// name and a value: each row is a member of its own.
    pub name: fn(&Field) -> &'static str,
    /// Whether empty lists are left out, as absent values are.
    pub skips_empty: bool,
}

/// Positions of a table's fields in an object: built once for each table, since names with dots put values into nested
/// objects, wherever in the table they are.
pub struct Shape {
    members: Vec<Member>,
    skips_empty: bool,
}

struct Member {
    key: &'static str,
    what: What,
    /// Whether it is written without values, too.
    is_always: bool,
}

enum What {
    /// A field. If several fields have one name, the last one with a value is used.
    Fields(Vec<usize>, Kind, Option<Shape>),
    Object(Shape),
    /// A field whose rows are members: a name from the network, and its value.
    Named(usize),
}

impl Shape {
    fn new(style: Style) -> Self {
        Self { members: Vec::new(), skips_empty: style.skips_empty }
    }

    /// Whether a value is left out.
    fn omits(&self, value: &Value<'_>) -> bool {
        value.is_none()
            || self.skips_empty
                && match value {
                    Value::List(values) => values.is_empty(),
                    Value::Rows(rows) => rows.is_empty(),
                    _ => false,
                }
    }

    /// The shape of a table's fields, or of the fields of rows in it.
    pub fn of(fields: &[Field], style: Style) -> Self {
        let mut shape = Self::new(style);
        for (at, field) in fields.iter().enumerate() {
            let name = (style.name)(field);
            if !name.is_empty() {
                shape.put(name, at, field, style);
            }
        }
        shape
    }

    fn put(&mut self, path: &'static str, at: usize, field: &Field, style: Style) {
        let (key, rest) = path.split_once('.').map_or((path, None), |(key, rest)| (key, Some(rest)));
        let known = self.members.iter_mut().find(|member| member.key == key);
        match (rest, known.map(|member| &mut member.what)) {
            (Some(rest), Some(What::Object(inner))) => inner.put(rest, at, field, style),
            (Some(rest), None) => {
                let mut inner = Self::new(style);
                inner.put(rest, at, field, style);
                self.push(key, What::Object(inner));
            }
            (None, _) if key == "*" => self.push(key, What::Named(at)),
            (None, Some(What::Fields(fields, ..))) => fields.push(at),
            (None, None) => {
                let rows = match field.kind {
                    Kind::Rows(fields) => Some(Self::of(fields, style)),
                    _ => None,
                };
                self.push(key, What::Fields(vec![at], field.kind, rows));
            }
            // A value cannot be an object.
            (Some(_), Some(What::Fields(..) | What::Named(_)))
            | (None, Some(What::Object(_) | What::Named(_))) => {}
        }
    }

    fn push(&mut self, key: &'static str, what: What) {
        self.members.push(Member { key, what, is_always: false });
    }

    /// Writes the object of that name even if it is empty.
    #[must_use]
    fn always(mut self, name: &str) -> Self {
        for member in self.members.iter_mut().filter(|member| member.key == name) {
            member.is_always = true;
        }
        self
    }

    /// Writes the members that have values.
    pub fn write(&self, object: &mut Object<'_>, values: &[Value<'_>], times: Times) {
        for member in &self.members {
            match &member.what {
                What::Object(shape) => {
                    if member.is_always || shape.has_any(values) {
                        object.object(member.key, |inner| shape.write(inner, values, times));
                    }
                }
                What::Fields(fields, kind, rows) => {
                    let mut values = fields.iter().rev().filter_map(|at| values.get(*at));
                    if let Some(value) = values.find(|value| !self.omits(value)) {
                        push_value(object.member(member.key), value, kind, rows.as_ref(), times);
                    }
                }
                What::Named(at) => self.write_named(object, values.get(*at)),
            }
        }
    }

    /// Writes rows as members. A name occurs once: a key of the shape is not replaced, and of several equal names the last
    /// counts, which is what readers of JSON take.
    fn write_named(&self, object: &mut Object<'_>, rows: Option<&Value<'_>>) {
        let Some(Value::Rows(rows)) = rows else { return };
        let mut pairs = rows.iter().filter_map(|row| match row.as_slice() {
            [Value::Text(name), Value::Text(value)] => Some((name, value)),
            _ => None,
        });
        while let Some((name, value)) = pairs.next() {
            let is_key = self.members.iter().any(|member| member.key.as_bytes() == &**name);
            if !is_key && !pairs.clone().any(|(later, _)| later == name) {
                push_text(object.named(name), value);
            }
        }
    }

    fn has_any(&self, values: &[Value<'_>]) -> bool {
        self.members.iter().any(|member| match &member.what {
            What::Object(shape) => shape.has_any(values),
            What::Named(at) => values.get(*at).is_some_and(|value| !self.omits(value)),
            What::Fields(fields, ..) => {
                fields.iter().any(|at| values.get(*at).is_some_and(|value| !self.omits(value)))
            }
        })
    }
}

/// The shapes of tables, each built at its first use.
pub struct Shapes {
    style: Style,
    known: Vec<(&'static Table, Shape)>,
}

impl Shapes {
    /// An empty collection.
    pub fn new(style: Style) -> Self {
        Self { style, known: Vec::new() }
    }

    /// Writes the members of a record of that table.
    pub fn write(&mut self, object: &mut Object<'_>, table: &'static Table, values: &[Value<'_>]) {
        let at = self.known.iter().position(|(known, _)| *known == table).unwrap_or_else(|| {
            // As in Suricata, an event has the object of its type.
            let shape = Shape::of(table.fields, self.style);
            self.known.push((table, if self.style.skips_empty { shape.always(table.eve) } else { shape }));
            self.known.len() - 1
        });
        if let Some((_, shape)) = self.known.get(at) {
            shape.write(object, values, self.style.times);
        }
    }
}

/// Writes a value; null if absent. `rows` is the shape of rows, if it has some.
pub fn push_value(out: &mut Vec<u8>, value: &Value<'_>, kind: &Kind, rows: Option<&Shape>, times: Times) {
    match value {
        Value::None => out.extend_from_slice(b"null"),
        Value::Bool(yes) => out.extend_from_slice(if *yes { b"true" } else { b"false" }),
        Value::Uint(number) => push_number(out, *number),
        // Writing into memory does not fail.
        Value::Int(number) => write!(out, "{number}").unwrap_or_default(),
        // Infinite values and NaN are null.
        Value::Real(number) => serde_json::to_writer(out, number).unwrap_or_default(),
        Value::Time(time) => match times {
            Times::Epoch => push_epoch_micros(out, time.0),
            Times::Rfc3339 => {
                out.push(b'"');
                push_rfc3339(out, time.0);
                out.push(b'"');
            }
        },
        // With all digits: the precision of a clock can be 60 ns.
        Value::Duration(span) => push_seconds(out, *span),
        Value::Text(text) => push_text(out, text),
        Value::Address(address) => {
            out.push(b'"');
            push_address(out, *address);
            out.push(b'"');
        }
        Value::List(values) => {
            let kind = match kind {
                Kind::List(kind) | Kind::Set(kind) => kind,
                other => other,
            };
            push_list(out, values, |out, value| push_value(out, value, kind, rows, times));
        }
        Value::Rows(all) => push_list(out, all, |out, row| {
            Object::write(out, |object| {
                if let Some(shape) = rows {
                    shape.write(object, row, times);
                }
            });
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// NTP states a clock's precision as a power of two, of which 2^-24 s is 59 ns.
    #[test]
    fn a_duration_keeps_its_nanoseconds() {
        for (span, text) in [(59, "0.000000059"), (0, "0.000000000"), (1_500_000_001, "1.500000001")] {
            for times in [Times::Epoch, Times::Rfc3339] {
                let mut out = Vec::new();
                push_value(&mut out, &Value::Duration(span), &Kind::Duration, None, times);
                assert_eq!(String::from_utf8(out).unwrap(), text);
            }
        }
    }
}
