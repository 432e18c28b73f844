//! BitTorrent (BEP 3): the handshake between peers begins with the protocol's name and its length.

use super::{agrees, identified};
use crate::{Heads, Probe, Protocol, Transport};

pub(crate) static PROTOCOL: Protocol = identified(
    "bittorrent",
    "BitTorrent between peers (BEP 3); it is identified but not parsed.",
    Transport::Tcp,
    &[],
    probe,
);

const HANDSHAKE: &[u8] = b"\x13BitTorrent protocol";

fn probe(heads: &Heads<'_>) -> Probe {
    if heads.both().any(|head| head.starts_with(HANDSHAKE)) {
        return Probe::Match;
    }
    if heads.both().all(|head| agrees(head, HANDSHAKE)) { Probe::Maybe } else { Probe::Reject }
}
