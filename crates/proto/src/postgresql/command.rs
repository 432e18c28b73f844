//! Requests with their answers, and the statements that prepared requests name.

use super::POSTGRESQL;
use super::message::{changed, field_name, fields};
use crate::{Out, Span, Value, record};
use std::collections::VecDeque;
use std::sync::Arc;
use weir_wire::Time;

/// Maximum number of bytes of the text of answers, errors and notices that a row keeps.
const MAX_ANSWER: usize = 16 << 10;
/// Maximum number of names of statements that are kept, and of the bytes of their texts.
const MAX_NAMES: usize = 128;
const MAX_TEXTS: usize = 256 << 10;

/// What a request waits for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    /// The byte that answers a request for TLS.
    Tls,
    /// The byte that answers a request for encryption by GSS-API.
    Gss,
    /// A login, up to the server being ready.
    Startup,
    /// All up to the server being ready.
    Query,
    /// The end of one command of several.
    Execute,
    /// The server being ready. A row only if a step before it has failed that belongs to no command.
    Sync,
}

impl Kind {
    /// Whether the server is ready after the answer.
    pub fn ends(self) -> bool {
        matches!(self, Self::Startup | Self::Query | Self::Sync)
    }

    /// Whether this is a request for encryption.
    pub fn negotiates(self) -> bool {
        matches!(self, Self::Tls | Self::Gss)
    }
}

/// A request that waits for its answer, or for the end of it.
pub struct Command {
    pub kind: Kind,
    pub time: Time,
    pub at: Span,
    pub frontend: &'static str,
    pub argument: Option<Arc<[u8]>>,
    /// Whether the row is written.
    pub is_done: bool,
    /// Whether the client asks for the answer at once.
    pub is_flushed: bool,
    /// Whether it has a row in any case: a Sync has one only with an error.
    pub has_row: bool,
    pub success: Option<bool>,
    pub ended: Option<Time>,
    pub rows: Option<u64>,
    changed: Option<u64>,
    backend: Vec<u8>,
    answer: Vec<u8>,
    method: Option<&'static str>,
    code: Option<Vec<u8>>,
    message: Option<Vec<u8>>,
}

impl Command {
    pub fn new(kind: Kind, frontend: &'static str, time: Time, at: Span) -> Self {
        Self {
            kind,
            time,
            at,
            frontend,
            argument: None,
            is_done: false,
            is_flushed: false,
            has_row: kind != Kind::Sync,
            success: None,
            ended: None,
            rows: None,
            changed: None,
            backend: Vec::new(),
            answer: Vec::new(),
            method: None,
            code: None,
            message: None,
        }
    }

    /// Adds to a list with commas.
    fn add(list: &mut Vec<u8>, parts: &[&[u8]]) {
        if !list.is_empty() {
            list.push(b',');
        }
        parts.iter().for_each(|part| list.extend_from_slice(part));
        list.truncate(MAX_ANSWER);
    }

    /// Takes the byte that answers a request for encryption.
    pub fn reply(&mut self, byte: u8, time: Time) {
        let name: &[u8] = if self.kind == Kind::Gss { b"gssenc_reply" } else { b"ssl_reply" };
        Self::add(&mut self.backend, &[name]);
        Self::add(&mut self.answer, &[&[byte]]);
        (self.success, self.ended) = (Some(byte != b'N'), Some(time));
    }

    /// Takes a request of the server for a proof of the user.
    pub fn challenge(&mut self, name: &'static str) {
        self.method.get_or_insert(name);
        Self::add(&mut self.backend, &[b"auth_request"]);
        Self::add(&mut self.answer, &[name.as_bytes()]);
    }

    /// Takes note that the server knows the user.
    pub fn admit(&mut self) {
        self.backend = b"auth_ok".to_vec();
        self.success = Some(true);
    }

    /// Takes an error or a notice.
    pub fn say(&mut self, body: &[u8], is_error: bool) {
        for (kind, value) in fields(body).take(32) {
            match field_name(kind) {
                Some(name) => Self::add(&mut self.answer, &[name.as_bytes(), b"=", value]),
                None => Self::add(&mut self.answer, &[b"UnknownErrorId", &[kind], b"=", value]),
            }
            match kind {
                b'C' if is_error => self.code = Some(value.to_vec()),
                b'M' if is_error => self.message = Some(value.to_vec()),
                _ => {}
            }
        }
        if is_error {
            Self::add(&mut self.backend, &[b"error"]);
            self.success = Some(false);
            self.has_row = true;
            self.rows = None;
        }
    }

    /// Takes the tag of a command that has ended.
    pub fn tag(&mut self, tag: &[u8]) {
        if let Some(rows) = changed(tag) {
            *self.changed.get_or_insert(0) += rows;
        }
    }

    /// Takes note that the row is written: only its place among the others still counts.
    pub fn settle(&mut self) {
        self.is_done = true;
        (self.backend, self.answer) = (Vec::new(), Vec::new());
        (self.code, self.message) = (None, None);
    }

    /// Memory in bytes.
    pub fn memory(&self) -> usize {
        let texts = [Some(&self.backend), Some(&self.answer), self.code.as_ref(), self.message.as_ref()];
        size_of::<Self>()
            + texts.into_iter().flatten().map(Vec::capacity).sum::<usize>()
            + self.argument.as_ref().map_or(0, |argument| argument.len())
    }
}

/// What is known of a session.
#[derive(Default)]
pub struct Session {
    pub user: Option<Vec<u8>>,
    pub database: Option<Vec<u8>>,
    pub application: Option<Vec<u8>>,
    pub version: Option<Vec<u8>>,
}

impl Session {
    /// Emits the row of a request.
    pub fn emit(&self, command: &Command, out: &mut dyn Out) {
        let some = |text: &Vec<u8>| (!text.is_empty()).then(|| text.clone());
        let record = record!(
            POSTGRESQL,
            command.time,
            user = self.user.as_ref(),
            database = self.database.as_ref(),
            application_name = self.application.as_ref(),
            frontend = command.frontend,
            frontend_arg = command.argument.as_deref(),
            success = command.success,
            backend = some(&command.backend),
            backend_arg = some(&command.answer),
            rows = command.ended.and(command.rows),
            changed = command.changed,
            rtt = command.ended.map(|ended| Value::Duration(ended.since(command.time))),
            error_code = command.code.as_ref(),
            error_message = command.message.as_ref(),
            auth_method = command.method,
            server_version = self.version.as_ref(),
        );
        out.record(record.over(command.at));
    }

    /// Memory in bytes.
    pub fn memory(&self) -> usize {
        let texts = [&self.user, &self.database, &self.application, &self.version];
        texts.into_iter().flatten().map(Vec::capacity).sum()
    }
}

/// Texts by name: of prepared statements, and of the portals that run them. The oldest go first.
#[derive(Default)]
pub struct Texts {
    kept: VecDeque<(Vec<u8>, Arc<[u8]>)>,
    bytes: usize,
}

impl Texts {
    pub fn set(&mut self, name: &[u8], text: Arc<[u8]>) {
        self.remove(name);
        self.bytes += name.len() + text.len();
        self.kept.push_back((name.to_vec(), text));
        while self.kept.len() > MAX_NAMES || self.bytes > MAX_TEXTS {
            let Some((name, text)) = self.kept.pop_front() else { break };
            self.bytes -= name.len() + text.len();
        }
    }

    pub fn get(&self, name: &[u8]) -> Option<Arc<[u8]>> {
        self.kept.iter().find(|(kept, _)| kept == name).map(|(_, text)| text.clone())
    }

    pub fn remove(&mut self, name: &[u8]) {
        let Some(at) = self.kept.iter().position(|(kept, _)| kept == name) else { return };
        if let Some((name, text)) = self.kept.remove(at) {
            self.bytes -= name.len() + text.len();
        }
    }

    /// Memory in bytes.
    pub fn memory(&self) -> usize {
        self.bytes + self.kept.capacity() * size_of::<(Vec<u8>, Arc<[u8]>)>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_bounded() {
        let mut texts = Texts::default();
        for number in 0..1000_u32 {
            texts.set(&number.to_be_bytes(), Arc::from(&b"select"[..]));
        }
        assert_eq!((texts.kept.len(), texts.bytes), (MAX_NAMES, 10 * MAX_NAMES));
        assert!(texts.get(&0_u32.to_be_bytes()).is_none() && texts.get(&999_u32.to_be_bytes()).is_some());
        texts.set(b"long", Arc::from(vec![b'x'; 200 << 10]));
        texts.set(b"longer", Arc::from(vec![b'x'; 200 << 10]));
        assert!(texts.get(b"long").is_none() && texts.get(b"longer").is_some() && texts.bytes < MAX_TEXTS);
        texts.remove(b"longer");
        assert_eq!((texts.kept.len(), texts.bytes), (0, 0));
    }
}
