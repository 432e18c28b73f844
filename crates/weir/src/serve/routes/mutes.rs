//! Mutes and acknowledgements: what people say about events and about alerts of rules.

use super::Ask;
use super::asked::{count, is_muted, span};
use crate::hub::{clock, seconds};
use crate::serve::app::Shared;
use crate::serve::failure::Failure;
use crate::serve::rights::Client;
use axum::extract::rejection::JsonRejection;
use axum::extract::{FromRequest, Path, Request, State};
use axum::http::StatusCode;
use axum::{Extension, Json};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;
use utoipa::{IntoParams, ToSchema};
use weir_api::mute::{MAX_TIME, check_text};
use weir_api::web::{Acknowledgement, Event, Events, Mode};
use weir_api::{Facts, Mute, MuteScope, RuleId, Scope};
use weir_store::marks::MAX_MUTES;
use weir_store::muted_alerts::{self, MutedAlerts};
use weir_store::{Marks, Store, StoreError, TimeRange};

/// Time that a preview looks back, and in which alerts that a mute hides are counted, in nanoseconds.
const PREVIEW: u64 = 7 * 86_400_000_000_000;
/// Maximum number of events that are compared, or searched for one to acknowledge.
const MAX_COMPARED: usize = 10_000;
/// Events that a preview shows.
const FEW: usize = 5;
/// Maximum number of identifiers of events in a request.
const MAX_IDS: usize = 1000;
/// Maximum time for a client to send a body.
const BODY: Duration = Duration::from_secs(10);
/// What a mute looks like.
const EXAMPLE: &str = "`{\"scope\": {\"kinds\": [\"port_scan\"], \"source\": \"10.0.0.0/8\"}, \"until\": 1800000000, \"reason\": \"our scanner\"}` with \
                       content-type application/json";

/// A mute that is to be added.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MuteDraft {
    /// Which events, or which alerts of a rule, it hides.
    scope: MuteScope,
    /// The time at which it ends, in seconds since the epoch, at most 366 days from now; without one it does not end.
    #[serde(default)]
    until: Option<f64>,
    /// Why: at most 200 characters in one line.
    #[serde(default)]
    reason: String,
}

/// A mute.
#[derive(Serialize, ToSchema)]
pub struct MuteRow {
    /// Its number, which is used once.
    number: u64,
    /// Which events, or which alerts of a rule, it hides.
    scope: MuteScope,
    /// The time at which it ends; `null` if it does not.
    #[schema(required = true)]
    until: Option<f64>,
    /// Whether it has ended.
    ended: bool,
    /// Why.
    reason: String,
    /// The user or token that made it.
    who: String,
    /// When it was made.
    when: f64,
    /// Number of stored events that it hides; of a rule, number of alerts in the seven days before the latest data.
    hits: u64,
}

/// All mutes.
#[derive(Serialize, ToSchema)]
pub struct Mutes {
    /// In the order of their numbers.
    mutes: Vec<MuteRow>,
    /// Why numbers of hidden alerts are lower bounds; `null` if they are exact.
    #[schema(required = true)]
    partial: Option<String>,
}

/// The events, or the alerts of a rule, that a mute would have hidden.
#[derive(Serialize, ToSchema)]
pub struct MutePreview {
    /// Their number.
    count: u64,
    /// Number of all events, or of all alerts of the rule, of that time that no mute hides.
    of: u64,
    /// Start of that time: seven days before the latest data.
    since: f64,
    /// The latest of the events.
    first: Vec<Event>,
    /// What the answer leaves out, and why: the numbers are then lower bounds.
    #[schema(required = true)]
    partial: Option<String>,
}

/// Events that are to be acknowledged: those with these identifiers, or all of a kind and subject.
#[derive(Clone, Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct AcknowledgeDraft {
    /// Identifiers of events, at most 1,000.
    ids: Vec<String>,
    /// The kind, if there are no identifiers.
    kind: Option<String>,
    /// The subject, with a kind.
    subject: Option<String>,
    /// Free text: at most 200 characters in one line.
    note: String,
}

/// Events that were acknowledged.
#[derive(Serialize, ToSchema)]
pub struct Acknowledged {
    /// Their identifiers.
    ids: Vec<String>,
}

/// A JSON body of any type. Errors in it are answered as JSON too.
pub struct Sent<T>(T);

impl<T: DeserializeOwned> FromRequest<Shared> for Sent<T> {
    type Rejection = Failure;

    async fn from_request(request: Request, app: &Shared) -> Result<Self, Failure> {
        let read = timeout(BODY, Json::<T>::from_request(request, app)).await;
        let read = read.map_err(|_| {
            let text = format!("the body was not sent within {} s", BODY.as_secs());
            Failure::new(StatusCode::REQUEST_TIMEOUT, text)
        })?;
        read.map(|Json(body)| Sent(body)).map_err(|rejection| {
            let status = match &rejection {
                JsonRejection::BytesRejection(_) => rejection.status(),
                _ => StatusCode::BAD_REQUEST,
            };
            Failure { help: Some(EXAMPLE.to_owned()), ..Failure::new(status, rejection.body_text()) }
        })
    }
}

/// A failure of a check: what is wrong, and what is accepted.
fn wrong((error, help): (String, &'static str)) -> Failure {
    Failure::question(error, help)
}

fn marks(app: &Shared) -> Result<Arc<dyn Marks>, Failure> {
    app.marks.clone().ok_or_else(|| Failure::unknown("this run has no store, which keeps mutes"))
}

/// The time at which a mute ends, in nanoseconds since the epoch.
fn ending(until: Option<f64>, now: u64) -> Result<Option<u64>, Failure> {
    let Some(until) = until else { return Ok(None) };
    let time = span(Some(until), None)?.from.unwrap_or(0);
    match time {
        time if time <= now => Err(Failure::question("until: this time is over", "a time after now")),
        time if time - now > MAX_TIME => {
            Err(Failure::question("until: more than a year from now", "at most 366 days, or no `until`"))
        }
        time => Ok(Some(time)),
    }
}

fn row(mute: &Mute, hidden: &HashMap<u64, u64>, now: u64) -> MuteRow {
    MuteRow {
        number: mute.number,
        scope: MuteScope::from(&mute.scope),
        until: mute.until.map(seconds),
        ended: mute.until.is_some_and(|until| until <= now),
        reason: mute.reason.clone(),
        who: mute.who.clone(),
        when: seconds(mute.made),
        hits: hidden.get(&mute.number).copied().unwrap_or(0),
    }
}

/// A mute in words, for the list of events.
fn words(mute: &Mute) -> String {
    let MuteScope { kinds, rule, source, target, port } = MuteScope::from(&mute.scope);
    let subject = match rule {
        Some(rule) => format!("rule {rule}"),
        None if kinds.is_empty() => "every kind".to_owned(),
        None => kinds.join(", "),
    };
    let part = |name: &str, text: Option<String>| text.map(|text| format!(" {name} {text}"));
    let parts = [part("of", source), part("to", target), part("at", port)];
    let reason = if mute.reason.is_empty() { String::new() } else { format!(": {}", mute.reason) };
    format!("mute {} of {subject}{}{reason}", mute.number, parts.into_iter().flatten().collect::<String>())
}

/// Number of events, and of alerts of rules since a time, that each mute hides, and why it is a lower bound if it is one.
fn hidden(
    store: &dyn Store,
    mutes: &[Mute],
    since: u64,
) -> Result<(HashMap<u64, u64>, Option<String>), StoreError> {
    let mut by_mute = store.hidden()?;
    let alerts = MutedAlerts::of(mutes)?.hidden(store, TimeRange { from: Some(since), to: None })?;
    by_mute.extend(alerts.by_mute);
    Ok((by_mute, alerts.partial))
}

/// The time from which a preview counts, in nanoseconds since the epoch.
async fn since(app: &Shared) -> Result<u64, Failure> {
    let latest = match app.hub.about.mode {
        Mode::Live => clock(),
        Mode::File | Mode::Store => {
            app.ask(|store| store.extent()).await?.map_or_else(clock, |(_, last)| last)
        }
    };
    Ok(latest.saturating_sub(PREVIEW))
}

/// The mutes, with who made them and how many events or alerts each hides.
#[utoipa::path(get, path = "/api/v1/mutes",
    responses((status = 200, body = Mutes), (status = 404, description = "The run has no store", body = Failure)))]
pub async fn mutes(State(app): State<Shared>) -> Result<Json<Mutes>, Failure> {
    let marks = marks(&app)?;
    let now = clock();
    let since = since(&app).await?;
    let ask = app.ask(move |store| {
        let mutes = marks.mutes()?;
        let (hidden, partial) = hidden(store, &mutes, since)?;
        Ok::<_, Failure>((mutes, hidden, partial))
    });
    let (mutes, hidden, partial) = ask.await?;
    Ok(Json(Mutes { mutes: mutes.iter().map(|mute| row(mute, &hidden, now)).collect(), partial }))
}

/// Hides events from now on, or alerts of a rule; needs the right `write`. They are still stored and counted. At most 1,000 mutes are
/// kept.
#[utoipa::path(post, path = "/api/v1/mutes", request_body = MuteDraft,
    responses((status = 200, body = MuteRow), (status = 400, body = Failure), (status = 403, body = Failure),
        (status = 404, description = "The run has no store", body = Failure),
        (status = 429, description = "There are 1,000 mutes, and none has ended", body = Failure),
        (status = 503, body = Failure)))]
pub async fn mute(
    State(app): State<Shared>,
    Extension(client): Extension<Client>,
    Sent(draft): Sent<MuteDraft>,
) -> Result<Json<MuteRow>, Failure> {
    let marks = marks(&app)?;
    let scope = draft.scope.read().map_err(wrong)?;
    check_text("reason", &draft.reason).map_err(wrong)?;
    let made = clock();
    let until = ending(draft.until, made)?;
    let mute = Mute { number: 0, scope, until, reason: draft.reason, who: client.name, made };
    let work = move || Ok((marks.mute(&mute)?, mute));
    let (number, mute) = app.wait(work).await?;
    let Some(number) = number else {
        let help = Some("remove mutes that are not needed".to_owned());
        let text = format!("there are {MAX_MUTES} mutes");
        return Err(Failure { help, ..Failure::new(StatusCode::TOO_MANY_REQUESTS, text) });
    };
    let mute = Mute { number, ..mute };
    app.hub.note("mute", format!("{} added {}", mute.who, words(&mute)));
    Ok(Json(row(&mute, &HashMap::new(), made)))
}

/// Removes a mute; needs the right `write`. Events that it has hidden stay hidden; alerts of a rule are shown again.
#[utoipa::path(delete, path = "/api/v1/mutes/{number}",
    params(("number" = u64, Path, description = "The number of the mute")),
    responses((status = 200, body = MuteRow), (status = 403, body = Failure), (status = 404, body = Failure),
        (status = 503, body = Failure)))]
pub async fn unmute(
    State(app): State<Shared>,
    Extension(client): Extension<Client>,
    Path(number): Path<String>,
) -> Result<Json<MuteRow>, Failure> {
    let marks = marks(&app)?;
    let unknown = || Failure::unknown("no such mute");
    let number: u64 = number.parse().map_err(|_| unknown())?;
    let since = since(&app).await?;
    let ask = app.ask(move |store| {
        let Some(mute) = marks.unmute(number)? else { return Ok(None) };
        let (hidden, _) = hidden(store, std::slice::from_ref(&mute), since)?;
        Ok::<_, Failure>(Some((mute, hidden)))
    });
    let (mute, hidden) = ask.await?.ok_or_else(unknown)?;
    app.hub.note("mute", format!("{} removed {}", client.name, words(&mute)));
    Ok(Json(row(&mute, &hidden, clock())))
}

/// The events, or the alerts of a rule, of the last seven days that a mute would have hidden.
#[utoipa::path(post, path = "/api/v1/mutes/preview", request_body = MuteDraft,
    responses((status = 200, body = MutePreview), (status = 400, body = Failure),
        (status = 404, description = "The run has no store", body = Failure), (status = 503, body = Failure)))]
pub async fn preview_mute(
    State(app): State<Shared>,
    Sent(draft): Sent<MuteDraft>,
) -> Result<Json<MutePreview>, Failure> {
    let scope = draft.scope.read().map_err(wrong)?;
    check_text("reason", &draft.reason).map_err(wrong)?;
    ending(draft.until, clock())?;
    let since = since(&app).await?;
    let of_week = TimeRange { from: Some(since), to: None };
    if let Some(rule) = scope.rule {
        return Ok(Json(previewed_alerts(&app, scope, rule, of_week).await?));
    }
    let found = gathered(&app, of_week, MAX_COMPARED, false).await?;
    Ok(Json(previewed(&scope, found, since)))
}

/// The alerts of a rule that a mute would have hidden, without those that other mutes hide.
async fn previewed_alerts(
    app: &Shared,
    scope: Scope,
    rule: RuleId,
    span: TimeRange,
) -> Result<MutePreview, Failure> {
    let mutes = app.mutes();
    let ask = app.ask(move |store| {
        let mutes = MutedAlerts::of(&mutes()?)?;
        let counted = |test| muted_alerts::count(store, &mutes.narrow(test, false), span);
        Ok::<_, StoreError>((
            counted(muted_alerts::of_scope(&scope)?)?,
            counted(muted_alerts::of_rule(rule))?,
        ))
    });
    let ((count, unread), (of, more_unread)) = ask.await?;
    let since = seconds(span.from.unwrap_or(0));
    Ok(MutePreview { count, of, since, first: Vec::new(), partial: unread.or(more_unread) })
}

fn previewed(scope: &Scope, found: Events, since: u64) -> MutePreview {
    // Notes about the sensor are not muted: they go to no log.
    let events: Vec<Event> = found.events.into_iter().filter(|event| event.id.is_some()).collect();
    let of = events.len() as u64;
    let mut hidden: Vec<Event> =
        events.into_iter().filter(|event| scope.has(&Facts::of_stored(event))).collect();
    let count = hidden.len() as u64;
    hidden.truncate(FEW);
    let partial = found.partial.map(|_| format!("only the latest {MAX_COMPARED} events are compared"));
    MutePreview { count, of, since: seconds(since), first: hidden, partial }
}

/// Marks events as seen; needs the right `write`.
#[utoipa::path(post, path = "/api/v1/events/acknowledge", request_body = AcknowledgeDraft,
    responses((status = 200, body = Acknowledged), (status = 400, body = Failure), (status = 403, body = Failure),
        (status = 404, body = Failure), (status = 503, body = Failure)))]
pub async fn acknowledge(
    State(app): State<Shared>,
    Extension(client): Extension<Client>,
    Sent(draft): Sent<AcknowledgeDraft>,
) -> Result<Json<Acknowledged>, Failure> {
    const FORM: &str =
        "`{\"ids\": [\"0123456789abcdef\"], \"note\": \"known\"}`, or `kind` and `subject` in place of `ids`";
    let marks = marks(&app)?;
    check_text("note", &draft.note).map_err(wrong)?;
    if draft.ids.len() > MAX_IDS {
        return Err(Failure::question(format!("{} identifiers", draft.ids.len()), "at most 1000"));
    }
    let by_subject = draft.kind.zip(draft.subject);
    if draft.ids.is_empty() == by_subject.is_none() {
        return Err(Failure::question("either identifiers, or a kind with a subject", FORM));
    }
    let asked: HashSet<String> = draft.ids.into_iter().collect();
    let is_asked = |event: &Event| match &by_subject {
        Some((kind, subject)) => event.kind == *kind && event.subject.as_ref() == Some(subject),
        None => event.id.as_ref().is_some_and(|id| asked.contains(id)),
    };
    let mut ids = Vec::new();
    for is_muted in [false, true] {
        let found = gathered(&app, TimeRange::default(), MAX_COMPARED, is_muted).await?;
        ids.extend(found.events.into_iter().filter(is_asked).filter_map(|event| event.id));
    }
    if ids.is_empty() {
        return Err(Failure::unknown("no such event"));
    }
    let by = Acknowledgement { who: client.name, when: seconds(clock()), note: draft.note };
    let work = move || {
        marks.acknowledge(&ids, &by)?;
        Ok(ids)
    };
    Ok(Json(Acknowledged { ids: app.wait(work).await? }))
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct EventsAsked {
    /// Start of the time range, in seconds since the epoch. An event is in the range with a part of its time.
    from: Option<f64>,
    /// End of the time range, excluded.
    to: Option<f64>,
    /// Maximum number of events (100).
    limit: Option<usize>,
    /// `yes`: the events that a mute hides, in place of the others.
    muted: Option<String>,
}

/// Events, latest first: what was found in the traffic, and what happened to the sensor. Those that a mute hides are counted, and
/// listed on request.
#[utoipa::path(get, path = "/api/v1/events", params(EventsAsked),
    responses((status = 200, body = Events), (status = 400, body = Failure)))]
pub async fn events(
    State(app): State<Shared>,
    Ask(asked): Ask<EventsAsked>,
) -> Result<Json<Events>, Failure> {
    let span = span(asked.from, asked.to)?;
    let limit = count("limit", asked.limit, 100, 10_000)?;
    let is_muted = is_muted(asked.muted.as_deref())?;
    let mut found = gathered(&app, span, limit, is_muted).await?;
    if let Some(marks) = app.marks.clone() {
        let ids: Vec<String> = found.events.iter().filter_map(|event| event.id.clone()).collect();
        let mut seen = app.wait(move || Ok(marks.acknowledged(&ids)?)).await?;
        for event in &mut found.events {
            event.acknowledged = event.id.as_ref().and_then(|id| seen.remove(id));
        }
    }
    Ok(Json(found))
}

/// The events of a range that mutes hide, or the others, latest first: those of the store, and those that it does not have yet.
async fn gathered(app: &Shared, span: TimeRange, limit: usize, is_muted: bool) -> Result<Events, Failure> {
    let (mut found, mut others) = match app.store.is_some() {
        true => {
            let ask = app.ask(move |store| {
                Ok::<_, Failure>((store.events(span, limit)?, store.muted_events(span, limit)?))
            });
            ask.await?
        }
        false => <(Events, Events)>::default(),
    };
    let stored = others.events.len();
    let within = |event: &Event| {
        span.from.is_none_or(|from| event.time >= seconds(from))
            && span.to.is_none_or(|to| event.begin < seconds(to))
    };
    for event in app.hub.events().into_iter().filter(within) {
        // The store may have the event already, in this state or an earlier one, in which a mute may not have hidden it.
        let is_same = |known: &Event| match &event.id {
            Some(_) => known.id == event.id,
            None => {
                known.kind == event.kind
                    && known.text == event.text
                    && (known.time - event.time).abs() < 0.001
            }
        };
        for known in [&mut found.events, &mut others.events] {
            known.retain(|known| !is_same(known));
        }
        let to = if event.muted.is_some() { &mut others } else { &mut found };
        to.events.push(event);
    }
    let muted = (found.muted + others.events.len() as u64).saturating_sub(stored as u64);
    let mut found = Events { muted, ..if is_muted { others } else { found } };
    found.events.sort_by(|a, b| b.time.total_cmp(&a.time));
    if found.events.len() > limit {
        found.partial.get_or_insert(format!("only the latest {limit} events are shown"));
        found.events.truncate(limit);
    }
    Ok(found)
}
