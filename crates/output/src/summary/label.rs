//! Labels of keys of top lists.

use super::Naming;
use crate::figures::counted;
use crate::ports;
use crate::zone;
use std::borrow::Cow;
use std::net::IpAddr;
use weir_api::{Datum, Key, Label, Sweep, Trials, mac_text};

/// A key in full: `tcp/443 tls`, `10.0.0.1:443 <-> 10.0.0.9 tls`, `udp 10.0.0.1:53 -> 10.0.0.9:4711`.
pub fn key(key: &Key, naming: Naming<'_>) -> String {
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
            match naming.service(protocol, port, None) {
                Some(name) => format!("{number} {name}"),
                None => number,
            }
        }
        Key::Protocol(protocol) => ports::protocol(protocol),
        Key::Vlan(id) => format!("VLAN {id}"),
        Key::Talker { server, port, client, protocol } => {
            let ends = format!("{} <-> {client}", socket(server, port, protocol));
            format!("{ends} {}", service_name(protocol, port, server, naming))
        }
    }
}

/// The name of a row; "" if it has none.
pub fn label<'r>(label: &Label<'r>, naming: Naming<'_>) -> Cow<'r, str> {
    match label {
        Label::None => Cow::Borrowed(""),
        Label::Text(text) => Cow::Borrowed(text),
        Label::Distinct(of) => Cow::Owned(format!("distinct {of}")),
        Label::Key(one) => Cow::Owned(key(one, naming)),
        Label::Bin(of, edge) => Cow::Owned(format!("{of} from {edge}")),
        Label::Time(time) => Cow::Owned(zone::rfc3339(*time)),
        Label::Parts(parts) => {
            let parts: Vec<String> = parts.iter().filter_map(part_of_key).collect();
            Cow::Owned(parts.join(" "))
        }
        Label::Scan { sweep, targets, is_exact } => {
            Cow::Owned(scan_in(*sweep, *targets, *is_exact, usize::MAX))
        }
    }
}

/// A part of a table's key; `None` if it is absent.
fn part_of_key(part: &Datum) -> Option<String> {
    match part {
        Datum::Nothing => None,
        Datum::Address(address) => Some(address.to_string()),
        Datum::Number(number) => Some(number.to_string()),
        Datum::Text(text) => Some(text.to_string()),
        Datum::Mac(mac) => Some(mac_text(mac)),
    }
}

/// A scan in full, as `scan_short` writes it.
pub fn scan(row: &Trials) -> String {
    scan_short(row, usize::MAX)
}

/// A scan in `width` columns: `10.0.0.9 -> 10.0.0.1  40 ports`, `10.0.0.9 -> 30 hosts, tcp/445`. Addresses lose their
/// middle to fit.
pub(super) fn scan_short(row: &Trials, width: usize) -> String {
    scan_in(row.sweep, row.failed.estimate(), row.failed.is_exact(), width)
}

fn scan_in(sweep: Sweep, targets: u64, is_exact: bool, width: usize) -> String {
    let about = if is_exact { "" } else { "about " };
    let many = |noun| format!("{about}{}", counted(targets, noun));
    let short = |ends: [String; 2], tail: String, places: usize| {
        let room = width.saturating_sub(" -> ".len() + tail.len()) / places;
        let whole: usize = ends.iter().map(String::len).sum();
        let [from, to] = if whole + " -> ".len() + tail.len() <= width {
            ends
        } else {
            ends.map(|end| middle_out(&end, room))
        };
        format!("{from} -> {to}{tail}")
    };
    match sweep {
        Sweep::Ports { source, target } => {
            short([source.to_string(), target.to_string()], format!("  {}", many("port")), 2)
        }
        Sweep::Hosts { source, port } => {
            short([source.to_string(), String::new()], format!("{}, tcp/{port}", many("host")), 1)
        }
    }
}

/// Numbers in order as `1-40, 443, 8080`; those that do not fit into `width` columns end in `...`.
pub(super) fn ranges(numbers: &[u128], width: usize) -> String {
    let mut text = String::new();
    let mut rest = numbers;
    while let Some((&first, _)) = rest.split_first() {
        let run = rest.iter().zip(first..).take_while(|(number, expected)| **number == *expected).count();
        let last = rest.get(run.saturating_sub(1)).copied().unwrap_or(first);
        rest = rest.get(run.max(1)..).unwrap_or_default();
        let comma = if text.is_empty() { "" } else { ", " };
        let range = if first == last { format!("{comma}{first}") } else { format!("{comma}{first}-{last}") };
        let more = if rest.is_empty() { 0 } else { ", ...".len() };
        if text.len() + range.len() + more > width {
            return if text.is_empty() { text } else { text + ", ..." };
        }
        text.push_str(&range);
    }
    text
}

/// The endpoints of a talker, each in at most `width` columns: a long address loses its middle.
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
        other => (middle_out(&self::key(&other, Naming::numeric()), width), String::new()),
    }
}

/// The name of a server's port, else that of the transport.
pub(super) fn service_name(protocol: u8, port: u16, server: IpAddr, naming: Naming<'_>) -> String {
    naming.service(protocol, port, Some(server)).unwrap_or_else(|| ports::protocol(protocol))
}

pub(super) fn socket(address: IpAddr, port: u16, protocol: u8) -> String {
    match (address, ports::has_ports(protocol)) {
        (_, false) => address.to_string(),
        (IpAddr::V4(v4), true) => format!("{v4}:{port}"),
        (IpAddr::V6(v6), true) => format!("[{v6}]:{port}"),
    }
}

/// An address in at most `width` columns, without its middle: its ends identify it best.
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
    fn consecutive_numbers_are_a_range() {
        let numbers: Vec<u128> = (1..=40).chain([53, 55, 56, 443]).collect();
        assert_eq!(ranges(&numbers, 40), "1-40, 53, 55-56, 443");
        assert_eq!(ranges(&numbers, 16), "1-40, 53, ...");
        assert_eq!((ranges(&numbers, 3), ranges(&[], 9)), (String::new(), String::new()));
        for width in 0..40 {
            assert!(ranges(&numbers, width).len() <= width);
        }
    }

    #[test]
    fn keys_have_readable_labels() {
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        let talker = Key::Talker { server: ip("10.0.0.1"), port: 443, client: ip("10.0.0.9"), protocol: 6 };
        let nothing = crate::Applications::default();
        let (names, numbers) = (Naming::by_content(&nothing), Naming::numeric());
        assert_eq!(key(&talker, names), "10.0.0.1:443 <-> 10.0.0.9 https?");
        assert_eq!(key(&talker, numbers), "10.0.0.1:443 <-> 10.0.0.9 tcp");
        let ping = Key::Talker { server: ip("10.0.0.1"), port: 0, client: ip("10.0.0.9"), protocol: 1 };
        assert_eq!(key(&ping, names), "10.0.0.1 <-> 10.0.0.9 icmp");
        assert_eq!(key(&Key::Port { protocol: 17, port: 53 }, names), "udp/53 domain?");
        assert_eq!(key(&Key::Port { protocol: 1, port: 0 }, names), "icmp");
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
        assert_eq!(key(&flow, names), "udp 10.0.0.1:53 -> [2001:db8::1]:4711");
    }
}
