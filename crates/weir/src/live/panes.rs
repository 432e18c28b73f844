//! The nine panes and the loss line.

use super::entry::{Entry, cut, key_text, ranked, rates, titled};
use super::state::Order;
use super::table::{FigureRow, FigureTable};
use super::{LiveView, Palette, ScreenState, hosts};
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::Sparkline;
use weir_api::{Class, Count, Interval, Key, Ledger, Reading, Snapshot, SubscriptionId, Top, Unit, builtin};
use weir_output::Applications;
use weir_output::figures;
use weir_output::summary::top_of;
use weir_output::summary::{
    Naming, error_share, finding_line, flood_line, floods, of_subscriptions, scan, scans,
};

/// Draws the open pane.
pub fn body(frame: &mut Frame<'_>, area: Rect, view: &LiveView<'_>, state: &ScreenState) {
    let list = |frame: &mut Frame<'_>, title: &str, list: SubscriptionId| {
        top_list(frame, area, title, list, view, state);
    };
    match state.pane {
        1 => overview(frame, area, view, state),
        2 => list(frame, "TALKERS", builtin::TALKERS),
        3 => list(frame, "SERVICES", builtin::SERVICES),
        4 => hosts::hosts(frame, area, view, state),
        5 => findings(frame, area, view, state.palette),
        6 => list(frame, "FLOWS", builtin::FLOWS),
        7 => protocols(frame, area, view, state),
        8 => errors(frame, area, view, state.palette),
        _ => ledger(frame, area, view, state.palette),
    }
}

// -- overview --------------------------------------------------------------------------------------------

fn overview(frame: &mut Frame<'_>, area: Rect, view: &LiveView<'_>, state: &ScreenState) {
    let height = match area.height {
        0..8 => 0,
        8..16 => 2,
        16..28 => 3,
        _ => 5,
    };
    let (strips, lists) = cut(area, height * 2);
    if height > 0 {
        let (upper, lower) = cut(strips, height);
        strip(
            frame,
            upper,
            "BITS/S",
            view,
            state.palette,
            |c| c.bytes,
            |n| figures::bit_rate(n as f64 * 8.0),
        );
        strip(
            frame,
            lower,
            "PACKETS/S",
            view,
            state.palette,
            |c| c.packets,
            |n| figures::packet_rate(n as f64),
        );
    }
    let both = lists.height >= 7 || lists.width >= 110;
    let (talkers, services) = if !both {
        (lists, Rect { height: 0, ..lists })
    } else if lists.width >= 110 {
        let left = lists.width * 3 / 5;
        (Rect { width: left - 2, ..lists }, Rect { x: lists.x + left, width: lists.width - left, ..lists })
    } else {
        cut(lists, lists.height * 3 / 5)
    };
    top_list(frame, talkers, "TALKERS", builtin::TALKERS, view, state);
    top_list(frame, services, "SERVICES", builtin::SERVICES, view, state);
}

/// A strip chart of the last seconds, the newest on the right.
fn strip(
    frame: &mut Frame<'_>,
    area: Rect,
    title: &str,
    view: &LiveView<'_>,
    palette: Palette,
    value: fn(&Count) -> u64,
    shown: fn(u64) -> String,
) {
    let values: Vec<u64> = view.history.last(area.width.into()).iter().map(value).collect();
    let peak = values.iter().copied().max().unwrap_or(0);
    let about = format!(
        "now {}, peak {} in {}",
        shown(values.last().copied().unwrap_or(0)),
        shown(peak),
        span(view.history.known(values.len()))
    );
    let chart = titled(frame, area, title, &about, palette);
    frame.render_widget(Sparkline::default().data(values).max(peak.max(1)).style(palette.bar()), chart);
}

/// Seconds in words.
fn span(seconds: usize) -> String {
    if seconds < 120 { format!("{seconds} s") } else { format!("{} min", seconds / 60) }
}

// -- lists -----------------------------------------------------------------------------------------------

/// The key of the selected row of the open pane, the first one without a selection.
pub fn selected(view: &LiveView<'_>, state: &ScreenState) -> Option<Key> {
    let row = state.selected.unwrap_or(0);
    let list: SubscriptionId = match state.pane {
        1 | 2 => builtin::TALKERS,
        3 => builtin::SERVICES,
        4 => return hosts::ranked(view, state.order, row + 1).pop().map(|host| host.key),
        6 => builtin::FLOWS,
        7 => builtin::PROTOCOLS,
        _ => return None,
    };
    let total = top_of(view.total, list)?;
    ranked(top_of(view.last, list), total, state.order, row + 1).pop().map(|entry| entry.key)
}

fn top_list(
    frame: &mut Frame<'_>,
    area: Rect,
    title: &str,
    list: SubscriptionId,
    view: &LiveView<'_>,
    state: &ScreenState,
) {
    if area.height == 0 {
        return;
    }
    let Some(total) = top_of(view.total, list) else {
        titled(frame, area, title, "not counted", state.palette);
        return;
    };
    let about = about_list(total, state.order);
    let rest = titled(frame, area, title, &about, state.palette);
    let entries =
        ranked(top_of(view.last, list), total, state.order, usize::from(rest.height).saturating_sub(1));
    let max = entries.first().map_or(0, |entry| entry.weight(state.order).0);
    let applications = Applications::of(view.total);
    let naming = Naming::of(&applications, view.names);
    let rows = entries.iter().map(|entry| {
        let [bits, packets] = rates(entry.now, view.last.interval);
        let all = [
            (Unit::Bytes, figures::bytes(entry.all.bytes)),
            (Unit::Packets, figures::count(entry.all.packets)),
        ];
        let [bytes, all_packets] = all.map(|(unit, text)| bounded(text, unit, entry, total.unit));
        let figures = match state.order {
            Order::BytesNow => [bits, packets, bytes, all_packets],
            Order::PacketsNow => [packets, bits, all_packets, bytes],
            Order::Bytes => [bytes, bits, all_packets, packets],
            Order::Packets => [all_packets, packets, bytes, bits],
        };
        let mut cells = vec![key_text(&entry.key, naming)];
        cells.extend(figures);
        cells.push(figures::count(entry.flows));
        FigureRow { cells, share: (entry.weight(state.order).0, max) }
    });
    let titles = match state.order {
        Order::BytesNow => ["bits/s", "pkt/s", "bytes", "packets"],
        Order::PacketsNow => ["pkt/s", "bits/s", "packets", "bytes"],
        Order::Bytes => ["bytes", "bits/s", "packets", "pkt/s"],
        Order::Packets => ["packets", "pkt/s", "bytes", "bits/s"],
    };
    let titles = std::iter::once("").chain(titles).chain(["flows"]).collect();
    let table = FigureTable { titles, rows: rows.collect() };
    // The lists of the overview have no selection.
    let selected = state.selected.filter(|_| state.pane != 1);
    table.render_with(frame, rest, state.palette, selected);
}

/// Draws what was found: floods and the findings of subscriptions, a line each, then scans.
fn findings(frame: &mut Frame<'_>, area: Rect, view: &LiveView<'_>, palette: Palette) {
    let (scanned, flooded, found) = (scans(view.total), floods(view.total), of_subscriptions(view.total));
    let numbers = [(scanned.len(), "scan"), (flooded.len(), "flood"), (found.len(), "finding")];
    let parts: Vec<String> = numbers
        .iter()
        .filter(|(number, _)| *number > 0)
        .map(|(number, what)| figures::counted(*number as u64, what))
        .collect();
    let about = match parts.is_empty() {
        true => "no host tries many ports or hosts without success, and none is flooded".to_owned(),
        false => parts.join(", "),
    };
    let rest = titled(frame, area, "FINDINGS", &about, palette);
    let room = usize::from(area.width);
    let flooded = flooded.iter().map(|event| flood_line(event, room));
    let found = found.iter().map(|event| finding_line(event, room));
    let lines: Vec<Line<'_>> = flooded.chain(found).map(Line::from).collect();
    // Scans have at least their titles and a row, if there are any.
    let least = if scanned.is_empty() { 0 } else { 3 };
    let (upper, lower) = cut(rest, (lines.len() as u16).min(rest.height.saturating_sub(least)));
    for (line, y) in lines.iter().zip(upper.y..upper.bottom()) {
        frame.render_widget(line, Rect { y, height: 1, ..upper });
    }
    let (_, rest) = if upper.height > 0 { cut(lower, 1) } else { (lower, lower) };
    let rows = scanned.iter().map(|row| {
        let failed = row.refused + row.unanswered;
        let cells = vec![
            scan(row),
            figures::count(row.refused),
            figures::count(row.unanswered),
            match row.last.saturating_sub(row.first) {
                0 => "at once".to_owned(),
                time => figures::duration(time),
            },
        ];
        FigureRow { cells, share: (row.refused, failed) }
    });
    if !scanned.is_empty() {
        let titles = vec!["", "refused", "unanswered", "in"];
        FigureTable { titles, rows: rows.collect() }.render(frame, rest, palette);
    }
}

/// Marks a count that may be too low. Adds its error if its unit is the one that ranks the list.
fn bounded(text: String, unit: Unit, entry: &Entry, weighed: Unit) -> String {
    match error_share(entry.error, entry.all.in_unit(weighed)) {
        None => text,
        Some(share) if unit == weighed => format!("{text} {share}"),
        Some(_) => format!("≥{text}"),
    }
}

/// The order of a list, its size and its error.
fn about_list(top: &Top, order: Order) -> String {
    let keys = figures::count(top.rows.len() as u64);
    if top.is_exact() {
        return format!("{}, {keys} keys", order.name());
    }
    let inserts = figures::count(top.inserts);
    let weight = |n: u64| match top.unit {
        Unit::Bytes => figures::bytes(n),
        Unit::Packets => figures::counted(n, "packet"),
    };
    let (shed, max) = (weight(top.shed.in_unit(top.unit)), weight(top.absent));
    format!("{}, {keys} keys, {inserts} inserts, {shed} without a row, each at most {max}", order.name())
}

// -- protocols, cast, size -------------------------------------------------------------------------------

fn protocols(frame: &mut Frame<'_>, area: Rect, view: &LiveView<'_>, state: &ScreenState) {
    let sections = [("IP PROTOCOLS", "ipproto"), ("CAST", "cast"), ("SIZE", "size")];
    let mut left = area;
    let mut shown = 0;
    for (title, function) in sections {
        let Some((unit, all)) = classes_of(view.total, function) else { continue };
        let (part, rest) = cut(left, all.len() as u16 + 3);
        left = rest;
        shown += 1;
        let now = classes_of(view.last, function).map(|(_, classes)| classes).unwrap_or_default();
        let inner = titled(frame, part, title, "", state.palette);
        class_table(unit, all, now, view.last.interval).render(frame, inner, state.palette);
    }
    let (list, _) = cut(left, left.height);
    if top_of(view.total, builtin::PROTOCOLS).is_some() || shown == 0 {
        top_list(frame, list, "PROTOCOLS", builtin::PROTOCOLS, view, state);
    }
}

fn classes_of<'a>(snapshot: &'a Snapshot, function: &str) -> Option<(Unit, &'a [Class])> {
    match snapshot.reading_of(builtin::number_of(function)?)? {
        Reading::Classes { unit, classes } => Some((*unit, classes.as_slice())),
        _ => None,
    }
}

fn class_table(unit: Unit, all: &[Class], now: &[Class], interval: Interval) -> FigureTable {
    let sum: u64 = all.iter().map(|class| class.count.in_unit(unit)).sum();
    let rows = all.iter().map(|class| {
        let last = now.iter().find(|other| other.label == class.label).map(|other| other.count);
        let [bits, packets] = rates(last.unwrap_or_default(), interval);
        let share = (class.count.in_unit(unit), sum);
        let cells = vec![
            class.label.clone(),
            figures::percent(share.0, share.1),
            bits,
            packets,
            figures::bytes(class.count.bytes),
            figures::count(class.count.packets),
        ];
        FigureRow { cells, share }
    });
    FigureTable { titles: vec!["", "share", "bits/s", "pkt/s", "bytes", "packets"], rows: rows.collect() }
}

// -- errors ----------------------------------------------------------------------------------------------

fn errors(frame: &mut Frame<'_>, area: Rect, view: &LiveView<'_>, palette: Palette) {
    let (all, now) = (&view.total.settled_ledger(), &view.last.ledger);
    let wrong = all.errors.total();
    let about = match wrong {
        0 => "none".to_owned(),
        n => format!(
            "{} of {} packets; layers before the error are used",
            figures::count(n),
            figures::count(all.analysed)
        ),
    };
    let rest = titled(frame, area, "DECODE ERRORS", &about, palette);
    let mut rows: Vec<FigureRow> = all
        .errors
        .named()
        .map(|(layer, kind, count)| {
            let last =
                now.errors.named().find(|(l, k, _)| (*l, *k) == (layer, kind)).map_or(0, |(_, _, n)| n);
            figure_row(&format!("{layer}: {kind}"), count, last, wrong)
        })
        .collect();
    let (part, rest) = cut(rest, if rows.is_empty() { 1 } else { rows.len() as u16 + 2 });
    if !rows.is_empty() {
        FigureTable { titles: vec!["", "packets", "last second"], rows: std::mem::take(&mut rows) }
            .render(frame, part, palette);
    }
    let rest = titled(frame, rest, "OTHER", "", palette);
    let notable = [
        ("checksums wrong", all.checksums_bad, now.checksums_bad),
        ("checksums offloaded", all.checksums_offloaded, now.checksums_offloaded),
        ("checksums verified", all.checksums_verified, now.checksums_verified),
        ("outside flows: not IP, or no addresses", all.unflowed, now.unflowed),
        ("time jumps", all.time_jumps, now.time_jumps),
        ("counted in another interval", all.late, now.late),
    ];
    let rows = notable.iter().map(|(name, count, last)| figure_row(name, *count, *last, all.analysed));
    FigureTable { titles: vec!["", "packets", "last second"], rows: rows.collect() }
        .render(frame, rest, palette);
}

fn figure_row(name: &str, count: u64, last: u64, of: u64) -> FigureRow {
    let cells = vec![name.to_owned(), figures::count(count), figures::count(last)];
    FigureRow { cells, share: (count, of) }
}

// -- ledger ----------------------------------------------------------------------------------------------

fn ledger(frame: &mut Frame<'_>, area: Rect, view: &LiveView<'_>, palette: Palette) {
    let (all, now) = (&view.history.ledger, &view.last.ledger);
    let about = match all.imbalance() {
        None => "since the start, balanced".to_owned(),
        Some(imbalance) => format!("IMBALANCE: {imbalance}"),
    };
    let rest = titled(frame, area, "LEDGER", &about, palette);
    type Stage = (&'static str, fn(&Ledger) -> u64);
    let stages: [Stage; 8] = [
        ("reached the interface", |l| l.capture.offered + l.capture.interface_dropped),
        ("  - dropped by the interface", |l| l.capture.interface_dropped),
        ("  - dropped by the kernel", |l| l.capture.dropped),
        ("caught", |l| l.caught),
        ("  - not matched", |l| l.filtered),
        ("analysed", |l| l.analysed),
        ("  - outside flows", |l| l.unflowed),
        ("in flows", |l| l.flowed),
    ];
    let of = stages[0].1(all);
    let rows: Vec<FigureRow> =
        stages.iter().map(|(name, count)| figure_row(name, count(all), count(now), of)).collect();
    let (part, rest) = cut(rest, rows.len() as u16 + 2);
    FigureTable { titles: vec!["", "packets", "last second"], rows }.render(frame, part, palette);
    let flows = [
        ("flows", view.total.flows.created, view.last.flows.created),
        ("flows ended", view.total.flows.ended, view.last.flows.ended),
        ("  - evicted: table full", view.total.flows.evicted, view.last.flows.evicted),
        ("log rows shed", all.rows_shed, now.rows_shed),
        ("packets not written", all.packets_unwritten, now.packets_unwritten),
    ];
    let rows = flows.iter().map(|(name, count, last)| FigureRow {
        cells: vec![(*name).to_owned(), figures::count(*count), figures::count(*last)],
        share: (0, 0),
    });
    FigureTable { titles: vec!["", "total", "last second"], rows: rows.collect() }
        .render(frame, rest, palette);
}

// -- the loss line ---------------------------------------------------------------------------------------

/// Packet loss and where it occurred. The loss is first, so that it is visible on a narrow screen.
pub fn loss(view: &LiveView<'_>, palette: Palette, width: u16) -> Line<'static> {
    let (all, now) = (&view.history.ledger, &view.last.ledger);
    let lost = |ledger: &Ledger| ledger.capture.lost();
    let mut bad = lost(all) > 0;
    let mut parts = Vec::new();
    if bad {
        parts.push(format!(
            "LOSS {} ({})",
            figures::count(lost(all)),
            figures::loss_percent(all.loss_percent())
        ));
        if lost(now) > 0 {
            parts.push(format!("{} in the last second", figures::count(lost(now))));
        }
        let names = [("kernel", all.capture.dropped), ("interface", all.capture.interface_dropped)];
        parts.extend(
            names.iter().filter(|(_, n)| *n > 0).map(|(name, n)| format!("{name} {}", figures::count(*n))),
        );
    } else {
        parts.push("LOSS none".to_owned());
    }
    if let Some(imbalance) = all.imbalance() {
        bad = true;
        parts.push(format!("IMBALANCE: {imbalance}"));
    }
    for (count, what) in [(all.rows_shed, "log rows shed"), (all.packets_unwritten, "packets not written")] {
        if count > 0 {
            bad = true;
            parts.push(format!("{} {what}", figures::count(count)));
        }
    }
    if let Some(fill) = view.ring_fill {
        parts.push(format!("ring {:.0}% full", fill.clamp(0.0, 1.0) * 100.0));
    }
    let stages = [("offered", all.capture.offered), ("caught", all.caught), ("analysed", all.analysed)];
    let stages = stages.map(|(name, count)| format!("{name} {}", figures::count(count)));
    parts.push(stages.join("  "));
    let mut text = String::new();
    for part in parts {
        let longer = if text.is_empty() { part } else { format!("{text}   {part}") };
        if !text.is_empty() && figures::width(&longer) > width.into() {
            break;
        }
        text = longer;
    }
    Line::styled(figures::fit(&text, width.into()), if bad { palette.bad() } else { palette.strong() })
}

// -- help ------------------------------------------------------------------------------------------------

const KEYS: [(&str, &str); 11] = [
    ("1-9", "overview, talkers, services, hosts, findings, flows, protocols, errors, ledger"),
    ("up, down", "select a row of a list"),
    ("Enter", "details of the row; there / filters its packets, Esc and Backspace go back"),
    ("/", "edit the expression: Enter applies it, Esc cancels"),
    ("p", "pause or resume the panes; the loss line goes on"),
    ("w", "start or stop writing packets to a file"),
    ("o", "order of lists: bits/s now, packets/s now, total bytes, total packets"),
    ("left, right", "previous pane, next pane"),
    ("?", "show or hide this help"),
    ("q, Ctrl-C", "quit and print the summary"),
    ("", "The loss line at the bottom counts from the start of the run."),
];

/// Draws the list of keys.
pub fn help(frame: &mut Frame<'_>, area: Rect, palette: Palette) {
    let rest = titled(frame, area, "KEYS", "", palette);
    for ((key, meaning), y) in KEYS.iter().zip(rest.y..rest.bottom()) {
        let spans = vec![Span::styled(format!("{key:<13}"), palette.strong()), Span::raw(*meaning)];
        frame.render_widget(Line::from(spans), Rect { y, height: 1, ..rest });
    }
}
