//! Whether the tests of a buffer hold: in order, with other places for a match where a relative test fails after it.
//!
//! The order of work is that of Suricata: each literal and expression is tried at its first place; if what
//! counts from there fails, at the next one. A limit on the steps ends a search that does not; it is counted by the caller.

use crate::content::{Amount, Content};
use crate::numeric::{
    Arithmetic, ByteExtract, ByteJump, ByteMath, ByteTest, Form, IsDataAt, JumpFrom, Operator, Read,
};
use crate::pattern::{Found, Pattern};
use crate::rule::{BufferTests, Test};
use crate::state::{Dataset, DatasetKind};
use crate::transform::Transform;

/// Maximum number of steps for the tests of a buffer, Suricata's limit.
pub const MAX_STEPS: u32 = 3_000;

/// Whether tests hold.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Verdict {
    /// They hold.
    Yes,
    /// They do not.
    No,
    /// A limit ended the work: they are taken as not holding.
    GaveUp,
}

/// Places at which a literal or expression does not begin: from the first one to before the second one.
#[derive(Clone, Copy, Debug, Default)]
struct Clear {
    from: usize,
    to: usize,
}

/// A test whose literal or expression is searched for, by how many tests are left with it. It is searched for anew after each place of
/// the test before it, and again after each place of its own: what is known of either is kept apart.
#[derive(Clone, Copy, Debug)]
struct Searched {
    left: usize,
    is_again: bool,
}

impl Searched {
    fn place(self) -> usize {
        2 * self.left + usize::from(self.is_again)
    }
}

/// What the tests of a rule share while it is verified.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    /// The variables that `byte_extract` and `byte_math` set.
    variables: Vec<u64>,
    /// What `base64_decode` decoded last.
    decoded: Vec<u8>,
    steps: u32,
    /// Bytes that were searched for literals and expressions.
    searched: u64,
    /// What is known of literals and expressions that were searched for in the buffer, two for each test.
    clear: Vec<Clear>,
    /// The fewest tests that were left when one failed.
    left: usize,
    /// How many tests there are.
    of: usize,
    /// Whether numbers of DCE/RPC have their least significant byte first.
    is_little: bool,
}

impl Memory {
    /// Begins a rule with this number of variables.
    pub fn begin(&mut self, variables: usize) {
        self.variables.clear();
        self.variables.resize(variables, 0);
        self.decoded.clear();
        self.is_little = false;
    }

    /// The position of the last test that was reached in the buffer that was verified last.
    pub fn furthest(&self) -> usize {
        self.of.saturating_sub(self.left)
    }

    /// The tests that were tried in the buffer that was verified last, each at each place.
    pub fn steps(&self) -> u32 {
        self.steps
    }

    /// The bytes that were searched for literals and expressions in the buffer that was verified last.
    pub fn searched(&self) -> u64 {
        self.searched
    }

    /// Says whether numbers of DCE/RPC have their least significant byte first, until another rule begins.
    pub(crate) fn set_order(&mut self, is_little: bool) {
        self.is_little = is_little;
    }

    /// Begins a buffer with this number of tests, in which nothing was searched for.
    fn begin_buffer(&mut self, tests: usize) {
        self.clear.clear();
        self.clear.resize(2 * (tests + 1), Clear::default());
    }

    /// Where a search from a place need begin.
    fn begins(&self, searched: Searched, from: usize) -> usize {
        match self.clear.get(searched.place()) {
            Some(clear) if (clear.from..=clear.to).contains(&from) => clear.to,
            _ => from,
        }
    }

    /// Takes note that what is searched for does not begin between a place and another one.
    fn is_clear(&mut self, searched: Searched, from: usize, to: usize) {
        if let Some(clear) = self.clear.get_mut(searched.place()) {
            let is_longer = (clear.from..=clear.to).contains(&from);
            *clear = Clear { from: if is_longer { clear.from } else { from }, to: to.max(from) };
        }
    }

    /// A number in a rule. A variable beyond 63 bits is the greatest number.
    fn amount(&self, amount: Amount) -> i64 {
        match amount {
            Amount::Is(is) => is,
            Amount::Variable(position) => {
                let value = self.variables.get(position).copied().unwrap_or_default();
                i64::try_from(value).unwrap_or(i64::MAX)
            }
        }
    }

    fn set(&mut self, position: usize, value: u64) {
        if let Some(variable) = self.variables.get_mut(position) {
            *variable = value;
        }
    }
}

/// Whether the tests hold for the bytes of their buffer, after its changes.
///
/// `base64_data` are the tests of what `base64_decode` decodes.
pub fn verify(
    of: &BufferTests,
    bytes: &[u8],
    base64_data: Option<&BufferTests>,
    memory: &mut Memory,
) -> Verdict {
    (memory.steps, memory.searched) = (0, 0);
    memory.begin_buffer(of.tests.len());
    (memory.left, memory.of) = (of.tests.len(), of.tests.len());
    Search { bytes, base64_data, memory }.holds(&of.tests, 0)
}

/// A search in a buffer.
struct Search<'a> {
    bytes: &'a [u8],
    base64_data: Option<&'a BufferTests>,
    memory: &'a mut Memory,
}

impl Search<'_> {
    /// Whether tests hold, `last` being the end of the match before them.
    fn holds(&mut self, tests: &[Test], mut last: usize) -> Verdict {
        let mut rest = tests;
        while let [test, after @ ..] = rest {
            self.memory.steps += 1;
            if self.memory.steps > MAX_STEPS {
                return Verdict::GaveUp;
            }
            self.memory.left = self.memory.left.min(rest.len());
            let is_tried_again = after.iter().take_while(|next| !ends_a_chain(next)).any(Test::is_relative);
            let mut searched = Searched { left: rest.len(), is_again: false };
            match test {
                Test::Content(content) if content.is_negated => {
                    if self.has_content(content, last, searched) {
                        return Verdict::No;
                    }
                }
                Test::Content(content) => {
                    let Some((mut from, to)) = self.window(content, last) else { return Verdict::No };
                    loop {
                        let Some(at) = self.find_content(content, (from, to), searched) else {
                            return Verdict::No;
                        };
                        let end = at + content.bytes.len();
                        if !is_tried_again {
                            last = end;
                            break;
                        }
                        match self.holds(after, end) {
                            Verdict::No => from = at + 1,
                            verdict => return verdict,
                        }
                        searched.is_again = true;
                    }
                }
                Test::Pattern(pattern) => match self.pattern(pattern, after, last, is_tried_again) {
                    Ok(end) => last = end,
                    Err(verdict) => return verdict,
                },
                Test::ByteJump(jump) => match self.jump(jump, last) {
                    Some(to) => last = to,
                    None => return Verdict::No,
                },
                // As in Suricata, what follows counts from the end of the number.
                Test::ByteExtract(extract) => match self.extract(extract, last) {
                    Some(end) => last = end,
                    None => return Verdict::No,
                },
                Test::ByteMath(math) => match self.math(math, last) {
                    Some(end) => last = end,
                    None => return Verdict::No,
                },
                Test::Base64 { how, is_relative } => {
                    let from = if *is_relative { last } else { 0 } + how.offset as usize;
                    let Some(bytes) = self.bytes.get(from..) else { return Verdict::No };
                    self.memory.decoded.clear();
                    crate::transform::decode_base64(bytes, how, &mut self.memory.decoded);
                    match self.decoded_holds() {
                        Verdict::Yes => {}
                        verdict => return verdict,
                    }
                }
                other => {
                    if !self.holds_here(other, last) {
                        return Verdict::No;
                    }
                }
            }
            rest = after;
        }
        Verdict::Yes
    }

    /// The number of a buffer of numbers.
    fn number(&self) -> Option<u64> {
        <[u8; 8]>::try_from(self.bytes).ok().map(u64::from_be_bytes)
    }

    /// A test that moves nothing.
    fn holds_here(&mut self, test: &Test, last: usize) -> bool {
        match test {
            Test::IsDataAt(test) => self.is_data_at(test, last),
            Test::ByteTest(test) => self.byte_test(test, last),
            Test::Size(size) => size.passes(self.bytes.len() as u64),
            Test::Number(test) => self.number().is_some_and(|number| test.passes(number)),
            Test::AnyOf(numbers) => self
                .number()
                .and_then(|number| u16::try_from(number).ok())
                .is_some_and(|number| numbers.has(number)),
            Test::Entropy(test) => test.passes(self.bytes),
            Test::TlsVersion(versions) => self.number().is_some_and(|number| {
                versions.iter().any(|(version, is_negated)| (u64::from(version.0) == number) != *is_negated)
            }),
            Test::TlsState(states) => self.number().is_some_and(|number| {
                states.iter().any(|(state, is_negated)| (state.message() == Some(number)) != *is_negated)
            }),
            Test::Asn1(asn1) => {
                let from = if asn1.is_relative { last as i64 } else { 0 } + asn1.offset;
                usize::try_from(from)
                    .ok()
                    .and_then(|from| self.bytes.get(from..))
                    .is_some_and(|bytes| crate::asn1::is_odd(bytes, asn1))
            }
            Test::Dataset(set) => is_in(set, self.bytes) != set.is_negated,
            Test::Datarep { set, .. } => is_in(set, self.bytes),
            // The buffer is there.
            Test::Absent { or_else } => *or_else,
            Test::Content(_)
            | Test::Pattern(_)
            | Test::ByteJump(_)
            | Test::ByteExtract(_)
            | Test::ByteMath(_)
            | Test::Base64 { .. } => false,
        }
    }

    /// An expression: the end of its match where what follows need not be tried again, or the verdict of the whole.
    fn pattern(
        &mut self,
        pattern: &Pattern,
        after: &[Test],
        last: usize,
        is_tried_again: bool,
    ) -> Result<usize, Verdict> {
        let mut from = if pattern.is_relative { last } else { 0 };
        if from > self.bytes.len() {
            return if pattern.is_negated { Ok(last) } else { Err(Verdict::No) };
        }
        let mut searched = Searched { left: after.len() + 1, is_again: false };
        loop {
            match self.find_pattern(pattern, from, searched) {
                Found::GaveUp => return Err(Verdict::GaveUp),
                Found::No if pattern.is_negated => return Ok(last),
                Found::No => return Err(Verdict::No),
                Found::At(..) if pattern.is_negated => return Err(Verdict::No),
                Found::At(_, end) if !is_tried_again => return Ok(end),
                Found::At(start, end) => match self.holds(after, end) {
                    Verdict::No if start < self.bytes.len() => from = start + 1,
                    verdict => return Err(verdict),
                },
            }
            searched.is_again = true;
            self.memory.steps += 1;
            if self.memory.steps > MAX_STEPS {
                return Err(Verdict::GaveUp);
            }
        }
    }

    /// The first match of an expression from a place on. Bytes in which it is known not to begin are not searched again.
    fn find_pattern(&mut self, pattern: &Pattern, from: usize, searched: Searched) -> Found {
        let begin = if pattern.begins_anywhere { self.memory.begins(searched, from) } else { from };
        if begin > self.bytes.len() {
            return Found::No;
        }
        let found = pattern.find(self.bytes, begin);
        let end = match found {
            Found::At(start, end) => {
                self.memory.is_clear(searched, begin, start);
                end
            }
            Found::No => {
                self.memory.is_clear(searched, begin, self.bytes.len() + 1);
                self.bytes.len()
            }
            Found::GaveUp => self.bytes.len(),
        };
        self.memory.searched += (end - begin) as u64;
        found
    }

    /// Where a literal may begin and must end.
    fn window(&self, content: &Content, last: usize) -> Option<(usize, usize)> {
        let length = self.bytes.len() as i64;
        let amount = |amount: Option<Amount>| amount.map(|amount| self.memory.amount(amount));
        let (from, to) = if content.is_at_start {
            (0, content.bytes.len() as i64)
        } else if content.is_relative() {
            let distance = amount(content.distance).unwrap_or(0);
            let from = (last as i64).saturating_add(distance);
            // A negative distance at the beginning of the buffer ends there.
            (from.max(0), amount(content.within).map_or(length, |within| from.saturating_add(within)))
        } else {
            let from = amount(content.offset).unwrap_or(0);
            (from, amount(content.depth).map_or(length, |depth| from.saturating_add(depth)))
        };
        let (from, to) = (usize::try_from(from).ok()?, usize::try_from(to.min(length)).ok()?);
        (from <= to).then_some((from, to))
    }

    fn has_content(&mut self, content: &Content, last: usize, searched: Searched) -> bool {
        self.window(content, last)
            .is_some_and(|window| self.find_content(content, window, searched).is_some())
    }

    /// The first place of a literal in a window. Bytes in which it is known not to begin are not searched again.
    fn find_content(
        &mut self,
        content: &Content,
        (from, to): (usize, usize),
        searched: Searched,
    ) -> Option<usize> {
        let length = content.bytes.len();
        if content.is_at_end {
            let at = self.bytes.len().checked_sub(length)?;
            let is_there = at >= from && to == self.bytes.len() && self.equals(content, at);
            return is_there.then_some(at);
        }
        let begin = self.memory.begins(searched, from);
        let window = self.bytes.get(begin..to)?;
        let found = match content.ignores_case {
            false => memchr::memmem::find(window, &content.bytes),
            true => find_ignoring_case(window, &content.bytes),
        };
        self.memory.searched += found.map_or(window.len(), |at| at + length) as u64;
        let at = found.map(|at| begin + at);
        // What lies over the end of the window may begin in it.
        self.memory.is_clear(searched, begin, at.unwrap_or((to + 1).saturating_sub(length)));
        at
    }

    fn equals(&self, content: &Content, at: usize) -> bool {
        let Some(bytes) = self.bytes.get(at..at + content.bytes.len()) else { return false };
        if content.ignores_case {
            bytes.eq_ignore_ascii_case(&content.bytes)
        } else {
            bytes == &*content.bytes
        }
    }

    fn is_data_at(&self, test: &IsDataAt, last: usize) -> bool {
        let at = self.memory.amount(test.at);
        let length = self.bytes.len() as i64;
        // As in Suricata, the relative form counts the byte itself and the absolute one does not.
        let is_there =
            if test.is_relative { (last as i64).saturating_add(at) <= length } else { at < length };
        is_there != test.is_negated
    }

    /// A number in the buffer, and the place after it.
    fn read(&self, read: &Read, last: usize) -> Option<(u64, usize)> {
        let from =
            if read.is_relative { last as i64 } else { 0 }.checked_add(self.memory.amount(read.offset))?;
        let bytes = self.bytes.get(usize::try_from(from).ok()?..)?;
        let asked = usize::try_from(self.memory.amount(read.bytes)).ok()?;
        let (value, taken) = match read.form {
            Form::Text(base) => text_number(bytes, asked, base)?,
            Form::Big | Form::Little | Form::Dce => {
                let digits = bytes.get(..asked).filter(|digits| (1..=8).contains(&digits.len()))?;
                let add = |value: u64, byte: &u8| value << 8 | u64::from(*byte);
                let is_little = match read.form {
                    Form::Dce => self.memory.is_little,
                    form => form == Form::Little,
                };
                let value =
                    if is_little { digits.iter().rev().fold(0, add) } else { digits.iter().fold(0, add) };
                (value, asked)
            }
        };
        let value = read.mask.map_or(value, |mask| (value & mask) >> mask.trailing_zeros().min(63));
        Some((value, from as usize + taken))
    }

    fn byte_test(&self, test: &ByteTest, last: usize) -> bool {
        let Some((value, _)) = self.read(&test.read, last) else { return false };
        let with = match test.with {
            Amount::Is(is) => is as u64,
            Amount::Variable(position) => self.memory.variables.get(position).copied().unwrap_or_default(),
        };
        let holds = match test.operator {
            Operator::Below => value < with,
            Operator::AtMost => value <= with,
            Operator::Is => value == with,
            Operator::AtLeast => value >= with,
            Operator::Above => value > with,
            Operator::And => value & with != 0,
            Operator::Xor => value ^ with != 0,
        };
        holds != test.is_negated
    }

    /// Where relative tests count from after a jump, if that is in the buffer.
    fn jump(&self, jump: &ByteJump, last: usize) -> Option<usize> {
        let is_without = self.memory.amount(jump.read.bytes) == 0 && !matches!(jump.read.form, Form::Text(_));
        let (value, after) = match is_without {
            // Without a number, the place itself.
            true => {
                let from = if jump.read.is_relative { last as i64 } else { 0 };
                (0, usize::try_from(from.checked_add(self.memory.amount(jump.read.offset))?).ok()?)
            }
            false => self.read(&jump.read, last)?,
        };
        let value = i64::try_from(value.checked_mul(jump.multiplier)?).ok()?;
        let value = if jump.is_aligned { value.checked_add(3)? & !3 } else { value };
        let from = match jump.from {
            JumpFrom::Number => after as i64,
            JumpFrom::Beginning => 0,
            JumpFrom::End => self.bytes.len() as i64,
        };
        let to = from.checked_add(value)?.checked_add(self.memory.amount(jump.post_offset))?;
        usize::try_from(to).ok().filter(|to| *to <= self.bytes.len())
    }

    /// Sets a variable to a number. Returns where the number ends.
    fn extract(&mut self, extract: &ByteExtract, last: usize) -> Option<usize> {
        let (value, end) = self.read(&extract.read, last)?;
        let value = value.wrapping_mul(extract.multiplier);
        let value =
            extract.align.map_or(value, |align| value.checked_next_multiple_of(align).unwrap_or(value));
        self.memory.set(extract.variable, value);
        Some(end)
    }

    /// Sets a variable to what is computed of a number. Returns where the number ends.
    fn math(&mut self, math: &ByteMath, last: usize) -> Option<usize> {
        let (value, end) = self.read(&math.read, last)?;
        let with = match math.with {
            Amount::Is(is) => is as u64,
            Amount::Variable(position) => self.memory.variables.get(position).copied().unwrap_or_default(),
        };
        let result = match math.arithmetic {
            Arithmetic::Add => Some(value.wrapping_add(with)),
            Arithmetic::Subtract => Some(value.wrapping_sub(with)),
            Arithmetic::Multiply => Some(value.wrapping_mul(with)),
            Arithmetic::Divide => value.checked_div(with),
            Arithmetic::Left => u32::try_from(with).ok().and_then(|by| value.checked_shl(by)),
            Arithmetic::Right => u32::try_from(with).ok().and_then(|by| value.checked_shr(by)),
        };
        self.memory.set(math.variable, result?);
        Some(end)
    }

    /// The tests of what was decoded.
    fn decoded_holds(&mut self) -> Verdict {
        let Some(of) = self.base64_data else { return Verdict::Yes };
        let decoded = std::mem::take(&mut self.memory.decoded);
        let clear = std::mem::take(&mut self.memory.clear);
        self.memory.begin_buffer(of.tests.len());
        let left = self.memory.left;
        let verdict = match decoded.is_empty() {
            true => Verdict::No,
            false => {
                let bytes = Transform::all(&of.transforms, &decoded);
                Search { bytes: &bytes, base64_data: None, memory: self.memory }.holds(&of.tests, 0)
            }
        };
        (self.memory.decoded, self.memory.clear, self.memory.left) = (decoded, clear, left);
        verdict
    }
}

/// Whether no test after it counts from a match before it: it sets a place of its own.
fn ends_a_chain(test: &Test) -> bool {
    match test {
        Test::Content(content) => !content.is_negated && !content.is_relative(),
        Test::Pattern(pattern) => !pattern.is_negated && !pattern.is_relative,
        Test::ByteJump(jump) => !jump.read.is_relative,
        Test::ByteExtract(extract) => !extract.read.is_relative,
        Test::ByteMath(math) => !math.read.is_relative,
        _ => false,
    }
}

fn find_ignoring_case(window: &[u8], literal: &[u8]) -> Option<usize> {
    let first = *literal.first()?;
    let (lower, upper) = (first.to_ascii_lowercase(), first.to_ascii_uppercase());
    let last = window.len().checked_sub(literal.len())?;
    let places = memchr::memchr2_iter(lower, upper, window.get(..=last)?);
    let mut places = places.filter(|at| {
        window.get(*at..at + literal.len()).is_some_and(|part| part.eq_ignore_ascii_case(literal))
    });
    places.next()
}

/// A number as text, and how many bytes were read. Blanks and a base's prefix may precede its digits, as for `strtoull`.
fn text_number(bytes: &[u8], asked: usize, base: u32) -> Option<(u64, usize)> {
    const MOST: usize = 23;
    let most = if asked == 0 { bytes.len().min(MOST) } else { asked };
    let text = bytes.get(..most)?;
    let blanks = text.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
    let mut digits = text.get(blanks..)?;
    if base == 16 {
        digits = digits.strip_prefix(b"0x").or_else(|| digits.strip_prefix(b"0X")).unwrap_or(digits);
    }
    let mut value = 0_u64;
    let mut count = 0;
    for digit in digits.iter().map_while(|byte| char::from(*byte).to_digit(base)) {
        value = value.checked_mul(u64::from(base))?.checked_add(u64::from(digit))?;
        count += 1;
    }
    (count > 0).then_some((value, most))
}

fn is_in(set: &Dataset, bytes: &[u8]) -> bool {
    use md5::Digest;
    match set.kind {
        DatasetKind::Text | DatasetKind::V4 | DatasetKind::Ip => set.values.contains(bytes),
        DatasetKind::Md5 => set.values.contains(md5::Md5::digest(bytes).as_slice()),
        DatasetKind::Sha256 => set.values.contains(sha2::Sha256::digest(bytes).as_slice()),
    }
}
