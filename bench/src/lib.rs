//! Code that the generator and the measurements share: seeded random numbers, and traffic and expressions made from
//! them.

#![forbid(unsafe_code)]

pub mod hostile;
pub mod random;
pub mod traffic;
