//! Packets of flows that are held until a function over flows or records decides whether they are written.

use crate::history::History;
use crate::sink::{Emitted, Sink};
use crate::target::{Before, Target};
use std::collections::HashMap;
use weir_api::AnswerId;
use weir_filter::{MASK_PACKETS, PacketMask};
use weir_flow::FlowPacket;
use weir_wire::{FlowKey, Packet};

/// A function of a plan that writes packets of flows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Write {
    /// The number of its target in the plan: functions with equal targets have one, in which a packet is once.
    pub target: u32,
    /// The packets before the decision that are written.
    pub before: Before,
}

impl Write {
    fn asks_before(&self) -> bool {
        self.before != Before::Packets(0)
    }
}

/// The functions of a plan that write packets of flows.
#[derive(Default)]
pub(crate) struct Writes {
    functions: HashMap<AnswerId, Write>,
    /// Number of those that write packets before the decision.
    asking: usize,
}

impl Writes {
    /// These functions, each with its target.
    pub fn new<'t>(targets: impl Iterator<Item = (AnswerId, &'t Target)>) -> Self {
        let (mut writes, mut known) = (Self::default(), HashMap::new());
        for (id, target) in targets {
            let Target::Packets { before: Some(before), .. } = target else { continue };
            let next = known.len() as u32;
            let target = *known.entry(target.name()).or_insert(next);
            let write = Write { target, before: *before };
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

/// That a flow's packets are to be written by a function.
pub(crate) type Decision = (FlowKey, AnswerId);

/// The latest packets of each flow, and the functions that write the flow's packets.
pub(crate) struct HeldPackets {
    history: History,
    /// By the row of the flow.
    flows: HashMap<u32, HeldFlow>,
    /// The row of each flow.
    rows: HashMap<FlowKey, u32>,
}

struct HeldFlow {
    key: FlowKey,
    /// The functions that write its packets.
    functions: Vec<AnswerId>,
    /// Packets of the flow so far that the history has not any more.
    missing: u64,
}

/// Bytes of memory of a flow without its packets.
const FLOW: usize = size_of::<(u32, HeldFlow)>() + size_of::<(FlowKey, u32)>() + 2 * size_of::<AnswerId>();

impl HeldPackets {
    /// `memory` is the maximum number of bytes of packets.
    pub fn new(memory: usize) -> Self {
        Self { history: History::new(memory), flows: HashMap::new(), rows: HashMap::new() }
    }

    /// Bytes of memory of flows, without their packets.
    pub fn memory(&self) -> usize {
        self.flows.len() * FLOW
    }

    /// Takes a packet of a flow. The decisions are those that the packet led to.
    pub fn packet(
        &mut self,
        seen: &FlowPacket<'_>,
        decisions: &mut Vec<Decision>,
        writes: &Writes,
        sink: &mut dyn Sink,
    ) {
        let Self { flows, rows, .. } = self;
        flows.entry(seen.row).or_insert_with(|| {
            rows.insert(seen.flow.key, seen.row);
            HeldFlow { key: seen.flow.key, functions: Vec::new(), missing: 0 }
        });
        self.decide(decisions, writes, sink);
        let Self { history, flows, .. } = self;
        let Some(flow) = flows.get(&seen.row) else { return };
        if !flow.functions.is_empty() {
            emit(&flow.functions, seen.packet, sink);
        }
        // Another function may still decide on the flow.
        if writes.asks_besides(&flow.functions) {
            history.push(seen.row, seen.packet, &mut |row| {
                if let Some(flow) = flows.get_mut(&row) {
                    flow.missing += 1;
                }
            });
        } else if let Some(flow) = flows.get_mut(&seen.row) {
            flow.missing += 1;
        }
    }

    /// Follows decisions: the packets of each flow that are held leave now, as far as the function writes them, and those that
    /// follow when they are seen.
    pub fn decide(&mut self, decisions: &mut Vec<Decision>, writes: &Writes, sink: &mut dyn Sink) {
        for (key, id) in decisions.drain(..) {
            if let Some(row) = self.rows.get(&key).copied() {
                self.write(row, id, writes, sink);
            }
        }
    }

    /// A function writes the packets of the flow of a row.
    pub fn write(&mut self, row: u32, id: AnswerId, writes: &Writes, sink: &mut dyn Sink) {
        let Some(write) = writes.get(&id) else { return };
        let Some(flow) = self.flows.get_mut(&row).filter(|flow| !flow.functions.contains(&id)) else {
            return;
        };
        let is_there = flow
            .functions
            .iter()
            .any(|other| writes.get(other).is_some_and(|one| one.target == write.target));
        flow.functions.push(id);
        if is_there {
            return;
        }
        let held = self.history.of_row(row).0;
        let (skipped, missing) = match write.before {
            Before::All => (0, flow.missing),
            Before::Packets(number) => {
                (held.saturating_sub(number), u64::from(number.saturating_sub(held)).min(flow.missing))
            }
        };
        let mut at = 0;
        self.history.visit(row, |packet| {
            if at >= skipped {
                emit(&[id], packet, sink);
            }
            at += 1;
        });
        if missing > 0 {
            sink.take(Emitted::Missing(id, missing));
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
    let mut first: PacketMask = [0; MASK_PACKETS / 64];
    first[0] = 1;
    let functions: Vec<(AnswerId, PacketMask)> = functions.iter().map(|id| (*id, first)).collect();
    sink.take(Emitted::Packets(crate::history::one(packet, &mut Default::default()), &functions));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FlowIdentity, NamedFile, Place};
    use weir_api::SubscriptionId;
    use weir_wire::{Direction, LinkType, Time, build, decode};

    /// The times of the packets of each function, and the packets that are missing.
    #[derive(Default)]
    struct Got(Vec<(u32, u64)>, Vec<(u32, u64)>);

    impl Sink for Got {
        fn take(&mut self, emitted: Emitted<'_>) {
            match emitted {
                Emitted::Packets(packets, functions) => {
                    let time = packets.slots[0].time.0;
                    self.0.extend(functions.iter().map(|(id, _)| (id.subscription.0, time)));
                }
                Emitted::Missing(id, missing) => self.1.push((id.subscription.0, missing)),
                _ => {}
            }
        }
    }

    fn id(number: u32) -> AnswerId {
        AnswerId { subscription: SubscriptionId(number), place: 0 }
    }

    fn writes(functions: &[(u32, &str, Before)]) -> Writes {
        let target = |(number, name, before): &(u32, &str, Before)| {
            let file = NamedFile {
                place: Place::Logs,
                name: (*name).into(),
                rotation: crate::Rotation::Never,
                files: None,
                snaplen: None,
            };
            (id(*number), Target::Packets { file, before: Some(*before) })
        };
        let targets: Vec<_> = functions.iter().map(target).collect();
        Writes::new(targets.iter().map(|(id, target)| (*id, target)))
    }

    fn key(row: u32) -> FlowKey {
        FlowKey { proto: 17, port: [row as u16, 53], ..Default::default() }
    }

    /// A packet of the flow of a row at a time, after which functions decide on the flow.
    fn input(held: &mut HeldPackets, row: u32, time: u64, deciding: &[u32], writes: &Writes, got: &mut Got) {
        let frame = build::ethernet().ipv4([10, 0, 0, 1], [10, 0, 0, 2]).udp(5000, 53).payload(&[7; 900]);
        let packet = Packet { time: Time(time), ..build::packet(&frame, LinkType::ETHERNET) };
        let layers = decode(&packet);
        let flow =
            FlowIdentity { key: key(row), initiator_is_lower: true, first: Time(0), vlan: [0; 2], alias: 0 };
        let seen = FlowPacket { row, flow, direction: Direction::Forward, packet: &packet, layers: &layers };
        let mut decisions = deciding.iter().map(|number| (key(row), id(*number))).collect();
        held.packet(&seen, &mut decisions, writes, got);
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
        held.decide(&mut vec![(key(8), id(2))], &writes, &mut got);
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
}
