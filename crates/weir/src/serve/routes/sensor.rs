//! State and events of the sensor.

use crate::cost_profile;
use crate::hub::{clock, seconds};
use crate::serve::app::Shared;
use crate::serve::rights::{Client, Right};
use crate::serve::security::FOR_THE_OWNER;
use axum::extract::State;
use axum::http::header;
use axum::response::IntoResponse;
use axum::{Extension, Json};
use std::sync::atomic::Ordering;
use weir_api::web::{ClientRow, LedgerRow, Mode, Sensor, Status};
use weir_api::{Counter, counters};
use weir_output::zone::rfc3339;
use weir_store::StoreError;

/// Identity of the sensor and the time that it has data for.
#[utoipa::path(get, path = "/api/v1/status", responses((status = 200, body = Status)))]
pub async fn status(State(app): State<Shared>, Extension(client): Extension<Client>) -> Json<Status> {
    let about = &app.hub.about;
    let now = app.hub.now();
    let extents = app.ask(|store| Ok::<_, StoreError>((store.extent()?, store.watched_extent()?))).await;
    let (extent, stored) = extents.unwrap_or_default();
    let watched = match about.mode {
        Mode::File => now.total.packets.map(|packets| (packets.start, packets.end)),
        Mode::Live | Mode::Store => stored,
    };
    let latest = match about.mode {
        Mode::Live => clock(),
        Mode::File => now.total.interval.end,
        Mode::Store => extent.map_or_else(clock, |(_, last)| last),
    };
    let are_there = app.packets.as_ref().is_some_and(|source| source.is_there());
    let [since, until] = about.times.map(|time| time.map(rfc3339));
    let may_download = client.rights.has(Right::Packets);
    Json(Status {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        sensor: about.sensor.clone(),
        mode: about.mode,
        source: about.source.clone(),
        expression: app.hub.expression(),
        options: about.options.clone(),
        since,
        until,
        started: seconds(about.started),
        now: seconds(latest),
        interval: seconds(about.interval),
        first: extent.map(|(first, _)| seconds(first)),
        last: extent.map(|(_, last)| seconds(last)),
        watched_from: watched.map(|(from, _)| seconds(from)),
        watched_to: watched.map(|(_, to)| seconds(to)),
        zone: about.zone.clone(),
        user: client.name.clone(),
        rights: client.rights.to_string(),
        write: client.rights.has(Right::Write) && app.configuration.can_apply(),
        packets: are_there && may_download,
        packets_refused: (are_there && !may_download).then(|| why_not(&client)),
    })
}

/// The reason why a client cannot download packets, as one sentence.
fn why_not(client: &Client) -> String {
    match client.is_named {
        true => format!("downloading packets needs the right packets, which {} does not have", client.name),
        false => FOR_THE_OWNER.to_owned(),
    }
}

/// The packet ledger, the use of tables, the cost of the pass, the queues, and the open event streams.
#[utoipa::path(get, path = "/api/v1/sensor", responses((status = 200, body = Sensor)))]
pub async fn sensor(State(app): State<Shared>) -> Json<Sensor> {
    let now = app.hub.now();
    let total = &now.total;
    // A counter is part of the nearest one above it with less depth. A counter with another unit describes that one
    // and is not part of it.
    let mut wholes: Vec<&'static Counter> = Vec::new();
    let ledger = counters().map(|counter| {
        wholes.truncate(counter.depth);
        let parent =
            wholes.last().filter(|whole| whole.unit == counter.unit).map(|whole| whole.name.to_owned());
        wholes.push(counter);
        LedgerRow {
            name: counter.name.to_owned(),
            label: counter.label.to_owned(),
            value: (counter.of)(total),
            unit: counter.unit.to_owned(),
            help: counter.help.trim().to_owned(),
            parent,
            loss: counter.loss,
        }
    });
    let store = app.ask(|store| store.state()).await.ok();
    let streams = &app.hub.streams;
    Json(Sensor {
        ledger: ledger.collect(),
        // Open flows are neither identified nor unidentified yet.
        imbalance: total
            .ledger
            .imbalance()
            .or_else(|| total.sessions.imbalance().filter(|_| app.hub.about.mode == Mode::File)),
        memory: now.memory.clone(),
        costs: cost_profile::costs(total),
        queues: now.queues.clone(),
        store,
        destinations: app.hub.destinations().rows(),
        clients: vec![ClientRow {
            name: "live".to_owned(),
            connected: streams.connected.load(Ordering::Relaxed),
            dropped: streams.dropped.load(Ordering::Relaxed),
        }],
    })
}

/// All counters for Prometheus. Label values come from the configuration, never from packets.
#[utoipa::path(get, path = "/metrics",
    responses((status = 200, description = "OpenMetrics text", content_type = "text/plain", body = String)))]
pub async fn metrics(State(app): State<Shared>) -> impl IntoResponse {
    let now = app.hub.now();
    let streams = &app.hub.streams;
    let mut text = now.metrics.text();
    let end = text.rfind("# EOF").unwrap_or(text.len());
    text.insert_str(
        end,
        &format!(
            "# HELP weir_event_streams Open event streams.\n# TYPE weir_event_streams gauge\n\
             weir_event_streams {}\n\
             # HELP weir_event_streams_dropped Event streams dropped because the client read too slowly.\n\
             # TYPE weir_event_streams_dropped counter\nweir_event_streams_dropped_total {}\n",
            streams.connected.load(Ordering::Relaxed),
            streams.dropped.load(Ordering::Relaxed)
        ),
    );
    let end = text.rfind("# EOF").unwrap_or(text.len());
    text.insert_str(end, &(app.counts.metrics() + &app.hub.destinations().metrics()));
    ([(header::CONTENT_TYPE, "application/openmetrics-text; version=1.0.0; charset=utf-8")], text)
}

/// Health check of the server.
#[utoipa::path(get, path = "/healthz",
    responses((status = 200, description = "The server is up", content_type = "text/plain", body = String)))]
pub async fn health() -> &'static str {
    "ok\n"
}
