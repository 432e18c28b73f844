//! An output that is open, and the logs whose rows it takes.

use crate::database;
use crate::delivered::Delivered;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use weir_output::{Log, Output};
use weir_proto::Table;
use weir_wire::Time;

/// The rows of a log, until a packet time if the log is removed or has other rows from then on.
struct Selection {
    log: Log,
    ends: Option<Time>,
}

impl Selection {
    fn covers(&self, time: Time) -> bool {
        self.ends.is_none_or(|ends| time < ends)
    }
}

/// An output and the rows that it takes.
pub struct OpenOutput {
    /// Its name, by which subscriptions choose the outputs of their readings.
    name: &'static str,
    /// Folder of its files.
    folder: PathBuf,
    /// The output.
    pub output: Box<dyn Output>,
    /// What is counted of its rows.
    delivered: Arc<Delivered>,
    /// Its logs, one after another; empty for the store of the pages and for syslog, which take all rows until the end.
    selections: Vec<Selection>,
}

impl OpenOutput {
    /// The store of the pages.
    pub fn of_pages(folder: &Path, output: Box<dyn Output>, delivered: Arc<Delivered>) -> Self {
        Self {
            name: database::OUTPUT.name,
            folder: folder.to_owned(),
            output,
            delivered,
            selections: Vec::new(),
        }
    }

    /// An output without a folder, which takes all rows until the end.
    pub fn of_all(output: Box<dyn Output>, delivered: Arc<Delivered>) -> Self {
        Self { name: "syslog", folder: PathBuf::new(), output, delivered, selections: Vec::new() }
    }

    /// A log in a folder.
    pub fn of_log(folder: &Path, log: &Log, output: Box<dyn Output>, delivered: Arc<Delivered>) -> Self {
        let selections = vec![Selection { log: log.clone(), ends: None }];
        Self { name: log.spec().name, folder: folder.to_owned(), output, delivered, selections }
    }

    /// Counts a row that it took.
    pub fn count(&self, is_written: bool) {
        self.delivered.offer(1);
        match is_written {
            true => self.delivered.write(1, 0),
            false => self.delivered.lose(1),
        }
    }

    /// Whether it takes a record of a table and a time.
    pub fn takes_record(&self, table: &'static Table, time: Time) -> bool {
        let takes = |one: &Selection| one.covers(time) && one.log.tables().contains(&table);
        self.selections.is_empty() || self.selections.iter().any(takes)
    }

    /// Whether it takes a flow whose last packet has that time.
    pub fn takes_flow(&self, last: Time) -> bool {
        let takes = |one: &Selection| one.covers(last) && one.log.flows();
        self.selections.is_empty() || self.selections.iter().any(takes)
    }

    /// Whether it takes a row of an event whose last finding has that time.
    pub fn takes_event(&self, last: Time) -> bool {
        let takes = |one: &Selection| one.covers(last) && one.log.events();
        self.selections.is_empty() || self.selections.iter().any(takes)
    }

    /// Whether it is the output of a log in a folder, whatever the rows; `None` if it has nothing to do with the log.
    /// `Some(false)` if another log has one of its files open.
    pub fn writes(&self, folder: &Path, log: &Log) -> Option<bool> {
        let mine = &self.selections.first().filter(|_| self.folder == folder)?.log;
        let is_same = mine.spec().name == log.spec().name;
        (is_same || mine.shares(log).is_some()).then_some(is_same)
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Takes the rows of the logs in a folder from a packet time on.
    pub fn follow(&mut self, folder: Option<&Path>, logs: &[Log], from: Time) {
        let Some(last) = self.selections.last() else { return };
        let is_here = folder == Some(self.folder.as_path());
        let new = logs.iter().find(|log| is_here && log.spec().name == last.log.spec().name);
        if last.ends.is_none() && new.is_some_and(|new| new.text() == last.log.text()) {
            return;
        }
        for one in &mut self.selections {
            one.ends.get_or_insert(from);
        }
        self.selections.extend(new.map(|log| Selection { log: log.clone(), ends: None }));
    }

    /// Forgets the rows that ended before a time. Returns whether there are no others, so that the output is to end.
    pub fn has_ended(&mut self, now: u64) -> bool {
        let has_logs = !self.selections.is_empty();
        let remains = |one: &Selection| one.ends.is_none_or(|ends| ends.0 > now);
        let is_over = has_logs && !self.selections.iter().any(remains);
        if !is_over {
            self.selections.retain(remains);
        }
        is_over
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;
    use weir_api::Snapshot;
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

    /// Whether an output takes records of DNS and HTTP, and flows, of a time.
    fn takes(output: &OpenOutput, time: u64) -> [bool; 3] {
        let [dns, http] = ["dns", "http"].map(|name| {
            let table = weir_proto::tables().find(|table| table.name == name).unwrap();
            output.takes_record(table, Time(time))
        });
        [dns, http, output.takes_flow(Time(time))]
    }

    #[test]
    fn rows_change_at_a_packet_time_and_the_output_ends_after_the_last_of_them() {
        let folder = Path::new("/logs");
        let mut output = OpenOutput::of_log(folder, &log("csv"), Box::new(Nothing), Arc::default());
        output.follow(Some(folder), &[log("csv")], Time(5));
        assert_eq!(takes(&output, 9), [true; 3]);
        output.follow(Some(folder), &[log("eve"), log("csv:dns")], Time(10));
        assert_eq!((takes(&output, 9), takes(&output, 10)), ([true; 3], [true, false, false]));
        assert!(!output.has_ended(10));
        // Removed, and added again before it has ended: it stays open.
        output.follow(None, &[], Time(20));
        assert_eq!((takes(&output, 19), takes(&output, 20)), ([true, false, false], [false; 3]));
        output.follow(Some(folder), &[log("csv:flow")], Time(30));
        assert!(!output.has_ended(20) && output.writes(folder, &log("csv")) == Some(true));
        assert_eq!(takes(&output, 30), [false, false, true]);
        // The log is in another folder from now on.
        output.follow(Some(Path::new("/other")), &[log("csv:flow")], Time(40));
        assert!(!output.has_ended(39) && output.has_ended(40));
    }

    #[test]
    fn two_logs_never_have_one_file_open_and_the_pages_have_all_rows() {
        let folder = Path::new("/logs");
        let mon = OpenOutput::of_log(folder, &log("mon"), Box::new(Nothing), Arc::default());
        let writes = |folder: &str, text: &str| mon.writes(Path::new(folder), &log(text));
        assert_eq!(
            ["mon", "mon-paper", "csv"].map(|text| writes("/logs", text)),
            [Some(true), Some(false), None]
        );
        assert_eq!(writes("/other", "mon"), None);
        let mut pages = OpenOutput::of_pages(folder, Box::new(Nothing), Arc::default());
        pages.follow(None, &[], Time(1));
        assert!(!pages.has_ended(2) && takes(&pages, 2) == [true; 3]);
        assert_eq!(pages.writes(folder, &log("csv")), None);
    }
}
