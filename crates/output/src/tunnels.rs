//! Zeek's tunnel.log: tunnels over UDP, each with when it was found and when it ended.
//!
//! The flow that carries a tunnel knows which it is; its rows are made when it has ended. Tunnels right over IP have no
//! flow, and the engine tells of them.

use weir_engine::tunnels::{self, CLOSE, DISCOVER};
use weir_engine::{EndReason, FlowIdentity, FlowRecord};
use weir_proto::Record;

/// The rows of a tunnel that has ended with a flow; none where it is no tunnel, or goes on.
pub(crate) fn of(flow: &FlowRecord, mut tell: impl FnMut(&FlowIdentity, &Record<'static>)) {
    let Some(kind) = tunnels::name(flow.carries).filter(|_| flow.end != EndReason::Active) else { return };
    let identity = FlowIdentity {
        key: flow.key,
        initiator_is_lower: flow.initiator_is_lower,
        first: flow.first,
        vlan: flow.vlan,
        // The name of its row, whatever was changed in that.
        alias: flow.id,
    };
    for (time, action) in [(flow.first, DISCOVER), (flow.last, CLOSE)] {
        tell(&identity, &tunnels::record(time, kind, action));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;
    use weir_proto::Value;
    use weir_wire::Tunnel;

    fn told(flow: &FlowRecord) -> Vec<(u64, Value<'static>, u64)> {
        let mut rows = Vec::new();
        of(flow, |identity, record| {
            rows.push((identity.id(), record.get("action").clone().into_owned(), record.time.0));
        });
        rows
    }

    #[test]
    fn a_tunnel_is_told_when_its_flow_is_over() {
        let flow = FlowRecord { carrier: true, carries: Tunnel::Vxlan, ..sample::flow() };
        let expected = vec![
            (flow.id, "Tunnel::DISCOVER".into(), flow.first.0),
            (flow.id, "Tunnel::CLOSE".into(), flow.last.0),
        ];
        assert_eq!(told(&flow), expected);
        assert_eq!(told(&FlowRecord { end: EndReason::Active, ..flow }), []);
        assert_eq!(told(&FlowRecord { carries: Tunnel::L2tp, ..flow }), []);
        assert_eq!(told(&sample::flow()), []);
    }
}
