//! Records as CSV: a file for each table, with our own names.

use super::{after_header, begins_with, cell};
use crate::OutputContext;
use crate::file::LineFile;
use crate::format::{push_address, push_number, push_uid};
use crate::records::Files;
use crate::row::Times;
use crate::zone::{self, push_rfc3339, push_seconds};
use std::io;
use weir_engine::FlowIdentity;
use weir_proto::{Kind, Record, Table, Value, lossless};

const FLOW: [&str; 7] =
    ["time", "uid", "community_id", "source", "source_port", "destination", "destination_port"];

/// Files of records.
pub struct Csvs {
    files: Files,
    /// The beginning of their names.
    prefix: String,
}

impl Csvs {
    /// Files in the directory of a run.
    pub fn new(context: &OutputContext) -> Self {
        Self { files: Files::new(context), prefix: String::new() }
    }

    /// Files of a log that has a name.
    pub fn named(context: &OutputContext, name: &str) -> Self {
        Self { files: Files::new(context), prefix: format!("{name}.") }
    }

    /// Adds a record to the file of its table.
    pub fn record(&mut self, flow: &FlowIdentity, record: &Record<'_>) {
        let table = record.table;
        let prefix = &self.prefix;
        let name = |table: &str| format!("{prefix}{table}.csv");
        let file = self.files.of(table.name, name, || begins_with(header(table)));
        let Some(file) = file.map(after_header) else { return };
        let ((source, source_port), (destination, destination_port)) = (flow.initiator(), flow.responder());
        file.line(record.time.0, |out| {
            push_rfc3339(out, record.time.0);
            out.push(b',');
            push_uid(out, flow.id());
            out.push(b',');
            out.extend_from_slice(&flow.community_id(0).text());
            for (address, port) in [(source, source_port), (destination, destination_port)] {
                out.push(b',');
                push_address(out, address);
                out.push(b',');
                push_number(out, port.into());
            }
            for (field, value) in table.fields.iter().zip(&record.values) {
                if !matches!(field.kind, Kind::Rows(_)) {
                    out.push(b',');
                    push_cell(out, value);
                }
            }
            out.push(b'\r');
        });
    }

    /// Writes the waiting rows.
    pub fn flush(&mut self) -> io::Result<()> {
        self.files.flush()
    }

    /// Finishes the files, and begins new ones under the same names; `now` is in nanoseconds since 1970.
    pub fn roll(&mut self, now: u64) -> io::Result<()> {
        self.files.roll(now)
    }

    /// Ends the files.
    pub fn finish(&mut self) -> io::Result<()> {
        self.files.each(LineFile::finish)
    }
}

fn header(table: &Table) -> String {
    let own = table.fields.iter().filter(|field| !matches!(field.kind, Kind::Rows(_)));
    let names: Vec<&str> = FLOW.iter().copied().chain(own.map(|field| field.name)).collect();
    names.join(",")
}

/// Writes a value as a cell. Values that never need escaping take a faster path.
fn push_cell(out: &mut Vec<u8>, value: &Value<'_>) {
    match value {
        Value::None | Value::Rows(_) => {}
        Value::Uint(number) => push_number(out, *number),
        Value::Time(time) => push_rfc3339(out, time.0),
        Value::Duration(span) => push_seconds(out, *span),
        Value::Address(address) => push_address(out, *address),
        Value::Text(text) => cell(out, &lossless(text)),
        value => cell(out, &text(value)),
    }
}

/// The text of a value: empty if absent, lists separated by spaces.
pub(crate) fn text(value: &Value<'_>) -> String {
    match value {
        Value::None | Value::Rows(_) => String::new(),
        Value::Bool(yes) => yes.to_string(),
        Value::Uint(number) => number.to_string(),
        Value::Int(number) => number.to_string(),
        Value::Real(number) => number.to_string(),
        Value::Time(time) => Times::Rfc3339.text(time.0),
        Value::Duration(span) => zone::seconds(*span),
        Value::Text(text) => lossless(text).into_owned(),
        Value::Address(address) => address.to_string(),
        Value::List(values) => values.iter().map(text).collect::<Vec<_>>().join(" "),
    }
}
