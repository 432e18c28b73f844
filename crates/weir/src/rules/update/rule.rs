//! A rule as its text: what can be known of it although Weir may refuse it.

use std::sync::Arc;
use weir_detect::{Action, MAX_RULE_BYTES, option_texts};
use weir_output::figures::fit;

/// Maximum length of a word or line in a message.
const MAX_SHOWN: usize = 60;

/// A rule of the set.
#[derive(Clone, Debug)]
pub struct MergedRule {
    /// The group of its number, 1 unless stated.
    pub gid: u32,
    /// Its number.
    pub sid: u32,
    /// Its revision, 0 unless stated.
    pub revision: u32,
    /// Its text in one line, without the `#` of one that is switched off.
    pub text: Vec<u8>,
    /// Whether it is switched on.
    pub is_on: bool,
    /// The file that it comes from.
    pub file: Arc<str>,
}

impl MergedRule {
    /// Reads what a text must have: an action, options and a sid.
    ///
    /// # Errors
    /// Why the text is no rule.
    pub fn new(text: &[u8], is_on: bool, file: &Arc<str>) -> Result<Self, String> {
        let text = text.trim_ascii();
        if text.len() > MAX_RULE_BYTES {
            return Err(format!("the rule has {} bytes; at most {MAX_RULE_BYTES} are read", text.len()));
        }
        let action = text.split(u8::is_ascii_whitespace).next().unwrap_or_default();
        if Action::named(action).is_none() {
            let word = beginning(&String::from_utf8_lossy(action));
            return Err(format!("`{word}` is not an action"));
        }
        let options = option_texts(text).ok_or("the options do not end with `;` and `)`")?;
        let number = |name: &[u8]| {
            let value = options.iter().find(|(key, _)| *key == name)?.1;
            std::str::from_utf8(value).ok()?.parse::<u32>().ok()
        };
        let sid = number(b"sid").ok_or("the rule has no sid")?;
        let (gid, revision) = (number(b"gid").unwrap_or(1), number(b"rev").unwrap_or(0));
        Ok(Self { gid, sid, revision, text: text.to_vec(), is_on, file: Arc::clone(file) })
    }

    /// Gid and sid.
    pub fn number(&self) -> (u32, u32) {
        (self.gid, self.sid)
    }

    /// What an alert says, with its escapes.
    pub fn message(&self) -> String {
        let message = self.values(b"msg").next().unwrap_or_default();
        String::from_utf8_lossy(
            message.strip_prefix(b"\"").unwrap_or(&message).strip_suffix(b"\"").unwrap_or(&message),
        )
        .into_owned()
    }

    /// Its pairs of metadata, in lower case.
    pub fn metadata(&self) -> impl Iterator<Item = (String, String)> {
        self.values(b"metadata").flat_map(|value| {
            let value = String::from_utf8_lossy(&value).to_lowercase();
            let pair = |pair: &str| {
                pair.trim().split_once(' ').map(|(key, value)| (key.to_owned(), value.trim().to_owned()))
            };
            value.split(',').filter_map(pair).collect::<Vec<_>>()
        })
    }

    /// The values of an option.
    fn values(&self, name: &'static [u8]) -> impl Iterator<Item = Vec<u8>> {
        let options = option_texts(&self.text).unwrap_or_default();
        let values: Vec<_> =
            options.iter().filter(|(key, _)| *key == name).map(|(_, value)| value.to_vec()).collect();
        values.into_iter()
    }

    /// The flowbits of which it does one of these actions.
    pub fn bits(&self, actions: &[&str]) -> Vec<String> {
        let of_value = |value: Vec<u8>| {
            let value = String::from_utf8_lossy(&value).into_owned();
            let mut parts = value.split(',').map(str::trim);
            let is_meant = parts.next().is_some_and(|action| actions.contains(&action));
            let names = parts.next().filter(|_| is_meant).unwrap_or_default();
            names
                .split('|')
                .map(|name| name.trim().to_owned())
                .filter(|name| !name.is_empty())
                .collect::<Vec<_>>()
        };
        self.values(b"flowbits").flat_map(of_value).collect()
    }

    /// Whether its matches make no alert.
    pub fn is_silent(&self) -> bool {
        self.values(b"noalert").next().is_some() || self.values(b"flowbits").any(|value| value == b"noalert")
    }

    /// Makes no alert of its matches.
    pub fn silence(&mut self) {
        if let Some(options) = self.text.strip_suffix(b")").filter(|_| !self.is_silent()) {
            self.text = [options, b" noalert;)"].concat();
        }
    }

    /// Whether it is like another one: revision, text and switch.
    pub fn is_like(&self, other: &Self) -> bool {
        (self.revision, &self.text, self.is_on) == (other.revision, &other.text, other.is_on)
    }
}

/// The beginning of a word or line, for a message.
pub fn beginning(text: &str) -> String {
    fit(text, MAX_SHOWN)
}
