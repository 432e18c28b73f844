//! Flows and records.

use super::Ask;
use super::asked::{asking, count, flow_test, is_muted, record_test, span};
use crate::serve::app::Shared;
use crate::serve::failure::Failure;
use crate::serve::rights::{Client, Right};
use crate::serve::rows::{self, Form};
use axum::extract::{Path, RawQuery, State};
use axum::response::Response;
use axum::{Extension, Json};
use serde::Deserialize;
use std::collections::BTreeMap;
use utoipa::IntoParams;
use weir_api::web::{FieldInfo, FlowDetail, Flows, Protocols, Records, TableInfo};
use weir_filter::fields::{self as registry, find};
use weir_filter::{FLOW, FlowTest};
use weir_proto::{Kind, PROTOCOLS, SHARED_TABLES, Table};
use weir_store::fields::{Lists, StoreFields, is_payload, tables};
use weir_store::moment::Moments;
use weir_store::muted_alerts::MutedAlerts;
use weir_store::payload::Withheld;
use weir_store::{FlowOrder, FlowsWanted, RecordOrder, RecordsWanted};
use weir_store::{basis, muted_alerts};

/// Maximum rows of one answer.
const MAX_ROWS: usize = 100_000;
/// Bytes of the place of a row while rows are sorted, with its sort key: 48, and those of a text.
const PLACE: usize = 64;
/// The columns that records of every table have.
const RECORD_COLUMNS: [&str; 7] =
    ["time", "flow", "uid", "source", "source_port", "destination", "destination_port"];
/// Maximum fields beside a flow.
const MAX_FIELDS: usize = 32;
/// Maximum rows to skip.
const MAX_OFFSET: usize = 100_000_000;

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct FlowsAsked {
    /// An expression over flows: pcap-filter(7) over addresses, nets, ports, protocols and VLAN, with tests of fields, as
    /// `flow.bytes > 10M and tls.server_name under example.org`.
    filter: Option<String>,
    /// Start of the time range, in seconds since the epoch.
    from: Option<f64>,
    /// End of the time range, excluded.
    to: Option<f64>,
    /// Sort key: `first`, `last`, `duration`, `bytes`, `packets`, `source`, `destination`, `service` or `state`; a `-`
    /// in front sorts in descending order (`-first`).
    sort: Option<String>,
    /// Maximum number of rows (100).
    limit: Option<usize>,
    /// Rows to skip (0).
    offset: Option<usize>,
    /// Fields whose values each row has beside it, as `flow.sent_ttl,tls.ja4`: of flows, and of their records; at most 32.
    fields: Option<String>,
}

/// Flows that match an expression, with a histogram of their start times and totals.
#[utoipa::path(get, path = "/api/v1/flows", params(FlowsAsked),
    responses((status = 200, body = Flows), (status = 400, body = Failure)))]
pub async fn flows(
    State(app): State<Shared>,
    Extension(client): Extension<Client>,
    RawQuery(query): RawQuery,
    Ask(asked): Ask<FlowsAsked>,
) -> Result<Response, Failure> {
    let form = Form::of(query.as_deref(), "flows", Vec::new())?;
    let sort = asked.sort.as_deref().unwrap_or("-first");
    let (order, descending) = FlowOrder::parse(sort)
        .map_err(|names| Failure::question(format!("invalid sort key {sort:?}"), names))?;
    let wanted = FlowsWanted {
        test: flow_test(&app, &client, asked.filter.as_deref()).await?,
        span: span(asked.from, asked.to)?,
        order,
        descending,
        limit: count("limit", asked.limit, 100, MAX_ROWS)?,
        offset: offset(asked.offset)?,
        fields: beside(&app, &client, asked.fields.as_deref().unwrap_or_default()).await?,
    };
    let bytes = page_memory(wanted.offset, wanted.limit);
    rows::answer(&app, &client, form, bytes, move |store, writer| {
        basis::over(store, wanted.span, |span| {
            store.pass_flows(&FlowsWanted { span, ..wanted }, &mut |flow| writer.row(&flow))
        })
    })
    .await
}

/// The fields of a list of names.
async fn beside(app: &Shared, client: &Client, names: &str) -> Result<Vec<registry::FieldInfo>, Failure> {
    let names: Vec<&str> = names.split(',').map(str::trim).filter(|name| !name.is_empty()).collect();
    if names.is_empty() {
        return Ok(Vec::new());
    }
    if names.len() > MAX_FIELDS {
        return Err(Failure::question(
            format!("too many fields: {}", names.len()),
            format!("at most {MAX_FIELDS}"),
        ));
    }
    let asking = asking(app, client, None).await?;
    let fields = asking.fields();
    let field = |name: &&str| {
        let (table, field) = name.split_once('.').unwrap_or((FLOW, name));
        find(&fields, table, field)
            .map_err(|error| Failure::question(error, "/api/v1/fields lists the fields"))
    };
    names.iter().map(field).collect()
}

/// Bytes that the places of a page's rows, and of those before it, need while they are sorted.
fn page_memory(offset: usize, limit: usize) -> usize {
    offset.saturating_add(limit).min(MAX_ROWS) * PLACE
}

/// A flow with its records.
#[utoipa::path(get, path = "/api/v1/flows/{id}",
    params(("id" = String, Path, description = "The `id` of a row of /api/v1/flows")),
    responses((status = 200, body = FlowDetail), (status = 404, body = Failure)))]
pub async fn flow(
    State(app): State<Shared>,
    Extension(client): Extension<Client>,
    Path(id): Path<String>,
) -> Result<Json<FlowDetail>, Failure> {
    if id.len() > 256 {
        return Err(Failure::question("invalid flow identifier", "an `id` of /api/v1/flows"));
    }
    let asked = id.clone();
    match app.ask(move |store| store.flow(&asked)).await? {
        Some(mut detail) => {
            if !client.rights.has(Right::Packets) {
                let mut withheld = Withheld::default();
                for record in &mut detail.records {
                    withheld.withhold(&record.table, &mut record.values);
                }
                detail.partial = detail.partial.or_else(|| withheld.sentence());
            }
            Ok(Json(detail))
        }
        None => Err(Failure::unknown(format!("no flow {id:?}: it was never stored, or has expired"))),
    }
}

/// All record tables, with their fields and their number of stored rows.
#[utoipa::path(get, path = "/api/v1/protocols", responses((status = 200, body = Protocols)))]
pub async fn protocols(State(app): State<Shared>) -> Json<Protocols> {
    // Without a store the tables are listed with no rows.
    let counts = app.ask(|store| store.record_counts()).await.unwrap_or_default();
    let rows: BTreeMap<String, u64> = counts.into_iter().collect();
    let shared = SHARED_TABLES.iter().map(|table| (*table, ""));
    let own =
        PROTOCOLS.iter().flat_map(|protocol| protocol.tables.iter().map(|table| (*table, protocol.name)));
    let mut tables: Vec<TableInfo> = Vec::new();
    for (table, protocol) in shared.chain(own) {
        // Protocols with two transports share one table.
        if !tables.iter().any(|known| known.name == table.name) {
            tables.push(described(table, protocol, rows.get(table.name).copied().unwrap_or(0)));
        }
    }
    Json(Protocols { tables })
}

fn described(table: &Table, protocol: &str, rows: u64) -> TableInfo {
    let field = |field: &weir_proto::Field| FieldInfo {
        name: field.name.to_owned(),
        help: field.help.to_owned(),
        kind: kind(field.kind).to_owned(),
    };
    TableInfo {
        name: table.name.to_owned(),
        help: table.help.to_owned(),
        protocol: protocol.to_owned(),
        rows,
        fields: table.fields.iter().map(field).collect(),
    }
}

fn kind(kind: Kind) -> &'static str {
    match kind {
        Kind::Bool => "bool",
        Kind::Uint | Kind::Int | Kind::Real | Kind::Port => "number",
        Kind::Duration => "duration",
        Kind::Time => "time",
        Kind::Text | Kind::Word => "text",
        Kind::Address => "address",
        Kind::List(_) | Kind::Set(_) | Kind::Rows(_) => "list",
    }
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct RecordsAsked {
    /// An expression over records: pcap-filter(7) over properties of the record's flow, with tests of fields, as
    /// `http.status_code >= 500`.
    filter: Option<String>,
    /// Text that one of the values contains.
    text: Option<String>,
    /// Start of the time range, in seconds since the epoch.
    from: Option<f64>,
    /// End of the time range, excluded.
    to: Option<f64>,
    /// Maximum number of rows (100).
    limit: Option<usize>,
    /// Rows to skip (0).
    offset: Option<usize>,
    /// Sort key: `time`, `client`, `server` or a field of the table; a `-` in front sorts in descending order (`-time`). Texts
    /// are sorted by their first 128 bytes, and records without a value come last.
    sort: Option<String>,
    /// Of the table `alert`, `yes`: only those that a mute hides now; `no`: only the others. Without it, both.
    muted: Option<String>,
}

/// Records of a table.
#[utoipa::path(get, path = "/api/v1/records/{table}",
    params(("table" = String, Path, description = "A table of /api/v1/protocols"), RecordsAsked),
    responses((status = 200, body = Records), (status = 400, body = Failure), (status = 404, body = Failure)))]
pub async fn records(
    State(app): State<Shared>,
    Path(table): Path<String>,
    Extension(client): Extension<Client>,
    RawQuery(query): RawQuery,
    Ask(asked): Ask<RecordsAsked>,
) -> Result<Response, Failure> {
    if !weir_proto::tables().any(|known| known.name == table) {
        return Err(Failure::unknown(format!("no table {table:?}; /api/v1/protocols lists them")));
    }
    let payload = client.rights.has(Right::Packets);
    let form = Form::of(query.as_deref(), "records", columns(&table, payload))?;
    let (order, descending) = record_order(&table, asked.sort.as_deref().unwrap_or("-time"), payload)?;
    let test = record_test(&app, &client, asked.filter.as_deref()).await?;
    let test = match asked.muted {
        Some(word) => by_mutes(&app, &table, test, is_muted(Some(&word))?).await?,
        None => test,
    };
    let wanted = RecordsWanted {
        table,
        test,
        text: asked.text.unwrap_or_default(),
        payload,
        span: span(asked.from, asked.to)?,
        order,
        descending,
        limit: count("limit", asked.limit, 100, MAX_ROWS)?,
        offset: offset(asked.offset)?,
    };
    let bytes = page_memory(wanted.offset, wanted.limit);
    rows::answer(&app, &client, form, bytes, move |store, writer| {
        basis::over(store, wanted.span, |span| {
            store.pass_records(&RecordsWanted { span, ..wanted }, &mut |record| writer.row(&record))
        })
    })
    .await
}

/// A test of the alerts that a mute hides, or of the others.
async fn by_mutes(app: &Shared, table: &str, test: FlowTest, is_muted: bool) -> Result<FlowTest, Failure> {
    if table != muted_alerts::TABLE {
        return Err(Failure::question("invalid muted", "only records of the table `alert` are muted"));
    }
    let mutes = app.mutes();
    Ok(MutedAlerts::of(&app.wait(move || Ok(mutes()?)).await?)?.narrow(test, is_muted))
}

/// The columns of a table of records: what every record has, and the fields that the client may see.
fn columns(table: &str, payload: bool) -> Vec<String> {
    let mut names: Vec<String> = RECORD_COLUMNS.iter().map(|name| (*name).to_owned()).collect();
    for field in tables(table).flat_map(|table| table.fields) {
        if (payload || !is_payload(field)) && !names.iter().any(|name| name == field.name) {
            names.push(field.name.to_owned());
        }
    }
    names
}

/// The order of a sort key. A field that the client may not see is no order, which would disclose its values.
fn record_order(table: &str, sort: &str, payload: bool) -> Result<(RecordOrder, bool), Failure> {
    let (name, descending) = sort.strip_prefix('-').map_or((sort, false), |name| (name, true));
    let order = match name {
        "time" => RecordOrder::Time,
        "client" => RecordOrder::Client,
        "server" => RecordOrder::Server,
        name => {
            let fields = StoreFields { payload, lists: Lists::None, moments: &Moments::default() };
            let field = find(&fields, table, name).map_err(|error| {
                Failure::question(
                    format!("invalid sort key {sort:?}: {error}"),
                    "expected `time`, `client`, `server` or a field of the table, with a leading `-` for descending order",
                )
            })?;
            RecordOrder::Field(field.name)
        }
    };
    Ok((order, descending))
}

fn offset(asked: Option<usize>) -> Result<usize, Failure> {
    match asked.unwrap_or(0) {
        n if n <= MAX_OFFSET => Ok(n),
        n => Err(Failure::question(
            format!("invalid offset: {n}"),
            format!("expected a number up to {MAX_OFFSET}"),
        )),
    }
}
