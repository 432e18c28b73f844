//! From the bytes of a rule file to the texts of its rules.
//!
//! A rule is a line. A `\` at the end of a line continues it on the next one. A line that begins with `#` is a comment,
//! or a rule that is switched off. Lines end with LF or CRLF; a byte-order mark of UTF-8 is skipped.

use std::borrow::Cow;
use std::ops::Range;

/// Maximum length of a rule in bytes, with its continued lines. The longest rules have lists of addresses.
pub const MAX_RULE_BYTES: usize = 1 << 20;

/// The text of a rule in its file.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RuleText<'a> {
    /// The text without the ends of its lines and without the `#` of a rule that is switched off.
    pub text: Cow<'a, [u8]>,
    /// Whether the rule is switched on: it has no `#` before it.
    pub is_on: bool,
    /// Where its lines are in the file, in bytes, without the end of the last one.
    pub bytes: Range<usize>,
    /// The number of its first line, from 1.
    pub line: usize,
    /// How many bytes of its first line precede the text.
    pub(crate) skipped: usize,
    /// Where each of the lines begins that continue it.
    starts: Vec<LineStart>,
}

/// Where a line begins that continues a rule.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct LineStart {
    /// In the text of the rule.
    at: usize,
    /// How many lines are between it and the first one of the rule.
    after: usize,
}

/// A place in the text of a rule.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct TextPlace {
    /// How many lines are between it and the first one of the rule.
    pub after: usize,
    /// Bytes that precede it: in its line, or in the text if it is in the first line.
    pub at: usize,
}

impl RuleText<'_> {
    /// The line and the column, both from 1, of a byte of the text. A column counts bytes.
    pub fn place(&self, at: usize) -> (usize, usize) {
        self.place_in_text(at).in_file(self.line, self.skipped)
    }

    /// The place of a byte of the text. It does not depend on where the text is in its file.
    pub(crate) fn place_in_text(&self, at: usize) -> TextPlace {
        let start = self.starts.iter().rev().find(|start| start.at <= at);
        start.map_or(TextPlace { after: 0, at }, |start| TextPlace { after: start.after, at: at - start.at })
    }
}

impl TextPlace {
    /// The line and the column, both from 1, if the first line of the text is `first_line`, and `skipped` of its bytes precede
    /// the text.
    pub fn in_file(self, first_line: usize, skipped: usize) -> (usize, usize) {
        (first_line + self.after, self.at + if self.after == 0 { skipped } else { 0 } + 1)
    }
}

/// Why a file has no rules that can be read.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum NotRules {
    /// The text is UTF-16.
    Utf16,
}

impl std::fmt::Display for NotRules {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Utf16 => f.write_str("the file is UTF-16; rules are UTF-8 or ASCII"),
        }
    }
}

impl std::error::Error for NotRules {}

/// The texts of the rules in a file, in order. Comments are left out, and so are switched off rules unless `with_off`.
///
/// # Errors
/// The file is not of single bytes.
pub fn rule_texts(file: &[u8], with_off: bool) -> Result<Vec<RuleText<'_>>, NotRules> {
    if file.starts_with(&[0xff, 0xfe]) || file.starts_with(&[0xfe, 0xff]) {
        return Err(NotRules::Utf16);
    }
    let skipped = if file.starts_with(MARK) { MARK.len() } else { 0 };
    let mut texts = texts_of_part(file.get(skipped..).unwrap_or_default(), with_off);
    for text in &mut texts {
        text.bytes = text.bytes.start + skipped..text.bytes.end + skipped;
    }
    if let Some(first) = texts.first_mut().filter(|first| first.line == 1) {
        first.skipped += skipped;
    }
    Ok(texts)
}

/// The texts of the rules in a part of a file that begins with a line. Places count from there.
pub(crate) fn texts_of_part(part: &[u8], with_off: bool) -> Vec<RuleText<'_>> {
    let mut texts = Vec::new();
    let mut pending: Option<RuleText<'_>> = None;
    for (number, (from, whole)) in lines(part).enumerate() {
        let (line, continues) = match whole.strip_suffix(b"\\") {
            Some(before) => (before, true),
            None => (whole, false),
        };
        if let Some(rule) = &mut pending {
            rule.starts.push(LineStart { at: rule.text.len(), after: number + 1 - rule.line });
            rule.text.to_mut().extend_from_slice(line);
            rule.bytes.end = from + whole.len();
        } else {
            pending = begin(line, with_off).map(|(text, is_on)| RuleText {
                text: Cow::Borrowed(text),
                is_on,
                bytes: from..from + whole.len(),
                line: number + 1,
                skipped: line.len() - text.len(),
                starts: Vec::new(),
            });
        }
        if !continues {
            texts.extend(pending.take());
        }
    }
    texts.extend(pending);
    texts
}

/// The text of the rule that a line begins, and whether it is switched on.
fn begin(line: &[u8], with_off: bool) -> Option<(&[u8], bool)> {
    let mut text = line.trim_ascii_start();
    let is_on = !text.starts_with(b"#");
    if !is_on {
        text = after_hashes(text);
        if !with_off || !looks_like_rule(text) {
            return None;
        }
    }
    (!text.is_empty()).then_some((text, is_on))
}

/// Whether a comment is a rule that is switched off: a known action, and later the beginning of options.
fn looks_like_rule(text: &[u8]) -> bool {
    let word = text.split(u8::is_ascii_whitespace).next().unwrap_or_default();
    crate::header::Action::named(word).is_some() && text.contains(&b'(')
}

/// The mark of UTF-8 at the beginning of a file.
pub(crate) const MARK: &[u8] = &[0xef, 0xbb, 0xbf];

/// Where each line begins, and the line without its end.
fn lines(part: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let mut next = 0;
    part.split(|byte| *byte == b'\n').map(move |line| {
        let from = next;
        next += line.len() + 1;
        (from, line.strip_suffix(b"\r").unwrap_or(line))
    })
}

/// What follows the signs of a comment and blanks.
fn after_hashes(line: &[u8]) -> &[u8] {
    let end = line.iter().position(|byte| *byte != b'#' && !byte.is_ascii_whitespace());
    line.get(end.unwrap_or(line.len())..).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(file: &[u8]) -> Vec<(String, usize, bool)> {
        let of =
            |rule: RuleText<'_>| (String::from_utf8_lossy(&rule.text).into_owned(), rule.line, rule.is_on);
        rule_texts(file, true).unwrap().into_iter().map(of).collect()
    }

    #[test]
    fn a_rule_is_a_line_or_continued_ones() {
        let file = b"\xef\xbb\xbfalert a\r\n\n# a comment\n  alert b \\\n  more\\\r\nend\n#alert tcp (x)\n";
        let is = texts(file);
        assert_eq!(
            is,
            [
                ("alert a".to_owned(), 1, true),
                ("alert b   moreend".to_owned(), 4, true),
                ("alert tcp (x)".to_owned(), 7, false)
            ]
        );
    }

    #[test]
    fn places_are_those_of_the_file() {
        let rules = rule_texts(b"\n  alert b \\\n  more", false).unwrap();
        assert_eq!(rules[0].place(0), (2, 3));
        assert_eq!(rules[0].place(8), (3, 1));
        assert_eq!(rules[0].place(10), (3, 3));
        let rules = rule_texts(b"\xef\xbb\xbfalert", false).unwrap();
        assert_eq!(rules[0].place(0), (1, 4));
    }

    #[test]
    fn wide_text_is_refused() {
        assert_eq!(rule_texts(b"\xff\xfea\0", false), Err(NotRules::Utf16));
    }

    #[test]
    fn a_continued_last_line_is_a_rule() {
        assert_eq!(texts(b"alert \\"), [("alert ".to_owned(), 1, true)]);
    }
}
