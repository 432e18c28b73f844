//! An output that is open, and the functions whose rows it takes.

use crate::database;
use crate::delivered::Delivered;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use weir_api::AnswerId;
use weir_engine::AllRows;
use weir_output::{Log, Output};
use weir_wire::Time;

/// A function that delivers rows to an output, until a packet time if its subscription is removed or the log moves to another
/// directory.
struct Source {
    function: AnswerId,
    /// Whether it delivers events, too.
    events: bool,
    ends: Option<Time>,
}

impl Source {
    fn covers(&self, time: Time) -> bool {
        self.ends.is_none_or(|ends| time < ends)
    }
}

/// The functions that deliver all rows of the logs of a run, with what each delivers.
pub type RowSources = Vec<(AnswerId, AllRows)>;

/// An output, and the functions that deliver rows to it.
pub struct OpenOutput {
    /// Its name, by which subscriptions choose the outputs of their readings.
    name: &'static str,
    /// Directory of its files.
    folder: PathBuf,
    /// The output.
    pub output: Box<dyn Output>,
    /// What is counted of its rows.
    delivered: Arc<Delivered>,
    sources: Vec<Source>,
    /// Its log; `None` for the store of the pages and for servers of events, which are open until the end of the run.
    log: Option<Log>,
    /// The packet time at which its log is removed.
    ends: Option<Time>,
}

impl OpenOutput {
    fn new(name: &'static str, output: Box<dyn Output>, delivered: Arc<Delivered>) -> Self {
        let (folder, sources) = (PathBuf::new(), Vec::new());
        Self { name, folder, output, delivered, sources, log: None, ends: None }
    }

    /// The store of the pages.
    pub fn of_pages(output: Box<dyn Output>, delivered: Arc<Delivered>) -> Self {
        Self::new(database::OUTPUT.name, output, delivered)
    }

    /// A server that events are sent to, which has no files.
    pub fn of_server(name: &'static str, output: Box<dyn Output>, delivered: Arc<Delivered>) -> Self {
        Self::new(name, output, delivered)
    }

    /// A log in a directory.
    pub fn of_log(folder: &Path, log: &Log, output: Box<dyn Output>, delivered: Arc<Delivered>) -> Self {
        let (folder, log_name) = (folder.to_owned(), log.spec().name);
        Self { folder, log: Some(log.clone()), ..Self::new(log_name, output, delivered) }
    }

    /// Counts a row that it was given.
    pub fn count(&self, is_written: bool) {
        match is_written {
            true => self.delivered.write(1, 0),
            false => self.delivered.lose(1),
        }
    }

    /// Counts an event that it is to be given.
    pub fn offer(&self) {
        self.delivered.offer(1);
    }

    /// Whether one of these functions delivers a row of a time to it.
    pub fn is_fed_by(&self, functions: &[AnswerId], time: Time) -> bool {
        self.sources.iter().any(|source| source.covers(time) && functions.contains(&source.function))
    }

    /// Whether events whose last finding has that time are delivered to it.
    pub fn has_events(&self, last: Time) -> bool {
        self.sources.iter().any(|source| source.events && source.covers(last))
    }

    /// Whether it keeps events that a mute hides.
    pub fn keeps_muted(&self) -> bool {
        self.name == database::OUTPUT.name
    }

    /// Whether it is the output of a log in a directory, whatever the rows; `None` if it has nothing to do with the log.
    /// `Some(false)` if another log has one of its files open.
    pub fn writes(&self, folder: &Path, log: &Log) -> Option<bool> {
        let mine = self.log.as_ref().filter(|_| self.folder == folder)?;
        let is_same = mine.spec().name == log.spec().name;
        (is_same || mine.shares(log).is_some()).then_some(is_same)
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Takes the rows of the functions of a plan, whose logs are in a directory, from a packet time on.
    pub fn follow(&mut self, folder: Option<&Path>, logs: &[Log], rows: &RowSources, from: Time) {
        let mut stays = true;
        if let Some(log) = &mut self.log {
            let is_here = folder == Some(self.folder.as_path());
            let next = logs.iter().find(|next| is_here && next.spec().name == log.spec().name);
            match next {
                Some(next) => (*log, self.ends) = (next.clone(), None),
                None => {
                    self.ends.get_or_insert(from);
                }
            }
            stays = next.is_some();
        }
        let mine = || rows.iter().filter(|(_, rows)| stays && *rows.log == *self.name);
        for source in &mut self.sources {
            if mine().all(|(function, _)| *function != source.function) {
                source.ends.get_or_insert(from);
            }
        }
        for (function, rows) in mine() {
            let goes_on = |source: &Source| source.function == *function && source.ends.is_none();
            if !self.sources.iter().any(goes_on) {
                self.sources.push(Source { function: *function, events: rows.events, ends: None });
            }
        }
    }

    /// Forgets the functions that ended before a time. Returns whether its log was removed before it, so that the output is to end.
    pub fn has_ended(&mut self, now: u64) -> bool {
        let is_over = |ends: Option<Time>| ends.is_some_and(|ends| ends.0 <= now);
        if is_over(self.ends) {
            return true;
        }
        self.sources.retain(|source| !is_over(source.ends));
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;
    use weir_api::{Snapshot, SubscriptionId};
    use weir_engine::Tables;
    use weir_output::OUTPUTS;

    struct Nothing;

    impl Output for Nothing {
        fn interval(&mut self, _: &Snapshot) -> io::Result<()> {
            Ok(())
        }
    }

    fn log(text: &str) -> Log {
        Log::find(OUTPUTS, text).unwrap()
    }

    /// A function, by the number of its subscription, that delivers all rows of a log.
    fn rows(number: u32, log: &str) -> (AnswerId, AllRows) {
        let id = AnswerId { subscription: SubscriptionId(number), place: 0 };
        (id, AllRows { log: log.into(), flows: true, events: number == 1, tables: Tables::All })
    }

    /// Whether an output takes the rows of functions 1 and 2, and events, of a time.
    fn takes(output: &OpenOutput, time: u64) -> [bool; 3] {
        let [one, two] = [1, 2].map(|number| output.is_fed_by(&[rows(number, "csv").0], Time(time)));
        [one, two, output.has_events(Time(time))]
    }

    #[test]
    fn functions_change_at_a_packet_time_and_the_output_ends_when_its_log_is_removed() {
        let folder = Path::new("/logs");
        let mut output = OpenOutput::of_log(folder, &log("csv"), Box::new(Nothing), Arc::default());
        assert_eq!(takes(&output, 4), [false; 3]);
        let (one, two) = (vec![rows(1, "csv"), rows(2, "eve")], vec![rows(2, "csv"), rows(1, "eve")]);
        output.follow(Some(folder), &[log("csv")], &one, Time(5));
        output.follow(Some(folder), &[log("csv")], &one, Time(6));
        assert_eq!(takes(&output, 9), [true, false, true]);
        output.follow(Some(folder), &[log("eve"), log("csv:dns")], &two, Time(10));
        assert_eq!((takes(&output, 9), takes(&output, 10)), ([true; 3], [false, true, false]));
        assert!(!output.has_ended(10) && output.sources.len() == 1);
        // Removed, and added again before it has ended: it stays open.
        output.follow(None, &[], &Vec::new(), Time(20));
        assert_eq!((takes(&output, 19), takes(&output, 20)), ([false, true, false], [false; 3]));
        output.follow(Some(folder), &[log("csv:flow")], &one, Time(30));
        assert!(!output.has_ended(20) && output.writes(folder, &log("csv")) == Some(true));
        assert_eq!((takes(&output, 29), takes(&output, 30)), ([true, false, true], [true, false, true]));
        // The log is in another directory from now on.
        output.follow(Some(Path::new("/other")), &[log("csv:flow")], &one, Time(40));
        assert_eq!((takes(&output, 39), takes(&output, 40)), ([true, false, true], [false; 3]));
        assert!(!output.has_ended(39) && output.has_ended(40));
    }

    #[test]
    fn two_logs_never_have_one_file_open_and_the_pages_have_no_end() {
        let folder = Path::new("/logs");
        let mon = OpenOutput::of_log(folder, &log("mon"), Box::new(Nothing), Arc::default());
        let writes = |folder: &str, text: &str| mon.writes(Path::new(folder), &log(text));
        assert_eq!(
            ["mon", "mon-paper", "csv"].map(|text| writes("/logs", text)),
            [Some(true), Some(false), None]
        );
        assert_eq!(writes("/other", "mon"), None);
        let mut pages = OpenOutput::of_pages(Box::new(Nothing), Arc::default());
        pages.follow(None, &[], &vec![rows(1, "store")], Time(1));
        assert!(!pages.has_ended(2) && takes(&pages, 2) == [true, false, true]);
        assert_eq!(pages.writes(folder, &log("csv")), None);
    }
}
