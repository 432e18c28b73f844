//! Rule files that were read before, so that those of which little has changed are read again within milliseconds.
//!
//! What a file has in common with the one before, from its beginning and to its end, is not read again. Rules between that were
//! there before are recognised by their text.

use crate::fault::Fault;
use crate::rule::Rule;
use crate::text::{MARK, NotRules, RuleText, TextPlace, rule_texts, texts_of_part};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

/// Rule files that were read before, by their names. They hold for equal variables only. Rules that name files or lists are read
/// again each time.
#[derive(Debug, Default)]
pub struct KnownRules(pub(crate) HashMap<Box<str>, KnownFile>);

impl KnownRules {
    /// Whether the file of this name was read before, and has rules: one that has not changed need not be read again.
    pub fn knows(&self, name: &str) -> bool {
        self.0.get(name).is_some_and(|file| !file.texts.is_empty())
    }

    /// The number of rules, those that are refused or switched off included.
    pub(crate) fn rules(&self) -> usize {
        self.0.values().map(|file| file.texts.len()).sum()
    }
}

/// A rule that was read.
#[derive(Debug)]
pub(crate) struct ReadRule {
    pub rule: Arc<Rule>,
    /// What its author should know.
    pub notes: Vec<(TextPlace, String)>,
    /// Its keywords, each once.
    pub keywords: Vec<&'static str>,
}

/// A text that is not in force.
#[derive(Debug)]
pub(crate) struct Refused {
    pub at: TextPlace,
    pub sid: Option<u32>,
    pub fault: Fault,
    /// As in [`Refusal`](crate::Refusal).
    pub excerpt: String,
    pub skipped: usize,
}

/// What became of the text of a rule.
#[derive(Clone, Debug)]
pub(crate) enum Outcome {
    /// It is switched off.
    Off,
    /// It is a rule.
    Read(Arc<ReadRule>),
    /// It is refused.
    Refused(Arc<Refused>),
}

/// The text of a rule in its file.
#[derive(Debug)]
pub(crate) struct ReadText {
    /// Where its lines are, without the end of the last one.
    bytes: Range<usize>,
    /// The number of its first line, from 1, and how many bytes of it precede the text.
    pub line: usize,
    pub skipped: usize,
    pub outcome: Outcome,
    /// Whether it names files or lists, which may change.
    names_sources: bool,
}

/// A file that was read.
#[derive(Debug, Default)]
pub(crate) struct KnownFile {
    bytes: Vec<u8>,
    pub texts: Vec<ReadText>,
}

/// Bytes that are compared together.
const COMPARED: usize = 4096;

/// The number of bytes with which both begin.
fn common_start(one: &[u8], other: &[u8]) -> usize {
    let chunks = one.chunks_exact(COMPARED).zip(other.chunks_exact(COMPARED));
    let from = chunks.take_while(|(one, other)| one == other).count() * COMPARED;
    let rest = one.iter().skip(from).zip(other.iter().skip(from));
    from + rest.take_while(|(one, other)| one == other).count()
}

/// The number of bytes with which both end.
fn common_end(one: &[u8], other: &[u8]) -> usize {
    let chunks = one.rchunks_exact(COMPARED).zip(other.rchunks_exact(COMPARED));
    let from = chunks.take_while(|(one, other)| one == other).count() * COMPARED;
    let rest = one.iter().rev().skip(from).zip(other.iter().rev().skip(from));
    from + rest.take_while(|(one, other)| one == other).count()
}

impl KnownFile {
    /// Takes the file as it is now. `read` reads the text of a rule, and says whether it names files or lists.
    ///
    /// # Errors
    /// The file is not of single bytes. Then nothing of it is known.
    pub fn follow(
        &mut self,
        now: &[u8],
        mut read: impl FnMut(&RuleText<'_>) -> (Outcome, bool),
    ) -> Result<(), NotRules> {
        // A mark at the beginning says how all is read.
        let start = common_start(&self.bytes, now);
        if start < MARK.len() || now.starts_with(MARK) {
            let before = std::mem::take(self);
            let texts = rule_texts(now, true)?;
            let old = before.by_text(&before.texts);
            self.texts = texts.iter().map(|text| became(text, now, &old, &mut read)).collect();
            self.bytes = now.to_vec();
            return Ok(());
        }
        let end =
            common_end(self.bytes.get(start..).unwrap_or_default(), now.get(start..).unwrap_or_default());
        let changed = self.changed(now, start, end);
        let grown = now.len().wrapping_sub(self.bytes.len());
        let part = changed.old.start..changed.old.end.wrapping_add(grown);
        let text_of_part = now.get(part.clone()).unwrap_or_default();
        let replaced = self.texts.get(changed.texts.clone()).unwrap_or_default();
        let old = self.by_text(replaced);
        let placed = |mut text: ReadText| {
            text.bytes = text.bytes.start + part.start..text.bytes.end + part.start;
            text.line += changed.line - 1;
            text
        };
        let new: Vec<ReadText> = texts_of_part(text_of_part, true)
            .iter()
            .map(|text| placed(became(text, text_of_part, &old, &mut read)))
            .collect();
        let lines_before = newlines(self.bytes.get(changed.old.clone()).unwrap_or_default());
        let more_lines = newlines(text_of_part).wrapping_sub(lines_before);
        for text in self.texts.iter_mut().skip(changed.texts.end) {
            text.line = text.line.wrapping_add(more_lines);
            text.bytes = text.bytes.start.wrapping_add(grown)..text.bytes.end.wrapping_add(grown);
        }
        let kept_start = changed.texts.start;
        let kept_end = self.texts.len() - changed.texts.end;
        self.texts.splice(changed.texts, new);
        self.bytes.splice(changed.old, text_of_part.iter().copied());
        let new = kept_start..self.texts.len() - kept_end;
        self.read_named_again(&new, read);
        Ok(())
    }

    /// Reads the texts again that name files or lists, apart from those that are new.
    pub fn read_named_again(
        &mut self,
        new: &Range<usize>,
        mut read: impl FnMut(&RuleText<'_>) -> (Outcome, bool),
    ) {
        let kept = self.texts.iter_mut().enumerate().filter(|(at, _)| !new.contains(at));
        for (_, text) in kept.filter(|(_, text)| text.names_sources) {
            let lines = self.bytes.get(text.bytes.clone()).unwrap_or_default();
            if let Some(again) = texts_of_part(lines, true).first() {
                (text.outcome, text.names_sources) = read(again);
            }
        }
    }

    /// What is to be read again of a file that has this many bytes at its beginning and its end as before.
    fn changed(&self, now: &[u8], start: usize, end: usize) -> Changed {
        // The end of a line belongs to a text: what follows it may continue it.
        let first = self.texts.partition_point(|text| text.bytes.end + 2 <= start);
        let common_from = self.bytes.len() - end;
        let last = self.texts.partition_point(|text| text.bytes.start <= common_from).max(first);
        let before = first.checked_sub(1).and_then(|at| self.texts.get(at));
        let from = before.map_or(0, |text| text.bytes.end);
        let line = before
            .map_or(1, |text| text.line + newlines(self.bytes.get(text.bytes.clone()).unwrap_or_default()));
        let whole = Changed { texts: first..self.texts.len(), old: from..self.bytes.len(), line };
        let Some(after) = self.texts.get(last) else { return whole };
        let to = after.bytes.start;
        let now_to = to.wrapping_add(now.len()).wrapping_sub(self.bytes.len());
        let part = now.get(from..now_to).unwrap_or_default();
        let last_line = part.strip_suffix(b"\n").unwrap_or(part);
        match last_line.strip_suffix(b"\r").unwrap_or(last_line).ends_with(b"\\") {
            // What follows may continue it.
            true => whole,
            false => Changed { texts: first..last, old: from..to, line },
        }
    }

    /// What texts became, by their bytes in the file.
    fn by_text(&self, texts: &[ReadText]) -> HashMap<&[u8], Outcome> {
        let known = texts.iter().filter(|text| !text.names_sources);
        known.filter_map(|text| Some((self.bytes.get(text.bytes.clone())?, text.outcome.clone()))).collect()
    }
}

fn newlines(bytes: &[u8]) -> usize {
    memchr::memchr_iter(b'\n', bytes).count()
}

/// What is read again of a file.
#[derive(Debug)]
struct Changed {
    /// The positions of the texts that it replaces.
    texts: Range<usize>,
    /// Their bytes, with those around them, in the file before.
    old: Range<usize>,
    /// The number of the line that it begins with, from 1.
    line: usize,
}

/// What a text of a part of a file becomes: what one with its bytes has become before, if it is known.
fn became(
    text: &RuleText<'_>,
    part: &[u8],
    known: &HashMap<&[u8], Outcome>,
    read: &mut impl FnMut(&RuleText<'_>) -> (Outcome, bool),
) -> ReadText {
    let (outcome, names_sources) = match part.get(text.bytes.clone()).and_then(|lines| known.get(lines)) {
        Some(outcome) => (outcome.clone(), false),
        None => read(text),
    };
    ReadText { bytes: text.bytes.clone(), line: text.line, skipped: text.skipped, outcome, names_sources }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Lines of rule files: ends, continued ones, comments, marks, and one that names a file.
    fn line() -> impl Strategy<Value = &'static str> {
        prop::sample::select(vec![
            "alert a\n",
            "alert b\r\n",
            "  alert c \\\n",
            "alert d\\\r\n",
            "# a comment\n",
            "# alert e (x)\n",
            "# alert f (\\\n",
            "\n",
            "\r\n",
            "\r",
            "\u{feff}alert g\n",
            "\u{feff}",
            "alert named\n",
            "alert without end",
            "\\\n",
        ])
    }

    /// What is known of a file: its text, its place, and whether it is on; the number of texts that were read for it.
    fn followed(file: &mut KnownFile, now: &[u8]) -> (Vec<String>, usize) {
        let mut reads = 0;
        let outcome = file.follow(now, |text| {
            reads += 1;
            let names_sources = text.text.windows(5).any(|part| part == b"named");
            let reason = format!("{:?} {}", String::from_utf8_lossy(&text.text), text.is_on);
            let at = text.place_in_text(text.text.len());
            let fault = Fault::wrong(0, reason);
            let refused = Refused { at, sid: None, fault, excerpt: String::new(), skipped: 0 };
            (Outcome::Refused(Arc::new(refused)), names_sources)
        });
        assert!(outcome.is_ok());
        let shown = |text: &ReadText| match &text.outcome {
            Outcome::Refused(refused) => {
                let place = refused.at.in_file(text.line, text.skipped);
                format!("{} {} {:?} {place:?} {:?}", refused.fault, text.line, text.skipped, text.bytes)
            }
            _ => String::new(),
        };
        (file.texts.iter().map(shown).collect(), reads)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4_000))]
        #[test]
        fn a_file_that_is_followed_has_what_one_has_that_is_read_anew(
            lines in prop::collection::vec(line(), 0..12),
            changes in prop::collection::vec((0..14_usize, 0..4_usize, prop::collection::vec(line(), 0..3)), 1..5),
        ) {
            let mut lines = lines;
            let mut file = KnownFile::default();
            followed(&mut file, lines.concat().as_bytes());
            for (at, gone, new) in changes {
                let at = at.min(lines.len());
                lines.splice(at..(at + gone).min(lines.len()), new);
                let now = lines.concat();
                let (follows, _) = followed(&mut file, now.as_bytes());
                let (anew, _) = followed(&mut KnownFile::default(), now.as_bytes());
                prop_assert_eq!(follows, anew, "{:?}", now);
            }
        }
    }

    #[test]
    fn only_what_has_changed_is_read() {
        let text = |lines: &[usize]| lines.iter().map(|line| format!("alert {line}\n")).collect::<String>();
        let mut file = KnownFile::default();
        let all: Vec<usize> = (0..3_000).collect();
        assert_eq!(followed(&mut file, text(&all).as_bytes()).1, 3_000);
        assert_eq!(followed(&mut file, text(&all).as_bytes()).1, 0);
        let mut other = all.clone();
        other[1_500] = 4_000;
        assert_eq!(followed(&mut file, text(&other).as_bytes()).1, 1);
        other.insert(3, 4_001);
        other.push(4_002);
        assert_eq!(followed(&mut file, text(&other).as_bytes()).1, 2);
        other.reverse();
        assert_eq!(followed(&mut file, text(&other).as_bytes()).1, 0, "they are known by their text");
    }
}
