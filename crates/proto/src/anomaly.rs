//! Messages that are not as they should be.

use crate::{Kind, Privacy, Protocol, Record, Table, Value, field};
use weir_wire::{Direction, Time};

/// An error in a message.
#[derive(Clone, Copy, Debug)]
pub struct Anomaly<'a> {
    /// Its name, in lower case with underscores; each protocol has a fixed number of names.
    pub name: &'static str,
    /// The sending side.
    pub direction: Direction,
    /// The bytes in question, or what else helps to understand it; cut to [`Anomaly::DETAIL`] bytes.
    pub detail: &'a [u8],
}

/// Malformed messages, met limits, and what else a protocol does not allow.
pub static ANOMALY: Table = Table {
    name: "anomaly",
    help: "A message that is malformed, or beyond a limit.",
    zeek: "weird",
    eve: "anomaly",
    fields: &[
        field("protocol", Kind::Word, "The protocol in which it was said.").eve("anomaly.app_proto"),
        field("source", Kind::Word, "The protocol as Zeek calls its parser.").zeek("source"),
        field("name", Kind::Word, "What is wrong.").zeek("name").eve("anomaly.event"),
        field("reverse", Kind::Bool, "Whether the responder sent it."),
        field("detail", Kind::Text, "The bytes in question.").zeek("addl").privacy(Privacy::Content),
    ],
};

impl<'a> Anomaly<'a> {
    /// Longest detail in bytes.
    pub const DETAIL: usize = 64;

    /// As a record.
    pub fn record(&self, time: Time, protocol: &'static Protocol) -> Record<'a> {
        let detail = self.detail.get(..Self::DETAIL).unwrap_or(self.detail);
        let detail = if detail.is_empty() { Value::None } else { detail.into() };
        let reverse = self.direction == Direction::Reverse;
        let values = vec![
            protocol.name.into(),
            parser(protocol.name).into(),
            self.name.into(),
            reverse.into(),
            detail,
        ];
        Record { table: &ANOMALY, time, values }
    }
}

/// Zeek's name for its parser of a protocol; most names are equal.
fn parser(name: &str) -> String {
    if name == "tls" { "SSL".to_owned() } else { name.to_ascii_uppercase() }
}
