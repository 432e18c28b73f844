//! Malformed messages and exceeded limits.

use crate::{Kind, Out, Privacy, Protocol, Record, Table, Value, field};
use weir_wire::{Direction, Time};

/// An error in a message.
#[derive(Clone, Copy, Debug)]
pub struct Anomaly<'a> {
    /// Its name, in lower case with underscores; each protocol has a fixed set of names.
    pub name: &'static str,
    /// The sending side.
    pub direction: Direction,
    /// The bytes concerned, or other detail of the error; truncated to [`Anomaly::DETAIL`] bytes.
    pub detail: &'a [u8],
}

/// Malformed messages, exceeded limits, and other violations of a protocol.
pub static ANOMALY: Table = Table {
    name: "anomaly",
    help: "A message that is malformed or exceeds a limit.",
    zeek: "weird",
    eve: "anomaly",
    fields: &[
        field("protocol", Kind::Word, "Protocol of the flow, by our name.").eve("anomaly.app_proto"),
        field("source", Kind::Word, "Protocol of the flow, by the name of Zeek's parser.").zeek("source"),
        field("name", Kind::Word, "Name of the error.").zeek("name").eve("anomaly.event"),
        field("reverse", Kind::Bool, "Whether the responder sent the message."),
        field("detail", Kind::Text, "Bytes that caused the error, at most 64.")
            .zeek("addl")
            .privacy(Privacy::Content),
    ],
};

impl<'a> Anomaly<'a> {
    /// Maximum length of a detail in bytes.
    pub const DETAIL: usize = 64;

    /// The anomaly as a record.
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

impl Protocol {
    /// Emits a record about a malformed or excessive message, with the name, the side and the bytes of an [`Anomaly`].
    pub fn emit_anomaly(
        &'static self,
        name: &'static str,
        direction: Direction,
        detail: &[u8],
        time: Time,
        out: &mut dyn Out,
    ) {
        out.record(Anomaly { name, direction, detail }.record(time, self));
    }
}

/// Zeek's name for its parser of a protocol; most names are equal.
fn parser(name: &str) -> String {
    if name == "tls" { "SSL".to_owned() } else { name.to_ascii_uppercase() }
}
