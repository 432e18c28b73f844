//! Messages of LDAP (RFC 4511, 4.1.1) as they are sent, and how one is told from other bytes.

use super::filter;
use crate::ber::{self, expect, integer, opened, tag, value};
use crate::lossless;
use crate::messages::Length;
use crate::sought::Begun;
use weir_wire::{Direction, Reader};

/// Maximum length of a message in bytes: servers limit the requests that they take to fewer.
const MAX_MESSAGE: usize = 256 << 20;
/// Maximum length of an encrypted or signed message in bytes (RFC 4422, 3.7).
const MAX_BUFFER: usize = 16 << 20;
/// Maximum number of attributes of one search.
pub(super) const MAX_ATTRIBUTES: usize = 64;

/// Identifier of the extended operation that begins TLS (RFC 4511, 4.14.1).
pub(super) const START_TLS: &[u8] = b"1.3.6.1.4.1.1466.20037";

/// Tags of operations.
pub(super) mod op {
    pub const BIND: u8 = 0x60;
    pub const BIND_RESPONSE: u8 = 0x61;
    pub const UNBIND: u8 = 0x42;
    pub const SEARCH: u8 = 0x63;
    pub const ENTRY: u8 = 0x64;
    pub const SEARCH_DONE: u8 = 0x65;
    pub const MODIFY: u8 = 0x66;
    pub const MODIFY_RESPONSE: u8 = 0x67;
    pub const ADD: u8 = 0x68;
    pub const ADD_RESPONSE: u8 = 0x69;
    pub const DELETE: u8 = 0x4a;
    pub const DELETE_RESPONSE: u8 = 0x6b;
    pub const MODIFY_NAME: u8 = 0x6c;
    pub const MODIFY_NAME_RESPONSE: u8 = 0x6d;
    pub const COMPARE: u8 = 0x6e;
    pub const COMPARE_RESPONSE: u8 = 0x6f;
    pub const ABANDON: u8 = 0x50;
    pub const REFERENCE: u8 = 0x73;
    pub const EXTENDED: u8 = 0x77;
    pub const EXTENDED_RESPONSE: u8 = 0x78;
    pub const INTERMEDIATE: u8 = 0x79;
}

/// A message.
pub(super) struct Message<'a> {
    pub id: u64,
    pub op: u8,
    /// What follows the operation's tag and length, as far as it is here.
    pub content: &'a [u8],
    pub said: Said<'a>,
}

/// What a message says.
pub(super) enum Said<'a> {
    Bind {
        version: u64,
        name: &'a [u8],
        login: Login<'a>,
    },
    Search(Box<Search<'a>>),
    /// A request about an entry.
    About(&'a [u8]),
    Abandon(u64),
    /// A request by its object identifier.
    Extended(&'a [u8]),
    /// Unbind, and responses of which only the kind counts.
    Nothing,
    Result(Outcome<'a>),
}

/// How a client wants to be authenticated.
pub(super) enum Login<'a> {
    /// Whether there is a password.
    Simple(bool),
    Sasl {
        mechanism: &'a [u8],
        credentials: &'a [u8],
    },
    /// The three steps of Microsoft's Sicily by their tag (MS-ADTS, 5.1.1.1.3), with a message of NTLM.
    Sicily(u8, &'a [u8]),
    Unknown,
}

pub(super) struct Search<'a> {
    pub base: &'a [u8],
    pub scope: u64,
    pub aliases: u64,
    pub filter: Option<String>,
    pub attributes: Vec<&'a [u8]>,
}

/// A result (RFC 4511, 4.1.9) with what follows it.
pub(super) struct Outcome<'a> {
    pub code: u64,
    /// Name of the entry that was found last.
    pub matched: &'a [u8],
    pub diagnostic: &'a [u8],
    /// Credentials of the server in the response to a bind.
    pub credentials: &'a [u8],
    /// Name of an extended response.
    pub name: &'a [u8],
}

fn number(bytes: &[u8]) -> Option<u64> {
    integer(bytes).and_then(|number| u64::try_from(number).ok())
}

impl<'a> Message<'a> {
    /// Reads a message, of which the end may be missing.
    pub fn read(bytes: &'a [u8]) -> Option<Self> {
        let (_, body) = opened(&mut Reader::new(bytes)).filter(|(kind, _)| *kind == tag::SEQUENCE)?;
        let mut body = Reader::new(body);
        let id = number(expect(&mut body, tag::INTEGER)?)?;
        let (op, content) = opened(&mut body)?;
        Some(Self { id, op, content, said: said(op, content)? })
    }
}

fn said(op: u8, content: &[u8]) -> Option<Said<'_>> {
    let mut reader = Reader::new(content);
    Some(match op {
        op::BIND => {
            let version = number(expect(&mut reader, tag::INTEGER)?)?;
            let name = expect(&mut reader, tag::BYTES)?;
            Said::Bind { version, name, login: login(&mut reader).unwrap_or(Login::Unknown) }
        }
        op::SEARCH => Said::Search(Box::new(search(&mut reader)?)),
        op::MODIFY | op::ADD | op::MODIFY_NAME | op::COMPARE => Said::About(expect(&mut reader, tag::BYTES)?),
        op::DELETE => Said::About(content),
        op::ABANDON => Said::Abandon(number(content)?),
        op::EXTENDED => Said::Extended(expect(&mut reader, 0x80)?),
        op::UNBIND | op::ENTRY | op::REFERENCE | op::INTERMEDIATE => Said::Nothing,
        op if is_result(op) => Said::Result(outcome(&mut reader)?),
        _ => return None,
    })
}

fn login<'a>(reader: &mut Reader<'a>) -> Option<Login<'a>> {
    Some(match opened(reader)? {
        (0x80, password) => Login::Simple(!password.is_empty()),
        (0xa3, sasl) => {
            let mut sasl = Reader::new(sasl);
            let mechanism = expect(&mut sasl, tag::BYTES)?;
            let credentials = opened(&mut sasl).map(|(_, bytes)| bytes).unwrap_or_default();
            Login::Sasl { mechanism, credentials }
        }
        (kind @ 0x89..=0x8b, message) => Login::Sicily(kind, message),
        _ => Login::Unknown,
    })
}

fn search<'a>(reader: &mut Reader<'a>) -> Option<Search<'a>> {
    let base = expect(reader, tag::BYTES)?;
    let scope = number(expect(reader, tag::ENUMERATED)?)?;
    let aliases = number(expect(reader, tag::ENUMERATED)?)?;
    let mut search = Search { base, scope, aliases, filter: None, attributes: Vec::new() };
    let mut rest = || {
        expect(reader, tag::INTEGER)?;
        expect(reader, tag::INTEGER)?;
        expect(reader, tag::BOOLEAN)?;
        search.filter = filter::text(&mut Reader::new(reader.rest()));
        value(reader)?;
        let mut wanted = Reader::new(opened(reader)?.1);
        while let Some(name) =
            expect(&mut wanted, tag::BYTES).filter(|_| search.attributes.len() < MAX_ATTRIBUTES)
        {
            search.attributes.push(name);
        }
        Some(())
    };
    // What is cut off is missing in the record.
    let _ = rest();
    Some(search)
}

/// Whether a response has a result.
fn is_result(op: u8) -> bool {
    matches!(
        op,
        op::BIND_RESPONSE
            | op::SEARCH_DONE
            | op::MODIFY_RESPONSE
            | op::ADD_RESPONSE
            | op::DELETE_RESPONSE
            | op::MODIFY_NAME_RESPONSE
            | op::COMPARE_RESPONSE
            | op::EXTENDED_RESPONSE
    )
}

fn outcome<'a>(reader: &mut Reader<'a>) -> Option<Outcome<'a>> {
    let code = number(expect(reader, tag::ENUMERATED)?)?;
    let mut outcome = Outcome { code, matched: &[], diagnostic: &[], credentials: &[], name: &[] };
    if let Some(matched) = expect(reader, tag::BYTES) {
        outcome.matched = matched;
        outcome.diagnostic = expect(reader, tag::BYTES).unwrap_or_default();
    }
    while let Some((kind, bytes)) = opened(reader) {
        match kind {
            0x87 => outcome.credentials = bytes,
            0x8a => outcome.name = bytes,
            _ => {}
        }
    }
    Some(outcome)
}

/// The result of an operation, in Zeek's words; the numbers are those of RFC 4511, 4.1.9, and of IANA's registry.
pub(super) fn result(code: u64) -> String {
    let word = match code {
        0 => "success",
        1 => "operations error",
        2 => "protocol error",
        3 => "time limit exceeded",
        4 => "size limit exceeded",
        5 => "compare false",
        6 => "compare true",
        7 => "auth method not supported",
        8 => "stronger auth required",
        9 => "partial results",
        10 => "referral",
        11 => "admin limit exceeded",
        12 => "unavailable critical extension",
        13 => "confidentiality required",
        14 => "SASL bind in progress",
        16 => "no such attribute",
        17 => "undefined attribute type",
        18 => "inappropriate matching",
        19 => "constraint violation",
        20 => "attribute or value exists",
        21 => "invalid attribute syntax",
        32 => "no such object",
        33 => "alias problem",
        34 => "invalid DN syntax",
        36 => "alias dereferencing problem",
        48 => "inappropriate authentication",
        49 => "invalid credentials",
        50 => "insufficient access rights",
        51 => "busy",
        52 => "unavailable",
        53 => "unwilling to perform",
        54 => "loop detect",
        60 => "sort control missing",
        61 => "offset range error",
        64 => "naming violation",
        65 => "object class violation",
        66 => "not allowed on non-leaf",
        67 => "not allowed on RDN",
        68 => "entry already exists",
        69 => "object class mods prohibited",
        70 => "results too large",
        71 => "affects multiple DSAs",
        76 => "control error",
        80 => "other",
        118 => "canceled",
        119 => "no such operation",
        120 => "too late",
        121 => "cannot cancel",
        122 => "assertion failed",
        123 => "authorization denied",
        _ => return format!("unknown ({code})"),
    };
    word.to_owned()
}

/// An object identifier of an extended operation, with its name if it is a usual one (RFC 4511, 4.14; RFC 4532).
pub(super) fn extension(name: &[u8]) -> String {
    let word = match name {
        START_TLS => "StartTLS",
        b"1.3.6.1.4.1.4203.1.11.3" => "whoami",
        _ => "unknown",
    };
    format!("{} ({word})", lossless(name))
}

/// Length of a message, or of a buffer that a security layer has made of some (RFC 4422, 3.7). `is_layered`: there is one.
pub(super) fn length(head: &[u8], is_layered: bool) -> Length {
    match head {
        [] => Length::Within(2),
        [tag::SEQUENCE] => Length::Within(2),
        [tag::SEQUENCE, second, ..] => {
            let Some(header) = ber::header_size(*second) else { return Length::Bad(2) };
            match head.get(..header).and_then(|bytes| ber::header(&mut Reader::new(bytes))) {
                Some((_, length)) if length <= MAX_MESSAGE => Length::Is(header + length),
                Some(_) => Length::Bad(header),
                None => Length::Within(header),
            }
        }
        [0, ..] => {
            let Some((size, token)) =
                head.first_chunk::<8>().and_then(|first| first.split_first_chunk::<4>())
            else {
                return Length::Within(8);
            };
            let size = u32::from_be_bytes(*size) as usize;
            let is_one = (4..=MAX_BUFFER).contains(&size) && (is_layered || is_token(token));
            if is_one { Length::Is(4 + size) } else { Length::Bad(8) }
        }
        _ => Length::Bad(1),
    }
}

/// Whether a token of Kerberos that wraps a message begins so (RFC 4121, 4.2.6.2).
fn is_token(token: &[u8]) -> bool {
    matches!(token, [5, 4, flags, 0xff] if *flags < 8)
}

/// Whether a message of a side begins here: its lengths agree, and it has the operation's first fields.
pub(super) fn begun(side: Direction, bytes: &[u8], is_layered: bool) -> Begun {
    match length(bytes, is_layered) {
        Length::Bad(_) => return Begun::No,
        Length::Within(_) => return Begun::Unknown,
        Length::Is(_) if bytes.first() != Some(&tag::SEQUENCE) => {
            return if bytes.get(4..8).is_some_and(is_token) { Begun::Yes(8) } else { Begun::No };
        }
        Length::Is(_) => {}
    }
    match begins(side, bytes) {
        Ok(read) => Begun::Yes(read),
        Err(Missing) => Begun::Unknown,
        Err(Other) => Begun::No,
    }
}

use Not::{Missing, Other};

/// Why bytes do not begin a message.
enum Not {
    /// More of them would show it.
    Missing,
    Other,
}

/// Number of the first bytes of a message that show it.
fn begins(side: Direction, bytes: &[u8]) -> Result<usize, Not> {
    let mut reader = Reader::new(bytes);
    let (_, length) = ber::header(&mut reader).ok_or(Missing)?;
    let before = reader.rest().len();
    let id_length = match (reader.u8().ok_or(Missing)?, reader.u8().ok_or(Missing)?) {
        (tag::INTEGER, length @ 1..=5) => usize::from(length),
        _ => return Err(Other),
    };
    let id = reader.take(id_length).ok_or(Missing)?;
    number(id).ok_or(Other)?;
    let op = *reader.rest().first().ok_or(Missing)?;
    if !sends(side, op) {
        return Err(Other);
    }
    let second = *reader.rest().get(1).ok_or(Missing)?;
    let header = ber::header_size(second).ok_or(Other)?;
    let (_, op_length) = ber::header(&mut Reader::new(reader.take(header).ok_or(Missing)?)).ok_or(Other)?;
    let rest = length.checked_sub(before - reader.rest().len() + op_length).ok_or(Other)?;
    // Controls follow some operations, in a value of at least two bytes.
    if rest == 1 {
        return Err(Other);
    }
    // The first bytes of the operation's content that show it.
    let shown = match op {
        op::UNBIND | op::ABANDON | op::DELETE => 0,
        op::BIND => 4,
        op if is_result(op) => 4,
        _ => 1,
    };
    let first = reader.rest().get(..shown.min(op_length)).ok_or(Missing)?;
    let is_good = match op {
        op::BIND => matches!(first, [tag::INTEGER, 1, 1..=4, tag::BYTES]),
        op::UNBIND => op_length == 0 && rest == 0,
        op::ABANDON => (1..=4).contains(&op_length) && rest == 0,
        op::DELETE => op_length > 0,
        op::EXTENDED => first == [0x80],
        op::INTERMEDIATE => matches!(first, [0x80 | 0x81]),
        op if is_result(op) => matches!(first, [tag::ENUMERATED, 1, 0..=0x7f, tag::BYTES]),
        _ => first == [tag::BYTES],
    };
    if is_good { Ok(bytes.len() - reader.rest().len() + first.len()) } else { Err(Other) }
}

/// Whether a side sends an operation: clients begin connections.
fn sends(side: Direction, op: u8) -> bool {
    let is_response = is_result(op) || matches!(op, op::ENTRY | op::REFERENCE | op::INTERMEDIATE);
    let is_request = matches!(
        op,
        op::BIND
            | op::UNBIND
            | op::SEARCH
            | op::MODIFY
            | op::ADD
            | op::DELETE
            | op::MODIFY_NAME
            | op::COMPARE
            | op::ABANDON
            | op::EXTENDED
    );
    if side == Direction::Forward { is_request } else { is_response }
}
