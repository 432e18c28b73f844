//! What a row of the list of keywords says.

use crate::buffer::RuleBuffer;
use crate::builder::{Builder, no_value};
use crate::condition::NumberRow;
use crate::fault::Fault;
use crate::numbers::NumberTest;
use crate::rule::Test;
use crate::value::Value;

/// What a keyword is about.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Group {
    /// What the rule is, and what an alert says.
    Meta,
    /// The flow, and what rules remember.
    State,
    /// Searches in buffers.
    Search,
    /// Buffers.
    Buffer,
    /// Changes of buffers before they are searched.
    Transform,
    /// Headers of packets.
    Packet,
    /// What parsers find.
    Protocol,
    /// Files.
    File,
    /// Which matches become alerts, and what is kept.
    Alert,
}

impl Group {
    /// Its name in lists.
    pub fn name(self) -> &'static str {
        match self {
            Self::Meta => "meta",
            Self::State => "state",
            Self::Search => "search",
            Self::Buffer => "buffer",
            Self::Transform => "transform",
            Self::Packet => "packet",
            Self::Protocol => "protocol",
            Self::File => "file",
            Self::Alert => "alert",
        }
    }
}

/// A keyword.
#[derive(Debug)]
pub struct Keyword {
    /// Its name.
    pub name: &'static str,
    /// Older names with this meaning.
    pub old_names: &'static [&'static str],
    /// What it is about.
    pub group: Group,
    /// One line for the manual.
    pub help: &'static str,
    /// Its value, in the form of a usage line. Empty: it has none.
    pub arguments: &'static str,
    /// Options with it that are accepted, in a rule of any protocol, for tests and the dictionary of the fuzzer.
    pub accepted: &'static [&'static str],
    /// Options with it that are refused.
    pub refused: &'static [&'static str],
    pub(crate) meaning: Meaning,
}

/// What a keyword does with the rule.
#[derive(Clone, Copy)]
pub(crate) enum Meaning {
    /// It reads its value.
    Reads(fn(&mut Builder<'_>, Value<'_>) -> Result<(), Fault>),
    /// Tests after it are about a buffer.
    Buffer(&'static RuleBuffer),
    /// The content before it is one of a buffer.
    Moves(&'static RuleBuffer),
    /// It tests a number that a parser finds.
    Number(&'static NumberRow),
    /// It changes nothing here, and a note says so.
    Ignored(&'static str),
    /// Its rules are refused for this reason.
    Refused(&'static str),
}

impl std::fmt::Debug for Meaning {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Reads(_) => "Reads",
            Self::Buffer(_) => "Buffer",
            Self::Moves(_) => "Moves",
            Self::Number(_) => "Number",
            Self::Ignored(_) => "Ignored",
            Self::Refused(_) => "Refused",
        })
    }
}

impl Keyword {
    /// Why rules with it are refused, if they are.
    pub fn refusal(&self) -> Option<&'static str> {
        match self.meaning {
            Meaning::Refused(reason) => Some(reason),
            _ => None,
        }
    }

    /// Applies the keyword with its value.
    pub(crate) fn apply(&self, builder: &mut Builder<'_>, value: Value<'_>) -> Result<(), Fault> {
        match self.meaning {
            Meaning::Reads(read) => read(builder, value),
            Meaning::Buffer(buffer) => {
                no_value(value)?;
                builder.set_buffer(buffer)
            }
            Meaning::Moves(buffer) => {
                no_value(value)?;
                builder.move_content(buffer)
            }
            Meaning::Number(row) => {
                let test = NumberTest::parse(value.unquoted(), row.greatest, row.words)?;
                builder.add_apart(&row.buffer, Test::Number(test))
            }
            Meaning::Ignored(note) => {
                builder.notes.push((builder.at, format!("`{}` is ignored: {note}", self.name)));
                Ok(())
            }
            Meaning::Refused(reason) => {
                Err(Fault::not_supported(builder.at, format!("`{}`: {reason}", self.name)))
            }
        }
    }
}

/// A keyword that reads its value.
pub(super) const fn reads(
    name: &'static str,
    group: Group,
    arguments: &'static str,
    help: &'static str,
    accepted: &'static [&'static str],
    refused: &'static [&'static str],
    read: fn(&mut Builder<'_>, Value<'_>) -> Result<(), Fault>,
) -> Keyword {
    Keyword { name, old_names: &[], group, help, arguments, accepted, refused, meaning: Meaning::Reads(read) }
}

/// The keyword of a buffer.
pub(super) fn of_buffer(buffer: &'static RuleBuffer) -> Keyword {
    Keyword {
        name: buffer.name,
        old_names: buffer.old_names,
        group: Group::Buffer,
        help: buffer.help,
        arguments: "",
        accepted: &[],
        refused: &[],
        meaning: Meaning::Buffer(buffer),
    }
}

/// The keyword that moves a content to a buffer.
pub(super) fn of_modifier(buffer: &'static RuleBuffer) -> Option<Keyword> {
    Some(Keyword {
        name: buffer.modifier?,
        old_names: &[],
        group: Group::Buffer,
        help: buffer.help,
        arguments: "",
        accepted: &[],
        refused: &[],
        meaning: Meaning::Moves(buffer),
    })
}

/// The keyword of a number.
pub(super) fn of_number(row: &'static NumberRow) -> Keyword {
    Keyword {
        name: row.buffer.name,
        old_names: row.buffer.old_names,
        group: Group::Protocol,
        help: row.buffer.help,
        arguments: "[<|>|<=|>=|!]NUMBER|FROM-TO",
        accepted: &[],
        refused: &[],
        meaning: Meaning::Number(row),
    }
}
