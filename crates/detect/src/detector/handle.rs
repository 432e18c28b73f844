//! The literal by which a part of a rule is found, and where it may be.

use super::about::is_firm;
use crate::buffer::Origin;
use crate::content::{Amount, Content, FastPattern};
use crate::finder::{NEAR, Place};
use crate::rarity::Rarity;
use crate::rule::{BufferTests, Rule, Test};
use crate::search::Literal;

/// The literal that finds a part.
#[derive(Clone, Copy, Debug)]
pub(super) struct Handle<'r> {
    /// The tests that it is one of.
    pub of: &'r BufferTests,
    pub literal: Literal<'r>,
    pub place: Place,
}

/// Where a rule has the literal that finds a part of it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct At {
    /// The position of its buffer in [`Rule::buffers`].
    pub buffer: u16,
    /// Its position in the tests of the buffer.
    test: u16,
}

/// The bytes of a literal that are searched for.
fn searched(content: &Content) -> &[u8] {
    let whole = &*content.bytes;
    match content.fast_pattern {
        FastPattern::Part(from, length) => whole.get(from..from + length).unwrap_or(whole),
        _ => whole,
    }
}

/// The literal that finds a part of a rule whose tests are at these positions in [`Rule::buffers`], if it has one: the one that the rule
/// names, or the rarest one.
pub(super) fn choose(rule: &Rule, tests: &[u16], rarity: &Rarity) -> Option<At> {
    let of_part = tests.iter().filter_map(|at| Some((*at, rule.buffers.get(usize::from(*at))?)));
    let of_part = of_part.filter(|(_, of)| is_firm(of) && of.buffer.origin != Origin::Header);
    let contents = of_part.flat_map(|(buffer, of)| {
        (0..).zip(&of.tests).filter_map(move |(test, one)| match one {
            Test::Content(content) if !content.is_negated => Some((At { buffer, test }, content)),
            _ => None,
        })
    });
    let worth = |content: &Content| {
        let is_named = content.fast_pattern != FastPattern::Unsaid;
        (is_named, rarity.worth(searched(content), content.ignores_case))
    };
    contents.max_by_key(|(_, content)| worth(content)).map(|(at, _)| at)
}

/// The literal of a rule at a place that [`choose`] gives.
pub(super) fn handle(rule: &Rule, At { buffer, test }: At) -> Option<Handle<'_>> {
    let of = rule.buffers.get(usize::from(buffer))?;
    let at = usize::from(test);
    let Some(Test::Content(content)) = of.tests.get(at) else { return None };
    let (whole, bytes) = (&*content.bytes, searched(content));
    let before = of.tests.get(..at).unwrap_or_default();
    let place = match latest_end(content, end_of(before)) {
        _ if content.is_at_end && bytes.len() == whole.len() => Place::End,
        Some(end) if end == whole.len() as i64 && bytes.len() == whole.len() => Place::Start,
        Some(end) if end <= NEAR as i64 => Place::NearStart,
        _ => Place::Anywhere,
    };
    Some(Handle { of, literal: Literal { bytes, ignores_case: content.ignores_case }, place })
}

/// The latest place in the buffer at which the last match of tests ends, if the rule says one. What counts from the beginning
/// without a place there may also count from the beginning of a window of a stream: no place is known of it.
fn end_of(tests: &[Test]) -> Option<i64> {
    tests.iter().fold(None, |end, test| match test {
        Test::Content(content) if !content.is_negated => latest_end(content, end),
        Test::Pattern(pattern) if !pattern.is_negated => None,
        Test::ByteJump(_) | Test::ByteExtract(_) | Test::ByteMath(_) => None,
        _ => end,
    })
}

/// The latest place at which a literal ends, if the match before it ends at `before` or earlier.
fn latest_end(content: &Content, before: Option<i64>) -> Option<i64> {
    let number = |amount: Option<Amount>| match amount {
        Some(Amount::Is(is)) => Some(is),
        Some(Amount::Variable(_)) => None,
        None => Some(0),
    };
    if content.is_at_start {
        return Some(content.bytes.len() as i64);
    }
    if content.is_relative() {
        content.within?;
        return before?.checked_add(number(content.distance)?)?.checked_add(number(content.within)?);
    }
    content.depth?;
    number(content.offset)?.checked_add(number(content.depth)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{NoSources, Reading, RuleFile, Ruleset, Variables};

    fn place(options: &str) -> (String, Place) {
        let text = format!("alert tcp any any -> any any ({options} sid:1;)");
        let file = RuleFile { name: "x", bytes: text.as_bytes() };
        let reading =
            Reading { variables: Variables::default(), sources: &NoSources, with_switched_off: false };
        let set = Ruleset::read([file], &reading);
        assert!(set.refusals.is_empty(), "{options}: {:?}", set.refusals);
        let rule = &set.rules[0].rule;
        let found = handle(rule, choose(rule, &[0], &Rarity::default()).unwrap()).unwrap();
        (String::from_utf8_lossy(found.literal.bytes).into_owned(), found.place)
    }

    #[test]
    fn the_rarest_literal_is_chosen_unless_the_rule_names_one() {
        for (options, literal) in [
            (
                r#"content:"|00 00 00 00|"; content:"|00 01 87 99|"; content:"|00 00 00 00|";"#,
                "\0\u{1}\u{fffd}\u{fffd}",
            ),
            (r#"content:"HTTP/1.1"; content:"zmeu";"#, "zmeu"),
            (r#"content:"HTTP/1.1"; fast_pattern; content:"zmeu";"#, "HTTP/1.1"),
            (
                r#"content:"a rare phrase"; content:"a rarer phrase of more words";"#,
                "a rarer phrase of more words",
            ),
        ] {
            assert_eq!(place(options).0, literal, "{options}");
        }
    }

    #[test]
    fn a_literal_has_the_place_that_its_rule_says() {
        for (options, literal, is) in [
            (r#"content:"word";"#, "word", Place::Anywhere),
            (r#"content:"word"; startswith;"#, "word", Place::Start),
            (r#"content:"word"; depth:4;"#, "word", Place::Start),
            (r#"content:"word"; depth:5;"#, "word", Place::NearStart),
            (r#"content:"word"; offset:1; depth:4;"#, "word", Place::NearStart),
            (r#"content:"word"; depth:64;"#, "word", Place::NearStart),
            (r#"content:"word"; depth:65;"#, "word", Place::Anywhere),
            (r#"content:"word"; offset:61; depth:4;"#, "word", Place::Anywhere),
            (r#"content:"word"; offset:1;"#, "word", Place::Anywhere),
            (r#"content:"word"; endswith;"#, "word", Place::End),
            (r#"content:"word"; startswith; fast_pattern:1,2;"#, "or", Place::NearStart),
            (r#"content:"word"; endswith; fast_pattern:1,2;"#, "or", Place::Anywhere),
            // What counts from another literal ends where that one allows.
            (r#"content:"a"; depth:1; content:"word"; within:4;"#, "word", Place::NearStart),
            (r#"content:"a"; depth:1; content:"word"; distance:50; within:13;"#, "word", Place::NearStart),
            (r#"content:"a"; depth:1; content:"word"; distance:50; within:14;"#, "word", Place::Anywhere),
            (r#"content:"a"; depth:1; content:"word"; distance:0;"#, "word", Place::Anywhere),
            (r#"content:"a"; content:"word"; within:4;"#, "word", Place::Anywhere),
            (r#"content:"a"; depth:1; pcre:"/x/R"; content:"word"; within:4;"#, "word", Place::Anywhere),
            (
                r#"content:"a"; depth:1; byte_jump:1,0,relative; content:"word"; within:4;"#,
                "word",
                Place::Anywhere,
            ),
            (
                r#"content:"a"; depth:1; byte_extract:1,70,n,relative; content:"word"; within:4;"#,
                "word",
                Place::Anywhere,
            ),
            (r#"content:"a"; depth:1; content:!"b"; content:"word"; within:4;"#, "word", Place::NearStart),
            (r#"byte_extract:1,0,n; content:"word"; depth:n;"#, "word", Place::Anywhere),
            (r#"content:"word"; within:4;"#, "word", Place::Anywhere),
        ] {
            assert_eq!(place(options), (literal.to_owned(), is), "{options}");
        }
    }
}
