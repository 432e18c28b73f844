//! tshark's values of a capture.

use crate::fields::{As, Fields, Pair, Test};
use crate::values::{Flow, flow, form};
use crate::{Found, add};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Separator of the values of a field.
const UNIT: char = '\u{1f}';

/// Segments are put into order, as every receiver does it; names are not resolved.
const SETTINGS: [&str; 4] = ["-n", "-o", "tcp.reassemble_out_of_order:TRUE", "-r"];

/// tshark's output of a capture for these fields: a line for each packet, the fields separated by tabs.
fn output(capture: &Path, columns: &[&str]) -> String {
    let mut command = Command::new("tshark");
    command.args(SETTINGS).arg(capture).args(["-T", "fields", "-E"]).arg(format!("aggregator={UNIT}"));
    command.args(columns.iter().flat_map(|field| ["-e", field]));
    let ran = command.stdin(Stdio::null()).stderr(Stdio::null()).output().unwrap();
    String::from_utf8_lossy(&ran.stdout).into_owned()
}

/// tshark's lines, from the folder `WEIR_TSHARK_KEPT` if it is set: its file `fields` names the columns of the others,
/// each of which is the output of a capture.
fn lines(capture: &Path, columns: &[&'static str]) -> Vec<Vec<String>> {
    let split = |text: &str, places: &[usize]| -> Vec<Vec<String>> {
        let line = |line: &str| {
            let all: Vec<&str> = line.split('\t').collect();
            places.iter().map(|at| all.get(*at).map(|value| (*value).to_owned())).collect::<Option<_>>()
        };
        text.lines().filter_map(line).collect()
    };
    let Some(folder) = std::env::var_os("WEIR_TSHARK_KEPT").map(PathBuf::from) else {
        let places: Vec<usize> = (0..columns.len()).collect();
        return split(&output(capture, columns), &places);
    };
    let list = folder.join("fields");
    if !list.exists() {
        std::fs::write(&list, columns.join("\n")).unwrap();
    }
    let kept = std::fs::read_to_string(&list).unwrap();
    let kept: Vec<&str> = kept.lines().collect();
    let place = |column: &&str| kept.iter().position(|of| of == column);
    let places: Option<Vec<usize>> = columns.iter().map(place).collect();
    let places = places.unwrap_or_else(|| panic!("{} lacks fields", folder.display()));
    let name = capture.to_string_lossy();
    let name = name.rsplit_once("/data/").map_or(&*name, |(_, name)| name);
    let path = folder.join(name.replace('/', "_"));
    let text = std::fs::read(&path).unwrap_or_else(|_| {
        let text = output(capture, &kept);
        std::fs::write(&path, &text).unwrap();
        text.into_bytes()
    });
    split(&String::from_utf8_lossy(&text), &places)
}

/// tshark's values; `None` if it cannot read the capture.
pub fn values(capture: &Path, fields: &Fields) -> Option<Found> {
    // The packets before the place where a capture is cut off are there too.
    let lines = lines(capture, &fields.columns);
    let mut found = Found::new();
    for line in &lines {
        let columns: Vec<&str> = line.iter().map(String::as_str).collect();
        packet(&columns, fields, &mut found);
    }
    (!lines.is_empty()).then_some(found)
}

fn packet(columns: &[&str], fields: &Fields, found: &mut Found) {
    let protocols: Vec<&str> = columns[0].split(':').collect();
    // The packet within an error of ICMP is not sent by the flow that it names.
    if protocols.iter().any(|name| matches!(*name, "icmp" | "icmpv6")) {
        return;
    }
    let Some(flow) = ends(columns, &protocols) else { return };
    for (at, pair) in fields.pairs.iter().enumerate() {
        if pair.columns.iter().all(|column| columns[*column].is_empty()) {
            continue;
        }
        let has = |names: &[&str]| names.iter().any(|name| protocols.contains(name));
        if !pair.within.is_empty() && !has(&pair.within) || has(&pair.not) {
            continue;
        }
        if !pair.when.is_empty() && !pair.when.iter().any(|test| holds(test, columns[test.column])) {
            continue;
        }
        for value in of_pair(pair, columns) {
            add(found, at, pair, flow, value);
        }
    }
}

fn holds(test: &Test, column: &str) -> bool {
    if test.absent {
        return column.is_empty();
    }
    let mut values = column.split(UNIT).filter(|value| !value.is_empty());
    values.any(|value| test.values.is_empty() || test.values.contains(&value))
}

fn of_pair(pair: &Pair, columns: &[&str]) -> Vec<String> {
    let mut values = Vec::new();
    for column in pair.columns.iter().map(|column| columns[*column]).filter(|column| !column.is_empty()) {
        let all: Vec<&str> = match pair.kind {
            As::Protocols => carried(column),
            _ => column.split(UNIT).collect(),
        };
        let beside: Option<(Vec<&str>, &Test)> =
            pair.beside.as_ref().map(|test| (columns[test.column].split(UNIT).collect(), test));
        for (at, value) in all.iter().enumerate() {
            let is_meant = beside.as_ref().is_none_or(|(others, test)| {
                others.len() < all.len() || others.get(at).is_some_and(|other| holds(test, other))
            });
            if is_meant {
                let word = pair.words.get(value).copied().or(pair.listed.then_some(""));
                let formed = word.map_or_else(|| form(pair.kind, value), |word| Some(word.to_owned()));
                values.extend(formed.filter(|value| !value.is_empty()));
            }
        }
    }
    if pair.first {
        values.truncate(1);
    }
    values
}

/// The protocols above the innermost transport protocol.
fn carried(protocols: &str) -> Vec<&str> {
    let all: Vec<&str> = protocols.split(':').collect();
    let at = all.iter().rposition(|name| matches!(*name, "tcp" | "udp")).map_or(all.len(), |at| at + 1);
    all[at..].to_vec()
}

/// The ends of the innermost flow of a packet.
fn ends(columns: &[&str], protocols: &[&str]) -> Option<Flow> {
    let last = |names: [&str; 2]| protocols.iter().rev().find(|name| names.contains(name)).copied();
    let [source, destination] = match last(["ip", "ipv6"])? {
        "ip" => [columns[1], columns[2]],
        _ => [columns[3], columns[4]],
    };
    let ports = match last(["tcp", "udp"])? {
        "tcp" => columns[5],
        _ => columns[6],
    };
    let address = |column: &str| column.rsplit(UNIT).next()?.parse::<IpAddr>().ok();
    let mut ports = ports.rsplit(UNIT).map(|port| port.parse::<u16>().ok());
    let (to, from) = (ports.next()??, ports.next()??);
    Some(flow((address(source)?, from), (address(destination)?, to)))
}

/// Whether tshark is installed, and its version.
pub fn version() -> Option<String> {
    let ran = Command::new("tshark").arg("--version").stdin(Stdio::null()).output().ok()?;
    String::from_utf8_lossy(&ran.stdout).lines().next().map(str::to_owned)
}
