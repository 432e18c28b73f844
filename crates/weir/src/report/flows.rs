//! `weir report --store DIR --beacons` and `--new`: what the flows of a day in a store have, as text or NDJSON.

use crate::cli;
use crate::exit::{Exit, complain};
use crate::query::exit_of;
use crate::{database, times};
use serde_json::{Map, Value, json};
use std::fmt::Write as _;
use std::path::Path;
use weir_api::Net;
use weir_output::figures::{count, counted, duration, fit, printable, wrap};
use weir_output::ports;
use weir_output::zone::Zone;
use weir_store::beacons::{self, Beacon, Beacons, MIN_FLOWS, PARTS};
use weir_store::fresh::{self, DAYS, Fresh, Seen};
use weir_store::moment::Moments;
use weir_store::period::Period;
use weir_store::{Store, StoreError};

/// Columns of a line.
const WIDTH: usize = 80;

/// The day of a report.
struct Day {
    /// Its begin and end, in nanoseconds since the epoch.
    span: (u64, u64),
    /// Begin and end of what is stored, in nanoseconds since the epoch.
    stored: (u64, u64),
    zone: Zone,
}

/// Prints the report.
pub fn report(options: &cli::Report) -> Exit {
    let asked = &options.hosts;
    let Some(folder) = &asked.store else {
        return complain(Exit::Usage, "report: --beacons and --new need --store DIR");
    };
    match written(options, folder) {
        Ok(text) => {
            print!("{text}");
            Exit::Good
        }
        Err((exit, error)) => complain(exit, error),
    }
}

fn written(options: &cli::Report, folder: &Path) -> Result<String, (Exit, String)> {
    let asked = &options.hosts;
    let usage = |error: String| (Exit::Usage, error);
    let failed = |error: StoreError| (exit_of(&error), error.to_string());
    let allowed = allowed(&asked.allow).map_err(usage)?;
    let zone = times::zone(options.times.tz.as_deref()).map_err(usage)?;
    let store = database::read_patiently(folder).map_err(failed)?;
    let day = day(&*store, asked.at.as_deref(), zone, folder)?;
    let limit = if asked.limit == 0 { usize::MAX } else { asked.limit };
    if asked.beacons {
        let found = beacons::of(&*store, day.span, &allowed).map_err(failed)?;
        return Ok(if asked.json { beacons_json(&day, &found) } else { beacons_text(&day, &found, limit) });
    }
    let found = fresh::of(&*store, day.span, &asked.home()).map_err(failed)?;
    Ok(if asked.json { fresh_json(&day, &found) } else { fresh_text(&day, &found, limit) })
}

fn day(store: &dyn Store, at: Option<&str>, zone: Zone, folder: &Path) -> Result<Day, (Exit, String)> {
    let extent = store.extent().map_err(|error| (exit_of(&error), error.to_string()))?;
    let Some(stored) = extent else {
        return Err((Exit::Unreadable, format!("{}: nothing is stored yet", folder.display())));
    };
    let span = match at {
        None => Period::Day.last_complete(stored.0, stored.1),
        Some(text) => {
            let moments = Moments { zone: zone.clone(), now: stored.1 };
            let moment =
                moments.parse(text).map_err(|error| (Exit::Usage, format!("--at {text:?}: {error}")))?;
            Period::Day.of(moment.from)
        }
    };
    Ok(Day { span, stored, zone })
}

/// Networks, and files of networks: one in a line, with `#` before a comment.
fn allowed(words: &[String]) -> Result<Vec<Net>, String> {
    let mut nets = Vec::new();
    for word in words {
        if let Ok(net) = word.parse() {
            nets.push(net);
            continue;
        }
        let text = std::fs::read_to_string(word)
            .map_err(|error| format!("--allow {word:?} is neither a network nor a file: {error}"))?;
        for (at, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default().trim();
            if !line.is_empty() {
                let net = line.parse().map_err(|error| format!("{word}:{}: {line:?} is {error}", at + 1))?;
                nets.push(net);
            }
        }
    }
    Ok(nets)
}

/// The title, whether the day is complete, and what is left out.
fn head(day: &Day, title: &str, notes: &[String]) -> String {
    let (from, to) = day.span;
    let second = |time: u64| -> String {
        day.zone.date_time(time).chars().take("2026-11-22 10:00:00".len()).collect()
    };
    let mut out =
        format!("{title} of the day from {} to {} {}\n", second(from), second(to), day.zone.label(from));
    if day.stored.1 < to && day.stored.1 > from {
        let _ = writeln!(out, "it is not complete: stored until {}", second(day.stored.1));
    }
    for note in notes {
        for line in wrap(&format!("note: {note}"), WIDTH, 3) {
            let _ = writeln!(out, "{line}");
        }
    }
    out
}

fn rest(out: &mut String, number: usize, limit: usize, noun: &str) {
    if let Some(more) = number.checked_sub(limit).filter(|more| *more > 0) {
        let _ = writeln!(out, "... and {}: --limit 0 shows all", counted(more as u64, noun));
    }
}

fn beacons_text(day: &Day, found: &Beacons, limit: usize) -> String {
    let mut out = head(day, "BEACONS", &found.notes);
    let _ = writeln!(out, "{} with {MIN_FLOWS} or more flows", counted(found.pairs, "pair"));
    let _ = writeln!(
        out,
        "{} began in the day; {} of allowed hosts left out",
        counted(found.flows, "flow"),
        count(found.allowed)
    );
    out += "score: the mean of the six parts, each from 0 to 1: symmetry and sharpness of\n\
            the gaps and of the bytes sent, share of the day, evenness over its hours\n";
    if found.flows + found.allowed == 0 {
        out += "no flow of the day is stored: the store keeps flows with --log store\n";
    }
    for beacon in found.beacons.iter().take(limit) {
        out += "\n";
        for line in beacon_lines(day, beacon) {
            let _ = writeln!(out, "{}", fit(&line, WIDTH));
        }
        // An expression that is cut means something else.
        let _ = writeln!(out, "  {}", beacon.pair.expression());
    }
    rest(&mut out, found.beacons.len(), limit, "pair");
    out
}

fn beacon_lines(day: &Day, beacon: &Beacon) -> [String; 3] {
    let pair = &beacon.pair;
    let protocol = ports::protocol(pair.ip_proto);
    let port = if ports::has_ports(pair.ip_proto) { format!("/{}", pair.port) } else { String::new() };
    let name = beacon.name.as_ref().map_or(String::new(), |name| format!("  {}", printable(name)));
    let [gap_skew, gap_spread, bytes_skew, bytes_spread, share, hours] = beacon.parts;
    [
        format!("{:.3}  {} > {} {protocol}{port}{name}", beacon.score(), pair.initiator, pair.responder),
        format!(
            "  {}, {} to {}; medians: every {}, {} bytes sent",
            counted(beacon.flows, "flow"),
            day.zone.clock(beacon.begins.0),
            day.zone.clock(beacon.begins.1),
            duration((beacon.gap * 1e9) as u64),
            count(beacon.bytes as u64)
        ),
        format!(
            "  gaps {gap_skew:.3} {gap_spread:.3}  bytes {bytes_skew:.3} {bytes_spread:.3}  day {share:.3}  hours {hours:.3}"
        ),
    ]
}

fn seconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e9
}

/// The line about a report.
fn about(day: &Day, kind: &str, notes: &[String], more: Value) -> String {
    let mut line = json!({
        "kind": kind,
        "from": seconds(day.span.0),
        "to": seconds(day.span.1),
        "stored": [seconds(day.stored.0), seconds(day.stored.1)],
        "notes": notes,
    });
    if let (Value::Object(line), Value::Object(more)) = (&mut line, more) {
        line.extend(more);
    }
    line.to_string() + "\n"
}

fn beacons_json(day: &Day, found: &Beacons) -> String {
    let more = json!({ "flows": found.flows, "allowed": found.allowed, "pairs": found.pairs });
    let mut out = about(day, "beacons", &found.notes, more);
    for beacon in &found.beacons {
        let pair = &beacon.pair;
        let parts: Map<String, Value> =
            PARTS.iter().zip(beacon.parts).map(|(name, part)| ((*name).to_owned(), part.into())).collect();
        let line = json!({
            "kind": "beacon",
            "initiator": pair.initiator.to_string(),
            "responder": pair.responder.to_string(),
            "port": ports::has_ports(pair.ip_proto).then_some(pair.port),
            "protocol": ports::protocol(pair.ip_proto),
            "name": beacon.name,
            "score": beacon.score(),
            "parts": parts,
            "flows": beacon.flows,
            "gap": beacon.gap,
            "bytes": beacon.bytes,
            "first": seconds(beacon.begins.0),
            "last": seconds(beacon.begins.1),
            "filter": pair.expression(),
        });
        out += &(line.to_string() + "\n");
    }
    out
}

fn fresh_text(day: &Day, found: &Fresh, limit: usize) -> String {
    let mut out = head(day, "NEWS", &found.notes);
    match found.since {
        None => out += &format!("no flow of the {DAYS} days before is stored: nothing to compare with\n"),
        Some(since) => {
            let since: String = day.zone.date_time(since).chars().take("2026-11-22 10:00:00".len()).collect();
            let _ = writeln!(out, "compared with the flows since {since}, up to {DAYS} days before");
        }
    }
    let facts = |seen: &Seen| {
        format!(
            "{}  {}, {} bytes; first with {}",
            day.zone.clock(seen.first),
            counted(seen.flows, "flow"),
            count(seen.bytes),
            seen.peer
        )
    };
    let _ = writeln!(out, "\nNEW HOSTS: {}, which sent packets", counted(found.hosts.len() as u64, "host"));
    for (host, seen) in found.hosts.iter().take(limit) {
        let _ = writeln!(out, "{host}\n  {}", fit(&facts(seen), WIDTH - 2));
    }
    rest(&mut out, found.hosts.len(), limit, "host");
    let number = counted(found.services.len() as u64, "service");
    let _ = writeln!(out, "\nNEW SERVICES: {number}, which answered");
    for (service, seen) in found.services.iter().take(limit) {
        let protocol = ports::protocol(service.ip_proto);
        let _ = writeln!(out, "{} {protocol}/{}", service.host, service.port);
        let _ = writeln!(out, "  {}", fit(&facts(seen), WIDTH - 2));
    }
    rest(&mut out, found.services.len(), limit, "service");
    out
}

fn fresh_json(day: &Day, found: &Fresh) -> String {
    let more = json!({ "since": found.since.map(seconds) });
    let mut out = about(day, "new", &found.notes, more);
    let mut put = |of: Value, seen: &Seen| {
        let mut line = of;
        if let Value::Object(line) = &mut line {
            line.insert("first".to_owned(), seconds(seen.first).into());
            line.insert("peer".to_owned(), seen.peer.to_string().into());
            line.insert("flows".to_owned(), seen.flows.into());
            line.insert("bytes".to_owned(), seen.bytes.into());
        }
        out += &(line.to_string() + "\n");
    };
    for (host, seen) in &found.hosts {
        put(json!({ "kind": "new_host", "host": host.to_string(), "filter": format!("host {host}") }), seen);
    }
    for (service, seen) in &found.services {
        let protocol = ports::protocol(service.ip_proto);
        let filter = format!("host {} and {protocol} port {}", service.host, service.port);
        let host = service.host.to_string();
        let of = json!({
            "kind": "new_service", "host": host, "port": service.port, "protocol": protocol, "filter": filter,
        });
        put(of, seen);
    }
    out
}
