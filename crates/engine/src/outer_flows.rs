//! Packets that carry others in tunnels, as rules see them.

use crate::FlowIdentity;
use crate::flow_fields::tunnel as tunnel_word;
use crate::watched::Watched;
use std::collections::HashMap;
use std::net::IpAddr;
use weir_flow::FlowPacket;
use weir_proto::AlertTunnel;
use weir_wire::header::{Header, Ipv4, Ipv6};
use weir_wire::{Direction, FlowKey, Layers, MAX_TUNNELS, Network, Packet, Time, decapsulate, decode};

/// Maximum number of flows.
const FLOWS: usize = 4_096;
/// Nanoseconds without a packet after which a flow may be forgotten.
const IDLE: u64 = 60_000_000_000;

/// The flows of packets that carry others. The flow table has those of the innermost packets alone. All packets of a tunnel are read by
/// one worker ([`weir_wire::steer_hash`]), so that the number of workers changes nothing.
#[derive(Default)]
pub(crate) struct OuterFlows(HashMap<FlowKey, OuterFlow>);

/// A flow, whose first packet says who its initiator is.
struct OuterFlow {
    identity: FlowIdentity,
    latest: Time,
    watched: Box<Watched>,
}

impl OuterFlows {
    /// The flow of a packet at the level of its layers, and the direction of the packet; `None` without room. `held` has the bytes of
    /// all flows that rules look at, `limit` their maximum.
    pub fn flow(
        &mut self,
        packet: &Packet<'_>,
        layers: &Layers,
        held: &mut usize,
        limit: usize,
    ) -> Option<(FlowIdentity, Direction)> {
        let (key, is_lower) = FlowKey::of(packet, layers)?;
        if !self.0.contains_key(&key) {
            if self.0.len() >= FLOWS {
                self.forget(packet.time, held);
            }
            if *held >= limit {
                return None;
            }
            let identity = FlowIdentity {
                key,
                initiator_is_lower: is_lower,
                first: packet.time,
                vlan: layers.vlan,
                alias: 0,
            };
            let watched = Watched::new();
            *held += watched.held;
            self.0.insert(key, OuterFlow { identity, latest: packet.time, watched });
        }
        let flow = self.0.get_mut(&key)?;
        flow.latest = flow.latest.max(packet.time);
        let is_of_initiator = is_lower == flow.identity.initiator_is_lower;
        Some((flow.identity, if is_of_initiator { Direction::Forward } else { Direction::Reverse }))
    }

    /// Forgets flows without a packet of late, or all if there are none.
    fn forget(&mut self, now: Time, held: &mut usize) {
        let is_idle = |flow: &OuterFlow| now.since(flow.latest) >= IDLE;
        let is_any_idle = self.0.values().any(is_idle);
        self.0.retain(|_, flow| {
            let stays = is_any_idle && !is_idle(flow);
            if !stays {
                *held = held.saturating_sub(flow.watched.held);
            }
            stays
        });
    }

    /// Lets rules look at a flow, and accounts its memory.
    pub fn look(&mut self, key: &FlowKey, held: &mut usize, look: impl FnOnce(&mut Watched)) {
        let Some(watched) = self.get_mut(key) else { return };
        look(watched);
        let now = watched.memory();
        *held = (*held + now).saturating_sub(watched.held);
        watched.held = now;
    }

    /// What rules know of a flow.
    pub fn get(&self, key: &FlowKey) -> Option<&Watched> {
        self.0.get(key).map(|flow| &*flow.watched)
    }

    /// What rules know of a flow.
    pub fn get_mut(&mut self, key: &FlowKey) -> Option<&mut Watched> {
        self.0.get_mut(key).map(|flow| &mut *flow.watched)
    }

    /// Bytes of memory of the table, without what rules know of the flows.
    pub fn memory(&self) -> usize {
        self.0.capacity() * size_of::<(FlowKey, OuterFlow)>()
    }
}

/// The levels of a packet that carry the one of its flow, the outermost first.
pub(crate) fn carriers<'p>(seen: &FlowPacket<'p>) -> impl Iterator<Item = Layers> + use<'p> {
    let (packet, innermost) = (seen.packet, seen.layers.network);
    let outermost = (seen.layers.within != 0).then(|| decode(packet));
    let levels = std::iter::successors(outermost, move |level| decapsulate(packet, level));
    levels.take(MAX_TUNNELS).take_while(move |level| level.network != innermost)
}

/// The tunnel of a packet of a flow within one.
pub(crate) fn tunnel(seen: &FlowPacket<'_>) -> Option<AlertTunnel> {
    let mut levels = carriers(seen);
    let outermost = levels.next()?;
    let data = seen.packet.data.get(outermost.network as usize..)?;
    let (source, destination): (IpAddr, IpAddr) = match outermost.network_kind {
        Network::Ipv4 => Ipv4::parse(data).map(|(ip, _)| (ip.src.into(), ip.dst.into()))?,
        Network::Ipv6 => Ipv6::parse(data).map(|(ip, _)| (ip.src.into(), ip.dst.into()))?,
        _ => return None,
    };
    let [from, to] = outermost.ports;
    Some(AlertTunnel {
        kind: tunnel_word(levels.last().unwrap_or(outermost).tunnel)?,
        source: (source, from),
        destination: (destination, to),
        ip_proto: outermost.ip_proto,
    })
}
