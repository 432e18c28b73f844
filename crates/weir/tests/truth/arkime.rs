//! Comparison with Arkime's sessions: packets, bytes, Community ID, protocols, and fields that both have.

use crate::support::aside::{Figure, is_aside};
use crate::{data, is_emitted, json, logs, support};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// Compared values, and the required number of equal ones: of the captures that are looked at, and of those that are
/// set aside.
const REQUIRED: &[(&str, [usize; 2])] = &[
    ("packets", [198, 48]),
    ("bytes", [198, 48]),
    ("community_id", [194, 48]),
    ("protocol", [91, 39]),
    ("dns", [69, 18]),
    ("email", [12, 8]),
    ("http", [79, 54]),
    ("ssh", [2, 1]),
    ("tls", [17, 14]),
];

/// Protocols that both have: Arkime's name, and Weir's.
const PROTOCOLS: [(&str, &str); 21] = [
    ("dhcp", "dhcp"),
    ("dhcpv6", "dhcpv6"),
    ("dns", "dns"),
    ("ftp", "ftp"),
    ("http", "http"),
    ("imap", "imap"),
    ("irc", "irc"),
    ("mqtt", "mqtt"),
    ("mysql", "mysql"),
    ("ntp", "ntp"),
    ("pop3", "pop3"),
    ("postgresql", "postgresql"),
    ("quic", "quic"),
    ("radius", "radius"),
    ("rdp", "rdp"),
    ("smb", "smb"),
    ("smtp", "smtp"),
    ("snmp", "snmp"),
    ("socks", "socks"),
    ("ssh", "ssh"),
    ("tls", "tls"),
];

/// Fields that both have: Arkime's name, and Weir's in eve.json.
const FIELDS: [(&str, &str); 15] = [
    ("dns.qt", "dns.queries.rrtype"),
    ("dns.queryHost", "dns.queries.rrname"),
    ("dns.status", "dns.rcode"),
    ("email.smtpHello", "smtp.helo"),
    ("email.subject", "email.subject"),
    ("http.clientVersion", "http.protocol"),
    ("http.host", "http.hostname"),
    ("http.method", "http.http_method"),
    ("http.statuscode", "http.status"),
    ("http.useragent", "http.http_user_agent"),
    ("ssh.hassh", "ssh.client.hassh.hash"),
    ("tls.ja3", "tls.ja3.hash"),
    ("tls.ja3s", "tls.ja3s.hash"),
    ("tls.ja4", "tls.ja4"),
    ("tls.version", "tls.version"),
];

/// Protocols that carry or hide others and are not parsed here: their content is not compared.
const CARRIERS: [&str; 4] = ["adb", "bittorrent", "http2", "openvpn"];

/// All values at a path, through lists, normalised for comparison.
pub fn values(value: &Value, path: &str, found: &mut BTreeSet<String>) {
    match value {
        Value::Array(values) => values.iter().for_each(|value| self::values(value, path, found)),
        Value::Object(members) => {
            let (head, rest) = path.split_once('.').unwrap_or((path, ""));
            if let Some(value) = members.get(head) {
                self::values(value, rest, found);
            }
        }
        Value::Null => {}
        leaf if path.is_empty() => {
            let text = leaf.as_str().map_or_else(|| leaf.to_string(), str::to_owned).to_lowercase();
            // `HTTP/1.1` and `1.1`, `TLS 1.2` and `TLSv1.2`.
            let text = text.trim_start_matches("http/").replace("tlsv1", "tls 1");
            // The root of names, and blanks around a subject, are removed.
            found.insert(text.replace("<root>", "").trim().to_owned());
        }
        _ => {}
    }
}

/// Addresses and ports in sorted order, and the protocol.
type Pair = (Vec<(String, u64)>, String);

fn pair(ends: [(&Value, &Value); 2], protocol: String) -> Pair {
    // Arkime has no ports for ICMP; Weir has the type and code there.
    let has_ports = matches!(protocol.as_str(), "tcp" | "udp" | "sctp");
    let end = |(address, port): (&Value, &Value)| {
        let port = if has_ports { port.as_u64().unwrap_or(0) } else { 0 };
        let text = address.as_str().unwrap_or_default();
        // One address of IPv6 has several texts.
        let address = text.parse::<IpAddr>().map_or_else(|_| text.to_owned(), |address| address.to_string());
        (address, port)
    };
    let mut ends = ends.map(end).to_vec();
    ends.sort();
    (ends, protocol)
}

fn of_event(event: &Value) -> Pair {
    let protocol = event["proto"].as_str().unwrap_or_default().to_lowercase();
    pair([(&event["src_ip"], &event["src_port"]), (&event["dest_ip"], &event["dest_port"])], protocol)
}

fn of_session(session: &Value) -> Pair {
    let protocol = match session["ipProtocol"].as_u64() {
        Some(1) => "icmp",
        Some(6) => "tcp",
        Some(17) => "udp",
        Some(58) => "ipv6-icmp",
        Some(132) => "sctp",
        _ => "",
    };
    let end = |end: &'static str| (&session[end]["ip"], &session[end]["port"]);
    pair([end("source"), end("destination")], protocol.to_owned())
}

#[test]
fn sessions_equal_those_of_arkime() {
    let Some(folder) = data("arkime") else { return };
    let mut names: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    names.retain(|path| path.extension().is_some_and(|extension| extension == "test"));
    names.sort();
    let mut scores: BTreeMap<&str, Figure> = BTreeMap::new();
    let (mut compared, mut others, mut carried) = (0, 0, 0);
    for name in names {
        let theirs = json(&name);
        let test = name.file_stem().unwrap().to_string_lossy().into_owned();
        let capture = name.with_extension("pcap");
        let file = capture.to_string_lossy();
        let run = logs(&capture, &["--checksum", "off"]);
        let events = support::objects(&std::fs::read_to_string(run.path().join("eve.json")).unwrap());
        let sessions: Vec<&Value> =
            theirs["sessions3"].as_array().unwrap().iter().map(|session| &session["body"]).collect();
        let mut by_pair: BTreeMap<Pair, Vec<&Value>> = BTreeMap::new();
        for session in sessions {
            let pair = of_session(session);
            // Arkime's sessions of ESP, GRE and protocols other than IP have only addresses.
            if pair.1.is_empty() {
                others += 1;
            } else {
                by_pair.entry(pair).or_default().push(session);
            }
        }
        for (pair, sessions) in by_pair {
            compared += sessions.len();
            let ours: Vec<&Value> = events.iter().filter(|event| of_event(event) == pair).collect();
            let flows: Vec<&&Value> = ours.iter().filter(|event| event["event_type"] == "flow").collect();
            let mut check = |what: &'static str, name: &str, theirs: String, ours: String| {
                scores.entry(what).or_default().add(&file, usize::from(theirs == ours), 1);
                if theirs != ours && is_emitted() && !is_aside(&file) {
                    println!("{test}: {pair:?}: {name}: {theirs} | {ours}");
                }
            };
            let sum = |path: [&str; 2]| -> u64 {
                sessions.iter().filter_map(|session| session[path[0]][path[1]].as_u64()).sum()
            };
            let flow_sum = |keys: [&str; 2]| -> u64 {
                let each =
                    flows.iter().flat_map(|flow| keys.map(|key| flow["flow"][key].as_u64().unwrap_or(0)));
                each.sum()
            };
            let packets = flow_sum(["pkts_toserver", "pkts_toclient"]);
            check("packets", "packets", sum(["network", "packets"]).to_string(), packets.to_string());
            let bytes = flow_sum(["bytes_toserver", "bytes_toclient"]);
            check("bytes", "bytes", sum(["network", "bytes"]).to_string(), bytes.to_string());
            let mut ids = [BTreeSet::new(), BTreeSet::new()];
            sessions.iter().for_each(|session| values(session, "network.community_id", &mut ids[0]));
            flows.iter().for_each(|flow| values(flow, "community_id", &mut ids[1]));
            if !ids[0].is_empty() {
                check("community_id", "community_id", format!("{:?}", ids[0]), format!("{:?}", ids[1]));
            }
            let mut spoken = [BTreeSet::new(), BTreeSet::new()];
            sessions.iter().for_each(|session| values(session, "protocol", &mut spoken[0]));
            ours.iter().for_each(|event| {
                values(event, "app_proto", &mut spoken[1]);
                values(event, "app_proto_orig", &mut spoken[1]);
                values(event, "event_type", &mut spoken[1]);
            });
            if CARRIERS.iter().any(|carrier| spoken[0].contains(*carrier)) {
                carried += 1;
                continue;
            }
            for (theirs, ours) in PROTOCOLS {
                if spoken[0].contains(theirs) {
                    let found = if spoken[1].contains(ours) { theirs } else { "-" };
                    check("protocol", "protocol", theirs.to_owned(), found.to_owned());
                }
            }
            for (theirs, path) in FIELDS {
                let mut found = [BTreeSet::new(), BTreeSet::new()];
                sessions.iter().for_each(|session| values(session, theirs, &mut found[0]));
                ours.iter().for_each(|event| values(event, path, &mut found[1]));
                if theirs == "http.host" {
                    // Arkime also lists the name in a TLS client's hello.
                    ours.iter().for_each(|event| values(event, "tls.sni", &mut found[1]));
                }
                let what = theirs.split('.').next().unwrap();
                let what = REQUIRED.iter().find(|(name, _)| *name == what).unwrap().0;
                // Weir must have each value of Arkime, and may have more.
                for value in &found[0] {
                    let ours =
                        if found[1].contains(value) { value.clone() } else { format!("{:?}", found[1]) };
                    check(what, theirs, value.clone(), ours);
                }
            }
        }
    }
    println!(
        "Arkime: {compared} sessions compared, {others} of other protocols than TCP, UDP, SCTP and ICMP; \
         {carried} pairs in what carries or hides others, of which no fields are compared"
    );
    let (mut whole, mut short) = (Figure::default(), Vec::new());
    for (what, required) in REQUIRED {
        let figure = scores.get(what).copied().unwrap_or_default();
        println!("{what}: passed {figure}, required {required:?}");
        if !figure.reaches(*required) {
            short.push(*what);
        }
        whole.join(&figure);
    }
    println!("Arkime's fields: passed {} in all; {whole}", whole.whole());
    assert!(short.is_empty(), "fewer than required: {short:?}");
}
