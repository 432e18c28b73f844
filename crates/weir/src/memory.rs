//! `--memory`: how it is divided, and what of it is in use.
//!
//! All that grows with traffic or with what a run is asked for has a share here, under one name. An owner keeps within its
//! share by itself, and counts what it refuses. The program as it is without traffic (its code, the buffers of its files)
//! comes on top: 24 MiB are enough for it.

use std::fmt::Write;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use weir_api::Snapshot;
use weir_flow::{FlowConfig, FlowTable};
use weir_output::figures::count;

const MIB: usize = 1 << 20;
/// The memory with which the lists of the summary have all their rows; with less they have as many fewer.
pub const FULL_LISTS: usize = 512 * MIB;

/// What a run has to remember.
#[derive(Clone, Copy, Debug)]
pub struct Work {
    /// Packets come from a link, which has rings.
    pub is_live: bool,
    /// Streams are put together and read.
    pub is_read: bool,
    /// There is a store.
    pub has_store: bool,
    /// Files of packets that are written.
    pub dumps: usize,
    /// Bytes that the functions of the plan take: see [`weir_engine::Plan::memory`].
    pub lists: usize,
}

/// The memory of a run, divided: bytes for each owner.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Division {
    /// Flow tables of all workers.
    pub flows: usize,
    /// Streams, fragments and parsers of all workers.
    pub sessions: usize,
    /// Functions of the plan, their readings, and copies of these on their way.
    pub lists: usize,
    /// Rings of all workers.
    pub ring: usize,
    /// Packets of files that are under way between workers.
    pub packets: usize,
    /// Messages from workers to the collector.
    pub queue: usize,
    /// Rows of flows and records that wait for the end of their interval.
    pub rows: usize,
    /// Names of hosts, from answers of DNS.
    pub names: usize,
    /// Rows and names that wait to be written into the store.
    pub store: usize,
    /// Packets that wait for the writers of files of packets.
    pub dumps: usize,
}

impl Division {
    /// Divides `memory` bytes.
    ///
    /// # Errors
    /// When the plan's functions leave too little for packets: what would be enough.
    pub fn new(memory: usize, work: &Work) -> Result<Self, String> {
        Self::divide(memory, work).ok_or_else(|| {
            let step = 16 * MIB;
            let mut enough = memory.next_multiple_of(step);
            while Self::divide(enough, work).is_none() {
                enough += step;
            }
            format!(
                "charts and lists take {} of memory, which is too much of {}: ask for fewer lines or rows, or for \
                 --memory {}",
                bytes(work.lists),
                bytes(memory),
                bytes(enough)
            )
        })
    }

    /// `None` where lists leave less than an eighth for the rest.
    fn divide(memory: usize, work: &Work) -> Option<Self> {
        // A plan may grow while it runs. What it takes beyond that, all others have less.
        let lists = work.lists.max(memory / 16);
        let rest = (memory + memory / 16).checked_sub(lists).filter(|rest| *rest >= memory / 8 + 4 * MIB)?;
        let fixed = Self {
            flows: 0,
            sessions: 0,
            lists,
            ring: if work.is_live { rest / 4 } else { 0 },
            packets: if work.is_live { rest / 64 } else { (rest / 16).min(24 * MIB) },
            queue: (rest / 32).min(16 * MIB),
            rows: (rest / 8).min(64 * MIB),
            names: (rest / 32).min(16 * MIB),
            store: if work.has_store { (rest / 16).min(64 * MIB) } else { 0 },
            dumps: rest / 16 * work.dumps,
        };
        // What allocators and stacks take beside what is asked of them, and the page caches of SQLite.
        let caches = if work.has_store { (memory / 16).min(4 * MIB) } else { 0 };
        let slack = 2 * MIB + (memory / 16).min(8 * MIB) + caches;
        let left = memory.checked_sub(slack + fixed.all())?;
        // A flow that is read takes half as much again for its stream and its parser; links end flows by the clock.
        let (flows, sessions) = match (work.is_read, work.is_live) {
            (false, _) => (left, 0),
            (true, true) => (left / 2, left / 2),
            (true, false) => (left / 5 * 2, left / 5 * 3),
        };
        Some(Self { flows, sessions, ..fixed })
    }

    /// All shares together.
    fn all(&self) -> usize {
        let Self { flows, sessions, lists, ring, packets, queue, rows, names, store, dumps } = *self;
        flows + sessions + lists + ring + packets + queue + rows + names + store + dumps
    }
}

/// Rows that a list of the summary has, of those it has at most: the same for every number of workers.
pub fn list_rows(memory: usize, most: usize) -> usize {
    let rows = most as u128 * memory.min(FULL_LISTS) as u128 / FULL_LISTS as u128;
    (rows as usize / 8 * 8).max(most.min(128))
}

/// Bytes for people.
pub fn bytes(bytes: usize) -> String {
    format!("{}M", bytes.div_ceil(MIB))
}

/// How full the collector is.
#[derive(Clone, Copy, Debug, Default)]
pub struct Load {
    /// Messages that wait for it.
    pub messages: usize,
    /// Messages that can.
    pub max_messages: usize,
    /// Bytes of messages that wait for it.
    pub queued: usize,
    /// Bytes of rows and records that wait for the end of their interval.
    pub waiting: usize,
    /// Bytes of names of hosts.
    pub names: usize,
    /// Names of hosts that were forgotten to make room.
    pub names_shed: u64,
    /// Bytes that sessions, streams and fragments take.
    pub sessions: usize,
}

/// An owner's share.
#[derive(Clone, Debug)]
pub struct Share {
    /// The owner.
    pub table: &'static str,
    /// What it is for.
    pub help: &'static str,
    /// The most bytes that it takes.
    pub limit: usize,
    /// Bytes of one row of it, or of all of it where that does not change.
    pub each: u64,
    /// Bytes of it that are in use; `None` where that is not counted.
    pub used: Option<fn(&Snapshot, &Load, &Share) -> u64>,
    /// What it refused, or dropped to make room.
    pub shed: fn(&Snapshot, &Load) -> u64,
}

impl Share {
    /// Bytes in use.
    pub fn used(&self, total: &Snapshot, load: &Load) -> Option<u64> {
        self.used.map(|used| used(total, load, self).min(self.limit as u64))
    }
}

impl Division {
    /// The shares, for those who look at them.
    pub fn shares(&self, work: &Work) -> Vec<Share> {
        // A small table has rows of the same size.
        let table = FlowTable::new(&FlowConfig { memory: 1 << 20, ..FlowConfig::default() }).stats();
        let shares = [
            Share {
                table: "flows",
                help: "Open flows. When it is full, a flow that was not used lately ends early.",
                limit: self.flows,
                each: table.memory / table.capacity.max(1),
                used: Some(|total, _, share| total.flows.active() * share.each),
                shed: |total, _| total.flows.evicted,
            },
            Share {
                table: "streams",
                help: "Streams and fragments that are put together, and parsers. A flow that finds no room is skipped.",
                limit: self.sessions,
                each: 1,
                used: Some(|_, load, _| load.sessions as u64),
                shed: |total, _| {
                    let sessions = &total.sessions;
                    sessions.skipped + sessions.stopped + sessions.abandoned + sessions.fragments_shed
                },
            },
            Share {
                table: "lists",
                help: "Charts, top lists and other functions, and their results on the way to outputs. Fixed by the plan.",
                limit: self.lists,
                each: work.lists as u64,
                used: Some(|_, _, share| share.each),
                shed: |_, _| 0,
            },
            Share {
                table: "ring",
                help: "Where the kernel puts packets until a worker takes them. When it is full, packets are dropped.",
                limit: self.ring,
                each: 1,
                used: None,
                shed: |total, _| total.ledger.capture.dropped,
            },
            Share {
                table: "packets",
                help: "Packets of files under way between workers.",
                limit: self.packets,
                each: 1,
                used: None,
                shed: |_, _| 0,
            },
            Share {
                table: "queue",
                help: "Results on their way from workers to outputs. When it is full, a link's rows are dropped.",
                limit: self.queue,
                each: 1,
                used: Some(|_, load, _| load.queued as u64),
                shed: |total, _| total.ledger.rows_shed,
            },
            Share {
                table: "rows",
                help: "Rows of flows and records that wait for the end of their interval. When it is full, they are written before.",
                limit: self.rows,
                each: 1,
                used: Some(|_, load, _| load.waiting as u64),
                shed: |_, _| 0,
            },
            Share {
                table: "names",
                help: "Names of hosts from answers of DNS. When it is full, the oldest is forgotten.",
                limit: self.names,
                each: 1,
                used: Some(|_, load, _| load.names as u64),
                shed: |_, load| load.names_shed,
            },
            Share {
                table: "store",
                help: "Rows and names that wait to be written into the store.",
                limit: self.store,
                each: 1,
                used: None,
                shed: |_, _| 0,
            },
            Share {
                table: "dumps",
                help: "Packets that wait for the writer of -w or --unidentified. When it is full, a link's are dropped.",
                limit: self.dumps,
                each: 1,
                used: None,
                shed: |total, _| total.ledger.packets_unwritten + total.sessions.unidentified_packets_lost,
            },
        ];
        shares.into_iter().filter(|share| share.limit > 0).collect()
    }
}

/// The shares as `-v` shows them.
pub fn table(shares: &[Share], total: &Snapshot, load: &Load) -> String {
    let mut text = String::from("\nMemory\n");
    let _ = writeln!(text, "  {:<24} {:>14} {:>14} {:>14}", "share, in KiB", "limit", "used", "refused");
    for share in shares {
        let used = share.used(total, load).map_or("-".to_owned(), |used| count(used >> 10));
        let limit = count(share.limit as u64 >> 10);
        let _ = writeln!(
            text,
            "  {:<24} {limit:>14} {used:>14} {:>14}",
            share.table,
            count((share.shed)(total, load))
        );
    }
    text
}

/// Bytes that several threads may have under way together.
#[derive(Debug)]
pub struct Room {
    limit: usize,
    used: Mutex<usize>,
    freed: Condvar,
}

/// Bytes of a [`Room`], given back when it is dropped.
#[derive(Debug)]
pub struct Charge {
    room: Arc<Room>,
    bytes: usize,
}

impl Room {
    /// Room for so many bytes, and for one thing of any size.
    pub fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self { limit, used: Mutex::default(), freed: Condvar::new() })
    }

    fn used_bytes(&self) -> MutexGuard<'_, usize> {
        // It is a number: whoever panicked has left it whole.
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes in use.
    pub fn used(&self) -> usize {
        *self.used_bytes()
    }

    /// Takes bytes, and waits until there is room for them.
    pub fn wait(self: &Arc<Self>, bytes: usize) -> Charge {
        let mut used = self.used_bytes();
        while *used > 0 && *used + bytes > self.limit {
            used = self.freed.wait(used).unwrap_or_else(PoisonError::into_inner);
        }
        *used += bytes;
        Charge { room: Arc::clone(self), bytes }
    }

    /// Takes bytes; `None` where there is no room for them.
    pub fn attempt(self: &Arc<Self>, bytes: usize) -> Option<Charge> {
        let mut used = self.used_bytes();
        if *used > 0 && *used + bytes > self.limit {
            return None;
        }
        *used += bytes;
        Some(Charge { room: Arc::clone(self), bytes })
    }
}

impl Room {
    /// Takes bytes, whether there is room for them or not.
    pub fn take(self: &Arc<Self>, bytes: usize) -> Charge {
        *self.used_bytes() += bytes;
        Charge { room: Arc::clone(self), bytes }
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        *self.room.used_bytes() -= self.bytes;
        self.room.freed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_all_of_the_memory_and_no_more() {
        for memory in [16, 64, 512, 1024, 64 * 1024].map(|number| number * MIB) {
            for (is_live, is_read, has_store) in
                [(false, false, false), (false, true, false), (true, true, true), (true, false, false)]
            {
                let work = Work { is_live, is_read, has_store, dumps: 1, lists: memory / 20 };
                let division = Division::new(memory, &work).unwrap();
                assert!(division.all() <= memory, "{memory} {work:?} {division:?}");
                assert!(division.all() + memory / 8 + 3 * MIB >= memory, "{memory} {work:?} {division:?}");
                assert_eq!(division.sessions > 0, is_read);
                let shares = division.shares(&work);
                assert_eq!(shares.iter().map(|share| share.limit).sum::<usize>(), division.all());
            }
        }
    }

    #[test]
    fn lists_that_leave_nothing_are_refused_with_what_would_be_enough() {
        let work = Work { is_live: true, is_read: true, has_store: true, dumps: 0, lists: 100 * MIB };
        let error = Division::new(128 * MIB, &work).unwrap_err();
        let (_, enough) = error.rsplit_once("--memory ").unwrap();
        let enough: usize = enough.trim_end_matches('M').parse().unwrap();
        Division::new(enough * MIB, &work).unwrap();
        Division::new((enough - 16) * MIB, &work).unwrap_err();
    }

    #[test]
    fn lists_of_the_summary_shrink_with_the_memory() {
        assert_eq!([16, 64, 512, 4096].map(|n| list_rows(n * MIB, 8192)), [256, 1024, 8192, 8192]);
        assert_eq!(list_rows(16 * MIB, 256), 128);
    }

    #[test]
    fn room_is_given_back_and_waited_for() {
        let room = Room::new(100);
        let first = room.attempt(200).unwrap();
        assert!(room.attempt(1).is_none());
        let waits = Arc::clone(&room);
        let thread = std::thread::spawn(move || drop(waits.wait(60)));
        drop(first);
        thread.join().unwrap();
        assert_eq!(room.used(), 0);
        let (a, b) = (room.attempt(60), room.attempt(41));
        assert!(a.is_some() && b.is_none());
    }
}
