//! Packets of flows that are held until a function over flows or records decides whether they are written.
//!
//! A function writes the packets of whole flows, or those that carry the bytes of records. For the latter each packet is held
//! with the positions of its payload, in the terms of [`Span`].

use crate::decided::{DecidedFlow, DecidedFlows};
use crate::function::block::first;
use crate::history::History;
use crate::sink::{Emitted, Sink};
use crate::target::{Before, Of, Target};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use weir_api::AnswerId;
use weir_filter::PacketMask;
use weir_flow::FlowPacket;
use weir_flow::stream::Streams;
use weir_proto::Span;
use weir_wire::{Batch, Direction, FlowKey, Packet};

/// Files that the packets of records are written to in a plan: a bit of each packet says for each whether it has the packet.
pub(crate) const MAX_OF_RECORDS: usize = 64;

/// A function of a plan that writes packets of flows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Write {
    /// The number of its target in the plan: functions with equal targets have one, in which a packet is once.
    pub target: u32,
    /// The packets that are written.
    pub of: Of,
}

impl Write {
    /// Whether it writes packets before its decision.
    fn asks_before(&self) -> bool {
        self.of != Of::Flow(Before::Packets(0))
    }
}

/// The functions of a plan that write packets of flows.
#[derive(Default)]
pub(crate) struct Writes {
    functions: HashMap<AnswerId, Write>,
    /// The names of their targets, by number.
    targets: Vec<Box<str>>,
    /// Number of those that write packets before the decision.
    asking: usize,
}

impl Writes {
    /// These functions, each with its target.
    pub fn new<'t>(targets: impl Iterator<Item = (AnswerId, &'t Target)>) -> Self {
        let (mut writes, mut known) = (Self::default(), HashMap::new());
        for (id, target) in targets {
            let Target::Packets { of: Some(of), .. } = target else { continue };
            if *of == Of::Unidentified {
                continue;
            }
            let number = *known.entry(target.name()).or_insert_with(|| {
                writes.targets.push(target.name().into());
                writes.targets.len() as u32 - 1
            });
            let write = Write { target: number, of: *of };
            writes.asking += usize::from(write.asks_before());
            writes.functions.insert(id, write);
        }
        writes
    }

    /// Whether no function writes packets of flows.
    pub fn is_empty(&self) -> bool {
        self.functions.is_empty()
    }

    /// The function of that number.
    pub fn get(&self, id: &AnswerId) -> Option<&Write> {
        self.functions.get(id)
    }

    /// Whether a function that is none of these writes packets before its decision.
    fn asks_besides(&self, functions: &[AnswerId]) -> bool {
        let asking = functions.iter().filter_map(|id| self.get(id)).filter(|write| write.asks_before());
        self.asking > asking.count()
    }
}

/// That packets of a flow are to be written by a function, because of a record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Decision {
    /// The flow.
    pub key: FlowKey,
    /// The function.
    pub id: AnswerId,
    /// The bytes that the record stands for.
    pub at: Span,
    /// The number of the packet at which it was complete; 0 if none has one.
    pub packet: u32,
}

/// The positions of a packet's payload in its flow, after the flow's session and streams have read it; empty without payload.
/// `arrived` is the number of bytes of its side that the session has had.
pub(crate) fn carried(seen: &FlowPacket<'_>, arrived: u64, streams: &Streams) -> Range<u64> {
    let (begin, bytes) = if let Some(segment) = seen.segment() {
        let Some(distance) = streams.distance(seen.row, &segment) else { return 0..0 };
        (arrived as i64 + distance, segment.data.len() as u64 + u64::from(segment.cut))
    } else {
        let bytes = seen.datagram().map_or(0, <[u8]>::len) as u64;
        (arrived as i64 - bytes as i64, bytes)
    };
    // What is before the first byte of a stream is not in it.
    let end = begin.saturating_add_unsigned(bytes).max(0) as u64;
    begin.max(0) as u64..end
}

/// What is held with a packet.
#[derive(Clone, Copy)]
struct Note {
    /// The positions of its payload.
    begin: u64,
    bytes: u32,
    side: Direction,
    /// The highest position after a byte of each side that this packet and those of the flow before it carry.
    reach: [u64; 2],
    /// The files of records that have the packet, a bit for each.
    taken: u64,
}

impl Note {
    fn payload(&self) -> Range<u64> {
        self.begin..self.begin + u64::from(self.bytes)
    }

    /// Whether the packet carries any of these bytes.
    fn carries(&self, at: &Span) -> bool {
        overlap(&self.payload(), &at.of(self.side)) > 0
    }

    /// Whether neither the packet nor any of the flow before it carries any of these bytes.
    fn is_before(&self, at: &Span) -> bool {
        SIDES.into_iter().zip(self.reach).all(|(side, reach)| {
            let bytes = at.of(side);
            bytes.is_empty() || reach <= bytes.start
        })
    }
}

const SIDES: [Direction; 2] = [Direction::Forward, Direction::Reverse];

/// The number of bytes that two ranges share.
fn overlap(one: &Range<u64>, other: &Range<u64>) -> u64 {
    one.end.min(other.end).saturating_sub(one.start.max(other.start))
}

/// Packets with payload of one side that the history has not any more.
#[derive(Clone, Debug, Default)]
struct Lost {
    bytes: Range<u64>,
    packets: u64,
}

impl Lost {
    fn add(&mut self, payload: Range<u64>) {
        if payload.is_empty() {
            return;
        }
        self.bytes = match self.bytes.is_empty() {
            true => payload,
            false => self.bytes.start.min(payload.start)..self.bytes.end.max(payload.end),
        };
        self.packets += 1;
    }

    /// The number of them that carry these bytes: exact for all of their bytes, else from their mean size, and at least 1.
    fn of(&self, bytes: &Range<u64>) -> u64 {
        let (shared, all) = (overlap(&self.bytes, bytes), self.bytes.end - self.bytes.start);
        let product = u128::from(self.packets) * u128::from(shared);
        product.div_ceil(u128::from(all.max(1))) as u64
    }
}

/// The files that the packets of records were written to, each with its bit in [`Note::taken`].
struct Files([Option<Box<str>>; MAX_OF_RECORDS]);

impl Files {
    /// The bit of a target. A file that no function of the plan writes gives its bit to another one.
    fn bit(&mut self, target: u32, writes: &Writes, history: &mut History<Note>) -> u64 {
        let Some(name) = writes.targets.get(target as usize) else { return 0 };
        let Self(files) = self;
        if let Some(at) = files.iter().position(|file| file.as_ref() == Some(name)) {
            return 1 << at;
        }
        let is_free =
            |file: &Option<Box<str>>| file.as_ref().is_none_or(|file| !writes.targets.contains(file));
        let Some((at, file)) = files.iter_mut().enumerate().find(|(_, file)| is_free(file)) else { return 0 };
        if file.replace(name.clone()).is_some() {
            history.each_note(|note| note.taken &= !(1 << at));
        }
        1 << at
    }

    /// The bits of all files.
    fn bits(&self) -> u64 {
        let Self(files) = self;
        (0..).zip(files).filter(|(_, file)| file.is_some()).fold(0, |bits, (at, _)| bits | 1 << at)
    }
}

/// The latest packets of each flow, and the functions that write the flow's packets.
pub(crate) struct HeldPackets {
    history: History<Note>,
    files: Files,
    /// By the row of the flow.
    flows: HashMap<u32, HeldFlow>,
    /// The row of each flow.
    rows: HashMap<FlowKey, u32>,
    /// The flows that an earlier pass over the same packets has decided.
    known: Arc<DecidedFlows>,
}

struct HeldFlow {
    key: FlowKey,
    /// The number of its first packet.
    first: u32,
    /// Number of its packets so far.
    packets: u64,
    /// The functions that write its packets.
    functions: Vec<AnswerId>,
    /// Those that will, each with the number of packets before its first one.
    known: Vec<(AnswerId, u64)>,
    /// Packets of the flow so far that the history has not any more.
    missing: u64,
    /// Those of them that carry payload which a file of records may not have, by side.
    lost: [Lost; 2],
    /// The highest position after a byte of each side.
    reach: [u64; 2],
}

impl HeldFlow {
    fn new(key: FlowKey, first: u32, known: &DecidedFlows) -> Self {
        Self {
            key,
            first,
            packets: 0,
            functions: Vec::new(),
            known: known.of(key, first).map(|flow| (flow.id, flow.skipped)).collect(),
            missing: 0,
            lost: Default::default(),
            reach: [0; 2],
        }
    }

    /// Counts the next packet, and adds the known functions that write from it on.
    fn count(&mut self) {
        let Self { packets, functions, known, .. } = self;
        for (id, _) in known.extract_if(.., |(_, skipped)| *skipped <= *packets) {
            if !functions.contains(&id) {
                functions.push(id);
            }
        }
        *packets += 1;
    }

    /// The note of the flow's next packet.
    fn note(&mut self, side: Direction, carried: Range<u64>) -> Note {
        if let Some(reach) = self.reach.get_mut(side as usize).filter(|_| !carried.is_empty()) {
            *reach = carried.end.max(*reach);
        }
        let bytes = u32::try_from(carried.end.saturating_sub(carried.start)).unwrap_or(u32::MAX);
        Note { begin: carried.start, bytes, side, reach: self.reach, taken: 0 }
    }

    /// Takes note of a packet that the history has not any more. `files` are the bits of all files of records.
    fn lose(&mut self, note: &Note, files: u64) {
        self.missing += 1;
        let is_everywhere = files > 0 && note.taken == files;
        if let Some(lost) = self.lost.get_mut(note.side as usize).filter(|_| !is_everywhere) {
            lost.add(note.payload());
        }
    }
}

/// Bytes of memory of a flow without its packets.
const FLOW: usize = size_of::<(u32, HeldFlow)>() + size_of::<(FlowKey, u32)>() + 2 * size_of::<AnswerId>();

impl HeldPackets {
    /// `memory` is the maximum number of bytes of packets, with what is held with them.
    pub fn new(memory: usize) -> Self {
        let files = Files([const { None }; MAX_OF_RECORDS]);
        Self {
            history: History::new(memory),
            files,
            flows: HashMap::new(),
            rows: HashMap::new(),
            known: Arc::default(),
        }
    }

    /// Knows the flows that an earlier pass over the same packets has decided. Call it before the first packet.
    pub fn know(&mut self, known: Arc<DecidedFlows>) {
        self.known = known;
    }

    /// Bytes of memory of flows, without their packets.
    pub fn memory(&self) -> usize {
        self.flows.len() * FLOW
    }

    /// Takes a packet of a flow, which carries these positions of its side. The decisions are those that the packet led to.
    pub fn packet(
        &mut self,
        seen: &FlowPacket<'_>,
        carried: Range<u64>,
        decisions: &mut Vec<Decision>,
        writes: &Writes,
        sink: &mut dyn Sink,
    ) {
        let Self { flows, rows, known, .. } = self;
        flows.entry(seen.row).or_insert_with(|| {
            rows.insert(seen.flow.key, seen.row);
            HeldFlow::new(seen.flow.key, seen.packet.number, known)
        });
        self.decide_on_flows(decisions, writes, sink);
        self.hold(seen, carried, writes, sink);
        // The packet is one of those of the records that it completes.
        self.decide(decisions, writes, sink);
    }

    /// Emits a packet for the functions that write its flow, and holds it if another one may write it later.
    fn hold(&mut self, seen: &FlowPacket<'_>, carried: Range<u64>, writes: &Writes, sink: &mut dyn Sink) {
        let Self { history, flows, files, known, .. } = self;
        let Some(flow) = flows.get_mut(&seen.row) else { return };
        flow.count();
        if !flow.functions.is_empty() {
            emit(&flow.functions, seen.packet, sink);
        }
        let note = flow.note(seen.direction, carried);
        let files = files.bits();
        if known.may_be_others() && writes.asks_besides(&flow.functions) {
            history.push(seen.row, seen.packet, note, &mut |row, note| {
                if let Some(flow) = flows.get_mut(&row) {
                    flow.lose(note, files);
                }
            });
        } else {
            flow.lose(&note, files);
        }
    }

    /// Follows decisions: the packets of each flow or record that are held leave now, as far as the function writes them, and
    /// those of the flow that follow when they are seen.
    pub fn decide(&mut self, decisions: &mut Vec<Decision>, writes: &Writes, sink: &mut dyn Sink) {
        self.decide_on_flows(decisions, writes, sink);
        for decision in decisions.drain(..) {
            self.write_record(&decision, writes, sink);
        }
    }

    /// Follows the decisions on whole flows, and leaves those on records.
    fn decide_on_flows(&mut self, decisions: &mut Vec<Decision>, writes: &Writes, sink: &mut dyn Sink) {
        decisions.retain(|decision| {
            let is_of_record = writes.get(&decision.id).is_some_and(|write| write.of == Of::Record);
            if !is_of_record && let Some(row) = self.rows.get(&decision.key).copied() {
                self.write(row, decision.id, writes, sink);
            }
            is_of_record
        });
    }

    /// A function writes the packets of the flow of a row.
    pub fn write(&mut self, row: u32, id: AnswerId, writes: &Writes, sink: &mut dyn Sink) {
        let Some(Write { target, of: Of::Flow(before) }) = writes.get(&id) else { return };
        let Some(flow) = self.flows.get_mut(&row).filter(|flow| !flow.functions.contains(&id)) else {
            return;
        };
        let is_there =
            flow.functions.iter().any(|other| writes.get(other).is_some_and(|one| one.target == *target));
        flow.functions.push(id);
        if is_there {
            return;
        }
        let held = self.history.of_row(row).0;
        let (skipped, missing) = match *before {
            Before::All => (0, flow.missing),
            Before::Packets(number) => {
                (held.saturating_sub(number), u64::from(number.saturating_sub(held)).min(flow.missing))
            }
        };
        let skipped_so_far = match *before {
            Before::All => 0,
            Before::Packets(number) => flow.packets.saturating_sub(number.into()),
        };
        let decided = DecidedFlow { packet: flow.first, key: flow.key, id, skipped: skipped_so_far };
        sink.take(Emitted::Decided(&decided));
        let mut at = 0;
        self.history.visit(row, |packet, _| {
            if at >= skipped {
                emit(&[id], packet, sink);
            }
            at += 1;
        });
        if missing > 0 {
            sink.take(Emitted::Missing(id, missing));
        }
    }

    /// A function writes the packets so far that carry bytes of a record; of a record without bytes the packet at which it was
    /// complete.
    fn write_record(&mut self, decision: &Decision, writes: &Writes, sink: &mut dyn Sink) {
        let Decision { key, id, at, packet: completed } = decision;
        let (Some(write), Some(row)) = (writes.get(id), self.rows.get(key).copied()) else { return };
        let Self { history, files, flows, .. } = self;
        let bit = files.bit(write.target, writes, history);
        let mut take = |packet: &Packet<'_>, note: &mut Note| {
            if note.taken & bit == 0 {
                note.taken |= bit;
                emit(&[*id], packet, sink);
            }
        };
        if at.is_empty() {
            if *completed == 0 {
                return;
            }
            // Numbers of packets go around.
            let is_before =
                |packet: &Packet<'_>, _: &Note| (packet.number.wrapping_sub(*completed) as i32) < 0;
            history.visit_latest(row, is_before, |packet, note| {
                if packet.number == *completed {
                    take(packet, note);
                }
            });
            return;
        }
        history.visit_latest(
            row,
            |_, note| note.is_before(at),
            |packet, note| {
                if note.carries(at) {
                    take(packet, note);
                }
            },
        );
        let lost = flows.get(&row).map(|flow| &flow.lost).into_iter().flatten();
        let missing: u64 = SIDES.into_iter().zip(lost).map(|(side, lost)| lost.of(&at.of(side))).sum();
        if missing > 0 {
            sink.take(Emitted::Missing(*id, missing));
        }
    }

    /// Ends the flow of a row: no function decides on it any more.
    pub fn end(&mut self, row: u32) {
        if let Some(flow) = self.flows.remove(&row) {
            self.history.take(row, |_| ());
            if self.rows.get(&flow.key) == Some(&row) {
                self.rows.remove(&flow.key);
            }
        }
    }
}

/// Emits a packet for functions.
fn emit(functions: &[AnswerId], packet: &Packet<'_>, sink: &mut dyn Sink) {
    emit_all(functions, crate::history::one(packet, &mut Default::default()), sink);
}

/// Emits packets for functions; at most [`MASK_PACKETS`](weir_filter::MASK_PACKETS) of them.
pub(crate) fn emit_all(functions: &[AnswerId], packets: Batch<'_>, sink: &mut dyn Sink) {
    let mask = first(packets.len());
    let functions: Vec<(AnswerId, PacketMask)> = functions.iter().map(|id| (*id, mask)).collect();
    sink.take(Emitted::Packets(packets, &functions));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FlowIdentity, NamedFile, Place};
    use weir_api::SubscriptionId;
    use weir_flow::stream::{Segment, StreamConfig};
    use weir_wire::{Direction, LinkType, Time, build, decode};

    /// The times of the packets of each function, the packets that are missing, and the decisions.
    #[derive(Default)]
    struct Got(Vec<(u32, u64)>, Vec<(u32, u64)>, Vec<DecidedFlow>);

    impl Sink for Got {
        fn take(&mut self, emitted: Emitted<'_>) {
            match emitted {
                Emitted::Packets(packets, functions) => {
                    let time = packets.slots[0].time.0;
                    self.0.extend(functions.iter().map(|(id, _)| (id.subscription.0, time)));
                }
                Emitted::Missing(id, missing) => self.1.push((id.subscription.0, missing)),
                Emitted::Decided(flow) => self.2.push(*flow),
                _ => {}
            }
        }
    }

    fn id(number: u32) -> AnswerId {
        AnswerId { subscription: SubscriptionId(number), place: 0 }
    }

    fn writes(functions: &[(u32, &str, Before)]) -> Writes {
        let functions = functions.iter().map(|(number, name, before)| (*number, *name, Of::Flow(*before)));
        writes_of(&functions.collect::<Vec<_>>())
    }

    fn writes_of(functions: &[(u32, &str, Of)]) -> Writes {
        let target = |(number, name, of): &(u32, &str, Of)| {
            let file = NamedFile {
                place: Place::Logs,
                name: (*name).into(),
                rotation: crate::Rotation::NEVER,
                files: None,
                snaplen: None,
            };
            (id(*number), Target::Packets { file, of: Some(*of) })
        };
        let targets: Vec<_> = functions.iter().map(target).collect();
        Writes::new(targets.iter().map(|(id, target)| (*id, target)))
    }

    fn key(row: u32) -> FlowKey {
        FlowKey { proto: 17, port: [row as u16, 53], ..Default::default() }
    }

    /// The decision of a function to write the flow of a row.
    fn of_flow(row: u32, number: u32) -> Decision {
        Decision { key: key(row), id: id(number), at: Span::default(), packet: 0 }
    }

    /// A packet of the flow of a row at a time, after which functions decide on the flow.
    fn input(held: &mut HeldPackets, row: u32, time: u64, deciding: &[u32], writes: &Writes, got: &mut Got) {
        let frame = build::ethernet().ipv4([10, 0, 0, 1], [10, 0, 0, 2]).udp(5000, 53).payload(&[7; 900]);
        let packet = Packet { time: Time(time), ..build::packet(&frame, LinkType::ETHERNET) };
        let layers = decode(&packet);
        let flow =
            FlowIdentity { key: key(row), initiator_is_lower: true, first: Time(0), vlan: [0; 2], alias: 0 };
        let seen = FlowPacket { row, flow, direction: Direction::Forward, packet: &packet, layers: &layers };
        let mut decisions = deciding.iter().map(|number| of_flow(row, *number)).collect();
        held.packet(&seen, 0..0, &mut decisions, writes, got);
    }

    #[test]
    fn packets_before_a_decision_and_all_that_follow_are_written() {
        let writes = writes(&[
            (1, "a.pcap", Before::All),
            (2, "b.pcap", Before::Packets(2)),
            (3, "c.pcap", Before::Packets(0)),
            (4, "a.pcap", Before::All),
        ]);
        let (mut held, mut got) = (HeldPackets::new(1 << 20), Got::default());
        for time in 0..4 {
            input(&mut held, 7, time, &[], &writes, &mut got);
            input(&mut held, 8, 100 + time, &[], &writes, &mut got);
        }
        assert!(got.0.is_empty());
        input(&mut held, 7, 4, &[1, 2], &writes, &mut got);
        input(&mut held, 7, 5, &[3, 4, 1], &writes, &mut got);
        input(&mut held, 7, 6, &[], &writes, &mut got);
        let of = |number: u32| -> Vec<u64> {
            got.0.iter().filter(|(one, _)| *one == number).map(|(_, time)| *time).collect()
        };
        assert_eq!(of(1), [0, 1, 2, 3, 4, 5, 6]);
        assert_eq!(of(2), [2, 3, 4, 5, 6]);
        assert_eq!(of(3), [5, 6]);
        assert_eq!(of(4), [5, 6], "its file has the others already");
        assert_eq!(got.1, []);
        // A flow that is written when it ends, and one that is not.
        got = Got::default();
        held.write(8, id(1), &writes, &mut got);
        assert_eq!(got.0, [(1, 100), (1, 101), (1, 102), (1, 103)]);
        held.end(8);
        held.end(7);
        held.decide(&mut vec![of_flow(8, 2)], &writes, &mut got);
        assert_eq!((got.0.len(), held.history.memory(), held.memory()), (4, 0, 0));
    }

    #[test]
    fn what_is_held_no_more_is_said() {
        let writes = writes(&[(1, "a.pcap", Before::All), (2, "b.pcap", Before::Packets(150))]);
        let (mut held, mut got) = (HeldPackets::new(64 << 10), Got::default());
        for time in 0..200 {
            input(&mut held, 1, time, &[], &writes, &mut got);
        }
        let kept = u64::from(held.history.of_row(1).0);
        assert!((20..150).contains(&kept), "{kept}");
        held.write(1, id(1), &writes, &mut got);
        held.write(1, id(2), &writes, &mut got);
        assert_eq!(got.0.len() as u64, 2 * kept);
        assert_eq!(got.1, [(1, 200 - kept), (2, 150 - kept)]);
    }

    #[test]
    fn a_second_pass_that_knows_the_decisions_of_the_first_has_all_packets_in_order() {
        let writes = writes(&[
            (1, "a.pcap", Before::All),
            (2, "b.pcap", Before::Packets(150)),
            (3, "c.pcap", Before::Packets(0)),
        ]);
        let pass = |memory: usize, known: DecidedFlows| {
            let (mut held, mut got) = (HeldPackets::new(memory), Got::default());
            held.know(Arc::new(known));
            for time in 0..200 {
                input(&mut held, 1, time, if time == 180 { &[2, 3] } else { &[] }, &writes, &mut got);
                input(&mut held, 2, 1000 + time, &[], &writes, &mut got);
            }
            held.write(1, id(1), &writes, &mut got);
            held.end(1);
            // A later flow with the same row is not written.
            input(&mut held, 3, 2000, &[], &writes, &mut got);
            (got, held.history.memory())
        };
        let (whole, _) = pass(8 << 20, DecidedFlows::default());
        let (part, _) = pass(64 << 10, DecidedFlows::default());
        assert!(whole.1.is_empty() && !part.1.is_empty() && part.2 == whole.2);
        let (again, memory) = pass(64 << 10, DecidedFlows::new(part.2, true));
        assert_eq!((memory, again.1.len()), (0, 0));
        for number in 1..4 {
            let of = |got: &Got| got.0.iter().filter(|(one, _)| *one == number).copied().collect::<Vec<_>>();
            assert_eq!(of(&again), of(&whole), "{number}");
            assert!(!of(&again).is_empty() && of(&again).is_sorted());
        }
    }

    /// One flow whose packets are read and held, and what its functions over records write.
    struct Talk {
        proto: u8,
        held: HeldPackets,
        streams: Streams,
        /// Bytes that have arrived of each side, as a session counts them.
        arrived: [u64; 2],
        writes: Writes,
        got: Got,
        packets: u64,
    }

    const CLIENT: Direction = Direction::Forward;
    const SERVER: Direction = Direction::Reverse;
    /// The sequence number before the first byte of a side: numbers go around within the first bytes.
    const START: u32 = u32::MAX - 150;

    impl Talk {
        fn new(proto: u8, memory: usize, functions: &[(u32, &str)]) -> Self {
            let functions: Vec<_> =
                functions.iter().map(|(number, name)| (*number, *name, Of::Record)).collect();
            Self {
                proto,
                held: HeldPackets::new(memory),
                streams: Streams::new(StreamConfig::default()),
                arrived: [0; 2],
                writes: writes_of(&functions),
                got: Got::default(),
                packets: 0,
            }
        }

        /// A packet with bytes of a side from a position on, after which functions decide on records with these bytes of the
        /// client and of the server. Its number is its time.
        fn packet(&mut self, side: Direction, begin: u32, bytes: usize, records: &[(u32, [Range<u64>; 2])]) {
            let at = side as usize;
            let ports = [5000, 53];
            let ip = build::ethernet().ipv4([10, 0, 0, 1], [10, 0, 0, 2]);
            let frame = match self.proto {
                17 => ip.udp(ports[at], ports[1 - at]).payload(&vec![7; bytes]),
                _ => ip.tcp(ports[at], ports[1 - at], 0x10).payload(&vec![7; bytes]),
            };
            self.packets += 1;
            let mut frame = frame;
            if self.proto == 6 {
                frame[38..42].copy_from_slice(&START.wrapping_add(1).wrapping_add(begin).to_be_bytes());
            }
            let time = self.packets;
            let packet =
                Packet { time: Time(time), number: time as u32, ..build::packet(&frame, LinkType::ETHERNET) };
            let layers = decode(&packet);
            let flow = FlowIdentity {
                key: key(1),
                initiator_is_lower: true,
                first: Time(0),
                vlan: [0; 2],
                alias: 0,
            };
            let seen = FlowPacket { row: 1, flow, direction: side, packet: &packet, layers: &layers };
            let arrived = &mut self.arrived;
            match seen.segment() {
                Some(segment) => self.streams.segment(1, &segment, |chunk| {
                    arrived[chunk.direction as usize] += chunk.gap + chunk.data.len() as u64;
                }),
                None => arrived[at] += bytes as u64,
            }
            let decision = |(number, at): &(u32, [Range<u64>; 2])| Decision {
                at: Span::new(at.clone()),
                packet: time as u32,
                ..of_flow(1, *number)
            };
            let mut decisions = records.iter().map(decision).collect();
            let carried = carried(&seen, self.arrived[at], &self.streams);
            self.held.packet(&seen, carried, &mut decisions, &self.writes, &mut self.got);
        }

        /// Begins the stream of both sides.
        fn open(&mut self) {
            for side in SIDES {
                let segment = Segment {
                    time: Time(0),
                    direction: side,
                    seq: START,
                    ack: None,
                    flags: 2,
                    urgent: None,
                    data: &[],
                    cut: 0,
                };
                self.streams.segment(1, &segment, |_| ());
            }
        }

        /// The packets that a function wrote since the last call.
        fn taken(&mut self) -> Vec<(u32, u64)> {
            std::mem::take(&mut self.got.0)
        }
    }

    #[test]
    fn segments_that_carry_a_record_are_written_once() {
        let mut talk = Talk::new(6, 1 << 20, &[(1, "a.pcap"), (2, "a.pcap"), (3, "b.pcap")]);
        talk.open();
        talk.packet(CLIENT, 0, 100, &[]); // 1
        talk.packet(SERVER, 0, 50, &[(1, [0..100, 0..50])]); // 2: the first transaction
        assert_eq!(talk.taken(), [(1, 1), (1, 2)]);
        talk.packet(SERVER, 50, 0, &[]); // 3: no payload
        talk.packet(CLIENT, 200, 100, &[]); // 4: out of order
        talk.packet(CLIENT, 90, 40, &[]); // 5: 10 bytes again, and 30 new ones
        talk.packet(CLIENT, 0, 100, &[]); // 6: the first packet again
        talk.packet(CLIENT, 120, 80, &[]); // 7: fills the hole
        assert_eq!(talk.arrived, [300, 50]);
        talk.packet(SERVER, 50, 60, &[(1, [100..250, 50..80]), (2, [250..300, 80..110])]); // 8
        assert_eq!(talk.taken(), [(1, 4), (1, 5), (1, 7), (1, 8)], "a file has a packet once");
        talk.packet(SERVER, 50, 60, &[(3, [0..100, 0..0])]); // 9: another file, of the past
        assert_eq!(talk.taken(), [(3, 1), (3, 5), (3, 6)]);
        talk.packet(CLIENT, 300, 10, &[(1, [0..100, 0..0])]);
        assert_eq!(talk.taken(), [(1, 6)], "what came again is another packet");
        // Without bytes of its own a record has the packet that completed it.
        talk.packet(CLIENT, 310, 10, &[(3, [0..0, 0..0])]);
        assert_eq!(talk.taken(), [(3, 11)]);
        assert!(talk.got.1.is_empty(), "{:?}", talk.got.1);
    }

    #[test]
    fn missing_bytes_of_a_stream_count() {
        let mut talk = Talk::new(6, 1 << 20, &[(1, "a.pcap")]);
        talk.open();
        talk.packet(CLIENT, 0, 100, &[]);
        talk.packet(CLIENT, 150, 50, &[]);
        // The stream ends its wait for the bytes between.
        let ack = Segment {
            time: Time(0),
            direction: SERVER,
            seq: START.wrapping_add(1),
            ack: Some(START.wrapping_add(201)),
            flags: 16,
            urgent: None,
            data: &[],
            cut: 0,
        };
        let arrived = &mut talk.arrived;
        talk.streams.segment(1, &ack, |chunk| arrived[0] += chunk.gap + chunk.data.len() as u64);
        assert_eq!(talk.arrived, [200, 0]);
        talk.packet(CLIENT, 200, 50, &[(1, [110..200, 0..0])]);
        assert_eq!(talk.taken(), [(1, 2)]);
        talk.packet(CLIENT, 250, 50, &[(1, [220..260, 0..0])]);
        assert_eq!(talk.taken(), [(1, 3), (1, 4)]);
        assert!(talk.got.1.is_empty(), "nothing was held that is held no more");
    }

    #[test]
    fn datagrams_count_by_their_payload() {
        let mut talk = Talk::new(17, 1 << 20, &[(1, "a.pcap")]);
        talk.packet(CLIENT, 0, 40, &[]);
        talk.packet(CLIENT, 0, 30, &[]);
        talk.packet(CLIENT, 0, 0, &[]);
        talk.packet(SERVER, 0, 80, &[(1, [40..70, 0..80])]);
        assert_eq!(talk.taken(), [(1, 2), (1, 4)]);
        talk.packet(SERVER, 0, 20, &[(1, [0..40, 80..100])]);
        assert_eq!(talk.taken(), [(1, 1), (1, 5)]);
    }

    #[test]
    fn packets_of_records_that_are_held_no_more_are_counted() {
        let (memory, each) = (64 << 10, 500);
        let mut talk = Talk::new(17, memory, &[(1, "a.pcap"), (2, "b.pcap")]);
        let all = 400;
        let range = |from: u64, to: u64| [from * each..to * each, 0..0];
        for _ in 0..all {
            talk.packet(CLIENT, 0, each as usize, &[]);
            assert!(talk.held.history.memory() <= memory);
        }
        let lost = all - u64::from(talk.held.history.of_row(1).0);
        assert!((200..380).contains(&lost), "{lost}");
        // The whole flow, some packets of which only the first are lost, one that is lost, and one that is held.
        for (from, to, missing) in [(0, all, lost), (lost - 7, lost + 5, 7), (3, 4, 1), (lost, lost + 1, 0)] {
            talk.packet(SERVER, 0, 1, &[(1, range(from, to))]);
            let counted: u64 = talk.got.1.drain(..).map(|(_, missing)| missing).sum();
            assert_eq!(counted, missing, "{from} to {to}");
        }
        let times: Vec<u64> = talk.taken().into_iter().map(|(_, time)| time).collect();
        assert_eq!(times, (lost + 1..=all).collect::<Vec<_>>());
    }

    #[test]
    fn a_file_of_records_takes_the_place_of_one_that_is_gone() {
        let names: Vec<(u32, String)> = (0..64).map(|n| (n, format!("{n}.pcap"))).collect();
        let functions: Vec<(u32, &str)> = names.iter().map(|(n, name)| (*n, name.as_str())).collect();
        let mut talk = Talk::new(17, 1 << 20, &functions);
        let all: Vec<(u32, [Range<u64>; 2])> = (0..64).map(|n| (n, [0..40, 0..0])).collect();
        talk.packet(CLIENT, 0, 40, &all);
        assert_eq!(talk.taken(), (0..64).map(|n| (n, 1)).collect::<Vec<_>>());
        talk.writes = writes_of(&[(70, "other.pcap", Of::Record), (63, "63.pcap", Of::Record)]);
        talk.packet(CLIENT, 0, 40, &[(70, [0..40, 0..0]), (63, [0..80, 0..0])]);
        assert_eq!(talk.taken(), [(70, 1), (63, 2)]);
    }
}
