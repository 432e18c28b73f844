//! The literal by which a part of a rule is found, and where it may be.

use super::about::is_firm;
use crate::buffer::Origin;
use crate::content::{Amount, Content, FastPattern};
use crate::finder::{NEAR, Place};
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

/// How good a literal finds its rule: a greater number is better.
fn worth(content: &Content) -> (bool, usize) {
    (content.fast_pattern != FastPattern::Unsaid, content.bytes.len())
}

/// The literal that finds a part of a rule whose tests are at these positions in [`Rule::buffers`], if it has one.
pub(super) fn handle<'r>(rule: &'r Rule, tests: &[u16]) -> Option<Handle<'r>> {
    let of_part = tests.iter().filter_map(|at| rule.buffers.get(usize::from(*at)));
    let contents = of_part.filter(|of| is_firm(of) && of.buffer.origin != Origin::Header).flat_map(|of| {
        of.tests.iter().enumerate().filter_map(move |(at, test)| match test {
            Test::Content(content) if !content.is_negated => Some((of, at, content)),
            _ => None,
        })
    });
    let (of, at, content) = contents.max_by_key(|(_, _, content)| worth(content))?;
    let whole = &*content.bytes;
    let bytes = match content.fast_pattern {
        FastPattern::Part(from, length) => whole.get(from..from + length).unwrap_or(whole),
        _ => whole,
    };
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
        Test::ByteJump(_) => None,
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
        let found = handle(rule, &[0]).unwrap();
        (String::from_utf8_lossy(found.literal.bytes).into_owned(), found.place)
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
            (r#"content:"a"; depth:1; content:!"b"; content:"word"; within:4;"#, "word", Place::NearStart),
            (r#"byte_extract:1,0,n; content:"word"; depth:n;"#, "word", Place::Anywhere),
            (r#"content:"word"; within:4;"#, "word", Place::Anywhere),
        ] {
            assert_eq!(place(options), (literal.to_owned(), is), "{options}");
        }
    }
}
