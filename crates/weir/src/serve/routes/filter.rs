//! Expressions: validation, evaluation plan and trial against stored flows.

use super::Ask;
use super::asked::{asking, flow_test, span};
use crate::config;
use crate::explain;
use crate::fields::RunFields;
use crate::serve::app::Shared;
use crate::serve::failure::Failure;
use crate::serve::rights::Client;
use axum::extract::State;
use axum::{Extension, Json};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use weir_api::web::{ExpressionWords, FilterTry};
use weir_filter::{FilterError, Options};
use weir_store::fields::described;

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct FilterAsked {
    /// A pcap-filter(7) expression.
    expression: String,
    /// What a subscription with the expression is over: `packet`, `flow` or `record`. Without it the expression is over stored
    /// flows, or over packets.
    level: Option<String>,
}

/// Result of validating an expression.
#[derive(Serialize, ToSchema)]
pub struct FilterCheck {
    /// Whether the expression is valid.
    ok: bool,
    /// The error, if any.
    #[schema(required = true)]
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
    #[schema(required = true)]
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
    Extension(client): Extension<Client>,
    Ask(asked): Ask<FilterAsked>,
) -> Result<Json<FilterCheck>, Failure> {
    let options = app.expression_options;
    let level = asked.level.as_deref().map(|word| {
        let wrong =
            || Failure::question(format!("invalid level {word:?}"), "expected packet, flow or record");
        config::level_named(word).ok_or_else(wrong)
    });
    let level = level.transpose()?;
    // Without a store nothing has fields, and an expression is one over packets.
    let asking = asking(&app, &client, None).await.ok();
    let lists = RunFields::of_client(app.configuration.lists());
    let check = move || {
        // Blanks in quotes are part of a text.
        let canonical = match asked.expression.contains(['"', '\'']) {
            true => asked.expression.trim().to_owned(),
            false => asked.expression.split_whitespace().collect::<Vec<_>>().join(" "),
        };
        let explained = match (&asking, level) {
            (_, Some(level)) => config::check_at(&asked.expression, level, &lists).map(|()| Vec::new()),
            (Some(asking), None) => {
                let fields = asking.fields();
                let reading = Options { fields: Some(&fields), ..options.to_options() };
                explain::lines(&asked.expression, &reading)
            }
            (None, None) => explain::lines(&asked.expression, &options.to_options()),
        };
        Ok(match explained {
            Ok(explain) => FilterCheck { ok: true, error: None, canonical, explain },
            Err(error) => {
                FilterCheck { ok: false, error: Some(error.into()), canonical, explain: Vec::new() }
            }
        })
    };
    Ok(Json(app.wait(check).await?))
}

/// Everything that an expression over flows and records can be made of: tables with their fields, operators, and words of
/// pcap-filter(7).
#[utoipa::path(get, path = "/api/v1/fields", responses((status = 200, body = ExpressionWords)))]
pub async fn fields() -> Json<ExpressionWords> {
    Json(ExpressionWords {
        tables: described(),
        operators: weir_filter::fields::operators().map(str::to_owned).collect(),
        words: weir_filter::words().map(str::to_owned).collect(),
    })
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct TryAsked {
    /// An expression over flows: pcap-filter(7) over addresses, nets, ports, protocols and VLAN, with tests of fields. Without it
    /// all flows match.
    expression: Option<String>,
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
    Extension(client): Extension<Client>,
    Ask(asked): Ask<TryAsked>,
) -> Result<Json<FilterTry>, Failure> {
    let (test, span) =
        (flow_test(&app, &client, asked.expression.as_deref()).await?, span(asked.from, asked.to)?);
    Ok(Json(app.ask_over(span, move |store, span| store.trial(&test, span)).await?))
}
