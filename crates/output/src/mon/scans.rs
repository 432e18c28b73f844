//! The lines of hosts that reach for many others, from the lists `topn_scans` and `topn_port_scans`: their number, and of each host its
//! address and a number, all followed by a colon.
//!
//! | line | of each host |
//! |---|---|
//! | `ip_scan` | distinct addresses that it sent to |
//! | `ip_portscan` | distinct ports of TCP, UDP and SCTP that it sent to; a port of two of them counts once, as Ourmon counts it |
//! | `tcp_portscan`, `udp_portscan` | distinct ports of TCP, and of UDP |
//!
//! A list has a row for each kind of probe: a host's rows are joined, so that what it tried in two ways counts once. Ourmon's last
//! line, `ips_scan_STATS`, is of its hash table, and is left out.

use super::host;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::net::IpAddr;
use weir_api::{Answer, Datum, Folded, Reading, Shown, Table};

/// A line, the subscription of its list, the column that is counted, and the kinds of probes that count.
struct Line {
    name: &'static str,
    list: &'static str,
    column: &'static str,
    counts: fn(&str) -> bool,
}

static LINES: [Line; 4] = [
    Line { name: "ip_scan", list: "topn_scans", column: "targets", counts: |_| true },
    Line {
        name: "ip_portscan",
        list: "topn_port_scans",
        column: "ports",
        counts: |kind| is_tcp(kind) || matches!(kind, "udp" | "sctp"),
    },
    Line { name: "tcp_portscan", list: "topn_port_scans", column: "ports", counts: is_tcp },
    Line { name: "udp_portscan", list: "topn_port_scans", column: "ports", counts: |kind| kind == "udp" },
];

/// Whether a kind of probes is of TCP.
fn is_tcp(kind: &str) -> bool {
    matches!(kind, "syn" | "connect" | "fin" | "null" | "xmas" | "maimon" | "ack" | "other")
}

/// The lines of a list; none if the answer is no such list.
pub(super) fn lines(answer: &Answer) -> impl Iterator<Item = String> + '_ {
    let table = match &answer.reading {
        Reading::Table(table) if answer.label.function == "fanout" => Some(table),
        _ => None,
    };
    let of_list = LINES.iter().filter(|line| answer.label.subscription == line.list);
    of_list.filter_map(move |line| line.text(table?))
}

impl Line {
    /// The line; `None` if the table has no such column.
    fn text(&self, table: &Table) -> Option<String> {
        let at = table.schema.columns.iter().position(|column| column.name == self.column)?;
        let mut hosts: BTreeMap<IpAddr, Folded> = BTreeMap::new();
        for row in &table.rows {
            let ([Datum::Address(source), Datum::Text(kind)], Some(value)) =
                (&row.key[..], row.values.get(at))
            else {
                continue;
            };
            if (self.counts)(kind) {
                hosts.entry(*source).and_modify(|all| all.merge(value)).or_insert_with(|| value.clone());
            }
        }
        let mut hosts: Vec<(IpAddr, u64)> =
            hosts.into_iter().map(|(source, all)| (source, all.weight())).collect();
        hosts.sort_by_key(|(_, number)| std::cmp::Reverse(*number));
        if let Shown::Heaviest(most) = table.schema.shown {
            hosts.truncate(most as usize);
        }
        let mut text = format!("{}: {} :", self.name, hosts.len());
        for (source, number) in hosts {
            let _ = write!(text, " {}:{number}:", host(source));
        }
        Some(text)
    }
}
