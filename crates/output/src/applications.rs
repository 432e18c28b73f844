//! Application protocols that were identified, by service and server.

use std::collections::BTreeMap;
use std::net::IpAddr;
use weir_api::{AnswerId, Datum, Snapshot, TableRow, builtin};

/// A port of an IP protocol.
pub type Service = (u16, u8);

/// Bytes of flows in which a protocol was identified.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Share<'a> {
    /// The server; `None` for all servers of the port.
    server: Option<IpAddr>,
    service: Service,
    /// The name of the protocol; "" stands for payload in which none was identified.
    pub name: &'a str,
    /// Bytes.
    pub bytes: u64,
}

/// Bytes of flows by the protocol that was identified in them, for each port and each server. Flows without payload are
/// not included.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Applications<'a> {
    /// The shares of each port, in the order of ports.
    ports: Vec<Share<'a>>,
    /// The shares of each server, in the order of servers and ports.
    servers: Vec<Share<'a>>,
}

impl<'a> Applications<'a> {
    /// Those of the flows of a snapshot: what the built-in subscription found.
    pub fn of(snapshot: &'a Snapshot) -> Self {
        let shares = |place| {
            let table = snapshot.table_at(AnswerId { subscription: builtin::APPLICATIONS, place });
            table.iter().flat_map(|table| table.rows.by_key()).filter_map(share).collect()
        };
        Self { ports: shares(0), servers: shares(1) }
    }

    /// Those of sums by port and protocol, and by server, port and protocol.
    pub fn of_sums(
        ports: &BTreeMap<(Service, &'a str), u64>,
        servers: &BTreeMap<(IpAddr, Service, &'a str), u64>,
    ) -> Self {
        let of_port = |(&(service, name), &bytes): (&(Service, &'a str), &u64)| Share {
            server: None,
            service,
            name,
            bytes,
        };
        let of_server = |(&(server, service, name), &bytes): (&(IpAddr, Service, &'a str), &u64)| Share {
            server: Some(server),
            service,
            name,
            bytes,
        };
        Self { ports: ports.iter().map(of_port).collect(), servers: servers.iter().map(of_server).collect() }
    }

    /// The bytes by application of a server's port, or of the port where the server has no entry.
    pub fn shares(&self, ip_proto: u8, port: u16, server: Option<IpAddr>) -> &[Share<'a>] {
        let service = (port, ip_proto);
        match server.map(|server| equal(&self.servers, Some(server), service)) {
            Some(own) if !own.is_empty() => own,
            _ => equal(&self.ports, None, service),
        }
    }
}

/// The shares of a server and service.
fn equal<'s, 'a>(shares: &'s [Share<'a>], server: Option<IpAddr>, service: Service) -> &'s [Share<'a>] {
    let wanted = (server, service);
    let from = shares.partition_point(|share| (share.server, share.service) < wanted);
    let rest = shares.get(from..).unwrap_or_default();
    let length = rest.iter().take_while(|share| (share.server, share.service) == wanted).count();
    rest.get(..length).unwrap_or_default()
}

/// A row of the function `applications`, by port or by server.
fn share(row: &TableRow) -> Option<Share<'_>> {
    let (server, key) = match &*row.key {
        [Datum::Address(server), key @ ..] => (Some(*server), key),
        key => (None, key),
    };
    let [Datum::Number(port), Datum::Number(transport), name] = key else { return None };
    let service = (u16::try_from(*port).ok()?, u8::try_from(*transport).ok()?);
    let name = if let Datum::Text(name) = name { name } else { "" };
    Some(Share { server, service, name, bytes: row.weight() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_without_an_entry_has_the_shares_of_its_port() {
        let server = |n: u8| IpAddr::from([10, 0, 0, n]);
        let ports = [(((443, 6), ""), 5), (((443, 6), "tls"), 900), (((443, 17), "quic"), 7)];
        let servers = [((server(1), (443, 6), "ssh"), 100), ((server(1), (443, 6), "tls"), 1)];
        let found = Applications::of_sums(&ports.into(), &servers.into());
        let named = |proto, port, server| -> Vec<(&str, u64)> {
            found.shares(proto, port, server).iter().map(|share| (share.name, share.bytes)).collect()
        };
        assert_eq!(named(6, 443, Some(server(1))), [("ssh", 100), ("tls", 1)]);
        assert_eq!(named(6, 443, Some(server(2))), [("", 5), ("tls", 900)]);
        assert_eq!(named(6, 443, None), [("", 5), ("tls", 900)]);
        assert_eq!(named(17, 443, Some(server(1))), [("quic", 7)]);
        assert!(named(17, 444, None).is_empty());
    }
}
