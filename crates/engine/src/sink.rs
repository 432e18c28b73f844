//! What leaves a worker, and where it goes.

use crate::decided::DecidedFlow;
use crate::{FlowIdentity, FlowRecord};
use weir_api::AnswerId;
use weir_filter::PacketMask;
use weir_flow::measure::{Measure, Measured};
use weir_proto::Record;
use weir_wire::Batch;
use weir_wire::stream::Chunk;

/// A part of what a worker emits, with the functions of the plan that deliver it to their [targets](crate::Target). The plan's
/// [`Demand`](crate::Demand) decides which of these a run has, apart from flows and matching packets.
#[derive(Clone, Debug)]
pub enum Emitted<'a> {
    /// A flow that has ended, or a part of a flow that continues, and the functions that deliver it, by the numbers of their answers.
    Flow(&'a FlowRecord, &'a [AnswerId]),
    /// The record so far of a flow that is open.
    Open(&'a FlowRecord),
    /// The packets that match the run's expression, in order.
    Matching(Batch<'a>),
    /// A record of a flow, and the functions that deliver it.
    Record(&'a FlowIdentity, Record<'a>, &'a [AnswerId]),
    /// A chunk of a stream, or a datagram, and the functions that deliver it.
    Chunk(&'a FlowIdentity, &'a Chunk<'a>, &'a [AnswerId]),
    /// Packets for functions that deliver packets: a mask of the packets for each function, by the number of its answer. Packets
    /// that are delivered because of their flow or a record come later than they were seen, those of one flow in order.
    Packets(Batch<'a>, &'a [(AnswerId, PacketMask)]),
    /// The number of packets of a flow before a decision that a function should deliver and that are held no more.
    Missing(AnswerId, u64),
    /// That a function writes packets of a flow, before those of them that are held.
    Decided(&'a DecidedFlow),
    /// That nothing is to be kept of a file, by its identifier, whose content follows: its flow has too many.
    Withheld(u64),
    /// A measurement of a flow.
    Measured(&'a Measure, Measured<'a>),
}

/// The destination of what a worker emits, apart from snapshots. `()` ignores it.
pub trait Sink {
    /// Takes what the worker emits, in order.
    fn take(&mut self, emitted: Emitted<'_>);

    /// Takes bytes of a file that was seen in a flow; `packet` is the number of the packet that completed them, 0 at the
    /// end of the flow, and `offset` their position in the file. Returns whether the whole file was kept so far.
    fn content(&mut self, flow: &FlowIdentity, packet: u32, file: u64, offset: u64, bytes: &[u8]) -> bool {
        let _ = (flow, packet, file, offset, bytes);
        true
    }
}

impl Sink for () {
    fn take(&mut self, _: Emitted<'_>) {}
}
