//! The lines of lists of hosts: their number, and of each host its address and numbers, all followed by a colon.
//!
//! | line | of each host |
//! |---|---|
//! | `syn_list` | SYNs sent, SYNs with ACK sent, FINs received, RSTs received, TCP packets sent, TCP packets received, ICMP errors drawn, ports |
//! | `icmp_errorlist` | errors drawn; those that quote TCP, UDP and ICMP; unreachable, redirect, time exceeded |
//! | `udperror_list` | weight, UDP packets sent, received; errors that quote UDP with an unreachable destination, errors that quote ICMP; ports |
//!
//! Ourmon gives samples of destination ports at the end of two lines, after their number. The lists here have none, so that
//! their number is 0. Its documents do not say what exactly it counts as pings; here they are errors about pings.

use super::host;
use std::fmt::Write;
use weir_api::{Answer, Datum, Reading, Table, TableRow, UdpHost};

/// The numbers of a host, of a row of a table; `None` if a column is missing, as in a table of an older version.
type Numbers = fn(&Table, &TableRow) -> Option<Vec<u64>>;

/// The line of a list of hosts; `None` if the answer is no such list.
pub(super) fn line(answer: &Answer) -> Option<String> {
    let Reading::Table(table) = &answer.reading else { return None };
    let of = (answer.label.subscription.as_str(), answer.label.function.as_str());
    let (name, numbers): (&str, Numbers) = match of {
        ("topn_syn", "syn") => ("syn_list", syn),
        ("topn_icmperror", "icmperror") => ("icmp_errorlist", icmp_errors),
        ("topn_udperror", "udp") => ("udperror_list", udp_errors),
        _ => return None,
    };
    let hosts = table.shown().into_iter().filter_map(|row| {
        let [Datum::Address(address)] = row.key[..] else { return None };
        let mut text = format!(" {}:", host(address));
        for number in numbers(table, row)? {
            let _ = write!(text, "{number}:");
        }
        Some(text)
    });
    let hosts: Vec<String> = hosts.collect();
    Some(format!("{name}: {} :{}", hosts.len(), hosts.concat()))
}

/// The sum of the columns of a row; `None` if one is missing.
fn sum(table: &Table, row: &TableRow, columns: &[&str]) -> Option<u64> {
    let value = |name: &&str| {
        let at = table.schema.columns.iter().position(|column| column.name == *name)?;
        row.values.get(at).map(|value| value.weight())
    };
    columns.iter().map(value).try_fold(0, |sum: u64, value| Some(sum.saturating_add(value?)))
}

fn syn(table: &Table, row: &TableRow) -> Option<Vec<u64>> {
    let columns =
        ["syn", "synack", "fin_received", "rst_received", "packets_sent", "packets_received", "icmp_errors"];
    let numbers = columns.iter().map(|name| sum(table, row, &[name]));
    numbers.chain([Some(0)]).collect()
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
