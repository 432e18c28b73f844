//! The memory that a ring shares with the kernel, and the packets in its blocks.
//!
//! The status word of a block says whether the kernel or the reader owns it. The kernel does not touch a block that
//! the reader owns (Documentation/networking/packet_mmap.rst). Such a block is plain memory, which is read and written
//! with checked slices.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::io;
use std::mem::{offset_of, size_of};
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicU32, Ordering};

use weir_wire::{Batch, Hints, LinkType, Slot, Time};

use super::RingOptions;

/// Size of a block in bytes. A block holds at least one packet, so this limits the largest packet. The kernel hands
/// over a block per timeout even if it is nearly empty. Many small blocks therefore cover a longer stall on a quiet
/// link than a few large ones.
pub(super) const BLOCK_BYTES: usize = 256 << 10;

/// Blocks of a ring.
pub(super) fn ring_blocks(options: &RingOptions) -> usize {
    (options.ring_bytes / BLOCK_BYTES).max(2)
}

/// Packets per batch: so that they stay in the second-level cache with their bytes.
const BATCH: usize = 512;

/// Bytes of a Linux cooked header, version 2 (LINKTYPE_LINUX_SLL2).
const SLL2_LEN: usize = 20;

/// Bytes of a VLAN tag (IEEE 802.1Q).
const TAG_LEN: usize = 4;

/// How the packets of a ring are presented to the reader.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    /// Link type: the header at the start of a packet.
    pub link: LinkType,
    /// Maximum length of a packet, in bytes.
    pub snaplen: u32,
    /// Index of the interface (see [`weir_wire::Packet::interface`]).
    pub interface: u32,
}

/// The shared memory of one ring, and the reading position in it.
#[derive(Debug)]
pub(super) struct Blocks {
    base: NonNull<u8>,
    count: usize,
    /// The block that is read now or next.
    block: usize,
    /// Offset in it of the next packet's header.
    next: usize,
    /// Number of remaining packets; 0 if the kernel owns the block, or if the block is used up and not returned yet.
    left: u32,
    /// Whether the reader owns the block.
    held: bool,
    slots: Vec<Slot>,
}

// SAFETY: the mapping belongs to this value alone and is not tied to the thread that made it.
unsafe impl Send for Blocks {}

impl Blocks {
    /// Maps a ring of `count` blocks of [`BLOCK_BYTES`] that was made on `socket`, which may be closed then.
    pub fn map(socket: &OwnedFd, count: usize) -> io::Result<Self> {
        let bytes = count * BLOCK_BYTES;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice does not overlap any of our memory.
        let base = unsafe { libc::mmap(null_mut(), bytes, access, libc::MAP_SHARED, socket.as_raw_fd(), 0) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast::<u8>()).ok_or_else(io::Error::last_os_error)?;
        Ok(Self { base, count, block: 0, next: 0, left: 0, held: false, slots: Vec::with_capacity(BATCH) })
    }

    /// The status word of the current block.
    fn status(&self) -> &AtomicU32 {
        let at = self.block * BLOCK_BYTES
            + offset_of!(libc::tpacket_block_desc, hdr)
            + offset_of!(libc::tpacket_hdr_v1, block_status);
        // SAFETY: `block` is less than `count`, so the word lies in the mapping, which lives as long as `self`; a
        // block is page-aligned and the word is at a multiple of 4. It is only ever accessed through this
        // reference while the block is the kernel's, and no slice of the block lives when it is used (slices
        // borrow `self`, and every caller holds `&mut self`).
        unsafe { AtomicU32::from_ptr(self.base.as_ptr().add(at).cast::<u32>()) }
    }

    /// The current block, which must be held.
    fn bytes(&mut self) -> &mut [u8] {
        debug_assert!(self.held);
        // SAFETY: the block lies in the mapping. Its status word, read with Acquire, says that we own it, so that the
        // kernel neither writes nor moves it. `&mut self` makes this the only reference into it.
        unsafe {
            std::slice::from_raw_parts_mut(self.base.as_ptr().add(self.block * BLOCK_BYTES), BLOCK_BYTES)
        }
    }

    /// Returns a used-up block to the kernel, and takes the next one if the reader owns it. Returns whether there is a
    /// packet.
    pub fn ready(&mut self) -> bool {
        if self.left > 0 {
            return true;
        }
        if self.held {
            self.held = false;
            self.status().store(libc::TP_STATUS_KERNEL, Ordering::Release);
            self.block = (self.block + 1) % self.count;
        }
        if self.status().load(Ordering::Acquire) & libc::TP_STATUS_USER == 0 {
            return false;
        }
        self.held = true;
        let header = offset_of!(libc::tpacket_block_desc, hdr);
        let bytes = self.bytes();
        let first = u32_at(bytes, header + offset_of!(libc::tpacket_hdr_v1, offset_to_first_pkt));
        let left = u32_at(bytes, header + offset_of!(libc::tpacket_hdr_v1, num_pkts));
        self.next = first.unwrap_or(0) as usize;
        self.left = left.unwrap_or(0);
        self.left > 0
    }

    /// Returns the time of the next packet. Call it after [`Blocks::ready`] returned `true`.
    pub fn next_time(&mut self) -> Time {
        let next = self.next;
        Header::at(self.bytes(), next).map(|h| h.time).unwrap_or_default()
    }

    /// Returns the next packets. Call it after [`Blocks::ready`] returned `true`.
    pub fn batch(&mut self, shape: Shape) -> Batch<'_> {
        let mut slots = std::mem::take(&mut self.slots);
        slots.clear();
        let (mut next, mut left) = (self.next, self.left);
        let bytes = self.bytes();
        while left > 0 && slots.len() < BATCH {
            let Some(header) = Header::at(bytes, next) else {
                // The kernel does not write such headers: the memory has been overwritten. The rest of the block is
                // lost, and shows as the difference between received and delivered.
                left = 0;
                break;
            };
            slots.push(restore(bytes, next, &header, shape));
            next += header.step;
            left -= 1;
        }
        (self.next, self.left) = (next, left);
        self.slots = slots;
        // SAFETY: as in `bytes()`, but shared: the batch borrows `self`, so that nothing can write.
        let bytes = unsafe {
            std::slice::from_raw_parts(self.base.as_ptr().add(self.block * BLOCK_BYTES), BLOCK_BYTES)
        };
        Batch { bytes, slots: &self.slots }
    }
}

impl Drop for Blocks {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and nothing borrows from it any more. A failure has no consequence.
        unsafe { libc::munmap(self.base.as_ptr().cast::<c_void>(), self.count * BLOCK_BYTES) };
    }
}

/// The needed fields of a `tpacket3_hdr` and of the `sockaddr_ll` after it.
struct Header {
    time: Time,
    /// Bytes to the next header.
    step: usize,
    /// Captured bytes.
    len: u32,
    wire_len: u32,
    status: u32,
    /// Offset of the packet from the header.
    mac: usize,
    tci: u16,
    tpid: u16,
    /// Address of the link layer: `sockaddr_ll` from `sll_protocol` on.
    ll: [u8; 18],
}

/// Offset of the `sockaddr_ll` from the header: TPACKET_ALIGN(sizeof(struct tpacket3_hdr)).
const LL_AT: usize = size_of::<libc::tpacket3_hdr>().next_multiple_of(libc::TPACKET_ALIGNMENT);

impl Header {
    /// The header at an offset of a block.
    fn at(block: &[u8], at: usize) -> Option<Self> {
        use libc::{tpacket_hdr_variant1 as variant, tpacket3_hdr as header};
        let raw = block.get(at..)?.first_chunk::<{ LL_AT + 20 }>()?;
        let variant_at = offset_of!(header, hv1);
        let seconds = u64::from(u32_at(raw, offset_of!(header, tp_sec))?);
        let nanoseconds = u64::from(u32_at(raw, offset_of!(header, tp_nsec))?);
        Some(Self {
            time: Time(seconds * 1_000_000_000 + nanoseconds),
            step: u32_at(raw, offset_of!(header, tp_next_offset))? as usize,
            len: u32_at(raw, offset_of!(header, tp_snaplen))?,
            wire_len: u32_at(raw, offset_of!(header, tp_len))?,
            status: u32_at(raw, offset_of!(header, tp_status))?,
            mac: usize::from(u16_at(raw, offset_of!(header, tp_mac))?),
            tci: u32_at(raw, variant_at + offset_of!(variant, tp_vlan_tci))? as u16,
            tpid: u16_at(raw, variant_at + offset_of!(variant, tp_vlan_tpid))?,
            ll: *raw.get(LL_AT + 2..)?.first_chunk()?,
        })
    }

    /// TPID and TCI of the VLAN tag that the card or the kernel removed from the packet.
    fn tag(&self) -> Option<(u16, u16)> {
        // TPID_VALID is younger than VLAN_VALID; before it every tag was 802.1Q.
        let tpid = if self.status & libc::TP_STATUS_VLAN_TPID_VALID != 0 { self.tpid } else { 0x8100 };
        (self.status & libc::TP_STATUS_VLAN_VALID != 0).then_some((tpid, self.tci))
    }

    /// PACKET_HOST and so on (packet(7)).
    fn packet_type(&self) -> u8 {
        self.ll[8]
    }

    fn hints(&self) -> Hints {
        let direction =
            if self.packet_type() == libc::PACKET_OUTGOING { Hints::OUTBOUND } else { Hints::INBOUND };
        let mut hints = direction;
        if self.status & libc::TP_STATUS_CSUMNOTREADY != 0 {
            hints = hints.with(Hints::CHECKSUM_PENDING);
        }
        if self.status & libc::TP_STATUS_CSUM_VALID != 0 {
            hints = hints.with(Hints::CHECKSUM_VALID);
        }
        hints
    }

    /// The LINKTYPE_LINUX_SLL2 header of the packet, with `protocol` in network byte order.
    fn sll2(&self, protocol: [u8; 2]) -> [u8; SLL2_LEN] {
        let ll = &self.ll;
        let mut out = [0; SLL2_LEN];
        out[..2].copy_from_slice(&protocol);
        let index = u32::from_ne_bytes([ll[2], ll[3], ll[4], ll[5]]);
        out[4..8].copy_from_slice(&index.to_be_bytes());
        let hardware = u16::from_ne_bytes([ll[6], ll[7]]);
        out[8..10].copy_from_slice(&hardware.to_be_bytes());
        out[10..12].copy_from_slice(&ll[8..10]);
        out[12..20].copy_from_slice(&ll[10..18]);
        out
    }
}

/// Completes the bytes of a packet in place. A VLAN tag that the card or the kernel removed is put back, and a packet
/// without a link-layer header gets the cooked one. The room always suffices: the kernel leaves at least 16 bytes
/// between the header and the packet, and the header has been read.
fn restore(block: &mut [u8], at: usize, header: &Header, shape: Shape) -> Slot {
    let start = at + header.mac;
    let mut front = 0;
    if shape.link == LinkType::LINUX_SLL2 {
        front = cook(block, start, header).unwrap_or(0);
    } else if shape.link == LinkType::ETHERNET
        && let Some((tpid, tci)) = header.tag()
    {
        front = put_tag_back(block, start, tpid, tci).unwrap_or(0);
    }
    let offset = start - front;
    let front = front as u32;
    let room = block.len().saturating_sub(offset) as u32;
    Slot {
        time: header.time,
        offset: offset as u32,
        len: header.len.saturating_add(front).min(shape.snaplen).min(room),
        wire_len: header.wire_len.saturating_add(front),
        interface: shape.interface,
        link: shape.link,
        hints: header.hints(),
        number: 0,
    }
}

/// Moves the addresses of the frame at `start` to the front and writes the tag after them. Returns by how many bytes
/// the frame grew to the front.
fn put_tag_back(block: &mut [u8], start: usize, tpid: u16, tci: u16) -> Option<usize> {
    let frame = block.get_mut(start.checked_sub(TAG_LEN)?..start + 12)?;
    frame.copy_within(TAG_LEN.., 0);
    let (tpid, tci) = (tpid.to_be_bytes(), tci.to_be_bytes());
    frame.get_mut(12..)?.copy_from_slice(&[tpid[0], tpid[1], tci[0], tci[1]]);
    Some(TAG_LEN)
}

/// Writes the cooked header in front of the packet at `start`, with the tag, if any, in between. Returns by how many
/// bytes the packet grew to the front.
fn cook(block: &mut [u8], start: usize, header: &Header) -> Option<usize> {
    let protocol = [header.ll[0], header.ll[1]];
    let Some((tpid, tci)) = header.tag() else {
        block.get_mut(start.checked_sub(SLL2_LEN)?..start)?.copy_from_slice(&header.sll2(protocol));
        return Some(SLL2_LEN);
    };
    let front = SLL2_LEN + TAG_LEN;
    let room = block.get_mut(start.checked_sub(front)?..start)?;
    let (cooked, tag) = room.split_at_mut_checked(SLL2_LEN)?;
    cooked.copy_from_slice(&header.sll2(tpid.to_be_bytes()));
    let tci = tci.to_be_bytes();
    tag.copy_from_slice(&[tci[0], tci[1], protocol[0], protocol[1]]);
    Some(front)
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|b| u32::from_ne_bytes(*b))
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|b| u16::from_ne_bytes(*b))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A header with its address, 16 bytes of room and a frame.
    fn block(status: u32, frame: &[u8]) -> Vec<u8> {
        let mut block = vec![0; LL_AT + 20 + 16];
        let mac = block.len() as u16;
        let mut put = |at: usize, bytes: &[u8]| block[at..at + bytes.len()].copy_from_slice(bytes);
        let variant = offset_of!(libc::tpacket3_hdr, hv1);
        let tci = variant + offset_of!(libc::tpacket_hdr_variant1, tp_vlan_tci);
        let tpid = variant + offset_of!(libc::tpacket_hdr_variant1, tp_vlan_tpid);
        put(offset_of!(libc::tpacket3_hdr, tp_status), &status.to_ne_bytes());
        put(offset_of!(libc::tpacket3_hdr, tp_snaplen), &(frame.len() as u32).to_ne_bytes());
        put(offset_of!(libc::tpacket3_hdr, tp_len), &1000u32.to_ne_bytes());
        put(offset_of!(libc::tpacket3_hdr, tp_mac), &mac.to_ne_bytes());
        put(offset_of!(libc::tpacket3_hdr, tp_sec), &1u32.to_ne_bytes());
        put(offset_of!(libc::tpacket3_hdr, tp_nsec), &2u32.to_ne_bytes());
        put(tci, &0x6005u32.to_ne_bytes());
        put(tpid, &0x88a8u16.to_ne_bytes());
        block.extend_from_slice(frame);
        block
    }

    fn restored(status: u32, shape: Shape) -> (Vec<u8>, Slot) {
        let mut bytes = block(status, b"destinsource\x08\x00payload");
        let header = Header::at(&bytes, 0).expect("header");
        let slot = restore(&mut bytes, 0, &header, shape);
        let start = slot.offset as usize;
        (bytes[start..start + slot.len as usize].to_vec(), slot)
    }

    #[test]
    fn a_tag_goes_back_behind_the_addresses() {
        use libc::{TP_STATUS_VLAN_TPID_VALID as TPID, TP_STATUS_VLAN_VALID as VLAN};
        let shape = Shape { link: LinkType::ETHERNET, snaplen: 100, interface: 3 };
        let (data, slot) = restored(0, shape);
        assert_eq!(data, b"destinsource\x08\x00payload");
        assert_eq!((slot.wire_len, slot.time, slot.interface), (1000, Time(1_000_000_002), 3));
        let (data, slot) = restored(VLAN | TPID, shape);
        assert_eq!(data, b"destinsource\x88\xa8\x60\x05\x08\x00payload");
        assert_eq!(slot.wire_len, 1004);
        // Kernels before 3.14 do not report the TPID.
        assert_eq!(restored(VLAN, shape).0, b"destinsource\x81\x00\x60\x05\x08\x00payload");
        let (data, slot) = restored(VLAN, Shape { snaplen: 15, ..shape });
        assert_eq!((&data[..], slot.wire_len), (&b"destinsource\x81\x00\x60"[..], 1004));
        // No tag is inserted on link types without tags.
        assert_eq!(restored(VLAN, Shape { link: LinkType::RAW, ..shape }).0.len(), 21);
    }

    #[test]
    fn hints_report_the_checksum_status_of_the_kernel() {
        let shape = Shape { link: LinkType::ETHERNET, snaplen: 100, interface: 0 };
        let hints = |status| restored(status, shape).1.hints;
        assert_eq!(hints(0), Hints::INBOUND);
        assert_eq!(hints(libc::TP_STATUS_CSUMNOTREADY), Hints::INBOUND.with(Hints::CHECKSUM_PENDING));
        assert_eq!(hints(libc::TP_STATUS_CSUM_VALID), Hints::INBOUND.with(Hints::CHECKSUM_VALID));
    }

    #[test]
    fn arbitrary_bytes_do_not_panic() {
        let mut state = 0x2545_f491_4f6c_dd1d_u64;
        let mut random = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        for round in 0..20_000 {
            let mut bytes: Vec<u8> = (0..160).map(|_| random() as u8).collect();
            if round % 2 == 0 {
                // A small offset: the room in front is too small, or just enough.
                bytes[offset_of!(libc::tpacket3_hdr, tp_mac)] = (random() % 170) as u8;
                bytes[offset_of!(libc::tpacket3_hdr, tp_mac) + 1] = 0;
            }
            for link in [LinkType::ETHERNET, LinkType::LINUX_SLL2, LinkType::RAW] {
                let at = (random() % 100) as usize;
                let Some(header) = Header::at(&bytes, at) else { continue };
                let slot = restore(&mut bytes, at, &header, Shape { link, snaplen: 50, interface: 0 });
                assert!(slot.len <= 50);
                let _ = Batch { bytes: &bytes, slots: &[slot] }.get(0);
            }
        }
    }
}
