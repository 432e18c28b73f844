//! Capture files in and out.

// The lint knows test functions, but not what helps them.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod conformance;
mod damage;
mod formats;
mod idle;
mod order;
mod support;
mod writing;
