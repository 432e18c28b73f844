//! Measures the mapping of a new address by each mode of anonymisation.

use crate::Result;
use crate::clock::{median, timed};
use serde_json::json;
use std::hint::black_box;
use weir_anon::{Addresses, Key, Mode};
use weir_bench::random::Random;

/// The reference implementation's sample key, so that a first address can be checked.
const KEY: [u8; 32] = [
    21, 34, 23, 141, 51, 164, 207, 128, 19, 10, 91, 22, 73, 144, 125, 16, 216, 152, 143, 131, 121, 121, 101,
    39, 98, 87, 76, 45, 42, 132, 34, 2,
];

pub fn measure(rounds: u32, seed: u64, count: usize) -> Result<()> {
    for (name, mode) in Mode::ALL {
        let mut addresses = Addresses::new(mode, &Key(KEY))?;
        if mode == Mode::CryptoPan && addresses.v4([128, 11, 68, 132]) != [135, 242, 180, 132] {
            return Err("cryptopan differs from the reference implementation".into());
        }
        if mode == Mode::Nullip {
            continue;
        }
        let mut random = Random(seed);
        let all: Vec<u32> = (0..count).map(|_| random.bits() as u32).collect();
        let taken: Vec<f64> = (0..rounds)
            .map(|_| {
                timed(|| {
                    for address in &all {
                        black_box(addresses.cold4(*address));
                    }
                }) as f64
            })
            .collect();
        let start = timed(|| drop(black_box(Addresses::new(mode, &Key(KEY)))));
        println!(
            "{}",
            json!({ "mode": name, "addresses": count, "nanos": median(taken) / count as f64,
                    "start_millis": start as f64 / 1e6 })
        );
    }
    Ok(())
}
