//! A captured packet, and batches of packets.

use crate::LinkType;

/// Nanoseconds since the Unix epoch (UTC), taken from the packet and never from the clock.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Time(pub u64);

impl Time {
    /// Whole seconds since the epoch.
    pub fn secs(self) -> u64 {
        self.0 / 1_000_000_000
    }

    /// Nanoseconds within the second.
    pub fn subsec_nanos(self) -> u32 {
        (self.0 % 1_000_000_000) as u32
    }

    /// Nanoseconds from `earlier` to `self`; 0 if `earlier` is later than `self`.
    pub fn since(self, earlier: Time) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// Seconds since the epoch; exact to about a quarter of a microsecond.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }
}

/// Facts about a packet in addition to its bytes, from a live source or from what put it together. In a packet from a file all bits
/// are clear.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Hints(pub u16);

impl Hints {
    /// The interface received the packet.
    pub const INBOUND: Hints = Hints(1);
    /// The interface sent the packet.
    pub const OUTBOUND: Hints = Hints(2);
    /// The sender left the transport checksum to the card (TP_STATUS_CSUMNOTREADY): the checksum is absent, not wrong.
    pub const CHECKSUM_PENDING: Hints = Hints(4);
    /// The card has verified the transport checksum (TP_STATUS_CSUM_VALID).
    pub const CHECKSUM_VALID: Hints = Hints(8);
    /// The packet was put together from fragments: no source has it so.
    pub const REASSEMBLED: Hints = Hints(16);

    /// Whether every bit of `other` is set.
    pub fn has(self, other: Hints) -> bool {
        self.0 & other.0 == other.0
    }

    /// Both sets of bits.
    #[must_use]
    pub fn with(self, other: Hints) -> Hints {
        Hints(self.0 | other.0)
    }
}

/// A captured packet. The bytes stay in the source's memory.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    /// Time at which the source saw the packet.
    pub time: Time,
    /// The captured bytes, from the link-layer header on.
    pub data: &'a [u8],
    /// Bytes on the wire, as the source states them; `data` may be shorter (snaplen), and is longer only where a file states
    /// less than it has, in error.
    pub wire_len: u32,
    /// Index of the receiving interface, counted over all interfaces of a run.
    pub interface: u32,
    /// Link type: the protocol at the start of `data`.
    pub link: LinkType,
    /// Further facts from a live source.
    pub hints: Hints,
    /// Number in the run's input, from 1, modulo 2^32; 0 for a packet without a number, such as one from a live source.
    /// A reassembled packet has the number of the fragment that completed it.
    pub number: u32,
}

/// A packet of a [`Batch`]: where its bytes lie, and the rest of [`Packet`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Slot {
    /// See [`Packet::time`].
    pub time: Time,
    /// Offset of the first byte in the batch's bytes.
    pub offset: u32,
    /// Captured bytes.
    pub len: u32,
    /// See [`Packet::wire_len`].
    pub wire_len: u32,
    /// See [`Packet::interface`].
    pub interface: u32,
    /// See [`Packet::link`].
    pub link: LinkType,
    /// See [`Packet::hints`].
    pub hints: Hints,
    /// See [`Packet::number`].
    pub number: u32,
}

/// Packets of one source, in the order in which they were seen, in one block of memory: a part of a file, or a block
/// of a kernel ring.
#[derive(Clone, Copy, Debug, Default)]
pub struct Batch<'a> {
    /// The memory that the slots' offsets refer to.
    pub bytes: &'a [u8],
    /// The packets.
    pub slots: &'a [Slot],
}

impl<'a> Batch<'a> {
    /// Number of packets.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether the batch is empty.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// The captured bytes of a slot's packet; none for a slot that points outside of the bytes.
    #[inline]
    pub fn data(&self, slot: &Slot) -> &'a [u8] {
        let start = slot.offset as usize;
        self.bytes.get(start..start + slot.len as usize).unwrap_or_default()
    }

    /// The packet of a slot. A slot that points outside of the bytes gives a packet without bytes.
    pub fn packet(&self, slot: &Slot) -> Packet<'a> {
        Packet {
            time: slot.time,
            data: self.data(slot),
            wire_len: slot.wire_len,
            interface: slot.interface,
            link: slot.link,
            hints: slot.hints,
            number: slot.number,
        }
    }

    /// Packet `index`, counted from 0.
    pub fn get(&self, index: usize) -> Option<Packet<'a>> {
        self.slots.get(index).map(|slot| self.packet(slot))
    }

    /// Every packet in order.
    pub fn packets(&self) -> impl Iterator<Item = Packet<'a>> + use<'a> {
        let batch = *self;
        batch.slots.iter().map(move |slot| batch.packet(slot))
    }
}

/// A batch that owns its memory and is refilled: reading a file allocates nothing per packet.
#[derive(Debug, Default)]
pub struct PacketBuf {
    /// The packets' bytes, and the bytes between them.
    pub bytes: Vec<u8>,
    /// The packets in `bytes`.
    pub slots: Vec<Slot>,
}

impl PacketBuf {
    /// Removes the packets and keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.slots.clear();
    }

    /// A view of the packets.
    pub fn batch(&self) -> Batch<'_> {
        Batch { bytes: &self.bytes, slots: &self.slots }
    }

    /// Copies a packet to the end.
    pub fn push(&mut self, packet: &Packet<'_>) {
        let offset = self.bytes.len() as u32;
        self.bytes.extend_from_slice(packet.data);
        self.slots.push(Slot {
            time: packet.time,
            offset,
            len: packet.data.len() as u32,
            wire_len: packet.wire_len,
            interface: packet.interface,
            link: packet.link,
            hints: packet.hints,
            number: packet.number,
        });
    }
}
