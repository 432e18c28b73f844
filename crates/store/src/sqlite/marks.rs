//! What people say about events, in a database of its own: it stays when a run over files replaces the store, and a process that only
//! reads the store writes it.

use super::connection::describe;
use super::schema::{self, Kind, MARKS};
use crate::StoreError;
use crate::marks::{MAX_ACKNOWLEDGED, MAX_MUTES, Marks};
use rusqlite::{Connection, OptionalExtension, Row, TransactionBehavior, params};
use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use weir_api::web::Acknowledgement;
use weir_api::{Mute, MuteScope};

const SECOND: f64 = 1e9;
const COLUMNS: &str = "number, scope, until, reason, who, made";

/// What people say about the events of a store in a directory.
pub struct SqliteMarks {
    path: PathBuf,
    seen: Mutex<Seen>,
}

/// The state in which the mutes were read last.
#[derive(Default)]
struct Seen {
    /// The inode of the file, and a connection to it.
    open: Option<(u64, Connection)>,
    /// The number that SQLite changes when another connection has written.
    version: Option<i64>,
}

impl SqliteMarks {
    /// What people say about the events of the store in a directory. The file is made when there is something to write.
    pub fn of(folder: &Path) -> Self {
        Self { path: folder.join(MARKS), seen: Mutex::default() }
    }

    /// Asks the database; without a file the answer is the default one.
    fn read<T: Default>(
        &self,
        ask: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        match schema::open_to_read(&self.path, Kind::Marks) {
            Ok(connection) => ask(&connection).map_err(describe(&self.path)),
            Err(StoreError::NotThere(_)) => Ok(T::default()),
            Err(error) => Err(error),
        }
    }

    /// Changes the database in a transaction.
    fn write<T>(&self, change: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T, StoreError> {
        let describe = describe(&self.path);
        let mut connection = schema::open(&self.path, Kind::Marks)?;
        // Two processes that count mutes and add one never make one too many.
        let transaction =
            connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(describe)?;
        let done = change(&transaction).map_err(describe)?;
        transaction.commit().map_err(describe)?;
        Ok(done)
    }
}

fn read_mutes(from: &Connection) -> rusqlite::Result<Vec<Mute>> {
    let mut query = from.prepare(&format!("SELECT {COLUMNS} FROM mutes ORDER BY number"))?;
    let rows = query.query_map([], mute)?;
    // A row that is no mute is left out: the others hold.
    rows.filter_map(Result::transpose).collect()
}

fn mute(row: &Row<'_>) -> rusqlite::Result<Option<Mute>> {
    let scope: String = row.get(1)?;
    let scope = serde_json::from_str::<MuteScope>(&scope).ok().and_then(|scope| scope.read().ok());
    let Some(scope) = scope else { return Ok(None) };
    Ok(Some(Mute {
        number: row.get(0).map(i64::cast_unsigned)?,
        scope,
        until: row.get::<_, Option<i64>>(2)?.map(i64::cast_unsigned),
        reason: row.get(3)?,
        who: row.get(4)?,
        made: row.get(5).map(i64::cast_unsigned)?,
    }))
}

/// A time as the database has it.
fn time(nanoseconds: u64) -> i64 {
    nanoseconds.min(i64::MAX as u64).cast_signed()
}

impl Marks for SqliteMarks {
    fn mutes(&self) -> Result<Vec<Mute>, StoreError> {
        self.read(read_mutes)
    }

    fn changed_mutes(&self) -> Result<Option<Vec<Mute>>, StoreError> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let file = std::fs::metadata(&self.path).ok().map(|data| data.ino());
        let Some(file) = file else {
            let was_there = seen.open.is_some();
            *seen = Seen::default();
            return Ok(was_there.then(Vec::new));
        };
        if seen.open.as_ref().is_none_or(|(known, _)| *known != file) {
            *seen = Seen::default();
            // The file is there before its tables.
            if schema::size(&self.path) == 0 {
                return Ok(None);
            }
            seen.open = Some((file, schema::open_to_read(&self.path, Kind::Marks)?));
        }
        let Some((_, connection)) = &seen.open else { return Ok(None) };
        let describe = describe(&self.path);
        let version =
            connection.query_row("PRAGMA data_version", [], |row| row.get::<_, i64>(0)).map_err(describe)?;
        if seen.version == Some(version) {
            return Ok(None);
        }
        let found = read_mutes(connection).map_err(describe)?;
        seen.version = Some(version);
        Ok(Some(found))
    }

    fn mute(&self, mute: &Mute) -> Result<Option<u64>, StoreError> {
        // A scope of text has a JSON form.
        let scope = serde_json::to_string(&MuteScope::from(&mute.scope)).unwrap_or_default();
        self.write(|to| {
            let count: i64 = to.query_row("SELECT count(*) FROM mutes", [], |row| row.get(0))?;
            if count >= MAX_MUTES as i64 {
                let ended = "DELETE FROM mutes WHERE number =
                    (SELECT number FROM mutes WHERE until <= ?1 ORDER BY until LIMIT 1)";
                if to.execute(ended, [time(mute.made)])? == 0 {
                    return Ok(None);
                }
            }
            to.execute(
                "INSERT INTO mutes (scope, until, reason, who, made) VALUES (?1, ?2, ?3, ?4, ?5)",
                params![scope, mute.until.map(time), mute.reason, mute.who, time(mute.made)],
            )?;
            Ok(Some(to.last_insert_rowid().cast_unsigned()))
        })
    }

    fn unmute(&self, number: u64) -> Result<Option<Mute>, StoreError> {
        if !self.path.exists() {
            return Ok(None);
        }
        self.write(|to| {
            let text = format!("DELETE FROM mutes WHERE number = ?1 RETURNING {COLUMNS}");
            Ok(to.query_row(&text, [time(number)], mute).optional()?.flatten())
        })
    }

    fn acknowledge(&self, events: &[String], by: &Acknowledgement) -> Result<(), StoreError> {
        self.write(|to| {
            let mut add = to.prepare(
                "INSERT INTO acknowledged VALUES (?1, ?2, ?3, ?4)
                 ON CONFLICT DO UPDATE SET who = ?2, time = ?3, note = ?4",
            )?;
            for event in events {
                add.execute(params![event, by.who, (by.when * SECOND) as i64, by.note])?;
            }
            let excess = "DELETE FROM acknowledged WHERE event IN
                (SELECT event FROM acknowledged ORDER BY time DESC LIMIT -1 OFFSET ?1)";
            to.execute(excess, [MAX_ACKNOWLEDGED as i64])?;
            Ok(())
        })
    }

    fn acknowledged(&self, events: &[String]) -> Result<HashMap<String, Acknowledgement>, StoreError> {
        self.read(|from| {
            let mut find = from.prepare("SELECT who, time, note FROM acknowledged WHERE event = ?1")?;
            let mut found = HashMap::new();
            for event in events {
                let by = find.query_row([event], |row| {
                    let when = row.get::<_, i64>(1)? as f64 / SECOND;
                    Ok(Acknowledgement { who: row.get(0)?, when, note: row.get(2)? })
                });
                found.extend(by.optional()?.map(|by| (event.clone(), by)));
            }
            Ok(found)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draft(port: u16, until: Option<u64>) -> Mute {
        let scope = MuteScope { port: Some(format!("tcp/{port}")), ..MuteScope::default() };
        let scope = scope.read().unwrap();
        Mute { number: 0, scope, until, reason: "<b>x".to_owned(), who: "ann".to_owned(), made: 7 }
    }

    #[test]
    fn mutes_are_kept_and_changes_are_seen_by_another_process() {
        let folder = tempfile::tempdir().unwrap();
        let (run, pages) = (SqliteMarks::of(folder.path()), SqliteMarks::of(folder.path()));
        assert!(run.changed_mutes().unwrap().is_none() && pages.mutes().unwrap().is_empty());
        assert!(pages.unmute(1).unwrap().is_none() && !folder.path().join(MARKS).exists());
        assert_eq!(pages.mute(&draft(1, Some(9))).unwrap(), Some(1));
        assert_eq!(pages.mute(&draft(2, None)).unwrap(), Some(2));
        let kept = run.changed_mutes().unwrap().unwrap();
        assert_eq!(kept, [Mute { number: 1, ..draft(1, Some(9)) }, Mute { number: 2, ..draft(2, None) }]);
        assert_eq!((run.changed_mutes().unwrap(), pages.mutes().unwrap()), (None, kept.clone()));
        assert_eq!(pages.unmute(2).unwrap().as_ref(), kept.last());
        assert!(pages.unmute(2).unwrap().is_none() && pages.unmute(u64::MAX).unwrap().is_none());
        assert_eq!(run.changed_mutes().unwrap().unwrap(), kept[..1]);
        // Its number is not used again.
        assert_eq!(pages.mute(&draft(3, None)).unwrap(), Some(3));
    }

    #[test]
    fn mutes_are_bounded_and_ended_ones_make_room() {
        let folder = tempfile::tempdir().unwrap();
        let marks = SqliteMarks::of(folder.path());
        assert_eq!(marks.mute(&draft(1, Some(7))).unwrap(), Some(1));
        let body = serde_json::to_string(&MuteScope::from(&draft(1, None).scope)).unwrap();
        let many = "WITH RECURSIVE n(x) AS (SELECT 2 UNION ALL SELECT x + 1 FROM n WHERE x < ?1)
            INSERT INTO mutes SELECT x, ?2, NULL, '', '', 0 FROM n";
        marks.write(|to| to.execute(many, params![MAX_MUTES as i64, body])).unwrap();
        assert!(marks.mute(&draft(1, None)).unwrap().is_some());
        assert_eq!(marks.mute(&draft(1, None)).unwrap(), None);
        let mutes = marks.mutes().unwrap();
        assert_eq!((mutes.len(), mutes[0].number), (MAX_MUTES, 2));
    }

    #[test]
    fn acknowledgements_are_replaced_and_bounded() {
        let folder = tempfile::tempdir().unwrap();
        let marks = SqliteMarks::of(folder.path());
        let by = |who: &str, when| Acknowledgement { who: who.to_owned(), when, note: "seen".to_owned() };
        let ids: Vec<String> = (0..MAX_ACKNOWLEDGED + 1).map(|n| format!("{n:016x}")).collect();
        assert!(marks.acknowledged(&ids[..2]).unwrap().is_empty());
        marks.acknowledge(&ids[..1], &by("ann", 5.0)).unwrap();
        marks.acknowledge(&ids[1..], &by("bob", 6.0)).unwrap();
        let found = marks.acknowledged(&ids[..2]).unwrap();
        assert_eq!((found.len(), &found[&ids[1]]), (1, &by("bob", 6.0)));
        marks.acknowledge(&ids[1..2], &by("eve", 7.5)).unwrap();
        assert_eq!(marks.acknowledged(&ids[1..2]).unwrap()[&ids[1]], by("eve", 7.5));
    }
}
