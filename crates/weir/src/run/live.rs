//! A run over live links.

use super::lines::Lines;
use super::packet_files::{Finished, PacketWriters};
use super::reload::Reload;
use super::rings;
use super::screen::FullScreen;
use super::summary;
use super::{Exit, Run, complain};
use crate::applies::{Links, Misfits};
use crate::asked::Findings;
use crate::asked::live::Asking;
use crate::collector::{Collector, Emission, Message, Results, WorkerOutput, queue};
use crate::drive::WhenFull;
use crate::dump::{Ended, For};
use crate::live::Screen;
use crate::memory::Room;
use crate::online::{self, LiveClock};
use crate::printer::Printer;
use crate::privileges::{self, helper};
use crate::report::written::Writing;
use crate::rules::Watched;
use crate::triggers::{Arrival, Preroll};
use crate::web_service::Changes;
use crossbeam_channel::{Receiver, RecvTimeoutError};
use std::io::IsTerminal;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use weir_api::Snapshot;
use weir_capture::{InterfaceInfo, LiveError, RingOptions, Rings, SockFilter};
use weir_output::figures::count;
use weir_wire::LinkType;

/// Maximum time that the main thread waits for a message before its other duties.
const WAIT: Duration = Duration::from_millis(50);

/// Captures until it is stopped, then drains the rings and prints the summary.
pub fn execute(run: Run) -> Exit {
    match attempt(&run) {
        Ok(exit) => exit,
        // The run has not started and has nothing to report.
        Err(_) if run.signals.has_interrupted() => Exit::Interrupted,
        Err((exit, error)) => complain(exit, error),
    }
}

fn attempt(run: &Run) -> Result<Exit, (Exit, String)> {
    let workers = run.worker_count();
    let full_screen = wants_screen(run);
    let rules = Watched::begin(&run.request.rule_options).unwrap_or_else(|error| {
        eprintln!("weir: {error}");
        None
    });
    let rings = open(run, workers, full_screen)?;
    let interfaces = describe(run, rings.first());
    let misfit = refuse(run, &interfaces)?;
    let purpose = if full_screen { For::Screen } else { For::Link };
    let mut writers = PacketWriters::start(run, &interfaces, purpose)?;
    let outputs = run.outputs()?;
    let reports = run.reports().map(|folders| Writing::start(folders, run.failures.clone()));
    let room = Room::new(run.division.queue);
    let routes = writers.routes();
    let (to, from) = queue();
    let mut collector = run.collector(outputs, workers);
    collector.take_from(&room);
    let findings = Findings::default();
    collector.ask(findings.clone(), None);
    let asking = run.questions().map(|asked| Asking::start(asked, findings, run.failures.clone()));
    let is_one = run.request.interfaces.len() == 1;
    collector.emit_reports_when(if is_one { Emission::WhenOver } else { Emission::WhenNextBegins });
    let clock = LiveClock::start();
    run.desk.starts_with(routes.clone());
    let mut threads: Vec<JoinHandle<Result<Option<Preroll>, LiveError>>> = Vec::new();
    // A service continues when its interface returns. On the command line a run ends when all its interfaces are
    // removed.
    let waits = run.beside.is_some();
    let removed = Arc::new(AtomicBool::new(false));
    // Others may follow them.
    let judges_drops = !run.request.triggers.is_empty();
    let mut prerolls = rings::start(run, &mut collector, &interfaces, workers, Arrival::Live);
    for (at, (rings, worker)) in rings.into_iter().zip(run.workers(workers, &run.turns)).enumerate() {
        let worker_output = WorkerOutput::new(at, to.clone(), WhenFull::Shed, &room);
        let worker_output = worker_output.to(&routes, run.open_every());
        let (stop, desk, limit) = (Arc::clone(&run.signals.stop), Arc::clone(&run.desk), run.request.limit);
        let (removed, preroll) = (Arc::clone(&removed), prerolls.pop_front());
        threads.push(std::thread::spawn(move || {
            let context = online::LiveContext {
                worker: at,
                clock,
                stop: &stop,
                desk: &desk,
                judges_drops,
                waits,
                removed: &removed,
            };
            online::work(rings, worker, worker_output, &context, limit, preroll)
        }));
    }
    drop((to, routes));

    let mut exit = misfit;
    let mut reload = Reload::new(run, rules);
    if full_screen {
        let screen = Screen::open().map_err(|error| (Exit::Output, format!("the terminal: {error}")))?;
        let mut view = FullScreen::new(run, screen, clock);
        exit = exit.or(view.watch(&mut collector, &from, &mut reload, &mut writers));
    } else {
        if let Some(beside) = &run.beside {
            beside.begin(writers.index());
        }
        let mut lines = Lines::new(run, waits);
        watch(&mut collector, &from, &mut lines, &mut reload, &mut writers);
        exit = exit.or(lines.finish());
    }
    reload.finish();
    // The orders hold a sender to the packet file, whose writer ends after the last sender.
    run.desk.close();
    let mut rings: Vec<Preroll> = Vec::new();
    for thread in threads {
        match thread.join() {
            Ok(Ok(ring)) => rings.extend(ring),
            Ok(Err(error)) => exit = exit.or(complain(Exit::Unreadable, error)),
            Err(_) => exit = exit.or(complain(Exit::Partial, "a worker failed: the results are partial")),
        }
    }
    if removed.load(Ordering::Relaxed) {
        let names = run.request.interfaces.join(", ");
        exit = exit.or(complain(Exit::Unreadable, format!("{names}: removed, so the run has ended")));
    }
    if let Some(beside) = &run.beside {
        // The store is closed together with the collector.
        beside.hub.note("end", "the run was ended");
    }
    // What ended with the last hour is an event of the run.
    collector.flush();
    asking.into_iter().for_each(Asking::finish);
    let load = collector.load();
    // Failures of the last packets are events of the run.
    let written = writers.finish();
    let Results { total, failures, names, triggers } = collector.finish();
    rings.iter_mut().for_each(Preroll::end);
    if let Some(Err(error)) = reports.map(Writing::finish) {
        exit = exit.or(complain(Exit::Output, error));
    }
    let of_triggers = triggers.finish();
    if let Some(beside) = &run.beside {
        beside.hub.end(&total);
    }
    exit = exit.or(written.exit()).or(unwritten(&total, &written));
    let mut facts = summary::of_links(run, total, &written, &failures, names);
    facts.notes.extend(of_triggers.note());
    if !of_triggers.failed.is_empty() {
        exit = exit.or(Exit::Output);
    }
    exit = exit.or(print_last(run, summary::text(run, &facts, &load, None)));
    Ok(run.conclude(exit, &facts.total, failures.len()))
}

/// Refuses an expression that cannot match on any link. If it can match on some links, warns about the others.
/// Expressions that may be changed during the run are not checked here but when they are changed.
fn refuse(run: &Run, interfaces: &[InterfaceInfo]) -> Result<Exit, (Exit, String)> {
    let misfits = Misfits::of_scope(&Links::of_interfaces(interfaces), &run.plan());
    if !misfits.nowhere.is_empty() {
        return Err((Exit::Unreadable, misfits.complaints.join("\nweir: ")));
    }
    Ok(misfits.complaints.iter().fold(Exit::Good, |exit, c| exit.or(complain(Exit::Unreadable, c))))
}

/// Reports in runs without a summary how many matching packets are missing in the packet files.
fn unwritten(total: &Snapshot, written: &Finished) -> Exit {
    let files: Vec<&Ended> = written.whole().collect();
    let Some(last) = files.last() else { return Exit::Good };
    let (name, outcomes) = (&last.file.name, || files.iter().map(|ended| &ended.outcome));
    // The reader closed the pipe because it needs no more packets.
    if outcomes().any(|outcome| outcome.reader_gone) {
        return Exit::Good;
    }
    match total.ledger.packets_unwritten + outcomes().map(|outcome| outcome.written.lost).sum::<u64>() {
        // The error was reported when it occurred.
        0 if outcomes().any(|outcome| outcome.trouble.is_some()) => Exit::Output,
        0 => Exit::Good,
        shed => {
            let shed = count(shed);
            complain(Exit::Output, format!("{name}: {shed} packets were not written: it is too slow"))
        }
    }
}

/// The full screen is used only if standard output is a terminal and the output is not JSON.
fn wants_screen(run: &Run) -> bool {
    let options = &run.options;
    let plain = options.json || options.quiet || options.line_buffered || run.request.has_standard_output();
    !plain && run.beside.is_none() && std::io::stdout().is_terminal() && std::io::stdin().is_terminal()
}

/// Prints the summary without waiting for a reader that has stopped reading.
fn print_last(run: &Run, text: String) -> Exit {
    if run.request.has_standard_output() {
        return Exit::Good;
    }
    let mut printer = Printer::start(true, None);
    printer.insist(text);
    Lines::end(printer)
}

/// Starts the helper process that holds the rings, maps them, and drops the privileges of this process.
fn open(run: &Run, workers: usize, full_screen: bool) -> Result<Vec<Rings>, (Exit, String)> {
    let options = ring_options(run, workers);
    let helper =
        helper::start(&options, workers, run.user.as_ref()).map_err(|error| (Exit::Unreadable, error))?;
    let rings =
        Rings::open_by(&helper, &options, workers).map_err(|error| (Exit::Unreadable, error.to_string()))?;
    let mut paths = run.paths();
    if full_screen {
        // A key of the screen starts a packet file in this folder.
        paths.optional(Path::new("."));
    }
    privileges::give_up(run.user.as_ref(), &paths).map_err(|error| (Exit::Output, error))?;
    helper::map_apart(&helper);
    Ok(rings)
}

fn ring_options(run: &Run, workers: usize) -> RingOptions {
    RingOptions {
        interfaces: run.request.interfaces.clone(),
        promiscuous: !run.options.no_promiscuous,
        snaplen: run.options.snaplen,
        ring_bytes: run.division.ring / workers / run.request.interfaces.len().max(1),
        filters: kernel_filters(run),
        ..RingOptions::default()
    }
}

impl Run {
    /// Whether the kernel selects packets by the expression at the start of the run.
    pub(super) fn kernel_selects(&self) -> bool {
        !kernel_filters(self).is_empty()
    }
}

/// The run's expression as kernel filters, if the kernel decides it as Weir does. The workers check again, because a
/// filter that is attached to a running socket lets a few earlier packets pass.
fn kernel_filters(run: &Run) -> Vec<(LinkType, Vec<SockFilter>)> {
    // The kernel must not filter by an expression that may be changed on the screen or by the pages. Where only the user who
    // started the program may change it, a restart is a small price for packets that never leave the kernel.
    if wants_screen(run) || run.beside.as_ref().is_some_and(|beside| beside.changes == Changes::Expected) {
        return Vec::new();
    }
    let plan = run.plan();
    let Some(filter) = plan.scope() else { return Vec::new() };
    [LinkType::ETHERNET, LinkType::RAW, LinkType::LINUX_SLL2]
        .into_iter()
        .filter_map(|link| {
            let program = filter.to_cbpf(link)?;
            let native = program.iter().map(|i| SockFilter { code: i.code, jt: i.jt, jf: i.jf, k: i.k });
            Some((link, native.collect()))
        })
        .collect()
}

fn describe(run: &Run, rings: Option<&Rings>) -> Vec<InterfaceInfo> {
    let links = rings.map(Rings::links).unwrap_or_default();
    let names = run.request.interfaces.iter();
    names
        .zip(links)
        .map(|(name, link)| InterfaceInfo {
            name: Some(name.clone()),
            link,
            ticks_per_second: 1_000_000_000,
            ..InterfaceInfo::default()
        })
        .collect()
}

/// Takes messages until every worker is done.
fn watch(
    collector: &mut Collector,
    from: &Receiver<Message>,
    lines: &mut Lines,
    reload: &mut Reload<'_>,
    writers: &mut PacketWriters<'_>,
) {
    while !collector.is_done() {
        if let Some(text) = reload.attend(collector, writers) {
            eprintln!("weir: {text}");
        }
        let message = match from.recv_timeout(WAIT) {
            Ok(message) => message,
            Err(RecvTimeoutError::Timeout) => {
                collector.attend();
                continue;
            }
            Err(RecvTimeoutError::Disconnected) => break,
        };
        if let Message::Link(event) = &message {
            lines.link(event);
        }
        collector.has_waiting(from.len());
        for mut tick in collector.take(message) {
            tick.fill();
            lines.tick(&tick);
            collector.flush();
        }
    }
}
