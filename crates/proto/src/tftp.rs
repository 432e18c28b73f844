//! Trivial File Transfer Protocol (RFC 1350, options of RFC 2347 to 2349 and RFC 7440): requested files, and their
//! content.
//!
//! A server answers from a new port, so that the request announces the flow of the file.

use crate::early::begin_transaction;
use crate::file::{About, File, Files};
use crate::{
    Buffer, Expected, Heads, Kind, Out, Parser, Privacy, Probe, Protocol, Setup, Step, Table, Transport, UDP,
    Value, field, record,
};
use weir_wire::stream::Chunk;
use weir_wire::{Direction, Reader, Time};

pub(crate) static PROTOCOL: Protocol = Protocol {
    name: "tftp",
    help: "Trivial File Transfer Protocol (RFC 1350).",
    transport: Transport::Udp,
    ports: &[69],
    probe,
    parser: |setup| Box::new(Tftp { setup: setup.clone(), transfer: None, requests: 0 }),
    tables: &[&REQUEST, &TRANSFER],
    buffers: &[&FILE, &MODE],
};

static FILE: Buffer =
    Buffer::whole("tftp.file", "Name of the file in a request, as sent, at most 512 bytes.");
static MODE: Buffer =
    Buffer::whole("tftp.mode", "Mode of the transfer in a request, as sent, at most 512 bytes.");

static REQUEST: Table = Table {
    name: "tftp",
    help: "A request to read or write a file.",
    zeek: "",
    eve: "tftp",
    fields: &[
        field("packet", Kind::Word, "Direction of the transfer: read or write.").eve("tftp.packet"),
        field("file", Kind::Text, "Name of the file in the request.").eve("tftp.file").privacy(Privacy::Url),
        field("mode", Kind::Text, "Transfer mode: byte, netascii or mail.").eve("tftp.mode"),
        field("options", Kind::List(&Kind::Text), "Options of the request and their values, alternating."),
    ],
};

static TRANSFER: Table = Table {
    name: "tftp_transfer",
    help: "The transfer of a file, emitted at its end.",
    zeek: "",
    eve: "",
    fields: &[
        field("packet", Kind::Word, "Direction of the transfer: read or write."),
        field("file", Kind::Text, "Name of the file in the request.").privacy(Privacy::Url),
        field("file_name", Kind::Text, "Identifier of the file in records (Zeek's fuid)."),
        field("bytes", Kind::Uint, "Bytes of the file that were received."),
        field("blocks", Kind::Uint, "Blocks that were received for the first time."),
        field("repeated", Kind::Uint, "Blocks that were received again."),
        field("complete", Kind::Bool, "Whether the file was received completely."),
        field("error", Kind::Uint, "Error code of an aborted transfer (RFC 1350, appendix; RFC 2347)."),
        field("message", Kind::Text, "Error message of an aborted transfer.").privacy(Privacy::Content),
        field("duration", Kind::Duration, "Time from the request to the last block, in seconds."),
    ],
};

/// Maximum length of a file name, mode or option in bytes.
const MAX_TEXT: usize = 512;
/// Maximum number of options of one request.
const MAX_OPTIONS: usize = 16;
/// Size of a block in bytes, unless another size is negotiated.
const BLOCK: u64 = 512;
/// Time for which an answer is expected, in nanoseconds: clients repeat requests for about as long.
const PATIENCE: u64 = 60_000_000_000;
/// Maximum number of missing blocks before one: a window of RFC 7440.
const MAX_WINDOW: u64 = 65535;

const READ: u16 = 1;
const WRITE: u16 = 2;
const DATA: u16 = 3;
const ACKNOWLEDGE: u16 = 4;
const ERROR: u16 = 5;
const OPTIONS: u16 = 6;

fn probe(heads: &Heads<'_>) -> Probe {
    let Some(request) = Request::read(heads.forward) else { return Probe::Reject };
    let is_mode =
        [b"octet".as_slice(), b"netascii", b"mail"].iter().any(|m| request.mode.eq_ignore_ascii_case(m));
    let home = heads.ports.contains(&69);
    if is_mode || home { Probe::Match } else { Probe::Reject }
}

/// A request: a file's name, its transfer mode, and options with their values.
struct Request<'a> {
    is_read: bool,
    file: &'a [u8],
    mode: &'a [u8],
    options: Vec<&'a [u8]>,
}

impl<'a> Request<'a> {
    fn read(data: &'a [u8]) -> Option<Self> {
        let mut reader = Reader::new(data);
        let kind = reader.u16()?;
        // Some senders add padding after the last zero byte.
        let mut texts =
            reader.rest().split(|byte| *byte == 0).map(|text| text.get(..MAX_TEXT).unwrap_or(text));
        let (file, mode) = (texts.next()?, texts.next()?);
        let is_whole = reader.rest().iter().filter(|byte| **byte == 0).nth(1).is_some();
        let is_good = matches!(kind, READ | WRITE) && !file.is_empty() && !mode.is_empty() && is_whole;
        let options = texts.take_while(|text| !text.is_empty()).take(2 * MAX_OPTIONS).collect();
        is_good.then_some(Self { is_read: kind == READ, file, mode, options })
    }
}

/// The numeric value of an option.
fn option(options: &[&[u8]], name: &[u8]) -> Option<u64> {
    let pair =
        options.chunks_exact(2).find(|pair| pair.first().is_some_and(|o| o.eq_ignore_ascii_case(name)))?;
    std::str::from_utf8(pair.get(1)?).ok()?.parse().ok()
}

/// A file transfer.
struct Transfer {
    setup: Setup,
    is_read: bool,
    name: Vec<u8>,
    begun: Time,
    last: Time,
    /// The side that sent the request.
    client: Direction,
    file: Option<File>,
    block: u64,
    /// The negotiated size of the file.
    total: Option<u64>,
    /// Number of the last block in order, extended beyond 16 bits.
    at: u64,
    blocks: u64,
    repeated: u64,
    /// Number of the final block, which is shorter than the others.
    end: Option<u64>,
    error: Option<(u16, Vec<u8>)>,
}

impl Transfer {
    fn new(request: &Request<'_>, setup: Setup, client: Direction, time: Time) -> Self {
        Self {
            setup,
            is_read: request.is_read,
            name: request.file.to_vec(),
            begun: time,
            last: time,
            client,
            file: None,
            // An option counts only after it was acknowledged.
            block: BLOCK,
            total: None,
            at: 0,
            blocks: 0,
            repeated: 0,
            end: None,
            error: None,
        }
    }

    /// The sender of the file.
    fn sender(&self) -> Direction {
        match (self.is_read, self.client) {
            (true, Direction::Forward) | (false, Direction::Reverse) => Direction::Reverse,
            _ => Direction::Forward,
        }
    }

    /// Takes a datagram; `false` if it does not belong to this protocol.
    fn datagram(&mut self, chunk: &Chunk<'_>, out: &mut dyn Out) -> bool {
        let mut reader = Reader::new(chunk.data);
        let (Some(kind), time) = (reader.u16(), chunk.time) else { return false };
        match kind {
            DATA => {
                let Some(number) = reader.u16() else { return false };
                if chunk.direction == self.sender() {
                    self.last = time;
                    self.data(number, reader.rest(), time, out);
                }
            }
            ACKNOWLEDGE => return reader.u16().is_some(),
            ERROR => {
                let Some(number) = reader.u16() else { return false };
                let text = reader.rest().split(|byte| *byte == 0).next().unwrap_or_default();
                self.error = Some((number, text.get(..MAX_TEXT).unwrap_or(text).to_vec()));
                self.last = time;
            }
            OPTIONS => {
                let texts: Vec<_> = reader.rest().split(|byte| *byte == 0).take(2 * MAX_OPTIONS).collect();
                // RFC 2348: from 8 to 65464 bytes.
                let size = option(&texts, b"blksize").filter(|size| (8..=65464).contains(size));
                if self.blocks == 0 {
                    self.block = size.unwrap_or(self.block);
                }
                self.total = option(&texts, b"tsize").filter(|total| *total > 0);
            }
            READ | WRITE => {}
            _ => return false,
        }
        true
    }

    fn open(&mut self, time: Time) -> &mut File {
        let direction = self.sender();
        self.file.get_or_insert_with(|| {
            let about = About {
                source: "TFTP",
                protocol: "tftp",
                direction,
                transaction: 0,
                depth: 0,
                filename: Some(&self.name),
                path: None,
                declared: None,
                total: self.total,
            };
            Files::new(&self.setup).open(time, about)
        })
    }

    fn data(&mut self, number: u16, bytes: &[u8], time: Time, out: &mut dyn Out) {
        // The nearest block count with that number: 0 follows 65535.
        let ahead = u64::from(number.wrapping_sub(self.at as u16));
        let count = match ahead {
            0 => self.at,
            1..0x8000 => self.at + ahead,
            _ => match self.at.checked_sub(0x1_0000 - ahead) {
                Some(count) => count,
                None => return,
            },
        };
        let Some(before) = count.checked_sub(1).filter(|_| count <= self.at + MAX_WINDOW) else { return };
        if self.end.is_some_and(|end| count > end) {
            return;
        }
        if count > self.at {
            self.at = count;
            self.blocks += 1;
        } else {
            self.repeated += 1;
        }
        let block = self.block;
        // A larger first block shows that options were acknowledged before the capture began.
        if count == 1 && bytes.len() as u64 > block {
            self.block = bytes.len() as u64;
        }
        if (bytes.len() as u64) < self.block {
            self.end = Some(count);
        }
        let offset = before * self.block;
        self.open(time).bytes_at(offset, bytes, time, out);
    }

    /// Whether the file was received completely.
    fn is_complete(&self) -> bool {
        self.end.is_some_and(|end| {
            let next = self.file.as_ref().map_or(0, File::next);
            next >= (end - 1) * self.block
        })
    }

    fn emit(mut self, out: &mut dyn Out) {
        let complete = self.is_complete() && self.error.is_none();
        let file = self.file.take();
        let (error, message) = self.error.map_or((None, None), |(error, text)| (Some(error), Some(text)));
        out.record(record!(
            TRANSFER,
            self.begun,
            packet = if self.is_read { "read" } else { "write" },
            file = &self.name,
            file_name = file.as_ref().map(File::name),
            bytes = file.as_ref().map_or(0, File::seen),
            blocks = self.blocks,
            repeated = self.repeated,
            complete = complete,
            error = error,
            message = message.filter(|text| !text.is_empty()),
            duration = Value::Duration(self.last.since(self.begun)),
        ));
        if let Some(file) = file {
            file.close(complete, out);
        }
    }

    fn memory(&self) -> usize {
        self.name.capacity() + self.file.as_ref().map_or(0, File::memory)
    }
}

/// The flow with the requests.
struct Tftp {
    setup: Setup,
    /// The transfer of a server that answers from the requested port.
    transfer: Option<Transfer>,
    /// Number of requests, also repeated ones.
    requests: u64,
}

impl Parser for Tftp {
    fn chunk(&mut self, chunk: &Chunk<'_>, out: &mut dyn Out) -> Step {
        let (time, direction) = (chunk.time, chunk.direction);
        let Some(request) = Request::read(chunk.data) else {
            let is_good = match &mut self.transfer {
                Some(transfer) => transfer.datagram(chunk, out),
                None => false,
            };
            if !is_good && !chunk.data.is_empty() {
                PROTOCOL.emit_anomaly("malformed_packet", direction, chunk.data, time, out);
            }
            return Step::Next;
        };
        let (client, server) = match direction {
            Direction::Forward => (self.setup.initiator, self.setup.responder),
            Direction::Reverse => (self.setup.responder, self.setup.initiator),
        };
        begin_transaction(direction, self.requests, out);
        self.requests += 1;
        out.emit(&FILE, direction, request.file);
        out.emit(&MODE, direction, request.mode);
        out.side_is_complete(direction);
        let options = Value::list(request.options.iter().copied());
        out.record(record!(
            REQUEST,
            time,
            packet = if request.is_read { "read" } else { "write" },
            file = request.file,
            mode = request.mode,
            options = options,
        ));
        // A repeated request is no other transfer.
        let again =
            self.transfer.as_ref().is_some_and(|t| t.name == request.file && t.is_read == request.is_read);
        if again && self.transfer.as_ref().is_some_and(|transfer| transfer.blocks == 0) {
            return Step::Next;
        }
        // In the expected flow the server is the initiator.
        let setup = Setup { initiator: server, responder: client, ..self.setup.clone() };
        let parser = Data { transfer: Some(Transfer::new(&request, setup, Direction::Reverse, time)) };
        out.expect(Expected {
            flow: self.setup.flow,
            responder: client,
            initiator: Some(server.0),
            ip_proto: UDP,
            from: time,
            until: Time(time.0.saturating_add(PATIENCE)),
            protocol: &PROTOCOL,
            parser: Box::new(parser),
        });
        let here = Transfer::new(&request, self.setup.clone(), direction, time);
        if let Some(before) = self.transfer.replace(here).filter(|transfer| transfer.blocks > 0) {
            before.emit(out);
        }
        Step::Next
    }

    fn end(&mut self, _: Time, out: &mut dyn Out) {
        // The answer in another flow is emitted there.
        let here = self.transfer.take().filter(|transfer| transfer.blocks > 0 || transfer.error.is_some());
        if let Some(transfer) = here {
            transfer.emit(out);
        }
    }

    fn memory(&self) -> usize {
        self.transfer.as_ref().map_or(0, Transfer::memory)
    }
}

/// The flow of a file.
struct Data {
    transfer: Option<Transfer>,
}

impl Parser for Data {
    fn chunk(&mut self, chunk: &Chunk<'_>, out: &mut dyn Out) -> Step {
        let is_good = self.transfer.as_mut().is_some_and(|transfer| transfer.datagram(chunk, out));
        if !is_good && !chunk.data.is_empty() {
            PROTOCOL.emit_anomaly("malformed_packet", chunk.direction, chunk.data, chunk.time, out);
        }
        Step::Next
    }

    fn end(&mut self, _: Time, out: &mut dyn Out) {
        if let Some(transfer) = self.transfer.take() {
            transfer.emit(out);
        }
    }

    fn memory(&self) -> usize {
        self.transfer.as_ref().map_or(0, Transfer::memory)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Record;
    use crate::Session;
    use crate::laws::{Collected, talks};

    fn talk(case: &str) -> Collected {
        let all = talks("tftp", 69);
        let (_, talk) = all.iter().find(|(path, _)| path.ends_with(case)).unwrap();
        talk.emitted(|data| vec![data.to_vec()])
    }

    fn block(number: u16, bytes: &[u8]) -> Vec<u8> {
        [&DATA.to_be_bytes()[..], &number.to_be_bytes(), bytes].concat()
    }

    /// Runs the expected flow of a request over the server's datagrams.
    fn announced(sent: &[Vec<u8>]) -> Collected {
        let mut emitted = talk("session.talk");
        let expected = emitted.expected.remove(0);
        assert_eq!(expected.responder.1, 49152);
        let setup = Setup {
            flow: 7,
            initiator: ([198, 51, 100, 2].into(), 4000),
            responder: expected.responder,
            ip_proto: UDP,
            wants: crate::Wants { hashes: crate::Hashes::ALL, content: true, ..crate::Wants::default() },
        };
        let (mut session, mut out) = (Session::expected(expected, setup.wants), Collected::default());
        for data in sent {
            let chunk = Chunk { time: Time(1), direction: Direction::Forward, gap: 0, data };
            session.chunk(&chunk, &|| setup.clone(), &mut out);
        }
        session.end(Time(2), &|| setup.clone(), &mut out);
        out
    }

    fn transfer(emitted: &Collected) -> &Record<'static> {
        emitted.records.iter().find(|record| *record.table == TRANSFER).unwrap()
    }

    #[test]
    fn blocks_are_joined_to_a_file() {
        let full = vec![b'x'; 512];
        let sent = [block(2, &full), block(1, &full), block(1, &full), block(3, b"end")];
        let emitted = announced(&sent);
        assert_eq!(emitted.content[0].1.len(), 1027);
        let row = transfer(&emitted);
        assert_eq!(row.get("complete"), &Value::Bool(true));
        assert_eq!(row.get("bytes"), &Value::Uint(1027));
    }

    #[test]
    fn lost_blocks_are_reported() {
        let full = vec![b'x'; 512];
        let emitted = announced(&[block(1, &full), block(3, b"end")]);
        assert_eq!(transfer(&emitted).get("complete"), &Value::Bool(false));
    }

    #[test]
    fn block_numbers_wrap() {
        let sent: Vec<_> = (1..=70_000_u32).map(|number| block(number as u16, &[0; 512])).collect();
        let emitted = announced(&sent);
        assert_eq!(transfer(&emitted).get("bytes"), &Value::Uint(70_000 * 512));
    }
}
