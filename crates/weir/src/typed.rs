//! Subscriptions that the command line makes: `--subscribe 'top dns.query where dns.rcode_name = NXDOMAIN'`, and the files and
//! logs that have an expression: `-w dns.pcapng='port 53'`.
//!
//! Questions are read as the subscriptions of a configuration are, so that both have one language.

use crate::cli::RunOptions;
use crate::config::{self, check_at, over_records, toml_string};
use crate::leaving::file_name;
use crate::requested::Sequence;
use crate::{fields, outputs};
use std::path::Path;
use weir_api::{FunctionCall, Level, SubscriptionSpec};
use weir_filter::{ErrorKind, Options, RecordTest, Tables};
use weir_output::Log;
use weir_proto::tables;

/// Characters of a name.
const MAX_NAME: usize = 64;

/// What a run with rules answers after its summary.
const ALERTS: &str = "alerts by rule: top alert.signature";

/// The subscriptions of a command line; `has_rules` says whether rules look at flows.
///
/// # Errors
///
/// One of them is invalid, or an option names two files for all that matches.
pub fn subscriptions(options: &RunOptions, has_rules: bool) -> Result<Vec<SubscriptionSpec>, String> {
    let RunOptions { packets, extraction, logs, subscribe, .. } = options;
    one_alone("-w", packets.whole().map(str::to_owned))?;
    one_alone("--files", extraction.whole().map(|path| path.display().to_string()))?;
    if let Some(path) = extraction.whole().find(|path| path.to_str().is_none()) {
        return Err(config::printable(&format!("--files {}: the name is not UTF-8", path.display())));
    }
    let mut all = Vec::new();
    for text in subscribe {
        all.push(subscription(text)?);
    }
    if has_rules {
        all.push(subscription(ALERTS)?);
    }
    let files = Sequence::given(packets);
    for (file, expression) in packets.selected() {
        let option = format!("-w {file}");
        all.push(packet_file(files, file, expression).map_err(|error| wrong(&option, expression, &error))?);
    }
    let limits = extraction.limits();
    for (directory, expression) in extraction.selected() {
        let option = format!("--files {directory}");
        let call = limits.call("extractto", directory);
        let is_valid = is_named(directory).and_then(|()| holds_at(expression, &[Level::Record]));
        is_valid.map_err(|error| wrong(&option, expression, &error))?;
        // Clients see the name.
        let name = format!("--files {}", file_name(directory));
        all.push(selected(&name, Level::Record, expression, vec![call]));
    }
    for (log, expression) in logs.selected() {
        let option = format!("--log {log}");
        let rows = rows(&option, log, expression);
        all.extend(rows.map_err(|error| wrong(&option, expression, &error))?);
    }
    Ok(all)
}

/// The error of an option with an expression.
fn wrong(option: &str, expression: &str, error: &str) -> String {
    config::printable(&format!("{option}='{expression}': {error}"))
}

/// Checks that at most one file of an option is without an expression.
fn one_alone(option: &str, mut names: impl Iterator<Item = String>) -> Result<(), String> {
    match (names.next(), names.next()) {
        (Some(first), Some(second)) => Err(format!(
            "{option} {second}: {option} {first} has all that matches already; give an expression ({option} \
             {second}='port 53')"
        )),
        _ => Ok(()),
    }
}

fn is_named(name: &str) -> Result<(), String> {
    if name.is_empty() { Err("the name is missing".to_owned()) } else { Ok(()) }
}

/// The subscription of an option to what an expression selects.
fn selected(option: &str, level: Level, expression: &str, functions: Vec<FunctionCall>) -> SubscriptionSpec {
    let name: String = option.chars().take(MAX_NAME).collect();
    SubscriptionSpec { level, ..SubscriptionSpec::new(&name, expression, functions) }
}

/// The subscription of `-w FILE=EXPRESSION`: packets, or those of flows that match or have a record that matches.
fn packet_file(files: Sequence, file: &str, expression: &str) -> Result<SubscriptionSpec, String> {
    is_named(file)?;
    if file == "-" {
        return Err("on standard output are all packets that match: give the expression as that of the run"
            .to_owned());
    }
    let level = level_of(expression, &[Level::Packet, Level::Flow, Level::Record])?;
    Ok(selected(&format!("-w {}", file_name(file)), level, expression, vec![files.call("writeto", file)]))
}

/// The subscriptions of `--log LOG=EXPRESSION`: to flows where it tests what they have, and to records.
fn rows(option: &str, log: &str, expression: &str) -> Result<Vec<SubscriptionSpec>, String> {
    let log = Log::find(&outputs::all(), log)?;
    if outputs::is_store(&log) || !log.flows() && log.tables().is_empty() {
        return Err(format!("the log {} is not made of rows that can be selected", log.spec().name));
    }
    let call = FunctionCall::new("rowsto").with("to", log.spec().name);
    let mut levels = Vec::new();
    levels.extend(log.flows().then_some(Level::Flow));
    levels.extend((!log.tables().is_empty()).then_some(Level::Record));
    let first = level_of(expression, &levels)?;
    let mut subscriptions = Vec::new();
    for level in levels {
        if level != first && holds_at(expression, &[level]).is_err() {
            continue;
        }
        let names: Vec<&str> = log.tables().iter().map(|table| table.name).collect();
        if level == Level::Record {
            check_tables(&log, &names, expression)?;
        }
        let is_part = level == Level::Record && names.len() < tables().count();
        let part = is_part.then(|| FunctionCall::new("tables").with("of", names.join("+")));
        let functions = part.into_iter().chain([call.clone()]).collect();
        subscriptions.push(selected(option, level, expression, functions));
    }
    Ok(subscriptions)
}

/// Checks that a log has rows of a table that an expression over records tests: one protocol may have a table for transactions,
/// which Zeek's logs show, and another for messages, which EVE shows.
fn check_tables(log: &Log, names: &[&str], expression: &str) -> Result<(), String> {
    let test = RecordTest::compile(expression, &over_records(fields::of_run()));
    let Ok(Tables::Only(tested)) = test.map(|test| test.tables()) else { return Ok(()) };
    if tested.iter().any(|table| names.contains(table)) {
        return Ok(());
    }
    let is_like =
        |name: &&&str| tested.iter().any(|table| name.starts_with(*table) || table.starts_with(**name));
    let like: Vec<&str> = names.iter().filter(is_like).copied().collect();
    let hint = match like.as_slice() {
        [] => format!("there are {}", names.join(", ")),
        like => format!("test fields of {} instead", like.join(", ")),
    };
    Err(format!("the log {} has no rows of {}; {hint}", log.spec().name, tested.join(", ")))
}

/// Checks that an expression is one at these levels.
fn holds_at(expression: &str, levels: &[Level]) -> Result<(), String> {
    level_of(expression, levels).map(drop)
}

/// The first of some levels at which an expression is one.
fn level_of(expression: &str, levels: &[Level]) -> Result<Level, String> {
    let mut error = None;
    for level in levels {
        match check_at(expression, *level, fields::of_run()) {
            Ok(()) => return Ok(*level),
            // An expression that is wrong says more about itself than that this level lacks what it tests.
            Err(found) => {
                let is_better = error.as_ref().is_none_or(|(kind, _)| *kind == ErrorKind::Level);
                if is_better {
                    error = Some((found.kind, found.message));
                }
            }
        }
    }
    Err(error.map(|(_, message)| message).unwrap_or_default())
}

/// A subscription in words: `[NAME:] FUNCTION [| FUNCTION ...] [at LEVEL] [every INTERVAL] [where EXPRESSION]`.
#[derive(Clone, Debug, Eq, PartialEq)]
struct Words<'t> {
    name: String,
    chain: Vec<&'t str>,
    level: Option<&'t str>,
    interval: Option<&'t str>,
    expression: &'t str,
}

/// The subscription of `--subscribe`.
///
/// # Errors
///
/// The text is not one; the error says why.
pub fn subscription(text: &str) -> Result<SubscriptionSpec, String> {
    let failed = |error: String| format!("--subscribe '{}': {error}", config::printable(text));
    words(text).and_then(|words| read(&words)).map_err(failed)
}

/// Takes a subscription apart.
fn words(text: &str) -> Result<Words<'_>, String> {
    let (head, expression) = split_at_word(text, "where").unwrap_or((text, ""));
    let (head, interval) = option(head, "every");
    let (head, level) = option(head, "at");
    let (name, chain) = match head.split_once(':') {
        Some((name, chain)) if !name.contains('|') && !name.trim().is_empty() => {
            (name.trim().to_owned(), chain)
        }
        _ => (text.split_whitespace().collect::<Vec<_>>().join(" "), head),
    };
    let chain: Vec<&str> = chain.split('|').map(str::trim).collect();
    if chain.iter().any(|call| call.is_empty()) {
        return Err("a function is missing: for example 'top dns.query where dns.rcode_name = NXDOMAIN', \
                    or 'sample 10 | top source show 5 where tcp'"
            .to_owned());
    }
    let name = name.chars().take(MAX_NAME).collect();
    Ok(Words { name, chain, level, interval, expression: expression.trim() })
}

/// The text before a word and after it, if it is there between spaces.
fn split_at_word<'t>(text: &'t str, word: &str) -> Option<(&'t str, &'t str)> {
    let is_space = |found: Option<char>| found.is_none_or(char::is_whitespace);
    text.match_indices(word).find_map(|(at, _)| {
        let (before, after) = (text.get(..at)?, text.get(at + word.len()..)?);
        (is_space(before.chars().next_back()) && is_space(after.chars().next())).then_some((before, after))
    })
}

/// The text before an option at its end, and the value of the option: `at flow`.
fn option<'t>(text: &'t str, name: &str) -> (&'t str, Option<&'t str>) {
    match split_at_word(text, name) {
        Some((before, value)) if value.split_whitespace().count() == 1 => (before, Some(value.trim())),
        _ => (text, None),
    }
}

/// Reads a subscription at the first level that has its functions and what its expression tests.
fn read(words: &Words<'_>) -> Result<SubscriptionSpec, String> {
    let levels: Vec<&str> = match words.level {
        Some(level) => vec![level],
        // What a packet does not have is tested where it is.
        None if is_of_records(words.expression) || words.chain.iter().any(|call| names_table(call)) => {
            vec!["record", "flow", "stream"]
        }
        None => [Level::Packet, Level::Flow, Level::Record, Level::Stream].map(Level::name).to_vec(),
    };
    let mut least: Option<(usize, String)> = None;
    for level in levels {
        let text = written(words, level);
        let errors = match config::load(Path::new(""), &text) {
            Ok(config) => {
                let found = config.subscriptions.into_iter().next();
                return found.ok_or_else(|| "no subscription".to_owned());
            }
            Err(errors) => errors,
        };
        let number = errors.each().count();
        if least.as_ref().is_none_or(|(fewest, _)| number < *fewest) {
            least = Some((number, errors.one_line()));
        }
    }
    Err(least.map(|(_, text)| text).unwrap_or_default())
}

/// Whether an expression tests fields that packets do not have.
fn is_of_records(expression: &str) -> bool {
    let checked = weir_filter::check(expression, &Options::default());
    checked.is_err_and(|error| error.kind == ErrorKind::Level)
}

/// Whether a function names a field of a table, such as `dns.query`.
fn names_table(call: &str) -> bool {
    let is_field =
        |word: &str| word.split_once('.').is_some_and(|(name, _)| tables().any(|table| table.name == name));
    call.split([' ', ',']).any(is_field)
}

/// The subscription in the syntax of a configuration.
fn written(words: &Words<'_>, level: &str) -> String {
    let chain: Vec<String> = words.chain.iter().map(|call| toml_string(call)).collect();
    let mut text = format!(
        "[[subscription]]\nname = {}\nlevel = {}\nchain = [{}]\nwhere = {}\n",
        toml_string(&words.name),
        toml_string(level),
        chain.join(", "),
        toml_string(words.expression),
    );
    if let Some(interval) = words.interval {
        text += &format!("interval = {}\n", toml_string(interval));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subscription_is_read_at_the_level_that_has_what_it_names() {
        for (text, level, functions) in [
            ("top dns.query where dns.rcode_name = NXDOMAIN", Level::Record, 1),
            ("sample 10 | top source show 5 where tcp port 80", Level::Packet, 2),
            ("packets", Level::Packet, 1),
            ("top http.host", Level::Record, 1),
            ("packets where flow.duration > 60", Level::Flow, 1),
            ("packets at flow where net 10.0.0.0/8", Level::Flow, 1),
            ("  top   source  every 30s   where  tcp", Level::Packet, 1),
        ] {
            let spec = subscription(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!((spec.level, spec.functions.len()), (level, functions), "{text}");
        }
        let spec = subscription("no such name: top dns.query every 1m where dns.rcode = 3").unwrap();
        assert_eq!((&*spec.name, &*spec.expression), ("no such name", "dns.rcode = 3"));
        assert_eq!(spec.interval, 60_000_000_000);
        assert_eq!(subscription("packets  where tcp").unwrap().name, "packets where tcp");
    }

    #[test]
    fn an_error_names_the_text_and_what_was_probably_meant() {
        for (text, part) in [
            ("top dns.ask where dns.rcode_name = NXDOMAIN", "has no field ask"),
            ("top source where tpc port 80", "tpc"),
            ("tpo source", "top"),
            ("top dns.query where dns.rcod_name = NXDOMAIN", "rcod_name"),
            ("packets at nowhere", "nowhere"),
            ("", "a function is missing"),
            ("top source | | packets", "a function is missing"),
            ("packets every 2y", "2y"),
        ] {
            let error = subscription(text).unwrap_err();
            assert!(error.starts_with("--subscribe '") && error.contains(part), "{text}: {error}");
        }
    }
}
