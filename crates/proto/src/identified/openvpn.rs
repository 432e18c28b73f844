//! OpenVPN over UDP: the hard reset of the client and that of the server, which repeats the identifier of the client's session (the
//! protocol's description in `ssl_pkt.h` of OpenVPN 2.6). Resets that are encrypted (tls-crypt) do not show it. Over TCP the
//! flow has the name of the TLS that it carries.

use super::identified;
use crate::{Heads, Probe, Protocol, Transport};

pub(crate) static PROTOCOL: Protocol = identified(
    "openvpn",
    "OpenVPN (openvpn.net) over UDP; it is identified but not parsed.",
    Transport::Udp,
    &[1194],
    probe,
);

/// Resets, as operation and key number: of a client by versions 2 and 3, and of a server.
const CLIENT: [u8; 2] = [0x38, 0x50];
const SERVER: u8 = 0x40;
/// Lengths of a client's reset: bare, and with the check of a shared key (SHA-1, SHA-256 or encrypted, SHA-512).
const LENGTHS: [usize; 4] = [14, 42, 54, 86];

fn probe(heads: &Heads<'_>) -> Probe {
    let (one, other) = (heads.forward, heads.reverse);
    if [(one, other), (other, one)].iter().any(|(client, server)| is_pair(client, server)) {
        return Probe::Match;
    }
    let is_reset = |packet: &[u8]| packet.first().is_some_and(|first| CLIENT.contains(first));
    let is_known = LENGTHS.contains(&one.len()) || heads.is_home(PROTOCOL.ports);
    if other.is_empty() && is_reset(one) && is_known { Probe::Maybe } else { Probe::Reject }
}

/// Whether the server's packet has the identifier of the client's session after its own.
fn is_pair(client: &[u8], server: &[u8]) -> bool {
    let ([kind, session @ ..], Some((&SERVER, answer))) = (client, server.split_first()) else {
        return false;
    };
    let (Some(session), Some((own, acknowledged))) =
        (session.first_chunk::<8>(), answer.split_first_chunk::<8>())
    else {
        return false;
    };
    CLIENT.contains(kind) && session != own && acknowledged.windows(8).any(|bytes| bytes == session)
}
