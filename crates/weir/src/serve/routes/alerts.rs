//! Alerts of rules, by the rule that matched.

use super::Ask;
use super::asked::{count, is_muted, record_test, span};
use crate::serve::app::Shared;
use crate::serve::failure::Failure;
use crate::serve::rights::Client;
use axum::extract::State;
use axum::{Extension, Json};
use serde::Deserialize;
use utoipa::IntoParams;
use weir_api::web::RuleAlerts;
use weir_store::alerts::{MAX_RULES, by_rule};
use weir_store::muted_alerts::MutedAlerts;

/// Rules of an answer, unless a client asks for another number.
const ROWS: usize = 100;
/// The function that lets rules look at flows.
const RULES: &str = "rules";

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct AlertsAsked {
    /// Start of the time range, in seconds since the epoch.
    from: Option<f64>,
    /// End of the time range, excluded.
    to: Option<f64>,
    /// Maximum number of rules (100).
    limit: Option<usize>,
    /// An expression over records: pcap-filter(7) over properties of the alert's flow, with tests of fields, as `alert.severity = 1`.
    filter: Option<String>,
    /// `yes`: the alerts that a mute hides, in place of the others.
    muted: Option<String>,
}

/// Alerts of rules in a time range, added up by rule: the number of alerts, the first and the last, and the number of their hosts.
/// Those that a mute hides now are counted, and listed on request. `/api/v1/records/alert` has each alert by itself.
#[utoipa::path(get, path = "/api/v1/alerts", params(AlertsAsked),
    responses((status = 200, body = RuleAlerts), (status = 400, body = Failure)))]
pub async fn alerts(
    State(app): State<Shared>,
    Extension(client): Extension<Client>,
    Ask(asked): Ask<AlertsAsked>,
) -> Result<Json<RuleAlerts>, Failure> {
    let span = span(asked.from, asked.to)?;
    let limit = count("limit", asked.limit, ROWS, MAX_RULES)?;
    let test = record_test(&app, &client, asked.filter.as_deref()).await?;
    let looks = app.hub.described().is_some_and(|plan| {
        plan.subscriptions.iter().any(|subscription| subscription.functions.iter().any(|name| name == RULES))
    });
    let is_muted = is_muted(asked.muted.as_deref())?;
    let mutes = app.mutes();
    let ask = app.ask_over(span, move |store, span| {
        by_rule(store, &test, span, limit, &MutedAlerts::of(&mutes()?)?, is_muted)
    });
    let answer = ask.await?;
    Ok(Json(RuleAlerts { looks, ..answer }))
}
