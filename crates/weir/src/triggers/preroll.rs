//! The latest packets of a worker of a live run, so that a file can begin before its event.

use super::orders::{LATE, Order, Orders, Shipment};
use std::collections::VecDeque;
use std::sync::Arc;
use weir_wire::{Batch, Packet, PacketBuf, Slot, Time, decode};

/// Bytes of a chunk: the oldest packets leave a chunk at a time.
const CHUNK: usize = 256 << 10;

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
    bytes: usize,
}

impl Ring {
    /// An empty ring.
    pub fn new(limit: usize, span: u64, snaplen: u32) -> Self {
        Self { limit, span, snaplen, chunks: VecDeque::new(), bytes: 0 }
    }

    /// Adds packets.
    pub fn push(&mut self, batch: Batch<'_>) {
        for packet in batch.packets() {
            let length = if self.snaplen > 0 { self.snaplen as usize } else { usize::MAX };
            let data = packet.data.get(..length).unwrap_or(packet.data);
            let needed = data.len() + size_of::<Slot>();
            if needed > self.limit {
                continue;
            }
            let has_room = |chunk: &PacketBuf| memory(chunk) + needed <= CHUNK || chunk.slots.is_empty();
            if !self.chunks.back().is_some_and(has_room) {
                self.begin_chunk(packet.time, needed);
            }
            if let Some(chunk) = self.chunks.back_mut() {
                self.bytes += needed;
                chunk.push(&Packet { data, ..packet });
            }
        }
    }

    /// Makes room, and begins a chunk. A chunk of which all packets are too old leaves, and so do the oldest ones without room.
    fn begin_chunk(&mut self, now: Time, needed: usize) {
        let oldest = now.0.saturating_sub(self.span);
        let mut spare = PacketBuf::default();
        while let Some(first) = self.chunks.front() {
            let is_old = first.slots.last().is_none_or(|last| last.time.0 < oldest);
            // A chunk that is begun takes its whole size.
            if !is_old && self.bytes + CHUNK.max(needed) <= self.limit {
                break;
            }
            let Some(mut first) = self.chunks.pop_front() else { break };
            self.bytes -= memory(&first);
            first.clear();
            spare = first;
        }
        self.chunks.push_back(spare);
    }

    /// The packets from a time on, oldest first.
    pub fn since(&self, from: u64) -> impl Iterator<Item = Packet<'_>> {
        let chunks = self
            .chunks
            .iter()
            .skip_while(move |chunk| chunk.slots.last().is_none_or(|last| last.time.0 < from));
        chunks.flat_map(|chunk| chunk.batch().packets()).filter(move |packet| packet.time.0 >= from)
    }

    /// Bytes of the packets.
    #[cfg(test)]
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

/// Bytes of the packets of a chunk.
fn memory(chunk: &PacketBuf) -> usize {
    chunk.bytes.len() + chunk.slots.len() * size_of::<Slot>()
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
        self.open.retain(|order| !order.is_done() && now.0 < order.wanted.until.saturating_add(LATE));
        for order in &self.open {
            self.ship(order, batch.packets(), now);
        }
        self.ring.push(batch);
    }

    /// Sends the packets that a file asks for.
    fn ship<'p>(&self, order: &Arc<Order>, packets: impl Iterator<Item = Packet<'p>>, reached: Time) {
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
                let full = std::mem::take(&mut selected);
                self.orders.ship(Shipment {
                    order: Arc::clone(order),
                    worker: self.worker,
                    packets: full,
                    reached: None,
                });
            }
        }
        let reached = Some(reached);
        self.orders.ship(Shipment {
            order: Arc::clone(order),
            worker: self.worker,
            packets: selected,
            reached,
        });
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
        let mut ring = Ring::new(4 * CHUNK, 10 * SECOND, 0);
        for second in 0..100 {
            ring.push(packets((0..100).map(|n| second * SECOND + n), 1_000).batch());
            assert!(ring.bytes() <= 4 * CHUNK);
        }
        let kept: Vec<u64> = ring.since(0).map(|packet| packet.time.0).collect();
        assert_eq!(kept.last(), Some(&(99 * SECOND + 99)));
        assert!(kept.is_sorted());
        // Ten seconds are 1,000 packets; memory has room for about as many.
        assert!((600..=1_100).contains(&kept.len()), "{}", kept.len());
        assert_eq!(ring.since(99 * SECOND).count(), 100);
        assert_eq!(ring.since(100 * SECOND).count(), 0);
        // After a silence only the new packets are young enough.
        ring.push(packets((0..400).map(|n| 500 * SECOND + n), 1_000).batch());
        ring.push(packets((0..400).map(|n| 600 * SECOND + n), 1_000).batch());
        assert!(ring.since(0).all(|packet| packet.time.0 >= 500 * SECOND));
    }

    #[test]
    fn a_ring_truncates_packets_and_leaves_out_those_that_are_too_large() {
        let mut ring = Ring::new(1_000, SECOND, 60);
        ring.push(packets(0..3, 400).batch());
        assert_eq!(
            ring.since(0).map(|packet| (packet.data.len(), packet.wire_len)).collect::<Vec<_>>(),
            [(60, 400); 3]
        );
        let mut whole = Ring::new(300, SECOND, 0);
        whole.push(packets(0..3, 400).batch());
        assert_eq!(whole.since(0).count(), 0);
        assert_eq!(whole.bytes(), 0);
    }
}
