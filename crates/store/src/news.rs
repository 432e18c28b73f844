//! Hosts and services of a time range that were not there before it.

use crate::label::list_row;
use crate::query::Asking;
use crate::tally::{Cell, Dimension, GroupBy, Measure, Subject, TallyRow, TallyWanted};
use crate::{Store, StoreError, TimeRange};
use std::collections::HashSet;
use weir_api::web::{Against, News, NewsRow};
use weir_api::{Key, TopRow};
use weir_filter::FlowTest;
use weir_output::summary::Naming;

const DAY: u64 = 24 * 3_600_000_000_000;
const SECOND: f64 = 1e9;
/// How far back hosts and services count as known.
const BEFORE: u64 = 7 * DAY;
/// The most rows of an answer.
const ROWS: usize = 100;
/// The most services of a time range.
const SERVICES: usize = 100_000;
/// The first ephemeral port (Linux's `ip_local_port_range`): one that answers was announced by another connection, or is the
/// client's of a flow whose beginning was not seen.
const EPHEMERAL: u16 = 32_768;

/// Hosts that sent packets and services that answered, and did not in the time before.
pub fn of<S: Store + ?Sized>(store: &S, span: TimeRange) -> Result<News, StoreError> {
    let Some((first, last)) = store.extent()? else { return Ok(News::default()) };
    let from = span.from.unwrap_or(first);
    let seconds = |time: u64| time as f64 / SECOND;
    let begin = from.saturating_sub(BEFORE).max(first);
    let mut news =
        News { against: Against { from: seconds(begin.min(from)), to: seconds(from) }, ..News::default() };
    if from <= first || last <= first {
        news.partial = Some("no data before this time to compare with".to_owned());
        return Ok(news);
    }
    let (now, before) = (
        TimeRange { from: Some(from), to: span.to },
        TimeRange { from: Some(from.saturating_sub(BEFORE)), to: Some(from) },
    );
    new_hosts(store, now, before, &mut news)?;
    new_services(store, now, before, &mut news)?;
    news.rows.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.label.cmp(&b.label)));
    news.rows.truncate(ROWS);
    Ok(news)
}

fn new_hosts<S: Store + ?Sized>(
    store: &S,
    now: TimeRange,
    before: TimeRange,
    news: &mut News,
) -> Result<(), StoreError> {
    let now = store.kept_list("sources", now)?.top;
    let old = store.kept_list("sources", before)?.top;
    let Some(now) = now else { return Ok(()) };
    let known: HashSet<Key> = old.iter().flat_map(|old| &old.rows).map(|row| row.key).collect();
    // A key without a row in the old list may have had less than this bound.
    let unsure = old.as_ref().map_or(0, |old| old.absent);
    if unsure > 0 {
        news.partial =
            Some("the earlier list of hosts is incomplete: light hosts may be missing here".to_owned());
    }
    let is_new = |row: &&TopRow| !known.contains(&row.key) && row.count.in_unit(now.unit) > unsure;
    news.rows.extend(now.rows.iter().filter(is_new).map(|row| news_row("host", row)));
    Ok(())
}

/// Services are found in flows: the list of services has every port that was tried.
fn new_services<S: Store + ?Sized>(
    store: &S,
    now: TimeRange,
    before: TimeRange,
    news: &mut News,
) -> Result<(), StoreError> {
    let answered = Asking::default().test("flow.received_packets > 0 and not icmp and not icmp6");
    let answered = answered.map_err(|error| StoreError::Unknown(error.to_string()))?;
    let services = |test: FlowTest, span: TimeRange| {
        store.tally(&TallyWanted {
            subject: Subject::Flows,
            by: vec![Dimension::Key(GroupBy::Service)],
            measure: Measure::Bytes,
            test,
            span,
            limit: SERVICES,
            steps: 0,
            grid: None,
            values: None,
        })
    };
    let (now, old) = (services(answered.clone(), now)?, services(answered, before)?);
    let known: HashSet<&[Cell]> = old.rows.iter().map(|row| row.cells.as_slice()).collect();
    // A service without a row in the time before may have had this.
    let is_new = |row: &&TallyRow| {
        !known.contains(row.cells.as_slice())
            && old.lost.is_none_or(|lost| row.sums.of(Measure::Bytes) > lost)
    };
    for row in now.rows.iter().filter(is_new) {
        if let [Cell::Key(key @ Key::Port { port: 1..EPHEMERAL, .. })] = row.cells.as_slice() {
            let row = TopRow { key: *key, count: row.sums.count, flows: row.sums.flows, error: 0 };
            news.rows.push(news_row("service", &row));
        }
    }
    news.partial = news.partial.take().or(now.partial).or(old.partial);
    Ok(())
}

fn news_row(kind: &str, row: &TopRow) -> NewsRow {
    let row = list_row(row, Naming::numeric());
    NewsRow {
        kind: kind.to_owned(),
        label: row.label,
        filter: row.filter,
        bytes: row.bytes,
        packets: row.packets,
    }
}
