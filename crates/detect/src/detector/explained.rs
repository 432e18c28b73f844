//! How a rule of a program is found: for those who write rules.

use super::about::About;
use super::handle::handle;
use super::part::{Part, ProgramRule};
use super::prepared::Source;
use super::program::Program;
use crate::content::FastPattern;
use crate::finder::Place;
use crate::rule::Test;
use weir_wire::Direction;

/// A part of a rule, and what finds it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Explained<'p> {
    /// What it is about, in words: `packets`, `streams`, `messages of the client`, `messages of the server`, `messages of either side`
    /// or `events`.
    pub about: &'static str,
    /// The names of the buffers that are tested, in their order.
    pub buffers: Vec<&'static str>,
    /// The literal that is searched for, if there is one. What has none is verified wherever its buffers are.
    pub literal: Option<FoundBy<'p>>,
    /// Where the literal is searched for, or where the part is verified, each in words.
    pub places: Vec<String>,
}

/// A literal that finds a part.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct FoundBy<'p> {
    /// The buffer that it is in.
    pub buffer: &'static str,
    /// Its bytes.
    pub bytes: &'p [u8],
    /// Whether letters match in either case.
    pub ignores_case: bool,
    /// Where it may be: `anywhere`, `in the first 64 bytes`, `at the beginning` or `at the end`.
    pub place: &'static str,
    /// Why it and no other: `fast_pattern`, or `the rarest one`.
    pub why: &'static str,
}

impl Program {
    /// How a rule is found, part by part.
    pub fn explain(&self, rule: &ProgramRule) -> Vec<Explained<'_>> {
        let is_it = |known: &&ProgramRule| std::ptr::eq(known.rule(), rule.rule());
        let Some(number) = self.rules.iter().position(|known| is_it(&known)) else { return Vec::new() };
        let numbered = self.parts.iter().filter(|part| part.rule as usize == number);
        let known = self.rules.get(number).into_iter().flat_map(|known| {
            numbered
                .clone()
                .zip(&known.prepared.parts)
                .map(move |(part, prepared)| (known, part, &*prepared.sources))
        });
        known.map(|(known, part, sources)| explained(known, part, sources)).collect()
    }
}

fn explained<'p>(known: &'p ProgramRule, part: &'p Part, sources: &[Source]) -> Explained<'p> {
    let rule = known.rule();
    let found = part.literal.and_then(|at| handle(rule, at));
    let literal = found.map(|found| {
        let is_marked = found.of.tests.iter().any(|test| match test {
            Test::Content(content) => content.fast_pattern != FastPattern::Unsaid,
            _ => false,
        });
        FoundBy {
            buffer: found.of.buffer.name,
            bytes: found.literal.bytes,
            ignores_case: found.literal.ignores_case,
            place: match found.place {
                Place::Anywhere => "anywhere",
                Place::NearStart => "in the first 64 bytes",
                Place::Start => "at the beginning",
                Place::End => "at the end",
            },
            why: if is_marked { "fast_pattern" } else { "the rarest one" },
        }
    });
    let tests = part.tests.iter().filter_map(|at| rule.buffers.get(usize::from(*at)));
    Explained {
        about: match part.about {
            About::Packet => "packets",
            About::Stream => "streams",
            About::Messages(Some(Direction::Forward)) => "messages of the client",
            About::Messages(Some(Direction::Reverse)) => "messages of the server",
            About::Messages(None) => "messages of either side",
            About::Event => "events",
        },
        buffers: tests.map(|of| of.buffer.name).collect(),
        literal,
        places: sources.iter().map(place).collect(),
    }
}

fn place(source: &Source) -> String {
    let side = |direction: &Direction| match direction {
        Direction::Forward => "the client",
        Direction::Reverse => "the server",
    };
    match source {
        Source::Packets(6, from) => format!("payload of TCP from {}", side(from)),
        Source::Packets(17, from) => format!("payload of UDP from {}", side(from)),
        Source::Packets(1, from) => format!("payload of ICMP from {}", side(from)),
        Source::Packets(_, from) => format!("payload of other protocols from {}", side(from)),
        Source::Streams(from) => format!("streams from {}", side(from)),
        Source::Buffer(name, from) => format!("{name} of {}", side(from)),
    }
}
