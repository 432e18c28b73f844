//! SOCKS versions 4, 4a and 5 (RFC 1928, RFC 1929): the requested target. Payload through the proxy is identified like
//! that of any flow.

use crate::work::looked_at;
use crate::{
    Heads, Kind, Out, Parser, Privacy, Probe, Protocol, Step, Table, Transport, field, record, tunnel,
};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use weir_wire::stream::Chunk;
use weir_wire::{Direction, Reader, Time};

pub(crate) static PROTOCOL: Protocol = Protocol {
    name: "socks",
    help: "SOCKS 4, 4a and 5 (RFC 1928), until the proxy has connected.",
    transport: Transport::Tcp,
    ports: &[1080],
    probe,
    parser: |_| Box::new(Socks::default()),
    tables: &[&SOCKS],
    buffers: &[],
};

static SOCKS: Table = Table {
    name: "socks",
    help: "A requested connection, emitted when the proxy answers, or when the flow ends.",
    zeek: "socks",
    eve: "",
    fields: &[
        field("version", Kind::Uint, "Version of the protocol: 4 or 5.").zeek("version"),
        field("user", Kind::Text, "User name that the client sent.").zeek("user").privacy(Privacy::User),
        field("password", Kind::Text, "Password that the client sent.")
            .zeek("password")
            .privacy(Privacy::Secret),
        field("status", Kind::Word, "Result of the request, by the proxy's reply.").zeek("status"),
        field("host", Kind::Address, "Address that the client requests.").zeek("request.host"),
        field("name", Kind::Text, "Host name that the client requests.")
            .zeek("request.name")
            .privacy(Privacy::Name),
        field("port", Kind::Port, "Port that the client requests.").zeek("request_p"),
        field("bound_host", Kind::Address, "Address that the proxy uses (bound address).").zeek("bound.host"),
        field("bound_name", Kind::Text, "Host name that the proxy uses (bound name).")
            .zeek("bound.name")
            .privacy(Privacy::Name),
        field("bound_port", Kind::Port, "Port that the proxy uses (bound port).").zeek("bound_p"),
        field("command", Kind::Word, "Command of the request: connect, bind or associate."),
    ],
};

/// Maximum number of held bytes of one side: the longest message has two texts of 255 bytes.
const MAX_HELD: usize = 1024;

const CONNECT: u8 = 1;
const BIND: u8 = 2;
const ASSOCIATE: u8 = 3;
const NO_LOGIN: u8 = 0;
const PASSWORD: u8 = 2;

fn probe(heads: &Heads<'_>) -> Probe {
    let is_home = heads.is_home(PROTOCOL.ports);
    // A proxy behind a firewall connects to its client (reverse proxy).
    match speaks(heads.forward, heads.reverse, is_home) {
        Probe::Reject => speaks(heads.reverse, heads.forward, is_home),
        answer => answer,
    }
}

/// Whether a client and a proxy begin like this. Version 5 begins with few fixed bits, so that on other ports the methods
/// must be assigned ones, and what follows the choice must belong to the chosen method.
fn speaks(client: &[u8], proxy: &[u8], is_home: bool) -> Probe {
    let answer = |is_good: &dyn Fn(u8) -> bool, first: u8| match proxy {
        [] => Probe::Maybe,
        [version] if *version == first => Probe::Maybe,
        [version, steps, ..] if *version == first && is_good(*steps) => Probe::Match,
        _ => Probe::Reject,
    };
    match client {
        [4 | 5] => Probe::Maybe,
        [5, methods @ ..] => {
            let Some((count, offered)) = methods.split_first() else { return Probe::Maybe };
            let offered = offered.get(..usize::from(*count)).unwrap_or(offered);
            // The client sends nothing more before the proxy has chosen.
            if *count == 0 || proxy.is_empty() && methods.len() > 1 + usize::from(*count) {
                return Probe::Reject;
            }
            if !is_home && !are_methods(*count, offered) {
                return Probe::Reject;
            }
            let begun = answer(&|chosen| chosen == 0xff || offered.contains(&chosen), 5);
            match (begun, proxy) {
                (Probe::Match, [_, chosen, replies @ ..]) if !is_home => {
                    let requests = methods.get(1 + usize::from(*count)..).unwrap_or_default();
                    goes_on(*chosen, offered.len() == usize::from(*count), requests, replies)
                }
                _ => begun,
            }
        }
        [4, command, ..] => {
            // The user name ends with a zero byte before the proxy answers.
            let name = client.get(8..).unwrap_or_default();
            let is_whole = name.contains(&0);
            let is_text = name.iter().take_while(|byte| **byte != 0).all(|byte| !byte.is_ascii_control());
            if !matches!(*command, CONNECT | BIND) || !is_text || !is_whole && !proxy.is_empty() {
                return Probe::Reject;
            }
            answer(&|status| (0x5a..=0x5d).contains(&status), 0)
        }
        _ => Probe::Reject,
    }
}

/// Whether a number of methods and the first of them can be a client's offer: assigned or private ones (RFC 1928, section
/// 3), each at most once.
fn are_methods(count: u8, offered: &[u8]) -> bool {
    /// More methods than any client has.
    const MOST: u8 = 16;
    let is_one = |(at, method): (usize, &u8)| {
        matches!(method, 0..=9 | 0x80..=0xfe) && !offered.iter().take(at).any(|before| before == method)
    };
    count <= MOST && offered.iter().enumerate().all(is_one)
}

/// Whether both sides go on as the chosen method requires. `is_whole`: the offer has arrived whole.
fn goes_on(chosen: u8, is_whole: bool, requests: &[u8], replies: &[u8]) -> Probe {
    let fits = |at: usize, is_good: &dyn Fn(u8) -> bool| requests.get(at).is_none_or(|byte| is_good(*byte));
    let (is_good, is_enough) = match chosen {
        // A request with a kind of address follows.
        NO_LOGIN => {
            let is_request = fits(0, &|version| version == 5)
                && fits(1, &|command| matches!(command, CONNECT..=ASSOCIATE))
                && fits(2, &|reserved| reserved == 0)
                && fits(3, &|kind| matches!(kind, 1 | 3 | 4));
            (is_request, requests.len() >= 4)
        }
        // A name follows, and a status for it (RFC 1929). Some proxies repeat the version of the protocol.
        PASSWORD => {
            let is_login = fits(0, &|version| version == 1) && fits(1, &|length| length > 0);
            let is_status = replies.first().is_none_or(|version| matches!(version, 1 | 5));
            (is_login && is_status, requests.len() >= 2 && !replies.is_empty())
        }
        // Nothing follows a refusal.
        0xff => (is_whole && requests.is_empty() && replies.is_empty(), true),
        _ => (true, true),
    };
    match (is_good, is_enough) {
        (true, true) => Probe::Match,
        (true, false) => Probe::Maybe,
        (false, _) => Probe::Reject,
    }
}

/// The host or name to connect to.
#[derive(Default)]
struct Target {
    host: Option<IpAddr>,
    name: Option<Vec<u8>>,
    port: Option<u16>,
}

impl Target {
    /// Reads a target in the format of version 5.
    fn read(reader: &mut Reader<'_>) -> Option<Self> {
        let mut target = Self::default();
        match reader.u8()? {
            1 => target.host = Some(Ipv4Addr::from(reader.u32()?).into()),
            3 => {
                let length = reader.u8()?;
                target.name = Some(reader.take(length.into())?.to_vec());
            }
            4 => target.host = Some(Ipv6Addr::from(*reader.take(16)?.first_chunk::<16>()?).into()),
            _ => return None,
        }
        target.port = Some(reader.u16()?);
        Some(target)
    }
}

/// The next message of a side.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
enum Next {
    #[default]
    Greeting,
    /// The client waits for the choice of the proxy.
    Choice,
    Login,
    Request,
    Done,
}

/// The result of reading a message.
enum Read {
    /// A message of this length.
    Bytes(usize),
    /// More bytes are needed.
    More,
    /// The bytes are no message.
    Wrong,
}

#[derive(Default)]
struct Socks {
    /// The side that sent first, which is the client.
    client: Option<Direction>,
    /// Unread bytes of the client and of the proxy.
    held: [Vec<u8>; 2],
    next: [Next; 2],
    begun: Option<Time>,
    version: u8,
    command: u8,
    user: Option<Vec<u8>>,
    password: Option<Vec<u8>>,
    status: Option<&'static str>,
    request: Target,
    bound: Target,
    /// Number of replies to the request.
    answers: u8,
    is_refused: bool,
    /// The row of the tunnel was emitted.
    is_tunnel: bool,
}

/// The text up to the next zero byte.
fn text<'a>(reader: &mut Reader<'a>) -> Option<&'a [u8]> {
    let length = reader.rest().iter().position(|byte| *byte == 0)?;
    let text = reader.take(length)?;
    reader.u8()?;
    Some(text)
}

fn status(version: u8, code: u8) -> &'static str {
    match (version, code) {
        (4, 0x5a) | (5, 0) => "succeeded",
        (4, 0x5b) | (5, 1) => "general SOCKS server failure",
        (4, 0x5c) => "request failed because client is not running identd",
        (4, 0x5d) => {
            "request failed because client's identd could not confirm the user ID string in the request"
        }
        (5, 2) => "connection not allowed by ruleset",
        (5, 3) => "Network unreachable",
        (5, 4) => "Host unreachable",
        (5, 5) => "Connection refused",
        (5, 6) => "TTL expired",
        (5, 7) => "Command not supported",
        (5, 8) => "Address type not supported",
        _ => "unknown",
    }
}

impl Socks {
    /// Reads a side's bytes message by message; `false` if it is not SOCKS.
    fn read(&mut self, side: usize) -> bool {
        while let Some(held) = self.held.get_mut(side).map(std::mem::take) {
            // Maximum length of a message.
            let message = held.get(..MAX_HELD).unwrap_or(&held);
            let read = if side == 0 { self.client(message) } else { self.server(message) };
            let (bytes, is_over) = match read {
                Some(Read::Bytes(bytes)) => (bytes, false),
                Some(Read::More) | None => (0, true),
                Some(Read::Wrong) => return false,
            };
            if let Some(place) = self.held.get_mut(side) {
                *place = held.get(bytes..).unwrap_or_default().to_vec();
            }
            if is_over || self.next == [Next::Done; 2] {
                break;
            }
        }
        true
    }

    /// Reads a message of the client; `None` if it is incomplete.
    fn client(&mut self, held: &[u8]) -> Option<Read> {
        let mut reader = Reader::new(held);
        let next = match self.next[0] {
            Next::Greeting => match reader.u8()? {
                4 => {
                    let (command, port, address) = (reader.u8()?, reader.u16()?, reader.u32()?);
                    let user = text(&mut reader)?;
                    self.request.port = Some(port);
                    match address {
                        // 4a: the proxy resolves the name.
                        1..=255 => self.request.name = Some(text(&mut reader)?.to_vec()),
                        _ => self.request.host = Some(Ipv4Addr::from(address).into()),
                    }
                    self.user = Some(user.to_vec()).filter(|user| !user.is_empty());
                    (self.version, self.command) = (4, command);
                    self.next[1] = Next::Request;
                    Next::Done
                }
                5 => {
                    let count = reader.u8()?;
                    reader.take(count.into())?;
                    self.version = 5;
                    Next::Choice
                }
                _ => return Some(Read::Wrong),
            },
            Next::Choice | Next::Done => return Some(Read::More),
            Next::Login => {
                let length = (reader.u8()? == 1).then(|| reader.u8())??;
                let user = reader.take(length.into())?;
                let length = reader.u8()?;
                let password = reader.take(length.into())?;
                (self.user, self.password) = (Some(user.to_vec()), Some(password.to_vec()));
                Next::Request
            }
            Next::Request => {
                if reader.u8()? != 5 {
                    return Some(Read::Wrong);
                }
                self.command = reader.u8()?;
                reader.u8()?;
                if !matches!(reader.rest().first()?, 1 | 3 | 4) {
                    return Some(Read::Wrong);
                }
                self.request = Target::read(&mut reader)?;
                Next::Done
            }
        };
        self.next[0] = next;
        Some(Read::Bytes(held.len() - reader.rest().len()))
    }

    /// Reads a message of the proxy; `None` if it is incomplete.
    fn server(&mut self, held: &[u8]) -> Option<Read> {
        let mut reader = Reader::new(held);
        match (self.version, self.next[1]) {
            (0, _) | (_, Next::Done) => return Some(Read::More),
            (4, _) => {
                reader.u8()?;
                let code = reader.u8()?;
                let (port, address) = (reader.u16()?, reader.u32()?);
                self.bound =
                    Target { host: Some(Ipv4Addr::from(address).into()), name: None, port: Some(port) };
                self.answered(status(4, code), code == 0x5a);
            }
            (_, Next::Greeting) => {
                if reader.u8()? != 5 {
                    return Some(Read::Wrong);
                }
                let is_login = match reader.u8()? {
                    PASSWORD => true,
                    0 => false,
                    // Other methods, such as Kerberos, continue in their own format.
                    _ => return Some(Read::Wrong),
                };
                self.next = if is_login { [Next::Login; 2] } else { [Next::Request; 2] };
            }
            (_, Next::Login) => {
                reader.u8()?;
                if reader.u8()? != 0 {
                    self.status = Some("login refused");
                    self.is_refused = true;
                    self.next[1] = Next::Done;
                } else {
                    self.next[1] = Next::Request;
                }
            }
            _ => {
                reader.u8().filter(|version| *version == 5)?;
                let code = reader.u8()?;
                reader.u8()?;
                if !matches!(reader.rest().first()?, 1 | 3 | 4) {
                    return Some(Read::Wrong);
                }
                self.bound = Target::read(&mut reader)?;
                self.answered(status(5, code), code == 0);
            }
        }
        Some(Read::Bytes(held.len() - reader.rest().len()))
    }

    fn answered(&mut self, status: &'static str, is_good: bool) {
        self.status = Some(status);
        self.is_refused |= !is_good;
        self.answers += 1;
        // BIND has two replies: the listening address, then the caller.
        if !is_good || self.command != BIND || self.answers == 2 {
            self.next[1] = Next::Done;
        }
    }
}

impl Parser for Socks {
    fn chunk(&mut self, chunk: &Chunk<'_>, out: &mut dyn Out) -> Step {
        if chunk.gap > 0 {
            return Step::GiveUp;
        }
        self.begun.get_or_insert(chunk.time);
        let side = usize::from(chunk.direction != *self.client.get_or_insert(chunk.direction));
        if let Some(held) = self.held.get_mut(side) {
            held.extend_from_slice(chunk.data);
        }
        looked_at(self.held.iter().map(Vec::len).sum());
        // Bytes of one side may wait for those of the other.
        if !self.read(side) || !self.read(1 - side) || !self.read(side) {
            return Step::GiveUp;
        }
        out.more(self.held.get(side).map_or(0, Vec::len));
        // A message of the other side may have waited for this one.
        if self.held.get(1 - side).is_some_and(Vec::is_empty) {
            out.rest(chunk.direction.opposite());
        }
        let is_asked = self.next[0] == Next::Done && matches!(self.command, CONNECT | BIND);
        if is_asked && !std::mem::replace(&mut self.is_tunnel, true) {
            out.record(tunnel::found(self.begun.unwrap_or(chunk.time), "Tunnel::SOCKS"));
        }
        if self.next[1] != Next::Done {
            // A large amount of early bytes does not belong to SOCKS.
            let is_much = self.held.iter().any(|held| held.len() > MAX_HELD);
            return if is_much { Step::GiveUp } else { Step::Next };
        }
        if self.is_refused || !matches!(self.command, CONNECT | BIND) {
            return Step::GiveUp;
        }
        let unread = self.held.get(side).map_or(0, Vec::len);
        Step::SwitchTo { protocol: None, unread }
    }

    fn end(&mut self, _: Time, out: &mut dyn Out) {
        let Some(time) = self.begun.take().filter(|_| self.version > 0) else { return };
        let (request, bound) = (std::mem::take(&mut self.request), std::mem::take(&mut self.bound));
        let command = match self.command {
            CONNECT => Some("connect"),
            BIND => Some("bind"),
            3 => Some("associate"),
            _ => None,
        };
        out.record(record!(
            SOCKS,
            time,
            version = self.version,
            user = self.user.take(),
            password = self.password.take(),
            status = self.status,
            host = request.host,
            name = request.name,
            port = request.port,
            bound_host = bound.host,
            bound_name = bound.name,
            bound_port = bound.port,
            command = command,
        ));
    }

    fn memory(&self) -> usize {
        self.held.iter().map(Vec::capacity).sum::<usize>() + 2 * MAX_HELD
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Value;
    use crate::laws::talks;
    use crate::talk::Turn;

    #[test]
    fn the_requested_target_is_emitted_and_the_payload_is_parsed() {
        let talks = talks("socks", 1080);
        let emitted: Vec<_> =
            talks.iter().map(|(_, talk)| talk.emitted(|data| vec![data.to_vec()])).collect();
        let rows: Vec<_> = emitted.iter().flat_map(|emitted| &emitted.records).collect();
        let of = |name: &str| -> Vec<Value<'_>> {
            let rows = rows.iter().filter(|record| *record.table == SOCKS);
            rows.map(|record| record.get(name).clone()).collect()
        };
        assert_eq!(of("version"), [5u64.into(), 5u64.into(), 4u64.into(), 4u64.into()]);
        assert_eq!(of("user"), [Value::None, "anna".into(), "anna".into(), "anna".into()]);
        let name = || Value::from("example.org");
        assert_eq!(of("name"), [Value::None, name(), name(), name()]);
        assert_eq!(of("port"), [80u64.into(), 80u64.into(), 80u64.into(), 80u64.into()]);
        let succeeded = || Value::from("succeeded");
        assert_eq!(of("status"), ["Connection refused".into(), succeeded(), succeeded(), succeeded()]);
        let http = rows.iter().filter(|record| record.table.name == "http");
        assert_eq!(http.count(), 3);
    }

    /// A proxy that connects to its client is identified.
    #[test]
    fn a_reverse_proxy_is_identified() {
        let (_, mut talk) = talks("socks", 1080).remove(1);
        for turn in &mut talk.turns {
            if let Turn::Data(direction @ Direction::Forward, _) = turn {
                *direction = Direction::Reverse;
            } else if let Turn::Data(direction, _) = turn {
                *direction = Direction::Forward;
            }
        }
        let emitted = talk.emitted(|data| vec![data.to_vec()]);
        let row = emitted.records.iter().find(|record| *record.table == SOCKS).unwrap();
        assert_eq!(row.get("name"), &"example.org".into());
    }
}
