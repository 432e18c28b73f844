//! Post Office Protocol version 3 (RFC 1939, RFC 2449, RFC 2595, RFC 5034): each command with its response.

use crate::file::Files;
use crate::line::{Dotted, Line, Lines};
use crate::mime::{Carrier, Message};
use crate::waiting::take_last;
use crate::{
    Heads, Kind, Out, Parser, Privacy, Probe, Protocol, Setup, Span, Step, Table, Transport, Value, field,
    record,
};
use std::collections::VecDeque;
use weir_wire::stream::Chunk;
use weir_wire::{Direction, Time};

pub(crate) static PROTOCOL: Protocol = Protocol {
    name: "pop3",
    help: "Post Office Protocol version 3 (RFC 1939).",
    transport: Transport::Tcp,
    ports: &[110],
    probe,
    parser: |setup| Box::new(Pop3::new(setup)),
    tables: &[&POP3],
    buffers: &[],
};

static POP3: Table = Table {
    name: "pop3",
    help: "A command with its response.",
    zeek: "",
    eve: "pop3",
    fields: &[
        field(
            "command",
            Kind::Text,
            "Command of the client, in capitals; <SASL DATA> for the answer to a challenge.",
        )
        .eve("pop3.request.command"),
        field("arguments", Kind::List(&Kind::Text), "Argument of the command; empty for PASS and SASL.")
            .eve("pop3.request.args")
            .privacy(Privacy::User),
        field("success", Kind::Bool, "Whether the server accepted the command.").eve("pop3.response.success"),
        field("status", Kind::Word, "Status of the response: OK, ERR or + (continue)."),
        field(
            "result",
            Kind::Word,
            "Status of the response in Suricata's words: OK, also to continue, or ERR.",
        )
        .eve("pop3.response.status"),
        field("answer", Kind::Text, "Text after the status on its line.")
            .eve("pop3.response.header")
            .privacy(Privacy::Content),
        field("lines", Kind::List(&Kind::Text), "Lines of a list; the lines of a message are left out.")
            .eve("pop3.response.data")
            .privacy(Privacy::Content),
        field("bytes", Kind::Uint, "Bytes of the lines after the first line of the response."),
        field("duration", Kind::Duration, "Time from the command to the end of its response, in seconds."),
    ],
};

/// Maximum length of a line in bytes: RFC 2449 allows 255 for a command and 512 for a response.
const MAX_LINE: usize = 1024;
/// Maximum number of commands without an answer.
const MAX_WAITING: usize = 64;
/// Maximum number of lines of a list.
const MAX_LINES: usize = 256;

const COMMANDS: [&[u8]; 15] = [
    b"USER", b"PASS", b"CAPA", b"AUTH", b"APOP", b"STLS", b"STAT", b"LIST", b"RETR", b"DELE", b"NOOP",
    b"RSET", b"TOP", b"UIDL", b"QUIT",
];

/// Commands that begin no conversation: of RFC 1460, RFC 6856 and of servers.
const OTHER_COMMANDS: [&[u8]; 4] = [b"LAST", b"LANG", b"UTF8", b"XSENDER"];

/// Whether a word, in capitals, is a command.
fn is_command(word: &[u8]) -> bool {
    COMMANDS.iter().chain(&OTHER_COMMANDS).any(|command| *command == word)
}

fn probe(heads: &Heads<'_>) -> Probe {
    let is_home = heads.is_home(PROTOCOL.ports);
    let client = is_begun_by(heads.forward, &COMMANDS);
    // Greetings of IMAP and SMTP begin otherwise.
    let server = is_begun_by(heads.reverse, &[b"+OK", b"-ERR", b"+"]);
    match (client, server) {
        (Probe::Reject, _) | (_, Probe::Reject) => Probe::Reject,
        (Probe::Match, Probe::Match) if is_home || is_greeted(heads) => Probe::Match,
        // FTP shares some of the commands, and Redis the answers.
        _ => Probe::Maybe,
    }
}

/// Whether the server has said more than it was asked: it speaks first.
fn is_greeted(heads: &Heads<'_>) -> bool {
    let asked = heads.forward.iter().filter(|byte| **byte == b'\n').count();
    let is_status = |line: &&[u8]| line.starts_with(b"+OK") || line.starts_with(b"-ERR");
    heads.reverse.split(|byte| *byte == b'\n').filter(is_status).count() > asked
}

/// Whether a line begins with one of the words, or is a part of one.
fn is_begun_by(head: &[u8], words: &[&[u8]]) -> Probe {
    let fits = |word: &&[u8]| {
        let max = word.len().min(head.len());
        head.iter().take(max).zip(word.iter()).all(|(a, b)| a.to_ascii_uppercase() == *b)
            && head.get(word.len()).is_none_or(|next| next.is_ascii_whitespace())
    };
    match words.iter().find(|word| fits(word)) {
        Some(word) if head.len() > word.len() => Probe::Match,
        Some(_) => Probe::Maybe,
        None => Probe::Reject,
    }
}

/// A command without a response so far.
struct Command {
    time: Time,
    /// Its bytes, and those of the response.
    at: Span,
    name: Vec<u8>,
    arguments: Vec<Vec<u8>>,
}

/// An incomplete response of several lines.
struct Listing {
    command: Command,
    answer: Vec<u8>,
    lines: Vec<Vec<u8>>,
    bytes: u64,
    /// The message in it.
    mail: Option<(Box<Message>, Dotted)>,
}

struct Pop3 {
    files: Files,
    user: Option<Vec<u8>>,
    moved: u64,
    client: Lines,
    server: Lines,
    waiting: VecDeque<Command>,
    listing: Option<Listing>,
    greeted: bool,
    /// Whether the client answers challenges: its lines are no commands.
    sasl: bool,
    /// Responses are lost: what comes next may be the rest of one.
    lost: bool,
    /// Whether the client sent commands before the responses to those that wait.
    pipelines: bool,
}

impl Pop3 {
    fn new(setup: &Setup) -> Self {
        Self {
            files: Files::new(setup),
            user: None,
            moved: 0,
            client: Lines::new(MAX_LINE),
            server: Lines::new(MAX_LINE),
            waiting: VecDeque::new(),
            listing: None,
            greeted: false,
            sasl: false,
            lost: false,
            pipelines: false,
        }
    }
}

impl Parser for Pop3 {
    fn chunk(&mut self, chunk: &Chunk<'_>, out: &mut dyn Out) -> Step {
        if chunk.gap > 0 {
            self.miss(chunk.direction, chunk.gap, chunk.time, out);
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
                let mut encrypted = None;
                while encrypted.is_none() {
                    self.message(&mut data, chunk.time, out);
                    match lines.next(&mut data, |line| self.answer(line, chunk.time, out)) {
                        Some(true) => encrypted = Some(data.len()),
                        Some(false) => {}
                        None => break,
                    }
                }
                self.server = lines;
                if let Some(unread) = encrypted {
                    return Step::SwitchTo { protocol: None, unread };
                }
            }
        }
        Step::Next
    }

    fn end(&mut self, time: Time, out: &mut dyn Out) {
        if let Some(mut listing) = self.listing.take() {
            self.end_message(&mut listing, false, time, out);
            emit(
                &listing.command,
                Some((b"OK", true)),
                &listing.answer,
                &listing.lines,
                listing.bytes,
                time,
                out,
            );
        }
        for command in std::mem::take(&mut self.waiting) {
            emit(&command, None, &[], &[], 0, time, out);
        }
    }

    fn memory(&self) -> usize {
        let listed = self.listing.iter().flat_map(|listing| &listing.lines).map(|line| line.capacity() + 24);
        let waiting = self.waiting.iter().map(|command| size_of::<Command>() + command.name.capacity());
        let mail = self.listing.as_ref().and_then(|listing| listing.mail.as_ref());
        let mail = mail.map_or(0, |(message, _)| message.memory());
        mail + self.client.memory() + self.server.memory() + listed.sum::<usize>() + waiting.sum::<usize>()
    }
}

impl Pop3 {
    /// Takes bytes of a message, if one is being sent.
    fn message(&mut self, data: &mut &[u8], time: Time, out: &mut dyn Out) {
        let Some(listing) = &mut self.listing else { return };
        let Some((message, dot)) = &mut listing.mail else { return };
        let before = data.len();
        let is_end = dot.bytes(data, |bytes| message.bytes(bytes, &mut self.files, time, out));
        listing.bytes += (before - data.len()) as u64;
        if let Some(mut listing) = self.listing.take_if(|_| is_end) {
            listing.command.at.add(out.more(data.len()));
            self.end_message(&mut listing, true, time, out);
            // The line with the dot is not part of the message.
            let bytes = listing.bytes.saturating_sub(3);
            emit(&listing.command, Some((b"OK", true)), &listing.answer, &[], bytes, time, out);
        }
    }

    fn end_message(&mut self, listing: &mut Listing, is_whole: bool, time: Time, out: &mut dyn Out) {
        let Some((mut message, _)) = listing.mail.take() else { return };
        message.end(is_whole, &mut self.files, time, out, |_| {});
        message.emit(&listing.command.name, self.user.as_deref(), None, is_whole, time, out);
    }

    /// Takes a gap: data before it is not joined with data after it.
    fn miss(&mut self, direction: Direction, gap: u64, time: Time, out: &mut dyn Out) {
        if direction == Direction::Forward {
            return self.client.forget();
        }
        self.server.forget();
        let last = take_last(&mut self.waiting, self.pipelines, |command| command.time);
        if let Some(listing) = &mut self.listing
            && let Some((message, dot)) = &mut listing.mail
        {
            message.gap(gap, &mut self.files, time, out);
            listing.bytes += gap;
            if last.is_none() {
                // A message continues after a gap, up to its end or the next command.
                *dot = Dotted::Within;
                return;
            }
        }
        self.end(time, out);
        self.waiting.extend(last);
        (self.lost, self.greeted) = (true, true);
    }

    fn command(&mut self, line: Line<'_>, time: Time, out: &mut dyn Out) {
        let at = out.message(line.unread);
        let has_gap =
            |listing: &mut Listing| listing.mail.as_ref().is_some_and(|(message, _)| message.mail.has_gap);
        if let Some(mut listing) = self.listing.take_if(has_gap) {
            // The end of the message was in the gap.
            self.end_message(&mut listing, false, time, out);
            emit(&listing.command, Some((b"OK", true)), &listing.answer, &[], listing.bytes, time, out);
        }
        if line.is_cut {
            let detail = line.text;
            PROTOCOL.emit_anomaly("line_too_long", Direction::Forward, detail, time, out);
        }
        // A response to a challenge is one word and no command: whichever lines of the server are lost.
        let is_asked = || self.waiting.back().is_some_and(|command| command.name == b"AUTH");
        if self.sasl || is_asked() {
            let word = line.text.trim_ascii();
            self.sasl = !word.contains(&b' ') && !COMMANDS.contains(&word.to_ascii_uppercase().as_slice());
        }
        let command = if self.sasl {
            Command { time, at, name: b"<SASL DATA>".to_vec(), arguments: Vec::new() }
        } else {
            let mut words = line.text.split(|byte| *byte == b' ').filter(|word| !word.is_empty());
            let name = words.next().unwrap_or_default().to_ascii_uppercase();
            if !is_command(&name) && !self.lost {
                let anomaly = match name.as_slice() {
                    b"+OK" | b"-ERR" => "pop3_client_sending_server_commands",
                    _ => "pop3_client_command_unknown",
                };
                PROTOCOL.emit_anomaly(anomaly, Direction::Forward, &name, time, out);
            }
            let max = match name.as_slice() {
                b"PASS" => 0,
                b"AUTH" | b"APOP" => 1,
                _ => 16,
            };
            Command { time, at, name, arguments: words.take(max).map(<[u8]>::to_vec).collect() }
        };
        if matches!(command.name.as_slice(), b"USER" | b"APOP") {
            self.user = command.arguments.first().cloned();
        }
        if std::mem::take(&mut self.lost) {
            self.end(time, out);
        }
        self.pipelines &= !self.waiting.is_empty();
        if self.waiting.len() == MAX_WAITING {
            PROTOCOL.emit_anomaly("too_many_commands", Direction::Forward, &command.name, time, out);
            self.end(time, out);
        }
        self.waiting.push_back(command);
    }

    /// Takes a line of the server. Returns `true` if TLS begins after it.
    fn answer(&mut self, line: Line<'_>, time: Time, out: &mut dyn Out) -> bool {
        let at = out.message(line.unread);
        if let Some(mut listing) = self.listing.take() {
            listing.command.at.add(at);
            if line.text == b"." {
                let Listing { command, answer, lines, bytes, .. } = listing;
                emit(&command, Some((b"OK", true)), &answer, &lines, bytes, time, out);
                return false;
            }
            listing.bytes += line.text.len() as u64 + 2;
            if listing.lines.len() < MAX_LINES {
                let text = line.text.strip_prefix(b".").unwrap_or(line.text);
                listing.lines.push(text.to_vec());
            }
            self.listing = Some(listing);
            return false;
        }
        let Some((status, success, text)) = status(line.text) else {
            if !self.lost {
                let word = line.text.split(|byte| *byte == b' ').next().unwrap_or_default();
                let anomaly = match is_command(&word.to_ascii_uppercase()) {
                    true => "pop3_server_sending_client_commands",
                    false => "pop3_server_command_unknown",
                };
                PROTOCOL.emit_anomaly(anomaly, Direction::Reverse, line.text, time, out);
            }
            return false;
        };
        if !std::mem::replace(&mut self.greeted, true) && self.waiting.is_empty() {
            return false;
        }
        self.sasl = status == b"+";
        let Some(mut command) = self.waiting.pop_front() else {
            if !self.lost {
                PROTOCOL.emit_anomaly("answer_without_command", Direction::Reverse, line.text, time, out);
            }
            return false;
        };
        command.at.add(at);
        self.lost = false;
        self.pipelines |= !self.waiting.is_empty();
        if success && status == b"OK" && has_list(&command) {
            let mail = matches!(command.name.as_slice(), b"RETR" | b"TOP").then(|| {
                let carrier = Carrier {
                    source: "POP3",
                    protocol: &PROTOCOL,
                    direction: Direction::Reverse,
                    transaction: self.moved,
                };
                self.moved += 1;
                (Box::new(Message::new(carrier)), Dotted::Start)
            });
            let answer = text.to_vec();
            self.listing = Some(Listing { command, answer, lines: Vec::new(), bytes: 0, mail });
            return false;
        }
        emit(&command, Some((status, success)), text, &[], 0, time, out);
        success && command.name == b"STLS"
    }
}

/// A response's status, whether it is positive, and its text.
fn status(line: &[u8]) -> Option<(&'static [u8], bool, &[u8])> {
    let with: [(&[u8], &'static [u8], bool); 3] =
        [(b"+OK", b"OK", true), (b"-ERR", b"ERR", false), (b"+", b"+", true)];
    with.iter().find_map(|(prefix, status, success)| {
        let (head, text) = line.split_at_checked(prefix.len())?;
        let is_word = text.first().is_none_or(|next| *next == b' ');
        (head.eq_ignore_ascii_case(prefix) && is_word).then(|| (*status, *success, text.trim_ascii()))
    })
}

/// Whether lines follow a positive response.
fn has_list(command: &Command) -> bool {
    match command.name.as_slice() {
        b"RETR" | b"TOP" | b"CAPA" => true,
        b"LIST" | b"UIDL" | b"AUTH" => command.arguments.is_empty(),
        _ => false,
    }
}

fn emit(
    command: &Command,
    status: Option<(&[u8], bool)>,
    answer: &[u8],
    lines: &[Vec<u8>],
    bytes: u64,
    time: Time,
    out: &mut dyn Out,
) {
    if !out.takes(&POP3) {
        return;
    }
    let record = record!(
        POP3,
        command.time,
        command = &command.name,
        arguments = Value::list(&command.arguments),
        success = status.map(|(_, success)| success),
        status = status.map(|(status, _)| status),
        result = status.map(|(_, success)| if success { "OK" } else { "ERR" }),
        answer = status.map(|_| answer),
        lines = Value::list(lines),
        bytes = bytes,
        duration = status.map_or(Value::None, |_| Value::Duration(time.since(command.time))),
    );
    out.record(record.over(command.at));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MAIL;
    use crate::TCP;
    use crate::laws::talks;
    use crate::talk::{Talk, Turn};

    #[test]
    fn a_continuation_is_a_positive_response() {
        let turns = [
            (Direction::Reverse, "+OK ready\r\n"),
            (Direction::Forward, "AUTH PLAIN\r\n"),
            (Direction::Reverse, "+ \r\n"),
            (Direction::Forward, "AGEAYg==\r\n"),
            (Direction::Reverse, "-ERR no\r\n"),
            (Direction::Forward, "STAT\r\n"),
            (Direction::Reverse, "+OK 0 0\r\n"),
        ];
        let turns = turns.map(|(side, text)| Turn::Data(side, text.as_bytes().to_vec())).to_vec();
        let talk = Talk { ip_proto: TCP, ports: [40_000, 110], turns };
        let emitted = talk.emitted(|data| vec![data.to_vec()]);
        let rows: Vec<_> = emitted
            .records
            .iter()
            .map(|record| ["status", "result"].map(|name| record.get(name).clone()))
            .collect();
        assert_eq!(rows, [["+", "OK"], ["ERR", "ERR"], ["OK", "OK"]].map(|row| row.map(Value::from)));
    }

    #[test]
    fn messages_are_parsed_as_they_arrive() {
        let talks = talks("pop3", 110);
        let (_, talk) = talks.iter().find(|(path, _)| path.ends_with("mail.talk")).unwrap();
        let emitted = talk.emitted(|data| vec![data.to_vec()]);
        let mails: Vec<_> = emitted.records.iter().filter(|record| *record.table == MAIL).collect();
        let subjects: Vec<_> = mails.iter().map(|record| record.get("subject").clone()).collect();
        assert_eq!(subjects, ["caf\u{e9}", "two", "three", "four"].map(Value::from));
        let whole: Vec<_> = mails.iter().map(|record| record.get("whole").clone()).collect();
        assert_eq!(whole, [true, true, false, false].map(Value::from));
        assert_eq!(emitted.parts()[0], b".see http://x.example/");
        assert_eq!(emitted.parts()[1], b"PK\x03\x04\n");
    }
}
