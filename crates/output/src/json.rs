//! JSON objects written member by member, directly to their destination.
//!
//! Serde's flattened maps, or a tree of values, cost microseconds per row for a structure that is known beforehand.
//! Text from outside is escaped by serde_json.

use crate::format::{push_address, push_full_address, push_number};
use std::net::IpAddr;
use weir_proto::lossless;

/// An object that is being written. Its keys need no escaping.
pub struct Object<'o> {
    out: &'o mut Vec<u8>,
    is_begun: bool,
}

impl<'o> Object<'o> {
    /// Appends an object.
    pub fn write(out: &'o mut Vec<u8>, members: impl FnOnce(&mut Object<'_>)) {
        out.push(b'{');
        members(&mut Object { out, is_begun: false });
        out.push(b'}');
    }

    /// Begins a member; the caller appends its value.
    pub fn member(&mut self, key: &str) -> &mut Vec<u8> {
        if std::mem::replace(&mut self.is_begun, true) {
            self.out.push(b',');
        }
        self.out.push(b'"');
        self.out.extend_from_slice(key.as_bytes());
        self.out.extend_from_slice(b"\":");
        self.out
    }

    /// Begins a member whose key is from outside; the caller appends its value.
    pub fn named(&mut self, key: &[u8]) -> &mut Vec<u8> {
        if std::mem::replace(&mut self.is_begun, true) {
            self.out.push(b',');
        }
        push_text(self.out, key);
        self.out.push(b':');
        self.out
    }

    /// Writes a nested object.
    pub fn object(&mut self, key: &str, members: impl FnOnce(&mut Object<'_>)) {
        Object::write(self.member(key), members);
    }

    /// A number.
    pub fn number(&mut self, key: &str, number: impl Into<u64>) {
        push_number(self.member(key), number.into());
    }

    /// Yes or no.
    pub fn flag(&mut self, key: &str, yes: bool) {
        self.member(key).extend_from_slice(if yes { b"true" } else { b"false" });
    }

    /// Writes a text that needs no escaping: `write` appends it between the quotes.
    pub fn ours(&mut self, key: &str, write: impl FnOnce(&mut Vec<u8>)) {
        let out = self.member(key);
        out.push(b'"');
        write(out);
        out.push(b'"');
    }

    /// A word that needs no escaping.
    pub fn word(&mut self, key: &str, word: &str) {
        self.ours(key, |out| out.extend_from_slice(word.as_bytes()));
    }

    /// An address.
    pub fn address(&mut self, key: &str, address: IpAddr) {
        self.ours(key, |out| push_address(out, address));
    }

    /// A member with an address as Suricata writes it.
    pub fn full_address(&mut self, key: &str, address: IpAddr) {
        self.ours(key, |out| push_full_address(out, address));
    }
}

/// Appends text from outside, in quotes; bytes that are not UTF-8 are escaped as in [`lossless`].
pub fn push_text(out: &mut Vec<u8>, text: &[u8]) {
    let is_plain = |byte: &u8| matches!(byte, b' '..=b'~') && !matches!(byte, b'"' | b'\\');
    if text.iter().all(is_plain) {
        out.push(b'"');
        out.extend_from_slice(text);
        out.push(b'"');
    } else {
        // Writing into memory does not fail.
        let _ = serde_json::to_writer(out, &lossless(text));
    }
}

/// Appends values in brackets, separated by commas.
pub fn push_list<T>(
    out: &mut Vec<u8>,
    values: impl IntoIterator<Item = T>,
    mut push: impl FnMut(&mut Vec<u8>, T),
) {
    out.push(b'[');
    for (at, value) in values.into_iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        push(out, value);
    }
    out.push(b']');
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn an_object_is_read_back_unchanged() {
        let mut out = Vec::new();
        Object::write(&mut out, |object| {
            object.number("n", 7_u8);
            object.object("empty", |_| {});
            object.object("inner", |inner| {
                inner.flag("yes", true);
                push_text(inner.member("text"), b"a\"b\\\n\xff\x01\xc3\xa9");
                push_list(inner.member("list"), [1_u64, 2], push_number);
            });
            object.address("ip", "192.0.2.1".parse().unwrap());
        });
        let value: Value = serde_json::from_slice(&out).unwrap();
        let text = "a\"b\\\n\\xff\u{1}é";
        assert_eq!(
            value,
            json!({"n": 7, "empty": {}, "inner": {"yes": true, "text": text, "list": [1, 2]}, "ip": "192.0.2.1"})
        );
    }

    #[test]
    fn every_byte_is_escaped_as_serde_does() {
        for byte in 0..=u8::MAX {
            let mut out = Vec::new();
            push_text(&mut out, &[b'a', byte]);
            assert_eq!(out, serde_json::to_vec(&lossless(&[b'a', byte])).unwrap());
        }
    }
}
