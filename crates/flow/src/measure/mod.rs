//! Quality of a flow: round-trip times, loss, windows, throughput, and waiting times of both sides.
//!
//! All values are measured at the capture point. A round trip is timed from a segment to its acknowledgement, so that
//! it covers the path from the capture point to the receiver; both directions add up to the whole path.
//!
//! Requests and responses are found without parsing the protocol: a *request* begins when the initiator sends payload
//! after it received some, and its *response* is the payload of the other side before the next request. Pipelined
//! requests look like one request.

mod pace;
mod side;
#[cfg(test)]
mod tests;

pub use pace::Jitter;
pub use side::{HalfMeasure, RoundTrips};

use crate::{FlowIdentity, FlowPacket};
use side::Sent;
use weir_wire::build::flags::{ACK, RST, SYN};
use weir_wire::{Direction, Time};

/// IP protocol.
const TCP: u8 = 6;

/// Silence of a flow, in nanoseconds, that ends a burst of packets.
pub const BURST_GAP: u64 = 100_000_000;

/// Configuration of measurements.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct MeasureConfig {
    /// Length of a sample in nanoseconds; samples begin at multiples of it. 0 for no samples.
    pub sample: u64,
    /// Memory limit in bytes. Flows beyond it are not measured; their packets are counted.
    pub memory: usize,
    /// Whether each packet, exchange and burst is emitted too.
    pub details: bool,
    /// Whether only the [`Delays`] of a flow are asked for: it is measured until they are known. Without samples and details.
    pub delays: bool,
}

/// What the beginning of a flow tells: all that is known of a flow of which nothing else is asked for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Delays {
    /// The flow.
    pub flow: FlowIdentity,
    /// Nanoseconds from the SYN of each side to the other side's acknowledgement of it: [`HalfMeasure::handshake`].
    pub handshakes: [Option<u64>; 2],
    /// Nanoseconds to the responder's first byte: [`Measure::first_byte`].
    pub first_byte: Option<u64>,
}

impl Delays {
    /// Duration of the whole handshake in nanoseconds: both of its round trips.
    pub fn handshake(&self) -> Option<u64> {
        let [forward, reverse] = self.handshakes;
        Some(forward? + reverse?)
    }
}

/// A measurement.
#[derive(Clone, Copy, Debug)]
pub enum Measured<'a> {
    /// A packet, in order.
    Packet {
        /// The sending side.
        direction: Direction,
        /// Bytes of the IP packet.
        bytes: u64,
        /// Nanoseconds since the previous packet of the flow.
        gap: Option<u64>,
    },
    /// End of a request and its response.
    Exchange(&'a Exchange),
    /// End of a burst.
    Burst(&'a Burst),
    /// End of a period of the flow.
    Sample(&'a Sample),
    /// End of the flow.
    End(&'a Measure),
}

/// A request and its response.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Exchange {
    /// Time of the request's first packet.
    pub begin: Time,
    /// Nanoseconds from the last byte of the previous response to the request.
    pub think: Option<u64>,
    /// Payload bytes of the request.
    pub request: u64,
    /// Nanoseconds from the last packet of the request to the first of the response.
    pub wait: Option<u64>,
    /// Payload bytes of the response.
    pub response: u64,
}

/// Packets with less than [`BURST_GAP`] between them.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Burst {
    /// Time of the first packet.
    pub begin: Time,
    /// Time of the last packet.
    pub end: Time,
    /// Number of packets.
    pub packets: u64,
    /// Bytes of their IP packets.
    pub bytes: u64,
}

/// Measurements of a flow in one period.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sample {
    /// Beginning of the period, a multiple of its length.
    pub begin: Time,
    /// Length of the period in nanoseconds.
    pub length: u64,
    /// Both sides, in the order of [`Direction`].
    pub sides: [SampleSide; 2],
}

/// Measurements of one side of a flow in one period.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SampleSide {
    /// Packets.
    pub packets: u64,
    /// Payload bytes, retransmitted ones included.
    pub bytes: u64,
    /// Number of round trips timed from segments of this side.
    pub round_trips: u64,
    /// Mean of these round trips in nanoseconds.
    pub rtt: Option<f64>,
    /// Jitter at the period's end, in nanoseconds: [`HalfMeasure::jitter`].
    pub jitter: Option<f64>,
    /// Retransmitted segments.
    pub retransmitted: u64,
    /// Segments that were lost.
    pub lost: u64,
    /// Segments out of order.
    pub out_of_order: u64,
    /// The last window that the side announced, in bytes.
    pub window: Option<u64>,
}

/// One flow's measurements. Arrays are in the order of [`Direction`].
#[derive(Clone, Debug)]
pub struct Measure {
    /// The flow.
    pub flow: FlowIdentity,
    /// Time of the last packet.
    pub last: Time,
    /// The segments of each side.
    pub sides: [HalfMeasure; 2],
    /// Number of requests.
    pub requests: u64,
    /// Nanoseconds from the initiator's first byte to the responder's first byte; if the responder sends first, from
    /// the end of the handshake. `None` unless both ends were seen: not for a response without its request, and not for a
    /// TCP connection whose beginning was not seen, because its first bytes are not those of the connection.
    pub first_byte: Option<u64>,
    /// Time of the initiator's first payload.
    spoke: Option<Time>,
    /// Whether the beginning was seen: for TCP the initiator's SYN or the responder's SYN-ACK.
    begun: bool,
    /// Time at which a bare acknowledgement of the initiator ended the handshake.
    opened: Option<Time>,
    exchange: Exchange,
    /// Time of the last packet with payload of each side.
    spoken_at: [Option<Time>; 2],
    /// The side that sent payload last.
    turn: Option<Direction>,
    burst: Burst,
    /// Counters at the beginning of the period, the number of the period, and whether it has had packets.
    before: [Before; 2],
    period: u64,
    is_sampled: bool,
}

/// Counts at the beginning of a period.
#[derive(Clone, Copy, Debug, Default)]
struct Before {
    packets: u64,
    bytes: u64,
    round_trips: u64,
    rtt_sum: u64,
    retransmitted: u64,
    lost: u64,
    out_of_order: u64,
}

impl Before {
    fn of(side: &HalfMeasure) -> Self {
        Self {
            packets: side.packets,
            bytes: side.bytes,
            round_trips: side.round_trips.count,
            rtt_sum: side.round_trips.sum,
            retransmitted: side.retransmitted,
            lost: side.lost,
            out_of_order: side.out_of_order,
        }
    }
}

impl Measure {
    fn new(flow: FlowIdentity) -> Self {
        Self {
            flow,
            last: flow.first,
            sides: [HalfMeasure::default(), HalfMeasure::default()],
            requests: 0,
            first_byte: None,
            spoke: None,
            begun: flow.key.proto != TCP,
            opened: None,
            exchange: Exchange::default(),
            spoken_at: [None; 2],
            turn: None,
            burst: Burst::default(),
            before: [Before::default(); 2],
            period: 0,
            is_sampled: false,
        }
    }

    /// The measurements of one direction.
    pub fn side(&self, direction: Direction) -> &HalfMeasure {
        let [forward, reverse] = &self.sides;
        match direction {
            Direction::Forward => forward,
            Direction::Reverse => reverse,
        }
    }

    /// Duration of the whole handshake in nanoseconds: both of its round trips.
    pub fn handshake(&self) -> Option<u64> {
        self.delays().handshake()
    }

    /// What the beginning of the flow tells, so far.
    pub fn delays(&self) -> Delays {
        let [forward, reverse] = &self.sides;
        Delays {
            flow: self.flow,
            handshakes: [forward.handshake, reverse.handshake],
            first_byte: self.first_byte,
        }
    }

    /// Whether no packet can change the delays: the responder has spoken, which decides on the first byte, and a TCP connection
    /// has both parts of its handshake.
    fn has_delays(&self) -> bool {
        let [forward, reverse] = &self.sides;
        let [_, response] = self.spoken_at;
        let is_open =
            self.flow.key.proto != TCP || forward.handshake.is_some() && reverse.handshake.is_some();
        response.is_some() && is_open
    }

    /// Reads the memory that the next packet needs. The returned value only keeps the compiler from removing the reads.
    fn touch(&self) -> u64 {
        let [forward, reverse] = &self.sides;
        self.last.0 ^ self.burst.packets ^ forward.touch() ^ reverse.touch()
    }

    fn packet(
        &mut self,
        seen: &FlowPacket<'_>,
        config: &MeasureConfig,
        emit: &mut impl FnMut(&Self, Measured<'_>),
    ) {
        let time = seen.packet.time;
        if config.sample > 0 {
            self.pass_to(time, config.sample, emit);
            self.is_sampled = true;
        }
        let is_first = self.burst.packets == 0;
        let gap = (!is_first).then(|| time.since(self.last));
        let bytes = u64::from(seen.layers.network_len);
        if config.details {
            emit(self, Measured::Packet { direction: seen.direction, bytes, gap });
        }
        if gap.is_some_and(|gap| gap >= BURST_GAP) {
            if config.details {
                emit(self, Measured::Burst(&self.burst));
            }
            self.burst = Burst::default();
        }
        if self.burst.packets == 0 {
            self.burst.begin = time;
        }
        self.burst.end = time.max(self.burst.begin);
        self.burst.packets += 1;
        self.burst.bytes += bytes;
        self.last = self.last.max(time);

        // A SYN after the connection was in use belongs to another one on the same ports.
        let known = self.has_delays().then(|| self.delays().handshakes);
        let [forward, reverse] = &mut self.sides;
        let (mine, other) = match seen.direction {
            Direction::Forward => (forward, reverse),
            Direction::Reverse => (reverse, forward),
        };
        let sent = mine.packet(seen, other);
        if let Some(known) = known {
            self.sides.iter_mut().zip(known).for_each(|(side, handshake)| side.handshake = handshake);
        }
        if seen.layers.ip_proto == TCP {
            let from_initiator = seen.direction == Direction::Forward;
            match seen.layers.tcp_flags & (SYN | ACK | RST) {
                // RFC 9293, 3.5: the initiator's SYN acknowledges nothing, the responder's does.
                flags if flags & (SYN | RST) == SYN && from_initiator == (flags & ACK == 0) => {
                    self.begun = true;
                }
                flags if flags & (SYN | RST) == 0 && from_initiator && self.begun => {
                    self.opened = self.opened.or(Some(time));
                }
                _ => {}
            }
        }
        if matches!(sent, Sent::New) && seen.layers.payload_len > 0 {
            self.payload(seen, config, emit);
        }
    }

    /// Takes new payload of a side.
    fn payload(
        &mut self,
        seen: &FlowPacket<'_>,
        config: &MeasureConfig,
        emit: &mut impl FnMut(&Self, Measured<'_>),
    ) {
        let (time, length) = (seen.packet.time, u64::from(seen.layers.payload_len));
        let [request, response] = self.spoken_at;
        match seen.direction {
            Direction::Forward => {
                self.spoke = self.spoke.or(Some(time));
                if self.turn != Some(Direction::Forward) {
                    self.end_exchange(config, emit);
                    let think = response.map(|response| time.since(response));
                    self.exchange = Exchange { begin: time, think, ..Exchange::default() };
                    self.requests += 1;
                }
                self.exchange.request += length;
                self.spoken_at[0] = Some(time);
            }
            Direction::Reverse => {
                if response.is_none() {
                    let [initiator, _] = &self.sides;
                    let unseen = seen
                        .segment()
                        .and_then(|segment| segment.ack)
                        .is_some_and(|ack| initiator.is_beyond(ack));
                    let asked = self.spoke.or(self.opened.filter(|_| !unseen));
                    self.first_byte = asked.filter(|_| self.begun).map(|asked| time.since(asked));
                }
                if self.turn == Some(Direction::Forward) {
                    self.exchange.wait = request.map(|request| time.since(request));
                }
                self.exchange.response += length;
                self.spoken_at[1] = Some(time);
            }
        }
        self.turn = Some(seen.direction);
    }

    fn end_exchange(&mut self, config: &MeasureConfig, emit: &mut impl FnMut(&Self, Measured<'_>)) {
        let exchange = std::mem::take(&mut self.exchange);
        if config.details && exchange.request > 0 {
            emit(self, Measured::Exchange(&exchange));
        }
    }

    /// Ends the period that was open before `now`.
    fn pass_to(&mut self, now: Time, length: u64, emit: &mut impl FnMut(&Self, Measured<'_>)) {
        let period = now.0 / length;
        if period <= self.period {
            return;
        }
        if self.is_sampled {
            let sample = self.sample(length);
            emit(self, Measured::Sample(&sample));
        }
        for (before, side) in self.before.iter_mut().zip(&self.sides) {
            *before = Before::of(side);
        }
        self.period = period;
        self.is_sampled = false;
    }

    fn sample(&self, length: u64) -> Sample {
        let mut sides = [SampleSide::default(); 2];
        for ((sample, side), before) in sides.iter_mut().zip(&self.sides).zip(&self.before) {
            let round_trips = side.round_trips.count - before.round_trips;
            let sum = side.round_trips.sum - before.rtt_sum;
            *sample = SampleSide {
                packets: side.packets - before.packets,
                bytes: side.bytes - before.bytes,
                round_trips,
                rtt: (round_trips > 0).then(|| sum as f64 / round_trips as f64),
                jitter: side.jitter(),
                retransmitted: side.retransmitted - before.retransmitted,
                lost: side.lost - before.lost,
                out_of_order: side.out_of_order - before.out_of_order,
                window: side.window,
            };
        }
        Sample { begin: Time(self.period * length), length, sides }
    }

    fn end(&mut self, config: &MeasureConfig, emit: &mut impl FnMut(&Self, Measured<'_>)) {
        self.end_exchange(config, emit);
        if config.details {
            emit(self, Measured::Burst(&self.burst));
        }
        if self.is_sampled {
            let sample = self.sample(config.sample);
            emit(self, Measured::Sample(&sample));
        }
        emit(self, Measured::End(self));
    }
}

/// The measurements of the flows of a table, by the number of the flow's row.
#[derive(Debug)]
pub struct Measures {
    config: MeasureConfig,
    flows: Vec<Place>,
    /// Bytes of the flows' measurements.
    bytes: usize,
    refused: u64,
}

/// What is known of the flow of a row.
#[derive(Debug, Default)]
enum Place {
    /// The row has no flow, or no room was left for it.
    #[default]
    Empty,
    /// It is measured.
    Open(Box<Measure>),
    /// Its delays are known, and nothing else is asked for.
    Known(Box<Delays>),
}

impl Place {
    fn bytes(&self) -> usize {
        match self {
            Self::Empty => 0,
            Self::Open(_) => size_of::<Measure>(),
            Self::Known(_) => size_of::<Delays>(),
        }
    }
}

impl Measures {
    /// An empty table of measurements.
    pub fn new(config: MeasureConfig) -> Self {
        Self { config, flows: Vec::new(), bytes: 0, refused: 0 }
    }

    /// Changes whether only delays are asked for. Flows whose delays are known already stay without other values.
    pub fn set_delays(&mut self, delays: bool) {
        self.config.delays = delays;
    }

    /// Number of rows that flows may have.
    pub fn rows(&self) -> u32 {
        self.flows.len() as u32
    }

    /// Reads the memory that the next packet of a row's flow needs. The returned value only keeps the compiler from removing
    /// the reads.
    #[inline]
    pub fn touch(&self, row: u32) -> u64 {
        match self.flows.get(row as usize) {
            Some(Place::Open(measure)) => measure.touch(),
            Some(Place::Known(_)) => 1,
            Some(Place::Empty) | None => 0,
        }
    }

    /// Takes a packet that was counted to a flow. Results go to `emit`, with the flow's measurements.
    pub fn packet(&mut self, seen: &FlowPacket<'_>, mut emit: impl FnMut(&Measure, Measured<'_>)) {
        let at = seen.row as usize;
        if self.flows.len() <= at {
            self.flows.resize_with(at + 1, Place::default);
        }
        let Some(place) = self.flows.get_mut(at) else { return };
        if let Place::Empty = place {
            if self.bytes + size_of::<Measure>() > self.config.memory {
                self.refused += 1;
                return;
            }
            *place = Place::Open(Box::new(Measure::new(seen.flow)));
            self.bytes += place.bytes();
        }
        let Place::Open(measure) = place else { return };
        measure.packet(seen, &self.config, &mut emit);
        if self.config.delays && measure.has_delays() {
            let known = Place::Known(Box::new(measure.delays()));
            self.bytes += known.bytes();
            self.bytes -= std::mem::replace(place, known).bytes();
        }
    }

    /// Ends the periods of all flows that are complete at `now`.
    pub fn tick(&mut self, now: Time, mut emit: impl FnMut(&Measure, Measured<'_>)) {
        if self.config.sample == 0 {
            return;
        }
        for place in &mut self.flows {
            if let Place::Open(measure) = place
                && measure.is_sampled
            {
                measure.pass_to(now, self.config.sample, &mut emit);
            }
        }
    }

    /// Ends the flow of a row, if the row has one. Returns its delays if nothing else of it is known: then nothing was emitted.
    pub fn end(&mut self, row: u32, mut emit: impl FnMut(&Measure, Measured<'_>)) -> Option<Delays> {
        let place = self.flows.get_mut(row as usize).map(std::mem::take)?;
        self.bytes -= place.bytes();
        match place {
            Place::Empty => None,
            Place::Open(mut measure) => {
                measure.end(&self.config, &mut emit);
                None
            }
            Place::Known(delays) => Some(*delays),
        }
    }

    /// Packets of flows that were not measured for lack of memory.
    pub fn refused(&self) -> u64 {
        self.refused
    }
}
