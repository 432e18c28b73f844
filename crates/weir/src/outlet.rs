//! Outlets: the ways by which packets leave a run. Each has a writer on a thread, and its row of the ledger.

use crate::carve::Carver;
use crate::decisions::Decisions;
use crate::delivered::Delivered;
use crate::drive::WhenFull;
use crate::dump::{FileSpec, ForFile, Intake, Mark, Parcel};
use jiff::tz::TimeZone;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use weir_api::{AnswerId, Level, SessionCount, Snapshot};
use weir_capture::Rotate;
use weir_engine::DecidedFlow;
use weir_filter::PacketMask;
use weir_proto::Record;
use weir_wire::{Batch, PacketBuf, Time};

/// Bytes of packets after which a worker of a run over files sends them.
const PARCEL: usize = 256 << 10;

/// The packet files of a run, and how the files of -w follow each other.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct PacketFiles {
    /// Name of the file of matching packets.
    pub write: Option<String>,
    /// Seconds after which a new file begins.
    pub seconds: Option<u64>,
    /// Bytes before which a new file begins.
    pub bytes: Option<u64>,
    /// Number of files.
    pub files: Option<u32>,
    /// Name of the file of packets of unidentified flows.
    pub unidentified: Option<String>,
}

impl PacketFiles {
    /// The rotation of the file of matching packets.
    pub fn rotation(&self, zone: TimeZone) -> Rotate {
        Rotate { seconds: self.seconds, bytes: self.bytes, files: self.files, zone }
    }
}

/// Identifies an outlet within a run.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum OutletId {
    /// Packets that match the expression of the run: `-w`.
    Matching,
    /// Packets of flows without an identified protocol: `--unidentified`.
    Unidentified,
}

/// What leaves by an outlet, and how it is counted.
pub struct OutletSpec {
    /// Identifier.
    pub id: OutletId,
    /// The option that opens it.
    pub option: &'static str,
    /// The name of its file.
    pub file: fn(&PacketFiles) -> Option<&str>,
    /// What leaves, for the summary.
    pub what: &'static str,
    /// The level at which it is decided whether a packet leaves. At flow level it is decided later than the packet is seen.
    pub level: Level,
    /// Whether the options of rotation apply.
    pub rotates: bool,
    /// Adds packets that were shed on the way to the writer to the counts of an interval.
    pub count_shed: fn(&mut Snapshot, u64),
}

impl OutletSpec {
    /// Whether its file and how it rotates are the same in both.
    pub fn is_same(&self, a: &PacketFiles, b: &PacketFiles) -> bool {
        let rotation = |files: &PacketFiles| (files.seconds, files.bytes, files.files);
        (self.file)(a) == (self.file)(b) && (!self.rotates || rotation(a) == rotation(b))
    }
}

/// Packets that match the expression of the run.
pub static MATCHING: OutletSpec = OutletSpec {
    id: OutletId::Matching,
    option: "-w",
    file: |files| files.write.as_deref(),
    what: "packets",
    level: Level::Packet,
    rotates: true,
    count_shed: |snapshot, shed| snapshot.ledger.packets_unwritten += shed,
};

/// Packets of flows without an identified protocol.
pub static UNIDENTIFIED: OutletSpec = OutletSpec {
    id: OutletId::Unidentified,
    option: "--unidentified",
    file: |files| files.unidentified.as_deref(),
    what: "packets of unidentified flows",
    level: Level::Flow,
    rotates: false,
    count_shed: |snapshot, shed| {
        let sessions = &mut snapshot.sessions;
        // Packets that are emitted in an interval are shed in that interval or not at all.
        sessions.unidentified_packets = sessions.unidentified_packets.saturating_sub(shed);
        sessions.unidentified_packets_lost += shed;
    },
};

/// All outlets.
pub static OUTLETS: [&OutletSpec; 2] = [&MATCHING, &UNIDENTIFIED];

/// An outlet at one worker.
#[derive(Clone)]
pub struct Outlet {
    /// What leaves by it.
    pub spec: &'static OutletSpec,
    /// The writer and its file; `None` while packets do not leave.
    to: Option<(Intake, Arc<FileSpec>)>,
    /// Packets of a run over files that have not been sent.
    packets: Packets,
    /// Packets shed since the last snapshot.
    shed: u64,
}

/// Packets of one worker: a copy for another worker has none.
#[derive(Default)]
struct Packets(PacketBuf);

impl Clone for Packets {
    fn clone(&self) -> Self {
        Self::default()
    }
}

/// The ways by which packets and files leave a live run. A copy is for a worker.
#[derive(Clone, Default)]
pub struct Ways {
    /// The outlets of packets.
    pub outlets: Vec<Outlet>,
    /// The packet files of functions that deliver, at packet level and at the levels at which packets leave late.
    pub targets: [TargetOutlet; 2],
    /// What is counted of the log of each function, by the number of its answer.
    pub logs: Arc<HashMap<AnswerId, Arc<Delivered>>>,
    /// The writer of files.
    pub carver: Option<Carver>,
    /// The directories of files of functions that deliver.
    pub extracts: Vec<Extract>,
}

/// A directory of files of functions that deliver, at one worker.
#[derive(Clone)]
pub struct Extract {
    /// The functions, by the numbers of their answers.
    pub functions: Arc<[AnswerId]>,
    /// The writer of its files.
    pub carver: Carver,
}

impl Ways {
    /// Changes the writer of matching packets.
    pub fn write_to(&mut self, to: Option<(Intake, Arc<FileSpec>)>) {
        self.outlets.retain(|outlet| outlet.spec.id != OutletId::Matching);
        self.outlets.extend(to.map(|(intake, file)| Outlet::new(&MATCHING, intake, file)));
    }

    /// Changes to other directories of functions. Files that have not ended in those that end are not kept.
    fn follow_extracts(&mut self, others: &[Extract], worker: usize) {
        let mut before = std::mem::take(&mut self.extracts);
        for other in others {
            let mine = before.iter().position(|mine| mine.carver.is_of(&other.carver));
            let mut extract = mine.map_or_else(|| other.clone(), |at| before.swap_remove(at));
            extract.functions = Arc::clone(&other.functions);
            extract.carver.set_worker(worker);
            self.extracts.push(extract);
        }
    }

    /// All that keep files.
    fn carvers(&mut self) -> impl Iterator<Item = &mut Carver> {
        self.carver.iter_mut().chain(self.extracts.iter_mut().map(|extract| &mut extract.carver))
    }

    /// Takes bytes of a file for all that keep files. Returns whether any of them has kept the whole file so far.
    pub fn content(&mut self, packet: u32, file: u64, offset: u64, bytes: &[u8]) -> bool {
        let kept = self.carvers().map(|carver| carver.content(packet, file, offset, bytes));
        kept.fold(None, |any, is_kept| Some(any.unwrap_or(false) | is_kept)).unwrap_or(true)
    }

    /// Ends a file with its record: the functions that deliver the record keep it in their directories.
    pub fn end_file(&mut self, record: &mut Record<'_>, functions: &[AnswerId]) {
        if let Some(carver) = &mut self.carver {
            carver.close(record);
        }
        for Extract { functions: these, carver } in &mut self.extracts {
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

    /// Counts a row for each log that functions deliver it to. Returns whether there is one.
    pub fn count_row(&self, functions: &[AnswerId], count: impl Fn(&Delivered)) -> bool {
        match functions {
            [] => false,
            [one] => self.logs.get(one).map(|delivered| count(delivered)).is_some(),
            many => {
                let mut all: Vec<&Arc<Delivered>> = many.iter().filter_map(|id| self.logs.get(id)).collect();
                all.sort_unstable_by_key(|delivered| Arc::as_ptr(delivered));
                all.dedup_by_key(|delivered| Arc::as_ptr(delivered));
                all.iter().for_each(|delivered| count(delivered));
                !all.is_empty()
            }
        }
    }

    /// Changes to other ways between two packets of a worker. Outlets that end keep what they have to count. Returns the
    /// counts of a writer of files that ended.
    pub fn follow(&mut self, others: &Ways, worker: usize) -> SessionCount {
        self.outlets.iter_mut().for_each(|outlet| outlet.follow(&others.outlets));
        let known: Vec<OutletId> = self.outlets.iter().map(|outlet| outlet.spec.id).collect();
        let new = others.outlets.iter().filter(|outlet| !known.contains(&outlet.spec.id));
        self.outlets.extend(new.cloned());
        for (mine, other) in self.targets.iter_mut().zip(&others.targets) {
            mine.follow(other);
        }
        self.logs = Arc::clone(&others.logs);
        self.follow_extracts(&others.extracts, worker);
        if let (Some(mine), Some(other)) = (&self.carver, &others.carver)
            && mine.is_of(other)
        {
            return SessionCount::default();
        }
        let before = std::mem::replace(&mut self.carver, others.carver.clone());
        match (&mut self.carver, before) {
            (Some(carver), Some(before)) => carver.replace(before),
            (Some(carver), None) => carver.set_worker(worker),
            (None, Some(before)) => return before.end(),
            (None, None) => {}
        }
        SessionCount::default()
    }
}

impl Outlet {
    /// An outlet to a writer.
    pub fn new(spec: &'static OutletSpec, intake: Intake, file: Arc<FileSpec>) -> Self {
        Self { spec, to: Some((intake, file)), packets: Packets::default(), shed: 0 }
    }

    /// Changes the writer of a live run to that of the outlet among these; to none if it is not there.
    fn follow(&mut self, outlets: &[Outlet]) {
        let other = outlets.iter().find(|other| other.spec.id == self.spec.id);
        self.to = other.and_then(|other| other.to.clone());
    }

    /// Copies packets of a worker for the writer. A live run sheds those for which the writer has no room.
    pub fn take(&mut self, worker: usize, packets: Batch<'_>, when_full: WhenFull) {
        let Some((intake, file)) = self.to.as_ref().filter(|_| !packets.is_empty()) else { return };
        let Packets(copy) = &mut self.packets;
        file.delivered.offer(packets.len() as u64);
        packets.packets().for_each(|packet| copy.push(&packet));
        match when_full {
            WhenFull::Wait if copy.bytes.len() < PARCEL => {}
            WhenFull::Wait => self.send(worker, Mark::More),
            WhenFull::Shed => {
                let packets = vec![ForFile { file: Arc::clone(file), packets: std::mem::take(copy) }];
                let shed = intake.offer(Parcel { worker, packets, mark: Mark::More });
                self.shed += shed.map_or(0, |shed| shed.count_shed());
            }
        }
    }

    /// Ends the round of a worker of a run over files.
    pub fn end_round(&mut self, worker: usize) {
        self.send(worker, Mark::EndsRound);
    }

    /// All packets of a worker of a live run up to a time were taken.
    pub fn reach(&self, worker: usize, time: Time) {
        reach(self.to.as_ref().map(|(intake, _)| intake), worker, time);
    }

    fn send(&mut self, worker: usize, mark: Mark) {
        let Packets(packets) = &mut self.packets;
        let Some((intake, file)) = &self.to else { return };
        let packets = vec![ForFile { file: Arc::clone(file), packets: std::mem::take(packets) }];
        intake.send(Parcel { worker, packets, mark });
    }

    /// Adds the packets shed since the last call to the counts of an interval.
    pub fn count_shed(&mut self, snapshot: &mut Snapshot) {
        (self.spec.count_shed)(snapshot, std::mem::take(&mut self.shed));
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
pub struct TargetOutlet {
    /// The writer of the files; `None` while there are none.
    pub intake: Option<Intake>,
    /// The file of each function, by the number of its answer.
    pub files: Arc<HashMap<AnswerId, Arc<FileSpec>>>,
    /// The flows whose packets go to the files, if the packets may be read again.
    pub decisions: Option<Arc<Decisions>>,
    /// Packets that have not been sent.
    unsent: Unsent,
}

/// The levels at which the packets of [`Ways::targets`] leave: at once, and late.
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

impl TargetOutlet {
    /// Changes to the files of another plan. What a run over files has not sent is sent: its plan does not change.
    fn follow(&mut self, other: &TargetOutlet) {
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
        let Self { intake: Some(intake), files, unsent, .. } = self else { return };
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
                let shed = intake.offer(unsent.parcel(worker, Mark::More));
                shed.iter().for_each(|shed| _ = shed.count_shed());
            }
        }
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
