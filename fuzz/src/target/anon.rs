use super::Digest;
use crate::{Target, seeds, sequence};
use std::sync::LazyLock;
use weir_anon::{Anonymiser, Key, Mode, Payload, Policy};

pub const TARGET: Target = Target {
    name: "anon",
    about: "a sequence of packets: anonymised, each keeps its length and gives equal results again",
    seeds: seeds::sequences,
    words: super::HEADERS,
    run,
};

const WAYS: [(Mode, Payload); 3] =
    [(Mode::CryptoPan, Payload::Blank), (Mode::IpCrypt, Payload::Keep), (Mode::Nullip, Payload::Cut)];

/// Created once: the tables of a key take longer than most inputs.
static MADE: LazyLock<Vec<Anonymiser>> = LazyLock::new(|| {
    let make = |(mode, payload)| {
        let policy = Policy { mode, payload, ..Policy::default() };
        Anonymiser::new(policy, &Key(*b"0123456789abcdefghijklmnopqrstuv")).expect("a good key")
    };
    WAYS.into_iter().map(make).collect()
});

fn run(input: &[u8]) -> u64 {
    let chunk = sequence::decode(input);
    let mut digest = Digest::default();
    for ((mode, payload), made) in WAYS.into_iter().zip(MADE.iter()) {
        let mut anonymiser = made.clone();
        let (mut first, mut second) = (Vec::new(), Vec::new());
        for packet in chunk.batch().packets() {
            let image = anonymiser.packet(&packet, &mut first);
            assert_eq!((image.wire_len, image.link), (packet.wire_len, packet.link));
            assert!(payload == Payload::Cut || image.data.len() == packet.data.len(), "{mode:?}");
            anonymiser.packet(&packet, &mut second);
            assert_eq!(first, second, "{mode:?}");
            digest.size(first.iter().map(|byte| u64::from(*byte)).sum());
        }
    }
    digest.0
}
