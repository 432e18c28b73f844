//! Verification of checksums.

use clap::ValueEnum;
use weir_engine::ChecksumMode;

/// Verification of checksums.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Checksum {
    /// Verify a sample, and report the result.
    Auto,
    /// Verify all.
    On,
    /// Verify none.
    Off,
    /// Verify all; only wrong ones of TCP exclude packets.
    Tcp,
}

impl From<Checksum> for ChecksumMode {
    fn from(mode: Checksum) -> Self {
        match mode {
            Checksum::Auto => Self::Auto,
            Checksum::On => Self::On,
            Checksum::Tcp => Self::Tcp,
            Checksum::Off => Self::Off,
        }
    }
}
