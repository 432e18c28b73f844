//! The packet files of a run: their writers, and their results.

use super::{Exit, Run};
use crate::carve::Carving;
use crate::cli;
use crate::dump::index::DumpIndex;
use crate::dump::{Dump, DumpOptions, For, Outcome};
use crate::outlet::{OUTLETS, Outlet, OutletId, OutletSpec, PacketFiles};
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use weir_api::{SessionCount, Snapshot};
use weir_capture::{InterfaceInfo, Rotate, WriteError};
use weir_output::figures::count;

/// The part of all memory in which packets of flows are put in order. It does not depend on the plan, so that the order
/// does not depend on the number of workers.
const REORDER: usize = 64;

/// A packet file that is being written.
struct Writer {
    spec: &'static OutletSpec,
    name: String,
    dump: Dump,
}

/// The writers of a run.
pub struct PacketWriters<'r> {
    run: &'r Run,
    interfaces: Vec<InterfaceInfo>,
    purpose: For,
    writers: Vec<Writer>,
    /// Files that ended before the run.
    ended: Vec<(&'static OutletSpec, String, JoinHandle<Outcome>)>,
    /// The files of matching packets.
    dump_index: DumpIndex,
}

/// The results of the packet files and of extracted files, and the first error of each.
pub struct Finished {
    packet_files: Vec<(&'static OutletSpec, String, Outcome)>,
    /// Number of extracted files that existed already, and the first error.
    carved: Option<(u64, Option<io::Error>)>,
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
    ) -> Result<Dump, WriteError> {
        let nameless;
        let interfaces = match &self.anonymiser {
            Some(_) => {
                nameless = crate::anon::nameless(interfaces);
                &nameless
            }
            None => interfaces,
        };
        let rotate =
            if spec.rotates { files.rotation(self.zone.time_zone().clone()) } else { Rotate::default() };
        let with = DumpOptions {
            options: &self.options,
            level: spec.level,
            workers: self.worker_count(),
            rotate,
            purpose,
            anonymiser: self.anonymiser.clone(),
            room: self.division.dumps / self.work.dumps.max(1),
            reorder: self.request.memory / REORDER,
            dump_index,
            stop: Arc::clone(&self.signals.stop),
            interrupted: Arc::clone(&self.signals.interrupted),
        };
        Dump::start((spec.file)(files).unwrap_or_default(), with, interfaces)
    }
}

impl<'r> PacketWriters<'r> {
    /// Opens the requested files.
    pub fn start(run: &'r Run, interfaces: &[InterfaceInfo], purpose: For) -> Result<Self, (Exit, String)> {
        let files = &run.request.packets;
        let named: Vec<_> =
            OUTLETS.into_iter().filter_map(|spec| Some((spec, (spec.file)(files)?))).collect();
        // No file is opened if another is refused.
        for (at, (spec, name)) in named.iter().enumerate() {
            let why = match named.iter().take(at).find(|(_, other)| other == name) {
                _ if *name == "-" && spec.id != OutletId::Matching => "standard output is for -w".to_owned(),
                Some((other, _)) => format!("{} writes that file", other.option),
                None => continue,
            };
            return Err((Exit::Usage, format!("{} {name}: {why}; give another file", spec.option)));
        }
        let mut writers = Self {
            run,
            interfaces: interfaces.to_vec(),
            purpose,
            writers: Vec::new(),
            ended: Vec::new(),
            dump_index: DumpIndex::default(),
        };
        for (spec, name) in named {
            let dump = writers.open(spec, files).map_err(|error| (Exit::Output, error.to_string()))?;
            writers.writers.push(Writer { spec, name: name.to_owned(), dump });
        }
        Ok(writers)
    }

    /// Opens the file of an outlet, which is written once `replace` adds it.
    pub fn open(&self, spec: &'static OutletSpec, files: &PacketFiles) -> Result<Dump, WriteError> {
        let dump_index = match spec.id {
            OutletId::Matching => self.dump_index.clone(),
            OutletId::Unidentified => DumpIndex::default(),
        };
        self.run.start_dump(spec, files, &self.interfaces, self.purpose, dump_index)
    }

    /// Writes packets of an outlet into another file, or into none. The file before ends when the workers follow.
    pub fn replace(&mut self, spec: &'static OutletSpec, name: &str, dump: Option<Dump>) {
        if let Some(at) = self.writers.iter().position(|writer| writer.spec.id == spec.id) {
            let Writer { spec, name, dump } = self.writers.remove(at);
            self.ended.push((spec, name, dump.end()));
        }
        self.writers.extend(dump.map(|dump| Writer { spec, name: name.to_owned(), dump }));
    }

    /// The outlets, for the workers.
    pub fn outlets(&self) -> Vec<Outlet> {
        self.writers.iter().map(|writer| Outlet::new(writer.spec, writer.dump.intake())).collect()
    }

    /// The packet file of an outlet.
    pub fn of(&self, id: OutletId) -> Option<&Dump> {
        self.writers.iter().find(|writer| writer.spec.id == id).map(|writer| &writer.dump)
    }

    /// Writes what is left.
    pub fn finish(self, carving: Option<Carving>) -> Finished {
        let carved = carving.map(Carving::finish);
        let ended = self
            .ended
            .into_iter()
            .map(|(spec, name, thread)| (spec, name, thread.join().unwrap_or_default()));
        let mut packet_files: Vec<_> = ended.collect();
        packet_files
            .extend(self.writers.into_iter().map(|Writer { spec, name, dump }| (spec, name, dump.finish())));
        Finished { packet_files, carved }
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
        let troubled = self.packet_files.iter().any(|(.., outcome)| outcome.is_trouble())
            || self.carved.as_ref().is_some_and(|(_, trouble)| trouble.is_some());
        if troubled { Exit::Output } else { Exit::Good }
    }

    /// Lines for the summary.
    pub fn notes(&self, options: &cli::RunOptions, total: &Snapshot) -> Vec<String> {
        let packet_files = self.packet_files.iter().map(|(spec, name, Outcome { written, .. })| {
            let lost =
                if written.lost > 0 { format!(", {} LOST", count(written.lost)) } else { String::new() };
            format!("{} {} written to {name}{lost}", count(written.packets), spec.what)
        });
        let carved =
            self.carved.as_ref().zip(options.extraction.files.as_ref()).map(|((again, _), directory)| {
                let SessionCount { files_kept, files_cut, files_skipped, .. } = total.sessions;
                let parts =
                    [("duplicates", *again), ("truncated", files_cut), ("skipped: limits", files_skipped)];
                let parts =
                    parts.iter().filter(|(_, n)| *n > 0).map(|(what, n)| format!(", {} {what}", count(*n)));
                format!(
                    "{} files kept in {}{}",
                    count(files_kept),
                    directory.display(),
                    parts.collect::<String>()
                )
            });
        packet_files.chain(carved).collect()
    }
}
