//! The pcap-filter language: parsed, planned, decided; classic BPF out for the kernel.
//!
//! [`Filter::compile`] parses an expression of pcap-filter(7) and translates it for each link type; [`Filter::matches`]
//! decides packets. There are two readings of an expression:
//!
//! - With [`Options::strict_bpf`] the verdict is libpcap's, always: the program is the one that `pcap_compile()`
//!   makes with the optimiser on, instruction for instruction, and it is run as `bpf_filter()` runs it.
//! - By default VLAN tags (to any depth), MPLS labels and PPPoE session headers are looked through: a test sees the
//!   packet as if they were not there, and `vlan`, `mpls` and `pppoes` are tests of what was there. A card that
//!   strips tags and one that does not give the same answer. `vlan 5 and vlan 6` is tag 5 outside and 6 inside it;
//!   `vlan 5 or vlan 6` is either, outside. Loads that name bytes of the frame (`ether[12:2]`) see the frame as it
//!   is. On packets without such headers both readings agree, but for expressions that use these words.
//!
//! Where the strict verdict is not libpcap's: of a program with more than 4,000 blocks (some 300 ports), which is run
//! without the optimiser, so that a packet cut within its headers may be rejected by another test; where
//! libpcap reads scratch memory that it has not written (`geneve or ...`), which is 0 here; and where its
//! `protochain` never ends, which rejects the packet here. The version is 1.10.3; newer words and newer refusals are
//! those of 1.11.
//!
//! [`Set`] compiles many expressions into one plan, which shares what they have in common; [`Counter`] puts packets
//! through it.
//!
//! What is not here: name resolution (see [`Resolve`]) and capture.

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
