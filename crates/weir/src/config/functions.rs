//! Functions in the list of a subscription: `"packets"`, or `{ top = "source", show = 10 }`.
//!
//! The engine's registry defines the functions and their arguments. The value of the key that names a function is its
//! first argument, or a list of its first arguments; every other key is an argument by name.

use super::expression::over_records;
use super::fault::{Fault, nearest};
use super::read::{ConfigReader, Key, Node, in_order, quoted, toml_string};
use super::{EXPRESSION, expression};
use crate::outputs;
use std::borrow::Cow;
use std::ops::Range;
use toml::de::{DeTable, DeValue};
use weir_api::{FunctionCall, Level, SubscriptionSpec};
use weir_engine::{Argument, CallError, Callable, check_chain};

pub static SUBSCRIPTION_KEYS: [Key<SubscriptionSpec>; 8] = [
    Key {
        name: "name",
        takes: "a name, such as \"web talkers\"",
        read: |r, node, subscription| subscription.name = r.name(node).unwrap_or_default(),
    },
    Key { name: "expression", takes: EXPRESSION, read: read_expression },
    Key { name: "where", takes: EXPRESSION, read: read_expression },
    Key { name: "level", takes: LEVELS, read: read_level },
    Key { name: "functions", takes: FUNCTIONS_TAKE, read: read_functions },
    Key { name: "chain", takes: FUNCTIONS_TAKE, read: read_functions },
    Key {
        name: "interval",
        takes: "a duration from \"1s\" to \"1h\", a multiple of the interval of the run",
        read: |r, node, subscription| {
            let length = r.duration(node).map(|length| length.as_nanos() as u64);
            subscription.interval = length.unwrap_or_default();
        },
    },
    Key {
        name: "outputs",
        takes: "a list of outputs, such as [\"store\", \"csv\"]",
        read: |r, node, subscription| {
            let known: Vec<&str> = outputs::of_readings().map(|output| output.name).collect();
            let names = r.array(node).iter();
            let names = names.filter_map(|element| r.word(element, &known).map(str::to_owned)).collect();
            subscription.outputs = Some(names);
        },
    },
];

/// Accepted values of a key with a level.
pub const LEVELS: &str = "\"packet\", \"stream\", \"flow\" or \"record\"";

/// Checks a level. The other keys of its table depend on it, so that it was read before them: see [`level_of`].
pub fn read_level<T>(r: &mut ConfigReader<'_>, node: &Node<'_>, _: &mut T) {
    r.word(node, &Level::ALL.map(Level::name));
}

const FUNCTIONS_TAKE: &str =
    "a list of functions, such as [\"packets\", \"top source show 10\", { top = \"source\", show = 10 }]";

/// The level of a subscription's table; packets without the key, or with an unknown word.
pub fn level_of(table: &DeTable<'_>) -> Level {
    let word = table.get("level").and_then(|node| node.get_ref().as_str());
    word.and_then(level_named).unwrap_or(Level::Packet)
}

/// The level of a word.
pub fn level_named(word: &str) -> Option<Level> {
    Level::ALL.into_iter().find(|level| level.name() == word)
}

fn read_expression(r: &mut ConfigReader<'_>, node: &Node<'_>, subscription: &mut SubscriptionSpec) {
    subscription.expression = expression::read_at(r, node, subscription.level).unwrap_or_default();
}

/// Functions of one subscription.
const MAX_FUNCTIONS: usize = 64;

fn read_functions(r: &mut ConfigReader<'_>, node: &Node<'_>, subscription: &mut SubscriptionSpec) {
    let elements = r.array(node);
    if elements.is_empty() && node.get_ref().is_array() {
        r.refuse(node.span(), "a subscription needs at least one function");
    }
    if let Some(first) = elements.get(MAX_FUNCTIONS) {
        let text = format!("a subscription has at most {MAX_FUNCTIONS} functions, and this is one more");
        return r.refuse(first.span(), text);
    }
    let level = subscription.level;
    let faults = r.faults.len();
    subscription.functions.extend(elements.iter().filter_map(|element| call(r, element, level)));
    let is_of_level = |call: &FunctionCall| {
        Callable::find(&call.name, level).is_some_and(|callable| callable.levels().contains(&level))
    };
    if r.faults.len() == faults && subscription.functions.iter().all(is_of_level) {
        let checked = check_chain(level, &subscription.functions, &over_records(r.fields));
        if let Err(error) = checked {
            r.refuse(node.span(), error.replace('`', ""));
        }
    }
}

/// The names of two keys of one meaning, of which a subscription has one.
pub const SAME: [(&str, &str); 2] = [("expression", "where"), ("functions", "chain")];

/// Reports functions that do not apply to the subscription's level.
pub fn check_levels(r: &mut ConfigReader<'_>, table: &DeTable<'_>, level: Level) {
    let lists = ["functions", "chain"].into_iter().filter_map(|key| table.get(key));
    for element in lists.filter_map(|node| node.get_ref().as_array()).flatten() {
        let Some(spec) = named(element, level).and_then(|name| Callable::find(&name, level)) else {
            continue;
        };
        if !spec.levels().contains(&level) {
            let named = |level: Level| format!("level = {:?}", level.name());
            let message = format!("{} does not work on {}", spec.name(), named(level));
            let accepted: Vec<String> = spec.levels().iter().copied().map(named).collect();
            r.faults.push(Fault::new(element.span(), message).accepts(accepted.join(", ")));
        }
    }
}

/// The name of the function that an element calls.
fn named(element: &Node<'_>, level: Level) -> Option<String> {
    match element.get_ref() {
        DeValue::String(text) => text.split_whitespace().next().map(str::to_owned),
        DeValue::Table(table) => {
            table.keys().map(|key| key.get_ref().to_string()).find(|key| Callable::find(key, level).is_some())
        }
        _ => None,
    }
}

/// An argument and its position in the text.
struct Given {
    name: &'static str,
    help: &'static str,
    value: String,
    at: Range<usize>,
}

/// Reads one function with its arguments, as the engine would build it.
pub(super) fn call(r: &mut ConfigReader<'_>, element: &Node<'_>, level: Level) -> Option<FunctionCall> {
    let faults = r.faults.len();
    let (spec, given) = match element.get_ref() {
        DeValue::String(text) => from_text(r, text, element, level)?,
        DeValue::Table(table) => from_table(r, table, element.span(), level)?,
        other => {
            r.refuse(element.span(), format!("a function cannot be {}", article(other.type_str())));
            return None;
        }
    };
    if r.faults.len() > faults {
        return None;
    }
    let call = given
        .iter()
        .fold(FunctionCall::new(spec.name()), |call, argument| call.with(argument.name, &argument.value));
    match spec.check(&call, level, &over_records(r.fields)) {
        // What does not work at the level is reported with the others: see `check_levels`.
        Err(_) if !spec.levels().contains(&level) => Some(call),
        Ok(()) => Some(call),
        Err(CallError { message, span: Some(span) }) => {
            let text = given.first().map_or("", |argument| &argument.value);
            let from = element.get_ref().as_str().and_then(|words| words.rfind(text));
            let at = match from {
                Some(from) => r.inside(element, from + span.start)..r.inside(element, from + span.end),
                None => element.span(),
            };
            r.faults.push(Fault::new(at, message));
            None
        }
        Err(CallError { message, span: None }) => {
            r.faults.push(refused(spec, &given, message, element.span()));
            None
        }
    }
}

/// The fault for an error of the engine, at the argument that the error names.
fn refused(spec: Callable, given: &[Given], message: String, whole: Range<usize>) -> Fault {
    // The engine names arguments as `name = value`, without their position in the file.
    match given.iter().find(|argument| message.contains(&format!("{} = ", argument.name))) {
        Some(argument) => {
            let words =
                argument.help.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| word.len() > 2);
            let words = words.filter(|word| *word != argument.value);
            let meant = nearest(&argument.value, words).map(|word| format!("{word:?}"));
            let message = format!("{} of {} cannot be {:?}", argument.name, spec.name(), argument.value);
            Fault::new(argument.at.clone(), message).accepts(argument.help).meant(meant)
        }
        None => Fault::new(whole, message.replace('`', "")).accepts(example(spec)),
    }
}

/// A ranking in the words of `weir query`: `top source by bytes` ranks by that unit, and `top source by distinct dns.query` by a
/// number of distinct values, which is what `distinct dns.query by source` shows.
fn reworded(text: &str) -> Cow<'_, str> {
    let words: Vec<&str> = text.split_whitespace().collect();
    match words.as_slice() {
        ["top", key, "by", "distinct", of, rest @ ..] => {
            Cow::Owned(format!("distinct {of} by {key} {}", rest.join(" ")))
        }
        ["top", key, "by", unit @ ("packets" | "bytes"), rest @ ..] => {
            Cow::Owned(format!("top {key} unit {unit} {}", rest.join(" ")))
        }
        _ => Cow::Borrowed(text),
    }
}

/// A call in words: the function, the value of its first argument, then names and values: `top dns.query show 20`.
fn from_text(
    r: &mut ConfigReader<'_>,
    text: &str,
    element: &Node<'_>,
    level: Level,
) -> Option<(Callable, Vec<Given>)> {
    let text = &*reworded(text);
    let mut words = text.split_whitespace().peekable();
    let spec = find_or_fault(r, words.next().unwrap_or_default(), element.span(), level)?;
    let argument = |word: &str| spec.arguments().iter().find(|argument| argument.name == word);
    let given = |argument: &'static Argument, value: &str| Given {
        name: argument.name,
        help: argument.help,
        value: value.to_owned(),
        at: element.span(),
    };
    let mut all = Vec::new();
    if let Some(first) = spec.arguments().first().filter(|_| spec.takes_expression()) {
        let rest = text.trim_start().strip_prefix(spec.name()).unwrap_or_default().trim();
        if rest.is_empty() {
            let message = format!("{} needs an expression", spec.name());
            r.faults.push(Fault::new(element.span(), message).accepts(first.help));
            return None;
        }
        return Some((spec, vec![given(first, rest)]));
    }
    if let Some(first) = spec.arguments().first()
        && let Some(value) = words.next_if(|word| argument(word).is_none())
    {
        all.push(given(first, value));
    }
    while let Some(word) = words.next() {
        match (argument(word), words.next()) {
            (Some(argument), Some(value)) => all.push(given(argument, value)),
            (Some(argument), None) => {
                let message = format!("{} of {} has no value", argument.name, spec.name());
                r.faults.push(Fault::new(element.span(), message).accepts(argument.help));
                return None;
            }
            (None, _) => {
                let names: Vec<&str> = spec.arguments().iter().map(|argument| argument.name).collect();
                let meant = nearest(word, names.iter().copied()).map(|name| format!("{name:?}"));
                let message = format!("{} has no argument {word:?}", spec.name());
                r.faults.push(Fault::new(element.span(), message).accepts(quoted(&names)).meant(meant));
                return None;
            }
        }
    }
    Some((spec, all))
}

fn from_table(
    r: &mut ConfigReader<'_>,
    table: &DeTable<'_>,
    whole: Range<usize>,
    level: Level,
) -> Option<(Callable, Vec<Given>)> {
    let entries = in_order(table);
    let functions: Vec<_> =
        entries.iter().filter(|(key, _)| Callable::find(key.get_ref(), level).is_some()).collect();
    let (&(key, value), spec) = match functions.as_slice() {
        [entry] => (*entry, Callable::find(entry.0.get_ref(), level)?),
        [] => {
            match entries.first() {
                Some((key, _)) => {
                    find_or_fault(r, key.get_ref(), key.span(), level);
                }
                None => r.refuse(whole, "an empty table names no function"),
            }
            return None;
        }
        [_, (second, _), ..] => {
            let message = format!("{} is a second function in one table", second.get_ref());
            r.faults.push(Fault::new(second.span(), message).accepts("one table for each function"));
            return None;
        }
    };
    let mut given = positional(r, spec, value);
    for (name, value) in entries.iter().filter(|(name, _)| name.span() != key.span()) {
        match spec.arguments().iter().find(|argument| argument.name == name.get_ref()) {
            Some(argument) => given.extend(argument_of(r, spec, argument, value)),
            None => r.unknown_key(name, spec.arguments().iter().map(|argument| argument.name)),
        }
    }
    Some((spec, given))
}

/// The arguments in the value of the function's own key.
fn positional(r: &mut ConfigReader<'_>, spec: Callable, node: &Node<'_>) -> Vec<Given> {
    let values: Vec<&Node<'_>> = match node.get_ref() {
        DeValue::Array(array) => array.iter().collect(),
        _ => vec![node],
    };
    let needed = spec.arguments().iter().filter(|argument| argument.default.is_none()).count();
    if values.len() > spec.arguments().len() || values.len() < needed {
        let wanted = if needed > 0 { needed } else { spec.arguments().len() };
        let message = match wanted {
            0 => format!("{} takes no argument", spec.name()),
            n => format!(
                "{} takes {n} value{}, not {}",
                spec.name(),
                if n == 1 { "" } else { "s" },
                values.len()
            ),
        };
        r.faults.push(Fault::new(node.span(), message).accepts(example(spec)));
        return Vec::new();
    }
    let pairs: Vec<_> = spec.arguments().iter().zip(values).collect();
    pairs.into_iter().filter_map(|(argument, value)| argument_of(r, spec, argument, value)).collect()
}

fn argument_of(
    r: &mut ConfigReader<'_>,
    spec: Callable,
    argument: &'static Argument,
    node: &Node<'_>,
) -> Option<Given> {
    let value = match node.get_ref() {
        DeValue::String(text) => text.to_string(),
        DeValue::Integer(number) if number.radix() == 10 => number.as_str().to_owned(),
        other => {
            let message =
                format!("{} of {} cannot be {}", argument.name, spec.name(), article(other.type_str()));
            r.faults.push(Fault::new(node.span(), message).accepts(argument.help));
            return None;
        }
    };
    Some(Given { name: argument.name, help: argument.help, value, at: node.span() })
}

fn find_or_fault(r: &mut ConfigReader<'_>, name: &str, at: Range<usize>, level: Level) -> Option<Callable> {
    let found = Callable::find(name, level);
    if found.is_none() {
        let names: Vec<&str> = Callable::of_level(level).map(Callable::name).collect();
        let meant = nearest(name, names.iter().copied()).map(|name| format!("{name:?}"));
        r.faults.push(Fault::new(at, format!("no function {name:?}")).accepts(quoted(&names)).meant(meant));
    }
    found
}

/// An example of a call of the function.
fn example(spec: Callable) -> String {
    let needed: Vec<&str> = spec
        .arguments()
        .iter()
        .filter(|argument| argument.default.is_none())
        .map(|argument| argument.name)
        .collect();
    match (needed.as_slice(), spec.arguments()) {
        ([], []) => format!("{:?}", spec.name()),
        ([], [first, ..]) => {
            format!("{:?} or {{ {} = {:?} }}", spec.name(), spec.name(), first.default.unwrap_or_default())
        }
        (needed, _) => format!("{{ {} = [{}] }}", spec.name(), needed.join(", ")),
    }
}

fn article(kind: &str) -> String {
    format!("{} {kind}", if kind.starts_with(['a', 'i']) { "an" } else { "a" })
}

/// A call in the syntax of weir.toml.
pub fn written(call: &FunctionCall) -> String {
    let quote =
        |value: &str| if value.parse::<u64>().is_ok() { value.to_owned() } else { toml_string(value) };
    let needed = Callable::find(&call.name, Level::Packet)
        .map_or(0, |spec| spec.arguments().iter().filter(|a| a.default.is_none()).count());
    if needed > 1 {
        let values: Vec<String> = call.arguments.iter().map(|(_, value)| quote(value)).collect();
        return format!("{{ {} = [{}] }}", call.name, values.join(", "));
    }
    match call.arguments.split_first() {
        None => format!("{:?}", call.name),
        Some(((_, first), rest)) => {
            let rest: String =
                rest.iter().map(|(name, value)| format!(", {name} = {}", quote(value))).collect();
            format!("{{ {} = {}{rest} }}", call.name, quote(first))
        }
    }
}
