//! The table of tunnels, in Zeek's terms.
//!
//! A tunnel over UDP is a flow with a tunnel type; its row is emitted when the flow ends. A tunnel directly over IP is
//! not a flow; its row is emitted when the tunnel is found.

use crate::{EndReason, FlowIdentity, FlowRecord};
use weir_flow::IpTunnel;
use weir_proto::{Record, TUNNEL, record};
use weir_wire::{Time, Tunnel};

const DISCOVER: &str = "Tunnel::DISCOVER";
/// The flow that carries it has ended.
const CLOSE: &str = "Tunnel::CLOSE";
/// The tunnel was idle for too long.
const EXPIRE: &str = "Tunnel::EXPIRE";

/// Zeek's name of a tunnel; `None` if Zeek has none.
fn name(tunnel: Tunnel) -> Option<&'static str> {
    match tunnel {
        Tunnel::Vxlan => Some("Tunnel::VXLAN"),
        Tunnel::Geneve => Some("Tunnel::GENEVE"),
        Tunnel::GtpU => Some("Tunnel::GTPv1"),
        Tunnel::Teredo => Some("Tunnel::TEREDO"),
        Tunnel::Ayiya => Some("Tunnel::AYIYA"),
        Tunnel::Gre | Tunnel::GreEthernet | Tunnel::Erspan => Some("Tunnel::GRE"),
        Tunnel::IpInIp => Some("Tunnel::IP"),
        Tunnel::None | Tunnel::L2tp | Tunnel::EtherIp | Tunnel::Capwap => None,
    }
}

fn record(time: Time, kind: &'static str, action: &'static str) -> Record<'static> {
    record!(TUNNEL, time, type = kind, action = action)
}

/// The row of a tunnel directly over IP.
pub(crate) fn over_ip(tunnel: &IpTunnel) -> Option<Record<'static>> {
    let action = if tunnel.is_over { EXPIRE } else { DISCOVER };
    Some(record(tunnel.time, name(tunnel.tunnel)?, action))
}

/// The rows of a flow that is a tunnel over UDP; `None` if it is not a tunnel, or continues.
#[inline]
pub(crate) fn over_udp(flow: &FlowRecord) -> Option<(FlowIdentity, [Record<'static>; 2])> {
    if flow.carries == Tunnel::None || flow.end == EndReason::Active {
        return None;
    }
    let kind = name(flow.carries)?;
    let identity = FlowIdentity {
        key: flow.key,
        initiator_is_lower: flow.initiator_is_lower,
        first: flow.first,
        vlan: flow.vlan,
        // The uid of a flow that was cut comes from the time of its first packet.
        alias: flow.id,
    };
    Some((identity, [record(flow.first, kind, DISCOVER), record(flow.last, kind, CLOSE)]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_flow::{FlowConfig, FlowSink, FlowTable, Tally};
    use weir_wire::build::{self, packet};
    use weir_wire::{LinkType, decode};

    #[derive(Default)]
    struct Ended(Vec<FlowRecord>);

    impl FlowSink for Ended {
        fn end(&mut self, record: &FlowRecord) {
            self.0.push(*record);
        }

        fn tally(&mut self, _: &Tally<'_>) {}
    }

    #[test]
    fn a_tunnel_over_udp_is_emitted_when_its_flow_ends() {
        let inner = build::ethernet().ipv4([10, 0, 0, 1], [10, 0, 0, 2]).udp(1000, 2000).payload(b"query");
        let vxlan = [&[8, 0, 0, 0, 0, 0, 7, 0][..], &inner].concat();
        let outer =
            build::ethernet().ipv4([172, 16, 0, 1], [172, 16, 0, 2]).udp(50_000, 4789).payload(&vxlan);
        let mut table = FlowTable::new(&FlowConfig::default());
        let mut ended = Ended::default();
        let packet = packet(&outer, LinkType::ETHERNET);
        table.packet(&packet, &decode(&packet), &mut ended);
        table.drain(&mut ended);
        let reported: Vec<_> = ended.0.iter().filter_map(over_udp).collect();
        let [(identity, rows)] = reported.as_slice() else { panic!("{reported:?}") };
        let carrier = ended.0.iter().find(|flow| flow.carrier).unwrap();
        assert_eq!(identity.id(), carrier.id);
        let actions: Vec<_> = rows.iter().map(|row| row.get("action").clone()).collect();
        assert_eq!(actions, [DISCOVER.into(), CLOSE.into()]);
        assert_eq!(over_udp(&FlowRecord { end: EndReason::Active, ..*carrier }), None);
        assert_eq!(over_udp(&FlowRecord { carries: Tunnel::L2tp, ..*carrier }), None);
    }
}
