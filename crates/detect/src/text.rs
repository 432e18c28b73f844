//! From the bytes of a rule file to the texts of its rules.
//!
//! A rule is a line. A `\` at the end of a line continues it on the next one. A line that begins with `#` is a comment,
//! or a rule that is switched off. Lines end with LF or CRLF; a byte-order mark of UTF-8 is skipped.

use std::borrow::Cow;

/// Maximum length of a rule in bytes, with its continued lines. The longest rules have lists of addresses.
pub const MAX_RULE_BYTES: usize = 1 << 20;

/// The text of a rule in its file.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RuleText<'a> {
    /// The text without the ends of its lines and without the `#` of a rule that is switched off.
    pub text: Cow<'a, [u8]>,
    /// Whether the rule is switched on: it has no `#` before it.
    pub is_on: bool,
    /// Where each of its lines begins.
    starts: Vec<LineStart>,
}

/// Where a line of a rule begins.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct LineStart {
    /// In the text of the rule.
    at: usize,
    /// The number of the line in the file, from 1.
    line: usize,
    /// How many bytes of the line precede the text.
    skipped: usize,
}

impl RuleText<'_> {
    /// The number of its first line, from 1.
    pub fn line(&self) -> usize {
        self.starts.first().map_or(1, |start| start.line)
    }

    /// The line and the column, both from 1, of a byte of the text. A column counts bytes.
    pub fn place(&self, at: usize) -> (usize, usize) {
        let start = self.starts.iter().rev().find(|start| start.at <= at);
        start.map_or((1, at + 1), |start| (start.line, at - start.at + start.skipped + 1))
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
    let mut texts = Vec::new();
    let mut pending: Option<RuleText<'_>> = None;
    for (number, (line, skipped)) in lines(file).enumerate() {
        let number = number + 1;
        let (line, continues) = match line.strip_suffix(b"\\") {
            Some(before) => (before, true),
            None => (line, false),
        };
        if let Some(rule) = &mut pending {
            let start = LineStart { at: rule.text.len(), line: number, skipped: 0 };
            rule.starts.push(start);
            rule.text.to_mut().extend_from_slice(line);
        } else {
            pending = begin(line, number, skipped, with_off);
        }
        if !continues {
            texts.extend(pending.take());
        }
    }
    texts.extend(pending);
    Ok(texts)
}

/// The rule that a line begins.
fn begin(line: &[u8], number: usize, skipped: usize, with_off: bool) -> Option<RuleText<'_>> {
    let mut text = line.trim_ascii_start();
    let is_on = !text.starts_with(b"#");
    if !is_on {
        text = after_hashes(text);
        if !with_off || !looks_like_rule(text) {
            return None;
        }
    }
    if text.is_empty() {
        return None;
    }
    let skipped = skipped + line.len() - text.len();
    Some(RuleText {
        text: Cow::Borrowed(text),
        is_on,
        starts: vec![LineStart { at: 0, line: number, skipped }],
    })
}

/// Whether a comment is a rule that is switched off: a known action, and later the beginning of options.
fn looks_like_rule(text: &[u8]) -> bool {
    let word = text.split(u8::is_ascii_whitespace).next().unwrap_or_default();
    crate::header::Action::named(word).is_some() && text.contains(&b'(')
}

/// The lines of a file without their ends, each with the number of bytes that were skipped before it.
fn lines(file: &[u8]) -> impl Iterator<Item = (&[u8], usize)> {
    let (file, mark) = match file.strip_prefix(&[0xef, 0xbb, 0xbf]) {
        Some(rest) => (rest, 3),
        None => (file, 0),
    };
    let end = |line: &'_ [u8]| line.len() - usize::from(line.ends_with(b"\r"));
    file.split(|byte| *byte == b'\n').enumerate().map(move |(number, line)| {
        (line.get(..end(line)).unwrap_or_default(), if number == 0 { mark } else { 0 })
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
            |rule: RuleText<'_>| (String::from_utf8_lossy(&rule.text).into_owned(), rule.line(), rule.is_on);
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
