//! Keys of top lists as people read them.

use crate::ports;
use std::net::IpAddr;
use weir_api::Key;

/// A key in full: `tcp/443 https`, `10.0.0.1:443 https <-> 10.0.0.9`, `udp 10.0.0.1:53 -> 10.0.0.9:4711`. With
/// `names`, ports are named.
pub fn key(key: &Key, names: bool) -> String {
    match *key {
        Key::Address(address) => address.to_string(),
        Key::Pair(source, destination) => format!("{source} -> {destination}"),
        Key::Flow { source, source_port, destination, destination_port, protocol } => format!(
            "{} {} -> {}",
            ports::protocol(protocol),
            socket(source, source_port, protocol),
            socket(destination, destination_port, protocol)
        ),
        Key::Port { protocol, port } => {
            if !ports::has_ports(protocol) {
                return ports::protocol(protocol);
            }
            let number = format!("{}/{port}", ports::protocol(protocol));
            match ports::service(protocol, port).filter(|_| names) {
                Some(name) => format!("{number} {name}"),
                None => number,
            }
        }
        Key::Protocol(protocol) => ports::protocol(protocol),
        Key::Vlan(id) => format!("VLAN {id}"),
        Key::Talker { server, port, client, protocol } => {
            let ends = format!("{} <-> {client}", socket(server, port, protocol));
            format!("{ends} {}", talk(protocol, port, names))
        }
    }
}

/// A talker's ends, each in at most `width` columns: an address that is too long loses its middle.
pub fn key_short(key: &Key, width: usize) -> (String, String) {
    match *key {
        Key::Talker { server, port, client, protocol } => {
            let suffix = if ports::has_ports(protocol) { format!(":{port}") } else { String::new() };
            let server = match (server, suffix.is_empty()) {
                (IpAddr::V6(v6), false) => {
                    format!(
                        "[{}]{suffix}",
                        middle_out(&v6.to_string(), width.saturating_sub(suffix.len() + 2))
                    )
                }
                (address, _) => format!("{address}{suffix}"),
            };
            (middle_out(&server, width), middle_out(&client.to_string(), width))
        }
        other => (middle_out(&self::key(&other, false), width), String::new()),
    }
}

/// What was probably spoken, by the port alone: the service's name, with the transport where it is not the one that
/// the service mostly uses, or the transport.
pub(super) fn talk(protocol: u8, port: u16, names: bool) -> String {
    match ports::service(protocol, port).filter(|_| names) {
        Some(name) if ports::unusual_transport(protocol, port) => {
            format!("{name}/{}", ports::protocol(protocol))
        }
        Some(name) => name.to_owned(),
        None => ports::protocol(protocol),
    }
}

fn socket(address: IpAddr, port: u16, protocol: u8) -> String {
    match (address, ports::has_ports(protocol)) {
        (_, false) => address.to_string(),
        (IpAddr::V4(v4), true) => format!("{v4}:{port}"),
        (IpAddr::V6(v6), true) => format!("[{v6}]:{port}"),
    }
}

/// An address in at most `width` columns: the middle goes first, because the ends tell most.
fn middle_out(text: &str, width: usize) -> String {
    let length = text.chars().count();
    if length <= width {
        return text.to_owned();
    }
    let keep = width.saturating_sub(1);
    let head = text.chars().take(keep.div_ceil(2));
    let tail = text.chars().skip(length - keep / 2);
    head.chain(['…']).chain(tail).take(width).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_read_well() {
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        let talker = Key::Talker { server: ip("10.0.0.1"), port: 443, client: ip("10.0.0.9"), protocol: 6 };
        assert_eq!(key(&talker, true), "10.0.0.1:443 <-> 10.0.0.9 https");
        assert_eq!(key(&talker, false), "10.0.0.1:443 <-> 10.0.0.9 tcp");
        let dns =
            |protocol| Key::Talker { server: ip("10.0.0.1"), port: 53, client: ip("10.0.0.9"), protocol };
        assert_eq!(key(&dns(17), true), "10.0.0.1:53 <-> 10.0.0.9 domain");
        assert_eq!(key(&dns(6), true), "10.0.0.1:53 <-> 10.0.0.9 domain/tcp");
        let ping = Key::Talker { server: ip("10.0.0.1"), port: 0, client: ip("10.0.0.9"), protocol: 1 };
        assert_eq!(key(&ping, true), "10.0.0.1 <-> 10.0.0.9 icmp");
        assert_eq!(key(&Key::Port { protocol: 17, port: 53 }, true), "udp/53 domain");
        assert_eq!(key(&Key::Port { protocol: 1, port: 0 }, true), "icmp");
        let long =
            Key::Talker { server: ip("2001:db8:1:2:3:4:5:6"), port: 443, client: ip("::1"), protocol: 6 };
        assert_eq!(key_short(&long, 18), ("[2001:d…4:5:6]:443".to_owned(), "::1".to_owned()));
        let flow = Key::Flow {
            source: ip("10.0.0.1"),
            source_port: 53,
            destination: ip("2001:db8::1"),
            destination_port: 4711,
            protocol: 17,
        };
        assert_eq!(key(&flow, true), "udp 10.0.0.1:53 -> [2001:db8::1]:4711");
    }
}
