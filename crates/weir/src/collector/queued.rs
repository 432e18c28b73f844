//! Rows and records on their way from a worker to the collector.

use crate::resolved::Resolved;
use weir_api::AnswerId;
use weir_engine::{FlowIdentity, FlowRecord, To};
use weir_proto::{Packed, Place, Record, Table};

/// Bytes per record or row for sorting while they are written, and for the names added to rows.
const ORDER: usize = 16;
const NAMED: usize = 64;

/// Where a queued item goes: its functions lie in a list that the items of a batch share.
#[derive(Clone, Copy, Debug)]
struct QueuedTo {
    run: bool,
    first: u32,
    number: u32,
}

impl QueuedTo {
    fn push(to: To<'_>, functions: &mut Vec<AnswerId>) -> Self {
        let first = functions.len() as u32;
        functions.extend_from_slice(to.functions);
        Self { run: to.run, first, number: to.functions.len() as u32 }
    }

    fn of(self, functions: &[AnswerId]) -> To<'_> {
        let (first, number) = (self.first as usize, self.number as usize);
        To { run: self.run, functions: functions.get(first..first + number).unwrap_or_default() }
    }
}

/// Flows that ended, of one batch.
#[derive(Debug, Default)]
pub struct Rows {
    rows: Vec<FlowRecord>,
    to: Vec<QueuedTo>,
    functions: Vec<AnswerId>,
}

impl Rows {
    /// Adds a flow.
    pub fn push(&mut self, flow: &FlowRecord, to: To<'_>) {
        self.rows.push(*flow);
        self.to.push(QueuedTo::push(to, &mut self.functions));
    }

    /// Number of flows.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// The functions that deliver a flow, for each flow that has any.
    pub fn functions(&self) -> impl Iterator<Item = Box<[AnswerId]>> + '_ {
        self.to.iter().filter(|to| to.number > 0).map(|to| to.of(&self.functions).functions.into())
    }

    /// Bytes of memory that the rows occupy.
    pub fn memory(&self) -> usize {
        self.rows.capacity() * size_of::<FlowRecord>()
            + self.to.capacity() * size_of::<QueuedTo>()
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

    /// The flows, each with where it goes.
    pub fn each(&self) -> impl Iterator<Item = (&FlowRecord, To<'_>)> {
        self.rows.iter().zip(self.to.iter().map(|to| to.of(&self.functions)))
    }
}

/// Records of one batch, in one allocation.
#[derive(Debug, Default)]
pub struct Records {
    records: Vec<QueuedRecord>,
    packed: Packed,
    functions: Vec<AnswerId>,
}

/// A record, its flow, and where it goes.
#[derive(Debug)]
struct QueuedRecord {
    flow: FlowIdentity,
    place: Place,
    /// `None` if no log takes it: it has the fields that names of hosts are read from.
    to: Option<QueuedTo>,
}

impl Records {
    /// Adds a record.
    pub fn push(&mut self, flow: &FlowIdentity, record: &Record<'_>, to: To<'_>) {
        let to = Some(QueuedTo::push(to, &mut self.functions));
        self.records.push(QueuedRecord { flow: *flow, place: self.packed.push(record), to });
    }

    /// Adds a record that only names of hosts are read from.
    pub fn push_names(&mut self, flow: &FlowIdentity, record: &Record<'_>) {
        let place = self.packed.push_fields(record, Resolved::places());
        self.records.push(QueuedRecord { flow: *flow, place, to: None });
    }

    /// Number of records.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// The functions that deliver a record, for each record that has any.
    pub fn functions(&self) -> impl Iterator<Item = Box<[AnswerId]>> + '_ {
        let to = self.records.iter().filter_map(|record| record.to).filter(|to| to.number > 0);
        to.map(|to| to.of(&self.functions).functions.into())
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

    /// The record, unpacked.
    pub fn record(self) -> Record<'a> {
        self.batch.packed.get(&self.entry.place)
    }

    /// Where it goes; `None` if no log takes it.
    pub fn to(self) -> Option<To<'a>> {
        self.entry.to.map(|to| to.of(&self.batch.functions))
    }
}

/// The flows of the records of batches, to be rewritten.
pub fn flows_mut(batches: &mut [Records]) -> impl Iterator<Item = &mut FlowIdentity> {
    batches.iter_mut().flat_map(|batch| batch.records.iter_mut().map(|entry| &mut entry.flow))
}
