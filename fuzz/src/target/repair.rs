use super::Digest;
use super::read::{WORDS, read};
use crate::scratch::{self, Scratch};
use crate::{Target, seeds};
use weir_capture::{ReadOptions, repair};

pub const TARGET: Target = Target {
    name: "repair",
    about: "a capture file: repaired, it is read without an error, and no readable packet is lost",
    seeds: seeds::files,
    words: WORDS,
    run,
};

fn run(input: &[u8]) -> u64 {
    scratch::with(|scratch| check(scratch, input))
}

fn check(scratch: &Scratch, input: &[u8]) -> u64 {
    let path = scratch.file("input", input);
    let before = read(&[&path], &ReadOptions::default());
    let mut digest = Digest::default();
    digest.size(before.packets);
    match repair(&path) {
        Ok(repair) => {
            let after = read(&[&path], &ReadOptions::default());
            assert!(after.errors.is_empty(), "after a repair: {:?}", after.errors);
            assert_eq!((after.packets, after.packets), (repair.packets, before.packets));
            assert_eq!(repair.changed, !before.errors.is_empty());
            let again = repair_again(&path);
            assert_eq!(again, Some(false), "a second repair changes the file");
            digest.add(u64::from(repair.changed));
        }
        Err(error) => {
            assert!(!before.errors.is_empty(), "no repair of a good file: {error}");
            let text = error.to_string();
            text.bytes().filter(|byte| (b'g'..=b'z').contains(byte)).for_each(|byte| digest.add(byte.into()));
        }
    }
    digest.0
}

fn repair_again(path: &std::path::Path) -> Option<bool> {
    repair(path).ok().map(|repair| repair.changed)
}
