//! Queries in the query language.

use super::Ask;
use super::asked::asking;
use crate::serve::app::Shared;
use crate::serve::body::holding;
use crate::serve::failure::Failure;
use crate::serve::rights::Client;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use serde::Deserialize;
use utoipa::IntoParams;
use weir_api::web::Answered;
use weir_store::query::{QueryError, Question};

/// Maximum rows of one answer.
const MAX_ROWS: usize = 10_000;
/// Rows of a short answer.
const SHORT: usize = 1000;
/// Bytes of a row and its text.
const ROW: usize = 4096;

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct Asked {
    /// The query, on one line or as a JSON object: `top client by bytes since 24h where dst net 10.0.0.0/8`.
    q: String,
    /// Time zone of the times in the query and the answer, by its IANA name (the sensor's).
    zone: Option<String>,
}

impl From<QueryError> for Failure {
    fn from(error: QueryError) -> Self {
        Self {
            offset: Some(error.offset),
            length: Some(error.length),
            ..Failure::question(error.message, "`weir query --help` describes the query language")
        }
    }
}

/// Answers a query, as `weir query` does.
#[utoipa::path(get, path = "/api/v1/query", params(Asked),
    responses((status = 200, body = Answered), (status = 400, body = Failure), (status = 404, body = Failure)))]
pub async fn query(
    State(app): State<Shared>,
    Extension(client): Extension<Client>,
    Ask(asked): Ask<Asked>,
) -> Result<Response, Failure> {
    let asking = asking(&app, &client, asked.zone.as_deref()).await?;
    let question = Question::parse(&asked.q, &asking)?;
    if question.row_limit() > MAX_ROWS {
        return Err(Failure::question(
            format!("limit {}: an answer to a query has at most {MAX_ROWS} rows", question.row_limit()),
            "/api/v1/flows and /api/v1/records/TABLE answer with up to 100000 rows, `weir query` with any number",
        ));
    }
    // The rows are in memory until they are sent.
    let place = match question.row_limit() {
        ..=SHORT => None,
        rows => Some(app.answers.large(&client, rows * ROW).await?),
    };
    let answer = Json(app.ask(move |store| question.ask(store)).await?).into_response();
    Ok(holding(answer, place))
}
