//! The port mapper of ONC RPC, rpcbind (RFC 1833).

use super::{identified, rpc};
use crate::{Heads, Probe, Protocol, Transport};

pub(crate) static PROTOCOL: Protocol = identified(
    "portmapper",
    "Port mapper of ONC Remote Procedure Call (RFC 1833); it is identified but not parsed.",
    Transport::Both,
    &[111],
    probe,
);

fn probe(heads: &Heads<'_>) -> Probe {
    rpc::calls(heads, PROTOCOL.ports, |program| program == rpc::PORTMAPPER)
}
