//! `weir rules keywords`: what rules may say.

use serde_json::{Value, json};
use weir_detect::{EVENTS, EventRow, KEYWORDS, Keyword};
use weir_output::aligned;

/// All keywords, each with its group, value and help; those whose rules are refused with the reason. The events that rules may
/// name follow them; in JSON they are in their keywords.
pub fn keywords(as_json: bool) -> String {
    if as_json {
        return format!("{}\n", Value::Array(KEYWORDS.iter().map(object).collect()));
    }
    let head = ["keyword", "about", "value", "meaning"].map(str::to_owned);
    let rows: Vec<Vec<String>> = KEYWORDS.iter().map(row).collect();
    let events = KEYWORDS.iter().map(event_table).filter(|table| !table.is_empty());
    std::iter::once(aligned(&head, &rows, &[])).chain(events).collect::<Vec<_>>().join("\n")
}

/// The events that a keyword names.
fn events_of(keyword: &Keyword) -> impl Iterator<Item = &'static EventRow> {
    let name = keyword.name;
    EVENTS.iter().filter(move |event| event.of.keyword() == name)
}

/// The events that a keyword names, each with its anomalies; "" for one that names none.
fn event_table(keyword: &Keyword) -> String {
    let rows: Vec<Vec<String>> =
        events_of(keyword).map(|event| vec![event.name.to_owned(), event.anomalies.join(", ")]).collect();
    aligned(&[keyword.name.to_owned(), "anomalies".to_owned()], &rows, &[])
}

/// The events that a keyword names; null for one that names none.
fn event_objects(keyword: &Keyword) -> Value {
    let object = |event: &EventRow| json!({ "name": event.name, "protocol": event.protocol, "anomalies": event.anomalies });
    let events: Vec<Value> = events_of(keyword).map(object).collect();
    if events.is_empty() { Value::Null } else { Value::Array(events) }
}

fn row(keyword: &Keyword) -> Vec<String> {
    let old = match keyword.old_names {
        [] => String::new(),
        names => format!(" Also: {}.", names.join(", ")),
    };
    let meaning = match keyword.refusal() {
        Some(reason) => format!("Refused: {reason}."),
        None => format!("{}{old}", keyword.help),
    };
    vec![keyword.name.to_owned(), keyword.group.name().to_owned(), keyword.arguments.to_owned(), meaning]
}

fn object(keyword: &Keyword) -> Value {
    json!({
        "name": keyword.name,
        "old_names": keyword.old_names,
        "group": keyword.group.name(),
        "arguments": keyword.arguments,
        "help": keyword.help,
        "refused": keyword.refusal(),
        "events": event_objects(keyword),
    })
}
