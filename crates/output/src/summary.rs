//! The summary of a run in at most twenty lines, and the line of one interval.

mod answers;
mod applications;
mod calls;
mod claims;
mod frames;
mod label;
mod lists;
mod naming;
mod render;
mod sections;
#[cfg(test)]
mod tests;
mod wifi;

pub use answers::answers;
use label::scan_short;
pub use label::{key, key_short, label, scan};
pub use lists::lists;
pub use naming::Naming;
pub use render::{MAX_LINES, MIN_WIDTH, render};
pub use sections::{finding_line, flood_line, floods, of_subscriptions, scan_line};

use crate::Applications;
use crate::figures::{bit_rate, count, loss_percent, packet_rate, percent};
use crate::zone::Zone;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::net::IpAddr;
use weir_api::{
    AnswerId, CONN_STATES, Count, Datum, Reading, Series, Snapshot, SubscriptionId, TableRow, Top, Trials,
    builtin,
};

/// Contents of the summary.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// The inputs.
    pub inputs: Vec<InputFacts>,
    /// Expression of the run, if any.
    pub expression: Option<String>,
    /// The time range of the run, if it has one.
    pub range: Option<RangeFacts>,
    /// Totals of the run.
    pub total: Snapshot,
    /// Ended flows by state, in descending order; empty if they were not counted.
    pub states: Vec<(String, u64)>,
    /// Names of responders, by their address and that of the initiator that resolved it.
    pub names: BTreeMap<(IpAddr, IpAddr), String>,
    /// Notes for the user.
    pub notes: Vec<String>,
    /// Descriptions of failed outputs.
    pub failures: Vec<String>,
    /// Whether the run was interrupted.
    pub interrupted: bool,
}

/// The time range of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct RangeFacts {
    /// Its beginning; 0 without one. Nanoseconds since the epoch.
    pub from: u64,
    /// Its end, excluded; `u64::MAX` without one.
    pub until: u64,
    /// Packets of the inputs outside of it.
    pub outside: u64,
    /// The earliest and the latest time of those packets.
    pub times: Option<(u64, u64)>,
}

/// An input.
#[derive(Clone, Debug, Default)]
pub struct InputFacts {
    /// Path of the file, or name of the interface.
    pub name: String,
    /// Format, such as `pcapng, gzip` or `live`.
    pub format: String,
    /// Names of its link types.
    pub links: Vec<String>,
    /// Names of its link types that are not supported.
    pub undecoded: Vec<String>,
    /// Packets read.
    pub packets: u64,
    /// Bytes on the wire of these packets.
    pub bytes: u64,
    /// Error that ended reading, if any.
    pub problem: Option<String>,
    /// Whether its packets were in time order; `None` if unknown.
    pub in_order: Option<bool>,
    /// Packets lost during capture, if the file records it.
    pub lost_before: Option<u64>,
    /// Whether it is a network interface.
    pub live: bool,
}

/// Style of the summary.
#[derive(Clone, Debug)]
pub struct Style {
    /// Maximum width of a line in columns, at least [`MIN_WIDTH`].
    pub width: usize,
    /// Whether colour is used. It never carries information alone.
    pub colour: bool,
    /// Time zone.
    pub zone: Zone,
    /// Whether ports have service names.
    pub names: bool,
    /// Whether commands are suggested.
    pub next: bool,
}

impl Default for Style {
    fn default() -> Self {
        Self { width: 80, colour: false, zone: Zone::utc(), names: true, next: true }
    }
}

/// The list of the heaviest keys of a built-in subscription.
pub fn top_of(snapshot: &Snapshot, subscription: SubscriptionId) -> Option<&Top> {
    match snapshot.reading_of(subscription)? {
        Reading::Top(top) => Some(top),
        _ => None,
    }
}

/// The scans among the events of a snapshot, the widest first.
pub fn scans(snapshot: &Snapshot) -> Vec<Trials> {
    let mut found: Vec<Trials> = snapshot.events.iter().filter_map(Trials::of_event).collect();
    found.sort_by_key(|scan| (std::cmp::Reverse(scan.failed.estimate()), scan.sweep));
    found
}

/// The ended flows of a snapshot by state, in descending order.
pub fn states(snapshot: &Snapshot) -> Vec<(String, u64)> {
    let table = snapshot.table_at(AnswerId { subscription: builtin::STATES, place: 0 });
    let named = |row: &TableRow| match row.key.first() {
        Some(Datum::Text(state)) => Some((String::from(&**state), row.weight())),
        _ => None,
    };
    let mut states: Vec<(String, u64)> =
        table.iter().flat_map(|table| &table.rows).filter_map(named).collect();
    let place = |state: &str| CONN_STATES.iter().position(|known| *known == state);
    states.sort_by_key(|(state, flows)| (Reverse(*flows), place(state)));
    states
}

/// Packets and bytes over time of a snapshot.
pub fn series(snapshot: &Snapshot) -> Option<&Series> {
    match snapshot.reading_of(builtin::RATE)? {
        Reading::Series(series) => Some(series),
        _ => None,
    }
}

/// Packets and bytes of everything analysed: of the series if there is one, else of the ledger.
pub fn analysed(snapshot: &Snapshot) -> Count {
    match series(snapshot) {
        Some(series) => series.cells.iter().fold(Count::default(), |mut sum, cell| {
            sum.add(cell);
            sum
        }),
        None => Count { packets: snapshot.ledger.analysed, bytes: snapshot.ledger.bytes },
    }
}

/// An interval in one line: time, packets and bits per second, new flows, the top talker, loss.
pub fn line(snapshot: &Snapshot, zone: &Zone, names: bool) -> String {
    let interval = snapshot.interval;
    let seconds = snapshot.watched_seconds();
    let all = analysed(snapshot);
    let rate = |n: u64| if seconds > 0.0 { n as f64 / seconds } else { 0.0 };
    let mut line = format!(
        "{} {}  {}  {}  +{} flows",
        zone.clock(interval.end),
        zone.label(interval.end),
        packet_rate(rate(all.packets)),
        bit_rate(rate(all.bytes) * 8.0),
        count(snapshot.flows.begun()),
    );
    let talkers = top_of(snapshot, builtin::TALKERS);
    if let Some((top, row)) = talkers.and_then(|top| Some((top, *top.ranked().first()?))) {
        let share = percent(row.count.in_unit(top.unit), in_unit(&all, top));
        let applications = Applications::of(snapshot);
        let naming = Naming::of(&applications, names);
        line.push_str(&format!("  top {} {share}", key(&row.key, naming)));
        if let Some(error) = error_share(row.error, row.count.in_unit(top.unit)) {
            line.push_str(&format!(" {error}"));
        }
    }
    let ledger = &snapshot.ledger;
    let lost = ledger.capture.lost();
    line.push_str(&match lost {
        0 => "  loss 0".to_owned(),
        lost => format!("  LOSS {} ({})", count(lost), loss_percent(ledger.loss_percent())),
    });
    line
}

fn in_unit(all: &Count, top: &Top) -> u64 {
    all.in_unit(top.unit)
}

/// The maximum undercount relative to a count: `±3%`, `±>100%`; `None` when it is exact.
pub fn error_share(error: u64, value: u64) -> Option<String> {
    match error {
        0 => None,
        error if error > value => Some("±>100%".to_owned()),
        error => Some(format!("±{}", percent(error, value))),
    }
}
