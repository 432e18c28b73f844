//! The table of tunnels, which the pass over packets fills.

use crate::{Kind, Table, field};

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
