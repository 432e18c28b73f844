//! The definition of a protocol: one value, from which everything else is derived.

use crate::{Buffer, Heads, Parser, Probe, Setup};

/// A protocol.
#[derive(Debug)]
pub struct Protocol {
    /// Its name in filters, logs, rules and the manual.
    pub name: &'static str,
    /// One line for the manual, with the document that defines it.
    pub help: &'static str,
    /// Its transport protocols.
    pub transport: Transport,
    /// Its usual ports. They determine which protocols are probed first, and decide between protocols that begin
    /// alike; the payload decides the rest.
    pub ports: &'static [u16],
    /// Whether the payload so far belongs to this protocol.
    pub probe: fn(&Heads<'_>) -> Probe,
    /// A parser for a new flow.
    pub parser: fn(&Setup) -> Box<dyn Parser>,
    /// The tables of its parser, without tables that many protocols share ([`crate::SHARED_TABLES`]).
    pub tables: &'static [&'static Table],
    /// The buffers that its parser emits.
    pub buffers: &'static [&'static Buffer],
}

/// The transport protocols of an application protocol.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Transport {
    /// TCP streams.
    Tcp,
    /// UDP datagrams.
    Udp,
    /// Either.
    Both,
}

/// The number of TCP among IP protocols.
pub const TCP: u8 = 6;
/// The number of UDP among IP protocols.
pub const UDP: u8 = 17;

impl Transport {
    /// Whether an IP protocol is among them.
    pub fn covers(self, ip_proto: u8) -> bool {
        match self {
            Self::Tcp => ip_proto == TCP,
            Self::Udp => ip_proto == UDP,
            Self::Both => ip_proto == TCP || ip_proto == UDP,
        }
    }
}

/// A kind of record, with its own log.
#[derive(Debug)]
pub struct Table {
    /// Its name: of the log, and of the table in the HTTP interface and in expressions.
    pub name: &'static str,
    /// One line for the manual: what a record describes.
    pub help: &'static str,
    /// Zeek's log with these rows, without `.log`; "" if Zeek has none.
    pub zeek: &'static str,
    /// Suricata's event type; "" if it has none.
    pub eve: &'static str,
    /// Its fields, in the order of the log; the columns of the flow precede them.
    pub fields: &'static [Field],
}

/// A field of a table. [`field`] and the methods after it create one.
#[derive(Debug)]
pub struct Field {
    /// Its name: the log column and the field in expressions.
    pub name: &'static str,
    /// The type of its values.
    pub kind: Kind,
    /// One line for the manual.
    pub help: &'static str,
    /// Column of Zeek's log; "" if Zeek has none.
    pub zeek: &'static str,
    /// Path in Suricata's event, keys joined by points (`http.hostname`); "" if it has none.
    pub eve: &'static str,
    /// The private information in its values, for published outputs.
    pub privacy: Privacy,
    /// Whether it needs the body of a message: see [`crate::Wants::passes_bodies`].
    pub of_body: bool,
}

/// Kinds of values.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// Yes or no.
    Bool,
    /// A number.
    Uint,
    /// A number that can be below zero.
    Int,
    /// A number with a fraction.
    Real,
    /// A point in time.
    Time,
    /// A duration.
    Duration,
    /// Bytes as captured, usually text.
    Text,
    /// One of a few fixed words.
    Word,
    /// An address.
    Address,
    /// A port.
    Port,
    /// A list of values of one kind. Zeek's `vector`.
    List(&'static Kind),
    /// A list without order or repetition. Zeek's `set`.
    Set(&'static Kind),
    /// Rows with their own fields. A log with columns omits them, so that it needs another field for their content.
    Rows(&'static [Field]),
}

/// The private information in a value. The anonymiser applies it to every output.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Privacy {
    /// Nothing about a person or host: numbers, keywords of the protocol.
    Plain,
    /// A host or domain name.
    Name,
    /// An address in text; the kind [`Kind::Address`] is always treated as one.
    Address,
    /// A URL or path.
    Url,
    /// A user name.
    User,
    /// A mail address, or several in one text.
    Mail,
    /// A cookie, password, key, token or challenge.
    Secret,
    /// Free text, content, names of files: they may contain anything.
    Content,
    /// A fingerprint or checksum that identifies an object.
    Fingerprint,
}

/// A field that only our own logs have, without private information.
pub const fn field(name: &'static str, kind: Kind, help: &'static str) -> Field {
    Field { name, kind, help, zeek: "", eve: "", privacy: Privacy::Plain, of_body: false }
}

impl Field {
    /// Sets the column of Zeek's log.
    pub const fn zeek(self, column: &'static str) -> Self {
        Self { zeek: column, ..self }
    }

    /// Sets the path in Suricata's event.
    pub const fn eve(self, path: &'static str) -> Self {
        Self { eve: path, ..self }
    }

    /// Marks a field that needs the body of a message.
    pub const fn of_body(self) -> Self {
        Self { of_body: true, ..self }
    }

    /// Sets the private information in the field.
    pub const fn privacy(self, privacy: Privacy) -> Self {
        Self { privacy, ..self }
    }
}
