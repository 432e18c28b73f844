//! Tables of functions with their own columns, as answers.

use super::Question;
use crate::KeptTable;
use crate::fields::column_holds_payload;
use crate::payload::Withheld;
use serde_json::{Value, json};
use weir_api::web::{Answered, Column};
use weir_api::{Cell, Count, Reading, Row};
use weir_output::summary::{Naming, key, label};

/// The rows of a table.
pub fn answered(question: &Question, kept: KeptTable) -> Answered {
    let (from, to) = kept.span;
    let mut answer = Answered {
        range: Some([from, to].map(|time| time as f64 / 1e9)),
        partial: kept.partial,
        ..Answered::default()
    };
    let Some(table) = kept.table else { return answer };
    let reading = Reading::Table(table);
    let cells = reading.cells();
    let column = |name: &str, unit: &str| Column { name: name.to_owned(), unit: unit.to_owned() };
    answer.columns.push(column("label", ""));
    answer.columns.extend(cells.columns.iter().map(|named| column(&named.name, &named.unit)));
    answer.columns.push(column("error", ""));
    // A label has the values of the keys.
    let is_withheld: Vec<bool> = std::iter::once(false)
        .chain(cells.columns.iter().map(|column| !question.payload && column_holds_payload(&column.name)))
        .collect();
    let has_withheld = is_withheld.contains(&true);
    let row = |row: &Row<'_>| {
        let mut values = row_of(question, row);
        for (at, value) in values.iter_mut().enumerate() {
            if has_withheld && at == 0 || is_withheld.get(at).is_some_and(|is| *is) {
                *value = Value::Null;
            }
        }
        values
    };
    answer.rows = cells.rows.iter().take(question.limit).map(row).collect();
    if has_withheld {
        let mut withheld = Withheld::default();
        let columns = cells.columns.iter().zip(is_withheld.iter().skip(1)).filter(|(_, is)| **is);
        columns.for_each(|(column, _)| withheld.add(&column.name));
        answer.partial = answer.partial.or_else(|| withheld.sentence());
    }
    let note = |(column, value): &(weir_api::Column<'_>, Cell<'_>)| {
        format!("{}: {}", column.name, shown(question, value))
    };
    answer.notes = cells.facts.iter().chain(&cells.notes).map(note).collect();
    answer
}

fn row_of(question: &Question, row: &Row<'_>) -> Vec<Value> {
    let mut values = vec![json!(label(&row.label, Naming::numeric()))];
    values.extend(row.values.iter().map(|value| shown(question, value)));
    values.push(json!(row.error));
    values
}

fn shown(question: &Question, value: &Cell<'_>) -> Value {
    match value {
        Cell::Nothing => Value::Null,
        Cell::Flag(yes) => json!(yes),
        Cell::Whole(number) => json!(number),
        Cell::Wide(number) => json!(*number as f64),
        Cell::Number(number) => json!(number),
        Cell::Time(time) => json!(question.moments.zone.rfc3339(*time)),
        Cell::Text(text) => json!(text),
        Cell::Address(address) => json!(address),
        Cell::Key(one) => json!(key(one, Naming::numeric())),
        Cell::Count(Count { packets, bytes }) => json!([packets, bytes]),
    }
}
