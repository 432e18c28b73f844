//! Late segments of closed connections, added to the rows of their connections.
//!
//! A flow that follows a connection ([`FlowRecord::follows`]) is no row of its own if the connection's row is in the partition
//! that is written, or in the one before it. Its packets and bytes are added by endpoint, because its initiator may be the
//! connection's responder. State and history are the connection's, and the end of the row is the later one of both.

use super::schema::{self, Kind};
use rusqlite::{Connection, OptionalExtension, params};
use std::path::Path;
use weir_output::FlowRecord;
use weir_output::zone::epoch_micros;

/// Adds a flow to the row of the connection that it follows. Returns `false` if the database has no such row.
pub fn add(to: &Connection, late: &FlowRecord) -> rusqlite::Result<bool> {
    // Parts of a connection that the active timeout cut have one identifier: the last one is continued.
    let text = "SELECT id, src, sport, first, last FROM flows WHERE uid = ?1 ORDER BY id DESC LIMIT 1";
    let mut query = to.prepare_cached(text)?;
    let found = query.query_row([late.follows as i64], |row| {
        let source: (Vec<u8>, u16) = (row.get(1)?, row.get(2)?);
        Ok((row.get::<_, i64>(0)?, source, row.get::<_, i64>(3)?, row.get::<_, i64>(4)?))
    });
    let Some((id, source, first, last)) = found.optional()? else { return Ok(false) };
    let (address, port) = late.initiator();
    let is_turned = (source.0.as_slice(), source.1) != (&address[..], port);
    let (forward, reverse) =
        if is_turned { (&late.reverse, &late.forward) } else { (&late.forward, &late.reverse) };
    let last = last.max(late.last.0 as i64);
    let duration = epoch_micros(last.saturating_sub(first).max(0).cast_unsigned());
    let mut update = to.prepare_cached(
        "UPDATE flows SET last = ?2, fpackets = fpackets + ?3, rpackets = rpackets + ?4, fbytes = fbytes + ?5,
         rbytes = rbytes + ?6, detail = json_replace(detail, '$.duration', json(?7),
         '$.frame_bytes', detail ->> 'frame_bytes' + ?5, '$.reverse_frame_bytes', detail ->> 'reverse_frame_bytes' + ?6,
         '$.ip_bytes', detail ->> 'ip_bytes' + ?8, '$.reverse_ip_bytes', detail ->> 'reverse_ip_bytes' + ?9,
         '$.payload_bytes', detail ->> 'payload_bytes' + ?10,
         '$.reverse_payload_bytes', detail ->> 'reverse_payload_bytes' + ?11,
         '$.bad_checksums', detail ->> 'bad_checksums' + ?12,
         '$.reverse_bad_checksums', detail ->> 'reverse_bad_checksums' + ?13)
         WHERE id = ?1",
    )?;
    update.execute(params![
        id,
        last,
        forward.packets as i64,
        reverse.packets as i64,
        forward.frame_bytes as i64,
        reverse.frame_bytes as i64,
        duration,
        forward.ip_bytes as i64,
        reverse.ip_bytes as i64,
        forward.payload_bytes as i64,
        reverse.payload_bytes as i64,
        forward.bad_checksums,
        reverse.bad_checksums,
    ])?;
    Ok(true)
}

/// The partition before the one that is written, opened when the first late segment is not of the latter.
pub struct Before<'p> {
    path: &'p Path,
    /// `None` before it is opened; `Some(None)` where no partition is before, or it cannot be written.
    opened: Option<Option<Connection>>,
    /// Flows of connections of that partition.
    found: Vec<&'p FlowRecord>,
}

impl<'p> Before<'p> {
    /// The partition before the one in a file.
    pub fn new(path: &'p Path) -> Self {
        Self { path, opened: None, found: Vec::new() }
    }

    /// Whether the flow's connection is there. If so, the flow is added to it by [`Before::write`].
    pub fn has(&mut self, late: &'p FlowRecord) -> bool {
        let path = self.path;
        let opened = self.opened.get_or_insert_with(|| {
            let all = schema::partitions(path.parent()?);
            let (_, before) = all.into_iter().rev().skip_while(|(_, one)| one != path).nth(1)?;
            schema::open(&before, Kind::Rows).ok()
        });
        let has = |connection: &Connection| -> rusqlite::Result<bool> {
            let mut query =
                connection.prepare_cached("SELECT EXISTS (SELECT 1 FROM flows WHERE uid = ?1)")?;
            query.query_row([late.follows as i64], |row| row.get(0))
        };
        let is_there = opened.as_ref().is_some_and(|connection| has(connection).unwrap_or(false));
        if is_there {
            self.found.push(late);
        }
        is_there
    }

    /// Adds the flows, all or none. Returns their number if the database could not be written.
    pub fn write(self) -> u64 {
        let Some(mut connection) = self.opened.flatten().filter(|_| !self.found.is_empty()) else { return 0 };
        let mut add_all = || -> rusqlite::Result<()> {
            let transaction = connection.transaction()?;
            for late in &self.found {
                add(&transaction, late)?;
            }
            let last = self.found.iter().map(|late| late.last.0).max().unwrap_or(0);
            transaction
                .execute("UPDATE meta SET value = max(value, ?1) WHERE name = 'last'", [last as i64])?;
            transaction.commit()
        };
        match add_all() {
            Ok(()) => 0,
            Err(_) => self.found.len() as u64,
        }
    }
}
