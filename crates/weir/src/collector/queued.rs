//! Rows and records on their way from a worker to the collector.

use crate::resolved::Resolved;
use weir_api::AnswerId;
use weir_engine::{FlowIdentity, FlowRecord};
use weir_proto::{Packed, Place, Record, Spare, Table};
use weir_wire::Time;

/// Bytes per record or row for sorting while they are written, and for the names added to rows.
const ORDER: usize = 16;
const NAMED: usize = 64;

/// The functions that deliver a queued item, in the list of its batch. Items one after another that equal functions deliver share
/// them.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
struct Delivering {
    first: u32,
    number: u32,
}

impl Delivering {
    /// Adds the functions of an item after one with these.
    fn next(self, functions: &[AnswerId], all: &mut Vec<AnswerId>) -> Self {
        if self.of(all) == functions {
            return self;
        }
        let first = all.len() as u32;
        all.extend_from_slice(functions);
        Self { first, number: functions.len() as u32 }
    }

    fn of(self, all: &[AnswerId]) -> &[AnswerId] {
        let (first, number) = (self.first as usize, self.number as usize);
        all.get(first..first + number).unwrap_or_default()
    }
}

/// The different functions of items one after another, each with the number of items.
fn runs(items: impl Iterator<Item = Delivering>, all: &[AnswerId]) -> Vec<(Box<[AnswerId]>, u64)> {
    let mut runs: Vec<(Delivering, u64)> = Vec::new();
    for item in items {
        match runs.last_mut() {
            Some((last, number)) if *last == item => *number += 1,
            _ => runs.push((item, 1)),
        }
    }
    runs.into_iter().map(|(item, number)| (item.of(all).into(), number)).collect()
}

/// Flows that ended, of one batch.
#[derive(Debug, Default)]
pub struct Rows {
    rows: Vec<FlowRecord>,
    by: Vec<Delivering>,
    functions: Vec<AnswerId>,
}

impl Rows {
    /// Adds a flow that functions deliver.
    pub fn push(&mut self, flow: &FlowRecord, functions: &[AnswerId]) {
        self.rows.push(*flow);
        let last = self.by.last().copied().unwrap_or_default();
        self.by.push(last.next(functions, &mut self.functions));
    }

    /// Number of flows.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// The functions that deliver flows one after another, with the number of these flows.
    pub fn functions(&self) -> Vec<(Box<[AnswerId]>, u64)> {
        runs(self.by.iter().copied(), &self.functions)
    }

    /// Bytes of memory that the rows occupy.
    pub fn memory(&self) -> usize {
        self.rows.capacity() * size_of::<FlowRecord>()
            + self.by.capacity() * size_of::<Delivering>()
            + self.functions.capacity() * size_of::<AnswerId>()
    }

    /// Bytes that the rows occupy while they wait and while they are written.
    pub fn waiting(&self) -> usize {
        self.memory() + self.rows.len() * NAMED
    }

    /// The flows, in the order in which they were added.
    pub fn flows(&self) -> impl Iterator<Item = &FlowRecord> {
        self.rows.iter()
    }

    /// The flows, to be rewritten.
    pub fn flows_mut(&mut self) -> impl Iterator<Item = &mut FlowRecord> {
        self.rows.iter_mut()
    }

    /// The flows, each with the functions that deliver it.
    pub fn each(&self) -> impl Iterator<Item = (&FlowRecord, &[AnswerId])> {
        self.rows.iter().zip(self.by.iter().map(|by| by.of(&self.functions)))
    }
}

/// Records of one batch, in one allocation.
#[derive(Debug, Default)]
pub struct Records {
    records: Vec<QueuedRecord>,
    packed: Packed,
    functions: Vec<AnswerId>,
}

/// A record, its flow, and the functions that deliver it.
#[derive(Debug)]
struct QueuedRecord {
    flow: FlowIdentity,
    place: Place,
    /// `None` if no log takes it: it has the fields that names of hosts are read from.
    by: Option<Delivering>,
}

impl Records {
    /// Adds a record that functions deliver.
    pub fn push(&mut self, flow: &FlowIdentity, record: &Record<'_>, functions: &[AnswerId]) {
        let last = self.records.last().and_then(|last| last.by).unwrap_or_default();
        let by = Some(last.next(functions, &mut self.functions));
        self.records.push(QueuedRecord { flow: *flow, place: self.packed.push(record), by });
    }

    /// Adds a record that only names of hosts are read from.
    pub fn push_names(&mut self, flow: &FlowIdentity, record: &Record<'_>) {
        let place = self.packed.push_fields(record, Resolved::places());
        self.records.push(QueuedRecord { flow: *flow, place, by: None });
    }

    /// Number of records.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// The functions that deliver records one after another, with the number of these records.
    pub fn functions(&self) -> Vec<(Box<[AnswerId]>, u64)> {
        runs(self.records.iter().filter_map(|record| record.by), &self.functions)
    }

    /// Bytes of the packed records.
    pub fn packed(&self) -> usize {
        self.packed.memory()
    }

    /// Bytes of memory that the records occupy.
    pub fn memory(&self) -> usize {
        self.records.capacity() * size_of::<QueuedRecord>()
            + self.packed.memory()
            + self.functions.capacity() * size_of::<AnswerId>()
    }

    /// Bytes that the records occupy while they wait and while they are written.
    pub fn waiting(&self) -> usize {
        self.memory() + self.records.len() * ORDER
    }
}

/// The places of the records of batches in order of time and flow: for each the index of its batch and its index in the batch.
/// Records of one flow with equal times keep the order in which they were emitted.
pub fn in_order(batches: &[Records]) -> Vec<(u32, u32)> {
    let places = |(batch, records): (u32, &Records)| (0..records.len() as u32).map(move |at| (batch, at));
    let mut order: Vec<(u32, u32)> = (0_u32..).zip(batches).flat_map(places).collect();
    order.sort_by_key(|at| entry(batches, *at).map(|entry| (entry.place.time, entry.flow.key)));
    order
}

fn entry(batches: &[Records], (batch, at): (u32, u32)) -> Option<&QueuedRecord> {
    batches.get(batch as usize)?.records.get(at as usize)
}

/// A record of a batch, packed.
#[derive(Clone, Copy)]
pub struct Queued<'a> {
    batch: &'a Records,
    entry: &'a QueuedRecord,
}

impl<'a> Queued<'a> {
    /// The record at a place of the order.
    pub fn at(batches: &'a [Records], at: (u32, u32)) -> Option<Self> {
        Some(Self { batch: batches.get(at.0 as usize)?, entry: entry(batches, at)? })
    }

    /// Its flow.
    pub fn flow(self) -> &'a FlowIdentity {
        &self.entry.flow
    }

    /// Its table.
    pub fn table(self) -> &'static Table {
        self.entry.place.table
    }

    /// Its time, as the packets have it.
    pub fn time(self) -> Time {
        self.entry.place.time
    }

    /// The record, unpacked into `memory`.
    pub fn record(self, memory: &mut Spare) -> Record<'a> {
        self.batch.packed.get(&self.entry.place, memory)
    }

    /// The functions that deliver it; `None` if no log takes it.
    pub fn functions(self) -> Option<&'a [AnswerId]> {
        self.entry.by.map(|by| by.of(&self.batch.functions))
    }
}

/// The flows of the records of batches, to be rewritten.
pub fn flows_mut(batches: &mut [Records]) -> impl Iterator<Item = &mut FlowIdentity> {
    batches.iter_mut().flat_map(|batch| batch.records.iter_mut().map(|entry| &mut entry.flow))
}
