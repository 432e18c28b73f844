//! NFS, the Network File System (RFC 1813, RFC 7530, RFC 8881).

use super::{identified, rpc};
use crate::{Heads, Probe, Protocol, Transport};

pub(crate) static PROTOCOL: Protocol = identified(
    "nfs",
    "Network File System (RFC 1813, RFC 7530); it is identified but not parsed.",
    Transport::Both,
    &[2049],
    probe,
);

fn probe(heads: &Heads<'_>) -> Probe {
    rpc::calls(heads, PROTOCOL.ports, |program| program == rpc::NFS)
}
