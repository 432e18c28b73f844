//! Reassembly of IP packets from fragments (RFC 791 3.2, RFC 8200 4.5).

use crate::stream::{Overlap, Queue};
use std::collections::{HashMap, VecDeque};
use weir_wire::{Hints, IpFragment, Layers, LinkType, Network, Packet, Time, addresses, checksum, decode};

/// Configuration of IP reassembly.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct DefragConfig {
    /// Memory limit of waiting fragments in bytes. When there is no room, the packet that has waited longest is
    /// dropped.
    pub memory: usize,
    /// Timeout of an incomplete packet, in nanoseconds since its first fragment arrived.
    pub timeout: u64,
    /// Which data wins where fragments overlap. Under [`Overlap::Linux`] all fragments of a packet are dropped when
    /// they overlap, as Linux does (RFC 5722 for IPv6, since 4.19 for IPv4 too), and reassembly starts anew. A
    /// fragment that lies entirely within data that arrived in order counts as a duplicate, whatever its content.
    pub overlap: Overlap,
}

impl Default for DefragConfig {
    fn default() -> Self {
        Self { memory: 8 << 20, timeout: 30_000_000_000, overlap: Overlap::default() }
    }
}

/// Counts since the beginning. Every fragment belongs to a packet that was reassembled, timed out, was dropped, or
/// still waits.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct DefragStats {
    /// Fragments received.
    pub fragments: u64,
    /// Packets of which a fragment was seen: the sum of the counts below and of the waiting packets.
    pub begun: u64,
    /// Reassembled packets.
    pub whole: u64,
    /// Packets whose fragments did not all arrive in time.
    pub timed_out: u64,
    /// Packets dropped to make room.
    pub shed: u64,
    /// Packets dropped because their fragments overlap, contradict each other about the end, or are too many or too
    /// long.
    pub bad: u64,
    /// Bytes that differ where fragments overlap.
    pub overlap_conflict: u64,
}

/// What is odd about a fragment beside those of its packet that came before.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct OddFragment {
    /// Its IP header has another length than the first one's, or in IPv6 its fragment header has another protocol. An IPv4
    /// fragment of another protocol belongs to another packet.
    pub header: bool,
    /// It contradicts the others about the end of the packet.
    pub size: bool,
    /// It overlaps them.
    pub overlap: bool,
    /// It overlaps them with other bytes.
    pub conflict: bool,
}

/// Identifies the packet of a fragment.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
struct Id {
    addresses: ([u8; 16], [u8; 16]),
    id: u32,
    /// Protocol of an IPv4 packet: a sender may have one identification counter for each protocol (RFC 791).
    proto: u8,
    vlan: u16,
    /// See [`Layers::within`].
    within: u16,
}

/// An incomplete packet.
struct Datagram {
    began: Time,
    /// Sequence number that distinguishes this packet from an earlier one of equal identity.
    number: u64,
    queue: Queue,
    /// Under [`Overlap::Linux`]: begin and end, in bytes, of the runs of fragments that arrived in order.
    runs: Vec<(u64, u64)>,
    /// Headers of the first fragment, without the fragment header.
    header: Vec<u8>,
    /// Length of the fragmented part in bytes, once the last fragment was seen.
    end: Option<u64>,
    /// Whether the packet was dropped. Its later fragments are still recognised.
    bad: bool,
    /// Length in bytes of the first seen fragment's headers, and the protocol of that fragment or of the one at offset 0.
    form: (u32, u8),
}

/// Bytes for an incomplete packet without its fragments: the map and the queue have up to twice as many slots as
/// entries.
const EACH: usize = 2 * (size_of::<(Id, Datagram)>() + size_of::<(Id, u64)>());
/// Maximum length of an IP packet in bytes.
const MAX_LENGTH: u64 = 65_535;
/// Maximum number of waiting fragments of a packet: 64 KiB in fragments of 128 bytes.
const MAX_FRAGMENTS: usize = 512;

/// Reassembles IP packets.
pub struct Defrag {
    config: DefragConfig,
    packets: HashMap<Id, Datagram>,
    /// Incomplete packets, oldest first.
    order: VecDeque<(Id, u64)>,
    bytes: usize,
    stats: DefragStats,
    /// What is odd about the last fragment.
    odd: OddFragment,
    /// The packet that was reassembled last.
    whole: Vec<u8>,
}

impl Defrag {
    /// An empty reassembler.
    pub fn new(config: DefragConfig) -> Self {
        Self {
            config,
            packets: HashMap::new(),
            order: VecDeque::new(),
            bytes: 0,
            stats: DefragStats::default(),
            odd: OddFragment::default(),
            whole: Vec::new(),
        }
    }

    /// Takes a fragment. If it completes a packet, returns the whole packet, with link type [`LinkType::RAW`], and its
    /// layers.
    pub fn fragment(&mut self, packet: &Packet<'_>, layers: &Layers) -> Option<(Packet<'_>, Layers)> {
        self.odd = OddFragment::default();
        let fragment = IpFragment::of(packet, layers)?;
        let proto = if layers.network_kind == Network::Ipv4 { fragment.proto } else { 0 };
        let (vlan, within) = (layers.vlan[0], layers.within);
        let id = Id { addresses: addresses(packet, layers)?, id: fragment.id, proto, vlan, within };
        self.expire(packet.time);
        self.stats.fragments += 1;
        let known = self.packets.len();
        let number = self.stats.fragments;
        let datagram = self.packets.entry(id).or_insert_with(|| Datagram {
            began: packet.time,
            number,
            queue: Queue::default(),
            runs: Vec::new(),
            header: Vec::new(),
            end: None,
            bad: false,
            form: form(&fragment, layers),
        });
        self.odd.header = datagram.changes(&fragment, layers);
        let before = if datagram.number == number { 0 } else { datagram.cost() };
        let is_whole =
            datagram.add(&fragment, packet, layers, self.config.overlap, &mut self.stats, &mut self.odd);
        let is_bad = datagram.bad;
        self.bytes = self.bytes + datagram.cost() - before;
        if self.packets.len() > known {
            self.bytes += EACH;
            self.order.push_back((id, number));
            self.stats.begun += 1;
        }
        // Linux forgets a packet that it has dropped.
        if self.config.overlap == Overlap::Linux && is_bad {
            self.remove(&id);
            return None;
        }
        if !is_whole {
            while self.bytes > self.config.memory
                && let Some(dropped) = self.drop_oldest()
            {
                self.stats.shed += u64::from(!dropped.bad);
            }
            return None;
        }
        let datagram = self.remove(&id)?;
        self.whole.clear();
        if !datagram.assemble(&mut self.whole) {
            self.stats.bad += 1;
            return None;
        }
        self.stats.whole += 1;
        let whole = Packet {
            time: packet.time,
            data: &self.whole,
            wire_len: self.whole.len() as u32,
            interface: packet.interface,
            link: LinkType::RAW,
            hints: packet.hints.with(Hints::REASSEMBLED),
            number: packet.number,
        };
        let mut inner = decode(&whole);
        (inner.vlan, inner.within) = (layers.vlan, layers.within);
        Some((whole, inner))
    }

    /// What is odd about the last fragment, as far as the others of its packet were kept.
    pub fn odd(&self) -> OddFragment {
        self.odd
    }

    /// Counts since the beginning.
    pub fn stats(&self) -> DefragStats {
        self.stats
    }

    /// Ends the input: packets that are still incomplete count as timed out.
    pub fn finish(&mut self) {
        while let Some(dropped) = self.drop_oldest() {
            self.stats.timed_out += u64::from(!dropped.bad);
        }
    }

    /// Memory of the fragments in bytes.
    pub fn memory(&self) -> usize {
        self.bytes
    }

    /// Removes packets whose timeout has passed.
    fn expire(&mut self, now: Time) {
        while let Some((id, number)) = self.order.front().copied() {
            match self.packets.get(&id).filter(|datagram| datagram.number == number) {
                Some(datagram) if now.since(datagram.began) <= self.config.timeout => return,
                Some(datagram) => {
                    self.stats.timed_out += u64::from(!datagram.bad);
                    self.remove(&id);
                }
                None => {}
            }
            self.order.pop_front();
        }
    }

    fn drop_oldest(&mut self) -> Option<Datagram> {
        while let Some((id, number)) = self.order.pop_front() {
            if self.packets.get(&id).is_some_and(|datagram| datagram.number == number) {
                return self.remove(&id);
            }
        }
        None
    }

    fn remove(&mut self, id: &Id) -> Option<Datagram> {
        let datagram = self.packets.remove(id)?;
        self.bytes -= datagram.cost() + EACH;
        Some(datagram)
    }
}

impl Datagram {
    fn cost(&self) -> usize {
        self.queue.cost() + self.header.capacity() + self.runs.capacity() * size_of::<(u64, u64)>()
    }

    /// Whether Linux keeps the packet when it gets that fragment (`inet_frag_queue_insert`).
    fn linux_keeps(&mut self, start: u64, end: u64) -> bool {
        let behind = match self.runs.last_mut() {
            None => true,
            Some(last) if last.1 < end => {
                if start == last.1 {
                    last.1 = end;
                    return true;
                }
                if start < last.1 {
                    return false;
                }
                true
            }
            Some(_) => false,
        };
        let at = if behind { self.runs.len() } else { self.runs.partition_point(|run| run.1 <= start) };
        match self.runs.get(at) {
            Some(run) if run.0 <= start && end <= run.1 => {}
            Some(run) if run.0 < end => return false,
            _ => self.runs.insert(at, (start, end)),
        }
        true
    }

    /// Whether a fragment has other headers than the first seen one. The protocol of an IPv6 packet is that of its first
    /// fragment (RFC 8200 4.5), also when this one comes later.
    fn changes(&mut self, fragment: &IpFragment<'_>, layers: &Layers) -> bool {
        let this = form(fragment, layers);
        let is_other = self.form != this;
        if fragment.offset == 0 {
            self.form.1 = this.1;
        }
        is_other
    }

    /// Adds a fragment. Returns whether the packet is complete now.
    fn add(
        &mut self,
        fragment: &IpFragment<'_>,
        packet: &Packet<'_>,
        layers: &Layers,
        overlap: Overlap,
        stats: &mut DefragStats,
        odd: &mut OddFragment,
    ) -> bool {
        if self.bad {
            return false;
        }
        let start = u64::from(fragment.offset);
        let is_linux = overlap == Overlap::Linux;
        let mut data = fragment.data;
        // A fragment that the capture truncated cannot be reassembled.
        let is_cut = data.len() < fragment.len as usize;
        if fragment.more && !data.len().is_multiple_of(8) && !is_cut && is_linux {
            // RFC 8200 forbids it, and Linux refuses such a fragment; of an IPv4 fragment Linux keeps the whole units
            // of 8 bytes.
            if layers.network_kind == Network::Ipv6 {
                return false;
            }
            data = data.get(..data.len() & !7).unwrap_or_default();
        }
        let end = start + data.len() as u64;
        let is_irregular = fragment.more && !data.len().is_multiple_of(8) || end > MAX_LENGTH;
        let last = if fragment.more { self.end } else { Some(end) };
        let contradicts = self.end.is_some_and(|known| Some(known) != last || end > known)
            || last.is_some_and(|last| self.queue.end().is_some_and(|held| held > last));
        odd.size = contradicts && !is_cut;
        if is_cut || is_irregular || contradicts || is_linux && data.is_empty() {
            return self.spoil(stats);
        }
        self.end = last;
        let drops = is_linux && !self.linux_keeps(start, end);
        let prefers_new = |new, old| overlap.prefers_new_fragment(new, old);
        let inserted = self.queue.insert(start, data, packet.time, false, prefers_new);
        stats.overlap_conflict += inserted.overlap_conflict;
        (odd.overlap, odd.conflict) = (inserted.retransmitted > 0, inserted.overlap_conflict > 0);
        if drops || self.queue.len() > MAX_FRAGMENTS {
            return self.spoil(stats);
        }
        if start == 0 && self.header.is_empty() {
            self.header = header(fragment, packet, layers).unwrap_or_default();
        }
        self.is_whole()
    }

    fn is_whole(&self) -> bool {
        !self.header.is_empty() && self.end.is_some_and(|end| self.queue.is_contiguous(end))
    }

    fn spoil(&mut self, stats: &mut DefragStats) -> bool {
        stats.bad += 1;
        self.bad = true;
        self.queue = Queue::default();
        self.runs = Vec::new();
        self.header = Vec::new();
        false
    }

    /// Writes the packet; `false` if it is longer than IP allows.
    fn assemble(mut self, out: &mut Vec<u8>) -> bool {
        let is_v4 = self.header.first().is_some_and(|first| first >> 4 == 4);
        let length = self.header.len() as u64 + self.end.unwrap_or_default();
        let claimed = if is_v4 { length } else { length.saturating_sub(40) };
        let Ok(claimed) = u16::try_from(claimed) else { return false };
        let at = if is_v4 { 2 } else { 4 };
        if let Some(field) = self.header.get_mut(at..at + 2) {
            field.copy_from_slice(&claimed.to_be_bytes());
        }
        if is_v4 {
            for range in [6..8, 10..12] {
                self.header.get_mut(range).unwrap_or_default().fill(0);
            }
            let sum = !checksum::sum(&self.header);
            if let Some(field) = self.header.get_mut(10..12) {
                field.copy_from_slice(&sum.to_be_bytes());
            }
        }
        out.extend_from_slice(&self.header);
        while let Some(piece) = self.queue.pop() {
            out.extend_from_slice(&piece.data);
        }
        true
    }
}

/// The length of a fragment's headers in bytes, and its protocol.
fn form(fragment: &IpFragment<'_>, layers: &Layers) -> (u32, u8) {
    (fragment.start.saturating_sub(layers.network), fragment.proto)
}

/// The headers before the fragmented part, as headers of the whole packet.
fn header(fragment: &IpFragment<'_>, packet: &Packet<'_>, layers: &Layers) -> Option<Vec<u8>> {
    let start = layers.network as usize;
    let all = packet.data.get(start..fragment.start as usize)?;
    if layers.network_kind == Network::Ipv4 {
        return Some(all.to_vec());
    }
    // The header before the fragment header gets the fragment header's next-header value.
    let (rest, _) = all.split_at_checked(all.len().checked_sub(8)?)?;
    let mut header = rest.to_vec();
    let (mut field, mut at) = (6_usize, 40_usize);
    while at < rest.len() {
        let [_, len] = *rest.get(at..)?.first_chunk::<2>()?;
        let is_ah = *rest.get(field)? == 51;
        field = at;
        at += if is_ah { (usize::from(len) + 2) * 4 } else { (usize::from(len) + 1) * 8 };
    }
    *header.get_mut(field)? = fragment.proto;
    Some(header)
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_wire::build::packet;

    /// A fragment of an IPv4 packet, in a raw frame.
    fn v4(id: u16, offset: u16, more: bool, data: &[u8]) -> Vec<u8> {
        let mut frame = vec![0x45, 0];
        frame.extend((20 + data.len() as u16).to_be_bytes());
        frame.extend(id.to_be_bytes());
        frame.extend(((offset / 8) | (u16::from(more) << 13)).to_be_bytes());
        frame.extend([64, 17, 0, 0, 192, 0, 2, 1, 198, 51, 100, 2]);
        frame.extend(data);
        frame
    }

    fn v6(id: u32, offset: u16, more: bool, data: &[u8]) -> Vec<u8> {
        let mut frame = vec![0x60, 0, 0, 0];
        frame.extend((16 + data.len() as u16).to_be_bytes());
        frame.extend([0, 64]);
        frame.extend([0x20; 16]);
        frame.extend([0x21; 16]);
        // A hop-by-hop header, which is kept, and the fragment header.
        frame.extend([44, 0, 1, 4, 0, 0, 0, 0, 17, 0]);
        frame.extend((offset | u16::from(more)).to_be_bytes());
        frame.extend(id.to_be_bytes());
        frame.extend(data);
        frame
    }

    /// UDP with a payload of the given length.
    fn udp(len: u16) -> Vec<u8> {
        let mut data = [1234_u16, 53, 8 + len, 0].map(u16::to_be_bytes).concat();
        data.extend((0..len).map(|n| n as u8));
        data
    }

    fn take(defrag: &mut Defrag, time: u64, frame: &[u8]) -> Option<(Vec<u8>, Layers)> {
        let packet = Packet { time: Time(time), ..packet(frame, LinkType::RAW) };
        let layers = decode(&packet);
        defrag.fragment(&packet, &layers).map(|(whole, layers)| (whole.data.to_vec(), layers))
    }

    #[test]
    fn fragments_in_any_order_give_the_packet() {
        let payload = udp(100);
        for (make, header) in [
            (&(|at, more, data: &[u8]| v4(7, at, more, data)) as &dyn Fn(u16, bool, &[u8]) -> Vec<u8>, 20),
            (&|at, more, data: &[u8]| v6(7, at, more, data), 48),
        ] {
            let parts = [
                make(0, true, &payload[..48]),
                make(48, true, &payload[48..80]),
                make(80, false, &payload[80..]),
            ];
            for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
                let mut defrag = Defrag::new(DefragConfig::default());
                assert!(take(&mut defrag, 1, &parts[order[0]]).is_none());
                assert!(take(&mut defrag, 2, &parts[order[1]]).is_none());
                let (whole, layers) = take(&mut defrag, 3, &parts[order[2]]).unwrap();
                assert_eq!((layers.error, layers.ports, layers.ip_proto), (None, [1234, 53], 17));
                assert_eq!(layers.payload_of(&whole), &payload[8..], "{order:?}");
                assert_eq!(whole.len(), header + payload.len());
                assert_eq!((defrag.memory(), defrag.stats().whole), (0, 1));
            }
        }
    }

    #[test]
    fn overlaps_go_by_the_policy() {
        let payload = udp(40);
        let other = [b'!'; 24];
        // The second fragment within the first, or beyond its end.
        let with = |overlap, at: u16| {
            let mut defrag = Defrag::new(DefragConfig { overlap, ..DefragConfig::default() });
            assert!(take(&mut defrag, 1, &v4(7, 0, true, &payload[..32])).is_none());
            assert!(take(&mut defrag, 2, &v4(7, at, true, &other)).is_none());
            let whole = take(&mut defrag, 3, &v4(7, 32, false, &payload[32..])).map(|(whole, _)| whole[48]);
            (whole, defrag.stats().bad, defrag.stats().overlap_conflict > 0)
        };
        let ours = payload[28];
        assert_eq!(with(Overlap::First, 8), (Some(ours), 0, true));
        assert_eq!(with(Overlap::Last, 8), (Some(b'!'), 0, true));
        // A fragment within the present data counts as a duplicate. Any other overlap drops all, and the last fragment
        // alone does not make a packet.
        assert_eq!(with(Overlap::Linux, 8), (Some(ours), 0, true));
        assert_eq!(with(Overlap::Linux, 16), (None, 1, true));
        let mut defrag = Defrag::new(DefragConfig::default());
        for (at, data) in [(0, &payload[..32]), (24, &other[..]), (0, &payload[..32])] {
            assert!(take(&mut defrag, 1, &v4(7, at, true, data)).is_none());
        }
        // Reassembly starts anew.
        assert!(take(&mut defrag, 2, &v4(7, 32, false, &payload[32..])).is_some());
        assert_eq!((defrag.stats().bad, defrag.stats().whole, defrag.memory()), (1, 1, 0));
        // A repeated fragment is no overlap.
        let mut defrag = Defrag::new(DefragConfig::default());
        assert!(take(&mut defrag, 1, &v4(7, 0, true, &payload[..32])).is_none());
        assert!(take(&mut defrag, 2, &v4(7, 0, true, &payload[..32])).is_none());
        assert!(take(&mut defrag, 3, &v4(7, 32, false, &payload[32..])).is_some());
    }

    #[test]
    fn a_fragment_is_odd_beside_others() {
        let odd = |overlap, frames: &[Vec<u8>]| {
            let mut defrag = Defrag::new(DefragConfig { overlap, ..DefragConfig::default() });
            frames.iter().for_each(|frame| drop(take(&mut defrag, 1, frame)));
            defrag.odd()
        };
        let usual = OddFragment::default();
        let first = v4(7, 0, true, &[1; 32]);
        for overlap in [Overlap::First, Overlap::Linux] {
            let beside = |frame| odd(overlap, &[first.clone(), frame]);
            assert_eq!(beside(v4(7, 32, true, &[1; 32])), usual);
            let same = OddFragment { overlap: true, ..usual };
            assert_eq!(beside(first.clone()), same);
            assert_eq!(beside(v4(7, 24, true, &[1; 32])), same);
            assert_eq!(beside(v4(7, 24, true, &[2; 32])), OddFragment { conflict: true, ..same });
            assert_eq!(beside(v4(8, 0, true, &[2; 32])), usual, "of another packet");
            let size = OddFragment { size: true, ..usual };
            assert_eq!(beside(v4(7, 16, false, &[1; 8])), size, "the end lies within");
            let last = v4(7, 80, false, &[1; 8]);
            assert_eq!(odd(overlap, &[last.clone(), v4(7, 88, false, &[1; 8])]), size);
            assert_eq!(odd(overlap, &[last.clone(), v4(7, 96, true, &[1; 8])]), size);
            assert_eq!(odd(overlap, &[last, v4(7, 64, true, &[1; 8])]), usual);
            // An option of four bytes in the header of one fragment.
            let mut longer = v4(7, 32, true, &[1; 36]);
            longer[0] = 0x46;
            assert!(beside(longer).header);
            let mut other = v6(7, 48, true, &[1; 48]);
            assert_eq!(odd(overlap, &[v6(7, 0, true, &[1; 48]), other.clone()]), usual);
            other[48] = 6;
            assert!(odd(overlap, &[v6(7, 0, true, &[1; 48]), other]).header);
        }
    }

    #[test]
    fn invalid_fragments_are_dropped() {
        for (overlap, bad) in [(Overlap::First, 3), (Overlap::Linux, 2)] {
            let mut defrag = Defrag::new(DefragConfig { overlap, ..DefragConfig::default() });
            // Beyond 65,535 bytes.
            assert!(take(&mut defrag, 1, &v4(1, 65_528, false, &[0; 100])).is_none());
            // Two last fragments with different ends.
            assert!(take(&mut defrag, 1, &v4(2, 80, false, &[0; 8])).is_none());
            assert!(take(&mut defrag, 1, &v4(2, 40, false, &[0; 8])).is_none());
            // Not a multiple of 8 bytes, of which Linux keeps the whole units.
            assert!(take(&mut defrag, 1, &v4(3, 0, true, &[0; 17])).is_none());
            let whole = take(&mut defrag, 1, &v4(3, 16, false, &[0; 8]));
            assert_eq!(whole.is_some(), overlap == Overlap::Linux);
            assert_eq!(defrag.stats().bad, bad, "{overlap:?}");
        }
    }

    #[test]
    fn waiting_fragments_are_limited_in_time_and_memory() {
        let mut defrag = Defrag::new(DefragConfig { memory: 1 << 20, ..DefragConfig::default() });
        for id in 0..5000_u16 {
            take(&mut defrag, 1000, &v4(id, 0, true, &[0; 800]));
            assert!(defrag.memory() <= 1 << 20);
        }
        let shed = defrag.stats().shed;
        assert!(shed > 3000);
        take(&mut defrag, 31_000_000_000, &v4(6000, 0, true, &[0; 800]));
        assert_eq!(defrag.stats().timed_out, 5000 - shed);
        assert!(defrag.memory() < 2000);
    }
}
