//! The latest packets of a worker's flows, so that an output may begin with packets before the one that decided.

use std::collections::{HashMap, VecDeque};
use std::num::NonZeroU64;
use weir_wire::{Batch, Packet, PacketBuf, Slot};

/// Packets are freed in chunks: a part of the memory, within these bounds in bytes.
const CHUNKS: usize = 16;
const MIN_CHUNK: usize = 4 << 10;
const MAX_CHUNK: usize = 256 << 10;

/// The place of a packet: number of the chunk since the beginning, and index within it. There is one for each link, so that
/// both share a word.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Place(NonZeroU64);

/// Bits of the index: a chunk has fewer packets than that, because the slots of a full one take at most [`MAX_CHUNK`] bytes.
const INDEX: u32 = 16;
const _: () = assert!(MAX_CHUNK / size_of::<Slot>() < 1 << INDEX);

impl Place {
    fn new(chunk: u64, at: usize) -> Self {
        Self(NonZeroU64::MIN.saturating_add(chunk << INDEX | at as u64))
    }

    fn chunk(self) -> u64 {
        (self.0.get() - 1) >> INDEX
    }

    fn at(self) -> usize {
        ((self.0.get() - 1) & ((1 << INDEX) - 1)) as usize
    }
}

/// A packet's row in the flow table, its neighbours in the row, and the note that is held with it.
#[derive(Clone, Copy)]
struct Link<T> {
    /// `None` if the packet is not needed any more.
    row: Option<u32>,
    next: Option<Place>,
    /// The place before it, also where that packet was shed.
    before: Option<Place>,
    note: T,
}

/// Consecutive packets of all flows.
struct Chunk<T> {
    packets: PacketBuf,
    links: Vec<Link<T>>,
    /// Number of packets that are needed.
    live: usize,
    /// Bytes of the others.
    dead: usize,
}

impl<T> Chunk<T> {
    fn with_room(bytes: usize) -> Self {
        let mut packets = PacketBuf::default();
        packets.bytes.reserve_exact(bytes);
        Self { packets, links: Vec::new(), live: 0, dead: 0 }
    }

    /// Bytes of memory.
    fn memory(&self) -> usize {
        self.packets.bytes.capacity()
            + self.packets.slots.capacity() * size_of::<Slot>()
            + self.links.capacity() * size_of::<Link<T>>()
    }
}

/// Packets of a row, oldest first.
#[derive(Clone, Copy)]
struct Chain {
    first: Place,
    last: Place,
    packets: u32,
    bytes: u32,
}

/// A ring of packets with a limit of memory. Packets of one row are chained. When the ring is full, the oldest packets are
/// shed, whatever their row. Each packet has a note of the caller's, which counts as memory.
pub(crate) struct History<T = ()> {
    limit: usize,
    /// Bytes of a chunk.
    chunk: usize,
    chunks: VecDeque<Chunk<T>>,
    /// Number of the oldest chunk.
    first: u64,
    chains: HashMap<u32, Chain>,
    /// Bytes of memory of the chunks.
    held: usize,
    /// Bytes of packets that are not needed any more.
    dead: usize,
}

impl<T: Copy> History<T> {
    /// A ring of at most `limit` bytes, but at least one packet.
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            chunk: (limit / CHUNKS).clamp(MIN_CHUNK, MAX_CHUNK),
            chunks: VecDeque::new(),
            first: 0,
            chains: HashMap::new(),
            held: 0,
            dead: 0,
        }
    }

    /// Packets and bytes of a row.
    pub fn of_row(&self, row: u32) -> (u32, u32) {
        self.chains.get(&row).map_or((0, 0), |chain| (chain.packets, chain.bytes))
    }

    /// Adds the newest packet of a row. Calls `shed` with the row and the note of each packet that is shed for it.
    pub fn push(&mut self, row: u32, packet: &Packet<'_>, note: T, shed: &mut dyn FnMut(u32, &T)) {
        let length = packet.data.len();
        let is_full = |chunk: &Chunk<T>| {
            chunk.packets.bytes.len() + length > self.chunk
                || chunk.links.len() >= self.chunk / size_of::<Slot>()
        };
        if self.chunks.back().is_none_or(is_full) {
            self.make_room(length, shed);
            let chunk = Chunk::with_room(length.max(self.chunk));
            self.held += chunk.memory();
            self.chunks.push_back(chunk);
        }
        let number = self.first + self.chunks.len() as u64 - 1;
        let last = self.chains.get(&row).map(|chain| chain.last);
        let Some(chunk) = self.chunks.back_mut() else { return };
        let before = chunk.memory();
        let place = Place::new(number, chunk.links.len());
        chunk.packets.push(packet);
        chunk.links.push(Link { row: Some(row), next: None, before: last, note });
        chunk.live += 1;
        self.held = self.held + chunk.memory() - before;
        self.chain(row, place, length as u32);
    }

    /// Appends the packet at a place to the chain of its row.
    fn chain(&mut self, row: u32, place: Place, length: u32) {
        let last = match self.chains.get_mut(&row) {
            None => {
                self.chains.insert(row, Chain { first: place, last: place, packets: 1, bytes: length });
                return;
            }
            Some(chain) => {
                chain.packets += 1;
                chain.bytes += length;
                std::mem::replace(&mut chain.last, place)
            }
        };
        if let Some(link) = self.link(last) {
            link.next = Some(place);
        }
    }

    fn link(&mut self, place: Place) -> Option<&mut Link<T>> {
        self.chunk_of(place)?.links.get_mut(place.at())
    }

    /// The chunk of a place; `None` if it was shed.
    fn chunk_of(&mut self, place: Place) -> Option<&mut Chunk<T>> {
        let at = usize::try_from(place.chunk().checked_sub(self.first)?).ok()?;
        self.chunks.get_mut(at)
    }

    /// Removes the packets of a row, oldest first, and calls `emit` with each.
    pub fn take(&mut self, row: u32, mut emit: impl FnMut(Batch<'_>)) {
        let mut next = self.chains.remove(&row).map(|chain| chain.first);
        while let Some(place) = next {
            let Some(link) = self.link(place) else { return };
            next = link.next;
            link.row = None;
            let Some(chunk) = self.chunk_of(place) else { return };
            chunk.live -= 1;
            if let Some(slot) = chunk.packets.slots.get(place.at()) {
                emit(Batch { bytes: &chunk.packets.bytes, slots: std::slice::from_ref(slot) });
                let dead = slot.len as usize;
                chunk.dead += dead;
                self.dead += dead;
            }
        }
        while self.chunks.front().is_some_and(|chunk| chunk.live == 0) {
            self.drop_oldest(&mut |_, _| ());
        }
    }

    /// Calls `see` with the packets of a row, oldest first. They stay.
    pub fn visit(&mut self, row: u32, see: impl FnMut(&Packet<'_>, &mut T)) {
        let first = self.chains.get(&row).map(|chain| chain.first);
        self.visit_on(first, see);
    }

    /// Calls `see` with the packets of a row, oldest first, from the one after the latest that `is_before` holds for. They stay.
    /// Costs time for these packets, not for all of the row.
    pub fn visit_latest(
        &mut self,
        row: u32,
        is_before: impl Fn(&Packet<'_>, &T) -> bool,
        see: impl FnMut(&Packet<'_>, &mut T),
    ) {
        let mut first = None;
        let mut at = self.chains.get(&row).map(|chain| chain.last);
        while let Some(place) = at
            && let Some(chunk) = self.chunk_of(place)
            && let (Some(link), Some(slot)) =
                (chunk.links.get(place.at()), chunk.packets.slots.get(place.at()))
            && !is_before(&chunk.packets.batch().packet(slot), &link.note)
        {
            (first, at) = (Some(place), link.before);
        }
        self.visit_on(first, see);
    }

    /// Calls `see` with the packet of a place and those after it in its row.
    fn visit_on(&mut self, first: Option<Place>, mut see: impl FnMut(&Packet<'_>, &mut T)) {
        let mut next = first;
        while let Some(place) = next {
            let Some(Chunk { packets, links, .. }) = self.chunk_of(place) else { return };
            let Some(link) = links.get_mut(place.at()) else { return };
            if let Some(slot) = packets.slots.get(place.at()) {
                see(&packets.batch().packet(slot), &mut link.note);
            }
            next = link.next;
        }
    }

    /// Calls `change` with the note of each packet.
    pub fn each_note(&mut self, mut change: impl FnMut(&mut T)) {
        self.chunks.iter_mut().flat_map(|chunk| &mut chunk.links).for_each(|link| change(&mut link.note));
    }

    /// Frees memory for a chunk with room for `length` bytes: that of packets that are not needed any more, then that of the
    /// oldest packets.
    fn make_room(&mut self, length: usize, shed: &mut dyn FnMut(u32, &T)) {
        let needed = length.max(self.chunk);
        if self.held + needed > self.limit && self.dead >= self.held / 2 {
            self.compact(shed);
        }
        while self.held + needed > self.limit && !self.chunks.is_empty() {
            self.drop_oldest(shed);
        }
    }

    fn drop_oldest(&mut self, shed: &mut dyn FnMut(u32, &T)) {
        let Some(chunk) = self.chunks.pop_front() else { return };
        self.first += 1;
        self.held -= chunk.memory();
        self.dead -= chunk.dead;
        for (link, slot) in chunk.links.iter().zip(&chunk.packets.slots) {
            let Some(row) = link.row else { continue };
            shed(row, &link.note);
            // The oldest packet of the ring is the oldest of its row.
            match (self.chains.get_mut(&row), link.next) {
                (Some(chain), Some(next)) => {
                    chain.first = next;
                    chain.packets -= 1;
                    chain.bytes -= slot.len;
                }
                _ => drop(self.chains.remove(&row)),
            }
        }
    }

    /// Moves the packets that are needed together. Half of the memory is free afterwards, so that a byte is moved
    /// at most once for each byte that comes in.
    fn compact(&mut self, shed: &mut dyn FnMut(u32, &T)) {
        let before = std::mem::take(&mut self.chunks);
        self.first += before.len() as u64;
        (self.held, self.dead) = (0, 0);
        self.chains.clear();
        for chunk in before {
            for (packet, link) in chunk.packets.batch().packets().zip(&chunk.links) {
                if let Some(row) = link.row {
                    self.push(row, &packet, link.note, shed);
                }
            }
        }
    }

    /// Bytes of memory.
    #[cfg(test)]
    pub fn memory(&self) -> usize {
        self.held
    }
}

/// A batch of one packet, without a copy.
pub(crate) fn one<'a>(packet: &Packet<'a>, slot: &'a mut Slot) -> Batch<'a> {
    *slot = Slot {
        time: packet.time,
        offset: 0,
        len: packet.data.len() as u32,
        wire_len: packet.wire_len,
        interface: packet.interface,
        link: packet.link,
        hints: packet.hints,
        number: packet.number,
    };
    Batch { bytes: packet.data, slots: std::slice::from_ref(slot) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_wire::Time;

    fn packet(bytes: &[u8], time: u64) -> Packet<'_> {
        Packet { time: Time(time), ..weir_wire::build::packet(bytes, weir_wire::LinkType::ETHERNET) }
    }

    fn taken(history: &mut History, row: u32) -> Vec<u64> {
        let mut times = Vec::new();
        history.take(row, |batch| times.extend(batch.packets().map(|packet| packet.time.0)));
        times
    }

    #[test]
    fn packets_of_a_row_are_taken_in_order_and_once() {
        let mut history = History::new(1 << 20);
        for time in 0..1000 {
            history.push(time as u32 % 7, &packet(&[1; 300], time), (), &mut |_, ()| panic!("shed"));
        }
        assert_eq!(history.of_row(3), (143, 143 * 300));
        let mut seen = Vec::new();
        history.visit(3, |packet, ()| seen.push(packet.time.0));
        assert_eq!(seen, (0..1000).filter(|time| time % 7 == 3).collect::<Vec<_>>());
        assert_eq!(taken(&mut history, 3), (0..1000).filter(|time| time % 7 == 3).collect::<Vec<_>>());
        assert_eq!((taken(&mut history, 3), history.of_row(3)), (Vec::new(), (0, 0)));
        (0..7).for_each(|row| drop(taken(&mut history, row)));
        assert_eq!((history.memory(), history.dead), (0, 0));
    }

    #[test]
    fn the_oldest_packets_are_shed_and_counted() {
        let limit = 128 << 10;
        let (mut history, mut shed) = (History::new(limit), 0_u64);
        let all = 10_000;
        for time in 0..all {
            history.push(time as u32 % 5, &packet(&[1; 500], time), (), &mut |_, ()| shed += 1);
            assert!(history.memory() <= limit, "{}", history.memory());
        }
        let mut times: Vec<u64> = (0..5).flat_map(|row| taken(&mut history, row)).collect();
        times.sort_unstable();
        assert_eq!(times, (shed..all).collect::<Vec<_>>(), "the newest are left");
        assert!(times.len() > 100, "{}", times.len());
    }

    #[test]
    fn packets_that_are_not_needed_make_room_before_others_are_shed() {
        let limit = 128 << 10;
        let mut history = History::new(limit);
        history.push(0, &packet(&[1; 100], 0), (), &mut |_, ()| panic!("shed"));
        for time in 1..20_000 {
            history.push(1, &packet(&[1; 500], time), (), &mut |_, ()| panic!("shed at {time}"));
            if time % 50 == 0 {
                assert_eq!(taken(&mut history, 1).len(), 50);
            }
        }
        assert_eq!(taken(&mut history, 0), [0]);
    }

    #[test]
    fn a_packet_larger_than_the_ring_is_kept_alone() {
        let mut history = History::new(8 << 10);
        let mut shed = Vec::new();
        for (row, length) in [(1, 100), (2, 60_000), (3, 100)] {
            history.push(row, &packet(&vec![1; length], u64::from(row)), (), &mut |row, ()| shed.push(row));
        }
        assert_eq!((shed, taken(&mut history, 3)), (vec![1, 2], vec![3]));
        assert!(taken(&mut history, 2).is_empty());
    }
}
