//! Hostile bytes for every decoder, reader and table.
//!
//! A [`Target`] runs bytes through one part of Weir and panics when an invariant is violated: not only crashes, but
//! also sums that do not add up, and results that depend on something irrelevant. Two drivers run it: `smoke` (stable
//! Rust, seeded mutation, part of `make test`) and `libfuzzer/` (cargo-fuzz, guided by coverage, nightly).

#![forbid(unsafe_code)]

mod scratch;
pub mod seeds;
mod sequence;
mod target;

pub use target::TARGETS;

/// A part of Weir, and inputs for it.
pub struct Target {
    /// Its name on the command line and in `libfuzzer/fuzz_targets`.
    pub name: &'static str,
    /// Format of the input and the tested invariants, for the list of targets.
    pub about: &'static str,
    /// Initial inputs: at least one, whether captures are present or not.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// Words that are significant in these inputs.
    pub words: &'static [&'static [u8]],
    /// Runs an input; panics when an invariant is violated. Returns a digest of the outcome: an input with a new
    /// digest is mutated further.
    pub run: fn(&[u8]) -> u64,
}

impl Target {
    /// The target of that name.
    pub fn find(name: &str) -> Option<&'static Target> {
        TARGETS.iter().find(|target| target.name == name)
    }
}

/// Runs an input on the target of that name, which must exist.
pub fn run(name: &str, bytes: &[u8]) {
    let target = Target::find(name).unwrap_or_else(|| panic!("no target {name}"));
    (target.run)(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::path::Path;

    /// Every target has a cargo-fuzz target of its name, and vice versa.
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

    /// The built-in seeds and an empty input cause no panic.
    #[test]
    fn every_target_accepts_its_seeds_and_an_empty_input() {
        for target in TARGETS {
            (target.run)(&[]);
            for seed in (target.seeds)().iter().take(20) {
                (target.run)(seed);
            }
        }
    }
}
