//! The words of a query.

use super::QueryError;

/// A word of the text and its position.
#[derive(Clone, Copy, Debug)]
pub struct Word<'t> {
    /// The word.
    pub text: &'t str,
    /// Its position in bytes.
    pub at: usize,
}

impl Word<'_> {
    /// An error about it.
    pub fn wrong(&self, message: impl Into<String>) -> QueryError {
        QueryError { message: message.into(), offset: self.at, length: self.text.len() }
    }
}

/// Reads words.
pub struct Words<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Words<'t> {
    /// Of a text.
    pub fn new(text: &'t str) -> Self {
        Self { text, at: 0 }
    }

    /// The next word, which stays the next.
    pub fn peek(&self) -> Option<Word<'t>> {
        let rest = self.text.get(self.at..)?;
        let at = self.at + rest.find(|c: char| !c.is_whitespace())?;
        let rest = self.text.get(at..)?;
        let length = rest.find(char::is_whitespace).unwrap_or(rest.len());
        Some(Word { text: rest.get(..length)?, at })
    }

    /// The next word.
    pub fn next(&mut self) -> Option<Word<'t>> {
        let word = self.peek()?;
        self.at = word.at + word.text.len();
        Some(word)
    }

    /// The next word, or an error at the end of the text.
    pub fn want(&mut self, what: &str) -> Result<Word<'t>, QueryError> {
        self.next().ok_or_else(|| QueryError {
            message: format!("expected {what}"),
            offset: self.text.len(),
            length: 0,
        })
    }

    /// A name of one or more words: between quotes, else up to one of the words of `ends`.
    pub fn name(&mut self, what: &str, ends: &[&str]) -> Result<Word<'t>, QueryError> {
        let first = self.want(what)?;
        let rest = self.text.get(first.at + 1..).filter(|_| first.text.starts_with('"'));
        if let Some((name, _)) = rest.and_then(|rest| rest.split_once('"')) {
            self.at = first.at + name.len() + 2;
            return Ok(Word { text: name, at: first.at + 1 });
        }
        while let Some(next) = self.peek().filter(|word| !ends.contains(&word.text)) {
            self.at = next.at + next.text.len();
        }
        Ok(Word { text: self.text.get(first.at..self.at).unwrap_or(first.text), at: first.at })
    }

    /// Words up to a maximum number, which stay the next.
    pub fn ahead(&self, max: usize) -> Vec<Word<'t>> {
        let mut words = Self { text: self.text, at: self.at };
        std::iter::from_fn(|| words.next()).take(max).collect()
    }

    /// Where the next word begins; the end of the text without one.
    pub fn place(&self) -> usize {
        self.peek().map_or(self.text.len(), |word| word.at)
    }

    /// Words with commas between them: `a, b ,c`.
    pub fn list(&mut self, what: &str) -> Result<Vec<Word<'t>>, QueryError> {
        let mut found = Vec::new();
        loop {
            let word = self.want(what)?;
            let mut at = word.at;
            let mut parts = word.text.split(',').peekable();
            while let Some(part) = parts.next() {
                if !part.is_empty() {
                    found.push(Word { text: part, at });
                }
                at += part.len() + usize::from(parts.peek().is_some());
            }
            let goes_on =
                word.text.ends_with(',') || self.peek().is_some_and(|next| next.text.starts_with(','));
            if !goes_on {
                break;
            }
        }
        match found.is_empty() {
            true => Err(QueryError { message: format!("expected {what}"), offset: self.place(), length: 0 }),
            false => Ok(found),
        }
    }
}
