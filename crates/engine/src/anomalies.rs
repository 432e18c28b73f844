//! The way of anomalies that no parser finds, those of packets and segments: to rules, and to the sink.

use crate::allowances::Allowances;
use crate::asked::Asked;
use crate::detection::{Detection, Named, Place};
use crate::session_stats::SessionStats;
use crate::{FlowIdentity, Sink};
use weir_detect::Seen;
use weir_flow::FlowPacket;
use weir_proto::{ANOMALY, Record};
use weir_wire::Time;

/// Passes anomalies to rules that ask for events, and to the sink if records of them are asked for.
pub(crate) struct Anomalies<'w> {
    pub detection: Option<&'w mut Detection>,
    pub allowances: &'w mut Allowances,
    pub asked: &'w Asked,
    pub stats: &'w mut SessionStats,
    pub sink: &'w mut dyn Sink,
}

impl Anomalies<'_> {
    /// Takes what is odd about a packet of a flow. `named`: what is known of the protocols of the flow.
    pub fn of_packet(&mut self, seen: &FlowPacket<'_>, named: Named, record: Record<'_>) {
        self.take(&Place::of(seen, named), record);
    }

    /// Takes what is odd about a packet of no flow. `flow` has its sender and receiver.
    pub fn of_no_flow(&mut self, flow: &FlowIdentity, packet: Seen<'_>, time: Time, record: Record<'_>) {
        self.take(
            &Place { is_outer: false, row: None, flow, named: Named::default(), time, packet: Some(packet) },
            record,
        );
    }

    /// Takes an anomaly at a place; its packet is the one that has it, if it is known.
    pub fn take(&mut self, place: &Place<'_>, record: Record<'_>) {
        if let Some(detection) = &mut self.detection {
            let (allowances, stats, sink) = (&mut *self.allowances, &mut *self.stats, &mut *self.sink);
            detection.event(place, &record);
            let mut emit = |alert: Record<'_>| {
                allowances.emit(place.flow, Record { packet: record.packet, ..alert }, stats, sink);
            };
            detection.alerts(place, &mut emit);
            // Where no packet is read, no end of it follows.
            if !detection.is_reading() {
                detection.release(&mut emit);
            }
        }
        if self.asked.demand.has(&ANOMALY) {
            self.allowances.emit(place.flow, record, self.stats, self.sink);
        }
    }
}
