//! Series: the points of an interval, their storage, and their queries.

use super::renamed;
use super::schema::describe;
use super::tiers::{SERIES, Tier};
use crate::store::{StoreError, TimeRange};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use rusqlite::{Connection, OptionalExtension, Transaction, params};
use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::time::Instant;
use weir_api::web::{Band, BandPoints, Points, PointsOfOthers, SeriesData, SeriesInfo, Weight};
use weir_api::{Answer, Count, Reading, Snapshot, counters};

const SECOND: f64 = 1e9;
/// Maximum number of points of all series in an answer.
const MAX_POINTS: usize = 2_000_000;
/// Maximum offset of a zone's clock changes.
const CLOCKS: u64 = 2 * 3_600_000_000_000;
const WEEK: u64 = 7 * 24 * 3_600_000_000_000;

/// A point to be written: the mean of a series over an interval.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// The series.
    pub id: String,
    /// Unit of the values.
    pub unit: &'static str,
    /// Meaning of the values.
    pub help: String,
    /// Mean over the interval.
    pub value: f64,
}

/// The series of a counter.
pub fn counter_id(name: &str) -> String {
    format!("ledger/{name}")
}

/// Escapes a name for a series' identifier: parts are joined by `/`, names by commas.
fn part(name: &str) -> String {
    name.replace('%', "%25").replace('/', "%2f").replace(',', "%2c")
}

/// The series of a line of a chart, in bits or packets per second.
pub fn line_id(chart: &str, line: &str, bits: bool) -> String {
    format!("chart/{}/{}/{}", part(chart), part(line), if bits { "bits" } else { "packets" })
}

/// The series of a class of packets of a subscription, in bits or packets per second.
pub fn class_id(subscription: &str, class: &str, bits: bool) -> String {
    format!("class/{}/{}/{}", part(subscription), part(class), if bits { "bits" } else { "packets" })
}

/// The points of an interval: counters, lines, classes, distinct counts, and the inserts of lists.
pub fn points(snapshot: &Snapshot) -> Vec<Point> {
    let length = snapshot.interval.end.saturating_sub(snapshot.interval.start).max(1_000_000) as f64 / SECOND;
    let mut points: Vec<Point> = counters()
        .map(|counter| {
            let (unit, factor) = rate_unit(counter.unit);
            let value = (counter.of)(snapshot) as f64 * factor / length;
            Point { id: counter_id(counter.name), unit, help: counter.help.trim().to_owned(), value }
        })
        .collect();
    // An interval does not count flows that began before it: only sums since the beginning do.
    for answer in &snapshot.answers {
        answer_points(answer, length, &mut points);
    }
    points
}

fn rate_unit(unit: &str) -> (&'static str, f64) {
    match unit {
        "packets" => ("packets/s", 1.0),
        "bytes" => ("bits/s", 8.0),
        "flows" => ("flows/s", 1.0),
        "records" | "rows" => ("rows/s", 1.0),
        "files" => ("files/s", 1.0),
        _ => ("1/s", 1.0),
    }
}

fn answer_points(answer: &Answer, length: f64, points: &mut Vec<Point>) {
    let name = &answer.subscription;
    let mut both = |id: &dyn Fn(bool) -> String, help: String, count: &Count| {
        let rates = [(true, "bits/s", count.bytes as f64 * 8.0), (false, "packets/s", count.packets as f64)];
        for (bits, unit, sum) in rates {
            points.push(Point { id: id(bits), unit, help: help.clone(), value: sum / length });
        }
    };
    match &answer.reading {
        Reading::Count(count) => {
            let chart = answer.chart.as_deref().unwrap_or("counts");
            both(&|bits| line_id(chart, name, bits), format!("{name} of {chart}"), count);
        }
        Reading::Classes { classes, .. } => {
            for class in classes {
                let help = format!("{} of {name}", class.label);
                both(&|bits| class_id(name, &class.label, bits), help, &class.count);
            }
        }
        Reading::Top(top) => points.push(Point {
            id: format!("list/{}/inserts", part(name)),
            unit: "keys/s",
            help: format!("Keys that had no row in {name} when they arrived; rises first in a flood"),
            value: top.inserts as f64 / length,
        }),
        Reading::Distinct(count) => points.push(Point {
            id: format!("distinct/{}", part(name)),
            unit: count.of.name(),
            help: format!("Distinct {} in an interval", count.of.name()),
            value: count.estimate() as f64,
        }),
        Reading::Scans(scans) => points.push(Point {
            id: format!("scans/{}", part(name)),
            unit: "scans",
            help: "Scans detected in an interval".to_owned(),
            value: scans.found().len() as f64,
        }),
        Reading::Histogram(histogram) if histogram.n > 0 => points.push(Point {
            id: format!("mean/{}", part(name)),
            unit: "",
            help: format!("Mean {} in an interval", histogram.of),
            value: histogram.mean(),
        }),
        Reading::Histogram(_) | Reading::Series(_) => {}
    }
}

/// Numbers of series by name.
pub type Known = HashMap<String, i64>;

/// Adds the points of intervals to cells of each tier: a cell is written once for all of them.
pub fn write<'p>(
    to: &Transaction<'_>,
    known: &mut Known,
    intervals: impl Iterator<Item = ((u64, u64), &'p [Point])>,
) -> rusqlite::Result<()> {
    let mut name = to.prepare_cached(
        "INSERT INTO series (name, unit, help) VALUES (?1, ?2, ?3)
         ON CONFLICT (name) DO UPDATE SET unit = ?2, help = ?3 RETURNING id",
    )?;
    // In the order of the cells in the table.
    let mut cells: BTreeMap<(usize, i64, i64), Bucket> = BTreeMap::new();
    for ((start, end), points) in intervals {
        let seconds = end.saturating_sub(start).max(1_000_000) as f64 / SECOND;
        let times = SERIES.map(|tier| tier.cell.of(start, end).0 as i64);
        for point in points {
            let id = match known.get(&point.id) {
                Some(id) => *id,
                None => {
                    let id = name.query_row(params![point.id, point.unit, point.help], |row| row.get(0))?;
                    known.insert(point.id.clone(), id);
                    id
                }
            };
            let sum = point.value * seconds;
            let one = Bucket { seconds, sum, min: point.value, max: point.value };
            for (at, time) in times.into_iter().enumerate() {
                cells.entry((at, id, time)).and_modify(|cell| cell.add(&one)).or_insert(one);
            }
        }
    }
    let mut add = to.prepare_cached(
        "INSERT INTO points VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT DO UPDATE SET
         least = min(ifnull(least, sum / seconds), ?8), most = max(ifnull(most, sum / seconds), ?9),
         seconds = seconds + ?4, sum = sum + ?5",
    )?;
    for ((tier, id, time), cell) in cells {
        let Bucket { seconds, sum, min, max } = cell;
        // For a single interval, minimum and maximum equal the value.
        let extremes = (tier > 0 || min < max).then_some((min, max)).unzip();
        add.execute(params![tier as i64, id, time, seconds, sum, extremes.0, extremes.1, min, max])?;
    }
    Ok(())
}

/// Every series.
pub fn list(from: &Connection, path: &Path) -> Result<Vec<SeriesInfo>, StoreError> {
    let describe = describe(path);
    let mut rows =
        from.prepare_cached("SELECT name, unit, help FROM series ORDER BY name").map_err(describe)?;
    let found = rows
        .query_map([], |row| {
            Ok(SeriesInfo { id: renamed::current(row.get(0)?), unit: row.get(1)?, help: row.get(2)? })
        })
        .map_err(describe)?;
    found.collect::<Result<_, _>>().map_err(describe)
}

/// A time range in cells of equal length.
#[derive(Clone, Copy, Debug)]
pub struct CellGrid {
    /// The tier.
    pub tier: usize,
    /// Its beginning, in nanoseconds since the epoch.
    pub from: u64,
    /// Its end, excluded.
    pub to: u64,
    /// The length of a cell.
    pub step: u64,
}

impl CellGrid {
    /// Average, minimum and maximum of each cell.
    pub fn read(self, from: &Connection, series: i64) -> rusqlite::Result<Vec<Option<[f64; 3]>>> {
        let buckets = read(from, series, self)?;
        Ok(buckets.into_iter().map(|bucket| bucket.map(|b| [b.sum / b.seconds, b.min, b.max])).collect())
    }

    /// The coarsest tier that is fine enough and has data from the start of the range.
    fn of(
        span: (u64, u64),
        points: usize,
        first: impl Fn(usize) -> Option<u64>,
        kept_from: u64,
        interval: u64,
    ) -> Self {
        let (from, to) = span;
        let wanted = to.saturating_sub(from).div_ceil(points.max(1) as u64).max(1);
        let length = |at: usize| match at {
            0 => interval,
            at => SERIES.get(at).map_or(interval, |tier: &Tier| tier.cell.length()),
        };
        let mut tier = (0..SERIES.len()).rev().find(|at| length(*at) <= wanted).unwrap_or(0);
        // Cells of coarser tiers begin before their first data: stored data begins with the first interval.
        let wanted_first = from.max(kept_from);
        while tier + 1 < SERIES.len()
            && first(tier).is_none_or(|first| first > wanted_first.saturating_add(length(tier)))
        {
            tier += 1;
        }
        let step = wanted.div_ceil(length(tier)).max(1) * length(tier);
        Self { tier, from: from - from % step, to, step }
    }

    /// An answer without series.
    fn empty(self) -> SeriesData {
        SeriesData {
            step: self.step as f64 / SECOND,
            tier: SERIES.get(self.tier).map_or("", |tier| tier.name).to_owned(),
            times: (0..self.cells()).map(|at| (self.from + at as u64 * self.step) as f64 / SECOND).collect(),
            ..SeriesData::default()
        }
    }

    fn cells(&self) -> usize {
        (self.to.saturating_sub(self.from).div_ceil(self.step)).max(1) as usize
    }
}

/// Values of a bucket of a grid.
#[derive(Clone, Copy, Default)]
struct Bucket {
    seconds: f64,
    sum: f64,
    min: f64,
    max: f64,
}

impl Bucket {
    fn add(&mut self, other: &Bucket) {
        self.seconds += other.seconds;
        self.sum += other.sum;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }
}

fn read(from: &Connection, id: i64, grid: CellGrid) -> rusqlite::Result<Vec<Option<Bucket>>> {
    let mut buckets: Vec<Option<Bucket>> = vec![None; grid.cells()];
    let mut rows = from.prepare_cached(
        "SELECT time, seconds, sum, ifnull(least, sum / seconds), ifnull(most, sum / seconds) FROM points
         WHERE tier = ?1 AND series = ?2 AND time >= ?3 AND time < ?4 ORDER BY time",
    )?;
    let mut rows =
        rows.query(params![grid.tier as i64, id, grid.from as i64, grid.to.min(i64::MAX as u64) as i64])?;
    while let Some(row) = rows.next()? {
        let time: i64 = row.get(0)?;
        let at = (time as u64).saturating_sub(grid.from) / grid.step;
        let (seconds, sum, min, max) = (row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?);
        if let Some(bucket) = buckets.get_mut(at as usize) {
            *bucket = Some(match bucket.take() {
                None => Bucket { seconds, sum, min, max },
                Some(b) => Bucket {
                    seconds: b.seconds + seconds,
                    sum: b.sum + sum,
                    min: b.min.min(min),
                    max: b.max.max(max),
                },
            });
        }
    }
    Ok(buckets)
}

fn points_of(id: &str, buckets: &[Option<Bucket>]) -> Points {
    let of = |part: fn(Bucket) -> f64| buckets.iter().map(|bucket| bucket.map(part)).collect();
    Points { id: id.to_owned(), avg: of(|b| b.sum / b.seconds), min: of(|b| b.min), max: of(|b| b.max) }
}

/// Adds a series to a sum: the sum of two absent values is absent, an absent value and a number give the number.
fn add(to: &mut PointsOfOthers, points: &Points) {
    let parts = [(&mut to.avg, &points.avg), (&mut to.min, &points.min), (&mut to.max, &points.max)];
    for (sums, values) in parts {
        sums.resize(values.len(), None);
        for (sum, value) in sums.iter_mut().zip(values) {
            if let Some(value) = value {
                *sum = Some(sum.unwrap_or(0.0) + value);
            }
        }
    }
}

/// The instant in an earlier week with the same local time. If its distance is not a multiple of the cells' length,
/// they are too long to separate hours, and the time is whole weeks earlier.
fn same_hour(time: u64, weeks: u64, step: u64, zone: &TimeZone) -> u64 {
    let then = time.saturating_sub(weeks);
    let offset = |time: u64| {
        let stamp = Timestamp::from_second((time / 1_000_000_000) as i64).ok()?;
        Some(i64::from(zone.to_offset(stamp).seconds()) * 1_000_000_000)
    };
    let moved = offset(time).zip(offset(then)).map_or(0, |(now, then)| now - then);
    if moved.unsigned_abs() > CLOCKS || !moved.unsigned_abs().is_multiple_of(step) {
        return then;
    }
    then.saturating_add_signed(moved)
}

/// A database of series, for queries.
pub struct SeriesReader<'c> {
    /// The database.
    pub from: &'c Connection,
    /// Its file.
    pub path: &'c Path,
    /// Begin and end of the stored data.
    pub extent: (u64, u64),
    /// Length of the most recent intervals.
    pub interval: u64,
    /// Time at which the query stops.
    pub until: Instant,
}

impl SeriesReader<'_> {
    fn grid(&self, span: TimeRange, points: usize) -> Result<CellGrid, StoreError> {
        let (first, last) = self.extent;
        // Before the first stored data there is nothing to draw.
        let (from, to) = (span.from.unwrap_or(first).max(first), span.to.unwrap_or(last));
        let mut firsts = [None; SERIES.len()];
        for (tier, first) in firsts.iter_mut().enumerate() {
            *first = self.first_of(tier)?;
        }
        let first = |tier: usize| firsts.get(tier).copied().flatten();
        Ok(CellGrid::of((from, to.max(from + 1)), points, first, self.extent.0, self.interval.max(1)))
    }

    /// Start of a tier's data: that of the counters, which every interval has.
    fn first_of(&self, tier: usize) -> Result<Option<u64>, StoreError> {
        let describe = describe(self.path);
        let mut query = self
            .from
            .prepare_cached(
                "SELECT min(time) FROM points WHERE tier = ?1 AND series = (SELECT id FROM series WHERE name = ?2)",
            )
            .map_err(describe)?;
        let first: Option<i64> = query
            .query_row(params![tier as i64, counter_id("caught")], |row| row.get(0))
            .map_err(describe)?;
        Ok(first.map(|first| first as u64))
    }

    /// The number of a series, by its present or its earlier name.
    pub fn number(&self, id: &str) -> Result<Option<i64>, StoreError> {
        let describe = describe(self.path);
        let text = "SELECT id FROM series WHERE name IN (?1, ?2) ORDER BY name != ?1 LIMIT 1";
        let mut query = self.from.prepare_cached(text).map_err(describe)?;
        query.query_row([id, &renamed::other(id)], |row| row.get(0)).optional().map_err(describe)
    }

    /// See [`crate::store::Store::points`].
    pub fn points(&self, ids: &[String], span: TimeRange, points: usize) -> Result<SeriesData, StoreError> {
        let grid = self.grid(span, points.clamp(1, 100_000))?;
        let mut data = grid.empty();
        for id in ids {
            if (data.series.len() + 1) * grid.cells() > MAX_POINTS {
                let (shown, all) = (data.series.len(), ids.len());
                data.partial =
                    Some(format!("{shown} of {all} series: an answer is limited to {MAX_POINTS} points"));
                break;
            }
            let Some(number) = self.number(id)? else { continue };
            let buckets = read(self.from, number, grid).map_err(describe(self.path))?;
            data.series.push(points_of(id, &buckets));
        }
        Ok(data)
    }

    /// See [`crate::store::Store::heaviest`].
    pub fn heaviest(
        &self,
        ids: &[String],
        span: TimeRange,
        points: usize,
        top: usize,
    ) -> Result<SeriesData, StoreError> {
        let room = MAX_POINTS / ids.len().max(1);
        let grid = self.grid(span, points.clamp(1, room.clamp(1, 100_000)))?;
        let mut data = grid.empty();
        let mut ranking: Vec<Weight> = Vec::with_capacity(ids.len());
        // Series and their totals, the heaviest first, up to the requested number.
        let mut heaviest: Vec<(f64, Points)> = Vec::new();
        let mut others: Option<PointsOfOthers> = None;
        for id in ids {
            if Instant::now() >= self.until {
                let (weighed, all) = (ranking.len(), ids.len());
                data.partial =
                    Some(format!("stopped at the time limit: {weighed} of {all} series were ranked"));
                break;
            }
            let Some(number) = self.number(id)? else { continue };
            let buckets = read(self.from, number, grid).map_err(describe(self.path))?;
            let weight: f64 = buckets.iter().flatten().map(|bucket| bucket.sum).sum();
            ranking.push(Weight { id: id.clone(), weight });
            let place = heaviest.partition_point(|(heavier, _)| *heavier >= weight);
            heaviest.insert(place, (weight, points_of(id, &buckets)));
            if heaviest.len() > top
                && let Some((_, lightest)) = heaviest.pop()
            {
                add(others.get_or_insert_default(), &lightest);
            }
        }
        ranking.sort_by(|a, b| b.weight.total_cmp(&a.weight));
        data.series = heaviest.into_iter().map(|(_, points)| points).collect();
        (data.others, data.ranking) = (others, Some(ranking));
        Ok(data)
    }

    /// See [`crate::store::Store::band`].
    pub fn band(
        &self,
        ids: &[String],
        span: TimeRange,
        points: usize,
        weeks: usize,
        zone: &TimeZone,
    ) -> Result<Band, StoreError> {
        let (first, last) = self.extent;
        let (from, to) = (span.from.unwrap_or(first), span.to.unwrap_or(last));
        let back = |time: u64, weeks: usize| time.saturating_sub(weeks as u64 * WEEK);
        let weeks = weeks.clamp(1, 52);
        let past: Vec<usize> = (1..=weeks).filter(|week| back(to, *week) > first).collect();
        let mut band = Band { weeks: past.len(), ..Band::default() };
        let Some(oldest) = past.last() else { return Ok(band) };
        // All weeks have the step of the oldest, which may be in a coarser tier; steps divide a week.
        let shape = self.grid(
            TimeRange { from: Some(back(from, *oldest)), to: Some(back(to, *oldest)) },
            points.clamp(1, 10_000),
        )?;
        let shape = CellGrid { from: from - from % shape.step, to, ..shape };
        band.times =
            (0..shape.cells()).map(|at| (shape.from + at as u64 * shape.step) as f64 / SECOND).collect();
        // Each week's cells, and for each cell of the range the cell to compare with; these are equal for all series.
        let weeks_of_cells: Vec<(CellGrid, Vec<Option<usize>>)> = past
            .iter()
            .map(|week| {
                // After a clock change, the same local hour is at most two hours earlier or later.
                let room = CLOCKS.next_multiple_of(shape.step);
                let from = back(shape.from, *week).saturating_sub(room);
                let place = |at: usize| {
                    let time = shape.from + at as u64 * shape.step;
                    let then = same_hour(time, *week as u64 * WEEK, shape.step, zone);
                    then.checked_sub(from).map(|since| (since / shape.step) as usize)
                };
                let grid = CellGrid { from, to: back(shape.to, *week) + room, ..shape };
                (grid, (0..shape.cells()).map(place).collect())
            })
            .collect();
        for id in ids.iter().take(1 + MAX_POINTS / shape.cells().max(1) / weeks) {
            let Some(number) = self.number(id)? else { continue };
            let mut columns: BTreeMap<usize, Vec<f64>> = BTreeMap::new();
            for (grid, places) in &weeks_of_cells {
                let buckets = read(self.from, number, *grid).map_err(describe(self.path))?;
                for (at, place) in places.iter().enumerate() {
                    let bucket = place.and_then(|place| buckets.get(place).copied().flatten());
                    columns.entry(at).or_default().extend(bucket.map(|b| b.sum / b.seconds));
                }
            }
            columns.values_mut().for_each(|values| values.sort_by(f64::total_cmp));
            let of = |part: fn(&[f64]) -> Option<f64>| {
                (0..shape.cells()).map(|at| columns.get(&at).and_then(|values| part(values))).collect()
            };
            band.series.push(BandPoints {
                id: id.clone(),
                low: of(|values| values.first().copied()),
                mid: of(|values| values.get(values.len() / 2).copied()),
                high: of(|values| values.last().copied()),
            });
        }
        Ok(band)
    }
}
