//! The table of tunnels, which the engine fills.

use crate::{Kind, Table, field};

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
