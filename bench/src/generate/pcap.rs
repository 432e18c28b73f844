//! Writes classic pcap with microseconds, the format that every peer reads.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use crate::{Facts, Result};

/// The time of the first packet in seconds: the capture must not depend on the time of its generation.
const EPOCH: u64 = 1_700_000_000;

/// A capture of Ethernet frames that is being written.
pub struct Writer {
    out: BufWriter<File>,
    facts: Facts,
}

impl Writer {
    /// Begins a capture.
    pub fn create(path: &Path) -> Result<Self> {
        let file = File::create(path).map_err(|e| format!("{}: {e}", path.display()))?;
        let mut out = BufWriter::with_capacity(1 << 20, file);
        for field in [0xa1b2_c3d4_u32, 4 << 16 | 2, 0, 0, 262_144, 1] {
            out.write_all(&field.to_le_bytes())?;
        }
        Ok(Self { out, facts: Facts::default() })
    }

    /// Appends a frame, at a time in microseconds after the capture's beginning.
    pub fn write(&mut self, micros: u64, frame: &[u8]) -> Result<()> {
        let len = u32::try_from(frame.len())?;
        let seconds = u32::try_from(EPOCH + micros / 1_000_000)?;
        for field in [seconds, (micros % 1_000_000) as u32, len, len] {
            self.out.write_all(&field.to_le_bytes())?;
        }
        self.out.write_all(frame)?;
        self.facts.packets += 1;
        self.facts.bytes += u64::from(len);
        Ok(())
    }

    /// Ends the capture.
    pub fn finish(mut self) -> Result<Facts> {
        self.out.flush()?;
        Ok(self.facts)
    }
}
