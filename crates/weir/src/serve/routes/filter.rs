//! Expressions: validation, evaluation plan and trial against stored flows.

use super::Ask;
use super::asked::{flow_test, span};
use crate::explain;
use crate::serve::app::Shared;
use crate::serve::failure::Failure;
use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use weir_api::web::FilterTry;
use weir_filter::FilterError;

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct FilterAsked {
    /// A pcap-filter(7) expression.
    expression: String,
}

/// Result of validating an expression.
#[derive(Serialize, ToSchema)]
pub struct FilterCheck {
    /// Whether the expression is valid.
    ok: bool,
    /// The error, if any.
    error: Option<Fault>,
    /// The expression on one line, with single spaces.
    canonical: String,
    /// Evaluation plan, line by line, as `weir explain` prints it.
    explain: Vec<String>,
}

/// An error in an expression.
#[derive(Serialize, ToSchema)]
pub struct Fault {
    /// The error, and what was expected.
    message: String,
    /// Position in bytes.
    offset: usize,
    /// Length in bytes.
    length: usize,
    /// Accepted values.
    help: Option<String>,
}

impl From<FilterError> for Fault {
    fn from(error: FilterError) -> Self {
        Self { message: error.message, offset: error.span.start, length: error.span.len(), help: None }
    }
}

/// Validates an expression and explains its evaluation.
#[utoipa::path(get, path = "/api/v1/filter", params(FilterAsked),
    responses((status = 200, body = FilterCheck), (status = 400, body = Failure)))]
pub async fn filter(
    State(app): State<Shared>,
    Ask(asked): Ask<FilterAsked>,
) -> Result<Json<FilterCheck>, Failure> {
    let options = app.expression_options;
    let check = move || {
        let canonical = asked.expression.split_whitespace().collect::<Vec<_>>().join(" ");
        Ok(match explain::lines(&asked.expression, &options.to_options()) {
            Ok(explain) => FilterCheck { ok: true, error: None, canonical, explain },
            Err(error) => {
                FilterCheck { ok: false, error: Some(error.into()), canonical, explain: Vec::new() }
            }
        })
    };
    Ok(Json(app.wait(check).await?))
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct TryAsked {
    /// A pcap-filter(7) expression over flow properties: addresses, nets, ports, protocols, VLAN.
    expression: String,
    /// Start of the time range, in seconds since the epoch.
    from: Option<f64>,
    /// End of the time range, excluded.
    to: Option<f64>,
}

/// Counts the stored flows that an expression matches, and all flows.
#[utoipa::path(get, path = "/api/v1/filter/try", params(TryAsked),
    responses((status = 200, body = FilterTry), (status = 400, body = Failure)))]
pub async fn attempt(
    State(app): State<Shared>,
    Ask(asked): Ask<TryAsked>,
) -> Result<Json<FilterTry>, Failure> {
    let (test, span) = (
        flow_test(Some(&asked.expression), &app.expression_options.to_options())?,
        span(asked.from, asked.to)?,
    );
    Ok(Json(app.ask(move |store| store.trial(&test, span)).await?))
}
