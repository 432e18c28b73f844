//! Rule files of the command line.

use crate::cli::RuleOptions;
use crate::exit::Exit;
use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use weir_detect::{
    Class, Config, KnownRules, Lists, Program, Reading, RuleFile, Ruleset, Sources, ThresholdLine, Variables,
};
use weir_output::figures::{count, counted};

/// Maximum size of a rule file, and of a file that rules name. Emerging Threats has 30 MB in all.
pub(super) const MAX_FILE: u64 = 256 << 20;

/// The rules of files.
pub struct Read {
    /// The number of files.
    pub files: usize,
    /// Their rules.
    pub set: Ruleset,
    /// Those that look at flows, and those that ask for something that nothing reads yet.
    pub program: Program,
    /// The files classification.config that lie beside them, with their names.
    pub classes: Vec<(String, Config<Class>)>,
    /// The thresholds of the user, with the name of their file.
    pub thresholds: Option<(String, Config<ThresholdLine>)>,
}

/// Which files are read, and how.
pub struct Wanted<'o> {
    /// Rule files, and directories of such.
    pub paths: &'o [PathBuf],
    /// Variables of addresses and ports, as `NAME=VALUE`.
    pub variables: &'o [String],
    /// The thresholds of the user.
    pub thresholds: Option<&'o Path>,
    /// Whether rules that are switched off are read, too.
    pub with_switched_off: bool,
}

impl<'o> Wanted<'o> {
    /// Those of a run.
    pub fn of_run(options: &'o RuleOptions) -> Self {
        Self {
            paths: &options.rules,
            variables: &options.rule_var,
            thresholds: options.threshold_config.as_deref(),
            with_switched_off: false,
        }
    }
}

impl Read {
    /// The number of rules that are not in force, for whichever reason.
    pub fn refused(&self) -> usize {
        self.set.refusals.len() + self.program.unread.len()
    }

    /// A sentence for a run, if something is not in force.
    pub fn note(&self) -> Option<String> {
        let wrong = self.thresholds.as_ref().filter(|(_, config)| !config.faults.is_empty());
        let wrong = wrong.map(|(file, config)| {
            format!("; {} of {file} cannot be read", counted(config.faults.len() as u64, "line"))
        });
        let is_whole = self.refused() == 0 && wrong.is_none();
        let names = "; `weir rules check` names the refused ones";
        (!is_whole).then(|| format!("{}{}{names}", self.total(), wrong.unwrap_or_default()))
    }

    /// `14,564 of 14,566 rules in force; 2 refused (1 file)`.
    pub fn total(&self) -> String {
        let set = &self.set;
        let in_force = count(self.program.rules.len() as u64);
        let mut total = format!("{in_force} of {} in force", counted(set.offered() as u64, "rule"));
        let parts = [
            (self.refused(), "refused"),
            (set.replaced, "replaced by a rule with their sid"),
            (set.switched_off, "switched off"),
        ];
        for (number, what) in parts.into_iter().filter(|(number, _)| *number > 0) {
            total.push_str(&format!("; {} {what}", count(number as u64)));
        }
        format!("{total} ({})", counted(self.files as u64, "file"))
    }
}

/// Files beside those of the rules that name them.
pub(super) struct Beside;

impl Sources for Beside {
    fn read(&self, rules: &str, name: &str) -> Result<Vec<u8>, String> {
        weir_files::read_named(parent(rules), Path::new(name), MAX_FILE).map_err(|error| error.to_string())
    }
}

/// Reads all files.
///
/// # Errors
/// A path cannot be read, or a variable is wrong: the exit code and the reason.
pub fn read(wanted: &Wanted<'_>) -> Result<Read, (Exit, String)> {
    read_by(wanted, None, |files, reading| Ruleset::read(files, reading))
}

/// Reads all files again, for a program that takes the place of another one. `known` are the rules that were read before with equal
/// variables, and becomes those of now.
///
/// # Errors
/// As [`read`].
pub fn read_again(
    wanted: &Wanted<'_>,
    before: &Program,
    known: &mut KnownRules,
) -> Result<Read, (Exit, String)> {
    read_by(wanted, Some(before), |files, reading| Ruleset::read_again(files, reading, known))
}

/// The variables of rules, of which settings `NAME=VALUE` change some.
///
/// # Errors
/// A setting is wrong: the exit code and the reason.
pub(super) fn variables(settings: &[String]) -> Result<Variables, (Exit, String)> {
    let mut variables = Variables::default();
    for setting in settings {
        let wrong = |reason: &str| (Exit::Usage, format!("--rule-var {setting}: {reason}"));
        let (name, list) =
            setting.split_once('=').ok_or_else(|| wrong("a name, `=` and a list are given"))?;
        variables.set(name.trim_start_matches('$'), list).map_err(|reason| wrong(&reason))?;
    }
    Ok(variables)
}

fn read_by(
    wanted: &Wanted<'_>,
    before: Option<&Program>,
    read: impl FnOnce(Vec<RuleFile<'_>>, &Reading<'_>) -> Ruleset,
) -> Result<Read, (Exit, String)> {
    let variables = variables(wanted.variables)?;
    let unreadable =
        |path: &Path, error: io::Error| (Exit::Unreadable, format!("{}: {error}", path.display()));
    let mut files = Vec::new();
    for path in wanted.paths {
        for file in rule_files(path).map_err(|error| unreadable(path, error))? {
            let bytes = weir_files::read_named(Path::new(""), &file, MAX_FILE)
                .map_err(|error| unreadable(&file, error))?;
            files.push((file.display().to_string(), bytes));
        }
    }
    let text = |path: &Path| weir_files::read_named(Path::new(""), path, MAX_FILE);
    let folders: BTreeSet<PathBuf> = files.iter().map(|(name, _)| parent(name).to_owned()).collect();
    let mut classes = Vec::new();
    for path in
        folders.into_iter().map(|folder| folder.join("classification.config")).filter(|path| path.exists())
    {
        let read = weir_detect::classes(&text(&path).map_err(|error| unreadable(&path, error))?);
        let read = read.map_err(|error| (Exit::Unreadable, format!("{}: {error}", path.display())))?;
        classes.push((path.display().to_string(), read));
    }
    let mut thresholds = None;
    if let Some(path) = wanted.thresholds {
        let bytes = text(path).map_err(|error| unreadable(path, error))?;
        let read = weir_detect::thresholds(&bytes, &mut Lists::new(variables.clone()));
        let read = read.map_err(|error| (Exit::Unreadable, format!("{}: {error}", path.display())))?;
        thresholds = Some((path.display().to_string(), read));
    }
    let reading = Reading { variables, sources: &Beside, with_switched_off: wanted.with_switched_off };
    let set = read(files.iter().map(|(name, bytes)| RuleFile { name, bytes }).collect(), &reading);
    let known: Vec<Class> = classes.iter().flat_map(|(_, config)| config.rows.clone()).collect();
    let lines = thresholds.as_ref().map_or(&[][..], |(_, config)| &config.rows);
    let program = match before {
        Some(before) => Program::following(before, &set, &known),
        None => Program::new(&set, &known),
    };
    let program = program.with_thresholds(lines);
    Ok(Read { files: files.len(), set, program, classes, thresholds })
}

/// The directory of a file.
fn parent(file: &str) -> &Path {
    Path::new(file).parent().unwrap_or(Path::new(""))
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
