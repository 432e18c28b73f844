//! The flows whose packets functions write, as one pass finds them and a second pass over the same packets knows them.
//!
//! Both passes have the same flows, because a flow follows from the packets alone. The second one emits each packet when it is
//! seen, so that none has to be held, and packets leave in their order.

use weir_api::AnswerId;
use weir_wire::FlowKey;

/// That a function writes packets of a flow.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct DecidedFlow {
    /// The number of the flow's first packet: later flows may have the same key.
    pub packet: u32,
    /// The key of the flow.
    pub key: FlowKey,
    /// The function.
    pub id: AnswerId,
    /// Number of packets of the flow before the first one that is written.
    pub skipped: u64,
}

/// The flows that a pass has decided.
#[derive(Debug, Default)]
pub struct DecidedFlows {
    /// Ordered by their first packets and keys.
    flows: Vec<DecidedFlow>,
    /// Whether no other flow is written.
    is_all: bool,
}

impl DecidedFlows {
    /// These flows. `is_all`: no function writes packets of another one.
    pub fn new(mut flows: Vec<DecidedFlow>, is_all: bool) -> Self {
        flows.sort_unstable_by_key(|flow| (flow.packet, flow.key));
        Self { flows, is_all }
    }

    /// Whether packets of a flow may be written that is none of these.
    pub(crate) fn may_be_others(&self) -> bool {
        !self.is_all
    }

    /// The functions that write packets of the flow with that key and first packet.
    pub(crate) fn of(&self, key: FlowKey, packet: u32) -> impl Iterator<Item = &DecidedFlow> {
        let begin = self.flows.partition_point(|flow| (flow.packet, flow.key) < (packet, key));
        let rest = self.flows.get(begin..).unwrap_or_default();
        rest.iter().take_while(move |flow| (flow.packet, flow.key) == (packet, key))
    }
}
