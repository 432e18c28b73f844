//! Names of addresses: the latest name that a client resolved before it sent to the host.

use super::connection::describe;
use crate::StoreError;
use rusqlite::{Connection, OptionalExtension, Transaction, params};
use std::collections::HashMap;
use std::path::Path;
use weir_api::{Key, mapped};

/// The first version of the database of series with names.
pub const SINCE: i64 = 2;
/// Maximum number of names that wait to be written.
const MAX_WAITING: usize = 65_536;
/// Maximum number of stored names; those seen last are kept.
const MAX: usize = 262_144;

/// Bytes of a waiting name, including its slot in a map with up to twice as many slots.
const EACH: usize = 192;

/// Names to write, by address: IPv4 mapped into IPv6.
pub struct Names {
    waiting: HashMap<[u8; 16], (Box<str>, u64)>,
    max: usize,
}

impl Names {
    /// An empty table with a memory limit in bytes.
    pub fn new(memory: usize) -> Self {
        Self { waiting: HashMap::new(), max: (memory / EACH).clamp(64, MAX_WAITING) }
    }

    /// Notes the use of a name for an address, at a time in nanoseconds since the epoch.
    pub fn see(&mut self, address: [u8; 16], name: &str, time: u64) {
        if self.waiting.len() < self.max || self.waiting.contains_key(&address) {
            self.waiting.insert(address, (name.into(), time));
        }
    }

    /// Writes the waiting names.
    pub fn write(&self, to: &Transaction<'_>) -> rusqlite::Result<()> {
        let mut add = to.prepare_cached(
            "INSERT INTO names VALUES (?1, ?2, ?3) ON CONFLICT (address) DO UPDATE SET name = ?2, time = max(time, ?3)",
        )?;
        for (address, (name, time)) in &self.waiting {
            add.execute(params![address, name, *time as i64])?;
        }
        Ok(())
    }

    /// Whether no name is waiting.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Notes that the waiting names are written.
    pub fn written(&mut self) {
        // Memory that a flood has taken is released.
        self.waiting = HashMap::new();
    }
}

/// Removes names that were not used since a time, and the oldest beyond the maximum.
pub fn sweep(of: &Transaction<'_>, before: u64) -> rusqlite::Result<()> {
    of.execute("DELETE FROM names WHERE time < ?1", [before as i64])?;
    of.execute(
        "DELETE FROM names WHERE address IN (SELECT address FROM names ORDER BY time DESC LIMIT -1 OFFSET ?1)",
        [MAX as i64],
    )?;
    Ok(())
}

/// The name of a key's host, or of its responder.
pub fn of_key(from: &Connection, path: &Path, key: &Key) -> Result<Option<String>, StoreError> {
    let (Key::Address(address)
    | Key::Pair(_, address)
    | Key::Talker { server: address, .. }
    | Key::Flow { destination: address, .. }) = *key
    else {
        return Ok(None);
    };
    let address = mapped(address).to_be_bytes();
    let find = from.prepare_cached("SELECT name FROM names WHERE address = ?1");
    find.and_then(|mut find| find.query_row([address], |row| row.get(0)).optional()).map_err(describe(path))
}
