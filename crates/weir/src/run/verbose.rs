//! The additions of `-v` to the summary: the whole ledger, and the contents of each file.

use crate::delivered::{DestinationKind, Row};
use std::fmt::Write;
use weir_api::{FlowCount, Ledger, SessionCount, Snapshot};
use weir_capture::{Files, InputInfo, InterfaceInfo, LATEST};
use weir_output::figures::{count, counted, printable};
use weir_output::zone::Zone;

/// Maximum number of interfaces and of comments listed per file.
const LISTED: usize = 16;

/// The ledger, stage by stage. Each line is part of the nearest line above it with less indentation.
pub fn ledger(total: &Snapshot) -> String {
    let Ledger { capture, errors, .. } = total.ledger;
    let Ledger { caught, bytes, captured_bytes, filtered, analysed, flowed, unflowed, .. } = total.ledger;
    let Ledger { checksums_verified, checksums_bad, checksums_offloaded, .. } = total.settled_ledger();
    let Ledger { time_jumps, late, rows_shed, packets_unwritten, .. } = total.ledger;
    let FlowCount { created, ended, evicted, followed, closed_shed, holes_shed, .. } = total.flows;
    let FlowCount { fragments_joined, fragments_unmatched, fragments_shed, .. } = total.flows;
    let mut text = String::from("\nLedger\n");
    let rows = [
        (0, "offered", capture.offered),
        (1, "dropped by the kernel", capture.dropped),
        (1, "dropped by the interface", capture.interface_dropped),
        (1, "caught", caught),
        (2, "bytes on the wire", bytes),
        (2, "bytes captured", captured_bytes),
        (2, "not matched", filtered),
        (2, "analysed", analysed),
        (3, "in flows", flowed),
        (3, "outside flows", unflowed),
        (3, "decode errors", errors.total()),
    ];
    rows.iter().for_each(|(depth, name, n)| row(&mut text, *depth, name, *n));
    if capture.outside > 0 {
        row(&mut text, 0, "outside of the time range", capture.outside);
    }
    for (layer, kind, n) in errors.named() {
        row(&mut text, 4, &format!("{layer}: {kind}"), n);
    }
    let rows = [
        (3, "checksums verified", checksums_verified),
        (4, "wrong", checksums_bad),
        (4, "offloaded", checksums_offloaded),
        (0, "flows", created),
        (1, "ended", ended),
        (2, "evicted: table full", evicted),
        (0, "late segments of closed connections", followed),
        (0, "closed connections forgotten", closed_shed),
        (0, "fragments joined to their flow", fragments_joined),
        (0, "fragments without the first", fragments_unmatched),
        (0, "fragmented packets forgotten", fragments_shed),
        (0, "streams with untracked gaps", holes_shed),
        (0, "time jumps", time_jumps),
        (0, "counted in another interval", late),
        (0, "log rows shed", rows_shed),
        (0, "packets not written", packets_unwritten),
    ];
    rows.iter().for_each(|(depth, name, n)| row(&mut text, *depth, name, *n));
    if total.sessions != SessionCount::default() {
        text.push_str("\nPayload\n");
        total.sessions.named().for_each(|(depth, name, n)| row(&mut text, depth, name, n));
    }
    text
}

fn row(text: &mut String, depth: usize, name: &str, n: u64) {
    let indented = format!("{:1$}{name}", "", 2 * (depth + 1));
    let _ = writeln!(text, "{indented:<48} {:>20}", count(n));
}

/// The destinations of the run: each with what it was offered and what became of it.
pub fn destinations(rows: &[Row]) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let mut text = format!(
        "\nDestinations\n  {:<30} {:>12} {:>12} {:>9} {:>9} {:>9} {:>9} {:>15}\n",
        "", "offered", "written", "shed", "lost", "limited", "missing", "bytes"
    );
    for Row { kind, name, count: of } in rows {
        let bytes = if *kind == DestinationKind::Log { String::new() } else { count(of.bytes) };
        let offered = format!("{} {}", count(of.offered), kind.unit());
        let [written, shed, lost] = [of.written, of.shed, of.lost].map(count);
        let [limited, missing] = [of.limited, of.missing].map(count);
        let name = printable(name);
        let _ = writeln!(
            text,
            "  {name:<27} {offered:>15} {written:>12} {shed:>9} {lost:>9} {limited:>9} {missing:>9} {bytes:>15}"
        );
    }
    text
}

/// The contents of each input, and the number of workers that read them.
pub fn files(files: &Files, workers: usize) -> String {
    let mut text = String::from("\nInputs\n");
    let _ = writeln!(text, "  read by {}", counted(workers as u64, "worker"));
    for (index, info) in files.describe().enumerate() {
        let interfaces: Vec<&InterfaceInfo> =
            files.interfaces().iter().filter(|interface| interface.input == index).collect();
        input(&mut text, info, &interfaces);
    }
    if files.interfaces_beyond() > 0 {
        let _ = writeln!(text, "  {} more interfaces, counted together", count(files.interfaces_beyond()));
    }
    text
}

fn input(text: &mut String, info: &InputInfo, interfaces: &[&InterfaceInfo]) {
    let format = info.format.map_or_else(|| "not a capture".to_owned(), |format| format.to_string());
    let _ = writeln!(text, "  {}: {format}, {} packets", printable(&info.name), count(info.packets));
    for interface in interfaces.iter().take(LISTED) {
        let name = interface.name.as_deref().unwrap_or("unnamed");
        let snaplen =
            if interface.snaplen == 0 { "none".to_owned() } else { count(interface.snaplen.into()) };
        let ticks = count(interface.ticks_per_second);
        let name = printable(name);
        let _ =
            writeln!(text, "    interface {name}: {}, snaplen {snaplen}, {ticks} ticks/s", interface.link);
    }
    for comment in info.machine.iter().chain(&info.comments).take(LISTED) {
        let _ = writeln!(text, "    {}", printable(comment));
    }
    if info.packet_comments > 0 {
        let _ = writeln!(text, "    {} comments on packets", count(info.packet_comments));
    }
    if info.times_clipped > 0 {
        let _ = writeln!(text, "    {}", clipped(info.times_clipped));
    }
    if info.resumed > 0 {
        let skipped = count(info.skipped_bytes);
        let _ = writeln!(text, "    resumed {} times, {skipped} bytes skipped", count(info.resumed));
    }
}

/// The text about packets whose time was too late.
pub fn clipped(packets: u64) -> String {
    let packets = if packets == 1 {
        "1 packet has a time".to_owned()
    } else {
        format!("{} packets have times", count(packets))
    };
    let latest = Zone::utc().date_time(LATEST.0);
    format!("{packets} after {latest} UTC, which are taken as that time")
}
