//! The fields that expressions of a run may test, and the files of their lists.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use weir_filter::fields::{FieldInfo, Fields};
use weir_output::zone::Zone;
use weir_store::fields::StoreFields;
use weir_store::moment::Moments;

/// The fields of every table of records. Those of finished flows are known, so that an error can name their level.
pub struct RunFields {
    /// The folder that paths of lists are relative to.
    folder: PathBuf,
    moments: Moments,
}

/// The fields of the run of this process. Paths of lists are relative to the working directory.
pub fn of_run() -> &'static RunFields {
    static FIELDS: OnceLock<RunFields> = OnceLock::new();
    FIELDS.get_or_init(|| RunFields::new(Path::new(""), Zone::utc()))
}

impl RunFields {
    /// Paths of lists are relative to a folder: that of the configuration, or "" for the command line, where they are relative to
    /// the working directory.
    pub fn new(folder: &Path, zone: Zone) -> Self {
        Self { folder: folder.to_owned(), moments: Moments { zone, now: 0 } }
    }

    fn stored(&self) -> StoreFields<'_> {
        StoreFields { payload: true, files: Some(&self.folder), moments: &self.moments }
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
        self.stored().list(path)
    }
}
