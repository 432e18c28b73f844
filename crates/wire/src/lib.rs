//! Decodes packets: the offsets of their layers, and the flow that they belong to.
//!
//! No type here owns packet bytes, and no function here fails: [`decode`] goes as far as the bytes allow and keeps
//! every earlier layer. [`Layers::error`] holds the reason why it stopped. Offsets are into [`Packet::data`], so that
//! the bytes stay in the source's memory.
//!
//! This crate has no state (flows, fragments, streams), reads no clock, and decodes nothing above the transport layer
//! except the headers of tunnels.
//!
//! ```
//! use weir_wire::{FlowKey, LinkType, Network, build, decode};
//!
//! let frame = build::ethernet().ipv4([192, 0, 2, 1], [198, 51, 100, 2]).udp(5353, 53).payload(b"query");
//! let packet = build::packet(&frame, LinkType::ETHERNET);
//! let layers = decode(&packet);
//! assert_eq!((layers.network_kind, layers.error), (Network::Ipv4, None));
//! assert!(frame[layers.payload as usize..].starts_with(b"query"));
//!
//! let (key, sender_is_lower) = FlowKey::of(&packet, &layers).expect("an IP packet");
//! assert_eq!((key.port, sender_is_lower), ([5353, 53], true));
//!
//! // A truncated packet keeps the layers before the cut.
//! let cut = decode(&build::packet(&frame[..36], LinkType::ETHERNET));
//! assert_eq!(cut.network_kind, Network::Ipv4);
//! assert!(cut.error.is_some());
//! ```

#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]
#![cfg_attr(
    not(test),
    deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic)
)]

pub mod build;
pub mod checksum;
mod decode;
mod fragment;
pub mod header;
mod key;
mod layers;
mod link;
mod packet;
mod quoted;
mod reader;
mod steer;
pub mod stream;
mod tag;

pub use checksum::{Checksum, Checksums, is_pseudo_header_sum, verify};
pub use decode::{
    LinkEnds, MAX_HEADERS, MAX_TUNNELS, Mac, WifiKind, decapsulate, decode, decode_batch, further_frames,
    innermost, levels, link_ends, tunnel_network,
};
pub use fragment::IpFragment;
pub use key::{
    Direction, FlowKey, Space, addresses, final_destination, has_ports, icmp_counterpart, mapped,
    shows_its_key,
};
pub use layers::{DecodeError, ErrorKind, Fragment, Layer, Layers, Network, Tunnel};
pub use link::LinkType;
pub use packet::{Batch, Hints, Packet, PacketBuf, Slot, Time};
pub use quoted::{Quoted, quoted, quotes};
pub use reader::Reader;
pub use steer::{STEER_MULTIPLIER, steer_hash};
pub use tag::Tag;
