//! Internet Relay Chat (RFC 1459, 2812): nicks, users and channels, files offered over DCC, and every command by name.

mod channels;
pub(crate) mod dcc;

pub use channels::IRC_CHANNEL;
pub(crate) use dcc::PROTOCOL as DCC;

use crate::early::early;
use crate::line::{Line, Lines};
use crate::{
    Expected, Heads, Kind, Out, Parser, Privacy, Probe, Protocol, Record, Setup, Step, TCP, Table, Transport,
    Value, field, record,
};
use channels::{Channels, MAX_CHANNELS};
use std::net::{IpAddr, Ipv4Addr};
use weir_wire::stream::Chunk;
use weir_wire::{Direction, Time};

pub(crate) static PROTOCOL: Protocol = Protocol {
    name: "irc",
    help: "Internet Relay Chat (RFC 2812).",
    transport: Transport::Tcp,
    ports: &[6667, 6660, 6661, 6662, 6663, 6664, 6665, 6666, 6668, 6669, 7000],
    probe,
    parser: |setup| Box::new(Irc::new(setup)),
    tables: &[&IRC],
    buffers: &[],
};

static IRC: Table = Table {
    name: "irc",
    help: "A nick or user name (NICK, USER), a joined channel, or a file offered over DCC.",
    zeek: "irc",
    eve: "",
    fields: &[
        field("nick", Kind::Text, "Nick of the client before the command.")
            .zeek("nick")
            .privacy(Privacy::User),
        field("user", Kind::Text, "User name of the client before the command.")
            .zeek("user")
            .privacy(Privacy::User),
        field("command", Kind::Text, "Command of the message.").zeek("command"),
        field("value", Kind::Text, "New nick, new user name, or channel.")
            .zeek("value")
            .privacy(Privacy::User),
        field(
            "addition",
            Kind::Text,
            "Further parameters: the keys of JOIN; host, server and real name of USER.",
        )
        .zeek("addl")
        .privacy(Privacy::Content),
        field("dcc_file_name", Kind::Text, "DCC: name of the offered file.")
            .zeek("dcc_file_name")
            .privacy(Privacy::Content),
        field("dcc_file_size", Kind::Uint, "DCC: size of the file in bytes.").zeek("dcc_file_size"),
        field("dcc_mime_type", Kind::Word, "DCC: media type of the file, determined from the content.")
            .zeek("dcc_mime_type"),
        field("dcc_address", Kind::Address, "DCC: address that offers the file."),
        field("dcc_port", Kind::Port, "DCC: port that offers the file."),
        field("reverse", Kind::Bool, "Whether the server sent the message."),
    ],
};

/// Maximum length of a line in bytes: RFC 2812 allows 512, and IRCv3's tags take 8,191 before them.
const MAX_LINE: usize = 8703 - 512;
/// Maximum length of a parsed line without its tags in bytes, as in Zeek.
const MAX_PLAIN: usize = 512;
/// Bytes of such a line from which Zeek splits it.
const MAX_WHOLE: usize = 1000;
/// Bytes of a command at most, as Zeek has it.
const MAX_COMMAND: usize = 20;
/// Maximum number of offered files of one chat that are expected.
const MAX_OFFERS: u64 = 256;
/// Time for which a file is expected, as in Zeek: five minutes.
const PATIENCE: u64 = 300_000_000_000;

fn probe(heads: &Heads<'_>) -> Probe {
    let is_home = heads.is_home(PROTOCOL.ports);
    let words: [&[u8]; 7] = [b"NICK ", b"USER ", b"PASS ", b"CAP ", b"JOIN ", b"SERVICE ", b"WEBIRC "];
    let fits = |head: &[u8]| words.iter().any(|word| is_begun(head, word));
    if !heads.forward.is_empty() && !fits(heads.forward) && !is_begun(heads.forward, b"STARTTLS\r\n") {
        return Probe::Reject;
    }
    let server = match heads.reverse {
        [] => Probe::Maybe,
        [b':', rest @ ..] => {
            // A server's name, a space, and three digits or NOTICE.
            let line = rest.split(|byte| *byte == b'\n').next().unwrap_or_default();
            let mut parts = line.split(|byte| *byte == b' ');
            let (_, command) = (parts.next(), parts.next());
            match command {
                Some(command) if parts.next().is_some() => match command {
                    b"NOTICE" | b"CAP" | b"PING" | b"MODE" | b"JOIN" => Probe::Match,
                    digits if digits.len() == 3 && digits.iter().all(u8::is_ascii_digit) => {
                        // Other protocols of lines have codes as well: a text follows after a colon.
                        let has_text = line.windows(2).any(|two| two == b" :");
                        if is_home || has_text { Probe::Match } else { Probe::Maybe }
                    }
                    _ => Probe::Reject,
                },
                _ if line.len() < 256 => Probe::Maybe,
                _ => Probe::Reject,
            }
        }
        head => match [&b"NOTICE AUTH "[..], b"NOTICE * ", b"PING ", b"ERROR :"]
            .iter()
            .any(|word| is_begun(head, word))
        {
            true if head.len() > 6 => Probe::Match,
            true => Probe::Maybe,
            false => Probe::Reject,
        },
    };
    if let (Probe::Maybe, []) = (server, heads.reverse) {
        // USER and PASS alone also occur in POP3 and FTP.
        let second = heads.forward.split(|byte| *byte == b'\n').nth(1).unwrap_or_default();
        let first = heads.forward;
        let is_user = is_begun(first, b"USER ") && first.len() > 5;
        let is_nick = is_begun(first, b"NICK ") && first.len() > 5;
        let is_other = second.len() > 5 && fits(second);
        let words = first.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let parts = words.split(|byte| *byte == b' ').count();
        return match (is_nick, is_user) {
            (true, _) if is_other => Probe::Match,
            (_, true) if parts >= 5 && first.contains(&b'\n') => Probe::Match,
            _ => Probe::Maybe,
        };
    }
    server
}

/// Whether the bytes begin with a word, or are a part of it.
fn is_begun(head: &[u8], word: &[u8]) -> bool {
    head.iter().zip(word).all(|(a, b)| a.to_ascii_uppercase() == *b)
}

struct Irc {
    setup: Setup,
    offers: u64,
    sides: [Lines; 2],
    nick: Option<Vec<u8>>,
    user: Option<Vec<u8>>,
    /// Whether the client has requested TLS.
    asked: bool,
    channels: Channels,
}

/// The values of an offered file.
#[derive(Default)]
struct Offered<'a> {
    name: Option<&'a [u8]>,
    size: Option<u64>,
    address: Option<IpAddr>,
    port: Option<u16>,
}

impl Irc {
    fn new(setup: &Setup) -> Self {
        Self {
            setup: setup.clone(),
            offers: 0,
            sides: [Lines::new(MAX_LINE), Lines::new(MAX_LINE)],
            nick: None,
            user: None,
            asked: false,
            channels: Channels::default(),
        }
    }
}

impl Parser for Irc {
    fn chunk(&mut self, chunk: &Chunk<'_>, out: &mut dyn Out) -> Step {
        let side = usize::from(chunk.direction == Direction::Reverse);
        let Some(place) = self.sides.get_mut(side) else { return Step::Next };
        let mut lines = std::mem::replace(place, Lines::new(0));
        if chunk.gap > 0 {
            lines.forget();
        }
        let mut data = chunk.data;
        let mut encrypted = None;
        while encrypted.is_none() {
            match lines.next(&mut data, |line| self.line(line, chunk.direction, chunk.time, out)) {
                Some(true) => encrypted = Some(data.len()),
                Some(false) => {}
                None => break,
            }
        }
        if let Some(place) = self.sides.get_mut(side) {
            *place = lines;
        }
        match encrypted {
            Some(unread) => Step::SwitchTo { protocol: None, unread },
            None => Step::Next,
        }
    }

    /// A line that is too long is so without its end, too.
    fn end(&mut self, time: Time, out: &mut dyn Out) {
        for (lines, direction) in self.sides.iter().zip([Direction::Forward, Direction::Reverse]) {
            let text = untagged(lines.held());
            if text.len() > MAX_PLAIN {
                emit_too_long(text, direction, time, out);
                let (command, _) = command_of(text);
                if command.len() > MAX_COMMAND {
                    PROTOCOL.emit_anomaly("irc_invalid_command", direction, command, time, out);
                }
            }
        }
        self.channels.leave(time, out);
    }

    fn memory(&self) -> usize {
        let names = self.nick.iter().chain(&self.user).map(Vec::capacity);
        self.sides.iter().map(Lines::memory).sum::<usize>() + names.sum::<usize>() + self.channels.memory()
    }
}

/// A line without the tags that may precede it (IRCv3, message tags).
fn untagged(line: &[u8]) -> &[u8] {
    let text = match line {
        [b'@', tagged @ ..] => {
            tagged.iter().position(|byte| *byte == b' ').and_then(|at| tagged.get(at + 1..))
        }
        text => Some(text),
    };
    text.unwrap_or_default().trim_ascii_start()
}

/// The sender that a line may begin with, after a colon; empty without one.
fn prefix_of(text: &[u8]) -> &[u8] {
    text.strip_prefix(b":").and_then(|rest| rest.split(|byte| *byte == b' ').next()).unwrap_or_default()
}

/// The command of a line, and what follows it.
fn command_of(text: &[u8]) -> (&[u8], &[u8]) {
    let rest = match text {
        [b':', rest @ ..] => rest.get(prefix_of(text).len()..).unwrap_or_default().trim_ascii_start(),
        rest => rest,
    };
    let at = rest.iter().position(|byte| *byte == b' ').unwrap_or(rest.len());
    rest.split_at(at)
}

/// Emits that a line is longer than allowed.
fn emit_too_long(text: &[u8], direction: Direction, time: Time, out: &mut dyn Out) {
    if text.len() > MAX_WHOLE {
        PROTOCOL.emit_anomaly("contentline_size_exceeded", direction, text, time, out);
    }
    PROTOCOL.emit_anomaly("irc_line_size_exceeded", direction, text, time, out);
}

impl Irc {
    /// Takes a line. Returns `true` if TLS begins after it.
    fn line(&mut self, line: Line<'_>, direction: Direction, time: Time, out: &mut dyn Out) -> bool {
        out.message(line.unread);
        let text = untagged(line.text);
        if line.is_cut || text.len() > MAX_PLAIN {
            emit_too_long(text, direction, time, out);
        }
        let text = text.get(..MAX_PLAIN).unwrap_or(text);
        let prefix = prefix_of(text);
        let (command, rest) = command_of(text);
        if command.is_empty() {
            return false;
        }
        let is_word = command.len() <= MAX_COMMAND && command.iter().all(u8::is_ascii_alphabetic);
        let is_number = command.len() == 3 && command.iter().all(u8::is_ascii_digit);
        if !is_word && !is_number {
            PROTOCOL.emit_anomaly("irc_invalid_command", direction, command, time, out);
            return false;
        }
        let command = command.to_ascii_uppercase();
        let is_client = direction == Direction::Forward;
        self.channels.message(&command, rest, direction, time, out);
        // The server's messages about other users are not this client's actions, but the files in them are offered to
        // it.
        match command.as_slice() {
            b"NICK" if is_client => {
                let nick = parameters(rest).next().map(<[u8]>::to_vec);
                self.emit(&command, nick.as_deref(), None, direction, time, out);
                self.nick = nick.or(self.nick.take());
            }
            b"USER" if is_client => {
                let mut words = parameters(rest);
                let user = words.next().map(<[u8]>::to_vec);
                let addition = words.collect::<Vec<_>>().join(&b' ');
                self.emit(&command, user.as_deref(), Some(&addition), direction, time, out);
                self.user = user.or(self.user.take());
            }
            b"JOIN" if is_client => {
                let mut words = parameters(rest);
                let channels = words.next().unwrap_or_default();
                let mut keys = words.next().unwrap_or_default().split(|byte| *byte == b',');
                for channel in channels.split(|byte| *byte == b',').take(MAX_CHANNELS) {
                    let addition = keys
                        .next()
                        .filter(|key| !key.is_empty())
                        .map(|key| [b" with channel key: '", key, b"'"].concat());
                    self.emit(&command, Some(channel), addition.as_deref(), direction, time, out);
                }
            }
            b"PRIVMSG" | b"NOTICE" => {
                let mut words = parameters(rest);
                let (target, message) = (words.next(), words.next().unwrap_or_default());
                if let Some(offer) = message.strip_prefix(b"\x01DCC SEND ") {
                    self.offer(offer, target, prefix, direction, time, out);
                }
            }
            b"STARTTLS" if is_client => self.asked = true,
            // RPL_STARTTLS.
            b"670" if !is_client && self.asked => return true,
            b"001" if !is_client && self.nick.is_none() => {
                self.nick = parameters(rest).next().map(<[u8]>::to_vec);
            }
            _ => {}
        }
        false
    }

    fn row<'a>(
        &'a self,
        command: &'a [u8],
        value: Option<&'a [u8]>,
        addition: Option<&'a [u8]>,
        offered: Offered<'a>,
        direction: Direction,
        time: Time,
    ) -> Record<'a> {
        record!(
            IRC,
            time,
            nick = self.nick.as_ref(),
            user = self.user.as_ref(),
            command = command,
            value = value,
            addition = addition.filter(|addition| !addition.is_empty()),
            dcc_file_name = offered.name,
            dcc_file_size = offered.size,
            dcc_mime_type = Value::None,
            dcc_address = offered.address,
            dcc_port = offered.port,
            reverse = direction == Direction::Reverse,
        )
    }

    fn emit(
        &self,
        command: &[u8],
        value: Option<&[u8]>,
        addition: Option<&[u8]>,
        direction: Direction,
        time: Time,
        out: &mut dyn Out,
    ) {
        let record = self.row(command, value, addition, Offered::default(), direction, time);
        early!(out, IRC, of { &record } nick, user, command, value, addition);
        out.record(record);
    }

    /// Handles an offered file: `name address port size`.
    fn offer(
        &mut self,
        offer: &[u8],
        target: Option<&[u8]>,
        prefix: &[u8],
        direction: Direction,
        time: Time,
        out: &mut dyn Out,
    ) {
        let offer = offer.strip_suffix(b"\x01").unwrap_or(offer);
        // A name with spaces is in quotes; the fields after it have none.
        let (name, rest) = match offer {
            [b'"', quoted @ ..] => match quoted.iter().position(|byte| *byte == b'"') {
                Some(at) => (quoted.get(..at).unwrap_or_default(), quoted.get(at + 1..).unwrap_or_default()),
                None => (quoted, &[][..]),
            },
            _ => offer.split_at(offer.iter().position(|byte| *byte == b' ').unwrap_or(offer.len())),
        };
        let mut words = rest.split(|byte| *byte == b' ').filter(|word| !word.is_empty());
        let mut next = || words.next().and_then(|word| std::str::from_utf8(word).ok());
        let address = next().and_then(|word| match word.parse::<u32>() {
            Ok(number) => Some(IpAddr::V4(Ipv4Addr::from(number))),
            Err(_) => word.parse().ok(),
        });
        let port = next().and_then(|word| word.parse::<u16>().ok());
        let size = next().and_then(|word| word.parse::<u64>().ok());
        let (Some(address), Some(port)) = (address, port) else {
            return PROTOCOL.emit_anomaly("irc_invalid_dcc_message_format", direction, offer, time, out);
        };
        let sender = Some(prefix).filter(|prefix| !prefix.is_empty()).or(target);
        let offered = Offered { name: Some(name), size, address: Some(address), port: Some(port) };
        out.record(self.row(b"DCC", sender, None, offered, direction, time));
        // Port 0 asks the other side to listen (passive DCC); it replies with another offer.
        if port == 0 || self.offers == MAX_OFFERS {
            return;
        }
        self.offers += 1;
        // The identifier of the file's flow is not known yet: its file is named after this flow.
        let flow = self.setup.flow.rotate_left(17) ^ self.offers;
        let responder = (address, port);
        let setup = Setup { flow, responder, ip_proto: TCP, ..self.setup.clone() };
        out.expect(Expected {
            flow: self.setup.flow,
            responder,
            initiator: None,
            ip_proto: TCP,
            from: time,
            until: Time(time.0.saturating_add(PATIENCE)),
            protocol: &DCC,
            parser: Box::new(dcc::Dcc::new(&setup, name.to_vec(), size)),
        });
    }
}

/// The parameters of a message; the last one may contain spaces.
fn parameters(rest: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = rest;
    std::iter::from_fn(move || {
        rest = rest.trim_ascii_start();
        match rest {
            [] => None,
            [b':', last @ ..] => {
                rest = &[];
                Some(last)
            }
            _ => {
                let at = rest.iter().position(|byte| *byte == b' ').unwrap_or(rest.len());
                let (word, left) = rest.split_at(at);
                rest = left;
                Some(word)
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FILES;
    use crate::laws::{Collected, talks};
    use crate::talk::{Talk, Turn};

    #[test]
    fn names_channels_and_files_are_emitted() {
        let talks = talks("irc", 6667);
        let (_, talk) = talks.iter().find(|(path, _)| path.ends_with("session.talk")).unwrap();
        let mut emitted = talk.emitted(|data| vec![data.to_vec()]);
        let rows: Vec<_> = emitted.records.iter().filter(|record| *record.table == IRC).collect();
        let commands: Vec<_> = rows.iter().map(|record| record.get("command").clone()).collect();
        assert_eq!(commands, ["NICK", "USER", "JOIN", "JOIN", "DCC", "DCC", "NICK"].map(Value::from));
        assert_eq!(*rows[5].get("dcc_file_name"), "two words.zip".into());
        let mut file = emitted.expected.remove(0);
        assert_eq!(file.responder, ("192.0.2.1".parse().unwrap(), 5000));
        let (mut out, time) = (Collected::default(), Time(1));
        let chunk = Chunk { time, direction: Direction::Reverse, gap: 0, data: &[b'x'; 1234] };
        file.parser.chunk(&chunk, &mut out);
        file.parser.end(time, &mut out);
        let files: Vec<_> = out.records.iter().filter(|record| *record.table == FILES).collect();
        assert_eq!(*files[0].get("filename"), "notes.txt".into());
        assert_eq!(*files[0].get("state"), "CLOSED".into());
    }

    /// A line has at most 512 bytes without its tags, with an end or without one.
    #[test]
    fn lines_that_are_too_long_are_reported() {
        let names = |last: &[u8]| {
            let first = b"NICK foo\r\nUSER foo 0 * :foo\r\n";
            let turns = vec![Turn::Data(Direction::Forward, [&first[..], last].concat())];
            let talk = Talk { ip_proto: TCP, ports: [40_000, 6667], turns };
            let whole = talk.emitted(|data| vec![data.to_vec()]);
            let cut = talk.emitted(|data| data.chunks(7).map(<[u8]>::to_vec).collect());
            let [whole, cut] = [whole, cut].map(|emitted| {
                let found = emitted.records.iter().filter(|record| *record.table == crate::ANOMALY);
                found.map(|record| record.get("name").clone().into_owned()).collect::<Vec<_>>()
            });
            assert_eq!(whole, cut);
            whole
        };
        let long = [&b"PRIVMSG #c :"[..], &[b'a'; 501]].concat();
        assert_eq!(names(&long), ["irc_line_size_exceeded".into()]);
        assert_eq!(names(&[&long[..], b"\r\n"].concat()), ["irc_line_size_exceeded".into()]);
        assert_eq!(names(&[&b"@time=x "[..], &long[1..]].concat()), []);
        assert_eq!(names(&long[1..]), []);
        assert_eq!(names(b""), []);
        let word = [b'a'; 1200];
        let expected =
            ["contentline_size_exceeded", "irc_line_size_exceeded", "irc_invalid_command"].map(Into::into);
        assert_eq!(names(&word), expected);
        assert_eq!(names(&[&word[..], b"\r\n"].concat()), expected);
    }
}
