//! The flows of a worker that may announce flows between other hosts, and the packets that may do so.
//!
//! A flow that begins has to know what was announced before it, also in packets that another worker has not read yet. Its worker
//! would have to wait until they are read. Nearly all packets announce nothing, and their headers and first bytes show it: they
//! have other ports than the flows that announce, and no such flow begins with their payload.

use std::collections::HashMap;
use weir_proto::may_begin_elsewhere;
use weir_wire::{Batch, Fragment, Layers, LinkType, Packet, Tunnel, further_frames};

/// Bytes of a flow in the lists.
const FLOW: usize = 64;

/// The flows that may announce flows between other hosts.
#[derive(Default)]
pub(crate) struct Announcers {
    /// Their ports in order, by row.
    flows: HashMap<u32, [u16; 2]>,
    /// Number of flows with these ports.
    ports: HashMap<[u16; 2], u32>,
}

/// Two ports in order.
fn in_order([one, other]: [u16; 2]) -> [u16; 2] {
    [one.min(other), one.max(other)]
}

impl Announcers {
    /// Whether the flow of a row is one of them.
    pub fn has(&self, row: u32) -> bool {
        !self.flows.is_empty() && self.flows.contains_key(&row)
    }

    /// Adds the flow of a row. Returns whether it is new.
    pub fn add(&mut self, row: u32, ports: [u16; 2]) -> bool {
        let is_new = self.flows.insert(row, in_order(ports)).is_none();
        if is_new {
            *self.ports.entry(in_order(ports)).or_default() += 1;
        }
        is_new
    }

    /// Removes the flow of a row, if it is one of them.
    pub fn remove(&mut self, row: u32) {
        if self.flows.is_empty() {
            return;
        }
        let Some(ports) = self.flows.remove(&row) else { return };
        if let Some(number) = self.ports.get_mut(&ports) {
            *number -= 1;
            if *number == 0 {
                self.ports.remove(&ports);
            }
        }
    }

    /// Memory in bytes.
    pub fn memory(&self) -> usize {
        (self.flows.capacity() + self.ports.capacity()) * FLOW
    }

    /// Whether a packet may announce a flow between other hosts: it belongs to a flow that does, begins such a flow, or contains
    /// packets that are not seen here.
    fn may_announce(&self, packet: &Packet<'_>, layers: &Layers) -> bool {
        let is_one = layers.common
            || layers.fragment == Fragment::Whole
                && layers.tunnel == Tunnel::None
                && (packet.link == LinkType::ETHERNET || further_frames(packet).next().is_none());
        if !is_one {
            return true;
        }
        if !layers.has_transport() {
            return false;
        }
        !self.ports.is_empty() && self.ports.contains_key(&in_order(layers.ports))
            || may_begin_elsewhere(layers.ip_proto, layers.ports, layers.payload_of(packet.data))
    }
}

/// The packets that a worker is about to read and that may announce flows between other hosts.
#[derive(Default)]
pub(crate) struct Outlook {
    /// Their numbers, in order.
    may_announce: Vec<u32>,
    /// How many of them were read.
    read: usize,
    /// The number after the last packet that was looked at.
    end: u32,
    /// Whether more of the packets that were looked at may announce: a flow began to.
    is_open: bool,
}

impl Outlook {
    /// Looks at packets that the worker reads next. Returns the number up to which none of its packets announces.
    pub fn look(&mut self, batch: Batch<'_>, layers: &[Layers], announcers: &Announcers) -> Option<u32> {
        self.may_announce.clear();
        (self.read, self.is_open) = (0, false);
        self.end = batch.packets().last()?.number.wrapping_add(1);
        let packets = batch.packets().zip(layers);
        let found = packets.filter(|(packet, layers)| announcers.may_announce(packet, layers));
        self.may_announce.extend(found.map(|(packet, _)| packet.number));
        Some(self.next())
    }

    /// A flow may announce from the packet on that is read.
    pub fn open(&mut self) {
        self.is_open = true;
    }

    /// The packets before the one of a number were read. Returns the number up to which no packet announces, if that has changed.
    pub fn pass(&mut self, packet: u32) -> Option<u32> {
        let before = self.read;
        // Of a packet that holds others, all have its number.
        let is_before = |number: &u32| (number.wrapping_sub(packet) as i32) < 0;
        while self.may_announce.get(self.read).is_some_and(is_before) {
            self.read += 1;
        }
        (self.read > before && !self.is_open).then(|| self.next())
    }

    fn next(&self) -> u32 {
        self.may_announce.get(self.read).copied().unwrap_or(self.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_wire::{PacketBuf, Time, decode_batch};

    /// A frame with a datagram between these ports.
    fn datagram(ports: [u16; 2], payload: &[u8]) -> Vec<u8> {
        let length = payload.len() as u16;
        let ip = [
            &[0x45, 0][..],
            &(28 + length).to_be_bytes(),
            &[0, 1, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2],
        ];
        let udp = [ports[0].to_be_bytes(), ports[1].to_be_bytes(), (8 + length).to_be_bytes(), [0, 0]];
        [&[2; 12][..], &[8, 0], &ip.concat(), &udp.concat(), payload].concat()
    }

    /// Packets with numbers from 10 on.
    fn packets(frames: &[Vec<u8>]) -> (PacketBuf, Vec<Layers>) {
        let mut packets = PacketBuf::default();
        for frame in frames {
            packets.push(&Packet { time: Time(1), ..weir_wire::build::packet(frame, LinkType::ETHERNET) });
        }
        (10..).zip(&mut packets.slots).for_each(|(number, slot)| slot.number = number);
        let mut layers = Vec::new();
        decode_batch(packets.batch(), &mut layers);
        (packets, layers)
    }

    #[test]
    fn packets_that_may_announce_are_those_of_announcing_flows_and_those_that_begin_one() {
        let invite = b"INVITE sip:b@example.test SIP/2.0\r\n";
        let (packets, layers) = packets(&[
            datagram([40_000, 53], b"\x00\x01"),
            datagram([40_001, 40_002], invite),
            datagram([5060, 5061], b"\x80"),
            datagram([40_000, 53], b"\x00\x02"),
        ]);
        let mut announcers = Announcers::default();
        let mut outlook = Outlook::default();
        assert_eq!(outlook.look(packets.batch(), &layers, &announcers), Some(11));
        assert!(announcers.add(7, [5061, 5060]) && !announcers.add(7, [5061, 5060]) && announcers.has(7));
        assert_eq!(outlook.look(packets.batch(), &layers, &announcers), Some(11));
        let passed = [10, 11, 12, 13].map(|packet| outlook.pass(packet));
        assert_eq!(passed, [None, None, Some(12), Some(14)]);
        // A flow that begins to announce may go on with any packet.
        outlook.look(packets.batch(), &layers, &announcers);
        outlook.open();
        assert_eq!([12, 13].map(|packet| outlook.pass(packet)), [None, None]);
        announcers.remove(7);
        assert!(!announcers.has(7) && announcers.ports.is_empty());
    }
}
