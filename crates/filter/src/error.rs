//! Errors in expressions, with their position.

use crate::wireshark;
use std::fmt;
use std::ops::Range;

/// The classes of error that libpcap distinguishes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The words do not follow the grammar.
    Syntax,
    /// A number, an address or a name is malformed, out of range or unknown.
    Value,
    /// A qualifier does not fit the word that it qualifies.
    Qualifier,
    /// The link type has no such field.
    Link,
    /// The expression cannot match any packet.
    RejectsAll,
    /// The expression is too long, too deeply nested, or needs too many scratch registers.
    TooComplex,
    /// It tests a property that is decided at another level: of packets, flows or records; or it is one of another program.
    Level,
}

/// An expression that cannot be compiled.
///
/// `Display` gives three lines: the message, the expression (or the part of it around the error, if it is long), and a
/// caret line under the error.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct FilterError {
    /// Its class.
    pub kind: ErrorKind,
    /// The error and what was expected, without the position.
    pub message: String,
    /// The byte range of the error in the expression; empty and at the end if something is missing.
    pub span: Range<usize>,
    /// The expression.
    pub expression: String,
}

/// Bytes of the expression shown before and after the error.
const AROUND: usize = 60;

impl FilterError {
    pub(crate) fn new(kind: ErrorKind, span: Range<usize>, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), span, expression: String::new() }
    }

    /// The message in libpcap's (1.11) words. libpcap has one message for all syntax errors.
    pub fn libpcap_message(&self) -> &str {
        match self.kind {
            ErrorKind::Syntax | ErrorKind::Level => "can't parse filter expression: syntax error",
            _ => &self.message,
        }
    }

    pub(crate) fn within(mut self, expression: &str) -> Self {
        self.expression = expression.to_owned();
        self
    }

    /// With what to write instead, if the expression is one of another program.
    pub(crate) fn answered(mut self) -> Self {
        if let Some(answer) = wireshark::answer(&self.expression) {
            (self.kind, self.message) = (ErrorKind::Level, answer);
        }
        self
    }
}

impl fmt::Display for FilterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = &self.expression;
        let mut from = self.span.start.min(text.len()).saturating_sub(AROUND);
        let mut to = self.span.end.min(text.len()).saturating_add(AROUND).min(text.len());
        to = to.min(self.span.start.min(text.len()) + 2 * AROUND).max(from);
        while !text.is_char_boundary(from) {
            from -= 1;
        }
        while !text.is_char_boundary(to) {
            to += 1;
        }
        let (before, after) = (if from > 0 { "..." } else { "" }, if to < text.len() { "..." } else { "" });
        // One column per character, so that the caret stays under its word.
        let shown: String = text[from..to].chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        let columns = |upto: usize| {
            text[from..to].char_indices().take_while(|(at, _)| from + at < upto).count() + before.len()
        };
        let start = columns(self.span.start);
        let width = columns(self.span.end.min(to)).saturating_sub(start).max(1);
        writeln!(f, "filter: {}", self.message)?;
        writeln!(f, "  {before}{shown}{after}")?;
        write!(f, "  {:start$}{:^<width$}", "", "")
    }
}

impl std::error::Error for FilterError {}
