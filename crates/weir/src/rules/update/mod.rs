//! `weir rules update`: sources on disk become one rule file, which a run that follows it sees whole.
//!
//! The order is that of suricata-update: rules are switched off, enabled and dropped, then modified, and in the end those are
//! switched on that set a flowbit which another one asks for. A fault changes nothing.

mod beside;
mod changes;
mod conf;
mod merge;
mod modification;
mod rule;
mod selection;
mod sources;

use super::files::{self, Beside, MAX_FILE};
use crate::cli::RuleUpdate;
use crate::exit::{Exit, complain, print};
use beside::BesideFiles;
use changes::Changes;
use conf::{Confs, Line, modifications, selections};
use merge::Merged;
use selection::Glob;
use sources::{Reader, SourceFile, SourceFiles};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use weir_detect::{Class, Program, Reading, RuleFile, Ruleset};

/// The name of the merged file in a directory.
const MERGED: &str = "weir.rules";

/// An exit code and its reason.
type Failure = (Exit, String);

/// Updates the file.
pub fn update(options: &RuleUpdate) -> Exit {
    match updated(options) {
        Ok(text) => print(&text),
        Err((exit, reason)) => complain(exit, reason),
    }
}

/// What is printed.
fn updated(options: &RuleUpdate) -> Result<String, Failure> {
    let output = match options.output.is_dir() {
        true => options.output.join(MERGED),
        false => options.output.clone(),
    };
    let mut confs = Confs {
        disable: selections(&options.disable_conf)?,
        enable: selections(&options.enable_conf)?,
        drop: selections(&options.drop_conf)?,
        modify: modifications(&options.modify_conf)?,
    };
    let SourceFiles { rules, beside } = read(options, &output)?;
    let mut now = merged(&rules)?;
    let mut changes = Changes { files: rules.len(), output, is_dry: options.dry_run, ..Changes::default() };
    apply(&mut confs, &mut now, &mut changes);
    let beside = BesideFiles::of(&beside, weir_files::directory_of(&changes.output));
    let text = now.text();
    check(&text, &beside, options, &mut changes)?;
    let old = old_file(&changes.output)?;
    let before = merged(old.as_slice())?;
    changes.compare(&before, &now);
    changes.differs = old.first().is_none_or(|old| old.bytes != text);
    changes.kept.clone_from(&beside.kept);
    changes.beside = beside.written.iter().map(|file| file.path.clone()).collect();
    if !options.dry_run {
        write(&text, &beside, &changes)?;
    }
    Ok(match options.json {
        true => format!("{}\n", changes.json(&before, &now)),
        false => changes.text(&now),
    })
}

/// The files of all sources.
fn read(options: &RuleUpdate, output: &Path) -> Result<SourceFiles, Failure> {
    let ignored = options.ignore.iter().filter(|pattern| !pattern.is_empty());
    let ignored = ignored.map(|pattern| Glob::new(pattern)).collect::<Result<_, _>>();
    let ignored = ignored.map_err(|reason| (Exit::Usage, format!("--ignore: {reason}")))?;
    let mut reader = Reader { ignored, output, room: options.max_unpacked, files: SourceFiles::default() };
    for path in options.sources.iter().chain(&options.local) {
        reader.read(path).map_err(|error| (Exit::Unreadable, format!("{}: {error}", path.display())))?;
    }
    Ok(reader.files)
}

/// The rules of files.
fn merged(files: &[SourceFile]) -> Result<Merged, Failure> {
    let mut merged = Merged::default();
    for file in files {
        let before = (merged.read, merged.no_rules.len());
        merged.add(file).map_err(|reason| (Exit::Unreadable, reason))?;
        // A page that a server sent in place of rules.
        if merged.read == before.0 && merged.no_rules.len() > before.1 {
            let first = merged.no_rules.get(before.1).map_or("", String::as_str);
            return Err((Exit::Unreadable, format!("{first}; no line of the file is a rule")));
        }
    }
    Ok(merged)
}

/// Does what the confs ask for.
fn apply(confs: &mut Confs, now: &mut Merged, changes: &mut Changes) {
    changes.switched_off = now.switch(&mut confs.disable, false);
    changes.enabled = now.switch(&mut confs.enable, true);
    changes.dropped = now.drop(&mut confs.drop);
    changes.modified = now.modify(&mut confs.modify, &mut changes.failed);
    changes.for_flowbits = now.enable_setters();
    for lines in [&confs.disable, &confs.enable, &confs.drop] {
        changes.unused.extend(unused(lines));
    }
    changes.unused.extend(unused(&confs.modify));
}

/// The places of lines that name no rule.
fn unused<T>(lines: &[Line<T>]) -> impl Iterator<Item = String> {
    lines.iter().filter(|line| line.uses == 0).map(|line| line.place.clone())
}

/// Reads the merged rules as a run does. What they name lies beside them.
fn check(
    text: &[u8],
    beside: &BesideFiles,
    options: &RuleUpdate,
    changes: &mut Changes,
) -> Result<(), Failure> {
    let variables = files::variables(&options.rule_var)?;
    let name = changes.output.display().to_string();
    let reading = Reading { variables, sources: &Beside::default(), with_switched_off: false };
    let set = Ruleset::read([RuleFile { name: &name, bytes: text }], &reading);
    let classes = beside.written.iter().find(|file| file.path.ends_with("classification.config"));
    let classes: Vec<Class> = match classes.map(|file| weir_detect::classes(&file.bytes)) {
        None => Vec::new(),
        Some(Ok(config)) => config.rows,
        Some(Err(error)) => return Err((Exit::Unreadable, format!("classification.config: {error}"))),
    };
    let program = Program::new(&set, &classes);
    changes.in_force = program.rules.len();
    let refused = set.refusals.iter().map(|refusal| (refusal.sid, refusal.fault.reason.clone()));
    let unread = program.unread.iter().map(|(loaded, reason)| (Some(loaded.rule.sid), reason.clone()));
    changes.refused = refused.chain(unread).collect();
    match (changes.in_force, changes.refused.first()) {
        (0, None) => Err((Exit::Usage, format!("no rule would be in force; {name} stays as it is"))),
        (0, Some((_, reason))) => Err((
            Exit::Usage,
            format!("no rule would be in force, the first one because {reason}; {name} stays as it is"),
        )),
        _ => Ok(()),
    }
}

/// The merged file as it is, if there is one.
fn old_file(path: &Path) -> Result<Vec<SourceFile>, Failure> {
    let name = path.display().to_string();
    match weir_files::read_named(Path::new(""), path, MAX_FILE) {
        Ok(bytes) => Ok(vec![SourceFile { name, bytes }]),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err((Exit::Unreadable, format!("{name}: {error}"))),
    }
}

/// Writes what differs, the rules last: who follows them finds their classes.
fn write(text: &[u8], beside: &BesideFiles, changes: &Changes) -> Result<(), Failure> {
    let failed = |error: std::io::Error| (Exit::Output, error.to_string());
    let directory: PathBuf = weir_files::directory_of(&changes.output).to_owned();
    weir_files::make_folders(&directory)
        .map_err(|error| (Exit::Output, format!("{}: {error}", directory.display())))?;
    for file in &beside.written {
        weir_files::rewrite(&file.path, &file.bytes).map_err(failed)?;
    }
    match changes.differs {
        true => weir_files::rewrite(&changes.output, text).map_err(failed),
        false => Ok(()),
    }
}
