//! Partitions as queries read them, within their time limit.

use super::connection::describe;
use crate::StoreError;
use rusqlite::{Connection, ErrorCode};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

/// A partition to be queried.
pub struct Part {
    /// Its file.
    pub path: PathBuf,
    /// The database.
    pub connection: Connection,
    /// The first and the last time in the partition.
    pub extent: (u64, u64),
    /// Whether its version has parts of flows.
    pub has_parts: bool,
    /// Time at which the query stops.
    pub until: Instant,
    /// Whether it stops then.
    pub is_hurried: Arc<AtomicBool>,
}

/// The partitions searched so far: an answer holds the results up to there.
#[derive(Default)]
pub struct Progress {
    asked: usize,
    is_stopped: bool,
}

impl Progress {
    /// Queries a partition. Returns `false` if there is no time left for it, or for all of it.
    pub fn ask(
        &mut self,
        part: &Part,
        work: impl FnOnce(&Connection) -> rusqlite::Result<()>,
    ) -> Result<bool, StoreError> {
        self.is_stopped = Instant::now() >= part.until;
        if self.is_stopped {
            return Ok(false);
        }
        match work(&part.connection) {
            Ok(()) => {
                self.asked += 1;
                Ok(true)
            }
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::OperationInterrupted) => {
                self.is_stopped = true;
                Ok(false)
            }
            Err(error) => Err(describe(&part.path)(error)),
        }
    }

    /// The note about skipped partitions in an answer.
    pub fn partial(&self, parts: usize) -> Option<String> {
        self.is_stopped.then(|| {
            format!("stopped at the time limit: {} of {parts} partitions searched, latest first", self.asked)
        })
    }
}
