//! The second pass of a run over capture files that can be read twice, for packet files of flows that are not whole.
//!
//! A function over flows or records decides on a flow when many of its packets have been seen, and the history holds the latest
//! packets of all flows alone. The run remembers which flows were written, and from which packet on. Where packets are missing, the
//! captures are read again by workers that know these flows. What such a worker emits besides is dropped, because the first pass
//! has emitted it. The new files are written in a directory of their own, and replace those of the first pass when they are
//! complete: a pass that fails changes nothing.

use super::progress::Progress;
use super::{Exit, Run, complain};
use crate::decisions::Decisions;
use crate::delivered::Delivered;
use crate::drive::{Boundary, Destination, WhenFull};
use crate::dump::{Dump, FileSpec, For};
use crate::offline::{self, Input};
use crate::routes::PacketRoutes;
use crate::turns::Turns;
use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::SystemTime;
use weir_api::{AnswerId, Level, Snapshot};
use weir_capture::{Files, ReadOptions};
use weir_engine::{Before, Emitted, NamedFile, Of, Place, Sink, Target};
use weir_files::TemporaryFolder;
use weir_output::figures::printable;

/// The part of the memory of a writer's queue in which flows are remembered.
const PART: usize = 4;

/// The size and the time of the last change of each input.
type Stamps = Vec<Option<(u64, SystemTime)>>;

/// What a second pass needs of the first one.
pub struct SecondPass<'r> {
    run: &'r Run,
    decisions: Arc<Decisions>,
    inputs: Vec<String>,
    stamps: Stamps,
}

impl<'r> SecondPass<'r> {
    /// A second pass, if a function may need one and the captures can be read twice.
    pub fn prepare(run: &'r Run, files: &Files) -> Option<Self> {
        let plan = run.plan();
        if files.may_wait() || !plan.targets().any(|(_, target)| rewritable(target).is_some()) {
            return None;
        }
        let room = run.division.dumps / run.work.dumps.max(1) / PART;
        let inputs: Vec<String> = files.describe().map(|info| info.name.clone()).collect();
        let stamps = stamps(&inputs);
        Some(Self { run, decisions: Arc::new(Decisions::new(room)), inputs, stamps })
    }

    /// Where the first pass remembers flows.
    pub fn decisions(&self) -> Arc<Decisions> {
        Arc::clone(&self.decisions)
    }

    /// Reads the captures again if files of the first pass are not whole, and writes these. Returns the exit code, after the
    /// reason was reported if they stay as they are.
    pub fn complete(self, read: &ReadOptions, first: &offline::Outcome) -> Exit {
        let files = self.files();
        if files.is_empty() || self.run.signals.has_interrupted() {
            return Exit::Good;
        }
        match self.rewrite(&files, read, first) {
            Ok(()) => Exit::Good,
            Err((exit, error)) => {
                let names: Vec<String> = files.iter().map(|file| printable(&file.named.name)).collect();
                complain(exit, format!("{}: packets are missing: {error}", names.join(", ")))
            }
        }
    }

    /// The files of the plan that are not whole, and have no other loss.
    fn files(&self) -> Vec<Unwhole> {
        let plan = self.run.plan();
        let mut files: Vec<Unwhole> = Vec::new();
        for (id, target) in plan.targets() {
            if let Some(file) = files.iter_mut().find(|file| file.target == *target) {
                file.functions.push(id);
                continue;
            }
            let Some(named) = rewritable(target) else { continue };
            let counts = self.run.counts_of(target);
            let count = counts.count();
            let Some(directory) = self.directory(named).filter(|_| count.missing > 0 && count.lost == 0)
            else {
                continue;
            };
            let (target, named) = (target.clone(), named.clone());
            files.push(Unwhole { target, named, directory, counts, functions: vec![id] });
        }
        files
    }

    /// The directory of a file that can be replaced.
    fn directory(&self, named: &NamedFile) -> Option<PathBuf> {
        let (logs, _) = self.run.request.logs.as_ref().filter(|_| named.place == Place::Logs)?;
        let found = fs::symlink_metadata(logs.join(&*named.name));
        found.map_or(true, |data| data.is_file()).then(|| logs.clone())
    }

    /// Writes the files again, and puts them into their places.
    fn rewrite(
        &self,
        files: &[Unwhole],
        read: &ReadOptions,
        first: &offline::Outcome,
    ) -> Result<(), (Exit, String)> {
        let output = |error: std::io::Error| (Exit::Output, error.to_string());
        let mut folders: BTreeMap<&Path, TemporaryFolder> = BTreeMap::new();
        let (mut routes, mut written) = (PacketRoutes::default(), Vec::new());
        let mut by_function: HashMap<AnswerId, Arc<FileSpec>> = HashMap::new();
        for file in files {
            if !folders.contains_key(&*file.directory) {
                let made = TemporaryFolder::create_within(&file.directory, ".weir-again-");
                folders.insert(&file.directory, made.map_err(output)?);
            }
            let Some(folder) = folders.get(&*file.directory) else { continue };
            let counts = Arc::new(Delivered::default());
            let spec = self.run.file_in(&file.named, folder.path(), Arc::clone(&counts));
            let spec = Arc::new(spec);
            by_function.extend(file.functions.iter().map(|id| (*id, Arc::clone(&spec))));
            written.push((file, counts));
        }
        routes.files = Arc::new(by_function);
        self.read_again(routes, written.len(), read, first)?;
        for (directory, folder) in &folders {
            move_files(folder.path(), directory).map_err(output)?;
        }
        written.iter().for_each(|(file, counts)| file.counts.replace(counts));
        Ok(())
    }

    /// Reads the captures again.
    fn read_again(
        &self,
        mut routes: PacketRoutes,
        files: usize,
        read: &ReadOptions,
        first: &offline::Outcome,
    ) -> Result<(), (Exit, String)> {
        let run = self.run;
        let changed = || (Exit::Partial, "the captures changed while they were read".to_owned());
        // A limit of packets has set it. A signal sets the other flag before.
        run.signals.stop.store(false, Ordering::Relaxed);
        if run.signals.has_interrupted() {
            return Err(interrupted());
        }
        if stamps(&self.inputs) != self.stamps {
            return Err(changed());
        }
        let again = Files::open(&run.request.inputs, read)
            .map_err(|error| (Exit::Partial, format!("the captures cannot be read again: {error}")))?;
        let level = (Level::Flow, files);
        let writer = run.start_writer(&[], level, again.interfaces(), For::Files);
        let writer = writer.map_err(|error| (Exit::Output, error.to_string()))?;
        routes.intake = Some(writer.intake());
        let count = run.worker_count();
        let turns = Arc::new(Turns::new(count));
        let known = Arc::new(self.decisions.take());
        let mut workers = run.workers(count, &turns);
        workers.iter_mut().for_each(|worker| worker.know(Arc::clone(&known)));
        let replay = |worker| Replay { worker, routes: routes.clone(), matching: 0 };
        let replays = (0..count).map(replay).collect();
        drop(routes);
        let plan = run.plan();
        let input = Input {
            files: again,
            interval: run.request.interval,
            ticks: None,
            turns: Some(turns),
            plan: &plan,
            limit: run.request.limit,
            stop: &run.signals.stop,
        };
        let progress = Progress::again(!run.options.quiet);
        let (outcome, replays) = offline::run(input, workers, replays, &|files| progress.watch(files));
        progress.finish();
        drop(replays);
        let written = Dump::finish(writer);
        if run.signals.has_interrupted() {
            return Err(interrupted());
        }
        let packets = |outcome: &offline::Outcome| outcome.files.progress().packets;
        if packets(&outcome) != packets(first) || stamps(&self.inputs) != self.stamps {
            return Err(changed());
        }
        if written.iter().any(|ended| ended.outcome.is_trouble()) {
            return Err((Exit::Output, "they could not be written again".to_owned()));
        }
        Ok(())
    }
}

fn interrupted() -> (Exit, String) {
    (Exit::Interrupted, "the second pass was interrupted".to_owned())
}

/// The file of a target that a second pass can make whole. Files that follow each other by time have names by their first
/// packets: those of the first pass would stay beside the whole ones.
fn rewritable(target: &Target) -> Option<&NamedFile> {
    let Target::Packets { file, of: Some(Of::Flow(before)) } = target else { return None };
    let is_it = *before != Before::Packets(0) && file.place == Place::Logs && file.rotation.seconds.is_none();
    is_it.then_some(file)
}

fn stamps(inputs: &[String]) -> Stamps {
    let stamp = |name: &String| {
        let data = fs::metadata(name).ok()?;
        Some((data.len(), data.modified().ok()?))
    };
    inputs.iter().map(stamp).collect()
}

/// Moves the files of a directory into another one. Files with dots at their beginning are not packet files.
fn move_files(from: &Path, to: &Path) -> std::io::Result<()> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        if !entry.file_name().to_string_lossy().starts_with('.') {
            weir_files::put_in_place(&entry.path(), &to.join(entry.file_name()))?;
        }
    }
    Ok(())
}

/// A packet file of the first pass that is not whole.
struct Unwhole {
    target: Target,
    named: NamedFile,
    directory: PathBuf,
    /// What is counted of it.
    counts: Arc<Delivered>,
    /// The functions that write it.
    functions: Vec<AnswerId>,
}

/// The destination of a worker in a second pass: the files alone.
struct Replay {
    worker: usize,
    routes: PacketRoutes,
    /// Packets that matched the run's expression.
    matching: u64,
}

impl Sink for Replay {
    fn take(&mut self, emitted: Emitted<'_>) {
        match emitted {
            Emitted::Packets(packets, functions) => {
                self.routes.take(self.worker, packets, functions, WhenFull::Wait);
            }
            Emitted::Missing(id, packets) => self.routes.miss(id, packets),
            Emitted::Matching(packets) => self.matching += packets.len() as u64,
            _ => {}
        }
    }
}

impl Destination for Replay {
    fn sink(&mut self) -> &mut dyn Sink {
        self
    }

    fn silence(&mut self, _: u64) {}

    fn interval(&mut self, _: Snapshot, _: usize) {}

    fn boundary(&mut self, boundary: Boundary) {
        if boundary.ends_round(Level::Flow) {
            self.routes.end_round(self.worker);
        }
    }

    fn kept_packets(&self) -> u64 {
        self.matching
    }

    fn done(&mut self) {}
}
