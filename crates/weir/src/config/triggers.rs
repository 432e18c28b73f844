//! The tables `[[trigger]]`: events that each write a packet file.

use super::expression::{over_records, read_at};
use super::fault::{Fault, nearest};
use super::functions::{self, LEVELS, level_of, read_level};
use super::read::{ConfigReader, Key, Node, quoted};
use super::{Chart, Config, EXPRESSION, Unique, require};
use crate::triggers::{Decided, DumpSpec, EXAMPLE, OF_TRIGGER, PLACEHOLDERS, TriggerSpec, filled};
use toml::de::{DeTable, DeValue};
use weir_api::{FunctionCall, Level, SubscriptionSpec};
use weir_engine::{Callable, DROPS, PER_MILLION, check_chain, judging_drops};
use weir_filter::Options;

/// The function that makes events.
const EVENT: &str = "event";

/// What a threshold is compared with.
#[derive(Clone, Copy, Eq, PartialEq)]
enum When {
    /// The reading of functions.
    Functions,
    /// The packets that the run lost.
    Drops,
    /// Packets or bytes per second.
    Rate,
}

/// A table as it is read.
struct Draft {
    /// What decides, without its function `event`.
    subscription: SubscriptionSpec,
    /// The function `event`.
    event: FunctionCall,
    /// Events of others that decide in its place.
    of: Option<String>,
    /// What `when` is, if it is not a list of functions.
    when: When,
    /// Whether a threshold is a share in percent.
    is_share: bool,
    dump: DumpSpec,
}

impl Draft {
    /// Adds an argument of the function `event`.
    fn give(&mut self, name: &str, value: impl ToString) {
        self.event = self.event.clone().with(name, value);
    }
}

/// Keys of what decides, which a trigger for the events of others does not have.
const DECIDING: [&str; 12] = [
    "where",
    "level",
    "when",
    "line",
    "column",
    "above",
    "below",
    "over",
    "hold",
    "rearm",
    "severity",
    "expression",
];

/// The share of `above` down to which a number keeps a trigger on, where `below` does not say it.
const KEEPS: f64 = 0.8;

static KEYS: [Key<Draft>; 23] = [
    Key {
        name: "name",
        takes: "letters, digits, hyphens and underscores, at most 64, such as \"syn-flood\"",
        read: |r, node, draft| {
            let Some(name) = r.name(node) else { return };
            if !is_valid(r, node, &FunctionCall::new(EVENT).with("name", &name)) {
                return;
            }
            draft.event.arguments.insert(0, ("name".to_owned(), name.clone()));
            draft.subscription.name = format!("{OF_TRIGGER}{name}");
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
        takes: "\"drops\", \"rate\", a function that measures, or a list of functions, such as \"packets\" or \"top source\"",
        read: |r, node, draft| {
            draft.when = match node.get_ref().as_str() {
                Some(DROPS) => When::Drops,
                Some("rate") => When::Rate,
                _ => When::Functions,
            };
            if draft.when != When::Functions {
                return;
            }
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
        name: "line",
        takes: "a line of a [[chart]], such as \"ports/ssh\": the name of the chart, a slash, and that of the line",
        // It is found when the table has been read.
        read: |r, node, _| {
            r.string(node);
        },
    },
    Key {
        name: "column",
        takes: "a column of the function's reading, such as \"bytes\"",
        read: |r, node, draft| argument(r, node, draft, "column"),
    },
    Key {
        name: "above",
        takes: "a number: the function's reading has more; of drops also a share, such as \"0.1%\"",
        read: |r, node, draft| threshold(r, node, draft, "above"),
    },
    Key {
        name: "below",
        takes: "a number: the function's reading has less; with above, where the trigger goes off, by default 0.8 of it; of drops also a share, such as \"0.1%\"",
        read: |r, node, draft| threshold(r, node, draft, "below"),
    },
    Key {
        name: "over",
        takes: "a duration from \"100ms\" to \"1h\", in tenths of a second",
        read: |r, node, draft| {
            if let Some(seconds) = window(r, node) {
                argument_of(r, node, draft, ("over", seconds.to_string()));
            }
        },
    },
    Key {
        name: "hold",
        takes: "a duration from \"1s\" to \"1h\": the number passes for so long before the trigger goes on",
        read: |r, node, draft| seconds(r, node, draft, "hold"),
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
        name: "limit",
        takes: "an amount from \"1M\", such as \"1G\"",
        read: |r, node, draft| {
            let limit = |text: &str| match crate::cli::bytes(text)? {
                limit if limit < 1 << 20 => Err(format!("{text:?} is less than 1M")),
                limit => Ok(limit),
            };
            draft.dump.limit = r.parsed(node, limit);
        },
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

/// Reads a window, in seconds, of which milliseconds may be a part.
fn window(r: &mut ConfigReader<'_>, node: &Node<'_>) -> Option<f64> {
    let milliseconds = node.get_ref().as_str().and_then(|text| text.strip_suffix("ms")?.parse::<u32>().ok());
    match milliseconds {
        Some(milliseconds) => Some(f64::from(milliseconds) / 1e3),
        None => r.duration(node).map(|length| length.as_secs_f64()),
    }
}

/// Reads an argument of `event` that is a number of seconds.
fn seconds(r: &mut ConfigReader<'_>, node: &Node<'_>, draft: &mut Draft, name: &str) {
    if let Some(length) = r.duration(node) {
        draft.give(name, length.as_secs());
    }
}

/// Reads a threshold: a number, or a share in percent, which is kept as packets of a million.
fn threshold(r: &mut ConfigReader<'_>, node: &Node<'_>, draft: &mut Draft, name: &str) {
    let text = node.get_ref().as_str().unwrap_or_default();
    let Some(share) = text.strip_suffix('%') else { return argument(r, node, draft, name) };
    match share.trim().parse::<f64>() {
        Ok(share) if (0.0..=100.0).contains(&share) => {
            draft.is_share = true;
            // Three digits of a millionth are enough, and 0.07 % is 700 of a million.
            draft.give(name, (share * 1e7).round() / 1e3);
        }
        _ => r.refuse(node.span(), format!("{text:?} is not a share from \"0%\" to \"100%\"")),
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
    argument_of(r, node, draft, (name, text));
}

fn argument_of(r: &mut ConfigReader<'_>, node: &Node<'_>, draft: &mut Draft, (name, text): (&str, String)) {
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
            when: When::Functions,
            is_share: false,
            dump: DumpSpec::default(),
        };
        let faults = r.faults.len();
        r.fill(table, &KEYS, &mut draft);
        require(r, table, element.span(), "this trigger", &["name", "to"]);
        check_keys(r, table);
        let at = table.get("name").map_or(element.span(), |name| name.span());
        let name = draft.subscription.name.strip_prefix(OF_TRIGGER).unwrap_or_default().to_owned();
        if r.faults.len() > faults || !seen.is_new(r, &name, at.clone()) {
            continue;
        }
        let mut dump = std::mem::take(&mut draft.dump);
        if let Some(limit) = dump.limit.filter(|_| !table.contains_key("bytes")) {
            // There is room for older files beside one that is being written.
            dump.bytes = dump.bytes.min(limit / 10);
        }
        match decided(r, table, draft, &config.charts) {
            Ok(decided) => config.triggers.push(TriggerSpec { name, decided, dump }),
            Err((key, error)) => {
                let at = table.get(key).map_or(at, |node| node.span());
                r.faults.push(Fault::new(at, error.replace('`', "")));
            }
        }
    }
}

/// What decides a trigger.
///
/// # Errors
/// The key that is wrong, and why.
fn decided(
    r: &ConfigReader<'_>,
    table: &DeTable<'_>,
    draft: Draft,
    charts: &[Chart],
) -> Result<Decided, (&'static str, String)> {
    let Draft { mut subscription, mut event, of, when, is_share, .. } = draft;
    if let Some(name) = of {
        return Ok(Decided::Elsewhere(name));
    }
    if is_share {
        if when != When::Drops || table.contains_key("column") {
            return Err(("above", "a share in percent is for drops, without a column".to_owned()));
        }
        let mut limits = ["above", "below"].into_iter().filter_map(|key| table.get(key));
        if !limits.all(|node| node.get_ref().as_str().is_some_and(|text| text.ends_with('%'))) {
            return Err(("below", "above and below are both shares, or neither is".to_owned()));
        }
        event = event.with("column", PER_MILLION);
    }
    event = keeping(event).map_err(|error| ("below", error))?;
    match when {
        When::Drops => {
            if let Some(key) =
                ["where", "expression", "level", "line"].into_iter().find(|key| table.contains_key(*key))
            {
                return Err((key, "packets that were lost cannot be selected".to_owned()));
            }
            let event = judging_drops(&event).map_err(|error| ("when", error))?;
            return Ok(Decided::ByDrops { name: subscription.name, event });
        }
        When::Rate if subscription.level != Level::Packet => {
            return Err(("level", "a rate is of packets".to_owned()));
        }
        When::Rate => {
            subscription.functions = vec![FunctionCall::new("packets")];
            event = per_second(event);
        }
        When::Functions => {}
    }
    if let Some(line) = table.get("line").and_then(|node| node.get_ref().as_str()) {
        let others = ["when", "where", "expression", "level"];
        if let Some(key) = others.into_iter().find(|key| table.contains_key(*key)) {
            return Err((key, "a line of a chart has its own measure and expression".to_owned()));
        }
        let line = line_of(charts, line).map_err(|error| ("line", error))?;
        (subscription.expression, subscription.functions) = (line.expression, line.functions);
    }
    subscription.functions.push(event);
    let checked = check_chain(subscription.level, &subscription.functions, &over_records(r.fields));
    checked.map_err(|error| (if table.contains_key("line") { "line" } else { "when" }, error))?;
    Ok(Decided::By(subscription))
}

/// The call of `event` whose events go on while the number is not below `below`, or [`KEEPS`] of `above`.
///
/// # Errors
/// The number at which an event ends is more than that at which it begins.
fn keeping(mut event: FunctionCall) -> Result<FunctionCall, String> {
    let number = |name: &str| {
        let (_, value) = event.arguments.iter().find(|(known, _)| known == name)?;
        value.parse::<f64>().ok()
    };
    let Some(above) = number("above") else { return Ok(event) };
    let keep = number("below").unwrap_or(above * KEEPS);
    if keep > above {
        return Err(format!("the trigger goes on above {above} and would be off again below {keep}"));
    }
    event.arguments.retain(|(name, _)| name != "below");
    Ok(event.with("keep", keep))
}

/// The call of `event` for sums of `over`, a second without it, in place of rates.
fn per_second(mut event: FunctionCall) -> FunctionCall {
    let over = event.arguments.iter().find(|(name, _)| name == "over");
    let seconds = over.and_then(|(_, seconds)| seconds.parse::<f64>().ok()).unwrap_or(1.0);
    if over.is_none() {
        event = event.with("over", 1);
    }
    for (name, value) in &mut event.arguments {
        if matches!(&**name, "above" | "below" | "keep")
            && let Ok(rate) = value.parse::<f64>()
        {
            *value = (rate * seconds).to_string();
        }
    }
    event
}

/// What a line of a chart measures, by the names of the chart and the line.
///
/// # Errors
/// No chart has such a line.
fn line_of(charts: &[Chart], name: &str) -> Result<SubscriptionSpec, String> {
    let lines = charts.iter().flat_map(|chart| {
        let named = |line: SubscriptionSpec| (format!("{}/{}", chart.name, line.name), line);
        chart.subscriptions().into_iter().map(named).collect::<Vec<_>>()
    });
    let lines: Vec<(String, SubscriptionSpec)> = lines.collect();
    match lines.iter().find(|(known, _)| known == name) {
        // Other lines than those of its chart do not count for it.
        Some((_, line)) if line.remainder => Err(format!("{name:?} has no expression of its own")),
        Some((_, line)) => Ok(line.clone()),
        None => {
            let known: Vec<&str> =
                lines.iter().filter(|(_, line)| !line.remainder).map(|(known, _)| &**known).collect();
            Err(match nearest(name, known.iter().copied()) {
                Some(meant) => format!("no chart has the line {name:?}: did you mean {meant:?}?"),
                None => format!("no chart has the line {name:?}; the lines are {}", quoted(&known)),
            })
        }
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
