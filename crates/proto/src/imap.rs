//! Internet Message Access Protocol (RFC 3501, 9051): each command with its response, and the messages that are
//! fetched and stored.

use crate::file::Files;
use crate::line::{Line, Lines};
use crate::mime::{Carrier, Message};
use crate::waiting::take_last;
use crate::work::looked_at;
use crate::{
    Heads, Kind, Out, Parser, Privacy, Probe, Protocol, Setup, Span, Step, Table, Transport, Value, field,
    record,
};
use std::collections::VecDeque;
use weir_wire::stream::Chunk;
use weir_wire::{Direction, Time};

pub(crate) static PROTOCOL: Protocol = Protocol {
    name: "imap",
    help: "Internet Message Access Protocol (RFC 9051).",
    transport: Transport::Tcp,
    ports: &[143],
    probe,
    parser: |setup| Box::new(Imap::new(setup)),
    tables: &[&IMAP],
    buffers: &[],
};

static IMAP: Table = Table {
    name: "imap",
    help: "A command with its response.",
    zeek: "",
    eve: "",
    fields: &[
        field("tag", Kind::Text, "Tag of the command."),
        field("command", Kind::Text, "Command of the client, in capitals."),
        field(
            "argument",
            Kind::Text,
            "Argument of the command; for LOGIN and AUTHENTICATE only the user and the mechanism.",
        )
        .privacy(Privacy::Content),
        field("user", Kind::Text, "User name that the client logged in with.").privacy(Privacy::User),
        field("folder", Kind::Text, "Mailbox that is selected.").privacy(Privacy::Content),
        field("status", Kind::Word, "Status of the response: OK, NO or BAD."),
        field("answer", Kind::Text, "Text of the response after its status.").privacy(Privacy::Content),
        field("lines", Kind::List(&Kind::Text), "Untagged responses before the status, without messages.")
            .privacy(Privacy::Content),
        field("messages", Kind::Uint, "Number of messages or headers that were transferred."),
        field("bytes", Kind::Uint, "Bytes of literals in both directions."),
        field("duration", Kind::Duration, "Time from the command to its response, in seconds."),
    ],
};

/// Longest line kept; RFC 7162 recommends that servers take 8,192 bytes.
const MAX_LINE: usize = 8192;
/// Maximum length of a literal that is kept as text, in bytes: names and flags, no messages.
const MAX_TEXT: u64 = 1024;
/// Maximum number of commands without an answer.
const MAX_WAITING: usize = 64;
/// Maximum number of lines before an answer, and of bytes of each.
const MAX_LINES: usize = 64;
const MAX_SHOWN: usize = 512;

const COMMANDS: [&[u8]; 33] = [
    b"CAPABILITY",
    b"LOGIN",
    b"AUTHENTICATE",
    b"STARTTLS",
    b"SELECT",
    b"EXAMINE",
    b"LIST",
    b"LSUB",
    b"STATUS",
    b"APPEND",
    b"FETCH",
    b"UID",
    b"NOOP",
    b"LOGOUT",
    b"CREATE",
    b"DELETE",
    b"RENAME",
    b"SUBSCRIBE",
    b"UNSUBSCRIBE",
    b"CHECK",
    b"CLOSE",
    b"EXPUNGE",
    b"SEARCH",
    b"STORE",
    b"COPY",
    b"MOVE",
    b"IDLE",
    b"NAMESPACE",
    b"ID",
    b"ENABLE",
    b"COMPRESS",
    b"UNSELECT",
    b"GETQUOTAROOT",
];

fn probe(heads: &Heads<'_>) -> Probe {
    let server = match heads.reverse {
        [] => None,
        head => {
            let greetings: [&[u8]; 3] = [b"* OK", b"* PREAUTH", b"* BYE"];
            let fits = |word: &&[u8]| head.iter().zip(word.iter()).all(|(a, b)| a.to_ascii_uppercase() == *b);
            Some(match greetings.iter().find(|word| fits(word)) {
                Some(word) if head.get(word.len()).is_some_and(|next| b" \r".contains(next)) => Probe::Match,
                Some(word) if head.len() <= word.len() => Probe::Maybe,
                // Within a session.
                _ if head.starts_with(b"* ") => Probe::Maybe,
                _ => Probe::Reject,
            })
        }
    };
    let client = match heads.forward {
        [] => None,
        head => Some(of_client(head)),
    };
    // Clients of other protocols say a word and a command as well: the port or the server must agree.
    let is_home = heads.is_home(PROTOCOL.ports);
    match (client, server) {
        (Some(Probe::Reject), _) | (_, Some(Probe::Reject)) => Probe::Reject,
        (Some(Probe::Match), None) if !is_home => Probe::Maybe,
        (Some(Probe::Match), _) | (None, Some(Probe::Match)) => Probe::Match,
        _ => Probe::Maybe,
    }
}

/// A tag and a command.
fn of_client(head: &[u8]) -> Probe {
    let is_tag = |byte: &u8| byte.is_ascii_alphanumeric() || b".-_*".contains(byte);
    let at = head.iter().position(|byte| !is_tag(byte)).unwrap_or(head.len());
    match head.get(at) {
        _ if at == 0 || at > 32 => Probe::Reject,
        None => Probe::Maybe,
        Some(b' ') => {
            let rest = head.get(at + 1..).unwrap_or_default();
            let end = rest.iter().position(|byte| b" \r\n".contains(byte));
            let word = rest.get(..end.unwrap_or(rest.len())).unwrap_or_default().to_ascii_uppercase();
            match end {
                Some(_) if COMMANDS.contains(&word.as_slice()) => Probe::Match,
                None if COMMANDS.iter().any(|command| command.starts_with(&word)) => Probe::Maybe,
                _ => Probe::Reject,
            }
        }
        Some(_) => Probe::Reject,
    }
}

/// A command without a response so far.
#[derive(Debug, Default)]
struct Command {
    time: Time,
    /// Its bytes, and those of the responses.
    at: Span,
    tag: Vec<u8>,
    name: Vec<u8>,
    argument: Vec<u8>,
    folder: Option<Vec<u8>>,
    lines: Vec<Vec<u8>>,
    messages: u64,
    bytes: u64,
}

/// State of one direction: a line continues after each literal in it.
struct Side {
    lines: Lines,
    text: Vec<u8>,
    literal: Option<Literal>,
    bytes: u64,
    messages: u64,
}

struct Literal {
    all: u64,
    left: u64,
    kept: Vec<u8>,
    message: Option<Box<Message>>,
}

impl Default for Side {
    fn default() -> Self {
        Self { lines: Lines::new(MAX_LINE), text: Vec::new(), literal: None, bytes: 0, messages: 0 }
    }
}

struct Imap {
    files: Files,
    client: Side,
    server: Side,
    waiting: VecDeque<Command>,
    user: Option<Vec<u8>>,
    folder: Option<Vec<u8>>,
    /// Whether the client answers challenges (SASL).
    sasl: bool,
    moved: u64,
    has_ended: bool,
    /// Whether the client sent commands before the responses to those that wait.
    pipelines: bool,
    /// Whether the client's next line may be the rest of one that is lost: only a known command is one.
    doubtful: bool,
}

impl Imap {
    fn new(setup: &Setup) -> Self {
        Self {
            files: Files::new(setup),
            client: Side::default(),
            server: Side::default(),
            waiting: VecDeque::new(),
            user: None,
            folder: None,
            sasl: false,
            moved: 0,
            has_ended: false,
            pipelines: false,
            doubtful: false,
        }
    }
}

impl Parser for Imap {
    fn chunk(&mut self, chunk: &Chunk<'_>, out: &mut dyn Out) -> Step {
        let (direction, time) = (chunk.direction, chunk.time);
        // The side is taken out while its lines are parsed, since they concern both sides.
        let mut side = std::mem::take(self.side(direction));
        if chunk.gap > 0 {
            self.miss(&mut side, chunk.gap, direction, time, out);
        }
        let (mut data, mut step) = (chunk.data, Step::Next);
        while !data.is_empty() {
            if let Some(mut literal) = side.literal.take() {
                let length = usize::try_from(literal.left).unwrap_or(usize::MAX).min(data.len());
                let (piece, rest) = data.split_at(length);
                data = rest;
                literal.left -= length as u64;
                looked_at(length);
                side.bytes += length as u64;
                match &mut literal.message {
                    Some(message) => message.bytes(piece, &mut self.files, time, out),
                    None if literal.all <= MAX_TEXT => literal.kept.extend_from_slice(piece),
                    None => {}
                }
                if literal.left > 0 {
                    side.literal = Some(literal);
                } else {
                    out.more(data.len());
                    self.end_literal(&mut side, literal, true, direction, time, out);
                }
                continue;
            }
            let mut lines = std::mem::replace(&mut side.lines, Lines::new(0));
            let found = lines.next(&mut data, |line| self.line(line, &mut side, direction, time, out));
            side.lines = lines;
            match found {
                Some(Step::Next) | None => {}
                Some(Step::SwitchTo { protocol, .. }) => {
                    step = Step::SwitchTo { protocol, unread: data.len() }
                }
                Some(Step::GiveUp) => step = Step::GiveUp,
            }
            if !matches!(step, Step::Next) {
                break;
            }
        }
        *self.side(direction) = side;
        step
    }

    fn end(&mut self, time: Time, out: &mut dyn Out) {
        if std::mem::replace(&mut self.has_ended, true) {
            return;
        }
        for direction in [Direction::Forward, Direction::Reverse] {
            let mut side = std::mem::take(self.side(direction));
            if let Some(literal) = side.literal.take() {
                self.end_literal(&mut side, literal, false, direction, time, out);
            }
        }
        self.flush(time, out);
    }

    fn memory(&self) -> usize {
        let of = |side: &Side| {
            let literal = side.literal.as_ref();
            let message =
                literal.and_then(|literal| literal.message.as_ref()).map_or(0, |message| message.memory());
            side.lines.memory()
                + side.text.capacity()
                + message
                + literal.map_or(0, |literal| literal.kept.capacity())
        };
        let waiting = self.waiting.iter().map(|command| {
            let lines = command.lines.iter().map(|line| line.capacity() + 24);
            size_of::<Command>() + command.argument.capacity() + lines.sum::<usize>()
        });
        of(&self.client) + of(&self.server) + waiting.sum::<usize>()
    }
}

impl Imap {
    fn side(&mut self, direction: Direction) -> &mut Side {
        match direction {
            Direction::Forward => &mut self.client,
            Direction::Reverse => &mut self.server,
        }
    }

    /// Takes a gap: a literal continues after it if it is long enough.
    fn miss(&mut self, side: &mut Side, mut gap: u64, direction: Direction, time: Time, out: &mut dyn Out) {
        side.lines.forget();
        if let Some(mut literal) = side.literal.take() {
            let within = literal.left.min(gap);
            literal.left -= within;
            gap -= within;
            if let Some(message) = &mut literal.message {
                message.gap(within, &mut self.files, time, out);
            }
            if literal.left > 0 {
                side.literal = Some(literal);
                return;
            }
            self.end_literal(side, literal, false, direction, time, out);
        }
        if gap > 0 {
            // Responses name their commands by tag: only the current line is lost.
            side.text.clear();
            (side.bytes, side.messages, self.sasl) = (0, 0, false);
            match direction {
                Direction::Forward => self.doubtful = true,
                Direction::Reverse => self.forget_answered(time, out),
            }
        }
    }

    /// Emits all waiting commands but the last, if the client waits for each response: it has got theirs, which are lost. What
    /// follows without a tag belongs to the last.
    fn forget_answered(&mut self, time: Time, out: &mut dyn Out) {
        let Some(last) = take_last(&mut self.waiting, self.pipelines, |command| command.time) else { return };
        self.flush(time, out);
        self.waiting.push_back(last);
    }

    fn end_literal(
        &mut self,
        side: &mut Side,
        literal: Literal,
        is_whole: bool,
        direction: Direction,
        time: Time,
        out: &mut dyn Out,
    ) {
        match literal.message {
            Some(mut message) => {
                let is_client = direction == Direction::Forward;
                message.end(is_whole, &mut self.files, time, out, |_| {});
                let command: &[u8] = if is_client { b"APPEND" } else { b"FETCH" };
                let target = if is_client { argument(&side.text, 2) } else { self.folder.clone() };
                message.emit(command, self.user.as_deref(), target.as_deref(), is_whole, time, out);
                side.messages += 1;
            }
            // A short literal is equivalent to a quoted string.
            None if literal.all <= MAX_TEXT && side.text.len() < MAX_LINE => {
                side.text.push(b'"');
                side.text.extend(literal.kept.iter().filter(|byte| **byte != b'"'));
                side.text.push(b'"');
            }
            None => {}
        }
    }

    /// Takes a line, or the part of a line up to a literal.
    fn line(
        &mut self,
        line: Line<'_>,
        side: &mut Side,
        direction: Direction,
        time: Time,
        out: &mut dyn Out,
    ) -> Step {
        match side.text.is_empty() {
            true => out.message(line.unread),
            false => out.more(line.unread),
        };
        if line.is_cut {
            PROTOCOL.emit_anomaly("line_too_long", direction, line.text, time, out);
        }
        let (text, literal) = match literal(line.text) {
            Some((text, length)) if !line.is_cut && !self.sasl => (text, Some(length)),
            _ => (line.text, None),
        };
        looked_at(text.len() + side.text.len());
        let room = MAX_LINE.saturating_sub(side.text.len());
        side.text.extend_from_slice(text.get(..room).unwrap_or(text));
        if let Some(all) = literal {
            let is_message = match direction {
                Direction::Forward => word(&side.text, 1).eq_ignore_ascii_case(b"APPEND"),
                Direction::Reverse => is_message(&side.text),
            };
            let carrier = Carrier { source: "IMAP", protocol: &PROTOCOL, direction, transaction: self.moved };
            self.moved += u64::from(is_message);
            let message = is_message.then(|| Box::new(Message::new(carrier)));
            let literal = Literal { all, left: all, kept: Vec::new(), message };
            match all {
                0 => self.end_literal(side, literal, true, direction, time, out),
                _ => side.literal = Some(literal),
            }
            return Step::Next;
        }
        let text = std::mem::take(&mut side.text);
        let (bytes, messages) = (std::mem::take(&mut side.bytes), std::mem::take(&mut side.messages));
        match direction {
            Direction::Forward => {
                self.command(&text, bytes, messages, time, out);
                Step::Next
            }
            Direction::Reverse => self.answer(&text, bytes, messages, time, out),
        }
    }

    fn command(&mut self, text: &[u8], bytes: u64, messages: u64, time: Time, out: &mut dyn Out) {
        // A response to a challenge is one word, and no command is: whichever lines of the server are lost.
        let is_word = !text.contains(&b' ');
        let is_asked = self.waiting.back().is_some_and(|command| command.name == b"AUTHENTICATE");
        self.sasl &= is_word;
        if self.sasl || is_word && is_asked {
            self.response(text);
            return;
        }
        let tag = word(text, 0);
        if tag.eq_ignore_ascii_case(b"DONE") || tag.is_empty() {
            return;
        }
        let name = word(text, 1).to_ascii_uppercase();
        if self.doubtful && !COMMANDS.contains(&name.as_slice()) {
            return;
        }
        self.doubtful = false;
        let rest = text.get(tag.len() + 1 + name.len()..).unwrap_or_default().trim_ascii();
        let first = || argument(text, 2);
        let (mut shown, mut folder) = (rest.get(..MAX_SHOWN).unwrap_or(rest).to_vec(), None);
        match name.as_slice() {
            b"LOGIN" => {
                self.user = first();
                shown = self.user.clone().unwrap_or_default();
            }
            b"AUTHENTICATE" => {
                shown = first().unwrap_or_default();
                self.user = argument(text, 3).and_then(|initial| user(&shown, &initial));
            }
            b"SELECT" | b"EXAMINE" | b"APPEND" => folder = first(),
            _ => {}
        }
        self.pipelines &= !self.waiting.is_empty();
        if self.waiting.len() == MAX_WAITING {
            PROTOCOL.emit_anomaly("too_many_commands", Direction::Forward, tag, time, out);
            self.flush(time, out);
        }
        let tag = tag.to_vec();
        self.waiting.push_back(Command {
            time,
            at: out.both().only(Direction::Forward),
            tag,
            name,
            argument: shown,
            folder,
            lines: Vec::new(),
            messages,
            bytes,
        });
    }

    /// Takes the client's response to a challenge. The first one names the user.
    fn response(&mut self, text: &[u8]) {
        if self.user.is_none()
            && let Some(command) = self.waiting.front()
        {
            self.user = user(&command.argument, text);
        }
    }

    fn answer(&mut self, text: &[u8], bytes: u64, messages: u64, time: Time, out: &mut dyn Out) -> Step {
        let tag = word(text, 0);
        let rest = text.get(tag.len()..).unwrap_or_default().trim_ascii();
        if tag == b"*" || tag == b"+" {
            self.sasl =
                tag == b"+" && self.waiting.front().is_some_and(|command| command.name == b"AUTHENTICATE");
            if let Some(command) = self.waiting.front_mut().filter(|_| tag == b"*") {
                command.at.add(out.here());
                command.bytes += bytes;
                command.messages += messages;
                if command.lines.len() < MAX_LINES {
                    command.lines.push(rest.get(..MAX_SHOWN).unwrap_or(rest).to_vec());
                }
            }
            return Step::Next;
        }
        let status = word(text, 1).to_ascii_uppercase();
        let status = match status.as_slice() {
            b"OK" => "OK",
            b"NO" => "NO",
            b"BAD" => "BAD",
            _ => {
                PROTOCOL.emit_anomaly("no_status", Direction::Reverse, text, time, out);
                return Step::Next;
            }
        };
        // The client does not send a refused literal.
        if status != "OK" && word(&self.client.text, 0) == tag {
            self.client.literal = self.client.literal.take().filter(|literal| literal.left < literal.all);
            if self.client.literal.is_none() {
                let text = std::mem::take(&mut self.client.text);
                self.command(&text, 0, 0, time, out);
            }
        }
        self.sasl = false;
        looked_at(self.waiting.len());
        let Some(at) = self.waiting.iter().position(|command| command.tag == tag) else { return Step::Next };
        let Some(mut command) = self.waiting.remove(at) else { return Step::Next };
        self.pipelines |= !self.waiting.is_empty();
        command.at.add(out.here());
        if status == "OK" {
            match command.name.as_slice() {
                b"SELECT" | b"EXAMINE" => self.folder = command.folder.clone(),
                b"CLOSE" | b"UNSELECT" => self.folder = None,
                _ => {}
            }
        }
        let answer = rest.get(status.len()..).unwrap_or_default().trim_ascii();
        self.emit(&command, Some((status, answer)), time, out);
        match command.name.as_slice() {
            b"STARTTLS" if status == "OK" => Step::SwitchTo { protocol: None, unread: 0 },
            // The rest is compressed (RFC 4978).
            b"COMPRESS" if status == "OK" => Step::GiveUp,
            _ => Step::Next,
        }
    }

    fn flush(&mut self, time: Time, out: &mut dyn Out) {
        for command in std::mem::take(&mut self.waiting) {
            self.emit(&command, None, time, out);
        }
    }

    fn emit(&self, command: &Command, answer: Option<(&'static str, &[u8])>, time: Time, out: &mut dyn Out) {
        let record = record!(
            IMAP,
            command.time,
            tag = &command.tag,
            command = &command.name,
            argument = Some(&command.argument).filter(|argument| !argument.is_empty()),
            user = self.user.as_ref(),
            folder = command.folder.as_ref().or(self.folder.as_ref()),
            status = answer.map(|(status, _)| status),
            answer = answer.map(|(_, text)| text),
            lines = Value::list(&command.lines),
            messages = command.messages,
            bytes = command.bytes,
            duration = answer.map_or(Value::None, |_| Value::Duration(time.since(command.time))),
        );
        out.record(record.over(command.at));
    }
}

/// The user in the first response of a mechanism that does not hide it: PLAIN (RFC 4616), LOGIN.
fn user(mechanism: &[u8], response: &[u8]) -> Option<Vec<u8>> {
    let bytes = crate::mime::base64(response);
    let user = match mechanism.to_ascii_uppercase().as_slice() {
        b"PLAIN" => bytes.split(|byte| *byte == 0).nth(1)?.to_vec(),
        b"LOGIN" => bytes,
        _ => return None,
    };
    Some(user).filter(|user| !user.is_empty())
}

/// The literal at the end of a line, and the text before it: `{123}`, `{123+}`.
fn literal(line: &[u8]) -> Option<(&[u8], u64)> {
    let inner = line.strip_suffix(b"}")?;
    let at = inner.iter().rposition(|byte| *byte == b'{')?;
    let digits = inner.get(at + 1..)?;
    let digits = digits.strip_suffix(b"+").unwrap_or(digits);
    let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    let length = std::str::from_utf8(digits).ok().filter(|_| is_number)?.parse().ok()?;
    Some((line.get(..at)?, length))
}

/// Whether the literal after a text is a message or the header of a message.
fn is_message(text: &[u8]) -> bool {
    let text = text.trim_ascii_end().to_ascii_uppercase();
    if text.ends_with(b"RFC822") || text.ends_with(b"RFC822.HEADER") {
        return true;
    }
    let Some(at) = text.windows(5).rposition(|window| window == b"BODY[") else { return false };
    let section = text.get(at + 5..).unwrap_or_default();
    let Some(end) = section.iter().position(|byte| *byte == b']') else { return false };
    let (section, rest) = section.split_at(end);
    // A part that does not begin at offset 0 cannot be parsed.
    let is_begin = matches!(rest, b"]" | b"]<0>");
    is_begin && (section.is_empty() || section.starts_with(b"HEADER"))
}

/// A word of a line, by number.
fn word(text: &[u8], number: usize) -> &[u8] {
    text.split(|byte| *byte == b' ').nth(number).unwrap_or_default()
}

/// A word of a line, or the content of its quotes.
fn argument(text: &[u8], number: usize) -> Option<Vec<u8>> {
    let mut rest = text;
    for _ in 0..number {
        rest = behind(rest)?;
    }
    let rest = rest.trim_ascii_start();
    let argument = match rest {
        [b'"', quoted @ ..] => quoted.split(|byte| *byte == b'"').next(),
        _ => rest.split(|byte| *byte == b' ').next(),
    };
    argument
        .filter(|argument| !argument.is_empty())
        .map(|argument| argument.get(..MAX_SHOWN).unwrap_or(argument).to_vec())
}

/// The rest after the first argument.
fn behind(text: &[u8]) -> Option<&[u8]> {
    let text = text.trim_ascii_start();
    match text {
        [b'"', quoted @ ..] => {
            let at = quoted.iter().position(|byte| *byte == b'"')?;
            quoted.get(at + 1..)
        }
        _ => {
            let at = text.iter().position(|byte| *byte == b' ')?;
            text.get(at..)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MAIL;
    use crate::laws::{Collected, talks};

    fn column(emitted: &Collected, table: &'static Table, name: &str) -> Vec<Value<'static>> {
        let rows = emitted.records.iter().filter(|record| *record.table == *table);
        rows.map(|record| record.get(name).clone().into_owned()).collect()
    }

    fn emitted(case: &str) -> Collected {
        let talks = talks("imap", 143);
        let (_, talk) =
            talks.iter().find(|(path, _)| path.file_stem().is_some_and(|stem| stem == case)).unwrap();
        talk.emitted(|data| vec![data.to_vec()])
    }

    #[test]
    fn users_follow_a_challenge() {
        let emitted = emitted("authentication");
        assert_eq!(column(&emitted, &IMAP, "user"), ["alice".into(), "bob".into()]);
    }

    #[test]
    fn commands_get_their_responses_and_messages_are_parsed() {
        let emitted = emitted("session");
        let commands = ["LOGIN", "SELECT", "FETCH", "FETCH", "APPEND", "IDLE", "LOGOUT"].map(Value::from);
        assert_eq!(column(&emitted, &IMAP, "command"), commands);
        assert!(column(&emitted, &IMAP, "status").iter().all(|status| *status == "OK".into()));
        assert_eq!(column(&emitted, &MAIL, "subject"), ["one", "two", "three"].map(Value::from));
        assert_eq!(column(&emitted, &MAIL, "folder"), ["INBOX", "INBOX", "Sent"].map(Value::from));
        assert!(!format!("{:?}", emitted.records).contains("secret"));
    }

    #[test]
    fn refused_literals_and_gaps_end_no_session() {
        assert_eq!(column(&emitted("errors"), &IMAP, "status").len(), 4);
        assert_eq!(column(&emitted("gaps"), &MAIL, "whole"), [false.into(), false.into()]);
        assert_eq!(column(&emitted("gaps"), &IMAP, "status"), ["OK".into()]);
    }
}
