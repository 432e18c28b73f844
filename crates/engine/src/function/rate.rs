//! Packets and bytes by time.

use super::block::{Block, each};
use super::{Function, FunctionSpec, InputKind, Memory};
use crate::Item;
use weir_api::{Count, Level, Reading, Series};
use weir_filter::PacketMask;

pub(super) static RATE: FunctionSpec = FunctionSpec {
    name: "rate",
    help: "Packets and bytes by time, in up to 256 cells of equal length, at least one millisecond.",
    arguments: &[],
    levels: &[Level::Packet],
    input: InputKind::Lengths,
    memory: |_| Ok(Memory { state: 512 + CELLS, reading: CELLS }),
    judge: None,
    delivers: None,
    identifies: false,
    build: |_| Ok(Box::new(Rate { series: Series::new(STEP), from: 1, to: 0, pending: Count::default() })),
};

/// Bytes of a series: a list can have room for twice its cells.
const CELLS: usize = 2 * Series::MAX_CELLS * size_of::<Count>();
/// The shortest cell: one millisecond.
const STEP: u64 = 1_000_000;

/// Packets and bytes by time. Most packets fall into the cell of the packet before: they are summed outside the
/// series, between `from` and `to` (nanoseconds, both inclusive).
struct Rate {
    series: Series,
    from: u64,
    to: u64,
    pending: Count,
}

impl Rate {
    #[inline]
    fn add(&mut self, time: u64, wire_len: u32) {
        if time < self.from || time > self.to {
            self.turn(time);
        }
        self.pending.packets += 1;
        self.pending.bytes += u64::from(wire_len);
    }

    /// Moves on to the cell of another time.
    #[inline(never)]
    fn turn(&mut self, time: u64) {
        self.settle();
        self.from = time / self.series.step * self.series.step;
        self.to = self.from.saturating_add(self.series.step - 1);
    }

    fn settle(&mut self) {
        if self.pending.packets > 0 {
            self.series.add(self.from, &std::mem::take(&mut self.pending));
        }
    }
}

impl Function for Rate {
    fn item(&mut self, item: &Item<'_>) {
        if let Item::Packet(packet, _) = item {
            self.add(packet.time.0, packet.wire_len);
        }
    }

    fn block(&mut self, block: &Block<'_>, mask: &PacketMask) {
        // Other items have no time.
        if let Block::Packets(batch, _) = block {
            each(batch.slots, mask, |_, slot| self.add(slot.time.0, slot.wire_len));
        }
    }

    fn held(&self) -> usize {
        self.series.cells.capacity() * size_of::<Count>()
    }

    fn take(&mut self) -> Reading {
        self.settle();
        (self.from, self.to) = (1, 0);
        Reading::Series(std::mem::replace(&mut self.series, Series::new(STEP)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::function::block::first;
    use weir_api::FunctionCall;
    use weir_wire::{Batch, Layers, Slot, Time};

    #[test]
    fn packets_added_together_equal_packets_added_one_by_one() {
        let times = [5, 6, 999_999, 1_000_000, 3, 7_000_000, 7_000_001, 90_000_000_000, 7_000_002];
        let slots: Vec<Slot> = (1..)
            .zip(times)
            .map(|(wire_len, time)| Slot { time: Time(time), wire_len, ..Slot::default() })
            .collect();
        let make = || RATE.call(&FunctionCall::new("rate"), 1_u64).unwrap();
        let (mut together, mut single) = (make(), make());
        let batch = Batch { bytes: &[], slots: &slots };
        together.block(&Block::Packets(batch, &[]), &first(slots.len()));
        for packet in batch.packets() {
            single.item(&Item::Packet(&packet, &Layers::default()));
        }
        let reading = together.take();
        assert_eq!(reading, single.take());
        assert_ne!(reading, make().take());
    }
}
