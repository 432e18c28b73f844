//! Findings that were reported, in a database of their own: it stays when a run over files replaces the store.

use super::connection::describe;
use super::schema::{self, FINDINGS, Kind};
use crate::StoreError;
use crate::reported::{MAX_REPORTED, Reported};
use rusqlite::{Connection, OptionalExtension, TransactionBehavior, params};
use std::path::{Path, PathBuf};

/// The findings that runs with a store in a directory have reported.
pub struct SqliteReported {
    path: PathBuf,
    most: usize,
    /// Open since the first finding.
    connection: Option<Connection>,
}

impl SqliteReported {
    /// Those of the store in a directory. The file is made when there is something to write.
    pub fn of(folder: &Path) -> Self {
        Self { path: folder.join(FINDINGS), most: MAX_REPORTED, connection: None }
    }

    fn write(&mut self, found: &[String], time: u64, apart: u64) -> Result<Vec<String>, StoreError> {
        let describe = describe(&self.path);
        let connection = match &mut self.connection {
            Some(open) => open,
            none => none.insert(schema::open(&self.path, Kind::Findings)?),
        };
        // Two runs never report one finding.
        let transaction =
            connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(describe)?;
        let new = note(&transaction, found, time, apart).map_err(describe)?;
        let excess = "DELETE FROM findings WHERE name IN
            (SELECT name FROM findings ORDER BY last DESC, name LIMIT -1 OFFSET ?1)";
        transaction.execute(excess, [self.most as i64]).map_err(describe)?;
        transaction.commit().map_err(describe)?;
        Ok(new)
    }
}

fn note(to: &Connection, found: &[String], time: u64, apart: u64) -> rusqlite::Result<Vec<String>> {
    let mut known = to.prepare_cached("SELECT last FROM findings WHERE name = ?1")?;
    let mut add = to.prepare_cached(
        "INSERT INTO findings (name, last) VALUES (?1, ?2) ON CONFLICT DO UPDATE SET last = max(last, ?2)",
    )?;
    let mut new = Vec::new();
    for name in found {
        let last: Option<i64> = known.query_row([name], |row| row.get(0)).optional()?;
        if last.is_none_or(|last| time.saturating_sub(last.cast_unsigned()) > apart) {
            new.push(name.clone());
        }
        add.execute(params![name, time.min(i64::MAX as u64).cast_signed()])?;
    }
    Ok(new)
}

impl Reported for SqliteReported {
    fn see(&mut self, found: &[String], time: u64, apart: u64) -> Result<Vec<String>, StoreError> {
        if found.is_empty() {
            return Ok(Vec::new());
        }
        let new = self.write(found, time, apart);
        if new.is_err() {
            // The file may have been removed: the next attempt opens it again.
            self.connection = None;
        }
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(numbers: &[u32]) -> Vec<String> {
        numbers.iter().map(u32::to_string).collect()
    }

    #[test]
    fn a_finding_is_reported_once_until_it_is_long_ago() {
        let folder = tempfile::tempdir().unwrap();
        let mut run = SqliteReported::of(folder.path());
        assert!(run.see(&[], 5, 10).unwrap().is_empty() && !folder.path().join(FINDINGS).exists());
        assert_eq!(run.see(&names(&[1, 2]), 100, 10).unwrap(), names(&[1, 2]));
        // Another run, before and after that time.
        let mut other = SqliteReported::of(folder.path());
        assert_eq!(other.see(&names(&[2, 3]), 50, 10).unwrap(), names(&[3]));
        assert_eq!(other.see(&names(&[2]), 110, 10).unwrap(), names(&[]));
        assert_eq!(other.see(&names(&[1, 2]), 111, 10).unwrap(), names(&[1]));
    }

    #[test]
    fn those_found_last_the_longest_time_ago_are_forgotten() {
        let folder = tempfile::tempdir().unwrap();
        let mut run = SqliteReported { most: 2, ..SqliteReported::of(folder.path()) };
        run.see(&names(&[1]), 100, 1_000).unwrap();
        run.see(&names(&[2]), 101, 1_000).unwrap();
        run.see(&names(&[3]), 102, 1_000).unwrap();
        assert_eq!(run.see(&names(&[2, 3]), 103, 1_000).unwrap(), names(&[]));
        assert_eq!(run.see(&names(&[1]), 104, 1_000).unwrap(), names(&[1]));
    }

    #[test]
    fn a_file_that_cannot_be_written_is_tried_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        let mut run = SqliteReported::of(&path);
        assert!(run.see(&names(&[1]), 1, 2).is_err());
        std::fs::create_dir(&path).unwrap();
        assert_eq!(run.see(&names(&[1]), 1, 2).unwrap(), names(&[1]));
    }
}
