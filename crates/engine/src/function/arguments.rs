//! The checked arguments of a call.

use super::FunctionSpec;
use std::fmt::Display;
use std::str::FromStr;
use weir_api::FunctionCall;

/// The arguments of one call: those given by the user, and defaults for the others.
#[derive(Debug)]
pub struct Arguments<'a> {
    spec: &'a FunctionSpec,
    call: &'a FunctionCall,
    /// Seed of the function's hashes.
    pub seed: u64,
}

impl<'a> Arguments<'a> {
    pub(super) fn new(spec: &'a FunctionSpec, call: &'a FunctionCall, seed: u64) -> Self {
        Self { spec, call, seed }
    }

    /// The text of an argument.
    pub fn text(&self, name: &str) -> Result<&'a str, String> {
        let given = self.call.arguments.iter().rev().find(|(given, _)| given == name);
        if let Some((_, value)) = given {
            return Ok(value);
        }
        let argument = self.spec.arguments.iter().find(|argument| argument.name == name);
        argument
            .and_then(|argument| argument.default)
            .ok_or_else(|| format!("`{}` needs the argument `{name}`", self.spec.name))
    }

    /// An argument read as a number or another type with a text form.
    pub fn parse<T: FromStr>(&self, name: &str) -> Result<T, String>
    where
        T::Err: Display,
    {
        let text = self.text(name)?;
        text.parse().map_err(|error| format!("`{}`: {name} = `{text}`: {error}", self.spec.name))
    }

    /// An argument whose value is one of a few words.
    pub fn choice<T: Copy>(&self, name: &str, choices: &[(&str, T)]) -> Result<T, String> {
        let text = self.text(name)?;
        choices.iter().find(|(word, _)| *word == text).map(|(_, value)| *value).ok_or_else(|| {
            let words: Vec<&str> = choices.iter().map(|(word, _)| *word).collect();
            format!("`{}`: {name} = `{text}` is none of {}", self.spec.name, words.join(", "))
        })
    }
}
