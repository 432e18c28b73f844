//! Lines of charts that have another value in an hour than in this hour of the weeks before.
//!
//! docs/anomalies.md has the rule and its sources.

use crate::median::median;
use crate::{Steps, Store, StoreError, TimeRange};

/// The weeks before an hour that it is compared with.
pub const WEEKS: u64 = 4;
/// With fewer weeks nothing has changed.
pub const MIN_WEEKS: usize = 2;
/// Least distance of a value from the median, in robust standard deviations.
const DEVIATIONS: f64 = 3.5;
/// The standard deviation of a normal distribution, in its median absolute deviations.
const DEVIATION: f64 = 1.4826;
/// A value is the median times or divided by this, at least.
const FACTOR: f64 = 2.0;
/// A value is beyond the greatest and the least of the weeks by this factor: a week that was almost as high is no change.
const MARGIN: f64 = 1.25;
/// A value differs from the median by at least one packet a second.
const MIN_PACKETS: f64 = 1.0;
/// A value differs from the median by at least 10 kbit/s.
const MIN_BITS: f64 = 10_000.0;
/// Least number of watched seconds of an hour that counts.
const MIN_SECONDS: f64 = 3_240.0;
const HOUR: u64 = 3_600_000_000_000;
const WEEK: u64 = 7 * 24 * HOUR;

/// A line that has changed. Values are means of an hour, in bits or packets per second.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// The name of its series.
    pub series: String,
    /// Whether its values are bits, and not packets.
    pub is_bits: bool,
    /// The hour.
    pub values: Values,
}

/// The value of an hour beside those of the weeks before.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Values {
    /// That of the hour.
    pub now: f64,
    /// The median of the weeks.
    pub median: f64,
    /// The least of the weeks.
    pub least: f64,
    /// The greatest of the weeks.
    pub greatest: f64,
    /// Number of weeks, from [`MIN_WEEKS`] to [`WEEKS`].
    pub weeks: u64,
}

impl Values {
    /// How far the hour is from the median: the greater of the two by the other, at least 1.
    pub fn factor(&self) -> f64 {
        let (low, high) = (self.now.min(self.median), self.now.max(self.median));
        if low > 0.0 { high / low } else { f64::INFINITY }
    }
}

/// The lines of charts that have changed in an hour, those with the greatest factor first. `begin` is a whole hour, in nanoseconds since
/// the epoch. Hours that were not watched for nine tenths do not count.
///
/// # Errors
///
/// The store cannot be read.
pub fn of(store: &dyn Store, begin: u64) -> Result<Vec<Change>, StoreError> {
    let hours: Vec<u64> = (1..=WEEKS).filter_map(|weeks| begin.checked_sub(weeks * WEEK)).collect();
    let hour = |begin: u64| (begin, begin.saturating_add(HOUR));
    let ranges: Vec<(u64, u64)> = std::iter::once(begin).chain(hours).map(hour).collect();
    let watched = store.watched_within(&ranges)?;
    let is_watched = |at: usize| watched.get(at).is_some_and(|seconds| *seconds >= MIN_SECONDS);
    let known: Vec<(u64, u64)> = ranges
        .iter()
        .enumerate()
        .skip(1)
        .filter(|(at, _)| is_watched(*at))
        .map(|(_, range)| *range)
        .collect();
    if !is_watched(0) || known.len() < MIN_WEEKS {
        return Ok(Vec::new());
    }
    let names: Vec<String> =
        store.series()?.into_iter().map(|series| series.id).filter(|id| unit(id).is_some()).collect();
    let now = means(store, &names, hour(begin))?;
    let before: Vec<Vec<Option<f64>>> =
        known.into_iter().map(|range| means(store, &names, range)).collect::<Result<_, _>>()?;
    let mut changes = Vec::new();
    for (at, name) in names.into_iter().enumerate() {
        let Some(is_bits) = unit(&name) else { continue };
        let value = |of: &Vec<Option<f64>>| of.get(at).copied().flatten();
        // A week without a value has no such line yet.
        let weeks: Vec<f64> = before.iter().filter_map(value).collect();
        let least = if is_bits { MIN_BITS } else { MIN_PACKETS };
        let judged = value(&now).and_then(|now| judge(now, weeks, least));
        changes.extend(judged.map(|values| Change { series: name, is_bits, values }));
    }
    changes.sort_by(|a, b| b.values.factor().total_cmp(&a.values.factor()).then(a.series.cmp(&b.series)));
    Ok(changes)
}

/// Whether the series of a line of a chart has bits, and not packets; `None` for all other series.
fn unit(series: &str) -> Option<bool> {
    let line = series.strip_prefix("chart/")?;
    match line.rsplit_once('/')?.1 {
        "bits" => Some(true),
        "packets" => Some(false),
        _ => None,
    }
}

/// The mean of each series in an hour.
fn means(
    store: &dyn Store,
    names: &[String],
    (from, to): (u64, u64),
) -> Result<Vec<Option<f64>>, StoreError> {
    let mut means = Vec::with_capacity(names.len());
    // An answer has a limit of points.
    for names in names.chunks(1_000) {
        let span = TimeRange { from: Some(from), to: Some(to) };
        let data = store.kept_points(names, span, Steps::Exact { base: from, step: HOUR })?;
        // Unknown series are left out: the order is that of the request.
        let mut found = data.series.into_iter().peekable();
        for name in names {
            let points = found.next_if(|points| points.id == *name);
            means.push(points.and_then(|points| points.avg.first().copied().flatten()));
        }
    }
    Ok(means)
}

/// The values, if the hour has changed by more than `least` and all the rest of the rule.
fn judge(now: f64, mut weeks: Vec<f64>, least: f64) -> Option<Values> {
    if weeks.len() < MIN_WEEKS {
        return None;
    }
    weeks.sort_by(f64::total_cmp);
    let middle = median(&weeks);
    let values = Values {
        now,
        median: middle,
        least: *weeks.first()?,
        greatest: *weeks.last()?,
        weeks: weeks.len() as u64,
    };
    weeks.iter_mut().for_each(|week| *week = (*week - middle).abs());
    weeks.sort_by(f64::total_cmp);
    let distance = (now - middle).abs();
    let is_beyond = now > values.greatest * MARGIN || now * MARGIN < values.least;
    let is_far = distance > DEVIATIONS * DEVIATION * median(&weeks);
    let is_much = distance >= least && values.factor() >= FACTOR;
    (is_beyond && is_far && is_much).then_some(values)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The rule word by word.
    fn plain(now: f64, weeks: &[f64], least: f64) -> bool {
        let middle = |values: &[f64]| {
            let mut sorted = values.to_vec();
            sorted.sort_by(|a, b| a.partial_cmp(b).unwrap());
            (sorted[(sorted.len() - 1) / 2] + sorted[sorted.len() / 2]) / 2.0
        };
        if weeks.len() < 2 {
            return false;
        }
        let m = middle(weeks);
        let mad = middle(&weeks.iter().map(|week| (week - m).abs()).collect::<Vec<_>>());
        let above = weeks.iter().all(|week| now > *week * 1.25) && now >= 2.0 * m;
        let below = weeks.iter().all(|week| now * 1.25 < *week) && now <= m / 2.0;
        (above || below) && (now - m).abs() >= least && (now - m).abs() > 3.5 * 1.4826 * mad
    }

    proptest! {
        #[test]
        fn the_rule_is_the_plain_one(now in 0_u32..40, weeks in proptest::collection::vec(0_u32..12, 0..5)) {
            let now = f64::from(now);
            let weeks: Vec<f64> = weeks.into_iter().map(f64::from).collect();
            let found = judge(now, weeks.clone(), MIN_PACKETS);
            prop_assert_eq!(found.is_some(), plain(now, &weeks, MIN_PACKETS));
            if let Some(values) = found {
                prop_assert!(values.least <= values.median && values.median <= values.greatest);
                prop_assert_eq!((values.now, values.weeks as usize), (now, weeks.len()));
            }
        }
    }

    #[test]
    fn a_change_is_beyond_the_weeks_far_and_much() {
        for (now, weeks, is_change) in [
            (20.0, &[10.0, 10.0, 10.0, 10.0][..], true),
            (19.0, &[10.0, 10.0, 10.0, 10.0], false),
            (5.0, &[10.0, 10.0], true),
            (5.1, &[10.0, 10.0], false),
            // A week was as high.
            (40.0, &[10.0, 10.0, 10.0, 40.0], false),
            (50.0, &[10.0, 10.0, 10.0, 40.0], false),
            (51.0, &[10.0, 10.0, 10.0, 40.0], true),
            // The weeks differ much: 3.5 * 1.4826 * 5 is 25.9.
            (40.0, &[10.0, 20.0, 10.0, 20.0], false),
            (41.0, &[10.0, 20.0, 10.0, 20.0], true),
            // Something where nothing was, and the floor.
            (1.0, &[0.0, 0.0, 0.0], true),
            (0.9, &[0.0, 0.0, 0.0], false),
            (50.0, &[10.0], false),
            (50.0, &[], false),
        ] {
            assert_eq!(judge(now, weeks.to_vec(), MIN_PACKETS).is_some(), is_change, "{now} {weeks:?}");
        }
    }

    #[test]
    fn lines_are_the_series_of_charts() {
        for (series, is_bits) in [
            ("chart/ports/ssh/bits", Some(true)),
            ("chart/ports/ssh/packets", Some(false)),
            ("chart/ports/ssh/flows", None),
            ("class/sizes/big/bits", None),
            ("ledger/packets", None),
        ] {
            assert_eq!(unit(series), is_bits, "{series}");
        }
    }
}
