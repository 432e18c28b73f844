//! Series: the points of an interval, their storage, and their queries.

use super::connection::describe;
use super::renamed;
use super::watched::{self, Watched};
use crate::tiers::{Cell, SERIES, Tier};
use crate::{Steps, StoreError, TimeRange};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use rusqlite::{Connection, OptionalExtension, Transaction, params};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;
use weir_api::basis::Basis;
use weir_api::web::{Band, BandPoints, Points, PointsOfOthers, SeriesData, SeriesInfo, Weight};
use weir_api::{
    Answer, AnswerLabel, Counter, Family, Figure, FigureValue, Reading, SeriesName, Shown, Snapshot, Table,
    counters,
};
use weir_output::Worms;

const SECOND: f64 = 1e9;
/// Maximum number of points of all series in an answer.
const MAX_POINTS: usize = 2_000_000;
/// Maximum number of parts of a time range.
const MAX_PARTS: u64 = 100_000;
/// Maximum offset of a zone's clock changes.
const CLOCKS: u64 = 2 * 3_600_000_000_000;
const WEEK: u64 = 7 * 24 * 3_600_000_000_000;

/// A value of an interval.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// The series.
    pub id: String,
    /// Unit of the values.
    pub unit: String,
    /// Meaning of the values.
    pub help: String,
    /// The value.
    pub value: Amount,
}

/// The value of a series in an interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Amount {
    /// A sum, shown as a rate per second. In silence it is zero.
    Sum(f64),
    /// A value that is not a sum, such as a mean. In silence it does not exist.
    Gauge(f64),
}

impl Point {
    /// The value as the series shows it; `seconds` is the watched time of the interval.
    pub fn shown(&self, seconds: f64) -> f64 {
        match self.value {
            Amount::Sum(sum) if seconds > 0.0 => sum / seconds,
            Amount::Sum(_) => 0.0,
            Amount::Gauge(value) => value,
        }
    }
}

/// Whether a series consists of gauges.
fn is_gauge(id: &str) -> bool {
    ["distinct/", "scans/", "mean/", "value/", "worms/"].iter().any(|prefix| id.starts_with(prefix))
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

/// The points of an interval: counters, and the figures of readings. Hosts that may be worms are not among them: they are counted of
/// whole intervals only.
pub fn points(snapshot: &Snapshot) -> Vec<Point> {
    let mut points = Vec::new();
    each(snapshot, None, |name, value| {
        points.extend(value.map(|value| {
            let Described { id, unit, help } = name.describe();
            Point { id, unit, help, value }
        }));
    });
    points
}

/// The name of a point. Its text is made only for a new [`Layout`].
#[derive(Clone, Copy, Debug)]
enum Name<'s> {
    Counter(&'static Counter),
    Figure { of: &'static SeriesName, answer: &'s Answer, label: &'s str, statistic: &'static str },
}

/// The text of a name.
#[derive(Debug)]
struct Described {
    /// Identifier of the series.
    id: String,
    unit: String,
    help: String,
}

impl Name<'_> {
    fn describe(self) -> Described {
        match self {
            Name::Counter(counter) => Described {
                id: counter_id(counter.name),
                unit: rate_unit(counter.unit).0.to_owned(),
                help: counter.help.trim().to_owned(),
            },
            Name::Figure { of, answer, label, statistic } => {
                let label = &[label, statistic].concat();
                let AnswerLabel { subscription, chart, .. } = &*answer.label;
                let chart = chart.as_deref().unwrap_or("counts");
                let names = [("{chart}", chart), ("{subscription}", subscription), ("{label}", label)];
                let escaped = names.map(|(place, name)| (place, part(name)));
                Described {
                    id: filled(of.id, &escaped.each_ref().map(|(place, name)| (*place, name.as_str()))),
                    unit: filled(of.unit, &names),
                    help: filled(of.help, &names),
                }
            }
        }
    }
}

/// A template with its names. A name can contain the word for another.
fn filled(template: &str, names: &[(&str, &str)]) -> String {
    let first = names.iter().filter_map(|(word, name)| Some((template.find(word)?, word, name))).min();
    match first {
        Some((at, word, name)) => {
            let (before, after) = template.split_at(at);
            let rest = filled(after.get(word.len()..).unwrap_or_default(), names);
            [before, name, &rest].concat()
        }
        None => template.to_owned(),
    }
}

/// Hosts that may be worms in a list of SYNs. What they are depends on settings, which a reading does not have.
static WORMS: SeriesName = SeriesName {
    id: "worms/{subscription}/{label}",
    unit: "hosts",
    help: "Hosts of {subscription} that may be worms, in an interval: {label}",
    scale: 1.0,
};

/// The table of a list of SYNs.
fn list_of_syns(reading: &Reading) -> Option<&Table> {
    match reading {
        Reading::Table(table) if matches!(table.schema.shown, Shown::Syn(_)) => Some(table),
        _ => None,
    }
}

/// Passes each point of an interval to `show`, with its value if it has one. Intervals with the same [`Layout`] have the
/// same points in the same order. With `worms` there are those of hosts that may be worms.
fn each<'s>(snapshot: &'s Snapshot, worms: Option<&Worms>, mut show: impl FnMut(Name<'s>, Option<Amount>)) {
    for counter in counters() {
        let value = (counter.of)(snapshot) as f64 * rate_unit(counter.unit).1;
        show(Name::Counter(counter), Some(Amount::Sum(value)));
    }
    // An interval does not count flows that began before it: only sums since the beginning do.
    for answer in &snapshot.answers {
        answer.reading.figures(&mut |figure| {
            let Some(of) = &figure.family.series else { return };
            let value = match figure.value {
                FigureValue::Sum(sum) => Some(Amount::Sum(sum as f64 * of.scale)),
                FigureValue::Gauge(value) => value.map(|value| Amount::Gauge(value * of.scale)),
                FigureValue::Histogram(_) => None,
            };
            let Figure { label, statistic, .. } = figure;
            show(Name::Figure { of, answer, label, statistic }, value);
        });
        if let (Some(worms), Some(table)) = (worms, list_of_syns(&answer.reading)) {
            let count = worms.count(table);
            for (label, hosts) in [("total", count.total), ("us", count.us), ("them", count.them())] {
                let name = Name::Figure { of: &WORMS, answer, label, statistic: "" };
                show(name, Some(Amount::Gauge(hosts as f64)));
            }
        }
    }
}

/// The points of an interval, in order. It changes only with the plan, so that consecutive intervals share their names.
#[derive(Debug, Default)]
pub struct Layout {
    answers: Vec<Answered>,
    names: Vec<Described>,
}

/// The properties of an answer that determine its points.
#[derive(Debug)]
struct Answered {
    subscription: String,
    chart: Option<String>,
    /// Its figures: their families, labels and statistics.
    figures: Vec<(&'static Family, String, &'static str)>,
    /// Whether it is a list of SYNs, which has points of [`WORMS`].
    is_of_syns: bool,
}

impl Answered {
    fn of(answer: &Answer) -> Self {
        let mut figures = Vec::new();
        answer
            .reading
            .figures(&mut |figure| figures.push((figure.family, figure.label.to_owned(), figure.statistic)));
        Self {
            subscription: answer.label.subscription.clone(),
            chart: answer.label.chart.clone(),
            figures,
            is_of_syns: list_of_syns(&answer.reading).is_some(),
        }
    }

    fn is_of(&self, answer: &Answer) -> bool {
        let (mut known, mut is_same) = (self.figures.iter(), true);
        answer.reading.figures(&mut |figure| {
            is_same &= known.next().is_some_and(|(family, label, statistic)| {
                std::ptr::eq(*family, figure.family)
                    && label == figure.label
                    && *statistic == figure.statistic
            });
        });
        is_same
            && known.next().is_none()
            && self.is_of_syns == list_of_syns(&answer.reading).is_some()
            && self.subscription == answer.label.subscription
            && self.chart == answer.label.chart
    }
}

impl Layout {
    /// The layout of an interval.
    pub fn of(snapshot: &Snapshot) -> Self {
        let mut names = Vec::new();
        each(snapshot, Some(&Worms::default()), |name, _| names.push(name.describe()));
        Self { answers: snapshot.answers.iter().map(Answered::of).collect(), names }
    }

    /// Whether an interval has this layout.
    pub fn is_of(&self, snapshot: &Snapshot) -> bool {
        self.answers.len() == snapshot.answers.len()
            && !self.names.is_empty()
            && self.answers.iter().zip(&snapshot.answers).all(|(known, answer)| known.is_of(answer))
    }

    /// The values of an interval, by position in the layout, without sums of zero. `worms` says which hosts may be worms. Gauges are left out without packets.
    pub fn values(&self, snapshot: &Snapshot, worms: &Worms, has_packets: bool) -> Vec<(u32, Amount)> {
        let mut values = Vec::new();
        let mut at = 0;
        each(snapshot, Some(worms), |_, value| {
            let is_kept = |value: &Amount| match value {
                Amount::Sum(sum) => *sum != 0.0,
                Amount::Gauge(_) => has_packets,
            };
            values.extend(value.filter(is_kept).map(|value| (at, value)));
            at += 1;
        });
        values
    }

    /// The numbers of the series in the database. Series without values are inserted too, so that queries know them.
    fn numbers(&self, to: &Transaction<'_>, known: &mut Known) -> rusqlite::Result<Vec<i64>> {
        let mut add = to.prepare_cached(
            "INSERT INTO series (name, unit, help) VALUES (?1, ?2, ?3)
             ON CONFLICT (name) DO UPDATE SET unit = ?2, help = ?3 RETURNING id",
        )?;
        let mut numbers = Vec::with_capacity(self.names.len());
        for Described { id: name, unit, help } in &self.names {
            let id = match known.get(name) {
                Some(id) => *id,
                None => {
                    let id = add.query_row(params![name, unit, help], |row| row.get(0))?;
                    known.insert(name.clone(), id);
                    id
                }
            };
            numbers.push(id);
        }
        Ok(numbers)
    }
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

/// Numbers of series by name.
pub type Known = HashMap<String, i64>;

/// An interval to be written.
pub struct Written<'p> {
    /// Start in nanoseconds since the epoch.
    pub start: u64,
    /// Watched seconds.
    pub seconds: f64,
    /// Names and order of the points.
    pub layout: &'p Arc<Layout>,
    /// Values by position in the layout.
    pub values: &'p [(u32, Amount)],
}

/// Adds the points of intervals to cells of each tier: a cell is written once for all of them.
pub fn write<'p>(
    to: &Transaction<'_>,
    known: &mut Known,
    intervals: impl Iterator<Item = Written<'p>>,
) -> rusqlite::Result<()> {
    // In the order of the cells in the table.
    let mut finest: BTreeMap<(i64, u64), (Amount, f64)> = BTreeMap::new();
    let mut numbered: Option<(&Arc<Layout>, Vec<i64>)> = None;
    for Written { start, seconds, layout, values } in intervals {
        let ids = match &mut numbered {
            Some((before, ids)) if Arc::ptr_eq(before, layout) => ids,
            other => &mut other.insert((layout, layout.numbers(to, known)?)).1,
        };
        for (at, value) in values {
            let Some(id) = ids.get(*at as usize) else { continue };
            match finest.entry((*id, start)) {
                Entry::Vacant(place) => {
                    place.insert((*value, seconds));
                }
                Entry::Occupied(mut place) => {
                    let (amount, long) = place.get_mut();
                    amount.add(*value);
                    *long = seconds.max(*long);
                }
            }
        }
    }
    write_cells(to, finest)
}

impl Amount {
    /// Adds the value of a later part of the interval. Gauges are not additive: the larger one is kept.
    fn add(&mut self, other: Amount) {
        match (self, other) {
            (Amount::Sum(sum), Amount::Sum(more)) => *sum += more,
            (Amount::Gauge(value), Amount::Gauge(other)) => *value = value.max(other),
            _ => {}
        }
    }
}

/// Writes the cells of intervals, and adds them to coarser cells. A later part of a stored interval adds to its sum, and
/// not to the seconds of the coarser cells.
fn write_cells(to: &Transaction<'_>, finest: BTreeMap<(i64, u64), (Amount, f64)>) -> rusqlite::Result<()> {
    let mut coarser: BTreeMap<(usize, i64, i64), Bucket> = BTreeMap::new();
    let mut sums = to.prepare_cached(
        "INSERT INTO points VALUES (0, ?1, ?2, ?3, ?4, NULL, NULL)
         ON CONFLICT DO UPDATE SET sum = sum + excluded.sum, seconds = max(seconds, excluded.seconds)
         RETURNING sum, seconds",
    )?;
    let mut gauges = to.prepare_cached(
        "INSERT INTO points VALUES (0, ?1, ?2, ?3, ?4, NULL, NULL)
         ON CONFLICT DO UPDATE SET sum = max(sum, excluded.sum) RETURNING sum, seconds",
    )?;
    for ((id, start), (amount, seconds)) in finest {
        let (sum, all, long): (f64, f64, f64) = match amount {
            Amount::Sum(sum) => {
                let row = params![id, start as i64, seconds, sum];
                sums.query_row(row, |row| Ok((sum, row.get(0)?, row.get(1)?)))?
            }
            Amount::Gauge(value) => {
                let sum = value * seconds;
                let row = params![id, start as i64, seconds, sum];
                gauges.query_row(row, |row| Ok((sum, row.get(0)?, row.get(1)?)))?
            }
        };
        let was_there = all != sum;
        let value = if long > 0.0 { all / long } else { 0.0 };
        let one = match (amount, was_there) {
            (_, false) => Bucket { seconds, sum, min: value, max: value },
            (Amount::Sum(_), true) => Bucket { seconds: 0.0, sum, min: f64::MAX, max: value },
            (Amount::Gauge(_), true) => continue,
        };
        for (at, tier) in SERIES.iter().enumerate().skip(1) {
            let time = tier.cell.of(start, start).0 as i64;
            coarser.entry((at, id, time)).and_modify(|cell| cell.add(&one)).or_insert(one);
        }
    }
    let mut add = to.prepare_cached(
        "INSERT INTO points VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT DO UPDATE SET
         least = min(ifnull(least, sum / seconds), excluded.least), most = max(ifnull(most, sum / seconds), excluded.most),
         seconds = seconds + excluded.seconds, sum = sum + excluded.sum",
    )?;
    for ((tier, id, time), Bucket { seconds, sum, min, max }) in coarser {
        add.execute(params![tier as i64, id, time, seconds, sum, min.min(max), max])?;
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

/// A time range in parts of equal length. They begin at multiples of their length, so that the parts of a moving range stay; the
/// first and the last one are cut at the ends of the range.
#[derive(Clone, Copy, Debug)]
pub struct CellGrid {
    /// The tier.
    pub tier: usize,
    /// Its beginning, in nanoseconds since the epoch.
    pub from: u64,
    /// Its end, excluded.
    pub to: u64,
    /// The beginning of the first part, if it were not cut.
    pub base: u64,
    /// The length of a part in nanoseconds: a multiple of the length of the tier's cells.
    pub step: u64,
    /// Length of the most recent intervals in nanoseconds.
    pub interval: u64,
    /// Whether finer cells of the range are no longer stored, so that it was moved outwards.
    pub is_rounded: bool,
}

/// The length of a tier's cells in nanoseconds.
fn length(tier: usize, interval: u64) -> u64 {
    match SERIES.get(tier) {
        None | Some(Tier { cell: Cell::Interval, .. }) => interval.max(1),
        Some(tier) => tier.cell.length(),
    }
}

/// A time range, with its ends moved outwards to those of the finest cells that are stored there.
struct Stored {
    from: u64,
    to: u64,
    /// The finest tier that is complete from the start of the range.
    finest: usize,
    /// Whether the ends were moved.
    is_rounded: bool,
}

impl Stored {
    fn of((from, to): (u64, u64), first: impl Fn(usize) -> u64, interval: u64) -> Self {
        let length = |tier: usize| length(tier, interval);
        let finest = |time: u64| (0..SERIES.len() - 1).find(|tier| first(*tier) <= time);
        let finest = |time: u64| finest(time).unwrap_or(SERIES.len() - 1);
        let (at_from, at_to) = (finest(from), finest(to.saturating_sub(1)));
        let begin = if at_from == 0 { from } else { from - from % length(at_from) };
        let end = if at_to == 0 { to } else { to.div_ceil(length(at_to)).saturating_mul(length(at_to)) };
        Self { from: begin, to: end, finest: at_from, is_rounded: (begin, end) != (from, to) }
    }
}

impl CellGrid {
    /// The coarsest tier that is fine enough and has data from the start of the range. `first` is the time from which a tier is
    /// complete.
    fn of(span: (u64, u64), points: usize, first: impl Fn(usize) -> u64, interval: u64) -> Self {
        let length = |tier: usize| length(tier, interval);
        let Stored { from: begin, to: end, finest: at_from, is_rounded } = Stored::of(span, first, interval);
        let wanted = (end - begin).div_ceil(points.max(1) as u64).max(1);
        let fitting = (0..SERIES.len()).rev().find(|at| length(*at) <= wanted).unwrap_or(0);
        let tier = fitting.max(at_from);
        let step = wanted.div_ceil(length(tier)).max(1) * length(tier);
        Self { tier, from: begin, to: end, base: begin - begin % step, step, interval, is_rounded }
    }

    /// Parts of an exact length, from the coarsest tier whose cells add up to them and which is complete from the start of the
    /// range. `first` is the time from which a tier is complete.
    fn exact(
        (from, to): (u64, u64),
        (base, step): (u64, u64),
        first: impl Fn(usize) -> u64,
        interval: u64,
    ) -> Result<Self, StoreError> {
        let step = step.max(1);
        let since = (i128::from(from) - i128::from(base)).rem_euclid(i128::from(step)) as u64;
        let base = from.saturating_sub(since);
        let is_whole = |tier: usize| {
            let cell = length(tier, interval);
            step.is_multiple_of(cell) && base.is_multiple_of(cell)
        };
        let stored = Stored::of((from, to), first, interval);
        let Some(tier) = (stored.finest..SERIES.len()).rev().find(|tier| is_whole(*tier)) else {
            let cell = length(stored.finest, interval) / 1_000_000_000;
            return Err(StoreError::Unknown(format!(
                "series of this time are stored in cells of {cell} s, counted from midnight in UTC: `every` takes a multiple of them"
            )));
        };
        let cells = to.saturating_sub(base).div_ceil(step);
        if cells > MAX_PARTS {
            return Err(StoreError::Unknown(format!(
                "{cells} parts of the time: at most {MAX_PARTS} are read; choose a longer `every`"
            )));
        }
        let Stored { from, to, is_rounded, .. } = stored;
        Ok(Self { tier, from, to, base, step, interval, is_rounded })
    }

    /// An answer without series.
    fn empty(self) -> SeriesData {
        let range = [self.from as f64 / SECOND, self.to as f64 / SECOND];
        SeriesData {
            step: self.step as f64 / SECOND,
            tier: SERIES.get(self.tier).map_or("", |tier| tier.name).to_owned(),
            times: self.starts().map(|start| start as f64 / SECOND).collect(),
            basis: Basis { range, bound: Some(0), ..Basis::default() },
            is_rounded: self.is_rounded,
            partial: self.is_rounded.then(|| {
                let tier = SERIES.get(self.tier).map_or("", |tier| tier.name);
                format!("the time range is rounded to {tier}: finer data is no longer stored")
            }),
            ..SeriesData::default()
        }
    }

    /// Start of each part, as if the first one were not cut: parts have equal distances.
    fn starts(&self) -> impl Iterator<Item = u64> + use<> {
        let Self { base, step, .. } = *self;
        (0..self.cells() as u64).map(move |at| base.saturating_add(at.saturating_mul(step)))
    }

    /// Start and end of each part.
    fn parts(&self) -> impl Iterator<Item = (u64, u64)> + use<> {
        let Self { base, step, from, to, .. } = *self;
        (0..self.cells() as u64).map(move |at| {
            let start = base.saturating_add(at.saturating_mul(step));
            (start.max(from), start.saturating_add(step).min(to))
        })
    }

    fn cells(&self) -> usize {
        (self.to.saturating_sub(self.base).div_ceil(self.step)).max(1) as usize
    }

    /// The cells that make up the range: tier, begin and end of each run of cells. What is no whole cell of a tier is read from
    /// cells of finer tiers.
    fn runs(&self) -> Vec<(usize, u64, u64)> {
        let mut runs = Vec::new();
        let mut rest = vec![(self.from, self.to)];
        for tier in (0..=self.tier).rev() {
            let cell = length(tier, self.interval);
            let mut finer = Vec::new();
            for (from, to) in rest {
                if tier == 0 {
                    runs.push((tier, from, to));
                    continue;
                }
                let (begin, end) = (from.div_ceil(cell).saturating_mul(cell), to - to % cell);
                if begin < end {
                    runs.push((tier, begin, end));
                    finer.extend([(from, begin), (end, to)].into_iter().filter(|(from, to)| from < to));
                } else {
                    finer.push((from, to));
                }
            }
            rest = finer;
        }
        runs
    }
}

/// Values of a bucket of a grid.
#[derive(Clone, Copy, Debug, Default)]
struct Bucket {
    /// Stored: watched seconds of intervals with data. Read by [`SeriesReader::read`]: all watched seconds.
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

    /// Restricts an interval that begins at `time` to the part that a capture covers.
    fn cut(&mut self, time: u64, (first, last): (u64, u64)) {
        let end = time.saturating_add((self.seconds * SECOND).round() as u64);
        let part = end.min(last).saturating_sub(time.max(first)) as f64 / SECOND;
        if part > 0.0 && part < self.seconds {
            let rate = self.seconds / part;
            (self.seconds, self.min, self.max) = (part, self.min * rate, self.max * rate);
        }
    }

    fn mean(&self) -> f64 {
        self.sum / self.seconds
    }
}

/// The rows of a grid's cells.
fn rows(
    from: &Connection,
    id: i64,
    grid: CellGrid,
    capture: Option<(u64, u64)>,
) -> rusqlite::Result<Vec<Option<Bucket>>> {
    let mut buckets: Vec<Option<Bucket>> = vec![None; grid.cells()];
    let mut rows = from.prepare_cached(
        "SELECT time, seconds, sum, ifnull(least, sum / seconds), ifnull(most, sum / seconds) FROM points
         WHERE tier = ?1 AND series = ?2 AND time >= ?3 AND time < ?4 ORDER BY time",
    )?;
    for (tier, from, to) in grid.runs() {
        let capture = capture.filter(|_| tier == 0);
        let mut rows = rows.query(params![tier as i64, id, from as i64, to.min(i64::MAX as u64) as i64])?;
        while let Some(row) = rows.next()? {
            let time: i64 = row.get(0)?;
            let at = (time as u64).saturating_sub(grid.base) / grid.step;
            let mut one =
                Bucket { seconds: row.get(1)?, sum: row.get(2)?, min: row.get(3)?, max: row.get(4)? };
            if let Some(capture) = capture {
                one.cut(time as u64, capture);
            }
            if let Some(bucket) = buckets.get_mut(at as usize) {
                match bucket {
                    Some(bucket) => bucket.add(&one),
                    None => *bucket = Some(one),
                }
            }
        }
    }
    Ok(buckets)
}

fn points_of(id: &str, buckets: &[Option<Bucket>]) -> Points {
    let of = |part: fn(Bucket) -> f64| buckets.iter().map(|bucket| bucket.map(part)).collect();
    Points { id: id.to_owned(), avg: of(|b| b.mean()), min: of(|b| b.min), max: of(|b| b.max) }
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
    /// Watched time; `None` in a store of an earlier version.
    pub watched: Option<Watched>,
    /// The times of the first and the last packet of captures: their first and their last interval were watched in part.
    pub capture: Option<(u64, u64)>,
    /// Time at which the query stops.
    pub until: Instant,
}

impl SeriesReader<'_> {
    fn grid(&self, span: TimeRange, steps: Steps) -> Result<CellGrid, StoreError> {
        let (first, last) = self.extent;
        // Before the first stored data there is nothing to draw.
        let (from, to) = (span.from.unwrap_or(first).max(first), span.to.unwrap_or(last));
        let range = (from, to.max(from.saturating_add(1)));
        let firsts = self.firsts()?;
        let first = |tier: usize| firsts.get(tier).copied().unwrap_or(0);
        match steps {
            Steps::About(points) => {
                let points = points.clamp(1, MAX_PARTS as usize);
                Ok(CellGrid::of(range, points, first, self.interval.max(1)))
            }
            Steps::Exact { base, step } => CellGrid::exact(range, (base, step), first, self.interval.max(1)),
        }
    }

    /// Reads the buckets of a series. Sums are zero in watched silence and absent elsewhere.
    fn read(&self, id: &str, number: i64, grid: CellGrid) -> Result<Vec<Option<Bucket>>, StoreError> {
        let capture = self.capture.filter(|_| !is_gauge(id));
        let mut buckets = rows(self.from, number, grid, capture).map_err(describe(self.path))?;
        let Some(watched) = self.watched.as_ref().filter(|_| !is_gauge(id)) else { return Ok(buckets) };
        for ((from, to), bucket) in grid.parts().zip(&mut buckets) {
            let seconds = watched.within(from, to) as f64 / SECOND;
            match bucket {
                // A part of the bucket was silent.
                Some(bucket) if seconds > bucket.seconds + 1e-6 => {
                    bucket.min = bucket.min.min(0.0);
                    bucket.seconds = seconds;
                }
                Some(bucket) if self.capture.is_some() && seconds > 0.0 => bucket.seconds = seconds,
                None if seconds > 0.0 => *bucket = Some(Bucket { seconds, ..Bucket::default() }),
                _ => {}
            }
        }
        Ok(buckets)
    }

    /// Watched seconds of each time range.
    pub fn watched_within(&self, ranges: impl Iterator<Item = (u64, u64)>) -> Vec<f64> {
        let mut known = Watched::default();
        let watched = self.watched.as_ref().unwrap_or_else(|| {
            known.add(self.extent.0, self.extent.1);
            &known
        });
        ranges.map(|(from, to)| watched.within(from, to) as f64 / SECOND).collect()
    }

    /// Average, minimum and maximum of each cell.
    pub fn cells(&self, id: &str, number: i64, grid: CellGrid) -> Result<Vec<Option<[f64; 3]>>, StoreError> {
        let buckets = self.read(id, number, grid)?;
        Ok(buckets.into_iter().map(|bucket| bucket.map(|b| [b.mean(), b.min, b.max])).collect())
    }

    /// The time from which each tier is complete.
    pub fn firsts(&self) -> Result<[u64; SERIES.len()], StoreError> {
        let mut firsts = [0; SERIES.len()];
        for (tier, first) in firsts.iter_mut().enumerate() {
            *first = self.first_of(tier)?;
        }
        Ok(firsts)
    }

    /// The time from which a tier is complete.
    fn first_of(&self, tier: usize) -> Result<u64, StoreError> {
        if self.watched.is_some() {
            return watched::since(self.from, self.path, "points", tier);
        }
        // A store of an earlier version has the counters of each interval.
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
        Ok(first.map_or(u64::MAX, |first| first as u64))
    }

    /// The stored interval that contains a time: its begin and its end. `None` if nothing of the interval was counted.
    pub fn interval_of(&self, time: u64) -> Result<Option<(u64, u64)>, StoreError> {
        let describe = describe(self.path);
        let mut query = self
            .from
            .prepare_cached(
                "SELECT time, seconds FROM points WHERE tier = 0 AND time <= ?1
                 AND series = (SELECT id FROM series WHERE name = ?2) ORDER BY time DESC LIMIT 1",
            )
            .map_err(describe)?;
        let time = time.min(i64::MAX as u64);
        let found: Option<(i64, f64)> = query
            .query_row(params![time as i64, counter_id("caught")], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()
            .map_err(describe)?;
        let cell = found.map(|(begin, seconds)| {
            (begin as u64, (begin as u64).saturating_add((seconds * SECOND).round() as u64))
        });
        Ok(cell.filter(|(_, end)| *end > time))
    }

    /// The number of a series, by its present or its earlier name.
    pub fn number(&self, id: &str) -> Result<Option<i64>, StoreError> {
        let describe = describe(self.path);
        let text = "SELECT id FROM series WHERE name IN (?1, ?2) ORDER BY name != ?1 LIMIT 1";
        let mut query = self.from.prepare_cached(text).map_err(describe)?;
        query.query_row([id, &renamed::other(id)], |row| row.get(0)).optional().map_err(describe)
    }

    /// See [`crate::Store::points`].
    pub fn points(&self, ids: &[String], span: TimeRange, steps: Steps) -> Result<SeriesData, StoreError> {
        let grid = self.grid(span, steps)?;
        let mut data = SeriesData { widths: self.watched_within(grid.parts()), ..grid.empty() };
        for id in ids {
            if (data.series.len() + 1) * grid.cells() > MAX_POINTS {
                let (shown, all) = (data.series.len(), ids.len());
                data.partial =
                    Some(format!("{shown} of {all} series: an answer is limited to {MAX_POINTS} points"));
                break;
            }
            let Some(number) = self.number(id)? else { continue };
            let buckets = self.read(id, number, grid)?;
            data.series.push(points_of(id, &buckets));
        }
        Ok(data)
    }

    /// See [`crate::Store::heaviest`].
    pub fn heaviest(
        &self,
        ids: &[String],
        span: TimeRange,
        points: usize,
        top: usize,
    ) -> Result<SeriesData, StoreError> {
        let room = MAX_POINTS / ids.len().max(1);
        let grid = self.grid(span, Steps::About(points.min(room)))?;
        let mut data = SeriesData { widths: self.watched_within(grid.parts()), ..grid.empty() };
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
            let buckets = self.read(id, number, grid)?;
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

    /// See [`crate::Store::band`].
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
            Steps::About(points.min(10_000)),
        )?;
        let base = from - from % shape.step;
        let shape = CellGrid { base, from: base, to, ..shape };
        band.times = shape.starts().map(|start| start as f64 / SECOND).collect();
        // Each week's cells, and for each cell of the range the cell to compare with; these are equal for all series.
        let weeks_of_cells: Vec<(CellGrid, Vec<Option<usize>>)> = past
            .iter()
            .map(|week| {
                // After a clock change, the same local hour is at most two hours earlier or later.
                let room = CLOCKS.next_multiple_of(shape.step);
                let from = back(shape.base, *week).saturating_sub(room);
                let place = |(time, _): (u64, u64)| {
                    let then = same_hour(time, *week as u64 * WEEK, shape.step, zone);
                    then.checked_sub(from).map(|since| (since / shape.step) as usize)
                };
                let to = back(shape.to, *week).saturating_add(room);
                let grid = CellGrid { base: from, from, to, ..shape };
                (grid, shape.parts().map(place).collect())
            })
            .collect();
        for id in ids.iter().take(1 + MAX_POINTS / shape.cells().max(1) / weeks) {
            let Some(number) = self.number(id)? else { continue };
            let mut columns: BTreeMap<usize, Vec<f64>> = BTreeMap::new();
            for (grid, places) in &weeks_of_cells {
                let buckets = self.read(id, number, *grid)?;
                for (at, place) in places.iter().enumerate() {
                    let bucket = place.and_then(|place| buckets.get(place).copied().flatten());
                    columns.entry(at).or_default().extend(bucket.map(|b| b.mean()));
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
