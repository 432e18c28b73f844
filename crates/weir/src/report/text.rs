//! A report about hosts as text: at most four lines for each, in 80 columns.

use super::gather::{FLOOD, Host, HostsReport, List, Members, OFTEN, Of, Row, Spread, Udp, What, Work};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::IpAddr;
use weir_api::web::Event;
use weir_api::{Datum, DistinctValues, SampledValues};
use weir_output::figures::{count, counted, duration, fit, printable, width, wrap};
use weir_output::zone::Zone;
use weir_output::{PortSignature, SIGNATURE_WEIGHT};
use weir_store::KnownSignature;

/// Columns of a line.
const WIDTH: usize = 80;
/// Maximum number of lines of a host.
const LINES: usize = 4;
const DAY: u64 = 86_400_000_000_000;

/// The report, with at most `limit` hosts in a section.
pub fn text(report: &HostsReport, limit: usize) -> String {
    let mut out = String::new();
    for line in head(report) {
        let _ = writeln!(out, "{line}");
    }
    for section in sections(report) {
        let _ = write!(out, "\n{}\n", fit(&section.title, WIDTH));
        for line in wrap(&section.about, WIDTH, 8) {
            let _ = writeln!(out, "{line}");
        }
        for (at, (host, lines)) in section.hosts.iter().enumerate().take(limit) {
            if at == section.often && at > 0 {
                let _ = writeln!(out, "-- others");
            }
            let (first, rest) =
                lines.split_first().map_or(("", lines.as_slice()), |(first, rest)| (first, rest));
            let _ = writeln!(out, "{}", fit(&named(report, *host, first), WIDTH));
            for line in rest {
                let _ = writeln!(out, "{}", fit(line, WIDTH));
            }
        }
        if let Some(more) = section.hosts.len().checked_sub(limit).filter(|more| *more > 0) {
            let _ = writeln!(out, "... and {}: --limit 0 shows all", counted(more as u64, "host"));
        }
    }
    out
}

/// The period.
pub fn heading(report: &HostsReport) -> String {
    let (from, to) = report.wanted.span;
    let zone = &report.wanted.zone;
    let (begin, end) = (second(zone, from), second(zone, to));
    format!("HOSTS of the {} from {begin} to {end} {}", report.wanted.period.name(), zone.label(from))
}

/// The lines above the sections: the period, what was watched of it, and what is missing.
pub fn head(report: &HostsReport) -> Vec<String> {
    let zone = &report.wanted.zone;
    let (from, to) = report.wanted.span;
    let mut lines = vec![heading(report)];
    let watched = (report.watched * 1e9) as u64;
    let of = duration(to.saturating_sub(from));
    lines.push(format!(
        "watched: {} of {of}",
        if watched == 0 { "nothing".to_owned() } else { duration(watched) }
    ));
    if report.stored.1 < to && report.stored.1 > from {
        lines.push(format!("it is not complete: stored until {}", second(zone, report.stored.1)));
    }
    for note in &report.notes {
        lines.extend(wrap(&format!("note: {note}"), WIDTH, 3));
    }
    if !report.missing.is_empty() {
        let names: Vec<&str> = report.missing.iter().map(|of| of.name()).collect();
        let about = format!(
            "MISSING: the store has no list of {}. These lines in weir.toml keep them from then on:",
            names.join(", ")
        );
        lines.push(String::new());
        lines.extend(wrap(&about, WIDTH, 4));
        for of in &report.missing {
            lines.push(String::new());
            lines.extend(of.subscription().lines().map(|line| format!("    {line}")));
        }
    }
    lines
}

/// A time to the second.
fn second(zone: &Zone, time: u64) -> String {
    zone.date_time(time).chars().take("2026-11-22 10:00:00".len()).collect()
}

/// A section of a report.
pub struct Section {
    /// Its title.
    pub title: String,
    /// What its hosts are.
    pub about: String,
    /// The hosts, each with at most four lines. The first one has neither the host nor its name.
    pub hosts: Vec<(IpAddr, Vec<String>)>,
    /// Number of the first hosts that are in more than [`OFTEN`] instances; 0 where that is not asked.
    pub often: usize,
}

/// The sections of a report.
pub fn sections(report: &HostsReport) -> Vec<Section> {
    let lists = |of: Of| report.lists.iter().filter(move |list| list.of == of);
    let mut sections: Vec<Section> = lists(Of::Syn).map(|list| worms(report, list)).collect();
    sections.extend(lists(Of::Syn).map(|list| signatures(report, list)));
    sections.extend(lists(Of::Fanout).map(|list| scans(report, list)));
    sections.extend(lists(Of::Flood).map(|list| floods(report, list)));
    sections.extend(lists(Of::Icmperror).map(|list| errors(report, list)));
    sections.extend(lists(Of::Udp).map(|list| udp(report, list)));
    sections.extend(lists(Of::Irc).map(|list| irc(report, list)));
    sections.push(events(report));
    sections.extend(lists(Of::Syn).filter_map(|list| at_home(report, list)));
    sections.extend(lists(Of::Syn).map(|list| others(report, list)));
    sections
}

/// The title of a section of a list.
fn title(name: &str, list: &List, hosts: usize) -> String {
    format!("{name}: {} of list {:?}, {}", counted(hosts as u64, "host"), list.name, cells(list))
}

fn cells(list: &List) -> String {
    match list.cells {
        0 => "nothing is stored of the period".to_owned(),
        cells => counted(cells, list.unit),
    }
}

/// What the list of a section leaves out.
fn absent(list: &List, of: &str) -> String {
    match list.absent {
        0 => String::new(),
        most => format!(" Hosts without a row have at most {} {of}.", count(most)),
    }
}

/// The hosts of a list of work, those in the most instances first.
fn by_instances<'l>(list: &'l List, keep: impl Fn(&Work) -> bool) -> Vec<(&'l Host, &'l Work)> {
    let work = |host: &'l Host| match &host.what {
        What::Work(work) if keep(work) => Some((host, &**work)),
        _ => None,
    };
    let mut hosts: Vec<_> = list.hosts.iter().filter_map(work).collect();
    hosts.sort_by_key(|(host, work)| (Reverse(host.seen.instances), Reverse(work.row.counts.syn), host.host));
    hosts
}

fn worms(report: &HostsReport, list: &List) -> Section {
    let least = report.wanted.weight;
    let hosts = by_instances(list, |work| work.is_worm(least));
    let often = hosts.iter().take_while(|(host, _)| host.seen.instances > OFTEN).count();
    let unit = list.unit;
    let about = format!(
        "Work weight of more than {least}%, and over 20 SYNs more than FINs received: {often} in more than {OFTEN} {unit}s, which \
         come first.{} work: least/mean/greatest of its {unit}s; flags: of the whole, and the number of {unit}s with each.{}",
        us_and_them(report, hosts.iter().map(|(host, _)| host.host)),
        absent(list, "work")
    );
    let lines = hosts.iter().map(|(host, work)| (host.host, work_lines(report, list, host, work)));
    Section { title: title("WORMS", list, hosts.len()), about, hosts: lines.collect(), often }
}

/// How many hosts are at home and how many are not: Ourmon's us and them. Nothing where no network is known.
fn us_and_them(report: &HostsReport, hosts: impl Iterator<Item = IpAddr>) -> String {
    let home = &report.wanted.home;
    if home.nets.is_empty() {
        return String::new();
    }
    let (us, them): (Vec<IpAddr>, Vec<IpAddr>) = hosts.partition(|host| home.has(*host));
    format!(" us: {}, them: {}.", count(us.len() as u64), count(them.len() as u64))
}

/// All hosts at home: Ourmon's syndump. `None` where no network is known.
fn at_home(report: &HostsReport, list: &List) -> Option<Section> {
    let home = &report.wanted.home;
    if home.nets.is_empty() {
        return None;
    }
    let mut hosts = by_instances(list, |_| true);
    hosts.retain(|(host, _)| home.has(host.host));
    let lines = hosts.iter().map(|(host, work)| (host.host, work_lines(report, list, host, work)));
    let nets: Vec<String> = home.nets.iter().map(ToString::to_string).collect();
    let about = format!("All hosts of the list at home, worms too: {}.", nets.join(", "));
    Some(Section { title: title("HOME", list, hosts.len()), about, hosts: lines.collect(), often: 0 })
}

/// The hosts of each port signature: first the signatures that are new, then those of the most hosts.
fn signatures(report: &HostsReport, list: &List) -> Section {
    let mut hosts: BTreeMap<&PortSignature, Vec<IpAddr>> = BTreeMap::new();
    for (host, work) in by_instances(list, |work| !work.signatures.is_empty()) {
        work.signatures.iter().for_each(|one| hosts.entry(one).or_default().push(host.host));
    }
    let mut all: Vec<_> = hosts.into_iter().map(|(one, hosts)| (report.signature(one), one, hosts)).collect();
    let is_new = |known: &Option<(&KnownSignature, bool)>| known.is_some_and(|(_, is_new)| is_new);
    all.sort_by_key(|(known, _, hosts)| (!is_new(known), Reverse(hosts.len())));
    let new = all.iter().filter(|(known, ..)| is_new(known)).count();
    let about = format!(
        "Sets of at most ten destination ports of hosts that may be worms in a whole {}, with a work weight of {SIGNATURE_WEIGHT}% or more: \
         {}, {new} of them new. A signature is new if it was first seen in the period, and by one run.",
        list.unit,
        counted(all.len() as u64, "signature")
    );
    let zone = &report.wanted.zone;
    let lines = |known: Option<(&KnownSignature, bool)>, one: &PortSignature, hosts: usize| {
        let state = match known {
            None => "not in the list of signatures",
            Some((_, true)) => "new",
            Some((_, false)) => "old",
        };
        let mut lines = vec![format!("{state}, {}", counted(hosts as u64, "host")), format!("  ports {one}")];
        lines.extend(known.map(|(known, _)| {
            let (first, last) = (second(zone, known.first), second(zone, known.last));
            format!("  seen {first} to {last}, {}", counted(known.intervals, "time"))
        }));
        lines
    };
    let hosts: Vec<(IpAddr, Vec<String>)> = all
        .iter()
        .flat_map(|(known, one, hosts)| hosts.iter().map(|host| (*host, lines(*known, one, hosts.len()))))
        .collect();
    Section { title: title("PORT SIGNATURES", list, hosts.len()), about, hosts, often: 0 }
}

/// The hosts that are neither worms nor at home.
fn others(report: &HostsReport, list: &List) -> Section {
    let least = report.wanted.weight;
    let mut hosts = by_instances(list, |work| !work.is_worm(least));
    hosts.retain(|(host, _)| !report.wanted.home.has(host.host));
    let lines = hosts.iter().map(|(host, work)| (host.host, work_lines(report, list, host, work)));
    let about = "All other hosts of the list.".to_owned();
    Section { title: title("TCP", list, hosts.len()), about, hosts: lines.collect(), often: 0 }
}

/// The first line of a host: its instances, the first and the last.
fn first_line(report: &HostsReport, list: &List, host: &Host) -> String {
    match host.seen.span {
        None => format!("in the heaviest of no {}", list.unit),
        Some((first, last)) => {
            let (first, last) = times(report, first, last);
            format!("{} of {}, {first} to {last}", count(host.seen.instances), count(list.cells))
        }
    }
}

/// The first line with its host, and with the name as far as there is room.
fn named(report: &HostsReport, host: IpAddr, first: &str) -> String {
    let name = report.names.get(&host).map_or(String::new(), |name| format!("  {}", printable(name)));
    format!("{host}  {first}{name}")
}

/// First and last time: times of day within a day.
fn times(report: &HostsReport, first: u64, last: u64) -> (String, String) {
    let (from, to) = report.wanted.span;
    let zone = &report.wanted.zone;
    let shown: fn(&Zone, u64) -> String = match to.saturating_sub(from) <= DAY {
        true => Zone::clock,
        // Without the year.
        false => |zone, time| second(zone, time).chars().skip("2026-".len()).collect(),
    };
    (shown(zone, first), shown(zone, last))
}

/// A number that may be an estimate.
fn about(values: &DistinctValues) -> String {
    format!("{}{}", if values.is_exact() { "" } else { "~" }, count(values.estimate()))
}

fn spread(spread: &Spread) -> String {
    format!("{}/{}/{}", count(spread.least), count(spread.mean()), count(spread.greatest))
}

fn work_lines(report: &HostsReport, list: &List, host: &Host, work: &Work) -> Vec<String> {
    let counts = &work.row.counts;
    let flags = match counts.flags() {
        flags if flags.is_empty() => "-".to_owned(),
        flags => flags,
    };
    let each: Vec<String> =
        work.flags.iter().filter(|(_, n)| *n > 0).map(|(flag, n)| format!("{flag} {n}")).collect();
    let each = if each.is_empty() { String::new() } else { format!(" ({})", each.join(" ")) };
    let error = match work.error {
        0 => String::new(),
        error => format!("  +{} work", count(error)),
    };
    let [_, fin] = counts.fin;
    let [_, rst] = counts.rst;
    let [sent, received] = counts.packets;
    vec![
        first_line(report, list, host),
        format!("  {flags}{each}  work {}%  SA/S {}%{error}", spread(&work.weights), counts.synack_percent()),
        format!(
            "  L3D/L4D {}/{}  S:F:R {}:{}:{}  sent:received {}:{}",
            about(&work.row.targets),
            about(&work.row.ports),
            count(counts.syn),
            count(fin),
            count(rst),
            count(sent),
            count(received)
        ),
        ports_line(&work.row),
    ]
}

/// The sampled ports with their SYNs, the most first, as many as a line holds.
fn ports_line(row: &weir_api::SynHost) -> String {
    let [to, _] = &row.samples;
    let mut line = format!("  ports ({} of {} SYNs):", count(to.sampled()), count(row.counts.syn));
    for (port, syns) in by_count(to) {
        let next = format!(" {port} {},", count(syns));
        if width(&line) + width(&next) > WIDTH {
            line.push_str(" …");
            break;
        }
        line.push_str(&next);
    }
    line.trim_end_matches([',', ':']).to_owned()
}

/// Sampled ports and their counts, those with the most first.
pub fn by_count(sample: &SampledValues) -> Vec<(u128, u64)> {
    let mut ports = sample.values();
    ports.sort_by_key(|(port, times)| (Reverse(*times), *port));
    ports
}

/// The hosts of a list with those rows that are kept, the greatest first.
fn rows<'l>(
    list: &'l List,
    keep: impl Fn(&Row) -> bool,
    rank: impl Fn(&Row) -> u64,
) -> Vec<(&'l Host, Vec<&'l Row>)> {
    let kept = |host: &'l Host| {
        let What::Rows(rows) = &host.what else { return None };
        let mut rows: Vec<&Row> = rows.iter().filter(|row| keep(row)).collect();
        rows.sort_by_key(|row| Reverse(rank(row)));
        (!rows.is_empty()).then_some((host, rows))
    };
    let mut hosts: Vec<_> = list.hosts.iter().filter_map(kept).collect();
    hosts.sort_by_key(|(host, rows)| (Reverse(rows.first().map_or(0, |row| rank(row))), host.host));
    hosts
}

/// The lines of a host and its rows; those beyond the last line are counted in it.
fn row_lines(first: String, rows: &[&Row], line: impl Fn(&Row) -> String) -> Vec<String> {
    let mut lines = vec![first];
    lines.extend(rows.iter().map(|row| format!("  {}", line(row))));
    cut(lines)
}

/// At most [`LINES`] lines, the last of which has the number of those that are left out.
fn cut(mut lines: Vec<String>) -> Vec<String> {
    if let Some(more) = lines.len().checked_sub(LINES).filter(|more| *more > 0) {
        lines.truncate(LINES);
        if let Some(last) = lines.last_mut() {
            let more = format!("  (+{more} more)");
            *last = fit(last, WIDTH - width(&more)) + &more;
        }
    }
    lines
}

/// A column of a row: `12 ports`, with `~` before an estimate.
fn column(row: &Row, name: &str, one: &str, many: &str) -> String {
    let (value, is_exact) =
        row.values.iter().find(|(known, ..)| known == name).map_or((0, true), |(_, n, exact)| (*n, *exact));
    format!("{}{} {}", if is_exact { "" } else { "~" }, count(value), if value == 1 { one } else { many })
}

/// The parts of a row's key as words.
fn key(row: &Row) -> BTreeMap<&str, String> {
    row.key.iter().map(|(name, part)| (name.as_str(), datum(part))).collect()
}

/// A part of a key as text, safe to show.
pub fn datum(part: &Datum) -> String {
    match part {
        Datum::Nothing => String::new(),
        Datum::Address(address) => address.to_string(),
        Datum::Number(number) => number.to_string(),
        Datum::Text(text) => printable(text),
        Datum::Mac(mac) => weir_api::mac_text(mac),
    }
}

fn scans(report: &HostsReport, list: &List) -> Section {
    let hosts = rows(list, Row::is_scan, |row| row.value("targets").max(row.value("ports")));
    let line = |row: &Row| {
        let key = key(row);
        let part = |name: &str| key.get(name).cloned().unwrap_or_default();
        let has = |name: &str| row.values.iter().any(|(known, ..)| known == name);
        let mut tried: Vec<String> = Vec::new();
        if has("targets") {
            tried.push(column(row, "targets", "host", "hosts"));
        }
        if has("ports") {
            tried.push(column(row, "ports", "port", "ports"));
        }
        let mut of = part("kind");
        for (before, name) in [(" of ", "target"), (" port ", "port")] {
            if !part(name).is_empty() {
                let _ = write!(of, "{before}{}", part(name));
            }
        }
        // What is asked on a link is answered or not: the questions without an answer have no column.
        let outcomes: &[&str] = match part("kind").as_str() {
            "arp" | "nd" => &["answered"],
            _ => &["answered", "refused", "silent"],
        };
        let outcome: Vec<String> = outcomes.iter().map(|name| column(row, name, name, name)).collect();
        format!(
            "{of}: {}; {}: {}",
            tried.join(", "),
            column(row, "flows", "flow", "flows"),
            outcome.join(", ")
        )
    };
    let lines =
        hosts.iter().map(|(host, rows)| (host.host, row_lines(first_line(report, list, host), rows, line)));
    let about = format!(
        "Kinds of attempts to 20 or more hosts or ports, at most a fifth of whose flows were answered.{}",
        absent(list, "of the first number")
    );
    Section { title: title("SCANS", list, hosts.len()), about, hosts: lines.collect(), often: 0 }
}

fn floods(report: &HostsReport, list: &List) -> Section {
    let hosts = rows(list, |row| row.flooded > 0, |row| row.value("packets"));
    let line = |row: &Row| {
        let key = key(row);
        let part = |name: &str| key.get(name).cloned().unwrap_or_default();
        let protocol = part("protocol");
        let protocol = protocol.parse().ok().and_then(weir_output::event::transport).unwrap_or(&protocol);
        let port = part("port");
        let to = if port.is_empty() { String::new() } else { format!(" {protocol}/{port}") };
        let service = match part("service") {
            service if service.is_empty() || service == protocol => String::new(),
            service => format!(" {service}"),
        };
        format!(
            "{}{service}{to}: {}, {}, {}, in {}",
            part("kind"),
            column(row, "packets", "packet", "packets"),
            column(row, "sources", "source", "sources"),
            column(row, "answered", "answered", "answered"),
            count(row.flooded)
        )
    };
    let lines =
        hosts.iter().map(|(host, rows)| (host.host, row_lines(first_line(report, list, host), rows, line)));
    let about = format!(
        "Hosts that received {} packets or more of a kind in one {1}, at most a twentieth of them answered. in: the number of such {1}s.{2}",
        count(FLOOD),
        list.unit,
        absent(list, "packets")
    );
    Section { title: title("FLOODS", list, hosts.len()), about, hosts: lines.collect(), often: 0 }
}

fn errors(report: &HostsReport, list: &List) -> Section {
    let hosts = rows(list, |_| true, |row| row.value("errors"));
    let lines = hosts.iter().map(|(host, rows)| {
        let mut lines = vec![first_line(report, list, host)];
        for row in rows {
            let kinds: Vec<String> = row
                .values
                .iter()
                .filter(|(name, value, _)| *value > 0 && name != "errors")
                .map(|(name, value, _)| format!("{} {}", printable(name).replace('_', " "), count(*value)))
                .collect();
            let all = format!("{}: {}", counted(row.value("errors"), "error"), kinds.join(", "));
            lines.extend(wrap(&all, WIDTH - 2, 3).into_iter().map(|line| format!("  {line}")));
        }
        (host.host, cut(lines))
    });
    let about = format!("{}{}", list.host, absent(list, "errors"));
    Section { title: title("ICMP ERRORS", list, hosts.len()), about, hosts: lines.collect(), often: 0 }
}

/// The channels of hosts: those with the most wormy hosts first.
fn irc(report: &HostsReport, list: &List) -> Section {
    let rank =
        |row: &Row| u64::from(u32::MAX).saturating_mul(row.members.wormy).saturating_add(row.value("total"));
    let hosts = rows(list, |_| true, rank);
    let line = |row: &Row| {
        let Members { hosts, wormy } = row.members;
        let flag = if row.members.is_evil() { " E" } else { "" };
        let counts = [("messages", "message"), ("joins", "join"), ("pings", "ping"), ("pongs", "pong")];
        let counts = counts.map(|(name, one)| column(row, name, one, name));
        // The name is last, since its length is the peer's choice.
        format!(
            "{} of {} wormy{flag}; {}: {}",
            count(wormy),
            counted(hosts, "host"),
            counts.join(", "),
            key(row).remove("channel").unwrap_or_default()
        )
    };
    let lines =
        hosts.iter().map(|(host, rows)| (host.host, row_lines(first_line(report, list, host), rows, line)));
    let about = format!(
        "Channels of clients of IRC, those with the most wormy hosts first: hosts that are among the worms of a list of syn or the scans of \
         one of fanout. E: a channel with such a host.{}",
        absent(list, "messages in a channel")
    );
    Section { title: title("IRC", list, hosts.len()), about, hosts: lines.collect(), often: 0 }
}

fn udp(report: &HostsReport, list: &List) -> Section {
    let known = |host: &'_ Host| matches!(&host.what, What::Udp(udp) if udp.weights.greatest > 0 || udp.row.weight() > 0 || udp.classes.keys().any(|class| matches!(*class, "scan" | "flood")));
    let weight = |host: &Host| match &host.what {
        What::Udp(udp) => (udp.row.weight().max(udp.weights.greatest), udp.row.sent),
        _ => (0, 0),
    };
    let mut hosts: Vec<&Host> = list.hosts.iter().filter(|host| known(host)).collect();
    hosts.sort_by_key(|host| (Reverse(weight(host)), host.host));
    let lines = hosts.iter().filter_map(|host| match &host.what {
        What::Udp(udp) => Some((host.host, udp_lines(first_line(report, list, host), udp, list.unit))),
        _ => None,
    });
    let about = format!(
        "Hosts with a weight, (sent - received) x errors, and those of the class scan or flood in one {0}. weight: least/mean/greatest of its \
         {0}s, and of the sums of the whole; class: the number of {0}s with each.{1}",
        list.unit,
        absent(list, "packets sent")
    );
    Section { title: title("UDP", list, hosts.len()), about, hosts: lines.collect(), often: 0 }
}

fn udp_lines(first: String, udp: &Udp, unit: &str) -> Vec<String> {
    let row = &udp.row;
    let classes: Vec<String> = udp.classes.iter().map(|(class, cells)| format!("{class} {cells}")).collect();
    let [tiny, small, med, big] = row.sizes;
    let error = match udp.error {
        0 => String::new(),
        error => format!(" (+{} sent)", count(error)),
    };
    vec![
        first,
        format!("  weight {} in one {unit}, {} of the whole", spread(&udp.weights), count(row.weight())),
        format!(
            "  sent:received {}:{}{error}  errors {} (unreachable {})  pings {}",
            count(row.sent),
            count(row.received),
            count(row.errors),
            count(row.unreachable),
            count(row.pings)
        ),
        format!(
            "  class {}  sizes {}/{}/{}/{}",
            if classes.is_empty() { "-".to_owned() } else { classes.join(", ") },
            count(tiny),
            count(small),
            count(med),
            count(big)
        ),
    ]
}

fn events(report: &HostsReport) -> Section {
    let mut hosts: BTreeMap<IpAddr, Vec<&Event>> = BTreeMap::new();
    for (event, of) in &report.events {
        of.iter().for_each(|host| hosts.entry(*host).or_default().push(event));
    }
    let mut hosts: Vec<_> = hosts.into_iter().collect();
    hosts.sort_by_key(|(host, events)| (Reverse(events.len()), *host));
    let line = |event: &&Event| {
        let (first, _) = times(report, (event.begin * 1e9) as u64, 0);
        format!("  {first} {}: {}", event.kind, event.text)
    };
    let lines = hosts.iter().map(|(host, events)| {
        let first = counted(events.len() as u64, "event");
        (*host, cut(std::iter::once(first).chain(events.iter().map(line)).collect()))
    });
    Section {
        title: format!("EVENTS: {}", counted(hosts.len() as u64, "host")),
        about: "Events of the period with the host as subject or target, the latest first.".to_owned(),
        hosts: lines.collect(),
        often: 0,
    }
}
