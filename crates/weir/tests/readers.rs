//! What other programs accept: EVE validates against Suricata's own schema, and Zeek's logs load in the Python package zat.
//!
//! Both are tried where they can be had. The schema is etc/schema.json of Suricata's source, in ../shared/data or named by
//! SURICATA_SCHEMA; it needs the Python package jsonschema. PYTHON names a Python that has the packages.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod support;

use std::path::{Path, PathBuf};
use std::process::Command;
use support::*;

fn python() -> Command {
    Command::new(std::env::var_os("PYTHON").unwrap_or_else(|| "python3".into()))
}

fn has_package(name: &str) -> bool {
    run(python().args(["-W", "ignore", "-c", &format!("import {name}")])).code == Some(0)
}

fn schema() -> Option<PathBuf> {
    let shared = root().join("../shared/data");
    let places = ["suricata/etc/schema.json", "suricata-verify/etc/schema.json"];
    let named = std::env::var_os("SURICATA_SCHEMA").map(PathBuf::from);
    named.into_iter().chain(places.map(|place| shared.join(place))).find(|path| path.exists())
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
    let Some(schema) = schema() else {
        println!("skipped: Suricata's etc/schema.json is absent; SURICATA_SCHEMA names it");
        return;
    };
    if !has_package("jsonschema") {
        println!("skipped: the Python package jsonschema is absent");
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
        println!(
            "skipped: the Python package zat is absent (pip install zat; PYTHON names the Python that has it)"
        );
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let files = logs(folder.path(), "zeek", ".log");
    assert!(!files.is_empty());
    reads("zat-loads.py", &[], &files);
}
