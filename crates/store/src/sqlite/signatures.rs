//! Port signatures in a database of their own: it stays when a run over files replaces the store.

use super::connection::describe;
use super::schema::{self, Kind, SIGNATURES};
use crate::StoreError;
use crate::signatures::{KnownSignature, MAX_SIGNATURES, Signatures};
use rusqlite::{Connection, Row, TransactionBehavior, params};
use std::collections::HashSet;
use std::path::{Path, PathBuf};

/// The port signatures that runs with a store in a directory have found.
pub struct SqliteSignatures {
    path: PathBuf,
    /// Open since the first signature.
    connection: Option<Connection>,
    /// The signatures that this run has found, at most [`MAX_SIGNATURES`].
    seen: HashSet<String>,
}

impl SqliteSignatures {
    /// Those of the store in a directory. The file is made when there is something to write.
    pub fn of(folder: &Path) -> Self {
        Self { path: folder.join(SIGNATURES), connection: None, seen: HashSet::new() }
    }

    fn write(&mut self, found: &[(String, u64)], span: (u64, u64)) -> Result<Vec<String>, StoreError> {
        let describe = describe(&self.path);
        let connection = match &mut self.connection {
            Some(open) => open,
            none => none.insert(schema::open(&self.path, Kind::Signatures)?),
        };
        // Two runs never find one signature new.
        let transaction =
            connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(describe)?;
        let new = note(&transaction, found, span, &self.seen).map_err(describe)?;
        transaction.commit().map_err(describe)?;
        Ok(new)
    }
}

/// Notes signatures; `seen` are those that this run has found before.
fn note(
    to: &Connection,
    found: &[(String, u64)],
    (begin, end): (u64, u64),
    seen: &HashSet<String>,
) -> rusqlite::Result<Vec<String>> {
    let mut add = to.prepare_cached(
        "INSERT INTO signatures (ports, first, last, hosts, intervals, runs) VALUES (?1, ?2, ?3, ?4, 1, 1)
         ON CONFLICT DO UPDATE SET first = min(first, ?2), last = max(last, ?3), hosts = max(hosts, ?4),
         intervals = intervals + 1, runs = runs + ?5 RETURNING intervals",
    )?;
    let mut new = Vec::new();
    for (ports, hosts) in found {
        let runs = i64::from(!seen.contains(ports));
        let row = params![ports, time(begin), time(end), time(*hosts), runs];
        let intervals: i64 = add.query_row(row, |row| row.get(0))?;
        if intervals == 1 {
            new.push(ports.clone());
        }
    }
    if !new.is_empty() {
        let excess = "DELETE FROM signatures WHERE ports IN
            (SELECT ports FROM signatures ORDER BY last DESC, ports LIMIT -1 OFFSET ?1)";
        to.execute(excess, [MAX_SIGNATURES as i64])?;
    }
    Ok(new)
}

/// A time or a number as the database has it.
fn time(value: u64) -> i64 {
    value.min(i64::MAX as u64).cast_signed()
}

fn known(row: &Row<'_>) -> rusqlite::Result<KnownSignature> {
    let number = |at: usize| row.get::<_, i64>(at).map(i64::cast_unsigned);
    Ok(KnownSignature {
        ports: row.get(0)?,
        first: number(1)?,
        last: number(2)?,
        hosts: number(3)?,
        intervals: number(4)?,
        runs: number(5)?,
    })
}

impl Signatures for SqliteSignatures {
    fn see(&mut self, found: &[(String, u64)], interval: (u64, u64)) -> Result<Vec<String>, StoreError> {
        if found.is_empty() {
            return Ok(Vec::new());
        }
        let new = self.write(found, interval);
        match &new {
            Ok(_) => {
                if self.seen.len() + found.len() > MAX_SIGNATURES {
                    self.seen.clear();
                }
                self.seen.extend(found.iter().map(|(ports, _)| ports.clone()));
            }
            // The file may have been removed: the next attempt opens it again.
            Err(_) => self.connection = None,
        }
        new
    }

    fn all(&self) -> Result<Vec<KnownSignature>, StoreError> {
        let connection = match schema::open_to_read(&self.path, Kind::Signatures) {
            Ok(connection) => connection,
            Err(StoreError::NotThere(_)) => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let read = || -> rusqlite::Result<Vec<KnownSignature>> {
            let text = "SELECT ports, first, last, hosts, intervals, runs FROM signatures ORDER BY ports";
            connection.prepare(text)?.query_map([], known)?.collect()
        };
        read().map_err(describe(&self.path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(signatures: &[(&str, u64)]) -> Vec<(String, u64)> {
        signatures.iter().map(|(ports, hosts)| ((*ports).to_owned(), *hosts)).collect()
    }

    #[test]
    fn a_signature_is_new_once_whatever_the_run() {
        let folder = tempfile::tempdir().unwrap();
        let mut run = SqliteSignatures::of(folder.path());
        assert!(run.see(&[], (1, 2)).unwrap().is_empty() && run.all().unwrap().is_empty());
        assert!(!folder.path().join(SIGNATURES).exists());
        assert_eq!(run.see(&found(&[("22", 1), ("22,445", 2)]), (10, 20)).unwrap(), ["22", "22,445"]);
        assert_eq!(run.see(&found(&[("22", 7), ("80", 1)]), (20, 30)).unwrap(), ["80"]);
        let known = run.all().unwrap();
        let first =
            KnownSignature { ports: "22".to_owned(), first: 10, last: 30, hosts: 7, intervals: 2, runs: 1 };
        assert_eq!((known.len(), &known[0]), (3, &first));
        assert_eq!((first.is_new(10), first.is_new(11)), (true, false));
        // Another run finds it before and after.
        let mut other = SqliteSignatures::of(folder.path());
        assert!(other.see(&found(&[("22", 3)]), (5, 9)).unwrap().is_empty());
        assert!(other.see(&found(&[("22", 3)]), (35, 40)).unwrap().is_empty());
        let old = KnownSignature { first: 5, last: 40, intervals: 4, runs: 2, ..first };
        assert_eq!((&run.all().unwrap()[0], old.is_new(0)), (&old, false));
    }

    #[test]
    fn the_signatures_that_were_seen_last_the_longest_time_ago_are_forgotten() {
        let folder = tempfile::tempdir().unwrap();
        let mut run = SqliteSignatures::of(folder.path());
        let many: Vec<(String, u64)> = (0..MAX_SIGNATURES).map(|n| (format!("{n}"), 1)).collect();
        run.see(&many, (10, 20)).unwrap();
        run.see(&many[1..], (20, 30)).unwrap();
        assert_eq!(run.see(&found(&[("1,2", 1)]), (30, 40)).unwrap(), ["1,2"]);
        let known = run.all().unwrap();
        assert!(known.len() == MAX_SIGNATURES && known.iter().all(|one| one.ports != "0"));
        assert_eq!(run.see(&found(&[("0", 1)]), (40, 50)).unwrap(), ["0"]);
    }

    #[test]
    fn a_file_that_cannot_be_written_is_tried_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        let mut run = SqliteSignatures::of(&path);
        assert!(run.see(&found(&[("22", 1)]), (1, 2)).is_err());
        std::fs::create_dir(&path).unwrap();
        assert_eq!(run.see(&found(&[("22", 1)]), (1, 2)).unwrap(), ["22"]);
    }
}
