//! The targets. To add one: a file here with a [`Target`], a line in [`TARGETS`], and a file of the same name in
//! `libfuzzer/fuzz_targets`.

mod anon;
mod engine;
mod filter;
mod flow;
mod read;
mod reading;
mod repair;
mod rewrite;
mod rules;
mod session;
mod wire;

use crate::Target;

/// Every target.
pub static TARGETS: &[Target] = &[
    wire::TARGET,
    read::TARGET,
    reading::TARGET,
    repair::TARGET,
    rewrite::TARGET,
    filter::TARGET,
    rules::TARGET,
    flow::TARGET,
    engine::TARGET,
    session::TARGET,
    anon::TARGET,
];

/// Digest of an outcome: it depends on the order and on nothing else about the numbers.
#[derive(Default)]
struct Digest(u64);

impl Digest {
    fn add(&mut self, what: u64) {
        self.0 = (self.0 ^ what).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    }

    /// The magnitude of a number: 1,001 in place of 1,000 is no new outcome.
    fn size(&mut self, n: u64) {
        self.add(u64::from(n.checked_ilog2().map_or(0, |log| log + 1)));
    }
}

/// Words of network headers.
const HEADERS: &[&[u8]] = &[
    b"\x08\x00",
    b"\x86\xdd",
    b"\x81\x00",
    b"\x88\xa8",
    b"\x88\x47",
    b"\x88\x64",
    b"\x65\x58",
    b"\x88\x0b",
    b"\x88\xbe",
    b"\x22\xeb",
    b"\x12\xb5",
    b"\x17\xc1",
    b"\x08\x68",
    b"\x06\xa5",
    b"\x45\x00",
    b"\x60\x00\x00\x00",
    b"\x00\x00",
    b"\xff\xff",
    b"\x00\x01",
    b"\x7f\xff\xff\xff",
    b"\xff\xff\xff\xff",
];
