//! ONC RPC version 2 (RFC 5531 9), over TCP in records (11).

use super::identified;
use crate::{Heads, Probe, Protocol, TCP, Transport};
use weir_wire::Reader;

pub(crate) static PROTOCOL: Protocol = identified(
    "rpc",
    "ONC Remote Procedure Call (RFC 5531) of programs without a name of their own; it is identified but not parsed.",
    Transport::Both,
    &[111, 2049],
    probe,
);

/// Length of a call up to its credentials, with the mark of a record.
const CALL: usize = 36;
/// Maximum length of credentials (8.2).
const MAX_CREDENTIALS: u32 = 400;

/// Numbers of programs with a name of their own (RFC 5531 8.3.1).
pub(super) const PORTMAPPER: u32 = 100_000;
pub(super) const NFS: u32 = 100_003;
pub(super) const MOUNT: u32 = 100_005;

fn probe(heads: &Heads<'_>) -> Probe {
    calls(heads, PROTOCOL.ports, |program| ![PORTMAPPER, NFS, MOUNT].contains(&program))
}

/// Whether the flow has calls of a program. On these ports the call of a registered program decides (RFC 5531 8.3.1), elsewhere
/// a call with its reply.
pub(super) fn calls(heads: &Heads<'_>, ports: &[u16], is_ours: impl Fn(u32) -> bool) -> Probe {
    let sides = [heads.forward, heads.reverse];
    let [one, other] = sides.map(|head| call(heads, head));
    for (found, reply) in [(one, heads.reverse), (other, heads.forward)] {
        if let Some((id, program)) = found {
            if !is_ours(program) {
                return Probe::Reject;
            }
            let is_known = (100_000..=400_400).contains(&program) && heads.is_home(ports);
            return match reply {
                _ if is_known || is_reply(heads, reply, id) => Probe::Match,
                [] => Probe::Maybe,
                _ => Probe::Reject,
            };
        }
    }
    let is_cut = |head: &[u8]| {
        let is_last = head.first().is_none_or(|first| *first == 0x80);
        heads.ip_proto == TCP
            && head.len() < CALL
            && is_last
            && head.get(8..12).is_none_or(|kind| kind == [0; 4])
    };
    if heads.reverse.is_empty() && is_cut(heads.forward) { Probe::Maybe } else { Probe::Reject }
}

/// A message after the mark of its record; the first record is the last fragment of it.
fn message<'a>(heads: &Heads<'_>, head: &'a [u8]) -> Option<Reader<'a>> {
    let mut reader = Reader::new(head);
    if heads.ip_proto == TCP {
        let mark = reader.u32()?;
        (0x8000_0018..=0x8020_0000).contains(&mark).then_some(())?;
    }
    Some(reader)
}

/// Identifier and program of a call.
fn call(heads: &Heads<'_>, head: &[u8]) -> Option<(u32, u32)> {
    let mut reader = message(heads, head)?;
    let id = reader.u32()?;
    let is_call = (reader.u32()?, reader.u32()?) == (0, 2);
    let (program, version, procedure) = (reader.u32()?, reader.u32()?, reader.u32()?);
    let (flavor, length) = (reader.u32()?, reader.u32()?);
    let is_flavor = matches!(flavor, 0..=7 | 390_000..=390_100);
    let is_sound = is_call && program >= 100_000 && version < 256 && procedure < 1024 && is_flavor;
    (is_sound && length <= MAX_CREDENTIALS && length.is_multiple_of(4)).then_some((id, program))
}

/// Whether this is the reply to a call.
fn is_reply(heads: &Heads<'_>, head: &[u8], id: u32) -> bool {
    let fields =
        message(heads, head).and_then(|mut reader| Some([reader.u32()?, reader.u32()?, reader.u32()?]));
    fields.is_some_and(|[of, kind, state]| of == id && kind == 1 && state < 2)
}
