//! One row for each thing that is counted: metrics, series, the interface and the manual read it.

use crate::{SessionCount, Snapshot};

/// Something that is counted of packets, flows and what is said in them. It only grows while a run lasts.
#[derive(Clone, Copy, Debug)]
pub struct Counter {
    /// Its name in metrics, series and addresses: letters and underscores.
    pub name: &'static str,
    /// What people read where it stands below the one whose part it is.
    pub label: &'static str,
    /// What is counted, in the plural: `packets`, `bytes`.
    pub unit: &'static str,
    /// What it means.
    pub help: &'static str,
    /// How deep it is in what stands above it: it is a part of the nearest row above that is less deep.
    pub depth: usize,
    /// Whether each of it is something that should have been seen or written and was not.
    pub loss: bool,
    /// Its value in an interval.
    pub of: fn(&Snapshot) -> u64,
}

/// Every counter, in the order in which they are read: a part stands below its whole.
pub fn counters() -> impl Iterator<Item = &'static Counter> {
    PACKETS.iter().chain(FLOWS).chain(SessionCount::COUNTERS)
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

/// What became of each packet.
static PACKETS: &[Counter] = &[
    row(0, ("offered", "packets"), "offered", "Packets that the source had for us.", |s| {
        s.ledger.capture.offered
    }),
    lost(row(
        1,
        ("dropped", "packets"),
        "dropped",
        "Packets that the kernel dropped: the ring was full.",
        |s| s.ledger.capture.dropped,
    )),
    row(1, ("caught", "packets"), "caught", "Packets read from a file or taken from a ring.", |s| {
        s.ledger.caught
    }),
    row(2, ("filtered", "packets"), "not matched", "Packets that the run's expression did not match.", |s| {
        s.ledger.filtered
    }),
    row(2, ("analysed", "packets"), "analysed", "Packets put through functions and flows.", |s| {
        s.ledger.analysed
    }),
    row(3, ("flowed", "packets"), "in flows", "Analysed packets that are part of a flow.", |s| {
        s.ledger.flowed
    }),
    row(
        3,
        ("unflowed", "packets"),
        "in no flow",
        "Analysed packets that are part of none: not IP, or broken before the addresses.",
        |s| s.ledger.unflowed,
    ),
    lost(row(
        0,
        ("interface_dropped", "packets"),
        "dropped by the interface",
        "Packets that the interface dropped before the kernel saw them, where it says so.",
        |s| s.ledger.capture.interface_dropped,
    )),
    row(0, ("bytes", "bytes"), "on the wire", "Bytes on the wire of packets that were caught.", |s| {
        s.ledger.bytes
    }),
    row(1, ("captured_bytes", "bytes"), "captured", "Bytes of them that were captured.", |s| {
        s.ledger.captured_bytes
    }),
    row(
        0,
        ("decode_errors", "packets"),
        "broken",
        "Analysed packets whose decoding stopped early; their good layers were used.",
        |s| s.ledger.errors.total(),
    ),
    row(
        0,
        ("checksums_verified", "packets"),
        "checksums looked at",
        "Analysed packets with a checksum that was looked at.",
        |s| s.ledger.checksums_verified,
    ),
    row(
        1,
        ("checksums_bad", "packets"),
        "wrong",
        "Those whose network or transport checksum was wrong.",
        |s| s.ledger.checksums_bad,
    ),
    row(
        1,
        ("checksums_pending", "packets"),
        "left to the card",
        "Those whose transport checksum was left to the sender's network card.",
        |s| s.ledger.checksums_offloaded,
    ),
    row(
        0,
        ("time_jumps", "packets"),
        "out of time",
        "Packets older than one before them by more than the time guard allows.",
        |s| s.ledger.time_jumps,
    ),
    lost(row(
        0,
        ("rows_shed", "rows"),
        "rows not written",
        "Rows of flows and records that the outputs were too slow to take.",
        |s| s.ledger.rows_shed,
    )),
    lost(row(
        0,
        ("packets_unwritten", "packets"),
        "packets not written",
        "Packets that match which the packet file was too slow to take.",
        |s| s.ledger.packets_unwritten,
    )),
];

/// What the flow table did.
static FLOWS: &[Counter] = &[
    row(0, ("flows_created", "flows"), "flows", "Flows that began.", |s| s.flows.created),
    row(1, ("flows_ended", "flows"), "ended", "Flows that ended, for whatever reason.", |s| s.flows.ended),
    lost(row(
        2,
        ("flows_evicted", "flows"),
        "early: the table was full",
        "Flows that had to go before their end because the table was full.",
        |s| s.flows.evicted,
    )),
    row(
        0,
        ("fragments_joined", "packets"),
        "fragments of known flows",
        "IP fragments counted to the flow of the first one of their packet.",
        |s| s.flows.fragments_joined,
    ),
    row(
        0,
        ("fragments_unmatched", "packets"),
        "fragments of unknown flows",
        "IP fragments whose first one was not seen in time: counted to a flow without ports.",
        |s| s.flows.fragments_unmatched,
    ),
    lost(row(
        0,
        ("fragments_forgotten", "datagrams"),
        "fragmented packets forgotten",
        "Fragmented packets that had to be forgotten because there were too many.",
        |s| s.flows.fragments_shed,
    )),
    lost(row(
        0,
        ("holes_shed", "streams"),
        "streams not followed",
        "TCP streams whose gaps could not be followed because there were too many.",
        |s| s.flows.holes_shed,
    )),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CaptureCount, FlowCount, Ledger};
    use std::collections::BTreeSet;

    #[test]
    fn names_are_unique_and_plain_and_explained() {
        let mut names = BTreeSet::new();
        let mut depth = 0;
        for counter in counters() {
            assert!(counter.name.chars().all(|c| c.is_ascii_lowercase() || c == '_'), "{}", counter.name);
            assert!(names.insert(counter.name), "{} twice", counter.name);
            assert!(counter.help.trim().ends_with('.'), "{}: {:?}", counter.name, counter.help);
            assert!(!counter.label.is_empty() && !counter.unit.is_empty(), "{}", counter.name);
            assert!(counter.depth <= depth + 1, "{} is a part of nothing", counter.name);
            depth = counter.depth;
        }
        assert!(names.len() > 50);
    }

    /// Each field has another value, and each of these is found in a row.
    #[test]
    fn nothing_is_counted_without_a_row() {
        let mut next = 0;
        let mut count = || {
            next += 1;
            next
        };
        let mut ledger = Ledger {
            capture: CaptureCount { offered: count(), dropped: count(), interface_dropped: count() },
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
            rows_shed: count(),
            packets_unwritten: count(),
        };
        ledger.errors.0[1][2] = count();
        let flows = FlowCount {
            created: count(),
            ended: count(),
            evicted: count(),
            fragments_joined: count(),
            fragments_unmatched: count(),
            fragments_shed: count(),
            holes_shed: count(),
            states: Default::default(),
        };
        let last = count();
        let snapshot = Snapshot { ledger, flows, ..Snapshot::default() };
        let mut found: Vec<u64> =
            counters().map(|counter| (counter.of)(&snapshot)).filter(|n| *n > 0).collect();
        found.sort_unstable();
        assert_eq!(found, (1..last).collect::<Vec<_>>());
    }
}
