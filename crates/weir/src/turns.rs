//! The order of the packets of several workers, for results that depend on it.

use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
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
    /// The number of the packet that the worker which fell asleep last waits for.
    awaited: AtomicU32,
    changed: Condvar,
}

/// How far a worker has come: numbers of packets modulo 2^32, or [`DONE`]. Alone in its cache line, because the worker writes it
/// with each packet.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Progress {
    /// The number of its next packet.
    reached: AtomicU64,
    /// The number before which none of its packets announces a flow.
    promised: AtomicU64,
}

/// The worker takes no more packets.
const DONE: u64 = u64::MAX;
/// Number of looks at the others before a worker that waits gives its core to others, and before it sleeps. They are usually a
/// few packets behind.
const LOOKS: usize = 200;
const YIELDS: usize = 20;
/// Time after which a sleeping worker looks again: others that pass its packet while it falls asleep do not wake it.
const NAP: Duration = Duration::from_micros(100);

/// Whether a worker that has come to a number has packets left before that of another number.
fn is_before(reached: &AtomicU64, packet: u32) -> bool {
    let reached = reached.load(Ordering::Acquire);
    reached != DONE && ((reached as u32).wrapping_sub(packet) as i32) < 0
}

impl Turns {
    /// For that many workers at the beginning of a run.
    pub fn new(workers: usize) -> Self {
        let workers = (0..workers).map(|_| Progress::default()).collect();
        Self {
            workers,
            sleepers: Mutex::new(()),
            asleep: AtomicUsize::new(0),
            awaited: AtomicU32::new(0),
            changed: Condvar::new(),
        }
    }

    /// A worker has taken all of its packets before the one of that number; `None` if it takes no more.
    pub fn reach(&self, worker: usize, packet: Option<u32>) {
        self.set(worker, packet.map_or(DONE, u64::from));
        // A promise that is not renewed would seem to be a later one when numbers wrap around.
        if let (Some(packet), Some(progress)) = (packet, self.workers.get(worker))
            && is_before(&progress.promised, packet)
        {
            progress.promised.store(packet.into(), Ordering::Release);
        }
        // A worker that falls asleep meanwhile looks again after its nap.
        if self.asleep.load(Ordering::Relaxed) > 0 {
            self.changed.notify_all();
        }
    }

    fn set(&self, worker: usize, reached: u64) {
        if let Some(progress) = self.workers.get(worker) {
            progress.reached.store(reached, Ordering::Release);
        }
    }

    /// Wakes the workers that sleep if one waits for a packet before or at that of a number.
    #[inline]
    fn wake(&self, packet: u32) {
        if self.asleep.load(Ordering::Relaxed) > 0
            && (packet.wrapping_sub(self.awaited.load(Ordering::Relaxed)) as i32) >= 0
        {
            self.changed.notify_all();
        }
    }

    /// Waits at a packet until a condition holds for no worker.
    fn wait_while(&self, packet: u32, is_behind: impl Fn(&Progress) -> bool) {
        let is_behind = || self.workers.iter().any(&is_behind);
        for look in 0..LOOKS + YIELDS {
            if !is_behind() {
                return;
            }
            if look < LOOKS { std::hint::spin_loop() } else { std::thread::yield_now() }
        }
        let mut sleeps = self.sleepers.lock().unwrap_or_else(PoisonError::into_inner);
        self.awaited.store(packet, Ordering::Relaxed);
        self.asleep.fetch_add(1, Ordering::Relaxed);
        while is_behind() {
            let woken = self.changed.wait_timeout(sleeps, NAP);
            sleeps = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
        self.asleep.fetch_sub(1, Ordering::Relaxed);
    }
}

impl PacketOrder for Turns {
    fn pass(&self, worker: usize, packet: u32) {
        self.set(worker, packet.into());
        self.wake(packet);
    }

    fn promise(&self, worker: usize, packet: u32) {
        if let Some(progress) = self.workers.get(worker) {
            progress.promised.store(packet.into(), Ordering::Release);
            self.wake(packet);
        }
    }

    fn wait(&self, worker: usize, packet: u32) {
        self.reach(worker, Some(packet));
        self.wait_while(packet, |progress| is_before(&progress.reached, packet));
    }

    fn wait_here(&self, worker: usize) {
        let Some(own) = self.workers.get(worker) else { return };
        let reached = own.reached.load(Ordering::Acquire);
        if reached != DONE {
            self.wait_while(reached as u32, |progress| is_before(&progress.reached, reached as u32));
        }
    }

    fn wait_for_promises(&self, worker: usize, packet: u32) {
        self.reach(worker, Some(packet));
        self.wait_while(packet, |Progress { reached, promised }| {
            is_before(promised, packet) && is_before(reached, packet)
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

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

    #[test]
    fn a_promise_is_as_good_as_a_packet_that_was_taken() {
        let start = u32::MAX - 5;
        let turns = Turns::new(2);
        (0..2).for_each(|worker| turns.reach(worker, Some(start)));
        turns.promise(1, start.wrapping_add(10));
        // Neither waits: the other has promised up to the packet.
        turns.wait_for_promises(0, start.wrapping_add(10));
        turns.wait_for_promises(1, start.wrapping_add(3));
        let is_taken = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                turns.wait_for_promises(0, start.wrapping_add(11));
                // The other has not taken the packets that it promised.
                turns.wait(0, start.wrapping_add(12));
                assert!(is_taken.load(Ordering::Relaxed));
            });
            turns.promise(1, start.wrapping_add(20));
            std::thread::sleep(10 * NAP);
            is_taken.store(true, Ordering::Relaxed);
            turns.reach(1, None);
        });
    }
}
