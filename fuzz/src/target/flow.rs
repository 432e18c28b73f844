use super::{Digest, HEADERS};
use crate::{Target, seeds, sequence};
use weir_flow::{EndReason, FlowConfig, FlowRecord, FlowSink, FlowTable, Tally, VerifiedChecksums};
use weir_wire::{Batch, Layers, decode};

pub const TARGET: Target = Target {
    name: "flow",
    about: "a byte that chooses the table, and a sequence of packets: every packet is in one record and in the tallies",
    seeds: seeds::chosen_sequences,
    words: HEADERS,
    run,
};

/// Output of a table.
#[derive(Default)]
struct Sums {
    records: u64,
    ended: u64,
    packets: u64,
    bytes: u64,
    tallied_packets: u64,
    tallied_bytes: u64,
    begun: u64,
    digest: Digest,
}

impl FlowSink for Sums {
    fn end(&mut self, record: &FlowRecord) {
        self.records += 1;
        self.ended += u64::from(record.end != EndReason::Active);
        self.packets += record.forward.packets + record.reverse.packets;
        self.bytes += record.forward.frame_bytes + record.reverse.frame_bytes;
        assert!(record.last >= record.first, "{record:?}");
        record.community_id(0);
        self.digest.add(record.state as u64 * 8 + record.end as u64);
        record.history.as_str().bytes().for_each(|byte| self.digest.add(byte.into()));
    }

    fn tally(&mut self, tally: &Tally<'_>) {
        assert!(tally.packets > 0 || tally.begins, "an empty tally: {tally:?}");
        self.tallied_packets += tally.packets;
        self.tallied_bytes += tally.bytes;
        self.begun += u64::from(tally.begins);
    }
}

fn run(input: &[u8]) -> u64 {
    let Some((&kind, input)) = input.split_first() else { return 0 };
    let config = FlowConfig {
        memory: if kind & 1 == 0 { 64 << 10 } else { 1 << 20 },
        vlan: kind & 2 != 0,
        checksums: match (kind & 4, kind & 64) {
            (0, _) => VerifiedChecksums::None,
            (_, 0) => VerifiedChecksums::All,
            _ => VerifiedChecksums::Tcp,
        },
        guess_initiator: kind & 8 == 0,
        active: if kind & 16 == 0 { u64::MAX } else { 60_000_000_000 },
        ..FlowConfig::default()
    };
    let chunk = sequence::decode(input);
    let layers: Vec<Layers> = chunk.batch().packets().map(|packet| decode(&packet)).collect();
    let mut table = FlowTable::new(&config);
    let mut sums = Sums::default();
    let each = if kind & 32 == 0 { 256 } else { 7 };
    for (slots, layers) in chunk.slots.chunks(each).zip(layers.chunks(each)) {
        table.batch(Batch { bytes: &chunk.bytes, slots }, layers, &mut sums);
        if let Some(last) = slots.last() {
            table.tick(last.time, &mut sums);
            table.roll_up(&mut sums);
        }
        let stats = table.stats();
        assert_eq!(stats.created, stats.ended + stats.active);
        assert!(stats.active <= stats.capacity, "{stats:?}");
    }
    table.drain(&mut sums);
    let stats = table.stats();
    assert_eq!(stats.active, 0, "{stats:?}");
    assert_eq!((stats.created, stats.by_reason.iter().sum::<u64>()), (sums.ended, sums.records), "{stats:?}");
    assert_eq!((sums.tallied_packets, sums.tallied_bytes), (sums.packets, sums.bytes), "tallies and records");
    assert!(stats.packets <= chunk.slots.len() as u64, "{stats:?}");
    sums.digest.size(sums.records);
    sums.digest.add(sums.begun.min(4));
    sums.digest.0
}
