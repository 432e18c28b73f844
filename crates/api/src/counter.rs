//! The registry of counters. Metrics, series, the pages and the manual read it.

use crate::{SessionCount, Snapshot};

/// A counter of packets, flows or flow payload. It only grows during a run.
#[derive(Clone, Copy, Debug)]
pub struct Counter {
    /// Name in metrics, series and URLs: lower-case letters and underscores.
    pub name: &'static str,
    /// Label on the pages and in tables, below the counter that it is part of.
    pub label: &'static str,
    /// Unit, in the plural: `packets`, `bytes`.
    pub unit: &'static str,
    /// Meaning, one or two sentences.
    pub help: &'static str,
    /// Nesting depth: a counter is part of the nearest one above it of less depth.
    pub depth: usize,
    /// Whether it counts loss: packets or rows that should have been received or written and were not.
    pub loss: bool,
    /// Reads its value of an interval.
    pub of: fn(&Snapshot) -> u64,
}

/// All counters in display order: parts follow their whole.
pub fn counters() -> impl Iterator<Item = &'static Counter> {
    PACKETS.iter().chain(FLOWS).chain(SessionCount::COUNTERS).chain(EVENTS)
}

const fn row(
    depth: usize,
    (name, unit): (&'static str, &'static str),
    label: &'static str,
    help: &'static str,
    of: fn(&Snapshot) -> u64,
) -> Counter {
    Counter { name, label, unit, help, depth, loss: false, of }
}

const fn lost(counter: Counter) -> Counter {
    Counter { loss: true, ..counter }
}

/// The counters of packets.
static PACKETS: &[Counter] = &[
    row(0, ("offered", "packets"), "offered", "Packets that the source offered.", |s| {
        s.ledger.capture.offered
    }),
    lost(row(
        1,
        ("dropped", "packets"),
        "dropped by the kernel",
        "Packets that the kernel dropped because the ring was full.",
        |s| s.ledger.capture.dropped,
    )),
    row(1, ("caught", "packets"), "caught", "Packets read from a file or taken from a ring.", |s| {
        s.ledger.caught
    }),
    row(2, ("filtered", "packets"), "not matched", "Packets that the run's expression did not match.", |s| {
        s.ledger.filtered
    }),
    row(2, ("analysed", "packets"), "analysed", "Packets passed to functions and flows.", |s| {
        s.ledger.analysed
    }),
    row(3, ("flowed", "packets"), "in flows", "Analysed packets that belong to a flow.", |s| s.ledger.flowed),
    row(
        3,
        ("unflowed", "packets"),
        "outside flows",
        "Analysed packets without a flow: not IP, or truncated before the addresses.",
        |s| s.ledger.unflowed,
    ),
    lost(row(
        0,
        ("interface_dropped", "packets"),
        "dropped by the interface",
        "Packets that the interface dropped before the kernel received them, where its driver counts them.",
        |s| s.ledger.capture.interface_dropped,
    )),
    row(
        0,
        ("outside", "packets"),
        "outside of the time range",
        "Packets of captures outside of --since and --until; they are not offered.",
        |s| s.ledger.capture.outside,
    ),
    row(0, ("bytes", "bytes"), "bytes on the wire", "Bytes on the wire of all packets caught.", |s| {
        s.ledger.bytes
    }),
    row(1, ("captured_bytes", "bytes"), "captured", "Captured bytes of all packets caught.", |s| {
        s.ledger.captured_bytes
    }),
    row(
        0,
        ("decode_errors", "packets"),
        "decode errors",
        "Analysed packets whose decoding stopped early. Layers before the error are used.",
        |s| s.ledger.errors.total(),
    ),
    row(
        0,
        ("checksums_verified", "packets"),
        "checksums verified",
        "Analysed packets with a checksum that was verified.",
        |s| s.ledger.checksums_verified,
    ),
    row(
        1,
        ("checksums_bad", "packets"),
        "wrong",
        "Packets with a wrong network or transport checksum.",
        |s| s.ledger.checksums_bad,
    ),
    row(
        1,
        ("checksums_offloaded", "packets"),
        "offloaded",
        "Packets whose transport checksum was left to the sender's network card.",
        |s| s.ledger.checksums_offloaded,
    ),
    row(
        0,
        ("time_jumps", "packets"),
        "time jumps",
        "Packets of captures that are more than a second older, or more than a day newer, than the packet before them.",
        |s| s.ledger.time_jumps,
    ),
    row(
        0,
        ("late", "packets"),
        "counted in another interval",
        "Packets counted in another interval than the one of their time, because times went back too often.",
        |s| s.ledger.late,
    ),
    lost(row(
        0,
        ("rows_shed", "rows"),
        "log rows shed",
        "Flow and record rows shed because outputs were too slow.",
        |s| s.ledger.rows_shed,
    )),
    row(
        0,
        ("ticks_joined", "ticks"),
        "ticks joined",
        "Ticks of a worker that were added to its next tick because the collector was too slow. No packet is lost.",
        |s| s.ledger.ticks_joined,
    ),
    lost(row(
        0,
        ("packets_unwritten", "packets"),
        "packets not written",
        "Matching packets that were not written because the packet file was too slow.",
        |s| s.ledger.packets_unwritten,
    )),
];

/// The counters of the flow table.
static FLOWS: &[Counter] = &[
    row(0, ("flows_created", "flows"), "flows", "Flows that began.", |s| s.flows.created),
    row(1, ("flows_ended", "flows"), "ended", "Flows that ended, for any reason.", |s| s.flows.ended),
    lost(row(
        2,
        ("flows_evicted", "flows"),
        "evicted: table full",
        "Flows evicted before their end because the table was full.",
        |s| s.flows.evicted,
    )),
    row(
        0,
        ("flows_followed", "flows"),
        "late segments of closed connections",
        "Flows that began with late segments of a closed connection, to which their packets and bytes are added.",
        |s| s.flows.followed,
    ),
    lost(row(
        0,
        ("flows_closed_shed", "connections"),
        "closed connections forgotten",
        "Closed connections that were forgotten within a minute, because too many had closed: late segments of them count as new flows.",
        |s| s.flows.closed_shed,
    )),
    row(
        0,
        ("fragments_joined", "packets"),
        "fragments joined to their flow",
        "IP fragments counted to the flow of their packet's first fragment.",
        |s| s.flows.fragments_joined,
    ),
    row(
        0,
        ("fragments_unmatched", "packets"),
        "fragments without the first",
        "IP fragments whose first fragment was not seen in time: counted to a flow without ports.",
        |s| s.flows.fragments_unmatched,
    ),
    lost(row(
        0,
        ("fragments_forgotten", "datagrams"),
        "fragmented packets forgotten",
        "Fragmented packets forgotten because the fragment table was full.",
        |s| s.flows.fragments_shed,
    )),
    lost(row(
        0,
        ("holes_shed", "streams"),
        "streams with untracked gaps",
        "TCP streams whose gaps were not tracked because there were too many.",
        |s| s.flows.holes_shed,
    )),
];

/// The counters of events.
static EVENTS: &[Counter] = &[
    row(0, ("events", "events"), "events", "Events that began.", |s| s.event_count.begun),
    row(
        1,
        ("events_ended", "events"),
        "ended",
        "Events that ended: nothing was found for some time, or the cause or the run has ended.",
        |s| s.event_count.ended,
    ),
    row(
        1,
        ("events_muted", "events"),
        "muted",
        "Events that a mute hid from logs, servers of events, triggers and findings; the store has them.",
        |s| s.event_count.muted,
    ),
    row(
        0,
        ("events_merged", "findings"),
        "findings added to open events",
        "Findings of an interval that were added to an event that was open already.",
        |s| s.event_count.merged,
    ),
    lost(row(
        0,
        ("events_shed", "findings"),
        "findings without an event",
        "Findings that belong to no event, because the maximum number of events was open.",
        |s| s.event_count.shed,
    )),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CaptureCount, EventCount, FlowCount, Ledger};
    use std::collections::BTreeSet;

    #[test]
    fn names_are_unique_well_formed_and_have_help() {
        let mut names = BTreeSet::new();
        let mut depth = 0;
        for counter in counters() {
            assert!(counter.name.chars().all(|c| c.is_ascii_lowercase() || c == '_'), "{}", counter.name);
            assert!(names.insert(counter.name), "{} twice", counter.name);
            assert!(counter.help.trim().ends_with('.'), "{}: {:?}", counter.name, counter.help);
            assert!(!counter.label.is_empty() && !counter.unit.is_empty(), "{}", counter.name);
            assert!(counter.depth <= depth + 1, "{} has no parent", counter.name);
            depth = counter.depth;
        }
        assert!(names.len() > 50);
    }

    /// Gives every field a different value and finds each value in a row.
    #[test]
    fn every_count_has_a_row() {
        let mut next = 0;
        let mut count = || {
            next += 1;
            next
        };
        let mut ledger = Ledger {
            capture: CaptureCount {
                offered: count(),
                dropped: count(),
                interface_dropped: count(),
                outside: count(),
            },
            caught: count(),
            bytes: count(),
            captured_bytes: count(),
            filtered: count(),
            analysed: count(),
            flowed: count(),
            unflowed: count(),
            errors: Default::default(),
            checksums_verified: count(),
            checksums_bad: count(),
            checksums_offloaded: count(),
            time_jumps: count(),
            late: count(),
            rows_shed: count(),
            ticks_joined: count(),
            packets_unwritten: count(),
        };
        ledger.errors.0[1][2] = count();
        let flows = FlowCount {
            created: count(),
            ended: count(),
            followed: count(),
            closed_shed: count(),
            evicted: count(),
            fragments_joined: count(),
            fragments_unmatched: count(),
            fragments_shed: count(),
            holes_shed: count(),
        };
        let event_count =
            EventCount { begun: count(), merged: count(), ended: count(), muted: count(), shed: count() };
        let last = count();
        let snapshot = Snapshot { ledger, flows, event_count, ..Snapshot::default() };
        let mut found: Vec<u64> =
            counters().map(|counter| (counter.of)(&snapshot)).filter(|n| *n > 0).collect();
        found.sort_unstable();
        assert_eq!(found, (1..last).collect::<Vec<_>>());
    }
}
