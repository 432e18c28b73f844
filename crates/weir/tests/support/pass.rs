//! One pass over a capture in the test's process: the work of `weir`'s workers without threads, fast enough for a
//! thousand captures.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use weir_api::{FunctionCall, Interval, Level, Snapshot, SubscriptionSpec};
use weir_capture::{Files, Input, InterfaceInfo, ReadOptions};
use weir_engine::{
    ChecksumMode, Emitted, FUNCTIONS, FlowConfig, FlowIdentity, FlowRecord, IntervalClock, Plan, Settings,
    Sink, Stretch, Worker, fields,
};
use weir_filter::Options;
use weir_filter::fields::{FieldInfo, Fields};
use weir_wire::{Batch, Direction, FlowKey, LinkType, Packet, PacketBuf, Slot, Time, decode, steer_hash};

use super::support::{HANGS, captures};

/// A capture in memory.
pub struct Loaded {
    /// Packets.
    pub chunks: Vec<PacketBuf>,
    /// Interfaces.
    pub interfaces: Vec<InterfaceInfo>,
}

impl Loaded {
    /// Reads a capture up to its end or its first error.
    pub fn read(path: &Path) -> Loaded {
        let mut chunks = Vec::new();
        let Ok(mut files) = Files::open(&[Input::Path(path.to_owned())], &ReadOptions::default()) else {
            return Loaded { chunks, interfaces: Vec::new() };
        };
        loop {
            let mut chunk = PacketBuf::default();
            match files.fill(&mut chunk) {
                Ok(true) => chunks.push(chunk),
                Ok(false) => break,
                Err(_) => {}
            }
        }
        Loaded { chunks, interfaces: files.interfaces().to_vec() }
    }

    /// The capture with VLAN tags on its Ethernet frames, in all ways that occur within a flow: one tag on all
    /// packets, another in each direction, changing tags, one packet with another tag, and none.
    pub fn tagged(&self) -> Loaded {
        let mut chunks = Vec::new();
        for chunk in &self.chunks {
            let mut out = PacketBuf::default();
            for (nth, packet) in chunk.batch().packets().enumerate() {
                let header = packet.data.split_at_checked(12).filter(|_| packet.link == LinkType::ETHERNET);
                let Some((addresses, rest)) = header else {
                    out.push(&packet);
                    continue;
                };
                let layers = decode(&packet);
                let (way, is_lower) = match FlowKey::of(&packet, &layers) {
                    Some((key, is_lower)) => {
                        (key.port[0] ^ key.port[1] ^ u16::from(key.addr[0][15]), is_lower)
                    }
                    None => (nth as u16, true),
                };
                let ids: &[u16] = match way % 5 {
                    0 => &[5],
                    1 if is_lower => &[5],
                    1 => &[6],
                    2 => [&[5][..], &[7], &[5, 6], &[0], &[]][nth % 5],
                    3 => &[6, 5],
                    _ => &[],
                };
                let tags = ids.iter().flat_map(|id| [[0x81, 0], id.to_be_bytes()].concat());
                let data: Vec<u8> =
                    addresses.iter().copied().chain(tags).chain(rest.iter().copied()).collect();
                out.push(&Packet { data: &data, wire_len: packet.wire_len + 4 * ids.len() as u32, ..packet });
            }
            chunks.push(out);
        }
        Loaded { chunks, interfaces: self.interfaces.clone() }
    }

    /// Its packets, in order.
    pub fn packets(&self) -> impl Iterator<Item = Packet<'_>> {
        self.chunks.iter().flat_map(|chunk| chunk.batch().packets().collect::<Vec<_>>())
    }

    /// Length of an interval that splits the capture into about `parts` intervals.
    pub fn interval(&self, parts: u64) -> u64 {
        let times = || self.packets().map(|packet| packet.time.0);
        let span = times().max().unwrap_or_default() - times().min().unwrap_or_default();
        span / parts + 1
    }

    /// Bytes with which no flow table of any worker is ever full.
    pub fn ample_memory(&self) -> usize {
        (self.len() as usize * (128 << 10)).clamp(8 << 20, 256 << 20)
    }

    /// Number of packets.
    pub fn len(&self) -> u64 {
        self.chunks.iter().map(|chunk| chunk.slots.len() as u64).sum()
    }
}

/// Applies a law to every available capture. A capture that takes too long ends the test with its name.
pub fn each_capture(law: impl Fn(&Path, &Loaded)) -> usize {
    let (emit, hear) = channel::<PathBuf>();
    let watch = thread::spawn(move || {
        let mut at = PathBuf::new();
        loop {
            match hear.recv_timeout(HANGS) {
                Ok(path) => at = path,
                Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) => {
                    eprintln!("hangs on {}", at.display());
                    std::process::abort();
                }
            }
        }
    });
    let captures = captures();
    for path in &captures {
        emit.send(path.clone()).expect("the watching thread runs");
        let named = Named(path);
        law(path, &Loaded::read(path));
        drop(named);
    }
    drop(emit);
    watch.join().expect("the watching thread ends");
    captures.len()
}

/// Prints the name of the capture if the law fails on it.
struct Named<'a>(&'a Path);

impl Drop for Named<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("on {}", self.0.display());
        }
    }
}

/// The result of a pass.
#[derive(Default)]
pub struct Outcome {
    /// The merged snapshot of each interval.
    pub snapshots: Vec<Snapshot>,
    /// The flows of each interval, in order.
    pub rows: Vec<FlowRecord>,
    /// Number of packets that matched the run's expression.
    pub kept: u64,
    /// Chunks of streams that were delivered: their flow, their direction, and their bytes.
    pub chunks: Vec<(FlowIdentity, Direction, usize)>,
}

impl Outcome {
    /// All snapshots, merged.
    pub fn total(&self) -> Snapshot {
        self.snapshots.iter().fold(Snapshot::default(), |mut total, snapshot| {
            total.merge(snapshot);
            total
        })
    }
}

#[derive(Default)]
struct Rows(Vec<FlowRecord>, u64, Vec<(FlowIdentity, Direction, usize)>);

impl Sink for Rows {
    fn take(&mut self, emitted: Emitted<'_>) {
        match emitted {
            Emitted::Flow(flow, _) => self.0.push(*flow),
            Emitted::Matching(packets) => self.1 += packets.len() as u64,
            Emitted::Chunk(flow, chunk, _) => self.2.push((*flow, chunk.direction, chunk.data.len())),
            _ => {}
        }
    }
}

/// Several workers, each with its part of every buffer.
pub struct Pass {
    workers: Vec<Worker>,
    rows: Rows,
    outcome: Outcome,
}

impl Pass {
    /// `workers` workers for a plan, each with `memory` bytes for its flows.
    pub fn new(plan: &Arc<Plan>, workers: usize, memory: usize) -> Pass {
        // Each worker has a different hash seed, which has no effect on results.
        let flows = |n: u64| FlowConfig { memory, seed: [n, !n], ..FlowConfig::default() };
        let workers = (0..workers as u64).map(|n| Worker::new(Arc::clone(plan), &flows(n))).collect();
        Pass { workers, rows: Rows::default(), outcome: Outcome::default() }
    }

    /// Runs a capture through, with intervals of `interval` nanoseconds. Calls `between` with the workers at the end
    /// of each.
    pub fn run(mut self, capture: &Loaded, interval: u64, mut between: impl FnMut(&mut [Worker])) -> Outcome {
        let mut clock = IntervalClock::new(interval);
        let mut current: Option<Stretch> = None;
        for chunk in &capture.chunks {
            let owners = self.owners(chunk);
            let mut from = 0;
            for (at, slot) in chunk.slots.iter().enumerate() {
                let Some(begins) = clock.observe(slot.time) else { continue };
                self.show(chunk, &owners, from..at);
                from = at;
                let Some(ended) = current.replace(begins) else { continue };
                self.end(Some(ended), |worker, rows| match begins.is_later {
                    true => worker.tick(Time(ended.interval.end), rows),
                    false => worker.hand_over(rows),
                });
                if begins.is_later {
                    self.pass_silence(begins.silence(), interval.max(1));
                }
                between(&mut self.workers);
            }
            self.show(chunk, &owners, from..chunk.slots.len());
        }
        self.end(current, |worker, rows| worker.finish(rows));
        self.outcome.kept = self.rows.1;
        self.outcome.chunks = std::mem::take(&mut self.rows.2);
        self.outcome
    }

    fn owners(&self, chunk: &PacketBuf) -> Vec<usize> {
        let owner = |packet| steer_hash(&packet, &decode(&packet)) as usize % self.workers.len();
        chunk.batch().packets().map(owner).collect()
    }

    fn show(&mut self, chunk: &PacketBuf, owners: &[usize], range: std::ops::Range<usize>) {
        for (index, worker) in self.workers.iter_mut().enumerate() {
            let mine = range.clone().filter(|at| owners[*at] == index);
            let slots: Vec<Slot> = mine.map(|at| chunk.slots[at]).collect();
            worker.batch(Batch { bytes: &chunk.bytes, slots: &slots }, &mut self.rows);
        }
    }

    /// Lets each worker pass the intervals of a silence in which something is due for it.
    fn pass_silence(&mut self, silence: Interval, length: u64) {
        let mut parts: BTreeMap<u64, (Snapshot, Vec<FlowRecord>)> = BTreeMap::new();
        for worker in &mut self.workers {
            let mut left = silence;
            while let Some(interval) = worker.next_due(left, length) {
                left.start = interval.end;
                let snapshot = worker.pass_silence(interval, &mut self.rows);
                let (merged, rows) = parts.entry(interval.start).or_default();
                merged.merge(&snapshot);
                rows.append(&mut self.rows.0);
            }
        }
        for (mut merged, mut rows) in parts.into_values() {
            merged.fill();
            rows.sort_by_key(|row| (row.first, row.key));
            self.outcome.rows.extend(rows);
            self.outcome.snapshots.push(merged);
        }
    }

    fn end(&mut self, of: Option<Stretch>, mut end: impl FnMut(&mut Worker, &mut Rows) -> Snapshot) {
        let mut merged = Snapshot::default();
        for worker in &mut self.workers {
            let mut snapshot = end(worker, &mut self.rows);
            snapshot.interval = of.map(|stretch| stretch.interval).unwrap_or_default();
            snapshot.watched = of.map(|stretch| stretch.watched);
            merged.merge(&snapshot);
        }
        merged.fill();
        merged.ledger.capture.offered = merged.ledger.caught;
        let mut rows = std::mem::take(&mut self.rows.0);
        rows.sort_by_key(|row| (row.first, row.key));
        self.outcome.rows.extend(rows);
        self.outcome.snapshots.push(merged);
    }
}

/// The fields of records, and the content of each file that is a list.
pub struct RecordFields(pub &'static [u8]);

impl Fields for RecordFields {
    fn tables(&self) -> Vec<&'static str> {
        fields::tables()
    }

    fn names(&self, table: &str) -> Vec<&'static str> {
        fields::names(table)
    }

    fn find(&self, table: &str, name: &str) -> Result<Option<FieldInfo>, String> {
        Ok(fields::find(table, name).map(|(info, _)| info))
    }

    fn time(&self, _text: &str) -> Result<f64, String> {
        Err("a time".to_owned())
    }

    fn list(&self, _path: &str) -> Result<Vec<u8>, String> {
        Ok(self.0.to_vec())
    }
}

/// Settings for the plans of these tests.
pub fn settings() -> Settings {
    // All hosts are watched.
    const LISTS: &RecordFields = &RecordFields(b"0.0.0.0/0\n10.0.0.0/8\n::/0\nexample.org\n");
    let filter = Options { fields: Some(LISTS), ..Options::default() };
    Settings {
        filter,
        checksum: ChecksumMode::Auto,
        seeds: 1_u64.into(),
        chosen: None,
        own_apps: Default::default(),
        rules: None,
    }
}

/// Every function at every level that it supports, over all packets and, at packet level, also over some packets.
pub fn everything() -> Vec<SubscriptionSpec> {
    let mut specs = Vec::new();
    for function in FUNCTIONS {
        for level in function.levels {
            for (n, call) in calls(function.name, *level).into_iter().enumerate() {
                // Two choices of an argument are enough for a part of the packets.
                let some = n < 2 && *level == Level::Packet;
                let expressions = if some { &["", "tcp or udp port 53"][..] } else { &[""] };
                for expression in expressions {
                    let name = format!("{:?} {level:?} {expression}", call.arguments);
                    let spec = SubscriptionSpec::new(&name, expression, vec![call.clone()]);
                    specs.push(SubscriptionSpec { level: *level, ..spec });
                }
            }
        }
    }
    let line = |name: &str, expression: &str, remainder| SubscriptionSpec {
        chart: Some("chart".to_owned()),
        remainder,
        ..SubscriptionSpec::new(name, expression, vec![FunctionCall::new("packets")])
    };
    specs.extend([line("tcp", "tcp", false), line("udp", "udp", false), line("xtra", "", true)]);
    specs
}

fn calls(name: &str, level: Level) -> Vec<FunctionCall> {
    let call = FunctionCall::new(name);
    let choices: (&str, &[&str]) = match (name, level) {
        ("top", level) => {
            let by = ["source", "port", "pair", "flow", "protocol", "vlan", "talker", "service"];
            let by = &by[..if level == Level::Packet { by.len() } else { 2 }];
            // Enough rows for every key of these captures.
            return by.iter().map(|by| call.clone().with("by", by).with("rows", 4096)).collect();
        }
        ("distribution", Level::Packet) => ("of", &["size", "payload", "ttl"]),
        ("distribution", Level::Flow) => ("of", &["packets", "bytes", "duration"]),
        ("distinct", _) => ("of", &["hosts", "flows", "sources", "destinations", "pairs", "ports"]),
        ("applications", _) => ("by", &["port", "server"]),
        ("apps", _) => ("by", &["host", "application"]),
        ("fanout", _) => ("by", &["addresses", "ports", "vertical", "horizontal"]),
        ("icmperror", _) => ("by", &["drawn", "sent", "service"]),
        ("tcp3", _) => return vec![call.with("port1", 80).with("port2", 443)],
        ("iprange", _) => return vec![call.with("net1", "10.0.0.0/8").with("net2", "192.168.0.0/16")],
        ("event", Level::Flow) => return vec![call.with("name", "found").with("rows", 4096)],
        ("flood", _) => return vec![call.with("rows", 4096)],
        // A host may be in two entries.
        ("watch", _) => return vec![call.with("file", "bad.txt").with("rows", 16384)],
        ("log", _) => return vec![call.with("to", "rows")],
        ("write", level) => return vec![call.with("to", format!("{level:?}.pcap"))],
        // With a threshold it has no state: it judges what the function before it measured.
        ("event", _) => return Vec::new(),
        _ => return vec![call],
    };
    choices.1.iter().map(|value| call.clone().with(choices.0, value)).collect()
}

/// The time of a packet, and all its properties in which two files must agree.
pub fn content<'a>(packet: &Packet<'a>) -> (Time, u32, weir_wire::LinkType, &'a [u8]) {
    (packet.time, packet.wire_len, packet.link, packet.data)
}
