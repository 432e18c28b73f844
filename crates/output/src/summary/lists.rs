//! Statistics of top lists, distinct counts and tables, which `-v` adds to the summary.

use crate::figures::{bytes, count, counted, left, right};
use std::fmt::Write;
use weir_api::{Answer, DistinctCount, Reading, Shown, Snapshot, Table, Top, Unit};

/// One line for each list and each distinct count; "" without any.
pub fn lists(snapshot: &Snapshot) -> String {
    let mut text = String::new();
    let tops = snapshot.answers.iter().filter_map(|answer| match &answer.reading {
        Reading::Top(top) => Some((name(answer), top)),
        _ => None,
    });
    section(&mut text, "Top lists", tops.map(|(name, top)| (name, about(top))).collect());
    let counts = snapshot.answers.iter().filter_map(|answer| match &answer.reading {
        Reading::Distinct(count) => Some((name(answer), distinct(count))),
        _ => None,
    });
    section(&mut text, "Distinct counts", counts.collect());
    let tables = snapshot.answers.iter().filter_map(|answer| match &answer.reading {
        Reading::Table(table) if table.schema.shown != Shown::Scans => Some((name(answer), rows(table))),
        _ => None,
    });
    section(&mut text, "Tables", tables.collect());
    text
}

fn section(text: &mut String, title: &str, rows: Vec<(String, String)>) {
    if rows.is_empty() {
        return;
    }
    // Writing into memory does not fail.
    let _ = writeln!(text, "\n{title}");
    for (name, about) in rows {
        let _ = writeln!(text, "  {} {about}", left(&name, 20));
    }
}

fn name(answer: &Answer) -> String {
    let name = match &answer.label.chart {
        Some(chart) => format!("{chart}/{}", answer.label.subscription),
        None => answer.label.subscription.clone(),
    };
    crate::figures::printable(&name)
}

/// Rows, inserts (which rise first in a flood), and the weight without a row.
fn about(top: &Top) -> String {
    let size = format!(
        "{} rows {} inserts",
        right(&count(top.rows.len() as u64), 9),
        right(&count(top.inserts), 13)
    );
    if top.is_exact() {
        return format!("{size}   exact");
    }
    let weight = |n: u64| match top.unit {
        Unit::Bytes => bytes(n),
        Unit::Packets => counted(n, "packet"),
    };
    let (shed, max) = (weight(top.shed.in_unit(top.unit)), weight(top.absent));
    format!("{size}   {shed} without a row, each key at most {max}")
}

/// Rows, and the bound of a key without one.
fn rows(table: &Table) -> String {
    let size = format!("{} rows", right(&count(table.rows.len() as u64), 9));
    match table.is_exact() {
        true => format!("{size}   exact"),
        false => format!("{size}   each key without a row at most {}", count(table.absent)),
    }
}

fn distinct(found: &DistinctCount) -> String {
    let error = match found.relative_error() {
        error if error > 0.0 => format!(" ±{:.1}%", 100.0 * error),
        _ => String::new(),
    };
    format!("{} {}{error}", right(&count(found.estimate()), 9), found.of.name())
}
