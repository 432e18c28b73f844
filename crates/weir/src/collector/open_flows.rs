//! The open flows of an interval, on their way from the workers to the outputs.

use std::sync::Arc;
use weir_engine::FlowRecord;
use weir_output::LeftOut;
use weir_wire::Time;

/// Maximum number of open flows that an interval hands to the outputs.
const MAX: usize = 16_384;

/// An open flow at the end of an interval.
#[derive(Debug)]
pub struct OpenFlow {
    /// The flow so far.
    pub record: FlowRecord,
    /// The name that its initiator resolved for its responder.
    pub name: Option<Arc<str>>,
    /// Start of the interval of the first packet, of any flow, since its worker showed its open flows before, in nanoseconds
    /// since the epoch. What the flow has had since then, it has had from this time on.
    pub from: u64,
}

impl OpenFlow {
    /// The order in which flows are kept: the heaviest first. It depends on the flow alone.
    fn weight(&self) -> (u64, u64, Time) {
        let FlowRecord { forward, reverse, id, first, .. } = &self.record;
        (forward.frame_bytes.saturating_add(reverse.frame_bytes), *id, *first)
    }
}

/// The open flows that had a packet in an interval: the heaviest ones, and the sum of the others. The merged flows of several
/// workers are those that one worker with all packets has.
#[derive(Debug)]
pub struct OpenFlows {
    flows: Vec<OpenFlow>,
    max: usize,
    left_out: LeftOut,
    /// For the flows of one worker, [`OpenFlow::from`].
    from: u64,
    /// End of the interval, in nanoseconds since the epoch.
    pub until: u64,
}

impl OpenFlows {
    /// No flows yet of a worker that has showed none since `from`, in the interval that ends at `until`.
    pub fn new(from: u64, until: u64, max: usize) -> Self {
        Self { flows: Vec::new(), max, left_out: LeftOut::default(), from, until }
    }

    /// The number of flows whose memory fits into a number of bytes; it is limited in any case.
    pub fn fitting(bytes: usize) -> usize {
        (bytes / (2 * size_of::<OpenFlow>())).min(MAX)
    }

    /// Adds a flow.
    pub fn push(&mut self, record: &FlowRecord) {
        self.flows.push(OpenFlow { record: *record, name: None, from: self.from });
        if self.flows.len() >= 2 * self.max.max(1) {
            self.shorten();
        }
    }

    /// Adds the flows of another worker.
    pub fn merge(&mut self, other: OpenFlows) {
        self.until = self.until.max(other.until);
        self.left_out.add(&other.left_out);
        self.flows.extend(other.flows);
        self.shorten();
    }

    /// Leaves out all but the heaviest flows.
    pub fn shorten(&mut self) {
        if self.flows.len() <= self.max {
            return;
        }
        self.flows.select_nth_unstable_by_key(self.max, |flow| std::cmp::Reverse(flow.weight()));
        for flow in self.flows.drain(self.max..) {
            self.left_out.count(&flow.record);
        }
        self.flows.shrink_to_fit();
    }

    /// The flows, and what was left out.
    pub fn take(self) -> (Vec<OpenFlow>, LeftOut) {
        (self.flows, self.left_out)
    }

    /// Bytes of memory.
    pub fn memory(&self) -> usize {
        size_of::<Self>() + self.flows.capacity() * size_of::<OpenFlow>()
    }
}
