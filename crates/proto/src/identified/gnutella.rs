//! Gnutella: each side begins a connection between peers with a line that has the protocol's name, as a request (version 0.4 and
//! 0.6) or as an answer (version 0.6).

use super::{agrees, identified};
use crate::{Heads, Probe, Protocol, Transport};

pub(crate) static PROTOCOL: Protocol = identified(
    "gnutella",
    "Gnutella between peers (versions 0.4 and 0.6); it is identified but not parsed.",
    Transport::Tcp,
    &[],
    probe,
);

/// What a request and an answer begin with.
const BEGINNINGS: [&[u8]; 2] = [b"GNUTELLA CONNECT/", b"GNUTELLA/"];

fn probe(heads: &Heads<'_>) -> Probe {
    if heads.both().any(|head| BEGINNINGS.iter().any(|begins| head.starts_with(begins))) {
        return Probe::Match;
    }
    if heads.both().all(|head| BEGINNINGS.iter().any(|begins| agrees(head, begins))) {
        Probe::Maybe
    } else {
        Probe::Reject
    }
}
