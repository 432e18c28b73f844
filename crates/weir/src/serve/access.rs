//! Authentication of requests: by a token, by user and password, or on loopback by the user of this machine.

use super::attempts::Attempts;
use super::owner::Owners;
use super::rights::{Client, Right, Rights, is_name};
use super::server::Connection;
use crate::private;
use argon2::password_hash::PasswordHasher;
use argon2::{Argon2, PasswordVerifier};
use axum::http::{HeaderMap, header};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use subtle::ConstantTimeEq;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Minimum length of a token in bytes.
const MIN_TOKEN: usize = 20;
/// Time for which a verified password is accepted again without being hashed, because argon2 is slow by design.
const REMEMBERED: Duration = Duration::from_secs(600);
/// Maximum number of verified passwords to cache.
const MAX_REMEMBERED: usize = 64;

/// Expected form of a line of the token file, and of the user file.
const TOKEN_LINE: &str = "expected `TOKEN NAME RIGHTS`, such as `TOKEN backup look,packets`; RIGHTS are look, packets \
                          and write; `TOKEN` alone has the right look";
const USER_LINE: &str = "expected `NAME:RIGHTS:HASH`, as `weir serve --hash-password NAME` prints; RIGHTS are look, \
                         packets and write, such as `look,packets`";

struct Token {
    /// SHA-256 of the token.
    digest: [u8; 32],
    name: String,
    rights: Rights,
}

struct User {
    name: String,
    rights: Rights,
    hash: String,
}

/// Authentication and rights of clients.
pub struct Access {
    tokens: Vec<Token>,
    users: Vec<User>,
    /// Host names under which the pages may be requested; any name if users or tokens are configured.
    hosts: Vec<String>,
    /// Verified passwords, by a digest of name, password and hash; each with the time of verification and its user's
    /// index.
    remembered: Mutex<HashMap<[u8; 32], (Instant, usize)>>,
    /// Limits hashing to one password at a time, because each needs 19 MiB.
    hashing: Arc<Semaphore>,
    attempts: Mutex<Attempts>,
    owners: Arc<Owners>,
}

/// The reason why a client is refused.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Refused {
    /// The request has neither a user nor a token.
    Unnamed,
    /// The password or token is wrong. The name is that of a configured user, or absent.
    Wrong(Option<String>),
    /// Earlier log-ins from this address failed; the next is accepted after this time.
    Wait(Duration),
}

impl Access {
    /// Reads the files. Without any, only loopback is served.
    ///
    /// # Errors
    /// A file cannot be read or has an error, which the message names with its line.
    pub fn read(tokens: Option<&Path>, users: Option<&Path>) -> Result<Access, String> {
        Ok(Access {
            tokens: tokens.map_or(Ok(Vec::new()), |path| lines(path, token))?,
            users: users.map_or(Ok(Vec::new()), |path| lines(path, |_, line| user(line)))?,
            hosts: Vec::new(),
            remembered: Mutex::default(),
            hashing: Arc::new(Semaphore::new(1)),
            attempts: Mutex::default(),
            owners: Arc::new(Owners::of_this_process()),
        })
    }

    /// Whether users or tokens are configured.
    pub fn is_guarded(&self) -> bool {
        !self.tokens.is_empty() || !self.users.is_empty()
    }

    /// Whether any user or token may apply a configuration.
    pub fn has_writers(&self) -> bool {
        let tokens = self.tokens.iter().map(|token| token.rights);
        tokens.chain(self.users.iter().map(|user| user.rights)).any(|rights| rights.has(Right::Write))
    }

    /// Restricts the host names to those of loopback with this port.
    pub fn only_loopback(&mut self, port: u16) {
        self.hosts = ["localhost", "127.0.0.1", "[::1]"].map(|name| format!("{name}:{port}")).into();
        if port == 80 {
            self.hosts.extend(["localhost", "127.0.0.1", "[::1]"].map(str::to_owned));
        }
    }

    /// Whether the request's host name is one of the allowed ones.
    pub fn knows_host(&self, headers: &HeaderMap) -> bool {
        if self.hosts.is_empty() || self.is_guarded() {
            return true;
        }
        let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
        self.hosts.iter().any(|known| known.eq_ignore_ascii_case(host))
    }

    /// Authenticates the sender of a request.
    ///
    /// # Errors
    /// The reason of the refusal. A failed log-in counts against its address.
    pub async fn client(
        &self,
        headers: &HeaderMap,
        connection: Option<&Connection>,
    ) -> Result<Client, Refused> {
        let address = connection.map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), Connection::address);
        if !self.is_guarded() {
            return Ok(self.neighbour(address, connection).await);
        }
        let named = |name: &str, rights| Client { name: name.to_owned(), rights, address, is_named: true };
        let given = Given::of(headers).ok_or(Refused::Unnamed)?;
        // A browser can only send a name and a password: a token is accepted as the password of any name.
        if let Some(token) = self.by_token(given.secret()) {
            return Ok(named(&token.name, token.rights));
        }
        if let Given::Password(name, password) = &given
            && let Some(user) = self.by_memory(name, password)
        {
            return Ok(named(&user.name, user.rights));
        }
        // Log-ins of one address are verified in sequence, so that each failure delays the following ones.
        let turn = Arc::clone(&self.hashing).acquire_owned().await.map_err(|_| Refused::Unnamed)?;
        // A log-in during the delay is not verified, so that the answer reveals nothing.
        if let Some(left) = self.attempts().wait(address, Instant::now()) {
            return Err(Refused::Wait(left));
        }
        let (turn, found) = match &given {
            Given::Password(name, password) => self.by_password(name, password, turn).await,
            Given::Token(_) => (Some(turn), None),
        };
        let Some(user) = found else {
            self.attempts().failed(address, Instant::now());
            drop(turn);
            return Err(Refused::Wrong(
                given.name().filter(|name| self.user(name).is_some()).map(str::to_owned),
            ));
        };
        Ok(named(&user.name, user.rights))
    }

    /// A client on loopback if no users and tokens are configured. Every user of the machine has the right `look`.
    /// Packets and changes are only for users who could also read a capture file of this process, and end it: its user and
    /// root.
    async fn neighbour(&self, address: IpAddr, connection: Option<&Connection>) -> Client {
        let user = match connection {
            Some(connection) => connection.owner(&self.owners).await,
            None => None,
        };
        let is_trusted = user.is_some_and(|user| self.owners.trusts(user));
        Client {
            name: user.map_or_else(|| "local".to_owned(), |user| format!("uid-{user}")),
            rights: if is_trusted {
                Rights::LOOK.with(Right::Packets).with(Right::Write)
            } else {
                Rights::LOOK
            },
            address,
            is_named: false,
        }
    }

    /// Finds a token. All tokens are compared, in a time that does not depend on their content.
    fn by_token(&self, token: &str) -> Option<&Token> {
        let given = digest(token.as_bytes());
        self.tokens.iter().fold(None, |found, known| {
            if bool::from(known.digest.ct_eq(&given)) { Some(known) } else { found }
        })
    }

    fn user(&self, name: &str) -> Option<usize> {
        self.users.iter().position(|user| user.name == name)
    }

    /// The user with a recently verified password.
    fn by_memory(&self, name: &str, password: &str) -> Option<&User> {
        let user = self.users.get(self.user(name)?)?;
        let (since, at) = self.remembered().get(&memory(name, password, &user.hash)).copied()?;
        self.users.get(at).filter(|_| since.elapsed() < REMEMBERED)
    }

    /// Verifies the password of a user. The permit is returned when the hash is done, even if the request is cancelled
    /// before.
    async fn by_password(
        &self,
        name: &str,
        password: &str,
        turn: OwnedSemaphorePermit,
    ) -> (Option<OwnedSemaphorePermit>, Option<&User>) {
        // For an unknown name the hash of another user is verified, so that the time does not reveal which names
        // exist.
        let at = self.user(name);
        let Some(hash) = self.users.get(at.unwrap_or(0)).map(|user| user.hash.clone()) else {
            return (Some(turn), None);
        };
        let (verified, given) = (hash.clone(), password.to_owned());
        let verify = move || {
            let is_right = Argon2::default().verify_password(given.as_bytes(), verified.as_str()).is_ok();
            (turn, is_right)
        };
        let Ok((turn, is_right)) = tokio::task::spawn_blocking(verify).await else { return (None, None) };
        let Some(at) = at.filter(|_| is_right) else { return (Some(turn), None) };
        let mut remembered = self.remembered();
        if remembered.len() >= MAX_REMEMBERED {
            remembered.clear();
        }
        remembered.insert(memory(name, password, &hash), (Instant::now(), at));
        drop(remembered);
        (Some(turn), self.users.get(at))
    }

    fn remembered(&self) -> MutexGuard<'_, HashMap<[u8; 32], (Instant, usize)>> {
        self.remembered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn attempts(&self) -> MutexGuard<'_, Attempts> {
        self.attempts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The credentials of a request.
enum Given {
    Token(String),
    Password(String, String),
}

impl Given {
    /// Parses the header `Authorization` (RFC 7617, RFC 6750); `None` for other schemes.
    fn of(headers: &HeaderMap) -> Option<Given> {
        let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
        let (scheme, value) = value.split_once(' ')?;
        if scheme.eq_ignore_ascii_case("bearer") {
            return Some(Given::Token(value.trim().to_owned()));
        }
        if !scheme.eq_ignore_ascii_case("basic") {
            return None;
        }
        let decoded = String::from_utf8(STANDARD.decode(value.trim()).ok()?).ok()?;
        let (name, password) = decoded.split_once(':')?;
        Some(Given::Password(name.to_owned(), password.to_owned()))
    }

    fn secret(&self) -> &str {
        match self {
            Given::Token(secret) | Given::Password(_, secret) => secret,
        }
    }

    fn name(&self) -> Option<&str> {
        match self {
            Given::Token(_) => None,
            Given::Password(name, _) => Some(name),
        }
    }
}

fn digest(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

fn memory(name: &str, password: &str, hash: &str) -> [u8; 32] {
    digest(format!("{name}\0{password}\0{hash}").as_bytes())
}

/// Parses a line of the token file: `TOKEN NAME RIGHTS`. Also accepts `TOKEN` and `TOKEN RIGHTS`, the form before
/// tokens had names.
fn token(number: usize, line: &str) -> Result<Token, &'static str> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let (token, name, rights) = match words.as_slice() {
        [token] => (*token, None, Some(Rights::LOOK)),
        [token, rights] => (*token, None, Rights::parse(rights)),
        [token, name, rights] => (*token, Some(*name), Rights::parse(rights)),
        _ => return Err(TOKEN_LINE),
    };
    let rights = rights.ok_or(TOKEN_LINE)?;
    if name.is_some_and(|name| !is_name(name)) {
        return Err("a name has at most 64 bytes, no colon, no comma and no #");
    }
    if token.len() < MIN_TOKEN {
        return Err("a token has at least 20 characters, such as `openssl rand -hex 20` prints");
    }
    let name = name.map_or_else(|| format!("token-{number}"), str::to_owned);
    Ok(Token { digest: digest(token.as_bytes()), name, rights })
}

/// Parses a line of the user file: `NAME:RIGHTS:HASH`.
fn user(line: &str) -> Result<User, &'static str> {
    let mut parts = line.splitn(3, ':');
    let (Some(name), Some(rights), Some(hash)) = (parts.next(), parts.next(), parts.next()) else {
        return Err(USER_LINE);
    };
    let rights = Rights::parse(rights).ok_or(USER_LINE)?;
    if !is_name(name) || argon2::PasswordHash::new(hash).is_err() || !hash.starts_with("$argon2") {
        return Err(USER_LINE);
    }
    Ok(User { name: name.to_owned(), rights, hash: hash.to_owned() })
}

/// Parses the lines of a file, except empty lines and comments, each with its number.
fn lines<T>(path: &Path, read: impl Fn(usize, &str) -> Result<T, &'static str>) -> Result<Vec<T>, String> {
    let shown = path.display();
    let text = String::from_utf8(private::read(path)?).map_err(|error| format!("{shown}: {error}"))?;
    let mut found = Vec::new();
    for (at, line) in text.lines().map(str::trim).enumerate() {
        if !line.is_empty() && !line.starts_with('#') {
            found.push(read(at + 1, line).map_err(|expected| format!("{shown}:{}: {expected}", at + 1))?);
        }
    }
    if found.is_empty() {
        return Err(format!("{shown}: no line has a user or token"));
    }
    Ok(found)
}

/// The line of a user file for a password.
///
/// # Errors
/// The system has no random numbers, or the name or the password is not valid.
pub fn user_line(name: &str, password: &str) -> Result<String, String> {
    if !is_name(name) {
        return Err(format!(
            "{name:?} is not a valid name: expected 1 to 64 bytes without spaces, colons, commas and #"
        ));
    }
    if password.chars().count() < 8 {
        return Err("a password has at least 8 characters".to_owned());
    }
    let hash = Argon2::default().hash_password(password.as_bytes()).map_err(|error| error.to_string())?;
    let mut line = format!("{name}:{}:", Rights::LOOK);
    let _ = write!(line, "{hash}");
    Ok(line)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

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

    fn client(access: &Access, value: &str) -> Result<(String, String), Refused> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let client = runtime.block_on(access.client(&asked(value), None));
        client.map(|client| (client.name, client.rights.to_string()))
    }

    fn is(name: &str, rights: &str) -> Result<(String, String), Refused> {
        Ok((name.to_owned(), rights.to_owned()))
    }

    fn basic(text: &str) -> String {
        format!("Basic {}", STANDARD.encode(text))
    }

    #[test]
    fn tokens_and_passwords_have_two_forms() {
        let line = user_line("ann", "a long password").unwrap();
        assert!(line.starts_with("ann:look:$argon2id$v=19$"), "{line}");
        let other = |head: &str| line.replacen("ann:look", head, 1);
        let users = file(&format!(
            "# users\n\n{line}\n{}\n{}\n{}\n",
            other("bob:write"),
            other("eve:read"),
            other("kim:look,packets")
        ));
        let tokens = file(
            "0123456789abcdefghij\n9876543210abcdefghij write\nabcdefghij0123456789 backup look,packets\n\
             abcdefghij9876543210 desk packets,write\n",
        );
        let access = Access::read(Some(tokens.path()), Some(users.path())).unwrap();
        assert!(access.is_guarded() && access.has_writers());
        for (token, name, rights) in [
            ("0123456789abcdefghij", "token-1", "look"),
            ("9876543210abcdefghij", "token-2", "look,write"),
            ("abcdefghij0123456789", "backup", "look,packets"),
            ("abcdefghij9876543210", "desk", "look,packets,write"),
        ] {
            assert_eq!(client(&access, &format!("Bearer {token}")), is(name, rights));
            assert_eq!(client(&access, &basic(&format!("x:{token}"))), is(name, rights));
        }
        // The second log-in uses the cache.
        for _ in 0..2 {
            assert_eq!(client(&access, &basic("ann:a long password")), is("ann", "look"));
            assert_eq!(client(&access, &basic("bob:a long password")), is("bob", "look,write"));
            assert_eq!(client(&access, &basic("eve:a long password")), is("eve", "look"));
            assert_eq!(client(&access, &basic("kim:a long password")), is("kim", "look,packets"));
        }
        for unread in ["Basic !", "Basic", "Digest x", "", "Basic YQ=="] {
            assert_eq!(client(&access, unread), Err(Refused::Unnamed), "{unread}");
        }
    }

    #[test]
    fn a_failed_login_delays_the_next_and_only_configured_users_are_named() {
        let users = file(&format!("{}\n", user_line("ann", "a long password").unwrap()));
        let access = || Access::read(None, Some(users.path())).unwrap();
        for (given, name) in [
            (basic("ann:another password"), Some("ann".to_owned())),
            // Text in the wrong field may be a password.
            (basic("my-real-password:ann"), None),
            ("Bearer 9876543210abcdefghi".to_owned(), None),
        ] {
            let access = access();
            assert_eq!(client(&access, &given), Err(Refused::Wrong(name)));
            assert!(matches!(client(&access, &given), Err(Refused::Wait(_))), "{given}");
            let right = client(&access, &basic("ann:a long password"));
            assert!(matches!(right, Err(Refused::Wait(_))), "a correct password waits too: {right:?}");
        }
        let access = access();
        assert_eq!(client(&access, &basic("ann:a long password")), is("ann", "look"));
        assert!(client(&access, &basic("ann:another password")).is_err());
        assert_eq!(client(&access, &basic("ann:a long password")), is("ann", "look"), "cached");
    }

    #[test]
    fn invalid_lines_in_token_and_user_files_are_refused() {
        for (tokens, text) in [
            (true, "short\n"),
            (true, "0123456789abcdefghij admin\n"),
            (true, "0123456789abcdefghij ann admin\n"),
            (true, "0123456789abcdefghij ann look packets\n"),
            (true, "0123456789abcdefghij a:b look\n"),
            (true, "\n# a comment\n"),
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
    fn a_file_that_others_can_read_is_refused() {
        let tokens = file("0123456789abcdefghij\n");
        let path = tokens.path();
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o644)).unwrap();
        let error = Access::read(Some(path), None).err().unwrap();
        assert!(error.ends_with(&format!("chmod 600 {}", path.display())), "{error}");
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
        assert!(Access::read(Some(path), None).is_ok());
    }

    #[test]
    fn only_loopback_names_with_the_server_port_are_accepted() {
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
