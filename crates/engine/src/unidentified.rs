//! Packets of unidentified flows.

use crate::Sink;
use crate::function::has_no_parser;
use crate::held::emit_all;
use crate::history::{self, History};
use std::collections::HashMap;
use weir_api::AnswerId;
use weir_filter::MASK_PACKETS;
use weir_flow::FlowPacket;
use weir_proto::{TCP, UDP};
use weir_wire::{Packet, Slot};

/// Maximum number of packets held for a flow: a protocol is identified within one kilobyte of a stream or 32
/// datagrams.
const PACKETS: usize = 128;
/// Maximum number of bytes held for a flow.
const BYTES: usize = 256 << 10;
const _: () = assert!(PACKETS <= MASK_PACKETS);

/// Emits the packets of unidentified flows, with the first packets and the handshake.
pub(crate) struct UnidentifiedPackets {
    /// Packets of undecided flows.
    history: History,
    /// State of each flow, by its row.
    flows: HashMap<u32, Decision>,
    emitted: u64,
    lost: u64,
}

/// Whether a flow is unidentified.
#[derive(Clone, Copy)]
enum Decision {
    /// Undecided; the number of its packets that the history has not, or not any more.
    Open(u64),
    /// A protocol was identified, or the flow was skipped.
    Read,
    /// The flow is unidentified.
    Unknown,
}

impl UnidentifiedPackets {
    /// `memory` is the maximum number of bytes of undecided flows.
    pub fn new(memory: usize) -> Self {
        Self { history: History::new(memory), flows: HashMap::new(), emitted: 0, lost: 0 }
    }

    /// Packets emitted so far.
    pub fn emitted(&self) -> u64 {
        self.emitted
    }

    /// Packets of unidentified flows that were lost for lack of memory so far.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Takes a packet of a flow. `found` is set for a flow with payload: whether its parser has ended, and whether a
    /// protocol was identified. Packets are emitted for the functions `to`.
    pub fn packet(
        &mut self,
        seen: &FlowPacket<'_>,
        found: Option<(bool, bool)>,
        to: &[AnswerId],
        sink: &mut dyn Sink,
    ) {
        let (row, packet, proto) = (seen.row, seen.packet, seen.flow.key.proto);
        if has_no_parser(proto) {
            return self.emit(packet, to, sink);
        }
        if proto != TCP && proto != UDP {
            return;
        }
        let decision = self.flows.entry(row).or_insert(Decision::Open(0));
        match (*decision, found) {
            (Decision::Read, _) => {}
            (Decision::Unknown, _) => self.emit(packet, to, sink),
            (Decision::Open(_), Some((_, true))) => {
                *decision = Decision::Read;
                self.history.take(row, |_| ());
            }
            (Decision::Open(_), found) => {
                self.keep(row, packet);
                if found.is_some_and(|(is_unidentified, _)| is_unidentified) {
                    self.end(row, true, to, sink);
                    self.flows.insert(row, Decision::Unknown);
                }
            }
        }
    }

    /// Keeps a packet of an undecided flow.
    fn keep(&mut self, row: u32, packet: &Packet<'_>) {
        let Self { history, flows, .. } = self;
        let mut miss = |row, _: &()| {
            if let Some(Decision::Open(missing)) = flows.get_mut(&row) {
                *missing += 1;
            }
        };
        let (packets, bytes) = history.of_row(row);
        if (packets as usize) < PACKETS && bytes as usize + packet.data.len() <= BYTES {
            history.push(row, packet, (), &mut miss);
        } else {
            miss(row, &());
        }
    }

    /// Ends the flow of a row: its packets are emitted for the functions `to` if it is unidentified, and discarded otherwise.
    pub fn end(&mut self, row: u32, is_unidentified: bool, to: &[AnswerId], sink: &mut dyn Sink) {
        let Some(Decision::Open(missing)) = self.flows.remove(&row) else { return };
        let mut emitted = 0;
        self.history.take(row, |packets| {
            if is_unidentified {
                emitted += packets.len() as u64;
                emit_all(to, packets, sink);
            }
        });
        self.emitted += emitted;
        self.lost += if is_unidentified { missing } else { 0 };
    }

    fn emit(&mut self, packet: &Packet<'_>, to: &[AnswerId], sink: &mut dyn Sink) {
        self.emitted += 1;
        emit_all(to, history::one(packet, &mut Slot::default()), sink);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Emitted, FlowIdentity};
    use weir_api::SubscriptionId;
    use weir_wire::{Direction, LinkType, Time, build, decode};

    /// The function that the packets are emitted for.
    const TO: AnswerId = AnswerId { subscription: SubscriptionId(1), place: 0 };

    #[derive(Default)]
    struct Got(Vec<u64>);

    impl Sink for Got {
        fn take(&mut self, emitted: Emitted<'_>) {
            if let Emitted::Packets(packets, [(TO, _)]) = emitted {
                self.0.extend(packets.slots.iter().map(|slot| slot.time.0));
            }
        }
    }

    /// A packet of the flow in a row, at a time.
    fn input(
        held: &mut UnidentifiedPackets,
        row: u32,
        time: u64,
        found: Option<(bool, bool)>,
        got: &mut Got,
    ) {
        let frame = build::ethernet().ipv4([10, 0, 0, 1], [10, 0, 0, 2]).udp(5000, 6000).payload(&[7; 900]);
        let packet = Packet { time: Time(time), ..build::packet(&frame, LinkType::ETHERNET) };
        let layers = decode(&packet);
        let key = weir_wire::FlowKey { proto: UDP, ..Default::default() };
        let flow = FlowIdentity { key, initiator_is_lower: true, first: Time(0), vlan: [0; 2], alias: 0 };
        let seen = FlowPacket { row, flow, direction: Direction::Forward, packet: &packet, layers: &layers };
        held.packet(&seen, found, &[TO], got);
    }

    #[test]
    fn first_packets_of_unidentified_flows_are_emitted_and_no_others() {
        let (mut held, mut got) = (UnidentifiedPackets::new(1 << 20), Got::default());
        for time in 0..3 {
            input(&mut held, 1, time, None, &mut got);
            input(&mut held, 2, 10 + time, Some((false, false)), &mut got);
        }
        assert!(got.0.is_empty());
        input(&mut held, 1, 3, Some((true, false)), &mut got);
        input(&mut held, 2, 13, Some((false, true)), &mut got);
        input(&mut held, 1, 4, Some((true, false)), &mut got);
        // A flow whose parser gave up counts as identified.
        input(&mut held, 2, 14, Some((true, true)), &mut got);
        assert_eq!(got.0, [0, 1, 2, 3, 4]);
        held.end(1, true, &[TO], &mut got);
        held.end(2, false, &[TO], &mut got);
        // A flow that is decided at its end, and a flow without payload.
        input(&mut held, 3, 20, Some((false, false)), &mut got);
        held.end(3, true, &[TO], &mut got);
        input(&mut held, 4, 30, None, &mut got);
        held.end(4, false, &[TO], &mut got);
        assert_eq!(got.0, [0, 1, 2, 3, 4, 20]);
        assert_eq!((held.emitted(), held.lost(), held.history.memory()), (6, 0, 0));
    }

    #[test]
    fn packets_without_room_are_counted_for_unidentified_flows() {
        let (mut held, mut got) = (UnidentifiedPackets::new(64 << 20), Got::default());
        for row in [1, 2] {
            for time in 0..PACKETS as u64 + 5 {
                input(&mut held, row, time, Some((false, false)), &mut got);
            }
        }
        held.end(1, true, &[TO], &mut got);
        held.end(2, false, &[TO], &mut got);
        assert_eq!((got.0.len(), held.emitted(), held.lost()), (PACKETS, PACKETS as u64, 5));
        // The limit for all flows together: the oldest packets are lost.
        let (mut held, mut got) = (UnidentifiedPackets::new(32 << 10), Got::default());
        for row in 0..100 {
            input(&mut held, row, row.into(), None, &mut got);
        }
        (0..100).for_each(|row| held.end(row, true, &[TO], &mut got));
        assert_eq!(held.emitted() + held.lost(), 100);
        assert!(held.lost() > 50, "{}", held.lost());
        assert_eq!(got.0, (held.lost()..100).collect::<Vec<_>>());
    }
}
