//! The open flows that the writer knows, and their parts.
//!
//! A flow has one row, at its end, with its sums. While it is open its row so far stands beside the others, so that answers have
//! it; and what it moved in each interval is kept as a part, so that answers over a time have what it moved then.

use super::rows::{FlowPart, Row, Stored};
use crate::share::Sides;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use weir_api::Count;
use weir_output::{FlowRecord, OpenFlows};

/// A flow has a part for an interval in which it moved at least this number of bytes.
pub const MIN_PART: u64 = 64 << 10;
/// Maximum number of parts of an interval: those with the most bytes.
pub const MAX_PARTS: usize = 4096;
/// Maximum number of open flows that are known.
const MAX_FLOWS: usize = 65_536;
/// Bytes of memory for a known flow.
const EACH: usize = 160;
/// An open flow without a packet for this time has ended, and its row was lost. In nanoseconds.
const LOST: u64 = 24 * 3_600_000_000_000;

/// An open flow.
struct Known {
    stored: Stored,
    /// Its sums when it was seen.
    sums: Sides,
    /// End of the interval in which it was seen.
    until: u64,
}

/// The open flows. Their number is limited: of others the store has no row before they end, and no parts.
pub struct OpenSet {
    flows: HashMap<(u64, u64), Known>,
    max: usize,
    /// Whether the rows of open flows are written; else only their parts.
    has_rows: bool,
    /// End of the latest interval.
    shown_until: u64,
    /// End of the latest interval of which flows were left out.
    short_until: u64,
    next_row: i64,
    /// Open flows without a row.
    without: u64,
    /// Parts that were left out.
    parts_shed: u64,
}

impl OpenSet {
    /// No flows, with a limit of memory in bytes.
    pub fn new(memory: usize, has_rows: bool) -> Self {
        Self {
            flows: HashMap::new(),
            max: (memory / EACH).min(MAX_FLOWS),
            has_rows,
            shown_until: 0,
            short_until: 0,
            next_row: -1,
            without: 0,
            parts_shed: 0,
        }
    }

    /// Number of parts that were left out.
    pub fn parts_shed(&self) -> u64 {
        self.parts_shed
    }

    /// Takes the number of flows that are open at the end of an interval. Returns a change of the number of those without a row.
    pub fn count(&mut self, active: u64) -> Option<Row> {
        let without = if self.short_until > 0 { active.saturating_sub(self.flows.len() as u64) } else { 0 };
        let is_new = self.has_rows && std::mem::replace(&mut self.without, without) != without;
        is_new.then_some(Row::LeftOut(without))
    }

    /// Takes the open flows of an interval. Returns the rows to write.
    pub fn interval(&mut self, open: &OpenFlows<'_>) -> Vec<Row> {
        // Late segments are added to the row of their connection when they end.
        let flows = || open.flows.iter().filter(|one| one.flow.follows == 0);
        let mut parts: Vec<FlowPart> =
            flows().filter_map(|one| self.part(&one.flow, (one.from, open.until))).collect();
        if parts.len() > MAX_PARTS {
            parts.select_nth_unstable_by_key(MAX_PARTS, |part| (Reverse(bytes(&part.sums)), part.flow));
            self.parts_shed += (parts.len() - MAX_PARTS) as u64;
            parts.truncate(MAX_PARTS);
        }
        let mut rows: Vec<Row> = Vec::with_capacity(parts.len() + open.flows.len());
        for part in parts {
            if let Some(known) = self.flows.get_mut(&part.flow) {
                add(&mut known.stored.parted, &part.sums);
            }
            rows.push(Row::Part(Box::new(part)));
        }
        if self.flows.len() > self.max {
            self.leave_out(open.until, &mut rows);
        }
        if open.left_out > 0 {
            self.short_until = open.until;
        }
        self.shown_until = open.until;
        if self.has_rows {
            for one in flows() {
                if let Some(known) = self.flows.get(&key(&one.flow)) {
                    let name = one.name.as_deref().map(Box::from);
                    rows.push(Row::Open(Box::new(one.flow), name, known.stored));
                }
            }
        }
        rows
    }

    /// Takes a flow that has ended. Returns its last part, and what the store has of it.
    pub fn end(&mut self, flow: &FlowRecord) -> (Option<FlowPart>, Stored) {
        let Some(known) = self.flows.remove(&key(flow)) else { return (None, Stored::default()) };
        let Known { mut stored, sums, until } = known;
        let moved = since(&sides(flow), &sums);
        if bytes(&moved) < MIN_PART {
            return (None, stored);
        }
        let from = if until < self.short_until { until } else { until.max(self.shown_until) };
        add(&mut stored.parted, &moved);
        let span = (from, flow.last.0.saturating_add(1).max(from.saturating_add(1)));
        (Some(FlowPart { flow: key(flow), span, sums: moved }), stored)
    }

    /// Notes the sums of an open flow in an interval. Returns what it moved there, if that is a part.
    fn part(&mut self, flow: &FlowRecord, (from, until): (u64, u64)) -> Option<FlowPart> {
        let sums = sides(flow);
        let (known, from) = match self.flows.entry(key(flow)) {
            Entry::Occupied(known) => {
                let known = known.into_mut();
                let since = if known.until < self.short_until { known.until.min(from) } else { from };
                (known, Some(since))
            }
            Entry::Vacant(place) => {
                let mut stored = Stored::default();
                if self.has_rows {
                    stored.row = self.next_row;
                    self.next_row -= 1;
                }
                // A flow that had packets before was left out: what it moved now is unknown.
                let since = (flow.first.0 >= from).then_some(flow.first.0);
                (place.insert(Known { stored, sums: Sides::default(), until }), since)
            }
        };
        let moved = since(&sums, &known.sums);
        (known.sums, known.until) = (sums, until);
        let from = from.filter(|from| *from < until && bytes(&moved) >= MIN_PART)?;
        Some(FlowPart { flow: key(flow), span: (from, until), sums: moved })
    }

    /// Forgets flows that have lost their end, and the lighter half of the others if they are too many.
    fn leave_out(&mut self, now: u64, rows: &mut Vec<Row>) {
        let has_rows = self.has_rows;
        self.flows.retain(|_, known| {
            let is_lost = known.until.saturating_add(LOST) < now;
            if is_lost && has_rows {
                rows.push(Row::Unfinished(known.stored.row));
            }
            !is_lost
        });
        if self.flows.len() <= self.max {
            return;
        }
        let mut weights: Vec<(u64, (u64, u64))> =
            self.flows.iter().map(|(flow, known)| (bytes(&known.sums), *flow)).collect();
        let kept = self.max / 2;
        weights.select_nth_unstable_by_key(kept, |weight| Reverse(*weight));
        for (_, flow) in weights.drain(kept..) {
            if let Some(known) = self.flows.remove(&flow).filter(|_| has_rows) {
                rows.push(Row::Forgotten(known.stored.row));
            }
        }
        self.short_until = now;
    }
}

fn key(flow: &FlowRecord) -> (u64, u64) {
    (flow.id, flow.first.0)
}

fn sides(flow: &FlowRecord) -> Sides {
    [flow.forward, flow.reverse].map(|side| Count { packets: side.packets, bytes: side.frame_bytes })
}

fn bytes(sides: &Sides) -> u64 {
    sides.iter().fold(0, |sum, side| sum.saturating_add(side.bytes))
}

fn add(to: &mut Sides, more: &Sides) {
    to.iter_mut().zip(more).for_each(|(side, more)| side.add(more));
}

fn since(now: &Sides, before: &Sides) -> Sides {
    let less = |at: usize| Count {
        packets: now[at].packets.saturating_sub(before[at].packets),
        bytes: now[at].bytes.saturating_sub(before[at].bytes),
    };
    [less(0), less(1)]
}
