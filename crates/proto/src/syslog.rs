//! Syslog (RFC 3164, RFC 5424) over UDP, and over TCP with both framings (RFC 6587).

use crate::work::looked_at;
use crate::{
    Heads, Kind, Out, Parser, Privacy, Probe, Protocol, Setup, Step, TCP, Table, Transport, Value, field,
    record,
};
use std::borrow::Cow;
use weir_wire::stream::Chunk;
use weir_wire::{Direction, Time};

pub(crate) static PROTOCOL: Protocol = Protocol {
    name: "syslog",
    help: "Syslog (RFC 5424, RFC 3164).",
    transport: Transport::Both,
    ports: &[514, 601],
    probe,
    parser: |setup| Box::new(Syslog::new(setup)),
    tables: &[&SYSLOG],
    buffers: &[],
};

static SYSLOG: Table = Table {
    name: "syslog",
    help: "A syslog message.",
    zeek: "syslog",
    eve: "",
    fields: &[
        field("proto", Kind::Word, "Transport protocol: udp or tcp.").zeek("proto"),
        field("facility", Kind::Word, "Facility: kind of program that sent the message.").zeek("facility"),
        field("severity", Kind::Word, "Severity of the message.").zeek("severity"),
        field("message", Kind::Text, "Text of the message, including its header.")
            .zeek("message")
            .privacy(Privacy::Content),
        field("host", Kind::Text, "Host name in the message.").privacy(Privacy::Name),
        field("program", Kind::Text, "Program name in the message."),
        field("process", Kind::Text, "Process identifier in the message."),
    ],
};

/// Maximum length of a message in bytes: RFC 5425 recommends that receivers accept 8192.
const MAX_MESSAGE: usize = 8192;
/// Maximum number of digits of a length before a message.
const MAX_DIGITS: usize = 5;

const FACILITIES: [&str; 24] = [
    "KERN", "USER", "MAIL", "DAEMON", "AUTH", "SYSLOG", "LPR", "NEWS", "UUCP", "CRON", "AUTHPRIV", "FTP",
    "NTP", "AUDIT", "ALERT", "CLOCK", "LOCAL0", "LOCAL1", "LOCAL2", "LOCAL3", "LOCAL4", "LOCAL5", "LOCAL6",
    "LOCAL7",
];
const SEVERITIES: [&str; 8] = ["EMERG", "ALERT", "CRIT", "ERR", "WARNING", "NOTICE", "INFO", "DEBUG"];

fn probe(heads: &Heads<'_>) -> Probe {
    let home = heads.is_home(PROTOCOL.ports);
    if heads.forward.is_empty() || heads.ip_proto == TCP && !heads.reverse.is_empty() {
        // There are no replies.
        return Probe::Reject;
    }
    if heads.ip_proto != TCP {
        return match priority(heads.forward) {
            Some((_, text)) if home || is_dated(text) => Probe::Match,
            // Some senders omit the priority.
            None if home && heads.ports.contains(&514) && is_text(heads.forward) => Probe::Maybe,
            _ => Probe::Reject,
        };
    }
    let digits = heads.forward.iter().take(MAX_DIGITS).take_while(|byte| byte.is_ascii_digit()).count();
    let text = match heads.forward.get(digits..) {
        Some([b' ', text @ ..]) if digits > 0 => text,
        _ if digits > 0 => {
            return if heads.forward.len() <= MAX_DIGITS { Probe::Maybe } else { Probe::Reject };
        }
        _ => heads.forward,
    };
    match priority(text) {
        Some((_, text)) if home || is_dated(text) => Probe::Match,
        None | Some(_) if text.len() < 24 && text.first().is_none_or(|byte| *byte == b'<') => Probe::Maybe,
        _ => Probe::Reject,
    }
}

/// Whether a message is text, perhaps with zeros at its end.
fn is_text(message: &[u8]) -> bool {
    let end = message.iter().rposition(|byte| *byte != 0).map_or(0, |at| at + 1);
    let text = message.get(..end).unwrap_or_default();
    !text.is_empty() && text.iter().all(|byte| !byte.is_ascii_control() || byte.is_ascii_whitespace())
}

/// The number in angle brackets, at most 191, and the text after it.
fn priority(text: &[u8]) -> Option<(u8, &[u8])> {
    let rest = text.strip_prefix(b"<")?;
    let end = rest.iter().take(4).position(|byte| *byte == b'>')?;
    let number: u8 = std::str::from_utf8(rest.get(..end)?).ok()?.parse().ok()?;
    (number < 192).then_some((number, rest.get(end + 1..)?))
}

/// Whether a version and a year follow, or a month.
fn is_dated(text: &[u8]) -> bool {
    let text = text.trim_ascii_start();
    const MONTHS: [&[u8]; 12] = [
        b"Jan ", b"Feb ", b"Mar ", b"Apr ", b"May ", b"Jun ", b"Jul ", b"Aug ", b"Sep ", b"Oct ", b"Nov ",
        b"Dec ",
    ];
    MONTHS.iter().any(|month| text.starts_with(month))
        || text.starts_with(b"1 2")
        || text.starts_with(b"1 - ")
}

/// Host, program and process, if the message has them.
fn parts(text: &[u8]) -> [Option<&[u8]>; 3] {
    let known = |word: Option<&'_ [u8]>| word.map(|w| w != b"-" && !w.is_empty()).unwrap_or(false);
    if let Some(rest) = text.strip_prefix(b"1 ") {
        let mut words = rest.split(|byte| *byte == b' ').skip(1);
        let mut word = || words.next().filter(|word| known(Some(word)));
        return [word(), word(), word()];
    }
    // Mmm dd hh:mm:ss host program[process]: text
    let is_date = is_dated(text) && text.get(15) == Some(&b' ');
    let Some(rest) = text.get(16..).filter(|_| is_date) else { return [None; 3] };
    let mut words = rest.splitn(2, |byte| *byte == b' ');
    let (host, rest) = (words.next(), words.next().unwrap_or_default());
    let end = rest.iter().position(|byte| !byte.is_ascii_graphic() || matches!(byte, b':' | b'['));
    let Some((program, rest)) = end.and_then(|end| rest.split_at_checked(end)) else {
        return [host, None, None];
    };
    let process = rest.strip_prefix(b"[").and_then(|rest| rest.split(|byte| *byte == b']').next());
    let is_program = matches!(rest.first(), Some(b':' | b'['));
    [host, Some(program).filter(|program| is_program && !program.is_empty()), process]
}

struct Syslog {
    is_tcp: bool,
    /// An incomplete message.
    held: Vec<u8>,
    /// Remaining bytes of a message with a length; `None` if the message ends with the line.
    left: Option<usize>,
    /// Whether messages are framed by length.
    is_counted: bool,
    /// The next message boundary is unknown.
    lost: bool,
}

impl Syslog {
    fn new(setup: &Setup) -> Self {
        Self { is_tcp: setup.ip_proto == TCP, held: Vec::new(), left: None, is_counted: false, lost: false }
    }

    fn emit(&self, text: &[u8], time: Time, out: &mut dyn Out) {
        let (facility, severity, message) = match priority(text) {
            Some((number, rest)) => {
                let facility = FACILITIES.get(usize::from(number >> 3)).copied().unwrap_or("UNSPECIFIED");
                let severity = SEVERITIES.get(usize::from(number & 7)).copied().unwrap_or("UNSPECIFIED");
                (facility, severity, rest)
            }
            None => ("UNSPECIFIED", "UNSPECIFIED", text),
        };
        let [host, program, process] = parts(message);
        out.record(record!(
            SYSLOG,
            time,
            proto = if self.is_tcp { "tcp" } else { "udp" },
            facility = facility,
            severity = severity,
            message = Value::Text(Cow::Borrowed(message)),
            host = host,
            program = program,
            process = process,
        ));
    }

    /// Keeps bytes of the current message, up to the limit.
    fn hold(&mut self, bytes: &[u8]) {
        looked_at(bytes.len());
        let room = MAX_MESSAGE.saturating_sub(self.held.len());
        self.held.extend_from_slice(bytes.get(..room).unwrap_or(bytes));
    }

    /// Handles the end of the current message.
    fn close(&mut self, time: Time, out: &mut dyn Out) {
        let held = std::mem::take(&mut self.held);
        self.left = None;
        looked_at(held.len());
        let text = held.trim_ascii_end();
        if !std::mem::take(&mut self.lost) && !text.is_empty() {
            if held.len() == MAX_MESSAGE {
                PROTOCOL.emit_anomaly("message_too_long", Direction::Forward, text, time, out);
            }
            self.emit(text, time, out);
        }
    }

    fn stream(&mut self, mut data: &[u8], time: Time, out: &mut dyn Out) -> Step {
        while let Some(first) = data.first().copied() {
            if let Some(left) = self.left {
                let (head, rest) = data.split_at(data.len().min(left));
                self.hold(head);
                data = rest;
                self.left = Some(left - head.len());
                if left == head.len() {
                    out.message(data.len());
                    self.close(time, out);
                }
                continue;
            }
            looked_at(1 + self.held.len().min(MAX_DIGITS));
            // A message begins: with its length, or with its priority.
            let is_length =
                !self.lost && self.held.iter().all(u8::is_ascii_digit) && self.held.len() <= MAX_DIGITS;
            if is_length && first.is_ascii_digit() {
                self.held.push(first);
                data = data.get(1..).unwrap_or_default();
                if self.held.len() > MAX_DIGITS {
                    return Step::GiveUp;
                }
                continue;
            }
            if is_length && first == b' ' && !self.held.is_empty() {
                let len = std::str::from_utf8(&self.held).ok().and_then(|len| len.parse::<usize>().ok());
                self.held.clear();
                data = data.get(1..).unwrap_or_default();
                self.left = len.filter(|len| *len > 0);
                self.is_counted = true;
                continue;
            }
            let end = data.iter().position(|byte| *byte == b'\n');
            let (head, rest) = data.split_at(end.map_or(data.len(), |end| end + 1));
            self.hold(head);
            data = rest;
            if end.is_some() {
                out.message(data.len());
                self.close(time, out);
            }
        }
        Step::Next
    }
}

impl Parser for Syslog {
    fn chunk(&mut self, chunk: &Chunk<'_>, out: &mut dyn Out) -> Step {
        if chunk.direction == Direction::Reverse || chunk.data.is_empty() && chunk.gap == 0 {
            return Step::Next;
        }
        if !self.is_tcp {
            self.emit(chunk.data, chunk.time, out);
            return Step::Next;
        }
        if chunk.gap > 0 {
            match self.left {
                // The gap is within one message.
                Some(left) if chunk.gap <= left as u64 => {
                    self.left = Some(left - chunk.gap as usize).filter(|left| *left > 0);
                    self.lost = self.left.is_some();
                    self.held.clear();
                }
                // With lengths the framing is lost; with lines it resumes at the next line end.
                _ if self.is_counted => return Step::GiveUp,
                _ => {
                    self.held.clear();
                    self.lost = true;
                }
            }
        }
        self.stream(chunk.data, chunk.time, out)
    }

    fn end(&mut self, time: Time, out: &mut dyn Out) {
        // The last line needs no end.
        if self.left.is_none() && !self.held.is_empty() {
            out.rest(Direction::Forward);
            self.close(time, out);
        }
    }

    fn memory(&self) -> usize {
        self.held.capacity()
    }
}
