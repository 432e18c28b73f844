//! Stored events, and notes about the sensor.

use crate::TimeRange;
use rusqlite::{Connection, Row, Transaction, params};
use weir_api::web::Event;

/// The first version of the database whose events have more than a time, a kind and a text.
pub const SINCE: i64 = 5;

const SECOND: f64 = 1e9;

/// Writes an event; a later state replaces an earlier one.
pub fn write(to: &Transaction<'_>, event: &Event) -> rusqlite::Result<()> {
    let nanoseconds = |seconds: f64| (seconds * SECOND) as i64;
    // A structure of text and numbers has a JSON form.
    let body = event.id.as_ref().map(|_| serde_json::to_string(event).unwrap_or_default());
    let begin = event.id.as_ref().map(|_| nanoseconds(event.begin));
    to.prepare_cached(
        "INSERT INTO events (time, kind, text, id, begin, body) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
         ON CONFLICT (id) WHERE id IS NOT NULL DO UPDATE SET time = max(time, excluded.time), text = excluded.text,
         begin = min(begin, excluded.begin), body = excluded.body",
    )?
    .execute(params![nanoseconds(event.time), event.kind, event.text, event.id, begin, body])?;
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

/// Events with a finding, or an end, in a range, the latest first. `has_bodies` is whether the database has the columns of
/// [`SINCE`].
pub fn read(
    from: &Connection,
    span: TimeRange,
    limit: usize,
    has_bodies: bool,
) -> rusqlite::Result<Vec<Event>> {
    let bound = |time: u64| time.min(i64::MAX as u64) as i64;
    let (columns, begin) = if has_bodies { ("body", "coalesce(begin, time)") } else { ("NULL", "time") };
    let mut query = from.prepare_cached(&format!(
        "SELECT time, kind, text, {columns} FROM events WHERE time >= ?1 AND {begin} < ?2 ORDER BY time DESC LIMIT ?3"
    ))?;
    let bounds = (bound(span.from.unwrap_or(0)), bound(span.to.unwrap_or(u64::MAX)), limit as i64);
    query.query_map(bounds, event)?.collect()
}

fn event(row: &Row<'_>) -> rusqlite::Result<Event> {
    let body: Option<String> = row.get(3)?;
    // A body that cannot be read is shown as a note.
    if let Some(event) = body.and_then(|body| serde_json::from_str(&body).ok()) {
        return Ok(event);
    }
    Ok(Event::note(row.get::<_, i64>(0)? as f64 / SECOND, &row.get::<_, String>(1)?, row.get(2)?))
}
