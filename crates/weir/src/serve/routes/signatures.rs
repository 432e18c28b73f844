//! The port signatures that runs with the store have found.

use super::Ask;
use super::asked::{count, span};
use crate::serve::app::Shared;
use crate::serve::failure::Failure;
use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use std::sync::{Arc, PoisonError};
use utoipa::IntoParams;
use weir_api::web::PortSignatures;
use weir_store::signatures::{MAX_SIGNATURES, seen_in};

/// Signatures of an answer, unless a client asks for another number.
const ROWS: usize = 100;

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct SignaturesAsked {
    /// Start of the time range, in seconds since the epoch.
    from: Option<f64>,
    /// End of the time range, excluded.
    to: Option<f64>,
    /// Maximum number of signatures (100).
    limit: Option<usize>,
}

/// Sets of ports that hosts that may be worms tried in a time range, new ones first.
#[utoipa::path(get, path = "/api/v1/signatures", params(SignaturesAsked),
    responses((status = 200, body = PortSignatures), (status = 400, body = Failure)))]
pub async fn signatures(
    State(app): State<Shared>,
    Ask(asked): Ask<SignaturesAsked>,
) -> Result<Json<PortSignatures>, Failure> {
    let span = span(asked.from, asked.to)?;
    let limit = count("limit", asked.limit, ROWS, MAX_SIGNATURES)?;
    let held = Arc::clone(&app);
    let answer = app.ask_over(span, move |_, span| {
        let Some(signatures) = &held.signatures else { return Ok(PortSignatures::default()) };
        let known = signatures.lock().unwrap_or_else(PoisonError::into_inner).all()?;
        Ok(seen_in(&known, span, limit))
    });
    Ok(Json(answer.await?))
}
