//! Tables of functions with their own columns, as answers.

use super::Question;
use crate::KeptTable;
use crate::payload::Withheld;
use serde_json::{Value, json};
use weir_api::basis::Basis;
use weir_api::web::{Answered, Column};
use weir_api::{Cell, Count, Reading, Row};
use weir_output::summary::{Naming, key, label};

/// The rows of a table.
pub fn answered(question: &Question, kept: KeptTable) -> Answered {
    let (from, to) = kept.span;
    let mut answer = Answered {
        basis: Some(Basis { range: [from, to].map(|time| time as f64 / 1e9), ..Basis::default() }),
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
    answer.rows = cells.rows.iter().take(question.limit).map(|row| row_of(question, row)).collect();
    if !question.payload {
        let mut withheld = Withheld::default();
        let of_columns = withheld.columns(&cells.columns);
        // The label in front has the values of the keys.
        let is_withheld: Vec<bool> = std::iter::once(of_columns.contains(&true)).chain(of_columns).collect();
        for row in &mut answer.rows {
            let values = row.iter_mut().zip(&is_withheld).filter(|(_, is_withheld)| **is_withheld);
            values.for_each(|(value, _)| *value = Value::Null);
        }
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
        Cell::Sample(sample) => json!(weir_api::sample_text(sample)),
    }
}
