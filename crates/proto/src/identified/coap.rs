//! CoAP (RFC 7252 3): a header of four bytes, a token, options and payload.

use super::identified;
use crate::{Heads, Probe, Protocol, Transport};
use weir_wire::Reader;

pub(crate) static PROTOCOL: Protocol = identified(
    "coap",
    "Constrained Application Protocol (RFC 7252); it is identified but not parsed.",
    Transport::Udp,
    &[5683],
    probe,
);

/// A message whose options end where it ends, or where its payload begins.
struct Message<'a> {
    is_acknowledgement: bool,
    code: u8,
    id: u16,
    token: &'a [u8],
    options: usize,
}

impl<'a> Message<'a> {
    fn read(datagram: &'a [u8]) -> Option<Self> {
        let mut reader = Reader::new(datagram);
        let (first, code, id) = (reader.u8()?, reader.u8()?, reader.u16()?);
        let token = reader.take(usize::from(first & 0x0f)).filter(|token| token.len() <= 8)?;
        // Requests from GET to iPATCH (RFC 8132), and responses.
        let is_known = matches!(code, 1..=7 | 0x41..=0x45 | 0x5f | 0x80..=0x8f | 0x9d | 0xa0..=0xa5);
        (first >> 6 == 1 && first >> 4 & 3 < 3 && is_known).then_some(())?;
        let mut options = 0;
        while let Some(option) = reader.u8() {
            if option == 0xff {
                (!reader.rest().is_empty()).then_some(())?;
                break;
            }
            let mut part = |nibble: u8| match nibble {
                13 => reader.u8().map(|more| usize::from(more) + 13),
                14 => reader.u16().map(|more| usize::from(more) + 269),
                15 => None,
                few => Some(usize::from(few)),
            };
            let (_, length) = (part(option >> 4)?, part(option & 0x0f)?);
            reader.take(length)?;
            options += 1;
        }
        Some(Self { is_acknowledgement: first >> 4 & 3 == 2, code, id, token, options })
    }

    fn is_request(&self) -> bool {
        self.code < 0x20
    }
}

/// On its port a request with options decides, elsewhere a request with its response.
fn probe(heads: &Heads<'_>) -> Probe {
    let [forward, reverse] = [heads.forward, heads.reverse].map(Message::read);
    if let (Some(one), Some(other)) = (&forward, &reverse) {
        let is_pair = one.is_request() != other.is_request()
            && one.token == other.token
            && one.id == other.id
            && one.is_acknowledgement != other.is_acknowledgement;
        if is_pair && one.options + other.options > 0 {
            return Probe::Match;
        }
    }
    if !heads.is_home(PROTOCOL.ports) {
        let waits = |message: &Option<Message<'_>>| message.as_ref().is_some_and(|it| it.options > 0);
        let is_begun = heads.reverse.is_empty() && waits(&forward);
        return if is_begun { Probe::Maybe } else { Probe::Reject };
    }
    let is_one = [forward, reverse].iter().flatten().any(|message| message.options > 0);
    if is_one { Probe::Match } else { Probe::Reject }
}
