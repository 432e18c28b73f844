//! The functions of subscriptions, and their registry.
//!
//! To add one: a file here with a [`FunctionSpec`], and a line in [`FUNCTIONS`]. The configuration, `explain` and the
//! manual page read that static.

mod arguments;
mod cast;
mod classes;
mod count;
mod distinct;
mod distribution;
mod ends;
mod ipproto;
mod iprange;
pub(crate) mod keyed;
mod rate;
mod scans;
mod size;
mod tcp3;
mod top;

pub use arguments::Arguments;
pub use ends::Share;

use crate::Item;
use weir_api::{FunctionCall, Level, Reading};
use weir_wire::Slot;

/// Every function, in the order of the manual.
pub static FUNCTIONS: &[&FunctionSpec] = &[
    &count::PACKETS,
    &count::BYTES,
    &top::TOP,
    &distinct::DISTINCT,
    &cast::CAST,
    &size::SIZE,
    &ipproto::IPPROTO,
    &tcp3::TCP3,
    &iprange::IPRANGE,
    &rate::RATE,
    &distribution::DISTRIBUTION,
    &scans::SCANS,
];

/// Description of a function.
#[derive(Debug)]
pub struct FunctionSpec {
    /// Its name in the configuration and in readings.
    pub name: &'static str,
    /// One line for the manual.
    pub help: &'static str,
    /// Its arguments.
    pub arguments: &'static [Argument],
    /// The levels at which it makes sense.
    pub levels: &'static [Level],
    /// Its input at packet level.
    pub input: InputKind,
    /// Builds one for a worker; the error names what would be accepted.
    pub build: fn(&Arguments<'_>) -> Result<Box<dyn Function>, String>,
}

/// An argument of a function.
#[derive(Debug)]
pub struct Argument {
    /// Its name.
    pub name: &'static str,
    /// Meaning and accepted values.
    pub help: &'static str,
    /// The default; `None` if the argument is required.
    pub default: Option<&'static str>,
}

/// The input of a function at packet level.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum InputKind {
    /// Only the number of packets and bytes: the reading is their [`weir_api::Count`], from any counter.
    Sums,
    /// Each packet's time and length; its layers are not looked at.
    Lengths,
    /// Each packet.
    Packets,
    /// The sums of flows when that gives the same answer (the subscription covers whole flows), else packets.
    Tallies,
}

/// Looks at each item, keeps or drops it, and adds up a reading.
pub trait Function: Send {
    /// Takes an item.
    fn item(&mut self, item: &Item<'_>) -> Pass;
    /// Takes packets as [`Function::item`] takes each of them, keeping all; `false` where it takes only one at a time,
    /// so that nothing was done.
    fn slots(&mut self, slots: &[Slot]) -> bool {
        let _ = slots;
        false
    }
    /// Takes tallies in the form that the lists of a worker share.
    fn shares(&mut self, shares: &[Share]) -> bool {
        let _ = shares;
        false
    }
    /// Hands over the reading since the last call and begins anew.
    fn take(&mut self) -> Reading;
    /// Bytes that it takes, and bytes that a reading of it takes at most.
    fn memory(&self) -> (usize, usize) {
        (256, 256)
    }
}

/// Whether the functions after this one see the item.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Pass {
    /// They do.
    Keep,
    /// They do not.
    Drop,
}

impl FunctionSpec {
    /// The function of that name; the error names the nearest one.
    pub fn find(name: &str) -> Result<&'static FunctionSpec, String> {
        FUNCTIONS.iter().find(|spec| spec.name == name).copied().ok_or_else(|| {
            let names: Vec<&str> = FUNCTIONS.iter().map(|spec| spec.name).collect();
            format!("no function `{name}`; there are {}", names.join(", "))
        })
    }

    /// Builds the function that a call asks for, with the arguments checked. `seed` keys its hashes.
    pub fn call(&self, call: &FunctionCall, seed: u64) -> Result<Box<dyn Function>, String> {
        for (name, _) in &call.arguments {
            if !self.arguments.iter().any(|argument| argument.name == name) {
                let names: Vec<&str> = self.arguments.iter().map(|argument| argument.name).collect();
                return Err(match names.as_slice() {
                    [] => format!("`{}` takes no arguments, `{name}` was given", self.name),
                    names => format!("`{}` has no argument `{name}`; it has {}", self.name, names.join(", ")),
                });
            }
        }
        (self.build)(&Arguments::new(self, call, seed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_unique_and_plain_and_explained() {
        let mut names = BTreeSet::new();
        for spec in FUNCTIONS {
            assert!(spec.name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit()), "{}", spec.name);
            assert!(names.insert(spec.name), "{} twice", spec.name);
            assert!(spec.help.ends_with('.'), "{}", spec.name);
            assert!(!spec.levels.is_empty(), "{}", spec.name);
            for argument in spec.arguments {
                assert!(argument.help.ends_with('.'), "{} {}", spec.name, argument.name);
            }
        }
    }

    #[test]
    fn every_function_builds_with_its_defaults_or_says_what_it_needs() {
        for spec in FUNCTIONS {
            let needed = spec.arguments.iter().any(|argument| argument.default.is_none());
            let built = spec.call(&FunctionCall::new(spec.name), 1);
            assert_eq!(built.is_err(), needed, "{}", spec.name);
        }
    }

    /// Taking twice gives an empty reading the second time, and an empty reading changes nothing in a merge.
    #[test]
    fn an_empty_reading_is_neutral() {
        for spec in FUNCTIONS {
            let mut call = FunctionCall::new(spec.name);
            for argument in spec.arguments.iter().filter(|argument| argument.default.is_none()) {
                let value = if argument.name.starts_with("net") { "10.0.0.0/8" } else { "80" };
                call = call.with(argument.name, value);
            }
            let mut function = spec.call(&call, 1).unwrap();
            let mut reading = function.take();
            let empty = function.take();
            reading.merge(&empty);
            assert_eq!(reading, empty, "{}", spec.name);
        }
    }

    #[test]
    fn a_wrong_argument_is_named() {
        let spec = FunctionSpec::find("top").unwrap();
        let error = spec.call(&FunctionCall::new("top").with("of", "source"), 1).err().unwrap();
        assert!(error.contains("no argument `of`") && error.contains("by"), "{error}");
        let error = spec.call(&FunctionCall::new("top").with("by", "colour"), 1).err().unwrap();
        assert!(error.contains("colour") && error.contains("source"), "{error}");
    }
}
