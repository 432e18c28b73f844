//! The table of tunnels, which the engine fills.

use crate::{Kind, Record, Table, field, record};
use weir_wire::Time;

/// Tunnels that were found or have ended.
pub static TUNNEL: Table = Table {
    name: "tunnel",
    help: "A tunnel was found, or has ended.",
    zeek: "tunnel",
    eve: "",
    fields: &[
        field("type", Kind::Word, "Type of the tunnel.").zeek("tunnel_type"),
        field("action", Kind::Word, "Whether the tunnel was found, has ended, or had no packet for an hour.")
            .zeek("action"),
    ],
};

/// The word for a tunnel that was found.
const DISCOVER: &str = "Tunnel::DISCOVER";

/// Of tunnels through proxies there are as many flows as connections: their rows are of the two hosts and the proxy's
/// port, as Zeek has them.
pub const OF_PROXIES: [&str; 2] = ["Tunnel::HTTP", "Tunnel::SOCKS"];

/// A tunnel through a proxy was asked for: `kind` is one of [`OF_PROXIES`].
pub(crate) fn found(time: Time, kind: &'static str) -> Record<'static> {
    record!(TUNNEL, time, type = kind, action = DISCOVER)
}

/// Whether a row is of a tunnel through a proxy.
pub fn is_of_proxy(record: &Record<'_>) -> bool {
    *record.table == TUNNEL && OF_PROXIES.iter().any(|kind| *record.get("type") == (*kind).into())
}
