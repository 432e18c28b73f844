//! Packets that are looked up together, in columns.

use crate::parsed_packet::FlowRef;
use weir_wire::Layers;
use weir_wire::build::flags::{FIN, RST, SYN};

/// The packets, or levels of packets, that have yet to be counted, in columns: each step of the lookup runs over all of
/// them, and reads only what it needs.
#[derive(Default)]
pub(super) struct Probes {
    /// Hash and line are set by the lookup.
    pub flow_refs: Vec<FlowRef>,
    pub kinds: Vec<Kind>,
    /// The lines of the flows in the index: [`FlowRef::line`] of each.
    pub lines: Vec<u32>,
    /// The likely row of each flow, plus 1; 0 for none.
    pub likely: Vec<u32>,
}

/// How a packet is counted.
#[derive(Clone, Copy)]
pub(super) struct Kind {
    /// Position in the batch; for a packet that is not plain, position among the parsed packets.
    pub at: u8,
    /// Whether it may change the state of its connection, which is in the cold part of the row.
    pub is_cold: bool,
    pub is_plain: bool,
    /// For a plain packet, see [`Facts::regular`](crate::parsed_packet::Facts::regular).
    pub is_regular: bool,
}

impl Kind {
    /// Of packet `at` of the group, which is plain.
    #[inline(always)]
    pub fn plain(at: usize, layers: &Layers, is_regular: bool) -> Self {
        let is_cold = layers.tcp_flags & (SYN | FIN | RST) != 0;
        Self { at: at as u8, is_cold, is_plain: true, is_regular }
    }
}

/// One of the [`Probes`].
pub(super) struct Probe<'p> {
    pub flow_ref: &'p FlowRef,
    pub kind: Kind,
    pub likely: u32,
}

impl Probes {
    /// None, with memory for that many.
    pub fn with_capacity(probes: usize) -> Self {
        Self {
            flow_refs: Vec::with_capacity(probes),
            kinds: Vec::with_capacity(probes),
            lines: Vec::with_capacity(probes),
            likely: Vec::with_capacity(probes),
        }
    }

    /// Adds one, with a flow that is not looked up.
    pub fn push(&mut self, flow_ref: FlowRef, kind: Kind) {
        self.flow_refs.push(flow_ref);
        self.kinds.push(kind);
    }

    /// Their number.
    pub fn len(&self) -> usize {
        self.flow_refs.len()
    }

    /// Removes all.
    pub fn clear(&mut self) {
        self.flow_refs.clear();
        self.kinds.clear();
        self.lines.clear();
        self.likely.clear();
    }

    /// Each of them, after the lookup.
    #[inline(always)]
    pub fn iter(&self) -> impl Iterator<Item = Probe<'_>> {
        let columns = self.flow_refs.iter().zip(&self.kinds).zip(&self.likely);
        columns.map(|((flow_ref, kind), likely)| Probe { flow_ref, kind: *kind, likely: *likely })
    }

    /// Bytes of memory of one of them.
    pub const BYTES_EACH: usize = size_of::<FlowRef>() + size_of::<Kind>() + 2 * size_of::<u32>();
}
