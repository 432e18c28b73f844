//! The parts of an expression, and what decides each.

use crate::ast::Primitive;
use crate::error::FilterError;
use crate::fields::FLOW;
use crate::filter::Options;
use crate::flowtest::{is_of_key, of_end, tree};
use std::ops::Range;

/// What decides a test.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Decider {
    /// Each packet.
    Packet,
    /// The key of a flow: addresses, ports, protocol and VLAN.
    FlowKey,
    /// The key of a flow, by a field that packets do not have, such as `flow.client`.
    FlowField,
    /// A flow that has ended.
    FlowEnd,
    /// A record of this table.
    Record(&'static str),
}

/// A test of an expression.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Part {
    /// Its bytes in the expression.
    pub span: Range<usize>,
    /// What decides it.
    pub decider: Decider,
}

/// The tests of an expression, from left to right, and what decides each. Together they may be more than any one level has.
///
/// # Errors
///
/// The expression is invalid.
pub fn parts(text: &str, options: &Options<'_>) -> Result<Vec<Part>, FilterError> {
    let mut parts = Vec::new();
    if let Some(expr) = tree(text, options)? {
        expr.visit(&mut |test| {
            let decider = match &test.primitive {
                Primitive::Field(test) if of_end(test).is_some() => Decider::FlowField,
                Primitive::Field(test) if test.field.table == FLOW => Decider::FlowEnd,
                Primitive::Field(test) => Decider::Record(test.field.table),
                _ if is_of_key(test) => Decider::FlowKey,
                _ => Decider::Packet,
            };
            let before = parts.last().map_or(0, |part: &Part| part.span.end);
            let start = with_qualifiers(text, before..test.span.start);
            parts.push(Part { span: start..test.span.end, decider });
        });
    }
    Ok(parts)
}

/// The beginning of a test whose id begins at the end of a range: after the last word or sign that joins tests.
fn with_qualifiers(text: &str, range: Range<usize>) -> usize {
    let mut start = range.end;
    let front = text.get(range).unwrap_or_default();
    for word in front.split_whitespace().rev() {
        let own =
            word.rfind(['(', ')', '!', '&', '|']).map_or(word, |at| word.get(at + 1..).unwrap_or_default());
        if matches!(own, "" | "and" | "or" | "not") {
            break;
        }
        // The word lies in `front`, which ends where the id begins.
        start = word_start(text, start, own);
        if own.len() < word.len() {
            break;
        }
    }
    start
}

/// The beginning of the last occurrence of a word before a position.
fn word_start(text: &str, before: usize, word: &str) -> usize {
    text.get(..before).and_then(|front| front.rfind(word)).unwrap_or(before)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fields::tests::Known;

    #[test]
    fn each_part_has_its_decider() {
        let text = "net 10.0.0.0/8 and not (dns.query under a.example or len > 100) and flow.bytes > 1k and port 53 or 80 and(src or dst host 10.0.0.1)";
        let options = Options { fields: Some(&Known), ..Options::default() };
        let found = parts(text, &options).unwrap();
        let found: Vec<_> = found.iter().map(|part| (&text[part.span.clone()], part.decider)).collect();
        let expected = [
            ("net 10.0.0.0/8", Decider::FlowKey),
            ("dns.query under a.example", Decider::Record("dns")),
            ("len > 100", Decider::Packet),
            ("flow.bytes > 1k", Decider::FlowEnd),
            ("port 53", Decider::FlowKey),
            ("80", Decider::FlowKey),
            ("dst host 10.0.0.1", Decider::FlowKey),
        ];
        assert_eq!(found, expected);
        assert_eq!(parts("", &options), Ok(Vec::new()));
    }
}
