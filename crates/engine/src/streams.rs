//! Measurements of flows as rows.

use crate::{Emitted, Sink};
use weir_flow::FlowPacket;
use weir_flow::measure::{
    Delays, HalfMeasure, Measure, MeasureConfig, Measured, Measures, Sample, SampleSide,
};
use weir_proto::{Record, STREAM, STREAM_SAMPLE, Value, assert_names, fields_from, record, values};
use weir_wire::Time;

/// The measurements to make.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Measuring {
    /// Length of a running sample in nanoseconds; 0 for none.
    pub sample: u64,
    /// Whether each packet, exchange and burst is emitted: [`Emitted::Measured`].
    pub details: bool,
    /// Whether of all measurements only those of the handshake and the first byte are asked for. Then a flow is measured until they
    /// are known.
    pub delays: bool,
}

/// The fields of [`STREAM`] that the beginning of a flow decides.
pub(crate) const DELAYS: [&str; 5] =
    ["protocol", "handshake", "handshake_responder", "handshake_initiator", "first_byte"];

impl Measuring {
    /// What two subscriptions ask for together.
    pub(crate) fn with(self, other: Self) -> Self {
        Self {
            // The finer of two samples has what the coarser one has.
            sample: match (self.sample, other.sample) {
                (0, sample) | (sample, 0) => sample,
                (one, other) => one.min(other),
            },
            details: self.details || other.details,
            delays: self.delays && other.delays,
        }
    }
}

/// Measures flows and emits the results as records.
pub(crate) struct Measurer {
    measures: Measures,
    measuring: Measuring,
}

impl Measurer {
    pub fn new(measuring: Measuring, memory: usize) -> Self {
        let Measuring { sample, details, delays } = measuring;
        let measures = Measures::new(MeasureConfig { sample, memory, details, delays });
        Self { measures, measuring }
    }

    /// Follows a change of what is asked for. `false` if the flows have to be measured from the beginning.
    pub fn follow(&mut self, before: Measuring, now: Measuring) -> bool {
        self.measures.set_delays(now.delays);
        self.measuring.delays = now.delays;
        before == Measuring { delays: before.delays, ..now }
    }

    /// Reads the memory that the next packet of a row's flow needs.
    #[inline]
    pub fn touch(&self, row: u32) -> u64 {
        self.measures.touch(row)
    }

    /// Takes a packet that was counted to a flow. Returns the number of records emitted.
    pub fn packet(&mut self, seen: &FlowPacket<'_>, sink: &mut dyn Sink) -> u64 {
        let (measuring, mut records) = (self.measuring, 0);
        self.measures
            .packet(seen, |flow, measured_value| records += emit(flow, measured_value, measuring, sink));
        records
    }

    /// Ends the samples that are complete at `now`.
    pub fn tick(&mut self, now: Time, sink: &mut dyn Sink) -> u64 {
        let (measuring, mut records) = (self.measuring, 0);
        self.measures
            .tick(now, |flow, measured_value| records += emit(flow, measured_value, measuring, sink));
        records
    }

    /// Ends the flow of a row.
    pub fn end(&mut self, row: u32, sink: &mut dyn Sink) -> u64 {
        let (measuring, mut records) = (self.measuring, 0);
        let known = self
            .measures
            .end(row, |flow, measured_value| records += emit(flow, measured_value, measuring, sink));
        records + known.map_or(0, |delays| emit_delays(&delays, sink))
    }

    /// Ends all flows, because nothing is measured any more.
    pub fn end_all(&mut self, sink: &mut dyn Sink) -> u64 {
        (0..self.measures.rows()).map(|row| self.end(row, sink)).sum()
    }

    /// Packets of flows without room in the table.
    pub fn refused(&self) -> u64 {
        self.measures.refused()
    }
}

/// Emits the delays of a flow, if any of them is known. Returns the number of records emitted.
fn emit_delays(delays: &Delays, sink: &mut dyn Sink) -> u64 {
    let Delays { handshakes: [forward, reverse], first_byte, .. } = delays;
    if forward.or(*reverse).or(*first_byte).is_none() {
        return 0;
    }
    sink.take(Emitted::Record(&delays.flow, beginning(delays), &[]));
    1
}

fn emit(flow: &Measure, measured_value: Measured<'_>, measuring: Measuring, sink: &mut dyn Sink) -> u64 {
    if measuring.details {
        sink.take(Emitted::Measured(flow, measured_value));
    }
    let record = match measured_value {
        Measured::Sample(sample) => stream_sample(sample),
        Measured::End(flow) if measuring.delays => return emit_delays(&flow.delays(), sink),
        Measured::End(flow) => stream(flow),
        Measured::Packet { .. } | Measured::Exchange(_) | Measured::Burst(_) => return 0,
    };
    sink.take(Emitted::Record(&flow.flow, record, &[]));
    1
}

/// The values of both sides, each in the fields whose names end in `_forward` and `_reverse`.
macro_rules! of_sides {
    ($table:ident, $sides:expr, |$side:ident: $of:ty| $($name:ident = $value:expr),+ $(,)?) => {{
        const {
            assert_names(
                fields_from($table.fields, "packets_forward"),
                &[$(concat!(stringify!($name), "_forward"), concat!(stringify!($name), "_reverse")),+],
                true,
            )
        };
        let [forward, reverse] = $sides.each_ref().map(|$side: &$of| [$(Value::from($value)),+]);
        forward.into_iter().zip(reverse).flat_map(|(forward, reverse)| [forward, reverse])
    }};
}

fn span(nanoseconds: Option<u64>) -> Value<'static> {
    nanoseconds.map_or(Value::None, Value::Duration)
}

fn mean(nanoseconds: Option<f64>) -> Value<'static> {
    nanoseconds.map_or(Value::None, |nanoseconds| Value::Duration(nanoseconds.round() as u64))
}

fn stream(flow: &Measure) -> Record<'static> {
    let [forward, reverse] = &flow.sides;
    let is_tcp = flow.flow.key.proto == 6;
    let of_tcp = |value: u64| if is_tcp { Value::Uint(value) } else { Value::None };
    let sides = of_sides!(
        STREAM,
        flow.sides,
        |side: HalfMeasure| packets = side.packets,
        bytes = side.bytes,
        throughput = side.throughput(),
        rtts = of_tcp(side.round_trips.count),
        rtt = mean(side.round_trips.mean()),
        rtt_least = span(side.round_trips.min),
        rtt_most = span(side.round_trips.max),
        jitter = mean(side.jitter()),
        segments = of_tcp(side.segments),
        retransmitted = of_tcp(side.retransmitted),
        spurious = of_tcp(side.spurious),
        lost = of_tcp(side.lost),
        loss = side.loss(),
        out_of_order = of_tcp(side.out_of_order),
        hops = side.hops(),
        window = side.window,
        window_least = side.window_least,
        window_most = side.window_most,
        zero_windows = of_tcp(side.zero_windows),
        mss = side.mss,
    );
    let requests = values!(fields_from(STREAM.fields, "requests"), requests = flow.requests);
    record!(
        STREAM,
        flow.flow.first,
        protocol = flow.flow.key.proto,
        duration = Value::Duration(flow.last.since(flow.flow.first)),
        handshake = span(flow.handshake()),
        handshake_responder = span(forward.handshake),
        handshake_initiator = span(reverse.handshake),
        first_byte = span(flow.first_byte),
        ..sides.chain(requests)
    )
}

/// The record of a flow of which only the delays are known.
fn beginning(delays: &Delays) -> Record<'static> {
    let [forward, reverse] = delays.handshakes;
    let rest = fields_from(STREAM.fields, "packets_forward").len();
    record!(
        STREAM,
        delays.flow.first,
        protocol = delays.flow.key.proto,
        duration = Value::None,
        handshake = span(delays.handshake()),
        handshake_responder = span(forward),
        handshake_initiator = span(reverse),
        first_byte = span(delays.first_byte),
        ..std::iter::repeat_n(Value::None, rest)
    )
}

fn stream_sample(sample: &Sample) -> Record<'static> {
    let seconds = sample.length as f64 / 1e9;
    let sides = of_sides!(
        STREAM_SAMPLE,
        sample.sides,
        |side: SampleSide| packets = side.packets,
        bytes = side.bytes,
        throughput = side.bytes as f64 / seconds,
        rtts = side.round_trips,
        rtt = mean(side.rtt),
        jitter = mean(side.jitter),
        retransmitted = side.retransmitted,
        lost = side.lost,
        out_of_order = side.out_of_order,
        window = side.window,
    );
    record!(STREAM_SAMPLE, sample.begin, length = Value::Duration(sample.length), ..sides)
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_flow::FlowIdentity;

    #[test]
    fn each_field_has_a_value() {
        #[derive(Default)]
        struct Rows(Vec<usize>);
        impl Sink for Rows {
            fn take(&mut self, emitted: Emitted<'_>) {
                let Emitted::Record(_, record, _) = emitted else { return };
                assert_eq!(record.values.len(), record.table.fields.len(), "{}", record.table.name);
                self.0.push(record.values.len());
            }
        }
        let mut rows = Rows::default();
        let mut measurer =
            Measurer::new(Measuring { sample: 1_000_000_000, details: false, delays: false }, 1 << 20);
        let bytes =
            weir_wire::build::ethernet().ipv4([10, 0, 0, 1], [10, 0, 0, 2]).tcp(1, 2, 2).payload(b"x");
        let packet = weir_wire::build::packet(&bytes, weir_wire::LinkType::ETHERNET);
        let layers = weir_wire::decode(&packet);
        let (key, initiator_is_lower) = weir_wire::FlowKey::of(&packet, &layers).unwrap();
        let flow = FlowIdentity { key, initiator_is_lower, first: packet.time, vlan: [0; 2], alias: 0 };
        let direction = weir_wire::Direction::Forward;
        let seen = FlowPacket { row: 0, flow, direction, packet: &packet, layers: &layers };
        assert_eq!(measurer.packet(&seen, &mut rows), 0);
        assert_eq!(measurer.end(0, &mut rows), 2);
        assert_eq!(rows.0, [STREAM_SAMPLE.fields.len(), STREAM.fields.len()]);
    }
}
