//! OPC UA over TCP (OPC 10000-6, 7.1.2): the hello of the client, its acknowledgement, and the opening of a channel.

use super::{agrees, identified};
use crate::{Heads, Probe, Protocol, Transport};
use weir_wire::Reader;

pub(crate) static PROTOCOL: Protocol = identified(
    "opcua",
    "OPC Unified Architecture over TCP (OPC 10000-6); it is identified but not parsed.",
    Transport::Tcp,
    &[4840],
    probe,
);

/// The URIs of security policies begin with this.
const POLICY: &[u8] = b"http://opcfoundation.org/UA/SecurityPolicy#";
/// The maximum length of a server's address.
const MAX_URL: usize = 4096;

fn probe(heads: &Heads<'_>) -> Probe {
    heads.one_message(begun)
}

/// Whether a message begins here.
fn begun(head: &[u8]) -> Probe {
    if ![b"HELF", b"ACKF", b"OPNF", b"RHEF"].iter().any(|kind| agrees(head, *kind)) {
        return Probe::Reject;
    }
    Probe::of(fits(head))
}

/// Whether the fields of a message fit its length; `None` if they are not all here.
fn fits(head: &[u8]) -> Option<bool> {
    let mut reader = Reader::new(head);
    let kind = reader.take(4)?;
    let mut little = || reader.u32().map(|number| number.swap_bytes() as usize);
    let length = little()?;
    Some(match kind {
        // The version, four limits, and the address after its own length, which may be that of none.
        b"HELF" => {
            (0..5).try_for_each(|_| little().map(drop))?;
            let url = little()?;
            let url = if url == u32::MAX as usize { 0 } else { url };
            url <= MAX_URL && length == 32 + url
        }
        b"ACKF" => length == 28 && little()? < 16,
        b"OPNF" => {
            little()?;
            let policy = little()?;
            let uri = reader.rest();
            if uri.len() < POLICY.len() && agrees(uri, POLICY) {
                return None;
            }
            length > 16 + policy && (POLICY.len()..256).contains(&policy) && uri.starts_with(POLICY)
        }
        // The addresses of a server that asks to be called.
        _ => {
            let server = little()?;
            server <= MAX_URL && reader.rest().starts_with(b"urn:") && length >= 16 + server
        }
    })
}
