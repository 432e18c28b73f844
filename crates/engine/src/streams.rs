//! Measurements of flows as rows.

use crate::Sink;
use weir_flow::FlowPacket;
use weir_flow::measure::{HalfMeasure, Measure, MeasureConfig, Measured, Measures, Sample, SampleSide};
use weir_proto::{Record, STREAM, STREAM_SAMPLE, Value};
use weir_wire::Time;

/// The measurements to make.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Measuring {
    /// Length of a running sample in nanoseconds; 0 for none.
    pub sample: u64,
    /// Whether [`Sink::measured`] gets each packet, exchange and burst.
    pub details: bool,
}

/// Measures flows and emits the results as records.
pub(crate) struct Measurer {
    measures: Measures,
    details: bool,
}

impl Measurer {
    pub fn new(measuring: Measuring, memory: usize) -> Self {
        let Measuring { sample, details } = measuring;
        Self { measures: Measures::new(MeasureConfig { sample, memory, details }), details }
    }

    /// Takes a packet that was counted to a flow. Returns the number of records emitted.
    pub fn packet(&mut self, seen: &FlowPacket<'_>, sink: &mut dyn Sink) -> u64 {
        let (details, mut records) = (self.details, 0);
        self.measures
            .packet(seen, |flow, measured_value| records += emit(flow, measured_value, details, sink));
        records
    }

    /// Ends the samples that are complete at `now`.
    pub fn tick(&mut self, now: Time, sink: &mut dyn Sink) -> u64 {
        let (details, mut records) = (self.details, 0);
        self.measures.tick(now, |flow, measured_value| records += emit(flow, measured_value, details, sink));
        records
    }

    /// Ends the flow of a row.
    pub fn end(&mut self, row: u32, sink: &mut dyn Sink) -> u64 {
        let (details, mut records) = (self.details, 0);
        self.measures.end(row, |flow, measured_value| records += emit(flow, measured_value, details, sink));
        records
    }

    /// Packets of flows without room in the table.
    pub fn refused(&self) -> u64 {
        self.measures.refused()
    }
}

fn emit(flow: &Measure, measured_value: Measured<'_>, details: bool, sink: &mut dyn Sink) -> u64 {
    if details {
        sink.measured(flow, measured_value);
    }
    let record = match measured_value {
        Measured::Sample(sample) => Record::new(&STREAM_SAMPLE, sample.begin, sample_values(sample)),
        Measured::End(flow) => Record::new(&STREAM, flow.flow.first, values(flow)),
        Measured::Packet { .. } | Measured::Exchange(_) | Measured::Burst(_) => return 0,
    };
    sink.record(&flow.flow, record);
    1
}

/// The values of both sides, alternating field by field.
fn both<S>(sides: &[S; 2], of: impl Fn(&S) -> Vec<Value<'static>>) -> Vec<Value<'static>> {
    let [forward, reverse] = sides.each_ref().map(of);
    forward.into_iter().zip(reverse).flat_map(|(forward, reverse)| [forward, reverse]).collect()
}

fn span(nanoseconds: Option<u64>) -> Value<'static> {
    nanoseconds.map_or(Value::None, Value::Duration)
}

fn mean(nanoseconds: Option<f64>) -> Value<'static> {
    nanoseconds.map_or(Value::None, |nanoseconds| Value::Duration(nanoseconds.round() as u64))
}

fn values(flow: &Measure) -> Vec<Value<'static>> {
    let [forward, reverse] = &flow.sides;
    let is_tcp = flow.flow.key.proto == 6;
    let mut values = vec![
        flow.flow.key.proto.into(),
        Value::Duration(flow.last.since(flow.flow.first)),
        span(flow.handshake()),
        span(forward.handshake),
        span(reverse.handshake),
        span(flow.first_byte),
    ];
    let of_tcp = |value: u64| if is_tcp { Value::Uint(value) } else { Value::None };
    values.extend(both(&flow.sides, |side: &HalfMeasure| {
        vec![
            side.packets.into(),
            side.bytes.into(),
            side.throughput().into(),
            of_tcp(side.round_trips.count),
            mean(side.round_trips.mean()),
            span(side.round_trips.min),
            span(side.round_trips.max),
            mean(side.jitter()),
            of_tcp(side.segments),
            of_tcp(side.retransmitted),
            of_tcp(side.spurious),
            of_tcp(side.lost),
            side.loss().into(),
            of_tcp(side.out_of_order),
            side.hops().into(),
            side.window.into(),
            side.window_least.into(),
            side.window_most.into(),
            of_tcp(side.zero_windows),
            side.mss.into(),
        ]
    }));
    values.push(flow.requests.into());
    values
}

fn sample_values(sample: &Sample) -> Vec<Value<'static>> {
    let seconds = sample.length as f64 / 1e9;
    let mut values = vec![Value::Duration(sample.length)];
    values.extend(both(&sample.sides, |side: &SampleSide| {
        vec![
            side.packets.into(),
            side.bytes.into(),
            (side.bytes as f64 / seconds).into(),
            side.round_trips.into(),
            mean(side.rtt),
            mean(side.jitter),
            side.retransmitted.into(),
            side.lost.into(),
            side.out_of_order.into(),
            side.window.into(),
        ]
    }));
    values
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
            fn flow(&mut self, _: &crate::FlowRecord) {}
            fn kept(&mut self, _: weir_wire::Batch<'_>) {}
            fn record(&mut self, _: &FlowIdentity, record: Record<'_>) {
                assert_eq!(record.values.len(), record.table.fields.len(), "{}", record.table.name);
                self.0.push(record.values.len());
            }
        }
        let mut rows = Rows::default();
        let mut measurer = Measurer::new(Measuring { sample: 1_000_000_000, details: false }, 1 << 20);
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
