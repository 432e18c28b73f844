//! The fields that expressions of a run may test, and the files of their lists.

use std::collections::BTreeSet;
use std::fs::Metadata;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};
use weir_filter::fields::{FieldInfo, Fields};
use weir_output::zone::Zone;
use weir_store::fields::{Lists, StoreFields};
use weir_store::moment::Moments;

/// The fields of every table of records. Those of finished flows are known, so that an error can name their level.
pub struct RunFields {
    /// The folder that paths of lists are relative to.
    folder: PathBuf,
    moments: Moments,
    /// The lists that may be read; `None` for all.
    known: Option<BTreeSet<String>>,
    /// Whether fields that hold payload can be tested.
    payload: bool,
    /// The lists that were read.
    read: Mutex<BTreeSet<String>>,
}

/// The fields of the run of this process. Paths of lists are relative to the working directory. Its plan is compiled from texts
/// whose lists were checked when the text was read.
pub fn of_run() -> &'static RunFields {
    static FIELDS: OnceLock<RunFields> = OnceLock::new();
    FIELDS.get_or_init(RunFields::default)
}

impl Default for RunFields {
    /// Every list may be read.
    fn default() -> Self {
        Self::new(Path::new(""), Zone::utc())
    }
}

impl RunFields {
    /// Paths of lists are relative to a folder: that of the configuration, or "" for the command line, where they are relative to
    /// the working directory.
    pub fn new(folder: &Path, zone: Zone) -> Self {
        let moments = Moments { zone, now: 0 };
        Self { folder: folder.to_owned(), moments, known: None, payload: true, read: Mutex::default() }
    }

    /// For the text of a client, which may name these lists and no other file.
    pub fn of_client(known: BTreeSet<String>) -> Self {
        Self { known: Some(known), ..Self::default() }
    }

    /// Without the fields that hold payload.
    pub fn without_payload(self) -> Self {
        Self { payload: false, ..self }
    }

    /// The names of the lists that were read, each as it is written.
    pub fn lists(&self) -> BTreeSet<String> {
        self.read.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn stored(&self) -> StoreFields<'_> {
        let lists = match &self.known {
            Some(known) => Lists::Known(&self.folder, known),
            None => Lists::All(&self.folder),
        };
        StoreFields { payload: self.payload, lists, moments: &self.moments }
    }
}

impl Fields for RunFields {
    fn tables(&self) -> Vec<&'static str> {
        self.stored().tables()
    }

    fn names(&self, table: &str) -> Vec<&'static str> {
        self.stored().names(table)
    }

    fn find(&self, table: &str, name: &str) -> Result<Option<FieldInfo>, String> {
        self.stored().find(table, name)
    }

    fn time(&self, text: &str) -> Result<f64, String> {
        // A run has no present: it may be that of a capture of years ago, or go on for months.
        match Moments::is_relative(text, &self.moments.zone) {
            true => Err("a time such as `2026-03-15` or `\"2026-03-15 12:30\"`, or seconds since the epoch"
                .to_owned()),
            false => self.stored().time(text),
        }
    }

    fn list(&self, path: &str) -> Result<Vec<u8>, String> {
        let content = self.stored().list(path)?;
        self.read.lock().unwrap_or_else(PoisonError::into_inner).insert(path.to_owned());
        Ok(content)
    }

    fn stamp(&self, path: &str) -> Option<u64> {
        if self.known.as_ref().is_some_and(|known| !known.contains(path)) {
            return None;
        }
        let found = std::fs::metadata(self.folder.join(path)).ok().filter(Metadata::is_file)?;
        // A file that replaces another may have its time and length, but not its number while both exist.
        let mut hasher = DefaultHasher::new();
        (found.mtime(), found.mtime_nsec(), found.len(), found.ino()).hash(&mut hasher);
        Some(hasher.finish())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_filter::{Options, RecordTest};

    /// The fields that answer names of Wireshark's are fields, and the words are tables.
    #[test]
    fn answers_to_display_filters_are_expressions_over_records() {
        let fields = RunFields::of_client(BTreeSet::new());
        let options = Options { fields: Some(&fields), ..Options::default() };
        let names = include_str!("../../filter/src/wireshark.rs").lines().filter_map(|line| {
            let (name, meaning) = line.trim().strip_prefix("(\"")?.split_once("\", ")?;
            let (kind, here) = meaning.strip_suffix("\")),")?.split_once("(\"")?;
            matches!(kind, "Field" | "Word").then_some((name, here))
        });
        let names: Vec<(&str, &str)> = names.filter(|(_, here)| !["ip6", "icmp6"].contains(here)).collect();
        assert!(names.len() > 60, "{}", names.len());
        for (name, here) in names {
            let test = RecordTest::compile(here, &options);
            assert!(test.is_ok(), "{name}: {here}: {:?}", test.err());
        }
    }
}
