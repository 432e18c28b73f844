//! Regular expressions: `pcre`.
//!
//! The engine of choice takes time in proportion to the text (the crate `regex`). Expressions that it cannot take, or that it reads in
//! another way than Perl does, go to PCRE2, with limits on its work.

use crate::fault::Fault;
use crate::value::Value;
use std::fmt;

/// Maximum length of an expression in bytes.
pub const MAX_EXPRESSION: usize = 16_384;

/// Maximum size in bytes of a compiled expression in either engine.
const MAX_COMPILED: usize = 2 << 20;

/// Maximum number of steps of PCRE2 and of its depth, those of Suricata.
const LIMITS: &str = "(*LIMIT_MATCH=3500)(*LIMIT_RECURSION=1500)";

/// A regular expression over the bytes of a buffer.
#[derive(Clone)]
pub struct Pattern {
    /// As written between the slashes.
    pub expression: Box<str>,
    /// Whether it must not match.
    pub is_negated: bool,
    /// Whether it is searched from the end of the last match on.
    pub is_relative: bool,
    /// Whether what it matches at a place does not depend on the byte from which it is searched.
    pub(crate) begins_anywhere: bool,
    engine: Engine,
}

/// What runs an expression.
#[derive(Clone)]
enum Engine {
    Linear(regex::bytes::Regex),
    Perl(pcre2::bytes::Regex),
}

/// What a pattern did.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Found {
    /// It matches these bytes: the first and the one after the last.
    At(usize, usize),
    /// It does not match.
    No,
    /// A limit ended the search: whether it matches is not known.
    GaveUp,
}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { expression, is_negated, is_relative, engine, .. } = self;
        let engine = match engine {
            Engine::Linear(_) => "linear",
            Engine::Perl(_) => "PCRE2",
        };
        write!(f, "Pattern({expression:?}, {engine}, negated {is_negated}, relative {is_relative})")
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        let of = |pattern: &Self| (pattern.is_negated, pattern.is_relative);
        self.expression == other.expression
            && of(self) == of(other)
            && self.engine.text() == other.engine.text()
    }
}

impl Engine {
    fn text(&self) -> &str {
        match self {
            Self::Linear(engine) => engine.as_str(),
            Self::Perl(engine) => engine.as_str(),
        }
    }
}

/// The letters after an expression.
#[derive(Clone, Copy, Debug, Default)]
struct Letters {
    ignores_case: bool,
    is_multi_line: bool,
    dot_is_all: bool,
    is_extended: bool,
    is_anchored: bool,
    dollar_is_end: bool,
    is_lazy: bool,
    is_relative: bool,
}

impl Pattern {
    /// Reads the value of `pcre`: `[!]"/expression/letters"`. Returns the letter that names a buffer, too.
    pub(crate) fn parse(value: Value<'_>) -> Result<(Self, Option<u8>), Fault> {
        let (is_negated, value) = value.negated();
        let value = value.quoted()?;
        let inner = value.after("/").or_else(|| value.after("m/"));
        let Some((inner, end)) =
            inner.and_then(|inner| Some((inner, inner.bytes.iter().rposition(|byte| *byte == b'/')?)))
        else {
            return Err(value.wrong("an expression stands between `/` and `/`"));
        };
        let expression = inner.before(end);
        if expression.is_empty() {
            return Err(value.wrong("the expression is empty"));
        }
        if expression.bytes.len() > MAX_EXPRESSION {
            return Err(value.wrong(format!("the expression has more than {MAX_EXPRESSION} bytes")));
        }
        let (letters, buffer) = letters(inner.from(end + 1))?;
        // The engines read text. Each byte above 0x7f becomes its escape, which both read as that byte.
        let text: String = expression.bytes.iter().map(|byte| escaped(*byte)).collect();
        let engine = compile(&text, letters).map_err(|reason| expression.wrong(reason))?;
        let begins_anywhere = matches!(&engine, Engine::Linear(engine) if begins_anywhere(engine.as_str()));
        let expression = expression.shown_whole().into();
        let is_relative = letters.is_relative;
        Ok((Self { expression, is_negated, is_relative, begins_anywhere, engine }, buffer))
    }

    /// Whether its time is in proportion to the text that it searches.
    pub fn is_linear(&self) -> bool {
        matches!(self.engine, Engine::Linear(_))
    }

    /// Searches from a byte on. Anchors and look-behind see the bytes from there on only.
    pub fn find(&self, text: &[u8], from: usize) -> Found {
        let text = text.get(from..).unwrap_or_default();
        match &self.engine {
            Engine::Linear(engine) => match engine.find(text) {
                Some(found) => Found::At(found.start() + from, found.end() + from),
                None => Found::No,
            },
            Engine::Perl(engine) => match engine.find(text) {
                Ok(Some(found)) => Found::At(found.start() + from, found.end() + from),
                Ok(None) => Found::No,
                Err(_) => Found::GaveUp,
            },
        }
    }
}

/// An expression whose first group takes a part of a buffer: `pcrexform`.
#[derive(Clone)]
pub struct Capture {
    engine: Engine,
}

impl fmt::Debug for Capture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Capture({:?})", self.engine.text())
    }
}

impl Eq for Capture {}

impl PartialEq for Capture {
    fn eq(&self, other: &Self) -> bool {
        self.engine.text() == other.engine.text()
    }
}

impl Capture {
    /// Reads an expression without slashes.
    pub(crate) fn parse(expression: Value<'_>) -> Result<Self, Fault> {
        if expression.is_empty() || expression.bytes.len() > MAX_EXPRESSION {
            return Err(expression.wrong(format!("an expression has 1 to {MAX_EXPRESSION} bytes")));
        }
        let text: String = expression.bytes.iter().map(|byte| escaped(*byte)).collect();
        let engine = compile(&text, Letters::default()).map_err(|reason| expression.wrong(reason))?;
        let groups = match &engine {
            Engine::Linear(engine) => engine.captures_len(),
            Engine::Perl(engine) => engine.captures_len(),
        };
        match groups {
            0 | 1 => {
                Err(expression
                    .wrong("the expression has no group; the first one is what remains of the buffer"))
            }
            _ => Ok(Self { engine }),
        }
    }

    /// What the first group captures.
    pub fn of<'a>(&self, text: &'a [u8]) -> Option<&'a [u8]> {
        match &self.engine {
            Engine::Linear(engine) => engine.captures(text)?.get(1).map(|group| group.as_bytes()),
            Engine::Perl(engine) => {
                let captures = engine.captures(text).ok()??;
                let group = captures.get(1)?;
                text.get(group.start()..group.end())
            }
        }
    }
}

impl Value<'_> {
    /// As text, whole. What is not UTF-8 is replaced.
    fn shown_whole(self) -> String {
        String::from_utf8_lossy(self.bytes).into_owned()
    }
}

fn escaped(byte: u8) -> String {
    if byte.is_ascii() { char::from(byte).to_string() } else { format!("\\x{byte:02x}") }
}

/// The letters after an expression, and the one that names a buffer.
fn letters(value: Value<'_>) -> Result<(Letters, Option<u8>), Fault> {
    let mut is = Letters::default();
    let mut buffer = None;
    for (place, letter) in value.bytes.iter().enumerate() {
        match letter {
            b'i' => is.ignores_case = true,
            b'm' => is.is_multi_line = true,
            b's' => is.dot_is_all = true,
            b'x' => is.is_extended = true,
            b'A' => is.is_anchored = true,
            b'E' => is.dollar_is_end = true,
            b'G' => is.is_lazy = true,
            b'R' => is.is_relative = true,
            // Raw bytes, which buffers always are, and limits that are always kept.
            b'B' | b'O' => {}
            b'U' | b'I' | b'P' | b'Q' | b'H' | b'D' | b'M' | b'C' | b'S' | b'Y' | b'V' | b'W' | b'Z' => {
                if buffer.is_some_and(|before| before != *letter) {
                    return Err(value
                        .from(place)
                        .wrong("an expression has one buffer; a second letter names another"));
                }
                buffer = Some(*letter);
            }
            b',' => {
                return Err(value
                    .from(place)
                    .not_supported("captures of an expression into variables are not supported"));
            }
            _ => {
                let reason = format!("`{}` is not a letter after an expression", char::from(*letter));
                return Err(value.from(place).wrong(reason));
            }
        }
    }
    Ok((is, buffer))
}

/// The engine of an expression.
fn compile(expression: &str, letters: Letters) -> Result<Engine, String> {
    let linear = linear_form(expression, letters).and_then(|form| linear(&form, letters).ok());
    match linear {
        Some(engine) => Ok(Engine::Linear(engine)),
        None => perl(expression, letters).map(Engine::Perl),
    }
}

fn linear(expression: &str, letters: Letters) -> Result<regex::bytes::Regex, regex::Error> {
    regex::bytes::RegexBuilder::new(expression)
        .unicode(false)
        .case_insensitive(letters.ignores_case)
        .multi_line(letters.is_multi_line)
        .dot_matches_new_line(letters.dot_is_all)
        .swap_greed(letters.is_lazy)
        .size_limit(MAX_COMPILED)
        .dfa_size_limit(MAX_COMPILED)
        .nest_limit(200)
        .build()
}

fn perl(expression: &str, letters: Letters) -> Result<pcre2::bytes::Regex, String> {
    let greed = if letters.is_lazy { "(?U)" } else { "" };
    let anchor = if letters.is_anchored { r"\G" } else { "" };
    // Without its letter, `$` also matches before a newline at the end.
    let text = match letters.dollar_is_end && !letters.is_multi_line {
        true => dollars(expression, r"\z").unwrap_or_else(|| expression.to_owned()),
        false => expression.to_owned(),
    };
    // An expression may begin with settings, which have to stay first.
    let text = format!("{LIMITS}{greed}{anchor}(?:{text})");
    pcre2::bytes::RegexBuilder::new()
        .caseless(letters.ignores_case)
        .multi_line(letters.is_multi_line)
        .dotall(letters.dot_is_all)
        .extended(letters.is_extended)
        .jit_if_available(true)
        .build(&text)
        .map_err(|error| format!("the expression is wrong: {error}"))
}

/// The expression as the linear engine reads it as Perl would, or `None` where it would not.
fn linear_form(expression: &str, letters: Letters) -> Option<String> {
    // Blanks in classes mean themselves in Perl.
    if letters.is_extended || has_other_classes(expression) {
        return None;
    }
    let end = if letters.dollar_is_end { r"\z" } else { r"(?:\n?\z)" };
    let form = if letters.is_multi_line { expression.to_owned() } else { dollars(expression, end)? };
    Some(if letters.is_anchored { format!(r"\A(?:{form})") } else { form })
}

/// Whether an expression of the linear engine, which has no look-behind, asks nowhere for what is before a place.
fn begins_anywhere(expression: &str) -> bool {
    let has_anchor = signs(expression).any(|(_, byte, in_class)| byte == b'^' && !in_class);
    let mut bytes = expression.bytes();
    let mut borders = std::iter::from_fn(|| match bytes.next()? {
        b'\\' => bytes.next().map(|escaped| b"AbB<>".contains(&escaped)),
        _ => Some(false),
    });
    !has_anchor && !borders.any(|is_border| is_border)
}

/// A walk over the signs of an expression: each with its place, and whether it is in a class.
fn signs(expression: &str) -> impl Iterator<Item = (usize, u8, bool)> {
    let bytes = expression.as_bytes();
    let (mut at, mut class_from) = (0, None);
    std::iter::from_fn(move || {
        loop {
            let place = at;
            let byte = *bytes.get(at)?;
            at += 1;
            match byte {
                // What follows is no sign.
                b'\\' => at += 1,
                b'[' if class_from.is_none() => {
                    // A bracket directly after the beginning is a member.
                    let negated = usize::from(bytes.get(at) == Some(&b'^'));
                    class_from = Some(place);
                    at += negated;
                    at += usize::from(bytes.get(at) == Some(&b']'));
                    return Some((place, byte, false));
                }
                b']' if class_from.is_some() => class_from = None,
                _ => return Some((place, byte, class_from.is_some())),
            }
        }
    })
}

/// Whether a class has what the linear engine reads as a class in it, or as an operation of classes.
fn has_other_classes(expression: &str) -> bool {
    let bytes = expression.as_bytes();
    let twice = |place: usize, byte: u8| bytes.get(place + 1) == Some(&byte);
    signs(expression).any(|(place, byte, in_class)| match byte {
        b'[' if in_class => true,
        b'&' | b'-' | b'~' if in_class => twice(place, byte),
        _ => false,
    })
}

/// The expression with each `$` replaced, or `None` where one is not at the end of an alternative.
fn dollars(expression: &str, end: &str) -> Option<String> {
    let mut text = String::with_capacity(expression.len());
    let mut copied = 0;
    for (place, byte, in_class) in signs(expression) {
        if byte != b'$' || in_class {
            continue;
        }
        if !matches!(expression.as_bytes().get(place + 1), None | Some(b')' | b'|')) {
            return None;
        }
        text.push_str(expression.get(copied..place)?);
        text.push_str(end);
        copied = place + 1;
    }
    text.push_str(expression.get(copied..)?);
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(text: &str) -> Result<Pattern, String> {
        Pattern::parse(Value::new(text.as_bytes(), 0))
            .map(|(pattern, _)| pattern)
            .map_err(|fault| fault.reason)
    }

    fn finds(text: &str, in_text: &str) -> Found {
        pattern(text).unwrap().find(in_text.as_bytes(), 0)
    }

    #[test]
    fn letters_and_forms() {
        assert_eq!(finds(r#""/ab+/""#, "xabbc"), Found::At(1, 4));
        assert_eq!(finds(r#""/ab+/G""#, "xabbc"), Found::At(1, 3));
        assert_eq!(finds(r#""/AB/i""#, "xab"), Found::At(1, 3));
        assert_eq!(finds(r#""/a.b/s""#, "a\nb"), Found::At(0, 3));
        assert_eq!(finds(r#""/a.b/""#, "a\nb"), Found::No);
        assert_eq!(finds(r#""/^b/m""#, "a\nb"), Found::At(2, 3));
        assert_eq!(finds(r#""/b/A""#, "ab"), Found::No);
        assert_eq!(finds(r#""/a b/x""#, "ab"), Found::At(0, 2));
        assert!(pattern(r#"!"/a/R""#).unwrap().is_negated);
        let (_, buffer) = Pattern::parse(Value::new(br#""/a/Ui""#, 0)).unwrap();
        assert_eq!(buffer, Some(b'U'));
    }

    #[test]
    fn the_end_is_before_a_last_newline_too() {
        for text in [r#""/a$/""#, r#""/(?<=x)a$/""#] {
            assert_ne!(finds(text, "xa\n"), Found::No, "{text}");
            assert_eq!(finds(text, "xa\nb"), Found::No, "{text}");
        }
        for text in [r#""/a$/E""#, r#""/(?<=x)a$/E""#] {
            assert_eq!(finds(text, "xa\n"), Found::No, "{text}");
            assert_ne!(finds(text, "xa"), Found::No, "{text}");
        }
    }

    #[test]
    fn what_the_linear_engine_reads_otherwise_goes_to_pcre2() {
        assert!(pattern(r#""/^[a-z&]{2,5}\x2e(?:php|cgi)$/""#).unwrap().is_linear());
        for text in
            [r#""/(a)\1/""#, r#""/a(?!b)/""#, r#""/[a[b]/""#, r#""/[a&&b]/""#, r#""/[^[]/""#, r#""/a$b/""#]
        {
            assert!(!pattern(text).unwrap().is_linear(), "{text}");
        }
        assert_eq!(finds(r#""/[a&&b]+/""#, "x&b"), Found::At(1, 3));
        assert_eq!(finds(r#""/[]]/""#, "x]"), Found::At(1, 2));
    }

    #[test]
    fn bytes_above_ascii_are_themselves() {
        let rule = [b"\"/\xe9+/\"".as_slice()].concat();
        let (pattern, _) = Pattern::parse(Value::new(&rule, 0)).unwrap();
        assert_eq!(pattern.find(b"a\xe9\xe9", 0), Found::At(1, 3));
    }

    #[test]
    fn an_expression_that_explodes_ends_at_its_limit() {
        let text = format!("{}b", "a".repeat(4096));
        assert_eq!(finds(r#""/^(?:a+)+$/""#, &text), Found::No);
        assert_eq!(finds(r#""/^(a+)+(?=c)$/""#, &text), Found::GaveUp);
    }

    #[test]
    fn what_asks_for_the_bytes_before_it_depends_on_where_it_is_searched_from() {
        let begins_anywhere = |text: &str| pattern(text).unwrap().begins_anywhere;
        for text in [r#""/ab+/""#, r#""/[^a]b$/m""#, r#""/\x5e[\^a]/""#, r#""/(?:a|b)c\z/""#] {
            assert!(begins_anywhere(text), "{text}");
        }
        for text in [
            r#""/^a/""#,
            r#""/a|^b/m""#,
            r#""/\bab/""#,
            r#""/a\B/""#,
            r#""/a/A""#,
            r#""/(?<!a)b/""#,
            r#""/(a)\1/""#,
        ] {
            assert!(!begins_anywhere(text), "{text}");
        }
    }

    #[test]
    fn wrong_expressions_say_why() {
        for (text, part) in [
            (r#""abc""#, "between"),
            (r#""//""#, "empty"),
            (r#""/(/""#, "wrong"),
            (r#""/a/k""#, "not a letter"),
            (r#""/a/UH""#, "one buffer"),
            (r#""/(a)/,flow:x""#, "captures"),
        ] {
            let fault = pattern(text).unwrap_err();
            assert!(fault.contains(part), "{text}: {fault}");
        }
        let long = format!("\"/{}/\"", "a".repeat(MAX_EXPRESSION + 1));
        assert!(pattern(&long).unwrap_err().contains("16384"));
    }
}
