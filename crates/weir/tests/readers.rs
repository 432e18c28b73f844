//! What other programs accept: EVE validates against Suricata's own schema, and Zeek's logs load in the Python package zat.
//!
//! The schema is etc/schema.json of Suricata's source, in ../shared/data or named by SURICATA_SCHEMA. Validation and zat need the
//! Python packages that `tests/install` installs from tests/readers.txt; PYTHON names another Python that has them.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod support;

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use support::*;
use weir_proto::{Field, Kind};

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

/// What a schema says about a value, after its references.
fn resolve<'s>(schema: &'s Value, mut at: &'s Value) -> &'s Value {
    while let Some(place) = at["$ref"].as_str() {
        at = schema.pointer(place.trim_start_matches('#')).unwrap_or(&Value::Null);
    }
    at
}

/// The schema of the member at a path; `true` where any is allowed, null where none is.
fn member<'s>(schema: &'s Value, at: &'s Value, path: &str) -> &'s Value {
    path.split('.').fold(resolve(schema, at), |at, key| match &at["properties"][key] {
        Value::Null if at["additionalProperties"] == true => &at["additionalProperties"],
        Value::Null if at == true => at,
        found => resolve(schema, found),
    })
}

/// The word of JSON Schema for the values of a kind.
fn word(kind: &Kind) -> &'static str {
    match kind {
        Kind::Bool => "boolean",
        Kind::Uint | Kind::Int | Kind::Port => "integer",
        Kind::Real | Kind::Duration => "number",
        Kind::List(_) | Kind::Set(_) | Kind::Rows(_) => "array",
        Kind::Time | Kind::Text | Kind::Word | Kind::Address => "string",
    }
}

/// Appends what is wrong with the places of fields, in words.
fn misplaced(schema: &Value, at: &Value, fields: &[Field], within: &str, wrong: &mut Vec<String>) {
    for field in fields.iter().filter(|field| !field.eve.is_empty()) {
        let name = format!("{within}{}", field.eve);
        let place = member(schema, at, field.eve);
        // Some places have their values listed, and no type.
        if place.is_null() || place["type"].as_str().is_some_and(|known| !fits(known, &field.kind)) {
            wrong.push(format!("{name}: {:?}, not {}", field.kind, place["type"]));
        } else if let Kind::Rows(inner) = field.kind
            && place != true
        {
            misplaced(schema, resolve(schema, &place["items"]), inner, &format!("{name}."), wrong);
        } else if let Kind::List(inner) | Kind::Set(inner) = field.kind
            && let Some(known) = resolve(schema, &place["items"])["type"].as_str()
            && !fits(known, inner)
        {
            wrong.push(format!("{name}: {:?}, not of {known}", field.kind));
        }
    }
}

fn fits(known: &str, kind: &Kind) -> bool {
    known == word(kind) || (known, word(kind)) == ("number", "integer")
}

/// Captures have a part of what a parser can say: this is the rest.
#[test]
fn every_field_has_its_place_in_suricatas_schema() {
    let Some(schema) = schema() else { return };
    let schema: Value = serde_json::from_str(&std::fs::read_to_string(schema).unwrap()).unwrap();
    let mut wrong = Vec::new();
    let mut own = Vec::new();
    for table in weir_proto::tables().filter(|table| !table.eve.is_empty()) {
        if schema["properties"][table.eve].is_null() {
            own.push(table.eve);
        } else {
            misplaced(&schema, &schema, table.fields, "", &mut wrong);
        }
    }
    assert_eq!(wrong, [""; 0]);
    // Objects of these types are in `metadata.flowvars`: weir_output's `eve/records.rs` has the same list.
    assert_eq!(own, ["llmnr"]);
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
