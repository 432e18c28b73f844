//! The latest packets of a worker of a live run, so that a file can begin before its event.

use super::TriggerSpec;
use super::orders::{LATE, Order, Orders, Shipment};
use crate::dump::memory;
use std::collections::VecDeque;
use std::sync::Arc;
use weir_wire::{Batch, Packet, PacketBuf, Slot, Time, decode};

/// Bytes of a chunk: the oldest packets leave a chunk at a time.
const CHUNK: usize = 256 << 10;

/// Bytes that the chunk that is being filled may take: its vectors grow by doubling.
const OPEN: usize = 2 * CHUNK;

/// Bytes of a packet that are kept for these triggers; 0 for all.
pub fn snaplen_of<'t>(triggers: impl IntoIterator<Item = &'t TriggerSpec>) -> u32 {
    let lengths = triggers.into_iter().map(|trigger| trigger.dump.snaplen);
    lengths.reduce(|one, other| if one == 0 || other == 0 { 0 } else { one.max(other) }).unwrap_or_default()
}

/// Bytes of memory for the queue to the writer, of those of all rings with it.
pub fn queued(memory: usize) -> usize {
    memory / 8
}

/// Least bytes of memory of all rings, with the queue to the writer, of which each worker keeps packets.
pub fn least(workers: usize) -> usize {
    // An eighth is for the queue.
    (workers.max(1) * 2 * OPEN).div_ceil(7) * 8
}

/// The share of its memory that a ring fills with packets, about: the vectors of a chunk grow by doubling.
const FILLED: f64 = 0.6;

/// Seconds of packets that fit into rings with this memory, at a rate in packets and bytes per second.
pub fn held(memory: usize, packets: f64, bytes: f64, snaplen: u32) -> f64 {
    let whole = if packets > 0.0 { bytes / packets } else { 0.0 };
    let kept = if snaplen > 0 { whole.min(snaplen.into()) } else { whole };
    FILLED * (memory - queued(memory)) as f64 / (packets * (kept + size_of::<Slot>() as f64)).max(1.0)
}

/// A ring of packets, bounded by bytes and by time.
pub struct Ring {
    /// Maximum bytes of memory.
    limit: usize,
    /// Nanoseconds of packets that are kept.
    span: u64,
    /// Bytes of a packet that are kept; 0 for all.
    snaplen: u32,
    /// Chunks, oldest first. Their memory is used again.
    chunks: VecDeque<PacketBuf>,
    /// Bytes of all chunks but the last.
    held: usize,
    /// The time from which on it has all packets: its beginning, until packets have left.
    complete_from: Option<Time>,
}

impl Ring {
    /// An empty ring.
    pub fn new(limit: usize, span: u64, snaplen: u32) -> Self {
        Self { limit, span, snaplen, chunks: VecDeque::new(), held: 0, complete_from: None }
    }

    /// Adds packets. One that is larger than a chunk is left out.
    pub fn push(&mut self, batch: Batch<'_>) {
        if self.limit < OPEN {
            return;
        }
        let length = if self.snaplen > 0 { self.snaplen as usize } else { usize::MAX };
        let mut chunk = self.chunks.pop_back().unwrap_or_default();
        let mut filled = chunk.bytes.len() + chunk.slots.len() * size_of::<Slot>();
        for packet in batch.packets() {
            let data = packet.data.get(..length).unwrap_or(packet.data);
            let needed = data.len() + size_of::<Slot>();
            if needed > CHUNK {
                continue;
            }
            if filled + needed > CHUNK {
                chunk = self.next_chunk(chunk, packet.time);
                filled = 0;
            }
            filled += needed;
            chunk.push(&Packet { data, ..packet });
        }
        self.chunks.push_back(chunk);
    }

    /// Takes a full chunk, and returns an empty one. Chunks of which all packets are too old leave, and so do the oldest ones
    /// without room.
    fn next_chunk(&mut self, full: PacketBuf, now: Time) -> PacketBuf {
        self.held += memory(&full);
        self.chunks.push_back(full);
        let oldest = now.0.saturating_sub(self.span);
        let mut spare = PacketBuf::default();
        while let Some(first) = self.chunks.front() {
            let is_old = first.slots.last().is_none_or(|last| last.time.0 < oldest);
            if !is_old && self.held + OPEN <= self.limit {
                break;
            }
            let Some(first) = self.chunks.pop_front() else { break };
            self.held -= memory(&first);
            self.complete_from = first.slots.last().map(|last| last.time).max(self.complete_from);
            spare = first;
        }
        spare.clear();
        spare
    }

    /// Nanoseconds before a time from which on it has all packets.
    fn reach(&self, now: Time) -> u64 {
        self.complete_from.map_or(0, |from| now.0.saturating_sub(from.0))
    }

    /// The packets from a time on, oldest first.
    pub fn since(&self, from: u64) -> impl Iterator<Item = Packet<'_>> {
        let chunks = self
            .chunks
            .iter()
            .skip_while(move |chunk| chunk.slots.last().is_none_or(|last| last.time.0 < from));
        chunks.flat_map(|chunk| chunk.batch().packets()).filter(move |packet| packet.time.0 >= from)
    }

    /// Bytes of memory.
    #[cfg(test)]
    fn memory(&self) -> usize {
        self.chunks.iter().map(memory).sum()
    }
}

/// The part of a worker in the files of triggers: it keeps its latest packets, and sends those that files ask for.
pub struct Preroll {
    worker: usize,
    ring: Ring,
    orders: Arc<Orders>,
    /// Number of the latest order that was read.
    read: u64,
    /// The files that are open.
    open: Vec<Arc<Order>>,
}

impl Preroll {
    /// For a worker, with its part of the memory.
    pub fn new(worker: usize, ring: Ring, orders: &Arc<Orders>) -> Self {
        Self { worker, ring, orders: Arc::clone(orders), read: 0, open: Vec::new() }
    }

    /// Takes the packets that the worker takes. `now` is the time that it has reached.
    pub fn take(&mut self, batch: Batch<'_>, now: Time) {
        for order in self.orders.since(&mut self.read) {
            // Those that are in the ring, then those that come.
            self.ship(&order, self.ring.since(order.wanted.from), Time(0));
            self.open.push(order);
        }
        for order in &self.open {
            self.ship(order, batch.packets(), now);
        }
        self.open.retain(|order| !order.is_done() && now.0 < order.wanted.until.saturating_add(LATE));
        self.ring.complete_from.get_or_insert(now);
        self.ring.push(batch);
        self.orders.board.reaches(self.worker, self.ring.reach(now));
    }

    /// Sends what files ask for that were opened since, after the last packet.
    pub fn end(&mut self) {
        for order in self.orders.since(&mut self.read) {
            self.ship(&order, self.ring.since(order.wanted.from), Time(u64::MAX));
        }
    }

    /// Sends the packets that a file asks for.
    fn ship<'p>(&self, order: &Arc<Order>, packets: impl Iterator<Item = Packet<'p>>, reached: Time) {
        let ship = |packets: PacketBuf, reached: Option<Time>| {
            self.orders.ship(Shipment { order: Arc::clone(order), worker: self.worker, packets, reached });
        };
        let mut selected = PacketBuf::default();
        let scope = order.plan.scope();
        for packet in packets.filter(|packet| order.wanted.has_time(packet.time)) {
            let layers = decode(&packet);
            if scope.is_none_or(|scope| scope.matches(&packet, &layers))
                && order.wanted.selects(&packet, &layers)
            {
                selected.push(&packet);
            }
            if selected.bytes.len() >= CHUNK {
                ship(std::mem::take(&mut selected), None);
            }
        }
        ship(selected, Some(reached));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_wire::{Hints, LinkType};

    const SECOND: u64 = 1_000_000_000;

    fn packets(times: impl Iterator<Item = u64>, length: usize) -> PacketBuf {
        let data = vec![7; length];
        let mut packets = PacketBuf::default();
        times.for_each(|time| {
            packets.push(&Packet {
                time: Time(time),
                data: &data,
                wire_len: length as u32,
                interface: 0,
                link: LinkType::ETHERNET,
                hints: Hints::default(),
                number: 0,
            });
        });
        packets
    }

    #[test]
    fn a_ring_keeps_the_latest_packets_within_its_memory_and_time() {
        for length in [40, 300, 1_000] {
            let limit = 8 * CHUNK;
            let mut ring = Ring::new(limit, 10 * SECOND, 0);
            for second in 0..100 {
                ring.push(packets((0..100).map(|n| second * SECOND + n), length).batch());
                assert!(ring.memory() <= limit, "{length}: {}", ring.memory());
            }
            let kept: Vec<u64> = ring.since(0).map(|packet| packet.time.0).collect();
            assert_eq!(kept.last(), Some(&(99 * SECOND + 99)));
            assert!(kept.is_sorted());
            // Ten seconds are 1,000 packets, and a chunk of small ones has more.
            assert!(kept.len() >= 1_000, "{length}: {}", kept.len());
            assert_eq!(ring.since(99 * SECOND).count(), 100);
            assert_eq!(ring.since(100 * SECOND).count(), 0);
        }
        let mut ring = Ring::new(8 * CHUNK, 10 * SECOND, 0);
        (0..4).for_each(|at| ring.push(packets((0..400).map(|n| at * 100 * SECOND + n), 1_000).batch()));
        assert!(ring.since(0).all(|packet| packet.time.0 >= 200 * SECOND), "what is too old has left");
        let mut small = Ring::new(4 * CHUNK, 1_000 * SECOND, 0);
        for second in 0..1_000 {
            small.push(packets((0..100).map(|n| second * SECOND + n), 1_000).batch());
            assert!(small.memory() <= 4 * CHUNK, "{}", small.memory());
        }
        assert!(small.since(0).count() >= 400, "{}", small.since(0).count());
    }

    #[test]
    fn a_rate_fills_the_rings_in_a_time() {
        for length in [60, 800] {
            let memory = 32 << 20;
            let mut ring = Ring::new(memory - queued(memory), u64::MAX, 0);
            (0..300_000).for_each(|n| ring.push(packets([n].into_iter(), length).batch()));
            // A second has 1,000 packets.
            let said = held(memory, 1_000.0, 1_000.0 * length as f64, 0);
            let kept = ring.since(0).count() as f64 / 1_000.0;
            assert!((0.7..1.4).contains(&(kept / said)), "{length}: {said} said, {kept} kept");
        }
        assert_eq!(held(1 << 20, 1_000.0, 800_000.0, 1_500), held(1 << 20, 1_000.0, 800_000.0, 0));
        assert!(held(1 << 20, 1_000.0, 800_000.0, 128) > 4.0 * held(1 << 20, 1_000.0, 800_000.0, 0));
    }

    #[test]
    fn a_ring_truncates_packets_and_leaves_out_those_that_are_too_large() {
        let mut ring = Ring::new(4 * CHUNK, SECOND, 60);
        ring.push(packets(0..3, 400).batch());
        let kept: Vec<_> = ring.since(0).map(|packet| (packet.data.len(), packet.wire_len)).collect();
        assert_eq!(kept, [(60, 400); 3]);
        let mut whole = Ring::new(4 * CHUNK, SECOND, 0);
        whole.push(packets(0..3, 2 * CHUNK).batch());
        assert_eq!((whole.since(0).count(), whole.memory()), (0, 0));
        let mut none = Ring::new(1_000, SECOND, 0);
        none.push(packets(0..3, 40).batch());
        assert_eq!((none.since(0).count(), none.memory()), (0, 0));
    }
}
