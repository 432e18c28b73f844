//! What no protocol knows: counted by port, and its packets handed on where somebody wants to look at them.

use crate::{FlowRecord, Function, FunctionSpec, Item, Sink};
use std::collections::HashMap;
use weir_api::{Answer, FunctionCall};
use weir_flow::FlowPacket;
use weir_proto::{TCP, UDP};
use weir_wire::{Batch, Packet, PacketBuf, Slot};

/// The subscription and function of the answer that counts what no protocol knows, by transport protocol and
/// responder's port. It stands behind those of the plan, in runs that read what is said.
pub const UNIDENTIFIED: &str = "unidentified";

/// Ports that are kept: what has no room is told with the list, as of any other.
const PORTS: u32 = 4096;

/// Packets of a flow that are held back at most: a protocol is found by one kilobyte of a stream or by 32 datagrams.
const PACKETS: usize = 128;
/// Bytes of a flow that are held back at most.
const BYTES: usize = 256 << 10;

/// What nobody reads, by port.
pub(crate) struct Unidentified {
    /// `None` where the list cannot be made, which its arguments do not allow.
    list: Option<Box<dyn Function>>,
}

impl Unidentified {
    /// `seed` keys hashes.
    pub fn new(seed: u64) -> Self {
        let call = FunctionCall::new("top").with("by", "service").with("rows", PORTS);
        Self { list: FunctionSpec::find("top").and_then(|top| top.call(&call, seed)).ok() }
    }

    /// Counts a flow that has ended, or a part of it. Of TCP and UDP it is unknown where those who read it say so;
    /// nobody reads the other transports with ports. What carries other packets is known as that.
    pub fn flow(&mut self, flow: &FlowRecord, is_unidentified: bool) {
        let counts = is_unidentified || nobody_reads(flow.key.proto);
        if let Some(list) = self.list.as_mut().filter(|_| counts && !flow.carrier) {
            list.item(&Item::Flow(flow));
        }
    }

    /// The list since the last call.
    pub fn take(&mut self) -> Option<Answer> {
        let reading = self.list.as_mut()?.take();
        Some(Answer {
            subscription: UNIDENTIFIED.to_owned(),
            chart: None,
            function: UNIDENTIFIED.to_owned(),
            reading,
            nanoseconds: 0,
        })
    }
}

/// Transports with ports that no protocol here is spoken over: DCCP, SCTP, UDP-Lite.
fn nobody_reads(ip_proto: u8) -> bool {
    matches!(ip_proto, 33 | 132 | 136)
}

/// Packets of flows, until it is known whether somebody reads them. So the file of a flow that turns out to be unknown
/// has its first packets too, a handshake among them.
pub(crate) struct HeldBack {
    /// By the flow's row.
    flows: HashMap<u32, Waiting>,
    /// Bytes that are held.
    held: usize,
    limit: usize,
    handed_on: u64,
    lost: u64,
}

/// A flow.
enum Waiting {
    /// It is not known yet; the packets so far, and how many more had no room.
    Open(Box<PacketBuf>, u64),
    /// Somebody reads it or has read it, or it was refused.
    Read,
    /// Nobody reads it.
    Unknown,
}

impl HeldBack {
    /// With room for so many bytes.
    pub fn new(limit: usize) -> Self {
        Self { flows: HashMap::new(), held: 0, limit, handed_on: 0, lost: 0 }
    }

    /// Packets handed on so far.
    pub fn handed_on(&self) -> u64 {
        self.handed_on
    }

    /// Packets of unknown flows that had no room so far.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Takes a packet of a flow. `found`: of one that has said something, whether nobody reads it any longer, and
    /// whether a protocol was found in it.
    pub fn packet(&mut self, seen: &FlowPacket<'_>, found: Option<(bool, bool)>, sink: &mut dyn Sink) {
        let (row, packet, proto) = (seen.row, seen.packet, seen.flow.key.proto);
        if nobody_reads(proto) {
            return self.hand_on(one(packet, &mut Slot::default()), sink);
        }
        if proto != TCP && proto != UDP {
            return;
        }
        let waiting = self.flows.entry(row).or_insert_with(|| Waiting::Open(Box::default(), 0));
        match (&mut *waiting, found) {
            (Waiting::Read, _) => {}
            (Waiting::Unknown, _) => self.hand_on(one(packet, &mut Slot::default()), sink),
            (Waiting::Open(chunk, _), Some((_, true))) => {
                self.held -= cost(chunk);
                *waiting = Waiting::Read;
            }
            (Waiting::Open(chunk, lost), found) => {
                let has_room = self.held < self.limit
                    && chunk.slots.len() < PACKETS
                    && chunk.bytes.len() + packet.data.len() <= BYTES;
                if has_room {
                    let before = cost(chunk);
                    chunk.push(packet);
                    self.held = self.held + cost(chunk) - before;
                } else {
                    *lost += 1;
                }
                if found.is_some_and(|(is_unidentified, _)| is_unidentified) {
                    self.settle(row, true, sink);
                    self.flows.insert(row, Waiting::Unknown);
                }
            }
        }
    }

    /// The flow of a row has ended; whether nobody could read it.
    pub fn end(&mut self, row: u32, is_unidentified: bool, sink: &mut dyn Sink) {
        self.settle(row, is_unidentified, sink);
    }

    /// Hands on what is held of a flow, or forgets it.
    fn settle(&mut self, row: u32, is_unidentified: bool, sink: &mut dyn Sink) {
        let Some(Waiting::Open(chunk, lost)) = self.flows.remove(&row) else { return };
        self.held -= cost(&chunk);
        if is_unidentified {
            self.lost += lost;
            self.hand_on(chunk.batch(), sink);
        }
    }

    fn hand_on(&mut self, packets: Batch<'_>, sink: &mut dyn Sink) {
        self.handed_on += packets.len() as u64;
        sink.unidentified(packets);
    }
}

/// Bytes of memory that held packets take.
fn cost(chunk: &PacketBuf) -> usize {
    chunk.bytes.capacity() + chunk.slots.capacity() * size_of::<Slot>()
}

/// A batch of one packet, where it lies.
fn one<'a>(packet: &Packet<'a>, slot: &'a mut Slot) -> Batch<'a> {
    *slot = Slot {
        time: packet.time,
        offset: 0,
        len: packet.data.len() as u32,
        wire_len: packet.wire_len,
        interface: packet.interface,
        link: packet.link,
        hints: packet.hints,
    };
    Batch { bytes: packet.data, slots: std::slice::from_ref(slot) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FlowIdentity;
    use weir_proto::Record;
    use weir_wire::{Direction, LinkType, Time, build, decode};

    #[derive(Default)]
    struct Got(Vec<u64>);

    impl Sink for Got {
        fn flow(&mut self, _: &FlowRecord) {}
        fn kept(&mut self, _: Batch<'_>) {}
        fn record(&mut self, _: &FlowIdentity, _: Record<'_>) {}
        fn unidentified(&mut self, packets: Batch<'_>) {
            self.0.extend(packets.slots.iter().map(|slot| slot.time.0));
        }
    }

    /// A packet of the flow in a row, at a time.
    fn input(held: &mut HeldBack, row: u32, time: u64, found: Option<(bool, bool)>, got: &mut Got) {
        let frame = build::ethernet().ipv4([10, 0, 0, 1], [10, 0, 0, 2]).udp(5000, 6000).payload(&[7; 900]);
        let packet = Packet { time: Time(time), ..build::packet(&frame, LinkType::ETHERNET) };
        let layers = decode(&packet);
        let key = weir_wire::FlowKey { proto: UDP, ..Default::default() };
        let flow = FlowIdentity { key, initiator_is_lower: true, first: Time(0), vlan: [0; 2], alias: 0 };
        let seen = FlowPacket { row, flow, direction: Direction::Forward, packet: &packet, layers: &layers };
        held.packet(&seen, found, got);
    }

    #[test]
    fn the_first_packets_of_an_unknown_flow_come_too_and_none_of_a_known_one() {
        let (mut held, mut got) = (HeldBack::new(1 << 20), Got::default());
        for time in 0..3 {
            input(&mut held, 1, time, None, &mut got);
            input(&mut held, 2, 10 + time, Some((false, false)), &mut got);
        }
        assert!(got.0.is_empty());
        input(&mut held, 1, 3, Some((true, false)), &mut got);
        input(&mut held, 2, 13, Some((false, true)), &mut got);
        input(&mut held, 1, 4, Some((true, false)), &mut got);
        // Its parser has given up: it was known.
        input(&mut held, 2, 14, Some((true, true)), &mut got);
        assert_eq!(got.0, [0, 1, 2, 3, 4]);
        held.end(1, true, &mut got);
        held.end(2, false, &mut got);
        // What becomes clear only at the end, and what said nothing.
        input(&mut held, 3, 20, Some((false, false)), &mut got);
        held.end(3, true, &mut got);
        input(&mut held, 4, 30, None, &mut got);
        held.end(4, false, &mut got);
        assert_eq!(got.0, [0, 1, 2, 3, 4, 20]);
        assert_eq!((held.handed_on(), held.lost(), held.held), (6, 0, 0));
    }

    #[test]
    fn what_has_no_room_is_counted_where_it_is_missed() {
        let (mut held, mut got) = (HeldBack::new(64 << 20), Got::default());
        for row in [1, 2] {
            for time in 0..PACKETS as u64 + 5 {
                input(&mut held, row, time, Some((false, false)), &mut got);
            }
        }
        held.end(1, true, &mut got);
        held.end(2, false, &mut got);
        assert_eq!((got.0.len(), held.handed_on(), held.lost()), (PACKETS, PACKETS as u64, 5));
        // All flows together.
        let (mut held, mut got) = (HeldBack::new(8 << 10), Got::default());
        for row in 0..100 {
            input(&mut held, row, 0, None, &mut got);
        }
        assert!(held.held < 16 << 10, "{}", held.held);
        (0..100).for_each(|row| held.end(row, true, &mut got));
        assert_eq!(held.handed_on() + held.lost(), 100);
        assert!(held.lost() > 80 && held.held == 0);
    }
}
