//! What other programs accept: EVE validates against Suricata's own schema, and Zeek's logs load in the Python package zat.
//!
//! The schema is etc/schema.json of Suricata's source, in ../shared/data or named by SURICATA_SCHEMA. Validation and zat need the
//! Python packages that `tests/install` installs from tests/readers.txt; PYTHON names another Python that has them.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod support;

use std::path::{Path, PathBuf};
use std::process::Command;
use support::*;

/// PYTHON, or that of `tests/install`, or that of the system.
fn python() -> Command {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    let installed = Some(target.join("tools/bin/python")).filter(|path| path.exists());
    let named = std::env::var_os("PYTHON").map(PathBuf::from);
    Command::new(named.or(installed).unwrap_or_else(|| "python3".into()))
}

fn has_package(name: &str) -> bool {
    run(python().args(["-W", "ignore", "-c", &format!("import {name}")])).code == Some(0)
}

fn schema() -> Option<PathBuf> {
    let shared = root().join("../shared/data");
    let named = std::env::var_os("SURICATA_SCHEMA").map(PathBuf::from);
    let found =
        named.into_iter().chain([shared.join("suricata-schema/schema.json")]).find(|path| path.exists());
    if found.is_none() {
        println!("skipped: Suricata's etc/schema.json is absent; SURICATA_SCHEMA names it");
    }
    found
}

/// Writes a log of every capture. Returns the files whose names end as given.
fn logs(folder: &Path, log: &str, ending: &str) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for (at, capture) in captures().iter().enumerate() {
        let folder = folder.join(at.to_string());
        weir([text(capture), "-o", text(&folder), "--log", log, "-q"]);
        let Ok(entries) = std::fs::read_dir(&folder) else { continue };
        files.extend(entries.map(|entry| entry.unwrap().path()).filter(|path| text(path).ends_with(ending)));
    }
    files
}

/// Runs a script of tests/ with many files, in parts that fit a command line.
fn reads(script: &str, first: &[&Path], files: &[PathBuf]) {
    for part in files.chunks(2_000) {
        let ran = run(python()
            .args(["-W", "ignore"])
            .arg(root().join("tests").join(script))
            .args(first)
            .args(part));
        println!("{}", ran.text().trim_end());
        ran.exits(0);
    }
}

#[test]
fn every_event_is_valid_by_suricatas_schema() {
    let Some(schema) = schema() else { return };
    if !has_package("jsonschema") {
        println!("skipped: the Python package jsonschema is absent; tests/install installs it");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let files = logs(folder.path(), "eve", "eve.json");
    assert!(!files.is_empty());
    reads("eve-schema.py", &[&schema], &files);
}

#[test]
fn zeeks_logs_load_in_zat() {
    if !has_package("zat.log_to_dataframe") {
        println!("skipped: the Python package zat is absent; tests/install installs it");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let files = logs(folder.path(), "zeek", ".log");
    assert!(!files.is_empty());
    reads("zat-loads.py", &[], &files);
}
