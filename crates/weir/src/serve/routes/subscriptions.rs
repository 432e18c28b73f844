//! Subscriptions of clients: each gets the answers of its own, and no other client gets them.

use super::settings::{Posted, Text};
use crate::clients::{Answered, FunctionAnswer, Part, Refused};
use crate::config::load_subscriptions;
use crate::desk::Desk;
use crate::fields::RunFields;
use crate::hub::{clock, seconds};
use crate::serve::app::{App, Shared};
use crate::serve::failure::Failure;
use crate::serve::rights::{Client, Right};
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::{Extension, Json};
use serde::Serialize;
use std::sync::Arc;
use std::time::Duration;
use utoipa::ToSchema;
use weir_api::basis::{Basis, Source};
use weir_api::web::Mode;
use weir_api::{Answer, Interval, Level, Reading, SubscriptionId, SubscriptionSpec};
use weir_engine::Callable;
use weir_output::ndjson;
use weir_store::payload::Withheld;

/// Time between two searches for subscriptions that their clients have left.
const SWEEP: Duration = Duration::from_secs(10);
/// What a text of subscriptions looks like.
const EXAMPLE: &str = "tables as in weir.toml: [[subscription]], name = \"web\", where = \"port 443\", functions = [\"packets\"]";

/// Subscriptions that were added.
#[derive(Serialize, ToSchema)]
pub struct Added {
    /// Time of the first packet that they see, to the microsecond.
    from: f64,
    /// Their numbers, in the order of the text.
    ids: Vec<u32>,
}

/// A subscription that was removed.
#[derive(Serialize, ToSchema)]
pub struct Removed {
    /// Time of the first packet that it does not see, to the microsecond.
    until: f64,
}

/// The subscriptions of a client.
#[derive(Serialize, ToSchema)]
pub struct ClientSubscriptions {
    /// In the order of their numbers.
    subscriptions: Vec<ClientSubscription>,
}

/// A subscription of a client, with its answers.
#[derive(Serialize, ToSchema)]
pub struct ClientSubscription {
    /// Its number.
    id: u32,
    /// Its name.
    name: String,
    /// `packet`, `stream`, `flow` or `record`.
    level: String,
    /// Its expression; empty for everything.
    expression: String,
    /// Length of the interval of its readings in seconds; 0 for the run's.
    interval: f64,
    /// Time of the first packet that it sees, to the microsecond.
    from: f64,
    /// Once it is removed, the time of the first packet that it does not see; else `null`.
    #[schema(required = true)]
    until: Option<f64>,
    /// End of the last interval in its answers; `null` before the first.
    #[schema(required = true)]
    summed: Option<f64>,
    /// Whether it is removed and its answers will not change.
    complete: bool,
    /// The answers of its functions.
    answers: Vec<ClientAnswer>,
}

/// The answer of a function.
#[derive(Serialize, ToSchema)]
pub struct ClientAnswer {
    /// The place of the function in the chain, from 0.
    place: u16,
    /// Name of the function.
    function: String,
    /// Its reading since `from`, as it stands in a line of weir.ndjson.
    total: serde_json::Value,
    /// What the numbers of the total are of. What was asked for begins with the subscription, and ends with it or now.
    basis: Basis,
    /// What the total leaves out, and why.
    #[schema(required = true)]
    partial: Option<String>,
    /// Its last whole interval; `null` before the end of the first.
    #[schema(required = true)]
    latest: Option<IntervalReading>,
}

/// The reading of an interval.
#[derive(Serialize, ToSchema)]
pub struct IntervalReading {
    /// Start of the interval.
    start: f64,
    /// End of the interval, excluded.
    end: f64,
    /// The reading, as it stands in a line of weir.ndjson.
    reading: serde_json::Value,
    /// What its numbers are of. The answered time is the part of the interval in which the subscription was there.
    basis: Basis,
    /// What it leaves out, and why.
    #[schema(required = true)]
    partial: Option<String>,
}

/// The desk of a live run.
fn desk(app: &App) -> Result<Arc<Desk>, Failure> {
    let desk = app.hub.desk().filter(|_| app.hub.about.mode == Mode::Live && !app.hub.now().ended);
    desk.ok_or_else(|| {
        Failure::question("no live capture: nothing can be subscribed to", "`weir serve -i IF`")
    })
}

/// Reads the subscriptions of a client, which may name lists of the running configuration and no other file. A client without
/// the right `packets` has no fields that hold payload.
fn read(app: &App, client: &Client, text: &str) -> Result<Vec<SubscriptionSpec>, Failure> {
    let fields = RunFields::of_client(app.configuration.lists());
    let has_payload = client.rights.has(Right::Packets);
    let fields = if has_payload { fields } else { fields.without_payload() };
    let specs = load_subscriptions(text, &fields).map_err(|errors| {
        let first = errors.each().next();
        let text = first.map_or_else(String::new, |(line, column, message, _)| {
            format!("line {line}, column {column}: {message}")
        });
        let help = first.map(|(_, _, _, help)| help).filter(|help| !help.is_empty());
        Failure::question(text, help.unwrap_or(EXAMPLE))
    })?;
    if specs.is_empty() {
        return Err(Failure::question("the text has no subscription", EXAMPLE));
    }
    for spec in &specs {
        may_have(spec, has_payload)?;
    }
    Ok(specs)
}

/// Checks that a client may have a subscription: its answers are readings that go to the client.
fn may_have(spec: &SubscriptionSpec, has_payload: bool) -> Result<(), Failure> {
    if spec.outputs.is_some() {
        let text = format!("{:?}: the answers of a client go to the client alone", spec.name);
        return Err(Failure::question(text, "no key `outputs`"));
    }
    if spec.level == Level::Stream && !has_payload {
        let text = format!("{:?}: level = \"stream\" needs the right `packets`", spec.name);
        return Err(Failure::forbidden(text, "level = \"packet\", \"flow\" or \"record\""));
    }
    let named = |name: &str| Callable::find(name, spec.level);
    let leaves = spec.functions.iter().find(|call| named(&call.name).is_some_and(Callable::leaves));
    match leaves {
        Some(call) => Err(Failure::question(
            format!(
                "{:?}: {} is for subscriptions of weir.toml and of the command line",
                spec.name, call.name
            ),
            "functions that measure, such as packets, top or distinct",
        )),
        None => Ok(()),
    }
}

/// Checks that the readings of a subscription have no column of a field that holds payload.
fn shows_no_payload(desk: &Desk, spec: &SubscriptionSpec) -> Result<(), Failure> {
    let plan = desk.alone(spec).map_err(Refused::Plan)?;
    let holds_payload = |answer: &Answer| {
        let cells = answer.reading.cells();
        let held = Withheld::default().columns(&cells.columns);
        let name = cells.columns.iter().zip(held).find(|(_, is_held)| *is_held);
        name.map(|(column, _)| column.name.to_string())
    };
    match plan.outline().answers().find_map(|(_, answer)| holds_payload(answer)) {
        Some(name) => Err(Failure::forbidden(
            format!("{:?}: {name} holds payload and needs the right `packets`", spec.name),
            "other fields",
        )),
        None => Ok(()),
    }
}

impl From<Refused> for Failure {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::Limit(text) => Self {
                help: Some("remove subscriptions that are not needed, or ask for fewer rows".to_owned()),
                ..Self::new(StatusCode::TOO_MANY_REQUESTS, text)
            },
            Refused::Plan(text) => Self::question(text, EXAMPLE),
            Refused::Unknown => Self::unknown("no such subscription of this client"),
        }
    }
}

/// The subscription of a path. What is not a number is no subscription.
fn numbered(id: &str) -> Result<SubscriptionId, Refused> {
    id.parse().map(SubscriptionId).map_err(|_| Refused::Unknown)
}

/// Subscribes a client; needs the right `write`. The text has tables as in weir.toml, all of which take effect at one packet. What
/// is not read for five minutes is removed.
#[utoipa::path(post, path = "/api/v1/subscriptions", request_body = Text,
    responses((status = 200, body = Added), (status = 400, body = Failure), (status = 403, body = Failure),
        (status = 429, description = "A limit of the client or of all clients is reached", body = Failure),
        (status = 503, body = Failure)))]
pub async fn add(
    State(app): State<Shared>,
    Extension(client): Extension<Client>,
    posted: Posted,
) -> Result<Json<Added>, Failure> {
    let shared = Arc::clone(&app);
    let work = move || {
        let desk = desk(&shared)?;
        let specs = read(&shared, &client, &posted.text)?;
        if !client.rights.has(Right::Packets) {
            specs.iter().try_for_each(|spec| shows_no_payload(&desk, spec))?;
        }
        let added = shared.hub.clients.add(&desk, &client.name, specs, clock());
        drop(posted.place);
        let (from, ids) = added?;
        Ok(Added { from: seconds(from.0), ids: ids.into_iter().map(|id| id.0).collect() })
    };
    Ok(Json(app.wait(work).await?))
}

/// Removes a subscription of the client; needs the right `write`. Its answers can be read for five more minutes.
#[utoipa::path(delete, path = "/api/v1/subscriptions/{id}",
    params(("id" = u32, Path, description = "The number of the subscription")),
    responses((status = 200, body = Removed), (status = 403, body = Failure), (status = 404, body = Failure),
        (status = 503, body = Failure)))]
pub async fn remove(
    State(app): State<Shared>,
    Extension(client): Extension<Client>,
    Path(id): Path<String>,
) -> Result<Json<Removed>, Failure> {
    let shared = Arc::clone(&app);
    let id = numbered(&id)?;
    let work = move || {
        let desk = desk(&shared)?;
        let until = shared.hub.clients.remove(&desk, &client.name, &[id], clock())?;
        Ok(Removed { until: seconds(until.0) })
    };
    Ok(Json(app.wait(work).await?))
}

/// The subscriptions of the client, with their answers.
#[utoipa::path(get, path = "/api/v1/subscriptions", responses((status = 200, body = ClientSubscriptions)))]
pub async fn list(
    State(app): State<Shared>,
    Extension(client): Extension<Client>,
) -> Json<ClientSubscriptions> {
    let now = clock();
    let own = app.hub.clients.of(&client.name, now);
    let has_payload = client.rights.has(Right::Packets);
    let subscriptions = own.into_iter().map(|one| shown(one, now, has_payload)).collect();
    Json(ClientSubscriptions { subscriptions })
}

/// A subscription of the client, with its answers.
#[utoipa::path(get, path = "/api/v1/subscriptions/{id}",
    params(("id" = u32, Path, description = "The number of the subscription")),
    responses((status = 200, body = ClientSubscription), (status = 404, body = Failure)))]
pub async fn one(
    State(app): State<Shared>,
    Extension(client): Extension<Client>,
    Path(id): Path<String>,
) -> Result<Json<ClientSubscription>, Failure> {
    let now = clock();
    let found = app.hub.clients.one(&client.name, numbered(&id)?, now);
    let found = found.ok_or(Refused::Unknown)?;
    Ok(Json(shown(found, now, client.rights.has(Right::Packets))))
}

/// Removes the subscriptions that their clients have left, from time to time, until the program ends.
pub async fn sweep(app: Arc<App>) {
    loop {
        tokio::time::sleep(SWEEP).await;
        let shared = Arc::clone(&app);
        let swept = tokio::task::spawn_blocking(move || {
            if let Some(desk) = shared.hub.desk() {
                shared.hub.clients.sweep(&desk, clock());
            }
        });
        // If it panics, the next one tries again.
        let _ = swept.await;
    }
}

fn shown(mut one: Answered, now: u64, has_payload: bool) -> ClientSubscription {
    let answers = std::mem::take(&mut one.answers);
    ClientSubscription {
        id: one.id.0,
        name: one.spec.name.clone(),
        level: one.spec.level.name().to_owned(),
        expression: one.spec.expression.clone(),
        interval: seconds(one.spec.interval),
        from: seconds(one.from.0),
        until: one.until.map(|until| seconds(until.0)),
        summed: (one.summed > 0).then(|| seconds(one.summed)),
        complete: one.is_complete(),
        answers: answers
            .into_iter()
            .map(|(place, answer)| shown_answer(&one, place, answer, now, has_payload))
            .collect(),
    }
}

/// `now` in nanoseconds since the epoch.
fn shown_answer(
    of: &Answered,
    place: u16,
    answer: FunctionAnswer,
    now: u64,
    has_payload: bool,
) -> ClientAnswer {
    let FunctionAnswer { function, total, latest } = answer;
    // The text was refused if it names such a field. A client may have lost the right since.
    let mut withheld = Withheld::default();
    let is_shown = has_payload || !withheld.columns(&total.cells().columns).contains(&true);
    let reading = |reading: &Reading| match is_shown {
        true => ndjson::reading(reading),
        false => serde_json::Value::Null,
    };
    let withheld = withheld.sentence();
    let asked = Interval { start: of.from.0, end: of.until.map_or(now, |until| until.0).max(of.from.0) };
    let summed = of.present(Interval { start: of.from.0, end: of.summed });
    let open = (!of.is_complete()).then(|| "the interval under way is not counted yet".to_owned());
    let latest = latest.map(|Part { interval, watched, reading: counted }| IntervalReading {
        start: seconds(interval.start),
        end: seconds(interval.end),
        reading: reading(&counted),
        basis: basis(interval, of.present(interval), watched, &counted),
        partial: sentences([withheld.clone(), not_shown(&counted)]),
    });
    ClientAnswer {
        place,
        function,
        total: reading(&total),
        basis: basis(asked, summed, of.watched, &total),
        partial: sentences([withheld, open, not_shown(&total)]),
        latest,
    }
}

/// What the numbers of a reading are of; `watched` in nanoseconds. At every level they are sums of intervals, as the pass counts
/// them, and not those of stored flows or records.
fn basis(asked: Interval, range: Interval, watched: u64, reading: &Reading) -> Basis {
    let ends = |of: Interval| [seconds(of.start), seconds(of.end)];
    Basis {
        asked: ends(asked),
        range: ends(range),
        watched: seconds(watched),
        source: Source::Cells,
        bound: reading.bound(),
    }
}

/// A sentence about the keys of a list that have a row and are not shown; `None` if all are.
fn not_shown(reading: &Reading) -> Option<String> {
    let (shown, all) = match reading {
        Reading::Top(top) => (top.rows.len().min(top.show), top.rows.len()),
        Reading::Table(table) => (table.shown().len(), table.rows.len()),
        _ => return None,
    };
    (shown < all).then(|| format!("{shown} of {all} keys are shown"))
}

fn sentences<const N: usize>(all: [Option<String>; N]) -> Option<String> {
    let all: Vec<String> = all.into_iter().flatten().collect();
    (!all.is_empty()).then(|| all.join("; "))
}
