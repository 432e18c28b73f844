//! WebSocket (RFC 6455): frames, after the upgrade in HTTP.

mod resync;

use crate::early::begin_transaction;
use crate::sought::{Found, Sought};
use crate::work::looked_at;
use crate::{
    Buffer, Heads, Kind, Out, Parser, Privacy, Probe, Protocol, Step, Table, Transport, Value, field, record,
};
use resync::Form;
use std::borrow::Cow;
use std::collections::VecDeque;
use weir_wire::stream::Chunk;
use weir_wire::{Direction, Time};

pub(crate) static PROTOCOL: Protocol = Protocol {
    name: "websocket",
    help: "WebSocket (RFC 6455).",
    transport: Transport::Tcp,
    ports: &[],
    // HTTP's upgrade announces it; its first bytes do not identify it.
    probe: |_: &Heads<'_>| Probe::Reject,
    parser: |_| Box::new(Websocket::default()),
    tables: &[&FRAMES],
    buffers: &[&PAYLOAD, &OPCODE, &MASK, &FLAGS],
};

static OPCODE: Buffer =
    Buffer::number("websocket.opcode", "Kind of a frame; 0 for one that continues a message.");
static MASK: Buffer = Buffer::number("websocket.mask", "Masking key of a frame.");
static FLAGS: Buffer =
    Buffer::number("websocket.flags", "Flags of a frame: 128 for FIN, 64 for RSV1 (compressed).");
static PAYLOAD: Buffer = Buffer::whole(
    "websocket.payload",
    "Payload of a frame, unmasked, of the last frame of a message that of all its frames; the first 64 KiB, up to a gap, compressed as sent.",
);

static FRAMES: Table = Table {
    name: "websocket_frames",
    help: "A frame of a WebSocket.",
    zeek: "",
    eve: "websocket",
    fields: &[
        field("reverse", Kind::Bool, "Whether the server sent the frame."),
        field("fin", Kind::Bool, "Whether the frame is the last one of its message (FIN).")
            .eve("websocket.fin"),
        field("mask", Kind::Uint, "Masking key of the payload.").eve("websocket.mask"),
        field("opcode", Kind::Word, "Opcode of the frame.").eve("websocket.opcode"),
        field("compressed", Kind::Bool, "Whether an extension compressed the payload (RSV1)."),
        field("length", Kind::Uint, "Length of the payload in bytes."),
        field("payload", Kind::Text, "First bytes of the payload, unmasked.")
            .eve("websocket.payload_printable")
            .privacy(Privacy::Content),
        field("missing", Kind::Uint, "Bytes that are missing in the payload."),
    ],
};

/// Maximum number of payload bytes of a frame that are kept.
const KEPT: usize = 256;
/// Maximum number of payload bytes of a message in `websocket.payload`; Suricata's default.
const MAX_MESSAGE: usize = 65_536;
/// The bit of the first frame of a compressed message (RFC 7692, 6).
const COMPRESSED: u8 = 0x40;
/// Maximum length of a header in bytes: two bytes, a length of eight, a mask of four.
const MAX_HEADER: usize = 14;

#[derive(Default)]
struct Websocket {
    client: Side,
    server: Side,
    /// Whether a payload was compressed.
    compresses: bool,
    /// Number of frames of both sides that have ended.
    messages: u64,
}

#[derive(Default)]
struct Side {
    header: Vec<u8>,
    frame: Option<Frame>,
    /// After a gap: the bytes up to the next frame.
    sought: Option<Sought>,
    /// Payload of the earlier frames of a message, if `websocket.payload` is asked for.
    message: Vec<u8>,
    /// Number of headers until the frame that was found after a gap is certain: the next one must be likely too.
    doubt: u8,
}

struct Frame {
    time: Time,
    first: u8,
    mask: Option<[u8; 4]>,
    length: u64,
    seen: u64,
    missing: u64,
    payload: Vec<u8>,
    /// Maximum length of `payload`.
    room: usize,
}

impl Parser for Websocket {
    fn chunk(&mut self, chunk: &Chunk<'_>, out: &mut dyn Out) -> Step {
        let side = match chunk.direction {
            Direction::Forward => &mut self.client,
            Direction::Reverse => &mut self.server,
        };
        if chunk.gap > 0 {
            side.miss(chunk, &mut self.messages, out);
        }
        // Bytes that were held are read with the times of their arrival.
        let mut pieces = VecDeque::from([(chunk.time, Cow::Borrowed(chunk.data))]);
        while let Some((time, piece)) = pieces.pop_front() {
            let behind: usize = pieces.iter().map(|(_, piece)| piece.len()).sum();
            let form = Form { side: chunk.direction, compresses: self.compresses };
            if let Some(sought) = side.sought.take() {
                side.seek(sought, &piece, (time, behind), form, &mut pieces, out);
                continue;
            }
            let mut data = &*piece;
            while !data.is_empty() {
                let header = match &mut side.frame {
                    Some(frame) => {
                        frame.bytes(&mut data);
                        None
                    }
                    None => {
                        let room = if out.asked().has(&PAYLOAD) { MAX_MESSAGE } else { KEPT };
                        side.header(&mut data, time, form, room)
                    }
                };
                match header {
                    Some(Header::Bad) => {
                        let (name, detail) = ("bad_websocket_frame", side.header.as_slice());
                        PROTOCOL.emit_anomaly(name, chunk.direction, detail, time, out);
                        return Step::GiveUp;
                    }
                    Some(Header::Unlikely) => {
                        side.sought = Some(Sought::behind(&std::mem::take(&mut side.header), time));
                        pieces.push_front((time, Cow::Owned(data.to_vec())));
                        break;
                    }
                    None => {}
                }
                self.compresses |= side.frame.as_ref().is_some_and(Frame::is_compressed);
                side.emit(chunk.direction, Some(data.len() + behind), &mut self.messages, out);
            }
        }
        Step::Next
    }

    fn end(&mut self, _: Time, out: &mut dyn Out) {
        self.client.emit(Direction::Forward, None, &mut self.messages, out);
        self.server.emit(Direction::Reverse, None, &mut self.messages, out);
    }

    fn memory(&self) -> usize {
        let of = |side: &Side| {
            side.header.capacity()
                + side.message.capacity()
                + side.frame.as_ref().map_or(0, |frame| frame.payload.capacity())
                + side.sought.as_ref().map_or(0, Sought::memory)
        };
        of(&self.client) + of(&self.server)
    }
}

/// Why a header does not begin a frame.
enum Header {
    Bad,
    /// What was found after a gap was no frame.
    Unlikely,
}

/// Bytes with the times of their arrival.
type Pieces<'a> = VecDeque<(Time, Cow<'a, [u8]>)>;

impl Side {
    /// Takes the next byte of a header. Of the payload after it `room` bytes are kept.
    fn header(&mut self, data: &mut &[u8], time: Time, form: Form, room: usize) -> Option<Header> {
        let (first, rest) = data.split_first()?;
        self.header.push(*first);
        *data = rest;
        self.frame = Frame::of(&self.header, time, room);
        if self.frame.is_none() {
            return (self.header.len() >= MAX_HEADER).then_some(Header::Bad);
        }
        if self.doubt > 0 {
            self.doubt -= 1;
            if !form.is_likely(&self.header) {
                self.frame = None;
                return Some(Header::Unlikely);
            }
        }
        None
    }

    /// Takes a gap. A frame that ends in it is emitted, and the next one is sought.
    fn miss(&mut self, chunk: &Chunk<'_>, messages: &mut u64, out: &mut dyn Out) {
        if let Some(frame) = &mut self.frame {
            let lost = chunk.gap.min(frame.length - frame.seen);
            frame.seen += lost;
            frame.missing += lost;
            let is_found = lost == chunk.gap;
            if frame.seen == frame.length {
                out.more(chunk.data.len());
                self.finish(chunk.direction, messages, out);
            }
            if is_found {
                return;
            }
        }
        self.header.clear();
        self.message.clear();
        self.doubt = 0;
        self.sought = Some(Sought::default());
    }

    /// Seeks the next frame in bytes with `behind` others after them. What is found is put before these.
    fn seek(
        &mut self,
        sought: Sought,
        piece: &[u8],
        (time, behind): (Time, usize),
        form: Form,
        pieces: &mut Pieces<'_>,
        out: &mut dyn Out,
    ) {
        match sought.next(piece, time, |at, bytes| form.begun(at, bytes)) {
            Found::Bytes(arrived) => {
                // The bytes before it belong to no frame that is known.
                out.message(arrived.bytes().len() + behind);
                self.doubt = 2;
                let found: Vec<_> = arrived.pieces().map(|(time, bytes)| (time, bytes.to_vec())).collect();
                for (time, bytes) in found.into_iter().rev() {
                    pieces.push_front((time, Cow::Owned(bytes)));
                }
            }
            Found::Later(sought) => self.sought = Some(sought),
            Found::Nothing(sought) => {
                self.sought = Some(sought);
                pieces.push_front((time, Cow::Borrowed(&[])));
            }
        }
    }

    /// Emits a frame if it is complete, `unread` bytes before the end of the chunk, or if the rest will not arrive, without
    /// `unread`.
    fn emit(&mut self, direction: Direction, unread: Option<usize>, messages: &mut u64, out: &mut dyn Out) {
        if self.frame.as_ref().is_none_or(|frame| frame.seen < frame.length && unread.is_some()) {
            return;
        }
        match unread {
            Some(unread) => out.message(unread),
            None => out.rest(direction),
        };
        self.finish(direction, messages, out);
    }

    /// Emits the buffers of a frame, which has its own number. A frame that continues a message has its own payload, the last
    /// one that of all frames, as in Suricata. Control frames may come between the frames of a message (RFC 6455, 5.4). Bytes
    /// after a gap are not joined with those before it.
    fn hand_on(&mut self, frame: &Frame, direction: Direction, messages: &mut u64, out: &mut dyn Out) {
        let is_asked = out.asked().has(&PAYLOAD);
        if !is_asked || !frame.is_control() && !frame.continues() {
            self.message = Vec::new();
        }
        begin_transaction(direction, *messages, out);
        *messages += 1;
        out.emit_number(&OPCODE, direction, (frame.first & 15).into());
        out.emit_number(&FLAGS, direction, (frame.first & 0xf0).into());
        if let Some(mask) = frame.mask {
            out.emit_number(&MASK, direction, u32::from_be_bytes(mask).into());
        }
        if is_asked {
            let mut joined = Vec::new();
            if !frame.is_control() {
                let room = MAX_MESSAGE.saturating_sub(self.message.len());
                self.message.extend(frame.payload.iter().take(room));
                if frame.first & 0x80 != 0 || frame.missing > 0 {
                    joined = std::mem::take(&mut self.message);
                }
            }
            let payload = if joined.is_empty() { &frame.payload } else { &joined };
            if !payload.is_empty() {
                out.buffer(&PAYLOAD, direction, payload);
            }
        }
        out.side_is_complete(direction);
    }

    /// Emits the frame, as far as it has arrived.
    fn finish(&mut self, direction: Direction, messages: &mut u64, out: &mut dyn Out) {
        let Some(mut frame) = self.frame.take() else { return };
        self.header.clear();
        self.hand_on(&frame, direction, messages, out);
        frame.payload.truncate(KEPT);
        let opcode = match frame.first & 15 {
            0 => Value::from("continuation"),
            1 => "text".into(),
            2 => "binary".into(),
            8 => "connection_close".into(),
            9 => "ping".into(),
            10 => "pong".into(),
            other => format!("unknown-{other}").into(),
        };
        out.record(record!(
            FRAMES,
            frame.time,
            reverse = direction == Direction::Reverse,
            fin = frame.first & 0x80 != 0,
            mask = frame.mask.map(u32::from_be_bytes),
            opcode = opcode,
            compressed = frame.is_compressed(),
            length = frame.length,
            payload = if frame.payload.is_empty() { Value::None } else { frame.payload.into() },
            missing = frame.missing + (frame.length - frame.seen),
        ));
    }
}

impl Frame {
    /// Parses a header; `None` if it is incomplete.
    fn of(header: &[u8], time: Time, room: usize) -> Option<Self> {
        let (first, rest) = header.split_first()?;
        let (second, rest) = rest.split_first()?;
        let (length, rest) = match second & 0x7f {
            126 => {
                let (length, rest) = rest.split_first_chunk()?;
                (u64::from(u16::from_be_bytes(*length)), rest)
            }
            127 => {
                let (length, rest) = rest.split_first_chunk()?;
                (u64::from_be_bytes(*length), rest)
            }
            length => (u64::from(length), rest),
        };
        let mask = match second & 0x80 {
            0 => None,
            _ => Some(*rest.first_chunk()?),
        };
        // The highest bit of a length is zero.
        let (seen, missing, payload) = (0, 0, Vec::new());
        let first = *first;
        (length >> 63 == 0).then_some(Self { time, first, mask, length, seen, missing, payload, room })
    }

    fn is_control(&self) -> bool {
        self.first & 8 != 0
    }

    /// Whether it continues a message.
    fn continues(&self) -> bool {
        self.first & 15 == 0
    }

    fn is_compressed(&self) -> bool {
        self.first & COMPRESSED != 0
    }

    fn bytes(&mut self, data: &mut &[u8]) {
        let left = usize::try_from(self.length - self.seen).unwrap_or(usize::MAX);
        let (now, later) = data.split_at_checked(left.min(data.len())).unwrap_or((data, &[]));
        // Bytes after a gap are not kept: only the beginning is shown.
        let room = if self.missing > 0 { 0 } else { self.room.saturating_sub(self.payload.len()) };
        let at = self.payload.len();
        let mask = self.mask.unwrap_or_default();
        let masks = mask.iter().cycle().skip(at % 4);
        self.payload.extend(now.iter().take(room).zip(masks).map(|(byte, mask)| byte ^ mask));
        looked_at(now.len());
        self.seen += now.len() as u64;
        *data = later;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::laws::Collected;

    fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
        let length = (payload.len() as u16).to_be_bytes();
        [&[first, 126], &length[..], payload].concat()
    }

    /// Asks for all buffers.
    fn asking() -> Collected {
        let mut out = Collected::default();
        out.asked = crate::Asked::all();
        out
    }

    /// The last frame of a message has the payload of all, also around a control frame; of a long message the first bytes.
    #[test]
    fn payloads_of_messages_are_buffers() {
        let long = vec![b'x'; 40_000];
        let data = [
            frame(1, b"one "),
            frame(0x89, b"ping"),
            frame(0x80, &[b"and ", &[b'a'; 300][..]].concat()),
            frame(2, &long),
            frame(0x80, &long),
            frame(0x8a, b""),
        ];
        let data = data.concat();
        for size in [1, 7, data.len()] {
            let (mut parser, mut out) = (Websocket::default(), asking());
            for piece in data.chunks(size) {
                let chunk = Chunk { time: Time(0), direction: Direction::Reverse, gap: 0, data: piece };
                parser.chunk(&chunk, &mut out);
            }
            let of = |wanted: &'static Buffer| {
                let found = out.buffers.iter().filter(move |(buffer, ..)| *buffer == wanted);
                found.map(|(_, _, bytes)| bytes.as_slice()).collect::<Vec<_>>()
            };
            let payloads = of(&PAYLOAD);
            assert_eq!(of(&OPCODE), [1_u64, 9, 0, 2, 0, 10].map(u64::to_be_bytes), "in pieces of {size}");
            let flags = [0_u64, 0x80, 0x80, 0, 0x80, 0x80].map(u64::to_be_bytes);
            assert_eq!(of(&FLAGS), flags, "in pieces of {size}");
            let joined = [b"one and ", &[b'a'; 300][..]].concat();
            let cut = vec![b'x'; MAX_MESSAGE];
            let expected = [b"one ", &b"ping"[..], &joined, &long, &cut];
            assert_eq!(payloads, expected, "in pieces of {size}");
            let kept = out.records.iter().map(|record| match record.get("payload") {
                Value::Text(payload) => payload.len(),
                _ => 0,
            });
            assert_eq!(kept.collect::<Vec<_>>(), [4, 4, KEPT, KEPT, KEPT, 0]);
        }
    }

    /// Bytes on both sides of a gap are not joined.
    #[test]
    fn a_gap_ends_a_payload() {
        let (mut parser, mut out) = (Websocket::default(), asking());
        let mut take = |gap, data: &[u8]| {
            parser.chunk(&Chunk { time: Time(0), direction: Direction::Reverse, gap, data }, &mut out);
        };
        take(0, b"\x01\x0abefore");
        take(2, b"at\x80\x04rest");
        let payloads = out.buffers.iter().filter(|(buffer, ..)| !buffer.is_number);
        let payloads: Vec<_> = payloads.map(|(_, _, bytes)| bytes.as_slice()).collect();
        assert_eq!(payloads, [b"before", &b"rest"[..]]);
    }
}
