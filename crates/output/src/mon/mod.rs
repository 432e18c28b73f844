//! mon.lite, the file of Ourmon's probe, rewritten as a whole at each interval.
//!
//! There are two dialects: that of the probe 2.5, which its graphics engine reads, and that of the figures in
//! "Experiments with a network monitor" (Binkley and Massey, 2006, sections 2.2 and 3). They differ only in the lines
//! of the packet counts, of `fixed_cast` and of filter-sets.
//!
//! | line | function |
//! |---|---|
//! | `sysname` | the name of the probe, if it has one |
//! | `pkts` | the ledger |
//! | `fixed_ipproto`, `fixed_tcp3`, `fixed_iprange1`, `fixed_cast`, `fixed_size` | ipproto, tcp3, iprange, cast, size |
//! | `bpf` | the answers of a chart, in the order of the plan; the remainder is the one named `xtra` |
//! | `topn_ip`, `topn_tcp`, `topn_udp`, `topn_icmp` | top by flow, of the subscription of that name |
//! | `tcp_ports`, `udp_ports` | top by port, of `topn_port_tcp` and `topn_port_udp` |
//! | `hs_stat` | number of keys inserted into the first list of flows |
//! | `ircstats` | irc, of `topn_irc`: joins, pings, pongs and messages of all channels, each with a colon after it |
//! | `syn_list`, `icmp_errorlist`, `udperror_list` | syn, icmperror and udp, of `topn_syn`, `topn_icmperror` and `topn_udperror` |
//! | `ip_scan`, `ip_portscan`, `tcp_portscan`, `udp_portscan` | fanout, of `topn_scans` and `topn_port_scans` |
//! | `tworm` | number of hosts in portreport.txt, a further file beside `topn_syn` |
//! | `elog` | triggers that went on and off since the file before, with their number and threshold: [`elog`] |
//!
//! Over files (when existing logs are replaced) it covers the whole run, as the probe with `-r` does; live, the last
//! interval.
//!
//! Ourmon uses colons as separators: in names they become underscores. IPv6 addresses, which Ourmon does not support,
//! are in brackets with dots for colons.

mod elog;
mod hosts;
mod scans;
mod worms;

pub use elog::TriggerThreshold;
pub use worms::{WormCount, WormOrder, Worms};

use crate::replaced::Replaced;
use crate::{Existing, Output, OutputContext, OutputSpec, Takes};
use std::fmt::Write;
use std::io;
use std::net::IpAddr;
use weir_api::{Answer, Class, Event, Key, KeyKind, Reading, Snapshot, Top, Unit};

const FILE: &str = "mon.lite";
/// The port signatures of the list of SYNs, if there is one.
const PORTS: &str = "portreport.txt";
/// The line of a filter-set that counts the packets of no other line.
const REMAINDER: &str = "xtra";

pub(crate) static MON: OutputSpec = OutputSpec {
    name: "mon",
    help: "Ourmon's mon.lite in the format of its probe 2.5.",
    files: &[FILE],
    is_stream: false,
    flows: false,
    events: "elog",
    has: |_| false,
    shows: |_| false,
    takes: Takes::Known,
    open: |context| Ok(Mon::boxed(context, Dialect::Probe)),
};

pub(crate) static MON_PAPER: OutputSpec = OutputSpec {
    name: "mon-paper",
    help: "Ourmon's mon.lite in the format of the paper of 2006.",
    files: &[FILE],
    is_stream: false,
    flows: false,
    events: "elog",
    has: |_| false,
    shows: |_| false,
    takes: Takes::Known,
    open: |context| Ok(Mon::boxed(context, Dialect::Paper)),
};

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Dialect {
    Probe,
    Paper,
}

struct Mon {
    file: Replaced,
    ports: Replaced,
    dialect: Dialect,
    /// The line with the name of the probe; empty without one.
    head: String,
    restarted: bool,
    /// Totals of earlier intervals, if the whole run is reported.
    before: Option<Snapshot>,
    worms: Worms,
    triggers: Vec<TriggerThreshold>,
    /// Those of the next file, and with `before` of the whole run.
    texts: elog::Texts,
}

impl Mon {
    fn boxed(context: &OutputContext, dialect: Dialect) -> Box<dyn Output> {
        let before = (context.existing == Existing::Replace).then(Snapshot::default);
        let [file, ports] = [FILE, PORTS].map(|name| Replaced::new(context, name));
        // The figures of the paper have no such line.
        let head = match (context.sysname.as_str(), dialect) {
            ("", _) | (_, Dialect::Paper) => String::new(),
            (name, Dialect::Probe) => format!("sysname: {}\n", plain(name)),
        };
        let (worms, triggers) = (context.worms.clone(), context.triggers.clone());
        let texts = elog::Texts::default();
        Box::new(Self { file, ports, dialect, head, restarted: true, before, worms, triggers, texts })
    }
}

impl Output for Mon {
    fn interval(&mut self, snapshot: &Snapshot) -> io::Result<()> {
        let (snapshot, is_first) = match &mut self.before {
            Some(before) => {
                before.merge(snapshot);
                (&*before, true)
            }
            None => (snapshot, self.restarted),
        };
        self.file.interval(|| {
            self.head.clone() + &mon_lite(snapshot, self.dialect, &self.worms, is_first) + &self.texts.lines()
        })?;
        if let Some(table) = snapshot.answers.iter().find_map(worms::list) {
            self.ports.interval(|| worms::report(table, &self.worms))?;
        }
        self.restarted = false;
        if self.before.is_none() {
            self.texts.clear();
        }
        Ok(())
    }

    fn event(&mut self, event: &Event) -> io::Result<()> {
        self.texts.add(event, &self.triggers);
        Ok(())
    }

    fn finish(&mut self) -> io::Result<()> {
        let Some(whole) = &self.before else { return Ok(()) };
        self.file.finish(|| {
            self.head.clone() + &mon_lite(whole, self.dialect, &self.worms, true) + &self.texts.lines()
        })?;
        match whole.answers.iter().find_map(worms::list) {
            Some(table) => self.ports.finish(|| worms::report(table, &self.worms)),
            None => Ok(()),
        }
    }
}

fn mon_lite(snapshot: &Snapshot, dialect: Dialect, worms: &Worms, restarted: bool) -> String {
    let mut lines = Vec::new();
    let (caught, drops) = (snapshot.ledger.caught, snapshot.ledger.capture.dropped);
    match dialect {
        Dialect::Probe => {
            if restarted {
                lines.push("elog: ourmon restarted".to_owned());
            }
            // All interfaces are one stream.
            lines.push(format!("pkts: caught:{caught} : drops:{drops}: caught2:0 : drop2:0"));
        }
        Dialect::Paper => lines.push(format!("pkts: caught {caught} drops: {drops}")),
    }
    let fixed = ["ipproto", "tcp3", "iprange", "cast", "size"];
    let in_no_chart = || snapshot.answers.iter().filter(|answer| answer.label.chart.is_none());
    for function in fixed {
        let answer = in_no_chart().find(|answer| answer.label.function == function);
        if let Some(Reading::Classes { unit, classes }) = answer.map(|answer| &answer.reading) {
            lines.push(fixed_line(function, *unit, classes, dialect));
        }
    }
    lines.extend(charts(snapshot).iter().map(|(chart, answers)| filter_set(chart, answers, dialect)));
    let flow_lists: Vec<(&str, &Top)> = in_no_chart().filter_map(flow_list).collect();
    lines.extend(flow_lists.iter().map(|(name, top)| flows_line(name, top)));
    if let Some((_, top)) = flow_lists.first() {
        lines.push(format!("hs_stat: 0: 0: 0: 0: 0: 0: {}: {}:", top.inserts, top.rows.len()));
    }
    lines.extend(in_no_chart().find_map(irc_line));
    lines.extend(in_no_chart().filter_map(|answer| {
        match (&answer.reading, answer.label.subscription.as_str()) {
            (Reading::Top(top), "topn_port_tcp") if top.key == KeyKind::Port => {
                Some(ports_line("tcp_ports", top, 6))
            }
            (Reading::Top(top), "topn_port_udp") if top.key == KeyKind::Port => {
                Some(ports_line("udp_ports", top, 17))
            }
            _ => None,
        }
    }));
    lines.extend(in_no_chart().filter_map(|answer| hosts::line(answer, worms.order)));
    lines.extend(in_no_chart().flat_map(scans::lines));
    lines.extend(in_no_chart().find_map(worms::list).map(|table| worms::line(table, worms)));
    lines.iter().fold(String::new(), |all, line| all + line + "\n")
}

fn fixed_line(function: &str, unit: Unit, classes: &[Class], dialect: Dialect) -> String {
    let name = if function == "iprange" { "iprange1" } else { function };
    let parts = classes.iter().map(|class| (class.label.as_str(), class.count.in_unit(unit)));
    match (function, dialect) {
        // The figure has full words, and no fourth class.
        ("cast", Dialect::Paper) => {
            let words: Vec<String> = parts
                .filter(|(label, _)| *label != REMAINDER)
                .map(|(label, n)| format!("{}: {n}:", if label == "ucast" { "unicast" } else { label }))
                .collect();
            format!("fixed_cast: {}", words.join(" "))
        }
        _ => {
            let parts: Vec<String> = parts.map(|(label, n)| format!("{}:{n}", plain(label))).collect();
            format!("fixed_{name}: {}:", parts.join(" : "))
        }
    }
}

/// The answers of each chart, in the order of the plan.
fn charts(snapshot: &Snapshot) -> Vec<(&str, Vec<&Answer>)> {
    let mut charts: Vec<(&str, Vec<&Answer>)> = Vec::new();
    for answer in &snapshot.answers {
        let Some(chart) = answer.label.chart.as_deref() else { continue };
        match charts.iter_mut().find(|(name, _)| *name == chart) {
            Some((_, answers)) => answers.push(answer),
            None => charts.push((chart, vec![answer])),
        }
    }
    charts
}

/// Graph, flag (1 counts packets, 0 bytes), lines, their counts, remainder.
fn filter_set(chart: &str, answers: &[&Answer], dialect: Dialect) -> String {
    let in_packets = answers.first().is_some_and(|answer| answer.label.function == "packets");
    let unit = if in_packets { Unit::Packets } else { Unit::Bytes };
    let count = |answer: &Answer| match &answer.reading {
        Reading::Count(count) => Some(count.in_unit(unit)),
        _ => None,
    };
    let mut lines: Vec<(&str, u64)> = Vec::new();
    let mut left_over = 0;
    for answer in answers {
        match count(answer) {
            Some(n) if answer.label.subscription == REMAINDER => left_over = n,
            Some(n) => lines.push((&answer.label.subscription, n)),
            None => {}
        }
    }
    let mut text = match dialect {
        Dialect::Probe => format!("bpf:{}:{}:{}:", plain(chart), u8::from(in_packets), lines.len()),
        Dialect::Paper => format!("bpf:{}:{}:", plain(chart), lines.len()),
    };
    let counts: Vec<String> = lines.iter().map(|(name, n)| format!("{}:{n}", plain(name))).collect();
    text.push_str(&counts.join(":"));
    if dialect == Dialect::Probe {
        let separator = if lines.is_empty() { "" } else { ":" };
        let _ = write!(text, "{separator}{REMAINDER}:{left_over}");
    }
    text
}

/// A list of flows, and Ourmon's name for it.
fn flow_list(answer: &Answer) -> Option<(&str, &Top)> {
    match &answer.reading {
        Reading::Top(top) if top.key == KeyKind::Flow => {
            let known = ["topn_ip", "topn_tcp", "topn_udp", "topn_icmp"];
            known
                .contains(&answer.label.subscription.as_str())
                .then_some((answer.label.subscription.as_str(), top))
        }
        _ => None,
    }
}

fn flows_line(name: &str, top: &Top) -> String {
    let mut text = format!("{name} : {} : ", top.rows.len());
    for row in top.ranked() {
        let Key::Flow { source, source_port, destination, destination_port, protocol } = row.key else {
            continue;
        };
        let _ = write!(text, "{}->{}", end(source, source_port), end(destination, destination_port));
        if name == "topn_ip" {
            let _ = write!(text, "({})", crate::ports::protocol(protocol));
        }
        let _ = write!(text, ": {} : ", row.count.bytes);
    }
    text.trim_end().to_owned()
}

/// The messages of the channels of IRC. A ping of a connection counts in each of its channels.
fn irc_line(answer: &Answer) -> Option<String> {
    let Reading::Table(table) = &answer.reading else { return None };
    if (answer.label.subscription.as_str(), answer.label.function.as_str()) != ("topn_irc", "irc") {
        return None;
    }
    let mut text = "ircstats:".to_owned();
    for column in ["joins", "pings", "pongs", "messages"] {
        let mut counts = table.rows.iter().map(|row| hosts::sum(table, row, &[column]));
        let count = counts.try_fold(0_u64, |sum, count| Some(sum.saturating_add(count?)))?;
        let _ = write!(text, " {count}:");
    }
    Some(text)
}

/// `a.b.c.d.port`.
fn end(address: IpAddr, port: u16) -> String {
    format!("{}.{port}", host(address))
}

/// An address without separators.
fn host(address: IpAddr) -> String {
    match address {
        IpAddr::V4(v4) => v4.to_string(),
        IpAddr::V6(v6) => format!("[{}]", v6.to_string().replace(':', ".")),
    }
}

/// Bytes, port, packets from it, packets to it. A packet counts for both of its ports, so that the two directions are
/// not distinguished: the first number holds all packets.
fn ports_line(name: &str, top: &Top, protocol: u8) -> String {
    let mut text = format!("{name}: {}:", top.rows.len());
    for row in top.ranked() {
        if let Key::Port { protocol: of, port } = row.key
            && of == protocol
        {
            let _ = write!(text, " {},{port},{},0:", row.count.bytes, row.count.packets);
        }
    }
    text
}

/// A name without separators and characters that would disturb a line.
fn plain(name: &str) -> String {
    crate::figures::printable(name).replace(':', "_")
}

#[cfg(test)]
mod tests;
