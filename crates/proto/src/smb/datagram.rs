//! SMB in datagrams of NetBIOS (RFC 1002, 4.4): messages to mailslots (MS-MAIL), mostly those of the browser protocol
//! (MS-BRWS).
//!
//! Each datagram stands alone, so that nothing is kept. Of a message in several datagrams the first one has what a row
//! shows, and the others have no row.

use super::{At, OLD, PROTOCOL, Request};
use crate::dns::netbios_name;
use crate::{Heads, Out, Parser, Probe, Record, Step};
use weir_wire::stream::Chunk;
use weir_wire::{Reader, Time};

/// Datagrams to one name, to a group, and to all.
const DIRECT: std::ops::RangeInclusive<u8> = 0x10..=0x12;
/// Errors, and queries for a name with their responses, which carry no message.
const CONTROL: std::ops::RangeInclusive<u8> = 0x13..=0x16;
/// Length of the header before the names.
const HEADER: usize = 14;
/// Flags that are reserved and 0.
const RESERVED: u8 = 0xf0;
/// The flag of the first datagram of a message.
const FIRST: u8 = 2;
/// Maximum length of an encoded name (RFC 1002, 4.1).
const MAX_NAME: usize = 255;

/// A datagram that carries a message, or a part of one.
struct Datagram<'a> {
    source: Vec<u8>,
    destination: Vec<u8>,
    /// Whether the message begins here.
    is_first: bool,
    message: &'a [u8],
}

impl<'a> Datagram<'a> {
    /// Reads a datagram. Its end may be missing, if the capture has only the beginning of packets.
    fn read(data: &'a [u8]) -> Option<Self> {
        let mut reader = Reader::new(data);
        let (kind, flags, _id) = (reader.u8()?, reader.u8()?, reader.u16()?);
        let (_address, _port) = (reader.u32()?, reader.u16()?);
        let (length, offset) = (usize::from(reader.u16()?), reader.u16()?);
        let is_whole = reader.rest().len() <= length;
        if !DIRECT.contains(&kind) || flags & RESERVED != 0 || !is_whole {
            return None;
        }
        let (source, next) = name(data, HEADER)?;
        let (destination, next) = name(data, next)?;
        let is_first = flags & FIRST != 0 && offset == 0;
        Some(Self { source, destination, is_first, message: data.get(next..)? })
    }
}

/// A NetBIOS name, and the position after it. A scope (RFC 1001, 14.1) is no part of the name. A pointer leads to a name before it,
/// and not to another pointer, so that reading ends.
fn name(data: &[u8], at: usize) -> Option<(Vec<u8>, usize)> {
    let (begin, is_pointed) = match data.get(at..)? {
        [high @ 0xc0..=0xff, low, ..] => {
            let to = usize::from(u16::from_be_bytes([*high & 0x3f, *low]));
            (Some(to).filter(|to| *to < at)?, true)
        }
        _ => (at, false),
    };
    let coded = data.get(begin..)?.strip_prefix(&[32])?;
    let (name, _kind) = netbios_name(coded)?;
    if is_pointed {
        return Some((name, at + 2));
    }
    let mut next = begin + 33;
    while next - begin < MAX_NAME {
        match data.get(next..)? {
            [0, ..] => return Some((name, next + 1)),
            [0xc0..=0xff, _, ..] => return Some((name, next + 2)),
            [bytes @ 1..=63, ..] => next += 1 + usize::from(*bytes),
            _ => return None,
        }
    }
    None
}

/// Whether datagrams carry SMB. The witnesses are the kind with its flags, the length, two encoded names, and the mark of the
/// message.
pub(super) fn probe(heads: &Heads<'_>) -> Probe {
    let is_smb = |head: &[u8]| {
        Datagram::read(head).is_some_and(|datagram| datagram.is_first && datagram.message.starts_with(OLD))
    };
    if heads.both().all(is_smb) { Probe::Match } else { Probe::Reject }
}

/// The parser of a flow of datagrams.
#[derive(Default)]
pub(super) struct Datagrams {
    emitted: u64,
}

impl Datagrams {
    fn read(&mut self, chunk: &Chunk<'_>, out: &mut dyn Out) -> Option<()> {
        if chunk.data.first().is_some_and(|kind| CONTROL.contains(kind)) {
            return Some(());
        }
        let datagram = Datagram::read(chunk.data)?;
        if !datagram.is_first || !datagram.message.starts_with(OLD) {
            return Some(());
        }
        let mut request = Request::alone(datagram.message, chunk.time)?;
        self.emitted += 1;
        request.set(At::Id, self.emitted);
        request.set(At::Source, datagram.source);
        request.set(At::Destination, datagram.destination);
        out.record(Record::new(&super::SMB, request.time, request.values).over(out.here()));
        Some(())
    }
}

impl Parser for Datagrams {
    fn chunk(&mut self, chunk: &Chunk<'_>, out: &mut dyn Out) -> Step {
        if self.read(chunk, out).is_none() {
            let detail = chunk.data.get(..64).unwrap_or(chunk.data);
            PROTOCOL.emit_anomaly("malformed_data", chunk.direction, detail, chunk.time, out);
        }
        Step::Next
    }

    fn end(&mut self, _: Time, _: &mut dyn Out) {}

    fn memory(&self) -> usize {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::laws::talks;
    use crate::talk::{Talk, Turn};
    use crate::{UDP, Value};

    fn conversation() -> Talk {
        talks("smb", 445).into_iter().find(|(path, _)| path.ends_with("datagrams.talk")).unwrap().1
    }

    fn rows(talk: &Talk, fields: &[&str]) -> Vec<String> {
        let emitted = talk.emitted(|data| vec![data.to_vec()]);
        let text = |value: &Value<'_>| match value {
            Value::Text(text) => String::from_utf8_lossy(text).into_owned(),
            Value::Uint(number) => number.to_string(),
            _ => "-".to_owned(),
        };
        let row = |record: &Record<'_>| {
            let values: Vec<_> = fields.iter().map(|name| text(record.get(name))).collect();
            values.join(" ")
        };
        emitted.records.iter().filter(|record| record.table.name == "smb").map(row).collect()
    }

    #[test]
    fn messages_to_mailslots_are_rows() {
        let fields = ["id", "command", "transaction", "source_name", "destination_name", "browser_command"];
        let expected = [
            r"1 SMB1_COMMAND_TRANS \MAILSLOT\BROWSE DESK OFFICE HOST_ANNOUNCEMENT",
            r"2 SMB1_COMMAND_TRANS \MAILSLOT\BROWSE DESK OFFICE REQUEST_ELECTION",
            r"3 SMB1_COMMAND_TRANS \MAILSLOT\NET\NETLOGON DESK OFFICE -",
            r"4 SMB1_COMMAND_TRANS \MAILSLOT\BROWSE DESK DESK UNKNOWN-119",
        ];
        assert_eq!(rows(&conversation(), &fields), expected);
        let emitted = conversation().emitted(|data| vec![data.to_vec()]);
        let anomalies = emitted.records.iter().filter(|record| record.table.name == "anomaly").count();
        assert_eq!(
            anomalies, 2,
            "a datagram without names, and one that ends within the header of its message"
        );
    }

    #[test]
    fn a_flow_is_identified_by_its_first_message() {
        let talk = conversation();
        let first = talk.turns.iter().find_map(|turn| match turn {
            Turn::Data(_, data) if DIRECT.contains(&data[0]) => Some(data.clone()),
            _ => None,
        });
        let first = first.unwrap();
        let probe =
            |forward: &[u8]| probe(&Heads { forward, reverse: &[], ports: [40_000, 50_000], ip_proto: UDP });
        assert_eq!(probe(&first), Probe::Match);
        // Each witness is needed: the kind, the flags, the length, both names, and the mark of the message.
        for at in [0, 1, 10, 14, 15, 48, 50, 82] {
            let mut other = first.clone();
            other[at] ^= 0x70;
            if at == 10 {
                other[at] = 0;
                other[at + 1] = 20;
            }
            assert_eq!(probe(&other), Probe::Reject, "byte {at}");
        }
        for length in 1..first.len() {
            let expected = if length < 86 { Probe::Reject } else { Probe::Match };
            assert_eq!(probe(&first[..length]), expected, "{length} bytes");
        }
    }

    #[test]
    fn pointers_of_names_end() {
        let coded = [&[32][..], &b"EB".repeat(16), &[0]].concat();
        let of = |tail: &[u8]| name(&[&coded, tail].concat(), coded.len());
        assert_eq!(of(&[0xc0, 0]).unwrap().1, coded.len() + 2);
        // To itself, forward, beyond the end, into the midst of a name, and without its second byte.
        for tail in [&[0xc0, 34][..], &[0xc0, 40], &[0xff, 0xff], &[0xc0, 5], &[0xc0]] {
            assert_eq!(of(tail), None, "{tail:?}");
        }
        // A scope is at most as long as a name may be.
        let scoped = |labels: usize| [&coded[..33], &[7; 8].repeat(labels), &[0]].concat();
        assert_eq!(name(&scoped(27), 0).unwrap().1, scoped(27).len());
        assert_eq!(name(&scoped(28), 0), None);
    }
}
