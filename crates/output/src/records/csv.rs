//! Records as CSV: a file for each table, with our own names.

use super::{Files, lossless};
use crate::OutputContext;
use crate::csv::cell;
use crate::file::{Frame, LineFile};
use crate::row::{Times, uid};
use crate::zone;
use std::io;
use weir_engine::FlowIdentity;
use weir_proto::{Kind, Record, Table, Value};

const FLOW: [&str; 7] =
    ["time", "uid", "community_id", "source", "source_port", "destination", "destination_port"];

/// Files of records.
pub struct Csvs {
    files: Files,
}

impl Csvs {
    /// Files in the folder of a run.
    pub fn new(context: &OutputContext) -> Self {
        Self { files: Files::new(context) }
    }

    /// Adds a record to the file of its table.
    pub fn record(&mut self, flow: &FlowIdentity, record: &Record<'_>) {
        let table = record.table;
        let frame = || Frame::head(|_| format!("{}\r\n", header(table)));
        let Some(file) = self.files.get(&format!("{}.csv", table.name), frame) else { return };
        if !file.is_empty() {
            file.go_on();
        }
        let ((source, source_port), (destination, destination_port)) = (flow.initiator(), flow.responder());
        file.line(record.time.0, |out| {
            let ends = [
                zone::rfc3339(record.time.0),
                uid(flow.id()),
                flow.community_id(0).to_string(),
                source.to_string(),
                source_port.to_string(),
                destination.to_string(),
                destination_port.to_string(),
            ];
            out.extend_from_slice(ends.join(",").as_bytes());
            for (field, value) in table.fields.iter().zip(&record.values) {
                if !matches!(field.kind, Kind::Rows(_)) {
                    out.push(b',');
                    cell(out, &text(value));
                }
            }
            out.push(b'\r');
        });
    }

    /// Writes what is held back.
    pub fn flush(&mut self) -> io::Result<()> {
        self.files.flush()
    }

    /// As [`LineFile::roll`].
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

/// A value for people: nothing where there is none, lists with blanks between.
pub(crate) fn text(value: &Value<'_>) -> String {
    match value {
        Value::None | Value::Rows(_) => String::new(),
        Value::Bool(yes) => yes.to_string(),
        Value::Uint(number) => number.to_string(),
        Value::Int(number) => number.to_string(),
        Value::Real(number) => number.to_string(),
        Value::Time(time) => Times::Rfc3339.text(time.0),
        Value::Span(span) => zone::seconds(*span),
        Value::Text(text) => lossless(text).into_owned(),
        Value::Address(address) => address.to_string(),
        Value::List(values) => values.iter().map(text).collect::<Vec<_>>().join(" "),
    }
}
