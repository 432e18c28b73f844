//! The events of a flow, one letter each.

use std::fmt;

/// Letters that a history holds; real ones have 4 to 12.
const CAPACITY: usize = 24;

/// The events of a flow in order, in Zeek's letters: upper case for the initiator, lower case for the responder.
///
/// | letter | event |
/// |---|---|
/// | `s` | SYN without ACK |
/// | `h` | SYN with ACK |
/// | `a` | ACK without payload |
/// | `d` | packet with payload |
/// | `f` | FIN |
/// | `r` | RST |
/// | `c` | packet with a wrong checksum |
/// | `g` | payload that was acknowledged and not seen |
/// | `t` | retransmitted payload |
/// | `w` | closed window |
/// | `i` | FIN and RST in one packet |
/// | `q` | SYN with FIN or RST |
/// | `^` | the direction was reversed: the sender of the first packet is the responder |
///
/// Each letter occurs once per side; `c g t w` occur again at the tenth, hundredth ... time, and `s h f r` again when
/// they come with another sequence number. Events after the 24th letter are not kept.
#[derive(Clone, Copy, Default, Eq, Hash, PartialEq)]
pub struct History {
    letters: [u8; CAPACITY],
    len: u8,
}

impl History {
    /// The letters.
    pub fn as_str(&self) -> &str {
        let letters = self.letters.get(..usize::from(self.len)).unwrap_or_default();
        std::str::from_utf8(letters).unwrap_or_default()
    }

    /// Whether the history is empty, as in flows of ICMP.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The history of a flow of one packet: `^` if its sender is the responder, then the letter of the packet's event,
    /// if it has one.
    #[inline]
    pub(crate) fn of_one(letter: Option<u8>, flipped: bool) -> Self {
        let letter = letter.map_or(0, |letter| if flipped { letter.to_ascii_lowercase() } else { letter });
        let mut history = Self { len: u8::from(letter != 0) + u8::from(flipped), ..Self::default() };
        let [first, second] = if flipped { [b'^', letter] } else { [letter, 0] };
        history.letters[0] = first;
        history.letters[1] = second;
        history
    }

    /// Adds a letter: upper case if the event is the `initiator`'s.
    pub(crate) fn push(&mut self, letter: u8, initiator: bool) {
        if let Some(place) = self.letters.get_mut(usize::from(self.len)) {
            *place = if initiator { letter } else { letter.to_ascii_lowercase() };
            self.len += 1;
        }
    }
}

impl fmt::Display for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl fmt::Debug for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_are_kept_up_to_the_capacity() {
        let mut history = History::default();
        assert!(history.is_empty());
        for _ in 0..40 {
            history.push(b'D', false);
        }
        history.push(b'F', true);
        assert_eq!(history.to_string(), "d".repeat(CAPACITY));
    }
}
