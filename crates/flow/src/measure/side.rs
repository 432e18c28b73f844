//! The segments of one side of a flow, and their acknowledgement by the other side.

use super::Jitter;
use crate::FlowPacket;
use crate::stream::Segment;
use crate::tcp_options::{MAX_SCALE, tcp_options};
use weir_wire::build::flags::{ACK, FIN, RST, SYN};
use weir_wire::{Reader, Time};

/// Maximum number of segments of one direction that are timed at once: more would only be close to each other.
const TIMED: usize = 4;
/// Maximum number of holes tracked in one direction.
const HOLES: usize = 4;
/// A hole that is filled within this time, in nanoseconds, counts as reordering if the round-trip time, which a
/// retransmission would need, is not known.
const REORDERING: u64 = 3_000_000;

/// Whether a packet has payload that was not sent before.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Sent {
    /// It has new payload, or no payload at all.
    New,
    /// All of its payload was sent before.
    Again,
}

/// Round-trip times in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct RoundTrips {
    /// Number of measured values.
    pub count: u64,
    /// Sum of the values.
    pub sum: u64,
    /// Minimum of the values.
    pub min: Option<u64>,
    /// Maximum of the values.
    pub max: Option<u64>,
    /// Differences of consecutive values.
    pub jitter: Jitter,
}

impl RoundTrips {
    fn add(&mut self, nanoseconds: u64) {
        self.count += 1;
        self.sum = self.sum.saturating_add(nanoseconds);
        self.min = Some(self.min.map_or(nanoseconds, |min| min.min(nanoseconds)));
        self.max = self.max.max(Some(nanoseconds));
        self.jitter.add(nanoseconds);
    }

    /// Mean of the values.
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum as f64 / self.count as f64)
    }
}

/// The segments of one side of a flow.
#[derive(Clone, Debug, Default)]
pub struct HalfMeasure {
    /// Packets.
    pub packets: u64,
    /// Payload bytes, retransmitted ones included.
    pub bytes: u64,
    /// Payload bytes that were sent for the first time.
    pub fresh_bytes: u64,
    /// Time of the first and of the last packet with payload.
    pub payload_times: Option<(Time, Time)>,
    /// Nanoseconds from this side's SYN to the other side's acknowledgement of it.
    pub handshake: Option<u64>,
    /// Time from this side's data to the other side's acknowledgement. Only unambiguous pairs are timed: after a
    /// retransmission (Karn's rule), only pairs that the timestamps option (RFC 7323) identifies.
    pub round_trips: RoundTrips,
    /// Inter-arrival times of its packets.
    pub arrivals: Jitter,
    /// Segments with payload, SYN or FIN.
    pub segments: u64,
    /// Retransmitted segments.
    pub retransmitted: u64,
    /// Retransmitted segments that the other side had acknowledged before: nothing was lost.
    pub spurious: u64,
    /// Lost segments, as far as retransmissions reveal them.
    pub lost: u64,
    /// Segments that a later segment of this side had overtaken.
    pub out_of_order: u64,
    /// Time to live or hop limit of the last packet.
    pub ttl: u8,
    /// The last announced window in bytes. The window of a SYN is excluded. Unknown without the handshake, which holds
    /// the scale.
    pub window: Option<u64>,
    /// Minimum announced window in bytes.
    pub window_least: Option<u64>,
    /// Maximum announced window in bytes.
    pub window_most: Option<u64>,
    /// Number of times the window was closed.
    pub zero_windows: u64,
    /// Maximum segment size in bytes that this side accepts, from the option of its SYN.
    pub mss: Option<u16>,
    /// Window scale (RFC 7323) of its SYN.
    scale: Option<u8>,
    has_syn: bool,
    last: Option<Time>,
    /// The sequence number after the highest byte that was seen.
    next: Option<u32>,
    /// Acknowledgement number that the other side sent last.
    acknowledged: Option<u32>,
    timed: [Option<Timed>; TIMED],
    holes: [Option<Hole>; HOLES],
}

/// A segment without an acknowledgement yet.
#[derive(Clone, Copy, Debug)]
struct Timed {
    end: u32,
    time: Time,
    /// Its timestamp, if it has the option.
    stamp: Option<u32>,
    is_syn: bool,
}

/// Missing bytes before data that was seen.
#[derive(Clone, Copy, Debug)]
struct Hole {
    begin: u32,
    end: u32,
    since: Time,
}

/// Options of a TCP header.
#[derive(Clone, Copy, Debug, Default)]
struct Options {
    mss: Option<u16>,
    scale: Option<u8>,
    /// Timestamp value and echo reply.
    stamps: Option<(u32, u32)>,
}

impl Options {
    fn of(seen: &FlowPacket<'_>) -> Self {
        Self::read(seen).unwrap_or_default()
    }

    fn read(seen: &FlowPacket<'_>) -> Option<Self> {
        let header = seen.packet.data.get(seen.layers.transport as usize..seen.layers.payload as usize)?;
        let mut found = Self::default();
        for (kind, mut value) in tcp_options(header) {
            match kind {
                2 => found.mss = value.u16(),
                // RFC 7323 2.3: more than 14 is taken as 14.
                3 => found.scale = value.u8().map(|scale| scale.min(MAX_SCALE)),
                8 => found.stamps = value.u32().zip(value.u32()),
                _ => {}
            }
        }
        Some(found)
    }
}

/// Whether `a` is before `b` in sequence space.
fn is_before(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) < 0
}

impl HalfMeasure {
    /// Reads the memory that the next packet needs.
    pub(super) fn touch(&self) -> u64 {
        self.packets ^ self.segments ^ u64::from(self.next.unwrap_or_default())
    }

    /// Mean difference of successive round trips, or of inter-arrival times if there are no round trips. In
    /// nanoseconds.
    pub fn jitter(&self) -> Option<f64> {
        self.round_trips.jitter.mean().or(self.arrivals.mean())
    }

    /// Number of routers that its packets have passed, if the initial value is the next of 64, 128 and 255 as hosts
    /// use; `None` if the side has sent nothing.
    pub fn hops(&self) -> Option<u8> {
        let from = match self.ttl {
            0..=64 => 64,
            65..=128 => 128,
            129.. => 255,
        };
        (self.packets > 0).then(|| from - self.ttl)
    }

    /// Payload bytes per second, from its first packet with payload to its last.
    pub fn throughput(&self) -> Option<f64> {
        let (first, last) = self.payload_times?;
        let nanoseconds = last.since(first);
        (nanoseconds > 0).then(|| self.fresh_bytes as f64 * 1e9 / nanoseconds as f64)
    }

    /// Share of its segments that were lost.
    pub fn loss(&self) -> Option<f64> {
        (self.segments > 0).then(|| self.lost as f64 / self.segments as f64)
    }

    /// Whether the sequence number is after all bytes of this side that were seen: an acknowledgement of bytes that were
    /// not captured.
    pub(super) fn is_beyond(&self, number: u32) -> bool {
        self.next.is_some_and(|next| is_before(next, number))
    }

    /// Takes a packet of this side. `other` is the other side, the receiver.
    pub(super) fn packet(&mut self, seen: &FlowPacket<'_>, other: &mut Self) -> Sent {
        let time = seen.packet.time;
        let length = u64::from(seen.layers.payload_len);
        if let Some(last) = self.last.replace(time) {
            self.arrivals.add(time.since(last));
        }
        self.packets += 1;
        self.bytes += length;
        self.ttl = seen.layers.ttl;
        if length > 0 {
            let first = self.payload_times.map_or(time, |(first, _)| first);
            self.payload_times = Some((first, time.max(first)));
        }
        let Some((segment, options)) = seen.segment().map(|segment| (segment, Options::of(seen))) else {
            self.fresh_bytes += length;
            return Sent::New;
        };
        if segment.flags & SYN != 0 {
            (self.mss, self.scale, self.has_syn) = (options.mss, options.scale, true);
        }
        if let Some(ack) = segment.ack {
            other.is_acknowledged(ack, &options, time);
        }
        self.announces(seen, &segment, other);
        self.sends(&segment, seen.layers.payload_len, &options, other)
    }

    /// Takes the other side's acknowledgement of this side's data.
    fn is_acknowledged(&mut self, ack: u32, options: &Options, now: Time) {
        // Data that was never seen cannot be acknowledged; a wrong number would hide later data.
        let is_possible = self.next.is_some_and(|next| !is_before(next, ack));
        if !is_possible || self.acknowledged.is_some_and(|before| !is_before(before, ack)) {
            return;
        }
        self.acknowledged = Some(ack);
        let echo = options.stamps.map(|(_, echo)| echo);
        // Timestamps identify the acknowledged segment: the first of those that carried this timestamp. Without them,
        // a delayed acknowledgement belongs to the newest segment.
        let mut timed: Option<Timed> = None;
        for place in &mut self.timed {
            let Some(waiting) = place.filter(|waiting| !is_before(ack, waiting.end)) else { continue };
            *place = None;
            let better = match (waiting.stamp, echo) {
                (Some(stamp), Some(echo)) => {
                    stamp == echo && timed.is_none_or(|timed| waiting.time < timed.time)
                }
                _ => timed.is_none_or(|timed| is_before(timed.end, waiting.end)),
            };
            if better {
                timed = Some(waiting);
            }
        }
        for hole in &mut self.holes {
            // Acknowledged but never seen: lost only on the way to the sensor.
            *hole = hole.filter(|hole| is_before(ack, hole.end));
        }
        match timed {
            Some(timed) if timed.is_syn => self.handshake = Some(now.since(timed.time)),
            Some(timed) => self.round_trips.add(now.since(timed.time)),
            None => {}
        }
    }

    fn announces(&mut self, seen: &FlowPacket<'_>, segment: &Segment<'_>, other: &Self) {
        if segment.flags & (SYN | RST) != 0 || segment.flags & ACK == 0 {
            return;
        }
        let field = seen.packet.data.get(seen.layers.transport as usize + 14..);
        let Some(window) = field.and_then(|field| Reader::new(field).u16()) else { return };
        // Windows are scaled if both sides sent the option (RFC 7323 2.2).
        let scale = match (self.scale, other.scale) {
            (Some(scale), Some(_)) => scale,
            _ => 0,
        };
        let window = u64::from(window) << scale;
        if window == 0 && self.window != Some(0) {
            self.zero_windows += 1;
        }
        self.window = Some(window);
        self.window_least = Some(self.window_least.map_or(window, |min| min.min(window)));
        self.window_most = self.window_most.max(Some(window));
    }

    fn sends(&mut self, segment: &Segment<'_>, payload: u32, options: &Options, other: &Self) -> Sent {
        let marks = u32::from(segment.flags & SYN != 0) + u32::from(segment.flags & FIN != 0);
        let length = payload + marks;
        // Payload of a reset is not part of the stream.
        if length == 0 || segment.flags & RST != 0 {
            return Sent::New;
        }
        let (begin, end, time) = (segment.seq, segment.seq.wrapping_add(length), segment.time);
        let Some(next) = self.next else {
            self.segments += 1;
            self.fresh_bytes += u64::from(payload);
            self.next = Some(end);
            self.begin_to_time(segment, end, options);
            return Sent::New;
        };
        if !is_before(begin, next) {
            self.segments += 1;
            self.fresh_bytes += u64::from(payload);
            if begin != next {
                let hole = Hole { begin: next, end: begin, since: time };
                if let Some(place) = self.holes.iter_mut().find(|place| place.is_none()) {
                    *place = Some(hole);
                }
            }
            self.next = Some(end);
            self.begin_to_time(segment, end, options);
            return Sent::New;
        }
        // A keep-alive requests an acknowledgement with a byte that was acknowledged before (RFC 9293 3.8.4); so does
        // a window probe.
        if payload <= 1 && marks == 0 && end == next && self.acknowledged == Some(next) {
            return Sent::Again;
        }
        self.segments += 1;
        let was_hole = self.fill(begin, end);
        let path = self.round_trips.min.or(self.handshake).zip(other.round_trips.min.or(other.handshake));
        // A retransmission comes at the earliest when the receiver could have requested it.
        let asked = path.map_or(REORDERING, |(there, back)| there.saturating_add(back).max(1));
        let is_ahead = is_before(next, end);
        if is_ahead {
            // The part beyond `next` is new: a retransmission can merge segments.
            self.fresh_bytes += u64::from(end.wrapping_sub(next));
            self.next = Some(end);
        }
        match was_hole {
            Some(hole) if time.since(hole.since) < asked => {
                self.out_of_order += 1;
                self.fresh_bytes += u64::from(payload);
                self.forget(begin);
                Sent::New
            }
            was_hole => {
                self.retransmitted += 1;
                let is_spurious = self.acknowledged.is_some_and(|ack| !is_before(ack, end));
                if is_spurious {
                    self.spurious += 1;
                } else {
                    self.lost += 1;
                }
                if was_hole.is_some() {
                    self.fresh_bytes += u64::from(payload);
                }
                // Karn's rule: the acknowledgement may belong to the first or to the second transmission, and later
                // data had to wait. Timestamps resolve it.
                match options.stamps {
                    Some((stamp, _)) => {
                        let is_like_it = |timed: &Timed| timed.end == end && timed.stamp == Some(stamp);
                        let is_doubtful = self.timed.iter().flatten().any(is_like_it);
                        for place in &mut self.timed {
                            *place = place.filter(|timed| timed.stamp.is_some() && !is_like_it(timed));
                        }
                        if !is_doubtful {
                            self.begin_to_time(segment, end, options);
                        }
                    }
                    None => self.forget(begin),
                }
                if was_hole.is_some() || is_ahead { Sent::New } else { Sent::Again }
            }
        }
    }

    /// Times a segment until its acknowledgement, if there is a free slot.
    fn begin_to_time(&mut self, segment: &Segment<'_>, end: u32, options: &Options) {
        let is_syn = segment.flags & SYN != 0;
        let stamp = options.stamps.map(|(stamp, _)| stamp);
        if let Some(place) = self.timed.iter_mut().find(|place| place.is_none()) {
            *place = Some(Timed { end, time: segment.time, stamp, is_syn });
        }
    }

    /// Stops timing segments that end after `begin`.
    fn forget(&mut self, begin: u32) {
        for place in &mut self.timed {
            *place = place.filter(|timed| !is_before(begin, timed.end));
        }
    }

    /// The hole that a segment fills in part or in full.
    fn fill(&mut self, begin: u32, end: u32) -> Option<Hole> {
        let is_in = |hole: &Hole| is_before(begin, hole.end) && is_before(hole.begin, end);
        let at = self.holes.iter().position(|place| place.as_ref().is_some_and(is_in))?;
        let hole = self.holes.get_mut(at)?.take()?;
        let parts = [Hole { end: begin, ..hole }, Hole { begin: end, ..hole }];
        for part in parts.into_iter().filter(|part| is_before(part.begin, part.end)) {
            if let Some(place) = self.holes.iter_mut().find(|place| place.is_none()) {
                *place = Some(part);
            }
        }
        Some(hole)
    }
}
