//! Rule files of the command line.

use crate::cli::RuleFiles;
use crate::exit::Exit;
use std::io;
use std::path::{Path, PathBuf};
use weir_detect::{Reading, RuleFile, Ruleset, Sources, Variables};

/// Maximum size of a rule file, and of a file that rules name. Emerging Threats has 30 MB in all.
const MAX_FILE: u64 = 256 << 20;

/// The rules of files.
pub struct Read {
    /// The number of files.
    pub files: usize,
    /// Their rules.
    pub set: Ruleset,
}

/// Files beside those of the rules that name them.
struct Beside;

impl Sources for Beside {
    fn read(&self, rules: &str, name: &str) -> Result<Vec<u8>, String> {
        let folder = Path::new(rules).parent().unwrap_or(Path::new(""));
        weir_files::read_named(folder, Path::new(name), MAX_FILE).map_err(|error| error.to_string())
    }
}

/// Reads all files.
///
/// # Errors
/// A path cannot be read, or a variable is wrong: the exit code and the reason.
pub fn read(options: &RuleFiles) -> Result<Read, (Exit, String)> {
    let mut variables = Variables::default();
    for setting in &options.rule_var {
        let wrong = |reason: &str| (Exit::Usage, format!("--rule-var {setting}: {reason}"));
        let (name, list) =
            setting.split_once('=').ok_or_else(|| wrong("a name, `=` and a list are given"))?;
        variables.set(name.trim_start_matches('$'), list).map_err(|reason| wrong(&reason))?;
    }
    let unreadable =
        |path: &Path, error: io::Error| (Exit::Unreadable, format!("{}: {error}", path.display()));
    let mut files = Vec::new();
    for path in &options.paths {
        for file in rule_files(path).map_err(|error| unreadable(path, error))? {
            let bytes = weir_files::read_named(Path::new(""), &file, MAX_FILE)
                .map_err(|error| unreadable(&file, error))?;
            files.push((file.display().to_string(), bytes));
        }
    }
    let reading = Reading { variables, sources: &Beside, with_switched_off: options.all };
    let set = Ruleset::read(files.iter().map(|(name, bytes)| RuleFile { name, bytes }), &reading);
    Ok(Read { files: files.len(), set })
}

/// A file, or the rule files of a directory by name.
fn rule_files(path: &Path) -> io::Result<Vec<PathBuf>> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files = Vec::new();
    for entry in std::fs::read_dir(path)? {
        let file = entry?.path();
        if file.extension().is_some_and(|ending| ending == "rules") {
            files.push(file);
        }
    }
    files.sort();
    match files.is_empty() {
        true => Err(io::Error::new(io::ErrorKind::NotFound, "the directory has no file *.rules")),
        false => Ok(files),
    }
}
