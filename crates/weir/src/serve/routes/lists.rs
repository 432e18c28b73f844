//! Top lists and distinct counts.

use super::Ask;
use super::asked::{count, flow_test, span};
use crate::serve::app::Shared;
use crate::serve::failure::Failure;
use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use weir_api::Unit;
use weir_api::web::{Distincts, Lists, News, TopList};
use weir_output::store::RankBy;
use weir_output::store::query::lists_of_flows;

/// Maximum rows of one answer.
const MAX_ROWS: usize = 10_000;

/// Maximum parts of a row's curve.
const MAX_PARTS: usize = 100;

/// All top lists and distinct counts.
#[utoipa::path(get, path = "/api/v1/lists", responses((status = 200, body = Lists), (status = 503, body = Failure)))]
pub async fn lists(State(app): State<Shared>) -> Result<Json<Lists>, Failure> {
    Ok(Json(app.ask(|store| store.lists()).await?))
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct TopAsked {
    /// Name of the list.
    list: String,
    /// Start of the time range, in seconds since the epoch.
    from: Option<f64>,
    /// End of the time range, excluded.
    to: Option<f64>,
    /// Maximum number of rows (20).
    limit: Option<usize>,
    /// Ranking: `bytes`, `packets` or `flows` (the list's unit).
    by: Option<String>,
    /// Number of parts of the time range for which each row has a value (0); ignored with `filter`.
    curves: Option<usize>,
    /// A pcap-filter(7) expression; the list is then computed from stored flows.
    filter: Option<String>,
}

/// A top list and the expression that restricts it.
#[derive(Serialize, ToSchema)]
pub struct Narrowed {
    #[serde(flatten)]
    list: TopList,
    /// The expression that was applied; absent when the list covers all packets.
    #[serde(skip_serializing_if = "Option::is_none")]
    filter: Option<String>,
}

/// The heaviest rows of a list over a time range.
#[utoipa::path(get, path = "/api/v1/top", params(TopAsked),
    responses((status = 200, body = Narrowed), (status = 400, body = Failure), (status = 404, body = Failure)))]
pub async fn top(State(app): State<Shared>, Ask(asked): Ask<TopAsked>) -> Result<Json<Narrowed>, Failure> {
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
    let list = match &filter {
        None => app.ask(move |store| store.top_over_time(&asked.list, span, by, limit, curves)).await?,
        Some(filter) => {
            let test = flow_test(Some(filter), &app.expression_options.to_options())?;
            let Some((_, group)) = lists_of_flows().find(|(name, _)| *name == asked.list) else {
                let names = lists_of_flows().map(|(name, _)| name).collect::<Vec<_>>().join(", ");
                let text = format!("list {} cannot be restricted by an expression", asked.list);
                return Err(Failure::question(text, format!("expected one of {names}")));
            };
            let rank = by.unwrap_or(RankBy::Unit(Unit::Bytes));
            let mut list = app.ask(move |store| store.group(group, &test, span, rank, limit)).await?;
            list.list = asked.list;
            list
        }
    };
    Ok(Json(Narrowed { list, filter }))
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
    Ok(Json(app.ask(move |store| store.distinct(span)).await?))
}

/// Keys seen in a time range and not in the seven days before it.
#[utoipa::path(get, path = "/api/v1/new", params(TimeAsked),
    responses((status = 200, body = News), (status = 400, body = Failure)))]
pub async fn news(State(app): State<Shared>, Ask(asked): Ask<TimeAsked>) -> Result<Json<News>, Failure> {
    let span = span(asked.from, asked.to)?;
    Ok(Json(app.ask(move |store| store.news(span)).await?))
}
