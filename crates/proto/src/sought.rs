//! The next message after a gap, of protocols whose messages have no mark: several things must agree, which the protocol knows.

use crate::work::looked_at;
use weir_wire::Time;

/// Number of bytes of which each may begin the message that is sought.
const MAX_SKIPPED: usize = 2048;
/// Maximum length in bytes of a message that shows where messages begin.
pub(crate) const MAX_MESSAGE: usize = 2048;
/// Number of bytes that show whether there is such a message.
const MAX_SOUGHT: usize = MAX_SKIPPED + 2 * MAX_MESSAGE + 16;

/// The bytes after a gap, up to the next message.
#[derive(Debug, Default)]
pub(crate) struct Sought {
    held: Vec<u8>,
    /// The positions at which bytes arrived, with the times.
    times: Vec<(usize, Time)>,
    /// Number of bytes before those that are held.
    passed: usize,
    /// Number of the first bytes that were tried.
    tried: usize,
    /// Those of them of which more bytes show whether they begin a message.
    open: Vec<usize>,
}

/// What is known of the next message.
pub(crate) enum Found {
    /// The bytes from its first one on.
    Bytes(Arrived),
    /// More bytes will show it.
    Later(Sought),
    /// There is none near. The bytes that were not tried.
    Nothing(Sought),
}

/// Whether messages begin with some bytes.
pub(crate) enum Begun {
    /// They do, and this number of bytes shows it.
    Yes(usize),
    No,
    /// More bytes show it.
    Unknown,
}

/// Bytes with the times of their arrival.
#[derive(Debug)]
pub(crate) struct Arrived {
    bytes: Vec<u8>,
    times: Vec<(usize, Time)>,
}

impl Sought {
    /// Bytes after others that do not begin a message.
    pub fn behind(bytes: &[u8], time: Time) -> Self {
        Self { held: bytes.to_vec(), times: vec![(0, time)], passed: 1, ..Self::default() }
    }

    /// Takes the next bytes. `begun` gets the number of bytes before a place, counted from the gap, and those from there on. Of several
    /// places, the one that is certain after the fewest bytes is taken, so that the result does not depend on how the stream is cut.
    pub fn next(mut self, data: &[u8], time: Time, begun: impl Fn(usize, &[u8]) -> Begun) -> Found {
        if !data.is_empty() && self.times.last().is_none_or(|(_, last)| *last != time) {
            self.times.push((self.held.len(), time));
        }
        self.held.extend_from_slice(data);
        looked_at(data.len());
        let new = self.tried..self.held.len().min(MAX_SKIPPED);
        self.tried = new.end.max(new.start);
        let tried = std::mem::take(&mut self.open).into_iter().chain(new);
        let mut certain: Option<(usize, usize)> = None;
        for at in tried {
            match begun(self.passed + at, self.held.get(at..).unwrap_or_default()) {
                Begun::Yes(bytes) if certain.is_none_or(|(first, _)| at + bytes < first) => {
                    certain = Some((at + bytes, at));
                }
                Begun::Unknown => self.open.push(at),
                _ => {}
            }
        }
        match certain {
            Some((_, at)) => Found::Bytes(self.drop_first(at).into_arrived()),
            None if self.tried == MAX_SKIPPED && self.open.is_empty() || self.held.len() > MAX_SOUGHT => {
                Found::Nothing(self.drop_first(MAX_SKIPPED))
            }
            None => Found::Later(self),
        }
    }

    /// What is held after the first bytes, of which none was tried.
    fn drop_first(mut self, bytes: usize) -> Self {
        let bytes = bytes.min(self.held.len());
        let first = self.times.iter().rposition(|(at, _)| *at <= bytes).unwrap_or_default();
        let times = self.times.iter().skip(first).map(|(at, time)| (at.saturating_sub(bytes), *time));
        Self {
            times: times.collect(),
            passed: self.passed + bytes,
            held: self.held.split_off(bytes),
            tried: 0,
            open: Vec::new(),
        }
    }

    fn into_arrived(self) -> Arrived {
        Arrived { bytes: self.held, times: self.times }
    }

    /// Memory in bytes.
    pub fn memory(&self) -> usize {
        self.held.capacity()
            + self.open.capacity() * size_of::<usize>()
            + self.times.capacity() * size_of::<(usize, Time)>()
    }
}

impl Arrived {
    /// All bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The bytes by the time of their arrival.
    pub fn pieces(&self) -> impl Iterator<Item = (Time, &[u8])> {
        let ends = self.times.iter().skip(1).map(|(at, _)| *at).chain([self.bytes.len()]);
        let pieces = self.times.iter().zip(ends);
        pieces.map(|((begin, time), end)| (*time, self.bytes.get(*begin..end).unwrap_or_default()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A message is `<` with letters up to `>`.
    fn begun(at: usize, bytes: &[u8]) -> Begun {
        match bytes.iter().position(|byte| !byte.is_ascii_lowercase() && *byte != b'<') {
            _ if bytes.first().is_some_and(|byte| *byte != b'<') => Begun::No,
            Some(end) if bytes[end] == b'>' && (at == 0 || end > 3) => Begun::Yes(end + 1),
            Some(_) => Begun::No,
            None => Begun::Unknown,
        }
    }

    /// The bytes from the message on with their times, which count the pieces.
    fn found(bytes: &[u8], piece: usize) -> Option<Vec<(u64, u8)>> {
        let mut sought = Sought::default();
        let mut found: Vec<(u64, u8)> = Vec::new();
        let mut is_found = false;
        for (time, data) in bytes.chunks(piece).enumerate().map(|(time, data)| (time as u64, data)) {
            if is_found {
                found.extend(data.iter().map(|byte| (time, *byte)));
                continue;
            }
            let mut next = std::mem::take(&mut sought).next(data, Time(time), begun);
            while let Found::Nothing(rest) = next {
                next = rest.next(&[], Time(time), begun);
            }
            match next {
                Found::Bytes(arrived) => {
                    is_found = true;
                    for (time, bytes) in arrived.pieces() {
                        found.extend(bytes.iter().map(|byte| (time.0, *byte)));
                    }
                    assert_eq!(found.len(), arrived.bytes().len());
                }
                Found::Later(later) | Found::Nothing(later) => sought = later,
            }
        }
        is_found.then_some(found)
    }

    #[test]
    fn what_is_found_does_not_depend_on_the_cut_and_keeps_its_times() {
        let far = [b"-".repeat(5000).as_slice(), b"<a> <B"].concat();
        for (noise, message) in [(&b""[..], &b"<a>"[..]), (b"ab> <a>", b"<abc> and"), (&far, b"<abcd>")] {
            let bytes = [noise, message].concat();
            for piece in [1, 2, 3, 100, 10_000] {
                let times = (0..bytes.len()).map(|at| (at / piece) as u64).zip(bytes.iter().copied());
                let expected: Vec<_> = times.skip(noise.len()).collect();
                assert_eq!(found(&bytes, piece), Some(expected), "{} bytes, {piece}", bytes.len());
            }
        }
        assert_eq!(found(&b"<a".repeat(9000), 1000), None);
    }
}
