//! Finds flows and records with watched addresses and names, and passes on no others.
//!
//! The list is read where the plan is compiled, and all workers share it. A worker counts hits by hosts and entry, and a judge
//! makes events of the merged counts.

mod list;

pub use list::FileState;
pub(crate) use list::List;

use super::ends::words;
use super::event::QUIET;
use super::found::Found;
use super::judge::{Named, SEVERITIES};
use super::top::ip;
use super::{Argument, Arguments, Function, FunctionSpec, InputKind, Judge, Memory};
use crate::bounded::Bounded;
use crate::fields::{RecordView, endpoints_of};
use crate::keyed::Tuple;
use crate::{Item, Seeds};
use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::{Arc, LazyLock};
use weir_api::{
    Datum, Event, Fold, Folded, FunctionCall, Interval, KeyColumn, LINE, Level, Reading, Schema, Severity,
    Shown, Subject, TableColumn, TableRow, Unit, mapped,
};
use weir_filter::Options;
use weir_proto::{Field, Kind, Privacy, Value};

/// Over flows.
pub(super) static WATCH: FunctionSpec = FunctionSpec { levels: &[Level::Flow], ..SPEC };

/// Over records.
pub(super) static WATCH_OF_RECORDS: FunctionSpec = FunctionSpec { levels: &[Level::Record], ..SPEC };

const SPEC: FunctionSpec = FunctionSpec {
    name: "watch",
    help: "Events of flows and records with an address, net or name of a list: one for each pair of hosts and entry. The functions after it see only those.",
    arguments: &[
        Argument {
            name: "file",
            help: "Path of the list, or several joined by commas: an address, net or name in each line.",
            default: None,
        },
        Argument {
            name: "name",
            help: "The name of the events: letters, digits, hyphens and underscores, at most 64.",
            default: Some("watched"),
        },
        Argument { name: "severity", help: "low or high: a notice or a warning.", default: Some("high") },
        Argument {
            name: "rows",
            help: "Number of pairs of hosts with an entry to keep, 16 to 65536.",
            default: Some("1024"),
        },
    ],
    levels: &Level::ALL,
    input: InputKind::Packets,
    memory: |arguments| {
        let asked = Asked::of(arguments)?;
        let row = ROW + asked.file.len();
        Ok(Memory {
            state: 256 + Bounded::<Tuple, Found>::bytes(asked.rows),
            reading: 256 + asked.rows * row,
        })
    },
    judge: Some(|arguments, length| {
        let Asked { name, severity, .. } = Asked::of(arguments)?;
        let quiet = QUIET.max(length.saturating_mul(2));
        Ok(Box::new(Finds(Named { name: name.into(), severity, quiet })))
    }),
    delivers: None,
    identifies: false,
    build: |arguments| {
        let list = Arc::new(List::new(arguments.seeds.run));
        Ok(Box::new(Watch::new(&Asked::of(arguments)?, list, arguments.seeds)))
    },
};

/// Maximum number of entries that are counted of a flow or record.
const MAX_HITS: usize = 32;

/// Bytes of a row of a reading, with the longest name but without the path of its file.
const ROW: usize = size_of::<TableRow>() + 4 * size_of::<Datum>() + 4 * size_of::<Folded>() + 253;

/// The hits by hosts and entry.
static SCHEMA: LazyLock<Arc<Schema>> = LazyLock::new(|| {
    const KEYS: &[KeyColumn] = &[
        KeyColumn::new("source", "", "The initiator."),
        KeyColumn::new("target", "", "The responder."),
        KeyColumn::new("entry", "", "The watched address, net or name."),
        KeyColumn::new("list", "", "The file of the entry."),
    ];
    const COLUMNS: &[TableColumn] = &[
        TableColumn::new("hits", Fold::Sum, "items", "Flows or records."),
        TableColumn::new("first", Fold::Min, "time", "Beginning of the first."),
        TableColumn::new("last", Fold::Max, "time", "End of the last."),
        TableColumn::new("line", Fold::Max, LINE, "Line of the entry in its file."),
    ];
    Arc::new(Schema {
        name: Cow::Borrowed("watched"),
        keys: Cow::Borrowed(KEYS),
        columns: Cow::Borrowed(COLUMNS),
        shown: Shown::Heaviest(10),
    })
});

/// What a call asks for.
struct Asked<'a> {
    file: &'a str,
    name: &'a str,
    severity: Severity,
    rows: usize,
}

impl<'a> Asked<'a> {
    fn of(arguments: &Arguments<'a>) -> Result<Self, String> {
        let file = arguments.text("file")?;
        if file.split(',').any(|path| path.trim().is_empty()) {
            return Err(format!("`watch`: file = `{file}` has an empty path"));
        }
        let rows: usize = arguments.within("rows", 16..=1 << 16)?;
        Ok(Self {
            file,
            name: arguments.name("name")?,
            severity: arguments.choice("severity", &SEVERITIES)?,
            rows: rows.next_multiple_of(8),
        })
    }

    /// The paths of the files.
    fn files(&self) -> impl Iterator<Item = &'a str> {
        self.file.split(',').map(str::trim)
    }
}

fn arguments(call: &FunctionCall, seeds: Seeds) -> Result<Arguments<'_>, String> {
    Arguments::new(SPEC.name, SPEC.arguments, call, seeds)
}

/// The list of a call, if it is one of this function. The files are read by what `options` have for lists.
///
/// # Errors
/// An argument is invalid, a file cannot be read, or the list is too long.
pub(crate) fn list_of(
    call: &FunctionCall,
    options: &Options<'_>,
    seeds: Seeds,
) -> Result<Option<Arc<List>>, String> {
    if call.name != SPEC.name {
        return Ok(None);
    }
    let arguments = arguments(call, seeds)?;
    let mut list = List::new(seeds.run);
    for file in Asked::of(&arguments)?.files() {
        let wrong = |reason: String| format!("`watch`: file = `{file}`: {reason}");
        let Some(fields) = options.fields else { return Err(wrong("no file can be read here".to_owned())) };
        // A file that changes while it is read has another stamp afterwards.
        let stamp = fields.stamp(file);
        let content = fields.list(file).map_err(wrong)?;
        list.add(file, stamp, &content).map_err(|reason| format!("`watch`: {reason}"))?;
    }
    list.finish();
    Ok(Some(Arc::new(list)))
}

/// The function of a call with its list.
///
/// # Errors
/// An argument is invalid.
pub(crate) fn with_list(
    call: &FunctionCall,
    list: &Arc<List>,
    seeds: Seeds,
) -> Result<Box<dyn Function>, String> {
    let asked = Asked::of(&arguments(call, seeds)?)?;
    Ok(Box::new(Watch::new(&asked, Arc::clone(list), seeds)))
}

/// Counts hits.
struct Watch {
    list: Arc<List>,
    /// By the initiator as `a` and the responder as `b`. The other words have the number of the entry.
    hits: Bounded<Tuple, Found>,
    /// The entries of the present item, each once. Reused.
    found: Vec<u32>,
}

impl Watch {
    fn new(asked: &Asked<'_>, list: Arc<List>, seeds: Seeds) -> Self {
        Self { list, hits: Bounded::new(asked.rows, Unit::Packets, seeds.run), found: Vec::new() }
    }

    fn note(&mut self, found: Option<u32>) {
        if let Some(id) = found
            && self.found.len() < MAX_HITS
            && !self.found.contains(&id)
        {
            self.found.push(id);
        }
    }

    /// Notes the watched values of a record.
    fn record(&mut self, view: &RecordView<'_>) {
        for (value, field) in view.record.values.iter().zip(view.record.table.fields) {
            self.value(value, field, field.kind);
        }
    }

    /// Notes what is watched in a value of a field: each address, and each name of a host or domain.
    fn value(&mut self, value: &Value<'_>, field: &Field, kind: Kind) {
        match (value, kind) {
            (Value::Address(address), _) => self.note_address(*address),
            (Value::Text(text), _) if field.privacy == Privacy::Name => self.note_name(text),
            (Value::List(values), Kind::List(inner) | Kind::Set(inner)) => {
                values.iter().for_each(|value| self.value(value, field, *inner));
            }
            (Value::Rows(rows), Kind::Rows(fields)) => {
                for (value, field) in rows.iter().flat_map(|row| row.iter().zip(fields)) {
                    self.value(value, field, field.kind);
                }
            }
            _ => {}
        }
    }

    fn note_address(&mut self, address: IpAddr) {
        self.note(self.list.address(mapped(address).to_be_bytes()));
    }

    /// Notes a name, or an address that stands for one, as the host of a request may have it, each with a port or without.
    fn note_name(&mut self, text: &[u8]) {
        let host = without_port(text);
        let may_be_address = host.last().is_some_and(u8::is_ascii_hexdigit) && {
            let is_digit = |byte: &u8| byte.is_ascii_digit() || *byte == b'.';
            host.contains(&b':') || host.iter().all(is_digit)
        };
        let address = std::str::from_utf8(host).ok().filter(|_| may_be_address);
        match address.and_then(|text| text.parse().ok()) {
            Some(address) => self.note_address(address),
            None => self.note(self.list.name(host)),
        }
    }
}

/// The host of `host`, `host:80` and `[address]:80`.
fn without_port(text: &[u8]) -> &[u8] {
    if let Some(rest) = text.strip_prefix(b"[") {
        return rest.split(|byte| *byte == b']').next().unwrap_or_default();
    }
    let mut parts = text.split(|byte| *byte == b':');
    match (parts.next(), parts.next(), parts.next()) {
        (Some(host), Some(port), None) if port.iter().all(u8::is_ascii_digit) => host,
        _ => text,
    }
}

impl Function for Watch {
    fn item(&mut self, item: &Item<'_>) {
        self.passes(item);
    }

    fn passes(&mut self, item: &Item<'_>) -> bool {
        self.found.clear();
        let (hosts, times) = match item {
            Item::FlowEnd(flow, _) => (endpoints_of(flow).address, (flow.first, flow.last)),
            Item::Record(view) => (view.endpoints.address, (view.record.time, view.record.time)),
            _ => return false,
        };
        for host in hosts {
            self.note(self.list.address(host));
        }
        if let Item::Record(view) = item {
            self.record(view);
        }
        let [a, b] = hosts.map(words);
        for id in &self.found {
            let ports = [(id >> 16) as u16, *id as u16];
            self.hits.add_more(Tuple { a, b, ports, protocol: 0 }, times);
        }
        !self.found.is_empty()
    }

    fn held(&self) -> usize {
        self.hits.memory()
    }

    fn take(&mut self) -> Reading {
        let Self { list, hits, .. } = self;
        hits.take_table(&SCHEMA, |Tuple { a, b, ports: [high, low], .. }, hits| {
            let id = u32::from(high) << 16 | u32::from(low);
            let shown = list.shown(id);
            let line = shown.as_ref().map(|shown| shown.line.into());
            let text = |text: Option<&str>| text.map_or(Datum::Nothing, |text| Datum::Text(text.into()));
            let (entry, file) =
                (shown.as_ref().map(|shown| &*shown.entry), shown.as_ref().map(|shown| shown.file));
            let key = vec![Datum::Address(ip(a)), Datum::Address(ip(b)), text(entry), text(file)];
            let values = hits.values().into_iter().chain([Folded::Max(line)]).collect();
            (key, values)
        })
    }
}

/// Makes an event of each pair of hosts with an entry.
struct Finds(Named);

impl Judge for Finds {
    fn judge(
        &mut self,
        reading: &Reading,
        _: Interval,
        interval: Interval,
        _: &dyn Fn(&Event) -> bool,
    ) -> Vec<Event> {
        let Reading::Table(table) = reading else { return Vec::new() };
        let event = |row: &TableRow| {
            let [Datum::Address(source), Datum::Address(target), Datum::Text(entry), Datum::Text(list)] =
                row.key.as_slice()
            else {
                return None;
            };
            let (line, found) = row.values.split_last()?;
            let (source, target) = (*source, *target);
            let subject = Subject::Watched { source, target, entry: entry.clone(), list: list.clone() };
            Some(Found::event(found, subject, interval)?.with("line", LINE, line.clone()))
        };
        table.rows.iter().filter_map(event).collect()
    }

    fn named(&self) -> Option<Named> {
        Some(self.0.clone())
    }
}

#[cfg(test)]
mod tests;
