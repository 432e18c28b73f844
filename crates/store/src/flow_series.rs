//! Series that are computed from stored flows: of an expression, or of a time whose intervals are no longer stored.

use crate::share::{Window, crossing_bound};
use crate::tally::{Dimension, Measure, Subject, TallyWanted};
use crate::{Store, StoreError, TimeRange};
use weir_api::Unit;
use weir_api::basis::{Basis, Source};
use weir_api::web::{Points, SeriesData};
use weir_filter::FlowTest;

const SECOND: u64 = 1_000_000_000;
/// The series of bytes, in bits per second.
const BITS: &str = "flows/bits";
/// The series of packets, in packets per second.
const PACKETS: &str = "flows/packets";
/// The tier of an answer.
const TIER: &str = "flows";
/// Maximum number of points.
const MAX_POINTS: usize = 10_000;

/// Computes both series. The bytes and packets of a flow are spread evenly over its time.
pub fn points<S: Store + ?Sized>(
    store: &S,
    test: &FlowTest,
    span: TimeRange,
    points: usize,
) -> Result<SeriesData, StoreError> {
    let (first, last) = store.extent()?.unwrap_or_default();
    let from = span.from.unwrap_or(first).max(first);
    let to = span.to.unwrap_or(last).min(last).max(from + 1);
    let points = points.clamp(1, MAX_POINTS) as u64;
    let step = (to - from).div_ceil(points).max(1).next_multiple_of(SECOND);
    let starts: Vec<u64> = (from..to).step_by(step as usize).collect();
    let wanted = |measure| TallyWanted {
        subject: Subject::Flows,
        by: Vec::<Dimension>::new(),
        measure,
        test: test.clone(),
        span: TimeRange { from: Some(from), to: Some(to) },
        limit: 1,
        steps: starts.len(),
        grid: Some((from, step)),
        values: None,
    };
    let parts = Window { from, to }.parts(from, step, starts.len());
    let watched = store.watched_within(&parts)?;
    let range = [from as f64 / SECOND as f64, to as f64 / SECOND as f64];
    let mut data = SeriesData {
        basis: Basis { range, source: Source::Flows, bound: Some(0), ..Basis::default() },
        step: step as f64 / SECOND as f64,
        tier: TIER.to_owned(),
        times: starts.iter().map(|start| *start as f64 / SECOND as f64).collect(),
        ..SeriesData::default()
    };
    data.widths.clone_from(&watched);
    for (id, measure, factor) in [(BITS, Measure::Bytes, 8.0), (PACKETS, Measure::Packets, 1.0)] {
        let tally = store.tally(&wanted(measure))?;
        let sums = tally.rows.first().map_or(vec![0.0; starts.len()], |row| row.over.clone());
        for ((sum, seconds), width) in sums.iter().zip(&watched).zip(&mut data.widths) {
            // A flow may continue while nothing is watched.
            if *sum > 0.0 && *seconds == 0.0 {
                *width = data.step;
            }
        }
        let rates = sums.iter().zip(&data.widths);
        let avg: Vec<Option<f64>> =
            rates.map(|(sum, width)| (*width > 0.0).then(|| sum * factor / width)).collect();
        data.series.push(Points { id: id.to_owned(), min: avg.clone(), max: avg.clone(), avg });
        data.crossing = tally.crossing;
        data.basis.bound = Some(crossing_bound(tally.crossing.as_ref(), Unit::Bytes));
        data.partial = data.partial.or(tally.partial);
    }
    Ok(data)
}

/// Replaces stored points whose cells are too long for the range, if flows of the range are stored and each series is of all
/// traffic.
pub fn replace<S: Store + ?Sized>(
    store: &S,
    kept: SeriesData,
    ids: &[String],
    span: TimeRange,
    count: usize,
) -> Result<SeriesData, StoreError> {
    let of_flows = |id: &String| match id.as_str() {
        "ledger/bytes" => Some(BITS),
        "ledger/caught" => Some(PACKETS),
        _ => None,
    };
    let wanted: Option<Vec<&str>> = ids.iter().map(of_flows).collect();
    let Some(wanted) = wanted.filter(|wanted| kept.is_rounded && !wanted.is_empty()) else { return Ok(kept) };
    let found = points(store, &FlowTest::All(Vec::new()), span, count)?;
    if found.partial.is_some() {
        return Ok(kept);
    }
    let series = ids.iter().zip(wanted).filter_map(|(id, of)| {
        let points = found.series.iter().find(|points| points.id == of)?;
        Some(Points { id: id.clone(), ..points.clone() })
    });
    let series = series.collect();
    Ok(SeriesData { series, ranking: kept.ranking, ..found })
}
