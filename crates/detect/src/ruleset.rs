//! Rule files, read into one set. A rule that is refused takes no other with it.

use crate::builder::Builder;
use crate::fault::Fault;
use crate::keyword;
use crate::rule::Rule;
use crate::sets::{Lists, Variables};
use crate::sources::Sources;
use crate::state::BitAction;
use crate::text::{MAX_RULE_BYTES, NotRules, RuleText, rule_texts};
use crate::value::Value;
use std::cell::Cell;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

/// A rule file.
#[derive(Clone, Copy, Debug)]
pub struct RuleFile<'a> {
    /// Its name for messages.
    pub name: &'a str,
    /// Its content.
    pub bytes: &'a [u8],
}

/// Where a rule is.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Origin {
    /// The name of its file.
    pub file: Arc<str>,
    /// Its line, from 1.
    pub line: usize,
    /// The column of what is meant, in bytes from 1.
    pub column: usize,
}

/// A rule that is in force.
#[derive(Clone, Debug)]
pub struct LoadedRule {
    /// The rule.
    pub rule: Arc<Rule>,
    /// Where it is.
    pub origin: Origin,
}

/// A rule that is not in force, or a file that cannot be read as rules.
#[derive(Clone, Debug)]
pub struct Refusal {
    /// Where the fault is.
    pub origin: Origin,
    /// The sid of the rule, where it can be read.
    pub sid: Option<u32>,
    /// The fault. Its place counts from the beginning of the rule.
    pub fault: Fault,
    /// The line of the fault, at most [`MAX_EXCERPT`] bytes of it, for a mark below it.
    pub excerpt: String,
    /// How many bytes of the line are before the excerpt.
    pub skipped: usize,
}

/// Something that the author of a rule should know.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Note {
    /// Where.
    pub origin: Origin,
    /// The sid of the rule.
    pub sid: u32,
    /// What.
    pub text: String,
}

/// Maximum number of bytes of a line that a refusal shows.
pub const MAX_EXCERPT: usize = 160;

/// The rules of files.
#[derive(Debug, Default)]
pub struct Ruleset {
    /// The rules that are in force, in the order of their files and lines.
    pub rules: Vec<LoadedRule>,
    /// What is not in force.
    pub refusals: Vec<Refusal>,
    /// What authors should know.
    pub notes: Vec<Note>,
    /// The number of rules that are switched off by a `#`.
    pub switched_off: usize,
    /// The number of files that are no rules at all, each with a refusal.
    pub unreadable: usize,
    /// The number of rules that another one with their sid replaces.
    pub replaced: usize,
    /// For each keyword the number of rules that were read and have it, replaced ones included.
    pub keyword_uses: BTreeMap<&'static str, usize>,
}

/// How rules are read.
pub struct Reading<'a> {
    /// The variables of their headers.
    pub variables: Variables,
    /// Files and lists that they name.
    pub sources: &'a dyn Sources,
    /// Whether rules that are switched off are read, too.
    pub with_switched_off: bool,
}

/// Rules that were read before, by their text, so that files of which little has changed are read again within milliseconds.
/// They hold for equal variables only. Rules that name files or lists are read again each time.
#[derive(Debug, Default)]
pub struct KnownRules(HashMap<Box<[u8]>, Arc<Known>>);

/// A rule that was read before.
#[derive(Debug)]
struct Known {
    rule: Arc<Rule>,
    notes: Vec<(usize, String)>,
    keywords: Vec<&'static str>,
}

/// Sources that note whether they were asked.
struct Noting<'s> {
    sources: &'s dyn Sources,
    is_asked: Cell<bool>,
}

impl Sources for Noting<'_> {
    fn read(&self, rules: &str, name: &str) -> Result<Vec<u8>, String> {
        self.is_asked.set(true);
        self.sources.read(rules, name)
    }
}

/// The work of reading rules.
struct Work<'w> {
    lists: Lists,
    sources: &'w dyn Sources,
    by_number: HashMap<(u32, u32), usize>,
    /// The rules that were known before, and those of this time.
    known: Option<(&'w KnownRules, KnownRules)>,
}

impl Work<'_> {
    /// Reads a rule, or takes it as it was read before.
    fn rule(&mut self, text: &[u8], file: &str) -> Result<Arc<Known>, Fault> {
        if let Some((before, now)) = &mut self.known
            && let Some(known) = before.0.get(text)
        {
            now.0.insert(text.into(), Arc::clone(known));
            return Ok(Arc::clone(known));
        }
        let sources = Noting { sources: self.sources, is_asked: Cell::new(false) };
        let ParsedRule { rule, notes, keywords } = parse_rule(text, file, &mut self.lists, &sources)?;
        let read = Arc::new(Known { rule: Arc::new(rule), notes, keywords });
        if let Some((_, now)) = self.known.as_mut().filter(|_| !sources.is_asked.get()) {
            now.0.insert(text.into(), Arc::clone(&read));
        }
        Ok(read)
    }
}

impl Ruleset {
    /// Reads rule files.
    pub fn read<'a>(files: impl IntoIterator<Item = RuleFile<'a>>, reading: &Reading<'_>) -> Self {
        Self::read_by(files, reading, None).0
    }

    /// Reads rule files again. `known` are the rules that were read before with equal variables, and becomes those of now.
    pub fn read_again<'a>(
        files: impl IntoIterator<Item = RuleFile<'a>>,
        reading: &Reading<'_>,
        known: &mut KnownRules,
    ) -> Self {
        let (set, now) = Self::read_by(files, reading, Some((known, KnownRules::default())));
        *known = now;
        set
    }

    fn read_by<'a>(
        files: impl IntoIterator<Item = RuleFile<'a>>,
        reading: &Reading<'_>,
        known: Option<(&KnownRules, KnownRules)>,
    ) -> (Self, KnownRules) {
        let mut work = Work {
            lists: Lists::new(reading.variables.clone()),
            sources: reading.sources,
            by_number: HashMap::new(),
            known,
        };
        let mut set = Self::default();
        for file in files {
            set.read_file(file, reading.with_switched_off, &mut work);
        }
        set.note_bits_that_no_rule_sets();
        (set, work.known.map_or_else(KnownRules::default, |(_, now)| now))
    }

    fn read_file(&mut self, file: RuleFile<'_>, with_switched_off: bool, work: &mut Work<'_>) {
        let name: Arc<str> = file.name.into();
        match rule_texts(file.bytes, true) {
            Ok(texts) => {
                for text in texts {
                    match text.is_on || with_switched_off {
                        true => self.add(&name, &text, work),
                        false => self.switched_off += 1,
                    }
                }
            }
            Err(fault) => self.refuse_file(name, fault),
        }
    }

    /// The number of rules that were read, refused ones included.
    pub fn offered(&self) -> usize {
        self.rules.len() + self.refusals.len() + self.replaced
    }

    fn refuse_file(&mut self, file: Arc<str>, fault: NotRules) {
        self.unreadable += 1;
        self.refusals.push(Refusal {
            origin: Origin { file, line: 1, column: 1 },
            sid: None,
            fault: Fault::wrong(0, fault.to_string()),
            excerpt: String::new(),
            skipped: 0,
        });
    }

    fn add(&mut self, file: &Arc<str>, text: &RuleText<'_>, work: &mut Work<'_>) {
        let origin = |at: usize| {
            let (line, column) = text.place(at);
            Origin { file: file.clone(), line, column }
        };
        let known = match work.rule(&text.text, file) {
            Ok(read) => read,
            Err(fault) => {
                let (excerpt, skipped) = excerpt(&text.text, fault.at);
                let refusal =
                    Refusal { origin: origin(fault.at), sid: sid_of(&text.text), fault, excerpt, skipped };
                self.refusals.push(refusal);
                return;
            }
        };
        let sid = known.rule.sid;
        for keyword in known.keywords.iter().copied().collect::<HashSet<_>>() {
            *self.keyword_uses.entry(keyword).or_default() += 1;
        }
        let notes = known.notes.iter().cloned();
        self.notes.extend(notes.map(|(at, text)| Note { origin: origin(at), sid, text }));
        let loaded = LoadedRule { rule: Arc::clone(&known.rule), origin: origin(0) };
        match work.by_number.get(&(loaded.rule.gid, sid)).and_then(|at| self.rules.get_mut(*at)) {
            None => {
                work.by_number.insert((loaded.rule.gid, sid), self.rules.len());
                self.rules.push(loaded);
            }
            Some(before) => {
                self.replaced += 1;
                let (kept, left) = match loaded.rule.rev > before.rule.rev {
                    true => (loaded.clone(), before.clone()),
                    false => (before.clone(), loaded),
                };
                let reason = match kept.rule.rev == left.rule.rev {
                    true => "the revisions are equal and the first one counts".to_owned(),
                    false => format!("revision {} replaces revision {}", kept.rule.rev, left.rule.rev),
                };
                let text =
                    format!("two rules have this sid ({}:{}): {reason}", kept.origin.file, kept.origin.line);
                self.notes.push(Note { origin: left.origin, sid, text });
                *before = kept;
            }
        }
    }

    fn note_bits_that_no_rule_sets(&mut self) {
        let bits = self.rules.iter().flat_map(|loaded| &loaded.rule.flow_bits);
        let set: HashSet<&str> = bits
            .filter(|bits| matches!(bits.action, BitAction::Set | BitAction::Toggle))
            .flat_map(|bits| &bits.names)
            .map(|name| &**name)
            .collect();
        for loaded in &self.rules {
            let asked = loaded.rule.flow_bits.iter().filter(|bits| bits.action == BitAction::IsSet);
            for bits in asked.filter(|bits| bits.names.iter().all(|name| !set.contains(&**name))) {
                let names = bits.names.join("|");
                self.notes.push(Note {
                    origin: loaded.origin.clone(),
                    sid: loaded.rule.sid,
                    text: format!("no rule in force sets the flowbit {names}; the rule can never match"),
                });
            }
        }
    }
}

/// A part of a rule's text around a byte.
fn excerpt(text: &[u8], at: usize) -> (String, usize) {
    let from = at.saturating_sub(MAX_EXCERPT / 2).min(text.len().saturating_sub(MAX_EXCERPT));
    let part = text.get(from..(from + MAX_EXCERPT).min(text.len())).unwrap_or_default();
    // One letter for each byte, so that a mark below it has its place.
    let shown =
        part.iter().map(|byte| if byte.is_ascii_graphic() { char::from(*byte) } else { ' ' }).collect();
    (shown, from)
}

/// The sid of a rule that could not be read.
fn sid_of(text: &[u8]) -> Option<u32> {
    let mut rest = text;
    while let Some(at) = rest.windows(4).position(|part| part == b"sid:") {
        let before = at.checked_sub(1).and_then(|before| rest.get(before));
        let digits = rest.get(at + 4..)?.trim_ascii_start();
        rest = digits;
        if before.is_some_and(|byte| !byte.is_ascii_whitespace() && !b";(".contains(byte)) {
            continue;
        }
        let end = digits.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(digits.len());
        if let Some(sid) = std::str::from_utf8(digits.get(..end)?).ok().and_then(|text| text.parse().ok()) {
            return Some(sid);
        }
    }
    None
}

/// A rule that was read.
#[derive(Clone, Debug)]
pub struct ParsedRule {
    /// The rule.
    pub rule: Rule,
    /// What its author should know: places in the text, and sentences.
    pub notes: Vec<(usize, String)>,
    /// Its keywords, in order.
    pub keywords: Vec<&'static str>,
}

/// Reads a rule of a file.
///
/// # Errors
/// Why it is not in force.
pub fn parse_rule(
    text: &[u8],
    file: &str,
    lists: &mut Lists,
    sources: &dyn Sources,
) -> Result<ParsedRule, Fault> {
    if text.len() > MAX_RULE_BYTES {
        return Err(Fault::wrong(
            0,
            format!("the rule has {} bytes; at most {MAX_RULE_BYTES} are read", text.len()),
        ));
    }
    let (header, open) = crate::header::parse(text, lists)?;
    let text = text.trim_ascii_end();
    let Some(body) = text.get(open + 1..).and_then(|body| body.strip_suffix(b")")) else {
        return Err(Fault::wrong(text.len().saturating_sub(1), "the options do not end with `)`"));
    };
    let mut builder = Builder::new(header, file, sources, keyword::is_in_force);
    let mut keywords = Vec::new();
    let mut rest = Value::new(body, open + 1).trimmed();
    while !rest.is_empty() {
        let (name, value, after) = next_option(rest)?;
        builder.at = name.at;
        let keyword = keyword::of_option(name)?;
        keyword.apply(&mut builder, value)?;
        keywords.push(keyword.name);
        rest = after.trimmed();
    }
    let (rule, notes) = builder.finish()?;
    Ok(ParsedRule { rule, notes, keywords })
}

/// The name of the next option, its value, and what follows it. A `;` with a `\` before it belongs to the value.
fn next_option(text: Value<'_>) -> Result<(Value<'_>, Value<'_>, Value<'_>), Fault> {
    let unended = || text.wrong("the option does not end with `;`");
    let name_end = text.bytes.iter().position(|byte| matches!(byte, b':' | b';')).ok_or_else(unended)?;
    let name = text.before(name_end).trimmed();
    if name.is_empty() {
        return Err(text.wrong("the name of an option is missing"));
    }
    if text.bytes.get(name_end) == Some(&b';') {
        return Ok((name, Value::new(b"", name.at), text.from(name_end + 1)));
    }
    let value = text.from(name_end + 1);
    let mut before = b' ';
    let end =
        value.bytes.iter().position(|byte| std::mem::replace(&mut before, *byte) != b'\\' && *byte == b';');
    let end = end.ok_or_else(unended)?;
    Ok((name, value.before(end).trimmed(), value.from(end + 1)))
}
