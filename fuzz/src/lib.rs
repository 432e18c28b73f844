//! Hostile bytes for every decoder, reader and table.
//!
//! A [`Target`] puts bytes through one part of Weir and panics when a promise is broken: that includes sums that do not
//! add up and answers that depend on what they must not depend on, not only crashes. Two drivers feed it: `smoke`
//! (stable Rust, seeded mutation, part of `make test`) and `libfuzzer/` (cargo-fuzz, guided by coverage, nightly).

#![forbid(unsafe_code)]

mod scratch;
pub mod seeds;
mod sequence;
mod target;

pub use target::TARGETS;

/// A part of Weir, and bytes to try on it.
pub struct Target {
    /// Its name on the command line and in `libfuzzer/fuzz_targets`.
    pub name: &'static str,
    /// What the bytes are and what is promised of them, for the list of targets.
    pub about: &'static str,
    /// Inputs to start from: at least one, whatever data is there.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// Words that mean something in these inputs.
    pub words: &'static [&'static [u8]],
    /// Tries an input; panics when a promise is broken. What it returns is a digest of what happened: an input with a
    /// new one is worth to be mutated further.
    pub run: fn(&[u8]) -> u64,
}

impl Target {
    /// The target of that name.
    pub fn find(name: &str) -> Option<&'static Target> {
        TARGETS.iter().find(|target| target.name == name)
    }
}

/// Tries an input on the target of that name, which there must be.
pub fn run(name: &str, bytes: &[u8]) {
    let target = Target::find(name).unwrap_or_else(|| panic!("no target {name}"));
    (target.run)(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::path::Path;

    /// Every target has a cargo-fuzz target of its name, and there are no others.
    #[test]
    fn both_drivers_have_the_same_targets() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("libfuzzer/fuzz_targets");
        let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let files: BTreeSet<String> =
            files.map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned()).collect();
        let names: BTreeSet<String> = TARGETS.iter().map(|target| target.name.to_owned()).collect();
        assert_eq!(names, files);
        assert_eq!(names.len(), TARGETS.len(), "a name twice");
    }

    /// The built-in seeds alone, and nothing at all, go through.
    #[test]
    fn every_target_takes_its_seeds_and_nothing() {
        for target in TARGETS {
            (target.run)(&[]);
            for seed in (target.seeds)().iter().take(20) {
                (target.run)(seed);
            }
        }
    }
}
