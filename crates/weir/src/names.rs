//! Resolution of names in expressions by the system's resolver.

use std::net::{IpAddr, ToSocketAddrs};
use weir_filter::Resolve;

/// The system's resolver: hosts(5) and DNS, queried once per name when an expression is compiled.
pub struct SystemNames;

impl Resolve for SystemNames {
    fn addresses(&self, name: &str) -> Vec<IpAddr> {
        let found = (name, 0).to_socket_addrs();
        let mut addresses: Vec<IpAddr> = found.into_iter().flatten().map(|socket| socket.ip()).collect();
        addresses.sort_unstable();
        addresses.dedup();
        addresses
    }
}
