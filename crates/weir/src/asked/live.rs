//! The thread that asks the store of a live run.

use super::{Findings, Questions};
use crate::failures::{Failures, FileTrouble};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::Duration;
use weir_store::period::Period;

/// Time between two looks at what is stored.
const EVERY: Duration = Duration::from_secs(60);
/// Maximum number of hours for which a look asks, the latest: a store that was not written for months would be read for hours.
const MOST: usize = 24;

/// A thread that asks when an hour has ended.
pub struct Asking {
    /// Ends the thread when it is dropped.
    end: Sender<()>,
    thread: JoinHandle<()>,
}

impl Asking {
    /// Begins. What is found is handed over, and a store that cannot be read is noted.
    pub fn start(questions: Questions, findings: Findings, failures: Failures) -> Self {
        let (end, is_over) = mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            let mut asker = Asker { questions, findings, failures, until: None };
            // What ended before the run was asked then.
            asker.until = asker.questions.stored().ok().flatten().map(|(_, last)| last);
            while is_over.recv_timeout(EVERY) == Err(RecvTimeoutError::Timeout) {
                asker.look();
            }
            asker.look();
        });
        Self { end, thread }
    }

    /// Asks for what has ended since the last look, and ends the thread.
    pub fn finish(self) {
        drop(self.end);
        // A thread that has panicked has said so.
        let _ = self.thread.join();
    }
}

struct Asker {
    questions: Questions,
    findings: Findings,
    failures: Failures,
    /// End of what was stored at the last look, in nanoseconds since the epoch.
    until: Option<u64>,
}

impl Asker {
    fn look(&mut self) {
        let failed = match self.questions.stored() {
            Ok(None) => return,
            Ok(Some((first, last))) => {
                let from = self.until.replace(last).unwrap_or(first);
                ended(from, last).into_iter().any(|hour| self.questions.ask(hour, &self.findings).is_err())
            }
            Err(_) => true,
        };
        if failed {
            self.failures.note(self.questions.folder(), FileTrouble::Failed);
        }
    }
}

/// The latest hours that ended after `from`, and not after `until`.
fn ended(from: u64, until: u64) -> Vec<(u64, u64)> {
    let mut hours = Vec::new();
    let mut end = Period::Hour.of(until).0;
    while end > from && hours.len() < MOST {
        let hour = Period::Hour.of(end - 1);
        hours.push(hour);
        end = hour.0;
    }
    hours.reverse();
    hours
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::asked::Question;
    use weir_output::Home;

    const HOUR: u64 = 3_600_000_000_000;

    /// A look asks once for what has ended since the last one; a store that cannot be read is a failure, and the next look reads it.
    #[test]
    fn a_look_asks_and_a_store_that_cannot_be_read_is_a_failure() {
        let folder = tempfile::tempdir().unwrap();
        let store = folder.path().join("store");
        let questions = Questions::new(&store, &Question::ALL.map(|(_, one)| one), &[], Home::default());
        let (findings, failures) = (Findings::default(), Failures::default());
        let mut asker =
            Asker { questions, findings: findings.clone(), failures: failures.clone(), until: None };
        asker.look();
        let found: Vec<&str> = failures.take().iter().map(|event| event.kind.name).collect();
        assert_eq!((found, asker.until), (vec!["output_failed"], None));
        let day = 1_795_305_600_000_000_000;
        crate::database::made(&store, (day, day + 3 * HOUR));
        asker.look();
        assert_eq!((failures.take().len(), asker.until), (0, Some(day + 3 * HOUR)));
        assert_eq!(findings.take(), (Vec::new(), 0));
    }

    #[test]
    fn an_hour_is_asked_for_once_when_all_of_it_is_stored() {
        let day = 1_795_305_600_000_000_000;
        let hour = |n: u64| (day + n * HOUR, day + (n + 1) * HOUR);
        for (from, until, hours) in [
            (0, HOUR - 1, vec![]),
            (5, HOUR, vec![hour(0)]),
            (HOUR, HOUR, vec![]),
            (HOUR, 2 * HOUR - 1, vec![]),
            (HOUR, 2 * HOUR + 7, vec![hour(1)]),
            (HOUR + 5, 4 * HOUR, vec![hour(1), hour(2), hour(3)]),
        ] {
            assert_eq!(ended(day + from, day + until), hours, "{from} {until}");
        }
        let many = ended(0, day);
        assert_eq!((many.len(), many.last().copied()), (MOST, Some((day - HOUR, day))));
        assert_eq!(ended(0, 0), []);
    }
}
