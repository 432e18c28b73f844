//! Security tokens within other protocols: GSS-API (RFC 2743) with SPNEGO (RFC 4178), and NTLM (MS-NLMP).
//!
//! They have no ports and no streams of their own. The protocol that carries a token shows it here, and the flow then has the
//! names of what the token belongs to beside its own.

use crate::ber::{expect, opened, tag};
use crate::{Out, Parser, Probe, Protocol, Step, Transport, kerberos};
use weir_wire::stream::Chunk;
use weir_wire::{Reader, Time};

pub(crate) static PROTOCOL: Protocol =
    within("gssapi", "Security tokens of GSS-API (RFC 2743) within another protocol.");

pub(crate) static NTLM: Protocol = within("ntlm", "Messages of NTLM (MS-NLMP) within another protocol.");

/// A protocol that only names flows.
const fn within(name: &'static str, help: &'static str) -> Protocol {
    Protocol {
        name,
        help,
        transport: Transport::Both,
        ports: &[],
        probe: |_| Probe::Reject,
        parser: |_| Box::new(Alone),
        tables: &[],
        buffers: &[],
    }
}

/// A stream of tokens alone, which no protocol has.
struct Alone;

impl Parser for Alone {
    fn chunk(&mut self, _: &Chunk<'_>, _: &mut dyn Out) -> Step {
        Step::GiveUp
    }

    fn end(&mut self, _: Time, _: &mut dyn Out) {}

    fn memory(&self) -> usize {
        0
    }
}

/// Object identifier of SPNEGO (RFC 4178, 1).
const SPNEGO: &[u8] = b"\x2b\x06\x01\x05\x05\x02";
/// Object identifiers of Kerberos (RFC 4121, 4), and of Windows, which has one wrong (MS-SPNG, 3.2.5.2).
const KERBEROS: &[u8] = b"\x2a\x86\x48\x86\xf7\x12\x01\x02\x02";
const KERBEROS_OF_WINDOWS: &[u8] = b"\x2a\x86\x48\x82\xf7\x12\x01\x02\x02";
/// Tags of a token with its mechanism (RFC 2743, 3.1), and of the two tokens of SPNEGO (RFC 4178, 4.2).
const INITIAL: u8 = 0x60;
const NEGOTIATION: u8 = 0xa0;
const RESPONSE: u8 = 0xa1;
/// Tag of the mechanism's token within both.
const INNER: u8 = 0xa2;

/// Names the flow after a token. Returns the message of Kerberos in it, if there is one.
pub(crate) fn carried<'t>(token: &'t [u8], out: &mut dyn Out) -> Option<&'t [u8]> {
    if token.starts_with(b"NTLMSSP\0") {
        out.carries(&NTLM);
        return None;
    }
    if let Some((mechanism, content)) = initial(token) {
        out.carries(&PROTOCOL);
        return match mechanism {
            SPNEGO => negotiated(content, out),
            KERBEROS | KERBEROS_OF_WINDOWS => kerberos(content, out),
            _ => None,
        };
    }
    is_response(token).then_some(())?;
    out.carries(&PROTOCOL);
    negotiated(token, out)
}

/// Names the flow after a token of Kerberos, which may be a message without the mechanism's name, as Windows sends it. Returns the
/// message.
pub(crate) fn kerberos_carried<'t>(token: &'t [u8], out: &mut dyn Out) -> Option<&'t [u8]> {
    if initial(token).is_some() {
        return carried(token, out);
    }
    out.carries(&PROTOCOL);
    bare(token, out)
}

/// The mechanism of a token that names it, and what follows.
fn initial(token: &[u8]) -> Option<(&[u8], &[u8])> {
    let (kind, content) = opened(&mut Reader::new(token))?;
    let mut content = Reader::new(content);
    let mechanism = expect(&mut content, tag::OBJECT).filter(|_| kind == INITIAL)?;
    Some((mechanism, content.rest()))
}

/// Whether the token is a response of SPNEGO: in its own tag a sequence with tagged members.
fn is_response(token: &[u8]) -> bool {
    let Some((RESPONSE, content)) = opened(&mut Reader::new(token)) else { return false };
    let sequence = opened(&mut Reader::new(content)).filter(|(kind, _)| *kind == tag::SEQUENCE);
    sequence.is_some_and(|(_, members)| matches!(members.first(), None | Some(0xa0..=0xa3)))
}

/// The mechanism's token in a token of SPNEGO.
fn inner(token: &[u8]) -> Option<&[u8]> {
    let (kind, content) = opened(&mut Reader::new(token))?;
    let (sequence, members) = opened(&mut Reader::new(content))?;
    let mut members = Reader::new(members);
    (matches!(kind, NEGOTIATION | RESPONSE) && sequence == tag::SEQUENCE).then_some(())?;
    loop {
        match opened(&mut members)? {
            (INNER, inner) => return opened(&mut Reader::new(inner)).map(|(_, bytes)| bytes),
            (0xa0..=0xa3, _) => {}
            _ => return None,
        }
    }
}

/// Names the flow after the mechanism's token in a token of SPNEGO.
fn negotiated<'t>(token: &'t [u8], out: &mut dyn Out) -> Option<&'t [u8]> {
    let inner = inner(token)?;
    if inner.starts_with(b"NTLMSSP\0") {
        out.carries(&NTLM);
        return None;
    }
    match initial(inner) {
        Some((KERBEROS | KERBEROS_OF_WINDOWS, content)) => kerberos(content, out),
        Some(_) => None,
        None => bare(inner, out),
    }
}

/// Names the flow after a message of Kerberos, after the two bytes of its type (RFC 4121, 4.1).
fn kerberos<'t>(token: &'t [u8], out: &mut dyn Out) -> Option<&'t [u8]> {
    let ([1, 0, 0x6e, ..] | [2, 0, 0x6f, ..] | [3, 0, 0x7e, ..]) = token else { return None };
    out.carries(&kerberos::PROTOCOL);
    token.get(2..)
}

/// Names the flow after a message of Kerberos that stands alone, if it is one.
fn bare<'t>(token: &'t [u8], out: &mut dyn Out) -> Option<&'t [u8]> {
    matches!(opened(&mut Reader::new(token)), Some((0x6e | 0x6f | 0x7e, _))).then_some(())?;
    out.carries(&kerberos::PROTOCOL);
    Some(token)
}
