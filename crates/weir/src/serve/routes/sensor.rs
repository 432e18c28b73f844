//! How the sensor is, and what has happened to it.

use super::Ask;
use super::asked::{count, span};
use crate::run::cost_profile;
use crate::serve::app::Shared;
use crate::serve::failure::Failure;
use crate::serve::hub::{clock, seconds};
use crate::serve::rights::{Client, Right};
use crate::serve::security::FOR_THE_OWNER;
use axum::extract::State;
use axum::http::header;
use axum::response::IntoResponse;
use axum::{Extension, Json};
use serde::Deserialize;
use std::sync::atomic::Ordering;
use utoipa::IntoParams;
use weir_api::web::{ClientRow, Event, Events, LedgerRow, Mode, Sensor, Status};
use weir_api::{Counter, counters};

/// Who answers, and what it has.
#[utoipa::path(get, path = "/api/v1/status", responses((status = 200, body = Status)))]
pub async fn status(State(app): State<Shared>, Extension(client): Extension<Client>) -> Json<Status> {
    let about = &app.hub.about;
    let now = app.hub.now();
    let extent = app.ask(|store| store.extent()).await.ok().flatten();
    let latest = match about.mode {
        Mode::Live => clock(),
        Mode::File => now.total.interval.end,
        Mode::Store => extent.map_or_else(clock, |(_, last)| last),
    };
    let are_there = app.packets.as_ref().is_some_and(|source| source.is_there());
    let may_download = client.rights.has(Right::Packets);
    Json(Status {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        sensor: about.sensor.clone(),
        mode: about.mode,
        source: about.source.clone(),
        expression: app.hub.expression(),
        started: seconds(about.started),
        now: seconds(latest),
        interval: seconds(about.interval),
        first: extent.map(|(first, _)| seconds(first)),
        last: extent.map(|(_, last)| seconds(last)),
        zone: about.zone.clone(),
        user: client.name.clone(),
        rights: client.rights.to_string(),
        write: client.rights.has(Right::Write) && app.configuration.can_apply(),
        packets: are_there && may_download,
        packets_refused: (are_there && !may_download).then(|| why_not(&client)),
    })
}

/// Why a client cannot download packets, as one sentence.
fn why_not(client: &Client) -> String {
    match client.is_named {
        true => format!("downloading packets needs the right packets, which {} does not have", client.name),
        false => FOR_THE_OWNER.to_owned(),
    }
}

/// What became of each packet, what tables hold, what the pass costs, what waits, and who looks.
#[utoipa::path(get, path = "/api/v1/sensor", responses((status = 200, body = Sensor)))]
pub async fn sensor(State(app): State<Shared>) -> Json<Sensor> {
    let now = app.hub.now();
    let total = &now.total;
    // The whole that a row is a part of is the nearest above that is less deep; what is counted in another unit is
    // about it, and no part of it.
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
    let ledger = ledger.collect();
    let store = app.ask(|store| store.state()).await.ok();
    let streams = &app.hub.streams;
    Json(Sensor {
        ledger,
        // While flows are open what is said in them is neither known nor unknown.
        imbalance: total
            .ledger
            .imbalance()
            .or_else(|| total.sessions.imbalance().filter(|_| app.hub.about.mode == Mode::File)),
        memory: now.memory.clone(),
        costs: cost_profile::costs(total),
        queues: now.queues.clone(),
        store,
        clients: vec![ClientRow {
            name: "live".to_owned(),
            connected: streams.connected.load(Ordering::Relaxed),
            dropped: streams.dropped.load(Ordering::Relaxed),
        }],
    })
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct EventsAsked {
    /// The beginning of the time that is asked about, in seconds since the epoch.
    from: Option<f64>,
    /// Its end, not included.
    to: Option<f64>,
    /// Most events of the answer (100).
    limit: Option<usize>,
}

/// What has happened to the sensor, the latest first.
#[utoipa::path(get, path = "/api/v1/events", params(EventsAsked),
    responses((status = 200, body = Events), (status = 400, body = Failure)))]
pub async fn events(
    State(app): State<Shared>,
    Ask(asked): Ask<EventsAsked>,
) -> Result<Json<Events>, Failure> {
    let span = span(asked.from, asked.to)?;
    let limit = count("limit", asked.limit, 100, 10_000)?;
    let mut found = match app.store.is_some() {
        true => app.ask(move |store| store.events(span, limit)).await?,
        false => Events::default(),
    };
    let within = |time: f64| {
        span.from.is_none_or(|from| time >= seconds(from)) && span.to.is_none_or(|to| time < seconds(to))
    };
    for event in app.hub.events().into_iter().filter(|event| within(event.time)) {
        // Those that the store has already are not told twice.
        let is_same = |known: &Event| {
            known.kind == event.kind && known.text == event.text && (known.time - event.time).abs() < 0.001
        };
        if !found.events.iter().any(is_same) {
            found.events.push(event);
        }
    }
    found.events.sort_by(|a, b| b.time.total_cmp(&a.time));
    if found.events.len() > limit {
        found.partial.get_or_insert(format!("the latest {limit} events; there are more"));
        found.events.truncate(limit);
    }
    Ok(Json(found))
}

/// All that is counted, for Prometheus. Labels have values of the configuration alone, never of packets.
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
            "# HELP weir_event_streams Streams of events that are open.\n# TYPE weir_event_streams gauge\n\
             weir_event_streams {}\n\
             # HELP weir_event_streams_dropped Streams that were dropped because they were not read.\n\
             # TYPE weir_event_streams_dropped counter\nweir_event_streams_dropped_total {}\n",
            streams.connected.load(Ordering::Relaxed),
            streams.dropped.load(Ordering::Relaxed)
        ),
    );
    let end = text.rfind("# EOF").unwrap_or(text.len());
    text.insert_str(end, &app.counts.metrics());
    ([(header::CONTENT_TYPE, "application/openmetrics-text; version=1.0.0; charset=utf-8")], text)
}

/// Whether the server answers.
#[utoipa::path(get, path = "/healthz",
    responses((status = 200, description = "It does", content_type = "text/plain", body = String)))]
pub async fn health() -> &'static str {
    "ok\n"
}
