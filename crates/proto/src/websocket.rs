//! WebSocket (RFC 6455): frames, after the upgrade in HTTP.

mod resync;

use crate::sought::{Found, Sought};
use crate::work::looked_at;
use crate::{
    Heads, Kind, Out, Parser, Privacy, Probe, Protocol, Step, Table, Transport, Value, field, record,
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
    buffers: &[],
};

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
}

#[derive(Default)]
struct Side {
    header: Vec<u8>,
    frame: Option<Frame>,
    /// After a gap: the bytes up to the next frame.
    sought: Option<Sought>,
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
}

impl Parser for Websocket {
    fn chunk(&mut self, chunk: &Chunk<'_>, out: &mut dyn Out) -> Step {
        let side = match chunk.direction {
            Direction::Forward => &mut self.client,
            Direction::Reverse => &mut self.server,
        };
        if chunk.gap > 0 {
            side.miss(chunk, out);
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
                    None => side.header(&mut data, time, form),
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
                side.emit(chunk.direction, Some(data.len() + behind), out);
            }
        }
        Step::Next
    }

    fn end(&mut self, _: Time, out: &mut dyn Out) {
        self.client.emit(Direction::Forward, None, out);
        self.server.emit(Direction::Reverse, None, out);
    }

    fn memory(&self) -> usize {
        let of = |side: &Side| {
            side.header.capacity()
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
    /// Takes the next byte of a header.
    fn header(&mut self, data: &mut &[u8], time: Time, form: Form) -> Option<Header> {
        let (first, rest) = data.split_first()?;
        self.header.push(*first);
        *data = rest;
        self.frame = Frame::of(&self.header, time);
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
    fn miss(&mut self, chunk: &Chunk<'_>, out: &mut dyn Out) {
        if let Some(frame) = &mut self.frame {
            let lost = chunk.gap.min(frame.length - frame.seen);
            frame.seen += lost;
            frame.missing += lost;
            let is_found = lost == chunk.gap;
            if frame.seen == frame.length {
                out.more(chunk.data.len());
                self.finish(chunk.direction, out);
            }
            if is_found {
                return;
            }
        }
        self.header.clear();
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
    fn emit(&mut self, direction: Direction, unread: Option<usize>, out: &mut dyn Out) {
        if self.frame.as_ref().is_none_or(|frame| frame.seen < frame.length && unread.is_some()) {
            return;
        }
        match unread {
            Some(unread) => out.message(unread),
            None => out.rest(direction),
        };
        self.finish(direction, out);
    }

    /// Emits the frame, as far as it has arrived.
    fn finish(&mut self, direction: Direction, out: &mut dyn Out) {
        let Some(frame) = self.frame.take() else { return };
        self.header.clear();
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
    fn of(header: &[u8], time: Time) -> Option<Self> {
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
        (length >> 63 == 0).then_some(Self { time, first: *first, mask, length, seen, missing, payload })
    }

    fn is_compressed(&self) -> bool {
        self.first & COMPRESSED != 0
    }

    fn bytes(&mut self, data: &mut &[u8]) {
        let left = usize::try_from(self.length - self.seen).unwrap_or(usize::MAX);
        let (now, later) = data.split_at_checked(left.min(data.len())).unwrap_or((data, &[]));
        // Bytes after a gap are not kept: only the beginning is shown.
        let room = if self.missing > 0 { 0 } else { KEPT.saturating_sub(self.payload.len()) };
        let at = self.payload.len();
        let mask = self.mask.unwrap_or_default();
        let masks = mask.iter().cycle().skip(at % 4);
        self.payload.extend(now.iter().take(room).zip(masks).map(|(byte, mask)| byte ^ mask));
        looked_at(now.len());
        self.seen += now.len() as u64;
        *data = later;
    }
}
