//! Event streams: one tick a second for each reader, with bounded memory for slow ones.

use super::app::{App, Shared};
use super::body::Pieces;
use super::failure::Failure;
use super::rights::Client;
use super::server::Connection;
use super::shares::Full;
use crate::hub::message;
use axum::Extension;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;
use std::sync::Arc;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::sync::mpsc::{self, error::TrySendError};
use tokio::time::timeout;

/// Maximum number of open streams.
pub const MAX_STREAMS: usize = 1000;
/// Maximum number of open streams of one client.
pub const MAX_STREAMS_OF_ONE: usize = 250;
/// Maximum number of messages in a reader's queue, besides those in its connection. A slower reader is dropped.
const WAITING: usize = 4;
/// Interval of the comments that keep an idle stream open.
const QUIET: Duration = Duration::from_secs(15);

/// Ticks of a live run, one a second, and its end.
#[utoipa::path(get, path = "/api/v1/live", responses(
    (status = 200, description = "Server-sent events: `tick` with a Tick, at most one a second, and `end`",
     content_type = "text/event-stream", body = weir_api::web::Tick),
    (status = 429, description = "250 streams of this client are open", body = Failure),
    (status = 503, description = "1,000 streams are open", body = Failure)))]
pub async fn live(
    State(app): State<Shared>,
    connection: Option<Extension<Arc<Connection>>>,
    Extension(client): Extension<Client>,
) -> Result<Response, Failure> {
    let share = app.streams.take(client.holder()).map_err(|full| {
        app.counts.refused_streams.one();
        match full {
            Full::Own => {
                let text = format!(
                    "{MAX_STREAMS_OF_ONE} streams of {} are open, the maximum of one client",
                    client.name
                );
                Failure::new(StatusCode::TOO_MANY_REQUESTS, text)
            }
            Full::All => Failure::busy(format!("{MAX_STREAMS} streams are open, the maximum")),
        }
    })?;
    let (to, from) = mpsc::channel(WAITING);
    let mut readers = app.readers.lock().unwrap_or_else(PoisonError::into_inner);
    readers.retain(|reader| !reader.is_closed());
    let first = match app.hub.now().ended {
        true => message("end", &json!({})),
        false => Bytes::from_static(b": a tick a second\n\n"),
    };
    // The channel is empty, so that this cannot fail.
    let _ = to.try_send(first);
    readers.push(to);
    drop(readers);
    if let Some(Extension(connection)) = connection {
        connection.is_stream();
    }
    let mut response = Body::new(Pieces::new(from, (app.hub.open_stream(), share))).into_response();
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    Ok(response)
}

/// Sends ticks to all readers until the program ends.
pub async fn broadcast(app: Arc<App>) {
    let mut news = app.hub.watch();
    let mut has_ended = app.hub.now().ended;
    loop {
        let event = match timeout(QUIET, news.changed()).await {
            Err(_) => Bytes::from_static(b": \n\n"),
            Ok(Err(_)) => return,
            Ok(Ok(())) => {
                let now = Arc::clone(&news.borrow_and_update());
                match (now.ended, &now.tick) {
                    (true, _) if !has_ended => {
                        has_ended = true;
                        message("end", &json!({}))
                    }
                    (false, Some(tick)) => tick.clone(),
                    _ => continue,
                }
            }
        };
        let mut readers = app.readers.lock().unwrap_or_else(PoisonError::into_inner);
        readers.retain(|reader| match reader.try_send(event.clone()) {
            Ok(()) => true,
            Err(TrySendError::Closed(_)) => false,
            Err(TrySendError::Full(_)) => {
                app.hub.streams.dropped.fetch_add(1, Ordering::Relaxed);
                false
            }
        });
    }
}
