//! The store as an output of a run.
//!
//! An interval is written when it ends, in one transaction; rows are written in batches. When the disk is full, rows
//! and intervals wait in bounded memory, excess rows are counted, and writing resumes when there is space. A corrupt
//! database is renamed, and a new one is created.

use super::connection::{self, describe, number};
use super::events;
use super::names::{self, Names};
use super::open_flows::{MAX_PARTS, OpenSet};
use super::readings::{self, Open};
use super::rows::{Maker, Partition, Row};
use super::schema::{self, Kind, LOCK, MAIN};
use super::series::{self, Amount, Known, Layout, Written};
use super::thin;
use super::watched::{self, Watched};
use crate::Keep;
use crate::StoreError;
use crate::health::{Health, Leap};
use crate::listed;
use crate::seed;
use crate::tiers::{Cell, LISTS, SERIES};
use rusqlite::{Connection, OptionalExtension, ToSql, params};
use std::collections::{HashSet, VecDeque};
use std::fs::{File, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use weir_api::event::STORE_FAILED;
use weir_api::{Event, EventKind, Reading, Snapshot, web};
use weir_output::{Existing, Output, OutputContext, OutputSpec, Takes, Worms};
use weir_output::{FlowIdentity, FlowRecord, OpenFlows};
use weir_proto::Record;

/// Bytes of rows that are collected before they are written.
const BATCH: usize = 4 << 20;
/// Maximum number of bytes of rows that wait while nothing can be written.
const MAX_WAITING: usize = 64 << 20;
/// Maximum number of intervals that wait.
const MAX_INTERVALS: usize = 1000;
/// Bytes of intervals that a run over files collects before it writes them: its store is read after the run.
const GROUP: usize = 4 << 20;
/// Nanoseconds between two attempts to write while writing fails.
const RETRY: u64 = 1_000_000_000;

/// The store as an output. It is opened with the default limits; [`Writer::open`] takes others.
pub static STORE: OutputSpec = OutputSpec {
    name: "store",
    help: "Series, lists, flows and records in SQLite databases, for `weir serve` and `weir query`.",
    files: &[MAIN],
    is_stream: false,
    flows: true,
    events: "event",
    has: |_| true,
    shows: |_| true,
    takes: Takes::Every,
    open: |context| Ok(Box::new(Writer::open(context, Keep::default()).map_err(io::Error::other)?)),
};

/// The time of the earliest and of the latest packet, among the numbers of a store.
pub const FIRST_PACKET: &str = "first packet";
pub const LAST_PACKET: &str = "last packet";

/// A waiting interval.
struct Waiting {
    span: (u64, u64),
    /// Watched seconds of the interval.
    seconds: f64,
    /// Watched time of the interval and of the silence before it.
    watched: (u64, u64),
    /// Times of its earliest and its latest packet.
    packets: Option<(u64, u64)>,
    layout: Arc<Layout>,
    values: Vec<(u32, Amount)>,
    readings: Vec<(String, Reading)>,
}

impl Waiting {
    /// Approximate memory of a waiting interval in bytes.
    fn memory(&self) -> usize {
        let readings: usize = self.readings.iter().map(|(_, reading)| readings::memory(reading)).sum();
        size_of::<Self>() + size_of_val(self.values.as_slice()) + readings
    }
}

/// The reason why nothing can be written at present.
struct Failing {
    why: String,
    /// Whether the disk is full.
    is_full: bool,
    /// Whether the error was returned to the caller.
    is_reported: bool,
    /// Time of the last attempt, by [`OutputContext::clock`].
    attempted: u64,
}

/// Writes a store.
pub struct Writer {
    folder: PathBuf,
    /// The inode of the database that is open.
    inode: u64,
    /// Held while the writer writes: see [`lock`].
    _lock: Option<File>,
    main: Connection,
    partition: Option<Partition>,
    keep: Keep,
    known: Known,
    /// Names of lists and distinct counts that were written or are waiting.
    listed: HashSet<String>,
    /// Layout of the last interval.
    layout: Arc<Layout>,
    /// Which hosts of lists of SYNs may be worms.
    worms: Worms,
    open: Open,
    maker: Maker,
    /// The flows that have not ended.
    flows: OpenSet,
    /// Their number in the table of flows.
    active: u64,
    names: Names,
    /// Watched time of the waiting intervals.
    watched: Watched,
    intervals: VecDeque<Waiting>,
    rows: Vec<Row>,
    rows_memory: usize,
    /// Maximum bytes of rows that wait; also the bytes that are collected before writing.
    max_rows: usize,
    batch: usize,
    /// Bytes of pages of the partition that are held in memory.
    cache: usize,
    health: Arc<Health>,
    /// Set when the last attempt has failed.
    failing: Option<Failing>,
    /// Clock for retries; without one, each call retries.
    clock: Option<fn() -> u64>,
    /// Whether intervals are collected before they are written.
    gathers: bool,
    /// Bytes of waiting intervals.
    gathered: usize,
    /// Whether no further interval will come.
    is_ending: bool,
    leap: Leap,
    /// Length of the last written interval in nanoseconds.
    last_length: u64,
    /// Length of a whole interval, if known: a run may end, or be queried, before it has one.
    whole: u64,
    /// The hour in which expired data was last searched for.
    swept: u64,
}

/// Bytes of pages of the newest partition that a store holds in memory, beyond its `share` for what waits to be written.
pub fn cached(share: usize) -> usize {
    share / 4
}

impl Writer {
    /// Opens the store of a folder with these limits, or creates one.
    ///
    /// # Errors
    ///
    /// The store has a newer version, or belongs to a live run while this run is over files, or cannot be opened.
    pub fn open(context: &OutputContext, keep: Keep) -> Result<Self, StoreError> {
        let folder = context.directory.clone();
        let path = folder.join(MAIN);
        let begins_anew = context.existing == Existing::Replace;
        let lock = lock(&folder)?;
        if begins_anew {
            clear(&folder)?;
        }
        if let Some(seed) = context.distinct_seed {
            seed::keep(&folder, seed)?;
        }
        let health = Arc::new(Health::new(&keep));
        let main = open_main(&path, context, &health)?;
        keep.bound_log(&main).map_err(describe(&path))?;
        let set = |name: &str, value: &dyn ToSql| {
            let text = "INSERT INTO meta VALUES (?1, ?2) ON CONFLICT DO UPDATE SET value = ?2";
            main.execute(text, params![name, value]).map_err(describe(&path))
        };
        events::end_all(&main).map_err(describe(&path))?;
        set("mode", if begins_anew { &"file" } else { &"live" })?;
        for (name, limit) in keep.clone().limits() {
            set(&name, &(*limit).min(i64::MAX as u64).cast_signed())?;
        }
        let inode = inode(&path)?;
        let share = if context.memory > 0 { context.memory } else { MAX_WAITING };
        let max_rows = share / 8 * 5;
        let leap = Leap::after(number(&main, &path, "trusted")?);
        Ok(Self {
            folder,
            inode,
            _lock: lock,
            main,
            partition: None,
            keep,
            known: Known::new(),
            listed: HashSet::new(),
            layout: Arc::default(),
            worms: context.worms.clone(),
            open: Open::default(),
            maker: Maker::default(),
            // A run over files is queried when all of its flows have ended.
            flows: OpenSet::new(share / 8, !begins_anew),
            active: 0,
            names: Names::new(share / 4),
            watched: Watched::default(),
            intervals: VecDeque::new(),
            rows: Vec::new(),
            rows_memory: 0,
            max_rows,
            batch: BATCH.min(max_rows / 4),
            cache: cached(share),
            health,
            failing: None,
            clock: context.clock,
            gathers: begins_anew,
            gathered: 0,
            is_ending: false,
            leap,
            last_length: 0,
            whole: context.interval,
            swept: 0,
        })
    }

    /// State of the writer, for readers.
    pub fn health(&self) -> Arc<Health> {
        Arc::clone(&self.health)
    }

    /// Number of rows of the database of series and lists that were written or changed so far.
    #[cfg(test)]
    pub(super) fn changes(&self) -> u64 {
        self.main.total_changes()
    }

    /// Begins a new partition, whatever room the present one has.
    #[cfg(test)]
    pub(super) fn begin_partition(&mut self, now: u64) {
        let mut next = Partition::begin(&self.folder, now, &self.keep, self.cache).unwrap();
        if let Some(full) = self.partition.take() {
            next.take_open(&full).unwrap();
        }
        self.partition = Some(next);
    }

    /// Limits the database to this number of further pages; `None` removes the limit.
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
        if self.rows_memory >= self.max_rows {
            self.health.lost(1);
            return;
        }
        self.rows_memory += row.memory();
        self.rows.push(row);
        // While writing fails, rows wait for the next attempt.
        if self.rows_memory > self.keep.batch(self.batch)
            && self.failing.is_none()
            && let Err(error) = self.write_rows()
        {
            self.fail(&error);
        }
    }

    /// Notes the reason of a failed attempt. The next flush reports it.
    fn fail(&mut self, error: &StoreError) {
        let (why, is_full) = (error.to_string(), connection::is_full(error));
        self.health.failed(&why);
        let is_reported = self.failing.as_ref().is_some_and(|failing| failing.is_reported);
        let attempted = self.clock.map_or(0, |clock| clock());
        self.failing = Some(Failing { why, is_full, is_reported, attempted });
    }

    /// Whether an attempt to write is due.
    fn is_due(&self) -> bool {
        match (&self.failing, self.clock) {
            (Some(failing), Some(clock)) if !self.is_ending => {
                clock().saturating_sub(failing.attempted) >= RETRY
            }
            _ => true,
        }
    }

    /// Returns the error of a failed attempt once.
    fn report(&mut self) -> io::Result<()> {
        let Some(failing) = &mut self.failing else { return Ok(()) };
        if std::mem::replace(&mut failing.is_reported, true) {
            return Ok(());
        }
        let kind = if failing.is_full { io::ErrorKind::StorageFull } else { io::ErrorKind::Other };
        Err(io::Error::new(kind, failing.why.clone()))
    }

    /// Writes the waiting rows, batch by batch, so that as many as possible are written.
    fn write_rows(&mut self) -> Result<(), StoreError> {
        while !self.rows.is_empty() {
            self.write_batch()?;
        }
        Ok(())
    }

    fn write_batch(&mut self) -> Result<(), StoreError> {
        let (max, mut memory) = (self.keep.batch(self.batch), 0);
        let count = self
            .rows
            .iter()
            .take_while(|row| {
                memory <= max && {
                    memory += row.memory();
                    true
                }
            })
            .count();
        let Some(batch) = self.rows.get(..count) else { return Ok(()) };
        let Some(now) = batch.iter().map(Row::time).max() else { return Ok(()) };
        let keep = &self.keep;
        let had_one = self.partition.is_some();
        let mut partition = match self.partition.take() {
            Some(partition) if keep.has_room(partition.begun(), now, schema::size(partition.path())) => {
                partition
            }
            Some(full) => {
                let mut next = Partition::begin(&self.folder, now, keep, self.cache)?;
                next.take_open(&full)?;
                next
            }
            None => Partition::open(&self.folder, now, keep, self.cache)?,
        };
        let is_new = had_one && partition.is_empty();
        let written = partition.write(batch);
        if let Err(error) = &written
            && connection::is_corrupt(error)
        {
            let aside = schema::move_aside(partition.path(), now)?;
            self.health.note(
                now,
                "store",
                format!("{} was corrupt and was moved to {}", partition.path().display(), aside.display()),
            );
            drop(partition);
            return written.map(drop);
        }
        self.partition = Some(partition);
        self.health.lost(written?);
        self.rows.drain(..count);
        self.rows_memory = if self.rows.is_empty() { 0 } else { self.rows_memory.saturating_sub(memory) };
        // A run over files may write gigabytes within one interval.
        if is_new { self.drop_partitions() } else { Ok(()) }
    }

    /// Whether data waits for the database of series. Names wait for the next interval, or for the end.
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
            // The open cells may differ from the database.
            self.open.clear();
            self.known.clear();
            self.listed.clear();
            if connection::is_corrupt(error) {
                let now = self.intervals.back().map_or(0, |interval| interval.span.1);
                // The old database is closed before another gets its name.
                self.main = Connection::open_in_memory().map_err(describe(&path))?;
                let aside = schema::move_aside(&path, now)?;
                self.health.note(
                    now,
                    "store",
                    format!("{} was corrupt and was moved to {}", path.display(), aside.display()),
                );
                self.main = schema::open(&path, Kind::Main)?;
                self.inode = inode(&path)?;
            }
        }
        written
    }

    fn commit_intervals(&mut self, path: &Path) -> Result<(), StoreError> {
        let describe = describe(path);
        let transaction = self.main.transaction().map_err(describe)?;
        let mut extent: Option<(u64, u64)> = None;
        let points = self.intervals.iter().map(|interval| Written {
            start: interval.span.0,
            seconds: interval.seconds,
            layout: &interval.layout,
            values: &interval.values,
        });
        series::write(&transaction, &mut self.known, points).map_err(describe)?;
        let readings = self.intervals.iter().flat_map(|interval| {
            interval.readings.iter().map(|(name, reading)| (name.as_str(), interval.span, reading))
        });
        self.open.add(&transaction, path, readings)?;
        for interval in &self.intervals {
            let (from, to) = interval.span;
            let (begin, end) = (from.min(interval.watched.0), to.max(interval.watched.1));
            extent = Some(extent.map_or((begin, end), |(a, b)| (a.min(begin), b.max(end))));
            self.watched.add(interval.watched.0, interval.watched.1);
            if let Some(text) = self.leap.see(to) {
                self.health.note(to, "clock", text);
            }
        }
        self.open.write(&transaction, path)?;
        if let Some((from, to)) = extent {
            // The first and the last interval of a capture may be shorter than the others.
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
        let packets = self.intervals.iter().filter_map(|interval| interval.packets);
        let packets = packets.reduce(|(a, b), (from, to)| (a.min(from), b.max(to)));
        if let Some((from, to)) = packets {
            transaction
                .execute(
                    "INSERT INTO meta VALUES (?1, ?3), (?2, ?4) ON CONFLICT (name) DO UPDATE SET
                     value = CASE name WHEN ?1 THEN min(value, excluded.value) ELSE max(value, excluded.value) END",
                    params![FIRST_PACKET, LAST_PACKET, from as i64, to as i64],
                )
                .map_err(describe)?;
        }
        self.watched.write(&transaction).map_err(describe)?;
        let events = self.health.events();
        for event in &events {
            events::write(&transaction, event).map_err(describe)?;
        }
        self.names.write(&transaction).map_err(describe)?;
        transaction.commit().map_err(describe)?;
        self.names.written();
        self.health.written(events.len());
        self.intervals.clear();
        self.watched.clear();
        self.gathered = 0;
        Ok(())
    }

    /// Writes the waiting data. An error is reported once; then there is one attempt each second until one succeeds.
    fn write(&mut self) -> io::Result<()> {
        // Partitions that could not be dropped are retried.
        if self.rows.is_empty() && !self.waits() && self.failing.is_none() {
            return Ok(());
        }
        if !self.is_due() {
            return self.report();
        }
        if let Err(error) = self.see_database() {
            self.fail(&error);
            return self.report();
        }
        let rows = self.write_rows();
        let intervals = self.write_intervals();
        let swept = self.sweep();
        match rows.and(intervals).and(swept) {
            Ok(()) => {
                if self.failing.take().is_some() {
                    self.health.recovered(self.leap.latest());
                }
                Ok(())
            }
            Err(error) => {
                self.fail(&error);
                self.report()
            }
        }
    }

    /// Checks that the database is the file that was opened. What is written to a file that was removed is lost.
    fn see_database(&self) -> Result<(), StoreError> {
        let path = self.folder.join(MAIN);
        let error = match std::fs::metadata(&path) {
            Ok(data) if data.ino() == self.inode => return Ok(()),
            Ok(_) => io::Error::other(
                "another file took its place while the store was being written: restart Weir",
            ),
            Err(error) if error.kind() == io::ErrorKind::NotFound => io::Error::other(
                "it was removed while the store was being written: restart Weir to begin a new store",
            ),
            Err(error) => error,
        };
        Err(StoreError::File { path, error })
    }

    /// Drops partitions beyond the limits of age and size.
    fn drop_partitions(&mut self) -> Result<(), StoreError> {
        let current = self.partition.as_ref().map(|partition| partition.path().to_owned());
        let dropped = self.keep.drop_partitions(&self.folder, current.as_deref(), self.leap.trusted())?;
        let path = self.folder.join(MAIN);
        if let Some((end, _)) = dropped.last() {
            watched::drop_before(&self.main, "rows", 0, Cell::Interval, *end).map_err(describe(&path))?;
        }
        for (_, text) in dropped {
            self.health.note(self.leap.latest(), "store", text);
        }
        Ok(())
    }

    /// Drops data beyond the limits of age and size; expired data is searched for once an hour.
    fn sweep(&mut self) -> Result<(), StoreError> {
        let path = self.folder.join(MAIN);
        if let Some(text) = self.keep.thin(&self.folder, &self.main)? {
            self.open.clear();
            self.health.note(self.leap.latest(), "store", text);
        }
        self.drop_partitions()?;
        let hour = self.leap.trusted() / 3_600_000_000_000;
        if std::mem::replace(&mut self.swept, hour) == hour {
            return Ok(());
        }
        let current = self.partition.as_ref().map(Partition::path);
        thin::thin_parts(&self.folder, current, self.leap.trusted())?;
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
            for (at, tier) in SERIES.iter().enumerate() {
                let before = Keep::before(&self.keep.series, at, now);
                let mut dropped = 0;
                for id in &ids {
                    dropped += points.execute(params![at as i64, id, before as i64]).map_err(describe)?;
                }
                if dropped > 0 {
                    watched::drop_before(&transaction, "points", at, tier.cell, before).map_err(describe)?;
                }
            }
            for (at, tier) in LISTS.iter().enumerate() {
                let before = Keep::before(&self.keep.lists, at, now);
                let dropped = transaction
                    .execute(
                        "DELETE FROM readings WHERE tier = ?1 AND time < ?2",
                        params![at as i64, before as i64],
                    )
                    .map_err(describe)?;
                if dropped > 0 {
                    watched::drop_before(&transaction, "readings", at, tier.cell, before)
                        .map_err(describe)?;
                }
            }
            let before = now.saturating_sub(self.keep.series.into_iter().max().unwrap_or(0));
            transaction.execute("DELETE FROM events WHERE time < ?1", [before as i64]).map_err(describe)?;
            watched::sweep(&transaction, before).map_err(describe)?;
            names::sweep(&transaction, now.saturating_sub(self.keep.age)).map_err(describe)?;
        }
        transaction.commit().map_err(describe(&path))
    }
}

/// Locks the store of a folder for one writer: the cells of two would be added up. The lock ends with the process. `None` on a file
/// system without locks.
///
/// # Errors
///
/// Another writer has the lock, or its file cannot be opened.
fn lock(folder: &Path) -> Result<Option<File>, StoreError> {
    let path = folder.join(LOCK);
    let file = weir_files::open(&path).map_err(|error| StoreError::File { path, error })?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => {
            let folder = folder.display();
            let text = format!(
                "{folder}: another Weir writes into this store: stop it, or choose another directory"
            );
            Err(StoreError::Unknown(text))
        }
        Err(TryLockError::Error(_)) => Ok(None),
    }
}

/// Opens the database of series; a corrupt one is renamed.
fn open_main(path: &Path, context: &OutputContext, health: &Health) -> Result<Connection, StoreError> {
    let checked = schema::open(path, Kind::Main).and_then(|mut main| {
        if let Some(stop) = context.stop.clone() {
            let stops = move || stop.load(Ordering::Relaxed);
            main.progress_handler(10_000, Some(stops)).map_err(describe(path))?;
        }
        // Corrupt pages of a database show when they are read.
        let check: String =
            main.query_row("PRAGMA quick_check(1)", [], |row| row.get(0)).map_err(describe(path))?;
        main.progress_handler(0, None::<fn() -> bool>).map_err(describe(path))?;
        Ok((main, check == "ok"))
    });
    match checked {
        Ok((main, true)) => return Ok(main),
        Ok((_, false)) => {}
        Err(error) if connection::is_corrupt(&error) => {}
        Err(error) => return Err(error),
    }
    let now = context.start;
    let aside = schema::move_aside(path, now)?;
    let text =
        format!("{} was corrupt and was moved to {}; a new one was created", path.display(), aside.display());
    warn(&text);
    health.note(now, "store", text);
    schema::open(path, Kind::Main)
}

/// Prints a warning: a user who no longer sees a store must learn its new name.
fn warn(text: &str) {
    use std::io::Write;
    let _ = writeln!(io::stderr(), "weir: {text}");
}

/// Removes the store of an earlier run over files; the store of a live run is kept, and is an error.
fn clear(folder: &Path) -> Result<(), StoreError> {
    let path = folder.join(MAIN);
    if path.exists() {
        let mode: Option<String> = match schema::open_to_read(&path, Kind::Main) {
            Ok(main) => main
                .query_row("SELECT value FROM meta WHERE name = 'mode'", [], |row| row.get(0))
                .optional()
                .map_err(describe(&path))?,
            Err(error) if connection::is_corrupt(&error) => None,
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

fn inode(path: &Path) -> Result<u64, StoreError> {
    let data = std::fs::metadata(path).map_err(|error| StoreError::File { path: path.to_owned(), error })?;
    Ok(data.ino())
}

/// Whether the store was written by a run over files.
pub fn is_of_files(main: &Connection, path: &Path) -> Result<bool, StoreError> {
    let text = "SELECT ifnull((SELECT value = 'file' FROM meta WHERE name = 'mode'), 0)";
    main.query_row(text, [], |row| row.get(0)).map_err(describe(path))
}

impl Output for Writer {
    fn interval(&mut self, snapshot: &Snapshot) -> io::Result<()> {
        let span = (snapshot.interval.start, snapshot.interval.end);
        self.active = (self.active + snapshot.flows.created).saturating_sub(snapshot.flows.ended);
        if let Some(row) = self.flows.count(self.active) {
            self.push(row);
        }
        let watched = snapshot.watched.unwrap_or(snapshot.interval);
        let has_packets = snapshot.ledger.caught > 0;
        if span.0 == span.1 || watched.start == watched.end && !has_packets {
            return self.report();
        }
        // Silence has lists of what ended in it, such as questions without an answer. A count of no values takes no cell there. Each
        // list is written once nevertheless, so that queries know its name.
        let holds = |reading: &Reading| {
            has_packets || !matches!(reading, Reading::Distinct(count) if count.estimate() == 0)
        };
        let listed = &mut self.listed;
        let mut readings = Vec::new();
        for (name, answer) in listed::named(&snapshot.answers) {
            let reading = &answer.reading;
            let is_new = !listed.contains(&name) && listed.insert(name.clone());
            if is_new || holds(reading) && readings::is_kept(reading) {
                readings.push((name, reading.clone()));
            }
        }
        if self.intervals.len() >= MAX_INTERVALS {
            self.intervals.pop_front();
            self.health.lost(1);
        }
        if !self.layout.is_of(snapshot) {
            self.layout = Arc::new(Layout::of(snapshot));
        }
        let interval = Waiting {
            span,
            seconds: snapshot.watched_seconds(),
            watched: (watched.start, watched.end),
            packets: snapshot.packets.map(|packets| (packets.start, packets.end)),
            values: self.layout.values(snapshot, &self.worms, has_packets),
            layout: Arc::clone(&self.layout),
            readings,
        };
        self.gathered += interval.memory();
        self.intervals.push_back(interval);
        // Cells of hours and days are written once for all intervals of a batch.
        if self.gathers && self.gathered < self.keep.batch(GROUP) && self.intervals.len() < MAX_INTERVALS / 2
        {
            return self.report();
        }
        self.write()
    }

    fn flow(&mut self, flow: &FlowRecord) -> io::Result<()> {
        self.named_flow(flow, None)
    }

    fn named_flow(&mut self, flow: &FlowRecord, name: Option<&str>) -> io::Result<()> {
        if let Some(name) = name {
            self.names.see(flow.responder().0, name, flow.last.0);
        }
        let (part, stored) = self.flows.end(flow);
        if let Some(part) = part {
            self.push(Row::Part(Box::new(part)));
        }
        self.push(Row::Flow(Box::new(*flow), name.map(Box::from), stored));
        Ok(())
    }

    fn open_flows(&mut self, open: &OpenFlows<'_>) -> io::Result<()> {
        let before = self.flows.parts_shed();
        for row in self.flows.interval(open) {
            self.push(row);
        }
        if before == 0 && self.flows.parts_shed() > 0 {
            let text = format!(
                "more than {MAX_PARTS} flows carried much traffic in an interval: only the sums of the others are kept"
            );
            self.health.note(open.until, "store", text);
        }
        Ok(())
    }

    fn record(&mut self, flow: &FlowIdentity, record: &Record<'_>) -> io::Result<()> {
        let row = self.maker.record(flow, record);
        self.push(row);
        Ok(())
    }

    fn event(&mut self, event: &Event) -> io::Result<()> {
        self.health.keep_event(weir_output::event::web(event));
        Ok(())
    }

    fn muted_event(&mut self, event: &Event, mute: u64) -> io::Result<()> {
        self.health.keep_event(web::Event { muted: Some(mute), ..weir_output::event::web(event) });
        Ok(())
    }

    fn failure(&self) -> &'static EventKind {
        &STORE_FAILED
    }

    fn flush(&mut self) -> io::Result<()> {
        self.write()
    }

    fn finish(&mut self) -> io::Result<()> {
        self.is_ending = true;
        let written = self.write();
        if self.failing.is_some() {
            let waiting = self.rows.len() + self.intervals.len();
            self.health.lost(waiting as u64);
        }
        // Readers find complete files, without a log that has to be read first.
        for connection in
            [Some(&self.main), self.partition.as_ref().map(Partition::connection)].into_iter().flatten()
        {
            let _ = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
        }
        match self.health.lost_rows() {
            0 => written,
            lost => Err(io::Error::other(format!("{}: {lost} rows lost", self.folder.display()))),
        }
    }
}
