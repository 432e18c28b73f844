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

/// Rows of one answer.
const MAX_ROWS: usize = 10_000;

/// Parts of the time of which a row tells what it had.
const MAX_PARTS: usize = 100;

/// What lists and distinct counts there are.
#[utoipa::path(get, path = "/api/v1/lists", responses((status = 200, body = Lists), (status = 503, body = Failure)))]
pub async fn lists(State(app): State<Shared>) -> Result<Json<Lists>, Failure> {
    Ok(Json(app.ask(|store| store.lists()).await?))
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct TopAsked {
    /// The list.
    list: String,
    /// The beginning of the time that is asked about, in seconds since the epoch.
    from: Option<f64>,
    /// Its end, not included.
    to: Option<f64>,
    /// Most rows of the answer (20).
    limit: Option<usize>,
    /// What ranks the rows: `bytes`, `packets` or `flows`; the list's own unit when nothing is said.
    by: Option<String>,
    /// Of how many parts of the time each row tells what it had (0); those of an expression do not.
    curves: Option<usize>,
    /// A pcap-filter(7) expression: then flows that were stored are added up.
    filter: Option<String>,
}

/// A list, and the expression it was narrowed by.
#[derive(Serialize, ToSchema)]
pub struct Narrowed {
    #[serde(flatten)]
    list: TopList,
    /// The expression that was applied; none where the list is that of all packets.
    #[serde(skip_serializing_if = "Option::is_none")]
    filter: Option<String>,
}

/// The heaviest rows of a list over a time.
#[utoipa::path(get, path = "/api/v1/top", params(TopAsked),
    responses((status = 200, body = Narrowed), (status = 400, body = Failure), (status = 404, body = Failure)))]
pub async fn top(State(app): State<Shared>, Ask(asked): Ask<TopAsked>) -> Result<Json<Narrowed>, Failure> {
    let span = span(asked.from, asked.to)?;
    let limit = count("limit", asked.limit, 20, MAX_ROWS)?;
    let by = asked.by.as_deref().map(|by| {
        let wanted = |names| Failure::question(format!("by cannot be {by:?}"), format!("{names} is wanted"));
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
            let test = flow_test(Some(filter), &app.reading.options())?;
            let Some((_, group)) = lists_of_flows().find(|(name, _)| *name == asked.list) else {
                let names = lists_of_flows().map(|(name, _)| name).collect::<Vec<_>>().join(", ");
                let text = format!("{} is not made of flows", asked.list);
                return Err(Failure::question(text, format!("with an expression: {names}")));
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
    /// The beginning of the time that is asked about, in seconds since the epoch.
    from: Option<f64>,
    /// Its end, not included.
    to: Option<f64>,
}

/// How many different things there were.
#[utoipa::path(get, path = "/api/v1/distinct", params(TimeAsked),
    responses((status = 200, body = Distincts), (status = 400, body = Failure)))]
pub async fn distinct(
    State(app): State<Shared>,
    Ask(asked): Ask<TimeAsked>,
) -> Result<Json<Distincts>, Failure> {
    let span = span(asked.from, asked.to)?;
    Ok(Json(app.ask(move |store| store.distinct(span)).await?))
}

/// What was seen in the time and not in the seven days before it.
#[utoipa::path(get, path = "/api/v1/new", params(TimeAsked),
    responses((status = 200, body = News), (status = 400, body = Failure)))]
pub async fn news(State(app): State<Shared>, Ask(asked): Ask<TimeAsked>) -> Result<Json<News>, Failure> {
    let span = span(asked.from, asked.to)?;
    Ok(Json(app.ask(move |store| store.news(span)).await?))
}
