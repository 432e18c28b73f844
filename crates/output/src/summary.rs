//! What a run found, on at most twenty lines, and as one line a second.

mod label;
mod lists;
mod render;
mod sections;
#[cfg(test)]
mod tests;

pub use crate::ndjson::summary as ndjson;
use label::scan_short;
pub use label::{key, key_short, scan};
pub use lists::lists;
pub use render::{MAX_LINES, MIN_WIDTH, render};

use crate::figures::{bit_rate, count, loss_percent, packet_rate, percent};
use crate::zone::Zone;
use std::collections::BTreeMap;
use std::net::IpAddr;
use weir_api::{Count, Key, KeyKind, Reading, Series, Snapshot, Top, Trials};

/// What the summary tells.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// Where the packets came from.
    pub inputs: Vec<InputFacts>,
    /// The run's expression, where there is one.
    pub expression: Option<String>,
    /// The answers of the whole run.
    pub total: Snapshot,
    /// Ended flows by state, most first; empty where nobody counted them.
    pub states: Vec<(String, u64)>,
    /// Names of responders, by their address and that of who asked for it.
    pub names: BTreeMap<(IpAddr, IpAddr), String>,
    /// What else the user should know.
    pub notes: Vec<String>,
    /// What could not be written, in words.
    pub failures: Vec<String>,
    /// The run was ended before its input was.
    pub interrupted: bool,
}

/// What is known of an input.
#[derive(Clone, Debug, Default)]
pub struct InputFacts {
    /// Path of the file, or name of the interface.
    pub name: String,
    /// Such as `pcapng, gzip` or `live`.
    pub format: String,
    /// Names of its link types.
    pub links: Vec<String>,
    /// Those among them whose packets are not decoded.
    pub undecoded: Vec<String>,
    /// Packets read.
    pub packets: u64,
    /// Bytes of those packets on the wire.
    pub bytes: u64,
    /// What was wrong with it: why not all of it was read.
    pub problem: Option<String>,
    /// Whether its packets came in the order of their times, where that is known.
    pub in_order: Option<bool>,
    /// Packets that were lost when the file was made, where it says so.
    pub lost_before: Option<u64>,
    /// A network interface, and not a file.
    pub live: bool,
}

/// How the summary is written.
#[derive(Clone, Debug)]
pub struct Style {
    /// Columns of the terminal; no line is longer. Fewer than [`MIN_WIDTH`] are taken as that.
    pub width: usize,
    /// Whether colour may be used. It is a second cue: everything is said in words too.
    pub colour: bool,
    /// For times.
    pub zone: Zone,
    /// Whether ports are named.
    pub names: bool,
    /// Whether commands that may come next are told.
    pub next: bool,
}

impl Default for Style {
    fn default() -> Self {
        Self { width: 80, colour: false, zone: Zone::utc(), names: true, next: true }
    }
}

/// The first list of the heaviest keys of a kind among a snapshot's answers.
pub fn top_by(snapshot: &Snapshot, kind: KeyKind) -> Option<&Top> {
    snapshot.answers.iter().find_map(|answer| match &answer.reading {
        Reading::Top(top) if top.key == kind => Some(top),
        _ => None,
    })
}

/// The scans that a snapshot's answers found, the widest first.
pub fn scans(snapshot: &Snapshot) -> Vec<&Trials> {
    let found = snapshot.answers.iter().find_map(|answer| match &answer.reading {
        Reading::Scans(scans) => Some(scans.found()),
        _ => None,
    });
    found.unwrap_or_default()
}

/// The first series among a snapshot's answers.
pub fn series(snapshot: &Snapshot) -> Option<&Series> {
    snapshot.answers.iter().find_map(|answer| match &answer.reading {
        Reading::Series(series) => Some(series),
        _ => None,
    })
}

/// Packets and bytes of everything analysed: of the series where there is one, else of the ledger.
pub fn analysed(snapshot: &Snapshot) -> Count {
    match series(snapshot) {
        Some(series) => series.cells.iter().fold(Count::default(), |mut sum, cell| {
            sum.add(cell);
            sum
        }),
        None => Count { packets: snapshot.ledger.analysed, bytes: snapshot.ledger.bytes },
    }
}

/// An interval in one line: time, packets and bits a second, new flows, the heaviest talker, loss.
pub fn line(snapshot: &Snapshot, zone: &Zone, names: bool) -> String {
    let interval = snapshot.interval;
    let seconds = interval.end.saturating_sub(interval.start) as f64 / 1e9;
    let all = analysed(snapshot);
    let rate = |n: u64| if seconds > 0.0 { n as f64 / seconds } else { 0.0 };
    let mut line = format!(
        "{} {}  {}  {}  +{} flows",
        zone.clock(interval.end),
        zone.label(interval.end),
        packet_rate(rate(all.packets)),
        bit_rate(rate(all.bytes) * 8.0),
        count(snapshot.flows.created),
    );
    let talkers = top_by(snapshot, KeyKind::Talker);
    if let Some((top, row)) = talkers.and_then(|top| Some((top, *top.ranked().first()?))) {
        let share = percent(row.count.in_unit(top.unit), in_unit(&all, top));
        line.push_str(&format!("  top {} {share}", key(&row.key, names)));
        if let Some(error) = error_share(row.error, row.count.in_unit(top.unit)) {
            line.push_str(&format!(" {error}"));
        }
    }
    let ledger = &snapshot.ledger;
    let lost = ledger.capture.dropped + ledger.capture.interface_dropped;
    line.push_str(&match lost {
        0 => "  loss 0".to_owned(),
        lost => format!("  LOSS {} ({})", count(lost), loss_percent(ledger.loss_percent())),
    });
    line
}

fn in_unit(all: &Count, top: &Top) -> u64 {
    all.in_unit(top.unit)
}

/// By how much the truth may be above a count, in parts of it: `±3%`, `±>100%`; `None` when it is exact.
pub fn error_share(error: u64, value: u64) -> Option<String> {
    match error {
        0 => None,
        error if error > value => Some("±>100%".to_owned()),
        error => Some(format!("±{}", percent(error, value))),
    }
}

/// The service that a key's port is registered for.
pub fn service_of(of: &Key) -> Option<&'static str> {
    match *of {
        Key::Talker { port, protocol, .. } | Key::Port { port, protocol } => {
            crate::ports::service(protocol, port)
        }
        _ => None,
    }
}
