//! Rewrites messages of DNS, multicast DNS and LLMNR in place: names label by label, and addresses; other data of
//! records is blanked (RFC 1035 4, RFC 3596).

use super::Anonymiser;
use super::body::blank;

/// Maximum number of pointers in a name.
const JUMPS: usize = 32;

/// Rewrites a message; malformed or unknown data, and all data after it, is blanked.
pub(super) fn message(anonymiser: &mut Anonymiser, message: &mut [u8]) {
    let before = message.to_vec();
    let known = Message { before: &before, at: 12 }.rewrite(anonymiser, message);
    if let Err(at) = known {
        // If nothing can be parsed, it is not a DNS message: its header is payload too.
        blank(message, if at <= 12 { 0 } else { at }, usize::MAX);
    }
}

struct Message<'a> {
    before: &'a [u8],
    at: usize,
}

impl Message<'_> {
    /// Rewrites the message; the error is the offset up to which it could be parsed.
    fn rewrite(mut self, anonymiser: &mut Anonymiser, out: &mut [u8]) -> Result<(), usize> {
        let counts = [4, 6, 8, 10].map(|at| self.word(at));
        let [Some(questions), Some(answers), Some(authorities), Some(additional)] = counts else {
            return Err(0);
        };
        for _ in 0..questions {
            self.name(anonymiser, out).ok_or(self.at)?;
            self.skip(4).ok_or(self.at)?;
        }
        for _ in 0..u32::from(answers) + u32::from(authorities) + u32::from(additional) {
            let start = self.at;
            self.record(anonymiser, out).ok_or(start)?;
        }
        Err(self.at)
    }

    fn word(&self, at: usize) -> Option<u16> {
        self.before.get(at..)?.first_chunk().copied().map(u16::from_be_bytes)
    }

    fn skip(&mut self, bytes: usize) -> Option<()> {
        self.at += bytes;
        (self.at <= self.before.len()).then_some(())
    }

    fn record(&mut self, anonymiser: &mut Anonymiser, out: &mut [u8]) -> Option<()> {
        const OPT: u16 = 41;
        self.name(anonymiser, out)?;
        let kind = self.word(self.at)?;
        let length = usize::from(self.word(self.at + 8)?);
        self.skip(10)?;
        let end = self.at + length;
        self.before.get(self.at..end)?;
        let data = self.at;
        let known = match (kind, length) {
            (1, 4) => {
                anonymiser.v4_at(out, data);
                Some(())
            }
            (28, 16) => {
                anonymiser.v6_at(out, data);
                Some(())
            }
            // NS, MD, MF, CNAME, MB, MG, MR, PTR, DNAME.
            (2..=5 | 7..=9 | 12 | 39, _) => self.name(anonymiser, out),
            // MX, AFSDB, RT, KX.
            (15 | 18 | 21 | 36, _) => self.skip(2).and_then(|()| self.name(anonymiser, out)),
            (33, _) => self.skip(6).and_then(|()| self.name(anonymiser, out)),
            (6, _) => {
                let names = self.name(anonymiser, out).and_then(|()| self.name(anonymiser, out));
                names.and_then(|()| self.skip(20))
            }
            (17, _) => self.name(anonymiser, out).and_then(|()| self.name(anonymiser, out)),
            // NSEC: the next name, and a bit map of types.
            (47, _) => self.name(anonymiser, out).map(|()| self.at = end),
            (OPT, _) => {
                self.options(out, end);
                Some(())
            }
            _ => None,
        };
        // Other data of records: text, keys, signatures.
        let known_to = if known.is_some() && self.at <= end { self.at } else { data };
        if !matches!(kind, 1 | 28 | OPT) || known.is_none() {
            blank(out, known_to, end);
        }
        self.at = end;
        Some(())
    }

    /// EDNS options: their types are kept, their values are not.
    fn options(&self, out: &mut [u8], end: usize) {
        let mut at = self.at;
        while at + 4 <= end {
            let length = self.word(at + 2).map_or(0, usize::from);
            blank(out, at + 4, (at + 4 + length).min(end));
            at += 4 + length;
        }
    }

    /// Rewrites the labels of the name at the current position and advances past it.
    fn name(&mut self, anonymiser: &mut Anonymiser, out: &mut [u8]) -> Option<()> {
        let start = self.at;
        if self.reverse(anonymiser, out, start) {
            return self.behind();
        }
        let is_only = self.text(start)?.iter().all(|byte| *byte != b'.');
        loop {
            let length = *self.before.get(self.at)?;
            match length {
                0 => return self.skip(1),
                1..=63 => {
                    let range = self.at + 1..self.at + 1 + usize::from(length);
                    let label = self.before.get(range.clone())?.to_ascii_lowercase();
                    let suffix = self.text(range.end)?;
                    let image = anonymiser.names.label(&label, &suffix, is_only);
                    out.get_mut(range)?.copy_from_slice(image.get(..usize::from(length))?);
                    self.skip(1 + usize::from(length))?;
                }
                192.. => return self.skip(2),
                _ => return None,
            }
        }
    }

    fn behind(&mut self) -> Option<()> {
        loop {
            match *self.before.get(self.at)? {
                0 => return self.skip(1),
                length @ 1..=63 => self.skip(1 + usize::from(length))?,
                192.. => return self.skip(2),
                _ => return None,
            }
        }
    }

    /// Rewrites a name that is a reversed address: its digits become those of the mapped address, as far as they are
    /// present. A label keeps its length: shorter numbers get leading zeros, and for a longer one the label gets a
    /// pseudonym.
    fn reverse(&self, anonymiser: &mut Anonymiser, out: &mut [u8], start: usize) -> bool {
        let Some(text) = self.text(start) else { return false };
        let Ok(text) = std::str::from_utf8(&text) else { return false };
        let Some(image) = super::name::reverse(&mut anonymiser.addresses, text) else { return false };
        let mut at = start;
        for (label, image) in text.split('.').zip(image.split(|byte| *byte == b'.')) {
            let length = match self.before.get(at) {
                Some(length @ 1..=63) => usize::from(*length),
                _ => break,
            };
            let Some(place) = out.get_mut(at + 1..at + 1 + length) else { return false };
            match length.checked_sub(image.len()) {
                Some(zeros) => {
                    place.fill(b'0');
                    if let Some(place) = place.get_mut(zeros..) {
                        place.copy_from_slice(image);
                    }
                }
                None => {
                    let word = anonymiser.names.word(b"reverse", label.as_bytes());
                    if word.len() == place.len() {
                        place.copy_from_slice(&word);
                    }
                }
            }
            at += 1 + length;
        }
        true
    }

    /// The name at an offset in lower case, labels joined by dots; `None` if it has no end.
    fn text(&self, at: usize) -> Option<Vec<u8>> {
        let (mut at, mut jumps) = (at, 0);
        let mut text = Vec::new();
        loop {
            match *self.before.get(at)? {
                0 => return Some(text),
                length @ 1..=63 => {
                    if !text.is_empty() {
                        text.push(b'.');
                    }
                    let label = self.before.get(at + 1..at + 1 + usize::from(length))?;
                    text.extend(label.iter().map(u8::to_ascii_lowercase));
                    at += 1 + usize::from(length);
                }
                192.. => {
                    at = usize::from(self.word(at)? & 0x3fff);
                    jumps += 1;
                }
                _ => return None,
            }
            if jumps > JUMPS || text.len() > 255 {
                return None;
            }
        }
    }
}

/// The names in a message.
pub(super) fn names(message: &[u8], mut each: impl FnMut(&[u8])) {
    let mut parts = Message { before: message, at: 12 };
    let counts = [4, 6, 8, 10].map(|at| parts.word(at).map_or(0, u32::from));
    let [questions, answers, authorities, additional] = counts;
    for n in 0..questions + answers + authorities + additional {
        let Some(name) = parts.text(parts.at) else { return };
        each(&name);
        if parts.behind().is_none() {
            return;
        }
        if n < questions {
            if parts.skip(4).is_none() {
                return;
            }
            continue;
        }
        let (kind, length) = (parts.word(parts.at), parts.word(parts.at + 8).map_or(0, usize::from));
        let data = parts.at + 10;
        let name_at = match kind {
            Some(2..=9 | 12 | 39) => Some(data),
            Some(15) => Some(data + 2),
            Some(33) => Some(data + 6),
            _ => None,
        };
        if let Some(name) = name_at.filter(|at| *at < data + length).and_then(|at| parts.text(at)) {
            each(&name);
        }
        if parts.skip(10 + length).is_none() {
            return;
        }
    }
}
