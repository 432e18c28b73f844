//! Subscriptions that the command line makes: `--subscribe 'top dns.query where dns.rcode_name = NXDOMAIN'`.
//!
//! They are read as those of a configuration are, so that both have one language.

use crate::config::{self, toml_string};
use std::path::Path;
use weir_api::{Level, SubscriptionSpec};
use weir_filter::{ErrorKind, Options};

/// Characters of a name.
const MAX_NAME: usize = 64;

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
        None if is_of_records(words.expression) => vec!["record", "flow"],
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
            ("top dns.qery where dns.rcode_name = NXDOMAIN", "dns.qery"),
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
