//! Telnet (RFC 854): typed text with its output, logins, and the options, which are separated from the text.

use crate::work::looked_at;
use crate::{
    Heads, Kind, Out, Parser, Privacy, Probe, Protocol, Span, Step, Table, Transport, Value, field, record,
};
use weir_wire::stream::Chunk;
use weir_wire::{Direction, Time};

pub(crate) static PROTOCOL: Protocol = Protocol {
    name: "telnet",
    help: "Telnet (RFC 854).",
    transport: Transport::Tcp,
    ports: &[23, 2323],
    probe,
    parser: |_| Box::new(Telnet::default()),
    tables: &[&TELNET, &SESSION],
    buffers: &[],
};

static TELNET: Table = Table {
    name: "telnet",
    help: "A typed line, with the server's output up to the next one.",
    zeek: "",
    eve: "",
    fields: &[
        field("user", Kind::Text, "User name typed at the last login prompt.").privacy(Privacy::User),
        field("prompt", Kind::Text, "Line of the server when typing began: the prompt.")
            .privacy(Privacy::Content),
        field("line", Kind::Text, "Text that was typed; no value at a password prompt.")
            .privacy(Privacy::Content),
        field("answers", Kind::List(&Kind::Text), "Lines of the server after the typed line.")
            .privacy(Privacy::Content),
    ],
};

static SESSION: Table = Table {
    name: "telnet_session",
    help: "A Telnet session, emitted at its end.",
    zeek: "",
    eve: "",
    fields: &[
        field("user", Kind::Text, "User name typed at the last login prompt.").privacy(Privacy::User),
        field("terminal", Kind::Text, "Terminal type of the client (RFC 1091)."),
        field("client_options", Kind::List(&Kind::Text), "Options that the client sent, such as WILL 31."),
        field("server_options", Kind::List(&Kind::Text), "Options that the server sent."),
        field("client_bytes", Kind::Uint, "Bytes of text that the client sent."),
        field("server_bytes", Kind::Uint, "Bytes of text that the server sent."),
    ],
};

/// Maximum length of a line in bytes.
const MAX_LINE: usize = 512;
/// Maximum number of output lines after a typed one.
const MAX_ANSWERS: usize = 32;
/// Maximum number of options of a side; about 50 exist.
const MAX_OPTIONS: usize = 64;
/// Maximum length of a subnegotiation in bytes: names of terminals have at most 40.
const MAX_SUB: usize = 64;

const IAC: u8 = 255;

fn probe(heads: &Heads<'_>) -> Probe {
    let is_home = heads.is_home(PROTOCOL.ports);
    let (Some(client), Some(server)) = (commands(heads.forward), commands(heads.reverse)) else {
        return Probe::Reject;
    };
    // One command has few fixed bits: the port, another one or text after it makes it one.
    match client + server {
        2.. => Probe::Match,
        1 if is_home => Probe::Match,
        1 => Probe::Maybe,
        // Plain text is unspecific: only the port decides.
        0 if is_home => Probe::Maybe,
        0 => Probe::Reject,
    }
}

/// Number of commands with which a side begins, and one more if text follows them; `None` if it is neither.
fn commands(head: &[u8]) -> Option<u32> {
    /// Number of bytes of text after a command that make it one.
    const TEXT: usize = 4;
    let is_text =
        |byte: &u8| byte.is_ascii_graphic() || byte.is_ascii_whitespace() || matches!(byte, 0 | 7 | 8 | 27);
    let (mut rest, mut found) = (head, 0);
    while found < 2 {
        rest = match rest {
            [IAC, 250..=254, 64..=255, ..] => return None,
            // The value of an option is as long as it likes to be.
            [IAC, 250, _, ..] => return Some(found + 1),
            [IAC, 251..=254, _, more @ ..] => more,
            [IAC] | [IAC, 250..=254] => return Some(found),
            text if found == 0 => return text.iter().take(64).all(is_text).then_some(0),
            text => {
                let begun = text.get(..TEXT).unwrap_or(text);
                let is_enough = begun.len() == TEXT;
                return begun.iter().all(is_text).then_some(found + u32::from(is_enough));
            }
        };
        found += 1;
    }
    Some(found)
}

/// The state within an option.
#[derive(Clone, Copy, Debug, Default)]
enum At {
    #[default]
    Text,
    Iac,
    Verb(u8),
    Sub,
    SubIac,
}

/// State of one direction.
#[derive(Debug, Default)]
struct Side {
    at: At,
    sub: Vec<u8>,
    options: Vec<Vec<u8>>,
    bytes: u64,
    line: Vec<u8>,
    /// Whether the last byte was `\r`: the next byte belongs to it.
    is_return: bool,
}

/// A typed line.
#[derive(Debug)]
struct Typed {
    time: Time,
    /// Its bytes, and those of the answers.
    at: Span,
    user: Option<Vec<u8>>,
    prompt: Vec<u8>,
    line: Option<Vec<u8>>,
    answers: Vec<Vec<u8>>,
}

#[derive(Default)]
struct Telnet {
    begun: Option<Time>,
    client: Side,
    server: Side,
    user: Option<Vec<u8>>,
    terminal: Option<Vec<u8>>,
    /// The server's line when typing began.
    prompt: Option<Vec<u8>>,
    typed: Option<Typed>,
}

impl Parser for Telnet {
    fn chunk(&mut self, chunk: &Chunk<'_>, out: &mut dyn Out) -> Step {
        self.begun.get_or_insert(chunk.time);
        let is_client = chunk.direction == Direction::Forward;
        if chunk.gap > 0 {
            let side = if is_client { &mut self.client } else { &mut self.server };
            (side.at, side.is_return) = (At::Text, false);
            side.line.clear();
            side.sub.clear();
            self.prompt = None;
        }
        for (at, byte) in chunk.data.iter().enumerate() {
            looked_at(1);
            let unread = chunk.data.len() - at - 1;
            let side = if is_client { &mut self.client } else { &mut self.server };
            let Some(text) = side.option(*byte, &mut self.terminal) else { continue };
            side.bytes += 1;
            match is_client {
                true => self.type_in(text, unread, chunk.time, out),
                false => self.print(text, unread, out),
            }
        }
        Step::Next
    }

    fn end(&mut self, time: Time, out: &mut dyn Out) {
        self.finish(out);
        let list = |texts: &[Vec<u8>]| match texts {
            [] => Value::None,
            texts => texts.iter().cloned().collect(),
        };
        out.record(record!(
            SESSION,
            self.begun.unwrap_or(time),
            user = self.user.clone(),
            terminal = self.terminal.clone(),
            client_options = list(&self.client.options),
            server_options = list(&self.server.options),
            client_bytes = self.client.bytes,
            server_bytes = self.server.bytes,
        ));
    }

    fn memory(&self) -> usize {
        let of = |side: &Side| side.line.capacity() + side.sub.capacity() + side.options.len() * 40;
        let answers = self.typed.iter().flat_map(|typed| &typed.answers).map(|line| line.capacity() + 24);
        of(&self.client) + of(&self.server) + answers.sum::<usize>()
    }
}

impl Side {
    /// Takes a byte and returns it if it is text.
    fn option(&mut self, byte: u8, terminal: &mut Option<Vec<u8>>) -> Option<u8> {
        match (self.at, byte) {
            (At::Text, IAC) => self.at = At::Iac,
            (At::Text, text) => return Some(text),
            (At::Iac, IAC) => {
                self.at = At::Text;
                return Some(IAC);
            }
            (At::Iac, 251..=254) => self.at = At::Verb(byte),
            (At::Iac, 250) => {
                self.sub.clear();
                self.at = At::Sub;
            }
            (At::Iac, _) => self.at = At::Text,
            (At::Verb(verb), option) => {
                self.at = At::Text;
                let verb = match verb {
                    251 => "WILL",
                    252 => "WONT",
                    253 => "DO",
                    _ => "DONT",
                };
                let named = format!("{verb} {option}").into_bytes();
                if self.options.len() < MAX_OPTIONS && !self.options.contains(&named) {
                    self.options.push(named);
                }
            }
            (At::Sub, IAC) => self.at = At::SubIac,
            (At::SubIac, 240) => {
                self.at = At::Text;
                // TERMINAL-TYPE IS.
                if let [24, 0, name @ ..] = self.sub.as_slice() {
                    *terminal = Some(name.to_vec());
                }
                self.sub.clear();
            }
            (At::Sub | At::SubIac, byte) => {
                self.at = At::Sub;
                if self.sub.len() < MAX_SUB {
                    self.sub.push(byte);
                }
            }
        }
        None
    }
}

impl Telnet {
    fn type_in(&mut self, byte: u8, unread: usize, time: Time, out: &mut dyn Out) {
        let was_return = std::mem::replace(&mut self.client.is_return, byte == b'\r');
        match byte {
            b'\n' | 0 if was_return => {}
            b'\r' | b'\n' => {
                let at = out.message(unread);
                self.enter(at, time, out);
            }
            8 | 127 => {
                self.client.line.pop();
            }
            _ => {
                if self.prompt.is_none() {
                    self.prompt = Some(self.server.line.clone());
                }
                if self.client.line.len() < MAX_LINE {
                    self.client.line.push(byte);
                }
            }
        }
    }

    /// Handles the end of a typed line.
    fn enter(&mut self, at: Span, time: Time, out: &mut dyn Out) {
        self.finish(out);
        let line = std::mem::take(&mut self.client.line);
        let prompt = self.prompt.take().unwrap_or_else(|| self.server.line.clone());
        let asked = prompt.trim_ascii().to_ascii_lowercase();
        let asks = |word: &[u8]| asked.ends_with(word);
        let is_secret = asks(b"password:") || asks(b"password") || asks(b"passwort:") || asks(b"passcode:");
        if asks(b"login:") || asks(b"username:") || asks(b"user:") || asks(b"user name:") {
            self.user = Some(line.clone()).filter(|line| !line.is_empty());
        }
        let line = Some(line).filter(|_| !is_secret);
        self.typed = Some(Typed { time, at, user: self.user.clone(), prompt, line, answers: Vec::new() });
        // The server's echo ends its line.
        self.server.line.clear();
    }

    fn print(&mut self, byte: u8, unread: usize, out: &mut dyn Out) {
        match byte {
            b'\n' => {
                let at = out.message(unread);
                if let Some(typed) = &mut self.typed {
                    typed.at.add(at);
                }
                let line = std::mem::take(&mut self.server.line);
                let answers = self.typed.as_mut().map(|typed| &mut typed.answers);
                if let Some(answers) =
                    answers.filter(|answers| answers.len() < MAX_ANSWERS && !line.is_empty())
                {
                    answers.push(line);
                }
            }
            b'\r' | 0 | 7 => {}
            8 => {
                self.server.line.pop();
            }
            _ => {
                if self.server.line.len() < MAX_LINE {
                    self.server.line.push(byte);
                }
            }
        }
    }

    fn finish(&mut self, out: &mut dyn Out) {
        let Some(typed) = self.typed.take() else { return };
        let Typed { time, at, user, prompt, line, answers } = typed;
        let record = record!(
            TELNET,
            time,
            user = user,
            prompt = Some(prompt).filter(|prompt| !prompt.is_empty()),
            line = line,
            answers = Value::list(answers),
        );
        out.record(record.over(at));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::laws::talks;

    #[test]
    fn user_names_are_emitted_and_passwords_are_not() {
        let talks = talks("telnet", 23);
        let (_, talk) = talks.iter().find(|(path, _)| path.ends_with("login.talk")).unwrap();
        let emitted = talk.emitted(|data| vec![data.to_vec()]);
        let typed: Vec<_> = emitted.records.iter().filter(|record| *record.table == TELNET).collect();
        let users: Vec<_> = typed.iter().map(|record| record.get("user").clone()).collect();
        assert_eq!(users, ["alice", "alice", "bob", "bob", "bob", "bob"].map(Value::from));
        assert!(typed[1].get("line").is_none() && typed[3].get("line").is_none());
        assert_eq!(*typed[4].get("line"), Value::from(&b"ls -l \xff"[..]));
        let session = emitted.records.last().unwrap();
        assert_eq!(*session.get("terminal"), "xterm".into());
    }
}
