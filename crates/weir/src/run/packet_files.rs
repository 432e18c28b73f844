//! The packet files of a run: their writers, and their results.

use super::target_files::{Extraction, TargetWriters};
use super::{Exit, Run};
use crate::carve::{Carver, Carving};
use crate::decisions::Decisions;
use crate::delivered::{DeliveredCount, DestinationKind, Destinations, Row};
use crate::dump::index::DumpIndex;
use crate::dump::{Dump, DumpOptions, Ended, FileSpec, For, Has};
use crate::privileges::{may_create_in, may_write};
use crate::routes::Routes;
use std::path::Path;
use std::sync::Arc;
use weir_api::{Level, SessionCount, Snapshot};
use weir_capture::{InterfaceInfo, WriteError, Written};
use weir_engine::{Place, Plan, Target};
use weir_output::figures::count;

/// The part of all memory in which packets of flows are put in order. It does not depend on the plan, so that the order
/// does not depend on the number of workers.
const REORDER: usize = 64;

/// The writers of a run.
pub struct PacketWriters<'r> {
    pub(super) run: &'r Run,
    pub(super) interfaces: Vec<InterfaceInfo>,
    pub(super) purpose: For,
    /// The packet files of the plan.
    pub(super) targets: TargetWriters,
    /// The files of all matching packets, which the pages read.
    pub(super) dump_index: DumpIndex,
}

/// The results of the packet files and of the directories of files.
pub struct Finished {
    packet_files: Vec<Ended>,
    /// Results of extraction.
    extractions: Vec<Extraction>,
}

impl Run {
    /// Starts a writer of packet files whose packets leave at a level, and opens the `first` of them; `files` is their number at
    /// the start.
    pub(super) fn start_writer(
        &self,
        first: &[Arc<FileSpec>],
        (level, files): (Level, usize),
        interfaces: &[InterfaceInfo],
        purpose: For,
    ) -> Result<Dump, WriteError> {
        let nameless;
        let interfaces = match &self.anonymiser {
            Some(_) => {
                nameless = crate::anon::nameless(interfaces);
                &nameless
            }
            None => interfaces,
        };
        let with = DumpOptions {
            options: &self.options,
            level,
            workers: self.worker_count(),
            purpose,
            anonymiser: self.anonymiser.clone(),
            room: self.division.dumps / self.work.dumps.max(1),
            reorder: self.request.memory / REORDER / files.max(1),
            stop: Arc::clone(&self.signals.stop),
            interrupted: Arc::clone(&self.signals.interrupted),
            failures: self.failures.clone(),
        };
        Dump::start(first, with, interfaces)
    }
}

impl<'r> PacketWriters<'r> {
    /// Opens the packet files and the directories of the plan.
    pub fn start(run: &'r Run, interfaces: &[InterfaceInfo], purpose: For) -> Result<Self, (Exit, String)> {
        let mut writers = Self {
            run,
            interfaces: interfaces.to_vec(),
            purpose,
            targets: TargetWriters::default(),
            dump_index: DumpIndex::default(),
        };
        writers.follow(&run.plan(), &run.request).map_err(|error| (Exit::Output, error))?;
        Ok(writers)
    }

    /// Checks that the process may write the packet files and the directories that another plan has at paths, without opening
    /// them.
    ///
    /// # Errors
    /// A file or a directory that the process may not write to.
    pub fn may_follow(&self, plan: &Plan) -> Result<(), String> {
        for (_, target) in plan.targets().filter(|(_, target)| target.place() == Some(Place::Path)) {
            let path = Path::new(target.name());
            match target {
                Target::Packets { .. } if target.name() != "-" && !self.targets.has_file(target) => {
                    may_write(path).map_err(|error| error.text)?;
                }
                Target::Files(_) if !self.targets.has_directory(target) => {
                    may_create_in(path).map_err(|error| error.text)?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Remembers the flows whose packets leave late, from the first packet on.
    pub fn remember(&mut self, decisions: Arc<Decisions>) {
        let [_, late] = &mut self.targets.packets;
        late.decisions = Some(decisions);
    }

    /// The destinations of the functions of the plan, for the workers.
    pub fn routes(&self) -> Routes {
        let (packets, logs) = (self.targets.packets.clone(), self.targets.logs.clone());
        Routes { packets, logs, directories: self.directories() }
    }

    /// A handle to a writer of files, for a worker.
    pub(super) fn carver(&self, carving: &Carving) -> Carver {
        match self.purpose {
            For::Files => carving.file_carver(&self.run.turns),
            For::Link | For::Screen => carving.live_carver(),
        }
    }

    /// The index of the files of all matching packets, if there are any.
    pub fn index(&self) -> Option<DumpIndex> {
        let is_whole = self.targets.files.iter().any(|(_, file)| file.has == Has::Matching);
        is_whole.then(|| self.dump_index.clone())
    }

    /// Writes what is left.
    pub fn finish(self) -> Finished {
        let (packet_files, extractions) = self.targets.finish();
        Finished { packet_files, extractions }
    }
}

impl Finished {
    /// The files of all matching packets.
    pub fn whole(&self) -> impl Iterator<Item = &Ended> {
        self.packet_files.iter().filter(|ended| ended.file.has == Has::Matching)
    }

    /// The exit code of these results; errors were reported when they occurred.
    pub fn exit(&self) -> Exit {
        let troubled = self.packet_files.iter().any(|ended| ended.outcome.is_trouble())
            || self.extractions.iter().any(|extraction| extraction.has_failed);
        if troubled { Exit::Output } else { Exit::Good }
    }

    /// Lines for the summary; `destinations` are those of the run.
    pub fn notes(&self, total: &Snapshot, destinations: &Destinations) -> Vec<String> {
        let packet_files = self.packet_files.iter().filter_map(|Ended { file, outcome }| {
            let what = match file.has {
                Has::Matching => "packets",
                Has::Unidentified => "packets of unidentified flows",
                Has::Selected => return None,
            };
            let Written { packets, lost, .. } = outcome.written;
            let lost = if lost > 0 { format!(", {} LOST", count(lost)) } else { String::new() };
            Some(format!("{} {what} written to {}{lost}", count(packets), file.name))
        });
        let whole = || self.extractions.iter().filter(|extraction| extraction.is_whole);
        let mut folders: Vec<&str> = whole().map(|extraction| &*extraction.directory).collect();
        folders.dedup();
        let carved = (!folders.is_empty()).then(|| {
            let again = whole().map(|extraction| extraction.again).sum();
            let SessionCount { files_kept, files_cut, files_skipped, files_crowded, .. } = total.sessions;
            let parts = [
                ("duplicates", again),
                ("truncated", files_cut),
                ("skipped: limits", files_skipped),
                ("skipped: too many in a flow", files_crowded),
            ];
            let parts =
                parts.iter().filter(|(_, n)| *n > 0).map(|(what, n)| format!(", {} {what}", count(*n)));
            let parts: String = parts.collect();
            format!("{} files kept in {}{parts}", count(files_kept), folders.join(" and "))
        });
        // Packet files and directories without an expression have their own lines. That a log of the run is written is no news.
        let is_other = |row: &Row| match row.kind {
            DestinationKind::Packets => {
                let mut whole = self.packet_files.iter().filter(|ended| ended.file.has != Has::Selected);
                whole.all(|ended| *ended.file.name != *row.name)
            }
            DestinationKind::Files => whole().all(|extraction| *extraction.directory != *row.name),
            DestinationKind::OfRun => row.count.lost > 0,
            DestinationKind::Log => true,
        };
        let others = destinations.counts().into_iter().filter(is_other);
        let others = delivered_line(others.collect());
        packet_files.chain(carved).chain(others).collect()
    }
}

/// Characters of a line of the summary for destinations.
const ROOM: usize = 66;

/// A line for the summary about the destinations of functions: those that lost something first, as many as there is room for.
fn delivered_line(mut destinations: Vec<Row>) -> Option<String> {
    let lost = |row: &Row| row.count.lost + row.count.shed + row.count.missing;
    destinations.sort_by_key(|row| lost(row) == 0);
    let mut text = String::new();
    for (at, row) in destinations.iter().enumerate() {
        let DeliveredCount { written, .. } = row.count;
        let loss = match lost(row) {
            0 => String::new(),
            number => format!(" ({} LOST)", count(number)),
        };
        let one = format!("{} {} to {}{loss}", count(written), row.kind.unit(), row.name);
        if at > 0 && text.len() + one.len() > ROOM {
            return Some(format!("{text} and {} more: -v", destinations.len() - at));
        }
        text += if at == 0 { "written: " } else { ", " };
        text += &one;
    }
    (!text.is_empty()).then_some(text)
}
