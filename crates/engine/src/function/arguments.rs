//! The checked arguments of a call.

use super::Argument;
use crate::Seeds;
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;
use weir_api::FunctionCall;

/// The arguments of one call: those given by the user, and defaults for the others.
#[derive(Debug)]
pub struct Arguments<'a> {
    function: &'static str,
    arguments: &'static [Argument],
    call: &'a FunctionCall,
    /// Keys of the function's hashes.
    pub seeds: Seeds,
}

impl<'a> Arguments<'a> {
    /// The arguments of a call of a function with these arguments.
    ///
    /// # Errors
    /// The call has an argument that the function has not, or two values of one.
    pub(super) fn new(
        function: &'static str,
        arguments: &'static [Argument],
        call: &'a FunctionCall,
        seeds: Seeds,
    ) -> Result<Self, String> {
        for (at, (name, value)) in call.arguments.iter().enumerate() {
            let before = call.arguments.iter().take(at).find(|(before, _)| before == name);
            if let Some((_, other)) = before.filter(|(_, other)| other != value) {
                return Err(format!(
                    "`{function}` has two values of `{name}`, {other} and {value}: give one"
                ));
            }
            if !arguments.iter().any(|argument| argument.name == name) {
                let names: Vec<&str> = arguments.iter().map(|argument| argument.name).collect();
                return Err(match names.as_slice() {
                    [] => format!("`{function}` takes no arguments, but `{name}` was given"),
                    names => format!("`{function}` has no argument `{name}`; it has {}", names.join(", ")),
                });
            }
        }
        Ok(Self { function, arguments, call, seeds })
    }

    /// Whether the call has the argument.
    pub fn is_given(&self, name: &str) -> bool {
        self.call.arguments.iter().any(|(given, _)| given == name)
    }

    /// The text of an argument.
    pub fn text(&self, name: &str) -> Result<&'a str, String> {
        let given = self.call.arguments.iter().rev().find(|(given, _)| given == name);
        if let Some((_, value)) = given {
            return Ok(value);
        }
        let argument = self.arguments.iter().find(|argument| argument.name == name);
        argument
            .and_then(|argument| argument.default)
            .ok_or_else(|| format!("`{}` needs the argument `{name}`", self.function))
    }

    /// An argument that names something of the user's.
    pub fn name(&self, name: &str) -> Result<&'a str, String> {
        let text = self.text(name)?;
        if !is_name(text) {
            let function = self.function;
            return Err(format!(
                "`{function}`: {name} = `{text}` is not 1 to 64 letters, digits, hyphens and underscores"
            ));
        }
        Ok(text)
    }

    /// An argument read as a number or another type with a text form.
    pub fn parse<T: FromStr>(&self, name: &str) -> Result<T, String>
    where
        T::Err: Display,
    {
        let text = self.text(name)?;
        text.parse().map_err(|error| format!("`{}`: {name} = `{text}`: {error}", self.function))
    }

    /// An argument that is a number of a range.
    pub fn within<T: Copy + Display + FromStr + PartialOrd>(
        &self,
        name: &str,
        range: RangeInclusive<T>,
    ) -> Result<T, String>
    where
        T::Err: Display,
    {
        let (function, value) = (self.function, self.parse(name)?);
        match range.contains(&value) {
            true => Ok(value),
            false => Err(format!(
                "`{function}`: {name} = {value} is not between {} and {}",
                range.start(),
                range.end()
            )),
        }
    }

    /// An argument that is a number of bytes: `500`, `64K`, `10M` or `1G`, whose units are powers of 1,024.
    pub fn bytes(&self, name: &str) -> Result<u64, String> {
        let text = self.text(name)?;
        size(text).ok_or_else(|| {
            format!("`{}`: {name} = `{text}` is no size, such as 64K, 10M or 1G", self.function)
        })
    }

    /// An argument whose value is one of a few words.
    pub fn choice<T: Copy>(&self, name: &str, choices: &[(&str, T)]) -> Result<T, String> {
        let text = self.text(name)?;
        choices.iter().find(|(word, _)| *word == text).map(|(_, value)| *value).ok_or_else(|| {
            let words: Vec<&str> = choices.iter().map(|(word, _)| *word).collect();
            format!("`{}`: {name} = `{text}` is none of {}", self.function, words.join(", "))
        })
    }
}

/// Whether a text can name something of the user's: 1 to 64 letters, digits, hyphens and underscores.
pub(super) fn is_name(text: &str) -> bool {
    let is_letter = |letter: u8| letter.is_ascii_alphanumeric() || matches!(letter, b'-' | b'_');
    (1..=64).contains(&text.len()) && text.bytes().all(is_letter)
}

/// A number of bytes: `500`, `64K`, `10M` or `1G`, whose units are powers of 1,024. Not 0.
pub(super) fn size(text: &str) -> Option<u64> {
    let unit = |unit: char, shift: u32| Some((text.strip_suffix(unit)?, shift));
    let (digits, shift) =
        unit('K', 10).or_else(|| unit('M', 20)).or_else(|| unit('G', 30)).unwrap_or((text, 0));
    let number = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(1 << shift));
    number.filter(|bytes| *bytes > 0)
}
