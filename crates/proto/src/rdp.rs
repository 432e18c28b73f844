//! Remote Desktop Protocol (MS-RDPBCGR): the two messages before its security begins, which is usually TLS.

use crate::frames::{Frames, Size};
use crate::{Heads, Kind, Out, Parser, Privacy, Probe, Protocol, Step, Table, Transport, field, record, tls};
use weir_wire::stream::Chunk;
use weir_wire::{Direction, Reader, Time};

pub(crate) static PROTOCOL: Protocol = Protocol {
    name: "rdp",
    help: "Remote Desktop Protocol (MS-RDPBCGR), until it switches to TLS.",
    transport: Transport::Tcp,
    ports: &[3389],
    probe,
    parser: |_| Box::new(Rdp::default()),
    tables: &[&RDP],
    buffers: &[],
};

static RDP: Table = Table {
    name: "rdp",
    help: "A requested session, emitted when it is answered, or when the flow ends.",
    zeek: "rdp",
    eve: "",
    fields: &[
        field("cookie", Kind::Text, "Cookie of the request: the user name or a routing token.")
            .zeek("cookie")
            .privacy(Privacy::User),
        field("result", Kind::Word, "Result: encrypted, plain, or the reason of a refusal.").zeek("result"),
        field("security", Kind::Word, "Security protocol that the server chose.").zeek("security_protocol"),
        field(
            "asked",
            Kind::Uint,
            "Security protocols that the client supports, as bits (requestedProtocols; MS-RDPBCGR, 2.2.1.1.1).",
        ),
    ],
};

/// Bytes before the variable part: TPKT (RFC 1006) and X.224's fixed part.
const FIXED: usize = 11;
/// Maximum length of the first message in bytes: Windows sends cookies of some tens of bytes.
const MAX_MESSAGE: usize = 1024;

const REQUEST: u8 = 0xe0;
const CONFIRM: u8 = 0xd0;

/// Length of a message.
fn size(head: &[u8]) -> Size {
    match head {
        [_, _, high, low, ..] => {
            Size::Bytes(usize::from(u16::from_be_bytes([*high, *low])).clamp(FIXED, MAX_MESSAGE))
        }
        _ => Size::Within(4),
    }
}

/// Whether a side begins with such a message of X.224.
fn begins(head: &[u8], kind: u8) -> Option<bool> {
    let fits = |at: usize, is_good: &dyn Fn(u8) -> bool| head.get(at).is_none_or(|byte| is_good(*byte));
    let length = head.get(3).copied().map(usize::from);
    let is_one = fits(0, &|byte| byte == 3)
        && fits(1, &|byte| byte == 0)
        && fits(2, &|byte| usize::from(byte) < MAX_MESSAGE >> 8)
        && fits(4, &|indicator| {
            head.get(2) != Some(&0) || length.is_some_and(|length| usize::from(indicator) + 5 == length)
        })
        && fits(5, &|byte| byte == kind);
    is_one.then_some(head.len() > FIXED)
}

fn probe(heads: &Heads<'_>) -> Probe {
    match (begins(heads.forward, REQUEST), begins(heads.reverse, CONFIRM)) {
        (None, _) | (_, None) => Probe::Reject,
        // Other protocols over this transport begin alike, with names of applications in place of a cookie.
        (Some(true), _) => match Asked::of(heads.forward) {
            Some(_) => Probe::Match,
            None => Probe::Maybe,
        },
        (Some(false), _) => Probe::Maybe,
    }
}

/// A client's request.
#[derive(Default)]
struct Asked {
    cookie: Option<Vec<u8>>,
    securities: Option<u32>,
}

impl Asked {
    /// Reads a request; `None` if nothing in it belongs to this protocol.
    fn of(message: &[u8]) -> Option<Self> {
        let mut rest = message.get(FIXED..)?;
        let mut asked = Self::default();
        if let Some(end) = rest.windows(2).position(|two| two == b"\r\n") {
            let (line, more) = rest.split_at(end);
            let text = line.strip_prefix(b"Cookie: ")?;
            asked.cookie = Some(text.strip_prefix(b"mstshash=").unwrap_or(text).to_vec());
            rest = more.get(2..)?;
        }
        asked.securities = negotiation(rest, 1);
        (asked.cookie.is_some() || asked.securities.is_some()).then_some(asked)
    }
}

/// The little-endian number in a negotiation of the given type.
fn negotiation(bytes: &[u8], kind: u8) -> Option<u32> {
    let mut reader = Reader::new(bytes);
    reader.u8().filter(|found| *found == kind)?;
    reader.take(1)?;
    reader.u16().filter(|length| *length == 0x0800)?;
    reader.u32().map(u32::swap_bytes)
}

/// Zeek's names of the security protocols.
fn security(chosen: u32) -> &'static str {
    match chosen {
        0 => "RDP",
        1 => "SSL",
        2 => "HYBRID",
        4 => "RDSTLS",
        8 => "HYBRID_EX",
        _ => "unknown",
    }
}

/// The reason why a server refuses.
fn failure(code: u32) -> &'static str {
    match code {
        1 => "SSL_REQUIRED_BY_SERVER",
        2 => "SSL_NOT_ALLOWED_BY_SERVER",
        3 => "SSL_CERT_NOT_ON_SERVER",
        4 => "INCONSISTENT_FLAGS",
        5 => "HYBRID_REQUIRED_BY_SERVER",
        6 => "SSL_WITH_USER_AUTH_REQUIRED_BY_SERVER",
        _ => "unknown",
    }
}

#[derive(Default)]
struct Rdp {
    sides: [Frames; 2],
    asked: Option<(Time, Asked)>,
    chosen: Option<u32>,
    result: Option<&'static str>,
}

impl Parser for Rdp {
    fn chunk(&mut self, chunk: &Chunk<'_>, out: &mut dyn Out) -> Step {
        if chunk.gap > 0 {
            return Step::GiveUp;
        }
        let mut data = chunk.data;
        let Self { sides: [forward, reverse], asked, chosen, result } = self;
        match chunk.direction {
            // Nothing that the client sends after its request is parsed, however the stream is cut.
            Direction::Forward if asked.is_some() => Step::Next,
            Direction::Forward => {
                let request = forward.next(&mut data, size, |message, unread| {
                    out.more(unread);
                    Asked::of(message).unwrap_or_default()
                });
                *asked = request.map(|request| (chunk.time, request));
                Step::Next
            }
            Direction::Reverse => {
                let said = |message: &[u8], unread: usize| {
                    out.more(unread);
                    let rest = message.get(FIXED..).unwrap_or_default();
                    let is_confirmed = message.get(5) == Some(&CONFIRM);
                    (is_confirmed, negotiation(rest, 2), negotiation(rest, 3))
                };
                match reverse.next(&mut data, size, said) {
                    None => Step::Next,
                    Some((true, Some(security), _)) if security != 0 => {
                        (*chosen, *result) = (Some(security), Some("encrypted"));
                        Step::SwitchTo { protocol: Some(&tls::PROTOCOL), unread: data.len() }
                    }
                    Some((true, security, None)) => {
                        (*chosen, *result) = (Some(security.unwrap_or(0)), Some("plain"));
                        Step::GiveUp
                    }
                    Some((true, _, Some(code))) => {
                        *result = Some(failure(code));
                        Step::GiveUp
                    }
                    Some((false, ..)) => {
                        PROTOCOL.emit_anomaly("rdp_not_confirmed", chunk.direction, &[], chunk.time, out);
                        Step::GiveUp
                    }
                }
            }
        }
    }

    fn end(&mut self, _: Time, out: &mut dyn Out) {
        let Some((time, asked)) = self.asked.take() else { return };
        out.record(record!(
            RDP,
            time,
            cookie = asked.cookie,
            result = self.result,
            security = self.chosen.map(security),
            asked = asked.securities,
        ));
    }

    fn memory(&self) -> usize {
        self.sides.iter().map(Frames::memory).sum::<usize>() + MAX_MESSAGE
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Value;
    use crate::laws::talks;

    #[test]
    fn requested_and_chosen_security_is_emitted_before_tls() {
        let talks = talks("rdp", 3389);
        let emitted: Vec<_> =
            talks.iter().map(|(_, talk)| talk.emitted(|data| vec![data.to_vec()])).collect();
        let rows: Vec<_> = emitted.iter().flat_map(|emitted| &emitted.records).collect();
        let of = |name: &str| -> Vec<Value<'_>> {
            let rows = rows.iter().filter(|record| *record.table == RDP);
            rows.map(|record| record.get(name).clone()).collect()
        };
        assert_eq!(of("cookie"), ["eltons".into(), Value::None]);
        assert_eq!(of("security"), ["HYBRID".into(), Value::None]);
        assert_eq!(of("result"), ["encrypted".into(), "HYBRID_REQUIRED_BY_SERVER".into()]);
        let tls = rows.iter().filter(|record| *record.table == tls::TLS);
        assert_eq!(tls.map(|record| record.get("established").clone()).collect::<Vec<_>>(), [true.into()]);
    }
}
