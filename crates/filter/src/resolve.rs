//! Names of hosts and networks in expressions.

use std::net::IpAddr;

/// Resolves names. This crate opens no sockets and reads no files: without a resolver, only numbers and the names of
/// well-known protocols and ports are accepted.
pub trait Resolve: Sync {
    /// Addresses of a host; empty if it is unknown.
    fn addresses(&self, name: &str) -> Vec<IpAddr>;

    /// Number of a network in host byte order, without its trailing zero bytes, as in networks(5).
    fn network(&self, _name: &str) -> Option<u32> {
        None
    }

    /// MAC address of a host, as in ethers(5).
    fn mac(&self, _name: &str) -> Option<[u8; 6]> {
        None
    }
}
