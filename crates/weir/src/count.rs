//! `weir count`: one row per expression.

use crate::applies::{Links, Misfits};
use crate::cli;
use crate::collector::{Collector, Load, WorkerOutput, queue};
use crate::drive::WhenFull;
use crate::exit::{Exit, complain, print};
use crate::inputs::{inputs, report_read_errors};
use crate::memory::Room;
use crate::offline::{self, Input};
use crate::outlet::Ways;
use crate::run::{seeds, worker_count};
use crate::times;
use serde::Serialize;
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use weir_api::{Count, FunctionCall, Reading, Snapshot, SubscriptionSpec};
use weir_capture::{Files, ReadOptions};
use weir_engine::{ChecksumMode, FlowConfig, Plan, PlanError, Settings, Worker};
use weir_output::figures;

/// The schema of the JSON rows.
const SCHEMA: u32 = 1;

#[derive(Serialize)]
struct CountRow<'a> {
    v: u32,
    kind: &'static str,
    expression: &'a str,
    packets: u64,
    bytes: u64,
}

/// Counts packets and bytes of each expression in one pass.
pub fn count(options: &cli::Count) -> Exit {
    let expressions = match expressions(options) {
        Ok(expressions) if expressions.is_empty() => {
            return complain(Exit::Usage, "count: no expression; give one with -e EXPR or -F FILE");
        }
        Ok(expressions) => expressions,
        Err(error) => return complain(Exit::Usage, error),
    };
    let specs = expressions
        .iter()
        .map(|expression| SubscriptionSpec::new(expression, expression, vec![FunctionCall::new("packets")]))
        .collect();
    let settings = Settings {
        filter: crate::inputs::filter_options(options.strict_bpf, options.inner, options.snaplen),
        checksum: ChecksumMode::Off,
        seeds: seeds(),
        chosen: None,
    };
    let plan = match Plan::counting(specs, settings) {
        Ok(plan) => Arc::new(plan),
        // The error contains the expression, which is also the name.
        Err(PlanError::Subscription { error, .. }) => return complain(Exit::Usage, error),
        Err(error) => return complain(Exit::Usage, error),
    };
    let times = match times::of_files(&options.times, &options.files) {
        Ok(times) => times,
        Err(exit) => return exit,
    };
    let snaplen = (options.snaplen > 0).then_some(options.snaplen);
    let read = ReadOptions { snaplen, times, ..ReadOptions::default() };
    let files = match Files::open(&inputs(&options.files), &read) {
        Ok(files) => files,
        Err(error) => return report_read_errors(std::slice::from_ref(&error)),
    };
    let ahead = Misfits::of_subscriptions(&Links::ahead(&files), &plan);
    let mut exit = Exit::Good;
    for complaint in &ahead.complaints {
        exit = exit.or(complain(Exit::Unreadable, complaint));
    }
    if expressions.iter().all(|expression| ahead.nowhere.contains(expression)) {
        return exit;
    }
    let (total, links, read) = pass(files, &plan, worker_count(options.workers));
    exit = exit.or(read);
    // The link types are compared after reading: a file may describe an interface after packets of others, and
    // standard input can be read only once.
    let misfits = Misfits::of_subscriptions(&links, &plan);
    for complaint in misfits.complaints.iter().filter(|complaint| !ahead.complaints.contains(complaint)) {
        exit = exit.or(complain(Exit::Unreadable, complaint));
    }
    let mut rows = rows(&expressions, &total);
    rows.retain(|row| !misfits.nowhere.contains(row.expression));
    if rows.is_empty() {
        return exit;
    }
    let text = if options.json { json(&rows) } else { table(&rows) };
    exit.or(print(&text))
}

/// The expressions of the command line, then those of the file.
fn expressions(options: &cli::Count) -> Result<Vec<String>, String> {
    let mut all = options.expressions.clone();
    if let Some(path) = &options.file {
        let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        all.extend(lines.map(str::to_owned));
    }
    Ok(all)
}

fn pass(files: Files, plan: &Arc<Plan>, workers: usize) -> (Snapshot, Links, Exit) {
    let (to, from) = queue();
    let room = Room::new(usize::MAX);
    let load = Load { room, rows: false, open_every: None, ways: Ways::default() };
    let worker_outputs =
        (0..workers).map(|at| WorkerOutput::new(at, to.clone(), WhenFull::Wait, load.clone())).collect();
    drop(to);
    // Counting needs no flows.
    let flows = FlowConfig::default();
    let pool = (0..workers).map(|_| Worker::new(Arc::clone(plan), &flows)).collect();
    let mut collector = Collector::new(Vec::new(), workers, 1, 0);
    let stop = AtomicBool::new(false);
    let input = Input { files, interval: u64::MAX, ticks: None, turns: None, plan, limit: None, stop: &stop };
    let outcome = std::thread::scope(|scope| {
        let pass = scope.spawn(|| offline::run(input, pool, worker_outputs, &|_| ()).0);
        collector.run(&from);
        pass.join()
    });
    let (total, ..) = collector.finish();
    match outcome {
        Ok(outcome) => {
            times::report_outside(&outcome.files);
            (total, Links::read(&outcome.files), report_read_errors(&outcome.errors))
        }
        Err(_) => {
            (total, Links::default(), complain(Exit::Partial, "a worker failed: the counts are partial"))
        }
    }
}

fn rows<'a>(expressions: &'a [String], total: &Snapshot) -> Vec<CountRow<'a>> {
    let counts = total.answers.iter().map(|answer| match &answer.reading {
        Reading::Count(count) => *count,
        _ => Count::default(),
    });
    let counts = counts.chain(std::iter::repeat(Count::default()));
    expressions
        .iter()
        .zip(counts)
        .map(|(expression, Count { packets, bytes })| CountRow {
            v: SCHEMA,
            kind: "count",
            expression,
            packets,
            bytes,
        })
        .collect()
}

fn json(rows: &[CountRow<'_>]) -> String {
    let lines = rows.iter().filter_map(|row| serde_json::to_string(row).ok());
    lines.fold(String::new(), |text, line| text + &line + "\n")
}

/// The expression is the last column, because its length varies.
fn table(rows: &[CountRow<'_>]) -> String {
    let mut text = format!("{:>14} {:>18}  expression\n", "packets", "bytes");
    for row in rows {
        let _ = writeln!(
            text,
            "{:>14} {:>18}  {}",
            figures::count(row.packets),
            figures::count(row.bytes),
            row.expression
        );
    }
    text
}
