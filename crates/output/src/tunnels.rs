//! Zeek's tunnel.log: tunnels over UDP, each with when it was found and when it ended.
//!
//! A flow in a tunnel knows which tunnel it came in and which flow carried it; the flow that carries it knows its
//! addresses. Rows are made when both have ended.

use std::collections::BTreeMap;
use weir_engine::{FlowIdentity, FlowRecord};
use weir_proto::{Kind, Record, Table, field};
use weir_wire::Tunnel;

/// Flows that wait for the other half of what is known; beyond that one of them is forgotten.
const WAITING: usize = 65_536;

/// IPv6 with nothing in it (RFC 8200 4.7).
const NO_NEXT_HEADER: u8 = 59;

static TUNNEL: Table = Table {
    name: "tunnel",
    help: "A tunnel was found, or has ended.",
    zeek: "tunnel",
    eve: "",
    fields: &[
        field("type", Kind::Word, "Which kind of tunnel.").zeek("tunnel_type"),
        field("action", Kind::Word, "Whether it was found or has ended.").zeek("action"),
    ],
};

/// Puts tunnels together.
#[derive(Default)]
pub(crate) struct Tunnels {
    /// What was in the flow of that name.
    kinds: BTreeMap<u64, &'static str>,
    /// Flows that carry others.
    carriers: BTreeMap<u64, FlowRecord>,
}

/// Zeek's name of a tunnel over UDP; `None` where it knows none.
fn name(tunnel: Tunnel) -> Option<&'static str> {
    match tunnel {
        Tunnel::Vxlan => Some("Tunnel::VXLAN"),
        Tunnel::Geneve => Some("Tunnel::GENEVE"),
        Tunnel::GtpU => Some("Tunnel::GTPv1"),
        Tunnel::Teredo => Some("Tunnel::TEREDO"),
        Tunnel::Ayiya => Some("Tunnel::AYIYA"),
        _ => None,
    }
}

impl Tunnels {
    /// Takes a flow that has ended; each tunnel that is whole with it goes to `tell`, as two rows.
    pub fn flow(&mut self, flow: &FlowRecord, mut tell: impl FnMut(&FlowIdentity, &Record<'static>)) {
        // A bubble of Teredo keeps a way open and carries nothing: it makes no tunnel.
        let is_carried = flow.parent != 0 && flow.key.proto != NO_NEXT_HEADER;
        if let Some(kind) = name(flow.tunnel).filter(|_| is_carried) {
            bounded(&mut self.kinds, flow.parent, kind);
            self.join(flow.parent, &mut tell);
        }
        if flow.carrier {
            bounded(&mut self.carriers, flow.id, *flow);
            self.join(flow.id, &mut tell);
        }
    }

    fn join(&mut self, id: u64, tell: &mut impl FnMut(&FlowIdentity, &Record<'static>)) {
        let (Some(kind), Some(carrier)) = (self.kinds.get(&id), self.carriers.get(&id)) else { return };
        let identity = FlowIdentity {
            key: carrier.key,
            initiator_is_lower: carrier.initiator_is_lower,
            first: carrier.first,
            vlan: carrier.vlan,
            // The name of its row, whatever was changed in that.
            alias: carrier.id,
        };
        for (time, action) in [(carrier.first, "Tunnel::DISCOVER"), (carrier.last, "Tunnel::CLOSE")] {
            let values = vec![(*kind).into(), action.into()];
            tell(&identity, &Record { table: &TUNNEL, time, values });
        }
        // The kind stays, and the carrier goes: flows in it that end later do not tell of it again.
        self.carriers.remove(&id);
    }
}

fn bounded<T>(map: &mut BTreeMap<u64, T>, id: u64, value: T) {
    if map.len() >= WAITING && !map.contains_key(&id) {
        map.pop_first();
    }
    map.insert(id, value);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;
    use weir_proto::Value;

    fn told(flows: &[FlowRecord]) -> Vec<(u64, Value<'static>, u64)> {
        let (mut tunnels, mut rows) = (Tunnels::default(), Vec::new());
        for flow in flows {
            tunnels.flow(flow, |identity, record| {
                rows.push((identity.id(), record.get("action").clone().into_owned(), record.time.0));
            });
        }
        rows
    }

    #[test]
    fn a_tunnel_is_told_once_whoever_ends_first() {
        let mut carrier = FlowRecord { carrier: true, ..sample::flow() };
        let identity = FlowIdentity {
            key: carrier.key,
            initiator_is_lower: carrier.initiator_is_lower,
            first: carrier.first,
            vlan: carrier.vlan,
            alias: 0,
        };
        carrier.id = identity.id();
        let inner = FlowRecord { tunnel: Tunnel::Vxlan, parent: carrier.id, ..sample::ping() };
        let expected = vec![
            (carrier.id, "Tunnel::DISCOVER".into(), carrier.first.0),
            (carrier.id, "Tunnel::CLOSE".into(), carrier.last.0),
        ];
        assert_eq!(told(&[carrier, inner, inner]), expected);
        assert_eq!(told(&[inner, inner, carrier]), expected);
        assert_eq!(told(&[carrier]), []);
        let other = FlowRecord { tunnel: Tunnel::Gre, ..inner };
        assert_eq!(told(&[carrier, other]), []);
    }
}
