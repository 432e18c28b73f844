//! Files that are extracted from streams: `--files`.

use super::values::{bytes, hashes};
use clap::Args;
use std::path::PathBuf;
use weir_proto::Hashes;

/// Extracted files: where they go, their limits and checksums.
#[derive(Debug, Args)]
pub struct ExtractionOptions {
    /// Extract files from streams into a directory. A complete file is named by its SHA-256, others by their identifier
    /// in the logs.
    #[arg(long, value_name = "DIR", conflicts_with = "anonymisation", help_heading = "Files")]
    pub files: Option<PathBuf>,

    /// Maximum size of each extracted file (e.g. 64M, 1G).
    #[arg(long, value_name = "SIZE", requires = "files", default_value = "64M", value_parser = bytes, help_heading = "Files", hide_short_help = true)]
    pub files_each: u64,

    /// Maximum size of all extracted files together.
    #[arg(long, value_name = "SIZE", requires = "files", default_value = "4G", value_parser = bytes, help_heading = "Files", hide_short_help = true)]
    pub files_total: u64,

    /// Maximum number of extracted files.
    #[arg(
        long,
        value_name = "N",
        requires = "files",
        default_value_t = 100_000,
        help_heading = "Files",
        hide_short_help = true
    )]
    pub files_count: u64,

    /// Checksums of files, separated by commas: md5, sha1, sha256; or none [default: none; sha256 with --files].
    #[arg(long, value_name = "HASH,...", value_parser = hashes, help_heading = "Files", hide_short_help = true)]
    pub hash: Option<Hashes>,
}
