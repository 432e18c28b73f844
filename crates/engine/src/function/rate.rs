//! Packets and octets by time.

use super::{Feed, Function, FunctionSpec, Pass};
use crate::Item;
use weir_api::{Count, Level, Reading, Series};

pub(super) static RATE: FunctionSpec = FunctionSpec {
    name: "rate",
    help: "Packets and octets in up to 256 cells of equal duration, from one millisecond on.",
    arguments: &[],
    levels: &[Level::Packet],
    feed: Feed::Lengths,
    build: |_| Ok(Box::new(Rate { series: Series::new(STEP), from: 1, to: 0, pending: Count::default() })),
};

/// The shortest cell: one millisecond.
const STEP: u64 = 1_000_000;

/// Most packets fall into the cell of the one before: they are added up beside the series, between `from` and
/// `to` (nanoseconds, both included).
struct Rate {
    series: Series,
    from: u64,
    to: u64,
    pending: Count,
}

impl Rate {
    fn settle(&mut self) {
        if self.pending.packets > 0 {
            self.series.add(self.from, &std::mem::take(&mut self.pending));
        }
    }
}

impl Function for Rate {
    fn item(&mut self, item: &Item<'_>) -> Pass {
        if let Item::Packet(packet, _) = item {
            let time = packet.time.0;
            if time < self.from || time > self.to {
                self.settle();
                self.from = time / self.series.step * self.series.step;
                self.to = self.from.saturating_add(self.series.step - 1);
            }
            self.pending.add(&item.count());
        }
        Pass::Keep
    }

    fn take(&mut self) -> Reading {
        self.settle();
        (self.from, self.to) = (1, 0);
        Reading::Series(std::mem::replace(&mut self.series, Series::new(STEP)))
    }
}
