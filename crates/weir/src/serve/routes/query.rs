//! Queries in the query language.

use super::Ask;
use super::asked::asking;
use crate::serve::app::Shared;
use crate::serve::failure::Failure;
use crate::serve::rights::Client;
use axum::extract::State;
use axum::{Extension, Json};
use serde::Deserialize;
use utoipa::IntoParams;
use weir_api::web::Answered;
use weir_store::query::{QueryError, Question};

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
) -> Result<Json<Answered>, Failure> {
    let asking = asking(&app, &client, asked.zone.as_deref()).await?;
    let question = Question::parse(&asked.q, &asking)?;
    Ok(Json(app.ask(move |store| question.ask(store)).await?))
}
