//! The open flows of an interval, on their way from the workers to the outputs.

use std::cmp::Reverse;
use weir_engine::FlowRecord;
use weir_output::OpenFlow;
use weir_wire::Time;

/// Maximum number of open flows that an interval hands to the outputs.
const MAX: usize = 16_384;

/// The open flows that had a packet in an interval: the heaviest ones, and the number of the others. The merged flows of several
/// workers are those that one worker with all packets has.
#[derive(Debug)]
pub struct OpenFlows {
    flows: Vec<OpenFlow>,
    max: usize,
    left_out: u64,
    /// For the flows of one worker, [`OpenFlow::from`].
    from: u64,
    /// End of the interval, in nanoseconds since the epoch.
    pub until: u64,
}

impl OpenFlows {
    /// No flows yet of a worker that has showed none since `from`, in the interval that ends at `until`.
    pub fn new(from: u64, until: u64, max: usize) -> Self {
        Self { flows: Vec::new(), max, left_out: 0, from, until }
    }

    /// The number of flows whose memory fits into a number of bytes; it is limited in any case.
    pub fn fitting(bytes: usize) -> usize {
        (bytes / (2 * size_of::<OpenFlow>())).min(MAX)
    }

    /// Adds a flow.
    pub fn push(&mut self, flow: &FlowRecord) {
        self.flows.push(OpenFlow { flow: *flow, name: None, from: self.from });
        if self.flows.len() >= 2 * self.max.max(1) {
            self.shorten();
        }
    }

    /// Adds the flows of another worker.
    pub fn merge(&mut self, other: OpenFlows) {
        self.until = self.until.max(other.until);
        self.left_out += other.left_out;
        self.flows.extend(other.flows);
        self.shorten();
    }

    /// Leaves out all but the heaviest flows.
    pub fn shorten(&mut self) {
        if self.flows.len() <= self.max {
            return;
        }
        self.flows.select_nth_unstable_by_key(self.max, |one| Reverse(weight(&one.flow)));
        self.left_out += (self.flows.len() - self.max) as u64;
        self.flows.truncate(self.max);
        self.flows.shrink_to_fit();
    }

    /// The flows, and the number of those that were left out.
    pub fn take(self) -> (Vec<OpenFlow>, u64) {
        (self.flows, self.left_out)
    }

    /// Bytes of memory.
    pub fn memory(&self) -> usize {
        size_of::<Self>() + self.flows.capacity() * size_of::<OpenFlow>()
    }
}

/// The order in which flows are kept: the heaviest first. It depends on the flow alone.
fn weight(FlowRecord { forward, reverse, id, first, .. }: &FlowRecord) -> (u64, u64, Time) {
    (forward.frame_bytes.saturating_add(reverse.frame_bytes), *id, *first)
}
