//! Closed connections that wait for their late segments.
//!
//! The table of flows ends a closed connection after some seconds, as Zeek does. What arrives afterwards comes as a flow of its
//! own that follows the connection ([`FlowRecord::follows`]). Suricata has one event for both, so that the connection's event
//! waits until no late segment can follow.

use std::collections::{HashMap, VecDeque};
use weir_engine::{EndReason, FlowRecord, LATE};

/// Maximum number of connections that wait, some 6 MB. The oldest leave first.
const MAX_HELD: usize = 16_384;

/// Nanoseconds that connections wait at most: a flow of late segments may begin within [`LATE`], and ends when it is idle for
/// five minutes.
const MAX_WAIT: u64 = LATE + 300_000_000_000;

/// Closed connections in the order in which they came, and so leave: it depends on nothing but the order of rows.
#[derive(Default)]
pub(super) struct Held {
    waiting: VecDeque<FlowRecord>,
    /// Number of the first of them, counted from the beginning.
    first: u64,
    /// Numbers of the connections by their identifiers.
    numbers: HashMap<u64, u64>,
    /// Flows of late segments that have begun, and those that have ended.
    begun: u64,
    ended: u64,
    /// Connections that left early because too many waited.
    pub shed: u64,
}

impl Held {
    /// Takes a flow that has ended. Returns the flows whose events are to be written now: this one, if it is neither a closed
    /// connection nor late segments of one that waits, or the oldest, if too many wait.
    pub fn take(&mut self, flow: &FlowRecord) -> Option<FlowRecord> {
        if flow.follows != 0 {
            self.ended += u64::from(flow.end != EndReason::Active);
            let number = self.numbers.get(&flow.follows).and_then(|number| number.checked_sub(self.first));
            let Some(connection) = number.and_then(|at| self.waiting.get_mut(at as usize)) else {
                return Some(*flow);
            };
            add(connection, flow);
            return None;
        }
        if flow.tcp.is_none() || !matches!(flow.end, EndReason::Fin | EndReason::Rst) {
            return Some(*flow);
        }
        self.numbers.insert(flow.id, self.first + self.waiting.len() as u64);
        self.waiting.push_back(*flow);
        if self.waiting.len() <= MAX_HELD {
            return None;
        }
        self.shed += 1;
        self.pop()
    }

    /// Adds to the number of flows of late segments that have begun.
    pub fn begin(&mut self, followed: u64) {
        self.begun += followed;
    }

    /// A connection that no late segment can follow at `now`.
    pub fn leave(&mut self, now: u64) -> Option<FlowRecord> {
        let wait = if self.begun > self.ended { MAX_WAIT } else { LATE };
        let is_over = self.waiting.front().is_some_and(|flow| flow.last.0.saturating_add(wait) <= now);
        if is_over { self.pop() } else { None }
    }

    /// The connection that waits longest.
    pub fn pop(&mut self) -> Option<FlowRecord> {
        let flow = self.waiting.pop_front()?;
        // A later flow may have the identifier of an earlier one, when time goes back.
        if self.numbers.get(&flow.id) == Some(&self.first) {
            self.numbers.remove(&flow.id);
        }
        self.first += 1;
        Some(flow)
    }
}

/// Adds late segments to their connection. The initiator of the segments may be the responder of the connection.
fn add(connection: &mut FlowRecord, late: &FlowRecord) {
    let is_turned = connection.initiator_is_lower != late.initiator_is_lower;
    let sides = if is_turned { [&late.reverse, &late.forward] } else { [&late.forward, &late.reverse] };
    for (mine, more) in [&mut connection.forward, &mut connection.reverse].into_iter().zip(sides) {
        mine.packets += more.packets;
        mine.frame_bytes += more.frame_bytes;
        mine.ip_bytes += more.ip_bytes;
        mine.payload_bytes += more.payload_bytes;
        mine.bad_checksums = mine.bad_checksums.saturating_add(more.bad_checksums);
        mine.later_fragments = mine.later_fragments.saturating_add(more.later_fragments);
        mine.tcp_flags |= more.tcp_flags;
    }
    connection.last = connection.last.max(late.last);
    // Suricata has one flow of both.
    connection.alerted |= late.alerted;
    connection.verdict = connection.verdict.or(late.verdict);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures;
    use weir_engine::{FlowVerdict, Side};
    use weir_wire::Time;

    const SECOND: u64 = 1_000_000_000;

    fn closed(id: u64, second: u64) -> FlowRecord {
        FlowRecord { id, last: Time(second * SECOND), ..fixtures::flow() }
    }

    /// Two packets of the responder, as the initiator of their flow.
    fn late(follows: u64, second: u64) -> FlowRecord {
        let of = fixtures::flow();
        FlowRecord {
            id: 1000 + follows,
            follows,
            initiator_is_lower: !of.initiator_is_lower,
            forward: Side { packets: 2, frame_bytes: 120, tcp_flags: 4, ..Side::default() },
            reverse: Side::default(),
            last: Time(second * SECOND),
            end: EndReason::Idle,
            ..of
        }
    }

    #[test]
    fn late_segments_are_added_to_the_direction_of_their_sender() {
        let mut held = Held::default();
        assert_eq!(held.take(&closed(1, 100)), None);
        assert_eq!(held.take(&late(1, 130)), None);
        // Without its connection it is an event of its own, and so is a flow that did not close.
        assert_eq!(held.take(&late(2, 130)), Some(late(2, 130)));
        let open = FlowRecord { end: EndReason::Idle, ..closed(3, 100) };
        assert_eq!(held.take(&open), Some(open));
        let whole = held.pop().unwrap();
        let before = fixtures::flow();
        assert_eq!((whole.id, whole.last, whole.state), (1, Time(130 * SECOND), before.state));
        assert_eq!(whole.forward, before.forward);
        let reverse = (whole.reverse.packets, whole.reverse.frame_bytes, whole.reverse.tcp_flags);
        assert!(!whole.alerted && whole.verdict.is_none());
        let earlier = before.reverse;
        assert_eq!(reverse, (earlier.packets + 2, earlier.frame_bytes + 120, earlier.tcp_flags | 4));
        assert_eq!(held.pop(), None);
        assert_eq!(held.take(&late(1, 131)), Some(late(1, 131)));
    }

    #[test]
    fn rules_on_late_segments_are_those_of_their_connection() {
        let mut held = Held::default();
        let verdict = Some(FlowVerdict::Pass);
        assert_eq!(held.take(&closed(1, 100)), None);
        assert_eq!(held.take(&FlowRecord { alerted: true, verdict, ..late(1, 120) }), None);
        let later = FlowRecord { verdict: Some(FlowVerdict::Drop), ..late(1, 130) };
        assert_eq!(held.take(&later), None);
        let whole = held.pop().unwrap();
        assert_eq!((whole.alerted, whole.verdict), (true, verdict));
    }

    #[test]
    fn connections_leave_in_order_when_nothing_can_follow() {
        let mut held = Held::default();
        [closed(1, 100), closed(2, 90), closed(3, 170)]
            .iter()
            .for_each(|flow| assert_eq!(held.take(flow), None));
        let left = |held: &mut Held, second: u64| {
            std::iter::from_fn(|| held.leave(second * SECOND)).map(|flow| flow.id).collect::<Vec<_>>()
        };
        // The second is not before the first.
        assert_eq!(left(&mut held, 159), [0_u64; 0]);
        held.begin(1);
        assert_eq!(left(&mut held, 200), [0_u64; 0], "a flow of late segments is open");
        assert_eq!(held.take(&late(1, 150)), None);
        assert_eq!(left(&mut held, 200), [0_u64; 0], "its last packet was at 150");
        assert_eq!(left(&mut held, 210), [1, 2]);
        held.begin(1);
        assert_eq!(left(&mut held, 529), [0_u64; 0]);
        assert_eq!(left(&mut held, 530), [3]);
        assert!(held.numbers.is_empty());
    }

    #[test]
    fn no_more_than_the_limit_wait_and_the_oldest_leaves_first() {
        let mut held = Held::default();
        let left: Vec<u64> = (0..MAX_HELD as u64 + 100)
            .filter_map(|id| held.take(&closed(id, id)))
            .map(|flow| flow.id)
            .collect();
        assert_eq!(left, (0..100).collect::<Vec<_>>());
        assert_eq!((held.shed, held.waiting.len(), held.numbers.len()), (100, MAX_HELD, MAX_HELD));
        assert_eq!(held.take(&late(100, 5)), None);
        assert_eq!(held.pop().unwrap().reverse.packets, fixtures::flow().reverse.packets + 2);
    }
}
