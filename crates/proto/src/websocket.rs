//! WebSocket (RFC 6455): frames, after the upgrade in HTTP.

use crate::work::looked_at;
use crate::{
    Heads, Kind, Out, Parser, Privacy, Probe, Protocol, Step, Table, Transport, Value, field, record,
};
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
        field("missing", Kind::Uint, "Bytes lost on the way to the sensor."),
    ],
};

/// Maximum number of payload bytes of a frame that are kept.
const KEPT: usize = 256;
/// Maximum length of a header in bytes: two bytes, a length of eight, a mask of four.
const MAX_HEADER: usize = 14;

#[derive(Default)]
struct Websocket {
    client: Side,
    server: Side,
}

#[derive(Default)]
struct Side {
    header: Vec<u8>,
    frame: Option<Frame>,
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
        if chunk.gap > 0 && !side.miss(chunk, out) {
            return Step::GiveUp;
        }
        let mut data = chunk.data;
        while !data.is_empty() {
            if let Some(frame) = &mut side.frame {
                frame.bytes(&mut data);
            } else if let Some((first, rest)) = data.split_first() {
                side.header.push(*first);
                data = rest;
                side.frame = Frame::of(&side.header, chunk.time);
                if side.frame.is_none() && side.header.len() >= MAX_HEADER {
                    let (name, detail) = ("bad_websocket_frame", side.header.as_slice());
                    PROTOCOL.emit_anomaly(name, chunk.direction, detail, chunk.time, out);
                    return Step::GiveUp;
                }
            }
            side.emit(chunk.direction, Some(data.len()), out);
        }
        Step::Next
    }

    fn end(&mut self, _: Time, out: &mut dyn Out) {
        self.client.emit(Direction::Forward, None, out);
        self.server.emit(Direction::Reverse, None, out);
    }

    fn memory(&self) -> usize {
        let of = |side: &Side| {
            side.header.capacity() + side.frame.as_ref().map_or(0, |frame| frame.payload.capacity())
        };
        of(&self.client) + of(&self.server)
    }
}

impl Side {
    /// Takes a gap; `false` if the next frame cannot be found.
    fn miss(&mut self, chunk: &Chunk<'_>, out: &mut dyn Out) -> bool {
        let Some(frame) = self.frame.as_mut().filter(|frame| chunk.gap <= frame.length - frame.seen) else {
            return false;
        };
        frame.seen += chunk.gap;
        frame.missing += chunk.gap;
        self.emit(chunk.direction, Some(chunk.data.len()), out);
        true
    }

    /// Emits a frame if it is complete, `unread` bytes before the end of the chunk, or if the rest will not arrive, without
    /// `unread`.
    fn emit(&mut self, direction: Direction, unread: Option<usize>, out: &mut dyn Out) {
        let complete = |frame: &mut Frame| frame.seen >= frame.length || unread.is_none();
        let Some(frame) = self.frame.take_if(complete) else { return };
        self.header.clear();
        match unread {
            Some(unread) => out.message(unread),
            None => out.rest(direction),
        };
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
            compressed = frame.first & 0x40 != 0,
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
