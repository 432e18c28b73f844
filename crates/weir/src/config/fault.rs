//! Errors in a configuration, shown at their position.

use super::counted;
use std::fmt;
use std::ops::Range;
use std::path::Path;
use strsim::osa_distance;

/// An error in the text, with its position in bytes.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Fault {
    /// The offending bytes of the text.
    pub span: Range<usize>,
    /// The error.
    pub message: String,
    /// The values that would be accepted; empty if the message contains them.
    pub accepted: String,
    /// The value that was probably meant.
    pub meant: Option<String>,
}

impl Fault {
    /// A fault whose message needs no further explanation.
    pub fn new(span: Range<usize>, message: impl Into<String>) -> Self {
        Self { span, message: message.into(), accepted: String::new(), meant: None }
    }

    /// Adds the values that would be accepted.
    #[must_use]
    pub fn accepts(mut self, accepted: impl Into<String>) -> Self {
        self.accepted = accepted.into();
        self
    }

    /// Adds the value that was probably meant.
    #[must_use]
    pub fn meant(mut self, meant: Option<impl Into<String>>) -> Self {
        self.meant = meant.map(Into::into);
        self
    }
}

/// Positions of the lines of a text.
#[derive(Clone, Debug)]
pub struct Lines {
    starts: Vec<usize>,
}

impl Lines {
    /// Finds the lines of a text.
    pub fn new(text: &str) -> Self {
        let newlines = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        Self { starts: std::iter::once(0).chain(newlines.map(|(at, _)| at + 1)).collect() }
    }

    /// The line of a byte, counted from 1, and the offset of that line's first byte.
    pub fn at(&self, byte: usize) -> (usize, usize) {
        let line = self.starts.partition_point(|&start| start <= byte);
        (line, self.starts.get(line.saturating_sub(1)).copied().unwrap_or(0))
    }
}

/// All faults of one file, in the order of the text. Displayed as blocks of `file:line:column`, the line, and a caret.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ConfigErrors {
    path: String,
    blocks: Vec<Block>,
}

/// A fault with its line cut out of the text.
#[derive(Clone, Debug, Eq, PartialEq)]
struct Block {
    line: usize,
    column: usize,
    shown: String,
    caret: String,
    message: String,
    accepted: String,
    meant: Option<String>,
}

/// Maximum number of characters of a line that are shown.
const SHOWN: usize = 100;

impl ConfigErrors {
    /// Assigns the faults to the lines of their text.
    pub fn new(path: &Path, text: &str, mut faults: Vec<Fault>) -> Self {
        faults.sort_by_key(|fault| fault.span.start);
        faults.dedup();
        let lines = Lines::new(text);
        let blocks = faults.into_iter().map(|fault| Block::new(text, &lines, fault)).collect();
        Self { path: printable(&path.to_string_lossy()), blocks }
    }
}

impl ConfigErrors {
    /// The first fault without its place.
    pub fn one_line(&self) -> String {
        let Some(first) = self.blocks.first() else { return String::new() };
        match (&first.meant, first.accepted.as_str()) {
            (Some(meant), _) => format!("{}; did you mean {meant}?", first.message),
            // A long message lists what there is.
            (None, accepted) if accepted.is_empty() || first.message.len() > SHOWN => first.message.clone(),
            (None, accepted) => format!("{}; accepted: {accepted}", first.message),
        }
    }

    /// Line and column, counted from 1, the message, and the values that would be accepted.
    pub fn each(&self) -> impl Iterator<Item = (usize, usize, &str, &str)> {
        self.blocks.iter().map(|b| (b.line, b.column, b.message.as_str(), b.accepted.as_str()))
    }
}

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for block in &self.blocks {
            let margin = block.line.to_string().len().max(4);
            writeln!(f, "{}:{}:{}: {}", self.path, block.line, block.column, block.message)?;
            writeln!(f, "{:>margin$} | {}", block.line, block.shown)?;
            write!(f, "{:margin$} | {}", "", block.caret)?;
            match &block.meant {
                Some(meant) => writeln!(f, " did you mean {meant}?")?,
                None => writeln!(f)?,
            }
            if !block.accepted.is_empty() {
                writeln!(f, "{:margin$} = accepted: {}", "", block.accepted)?;
            }
        }
        write!(f, "{}: {}", self.path, counted(self.blocks.len(), "error"))
    }
}

impl Block {
    fn new(text: &str, lines: &Lines, fault: Fault) -> Self {
        let at = floor(text, fault.span.start);
        let (line, from) = lines.at(at);
        let to = text[at..].find('\n').map_or(text.len(), |newline| at + newline);
        let (before, rest) = (&text[from..at], text[at..to].trim_end_matches('\r'));
        let marked = floor(rest, fault.span.end.saturating_sub(at));
        let column = before.chars().count() + 1;
        let width = rest[..marked].chars().count().max(1);
        // A line may be a whole file without newlines: only the part around the caret is shown.
        let skipped = column.saturating_sub(SHOWN * 3 / 4);
        let cut = if skipped > 0 { "…" } else { "" };
        let visible: String = before.chars().chain(rest.chars()).skip(skipped).take(SHOWN).collect();
        let indent: String =
            before.chars().skip(skipped).map(|c| if c == '\t' { '\t' } else { ' ' }).collect();
        Self {
            line,
            column,
            shown: format!("{cut}{}", printable(&visible)),
            caret: format!(
                "{}{indent}{}",
                if skipped > 0 { " " } else { "" },
                "^".repeat(width.min(SHOWN - indent.chars().count().min(SHOWN - 1)))
            ),
            message: printable(&fault.message),
            accepted: printable(&fault.accepted),
            meant: fault.meant.map(|meant| printable(&meant)),
        }
    }
}

/// The last character boundary at or before `at`.
fn floor(text: &str, at: usize) -> usize {
    let at = at.min(text.len());
    (0..=at).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0)
}

/// Replaces control characters, so that no escape sequence of a file reaches the terminal.
pub fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() && c != '\t' { '\u{fffd}' } else { c }).collect()
}

/// Characters of a wrong name that are compared: it can be as long as the file.
const MAX_COMPARED: usize = 64;

/// The most similar name, if one is similar enough.
pub fn nearest<'a>(wrong: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let wrong = wrong.to_lowercase();
    let allowed = (wrong.chars().count() / 3).max(1);
    let compared: String = wrong.chars().take(MAX_COMPARED).collect();
    names
        .into_iter()
        .map(|name| (osa_distance(&compared, name), name))
        .filter(|(distance, _)| *distance <= allowed)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name() {
        assert_eq!(nearest("intervall", ["interval", "memory"]), Some("interval"));
        assert_eq!(nearest("itnerval", ["interval", "memory"]), Some("interval"));
        assert_eq!(nearest("Memroy", ["interval", "memory"]), Some("memory"));
        assert_eq!(nearest("hashsize", ["interval", "memory"]), None);
    }

    #[test]
    fn the_caret_stands_under_the_fault() {
        let text = "a = 1\n\tbé = [9, 10]\n";
        let at = text.find("10").unwrap();
        let shown = ConfigErrors::new(Path::new("x.toml"), text, vec![Fault::new(at..at + 2, "too much")])
            .to_string();
        assert_eq!(
            shown,
            "x.toml:2:11: too much\n   2 | \tbé = [9, 10]\n     | \t         ^^\nx.toml: 1 error"
        );
    }

    #[test]
    fn any_span_of_any_text_can_be_shown() {
        let text = format!("{}é\u{1b}[31m{}\r\nx", "a".repeat(300), "b".repeat(300));
        for from in 0..text.len() + 3 {
            for to in [from, from + 1, from + 200, text.len() + 9] {
                let shown =
                    ConfigErrors::new(Path::new("x"), &text, vec![Fault::new(from..to, "m")]).to_string();
                assert!(shown.lines().all(|line| line.chars().count() < 120), "{shown}");
                assert!(!shown.contains('\u{1b}'));
            }
        }
    }
}
