//! What the generator and the measurements share: numbers that follow from a seed, and the traffic and expressions
//! made of them.

#![forbid(unsafe_code)]

pub mod random;
pub mod traffic;
