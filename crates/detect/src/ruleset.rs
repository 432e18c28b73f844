//! Rule files, read into one set. A rule that is refused takes no other with it.

use crate::builder::Builder;
use crate::fault::Fault;
use crate::keyword;
use crate::known::{KnownRules, Outcome, ReadRule, ReadText, Refused};
use crate::reputation::Scores;
use crate::rule::Rule;
use crate::sets::{Lists, Variables};
use crate::sources::{Places, Sources};
use crate::state::BitAction;
use crate::text::{MAX_RULE_BYTES, NotRules, RuleText, TextPlace};
use crate::value::Value;
use foldhash::fast::RandomState;
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

/// A rule file that is read again.
#[derive(Clone, Copy, Debug)]
pub enum FileAgain<'a> {
    /// As it is now.
    Read(RuleFile<'a>),
    /// The file of this name has not changed: see [`KnownRules::knows`].
    Unchanged(&'a str),
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
    /// The rules that were read, replaced ones included.
    read: Vec<Arc<ReadRule>>,
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

    fn places(&self) -> Option<Arc<dyn Places>> {
        self.is_asked.set(true);
        self.sources.places()
    }

    fn reputations(&self, category: &str) -> Option<Arc<Scores>> {
        self.is_asked.set(true);
        self.sources.reputations(category)
    }
}

/// The work of reading rules.
struct Work<'w> {
    lists: Lists,
    sources: &'w dyn Sources,
    with_switched_off: bool,
}

impl Work<'_> {
    /// Reads the text of a rule of a file. Says whether it names files or lists.
    fn read(&mut self, text: &RuleText<'_>, file: &str) -> (Outcome, bool) {
        if !text.is_on && !self.with_switched_off {
            return (Outcome::Off, false);
        }
        let sources = Noting { sources: self.sources, is_asked: Cell::new(false) };
        let outcome = match parse_rule(&text.text, file, &mut self.lists, &sources) {
            Ok(ParsedRule { rule, notes, mut keywords }) => {
                keywords.sort_unstable();
                keywords.dedup();
                let notes = notes.into_iter().map(|(at, note)| (text.place_in_text(at), note)).collect();
                Outcome::Read(Arc::new(ReadRule { rule: Arc::new(rule), notes, keywords }))
            }
            Err(fault) => {
                let (excerpt, skipped) = excerpt(&text.text, fault.at);
                let at = text.place_in_text(fault.at);
                Outcome::Refused(Arc::new(Refused { at, sid: sid_of(&text.text), fault, excerpt, skipped }))
            }
        };
        (outcome, sources.is_asked.get())
    }
}

impl Ruleset {
    /// Reads rule files.
    pub fn read<'a>(files: impl IntoIterator<Item = RuleFile<'a>>, reading: &Reading<'_>) -> Self {
        Self::read_again(files.into_iter().map(FileAgain::Read), reading, &mut KnownRules::default())
    }

    /// Reads rule files again. `known` are the rules that were read before with equal variables, and becomes those of now.
    pub fn read_again<'a>(
        files: impl IntoIterator<Item = FileAgain<'a>>,
        reading: &Reading<'_>,
        known: &mut KnownRules,
    ) -> Self {
        let mut work = Work {
            lists: Lists::new(reading.variables.clone()),
            sources: reading.sources,
            with_switched_off: reading.with_switched_off,
        };
        let mut set = Self::default();
        let mut by_number = HashMap::with_capacity_and_hasher(known.rules(), RandomState::default());
        let mut now = HashMap::new();
        for file in files {
            let (FileAgain::Read(RuleFile { name, .. }) | FileAgain::Unchanged(name)) = file;
            let mut of_file = known.0.remove(name).unwrap_or_default();
            let read = |text: &RuleText<'_>| work.read(text, name);
            let read = match file {
                FileAgain::Read(file) => of_file.follow(file.bytes, read),
                FileAgain::Unchanged(_) => {
                    of_file.read_named_again(&(0..0), read);
                    Ok(())
                }
            };
            let shown: Arc<str> = name.into();
            match read {
                Ok(()) => of_file.texts.iter().for_each(|text| set.add(&shown, text, &mut by_number)),
                Err(fault) => set.refuse_file(shown, fault),
            }
            now.insert(name.into(), of_file);
        }
        known.0 = now;
        set
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

    fn add(
        &mut self,
        file: &Arc<str>,
        text: &ReadText,
        by_number: &mut HashMap<(u32, u32), usize, RandomState>,
    ) {
        let origin = |at: TextPlace| {
            let (line, column) = at.in_file(text.line, text.skipped);
            Origin { file: Arc::clone(file), line, column }
        };
        let read = match &text.outcome {
            Outcome::Read(read) => read,
            Outcome::Off => {
                self.switched_off += 1;
                return;
            }
            Outcome::Refused(refused) => {
                self.refusals.push(Refusal {
                    origin: origin(refused.at),
                    sid: refused.sid,
                    fault: refused.fault.clone(),
                    excerpt: refused.excerpt.clone(),
                    skipped: refused.skipped,
                });
                return;
            }
        };
        let sid = read.rule.sid;
        let notes = read.notes.iter().cloned();
        self.notes.extend(notes.map(|(at, text)| Note { origin: origin(at), sid, text }));
        self.read.push(Arc::clone(read));
        let loaded = LoadedRule { rule: Arc::clone(&read.rule), origin: origin(TextPlace::default()) };
        match by_number.get(&(loaded.rule.gid, sid)).and_then(|at| self.rules.get_mut(*at)) {
            None => {
                by_number.insert((loaded.rule.gid, sid), self.rules.len());
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

    /// For each keyword the number of rules that were read and have it, replaced ones included.
    pub fn keyword_uses(&self) -> BTreeMap<&'static str, usize> {
        let mut uses = BTreeMap::new();
        for keyword in self.read.iter().flat_map(|read| &read.keywords) {
            *uses.entry(*keyword).or_default() += 1;
        }
        uses
    }

    /// Rules that ask for a bit of the flow that no rule in force sets.
    pub fn notes_of_unset_bits(&self) -> Vec<Note> {
        let bits = self.rules.iter().flat_map(|loaded| &loaded.rule.flow_bits);
        let set: HashSet<&str> = bits
            .filter(|bits| matches!(bits.action, BitAction::Set | BitAction::Toggle))
            .flat_map(|bits| &bits.names)
            .map(|name| &**name)
            .collect();
        let unset = |loaded: &LoadedRule| {
            let asked = loaded.rule.flow_bits.iter().filter(|bits| bits.action == BitAction::IsSet);
            let unset = asked.filter(|bits| bits.names.iter().all(|name| !set.contains(&**name)));
            let note = unset.map(|bits| Note {
                origin: loaded.origin.clone(),
                sid: loaded.rule.sid,
                text: format!(
                    "no rule in force sets the flowbit {}; the rule can never match",
                    bits.names.join("|")
                ),
            });
            note.collect::<Vec<_>>()
        };
        self.rules.iter().flat_map(unset).collect()
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

/// The options of a rule as its text has them, in order: each name with its value, without blanks around them. This is what can be
/// known of a rule that is not in force. `None` if there are no options, or one of them does not end.
pub fn option_texts(rule: &[u8]) -> Option<Vec<(&[u8], &[u8])>> {
    let open = rule.iter().position(|byte| *byte == b'(')?;
    let body = rule.trim_ascii_end().get(open + 1..)?.strip_suffix(b")")?;
    let mut options = Vec::new();
    let mut rest = Value::new(body, open + 1).trimmed();
    while !rest.is_empty() {
        let (name, value, after) = next_option(rest).ok()?;
        options.push((name.bytes, value.bytes));
        rest = after.trimmed();
    }
    Some(options)
}

/// The name of the next option, its value, and what follows it. A `;` with a `\` before it belongs to the value.
pub(crate) fn next_option(text: Value<'_>) -> Result<(Value<'_>, Value<'_>, Value<'_>), Fault> {
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
