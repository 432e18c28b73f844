//! The tables `[[trigger]]`: events that each write a packet file.

use super::expression::{over_records, read_at};
use super::fault::Fault;
use super::functions::{self, LEVELS, level_of, read_level};
use super::read::{ConfigReader, Key, Node, quoted};
use super::{Config, EXPRESSION, Unique, require};
use crate::triggers::{Decided, DumpSpec, EXAMPLE, PLACEHOLDERS, TriggerSpec, filled};
use toml::de::{DeTable, DeValue};
use weir_api::{FunctionCall, Level, SubscriptionSpec};
use weir_engine::{Callable, check_chain};
use weir_filter::Options;

/// The function that makes events.
const EVENT: &str = "event";

/// A table as it is read.
struct Draft {
    /// What decides, without its function `event`.
    subscription: SubscriptionSpec,
    /// The function `event`.
    event: FunctionCall,
    /// Events of others that decide in its place.
    of: Option<String>,
    dump: DumpSpec,
}

impl Draft {
    /// Adds an argument of the function `event`.
    fn give(&mut self, name: &str, value: impl ToString) {
        self.event = self.event.clone().with(name, value);
    }
}

/// Keys of what decides, which a trigger for the events of others does not have.
const DECIDING: [&str; 10] =
    ["where", "level", "when", "column", "above", "below", "over", "rearm", "severity", "expression"];

static KEYS: [Key<Draft>; 20] = [
    Key {
        name: "name",
        takes: "letters, digits, hyphens and underscores, at most 64, such as \"syn-flood\"",
        read: |r, node, draft| {
            let Some(name) = r.name(node) else { return };
            if !is_valid(r, node, &FunctionCall::new(EVENT).with("name", &name)) {
                return;
            }
            draft.event.arguments.insert(0, ("name".to_owned(), name.clone()));
            draft.subscription.name = format!("trigger {name}");
        },
    },
    Key {
        name: "event",
        takes: "the name of events, such as \"port_scan\", or that of a function event of a subscription",
        read: |r, node, draft| draft.of = r.name(node),
    },
    Key { name: "where", takes: EXPRESSION, read: read_expression },
    Key { name: "expression", takes: EXPRESSION, read: read_expression },
    Key { name: "level", takes: LEVELS, read: read_level },
    Key {
        name: "when",
        takes: "a function that measures, or a list of functions, such as \"packets\" or \"top source\"",
        read: |r, node, draft| {
            let level = draft.subscription.level;
            let elements = match node.get_ref() {
                DeValue::Array(elements) => elements.iter().collect(),
                _ => vec![node],
            };
            let calls = elements.into_iter().filter_map(|element| functions::call(r, element, level));
            draft.subscription.functions = calls.collect();
        },
    },
    Key {
        name: "column",
        takes: "a column of the function's reading, such as \"bytes\"",
        read: |r, node, draft| argument(r, node, draft, "column"),
    },
    Key {
        name: "above",
        takes: "a number: the function's reading has more",
        read: |r, node, draft| argument(r, node, draft, "above"),
    },
    Key {
        name: "below",
        takes: "a number: the function's reading has less",
        read: |r, node, draft| argument(r, node, draft, "below"),
    },
    Key {
        name: "over",
        takes: "a duration from \"1s\" to \"1h\"",
        read: |r, node, draft| seconds(r, node, draft, "over"),
    },
    Key {
        name: "rearm",
        takes: "a duration from \"1s\" to \"1h\"",
        read: |r, node, draft| seconds(r, node, draft, "quiet"),
    },
    Key {
        name: "severity",
        takes: "\"low\" or \"high\"",
        read: |r, node, draft| argument(r, node, draft, "severity"),
    },
    Key {
        name: "filter",
        takes: "a pcap-filter(7) expression, in which {host}, {peer}, {port} and {proto} are those of the event",
        read: |r, node, draft| {
            let Some(text) = r.string(node) else { return };
            let sample = filled(text, &EXAMPLE);
            match sample
                .and_then(|text| weir_filter::check(&text, &Options::default()).map_err(|e| e.to_string()))
            {
                Ok(()) => draft.dump.filter = Some(text.to_owned()),
                Err(error) => {
                    // The other lines show the place within the expression.
                    let reason = error.lines().next().unwrap_or_default().replace('`', "");
                    let fault = Fault::new(node.span(), reason);
                    r.faults.push(fault.accepts(quoted(&PLACEHOLDERS)));
                }
            }
        },
    },
    Key {
        name: "before",
        takes: "a duration from \"1s\" to \"1h\"",
        read: |r, node, draft| draft.dump.before = nanoseconds(r, node),
    },
    Key {
        name: "after",
        takes: "a duration from \"1s\" to \"1h\"",
        read: |r, node, draft| draft.dump.after = nanoseconds(r, node),
    },
    Key {
        name: "packets",
        takes: "a whole number from 1 to 1000000000",
        read: |r, node, draft| {
            draft.dump.packets = r.integer(node, 1, 1_000_000_000).unwrap_or(draft.dump.packets);
        },
    },
    Key {
        name: "bytes",
        takes: "an amount, such as \"100M\"",
        read: |r, node, draft| {
            draft.dump.bytes = r.parsed(node, crate::cli::bytes).unwrap_or(draft.dump.bytes);
        },
    },
    Key {
        name: "snaplen",
        takes: "a whole number of bytes from 1 to 262144",
        read: |r, node, draft| {
            draft.dump.snaplen = r.integer(node, 1, 1 << 18).unwrap_or_default() as u32;
        },
    },
    Key {
        name: "files",
        takes: "a whole number from 1 to 4096",
        read: |r, node, draft| draft.dump.files = r.integer(node, 1, 4096).unwrap_or(1) as u32,
    },
    Key {
        name: "to",
        takes: "a directory, such as \"/var/lib/weir/dumps\"",
        read: |r, node, draft| draft.dump.to = r.path(node).unwrap_or_default(),
    },
];

fn read_expression(r: &mut ConfigReader<'_>, node: &Node<'_>, draft: &mut Draft) {
    let level = draft.subscription.level;
    draft.subscription.expression = read_at(r, node, level).unwrap_or_default();
}

fn nanoseconds(r: &mut ConfigReader<'_>, node: &Node<'_>) -> u64 {
    r.duration(node).map(|length| length.as_nanos() as u64).unwrap_or_default()
}

/// Reads an argument of `event` that is a number of seconds.
fn seconds(r: &mut ConfigReader<'_>, node: &Node<'_>, draft: &mut Draft, name: &str) {
    if let Some(length) = r.duration(node) {
        draft.give(name, length.as_secs());
    }
}

/// Reads an argument of `event`: a word or a number.
fn argument(r: &mut ConfigReader<'_>, node: &Node<'_>, draft: &mut Draft, name: &str) {
    let text = match node.get_ref() {
        DeValue::String(text) => text.to_string(),
        DeValue::Integer(number) if number.radix() == 10 => number.as_str().to_owned(),
        DeValue::Float(number) => number.as_str().to_owned(),
        _ => return r.refuse(node.span(), format!("{name} cannot be {}", node.get_ref().type_str())),
    };
    draft.give(name, &text);
    is_valid(r, node, &FunctionCall::new(EVENT).with("name", "x").with(name, text));
}

/// Reports an invalid argument of `event`. Returns whether all are valid.
fn is_valid(r: &mut ConfigReader<'_>, node: &Node<'_>, call: &FunctionCall) -> bool {
    // At the level of flows the function needs no threshold.
    let checked = Callable::find(EVENT, Level::Flow)
        .map_or(Ok(()), |event| event.check(call, Level::Flow, &over_records(r.fields)));
    checked.map_err(|error| r.refuse(node.span(), error.message.replace('`', ""))).is_ok()
}

pub(super) fn read(r: &mut ConfigReader<'_>, node: &Node<'_>, config: &mut Config) {
    let mut seen = Unique::new("trigger");
    for element in r.array(node) {
        let Some(table) = r.table(element) else { continue };
        let mut draft = Draft {
            subscription: SubscriptionSpec {
                level: level_of(table),
                ..SubscriptionSpec::new("", "", Vec::new())
            },
            event: FunctionCall::new(EVENT),
            of: None,
            dump: DumpSpec::default(),
        };
        let faults = r.faults.len();
        r.fill(table, &KEYS, &mut draft);
        require(r, table, element.span(), "this trigger", &["name", "to"]);
        check_keys(r, table);
        let at = table.get("name").map_or(element.span(), |name| name.span());
        let name = draft.subscription.name.strip_prefix("trigger ").unwrap_or_default().to_owned();
        if r.faults.len() > faults || !seen.is_new(r, &name, at.clone()) {
            continue;
        }
        let Draft { mut subscription, event, of, dump } = draft;
        if of.is_none() {
            subscription.functions.push(event);
            let checked = check_chain(subscription.level, &subscription.functions, &over_records(r.fields));
            if let Err(error) = checked {
                let at = table.get("when").map_or(at, |when| when.span());
                r.faults.push(Fault::new(at, error.replace('`', "")));
                continue;
            }
        }
        let decided = of.map_or_else(|| Decided::By(subscription), Decided::Elsewhere);
        config.triggers.push(TriggerSpec { name, decided, dump });
    }
}

/// Reports keys that exclude each other, and those that are missing.
fn check_keys(r: &mut ConfigReader<'_>, table: &DeTable<'_>) {
    if !table.contains_key("event") {
        return;
    }
    for node in DECIDING.iter().filter_map(|key| table.get(*key)) {
        r.faults.push(Fault::new(node.span(), "a trigger for the events of others only says what it writes"));
    }
}
