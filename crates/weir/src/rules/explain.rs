//! `weir rules explain`: what a rule says, how it is found, and why it is not in force.

use super::files::{self, Read};
use super::{Outcome, number, why_not_in_force};
use crate::exit::Exit;
use serde_json::{Value, json};
use weir_detect::{Explained, Origin, ProgramRule, keyword, option_texts};
use weir_output::aligned;
use weir_output::figures::printable;

/// Explains a rule, by its sid or by its gid and sid (`1:2019401`). Exit code 1: there is no such rule, or it is not in force.
pub fn explain(read: &Read, wanted: &str, as_json: bool) -> Outcome {
    let Some((gid, sid)) = number(wanted) else {
        return said(format!("`{wanted}` is no sid, such as 2019401 or 1:2019401"), Exit::Usage);
    };
    let is_it =
        |known: &&ProgramRule| known.rule().sid == sid && gid.is_none_or(|gid| known.rule().gid == gid);
    if let Some(known) = read.program.rules.iter().find(is_it) {
        let parts = read.program.explain(known);
        let text = match as_json {
            true => format!("{}\n", object(known, &parts)),
            false => in_words(known, &parts),
        };
        return Outcome { text, exit: Exit::Good };
    }
    let reasons = why_not_in_force(read, sid);
    match reasons.is_empty() {
        true => said(
            format!("no rule has the sid {sid}; rules that a `#` switches off are read with --all"),
            Exit::Usage,
        ),
        false => Outcome { text: format!("The rule is not in force.\n{reasons}"), exit: Exit::Usage },
    }
}

fn said(text: String, exit: Exit) -> Outcome {
    Outcome { text: format!("{text}\n"), exit }
}

/// The header of a rule and its options, as the text of its file has them.
fn parts_of(origin: &Origin) -> Option<(String, Vec<(String, String)>)> {
    let text = files::text_of(origin)?;
    let shown = |bytes: &[u8]| printable(&String::from_utf8_lossy(bytes));
    let header = text.get(..text.iter().position(|byte| *byte == b'(')?)?.trim_ascii();
    let options = option_texts(&text)?;
    Some((shown(header), options.iter().map(|(name, value)| (shown(name), shown(value))).collect()))
}

fn in_words(known: &ProgramRule, parts: &[Explained<'_>]) -> String {
    let (rule, origin) = (known.rule(), &known.loaded.origin);
    let mut out = format!("{}:{}:{}  {}\n", rule.gid, rule.sid, rule.rev, printable(&rule.message));
    let class =
        rule.class.as_deref().map(|class| format!("class {class}: {}, ", known.category)).unwrap_or_default();
    out.push_str(&format!("{class}priority {}; {}:{}\n", known.severity, origin.file, origin.line));
    for (system, name) in &rule.references {
        out.push_str(&format!("reference {} {}\n", printable(system), printable(name)));
    }
    if let Some((header, options)) = parts_of(origin) {
        out.push_str(&format!("\n{header}\n"));
        let row = |(name, value): &(String, String)| {
            let option = if value.is_empty() { name.clone() } else { format!("{name}:{value}") };
            let help = keyword(name).map_or("", |keyword| keyword.help);
            vec![format!("  {option}"), help.to_owned()]
        };
        let about_the_rule = ["msg", "sid", "gid", "rev", "classtype", "reference", "metadata", "priority"];
        let rows: Vec<_> =
            options.iter().filter(|(name, _)| !about_the_rule.contains(&&**name)).map(row).collect();
        let head = ["  option", "meaning"].map(str::to_owned);
        out.push_str(&aligned(&head, &rows, &[]));
    }
    out.push_str("\nIt is found\n");
    for part in parts {
        let by = match &part.literal {
            Some(found) => format!(
                "by {}{}, {} of {} ({})",
                literal(found.bytes),
                if found.ignores_case { " in either case" } else { "" },
                found.place,
                found.buffer,
                found.why
            ),
            None if part.buffers.is_empty() => "without a search".to_owned(),
            None => format!("wherever {} is: no literal finds it", part.buffers.join(", ")),
        };
        let places = match part.places.as_slice() {
            [] => String::new(),
            places => format!("; looked for in {}", places.join(", ")),
        };
        out.push_str(&format!("  in {}: {by}{places}\n", part.about));
    }
    out
}

/// A literal as rules write it.
fn literal(bytes: &[u8]) -> String {
    let mut out = String::from("\"");
    let mut is_hex = false;
    for byte in bytes {
        let is_plain = (byte.is_ascii_graphic() || *byte == b' ') && !b"\"|;:\\".contains(byte);
        if is_plain == is_hex {
            out.push('|');
        } else if is_hex {
            out.push(' ');
        }
        match is_plain {
            true => out.push(char::from(*byte)),
            false => out.push_str(&format!("{byte:02x}")),
        }
        is_hex = !is_plain;
    }
    out.push_str(if is_hex { "|\"" } else { "\"" });
    out
}

fn object(known: &ProgramRule, parts: &[Explained<'_>]) -> Value {
    let (rule, origin) = (known.rule(), &known.loaded.origin);
    let (header, options) = parts_of(origin).unwrap_or_default();
    let option = |(name, value): &(String, String)| {
        let help = keyword(name).map(|keyword| keyword.help);
        json!({"name": name, "value": value, "meaning": help})
    };
    let part = |part: &Explained<'_>| {
        let found = part.literal.as_ref().map(|found| {
            json!({
                "literal": literal(found.bytes),
                "ignores_case": found.ignores_case,
                "buffer": found.buffer,
                "place": found.place,
                "why": found.why,
            })
        });
        json!({"in": part.about, "buffers": part.buffers, "found_by": found, "looked_for_in": part.places})
    };
    json!({
        "gid": rule.gid,
        "sid": rule.sid,
        "rev": rule.rev,
        "message": &*rule.message,
        "class": rule.class.as_deref(),
        "category": &*known.category,
        "priority": known.severity,
        "at": {"file": &*origin.file, "line": origin.line},
        "header": header,
        "options": options.iter().map(option).collect::<Vec<_>>(),
        "parts": parts.iter().map(part).collect::<Vec<_>>(),
    })
}
