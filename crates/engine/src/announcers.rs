//! The flows of a worker that may announce flows between other hosts, and the packets that may do so.
//!
//! A flow that begins has to know what was announced before it, also in packets that another worker has not read yet. Its worker
//! would have to wait until they are read. Nearly all packets announce nothing, and their headers and first bytes show it: they
//! have other ports than the flows that announce, and no such flow begins with their payload.

use std::collections::{HashMap, VecDeque};
use weir_proto::may_begin_elsewhere;
use weir_wire::{Batch, Fragment, Layers, LinkType, Packet, further_frames, levels};

/// Bytes of a flow in the lists.
const FLOW: usize = 64;

/// The flows that may announce flows between other hosts.
#[derive(Default)]
pub(crate) struct Announcers {
    /// Their ports in order, by row.
    flows: HashMap<u32, [u16; 2]>,
    /// Number of flows with these ports.
    ports: HashMap<[u16; 2], u32>,
    /// Excludes nearly all packets without a search of `ports`.
    filter: PortFilter,
}

/// A bit for each of the ports that were added, at a place that other ports may share.
struct PortFilter {
    bits: [u64; Self::WORDS],
    /// Number of ports that were removed and still have their bits.
    removed: usize,
}

impl Default for PortFilter {
    fn default() -> Self {
        Self { bits: [0; Self::WORDS], removed: 0 }
    }
}

impl PortFilter {
    const WORDS: usize = 64;

    /// The word and the bit of two ports in any order.
    fn place([one, other]: [u16; 2]) -> (usize, u64) {
        let mixed =
            u32::from(one ^ other).wrapping_add(u32::from(one.min(other))).wrapping_mul(0x9e37_79b1) >> 20;
        (mixed as usize / 64 % Self::WORDS, 1 << (mixed % 64))
    }

    fn add(&mut self, ports: [u16; 2]) {
        let (word, bit) = Self::place(ports);
        self.bits[word] |= bit;
    }

    fn may_have(&self, ports: [u16; 2]) -> bool {
        let (word, bit) = Self::place(ports);
        self.bits[word] & bit != 0
    }
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
            self.filter.add(ports);
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
                self.filter.removed += 1;
            }
        }
        if self.filter.removed > self.ports.len() {
            self.filter = PortFilter::default();
            self.ports.keys().for_each(|ports| self.filter.add(*ports));
        }
    }

    /// Memory in bytes.
    pub fn memory(&self) -> usize {
        (self.flows.capacity() + self.ports.capacity()) * FLOW
    }

    /// Whether a packet may announce a flow between other hosts: it belongs to a flow that does, begins such a flow, or contains
    /// packets that are not seen here. A tunnel's packet is of several flows.
    fn may_announce(&self, packet: &Packet<'_>, layers: &Layers) -> bool {
        if layers.common {
            return self.may_be_of_one(packet, layers);
        }
        if packet.link != LinkType::ETHERNET && further_frames(packet).next().is_some() {
            return true;
        }
        levels(packet, layers)
            .any(|level| level.fragment != Fragment::Whole || self.may_be_of_one(packet, &level))
    }

    /// Whether the packet at a level belongs to a flow that announces, or begins one.
    fn may_be_of_one(&self, packet: &Packet<'_>, layers: &Layers) -> bool {
        layers.has_transport()
            && (self.filter.may_have(layers.ports) && self.ports.contains_key(&in_order(layers.ports))
                || may_begin_elsewhere(layers.ip_proto, layers.ports, layers.payload_of(packet.data)))
    }
}

/// The packets that a worker is about to read and that may announce flows between other hosts.
#[derive(Default)]
pub(crate) struct Outlook {
    /// Their numbers, in order; those that were read have left.
    may_announce: VecDeque<u32>,
    /// The number after the last packet that was looked at.
    end: u32,
    /// Whether more of the packets that were looked at may announce: a flow began to.
    is_open: bool,
}

impl Outlook {
    /// Looks at packets that the worker reads after those that it looked at before, and before the packet of number `end`. Returns
    /// the number up to which none of its packets announces, if it is known.
    pub fn look(
        &mut self,
        batch: Batch<'_>,
        layers: &[Layers],
        end: u32,
        announcers: &Announcers,
    ) -> Option<u32> {
        let packets = batch.packets().zip(layers);
        let found = packets.filter(|(packet, layers)| announcers.may_announce(packet, layers));
        self.may_announce.extend(found.map(|(packet, _)| packet.number));
        self.end = end;
        (!self.is_open).then(|| self.next())
    }

    /// A flow may announce from the packet on that is read.
    pub fn open(&mut self) {
        self.is_open = true;
    }

    /// Forgets the packets that were looked at, if more of them may announce than were found. They are to be looked at again.
    pub fn forget(&mut self) -> bool {
        let is_open = std::mem::take(&mut self.is_open);
        if is_open {
            self.may_announce.clear();
        }
        is_open
    }

    /// The packets before the one of a number were read. Returns the number up to which no packet announces, if that has changed.
    pub fn pass(&mut self, packet: u32) -> Option<u32> {
        // Of a packet that holds others, all have its number.
        let is_before = |number: &mut u32| (number.wrapping_sub(packet) as i32) < 0;
        let mut has_passed = false;
        while self.may_announce.pop_front_if(is_before).is_some() {
            has_passed = true;
        }
        (has_passed && !self.is_open).then(|| self.next())
    }

    fn next(&self) -> u32 {
        self.may_announce.front().copied().unwrap_or(self.end)
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
        // The packets after them, up to number 19, are of other workers.
        let look = |outlook: &mut Outlook, announcers: &Announcers| {
            outlook.look(packets.batch(), &layers, 20, announcers)
        };
        assert_eq!(look(&mut outlook, &announcers), Some(11));
        assert!(announcers.add(7, [5061, 5060]) && !announcers.add(7, [5061, 5060]) && announcers.has(7));
        let mut outlook = Outlook::default();
        assert_eq!(look(&mut outlook, &announcers), Some(11));
        let passed = [10, 11, 12, 13].map(|packet| outlook.pass(packet));
        assert_eq!(passed, [None, None, Some(12), Some(20)]);
        // A flow that begins to announce may go on with any packet, so that all are looked at again.
        look(&mut outlook, &announcers);
        outlook.open();
        assert_eq!([12, 13].map(|packet| outlook.pass(packet)), [None, None]);
        assert!(outlook.forget() && !outlook.forget());
        announcers.remove(7);
        assert_eq!(look(&mut outlook, &announcers), Some(11));
        assert_eq!(outlook.pass(12), Some(20));
        assert!(!announcers.has(7) && announcers.ports.is_empty());
    }

    #[test]
    fn the_filter_of_ports_excludes_none_that_was_added() {
        let mut announcers = Announcers::default();
        let ports = |row: u32| [5060, (row * 7 % 60_000) as u16];
        (0..3000).for_each(|row| assert!(announcers.add(row, ports(row))));
        assert!((0..3000).all(|row| announcers.filter.may_have(ports(row))));
        (0..2990).for_each(|row| announcers.remove(row));
        assert!((2990..3000).all(|row| announcers.filter.may_have(ports(row))));
        // The filter was made again without those that were removed.
        let left = (0..2990).filter(|row| announcers.filter.may_have(ports(*row))).count();
        assert!(left < 300, "{left}");
    }
}
