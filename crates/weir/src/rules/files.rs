//! Rule files of the command line.

use super::addresses::{AddressFiles, Addresses};
use crate::cli::RuleOptions;
use crate::exit::Exit;
use std::collections::{BTreeSet, HashMap};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use weir_detect::{
    Class, Config, FileAgain, Judging, KnownRules, Lists, Origin, Places, Program, ProgramOptions, Rarity,
    Reading, RuleFile, Ruleset, Scores, Sources, ThresholdLine, Variables, rule_texts,
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
    /// What the rules name.
    pub(super) beside: Beside,
}

/// Which files are read, and how.
pub struct Wanted<'o> {
    /// Rule files, and directories of such.
    pub paths: &'o [PathBuf],
    /// Variables of addresses and ports, as `NAME=VALUE`.
    pub variables: &'o [String],
    /// The thresholds of the user.
    pub thresholds: Option<&'o Path>,
    /// What is known of addresses.
    pub addresses: AddressFiles<'o>,
    /// Whether rules that are switched off are read, too.
    pub with_switched_off: bool,
    /// How the program is made.
    pub program: ProgramOptions,
    /// The file that says how rare literals are.
    pub rarity: Option<&'o Path>,
}

impl<'o> Wanted<'o> {
    /// Those of a run.
    pub fn of_run(options: &'o RuleOptions, judging: &Judging) -> Self {
        Self {
            paths: &options.rules,
            variables: &options.rule_var,
            thresholds: options.threshold_config.as_deref(),
            addresses: AddressFiles {
                categories: options.rule_categories.as_deref(),
                reputation: &options.rule_reputation,
                geoip: options.rule_geoip.as_deref(),
            },
            with_switched_off: false,
            program: ProgramOptions {
                actions: judging.order,
                searches: !options.no_prefilter,
                ..ProgramOptions::default()
            },
            rarity: options.rule_rarity.as_deref(),
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

/// What rules name: files beside their own, and what is known of addresses.
#[derive(Default)]
pub(super) struct Beside {
    /// What is known of addresses.
    pub addresses: Addresses,
}

impl Sources for Beside {
    fn read(&self, rules: &str, name: &str) -> Result<Vec<u8>, String> {
        weir_files::read_named(parent(rules), Path::new(name), MAX_FILE).map_err(|error| error.to_string())
    }

    fn places(&self) -> Option<Arc<dyn Places>> {
        self.addresses.places.clone()
    }

    fn reputations(&self, category: &str) -> Option<Arc<Scores>> {
        self.addresses.reputations.of(category)
    }
}

/// What is known of rule files that were read, so that those of which nothing or little has changed are read again quickly. It holds
/// for equal options.
#[derive(Debug, Default)]
pub struct KnownFiles {
    rules: KnownRules,
    stamps: HashMap<String, FileStamp>,
}

impl KnownFiles {
    /// Forgets the stamps of files: all are read again.
    pub fn distrust(&mut self) {
        self.stamps.clear();
    }

    /// Whether a file with this stamp has what was read before.
    fn is_unchanged(&self, name: &str, stamp: Option<FileStamp>) -> bool {
        stamp.is_some() && self.stamps.get(name).copied() == stamp && self.rules.knows(name)
    }
}

/// By which a file that has not changed is recognised: its file system and number, its size, and the times of its last change.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct FileStamp {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

/// A file that has changed more recently than this may change again without another time: clocks of file systems have steps of some
/// milliseconds, and on some file systems of two seconds.
const SETTLED: Duration = Duration::from_secs(3);

impl FileStamp {
    /// The stamp of a file; `None` if it cannot be read, or has changed a moment ago.
    fn of(path: &Path) -> Option<Self> {
        let file = std::fs::metadata(path).ok()?;
        let changed = UNIX_EPOCH + Duration::from_secs(u64::try_from(file.ctime().max(file.mtime())).ok()?);
        let is_settled = SystemTime::now().duration_since(changed).is_ok_and(|age| age > SETTLED);
        is_settled.then(|| Self {
            device: file.dev(),
            inode: file.ino(),
            size: file.size(),
            modified: (file.mtime(), file.mtime_nsec()),
            changed: (file.ctime(), file.ctime_nsec()),
        })
    }
}

/// Reads all files.
///
/// # Errors
/// A path cannot be read, or a variable is wrong: the exit code and the reason.
pub fn read(wanted: &Wanted<'_>) -> Result<Read, (Exit, String)> {
    read_again(wanted, None, &mut KnownFiles::default())
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

/// Reads files again, for a program that takes the place of another one. `known` is what was read before, and becomes what is read now.
///
/// # Errors
/// As [`read`].
pub fn read_again(
    wanted: &Wanted<'_>,
    before: Option<&Program>,
    known: &mut KnownFiles,
) -> Result<Read, (Exit, String)> {
    let variables = variables(wanted.variables)?;
    let unreadable =
        |path: &Path, error: io::Error| (Exit::Unreadable, format!("{}: {error}", path.display()));
    let (mut files, mut stamps) = (Vec::new(), HashMap::new());
    for path in wanted.paths {
        for file in rule_files(path).map_err(|error| unreadable(path, error))? {
            let name = file.display().to_string();
            let stamp = FileStamp::of(&file);
            let bytes = match known.is_unchanged(&name, stamp) {
                true => None,
                false => Some(
                    weir_files::read_named(Path::new(""), &file, MAX_FILE)
                        .map_err(|error| unreadable(&file, error))?,
                ),
            };
            stamps.extend(stamp.map(|stamp| (name.clone(), stamp)));
            files.push((name, bytes));
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
    let bytes = |path: &Path| text(path).map_err(|error| unreadable(path, error));
    let mut how = wanted.program.clone();
    // Programs that follow keep what they have.
    if let Some(path) = wanted.rarity.filter(|_| before.is_none()) {
        how.rarity = Rarity::read(&bytes(path)?)
            .map_err(|reason| (Exit::Unreadable, format!("{}: {reason}", path.display())))?;
    }
    let beside = Beside { addresses: Addresses::read(&wanted.addresses, bytes)? };
    let reading = Reading { variables, sources: &beside, with_switched_off: wanted.with_switched_off };
    let now = files.iter().map(|(name, bytes)| match bytes {
        Some(bytes) => FileAgain::Read(RuleFile { name, bytes }),
        None => FileAgain::Unchanged(name),
    });
    let set = Ruleset::read_again(now, &reading, &mut known.rules);
    known.stamps = stamps;
    let known: Vec<Class> = classes.iter().flat_map(|(_, config)| config.rows.clone()).collect();
    let lines = thresholds.as_ref().map_or(&[][..], |(_, config)| &config.rows);
    let program = match before {
        Some(before) => Program::following(before, &set, &known),
        None => Program::with(&set, &known, how),
    };
    let program = program.with_thresholds(lines);
    Ok(Read { files: files.len(), set, program, classes, thresholds, beside })
}

/// The text of a rule, as its file has it now; `None` if the file cannot be read or has no rule there.
pub(super) fn text_of(origin: &Origin) -> Option<Vec<u8>> {
    let file = weir_files::read_named(Path::new(""), Path::new(&*origin.file), MAX_FILE).ok()?;
    let text = rule_texts(&file, true).ok()?.into_iter().find(|text| text.line == origin.line)?.text;
    Some(text.into_owned())
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

#[cfg(test)]
mod tests {
    use super::*;
    use weir_files::TemporaryFolder;

    #[test]
    fn a_file_that_was_just_written_has_no_stamp() {
        let folder = TemporaryFolder::create("rules").unwrap();
        let file = folder.path().join("a.rules");
        std::fs::write(&file, "").unwrap();
        assert_eq!(FileStamp::of(&file), None);
        assert_eq!(FileStamp::of(&folder.path().join("none")), None);
        let settled = Path::new("/proc/version");
        let other = FileStamp::of(Path::new("/bin/sh"));
        assert!(other.is_some() && other == FileStamp::of(Path::new("/bin/sh")));
        assert_ne!(other, FileStamp::of(settled));
    }

    #[test]
    fn a_file_is_unchanged_if_its_stamp_and_its_rules_are_known() {
        let folder = TemporaryFolder::create("rules").unwrap();
        let file = folder.path().join("a.rules");
        std::fs::write(&file, "alert ip any any -> any any (sid:1;)\n").unwrap();
        let paths = [file.clone()];
        let wanted = Wanted {
            paths: &paths,
            variables: &[],
            thresholds: None,
            addresses: AddressFiles::default(),
            with_switched_off: false,
            program: ProgramOptions::default(),
            rarity: None,
        };
        let mut known = KnownFiles::default();
        assert_eq!(read_again(&wanted, None, &mut known).unwrap().set.rules.len(), 1);
        let stamp = FileStamp::of(Path::new("/bin/sh"));
        let name = file.display().to_string();
        assert!(!known.is_unchanged(&name, stamp) && !known.is_unchanged(&name, None));
        known.stamps.insert(name.clone(), stamp.unwrap());
        assert!(known.is_unchanged(&name, stamp));
        known.distrust();
        assert!(!known.is_unchanged(&name, stamp));
    }
}
