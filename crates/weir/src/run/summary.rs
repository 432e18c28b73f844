//! The facts of a run, for the summary.

use super::{Session, verbose};
use std::io::IsTerminal;
use std::sync::atomic::Ordering;
use weir_api::Snapshot;
use weir_capture::{Compression, Files, InputInfo, Written};

use weir_output::summary::{Facts, InputFacts, Style, ndjson, render};

/// The summary of a run over files.
pub fn of_files(session: &Session, files: &Files, total: &Snapshot, written: Option<Written>) -> String {
    let mut inputs: Vec<InputFacts> = files.describe().map(input).collect();
    if let [alone] = inputs.as_mut_slice() {
        alone.bytes = total.ledger.bytes;
    }
    let mut text = text(session, facts(session, inputs, total, written));
    if is_verbose(session) {
        text += &verbose::ledger(total);
        text += &verbose::files(files);
    }
    text
}

/// Facts for programs are complete as they are.
fn is_verbose(session: &Session) -> bool {
    session.options.verbose && !session.options.json
}

/// The summary of a live run.
pub fn of_links(session: &Session, total: &Snapshot, written: Option<Written>) -> String {
    let alone = session.request.interfaces.len() == 1;
    let inputs = session.request.interfaces.iter().map(|name| InputFacts {
        name: name.clone(),
        format: "live".to_owned(),
        packets: if alone { total.ledger.caught } else { 0 },
        bytes: if alone { total.ledger.bytes } else { 0 },
        live: true,
        ..InputFacts::default()
    });
    let mut text = text(session, facts(session, inputs.collect(), total, written));
    if is_verbose(session) {
        text += &verbose::ledger(total);
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
        packets: info.packets,
        bytes: info.captured_bytes,
        problem: info.problem.as_ref().map(ToString::to_string),
        ..InputFacts::default()
    }
}

fn facts(session: &Session, inputs: Vec<InputFacts>, total: &Snapshot, written: Option<Written>) -> Facts {
    let expression = &session.request.expression;
    Facts {
        inputs,
        expression: (!expression.is_empty()).then(|| expression.clone()),
        total: total.clone(),
        notes: notes(session, total, written),
        interrupted: session.interrupted.load(Ordering::Relaxed),
        ..Facts::default()
    }
}

fn notes(session: &Session, total: &Snapshot, written: Option<Written>) -> Vec<String> {
    let mut notes = Vec::new();
    let ledger = &total.ledger;
    if ledger.time_jumps > 0 {
        notes.push(format!("{} leaps in time", ledger.time_jumps));
    }
    if let (Some(written), Some(name)) = (written, &session.options.write) {
        let lost = if written.lost > 0 { format!(", {} LOST", written.lost) } else { String::new() };
        notes.push(format!("{} packets written to {name}{lost}", written.packets));
    }
    notes
}

fn text(session: &Session, facts: Facts) -> String {
    let options = &session.options;
    if options.json {
        return ndjson(&facts);
    }
    let terminal = std::io::stdout().is_terminal();
    let style = Style {
        width: 80,
        colour: terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()),
        zone: session.zone.clone(),
        names: !options.numeric,
        next: !options.quiet,
    };
    render(&facts, &style)
}
