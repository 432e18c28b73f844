//! Where what the functions of a plan deliver goes: a table of destinations by the numbers of their answers, which is made and removed
//! with the plan. Each worker has a copy, with buffers of its own. Each destination has a writer on a thread, and a row of the ledger.

use crate::carve::Carver;
use crate::decisions::Decisions;
use crate::delivered::Delivered;
use crate::drive::WhenFull;
use crate::dump::{FileSpec, ForFile, Has, Intake, Mark, Parcel};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use weir_api::{AnswerId, Level, SessionCount, Snapshot};
use weir_engine::DecidedFlow;
use weir_filter::PacketMask;
use weir_proto::Record;
use weir_wire::{Batch, PacketBuf, Time};

/// Bytes of packets after which a worker of a run over files sends them.
const PARCEL: usize = 256 << 10;

/// The destinations of the functions of a plan. A copy is for a worker.
#[derive(Clone, Default)]
pub struct Routes {
    /// The packet files of functions that deliver at packet level, and of those whose packets leave late.
    pub packets: [PacketRoutes; 2],
    /// The logs, whose rows the collector writes.
    pub logs: LogRoutes,
    /// The directories of files.
    pub directories: Vec<DirectoryRoute>,
}

/// What is counted of the log of each function. Several functions may deliver to one log.
#[derive(Clone, Default)]
pub struct LogRoutes(Arc<[(AnswerId, Arc<Delivered>)]>);

impl LogRoutes {
    /// Those of functions.
    pub fn new(logs: impl IntoIterator<Item = (AnswerId, Arc<Delivered>)>) -> Self {
        let mut logs: Vec<(AnswerId, Arc<Delivered>)> = logs.into_iter().collect();
        logs.sort_unstable_by_key(|(function, _)| *function);
        Self(logs.into())
    }

    /// Whether no function delivers to a log.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn of(&self, function: &AnswerId) -> Option<&Arc<Delivered>> {
        let at = self.0.binary_search_by_key(function, |(function, _)| *function).ok()?;
        self.0.get(at).map(|(_, delivered)| delivered)
    }

    /// Counts a row once for each log that these functions deliver it to. Returns whether there is one.
    pub fn count(&self, functions: &[AnswerId], count: impl Fn(&Delivered)) -> bool {
        match functions {
            [] => false,
            [one] => self.of(one).map(|delivered| count(delivered)).is_some(),
            [one, other] => match (self.of(one), self.of(other)) {
                (Some(one), Some(other)) if !Arc::ptr_eq(one, other) => {
                    count(one);
                    count(other);
                    true
                }
                (one, other) => one.or(other).map(|delivered| count(delivered)).is_some(),
            },
            many => {
                let mut all: Vec<&Arc<Delivered>> = many.iter().filter_map(|id| self.of(id)).collect();
                all.sort_unstable_by_key(|delivered| Arc::as_ptr(delivered));
                all.dedup_by_key(|delivered| Arc::as_ptr(delivered));
                all.iter().for_each(|delivered| count(delivered));
                !all.is_empty()
            }
        }
    }
}

/// A directory of files, at one worker.
#[derive(Clone)]
pub struct DirectoryRoute {
    /// The functions, by the numbers of their answers.
    pub functions: Arc<[AnswerId]>,
    /// The writer of its files.
    pub carver: Carver,
}

impl Routes {
    /// Changes to other directories of functions. Files that have not ended in those that end are not kept, nor are those that have
    /// begun by directories that are new. Returns the counts of directories of all files that ended.
    fn follow_directories(&mut self, others: &[DirectoryRoute], worker: usize) -> SessionCount {
        let begun: HashSet<u64> = self.directories.iter().flat_map(|one| one.carver.begun()).collect();
        let mut before = std::mem::take(&mut self.directories);
        for other in others {
            let mine = before.iter().position(|mine| mine.carver.is_of(&other.carver));
            let mut route = mine.map_or_else(
                || {
                    let mut new = other.clone();
                    begun.iter().for_each(|file| new.carver.refuse(*file));
                    new
                },
                |at| before.swap_remove(at),
            );
            route.functions = Arc::clone(&other.functions);
            route.carver.set_worker(worker);
            self.directories.push(route);
        }
        let follows = self.directories.iter().any(|route| route.carver.is_whole());
        let ended = before.into_iter().filter(|route| route.carver.is_whole());
        let mut count = SessionCount::default();
        ended.for_each(|route| count.add(&route.carver.end(follows)));
        count
    }

    /// All that keep files.
    fn carvers(&mut self) -> impl Iterator<Item = &mut Carver> {
        self.directories.iter_mut().map(|route| &mut route.carver)
    }

    /// Adds the counts of the directories of all files since the last call.
    pub fn count_files(&mut self, count: &mut SessionCount) {
        let whole = self.carvers().filter(|carver| carver.is_whole());
        whole.for_each(|carver| count.add(&carver.take_count()));
    }

    /// Keeps nothing of a file whose flow has too many.
    pub fn withhold(&mut self, file: u64) {
        self.carvers().for_each(|carver| carver.withhold(file));
    }

    /// Takes bytes of a file for all that keep files. Returns whether any of them has kept the whole file so far.
    pub fn content(&mut self, packet: u32, file: u64, offset: u64, bytes: &[u8]) -> bool {
        let kept = self.carvers().map(|carver| carver.content(packet, file, offset, bytes));
        kept.fold(None, |any, is_kept| Some(any.unwrap_or(false) | is_kept)).unwrap_or(true)
    }

    /// Ends a file with its record: the functions that deliver the record keep the file in their directories.
    pub fn end_file(&mut self, record: &mut Record<'_>, functions: &[AnswerId]) {
        for DirectoryRoute { functions: these, carver } in &mut self.directories {
            match functions.iter().any(|id| these.contains(id)) {
                true => carver.close(record),
                false => carver.discard(record),
            }
        }
    }

    /// All packets of a worker of a run over files before the one of a number were taken.
    pub fn reach(&mut self, packet: u32) {
        self.carvers().for_each(|carver| carver.reach(packet));
    }

    /// Sets the worker of this copy.
    pub fn set_worker(&mut self, worker: usize) {
        self.carvers().for_each(|carver| carver.set_worker(worker));
    }

    /// Changes to the destinations of another plan, between two packets of a worker. Returns the counts of directories of all files
    /// that ended.
    pub fn follow(&mut self, others: &Routes, worker: usize) -> SessionCount {
        for (mine, other) in self.packets.iter_mut().zip(&others.packets) {
            mine.follow(other);
        }
        self.logs = others.logs.clone();
        self.follow_directories(&others.directories, worker)
    }
}

/// All packets of a worker of a live run up to a time were sent to a writer that orders them by time.
fn reach(intake: Option<&Intake>, worker: usize, time: Time) {
    if let Some(intake) = intake.filter(|intake| intake.is_by_time()) {
        // Without room, a later time has the same effect.
        intake.offer(Parcel { worker, packets: Vec::new(), mark: Mark::UpTo(time) });
    }
}

/// The packet files of the functions of a plan at one worker.
#[derive(Clone, Default)]
pub struct PacketRoutes {
    /// The writer of the files; `None` while there are none.
    pub intake: Option<Intake>,
    /// The file of each function, by the number of its answer.
    pub files: Arc<HashMap<AnswerId, Arc<FileSpec>>>,
    /// The flows whose packets go to the files, if the packets may be read again.
    pub decisions: Option<Arc<Decisions>>,
    /// Packets that have not been sent.
    unsent: Unsent,
    /// Packets shed since the last snapshot, by what their file has.
    shed: Shed,
}

/// Numbers of packets that were shed on the way to a writer and are in the counts of an interval. What functions with an
/// expression deliver is in the counts of their file alone.
#[derive(Clone, Copy, Default)]
struct Shed {
    matching: u64,
    unidentified: u64,
}

impl Shed {
    fn add(&mut self, parcel: &Parcel) {
        for one in &parcel.packets {
            let number = one.packets.slots.len() as u64;
            one.file.delivered.shed(number);
            match one.file.has {
                Has::Matching => self.matching += number,
                Has::Unidentified => self.unidentified += number,
                Has::Selected => {}
            }
        }
    }
}

/// The levels at which the packets of [`Routes::packets`] leave: at once, and late.
pub const LEVELS: [Level; 2] = [Level::Packet, Level::Flow];

/// Packets of one worker by the number of their file: a copy for another worker has none.
#[derive(Default)]
struct Unsent {
    files: BTreeMap<u32, ForFile>,
    bytes: usize,
}

impl Clone for Unsent {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl PacketRoutes {
    /// Changes to the files of another plan. What a run over files has not sent is sent: its plan does not change.
    fn follow(&mut self, other: &PacketRoutes) {
        self.intake.clone_from(&other.intake);
        self.files = Arc::clone(&other.files);
    }

    /// Copies packets of a worker for the files of functions, each with a mask of the packets. A live run sheds those for which
    /// the writer has no room. A packet is once in a file, whatever the number of functions that deliver it there.
    pub fn take(
        &mut self,
        worker: usize,
        packets: Batch<'_>,
        functions: &[(AnswerId, PacketMask)],
        when_full: WhenFull,
    ) {
        let Self { intake: Some(intake), files, unsent, shed, .. } = self else { return };
        let mut masks: BTreeMap<u32, (&Arc<FileSpec>, PacketMask)> = BTreeMap::new();
        for (id, mask) in functions {
            let Some(file) = files.get(id) else { continue };
            let (_, all) = masks.entry(file.number).or_insert((file, PacketMask::default()));
            all.iter_mut().zip(mask).for_each(|(all, word)| *all |= word);
        }
        for (number, (file, mask)) in masks {
            let ForFile { packets: copy, .. } = unsent
                .files
                .entry(number)
                .or_insert_with(|| ForFile { file: Arc::clone(file), packets: PacketBuf::default() });
            let (slots, bytes) = (copy.slots.len(), copy.bytes.len());
            for (word, slots) in mask.iter().zip(packets.slots.chunks(64)) {
                let mut bits = *word;
                while let Some(slot) = slots.get(bits.trailing_zeros() as usize) {
                    copy.push(&packets.packet(slot));
                    bits &= bits - 1;
                }
            }
            file.delivered.offer((copy.slots.len() - slots) as u64);
            unsent.bytes += copy.bytes.len() - bytes;
        }
        match when_full {
            WhenFull::Wait if unsent.bytes < PARCEL => {}
            WhenFull::Wait => intake.send(unsent.parcel(worker, Mark::More)),
            WhenFull::Shed if unsent.files.is_empty() => {}
            WhenFull::Shed => {
                let refused = intake.offer(unsent.parcel(worker, Mark::More));
                refused.iter().for_each(|parcel| shed.add(parcel));
            }
        }
    }

    /// Adds the packets shed since the last call to the counts of an interval.
    pub fn count_shed(&mut self, snapshot: &mut Snapshot) {
        let Shed { matching, unidentified } = std::mem::take(&mut self.shed);
        snapshot.ledger.packets_unwritten += matching;
        let sessions = &mut snapshot.sessions;
        // Packets that are emitted in an interval are shed in that interval or not at all.
        sessions.unidentified_packets = sessions.unidentified_packets.saturating_sub(unidentified);
        sessions.unidentified_packets_lost += unidentified;
    }

    /// Counts packets of a flow before a decision that are held no more.
    pub fn miss(&self, id: AnswerId, packets: u64) {
        if let Some(file) = self.files.get(&id) {
            file.delivered.miss(packets);
        }
    }

    /// Remembers that the packets of a flow go to a file.
    pub fn decide(&self, flow: &DecidedFlow) {
        if let Some(decisions) = self.decisions.as_ref().filter(|_| self.files.contains_key(&flow.id)) {
            decisions.remember(flow);
        }
    }

    /// Ends the round of a worker of a run over files.
    pub fn end_round(&mut self, worker: usize) {
        let Self { intake, unsent, .. } = self;
        if let Some(intake) = intake {
            intake.send(unsent.parcel(worker, Mark::EndsRound));
        }
    }

    /// All packets of a worker of a live run up to a time were taken.
    pub fn reach(&self, worker: usize, time: Time) {
        reach(self.intake.as_ref(), worker, time);
    }
}

impl Unsent {
    /// The packets, as a parcel.
    fn parcel(&mut self, worker: usize, mark: Mark) -> Parcel {
        self.bytes = 0;
        Parcel { worker, packets: std::mem::take(&mut self.files).into_values().collect(), mark }
    }
}
