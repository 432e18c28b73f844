//! BitTorrent's distributed hash table (BEP 5): each datagram is a dictionary in the encoding of BEP 3, with the kind of the
//! message under `y` and its transaction under `t`.

use super::identified;
use crate::{Heads, Probe, Protocol, Transport};

pub(crate) static PROTOCOL: Protocol = identified(
    "bt_dht",
    "BitTorrent's distributed hash table (BEP 5); it is identified but not parsed.",
    Transport::Udp,
    &[],
    probe,
);

/// The first key and what it has: arguments or results begin with the sender's identifier, an error is a list, and the
/// sender may be shown its own address (BEP 42).
const BEGINNINGS: [&[u8]; 5] = [b"d1:ad2:id20:", b"d1:rd2:id20:", b"d1:eli20", b"d2:ip6:", b"d2:ip18:"];
/// Kinds of messages: queries, responses and errors.
const KINDS: [&[u8]; 3] = [b"1:y1:q", b"1:y1:r", b"1:y1:e"];

fn probe(heads: &Heads<'_>) -> Probe {
    let has = |head: &[u8], word: &[u8]| head.windows(word.len()).any(|bytes| bytes == word);
    let is_message = |head: &[u8]| {
        BEGINNINGS.iter().any(|begins| head.starts_with(begins))
            && head.ends_with(b"e")
            && KINDS.iter().any(|kind| has(head, kind))
            && has(head, b"1:t")
    };
    if heads.both().all(is_message) { Probe::Match } else { Probe::Reject }
}
