//! The course of flows, from their rows and their parts.

use super::open_flows::MIN_PART;
use super::partition::Part;
use crate::share::{Course, Piece, Sides, Window};
use rusqlite::{Connection, OptionalExtension, Row};
use weir_api::Count;

/// A flow as its row has it.
pub struct FlowRow {
    /// Its number.
    pub uid: i64,
    /// Times of its first and its last packet.
    pub times: (u64, u64),
    /// Its sums, as far as a condition counts them: nothing for a direction that it leaves out.
    pub sums: Sides,
}

impl FlowRow {
    /// Packets and bytes of both directions.
    pub fn whole(&self) -> Count {
        let [mut whole, reverse] = self.sums;
        whole.add(&reverse);
        whole
    }
}

/// The flow in the columns uid, first, last, fpackets, rpackets, fbytes and rbytes of a row, the first of which has that number.
pub fn flow_row(row: &Row<'_>, at: usize) -> rusqlite::Result<FlowRow> {
    let number = |column: usize| row.get::<_, i64>(at + column).map(|number| number as u64);
    Ok(FlowRow {
        uid: row.get(at)?,
        times: (number(1)?, number(2)?),
        sums: [
            Count { packets: number(3)?, bytes: number(5)? },
            Count { packets: number(4)?, bytes: number(6)? },
        ],
    })
}

/// Finds the course of flows over a range.
pub struct Courses<'p> {
    parts: &'p [Part],
    window: Window,
}

impl<'p> Courses<'p> {
    /// For flows in these partitions and what they moved in a range.
    pub fn new(parts: &'p [Part], window: Window) -> Self {
        Self { parts, window }
    }

    /// The course of a flow whose row is in a partition. Pieces outside of the range are left out.
    pub fn of(&self, at: &Part, flow: &FlowRow) -> rusqlite::Result<Course> {
        let mut course = Course::unknown(flow.times, flow.sums);
        if !at.has_parts || flow.whole().bytes < MIN_PART {
            return Ok(course);
        }
        let Some(parted) = parted(&at.connection, flow)? else { return Ok(course) };
        // A direction that the condition leaves out has no pieces.
        let is_counted = flow.sums.map(|side| side.packets > 0);
        for ((rest, parted), is_counted) in course.rest.iter_mut().zip(parted).zip(is_counted) {
            if is_counted {
                rest.packets = rest.packets.saturating_sub(parted.packets);
                rest.bytes = rest.bytes.saturating_sub(parted.bytes);
            }
        }
        let (from, to) = (self.window.from.max(flow.times.0), self.window.to);
        let range = [self.window.from, to].map(|time| time.min(i64::MAX as u64) as i64);
        for part in self.parts {
            if !part.has_parts || part.extent.1 < from || part.extent.0 >= to {
                continue;
            }
            let mut pieces = part.connection.prepare_cached(
                "SELECT fpackets, rpackets, fbytes, rbytes, time, until FROM parts
                 WHERE uid = ?1 AND first = ?2 AND until > ?3 AND time < ?4",
            )?;
            let mut rows = pieces.query((flow.uid, flow.times.0 as i64, range[0], range[1]))?;
            while let Some(row) = rows.next()? {
                let mut sums = sides(row)?;
                for (side, is_counted) in sums.iter_mut().zip(is_counted) {
                    if !is_counted {
                        *side = Count::default();
                    }
                }
                // A part is of an interval, in which the flow may begin or end.
                let (first, end) = (flow.times.0, flow.times.1.saturating_add(1));
                let within = |column: usize| {
                    row.get::<_, i64>(column).map(|time| (time as u64).clamp(first, end.max(first)))
                };
                course.pieces.push(Piece { span: (within(4)?, within(5)?), sums });
            }
        }
        Ok(course)
    }
}

/// The sum of the parts of a flow.
fn parted(of: &Connection, flow: &FlowRow) -> rusqlite::Result<Option<Sides>> {
    of.prepare_cached("SELECT fpackets, rpackets, fbytes, rbytes FROM parted WHERE uid = ?1 AND first = ?2")?
        .query_row((flow.uid, flow.times.0 as i64), sides)
        .optional()
}

fn sides(row: &Row<'_>) -> rusqlite::Result<Sides> {
    let number = |at: usize| row.get::<_, i64>(at).map(|number| number as u64);
    Ok([Count { packets: number(0)?, bytes: number(2)? }, Count { packets: number(1)?, bytes: number(3)? }])
}
