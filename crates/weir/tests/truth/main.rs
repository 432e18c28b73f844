//! Compares the program's logs with those of other programs.
//!
//! The built program runs over their captures with `--log zeek,eve`, and its logs are compared with theirs, row by row
//! and field by field. Each test prints the number of equal rows, the total, and the required number. `WEIR_TRUTH=1`
//! prints each row that differs; docs/zeek-differences.md and docs/suricata-differences.md explain the differences.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "tests say what they ran, and end where they fail"
)]

#[path = "../support/mod.rs"]
mod support;

mod arkime;
mod ipfixprobe;
mod suricata;
mod zeek;

use serde_json::Value;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// The folder of another project's data; `None`, with a message, if it is absent.
fn data(name: &str) -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data").join(name);
    if !folder.is_dir() {
        println!("skipped: ../shared/data/{name} is absent");
        return None;
    }
    Some(folder)
}

/// A JSON file.
fn json(path: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// Whether differences are printed.
fn is_emitted() -> bool {
    std::env::var_os("WEIR_TRUTH").is_some()
}

/// The logs of a capture, in a folder that is removed on drop. One worker, so that a debug build spends its time on
/// the packets.
fn logs(capture: &Path, more: &[&str]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().to_str().unwrap();
    let mut arguments = vec![capture.to_str().unwrap(), "-q", "--log", "zeek,eve", "-o", directory];
    arguments.extend_from_slice(more);
    let ran = support::weir(arguments);
    // Exit code 3: the capture is truncated, and its whole packets are read.
    assert!(matches!(ran.code, Some(0 | 3)), "{}: {:?} {}", capture.display(), ran.code, ran.stderr);
    folder
}
