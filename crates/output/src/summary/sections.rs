//! The sections of a summary: lines with a label before the first.

use super::label::{ranges, service_name};
use super::{
    Facts, InputFacts, Naming, RangeFacts, Style, analysed, claims, error_share, key, key_short, scan_short,
    series, top_of,
};
use crate::Applications;
use crate::figures::{
    bar, bit_rate, bytes, count, counted, duration, left, loss_percent, packet_rate, percent, printable,
    right, sparkline, squeeze, width, wrap,
};
use crate::ports;
use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::net::IpAddr;
use weir_api::event::FINDING;
use weir_api::{
    AnswerId, Count, Datum, ERROR_KINDS, Event, Folded, Key, Series, Snapshot, Subject, SubscriptionId,
    Sweep, TableRow, Top, TopRow, Trials, builtin, state_words,
};

/// The decode error of packets whose link type is not supported.
const UNKNOWN_LINK: &str = ERROR_KINDS[2];

/// Maximum scans, and findings of subscriptions, listed.
const FOUND: usize = 2;

/// Severity of a line, which colour repeats.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) enum Tone {
    /// Normal.
    #[default]
    Plain,
    /// Needs attention.
    Warning,
    /// Loss or an error.
    Bad,
}

/// Lines under a label.
#[derive(Default)]
pub(super) struct Section {
    pub label: &'static str,
    pub lines: Vec<(String, Tone)>,
}

impl Section {
    pub(super) fn new(label: &'static str) -> Self {
        Self { label, lines: Vec::new() }
    }

    pub(super) fn line(&mut self, text: String, tone: Tone) {
        self.lines.push((text, tone));
    }

    /// One line with the first entries, as many as there is room for, but at least one. It ends with the number of the others
    /// among `all`, which are called by `noun`.
    pub(super) fn entries(&mut self, entries: &[String], all: usize, noun: Option<&str>, room: usize) {
        self.groups(&[Group { entries, all, is_whole: true, noun }], room);
    }

    /// One line with the first entries of each group, as many as there is room for. After its entries each group has the
    /// number of its others.
    pub(super) fn groups(&mut self, groups: &[Group<'_>], room: usize) {
        let groups: Vec<&Group<'_>> = groups.iter().filter(|group| !group.entries.is_empty()).collect();
        // What the groups show grows in turns, so that each has something before one has much.
        let mut shown = vec![0; groups.len()];
        let line = |shown: &[usize]| {
            let parts = groups.iter().zip(shown).map(|(group, shown)| group.text(*shown));
            parts.filter(|part| !part.is_empty()).collect::<Vec<_>>().join("   ")
        };
        let most = groups.iter().map(|group| group.entries.len()).max().unwrap_or(0);
        for turn in 1..=most {
            for at in 0..groups.len() {
                let is_grown = groups.get(at).is_some_and(|group| group.entries.len() >= turn)
                    && shown.get(at) == Some(&(turn - 1));
                let mut longer = shown.clone();
                if let Some(count) = longer.get_mut(at).filter(|_| is_grown) {
                    *count = turn;
                }
                let is_first = shown.iter().all(|count| *count == 0);
                if is_first || width(&line(&longer)) <= room {
                    shown = longer;
                }
            }
        }
        if !groups.is_empty() {
            self.line(line(&shown), Tone::Plain);
        }
    }

    /// Adds a text in up to `max` lines.
    fn emit_wrapped(&mut self, text: &str, room: usize, max: usize, tone: Tone) {
        self.lines.extend(wrap(text, room, max).into_iter().map(|line| (line, tone)));
    }
}

/// Entries of one list in a line.
pub(super) struct Group<'e> {
    /// The first of them, one or more.
    pub entries: &'e [String],
    /// How many there are.
    pub all: usize,
    /// Whether [`Group::all`] is their number. Otherwise there are more.
    pub is_whole: bool,
    /// The word for one of them; the number alone without one.
    pub noun: Option<&'e str>,
}

impl Group<'_> {
    /// The first entries, and the number of the others.
    fn text(&self, shown: usize) -> String {
        let mut text = self.entries.iter().take(shown).map(String::as_str).collect::<Vec<_>>().join("   ");
        let more = self.all.saturating_sub(shown) as u64;
        if more > 0 || !self.is_whole {
            let about = if self.is_whole { "" } else { "more than " };
            let word = if shown == 0 { "" } else { "more " };
            let number = match self.noun {
                _ if more == 0 => "others".to_owned(),
                None => format!("{} {word}", count(more)).trim_end().to_owned(),
                Some(noun) => counted(more, &format!("{word}{noun}")),
            };
            let and = if shown == 0 { "" } else { "   and " };
            let about = if more == 0 { "" } else { about };
            text.push_str(&format!("{and}{about}{number}"));
        }
        text
    }
}

/// Maximum bars of the sparkline.
const CELLS: usize = 24;
/// Minimum columns of a host's name.
const MIN_OF_HOST: usize = 12;
/// Minimum columns of a talker's bar.
const MIN_BAR: usize = 3;
/// Minimum bars of the sparkline.
const MIN_CELLS: usize = 4;
/// Minimum columns of an input's name next to its description.
const MIN_OF_NAME: usize = 24;
/// Maximum inputs whose problems are listed.
const PROBLEMS: usize = 2;
/// Maximum lines of a problem or a failure.
const PROBLEM_LINES: usize = 2;
/// Maximum lines of the states of flows, and columns that a break between words may cost.
const STATE_LINES: usize = 2;
const STATE_LOSS: usize = 12;
/// Maximum lines of the balance.
const BALANCE_LINES: usize = 3;
/// Indentation of the lines below the name of the input.
const INDENT: usize = 10;

/// The inputs: the lines without a label at the top.
pub(super) fn inputs(facts: &Facts, style: &Style, room: usize) -> Vec<(String, Tone)> {
    let interval = facts.total.times();
    let took = match interval.end.saturating_sub(interval.start) {
        0 => String::new(),
        time => duration(time),
    };
    let (packets, wire_bytes) = (facts.total.ledger.caught, facts.total.ledger.bytes);
    let links = distinct(facts.inputs.iter().flat_map(|input| input.links.iter().cloned()));
    let formats = distinct(facts.inputs.iter().map(|input| input.format.clone()));
    let what = [formats.join(" + "), links.join(" + "), counted(packets, "packet"), bytes(wire_bytes), took]
        .into_iter()
        .filter(|part| !part.is_empty())
        .collect::<Vec<_>>()
        .join(", ");
    let name = match facts.inputs.as_slice() {
        [] => "no input".to_owned(),
        [one] => one.name.clone(),
        several => format!("{} inputs", several.len()),
    };
    let mut lines = Vec::new();
    // The end of a long name is shown, since it distinguishes files. If there is not enough room, the name has a
    // separate line.
    let name = printable(&name);
    let beside = room.saturating_sub(width(&what) + 2);
    if beside >= width(&name).min(MIN_OF_NAME) {
        lines.push((format!("{}  {what}", ending(&name, beside)), Tone::Plain));
    } else {
        lines.push((ending(&name, room), Tone::Plain));
        lines.push((indented(&what), Tone::Plain));
    }
    if packets > 0 {
        lines.push((indented(&times(interval.start, interval.end, style)), Tone::Plain));
    }
    lines.extend(condition(facts, room - INDENT).map(|(text, tone)| (indented(&text), tone)));
    if let Some(range) = &facts.range {
        for (text, tone) in in_range(range, packets, style, room - INDENT) {
            lines.push((indented(&text), tone));
        }
    }
    if let Some(expression) = &facts.expression {
        let ledger = &facts.total.ledger;
        let matched = format!("{} of {} match: ", count(ledger.analysed), counted(ledger.caught, "packet"));
        lines.push((indented(&format!("{matched}{}", printable(expression))), Tone::Plain));
    }
    lines
}

/// The packets in the time range of the run; where there are none, the times of those outside.
fn in_range(range: &RangeFacts, packets: u64, style: &Style, room: usize) -> Vec<(String, Tone)> {
    let at = |time| format!("{} {}", style.zone.date_time(time), style.zone.label(time));
    let span = match (range.from, range.until) {
        (from, u64::MAX) => format!("since {}", at(from)),
        (0, until) => format!("until {}", at(until)),
        (from, until) => times(from, until, style),
    };
    let text =
        format!("{} of {} in the range {span}", count(packets), counted(packets + range.outside, "packet"));
    let mut lines: Vec<_> = wrap(&text, room, 2).into_iter().map(|line| (line, Tone::Plain)).collect();
    if let (0, Some((first, last))) = (packets, range.times) {
        lines.push((format!("the packets are from {}", times(first, last, style)), Tone::Warning));
    }
    lines
}

fn indented(text: &str) -> String {
    format!("{:INDENT$}{text}", "")
}

/// The end of a printable text in at most `room` columns.
fn ending(text: &str, room: usize) -> String {
    let mut start = 0;
    while let Some(rest) = text.get(start..) {
        if width(rest) < room + usize::from(start == 0) {
            return if start == 0 { rest.to_owned() } else { format!("…{rest}") };
        }
        start += rest.chars().next().map_or(1, char::len_utf8);
    }
    String::new()
}

fn distinct(names: impl Iterator<Item = String>) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for name in names.filter(|name| !name.is_empty()) {
        if !found.contains(&name) {
            found.push(name);
        }
    }
    // Of more than three kinds, two and their number are shown.
    if found.len() > 3 {
        let more = found.len() - 2;
        found.truncate(2);
        found.push(format!("{more} more"));
    }
    found
}

/// `2026-11-21 01:46:08.985 -> 01:46:09.532 UTC`, with the date repeated if it differs.
fn times(start: u64, end: u64, style: &Style) -> String {
    let zone = &style.zone;
    if start == end {
        return format!("{} {}", zone.date_time(start), zone.label(start));
    }
    let to = if zone.date(start) == zone.date(end) { zone.clock_millis(end) } else { zone.date_time(end) };
    let (from_label, label) = (zone.label(start), zone.label(end));
    let from = zone.date_time(start);
    if from_label == label {
        format!("{from} -> {to} {label}")
    } else {
        format!("{from} {from_label} -> {to} {label}")
    }
}

/// Whether the inputs were complete and in order.
fn condition(facts: &Facts, room: usize) -> impl Iterator<Item = (String, Tone)> {
    let mut lines = Vec::new();
    let several = facts.inputs.len() > 1;
    let troubled: Vec<&InputFacts> = facts.inputs.iter().filter(|input| input.problem.is_some()).collect();
    for input in troubled.iter().take(PROBLEMS) {
        let problem = input.problem.as_deref().unwrap_or_default();
        let text = if several {
            format!("{}: {problem}", ending(&printable(&input.name), 24))
        } else {
            problem.to_owned()
        };
        lines.extend(wrap(&text, room, PROBLEM_LINES).into_iter().map(|line| (line, Tone::Bad)));
    }
    if troubled.len() > PROBLEMS {
        lines.push((format!("and {} more not read to the end", troubled.len() - PROBLEMS), Tone::Bad));
    }
    let mut words = Vec::new();
    if facts.interrupted {
        words.push("interrupted".to_owned());
    } else if troubled.is_empty() && facts.inputs.iter().any(|input| !input.live) {
        words.push("complete".to_owned());
    }
    let order: Vec<bool> = facts.inputs.iter().filter_map(|input| input.in_order).collect();
    if order.contains(&false) {
        words.push("not in time order".to_owned());
    } else if !order.is_empty() {
        words.push("in time order".to_owned());
    }
    if facts.total.ledger.time_jumps > 0 {
        words.push(counted(facts.total.ledger.time_jumps, "time jump"));
    }
    if !words.is_empty() {
        lines.push((words.join("  "), Tone::Plain));
    }
    lines.into_iter()
}

/// Rates, their course over time, and shares of protocols.
pub(super) fn traffic(facts: &Facts, room: usize) -> Section {
    let mut section = Section::new("TRAFFIC");
    let all = analysed(&facts.total);
    if all.packets == 0 {
        section.line("none".to_owned(), Tone::Plain);
        return section;
    }
    let seconds = facts.total.times().seconds();
    let rates = if seconds > 0.0 {
        format!(
            "{} avg   {}",
            bit_rate(all.bytes as f64 * 8.0 / seconds),
            packet_rate(all.packets as f64 / seconds)
        )
    } else {
        format!("{}, {} at a single time", counted(all.packets, "packet"), bytes(all.bytes))
    };
    let strip = series(&facts.total).and_then(|series| strip(series, room.saturating_sub(width(&rates) + 3)));
    section.line(strip.map_or_else(|| rates.clone(), |strip| format!("{rates}   {strip}")), Tone::Plain);
    let shares = shares(facts, &all);
    if !shares.is_empty() {
        section.line(shares.join("  "), Tone::Plain);
    }
    section
}

/// A sparkline of bytes with the duration of a bar, if there is room and more than one interval.
fn strip(series: &Series, room: usize) -> Option<String> {
    let values: Vec<u64> = series.cells.iter().map(|cell| cell.bytes).collect();
    let first = values.iter().position(|&value| value > 0)?;
    let last = values.iter().rposition(|&value| value > 0)?;
    let values = values.get(first..=last).filter(|values| values.len() > 1)?;
    let note = |each: usize| format!("  (each bar {})", short(series.step.saturating_mul(each as u64)));
    // The duration of a bar depends on their number, and their number on the room next to that duration.
    (MIN_CELLS..=CELLS.min(room)).rev().find_map(|cells| {
        let (values, each) = squeeze(values, cells);
        let strip = format!("{}{}", sparkline(&values), note(each));
        (width(&strip) <= room).then_some(strip)
    })
}

/// A duration without trailing zeros: `0.64 s`.
fn short(nanoseconds: u64) -> String {
    let text = duration(nanoseconds);
    match text.strip_suffix(" s").filter(|number| number.contains('.')) {
        Some(number) => format!("{} s", number.trim_end_matches('0').trim_end_matches('.')),
        None => text,
    }
}

/// Shares of bytes by network and transport protocol, if they are exact.
fn shares(facts: &Facts, all: &Count) -> Vec<String> {
    let mut shares = Vec::new();
    if let Some(top) = top_of(&facts.total, builtin::SOURCES).filter(|top| top.is_exact()) {
        let sum = |v4: bool| {
            top.rows
                .iter()
                .filter(
                    |row| matches!(row.key, Key::Address(address) if matches!(address, IpAddr::V4(_)) == v4),
                )
                .fold(0, |sum: u64, row| sum.saturating_add(row.count.bytes))
        };
        for (name, bytes) in [("IPv4", sum(true)), ("IPv6", sum(false))] {
            if bytes > 0 {
                shares.push(format!("{name} {}", percent(bytes, all.bytes)));
            }
        }
    }
    if let Some(top) = top_of(&facts.total, builtin::PROTOCOLS).filter(|top| top.is_exact()) {
        let in_all = top.rows.iter().fold(0, |sum: u64, row| sum.saturating_add(row.count.bytes));
        for row in top.rows.heaviest(4, |row| row.count.bytes) {
            if let Key::Protocol(protocol) = row.key {
                shares.push(format!("{} {}", protocol_name(protocol), percent(row.count.bytes, all.bytes)));
            }
        }
        if in_all < all.bytes {
            shares.push(format!("not IP {}", percent(all.bytes - in_all, all.bytes)));
        }
    }
    shares
}

fn protocol_name(protocol: u8) -> String {
    match protocol {
        58 => "ICMPv6".to_owned(),
        _ => ports::known_protocol(protocol)
            .map_or_else(|| format!("protocol {protocol}"), str::to_ascii_uppercase),
    }
}

/// Number of talkers to show.
pub(super) fn talker_count(facts: &Facts) -> usize {
    top_of(&facts.total, builtin::TALKERS).map_or(0, |top| top.rows.len().min(top.show))
}

/// The top talkers.
pub(super) fn talkers(facts: &Facts, style: &Style, room: usize, max: usize) -> Section {
    let mut section = Section::new("TALKERS");
    let Some(top) = top_of(&facts.total, builtin::TALKERS) else { return section };
    let rows: Vec<TopRow> = top.ranked().into_iter().take(max).collect();
    let greatest = rows.first().map_or(0, |row| row.count.in_unit(top.unit));
    let applications = Applications::of(&facts.total);
    let naming = Naming::of(&applications, style.names);
    let cells: Vec<[String; 4]> = rows.iter().map(|row| cells(row, top, naming)).collect();
    let widest = |column: usize| {
        cells.iter().filter_map(|row| row.get(column)).map(|text| width(text)).max().unwrap_or(0)
    };
    let widths: [usize; 4] = std::array::from_fn(widest);
    let gaps = 2 * widths.iter().filter(|width| **width > 0).count();
    // The rest of the line is shared by the two addresses; the remaining room is for the bar.
    let left_over = room.saturating_sub(widths.iter().sum::<usize>() + gaps + " <-> ".len());
    // Every row has a bar, however long its ends are.
    let of_ends = left_over.saturating_sub(MIN_BAR + 2);
    let longest = |room: usize| {
        let ends = rows.iter().map(|row| key_short(&row.key, room));
        ends.fold((0, 0), |(server, client), (a, b)| (width(&a).max(server), width(&b).max(client)))
    };
    let (servers, clients) = longest(left_over);
    let of_end = if servers + clients <= of_ends { of_ends } else { of_ends / 2 };
    let of_clients = longest(of_end).1;
    let names = |row: &TopRow| name_of(facts, &row.key).filter(|_| style.names);
    let ends: Vec<(String, String)> = rows
        .iter()
        .map(|row| {
            let (server, client) = key_short(&row.key, of_end);
            // A name takes the place of the server's address, with its port, and the room that clients leave.
            let room = of_ends.saturating_sub(of_clients);
            let name = names(row).and_then(|name| named(name, &row.key, room));
            (name.unwrap_or(server), client)
        })
        .collect();
    let server = ends.iter().map(|(server, _)| width(server)).max().unwrap_or(0);
    let client = ends.iter().map(|(_, client)| width(client)).max().unwrap_or(0);
    let columns = left_over.saturating_sub(server + client + 2).min(12);
    for ((row, cells), (from, to)) in rows.iter().zip(&cells).zip(&ends) {
        let [service, flows, volume, error] = cells;
        let mut text = format!("{} <-> {}", left(from, server), left(to, client));
        text.push_str(&format!("  {}", left(service, widths[0])));
        text.push_str(&format!("  {}", right(flows, widths[1])));
        text.push_str(&format!("  {}", right(volume, widths[2])));
        if widths[3] > 0 {
            text.push_str(&format!("  {}", left(error, widths[3])));
        }
        if columns >= MIN_BAR {
            text.push_str(&format!("  {}", bar(row.count.in_unit(top.unit), greatest, columns)));
        }
        section.line(text.trim_end().to_owned(), Tone::Plain);
    }
    section
}

/// The name that a talker's client resolved for its server.
fn name_of<'f>(facts: &'f Facts, key: &Key) -> Option<&'f str> {
    let Key::Talker { server, client, .. } = *key else { return None };
    facts.names.get(&(server, client)).map(String::as_str)
}

/// The name of a talker's server with its port, in at most `room` columns.
fn named(name: &str, key: &Key, room: usize) -> Option<String> {
    let Key::Talker { port, protocol, .. } = *key else { return None };
    let port = if ports::has_ports(protocol) { format!(":{port}") } else { String::new() };
    let room = room.checked_sub(width(&port)).filter(|room| *room >= MIN_OF_HOST.min(width(name)))?;
    Some(ending(&printable(name), room) + &port)
}

/// The keys of a built-in table with what ranks them, the heaviest first.
fn ranked(total: &Snapshot, subscription: SubscriptionId) -> Vec<(&[Datum], u64)> {
    let table = total.table_at(AnswerId { subscription, place: 0 });
    let ranked = table.map(|table| table.rows.heaviest(table.rows.len(), TableRow::weight));
    ranked.into_iter().flatten().map(|row| (&*row.key, row.weight())).collect()
}

/// The tunnels: all packets, or the shares in each.
pub(super) fn tunnels(facts: &Facts, room: usize) -> Section {
    let mut section = Section::new("TUNNELS");
    let all = analysed(&facts.total).packets;
    let entry = |(key, packets): &(&[Datum], u64)| {
        let [Datum::Text(name), network] = key else { return None };
        let network =
            if let Datum::Number(network) = network { format!(" {network}") } else { String::new() };
        let share = if *packets >= all { "all".to_owned() } else { percent(*packets, all) };
        Some(format!("{share} inside {name}{network}"))
    };
    let entries: Vec<String> = ranked(&facts.total, builtin::TUNNELS).iter().filter_map(entry).collect();
    section.entries(&entries, entries.len(), Some("tunnel"), room);
    section
}

/// Packets without IP by kind: `80 ARP, 20 LLDP`, in at most `room` columns.
fn without_ip(facts: &Facts, room: usize) -> String {
    let mut text = String::new();
    let found = ranked(&facts.total, builtin::NON_IP);
    for (at, (key, packets)) in found.iter().enumerate() {
        let [Datum::Text(name)] = key else { continue };
        let comma = if at == 0 { "" } else { ", " };
        let entry = format!("{comma}{} {name}", count(*packets));
        let more = if at + 1 < found.len() { ", ...".len() } else { 0 };
        if width(&text) + width(&entry) + more > room {
            text.push_str(if at == 0 { "" } else { ", ..." });
            break;
        }
        text.push_str(&entry);
    }
    text
}

/// What was found: scans, floods, then the findings of subscriptions.
pub(super) fn findings(facts: &Facts, room: usize) -> Section {
    let mut section = Section::new("FINDINGS");
    let scans = super::scans(&facts.total);
    let (floods, found) = (floods(&facts.total), of_subscriptions(&facts.total));
    let lines = [
        first_lines(&scans, "more scan", room, scan_line),
        first_lines(&floods, "more flood", room, |event, room| flood_line(event, room)),
        first_lines(&found, "more finding", room, |event, room| finding_line(event, room)),
    ];
    lines.into_iter().flatten().for_each(|line| section.line(line, Tone::Warning));
    section
}

/// The floods that were found, the largest first.
pub fn floods(total: &Snapshot) -> Vec<&Event> {
    let is_flood = |event: &&Event| matches!(event.subject, Subject::Target { .. });
    let mut floods: Vec<&Event> = total.events.iter().filter(is_flood).collect();
    floods.sort_by_key(|event| Reverse(event.count));
    floods
}

/// The findings of functions of subscriptions.
pub fn of_subscriptions(total: &Snapshot) -> Vec<&Event> {
    total.events.iter().filter(|event| *event.kind == FINDING).collect()
}

/// The lines of the first of some findings; the last line has the number of the others.
fn first_lines<T>(all: &[T], others: &str, room: usize, line: impl Fn(&T, usize) -> String) -> Vec<String> {
    let more = all.len().saturating_sub(FOUND);
    let each = all.iter().take(FOUND).enumerate().map(|(at, one)| {
        let others = match more {
            n if n > 0 && at + 1 == FOUND => format!("  and {}", counted(n as u64, others)),
            _ => String::new(),
        };
        format!("{}{others}", line(one, room.saturating_sub(width(&others))))
    });
    each.collect()
}

/// A flood with its numbers, as far as `room` columns hold them.
pub fn flood_line(event: &Event, room: usize) -> String {
    let of = |name| event.number(name).unwrap_or(0);
    let answered = match of("answered") {
        0 => ", unanswered".to_owned(),
        answered => format!(", {} answered", percent(answered, event.count)),
    };
    let is_exact = matches!(event.value("sources"), Some(Folded::Distinct(sources)) if sources.is_exact());
    let sources = format!("{}{}", if is_exact { "" } else { "about " }, counted(of("sources"), "host"));
    // The sources are those of the packets, and not of the fragments.
    let (fragments, sources) = match of("fragments") {
        0 => (String::new(), format!(" from {sources}")),
        fragments => (format!(", {}", counted(fragments, "fragment")), format!(", from {sources}")),
    };
    let mut line = format!("{} {}", event.name().replace('_', " "), event.subject);
    for part in [format!("  {}", count(event.count)), fragments, sources, answered] {
        if width(&line) + width(&part) <= room {
            line.push_str(&part);
        }
    }
    line
}

/// A finding of a subscription with its number, as far as `room` columns hold it.
pub fn finding_line(event: &Event, room: usize) -> String {
    let number = match event.value("most").or_else(|| event.value("least")) {
        Some(number) => count(number.weight()),
        None => counted(event.count, "time"),
    };
    let begin = format!("{}  {}", event.name(), event.subject);
    let end = format!("  {number}");
    match width(&begin) + width(&end) <= room {
        true => begin + &end,
        false => begin,
    }
}

/// A scan with its ports, duration and outcome, as far as `room` columns hold them.
pub fn scan_line(row: &Trials, room: usize) -> String {
    let time = match row.last.saturating_sub(row.first) {
        0 => " at once".to_owned(),
        time => format!(" in {}", duration(time)),
    };
    let how = match (row.refused, row.unanswered) {
        (_, 0) => ", refused".to_owned(),
        (0, _) => ", unanswered".to_owned(),
        (refused, _) => format!(", {} of flows refused", percent(refused, refused + row.unanswered)),
    };
    let mut left_over = room;
    let begin = scan_short(row, left_over);
    left_over = left_over.saturating_sub(width(&begin));
    let mut end = String::new();
    for part in [time, how] {
        if let Some(rest) = left_over.checked_sub(width(&part)) {
            left_over = rest;
            end.push_str(&part);
        }
    }
    let ports = match (row.sweep, row.failed.values()) {
        (Sweep::Ports { .. }, Some(values)) => ranges(&values, left_over.saturating_sub(" ()".len())),
        _ => String::new(),
    };
    let ports = if ports.is_empty() { ports } else { format!(" ({ports})") };
    format!("{begin}{ports}{end}")
}

/// The number of addresses, and the one that sent and the one that received most.
pub(super) fn hosts(facts: &Facts, room: usize) -> Section {
    let mut section = Section::new("HOSTS");
    let all = analysed(&facts.total);
    let ends = [("from", builtin::SOURCES), ("to", builtin::DESTINATIONS)];
    let lists: Vec<(&str, &Top)> =
        ends.into_iter().filter_map(|(word, list)| Some((word, top_of(&facts.total, list)?))).collect();
    let addresses: BTreeSet<&Key> = lists.iter().flat_map(|(_, top)| &top.rows).map(|row| &row.key).collect();
    if addresses.is_empty() {
        return section;
    }
    let about = if lists.iter().all(|(_, top)| top.is_exact()) { "" } else { "more than " };
    let noun = if addresses.len() == 1 { "address" } else { "addresses" };
    let number = format!("{about}{} {noun}:", count(addresses.len() as u64));
    let heaviest: Vec<(String, Key)> = lists
        .iter()
        .filter_map(|(word, top)| {
            let row = *top.ranked().first()?;
            let (value, whole) = (row.count.in_unit(top.unit), all.in_unit(top.unit));
            let error = error_share(row.error, value).map(|error| format!(" {error}")).unwrap_or_default();
            Some((format!("{}{error} {word} ", percent(value, whole)), row.key))
        })
        .collect();
    // Long addresses share the rest of the line.
    let fixed = width(&number) + heaviest.iter().map(|(text, _)| 2 + width(text)).sum::<usize>();
    let each = room.saturating_sub(fixed) / heaviest.len().max(1);
    let entries = heaviest.iter().map(|(text, host)| format!("  {text}{}", key_short(host, each).0));
    section.line(entries.fold(number, |line, entry| line + &entry), Tone::Plain);
    section
}

/// Service, flows, volume and error of a talker.
fn cells(row: &TopRow, top: &Top, naming: Naming<'_>) -> [String; 4] {
    let service = match row.key {
        Key::Talker { server, port, protocol, .. } => service_name(protocol, port, server, naming),
        _ => String::new(),
    };
    let value = row.count.in_unit(top.unit);
    [
        service,
        counted(row.flows, "flow"),
        bytes(row.count.bytes),
        error_share(row.error, value).unwrap_or_default(),
    ]
}

/// Ports of servers by their share, with the protocols that were identified on them.
pub(super) fn ports(facts: &Facts, style: &Style, room: usize) -> Section {
    let mut section = Section::new("PORTS");
    let Some(top) = top_of(&facts.total, builtin::SERVICES) else { return section };
    let all = analysed(&facts.total).in_unit(top.unit);
    let applications = Applications::of(&facts.total);
    let naming = Naming::of(&applications, style.names);
    let ranked = top.ranked();
    let worth = |row: &TopRow| row.count.in_unit(top.unit).saturating_mul(100) >= all;
    if ranked.len() > 3 && !ranked.iter().any(worth) {
        let more = if top.is_exact() { "" } else { "more than " };
        let text = format!("{more}{}, each below 1%", counted(top.rows.len() as u64, "port"));
        section.line(text, Tone::Plain);
        return section;
    }
    let mut line = String::new();
    for row in ranked.iter().enumerate().filter(|(at, row)| *at < 3 || worth(row)).map(|(_, row)| row) {
        let value = row.count.in_unit(top.unit);
        let error = error_share(row.error, value).map(|error| format!(" {error}")).unwrap_or_default();
        let entry = format!("{} {}{error}", key(&row.key, naming), percent(value, all));
        if line.is_empty() {
            line = entry;
        } else if width(&line) + 3 + width(&entry) <= room {
            line = format!("{line}   {entry}");
        } else {
            break;
        }
    }
    if !line.is_empty() {
        section.line(line, Tone::Plain);
    }
    section
}

/// Ports of flows with payload in which no protocol was identified.
pub(super) fn unidentified(facts: &Facts, room: usize) -> Section {
    let mut section = Section::new("PAYLOAD");
    let Some(top) = top_of(&facts.total, builtin::UNIDENTIFIED) else { return section };
    let entry = |row: &TopRow| {
        let (port, flows) = (key(&row.key, Naming::numeric()), counted(row.flows, "flow"));
        format!("{port} {} in {flows}", bytes(row.count.bytes))
    };
    let mut entries: Vec<String> = top.ranked().iter().map(entry).collect();
    if let Some(first) = entries.first_mut() {
        first.insert_str(0, "unidentified: ");
    }
    section.entries(&entries, top.rows.len(), Some("port"), room);
    section
}

/// Number of flows and the states of those that ended.
pub(super) fn flows(facts: &Facts, room: usize) -> Section {
    let mut section = Section::new("FLOWS");
    let (flows, ledger) = (&facts.total.flows, &facts.total.ledger);
    if flows.begun() == 0 && ledger.unflowed == 0 {
        return section;
    }
    let mut text = if flows.begun() == 0 { "none".to_owned() } else { counted(flows.begun(), "flow") };
    let mut states = String::new();
    for (at, (state, n)) in facts.states.iter().enumerate() {
        let between = if at == 0 { ": " } else { ", " };
        let entry = match state_words(state) {
            "" => format!("{between}{state} {}", count(*n)),
            words => format!("{between}{} {words} ({state})", count(*n)),
        };
        // Two lines, of which each loses a few columns at its end.
        if width(&text) + width(&states) + width(&entry) + ", ...".len() > STATE_LINES * (room - STATE_LOSS) {
            states.push_str(if at == 0 { "" } else { ", ..." });
            break;
        }
        states.push_str(&entry);
    }
    text.push_str(&states);
    let mut more = Vec::new();
    if ledger.unflowed > 0 {
        let packets = format!("{} outside flows", counted(ledger.unflowed, "packet"));
        let kinds = without_ip(facts, (STATE_LINES * (room - STATE_LOSS)).saturating_sub(width(&packets)));
        more.push(match kinds.as_str() {
            "" => format!("{packets} (not IP, or truncated before the addresses)"),
            kinds => format!("{packets}: {kinds}"),
        });
    }
    let evicted = format!("{} evicted: flow table full", counted(flows.evicted, "flow"));
    let rest = more.join("");
    if rest.is_empty() || width(&text) + 3 + width(&rest) <= room {
        let gap = if rest.is_empty() { "" } else { "   " };
        section.emit_wrapped(&format!("{text}{gap}{rest}"), room, STATE_LINES, Tone::Plain);
    } else {
        section.emit_wrapped(&text, room, STATE_LINES, Tone::Plain);
        section.emit_wrapped(&rest, room, STATE_LINES, Tone::Plain);
    }
    if flows.evicted > 0 {
        section.line(evicted, Tone::Warning);
    }
    section
}

/// Decode errors, wrong checksums, and addresses that several stations claim.
pub(super) fn errors(facts: &Facts, room: usize) -> Section {
    let mut section = Section::new("ERRORS");
    let ledger = &facts.total.settled_ledger();
    let skipped = ledger.errors.unknown_link();
    if skipped > 0 {
        let links = distinct(facts.inputs.iter().flat_map(|input| input.undecoded.iter().cloned()));
        let links = if links.is_empty() { String::new() } else { format!(" ({})", links.join(", ")) };
        let text = format!("{} skipped: link type not supported{links}", counted(skipped, "packet"));
        section.emit_wrapped(&text, room, 2, Tone::Warning);
    }
    let total = ledger.errors.total() - skipped;
    if total > 0 {
        let mut kinds: Vec<(&str, &str, u64)> =
            ledger.errors.named().filter(|(_, kind, _)| *kind != UNKNOWN_LINK).collect();
        kinds.sort_by_key(|(.., n)| std::cmp::Reverse(*n));
        let mut text = format!("{} partly decoded:", counted(total, "packet"));
        for (at, (layer, kind, n)) in kinds.iter().enumerate() {
            let entry = format!("{} {layer} {kind} {}", if at == 0 { "" } else { "," }, count(*n));
            if width(&text) + width(&entry) + 8 > room {
                text.push_str(", ...");
                break;
            }
            text.push_str(&entry);
        }
        section.line(text, Tone::Warning);
    }
    if ledger.checksums_bad > 0 {
        let text = format!(
            "{} of {} wrong",
            count(ledger.checksums_bad),
            counted(ledger.checksums_verified, "checksum")
        );
        section.line(text, Tone::Warning);
    }
    for line in claims::conflicts(facts) {
        section.emit_wrapped(&line, room, 2, Tone::Warning);
    }
    section
}

/// Notes for the user.
pub(super) fn notes(facts: &Facts) -> Section {
    let mut section = Section::new("NOTE");
    if let [first, rest @ ..] = facts.total.offloading().as_slice() {
        let more = if rest.is_empty() { "" } else { " and others" };
        section.line(format!("checksum offload (sender {first}{more}): checks relaxed"), Tone::Plain);
    }
    for note in facts.notes.iter().take(2 - section.lines.len()) {
        section.line(note.clone(), Tone::Plain);
    }
    section
}

/// Packet loss and the balance of the ledger, in exact numbers.
pub(super) fn loss(facts: &Facts, room: usize) -> Section {
    let mut section = Section::new("LOSS");
    let ledger = &facts.total.ledger;
    let capture = &ledger.capture;
    let lost = capture.lost();
    let before: u64 = facts.inputs.iter().filter_map(|input| input.lost_before).sum();
    let cut = facts.inputs.iter().any(|input| input.problem.is_some());
    let balance = balance(facts);
    // The balance follows the verdict on its line if there is room, else below.
    let mut verdict = |verdict: &str, tone: Tone| {
        let both = format!("{verdict}   {balance}");
        if width(&both) <= room {
            section.line(both, tone);
        } else {
            section.line(verdict.to_owned(), tone);
            section.emit_wrapped(&balance, room, BALANCE_LINES, Tone::Plain);
        }
    };
    match (lost, cut) {
        (0, false) if before > 0 => verdict("none in this run", Tone::Plain),
        (0, false) => verdict("none", Tone::Plain),
        (0, true) => verdict("unknown after the error", Tone::Bad),
        (lost, _) => {
            let shares: Vec<String> = [("kernel", capture.dropped), ("interface", capture.interface_dropped)]
                .iter()
                .filter(|(_, n)| *n > 0)
                .map(|(by, n)| format!("{by} dropped {}", count(*n)))
                .collect();
            let text = format!(
                "{} of packets ({}): {}",
                loss_percent(ledger.loss_percent()),
                count(lost),
                shares.join(", ")
            );
            section.emit_wrapped(&text, room, 2, Tone::Bad);
            section.emit_wrapped(&balance, room, BALANCE_LINES, Tone::Plain);
        }
    }
    if before > 0 {
        section.line(
            format!("{} lost during capture, as recorded in the file", counted(before, "packet")),
            Tone::Warning,
        );
    }
    let mut unwritten = Vec::new();
    if ledger.rows_shed > 0 {
        unwritten.push(counted(ledger.rows_shed, "flow row"));
    }
    if ledger.packets_unwritten > 0 {
        unwritten.push(counted(ledger.packets_unwritten, "packet"));
    }
    if !unwritten.is_empty() {
        let text = format!("not written (disk too slow): {}", unwritten.join(", "));
        section.emit_wrapped(&text, room, PROBLEM_LINES, Tone::Bad);
    }
    for failure in facts.failures.iter().take(1) {
        section.emit_wrapped(failure, room, PROBLEM_LINES, Tone::Bad);
    }
    if let Some(imbalance) = ledger.imbalance() {
        section.emit_wrapped(&format!("ledger imbalance: {imbalance}"), room, PROBLEM_LINES, Tone::Bad);
    }
    section
}

/// `read 906 = decoded 906 = analysed 906`, or the differences.
fn balance(facts: &Facts) -> String {
    let ledger = &facts.total.ledger;
    let (verb, caught) =
        (if facts.inputs.iter().any(|input| input.live) { "caught" } else { "read" }, ledger.caught);
    if ledger.filtered > 0 {
        return format!(
            "{verb} {} = not matched {} + analysed {}",
            count(caught),
            count(ledger.filtered),
            count(ledger.analysed)
        );
    }
    let (errors, skipped) = (ledger.errors.total(), ledger.errors.unknown_link());
    let mut parts = format!("decoded {}", count(caught.saturating_sub(errors)));
    for (name, n) in [("partly", errors - skipped), ("skipped", skipped)] {
        if n > 0 {
            parts.push_str(&format!(" + {name} {}", count(n)));
        }
    }
    format!("{verb} {} = {parts} = analysed {}", count(caught), count(ledger.analysed))
}

/// Protocols whose ports an expression tests: TCP, UDP and SCTP (pcap-filter(7)). The talkers of DCCP have ports as well.
const PORTS_OF_EXPRESSIONS: [u8; 3] = [6, 17, 132];
/// Protocols whose payload `weir talk` reads: TCP and UDP.
const STREAMS_OF_TALK: [u8; 2] = [6, 17];

/// Suggested commands, derived from the results: each as its lines, the most useful first.
pub(super) fn next(facts: &Facts, room: usize) -> Vec<Vec<String>> {
    let [input] = facts.inputs.as_slice() else { return Vec::new() };
    // Standard input cannot be read again.
    if input.live || input.name == "-" || facts.total.ledger.caught == 0 {
        return Vec::new();
    }
    let Some(name) = quoted(&input.name) else { return Vec::new() };
    let mut commands = vec![explained(&format!("weir open {name}"), "its pages in the browser", room)];
    let heaviest =
        top_of(&facts.total, builtin::TALKERS).and_then(|top| top.ranked().first().map(|row| row.key));
    // The sender of a flood may not exist, and the server that it is sent to does.
    if let Some(Key::Talker { server, port, protocol, .. }) = heaviest {
        let port = if PORTS_OF_EXPRESSIONS.contains(&protocol) {
            format!(" and port {port}")
        } else {
            String::new()
        };
        let selected = format!("'host {server}{port}'");
        if STREAMS_OF_TALK.contains(&protocol) {
            commands.push(broken(&format!("weir talk {name}"), &selected, room));
        }
        commands.push(broken(&format!("weir {name}"), &format!("{selected} -w part.pcapng"), room));
    }
    commands.push(explained(&format!("weir {name} -o out --log zeek,eve"), "logs into out/", room));
    commands.retain(|lines| !lines.is_empty() && lines.iter().all(|line| width(line) <= room));
    commands
}

/// A command with its description, if there is room.
fn explained(command: &str, what: &str, room: usize) -> Vec<String> {
    let both = format!("{command}  {what}");
    vec![if width(&both) <= room { both } else { command.to_owned() }]
}

/// A command on one line, or on two with a shell continuation.
fn broken(begin: &str, end: &str, room: usize) -> Vec<String> {
    let line = format!("{begin} {end}");
    if width(&line) <= room { vec![line] } else { vec![format!("{begin} \\"), format!("  {end}")] }
}

/// A name quoted for a shell; `None` if it has characters that cannot be printed.
fn quoted(name: &str) -> Option<String> {
    if name.is_empty() || printable(name) != name {
        return None;
    }
    // A leading minus would make it an option, and a lone word may be the name of a command.
    let is_word = name.starts_with('-') || !name.contains(['/', '.']);
    let here = if is_word { "./" } else { "" };
    let plain = name.chars().all(|c| c.is_ascii_alphanumeric() || "_-./+,:@%".contains(c));
    Some(if plain { format!("{here}{name}") } else { format!("'{here}{}'", name.replace('\'', "'\\''")) })
}
