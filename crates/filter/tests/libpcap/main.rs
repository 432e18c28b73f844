//! The verdict equals libpcap's: its own conformance cases, and random expressions on real and on broken packets, with
//! the installed libpcap as the oracle.
//!
//! Seeds are printed; `WEIR_SEED` sets another one and `WEIR_DIFF_PAIRS` the number of packet-expression pairs.

// libpcap is C, so that calling it is unsafe. Each call has a comment that states why it is sound.
#![allow(unsafe_code)]
// Helpers of tests may panic and print, as tests may.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod conformance;
mod differential;
mod ffi;
mod grammar;
mod links;
mod manual;
mod packets;
mod sets;
mod syntax;
