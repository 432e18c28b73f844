//! WireGuard (the white paper of 2020, 5.4): four kinds of messages, of fixed lengths but for data.

use super::identified;
use crate::{Heads, Probe, Protocol, Transport};

pub(crate) static PROTOCOL: Protocol = identified(
    "wireguard",
    "WireGuard (wireguard.com/papers); it is identified but not parsed.",
    Transport::Udp,
    &[51820],
    probe,
);

/// Lengths of the first message of a handshake, of its answer, and of a cookie.
const INITIATION: usize = 148;
const RESPONSE: usize = 92;
const COOKIE: usize = 64;

/// The messages of a handshake decide by their lengths, data on both sides, or on the port.
fn probe(heads: &Heads<'_>) -> Probe {
    let is_home = heads.is_home(PROTOCOL.ports);
    let [one, other] = [heads.forward, heads.reverse].map(kind);
    match (one, other) {
        (Some(Kind::Handshake), _) | (_, Some(Kind::Handshake)) => Probe::Match,
        (Some(Kind::Data(one)), Some(Kind::Data(other))) if one != other => Probe::Match,
        (Some(_), _) | (_, Some(_)) if is_home => Probe::Match,
        (Some(Kind::Data(_)), None) if heads.reverse.is_empty() => Probe::Maybe,
        (None, Some(Kind::Data(_))) if heads.forward.is_empty() => Probe::Maybe,
        _ => Probe::Reject,
    }
}

/// A message of a handshake, or data for this receiver.
enum Kind {
    Handshake,
    Data([u8; 4]),
}

/// What the datagrams of a side are.
fn kind(datagrams: &[u8]) -> Option<Kind> {
    let (kind, rest) = datagrams.split_first_chunk::<4>()?;
    match (*kind, datagrams.len()) {
        ([1, 0, 0, 0], INITIATION) | ([2, 0, 0, 0], RESPONSE) | ([3, 0, 0, 0], COOKIE) => {
            Some(Kind::Handshake)
        }
        ([4, 0, 0, 0], length) if length >= 32 && length.is_multiple_of(16) => {
            let (receiver, counter) = rest.split_first_chunk::<4>()?;
            // Receivers are random numbers, and counters begin with 0.
            let is_random = receiver.iter().filter(|byte| **byte != 0).count() >= 3;
            let is_young = counter.get(4..8) == Some(&[0; 4]);
            (is_random && is_young).then_some(Kind::Data(*receiver))
        }
        _ => None,
    }
}
