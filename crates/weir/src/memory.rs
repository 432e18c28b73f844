//! Division of `--memory` into shares, and their use.
//!
//! Everything that grows with traffic or with the plan has a share here, under one name. Each owner stays within its
//! share and counts what it refuses. The program without traffic (its code, the buffers of its files) needs up to 24
//! MiB in addition.

use std::fmt::Write;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use weir_api::Snapshot;
use weir_flow::{FlowConfig, FlowTable};
use weir_output::figures::count;

const MIB: usize = 1 << 20;
/// The memory with which the lists of the summary have all their rows. With less memory they have proportionally
/// fewer.
pub const FULL_LISTS: usize = 512 * MIB;

/// The parts of a run that need memory.
#[derive(Clone, Copy, Debug)]
pub struct Work {
    /// Whether packets come from a link, which needs rings.
    pub is_live: bool,
    /// Whether streams are reassembled and parsed.
    pub is_read: bool,
    /// Whether protocols are identified.
    pub is_named: bool,
    /// Whether the run has a store.
    pub has_store: bool,
    /// Whether the run has pages.
    pub has_pages: bool,
    /// Number of packet files to write.
    pub dumps: usize,
    /// Whether packets are kept for triggers.
    pub has_triggers: bool,
    /// Bytes that are set for these packets; `None` for the share of [`prerolls`].
    pub trigger_memory: Option<usize>,
    /// Bytes that the functions of the plan need: see [`weir_engine::Plan::memory`].
    pub lists: usize,
}

/// The shares of a run's memory: bytes for each owner.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Division {
    /// Flow tables of all workers.
    pub flows: usize,
    /// Streams, fragments and parsers of all workers.
    pub sessions: usize,
    /// Functions of the plan, their readings, and copies of readings on the way to the outputs.
    pub lists: usize,
    /// Rings of all workers.
    pub ring: usize,
    /// Packets of files on their way between workers.
    pub packets: usize,
    /// Messages from workers to the collector.
    pub queue: usize,
    /// Rows of flows and records until the end of their interval.
    pub rows: usize,
    /// Host names from DNS answers.
    pub names: usize,
    /// Open events.
    pub events: usize,
    /// Rows and names to be written into the store.
    pub store: usize,
    /// Packets in the queues to the writers of packet files.
    pub dumps: usize,
    /// Answers to clients of the pages: their rows, and what queries count.
    pub answers: usize,
    /// The latest packets of all workers, for triggers.
    pub prerolls: usize,
}

/// Bytes of the packets that are kept for triggers, with those on the way to a file, of those that are left for flows, streams
/// and them.
pub fn prerolls(left: usize) -> usize {
    (left / 3).min(72 * MIB)
}

impl Division {
    /// Divides `memory` bytes.
    ///
    /// # Errors
    /// The plan's functions leave too little for packets: the message has a sufficient size. Or what is set for triggers leaves too little
    /// for flows and streams: the message has what may be set.
    pub fn new(memory: usize, work: &Work) -> Result<Self, String> {
        let division = Self::divide(memory, work).ok_or_else(|| {
            let step = 16 * MIB;
            let mut enough = memory.next_multiple_of(step);
            while Self::divide(enough, work).is_none() {
                enough += step;
            }
            format!(
                "charts and lists take {} of memory, which is too much of {}: use fewer lines or rows, or \
                 --memory {}",
                bytes(work.lists),
                bytes(memory),
                bytes(enough)
            )
        })?;
        match work.trigger_memory.filter(|set| work.has_triggers && *set > division.prerolls) {
            None => Ok(division),
            Some(set) => Err(format!(
                "trigger_memory = {} is too much of {}: flows and streams leave {} at most, so use less, or a larger --memory",
                bytes(set),
                bytes(memory),
                bytes(division.prerolls / MIB * MIB)
            )),
        }
    }

    /// `None` if lists leave less than an eighth for the rest.
    fn divide(memory: usize, work: &Work) -> Option<Self> {
        // A plan may grow while it runs, on a link by several lists with sketches, unless memory is short. What it needs beyond
        // this reduces all other shares.
        let growth = if work.is_live { memory / 8 } else { memory / 32 };
        let sizes = [growth, memory / 32, 0].map(|growth| (work.lists + growth).max(memory / 16));
        sizes.into_iter().find_map(|lists| Self::with_lists(memory, work, lists))
    }

    /// Divides `memory` bytes, of which this many are for lists; `None` if they leave less than an eighth for the rest.
    fn with_lists(memory: usize, work: &Work, lists: usize) -> Option<Self> {
        let rest = (memory + memory / 16).checked_sub(lists)?;
        if rest < memory / 8 + 4 * MIB {
            return None;
        }
        let fixed = Self {
            flows: 0,
            sessions: 0,
            lists,
            ring: if work.is_live { rest / 4 } else { 0 },
            packets: if work.is_live { rest / 64 } else { (rest / 16).min(24 * MIB) },
            queue: (rest / 32).min(16 * MIB),
            rows: (rest / 8).min(64 * MIB),
            names: (rest / 32).min(16 * MIB),
            events: (rest / 64).min(4 * MIB),
            store: if work.has_store { (rest / 16).min(64 * MIB) } else { 0 },
            dumps: rest / 16 * work.dumps,
            answers: if work.has_pages { (rest / 16).min(64 * MIB) } else { 0 },
            prerolls: 0,
        };
        // Overhead of allocators and stacks beyond the requested memory, and the page caches of the database.
        let caches =
            if work.has_store { (memory / 16).min(2 * MIB) + weir_store::cached(fixed.store) } else { 0 };
        let slack = 2 * MIB + (memory / 16).min(8 * MIB) + caches;
        let left = memory.checked_sub(slack + fixed.all())?;
        let prerolls = match work.trigger_memory {
            _ if !work.has_triggers => 0,
            None => prerolls(left),
            // A third of it is for flows and streams, whatever is set.
            Some(set) => set.min(left / 3 * 2),
        };
        let left = left - prerolls;
        // A parsed flow needs half as much again for its stream and its parser; on links the clock ends flows.
        let (flows, sessions) = match (work.is_read, work.is_live) {
            // Only the first bytes of a flow are kept to identify its protocol.
            (false, _) if work.is_named => (left / 4 * 3, left / 4),
            (false, _) => (left, 0),
            (true, true) => (left / 2, left / 2),
            (true, false) => (left / 5 * 2, left / 5 * 3),
        };
        Some(Self { flows, sessions, prerolls, ..fixed })
    }

    /// Sum of all shares in bytes.
    fn all(&self) -> usize {
        let Self { flows, sessions, lists, ring, packets, queue, .. } = *self;
        let Self { rows, names, events, store, dumps, answers, prerolls, .. } = *self;
        let first = flows + sessions + lists + ring + packets + queue;
        first + rows + names + events + store + dumps + answers + prerolls
    }
}

/// Bytes of addresses that a run needs beside its `--memory`: the program without traffic.
const BESIDE: usize = 24 * MIB;
/// Bytes of addresses of a thread: its stack and its allocator.
const OF_THREAD: usize = 4 * MIB;

/// Checks that the system would give a run its memory, of which most is taken as traffic comes: a limit on addresses
/// (`ulimit -v`) or on commitments would end the process in the middle of its work. Nothing is kept.
///
/// # Errors
/// The memory is not to be had. The message names the option.
pub fn available(memory: usize, workers: usize) -> Result<(), String> {
    let all =
        memory.saturating_add(BESIDE).saturating_add(workers.saturating_add(4).saturating_mul(OF_THREAD));
    let mut attempt: Vec<u8> = Vec::new();
    attempt.try_reserve_exact(all).map_err(|_| {
        format!(
            "the system does not give {} to this process, {} of it for --memory: use a smaller --memory, or raise the \
             limit of the process (`ulimit -v`, LimitAS=)",
            bytes(all),
            bytes(memory)
        )
    })
}

/// Number of rows of a summary list whose maximum is `most`, independent of the number of workers.
pub fn list_rows(memory: usize, most: usize) -> usize {
    let rows = most as u128 * memory.min(FULL_LISTS) as u128 / FULL_LISTS as u128;
    (rows as usize / 8 * 8).max(most.min(128))
}

/// A number of bytes with a readable unit.
pub fn bytes(bytes: usize) -> String {
    format!("{}M", bytes.div_ceil(MIB))
}

/// Usage of the collector's memory.
#[derive(Clone, Copy, Debug, Default)]
pub struct Load {
    /// Messages in the queue.
    pub messages: usize,
    /// Maximum number of messages in the queue.
    pub max_messages: usize,
    /// Bytes of messages in the queue.
    pub queued: usize,
    /// Bytes of rows and records that wait for the end of their interval.
    pub waiting: usize,
    /// Bytes of host names.
    pub names: usize,
    /// Host names that were removed to make room.
    pub names_shed: u64,
    /// Bytes of sessions, streams and fragments.
    pub sessions: usize,
    /// Bytes of open events.
    pub events: usize,
}

/// An owner's share.
#[derive(Clone, Debug)]
pub struct Share {
    /// The owner.
    pub table: &'static str,
    /// Description of its use.
    pub help: &'static str,
    /// Maximum bytes.
    pub limit: usize,
    /// Bytes of one row, or of the whole share if it is fixed.
    pub each: u64,
    /// Bytes in use; `None` if not counted.
    pub used: Option<fn(&Snapshot, &Load, &Share) -> u64>,
    /// Number of items that were refused, or removed to make room.
    pub shed: fn(&Snapshot, &Load) -> u64,
}

impl Share {
    /// Bytes in use.
    pub fn used(&self, total: &Snapshot, load: &Load) -> Option<u64> {
        self.used.map(|used| used(total, load, self).min(self.limit as u64))
    }
}

impl Division {
    /// The shares, for display.
    pub fn shares(&self, work: &Work) -> Vec<Share> {
        // A small table has rows of equal size.
        let table = FlowTable::new(&FlowConfig { memory: 1 << 20, ..FlowConfig::default() }).stats();
        let shares = [
            Share {
                table: "flows",
                help: "Open flows. When it is full, a flow without recent packets is evicted.",
                limit: self.flows,
                each: table.memory / table.capacity.max(1),
                used: Some(|total, _, share| total.flows.active() * share.each),
                shed: |total, _| total.flows.evicted,
            },
            Share {
                table: "streams",
                help: "Reassembly of streams and fragments, and parsers. When it is full, further flows are skipped.",
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
                help: "Charts, top lists and other functions, and their results on the way to outputs. Determined by the plan.",
                limit: self.lists,
                each: work.lists as u64,
                used: Some(|_, _, share| share.each),
                shed: |_, _| 0,
            },
            Share {
                table: "ring",
                help: "Packets from the kernel until a worker takes them. When it is full, packets are dropped.",
                limit: self.ring,
                each: 1,
                used: None,
                shed: |total, _| total.ledger.capture.dropped,
            },
            Share {
                table: "packets",
                help: "Packets of files on their way between workers.",
                limit: self.packets,
                each: 1,
                used: None,
                shed: |_, _| 0,
            },
            Share {
                table: "queue",
                help: "Results on their way from workers to outputs. When it is full, the rows of a live run are shed.",
                limit: self.queue,
                each: 1,
                used: Some(|_, load, _| load.queued as u64),
                shed: |total, _| total.ledger.rows_shed,
            },
            Share {
                table: "rows",
                help: "Rows of flows and records that wait for the end of their interval. When it is full, they are written earlier.",
                limit: self.rows,
                each: 1,
                used: Some(|_, load, _| load.waiting as u64),
                shed: |_, _| 0,
            },
            Share {
                table: "names",
                help: "Host names from DNS answers. When it is full, the oldest are removed.",
                limit: self.names,
                each: 1,
                used: Some(|_, load, _| load.names as u64),
                shed: |_, load| load.names_shed,
            },
            Share {
                table: "events",
                help: "Open events. When it is full, further findings are counted and belong to no event.",
                limit: self.events,
                each: 1,
                used: Some(|_, load, _| load.events as u64),
                shed: |total, _| total.event_count.shed,
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
                table: "answers",
                help: "Answers to clients of the pages: their rows, and what queries count. When it is full, answers of many rows wait, and are refused after 30 s, and queries leave out what they have no memory for and say so.",
                limit: self.answers,
                each: 1,
                used: None,
                shed: |_, _| 0,
            },
            Share {
                table: "dumps",
                help: "Packets that wait for the writer of -w or --unidentified. When it is full, the packets of a live run are shed.",
                limit: self.dumps,
                each: 1,
                used: None,
                shed: |total, _| total.ledger.packets_unwritten + total.sessions.unidentified_packets_lost,
            },
            Share {
                table: "triggers",
                help: "The latest packets, so that files of triggers begin before their events. The oldest leave.",
                limit: self.prerolls,
                each: 1,
                used: None,
                shed: |_, _| 0,
            },
        ];
        shares.into_iter().filter(|share| share.limit > 0).collect()
    }
}

/// The table of shares that `-v` prints.
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

/// A limit on the bytes that several threads together may have on their way.
#[derive(Debug)]
pub struct Room {
    limit: usize,
    used: Mutex<Used>,
    freed: Condvar,
}

/// What of a [`Room`] is in use.
#[derive(Debug, Default)]
struct Used {
    bytes: usize,
    /// Threads that wait for room. Where none does, none is woken, which saves a system call for each message.
    waiting: usize,
}

/// Bytes of a [`Room`], returned when the value is dropped.
#[derive(Debug)]
pub struct Charge {
    room: Arc<Room>,
    bytes: usize,
}

impl Room {
    /// Room for `limit` bytes. One message of any size fits into an empty room.
    pub fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self { limit, used: Mutex::default(), freed: Condvar::new() })
    }

    fn in_use(&self) -> MutexGuard<'_, Used> {
        // The values are numbers, which a panic cannot leave inconsistent.
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Maximum number of bytes.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Bytes in use.
    pub fn used(&self) -> usize {
        self.in_use().bytes
    }

    /// Takes bytes, and waits until they fit.
    pub fn wait(self: &Arc<Self>, bytes: usize) -> Charge {
        let mut used = self.in_use();
        while used.bytes > 0 && used.bytes + bytes > self.limit {
            used.waiting += 1;
            used = self.freed.wait(used).unwrap_or_else(PoisonError::into_inner);
            used.waiting -= 1;
        }
        used.bytes += bytes;
        Charge { room: Arc::clone(self), bytes }
    }

    /// Takes bytes; `None` if they do not fit.
    pub fn attempt(self: &Arc<Self>, bytes: usize) -> Option<Charge> {
        let mut used = self.in_use();
        if used.bytes > 0 && used.bytes + bytes > self.limit {
            return None;
        }
        used.bytes += bytes;
        Some(Charge { room: Arc::clone(self), bytes })
    }
}

impl Room {
    /// Takes bytes even if they do not fit.
    pub fn take(self: &Arc<Self>, bytes: usize) -> Charge {
        self.in_use().bytes += bytes;
        Charge { room: Arc::clone(self), bytes }
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        let mut used = self.room.in_use();
        used.bytes -= self.bytes;
        if used.waiting > 0 {
            self.room.freed.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_use_the_memory_and_do_not_exceed_it() {
        for memory in [16, 64, 512, 1024, 64 * 1024].map(|number| number * MIB) {
            for (is_live, is_read, has_store) in
                [(false, false, false), (false, true, false), (true, true, true), (true, false, false)]
            {
                let work = Work {
                    is_live,
                    is_read,
                    is_named: has_store,
                    has_store,
                    has_pages: has_store,
                    dumps: 1,
                    has_triggers: is_live,
                    trigger_memory: (has_store && memory >= 512 * MIB).then_some(memory / 16),
                    lists: memory / 20,
                };
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
    fn lists_that_leave_too_little_are_refused_with_a_sufficient_size() {
        let work = Work {
            is_live: true,
            is_read: true,
            is_named: true,
            has_store: true,
            has_pages: true,
            dumps: 0,
            has_triggers: true,
            trigger_memory: None,
            lists: 100 * MIB,
        };
        let error = Division::new(128 * MIB, &work).unwrap_err();
        let (_, enough) = error.rsplit_once("--memory ").unwrap();
        let enough: usize = enough.trim_end_matches('M').parse().unwrap();
        Division::new(enough * MIB, &work).unwrap();
        Division::new((enough - 16) * MIB, &work).unwrap_err();
    }

    #[test]
    fn what_is_set_for_triggers_is_kept_or_refused_with_what_may_be_set() {
        let work = |trigger_memory: Option<usize>, has_triggers| Work {
            is_live: true,
            is_read: true,
            is_named: true,
            has_store: true,
            has_pages: true,
            dumps: 0,
            has_triggers,
            trigger_memory,
            lists: 20 * MIB,
        };
        let memory = 512 * MIB;
        let of = |set| Division::new(memory, &work(Some(set), true));
        assert_eq!(of(64 * MIB).unwrap().prerolls, 64 * MIB);
        let error = of(400 * MIB).unwrap_err();
        let (_, most) = error.split_once("leave ").unwrap();
        let most: usize = most.split_once("M at most").unwrap().0.parse().unwrap();
        let division = of(most * MIB).unwrap();
        assert!(division.prerolls == most * MIB && division.all() <= memory);
        assert!(division.flows + division.sessions >= division.prerolls / 2);
        of((most + 1) * MIB).unwrap_err();
        // Without triggers nothing is kept.
        assert_eq!(Division::new(memory, &work(Some(400 * MIB), false)).unwrap().prerolls, 0);
    }

    #[test]
    fn lists_of_the_summary_shrink_with_the_memory() {
        assert_eq!([16, 64, 512, 4096].map(|n| list_rows(n * MIB, 8192)), [256, 1024, 8192, 8192]);
        assert_eq!(list_rows(16 * MIB, 256), 128);
    }

    #[test]
    fn a_charge_waits_for_room_and_returns_it() {
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
