//! Stored events, and notes about the sensor.

use crate::TimeRange;
use rusqlite::{Connection, Row, Transaction, params};
use std::collections::HashMap;
use weir_api::web::Event;

/// The first version of the database whose events have more than a time, a kind and a text.
pub const SINCE: i64 = 5;
/// The first version of the database whose events can be muted.
pub const MUTED_SINCE: i64 = 7;

/// Whether events that a mute hides are read, or those that none hides.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Which {
    Shown,
    Muted,
}

const SECOND: f64 = 1e9;

/// Writes an event; a later state replaces an earlier one.
pub fn write(to: &Transaction<'_>, event: &Event) -> rusqlite::Result<()> {
    let nanoseconds = |seconds: f64| (seconds * SECOND) as i64;
    // A structure of text and numbers has a JSON form.
    let body = event.id.as_ref().map(|_| serde_json::to_string(event).unwrap_or_default());
    let begin = event.id.as_ref().map(|_| nanoseconds(event.begin));
    to.prepare_cached(
        "INSERT INTO events (time, kind, text, id, begin, body, muted) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
         ON CONFLICT (id) WHERE id IS NOT NULL DO UPDATE SET time = max(time, excluded.time), text = excluded.text,
         begin = min(begin, excluded.begin), body = excluded.body, muted = excluded.muted",
    )?
    .execute(params![
        nanoseconds(event.time),
        event.kind,
        event.text,
        event.id,
        begin,
        body,
        event.muted.map(u64::cast_signed)
    ])?;
    Ok(())
}

/// Ends the events that a run has left open because it was killed.
pub fn end_all(of: &Connection) -> rusqlite::Result<()> {
    of.execute(
        "UPDATE events SET body = json_set(body, '$.open', json('false')) WHERE id IS NOT NULL AND body ->> '$.open'",
        [],
    )?;
    Ok(())
}

/// The bounds of a range as the database compares them.
fn bounds(span: TimeRange) -> (i64, i64) {
    let bound = |time: u64| time.min(i64::MAX as u64) as i64;
    (bound(span.from.unwrap_or(0)), bound(span.to.unwrap_or(u64::MAX)))
}

/// Events with a finding, or an end, in a range, the latest first. `version` is that of the database: one of before [`SINCE`] or
/// [`MUTED_SINCE`] does not have their columns.
pub fn read(
    from: &Connection,
    span: TimeRange,
    limit: usize,
    which: Which,
    version: i64,
) -> rusqlite::Result<Vec<Event>> {
    let (columns, begin) =
        if version >= SINCE { ("body", "coalesce(begin, time)") } else { ("NULL", "time") };
    let chosen = match (which, version >= MUTED_SINCE) {
        (Which::Shown, true) => "muted IS NULL",
        (Which::Muted, true) => "muted IS NOT NULL",
        (Which::Shown, false) => "TRUE",
        (Which::Muted, false) => "FALSE",
    };
    let mut query = from.prepare_cached(&format!(
        "SELECT time, kind, text, {columns} FROM events WHERE time >= ?1 AND {begin} < ?2 AND {chosen}
         ORDER BY time DESC LIMIT ?3"
    ))?;
    let (start, end) = bounds(span);
    query.query_map((start, end, limit as i64), event)?.collect()
}

/// Number of events in a range that a mute hides; the database has [`MUTED_SINCE`].
pub fn count_muted(from: &Connection, span: TimeRange) -> rusqlite::Result<u64> {
    let text =
        "SELECT count(*) FROM events WHERE muted IS NOT NULL AND time >= ?1 AND coalesce(begin, time) < ?2";
    let count: i64 = from.prepare_cached(text)?.query_row(bounds(span), |row| row.get(0))?;
    Ok(count.cast_unsigned())
}

/// Number of events that each mute hides, by its number; the database has [`MUTED_SINCE`].
pub fn by_mute(from: &Connection) -> rusqlite::Result<HashMap<u64, u64>> {
    let text = "SELECT muted, count(*) FROM events WHERE muted IS NOT NULL GROUP BY muted";
    let number = |row: &Row<'_>, at: usize| row.get(at).map(i64::cast_unsigned);
    from.prepare_cached(text)?.query_map([], |row| Ok((number(row, 0)?, number(row, 1)?)))?.collect()
}

fn event(row: &Row<'_>) -> rusqlite::Result<Event> {
    let body: Option<String> = row.get(3)?;
    // A body that cannot be read is shown as a note.
    if let Some(event) = body.and_then(|body| serde_json::from_str(&body).ok()) {
        return Ok(event);
    }
    Ok(Event::note(row.get::<_, i64>(0)? as f64 / SECOND, &row.get::<_, String>(1)?, row.get(2)?))
}
