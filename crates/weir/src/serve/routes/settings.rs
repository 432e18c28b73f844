//! The configuration: what is in effect, whether another text is good, and putting it into effect.

use crate::serve::app::Shared;
use crate::serve::config::{Applied, Checked, Effective};
use crate::serve::failure::Failure;
use crate::serve::security::Right;
use axum::extract::rejection::JsonRejection;
use axum::extract::{FromRequest, Request, State};
use axum::{Extension, Json};
use serde::Deserialize;
use utoipa::ToSchema;

/// The text of a configuration.
#[derive(Deserialize, ToSchema)]
pub struct Text {
    /// TOML.
    text: String,
}

/// A body of JSON; what is wrong with it is answered as JSON too.
pub struct Posted(Text);

impl<S: Send + Sync> FromRequest<S> for Posted {
    type Rejection = Failure;

    async fn from_request(request: Request, state: &S) -> Result<Self, Failure> {
        match Json::<Text>::from_request(request, state).await {
            Ok(Json(text)) => Ok(Posted(text)),
            Err(rejection) => {
                let help =
                    Some("`{\"text\": \"...\"}` with content-type application/json, up to 1 MiB".to_owned());
                let status = match &rejection {
                    JsonRejection::BytesRejection(_) => rejection.status(),
                    _ => axum::http::StatusCode::BAD_REQUEST,
                };
                Err(Failure { help, ..Failure::new(status, rejection.body_text()) })
            }
        }
    }
}

/// The configuration that is in effect, and where each value comes from.
#[utoipa::path(get, path = "/api/v1/config", responses((status = 200, body = Effective)))]
pub async fn config(State(app): State<Shared>) -> Json<Effective> {
    Json(app.configuration.effective())
}

/// Whether a text is a good configuration, and what it changes.
#[utoipa::path(post, path = "/api/v1/config/check", request_body = Text,
    responses((status = 200, body = Checked), (status = 400, body = Failure)))]
pub async fn check(State(app): State<Shared>, Posted(posted): Posted) -> Result<Json<Checked>, Failure> {
    let shared = std::sync::Arc::clone(&app);
    Ok(Json(app.wait(move || Ok(shared.configuration.check(&posted.text))).await?))
}

/// Puts a configuration into effect on a link, for those who may. One that is not good changes nothing.
#[utoipa::path(post, path = "/api/v1/config/apply", request_body = Text,
    responses((status = 200, body = Checked), (status = 400, body = Failure), (status = 403, body = Failure)))]
pub async fn apply(
    State(app): State<Shared>,
    Extension(right): Extension<Right>,
    Posted(posted): Posted,
) -> Result<Json<Checked>, Failure> {
    if right != Right::Write {
        let help = "start with --user-file or --token-file, in which the user or token has `write`";
        return Err(Failure::forbidden("this user may look, and not apply a configuration", help));
    }
    if !app.configuration.can_apply() {
        return Err(Failure::forbidden(
            "there is no link that is listened to: nothing would change",
            "`weir serve -i IF`",
        ));
    }
    let shared = std::sync::Arc::clone(&app);
    let done = move || {
        let Applied { checked, text } = shared.configuration.apply(&posted.text);
        if let Some(text) = text {
            shared.hub.note("configuration", text);
        }
        Ok(checked)
    };
    Ok(Json(app.wait(done).await?))
}
