//! A rule while its options are read.

use crate::buffer::{Origin, PAYLOAD, RuleBuffer, Sides};
use crate::condition::Condition;
use crate::content::Content;
use crate::fault::Fault;
use crate::header::{Action, Header, Way};
use crate::judging::Judging;
use crate::numbers::NumberTest;
use crate::protocol::Selects;
use crate::rule::{BufferTests, Rule, Test};
use crate::sources::Sources;
use crate::state::{BitAction, Side};
use crate::transform::Transform;
use crate::value::Value;
use std::collections::HashSet;

/// Maximum number of tests in a rule. The state of a match and its work stay small.
pub const MAX_TESTS: usize = 1024;

/// The buffer that the next tests are about.
struct Current {
    buffer: &'static RuleBuffer,
    transforms: Vec<Transform>,
    /// Its tests so far, in the rule's buffers.
    list: Option<usize>,
    at: usize,
}

/// Where a test of the rule is.
#[derive(Clone, Copy)]
struct Position {
    list: usize,
    test: usize,
    /// In the text of the rule.
    at: usize,
}

/// A rule while its options are read.
pub(crate) struct Builder<'a> {
    pub(crate) rule: Rule,
    /// The name of the rule's file.
    pub(crate) file: &'a str,
    /// Files and lists that rules name.
    pub(crate) sources: &'a dyn Sources,
    /// Whether rules with a keyword are in force.
    pub(crate) is_in_force: fn(&str) -> bool,
    /// The place of the keyword that is read.
    pub(crate) at: usize,
    /// What an author should know about the rule: places and sentences.
    pub(crate) notes: Vec<(usize, String)>,
    current: Option<Current>,
    /// The last test that modifiers and relative tests refer to.
    last: Option<Position>,
    /// The places of literals, by their positions, for faults that show later.
    places: Vec<Position>,
    tests: usize,
    has_fast_pattern: bool,
    has_sid: bool,
}

impl<'a> Builder<'a> {
    pub(crate) fn new(
        header: Header,
        file: &'a str,
        sources: &'a dyn Sources,
        is_in_force: fn(&str) -> bool,
    ) -> Self {
        // `pass` makes an alert only by the keyword `alert`.
        let is_silent = header.action == Action::Pass;
        let rule = Rule {
            header,
            sid: 0,
            gid: 1,
            rev: 0,
            message: "".into(),
            class: None,
            priority: None,
            references: Vec::new(),
            metadata: Vec::new(),
            target: None,
            is_silent,
            flow: Default::default(),
            buffers: Vec::new(),
            conditions: Vec::new(),
            flow_bits: Vec::new(),
            flow_ints: Vec::new(),
            host_bits: Vec::new(),
            variables: Vec::new(),
            threshold: None,
            detection_filter: None,
            tags: Vec::new(),
        };
        Self {
            rule,
            file,
            sources,
            is_in_force,
            at: 0,
            notes: Vec::new(),
            current: None,
            last: None,
            places: Vec::new(),
            tests: 0,
            has_fast_pattern: false,
            has_sid: false,
        }
    }

    /// A fault at the keyword.
    pub(crate) fn wrong(&self, reason: impl Into<String>) -> Fault {
        Fault::wrong(self.at, reason)
    }

    pub(crate) fn set_sid(&mut self, sid: u32) -> Result<(), Fault> {
        if std::mem::replace(&mut self.has_sid, true) {
            return Err(self.wrong("a rule has one sid"));
        }
        self.rule.sid = sid;
        Ok(())
    }

    pub(crate) fn add_condition(&mut self, condition: Condition) -> Result<(), Fault> {
        self.rule.conditions.push(condition);
        Ok(())
    }

    /// Whether a keyword names the buffer of the tests.
    pub(crate) fn has_buffer(&self) -> bool {
        self.current.as_ref().is_some_and(|current| current.buffer != PAYLOAD)
    }

    /// Begins tests of a buffer.
    pub(crate) fn set_buffer(&mut self, buffer: &'static RuleBuffer) -> Result<(), Fault> {
        self.check_buffer_is_used()?;
        self.current = Some(Current { buffer, transforms: Vec::new(), list: None, at: self.at });
        self.last = None;
        Ok(())
    }

    /// Changes the buffer before it is searched.
    pub(crate) fn add_transform(&mut self, transform: Transform) -> Result<(), Fault> {
        let fault = self.wrong("a change of a buffer stands after the keyword of the buffer");
        let Some(current) = &mut self.current else { return Err(fault) };
        if current.list.take().is_some() {
            // The tests so far keep theirs; those that follow are of the buffer changed in another way.
            current.transforms.clear();
            self.last = None;
        }
        current.transforms.push(transform);
        Ok(())
    }

    /// A buffer that no test follows is a mistake.
    fn check_buffer_is_used(&self) -> Result<(), Fault> {
        match &self.current {
            Some(current) if current.list.is_none() && current.buffer != PAYLOAD => {
                Err(Fault::wrong(current.at, format!("no test follows the buffer {}", current.buffer.name)))
            }
            _ => Ok(()),
        }
    }

    /// The tests of a buffer: those before, unless each use of the buffer is about another value.
    fn list(&mut self, buffer: &'static RuleBuffer, transforms: &[Transform], is_new: bool) -> usize {
        let has = |list: &BufferTests| list.buffer == buffer && list.transforms == transforms;
        match self.rule.buffers.iter().position(has).filter(|_| !is_new) {
            Some(list) => list,
            None => {
                self.rule.buffers.push(BufferTests {
                    buffer,
                    transforms: transforms.to_vec(),
                    tests: Vec::new(),
                });
                self.rule.buffers.len() - 1
            }
        }
    }

    /// The tests of the current buffer.
    fn current_list(&mut self) -> usize {
        let Some(mut current) = self.current.take() else {
            return self.list(PAYLOAD, &[], false);
        };
        let is_new = current.buffer.is_multiple;
        let list = current.list.unwrap_or_else(|| self.list(current.buffer, &current.transforms, is_new));
        current.list = Some(list);
        self.current = Some(current);
        list
    }

    /// Adds a test of the current buffer.
    pub(crate) fn add_test(&mut self, test: Test) -> Result<(), Fault> {
        // In the old manner a relative test belongs to the buffer of the match before it.
        let list = match self.last {
            Some(last) if self.current.is_none() && test.is_relative() => last.list,
            _ => self.current_list(),
        };
        self.push(list, test)
    }

    /// The buffer that a keyword names for the tests, if one does.
    pub(crate) fn buffer_name(&self) -> Option<&'static str> {
        self.current.as_ref().map(|current| current.buffer.name)
    }

    /// Adds a test of a buffer that the test itself names, in the old manner.
    pub(crate) fn add_test_of(&mut self, buffer: &'static RuleBuffer, test: Test) -> Result<(), Fault> {
        if let Some(current) = &self.current
            && current.buffer != buffer
            && current.buffer != PAYLOAD
        {
            let reason = format!(
                "the test names {}, and the buffer of the rule is {}",
                buffer.name, current.buffer.name
            );
            return Err(self.wrong(reason));
        }
        if self.current.as_ref().is_some_and(|current| current.buffer == buffer) {
            return self.add_test(test);
        }
        let list = self.list(buffer, &[], false);
        self.push(list, test)
    }

    /// Adds a test of a buffer's length, wherever it stands. Relative tests and modifiers go on with the match before it.
    pub(crate) fn add_size_of(&mut self, buffer: &'static RuleBuffer, test: NumberTest) -> Result<(), Fault> {
        let list = self.list(buffer, &[], false);
        let last = self.last;
        self.push(list, Test::Size(test))?;
        self.last = last;
        Ok(())
    }

    /// Adds a test that stands for itself: no modifier and no relative test refers to it.
    pub(crate) fn add_apart(&mut self, buffer: &'static RuleBuffer, test: Test) -> Result<(), Fault> {
        self.add_all_apart(buffer, vec![test])
    }

    /// Adds tests of one value that stand for themselves.
    pub(crate) fn add_all_apart(
        &mut self,
        buffer: &'static RuleBuffer,
        tests: Vec<Test>,
    ) -> Result<(), Fault> {
        tests.iter().try_for_each(|_| self.count_test())?;
        self.rule.buffers.push(BufferTests { buffer, transforms: Vec::new(), tests });
        Ok(())
    }

    fn count_test(&mut self) -> Result<(), Fault> {
        self.tests += 1;
        match self.tests > MAX_TESTS {
            true => Err(self.wrong(format!("the rule has more than {MAX_TESTS} tests of buffers"))),
            false => Ok(()),
        }
    }

    fn push(&mut self, list: usize, test: Test) -> Result<(), Fault> {
        self.count_test()?;
        let at = self.at;
        let Some(tests) = self.rule.buffers.get_mut(list).map(|of| &mut of.tests) else { return Ok(()) };
        let position = Position { list, test: tests.len(), at };
        if matches!(test, Test::Content(_)) {
            self.places.push(position);
        }
        tests.push(test);
        self.last = Some(position);
        Ok(())
    }

    /// The literal that a modifier is about.
    pub(crate) fn content(&mut self) -> Result<&mut Content, Fault> {
        let fault = self.wrong("a modifier stands after its content");
        let last = self.places.last().copied().filter(|place| {
            // After a new buffer, its literals are not those of the one before.
            self.last.is_some_and(|last| last.list == place.list)
        });
        let test = last.and_then(|last| self.rule.buffers.get_mut(last.list)?.tests.get_mut(last.test));
        match test {
            Some(Test::Content(content)) => Ok(content),
            _ => Err(fault),
        }
    }

    /// Says that the last literal finds the rule.
    pub(crate) fn set_fast_pattern(&mut self, is: crate::content::FastPattern) -> Result<(), Fault> {
        if std::mem::replace(&mut self.has_fast_pattern, true) {
            return Err(self.wrong("a rule has one `fast_pattern`"));
        }
        self.content()?.fast_pattern = is;
        Ok(())
    }

    /// Moves the last literal from the payload to a buffer, in the old manner.
    pub(crate) fn move_content(&mut self, buffer: &'static RuleBuffer) -> Result<(), Fault> {
        if self.has_buffer() {
            return Err(
                self.wrong("the content is already one of a buffer; the modifier is of the old manner")
            );
        }
        self.content()?;
        let fault = self.wrong("a modifier stands after its content");
        let Some(place) = self.places.pop() else { return Err(fault) };
        let Some(from) = self.rule.buffers.get_mut(place.list) else { return Err(fault) };
        if from.buffer != PAYLOAD {
            let name = from.buffer.name;
            return Err(self.wrong(format!("the content is already one of {name}")));
        }
        if place.test + 1 != from.tests.len() {
            return Err(self.wrong("another test stands between the content and its modifier"));
        }
        let Some(test) = from.tests.pop() else { return Err(fault) };
        let list = self.list(buffer, &[], false);
        let at = std::mem::replace(&mut self.at, place.at);
        // It is counted already.
        self.tests -= 1;
        let moved = self.push(list, test);
        self.at = at;
        moved
    }

    /// The rule, if its options agree.
    pub(crate) fn finish(mut self) -> Result<(Rule, Vec<(usize, String)>), Fault> {
        self.check_buffer_is_used()?;
        if !self.has_sid {
            return Err(Fault::wrong(0, "the rule has no sid"));
        }
        for place in std::mem::take(&mut self.places) {
            let Some(list) = self.rule.buffers.get(place.list) else { continue };
            if let Some(Test::Content(content)) = list.tests.get(place.test) {
                content.check(place.at)?;
                check_letters(list.buffer, content, place.at)?;
                check_size(list, content, place.at)?;
                let is_of_stream =
                    matches!(self.rule.header.protocol.selects, Selects::Tcp { streams: true, .. })
                        && list.buffer.origin == Origin::Payload;
                if is_of_stream && !content.is_negated && content.bytes.len() > MAX_IN_STREAM {
                    self.notes.push((place.at, note_of_windows(content.bytes.len())));
                }
            }
        }
        self.rule.buffers.retain(|list| !list.tests.is_empty());
        self.check_protocols()?;
        self.check_sides()?;
        self.check_bits()?;
        self.note_what_never_matches();
        Ok((self.rule, self.notes))
    }

    /// The protocols of the header and of buffers must have one in common.
    fn check_protocols(&self) -> Result<(), Fault> {
        let mut are: Option<(Vec<&str>, &str)> = match self.rule.header.protocol.selects {
            Selects::Application(name) => Some((vec![name], self.rule.header.protocol.name)),
            _ => None,
        };
        let of_buffers = self.rule.buffers.iter().map(|list| (list.buffer.protocols, list.buffer.name));
        for (protocols, name) in of_buffers.filter(|(protocols, _)| !protocols.is_empty()) {
            are = Some(match are {
                None => (protocols.to_vec(), name),
                Some((before, by)) => {
                    let both: Vec<&str> =
                        before.into_iter().filter(|name| protocols.contains(name)).collect();
                    if both.is_empty() {
                        return Err(Fault::wrong(
                            0,
                            format!("no flow has both {by} and {name}; the rule could never match"),
                        ));
                    }
                    (both, name)
                }
            });
        }
        Ok(())
    }

    /// A rule of one direction has no buffer of the other one.
    fn check_sides(&self) -> Result<(), Fault> {
        if self.rule.header.way == Way::Transaction {
            return Ok(());
        }
        let of = |sides: Sides| self.rule.buffers.iter().find(|list| list.buffer.sides == sides);
        let other = match self.rule.flow.side {
            Some(Side::ToServer) => {
                of(Sides::ToClient).map(|list| (list.buffer.name, "servers", "to_server"))
            }
            Some(Side::ToClient) => {
                of(Sides::ToServer).map(|list| (list.buffer.name, "clients", "to_client"))
            }
            None => None,
        };
        match other {
            Some((name, sender, flow)) => Err(Fault::wrong(
                0,
                format!("{name} is what {sender} send; the rule could never match with flow:{flow}"),
            )),
            None => Ok(()),
        }
    }

    /// A bit cannot be set and clear.
    fn check_bits(&self) -> Result<(), Fault> {
        let with = |action: BitAction| {
            let bits = self.rule.flow_bits.iter().filter(move |bits| bits.action == action);
            bits.filter_map(|bits| if let [name] = bits.names.as_slice() { Some(name) } else { None })
        };
        let clear: HashSet<&Box<str>> = with(BitAction::IsNotSet).collect();
        let is_both = with(BitAction::IsSet).find(|name| clear.contains(name));
        match is_both {
            Some(name) => Err(Fault::wrong(
                0,
                format!("the bit {name} must be set and clear; the rule could never match"),
            )),
            None => Ok(()),
        }
    }

    /// Says where payload tests cannot be met.
    fn note_what_never_matches(&mut self) {
        let has_payload = self.rule.buffers.iter().any(|list| list.buffer.origin == Origin::Payload);
        let none = |condition: &Condition| matches!(condition, Condition::PayloadSize(test) if !(1..=65_535).any(|size| test.passes(size)));
        if has_payload && self.rule.conditions.iter().any(none) {
            self.notes.push((
                0,
                "dsize allows no payload, and the rule searches it; it can never match".to_owned(),
            ));
        }
    }
}

/// The longest content that lies in a window of a stream and the bytes before it wherever it begins, by default.
const MAX_IN_STREAM: usize = Judging::WINDOW + 1;

fn note_of_windows(length: usize) -> String {
    format!(
        "the content has {length} bytes; a stream is looked at in windows of {} bytes with as many before them, and a content \
         of more than {MAX_IN_STREAM} bytes may be in none of them",
        Judging::WINDOW
    )
}

/// Letters of a buffer in lower case.
fn check_letters(buffer: &RuleBuffer, content: &Content, at: usize) -> Result<(), Fault> {
    if buffer.is_lower && !content.ignores_case && content.bytes.iter().any(u8::is_ascii_uppercase) {
        return Err(Fault::wrong(
            at,
            format!("{} is in lower case; a content with upper case letters never matches", buffer.name),
        ));
    }
    Ok(())
}

/// A literal that is longer than its buffer may be.
fn check_size(list: &BufferTests, content: &Content, at: usize) -> Result<(), Fault> {
    let sizes = list.tests.iter().filter_map(|test| match test {
        Test::Size(size) => Some(*size),
        _ => None,
    });
    for size in sizes {
        let least = content.bytes.len() as u64;
        let can_hold = match size {
            NumberTest::Is(size) | NumberTest::AtMost(size) => size >= least,
            NumberTest::Below(size) | NumberTest::Between(_, size) => size > least,
            _ => true,
        };
        if !can_hold && !content.is_negated {
            return Err(Fault::wrong(
                at,
                format!("the content has {least} bytes, more than bsize or urilen allow"),
            ));
        }
    }
    Ok(())
}

/// What a keyword that takes no value was given.
pub(crate) fn no_value(value: Value<'_>) -> Result<(), Fault> {
    match value.is_empty() {
        true => Ok(()),
        false => Err(value.wrong("the keyword takes no value")),
    }
}
