//! Values in the JSON objects that the store keeps as text: found without building the object.
//!
//! The objects are those that [`super::rows`] writes. Anything else is read without a panic, and has the values that can be
//! found in it.

use std::borrow::Cow;

/// A value in a body.
#[derive(Clone, Debug, PartialEq)]
pub enum Leaf<'b> {
    /// Yes or no.
    Bool(bool),
    /// The digits of a number.
    Number(&'b str),
    /// Text.
    Text(Cow<'b, str>),
    /// A sum of numbers.
    Sum(u64),
}

impl Leaf<'_> {
    /// The whole number that it is.
    pub fn whole(&self) -> Option<u64> {
        match self {
            Leaf::Number(digits) => digits.parse().ok(),
            Leaf::Sum(sum) => Some(*sum),
            Leaf::Bool(_) | Leaf::Text(_) => None,
        }
    }

    /// The number that it is.
    pub fn number(&self) -> Option<f64> {
        match self {
            Leaf::Number(digits) => digits.parse().ok(),
            Leaf::Sum(sum) => Some(*sum as f64),
            Leaf::Bool(_) | Leaf::Text(_) => None,
        }
    }
}

/// The member of an object, as it is written; `None` if it has no such member.
pub fn member<'b>(body: &'b str, name: &str) -> Option<&'b str> {
    let bytes = body.as_bytes();
    let mut at = blank(bytes, 0);
    if bytes.get(at) != Some(&b'{') {
        return None;
    }
    at += 1;
    loop {
        at = blank(bytes, at);
        if bytes.get(at) != Some(&b'"') {
            return None;
        }
        let key_end = string(bytes, at)?;
        let key = body.get(at + 1..key_end - 1)?;
        at = blank(bytes, key_end);
        if bytes.get(at) != Some(&b':') {
            return None;
        }
        at = blank(bytes, at + 1);
        let end = value(bytes, at)?;
        // Names of fields have nothing to escape.
        if key == name {
            return body.get(at..end);
        }
        at = blank(bytes, end);
        if bytes.get(at) != Some(&b',') {
            return None;
        }
        at += 1;
    }
}

/// A value of a record's body as text; `None` if it has none.
pub fn text_of(body: &str, name: &str) -> Option<String> {
    let mut text = None;
    leaves(member(body, name)?, &mut |leaf| {
        text = match leaf {
            Leaf::Text(words) => Some(words.into_owned()),
            Leaf::Number(digits) => Some(digits.to_owned()),
            Leaf::Bool(_) | Leaf::Sum(_) => None,
        };
    });
    text
}

/// Calls `each` with every value in a value: itself, those of a list, and those of the rows in it.
pub fn leaves<'b>(written: &'b str, each: &mut dyn FnMut(Leaf<'b>)) {
    let bytes = written.as_bytes();
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => {
                let Some(end) = string(bytes, at) else { return };
                // A key of a row is no value.
                if bytes.get(blank(bytes, end)) != Some(&b':') {
                    let text = written.get(at + 1..end - 1).unwrap_or_default();
                    each(Leaf::Text(unescaped(text)));
                }
                at = end;
            }
            b't' | b'f' | b'n' => {
                if *byte != b'n' {
                    each(Leaf::Bool(*byte == b't'));
                }
                at = word(bytes, at);
            }
            b'-' | b'0'..=b'9' => {
                let end = word(bytes, at);
                each(Leaf::Number(written.get(at..end).unwrap_or_default()));
                at = end;
            }
            _ => at += 1,
        }
    }
}

fn blank(bytes: &[u8], at: usize) -> usize {
    let rest = bytes.get(at..).unwrap_or_default();
    at + rest.iter().take_while(|byte| byte.is_ascii_whitespace()).count()
}

/// The end of a string that begins there, after its quote.
fn string(bytes: &[u8], at: usize) -> Option<usize> {
    let mut at = at + 1;
    loop {
        at += memchr::memchr2(b'"', b'\\', bytes.get(at..)?)?;
        match bytes.get(at) {
            Some(b'"') => return Some(at + 1),
            _ => at += 2,
        }
    }
}

/// The end of a number or a word.
fn word(bytes: &[u8], at: usize) -> usize {
    let rest = bytes.get(at..).unwrap_or_default();
    let length = rest.iter().take_while(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(byte)).count();
    at + length.max(1)
}

/// The end of a value that begins there.
fn value(bytes: &[u8], at: usize) -> Option<usize> {
    match bytes.get(at)? {
        b'"' => string(bytes, at),
        b'{' | b'[' => {
            let (mut at, mut open) = (at, 0_usize);
            loop {
                match bytes.get(at)? {
                    b'"' => {
                        at = string(bytes, at)?;
                        continue;
                    }
                    b'{' | b'[' => open += 1,
                    b'}' | b']' => open -= 1,
                    _ => {}
                }
                at += 1;
                if open == 0 {
                    return Some(at);
                }
            }
        }
        _ => Some(word(bytes, at)),
    }
}

fn unescaped(text: &str) -> Cow<'_, str> {
    if !text.contains('\\') {
        return Cow::Borrowed(text);
    }
    Cow::Owned(serde_json::from_str(&format!("\"{text}\"")).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::{Map, Value, json};

    fn all(written: &str) -> Vec<String> {
        let mut found = Vec::new();
        leaves(written, &mut |leaf| {
            found.push(match leaf {
                Leaf::Bool(yes) => yes.to_string(),
                Leaf::Number(digits) => digits.to_owned(),
                Leaf::Text(text) => format!("{text:?}"),
                Leaf::Sum(sum) => sum.to_string(),
            });
        });
        found
    }

    fn truth(value: &Value, into: &mut Vec<String>) {
        match value {
            Value::Null => {}
            Value::Bool(yes) => into.push(yes.to_string()),
            Value::Number(number) => into.push(number.to_string()),
            Value::String(text) => into.push(format!("{text:?}")),
            Value::Array(values) => values.iter().for_each(|value| truth(value, into)),
            Value::Object(members) => members.values().for_each(|value| truth(value, into)),
        }
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let text = prop_oneof![any::<String>(), "[a-z\"\\\\{}\\[\\],: \u{0}\u{e9}]{0,12}"];
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            (-1e9..1e9_f64).prop_map(Value::from),
            text.prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::vec(("[a-z_]{1,5}", inner), 0..4)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn values_are_those_of_the_object(members in prop::collection::vec(("[a-z_]{1,5}", any_value()), 0..6)) {
            let object: Map<String, Value> = members.into_iter().collect();
            for body in [serde_json::to_string(&object).unwrap(), serde_json::to_string_pretty(&object).unwrap()] {
                for (name, value) in &object {
                    let mut wanted = Vec::new();
                    truth(value, &mut wanted);
                    prop_assert_eq!(all(member(&body, name).unwrap()), wanted, "{} in {}", name, body);
                }
                prop_assert_eq!(member(&body, "no such name"), None);
            }
        }

        #[test]
        fn any_text_has_an_end(text in "[\\[\\]{}\",:\\\\a-z0-9\u{e9}-]{0,40}") {
            let _ = member(&text, "a");
            let _ = all(&text);
        }
    }

    #[test]
    fn what_is_cut_off_has_no_values() {
        let body = json!({"a": "x", "b": [1, "y\\\""], "c": {"d": true}}).to_string();
        assert_eq!(all(member(&body, "b").unwrap()), ["1", "\"y\\\\\\\"\""]);
        assert_eq!(all(member(&body, "c").unwrap()), ["true"]);
        for end in 0..body.len() {
            let _ = member(body.get(..end).unwrap_or_default(), "c").map(all);
        }
    }
}
