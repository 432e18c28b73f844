//! Findings in stored flows: hosts that probe ports or hosts one after another, mostly without success.
//!
//! The rule and the words are those of the engine's function `scans` and of the summary. An attempt is a flow that has ended.

use super::query::Asking;
use super::tally::{Cell, Dimension, GroupBy, Measure, Subject, Tally, TallyWanted};
use super::{Store, StoreError, TimeRange};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use weir_api::basis::{Basis, Source};
use weir_api::web::{Finding, Findings};
use weir_api::{Facts, Key, Mute, Sweep, Trials, mapped};
use weir_filter::fields::{FieldInfo, FieldKind};
use weir_filter::{Endpoints, FLOW, FlowTest};
use weir_output::summary::scan_line;

/// Attempts that failed, as `Outcome::of` in the engine decides.
const FAILED: &str = "tcp and (flow.state = REJ or (flow.state = RSTR and not flow.payload_bytes > 0) \
                      or (flow.state in (S0, RSTOS0, SH) and not flow.sent_payload_bytes > 0))";
/// Attempts that succeeded.
const ANSWERED: &str =
    "tcp and (flow.state in (S1, S2, S3, SF, RSTO) or (flow.state = RSTR and flow.payload_bytes > 0))";
/// The first ephemeral port: an answer from one does not count against a scan of ports.
const EPHEMERAL: u128 = 32_768;
/// Combinations of client, server, port and state that are added up.
const MAX_ROWS: usize = 500_000;
/// The most hosts whose successful attempts are searched for, and the most findings of an answer.
const MAX_FOUND: usize = 100;
/// Columns of the line in words.
const WIDTH: usize = 160;
const SECOND: f64 = 1e9;

const PORT: FieldInfo = FieldInfo { table: FLOW, name: "server_port", kind: FieldKind::Number, place: 0 };
const STATE: FieldInfo = FieldInfo { table: FLOW, name: "state", kind: FieldKind::Text, place: 0 };
const FIRST: FieldInfo = FieldInfo { table: FLOW, name: "first", kind: FieldKind::Time, place: 0 };

/// Findings in the flows of a time range that a test holds for: those that one of the mutes hides (`is_muted`), or the others.
///
/// # Errors
///
/// Those of [`Store`].
pub fn of(
    store: &dyn Store,
    test: &FlowTest,
    span: TimeRange,
    mutes: &[Mute],
    is_muted: bool,
) -> Result<Findings, StoreError> {
    let attempts = |expression: &str, more: Option<FlowTest>| {
        let outcome = Asking::default().test(expression);
        let outcome = outcome.map_err(|error| StoreError::Unknown(error.to_string()))?;
        let tests = [test.clone(), outcome].into_iter().chain(more).collect();
        store.tally(&TallyWanted {
            subject: Subject::Flows,
            by: vec![
                Dimension::Key(GroupBy::Client),
                Dimension::Key(GroupBy::Server),
                Dimension::Field(PORT),
                Dimension::Field(STATE),
            ],
            measure: Measure::Rows,
            test: FlowTest::All(tests),
            span,
            limit: MAX_ROWS,
            steps: 0,
            grid: None,
            values: Some(FIRST),
        })
    };
    let failed = attempts(FAILED, None)?;
    let mut trials: BTreeMap<Sweep, Trials> = BTreeMap::new();
    each(&failed, |sweep, value, state, flows, times| {
        let row = trials.entry(sweep).or_insert_with(|| Trials::new(sweep));
        row.failed.add(value);
        match state {
            "REJ" | "RSTR" => row.refused += flows,
            _ => row.unanswered += flows,
        }
        row.first = row.first.min(times.0);
        row.last = row.last.max(times.1);
    });
    trials.retain(|_, row| row.is_scan());
    let sources: BTreeSet<IpAddr> = trials.keys().map(|sweep| source(*sweep)).collect();
    let mut partial = failed.partial;
    if !sources.is_empty() {
        let hosts = sources.iter().take(MAX_FOUND).map(|address| {
            let address = mapped(*address);
            FlowTest::Address(Endpoints::Client, address, address)
        });
        let answered = attempts(ANSWERED, Some(FlowTest::Any(hosts.collect())))?;
        each(&answered, |sweep, value, _, _, _| {
            let counts = matches!(sweep, Sweep::Hosts { .. }) || value < EPHEMERAL;
            if let Some(row) = trials.get_mut(&sweep).filter(|_| counts) {
                row.answered.add(value);
            }
        });
        partial = partial.or(answered.partial);
    }
    let mut found: Vec<&Trials> = trials.values().filter(|row| row.is_scan()).collect();
    found.sort_by_key(|row| (std::cmp::Reverse(row.failed.estimate()), row.sweep));
    let found: Vec<(&Trials, Option<u64>)> = found.into_iter().map(|row| (row, muted(row, mutes))).collect();
    let muted = found.iter().filter(|(_, mute)| mute.is_some()).count() as u64;
    let wanted = found.into_iter().filter(|(_, mute)| mute.is_some() == is_muted);
    let rows = wanted.take(MAX_FOUND).map(|(row, muted)| Finding {
        kind: "scan".to_owned(),
        text: scan_line(row, WIDTH),
        host: source(row.sweep).to_string(),
        filter: match row.sweep {
            Sweep::Ports { source, target } => format!("src host {source} and dst host {target} and tcp"),
            Sweep::Hosts { source, port } => format!("src host {source} and tcp dst port {port}"),
        },
        first: row.first as f64 / SECOND,
        last: row.last as f64 / SECOND,
        muted,
    });
    let basis = Basis { source: Source::Flows, bound: Some(0), ..Basis::default() };
    Ok(Findings { rows: rows.collect(), muted, basis, partial })
}

/// The number of the first mute that hides the event of a scan at the time of its last flow, as a run compares it.
fn muted(row: &Trials, mutes: &[Mute]) -> Option<u64> {
    if mutes.is_empty() {
        return None;
    }
    let event = row.clone().event();
    mutes.iter().find(|mute| mute.hides(&Facts::of(&event), row.last)).map(|mute| mute.number)
}

fn source(sweep: Sweep) -> IpAddr {
    match sweep {
        Sweep::Ports { source, .. } | Sweep::Hosts { source, .. } => source,
    }
}

/// Calls `add` twice for each row, as a probe of a port of a host and of a host on a port: the sweep, the port or host, the
/// state, the number of flows, and the beginnings of the first and the last one in nanoseconds.
fn each(tally: &Tally, mut add: impl FnMut(Sweep, u128, &str, u64, (u64, u64))) {
    for row in &tally.rows {
        let [Cell::Key(client), Cell::Key(server), Cell::Number(port), Cell::Text(state)] =
            row.cells.as_slice()
        else {
            continue;
        };
        let (Some(source), Some(target), Ok(port)) =
            (address(*client), address(*server), port.parse::<u16>())
        else {
            continue;
        };
        let host = mapped(target);
        let time = |seconds: Option<&f64>| (seconds.copied().unwrap_or(0.0) * SECOND) as u64;
        let times = (time(row.values.first()), time(row.values.last()));
        add(Sweep::Ports { source, target }, port.into(), state, row.sums.flows, times);
        add(Sweep::Hosts { source, port }, host, state, row.sums.flows, times);
    }
}

fn address(key: Key) -> Option<IpAddr> {
    match key {
        Key::Address(address) => Some(address),
        _ => None,
    }
}
