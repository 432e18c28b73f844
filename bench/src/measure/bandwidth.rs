//! Measures how fast one core reads memory in order: the limit of any pass over packets in memory.

use crate::Result;
use crate::clock::{median, timed};
use serde_json::json;

/// Number of bytes read, far beyond any cache.
const SIZE: usize = 1 << 30;

/// Prints the row.
pub fn measure(rounds: u32) -> Result<()> {
    let words = vec![1_u64; SIZE / 8];
    let mut sum = 0;
    let mut taken = Vec::new();
    for _ in 0..rounds {
        taken.push(timed(|| sum ^= read(&words)) as f64);
    }
    // The sum is printed so that the compiler keeps the reads.
    println!("{}", json!({"what": "bandwidth", "bytes": SIZE, "ns": median(taken), "sum": sum}));
    Ok(())
}

/// Reads four lines at a time, so that as many reads as possible overlap.
fn read(words: &[u64]) -> u64 {
    let mut sums = [0_u64; 32];
    for block in words.as_chunks::<32>().0 {
        for (sum, word) in sums.iter_mut().zip(block) {
            *sum ^= word.rotate_left(1);
        }
    }
    sums.iter().fold(0, |all, sum| all ^ sum)
}
