//! The lines of lists of hosts: their number, and of each host its address and numbers, all followed by a colon.
//!
//! | line | of each host |
//! |---|---|
//! | `syn_list` | SYNs sent, SYNs with ACK sent, FINs received, RSTs received, TCP packets sent, TCP packets received, ICMP errors drawn, ports |
//! | `icmp_errorlist` | errors drawn; those that quote TCP, UDP and ICMP; unreachable, redirect, time exceeded |
//! | `udperror_list` | weight, UDP packets sent, received; errors that quote UDP with an unreachable destination, errors that quote ICMP; ports |
//!
//! Two lines end with the number of sampled destination ports. It is 0 in `udperror_list`. In `syn_list` the ports follow, each with its
//! number of SYNs, in one field: `2:443,5,80,1,:`. A host without ports has no such field. Ourmon's documents do not say what
//! exactly it counts as pings; here they are errors about pings.

use super::{WormOrder, host, worms};
use std::fmt::Write;
use weir_api::{Answer, Datum, Reading, SynHost, Table, TableRow, UdpHost};

/// The numbers of a host, of a row of a table; `None` if a column is missing, as in a table of an older version.
type Numbers = fn(&Table, &TableRow) -> Option<Vec<u64>>;

/// The line of a list of hosts; `None` if the answer is no such list.
pub(super) fn line(answer: &Answer, order: WormOrder) -> Option<String> {
    let Reading::Table(table) = &answer.reading else { return None };
    let of = (answer.label.subscription.as_str(), answer.label.function.as_str());
    let (name, numbers): (&str, Numbers) = match of {
        ("topn_syn", "syn") => ("syn_list", syn),
        ("topn_icmperror", "icmperror") => ("icmp_errorlist", icmp_errors),
        ("topn_udperror", "udp") => ("udperror_list", udp_errors),
        _ => return None,
    };
    let mut rows = table.shown();
    if name == "syn_list" {
        order.sort(&mut rows);
    }
    let hosts = rows.into_iter().filter_map(|row| {
        let [Datum::Address(address)] = row.key[..] else { return None };
        let mut text = format!(" {}:", host(address));
        for number in numbers(table, row)? {
            let _ = write!(text, "{number}:");
        }
        if name == "syn_list" {
            text += &ports(row);
        }
        Some(text)
    });
    let hosts: Vec<String> = hosts.collect();
    Some(format!("{name}: {} :{}", hosts.len(), hosts.concat()))
}

/// The sum of the columns of a row; `None` if one is missing.
pub(super) fn sum(table: &Table, row: &TableRow, columns: &[&str]) -> Option<u64> {
    let value = |name: &&str| {
        let at = table.schema.columns.iter().position(|column| column.name == *name)?;
        row.values.get(at).map(|value| value.weight())
    };
    columns.iter().map(value).try_fold(0, |sum: u64, value| Some(sum.saturating_add(value?)))
}

fn syn(table: &Table, row: &TableRow) -> Option<Vec<u64>> {
    let columns =
        ["syn", "synack", "fin_received", "rst_received", "packets_sent", "packets_received", "icmp_errors"];
    columns.iter().map(|name| sum(table, row, &[name])).collect()
}

/// The number of sampled destination ports, and the ports with their numbers of SYNs.
fn ports(row: &TableRow) -> String {
    let host = SynHost::of(row).unwrap_or_default();
    let [to, _] = host.samples;
    let ports = worms::ports(&to);
    let mut text = format!("{}:", ports.len());
    ports.iter().for_each(|(port, count)| _ = write!(text, "{port},{count},"));
    if !ports.is_empty() {
        text.push(':');
    }
    text
}

fn icmp_errors(table: &Table, row: &TableRow) -> Option<Vec<u64>> {
    let unreachable = ["unreachable", "port_unreachable", "prohibited", "too_big"];
    let columns: [&[&str]; 7] =
        [&["errors"], &["tcp"], &["udp"], &["icmp"], &unreachable, &["redirect"], &["time_exceeded"]];
    columns.iter().map(|names| sum(table, row, names)).collect()
}

fn udp_errors(_: &Table, row: &TableRow) -> Option<Vec<u64>> {
    let host = UdpHost::of(row)?;
    Some(vec![host.weight(), host.sent, host.received, host.unreachable, host.pings, 0])
}
