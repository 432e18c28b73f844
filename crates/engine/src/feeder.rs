//! Routes the output of the flow table to functions and to sessions.

use crate::chains::Functions;
use crate::sessions::{Found, Sessions};
use crate::sink::{Emitted, Sink};
use crate::tap::Tap;
use crate::watched::Judged;
use crate::{Control, FlowRecord, Plan, Tally};
use weir_flow::{FlowIdentity, FlowPacket, FlowSink, FlowTable, IpTunnel, OddSegment};
use weir_wire::{
    Batch, Fragment, Layers, LinkType, MAX_TUNNELS, Packet, Slot, Tag, Time, Tunnel, decapsulate, decode,
    further_frames,
};

/// Routes the output of the flow table to the functions and to the sessions.
pub(crate) struct Feeder<'w, const READS: bool> {
    plan: &'w Plan,
    functions: &'w mut Functions,
    sink: &'w mut dyn Sink,
    /// The sessions; present if READS.
    sessions: Option<&'w mut Sessions>,
    /// Whether functions see control packets.
    asks_control: bool,
    /// Whether sessions emit what is odd about segments.
    asks_oddities: bool,
    /// The result of the flow that is about to end.
    found: Found,
    /// The row of the flow that leaves it, and whether the flow is over.
    leaving: Option<(u32, bool)>,
    /// Nanoseconds spent here, in a measured block.
    pub spent: u64,
}

impl<'w> Feeder<'w, false> {
    pub fn new(plan: &'w Plan, functions: &'w mut Functions, sink: &'w mut dyn Sink) -> Self {
        let asks_control = !plan.sources.control.is_empty();
        Self {
            plan,
            functions,
            sink,
            sessions: None,
            asks_control,
            asks_oddities: false,
            found: Found::default(),
            leaving: None,
            spent: 0,
        }
    }
}

impl<'w> Feeder<'w, true> {
    pub fn reading(
        plan: &'w Plan,
        functions: &'w mut Functions,
        sink: &'w mut dyn Sink,
        sessions: &'w mut Sessions,
    ) -> Self {
        let (asks_control, asks_oddities) = (!plan.sources.control.is_empty(), sessions.asks_oddities());
        let (found, leaving, sessions) = (Found::default(), None, Some(sessions));
        Self { plan, functions, sink, sessions, asks_control, asks_oddities, found, leaving, spent: 0 }
    }

    /// Counts the packets of a block. What a packet completes or carries besides its own flow (the packet of the last
    /// fragment, also in a tunnel, the frames of an aggregate) is counted before the packets after it, however packets are
    /// divided into blocks.
    pub fn count(&mut self, block: Batch<'_>, layers: &[Layers], by_flow: &[u64], table: &mut FlowTable) {
        let is_end = |(slot, layers): (&Slot, &Layers)| {
            layers.fragment != Fragment::Whole
                || layers.tunnel != Tunnel::None && carries_fragment(&block.packet(slot), layers)
                || slot.link != LinkType::ETHERNET && further_frames(&block.packet(slot)).next().is_some()
        };
        let mut ends = block.slots.iter().zip(layers).map(is_end);
        if !ends.any(|is_end| is_end) {
            table.batch_known(block, layers, by_flow, self);
            return self.attend(table);
        }
        let mut from = 0;
        for (at, pair) in block.slots.iter().zip(layers).enumerate() {
            if !is_end(pair) && at + 1 < block.len() {
                continue;
            }
            let parts = (block.slots.get(from..=at), layers.get(from..=at));
            if let (Some(slots), Some(layers)) = parts {
                table.batch(Batch { bytes: block.bytes, slots }, layers, self);
            }
            for frame in further_frames(&block.packet(pair.0)) {
                table.further(&frame, &decode(&frame), self);
            }
            self.attend(table);
            from = at + 1;
        }
    }

    /// Shows reassembled packets to their flows.
    fn attend(&mut self, table: &mut FlowTable) {
        // A packet in a tunnel may be a fragment too: each round has shorter packets.
        while let Some((packets, layers)) = self.sessions.as_mut().and_then(|sessions| sessions.take_whole())
        {
            for (packet, layers) in packets.batch().packets().zip(&layers) {
                table.attend(&packet, layers, self);
            }
        }
    }
}

/// Whether a packet carries a fragment in its tunnels.
fn carries_fragment(packet: &Packet<'_>, layers: &Layers) -> bool {
    let carried = std::iter::successors(decapsulate(packet, layers), |outer| decapsulate(packet, outer));
    carried.take(MAX_TUNNELS).any(|layers| layers.fragment != Fragment::Whole)
}

impl<const READS: bool> Feeder<'_, READS> {
    /// The sessions, and the way of their records.
    fn tap(&mut self) -> (Option<&mut Sessions>, Tap<'_>) {
        let tap = Tap { plan: self.plan, functions: self.functions, sink: self.sink };
        (self.sessions.as_deref_mut(), tap)
    }

    /// Shows the waiting tallies to the functions.
    pub fn flush(&mut self) {
        self.spent += self.functions.show_tallies(self.plan);
    }
}

impl<const READS: bool> FlowSink for Feeder<'_, READS> {
    const PACKETS: bool = READS;

    fn ahead(&mut self, rows: impl Iterator<Item = u32>) {
        if let Some(sessions) = &mut self.sessions {
            sessions.ahead(rows);
        }
    }

    fn packet(&mut self, seen: &FlowPacket<'_>) {
        if let (Some(sessions), mut tap) = self.tap() {
            sessions.packet(seen, &mut tap);
        }
    }

    fn wrong_checksum(&mut self, seen: &FlowPacket<'_>) {
        if let (Some(sessions), mut tap) = self.tap() {
            sessions.wrong_checksum(seen, &mut tap);
        }
    }

    fn wrong_header(&mut self, packet: &Packet<'_>, layers: &Layers) {
        if let (Some(sessions), mut tap) = self.tap() {
            sessions.wrong_header(packet, layers, &mut tap);
        }
    }

    fn fragment(&mut self, packet: &Packet<'_>, layers: &Layers) {
        if let (Some(sessions), mut tap) = self.tap() {
            sessions.fragment(packet, layers, &mut tap);
        }
    }

    fn tunnel(&mut self, tunnel: &IpTunnel) {
        if let (Some(sessions), mut tap) = self.tap() {
            sessions.tunnel(tunnel, &mut tap);
        }
    }

    fn leaving(&mut self, row: u32, last: Time, is_over: bool, flow: &dyn Fn() -> FlowIdentity) {
        self.leaving = Some((row, is_over));
        if let (Some(sessions), mut tap) = self.tap() {
            self.found = if is_over { sessions.end(row, last, flow, &mut tap) } else { sessions.found(row) };
        }
    }

    fn tally(&mut self, tally: &Tally<'_>) {
        if self.functions.tally(tally) {
            self.flush();
        }
    }

    fn irregular(&mut self, irregular: &Tally<'_>) {
        if self.plan.counts_by_flow() {
            let (packets, bytes) = (irregular.packets.wrapping_neg(), irregular.bytes.wrapping_neg());
            self.functions.counted.flow(
                irregular.key,
                irregular.tag,
                irregular.source_is_lower,
                packets,
                bytes,
            );
        }
    }

    fn asks_control(&self) -> bool {
        self.asks_control
    }

    fn control(&mut self, control: &Control<'_>) {
        self.functions.control(self.plan, control);
    }

    fn asks_oddities(&self) -> bool {
        self.asks_oddities
    }

    fn odd(&mut self, odd: &OddSegment) {
        if let (Some(sessions), mut tap) = self.tap() {
            sessions.odd(odd, &mut tap);
        }
    }

    fn asks_tags(&self) -> bool {
        self.plan.counts_by_flow() && self.plan.counted.asks_tags()
    }

    fn vlan_changed(&mut self, vlan_changed: &Tally<'_>, tag: Tag) {
        let Tally { key, tag: flows, source_is_lower, packets, bytes, .. } = *vlan_changed;
        let counted = &mut self.functions.counted;
        counted.flow(key, flows, source_is_lower, packets.wrapping_neg(), bytes.wrapping_neg());
        counted.flow(key, tag, source_is_lower, packets, bytes);
    }

    fn uncounted(&mut self, uncounted: &Tally<'_>) {
        if self.plan.counts_by_flow() {
            let Tally { key, tag, source_is_lower, packets, bytes, .. } = *uncounted;
            self.functions.counted.flow(key, tag, source_is_lower, packets, bytes);
        }
    }

    fn end(&mut self, record: &FlowRecord) {
        let found = std::mem::take(&mut self.found);
        if let (Some(sessions), mut tap) = self.tap() {
            sessions.carrier(record, &mut tap);
        }
        let Found { services, is_unidentified, own_apps, judged: Judged { alerted, verdict } } = found;
        let record = match READS {
            true => &FlowRecord { services, is_unidentified, own_apps, alerted, verdict, ..*record },
            false => record,
        };
        let functions = self.functions.flow_end(self.plan, record);
        self.sink.take(Emitted::Flow(record, functions));
        if let (Some(sessions), Some((row, is_over))) = (self.sessions.as_deref_mut(), self.leaving.take()) {
            sessions.leave(row, functions, is_over, self.plan, self.sink);
        }
    }
}
