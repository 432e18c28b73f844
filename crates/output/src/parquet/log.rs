//! The log `parquet`: flows.parquet, and a file for each table of records.
//!
//! A Parquet file cannot be read before its end is written. It has a random name until then, and a live run that
//! finds an earlier file keeps it beside its own.

use super::columns::{Cell, Kind, Rows};
use crate::csv::records::text;
use crate::format::{push_address, push_uid};
use crate::records::json::{Shape, Style, push_value};
use crate::row::{COLUMNS, ColumnKind, Endpoints, Times, Value as FlowValue};
use crate::{Existing, Output, OutputContext, OutputSpec, Takes};
use parquet::errors::ParquetError;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter};
use std::path::PathBuf;
use weir_api::Snapshot;
use weir_engine::{FlowIdentity, FlowRecord};
use weir_proto::{Field, Kind as FieldKind, Record, Table, Value, lossless};

pub(crate) static PARQUET: OutputSpec = OutputSpec {
    name: "parquet",
    help: "Flows as flows.parquet and a file for each table: typed columns, compressed.",
    files: &["flows.parquet"],
    is_stream: false,
    flows: true,
    events: "",
    has: |_| true,
    shows: |_| true,
    takes: Takes::Known,
    open: |context| {
        let mut log = ParquetLog { context: context.clone(), files: BTreeMap::new() };
        // A run without flows has the file, too.
        log.file(FLOWS, || COLUMNS.iter().map(|column| (column.name, flow_kind(column.kind))).collect());
        match log.files.get_mut(FLOWS).and_then(|file| file.failure.take()) {
            Some(error) => Err(error),
            None => Ok(Box::new(log)),
        }
    },
};

/// The file of flows.
const FLOWS: &str = "flows";
/// Bytes of rows that wait in all files together: then those of the largest are written as a row group.
const WAITING: usize = 32 << 20;
/// Columns of the flow before the fields of a record.
const FLOW: [(&str, Kind); 7] = [
    ("time", Kind::Time),
    ("uid", Kind::Text),
    ("community_id", Kind::Text),
    ("source", Kind::Text),
    ("source_port", Kind::Unsigned),
    ("destination", Kind::Text),
    ("destination_port", Kind::Unsigned),
];
/// How lists and rows are written as JSON.
const JSON: Style = Style { times: Times::Rfc3339, name: |field| field.name, skips_empty: false };

struct ParquetLog {
    context: OutputContext,
    files: BTreeMap<&'static str, LogFile>,
}

/// A file of a table.
struct LogFile {
    /// `None` after a failure.
    open: Option<(Rows<BufWriter<File>>, PathBuf)>,
    /// The final name.
    path: PathBuf,
    columns: Vec<(&'static str, Kind)>,
    /// The error, until it is reported.
    failure: Option<io::Error>,
    /// Rows that were lost after it.
    lost: u64,
    /// The time of the last row.
    latest: u64,
    /// Rows since the file began.
    rows: u64,
}

impl LogFile {
    fn new(path: PathBuf, columns: Vec<(&'static str, Kind)>) -> Self {
        let mut file = Self { open: None, path, columns, failure: None, lost: 0, latest: 0, rows: 0 };
        file.begin();
        file
    }

    fn begin(&mut self) {
        self.rows = 0;
        let begun = weir_files::Part::create(&self.path).and_then(|part| {
            let (file, written) = part.into_file();
            let rows = Rows::new(BufWriter::new(file), "rows", self.columns.iter().copied());
            Ok((rows.map_err(io::Error::other)?, written))
        });
        match begun {
            Ok(open) => self.open = Some(open),
            Err(error) => self.fail(error),
        }
    }

    /// Gives the file up: what is in it cannot be completed.
    fn fail(&mut self, error: impl std::fmt::Display) {
        if let Some((_, written)) = self.open.take() {
            let _ = std::fs::remove_file(written);
        }
        self.lost += self.rows;
        self.failure = Some(io::Error::other(format!("{}: {error}", self.path.display())));
    }

    fn row<'c>(&mut self, time: u64, cells: impl IntoIterator<Item = Cell<'c>>) {
        self.latest = self.latest.max(time);
        match &mut self.open {
            Some((rows, _)) => {
                rows.row(cells);
                self.rows += 1;
            }
            None => self.lost += 1,
        }
    }

    fn waiting(&self) -> usize {
        self.open.as_ref().map_or(0, |(rows, _)| rows.waiting())
    }

    fn write_group(&mut self) {
        if let Some((rows, _)) = &mut self.open
            && let Err(error) = rows.write_group()
        {
            self.fail(error);
        }
    }

    /// Ends the file under a name.
    fn end(&mut self, path: &std::path::Path) {
        let Some((rows, written)) = self.open.take() else { return };
        let ended = rows.finish().map_err(|error: ParquetError| io::Error::other(error));
        if let Err(error) = ended.and_then(|()| weir_files::put_in_place(&written, path)) {
            let _ = std::fs::remove_file(written);
            self.fail(error);
        }
    }

    fn report(&mut self) -> io::Result<()> {
        self.failure.take().map_or(Ok(()), Err)
    }
}

impl ParquetLog {
    fn file(
        &mut self,
        name: &'static str,
        columns: impl FnOnce() -> Vec<(&'static str, Kind)>,
    ) -> &mut LogFile {
        let path = self.context.directory.join(format!("{name}.parquet"));
        self.files.entry(name).or_insert_with(|| LogFile::new(path, columns()))
    }

    /// Writes the rows of the largest file if too many wait.
    fn relieve(&mut self) {
        if self.files.values().map(LogFile::waiting).sum::<usize>() > WAITING
            && let Some(largest) = self.files.values_mut().max_by_key(|file| file.waiting())
        {
            largest.write_group();
        }
    }

    /// A name with a time, as other logs have it after rotation.
    fn timed(&self, path: &std::path::Path, time: u64) -> PathBuf {
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        let time = self.context.zone.dashed(time);
        let name = |number: usize| match number {
            0 => format!("{stem}.{time}.parquet"),
            number => format!("{stem}.{time}.{number}.parquet"),
        };
        (0..).map(|number| path.with_file_name(name(number))).find(|path| !path.exists()).unwrap_or_default()
    }

    fn each(&mut self, mut work: impl FnMut(&Self, &mut LogFile)) -> io::Result<()> {
        let mut files = std::mem::take(&mut self.files);
        let mut result = Ok(());
        for file in files.values_mut() {
            work(self, file);
            result = result.and(file.report());
        }
        self.files = files;
        result
    }
}

impl Output for ParquetLog {
    fn interval(&mut self, _: &Snapshot) -> io::Result<()> {
        self.flush()
    }

    fn flow(&mut self, flow: &FlowRecord) -> io::Result<()> {
        self.named_flow(flow, None)
    }

    fn named_flow(&mut self, flow: &FlowRecord, name: Option<&str>) -> io::Result<()> {
        let ends = Endpoints::named(flow, name);
        let mut bytes = Vec::new();
        let mut places = Vec::with_capacity(COLUMNS.len());
        for column in COLUMNS {
            let begin = bytes.len();
            let value = (column.value)(flow, &ends);
            push_flow_text(&mut bytes, column.kind, &value);
            places.push((value, begin, bytes.len()));
        }
        let cells = places.iter().map(|(value, begin, end)| match value {
            FlowValue::Unset => Cell::Null,
            FlowValue::Time(time) | FlowValue::Count(time) => Cell::Whole(*time as i64),
            FlowValue::Interval(time) => Cell::Real(*time as f64 / 1e9),
            _ => Cell::Text(bytes.get(*begin..*end).unwrap_or_default()),
        });
        if let Some(file) = self.files.get_mut(FLOWS) {
            file.row(flow.last.0, cells);
        }
        self.relieve();
        Ok(())
    }

    fn record(&mut self, flow: &FlowIdentity, record: &Record<'_>) -> io::Result<()> {
        let table = record.table;
        let ((source, source_port), (destination, destination_port)) = (flow.initiator(), flow.responder());
        let [mut uid, mut from, mut to] = [const { Vec::new() }; 3];
        push_uid(&mut uid, flow.id());
        push_address(&mut from, source);
        push_address(&mut to, destination);
        let community = flow.community_id(0).text();
        let texts: Vec<Vec<u8>> =
            table.fields.iter().zip(&record.values).map(|(field, value)| field_text(field, value)).collect();
        let of_flow = [
            Cell::Whole(record.time.0 as i64),
            Cell::Text(&uid),
            Cell::Text(&community),
            Cell::Text(&from),
            Cell::Whole(source_port.into()),
            Cell::Text(&to),
            Cell::Whole(destination_port.into()),
        ];
        let fields = table.fields.iter().zip(&record.values).zip(&texts);
        let of_record = fields.map(|((field, value), text)| field_cell(field, value, text));
        self.file(table.name, || columns(table)).row(record.time.0, of_flow.into_iter().chain(of_record));
        self.relieve();
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        let limit = self.context.rolling.bytes;
        self.each(|log, file| {
            let written = file.open.as_ref().map_or(0, |(rows, _)| rows.written());
            if limit.is_some_and(|limit| written as u64 >= limit) {
                let path = log.timed(&file.path, file.latest);
                file.end(&path);
                file.begin();
            }
        })
    }

    fn roll(&mut self, now: u64) -> io::Result<()> {
        self.each(|log, file| {
            if file.rows > 0 {
                let path = log.timed(&file.path, file.latest.max(now));
                file.end(&path);
                file.begin();
            }
        })
    }

    fn finish(&mut self) -> io::Result<()> {
        let done = self.each(|log, file| {
            let keeps = log.context.existing == Existing::Continue && file.path.exists();
            let path = if keeps { log.timed(&file.path, file.latest) } else { file.path.clone() };
            file.end(&path);
        });
        let lost: u64 = self.files.values().map(|file| file.lost).sum();
        match lost {
            0 => done,
            lost => done.and(Err(io::Error::other(format!("log parquet: {lost} rows lost")))),
        }
    }
}

/// The columns of a table's file.
pub fn columns(table: &Table) -> Vec<(&'static str, Kind)> {
    FLOW.into_iter().chain(table.fields.iter().map(|field| (field.name, field_kind(&field.kind)))).collect()
}

/// The type of a column of flows.
pub fn flow_kind(kind: ColumnKind) -> Kind {
    match kind {
        ColumnKind::Time => Kind::Time,
        ColumnKind::Interval => Kind::Seconds,
        ColumnKind::Count => Kind::Unsigned,
        ColumnKind::Text => Kind::Text,
    }
}

fn push_flow_text(out: &mut Vec<u8>, kind: ColumnKind, value: &FlowValue) {
    if kind == ColumnKind::Text {
        match value {
            FlowValue::Text(text) => out.extend_from_slice(text.as_bytes()),
            value => {
                value.push(out);
            }
        }
    }
}

/// The type of a field's column.
fn field_kind(kind: &FieldKind) -> Kind {
    match kind {
        FieldKind::Bool => Kind::Bool,
        FieldKind::Uint | FieldKind::Port => Kind::Unsigned,
        FieldKind::Int => Kind::Signed,
        FieldKind::Real => Kind::Real,
        FieldKind::Time => Kind::Time,
        FieldKind::Duration => Kind::Seconds,
        FieldKind::Text | FieldKind::Word | FieldKind::Address => Kind::Text,
        FieldKind::List(_) | FieldKind::Set(_) | FieldKind::Rows(_) => Kind::Json,
    }
}

/// The text of a field whose column has text.
fn field_text(field: &Field, value: &Value<'_>) -> Vec<u8> {
    match field_kind(&field.kind) {
        Kind::Text => match value {
            Value::Text(text) => lossless(text).into_owned().into_bytes(),
            value => text(value).into_bytes(),
        },
        Kind::Json => {
            let mut out = Vec::new();
            let rows = match field.kind {
                FieldKind::Rows(fields) => Some(Shape::of(fields, JSON)),
                _ => None,
            };
            push_value(&mut out, value, &field.kind, rows.as_ref(), JSON.times);
            out
        }
        _ => Vec::new(),
    }
}

fn field_cell<'c>(field: &Field, value: &Value<'_>, text: &'c [u8]) -> Cell<'c> {
    match (field_kind(&field.kind), value) {
        (_, Value::None) => Cell::Null,
        (Kind::Text | Kind::Json, _) => Cell::Text(text),
        (Kind::Time, Value::Time(time)) => Cell::Whole(time.0 as i64),
        (Kind::Seconds, Value::Duration(time)) => Cell::Real(*time as f64 / 1e9),
        (Kind::Unsigned, Value::Uint(number)) => Cell::Whole(*number as i64),
        (Kind::Signed, Value::Int(number)) => Cell::Whole(*number),
        (Kind::Signed, Value::Uint(number)) => i64::try_from(*number).map_or(Cell::Null, Cell::Whole),
        (Kind::Real, Value::Real(number)) => Cell::Real(*number),
        (Kind::Bool, Value::Bool(yes)) => Cell::Bool(*yes),
        _ => Cell::Null,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures;
    use parquet::basic::LogicalType;
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::RowAccessor;
    use weir_proto::tables;

    fn read(path: &std::path::Path) -> SerializedFileReader<File> {
        SerializedFileReader::new(File::open(path).unwrap()).unwrap()
    }

    #[test]
    fn flows_and_records_are_typed_and_complete() {
        let folder = tempfile::tempdir().unwrap();
        let context = OutputContext { directory: folder.path().to_owned(), ..OutputContext::default() };
        let mut log = (PARQUET.open)(&context).unwrap();
        let flow = fixtures::flow();
        for _ in 0..1_000 {
            log.flow(&flow).unwrap();
        }
        log.record(&fixtures::identity(), &fixtures::record()).unwrap();
        log.interval(&fixtures::snapshot()).unwrap();
        log.finish().unwrap();
        let reader = read(&folder.path().join("flows.parquet"));
        let columns = reader.metadata().file_metadata().schema_descr();
        let names: Vec<&str> = columns.columns().iter().map(|column| column.name()).collect();
        assert_eq!(names, COLUMNS.iter().map(|column| column.name).collect::<Vec<_>>());
        assert!(matches!(columns.column(0).logical_type_ref(), Some(LogicalType::Timestamp(_))));
        let rows: Vec<_> = reader.get_row_iter(None).unwrap().map(Result::unwrap).collect();
        assert_eq!(rows.len(), 1_000);
        let place = |name: &str| names.iter().position(|known| *known == name).unwrap();
        assert_eq!(rows[999].get_ulong(place("packets")).unwrap(), flow.forward.packets);
        assert_eq!(rows[999].get_string(place("state")).unwrap(), "SF");
        assert_eq!(rows[0].get_double(place("duration")).unwrap(), flow.duration() as f64 / 1e9);
        let record = fixtures::record();
        let of_records = read(&folder.path().join(format!("{}.parquet", record.table.name)));
        assert_eq!(of_records.metadata().file_metadata().num_rows(), 1);
        let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
        assert_eq!(left.len(), 2, "no part is left");
    }

    /// The kind that a column declares is the kind of its values.
    #[test]
    fn columns_of_flows_have_their_declared_kinds() {
        for flow in [fixtures::flow(), fixtures::ping()] {
            for column in COLUMNS {
                let value = (column.value)(&flow, &Endpoints::named(&flow, Some("name")));
                let is_right = match column.kind {
                    _ if matches!(value, FlowValue::Unset) => true,
                    ColumnKind::Time => matches!(value, FlowValue::Time(_)),
                    ColumnKind::Interval => matches!(value, FlowValue::Interval(_)),
                    ColumnKind::Count => matches!(value, FlowValue::Count(_)),
                    ColumnKind::Text => {
                        !matches!(value, FlowValue::Time(_) | FlowValue::Interval(_) | FlowValue::Count(_))
                    }
                };
                assert!(is_right, "{}", column.name);
            }
        }
    }

    #[test]
    fn a_live_run_keeps_the_file_before() {
        let folder = tempfile::tempdir().unwrap();
        let context = OutputContext {
            directory: folder.path().to_owned(),
            existing: Existing::Continue,
            ..OutputContext::default()
        };
        for _ in 0..3 {
            let mut log = (PARQUET.open)(&context).unwrap();
            log.flow(&fixtures::flow()).unwrap();
            log.finish().unwrap();
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 3);
        let mut log = (PARQUET.open)(&context).unwrap();
        log.flow(&fixtures::flow()).unwrap();
        log.roll(0).unwrap();
        log.finish().unwrap();
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 5);
    }

    #[test]
    fn every_table_has_a_schema() {
        for table in tables() {
            assert!(Rows::new(Vec::new(), table.name, columns(table)).is_ok(), "{}", table.name);
        }
    }
}
