//! The configuration: reading, checking and applying it.

use crate::configuration::{Applied, Checked, Effective};
use crate::serve::app::Shared;
use crate::serve::failure::Failure;
use crate::serve::rights::{Client, Right};
use crate::serve::shares::Share;
use axum::Json;
use axum::extract::rejection::JsonRejection;
use axum::extract::{FromRequest, Request, State};
use axum::http::StatusCode;

use serde::Deserialize;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;
use utoipa::ToSchema;

/// A configuration as text.
#[derive(Deserialize, ToSchema)]
pub struct Text {
    /// TOML.
    text: String,
}

/// Maximum number of texts being checked for all clients without the right `write` together, and for one of them.
pub const MAX_CHECKS: usize = 2;
pub const MAX_CHECKS_OF_ONE: usize = 1;
/// Maximum number of texts being checked for clients with that right.
pub const MAX_CHANGES: usize = 1;
/// Maximum time for a client to send a text, because it holds a place meanwhile.
const BODY: Duration = Duration::from_secs(10);

/// A JSON body. Errors in it are answered as JSON too. A place is taken before the body is read, so that the memory of
/// texts and of their checks is bounded.
pub struct Posted {
    /// The text.
    pub(super) text: String,
    /// Whether the client may apply a configuration.
    may_change: bool,
    /// The place, which is held until the work is done.
    pub(super) place: Share<String>,
}

impl FromRequest<Shared> for Posted {
    type Rejection = Failure;

    async fn from_request(request: Request, app: &Shared) -> Result<Self, Failure> {
        let client = request.extensions().get::<Client>();
        let holder = client.map_or_else(String::new, Client::holder);
        // A text that cannot be applied takes no place of those that can.
        let may_change =
            app.configuration.can_apply() && client.is_some_and(|client| client.rights.has(Right::Write));
        let places = if may_change { &app.changes } else { &app.checks };
        let Ok(place) = places.take(holder) else {
            app.counts.refused_checks.one();
            return Err(Failure::busy("other configurations are being checked: try again in a moment"));
        };
        let read = timeout(BODY, Json::<Text>::from_request(request, app)).await;
        let read = read.map_err(|_| {
            let text = format!("the configuration was not sent within {} s", BODY.as_secs());
            Failure::new(StatusCode::REQUEST_TIMEOUT, text)
        })?;
        match read {
            Ok(Json(Text { text })) => Ok(Posted { text, may_change, place }),
            Err(rejection) => {
                let help =
                    Some("`{\"text\": \"...\"}` with content-type application/json, up to 1 MiB".to_owned());
                let status = match &rejection {
                    JsonRejection::BytesRejection(_) => rejection.status(),
                    _ => StatusCode::BAD_REQUEST,
                };
                Err(Failure { help, ..Failure::new(status, rejection.body_text()) })
            }
        }
    }
}

/// The configuration in effect, with the origin of each value.
#[utoipa::path(get, path = "/api/v1/config", responses((status = 200, body = Effective)))]
pub async fn config(State(app): State<Shared>) -> Json<Effective> {
    Json(app.configuration.effective())
}

/// Checks a configuration and shows what it changes. A client with the right `write` gets the verdict of `apply`, which also
/// depends on the folders that the live run may write to.
#[utoipa::path(post, path = "/api/v1/config/check", request_body = Text,
    responses((status = 200, body = Checked), (status = 400, body = Failure), (status = 503, body = Failure)))]
pub async fn check(State(app): State<Shared>, posted: Posted) -> Result<Json<Checked>, Failure> {
    let shared = Arc::clone(&app);
    let check = move || {
        let configuration = &shared.configuration;
        // Others learn nothing about the folders of the host.
        let checked = match posted.may_change {
            true => configuration.check_by_run(&posted.text),
            false => configuration.check(&posted.text),
        };
        // The place is returned when the work is done, even if the client has not waited for it.
        drop(posted.place);
        Ok(checked)
    };
    Ok(Json(app.wait(check).await?))
}

/// Applies a configuration to a live run; needs the right `write`. An invalid one changes nothing.
#[utoipa::path(post, path = "/api/v1/config/apply", request_body = Text,
    responses((status = 200, body = Checked), (status = 400, body = Failure), (status = 403, body = Failure)))]
pub async fn apply(State(app): State<Shared>, posted: Posted) -> Result<Json<Checked>, Failure> {
    if !app.configuration.can_apply() {
        return Err(Failure::forbidden(
            "no live capture: a configuration cannot be applied",
            "`weir serve -i IF`",
        ));
    }
    let shared = Arc::clone(&app);
    let done = move || {
        let Applied { checked, text } = shared.configuration.apply(&posted.text);
        if let Some(text) = text {
            shared.hub.note("configuration", text);
        }
        drop(posted.place);
        Ok(checked)
    };
    Ok(Json(app.wait(done).await?))
}
