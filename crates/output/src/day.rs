//! Events as text, a line each, in a file for each day of UTC.

use crate::event::numbers;
use crate::figures::printable;
use crate::file::LineFile;
use crate::zone::rfc3339;
use crate::{Existing, Output, OutputContext, OutputSpec, Takes};
use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use weir_api::{Event, Snapshot};

pub(crate) static EVENTS: OutputSpec = OutputSpec {
    name: "events",
    help: "Events as lines of text, in a file for each day: events.2026-11-21.log, in UTC.",
    files: &[],
    is_stream: false,
    flows: false,
    events: "event",
    has: |_| false,
    shows: |_| false,
    takes: Takes::Known,
    open: |context| Ok(Box::new(Days::new(context))),
};

/// Number of days whose files are open: an event of the last minutes of a day ends on the next one.
const OPEN: usize = 2;

struct Days {
    directory: PathBuf,
    existing: Existing,
    /// The files of the latest days, by the day as in their names.
    files: BTreeMap<String, LineFile>,
    /// The first failure to end or open a file that was not reported yet.
    failure: Option<io::Error>,
    /// Whether no file could be opened when it was last tried, and the lines that were lost by that.
    is_failing: bool,
    lost: u64,
}

impl Days {
    fn new(context: &OutputContext) -> Self {
        let (directory, existing) = (context.directory.clone(), context.existing);
        Self { directory, existing, files: BTreeMap::new(), failure: None, is_failing: false, lost: 0 }
    }

    fn note(&mut self, result: io::Result<()>) {
        if let Err(error) = result {
            self.failure.get_or_insert(error);
        }
    }

    /// The file of a day. Days before the open ones have the earliest that is open: an ended file is not begun again.
    fn of(&mut self, day: String) -> Option<&mut LineFile> {
        let is_over = self.files.len() >= OPEN && self.files.keys().next().is_some_and(|first| day < *first);
        if !is_over && !self.files.contains_key(&day) {
            match LineFile::open(&self.directory, &format!("events.{day}.log"), self.existing) {
                Ok(file) => {
                    self.is_failing = false;
                    self.files.insert(day.clone(), file);
                    if self.files.len() > OPEN
                        && let Some((_, mut ended)) = self.files.pop_first()
                    {
                        self.note(ended.finish());
                    }
                }
                Err(error) if std::mem::replace(&mut self.is_failing, true) => drop(error),
                Err(error) => self.note(Err(error)),
            }
        }
        let found = if is_over { self.files.values_mut().next() } else { self.files.get_mut(&day) };
        if found.is_none() {
            self.lost += 1;
        }
        found
    }

    fn each(&mut self, work: impl Fn(&mut LineFile) -> io::Result<()>) -> io::Result<()> {
        let results: Vec<_> = self.files.values_mut().map(work).collect();
        results.into_iter().for_each(|result| self.note(result));
        self.failure.take().map_or(Ok(()), Err)
    }
}

impl Output for Days {
    fn interval(&mut self, _: &Snapshot) -> io::Result<()> {
        self.flush()
    }

    fn event(&mut self, event: &Event) -> io::Result<()> {
        let time = rfc3339(event.last);
        let day = time.get(..10).unwrap_or(&time).to_owned();
        if let Some(file) = self.of(day) {
            file.line(event.last, |out| out.extend_from_slice(line(event, &time).as_bytes()));
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.each(LineFile::flush)
    }

    /// The files have their last names already. A live run opens them again, in case they were renamed from outside.
    fn roll(&mut self, _: u64) -> io::Result<()> {
        if self.existing == Existing::Replace {
            return self.flush();
        }
        let ended = self.each(LineFile::finish);
        self.files.clear();
        ended
    }

    fn finish(&mut self) -> io::Result<()> {
        let ended = self.each(LineFile::finish);
        self.files.clear();
        match std::mem::take(&mut self.lost) {
            0 => ended,
            lost => {
                let why = ended.err().map(|why| format!(": {why}")).unwrap_or_default();
                Err(io::Error::other(format!("{}: {lost} events were lost{why}", self.directory.display())))
            }
        }
    }
}

/// `TIME SEVERITY KIND STATE SUBJECT: count=N NAME=N...; packets: EXPRESSION`, with the expression that shows its packets if there is one.
fn line(event: &Event, time: &str) -> String {
    let (severity, state) = (event.severity().name(), event.state.name());
    let (kind, subject) = (printable(event.name()), printable(&event.subject.to_string()));
    let numbers = printable(&numbers(event));
    let text = format!("{time} {severity} {kind} {state} {subject}: count={} {numbers}", event.count);
    let packets = event.expression().map(|expression| format!("; packets: {expression}"));
    format!("{}{}", text.trim_end(), packets.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures;
    use std::path::Path;
    use weir_api::event::CLOCK_LEAP;
    use weir_api::{EventState, Folded, Subject};

    const DAY: u64 = 86_400 * 1_000_000_000;

    fn days(directory: &Path, existing: Existing) -> Days {
        Days::new(&OutputContext { directory: directory.to_owned(), existing, ..OutputContext::default() })
    }

    fn at(day: u64) -> Event {
        Event::at(&CLOCK_LEAP, Subject::Sensor, day * DAY)
    }

    /// The days of the files in a directory, each with the days of its lines.
    fn content(directory: &Path) -> Vec<(String, Vec<String>)> {
        let mut files: Vec<_> = std::fs::read_dir(directory)
            .unwrap()
            .flatten()
            .map(|file| {
                let text = std::fs::read_to_string(file.path()).unwrap();
                let lines = text.lines().map(|line| line[8..10].to_owned()).collect();
                (file.file_name().into_string().unwrap(), lines)
            })
            .collect();
        files.sort();
        files
    }

    #[test]
    fn a_line_has_the_facts_of_an_event() {
        let event = Event { state: EventState::End, ..fixtures::events().remove(1) };
        assert_eq!(
            line(&event, &rfc3339(event.last)),
            "2026-11-21T01:46:11.985000000Z warning address_scan end 10.99.0.102 -> tcp/445: count=30 answered=0 failed=30 \
             refused_flows=4 unanswered_flows=26; packets: src host 10.99.0.102 and tcp dst port 445"
        );
        let leap = at(0).with("back", "", Folded::Sum(2));
        assert!(line(&leap, "T").starts_with("T warning clock_leap begin "), "{}", line(&leap, "T"));
        let name = Event::at(&weir_api::event::OUTPUT_FAILED, Subject::Output("a\n\x1b[31mb".into()), 1);
        assert!(!line(&name, "T").contains(char::is_control));
    }

    #[test]
    fn each_day_has_a_file_and_an_event_that_ends_after_midnight_is_in_that_of_its_day() {
        let directory = tempfile::tempdir().unwrap();
        let mut output = days(directory.path(), Existing::Replace);
        // Before the open days, there is the earliest of them.
        for day in [0, 1, 0, 1, 3, 1, 0, 3] {
            output.event(&at(day)).unwrap();
            output.roll(0).unwrap();
        }
        output.finish().unwrap();
        let of = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>();
        let expected = [
            ("events.1970-01-01.log".to_owned(), of(&["01", "01"])),
            ("events.1970-01-02.log".to_owned(), of(&["02", "02", "02", "01"])),
            ("events.1970-01-04.log".to_owned(), of(&["04", "04"])),
        ];
        assert_eq!(content(directory.path()), expected);
        // Another run over files replaces the files that it writes.
        let mut output = days(directory.path(), Existing::Replace);
        output.event(&at(3)).unwrap();
        output.finish().unwrap();
        assert_eq!(content(directory.path())[2].1, ["04"]);
    }

    #[test]
    fn a_live_run_continues_its_files_and_opens_those_anew_that_were_renamed() {
        let directory = tempfile::tempdir().unwrap();
        for _ in 0..2 {
            let mut output = days(directory.path(), Existing::Continue);
            output.event(&at(0)).unwrap();
            output.roll(0).unwrap();
            output.event(&at(0)).unwrap();
            output.finish().unwrap();
        }
        let name = directory.path().join("events.1970-01-01.log");
        assert_eq!(content(directory.path())[0].1.len(), 4);
        let mut output = days(directory.path(), Existing::Continue);
        output.event(&at(0)).unwrap();
        output.flush().unwrap();
        std::fs::rename(&name, directory.path().join("old")).unwrap();
        output.roll(0).unwrap();
        output.event(&at(0)).unwrap();
        output.finish().unwrap();
        let lines: Vec<usize> = content(directory.path()).iter().map(|(_, lines)| lines.len()).collect();
        assert_eq!(lines, [1, 5]);
    }

    #[test]
    fn events_without_a_directory_are_counted() {
        let mut output = days(Path::new("/nowhere"), Existing::Replace);
        output.event(&at(0)).unwrap();
        assert!(output.flush().unwrap_err().to_string().starts_with("/nowhere/events.1970-01-01.log: "));
        output.event(&at(0)).unwrap();
        output.flush().expect("it is reported once");
        assert_eq!(output.finish().unwrap_err().to_string(), "/nowhere: 2 events were lost");
    }
}
