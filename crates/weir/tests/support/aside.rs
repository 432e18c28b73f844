//! Captures that are set aside: a third of those of other projects, by a hash of the file's name.
//!
//! They are measured and not looked at: what differs in them is never printed, so that no case of them is mended by
//! itself. A figure of them says how far the rules reach on captures that nobody looked at.

use std::fmt;

/// Whether a capture is set aside. Only the file's name counts, so that a capture is on one side in every test.
pub fn is_aside(capture: &str) -> bool {
    hash(capture).is_multiple_of(3)
}

/// A hash of a capture's name without its folder.
pub fn hash(capture: &str) -> u64 {
    // FNV-1a of 64 bits: stable over versions and machines.
    let name = capture.rsplit('/').next().unwrap_or(capture);
    name.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

/// How many of how many are right.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Share {
    /// Those that are right.
    pub right: usize,
    /// All of them.
    pub all: usize,
}

impl fmt::Display for Share {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(&format!("{} of {}", self.right, self.all))
    }
}

/// A figure of both parts of the captures.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Figure {
    /// Of the captures that are looked at.
    pub seen: Share,
    /// Of those that are set aside.
    pub aside: Share,
}

impl Figure {
    /// Adds to the part that a capture belongs to.
    pub fn add(&mut self, capture: &str, right: usize, all: usize) {
        let share = if is_aside(capture) { &mut self.aside } else { &mut self.seen };
        share.right += right;
        share.all += all;
    }

    /// Adds another figure.
    pub fn join(&mut self, other: &Self) {
        for (share, other) in [(&mut self.seen, other.seen), (&mut self.aside, other.aside)] {
            share.right += other.right;
            share.all += other.all;
        }
    }

    /// Both parts together.
    pub fn whole(&self) -> Share {
        Share { right: self.seen.right + self.aside.right, all: self.seen.all + self.aside.all }
    }

    /// Whether each part has at least as many that are right.
    pub fn reaches(&self, [seen, aside]: [usize; 2]) -> bool {
        self.seen.right >= seen && self.aside.right >= aside
    }
}

impl fmt::Display for Figure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} seen, {} set aside", self.seen, self.aside)
    }
}
