//! Making the parts of flows longer when they are old: a part of 5 minutes takes the room of ten of 30 seconds.

use super::connection::{self, describe, number};
use super::schema::{self, Kind, PARTS_SINCE};
use crate::StoreError;
use rusqlite::{Connection, params};
use std::path::Path;

/// Nanoseconds after which parts are made longer: two days.
const AFTER: u64 = 2 * 24 * 3_600_000_000_000;
/// Their length then, in nanoseconds.
const LENGTH: u64 = 300_000_000_000;
/// The mark of a partition with long parts, among its numbers.
const DONE: &str = "parts of 5 minutes";

/// Makes the parts of one partition longer that is complete and old at a time. Returns whether there was one: a partition takes
/// seconds, so that each call does one.
pub fn thin_parts(folder: &Path, current: Option<&Path>, now: u64) -> Result<bool, StoreError> {
    for (second, path) in schema::partitions(folder) {
        let begun = second.saturating_mul(1_000_000_000);
        if current == Some(path.as_path()) || begun.saturating_add(AFTER) > now {
            continue;
        }
        if thin_partition(&path, now)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn thin_partition(path: &Path, now: u64) -> Result<bool, StoreError> {
    let read = schema::open_to_read(path, Kind::Rows)?;
    let is_old = number(&read, path, "last")?.saturating_add(AFTER) <= now;
    if !is_old || !connection::has(&read, path, PARTS_SINCE)? || number(&read, path, DONE)? > 0 {
        return Ok(false);
    }
    drop(read);
    let connection = schema::open(path, Kind::Rows)?;
    lengthen(&connection).map_err(describe(path))?;
    Ok(true)
}

fn lengthen(within: &Connection) -> rusqlite::Result<()> {
    let transaction = within.unchecked_transaction()?;
    transaction.execute(
        "CREATE TABLE longer AS SELECT uid, first, time / ?1 * ?1 AS begin, max(max(until), time / ?1 * ?1 + ?1) AS end,
         sum(fpackets) AS fp, sum(rpackets) AS rp, sum(fbytes) AS fb, sum(rbytes) AS rb
         FROM parts GROUP BY uid, first, time / ?1",
        [LENGTH as i64],
    )?;
    transaction.execute_batch(
        "DELETE FROM parts; INSERT INTO parts SELECT uid, first, begin, end, fp, rp, fb, rb FROM longer; DROP TABLE longer;",
    )?;
    transaction.execute("INSERT OR REPLACE INTO meta VALUES (?1, 1)", params![DONE])?;
    transaction.commit()?;
    within.execute_batch("PRAGMA incremental_vacuum")
}
