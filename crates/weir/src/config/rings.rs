//! The memory of the packets that are kept for triggers, and how far back their files over links can begin.

use super::fault::Fault;
use super::read::{ConfigReader, Key};
use super::{Config, Setting};
use crate::database;
use crate::memory::prerolls;
use crate::triggers::{held, snaplen_of};
use std::path::Path;
use toml::de::DeTable;
use weir_output::figures::{bit_rate, bytes, duration, packet_rate};
use weir_store::{Steps, StoreError, TimeRange};

/// Least bytes that may be set.
const LEAST: u64 = 1 << 20;

pub(super) const MEMORY: Key<Config> = Key {
    name: "trigger_memory",
    takes: "an amount from \"1M\" to half of memory, such as \"128M\"",
    read: |r, node, config| {
        let bytes = r.parsed(node, |text| match crate::cli::bytes(text)? {
            bytes if bytes < LEAST => Err(format!("{text:?} is less than 1M")),
            bytes => Ok(Some(bytes)),
        });
        r.set(node, bytes, &mut config.trigger_memory);
    },
};

/// Checks that it leaves enough of the memory of the run, wherever in the file that is set.
pub(super) fn check(r: &mut ConfigReader<'_>, table: &DeTable<'_>, config: &Config) {
    let (Some(node), Setting { value: Some(set), .. }) = (table.get(MEMORY.name), &config.trigger_memory)
    else {
        return;
    };
    let (set, memory) = (*set, config.memory.value);
    if set > memory / 2 {
        let [set, memory] = [set, memory].map(|bytes| crate::memory::bytes(bytes as usize));
        let fault = Fault::new(node.span(), format!("{set} is more than half of memory, which is {memory}"));
        r.faults.push(fault.accepts(MEMORY.takes));
    }
}

const HOUR: u64 = 3_600_000_000_000;
/// A full link of 1 Gbit/s, with 800 bytes in a packet of a common mix.
const FULL: Rate = Rate { packets: 1e9 / 8.0 / 800.0, bits: 1e9 };

/// Packets and bits per second.
#[derive(Clone, Copy)]
struct Rate {
    packets: f64,
    bits: f64,
}

/// What the packets that are kept for triggers reach, a line; empty without triggers over links.
pub(super) fn note(config: &Config) -> String {
    if config.triggers.is_empty() || config.interfaces.value.is_empty() {
        return String::new();
    }
    let size = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
    let memory = config.trigger_memory.value.map_or_else(|| prerolls(size(config.memory.value)), size);
    let snaplen = snaplen_of(&config.triggers);
    let time = |rate: Rate| {
        let seconds = held(memory, rate.packets, rate.bits / 8.0, snaplen);
        // No duration is longer than what a number of nanoseconds can say.
        duration((seconds * 1e9) as u64)
    };
    let last = config.store.dir.value.as_deref().and_then(|folder| of_last_hour(folder).ok().flatten());
    let last = last.map(|rate| {
        let (packets, bits) = (packet_rate(rate.packets), bit_rate(rate.bits));
        format!(", and {} at the rate of the last hour of the store ({packets}, {bits})", time(rate))
    });
    format!(
        "triggers keep at most {} of packets: {} of a full link of 1 Gbit/s{}\n",
        bytes(memory as u64),
        time(FULL),
        last.unwrap_or_default()
    )
}

/// The rate of the last hour of a store; `None` if nothing was watched in it.
fn of_last_hour(folder: &Path) -> Result<Option<Rate>, StoreError> {
    let store = database::read(folder, None)?;
    let Some((_, end)) = store.extent()? else { return Ok(None) };
    let span = TimeRange { from: Some(end.saturating_sub(HOUR)), to: Some(end) };
    let ids = ["ledger/caught", "ledger/bytes"].map(str::to_owned);
    let data = store.kept_points(&ids, span, Steps::About(60))?;
    let watched: f64 = data.widths.iter().sum();
    let mean = |id: &str| {
        let points = data.series.iter().find(|points| points.id == id)?;
        let values = points.avg.iter().zip(&data.widths);
        let sum: f64 = values.map(|(value, width)| value.unwrap_or_default() * width).sum();
        (watched > 0.0).then_some(sum / watched)
    };
    Ok(mean("ledger/caught").zip(mean("ledger/bytes")).map(|(packets, bits)| Rate { packets, bits }))
}
