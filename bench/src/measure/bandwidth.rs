//! How fast one core reads memory in order: what any pass over packets in memory is limited by.

use crate::Result;
use crate::clock::{median, timed};
use serde_json::json;

/// Bytes that are read, far beyond any cache.
const SIZE: usize = 1 << 30;

/// Prints the row.
pub fn measure(rounds: u32) -> Result<()> {
    let words = vec![1_u64; SIZE / 8];
    let mut sum = 0;
    let mut taken = Vec::new();
    for _ in 0..rounds {
        taken.push(timed(|| sum ^= read(&words)) as f64);
    }
    // The sum is shown so that nothing of the reading is left out.
    println!("{}", json!({"what": "bandwidth", "bytes": SIZE, "ns": median(taken), "sum": sum}));
    Ok(())
}

/// Four lines at a time, so that as many reads are on their way as the processor can have.
fn read(words: &[u64]) -> u64 {
    let mut sums = [0_u64; 32];
    for block in words.as_chunks::<32>().0 {
        for (sum, word) in sums.iter_mut().zip(block) {
            *sum ^= word.rotate_left(1);
        }
    }
    sums.iter().fold(0, |all, sum| all ^ sum)
}
