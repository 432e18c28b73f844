//! `weir rules stats`: what rules ask for.

use super::Outcome;
use super::files::Read;
use crate::exit::Exit;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use weir_detect::Rule;
use weir_output::aligned;
use weir_output::figures::{count, percent};

/// Numbers of rules by a property.
type Counts = BTreeMap<&'static str, usize>;

/// Counts of the rules in force.
pub fn stats(read: &Read, as_json: bool) -> Outcome {
    let rules = || read.set.rules.iter().map(|loaded| &*loaded.rule);
    let groups = [
        ("action", by(rules(), |rule| vec![rule.header.action.name()])),
        ("protocol", by(rules(), |rule| vec![rule.header.protocol.name])),
        ("buffer", by(rules(), |rule| rule.buffers.iter().map(|of| of.buffer.name).collect())),
        ("keyword", read.set.keyword_uses()),
    ];
    let all = read.set.rules.len();
    let text = match as_json {
        true => {
            let of = |counts: &Counts| {
                counts.iter().map(|(name, n)| ((*name).to_owned(), json!(n))).collect::<Map<_, _>>()
            };
            let mut object: Map<String, Value> = Map::from_iter([("rules".to_owned(), json!(all))]);
            object
                .extend(groups.iter().map(|(name, counts)| ((*name).to_owned(), Value::Object(of(counts)))));
            format!("{}\n", Value::Object(object))
        }
        false => groups.iter().map(|(name, counts)| table(name, counts, all)).collect::<Vec<_>>().join("\n"),
    };
    Outcome { text, exit: Exit::Good }
}

/// The number of rules that have each name. A rule counts once for a name.
fn by<'a>(rules: impl Iterator<Item = &'a Rule>, names: fn(&Rule) -> Vec<&'static str>) -> Counts {
    let mut counts = Counts::new();
    for rule in rules {
        let mut of_rule = names(rule);
        of_rule.sort_unstable();
        of_rule.dedup();
        for name in of_rule {
            *counts.entry(name).or_default() += 1;
        }
    }
    counts
}

/// A table, the most frequent first.
fn table(what: &str, counts: &Counts, all: usize) -> String {
    let mut rows: Vec<_> = counts.iter().collect();
    rows.sort_by_key(|(name, uses)| (std::cmp::Reverse(**uses), **name));
    let row = |(name, uses): &(&&'static str, &usize)| {
        vec![(**name).to_owned(), count(**uses as u64), percent(**uses as u64, all as u64)]
    };
    let head = [what, "rules", "share"].map(str::to_owned);
    aligned(&head, &rows.iter().map(row).collect::<Vec<_>>(), &[false, true, true])
}
