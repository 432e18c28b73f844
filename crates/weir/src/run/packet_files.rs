//! The packet files of a run: their writers, and their results.

use super::target_files::TargetWriters;
use super::{Exit, Request, Run};
use crate::carve::{Carver, Carving, Limits};
use crate::decisions::Decisions;
use crate::delivered::{DeliveredCount, DestinationKind, Destinations, Row};
use crate::dump::index::DumpIndex;
use crate::dump::{Dump, DumpOptions, FileSpec, For, Outcome};
use crate::outlet::{OUTLETS, Outlet, OutletId, OutletSpec, PacketFiles, Ways};
use crate::privileges::{may_create_in, may_write};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use weir_api::{Level, SessionCount, Snapshot};
use weir_capture::{InterfaceInfo, Rotate, WriteError};
use weir_output::figures::count;

/// The part of all memory in which packets of flows are put in order. It does not depend on the plan, so that the order
/// does not depend on the number of workers.
const REORDER: usize = 64;

/// A packet file that is being written.
struct Writer {
    spec: &'static OutletSpec,
    name: String,
    file: Arc<FileSpec>,
    dump: Dump,
}

/// A packet file of an option that another request has.
struct Changed {
    spec: &'static OutletSpec,
    name: String,
    /// The new file, if any.
    started: Option<(Arc<FileSpec>, Dump)>,
}

/// The writers of a run.
pub struct PacketWriters<'r> {
    pub(super) run: &'r Run,
    pub(super) interfaces: Vec<InterfaceInfo>,
    pub(super) purpose: For,
    writers: Vec<Writer>,
    /// Files that ended before the run.
    ended: Vec<(&'static OutletSpec, String, JoinHandle<Vec<Outcome>>)>,
    /// The packet files of functions that deliver.
    pub(super) targets: TargetWriters,
    /// The files of matching packets.
    dump_index: DumpIndex,
    /// Extracted files: the folder, and what writes them.
    carving: Option<(PathBuf, Carving)>,
    /// Folders whose extraction ended before the run.
    carved: Vec<(PathBuf, JoinHandle<Carved>)>,
}

/// Files that another request has, opened.
pub struct FileChanges {
    /// Outlets whose file changes.
    dumps: Vec<Changed>,
    /// The extraction if it changes.
    carving: Option<Option<(PathBuf, Carving)>>,
}

/// The outlets that have a file, with its name.
///
/// # Errors
/// Another than that of `-w` is standard output.
pub fn named(files: &PacketFiles) -> Result<Vec<(&'static OutletSpec, &str)>, String> {
    let named: Vec<(&'static OutletSpec, &str)> =
        OUTLETS.into_iter().filter_map(|spec| Some((spec, (spec.file)(files)?))).collect();
    match named.iter().find(|(spec, name)| *name == "-" && spec.id != OutletId::Matching) {
        Some((spec, name)) => Err(format!("{} {name}: standard output is for -w", spec.option)),
        None => Ok(named),
    }
}

/// Number of extracted files that existed already, and the first error.
type Carved = (u64, Option<io::Error>);

/// The results of the packet files and of extracted files, and the first error of each.
pub struct Finished {
    packet_files: Vec<(&'static OutletSpec, String, Outcome)>,
    /// Results of the packet files of functions that deliver.
    targets: Vec<Outcome>,
    /// Whether a file in a directory of a function could not be written.
    has_unkept: bool,
    /// Results of extraction by folder.
    carved: Vec<(PathBuf, Carved)>,
}

impl Run {
    /// Starts the packet file of an outlet.
    pub(super) fn start_dump(
        &self,
        spec: &'static OutletSpec,
        files: &PacketFiles,
        interfaces: &[InterfaceInfo],
        purpose: For,
        dump_index: DumpIndex,
    ) -> Result<(Arc<FileSpec>, Dump), WriteError> {
        let name = (spec.file)(files).unwrap_or_default();
        let rotate =
            if spec.rotates { files.rotation(self.zone.time_zone().clone()) } else { Rotate::default() };
        let delivered = self.destinations.of(DestinationKind::Packets, name);
        let file = Arc::new(FileSpec::of_option(name, rotate, self.options.snaplen, delivered));
        let first = [Arc::clone(&file)];
        Ok((file, self.start_writer(&first, (spec.level, 1), interfaces, purpose, dump_index)?))
    }

    /// Starts a writer of packet files whose packets leave at a level, and opens the `first` of them; `files` is their number at
    /// the start.
    pub(super) fn start_writer(
        &self,
        first: &[Arc<FileSpec>],
        (level, files): (Level, usize),
        interfaces: &[InterfaceInfo],
        purpose: For,
        dump_index: DumpIndex,
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
            dump_index,
            stop: Arc::clone(&self.signals.stop),
            interrupted: Arc::clone(&self.signals.interrupted),
            failures: self.failures.clone(),
        };
        Dump::start(first, with, interfaces)
    }
}

impl<'r> PacketWriters<'r> {
    /// Opens the requested files.
    pub fn start(run: &'r Run, interfaces: &[InterfaceInfo], purpose: For) -> Result<Self, (Exit, String)> {
        let files = &run.request.packets;
        // No file is opened if another is refused.
        let named = named(files).map_err(|error| (Exit::Usage, format!("{error}; give another file")))?;
        let mut writers = Self {
            run,
            interfaces: interfaces.to_vec(),
            purpose,
            writers: Vec::new(),
            ended: Vec::new(),
            targets: TargetWriters::default(),
            dump_index: DumpIndex::default(),
            carving: None,
            carved: Vec::new(),
        };
        for (spec, name) in named {
            let (file, dump) =
                writers.open(spec, files).map_err(|error| (Exit::Output, error.to_string()))?;
            writers.writers.push(Writer { spec, name: name.to_owned(), file, dump });
        }
        if let Some((folder, limits)) = &run.request.extracted {
            let carving = Carving::start(folder, *limits, run.failures.clone())
                .map_err(|error| (Exit::Output, error.to_string()))?;
            writers.carving = Some((folder.clone(), carving));
        }
        Ok(writers)
    }

    /// Checks that the process may write the files that another request has, without opening them.
    ///
    /// # Errors
    /// A file or a folder that the process may not write to.
    pub fn may_change(before: &Request, after: &Request) -> Result<(), String> {
        for spec in OUTLETS.into_iter().filter(|spec| !spec.is_same(&before.packets, &after.packets)) {
            match (spec.file)(&after.packets) {
                Some(name) if name != "-" => may_write(Path::new(name)).map_err(|error| error.text)?,
                _ => {}
            }
        }
        let folder = after.extracted.as_ref().filter(|_| before.extracted != after.extracted);
        folder.map_or(Ok(()), |(folder, _)| may_create_in(folder).map_err(|error| error.text))
    }

    /// Opens the files that another request has, which are written once [`PacketWriters::replace`] adds them. `None` if both
    /// have the same files.
    pub fn change(&self, before: &Request, after: &Request) -> Result<Option<FileChanges>, String> {
        let mut changes = FileChanges { dumps: Vec::new(), carving: None };
        for spec in OUTLETS.into_iter().filter(|spec| !spec.is_same(&before.packets, &after.packets)) {
            let name = (spec.file)(&after.packets);
            let dump = name.map(|_| self.open(spec, &after.packets)).transpose();
            let name = name.unwrap_or_default().to_owned();
            let started = dump.map_err(|error| error.to_string())?;
            changes.dumps.push(Changed { spec, name, started });
        }
        if before.extracted != after.extracted {
            let start = |(folder, limits): &(PathBuf, Limits)| {
                Carving::start(folder, *limits, self.run.failures.clone())
                    .map(|carving| (folder.clone(), carving))
            };
            let carving = after.extracted.as_ref().map(start).transpose();
            changes.carving = Some(carving.map_err(|error| error.to_string())?);
        }
        Ok((!changes.dumps.is_empty() || changes.carving.is_some()).then_some(changes))
    }

    /// Opens the file of an outlet.
    fn open(
        &self,
        spec: &'static OutletSpec,
        files: &PacketFiles,
    ) -> Result<(Arc<FileSpec>, Dump), WriteError> {
        let dump_index = match spec.id {
            OutletId::Matching => self.dump_index.clone(),
            OutletId::Unidentified => DumpIndex::default(),
        };
        self.run.start_dump(spec, files, &self.interfaces, self.purpose, dump_index)
    }

    /// Remembers the flows whose packets leave late, from the first packet on.
    pub fn remember(&mut self, decisions: Arc<Decisions>) {
        let [_, late] = &mut self.targets.outlets;
        late.decisions = Some(decisions);
    }

    /// Changes to other files. Those before end when the workers follow.
    pub fn replace(&mut self, changes: FileChanges) {
        for Changed { spec, name, started } in changes.dumps {
            if let Some(at) = self.writers.iter().position(|writer| writer.spec.id == spec.id) {
                let Writer { spec, name, dump, .. } = self.writers.remove(at);
                self.ended.push((spec, name, dump.end()));
            }
            self.writers.extend(started.map(|(file, dump)| Writer { spec, name, file, dump }));
        }
        if let Some(carving) = changes.carving {
            let before = std::mem::replace(&mut self.carving, carving);
            self.carved.extend(before.map(|(folder, carving)| (folder, carving.end())));
        }
    }

    /// The ways by which packets and files leave, for the workers.
    pub fn ways(&self) -> Ways {
        let outlet =
            |writer: &Writer| Outlet::new(writer.spec, writer.dump.intake(), Arc::clone(&writer.file));
        let carver = self.carving.as_ref().map(|(_, carving)| self.carver(carving));
        let outlets = self.writers.iter().map(outlet).collect();
        let (targets, logs) = (self.targets.outlets(), self.targets.logs());
        Ways { outlets, targets, logs, carver, extracts: self.extracts() }
    }

    /// A handle to a writer of files, for a worker.
    pub(super) fn carver(&self, carving: &Carving) -> Carver {
        match self.purpose {
            For::Files => carving.file_carver(&self.run.turns),
            For::Link | For::Screen => carving.live_carver(),
        }
    }

    /// The packet file of an outlet.
    pub fn of(&self, id: OutletId) -> Option<&Dump> {
        self.writers.iter().find(|writer| writer.spec.id == id).map(|writer| &writer.dump)
    }

    /// Writes what is left.
    pub fn finish(self) -> Finished {
        let last = self.carving.map(|(folder, carving)| (folder, carving.end()));
        let carving = self.carved.into_iter().chain(last);
        let carved = carving.map(|(folder, thread)| (folder, thread.join().unwrap_or((0, None)))).collect();
        let one = |outcomes: Vec<Outcome>| outcomes.into_iter().next().unwrap_or_default();
        let ended = self.ended.into_iter();
        let ended = ended.map(|(spec, name, thread)| (spec, name, one(thread.join().unwrap_or_default())));
        let mut packet_files: Vec<_> = ended.collect();
        let open = self.writers.into_iter();
        packet_files.extend(open.map(|Writer { spec, name, dump, .. }| (spec, name, one(dump.finish()))));
        let (targets, has_unkept) = self.targets.finish();
        Finished { packet_files, targets, has_unkept, carved }
    }
}

impl Finished {
    /// The names and results of the files of an outlet.
    pub fn of(&self, id: OutletId) -> impl Iterator<Item = (&str, &Outcome)> {
        let of_outlet = self.packet_files.iter().filter(move |(spec, ..)| spec.id == id);
        of_outlet.map(|(_, name, outcome)| (name.as_str(), outcome))
    }

    /// The exit code of these results; errors were reported when they occurred.
    pub fn exit(&self) -> Exit {
        let files = self.packet_files.iter().map(|(.., outcome)| outcome).chain(&self.targets);
        let troubled = files.into_iter().any(Outcome::is_trouble)
            || self.has_unkept
            || self.carved.iter().any(|(_, (_, trouble))| trouble.is_some());
        if troubled { Exit::Output } else { Exit::Good }
    }

    /// Lines for the summary; `destinations` are those of the run.
    pub fn notes(&self, total: &Snapshot, destinations: &Destinations) -> Vec<String> {
        let packet_files = self.packet_files.iter().map(|(spec, name, Outcome { written, .. })| {
            let lost =
                if written.lost > 0 { format!(", {} LOST", count(written.lost)) } else { String::new() };
            format!("{} {} written to {name}{lost}", count(written.packets), spec.what)
        });
        let mut folders: Vec<String> =
            self.carved.iter().map(|(folder, _)| folder.display().to_string()).collect();
        folders.dedup();
        let carved = (!folders.is_empty()).then(|| {
            let again = self.carved.iter().map(|(_, (again, _))| again).sum();
            let SessionCount { files_kept, files_cut, files_skipped, .. } = total.sessions;
            let parts = [("duplicates", again), ("truncated", files_cut), ("skipped: limits", files_skipped)];
            let parts =
                parts.iter().filter(|(_, n)| *n > 0).map(|(what, n)| format!(", {} {what}", count(*n)));
            let parts: String = parts.collect();
            format!("{} files kept in {}{parts}", count(files_kept), folders.join(" and "))
        });
        // Packet files of options have their own lines. That a log of the run is written is no news.
        let is_other = |row: &Row| match row.kind {
            DestinationKind::Packets => self.packet_files.iter().all(|(_, name, _)| *name != row.name),
            DestinationKind::OfRun => row.count.lost > 0,
            DestinationKind::Files | DestinationKind::Log => true,
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
