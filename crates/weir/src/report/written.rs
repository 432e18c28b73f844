//! Reports that a run writes: those of hours, days and weeks that end, and those under way.
//!
//! They are read from the store as `weir report` reads it, by a thread that the collector does not wait for. Each file is replaced as
//! a whole, so that a run that is killed leaves whole files.

use super::gather::{self, Wanted};
use super::text;
use crate::database;
use crate::failures::{Failures, FileTrouble, is_full};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::Duration;
use weir_output::Home;
use weir_output::zone::Zone;
use weir_store::period::Period;
use weir_store::{Store, StoreError};

/// Time between two passes of a live run.
const EVERY: Duration = Duration::from_secs(300);
/// Nanoseconds after its end for which a period is written again: the last interval of it is stored later than it ends.
const LATE: u64 = 300_000_000_000;
/// Maximum number of reports of a kind in a pass: those of a capture of years would take hours. The latest are written.
const MOST: usize = 200;
/// Hosts of a section.
const HOSTS: usize = 20;
/// Hosts with a greater work weight in percent are among the worms, as by default of `--weight`.
const WEIGHT: u64 = 40;

/// Where reports come from and go, and what they call home.
pub struct Folders {
    /// The folder of the store.
    pub store: PathBuf,
    /// The folder of the reports, which is created.
    pub reports: PathBuf,
    /// The networks at home.
    pub home: Home,
}

/// A thread that writes reports during a live run.
pub struct Writing {
    /// Ends the thread when it is dropped.
    end: Sender<()>,
    thread: JoinHandle<Written>,
}

impl Writing {
    /// Begins. What cannot be written is noted.
    pub fn start(folders: Folders, failures: Failures) -> Self {
        Self::start_every(EVERY, folders, failures)
    }

    fn start_every(every: Duration, folders: Folders, failures: Failures) -> Self {
        let (end, is_over) = mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            let mut written = Written { folders, until: None };
            // What was stored before the run was written then.
            written.until = written.stored().ok().flatten().map(|(_, last)| last);
            while is_over.recv_timeout(every) == Err(RecvTimeoutError::Timeout) {
                if let Err(Failure { path, error }) = written.pass(false) {
                    failures.note(&path, FileTrouble::of(is_full(&error)));
                }
            }
            written
        });
        Self { end, thread }
    }

    /// Ends the thread, and writes the reports of the end.
    ///
    /// # Errors
    ///
    /// A report cannot be written, or the store cannot be read.
    pub fn finish(self) -> Result<(), String> {
        drop(self.end);
        match self.thread.join() {
            Ok(mut written) => written.pass(true).map_err(|failure| failure.to_string()),
            Err(_) => Err("reports: their thread failed".to_owned()),
        }
    }
}

/// Writes the reports of all that a run over files has stored.
///
/// # Errors
///
/// As [`Writing::finish`].
pub fn at_end(folders: Folders) -> Result<(), String> {
    Written { folders, until: None }.pass(true).map_err(|failure| failure.to_string())
}

/// A report that was not written.
struct Failure {
    path: PathBuf,
    error: io::Error,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.error)
    }
}

/// What was written.
struct Written {
    folders: Folders,
    /// End of what was stored at the last pass, in nanoseconds since the epoch; `None` if nothing was written.
    until: Option<u64>,
}

impl Written {
    fn stored(&self) -> Result<Option<(u64, u64)>, StoreError> {
        database::read_patiently(&self.folders.store)?.extent()
    }

    /// Writes the reports of the periods that have ended since the last pass, and of those under way. A week under way is written
    /// once an hour, and at the end.
    fn pass(&mut self, is_last: bool) -> Result<(), Failure> {
        let of_store = |error: StoreError| Failure {
            path: self.folders.reports.clone(),
            error: io::Error::other(error.to_string()),
        };
        let store = database::read_patiently(&self.folders.store).map_err(of_store)?;
        let Some(stored) = store.extent().map_err(of_store)? else { return Ok(()) };
        weir_files::make_folders(&self.folders.reports)
            .map_err(|error| Failure { path: self.folders.reports.clone(), error })?;
        let from = self.until.map_or(stored.0, |until| until.saturating_sub(LATE).max(stored.0));
        let is_new_hour = Period::Hour.of(from) != Period::Hour.of(stored.1);
        for period in [Period::Hour, Period::Day, Period::Week] {
            if matches!(period, Period::Week) && !is_new_hour && !is_last {
                continue;
            }
            for span in periods(period, from, stored.1) {
                self.write(&*store, period, span, stored)?;
            }
        }
        self.until = Some(stored.1);
        Ok(())
    }

    fn write(
        &self,
        store: &dyn Store,
        period: Period,
        span: (u64, u64),
        stored: (u64, u64),
    ) -> Result<(), Failure> {
        let path = self.folders.reports.join(name(period, span.0));
        let failed =
            |error: StoreError| Failure { path: path.clone(), error: io::Error::other(error.to_string()) };
        let signatures = database::signatures(&self.folders.store).all().map_err(failed)?;
        let (weight, home) = (WEIGHT, self.folders.home.clone());
        let wanted = Wanted { period, span, zone: Zone::utc(), weight, home, signatures };
        let report = gather::gather(store, wanted, stored).map_err(failed)?;
        put(&path, &text::text(&report, HOSTS)).map_err(|error| Failure { path, error })
    }
}

fn put(path: &Path, text: &str) -> io::Result<()> {
    weir_files::replace(path, text.as_bytes())
}

/// The latest periods of a kind that have a part of a time, the earliest first.
fn periods(period: Period, from: u64, until: u64) -> Vec<(u64, u64)> {
    let mut spans = Vec::new();
    let mut at = until.saturating_sub(1).max(from);
    while spans.len() < MOST {
        let span = period.of(at);
        spans.push(span);
        match span.0.checked_sub(1) {
            Some(before) if span.0 > from => at = before,
            _ => break,
        }
    }
    spans.reverse();
    spans
}

/// `hosts-hour-2026-11-29T10.txt`, or with the date of a day or of the Monday of a week, in UTC.
fn name(period: Period, begin: u64) -> String {
    let time = Zone::utc().date_time(begin);
    let date: String = time.chars().take("2026-11-29".len()).collect();
    let hour: String = time.chars().skip("2026-11-29 ".len()).take(2).collect();
    match period {
        Period::Hour => format!("hosts-hour-{date}T{hour}.txt"),
        Period::Day | Period::Week => format!("hosts-{}-{date}.txt", period.name()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: u64 = 3_600_000_000_000;

    /// A report that cannot be written is a failure by its name, each time, and those that can be are written once their place is there.
    #[test]
    fn a_report_that_cannot_be_written_is_an_event_and_the_thread_goes_on() {
        let folder = tempfile::tempdir().unwrap();
        let [store, reports] = ["store", "reports"].map(|name| folder.path().join(name));
        database::made(&store, (480_000 * HOUR, 480_002 * HOUR));
        let name = name(Period::Hour, 480_001 * HOUR);
        // A directory with the name of a report is not replaced.
        let place = reports.join(&name);
        std::fs::create_dir_all(place.join("x")).unwrap();
        let failures = Failures::default();
        let folders = Folders { store, reports: reports.clone(), home: Home::default() };
        let writing = Writing::start_every(Duration::from_millis(1), folders, failures.clone());
        let take = || loop {
            let events = failures.take();
            if !events.is_empty() {
                break events;
            }
            std::thread::yield_now();
        };
        for _ in 0..2 {
            let events = take();
            let found: Vec<_> =
                events.iter().map(|event| (event.kind.name, event.subject.to_string())).collect();
            assert_eq!(found, [("output_failed", name.clone())]);
        }
        std::fs::remove_dir_all(&place).unwrap();
        writing.finish().unwrap();
        assert!(place.is_file());
    }

    #[test]
    fn periods_are_those_with_a_part_of_the_time_and_names_are_of_their_begin() {
        let day = 1_795_305_600_000_000_000;
        let hours = periods(Period::Hour, day + HOUR / 2, day + 2 * HOUR);
        assert_eq!(hours, [(day, day + HOUR), (day + HOUR, day + 2 * HOUR)]);
        assert_eq!(periods(Period::Hour, day, day + 1), [(day, day + HOUR)]);
        assert_eq!(periods(Period::Hour, day - 1, day + 1).len(), 2);
        let many = periods(Period::Hour, 0, day);
        assert_eq!((many.len(), many.last()), (MOST, Some(&(day - HOUR, day))));
        assert_eq!(name(Period::Hour, day + 10 * HOUR), "hosts-hour-2026-11-22T10.txt");
        assert_eq!(name(Period::Day, day), "hosts-day-2026-11-22.txt");
        assert_eq!(name(Period::Week, Period::Week.of(day).0), "hosts-week-2026-11-16.txt");
    }
}
