//! `weir config from-ourmon`: translates an ourmon.conf to a weir.toml.
//!
//! The grammar is that of Ourmon 2.5 and of the examples in "Experiments with a network monitor" (Binkley and Massey,
//! 2006): one tag per line, `#` in the first column begins a comment, arguments may be quoted, and a quoted argument
//! may span several lines or begin on the next.

use super::fault::{nearest, printable};
use super::read::{toml_string, wrong_name};
use super::{Chart, Line, Outcome, XTRA, counted, functions::written, known::Known, read_text};
use std::collections::HashSet;
use std::fmt::Write;
use std::net::Ipv4Addr;
use std::path::Path;
use weir_api::{FunctionCall, Level, SubscriptionSpec, Unit};

/// `weir config from-ourmon FILE`.
pub fn from_ourmon(path: &Path) -> Outcome {
    match read_text(path) {
        Ok(text) => translate(&path.to_string_lossy(), &text),
        Err(stderr) => Outcome::failed(stderr),
    }
}

/// A tag and its arguments.
struct Statement {
    line: usize,
    tag: String,
    arguments: Vec<String>,
}

impl Statement {
    /// The arguments, if their number is right.
    fn exactly<const N: usize>(&self, wanted: &str) -> Result<[&str; N], String> {
        let arguments: Vec<&str> = self.arguments.iter().map(String::as_str).collect();
        <[&str; N]>::try_from(arguments).map_err(|got| {
            let got = counted(got.len(), "argument");
            format!("{} takes {wanted}, not {got}", self.tag)
        })
    }
}

impl std::fmt::Display for Statement {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.tag)?;
        for argument in &self.arguments {
            if argument.is_empty() || argument.contains(' ') {
                write!(f, " {argument:?}")
            } else {
                write!(f, " {argument}")
            }?;
        }
        Ok(())
    }
}

/// A tag of ourmon.conf and its translation.
struct Tag {
    name: &'static str,
    translate: fn(&mut Translation, &Statement) -> Result<(), String>,
}

/// Every tag, `-` written as `_`.
static TAGS: [Tag; 34] = [
    Tag { name: "pkts", translate: |_, _| Ok(()) },
    Tag { name: "fixed_ipproto", translate: |t, _| t.fixed(FunctionCall::new("ipproto")) },
    Tag { name: "fixed_tcp3", translate: tcp3 },
    Tag { name: "fixed_iprange", translate: iprange },
    Tag { name: "fixed_iprange1", translate: iprange },
    // Address and mask are for interfaces without Ethernet addresses, which Weir does not need: a packet has its link
    // type.
    Tag { name: "fixed_cast", translate: |t, _| t.fixed(FunctionCall::new("cast")) },
    Tag { name: "fixed_size", translate: |t, _| t.fixed(FunctionCall::new("size")) },
    Tag { name: "bpf", translate: bpf },
    Tag { name: "bpf_next", translate: bpf_next },
    Tag { name: "bpf_noxtra", translate: |t, _| t.current().map(|set| set.xtra = false) },
    Tag { name: "bpf_packets", translate: |t, _| t.count_in(Unit::Packets) },
    Tag { name: "bpf_bytes", translate: |t, _| t.count_in(Unit::Bytes) },
    Tag { name: "cbpf", translate: cbpf },
    Tag { name: "cbpf_next", translate: cbpf_next },
    Tag { name: "topn_ip", translate: |t, s| t.lists(s, "flow", &["ip", "tcp", "udp", "icmp"]) },
    Tag { name: "topn_port", translate: |t, s| t.lists(s, "port", &["tcp", "udp"]) },
    Tag { name: "sysname", translate: probe_name },
    Tag { name: "topn_syn", translate: |t, s| t.list(s, FunctionCall::new("syn")) },
    // The report is beside mon.lite.
    Tag { name: "topn_syn_wormfile", translate: |_, _| Ok(()) },
    Tag { name: "topn_syn_homeip", translate: home },
    Tag {
        name: "topn_syn_sort",
        translate: |t, s| {
            let [order] = s.exactly("0 or 1")?;
            let order = match order {
                "0" => "\"weight\"",
                "1" => "\"syn\"",
                _ => return Err(format!("{} takes 0 or 1", s.tag)),
            };
            t.set("syn_order", s, order.to_owned())
        },
    },
    Tag { name: "topn_syn_wormdiff", translate: |t, s| t.set_number("worm_difference", s, 1_000_000) },
    Tag { name: "tworm_weight", translate: |t, s| t.set_number("worm_weight", s, 100) },
    Tag { name: "topn_icmperror", translate: icmp_errors },
    Tag { name: "topn_udperror", translate: |t, s| t.udp_errors(s, false) },
    Tag { name: "topn_scans", translate: |t, s| t.fanout(s, "addresses") },
    Tag { name: "topn_port_scans", translate: |t, s| t.fanout(s, "ports") },
    Tag { name: "topn_irc", translate: channels },
    Tag { name: "trigger_topn_ip", translate: flow_count },
    Tag { name: "trigger_worm", translate: worm_count },
    Tag { name: "trigger_udpweight", translate: udp_weight },
    Tag { name: "trigger_drops", translate: drops },
    Tag { name: "drop_trigger", translate: drops },
    Tag { name: "dns_include", translate: watch },
];

/// The weir.toml under construction.
#[derive(Default)]
struct Translation {
    fixed: Vec<FunctionCall>,
    subscriptions: Vec<SubscriptionSpec>,
    charts: Vec<Chart>,
    /// The home networks, and the settings of `[mon]`, as text.
    home: Vec<String>,
    mon: Vec<(&'static str, String)>,
    /// Tables of triggers, as text.
    triggers: Vec<String>,
    /// The names of the charts, and of the lines of the last one.
    sets: HashSet<String>,
    names: HashSet<String>,
    known: Known,
    unit: Unit,
    /// Whether the list of errors of UDP is there for another tag than its own.
    implies_udp: bool,
    /// Whether a chart is left out, because its first line has an error.
    skipping: bool,
    /// Lines to be kept as comments.
    comments: Vec<String>,
    /// Notes about the file, with lines.
    notes: Vec<(usize, String)>,
    wrong: usize,
}

/// The weir.toml, and notes about tags that have no translation.
fn translate(path: &str, text: &str) -> Outcome {
    let path = &printable(path);
    let mut translation = Translation::default();
    for statement in statements(text) {
        match statement {
            Ok(statement) => translation.take(&statement),
            Err((line, message)) => translation.fault(line, message),
        }
    }
    let mut stderr = String::new();
    for (line, note) in &translation.notes {
        let _ = writeln!(stderr, "{path}:{line}: {}", printable(note));
    }
    Outcome { stdout: translation.toml(path), stderr, exit: u8::from(translation.wrong > 0) }
}

/// Splits a file into statements; an unclosed quote is an error with the line of its start.
fn statements(text: &str) -> Vec<Result<Statement, (usize, String)>> {
    let mut found: Vec<Result<Statement, (usize, String)>> = Vec::new();
    let mut open: Option<(usize, String)> = None;
    for (index, line) in text.lines().enumerate() {
        let number = index + 1;
        if open.is_none() && line.starts_with('#') {
            continue;
        }
        // The first word of a line is a tag, unless it is quoted: then it continues the previous statement.
        let mut word = String::new();
        let mut wants_tag = open.is_none() && !line.trim_start().starts_with('"');
        let mut end_word = |word: &mut String, wants_tag: &mut bool, quoted: bool| {
            if word.is_empty() && !quoted {
                return;
            }
            let word = std::mem::take(word);
            if std::mem::take(wants_tag) {
                found.push(Ok(Statement { line: number, tag: word, arguments: Vec::new() }));
            } else if let Some(Ok(statement)) = found.last_mut() {
                statement.arguments.push(word.split_whitespace().collect::<Vec<_>>().join(" "));
            } else {
                found.push(Err((number, "an argument without a tag".to_owned())));
            }
        };
        for c in line.chars() {
            match (&mut open, c) {
                (Some((_, quoted)), '"') => {
                    end_word(quoted, &mut wants_tag, true);
                    open = None;
                }
                (Some((_, quoted)), c) => quoted.push(c),
                (None, '"') => {
                    end_word(&mut word, &mut wants_tag, false);
                    open = Some((number, String::new()));
                }
                (None, c) if c.is_whitespace() => end_word(&mut word, &mut wants_tag, false),
                (None, c) => word.push(c),
            }
        }
        end_word(&mut word, &mut wants_tag, false);
        if let Some((_, quoted)) = &mut open {
            quoted.push(' ');
        }
    }
    if let Some((line, _)) = open {
        found.push(Err((line, "the quote that opens here is never closed".to_owned())));
    }
    found
}

impl Translation {
    fn take(&mut self, statement: &Statement) {
        let name = statement.tag.replace('-', "_");
        let Some(tag) = TAGS.iter().find(|tag| tag.name == name) else {
            let meant = nearest(&name, TAGS.iter().map(|tag| tag.name));
            let meant = meant.map(|name| format!("; did you mean {name:?}?")).unwrap_or_default();
            self.fault(statement.line, format!("unknown tag {:?}{meant}", statement.tag));
            self.comment("unknown", statement);
            return;
        };
        if let Err(message) = (tag.translate)(self, statement) {
            self.fault(statement.line, message);
            self.comment("wrong", statement);
        }
    }

    fn fault(&mut self, line: usize, message: String) {
        self.notes.push((line, message));
        self.wrong += 1;
    }

    fn comment(&mut self, what: &str, statement: &Statement) {
        self.comments.push(printable(&format!("# {what}: {statement} (line {})", statement.line)));
    }

    fn fixed(&mut self, call: FunctionCall) -> Result<(), String> {
        if self.fixed.contains(&call) {
            return Err(format!("{} was given before", call.name));
        }
        self.fixed.push(call);
        Ok(())
    }

    fn count_in(&mut self, unit: Unit) -> Result<(), String> {
        self.unit = unit;
        Ok(())
    }

    /// Top lists: one for all protocols and one for each, as Ourmon prints them.
    fn lists(&mut self, statement: &Statement, by: &str, protocols: &[&str]) -> Result<(), String> {
        let show = shown(statement)?;
        for protocol in protocols {
            let name =
                if by == "port" { format!("topn_port_{protocol}") } else { format!("topn_{protocol}") };
            let call = FunctionCall::new("top").with("by", by).with("show", show);
            // Every flow has addresses: the list for all protocols needs no expression.
            let expression = if *protocol == "ip" { "" } else { protocol };
            self.add_list(statement, &name, expression, call)?;
        }
        Ok(())
    }

    /// Adds a list that a function of its own makes, of all packets.
    fn list(&mut self, statement: &Statement, call: FunctionCall) -> Result<(), String> {
        let call = call.with("show", shown(statement)?);
        self.add_list(statement, &statement.tag, "", call)
    }

    /// Adds the list of hosts by errors of UDP. One that a tag `is_implied` by makes way for that of its own tag.
    fn udp_errors(&mut self, statement: &Statement, is_implied: bool) -> Result<(), String> {
        const NAME: &str = "topn_udperror";
        let call = FunctionCall::new("udp").with("show", shown(statement)?);
        let known = self.subscriptions.iter_mut().find(|subscription| subscription.name == NAME);
        let was_implied = std::mem::replace(&mut self.implies_udp, is_implied);
        match known {
            None => self.add_list(statement, NAME, "", call),
            Some(_) if is_implied => {
                self.implies_udp = was_implied;
                Ok(())
            }
            Some(known) if was_implied => {
                known.functions = vec![call];
                Ok(())
            }
            Some(_) => Err(format!("{} was given before", statement.tag)),
        }
    }

    /// Adds a list of hosts by what they try to reach, which are flows.
    fn fanout(&mut self, statement: &Statement, by: &str) -> Result<(), String> {
        self.list(statement, FunctionCall::new("fanout").with("by", by))?;
        if let Some(list) = self.subscriptions.last_mut() {
            list.level = Level::Flow;
        }
        Ok(())
    }

    fn add_list(
        &mut self,
        statement: &Statement,
        name: &str,
        expression: &str,
        call: FunctionCall,
    ) -> Result<(), String> {
        if self.subscriptions.iter().any(|subscription| subscription.name == name) {
            return Err(format!("{} was given before", statement.tag));
        }
        self.subscriptions.push(SubscriptionSpec::new(name, expression, vec![call]));
        Ok(())
    }

    /// The chart that lines are added to.
    fn current(&mut self) -> Result<&mut Chart, String> {
        if self.skipping {
            return Err("its set is left out".to_owned());
        }
        self.charts.last_mut().ok_or_else(|| "no bpf before it".to_owned())
    }

    /// Sets a key of `[mon]`, once.
    fn set(&mut self, key: &'static str, statement: &Statement, value: String) -> Result<(), String> {
        if self.mon.iter().any(|(known, _)| *known == key) {
            return Err(format!("{} was given before", statement.tag));
        }
        self.mon.push((key, value));
        Ok(())
    }

    /// Sets a key of `[mon]` to a number.
    fn set_number(&mut self, key: &'static str, statement: &Statement, most: u64) -> Result<(), String> {
        let [number] = statement.exactly("a number")?;
        let number = number.parse().ok().filter(|number: &u64| *number <= most);
        let number = number.ok_or_else(|| format!("{} takes a number from 0 to {most}", statement.tag))?;
        self.set(key, statement, number.to_string())
    }

    /// Adds a trigger: a tag with a value, a number of packets and a directory. Ourmon opens a file when the value of 30 seconds is
    /// exceeded, and may open the next one in the next 30 seconds. The threshold is `times` the value.
    fn trigger(
        &mut self,
        statement: &Statement,
        name: &str,
        (keys, times): (&str, u64),
        filter: &str,
    ) -> Result<(), String> {
        let [value, packets, directory] =
            statement.exactly("a value, a number of packets and a directory")?;
        let number = |text: &str| text.parse::<u64>().map_err(|_| format!("{text:?} is not a number"));
        let (above, packets) = (number(value)?.saturating_mul(times), number(packets)?.max(1));
        let head = format!("\n[[trigger]]\nname = \"{name}\"\n");
        if self.triggers.iter().any(|table| table.starts_with(&head)) {
            return Err(format!("{} was given before", statement.tag));
        }
        let (filter, to) = (toml_string(filter), toml_string(directory));
        self.triggers.push(format!(
            "{head}{keys}\nabove = {above}\nrearm = \"30s\"\nfilter = {filter}\npackets = {packets}\nto = {to}\n"
        ));
        Ok(())
    }

    fn begin_set(&mut self, name: &str, line: &str, expression: String) -> Result<(), String> {
        self.skipping = true;
        if let Some(wrong) = wrong_name(name) {
            return Err(wrong.to_owned());
        }
        if self.sets.contains(name) {
            return Err(format!("the set {name:?} was given before"));
        }
        self.check_line(line, &expression)?;
        self.skipping = false;
        self.sets.insert(name.to_owned());
        self.names = HashSet::from([line.to_owned()]);
        let first = Line { name: line.to_owned(), expression };
        self.charts.push(Chart { name: name.to_owned(), unit: self.unit, xtra: true, lines: vec![first] });
        Ok(())
    }

    fn add_line(&mut self, line: &str, expression: String) -> Result<(), String> {
        self.current()?;
        self.check_line(line, &expression)?;
        if !self.names.insert(line.to_owned()) {
            return Err(format!("the line {line:?} is in its set already"));
        }
        self.current()?.lines.push(Line { name: line.to_owned(), expression });
        Ok(())
    }

    fn check_line(&mut self, line: &str, text: &str) -> Result<(), String> {
        if let Some(wrong) = wrong_name(line) {
            return Err(wrong.to_owned());
        }
        if line == XTRA {
            return Err(format!("a line cannot be called {line:?}"));
        }
        self.known.check(text).map_err(|error| {
            format!("{text:?}: {} at {:?}", error.message, text.get(error.span.start..).unwrap_or_default())
        })
    }

    /// The text of the weir.toml.
    fn toml(&self, path: &str) -> String {
        let home = match self.home.as_slice() {
            [] => String::new(),
            nets => format!("home = [{}]\n", nets.join(", ")),
        };
        let mon = self.mon.iter().map(|(key, value)| format!("{key} = {value}\n"));
        let mon =
            mon.fold(
                String::new(),
                |all, line| if all.is_empty() { format!("\n[mon]\n{line}") } else { all + &line },
            );
        let mut out = format!(
            "# From {path} by weir config from-ourmon\ninterval = \"30s\"\n{home}{mon}\n[output]\n# dir = \"/var/lib/weir\"  # directory of mon.lite; or use -o DIR\nlog = [\"mon\"]\n"
        );
        let fixed = SubscriptionSpec::new("fixed", "", self.fixed.clone());
        let fixed = Some(&fixed).filter(|fixed| !fixed.functions.is_empty());
        for subscription in fixed.into_iter().chain(&self.subscriptions) {
            let _ = write!(out, "\n[[subscription]]\nname = {}\n", toml_string(&subscription.name));
            if !subscription.expression.is_empty() {
                let _ = writeln!(out, "expression = {}", toml_string(&subscription.expression));
            }
            if subscription.level != Level::Packet {
                let _ = writeln!(out, "level = {}", toml_string(subscription.level.name()));
            }
            let calls: Vec<String> = subscription.functions.iter().map(written).collect();
            let _ = writeln!(out, "functions = [{}]", calls.join(", "));
        }
        for chart in &self.charts {
            let unit = if chart.unit == Unit::Bytes { "bytes" } else { "packets" };
            let name = toml_string(&chart.name);
            let _ = write!(
                out,
                "\n[[chart]]\nname = {name}\nunit = \"{unit}\"\nxtra = {}\nlines = [\n",
                chart.xtra
            );
            for Line { name, expression } in &chart.lines {
                let (name, expression) = (toml_string(name), toml_string(expression));
                let _ = writeln!(out, "  {{ name = {name}, expression = {expression} }},");
            }
            out.push_str("]\n");
        }
        self.triggers.iter().for_each(|table| out.push_str(table));
        if !self.comments.is_empty() {
            let _ = writeln!(out, "\n{}", self.comments.join("\n"));
        }
        out
    }
}

/// The number of rows that the tag of a list shows.
fn shown(statement: &Statement) -> Result<usize, String> {
    let wanted = "a number: 10, 20, ... 100";
    let [show] = statement.exactly(wanted)?;
    let show = show.parse::<usize>().ok().filter(|n| (10..=100).contains(n) && n % 10 == 0);
    show.ok_or_else(|| format!("{} takes {wanted}", statement.tag))
}

/// The name of the probe.
fn probe_name(translation: &mut Translation, statement: &Statement) -> Result<(), String> {
    let [name] = statement.exactly("a name")?;
    match wrong_name(name) {
        Some(wrong) => Err(wrong.to_owned()),
        None => translation.set("sysname", statement, toml_string(name)),
    }
}

/// Channels of IRC. Ourmon forgets a channel after a number of periods; here every interval has its own list, and a store and its reports
/// have those of longer times.
fn channels(translation: &mut Translation, statement: &Statement) -> Result<(), String> {
    let wanted = "a number of periods from 1 to 60";
    let [periods] = statement.exactly(wanted)?;
    if !periods.parse::<u64>().is_ok_and(|periods| (1..=60).contains(&periods)) {
        return Err(format!("{} takes {wanted}", statement.tag));
    }
    translation.add_list(statement, &statement.tag, "", FunctionCall::new("irc"))?;
    if let Some(list) = translation.subscriptions.last_mut() {
        list.level = Level::Record;
    }
    Ok(())
}

/// Ourmon makes two lists of hosts that draw errors with one tag: of all errors, and of those of UDP.
fn icmp_errors(translation: &mut Translation, statement: &Statement) -> Result<(), String> {
    translation.list(statement, FunctionCall::new("icmperror").with("by", "drawn"))?;
    translation.udp_errors(statement, true)
}

/// The home network, which may be given more than once.
fn home(translation: &mut Translation, statement: &Statement) -> Result<(), String> {
    let [address, mask] = statement.exactly("an address and a mask")?;
    translation.home.push(toml_string(&network(address, mask)?));
    Ok(())
}

/// Names to be watched in DNS. A configuration with a list that is not there would be refused as a whole.
fn watch(translation: &mut Translation, statement: &Statement) -> Result<(), String> {
    let [file] = statement.exactly("a file of names")?;
    if !Path::new(file).is_file() {
        translation.notes.push((statement.line, format!("no such file: {}", printable(file))));
        translation.comment("no such file", statement);
        return Ok(());
    }
    let before =
        translation.subscriptions.iter().filter(|known| known.name.starts_with("dns_include")).count();
    let name = if before == 0 { "dns_include".to_owned() } else { format!("dns_include {}", before + 1) };
    let call = FunctionCall::new("watch").with("file", file).with("name", "dns_include");
    let subscription =
        SubscriptionSpec { level: Level::Record, ..SubscriptionSpec::new(&name, "dns", vec![call]) };
    translation.subscriptions.push(subscription);
    Ok(())
}

/// Ourmon's trigger on the number of hosts that may be worms: a file of SYNs.
fn worm_count(translation: &mut Translation, statement: &Statement) -> Result<(), String> {
    let keys = "when = \"syn\"\ncolumn = \"worms\"";
    translation.trigger(statement, "worm", (keys, 1), "tcp[tcpflags] & tcp-syn != 0")
}

/// Ourmon's trigger on the weight of a host over UDP: a file of its packets.
fn udp_weight(translation: &mut Translation, statement: &Statement) -> Result<(), String> {
    let keys = "when = \"udp\"\ncolumn = \"weight\"";
    translation.trigger(statement, "udpweight", (keys, 1), "host {host} and (udp or icmp)")
}

/// Ourmon's trigger on packets that the kernel dropped: a file of all packets.
fn drops(translation: &mut Translation, statement: &Statement) -> Result<(), String> {
    translation.trigger(statement, "drops", ("when = \"drops\"", 1), "")
}

/// Ourmon's trigger on flows per second: a file of all packets. Its value is the number of flows of 30 seconds, which is the interval of
/// the translation, divided by 30. Ourmon counts the two directions of a flow as two.
fn flow_count(translation: &mut Translation, statement: &Statement) -> Result<(), String> {
    translation.trigger(statement, "flows", ("when = \"distinct flows\"", 30), "")
}

fn tcp3(translation: &mut Translation, statement: &Statement) -> Result<(), String> {
    let [one, two] = statement
        .exactly("two ports")?
        .map(|port| port.parse::<u16>().map_err(|_| format!("{port:?} is not a port")));
    translation.fixed(FunctionCall::new("tcp3").with("port1", one?).with("port2", two?))
}

fn iprange(translation: &mut Translation, statement: &Statement) -> Result<(), String> {
    let [ip1, mask1, ip2, mask2, ..] =
        statement.exactly::<6>("address, mask, address, mask and two names")?;
    let (one, two) = (network(ip1, mask1)?, network(ip2, mask2)?);
    translation.fixed(FunctionCall::new("iprange").with("net1", one).with("net2", two))
}

/// An address and a mask, dotted or hexadecimal, as address/prefix.
fn network(address: &str, mask: &str) -> Result<String, String> {
    let ip: Ipv4Addr = address.parse().map_err(|_| format!("{address:?} is not an IPv4 address"))?;
    let bits = match mask.strip_prefix("0x") {
        Some(hex) => u32::from_str_radix(hex, 16).ok(),
        None => mask.parse::<Ipv4Addr>().ok().map(u32::from),
    };
    let bits = bits.filter(|bits| bits.leading_ones() + bits.trailing_zeros() >= 32);
    let bits = bits.ok_or_else(|| format!("{mask:?} is not a netmask"))?;
    Ok(format!("{}/{}", Ipv4Addr::from(u32::from(ip) & bits), bits.leading_ones()))
}

fn bpf(translation: &mut Translation, statement: &Statement) -> Result<(), String> {
    translation.skipping = true;
    let [set, line, expression] = statement.exactly("\"graph\" \"line\" \"expression\"")?;
    translation.begin_set(set, line, expression.to_owned())
}

fn bpf_next(translation: &mut Translation, statement: &Statement) -> Result<(), String> {
    let [line, expression] = statement.exactly("\"line\" \"expression\"")?;
    translation.add_line(line, expression.to_owned())
}

/// Ourmon's filters written in C: their type and operand form a primitive of the expression language.
fn cbpf(translation: &mut Translation, statement: &Statement) -> Result<(), String> {
    translation.skipping = true;
    let [kind, set, line, operand] = statement.exactly("\"type\" \"graph\" \"line\" \"operand\"")?;
    translation.begin_set(set, line, format!("{kind} {operand}"))
}

fn cbpf_next(translation: &mut Translation, statement: &Statement) -> Result<(), String> {
    let [kind, line, operand] = statement.exactly("\"type\" \"line\" \"operand\"")?;
    translation.add_line(line, format!("{kind} {operand}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::load;

    const FIGURE_3: &str = "bpf \"ports\" \"ssh\" \"tcp port 22\"\nbpf-next \"p2p\" \"tcp port 1241 or\n        tcp port \
        6881\"\nbpf-next \"web\" \"tcp port 80 or\n        tcp port 443\"\nbpf-next \"ftp\" \"tcp port 20 or\n        \
        tcp port 21\"\nbpf-next \"email\" \"tcp port 25\"\n";

    /// The translation, and the plan that is loaded from it.
    fn plan(text: &str) -> (Outcome, Vec<SubscriptionSpec>) {
        let outcome = translate("ourmon.conf", text);
        let config = load(Path::new("weir.toml"), &outcome.stdout)
            .unwrap_or_else(|e| panic!("{}\n{e}", outcome.stdout));
        assert_eq!(config.output.log.value, ["mon"]);
        (outcome, config.plan())
    }

    /// Rows of chart, name, expression and functions.
    fn rows(plan: &[SubscriptionSpec]) -> Vec<String> {
        plan.iter()
            .map(|s| {
                let calls: Vec<String> = s.functions.iter().map(written).collect();
                let scope = if s.remainder { "remainder" } else { &s.expression };
                format!("{}/{}: {scope}: {}", s.chart.as_deref().unwrap_or_default(), s.name, calls.join(" "))
            })
            .collect()
    }

    #[test]
    fn the_set_of_figure_3_is_translated() {
        let (outcome, plan) = plan(FIGURE_3);
        assert_eq!((outcome.exit, outcome.stderr.as_str()), (0, ""));
        assert_eq!(
            rows(&plan),
            [
                "ports/ssh: tcp port 22: \"bytes\"",
                "ports/p2p: tcp port 1241 or tcp port 6881: \"bytes\"",
                "ports/web: tcp port 80 or tcp port 443: \"bytes\"",
                "ports/ftp: tcp port 20 or tcp port 21: \"bytes\"",
                "ports/email: tcp port 25: \"bytes\"",
                "ports/xtra: remainder: \"bytes\"",
            ]
        );
    }

    #[test]
    fn every_tag_is_translated_or_reported() {
        let names = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(names.path(), "evil.example\n").unwrap();
        let names = names.path().to_str().unwrap();
        let (outcome, plan) = plan(&format!(
            "# a comment with \"one quote\nsysname dmz\nfixed_ipproto\nfixed_tcp3 119 80\n\
             fixed_iprange1 10.1.2.3 255.0.0.0 192.168.0.0 0xffff0000 home lab\nfixed_cast 10.0.0.1 255.255.255.0\n\
             fixed_size\r\npkts\n\nbpf-packets\nbpf \"flags\" \"syn\" \"tcp[tcpflags] & tcp-syn != 0\"\nbpf_noxtra\n\
             bpf-bytes\ncbpf \"net\" \"subnets\" \"subnet 1\"\n    \"192.168.1.0/24\"\n\
             cbpf-next \"net\" \"subnet 2\" \"192.168.2.0/24\"\ntopn_ip 60\ntopn_port 20\n\
             topn_syn 20\ntopn_syn_wormfile /tmp\ntopn_syn_homeip 10.0.0.0 255.0.0.0\ntworm_weight 30\n\
             topn_syn_sort 1\ntopn_syn_wormdiff 20\ntopn_icmperror 20\ntopn_scans 10\ntopn_port_scans 10\n\
             topn_irc 60\ntrigger_topn_ip 1000 10000 /usr/dumps\ntrigger_worm 30 10000 /usr/dumps\n\
             drop_trigger 20000 40000 /usr/dumps\ndns_include {names}\ndns_include /not/there\n\
             trigger_udpweight 1000000 20000 /usr/dumps\n",
        ));
        assert_eq!(outcome.exit, 0, "{}", outcome.stderr);
        assert_eq!(
            rows(&plan),
            [
                "flags/syn: tcp[tcpflags] & tcp-syn != 0: \"packets\"",
                "subnets/subnet 1: net 192.168.1.0/24: \"bytes\"",
                "subnets/subnet 2: net 192.168.2.0/24: \"bytes\"",
                "subnets/xtra: remainder: \"bytes\"",
                "/fixed: : \"ipproto\" { tcp3 = [119, 80] } { iprange = [\"10.0.0.0/8\", \"192.168.0.0/16\"] } \"cast\" \"size\"",
                "/topn_ip: : { top = \"flow\", show = 60 }",
                "/topn_tcp: tcp: { top = \"flow\", show = 60 }",
                "/topn_udp: udp: { top = \"flow\", show = 60 }",
                "/topn_icmp: icmp: { top = \"flow\", show = 60 }",
                "/topn_port_tcp: tcp: { top = \"port\", show = 20 }",
                "/topn_port_udp: udp: { top = \"port\", show = 20 }",
                "/topn_syn: : { syn = 20 }",
                "/topn_icmperror: : { icmperror = \"drawn\", show = 20 }",
                "/topn_udperror: : { udp = 20 }",
                "/topn_scans: : { fanout = \"addresses\", show = 10 }",
                "/topn_port_scans: : { fanout = \"ports\", show = 10 }",
                "/topn_irc: : \"irc\"",
                &format!("/dns_include: dns: {{ watch = \"{names}\", name = \"dns_include\" }}"),
                "/trigger flows: : { distinct = \"flows\" } { event = \"flows\", above = 30000, quiet = 30, keep = 24000 }",
                "/trigger worm: : \"syn\" { event = \"worm\", column = \"worms\", above = 30, quiet = 30, keep = 24 }",
                "/trigger udpweight: : \"udp\" { event = \"udpweight\", column = \"weight\", above = 1000000, quiet = 30, keep = 800000 }",
            ]
        );
        let by_flow = plan.iter().filter(|spec| spec.level == Level::Flow).map(|spec| &*spec.name);
        assert_eq!(by_flow.collect::<Vec<_>>(), ["topn_scans", "topn_port_scans"]);
        let mon = "home = [\"10.0.0.0/8\"]\n\n[mon]\nsysname = \"dmz\"\nworm_weight = 30\nsyn_order = \"syn\"\nworm_difference = 20\n";
        assert!(outcome.stdout.contains(mon), "{}", outcome.stdout);
        let by_record = plan.iter().filter(|spec| spec.level == Level::Record).map(|spec| &*spec.name);
        assert_eq!(by_record.collect::<Vec<_>>(), ["topn_irc", "dns_include"]);
        let notes: Vec<&str> = outcome.stderr.lines().collect();
        assert_eq!(notes.len(), 1, "{}", outcome.stderr);
        let drops = "[[trigger]]\nname = \"drops\"\nwhen = \"drops\"\nabove = 20000\nrearm = \"30s\"\n";
        assert!(outcome.stdout.contains(drops), "{}", outcome.stdout);
    }

    /// `bpf-packets` and `bpf-bytes` apply to the sets that start after them; a new set ends the previous one; a
    /// `cbpf` adds a line like any other, and may be followed by `bpf-next`.
    #[test]
    fn a_whole_configuration_is_translated() {
        let (outcome, plan) = plan(
            "#\n# ourmon.conf\n#\nfixed_ipproto\nfixed_cast 127.0.0.1 255.255.255.255\n\n\
             bpf \"protocols\" \"tcp\" \"tcp\"\nbpf-packets\nbpf-next \"udp\" \"udp\"\n\
             bpf \"control\" \"syns\" \"tcp[tcpflags] & tcp-syn != 0\"\nbpf-next \"pings\" \"icmp[0] = 8\"\n\
             cbpf \"net\" \"subnets\" \"one\" \"192.168.1.0/24\"\nbpf-next \"web\" \"port 80\"\nbpf-noxtra\n\
             cbpf-next \"net\" \"two\" \"10.0.0.0/8\"\nbpf-bytes\n\
             cbpf \"port\" \"ports\" \"ssh\" \"22\"\nbpf-next \"pair\" \"net 10.0.0.0/8 and net 192.168.0.0/16\"\n",
        );
        assert_eq!((outcome.exit, outcome.stderr.as_str()), (0, ""));
        let sets = rows(&plan);
        assert_eq!(
            sets[..sets.len() - 1],
            [
                "protocols/tcp: tcp: \"bytes\"",
                "protocols/udp: udp: \"bytes\"",
                "protocols/xtra: remainder: \"bytes\"",
                "control/syns: tcp[tcpflags] & tcp-syn != 0: \"packets\"",
                "control/pings: icmp[0] = 8: \"packets\"",
                "control/xtra: remainder: \"packets\"",
                "subnets/one: net 192.168.1.0/24: \"packets\"",
                "subnets/web: port 80: \"packets\"",
                "subnets/two: net 10.0.0.0/8: \"packets\"",
                "ports/ssh: port 22: \"bytes\"",
                "ports/pair: net 10.0.0.0/8 and net 192.168.0.0/16: \"bytes\"",
                "ports/xtra: remainder: \"bytes\"",
            ]
        );
    }

    /// `topn_icmperror` makes two lists, unless the list of UDP has a tag of its own.
    #[test]
    fn the_list_of_udp_has_the_rows_of_its_own_tag() {
        for (text, udp) in [
            ("topn_icmperror 20\n", 20),
            ("topn_icmperror 20\ntopn_udperror 50\n", 50),
            ("topn_udperror 50\ntopn_icmperror 20\n", 50),
        ] {
            let (outcome, plan) = plan(text);
            assert_eq!((outcome.exit, outcome.stderr.as_str()), (0, ""));
            let mut rows = rows(&plan);
            rows.sort();
            let udp = format!("/topn_udperror: : {{ udp = {udp} }}");
            assert_eq!(rows, ["/topn_icmperror: : { icmperror = \"drawn\", show = 20 }", &udp]);
        }
        let twice = translate("f", "topn_icmperror 20\ntopn_udperror 50\ntopn_udperror 10\n");
        assert_eq!(twice.stderr, "f:3: topn_udperror was given before\n");
    }

    /// All of many lines are translated, and a duplicate name is found.
    #[test]
    fn ten_thousand_lines_are_translated() {
        let expression = |n: u32| format!("net 10.{}.{}.0/24 and tcp port {}", n / 256, n % 256, n + 1);
        let mut text = String::new();
        for n in 0..10_000 {
            let set = if n % 100 == 0 { format!("bpf \"set {}\"", n / 100) } else { "bpf-next".to_owned() };
            let _ = writeln!(text, "{set} \"line {}\" \"{}\"", n % 100, expression(n));
        }
        let (outcome, plan) = plan(&text);
        assert_eq!((outcome.exit, outcome.stderr.as_str(), plan.len()), (0, "", 10_100));
        let lines = plan.iter().filter(|spec| !spec.remainder);
        for (n, spec) in (0..).zip(lines) {
            assert_eq!(spec.expression, expression(n));
            assert_eq!(
                (spec.chart.as_deref(), &spec.name),
                (Some(&*format!("set {}", n / 100)), &format!("line {}", n % 100))
            );
        }
        let again = translate("f", &(text + "bpf-next \"line 0\" \"tcp\"\nbpf \"set 7\" \"a\" \"tcp\"\n"));
        assert_eq!(
            again.stderr,
            "f:10001: the line \"line 0\" is in its set already\nf:10002: the set \"set 7\" was given before\n"
        );
    }

    #[test]
    fn errors_are_reported_with_their_line_and_the_rest_is_translated() {
        for (text, line, message) in [
            ("topn_ipp 60", 1, "unknown tag \"topn_ipp\"; did you mean \"topn_ip\"?"),
            ("topn_ip 65", 1, "topn_ip takes a number: 10, 20, ... 100"),
            ("topn_ip", 1, "topn_ip takes a number: 10, 20, ... 100, not 0 arguments"),
            ("topn_port 10\ntopn_port 20", 2, "topn_port was given before"),
            ("fixed_size\nfixed_size", 2, "size was given before"),
            ("fixed_tcp3 80", 1, "fixed_tcp3 takes two ports, not 1 argument"),
            ("fixed_tcp3 80 99999", 1, "\"99999\" is not a port"),
            (
                "fixed_iprange1 10.0.0.0 255.0.255.0 10.0.0.0 255.0.0.0 a b",
                1,
                "\"255.0.255.0\" is not a netmask",
            ),
            ("topn_irc 0", 1, "topn_irc takes a number of periods from 1 to 60"),
            ("topn_irc 60\ntopn_irc 60", 2, "topn_irc was given before"),
            ("sysname", 1, "sysname takes a name, not 0 arguments"),
            ("sysname a\nsysname b", 2, "sysname was given before"),
            (
                "trigger_topn_ip 9 9",
                1,
                "trigger_topn_ip takes a value, a number of packets and a directory, not 2 arguments",
            ),
            ("bpf-next \"a\" \"tcp\"", 1, "no bpf before it"),
            ("bpf \"g\" \"a\" \"tcp\"\nbpf \"g\" \"b\" \"udp\"", 2, "the set \"g\" was given before"),
            ("bpf \"g\" \"a\" \"tcp\"\nbpf-next \"a\" \"udp\"", 2, "the line \"a\" is in its set already"),
            ("bpf \"g\" \"xtra\" \"tcp\"", 1, "a line cannot be called \"xtra\""),
            ("\n\"tcp\"", 2, "an argument without a tag"),
        ] {
            let outcome = translate("f", &format!("{text}\nbpf \"last\" \"one\" \"icmp\"\n"));
            assert_eq!(outcome.stderr, format!("f:{line}: {message}\n"), "{text}");
            assert_eq!(outcome.exit, 1);
            let plan = load(Path::new("weir.toml"), &outcome.stdout).unwrap_or_else(|e| panic!("{e}")).plan();
            let last: Vec<_> = plan.into_iter().filter(|s| s.chart.as_deref() == Some("last")).collect();
            assert_eq!(rows(&last), ["last/one: icmp: \"bytes\"", "last/xtra: remainder: \"bytes\""]);
        }
    }

    #[test]
    fn a_wrong_expression_is_reported_and_its_set_left_out() {
        let outcome = translate("f", "bpf \"g\" \"a\" \"tcp prot 22\"\nbpf-next \"b\" \"udp\"\nbpf-noxtra\n");
        let lines: Vec<&str> = outcome.stderr.lines().collect();
        assert!(lines[0].starts_with("f:1: \"tcp prot 22\": ") && lines[0].contains("prot"), "{}", lines[0]);
        assert_eq!(lines[1..], ["f:2: its set is left out", "f:3: its set is left out"]);
        assert!(outcome.stdout.contains("# wrong: bpf-next b udp (line 2)"), "{}", outcome.stdout);
        assert!(load(Path::new("weir.toml"), &outcome.stdout).is_ok());
    }

    #[test]
    fn an_unclosed_quote_is_reported_with_its_first_line() {
        let outcome = translate("f", "fixed_size\nbpf \"g\" \"a\" \"tcp port 22\nfixed_cast 1 2\n");
        assert!(
            outcome.stderr.contains("f:2: the quote that opens here is never closed\n"),
            "{}",
            outcome.stderr
        );
        assert_eq!(outcome.exit, 1);
    }

    /// Names with any characters become equivalent TOML, and no escape sequence is printed.
    #[test]
    fn hostile_names_are_escaped() {
        let outcome = translate(
            "f\u{1b}[1m\nmemory = \"1\"",
            "bpf \"a\\b\u{e9}'#\" \"l]\\\" \"tcp\"\nbpf \"\u{7f}\" \"a\" \"tcp\"\ndns_include \u{1b}]0;x\u{7}\n",
        );
        assert!(!outcome.stdout.contains('\u{1b}') && !outcome.stderr.contains('\u{1b}'));
        let config = load(Path::new("weir.toml"), &outcome.stdout)
            .unwrap_or_else(|e| panic!("{e}\n{}", outcome.stdout));
        assert_eq!(
            (config.charts[0].name.as_str(), config.charts[0].lines[0].name.as_str()),
            ("a\\b\u{e9}'#", "l]\\")
        );
        assert_eq!(config.charts.len(), 1);
    }
}
