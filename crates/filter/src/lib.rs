//! The pcap-filter language: parsed, planned, decided; classic BPF out for the kernel.
//!
//! [`Filter::compile`] parses an expression of pcap-filter(7) and translates it for each link type;
//! [`Filter::matches`] decides packets. An expression has two modes:
//!
//! - With [`Options::strict_bpf`] the verdict is always libpcap's: the program equals, instruction for instruction, the output
//! of `pcap_compile()` with the optimiser, and runs as in `bpf_filter()`.
//! - By default VLAN tags (to any depth), MPLS labels and PPPoE session headers are looked through: a test sees the packet
//! without them, and `vlan`, `mpls` and `pppoes` test the removed headers. Cards that strip tags and cards that do not
//! give equal verdicts. `vlan 5 and vlan 6` is outer tag 5 and inner tag 6; `vlan 5 or vlan 6` is an outer tag of
//! either. Loads that name bytes of the frame (`ether[12:2]`) read the frame unchanged. On packets without such
//! headers both modes agree, except for expressions with these words.
//!
//! The strict verdict differs from libpcap's in three cases: a program with more than 4,000 blocks (about 300 ports)
//! runs without the optimiser, so that a packet truncated within its headers may be rejected by another test; scratch
//! memory that libpcap reads before it writes (`geneve or ...`) is 0 here; and a `protochain` that never ends in
//! libpcap rejects the packet here. The version is 1.10.3; newer words and newer refusals are those of 1.11.
//!
//! [`Set`] compiles many expressions into one plan with shared parts; [`Counter`] puts packets through it.
//!
//! Not here: name resolution (see [`Resolve`]) and capture.

#![deny(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

pub mod ast;
mod bpf;
mod codegen;
mod emit;
mod error;
mod filter;
mod flowtest;
mod graph;
mod lex;
mod meaning;
mod names;
mod optimize;
mod parse;
mod set;
mod view;

pub use bpf::BpfInsn;
pub use error::{ErrorKind, FilterError};
pub use filter::{Filter, LINK_TYPES, Options, Program, Resolve};
pub use flowtest::{Endpoints, FlowEndpoints, FlowTest};
pub use names::Protocol;
pub use set::{
    Comparison, Counter, Decided, Explanation, MASK_PACKETS, PacketMask, Set, SetError, Strategy, Total,
    Totals, check,
};
