//! How far back the files of triggers over links can begin.

use super::Config;
use crate::database;
use crate::memory::prerolls;
use crate::triggers::{held, snaplen_of};
use std::path::Path;
use weir_output::figures::{bit_rate, bytes, duration, packet_rate};
use weir_store::{Steps, StoreError, TimeRange};

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
    let memory = prerolls(usize::try_from(config.memory.value).unwrap_or(usize::MAX));
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
