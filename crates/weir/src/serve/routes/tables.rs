//! Lists of subscriptions: the readings of functions in columns and rows, from the store and from the ticks that it does not have
//! yet.

use super::Ask;
use super::asked::{asking, count, flow_test, span};
use crate::desk::{Described, DescribedSubscription};
use crate::hub::seconds;
use crate::recent::{Listing, Recent};
use crate::serve::app::Shared;
use crate::serve::failure::Failure;
use crate::serve::rights::{Client, Right};
use axum::extract::State;
use axum::{Extension, Json};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::sync::Arc;
use utoipa::{IntoParams, ToSchema};
use weir_api::basis::Basis;
use weir_api::{Cell, Column, ColumnKind, Folded, Label, Reading, Row};
use weir_filter::FlowTest;
use weir_output::summary::{Naming, key};
use weir_store::basis;
use weir_store::label::{expression, title};
use weir_store::narrowed;
use weir_store::payload::Withheld;
use weir_store::query::Asking;
use weir_store::{KeptReading, Store, StoreError, TimeRange};

/// Maximum rows of one table.
const MAX_ROWS: usize = 1000;
/// Why a list of records is not narrowed where there are no records.
const NOT_STORED: &str = "its records are not stored; the records of delays are, with --measure";
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
    /// An expression over flows and records. Tables over records, and top lists by keys that flows have, are then computed from
    /// the stored ones that match.
    filter: Option<String>,
}

/// The tables of subscriptions over a time range: those of the configuration first, then the built-in ones, then those that have
/// been removed and have stored data.
#[derive(Serialize, ToSchema)]
pub struct Tables {
    /// Each with its tables.
    subscriptions: Vec<SubscriptionTables>,
    /// Number of further subscriptions.
    more: usize,
    /// What the numbers are of: up to the last tick, which may be after the stored range of other answers.
    basis: Basis,
}

/// A subscription, and a table for each of its functions.
#[derive(Serialize, ToSchema)]
pub struct SubscriptionTables {
    /// Name.
    name: String,
    /// Label for display.
    title: String,
    /// Who made it: `run`, `configuration`, or `client` with its number; `null` if it is not in the plan in effect.
    #[schema(required = true)]
    owner: Option<String>,
    /// `packet`, `flow` or `record`; "" if it is not in the plan in effect.
    level: String,
    /// Its expression; "" for everything.
    expression: String,
    /// Why the filter does not narrow its tables; `null` if it does, and without a filter.
    #[schema(required = true)]
    whole: Option<String>,
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
    /// Position of the column by which rows are ranked, if it is a sum; counted from 0.
    #[schema(required = true)]
    ranked: Option<usize>,
    /// The heaviest rows, in order.
    rows: Vec<FunctionRow>,
    /// The keys that are not shown.
    others: OtherRows,
    /// The sum of the ranked column over all keys.
    #[schema(required = true)]
    total: Option<u64>,
    /// Upper bound of the ranked column for a key without a row.
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
    /// How its values are made: `key`, `sum`, `min`, `max`, `distinct`, `names`, `last`, `sample`, `statistic` or `error`.
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
    /// Upper bound of the undercount in the ranked column, or one standard error; 0 if the row is exact.
    error: u64,
    /// Expression over packets that matches a key of a top list; "" for other keys.
    filter: String,
}

/// The keys of a table that are not shown.
#[derive(Serialize, ToSchema)]
pub struct OtherRows {
    /// Number of those that have a row.
    keys: u64,
    /// Their sum in the ranked column, and that of keys without a row.
    #[schema(required = true)]
    sum: Option<u64>,
}

/// The lists of subscriptions over a time range: tables of functions with their own columns, such as lists by fields of records, and
/// top lists and distinct counts of the configuration.
#[utoipa::path(get, path = "/api/v1/tables", params(TablesAsked),
    responses((status = 200, body = Tables), (status = 400, body = Failure), (status = 404, body = Failure)))]
pub async fn tables(
    State(app): State<Shared>,
    Extension(client): Extension<Client>,
    Ask(asked): Ask<TablesAsked>,
) -> Result<Json<Tables>, Failure> {
    let payload = client.rights.has(Right::Packets);
    let span = span(asked.from, asked.to)?;
    let limit = asked.limit.map(|limit| count("limit", Some(limit), 0, MAX_ROWS)).transpose()?;
    let filter = asked.filter.filter(|filter| !filter.trim().is_empty());
    // An expression with an error is refused, and not taken for one that lists cannot be narrowed by.
    flow_test(&app, &client, filter.as_deref()).await?;
    let narrow = match filter {
        Some(filter) => Some(Narrow { filter, asking: asking(&app, &client, None).await? }),
        None => None,
    };
    let (recent, plan) = (app.hub.recent(), app.hub.described());
    let now = seconds(app.hub.now().total.interval.end);
    let answer = move |store: &dyn Store| {
        // What has been stored up to here is not taken from the ticks.
        let stored = store.extent()?.map_or(0, |(_, last)| last);
        let moved = store.moved(span)?;
        // Intervals that are not stored yet are taken up to the end that was asked for.
        let span = TimeRange { to: span.to.map(|to| to.max(moved.range.1)), ..moved.span() };
        let (recent, plan, narrow) = (&recent, plan.as_ref(), narrow.as_ref());
        let asked = Asked { store, span, stored, limit, payload, recent, plan, narrow };
        let mut tables = asked.answer()?;
        let end = span.to.map_or(now, |to| now.min(seconds(to)));
        if end > seconds(moved.range.1) && narrow.is_none() {
            tables.basis.range = [seconds(moved.range.0), end];
        }
        basis::complete(store, &moved, &mut tables.basis)?;
        Ok::<_, StoreError>(tables)
    };
    Ok(Json(app.ask(answer).await?))
}

/// A request, and where its answer comes from.
struct Asked<'a> {
    store: &'a dyn Store,
    span: TimeRange,
    /// The end of the stored data in nanoseconds since the epoch.
    stored: u64,
    /// Rows of each table, in place of those that its function shows.
    limit: Option<usize>,
    /// Whether columns of fields that hold payload are shown.
    payload: bool,
    recent: &'a Recent,
    plan: Option<&'a Described>,
    narrow: Option<&'a Narrow>,
}

/// An expression that narrows lists.
struct Narrow {
    filter: String,
    /// How it is read.
    asking: Asking<'static>,
}

impl Narrow {
    /// The test of what a list counts.
    ///
    /// # Errors
    ///
    /// Why the list is not narrowed.
    fn test(&self, described: &DescribedSubscription, like: &Reading) -> Result<FlowTest, String> {
        if !narrowed::is_possible(like) {
            return Err("what its function counts is not stored by flow or record".to_owned());
        }
        let text = match described.expression.as_str() {
            "" => self.filter.clone(),
            own => format!("({own}) and ({})", self.filter),
        };
        let test = match narrowed::is_of_records(like) {
            true => self.asking.test_of_records(&text),
            false => self.asking.test(&text),
        };
        test.map_err(|error| error.message)
    }
}

impl Asked<'_> {
    fn answer(&self) -> Result<Tables, StoreError> {
        // Each subscription of the plan with its functions, those of the configuration first.
        let functions = self.recent.functions();
        let mut of_plan: Vec<(Option<&DescribedSubscription>, &[Listing])> = functions
            .chunk_by(|a, b| a.id.subscription == b.id.subscription)
            .map(|of| (of.first().and_then(|listing| self.described(listing)), of))
            .collect();
        of_plan.sort_by_key(|(described, _)| described.is_none_or(|one| one.owner != "configuration"));
        let removed = self.store.lists()?.tables.into_iter().map(|stored| stored.name);
        let removed: Vec<String> =
            removed.filter(|name| functions.iter().all(|listing| listing.name != *name)).collect();
        let mut subscriptions = Vec::new();
        for (described, of) in of_plan.iter().take(MAX_SUBSCRIPTIONS) {
            subscriptions.extend(self.subscription(*described, of)?);
        }
        let mut more = of_plan.len().saturating_sub(MAX_SUBSCRIPTIONS);
        for name in removed {
            if subscriptions.len() >= MAX_SUBSCRIPTIONS {
                more += 1;
                continue;
            }
            let KeptReading { reading: Some(reading), partial } = self.store.reading(&name, self.span)?
            else {
                continue;
            };
            subscriptions.push(SubscriptionTables {
                title: title(&name),
                owner: None,
                level: String::new(),
                expression: String::new(),
                whole: self.narrow.map(|_| "it is removed, and only what it counted is stored".to_owned()),
                tables: vec![self.table(&name, name.clone(), reading, partial)],
                name,
            });
        }
        Ok(Tables { subscriptions, more, basis: Basis::default() })
    }

    fn described(&self, listing: &Listing) -> Option<&DescribedSubscription> {
        self.plan?.subscriptions.iter().find(|one| one.id == listing.id.subscription.0)
    }

    /// A subscription of the plan in effect; `None` if it has no functions.
    fn subscription(
        &self,
        described: Option<&DescribedSubscription>,
        functions: &[Listing],
    ) -> Result<Option<SubscriptionTables>, StoreError> {
        let Some(first) = functions.first() else { return Ok(None) };
        let mut tables = Vec::new();
        let tests = self.tests(described, functions);
        let mut whole = tests.as_ref().err().cloned();
        for (at, listing) in functions.iter().enumerate() {
            let call = described.and_then(|one| one.functions.get(usize::from(listing.id.place)));
            let call = call.unwrap_or(&listing.label.function).clone();
            let narrowed = match tests.as_ref().map(|tests| tests.get(at)) {
                Ok(Some(test)) => narrowed::list(self.store, &listing.empty, test, self.span)?,
                _ => None,
            };
            tables.push(match narrowed {
                Some((reading, partial)) => self.table(&listing.name, call, reading, partial),
                None => {
                    let table = self.table_of(listing, call)?;
                    // A function can measure what is not stored.
                    let is_measured = tests.is_ok() && self.narrow.is_some() && !table.rows.is_empty();
                    whole = whole.or(is_measured.then(|| NOT_STORED.to_owned()));
                    table
                }
            });
        }
        let text =
            |part: fn(&DescribedSubscription) -> &String| described.map(part).cloned().unwrap_or_default();
        Ok(Some(SubscriptionTables {
            title: title(&first.label.subscription),
            name: first.label.subscription.clone(),
            owner: Some(text(|one| &one.owner)),
            level: text(|one| &one.level),
            expression: text(|one| &one.expression),
            whole,
            tables,
        }))
    }

    /// The tests of the lists of a subscription, in the order of its functions; empty without a filter.
    ///
    /// # Errors
    ///
    /// Why the filter does not narrow them.
    fn tests(
        &self,
        described: Option<&DescribedSubscription>,
        functions: &[Listing],
    ) -> Result<Vec<FlowTest>, String> {
        match (self.narrow, described) {
            (None, _) => Ok(Vec::new()),
            (Some(narrow), Some(described)) => {
                functions.iter().map(|listing| narrow.test(described, &listing.empty)).collect()
            }
            (Some(_), None) => Err("its expression is not known".to_owned()),
        }
    }

    /// What a function of the plan found: what is stored, and what the store does not have yet.
    fn table_of(&self, listing: &Listing, call: String) -> Result<FunctionTable, StoreError> {
        let end = self.span.to.unwrap_or(u64::MAX);
        let span = TimeRange { to: Some(end.min(self.stored)), ..self.span };
        let KeptReading { mut reading, partial } = self.store.reading(&listing.name, span)?;
        for part in self.recent.readings(listing.id, self.stored, end) {
            match &mut reading {
                Some(sum) if sum.is_like(part) => sum.merge(part),
                // An earlier subscription of this name had other columns.
                sum => *sum = Some(part.clone()),
            }
        }
        // A function that has counted nothing yet has columns too.
        let reading = reading.unwrap_or_else(|| listing.empty.clone());
        Ok(self.table(&listing.name, call, reading, partial))
    }

    fn table(
        &self,
        name: &str,
        call: String,
        mut reading: Reading,
        partial: Option<String>,
    ) -> FunctionTable {
        if let Some(limit) = self.limit {
            match &mut reading {
                Reading::Table(table) => {
                    let schema = Arc::make_mut(&mut table.schema);
                    schema.shown = schema.shown.limited(limit as u32);
                }
                Reading::Top(top) => top.show = limit,
                _ => {}
            }
        }
        let cells = reading.cells();
        // The column by which rows are ranked, if they are ranked by a sum.
        let (ranked, keys, absent) = match &reading {
            Reading::Table(table) => {
                let sums = cells.columns.iter().position(|column| column.kind != ColumnKind::Key);
                let sums = sums
                    .filter(|at| cells.columns.get(*at).is_some_and(|column| column.kind == ColumnKind::Sum));
                (sums, table.rows.len(), table.absent)
            }
            Reading::Top(top) => {
                let unit = cells.columns.iter().position(|column| column.unit == top.unit.name());
                (unit, top.rows.len(), top.absent)
            }
            _ => (None, cells.rows.len(), 0),
        };
        let whole = match &reading {
            Reading::Table(table) => {
                let listed = table.whole().first().map_or(0, Folded::weight);
                let shed = table.shed.as_ref().and_then(|shed| shed.first()).copied();
                listed.saturating_add(shed.unwrap_or(0))
            }
            Reading::Top(top) => {
                let listed: u64 = top.rows.iter().map(|row| row.count.in_unit(top.unit)).sum();
                listed.saturating_add(top.shed.in_unit(top.unit))
            }
            _ => 0,
        };
        let value = |row: &Row<'_>| match ranked.and_then(|at| row.values.get(at)) {
            Some(Cell::Whole(value)) => *value,
            _ => 0,
        };
        let listed = cells.rows.iter().map(value).fold(0, u64::saturating_add);
        let mut withheld = Withheld::default();
        let is_withheld = match self.payload {
            true => vec![false; cells.columns.len()],
            false => withheld.columns(&cells.columns),
        };
        FunctionTable {
            name: name.to_owned(),
            call,
            columns: cells.columns.iter().map(column_of).collect(),
            ranked,
            rows: cells.rows.iter().map(|row| row_of(row, &is_withheld)).collect(),
            others: OtherRows {
                keys: keys.saturating_sub(cells.rows.len()) as u64,
                sum: ranked.map(|_| whole.saturating_sub(listed)),
            },
            total: ranked.map(|_| whole),
            absent,
            partial: partial.or_else(|| withheld.sentence()),
        }
    }
}

fn column_of(column: &Column<'_>) -> FunctionColumn {
    let kind = match column.kind {
        ColumnKind::Key => "key",
        ColumnKind::Sum => "sum",
        ColumnKind::Min => "min",
        ColumnKind::Max => "max",
        ColumnKind::Distinct => "distinct",
        ColumnKind::Names => "names",
        ColumnKind::Last => "last",
        ColumnKind::Sample => "sample",
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

fn row_of(row: &Row<'_>, is_withheld: &[bool]) -> FunctionRow {
    let filter = match row.label {
        Label::Key(key) => expression(&key),
        _ => String::new(),
    };
    let values = row.values.iter().zip(is_withheld).map(|(value, is_withheld)| match is_withheld {
        true => Value::Null,
        false => value_of(value),
    });
    FunctionRow { values: values.collect(), error: row.error.unwrap_or(0), filter }
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
        Cell::Sample(sample) => json!(weir_api::sample_text(sample)),
    }
}
