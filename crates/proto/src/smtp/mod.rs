//! Simple Mail Transfer Protocol (RFC 5321) with pipelining (2920), chunks (3030), STARTTLS (3207) and AUTH (4954):
//! each mail with its envelope, its header and its files.

mod tables;
mod waiting;

use crate::early::{begin_transaction, early};
use crate::file::Files;
use crate::line::{Dotted, Line, Lines};
use crate::mime::{self, Carrier, Message};
use crate::{Anomaly, Buffer, Heads, Out, Parser, Probe, Protocol, Setup, Span, Step, Transport, Value};
use tables::{Hello, SESSION, SMTP, Transaction};
use waiting::{Lost, Unmatched, Waiting};
use weir_wire::stream::Chunk;
use weir_wire::{Direction, Time};

pub(crate) static PROTOCOL: Protocol = Protocol {
    name: "smtp",
    help: "Simple Mail Transfer Protocol (RFC 5321).",
    transport: Transport::Tcp,
    ports: &[25, 587, 2525],
    probe,
    parser: |setup| Box::new(Smtp::new(setup)),
    tables: &[&SMTP, &SESSION],
    buffers: &[&HELO, &MAIL_FROM, &RCPT_TO],
};

static HELO: Buffer = Buffer::whole("smtp.helo", "Name by which a client introduces itself (HELO, EHLO).");
static MAIL_FROM: Buffer =
    Buffer::whole("smtp.mail_from", "Sender in MAIL FROM with its angle brackets, without parameters.");
static RCPT_TO: Buffer = Buffer::whole(
    "smtp.rcpt_to",
    "Recipient in RCPT TO with its angle brackets, without parameters; each alone.",
);

/// Maximum length of a line in bytes: RFC 5321 allows 512, and extensions add to it. RFC 4954 allows 12,288 for
/// answers to challenges, in which the user name is near the beginning.
const MAX_LINE: usize = 2048;
/// Maximum number of commands without a reply.
const MAX_WAITING: usize = 256;
/// Maximum number of recipients of a mail; RFC 5321 requires 100.
const MAX_RECIPIENTS: usize = 1000;
/// Maximum number of transactions out of order before a session is given up, as in Zeek.
const MAX_INVALID: u32 = 25;

/// First words of a client, including those within a session.
const WORDS: [&[u8]; 5] = [b"EHLO", b"HELO", b"LHLO", b"MAIL FROM:", b"RCPT TO:"];

fn probe(heads: &Heads<'_>) -> Probe {
    let client = match heads.forward {
        [] => None,
        head => {
            let fits = |word: &&[u8]| {
                let max = word.len().min(head.len());
                head.iter().take(max).zip(word.iter()).all(|(a, b)| a.to_ascii_uppercase() == *b)
                    && (word.len() > 4 || head.get(4).is_none_or(u8::is_ascii_whitespace))
            };
            Some(match WORDS.iter().find(|word| fits(word)) {
                Some(word) if head.len() > word.len() => Probe::Match,
                Some(_) => Probe::Maybe,
                None => Probe::Reject,
            })
        }
    };
    let line = heads.reverse.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let is_code = is_reply(heads.reverse);
    // FTP's greeting begins alike; its text differs.
    let contains = |word: &[u8]| line.windows(word.len()).any(|window| window.eq_ignore_ascii_case(word));
    // Some servers send text before their first reply; a client's first words are its own.
    let is_text = || heads.reverse.iter().all(|byte| !byte.is_ascii_control() || byte.is_ascii_whitespace());
    match client {
        Some(answer @ (Probe::Match | Probe::Maybe)) if is_code || is_text() => answer,
        None if !is_code && is_text() && heads.is_home(PROTOCOL.ports) => Probe::Maybe,
        Some(Probe::Match | Probe::Maybe) => Probe::Reject,
        _ if !is_code => Probe::Reject,
        Some(Probe::Reject) if line.starts_with(b"220") && contains(b"SMTP") && !contains(b"FTP") => {
            Probe::Match
        }
        None if line.starts_with(b"220") && contains(b"ESMTP") => Probe::Match,
        Some(Probe::Reject) => Probe::Reject,
        None => Probe::Maybe,
    }
}

/// Whether the bytes can begin a reply: three digits and a blank, a hyphen or the line's end.
fn is_reply(head: &[u8]) -> bool {
    let digits = head.iter().take(3).take_while(|byte| byte.is_ascii_digit()).count();
    digits == head.len().min(3) && head.get(3).is_none_or(|next| b" -\r\n".contains(next))
}

/// The command that a reply belongs to.
#[derive(Debug)]
enum Asked {
    Hello,
    Mail,
    Recipient,
    Data,
    /// End of a mail: the reply shows whether it was accepted.
    End(Box<Transaction>),
    /// A chunk that is not the last.
    Chunk,
    /// Of the transaction with this number: with pipelining the next one may have begun before the reply.
    Reset(u64),
    /// With the bytes of the command.
    StartTls(Span),
    Auth,
    /// A line with a dot alone, outside of a mail.
    Dot,
    Other,
}

/// The meaning of the client's bytes.
#[derive(Clone, Copy, Debug)]
enum Place {
    Commands,
    /// A mail, up to a line with a dot alone.
    Data(Dotted),
    /// A chunk of the given length.
    Chunk {
        left: u64,
        is_last: bool,
    },
    /// Answers to challenges.
    Auth,
}

struct Smtp {
    setup: Setup,
    files: Files,
    client: Lines,
    server: Lines,
    place: Place,
    waiting: Waiting,
    hello: Hello,
    transaction: Transaction,
    /// The last reply, with its bytes.
    last_reply: Option<(Vec<u8>, Span)>,
    /// Mails that were answered, whether they were taken or not.
    answered: u64,
    /// Number of mails that were emitted or wait.
    transactions: u64,
    /// Number of the transaction that commands and replies belong to; none before the first command.
    current: Option<u64>,
    /// Time at which the session began.
    begun: Option<Time>,
    /// Rows that were emitted.
    emitted: u64,
    /// Whether a command outside of a mail was refused.
    has_refused: bool,
    server_seen: bool,
    greeted: bool,
    /// Whether a reply of several lines is incomplete.
    in_reply: bool,
    /// Replies cannot be assigned to commands until the client sends a new one.
    lost: bool,
    /// Whether bytes of a mail are missing, possibly including its end.
    end_missed: bool,
    invalid: u32,
    /// Whether the server waits for the mail (354).
    go_ahead: bool,
    /// Code of a reply that came before the end of the mail was seen.
    early: Option<u16>,
    has_ended: bool,
    /// The bytes of the current line or mail.
    here: Span,
    /// The bytes of all of them.
    all: Span,
}

impl Smtp {
    fn new(setup: &Setup) -> Self {
        Self {
            setup: setup.clone(),
            files: Files::new(setup),
            client: Lines::new(MAX_LINE),
            server: Lines::new(MAX_LINE),
            place: Place::Commands,
            waiting: Waiting::default(),
            hello: Hello::default(),
            transaction: Transaction::default(),
            last_reply: None,
            answered: 0,
            transactions: 0,
            current: None,
            begun: None,
            emitted: 0,
            has_refused: false,
            server_seen: false,
            greeted: false,
            in_reply: false,
            lost: false,
            end_missed: false,
            invalid: 0,
            go_ahead: false,
            early: None,
            has_ended: false,
            here: Span::default(),
            all: Span::default(),
        }
    }
}

impl Parser for Smtp {
    fn chunk(&mut self, chunk: &Chunk<'_>, out: &mut dyn Out) -> Step {
        self.begun.get_or_insert(chunk.time);
        if chunk.gap > 0 {
            self.miss(chunk.direction, chunk.gap, chunk.time, out);
        }
        let mut data = chunk.data;
        match chunk.direction {
            Direction::Forward => {
                while !data.is_empty() {
                    match self.place {
                        Place::Commands | Place::Auth => {
                            let mut lines = self.client.take();
                            lines.next(&mut data, |line| self.command(line, chunk.time, out));
                            self.client = lines;
                        }
                        Place::Data(dot) => self.data(dot, &mut data, chunk.time, out),
                        Place::Chunk { left, is_last } => {
                            let length = usize::try_from(left).unwrap_or(usize::MAX).min(data.len());
                            let (piece, rest) = data.split_at(length);
                            data = rest;
                            self.content(piece, chunk.time, out);
                            if left == length as u64 {
                                self.note(out.more(data.len()));
                            }
                            self.part_of_chunk(left - length as u64, is_last, chunk.time, out);
                        }
                    }
                    if self.invalid > MAX_INVALID {
                        self.anomaly(
                            "smtp_excessive_invalid_mail_transactions",
                            Direction::Forward,
                            b"",
                            chunk.time,
                            out,
                        );
                        return Step::GiveUp;
                    }
                }
            }
            Direction::Reverse => {
                self.server_seen |= !data.is_empty();
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
        if std::mem::replace(&mut self.has_ended, true) {
            return;
        }
        self.flush_waiting(out);
        if self.transaction.mail.is_some() {
            if !matches!(self.place, Place::Commands) {
                self.transaction.at.add(out.rest(Direction::Forward));
            }
            self.close_mail(false, time, out);
        }
        if self.transaction.is_active {
            let transaction = std::mem::take(&mut self.transaction);
            self.emit(transaction, out);
        } else if self.emitted == 0 {
            self.emit_session(self.begun.unwrap_or(time), out);
        }
    }

    fn memory(&self) -> usize {
        self.client.memory() + self.server.memory() + self.waiting.memory() + self.transaction.memory()
    }
}

impl Smtp {
    /// Takes a gap: data before it is not joined with data after it.
    fn miss(&mut self, direction: Direction, mut gap: u64, time: Time, out: &mut dyn Out) {
        if direction == Direction::Reverse {
            self.server.forget();
            // The gap may contain replies: later ones do not belong to the commands before the last.
            let lost = self.waiting.miss_replies();
            self.flush(lost, out);
            (self.in_reply, self.lost, self.server_seen, self.greeted) = (false, true, true, true);
            return;
        }
        self.client.forget();
        match self.place {
            Place::Chunk { left, is_last } => {
                let within = left.min(gap);
                self.mail_gap(within, time, out);
                self.part_of_chunk(left - within, is_last, time, out);
                gap -= within;
            }
            Place::Data(_) => {
                self.mail_gap(gap, time, out);
                if self.early.is_some() {
                    // The gap has about the size of the whole mail, so its end is in the gap.
                    self.place = Place::Commands;
                    self.end_of_mail(false, time, out);
                } else {
                    (self.place, self.end_missed) = (Place::Data(Dotted::Within), true);
                }
                return;
            }
            Place::Auth => self.place = Place::Commands,
            Place::Commands => {}
        }
        if gap > 0 {
            self.waiting.miss_commands();
            self.lost = true;
        }
    }

    /// Emits waiting transactions as far as they are known.
    fn flush_waiting(&mut self, out: &mut dyn Out) {
        let all = self.waiting.clear();
        self.flush(all, out);
    }

    /// Emits the transactions of commands whose replies are lost.
    fn flush(&mut self, lost: Lost, out: &mut dyn Out) {
        for (_, asked) in lost {
            if let Asked::End(transaction) = asked {
                self.emit(*transaction, out);
            }
        }
    }

    fn emit(&mut self, mut transaction: Transaction, out: &mut dyn Out) {
        let last_reply = self.last_reply.take().map(|(reply, at)| {
            transaction.at.add(at);
            reply
        });
        let ends = [self.setup.responder.0, self.setup.initiator.0];
        let numbers = [self.emitted, self.answered + 1];
        transaction.emit(numbers, &self.hello, last_reply.as_deref(), ends, out);
        self.emitted += 1;
    }

    /// Emits the session, or the part of one, without a mail.
    fn emit_session(&mut self, time: Time, out: &mut dyn Out) {
        let last_reply = self.last_reply.as_ref().map(|(reply, _)| reply.as_slice());
        self.hello.emit(self.emitted, self.all, time, last_reply, out);
        self.emitted += 1;
    }

    /// Ends the transaction in its current state.
    fn finish(&mut self, out: &mut dyn Out) {
        if self.transaction.is_active {
            self.complete(out);
            let transaction = std::mem::take(&mut self.transaction);
            self.transactions += 1;
            self.emit(transaction, out);
        } else {
            self.transaction = Transaction::default();
        }
    }

    fn ask(&mut self, asked: Asked, time: Time, out: &mut dyn Out) {
        if !self.server_seen {
            // If the server's side is not captured, the parser does not wait for a reply.
            if let Asked::End(transaction) = asked {
                self.emit(*transaction, out);
            }
            return;
        }
        if self.waiting.len() == MAX_WAITING {
            self.anomaly("too_many_commands", Direction::Forward, b"", time, out);
            self.flush_waiting(out);
        }
        let lost = self.waiting.push(asked, time);
        self.flush(lost, out);
    }

    /// Takes note of the current message.
    fn note(&mut self, at: Span) {
        self.here = at;
        self.all.add(at);
    }

    /// Emits an anomaly of the current transaction.
    fn anomaly(
        &self,
        name: &'static str,
        direction: Direction,
        detail: &[u8],
        time: Time,
        out: &mut dyn Out,
    ) {
        let found = Anomaly { name, direction, detail, transaction: self.current };
        out.record(found.record(time, &PROTOCOL));
    }

    /// After the end of a mail, a command begins the next transaction, as in Suricata. RSET and QUIT ask for none.
    fn number(&mut self, command: &[u8]) {
        let is_last = command
            .get(..4)
            .is_some_and(|word| word.eq_ignore_ascii_case(b"RSET") || word.eq_ignore_ascii_case(b"QUIT"));
        if self.current.is_none() || !is_last {
            self.current = Some(self.transactions);
        }
    }

    /// Assigns the next buffers of the client to the current transaction.
    fn begin_buffers(&self, out: &mut dyn Out) {
        begin_transaction(Direction::Forward, self.current.unwrap_or_default(), out);
    }

    fn begin(&mut self, time: Time) {
        if !self.transaction.is_active {
            self.current = Some(self.transactions);
            (self.transaction.is_active, self.transaction.time) = (true, time);
            self.transaction.at = self.here;
        }
    }

    fn command(&mut self, line: Line<'_>, time: Time, out: &mut dyn Out) {
        self.note(out.message(line.unread));
        self.number(line.text.trim_ascii_start());
        self.begin_buffers(out);
        if line.is_cut {
            self.anomaly("MAX_COMMAND_LINE_LEN_EXCEEDED", Direction::Forward, line.text, time, out);
        }
        self.lost = false;
        // An answer to a challenge is one word. After a lost reply, a command may follow instead.
        if let Place::Auth = self.place
            && line.text.trim_ascii().contains(&b' ')
        {
            self.place = Place::Commands;
        }
        if let Place::Auth = self.place {
            let mechanism = self.hello.mechanism.as_deref().unwrap_or_default();
            if self.hello.user.is_none() {
                self.hello.user = user(mechanism, line.text);
            }
            return self.ask(Asked::Auth, time, out);
        }
        let text = line.text.trim_ascii();
        let length = text.iter().position(|byte| *byte == b' ').unwrap_or(text.len());
        let (word, rest) = text.split_at(length);
        let rest = rest.trim_ascii();
        let word = word.to_ascii_uppercase();
        // The commands that belong to a mail, and those that end one.
        let is_of_mail = matches!(word.as_slice(), b"RCPT" | b"DATA" | b"BDAT" | b"RSET" | b".");
        if self.transaction.is_active && is_of_mail {
            self.transaction.at.add(self.here);
        }
        let asked = match word.as_slice() {
            b"EHLO" | b"HELO" | b"LHLO" => {
                if self.hello.helo.is_some() {
                    self.anomaly("DUPLICATE_FIELDS", Direction::Forward, text, time, out);
                }
                if !rest.is_empty() || self.hello.helo.is_none() {
                    self.hello.helo = Some(rest.to_vec());
                    out.emit(&HELO, Direction::Forward, rest);
                }
                Asked::Hello
            }
            b"MAIL" => match parameter(text, b"FROM") {
                Some(steps) => {
                    self.finish(out);
                    self.begin(time);
                    self.begin_buffers(out);
                    self.transaction.mail_from = Some(steps.to_vec());
                    early!(out, SMTP, mail_from = steps);
                    out.emit(&MAIL_FROM, Direction::Forward, steps);
                    Asked::Mail
                }
                None => Asked::Other,
            },
            b"RCPT" => match parameter(text, b"TO") {
                Some(steps) => {
                    out.emit(&RCPT_TO, Direction::Forward, steps);
                    self.recipient(steps, time, out);
                    Asked::Recipient
                }
                None => Asked::Other,
            },
            b"DATA" => {
                self.open_mail(out);
                (self.place, self.go_ahead, self.early) = (Place::Data(Dotted::Start), false, None);
                Asked::Data
            }
            b"BDAT" => return self.chunk_command(rest, time, out),
            b"RSET" => Asked::Reset(self.transactions),
            b"STARTTLS" => Asked::StartTls(self.here),
            b"AUTH" => {
                let mut words = rest.split(|byte| *byte == b' ').filter(|word| !word.is_empty());
                let mechanism = words.next().unwrap_or_default().to_ascii_uppercase();
                (self.hello.user, self.place) = (None, Place::Commands);
                if let Some(first) = words.next().filter(|word| *word != b"=") {
                    self.hello.user = user(&mechanism, first);
                }
                self.hello.mechanism = Some(mechanism);
                Asked::Auth
            }
            b"." => Asked::Dot,
            _ => Asked::Other,
        };
        self.ask(asked, time, out);
    }

    fn recipient(&mut self, steps: &[u8], time: Time, out: &mut dyn Out) {
        self.begin(time);
        if self.transaction.mail_from.is_none() {
            self.invalid += 1;
            let (name, detail) = ("smtp_mail_transaction_invalid", b"rcpt to missing mail from");
            self.anomaly(name, Direction::Forward, detail, time, out);
        }
        match self.transaction.rcpt_to.len() {
            MAX_RECIPIENTS => {}
            number => {
                self.transaction.rcpt_to.push(steps.to_vec());
                if number + 1 == MAX_RECIPIENTS {
                    self.anomaly("too_many_recipients", Direction::Forward, steps, time, out);
                }
            }
        }
    }

    /// BDAT: the size of the chunk and whether it is the last.
    fn chunk_command(&mut self, rest: &[u8], time: Time, out: &mut dyn Out) {
        let mut words = rest.split(|byte| *byte == b' ').filter(|word| !word.is_empty());
        let size = words.next().unwrap_or_default();
        let (last, more) = (words.next(), words.next());
        let is_last = last.is_some_and(|word| word.eq_ignore_ascii_case(b"LAST"));
        let is_number = !size.is_empty() && size.iter().all(u8::is_ascii_digit);
        let number = std::str::from_utf8(size).ok().and_then(|size| size.parse::<u64>().ok());
        let wrong = match number {
            _ if !is_number => Some(("smtp_invalid_bdat_command", rest)),
            None => Some(("smtp_huge_bdat_chunk", size)),
            Some(number) if i64::try_from(number).is_err() => Some(("smtp_huge_bdat_chunk", size)),
            Some(_) if last.is_some() && !is_last || more.is_some() => Some(("INVALID_BDAT", rest)),
            Some(_) => None,
        };
        if let Some((name, detail)) = wrong {
            self.anomaly(name, Direction::Forward, detail, time, out);
            return self.ask(Asked::Other, time, out);
        }
        self.open_mail(out);
        self.part_of_chunk(number.unwrap_or(0), is_last, time, out);
    }

    /// A chunk with this many remaining bytes.
    fn part_of_chunk(&mut self, left: u64, is_last: bool, time: Time, out: &mut dyn Out) {
        if left > 0 {
            self.place = Place::Chunk { left, is_last };
            return;
        }
        self.place = Place::Commands;
        match is_last {
            true => self.end_of_mail(true, time, out),
            false => self.ask(Asked::Chunk, time, out),
        }
    }

    /// Bytes of a mail, with dots doubled at the beginning of lines.
    fn data(&mut self, mut dot: Dotted, data: &mut &[u8], time: Time, out: &mut dyn Out) {
        let is_end = dot.bytes(data, |bytes| self.content(bytes, time, out));
        if is_end {
            self.place = Place::Commands;
            self.note(out.more(data.len()));
            self.end_of_mail(true, time, out);
        } else {
            self.place = Place::Data(dot);
        }
    }

    /// Takes note that the mail has no more recipients: its text begins, or another mail does.
    fn complete(&mut self, out: &mut dyn Out) {
        if !std::mem::replace(&mut self.transaction.is_complete, true) {
            out.side_is_complete(Direction::Forward);
        }
    }

    fn content(&mut self, bytes: &[u8], time: Time, out: &mut dyn Out) {
        self.complete(out);
        if let Some(mail) = &mut self.transaction.mail {
            mail.bytes(bytes, &mut self.files, time, out);
        }
        self.transaction.hand_on(out);
    }

    fn mail_gap(&mut self, bytes: u64, time: Time, out: &mut dyn Out) {
        if let Some(mail) = &mut self.transaction.mail {
            mail.gap(bytes, &mut self.files, time, out);
        }
    }

    fn close_mail(&mut self, is_whole: bool, time: Time, out: &mut dyn Out) {
        let Transaction { mail_from, rcpt_to, mail, .. } = &mut self.transaction;
        if let Some(mail) = mail {
            mail.end(is_whole, &mut self.files, time, out, |file| {
                file.emit("helo", self.hello.helo.as_ref().into());
                file.emit("mail_from", mail_from.as_ref().into());
                if !rcpt_to.is_empty() {
                    file.emit("rcpt_to", rcpt_to.iter().collect());
                }
            });
        }
        self.transaction.is_whole = is_whole;
    }

    fn open_mail(&mut self, out: &mut dyn Out) {
        let carrier = Carrier {
            source: "SMTP",
            protocol: &PROTOCOL,
            direction: Direction::Forward,
            transaction: self.transactions,
        };
        if self.transaction.mail.is_none() {
            self.transaction.mail = Some(Message::new(carrier));
            let Transaction { rcpt_to, .. } = &self.transaction;
            early!(out, SMTP, helo = self.hello.helo.as_ref(), rcpt_to = Value::list(rcpt_to));
        }
    }

    /// Handles the end of a mail.
    fn end_of_mail(&mut self, is_whole: bool, time: Time, out: &mut dyn Out) {
        self.close_mail(is_whole, time, out);
        self.end_missed = false;
        self.begin(time);
        self.complete(out);
        self.transaction.at.add(self.here);
        let transaction = Box::new(std::mem::take(&mut self.transaction));
        self.transactions += 1;
        let early = self.early.take();
        self.ask(Asked::End(transaction), time, out);
        if let Some(code) = early
            && self.waiting.hasten_last()
        {
            self.answer(code, time, out);
        }
    }

    /// Takes a line of a reply. Returns `true` if TLS begins after it.
    fn reply(&mut self, line: Line<'_>, time: Time, out: &mut dyn Out) -> bool {
        self.note(out.message(line.unread));
        if line.is_cut {
            self.anomaly("MAX_REPLY_LINE_LEN_EXCEEDED", Direction::Reverse, line.text, time, out);
        }
        let Some((code, is_last, text)) = code(line.text) else {
            if !self.lost && !self.in_reply {
                self.anomaly("INVALID_REPLY", Direction::Reverse, line.text, time, out);
            }
            return false;
        };
        self.in_reply = !is_last;
        if !is_last {
            return false;
        }
        let digits = line.text.get(..3).unwrap_or_default();
        self.last_reply = Some(([digits, b" ", text].concat(), self.here));
        if !self.greeted {
            self.greeted = true;
            self.hello.greeting = Some(text.to_vec());
            if self.waiting.is_empty() || code == 220 {
                return false;
            }
        }
        self.answer(code, time, out)
    }

    fn answer(&mut self, code: u16, time: Time, out: &mut dyn Out) -> bool {
        let is_good = (200..300).contains(&code);
        let mut lost = Lost::new();
        let asked = self.waiting.answered(code, &mut lost);
        self.flush(lost, out);
        let asked = match asked {
            Ok(asked) => asked,
            Err(unmatched) => {
                self.unmatched(code, unmatched, time, out);
                return false;
            }
        };
        match asked {
            Asked::Hello if is_good => self.restart(time, out),
            Asked::Reset(transaction) if is_good && transaction == self.transactions => {
                self.restart(time, out);
            }
            Asked::Data => {
                if self.transaction.is_active {
                    self.transaction.at.add(self.here);
                }
                match code {
                    354 => self.go_ahead = true,
                    _ => self.refuse(time, out),
                }
            }
            Asked::End(mut transaction) => {
                transaction.accepted = Some(is_good);
                transaction.at.add(self.here);
                self.emit(*transaction, out);
                self.answered += 1;
            }
            Asked::Dot => self.finish(out),
            Asked::StartTls(at) => match code {
                220 => {
                    self.begin(time);
                    self.transaction.at.add(at);
                    self.transaction.tls = true;
                    self.transaction.at.add(self.here);
                    self.finish(out);
                    return true;
                }
                _ => self.anomaly("TLS_REJECTED", Direction::Reverse, b"", time, out),
            },
            Asked::Auth => {
                let goes_on = code == 334;
                self.place = match self.place {
                    Place::Commands | Place::Auth if goes_on => Place::Auth,
                    Place::Auth => Place::Commands,
                    place => place,
                };
            }
            _ => {}
        }
        false
    }

    /// Handles a reply to which no command is known.
    fn unmatched(&mut self, code: u16, unmatched: Unmatched, time: Time, out: &mut dyn Out) {
        match self.place {
            Place::Data(_) if self.go_ahead => {
                self.early = Some(code);
                if self.end_missed {
                    // The end of the mail was in the gap: this is the reply to it.
                    self.client.forget();
                    self.place = Place::Commands;
                    self.end_of_mail(false, time, out);
                }
            }
            Place::Commands if code == 354 && self.transaction.is_active => {
                // Only DATA has this reply, so that a mail follows the command, which is lost.
                self.open_mail(out);
                (self.place, self.go_ahead, self.early) = (Place::Data(Dotted::Start), true, None);
            }
            _ if unmatched == Unmatched::Doubtful || self.lost || code == 421 => {}
            _ if self.server_seen && self.begun_by_client() => {
                self.anomaly("UNABLE_TO_MATCH_REPLY_WITH_REQUEST", Direction::Reverse, b"", time, out);
            }
            _ => {}
        }
    }

    /// Whether the client has sent something, so that replies refer to it.
    fn begun_by_client(&self) -> bool {
        self.hello.helo.is_some()
    }

    /// DATA was refused: the following bytes are not a mail.
    fn refuse(&mut self, time: Time, out: &mut dyn Out) {
        self.anomaly("DATA_COMMAND_REJECTED", Direction::Reverse, b"", time, out);
        if let Place::Data(_) = self.place {
            self.place = Place::Commands;
        }
        self.invalid +=
            u32::from(self.transaction.mail_from.is_none() || self.transaction.rcpt_to.is_empty());
        self.has_refused = true;
        if self.transaction.mail.as_ref().is_some_and(|message| message.mail.bytes == 0) {
            self.transaction.mail = None;
        } else {
            self.close_mail(false, time, out);
        }
    }

    /// Abandons the transaction on both sides.
    fn restart(&mut self, time: Time, out: &mut dyn Out) {
        if self.transaction.is_active {
            self.finish(out);
        } else if std::mem::take(&mut self.has_refused) {
            self.emit_session(time, out);
        }
    }
}

/// The text after `FROM:` or `TO:`, without parameters.
fn parameter<'a>(text: &'a [u8], word: &[u8]) -> Option<&'a [u8]> {
    let rest = text.get(4..)?.trim_ascii_start();
    let (head, rest) = rest.split_at_checked(word.len())?;
    let rest = rest.trim_ascii_start().strip_prefix(b":")?.trim_ascii_start();
    let is_end = match rest.first() {
        Some(b'<') => rest.iter().position(|byte| *byte == b'>').map(|at| at + 1),
        _ => rest.iter().position(u8::is_ascii_whitespace),
    };
    let steps = rest.get(..is_end.unwrap_or(rest.len())).unwrap_or_default();
    head.eq_ignore_ascii_case(word).then_some(steps)
}

/// The user name in the data of an authentication mechanism (RFC 4616, and LOGIN as in common use).
fn user(mechanism: &[u8], steps: &[u8]) -> Option<Vec<u8>> {
    if steps == b"*" {
        return None;
    }
    let bytes = mime::base64(steps);
    match mechanism {
        b"PLAIN" => bytes.split(|byte| *byte == 0).nth(1).map(<[u8]>::to_vec),
        b"LOGIN" => Some(bytes),
        _ => None,
    }
}

/// A reply's code, whether this is its last line, and its text.
fn code(line: &[u8]) -> Option<(u16, bool, &[u8])> {
    let (digits, rest) = line.split_at_checked(3)?;
    let code = digits.iter().all(u8::is_ascii_digit);
    let code = std::str::from_utf8(digits).ok().filter(|_| code)?.parse().ok()?;
    match rest.split_first() {
        None => Some((code, true, b"")),
        Some((b' ', text)) => Some((code, true, text)),
        Some((b'-', text)) => Some((code, false, text)),
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::laws::{Collected, talks};
    use crate::talk::Talk;
    use crate::{ANOMALY, Record, Table, Value};

    fn emitted(case: &str) -> Collected {
        let talks = talks("smtp", 25);
        let (_, talk) =
            talks.iter().find(|(path, _)| path.file_stem().is_some_and(|stem| stem == case)).unwrap();
        talk.emitted(|data| vec![data.to_vec()])
    }

    fn rows<'a>(emitted: &'a Collected, table: &'static Table) -> Vec<&'a Record<'static>> {
        emitted.records.iter().filter(|record| *record.table == *table).collect()
    }

    fn list(texts: &[&str]) -> Value<'static> {
        texts.iter().map(|text| text.as_bytes().to_vec()).collect()
    }

    #[test]
    fn an_anomaly_has_the_number_of_its_transaction() {
        let mail = "> MAIL FROM:<a@x.example>\\r\\n\n< 250 ok\\r\\n\n> RCPT TO:<b@x.example>\\r\\n\n< 250 ok\\r\\n\n\
                    > DATA\\r\\n\n< 354 go\\r\\n\n> a\\r\\n.\\r\\n\n< 250 queued\\r\\n\n";
        let wrong = |number: u32| format!("> BDAT {number}x\\r\\n\n< 501 no\\r\\n\n");
        let hello = "< 220 x ESMTP\\r\\n\n< huh\\r\\n\n> EHLO x\\r\\n\n< 250 x\\r\\n\n";
        // A reply, and RSET, belong to the mail before them; another command begins the next transaction.
        let behind = "< huh\\r\\n\n> RSET\\r\\n\n< 250 ok\\r\\n\n< huh\\r\\n\n";
        let text =
            [hello, &wrong(0), mail, behind, &wrong(1), mail, mail, "< huh\\r\\n\n", &wrong(3)].concat();
        let emitted = Talk::parse(&text, [40_000, 25]).unwrap().emitted(|data| vec![data.to_vec()]);
        let numbers = rows(&emitted, &ANOMALY).into_iter().map(|row| row.get("transaction").clone());
        let [zero, one, two, three] = [0_u8, 1, 2, 3].map(Value::from);
        let wanted = [Value::None, zero.clone(), zero.clone(), zero, one, two, three];
        assert_eq!(numbers.collect::<Vec<_>>(), wanted);
    }

    #[test]
    fn a_mail_is_emitted_with_its_envelope_header_and_files() {
        let emitted = emitted("mail");
        let [mail, bounce] = rows(&emitted, &SMTP)[..] else { panic!() };
        assert_eq!(*mail.get("sender"), "alice@example.org".into());
        assert_eq!(*mail.get("rcpt_to"), list(&["<bob@example.net>", "<eve@example.net>"]));
        assert_eq!(*mail.get("to"), list(&["Bob <bob@example.net>", "\"Doe, J.\" <jd@example.net>"]));
        assert_eq!(*mail.get("subject_text"), "grüße".into());
        assert_eq!(*mail.get("urls"), list(&["http://192.0.2.80/tool.exe"]));
        assert_eq!(*mail.get("attachments"), list(&["a.bin"]));
        assert_eq!(*mail.get("accepted"), true.into());
        assert_eq!(*bounce.get("accepted"), false.into());
        assert_eq!(*bounce.get("depth"), 2u8.into());
        let text = b"Look at http://192.0.2.80/tool.exe and\r\n.dotted\r\n.";
        assert_eq!(emitted.parts(), [&text[..], &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9], b"short"]);
        // Each mail is a file as well, as it was sent but for the doubled dots.
        let [(_, whole), ..] = emitted.content.as_slice() else { panic!() };
        assert!(whole.starts_with(b"Received: from inner") && whole.ends_with(b"--=_one--\r\n"));
        assert_eq!(emitted.content.len(), 5);
    }

    #[test]
    fn senders_and_recipients_are_buffers() {
        let (_, talk) = talks("smtp", 25).into_iter().find(|(path, _)| path.ends_with("mail.talk")).unwrap();
        let emitted = talk.asked(|data| data.chunks(5).map(<[u8]>::to_vec).collect());
        let of = |name: &str| -> Vec<&[u8]> {
            let found = emitted.buffers.iter().filter(|(buffer, ..)| buffer.name == name);
            found.map(|(_, _, bytes)| bytes.as_slice()).collect()
        };
        assert_eq!(of("smtp.mail_from"), [&b"<alice@example.org>"[..], b"<>"]);
        let recipients = [&b"<bob@example.net>"[..], b"<eve@example.net>", b"<alice@example.org>"];
        assert_eq!(of("smtp.rcpt_to"), recipients);
    }

    #[test]
    fn fields_and_files_of_a_mail_are_buffers() {
        let (_, talk) =
            talks("smtp", 25).into_iter().find(|(path, _)| path.ends_with("fields.talk")).unwrap();
        let emitted = talk.asked(|data| data.chunks(5).map(<[u8]>::to_vec).collect());
        let of = |name: &str| -> Vec<String> {
            let found = emitted.buffers.iter().filter(|(buffer, ..)| buffer.name == name);
            found.map(|(_, _, bytes)| bytes.escape_ascii().to_string()).collect()
        };
        assert_eq!(of("email.from"), ["Alice <alice@example.org>"]);
        assert_eq!(of("email.to"), ["bob@example.net"]);
        assert_eq!(of("email.cc"), ["\\\"Eve, E.\\\" <eve@example.net>"]);
        // It is folded, and the space after the fold is left out.
        assert_eq!(of("email.subject"), ["Twofiles"]);
        assert_eq!(of("email.date"), ["Tue, 14 Nov 2023 22:13:18 +0000"]);
        assert_eq!(of("email.message_id"), ["<2@example.org>"]);
        assert_eq!(of("email.x_mailer"), ["Quill 1.0"]);
        assert_eq!(of("email.received").len(), 2);
        assert_eq!(of("email.url"), ["docs.example.org/x", "a.example.org/b"]);
        // The mail as a whole is a file of the table, and no file for rules: its bytes are those of its parts.
        assert_eq!(of("file.name"), ["a.pdf", "b.png"]);
        let kinds = ["ASCII text, with no line terminators", "PDF document, version 1.5", "PNG image data"];
        assert_eq!(of("file.magic"), kinds);
        let text = "See HTTPS://Docs.example.org/x and http://a.example.org/b";
        assert_eq!(of("file.data"), [text, "%PDF-1.5\\nabc", "\\x89PNG\\r\\n\\x1a\\n"]);
    }

    #[test]
    fn chunks_end_at_their_declared_size() {
        let emitted = emitted("chunks");
        assert_eq!(emitted.parts()[0], b".\nhello\r\n.\r\n");
        let depths: Vec<_> = rows(&emitted, &SMTP).iter().map(|row| row.get("last_reply").clone()).collect();
        assert_eq!(depths, ["250 queued".into(), "250 queued too".into()]);
        let wrong: Vec<_> = rows(&emitted, &ANOMALY).iter().map(|row| row.get("name").clone()).collect();
        let names = ["smtp_huge_bdat_chunk", "smtp_invalid_bdat_command", "INVALID_BDAT"];
        assert_eq!(wrong, names.map(Value::from));
    }

    #[test]
    fn user_names_are_emitted_and_passwords_are_not() {
        let emitted = emitted("auth");
        let text = format!("{:?}", emitted.records);
        assert!(!text.contains("secret") && !text.contains("c2VjcmV0"));
        assert_eq!(*rows(&emitted, &SMTP)[0].get("user"), "bob".into());
    }

    /// Mails after one whose end is missing are not taken for its body.
    #[test]
    fn mails_after_gaps_are_found() {
        let emitted = emitted("gaps");
        let senders: Vec<_> = rows(&emitted, &SMTP).iter().map(|row| row.get("sender").clone()).collect();
        assert_eq!(senders, ["a@b.example", "a2@b.example", "a3@b.example"].map(Value::from));
    }

    #[test]
    fn text_before_the_greeting_is_passed_over() {
        let emitted = emitted("preface");
        let [mail] = rows(&emitted, &SMTP)[..] else { panic!("{:?}", emitted.records) };
        assert_eq!((mail.get("sender"), mail.get("accepted")), (&"a@b.example".into(), &true.into()));
    }

    /// The reply to RSET is about the mail before it, whatever was sent with it.
    #[test]
    fn a_reset_in_a_pipeline_ends_only_what_was_before_it() {
        let emitted = emitted("reset");
        let mails: Vec<_> = rows(&emitted, &SMTP)
            .iter()
            .map(|row| (row.get("sender").clone(), row.get("depth").clone(), row.get("accepted").clone()))
            .collect();
        let expected = [
            ("first@b.example".into(), 1_u8.into(), Value::None),
            ("second@b.example".into(), 1_u8.into(), false.into()),
            ("third@b.example".into(), 2_u8.into(), Value::None),
        ];
        assert_eq!(mails, expected);
    }

    #[test]
    fn one_side_is_sufficient() {
        let emitted = emitted("oneside");
        let status: Vec<_> = rows(&emitted, &SMTP).iter().map(|row| row.get("status").clone()).collect();
        assert_eq!(status, ["PARSE_DONE", "PARSE_ERROR"].map(Value::from));
    }
}
