//! Modbus/TCP (MODBUS Messaging on TCP/IP Implementation Guide 1.0b, MODBUS Application Protocol 1.1b3).

use crate::messages::{Length, Message, Reads, Rules, Sides};
use crate::sought::Begun;
use crate::{Heads, Kind, Out, Parser, Probe, Protocol, Span, Step, Table, Transport, Value, field, record};
use weir_wire::stream::Chunk;
use weir_wire::{Direction, Reader, Time};

pub(crate) static PROTOCOL: Protocol = Protocol {
    name: "modbus",
    help: "Modbus/TCP (MODBUS Application Protocol 1.1b3).",
    transport: Transport::Tcp,
    ports: &[502],
    probe,
    parser: |_| Box::new(Modbus::default()),
    tables: &[&MODBUS],
    buffers: &[],
};

static MODBUS: Table = Table {
    name: "modbus",
    help: "A request or a response.",
    zeek: "modbus",
    eve: "",
    fields: &[
        field("tid", Kind::Uint, "Transaction identifier, equal in request and response.").zeek("tid"),
        field("unit", Kind::Uint, "Identifier of the device.").zeek("unit"),
        field("func", Kind::Word, "Function, by the name of its code.").zeek("func"),
        field("pdu_type", Kind::Word, "REQ for a request, RESP for a response.").zeek("pdu_type"),
        field(
            "exception",
            Kind::Word,
            "Reason why the server refused the request, by the name of the exception code.",
        )
        .zeek("exception"),
        field("address", Kind::Uint, "Address of the first coil, input or register of the request."),
        field("quantity", Kind::Uint, "Number of coils, inputs or registers of the request."),
        field("rtt", Kind::Duration, "Time from the request to the response, in seconds."),
    ],
};

/// Maximum length of a message in bytes (Messaging Guide, 3.1.3).
const MAX_MESSAGE: usize = 260;
/// Maximum number of requests whose responses are waited for: the guide recommends 1 to 16 (4.4.1.1).
const MAX_WAITING: usize = 32;
/// Bit of the function in an exception.
const EXCEPTION: u8 = 0x80;

/// Length of a message.
fn length(head: &[u8]) -> Length {
    match head.first_chunk::<6>() {
        None => Length::Within(6),
        Some([_, _, 0, 0, high, low]) => match usize::from(u16::from_be_bytes([*high, *low])) {
            rest if rest >= 2 && 6 + rest <= MAX_MESSAGE => Length::Is(6 + rest),
            _ => Length::Bad(6),
        },
        Some(_) => Length::Bad(6),
    }
}

/// A message.
struct Pdu<'a> {
    tid: u16,
    unit: u8,
    function: u8,
    data: &'a [u8],
}

impl<'a> Pdu<'a> {
    fn read(message: &'a [u8]) -> Option<Self> {
        let mut reader = Reader::new(message);
        let tid = reader.u16()?;
        reader.take(4)?;
        Some(Self { tid, unit: reader.u8()?, function: reader.u8()?, data: reader.rest() })
    }

    /// Whether the data are what the function has; `None` for functions whose data are free.
    fn fits(&self, side: Direction) -> Option<bool> {
        let counted = |at: usize| {
            self.data.get(at).is_some_and(|count| at + 1 + usize::from(*count) == self.data.len())
        };
        let bytes = self.data.len();
        if self.function & EXCEPTION != 0 {
            let code = self.data.first().copied().unwrap_or_default();
            return Some(side == Direction::Reverse && bytes == 1 && (1..=11).contains(&code));
        }
        Some(match (self.function, side) {
            (1..=4, Direction::Forward) => bytes == 4,
            (1..=4 | 12 | 17 | 20 | 21 | 23, Direction::Reverse) => counted(0),
            (5 | 6, _) => bytes == 4,
            (15 | 16, Direction::Forward) => counted(4),
            (15 | 16, Direction::Reverse) => bytes == 4,
            (7 | 11 | 12 | 17, Direction::Forward) => bytes == 0,
            (7, Direction::Reverse) => bytes == 1,
            (11, Direction::Reverse) => bytes == 4,
            (20 | 21, Direction::Forward) => counted(0),
            (22, _) => bytes == 6,
            (23, Direction::Forward) => counted(8),
            (24, Direction::Forward) => bytes == 2,
            (8 | 24 | 43, _) => bytes >= 2,
            _ => return None,
        })
    }

    /// First address and number of what a request is about.
    fn range(&self) -> (Option<u16>, Option<u16>) {
        let mut reader = Reader::new(self.data);
        match self.function {
            1..=4 | 15 | 16 | 23 => (reader.u16(), reader.u16()),
            5 | 6 | 22 | 24 => (reader.u16(), None),
            _ => (None, None),
        }
    }
}

/// Whether a message of a side begins here, and is whole: [`Begun::Unknown`] also of a function whose data are free.
fn begun(side: Direction, bytes: &[u8]) -> Begun {
    let length = match length(bytes) {
        Length::Is(length) => length,
        Length::Within(_) => return Begun::Unknown,
        Length::Bad(_) => return Begun::No,
    };
    let Some(message) = bytes.get(..length) else { return Begun::Unknown };
    match Pdu::read(message).and_then(|pdu| pdu.fits(side)) {
        Some(true) => Begun::Yes(length),
        _ => Begun::No,
    }
}

/// On the protocol's port a message decides whose data fit its function, elsewhere a request with its response.
fn probe(heads: &Heads<'_>) -> Probe {
    let is_home = heads.is_home(PROTOCOL.ports);
    let sides = [(Direction::Forward, heads.forward), (Direction::Reverse, heads.reverse)];
    let found = sides.map(|(side, head)| (head, begun(side, head)));
    if found.iter().any(|(head, begun)| !head.is_empty() && matches!(begun, Begun::No)) {
        return Probe::Reject;
    }
    let is_one = |(head, begun): &(&[u8], Begun)| !head.is_empty() && matches!(begun, Begun::Yes(_));
    if is_home {
        return if found.iter().any(is_one) { Probe::Match } else { Probe::Maybe };
    }
    if !found.iter().all(is_one) {
        return Probe::Maybe;
    }
    let [request, response] = found.map(|(head, _)| Pdu::read(head));
    let is_pair = request.zip(response).is_some_and(|(request, response)| {
        (request.tid, request.unit, request.function)
            == (response.tid, response.unit, response.function & !EXCEPTION)
    });
    if is_pair { Probe::Match } else { Probe::Reject }
}

/// How messages begin.
#[derive(Clone, Copy)]
struct Begins;

impl Rules for Begins {
    fn length(self, _: Direction, head: &[u8]) -> Length {
        length(head)
    }

    fn begun(self, side: Direction, at: usize, bytes: &[u8]) -> Begun {
        match begun(side, bytes) {
            // Away from the first byte after a gap, a second message must follow.
            Begun::Yes(first) if at > 0 => match begun(side, bytes.get(first..).unwrap_or_default()) {
                Begun::Yes(second) => Begun::Yes(first + second),
                other => other,
            },
            Begun::No if at == 0 => match length(bytes) {
                // There, a message may have a function whose data are free.
                Length::Is(length) if has_free_data(bytes.get(..length).unwrap_or_default()) => {
                    Begun::Yes(length)
                }
                _ => Begun::No,
            },
            other => other,
        }
    }
}

/// Whether a message has a function whose data are not known here.
fn has_free_data(message: &[u8]) -> bool {
    Pdu::read(message).is_some_and(|pdu| pdu.fits(Direction::Forward).is_none())
}

/// Zeek's name of a function; the numbers are those of the specification, 5.1.
fn function(number: u8) -> String {
    let word = match number & !EXCEPTION {
        1 => "READ_COILS",
        2 => "READ_DISCRETE_INPUTS",
        3 => "READ_HOLDING_REGISTERS",
        4 => "READ_INPUT_REGISTERS",
        5 => "WRITE_SINGLE_COIL",
        6 => "WRITE_SINGLE_REGISTER",
        7 => "READ_EXCEPTION_STATUS",
        8 => "DIAGNOSTICS",
        11 => "GET_COMM_EVENT_COUNTER",
        12 => "GET_COMM_EVENT_LOG",
        15 => "WRITE_MULTIPLE_COILS",
        16 => "WRITE_MULTIPLE_REGISTERS",
        17 => "REPORT_SLAVE_ID",
        20 => "READ_FILE_RECORD",
        21 => "WRITE_FILE_RECORD",
        22 => "MASK_WRITE_REGISTER",
        23 => "READ_WRITE_MULTIPLE_REGISTERS",
        24 => "READ_FIFO_QUEUE",
        43 => "ENCAP_INTERFACE_TRANSPORT",
        _ => return format!("unknown-{number}"),
    };
    if number & EXCEPTION == 0 { word.to_owned() } else { format!("{word}_EXCEPTION") }
}

/// Zeek's name of an exception; the numbers are those of the specification, 7.
fn exception(number: u8) -> String {
    let word = match number {
        1 => "ILLEGAL_FUNCTION",
        2 => "ILLEGAL_DATA_ADDRESS",
        3 => "ILLEGAL_DATA_VALUE",
        4 => "SLAVE_DEVICE_FAILURE",
        5 => "ACKNOWLEDGE",
        6 => "SLAVE_DEVICE_BUSY",
        8 => "MEMORY_PARITY_ERROR",
        10 => "GATEWAY_PATH_UNAVAILABLE",
        11 => "GATEWAY_TARGET_DEVICE_FAILED_TO_RESPOND",
        _ => return format!("unknown-{number}"),
    };
    word.to_owned()
}

#[derive(Default)]
struct Modbus {
    sides: Sides,
    state: State,
}

/// Requests without a response.
#[derive(Default)]
struct State(Vec<Waiting>);

/// A request without a response: its transaction, unit and function, its time and its bytes.
struct Waiting {
    key: (u16, u8, u8),
    time: Time,
    at: Span,
}

impl Reads for State {
    type Rules = Begins;
    const MAX_HELD: usize = MAX_MESSAGE;

    fn rules(&self) -> Begins {
        Begins
    }

    fn message(&mut self, message: Message<'_>, chunk: &Chunk<'_>, out: &mut dyn Out) -> Step {
        let Some(pdu) = Pdu::read(message.bytes) else {
            self.malformed(message.bytes, chunk, out);
            return Step::Next;
        };
        if pdu.fits(chunk.direction) == Some(false) {
            self.malformed(message.bytes, chunk, out);
        }
        let (time, is_request) = (chunk.time, chunk.direction == Direction::Forward);
        let key = (pdu.tid, pdu.unit, pdu.function & !EXCEPTION);
        let (mut rtt, mut at) = (None, out.here());
        if is_request {
            if self.0.len() == MAX_WAITING {
                self.0.remove(0);
            }
            self.0.push(Waiting { key, time, at });
        } else if let Some(place) = self.0.iter().position(|waiting| waiting.key == key) {
            let mut asked = self.0.remove(place);
            rtt = Some(Value::Duration(time.since(asked.time)));
            asked.at.add(at);
            at = asked.at;
        }
        let is_refused = pdu.function & EXCEPTION != 0;
        let (address, quantity) = if is_request { pdu.range() } else { (None, None) };
        let record = record!(
            MODBUS,
            time,
            tid = pdu.tid,
            unit = pdu.unit,
            func = function(pdu.function),
            pdu_type = if is_request { "REQ" } else { "RESP" },
            exception = pdu.data.first().filter(|_| is_refused).map(|code| exception(*code)),
            address = address,
            quantity = quantity,
            rtt = rtt,
        );
        out.record(record.over(at));
        Step::Next
    }

    fn malformed(&mut self, bytes: &[u8], chunk: &Chunk<'_>, out: &mut dyn Out) {
        PROTOCOL.emit_anomaly("malformed_data", chunk.direction, bytes, chunk.time, out);
    }
}

impl Parser for Modbus {
    fn chunk(&mut self, chunk: &Chunk<'_>, out: &mut dyn Out) -> Step {
        self.sides.read(chunk, out, &mut self.state)
    }

    fn end(&mut self, _: Time, _: &mut dyn Out) {}

    fn memory(&self) -> usize {
        self.sides.memory() + self.state.0.capacity() * size_of::<Waiting>()
    }
}
