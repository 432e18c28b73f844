//! The conversation: requests and what answers them.

use super::PROTOCOL;
use super::command::{Command, Kind, Session, Texts};
use super::message::{First, HEADER, method, parameters, text};
use crate::Out;
use crate::turns::Next;
use std::collections::VecDeque;
use std::sync::Arc;
use weir_wire::stream::Chunk;
use weir_wire::{Direction, Reader};

/// What the first bytes of a message show.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Begin {
    /// This is a message with this number of bytes.
    Message(usize),
    /// The reply to a request for encryption: one byte.
    Reply,
    /// TLS.
    Tls,
    /// At least this number of bytes is needed.
    Within(usize),
    /// This is no message; it takes this number of bytes to see that.
    Nothing(usize),
}

/// Maximum number of requests that wait for their answers, and of bytes of their texts.
const MAX_WAITING: usize = 512;
const MAX_BYTES: usize = 512 << 10;

/// The conversation.
#[derive(Default)]
pub struct State {
    /// Whether the client's first messages are over.
    is_open: bool,
    /// Whether the server has sent a message that is more than a byte.
    is_begun: bool,
    session: Session,
    statements: Texts,
    portals: Texts,
    /// The last step of the present series without a command: its name, and the text of the statement.
    step: Option<(&'static str, Option<Arc<[u8]>>)>,
    waiting: VecDeque<Command>,
    /// Number of bytes of their texts.
    bytes: usize,
    /// Whether the server's messages are not known.
    misses_answers: bool,
    /// Whether the answers up to the next series cannot be told apart.
    is_vague: bool,
}

impl State {
    /// Whether the client's first messages are over.
    pub fn is_open(&self) -> bool {
        self.is_open
    }

    /// Whether a request for encryption waits for the reply, or may do so.
    pub fn negotiates(&self, side: Direction) -> bool {
        match self.waiting.back() {
            Some(last) if side == Direction::Forward => last.kind == Kind::Tls,
            Some(last) => last.kind.negotiates(),
            None => side == Direction::Reverse && !self.is_open && !self.is_begun,
        }
    }

    /// Takes note of missing bytes of a side.
    pub fn miss_of(&mut self, side: Direction) {
        self.misses_answers |= side == Direction::Reverse;
    }

    /// Takes note that messages of a side are known again.
    pub fn found(&mut self, side: Direction, out: &mut dyn Out) {
        if side == Direction::Forward || !std::mem::take(&mut self.misses_answers) {
            return;
        }
        // The client waits for the server to be ready: what was missing answered the requests before the last ones.
        let before = self.waiting.iter().rev().skip(1).position(is_last);
        if let Some(before) = before {
            return self.keep_last(before + 1, out);
        }
        let open = self.waiting.iter().filter(|command| command.kind == Kind::Execute && !command.is_done);
        self.is_vague = open.count() > 1;
    }

    /// Emits all requests but the last ones as they are.
    fn keep_last(&mut self, kept: usize, out: &mut dyn Out) {
        while self.waiting.len() > kept {
            let Some(command) = self.pop() else { break };
            self.end(&command, out);
        }
    }

    fn pop(&mut self) -> Option<Command> {
        let command = self.waiting.pop_front()?;
        self.bytes -= command.argument.as_ref().map_or(0, |text| text.len());
        Some(command)
    }

    /// Emits the row of a request that no longer waits.
    fn end(&self, command: &Command, out: &mut dyn Out) {
        if command.has_row && !command.is_done {
            self.session.emit(command, out);
        }
    }

    /// Takes a message.
    pub fn take(&mut self, begin: Begin, message: &[u8], chunk: &Chunk<'_>, out: &mut dyn Out) -> Next {
        let side = chunk.direction;
        match begin {
            Begin::Tls => return self.tls(out),
            Begin::Reply => return self.reply(message, chunk, out),
            Begin::Nothing(_) | Begin::Within(_) => {
                self.miss_of(side);
                PROTOCOL.emit_anomaly("malformed_data", side, message, chunk.time, out);
                return Next::Lost;
            }
            Begin::Message(_) => {}
        }
        let Some((kind, _)) = message.split_first() else { return Next::Lost };
        let body = message.get(HEADER..).unwrap_or_default();
        if side == Direction::Reverse {
            self.is_begun = true;
            self.answer(*kind, body, chunk, out);
            return Next::Message;
        }
        if *kind == 0 {
            return self.first(message, chunk, out);
        }
        self.is_open = true;
        self.request(*kind, body, chunk, out);
        Next::Message
    }

    /// Takes the beginning of TLS, before which the reply is missing.
    fn tls(&mut self, out: &mut dyn Out) -> Next {
        self.keep_last(0, out);
        Next::Tls { read: false }
    }

    /// Takes the byte that answers a request for encryption.
    fn reply(&mut self, message: &[u8], chunk: &Chunk<'_>, out: &mut dyn Out) -> Next {
        let byte = message.first().copied().unwrap_or_default();
        // The client waits for each reply.
        self.keep_last(1, out);
        let command =
            if self.waiting.back().is_some_and(|last| last.kind.negotiates()) { self.pop() } else { None };
        if let Some(mut command) = command {
            command.at.add(out.here());
            command.reply(byte, chunk.time);
            self.end(&command, out);
        }
        match byte {
            b'S' => Next::Tls { read: true },
            b'G' => Next::GiveUp,
            _ => Next::Message,
        }
    }

    fn first(&mut self, message: &[u8], chunk: &Chunk<'_>, out: &mut dyn Out) -> Next {
        let (time, at) = (chunk.time, out.here());
        let command = match First::read(message) {
            Some(First::Tls) => Command::new(Kind::Tls, "ssl_request", time, at),
            Some(First::Gss) => Command::new(Kind::Gss, "gssenc_request", time, at),
            Some(First::Cancel(process)) => {
                // The server closes the connection and says nothing.
                let mut command = Command::new(Kind::Query, "cancel_request", time, at);
                command.argument = Some(process.to_string().into_bytes().into());
                self.session.emit(&command, out);
                return Next::Message;
            }
            Some(First::Startup(body)) => {
                self.is_open = true;
                for (name, value) in parameters(body).take(64) {
                    let value = Some(value.to_vec());
                    match name {
                        b"user" => self.session.user = value,
                        b"database" => self.session.database = value,
                        b"application_name" => self.session.application = value,
                        _ => {}
                    }
                }
                Command::new(Kind::Startup, "startup", time, at)
            }
            None => {
                PROTOCOL.emit_anomaly("malformed_data", chunk.direction, message, time, out);
                return Next::Lost;
            }
        };
        self.push(command, chunk, out);
        Next::Message
    }

    fn request(&mut self, kind: u8, body: &[u8], chunk: &Chunk<'_>, out: &mut dyn Out) {
        let (time, at) = (chunk.time, out.here());
        let until_zero = |body: &[u8]| Arc::from(text(body).map_or(body, |(text, _)| text));
        let step = |word, text: Option<Arc<[u8]>>| Some((word, text));
        match kind {
            b'Q' => {
                let mut command = Command::new(Kind::Query, "simple_query", time, at);
                command.argument = Some(until_zero(body));
                command.rows = Some(0);
                self.push(command, chunk, out);
            }
            b'F' => self.push(Command::new(Kind::Query, "function_call", time, at), chunk, out),
            b'P' => {
                let Some((name, rest)) = text(body) else { return };
                let statement = until_zero(rest);
                self.statements.set(name, statement.clone());
                self.step = step("parse", Some(statement));
            }
            b'B' => {
                let Some((portal, rest)) = text(body) else { return };
                let statement = text(rest).and_then(|(name, _)| self.statements.get(name));
                match &statement {
                    Some(statement) => self.portals.set(portal, statement.clone()),
                    None => self.portals.remove(portal),
                }
                self.step = step("bind", statement);
            }
            b'D' | b'C' => {
                let Some((what, name)) = body.split_first() else { return };
                let name = text(name).map_or(name, |(name, _)| name);
                let texts = if *what == b'S' { &mut self.statements } else { &mut self.portals };
                let statement = texts.get(name);
                if kind == b'C' {
                    texts.remove(name);
                }
                self.step = step(if kind == b'C' { "close" } else { "describe" }, statement);
            }
            b'E' => {
                let mut command = Command::new(Kind::Execute, "execute", time, at);
                command.argument = text(body).and_then(|(portal, _)| self.portals.get(portal));
                command.rows = Some(0);
                self.step = None;
                self.push(command, chunk, out);
            }
            b'S' => {
                let (word, statement) = self.step.take().unwrap_or(("sync", None));
                let mut command = Command::new(Kind::Sync, word, time, at);
                command.argument = statement;
                self.push(command, chunk, out);
            }
            b'X' => {
                self.keep_last(0, out);
                self.session.emit(&Command::new(Kind::Query, "terminate", time, at), out);
            }
            b'H' => {
                if let Some(last) = self.waiting.back_mut() {
                    last.is_flushed = true;
                }
            }
            // The proof of a user, rows that are copied, and the end of them: parts of what waits.
            _ => {
                if let Some(last) = self.waiting.back_mut() {
                    last.at.add(at);
                }
            }
        }
    }

    fn push(&mut self, command: Command, chunk: &Chunk<'_>, out: &mut dyn Out) {
        if self.misses_answers && self.waiting.back().is_some_and(is_last) {
            // The client has got the rest of the answers that are not known.
            self.keep_last(0, out);
        }
        self.bytes += command.argument.as_ref().map_or(0, |text| text.len());
        self.waiting.push_back(command);
        if self.waiting.len() > MAX_WAITING || self.bytes > MAX_BYTES {
            PROTOCOL.emit_anomaly("too_many_commands", chunk.direction, &[], chunk.time, out);
            self.keep_last(MAX_WAITING / 2, out);
            while self.bytes > MAX_BYTES && self.waiting.len() > 1 {
                self.keep_last(self.waiting.len() - 1, out);
            }
        }
    }

    /// Takes note of the rest of a message whose beginning was taken before.
    pub fn more(&mut self, side: Direction, out: &dyn Out) {
        let command = if side == Direction::Forward { self.waiting.back_mut() } else { self.current() };
        if let Some(command) = command {
            command.at.add(out.here());
        }
    }

    /// The request that the server answers.
    fn current(&mut self) -> Option<&mut Command> {
        self.waiting.iter_mut().find(|command| !command.is_done || command.kind.ends())
    }

    fn answer(&mut self, kind: u8, body: &[u8], chunk: &Chunk<'_>, out: &mut dyn Out) {
        let (here, is_vague) = (out.here(), self.is_vague);
        if kind == b'S' {
            let Some((name, rest)) = text(body) else { return };
            if name == b"server_version" {
                self.session.version = Some(text(rest).map_or(rest, |(value, _)| value).to_vec());
            }
        }
        if kind == b'Z' {
            return self.ready(body.first().copied(), chunk, out);
        }
        let Some(command) = self.current().filter(|command| !command.is_done) else { return };
        if is_vague && command.kind == Kind::Execute {
            return;
        }
        command.at.add(here);
        let mut ends = false;
        match kind {
            b'R' => {
                let number = Reader::new(body).u32().unwrap_or_default();
                match method(number) {
                    _ if number == 0 => command.admit(),
                    Some(name) => command.challenge(name),
                    None => command.challenge("UnknownAuthId"),
                }
            }
            b'E' => {
                command.say(body, true);
                ends = true;
            }
            b'N' => command.say(body, false),
            b'D' => {
                if let Some(rows) = &mut command.rows {
                    *rows += 1;
                }
            }
            b'C' => {
                command.tag(text(body).map_or(body, |(tag, _)| tag));
                ends = command.kind == Kind::Execute;
            }
            b's' | b'I' => ends = command.kind == Kind::Execute,
            _ => {}
        }
        if !ends {
            return;
        }
        command.success.get_or_insert(true);
        command.ended = Some(chunk.time);
        if command.kind.negotiates() || command.kind == Kind::Execute && kind != b'E' {
            // Nothing else answers it.
            let Some(command) = self.pop() else { return };
            self.end(&command, out);
        } else {
            self.close(out);
        }
    }

    /// Emits the present request, which stays for the server being ready.
    fn close(&mut self, out: &mut dyn Out) {
        if let Some(command) = self.waiting.iter_mut().find(|command| !command.is_done) {
            self.session.emit(command, out);
            command.settle();
        }
    }

    /// Takes note that the server is ready: all requests up to a last one are answered.
    fn ready(&mut self, status: Option<u8>, chunk: &Chunk<'_>, out: &mut dyn Out) {
        self.is_vague = false;
        while let Some(mut command) = self.pop() {
            let is_last = command.kind.ends();
            if is_last {
                command.at.add(out.here());
                command.ended.get_or_insert(chunk.time);
                command.success.get_or_insert(matches!(status, Some(b'I' | b'T')));
            }
            self.end(&command, out);
            if is_last {
                break;
            }
        }
    }

    /// Emits the requests without an answer.
    pub fn end_all(&mut self, out: &mut dyn Out) {
        self.keep_last(0, out);
    }

    /// Memory in bytes.
    pub fn held(&self) -> usize {
        let step = self.step.as_ref().and_then(|(_, text)| text.as_ref()).map_or(0, |text| text.len());
        self.waiting.iter().map(Command::memory).sum::<usize>()
            + self.session.memory()
            + self.statements.memory()
            + self.portals.memory()
            + step
    }
}

/// Whether a client waits for the answer to a request before it sends more.
fn is_last(command: &Command) -> bool {
    command.is_flushed || command.kind.ends() || command.kind.negotiates()
}
