//! Index of a dump's files, for reading them while the dump is written.

use std::collections::{HashSet, VecDeque};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use weir_capture::{FilePlace, PacketWriter};
use weir_store::TimeRange;
use weir_wire::Time;

/// Maximum number of files in the index; beyond it the oldest are removed.
const REMEMBERED: usize = 10_000;
/// Maximum disorder of packets from several rings, in nanoseconds.
const DISORDER: u64 = 10_000_000_000;

/// The files that a dump has started.
#[derive(Clone, Debug, Default)]
pub struct DumpIndex(Arc<Mutex<Begun>>);

#[derive(Debug, Default)]
struct Begun {
    /// Files, the oldest first, each with the time of its first packet.
    files: VecDeque<(Time, FilePlace)>,
    forgotten: u64,
}

/// The files of a time range.
#[derive(Debug, Default, Eq, PartialEq)]
pub struct Files {
    /// Current paths, the oldest first.
    pub paths: Vec<PathBuf>,
    /// Number of files that no longer exist.
    pub gone: u64,
}

/// Reports the files of a writer to the index.
pub struct FileReporter {
    to: DumpIndex,
    /// Number of reported files.
    reported: u64,
}

impl FileReporter {
    /// Adds the writer's current file if it is new. Call it when the writer may have started a file, with the time of
    /// the last packet given to it.
    pub fn look(&mut self, writer: &PacketWriter, last: Time) {
        let files = writer.written().files;
        if files == self.reported {
            return;
        }
        self.reported = files;
        if let Some(place) = writer.place() {
            self.to.begun().begin(last, place.clone());
        }
    }
}

impl DumpIndex {
    /// A reporter to this index.
    pub fn reporter(&self) -> FileReporter {
        FileReporter { to: self.clone(), reported: 0 }
    }

    /// The files that may have packets in a time range.
    pub fn of(&self, span: TimeRange) -> Files {
        self.begun().of(span)
    }

    fn begun(&self) -> MutexGuard<'_, Begun> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Begun {
    fn begin(&mut self, time: Time, place: FilePlace) {
        self.files.push_back((time, place));
        if self.files.len() > REMEMBERED {
            self.files.pop_front();
            self.forgotten += 1;
        }
    }

    fn of(&self, span: TimeRange) -> Files {
        let (mut found, mut known, mut ends) = (Files::default(), HashSet::new(), None);
        let may_have = |begins: u64, ends: Option<u64>| {
            span.from.zip(ends).is_none_or(|(from, ends)| ends.saturating_add(DISORDER) >= from)
                && span.to.is_none_or(|to| begins <= to.saturating_add(DISORDER))
        };
        for (begins, place) in self.files.iter().rev() {
            // A finished file has its final name, or a later file has replaced it. A temporary name is unique.
            let path = if place.written.exists() { &place.written } else { &place.path };
            let length = path.metadata().map(|data| data.len());
            let is_there = known.insert(path) && length.is_ok();
            if may_have(begins.0, ends) {
                found.gone += u64::from(!is_there);
                // A file that has just begun has no header until it is flushed, and so no packets to read.
                let has_header = length.is_ok_and(|bytes| bytes > 0);
                found.paths.extend((is_there && has_header).then(|| path.clone()));
            }
            ends = Some(begins.0);
        }
        if may_have(0, ends) {
            found.gone += self.forgotten;
        }
        found.paths.reverse();
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    const SECOND: u64 = 1_000_000_000;

    fn place(folder: &Path, name: &str) -> FilePlace {
        place_as(folder, name, "1")
    }

    fn place_as(folder: &Path, name: &str, random: &str) -> FilePlace {
        FilePlace { written: folder.join(format!(".{name}.{random}.part")), path: folder.join(name) }
    }

    fn names(files: &Files) -> Vec<String> {
        files.paths.iter().map(|path| path.file_name().unwrap().to_string_lossy().into_owned()).collect()
    }

    /// Three files with two names, as -C with -W 2 writes them.
    #[test]
    fn files_that_were_overwritten_are_counted() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let mut begun = Begun::default();
        let all = TimeRange { from: None, to: None };
        let touch = |name: &str| std::fs::write(folder.join(name), b"x").unwrap();
        let finish = |name: &str, random: &str| {
            std::fs::rename(folder.join(format!(".{name}.{random}.part")), folder.join(name)).unwrap();
        };

        touch(".x0.1.part");
        begun.begin(Time(0), place(folder, "x0"));
        assert_eq!(
            names(&begun.of(all)),
            [".x0.1.part"],
            "an unfinished file is read under its temporary name"
        );
        finish("x0", "1");
        std::fs::write(folder.join(".x1.1.part"), b"").unwrap();
        begun.begin(Time(100 * SECOND), place(folder, "x1"));
        let without_header = begun.of(all);
        assert_eq!((names(&without_header), without_header.gone), (vec!["x0".to_owned()], 0));
        touch(".x1.1.part");
        assert_eq!(names(&begun.of(all)), ["x0", ".x1.1.part"]);
        finish("x1", "1");
        touch(".x0.2.part");
        begun.begin(Time(200 * SECOND), place_as(folder, "x0", "2"));
        assert_eq!(
            names(&begun.of(all)),
            ["x0", "x1", ".x0.2.part"],
            "the old file exists until the new one is complete"
        );
        assert_eq!(begun.of(all).gone, 0);
        finish("x0", "2");
        let last = begun.of(all);
        assert_eq!((names(&last), last.gone), (vec!["x1".to_owned(), "x0".to_owned()], 1));

        // Only files of the requested range, extended for packets out of order.
        let of = |from: u64, to: u64| {
            names(&begun.of(TimeRange { from: Some(from * SECOND), to: Some(to * SECOND) }))
        };
        assert_eq!(of(250, 300), ["x0"]);
        assert_eq!(of(120, 150), ["x1"]);
        assert_eq!(of(205, 300), ["x1", "x0"], "five seconds after the start of the next");
        std::fs::remove_file(folder.join("x1")).unwrap();
        let last = begun.of(all);
        assert_eq!((names(&last), last.gone), (vec!["x0".to_owned()], 2));
        let late = begun.of(TimeRange { from: Some(250 * SECOND), to: None });
        assert_eq!(
            (names(&late), late.gone),
            (vec!["x0".to_owned()], 0),
            "the missing file had no packets of that time"
        );
    }

    #[test]
    fn the_oldest_files_are_removed_from_the_index() {
        let mut begun = Begun::default();
        for n in 0..REMEMBERED as u64 + 5 {
            begun.begin(Time(n), place(Path::new("/nowhere"), &n.to_string()));
        }
        assert_eq!((begun.files.len(), begun.forgotten), (REMEMBERED, 5));
        assert_eq!(begun.of(TimeRange { from: None, to: None }).gone, REMEMBERED as u64 + 5);
    }
}
