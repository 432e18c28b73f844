//! The pages: the files of `ui/dist`, embedded in the program.

use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use flate2::Compression;
use flate2::write::GzEncoder;
use rust_embed::RustEmbed;
use std::collections::HashMap;
use std::io::Write;
use std::sync::{Mutex, OnceLock, PoisonError};

use super::failure::Failure;

#[derive(RustEmbed)]
#[folder = "../../ui/dist"]
struct Files;

/// The page served for every address of the pages.
const INDEX: &str = "index.html";
/// Folder of files whose names contain a checksum and whose content never changes.
const HASHED: &str = "assets/";
/// Minimum size of compressed files in bytes.
const COMPRESSED: usize = 1024;

/// Page of a program that was built without its pages.
const NOT_BUILT: &str = "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>Weir</title>\
    <h1>Weir</h1><p>This program was built without its pages: <code>make ui</code> builds them, then \
    <code>make build</code> the program.<p>The data is at <a href=\"/api/openapi.json\">\
    /api/openapi.json</a>, <a href=\"/api/v1/status\">/api/v1/status</a> and <a href=\"/metrics\">/metrics</a>.";

/// Serves an embedded file, or the index page for an address of the pages. Opens no file outside the program.
pub async fn page(request: Request) -> Response {
    if request.method() != Method::GET && request.method() != Method::HEAD {
        return Failure::new(StatusCode::METHOD_NOT_ALLOWED, "pages support only GET").into_response();
    }
    let path = request.uri().path().trim_start_matches('/');
    let accepts = request.headers().get(header::ACCEPT_ENCODING).and_then(|value| value.to_str().ok());
    let gzip = accepts.is_some_and(|accepted| {
        accepted.split(',').any(|one| matches!(one.split(';').next().map(str::trim), Some("gzip" | "*")))
    });
    if path.starts_with("api/") {
        return Failure::unknown(format!("no such route: /{path}; /api/openapi.json lists all routes"))
            .into_response();
    }
    let is_file = path.contains('.') || path.contains('%');
    let name = if path.is_empty() || !is_file { INDEX } else { path };
    match Files::get(name) {
        Some(file) => found(name, &file.data, gzip),
        None if name == INDEX => {
            ([(header::CONTENT_TYPE, "text/html; charset=utf-8")], NOT_BUILT).into_response()
        }
        None => Failure::unknown("no such page").into_response(),
    }
}

fn found(name: &str, data: &[u8], gzip: bool) -> Response {
    let kind = kind(name);
    let packed = Some(kind).filter(|kind| gzip && data.len() >= COMPRESSED && is_text(kind));
    let mut response = match packed {
        Some(_) => Body::from(compressed(name, data)).into_response(),
        None => Body::from(data.to_vec()).into_response(),
    };
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    if packed.is_some() {
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    headers.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
    let keep = if name.starts_with(HASHED) { "public, max-age=31536000, immutable" } else { "no-cache" };
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(keep));
    response
}

/// Compresses a file; the result is kept.
fn compressed(name: &str, data: &[u8]) -> Bytes {
    static DONE: OnceLock<Mutex<HashMap<String, Bytes>>> = OnceLock::new();
    let done = DONE.get_or_init(Mutex::default);
    let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(bytes) = done.get(name) {
        return bytes.clone();
    }
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    // Writing to memory does not fail.
    let _ = encoder.write_all(data);
    let bytes = Bytes::from(encoder.finish().unwrap_or_default());
    done.insert(name.to_owned(), bytes.clone());
    bytes
}

/// Content types by file extension.
static KINDS: [(&str, &str); 9] = [
    (".html", "text/html; charset=utf-8"),
    (".js", "text/javascript; charset=utf-8"),
    (".css", "text/css; charset=utf-8"),
    (".json", "application/json"),
    (".svg", "image/svg+xml"),
    (".png", "image/png"),
    (".ico", "image/x-icon"),
    (".woff2", "font/woff2"),
    (".txt", "text/plain; charset=utf-8"),
];

fn kind(name: &str) -> &'static str {
    KINDS.iter().find(|(end, _)| name.ends_with(end)).map_or("application/octet-stream", |(_, kind)| kind)
}

fn is_text(kind: &str) -> bool {
    kind.starts_with("text/") || kind.starts_with("application/json") || kind.starts_with("image/svg")
}
