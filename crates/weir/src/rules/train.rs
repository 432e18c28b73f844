//! `weir rules train`: how rare pairs of bytes are in captures.

use super::Outcome;
use crate::exit::Exit;
use crate::inputs::{exit_of, inputs, report_read_errors};
use std::path::{Path, PathBuf};
use weir_capture::{Files, ReadOptions};
use weir_detect::PairCounts;
use weir_output::figures::counted;
use weir_wire::{PacketBuf, decode_batch};

/// Minimum and maximum number of bytes by which payload is judged.
const JUDGED: (usize, usize) = (64, 256);

/// Whether payload looks random, as what is encrypted or compressed does: rules find nothing in it, and it says nothing of what is
/// common. Of 256 random bytes 162 are different from each other, of 64 bytes 57.
fn is_random(payload: &[u8]) -> bool {
    let judged = payload.get(..JUDGED.1).unwrap_or(payload);
    let mut is_there = [false; 256];
    for byte in judged {
        if let Some(place) = is_there.get_mut(usize::from(*byte)) {
            *place = true;
        }
    }
    let different = is_there.iter().filter(|is| **is).count();
    judged.len() >= JUDGED.0 && 2 * different > judged.len()
}

/// Counts the pairs of bytes in the payload of all packets, and writes how rare they are.
///
/// # Errors
/// A capture cannot be opened, or the file cannot be written: the exit code and the reason.
pub fn train(captures: &[PathBuf], output: &Path) -> Result<Outcome, (Exit, String)> {
    let mut files = Files::open(&inputs(captures), &ReadOptions::default())
        .map_err(|error| (exit_of(&error), error.to_string()))?;
    let (mut counts, mut packets) = (PairCounts::default(), 0);
    let (mut chunk, mut layers, mut errors) = (PacketBuf::default(), Vec::new(), Vec::new());
    loop {
        match files.fill(&mut chunk) {
            Ok(true) => {}
            Ok(false) => break,
            Err(error) => {
                errors.push(error);
                continue;
            }
        }
        decode_batch(chunk.batch(), &mut layers);
        for (packet, layers) in chunk.batch().packets().zip(&layers) {
            packets += 1;
            let payload = layers.payload_of(packet.data);
            if !is_random(payload) {
                counts.add(payload);
            }
        }
    }
    if counts.total() == 0 {
        return Err((Exit::Unreadable, "the captures have no payload".to_owned()));
    }
    weir_files::write(output, &counts.rarity().bytes())
        .map_err(|error| (Exit::Output, format!("{}: {error}", output.display())))?;
    let (packets, pairs) = (counted(packets, "packet"), counted(counts.total(), "pair"));
    let text = format!("{pairs} of bytes in {packets}: {}\n", output.display());
    Ok(Outcome { text, exit: report_read_errors(&errors) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_headers_are_not_random() {
        let mut state = 1_u32;
        let random: Vec<u8> = (0..1_000)
            .map(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (state >> 24) as u8
            })
            .collect();
        assert!(is_random(&random) && is_random(&random[..100]));
        let text = b"GET /index.html HTTP/1.1\r\nHost: www.example.org\r\nUser-Agent: Mozilla/5.0 (X11; Linux x86_64)\r\nAccept: text/html\r\n\r\n";
        assert!(!is_random(text) && !is_random(&[0; 500]) && !is_random(&random[..20]));
    }
}
