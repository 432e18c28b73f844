//! Outlets: the ways by which packets leave a run. Each has a writer on a thread, and its row of the ledger.

use crate::carve::Carver;
use crate::drive::WhenFull;
use crate::dump::{Intake, Mark, Parcel};
use jiff::tz::TimeZone;
use weir_api::{Level, SessionCount, Snapshot};
use weir_capture::Rotate;
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
    /// The writer; `None` while packets do not leave.
    intake: Option<Intake>,
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
    /// The writer of files.
    pub carver: Option<Carver>,
}

impl Ways {
    /// Changes the writer of matching packets.
    pub fn write_to(&mut self, intake: Option<Intake>) {
        self.outlets.retain(|outlet| outlet.spec.id != OutletId::Matching);
        self.outlets.extend(intake.map(|intake| Outlet::new(&MATCHING, intake)));
    }

    /// Changes to other ways between two packets of a worker. Outlets that end keep what they have to count. Returns the
    /// counts of a writer of files that ended.
    pub fn follow(&mut self, others: &Ways, worker: usize) -> SessionCount {
        self.outlets.iter_mut().for_each(|outlet| outlet.follow(&others.outlets));
        let known: Vec<OutletId> = self.outlets.iter().map(|outlet| outlet.spec.id).collect();
        let new = others.outlets.iter().filter(|outlet| !known.contains(&outlet.spec.id));
        self.outlets.extend(new.cloned());
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
    pub fn new(spec: &'static OutletSpec, intake: Intake) -> Self {
        Self { spec, intake: Some(intake), packets: Packets::default(), shed: 0 }
    }

    /// Changes the writer of a live run to that of the outlet among these; to none if it is not there.
    fn follow(&mut self, outlets: &[Outlet]) {
        let other = outlets.iter().find(|other| other.spec.id == self.spec.id);
        self.intake = other.and_then(|other| other.intake.clone());
    }

    /// Copies packets of a worker for the writer. A live run sheds those for which the writer has no room.
    pub fn take(&mut self, worker: usize, packets: Batch<'_>, when_full: WhenFull) {
        let Some(intake) = self.intake.as_ref().filter(|_| !packets.is_empty()) else { return };
        let Packets(copy) = &mut self.packets;
        packets.packets().for_each(|packet| copy.push(&packet));
        match when_full {
            WhenFull::Wait if copy.bytes.len() < PARCEL => {}
            WhenFull::Wait => self.send(worker, Mark::More),
            WhenFull::Shed => {
                let packets = std::mem::take(copy);
                self.shed += intake.offer(Parcel { worker, packets, mark: Mark::More });
            }
        }
    }

    /// Ends the round of a worker of a run over files.
    pub fn end_round(&mut self, worker: usize) {
        self.send(worker, Mark::EndsRound);
    }

    /// All packets of a worker of a live run up to a time were taken.
    pub fn reach(&self, worker: usize, time: Time) {
        if let Some(intake) = self.intake.as_ref().filter(|intake| intake.is_by_time()) {
            // Without room, a later time has the same effect.
            intake.offer(Parcel { worker, packets: PacketBuf::default(), mark: Mark::UpTo(time) });
        }
    }

    fn send(&mut self, worker: usize, mark: Mark) {
        let Packets(packets) = &mut self.packets;
        let Some(intake) = &self.intake else { return };
        intake.send(Parcel { worker, packets: std::mem::take(packets), mark });
    }

    /// Adds the packets shed since the last call to the counts of an interval.
    pub fn count_shed(&mut self, snapshot: &mut Snapshot) {
        (self.spec.count_shed)(snapshot, std::mem::take(&mut self.shed));
    }
}
