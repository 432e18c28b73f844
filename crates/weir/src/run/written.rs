//! The files that a run writes: each has one writer, by whatever path it is named, and is not read by the run.

use super::Request;
use crate::outputs;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use weir_capture::Input;
use weir_engine::{Place, Plan, Target};
use weir_files::directory_of;
use weir_output::Log;

/// The files and directories that are named so far, each with what writes it.
#[derive(Default)]
struct Written {
    known: HashMap<PathBuf, String>,
    /// Directories as they are named, and as they are.
    directories: HashMap<PathBuf, PathBuf>,
}

/// Checks that no two outputs of a run write one file, and that none replaces a capture that is read. Files that rotation begins
/// later have names of their own.
///
/// # Errors
/// Two do, or one does: the text names both.
pub fn check(plan: &Plan, request: &Request) -> Result<(), String> {
    let mut written = Written::default();
    let logs = request.logs.as_ref().filter(|_| !request.streams_log());
    let directory = logs.map_or(Path::new(""), |(directory, _)| directory);
    let known = outputs::all();
    // The functions that write the rows of one log share it.
    let of_run = plan.targets().filter_map(|(_, target)| match target {
        Target::OfRun(name) => Some(&**name),
        _ => None,
    });
    let texts = logs.iter().flat_map(|(_, texts)| texts).map(String::as_str);
    let names: BTreeSet<&str> = texts.chain(of_run.filter(|_| logs.is_some())).collect();
    for log in names.iter().filter_map(|text| Log::find(&known, text).ok()) {
        for file in log.spec().files {
            written.add(&directory.join(file), format!("--log {}", log.text()))?;
        }
    }
    let mut targets = HashSet::new();
    for (_, target) in plan.targets() {
        let Some(place) = target.place().filter(|_| !matches!(target, Target::OfRun(_))) else { continue };
        let (name, is_path) = (target.to_string(), place == Place::Path);
        if is_path && name == "-" {
            continue;
        }
        let path = if is_path { PathBuf::from(&name) } else { directory.join(&name) };
        // Subscriptions that name one target share its writer.
        if targets.insert((target.kind(), is_path, name.clone())) {
            written.add(&path, format!("the {} {name}", target.kind()))?;
        }
    }
    written.replaces_none(&request.inputs)
}

impl Written {
    /// Adds what writes a file or a directory.
    fn add(&mut self, path: &Path, by: String) -> Result<(), String> {
        let path = self.real(path);
        match self.known.get(&path) {
            Some(other) => Err(format!("{other} and {by} are one file: give another name")),
            None => {
                self.known.insert(path, by);
                Ok(())
            }
        }
    }

    /// Checks that no file that is written is read. Directories of inputs are searched only if one of the files is there.
    fn replaces_none(&self, inputs: &[Input]) -> Result<(), String> {
        if !self.known.keys().any(|path| path.is_file()) {
            return Ok(());
        }
        for input in Input::files(inputs) {
            if let Some(by) = input.canonicalize().ok().and_then(|path| self.known.get(&path)) {
                return Err(format!(
                    "the input {} and {by} are one file: give another name",
                    input.display()
                ));
            }
        }
        Ok(())
    }

    /// The path of a file without links in it, as far as it is there.
    fn real(&mut self, path: &Path) -> PathBuf {
        if let Ok(real) = path.canonicalize() {
            return real;
        }
        let name: OsString = path.file_name().unwrap_or_default().to_owned();
        let parent = directory_of(path);
        let directory = self.directories.entry(parent.to_owned()).or_insert_with(|| {
            let lexical = || std::path::absolute(parent).unwrap_or_else(|_| parent.to_owned());
            parent.canonicalize().unwrap_or_else(|_| lexical().components().collect())
        });
        directory.join(name)
    }
}
