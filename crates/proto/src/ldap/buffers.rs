//! The texts of a message that rules search, and the numbers that they test. Empty texts are left out, as in Suricata.

use super::message::{MAX_ATTRIBUTES, Message, Said, op};
use crate::ber::{opened, tag};
use crate::{Buffer, Out};
use weir_wire::{Direction, Reader};

static REQUEST: Buffer = Buffer::number("ldap.request.operation", "Operation of a request (RFC 4511, 4.2).");
static RESPONSE: Buffer =
    Buffer::number("ldap.responses.operation", "Operation of a response (RFC 4511, 4.2).");
static RESULT_CODE: Buffer = Buffer::number("ldap.responses.result_code", "Result code of a response.");
static COUNT: Buffer = Buffer::number(
    "ldap.responses.count",
    "Number of responses to a request, with the last one: for a search with its entries and references.",
);
static REQUEST_NAME: Buffer = Buffer::whole(
    "ldap.request.dn",
    "Distinguished name of a request: of the user of a bind, of the base of a search, or of the entry.",
);
static REQUEST_ATTRIBUTE: Buffer = Buffer::whole(
    "ldap.request.attribute_type",
    "Attribute of a search, modification, addition or comparison; each alone, up to 64 of a message.",
);
static RESPONSE_NAME: Buffer = Buffer::whole(
    "ldap.responses.dn",
    "Distinguished name of an entry that is returned, or of the one that a result names (matchedDN).",
);
static RESPONSE_ATTRIBUTE: Buffer = Buffer::whole(
    "ldap.responses.attribute_type",
    "Attribute of an entry that is returned; each alone, up to 64 of a message.",
);
static DIAGNOSTIC: Buffer =
    Buffer::whole("ldap.responses.message", "Diagnostic message of a result (RFC 4511, 4.1.9).");

pub(super) static ALL: &[&Buffer] = &[
    &REQUEST,
    &RESPONSE,
    &RESULT_CODE,
    &COUNT,
    &REQUEST_NAME,
    &REQUEST_ATTRIBUTE,
    &RESPONSE_NAME,
    &RESPONSE_ATTRIBUTE,
    &DIAGNOSTIC,
];

/// Emits what a message that `side` sent has. `before` is the number of earlier responses to its request.
pub(super) fn hand_on(message: &Message<'_>, before: u64, side: Direction, out: &mut dyn Out) {
    // The tag of an operation is its number with the bits of its class and form.
    let number = u64::from(message.op & 0x1f);
    out.emit_number(if side == Direction::Forward { &REQUEST } else { &RESPONSE }, side, number);
    match &message.said {
        Said::Bind { name, .. } => give(&REQUEST_NAME, side, name, out),
        Said::About(entry) => {
            give(&REQUEST_NAME, side, entry, out);
            attributes(&REQUEST_ATTRIBUTE, message, side, out);
        }
        Said::Search(search) => {
            give(&REQUEST_NAME, side, search.base, out);
            search.attributes.iter().for_each(|name| give(&REQUEST_ATTRIBUTE, side, name, out));
        }
        Said::Result(outcome) => {
            out.emit_number(&RESULT_CODE, side, outcome.code);
            out.emit_number(&COUNT, side, before.saturating_add(1));
            give(&RESPONSE_NAME, side, outcome.matched, out);
            give(&DIAGNOSTIC, side, outcome.diagnostic, out);
        }
        Said::Nothing if message.op == op::ENTRY => {
            let name = inner(&mut Reader::new(message.content), tag::BYTES).unwrap_or_default();
            give(&RESPONSE_NAME, side, name, out);
            attributes(&RESPONSE_ATTRIBUTE, message, side, out);
        }
        Said::Nothing | Said::Abandon(_) | Said::Extended(_) => {}
    }
}

fn give(buffer: &'static Buffer, side: Direction, text: &[u8], out: &mut dyn Out) {
    if !text.is_empty() {
        out.emit(buffer, side, text);
    }
}

/// The content of the next value, as far as it is here, if it has this tag.
fn inner<'a>(reader: &mut Reader<'a>, wanted: u8) -> Option<&'a [u8]> {
    opened(reader).filter(|(kind, _)| *kind == wanted).map(|(_, content)| content)
}

/// Emits the names of the attributes in a message about an entry: they follow the name of the entry.
fn attributes(buffer: &'static Buffer, message: &Message<'_>, side: Direction, out: &mut dyn Out) {
    if !out.asked().has(buffer) {
        return;
    }
    let mut reader = Reader::new(message.content);
    let list = inner(&mut reader, tag::BYTES).and_then(|_| inner(&mut reader, tag::SEQUENCE));
    let mut list = Reader::new(list.unwrap_or_default());
    match message.op {
        // One attribute with its value (RFC 4511, 4.10).
        op::COMPARE => give(buffer, side, inner(&mut list, tag::BYTES).unwrap_or_default(), out),
        op::ADD | op::ENTRY | op::MODIFY => {
            for _ in 0..MAX_ATTRIBUTES {
                let Some(member) = inner(&mut list, tag::SEQUENCE) else { return };
                let mut member = Reader::new(member);
                if message.op == op::MODIFY {
                    // The kind of the change precedes the attribute (RFC 4511, 4.6).
                    let changed =
                        inner(&mut member, tag::ENUMERATED).and_then(|_| inner(&mut member, tag::SEQUENCE));
                    member = Reader::new(changed.unwrap_or_default());
                }
                give(buffer, side, inner(&mut member, tag::BYTES).unwrap_or_default(), out);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use crate::laws::talks;
    use weir_wire::Direction::{self, Forward, Reverse};

    /// The values of a buffer in the conversation with each operation, each with its transaction.
    fn found(buffer: &str, side: Direction) -> Vec<String> {
        let (_, talk) =
            talks("ldap", 389).into_iter().find(|(path, _)| path.ends_with("directory.talk")).unwrap();
        let emitted = talk.asked(|data| data.chunks(7).map(<[u8]>::to_vec).collect());
        let found = emitted.numbered(buffer, side).into_iter();
        found.map(|(number, text)| format!("{number} {text}")).collect()
    }

    #[test]
    fn names_and_messages_are_buffers() {
        let requests = [
            "0 cn=admin,dc=example,dc=org",
            // The base of the second search is the root, which has no name.
            "2 dc=example,dc=org",
            "10 uid=ann,ou=people,dc=example,dc=org",
            "12 uid=bob,ou=people,dc=example,dc=org",
            "14 uid=bob,ou=people,dc=example,dc=org",
            "16 uid=rob,ou=people,dc=example,dc=org",
            "18 uid=rob,ou=people,dc=example,dc=org",
            "20 dc=example,dc=org",
        ];
        assert_eq!(found("ldap.request.dn", Forward), requests);
        let responses = [
            "4 uid=ann,ou=people,dc=example,dc=org",
            "7 uid=anne,ou=people,dc=example,dc=org",
            "11 uid=ann,ou=people,dc=example,dc=org",
            "19 dc=example,dc=org",
        ];
        assert_eq!(found("ldap.responses.dn", Reverse), responses);
        let messages = ["9 more than the limit", "11 no write access", "19 gone already"];
        assert_eq!(found("ldap.responses.message", Reverse), messages);
    }

    #[test]
    fn attributes_are_buffers() {
        // Of two searches, a modification, an addition and a comparison.
        let asked = ["2 cn", "2 mail", "3 supportedLDAPVersion", "10 mail", "12 cn", "16 cn"];
        assert_eq!(found("ldap.request.attribute_type", Forward), asked);
        let returned = ["4 cn", "4 mail", "5 supportedLDAPVersion", "7 cn"];
        assert_eq!(found("ldap.responses.attribute_type", Reverse), returned);
    }

    /// The first search has an entry and its result, the second one two entries, a reference and its result.
    #[test]
    fn responses_are_counted_with_the_last_one() {
        let counts = ["1 1", "6 2", "9 4", "11 1", "13 1", "15 1", "17 1", "19 1", "23 1"];
        assert_eq!(found("ldap.responses.count", Reverse), counts);
    }
}
