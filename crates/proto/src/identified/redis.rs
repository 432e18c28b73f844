//! Redis (Redis serialization protocol, RESP): a command is an array of bulk strings, and its reply begins with its type.

use super::{identified, line};
use crate::{Heads, Probe, Protocol, Transport};

pub(crate) static PROTOCOL: Protocol = identified(
    "redis",
    "Redis (Redis serialization protocol); it is identified but not parsed.",
    Transport::Tcp,
    &[6379],
    probe,
);

/// On its port a command decides, elsewhere with its reply.
fn probe(heads: &Heads<'_>) -> Probe {
    if heads.forward.is_empty() {
        return Probe::Reject;
    }
    match (command(heads.forward), reply(heads.reverse)) {
        (Probe::Reject, _) | (_, Probe::Reject) => Probe::Reject,
        (Probe::Match, Probe::Match) => Probe::Match,
        (Probe::Match, _) if heads.is_home(PROTOCOL.ports) => Probe::Match,
        _ => Probe::Maybe,
    }
}

/// Whether a command begins here: the number of its words, and its first word after its length.
fn command(head: &[u8]) -> Probe {
    let Some((words, rest)) = numbered(head, b'*') else { return begun(head, b'*') };
    let Some((length, rest)) = numbered(rest, b'$') else { return begun(rest, b'$') };
    let (word, end) = rest.split_at_checked(length).unwrap_or((rest, &[]));
    let is_word = word.iter().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(byte));
    let is_sound = (1..=1 << 20).contains(&words) && (1..=32).contains(&length) && is_word;
    match end {
        _ if !is_sound => Probe::Reject,
        [b'\r', b'\n', ..] => Probe::Match,
        [] | [b'\r'] => Probe::Maybe,
        _ => Probe::Reject,
    }
}

/// Whether a reply begins here: a line of text or of an error, a number, a string or an array.
fn reply(head: &[u8]) -> Probe {
    let Some((kind, rest)) = head.split_first() else { return Probe::Maybe };
    let digits = |text: &[u8]| text.iter().all(|byte| byte.is_ascii_digit() || *byte == b'-');
    match (kind, line(rest)) {
        (b'+' | b'-' | b':' | b'$' | b'*' | b'%' | b'_', None) if rest.len() < 256 => Probe::Maybe,
        (b':' | b'$' | b'*' | b'%', Some(text)) if !text.is_empty() && digits(text) => Probe::Match,
        (b'+' | b'-', Some(text)) if !text.is_empty() && text.iter().all(|byte| *byte >= b' ') => {
            Probe::Match
        }
        _ => Probe::Reject,
    }
}

/// The number after a mark, and what follows its line.
fn numbered(head: &[u8], mark: u8) -> Option<(usize, &[u8])> {
    let rest = head.strip_prefix(&[mark])?;
    let end = rest.iter().take(9).position(|byte| *byte == b'\r')?;
    let (digits, rest) = rest.split_at_checked(end)?;
    let number = std::str::from_utf8(digits).ok()?.parse().ok()?;
    digits.first().is_some_and(u8::is_ascii_digit).then_some(())?;
    Some((number, rest.strip_prefix(b"\r\n")?))
}

/// Whether the line of a number may begin here.
fn begun(head: &[u8], mark: u8) -> Probe {
    match head.split_first() {
        None => Probe::Maybe,
        Some((first, rest)) if *first == mark && rest.len() < 9 => {
            let digits = rest.strip_suffix(b"\r").unwrap_or(rest);
            if digits.iter().all(u8::is_ascii_digit) { Probe::Maybe } else { Probe::Reject }
        }
        Some(_) => Probe::Reject,
    }
}
