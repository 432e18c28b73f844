//! Puts the packets of several workers into the order of the run.

use super::{FileSpec, ForFile, Mark, Parcel};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use weir_wire::{Batch, PacketBuf, Slot};

/// Merges the parcels of the workers of a run over files. All workers divide their packets into rounds at the same packets
/// of the run; a round is complete when every worker has sent the last parcel of it.
pub struct Merge {
    /// Parcels of rounds that are not complete, by worker.
    waiting: Vec<VecDeque<Parcel>>,
    /// Number of last parcels among them, by worker.
    ends: Vec<usize>,
}

impl Merge {
    /// For that many workers.
    pub fn new(workers: usize) -> Self {
        Self { waiting: (0..workers).map(|_| VecDeque::new()).collect(), ends: vec![0; workers] }
    }

    /// Takes a parcel, and returns the next round if it is complete. No other round is: the worker of the parcel was the last
    /// one.
    pub fn take(&mut self, parcel: Parcel) -> Option<Vec<(Arc<FileSpec>, Round)>> {
        let worker = parcel.worker;
        if let (Some(waiting), Some(ends)) = (self.waiting.get_mut(worker), self.ends.get_mut(worker)) {
            *ends += usize::from(parcel.mark == Mark::EndsRound);
            waiting.push_back(parcel);
        }
        self.ends.iter().all(|ends| *ends > 0).then(|| self.next_round())
    }

    fn next_round(&mut self) -> Vec<(Arc<FileSpec>, Round)> {
        let mut parts = Vec::new();
        for (waiting, ends) in self.waiting.iter_mut().zip(&mut self.ends) {
            *ends -= 1;
            while let Some(parcel) = waiting.pop_front() {
                parts.extend(parcel.packets);
                if parcel.mark == Mark::EndsRound {
                    break;
                }
            }
        }
        by_file(parts)
    }

    /// The packets of rounds that did not become complete, because a worker has failed.
    pub fn rest(&mut self) -> Vec<(Arc<FileSpec>, Round)> {
        by_file(self.waiting.drain(..).flatten().flat_map(|parcel| parcel.packets).collect())
    }
}

/// The packets of a round for each file.
fn by_file(parts: Vec<ForFile>) -> Vec<(Arc<FileSpec>, Round)> {
    let mut files: BTreeMap<u32, (Arc<FileSpec>, Vec<PacketBuf>)> = BTreeMap::new();
    for ForFile { file, packets } in parts {
        files.entry(file.number).or_insert_with(|| (file, Vec::new())).1.push(packets);
    }
    files.into_values().map(|(file, parts)| (file, Round::new(parts))).collect()
}

/// Packets of a round, in the order of their numbers.
pub struct Round {
    parts: Vec<PacketBuf>,
    /// Part and position of each packet.
    order: Vec<(u32, u32)>,
}

impl Round {
    fn new(parts: Vec<PacketBuf>) -> Self {
        let all =
            parts.iter().zip(0..).flat_map(|(part, at)| (0..part.slots.len() as u32).map(move |n| (at, n)));
        let mut order: Vec<(u32, u32)> = all.collect();
        let number = |(part, at): (u32, u32)| {
            parts
                .get(part as usize)
                .and_then(|part| part.slots.get(at as usize))
                .map_or(0, |slot| slot.number)
        };
        // Numbers wrap around. Packets of one number have one worker, which sent them in order.
        if let Some(first) = order.first().copied().map(number) {
            order.sort_by_key(|place| number(*place).wrapping_sub(first) as i32);
        }
        Self { parts, order }
    }

    /// The packets, each as a batch of one.
    pub fn packets(&self) -> impl Iterator<Item = Batch<'_>> {
        self.order.iter().filter_map(|(part, at)| {
            let PacketBuf { bytes, slots } = self.parts.get(*part as usize)?;
            Some(Batch { bytes, slots: slots.get(*at as usize..=*at as usize)? })
        })
    }

    /// Bytes of memory of the packets.
    pub fn memory(&self) -> usize {
        self.parts.iter().map(super::memory).sum()
    }
}

/// A packet with its bytes.
type OwnedPacket = (Slot, Box<[u8]>);

/// A buffer that puts packets which leave late into the order of the run, as far as a number of bytes allows.
pub struct Reorder {
    limit: usize,
    /// Bytes of the waiting packets.
    bytes: usize,
    /// Waiting packets, by number and by the order of arrival.
    waiting: BTreeMap<(u64, u64), OwnedPacket>,
    arrived: u64,
    /// The latest number so far, without wrapping around.
    latest: u64,
}

impl Reorder {
    /// A buffer of that many bytes. It must not depend on the number of workers, on which the order must not depend.
    pub fn new(limit: usize) -> Self {
        Self { limit, bytes: 0, waiting: BTreeMap::new(), arrived: 0, latest: 1 << 32 }
    }

    /// Takes a packet, and emits those for which there is no room, earliest first.
    pub fn take(&mut self, batch: Batch<'_>, mut emit: impl FnMut(Batch<'_>)) {
        for (slot, packet) in batch.slots.iter().zip(batch.packets()) {
            let ahead = slot.number.wrapping_sub(self.latest as u32) as i32;
            let number = self.latest.saturating_add_signed(ahead.into());
            self.latest = self.latest.max(number);
            self.arrived += 1;
            self.bytes += cost(packet.data);
            let slot = Slot { offset: 0, ..*slot };
            self.waiting.insert((number, self.arrived), (slot, packet.data.into()));
        }
        while self.bytes > self.limit && self.emit_first(&mut emit) {}
    }

    /// Emits all packets that wait.
    pub fn finish(&mut self, mut emit: impl FnMut(Batch<'_>)) {
        while self.emit_first(&mut emit) {}
    }

    fn emit_first(&mut self, emit: &mut impl FnMut(Batch<'_>)) -> bool {
        let Some((_, (slot, bytes))) = self.waiting.pop_first() else { return false };
        self.bytes -= cost(&bytes);
        emit(Batch { bytes: &bytes, slots: &[slot] });
        true
    }
}

/// Bytes of memory of a waiting packet.
fn cost(bytes: &[u8]) -> usize {
    bytes.len() + size_of::<((u64, u64), OwnedPacket)>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_capture::Rotate;

    /// A parcel with packets of those numbers.
    fn parcel(worker: usize, numbers: &[u32], ends: bool) -> Parcel {
        let mark = if ends { Mark::EndsRound } else { Mark::More };
        let slots = numbers.iter().map(|number| Slot { number: *number, ..Slot::default() }).collect();
        let packets = PacketBuf { bytes: Vec::new(), slots };
        Parcel { worker, packets: vec![ForFile { file: file(7), packets }], mark }
    }

    fn file(number: u32) -> Arc<FileSpec> {
        Arc::new(FileSpec::of_option("x", Rotate::default(), 0, Arc::default()).numbered(number))
    }

    fn numbers(round: Option<Vec<(Arc<FileSpec>, Round)>>) -> Option<Vec<u32>> {
        let all = |(_, round): &(_, Round)| -> Vec<u32> {
            round.packets().map(|batch| batch.slots[0].number).collect()
        };
        round.map(|files| files.iter().flat_map(all).collect())
    }

    #[test]
    fn a_round_has_the_packets_of_each_file() {
        let mut merge = Merge::new(2);
        let two = |worker, one: &[u32], other: &[u32]| {
            let (mut parcel, mut second) = (parcel(worker, one, true), parcel(worker, other, true));
            second.packets[0].file = file(3);
            parcel.packets.append(&mut second.packets);
            parcel
        };
        assert!(merge.take(two(0, &[1, 5], &[2])).is_none());
        let round = merge.take(two(1, &[3], &[1, 4])).unwrap();
        assert_eq!(round.iter().map(|(file, _)| file.number).collect::<Vec<_>>(), [3, 7]);
        assert_eq!(numbers(Some(round)), Some(vec![1, 2, 4, 1, 3, 5]));
    }

    #[test]
    fn rounds_are_complete_when_every_worker_has_ended_them() {
        let mut merge = Merge::new(3);
        let near = u32::MAX - 1;
        for (worker, packets, ends) in [
            (0, &[near, 3][..], false),
            (0, &[4], true),
            (0, &[9], true),
            (2, &[], true),
            (1, &[u32::MAX, 1], false),
        ] {
            assert_eq!(numbers(merge.take(parcel(worker, packets, ends))), None);
        }
        let round = numbers(merge.take(parcel(1, &[2], true)));
        assert_eq!(round, Some(vec![near, u32::MAX, 1, 2, 3, 4]));
        assert_eq!(numbers(merge.take(parcel(2, &[8], true))), None);
        assert_eq!(numbers(merge.take(parcel(1, &[7], true))), Some(vec![7, 8, 9]));
        merge.take(parcel(1, &[11], true));
        merge.take(parcel(0, &[10], false));
        assert_eq!(numbers(Some(merge.rest())), Some(vec![10, 11]));
    }

    #[test]
    fn late_packets_are_put_in_order_within_a_number_of_bytes() {
        let late = [5_u32, 6, u32::MAX, 0, 1, 7, 2];
        for (limit, expected) in [(1 << 20, &[u32::MAX, 0, 1, 2, 5, 6, 7][..]), (0, &late)] {
            let (mut reorder, mut seen) = (Reorder::new(limit), Vec::new());
            for number in late {
                let slots = &parcel(0, &[number], false).packets[0].packets.slots;
                reorder.take(Batch { bytes: &[], slots }, |batch| seen.push(batch.slots[0].number));
            }
            reorder.finish(|batch| seen.push(batch.slots[0].number));
            assert_eq!(seen, expected, "{limit}");
        }
    }
}
