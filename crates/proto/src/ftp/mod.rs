//! File Transfer Protocol (RFC 959) with AUTH (4217), EPRT and EPSV (2428): commands with their replies, files and
//! data channels, and the handshakes in ADAT (2228).

pub(crate) mod data;
mod tables;

pub(crate) use data::PROTOCOL as DATA;

use crate::early::{begin_transaction, early};
use crate::line::{Line, Lines};
use crate::place::Nested;
use crate::tls;
use crate::waiting::take_last;
use crate::{
    Buffer, Expected, Heads, Out, Parser, Probe, Protocol, Setup, Span, Step, TCP, Transport, Value, record,
};
use data::{Channel, Data};
use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr};
use tables::{COMMANDS, FTP};
use weir_wire::stream::Chunk;
use weir_wire::{Direction, Time};

pub(crate) static PROTOCOL: Protocol = Protocol {
    name: "ftp",
    help: "File Transfer Protocol (RFC 959).",
    transport: Transport::Tcp,
    ports: &[21, 2121],
    probe,
    parser: |setup| Box::new(Ftp::new(setup)),
    tables: &[&FTP, &COMMANDS, &tables::DATA],
    buffers: &[&COMMAND, &COMMAND_DATA, &REPLY, &COMPLETION_CODE, &DYNAMIC_PORT, &MODE, &REPLY_RECEIVED],
};

static COMMAND: Buffer =
    Buffer::whole("ftp.command", "Command of a client in capitals, without its argument.");
static DYNAMIC_PORT: Buffer = Buffer::number(
    "ftp.dynamic_port",
    "Port of a data connection in PORT, EPRT, or a reply to PASV or EPSV.",
);
static MODE: Buffer = Buffer::number(
    "ftp.mode",
    "Who opens a data connection by a command and its reply: 1 the server (PORT, EPRT), 0 the client (PASV, EPSV).",
);
static REPLY_RECEIVED: Buffer = Buffer::number(
    "ftp.reply_received",
    "Whether a command got its last reply: 1 with it; 0 at the end of the flow, or when too many commands wait.",
);
static COMMAND_DATA: Buffer =
    Buffer::whole("ftp.command_data", "Argument of a command of a client, without the blanks around it.");
static REPLY: Buffer =
    Buffer::whole("ftp.reply", "Text of a line of a reply, without its code; each line alone.");
static COMPLETION_CODE: Buffer =
    Buffer::whole("ftp.completion_code", "Code of a line of a reply, three digits; each line alone.");

/// Longest line kept: a path of 4 KiB with the command before it.
const MAX_LINE: usize = MAX_PATH + 64;
/// Maximum number of commands without a reply; Zeek has 20.
const MAX_WAITING: usize = 20;
/// Maximum number of reply lines to one command, and of their bytes: greetings fill a screen or two.
const MAX_LINES: usize = 256;
const MAX_BYTES: usize = 32 << 10;
/// Longest path in bytes, as on Linux (PATH_MAX): a longer working directory is not followed.
const MAX_PATH: usize = 4096;
/// Time for which a data channel is expected, as in Zeek: five minutes.
const PATIENCE: u64 = 300_000_000_000;
/// Guest users, whose password is not a secret.
const GUESTS: [&[u8]; 4] = [b"anonymous", b"ftp", b"ftpuser", b"guest"];
/// Commands that Zeek logs.
const LOGGED: [&[u8]; 10] =
    [b"APPE", b"DELE", b"RETR", b"STOR", b"STOU", b"ACCT", b"PORT", b"PASV", b"EPRT", b"EPSV"];
/// Commands whose argument is a path.
const PATHS: [&[u8]; 11] =
    [b"APPE", b"CWD", b"DELE", b"MKD", b"RETR", b"RMD", b"RNFR", b"RNTO", b"STOR", b"STOU", b"SIZE"];

const WORDS: [&[u8]; 11] =
    [b"USER", b"PASS", b"AUTH", b"FEAT", b"SYST", b"HELP", b"OPTS", b"QUIT", b"NOOP", b"CLNT", b"HOST"];

fn probe(heads: &Heads<'_>) -> Probe {
    let fits = |word: &&[u8]| {
        let max = word.len().min(heads.forward.len());
        heads.forward.iter().take(max).zip(word.iter()).all(|(a, b)| a.to_ascii_uppercase() == *b)
            && heads.forward.get(word.len()).is_none_or(|next| b" \r\n".contains(next))
    };
    let has_client = !heads.forward.is_empty();
    if has_client && !WORDS.iter().any(fits) {
        return Probe::Reject;
    }
    let line = heads.reverse.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let begins = |code: &[u8]| line.iter().zip(code).all(|(a, b)| a == b);
    if ![&b"220"[..], b"331", b"230", b"234", b"530", b"120"].iter().any(|code| begins(code)) {
        return Probe::Reject;
    }
    let contains = |word: &[u8]| line.windows(word.len()).any(|window| window.eq_ignore_ascii_case(word));
    match heads.reverse.get(3) {
        Some(b' ' | b'-') if contains(b"SMTP") => Probe::Reject,
        Some(b' ' | b'-') if contains(b"FTP") => Probe::Match,
        // After such a greeting, no client of another protocol begins like this.
        Some(b' ' | b'-') if has_client && heads.forward.len() > 4 => Probe::Match,
        Some(b' ' | b'-') | None => Probe::Maybe,
        Some(_) => Probe::Reject,
    }
}

/// A command and its result so far.
#[derive(Debug, Default)]
struct Command {
    /// Its number in the connection, from 0; a greeting has one too.
    number: u64,
    time: Time,
    /// Its bytes, and those of its replies.
    at: Span,
    name: Vec<u8>,
    argument: Vec<u8>,
    is_cut: bool,
    codes: Vec<[u8; 3]>,
    lines: Vec<Vec<u8>>,
    bytes: usize,
    replies_cut: bool,
    last: Option<(u16, Vec<u8>)>,
    data: Option<Endpoint>,
    channel: Option<Channel>,
    file_size: Option<u64>,
    /// Whether its reply was lost in a gap.
    is_lost: bool,
}

/// An announced data channel.
#[derive(Clone, Copy, Debug)]
struct Endpoint {
    is_passive: bool,
    initiator: IpAddr,
    responder: (IpAddr, u16),
}

struct Ftp {
    setup: Setup,
    client: Lines,
    server: Lines,
    waiting: VecDeque<Command>,
    /// The last command with a reply: its channel may still add facts before the next command.
    done: Option<Command>,
    greeting: Option<Command>,
    greeted: bool,
    /// The code of an incomplete reply of several lines.
    in_reply: Option<[u8; 3]>,
    user: Option<Vec<u8>>,
    password: Option<Vec<u8>>,
    directory: Vec<u8>,
    /// The channel of the next transfer.
    channel: Option<Channel>,
    channels: u64,
    /// Number of commands that have begun, the greeting included.
    begun: u64,
    /// TLS in the tokens of `AUTH GSSAPI` (RFC 2228), as in GridFTP.
    tokens: Option<Box<dyn Parser>>,
    /// Replies are lost: what comes next may be the rest of one.
    lost: bool,
    /// Whether the client sent commands before the replies to those that wait.
    pipelines: bool,
}

impl Ftp {
    fn new(setup: &Setup) -> Self {
        Self {
            setup: setup.clone(),
            client: Lines::new(MAX_LINE),
            server: Lines::new(MAX_LINE),
            waiting: VecDeque::new(),
            done: None,
            greeting: None,
            greeted: false,
            in_reply: None,
            user: None,
            password: None,
            directory: b".".to_vec(),
            channel: None,
            channels: 0,
            begun: 0,
            tokens: None,
            lost: false,
            pipelines: false,
        }
    }
}

impl Parser for Ftp {
    fn chunk(&mut self, chunk: &Chunk<'_>, out: &mut dyn Out) -> Step {
        if chunk.gap > 0 {
            self.miss(chunk.direction, chunk.time, out);
        }
        let mut data = chunk.data;
        match chunk.direction {
            Direction::Forward => {
                let mut lines = self.client.take();
                while lines.next(&mut data, |line| self.command(line, chunk.time, out)).is_some() {}
                self.client = lines;
            }
            Direction::Reverse => {
                let mut lines = self.server.take();
                let encrypted = lines.until(&mut data, |line| self.reply(line, chunk.time, out));
                self.server = lines;
                if let Some(unread) = encrypted {
                    return Step::SwitchTo { protocol: None, unread };
                }
            }
        }
        Step::Next
    }

    fn end(&mut self, time: Time, out: &mut dyn Out) {
        self.flush(time, out);
        self.end_tokens(time, out);
    }

    fn memory(&self) -> usize {
        let commands = self.waiting.iter().chain(&self.done).chain(&self.greeting);
        let of = |command: &Command| {
            size_of::<Command>() + command.bytes + command.lines.len() * 24 + command.argument.capacity()
        };
        self.client.memory()
            + self.server.memory()
            + commands.map(of).sum::<usize>()
            + self.directory.capacity()
            + self.tokens.as_ref().map_or(0, |tokens| tokens.memory())
    }
}

impl Ftp {
    /// Handles missing bytes.
    fn miss(&mut self, direction: Direction, time: Time, out: &mut dyn Out) {
        self.end_tokens(time, out);
        match direction {
            Direction::Forward => {
                self.client.forget();
                // The gap may contain commands: later replies do not belong to those that wait.
                self.flush(time, out);
            }
            Direction::Reverse => {
                self.server.forget();
                self.in_reply = None;
                let last = take_last(&mut self.waiting, self.pipelines, |command| command.time);
                self.flush_lost(time, out);
                self.waiting.extend(last);
            }
        }
        (self.lost, self.greeted) = (true, true);
    }

    /// Emits the waiting commands, whose replies are lost. Another working directory is taken for entered: most are.
    fn flush_lost(&mut self, time: Time, out: &mut dyn Out) {
        for mut command in std::mem::take(&mut self.waiting) {
            command.is_lost = true;
            match command.name.as_slice() {
                b"CWD" | b"XCWD" => self.enter(&command.argument),
                b"CDUP" | b"XCUP" => self.enter(b".."),
                _ => {}
            }
            self.emit_command(&command, time, out);
            self.emit(&command, out);
        }
        if let Some(greeting) = self.greeting.take() {
            self.emit_command(&greeting, time, out);
        }
    }

    /// Emits the waiting commands without replies.
    fn flush(&mut self, time: Time, out: &mut dyn Out) {
        if let Some(done) = self.done.take() {
            self.emit(&done, out);
        }
        for command in &self.waiting {
            begin_transaction(Direction::Reverse, command.number, out);
            out.emit_number(&REPLY_RECEIVED, Direction::Reverse, 0);
            out.side_is_complete(Direction::Reverse);
        }
        for command in std::mem::take(&mut self.waiting).into_iter().chain(self.greeting.take()) {
            self.emit_command(&command, time, out);
            self.emit(&command, out);
        }
    }

    /// Reads a token that precedes encryption.
    fn token(&mut self, text: &[u8], direction: Direction, time: Time, out: &mut dyn Out) {
        let data = crate::mime::base64(text);
        let Self { tokens, setup, .. } = self;
        let tokens = tokens.get_or_insert_with(|| (tls::PROTOCOL.parser)(setup));
        let chunk = Chunk { time, direction, gap: 0, data: &data };
        if !matches!(tokens.chunk(&chunk, &mut Nested(out)), Step::Next) {
            self.end_tokens(time, out);
        }
    }

    fn end_tokens(&mut self, time: Time, out: &mut dyn Out) {
        if let Some(mut tokens) = self.tokens.take() {
            tokens.end(time, out);
        }
    }

    fn is_guest(&self) -> bool {
        let user = self.user.as_deref().unwrap_or_default();
        GUESTS.iter().any(|guest| user.eq_ignore_ascii_case(guest))
    }

    fn command(&mut self, line: Line<'_>, time: Time, out: &mut dyn Out) {
        let at = out.message(line.unread);
        if line.is_cut {
            PROTOCOL.emit_anomaly("request_command_too_long", Direction::Forward, line.text, time, out);
        }
        // Telnet options may precede ABOR.
        let skip = line.text.iter().position(|byte| byte.is_ascii_graphic()).unwrap_or(line.text.len());
        let text = line.text.get(skip..).unwrap_or_default();
        let length = text.iter().position(|byte| *byte == b' ').unwrap_or(text.len());
        let (name, argument) = text.split_at(length);
        let (name, argument) = (name.to_ascii_uppercase(), argument.trim_ascii());
        if name.is_empty() {
            return;
        }
        if let Some(done) = self.done.take() {
            self.emit(&done, out);
        }
        if std::mem::take(&mut self.lost) {
            self.flush_lost(time, out);
        }
        let mut command = Command {
            number: self.next_number(),
            time,
            at,
            name,
            argument: argument.to_vec(),
            is_cut: line.is_cut,
            ..Command::default()
        };
        begin_transaction(Direction::Forward, command.number, out);
        match command.name.as_slice() {
            b"USER" => self.user = Some(argument.to_vec()),
            b"ADAT" if !line.is_cut => self.token(argument, Direction::Forward, time, out),
            b"PASS" => {
                self.password = Some(if self.is_guest() { argument.to_vec() } else { b"<hidden>".to_vec() });
            }
            b"PORT" | b"EPRT" => {
                let announced =
                    if command.name == b"PORT" { port(argument) } else { extended_port(argument) };
                match announced {
                    Some(responder) => {
                        let endpoint =
                            Endpoint { is_passive: false, initiator: self.setup.responder.0, responder };
                        command.data = Some(endpoint);
                        out.emit_number(&DYNAMIC_PORT, Direction::Forward, responder.1.into());
                        self.expect(endpoint, time, out);
                    }
                    None => {
                        PROTOCOL.emit_anomaly("ftp_invalid_port", Direction::Forward, argument, time, out)
                    }
                }
            }
            b"RETR" | b"STOR" | b"STOU" | b"APPE" | b"LIST" | b"NLST" | b"MLSD" => {
                if let Some(channel) = self.channel.take() {
                    channel
                        .with(|known| known.command = Some((command.name.clone(), command.argument.clone())));
                    command.channel = Some(channel);
                }
            }
            _ => {}
        }
        self.pipelines &= !self.waiting.is_empty();
        if self.waiting.len() == MAX_WAITING {
            // Zeek shows their number.
            let waiting = MAX_WAITING.to_string();
            let name = "FTP_too_many_pending_commands";
            PROTOCOL.emit_anomaly(name, Direction::Forward, waiting.as_bytes(), time, out);
            self.flush(time, out);
        }
        if command.name != b"PASS" {
            let argument = Some(&command.argument).filter(|argument| !argument.is_empty());
            early!(out, COMMANDS, command = &command.name, argument = argument);
        }
        out.emit(&COMMAND, Direction::Forward, &command.name);
        hand_on_mode(&command.name, Direction::Forward, out);
        if !command.argument.is_empty() {
            out.emit(&COMMAND_DATA, Direction::Forward, &command.argument);
        }
        out.side_is_complete(Direction::Forward);
        self.waiting.push_back(command);
    }

    /// Announces a data channel.
    fn expect(&mut self, endpoint: Endpoint, time: Time, out: &mut dyn Out) {
        self.channels += 1;
        let channel = Channel::default();
        // The identifier of the data channel's flow is not known yet: its files are named after this flow.
        let flow = self.setup.flow.rotate_left(17) ^ self.channels;
        let (responder, _) = endpoint.responder;
        let own = if endpoint.is_passive { self.setup.responder.0 } else { self.setup.initiator.0 };
        // Behind address translation, a host announces a private address.
        let hidden = responder != own && is_hidden(responder);
        let hosts = [self.setup.initiator.0, self.setup.responder.0];
        let is_ours = |address| {
            let [one, other] = hosts;
            [[one, other], [other, one]].contains(&[endpoint.initiator, address])
        };
        for address in [Some(responder), hidden.then_some(own)].into_iter().flatten() {
            if address.is_unspecified() {
                continue;
            }
            let responder = (address, endpoint.responder.1);
            let setup = Setup {
                flow,
                initiator: (endpoint.initiator, 0),
                responder,
                ip_proto: TCP,
                wants: self.setup.wants,
            };
            out.expect(Expected {
                flow: self.setup.flow,
                responder,
                initiator: Some(endpoint.initiator),
                ip_proto: TCP,
                from: time,
                until: Time(time.0.saturating_add(PATIENCE)),
                protocol: &DATA,
                // A transfer between other hosts may be read by another worker, which does not wait for this flow.
                parser: Box::new(Data::new(
                    &setup,
                    if is_ours(address) { channel.clone() } else { Channel::default() },
                )),
            });
        }
        self.channel = Some(channel);
    }

    /// The number of a command that begins.
    fn next_number(&mut self) -> u64 {
        let number = self.begun;
        self.begun += 1;
        number
    }

    /// The greeting, which stands for a command.
    fn greeting(&mut self, time: Time) -> &mut Command {
        let Self { greeting, begun, .. } = self;
        greeting.get_or_insert_with(|| {
            let number = *begun;
            *begun += 1;
            Command { number, time, ..Command::default() }
        })
    }

    /// Takes a line of a reply. Returns `true` if TLS begins after it.
    fn reply(&mut self, line: Line<'_>, time: Time, out: &mut dyn Out) -> bool {
        let at = out.message(line.unread);
        if line.is_cut {
            PROTOCOL.emit_anomaly("response_command_too_long", Direction::Reverse, line.text, time, out);
        }
        let (digits, rest) =
            line.text.split_first_chunk::<3>().map_or((None, line.text), |(digits, rest)| {
                match digits.iter().all(u8::is_ascii_digit) {
                    true => (Some(*digits), rest),
                    false => (None, line.text),
                }
            });
        let (is_last, code, text) = match (self.in_reply, digits, rest.first()) {
            (Some(code), Some(digits), None | Some(b' ')) if digits == code => (true, code, rest),
            (Some(code), Some(digits), Some(b'-')) if digits == code => (false, code, rest),
            // A line of the text of a reply.
            (Some(code), _, _) => (false, code, line.text),
            (None, Some(digits), None | Some(b' ')) => (true, digits, rest),
            (None, Some(digits), Some(b'-')) => (false, digits, rest),
            // It is the rest of a reply.
            (None, _, _) if self.lost => return false,
            (None, _, _) => {
                PROTOCOL.emit_anomaly("ftp_reply_without_code", Direction::Reverse, line.text, time, out);
                if let Some(command) = self.waiting.front() {
                    begin_transaction(Direction::Reverse, command.number, out);
                }
                hand_on_reply(None, line.text, out);
                // A reply without a code still answers the command: later replies belong to later commands.
                if let Some(mut command) = self.waiting.pop_front() {
                    command.at.add(at);
                    command.lines.push(line.text.to_vec());
                    command.last = Some((0, line.text.to_vec()));
                    return self.answered(command, 0, line.text, time, out);
                }
                return false;
            }
        };
        let text = match text.first() {
            Some(b' ' | b'-') if text.len() < line.text.len() => text.get(1..).unwrap_or_default(),
            _ => text,
        };
        self.in_reply = (!is_last).then_some(code);
        let number = code.iter().fold(0, |number, digit| number * 10 + u16::from(digit - b'0'));
        let is_greeting = !self.greeted && matches!(number, 120 | 220 | 421);
        let is_of_lost =
            self.lost && self.waiting.front().is_some_and(|command| !may_answer(&code, &command.name));
        let answers = match self.waiting.front() {
            _ if is_greeting => Some(self.greeting(time).number),
            Some(command) if !is_of_lost => Some(command.number),
            _ => None,
        };
        if let Some(number) = answers {
            begin_transaction(Direction::Reverse, number, out);
        }
        hand_on_reply(digits.filter(|digits| *digits == code), text, out);
        if let (b"335" | b"235", Some(token), false) = (&code, text.strip_prefix(b"ADAT="), line.is_cut) {
            self.token(token, Direction::Reverse, time, out);
        }
        if is_of_lost {
            return false;
        }
        self.pipelines |= !is_greeting && self.waiting.len() > 1;
        let command = match (is_greeting, self.waiting.front_mut()) {
            // Its number was given above.
            (true, _) => self.greeting.get_or_insert_default(),
            (false, Some(command)) => command,
            (false, None) => {
                if is_last
                    && number == 226
                    && let Some(done) = &mut self.done
                {
                    // Some servers report the end of a transfer after they have already replied.
                    done.at.add(at);
                    done.last = Some((number, text.to_vec()));
                } else if !self.lost && is_last && number != 421 {
                    PROTOCOL.emit_anomaly("unmatched_response", Direction::Reverse, line.text, time, out);
                }
                self.greeted = true;
                return false;
            }
        };
        command.at.add(at);
        command.replied(code, number, text, line.is_cut);
        self.lost &= is_greeting;
        if !is_last || number < 200 && number != 120 {
            if is_last && number == 150 && command.name == b"RETR" {
                command.file_size = size(text);
            }
            return false;
        }
        if is_greeting {
            self.greeted = number != 120;
            if let Some(greeting) = self.greeting.take_if(|_| number != 120) {
                out.side_is_complete(Direction::Reverse);
                self.emit_command(&greeting, time, out);
            }
            return false;
        }
        self.greeted = true;
        match self.waiting.pop_front() {
            Some(command) => self.answered(command, number, text, time, out),
            None => false,
        }
    }

    /// Handles the last reply to a command.
    fn answered(
        &mut self,
        mut command: Command,
        code: u16,
        text: &[u8],
        time: Time,
        out: &mut dyn Out,
    ) -> bool {
        let is_good = (200..400).contains(&code);
        match command.name.as_slice() {
            b"PASV" | b"EPSV" if code == 227 || code == 229 => {
                let announced = match code {
                    227 => passive(text),
                    _ => extended_passive(text).map(|port| (self.setup.responder.0, port)),
                };
                match announced {
                    Some(responder) => {
                        let endpoint =
                            Endpoint { is_passive: true, initiator: self.setup.initiator.0, responder };
                        command.data = Some(endpoint);
                        out.emit_number(&DYNAMIC_PORT, Direction::Reverse, responder.1.into());
                        self.expect(endpoint, time, out);
                    }
                    None => PROTOCOL.emit_anomaly(
                        "ftp_invalid_passive_reply",
                        Direction::Reverse,
                        text,
                        time,
                        out,
                    ),
                }
            }
            b"SIZE" if code == 213 => {
                command.file_size =
                    std::str::from_utf8(text.trim_ascii()).ok().and_then(|text| text.parse().ok());
            }
            b"CWD" | b"XCWD" if is_good => self.enter(&command.argument),
            b"CDUP" | b"XCUP" if is_good => self.enter(b".."),
            b"PWD" | b"XPWD" if code == 257 => {
                if let Some(path) = quoted(text) {
                    self.enter(&path);
                }
            }
            _ => {}
        }
        hand_on_mode(&command.name, Direction::Reverse, out);
        out.emit_number(&REPLY_RECEIVED, Direction::Reverse, 1);
        out.side_is_complete(Direction::Reverse);
        self.emit_command(&command, time, out);
        // Servers of drafts before RFC 4217 answer AUTH SSL with 334.
        let is_ssl = [&b"SSL"[..], b"TLS"]
            .iter()
            .any(|word| command.argument.get(..3).is_some_and(|a| a.eq_ignore_ascii_case(word)));
        let is_tls = command.name == b"AUTH" && (code == 234 || code == 334 && is_ssl);
        if is_tls || !self.waiting.is_empty() {
            self.emit(&command, out);
        } else {
            self.done = Some(command);
        }
        is_tls
    }

    /// Another working directory: the path of one that is too long is not known, and the one before stays.
    fn enter(&mut self, path: &[u8]) {
        let directory = joined(&self.directory, path);
        if directory.len() <= MAX_PATH {
            self.directory = directory;
        }
    }

    /// Emits a command with its replies.
    fn emit_command(&self, command: &Command, time: Time, out: &mut dyn Out) {
        let is_hidden = command.name == b"PASS" && !self.is_guest();
        let argument = Some(&command.argument).filter(|argument| !is_hidden && !argument.is_empty());
        let is_replied = !command.lines.is_empty();
        let codes = command.codes.iter().map(|code| code.to_vec());
        let has_name = !command.name.is_empty();
        let record = record!(
            COMMANDS,
            command.time,
            command = Some(&command.name).filter(|_| has_name),
            argument = argument,
            command_truncated = if has_name { command.is_cut.into() } else { Value::None },
            codes = if is_replied { codes.collect() } else { Value::None },
            replies = if is_replied { command.lines.iter().collect() } else { Value::None },
            reply_truncated = command.replies_cut,
            mode = command.data.map(|data| if data.is_passive { "passive" } else { "active" }),
            dynamic_port = command.data.map(|data| data.responder.1),
            reply_received = if is_replied { "yes" } else { "no" },
            duration = if is_replied { Value::Duration(time.since(command.time)) } else { Value::None },
            transaction = command.number,
        );
        out.record(record.over(command.at));
    }

    /// Emits a command if it is about files.
    fn emit(&self, command: &Command, out: &mut dyn Out) {
        if !LOGGED.contains(&command.name.as_slice()) || command.last.is_none() && !command.is_lost {
            return;
        }
        let argument = if PATHS.contains(&command.name.as_slice()) {
            let path = joined(&self.directory, &command.argument);
            let slash: &[u8] = if path.starts_with(b"/") { b"" } else { b"/" };
            let host = match self.setup.responder.0 {
                IpAddr::V6(address) => format!("[{address}]"),
                IpAddr::V4(address) => address.to_string(),
            };
            Some([b"ftp://", host.as_bytes(), slash, &path].concat())
        } else {
            Some(command.argument.clone()).filter(|argument| !argument.is_empty())
        };
        let file = command.channel.as_ref().and_then(|channel| channel.with(|known| known.file.clone()));
        let record = record!(
            FTP,
            command.time,
            user = self.user.as_ref(),
            password = self.password.as_ref(),
            command = &command.name,
            argument = argument,
            mime_type = file.as_ref().and_then(|(_, kind)| *kind),
            file_size = command.file_size,
            reply_code = command.last.as_ref().map(|(code, _)| *code).filter(|code| *code > 0),
            reply = command.last.as_ref().map(|(_, text)| text),
            passive = command.data.map(|data| data.is_passive),
            data_initiator = command.data.map(|data| data.initiator),
            data_responder = command.data.map(|data| data.responder.0),
            data_port = command.data.map(|data| data.responder.1),
            file = file.as_ref().map(|(name, _)| name),
        );
        out.record(record.over(command.at));
    }
}

impl Command {
    /// Takes a line of a reply.
    fn replied(&mut self, code: [u8; 3], number: u16, text: &[u8], is_cut: bool) {
        if self.codes.last() != Some(&code) && self.codes.len() < MAX_LINES {
            self.codes.push(code);
        }
        self.replies_cut |= is_cut;
        if self.lines.len() < MAX_LINES && self.bytes + text.len() <= MAX_BYTES {
            self.bytes += text.len();
            self.lines.push(text.to_vec());
        } else {
            self.replies_cut = true;
        }
        self.last = Some((number, text.to_vec()));
    }
}

/// Hands on who opens the data connection that a command is about, if it is about one.
fn hand_on_mode(command: &[u8], side: Direction, out: &mut dyn Out) {
    match command {
        b"PORT" | b"EPRT" => out.emit_number(&MODE, side, 1),
        b"PASV" | b"EPSV" => out.emit_number(&MODE, side, 0),
        _ => {}
    }
}

/// Hands on a line of a reply: its code, where it begins with one, and its text.
fn hand_on_reply(code: Option<[u8; 3]>, text: &[u8], out: &mut dyn Out) {
    if let Some(code) = code {
        out.emit(&COMPLETION_CODE, Direction::Reverse, &code);
    }
    out.emit(&REPLY, Direction::Reverse, text);
}

/// Whether a reply of this code may be to a command: some codes are of few commands (RFC 959, section 5.4; RFC 2228; RFC 2428).
/// After a gap, another's reply is to a command that is lost too.
fn may_answer(code: &[u8; 3], command: &[u8]) -> bool {
    let commands: &[&[u8]] = match code {
        b"215" => &[b"SYST"],
        b"221" => &[b"QUIT"],
        b"227" => &[b"PASV"],
        b"229" => &[b"EPSV"],
        b"230" => &[b"USER", b"PASS", b"ACCT", b"REIN"],
        b"234" | b"334" => &[b"AUTH"],
        b"257" => &[b"PWD", b"XPWD", b"MKD", b"XMKD"],
        b"331" => &[b"USER"],
        _ => return true,
    };
    commands.contains(&command)
}

/// Whether an address is private.
fn is_hidden(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_private() || address.is_unspecified() || address.is_loopback(),
        IpAddr::V6(address) => address.is_unspecified() || address.is_loopback() || address.is_unique_local(),
    }
}

/// A path relative to a directory, without empty parts, `.` and `..`. The directory of a session that did not name it
/// is `.`, which stays in front; a `..` of which nothing is known stays too.
fn joined(directory: &[u8], path: &[u8]) -> Vec<u8> {
    let is_absolute = path.starts_with(b"/") || has_drive(path);
    let base = if is_absolute { &[][..] } else { directory };
    let mut parts: Vec<&[u8]> = Vec::new();
    let is_rooted = path.starts_with(b"/") || base.starts_with(b"/");
    for part in base.split(|byte| *byte == b'/').chain(path.split(|byte| *byte == b'/')) {
        match (part, parts.last()) {
            (b"", _) => {}
            (b".", None) if !is_rooted && !is_absolute => parts.push(part),
            (b".", _) => {}
            (b"..", None) if is_rooted => {}
            (b"..", Some(last)) if *last != b".." => {
                parts.pop();
            }
            _ => parts.push(part),
        }
    }
    let root: &[u8] = if is_rooted { b"/" } else { b"" };
    [root, &parts.join(&b'/')].concat()
}

/// Whether a path begins with the letter of a drive: `C:\\` or `C:/`.
fn has_drive(path: &[u8]) -> bool {
    matches!(path, [letter, b':', b'\\' | b'/', ..] if letter.is_ascii_alphabetic())
}

/// The path between quotation marks, of which those within it are doubled (RFC 959, appendix II); without such marks
/// the first word that is an absolute path.
fn quoted(text: &[u8]) -> Option<Vec<u8>> {
    let Some(begin) = text.iter().position(|byte| *byte == b'"') else {
        let mut words = text.split(|byte| *byte == b' ');
        return words.find(|word| word.starts_with(b"/") || has_drive(word)).map(<[u8]>::to_vec);
    };
    let mut path = Vec::new();
    let mut rest = text.get(begin + 1..)?.iter().peekable();
    while let Some(byte) = rest.next() {
        if *byte == b'"' && rest.next_if_eq(&&b'"').is_none() {
            return Some(path).filter(|path| !path.is_empty());
        }
        path.push(*byte);
    }
    None
}

/// Six numbers separated by commas.
fn port(text: &[u8]) -> Option<(IpAddr, u16)> {
    let mut numbers = text.split(|byte| *byte == b',').map(|number| {
        let number = std::str::from_utf8(number.trim_ascii()).ok()?;
        number.parse::<u8>().ok()
    });
    let mut next = || numbers.next().flatten();
    let address = Ipv4Addr::new(next()?, next()?, next()?, next()?);
    let port = u16::from_be_bytes([next()?, next()?]);
    numbers.next().is_none().then_some((address.into(), port))
}

/// RFC 2428: `|1|192.0.2.1|6275|`.
fn extended_port(text: &[u8]) -> Option<(IpAddr, u16)> {
    let mark = *text.first()?;
    let mut parts = text.get(1..)?.split(|byte| *byte == mark);
    let _family = parts.next()?;
    let address = std::str::from_utf8(parts.next()?).ok()?.parse().ok()?;
    Some((address, std::str::from_utf8(parts.next()?).ok()?.parse().ok()?))
}

/// The six numbers in a reply's text. RFC 1123: search for the first digit.
fn passive(text: &[u8]) -> Option<(IpAddr, u16)> {
    let begin = match text.iter().position(|byte| *byte == b'(') {
        Some(at) => at + 1,
        None => text.iter().position(u8::is_ascii_digit)?,
    };
    let rest = text.get(begin..)?;
    let end = rest.iter().position(|byte| !byte.is_ascii_digit() && !b", ".contains(byte));
    port(rest.get(..end.unwrap_or(rest.len()))?)
}

/// RFC 2428: `(|||6446|)`.
fn extended_passive(text: &[u8]) -> Option<u16> {
    let begin = text.iter().position(|byte| *byte == b'(')? + 1;
    let mark = *text.get(begin)?;
    let number = text.get(begin + 1..)?.split(|byte| *byte == mark).nth(2)?;
    std::str::from_utf8(number).ok()?.parse().ok()
}

/// The size of a file in the text of a reply, such as `(1164 bytes)`.
fn size(text: &[u8]) -> Option<u64> {
    let words = text.split(|byte| b" ()".contains(byte)).filter(|word| !word.is_empty());
    let mut before = None;
    for word in words {
        if word.to_ascii_lowercase().starts_with(b"byte") {
            return before;
        }
        before = std::str::from_utf8(word).ok().and_then(|word| word.parse().ok());
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::laws::{Collected, talks};
    use crate::talk::Turn;
    use crate::{FILES, Table};

    fn emitted(case: &str) -> Collected {
        let talks = talks("ftp", 21);
        let (_, talk) =
            talks.iter().find(|(path, _)| path.file_stem().is_some_and(|stem| stem == case)).unwrap();
        talk.emitted(|data| vec![data.to_vec()])
    }

    fn column(emitted: &Collected, table: &'static Table, name: &str) -> Vec<Value<'static>> {
        let rows = emitted.records.iter().filter(|record| *record.table == *table);
        rows.map(|record| record.get(name).clone().into_owned()).collect()
    }

    #[test]
    fn a_command_without_its_last_reply_got_none() {
        let (_, mut talk) = talks("ftp", 21).pop().unwrap();
        let turns = [
            (Direction::Reverse, "220 ready\r\n"),
            (Direction::Forward, "USER a\r\n"),
            (Direction::Reverse, "331 password\r\n"),
            (Direction::Forward, "PASS b\r\n"),
        ];
        talk.turns = turns.map(|(side, line)| Turn::Data(side, line.into())).into();
        let found = talk.asked(|data| vec![data.to_vec()]).numbered("ftp.reply_received", Direction::Reverse);
        assert_eq!(found, [(1, "1".to_owned()), (2, "0".to_owned())]);
    }

    #[test]
    fn commands_are_emitted_with_replies_and_files() {
        let emitted = emitted("session");
        let expected = ["PASV", "RETR", "EPSV", "PORT", "STOR", "EPRT", "DELE"].map(Value::from);
        assert_eq!(column(&emitted, &FTP, "command"), expected);
        let arguments = column(&emitted, &FTP, "argument");
        assert_eq!(arguments[1], "ftp://198.51.100.2/pub/files/a.bin".into());
        assert_eq!(arguments[4], "ftp://198.51.100.2/pub/b.bin".into());
        assert_eq!(column(&emitted, &FTP, "file_size")[1], 2000u64.into());
        let codes = column(&emitted, &COMMANDS, "codes");
        assert_eq!(codes[7], [b"150".to_vec(), b"226".to_vec()].into_iter().collect());
        let ports: Vec<_> = emitted.expected.iter().map(|expected| expected.responder.1).collect();
        assert_eq!(ports, [51210, 51313, 1029, 5282]);
    }

    /// A transfer has its row, and the working directory is kept, whichever replies are lost.
    #[test]
    fn arguments_and_lines_of_replies_are_buffers() {
        let text = "< 220-Welcome\\r\\n 226 days\\r\\n220 ready\\r\\n\n> USER  ann \\r\\nSYST\\r\\n\n\
                    < 331 password?\\r\\n215\\r\\n\n";
        let talk = crate::talk::Talk::parse(text, [40_000, 21]).unwrap();
        let emitted = talk.asked(|data| data.chunks(5).map(<[u8]>::to_vec).collect());
        let of = |name: &str| -> Vec<&str> {
            let found = emitted.buffers.iter().filter(|(buffer, ..)| buffer.name == name);
            found.map(|(_, _, bytes)| std::str::from_utf8(bytes).unwrap()).collect()
        };
        assert_eq!(of("ftp.command"), ["USER", "SYST"]);
        assert_eq!(of("ftp.command_data"), ["ann"]);
        assert_eq!(of("ftp.reply"), ["Welcome", " 226 days", "ready", "password?", ""]);
        assert_eq!(of("ftp.completion_code"), ["220", "220", "331", "215"]);
    }

    #[test]
    fn lost_replies_cost_no_row_and_no_directory() {
        let (_, talk) = talks("ftp", 21).into_iter().find(|(path, _)| path.ends_with("paths.talk")).unwrap();
        let whole = talk.emitted(|data| vec![data.to_vec()]);
        let of = |emitted: &Collected| {
            let arguments = column(emitted, &FTP, "argument");
            column(emitted, &FTP, "command").into_iter().zip(arguments).collect::<Vec<_>>()
        };
        let mut lost = 0;
        // The greeting identifies the protocol.
        for (at, turn) in talk.turns.iter().enumerate().skip(1) {
            let Turn::Data(Direction::Reverse, data) = turn else { continue };
            // A directory that the server names, and one that it refuses, is known by the reply alone.
            if data.starts_with(b"257") || data.starts_with(b"550") {
                continue;
            }
            let line = data.iter().position(|byte| *byte == b'\n').unwrap() + 1;
            for end in [1, line, data.len()] {
                let mut talk = talk.clone();
                let rest = Turn::Data(Direction::Reverse, data[end..].to_vec());
                talk.turns.splice(at..=at, [Turn::Gap(Direction::Reverse, end as u64), rest]);
                for size in [1, 9999] {
                    let emitted = talk.emitted(|data| data.chunks(size).map(<[u8]>::to_vec).collect());
                    assert_eq!(of(&emitted), of(&whole), "without {end} bytes of turn {at}");
                    lost += 1;
                }
            }
        }
        assert!(lost >= 50, "{lost}");
    }

    /// A data channel emits its content under the command that opened it.
    #[test]
    fn data_channels_carry_files() {
        let mut session = emitted("session");
        let mut data = session.expected.remove(0);
        let mut out = Collected::asking_all();
        let time = Time(1_700_000_000_500_000_000);
        for bytes in [&b"%PDF-1.4"[..], b" and more"] {
            let chunk = Chunk { time, direction: Direction::Reverse, gap: 0, data: bytes };
            data.parser.chunk(&chunk, &mut out);
        }
        // Both sides have the number of RETR, once.
        let numbers = out.buffers.iter().filter(|(buffer, ..)| buffer.name == "ftp_data.command");
        let numbers: Vec<_> = numbers.map(|(_, side, number)| (*side, number.as_slice())).collect();
        let retr = &0_u64.to_be_bytes()[..];
        assert_eq!(numbers, [(Direction::Forward, retr), (Direction::Reverse, retr)]);
        data.parser.end(time, &mut out);
        assert_eq!(column(&out, &tables::DATA, "command"), ["RETR".into()]);
        assert_eq!(column(&out, &tables::DATA, "filename"), ["a.bin".into()]);
        assert_eq!(column(&out, &FILES, "mime_type"), ["application/pdf".into()]);
        assert_eq!(column(&out, &FILES, "name_or_path"), ["a.bin".into()]);
    }

    #[test]
    fn only_passwords_of_guests_are_emitted() {
        assert!(!format!("{:?}", emitted("errors").records).contains("secret"));
        assert_eq!(column(&emitted("session"), &FTP, "password")[0], "me@example.org".into());
    }

    #[test]
    fn the_working_directory_is_followed() {
        let arguments = column(&emitted("paths"), &FTP, "argument");
        let urls = ["/./first", "/./pub/second", "/srv/\"pub\"/third", "/fourth", "/fifth"];
        assert_eq!(arguments, urls.map(|path| Value::from(format!("ftp://198.51.100.2{path}"))));
    }

    #[test]
    fn paths_are_normalised_and_never_cut() {
        for (directory, path, expected) in [
            ("/a/b", "..", "/a"),
            ("/a", "..", "/"),
            ("/", "..", "/"),
            ("/a/b", "../../../c", "/c"),
            ("/a", "b/../c/./d/", "/a/c/d"),
            ("/a", "/x//y", "/x/y"),
            ("/a", "...", "/a/..."),
            (".", "x", "./x"),
            (".", "x/../y", "./y"),
            (".", "..", ""),
            ("", "..", ".."),
            ("..", "..", "../.."),
            (".", "/x", "/x"),
            ("", "x", "x"),
            ("/a", "C:/b", "C:/b"),
        ] {
            let found = joined(directory.as_bytes(), path.as_bytes());
            assert_eq!(String::from_utf8_lossy(&found), expected, "{directory} {path}");
        }
        let long = vec![b'x'; MAX_PATH];
        assert_eq!(joined(b"/home", &long).len(), MAX_PATH + 6);
        assert_eq!(quoted(b" \"/a \"\"b\"\"\" is current").as_deref(), Some(&b"/a \"b\""[..]));
        assert_eq!(quoted(b" /a/b is current").as_deref(), Some(&b"/a/b"[..]));
        assert_eq!(quoted(b" \"/a"), None);
    }

    #[test]
    fn port_arguments_are_parsed() {
        let address = |text: &str| text.parse::<IpAddr>().unwrap();
        assert_eq!(port(b"192,0,2,1,4,5"), Some((address("192.0.2.1"), 1029)));
        assert_eq!(port(b"192,0,2,1,4"), None);
        assert_eq!(passive(b"=192,0,2,1,0,21"), Some((address("192.0.2.1"), 21)));
        assert_eq!(extended_port(b"|2|::1|21|"), Some((address("::1"), 21)));
        assert_eq!(extended_passive(b"ok (|||6446|)"), Some(6446));
        assert_eq!(size(b"Opening x (77 bytes)."), Some(77));
    }
}
