//! The table `[files]`: files that are extracted from streams, as --files writes them.

use super::Setting;
use super::read::{ConfigReader, Key};
use crate::carve::Limits;
use std::path::PathBuf;
use toml::de::DeTable;

/// The folder of extracted files, and their limits.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Files {
    /// The folder.
    pub dir: Setting<Option<PathBuf>>,
    /// Maximum bytes of a file.
    pub each: Setting<u64>,
    /// Maximum bytes of all files.
    pub total: Setting<u64>,
    /// Maximum number of files.
    pub count: Setting<u64>,
}

impl Default for Files {
    fn default() -> Self {
        let Limits { each, files, total } = Limits::default();
        Self {
            dir: Setting::default(),
            each: Setting::default_of(each),
            total: Setting::default_of(total),
            count: Setting::default_of(files),
        }
    }
}

impl Files {
    /// The limits.
    pub fn limits(&self) -> Limits {
        Limits { each: self.each.value, files: self.count.value, total: self.total.value }
    }
}

pub(super) static KEYS: [Key<Files>; 4] = [
    Key {
        name: "dir",
        takes: "a directory, such as \"/var/lib/weir/files\"",
        read: |r, node, files| r.set_path(node, &mut files.dir),
    },
    Key {
        name: "each",
        takes: "an amount, such as \"64M\"",
        read: |r, node, files| {
            let value = r.parsed(node, crate::cli::bytes);
            r.set(node, value, &mut files.each);
        },
    },
    Key {
        name: "total",
        takes: "an amount, such as \"4G\"",
        read: |r, node, files| {
            let value = r.parsed(node, crate::cli::bytes);
            r.set(node, value, &mut files.total);
        },
    },
    Key {
        name: "count",
        takes: "a whole number from 1 to 1000000000",
        read: |r, node, files| {
            let value = r.integer(node, 1, 1_000_000_000);
            r.set(node, value, &mut files.count);
        },
    },
];

/// Refuses limits without a directory.
pub(super) fn check(r: &mut ConfigReader<'_>, table: &DeTable<'_>) {
    r.refuse_without(table, ("dir", "a directory", "dir = \"DIR\""), &["each", "total", "count"]);
}
