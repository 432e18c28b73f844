//! Answers whose rows are written while they are read, so that an answer of any length needs a few pieces of memory.
//!
//! An answer in JSON begins with its rows and ends with `partial`, which is known last. Tables are lines of CSV or NDJSON. What a
//! table leaves out is in the header `x-weir-partial` if the whole table fits one piece. Of a longer one it is in a trailer of that
//! name (RFC 9110 section 6.5), and of NDJSON in a last line `{"partial": ...}` too. An answer that fails after its first piece
//! breaks the connection, so that no part is taken for the whole.

use super::app::Shared;
use super::body::Written;
use super::failure::Failure;
use super::rights::Client;
use super::routes::table::{Format, PARTIAL, asked, cut, flat, set_headers};
use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use hyper::body::Frame;
use serde::Serialize;
use serde_json::{Map, Value};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;
use weir_store::{Store, StoreError};

/// Bytes that are sent at once.
const PIECE: usize = 64 << 10;
/// Pieces that wait for the client.
const AHEAD: usize = 2;
/// Bytes of an answer on its way.
pub const MEMORY: usize = PIECE * (AHEAD + 2);
/// How long a client may take for a piece.
const STALL: Duration = Duration::from_secs(30);
/// How long an answer may take.
const LONGEST: Duration = Duration::from_secs(600);

/// The form of an answer.
pub struct Form {
    /// `None` for one JSON object.
    format: Option<Format>,
    /// Columns of a table; empty for those of its first row.
    names: Vec<String>,
    /// Name of the file that it is saved as.
    file: &'static str,
}

impl Form {
    /// The form that the query of an address asks for.
    ///
    /// # Errors
    /// The format is unknown.
    pub fn of(query: Option<&str>, file: &'static str, names: Vec<String>) -> Result<Self, Failure> {
        Ok(Self { format: asked(query.unwrap_or_default())?, names, file })
    }
}

/// Answers with the rows that `work` passes to the writer, and with the rest of the answer that it returns. `bytes` is the memory that
/// the work needs.
///
/// # Errors
/// There is no store or no place, or the work fails before its first piece.
pub async fn answer<R: Serialize>(
    app: &Shared,
    client: &Client,
    form: Form,
    bytes: usize,
    work: impl FnOnce(&dyn Store, &mut RowWriter) -> Result<R, StoreError> + Send + 'static,
) -> Result<Response, Failure> {
    let store = app.store()?;
    let place = Arc::new(app.answers.large(client, MEMORY + bytes).await?);
    let (to, from) = mpsc::channel(AHEAD);
    let (head, begun) = oneshot::channel();
    let is_whole = Arc::new(AtomicBool::new(false));
    let (format, file) = (form.format, form.file);
    let mut writer = RowWriter {
        format,
        names: form.names,
        out: Vec::with_capacity(PIECE + PIECE / 4),
        rows: 0,
        head: Some(head),
        to,
        is_stopped: false,
        is_whole: Arc::clone(&is_whole),
        until: Instant::now() + LONGEST,
        runtime: Handle::current(),
    };
    let working = Arc::clone(&place);
    tokio::task::spawn_blocking(move || {
        // The client may have disconnected: the place is held until the work ends, and until the last piece is sent.
        let _working = working;
        let rest = work(&*store, &mut writer);
        writer.end(rest.map_err(Failure::from));
    });
    let left_out = match begun.await {
        Ok(begun) => begun?,
        Err(_) => return Err(Failure::new(StatusCode::INTERNAL_SERVER_ERROR, "the request failed")),
    };
    let mut response = Body::new(Written::new(from, is_whole, place)).into_response();
    let headers = response.headers_mut();
    match format {
        None => {
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        Some(format) => {
            set_headers(headers, format, file, left_out.as_deref());
            headers.insert(header::TRAILER, HeaderValue::from_static(PARTIAL));
        }
    }
    Ok(response)
}

/// The beginning of an answer: what its table leaves out, if that is known, or the failure instead of it.
type Head = Result<Option<String>, Failure>;

/// Writes the rows of an answer.
pub struct RowWriter {
    format: Option<Format>,
    names: Vec<String>,
    out: Vec<u8>,
    rows: u64,
    /// Used when the first piece is sent.
    head: Option<oneshot::Sender<Head>>,
    to: mpsc::Sender<Frame<Bytes>>,
    /// Whether the client is gone or too slow.
    is_stopped: bool,
    is_whole: Arc<AtomicBool>,
    until: Instant,
    runtime: Handle,
}

impl RowWriter {
    /// Writes a row. Returns whether to go on.
    pub fn row(&mut self, row: &impl Serialize) -> bool {
        match self.format {
            None => {
                self.out.extend_from_slice(if self.rows == 0 { b"{\"rows\":[" } else { b"," });
                let _ = serde_json::to_writer(&mut self.out, row);
            }
            Some(format) => {
                let row = flat(serde_json::to_value(row).unwrap_or_default());
                if self.rows == 0 {
                    if self.names.is_empty() {
                        self.names = row.keys().cloned().collect();
                    }
                    format.push_names(&mut self.out, &self.names);
                }
                format.push_row(&mut self.out, &self.names, &row);
            }
        }
        self.rows += 1;
        self.out.len() < PIECE || self.piece(None)
    }

    /// Sends what is written, with the head if it is the first piece. Returns whether the client takes it.
    fn piece(&mut self, left_out: Option<&str>) -> bool {
        if let Some(head) = self.head.take() {
            self.is_stopped |= head.send(Ok(left_out.map(str::to_owned))).is_err();
        }
        let bytes = Bytes::from(std::mem::replace(&mut self.out, Vec::with_capacity(PIECE + PIECE / 4)));
        self.send(Frame::data(bytes))
    }

    fn send(&mut self, frame: Frame<Bytes>) -> bool {
        let left = self.until.saturating_duration_since(Instant::now()).min(STALL);
        if !self.is_stopped {
            let sent = self.runtime.block_on(async { timeout(left, self.to.send(frame)).await });
            self.is_stopped = !matches!(sent, Ok(Ok(())));
        }
        !self.is_stopped
    }

    /// Ends the answer with the rest of it.
    fn end(mut self, rest: Result<impl Serialize, Failure>) {
        let mut rest = match rest.map(|rest| serde_json::to_value(rest).unwrap_or_default()) {
            Ok(Value::Object(rest)) => rest,
            Ok(_) => Map::new(),
            Err(failure) => {
                // After the first piece the body ends without being whole.
                if let Some(head) = self.head.take() {
                    let _ = head.send(Err(failure));
                }
                return;
            }
        };
        if self.is_stopped {
            return;
        }
        rest.shift_remove("rows");
        let partial = rest.shift_remove("partial").unwrap_or_default();
        let matched = rest.get("matched").and_then(Value::as_u64);
        let left_out = partial.as_str().map(str::to_owned).or_else(|| cut(self.rows, matched));
        let is_long = self.head.is_none();
        match self.format {
            None => self.close(&rest, &partial),
            Some(Format::Csv) if self.rows == 0 => Format::Csv.push_names(&mut self.out, &self.names),
            Some(Format::NdJson) if is_long => {
                if let Some(text) = &left_out {
                    let _ = serde_json::to_writer(&mut self.out, &serde_json::json!({ "partial": text }));
                    self.out.push(b'\n');
                }
            }
            Some(_) => {}
        }
        let mut is_sent = self.piece(left_out.as_deref());
        let trailer = left_out.filter(|_| is_long && self.format.is_some());
        if let Some(value) = trailer.and_then(|text| HeaderValue::from_str(&text).ok()) {
            let trailers = HeaderMap::from_iter([(HeaderName::from_static(PARTIAL), value)]);
            is_sent = is_sent && self.send(Frame::trailers(trailers));
        }
        self.is_whole.store(is_sent, Ordering::Release);
    }

    /// Ends an answer in JSON.
    fn close(&mut self, rest: &Map<String, Value>, partial: &Value) {
        self.out.extend_from_slice(if self.rows == 0 { b"{\"rows\":[]" } else { b"]" });
        for (name, value) in rest.iter().chain([(&"partial".to_owned(), partial)]) {
            self.out.push(b',');
            let _ = serde_json::to_writer(&mut self.out, name);
            self.out.push(b':');
            let _ = serde_json::to_writer(&mut self.out, value);
        }
        self.out.push(b'}');
    }
}
