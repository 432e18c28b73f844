//! A run over capture files.

use super::packet_files::PacketWriters;
use super::progress::Progress;
use super::rings;
use super::second_pass::SecondPass;
use super::summary;
use super::verbose;
use super::{Exit, Run, complain};
use crate::applies::{Links, Misfits};
use crate::asked::Findings;
use crate::collector::{Collector, Results, WorkerOutput, queue};
use crate::drive::WhenFull;
use crate::dump::For;
use crate::inputs::{filter_options, report_read_errors};
use crate::memory::Room;
use crate::offline::{self, Input};
use crate::printer::print_until;
use crate::privileges;
use crate::report::written;
use crate::triggers::{self, Arrival, Board, Preroll, Triggers};
use crate::windows;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use weir_capture::{Files, ReadAhead, ReadOptions};
use weir_output::figures::printable;

/// Read size: a unit stays in the second-level cache until its packets are processed, and several workers need not synchronise
/// more often than that.
const CHUNK: usize = 256 << 10;

/// Minimum read size in bytes.
const MIN_CHUNK: usize = 64 << 10;
/// Bytes of a unit per byte read if packets are small: slots, layers, and both sorted by owner.
const SPREAD: usize = 4;

/// The read size with which all units in work, and blocks that are read ahead, fit into `memory`.
fn chunk_bytes(memory: usize, workers: usize) -> usize {
    let blocks = if workers > 1 { ReadAhead::BLOCKS } else { 0 };
    let each = memory / ((workers * offline::UNITS_PER_WORKER + blocks) * SPREAD);
    each.clamp(MIN_CHUNK, CHUNK)
}

/// Reads everything, then prints the summary.
pub fn execute(run: Run) -> Exit {
    match attempt(&run) {
        Ok(exit) => exit,
        // The run has not started and has nothing to report.
        Err(_) if run.signals.has_interrupted() => Exit::Interrupted,
        Err((exit, error)) => complain(exit, error),
    }
}

fn attempt(run: &Run) -> Result<Exit, (Exit, String)> {
    let options = &run.options;
    let workers = run.worker_count();
    let read = ReadOptions {
        chunk_bytes: chunk_bytes(run.division.packets, workers),
        snaplen: (options.snaplen > 0).then_some(options.snaplen),
        recover: options.recover,
        times: run.request.times,
        stop: Some(Arc::clone(&run.signals.stop)),
        ..ReadOptions::default()
    };
    let files = match Files::open(&run.request.inputs, &read) {
        Ok(files) => files,
        Err(error) => return Ok(report_read_errors(std::slice::from_ref(&error))),
    };
    let ahead = Misfits::of_scope(&Links::ahead(&files), &run.plan());
    if !ahead.nowhere.is_empty() {
        return Err((Exit::Unreadable, ahead.complaints.join("\nweir: ")));
    }
    let mut exit = Exit::Good;
    for complaint in &ahead.complaints {
        exit = exit.or(complain(Exit::Unreadable, complaint));
    }
    // What cannot be read again is kept in rings.
    let has_rings = !run.request.triggers.is_empty() && files.may_wait();
    // Folders are created only if the captures can be read.
    let mut paths = run.paths();
    // The others are open.
    let unopened = run.request.inputs.iter().filter(|input| !matches!(input, weir_capture::Input::Kept(_)));
    unopened.filter_map(weir_capture::Input::path).for_each(|path| paths.read(path));
    let confined = match &run.user {
        Some(_) => privileges::give_up(run.user.as_ref(), &paths),
        None => privileges::confine_reader(&paths),
    };
    confined.map_err(|error| (Exit::Output, error))?;
    let mut dumps = PacketWriters::start(run, files.interfaces(), For::Files)?;
    let second = SecondPass::prepare(run, &files);
    if let Some(second) = &second {
        dumps.remember(second.decisions());
    }
    let outputs = run.outputs()?;
    let room = Room::new(run.division.queue);
    let routes = dumps.routes();
    let (to, from) = queue();
    let worker_output =
        |at| WorkerOutput::new(at, to.clone(), WhenFull::Wait, &room).to(&routes, run.open_every());
    let mut collector = run.collector(outputs, workers);
    collector.take_from(&room);
    collector.ask(Findings::default(), run.questions());
    let mut prerolls = VecDeque::new();
    if has_rings {
        prerolls = rings::start(run, &mut collector, files.interfaces(), workers, Arrival::Read);
    } else {
        collect_triggers(run, &mut collector);
    }
    let with_ring = |at| worker_output(at).keep(prerolls.pop_front());
    let worker_outputs = (0..workers).map(with_ring).collect();
    drop((to, routes));
    let pool = run.workers(workers, &run.turns);
    let progress = Progress::new(!options.quiet);
    let plan = run.plan();
    let input = Input {
        files,
        interval: part_length(run),
        ticks: None,
        turns: Some(Arc::clone(&run.turns)),
        plan: &plan,
        limit: run.request.limit,
        stop: &run.signals.stop,
    };
    let outcome = std::thread::scope(|scope| {
        let pass = scope.spawn(|| {
            let (outcome, outputs) =
                offline::run(input, pool, worker_outputs, &|files| progress.watch(files));
            let rings: Vec<Preroll> = outputs.into_iter().filter_map(WorkerOutput::into_ring).collect();
            (outcome, rings)
        });
        collector.run(&from);
        pass.join()
    });
    progress.finish();
    let load = collector.load();
    // Failures of the last packets are events of the run.
    let written = dumps.finish();
    let Results { mut total, failures, names, triggers } = collector.finish();
    let Ok((outcome, mut rings)) = outcome else {
        return Err((Exit::Partial, "a worker failed: the results are partial".to_owned()));
    };
    rings.iter_mut().for_each(Preroll::end);
    if let Some(second) = second {
        exit = exit.or(second.complete(&read, &outcome));
    }
    if let Some(Err(error)) = run.reports().map(written::at_end) {
        exit = exit.or(complain(Exit::Output, error));
    }
    let of_triggers = if has_rings { Ok(triggers.finish()) } else { write_triggered(run, &read, triggers) };
    total.ledger.time_jumps += outcome.jumps;
    total.ledger.late += outcome.late;
    total.ledger.capture.outside += outcome.files.outside().packets;

    for info in outcome.files.describe().filter(|info| info.times_clipped > 0) {
        eprintln!("weir: {}: {}", printable(&info.name), verbose::clipped(info.times_clipped));
    }
    if let Some(beside) = &run.beside {
        beside.hub.end(&total);
    }

    // A pcapng section may describe an interface after packets of others, and standard input can be read only once.
    let misfits = Misfits::of_scope(&Links::read(&outcome.files), &run.plan());
    for complaint in misfits.complaints.iter().filter(|complaint| !ahead.complaints.contains(complaint)) {
        exit = exit.or(complain(Exit::Unreadable, complaint));
    }
    exit = exit.or(report_read_errors(&outcome.errors)).or(written.exit());
    let mut facts = summary::of_files(run, &outcome, total, &written, &failures, names);
    match of_triggers {
        Ok(of_triggers) => {
            facts.notes.extend(of_triggers.note());
            for error in of_triggers.failed {
                exit = exit.or(complain(Exit::Output, error));
            }
        }
        Err(error) => exit = exit.or(complain(Exit::Partial, format!("triggers: {error}"))),
    }
    exit = exit.or(print(run, summary::text(run, &facts, &load, Some(&outcome.files))));
    Ok(run.conclude(exit, &facts.total, failures.len()))
}

/// Nanoseconds after which workers hand over what they have: an interval, or a second or a tenth if events are judged over less.
fn part_length(run: &Run) -> u64 {
    let interval = run.request.interval;
    let subscriptions = || run.request.subscriptions.iter().chain(&run.request.typed);
    let is_finer = |over: u64| !over.is_multiple_of(interval.max(1));
    let parts = windows::parts(subscriptions());
    if subscriptions().filter_map(windows::window).any(is_finer) && interval.is_multiple_of(parts) {
        parts
    } else {
        interval
    }
}

/// Collects what triggers open, for another pass.
fn collect_triggers(run: &Run, collector: &mut Collector) {
    let mut triggers = Triggers::new(&run.request.triggers);
    if let Some(beside) = &run.beside {
        let board = Arc::new(Board::new(triggers.specs(), 0));
        beside.hub.set_board(Arc::clone(&board));
        triggers.show(board);
    }
    collector.trigger(triggers);
}

/// Writes the packets of what triggers have opened: the captures are read again.
fn write_triggered(
    run: &Run,
    read: &ReadOptions,
    mut triggers: Triggers,
) -> Result<triggers::Outcome, String> {
    let (opened, refused) = triggers.take();
    if opened.is_empty() || run.signals.has_interrupted() {
        return Ok(triggers::Outcome::default());
    }
    // A limit of packets has set it.
    run.signals.stop.store(false, Ordering::Relaxed);
    let captures = triggers::Captures {
        inputs: &run.request.inputs,
        read,
        expression: &run.request.expression,
        options: filter_options(run.options.strict_bpf, run.options.inner, run.options.snaplen),
        chosen: run.request.chosen.as_ref().map(|chosen| &*chosen.flows),
        stop: &run.signals.stop,
    };
    let outcome = triggers::write_files(&opened, &captures)?;
    Ok(triggers::Outcome { refused: outcome.refused + refused, ..outcome })
}

/// Prints to standard output, unless packets or a log are written there.
fn print(run: &Run, text: String) -> Exit {
    if run.request.has_standard_output() {
        return Exit::Good;
    }
    match print_until(text, &run.signals.interrupted) {
        Ok(()) => Exit::Good,
        Err(error) => complain(Exit::Output, format!("standard output: {error}")),
    }
}
