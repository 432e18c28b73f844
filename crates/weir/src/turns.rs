//! The order of the packets of several workers, for results that depend on it.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;
use weir_engine::PacketOrder;

/// How far each worker of a run over files has come. A worker may wait until all packets before one of its own were taken,
/// by whichever worker. The worker that is behind all others never waits.
#[derive(Debug)]
pub struct Turns {
    workers: Vec<Progress>,
    sleepers: Mutex<()>,
    /// Number of workers that sleep. To wake none would take a system call.
    asleep: AtomicUsize,
    changed: Condvar,
}

/// The number of the next packet of a worker, modulo 2^32, or [`DONE`]. Alone in its cache line, because the worker writes it
/// with each packet.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Progress(AtomicU64);

/// The worker takes no more packets.
const DONE: u64 = u64::MAX;
/// Number of looks at the others before a worker that waits sleeps. They are usually a few packets behind.
const LOOKS: usize = 200;
/// Time after which a sleeping worker looks again: the others do not wake it with each packet.
const NAP: Duration = Duration::from_micros(100);

impl Turns {
    /// For that many workers at the beginning of a run.
    pub fn new(workers: usize) -> Self {
        let workers = (0..workers).map(|_| Progress::default()).collect();
        Self { workers, sleepers: Mutex::new(()), asleep: AtomicUsize::new(0), changed: Condvar::new() }
    }

    /// A worker has taken all of its packets before the one of that number; `None` if it takes no more.
    pub fn reach(&self, worker: usize, packet: Option<u32>) {
        self.set(worker, packet.map_or(DONE, u64::from));
        // A worker that falls asleep meanwhile looks again after its nap.
        if self.asleep.load(Ordering::Relaxed) > 0 {
            self.changed.notify_all();
        }
    }

    fn set(&self, worker: usize, reached: u64) {
        if let Some(progress) = self.workers.get(worker) {
            progress.0.store(reached, Ordering::Release);
        }
    }

    /// Whether a worker has packets left before the one of that number.
    fn is_behind(&self, packet: u32) -> bool {
        self.workers.iter().any(|progress| {
            let reached = progress.0.load(Ordering::Acquire);
            reached != DONE && ((reached as u32).wrapping_sub(packet) as i32) < 0
        })
    }
}

impl PacketOrder for Turns {
    fn pass(&self, worker: usize, packet: u32) {
        self.set(worker, packet.into());
    }

    fn wait(&self, worker: usize, packet: u32) {
        self.reach(worker, Some(packet));
        for _ in 0..LOOKS {
            if !self.is_behind(packet) {
                return;
            }
            std::thread::yield_now();
        }
        let mut sleeps = self.sleepers.lock().unwrap_or_else(PoisonError::into_inner);
        self.asleep.fetch_add(1, Ordering::Relaxed);
        while self.is_behind(packet) {
            let woken = self.changed.wait_timeout(sleeps, NAP);
            sleeps = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
        self.asleep.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_act_in_the_order_of_packets() {
        // The numbers wrap around between the packets.
        let start = u32::MAX - 50;
        for workers in [1, 2, 5] {
            let (turns, acts) = (Turns::new(workers), Mutex::new(Vec::new()));
            (0..workers).for_each(|worker| turns.reach(worker, Some(start)));
            std::thread::scope(|scope| {
                for worker in 0..workers {
                    let (turns, acts) = (&turns, &acts);
                    scope.spawn(move || {
                        for packet in (0..100).filter(|packet| packet % workers as u32 == worker as u32) {
                            turns.wait(worker, start.wrapping_add(packet));
                            acts.lock().unwrap().push(packet);
                        }
                        turns.reach(worker, None);
                    });
                }
            });
            assert_eq!(acts.into_inner().unwrap(), (0..100).collect::<Vec<_>>(), "{workers} workers");
        }
    }
}
