//! The pcap-filter language: a parser, a planner and an evaluator; classic BPF for the kernel.
//!
//! [`Filter::compile`] parses an expression of pcap-filter(7) and translates it for each link type;
//! [`Filter::matches`] decides packets. An expression has two modes:
//!
//! - With [`Options::strict_bpf`] the verdict is always libpcap's: the program equals, instruction for instruction, the output
//!   of `pcap_compile()` with the optimiser, and runs as in `bpf_filter()`.
//! - By default VLAN tags (to any depth), MPLS labels and PPPoE session headers are looked through: a test sees the packet
//!   without them, and `vlan`, `mpls` and `pppoes` test the removed headers. Cards that strip tags and cards that do not
//!   give equal verdicts. `vlan 5 and vlan 6` is outer tag 5 and inner tag 6; `vlan 5 or vlan 6` is an outer tag of
//!   either. Loads that name bytes of the frame (`ether[12:2]`) read the frame unchanged. On packets without such
//!   headers both modes agree, except for expressions with these words.
//!
//! The strict verdict differs from libpcap's in three cases: a program with more than 4,000 blocks (about 300 ports)
//! runs without the optimiser, so that a packet truncated within its headers may be rejected by another test; scratch
//! memory that libpcap reads before it writes (`geneve or ...`) is 0 here; and a `protochain` that never ends in
//! libpcap rejects the packet here. The version is 1.10.3; newer words and newer errors are those of 1.11.
//!
//! [`Set`] compiles many expressions into one plan with shared parts; [`MatchCounter`] puts packets through it.
//!
//! [`FlowTest`] decides flows, by their keys or as stored rows, and [`RecordTest`] records, which have fields besides ([`fields`]).
//!
//! This crate does not resolve names (see [`Resolve`]) and does not capture.
//!
//! ```
//! use weir_filter::{Filter, Options};
//! use weir_wire::{LinkType, build, decode};
//!
//! let filter = Filter::compile("tcp port 80 and not host 192.0.2.9", &Options::default()).unwrap();
//! let frame = build::ethernet().vlan(7).ipv4([192, 0, 2, 1], [198, 51, 100, 2]).tcp(40000, 80, 0x02).payload(b"");
//! let packet = build::packet(&frame, LinkType::ETHERNET);
//! // By default the VLAN tag is looked through; libpcap's verdict is that of the tagged frame.
//! assert!(filter.matches(&packet, &decode(&packet)));
//! let strict = Options { strict_bpf: true, ..Options::default() };
//! let filter = Filter::compile("tcp port 80", &strict).unwrap();
//! assert!(!filter.matches(&packet, &decode(&packet)));
//!
//! let error = Filter::compile("tcp prot 80", &Options::default()).unwrap_err();
//! assert!(error.to_string().contains("prot"));
//! ```

#![deny(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod anchors;
pub mod ast;
mod bpf;
mod codegen;
mod emit;
mod error;
pub mod fields;
mod filter;
mod flowtest;
mod graph;
mod lex;
mod link;
mod machine;
mod meaning;
mod names;
mod optimize;
mod parse;
mod part;
mod record;
mod resolve;
mod set;
mod view;
mod wireshark;

pub use anchors::FlowTests;
pub use bpf::BpfInsn;
pub use error::{ErrorKind, FilterError};
pub use fields::FLOW;
pub use filter::{Filter, LINK_TYPES, Options, Program};
pub use flowtest::{Directions, Endpoints, FlowEndpoints, FlowRow, FlowTest};
pub use lex::words;
pub use names::Protocol;
pub use part::{Decider, Part, parts};
pub use record::{Matches, RecordRow, RecordSet, RecordTest, Tables};
pub use resolve::Resolve;
pub use set::{
    Comparison, Decided, Explanation, MASK_PACKETS, Masks, MatchCounter, PacketMask, Set, SetError, Strategy,
    Total, Totals, check,
};
