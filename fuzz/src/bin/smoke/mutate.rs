//! Seeded mutation: each input is one of the corpus with a few changes of kinds that often break parsers.

/// Maximum length of an input in bytes.
const MAX_BYTES: usize = 96 << 10;

/// Makes inputs from other inputs.
pub struct Mutator {
    state: u64,
    words: &'static [&'static [u8]],
}

impl Mutator {
    /// A mutator; equal seeds give equal inputs.
    pub fn new(seed: u64, words: &'static [&'static [u8]]) -> Self {
        Self { state: seed, words }
    }

    /// SplitMix64.
    fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A random number below `n`; 0 if `n` is 0.
    fn below(&mut self, n: usize) -> usize {
        (self.bits() % n.max(1) as u64) as usize
    }

    /// A position, often near the beginning, where headers are.
    fn place(&mut self, len: usize) -> usize {
        let near = if self.below(2) == 0 { len.min(64) } else { len };
        self.below(near)
    }

    /// The next input.
    pub fn next(&mut self, corpus: &[Vec<u8>], input: &mut Vec<u8>) {
        input.clear();
        let chosen = self.below(corpus.len());
        input.extend_from_slice(corpus.get(chosen).map_or(&[][..], Vec::as_slice));
        for _ in 0..=self.below(4) + self.below(2) * self.below(16) {
            self.change(corpus, input);
        }
        input.truncate(MAX_BYTES);
    }

    fn change(&mut self, corpus: &[Vec<u8>], input: &mut Vec<u8>) {
        let at = self.place(input.len());
        match self.below(10) {
            0 => {
                let bit = 1 << self.below(8);
                if let Some(byte) = input.get_mut(at) {
                    *byte ^= bit;
                }
            }
            1 => {
                let value = self.bits() as u8;
                if let Some(byte) = input.get_mut(at) {
                    *byte = value;
                }
            }
            2 => self.number(input, at),
            3 => input.truncate(at),
            4 => {
                let end = at + self.below(32).min(input.len() - at);
                input.drain(at..end);
            }
            5 => {
                let bytes = vec![self.bits() as u8; self.below(24)];
                input.splice(at..at, bytes);
            }
            6 => {
                let end = at + self.below(256).min(input.len() - at);
                let again = input[at..end].to_vec();
                input.splice(at..at, again);
            }
            7 => self.splice(corpus, input, at),
            8 => self.word(input, at),
            _ => {
                // Copies bytes to another position: a header in place of another.
                let len = (1 + self.below(40)).min(input.len() - at);
                let to = self.place(input.len() - len + 1);
                input.copy_within(at..at + len, to);
            }
        }
    }

    /// Changes a possible length, count or offset: slightly, or to an extreme, in either byte order.
    fn number(&mut self, input: &mut [u8], at: usize) {
        let width = [1, 2, 2, 4, 4, 8][self.below(6)];
        let step = self.below(9) as u64;
        let extreme =
            [0, 1, 0x7f, 0x80, 0xff, 0x7fff, 0xffff, 0x7fff_ffff, 0x8000_0000, u64::MAX][self.below(10)];
        let (choice, little) = (self.below(3), self.below(2) == 0);
        let left = (input.len() - at) as u64;
        let Some(field) = input.get_mut(at..at + width) else { return };
        let mut bytes = [0; 8];
        bytes[8 - width..].copy_from_slice(field);
        if little {
            bytes[8 - width..].reverse();
        }
        let value = u64::from_be_bytes(bytes);
        let value = match choice {
            0 => value.wrapping_add(step).wrapping_sub(4),
            1 => extreme,
            _ => left.wrapping_add(step).wrapping_sub(4),
        };
        bytes = value.to_be_bytes();
        if little {
            bytes[8 - width..].reverse();
        }
        field.copy_from_slice(&bytes[8 - width..]);
    }

    /// Continues with a part of another input.
    fn splice(&mut self, corpus: &[Vec<u8>], input: &mut Vec<u8>, at: usize) {
        let chosen = self.below(corpus.len());
        let Some(other) = corpus.get(chosen) else { return };
        let from = self.place(other.len());
        let to = from + self.below(other.len() - from + 1).min(4096);
        let end = if self.below(2) == 0 { at } else { (at + to - from).min(input.len()) };
        input.splice(at..end, other[from..to].iter().copied());
    }

    /// Inserts a word of the target, or overwrites bytes with it.
    fn word(&mut self, input: &mut Vec<u8>, at: usize) {
        let chosen = self.below(self.words.len());
        let Some(word) = self.words.get(chosen) else { return };
        let end = if self.below(2) == 0 { at } else { (at + word.len()).min(input.len()) };
        input.splice(at..end, word.iter().copied());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An empty corpus, a single byte, and longer inputs: no panic, and equal inputs for equal seeds.
    #[test]
    fn any_corpus_is_mutated_repeatably() {
        for corpus in [vec![], vec![vec![]], vec![vec![7]], vec![vec![1; 300], vec![2; 5], vec![]]] {
            let run = || {
                let mut mutator = Mutator::new(3, &[b"word"]);
                let mut input = Vec::new();
                (0..20_000)
                    .map(|_| {
                        mutator.next(&corpus, &mut input);
                        input
                            .iter()
                            .fold(input.len() as u64, |sum, o| sum.wrapping_mul(31).wrapping_add((*o).into()))
                    })
                    .collect::<Vec<u64>>()
            };
            assert_eq!(run(), run());
        }
    }
}
