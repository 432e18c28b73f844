//! Trials of a rule, in words and as JSON.

use super::files::{Read, text_of, variables};
use crate::cli::RuleOptions;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::net::IpAddr;
use weir_detect::{HeaderPart, Lists, LoadedRule, MatchedIn, Trial, TrialEnd, TrialFlow, Trials, Written};
use weir_output::figures::{count, counted, printable};
use weir_wire::Direction;

/// Maximum number of lines about trials.
const MAX_LINES: usize = 500;

/// The rule that was tried.
pub struct Asked<'r> {
    loaded: &'r LoadedRule,
    /// Its options; empty if its file has changed since it was read.
    written: Written,
    packets: u64,
}

impl<'r> Asked<'r> {
    /// A rule that was tried on a number of packets.
    pub fn new(loaded: &'r LoadedRule, read: &Read, options: &RuleOptions, packets: u64) -> Self {
        Self { loaded, written: written(loaded, read, options).unwrap_or_default(), packets }
    }

    /// How a trial ended, in words.
    fn words(&self, end: TrialEnd) -> String {
        let rule = &self.loaded.rule;
        let buffer = |at: u16| rule.buffers.get(usize::from(at)).map_or("a buffer", |of| of.buffer.name);
        let or = |text: Option<&str>, what: &str| match text {
            Some(text) => format!("`{}` does not hold", printable(text)),
            None => format!("{what} does not hold"),
        };
        match end {
            TrialEnd::Header(part) => match part {
                HeaderPart::Protocol => "another protocol than that of the header",
                HeaderPart::Addresses => "other addresses than those of the header",
                HeaderPart::Ports => "other ports than those of the header",
            }
            .to_owned(),
            TrialEnd::Protocol => format!("the flow is not {}, or not yet", rule.header.protocol.name),
            TrialEnd::Established => match rule.flow.is_established {
                Some(true) => "the flow is not established (`flow`)",
                _ => "the flow is established (`flow`)",
            }
            .to_owned(),
            TrialEnd::Passed => "a rule with `pass` lets it pass".to_owned(),
            TrialEnd::Done => "the rule has matched in this flow, and does so once".to_owned(),
            TrialEnd::Missing(at) => format!("{} is not there", buffer(at)),
            TrialEnd::Test { buffer: at, test, gave_up } => {
                let text = self.written.test(usize::from(at), usize::from(test));
                let what = or(text.as_deref(), &format!("test {} of the buffer", test + 1));
                let limit = if gave_up { " (given up after the limit of steps)" } else { "" };
                format!("{}: {what}{limit}", buffer(at))
            }
            TrialEnd::FoundBefore => "found with the bytes before".to_owned(),
            TrialEnd::LaterWindow => {
                "a place at the beginning of the stream is asked for, and these bytes are from later"
                    .to_owned()
            }
            TrialEnd::Waits => "holds; other parts of the rule do not yet".to_owned(),
            TrialEnd::Condition(at) => or(self.written.condition(usize::from(at)), "a condition"),
            TrialEnd::FlowBits(at) => or(self.written.flow_bits(usize::from(at)), "`flowbits`"),
            TrialEnd::FlowInts(at) => or(self.written.flow_ints(usize::from(at)), "`flowint`"),
            TrialEnd::Fragments => "`no_frag` or `only_frag` does not hold (`flow`)".to_owned(),
            TrialEnd::HostBits => "`xbits` or `hostbits` do not hold".to_owned(),
            TrialEnd::NoRoom => "the flow has no room to remember a match".to_owned(),
            TrialEnd::Silent => "matches, without an alert (`noalert`)".to_owned(),
            TrialEnd::Passes => "matches, and lets it pass".to_owned(),
            TrialEnd::Limited => {
                "matches; a threshold, a suppression or its packet keeps back the alert".to_owned()
            }
            TrialEnd::Alert => "alert".to_owned(),
        }
    }
}

/// The options of a rule, as its file has them.
fn written(loaded: &LoadedRule, read: &Read, options: &RuleOptions) -> Option<Written> {
    let origin = &loaded.origin;
    let text = text_of(origin)?;
    let mut lists = Lists::new(variables(&options.rule_var).ok()?);
    Written::of(&text, &origin.file, &mut lists, &read.beside)
}

/// The name of an end in JSON.
fn name(end: TrialEnd) -> &'static str {
    match end {
        TrialEnd::Header(_) => "header",
        TrialEnd::Protocol => "protocol",
        TrialEnd::Established => "established",
        TrialEnd::Passed => "passed",
        TrialEnd::Done => "done",
        TrialEnd::Missing(_) => "missing",
        TrialEnd::Test { gave_up: false, .. } => "test",
        TrialEnd::Test { gave_up: true, .. } => "gave_up",
        TrialEnd::FoundBefore => "found_before",
        TrialEnd::LaterWindow => "later_window",
        TrialEnd::Waits => "waits",
        TrialEnd::Condition(_) => "condition",
        TrialEnd::FlowBits(_) => "flowbits",
        TrialEnd::FlowInts(_) => "flowint",
        TrialEnd::Fragments => "fragments",
        TrialEnd::HostBits => "hostbits",
        TrialEnd::NoRoom => "no_room",
        TrialEnd::Silent => "silent",
        TrialEnd::Passes => "pass",
        TrialEnd::Limited => "limited",
        TrialEnd::Alert => "alert",
    }
}

fn end_text((address, port): (IpAddr, u16), ip_proto: u8) -> String {
    match (ip_proto, address) {
        (6 | 17 | 132, IpAddr::V6(_)) => format!("[{address}]:{port}"),
        (6 | 17 | 132, _) => format!("{address}:{port}"),
        _ => address.to_string(),
    }
}

fn flow_text(flow: &TrialFlow) -> String {
    let protocol = match flow.ip_proto {
        1 | 58 => "icmp".to_owned(),
        6 => "tcp".to_owned(),
        17 => "udp".to_owned(),
        132 => "sctp".to_owned(),
        other => format!("protocol {other}"),
    };
    let [from, to] = [flow.initiator, flow.responder].map(|end| end_text(end, flow.ip_proto));
    format!("{protocol} {from} > {to}")
}

fn side(direction: Direction) -> &'static str {
    match direction {
        Direction::Forward => "client",
        Direction::Reverse => "server",
    }
}

/// Where a trial was made, without the packet.
fn place(trial: &Trial) -> String {
    let from = side(trial.side);
    match (trial.looked_at, trial.transaction) {
        (MatchedIn::Packet, _) => format!("from the {from}"),
        (MatchedIn::Stream, _) => format!("stream of the {from}"),
        (MatchedIn::Transaction, Some(number)) => format!("transaction {number}, {from}"),
        (MatchedIn::Transaction, None) => format!("message of the {from}"),
    }
}

/// Trials of a flow that follow each other and ended alike in one kind of place.
struct Line {
    trial: Trial,
    last: Option<u32>,
    times: u64,
}

/// The trials by flow, in the order in which flows were met.
fn by_flow(trials: &Trials) -> Vec<(TrialFlow, Vec<Line>)> {
    let mut flows: Vec<(TrialFlow, Vec<Line>)> = Vec::new();
    let mut places = std::collections::HashMap::new();
    for trial in &trials.trials {
        let at = *places.entry(trial.flow).or_insert_with(|| {
            flows.push((trial.flow, Vec::new()));
            flows.len() - 1
        });
        let Some((_, lines)) = flows.get_mut(at) else { continue };
        let is_alike = |line: &&mut Line| line.trial.end == trial.end && place(&line.trial) == place(trial);
        match lines.last_mut().filter(is_alike) {
            Some(line) => (line.last, line.times) = (trial.packet, line.times + 1),
            None => lines.push(Line { trial: *trial, last: trial.packet, times: 1 }),
        }
    }
    flows
}

fn packets(line: &Line) -> String {
    let number = |packet: u32| count(packet.into());
    match (line.trial.packet, line.last) {
        (None, _) => "end of the flow".to_owned(),
        (Some(first), Some(last)) if first != last => {
            format!("packets {} to {} ({} times)", number(first), number(last), count(line.times))
        }
        (Some(first), _) if line.times > 1 => {
            format!("packet {} ({} times)", number(first), count(line.times))
        }
        (Some(first), _) => format!("packet {}", number(first)),
    }
}

/// The trials in words: by flow, then how many ended in each way.
pub fn in_words(asked: &Asked<'_>, trials: &Trials) -> String {
    let (rule, origin) = (&asked.loaded.rule, &asked.loaded.origin);
    let (gid, sid, rev) = (rule.gid, rule.sid, rule.rev);
    let message = printable(&rule.message);
    let mut out = format!("{gid}:{sid}:{rev}  {message}\n{}:{}\n\n", origin.file, origin.line);
    let flows = by_flow(trials);
    // Why headers do not fit is summed up below.
    let is_shown = |(_, lines): &&(TrialFlow, Vec<Line>)| {
        lines.iter().any(|line| !matches!(line.trial.end, TrialEnd::Header(_)))
    };
    let mut left = MAX_LINES;
    for (flow, lines) in flows.iter().filter(is_shown) {
        if left == 0 {
            break;
        }
        let _ = writeln!(out, "{}", flow_text(flow));
        for line in lines.iter().take(left) {
            let Line { trial, .. } = line;
            let words = asked.words(trial.end);
            let _ = writeln!(out, "  {}, {}: {words}", packets(line), place(trial));
        }
        left = left.saturating_sub(lines.len() + 1);
    }
    let lines: usize = flows.iter().filter(is_shown).map(|(_, lines)| lines.len() + 1).sum();
    if lines > MAX_LINES {
        let _ = writeln!(out, "and {} lines more: --json has all", count((lines - MAX_LINES) as u64));
    }
    if lines > 0 {
        out.push('\n');
    }
    let (tried, fitting) = (flows.iter().filter(is_shown).count(), trials.fitting.len());
    let _ = writeln!(
        out,
        "{}: the header fits {}, of which {} had what the rule looks at",
        counted(asked.packets, "packet"),
        counted(fitting as u64, "flow"),
        count(tried as u64),
    );
    let mut ends: BTreeMap<TrialEnd, u64> = BTreeMap::new();
    trials.trials.iter().for_each(|trial| *ends.entry(trial.end).or_default() += 1);
    for (end, times) in &ends {
        let unit = if matches!(end, TrialEnd::Header(_)) { "flow" } else { "trial" };
        let _ = writeln!(out, "  {:>16}  {}", counted(*times, unit), asked.words(*end));
    }
    if trials.not_kept > 0 {
        let _ = writeln!(out, "  {:>9}  not kept", count(trials.not_kept));
    }
    out
}

/// The trials as an object.
pub fn object(asked: &Asked<'_>, trials: &Trials) -> Value {
    let rule = &asked.loaded.rule;
    let row = |trial: &Trial| {
        let flow = &trial.flow;
        json!({
            "packet": trial.packet,
            "time": weir_output::zone::rfc3339(trial.time.0),
            "ip_proto": flow.ip_proto,
            "initiator": end_text(flow.initiator, flow.ip_proto),
            "responder": end_text(flow.responder, flow.ip_proto),
            "side": side(trial.side),
            "transaction": trial.transaction,
            "end": name(trial.end),
            "text": asked.words(trial.end),
        })
    };
    json!({
        "gid": rule.gid,
        "sid": rule.sid,
        "rev": rule.rev,
        "message": &*rule.message,
        "packets": asked.packets,
        "fitting_flows": trials.fitting.len(),
        "trials": trials.trials.iter().map(row).collect::<Vec<_>>(),
        "not_kept": trials.not_kept,
    })
}
