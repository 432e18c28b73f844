//! Summary, logs and series of the engine's results.
//!
//! An [`Output`] takes the snapshots and flow rows of a run. [`OUTPUTS`] is the registry, which the command line, the
//! configuration and the manual read. The [`summary`] is text for people, or the same facts as NDJSON. [`figures`],
//! [`zone`] and [`ports`] format numbers, times and ports for all outputs.
//!
//! Text from packets, and from the names of files, is escaped in each format's own way. This crate starts no threads
//! for packets and reads no clock. It opens files, because a format decides what of a file can be repaired.
//!
//! ```
//! use std::sync::Arc;
//! use weir_api::{Answer, AnswerId, AnswerLabel, Count, Interval, Reading, Snapshot};
//! use weir_output::{OutputContext, OutputSpec};
//!
//! let folder = tempfile::tempdir().unwrap();
//! let context = OutputContext { directory: folder.path().to_owned(), ..OutputContext::default() };
//! let mut csv = (OutputSpec::find("csv").unwrap().open)(&context).unwrap();
//! let label = AnswerLabel {
//!     subscription: "dns".to_owned(),
//!     function: "packets".to_owned(),
//!     ..AnswerLabel::default()
//! };
//! let answer = Answer {
//!     id: AnswerId::default(),
//!     label: Arc::new(label),
//!     reading: Reading::Count(Count { packets: 3, bytes: 240 }),
//!     nanoseconds: 0,
//! };
//! let interval = Interval { start: 0, end: 30_000_000_000 };
//! csv.interval(&Snapshot { interval, answers: vec![answer], ..Snapshot::default() }).unwrap();
//! csv.finish().unwrap();
//! let rows = std::fs::read_to_string(folder.path().join("counts.csv")).unwrap();
//! assert!(rows.lines().last().unwrap().contains("dns,,packets,,3,240"), "{rows}");
//! ```

#![forbid(unsafe_code)]

mod alert;
mod alert_text;
mod aligned;
mod applications;
mod assigned;
pub mod csv;
mod day;
mod destination;
mod eve;
pub mod event;
mod fast;
pub mod figures;
mod file;
#[cfg(test)]
mod fixtures;
pub mod format;
mod home;
pub mod json;
mod log;
pub mod metrics;
pub mod model;
mod mon;
mod named;
pub mod ndjson;
mod open;
#[cfg(feature = "parquet")]
pub mod parquet;
pub mod ports;
pub mod records;
mod replaced;
pub mod report;
pub mod row;
mod signatures;
mod snort;
mod standard;
pub mod summary;
pub mod syslog;
mod text;
mod zeek;
pub mod zone;

pub use aligned::aligned;
pub use applications::{Applications, Service};
pub use assigned::assigned;
pub use destination::Existing;
pub use file::Rolling;
pub use home::Home;
pub use log::Log;
pub use mon::{TriggerThreshold, WormCount, WormOrder, Worms};
pub use named::{check_name, named};
pub use open::{OpenFlow, OpenFlows};
pub use signatures::{PortSignature, SIGNATURE_WEIGHT};
pub use weir_engine::{FlowIdentity, FlowRecord, fields, flow_fields};

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use weir_api::event::OUTPUT_FAILED;
use weir_api::{Event, EventKind, Snapshot};
use weir_proto::{Field, Record, Table};
use zone::Zone;

/// Writes the results of a run.
///
/// A full disk does not end the output: rows wait in bounded memory, rows without room are counted, and writing
/// continues when space returns. Errors therefore come from [`Output::interval`], [`Output::flush`] and
/// [`Output::finish`], once each time that writing begins to fail, and callers continue to offer rows after them.
pub trait Output: Send {
    /// Takes the readings of a finished interval.
    ///
    /// # Errors
    ///
    /// Something could not be written; the error names the file and the reason.
    fn interval(&mut self, snapshot: &Snapshot) -> io::Result<()>;

    /// Takes readings over an interval that is longer than the run's: those of subscriptions with an interval of their
    /// own. By default, an output that takes the readings of every interval has no use for them.
    ///
    /// # Errors
    ///
    /// As [`Output::interval`].
    fn readings(&mut self, snapshot: &Snapshot) -> io::Result<()> {
        let _ = snapshot;
        Ok(())
    }

    /// Takes a finished flow; rows come ordered by time and key within an interval.
    ///
    /// # Errors
    ///
    /// None of the outputs in this crate returns one.
    fn flow(&mut self, flow: &FlowRecord) -> io::Result<()> {
        let _ = flow;
        Ok(())
    }

    /// Takes a finished flow with the name that the initiator had resolved for the responder, if it is known.
    ///
    /// # Errors
    ///
    /// As [`Output::flow`].
    fn named_flow(&mut self, flow: &FlowRecord, name: Option<&str>) -> io::Result<()> {
        let _ = name;
        self.flow(flow)
    }

    /// Takes the flows that are open at the end of an interval and had a packet in it. They come after the flows that ended in the
    /// interval.
    ///
    /// # Errors
    ///
    /// As [`Output::flow`].
    fn open_flows(&mut self, open: &OpenFlows<'_>) -> io::Result<()> {
        let _ = open;
        Ok(())
    }

    /// Takes a record of a protocol; records come in the order of rows too.
    ///
    /// # Errors
    ///
    /// None of the outputs in this crate returns one.
    fn record(&mut self, flow: &FlowIdentity, record: &Record<'_>) -> io::Result<()> {
        let _ = (flow, record);
        Ok(())
    }

    /// Takes an event that has begun, goes on or has ended.
    ///
    /// # Errors
    ///
    /// None of the outputs in this crate returns one.
    fn event(&mut self, event: &Event) -> io::Result<()> {
        let _ = event;
        Ok(())
    }

    /// Takes an event that a mute hides, with the number of the mute. Only an output that people ask about it later keeps it.
    ///
    /// # Errors
    ///
    /// As [`Output::event`].
    fn muted_event(&mut self, event: &Event, mute: u64) -> io::Result<()> {
        let _ = (event, mute);
        Ok(())
    }

    /// The kind of event that a failure of this output is, unless its disk is full.
    fn failure(&self) -> &'static EventKind {
        &OUTPUT_FAILED
    }

    /// Writes the waiting rows: called every second and at the end of an interval.
    ///
    /// # Errors
    ///
    /// As [`Output::interval`].
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Ends the files that have lines, renames them with the time of their last line or `now`, in nanoseconds since
    /// the epoch, whichever is later, and begins new ones. A file that was renamed from outside keeps its name.
    ///
    /// # Errors
    ///
    /// As [`Output::interval`].
    fn roll(&mut self, now: u64) -> io::Result<()> {
        let _ = now;
        Ok(())
    }

    /// Ends the files: writes footers and renames files to their final names.
    ///
    /// # Errors
    ///
    /// As [`Output::interval`]; also if rows were lost, with their number.
    fn finish(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Description of an output.
pub struct OutputSpec {
    /// Its name on the command line and in the configuration.
    pub name: &'static str,
    /// One line for the manual.
    pub help: &'static str,
    /// The files that it always writes into the directory. Files of records come with the first record of a kind.
    pub files: &'static [&'static str],
    /// Whether it is one file of lines, each an object of JSON, which may be standard output instead.
    pub is_stream: bool,
    /// Whether it writes flow rows: if no output does, none are built.
    pub flows: bool,
    /// Its name for rows of events; "" if it writes none.
    pub events: &'static str,
    /// Whether it writes the records of a table. Records that no output writes are not built, and if no output writes
    /// records, streams are not reassembled.
    pub has: fn(&Table) -> bool,
    /// Whether it writes a field of a record.
    pub shows: fn(&Field) -> bool,
    /// Which readings of subscriptions it writes.
    pub takes: Takes,
    /// Opens the output.
    pub open: fn(&OutputContext) -> io::Result<Box<dyn Output>>,
}

/// The readings that an output writes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Takes {
    /// Only those that it knows.
    Known,
    /// Those of every interval of the run: it adds them up itself.
    Every,
    /// Those of the interval of each subscription.
    Own,
}

/// The facts about the run that an output needs.
#[derive(Clone, Debug, Default)]
pub struct OutputContext {
    /// The directory of its files. It must exist, unless the output is a stream.
    pub directory: PathBuf,
    /// Whether the lines of its one file go to standard output; only for outputs of which [`OutputSpec::is_stream`] is true.
    pub is_stream: bool,
    /// Treatment of existing files.
    pub existing: Existing,
    /// Rotation of files.
    pub rolling: Rolling,
    /// Bytes of rows and names that a store may keep in memory until they are written; 0 for 64 MiB.
    pub memory: usize,
    /// Key of the hashes of distinct counts, for a store that keeps it for the runs after this one; `None` for a run over files,
    /// whose key is fixed.
    pub distinct_seed: Option<u128>,
    /// Time zone of times for people.
    pub zone: Zone,
    /// The command that began the run.
    pub command: String,
    /// Start of the run in nanoseconds since the epoch, for facts without a packet's time, so that equal packets give
    /// equal files.
    pub start: u64,
    /// Length of a whole interval in nanoseconds, if known: the first and the last interval are often shorter.
    pub interval: u64,
    /// A monotonic clock in nanoseconds, by which failed writes are retried once a second. Without a clock they are
    /// retried at each call.
    pub clock: Option<fn() -> u64>,
    /// Set when the run is to end: long operations that have not begun are then skipped.
    pub stop: Option<Arc<AtomicBool>>,
    /// The report of hosts that may be worms.
    pub worms: Worms,
    /// The home networks, if they are set; empty where addresses are not the true ones.
    pub home: Option<Home>,
    /// The name of the probe in Ourmon's mon.lite; empty without one.
    pub sysname: String,
    /// The triggers that compare a number, of which mon.lite has texts.
    pub triggers: Vec<TriggerThreshold>,
}

/// Every output of this crate, in the order of the manual.
pub static OUTPUTS: &[&OutputSpec] = &[
    &zeek::ZEEK,
    &zeek::ZEEK_JSON,
    &eve::EVE,
    &fast::FAST,
    &snort::SNORT_FULL,
    &snort::SNORT_CSV,
    &csv::CSV,
    &text::TEXT,
    &ndjson::NDJSON,
    &day::EVENTS,
    #[cfg(feature = "parquet")]
    &parquet::log::PARQUET,
    &metrics::METRICS,
    &mon::MON,
    &mon::MON_PAPER,
];

impl OutputSpec {
    /// The output of that name; the error lists all names.
    ///
    /// # Errors
    ///
    /// The name is unknown.
    pub fn find(name: &str) -> Result<&'static OutputSpec, String> {
        Self::find_in(OUTPUTS, name)
    }

    /// The output of that name among these; the error lists their names.
    ///
    /// # Errors
    ///
    /// The name is unknown.
    pub fn find_in(outputs: &[&'static OutputSpec], name: &str) -> Result<&'static OutputSpec, String> {
        outputs.iter().find(|spec| spec.name == name).copied().ok_or_else(|| {
            let names: Vec<&str> = outputs.iter().map(|spec| spec.name).collect();
            if name == "parquet" {
                return "this program is built without the feature `parquet`, which the log parquet needs; packages have \
                        it: make package, or cargo build --release -p weir --features parquet"
                    .to_owned();
            }
            format!("no log {name:?}; there are {}", names.join(", "))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::path::Path;

    fn context(directory: &Path, existing: Existing) -> OutputContext {
        OutputContext { directory: directory.to_owned(), existing, ..OutputContext::default() }
    }

    /// The outputs with files of lines: Parquet files have their own tests.
    fn of_lines() -> impl Iterator<Item = &'static &'static OutputSpec> {
        OUTPUTS.iter().filter(|spec| spec.name != "parquet")
    }

    fn write(spec: &OutputSpec, directory: &Path, existing: Existing) {
        let mut output = (spec.open)(&context(directory, existing)).unwrap();
        output.flow(&fixtures::flow()).unwrap();
        output.flush().unwrap();
        output.flow(&fixtures::ping()).unwrap();
        output.record(&fixtures::identity(), &fixtures::record()).unwrap();
        output.record(&fixtures::identity(), &fixtures::alert("x")).unwrap();
        let mut snapshot = fixtures::snapshot();
        // Its columns are in a file that other readings do not have.
        snapshot.answers.push(fixtures::answer("scans", None, "scans", fixtures::scans()));
        output.interval(&snapshot).unwrap();
        for event in fixtures::events().iter().chain([&fixtures::full_disk()]) {
            output.event(event).unwrap();
        }
        output.finish().unwrap();
    }

    #[test]
    fn names_are_unique_well_formed_and_have_help() {
        let mut names = BTreeSet::new();
        for spec in OUTPUTS {
            assert!(spec.name.chars().all(|c| c.is_ascii_lowercase() || c == '-'), "{}", spec.name);
            assert!(names.insert(spec.name), "{} twice", spec.name);
            assert!(spec.help.ends_with('.'), "{}", spec.name);
            assert_eq!(OutputSpec::find(spec.name).unwrap().name, spec.name);
        }
        let error = OutputSpec::find("zek").err().unwrap();
        assert!(error.contains("\"zek\"") && error.contains("zeek-json"), "{error}");
    }

    #[test]
    fn two_outputs_never_share_a_file() {
        let names = |logs: Vec<Log>| logs.iter().map(|log| log.spec().name).collect::<Vec<_>>();
        assert_eq!(Log::find_all(OUTPUTS, ["eve", "zeek", "eve"]).map(names), Ok(vec!["eve", "zeek"]));
        let error = Log::find_all(OUTPUTS, ["mon", "csv", "mon-paper"]).err().unwrap();
        assert_eq!(error, "logs mon and mon-paper both write mon.lite: choose one of them");
        let error = Log::find_all(OUTPUTS, ["eve:http", "eve:dns"]).err().unwrap();
        assert_eq!(error, "logs eve:http and eve:dns both write eve.json: choose one of them");
        assert!(Log::find_all(OUTPUTS, ["x"]).is_err());
    }

    #[test]
    fn each_writes_the_files_that_it_names_again_at_each_run() {
        for spec in of_lines() {
            let [one, two] = [(); 2].map(|()| tempfile::tempdir().unwrap());
            write(spec, one.path(), Existing::Replace);
            write(spec, two.path(), Existing::Replace);
            let mut found = BTreeSet::new();
            for entry in std::fs::read_dir(one.path()).unwrap() {
                let name = entry.unwrap().file_name().into_string().unwrap();
                let [a, b] =
                    [&one, &two].map(|directory| std::fs::read(directory.path().join(&name)).unwrap());
                assert!(a == b && a.ends_with(b"\n"), "{name}");
                found.insert(name);
            }
            let of_records: &[&str] = match spec.name {
                "zeek" => &["alert.log", "notice.log", "weir.log"],
                "zeek-json" => &["alert.json", "notice.json", "weir.json"],
                "csv" => &["alert.csv", "anomaly.csv", "events.csv"],
                "text" => &["alert.txt", "anomaly.txt"],
                "events" => &["events.2026-11-21.log"],
                _ => &[],
            };
            let has_records = weir_proto::tables().any(spec.has) || spec.name == "events";
            assert!(of_records.is_empty() || has_records, "{}", spec.name);
            let expected = spec.files.iter().chain(of_records);
            assert_eq!(found, expected.map(|name| (*name).to_owned()).collect(), "{}", spec.name);
        }
    }

    #[test]
    fn every_line_of_json_is_an_object() {
        let directory = tempfile::tempdir().unwrap();
        let mut lines = 0;
        for spec in of_lines() {
            write(spec, directory.path(), Existing::Replace);
            for file in spec.files.iter().filter(|file| file.ends_with("json")) {
                for line in std::fs::read_to_string(directory.path().join(file)).unwrap().lines() {
                    let value: serde_json::Value = serde_json::from_str(line).unwrap();
                    assert!(value.is_object(), "{line}");
                    lines += 1;
                }
            }
        }
        assert_eq!(lines, 2 + (5 + 3) + (1 + 2 + 3 + 10 + 3), "conn.json, eve.json, weir.ndjson");
    }

    /// A process is killed in the middle of a write; the next one continues the file.
    #[test]
    fn a_truncated_file_is_continued_with_whole_lines() {
        for spec in of_lines() {
            let directory = tempfile::tempdir().unwrap();
            write(spec, directory.path(), Existing::Replace);
            for file in spec.files.iter().filter(|file| **file != "mon.lite") {
                let path = directory.path().join(file);
                let whole = std::fs::read(&path).unwrap();
                for cut in (0..whole.len()).step_by(1 + whole.len() / 100) {
                    std::fs::write(&path, &whole[..cut]).unwrap();
                    write(spec, directory.path(), Existing::Continue);
                    let text = std::fs::read_to_string(&path).unwrap();
                    let kept = whole[..cut].iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
                    assert!(text.as_bytes().starts_with(&whole[..kept]), "{file} {cut}");
                    assert!(text.len() > kept && text.ends_with('\n'), "{file} {cut}");
                    if file.ends_with("json") {
                        assert!(
                            text.lines().all(|line| serde_json::from_str::<serde_json::Value>(line).is_ok())
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn an_absent_directory_is_an_error_with_its_name() {
        for spec in of_lines() {
            let opened = (spec.open)(&context(Path::new("/nowhere"), Existing::Replace));
            let error = match opened {
                Ok(mut output) => {
                    output.record(&fixtures::identity(), &fixtures::record()).unwrap();
                    output.event(&fixtures::full_disk()).unwrap();
                    output.interval(&fixtures::snapshot()).unwrap_err()
                }
                Err(error) => error,
            };
            assert!(error.to_string().starts_with("/nowhere/"), "{}: {error}", spec.name);
        }
    }
}
