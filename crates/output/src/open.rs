//! Flows that are open when an interval ends.

use weir_engine::FlowRecord;

/// An open flow, with its sums so far.
#[derive(Clone, Copy, Debug)]
pub struct OpenFlow<'a> {
    /// The flow.
    pub flow: &'a FlowRecord,
    /// The name that the initiator had resolved for the responder, if it is known.
    pub name: Option<&'a str>,
    /// What the flow has had since it was shown before, it has had at this time or later, in nanoseconds since the epoch.
    pub from: u64,
}

/// The open flows that had a packet in an interval.
#[derive(Clone, Copy, Debug)]
pub struct OpenFlows<'a> {
    /// The flows, ordered by the time of their first packet and their key.
    pub flows: &'a [OpenFlow<'a>],
    /// End of the interval, excluded, in nanoseconds since the epoch.
    pub until: u64,
    /// Flows that had a packet and are not among these, because memory is bounded.
    pub left_out: LeftOut,
}

/// Open flows that are left out, with their sums so far.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct LeftOut {
    /// Number of flows.
    pub flows: u64,
    /// Their packets.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl LeftOut {
    /// Counts a flow.
    pub fn count(&mut self, flow: &FlowRecord) {
        let sides = [&flow.forward, &flow.reverse];
        self.add(&Self {
            flows: 1,
            packets: sides.iter().fold(0, |sum, side| sum.saturating_add(side.packets)),
            bytes: sides.iter().fold(0, |sum, side| sum.saturating_add(side.frame_bytes)),
        });
    }

    /// Adds others.
    pub fn add(&mut self, other: &Self) {
        self.flows = self.flows.saturating_add(other.flows);
        self.packets = self.packets.saturating_add(other.packets);
        self.bytes = self.bytes.saturating_add(other.bytes);
    }
}
