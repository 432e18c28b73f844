//! Checks before every route, and the headers of every answer.
//!
//! On loopback no authentication is needed. There the host name of the request is checked, so that a page of another
//! site whose name was made to resolve to this machine (DNS rebinding) reads nothing. On all other addresses the
//! server requires TLS and a token or a password.

use super::access::Refused;
use super::access_log::Entry;
use super::app::Shared;
use super::body::Counted;
use super::failure::Failure;
use super::rights::{Client, Right};
use super::server::Connection;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use std::sync::Arc;
use std::time::Duration;

/// Maximum length of the request's address including the query, in bytes.
const MAX_ADDRESS: usize = 8192;
/// Maximum time from a request to the start of its answer.
const REQUEST: Duration = Duration::from_secs(75);

/// Refuses a request with an address that is too long, for another host, or from a page of another site.
pub async fn guard(State(app): State<Shared>, request: Request, next: Next) -> Response {
    let long = request.uri().path_and_query().map_or(0, |address| address.as_str().len());
    if long > MAX_ADDRESS {
        let text = format!("the address has {long} bytes; the maximum is {MAX_ADDRESS}");
        return Failure::new(StatusCode::URI_TOO_LONG, text).into_response();
    }
    if !app.access.knows_host(request.headers()) {
        let help = "on loopback the host must be localhost, 127.0.0.1 or [::1], with the port of the pages";
        return Failure::forbidden("the request is for another host", help).into_response();
    }
    let only_reads = [Method::GET, Method::HEAD].contains(request.method());
    if !only_reads && !is_own_origin(request.headers()) {
        let text = "the request comes from a page of another site";
        return Failure::forbidden(text, "only pages of this server may send it").into_response();
    }
    match tokio::time::timeout(REQUEST, next.run(request)).await {
        Ok(response) => response,
        Err(_) => Failure::new(StatusCode::REQUEST_TIMEOUT, "the request took too long").into_response(),
    }
}

/// The access check of one route.
#[derive(Clone)]
pub struct Door {
    /// State shared by all routes.
    pub app: Shared,
    /// Path of the route.
    pub route: &'static str,
    /// The right that it requires; `None`: it answers every client.
    pub right: Option<Right>,
}

/// Passes the request of a client that has the right of the route, with the [`Client`] added.
pub async fn admit(State(door): State<Door>, mut request: Request, next: Next) -> Response {
    let Some(right) = door.right else { return next.run(request).await };
    let app = &door.app;
    let connection = request.extensions().get::<Arc<Connection>>().cloned();
    let address = connection.as_ref().map(|connection| connection.address());
    let client = match app.access.client(request.headers(), connection.as_deref()).await {
        Ok(client) => client,
        Err(refused) => {
            let login = || Entry {
                status: 401,
                complete: true,
                ..Entry::of("login", door.route, address, &Uri::default())
            };
            match &refused {
                Refused::Unnamed => {}
                Refused::Wrong(name) => {
                    app.counts.failed_logins.one();
                    app.log.write(Entry { name: name.clone(), ..login() });
                }
                Refused::Wait(_) => app.counts.delayed_logins.one(),
            }
            return unauthenticated(refused);
        }
    };
    // Only downloads of payload and changes are recorded.
    let what = match right {
        Right::Look => None,
        Right::Packets => Some("download"),
        Right::Write => Some("change"),
    };
    let entry = what.map(|what| {
        let entry = Entry::of(what, door.route, address, request.uri());
        Entry { name: Some(client.name.clone()), ..entry }
    });
    let response = if client.rights.has(right) {
        // The place is for the computation of the answer; its rows may take a large one until they are sent.
        match app.answers.of_client(&client).await {
            Ok(_place) => {
                request.extensions_mut().insert(client);
                next.run(request).await
            }
            Err(failure) => failure.into_response(),
        }
    } else {
        app.counts.refused_rights.one();
        not_allowed(&client, right).into_response()
    };
    match entry {
        Some(entry) => recorded(app, entry, response),
        None => response,
    }
}

/// A response that is recorded when its body has ended or its client has disconnected.
fn recorded(app: &Shared, entry: Entry, response: Response) -> Response {
    let is_download = entry.what == "download" && response.status().is_success();
    let (entry, app) = (Entry { status: response.status().as_u16(), ..entry }, Arc::clone(app));
    if is_download {
        app.counts.downloads.one();
    }
    response.map(|body| {
        Body::new(Counted::new(body, move |bytes, complete| {
            if is_download {
                app.counts.download_bytes.add(bytes);
            }
            app.log.write(Entry { bytes, complete, ..entry });
        }))
    })
}

/// The answer to a client that is not authenticated.
fn unauthenticated(refused: Refused) -> Response {
    let help = "a user and password, or a token: `Authorization: Bearer TOKEN`";
    match refused {
        Refused::Unnamed | Refused::Wrong(_) => {
            let failure = Failure {
                help: Some(help.to_owned()),
                ..Failure::new(StatusCode::UNAUTHORIZED, "authentication is required")
            };
            let ask = [(header::WWW_AUTHENTICATE, "Basic realm=\"Weir\", charset=\"UTF-8\"")];
            (ask, failure).into_response()
        }
        Refused::Wait(left) => {
            let seconds = left.as_secs() + 1;
            let text = format!("log-ins from this address have failed: try again in {seconds} s");
            let failure =
                Failure { help: Some(help.to_owned()), ..Failure::new(StatusCode::TOO_MANY_REQUESTS, text) };
            ([(header::RETRY_AFTER, HeaderValue::from(seconds))], failure).into_response()
        }
    }
}

/// Explains who may read packets if no users and tokens are configured.
pub const FOR_THE_OWNER: &str = "packets are for the user who started weir and for root; another user needs a user or \
                                 token with the right packets (--user-file, --token-file)";

/// Explains who may change the configuration if no users and tokens are configured.
const CHANGED_BY_THE_OWNER: &str = "changes are for the user who started weir and for root; another user needs a user or \
                                    token with the right write (--user-file, --token-file)";

/// The answer to a client without a required right.
fn not_allowed(client: &Client, right: Right) -> Failure {
    let (name, word) = (&client.name, right.word());
    let missing = format!("{name} has the rights {}, but not {word}", client.rights);
    let help = match (client.is_named, right) {
        (true, _) => format!("a user or token whose line has the right {word}"),
        (false, Right::Packets) => FOR_THE_OWNER.to_owned(),
        (false, Right::Write) => CHANGED_BY_THE_OWNER.to_owned(),
        (false, Right::Look) => format!("a user or token that has the right {word}"),
    };
    Failure::forbidden(missing, help)
}

/// Whether a request comes from a page of this server, or not from a page.
fn is_own_origin(headers: &HeaderMap) -> bool {
    let text = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    match headers.get(header::ORIGIN) {
        None => true,
        Some(_) => {
            let (origin, host) = (text(header::ORIGIN).unwrap_or_default(), text(header::HOST));
            let name = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
            name.zip(host).is_some_and(|(name, host)| name.eq_ignore_ascii_case(host))
        }
    }
}

/// Pages load, run and connect to only what this server sends, and cannot be embedded in a frame.
const POLICY: &str = "default-src 'self'; style-src 'self'; script-src 'self'; img-src 'self' data:; \
                      connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'";

/// Headers of every answer.
static HEADERS: [(&str, &str); 8] = [
    ("content-security-policy", POLICY),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    ("cross-origin-embedder-policy", "require-corp"),
    ("permissions-policy", "camera=(), geolocation=(), microphone=(), payment=(), usb=()"),
];

/// Tells a browser to use only TLS for this host for a year (RFC 6797).
const STRICT: HeaderValue = HeaderValue::from_static("max-age=31536000");

/// Adds the headers to an answer.
pub async fn headers(State(app): State<Shared>, request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    for (name, value) in HEADERS {
        headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    if app.has_tls {
        headers.insert(header::STRICT_TRANSPORT_SECURITY, STRICT);
    }
    // Data is valid only at the time of the answer. Files with a checksum in their name set another value.
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}
