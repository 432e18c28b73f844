//! `weir count`: one row per expression.

use crate::applies::{Links, Misfits};
use crate::cli;
use crate::collector::{Collector, WorkerOutput, queue};
use crate::drive::WhenFull;
use crate::exit::{Exit, complain, print};
use crate::inputs::{inputs, report_read_errors};
use crate::memory::Room;
use crate::offline::{self, Input};
use crate::run::by_record::{self, Captures};
use crate::run::{seeds, worker_count};
use crate::times;
use serde::Serialize;
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use weir_api::{Count, FunctionCall, Reading, Snapshot, SubscriptionSpec};
use weir_capture::{Files, ReadOptions};
use weir_engine::{ChecksumMode, ChosenFlows, FlowConfig, Plan, PlanError, Settings, Worker};
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

/// Counts packets and bytes of each expression: of those over packets in one pass, of each over flows in one pass over its flows.
pub fn count(options: &cli::Count) -> Exit {
    let expressions = match expressions(options) {
        Ok(expressions) if expressions.is_empty() => {
            return complain(Exit::Usage, "count: no expression; give one with -e EXPR or -F FILE");
        }
        Ok(expressions) => expressions,
        Err(error) => return complain(Exit::Usage, error),
    };
    let times = match times::of_files(&options.times, &options.files) {
        Ok(times) => times,
        Err(exit) => return exit,
    };
    let counting = Counting { options, inputs: inputs(&options.files), times };
    let (counts, exit) = match counting.counts(&expressions) {
        Ok(counted) => counted,
        Err((exit, error)) => return complain(exit, error),
    };
    let rows = rows(&expressions, &counts);
    if rows.is_empty() {
        return exit;
    }
    let text = if options.json { json(&rows) } else { table(&rows) };
    exit.or(print(&text))
}

/// The captures of a command.
struct Counting<'a> {
    options: &'a cli::Count,
    inputs: Vec<weir_capture::Input>,
    times: Option<weir_capture::TimeRange>,
}

/// The count of each expression; `None` for one that applies to no capture.
type Counts = Vec<Option<Count>>;

impl Counting<'_> {
    fn counts(&self, expressions: &[String]) -> Result<(Counts, Exit), (Exit, String)> {
        let (mut over_packets, mut over_flows) = (Vec::new(), Vec::new());
        for (at, expression) in expressions.iter().enumerate() {
            match by_record::over_flows(expression, self.options.times.tz.as_deref())? {
                Some(test) => over_flows.push((at, expression, test)),
                None => over_packets.push((at, expression.as_str())),
            }
        }
        let mut counts = vec![None; expressions.len()];
        let mut put = |at: usize, count| {
            if let Some(place) = counts.get_mut(at) {
                *place = count;
            }
        };
        let mut exit = Exit::Good;
        if !over_packets.is_empty() {
            let texts: Vec<&str> = over_packets.iter().map(|(_, text)| *text).collect();
            let (found, outcome) = self.counts_in(&texts, None)?;
            exit = exit.or(outcome);
            over_packets.iter().zip(found).for_each(|((at, _), count)| put(*at, count));
        }
        if let Some((_, first, _)) = over_flows.first() {
            let captures = Captures {
                times: self.times,
                snaplen: self.options.snaplen,
                ..Captures::of(&self.inputs, ChecksumMode::Off)
            };
            let pass = captures.read_first(first)?;
            for (at, text, test) in &over_flows {
                let chosen = pass.choose(text, test)?;
                let (found, outcome) = self.counts_in(&[""], Some(chosen.flows))?;
                exit = exit.or(outcome);
                put(*at, found.into_iter().next().flatten());
            }
        }
        Ok((counts, exit))
    }

    /// Counts the packets of expressions over packets, among those of chosen flows if there are such, in one pass.
    fn counts_in(
        &self,
        expressions: &[&str],
        chosen: Option<Arc<ChosenFlows>>,
    ) -> Result<(Counts, Exit), (Exit, String)> {
        let options = self.options;
        let count_of = |expression: &&str| {
            SubscriptionSpec::new(expression, expression, vec![FunctionCall::new("packets")])
        };
        let settings = Settings {
            filter: crate::inputs::filter_options(options.strict_bpf, options.inner, options.snaplen),
            checksum: ChecksumMode::Off,
            seeds: seeds(),
            chosen,
            own_apps: Default::default(),
            rules: None,
        };
        let plan = match Plan::counting(expressions.iter().map(count_of).collect(), settings) {
            Ok(plan) => Arc::new(plan),
            // The error contains the expression, which is also the name.
            Err(PlanError::Subscription { error, .. }) => return Err((Exit::Usage, error.to_string())),
            Err(error) => return Err((Exit::Usage, error.to_string())),
        };
        let nothing = |exit| Ok((vec![None; expressions.len()], exit));
        let snaplen = (options.snaplen > 0).then_some(options.snaplen);
        let read = ReadOptions { snaplen, times: self.times, ..ReadOptions::default() };
        let files = match Files::open(&self.inputs, &read) {
            Ok(files) => files,
            Err(error) => return nothing(report_read_errors(std::slice::from_ref(&error))),
        };
        let ahead = Misfits::of_subscriptions(&Links::ahead(&files), &plan);
        let mut exit = Exit::Good;
        for complaint in &ahead.complaints {
            exit = exit.or(complain(Exit::Unreadable, complaint));
        }
        if expressions.iter().all(|expression| ahead.nowhere.contains(*expression)) {
            return nothing(exit);
        }
        let (total, links, read) = pass(files, &plan, worker_count(options.workers, &self.inputs));
        exit = exit.or(read);
        // The link types are compared after reading: a file may describe an interface after packets of others, and
        // standard input can be read only once.
        let misfits = Misfits::of_subscriptions(&links, &plan);
        for complaint in misfits.complaints.iter().filter(|complaint| !ahead.complaints.contains(complaint)) {
            exit = exit.or(complain(Exit::Unreadable, complaint));
        }
        let mut answers = total.answers.iter().map(|answer| match &answer.reading {
            Reading::Count(count) => *count,
            _ => Count::default(),
        });
        let counted = |expression: &&str| {
            let count = answers.next().unwrap_or_default();
            (!misfits.nowhere.contains(*expression)).then_some(count)
        };
        Ok((expressions.iter().map(counted).collect(), exit))
    }
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
    let worker_outputs =
        (0..workers).map(|at| WorkerOutput::new(at, to.clone(), WhenFull::Wait, &room)).collect();
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
    let total = collector.finish().total;
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

fn rows<'a>(expressions: &'a [String], counts: &Counts) -> Vec<CountRow<'a>> {
    let counted =
        expressions.iter().zip(counts).filter_map(|(expression, count)| Some((expression, (*count)?)));
    counted
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
