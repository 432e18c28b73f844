//! The section of Wi-Fi: networks with their access points, channels and number of stations.

use super::Facts;
use super::sections::{Section, Tone};
use crate::figures::{counted, fit, printable};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use weir_api::{Datum, Reading, TableRow, builtin, mac_text};

/// Maximum networks that are shown.
const NETWORKS: usize = 3;
/// Maximum columns of a name.
const NAME: usize = 32;

/// An access point.
#[derive(Debug, Default)]
struct Point<'t> {
    /// Names, by their frames.
    names: BTreeMap<&'t str, u64>,
    channels: BTreeSet<u64>,
    stations: u64,
    /// Frames of management.
    management: u64,
    frames: u64,
}

/// The access points with the most frames, one in a line: `"home" 02:00:00:00:00:0a  channel 6  3 stations`. Those of which no
/// management was seen show no network.
pub fn wifi(facts: &Facts, room: usize) -> Section {
    let mut section = Section::new("WI-FI");
    let Some(Reading::Table(table)) = facts.total.reading_of(builtin::WIFI) else { return section };
    let mut points: BTreeMap<[u8; 6], Point<'_>> = BTreeMap::new();
    table.rows.iter().for_each(|row| add(&mut points, row));
    points.retain(|_, point| point.management > 0);
    let mut ranked: Vec<_> = points.iter().collect();
    ranked.sort_by_key(|(mac, point)| (Reverse(point.frames), *mac));
    for (mac, point) in ranked.iter().take(NETWORKS) {
        section.line(fit(&line(mac, point, table.absent > 0), room), Tone::Plain);
    }
    let more = ranked.len().saturating_sub(NETWORKS) as u64;
    if more > 0 || table.absent > 0 && !ranked.is_empty() {
        let about = if table.absent > 0 { "more than " } else { "" };
        section.line(format!("and {about}{}", counted(more, "more access point")), Tone::Plain);
    }
    section
}

fn add<'t>(points: &mut BTreeMap<[u8; 6], Point<'t>>, row: &'t TableRow) {
    let [Datum::Mac(bssid), ssid, channel, station] = row.key.as_slice() else { return };
    // A row whose error is as large as its number tells nothing.
    if row.error >= row.weight() {
        return;
    }
    let point = points.entry(*bssid).or_default();
    point.frames += row.weight();
    if *station != Datum::Nothing {
        point.stations += 1;
        return;
    }
    point.management += row.weight();
    if let Datum::Text(name) = ssid {
        *point.names.entry(name).or_default() += row.weight();
    }
    if let Datum::Number(channel) = channel {
        point.channels.insert(*channel);
    }
}

fn line(mac: &[u8; 6], point: &Point<'_>, is_cut: bool) -> String {
    let mut names: Vec<_> = point.names.iter().collect();
    names.sort_by_key(|(name, frames)| (Reverse(**frames), **name));
    let name = match names.as_slice() {
        // It is hidden, or no frame with it was seen.
        [] => "no name".to_owned(),
        [(name, _)] => format!("\"{}\"", fit(&printable(name), NAME)),
        [(name, _), others @ ..] => {
            format!("\"{}\" and {}", fit(&printable(name), NAME), counted(others.len() as u64, "more name"))
        }
    };
    let channels: Vec<String> = point.channels.iter().map(u64::to_string).collect();
    let channel = match channels.as_slice() {
        [] => String::new(),
        [one] => format!("  channel {one}"),
        several => format!("  channels {}", several.join(", ")),
    };
    let about = if is_cut { "more than " } else { "" };
    let stations = match point.stations {
        0 => "no station".to_owned(),
        n => format!("{about}{}", counted(n, "station")),
    };
    format!("{name}  {}{channel}  {stations}", mac_text(mac))
}
