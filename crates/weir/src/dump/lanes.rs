//! Puts the packets of the workers of a live run into the order of their times.

use super::{Mark, Parcel, memory};
use std::collections::VecDeque;
use weir_wire::{Batch, PacketBuf, Time};

/// Packets of each worker that wait for packets of the others. A packet is written when every other worker has sent its packets
/// up to the same time. Workers on an idle link send the time alone.
pub struct Lanes {
    lanes: Vec<Lane>,
    /// Bytes of the packets that wait, and the number above which the earliest are written without waiting.
    bytes: usize,
    limit: usize,
}

/// Packets of one worker.
struct Lane {
    parcels: VecDeque<PacketBuf>,
    /// Position of the next packet in the first parcel.
    at: usize,
    /// All packets of the worker up to this time were sent.
    up_to: Time,
}

impl Lane {
    fn head(&self) -> Option<Time> {
        self.parcels.front()?.slots.get(self.at).map(|slot| slot.time)
    }

    /// The earliest time of a packet that this worker may still have.
    fn earliest(&self) -> Time {
        self.head().unwrap_or(self.up_to)
    }
}

impl Lanes {
    /// For that many workers. Packets of at most `limit` bytes wait.
    pub fn new(workers: usize, limit: usize) -> Self {
        let lane = || Lane { parcels: VecDeque::new(), at: 0, up_to: Time(0) };
        Self { lanes: (0..workers).map(|_| lane()).collect(), bytes: 0, limit }
    }

    /// Bytes of the packets that wait.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Changes how many bytes wait at most from the next parcel on.
    pub fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
    }

    /// Takes a parcel, and writes the packets that need not wait any more. Returns the bytes that were freed.
    pub fn take(&mut self, parcel: Parcel, write: impl FnMut(Batch<'_>)) -> usize {
        let Some(lane) = self.lanes.get_mut(parcel.worker) else { return 0 };
        if let Mark::UpTo(time) = parcel.mark {
            lane.up_to = lane.up_to.max(time);
        }
        // An empty parcel has no first packet.
        if let Some(last) = parcel.packets.slots.last() {
            lane.up_to = lane.up_to.max(last.time);
            self.bytes += memory(&parcel.packets);
            lane.parcels.push_back(parcel.packets);
        }
        self.write_until(Time(0), write)
    }

    /// Writes the packets that need not wait, and those up to `until` in any case. Returns the bytes that were freed.
    pub fn write_until(&mut self, until: Time, mut write: impl FnMut(Batch<'_>)) -> usize {
        let mut freed = 0;
        while let Some((first, time)) = self.first() {
            let others = self.lanes.iter().enumerate().filter(|(worker, _)| *worker != first);
            let earliest = others.map(|(_, lane)| lane.earliest()).min().unwrap_or(Time(u64::MAX));
            if earliest < time && time > until && self.bytes <= self.limit {
                break;
            }
            let Some(lane) = self.lanes.get_mut(first) else { break };
            let Some(parcel) = lane.parcels.front() else { break };
            let rest = parcel.slots.get(lane.at..).unwrap_or_default();
            let count = rest.iter().take_while(|slot| slot.time <= earliest).count().max(1);
            write(Batch { bytes: &parcel.bytes, slots: rest.get(..count).unwrap_or_default() });
            lane.at += count;
            if lane.at >= parcel.slots.len() {
                let bytes = memory(parcel);
                lane.parcels.pop_front();
                lane.at = 0;
                self.bytes -= bytes;
                freed += bytes;
            }
        }
        freed
    }

    /// The worker with the earliest packet, and the packet's time.
    fn first(&self) -> Option<(usize, Time)> {
        let heads = self.lanes.iter().enumerate().filter_map(|(worker, lane)| Some((lane.head()?, worker)));
        heads.min().map(|(time, worker)| (worker, time))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_wire::Slot;

    fn parcel(worker: usize, times: &[u64], up_to: u64) -> Parcel {
        let slots = times.iter().map(|time| Slot { time: Time(*time), ..Slot::default() }).collect();
        Parcel { worker, packets: PacketBuf { bytes: Vec::new(), slots }, mark: Mark::UpTo(Time(up_to)) }
    }

    fn times(lanes: &mut Lanes, parcel: Parcel) -> Vec<u64> {
        let mut times = Vec::new();
        lanes.take(parcel, |batch| times.extend(batch.slots.iter().map(|slot| slot.time.0)));
        times
    }

    #[test]
    fn packets_wait_until_every_worker_has_reached_their_time() {
        let mut lanes = Lanes::new(3, 1 << 20);
        assert!(times(&mut lanes, parcel(0, &[1, 5, 9], 9)).is_empty());
        assert!(times(&mut lanes, parcel(1, &[2, 3, 7], 7)).is_empty());
        assert_eq!(times(&mut lanes, parcel(2, &[], 4)), [1, 2, 3]);
        assert_eq!(times(&mut lanes, parcel(2, &[6], 8)), [5, 6, 7]);
        assert!(times(&mut lanes, parcel(1, &[], 20)).is_empty());
        // A packet that is later than its mark is written at once.
        assert_eq!(times(&mut lanes, parcel(2, &[4, 9], 9)), [4, 9, 9]);
        let mut left = 0;
        lanes.take(parcel(0, &[30], 30), |_| left += 1);
        assert!(lanes.write_until(Time(29), |_| left += 1) == 0 && left == 0);
        assert!(lanes.write_until(Time(30), |_| left += 1) > 0 && left == 1 && lanes.bytes == 0);
    }

    #[test]
    fn packets_do_not_wait_beyond_a_number_of_bytes() {
        let mut lanes = Lanes::new(2, 0);
        assert_eq!(times(&mut lanes, parcel(0, &[1, 2, 3], 3)), [1, 2, 3]);
    }
}
