//! The packet files of functions that deliver: one writer for those at packet level, and one for those whose packets leave late.

use super::Run;
use crate::carve::{Carved, Carving};
use crate::delivered::Delivered;
use crate::dump::{Dump, Ended, FileSpec};
use crate::routes::{LogRoutes, PacketRoutes};
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use weir_api::AnswerId;
use weir_capture::Rotate;
use weir_engine::{NamedFile, Place, Plan, Rotation, Target};

/// The writers of packet files of functions, by level. A writer is started with the first function that needs it.
#[derive(Default)]
pub struct TargetWriters {
    pub(super) writers: [Option<Dump>; 2],
    pub(super) packets: [PacketRoutes; 2],
    /// The directories of the plan's files.
    pub(super) directories: Vec<Directory>,
    /// Those that ended before the run.
    pub(super) ended: Vec<EndedDirectory>,
    /// What is counted of the log of each function.
    pub(super) logs: LogRoutes,
    /// The files of the plan.
    pub(super) files: Vec<(Target, Arc<FileSpec>)>,
    /// The directory of the files.
    pub(super) directory: Option<std::path::PathBuf>,
}

/// A directory of files that are being written.
pub struct Directory {
    pub(super) target: Target,
    /// The functions that keep files in it.
    pub(super) functions: Arc<[AnswerId]>,
    pub(super) carving: Carving,
}

/// A directory whose last files are being written.
pub struct EndedDirectory {
    name: Box<str>,
    is_whole: bool,
    thread: JoinHandle<Carved>,
}

/// The result of a directory.
pub struct Extraction {
    /// The directory.
    pub directory: Box<str>,
    /// Whether it has all files.
    pub is_whole: bool,
    /// Number of files that existed already.
    pub again: u64,
    /// Whether a file could not be written.
    pub has_failed: bool,
}

impl Directory {
    /// Ends it, while the run may go on.
    pub fn end(self) -> EndedDirectory {
        EndedDirectory {
            name: self.target.name().into(),
            is_whole: self.carving.is_whole(),
            thread: self.carving.end(),
        }
    }
}

impl EndedDirectory {
    /// Waits for its last files.
    fn finish(self) -> Extraction {
        let (again, error) = self.thread.join().unwrap_or((0, None));
        let Self { name: directory, is_whole, .. } = self;
        Extraction { directory, is_whole, again, has_failed: error.is_some() }
    }
}

/// Number of writers that a run may have: one for each level at which packets leave for the files of its plan, or of a later one
/// where `may_have` says that it may have such a file.
pub fn writers(plan: &Plan, may_have: [bool; 2]) -> usize {
    let has = |is_late: bool| {
        let is_it = |target: &Target| matches!(target, Target::Packets { of, .. } if of.is_some() == is_late);
        plan.targets().any(|(_, target)| is_it(target))
    };
    let levels = [false, true].into_iter().zip(may_have);
    levels.filter(|(is_late, may_have)| *may_have || has(*is_late)).count()
}

impl Run {
    /// The file of a target; `directory` is that of logs. `None` for a file in it if there is no such directory.
    pub(super) fn file_of(
        &self,
        target: &Target,
        file: &NamedFile,
        directory: Option<&Path>,
    ) -> Option<FileSpec> {
        match (file.place, directory) {
            (Place::Path, _) => {
                let zone = self.zone.time_zone().clone();
                let Rotation { seconds, bytes } = file.rotation;
                let rotate = Rotate { seconds, bytes, files: file.files, zone };
                let (snaplen, counts) = (self.options.snaplen, self.counts_of(target));
                Some(FileSpec::of_option(&file.name, rotate, snaplen, counts))
            }
            (Place::Logs, Some(directory)) => Some(self.file_in(file, directory, self.counts_of(target))),
            (Place::Logs, None) => None,
        }
    }

    /// The file of a target in a directory. Where files follow each other by time, the time is before the ending.
    pub(super) fn file_in(&self, file: &NamedFile, directory: &Path, counts: Arc<Delivered>) -> FileSpec {
        let zone = self.zone.time_zone().clone();
        let name = &file.name;
        let Rotation { seconds, bytes } = file.rotation;
        let path = match (seconds, name.rsplit_once('.')) {
            (Some(_), Some((stem, ending))) => {
                // The whole path is a pattern.
                let directory = directory.to_string_lossy().replace('%', "%%");
                Path::new(&directory).join(format!("{stem}-%Y%m%dT%H%M%S.{ending}"))
            }
            _ => directory.join(&**name),
        };
        let rotate = Rotate { seconds, bytes, files: file.files.filter(|_| bytes.is_some()), zone };
        let kept = file.files.filter(|_| seconds.is_some()).map(|files| files as usize);
        let snaplen = file.snaplen.unwrap_or_default();
        let snaplen = [snaplen, self.options.snaplen].into_iter().filter(|length| *length > 0).min();
        FileSpec::plain(path, rotate, kept, snaplen.unwrap_or_default(), counts)
    }
}

impl TargetWriters {
    /// Whether a packet file is open.
    pub fn has_file(&self, target: &Target) -> bool {
        self.files.iter().any(|(open, _)| open == target)
    }

    /// Whether files are written into a directory.
    pub fn has_directory(&self, target: &Target) -> bool {
        self.directories.iter().any(|open| open.target == *target)
    }

    /// Ends the writers, and returns the results of their packet files and directories.
    pub fn finish(mut self) -> (Vec<Ended>, Vec<Extraction>) {
        // A file is written as long as its specification is known.
        self.packets = Default::default();
        let outcomes = self.writers.into_iter().flatten().flat_map(Dump::finish).collect();
        let last = self.directories.into_iter().map(Directory::end);
        let ended: Vec<EndedDirectory> = self.ended.into_iter().chain(last).collect();
        (outcomes, ended.into_iter().map(EndedDirectory::finish).collect())
    }
}
