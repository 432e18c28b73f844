//! Logs that subscriptions name: rows of flows and records, without readings and events.
//!
//! A file is opened with its first row, so that a thousand logs of which few have rows hold few files open.

use crate::csv::records::Csvs;
use crate::csv::{flow_header, push_flow, with_header};
use crate::file::Frame;
use crate::json::Object;
use crate::ndjson::{VERSION, push_flow as push_json_flow};
use crate::records::Files;
use crate::records::json::{Shapes, Style};
use crate::row::Times;
use crate::zone::push_rfc3339;
use crate::{OUTPUTS, Output, OutputContext};
use std::io;
use weir_api::Snapshot;
use weir_engine::{FlowIdentity, FlowRecord, LogFormat, NamedLog};
use weir_proto::{Record, tables};

const STYLE: Style = Style { times: Times::Rfc3339, name: |field| field.name, skips_empty: false };

/// The log of a name in the directory of a context.
pub fn named(context: &OutputContext, log: &NamedLog) -> Box<dyn Output> {
    let files = Files::new(context);
    let name = log.name.to_string();
    match log.format {
        LogFormat::Ndjson => {
            Box::new(Lines { file: format!("{name}.ndjson"), files, shapes: Shapes::new(STYLE) })
        }
        LogFormat::Csv => {
            Box::new(Cells { file: format!("{name}.csv"), files, records: Csvs::named(context, &name) })
        }
    }
}

/// Checks that the log of a name has no file of another log.
///
/// # Errors
///
/// It has; the text names the file.
pub fn check_name(log: &NamedLog) -> Result<(), String> {
    let file = format!("{}.{}", log.name, log.format.name());
    let is_of_table = log.format == LogFormat::Csv && tables().any(|table| *table.name == *log.name);
    let known = OUTPUTS.iter().flat_map(|output| output.files).chain(&["events.csv"]);
    if is_of_table || known.into_iter().any(|known| *known == file) {
        return Err(format!("{file} is a file of another log: choose another name for this one"));
    }
    Ok(())
}

/// A log of lines, each an object of JSON.
struct Lines {
    file: String,
    files: Files,
    shapes: Shapes,
}

impl Output for Lines {
    fn interval(&mut self, _: &Snapshot) -> io::Result<()> {
        self.flush()
    }

    fn flow(&mut self, flow: &FlowRecord) -> io::Result<()> {
        self.named_flow(flow, None)
    }

    fn named_flow(&mut self, flow: &FlowRecord, name: Option<&str>) -> io::Result<()> {
        if let Some(file) = self.files.get(&self.file, Frame::default) {
            file.line(flow.last.0, |out| push_json_flow(out, flow, name));
        }
        Ok(())
    }

    fn record(&mut self, flow: &FlowIdentity, record: &Record<'_>) -> io::Result<()> {
        let Self { file, files, shapes } = self;
        let Some(file) = files.get(file, Frame::default) else { return Ok(()) };
        let ((source, source_port), (destination, destination_port)) = (flow.initiator(), flow.responder());
        file.line(record.time.0, |out| {
            Object::write(out, |line| {
                line.number("v", VERSION);
                line.word("kind", "record");
                line.ours("time", |out| push_rfc3339(out, record.time.0));
                line.ours("uid", |out| crate::format::push_uid(out, flow.id()));
                line.ours("community_id", |out| out.extend_from_slice(&flow.community_id(0).text()));
                line.address("source", source);
                line.number("source_port", source_port);
                line.address("destination", destination);
                line.number("destination_port", destination_port);
                line.object(record.table.name, |object| shapes.write(object, record.table, &record.values));
            });
        });
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.files.flush()
    }

    fn roll(&mut self, now: u64) -> io::Result<()> {
        self.files.roll(now)
    }

    fn finish(&mut self) -> io::Result<()> {
        self.files.each(crate::file::LineFile::finish)
    }
}

/// A log of CSV.
struct Cells {
    file: String,
    files: Files,
    records: Csvs,
}

impl Output for Cells {
    fn interval(&mut self, _: &Snapshot) -> io::Result<()> {
        self.flush()
    }

    fn flow(&mut self, flow: &FlowRecord) -> io::Result<()> {
        self.named_flow(flow, None)
    }

    fn named_flow(&mut self, flow: &FlowRecord, name: Option<&str>) -> io::Result<()> {
        if let Some(file) = with_header(&mut self.files, &self.file, flow_header) {
            file.line(flow.last.0, |out| push_flow(out, flow, name));
        }
        Ok(())
    }

    fn record(&mut self, flow: &FlowIdentity, record: &Record<'_>) -> io::Result<()> {
        self.records.record(flow, record);
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.files.flush().and(self.records.flush())
    }

    fn roll(&mut self, now: u64) -> io::Result<()> {
        self.files.roll(now).and(self.records.roll(now))
    }

    fn finish(&mut self) -> io::Result<()> {
        let flows = self.files.each(crate::file::LineFile::finish);
        flows.and(self.records.finish())
    }
}
