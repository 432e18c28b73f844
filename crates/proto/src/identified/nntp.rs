//! NNTP (RFC 3977 5.1): the server's greeting, and a command of the client.

use super::{agrees, identified, line};
use crate::{Heads, Probe, Protocol, Transport};

pub(crate) static PROTOCOL: Protocol = identified(
    "nntp",
    "Network News Transfer Protocol (RFC 3977); it is identified but not parsed.",
    Transport::Tcp,
    &[119],
    probe,
);

/// Whether posting is allowed or not.
const GREETINGS: [&[u8]; 2] = [b"200 ", b"201 "];
/// Commands of no other protocol (RFC 3977, RFC 4643, RFC 4644, and those before them).
const COMMANDS: [&str; 14] = [
    "article",
    "authinfo",
    "capabilities",
    "check",
    "group",
    "ihave",
    "mode reader",
    "mode stream",
    "newgroups",
    "newnews",
    "over",
    "takethis",
    "xhdr",
    "xover",
];

/// On its port the greeting decides, elsewhere with the first command.
fn probe(heads: &Heads<'_>) -> Probe {
    if !GREETINGS.iter().any(|greeting| agrees(heads.reverse, greeting)) {
        return Probe::Reject;
    }
    let is_text = |bytes: &[u8]| bytes.iter().all(|byte| *byte >= b' ' || *byte == b'\t');
    let greeting = line(heads.reverse);
    let is_home = heads.is_home(PROTOCOL.ports);
    if heads.reverse.is_empty() || greeting.is_some_and(|line| line.len() < 4 || !is_text(line)) {
        return Probe::Reject;
    }
    let Some(command) = line(heads.forward) else {
        return match greeting {
            Some(_) if is_home && heads.forward.is_empty() => Probe::Match,
            _ if is_text(heads.forward) => Probe::Maybe,
            _ => Probe::Reject,
        };
    };
    let is_known = COMMANDS.iter().any(|known| {
        let (word, rest) = command.split_at_checked(known.len()).unwrap_or((command, &[]));
        word.eq_ignore_ascii_case(known.as_bytes()) && matches!(rest.first(), None | Some(b' '))
    });
    match greeting {
        Some(_) if is_known || is_home && is_text(command) => Probe::Match,
        None if is_known => Probe::Maybe,
        _ => Probe::Reject,
    }
}
