//! What every part of the store asks of a database: its version, its numbers, and the meaning of its errors.

use crate::StoreError;
use rusqlite::{Connection, ErrorCode, OptionalExtension};
use std::io;
use std::path::Path;

/// Maps an error of the database to one of the store, with the path of its file.
pub fn describe(path: &Path) -> impl Fn(rusqlite::Error) -> StoreError + Copy + '_ {
    move |error| StoreError::Database { path: path.to_owned(), error: error.into() }
}

/// The number that is stored under a name; 0 if the name is not stored.
pub fn number(main: &Connection, path: &Path, name: &str) -> Result<u64, StoreError> {
    let found: Option<i64> = main
        .query_row("SELECT value FROM meta WHERE name = ?1", [name], |row| row.get(0))
        .optional()
        .map_err(describe(path))?;
    Ok(found.unwrap_or(0) as u64)
}

/// The version of a database.
pub fn version(connection: &Connection, path: &Path) -> Result<i64, StoreError> {
    connection.query_row("PRAGMA user_version", [], |row| row.get(0)).map_err(describe(path))
}

/// Whether a database has the tables of a version; a database that is only read is not upgraded.
pub fn has(connection: &Connection, path: &Path, since: i64) -> Result<bool, StoreError> {
    Ok(version(connection, path)? >= since)
}

/// Whether an error means that a file is no database, or a corrupt one.
pub fn is_corrupt(error: &StoreError) -> bool {
    matches!(code(error), Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase))
}

/// SQLite's code of an error.
pub fn code(error: &StoreError) -> Option<ErrorCode> {
    let StoreError::Database { error, .. } = error else { return None };
    error.downcast_ref::<rusqlite::Error>()?.sqlite_error_code()
}

/// Whether an error means that the disk is full.
pub fn is_full(error: &StoreError) -> bool {
    match error {
        StoreError::File { error, .. } => error.kind() == io::ErrorKind::StorageFull,
        error => code(error) == Some(ErrorCode::DiskFull),
    }
}
