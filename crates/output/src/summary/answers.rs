//! The answers of subscriptions, each as a table below the summary.

use super::label::{key, label};
use super::naming::Naming;
use crate::aligned;
use crate::figures::{bytes, count, decimal, duration, fit, printable};
use crate::zone::rfc3339;
use weir_api::{Answer, Cell, Cells, Column, ColumnKind, Fact, Layout, Reading, Row};

/// Rows of an answer. A function that ranks has its own limit, which is less.
const ROWS: usize = 100;

/// A block for each answer: its subscription, and its rows in columns. `naming` names ports; `width` limits the title.
pub fn answers<'a>(found: impl Iterator<Item = &'a Answer>, naming: Naming<'_>, width: usize) -> String {
    let mut text = String::new();
    let mut last = None;
    for answer in found {
        let subscription = &answer.label.subscription;
        // The functions of one chain have one title.
        if last.replace(answer.id.subscription) != Some(answer.id.subscription) {
            text += &format!("\n{}\n", fit(&printable(subscription), width));
        }
        for line in block(&answer.reading, naming).lines() {
            text += &format!("  {line}\n");
        }
    }
    text
}

/// The lines of a reading.
fn block(reading: &Reading, naming: Naming<'_>) -> String {
    let cells = reading.cells();
    if cells.layout == Layout::Bins {
        return of_bins(&cells, naming);
    }
    if cells.rows.is_empty() {
        return "nothing\n".to_owned();
    }
    let has_errors = cells.rows.iter().any(|row| row.error.is_some_and(|error| error > 0));
    let mut head: Vec<String> = Vec::new();
    let mut is_number: Vec<bool> = Vec::new();
    let mut column = |name: String, is_right: bool| {
        head.push(name);
        is_number.push(is_right);
    };
    // Rows whose name is in no column have it before the others.
    let has_keys = cells.columns.iter().any(|column| column.kind == ColumnKind::Key);
    let is_named = !has_keys && matches!(cells.layout, Layout::Keyed(_));
    if is_named {
        column(cells.shape.to_owned(), false);
    }
    let is_shown: Vec<bool> = (0..cells.columns.len()).map(|at| is_shown(&cells, at)).collect();
    let shown_columns = || (0..).zip(&*cells.columns).filter(|(at, _)| is_shown.get(*at) == Some(&true));
    shown_columns().for_each(|(_, one)| column(title(one), one.kind != ColumnKind::Key));
    if has_errors {
        column("at most more".to_owned(), true);
    }
    let line = |row: &Row<'_>| -> Vec<String> {
        let name = is_named.then(|| printable(&label(&row.label, naming)));
        let values = shown_columns().filter_map(|(at, column)| Some((column, row.values.get(at)?)));
        let values = values.map(|(column, value)| shown(value, &column.unit, naming));
        let mut line: Vec<String> = name.into_iter().chain(values).collect();
        if let Some(first) = line.first_mut().filter(|first| first.is_empty()) {
            first.push('-');
        }
        if has_errors {
            line.push(row.error.filter(|error| *error > 0).map(count).unwrap_or_default());
        }
        line
    };
    let lines: Vec<Vec<String>> = cells.rows.iter().take(ROWS).map(line).collect();
    let mut text = aligned(&head, &lines, &is_number);
    let hidden = cells.rows.len().saturating_sub(ROWS) as u64;
    if hidden > 0 {
        text += &format!("and {} more\n", count(hidden));
    }
    let absent = cells.notes.iter().find(|(column, _)| column.name == "absent");
    if let Some((_, Cell::Whole(absent))) = absent
        && *absent > 0
    {
        text += &format!("a key without a row has at most {}\n", count(*absent));
    }
    text
}

/// Whether a column is shown: not what says that rows are exact, and not a sum after the first that is 0 in all rows.
fn is_shown(cells: &Cells<'_>, at: usize) -> bool {
    let sums = |column: &Column<'_>| column.kind == ColumnKind::Sum;
    let kind = cells.columns.get(at).map(|column| column.kind);
    let is_later_sum = kind == Some(ColumnKind::Sum) && cells.columns.iter().take(at).any(sums);
    let is_zero = |row: &Row<'_>| row.values.get(at) == Some(&Cell::Whole(0));
    kind != Some(ColumnKind::Error) && !(is_later_sum && cells.rows.iter().all(is_zero))
}

/// Readings of many bins: what holds for all of them.
fn of_bins(cells: &Cells<'_>, naming: Naming<'_>) -> String {
    let is_one = |(column, value): &&Fact<'_>| column.kind != ColumnKind::Error && *value != Cell::Nothing;
    let facts = cells.facts.iter().filter(is_one);
    let (head, line): (Vec<String>, Vec<String>) =
        facts.map(|(column, value)| (title(column), shown(value, &column.unit, naming))).unzip();
    aligned(&head, &[line], &[])
}

/// The name of a column, with its unit where neither the name nor the values have it.
fn title(column: &Column<'_>) -> String {
    match &*column.unit {
        "" | "time" | "bytes" | "packets" | "flows" | "records" | "seconds" | "nanoseconds" => {
            column.name.to_string()
        }
        unit => format!("{} ({unit})", column.name),
    }
}

/// A value as text.
fn shown(value: &Cell<'_>, unit: &str, naming: Naming<'_>) -> String {
    match value {
        Cell::Nothing => String::new(),
        Cell::Flag(is_so) => if *is_so { "yes" } else { "no" }.to_owned(),
        Cell::Whole(number) if unit == "bytes" => bytes(*number),
        Cell::Whole(number) if unit == "nanoseconds" => duration(*number),
        Cell::Number(number) if unit == "seconds" => duration((number * 1e9) as u64),
        Cell::Whole(number) => count(*number),
        Cell::Wide(number) => number.to_string(),
        Cell::Number(number) => decimal(*number),
        Cell::Time(time) => rfc3339(*time),
        Cell::Text(text) => printable(text),
        Cell::Address(address) => address.to_string(),
        Cell::Key(one) => key(one, naming),
        Cell::Count(both) => format!("{} packets", count(both.packets)),
        Cell::Sample(sample) => weir_api::sample_text(sample),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use weir_api::{AnswerId, AnswerLabel, Count, Key, KeyKind, SubscriptionId, Top, TopRow, Unit};

    fn answer(subscription: u32, place: u16, reading: Reading) -> Answer {
        let id = AnswerId { subscription: SubscriptionId(subscription), place };
        let name = format!("number {subscription}");
        let label = AnswerLabel { subscription: name, ..AnswerLabel::default() };
        Answer { id, label: Arc::new(label), reading, nanoseconds: 0 }
    }

    #[test]
    fn each_subscription_has_a_title_and_its_rows_in_columns() {
        let row = |port, packets, error| TopRow {
            key: Key::Port { protocol: 6, port },
            count: Count { packets, bytes: 1_000 * packets },
            flows: 1,
            error,
        };
        let top = |absent, error| {
            Reading::Top(Top {
                key: KeyKind::Port,
                show: 5,
                unit: Unit::Packets,
                capacity: 2,
                rows: vec![row(80, 7, error), row(443, 1_200, 0)].into(),
                absent,
                inserts: 3,
                shed: Count { packets: absent, bytes: absent },
            })
        };
        let counted = Reading::Count(Count { packets: 3, bytes: 180 });
        let all = [answer(1, 0, top(0, 0)), answer(1, 1, counted), answer(2, 0, top(4, 4))];
        let text = answers(all.iter(), Naming::numeric(), 80);
        assert_eq!(
            text,
            "
number 1
  key      packets   bytes  flows
  tcp/443    1,200  1.2 MB      1
  tcp/80         7  7.0 kB      1
  packets  bytes
        3  180 B

number 2
  key      packets   bytes  flows  at most more
  tcp/443    1,200  1.2 MB      1
  tcp/80         7  7.0 kB      1             4
  a key without a row has at most 4
"
        );
    }
}
