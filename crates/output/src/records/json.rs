//! Values as JSON.

use super::lossless;
use crate::row::Times;
use crate::zone;
use serde_json::{Map, Number, Value as Json};
use weir_proto::{Field, Kind, Value};

/// How a format writes the values of a record as JSON.
#[derive(Clone, Copy)]
pub struct Style {
    /// Points and lengths of time.
    pub times: Times,
    /// What a field is called; the empty text leaves it out.
    pub name: fn(&Field) -> &'static str,
}

impl Style {
    /// A value; null where there is none.
    pub fn value(self, value: &Value<'_>, kind: &Kind) -> Json {
        match value {
            Value::None => Json::Null,
            Value::Bool(yes) => Json::Bool(*yes),
            Value::Uint(number) => Json::from(*number),
            Value::Int(number) => Json::from(*number),
            Value::Real(number) => Number::from_f64(*number).map_or(Json::Null, Json::Number),
            Value::Time(time) => match self.times {
                Times::Epoch => number(&zone::epoch_micros(time.0)),
                Times::Rfc3339 => Json::from(zone::rfc3339(time.0)),
            },
            Value::Span(span) => match self.times {
                Times::Epoch => number(&zone::epoch_micros(*span)),
                Times::Rfc3339 => number(&zone::seconds(*span)),
            },
            Value::Text(text) => Json::from(lossless(text)),
            Value::Address(address) => Json::from(address.to_string()),
            Value::List(values) => {
                let kind = match kind {
                    Kind::List(kind) | Kind::Set(kind) => kind,
                    other => other,
                };
                values.iter().map(|value| self.value(value, kind)).collect()
            }
            Value::Rows(rows) => {
                let fields: &[Field] = if let Kind::Rows(fields) = kind { fields } else { &[] };
                rows.iter().map(|row| Json::Object(self.object(fields, row))).collect()
            }
        }
    }

    /// The members of a row; keys with points are objects in objects.
    pub fn object(self, fields: &[Field], values: &[Value<'_>]) -> Map<String, Json> {
        let mut object = Map::new();
        for (field, value) in fields.iter().zip(values) {
            let name = (self.name)(field);
            if !name.is_empty() && !value.is_none() {
                put(&mut object, name, self.value(value, &field.kind));
            }
        }
        object
    }
}

/// Puts a value at a place whose keys are joined by points.
fn put(object: &mut Map<String, Json>, path: &str, value: Json) {
    match path.split_once('.') {
        None => {
            object.insert(path.to_owned(), value);
        }
        Some((key, rest)) => {
            let inner = object.entry(key).or_insert_with(|| Json::Object(Map::new()));
            if let Json::Object(inner) = inner {
                put(inner, rest, value);
            }
        }
    }
}

/// A number with as many decimals as are written.
fn number(text: &str) -> Json {
    serde_json::from_str(text).unwrap_or(Json::Null)
}
