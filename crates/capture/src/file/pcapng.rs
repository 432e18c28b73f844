//! pcapng: sections of blocks (draft-ietf-opsawg-pcapng).
//!
//! Packets stay in place in the buffer, as in classic pcap. Blocks of other types are skipped without being buffered,
//! regardless of their length.

use weir_wire::{LinkType, Slot, Time};

use super::describe::{InputInfo, InterfaceInfo, LATEST};
use super::interfaces::{Interfaces, MAX_INTERFACES};
use super::pcap::link_type;
use super::walk::{Limits, Stop, Walk, max_captured};

const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const PACKET: u32 = 2;
const SIMPLE: u32 = 3;
const NAMES: u32 = 4;
const STATISTICS: u32 = 5;
const ENHANCED: u32 = 6;
const CUSTOM: u32 = 0xbad;
const CUSTOM_PRIVATE: u32 = 0x4000_0bad;

/// Maximum length of a block that is buffered as a whole, in bytes, as in libpcap. Packet blocks of some link types
/// may be longer.
const MAX_BLOCK: u32 = 16 << 20;

/// A comment on a packet.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Comment {
    /// Index of its packet in the buffer.
    pub slot: usize,
    /// The comment.
    pub text: String,
}

/// Conversion from ticks to nanoseconds.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Scale {
    Times(u64),
    Divided(u64),
    /// Ticks are 2^-n seconds.
    Binary(u32),
}

impl Scale {
    /// Parses if_tsresol: an exponent, whose base is 2 if the uppermost bit is set, and otherwise 10.
    fn of(resolution: u8) -> Scale {
        let exponent = u32::from(resolution & 0x7f);
        if resolution & 0x80 != 0 {
            Scale::Binary(exponent)
        } else if exponent <= 9 {
            Scale::Times(10_u64.pow(9 - exponent))
        } else {
            Scale::Divided(10_u64.checked_pow(exponent - 9).unwrap_or(u64::MAX))
        }
    }

    fn nanoseconds(self, ticks: u64) -> u64 {
        match self {
            Scale::Times(factor) => ticks.saturating_mul(factor),
            Scale::Divided(divisor) => ticks / divisor,
            Scale::Binary(exponent) => {
                let product = u128::from(ticks) * 1_000_000_000;
                u64::try_from(product >> exponent).unwrap_or(u64::MAX)
            }
        }
    }

    fn ticks_per_second(resolution: u8) -> u64 {
        let exponent = u32::from(resolution & 0x7f);
        let base: u64 = if resolution & 0x80 != 0 { 2 } else { 10 };
        base.checked_pow(exponent).unwrap_or(0)
    }
}

/// The properties of an interface that its packets need.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Local {
    /// Index over all inputs of the run.
    interface: u32,
    link: LinkType,
    snaplen: u32,
    scale: Scale,
    /// if_tsoffset, in nanoseconds.
    offset: i64,
}

impl Local {
    fn time(&self, ticks: u64) -> Time {
        Time(self.scale.nanoseconds(ticks).saturating_add_signed(self.offset))
    }
}

/// The results of a walk other than slots.
pub(crate) struct Findings<'a> {
    pub(crate) info: &'a mut InputInfo,
    pub(crate) input: usize,
    pub(crate) interfaces: &'a mut Interfaces,
    pub(crate) comments: &'a mut Vec<Comment>,
}

/// The parser of a pcapng file.
#[derive(Debug, Default)]
pub(crate) struct Pcapng {
    big_endian: bool,
    /// Interfaces of this section, by number. Beyond [`MAX_INTERFACES`] only runs of equal interfaces are kept: a file
    /// with a million interfaces has equal ones or is hostile.
    locals: Vec<Local>,
    runs: Vec<(u32, Local)>,
    described: u32,
    last: Time,
}

impl Pcapng {
    fn half(&self, bytes: &[u8], at: usize) -> Option<u16> {
        let raw = *bytes.get(at..)?.first_chunk::<2>()?;
        Some(if self.big_endian { u16::from_be_bytes(raw) } else { u16::from_le_bytes(raw) })
    }

    fn word(&self, bytes: &[u8], at: usize) -> Option<u32> {
        let raw = *bytes.get(at..)?.first_chunk::<4>()?;
        Some(if self.big_endian { u32::from_be_bytes(raw) } else { u32::from_le_bytes(raw) })
    }

    fn long(&self, bytes: &[u8], at: usize) -> Option<u64> {
        let raw = *bytes.get(at..)?.first_chunk::<8>()?;
        Some(if self.big_endian { u64::from_be_bytes(raw) } else { u64::from_le_bytes(raw) })
    }

    /// Pushes a slot for every packet of the whole blocks of `bytes` from `at` on.
    pub(crate) fn walk(
        &mut self,
        bytes: &[u8],
        at: usize,
        slots: &mut Vec<Slot>,
        limits: &Limits,
        findings: &mut Findings<'_>,
    ) -> Walk {
        let mut at = at;
        loop {
            let length = match self.block(bytes, at) {
                Ok(length) => length,
                Err(stop) => return Walk { at, stop },
            };
            let block = bytes.get(at..at + length).unwrap_or_default();
            let kind = self.word(block, 0).unwrap_or_default();
            let is_packet = matches!(kind, ENHANCED | SIMPLE | PACKET);
            if is_packet && slots.len() >= limits.packets {
                return Walk { at, stop: Stop::Enough };
            }
            let body = block.get(8..length - 4).unwrap_or_default();
            let result = match kind {
                SECTION => self.section(body, findings),
                INTERFACE => self.interface(body, findings),
                STATISTICS => {
                    self.statistics(body, findings);
                    Ok(())
                }
                ENHANCED | SIMPLE | PACKET => {
                    self.packet(kind, body, at + 8, slots, limits, findings).map_err(Stop::Bad)
                }
                other => {
                    count(other, findings.info);
                    Ok(())
                }
            };
            if let Err(stop) = result {
                return Walk { at, stop };
            }
            at += length;
        }
    }

    /// The length of the block at `at`, which is present as a whole; of a section header, sets the byte order.
    fn block(&mut self, bytes: &[u8], at: usize) -> Result<usize, Stop> {
        let head = bytes.get(at..).unwrap_or_default();
        if head.len() < 12 {
            return Err(Stop::More(12));
        }
        let mut kind = self.word(head, 0).unwrap_or_default();
        if kind == SECTION {
            match head.get(8..12) {
                Some([0x1a, 0x2b, 0x3c, 0x4d]) => self.big_endian = true,
                Some([0x4d, 0x3c, 0x2b, 0x1a]) => self.big_endian = false,
                other => {
                    let found = other.and_then(|raw| raw.first_chunk::<4>()).copied().unwrap_or_default();
                    let found = u32::from_be_bytes(found);
                    return Err(Stop::Bad(format!(
                        "section header with byte-order magic {found:08x}; expected 1a2b3c4d or 4d3c2b1a"
                    )));
                }
            }
            kind = SECTION;
        }
        let length = self.word(head, 4).unwrap_or_default();
        if length < 12 || !length.is_multiple_of(4) {
            return Err(Stop::Bad(format!(
                "block of type {kind:#x} has a length of {length} bytes; expected a multiple of 4, at least 12"
            )));
        }
        let whole = head.len() >= length as usize;
        let wanted = matches!(kind, SECTION | INTERFACE | STATISTICS | ENHANCED | SIMPLE | PACKET);
        // The end of a block is checked even if the block is not needed, unless it is too long to be buffered.
        if !whole && !wanted && length > MAX_BLOCK {
            return Err(Stop::Skip(u64::from(length)));
        }
        let max = match kind {
            ENHANCED | SIMPLE | PACKET => self.max_packet_block(),
            _ => MAX_BLOCK,
        };
        if wanted && length > max {
            return Err(Stop::Bad(format!(
                "block of type {kind:#x} has a length of {length} bytes; expected at most {max}"
            )));
        }
        if !whole {
            return Err(Stop::More(length as usize));
        }
        let again = self.word(head, length as usize - 4).unwrap_or_default();
        if again != length {
            return Err(Stop::Bad(format!(
                "block of type {kind:#x} has a length of {length} bytes at its start and of {again} at its end; expected equal lengths"
            )));
        }
        Ok(length as usize)
    }

    fn max_packet_block(&self) -> u32 {
        let max = self.locals.iter().take(16).map(|local| max_captured(local.link)).max().unwrap_or(0);
        MAX_BLOCK.max(max.saturating_add(64 << 10))
    }

    fn section(&mut self, body: &[u8], findings: &mut Findings<'_>) -> Result<(), Stop> {
        let (Some(major), Some(minor)) = (self.half(body, 4), self.half(body, 6)) else {
            return Err(Stop::Bad("section header without a version; expected 28 bytes or more".to_owned()));
        };
        // Some programs write minor version 2, which has the format of 0.
        if major != 1 || !matches!(minor, 0 | 2) {
            return Err(Stop::Version(major, minor));
        }
        findings.info.blocks.sections += 1;
        self.locals.clear();
        self.runs.clear();
        self.described = 0;
        for (code, value) in self.options(body, 16) {
            match code {
                1 => findings.interfaces.comment(value, findings.info),
                2..=4 => findings.interfaces.machine(value, findings.info),
                _ => {}
            }
        }
        Ok(())
    }

    fn interface(&mut self, body: &[u8], findings: &mut Findings<'_>) -> Result<(), Stop> {
        let (Some(link), Some(snaplen)) = (self.half(body, 0), self.word(body, 4)) else {
            return Err(Stop::Bad(format!(
                "interface description with {} bytes of body; expected 8 or more",
                body.len()
            )));
        };
        findings.info.blocks.interfaces += 1;
        let link = link_type(u32::from(link));
        let mut resolution = 6;
        let mut offset = 0_i64;
        let mut described =
            InterfaceInfo { input: findings.input, link, snaplen, ..InterfaceInfo::default() };
        let room = findings.interfaces.list.len() < MAX_INTERFACES;
        for (code, value) in self.options(body, 8) {
            match (code, value) {
                (1, value) => findings.interfaces.comment(value, findings.info),
                (2, value) if room => described.name = findings.interfaces.text(value, findings.info),
                (3, value) if room => {
                    described.description = findings.interfaces.text(value, findings.info);
                }
                (9, [value]) => resolution = *value,
                (14, value) => offset = self.long(value, 0).unwrap_or_default() as i64,
                _ => {}
            }
        }
        described.ticks_per_second = Scale::ticks_per_second(resolution);
        if !findings.info.links.contains(&link) && findings.info.links.len() < 64 {
            findings.info.links.push(link);
        }
        let local = Local {
            interface: findings.interfaces.add(described),
            link,
            snaplen,
            scale: Scale::of(resolution),
            offset: offset.saturating_mul(1_000_000_000),
        };
        let number = self.described;
        self.described = self.described.saturating_add(1);
        if self.locals.len() < MAX_INTERFACES {
            self.locals.push(local);
        } else if self.runs.last().is_none_or(|(_, last)| *last != local) {
            if self.runs.len() >= MAX_INTERFACES {
                return Err(Stop::Bad(format!(
                    "more than {} different interfaces in a section",
                    2 * MAX_INTERFACES
                )));
            }
            self.runs.push((number, local));
        }
        Ok(())
    }

    fn local(&self, number: u32) -> Option<Local> {
        if let Some(local) = self.locals.get(number as usize) {
            return Some(*local);
        }
        if number >= self.described {
            return None;
        }
        let after = self.runs.partition_point(|(first, _)| *first <= number);
        self.runs.get(after.checked_sub(1)?).map(|(_, local)| *local)
    }

    fn packet(
        &mut self,
        kind: u32,
        body: &[u8],
        start: usize,
        slots: &mut Vec<Slot>,
        limits: &Limits,
        findings: &mut Findings<'_>,
    ) -> Result<(), String> {
        let short = || format!("packet block with {} bytes of body, too few for its header", body.len());
        let (number, header) = match kind {
            ENHANCED => (self.word(body, 0).ok_or_else(short)?, 20),
            PACKET => (u32::from(self.half(body, 0).ok_or_else(short)?), 20),
            _ => (0, 4),
        };
        let Some(local) = self.local(number) else {
            return Err(format!(
                "packet of interface {number}; expected one of the {} that this section describes",
                self.described
            ));
        };
        let (time, captured, wire) = if kind == SIMPLE {
            let wire = self.word(body, 0).ok_or_else(short)?;
            let limit = if local.snaplen == 0 { u32::MAX } else { local.snaplen };
            // A packet without a time takes the time of the packet before it.
            (self.last, wire.min(limit), wire)
        } else {
            let high = self.word(body, 4).ok_or_else(short)?;
            let low = self.word(body, 8).ok_or_else(short)?;
            let captured = self.word(body, 12).ok_or_else(short)?;
            let wire = self.word(body, 16).ok_or_else(short)?;
            (local.time(u64::from(high) << 32 | u64::from(low)), captured, wire)
        };
        if time > LATEST {
            findings.info.times_clipped += 1;
        }
        let time = time.min(LATEST);
        let max = max_captured(local.link).min(body.len().saturating_sub(header) as u32);
        if captured > max {
            return Err(format!("packet with {captured} captured bytes; expected at most {max}"));
        }
        self.last = time;
        let slot = slots.len();
        slots.push(Slot {
            time,
            offset: (start + header) as u32,
            len: captured.min(limits.snaplen),
            wire_len: wire,
            interface: local.interface,
            link: local.link,
            ..Slot::default()
        });
        match kind {
            ENHANCED => findings.info.blocks.enhanced += 1,
            SIMPLE => findings.info.blocks.simple += 1,
            _ => {
                findings.info.blocks.obsolete += 1;
                self.add_drops(body, local.interface, findings);
            }
        }
        let options = header + (captured as usize).next_multiple_of(4);
        if kind != SIMPLE && options < body.len() {
            for (code, value) in self.options(body, options) {
                if code == 1 {
                    findings.info.packet_comments += 1;
                    let text = String::from_utf8_lossy(value).into_owned();
                    findings.comments.push(Comment { slot, text });
                }
            }
        }
        Ok(())
    }

    /// The obsolete Packet Block counts the packets lost since the previous one; 65,535 means unknown.
    fn add_drops(&self, body: &[u8], interface: u32, findings: &mut Findings<'_>) {
        let drops = self.half(body, 2).unwrap_or_default();
        if drops != 0
            && drops != u16::MAX
            && let Some(info) = findings.interfaces.list.get_mut(interface as usize)
        {
            info.dropped = Some(info.dropped.unwrap_or_default().saturating_add(u64::from(drops)));
        }
    }

    fn statistics(&self, body: &[u8], findings: &mut Findings<'_>) {
        findings.info.blocks.statistics += 1;
        let Some(local) = self.word(body, 0).and_then(|number| self.local(number)) else { return };
        for (code, value) in self.options(body, 12) {
            let Some(info) = findings.interfaces.list.get_mut(local.interface as usize) else { return };
            match code {
                1 => findings.interfaces.comment(value, findings.info),
                4 => info.received = self.long(value, 0),
                5 => info.dropped = self.long(value, 0),
                _ => {}
            }
        }
    }

    /// The options of a block, from `at` in its body to the end-of-options option, or to the first option that does
    /// not fit.
    fn options<'a>(&self, body: &'a [u8], at: usize) -> Options<'a> {
        Options { rest: body.get(at..).unwrap_or_default(), big_endian: self.big_endian }
    }

    /// Whether a block may start at `bytes`; used to continue after a corrupt block.
    pub(crate) fn plausible(&self, bytes: &[u8], ended: bool) -> Option<bool> {
        let (Some(kind), Some(length)) = (self.word(bytes, 0), self.word(bytes, 4)) else {
            return if ended { Some(false) } else { None };
        };
        let known = matches!(kind, SECTION | INTERFACE..=ENHANCED);
        if !known || length < 12 || !length.is_multiple_of(4) || length > MAX_BLOCK {
            return Some(false);
        }
        match self.word(bytes, length as usize - 4) {
            Some(again) => Some(again == length),
            None if ended => Some(false),
            None => None,
        }
    }
}

/// Counts a skipped block.
pub(crate) fn count(kind: u32, info: &mut InputInfo) {
    let counter = match kind {
        NAMES => &mut info.blocks.names,
        CUSTOM => &mut info.blocks.custom,
        CUSTOM_PRIVATE => &mut info.blocks.custom_private,
        _ => &mut info.blocks.other,
    };
    *counter += 1;
}

impl Pcapng {
    /// Counts the block at `bytes`, which is skipped without being parsed.
    pub(crate) fn count(&self, bytes: &[u8], info: &mut InputInfo) {
        count(self.word(bytes, 0).unwrap_or_default(), info);
    }
}

struct Options<'a> {
    rest: &'a [u8],
    big_endian: bool,
}

impl<'a> Iterator for Options<'a> {
    type Item = (u16, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let [a, b, c, d] = *self.rest.first_chunk::<4>()?;
        let half = |raw| if self.big_endian { u16::from_be_bytes(raw) } else { u16::from_le_bytes(raw) };
        let (code, length) = (half([a, b]), usize::from(half([c, d])));
        if code == 0 {
            return None;
        }
        let value = self.rest.get(4..4 + length)?;
        self.rest = self.rest.get(4 + length.next_multiple_of(4)..).unwrap_or_default();
        Some((code, value))
    }
}
