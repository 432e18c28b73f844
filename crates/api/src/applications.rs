//! Application protocols that were identified, by service and server.

use std::collections::BTreeMap;
use std::net::IpAddr;

/// Maximum number of servers with their own shares. The lowest keys are kept, so that the result does not depend on the
/// order of merging; every port has its shares in any case.
const MAX_SERVERS: usize = 4096;
/// Maximum number of protocols of a key: the lowest numbers are kept.
const MAX_PROTOCOLS: usize = 8;

/// A port of an IP protocol.
type Service = (u8, u16);

/// The shares of each port.
pub(crate) type Ports = BTreeMap<Service, Shares>;
/// The shares of each server.
pub(crate) type Servers = BTreeMap<(Service, IpAddr), Shares>;

/// Bytes by application protocol. The key is the protocol's position in the list of protocols, plus 1; 0 stands for
/// payload in which none was identified.
pub type Shares = BTreeMap<u8, u64>;

/// Bytes of flows by the protocol that was identified in them, for each port and each server. Flows without payload are
/// not included.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Applications {
    ports: Ports,
    servers: Servers,
}

impl Applications {
    /// Adds the bytes of a flow.
    pub fn add(&mut self, ip_proto: u8, port: u16, server: IpAddr, application: u8, bytes: u64) {
        let service = (ip_proto, port);
        count(self.ports.entry(service).or_default(), application, bytes);
        count(self.servers.entry((service, server)).or_default(), application, bytes);
        self.limit();
    }

    /// Adds the bytes of another worker or interval.
    pub fn merge(&mut self, other: &Applications) {
        for (service, shares) in &other.ports {
            let mine = self.ports.entry(*service).or_default();
            shares.iter().for_each(|(application, bytes)| count(mine, *application, *bytes));
        }
        for (server, shares) in &other.servers {
            let mine = self.servers.entry(*server).or_default();
            shares.iter().for_each(|(application, bytes)| count(mine, *application, *bytes));
        }
        self.limit();
    }

    /// The shares of ports, and of servers.
    pub(crate) fn parts(&self) -> (&Ports, &Servers) {
        (&self.ports, &self.servers)
    }

    /// The bytes of some ports and servers.
    pub(crate) fn from_parts(ports: Ports, servers: Servers) -> Self {
        let mut applications = Self { ports, servers };
        applications.limit();
        applications
    }

    fn limit(&mut self) {
        while self.servers.len() > MAX_SERVERS {
            self.servers.pop_last();
        }
    }

    /// Whether no flow had payload.
    pub fn is_empty(&self) -> bool {
        self.ports.is_empty()
    }

    /// The bytes by application of a server's port, or of the port where the server has no entry.
    pub fn of(&self, ip_proto: u8, port: u16, server: Option<IpAddr>) -> Option<&Shares> {
        let service = (ip_proto, port);
        let own = server.and_then(|server| self.servers.get(&(service, server)));
        own.or_else(|| self.ports.get(&service))
    }

    /// Replaces the addresses of servers.
    pub fn map(&mut self, mut address: impl FnMut(IpAddr) -> IpAddr) {
        let servers = std::mem::take(&mut self.servers);
        for ((service, server), shares) in servers {
            let mine = self.servers.entry((service, address(server))).or_default();
            shares.into_iter().for_each(|(application, bytes)| count(mine, application, bytes));
        }
    }

    /// Approximate size in bytes.
    pub fn memory(&self) -> usize {
        (self.ports.len() + self.servers.len()) * 128
    }
}

fn count(shares: &mut Shares, application: u8, bytes: u64) {
    *shares.entry(application).or_default() += bytes;
    if shares.len() > MAX_PROTOCOLS {
        shares.pop_last();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_merging_does_not_matter_when_servers_are_too_many() {
        let server = |n: u32| IpAddr::from(n.to_be_bytes());
        let part = |numbers: std::ops::Range<u32>| {
            let mut part = Applications::default();
            for n in numbers {
                part.add(6, 443, server(n), (n % 3) as u8, 100);
            }
            part
        };
        let (low, middle, high) = (part(0..3_000), part(1_000..5_000), part(4_000..9_000));
        let mut forward = low.clone();
        forward.merge(&middle);
        forward.merge(&high);
        let mut backward = high;
        backward.merge(&middle);
        backward.merge(&low);
        assert_eq!(forward, backward);
        assert_eq!(forward.servers.len(), MAX_SERVERS);
        assert_eq!(forward.of(6, 443, Some(server(1_000))), Some(&BTreeMap::from([(1, 200)])));
        // A server without an entry has the shares of its port.
        let of_port = forward.of(6, 443, Some(server(8_999)));
        assert_eq!(of_port.map(|shares| shares.values().sum::<u64>()), Some(12_000 * 100));
        assert_eq!(forward.of(17, 443, None), None);
        let mut mapped = forward;
        mapped.map(|_| server(7));
        assert_eq!(mapped.servers.len(), 1);
    }
}
