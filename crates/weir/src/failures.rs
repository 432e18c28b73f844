//! What happens to the files that threads of their own write: packet files and extracted files. The collector makes events of
//! it.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use weir_api::event::{DISK_FULL, DUMP_FULL, MAX_EVENTS, OUTPUT_FAILED};
use weir_api::{Event, EventKind, Subject};

/// What happened to a file.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum FileTrouble {
    /// It was not written.
    Failed,
    /// It was not written because its disk is full.
    DiskFull,
    /// It is a file of a trigger, and has reached its limit.
    Full,
}

impl FileTrouble {
    /// The failure of a file that was not written.
    pub fn of(is_disk_full: bool) -> Self {
        if is_disk_full { Self::DiskFull } else { Self::Failed }
    }

    fn kind(self) -> &'static EventKind {
        match self {
            Self::Failed => &OUTPUT_FAILED,
            Self::DiskFull => &DISK_FULL,
            Self::Full => &DUMP_FULL,
        }
    }
}

/// Failures since they were taken last, by file. All clones share them.
#[derive(Clone, Debug, Default)]
pub struct Failures(Arc<Mutex<BTreeMap<(String, FileTrouble), u64>>>);

impl Failures {
    /// Notes what happened to a file. Further files are not noted while there are as many as events can be open.
    pub fn note(&self, path: &Path, failure: FileTrouble) {
        let mut failures = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (name_of(path), failure);
        if failures.len() < MAX_EVENTS || failures.contains_key(&key) {
            *failures.entry(key).or_default() += 1;
        }
    }

    /// The failures since the last call as events without a time, ordered by file.
    pub fn take(&self) -> Vec<Event> {
        let failures = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        let event =
            |((name, failure), count): ((_, FileTrouble), _)| Event { count, ..event(failure.kind(), name) };
        failures.into_iter().map(event).collect()
    }
}

/// The event of an output that was not written, without a time. `kind` is its kind of failure if the disk is not full.
pub fn event_of(kind: &'static EventKind, error: &io::Error) -> Event {
    let text = error.to_string();
    // The message begins with the path.
    let path = text.split(": ").next().unwrap_or_default();
    let kind = if is_full(error) { &DISK_FULL } else { kind };
    event(kind, name_of(Path::new(path)))
}

/// Whether an error means that there is no room for a file.
pub fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

fn event(kind: &'static EventKind, name: String) -> Event {
    Event::at(kind, Subject::Output(name.into()), 0)
}

/// The name of a file without its folder: folders can name a person.
fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_counted_by_file_within_a_bound() {
        let failures = Failures::default();
        for path in ["/home/ann/a.pcap", "/var/a.pcap", "b.pcap"] {
            failures.clone().note(Path::new(path), FileTrouble::DiskFull);
        }
        failures.note(Path::new("b.pcap"), FileTrouble::Failed);
        failures.note(Path::new("c.pcapng"), FileTrouble::Full);
        let found = failures.take();
        let shown: Vec<_> = found.iter().map(|e| (e.kind.name, e.subject.to_string(), e.count)).collect();
        let expected = [
            ("disk_full", "a.pcap", 2),
            ("output_failed", "b.pcap", 1),
            ("disk_full", "b.pcap", 1),
            ("dump_full", "c.pcapng", 1),
        ];
        assert_eq!(shown, expected.map(|(kind, name, count)| (kind, name.to_owned(), count)));
        assert!(failures.take().is_empty());
        for n in 0..2 * MAX_EVENTS {
            failures.note(Path::new(&format!("{n}.pcap")), FileTrouble::Failed);
        }
        assert_eq!(failures.take().len(), MAX_EVENTS);
    }
}
