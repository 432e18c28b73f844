//! `weir rules keywords`: what rules may say.

use serde_json::{Value, json};
use weir_detect::{KEYWORDS, Keyword};
use weir_output::aligned;

/// All keywords, each with its group, value and help; those whose rules are refused with the reason.
pub fn keywords(as_json: bool) -> String {
    if as_json {
        return format!("{}\n", Value::Array(KEYWORDS.iter().map(object).collect()));
    }
    let head = ["keyword", "about", "value", "meaning"].map(str::to_owned);
    let rows: Vec<Vec<String>> = KEYWORDS.iter().map(row).collect();
    aligned(&head, &rows, &[])
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
    })
}
