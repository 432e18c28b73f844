//! MOUNT, the protocol by which a client of NFS gets its first file handle (RFC 1813 5).

use super::{identified, rpc};
use crate::{Heads, Probe, Protocol, Transport};

pub(crate) static PROTOCOL: Protocol = identified(
    "mount",
    "MOUNT, which gives a client of NFS its first file handle (RFC 1813 5); it is identified but not parsed.",
    Transport::Both,
    &[],
    probe,
);

fn probe(heads: &Heads<'_>) -> Probe {
    rpc::calls(heads, PROTOCOL.ports, |program| program == rpc::MOUNT)
}
