//! Commands with their answers.

use super::commands::{Answer, answer, fits, number, word};
use super::packet::{
    Bad, Good, Greeting, HEADER, Login, MAX_LENGTH, capability, columns, header, query, status,
};
use super::{MYSQL, PROTOCOL};
use crate::turns::Next;
use crate::{Out, Span, Value, record};
use std::collections::VecDeque;
use weir_wire::stream::Chunk;
use weir_wire::{Direction, Time};

/// Maximum number of commands that wait for their answers: most clients wait after each.
const MAX_WAITING: usize = 64;
/// First byte of OK, of an error, of EOF or the end of a result, and of the request for a file.
const OK: u8 = 0;
const ERROR: u8 = 0xff;
const END: u8 = 0xfe;
const FILE: u8 = 0xfb;

/// Whether the server begins by an error in place of its greeting.
pub fn is_refusal(body: &[u8]) -> bool {
    let bad = body.split_first().filter(|(first, _)| **first == ERROR).and_then(|(_, rest)| Bad::read(rest));
    bad.is_some_and(|bad| (1000..5000).contains(&bad.code) && !bad.message.is_empty())
}

/// Whether this is a packet of the answer to a login.
pub fn begins_login(body: &[u8]) -> bool {
    matches!(body.first(), Some(&(OK | 1 | END | ERROR)))
}

/// The conversation.
#[derive(Default)]
pub struct State {
    /// Whether commands have begun.
    is_open: bool,
    version: Option<Vec<u8>>,
    user: Option<Vec<u8>>,
    database: Option<Vec<u8>>,
    /// Capabilities of the server and of the client, as far as they were seen.
    capabilities: [Option<u32>; 2],
    waiting: VecDeque<Command>,
    /// Whether the server's packets are not known.
    misses_answers: bool,
}

/// A command that waits for its answer, or for the end of it.
struct Command {
    time: Time,
    at: Span,
    word: &'static str,
    number: Option<u8>,
    argument: Vec<u8>,
    /// User and database that a good answer confirms.
    user: Option<Vec<u8>>,
    database: Option<Vec<u8>>,
    /// Number of the first packet of the answer.
    first: u8,
    /// What comes next of the answer, and whether some of it has come.
    answer: Answer,
    is_answered: bool,
    /// Whether the next packet continues one of maximum length.
    is_continued: bool,
    affected: u64,
    returned: u64,
}

/// The end of an answer.
enum End<'a> {
    Good,
    Bad(Bad<'a>),
    /// One packet of text.
    Text,
}

impl Command {
    fn new(word: &'static str, argument: &[u8], first: u8, answer: Answer, time: Time, at: Span) -> Self {
        Self {
            time,
            at,
            word,
            number: None,
            argument: argument.to_vec(),
            user: None,
            database: None,
            first,
            answer,
            is_answered: false,
            is_continued: false,
            affected: 0,
            returned: 0,
        }
    }

    /// Takes a packet of the answer; the end of the answer if it has come.
    fn take<'a>(&mut self, body: &'a [u8], length: usize) -> Option<End<'a>> {
        self.is_answered = true;
        if std::mem::replace(&mut self.is_continued, length == MAX_LENGTH) {
            return None;
        }
        let (first, rest) = body.split_first()?;
        if *first == ERROR
            && let Some(bad) = Bad::read(rest)
        {
            return Some(End::Bad(bad));
        }
        let is_end = *first == END && length < MAX_LENGTH;
        match self.answer {
            Answer::Login if *first == OK => self.end(&Good::ok(rest)),
            Answer::Login | Answer::Nothing => None,
            Answer::Status if *first == OK => self.end(&Good::ok(rest)),
            Answer::Status => self.end(&Good::eof(rest)),
            Answer::First if self.number == Some(number::PREPARE) => Some(End::Good),
            Answer::First => Some(End::Text),
            Answer::Result if *first == OK => self.end(&Good::ok(rest)),
            Answer::Result if is_end => self.end(&Good::eof(rest)),
            Answer::Result => {
                if *first != FILE
                    && let Some(columns) = columns(body)
                {
                    self.answer = Answer::Columns(columns);
                }
                None
            }
            Answer::Columns(left) => {
                self.answer = if left > 1 { Answer::Columns(left - 1) } else { Answer::Rows(false) };
                None
            }
            Answer::Definitions if is_end => self.end(&Good::eof(rest)),
            Answer::Definitions => None,
            Answer::Rows(is_begun) if is_end => {
                let good = Good::eof(rest);
                // EOF, of four more bytes, also stands before the rows, for clients that do not do without.
                let is_before = !is_begun && rest.len() == 4;
                if is_before && good.status & status::CURSOR == 0 {
                    self.answer = Answer::Rows(true);
                    return None;
                }
                self.end(&good)
            }
            Answer::Rows(_) => {
                self.returned += 1;
                self.answer = Answer::Rows(true);
                None
            }
        }
    }

    /// Takes the end of a result: another one may follow.
    fn end<'a>(&mut self, good: &Good) -> Option<End<'a>> {
        self.affected += good.affected;
        if good.status & status::MORE != 0 && self.answer != Answer::Login {
            self.answer = Answer::Result;
            return None;
        }
        Some(End::Good)
    }

    fn memory(&self) -> usize {
        let texts = [Some(&self.argument), self.user.as_ref(), self.database.as_ref()];
        size_of::<Self>() + texts.into_iter().flatten().map(Vec::capacity).sum::<usize>()
    }
}

impl State {
    /// Takes note of missing bytes of a side.
    pub fn miss_of(&mut self, side: Direction) {
        self.misses_answers |= side == Direction::Reverse;
    }

    /// Whether a packet of a side begins with these bytes, after others that are not known.
    pub fn takes_up(&mut self, side: Direction, head: &[u8; HEADER + 1], out: &mut dyn Out) -> bool {
        let [.., first] = *head;
        let Some((length, sequence)) = header(head).filter(|(length, _)| *length > 0) else { return false };
        if side == Direction::Forward {
            return sequence == 0 && word(first).is_some() && fits(first, length);
        }
        let Some(last) = self.waiting.back() else { return false };
        let is_first = match last.answer {
            Answer::Login => begins_login(&[first]),
            Answer::Status => matches!(first, OK | END | ERROR),
            Answer::Result => match first {
                OK => length >= 3,
                END | FILE | ERROR | 0xfd => true,
                0xfc => length <= 4,
                _ => length <= 2,
            },
            _ => true,
        };
        if sequence != last.first || last.is_answered || !is_first {
            return false;
        }
        // The client waits for an answer before its next command: what was missing answered those before.
        self.keep_last(1, out);
        self.misses_answers = false;
        true
    }

    /// Emits all commands but the last as they are.
    fn keep_last(&mut self, kept: usize, out: &mut dyn Out) {
        while self.waiting.len() > kept {
            let Some(command) = self.waiting.pop_front() else { break };
            self.emit(command, None, None, out);
        }
    }

    /// Takes a packet.
    pub fn packet(&mut self, packet: &[u8], chunk: &Chunk<'_>, out: &mut dyn Out) -> Next {
        let Some((length, sequence)) = header(packet) else { return Next::Lost };
        let body = packet.get(HEADER..).unwrap_or_default();
        match chunk.direction {
            Direction::Forward => self.request(body, length, sequence, chunk, out),
            Direction::Reverse => self.answer(body, length, sequence, chunk, out),
        }
    }

    fn request(
        &mut self,
        body: &[u8],
        length: usize,
        sequence: u8,
        chunk: &Chunk<'_>,
        out: &mut dyn Out,
    ) -> Next {
        if sequence != 0 {
            if self.is_open || !self.waiting.is_empty() {
                // An answer to a challenge, the rest of a long command, or a file.
                if let Some(last) = self.waiting.back_mut() {
                    last.first = sequence.wrapping_add(1);
                    last.at.add(out.here());
                }
                return Next::Message;
            }
            return if sequence == 1 { self.login(body, chunk, out) } else { Next::Message };
        }
        if !std::mem::replace(&mut self.is_open, true) && self.compresses() {
            return Next::GiveUp;
        }
        let Some((first, argument)) = body.split_first() else { return Next::Message };
        let Some(word) = word(*first).filter(|_| fits(*first, length)) else {
            PROTOCOL.emit_anomaly("malformed_data", chunk.direction, body, chunk.time, out);
            // The length of a short packet still shows where the next one begins.
            return if length == body.len() { Next::Message } else { Next::Lost };
        };
        self.command(*first, word, argument, chunk, out);
        Next::Message
    }

    fn login(&mut self, body: &[u8], chunk: &Chunk<'_>, out: &mut dyn Out) -> Next {
        let Some(login) = Login::read(body) else {
            PROTOCOL.emit_anomaly("malformed_data", chunk.direction, body, chunk.time, out);
            return Next::Lost;
        };
        let (time, at, first) = (chunk.time, out.here(), 2);
        self.capabilities[1] = Some(login.capabilities);
        if login.begins_tls {
            let command = Command::new(super::STARTTLS, &[], first, Answer::Nothing, time, at);
            self.emit(command, None, None, out);
            return Next::Tls { read: true };
        }
        let mut command = Command::new("login", login.user, first, Answer::Login, time, at);
        self.user = Some(login.user.to_vec());
        command.database = login.database.map(<[u8]>::to_vec);
        self.push(command, chunk, out);
        Next::Message
    }

    fn command(
        &mut self,
        first: u8,
        word: &'static str,
        argument: &[u8],
        chunk: &Chunk<'_>,
        out: &mut dyn Out,
    ) {
        if self.misses_answers {
            // The client has got the rest of the answers that are not known.
            self.keep_last(0, out);
        }
        let mut database = None;
        let mut user = None;
        let argument = match first {
            number::QUERY => query(argument),
            number::INIT_DB => {
                database = Some(argument.to_vec());
                argument
            }
            number::CHANGE_USER => {
                let (name, of) = Login::change(argument);
                user = Some(name.to_vec());
                database = Some(of).filter(|database| !database.is_empty()).map(<[u8]>::to_vec);
                name
            }
            _ => argument,
        };
        let argument = argument.strip_suffix(b"\0").unwrap_or(argument);
        let answer = answer(first);
        let mut command = Command::new(word, argument, 1, answer, chunk.time, out.here());
        command.number = Some(first);
        (command.user, command.database) = (user, database);
        if answer == Answer::Nothing {
            self.emit(command, None, None, out);
        } else {
            self.push(command, chunk, out);
        }
    }

    fn push(&mut self, command: Command, chunk: &Chunk<'_>, out: &mut dyn Out) {
        if self.waiting.len() == MAX_WAITING {
            PROTOCOL.emit_anomaly("too_many_commands", chunk.direction, &[], chunk.time, out);
            self.keep_last(MAX_WAITING - 1, out);
        }
        self.waiting.push_back(command);
    }

    fn answer(
        &mut self,
        body: &[u8],
        length: usize,
        sequence: u8,
        chunk: &Chunk<'_>,
        out: &mut dyn Out,
    ) -> Next {
        if sequence == 0 && !self.is_open && self.waiting.is_empty() {
            return self.greeting(body, chunk, out);
        }
        let Some(command) = self.waiting.front_mut() else { return Next::Message };
        // Packets of an answer that has ended, or that is to a command that was not seen.
        if !command.is_answered && sequence != command.first {
            return Next::Message;
        }
        command.at.add(out.here());
        let Some(end) = command.take(body, length) else { return Next::Message };
        let Some(mut command) = self.waiting.pop_front() else { return Next::Message };
        let is_good = !matches!(end, End::Bad(_));
        let (user, database) = (command.user.take(), command.database.take());
        let is_login = command.answer == Answer::Login;
        if is_login && is_good {
            self.database = database.clone();
        }
        self.emit(command, Some(&end), Some(chunk.time), out);
        if is_good {
            self.user = user.or_else(|| self.user.take());
            self.database = database.or_else(|| self.database.take());
        }
        if is_login {
            self.is_open = true;
        }
        if is_login && is_good && self.compresses() { Next::GiveUp } else { Next::Message }
    }

    fn greeting(&mut self, body: &[u8], chunk: &Chunk<'_>, out: &mut dyn Out) -> Next {
        if let Some((&ERROR, rest)) = body.split_first()
            && let Some(bad) = Bad::read(rest)
        {
            let command = Command::new(super::CONNECT, &[], 0, Answer::Nothing, chunk.time, out.here());
            self.emit(command, Some(&End::Bad(bad)), Some(chunk.time), out);
            return Next::Message;
        }
        let Some(greeting) = Greeting::read(body) else {
            PROTOCOL.emit_anomaly("malformed_data", chunk.direction, body, chunk.time, out);
            return Next::Lost;
        };
        self.version = Some(greeting.version.to_vec());
        self.capabilities[0] = Some(greeting.capabilities);
        Next::Message
    }

    /// Whether packets are compressed after the login.
    fn compresses(&self) -> bool {
        let [server, client] = self.capabilities;
        let both = client.unwrap_or_default() & server.unwrap_or(u32::MAX);
        both & (capability::COMPRESS | capability::ZSTD) != 0
    }

    fn emit(&self, command: Command, end: Option<&End<'_>>, ended: Option<Time>, out: &mut dyn Out) {
        let Command { time, at, word, argument, affected, returned, .. } = command;
        let bad = match end {
            Some(End::Bad(bad)) => Some(bad),
            _ => None,
        };
        let record = record!(
            MYSQL,
            time,
            cmd = word,
            arg = argument,
            success = end.map(|end| !matches!(end, End::Bad(_))),
            rows = matches!(end, Some(End::Good)).then_some(affected),
            response = bad.map(|bad| bad.message),
            rtt = ended.map(|ended| Value::Duration(ended.since(time))),
            returned = end.and((returned > 0).then_some(returned)),
            error_code = bad.map(|bad| bad.code),
            sql_state = bad.and_then(|bad| bad.state),
            user = self.user.as_ref(),
            database = self.database.as_ref(),
            server_version = self.version.as_ref(),
        );
        out.record(record.over(at));
    }

    /// Emits the commands without an answer.
    pub fn end(&mut self, out: &mut dyn Out) {
        self.keep_last(0, out);
    }

    /// Memory in bytes.
    pub fn held(&self) -> usize {
        let texts = [&self.version, &self.user, &self.database].into_iter().flatten().map(Vec::capacity);
        texts.sum::<usize>() + self.waiting.iter().map(Command::memory).sum::<usize>()
    }
}
