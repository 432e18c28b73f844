//! Packets in tunnels.

use super::FunctionSpec;
use super::link_list::{self, LinkKey};
use crate::keyed::{KeyHash, Keyed};
use crate::uncommon::Uncommon;
use weir_api::{Datum, KeyColumn, OWN_WORDS, Schema};
use weir_wire::{Layers, Packet, Tunnel, tunnel_network};

pub(super) static TUNNELS: FunctionSpec = link_list::spec::<Carrier>(
    "tunnels",
    "Packets in tunnels by kind and network (of VXLAN 42), in fixed memory: exact while the distinct keys fit, else with an upper bound of the error for each row. Of nested tunnels the outermost counts.",
);

static KEYS: [KeyColumn; 2] = [
    KeyColumn::new("tunnel", OWN_WORDS, "Kind of the tunnel."),
    KeyColumn::new("network", "", "Identifier of the network in the tunnel; none without one."),
];

/// Maximum bytes of the name of a kind.
const MAX_NAME: usize = 8;

/// A tunnel.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Carrier {
    kind: Tunnel,
    network: Option<u32>,
}

impl Default for Carrier {
    fn default() -> Self {
        Self { kind: Tunnel::None, network: None }
    }
}

impl LinkKey for Carrier {
    const SCHEMA: Schema = link_list::schema("tunnels", &KEYS);
    const TEXTS: usize = MAX_NAME;
    const PACKETS: Uncommon = Uncommon::Tunnelled;

    fn each(packet: &Packet<'_>, layers: &Layers, each: &mut dyn FnMut(Self)) {
        // What carries IP and what carries frames have one name.
        let kind = if layers.tunnel == Tunnel::GreEthernet { Tunnel::Gre } else { layers.tunnel };
        each(Self { kind, network: tunnel_network(packet, layers) });
    }

    fn parts(&self) -> Vec<Datum> {
        let network = self.network.map_or(Datum::Nothing, |network| Datum::Number(network.into()));
        vec![Datum::Text(name(self.kind).into()), network]
    }
}

impl Keyed for Carrier {
    fn hash(&self, hash: &KeyHash) -> u64 {
        let network = self.network.map_or(u64::MAX, u64::from);
        hash.of([self.kind as u64, network])
    }
}

/// The common name of a tunnel's kind, at most [`MAX_NAME`] bytes.
fn name(tunnel: Tunnel) -> &'static str {
    match tunnel {
        Tunnel::None => "",
        Tunnel::IpInIp => "IP in IP",
        Tunnel::Gre | Tunnel::GreEthernet => "GRE",
        Tunnel::Erspan => "ERSPAN",
        Tunnel::Vxlan => "VXLAN",
        Tunnel::Geneve => "GENEVE",
        Tunnel::GtpU => "GTP-U",
        Tunnel::L2tp => "L2TP",
        Tunnel::Teredo => "Teredo",
        Tunnel::Ayiya => "AYIYA",
        Tunnel::EtherIp => "EtherIP",
        Tunnel::Capwap => "CAPWAP",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_is_longer_than_stated() {
        let tunnels = [
            Tunnel::IpInIp,
            Tunnel::Gre,
            Tunnel::GreEthernet,
            Tunnel::Erspan,
            Tunnel::Vxlan,
            Tunnel::Geneve,
            Tunnel::GtpU,
            Tunnel::L2tp,
            Tunnel::Teredo,
            Tunnel::Ayiya,
            Tunnel::EtherIp,
            Tunnel::Capwap,
        ];
        assert!(tunnels.into_iter().map(name).all(|name| (1..=MAX_NAME).contains(&name.len())));
    }
}
