//! Extensible Messaging and Presence Protocol (RFC 6120): the stream's hosts and login, up to TLS or the end of
//! authentication. Messages are not parsed.

use crate::work::looked_at;
use crate::{Heads, Kind, Out, Parser, Privacy, Probe, Protocol, Step, Table, Transport, field, record, tls};
use weir_wire::stream::Chunk;
use weir_wire::{Direction, Time};

pub(crate) static PROTOCOL: Protocol = Protocol {
    name: "xmpp",
    help: "Extensible Messaging and Presence Protocol (RFC 6120): the beginning of its streams.",
    transport: Transport::Tcp,
    ports: &[5222, 5269, 5280],
    probe,
    parser: |_| Box::new(Xmpp::default()),
    tables: &[&XMPP],
    buffers: &[],
};

static XMPP: Table = Table {
    name: "xmpp",
    help: "An opened stream, emitted when it switches to TLS, at its first stanza, or when the flow ends.",
    zeek: "",
    eve: "",
    fields: &[
        field("from", Kind::Text, "Address of the client (from attribute of its stream).")
            .privacy(Privacy::Mail),
        field("to", Kind::Text, "Domain that the client connects to (to attribute of its stream).")
            .privacy(Privacy::Name),
        field("namespace", Kind::Text, "Namespace of the stream: jabber:client or jabber:server."),
        field("server", Kind::Text, "Domain of the server (from attribute of its stream).")
            .privacy(Privacy::Name),
        field("id", Kind::Text, "Stream identifier of the server.").privacy(Privacy::Fingerprint),
        field("mechanism", Kind::Text, "Authentication mechanism that the client chose."),
        field("tls", Kind::Bool, "Whether the stream switches to TLS."),
    ],
};

/// Maximum length of a tag in bytes.
const MAX_TAG: usize = 4096;
/// Maximum number of tags of one side before the login.
const MAX_TAGS: u32 = 512;
/// The first tag of both sides, after a declaration.
const OPENING: &[u8] = b"<stream:stream";
const DECLARATION: &[u8] = b"<?xml";

/// Whether a side opens a stream; `None` if more bytes are needed.
fn begins(head: &[u8]) -> Option<bool> {
    let mut rest = head.trim_ascii_start();
    if rest.len() < DECLARATION.len() {
        return if DECLARATION.starts_with(rest) || OPENING.starts_with(rest) { None } else { Some(false) };
    }
    if rest.starts_with(DECLARATION) {
        rest = match rest.iter().position(|byte| *byte == b'>') {
            Some(end) => rest.get(end + 1..).unwrap_or_default().trim_ascii_start(),
            None => return if rest.len() < 128 { None } else { Some(false) },
        };
    }
    match rest.get(..OPENING.len()) {
        Some(opening) => Some(opening == OPENING),
        None => OPENING.starts_with(rest).then_some(()).map_or(Some(false), |()| None),
    }
}

fn probe(heads: &Heads<'_>) -> Probe {
    Probe::of(begins(heads.forward))
}

/// The tags of one side.
#[derive(Default)]
struct Tags {
    held: Vec<u8>,
    is_in: bool,
    quote: Option<u8>,
    count: u32,
}

impl Tags {
    /// The next tag of `data`, without its brackets; `data` is advanced past it.
    fn next<T>(&mut self, data: &mut &[u8], work: impl FnOnce(&[u8]) -> T) -> Option<T> {
        while let Some((byte, rest)) = data.split_first() {
            *data = rest;
            looked_at(1);
            match (*byte, self.quote) {
                (b'<', _) if !self.is_in => self.is_in = true,
                _ if !self.is_in => {}
                (b'>', None) => {
                    self.is_in = false;
                    self.count += 1;
                    looked_at(self.held.len());
                    let result = work(&self.held);
                    self.held.clear();
                    return Some(result);
                }
                (byte, quote) => {
                    self.quote = match (byte, quote) {
                        (b'\'' | b'"', None) => Some(byte),
                        (byte, Some(quote)) if byte == quote => None,
                        (_, quote) => quote,
                    };
                    if self.held.len() < MAX_TAG {
                        self.held.push(byte);
                    }
                }
            }
        }
        None
    }
}

/// The name of a tag.
fn name(tag: &[u8]) -> &[u8] {
    let end = tag.iter().position(|byte| byte.is_ascii_whitespace() || *byte == b'/').unwrap_or(tag.len());
    tag.get(..end).unwrap_or(tag)
}

/// The value of an attribute.
fn attribute(tag: &[u8], wanted: &[u8]) -> Option<Vec<u8>> {
    let mut rest = tag;
    loop {
        let equals = rest.iter().position(|byte| *byte == b'=')?;
        let before = rest.get(..equals)?.trim_ascii_end();
        let begin = before.iter().rposition(u8::is_ascii_whitespace).map_or(0, |at| at + 1);
        let after = rest.get(equals + 1..)?.trim_ascii_start();
        let (quote, value) = after.split_first()?;
        let end = value.iter().position(|byte| byte == quote)?;
        if before.get(begin..)? == wanted {
            return Some(value.get(..end)?.to_vec());
        }
        rest = value.get(end + 1..)?;
    }
}

#[derive(Default)]
struct Xmpp {
    sides: [Tags; 2],
    opened: Option<Time>,
    from: Option<Vec<u8>>,
    to: Option<Vec<u8>>,
    namespace: Option<Vec<u8>>,
    server: Option<Vec<u8>>,
    id: Option<Vec<u8>>,
    mechanism: Option<Vec<u8>>,
    is_tls: bool,
}

/// The meaning of a tag for the stream.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Turn {
    None,
    Tls,
    /// From here on only messages follow.
    Over,
}

impl Xmpp {
    fn tag(&mut self, tag: &[u8], direction: Direction, time: Time) -> Turn {
        match (name(tag), direction) {
            (b"stream:stream", Direction::Forward) => {
                self.opened.get_or_insert(time);
                self.from = attribute(tag, b"from");
                self.to = attribute(tag, b"to");
                self.namespace = attribute(tag, b"xmlns");
            }
            (b"stream:stream", Direction::Reverse) => {
                self.opened.get_or_insert(time);
                self.server = attribute(tag, b"from");
                self.id = attribute(tag, b"id");
            }
            (b"auth", Direction::Forward) => self.mechanism = attribute(tag, b"mechanism"),
            (b"proceed", Direction::Reverse) => return Turn::Tls,
            // STARTTLS precedes the login (RFC 6120, 5.3.1).
            (b"message" | b"iq" | b"presence" | b"success" | b"/stream:stream", _) => return Turn::Over,
            _ => {}
        }
        Turn::None
    }
}

impl Parser for Xmpp {
    fn chunk(&mut self, chunk: &Chunk<'_>, out: &mut dyn Out) -> Step {
        if chunk.gap > 0 {
            return Step::GiveUp;
        }
        let at = chunk.direction as usize & 1;
        let mut data = chunk.data;
        let Some(side) = self.sides.get_mut(at) else { return Step::Next };
        let mut tags = std::mem::take(side);
        let mut turn = Turn::None;
        while turn == Turn::None
            && let Some(next) = tags.next(&mut data, |tag| self.tag(tag, chunk.direction, chunk.time))
        {
            out.more(data.len());
            turn = if tags.count > MAX_TAGS { Turn::Over } else { next };
        }
        if let Some(side) = self.sides.get_mut(at) {
            *side = tags;
        }
        match turn {
            Turn::None => Step::Next,
            Turn::Tls => {
                self.is_tls = true;
                Step::SwitchTo { protocol: Some(&tls::PROTOCOL), unread: data.len() }
            }
            Turn::Over => Step::GiveUp,
        }
    }

    fn end(&mut self, _: Time, out: &mut dyn Out) {
        let Some(time) = self.opened.take() else { return };
        out.record(record!(
            XMPP,
            time,
            from = self.from.take(),
            to = self.to.take(),
            namespace = self.namespace.take(),
            server = self.server.take(),
            id = self.id.take(),
            mechanism = self.mechanism.take(),
            tls = self.is_tls,
        ));
    }

    fn memory(&self) -> usize {
        let texts = [&self.from, &self.to, &self.namespace, &self.server, &self.id, &self.mechanism];
        let texts = texts.into_iter().flatten().map(Vec::capacity).sum::<usize>();
        self.sides.iter().map(|side| side.held.capacity()).sum::<usize>() + texts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Value;
    use crate::laws::talks;

    #[test]
    fn streams_are_emitted_before_tls() {
        let talks = talks("xmpp", 5222);
        let emitted: Vec<_> =
            talks.iter().map(|(_, talk)| talk.emitted(|data| vec![data.to_vec()])).collect();
        let rows: Vec<_> = emitted.iter().flat_map(|emitted| &emitted.records).collect();
        let of = |name: &str| -> Vec<Value<'_>> {
            let rows = rows.iter().filter(|record| *record.table == XMPP);
            rows.map(|record| record.get(name).clone()).collect()
        };
        assert_eq!(of("to"), ["example.org".into(), "example.org".into()]);
        assert_eq!(of("from"), ["anna@example.org".into(), Value::None]);
        assert_eq!(of("mechanism"), ["PLAIN".into(), Value::None]);
        assert_eq!(of("tls"), [false.into(), true.into()]);
        let tls = rows.iter().filter(|record| *record.table == tls::TLS);
        assert_eq!(tls.map(|record| record.get("established").clone()).collect::<Vec<_>>(), [true.into()]);
    }

    #[test]
    fn attributes_are_parsed() {
        let tag = b"stream:stream to='a' xmlns:stream=\"x='y'\" xmlns = 'z'";
        assert_eq!(attribute(tag, b"to"), Some(b"a".to_vec()));
        assert_eq!(attribute(tag, b"xmlns"), Some(b"z".to_vec()));
        assert_eq!(attribute(tag, b"from"), None);
    }
}
