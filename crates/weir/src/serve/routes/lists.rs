//! Top lists and distinct counts.

use super::Ask;
use super::asked::{count, flow_test, is_muted, span};
use crate::serve::app::Shared;
use crate::serve::failure::Failure;
use crate::serve::rights::Client;
use axum::extract::State;
use axum::{Extension, Json};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use weir_api::Unit;
use weir_api::web::{Distincts, Findings, ListInfo, Lists, News, Paths, TopList};
use weir_store::query::{kept_list, list_of_flows, lists_kept, lists_of_flows};
use weir_store::{RankBy, findings, paths};

/// Maximum rows of one answer.
const MAX_ROWS: usize = 10_000;

/// Maximum number of nodes of a column of /api/v1/paths.
const MAX_NODES: usize = 1_000;

/// Maximum parts of a row's curve.
const MAX_PARTS: usize = 100;

/// All top lists and distinct counts.
#[utoipa::path(get, path = "/api/v1/lists", responses((status = 200, body = Lists), (status = 503, body = Failure)))]
pub async fn lists(State(app): State<Shared>) -> Result<Json<Lists>, Failure> {
    let mut lists = app.ask(|store| store.lists()).await?;
    // Senders and receivers are counted by the pass, clients and servers are computed from flows.
    if let Some(at) = lists.lists.iter().position(|list| list.name == "destinations") {
        let computed = [("client", "Top clients"), ("server", "Top servers")].map(|(key, title)| ListInfo {
            name: format!("{key}s"),
            title: title.to_owned(),
            key: key.to_owned(),
            unit: "bytes".to_owned(),
        });
        lists.lists.splice(at + 1..at + 1, computed);
    }
    Ok(Json(lists))
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct TopAsked {
    /// Name of the list: one of /api/v1/lists, or `senders`, `receivers`, `clients`, `servers`, `hosts`, `pairs`, `vlans`,
    /// `states`, `applications` or `names`. Clients began the flows, servers were spoken to first.
    list: String,
    /// Start of the time range, in seconds since the epoch.
    from: Option<f64>,
    /// End of the time range, excluded.
    to: Option<f64>,
    /// Maximum number of rows (20).
    limit: Option<usize>,
    /// Ranking: `bytes`, `packets` or `flows` (the list's unit).
    by: Option<String>,
    /// Number of parts of the time range for which each row has a value (0).
    curves: Option<usize>,
    /// An expression over flows: pcap-filter(7) with tests of fields, as `tls.server_name under example.org`; the list is then
    /// computed from stored flows.
    filter: Option<String>,
}

/// A top list and the expression that restricts it.
#[derive(Serialize, ToSchema)]
pub struct Narrowed {
    #[serde(flatten)]
    list: TopList,
    /// The expression that was applied; absent when the list covers all packets.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    filter: Option<String>,
}

/// The heaviest rows of a list over a time range.
#[utoipa::path(get, path = "/api/v1/top", params(TopAsked),
    responses((status = 200, body = Narrowed), (status = 400, body = Failure), (status = 404, body = Failure)))]
pub async fn top(
    State(app): State<Shared>,
    Extension(client): Extension<Client>,
    Ask(asked): Ask<TopAsked>,
) -> Result<Json<Narrowed>, Failure> {
    let span = span(asked.from, asked.to)?;
    let limit = count("limit", asked.limit, 20, MAX_ROWS)?;
    let by = asked.by.as_deref().map(|by| {
        let wanted =
            |names| Failure::question(format!("invalid ranking {by:?}"), format!("expected {names}"));
        RankBy::parse(by).map_err(wanted)
    });
    let by = by.transpose()?;
    let curves = match asked.curves {
        None | Some(0) => 0,
        curves => count("curves", curves, 0, MAX_PARTS)?,
    };
    let filter = asked.filter.filter(|filter| !filter.trim().is_empty());
    let test = flow_test(&app, &client, filter.as_deref()).await?;
    let name = kept_list(&asked.list).unwrap_or(&asked.list).to_owned();
    let group = list_of_flows(&asked.list);
    // Lists are counted in every interval; that of clients, of servers and others are computed from flows, as all are with
    // an expression.
    let is_kept = lists_kept().any(|kept| kept == name);
    let list = match group {
        None if filter.is_some() => {
            let names = lists_of_flows().collect::<Vec<_>>().join(", ");
            let text = format!("list {} cannot be restricted by an expression", asked.list);
            return Err(Failure::question(text, format!("expected one of {names}")));
        }
        None => {
            app.ask_over(span, move |store, span| store.top_over_time(&name, span, by, limit, curves)).await?
        }
        Some(group) if filter.is_none() && is_kept => {
            app.ask_over(span, move |store, span| store.ranked(&name, group, span, by, limit, curves)).await?
        }
        Some(group) => {
            let rank = by.unwrap_or(RankBy::Unit(Unit::Bytes));
            let list = app
                .ask_over(span, move |store, span| store.group(group, &test, span, rank, limit, curves))
                .await?;
            TopList { list: asked.list, ..list }
        }
    };
    Ok(Json(Narrowed { list, filter }))
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct PathsAsked {
    /// Start of the time range, in seconds since the epoch.
    from: Option<f64>,
    /// End of the time range, excluded.
    to: Option<f64>,
    /// Number of clients, of services and of servers that are shown by themselves (12).
    limit: Option<usize>,
    /// An expression over flows: pcap-filter(7) with tests of fields.
    filter: Option<String>,
}

/// Clients, services and servers with the traffic between them, over all flows of a time range.
#[utoipa::path(get, path = "/api/v1/paths", params(PathsAsked),
    responses((status = 200, body = Paths), (status = 400, body = Failure)))]
pub async fn paths(
    State(app): State<Shared>,
    Extension(client): Extension<Client>,
    Ask(asked): Ask<PathsAsked>,
) -> Result<Json<Paths>, Failure> {
    let span = span(asked.from, asked.to)?;
    let limit = count("limit", asked.limit, 12, MAX_NODES)?;
    let test = flow_test(&app, &client, asked.filter.as_deref()).await?;
    Ok(Json(app.ask_over(span, move |store, span| paths::of(store, &test, span, limit)).await?))
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct TimeAsked {
    /// Start of the time range, in seconds since the epoch.
    from: Option<f64>,
    /// End of the time range, excluded.
    to: Option<f64>,
}

/// Distinct counts over a time range.
#[utoipa::path(get, path = "/api/v1/distinct", params(TimeAsked),
    responses((status = 200, body = Distincts), (status = 400, body = Failure)))]
pub async fn distinct(
    State(app): State<Shared>,
    Ask(asked): Ask<TimeAsked>,
) -> Result<Json<Distincts>, Failure> {
    let span = span(asked.from, asked.to)?;
    Ok(Json(app.ask_over(span, move |store, span| store.distinct(span)).await?))
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct FindingsAsked {
    /// Start of the time range, in seconds since the epoch.
    from: Option<f64>,
    /// End of the time range, excluded.
    to: Option<f64>,
    /// An expression over flows: pcap-filter(7) with tests of fields.
    filter: Option<String>,
    /// `yes`: the findings that a mute hides, in place of the others.
    muted: Option<String>,
}

/// Hosts that probed ports or hosts, over all flows of a time range. Those that a mute hides now are counted, and listed on request.
#[utoipa::path(get, path = "/api/v1/findings", params(FindingsAsked),
    responses((status = 200, body = Findings), (status = 400, body = Failure)))]
pub async fn findings(
    State(app): State<Shared>,
    Extension(client): Extension<Client>,
    Ask(asked): Ask<FindingsAsked>,
) -> Result<Json<Findings>, Failure> {
    let span = span(asked.from, asked.to)?;
    let test = flow_test(&app, &client, asked.filter.as_deref()).await?;
    let is_muted = is_muted(asked.muted.as_deref())?;
    let mutes = app.mutes();
    let ask = app.ask_over(span, move |store, span| findings::of(store, &test, span, &mutes()?, is_muted));
    Ok(Json(ask.await?))
}

/// Hosts and services seen in a time range and not in the seven days before it.
#[utoipa::path(get, path = "/api/v1/new", params(TimeAsked),
    responses((status = 200, body = News), (status = 400, body = Failure)))]
pub async fn news(State(app): State<Shared>, Ask(asked): Ask<TimeAsked>) -> Result<Json<News>, Failure> {
    let span = span(asked.from, asked.to)?;
    Ok(Json(app.ask_over(span, move |store, span| store.news(span)).await?))
}
