//! Selects the texts in which a text occurs, of those that parsers emit while they read a message.

use super::select::{CallError, Select, Selector};
use super::{Argument, Arguments};
use crate::Item;
use crate::demand::{Demand, Tables};
use std::sync::Arc;
use weir_api::Level;
use weir_filter::fields::{Search, Text};
use weir_proto::{Buffer, Field, Table, Value, buffers, early_fields};

/// Maximum length of a text in bytes.
const MAX_TEXT: usize = 255;

pub(super) static SEARCH: Selector = Selector {
    name: "search",
    help: "Selects the values of a buffer or field that contain a text, as soon as the parser has them. The functions after it count values and their bytes.",
    arguments: &[
        Argument {
            name: "in",
            help: "A buffer that has complete values, such as http.uri, or a field that is known before its record, such as smtp.subject.",
            default: None,
        },
        Argument {
            name: "for",
            help: "The text, 1 to 255 bytes, in any case of ASCII letters. Bytes are in hexadecimal digits between bars: |0d 0a|.",
            default: None,
        },
    ],
    levels: &[Level::Stream],
    build: |arguments, level, _| {
        if level != Level::Stream {
            return Err(format!("`search` cannot be used at {} level", level.name()).into());
        }
        let text = bytes_of(arguments.text("for")?)?;
        let search = Search::new(Text::new(text, false));
        Ok(Arc::new(Searched { place: place(arguments)?, search }))
    },
};

/// Where a text is searched.
enum Place {
    Buffer(&'static Buffer),
    Field(&'static Table, &'static Field),
}

/// A compiled call.
struct Searched {
    place: Place,
    search: Search,
}

/// The buffer or field of a call.
fn place(arguments: &Arguments<'_>) -> Result<Place, CallError> {
    let name = arguments.text("in")?;
    if let Some(buffer) = buffers().find(|buffer| buffer.name == name) {
        if buffer.is_stream {
            return Err(format!("`search`: {name} has no complete values, because it arrives in pieces; use another buffer or a field").into());
        }
        return Ok(Place::Buffer(buffer));
    }
    let is_it = |(table, field): &(&Table, &Field)| {
        name.split_once('.').is_some_and(|(front, rest)| front == table.name && rest == field.name)
    };
    if let Some((table, field)) = early_fields().find(is_it) {
        return Ok(Place::Field(table, field));
    }
    let mut names: Vec<String> = buffers()
        .filter(|buffer| !buffer.is_stream)
        .map(|buffer| buffer.name.to_owned())
        .chain(early_fields().map(|(table, field)| format!("{}.{}", table.name, field.name)))
        .collect();
    names.sort_unstable();
    names.dedup();
    Err(format!("`search`: in = `{name}` is none of {}", names.join(", ")).into())
}

/// The bytes of a text with hexadecimal digits between bars.
fn bytes_of(text: &str) -> Result<Vec<u8>, CallError> {
    let wrong = || {
        CallError::from(format!(
            "`search`: for = `{text}`: expected pairs of hexadecimal digits between bars, such as |0d 0a|"
        ))
    };
    let mut bytes = Vec::new();
    for (at, part) in text.split('|').enumerate() {
        if at % 2 == 0 {
            bytes.extend_from_slice(part.as_bytes());
            continue;
        }
        let digits: Vec<u8> = part.bytes().filter(|byte| *byte != b' ').collect();
        for pair in digits.chunks(2) {
            let pair = std::str::from_utf8(pair)
                .ok()
                .filter(|pair| pair.len() == 2 && pair.bytes().all(|digit| digit.is_ascii_hexdigit()));
            bytes.push(pair.and_then(|pair| u8::from_str_radix(pair, 16).ok()).ok_or_else(wrong)?);
        }
    }
    if text.split('|').count().is_multiple_of(2) {
        return Err(wrong());
    }
    match bytes.len() {
        1..=MAX_TEXT => Ok(bytes),
        length => Err(format!("`search`: for has {length} bytes; expected 1 to {MAX_TEXT}").into()),
    }
}

impl Searched {
    /// Whether the text occurs in a value.
    fn is_in(&self, value: &Value<'_>) -> bool {
        match value {
            Value::Text(text) => self.search.is_in(text),
            Value::List(values) => values.iter().any(|value| self.is_in(value)),
            _ => false,
        }
    }
}

impl Select for Searched {
    fn keeps(&self, item: &Item<'_>) -> bool {
        match (&self.place, item) {
            (Place::Buffer(buffer), Item::Buffer(_, of, _, bytes)) => {
                buffer == of && self.search.is_in(bytes)
            }
            (Place::Field(table, field), Item::Field(_, of, name, value)) => {
                table == of && std::ptr::eq(*field, *name) && self.is_in(value)
            }
            _ => false,
        }
    }

    fn demand(&self) -> Option<Demand> {
        Some(match self.place {
            Place::Buffer(buffer) => Demand { buffers: vec![buffer], ..Demand::default() },
            Place::Field(table, _) => Demand { fields: Tables::Some(vec![table]), ..Demand::default() },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_api::FunctionCall;
    use weir_filter::Options;

    fn call(place: &str, text: &str, level: Level) -> Result<Arc<dyn Select>, CallError> {
        let call = FunctionCall::new("search").with("in", place).with("for", text);
        SEARCH.call(&call, level, &Options::default(), 1_u64)
    }

    #[test]
    fn wrong_calls_are_named() {
        let error = |place: &str, text: &str, level| call(place, text, level).err().unwrap().message;
        assert!(error("http.uri", "x", Level::Packet).contains("packet level"));
        assert!(error("http.url", "|0d0|", Level::Stream).contains("hexadecimal"));
        assert!(error("http.uri", "a|0d", Level::Stream).contains("hexadecimal"));
        assert!(error("http.uri", "|+1|", Level::Stream).contains("hexadecimal"));
        assert!(error("http.uri", "", Level::Stream).contains("0 bytes"));
        assert!(error("http.uri", &"x".repeat(256), Level::Stream).contains("256 bytes"));
        assert!(error("http.request_body", "x", Level::Stream).contains("pieces"));
        let names = error("http.ury", "x", Level::Stream);
        assert!(names.contains("http.uri,") && names.contains("smtp.mail_from"), "{names}");
        // It is known only with the record.
        assert!(error("dns.rtt", "x", Level::Stream).contains("none of"));
        assert!(call("dns.query", "example", Level::Stream).is_ok());
    }

    #[test]
    fn bytes_and_letters_are_found_in_any_case() {
        assert_eq!(bytes_of("a|0D 0a|b").unwrap(), b"a\r\nb");
        let search = |text: &str| Searched {
            place: Place::Buffer(buffers().next().unwrap()),
            search: Search::new(Text::new(text, false)),
        };
        let value = Value::list(["one", "Two Three"]);
        assert!(search("tWO").is_in(&value) && !search("four").is_in(&value));
        assert!(!search("1").is_in(&Value::Uint(1)));
    }
}
