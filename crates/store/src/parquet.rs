//! Stored flows and records as a Parquet file, without a limit, with the columns of the log `parquet`.

use crate::body::{self, Leaf};
use crate::query::Rows as Asked;
use crate::{Store, StoredFlow, StoredRecord};
use parquet::errors::ParquetError;
use std::fs::File;
use std::io::{self, BufWriter};
use std::path::Path;
use weir_filter::FlowTest;
use weir_output::parquet::columns::{Cell, Kind, Rows};
use weir_output::parquet::log::{columns, flow_kind};
use weir_output::ports;
use weir_output::row::{COLUMNS, uid};
use weir_proto::{Table, tables};

/// Bytes of rows that wait for a row group.
const WAITING: usize = 32 << 20;

/// The result of an export.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Exported {
    /// Number of rows.
    pub rows: u64,
    /// Note about what is left out.
    pub partial: Option<String>,
}

/// A value of a column before it borrows.
enum Value {
    Null,
    Whole(i64),
    Real(f64),
    Bool(bool),
    Text(Vec<u8>),
}

impl Value {
    fn cell(&self) -> Cell<'_> {
        match self {
            Value::Null => Cell::Null,
            Value::Whole(number) => Cell::Whole(*number),
            Value::Real(number) => Cell::Real(*number),
            Value::Bool(yes) => Cell::Bool(*yes),
            Value::Text(text) => Cell::Text(text),
        }
    }

    fn text(text: impl Into<String>) -> Self {
        Value::Text(text.into().into_bytes())
    }
}

/// Writes all flows or records that a question asks for. The file gets its name when it is complete.
///
/// # Errors
///
/// The store fails, or the file cannot be written.
pub fn export(path: &Path, store: &dyn Store, asked: &Asked) -> io::Result<Exported> {
    let mut part = weir_files::Part::create(path).map_err(|error| named(path, error))?;
    let file = part.file().try_clone().map_err(|error| named(path, error))?;
    let written = match asked {
        Asked::Flows { test, span } => {
            let columns: Vec<(&str, Kind)> =
                COLUMNS.iter().map(|column| (column.name, flow_kind(column.kind))).collect();
            write(file, columns, |file| store.each_flow(test, *span, &mut |flow| file.add(flow_row(flow))))
        }
        Asked::Records { table, test, text, span } => {
            // Several protocols may share the table.
            let Some(table) = tables().find(|known| known.name == table) else {
                return Err(io::Error::other(format!("no table {table}")));
            };
            let test: &FlowTest = test;
            write(file, columns(table), |file| {
                store.each_record(table.name, test, text, *span, &mut |record| {
                    file.add(record_row(table, record))
                })
            })
        }
    };
    let exported = written.map_err(|error| named(path, error))?;
    part.finish().map_err(|error| named(path, error))?;
    Ok(exported)
}

fn named(path: &Path, error: impl std::fmt::Display) -> io::Error {
    io::Error::other(format!("{}: {error}", path.display()))
}

/// Rows on their way into the file.
struct Sink {
    rows: Rows<BufWriter<File>>,
    count: u64,
    failure: Option<ParquetError>,
}

impl Sink {
    fn add(&mut self, values: Vec<Value>) {
        if self.failure.is_some() {
            return;
        }
        self.rows.row(values.iter().map(Value::cell));
        self.count += 1;
        if self.rows.waiting() > WAITING {
            self.failure = self.rows.write_group().err();
        }
    }
}

fn write<E: std::fmt::Display>(
    file: File,
    columns: Vec<(&str, Kind)>,
    fill: impl FnOnce(&mut Sink) -> Result<Option<String>, E>,
) -> io::Result<Exported> {
    let rows = Rows::new(BufWriter::new(file), "rows", columns).map_err(io::Error::other)?;
    let mut sink = Sink { rows, count: 0, failure: None };
    let partial = fill(&mut sink).map_err(|error| io::Error::other(error.to_string()))?;
    if let Some(error) = sink.failure {
        return Err(io::Error::other(error));
    }
    sink.rows.finish().map_err(io::Error::other)?;
    Ok(Exported { rows: sink.count, partial })
}

fn flow_row(flow: &StoredFlow<'_>) -> Vec<Value> {
    let [first, last] = flow.times;
    let [(source, source_port), (destination, destination_port)] = flow.ends;
    let [sent, received] = flow.packets;
    let port = |port: u16| match ports::has_ports(flow.ip_proto) {
        true => Value::Whole(port.into()),
        false => Value::Null,
    };
    let text = |text: Option<&str>| text.filter(|text| !text.is_empty()).map_or(Value::Null, Value::text);
    let value = |name: &str, kind: Kind| match name {
        "start" => Value::Whole(first as i64),
        "end" => Value::Whole(last as i64),
        "duration" => Value::Real(last.saturating_sub(first) as f64 / 1e9),
        "uid" => Value::text(uid(flow.uid)),
        "protocol" => Value::text(ports::protocol(flow.ip_proto)),
        "ip_proto" => Value::Whole(flow.ip_proto.into()),
        "services" => text(flow.services),
        "source" => Value::text(source.to_string()),
        "source_port" => port(source_port),
        "destination" => Value::text(destination.to_string()),
        "destination_port" => port(destination_port),
        "packets" => Value::Whole(sent as i64),
        "reverse_packets" => Value::Whole(received as i64),
        "state" => Value::text(flow.state),
        "state_words" => Value::text(weir_api::state_words(flow.state)),
        "destination_name" => text(flow.name),
        name => of_object(flow.detail, name, kind),
    };
    COLUMNS.iter().map(|column| value(column.name, flow_kind(column.kind))).collect()
}

fn record_row(table: &'static Table, record: &StoredRecord<'_>) -> Vec<Value> {
    let [(source, source_port), (destination, destination_port)] = record.ends;
    let value = |(name, kind): (&str, Kind), at: usize| match (at, name) {
        (0, _) => Value::Whole(record.time as i64),
        (1, _) => Value::text(uid(record.uid)),
        // A record does not hold the Community ID, which its flow has.
        (2, _) => Value::Null,
        (3, _) => Value::text(source.to_string()),
        (4, _) => Value::Whole(source_port.into()),
        (5, _) => Value::text(destination.to_string()),
        (6, _) => Value::Whole(destination_port.into()),
        (_, name) => of_object(record.body, name, kind),
    };
    columns(table).into_iter().enumerate().map(|(at, column)| value(column, at)).collect()
}

/// A member of a stored object in the type of its column.
fn of_object(object: &str, name: &str, kind: Kind) -> Value {
    let Some(written) = body::member(object, name).filter(|written| *written != "null") else {
        return Value::Null;
    };
    if kind == Kind::Json {
        return Value::text(written);
    }
    let mut found = Value::Null;
    body::leaves(written, &mut |leaf| found = of_leaf(&leaf, kind));
    found
}

fn of_leaf(leaf: &Leaf<'_>, kind: Kind) -> Value {
    match (kind, leaf) {
        (Kind::Text, Leaf::Text(text)) => Value::text(text.as_ref()),
        (Kind::Text, Leaf::Number(digits)) => Value::text(*digits),
        (Kind::Bool, Leaf::Bool(yes)) => Value::Bool(*yes),
        (Kind::Unsigned, leaf) => leaf.whole().map_or(Value::Null, |number| Value::Whole(number as i64)),
        (Kind::Signed, Leaf::Number(digits)) => digits.parse().map_or(Value::Null, Value::Whole),
        (Kind::Seconds | Kind::Real, leaf) => leaf.number().map_or(Value::Null, Value::Real),
        // Seconds with six decimals: exact in nanoseconds.
        (Kind::Time, Leaf::Number(digits)) => nanoseconds(digits).map_or(Value::Null, Value::Whole),
        _ => Value::Null,
    }
}

/// Nanoseconds of `1795225568.985123`.
fn nanoseconds(digits: &str) -> Option<i64> {
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let seconds: i64 = whole.parse().ok()?;
    let fraction: i64 = format!("{:0<9}", fraction.get(..fraction.len().min(9))?).parse().ok()?;
    seconds.checked_mul(1_000_000_000)?.checked_add(fraction)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_values_have_the_type_of_their_column() {
        let object = r#"{"time":1795225568.985123,"n":7,"text":"a\u0041\"","list":["x",1],"rtt":0.25,"yes":true,"none":null}"#;
        let text = |name: &str, kind: Kind| match of_object(object, name, kind) {
            Value::Null => "null".to_owned(),
            Value::Whole(number) => number.to_string(),
            Value::Real(number) => format!("{number:?}"),
            Value::Bool(yes) => yes.to_string(),
            Value::Text(text) => String::from_utf8(text).unwrap(),
        };
        assert_eq!(text("time", Kind::Time), "1795225568985123000");
        assert_eq!(text("n", Kind::Unsigned), "7");
        assert_eq!(text("text", Kind::Text), "aA\"");
        assert_eq!(text("list", Kind::Json), r#"["x",1]"#);
        assert_eq!(text("rtt", Kind::Seconds), "0.25");
        assert_eq!(text("yes", Kind::Bool), "true");
        assert_eq!(text("none", Kind::Text), "null");
        assert_eq!(text("absent", Kind::Text), "null");
        assert_eq!(nanoseconds("5"), Some(5_000_000_000));
        assert_eq!(nanoseconds("x"), None);
    }
}
