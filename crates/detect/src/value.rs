//! The values of options, and what many of them have in common: numbers, quotes, lists.

use crate::fault::Fault;

/// A part of a rule's text, with its place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Value<'a> {
    pub(crate) bytes: &'a [u8],
    /// Bytes from the beginning of the rule.
    pub(crate) at: usize,
}

impl<'a> Value<'a> {
    pub(crate) fn new(bytes: &'a [u8], at: usize) -> Self {
        Self { bytes, at }
    }

    /// A fault at the value.
    pub(crate) fn wrong(self, reason: impl Into<String>) -> Fault {
        Fault::wrong(self.at, reason)
    }

    /// Something at the value that Weir does not do.
    pub(crate) fn not_supported(self, reason: impl Into<String>) -> Fault {
        Fault::not_supported(self.at, reason)
    }

    /// Without blanks at both ends.
    pub(crate) fn trimmed(self) -> Self {
        let start = self.bytes.trim_ascii_start();
        Self { bytes: start.trim_ascii_end(), at: self.at + (self.bytes.len() - start.len()) }
    }

    pub(crate) fn is_empty(self) -> bool {
        self.bytes.is_empty()
    }

    /// As text.
    pub(crate) fn text(self) -> Result<&'a str, Fault> {
        std::str::from_utf8(self.bytes)
            .map_err(|error| Fault::wrong(self.at + error.valid_up_to(), "the value is not UTF-8"))
    }

    /// As text for messages. What is not UTF-8 is replaced.
    pub(crate) fn shown(self) -> String {
        const MOST: usize = 60;
        let shown = self.bytes.get(..MOST).unwrap_or(self.bytes);
        let dots = if shown.len() < self.bytes.len() { "..." } else { "" };
        format!("{}{dots}", String::from_utf8_lossy(shown))
    }

    /// The part from a byte on.
    pub(crate) fn from(self, skipped: usize) -> Self {
        let bytes = self.bytes.get(skipped..).unwrap_or_default();
        Self { bytes, at: self.at + skipped.min(self.bytes.len()) }
    }

    /// The part before a byte.
    pub(crate) fn before(self, end: usize) -> Self {
        Self { bytes: self.bytes.get(..end).unwrap_or(self.bytes), at: self.at }
    }

    /// What follows a text that it begins with.
    pub(crate) fn after(self, start: &str) -> Option<Self> {
        self.bytes.starts_with(start.as_bytes()).then(|| self.from(start.len()))
    }

    /// The value without a `!` before it, and whether it had one.
    pub(crate) fn negated(self) -> (bool, Self) {
        let value = self.trimmed();
        match value.after("!") {
            Some(rest) => (true, rest.trimmed()),
            None => (false, value),
        }
    }

    /// What is between quotes.
    pub(crate) fn quoted(self) -> Result<Self, Fault> {
        let value = self.trimmed();
        let Some(inner) = value.after("\"") else {
            return Err(value.wrong("the value begins without `\"`"));
        };
        match inner.bytes.strip_suffix(b"\"") {
            Some(bytes) => Ok(Self { bytes, at: inner.at }),
            None => Err(value.wrong("the value ends without `\"`")),
        }
    }

    /// What is between quotes, where there are any.
    pub(crate) fn unquoted(self) -> Self {
        self.quoted().unwrap_or_else(|_| self.trimmed())
    }

    /// The parts between separators, without blanks.
    pub(crate) fn parts(self, separator: u8) -> impl Iterator<Item = Self> {
        let mut at = self.at;
        self.bytes.split(move |byte| *byte == separator).map(move |bytes| {
            let part = Self { bytes, at };
            at += bytes.len() + 1;
            part.trimmed()
        })
    }

    /// The words between blanks.
    pub(crate) fn words(self) -> impl Iterator<Item = Self> {
        self.parts(b' ').filter(|part| !part.is_empty())
    }

    /// A number in decimal or, after `0x`, in hexadecimal digits.
    pub(crate) fn number(self, what: &str, least: i64, greatest: i64) -> Result<i64, Fault> {
        let text = self.text()?;
        let wrong = || self.wrong(format!("`{}` is not {what}: {least} to {greatest} are", self.shown()));
        let (sign, digits) = match text.strip_prefix('-') {
            Some(digits) => (-1, digits),
            None => (1, text.strip_prefix('+').unwrap_or(text)),
        };
        let hexadecimal = digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X"));
        // A second sign is no digit.
        let are_digits = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        let number = match hexadecimal {
            Some(digits) if are_digits(digits) => i64::from_str_radix(digits, 16),
            None if are_digits(digits) => digits.parse(),
            _ => return Err(wrong()),
        };
        let number = number.map_err(|_| wrong())?.checked_mul(sign).ok_or_else(wrong)?;
        if (least..=greatest).contains(&number) { Ok(number) } else { Err(wrong()) }
    }

    /// An unsigned number of 32 bits.
    pub(crate) fn number32(self, what: &str) -> Result<u32, Fault> {
        Ok(self.number(what, 0, i64::from(u32::MAX))? as u32)
    }

    /// The word before the first blank, and what follows it.
    pub(crate) fn name_and_argument(self) -> (Self, Self) {
        let end = self.bytes.iter().position(u8::is_ascii_whitespace).unwrap_or(self.bytes.len());
        (self.before(end), self.from(end).trimmed())
    }

    /// The value with its escapes replaced: a `\` before a byte stands for that byte.
    pub(crate) fn unescaped(self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.bytes.len());
        let mut source = self.bytes.iter();
        while let Some(byte) = source.next() {
            bytes.extend(if *byte == b'\\' { source.next() } else { Some(byte) });
        }
        bytes
    }
}

/// The bytes of hexadecimal digits, two for each; `None` where another letter is, or one digit is left.
pub(crate) fn hexadecimal(digits: &[u8]) -> Option<Box<[u8]>> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let pair = |pair: &[u8]| match pair {
        [high, low] => Some((digit(*high)? * 16 + digit(*low)?) as u8),
        _ => None,
    };
    digits.chunks(2).map(pair).collect()
}

/// One of these words, as the value that belongs to it.
pub(crate) fn one_of<T: Copy>(value: Value<'_>, what: &str, words: &[(&str, T)]) -> Result<T, Fault> {
    let found = words.iter().find(|(word, _)| word.as_bytes().eq_ignore_ascii_case(value.bytes));
    found.map(|(_, meaning)| *meaning).ok_or_else(|| {
        let names: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        value.wrong(format!("`{}` is not {what}; {} are", value.shown(), names.join(", ")))
    })
}
