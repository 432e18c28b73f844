//! Conversations as text: the format of `testdata/<protocol>/<case>.talk`, which testdata/README.md describes.

use crate::{TCP, UDP};
use std::fmt::{self, Write};
use weir_wire::Direction;

/// A line of a conversation is broken after the first character at which it has this many.
const WIDTH: usize = 110;

/// The bytes of one side, or a gap.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Turn {
    /// The bytes that one side sends until the other side sends; over UDP one datagram.
    Data(Direction, Vec<u8>),
    /// A gap of this many bytes on that side.
    Gap(Direction, u64),
}

/// The payload of both sides of one flow, in order and without times.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Talk {
    /// IP protocol number: TCP or UDP.
    pub ip_proto: u8,
    /// The initiator's and the responder's port.
    pub ports: [u16; 2],
    /// Data and gaps.
    pub turns: Vec<Turn>,
}

impl Talk {
    /// Parses the text of a conversation. `ports` are the ports of a text that does not name its own.
    ///
    /// # Errors
    ///
    /// The number of the first invalid line, from 1, and its error.
    pub fn parse(text: &str, ports: [u16; 2]) -> Result<Self, String> {
        let mut talk = Self { ip_proto: TCP, ports, turns: Vec::new() };
        for (number, line) in text.lines().enumerate() {
            talk.line(line).map_err(|error| format!("line {}: {error}: {line}", number + 1))?;
        }
        Ok(talk)
    }

    fn line(&mut self, line: &str) -> Result<(), String> {
        let (mark, rest) = line.split_at_checked(2).unwrap_or((line, ""));
        match mark.trim_end() {
            "" if rest.is_empty() => {}
            "" => match self.turns.last_mut() {
                Some(Turn::Data(_, data)) => data.extend(unescaped(rest)?),
                _ => return Err("no block precedes this line".to_owned()),
            },
            ">" => self.turns.push(Turn::Data(Direction::Forward, unescaped(rest)?)),
            "<" => self.turns.push(Turn::Data(Direction::Reverse, unescaped(rest)?)),
            "!" => {
                let gap = rest.split_once(' ').and_then(|(side, bytes)| {
                    let side = match side {
                        "forward" => Direction::Forward,
                        "reverse" => Direction::Reverse,
                        _ => return None,
                    };
                    Some(Turn::Gap(side, bytes.parse().ok()?))
                });
                self.turns.push(gap.ok_or("a gap is `! forward N` or `! reverse N`")?);
            }
            ":" => {
                let words: Vec<&str> = rest.split(' ').collect();
                let [transport, initiator, responder] = words.as_slice() else {
                    return Err("a flow is `: tcp PORT PORT` or `: udp PORT PORT`".to_owned());
                };
                self.ip_proto = match *transport {
                    "tcp" => TCP,
                    "udp" => UDP,
                    _ => return Err("neither tcp nor udp".to_owned()),
                };
                let port = |word: &str| word.parse().map_err(|_| format!("{word} is no port"));
                self.ports = [port(initiator)?, port(responder)?];
            }
            mark if mark.starts_with('#') => {}
            _ => return Err("a line begins with one of `> < ! : #` or two blanks".to_owned()),
        }
        Ok(())
    }
}

impl fmt::Display for Talk {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut writer = Writer::new(self.ip_proto);
        out.write_str(&writer.head(self.ports))?;
        for turn in &self.turns {
            out.write_str(&match turn {
                Turn::Data(direction, data) => writer.data(*direction, data),
                Turn::Gap(direction, bytes) => writer.gap(*direction, *bytes),
            })?;
        }
        Ok(())
    }
}

/// Writes a conversation piece by piece.
#[derive(Clone, Copy, Debug)]
pub struct Writer {
    ip_proto: u8,
    /// The side whose block was written last, if its next bytes continue that block.
    open: Option<Direction>,
}

impl Writer {
    /// A writer for a flow of that IP protocol.
    pub fn new(ip_proto: u8) -> Self {
        Self { ip_proto, open: None }
    }

    /// The first line: transport, the initiator's and the responder's port.
    pub fn head(&self, ports: [u16; 2]) -> String {
        let transport = if self.ip_proto == UDP { "udp" } else { "tcp" };
        format!(": {transport} {} {}\n", ports[0], ports[1])
    }

    /// A line for a gap.
    pub fn gap(&mut self, direction: Direction, bytes: u64) -> String {
        self.open = None;
        let side = if direction == Direction::Forward { "forward" } else { "reverse" };
        format!("! {side} {bytes}\n")
    }

    /// Writes the next bytes of a side. Over TCP they continue its block, if the other side has sent nothing since;
    /// over UDP each call is one datagram and one block.
    pub fn data(&mut self, direction: Direction, data: &[u8]) -> String {
        let mark = if direction == Direction::Forward { "> " } else { "< " };
        let continues = self.ip_proto == TCP && self.open == Some(direction);
        self.open = Some(direction);
        if continues && data.is_empty() {
            return String::new();
        }
        let mut text = String::from(if continues { "  " } else { mark });
        let mut start = 0;
        for (at, byte) in data.iter().enumerate() {
            escape(*byte, &mut text);
            let is_last = at + 1 == data.len();
            if !is_last && (*byte == b'\n' || text.len() - start >= WIDTH) {
                shield_last_blank(*byte, &mut text);
                text.push_str("\n  ");
                start = text.len();
            } else if is_last {
                shield_last_blank(*byte, &mut text);
            }
        }
        text.push('\n');
        text
    }
}

/// Appends a byte, escaped unless it is plain ASCII text.
fn escape(byte: u8, text: &mut String) {
    match byte {
        b'\r' => text.push_str("\\r"),
        b'\n' => text.push_str("\\n"),
        b'\t' => text.push_str("\\t"),
        b'\\' => text.push_str("\\\\"),
        0 => text.push_str("\\0"),
        b' '..=b'~' => text.push(char::from(byte)),
        _ => {
            // Writing to a String does not fail.
            let _ = write!(text, "\\x{byte:02x}");
        }
    }
}

/// A space at the end of a line is escaped: editors remove spaces there.
fn shield_last_blank(byte: u8, text: &mut String) {
    if byte == b' ' {
        text.pop();
        text.push_str("\\x20");
    }
}

/// The bytes of a text with the escapes `\r \n \t \0 \\ \xNN` of Rust.
fn unescaped(text: &str) -> Result<Vec<u8>, String> {
    let (mut bytes, mut chars) = (Vec::with_capacity(text.len()), text.chars());
    while let Some(c) = chars.next() {
        if c != '\\' {
            bytes.extend(c.encode_utf8(&mut [0; 4]).as_bytes());
            continue;
        }
        bytes.push(match chars.next() {
            Some('r') => b'\r',
            Some('n') => b'\n',
            Some('t') => b'\t',
            Some('0') => 0,
            Some('\\') => b'\\',
            Some('x') => {
                let digits: String = chars.by_ref().take(2).collect();
                u8::from_str_radix(&digits, 16).map_err(|_| format!("\\x{digits} is no byte"))?
            }
            _ => return Err("an escape is one of \\r \\n \\t \\0 \\\\ \\xNN".to_owned()),
        });
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::laws::all_talks;
    use proptest::prelude::*;

    /// The turns without their cuts: over TCP, consecutive data of one side is one block.
    fn joined(talk: &Talk) -> Vec<Turn> {
        let mut turns: Vec<Turn> = Vec::new();
        for turn in &talk.turns {
            match (turns.last_mut(), turn) {
                (Some(Turn::Data(last, before)), Turn::Data(direction, data))
                    if talk.ip_proto == TCP && last == direction =>
                {
                    before.extend(data);
                }
                _ => turns.push(turn.clone()),
            }
        }
        turns
    }

    fn reads_back(talk: &Talk) {
        let text = talk.to_string();
        let read = Talk::parse(&text, [0, 0]).unwrap();
        assert_eq!((read.ip_proto, read.ports), (talk.ip_proto, talk.ports));
        assert_eq!(read.turns, joined(talk), "{text}");
        assert!(text.lines().all(|line| line == line.trim_end() || line.len() == 2), "{text}");
    }

    #[test]
    fn conversations_of_the_tests_are_read_back_unchanged() {
        let mut read = 0;
        for (_, talk) in all_talks() {
            reads_back(&talk);
            read += 1;
        }
        assert!(read >= 100, "{read} conversations");
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_back(
            is_udp: bool,
            ports: [u16; 2],
            turns in prop::collection::vec((any::<bool>(), prop::option::of(1..9_u64), prop::collection::vec(any::<u8>(), 0..300)), 0..8),
        ) {
            let side = |forward| if forward { Direction::Forward } else { Direction::Reverse };
            let turns = turns.into_iter().map(|(forward, gap, data)| match gap {
                Some(gap) => Turn::Gap(side(forward), gap),
                None => Turn::Data(side(forward), data),
            });
            reads_back(&Talk { ip_proto: if is_udp { UDP } else { TCP }, ports, turns: turns.collect() });
        }
    }

    #[test]
    fn errors_name_the_line() {
        for (text, error) in [
            ("  x", "line 1: no block precedes this line:   x"),
            ("# comment\n? x", "line 2: a line begins with one of `> < ! : #` or two blanks: ? x"),
            ("> a\\q", "line 1: an escape is one of \\r \\n \\t \\0 \\\\ \\xNN: > a\\q"),
            ("> \\xg0", "line 1: \\xg0 is no byte: > \\xg0"),
            ("! sideways 3", "line 1: a gap is `! forward N` or `! reverse N`: ! sideways 3"),
            (": sctp 1 2", "line 1: neither tcp nor udp: : sctp 1 2"),
            (": tcp 1", "line 1: a flow is `: tcp PORT PORT` or `: udp PORT PORT`: : tcp 1"),
            (": tcp 1 70000", "line 1: 70000 is no port: : tcp 1 70000"),
            ("é", "line 1: a line begins with one of `> < ! : #` or two blanks: é"),
        ] {
            assert_eq!(Talk::parse(text, [0, 0]), Err(error.to_owned()));
        }
    }
}
