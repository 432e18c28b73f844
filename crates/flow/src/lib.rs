//! Packets to flows: a flow table of fixed memory, with timers, TCP state and IP fragments.
//!
//! A [`FlowTable`] takes decoded packets and calls a [`FlowSink`]: at each roll-up with the sums of every flow since
//! the last one ([`Tally`]), and at the end of each flow with a [`FlowRecord`]. Time is the time of the packets; no
//! clock is read.
//!
//! The definition of a flow, its end, its state and its history follow Zeek's conn.log, so that the two can be
//! compared row by row. `docs/zeek-differences.md` lists the differences and their reasons.
//!
//! Results do not depend on the distribution of packets over tables, if both directions of an address pair go to one
//! table ([`weir_wire::steer_hash`]) and no table is full: a flow is split by its own gaps, and all tables tick at the
//! same times. Packets in tunnels are steered by the outer pair, which is a part of their flow's key
//! ([`weir_wire::Space`]): what passes through tunnels of several pairs is one flow in the tunnels of each.
//!
//! ```
//! use weir_flow::{FlowConfig, FlowRecord, FlowSink, FlowTable, Tally};
//! use weir_wire::{LinkType, PacketBuf, build, decode};
//!
//! #[derive(Default)]
//! struct Ended(Vec<FlowRecord>);
//! impl FlowSink for Ended {
//!     fn end(&mut self, record: &FlowRecord) {
//!         self.0.push(record.clone());
//!     }
//!     fn tally(&mut self, _: &Tally<'_>) {}
//! }
//!
//! let mut packets = PacketBuf::default();
//! for (from, to, ports) in [(1, 2, [40000, 53]), (2, 1, [53, 40000])] {
//!     let frame = build::ethernet().ipv4([192, 0, 2, from], [192, 0, 2, to]).udp(ports[0], ports[1]).payload(b"dns");
//!     packets.push(&build::packet(&frame, LinkType::ETHERNET));
//! }
//! let layers: Vec<_> = packets.batch().packets().map(|packet| decode(&packet)).collect();
//! let (mut table, mut ended) = (FlowTable::new(&FlowConfig::default()), Ended::default());
//! table.batch(packets.batch(), &layers, &mut ended);
//! table.drain(&mut ended);
//! assert_eq!(ended.0.len(), 1);
//! assert_eq!((ended.0[0].forward.packets, ended.0[0].reverse.payload_bytes), (1, 3));
//! ```

#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod closed;
mod community;
mod config;
pub mod defrag;
mod fast_path;
mod first_packet;
mod flow_packet;
mod fragments;
mod hash;
mod history;
mod holes;
mod identity;
mod index;
pub mod measure;
mod oddity;
mod parsed_packet;
mod record;
mod row;
mod rows;
mod servers;
mod show;
pub mod stream;
mod table;
mod tcp;
mod tcp_end;
mod tcp_options;
mod timers;
mod tunnel_ends;
mod windows;

pub use community::{CommunityId, community_id};
pub use config::{FlowConfig, LATE, VerifiedChecksums};
pub use flow_packet::FlowPacket;
pub use history::History;
pub use identity::FlowIdentity;
pub use oddity::{OddSegment, Oddities};
pub use record::{
    ConnState, Control, EndReason, FlowRecord, FlowSink, FlowStats, FlowVerdict, Side, Tally, TcpSummary,
};
pub use rows::Rows;
pub use servers::is_likely_server;
pub use table::FlowTable;
pub use tcp_options::{MAX_SCALE, window_scale};
pub use tunnel_ends::IpTunnel;
pub use windows::Windows;
