//! The rules of other projects, where they are there: each is in force, or refused by name.

use std::path::{Path, PathBuf};
use weir_detect::{Reading, RuleFile, Ruleset, Sources, Variables};

fn shared() -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    path.is_dir().then_some(path)
}

/// Files beside the rules.
struct Beside(PathBuf);

impl Sources for Beside {
    fn read(&self, _rules: &str, name: &str) -> Result<Vec<u8>, String> {
        std::fs::read(self.0.join(name)).map_err(|error| error.to_string())
    }
}

fn rule_files(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let entries = std::fs::read_dir(folder).expect("the folder can be read");
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("it can be read").path()).collect();
    files.retain(|path| path.extension().is_some_and(|ending| ending == "rules"));
    files.sort();
    let name = |path: &Path| path.file_name().expect("it has a name").to_string_lossy().into_owned();
    files.into_iter().map(|path| (name(&path), std::fs::read(&path).expect("it can be read"))).collect()
}

fn set_of(files: &[(String, Vec<u8>)], folder: &Path) -> Ruleset {
    let reading = Reading {
        variables: Variables::default(),
        sources: &Beside(folder.to_owned()),
        with_switched_off: false,
    };
    Ruleset::read(files.iter().map(|(name, bytes)| RuleFile { name, bytes }), &reading)
}

fn refusals(set: &Ruleset) -> String {
    let line = |refusal: &weir_detect::Refusal| {
        let origin = &refusal.origin;
        format!(
            "{}:{}:{} sid {:?}: {}\n",
            origin.file, origin.line, origin.column, refusal.sid, refusal.fault
        )
    };
    set.refusals.iter().map(line).collect()
}

#[test]
fn rules_of_emerging_threats() {
    let Some(shared) = shared() else {
        println!("skipped: no shared data");
        return;
    };
    let folder = shared.join("et-open");
    let set = set_of(&rule_files(&folder), &folder);
    print!("{}", refusals(&set));
    println!("passed {} of {} rules in force; {} notes", set.rules.len(), set.offered(), set.notes.len());
    assert_eq!(set.offered(), 6_807);
    assert_eq!(set.rules.len(), 6_807);
}

#[test]
fn rules_of_suricata_verify() {
    let Some(shared) = shared() else {
        println!("skipped: no shared data");
        return;
    };
    let tests = shared.join("suricata-verify/tests");
    let (mut in_force, mut offered) = (0, 0);
    let mut folders: Vec<PathBuf> =
        std::fs::read_dir(tests).unwrap().map(|entry| entry.unwrap().path()).collect();
    folders.sort();
    for folder in folders {
        let set = set_of(&rule_files(&folder), &folder);
        print!("{}", refusals(&set));
        in_force += set.rules.len();
        offered += set.offered();
    }
    println!("passed {in_force} of {offered} rules in force");
    assert!(in_force >= 779, "{in_force} of {offered}");
}
