//! The sections of what protocols show: names, sites, programs, states and latency.

use super::Facts;
use super::label::socket;
use super::sections::{Group, Section, Tone};
use crate::figures::{count, duration, fit, printable};
use weir_api::{AnswerId, Datum, Folded, Reading, SubscriptionId, Table, TableRow, builtin, mac_text};

/// Maximum columns of a name, so that a line has several.
const NAME: usize = 40;
/// The place of the function that measures times to the first byte, and of the one that measures round trips.
const FIRST_BYTE: u16 = 0;
const ROUND_TRIP: u16 = 1;
/// The place of the function that counts names by domain, and of the one that counts all names.
const NAMES_OF_DOMAIN: u16 = 0;
const ALL_NAMES: u16 = 1;
/// TCP: latency is measured of its flows only.
const TCP: u8 = 6;

/// Names that DNS was asked for, with the number of transactions; and the domain that has most of the different names, if one
/// has: data that is sent through DNS makes ever new names of one domain.
pub fn names(facts: &Facts, room: usize) -> Section {
    let mut section = frequent("NAMES", facts, &[(builtin::NAMES, None)], room);
    if let Some(line) = widest(facts) {
        section.line(line, Tone::Plain);
    }
    section
}

/// Minimum number of different names of the domain that has most of them.
const MANY: u64 = 10;

/// `dnscat.example has 150 of 163 different names`.
fn widest(facts: &Facts) -> Option<String> {
    let table_at = |place| match facts.total.reading_at(AnswerId { subscription: builtin::DOMAINS, place })? {
        Reading::Table(table) => Some(table),
        _ => None,
    };
    let all = table_at(ALL_NAMES)?.rows.first()?.weight();
    let row = table_at(NAMES_OF_DOMAIN)?.rows.iter().max_by_key(|row| row.weight())?;
    let [Datum::Text(domain)] = row.key.as_slice() else { return None };
    let of_it = row.weight();
    // Beyond some hundreds both are estimates.
    let all = all.max(of_it);
    let about = if row.values.iter().all(is_exact) { "" } else { "about " };
    (of_it >= MANY && 2 * of_it > all).then(|| {
        let domain = fit(&printable(domain), NAME);
        format!("{domain} has {about}{} of {} different names", count(of_it), count(all))
    })
}

/// Whether a number of distinct values is exact.
fn is_exact(value: &Folded) -> bool {
    !matches!(value, Folded::Distinct(values) if !values.is_exact())
}

/// Sites, with the number of requests and connections.
pub fn sites(facts: &Facts, room: usize) -> Section {
    frequent("SITES", facts, &[(builtin::SITES, None)], room)
}

/// Versions of TLS, status codes and programs of HTTP, each with the number of connections or requests.
pub fn web(facts: &Facts, room: usize) -> Section {
    let lists = [
        (builtin::TLS_VERSIONS, Some("version")),
        (builtin::STATUS_CODES, Some("code")),
        (builtin::USER_AGENTS, Some("agent")),
    ];
    frequent("WEB", facts, &lists, room)
}

/// The servers with the most flows: medians of the time to the first byte and of the round trip.
pub fn latency(facts: &Facts, room: usize) -> Section {
    let mut section = Section::new("LATENCY");
    let table_at = |place| match facts.total.reading_at(AnswerId { subscription: builtin::LATENCY, place }) {
        Some(Reading::Table(table)) => Some(table),
        _ => None,
    };
    let Some(first_byte) = table_at(FIRST_BYTE) else { return section };
    let round_trips = table_at(ROUND_TRIP);
    let entry = |row: &TableRow| {
        let [Datum::Address(server), Datum::Number(port)] = row.key.as_slice() else { return None };
        let port = u16::try_from(*port).ok()?;
        let server = socket(*server, port, TCP);
        let trip = round_trips.and_then(|table| median(table.rows.find(&row.key)?));
        let trip = trip.map(|trip| format!(", round trip {trip}")).unwrap_or_default();
        Some(format!("{server} {}{trip}", median(row)?))
    };
    let shown = first_byte.shown();
    let mut entries: Vec<String> = shown.iter().filter_map(|row| entry(row)).collect();
    if let Some(first) = entries.first_mut() {
        *first = format!("first byte: {first}");
    }
    section.entries(&entries, first_byte.rows.len(), Some("server"), room);
    section
}

/// The median of the first value of a row.
fn median(row: &TableRow) -> Option<String> {
    match row.values.first()? {
        Folded::Sketch(sketch) => Some(duration((sketch.quantile(0.5)? * 1e9) as u64)),
        _ => None,
    }
}

/// The most frequent keys of lists, one list after the other, with their numbers. Each list has a word for the keys that are
/// not shown.
fn frequent(
    label: &'static str,
    facts: &Facts,
    lists: &[(SubscriptionId, Option<&str>)],
    room: usize,
) -> Section {
    let mut section = Section::new(label);
    let tables: Vec<(&Table, Option<&str>)> = lists
        .iter()
        .filter_map(|(list, noun)| match facts.total.reading_of(*list)? {
            Reading::Table(table) => Some((table, *noun)),
            _ => None,
        })
        .collect();
    // A line for several lists has their heaviest rows.
    let max = if tables.len() > 1 { 3 } else { usize::MAX };
    let entries: Vec<Vec<String>> =
        tables.iter().map(|(table, _)| known_rows(table, max).map(entry).collect()).collect();
    let all: usize = tables.iter().map(|(table, _)| table.rows.len()).sum();
    if entries.iter().all(Vec::is_empty) && all > 0 {
        section.line(
            format!("more than {} different ones, none of them frequent", count(all as u64)),
            Tone::Plain,
        );
    }
    let groups = tables.iter().zip(&entries).map(|((table, noun), entries)| Group {
        entries,
        all: table.rows.len(),
        is_whole: table.absent == 0,
        noun: *noun,
    });
    section.groups(&groups.collect::<Vec<_>>(), room);
    section
}

/// The heaviest rows, at most `max`. A row whose error is as large as its number tells nothing.
fn known_rows(table: &Table, max: usize) -> impl Iterator<Item = &TableRow> {
    table.shown().into_iter().filter(|row| row.error < row.weight()).take(max)
}

/// A key and its number.
fn entry(row: &TableRow) -> String {
    let parts: Vec<String> = row
        .key
        .iter()
        .map(|part| match part {
            Datum::Nothing => "-".to_owned(),
            Datum::Address(address) => address.to_string(),
            Datum::Number(number) => number.to_string(),
            Datum::Text(text) => fit(&printable(text), NAME),
            Datum::Mac(mac) => mac_text(mac),
        })
        .collect();
    let error = if row.error > 0 { format!(" ±{}", count(row.error)) } else { String::new() };
    format!("{} {}{error}", parts.join(" "), count(row.weight()))
}
