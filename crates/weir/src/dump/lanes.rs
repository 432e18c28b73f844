//! Puts the packets of the workers of a live run into the order of their times.

use super::memory;
use std::collections::VecDeque;
use weir_wire::{Batch, PacketBuf, Time};

/// Packets of each worker that wait for packets of the others. A packet is written when every other worker has sent its packets
/// up to the same time. Workers on an idle link send the time alone.
pub struct Lanes {
    lanes: Vec<Lane>,
    /// Bytes of the packets that wait.
    bytes: usize,
}

/// Packets of one worker.
#[derive(Default)]
struct Lane {
    parcels: VecDeque<PacketBuf>,
    /// Position of the next packet in the first parcel.
    at: usize,
}

impl Lane {
    fn head(&self) -> Option<Time> {
        self.parcels.front()?.slots.get(self.at).map(|slot| slot.time)
    }
}

impl Lanes {
    /// For that many workers.
    pub fn new(workers: usize) -> Self {
        Self { lanes: (0..workers).map(|_| Lane::default()).collect(), bytes: 0 }
    }

    /// Bytes of the packets that wait.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Takes packets of a worker.
    pub fn push(&mut self, worker: usize, packets: PacketBuf) {
        // An empty parcel has no first packet.
        if let Some(lane) = self.lanes.get_mut(worker).filter(|_| !packets.slots.is_empty()) {
            self.bytes += memory(&packets);
            lane.parcels.push_back(packets);
        }
    }

    /// Writes the packets that need not wait, those up to `until` in any case, and the earliest ones beyond `limit` bytes.
    /// `reached` has for each worker the time up to which all of its packets were sent. Returns the bytes that were freed.
    pub fn write_until(
        &mut self,
        reached: &[Time],
        until: Time,
        limit: usize,
        mut write: impl FnMut(Batch<'_>),
    ) -> usize {
        let mut freed = 0;
        while let Some((first, time)) = self.first() {
            let others = self.lanes.iter().zip(reached).enumerate().filter(|(worker, _)| *worker != first);
            // The earliest time of a packet that another worker may still have.
            let earliest = others.map(|(_, (lane, reached))| lane.head().unwrap_or(*reached)).min();
            let earliest = earliest.unwrap_or(Time(u64::MAX));
            if earliest < time && time > until && self.bytes <= limit {
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

    fn packets(times: &[u64]) -> PacketBuf {
        let slots = times.iter().map(|time| Slot { time: Time(*time), ..Slot::default() }).collect();
        PacketBuf { bytes: Vec::new(), slots }
    }

    /// Lanes, and the times that workers have reached.
    struct Case(Lanes, Vec<Time>);

    impl Case {
        fn times(&mut self, worker: usize, times: &[u64], up_to: u64, limit: usize) -> Vec<u64> {
            let Case(lanes, reached) = self;
            reached[worker] = Time(up_to);
            lanes.push(worker, packets(times));
            let mut times = Vec::new();
            lanes.write_until(reached, Time(0), limit, |batch| {
                times.extend(batch.slots.iter().map(|slot| slot.time.0));
            });
            times
        }
    }

    #[test]
    fn packets_wait_until_every_worker_has_reached_their_time() {
        let (mut case, all) = (Case(Lanes::new(3), vec![Time(0); 3]), 1 << 20);
        assert!(case.times(0, &[1, 5, 9], 9, all).is_empty());
        assert!(case.times(1, &[2, 3, 7], 7, all).is_empty());
        assert_eq!(case.times(2, &[], 4, all), [1, 2, 3]);
        assert_eq!(case.times(2, &[6], 8, all), [5, 6, 7]);
        assert!(case.times(1, &[], 20, all).is_empty());
        // A packet that is later than its mark is written at once.
        assert_eq!(case.times(2, &[4, 9], 9, all), [4, 9, 9]);
        let Case(mut lanes, reached) = case;
        lanes.push(0, packets(&[30]));
        let mut left = 0;
        assert!(lanes.write_until(&reached, Time(29), all, |_| left += 1) == 0 && left == 0);
        assert!(
            lanes.write_until(&reached, Time(30), all, |_| left += 1) > 0 && left == 1 && lanes.bytes == 0
        );
    }

    #[test]
    fn packets_do_not_wait_beyond_a_number_of_bytes() {
        let mut case = Case(Lanes::new(2), vec![Time(0); 2]);
        assert_eq!(case.times(0, &[1, 2, 3], 3, 0), [1, 2, 3]);
    }
}
