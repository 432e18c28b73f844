//! A report about hosts as NDJSON: a line about the report, then a line for each host with what every list has of it.

use super::gather::{Host, HostsReport, List, Of, Row, Spread, What};
use super::text::{by_count, datum};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::net::IpAddr;
use weir_api::{Datum, SampledValues};
use weir_output::PortSignature;

/// The report. Times are seconds since the epoch.
pub fn ndjson(report: &HostsReport) -> String {
    let mut hosts: BTreeMap<IpAddr, Map<String, Value>> = BTreeMap::new();
    let mut add = |host: IpAddr, of: &str, what: Value| {
        let lists = hosts.entry(host).or_default().entry(of).or_insert_with(|| json!([]));
        if let Value::Array(lists) = lists {
            lists.push(what);
        }
    };
    for list in &report.lists {
        for host in &list.hosts {
            add(host.host, list.of.name(), of_host(report, list, host));
        }
    }
    for (event, of) in &report.events {
        for host in of {
            add(*host, "events", serde_json::to_value(event).unwrap_or_default());
        }
    }
    let mut out = head(report).to_string() + "\n";
    for (host, lists) in hosts {
        let mut line = Map::new();
        line.insert("kind".to_owned(), "host".into());
        line.insert("host".to_owned(), host.to_string().into());
        line.insert("name".to_owned(), report.names.get(&host).cloned().into());
        if !report.wanted.home.nets.is_empty() {
            line.insert("home".to_owned(), report.wanted.home.has(host).into());
        }
        line.extend(lists);
        out += &(Value::Object(line).to_string() + "\n");
    }
    out
}

fn seconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e9
}

fn head(report: &HostsReport) -> Value {
    let (from, to) = report.wanted.span;
    let list = |list: &List| {
        json!({
            "list": list.name, "function": list.of.name(), "hosts": list.host, "unit": list.unit, "cells": list.cells,
            "absent": list.absent,
        })
    };
    json!({
        "kind": "hosts",
        "period": report.wanted.period.name(),
        "from": seconds(from),
        "to": seconds(to),
        "stored": [seconds(report.stored.0), seconds(report.stored.1)],
        "watched": report.watched,
        "lists": report.lists.iter().map(list).collect::<Vec<_>>(),
        "missing": report.missing.iter().map(|of| of.name()).collect::<Vec<_>>(),
        "notes": report.notes,
    })
}

fn spread(spread: &Spread) -> Value {
    json!({ "least": spread.least, "mean": spread.mean(), "greatest": spread.greatest })
}

fn sample(sample: &SampledValues) -> Value {
    by_count(sample).iter().map(|(port, times)| json!([*port as u64, times])).collect()
}

/// A port signature, with what the list of signatures has of it.
fn signature(report: &HostsReport, one: &PortSignature) -> Value {
    match report.signature(one) {
        None => json!({ "ports": one.to_string() }),
        Some((known, is_new)) => json!({
            "ports": known.ports, "new": is_new, "first": seconds(known.first), "last": seconds(known.last), "hosts": known.hosts,
            "intervals": known.intervals, "runs": known.runs,
        }),
    }
}

/// What a list has of a host.
fn of_host(report: &HostsReport, list: &List, host: &Host) -> Value {
    let mut of = Map::new();
    let mut put = |name: &str, value: Value| {
        of.insert(name.to_owned(), value);
    };
    put("list", list.name.clone().into());
    put("instances", host.seen.instances.into());
    put("first", host.seen.span.map(|(first, _)| seconds(first)).into());
    put("last", host.seen.span.map(|(_, last)| seconds(last)).into());
    match &host.what {
        What::Work(work) => {
            let counts = &work.row.counts;
            put("worm", work.is_worm(report.wanted.weight).into());
            put("weight", work.weight().into());
            put("weights", spread(&work.weights));
            put("flags", counts.flags().into());
            put("flags_in", work.flags.iter().map(|(flag, n)| (flag.to_string(), json!(n))).collect());
            put("synack_share", counts.synack_percent().into());
            let [fin, rst, packets] = [counts.fin, counts.rst, counts.packets];
            for (name, value) in [
                ("syn", counts.syn),
                ("synack", counts.synack),
                ("fin_sent", fin[0]),
                ("fin_received", fin[1]),
                ("rst_sent", rst[0]),
                ("rst_received", rst[1]),
                ("packets_sent", packets[0]),
                ("packets_received", packets[1]),
                ("syn_received", counts.syn_received),
                ("icmp_errors", counts.icmp_errors),
                ("targets", work.row.targets.estimate()),
                ("ports", work.row.ports.estimate()),
                ("error", work.error),
            ] {
                put(name, value.into());
            }
            let [to, from] = &work.row.samples;
            put("exact", (work.row.targets.is_exact() && work.row.ports.is_exact()).into());
            put("last_target", work.row.last.map(|(_, target)| target.to_string()).into());
            put("port_sample", sample(to));
            put("source_port_sample", sample(from));
            put("signatures", work.signatures.iter().map(|one| signature(report, one)).collect());
        }
        What::Udp(udp) => {
            put("weight", udp.row.weight().into());
            put("weights", spread(&udp.weights));
            put("classes", json!(udp.classes));
            let columns = weir_api::UDP.columns.iter().map(|column| &column.name);
            for (name, value) in columns.zip(udp.row.values()) {
                put(name, value.weight().into());
            }
            put("error", udp.error.into());
        }
        What::Rows(rows) => put("rows", rows.iter().map(|row| of_row(list.of, row)).collect()),
    }
    Value::Object(of)
}

fn of_row(of: Of, row: &Row) -> Value {
    let part = |part: &Datum| match part {
        Datum::Nothing => Value::Null,
        Datum::Number(number) => (*number).into(),
        part => datum(part).into(),
    };
    let mut line: Map<String, Value> =
        row.key.iter().map(|(name, value)| (name.clone(), part(value))).collect();
    for (name, value, _) in &row.values {
        let is_time = matches!(name.as_str(), "first" | "last");
        line.insert(name.clone(), if is_time { seconds(*value).into() } else { (*value).into() });
    }
    line.insert("error".to_owned(), row.error.into());
    line.insert("exact".to_owned(), row.values.iter().all(|(.., is_exact)| *is_exact).into());
    match of {
        Of::Fanout => line.insert("scan".to_owned(), row.is_scan().into()),
        Of::Flood => line.insert("flooded".to_owned(), row.flooded.into()),
        Of::Irc => {
            line.insert("channel_hosts".to_owned(), row.members.hosts.into());
            line.insert("wormy_hosts".to_owned(), row.members.wormy.into());
            line.insert("evil".to_owned(), row.members.is_evil().into())
        }
        _ => None,
    };
    Value::Object(line)
}
