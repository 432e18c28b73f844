//! The triggers of a run, and the packet files that they have written.

use crate::hub::seconds;
use crate::serve::app::{App, Shared};
use crate::serve::body::Pieces;
use crate::serve::failure::Failure;
use crate::serve::rights::Client;
use crate::triggers::{State as TriggerState, files_of, time_of};
use axum::body::{Body, Bytes};
use axum::extract::{Path, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use serde::Serialize;
use std::cmp::Reverse;
use std::fs::{self, File};
use std::io::{Read, Take};
use std::path::PathBuf;
use std::sync::Arc;
use tokio::sync::mpsc;
use utoipa::ToSchema;
use weir_capture::{Files, Input, ReadOptions};
use weir_wire::PacketBuf;

/// Maximum number of files in an answer.
const MAX_FILES: usize = 1000;
/// Bytes per message to the client.
const PIECE: usize = 64 << 10;
/// Bytes that are read of a file for its comments.
const HEAD: usize = 16 << 10;

/// The triggers of a run and their files.
#[derive(Default, Serialize, ToSchema)]
pub struct Dumps {
    /// In the order of the configuration; empty without a run.
    triggers: Vec<DumpTrigger>,
    /// Newest first, at most 1,000.
    files: Vec<DumpFile>,
    /// Number of further files.
    left_out: u64,
}

/// A trigger, and what it does now.
#[derive(Serialize, ToSchema)]
pub struct DumpTrigger {
    /// Its name.
    name: String,
    /// What is compared with its threshold, in words.
    when: String,
    /// The expression of the packets that are measured; empty for all of them, `null` if events of others open its files.
    #[schema(required = true)]
    filter: Option<String>,
    /// The unit or column of the number that is compared; empty if none is known.
    unit: String,
    /// It goes on with more than this.
    #[schema(required = true)]
    above: Option<f64>,
    /// It goes on with less than this.
    #[schema(required = true)]
    below: Option<f64>,
    /// What the latest whole interval came to: the number that is nearest to the threshold, or furthest beyond it.
    #[schema(required = true)]
    value: Option<u64>,
    /// `on` while it has an open event.
    state: &'static str,
    /// Beginning of its earliest open event.
    #[schema(required = true)]
    since: Option<f64>,
    /// The directory of its files.
    to: String,
    /// Maximum bytes of its files.
    #[schema(required = true)]
    limit: Option<u64>,
    /// Number of its files.
    files: u64,
    /// Bytes of its files.
    bytes: u64,
    /// Number of older files that were removed in this run, so that there was room for newer ones.
    removed: u64,
    /// Bytes of these.
    removed_bytes: u64,
    /// Number of times that a file was not written.
    failed: u64,
    /// Seconds before now from which on the packets of all workers are kept; `null` in a run over files, which reads them again.
    #[schema(required = true)]
    ring_seconds: Option<f64>,
}

/// A packet file of a trigger.
#[derive(Serialize, ToSchema)]
pub struct DumpFile {
    /// Its name.
    name: String,
    /// Its trigger.
    trigger: String,
    /// Beginning of its event.
    begun: f64,
    /// Start of the time of its packets: as its comments have it, or else as its trigger has it now.
    from: f64,
    /// End of this time, excluded. A file that reached a limit ends before it.
    to: f64,
    /// Its size.
    bytes: u64,
    /// Whether it is being written.
    open: bool,
    /// What it says of itself, a line for each comment: who decided, by which numbers, and which packets it has.
    reason: String,
}

/// A file of a trigger.
struct Found {
    name: String,
    /// Where it is at present.
    path: PathBuf,
    bytes: u64,
    is_open: bool,
}

/// The files of a trigger. A directory that does not exist yet has none.
fn found(state: &TriggerState) -> Vec<Found> {
    let dump = &state.spec.dump;
    let ended = files_of(&dump.to, &state.spec.name).unwrap_or_default().into_iter();
    let ended = ended.map(|(name, bytes)| Found { path: dump.to.join(&name), name, bytes, is_open: false });
    let open = state.open.iter().filter_map(|open| {
        let path = open.place.clone()?;
        let name = open.path.file_name()?.to_string_lossy().into_owned();
        let bytes = fs::metadata(&path).ok()?.len();
        Some(Found { name, path, bytes, is_open: true })
    });
    ended.chain(open).collect()
}

fn states(app: &App) -> Vec<TriggerState> {
    app.hub.board().map(|board| board.states()).unwrap_or_default()
}

/// The triggers of the run with their present values, and the packet files that they have written.
#[utoipa::path(get, path = "/api/v1/dumps", responses((status = 200, body = Dumps), (status = 503, body = Failure)))]
pub async fn dumps(State(app): State<Shared>) -> Result<Json<Dumps>, Failure> {
    let states = states(&app);
    let reach = app.hub.board().and_then(|board| board.reach());
    Ok(Json(app.wait(move || Ok(listed(&states, reach))).await?))
}

fn listed(states: &[TriggerState], reach: Option<u64>) -> Dumps {
    let mut dumps = Dumps::default();
    let mut all = Vec::new();
    for state in states {
        let files = found(state);
        dumps.triggers.push(row(state, &files, reach));
        all.extend(files.into_iter().map(|file| (time_of(&file.name).unwrap_or_default(), state, file)));
    }
    all.sort_by(|(time, _, file), (other, _, next)| {
        (Reverse(time), &file.name).cmp(&(Reverse(other), &next.name))
    });
    dumps.left_out = all.len().saturating_sub(MAX_FILES) as u64;
    dumps.files =
        all.into_iter().take(MAX_FILES).map(|(time, state, file)| described(time, state, file)).collect();
    dumps
}

/// A file whose event began then.
fn described(begun: u64, state: &TriggerState, file: Found) -> DumpFile {
    let reason = reason(file.path);
    let dump = &state.spec.dump;
    let before = wanted(&reason, "before the event: ").unwrap_or(seconds(dump.before));
    let after = wanted(&reason, "after its beginning: ").unwrap_or(seconds(dump.after));
    let begun = seconds(begun);
    DumpFile {
        name: file.name,
        trigger: state.spec.name.clone(),
        begun,
        from: (begun - before).max(0.0),
        to: begun + after,
        bytes: file.bytes,
        open: file.is_open,
        reason,
    }
}

/// The seconds that a line of the comments of a file says were wanted.
fn wanted(reason: &str, words: &str) -> Option<f64> {
    let line = reason.lines().find_map(|line| line.strip_prefix(words))?;
    let seconds: f64 = line.split(' ').next()?.parse().ok()?;
    (seconds.is_finite() && seconds >= 0.0).then_some(seconds)
}

fn row(state: &TriggerState, files: &[Found], reach: Option<u64>) -> DumpTrigger {
    let spec = &state.spec;
    let argument = |name: &str| {
        let call = spec.judging()?;
        call.arguments.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone())
    };
    let number = |name: &str| argument(name).and_then(|text| text.parse().ok());
    let since = state.since();
    DumpTrigger {
        name: spec.name.clone(),
        when: spec.measured(),
        filter: spec
            .judging()
            .map(|_| spec.subscription().map(|own| own.expression.clone()).unwrap_or_default()),
        unit: argument("column").unwrap_or_else(|| spec.unit().to_owned()),
        above: number("above"),
        below: number("below"),
        value: state.value,
        state: if since.is_some() { "on" } else { "off" },
        since: since.map(seconds),
        to: spec.dump.to.display().to_string(),
        limit: spec.dump.limit,
        files: files.len() as u64,
        bytes: files.iter().map(|file| file.bytes).sum(),
        removed: state.removed.files,
        removed_bytes: state.removed.bytes,
        failed: state.failed,
        ring_seconds: reach.map(seconds),
    }
}

/// The comments of a file; empty if it has none yet, or cannot be read.
fn reason(path: PathBuf) -> String {
    let options = ReadOptions { chunk_bytes: HEAD, packets: Some(1), ..ReadOptions::default() };
    let Ok(mut files) = Files::open(&[Input::Path(path)], &options) else { return String::new() };
    // Comments stand before the first packet. A file that is being written may end after them.
    let _ = files.fill(&mut PacketBuf::default());
    files.describe().flat_map(|info| info.comments.iter().cloned()).collect::<Vec<_>>().join("\n")
}

/// The file of a name.
fn of_name(app: &App, name: &str) -> Result<Found, Failure> {
    let mut all = states(app).into_iter().flat_map(|state| found(&state));
    all.find(|file| file.name == name).ok_or_else(|| Failure::unknown("no trigger has a file of this name"))
}

/// A packet file of a trigger.
#[utoipa::path(get, path = "/api/v1/dumps/{name}",
    params(("name" = String, Path, description = "The name of the file")),
    responses(
        (status = 200, description = "A pcapng file", content_type = "application/octet-stream", body = Vec<u8>),
        (status = 404, body = Failure), (status = 503, body = Failure)))]
pub async fn dump(
    State(app): State<Shared>,
    Extension(client): Extension<Client>,
    Path(name): Path<String>,
) -> Result<Response, Failure> {
    let place = app.answers.large(&client, 8 * PIECE).await?;
    let asked = Arc::clone(&app);
    let (file, length, name) = app
        .wait(move || {
            let found = of_name(&asked, &name)?;
            let file = File::open(&found.path).map_err(|_| Failure::unknown("the file has been removed"))?;
            // One that is being written may grow faster than it is read.
            let length = file.metadata().map_or(0, |metadata| metadata.len());
            Ok((file.take(length), length, found.name))
        })
        .await?;
    let (to, from) = mpsc::channel::<Bytes>(4);
    tokio::task::spawn_blocking(move || {
        let _place = place;
        send(file, &to);
    });
    let headers = [
        (header::CONTENT_TYPE, "application/octet-stream".to_owned()),
        (header::CONTENT_DISPOSITION, format!("attachment; filename=\"{name}\"")),
        (header::CONTENT_LENGTH, length.to_string()),
    ];
    Ok((headers, Body::new(Pieces::new(from, ()))).into_response())
}

/// Sends a file in pieces.
fn send(mut file: Take<File>, to: &mpsc::Sender<Bytes>) {
    loop {
        let mut piece = Vec::with_capacity(PIECE);
        match file.by_ref().take(PIECE as u64).read_to_end(&mut piece) {
            Ok(1..) => {}
            // The answer has begun: the client compares its length with the announced size.
            Ok(0) | Err(_) => return,
        }
        // The client may have disconnected.
        if to.blocking_send(piece.into()).is_err() {
            return;
        }
    }
}

/// Removes a packet file of a trigger; needs the right `write`.
#[utoipa::path(delete, path = "/api/v1/dumps/{name}",
    params(("name" = String, Path, description = "The name of the file")),
    responses((status = 204, description = "It was removed"), (status = 403, body = Failure), (status = 404, body = Failure),
        (status = 409, description = "The file is being written", body = Failure), (status = 503, body = Failure)))]
pub async fn remove_dump(
    State(app): State<Shared>,
    Extension(client): Extension<Client>,
    Path(name): Path<String>,
) -> Result<StatusCode, Failure> {
    let asked = Arc::clone(&app);
    let work = move || {
        let file = of_name(&asked, &name)?;
        if file.is_open {
            return Err(Failure::new(StatusCode::CONFLICT, "the file is being written"));
        }
        fs::remove_file(&file.path).map_err(|error| Failure::busy(format!("it was not removed: {error}")))?;
        asked.hub.note("dump", format!("{} removed {}", client.name, file.name));
        Ok(StatusCode::NO_CONTENT)
    };
    app.wait(work).await
}
