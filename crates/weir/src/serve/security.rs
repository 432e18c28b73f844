//! Who may look, and what a browser may do with what it sees.
//!
//! On loopback nobody has to say who he is: there the name by which the pages are called is checked, so that a page of
//! another site whose name was made to mean this machine reads nothing. Everywhere else there is TLS and a token or a
//! password, which [`Access::read`] and the start of the server insist on.

use super::app::Shared;
use super::failure::Failure;
use argon2::password_hash::PasswordHasher;
use argon2::{Argon2, PasswordVerifier};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::fmt::Write;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use subtle::ConstantTimeEq;
use tokio::sync::Semaphore;

/// The longest address, query included, in bytes.
const MAX_ADDRESS: usize = 8192;
/// The fewest bytes of a token.
const MIN_TOKEN: usize = 20;
/// A password that was right once is known again for so long: argon2 takes its time on purpose.
const REMEMBERED: Duration = Duration::from_secs(600);
/// Passwords that are remembered.
const MAX_REMEMBERED: usize = 64;
/// A wrong password or token is answered after so long.
const PENALTY: Duration = Duration::from_millis(500);
/// How long a request may take until its answer begins.
const REQUEST: Duration = Duration::from_secs(75);

/// What somebody may do.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Right {
    /// Look.
    Read,
    /// Look, and apply a configuration.
    Write,
}

/// A user of the file.
struct User {
    name: String,
    right: Right,
    hash: String,
}

/// Who may do what.
pub struct Access {
    /// By token: its SHA-256.
    tokens: Vec<([u8; 32], Right)>,
    users: Vec<User>,
    /// Names by which the pages may be called; any where somebody has to say who he is.
    hosts: Vec<String>,
    remembered: Mutex<HashMap<[u8; 32], (Instant, Right)>>,
    /// One password is hashed at a time: each takes 19 MiB.
    hashing: Arc<Semaphore>,
}

impl Access {
    /// Reads the files. Without any, everybody may look.
    ///
    /// # Errors
    /// What is wrong with a file, and where.
    pub fn read(tokens: Option<&Path>, users: Option<&Path>) -> Result<Access, String> {
        let mut access = Access {
            tokens: Vec::new(),
            users: Vec::new(),
            hosts: Vec::new(),
            remembered: Mutex::default(),
            hashing: Arc::new(Semaphore::new(1)),
        };
        if let Some(path) = tokens {
            access.tokens = lines(path, |line| {
                let (token, role) = line.split_once(char::is_whitespace).unwrap_or((line, "read"));
                let right = right(role.trim()).ok_or("`TOKEN` or `TOKEN write` is wanted")?;
                if token.len() < MIN_TOKEN {
                    return Err("a token has at least 20 characters, such as `openssl rand -hex 20` prints");
                }
                Ok((digest(token.as_bytes()), right))
            })?;
        }
        if let Some(path) = users {
            access.users = lines(path, |line| {
                let wanted = "`NAME:read:HASH` or `NAME:write:HASH` is wanted, as `weir serve --hash-password NAME` prints";
                let mut parts = line.splitn(3, ':');
                let (Some(name), Some(role), Some(hash)) = (parts.next(), parts.next(), parts.next()) else {
                    return Err(wanted);
                };
                let right = right(role).ok_or(wanted)?;
                if name.is_empty() || argon2::PasswordHash::new(hash).is_err() || !hash.starts_with("$argon2")
                {
                    return Err(wanted);
                }
                Ok(User { name: name.to_owned(), right, hash: hash.to_owned() })
            })?;
        }
        Ok(access)
    }

    /// Whether somebody has to say who he is.
    pub fn is_guarded(&self) -> bool {
        !self.tokens.is_empty() || !self.users.is_empty()
    }

    /// Whether anybody may apply a configuration.
    pub fn has_writers(&self) -> bool {
        let tokens = self.tokens.iter().map(|(_, right)| right);
        tokens.chain(self.users.iter().map(|user| &user.right)).any(|right| *right == Right::Write)
    }

    /// From now on the pages may be called by the names of loopback alone, with this port.
    pub fn only_loopback(&mut self, port: u16) {
        self.hosts = ["localhost", "127.0.0.1", "[::1]"].map(|name| format!("{name}:{port}")).into();
        if port == 80 {
            self.hosts.extend(["localhost", "127.0.0.1", "[::1]"].map(str::to_owned));
        }
    }

    /// What who sent these headers may do.
    async fn right_of(&self, headers: &HeaderMap) -> Option<Right> {
        if !self.is_guarded() {
            return Some(Right::Read);
        }
        let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
        let (scheme, value) = value.split_once(' ')?;
        if scheme.eq_ignore_ascii_case("bearer") {
            return self.by_token(value.trim());
        }
        if !scheme.eq_ignore_ascii_case("basic") {
            return None;
        }
        let decoded = String::from_utf8(STANDARD.decode(value.trim()).ok()?).ok()?;
        let (name, password) = decoded.split_once(':')?;
        // A browser knows names and passwords only: a token is a password of any name.
        match self.by_token(password) {
            Some(right) => Some(right),
            None => self.by_password(name, password).await,
        }
    }

    /// All tokens are compared, in a time that does not depend on them.
    fn by_token(&self, token: &str) -> Option<Right> {
        let given = digest(token.as_bytes());
        let mut found = None;
        for (known, right) in &self.tokens {
            if bool::from(known.ct_eq(&given)) {
                found = Some(*right);
            }
        }
        found
    }

    async fn by_password(&self, name: &str, password: &str) -> Option<Right> {
        // Of a name that there is not, the hash of another is verified, so that the time does not tell.
        let user = self.users.iter().find(|user| user.name == name);
        let verified = user.or(self.users.first())?;
        let key = digest(format!("{name}\0{password}\0{}", verified.hash).as_bytes());
        if let Some((since, right)) = self.remembered().get(&key).copied()
            && since.elapsed() < REMEMBERED
        {
            return Some(right);
        }
        let turn = Arc::clone(&self.hashing).acquire_owned().await.ok()?;
        let (hash, given) = (verified.hash.clone(), password.to_owned());
        let is_right = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            Argon2::default().verify_password(given.as_bytes(), hash.as_str()).is_ok()
        });
        let is_right = is_right.await.unwrap_or(false);
        let right = user.filter(|_| is_right)?.right;
        let mut remembered = self.remembered();
        if remembered.len() >= MAX_REMEMBERED {
            remembered.clear();
        }
        remembered.insert(key, (Instant::now(), right));
        Some(right)
    }

    fn remembered(&self) -> std::sync::MutexGuard<'_, HashMap<[u8; 32], (Instant, Right)>> {
        self.remembered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the pages were called by a name that they have.
    fn knows_host(&self, headers: &HeaderMap) -> bool {
        if self.hosts.is_empty() || self.is_guarded() {
            return true;
        }
        let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
        self.hosts.iter().any(|known| known.eq_ignore_ascii_case(host))
    }
}

fn right(role: &str) -> Option<Right> {
    match role {
        "read" => Some(Right::Read),
        "write" => Some(Right::Write),
        _ => None,
    }
}

fn digest(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

/// The lines of a file that say something, each read.
fn lines<T>(path: &Path, read: impl Fn(&str) -> Result<T, &'static str>) -> Result<Vec<T>, String> {
    let shown = path.display();
    let text = std::fs::read_to_string(path).map_err(|error| format!("{shown}: {error}"))?;
    let mut found = Vec::new();
    for (at, line) in text.lines().map(str::trim).enumerate() {
        if !line.is_empty() && !line.starts_with('#') {
            found.push(read(line).map_err(|wanted| format!("{shown}:{}: {wanted}", at + 1))?);
        }
    }
    if found.is_empty() {
        return Err(format!("{shown}: there is nobody in it"));
    }
    Ok(found)
}

/// The line of a user file for a password.
///
/// # Errors
/// That the system has no random numbers, or that name or password are none.
pub fn user_line(name: &str, password: &str) -> Result<String, String> {
    if name.is_empty() || name.contains([':', '\n', '#']) || name.trim() != name {
        return Err(format!("{name:?} cannot be a name: it is not empty and has no colon and no #"));
    }
    if password.chars().count() < 8 {
        return Err("a password has at least 8 characters".to_owned());
    }
    let hash = Argon2::default().hash_password(password.as_bytes()).map_err(|error| error.to_string())?;
    let mut line = format!("{name}:read:");
    let _ = write!(line, "{hash}");
    Ok(line)
}

/// Lets through who may look, and says so on the request.
pub async fn guard(State(app): State<Shared>, mut request: Request, next: Next) -> Response {
    let long = request.uri().path_and_query().map_or(0, |address| address.as_str().len());
    if long > MAX_ADDRESS {
        let text = format!("the address has {long} bytes; at most {MAX_ADDRESS} are read");
        return Failure::new(StatusCode::URI_TOO_LONG, text).into_response();
    }
    if !app.access.knows_host(request.headers()) {
        let help = "on loopback the pages are called localhost, 127.0.0.1 or [::1], with their port";
        return Failure::forbidden("the request was for a host of another name", help).into_response();
    }
    if request.method() == Method::POST && !is_own_origin(request.headers()) {
        let text = "the request comes from a page of another site";
        return Failure::forbidden(text, "only pages of this server may send it").into_response();
    }
    // Whether it is alive is for whoever starts it again.
    if request.uri().path() != "/healthz" {
        let Some(right) = app.access.right_of(request.headers()).await else {
            if request.headers().contains_key(header::AUTHORIZATION) {
                tokio::time::sleep(PENALTY).await;
            }
            let failure = Failure {
                help: Some("a user and password, or a token: `Authorization: Bearer TOKEN`".to_owned()),
                ..Failure::new(StatusCode::UNAUTHORIZED, "who is asking?")
            };
            let ask = [(header::WWW_AUTHENTICATE, "Basic realm=\"Weir\", charset=\"UTF-8\"")];
            return (ask, failure).into_response();
        };
        request.extensions_mut().insert(right);
    }
    match tokio::time::timeout(REQUEST, next.run(request)).await {
        Ok(response) => response,
        Err(_) => Failure::new(StatusCode::REQUEST_TIMEOUT, "the request took too long").into_response(),
    }
}

/// Whether a request comes from a page of this server, or from no page.
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

/// Nothing but what this server sends is loaded, run or sent to, and nobody may put the pages into a frame.
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

/// Puts them on.
pub async fn headers(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    for (name, value) in HEADERS {
        headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    // What is read from the store is of the moment; only files with a checksum in their name say otherwise.
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &str) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        file
    }

    fn asked(value: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(header::AUTHORIZATION, value.parse().unwrap());
        headers
    }

    fn right(access: &Access, value: &str) -> Option<Right> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(access.right_of(&asked(value)))
    }

    #[test]
    fn tokens_and_passwords() {
        let line = user_line("ann", "a long password").unwrap();
        assert!(line.starts_with("ann:read:$argon2id$v=19$"), "{line}");
        let users = file(&format!("# who\n\n{line}\n{}\n", line.replacen("ann:read", "bob:write", 1)));
        let tokens = file("0123456789abcdefghij\n9876543210abcdefghij write\n");
        let access = Access::read(Some(tokens.path()), Some(users.path())).unwrap();
        assert!(access.is_guarded() && access.has_writers());
        assert_eq!(right(&access, "Bearer 0123456789abcdefghij"), Some(Right::Read));
        assert_eq!(right(&access, "Bearer 9876543210abcdefghij"), Some(Right::Write));
        assert_eq!(right(&access, "Bearer 9876543210abcdefghi"), None);
        let basic = |text: &str| format!("Basic {}", STANDARD.encode(text));
        assert_eq!(right(&access, &basic("x:9876543210abcdefghij")), Some(Right::Write));
        // The second time it is remembered, and the wrong one is not.
        for _ in 0..2 {
            assert_eq!(right(&access, &basic("ann:a long password")), Some(Right::Read));
            assert_eq!(right(&access, &basic("bob:a long password")), Some(Right::Write));
            assert_eq!(right(&access, &basic("ann:another password")), None);
            assert_eq!(right(&access, &basic("eve:a long password")), None);
        }
        for wrong in ["Basic !", "Basic", "Digest x", "", "Basic YQ=="] {
            assert_eq!(right(&access, wrong), None, "{wrong}");
        }
    }

    #[test]
    fn files_are_read_strictly() {
        for (tokens, text) in [
            (true, "short\n"),
            (true, "0123456789abcdefghij admin\n"),
            (true, "\n# nobody\n"),
            (false, "ann\n"),
            (false, "ann:read:secret\n"),
            (false, "ann:owner:$argon2id$v=19$m=19456,t=2,p=1$AAAAAAAAAAAAAAAA$AAAA\n"),
        ] {
            let file = file(text);
            let read = match tokens {
                true => Access::read(Some(file.path()), None),
                false => Access::read(None, Some(file.path())),
            };
            assert!(read.is_err(), "{text}");
        }
        assert!(Access::read(Some(Path::new("/nowhere")), None).is_err());
        assert!(user_line("a:b", "long enough").is_err() && user_line("a", "short").is_err());
    }

    #[test]
    fn only_names_of_loopback_with_the_own_port() {
        let mut access = Access::read(None, None).unwrap();
        access.only_loopback(8470);
        let knows = |host: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::HOST, host.parse().unwrap());
            access.knows_host(&headers)
        };
        assert!(
            knows("localhost:8470")
                && knows("127.0.0.1:8470")
                && knows("[::1]:8470")
                && knows("LocalHost:8470")
        );
        for wrong in ["evil.example:8470", "localhost", "localhost:80", "127.0.0.1.evil.example:8470", ""] {
            assert!(!knows(wrong), "{wrong}");
        }
        assert!(!access.knows_host(&HeaderMap::new()));
    }
}
