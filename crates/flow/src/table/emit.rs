//! What leaves the table: records of flows, tallies, and packets that the tallies do not show.

use crate::parsed_packet::{Facts, FlowRef};
use crate::row::{Cold, Hot, Row, mark};
use crate::{Control, EndReason, FlowRecord, FlowSink, FlowTable, Tally};
use weir_wire::build::flags::{FIN, RST, SYN};
use weir_wire::{Tag, Time};

impl FlowTable {
    /// Emits the record of a flow up to `now`; the flow continues.
    pub(super) fn cut<S: FlowSink>(&mut self, at: u32, now: Time, sink: &mut S) {
        let Some(mut row) = Row::at(&mut self.hot, &mut self.cold, at) else { return };
        tally(&mut row, sink);
        let uncounted = self
            .pool
            .known(row.cold.origin.holes)
            .map_or([0; 2], |holes| std::mem::take(&mut holes.uncounted));
        if S::PACKETS {
            sink.leaving(at, row.hot.last, false, &|| Row::identity_of(row.hot, row.cold));
        }
        sink.end(&record_of(&row, self.linked.get(at as usize), uncounted, EndReason::Active));
        self.stats.by_reason[EndReason::Active as usize] += 1;
        row.unmark(mark::DIRTY);
        row.cut(now);
        row.save();
        // The next packet counts as the first of its direction again.
        row.hot.steady = [0; 2];
    }

    /// Ends a flow and frees its row.
    pub(super) fn end<S: FlowSink>(&mut self, at: u32, reason: EndReason, sink: &mut S) {
        let Some(hot) = self.hot.get_mut(at as usize) else { return };
        let place = if hot.has(mark::FRESH) {
            end_fresh(at, hot, reason, &mut self.record, sink);
            hot.fresh_place()
        } else {
            let Some(cold) = self.cold.get_mut(at as usize) else { return };
            let mut row = Row::new(hot, cold);
            if row.has(mark::DIRTY) {
                tally(&mut row, sink);
            }
            let uncounted = self.pool.release(row.cold.origin.holes);
            if S::PACKETS {
                sink.leaving(at, row.hot.last, true, &|| Row::identity_of(row.hot, row.cold));
            }
            let record = record_of(&row, self.linked.get(at as usize), uncounted, reason);
            sink.end(&record);
            if matches!(reason, EndReason::Fin | EndReason::Rst) {
                let hash = self.look.hash.of(&record.key);
                match record.follows {
                    0 => self.closed.remember(hash, record.id, row.born(), record.last),
                    _ => self.closed.extend(hash, &record.key, record.last),
                }
            }
            row.cold.origin.place
        };
        hot.deadline = Time(0);
        hot.first = Time(self.free);
        self.index.remove(place);
        self.free = u64::from(at) + 1;
        self.ended(reason);
    }

    /// Counts a flow that ended.
    #[inline]
    pub(super) fn ended(&mut self, reason: EndReason) {
        self.stats.ended += 1;
        self.stats.evicted += u64::from(reason == EndReason::Evicted);
        self.stats.by_reason[reason as usize] += 1;
    }

    /// Whether a packet's VLAN tag differs from that of its flow.
    #[inline]
    pub(super) fn has_other_tag(&self, at: u32, tag: Tag) -> bool {
        self.hot.get(at as usize).is_some_and(|row| row.tag() != tag)
    }

    /// Reports a packet that was counted to a flow although its headers do not show the key, or with another VLAN tag.
    #[cold]
    pub(super) fn irregular(&mut self, at: u32, flow_ref: &FlowRef, s: &Facts, sink: &mut impl FlowSink) {
        let Some(tally) = self.tally_of(at, flow_ref, s, false) else { return };
        match s.regular {
            true => sink.vlan_changed(&tally, s.tag),
            false => sink.irregular(&tally),
        }
    }

    /// Reports a packet that was counted to a flow if it may begin or end a connection, or begins the flow.
    #[cold]
    #[inline(never)]
    pub(super) fn control(
        &mut self,
        at: u32,
        flow_ref: &FlowRef,
        s: &Facts,
        begins: bool,
        sink: &mut impl FlowSink,
    ) {
        let flags = s.segment.as_ref().map_or(0, |segment| segment.flags);
        if !begins && flags & (SYN | FIN | RST) == 0 {
            return;
        }
        if let Some(tally) = self.tally_of(at, flow_ref, s, begins) {
            sink.control(&Control { tally, time: s.time, flags });
        }
    }

    /// The packet with these facts as a tally of its flow.
    fn tally_of<'k>(&mut self, at: u32, flow_ref: &'k FlowRef, s: &Facts, begins: bool) -> Option<Tally<'k>> {
        let hot = self.hot.get_mut(at as usize)?;
        let (tag, carrier) = (hot.tag(), hot.has(mark::CARRIER));
        let (initiator, vlan, follows, unasked) = if hot.has(mark::FRESH) {
            (hot.fresh_initiator(), hot.fresh_vlan(), false, true)
        } else {
            let cold = self.cold.get_mut(at as usize)?;
            let (vlan, follows) = (cold.origin.vlan[0], hot.has(mark::FOLLOWS));
            let row = Row::new(hot, cold);
            (row.initiator(), vlan, follows, is_unasked(&row, usize::from(flow_ref.sender & 1)))
        };
        Some(Tally {
            key: &flow_ref.key,
            source_is_lower: flow_ref.sender & 1 == 0,
            initiator_is_lower: initiator == 0,
            vlan,
            tag,
            packets: u64::from(s.packets),
            bytes: s.frame_bytes,
            begins: begins && !follows,
            carrier,
            unasked,
        })
    }
}

/// Reports that a regular packet was not counted to any flow.
#[cold]
pub(super) fn uncounted(flow_ref: &FlowRef, s: &Facts, sink: &mut impl FlowSink) {
    if s.regular {
        let source_is_lower = flow_ref.sender & 1 == 0;
        sink.uncounted(&Tally {
            key: &flow_ref.key,
            source_is_lower,
            initiator_is_lower: source_is_lower,
            vlan: s.vlan[0],
            tag: s.tag,
            packets: u64::from(s.packets),
            bytes: s.frame_bytes,
            begins: false,
            carrier: false,
            unasked: false,
        });
    }
}

/// The record of a flow whose row is not fresh. `root`: the connection that it follows, if it is marked so.
pub(super) fn record_of(
    row: &Row<'_>,
    linked: Option<&u64>,
    uncounted: [u64; 2],
    end: EndReason,
) -> FlowRecord {
    let linked = linked.copied().unwrap_or(0);
    let record = row.record(uncounted, end);
    match (row.has(mark::FOLLOWS), record.parent) {
        (true, _) => FlowRecord { follows: linked, ..record },
        (false, 0) => record,
        (false, _) => FlowRecord { other_parent: linked, ..record },
    }
}

/// Emits the sums of both directions of a flow since its last tally.
pub(super) fn tally(row: &mut Row<'_>, sink: &mut impl FlowSink) {
    let initiator = row.initiator() & 1;
    for side in [initiator, 1 - initiator] {
        let (packets, bytes) = row.take_tally(side);
        if packets == 0 {
            continue;
        }
        let begins = !row.has(mark::BEGUN | mark::FOLLOWS);
        row.mark(mark::BEGUN);
        sink.tally(&Tally {
            key: &row.hot.key,
            source_is_lower: side == 0,
            initiator_is_lower: initiator == 0,
            vlan: row.cold.origin.vlan[0],
            tag: row.hot.tag(),
            packets,
            bytes,
            begins,
            carrier: row.has(mark::CARRIER),
            unasked: is_unasked(row, side),
        });
    }
}

/// Whether what a side of a flow sends was not asked for: see [`Tally::unasked`]. The row is not fresh.
fn is_unasked(row: &Row<'_>, side: usize) -> bool {
    row.counts(1 - side).packets == 0 && !row.has(mark::FOLLOWS)
}

/// Emits all of a fresh row; `record` is overwritten.
#[inline]
pub(super) fn end_fresh<S: FlowSink>(
    at: u32,
    hot: &mut Hot,
    reason: EndReason,
    record: &mut FlowRecord,
    sink: &mut S,
) {
    if S::PACKETS {
        sink.leaving(at, hot.last, true, &|| hot.fresh_identity());
    }
    if hot.has(mark::DIRTY) {
        tally_fresh(hot, sink);
    }
    hot.fresh_record(reason, record);
    debug_assert_eq!(*record, hot.clone().settle(&mut Cold::default()).record([0; 2], reason));
    sink.end(record);
}

/// Emits the sums of a fresh row that were not emitted before.
#[inline]
pub(super) fn tally_fresh(row: &mut Hot, sink: &mut impl FlowSink) {
    let side = row.sender() & 1;
    row.mark(mark::BEGUN);
    sink.tally(&Tally {
        key: &row.key,
        source_is_lower: side == 0,
        initiator_is_lower: row.fresh_initiator() == 0,
        vlan: row.fresh_vlan(),
        tag: row.tag(),
        packets: 1,
        bytes: u64::from(row.counts[side].frame_bytes),
        begins: true,
        carrier: false,
        // The row has one packet.
        unasked: true,
    });
}
