//! Which option of a rule's text each of its tests and conditions was made of: for those who write rules.

use crate::builder::Builder;
use crate::keyword;
use crate::rule::Rule;
use crate::ruleset::next_option;
use crate::sets::Lists;
use crate::sources::Sources;
use crate::value::Value;

/// The options of which a rule was made, as its text has them.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Written {
    options: Vec<String>,
    /// For each of [`Rule::buffers`] the options of its tests.
    tests: Vec<Vec<usize>>,
    conditions: Vec<usize>,
    flow_bits: Vec<usize>,
    flow_ints: Vec<usize>,
}

/// Options that say more about the test before them.
const MODIFIERS: [&str; 9] =
    ["depth", "distance", "endswith", "fast_pattern", "nocase", "offset", "rawbytes", "startswith", "within"];

impl Written {
    /// Reads the text of a rule that is in force; `None` for any other.
    pub fn of(text: &[u8], file: &str, lists: &mut Lists, sources: &dyn Sources) -> Option<Self> {
        let (header, open) = crate::header::parse(text, lists).ok()?;
        let body = text.trim_ascii_end().get(open + 1..)?.strip_suffix(b")")?;
        let mut builder = Builder::new(header, file, sources, keyword::is_in_force);
        let mut written = Self::default();
        let mut rest = Value::new(body, open + 1).trimmed();
        while !rest.is_empty() {
            let (name, value, after) = next_option(rest).ok()?;
            builder.at = name.at;
            keyword::of_option(name).ok()?.apply(&mut builder, value).ok()?;
            let shown = |value: Value<'_>| String::from_utf8_lossy(value.bytes).into_owned();
            written.options.push(match value.is_empty() {
                true => shown(name),
                false => format!("{}:{}", shown(name), shown(value)),
            });
            written.note(&builder.rule);
            rest = after.trimmed();
        }
        // Buffers without tests are no part of a rule.
        written.tests.retain(|tests| !tests.is_empty());
        Some(written)
    }

    /// Takes note of what the last option has made.
    fn note(&mut self, rule: &Rule) {
        let option = self.options.len() - 1;
        self.tests.resize(rule.buffers.len(), Vec::new());
        // A modifier of the old manner moves a test to another buffer.
        let lists = || rule.buffers.iter().map(|of| of.tests.len());
        let mut moved = None;
        for (tests, now) in self.tests.iter_mut().zip(lists()) {
            while tests.len() > now {
                moved = tests.pop();
            }
        }
        for (tests, now) in self.tests.iter_mut().zip(lists()) {
            while tests.len() < now {
                tests.push(moved.take().unwrap_or(option));
            }
        }
        self.conditions.resize(rule.conditions.len(), option);
        self.flow_bits.resize(rule.flow_bits.len(), option);
        self.flow_ints.resize(rule.flow_ints.len(), option);
    }

    /// The option of a test of a buffer, with the options that say more about it, both by their positions.
    pub fn test(&self, buffer: usize, test: usize) -> Option<String> {
        let option = *self.tests.get(buffer)?.get(test)?;
        let first = self.options.get(option)?.clone();
        let makes = |option: &usize| self.tests.iter().flatten().any(|made| made == option);
        let is_more =
            |option: &&String| option.split(':').next().is_some_and(|name| MODIFIERS.contains(&name));
        let more = (option + 1..self.options.len()).take_while(|option| !makes(option));
        let more = more.filter_map(|option| self.options.get(option)).filter(is_more);
        Some(more.fold(first, |text, option| format!("{text}; {option}")))
    }

    /// The option of a condition, by its position in [`Rule::conditions`].
    pub fn condition(&self, at: usize) -> Option<&str> {
        self.text(&self.conditions, at)
    }

    /// The option of bits of the flow, by its position in [`Rule::flow_bits`].
    pub fn flow_bits(&self, at: usize) -> Option<&str> {
        self.text(&self.flow_bits, at)
    }

    /// The option of a number of the flow, by its position in [`Rule::flow_ints`].
    pub fn flow_ints(&self, at: usize) -> Option<&str> {
        self.text(&self.flow_ints, at)
    }

    fn text(&self, of: &[usize], at: usize) -> Option<&str> {
        self.options.get(*of.get(at)?).map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sets::Variables;
    use crate::sources::NoSources;

    fn written(text: &str) -> Written {
        let mut lists = Lists::new(Variables::default());
        Written::of(text.as_bytes(), "a.rules", &mut lists, &NoSources).unwrap()
    }

    #[test]
    fn each_test_has_its_option() {
        let written = written(
            "alert tcp any any -> any any (msg:\"m\"; flow:established; content:\"a\"; depth:5; nocase; \
             http.uri; content:\"b\"; content:\"c\"; distance:0; bsize:9; dsize:>3; flowbits:isset,x; sid:1;)",
        );
        assert_eq!(written.test(0, 0).unwrap(), "content:\"a\"; depth:5; nocase");
        assert_eq!(written.test(1, 0).unwrap(), "content:\"b\"");
        assert_eq!(written.test(1, 1).unwrap(), "content:\"c\"; distance:0");
        assert_eq!(written.test(1, 2).unwrap(), "bsize:9");
        assert_eq!(written.test(2, 0), None);
        assert_eq!(written.condition(0), Some("dsize:>3"));
        assert_eq!(written.flow_bits(0), Some("flowbits:isset,x"));
    }

    #[test]
    fn a_content_that_a_modifier_moves_keeps_its_option() {
        let written = written(
            "alert tcp any any -> any any (content:\"a\"; content:\"b\"; http_uri; nocase; \
             content:\"c\"; within:9; http_method; sid:1;)",
        );
        assert_eq!(written.test(0, 0).unwrap(), "content:\"a\"");
        assert_eq!(written.test(1, 0).unwrap(), "content:\"b\"; nocase");
        assert_eq!(written.test(2, 0).unwrap(), "content:\"c\"; within:9");
    }
}
