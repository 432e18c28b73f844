//! Reading and writing capture files.

// clippy exempts test functions, but not their helpers.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod ahead;
mod conformance;
mod damage;
mod formats;
mod idle;
mod order;
mod support;
mod writing;
