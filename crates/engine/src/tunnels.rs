//! The table of tunnels: what is told of one, in Zeek's words.

use weir_proto::{Kind, Record, Table, field};
use weir_wire::{Time, Tunnel};

/// Tunnels that were found, and that are over.
pub static TUNNEL: Table = Table {
    name: "tunnel",
    help: "A tunnel was found, or has ended.",
    zeek: "tunnel",
    eve: "",
    fields: &[
        field("type", Kind::Word, "Which kind of tunnel.").zeek("tunnel_type"),
        field("action", Kind::Word, "Whether it was found, has ended, or had no packet for an hour.")
            .zeek("action"),
    ],
};

/// It was found.
pub const DISCOVER: &str = "Tunnel::DISCOVER";
/// The flow that carries it has ended.
pub const CLOSE: &str = "Tunnel::CLOSE";
/// No packet came for long.
pub const EXPIRE: &str = "Tunnel::EXPIRE";

/// Zeek's name of a tunnel; `None` where it knows none.
pub fn name(tunnel: Tunnel) -> Option<&'static str> {
    match tunnel {
        Tunnel::Vxlan => Some("Tunnel::VXLAN"),
        Tunnel::Geneve => Some("Tunnel::GENEVE"),
        Tunnel::GtpU => Some("Tunnel::GTPv1"),
        Tunnel::Teredo => Some("Tunnel::TEREDO"),
        Tunnel::Ayiya => Some("Tunnel::AYIYA"),
        Tunnel::Gre | Tunnel::GreEthernet | Tunnel::Erspan => Some("Tunnel::GRE"),
        Tunnel::IpInIp => Some("Tunnel::IP"),
        Tunnel::None | Tunnel::L2tp | Tunnel::EtherIp => None,
    }
}

/// A row of the table.
pub fn record(time: Time, kind: &'static str, action: &'static str) -> Record<'static> {
    Record { table: &TUNNEL, time, values: vec![kind.into(), action.into()] }
}
