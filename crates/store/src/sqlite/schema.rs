//! The databases of a store and their versions.
//!
//! `weir.db` has series, lists, distinct counts and events. Flows and records are in `rows-SECONDS.db`, one for each
//! partition of time, so that old or excess data is removed as whole files, at no cost for the rest. `marks.db` has what people say
//! about events, `signatures.db` the port signatures that runs have found, and
//! `findings.db` the findings that were reported. All are in WAL mode: readers do not wait for the writer, and a killed process loses at most its uncommitted data.

use super::connection::{code, describe, version};
use super::{renamed, watched};
use crate::StoreError;
use rusqlite::{Connection, ErrorCode, OpenFlags, Transaction};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::time::Duration;

/// The database of series and lists.
pub const MAIN: &str = "weir.db";
/// File name of the lock of the writer of a store.
pub const LOCK: &str = "weir.lock";
/// The database of what people say about events. It stays when a run over files replaces the rest.
pub const MARKS: &str = "marks.db";
/// The database of port signatures. It stays when a run over files replaces the rest.
pub const SIGNATURES: &str = "signatures.db";
/// The database of findings that were reported. It stays when a run over files replaces the rest.
pub const FINDINGS: &str = "findings.db";
/// Prefix of the names of partitions.
pub const PARTITION: &str = "rows-";

/// Kinds of databases, each with the steps from one version to the next.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    /// Series, lists, events.
    Main,
    /// Flows and records.
    Rows,
    /// Mutes and acknowledgements.
    Marks,
    /// Port signatures.
    Signatures,
    /// Findings that were reported.
    Findings,
}

/// Steps of the database of series and lists. Times are nanoseconds since the epoch. Only cells with data are stored, and
/// their `seconds` are the watched seconds of the intervals that have data. In the tier of intervals, the minimum (`least`)
/// and the maximum (`most`) equal the value and are NULL.
static MAIN_STEPS: &[Step] = &[
    Step::Sql("
    CREATE TABLE meta (name TEXT PRIMARY KEY, value ANY) WITHOUT ROWID, STRICT;
    CREATE TABLE series (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, unit TEXT NOT NULL, help TEXT NOT NULL)
        STRICT;
    CREATE TABLE points (tier INTEGER NOT NULL, series INTEGER NOT NULL, time INTEGER NOT NULL,
        seconds REAL NOT NULL, sum REAL NOT NULL, least REAL, most REAL, PRIMARY KEY (tier, series, time))
        WITHOUT ROWID, STRICT;
    CREATE TABLE readings (tier INTEGER NOT NULL, name TEXT NOT NULL, time INTEGER NOT NULL, until INTEGER NOT NULL,
        kind TEXT NOT NULL, body BLOB NOT NULL) STRICT;
    CREATE UNIQUE INDEX readings_by_time ON readings (tier, name, time);
    CREATE TABLE events (time INTEGER NOT NULL, kind TEXT NOT NULL, text TEXT NOT NULL) STRICT;
    CREATE INDEX events_by_time ON events (time);
"),
    Step::Sql("
    CREATE TABLE names (address BLOB PRIMARY KEY, name TEXT NOT NULL, time INTEGER NOT NULL) WITHOUT ROWID, STRICT;
"),
    Step::Code(renamed::migrate),
    Step::Code(watched::migrate),
    // An event has its identifier, the time of its first finding, and all of its facts as JSON. `time` is that of its last
    // finding. Notes about the sensor have none of them.
    Step::Sql("
    ALTER TABLE events ADD COLUMN id TEXT;
    ALTER TABLE events ADD COLUMN begin INTEGER;
    ALTER TABLE events ADD COLUMN body TEXT;
    CREATE UNIQUE INDEX events_by_id ON events (id) WHERE id IS NOT NULL;
"),
    // Lists and distinct counts are written in the binary form of readings, which earlier versions of the program cannot read.
    // Cells of before are JSON (`earlier_lists`) and stay as they are.
    Step::Sql(""),
    // The number of the mute that hides an event.
    Step::Sql("
    ALTER TABLE events ADD COLUMN muted INTEGER;
    CREATE INDEX events_muted ON events (muted) WHERE muted IS NOT NULL;
"),
];

/// Steps of the database of what people say about events. `scope` is JSON. A number of a mute is never used again.
static MARK_STEPS: &[Step] = &[Step::Sql("
    CREATE TABLE meta (name TEXT PRIMARY KEY, value ANY) WITHOUT ROWID, STRICT;
    CREATE TABLE mutes (number INTEGER PRIMARY KEY AUTOINCREMENT, scope TEXT NOT NULL, until INTEGER,
        reason TEXT NOT NULL, who TEXT NOT NULL, made INTEGER NOT NULL) STRICT;
    CREATE TABLE acknowledged (event TEXT PRIMARY KEY, who TEXT NOT NULL, time INTEGER NOT NULL, note TEXT NOT NULL)
        WITHOUT ROWID, STRICT;
    CREATE INDEX acknowledged_by_time ON acknowledged (time);
")];

/// Steps of the database of port signatures. `first` and `last` are nanoseconds since the epoch.
static SIGNATURE_STEPS: &[Step] = &[Step::Sql(
    "
    CREATE TABLE meta (name TEXT PRIMARY KEY, value ANY) WITHOUT ROWID, STRICT;
    CREATE TABLE signatures (ports TEXT PRIMARY KEY, first INTEGER NOT NULL, last INTEGER NOT NULL,
        hosts INTEGER NOT NULL, intervals INTEGER NOT NULL, runs INTEGER NOT NULL) WITHOUT ROWID, STRICT;
    CREATE INDEX signatures_by_last ON signatures (last);
",
)];

/// Steps of the database of findings. `last` is nanoseconds since the epoch.
static FINDING_STEPS: &[Step] = &[Step::Sql(
    "
    CREATE TABLE meta (name TEXT PRIMARY KEY, value ANY) WITHOUT ROWID, STRICT;
    CREATE TABLE findings (name TEXT PRIMARY KEY, last INTEGER NOT NULL) WITHOUT ROWID, STRICT;
    CREATE INDEX findings_by_last ON findings (last);
",
)];

/// Steps of the databases of flows and records. Addresses are 16 bytes, IPv4 mapped into IPv6, so that they sort as
/// numbers. Open flows have numbers below zero: their rows are the first of the table, and are replaced while they go on.
static ROW_STEPS: &[Step] = &[
    Step::Sql("
    CREATE TABLE meta (name TEXT PRIMARY KEY, value ANY) WITHOUT ROWID, STRICT;
    CREATE TABLE flows (id INTEGER PRIMARY KEY, uid INTEGER NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL,
        proto INTEGER NOT NULL, src BLOB NOT NULL, sport INTEGER NOT NULL, dst BLOB NOT NULL, dport INTEGER NOT NULL,
        fpackets INTEGER NOT NULL, rpackets INTEGER NOT NULL, fbytes INTEGER NOT NULL, rbytes INTEGER NOT NULL,
        vlan INTEGER NOT NULL, state TEXT NOT NULL, service TEXT, name TEXT, detail TEXT NOT NULL) STRICT;
    CREATE INDEX flows_by_uid ON flows (uid);
    CREATE TABLE records (id INTEGER PRIMARY KEY, tbl TEXT NOT NULL, uid INTEGER NOT NULL, time INTEGER NOT NULL,
        proto INTEGER NOT NULL, src BLOB NOT NULL, sport INTEGER NOT NULL, dst BLOB NOT NULL, dport INTEGER NOT NULL,
        vlan INTEGER NOT NULL, body TEXT NOT NULL) STRICT;
    CREATE INDEX records_by_uid ON records (uid);
    CREATE INDEX records_by_table ON records (tbl, time);
"),
    // What a flow moved in some of its intervals; and the sum of that, beside the row of the flow.
    Step::Sql("
    CREATE TABLE parts (uid INTEGER NOT NULL, first INTEGER NOT NULL, time INTEGER NOT NULL, until INTEGER NOT NULL,
        fpackets INTEGER NOT NULL, rpackets INTEGER NOT NULL, fbytes INTEGER NOT NULL, rbytes INTEGER NOT NULL,
        PRIMARY KEY (uid, first, time, until)) WITHOUT ROWID, STRICT;
    CREATE TABLE parted (uid INTEGER NOT NULL, first INTEGER NOT NULL,
        fpackets INTEGER NOT NULL, rpackets INTEGER NOT NULL, fbytes INTEGER NOT NULL, rbytes INTEGER NOT NULL,
        PRIMARY KEY (uid, first)) WITHOUT ROWID, STRICT;
"),
];

/// The version of the databases of rows since which flows have parts.
pub const PARTS_SINCE: i64 = 2;

/// The step from one version of a database to the next.
enum Step {
    Sql(&'static str),
    Code(fn(&Transaction<'_>) -> rusqlite::Result<()>),
}

impl Step {
    fn run(&self, to: &Transaction<'_>) -> rusqlite::Result<()> {
        match self {
            Step::Sql(text) => to.execute_batch(text),
            Step::Code(change) => change(to),
        }
    }
}

impl Kind {
    fn steps(self) -> &'static [Step] {
        match self {
            Kind::Main => MAIN_STEPS,
            Kind::Rows => ROW_STEPS,
            Kind::Marks => MARK_STEPS,
            Kind::Signatures => SIGNATURE_STEPS,
            Kind::Findings => FINDING_STEPS,
        }
    }

    /// The version that this program writes.
    pub fn version(self) -> i64 {
        self.steps().len() as i64
    }
}

/// Opens a database for writing. It is created, or upgraded to the version of this program, if necessary.
pub fn open(path: &Path, kind: Kind) -> Result<Connection, StoreError> {
    let describe = describe(path);
    let file = |error| StoreError::File { path: path.to_owned(), error };
    // SQLite gives its other files the mode of the database. An existing database must not be opened and closed by
    // anything but SQLite: that would release the locks of this process's connections (fcntl_locking(2)).
    match path.exists() {
        true => weir_files::make_private(path),
        false => weir_files::open(path).map(drop),
    }
    .map_err(file)?;
    let mut connection = Connection::open(path).map_err(describe)?;
    connection.busy_timeout(Duration::from_secs(5)).map_err(describe)?;
    sort_beside(&connection, path);
    // Effective for a new database only: free pages can be returned to the disk.
    connection.pragma_update(None, "auto_vacuum", "INCREMENTAL").map_err(describe)?;
    connection.pragma_update(None, "journal_mode", "WAL").map_err(describe)?;
    // With a write-ahead log nothing is lost when the process is killed.
    connection.pragma_update(None, "synchronous", "NORMAL").map_err(describe)?;
    connection.pragma_update(None, "wal_autocheckpoint", 1000).map_err(describe)?;
    migrate(&mut connection, path, kind)?;
    Ok(connection)
}

/// Opens a database to read it.
pub fn open_to_read(path: &Path, kind: Kind) -> Result<Connection, StoreError> {
    match path.metadata() {
        Ok(_) => {}
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Err(StoreError::NotThere(path.parent().unwrap_or(path).to_owned()));
        }
        Err(error) => return Err(StoreError::File { path: path.to_owned(), error }),
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(path, flags).map_err(describe(path))?;
    connection.busy_timeout(Duration::from_secs(5)).map_err(describe(path))?;
    let found = match version(&connection, path) {
        Err(error) if code(&error) == Some(ErrorCode::CannotOpen) => {
            connection = open_unchanging(path, flags)?;
            version(&connection, path)?
        }
        found => found?,
    };
    sort_beside(&connection, path);
    refuse_newer(found, path, kind)?;
    Ok(connection)
}

/// Opens a database in a folder that cannot be written, such as read-only media: SQLite reads it without its lock and its log
/// (<https://sqlite.org/uri.html#uriimmutable>). A log that holds changes would be ignored, so that it is an error.
fn open_unchanging(path: &Path, flags: OpenFlags) -> Result<Connection, StoreError> {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    if std::fs::metadata(&log).is_ok_and(|log| log.len() > 0) {
        let text = "its folder cannot be written, and its last changes are in the file beside it that ends with -wal: copy the \
                    store to a folder that can be written";
        let error = io::Error::new(io::ErrorKind::ReadOnlyFilesystem, text);
        return Err(StoreError::File { path: path.to_owned(), error });
    }
    let mut uri = String::from("file:");
    for byte in path.as_os_str().as_encoded_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'-' | b'_' | b'.' => {
                uri.push(char::from(*byte))
            }
            byte => uri.push_str(&format!("%{byte:02x}")),
        }
    }
    uri.push_str("?immutable=1");
    Connection::open_with_flags(uri, flags | OpenFlags::SQLITE_OPEN_URI).map_err(describe(path))
}

/// SQLite sorts data larger than its cache in temporary files. They hold captured data, and a process that is confined
/// to its folders can create them only there. The setting holds for all connections of a process.
fn sort_beside(connection: &Connection, path: &Path) {
    static ONCE: Once = Once::new();
    let Some(folder) = path.parent() else { return };
    ONCE.call_once(|| {
        // A process without the right to write there sorts in SQLite's default folder.
        let _ = connection.pragma_update(None, "temp_store_directory", folder.to_string_lossy());
    });
}

fn refuse_newer(found: i64, path: &Path, kind: Kind) -> Result<(), StoreError> {
    let known = kind.version();
    if found > known {
        return Err(StoreError::Newer { path: path.to_owned(), found, known });
    }
    Ok(())
}

fn migrate(connection: &mut Connection, path: &Path, kind: Kind) -> Result<(), StoreError> {
    let found = version(connection, path)?;
    refuse_newer(found, path, kind)?;
    for (at, step) in kind.steps().iter().enumerate().skip(found as usize) {
        let transaction = connection.transaction().map_err(describe(path))?;
        step.run(&transaction).map_err(describe(path))?;
        transaction.pragma_update(None, "user_version", at as i64 + 1).map_err(describe(path))?;
        transaction.commit().map_err(describe(path))?;
    }
    Ok(())
}

/// Renames a corrupt database, with its log, and returns the new name.
pub fn move_aside(path: &Path, now: u64) -> Result<PathBuf, StoreError> {
    let with = |suffix: &str| {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        PathBuf::from(name)
    };
    let aside = with(&format!(".corrupt-{}", now / 1_000_000_000));
    std::fs::rename(path, &aside).map_err(|error| StoreError::File { path: path.to_owned(), error })?;
    for part in ["-wal", "-shm"] {
        let mut name = aside.as_os_str().to_owned();
        name.push(part);
        // Without its log the database is as corrupt as before.
        let _ = std::fs::rename(with(part), name);
    }
    Ok(aside)
}

/// The partitions of a folder, the oldest first: the second of their start, and their files.
pub fn partitions(folder: &Path) -> Vec<(u64, PathBuf)> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut found: Vec<(u64, PathBuf)> = entries
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let second = name.strip_prefix(PARTITION)?.strip_suffix(".db")?.parse().ok()?;
            Some((second, entry.path()))
        })
        .collect();
    found.sort();
    found
}

/// Bytes of a database and its log on the disk.
pub fn size(path: &Path) -> u64 {
    ["", "-wal", "-shm"]
        .iter()
        .filter_map(|part| {
            let mut name = path.as_os_str().to_owned();
            name.push(part);
            Some(std::fs::metadata(PathBuf::from(name)).ok()?.len())
        })
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn earlier_versions_are_upgraded_and_a_newer_one_is_an_error() {
        for kind in [Kind::Main, Kind::Rows, Kind::Marks, Kind::Signatures, Kind::Findings] {
            for from in 0..=kind.version() {
                let folder = tempfile::tempdir().unwrap();
                let path = folder.path().join("x.db");
                let mut old = Connection::open(&path).unwrap();
                let steps = old.transaction().unwrap();
                for step in kind.steps().iter().take(from as usize) {
                    step.run(&steps).unwrap();
                }
                steps.commit().unwrap();
                old.pragma_update(None, "user_version", from).unwrap();
                drop(old);
                let now = open(&path, kind).unwrap();
                assert_eq!(version(&now, &path).unwrap(), kind.version());
                now.execute("INSERT INTO meta VALUES ('a', 1)", []).unwrap();
            }
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("x.db");
            let new = open(&path, kind).unwrap();
            new.pragma_update(None, "user_version", kind.version() + 1).unwrap();
            drop(new);
            for opened in [open(&path, kind), open_to_read(&path, kind)] {
                let text = opened.err().unwrap().to_string();
                assert!(text.contains("a newer Weir"), "{text}");
            }
        }
    }

    #[test]
    fn a_database_on_read_only_media_is_read_without_its_log() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a % store?#.db");
        let written = open(&path, Kind::Main).unwrap();
        written.execute("INSERT INTO meta VALUES ('a', 1)", []).unwrap();
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let text = open_unchanging(&path, flags).err().unwrap().to_string();
        assert!(text.contains("last changes"), "{text}");
        drop(written);
        let read = open_unchanging(&path, flags).unwrap();
        assert_eq!(writer_number(&read), 1);
        assert!(!folder.path().join("a % store?#.db-shm").exists());
    }

    fn writer_number(of: &Connection) -> i64 {
        of.query_row("SELECT value FROM meta WHERE name = 'a'", [], |row| row.get(0)).unwrap()
    }

    #[test]
    fn a_file_that_is_no_database_is_recognised() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(MAIN);
        std::fs::write(&path, vec![b'x'; 8192]).unwrap();
        let error = open(&path, Kind::Main).err().unwrap();
        assert!(super::super::connection::is_corrupt(&error), "{error}");
        let aside = move_aside(&path, 7_000_000_000).unwrap();
        assert!(aside.ends_with("weir.db.corrupt-7") && aside.exists() && !path.exists());
        open(&path, Kind::Main).unwrap();
    }
}
