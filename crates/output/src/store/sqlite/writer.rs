//! The store as an output: what a run finds goes into it.
//!
//! An interval is written as soon as it is over, in one transaction; rows go in batches. When the disk is full rows and
//! intervals wait in bounded memory, what has no room is counted, and writing goes on by itself when there is space. A
//! database that turns out to be broken is given another name, and a new one is begun.

use super::health::{Health, Leap};
use super::keep::Keep;
use super::names::{self, Names};
use super::readings::{self, Open};
use super::rows::{Maker, Partition, Row};
use super::schema::{self, Kind, MAIN, describe};
use super::series::{self, Known, Point};
use super::tiers::{LISTS, SERIES};
use crate::store::StoreError;
use crate::{Existing, Output, OutputContext, OutputSpec};
use rusqlite::{Connection, OptionalExtension, ToSql, params};
use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use weir_api::{Reading, Snapshot};
use weir_engine::{FlowIdentity, FlowRecord};
use weir_proto::Record;

/// Bytes of rows that are gathered before they are written.
const BATCH: usize = 4 << 20;
/// Bytes of rows that wait while nothing can be written.
const MAX_WAITING: usize = 64 << 20;
/// Intervals that wait.
const MAX_INTERVALS: usize = 1000;

pub(crate) static STORE: OutputSpec = OutputSpec {
    name: "store",
    help: "Series, lists, flows and records in SQLite databases, for `weir serve` and `weir query`.",
    files: &[MAIN],
    flows: true,
    has: |_| true,
    shows: |_| true,
    open: |context| Ok(Box::new(Writer::open(context).map_err(io::Error::other)?)),
};

/// An interval on its way.
struct Waiting {
    span: (u64, u64),
    points: Vec<Point>,
    readings: Vec<(String, Reading)>,
}

/// Writes a store.
pub struct Writer {
    folder: PathBuf,
    main: Connection,
    partition: Option<Partition>,
    keep: Keep,
    known: Known,
    open: Open,
    maker: Maker,
    names: Names,
    intervals: VecDeque<Waiting>,
    rows: Vec<Row>,
    rows_memory: usize,
    health: Arc<Health>,
    /// Whether the last attempt has failed, and was told.
    is_failing: bool,
    /// Whether there is no interval to come.
    is_ending: bool,
    leap: Leap,
    /// Nanoseconds of the interval that was written last.
    last_length: u64,
    /// Of a whole interval, where that is known: a run may end, or be looked at, before it has one.
    whole: u64,
    /// The hour in which was looked for what is too old.
    swept: u64,
}

impl Writer {
    /// Opens the store of a folder, or makes one.
    ///
    /// # Errors
    /// When it is of a newer version, or of a live run where this is one over files, and when it cannot be opened.
    pub fn open(context: &OutputContext) -> Result<Self, StoreError> {
        let keep = context.keep;
        let folder = context.directory.clone();
        let path = folder.join(MAIN);
        let begins_anew = context.existing == Existing::Replace;
        if begins_anew {
            clear(&folder)?;
        }
        let health = Arc::new(Health::new(&keep));
        let main = open_main(&path, context.start, &health)?;
        let set = |name: &str, value: &dyn ToSql| {
            let text = "INSERT INTO meta VALUES (?1, ?2) ON CONFLICT DO UPDATE SET value = ?2";
            main.execute(text, params![name, value]).map_err(describe(&path))
        };
        set("mode", if begins_anew { &"file" } else { &"live" })?;
        for (name, limit) in keep.clone().limits() {
            set(&name, &(*limit).min(i64::MAX as u64).cast_signed())?;
        }
        let leap = Leap::after(number(&main, &path, "trusted")?);
        Ok(Self {
            folder,
            main,
            partition: None,
            keep,
            known: Known::new(),
            open: Open::default(),
            maker: Maker::default(),
            names: Names::default(),
            intervals: VecDeque::new(),
            rows: Vec::new(),
            rows_memory: 0,
            health,
            is_failing: false,
            is_ending: false,
            leap,
            last_length: 0,
            whole: context.interval,
            swept: 0,
        })
    }

    /// How it does, for others to see.
    pub fn health(&self) -> Arc<Health> {
        Arc::clone(&self.health)
    }

    /// As if the disk had room for so many pages more; `None` for as many as there are.
    #[cfg(test)]
    pub(super) fn limit_pages(&mut self, more: Option<i64>) {
        let connections =
            [Some(&self.main), self.partition.as_ref().map(Partition::connection)].into_iter().flatten();
        for connection in connections {
            let pages: i64 = connection.query_row("PRAGMA page_count", [], |row| row.get(0)).unwrap();
            let max = more.map_or(1 << 30, |more| pages + more);
            connection.query_row(&format!("PRAGMA max_page_count = {max}"), [], |_| Ok(())).unwrap();
        }
    }

    fn push(&mut self, row: Row) {
        if self.rows_memory >= MAX_WAITING {
            self.health.lost(1);
            return;
        }
        self.rows_memory += row.memory();
        self.rows.push(row);
        if self.rows_memory > BATCH && !self.is_failing {
            // What is wrong is told by the next flush.
            let _ = self.write_rows();
        }
    }

    fn write_rows(&mut self) -> Result<(), StoreError> {
        let Some(now) = self.rows.iter().map(Row::time).max() else { return Ok(()) };
        let keep = &self.keep;
        let mut partition = match self.partition.take() {
            Some(partition) if keep.has_room(partition.begun(), now, schema::size(partition.path())) => {
                partition
            }
            Some(_) => Partition::begin(&self.folder, now)?,
            None => Partition::open(&self.folder, now, |begun, size| keep.has_room(begun, now, size))?,
        };
        let written = partition.write(&self.rows);
        if let Err(error) = &written
            && schema::is_corrupt(error)
        {
            let aside = schema::move_aside(partition.path(), now)?;
            self.health.note(
                now,
                "store",
                format!("{} was corrupt and was moved to {}", partition.path().display(), aside.display()),
            );
            drop(partition);
            return written;
        }
        self.partition = Some(partition);
        written?;
        self.rows.clear();
        self.rows_memory = 0;
        Ok(())
    }

    /// Whether something waits for the database of series. Names wait for the next interval, or for the end.
    fn waits(&self) -> bool {
        let names = self.is_ending && !self.names.is_empty();
        !self.intervals.is_empty() || self.health.has_events() || names
    }

    fn write_intervals(&mut self) -> Result<(), StoreError> {
        let path = self.folder.join(MAIN);
        if !self.waits() {
            return Ok(());
        }
        let written = self.commit_intervals(&path);
        if let Err(error) = &written {
            // What was added to may not be what is on the disk.
            self.open.clear();
            self.known.clear();
            if schema::is_corrupt(error) {
                let now = self.intervals.back().map_or(0, |interval| interval.span.1);
                // The old one is closed before another has its name.
                self.main = Connection::open_in_memory().map_err(describe(&path))?;
                let aside = schema::move_aside(&path, now)?;
                self.health.note(
                    now,
                    "store",
                    format!("{} was corrupt and was moved to {}", path.display(), aside.display()),
                );
                self.main = schema::open(&path, Kind::Main)?;
            }
        }
        written
    }

    fn commit_intervals(&mut self, path: &Path) -> Result<(), StoreError> {
        let describe = describe(path);
        let transaction = self.main.transaction().map_err(describe)?;
        let mut extent: Option<(u64, u64)> = None;
        for interval in &self.intervals {
            series::write(&transaction, &mut self.known, interval.span, &interval.points)
                .map_err(describe)?;
            for (name, reading) in &interval.readings {
                self.open.write(&transaction, path, name, interval.span, reading)?;
            }
            let (from, to) = interval.span;
            extent = Some(extent.map_or((from, to), |(a, b)| (a.min(from), b.max(to))));
            if let Some(text) = self.leap.see(to) {
                self.health.note(to, "clock", text);
            }
        }
        if let Some((from, to)) = extent {
            // The last interval of a capture, and the first, may be shorter than the others.
            let length = |interval: &Waiting| interval.span.1 - interval.span.0;
            let last = self.intervals.iter().rev().take(2).map(length).max().unwrap_or(0);
            let before = self.intervals.back().map_or(0, length);
            let length = last.max(std::mem::replace(&mut self.last_length, before)).max(self.whole);
            transaction
                .execute(
                    "INSERT INTO meta VALUES ('first', ?1), ('last', ?2), ('interval', ?3), ('trusted', ?4)
                     ON CONFLICT (name) DO UPDATE SET value = CASE name WHEN 'first' THEN min(value, excluded.value)
                     WHEN 'last' THEN max(value, excluded.value) ELSE excluded.value END",
                    params![from as i64, to as i64, length as i64, self.leap.trusted() as i64],
                )
                .map_err(describe)?;
        }
        let events = self.health.events();
        for event in &events {
            transaction
                .prepare_cached("INSERT INTO events VALUES (?1, ?2, ?3)")
                .and_then(|mut add| add.execute(params![(event.time * 1e9) as i64, event.kind, event.text]))
                .map_err(describe)?;
        }
        self.names.write(&transaction).map_err(describe)?;
        transaction.commit().map_err(describe)?;
        self.names.written();
        self.health.written(events.len());
        self.intervals.clear();
        Ok(())
    }

    /// Writes what waits. What fails is told once; then it is tried again without a word until it does not.
    fn write(&mut self) -> io::Result<()> {
        // What could not be dropped is tried again.
        if self.rows.is_empty() && !self.waits() && !self.is_failing {
            return Ok(());
        }
        let rows = self.write_rows();
        let intervals = self.write_intervals();
        let swept = self.sweep();
        match rows.and(intervals).and(swept) {
            Ok(()) => {
                if std::mem::take(&mut self.is_failing) {
                    self.health.recovered(self.leap.latest());
                }
                Ok(())
            }
            Err(error) => {
                let text = error.to_string();
                self.health.failed(&text);
                if std::mem::replace(&mut self.is_failing, true) {
                    Ok(())
                } else {
                    Err(io::Error::other(text))
                }
            }
        }
    }

    /// Drops what is too old or too much; what is too old is looked for once an hour.
    fn sweep(&mut self) -> Result<(), StoreError> {
        let path = self.folder.join(MAIN);
        let current = self.partition.as_ref().map(|partition| partition.path().to_owned());
        for dropped in self.keep.drop_partitions(&self.folder, current.as_deref(), self.leap.trusted())? {
            self.health.note(self.leap.latest(), "store", dropped);
        }
        let hour = self.leap.trusted() / 3_600_000_000_000;
        if std::mem::replace(&mut self.swept, hour) == hour {
            return Ok(());
        }
        let transaction = self.main.transaction().map_err(describe(&path))?;
        {
            let describe = describe(&path);
            let mut points = transaction
                .prepare_cached("DELETE FROM points WHERE tier = ?1 AND series = ?2 AND time < ?3")
                .map_err(describe)?;
            let mut ids = transaction.prepare_cached("SELECT id FROM series").map_err(describe)?;
            let ids: Vec<i64> =
                ids.query_map([], |row| row.get(0)).and_then(Iterator::collect).map_err(describe)?;
            let now = self.leap.trusted();
            for at in 0..SERIES.len() {
                let before = Keep::before(&self.keep.series, at, now);
                for id in &ids {
                    points.execute(params![at as i64, id, before as i64]).map_err(describe)?;
                }
            }
            for at in 0..LISTS.len() {
                let before = Keep::before(&self.keep.lists, at, now);
                transaction
                    .execute(
                        "DELETE FROM readings WHERE tier = ?1 AND time < ?2",
                        params![at as i64, before as i64],
                    )
                    .map_err(describe)?;
            }
            let before = now.saturating_sub(self.keep.series.into_iter().max().unwrap_or(0));
            transaction.execute("DELETE FROM events WHERE time < ?1", [before as i64]).map_err(describe)?;
            names::sweep(&transaction, now.saturating_sub(self.keep.age)).map_err(describe)?;
        }
        transaction.commit().map_err(describe(&path))
    }
}

/// Opens the database of series; a broken one is given another name.
fn open_main(path: &Path, now: u64, health: &Health) -> Result<Connection, StoreError> {
    let checked = schema::open(path, Kind::Main).and_then(|main| {
        // Broken pages of a database show when they are read.
        let check: String =
            main.query_row("PRAGMA quick_check(1)", [], |row| row.get(0)).map_err(describe(path))?;
        Ok((main, check == "ok"))
    });
    match checked {
        Ok((main, true)) => return Ok(main),
        Ok((_, false)) => {}
        Err(error) if schema::is_corrupt(&error) => {}
        Err(error) => return Err(error),
    }
    let aside = schema::move_aside(path, now)?;
    let text =
        format!("{} was corrupt and was moved to {}; a new one was created", path.display(), aside.display());
    warn(&text);
    health.note(now, "store", text);
    schema::open(path, Kind::Main)
}

/// A user who sees no store any more must know where it has gone.
fn warn(text: &str) {
    use std::io::Write;
    let _ = writeln!(io::stderr(), "weir: {text}");
}

/// Takes the store of an earlier run over files away; that of a live run stays, and is an error.
fn clear(folder: &Path) -> Result<(), StoreError> {
    let path = folder.join(MAIN);
    if path.exists() {
        let mode: Option<String> = match schema::open_to_read(&path, Kind::Main) {
            Ok(main) => main
                .query_row("SELECT value FROM meta WHERE name = 'mode'", [], |row| row.get(0))
                .optional()
                .map_err(describe(&path))?,
            Err(error) if schema::is_corrupt(&error) => None,
            Err(error) => return Err(error),
        };
        if mode.as_deref() == Some("live") {
            let text = format!(
                "{}: this is the store of a live run; choose another directory for captures",
                path.display()
            );
            return Err(StoreError::Unknown(text));
        }
    }
    let files = schema::partitions(folder).into_iter().map(|(_, path)| path).chain([path]);
    for path in files {
        remove(&path).map_err(|error| StoreError::File { path: path.clone(), error })?;
    }
    Ok(())
}

/// Removes a database with its log.
pub fn remove(path: &Path) -> io::Result<()> {
    for part in ["", "-wal", "-shm"] {
        let mut name = path.as_os_str().to_owned();
        name.push(part);
        match std::fs::remove_file(PathBuf::from(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// A number that is kept under a name; 0 where there is none.
pub fn number(main: &Connection, path: &Path, name: &str) -> Result<u64, StoreError> {
    let found: Option<i64> = main
        .query_row("SELECT value FROM meta WHERE name = ?1", [name], |row| row.get(0))
        .optional()
        .map_err(describe(path))?;
    Ok(found.unwrap_or(0) as u64)
}

impl Output for Writer {
    fn interval(&mut self, snapshot: &Snapshot) -> io::Result<()> {
        let span = (snapshot.interval.start, snapshot.interval.end.max(snapshot.interval.start + 1));
        let kept = snapshot.answers.iter().filter(|answer| readings::kind(&answer.reading).is_some());
        let readings = kept.map(|answer| (answer.subscription.clone(), answer.reading.clone())).collect();
        if self.intervals.len() >= MAX_INTERVALS {
            self.intervals.pop_front();
            self.health.lost(1);
        }
        self.intervals.push_back(Waiting { span, points: series::points(snapshot), readings });
        self.write()
    }

    fn flow(&mut self, flow: &FlowRecord) -> io::Result<()> {
        self.named_flow(flow, None)
    }

    fn named_flow(&mut self, flow: &FlowRecord, name: Option<&str>) -> io::Result<()> {
        if let Some(name) = name {
            self.names.see(flow.responder().0, name, flow.last.0);
        }
        self.push(Row::Flow(Box::new(*flow), name.map(Box::from)));
        Ok(())
    }

    fn record(&mut self, flow: &FlowIdentity, record: &Record<'_>) -> io::Result<()> {
        let row = self.maker.record(flow, record);
        self.push(row);
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.write()
    }

    fn finish(&mut self) -> io::Result<()> {
        self.is_ending = true;
        self.write()?;
        if self.is_failing {
            let waiting = self.rows.len() + self.intervals.len();
            self.health.lost(waiting as u64);
        }
        // Readers find whole files, and no log beside them that has to be read first.
        for connection in
            [Some(&self.main), self.partition.as_ref().map(Partition::connection)].into_iter().flatten()
        {
            let _ = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
        }
        match self.health.lost_rows() {
            0 => Ok(()),
            lost => Err(io::Error::other(format!("{}: {lost} rows lost", self.folder.display()))),
        }
    }
}
