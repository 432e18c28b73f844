//! RFB, the protocol of VNC (RFC 6143): versions, security and the parameters of the desktop, up to the first message after
//! them. Challenges and their answers are skipped.

use crate::early::begin_transaction;
use crate::{
    Buffer, Heads, Kind, Out, Parser, Privacy, Probe, Protocol, Step, Table, Transport, Value, field, record,
};
use weir_wire::stream::Chunk;
use weir_wire::{Direction, Reader, Time};

pub(crate) static PROTOCOL: Protocol = Protocol {
    name: "rfb",
    help: "RFB, the protocol of VNC (RFC 6143).",
    transport: Transport::Tcp,
    ports: &[5900],
    probe,
    parser: |_| Box::new(Rfb::default()),
    tables: &[&RFB],
    buffers: &[&NAME, &SECTYPE, &SECRESULT],
};

static NAME: Buffer = Buffer::whole("rfb.name", "Name of the desktop, as the server states it.");
static SECTYPE: Buffer = Buffer::number(
    "rfb.sectype",
    "Type of security that the client chooses, or the server before version 3.7.",
);
static SECRESULT: Buffer =
    Buffer::number("rfb.secresult", "Result of the security handshake, of the server: 0 lets the client in.");

pub(crate) static RFB: Table = Table {
    name: "rfb",
    help: "A session of VNC, up to its desktop.",
    zeek: "rfb",
    eve: "",
    fields: &[
        field("client_major_version", Kind::Text, "Major version that the client takes, three digits.")
            .zeek("client_major_version"),
        field("client_minor_version", Kind::Text, "Minor version that the client takes, three digits.")
            .zeek("client_minor_version"),
        field("server_major_version", Kind::Text, "Major version that the server states, three digits.")
            .zeek("server_major_version"),
        field("server_minor_version", Kind::Text, "Minor version that the server states, three digits.")
            .zeek("server_minor_version"),
        field("authentication_method", Kind::Word, "Type of security that is used.")
            .zeek("authentication_method"),
        field("auth", Kind::Bool, "Whether the server lets the client in.").zeek("auth"),
        field("share_flag", Kind::Bool, "Whether the client leaves other clients connected.")
            .zeek("share_flag"),
        field("desktop_name", Kind::Text, "Name of the desktop.").zeek("desktop_name").privacy(Privacy::Name),
        field("width", Kind::Uint, "Width of the desktop in pixels.").zeek("width"),
        field("height", Kind::Uint, "Height of the desktop in pixels.").zeek("height"),
        field("offered", Kind::Text, "Types of security that the server offers, by their numbers."),
        field("reason", Kind::Text, "Why the server refuses the client.").privacy(Privacy::Content),
    ],
};

/// Length of a version in bytes.
const VERSION: usize = 12;
/// Maximum length in bytes of a name, a reason and a key; longer ones end the parsing.
const MAX_TEXT: usize = 4096;
/// Maximum number of bytes of a side that wait for the other side.
const MAX_HELD: usize = 3 * MAX_TEXT;

/// The server's version decides, as far as the client does not contradict it.
fn probe(heads: &Heads<'_>) -> Probe {
    let of = |head: &[u8]| {
        let pattern = b"RFB ddd.ddd\n";
        let is =
            |(byte, wanted): (&u8, &u8)| if *wanted == b'd' { byte.is_ascii_digit() } else { byte == wanted };
        (head.iter().zip(pattern).all(is), head.len() >= VERSION)
    };
    match (of(heads.reverse), of(heads.forward)) {
        ((false, _), _) | (_, (false, _)) => Probe::Reject,
        ((true, true), _) => Probe::Match,
        _ => Probe::Maybe,
    }
}

/// Zeek's name of a type of security.
fn security(kind: u32) -> &'static str {
    match kind {
        0 => "Invalid",
        1 => "None",
        2 => "VNC",
        16 => "Tight",
        17 => "Ultra",
        18 => "TLS",
        19 => "VeNCrypt",
        20 => "GTK-VNC SASL",
        21 => "MD5 hash authentication",
        22 => "Colin Dean xvp",
        30 => "Apple Remote Desktop",
        _ => "RealVNC",
    }
}

/// What comes next.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
enum Next {
    #[default]
    ServerVersion,
    ClientVersion,
    /// The type that the server sets, before version 3.7.
    Security,
    /// The types that the server offers.
    Offer,
    Choice,
    Challenge,
    Response,
    /// The challenge of Apple's type, and its answer with keys of this length.
    AppleChallenge,
    AppleResponse(usize),
    Verdict,
    Reason,
    ClientInit,
    ServerInit,
}

impl Next {
    fn side(self) -> Direction {
        match self {
            Self::ClientVersion
            | Self::Choice
            | Self::Response
            | Self::AppleResponse(_)
            | Self::ClientInit => Direction::Forward,
            _ => Direction::Reverse,
        }
    }

    /// Number of bytes that show the length of the message.
    fn head(self) -> usize {
        match self {
            Self::Offer => 1,
            Self::AppleChallenge | Self::Reason => 4,
            Self::ServerInit => 24,
            _ => 0,
        }
    }

    /// Number of bytes of the message, as far as the first bytes show it.
    fn size(self, head: &[u8]) -> usize {
        let long = |at: usize| {
            let length = head.get(at..).and_then(|rest| Reader::new(rest).u32());
            at + 4 + length.map_or(0, |length| length as usize)
        };
        match self {
            Self::ServerVersion | Self::ClientVersion => VERSION,
            Self::Security | Self::Verdict => 4,
            Self::Offer => 1 + head.first().map_or(0, |count| usize::from(*count)),
            Self::Choice | Self::ClientInit => 1,
            Self::Challenge | Self::Response => 16,
            Self::AppleChallenge => {
                let key = head.get(2..).and_then(|rest| Reader::new(rest).u16());
                4 + 2 * key.map_or(0, usize::from)
            }
            Self::AppleResponse(key) => 128 + key,
            Self::Reason => long(0),
            Self::ServerInit => long(20),
        }
    }
}

#[derive(Default)]
struct Rfb {
    /// Bytes of the client and of the server that are not read.
    held: [Vec<u8>; 2],
    next: Next,
    begun: Option<Time>,
    /// Major and minor version of the client and of the server.
    versions: [Option<[[u8; 3]; 2]>; 2],
    kind: Option<u32>,
    auth: Option<bool>,
    is_shared: Option<bool>,
    desktop: Option<(u16, u16, Vec<u8>)>,
    offered: Option<String>,
    reason: Option<Vec<u8>>,
    is_done: bool,
    /// Number of messages of both sides.
    messages: u64,
}

/// Hands on the number of a message.
fn hand_on(what: Next, message: &[u8], side: Direction, out: &mut dyn Out) {
    let mut reader = Reader::new(message);
    match what {
        Next::Choice => reader.u8().into_iter().for_each(|kind| out.emit_number(&SECTYPE, side, kind.into())),
        Next::Security => {
            reader.u32().into_iter().for_each(|kind| out.emit_number(&SECTYPE, side, kind.into()));
        }
        Next::Verdict => {
            reader.u32().into_iter().for_each(|result| out.emit_number(&SECRESULT, side, result.into()));
        }
        _ => {}
    }
}

/// What follows a message.
enum Then {
    Read(Next),
    /// Bytes that are not read: those after the beginning, or of a type of security that is not known.
    End,
    Malformed,
}

impl Rfb {
    /// Version 3.3, 3.7 or 3.8, by what both sides know: later ones are read as 3.8.
    fn minor(&self) -> u16 {
        let [Some([major, minor]), _] = &self.versions else { return 3 };
        match (major, minor) {
            (major, _) if major > b"003" => 8,
            (_, minor) if minor >= b"008" => 8,
            (_, b"007") => 7,
            _ => 3,
        }
    }

    fn version(&mut self, message: &[u8]) -> bool {
        let side = usize::from(self.next == Next::ServerVersion);
        let version = message.strip_prefix(b"RFB ").filter(|rest| rest.get(3) == Some(&b'.'));
        let parts = version.and_then(|rest| Some([*rest.first_chunk()?, *rest.get(4..)?.first_chunk()?]));
        let parts = parts.filter(|parts: &[[u8; 3]; 2]| parts.iter().flatten().all(u8::is_ascii_digit));
        if let Some(slot) = self.versions.get_mut(side) {
            *slot = parts;
        }
        parts.is_some()
    }

    /// What follows the choice of a type of security.
    fn secured(&mut self, kind: u32) -> Then {
        self.kind = Some(kind);
        match kind {
            0 => Then::Read(Next::Reason),
            1 if self.next == Next::Choice && self.minor() >= 8 => Then::Read(Next::Verdict),
            1 => Then::Read(Next::ClientInit),
            2 => Then::Read(Next::Challenge),
            30 => Then::Read(Next::AppleChallenge),
            _ => Then::End,
        }
    }

    /// Takes the message that comes next.
    fn take(&mut self, message: &[u8]) -> Then {
        let mut reader = Reader::new(message);
        match self.next {
            Next::ServerVersion | Next::ClientVersion => match (self.version(message), self.next) {
                (false, _) => Then::Malformed,
                (true, Next::ServerVersion) => Then::Read(Next::ClientVersion),
                _ if self.minor() >= 7 => Then::Read(Next::Offer),
                _ => Then::Read(Next::Security),
            },
            Next::Security => self.secured(reader.u32().unwrap_or_default()),
            Next::Offer => {
                let kinds = message.get(1..).unwrap_or_default();
                let numbers: Vec<String> = kinds.iter().map(u8::to_string).collect();
                self.offered = (!kinds.is_empty()).then(|| numbers.join(","));
                Then::Read(if kinds.is_empty() { Next::Reason } else { Next::Choice })
            }
            Next::Choice => self.secured(reader.u8().unwrap_or_default().into()),
            Next::Challenge => Then::Read(Next::Response),
            Next::AppleChallenge => Then::Read(Next::AppleResponse(message.len().saturating_sub(4) / 2)),
            Next::Response | Next::AppleResponse(_) => Then::Read(Next::Verdict),
            Next::Verdict => {
                let is_good = reader.u32() == Some(0);
                self.auth = Some(is_good);
                match is_good {
                    true => Then::Read(Next::ClientInit),
                    false if self.minor() >= 8 => Then::Read(Next::Reason),
                    false => Then::End,
                }
            }
            Next::Reason => {
                self.auth = Some(false);
                self.reason = message.get(4..).map(<[u8]>::to_vec);
                Then::End
            }
            Next::ClientInit => {
                self.is_shared = reader.u8().map(|flag| flag != 0);
                Then::Read(Next::ServerInit)
            }
            Next::ServerInit => {
                let size = reader.u16().zip(reader.u16());
                self.desktop = size
                    .map(|(width, height)| (width, height, message.get(24..).unwrap_or_default().to_vec()));
                Then::End
            }
        }
    }

    /// Emits the row and stops.
    fn finish(&mut self, out: &mut dyn Out) -> Step {
        let Some(time) = self.begun.filter(|_| !std::mem::replace(&mut self.is_done, true)) else {
            return Step::GiveUp;
        };
        self.held = Default::default();
        let [client, server] = &self.versions;
        let part = |version: &Option<[[u8; 3]; 2]>, at: usize| {
            version.as_ref().and_then(|parts| parts.get(at)).map(|part| part.to_vec())
        };
        let desktop = self.desktop.as_ref();
        let record = record!(
            RFB,
            time,
            client_major_version = part(client, 0),
            client_minor_version = part(client, 1),
            server_major_version = part(server, 0),
            server_minor_version = part(server, 1),
            authentication_method = self.kind.map(security),
            auth = self.auth,
            share_flag = self.is_shared,
            desktop_name = desktop.map(|(.., name)| name),
            width = desktop.map(|(width, ..)| Value::from(*width)),
            height = desktop.map(|(_, height, _)| Value::from(*height)),
            offered = self.offered.as_ref(),
            reason = self.reason.as_ref(),
        );
        out.record(record.over(out.both()));
        Step::GiveUp
    }

    /// The bytes of a side that are not read.
    fn held(&mut self, side: Direction) -> &mut Vec<u8> {
        let [client, server] = &mut self.held;
        if side == Direction::Forward { client } else { server }
    }
}

impl Parser for Rfb {
    fn chunk(&mut self, chunk: &Chunk<'_>, out: &mut dyn Out) -> Step {
        if chunk.gap > 0 {
            // The messages have no mark.
            return self.finish(out);
        }
        self.begun.get_or_insert(chunk.time);
        self.held(chunk.direction).extend_from_slice(chunk.data);
        loop {
            let side = self.next.side();
            let next = self.next;
            let held = self.held(side);
            let size = next.size(held);
            if size > MAX_HELD {
                let behind = held.len().saturating_sub(next.head());
                out.more(behind);
                PROTOCOL.emit_anomaly("malformed_data", side, &[], chunk.time, out);
                return self.finish(out);
            }
            if held.len() < size {
                let unread = self.held(chunk.direction).len();
                out.more(if side == chunk.direction { 0 } else { unread });
                return if unread > MAX_HELD { self.finish(out) } else { Step::Next };
            }
            let message: Vec<u8> = held.drain(..size).collect();
            begin_transaction(side, self.messages, out);
            self.messages += 1;
            hand_on(next, &message, side, out);
            let then = self.take(&message);
            if let Some((.., name)) = &self.desktop {
                out.emit(&NAME, side, name);
            }
            if !matches!(then, Then::Malformed) {
                out.side_is_complete(side);
            }
            if let Then::Read(next) = then {
                self.next = next;
                continue;
            }
            if matches!(then, Then::Malformed) {
                PROTOCOL.emit_anomaly("malformed_data", side, &message, chunk.time, out);
            }
            out.more(self.held(chunk.direction).len());
            return self.finish(out);
        }
    }

    fn end(&mut self, _: Time, out: &mut dyn Out) {
        self.finish(out);
    }

    fn memory(&self) -> usize {
        let desktop = self.desktop.as_ref().map_or(0, |(.., name)| name.capacity());
        self.held.iter().map(Vec::capacity).sum::<usize>()
            + desktop
            + self.reason.as_ref().map_or(0, Vec::capacity)
            + self.offered.as_ref().map_or(0, String::capacity)
    }
}

#[cfg(test)]
mod tests {
    use crate::laws::talks;
    use weir_wire::Direction;

    #[test]
    fn the_name_of_a_desktop_is_a_buffer() {
        let (_, talk) = talks("rfb", 5900).into_iter().find(|(path, _)| path.ends_with("none.talk")).unwrap();
        let emitted = talk.asked(|data| data.chunks(3).map(<[u8]>::to_vec).collect());
        let texts: Vec<_> = emitted.buffers.iter().filter(|(buffer, ..)| !buffer.is_number).collect();
        let [(buffer, side, name)] = texts.as_slice() else { panic!("{texts:?}") };
        assert_eq!((buffer.name, *side, name.as_slice()), ("rfb.name", Direction::Reverse, &b"kiosk"[..]));
    }

    /// The result of the security handshake, and the type that was chosen before it.
    #[test]
    fn the_choice_and_the_result_of_security_are_numbers() {
        use Direction::{Forward, Reverse};
        // Before version 3.7 the server sets the type.
        for (case, sets, result) in [("vnc", Forward, "0"), ("refused", Forward, "1"), ("old", Reverse, "0")]
        {
            let mut all = talks("rfb", 5900).into_iter();
            let (_, talk) = all.find(|(path, _)| path.file_stem().is_some_and(|stem| stem == case)).unwrap();
            let emitted = talk.asked(|data| data.chunks(3).map(<[u8]>::to_vec).collect());
            let values = |name: &str, side: Direction| -> Vec<String> {
                emitted.numbered(name, side).into_iter().map(|(_, number)| number).collect()
            };
            assert_eq!(values("rfb.sectype", sets), ["2"], "{case}");
            assert!(values("rfb.sectype", sets.opposite()).is_empty(), "{case}");
            assert_eq!(values("rfb.secresult", Reverse), [result], "{case}");
        }
    }
}
