//! The table `[store]`: folder, size and retention of the store.

use super::Setting;
use super::fault::Fault;
use super::read::{ConfigReader, Key, Node};
use crate::asked::Question;
use std::path::PathBuf;
use toml::de::DeTable;
use weir_api::{Net, NetError};
use weir_store::{Keep, LISTS, SERIES, Tier};

/// The settings of the store in a file.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct StoreSettings {
    /// Folder; without one `weir serve` uses a temporary folder.
    pub dir: Setting<Option<PathBuf>>,
    /// Retention of flows and records, in nanoseconds.
    pub age: Setting<u64>,
    /// Maximum size of the store, in bytes.
    pub size: Setting<u64>,
    /// Bytes to leave free on the disk.
    pub free: Setting<u64>,
    /// Retention of each tier of series, in nanoseconds.
    pub series: [Setting<u64>; SERIES.len()],
    /// Retention of each tier of lists, in nanoseconds.
    pub lists: [Setting<u64>; LISTS.len()],
    /// What is asked of the store when an hour has ended.
    pub findings: Setting<Vec<Question>>,
    /// Networks whose flows are no beacons.
    pub beacon_allow: Setting<Vec<Net>>,
}

impl Default for StoreSettings {
    fn default() -> Self {
        let keep = Keep::default();
        Self {
            dir: Setting::default(),
            age: Setting::default_of(keep.age),
            size: Setting::default_of(keep.bytes),
            free: Setting::default_of(keep.free),
            series: keep.series.map(Setting::default_of),
            lists: keep.lists.map(Setting::default_of),
            findings: Setting::default(),
            beacon_allow: Setting::default(),
        }
    }
}

impl StoreSettings {
    /// The limits.
    pub fn keep(&self) -> Keep {
        Keep {
            age: self.age.value,
            bytes: self.size.value,
            free: self.free.value,
            series: self.series.each_ref().map(|setting| setting.value),
            lists: self.lists.each_ref().map(|setting| setting.value),
        }
    }
}

/// Full keys of the tiers of series, in the order of the tiers.
pub(super) const SERIES_KEYS: [&str; SERIES.len()] =
    ["store.series.interval", "store.series.5m", "store.series.1h", "store.series.1d"];
/// Full keys of the tiers of lists, in the order of the tiers.
pub(super) const LISTS_KEYS: [&str; LISTS.len()] =
    ["store.lists.interval", "store.lists.1h", "store.lists.1d", "store.lists.1w", "store.lists.1mo"];

const TIME: &str = "a duration, such as \"2d\" or \"366d\"";
const SIZE: &str = "an amount, such as \"10G\"";

pub(super) static KEYS: [Key<StoreSettings>; 8] = [
    Key {
        name: "dir",
        takes: "a directory, such as \"/var/lib/weir\"",
        read: |r, node, store| r.set_path(node, &mut store.dir),
    },
    Key { name: "age", takes: TIME, read: |r, node, store| time(r, node, &mut store.age) },
    Key { name: "size", takes: SIZE, read: |r, node, store| size(r, node, &mut store.size) },
    Key { name: "free", takes: SIZE, read: |r, node, store| size(r, node, &mut store.free) },
    Key {
        name: "series",
        takes: "a table of tiers, such as { 1h = \"366d\" }",
        read: |r, node, store| {
            if let Some(table) = r.table(node) {
                r.fill(table, &SERIES_TIERS, &mut store.series);
            }
        },
    },
    Key {
        name: "lists",
        takes: "a table of tiers, such as { 1d = \"731d\" }",
        read: |r, node, store| {
            if let Some(table) = r.table(node) {
                r.fill(table, &LISTS_TIERS, &mut store.lists);
            }
        },
    },
    Key {
        name: "findings",
        takes: "a list of \"beacons\", \"new\" and \"changes\", which are asked of the store when an hour has ended",
        read: |r, node, store| {
            let words = Question::ALL.map(|(word, _)| word);
            let mut asked = Vec::new();
            for element in r.array(node) {
                let word = r.word(element, &words);
                let question = Question::ALL.into_iter().find(|(known, _)| Some(*known) == word);
                asked.extend(question.map(|(_, question)| question));
            }
            asked.sort_unstable();
            asked.dedup();
            r.set(node, Some(asked), &mut store.findings);
        },
    },
    Key {
        name: "beacon_allow",
        takes: "a list of networks whose flows are no beacons, such as [\"192.0.2.0/24\", \"2001:db8::1\"]",
        read: |r, node, store| {
            let net = |text: &str| text.parse().map_err(|error: NetError| format!("{text:?} is {error}"));
            let nets = r.array(node).iter().filter_map(|element| r.parsed(element, net)).collect();
            r.set(node, Some(nets), &mut store.beacon_allow);
        },
    },
];

static SERIES_TIERS: [Key<[Setting<u64>; SERIES.len()]>; SERIES.len()] = [
    Key { name: SERIES[0].name, takes: TIME, read: |r, node, tiers| time(r, node, &mut tiers[0]) },
    Key { name: SERIES[1].name, takes: TIME, read: |r, node, tiers| time(r, node, &mut tiers[1]) },
    Key { name: SERIES[2].name, takes: TIME, read: |r, node, tiers| time(r, node, &mut tiers[2]) },
    Key { name: SERIES[3].name, takes: TIME, read: |r, node, tiers| time(r, node, &mut tiers[3]) },
];

static LISTS_TIERS: [Key<[Setting<u64>; LISTS.len()]>; LISTS.len()] = [
    Key { name: LISTS[0].name, takes: TIME, read: |r, node, tiers| time(r, node, &mut tiers[0]) },
    Key { name: LISTS[1].name, takes: TIME, read: |r, node, tiers| time(r, node, &mut tiers[1]) },
    Key { name: LISTS[2].name, takes: TIME, read: |r, node, tiers| time(r, node, &mut tiers[2]) },
    Key { name: LISTS[3].name, takes: TIME, read: |r, node, tiers| time(r, node, &mut tiers[3]) },
    Key { name: LISTS[4].name, takes: TIME, read: |r, node, tiers| time(r, node, &mut tiers[4]) },
];

fn time(r: &mut ConfigReader<'_>, node: &Node<'_>, to: &mut Setting<u64>) {
    let time = r.parsed(node, crate::cli::period);
    r.set(node, time, to);
}

fn size(r: &mut ConfigReader<'_>, node: &Node<'_>, to: &mut Setting<u64>) {
    let size = r.parsed(node, crate::cli::bytes);
    r.set(node, size, to);
}

/// A tier must keep at least one cell, and no less than the next finer tier, because queries go from coarse to fine.
pub(super) fn check(r: &mut ConfigReader<'_>, table: &DeTable<'_>, store: &StoreSettings) {
    check_tiers(r, table, "series", &SERIES, &store.series);
    check_tiers(r, table, "lists", &LISTS, &store.lists);
}

fn check_tiers(
    r: &mut ConfigReader<'_>,
    table: &DeTable<'_>,
    kind: &str,
    tiers: &[Tier],
    settings: &[Setting<u64>],
) {
    let Some(node) = table.get(kind) else { return };
    let mut finer: Option<(&Tier, u64)> = None;
    for (tier, setting) in tiers.iter().zip(settings) {
        let wrong = match finer {
            _ if setting.value < tier.cell.length() => {
                Some(format!("{kind}.{} keeps less than one of its cells", tier.name))
            }
            Some((before, keep)) if setting.value < keep => {
                Some(format!("{kind}.{} keeps less than {kind}.{}, which is finer", tier.name, before.name))
            }
            _ => None,
        };
        if let Some(message) = wrong {
            r.faults.push(Fault::new(node.span(), message));
        }
        finer = Some((tier, setting.value));
    }
}
