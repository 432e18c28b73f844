//! Flows that are open when an interval ends.

use std::sync::Arc;
use weir_engine::FlowRecord;

/// An open flow, with its sums so far.
#[derive(Clone, Debug)]
pub struct OpenFlow {
    /// The flow.
    pub flow: FlowRecord,
    /// The name that the initiator had resolved for the responder, if it is known.
    pub name: Option<Arc<str>>,
    /// What the flow has had since it was shown before, it has had at this time or later, in nanoseconds since the epoch: the start
    /// of the interval of the first packet, of any flow, since its worker showed its open flows.
    pub from: u64,
}

/// The open flows that had a packet in an interval.
#[derive(Clone, Copy, Debug)]
pub struct OpenFlows<'a> {
    /// The flows, ordered by the time of their first packet and their key.
    pub flows: &'a [OpenFlow],
    /// End of the interval, excluded, in nanoseconds since the epoch.
    pub until: u64,
    /// Number of flows that had a packet and are not among these, because memory is bounded.
    pub left_out: u64,
}
