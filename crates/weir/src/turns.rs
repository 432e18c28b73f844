//! The order of the packets of several workers, for results that depend on it.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// How far each worker of a run over files has come. A worker may wait until all packets before one of its own were taken,
/// by whichever worker. The worker that is behind all others never waits.
#[derive(Debug)]
pub struct Turns {
    /// For each worker the number of the next packet of the run; `None` after its last. Numbers wrap around.
    reached: Mutex<Vec<Option<u32>>>,
    changed: Condvar,
}

impl Turns {
    /// For that many workers at the beginning of a run.
    pub fn new(workers: usize) -> Self {
        Self { reached: Mutex::new(vec![Some(0); workers]), changed: Condvar::new() }
    }

    /// A worker has taken all of its packets before the one of that number; `None` if it takes no more.
    pub fn reach(&self, worker: usize, packet: Option<u32>) {
        if let Some(reached) = self.lock().get_mut(worker) {
            *reached = packet;
        }
        self.changed.notify_all();
    }

    /// Waits until all workers have taken their packets before the one of that number, which `worker` takes now.
    pub fn wait(&self, worker: usize, packet: u32) {
        self.reach(worker, Some(packet));
        let is_behind =
            |reached: &Option<u32>| reached.is_some_and(|reached| (reached.wrapping_sub(packet) as i32) < 0);
        let mut all = self.lock();
        while all.iter().any(is_behind) {
            all = self.changed.wait(all).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Option<u32>>> {
        self.reached.lock().unwrap_or_else(PoisonError::into_inner)
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
