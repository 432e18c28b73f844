//! The way of what parsers emit.

use crate::allowances::Allowances;
use crate::announced::Announced;
use crate::asked::Asked;
use crate::detection::{Detection, Named, Place};
use crate::session_stats::SessionStats;
use crate::tap::Tap;
use crate::token_bucket::weight;
use crate::{Emitted, FlowIdentity, Item, Sink};
use weir_detect::Seen;
use weir_proto::{
    ANOMALY, Buffer, Columns, Expected, FILES, Field, Out, PROTOCOLS, Protocol, Record, Table, Value,
};
use weir_wire::stream::Chunk;
use weir_wire::{Direction, Time};

/// Passes records of parsers to the sink, and what they emit before to functions.
pub(crate) struct RecordEmitter<'w, 't> {
    /// The row of the flow, and the payload of the packet that is read.
    pub row: u32,
    pub payload: &'w [u8],
    /// The packet that is read, if one is.
    pub seen: Option<Seen<'w>>,
    pub identity: &'w FlowIdentity,
    pub announced: &'w mut Announced,
    pub allowances: &'w mut Allowances,
    pub stats: &'w mut SessionStats,
    pub asked: &'w Asked,
    pub packet: u32,
    /// The time of what is read.
    pub time: Time,
    /// What is known of the protocols of the flow, before what is read and in it.
    pub named: Named,
    /// Rules that look at flows, if there are any, and the row of the flow for them.
    pub detection: Option<(&'w mut Detection, u32)>,
    pub tap: &'w mut Tap<'t>,
}

impl RecordEmitter<'_, '_> {
    /// Lets rules look at a chunk that the parser has read, and emits their alerts. `named`: what is known of the protocols of the flow.
    pub fn detect(&mut self, named: Named, chunk: &Chunk<'_>) {
        self.with_rules(named, |detection, place| detection.chunk(place, chunk));
    }

    /// Lets rules look at what is left of a flow that ends, and emits the alerts that have waited for it.
    pub fn end_detection(&mut self, named: Named) {
        self.with_rules(named, Detection::end);
        let Some((detection, row)) = self.detection.take() else { return };
        detection.release(|record| self.record(record));
        self.detection = Some((detection, row));
    }

    /// Lets rules look at something of the flow, and emits their alerts.
    fn with_rules(&mut self, named: Named, look: impl FnOnce(&mut Detection, &Place<'_>)) {
        let Some((detection, row)) = self.detection.take() else { return };
        let place = Place {
            is_outer: false,
            row: Some(row),
            flow: self.identity,
            named,
            time: self.time,
            packet: self.seen,
        };
        look(detection, &place);
        detection.alerts(&place, |record| self.record(record));
        self.detection = Some((detection, row));
    }
}

impl Out for RecordEmitter<'_, '_> {
    fn record(&mut self, record: Record<'_>) {
        if self.detection.is_some() && *record.table == ANOMALY {
            self.with_rules(Named::default(), |detection, place| detection.event(place, &record));
        }
        if self.asked.demand.has(record.table) {
            // The record of a file ends its extraction.
            if !self.allowances.records.is_open() && *record.table != FILES {
                self.stats.records_refused += 1;
                return;
            }
            self.allowances.records.take(weight(&record));
            self.stats.records += 1;
            let record = Record { packet: self.packet, ..record };
            self.tap.take(Emitted::Record(self.identity, record, &[]));
        }
    }

    fn takes(&self, table: &Table) -> bool {
        self.asked.demand.has(table) || self.asked.anomalies && *table == ANOMALY
    }

    fn reads(&self, table: &'static Table) -> Columns {
        self.asked.demand.reads_of(table)
    }

    fn asked(&self) -> weir_proto::Asked {
        self.asked.early
    }

    fn field(&mut self, table: &'static Table, field: &'static Field, value: Value<'_>) {
        self.tap.early(self.identity, &Item::Field(self.identity, table, field, &value));
    }

    fn buffer(&mut self, buffer: &'static Buffer, side: Direction, bytes: &[u8]) {
        self.buffer_again(buffer, side, bytes);
        self.tap.early(self.identity, &Item::Buffer(self.identity, buffer, side, bytes));
    }

    fn buffer_again(&mut self, buffer: &'static Buffer, side: Direction, bytes: &[u8]) {
        self.with_rules(self.named, |detection, place| detection.buffer(place, side, buffer, bytes));
    }

    fn transaction(&mut self, side: Direction, number: u64) {
        if let Some((detection, row)) = &mut self.detection {
            detection.transaction(*row, side, number);
        }
    }

    fn side_is_complete(&mut self, side: Direction) {
        self.with_rules(self.named, |detection, place| detection.complete(place, side));
    }

    fn expect(&mut self, expected: Expected) {
        self.announced.add(self.row, self.identity, self.payload, expected);
    }

    fn is_named(&mut self, protocol: &'static Protocol) {
        if self.detection.is_none() {
            return;
        }
        let place = PROTOCOLS.iter().position(|known| std::ptr::eq(*known, protocol));
        let place = place.map_or(0, |at| at as u8 + 1);
        let is_new = !self.named.services.contains(&place);
        if let Some(free) = self.named.services.iter_mut().find(|free| **free == 0).filter(|_| is_new) {
            *free = place;
        }
    }

    fn is_turned(&mut self) {
        if let Some((detection, row)) = &mut self.detection {
            detection.turn(*row);
        }
    }

    fn file(&mut self, file: u64, read: u64) {
        if !self.allowances.files.may_keep(self.identity.id(), read) {
            self.tap.take(Emitted::Withheld(file));
        }
    }

    fn content(&mut self, file: u64, offset: u64, bytes: &[u8]) -> bool {
        self.tap.content(self.identity, self.packet, file, offset, bytes)
    }

    fn may_inflate(&mut self) -> bool {
        let may = self.allowances.inflation.is_open();
        self.stats.inflation_refused += u64::from(!may);
        may
    }

    fn inflated(&mut self, bytes: u64) {
        self.stats.inflated += bytes;
        self.allowances.inflation.take(bytes);
    }
}
