//! Classic pcap: a header of 24 bytes, then records (draft-ietf-opsawg-pcap; libpcap's savefile(5)).

use weir_wire::{LinkType, Slot, Time};

use super::walk::{Limits, Stop, Walk, max_captured};

/// The file header's length in bytes.
pub(crate) const HEADER: usize = 24;

/// The properties that the magic number encodes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Magic {
    pub(crate) big_endian: bool,
    pub(crate) nanoseconds: bool,
    /// Alexey Kuznetsov's variant: record headers of 24 bytes.
    pub(crate) modified: bool,
}

impl Magic {
    pub(crate) fn of(head: &[u8]) -> Option<Magic> {
        let head = *head.first_chunk::<4>()?;
        [(u32::from_le_bytes(head), false), (u32::from_be_bytes(head), true)].into_iter().find_map(
            |(value, big_endian)| {
                let (nanoseconds, modified) = match value {
                    0xa1b2_c3d4 => (false, false),
                    0xa1b2_3c4d => (true, false),
                    0xa1b2_cd34 => (false, true),
                    _ => return None,
                };
                Some(Magic { big_endian, nanoseconds, modified })
            },
        )
    }
}

/// Order of the two lengths in a record header.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Lengths {
    CapturedFirst,
    /// Before version 2.3, and DG/UX's 543.0.
    WireFirst,
    /// Version 2.3 exists in both orders: the smaller length is the captured one.
    Either,
}

/// A parsed file header.
#[derive(Clone, Debug)]
pub(crate) struct Pcap {
    pub(crate) magic: Magic,
    /// The header's snaplen in bytes; 0 means no limit.
    pub(crate) snaplen: u32,
    pub(crate) link: LinkType,
    pub(crate) interface: u32,
    lengths: Lengths,
    max: u32,
    cut: u32,
    /// The last packet's time. The plausibility of a record after a gap is judged by it.
    last: Time,
}

/// The header's version is not supported.
pub(crate) struct BadVersion {
    pub(crate) major: u16,
    pub(crate) minor: u16,
}

impl Pcap {
    /// Parses the file header; `None` if `head` is too short or starts with another magic number.
    pub(crate) fn new(head: &[u8]) -> Option<Result<Pcap, BadVersion>> {
        let head = head.first_chunk::<HEADER>()?;
        let magic = Magic::of(head)?;
        let half = |at: usize| {
            let raw = [head[at], head[at + 1]];
            if magic.big_endian { u16::from_be_bytes(raw) } else { u16::from_le_bytes(raw) }
        };
        let word = |at: usize| {
            let raw = [head[at], head[at + 1], head[at + 2], head[at + 3]];
            if magic.big_endian { u32::from_be_bytes(raw) } else { u32::from_le_bytes(raw) }
        };
        let (major, minor) = (half(4), half(6));
        let lengths = match (major, minor) {
            (2, 0..=2) | (543, 0) => Lengths::WireFirst,
            (2, 3) => Lengths::Either,
            (2, 4) => Lengths::CapturedFirst,
            _ => return Some(Err(BadVersion { major, minor })),
        };
        let (snaplen, link) = (word(16), link_type(word(20)));
        let max = max_captured(link);
        // libpcap cuts packets that are longer than the header's snaplen. Doing likewise keeps lengths equal to its
        // own.
        let mut cut = if snaplen == 0 || snaplen > i32::MAX as u32 { max } else { snaplen };
        if magic.modified && link == LinkType::ETHERNET {
            cut = cut.saturating_add(14);
        }
        let last = Time(0);
        Some(Ok(Pcap { magic, snaplen, link, interface: 0, lengths, max, cut, last }))
    }

    fn record(&self) -> usize {
        if self.magic.modified { 24 } else { 16 }
    }

    /// Pushes a slot for every whole record of `bytes` from `at` on.
    pub(crate) fn walk(&mut self, bytes: &[u8], at: usize, slots: &mut Vec<Slot>, limits: &Limits) -> Walk {
        let walk = match self.magic.big_endian {
            false => self.walk_in::<false>(bytes, at, slots, limits),
            true => self.walk_in::<true>(bytes, at, slots, limits),
        };
        if let Some(slot) = slots.last() {
            self.last = slot.time;
        }
        walk
    }

    fn walk_in<const BIG: bool>(
        &self,
        bytes: &[u8],
        at: usize,
        slots: &mut Vec<Slot>,
        limits: &Limits,
    ) -> Walk {
        let header = self.record();
        let tick = if self.magic.nanoseconds { 1 } else { 1_000 };
        let cut = self.cut.min(limits.snaplen);
        let mut at = at;
        loop {
            let Some(raw) = bytes.get(at..at + 16).and_then(|raw| raw.first_chunk::<16>()) else {
                return Walk { at, stop: Stop::More(header) };
            };
            let [sec, sub, mut captured, mut wire] = words::<BIG>(raw);
            let swapped = match self.lengths {
                Lengths::CapturedFirst => false,
                Lengths::WireFirst => true,
                Lengths::Either => captured > wire,
            };
            if swapped {
                (captured, wire) = (wire, captured);
            }
            if captured > self.max {
                let what = format!(
                    "record with {captured} captured bytes; expected at most {} (link type {})",
                    self.max, self.link
                );
                return Walk { at, stop: Stop::Bad(what) };
            }
            let end = at + header + captured as usize;
            if end > bytes.len() {
                return Walk { at, stop: Stop::More(header + captured as usize) };
            }
            if slots.len() >= limits.packets {
                return Walk { at, stop: Stop::Enough };
            }
            slots.push(Slot {
                time: Time(u64::from(sec) * 1_000_000_000 + u64::from(sub) * tick),
                offset: (at + header) as u32,
                len: captured.min(cut),
                // It may be below the captured length, which is an error of the writer: libpcap keeps it, too.
                wire_len: wire,
                interface: self.interface,
                link: self.link,
                ..Slot::default()
            });
            at = end;
        }
    }

    /// Whether a record may start at `bytes`; used to continue after a corrupt record. Checks two consecutive headers
    /// if both are present.
    pub(crate) fn plausible(&self, bytes: &[u8], ended: bool) -> Option<bool> {
        let header = self.record();
        let mut at = 0;
        let mut last = self.last;
        for _ in 0..2 {
            if ended && at == bytes.len() && at > 0 {
                return Some(true);
            }
            let Some(raw) = bytes.get(at..at + 16).and_then(|raw| raw.first_chunk::<16>()) else {
                return if ended { Some(false) } else { None };
            };
            let [sec, sub, captured, wire] = match self.magic.big_endian {
                false => words::<false>(raw),
                true => words::<true>(raw),
            };
            let whole = if self.magic.nanoseconds { 1_000_000_000 } else { 1_000_000 };
            let near = last == Time(0) || u64::from(sec).abs_diff(last.secs()) <= 86_400;
            let fits = captured <= self.max && wire <= self.max && captured.min(wire) > 0;
            if sub >= whole || !near || !fits || (self.lengths == Lengths::CapturedFirst && captured > wire) {
                return Some(false);
            }
            last = Time(u64::from(sec) * 1_000_000_000);
            at +=
                header + if self.lengths == Lengths::WireFirst { wire } else { captured.min(wire) } as usize;
        }
        Some(true)
    }
}

fn words<const BIG: bool>(raw: &[u8; 16]) -> [u32; 4] {
    let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = *raw;
    [[a, b, c, d], [e, f, g, h], [i, j, k, l], [m, n, o, p]]
        .map(|word| if BIG { u32::from_be_bytes(word) } else { u32::from_le_bytes(word) })
}

/// The link type of the word in a file header. Its upper six bits hold the length of the frame check sequence.
pub(crate) fn link_type(word: u32) -> LinkType {
    match word & 0x03ff_ffff {
        // DLT_RAW as written without the mapping to LINKTYPE_RAW: 12 on most systems, 14 on OpenBSD.
        12 | 14 => LinkType::RAW,
        value => LinkType(u16::try_from(value).unwrap_or(u16::MAX)),
    }
}
