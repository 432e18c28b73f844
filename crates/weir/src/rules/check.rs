//! `weir rules check`: what is in force, and why the rest is not.

use super::Outcome;
use super::files::Read;
use crate::exit::Exit;
use serde_json::{Value, json};
use std::collections::HashSet;
use weir_detect::{ConfigFault, FaultKind, LoadedRule, Note, Origin, Refusal};

/// Each refused rule with a mark below its fault, notes, and the number of rules in force.
pub fn check(read: &Read, as_json: bool) -> Outcome {
    let set = &read.set;
    let faults: Vec<_> = config_faults(read).collect();
    let exit = if read.refused() == 0 && faults.is_empty() { Exit::Good } else { Exit::Usage };
    let notes: Vec<Note> =
        set.notes.iter().cloned().chain(set.notes_of_unset_bits()).chain(unknown_classes(read)).collect();
    if as_json {
        return Outcome { text: format!("{}\n", json(read, &notes, &faults)), exit };
    }
    let mut text: String = set.refusals.iter().map(refusal).collect();
    text.extend(read.program.unread.iter().map(unread));
    text.extend(faults.iter().map(|(file, fault)| format!("{}: {}\n", line_of(file, fault), fault.reason)));
    text.extend(notes.iter().map(note));
    text.push_str(&read.total());
    text.push('\n');
    Outcome { text, exit }
}

/// The lines of files beside rules that cannot be read, with the names of their files.
fn config_faults(read: &Read) -> impl Iterator<Item = (&str, &ConfigFault)> {
    let of_classes = read
        .classes
        .iter()
        .flat_map(|(file, config)| config.faults.iter().map(move |fault| (&**file, fault)));
    let of_thresholds = read.thresholds.iter();
    of_classes.chain(
        of_thresholds.flat_map(|(file, config)| config.faults.iter().map(move |fault| (&**file, fault))),
    )
}

fn line_of(file: &str, fault: &ConfigFault) -> String {
    format!("{file}:{}:{}", fault.line, fault.column)
}

/// Rules whose class no classification.config has, where there is one.
fn unknown_classes(read: &Read) -> Vec<Note> {
    let known: HashSet<&str> =
        read.classes.iter().flat_map(|(_, config)| &config.rows).map(|class| &*class.name).collect();
    let unknown = read.set.rules.iter().filter_map(|loaded| {
        let class = loaded.rule.class.as_deref().filter(|class| !known.contains(class))?;
        let text = format!("classification.config has no class {class}; the rule's priority is 3");
        Some(Note { origin: loaded.origin.clone(), sid: loaded.rule.sid, text })
    });
    if known.is_empty() { Vec::new() } else { unknown.collect() }
}

/// A rule that asks for something that nothing reads yet.
pub(super) fn unread((loaded, reason): &(LoadedRule, String)) -> String {
    format!("{}: sid {}: not supported: {reason}\n", place(&loaded.origin), loaded.rule.sid)
}

fn place(origin: &Origin) -> String {
    format!("{}:{}:{}", origin.file, origin.line, origin.column)
}

/// A refusal with the part of its line and a mark below the fault.
pub(super) fn refusal(refusal: &Refusal) -> String {
    let sid = refusal.sid.map(|sid| format!("sid {sid}: ")).unwrap_or_default();
    let kind = match refusal.fault.kind {
        FaultKind::Wrong => "",
        FaultKind::NotSupported => "not supported: ",
    };
    let mut text = format!("{}: {sid}{kind}{}\n", place(&refusal.origin), refusal.fault.reason);
    if !refusal.excerpt.is_empty() {
        let mark = refusal.fault.at.saturating_sub(refusal.skipped).min(refusal.excerpt.len());
        text.push_str(&format!("  {}\n  {}^\n", refusal.excerpt, " ".repeat(mark)));
    }
    text
}

fn note(note: &Note) -> String {
    format!("{}: sid {}: note: {}\n", place(&note.origin), note.sid, note.text)
}

fn json(read: &Read, notes: &[Note], faults: &[(&str, &ConfigFault)]) -> Value {
    let set = &read.set;
    let at = |origin: &Origin| json!({"file": *origin.file, "line": origin.line, "column": origin.column});
    let refusal = |refusal: &Refusal| {
        let is_supported = refusal.fault.kind == FaultKind::Wrong;
        json!({"at": at(&refusal.origin), "sid": refusal.sid, "reason": refusal.fault.reason, "supported": is_supported})
    };
    let unread = |(loaded, reason): &(LoadedRule, String)| json!({"at": at(&loaded.origin), "sid": loaded.rule.sid, "reason": reason, "supported": false});
    let note = |note: &Note| json!({"at": at(&note.origin), "sid": note.sid, "text": note.text});
    let fault = |(file, fault): &(&str, &ConfigFault)| json!({"at": {"file": file, "line": fault.line, "column": fault.column}, "reason": fault.reason});
    json!({
        "files": read.files,
        "rules": set.offered(),
        "in_force": read.program.rules.len(),
        "replaced": set.replaced,
        "switched_off": set.switched_off,
        "refused": set.refusals.iter().map(refusal).chain(read.program.unread.iter().map(unread)).collect::<Vec<_>>(),
        "notes": notes.iter().map(note).collect::<Vec<_>>(),
        "wrong_lines": faults.iter().map(fault).collect::<Vec<_>>(),
    })
}
