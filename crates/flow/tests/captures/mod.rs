//! Runs captures through a flow table.

#![allow(dead_code, clippy::print_stdout, reason = "each test uses a part, and reports what it ran")]

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::path::{Path, PathBuf};
use weir_capture::{Files, Input, ReadOptions};
use weir_flow::{FlowConfig, FlowRecord, FlowSink, FlowStats, FlowTable, IpTunnel, OddSegment, Tally};
use weir_wire::{FlowKey, Layers, Packet, PacketBuf, decode};

/// The folder of shared captures. Prints a note and returns `None` if it is absent.
pub fn data(folder: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data").join(folder);
    if path.exists() {
        return Some(path);
    }
    println!("skipped: ../shared/data is absent");
    None
}

/// Keeps all output of a table.
#[derive(Default)]
pub struct Kept {
    pub records: Vec<FlowRecord>,
    /// Packets and bytes of all tallies, without flows that carry others.
    pub tallied: (u64, u64),
    /// Packets and bytes of the tallies of each flow, by its key.
    pub tallied_by_key: HashMap<FlowKey, (u64, u64)>,
    /// Tallies that began a flow.
    pub begun: u64,
    pub tunnels: Vec<IpTunnel>,
    /// What is odd about segments, each time.
    pub odd: Vec<OddSegment>,
}

impl FlowSink for Kept {
    fn end(&mut self, record: &FlowRecord) {
        self.records.push(*record);
    }

    fn tunnel(&mut self, tunnel: &IpTunnel) {
        self.tunnels.push(*tunnel);
    }

    fn asks_oddities(&self) -> bool {
        true
    }

    fn odd(&mut self, odd: &OddSegment) {
        self.odd.push(*odd);
    }

    fn tally(&mut self, tally: &Tally<'_>) {
        assert!(tally.packets > 0);
        self.begun += u64::from(tally.begins);
        if !tally.carrier {
            self.tallied.0 += tally.packets;
            self.tallied.1 += tally.bytes;
            let of_flow = self.tallied_by_key.entry(*tally.key).or_default();
            of_flow.0 += tally.packets;
            of_flow.1 += tally.bytes;
        }
    }
}

/// Every capture below a folder.
pub fn every_capture(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        if path.is_dir() {
            every_capture(&path, found);
        } else if path.extension().is_some_and(|ext| ext.to_string_lossy().contains("cap")) {
            found.push(path);
        }
    }
}

/// Reads all packets of a capture; empty if it cannot be read.
pub fn read(path: &Path) -> PacketBuf {
    let mut all = PacketBuf::default();
    let Ok(mut files) = Files::open(&[Input::Path(path.to_owned())], &ReadOptions::default()) else {
        return all;
    };
    let mut chunk = PacketBuf::default();
    loop {
        match files.fill(&mut chunk) {
            Ok(true) => chunk.batch().packets().for_each(|packet| all.push(&packet)),
            Ok(false) => return all,
            Err(_) => {}
        }
    }
}

/// Runs the packets that `keep` selects through a table, and drains it.
pub fn run(
    chunk: &PacketBuf,
    config: &FlowConfig,
    keep: impl Fn(&Packet<'_>, &Layers) -> bool,
) -> (Kept, FlowStats) {
    let mut table = FlowTable::new(config);
    let mut kept = Kept::default();
    let batch = chunk.batch();
    let mut slots = Vec::new();
    let mut layers = Vec::new();
    for slot in batch.slots {
        let packet = batch.packet(slot);
        let decoded = decode(&packet);
        if keep(&packet, &decoded) {
            slots.push(*slot);
            layers.push(decoded);
        }
    }
    table.batch(weir_wire::Batch { bytes: batch.bytes, slots: &slots }, &layers, &mut kept);
    table.drain(&mut kept);
    let stats = table.stats();
    assert_eq!(stats.created, stats.ended);
    assert_eq!(stats.active, 0);
    (kept, stats)
}

/// An address for display.
pub fn address(bytes: [u8; 16]) -> IpAddr {
    Ipv6Addr::from(bytes).to_canonical()
}
