//! Rows of top lists with their labels, and the expressions that match their packets.

use serde_json::{Map, Value, json};
use std::net::IpAddr;
use weir_api::web::{Detail, ListRow};
use weir_api::{Count, Key, TopRow};
use weir_output::ports;
use weir_output::row::COLUMNS;
use weir_output::summary::{Naming, key};

/// A row of a top list, with the name of its service.
pub fn list_row(row: &TopRow, naming: Naming<'_>) -> ListRow {
    ListRow {
        label: key(&row.key, Naming::numeric()),
        key: parts(&row.key),
        packets: row.count.packets,
        bytes: row.count.bytes,
        flows: row.flows,
        error: row.error,
        filter: expression(&row.key),
        name: naming.of_key(&row.key),
        spark: None,
    }
}

/// A row with a text as its key.
pub fn text_row(text: String, count: Count, flows: u64) -> ListRow {
    let key = Map::from_iter([("text".to_owned(), json!(text))]);
    let Count { packets, bytes } = count;
    ListRow {
        label: text,
        key,
        packets,
        bytes,
        flows,
        error: 0,
        filter: String::new(),
        name: None,
        spark: None,
    }
}

fn parts(key: &Key) -> Map<String, Value> {
    let value = match *key {
        Key::Address(address) => json!({"address": address}),
        Key::Pair(source, destination) => json!({"source": source, "destination": destination}),
        Key::Flow { source, source_port, destination, destination_port, protocol } => json!({
            "source": source, "source_port": source_port, "destination": destination,
            "destination_port": destination_port, "protocol": protocol,
        }),
        Key::Port { protocol, port } => json!({"protocol": protocol, "port": port}),
        Key::Protocol(protocol) => json!({"protocol": protocol}),
        Key::Vlan(vlan) => json!({"vlan": vlan}),
        Key::Talker { server, port, client, protocol } => {
            json!({"server": server, "port": port, "client": client, "protocol": protocol})
        }
    };
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

/// A protocol as a pcap-filter expression.
fn protocol(number: u8) -> String {
    match number {
        1 => "icmp".to_owned(),
        6 => "tcp".to_owned(),
        17 => "udp".to_owned(),
        58 => "icmp6".to_owned(),
        132 => "sctp".to_owned(),
        other => format!("proto {other}"),
    }
}

fn port(number: u8, port: u16) -> String {
    match ports::has_ports(number) && matches!(number, 6 | 17 | 132) {
        true => format!("{} port {port}", protocol(number)),
        false => protocol(number),
    }
}

/// The expression that matches a key's packets, in either direction.
pub fn expression(key: &Key) -> String {
    let both = |a: IpAddr, b: IpAddr| format!("host {a} and host {b}");
    match *key {
        Key::Address(address) => format!("host {address}"),
        Key::Pair(a, b) => both(a, b),
        Key::Flow { source, source_port, destination, destination_port, protocol } => {
            let ends = both(source, destination);
            match matches!(protocol, 6 | 17 | 132) {
                true => {
                    format!("{ends} and {} and port {destination_port}", self::port(protocol, source_port))
                }
                false => format!("{ends} and {}", self::protocol(protocol)),
            }
        }
        Key::Port { protocol, port } => self::port(protocol, port),
        Key::Protocol(number) => protocol(number),
        Key::Vlan(vlan) => format!("vlan {vlan}"),
        Key::Talker { server, port, client, protocol } => {
            format!("{} and {}", both(server, client), self::port(protocol, port))
        }
    }
}

/// Title of a list.
pub fn title(name: &str) -> String {
    match name {
        "talkers" => "Top talkers",
        "services" => "Top services",
        "sources" => "Top senders",
        "destinations" => "Top receivers",
        "flows" => "Top flows",
        "protocols" => "Top protocols",
        "unidentified" => "Unidentified payload by port",
        "names" => "Names asked of DNS",
        "sites" => "Sites",
        "tls versions" => "TLS versions",
        "user agents" => "User agents of HTTP",
        "status codes" => "Status codes of HTTP",
        "latency" => "Latency by server",
        "frames" => "Packets without IP, by sender and receiver",
        "calls" => "Calls of SIP",
        "wifi" => "Wi-Fi networks and stations",
        "arp" => "Hardware addresses by ARP",
        "domains" => "Domains by distinct names asked of DNS",
        other => other,
    }
    .to_owned()
}

/// Further properties of a flow, in the order of the log's columns.
pub fn detail_rows(detail: &str) -> Vec<Detail> {
    let members: Map<String, Value> = serde_json::from_str(detail).unwrap_or_default();
    let mut rows = Vec::new();
    for column in COLUMNS {
        let value = match members.get(column.name) {
            None => continue,
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
        };
        rows.push(Detail { name: column.name.to_owned(), value, help: String::new() });
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_filter::{FlowTest, Options};

    #[test]
    fn every_key_has_an_expression_for_flows() {
        let [a, b] = ["10.0.0.1", "2001:db8::1"].map(|text| text.parse::<IpAddr>().unwrap());
        for key in [
            Key::Address(b),
            Key::Pair(a, a),
            Key::Flow { source: a, source_port: 1, destination: a, destination_port: 2, protocol: 6 },
            Key::Flow { source: a, source_port: 8, destination: a, destination_port: 0, protocol: 1 },
            Key::Port { protocol: 17, port: 53 },
            Key::Port { protocol: 47, port: 0 },
            Key::Protocol(89),
            Key::Protocol(58),
            Key::Vlan(7),
            Key::Talker { server: a, port: 443, client: a, protocol: 6 },
        ] {
            let text = expression(&key);
            FlowTest::parse(&text, &Options::default()).unwrap_or_else(|error| panic!("{key:?}: {error}"));
        }
    }
}
