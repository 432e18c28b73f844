//! Tables of subscriptions: the readings of functions with their own columns, from the store and from the ticks that it does not
//! have yet.

use super::Ask;
use super::asked::{count, span};
use crate::desk::Described;
use crate::recent::Recent;
use crate::serve::app::Shared;
use crate::serve::failure::Failure;
use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::{IntoParams, ToSchema};
use weir_api::{AnswerId, Cell, Column, ColumnKind, Folded, Reading, Row, Shown, Table};
use weir_output::summary::{Naming, key};
use weir_store::label::title;
use weir_store::{KeptTable, Store, StoreError, TimeRange};

/// Maximum rows of one table.
const MAX_ROWS: usize = 1000;
/// Maximum subscriptions of one answer.
const MAX_SUBSCRIPTIONS: usize = 32;

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct TablesAsked {
    /// Start of the time range, in seconds since the epoch.
    from: Option<f64>,
    /// End of the time range, excluded; without it the answer has everything up to the last tick.
    to: Option<f64>,
    /// Number of rows of each table; without it each has as many as its function shows.
    limit: Option<usize>,
}

/// The tables of subscriptions over a time range: those of the configuration first, then the built-in ones, then those that have
/// been removed and have stored data.
#[derive(Serialize, ToSchema)]
pub struct Tables {
    /// Each with its tables.
    subscriptions: Vec<SubscriptionTables>,
    /// Number of further subscriptions.
    more: usize,
}

/// A subscription, and a table for each of its functions.
#[derive(Serialize, ToSchema)]
pub struct SubscriptionTables {
    /// Name.
    name: String,
    /// Label for display.
    title: String,
    /// Who made it: `run`, `configuration`, `page` or `client` with its number; `null` if it is not in the plan in effect.
    #[schema(required = true)]
    owner: Option<String>,
    /// `packet`, `flow` or `record`; "" if it is not in the plan in effect.
    level: String,
    /// Its expression; "" for everything.
    expression: String,
    /// Its tables, in the order of its functions.
    tables: Vec<FunctionTable>,
}

/// The table of a function.
#[derive(Serialize, ToSchema)]
pub struct FunctionTable {
    /// Name in the store, and in queries.
    name: String,
    /// The function with its arguments.
    call: String,
    /// Columns.
    columns: Vec<FunctionColumn>,
    /// The heaviest rows by the first column that is not a key, in order.
    rows: Vec<FunctionRow>,
    /// The rows that are not shown.
    others: OtherRows,
    /// The sum of the first column over all rows, if it is a sum.
    #[schema(required = true)]
    total: Option<u64>,
    /// Upper bound of the first column for a key without a row.
    absent: u64,
    /// What the answer leaves out, and why.
    #[schema(required = true)]
    partial: Option<String>,
}

/// A column of a table.
#[derive(Serialize, ToSchema)]
pub struct FunctionColumn {
    /// Name.
    name: String,
    /// How its values are made: `key`, `sum`, `min`, `max`, `distinct`, `last`, `statistic` or `error`.
    kind: String,
    /// Unit; "" without one.
    unit: String,
    /// Meaning.
    help: String,
    /// The field of records that it is, as `table.field` in expressions.
    #[schema(required = true)]
    field: Option<String>,
}

/// A row of a table.
#[derive(Serialize, ToSchema)]
pub struct FunctionRow {
    /// A value for each column: text, number, `true`, `false` or `null`; times are seconds since the epoch.
    #[schema(value_type = Vec<Value>)]
    values: Vec<Value>,
    /// Upper bound of the undercount of the first column that is not a key; 0 if the row is exact.
    error: u64,
}

/// The rows of a table that are not shown.
#[derive(Serialize, ToSchema)]
pub struct OtherRows {
    /// Their number.
    keys: u64,
    /// Their sum, if the first column is a sum.
    #[schema(required = true)]
    sum: Option<u64>,
}

/// The tables of functions with their own columns, such as lists by fields of records, over a time range.
#[utoipa::path(get, path = "/api/v1/tables", params(TablesAsked),
    responses((status = 200, body = Tables), (status = 400, body = Failure), (status = 404, body = Failure)))]
pub async fn tables(
    State(app): State<Shared>,
    Ask(asked): Ask<TablesAsked>,
) -> Result<Json<Tables>, Failure> {
    let span = span(asked.from, asked.to)?;
    let limit = asked.limit.map(|limit| count("limit", Some(limit), 0, MAX_ROWS)).transpose()?;
    let (recent, plan) = (app.hub.recent(), app.hub.described());
    Ok(Json(app.ask(move |store| answer(store, span, limit, &recent, plan.as_ref())).await?))
}

fn answer(
    store: &dyn Store,
    span: TimeRange,
    limit: Option<usize>,
    recent: &Recent,
    plan: Option<&Described>,
) -> Result<Tables, StoreError> {
    let mut subscriptions: Vec<(bool, SubscriptionTables)> = Vec::new();
    let mut before: Option<AnswerId> = None;
    for known in recent.functions() {
        let table = |call| function_table(store, span, limit, recent, &known.name, Some(&known.empty), call);
        let described =
            plan.and_then(|plan| plan.subscriptions.iter().find(|one| one.id == known.id.subscription.0));
        let call = described.and_then(|one| one.functions.get(usize::from(known.id.place)).cloned());
        let call = call.unwrap_or_else(|| known.label.function.clone());
        if before.is_some_and(|before| before.subscription == known.id.subscription) {
            if let Some((_, of)) = subscriptions.last_mut() {
                of.tables.extend(table(call)?);
            }
        } else {
            let text = |of: fn(&crate::desk::DescribedSubscription) -> &str| {
                described.map(of).unwrap_or_default().to_owned()
            };
            let of = SubscriptionTables {
                title: title(&known.label.subscription),
                name: known.label.subscription.clone(),
                owner: Some(described.map_or("run", |one| &one.owner).to_owned()),
                level: text(|one| &one.level),
                expression: text(|one| &one.expression),
                tables: table(call)?.into_iter().collect(),
            };
            subscriptions.push((of.owner.as_deref() != Some("configuration"), of));
        }
        before = Some(known.id);
    }
    // Those of the configuration first.
    subscriptions.sort_by_key(|(is_built_in, _)| *is_built_in);
    let mut subscriptions: Vec<SubscriptionTables> = subscriptions.into_iter().map(|(_, of)| of).collect();
    for stored in store.lists()?.tables {
        if recent.functions().iter().any(|known| known.name == stored.name) {
            continue;
        }
        let table = function_table(store, span, limit, recent, &stored.name, None, stored.name.clone())?;
        subscriptions.extend(table.filter(|table| !table.rows.is_empty()).map(|table| SubscriptionTables {
            title: title(&stored.name),
            name: stored.name,
            owner: None,
            level: String::new(),
            expression: String::new(),
            tables: vec![table],
        }));
    }
    let more = subscriptions.len().saturating_sub(MAX_SUBSCRIPTIONS);
    subscriptions.truncate(MAX_SUBSCRIPTIONS);
    Ok(Tables { subscriptions, more })
}

/// A table over a time range: what is stored, and what the store does not have yet. `empty` has the columns of a function in the
/// plan in effect.
fn function_table(
    store: &dyn Store,
    span: TimeRange,
    limit: Option<usize>,
    recent: &Recent,
    name: &str,
    empty: Option<&Table>,
    call: String,
) -> Result<Option<FunctionTable>, StoreError> {
    // What has been stored up to here is not taken from the ticks.
    let stored = store.extent()?.map_or(0, |(_, last)| last);
    let end = span.to.unwrap_or(u64::MAX);
    let kept = store.table(name, TimeRange { to: Some(end.min(stored)), ..span })?;
    let KeptTable { mut table, partial, .. } = kept.unwrap_or_default();
    for part in recent.tables(name, stored, end) {
        match &mut table {
            Some(sum) if sum.is_like(part) => sum.merge(part),
            // The columns have changed.
            sum => *sum = Some(part.clone()),
        }
    }
    // A function that has counted nothing yet has columns too.
    let mut table = table.or_else(|| empty.cloned());
    if let (Some(table), Some(limit)) = (&mut table, limit) {
        table.schema.to_mut().shown = Shown::Heaviest(limit as u32);
    }
    Ok(table.map(|table| shown(name, call, table, partial)))
}

fn shown(name: &str, call: String, table: Table, partial: Option<String>) -> FunctionTable {
    let sum = |folded: &Folded| match folded {
        Folded::Sum(sum) => Some(*sum),
        _ => None,
    };
    let total = table.whole().first().and_then(sum);
    let (keys, absent) = (table.rows.len(), table.absent);
    let reading = Reading::Table(table);
    let cells = reading.cells();
    let first = cells.columns.iter().position(|column| column.kind != ColumnKind::Key);
    let mut listed: u64 = 0;
    let rows: Vec<FunctionRow> = cells.rows.iter().map(row_of).collect();
    for row in &cells.rows {
        if let Some(Cell::Whole(value)) = first.and_then(|at| row.values.get(at)) {
            listed = listed.saturating_add(*value);
        }
    }
    let others = OtherRows {
        keys: keys.saturating_sub(rows.len()) as u64,
        sum: total.map(|total| total.saturating_sub(listed)),
    };
    FunctionTable {
        name: name.to_owned(),
        call,
        columns: cells.columns.iter().map(column_of).collect(),
        rows,
        others,
        total,
        absent,
        partial,
    }
}

fn column_of(column: &Column<'_>) -> FunctionColumn {
    let kind = match column.kind {
        ColumnKind::Key => "key",
        ColumnKind::Sum => "sum",
        ColumnKind::Min => "min",
        ColumnKind::Max => "max",
        ColumnKind::Distinct => "distinct",
        ColumnKind::Last => "last",
        ColumnKind::Statistic => "statistic",
        ColumnKind::Error => "error",
    };
    FunctionColumn {
        field: weir_store::fields::of_column(&column.name),
        name: column.name.to_string(),
        kind: kind.to_owned(),
        unit: column.unit.to_string(),
        help: column.help.to_string(),
    }
}

fn row_of(row: &Row<'_>) -> FunctionRow {
    FunctionRow { values: row.values.iter().map(value_of).collect(), error: row.error.unwrap_or(0) }
}

fn value_of(cell: &Cell<'_>) -> Value {
    match cell {
        Cell::Nothing => Value::Null,
        Cell::Flag(yes) => json!(yes),
        Cell::Whole(number) => json!(number),
        Cell::Wide(number) => json!(*number as f64),
        Cell::Number(number) => json!(number),
        Cell::Time(time) => json!(*time as f64 / 1e9),
        Cell::Text(text) => json!(text),
        Cell::Address(address) => json!(address),
        Cell::Key(one) => json!(key(one, Naming::numeric())),
        Cell::Count(count) => json!([count.packets, count.bytes]),
    }
}
