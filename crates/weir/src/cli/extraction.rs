//! Files that are extracted from streams: `--files`.

use super::values::{bytes, hashes, named};
use crate::carve::Limits;
use clap::{ArgAction, Args};
use std::path::{Path, PathBuf};
use weir_proto::Hashes;

/// Extracted files: where they go, their limits and checksums.
#[derive(Debug, Args)]
pub struct ExtractionOptions {
    /// Extract files from streams into a directory. A complete file is named by its SHA-256, others by their identifier
    /// in the logs. With an expression over records of files, those that it selects (--files
    /// exe='files.mime_type contains "dosexec"'); this may be repeated.
    #[arg(long, value_name = "DIR[=EXPR]", action = ArgAction::Append, conflicts_with = "anonymisation", help_heading = "Files")]
    pub files: Vec<PathBuf>,

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

impl ExtractionOptions {
    /// The limits of each directory.
    pub fn limits(&self) -> Limits {
        Limits { each: self.files_each, files: self.files_count, total: self.files_total }
    }

    /// The directories of all files.
    pub fn whole(&self) -> impl Iterator<Item = &Path> {
        self.files.iter().filter_map(|path| match path.to_str().map(named) {
            Some((_, Some(_))) => None,
            Some((name, None)) => Some(Path::new(name)),
            // A name that is not UTF-8 has no expression.
            None => Some(path),
        })
    }

    /// The directories of the files that an expression selects, each with its expression.
    pub fn selected(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files.iter().filter_map(|path| {
            let (name, expression) = named(path.to_str()?);
            Some((name, expression?))
        })
    }
}
