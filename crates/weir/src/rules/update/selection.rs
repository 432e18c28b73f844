//! Lines that name rules: those of disable.conf, enable.conf and drop.conf, and the beginnings of lines of modify.conf.
//!
//! The lines are those of suricata-update (its manual, "update", section "Example configuration files").

use super::rule::{MergedRule, beginning};
use regex::bytes::{Regex, RegexBuilder};

/// A pattern of names of files: `*`, `?` and `[a-z]`, as in a shell.
#[derive(Debug)]
pub struct Glob(Regex);

impl Glob {
    /// Reads a pattern.
    ///
    /// # Errors
    /// It has a range that does not begin before its end.
    pub fn new(pattern: &str) -> Result<Self, String> {
        let mut expression = String::from("^");
        let mut rest = pattern;
        while let Some(letter) = rest.chars().next() {
            rest = &rest[letter.len_utf8()..];
            match letter {
                '*' => expression.push_str(".*"),
                '?' => expression.push('.'),
                '[' => match set_of(rest) {
                    Some((set, after)) => {
                        expression.push_str(&set);
                        rest = after;
                    }
                    None => expression.push_str(r"\["),
                },
                other => expression.push_str(&regex::escape(other.encode_utf8(&mut [0; 4]))),
            }
        }
        expression.push('$');
        RegexBuilder::new(&expression)
            .unicode(false)
            .dot_matches_new_line(true)
            .build()
            .map(Self)
            .map_err(reason)
    }

    /// Whether it is a pattern of a name.
    pub fn matches(&self, name: &str) -> bool {
        self.0.is_match(name.as_bytes())
    }
}

/// The letters of a set, whose `[` has been read, as an expression, and what follows its `]`.
fn set_of(rest: &str) -> Option<(String, &str)> {
    let (is_negated, members) = match rest.strip_prefix('!') {
        Some(members) => (true, members),
        None => (false, rest),
    };
    // A `]` at the beginning is a member.
    let end = members.char_indices().skip(1).find(|(_, letter)| *letter == ']')?.0;
    let (set, after) = members.split_at(end);
    let set = set
        .replace('\\', r"\\")
        .replace('[', r"\[")
        .replace(']', r"\]")
        .replace('^', r"\^")
        .replace('&', r"\&");
    Some((format!("[{}{set}]", if is_negated { "^" } else { "" }), after.strip_prefix(']')?))
}

/// Which rules a line names.
#[derive(Debug)]
pub enum Selection {
    /// All.
    All,
    /// Those of numbers: gid, sid and, if stated, revision.
    Numbers(Vec<(u32, u32, Option<u32>)>),
    /// Those whose text has a match.
    Text(Regex),
    /// Those of files with such a path.
    Path(Glob),
    /// Those of files with such a name, with or without its ending.
    Group(Glob),
    /// Those with such a pair of metadata, in lower case.
    Metadata(String, String),
}

impl Selection {
    /// Reads a line without its comment.
    ///
    /// # Errors
    /// Why it names no rules.
    pub fn new(line: &str) -> Result<Self, String> {
        let line = line.trim();
        if line == "*" {
            return Ok(Self::All);
        }
        if let Some(numbers) = numbers(line) {
            return Ok(Self::Numbers(numbers));
        }
        if let Some(expression) = line.strip_prefix("re:") {
            let mut builder = RegexBuilder::new(expression.trim());
            return builder.unicode(false).case_insensitive(true).build().map(Self::Text).map_err(reason);
        }
        if let Some(path) = line.strip_prefix("filename:") {
            return Glob::new(path.trim()).map(Self::Path);
        }
        if let Some(pair) = line.strip_prefix("metadata:") {
            let (key, value) = pair.trim().split_once(' ').ok_or("`metadata:` has a key and a value")?;
            return Ok(Self::Metadata(key.trim().to_lowercase(), value.trim().to_lowercase()));
        }
        match line.strip_prefix("group:") {
            Some(group) => Glob::new(group.trim()).map(Self::Group),
            None if line.ends_with(".rules") => Glob::new(line).map(Self::Group),
            None => Err(format!(
                "`{}` names no rules: a sid, `group:`, `filename:`, `re:`, `metadata:` and `*` do",
                beginning(line)
            )),
        }
    }

    /// Whether a rule is one of these.
    pub fn has(&self, rule: &MergedRule) -> bool {
        match self {
            Self::All => true,
            Self::Numbers(numbers) => numbers.iter().any(|(gid, sid, revision)| {
                (*gid, *sid) == (rule.gid, rule.sid)
                    && revision.is_none_or(|revision| revision == rule.revision)
            }),
            Self::Text(expression) => expression.is_match(&rule.text),
            Self::Path(glob) => glob.matches(&rule.file),
            Self::Group(glob) => {
                let name = rule.file.rsplit('/').next().unwrap_or_default();
                let stem = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
                glob.matches(name) || glob.matches(stem)
            }
            Self::Metadata(key, value) => rule.metadata().any(|pair| pair == (key.clone(), value.clone())),
        }
    }
}

/// `SID`, `GID:SID` or `GID:SID:REVISION`, several of them between commas.
fn numbers(line: &str) -> Option<Vec<(u32, u32, Option<u32>)>> {
    let number = |text: &str| text.trim().parse::<u32>().ok();
    let of_one = |entry: &str| match *entry.split(':').collect::<Vec<_>>() {
        [sid] => Some((1, number(sid)?, None)),
        [gid, sid] => Some((number(gid)?, number(sid)?, None)),
        [gid, sid, revision] => Some((number(gid)?, number(sid)?, Some(number(revision)?))),
        _ => None,
    };
    line.split(',').map(of_one).collect()
}

/// The reason of a wrong expression: the last line of a message that shows it.
pub fn reason(error: regex::Error) -> String {
    let text = error.to_string();
    let last = text.lines().last().unwrap_or_default().trim();
    format!("the expression is wrong: {}", last.strip_prefix("error: ").unwrap_or(last))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(file: &str) -> MergedRule {
        let text = br#"alert tcp any any -> any any (msg:"ET DOS Heartbleed MS08-067"; metadata:deployment Perimeter, tag x y; sid:2019401; rev:3;)"#;
        MergedRule::new(text, true, &file.into()).unwrap()
    }

    #[test]
    fn each_kind_of_line_names_its_rules() {
        let rule = rule("rules/emerging-icmp.rules");
        for (line, has) in [
            ("*", true),
            ("2019401", true),
            ("1:2019401", true),
            ("1:2019401:3", true),
            ("1:2019401:4", false),
            ("2:2019401", false),
            ("7, 1:2019401", true),
            ("re:heartbleed", true),
            (r"re:MS(0[7-9]|10)-\d+", true),
            ("re:^drop", false),
            ("group:emerging-icmp.rules", true),
            ("group:emerging-icmp", true),
            ("group: emerging*", true),
            ("group:icmp", false),
            ("group:emerging-[!a-h]cmp", true),
            ("group:emerging-[a-h]cmp", false),
            ("emerging-icmp.rules", true),
            ("filename:rules/emerging-????.rules", true),
            ("filename:emerging-icmp.rules", false),
            ("metadata: DEPLOYMENT perimeter", true),
            ("metadata:tag x y", true),
            ("metadata:tag x", false),
        ] {
            assert_eq!(Selection::new(line).unwrap().has(&rule), has, "{line}");
        }
    }

    #[test]
    fn wrong_lines_have_a_reason() {
        for (line, part) in [
            ("disable", "`disable` names no rules"),
            ("1:x", "names no rules"),
            ("-1", "names no rules"),
            ("re:(a", "the expression is wrong: unclosed group"),
            ("metadata:x", "a key and a value"),
            ("group:[z-a]", "the expression is wrong"),
        ] {
            let error = Selection::new(line).unwrap_err();
            assert!(error.contains(part), "{line}: {error}");
        }
    }
}
