//! What is counted of each destination of a run: logs, packet files and directories, of subscriptions and options.
//!
//! Workers and writers count in place, and readers add nothing up: a destination has one row for the whole run, also where its
//! subscription was removed and added again.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use weir_api::web::DestinationRow;
use weir_output::figures::printable;

/// Number of destinations beyond which those that are not in use any more are forgotten.
const REMEMBERED: usize = 10_000;

/// The counts of a destination.
#[derive(Debug, Default)]
pub struct Delivered {
    offered: AtomicU64,
    written: AtomicU64,
    shed: AtomicU64,
    lost: AtomicU64,
    limited: AtomicU64,
    missing: AtomicU64,
    bytes: AtomicU64,
}

/// The counts of a destination at one time. What was offered is written, shed, lost, limited or on its way.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct DeliveredCount {
    /// Packets, rows or files that functions delivered.
    pub offered: u64,
    /// Those that were written.
    pub written: u64,
    /// Those for which the queue to the writer had no room.
    pub shed: u64,
    /// Those that the writer could not write.
    pub lost: u64,
    /// Files of which nothing was kept because a limit was reached.
    pub limited: u64,
    /// Packets of flows before a decision that were held no more when it was made, and so were never offered.
    pub missing: u64,
    /// Bytes of the packets that were given to the writer, without those that a snaplen cut off; of files those that were kept.
    pub bytes: u64,
}

fn add(count: &AtomicU64, number: u64) {
    count.fetch_add(number, Ordering::Relaxed);
}

impl Delivered {
    /// Counts what functions delivered.
    pub fn offer(&self, number: u64) {
        add(&self.offered, number);
    }

    /// Counts what found no room on the way to the writer.
    pub fn shed(&self, number: u64) {
        add(&self.shed, number);
    }

    /// Counts files of which nothing was kept because a limit was reached.
    pub fn limit(&self, number: u64) {
        add(&self.limited, number);
    }

    /// Counts packets that are held no more.
    pub fn miss(&self, number: u64) {
        add(&self.missing, number);
    }

    /// Counts what was written. What was counted as written and is lost after all is taken back by a number that wraps around.
    pub fn write(&self, number: u64, bytes: u64) {
        add(&self.written, number);
        add(&self.bytes, bytes);
    }

    /// Counts what could not be written.
    pub fn lose(&self, number: u64) {
        add(&self.lost, number);
    }

    /// Takes the counts of a destination that has taken its place.
    pub fn replace(&self, other: &Self) {
        let set = |count: &AtomicU64, number: u64| count.store(number, Ordering::Relaxed);
        let DeliveredCount { offered, written, shed, lost, limited, missing, bytes } = other.count();
        set(&self.offered, offered);
        set(&self.written, written);
        set(&self.shed, shed);
        set(&self.lost, lost);
        set(&self.limited, limited);
        set(&self.missing, missing);
        set(&self.bytes, bytes);
    }

    /// The counts so far.
    pub fn count(&self) -> DeliveredCount {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        DeliveredCount {
            offered: of(&self.offered),
            written: of(&self.written),
            shed: of(&self.shed),
            lost: of(&self.lost),
            limited: of(&self.limited),
            missing: of(&self.missing),
            bytes: of(&self.bytes),
        }
    }
}

/// The kind of a destination.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum DestinationKind {
    /// A packet file.
    Packets,
    /// A directory of files of a subscription.
    Files,
    /// A log of a subscription.
    Log,
    /// A log of the whole run, the store or syslog.
    OfRun,
}

impl DestinationKind {
    /// The unit of what is delivered, in the plural.
    pub fn unit(self) -> &'static str {
        match self {
            Self::Packets => "packets",
            Self::Files => "files",
            Self::Log | Self::OfRun => "rows",
        }
    }
}

impl DeliveredCount {
    fn add(&mut self, other: &Self) {
        self.offered += other.offered;
        self.written += other.written;
        self.shed += other.shed;
        self.lost += other.lost;
        self.limited += other.limited;
        self.missing += other.missing;
        self.bytes += other.bytes;
    }
}

/// A count by its name in metrics, with its meaning.
type Column = (&'static str, &'static str, fn(&DeliveredCount) -> u64);

const COLUMNS: [Column; 7] = [
    ("offered", "Packets, rows or files that subscriptions and options delivered.", |of| of.offered),
    ("written", "Those that were written.", |of| of.written),
    ("shed", "Those for which the queue to the writer had no room.", |of| of.shed),
    ("lost", "Those that the writer could not write.", |of| of.lost),
    ("limited", "Files of which nothing was kept because a limit was reached.", |of| of.limited),
    ("missing", "Packets before a decision that were held no more.", |of| of.missing),
    ("bytes", "Bytes of the packets and files that were written.", |of| of.bytes),
];

/// A destination of a run at one time.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Row {
    /// What it is.
    pub kind: DestinationKind,
    /// The name of its file.
    pub name: String,
    /// Its counts.
    pub count: DeliveredCount,
}

/// The destinations of a run, by kind and name. All clones share them.
#[derive(Clone, Debug, Default)]
pub struct Destinations(Arc<Mutex<ByName>>);

type ByName = BTreeMap<(DestinationKind, String), Arc<Delivered>>;

impl Destinations {
    /// The counts of a destination, which go on where a run has had it before.
    pub fn of(&self, kind: DestinationKind, name: &str) -> Arc<Delivered> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= REMEMBERED {
            all.retain(|_, delivered| Arc::strong_count(delivered) > 1);
        }
        Arc::clone(all.entry((kind, name.to_owned())).or_default())
    }

    /// The counts of all destinations by the names of their files without directories, which clients do not see, and units.
    fn by_file(&self) -> BTreeMap<(String, &'static str), DeliveredCount> {
        let mut rows: BTreeMap<(String, &str), DeliveredCount> = BTreeMap::new();
        for Row { kind, name, count } in self.counts() {
            let file = Path::new(&name).file_name().unwrap_or_default().to_string_lossy();
            rows.entry((file.into_owned(), kind.unit())).or_default().add(&count);
        }
        rows
    }

    /// The rows of all destinations for clients.
    pub fn rows(&self) -> Vec<DestinationRow> {
        let row = |((name, unit), count): ((String, &str), DeliveredCount)| DestinationRow {
            name: printable(&name),
            unit: unit.to_owned(),
            offered: count.offered,
            written: count.written,
            shed: count.shed,
            lost: count.lost,
            limited: count.limited,
            missing: count.missing,
            bytes: count.bytes,
        };
        self.by_file().into_iter().map(row).collect()
    }

    /// The counts of all destinations as OpenMetrics text. Names are those of files without their directories.
    pub fn metrics(&self) -> String {
        let escaped = |file: &str| file.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        let rows: Vec<_> =
            self.by_file().into_iter().map(|((file, unit), count)| ((escaped(&file), unit), count)).collect();
        let mut text = String::new();
        for (name, help, of) in COLUMNS.iter().filter(|_| !rows.is_empty()) {
            let _ =
                writeln!(text, "# HELP weir_delivered_{name} {help}\n# TYPE weir_delivered_{name} counter");
            for ((file, unit), count) in &rows {
                let value = of(count);
                let _ =
                    writeln!(text, "weir_delivered_{name}_total{{to=\"{file}\",unit=\"{unit}\"}} {value}");
            }
        }
        text
    }

    /// The counts of all destinations so far, ordered by kind and name.
    pub fn counts(&self) -> Vec<Row> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let row = |((kind, name), delivered): (&(DestinationKind, String), &Arc<Delivered>)| Row {
            kind: *kind,
            name: name.clone(),
            count: delivered.count(),
        };
        all.iter().map(row).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_destination_has_one_row_and_those_that_are_used_are_kept() {
        let destinations = Destinations::default();
        let used = destinations.of(DestinationKind::Packets, "used.pcap");
        used.offer(6);
        used.limit(1);
        used.write(3, 300);
        used.shed(1);
        used.lose(1);
        used.miss(7);
        destinations.of(DestinationKind::Log, "used.pcap").offer(2);
        destinations.of(DestinationKind::Packets, "used.pcap").offer(1);
        let expected =
            DeliveredCount { offered: 7, written: 3, shed: 1, lost: 1, limited: 1, missing: 7, bytes: 300 };
        let counts = destinations.counts();
        let name = "used.pcap".to_owned();
        assert_eq!(counts[0], Row { kind: DestinationKind::Packets, name, count: expected });
        assert_eq!((counts.len(), counts[1].count.offered), (2, 2));
        destinations.of(DestinationKind::Packets, "/home/ann/a \"b\".pcap").offer(9);
        let text = destinations.metrics();
        assert!(
            text.contains("weir_delivered_offered_total{to=\"used.pcap\",unit=\"packets\"} 7\n"),
            "{text}"
        );
        assert!(
            text.contains("weir_delivered_offered_total{to=\"a \\\"b\\\".pcap\",unit=\"packets\"} 9\n"),
            "{text}"
        );
        assert!(!text.contains("ann"), "{text}");
        (0..2 * REMEMBERED).for_each(|n| drop(destinations.of(DestinationKind::Log, &n.to_string())));
        let counts = destinations.counts();
        assert!(counts.len() <= REMEMBERED && counts[0].count == expected);
    }
}
