//! The packet files of functions that deliver: one writer for those at packet level, and one for those whose packets leave late.

use super::Run;
use crate::carve::Carving;
use crate::delivered::Delivered;
use crate::dump::{Dump, Ended, FileSpec};
use crate::outlet::TargetOutlet;
use std::collections::HashMap;
use std::io;
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
    pub(super) outlets: [TargetOutlet; 2],
    /// The directories of the plan's files, each with its functions.
    pub(super) carvings: Vec<(Target, Arc<[AnswerId]>, Carving)>,
    /// Those that ended before the run.
    pub(super) carved: Vec<JoinHandle<(u64, Option<io::Error>)>>,
    /// What is counted of the log of each function.
    pub(super) logs: Arc<HashMap<AnswerId, Arc<Delivered>>>,
    /// The files of the plan.
    pub(super) files: Vec<(Target, Arc<FileSpec>)>,
    /// The directory of the files.
    pub(super) directory: Option<std::path::PathBuf>,
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
    /// The ways of packets to the files.
    pub fn outlets(&self) -> [TargetOutlet; 2] {
        self.outlets.clone()
    }

    /// What is counted of the log of each function.
    pub fn logs(&self) -> Arc<HashMap<AnswerId, Arc<Delivered>>> {
        Arc::clone(&self.logs)
    }

    /// Ends the writers, and returns the results of their files, and whether a file of a directory could not be written.
    pub fn finish(mut self) -> (Vec<Ended>, bool) {
        // A file is written as long as its specification is known.
        self.outlets = Default::default();
        let outcomes = self.writers.into_iter().flatten().flat_map(Dump::finish).collect();
        let last = self.carvings.into_iter().map(|(.., carving)| carving.end());
        let carved: Vec<_> = self.carved.into_iter().chain(last).collect();
        let failed = carved.into_iter().map(|thread| thread.join().unwrap_or((0, None)));
        (outcomes, failed.filter(|(_, error)| error.is_some()).count() > 0)
    }
}
