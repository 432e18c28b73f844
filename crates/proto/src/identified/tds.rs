//! TDS, the protocol of Microsoft SQL Server (MS-TDS 2.2.3.1, 2.2.6.4 and 2.2.6.5): the pre-login or the login of a client.

use super::identified;
use crate::{Heads, Probe, Protocol, Transport};
use weir_wire::Reader;

pub(crate) static PROTOCOL: Protocol = identified(
    "tds",
    "Tabular Data Stream of Microsoft SQL Server (MS-TDS); it is identified but not parsed.",
    Transport::Tcp,
    &[1433],
    probe,
);

/// Length of the header of a packet.
const HEADER: usize = 8;
/// Kinds of packets: login, and pre-login.
const LOGIN: u8 = 0x10;
const PRE_LOGIN: u8 = 0x12;

fn probe(heads: &Heads<'_>) -> Probe {
    let head = heads.forward;
    let is_begun = match head {
        [] => false,
        [LOGIN | PRE_LOGIN] | [LOGIN | PRE_LOGIN, 0 | 1] => true,
        [LOGIN | PRE_LOGIN, 0 | 1, ..] => head.get(7).is_none_or(|window| *window == 0),
        _ => false,
    };
    if is_begun { Probe::of(fits(head)) } else { Probe::Reject }
}

/// Whether the fields of the first packet fit its length; `None` if they are not all here.
fn fits(head: &[u8]) -> Option<bool> {
    let mut reader = Reader::new(head);
    let (kind, _) = (reader.u8()?, reader.u8()?);
    let length = usize::from(reader.u16()?);
    let Some(data) = length.checked_sub(HEADER).filter(|data| *data > 0) else { return Some(false) };
    reader.take(4)?;
    if kind == LOGIN {
        // Its own length, which may be that of several packets, and the version of the protocol from 7.0 to 7.4.
        let own = reader.u32()?.swap_bytes() as usize;
        let version = reader.u32()?;
        return Some(own >= data && own < 1 << 17 && matches!(version & 0xff, 0x70..=0x74));
    }
    // Options with the places of their values, which follow each other after the list; the first is the version.
    let options = reader.rest().get(..data).unwrap_or(reader.rest());
    let (mut options, mut count, mut next) = (Reader::new(options), 0, None);
    loop {
        let option = options.u8()?;
        if option == 0xff {
            return Some(count > 0 && next.is_some_and(|next| next <= data));
        }
        let (at, size) = (usize::from(options.u16()?), usize::from(options.u16()?));
        let is_place = next.map_or(at > 5 && at < 64, |next| next == at);
        if !is_place || option > 8 || (count == 0) != (option == 0) || count == 0 && size != 6 {
            return Some(false);
        }
        (count, next) = (count + 1, Some(at + size));
    }
}
