//! The names of a message that rules search, and the numbers that they test.

use super::wire::{Message, Section, kind};
use crate::{Buffer, Out};
use weir_wire::Direction;

/// Names in questions of requests.
pub(super) static QUERY: Buffer =
    Buffer::whole("dns.query", "Name in a question, as sent; each question of a message alone.");

/// Numbers of messages of DNS itself.
static OPCODE: Buffer = Buffer::number("dns.opcode", "Operation in the header of a message.");
static RCODE: Buffer = Buffer::number("dns.rcode", "Code in the header of a message, 0 to 15.");
static RRTYPE: Buffer = Buffer::number(
    "dns.rrtype",
    "Type of a question of a request, or of a record in the answer section; each alone.",
);

/// The buffers of a protocol with this message format. Each name is a value.
pub(super) struct Names {
    queries: Buffer,
    answers: Buffer,
    authorities: Buffer,
    additionals: Buffer,
    response: Buffer,
}

macro_rules! names {
    ($names:ident, $all:ident, $protocol:literal, [$($first:expr),*]) => {
        pub(super) static $names: Names = Names {
            queries: Buffer::whole(
                concat!($protocol, ".queries.rrname"),
                "Name of a question of a request or response, as sent.",
            ),
            answers: Buffer::whole(
                concat!($protocol, ".answers.rrname"),
                "Name of a record in the answer section, as sent.",
            ),
            authorities: Buffer::whole(
                concat!($protocol, ".authorities.rrname"),
                "Name of a record in the authority section, as sent.",
            ),
            additionals: Buffer::whole(
                concat!($protocol, ".additionals.rrname"),
                "Name of a record in the additional section, as sent.",
            ),
            response: Buffer::whole(
                concat!($protocol, ".response.rrname"),
                "Name in a response: of a question, of a record, or in the data of CNAME, MX, NS, PTR and SOA (MNAME).",
            ),
        };
        pub(super) static $all: &[&Buffer] = &[
            $($first,)*
            &$names.queries,
            &$names.answers,
            &$names.authorities,
            &$names.additionals,
            &$names.response,
        ];
    };
}

names!(PLAIN, ALL_PLAIN, "dns", [&QUERY, &OPCODE, &RCODE, &RRTYPE]);
names!(MULTICAST, ALL_MULTICAST, "mdns", []);
names!(LINK_LOCAL, ALL_LINK_LOCAL, "llmnr", []);

/// Emits a name. The root, which is empty, is left out, as in Suricata.
fn give(buffer: &'static Buffer, side: Direction, name: &[u8], out: &mut dyn Out) {
    if !name.is_empty() {
        out.buffer(buffer, side, name);
    }
}

/// Hands on the names and the numbers of a message that `side` sent.
pub(super) fn hand_on(names: &'static Names, message: &Message, side: Direction, out: &mut dyn Out) {
    let asked = out.asked();
    if !asked.has_buffers() {
        return;
    }
    let is_response = message.header.is_response();
    let of_plain = std::ptr::eq(names, &PLAIN);
    if of_plain {
        numbers(message, side, out);
    }
    for (buffer, is_wanted) in [(&QUERY, of_plain && !is_response), (&names.queries, true)] {
        if is_wanted && asked.has(buffer) {
            for question in &message.questions {
                give(buffer, side, message.text(question.name), out);
            }
        }
    }
    let sections = [
        (&names.answers, Section::Answer),
        (&names.authorities, Section::Authority),
        (&names.additionals, Section::Additional),
    ];
    for (buffer, section) in sections.into_iter().filter(|(buffer, _)| asked.has(buffer)) {
        for record in message.records.iter().filter(|record| record.section == section) {
            give(buffer, side, message.text(record.name), out);
        }
    }
    if is_response && asked.has(&names.response) {
        of_response(&names.response, message, side, out);
    }
}

/// Hands on the numbers of a message: of a request the types of its questions, of a response those of its answers, as in
/// Suricata's `dns.rrtype`.
fn numbers(message: &Message, side: Direction, out: &mut dyn Out) {
    let header = message.header;
    out.emit_number(&OPCODE, side, header.opcode().into());
    out.emit_number(&RCODE, side, header.rcode().into());
    if !out.asked().has(&RRTYPE) {
        return;
    }
    if header.is_response() {
        for record in message.records.iter().filter(|record| record.section == Section::Answer) {
            out.emit_number(&RRTYPE, side, record.kind.into());
        }
    } else {
        message.questions.iter().for_each(|question| out.emit_number(&RRTYPE, side, question.kind.into()));
    }
}

/// Hands on every name of a response. The types whose data counts are those of Suricata's `dns.response.rrname`.
fn of_response(buffer: &'static Buffer, message: &Message, side: Direction, out: &mut dyn Out) {
    for question in &message.questions {
        give(buffer, side, message.text(question.name), out);
    }
    for record in &message.records {
        give(buffer, side, message.text(record.name), out);
        let has_name = matches!(record.kind, kind::CNAME | kind::MX | kind::NS | kind::PTR | kind::SOA);
        if let Some(name) = record.target().filter(|_| has_name) {
            give(buffer, side, message.text(name), out);
        }
    }
}
