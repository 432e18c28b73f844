//! The weir program.

fn main() {}
