//! What parsers emit before a transaction ends: values of fields as soon as they are known, and the bytes of
//! buffers, raw or normalised.
//!
//! A record comes when its transaction is over, in the form of logs. Rules, cases and triggers need what they look at
//! when it passes: the recipient of a mail before its text, the path of a request before its body. A parser asks
//! [`Out::asked`](crate::Out::asked) first, and does nothing for a table or buffer that nothing reads.

use crate::hex::hex;
use crate::{Field, Out, Protocol, Record, Table, Value, all_buffers, tables};
use md5::{Digest, Md5};
use std::sync::OnceLock;
use weir_wire::Direction;

/// Bytes of a message that rules search, as sent or in a normalised form, or a number of it that rules test.
#[derive(Debug)]
pub struct Buffer {
    /// Its name in rules, which begins with the protocol, `http.uri`, or with one of [`PREFIXES`]: `ja3.hash`. Those of
    /// [`crate::SHARED_BUFFERS`] begin with `file` or `email`.
    pub name: &'static str,
    /// One line for the manual.
    pub help: &'static str,
    /// Whether its bytes come in pieces, in order: a body. An empty piece ends them. Otherwise each call has one whole
    /// value.
    pub is_stream: bool,
    /// Whether each value is a number: 8 bytes, the most significant one first.
    pub is_number: bool,
    /// Its position among [`all_buffers`], or [`NOWHERE`]. Parsers ask for it several times a message, so it is found once.
    place: OnceLock<u16>,
}

/// The position of a buffer or table that no protocol has: more than [`Asked`] has bits.
const NOWHERE: u16 = u16::MAX;

/// The first words of names of buffers that are not the name of their protocol, each with that protocol. Rules use these
/// words: names of a fingerprint, of a message format, or of the protocol in Suricata.
pub static PREFIXES: &[(&str, &str)] = &[
    ("dcerpc", "dce_rpc"),
    ("ja3", "tls"),
    ("ja3s", "tls"),
    ("ja4", "tls"),
    ("krb5", "kerberos"),
    ("sdp", "sip"),
];

impl Eq for Buffer {}

impl PartialEq for Buffer {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Buffer {
    /// A buffer whose values come whole.
    pub(crate) const fn whole(name: &'static str, help: &'static str) -> Self {
        Self { name, help, is_stream: false, is_number: false, place: OnceLock::new() }
    }

    /// A buffer whose bytes come in pieces.
    pub(crate) const fn stream(name: &'static str, help: &'static str) -> Self {
        Self { name, help, is_stream: true, is_number: false, place: OnceLock::new() }
    }

    /// A buffer whose values are numbers.
    pub(crate) const fn number(name: &'static str, help: &'static str) -> Self {
        Self { name, help, is_stream: false, is_number: true, place: OnceLock::new() }
    }

    /// The protocol that has it; none for one of [`crate::SHARED_BUFFERS`].
    pub fn protocol(&'static self) -> Option<&'static Protocol> {
        crate::PROTOCOLS.iter().find(|protocol| protocol.buffers.contains(&self)).copied()
    }

    /// Its position among [`all_buffers`], or [`NOWHERE`].
    #[inline]
    fn place(&self) -> u16 {
        *self.place.get_or_init(|| {
            let place = all_buffers().position(|known| known == self);
            place.and_then(|place| u16::try_from(place).ok()).unwrap_or(NOWHERE)
        })
    }
}

/// The position of a table in [`tables`], or [`NOWHERE`]. It is searched by address: a table cannot keep its position as a
/// buffer does, because constants read tables.
fn place_of(table: &Table) -> u16 {
    static PLACES: OnceLock<Vec<(usize, u16)>> = OnceLock::new();
    let address = |table: &Table| std::ptr::from_ref(table).addr();
    let places = PLACES.get_or_init(|| {
        let mut places: Vec<(usize, u16)> = tables().map(address).zip(0..NOWHERE).collect();
        places.sort_unstable();
        // A table of several protocols has its first position.
        places.dedup_by_key(|(address, _)| *address);
        places
    });
    let found = places.binary_search_by_key(&address(table), |(address, _)| *address);
    found.ok().and_then(|at| places.get(at)).map_or(NOWHERE, |(_, place)| *place)
}

/// The bit of a position.
#[inline]
fn bit(place: u16) -> u128 {
    1_u128.checked_shl(place.into()).unwrap_or(0)
}

/// The bits of a position of a buffer.
#[inline]
fn bits(place: u16) -> [u128; 2] {
    [bit(place), place.checked_sub(128).map_or(0, bit)]
}

/// The tables whose fields are asked for early, and the buffers that are asked for, as bits by their positions in
/// [`tables`] and those that rules read. Computed once for a plan.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Asked {
    tables: u128,
    buffers: [u128; 2],
}

impl Asked {
    /// Nothing.
    pub const NONE: Self = Self { tables: 0, buffers: [0; 2] };

    /// Asks for fields of these tables and for these buffers.
    pub fn of<'a>(
        asked_tables: impl IntoIterator<Item = &'a Table>,
        asked_buffers: impl IntoIterator<Item = &'a Buffer>,
    ) -> Self {
        Self {
            tables: asked_tables.into_iter().map(|table| bit(place_of(table))).fold(0, |all, bit| all | bit),
            buffers: asked_buffers
                .into_iter()
                .map(|buffer| bits(buffer.place()))
                .fold([0; 2], |[low, high], [of_low, of_high]| [low | of_low, high | of_high]),
        }
    }

    /// Everything.
    pub fn all() -> Self {
        Self::of(tables(), all_buffers())
    }

    /// Whether fields of a table are asked for.
    #[inline]
    pub fn has_table(self, table: &Table) -> bool {
        self.tables != 0 && self.tables & bit(place_of(table)) != 0
    }

    /// Whether any buffer is asked for.
    #[inline]
    pub fn has_buffers(self) -> bool {
        self.buffers != [0; 2]
    }

    /// Whether a buffer is asked for.
    #[inline]
    pub fn has(self, buffer: &Buffer) -> bool {
        if !self.has_buffers() {
            return false;
        }
        let ([low, high], [of_low, of_high]) = (self.buffers, bits(buffer.place()));
        low & of_low != 0 || high & of_high != 0
    }
}

/// The fields with text that parsers emit before the record: the name of the table, and names of fields.
const EARLY: [(&str, &[&str]); 8] = [
    ("dns", &["proto", "query", "class_name", "type_name", "opcode_name"]),
    ("ftp_command", &["command", "argument"]),
    (
        "http",
        &[
            "method",
            "host",
            "hostname",
            "uri",
            "url",
            "referrer",
            "protocol",
            "user_agent",
            "origin",
            "username",
            "password",
            "proxied",
            "forwarded_for",
            "request_content_type",
            "authorization",
            "cookie",
            "version",
            "status_string",
            "status_msg",
            "content_type",
            "range",
            "redirect",
            "server",
            "set_cookie",
        ],
    ),
    ("irc", &["nick", "user", "command", "value", "addition"]),
    (
        "sip",
        &[
            "method",
            "uri",
            "date",
            "request_from",
            "request_to",
            "reply_to",
            "call_id",
            "seq",
            "subject",
            "user_agent",
        ],
    ),
    ("smtp", &["mail_from", "helo", "rcpt_to", "date", "from", "message_id", "subject"]),
    ("ssh", &["client", "client_version", "client_software", "server", "server_version", "server_software"]),
    ("tls", &["server_name", "ja3", "ja4", "subject", "issuer"]),
];

/// The fields with text that parsers emit before the record, each with its table.
pub fn early_fields() -> impl Iterator<Item = (&'static Table, &'static Field)> {
    let of_table = |table: &'static Table| {
        let names = EARLY.iter().find(|(name, _)| *name == table.name).map_or(&[][..], |(_, names)| names);
        table.fields.iter().filter(|field| names.contains(&field.name)).map(move |field| (table, field))
    };
    tables().flat_map(of_table)
}

/// Takes note that the next buffers of `side` belong to the transaction with this number, if any buffer is asked for.
pub(crate) fn begin_transaction(side: Direction, number: u64, out: &mut dyn Out) {
    if out.asked().has_buffers() {
        out.transaction(side, number);
    }
}

/// Emits a text and its MD5 in lower-case hexadecimal digits, each if it is asked for. The text is made only then.
pub(crate) fn emit_fingerprint(
    [hash, text]: [&'static Buffer; 2],
    value: impl FnOnce() -> Vec<u8>,
    side: Direction,
    out: &mut dyn Out,
) {
    let asked = out.asked();
    if asked.has(hash) || asked.has(text) {
        let value = value();
        if asked.has(hash) {
            out.buffer(hash, side, hex(&Md5::digest(&value)).as_bytes());
        }
        out.emit(text, side, &value);
    }
}

impl Record<'_> {
    /// Hands on the values of the fields at these positions, as far as they are known.
    pub(crate) fn hand_on(&self, places: &[usize], out: &mut dyn Out) {
        for at in places {
            let value = self.values.get(*at).cloned().unwrap_or_default();
            hand_on(self.table, *at, value, out);
        }
    }
}

/// Hands on the value of the field at a position, if there is one.
pub(crate) fn hand_on(table: &'static Table, at: usize, value: Value<'_>, out: &mut dyn Out) {
    if let Some(field) = table.fields.get(at).filter(|_| !value.is_none()) {
        out.field(table, field, value);
    }
}

/// Hands on values of a table's fields, if they are asked for: `early!(out, SMTP, mail_from = text)`, or those of a
/// record that is not complete yet: `early!(out, HTTP, of { record } method, uri)`.
macro_rules! early {
    ($out:expr, $table:ident, of { $record:expr } $($name:ident),+ $(,)?) => {
        if $out.asked().has_table(&$table) {
            $record.hand_on(const { &[$($table.at(stringify!($name))),+] }, $out);
        }
    };
    ($out:expr, $table:ident, $($name:ident = $value:expr),+ $(,)?) => {
        if $out.asked().has_table(&$table) {
            $({
                let at = const { $table.at(stringify!($name)) };
                $crate::early::hand_on(&$table, at, $crate::Value::from($value), $out);
            })+
        }
    };
}
pub(crate) use early;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_buffer_and_table_has_its_own_bit() {
        for asked in all_buffers() {
            let only = Asked::of([], [asked]);
            let has: Vec<_> = all_buffers().filter(|buffer| only.has(buffer)).collect();
            assert!(has.iter().all(|buffer| *buffer == asked) && !has.is_empty(), "{}", asked.name);
            assert!(only.has_buffers() && !tables().any(|table| only.has_table(table)), "{}", asked.name);
        }
        for asked in tables() {
            let only = Asked::of([asked], []);
            let has: Vec<_> = tables().filter(|table| only.has_table(table)).collect();
            assert!(has.iter().all(|table| *table == asked) && !has.is_empty(), "{}", asked.name);
            assert!(!only.has_buffers(), "{}", asked.name);
        }
    }

    #[test]
    fn what_no_protocol_has_is_not_asked_for() {
        static FOREIGN: Buffer = Buffer::whole("foreign", "No protocol has it.");
        let table = Table { name: "foreign", help: "No protocol has it.", zeek: "", eve: "", fields: &[] };
        assert!(!Asked::all().has(&FOREIGN) && !Asked::all().has_table(&table));
        assert_eq!(Asked::of([&table], [&FOREIGN]), Asked::NONE);
    }
}
