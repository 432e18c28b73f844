//! The strict reader: tables by lists of their keys, values by the type of their key. Every error is collected and
//! reading continues, so that one run shows all errors.

use super::Setting;
use super::fault::{Fault, Lines, nearest};
use super::known::Known;
use crate::fields::RunFields;
use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;
use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

/// A value with its position in the text.
pub type Node<'t> = Spanned<DeValue<'t>>;

/// A key of a table: its name, its accepted values, and the function that reads it into a `T`.
pub struct Key<T> {
    /// Name in the file.
    pub name: &'static str,
    /// Description of the accepted values.
    pub takes: &'static str,
    /// Reads the value, and reports faults to the reader.
    pub read: fn(&mut ConfigReader<'_>, &Node<'_>, &mut T),
}

/// Reads values of one text and collects their errors.
pub struct ConfigReader<'t> {
    /// The text.
    pub text: &'t str,
    /// The errors so far.
    pub faults: Vec<Fault>,
    /// Expressions that have been compiled successfully.
    pub known: Known,
    /// The fields that expressions may test, and the lists that they may read.
    pub fields: &'t RunFields,
    lines: Lines,
    key: &'static str,
    takes: &'static str,
}

impl<'t> ConfigReader<'t> {
    /// A reader without faults.
    pub fn new(text: &'t str, fields: &'t RunFields) -> Self {
        Self {
            text,
            faults: Vec::new(),
            known: Known::default(),
            fields,
            lines: Lines::new(text),
            key: "",
            takes: "",
        }
    }

    /// The line of a byte of the text, counted from 1.
    pub fn line(&self, at: usize) -> usize {
        self.lines.at(at).0
    }

    /// Reads every key of a table.
    pub fn fill<T>(&mut self, table: &DeTable<'_>, keys: &[Key<T>], into: &mut T) {
        let outer = (self.key, self.takes);
        let mut entries = in_order(table);
        // Triggers refer to charts, wherever these are.
        entries.sort_by_key(|(name, _)| name.get_ref() == "trigger");
        for (name, value) in entries {
            match keys.iter().find(|key| key.name == name.get_ref()) {
                Some(key) => {
                    (self.key, self.takes) = (key.name, key.takes);
                    (key.read)(self, value, into);
                }
                None => self.unknown_key(name, keys.iter().map(|key| key.name)),
            }
        }
        (self.key, self.takes) = outer;
    }

    /// Reports an unknown key.
    pub fn unknown_key<'a>(&mut self, key: &Spanned<DeString<'_>>, names: impl Iterator<Item = &'a str>) {
        let names: Vec<&str> = names.collect();
        self.faults.push(
            Fault::new(key.span(), format!("unknown key {:?}", key.get_ref()))
                .accepts(names.join(", "))
                .meant(nearest(key.get_ref(), names.iter().copied()).map(|name| format!("{name:?}"))),
        );
    }

    /// Refuses keys of a table that has not the one without which they do nothing. `needed` is its name, what it names in words, and its form.
    pub fn refuse_without(
        &mut self,
        table: &DeTable<'_>,
        (needed, what, form): (&str, &str, &str),
        keys: &[&str],
    ) {
        for key in keys {
            if let (None, Some(node)) = (table.get(needed), table.get(*key)) {
                let fault = Fault::new(node.span(), format!("{key} has no effect without {what}"));
                self.faults.push(fault.accepts(format!("{form} in this table")));
            }
        }
    }

    /// Reports a value that its key does not accept.
    pub fn refuse(&mut self, span: Range<usize>, message: impl Into<String>) {
        self.refuse_meaning(span, message, None::<String>);
    }

    /// Reports a value that its key does not accept, with the value that was probably meant.
    pub fn refuse_meaning(
        &mut self,
        span: Range<usize>,
        message: impl Into<String>,
        meant: Option<impl Into<String>>,
    ) {
        self.faults.push(Fault::new(span, message).accepts(self.takes).meant(meant));
    }

    fn refuse_type(&mut self, node: &Node<'_>) {
        let kind = node.get_ref().type_str();
        let article = if kind.starts_with(['a', 'i']) { "an" } else { "a" };
        self.refuse(node.span(), format!("{} cannot be {article} {kind}", self.key));
    }

    /// A string.
    pub fn string<'n>(&mut self, node: &'n Node<'_>) -> Option<&'n str> {
        let found = node.get_ref().as_str();
        if found.is_none() {
            self.refuse_type(node);
        }
        found
    }

    /// A printable name.
    pub fn name(&mut self, node: &Node<'_>) -> Option<String> {
        let name = self.string(node)?;
        match wrong_name(name) {
            Some(wrong) => {
                self.refuse(node.span(), wrong);
                None
            }
            None => Some(name.to_owned()),
        }
    }

    /// One of a list of words.
    pub fn word(&mut self, node: &Node<'_>, words: &[&'static str]) -> Option<&'static str> {
        let found = self.string(node)?;
        self.one_of(found, node.span(), words)
    }

    /// One of a list of words, found at a position in the text.
    pub fn one_of(&mut self, found: &str, at: Range<usize>, words: &[&'static str]) -> Option<&'static str> {
        let word = words.iter().find(|word| **word == found).copied();
        if word.is_none() {
            let meant = nearest(found, words.iter().copied()).map(|word| format!("{word:?}"));
            let message = format!("{} cannot be {found:?}", self.key);
            self.faults.push(Fault::new(at, message).accepts(quoted(words)).meant(meant));
        }
        word
    }

    /// A boolean.
    pub fn boolean(&mut self, node: &Node<'_>) -> Option<bool> {
        let found = node.get_ref().as_bool();
        if found.is_none() {
            self.refuse_type(node);
        }
        found
    }

    /// An integer within bounds.
    pub fn integer(&mut self, node: &Node<'_>, min: u64, max: u64) -> Option<u64> {
        let Some(integer) = node.get_ref().as_integer() else {
            self.refuse_type(node);
            return None;
        };
        let value = i128::from_str_radix(integer.as_str(), integer.radix()).ok();
        let within = value.and_then(|value| u64::try_from(value).ok()).filter(|v| (min..=max).contains(v));
        if within.is_none() {
            self.refuse(node.span(), format!("{integer} is not between {min} and {max}"));
        }
        within
    }

    /// A duration between a second and an hour.
    pub fn duration(&mut self, node: &Node<'_>) -> Option<Duration> {
        if let Some(number) = node.get_ref().as_integer() {
            let meant = Some(format!("\"{number}s\""));
            self.refuse_meaning(node.span(), format!("{} cannot be an integer", self.key), meant);
            return None;
        }
        self.parsed(node, parse_interval)
    }

    /// An amount of memory.
    pub fn memory(&mut self, node: &Node<'_>) -> Option<u64> {
        self.parsed(node, parse_memory)
    }

    /// A string that `parse` accepts.
    pub fn parsed<T>(&mut self, node: &Node<'_>, parse: impl FnOnce(&str) -> Result<T, String>) -> Option<T> {
        let parsed = parse(self.string(node)?);
        parsed.map_err(|message| self.refuse(node.span(), message)).ok()
    }

    /// The path of a file or a folder.
    pub fn path(&mut self, node: &Node<'_>) -> Option<PathBuf> {
        self.parsed(node, |path| match path {
            "" => Err("an empty path".to_owned()),
            path => Ok(PathBuf::from(path)),
        })
    }

    /// Stores the path of a file or a folder in its setting, with its line.
    pub fn set_path(&mut self, node: &Node<'_>, to: &mut Setting<Option<PathBuf>>) {
        let path = self.path(node).map(Some);
        self.set(node, path, to);
    }

    /// Stores a value in its setting, with its line. A value with an error leaves the setting unchanged.
    pub fn set<T>(&self, node: &Node<'_>, value: Option<T>, to: &mut Setting<T>) {
        if let Some(value) = value {
            *to = Setting { value, line: Some(self.line(node.span().start)) };
        }
    }

    /// The elements of an array.
    pub fn array<'n, 'i>(&mut self, node: &'n Node<'i>) -> &'n [Node<'i>] {
        match node.get_ref().as_array() {
            Some(array) => array,
            None => {
                self.refuse_type(node);
                &[]
            }
        }
    }

    /// A table.
    pub fn table<'n, 'i>(&mut self, node: &'n Node<'i>) -> Option<&'n DeTable<'i>> {
        let found = node.get_ref().as_table();
        if found.is_none() {
            self.refuse_type(node);
        }
        found
    }

    /// Position in the file of byte `at` of a string's value. Escapes make a value shorter than its text.
    pub fn inside(&self, node: &Node<'_>, at: usize) -> usize {
        let span = node.span();
        span.start + written_at(self.text.get(span).unwrap_or_default(), at)
    }
}

/// Keys and values in the order of the text, because the parser's map is sorted by name.
pub fn in_order<'a, 't>(table: &'a DeTable<'t>) -> Vec<(&'a Spanned<DeString<'t>>, &'a Node<'t>)> {
    let mut entries: Vec<_> = table.iter().collect();
    entries.sort_by_key(|(key, _)| key.span().start);
    entries
}

/// Formats words as a list of strings.
pub fn quoted(words: &[&str]) -> String {
    words.iter().map(|word| format!("{word:?}")).collect::<Vec<_>>().join(", ")
}

/// The error in a name, which must be one line of 1 to 64 characters.
pub fn wrong_name(name: &str) -> Option<&'static str> {
    if name.trim().is_empty() {
        Some("an empty name")
    } else if name.chars().any(char::is_control) {
        Some("a name with control characters")
    } else if name.chars().count() > 64 {
        Some("a name of more than 64 characters")
    } else {
        None
    }
}

/// A value as a TOML basic string.
pub fn toml_string(value: &str) -> String {
    let mut out = String::from("\"");
    for c in value.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() => out.push_str(&format!("\\u{:04X}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// The offset in a TOML string literal, quotes included, at which byte `at` of its value is written.
fn written_at(literal: &str, at: usize) -> usize {
    let (mut raw, escapes) = match literal {
        l if l.starts_with("\"\"\"") => (3, true),
        l if l.starts_with("'''") => (3, false),
        l => (1, l.starts_with('"')),
    };
    let rest = |from: usize| literal.get(from..).unwrap_or_default();
    if raw == 3 {
        raw += if rest(raw).starts_with("\r\n") { 2 } else { usize::from(rest(raw).starts_with('\n')) };
    }
    let mut value = 0;
    loop {
        let mut chars = rest(raw).chars();
        let Some(c) = chars.next() else { return literal.len() };
        let escaped = if escapes && c == '\\' { chars.next() } else { None };
        let digits = match escaped {
            Some('x') => 2,
            Some('u') => 4,
            Some('U') => 8,
            Some(e) if e.is_whitespace() => {
                // A backslash at the end of a line and all white space after it do not belong to the value.
                let after = rest(raw + 1);
                raw += 1 + after.len() - after.trim_start().len();
                continue;
            }
            _ => 0,
        };
        if value >= at {
            return raw;
        }
        let (long, worth) = match escaped {
            None => (c.len_utf8(), c.len_utf8()),
            Some(e) if digits > 0 => {
                let code = rest(raw + 2).get(..digits).and_then(|hex| u32::from_str_radix(hex, 16).ok());
                (1 + e.len_utf8() + digits, code.and_then(char::from_u32).map_or(1, char::len_utf8))
            }
            Some(e) => (1 + e.len_utf8(), 1),
        };
        raw += long;
        value += worth;
    }
}

/// Parses an interval: a whole number with `s`, `m` or `h`, from `1s` to `1h`.
///
/// # Errors
/// A description of the error.
pub fn parse_interval(text: &str) -> Result<Duration, String> {
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let unit = match &text[digits.len()..] {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        "" => return Err(format!("{text:?} has no unit")),
        _ => return Err(format!("{text:?} is not a duration")),
    };
    let number: u64 = digits.parse().map_err(|_| format!("{text:?} is not a duration"))?;
    match number.checked_mul(unit) {
        Some(seconds @ 1..=3600) => Ok(Duration::from_secs(seconds)),
        Some(0) => Err(format!("{text:?} is shorter than 1s")),
        _ => Err(format!("{text:?} is longer than 1h")),
    }
}

/// Parses an amount of memory: a whole number with `K`, `M`, `G` or `T` (powers of 1024), at least 16M.
///
/// # Errors
/// A description of the error.
pub fn parse_memory(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let shift = match text[digits.len()..].trim_end_matches('B').trim_end_matches('i') {
        "K" | "k" => 10,
        "M" | "m" => 20,
        "G" | "g" => 30,
        "T" | "t" => 40,
        "" if digits.len() == text.len() && !text.is_empty() => return Err(format!("{text:?} has no unit")),
        _ => return Err(format!("{text:?} is not an amount of memory")),
    };
    let number: u64 = digits.parse().map_err(|_| format!("{text:?} is not an amount of memory"))?;
    match number.checked_mul(1 << shift) {
        None => Err(format!("{text:?} is too large")),
        Some(bytes) if bytes < 16 << 20 => Err(format!("{text:?} is less than 16M")),
        Some(bytes) => Ok(bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_inside_of_strings() {
        for literal in [
            r#""tcp port 22""#,
            r#"'tcp \n port'"#,
            r#""a\tb\\c\"d\u00e9e\U0001F600f\x41g""#,
            "\"\"\"\nabc\n  def\"\"\"",
            "\"\"\"abc \\\n   \n  def\"\"\"",
            "'''\r\nabc'''",
        ] {
            let text = format!("k = {literal}");
            let table = DeTable::parse(&text).unwrap();
            let value = table.get_ref().get("k").unwrap().get_ref().as_str().unwrap().to_owned();
            for (at, c) in value.char_indices().filter(|(_, c)| c.is_ascii_alphanumeric() && *c != 'A') {
                let raw = written_at(literal, at);
                assert!(literal[raw..].starts_with(c), "{literal} {at} {c} {raw}");
            }
            assert!(written_at(literal, value.len() + 5) <= literal.len());
        }
    }

    #[test]
    fn intervals() {
        for (text, seconds) in [("1s", 1), ("30s", 30), ("5m", 300), ("60m", 3600), ("1h", 3600)] {
            assert_eq!(parse_interval(text), Ok(Duration::from_secs(seconds)));
        }
        for text in
            ["", "s", "30", "0s", "2h", "61m", "1.5m", "-1s", "30 s", "30sec", "99999999999999999999h", "é"]
        {
            assert!(parse_interval(text).is_err(), "{text}");
        }
    }

    #[test]
    fn memory() {
        for (text, bytes) in [
            ("512M", 512 << 20),
            ("2G", 2 << 30),
            ("64MiB", 64 << 20),
            ("16MB", 16 << 20),
            ("20000k", 20_000 << 10),
        ] {
            assert_eq!(parse_memory(text), Ok(bytes));
        }
        for text in ["", "M", "512", "128mbb", "1M", "-5G", "99999999999T", "1.5G", "512 M"] {
            assert!(parse_memory(text).is_err(), "{text}");
        }
    }
}
