//! From text to tests of fields.

use super::list::{List, MAX_DOMAIN};
use super::operand::{Operand, Search, Text, domain};
use super::test::{Comparison, FieldTest, Operation, Pattern};
use super::{FLOW, FieldInfo, FieldKind, Fields, Parsed, RECORD, find};
use crate::error::{ErrorKind, FilterError};
use std::ops::Range;
use std::sync::Arc;

/// Values that a list in an expression, or its file, may have.
const MAX_LIST: usize = 1_000_000;

/// Bytes of a line of a list's file.
const MAX_LINE: usize = 4096;

/// Bad lines of a list's file that are shown; the others are counted.
const SHOWN_LINES: usize = 10;

/// Characters of a bad line that are shown.
const SHOWN: usize = 40;

/// An operator as it is written.
#[derive(Clone, Copy)]
enum Operator {
    Compare(Comparison),
    Contains,
    Begins,
    Ends,
    Under,
    Matches,
    In,
}

/// The operators, the longer of two that begin alike first.
static OPERATORS: &[(&str, Operator)] = &[
    ("!=", Operator::Compare(Comparison::NotEqual)),
    ("<=", Operator::Compare(Comparison::AtMost)),
    (">=", Operator::Compare(Comparison::AtLeast)),
    ("==", Operator::Compare(Comparison::Equal)),
    ("=", Operator::Compare(Comparison::Equal)),
    ("<", Operator::Compare(Comparison::Less)),
    (">", Operator::Compare(Comparison::Greater)),
    ("~", Operator::Matches),
    ("contains", Operator::Contains),
    ("begins", Operator::Begins),
    ("ends", Operator::Ends),
    ("under", Operator::Under),
    ("in", Operator::In),
];

/// The operators of tests of fields; `==`, which means `=`, is left out.
pub fn operators() -> impl Iterator<Item = &'static str> {
    OPERATORS.iter().map(|(word, _)| *word).filter(|word| *word != "==")
}

/// The table and the name in a word of the form of a field.
fn parts(word: &str) -> Option<(&str, &str)> {
    let is_name = |text: &str| {
        text.bytes().next().is_some_and(|first| first.is_ascii_alphabetic() || first == b'_')
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    // Keys of other programs have points in them: `http.http_user_agent`, `certificate.key_alg`.
    let (table, name) = word.split_once('.')?;
    (is_name(table) && name.split('.').all(is_name)).then_some((table, name))
}

/// Whether a word is a field, without an operator after it.
pub(crate) fn is_field(fields: &dyn Fields, word: &str) -> Option<Result<FieldInfo, String>> {
    let (table, name) = parts(word)?;
    match fields.find(table, name) {
        Ok(Some(found)) => Some(Ok(found)),
        // A host may have such a name.
        Ok(None) => None,
        Err(reason) => Some(Err(reason)),
    }
}

/// The test of a table by its name alone, which every record of the table satisfies; `None` if there is no such table.
pub(crate) fn table_test(fields: &dyn Fields, word: &str) -> Option<FieldTest> {
    let table = fields.tables().into_iter().find(|table| *table == word && *table != FLOW)?;
    let field = FieldInfo { table, name: RECORD, kind: FieldKind::Bool, place: 0 };
    Some(FieldTest { field, operation: Operation::Present })
}

/// Whether a word has the form of a field and an operator after it, which no other primitive has.
pub(crate) fn looks_like_field(word: &str, rest: &str) -> bool {
    parts(word).is_some() && operator(rest).is_some()
}

/// The operator at the beginning of a text, and the bytes up to its end.
fn operator(text: &str) -> Option<(Operator, usize)> {
    let trimmed = text.trim_start();
    let before = text.len() - trimmed.len();
    OPERATORS.iter().find_map(|(sign, operator)| {
        let rest = trimmed.strip_prefix(sign)?;
        let is_word = sign.ends_with(|c: char| c.is_ascii_alphabetic());
        let goes_on = rest.starts_with(|c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-'));
        let is_whole = !(is_word && (goes_on || before == 0));
        is_whole.then_some((*operator, before + sign.len()))
    })
}

/// Reads the test whose field is a word of the expression; the position after it.
pub(crate) fn test(text: &str, word: Range<usize>, fields: &dyn Fields) -> Parsed<(FieldTest, usize)> {
    let wrong = |span: Range<usize>, message: String| FilterError::new(ErrorKind::Value, span, message);
    let written = text.get(word.clone()).unwrap_or_default();
    let Some((table, name)) = parts(written) else {
        return Err(wrong(
            word,
            format!("`{written}` is not a field; a field is table.name, such as `dns.query`"),
        ));
    };
    let field = find(fields, table, name).map_err(|message| wrong(word.clone(), message))?;
    let Some((operator, length)) = operator(text.get(word.end..).unwrap_or_default()) else {
        return Ok((FieldTest { field, operation: Operation::Present }, word.end));
    };
    let mut reader = Reader { text, at: word.end + length };
    let sign = word.end..reader.at;
    let operation = match operator {
        Operator::Compare(comparison) => {
            let is_order = !matches!(comparison, Comparison::Equal | Comparison::NotEqual);
            if is_order && !field.kind.is_ordered() {
                return Err(wrong(
                    trim(text, sign),
                    format!("`{written}` is true or false: it has no order"),
                ));
            }
            let value = reader.value()?;
            Operation::Compare(comparison, operand(field, &value, fields)?)
        }
        Operator::Contains => Operation::Contains(Search::new(reader.value()?.text())),
        Operator::Begins => Operation::Begins(reader.value()?.text()),
        Operator::Ends => Operation::Ends(reader.value()?.text()),
        Operator::Under if reader.at_list() => {
            Operation::UnderAny(Arc::new(reader.list(field, true, fields)?))
        }
        Operator::Under => Operation::Under(reader.value()?.text()),
        Operator::Matches => {
            let value = reader.quoted_or_word(true)?;
            let pattern = Pattern::new(&value.text, value.is_exact);
            Operation::Matches(pattern.map_err(|message| wrong(value.span, message))?)
        }
        Operator::In => Operation::In(Arc::new(reader.list(field, false, fields)?)),
    };
    Ok((FieldTest { field, operation }, reader.at))
}

/// A span without the blanks at its beginning.
fn trim(text: &str, span: Range<usize>) -> Range<usize> {
    let found = text.get(span.clone()).unwrap_or_default();
    span.end - found.trim_start().len()..span.end
}

fn operand(field: FieldInfo, value: &Written, fields: &dyn Fields) -> Parsed<Operand> {
    Operand::parse(field.kind, &value.text, value.is_exact, |text| fields.time(text)).map_err(|accepted| {
        let FieldInfo { table, name, .. } = field;
        let message = format!("expected {accepted} for `{table}.{name}`, found `{}`", value.text);
        FilterError::new(ErrorKind::Value, value.span.clone(), message)
    })
}

/// A value as it is written.
struct Written {
    text: String,
    /// Whether it stands in single quotes.
    is_exact: bool,
    span: Range<usize>,
}

impl Written {
    fn text(&self) -> Text {
        Text::new(&self.text, self.is_exact)
    }
}

/// Reads values.
struct Reader<'t> {
    text: &'t str,
    at: usize,
}

impl Reader<'_> {
    fn rest(&self) -> &str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn blanks(&mut self) {
        self.at += self.rest().len() - self.rest().trim_start().len();
    }

    fn sign(&mut self, sign: char) -> bool {
        self.blanks();
        let found = self.rest().starts_with(sign);
        self.at += usize::from(found);
        found
    }

    fn expected(&self, what: &str) -> FilterError {
        let length = self.rest().find(char::is_whitespace).unwrap_or(self.rest().len());
        let found = match self.rest().get(..length).unwrap_or_default() {
            "" => "the end".to_owned(),
            found => format!("`{found}`"),
        };
        let message = format!("expected {what}, found {found}");
        FilterError::new(ErrorKind::Syntax, self.at..self.at + length, message)
    }

    fn value(&mut self) -> Parsed<Written> {
        self.quoted_or_word(false)
    }

    /// A word, or text in quotes. In quotes `\"` and `\'` stand for the quote, and `\\` for a backslash; any other
    /// backslash for itself. A regular expression keeps its backslashes.
    fn quoted_or_word(&mut self, is_pattern: bool) -> Parsed<Written> {
        self.blanks();
        let begin = self.at;
        let quote = self.rest().chars().next().filter(|c| matches!(c, '"' | '\''));
        let Some(quote) = quote else {
            let is_end = |c: char| c.is_whitespace() || matches!(c, '(' | ')' | ',' | '"' | '\'');
            let length = self.rest().find(is_end).unwrap_or(self.rest().len());
            if length == 0 {
                return Err(self.expected("a value"));
            }
            let text = self.rest().get(..length).unwrap_or_default().to_owned();
            self.at += length;
            return Ok(Written { text, is_exact: false, span: begin..self.at });
        };
        let mut text = String::new();
        let mut chars = self.rest().char_indices().skip(1).peekable();
        while let Some((at, c)) = chars.next() {
            match c {
                c if c == quote => {
                    self.at += at + 1;
                    return Ok(Written { text, is_exact: quote == '\'', span: begin..self.at });
                }
                '\\' => match chars.peek() {
                    Some((_, next)) if matches!(next, '"' | '\'') => {
                        text.push(*next);
                        chars.next();
                    }
                    Some((_, '\\')) => {
                        text.push_str(if is_pattern { r"\\" } else { r"\" });
                        chars.next();
                    }
                    _ => text.push('\\'),
                },
                c => text.push(c),
            }
        }
        let message = format!("the text has no closing {quote}");
        Err(FilterError::new(ErrorKind::Syntax, begin..self.text.len(), message))
    }

    /// Whether a list stands here.
    fn at_list(&mut self) -> bool {
        self.blanks();
        self.rest().starts_with(['(', '@'])
    }

    /// `(a, b)`, or `@FILE`; of domains or of other values.
    fn list(&mut self, field: FieldInfo, of_domains: bool, fields: &dyn Fields) -> Parsed<List> {
        if self.sign('@') {
            let path = self.value()?;
            let content = fields.list(&path.text).map_err(|reason| {
                FilterError::new(ErrorKind::Value, path.span.clone(), format!("{}: {reason}", path.text))
            })?;
            return of_lines(field, of_domains, &content, &path, fields);
        }
        if !self.sign('(') {
            return Err(self.expected("a list such as `(80, 443)`, or `@FILE`"));
        }
        let mut list = List::default();
        loop {
            let value = self.value()?;
            match of_domains {
                false => list.push(operand(field, &value, fields)?),
                true if is_domain(&value.text) => list.push_domain(&value.text()),
                true => {
                    let message = format!("`{}` is not a domain such as `example.org`", shown(&value.text));
                    return Err(FilterError::new(ErrorKind::Value, value.span, message));
                }
            }
            if self.sign(')') {
                list.sort();
                return Ok(list);
            }
            if !self.sign(',') {
                return Err(self.expected("`,` or `)`"));
            }
        }
    }
}

/// Whether a text can be an entry of a list of domains.
fn is_domain(text: &str) -> bool {
    let name = domain(text.as_bytes(), true);
    !name.is_empty() && name.len() <= MAX_DOMAIN && !text.contains(char::is_whitespace)
}

/// The beginning of a text, for a message.
fn shown(text: &str) -> String {
    let begin: String = text.chars().take(SHOWN).collect();
    if begin.len() < text.len() { format!("{begin}...") } else { begin }
}

/// A list of the lines of a file. Blank ones and those that begin with `#` are left out; bad ones too, with a note. A file of
/// bad lines only is an error.
fn of_lines(
    field: FieldInfo,
    of_domains: bool,
    content: &[u8],
    path: &Written,
    fields: &dyn Fields,
) -> Parsed<List> {
    let wrong = |message: String| FilterError::new(ErrorKind::Value, path.span.clone(), message);
    let mut list = List::default();
    let (mut values, mut bad) = (0, BadLines::default());
    for (number, line) in content.split(|byte| *byte == b'\n').enumerate() {
        let line = line.trim_ascii();
        if line.is_empty() || line.starts_with(b"#") {
            continue;
        }
        let text = std::str::from_utf8(line).ok().filter(|text| text.len() <= MAX_LINE);
        let operand = match text {
            Some(text) if of_domains => is_domain(text).then(|| Operand::Text(Text::new(text, false))),
            Some(text) => Operand::parse(field.kind, text, false, |text| fields.time(text)).ok(),
            None => None,
        };
        match operand {
            Some(Operand::Text(text)) if of_domains => list.push_domain(&text),
            Some(operand) => list.push(operand),
            None => {
                bad.push(number + 1);
                continue;
            }
        }
        values += 1;
        if values > MAX_LIST {
            return Err(wrong(format!("{}: more than {MAX_LIST} values, the maximum of a list", path.text)));
        }
    }
    list.sort();
    if bad.count == 0 {
        return Ok(list);
    }
    let what = match field.kind {
        FieldKind::Address => "addresses or networks",
        FieldKind::Text if of_domains => "domains",
        FieldKind::Text => "texts",
        FieldKind::Number => "numbers",
        FieldKind::Bool => "`true` or `false`",
        FieldKind::Duration => "lengths of time",
        FieldKind::Time => "times",
    };
    let bad = bad.text(&path.text, what);
    if values == 0 {
        return Err(wrong(bad));
    }
    list.note = Some(bad.into());
    Ok(list)
}

/// Lines that have no value of a list's kind. Messages have their numbers and not their text: who reads a message may have no right
/// to read the file.
#[derive(Default)]
struct BadLines {
    count: usize,
    /// The numbers of the first ones.
    first: Vec<usize>,
}

impl BadLines {
    fn push(&mut self, number: usize) {
        self.count += 1;
        if self.first.len() < SHOWN_LINES {
            self.first.push(number);
        }
    }

    fn text(&self, path: &str, what: &str) -> String {
        let numbers: Vec<String> = self.first.iter().map(usize::to_string).collect();
        let lines = if self.count == 1 { "line" } else { "lines" };
        let more = match self.count - self.first.len() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        format!("{path}: left out, as they are not {what}: {lines} {}{more}", numbers.join(", "))
    }
}
