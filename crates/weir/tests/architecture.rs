//! Compares ARCHITECTURE.md's table of crates with `cargo metadata`, and its rules with the sources: the places of `unsafe`,
//! the denials of the logic, the arrows between modules, and the one place that names the engine of the store.

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
            // One module compares bytes of literals with vector instructions.
            "weir-detect" => {
                assert!(text.contains("#![deny(unsafe_code)]"));
                assert_eq!(modules_that_allow_unsafe(&folder), ["search/shuffle.rs"]);
            }
            _ => assert!(text.contains("#![forbid(unsafe_code)]"), "{name}"),
        }
    }
}

/// Files below a folder that allow `unsafe`.
fn modules_that_allow_unsafe(folder: &Path) -> Vec<String> {
    let allows =
        |path: &PathBuf| std::fs::read_to_string(path).expect("it is text").contains("allow(unsafe_code)");
    let name = |path: PathBuf| path.strip_prefix(folder).expect("it is below").to_string_lossy().into_owned();
    sources(folder).into_iter().filter(allows).map(name).collect()
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

/// The crates without a clock, a socket, a file or a thread.
const LOGIC: [&str; 8] = ["wire", "api", "filter", "flow", "proto", "detect", "engine", "anon"];

#[test]
fn the_logic_denies_clocks_sockets_files_and_threads() {
    let rules = std::fs::canonicalize(root().join("crates/logic-clippy.toml")).expect("the rules are there");
    for name in LOGIC {
        let folder = root().join("crates").join(name);
        let linked = std::fs::canonicalize(folder.join("clippy.toml")).expect("each has the rules");
        assert_eq!(linked, rules, "{name}");
        let text = std::fs::read_to_string(folder.join("src/lib.rs")).expect("it can be read");
        let denies = "#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]";
        assert!(text.contains(denies), "{name}");
    }
    for path in sources(&root().join("crates")) {
        let text = std::fs::read_to_string(&path).expect("it can be read");
        let this = path.ends_with("tests/architecture.rs");
        assert!(this || !text.contains("allow(clippy::disallowed"), "{}", path.display());
    }
}

/// The Rust files below a folder.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let (mut found, mut folders) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(inside) = folders.pop() {
        for entry in std::fs::read_dir(&inside).expect("a folder").flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// The files that open others by their path, without the checks of `weir_files::read_named`: none of these paths comes from a
/// configuration, an expression or a client. They are captures, the program's own outputs, files of the kernel, and paths of the
/// command line, which may be pipes.
const OPENERS: [&str; 19] = [
    "capture/src/file/input.rs",
    "capture/src/interface.rs",
    "capture/src/write/repair.rs",
    "files/src/part.rs",
    "output/src/file.rs",
    "weir/src/anon/audit.rs",
    "weir/src/anon.rs",
    "weir/src/config/mod.rs",
    "weir/src/count.rs",
    "weir/src/generate.rs",
    "weir/src/private.rs",
    "weir/src/remote.rs",
    "weir/src/report/flows.rs",
    "weir/src/run/request.rs",
    "weir/src/serve/mod.rs",
    "weir/src/serve/owner.rs",
    "weir/src/serve/routes/dumps.rs",
    "weir/src/signals.rs",
    "weir/src/syslog.rs",
];

#[test]
fn files_that_a_text_names_are_opened_in_one_place() {
    let crates = root().join("crates");
    let mut found = Vec::new();
    for path in sources(&crates) {
        let name = path.strip_prefix(&crates).expect("it is below").to_string_lossy().into_owned();
        let is_test = !name.contains("/src/")
            || [
                "tests.rs",
                "/tests/",
                "golden",
                "laws",
                "suite",
                "field_tests",
                "own_tests",
                "new_function",
                "fixtures",
            ]
            .iter()
            .any(|test| name.contains(test));
        let opens = ["File::open(", "fs::read(", "read_to_string(path", "fs::read_to_string("];
        // A file of a log is opened by `output/src/file.rs`.
        let code = code(&path).replace("LineFile::open(", "");
        if !is_test && opens.iter().any(|call| code.contains(call)) {
            found.push(name);
        }
    }
    assert_eq!(found, OPENERS, "use weir_files::read_named, or state here why not");
}

/// A module: its names from the root of the crate on.
type Module = Vec<String>;

/// The code of a file without comments and unit tests, which may use any module.
fn code(path: &Path) -> String {
    let text = std::fs::read_to_string(path).expect("it can be read");
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    text.lines().map(|line| line.split("//").next().unwrap_or_default()).collect::<Vec<_>>().join("\n")
}

/// The modules of a crate with their code. Those for tests only are left out.
fn modules(source: &Path) -> BTreeMap<Module, String> {
    let named = sources(source).into_iter().filter_map(|path| {
        let inside = path.strip_prefix(source).expect("it is below").with_extension("");
        let mut names: Module = inside.iter().map(|name| name.to_string_lossy().into_owned()).collect();
        if names.last().is_some_and(|last| ["mod", "lib", "main"].contains(&last.as_str())) {
            names.pop();
        }
        let is_test =
            names.iter().any(|name| name.ends_with("tests") || name == "fixtures" || name == "suite");
        (!is_test).then(|| (names, code(&path)))
    });
    named.collect()
}

/// Paths of a `use` declaration without its groups: `a::{b, c::{d}}` is `a::b` and `a::c::d`.
fn ungrouped(tree: &str) -> Vec<String> {
    let Some((before, group)) = tree.split_once('{') else { return vec![tree.trim().to_owned()] };
    let inside = group.rsplit_once('}').map_or(group, |(inside, _)| inside);
    let (mut parts, mut depth) = (vec![String::new()], 0_usize);
    for c in inside.chars() {
        match c {
            ',' if depth == 0 => parts.push(String::new()),
            _ => parts.last_mut().expect("there is one").push(c),
        }
        depth = (depth + usize::from(c == '{')).saturating_sub(usize::from(c == '}'));
    }
    let parts = parts.iter().flat_map(|part| ungrouped(part)).filter(|part| !part.is_empty());
    parts.map(|part| format!("{}{part}", before.trim())).collect()
}

/// The paths in a module's code that begin with `crate` or `super`.
fn paths(code: &str) -> Vec<String> {
    let begins = ["crate::", "super::"].iter().flat_map(|word| code.match_indices(word).map(|(at, _)| at));
    // `super::super::x` begins once.
    let is_begin = |at: &usize| !code[..*at].ends_with("::");
    let is_use = |at: usize| code[..at].trim_end().ends_with("use");
    let mut found = Vec::new();
    for at in begins.filter(is_begin) {
        let rest = &code[at..];
        if is_use(at) {
            found.extend(ungrouped(rest.split(';').next().unwrap_or_default()));
        } else {
            let end =
                rest.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':')).unwrap_or(rest.len());
            found.push(rest[..end].to_owned());
        }
    }
    found
}

/// For each module of a crate, those that it imports. What a module and one within it take from each other is left out: the outer
/// one is made of the others.
fn imported(source: &Path) -> BTreeMap<Module, BTreeSet<Module>> {
    let modules = modules(source);
    let of = |(module, code): (&Module, &String)| {
        let targets = paths(code).into_iter().map(|path| {
            let mut at = module.clone();
            for name in path.split("::").map(|name| name.split(" as ").next().unwrap_or_default().trim()) {
                match name {
                    "crate" => at.clear(),
                    "super" => drop(at.pop()),
                    "self" => {}
                    name => at.push(name.to_owned()),
                }
            }
            while !at.is_empty() && !modules.contains_key(&at) {
                at.pop();
            }
            at
        });
        let targets = targets.filter(|target| !target.starts_with(module) && !module.starts_with(target));
        (module.clone(), targets.collect())
    };
    modules.iter().map(of).collect()
}

/// For each top-level module of a crate, those that it imports.
fn arrows(source: &Path) -> BTreeMap<String, BTreeSet<String>> {
    let mut arrows: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (module, targets) in imported(source) {
        let Some(own) = module.first() else { continue };
        let targets = targets.iter().filter_map(|target| target.first()).filter(|name| *name != own);
        arrows.entry(own.clone()).or_default().extend(targets.cloned());
    }
    arrows
}

/// For each file of a crate, those that it imports, without the recursion that is earned.
fn arrows_of_files(crate_name: &str, source: &Path) -> BTreeMap<String, BTreeSet<String>> {
    let earned = |module: &Module| {
        let path = format!("{crate_name}::{}", module.join("::"));
        RECURSIVE.iter().any(|(below, _)| path.starts_with(below))
    };
    let name = |module: &Module| module.join("::");
    let files = imported(source).into_iter().map(|(module, targets)| {
        let is_earned = |target: &&Module| earned(&module) && earned(target);
        (name(&module), targets.iter().filter(|target| !is_earned(target)).map(name).collect())
    });
    files.collect()
}

/// Files that take from each other because what they read contains itself: the beginning of their names, and the reason.
const RECURSIVE: [(&str, &str); 1] = [(
    "weir-wire::decode::",
    "a link layer carries networks, networks carry tunnels, and tunnels carry link layers",
)];

/// A circle of modules, if there is one.
fn circle(arrows: &BTreeMap<String, BTreeSet<String>>) -> Option<Vec<String>> {
    fn walk(
        at: &str,
        arrows: &BTreeMap<String, BTreeSet<String>>,
        way: &mut Vec<String>,
        done: &mut BTreeSet<String>,
    ) -> bool {
        if way.iter().any(|before| before == at) {
            way.push(at.to_owned());
            return true;
        }
        if !done.contains(at) {
            way.push(at.to_owned());
            if arrows.get(at).is_some_and(|to| to.iter().any(|next| walk(next, arrows, way, done))) {
                return true;
            }
            way.pop();
            done.insert(at.to_owned());
        }
        false
    }
    let (mut way, mut done) = (Vec::new(), BTreeSet::new());
    let found = arrows.keys().any(|at| walk(at, arrows, &mut way, &mut done));
    let begin = way.iter().position(|at| Some(at) == way.last())?;
    found.then(|| way.split_off(begin))
}

#[test]
fn modules_import_each_other_in_one_direction() {
    let (mut all, mut all_of_files) = (0, 0);
    for name in imports().keys() {
        let source = root().join("crates").join(name.trim_start_matches("weir-")).join("src");
        let arrows = arrows(&source);
        all += arrows.values().map(BTreeSet::len).sum::<usize>();
        let files = arrows_of_files(name, &source);
        all_of_files += files.values().map(BTreeSet::len).sum::<usize>();
        let circle = circle(&arrows).or_else(|| circle(&files));
        assert!(circle.is_none(), "{name}: {}", circle.unwrap_or_default().join(" -> "));
    }
    assert!(all >= 400 && all_of_files >= 1_200, "{all} arrows, {all_of_files} of files");
}

#[test]
fn a_circle_of_modules_is_found() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().expect("it is below")).expect("a folder");
        std::fs::write(path, text).expect("a file");
    };
    write("main.rs", "mod a;\nmod b;\nmod c;\n");
    write("a.rs", "use crate::{\n    b::{self, X},\n    c::Y,\n};\n");
    write("b/mod.rs", "mod inner;\n// use crate::a::Z;\n");
    write("b/inner.rs", "use super::X;\n#[cfg(test)]\nmod tests {\n    use crate::a::Z;\n}\n");
    write("c.rs", "fn f() -> u8 { 1 }\n");
    assert_eq!(circle(&arrows(folder.path())), None);
    write("c.rs", "fn f() { super::b::f() }\n");
    assert_eq!(circle(&arrows(folder.path())), None);
    write("b/inner.rs", "fn f() { super::super::a::f() }\n");
    assert_eq!(circle(&arrows(folder.path())), Some(["a", "b", "a"].map(str::to_owned).to_vec()));
    write("b/inner.rs", "use super::other::X;\n");
    write("b/other.rs", "use super::X;\n");
    let files = |name: &str| circle(&arrows_of_files(name, folder.path()));
    assert_eq!(files("weir-x"), None);
    write("b/other.rs", "fn f() { super::inner::f() }\n");
    let found = Some(["b::inner", "b::other", "b::inner"].map(str::to_owned).to_vec());
    assert_eq!((circle(&arrows(folder.path())), files("weir-x")), (None, found));
}

#[test]
fn one_file_of_the_program_names_the_engine_of_the_store() {
    let source = root().join("crates/weir/src");
    let text = |path: &PathBuf| std::fs::read_to_string(path).expect("it is text").to_lowercase();
    let naming: Vec<PathBuf> =
        sources(&source).into_iter().filter(|path| text(path).contains("sqlite")).collect();
    assert_eq!(naming, [source.join("database.rs")]);
    let store = root().join("crates/store/src");
    for path in sources(&store).into_iter().filter(|path| !path.starts_with(store.join("sqlite"))) {
        assert!(!text(&path).contains("rusqlite"), "{}", path.display());
    }
}

#[test]
fn what_leaves_a_worker_goes_through_one_method_and_content_through_another() {
    let code = code(&root().join("crates/engine/src/sink.rs"));
    let (_, sink) = code.split_once("pub trait Sink {").expect("the trait is there");
    let (methods, _) = sink.split_once("\n}").expect("it ends");
    assert_eq!(methods.matches("fn ").count(), 2, "{methods}");
}

#[test]
fn a_plan_follows_another_only_at_the_desk() {
    let mut followers = Vec::new();
    for path in sources(&root().join("crates/weir/src")) {
        let code: String = code(&path).split_whitespace().collect();
        let calls = code.match_indices("Plan::of(").map(|(at, call)| &code[at + call.len()..]);
        let others = calls.filter(|arguments| !arguments.starts_with("None,")).count();
        followers.extend((others > 0).then(|| (path.file_name().expect("a name").to_owned(), others)));
    }
    assert_eq!(followers, [("desk.rs".into(), 1)]);
}
