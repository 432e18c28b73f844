//! The contents of the summary, from the results of a run.

use super::packet_files::Finished;
use super::{Run, verbose};
use crate::cost_profile;
use crate::memory::{self, Load};
use crate::offline::Outcome;
use crate::resolved::HostNames;

use std::collections::HashSet;
use std::io::IsTerminal;
use weir_api::{Answer, AnswerId, Snapshot, SubscriptionId, builtin};
use weir_capture::{Compression, Files, InputInfo, ReadError};
use weir_output::Applications;
use weir_output::figures::counted;
use weir_output::ndjson;
use weir_output::summary::{Facts, InputFacts, Naming, RangeFacts, Style, answers, lists, render, states};

/// Columns of the summary.
const WIDTH: usize = 80;

/// The facts of a run over files.
pub fn of_files(
    run: &Run,
    outcome: &Outcome,
    total: Snapshot,
    written: &Finished,
    failures: &[String],
    names: HostNames,
) -> Facts {
    let files = &outcome.files;
    let mut inputs: Vec<InputFacts> = files.describe().map(input).collect();
    if let [alone] = inputs.as_mut_slice() {
        alone.bytes = total.ledger.bytes;
        alone.in_order = (alone.packets > 0).then_some(outcome.in_order);
    }
    let outside = files.outside();
    let range = run.request.times.map(|range| RangeFacts {
        from: range.from.0,
        until: range.until.0,
        outside: outside.packets,
        times: outside.times.map(|(first, last)| (first.0, last.0)),
    });
    Facts { range, ..facts(run, inputs, total, written, failures, names) }
}

/// The facts of a live run.
pub fn of_links(
    run: &Run,
    total: Snapshot,
    written: &Finished,
    failures: &[String],
    names: HostNames,
) -> Facts {
    let alone = run.request.interfaces.len() == 1;
    let inputs = run.request.interfaces.iter().map(|name| InputFacts {
        name: name.clone(),
        format: "live".to_owned(),
        packets: if alone { total.ledger.caught } else { 0 },
        bytes: if alone { total.ledger.bytes } else { 0 },
        live: true,
        ..InputFacts::default()
    });
    let inputs = inputs.collect();
    facts(run, inputs, total, written, failures, names)
}

/// The summary, with what `-v` adds: `files` are those that were read.
pub fn text(run: &Run, facts: &Facts, load: &Load, files: Option<&Files>) -> String {
    let mut text = summary(run, facts);
    if !run.options.json {
        text += &asked(run, &facts.total);
    }
    if run.options.verbose && run.options.json {
        text += &cost_profile::json(&facts.total);
    } else if run.options.verbose {
        text += &verbose::ledger(&facts.total);
        text += &verbose::destinations(&run.destinations.counts());
        text += &memory::table(&run.division.shares(&run.work), &facts.total, load);
        text += &lists(&facts.total);
        text += &cost_profile::table(&facts.total);
        text += &files.map(|files| verbose::files(files, run.worker_count())).unwrap_or_default();
    }
    text
}

/// Subscriptions whose answers follow the summary at most.
const ASKED: usize = 64;

/// The answers of the subscriptions of the command line and of the configuration. Lines of charts and what functions deliver
/// are seen elsewhere.
fn asked(run: &Run, total: &Snapshot) -> String {
    let plan = run.plan();
    let delivered: HashSet<AnswerId> = plan.targets().map(|(id, _)| id).collect();
    let is_asked = |answer: &&Answer| {
        let label = &answer.label;
        answer.id.subscription >= builtin::FIRST_FREE
            && label.chart.is_none()
            && label.outputs.is_none()
            && !delivered.contains(&answer.id)
    };
    let found: Vec<&Answer> = total.answers.iter().filter(is_asked).collect();
    let mut ids: Vec<SubscriptionId> = found.iter().map(|answer| answer.id.subscription).collect();
    ids.dedup();
    let last = ids.get(ASKED - 1).copied().unwrap_or(SubscriptionId(u32::MAX));
    let applications = Applications::of(total);
    let naming = Naming::of(&applications, !run.options.numeric);
    let mut text = answers(found.into_iter().filter(|answer| answer.id.subscription <= last), naming, WIDTH);
    if let Some(more) = ids.len().checked_sub(ASKED).filter(|more| *more > 0) {
        text += &format!("\nand {}: see -j\n", counted(more as u64, "more subscription"));
    }
    text
}

fn input(info: &InputInfo) -> InputFacts {
    let format = info.format.map_or_else(|| "not a capture".to_owned(), |format| format.to_string());
    let format = match info.compression {
        Compression::None => format,
        Compression::Gzip => format!("{format}, gzip"),
        Compression::Zstd => format!("{format}, zstd"),
    };
    InputFacts {
        name: info.name.clone(),
        format,
        links: info.links.iter().map(ToString::to_string).collect(),
        undecoded: info.links.iter().filter(|link| !link.is_decoded()).map(ToString::to_string).collect(),
        packets: info.packets,
        bytes: info.captured_bytes,
        problem: info.problem.as_ref().map(problem),
        ..InputFacts::default()
    }
}

/// The error of an input without the input's name, which the summary shows already.
fn problem(error: &ReadError) -> String {
    let text = error.to_string();
    let named = text.strip_prefix(error.input()).and_then(|rest| rest.strip_prefix(": "));
    named.unwrap_or(&text).to_owned()
}

fn facts(
    run: &Run,
    inputs: Vec<InputFacts>,
    total: Snapshot,
    written: &Finished,
    failures: &[String],
    names: HostNames,
) -> Facts {
    let expression = run.request.shown_expression();
    Facts {
        inputs,
        expression: (!expression.is_empty()).then_some(expression),
        states: states(&total),
        failures: failures.to_vec(),
        notes: written.notes(&total, &run.destinations),
        total,
        names,
        range: None,
        interrupted: run.signals.has_interrupted(),
    }
}

fn summary(run: &Run, facts: &Facts) -> String {
    let options = &run.options;
    if options.json {
        return ndjson::summary(facts);
    }
    let terminal = std::io::stdout().is_terminal();
    let style = Style {
        width: WIDTH,
        colour: terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()),
        zone: run.zone.clone(),
        names: !options.numeric,
        next: !options.quiet,
    };
    render(facts, &style)
}
