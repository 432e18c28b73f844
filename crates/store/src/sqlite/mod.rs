//! A store in SQLite databases, in one folder.

mod archive;
mod beside;
mod condition;
mod connection;
#[cfg(test)]
mod count_tests;
mod courses;
mod curves;
mod earlier_lists;
mod events;
#[cfg(test)]
mod field_tests;
mod find;
mod groups;
mod keep;
mod late;
mod marks;
mod names;
mod open_flows;
#[cfg(test)]
mod open_tests;
#[cfg(test)]
mod own_tests;
mod partition;
mod readings;
mod renamed;
mod reported;
mod rows;
mod schema;
mod series;
mod services;
mod signatures;
mod stream;
mod tally;
mod thin;
mod watched;
mod writer;

pub use marks::SqliteMarks;
pub use reported::SqliteReported;
pub use series::{Point, class_id, counter_id, line_id, points};
pub use signatures::SqliteSignatures;
pub use writer::{STORE, Writer, cached};

use super::basis::{Kept, Moved};
use super::label::{detail_rows, list_row, text_row, title};
use super::loan::{Lender, Loan};
use super::query::lists_kept;
use super::share::crossing_bound;
use super::tally::{Cell, Dimension, GroupBy, Measure, Subject, Tally, TallyWanted};
use super::{
    Archive, FlowsWanted, Health, Keep, KeptList, KeptReading, KeptTable, LISTS, RankBy, RecordsWanted,
    SERIES, Steps, Store, StoreError, StoredFlow, StoredRecord, TimeRange, tiers,
};
use condition::Condition;
use connection::describe;
use find::Bins;
use partition::{Part, Progress};
use rusqlite::Connection;
use schema::{Kind, MAIN};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use watched::Watched;
use weir_api::basis::{Basis, Source};
use weir_api::web::{
    Amount, Band, DistinctInfo, DistinctRow, Distincts, Events, FilterOf, FilterTry, Flow, FlowDetail, Flows,
    KeptTableInfo, ListInfo, ListRow, Lists, RecordRow, Records, SeriesData, SeriesInfo, StoreState,
    TierState, TopList, TryHistogram,
};
use weir_api::{Cells, Key, Reading, TopRow, Unit};
use weir_filter::{FLOW, FlowTest};
use weir_output::summary::Naming;
use weir_output::zone::Zone;

/// A capture counts as at least this long in nanoseconds: a rate over no time has no value.
const SHORTEST: u64 = 1_000_000;
/// Time limit of an answer; it holds the results up to then.
const PATIENCE: Duration = Duration::from_secs(5);
/// Maximum number of idle connections for reuse.
const SPARE: usize = 8;
/// Maximum number of records of a flow in an answer.
const MAX_RECORDS: usize = 1000;
const SECOND: f64 = 1e9;

/// Answers from the databases of a folder, which another process may be writing.
pub struct SqliteStore {
    folder: PathBuf,
    /// Connections to the database of series, and the identity of its file.
    spare: Mutex<(u64, Vec<Connection>)>,
    health: Option<Arc<Health>>,
    /// Time limit of an answer.
    patience: Duration,
    /// The memory of queries; without one there is no limit.
    lender: Option<Arc<dyn Lender>>,
}

impl SqliteStore {
    /// The store of a folder; `health` is the state of the writer, if it is in this process.
    ///
    /// # Errors
    ///
    /// There is no store, or it has a newer version.
    pub fn open(folder: &Path, health: Option<Arc<Health>>) -> Result<Self, StoreError> {
        let store = Self {
            folder: folder.to_owned(),
            spare: Mutex::default(),
            health,
            patience: PATIENCE,
            lender: None,
        };
        store.main(|_, _| Ok(()))?;
        Ok(store)
    }

    /// A store whose queries together take the memory of a lender.
    #[must_use]
    pub fn within(self, lender: Arc<dyn Lender>) -> Self {
        Self { lender: Some(lender), ..self }
    }

    fn path(&self) -> PathBuf {
        self.folder.join(MAIN)
    }

    fn events_that_are(
        &self,
        which: events::Which,
        span: TimeRange,
        limit: usize,
    ) -> Result<Events, StoreError> {
        self.main(|from, path| {
            let describe = describe(path);
            let version = connection::version(from, path)?;
            let mut events = events::read(from, span, limit + 1, which, version).map_err(describe)?;
            let partial = (events.len() > limit).then(|| format!("only the latest {limit} events are shown"));
            events.truncate(limit);
            let muted = match version >= events::MUTED_SINCE {
                true => events::count_muted(from, span).map_err(describe)?,
                false => 0,
            };
            Ok(Events { events, muted, partial })
        })
    }

    /// Queries the database of series. If it was replaced because it was corrupt, the new file is queried.
    fn main<T>(
        &self,
        ask: impl FnOnce(&Connection, &Path) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let path = self.path();
        let file = std::fs::metadata(&path).map_or(0, |data| data.ino());
        let lock = || self.spare.lock().unwrap_or_else(PoisonError::into_inner);
        let known = {
            let mut spare = lock();
            if spare.0 != file {
                *spare = (file, Vec::new());
            }
            spare.1.pop()
        };
        let connection = match known {
            Some(connection) => connection,
            None => schema::open_to_read(&path, Kind::Main)?,
        };
        let answer = ask(&connection, &path);
        let mut spare = lock();
        if spare.0 == file && spare.1.len() < SPARE && answer.is_ok() {
            spare.1.push(connection);
        }
        answer
    }

    /// The partitions that overlap a time range, the latest first.
    fn parts(&self, span: TimeRange) -> Result<Vec<Part>, StoreError> {
        let until = Instant::now() + self.patience;
        let mut parts = Vec::new();
        for (_, path) in schema::partitions(&self.folder).into_iter().rev() {
            let mut connection = match schema::open_to_read(&path, Kind::Rows) {
                Ok(connection) => connection,
                // The partition was dropped meanwhile, or is being created.
                Err(StoreError::NotThere(_)) => continue,
                Err(StoreError::Database { .. }) if schema::size(&path) == 0 => continue,
                Err(error) => return Err(error),
            };
            // All that a query reads of a partition is of one time: what it has found is still there when it is read,
            // although open flows are written again in each interval.
            connection.execute_batch("BEGIN").map_err(describe(&path))?;
            let extent = (
                connection::number(&connection, &path, "first")?,
                connection::number(&connection, &path, "last")?,
            );
            let is_asked = extent.1 >= span.from.unwrap_or(0) && extent.0 < span.to.unwrap_or(u64::MAX);
            if is_asked && extent != (0, 0) {
                let is_hurried = Arc::new(AtomicBool::new(true));
                let limited = Arc::clone(&is_hurried);
                connection
                    .progress_handler(
                        10_000,
                        Some(move || limited.load(Ordering::Relaxed) && Instant::now() >= until),
                    )
                    .map_err(describe(&path))?;
                let has_parts = connection::has(&connection, &path, schema::PARTS_SINCE)?;
                parts.push(Part { path, connection, extent, has_parts, until, is_hurried });
            }
        }
        Ok(parts)
    }

    /// The note about open flows that have no row, where the time reaches the present.
    fn open_left_out(parts: &[Part]) -> Result<Option<String>, StoreError> {
        let Some(latest) = parts.first() else { return Ok(None) };
        let flows = connection::number(&latest.connection, &latest.path, rows::LEFT_OUT)?;
        Ok((flows > 0).then(|| {
            format!(
                "{flows} open flows of few bytes are missing until they end: more --memory keeps them, too"
            )
        }))
    }

    fn rows_extent(parts: &[Part]) -> (u64, u64) {
        let first = parts.iter().map(|part| part.extent.0).min().unwrap_or(0);
        (first, parts.iter().map(|part| part.extent.1).max().unwrap_or(0))
    }

    /// The condition of a test over the rows of a table in a time.
    fn condition(
        &self,
        test: &FlowTest,
        table: &str,
        span: TimeRange,
        parts: &[Part],
    ) -> Result<Condition, StoreError> {
        // Other rows of a flow are found wherever they are: within the time of the flows of this time.
        let find = |of: &str, test: &FlowTest| {
            let whole = tally::flows_extent(parts, span)?;
            // The records of flows that have not ended are in this time.
            let least = |a: Option<u64>, b: Option<u64>| a.zip(b).map(|(a, b)| a.min(b));
            let most = |a: Option<u64>, b: Option<u64>| a.zip(b).map(|(a, b)| a.max(b));
            let whole = TimeRange { from: least(whole.from, span.from), to: most(whole.to, span.to) };
            let parts = self.parts(whole)?;
            let none = |_: &str, _: &FlowTest| Ok(Default::default());
            let condition = Condition::of(test, of, &none)?;
            let (mut flows, mut progress, mut is_whole) = (HashSet::new(), Progress::default(), true);
            for part in &parts {
                let go_on = progress.ask(part, |_| {
                    is_whole &= condition::flows_with(part, of, &condition, whole, &mut flows)?;
                    Ok(())
                })?;
                if !go_on || !is_whole {
                    break;
                }
            }
            let few = (!is_whole).then(|| "too many flows match: choose a shorter time".to_owned());
            Ok((flows, progress.partial(parts.len()).or(few)))
        };
        Condition::of(test, table, &find)
    }

    fn reader<T>(
        &self,
        ask: impl FnOnce(&series::SeriesReader<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.main(|from, path| ask(&self.reader_of(from, path)?))
    }

    fn reader_of<'c>(
        &self,
        from: &'c Connection,
        path: &'c Path,
    ) -> Result<series::SeriesReader<'c>, StoreError> {
        let number = |name| connection::number(from, path, name);
        let mut watched = match watched::are_there(from, path)? {
            true => Some(Watched::read(from, path, 0, u64::MAX)?),
            false => None,
        };
        let (begin, end) = (number(writer::FIRST_PACKET)?, number(writer::LAST_PACKET)?);
        // A capture was watched from its first packet to its last; its intervals stick out of that.
        let capture = (end > 0 && writer::is_of_files(from, path)?)
            .then(|| (begin, end.max(begin.saturating_add(SHORTEST))));
        if let (Some(watched), Some((begin, end))) = (&mut watched, capture) {
            watched.cut(begin, end);
        }
        Ok(series::SeriesReader {
            from,
            path,
            extent: (number("first")?, number("last")?),
            interval: number("interval")?,
            watched,
            capture,
            until: Instant::now() + self.patience,
        })
    }

    /// The note of an answer whose range begins before the first flow that is stored.
    fn flows_are_gone(&self, span: TimeRange) -> Result<Option<String>, StoreError> {
        let since = self.main(|from, path| watched::since(from, path, "rows", 0))?;
        let is_gone = since > 0 && span.from.is_none_or(|from| from < since);
        Ok(is_gone.then(|| {
            format!("flows and records before {} are no longer stored", Zone::utc().date_time(since))
        }))
    }

    /// Rows for display, with the resolved names of hosts, and the protocols that were identified on services.
    fn named(&self, rows: &[TopRow], span: TimeRange) -> Result<Vec<ListRow>, StoreError> {
        let keys: Vec<Key> = rows.iter().map(|row| row.key).collect();
        let found = services::identified(&self.parts(span)?, span, &keys)?;
        let naming = Naming::by_content(&found);
        self.main(|from, path| {
            let has_names = connection::has(from, path, names::SINCE)?;
            let named = |row: &TopRow| -> Result<ListRow, StoreError> {
                let shown = list_row(row, naming);
                let name = if has_names { names::of_key(from, path, &row.key)? } else { None };
                Ok(ListRow { name: name.or(shown.name), ..shown })
            };
            rows.iter().map(named).collect()
        })
    }

    /// Values of a list's rows in a number of parts of a range, as far as they are stored.
    fn curves(
        &self,
        name: &str,
        span: TimeRange,
        rows: &[TopRow],
        by: RankBy,
        parts: usize,
    ) -> Result<Vec<Vec<u64>>, StoreError> {
        self.main(|from, path| {
            let (first, last) =
                (connection::number(from, path, "first")?, connection::number(from, path, "last")?);
            let (begin, end) = (span.from.unwrap_or(first), span.to.unwrap_or(last));
            let keys: Vec<Key> = rows.iter().map(|row| row.key).collect();
            let since = lists_since(from, path)?;
            let span = (begin, end.max(begin + 1));
            curves::read(from, path, name, span, &keys, (parts, &since), |row| weight(row, by))
        })
    }

    /// The stored sum of a list over a range.
    fn sum(&self, name: &str, span: TimeRange) -> Result<readings::Sum, StoreError> {
        self.main(|from, path| {
            let (first, last) =
                (connection::number(from, path, "first")?, connection::number(from, path, "last")?);
            if span.to.is_some_and(|to| to <= first) || span.from.is_some_and(|from| from >= last) {
                return Ok(readings::Sum::default());
            }
            // All stored data needs no rounding.
            let begin = span.from.filter(|from| *from > first).unwrap_or(0);
            let end = span.to.filter(|to| *to < last).unwrap_or(i64::MAX as u64);
            readings::sum(from, path, name, (begin, end), &lists_since(from, path)?)
        })
    }

    fn kept(&self) -> Result<Vec<(String, Reading)>, StoreError> {
        self.main(readings::names)
    }
}

/// The time from which each tier of lists is complete. Stores of earlier versions do not contain it; there it is the time
/// of the first cell.
fn lists_since(from: &Connection, path: &Path) -> Result<[u64; LISTS.len()], StoreError> {
    if watched::are_there(from, path)? {
        return watched::since_all(from, path, "readings");
    }
    let mut since = [0; LISTS.len()];
    for (tier, since) in since.iter_mut().enumerate() {
        let text = "SELECT ifnull(min(time), 0) FROM readings WHERE tier = ?1";
        let first =
            from.query_row(text, [tier as i64], |row| row.get::<_, i64>(0)).map_err(describe(path))?;
        *since = first as u64;
    }
    Ok(since)
}

fn weight(row: &weir_api::TopRow, by: RankBy) -> u64 {
    match by {
        RankBy::Unit(unit) => row.count.in_unit(unit),
        RankBy::Flows => row.flows,
    }
}

impl Store for SqliteStore {
    fn extent(&self) -> Result<Option<(u64, u64)>, StoreError> {
        let (first, last) = self.reader(|reader| Ok(reader.extent))?;
        Ok((last > 0).then_some((first, last)))
    }

    fn watched_extent(&self) -> Result<Option<(u64, u64)>, StoreError> {
        let watched = self.reader(|reader| {
            let (first, last) = reader.extent;
            let known = reader.watched.as_ref().and_then(Watched::extent);
            Ok(known.map_or((first, last), |(from, to)| (from.max(first), to.min(last))))
        })?;
        Ok((watched.1 > 0).then_some(watched))
    }

    fn moved(&self, span: TimeRange) -> Result<Moved, StoreError> {
        let has_flows = !schema::partitions(&self.folder).is_empty();
        self.reader(|reader| {
            let gone = watched::since(reader.from, reader.path, "rows", 0)?;
            Kept {
                extent: reader.extent,
                interval: reader.interval,
                lists: lists_since(reader.from, reader.path)?,
                series: reader.firsts()?,
                flows: has_flows.then_some(gone),
                interval_of: &|time| reader.interval_of(time),
            }
            .moved(span)
        })
    }

    fn series(&self) -> Result<Vec<SeriesInfo>, StoreError> {
        self.main(series::list)
    }

    fn kept_points(&self, ids: &[String], span: TimeRange, steps: Steps) -> Result<SeriesData, StoreError> {
        self.reader(|reader| reader.points(ids, span, steps))
    }

    fn kept_heaviest(
        &self,
        ids: &[String],
        span: TimeRange,
        points: usize,
        top: usize,
    ) -> Result<SeriesData, StoreError> {
        self.reader(|reader| reader.heaviest(ids, span, points, top))
    }

    fn watched_within(&self, ranges: &[(u64, u64)]) -> Result<Vec<f64>, StoreError> {
        self.reader(|reader| Ok(reader.watched_within(ranges.iter().copied())))
    }

    fn archive(&self, id: &str) -> Result<Archive, StoreError> {
        self.archive_of(id)
    }

    fn band(
        &self,
        ids: &[String],
        span: TimeRange,
        points: usize,
        weeks: usize,
        zone: &Zone,
    ) -> Result<Band, StoreError> {
        self.reader(|reader| reader.band(ids, span, points, weeks, zone.time_zone()))
    }

    fn lists(&self) -> Result<Lists, StoreError> {
        let mut lists = Lists::default();
        for (name, reading) in self.kept()? {
            match reading {
                Reading::Top(top) => lists.lists.push(ListInfo {
                    title: title(&name),
                    name,
                    key: top.key.name().to_owned(),
                    unit: top.unit.name().to_owned(),
                }),
                Reading::Distinct(count) => {
                    lists.distinct.push(DistinctInfo { name, of: count.of.name().to_owned() });
                }
                reading => {
                    let columns = |cells: Cells<'_>| {
                        cells.columns.iter().map(|column| column.name.to_string()).collect()
                    };
                    lists.tables.push(KeptTableInfo { name, columns: columns(reading.cells()) });
                }
            }
        }
        Ok(lists)
    }

    fn reading(&self, name: &str, span: TimeRange) -> Result<KeptReading, StoreError> {
        let readings::Sum { reading, partial, .. } = self.sum(name, span)?;
        Ok(KeptReading { reading, partial })
    }

    fn each_cell(
        &self,
        name: &str,
        (from, to): (u64, u64),
        each: &mut dyn FnMut(u64, u64, Reading),
    ) -> Result<&'static str, StoreError> {
        self.main(|of, path| {
            let since = lists_since(of, path)?;
            let at = since.iter().position(|since| *since <= from).unwrap_or(LISTS.len() - 1);
            readings::pass_cells(of, path, at, name, (from, to), true, each)?;
            Ok(LISTS.get(at).map_or("", |tier| tier.name))
        })
    }

    fn table(&self, name: &str, span: TimeRange) -> Result<Option<KeptTable>, StoreError> {
        let is_table =
            |(known, reading): &(String, Reading)| known == name && matches!(reading, Reading::Table(_));
        let sum = self.sum(name, span)?;
        if !matches!(sum.reading, Some(Reading::Table(_))) && !self.kept()?.iter().any(is_table) {
            return Ok(None);
        }
        let (first, last) = self.extent()?.unwrap_or_default();
        let table = match sum.reading {
            Some(Reading::Table(table)) => Some(table),
            _ => None,
        };
        Ok(Some(KeptTable {
            table,
            span: (sum.span.0.max(first), sum.span.1.min(last)),
            partial: sum.partial,
        }))
    }

    fn top_over_time(
        &self,
        list: &str,
        span: TimeRange,
        by: Option<RankBy>,
        limit: usize,
        parts: usize,
    ) -> Result<TopList, StoreError> {
        let KeptList { top, span: (from, to), partial } = self.kept_list(list, span)?;
        let (first, last) = self.extent()?.unwrap_or_default();
        let (from, to) = (from.max(first) as f64 / SECOND, to.min(last) as f64 / SECOND);
        let Some(top) = top else {
            let lists = self.lists()?.lists;
            // Before the end of the first interval nothing is stored, not even the name.
            if lists.iter().any(|known| known.name == list) || lists_kept().any(|kept| kept == list) {
                return Ok(TopList {
                    list: list.to_owned(),
                    basis: Basis { range: [from, to.max(from)], bound: Some(0), ..Basis::default() },
                    ..TopList::default()
                });
            }
            let names: Vec<String> = lists.into_iter().map(|list| list.name).collect();
            return Err(StoreError::Unknown(format!("no list {list:?}; available: {}", names.join(", "))));
        };
        let by = by.unwrap_or(RankBy::Unit(top.unit));
        let mut total = Amount { packets: top.shed.packets, bytes: top.shed.bytes };
        for row in &top.rows {
            total.packets += row.count.packets;
            total.bytes += row.count.bytes;
        }
        let rows: Vec<TopRow> =
            top.rows.heaviest(limit, |row| weight(row, by)).into_iter().copied().collect();
        let mut named = self.named(&rows, span)?;
        if parts > 0 {
            let curves = self.curves(list, span, &rows, by, parts)?;
            for (row, curve) in named.iter_mut().zip(curves) {
                row.spark = Some(curve);
            }
        }
        Ok(TopList {
            list: list.to_owned(),
            key: top.key.name().to_owned(),
            unit: top.unit.name().to_owned(),
            basis: Basis { range: [from, to], bound: Some(top.bound()), ..Basis::default() },
            rows: named,
            absent: top.absent,
            inserts: top.inserts,
            total,
            crossing: None,
            partial,
        })
    }

    fn group(
        &self,
        by: GroupBy,
        test: &FlowTest,
        span: TimeRange,
        rank: RankBy,
        limit: usize,
        parts: usize,
    ) -> Result<TopList, StoreError> {
        let measure = match rank {
            RankBy::Unit(Unit::Packets) => Measure::Packets,
            RankBy::Unit(Unit::Bytes) => Measure::Bytes,
            RankBy::Flows => Measure::Flows,
        };
        let wanted = TallyWanted {
            subject: Subject::Flows,
            by: vec![Dimension::Key(by)],
            measure,
            test: test.clone(),
            span,
            limit,
            steps: parts,
            grid: None,
            values: None,
        };
        let tally = self.tally(&wanted)?;
        let missing = tally.missing().ceil() as u64;
        // A query has keys or words, never both: they are in the order of the rows.
        let (mut keys, mut rows) = (Vec::new(), Vec::new());
        let mut curves: Vec<Vec<u64>> = Vec::new();
        for row in tally.rows {
            curves.push(row.over.iter().map(|value| *value as u64).collect());
            let (count, flows) = (row.sums.count, row.sums.flows);
            match row.cells.into_iter().next() {
                Some(Cell::Key(key)) => {
                    let error = match rank {
                        RankBy::Unit(unit) => row.sums.error.in_unit(unit),
                        RankBy::Flows => 0,
                    };
                    let error = error.saturating_add(row.missing.ceil() as u64);
                    keys.push(TopRow { key, count, flows, error });
                }
                cell => {
                    let text = if let Some(Cell::Text(text)) = cell { text } else { "-".to_owned() };
                    let error = row.missing.ceil() as u64;
                    rows.push(ListRow { error, ..text_row(text, count, flows) });
                }
            }
        }
        rows.extend(self.named(&keys, span)?);
        if parts > 0 {
            for (row, curve) in rows.iter_mut().zip(curves) {
                row.spark = Some(curve);
            }
        }
        Ok(TopList {
            list: "flows".to_owned(),
            key: format!("{by:?}").to_lowercase(),
            unit: match rank {
                RankBy::Unit(unit) => unit.name().to_owned(),
                RankBy::Flows => "flows".to_owned(),
            },
            basis: Basis {
                range: [tally.span.0 as f64 / SECOND, tally.span.1 as f64 / SECOND],
                source: Source::Flows,
                bound: Some(match rank {
                    RankBy::Unit(unit) => {
                        crossing_bound(tally.crossing.as_ref(), unit).saturating_add(missing)
                    }
                    RankBy::Flows => missing,
                }),
                ..Basis::default()
            },
            rows,
            total: Amount { packets: tally.listed.count.packets, bytes: tally.listed.count.bytes },
            crossing: tally.crossing,
            partial: tally.partial,
            ..TopList::default()
        })
    }

    fn tally(&self, wanted: &TallyWanted) -> Result<Tally, StoreError> {
        let parts = self.parts(wanted.span)?;
        let extent = Self::rows_extent(&parts);
        let table = match wanted.subject {
            Subject::Flows => FLOW,
            Subject::Records(table) => table,
        };
        let condition = self.condition(&wanted.test, table, wanted.span, &parts)?;
        let by_flow = matches!(wanted.measure, Measure::Packets | Measure::Bytes);
        let mut of_flows = Loan::of(self.lender.clone());
        let (flows, partial) = match (wanted.subject, by_flow) {
            (Subject::Records(_), true) => tally::flow_sums(&parts, wanted.span, extent, &mut of_flows)?,
            _ => Default::default(),
        };
        let memory = Loan::of(self.lender.clone());
        let mut tally = tally::tally(&parts, wanted, &condition, extent, &flows, memory)?;
        tally.partial = match (tally.partial, partial) {
            (Some(values), Some(flows)) => Some(format!("{flows}; {values}")),
            (values, flows) => values.or(flows).or(self.flows_are_gone(wanted.span)?),
        };
        if matches!(wanted.subject, Subject::Flows) {
            tally.partial = tally.partial.or(Self::open_left_out(&parts)?);
        }
        Ok(tally)
    }

    fn names(&self, keys: &[Key]) -> Result<HashMap<Key, String>, StoreError> {
        let span = TimeRange::default();
        let services = services::identified(&self.parts(span)?, span, keys)?;
        let naming = Naming::by_content(&services);
        self.main(|from, path| {
            let mut found: HashMap<Key, String> =
                keys.iter().filter_map(|key| Some((*key, naming.of_key(key)?))).collect();
            if connection::has(from, path, names::SINCE)? {
                for key in keys {
                    if let Some(name) = names::of_key(from, path, key)? {
                        found.insert(*key, name);
                    }
                }
            }
            Ok(found)
        })
    }

    fn distinct(&self, span: TimeRange) -> Result<Distincts, StoreError> {
        let mut found = Distincts::default();
        for (name, reading) in self.kept()? {
            if !matches!(reading, Reading::Distinct(_)) {
                continue;
            }
            let sum = self.sum(&name, span)?;
            if let Some(Reading::Distinct(count)) = sum.reading {
                found.rows.push(DistinctRow {
                    name,
                    of: count.of.name().to_owned(),
                    estimate: count.estimate(),
                    most: count.most(),
                    error_percent: 100.0 * count.relative_error(),
                });
                found.partial = found.partial.or(sum.partial);
            }
        }
        Ok(found)
    }

    fn kept_list(&self, name: &str, span: TimeRange) -> Result<KeptList, StoreError> {
        let sum = self.sum(name, span)?;
        let top = match sum.reading {
            Some(Reading::Top(top)) => Some(top),
            _ => None,
        };
        Ok(KeptList { top, span: sum.span, partial: sum.partial })
    }

    fn each_flow(
        &self,
        test: &FlowTest,
        span: TimeRange,
        each: &mut dyn FnMut(&StoredFlow<'_>),
    ) -> Result<Option<String>, StoreError> {
        self.flows_one_by_one(test, span, each)
    }

    fn each_record(
        &self,
        table: &str,
        test: &FlowTest,
        text: &str,
        span: TimeRange,
        each: &mut dyn FnMut(&StoredRecord<'_>),
    ) -> Result<Option<String>, StoreError> {
        self.records_one_by_one(table, test, text, span, each)
    }

    fn pass_flows(
        &self,
        wanted: &FlowsWanted,
        each: &mut dyn FnMut(Flow) -> bool,
    ) -> Result<Flows, StoreError> {
        let parts = self.parts(wanted.span)?;
        let condition = self.condition(&wanted.test, FLOW, wanted.span, &parts)?;
        let extent = Self::rows_extent(&parts);
        let mut found = find::flows(&parts, wanted, condition, extent, each)?;
        found.partial = found.partial.or(Self::open_left_out(&parts)?);
        found.histogram.watched = self.watched_within(&Bins::of(wanted.span, extent).parts)?;
        Ok(found)
    }

    fn flow(&self, id: &str) -> Result<Option<FlowDetail>, StoreError> {
        let Some((number, first)) = find::number_of(id) else { return Ok(None) };
        let parts = self.parts(TimeRange::default())?;
        let mut found = None;
        let mut records = Vec::new();
        for part in &parts {
            if found.is_none() {
                found = find::flow(part, number, first)?;
            }
            // Records are written at their time, and the flow when it has ended.
            records.extend(find::flows_in(part, number, MAX_RECORDS + 1)?);
        }
        let Some((flow, detail)) = found else { return Ok(None) };
        records.sort_by(|a, b| a.time.total_cmp(&b.time));
        let partial =
            (records.len() > MAX_RECORDS).then(|| format!("only the first {MAX_RECORDS} records are shown"));
        records.truncate(MAX_RECORDS);
        Ok(Some(FlowDetail { flow, details: detail_rows(&detail), records, partial }))
    }

    fn trial(&self, test: &FlowTest, span: TimeRange) -> Result<FilterTry, StoreError> {
        let parts = self.parts(span)?;
        let extent = Self::rows_extent(&parts);
        let span = TimeRange { from: span.from.or(Some(extent.0)), to: span.to.or(Some(extent.1 + 1)) };
        let asked = |test: FlowTest| {
            let condition = self.condition(&test, FLOW, span, &parts)?;
            let wanted = FlowsWanted {
                test,
                span,
                order: Default::default(),
                descending: false,
                limit: 0,
                offset: 0,
                fields: Vec::new(),
            };
            find::flows(&parts, &wanted, condition, extent, &mut |_| false)
        };
        let (matching, all) = (asked(test.clone())?, asked(FlowTest::All(Vec::new()))?);
        Ok(FilterTry {
            flows: matching.matched,
            packets: matching.matched_packets,
            bytes: matching.matched_bytes,
            of: FilterOf { flows: all.matched, packets: all.matched_packets, bytes: all.matched_bytes },
            histogram: TryHistogram {
                step: all.histogram.step,
                times: all.histogram.times,
                bytes: matching.histogram.bytes,
                all: all.histogram.bytes,
                watched: self.watched_within(&Bins::of(span, extent).parts)?,
            },
            basis: Basis { source: Source::Flows, bound: matching.basis.bound, ..Basis::default() },
            partial: matching.partial.or(all.partial),
        })
    }

    fn pass_records(
        &self,
        wanted: &RecordsWanted,
        each: &mut dyn FnMut(RecordRow) -> bool,
    ) -> Result<Records, StoreError> {
        let parts = self.parts(wanted.span)?;
        let condition = self.condition(&wanted.test, &wanted.table, wanted.span, &parts)?;
        find::records(&parts, wanted, condition, each)
    }

    fn record_counts(&self) -> Result<Vec<(String, u64)>, StoreError> {
        let mut counts: BTreeMap<String, u64> = BTreeMap::new();
        for part in self.parts(TimeRange::default())? {
            let describe = describe(&part.path);
            let mut query = part
                .connection
                .prepare_cached("SELECT tbl, count(*) FROM records GROUP BY tbl")
                .map_err(describe)?;
            let rows =
                query.query_map([], |row| Ok((row.get(0)?, row.get::<_, i64>(1)?))).map_err(describe)?;
            for row in rows {
                let (table, count): (String, i64) = row.map_err(describe)?;
                *counts.entry(table).or_default() += count as u64;
            }
        }
        Ok(counts.into_iter().collect())
    }

    fn events(&self, span: TimeRange, limit: usize) -> Result<Events, StoreError> {
        self.events_that_are(events::Which::Shown, span, limit)
    }

    fn muted_events(&self, span: TimeRange, limit: usize) -> Result<Events, StoreError> {
        self.events_that_are(events::Which::Muted, span, limit)
    }

    fn hidden(&self) -> Result<HashMap<u64, u64>, StoreError> {
        self.main(|from, path| match connection::has(from, path, events::MUTED_SINCE)? {
            true => events::by_mute(from).map_err(describe(path)),
            false => Ok(HashMap::new()),
        })
    }

    fn state(&self) -> Result<StoreState, StoreError> {
        let bytes = schema::size(&self.path());
        let parts = schema::partitions(&self.folder);
        let row_bytes: u64 = parts.iter().map(|(_, path)| schema::size(path)).sum();
        let seconds = |nanoseconds: u64| nanoseconds as f64 / SECOND;
        self.main(|from, path| {
            let describe = describe(path);
            let count = |text: &str| -> Result<u64, StoreError> {
                from.query_row(text, [], |row| row.get::<_, i64>(0)).map(|n| n as u64).map_err(describe)
            };
            let series = count("SELECT count(*) FROM series")?;
            let interval = connection::number(from, path, "interval")?.max(1_000_000_000);
            let health = self.health.as_deref();
            let kept = match health {
                Some(health) => health.keep(),
                None => keep_of(from, path)?,
            };
            let (begun, last) =
                (connection::number(from, path, "first")?, connection::number(from, path, "last")?);
            let has_runs = watched::are_there(from, path)?;
            let since = |table: &str, tier: usize| match has_runs {
                true => watched::since(from, path, table, tier).map(|since| since.max(begun)),
                false => count(&format!("SELECT ifnull(min(time), 0) FROM {table} WHERE tier = {tier}")),
            };
            let cells = |(tier, time): (&tiers::Tier, u64)| {
                time.div_ceil(if tier.cell == tiers::Cell::Interval { interval } else { tier.cell.length() })
            };
            let mut tiers = Vec::new();
            for (at, tier) in SERIES.iter().enumerate() {
                let first = since("points", at)?;
                let keep = kept.series.get(at).copied().unwrap_or(0);
                let held = if first > 0 { last.saturating_sub(first).min(keep) } else { 0 };
                tiers.push(TierState {
                    name: format!("series {}", tier.name),
                    keep: seconds(keep),
                    bytes: cells((tier, held)) * series * POINT,
                    first: (first > 0).then(|| seconds(first)),
                });
            }
            for (at, tier) in LISTS.iter().enumerate() {
                let of =
                    |what: &str| count(&format!("SELECT ifnull({what}, 0) FROM readings WHERE tier = {at}"));
                let first = since("readings", at)?;
                tiers.push(TierState {
                    name: format!("lists {}", tier.name),
                    keep: seconds(kept.lists.get(at).copied().unwrap_or(0)),
                    bytes: of("sum(length(body))")?,
                    first: (first > 0).then(|| seconds(first)),
                });
            }
            tiers.push(TierState {
                name: "flows and records".to_owned(),
                keep: seconds(kept.age),
                bytes: row_bytes,
                first: parts.first().map(|(second, _)| *second as f64),
            });
            let failed = health.and_then(Health::why);
            let points: u64 = SERIES.iter().zip(kept.series).map(cells).sum();
            let point_bound = points * series * POINT;
            let mean = |at: usize| {
                count(&format!(
                    "SELECT ifnull(CAST(avg(length(body)) AS INTEGER), 0) FROM readings WHERE tier = {at}"
                ))
            };
            let lists = count("SELECT count(DISTINCT name) FROM readings")?;
            let mut list_bound = 0;
            for (at, tier) in LISTS.iter().zip(kept.lists).enumerate() {
                list_bound += cells(tier) * lists * mean(at)?;
            }
            Ok(StoreState {
                path: self.folder.display().to_string(),
                bytes: bytes + row_bytes,
                limit: kept.bytes,
                bound: point_bound + list_bound,
                free: keep::free(&self.folder),
                state: match (health, &failed) {
                    (None, _) => "reading",
                    (Some(_), None) => "writing",
                    (Some(_), Some(_)) => "waiting",
                }
                .to_owned(),
                failed,
                dropped_rows: health.map_or(0, Health::lost_rows),
                tiers,
            })
        })
    }
}

/// Bytes of a point, in a page that is two thirds full.
const POINT: u64 = 50;

/// Limits that the writer of a database has set; defaults for limits that an older version did not write.
fn keep_of(main: &Connection, path: &Path) -> Result<Keep, StoreError> {
    let mut keep = Keep::default();
    for (name, limit) in keep.limits() {
        match connection::number(main, path, &name)? {
            0 => {}
            known => *limit = known,
        }
    }
    Ok(keep)
}
