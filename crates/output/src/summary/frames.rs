//! The section of packets without IP: who sends what to whom on the link.

use super::Facts;
use super::sections::{Section, Tone};
use crate::figures::{count, counted, fit, printable, width};
use weir_api::{Datum, Reading, Table, TableRow, builtin, mac_text};

/// Conversations that are shown where nothing else is, and beside flows.
const ALONE: usize = 5;
const BESIDE: usize = 1;
/// Maximum columns of the name of a network.
const NAME: usize = 20;

/// The heaviest conversations of packets without IP, one in a line.
pub fn frames(facts: &Facts, room: usize) -> Section {
    let mut section = Section::new("NOT IP");
    let Some(Reading::Table(table)) = facts.total.reading_of(builtin::FRAMES) else { return section };
    let max = if facts.total.flows.created == 0 { ALONE } else { BESIDE };
    let shown: Vec<&TableRow> =
        table.shown().into_iter().filter(|row| row.error < row.weight()).take(max).collect();
    for row in &shown {
        section.line(line(row), Tone::Plain);
    }
    let Some(others) = others(table, &shown) else { return section };
    match section.lines.last_mut() {
        Some((last, _)) if width(last) + 2 + width(&others) <= room => last.push_str(&format!("  {others}")),
        _ => section.line(others, Tone::Plain),
    }
    section
}

/// A conversation: `5 beacon of "home"  02:00:00:00:00:0a -> all`.
fn line(row: &TableRow) -> String {
    let [sender, receiver, kind, bssid, ssid] = row.key.as_slice() else { return String::new() };
    let error = if row.error > 0 { format!(" ±{}", count(row.error)) } else { String::new() };
    let kind = if let Datum::Text(kind) = kind { kind } else { "" };
    let network = match ssid {
        Datum::Text(name) => format!(" of \"{}\"", fit(&printable(name), NAME)),
        _ => String::new(),
    };
    // Of most frames the access point is one of the two ends.
    let by = match bssid {
        Datum::Mac(mac) if bssid != sender && bssid != receiver && *mac != EVERYONE => {
            format!("  by {}", mac_text(mac))
        }
        _ => String::new(),
    };
    // Acknowledgements have a receiver only.
    let from = if *sender == Datum::Nothing { "to ".to_owned() } else { format!("{} -> ", end(sender)) };
    format!("{}{error} {kind}{network}  {from}{}{by}", count(row.weight()), end(receiver))
}

/// The address of a frame for all stations.
const EVERYONE: [u8; 6] = [0xff; 6];

fn end(mac: &Datum) -> String {
    match mac {
        Datum::Mac(EVERYONE) => "all".to_owned(),
        Datum::Mac(mac) => mac_text(mac),
        _ => "?".to_owned(),
    }
}

/// What is not shown: `and 7 packets of 3 others`.
fn others(table: &Table, shown: &[&TableRow]) -> Option<String> {
    let listed: u64 = table.rows.iter().map(TableRow::weight).sum();
    let shed = table.shed.as_ref().and_then(|shed| shed.first()).copied().unwrap_or(0);
    let packets = listed + shed - shown.iter().map(|row| row.weight()).sum::<u64>();
    let keys = (table.rows.len() - shown.len()) as u64;
    let about = if shed > 0 { "more than " } else { "" };
    let and = if shown.is_empty() { "" } else { "and " };
    (packets > 0).then(|| format!("{and}{} of {about}{}", counted(packets, "packet"), counted(keys, "other")))
}
