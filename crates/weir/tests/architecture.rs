//! Compares ARCHITECTURE.md's table of crates with `cargo metadata`, and the allowed places of `unsafe` with the
//! sources.

#![allow(clippy::expect_used)]

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The crates of the workspace that each crate imports, from `cargo metadata`.
fn imports() -> BTreeMap<String, BTreeSet<String>> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .current_dir(root())
        .output()
        .expect("cargo metadata runs");
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("cargo metadata prints JSON");
    let packages = metadata["packages"].as_array().expect("packages");
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    packages
        .iter()
        .filter(|package| text(&package["manifest_path"]).contains("/crates/"))
        .map(|package| {
            let dependencies = package["dependencies"].as_array().expect("dependencies");
            let ours = dependencies.iter().filter(|d| d["kind"].is_null()).map(|d| text(&d["name"]));
            (text(&package["name"]), ours.filter(|name| name.starts_with("weir-")).collect())
        })
        .collect()
}

/// The rows of the table: each crate, and the crates that it may import.
fn table() -> BTreeMap<String, Option<BTreeSet<String>>> {
    let text = std::fs::read_to_string(root().join("ARCHITECTURE.md")).expect("ARCHITECTURE.md is there");
    let rows = text.lines().filter(|line| line.starts_with("| `weir"));
    rows.map(|row| {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let imports = match cells[3] {
            "–" => Some(BTreeSet::new()),
            "all" => None,
            names => Some(names.split(", ").map(|name| format!("weir-{name}")).collect()),
        };
        (cells[1].trim_matches('`').to_owned(), imports)
    })
    .collect()
}

#[test]
fn the_table_of_crates_equals_the_imports() {
    let (imports, table) = (imports(), table());
    assert_eq!(
        imports.keys().collect::<Vec<_>>(),
        table.keys().collect::<Vec<_>>(),
        "the crates of the workspace and those of the table"
    );
    for (name, allowed) in table {
        if let Some(allowed) = allowed {
            let extra: Vec<_> = imports[&name].difference(&allowed).collect();
            assert!(extra.is_empty(), "{name} imports {extra:?}, which the table does not allow");
        }
    }
}

#[test]
fn unsafe_is_only_in_its_allowed_places() {
    for name in imports().keys() {
        let folder = root().join("crates").join(name.trim_start_matches("weir-")).join("src");
        let entry = ["lib.rs", "main.rs"].iter().map(|file| folder.join(file)).find(|path| path.exists());
        let text = std::fs::read_to_string(entry.expect("a crate has a root")).expect("it can be read");
        match name.as_str() {
            "weir-capture" => assert!(!text.contains("#![forbid(unsafe_code)]")),
            // One module compares columns with vector instructions.
            "weir-filter" => {
                assert!(text.contains("#![deny(unsafe_code)]"));
                assert_eq!(modules_that_allow_unsafe(&folder), ["set/simd.rs"]);
            }
            _ => assert!(text.contains("#![forbid(unsafe_code)]"), "{name}"),
        }
    }
}

/// Files below a folder that allow `unsafe`.
fn modules_that_allow_unsafe(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(inside) = folders.pop() {
        for entry in std::fs::read_dir(&inside).expect("it can be read").flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if std::fs::read_to_string(&path).expect("it is text").contains("allow(unsafe_code)") {
                let name = path.strip_prefix(folder).expect("it is below");
                found.push(name.to_string_lossy().into_owned());
            }
        }
    }
    found.sort();
    found
}

/// Markdown documents of the repository.
fn documents() -> Vec<PathBuf> {
    let folders = ["", "docs", "docs/manual", "testdata", "testdata/sample", "lab", "ui"];
    let files = folders.iter().flat_map(|folder| std::fs::read_dir(root().join(folder)).expect("a folder"));
    let paths = files.map(|file| file.expect("an entry").path());
    paths.filter(|path| path.extension().is_some_and(|extension| extension == "md")).collect()
}

#[test]
fn links_between_documents_refer_to_existing_files() {
    let mut links = 0;
    for document in documents() {
        let text = std::fs::read_to_string(&document).expect("it can be read");
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let path = link.split('#').next().unwrap_or_default();
            if path.is_empty() || path.contains("://") {
                continue;
            }
            let target = document.parent().expect("it is in a folder").join(path);
            assert!(target.exists(), "{}: {link}", document.display());
            links += 1;
        }
    }
    assert!(links >= 30, "{links}");
}
