//! Network Time Protocol (RFC 5905, and its predecessor RFC 1305): each message.

use crate::early::begin_transaction;
use crate::{
    Buffer, Heads, Kind, Out, Parser, Privacy, Probe, Protocol, Record, Step, Table, Transport, Value, field,
    record,
};
use std::net::Ipv4Addr;
use weir_wire::stream::Chunk;
use weir_wire::{Direction, Reader, Time};

pub(crate) static PROTOCOL: Protocol = Protocol {
    name: "ntp",
    help: "Network Time Protocol (RFC 5905).",
    transport: Transport::Udp,
    ports: &[123],
    probe,
    parser: |_| Box::new(Ntp::default()),
    tables: &[&NTP, &CONTROL],
    buffers: &[&VERSION, &MODE, &STRATUM, &REFERENCE_ID],
};

static VERSION: Buffer = Buffer::number("ntp.version", "Version of a message.");
static MODE: Buffer = Buffer::number("ntp.mode", "Mode of a message, 1 to 7.");
static STRATUM: Buffer = Buffer::number("ntp.stratum", "Stratum of a message that carries times.");
static REFERENCE_ID: Buffer =
    Buffer::whole("ntp.reference_id", "Reference identifier of a message that carries times, 4 bytes.");

static NTP: Table = Table {
    name: "ntp",
    help: "A message that carries times.",
    zeek: "ntp",
    eve: "ntp",
    fields: &[
        field("version", Kind::Uint, "Version of the protocol.").zeek("version").eve("ntp.version"),
        field(
            "mode",
            Kind::Uint,
            "Mode: 1 symmetric active, 2 symmetric passive, 3 client, 4 server, 5 broadcast.",
        )
        .zeek("mode")
        .eve("ntp.mode"),
        field(
            "stratum",
            Kind::Uint,
            "Stratum: number of servers between the sender and a reference clock; 0: unknown.",
        )
        .zeek("stratum")
        .eve("ntp.stratum"),
        field("poll", Kind::Duration, "Maximum interval between messages, in seconds.").zeek("poll"),
        field("precision", Kind::Duration, "Precision of the sender's clock, in seconds.").zeek("precision"),
        field("root_delay", Kind::Duration, "Round-trip delay to the reference clock, in seconds.")
            .zeek("root_delay"),
        field("root_dispersion", Kind::Duration, "Dispersion to the reference clock, in seconds.")
            .zeek("root_disp"),
        field("reference", Kind::Text, "Reference clock or server of the sender, or a kiss code.")
            .zeek("ref_id")
            .privacy(Privacy::Address),
        field("reference_time", Kind::Time, "Time at which the sender's clock was last set.")
            .zeek("ref_time"),
        field("origin_time", Kind::Time, "Time of the client's request, repeated by the server.")
            .zeek("org_time"),
        field("receive_time", Kind::Time, "Time at which the server received the request.").zeek("rec_time"),
        field("transmit_time", Kind::Time, "Time at which this message was sent.").zeek("xmt_time"),
        field("extensions", Kind::Uint, "Number of extension fields after the message.").zeek("num_exts"),
        field(
            "leap",
            Kind::Uint,
            "Leap indicator: 1: the last minute has 61 seconds, 2: 59 seconds, 3: the clock is not synchronised.",
        ),
        field("reference_id", Kind::Text, "Reference identifier in hexadecimal digits.")
            .eve("ntp.reference_id")
            .privacy(Privacy::Address),
        field("authenticated", Kind::Bool, "Whether the message ends with a key identifier and a digest."),
    ],
};

static CONTROL: Table = Table {
    name: "ntp_control",
    help: "A query about the state of a server, or its response. Attackers use such responses for amplification.",
    zeek: "",
    eve: "",
    fields: &[
        field("version", Kind::Uint, "Version of the protocol."),
        field("mode", Kind::Uint, "Mode: 6 control, 7 private to one implementation (ntpdc)."),
        field("response", Kind::Bool, "Whether the message is a response."),
        field("error", Kind::Uint, "Error: in mode 7 its number; in mode 6, 1 if there was one, else 0."),
        field("more", Kind::Bool, "Whether more fragments follow."),
        field("operation", Kind::Uint, "Operation code (mode 6) or request code (mode 7; 42 is monlist)."),
        field("implementation", Kind::Uint, "Implementation number (mode 7)."),
        field("sequence", Kind::Uint, "Sequence number of the query or of the fragment."),
        field("association", Kind::Uint, "Association identifier (mode 6)."),
        field("bytes", Kind::Uint, "Size of the message in bytes."),
    ],
};

/// Bytes of a message without optional fields.
const SIZE: usize = 48;
/// Place of the reference identifier in bytes.
const REFERENCE: usize = 12;
/// Bytes of a key identifier with an MD5 or SHA-1 digest.
const CHECKS: [usize; 2] = [20, 24];
/// Seconds from 1900 to 1970.
const EPOCH: u64 = 2_208_988_800;

fn probe(heads: &Heads<'_>) -> Probe {
    let home = heads.ports.contains(&123);
    let mut found = Probe::Reject;
    for data in heads.both() {
        match probe_one(data, home) {
            Probe::Match => return Probe::Match,
            Probe::Maybe => found = Probe::Maybe,
            Probe::Reject => return Probe::Reject,
        }
    }
    found
}

fn probe_one(data: &[u8], home: bool) -> Probe {
    let Some([first, stratum, poll, precision]) = data.first_chunk() else { return Probe::Reject };
    let (version, mode) = (first >> 3 & 7, first & 7);
    if home {
        let is_long = data.len() >= if mode < 6 { SIZE } else { 8 };
        return if is_long && (1..=4).contains(&version) { Probe::Match } else { Probe::Reject };
    }
    let is_size = data.len() == SIZE || CHECKS.iter().any(|check| data.len() == SIZE + check);
    let is_clock = *stratum <= 16 && *poll <= 17 && (*precision == 0 || *precision >= 0xe0);
    if !is_size || !is_clock || !matches!(version, 3 | 4) {
        return Probe::Reject;
    }
    // Servers send current times; clients may send any times.
    let recent = |at: usize| data.get(at).is_some_and(|byte| *byte >= 0xc0);
    match mode {
        4 | 5 if (1..16).contains(stratum) && recent(16) && recent(40) => Probe::Match,
        3 if recent(40) || data.get(4..40).is_some_and(|rest| rest.iter().all(|byte| *byte == 0)) => {
            Probe::Maybe
        }
        _ => Probe::Reject,
    }
}

#[derive(Default)]
struct Ntp {
    /// Number of messages of both sides.
    messages: u64,
}

impl Ntp {
    /// Hands on the numbers and the reference identifier of a message that was read.
    fn hand_on(&mut self, data: &[u8], side: Direction, out: &mut dyn Out) {
        let Some([first, stratum]) = data.first_chunk() else { return };
        let (version, mode) = (first >> 3 & 7, first & 7);
        begin_transaction(side, self.messages, out);
        self.messages += 1;
        out.emit_number(&VERSION, side, version.into());
        out.emit_number(&MODE, side, mode.into());
        if mode < 6 {
            out.emit_number(&STRATUM, side, (*stratum).into());
            if let Some(id) = data.get(REFERENCE..REFERENCE + 4) {
                out.emit(&REFERENCE_ID, side, id);
            }
        }
        out.side_is_complete(side);
    }

    fn emit(&mut self, record: Option<Record<'_>>, chunk: &Chunk<'_>, out: &mut dyn Out) {
        let direction: Direction = chunk.direction;
        match record {
            Some(record) => {
                self.hand_on(chunk.data, direction, out);
                out.record(record);
            }
            None => {
                PROTOCOL.emit_anomaly("truncated_message", direction, chunk.data, chunk.time, out);
            }
        }
    }
}

impl Parser for Ntp {
    fn chunk(&mut self, chunk: &Chunk<'_>, out: &mut dyn Out) -> Step {
        let (time, direction) = (chunk.time, chunk.direction);
        match chunk.data.first().map(|first| first & 7) {
            None => return Step::Next,
            Some(6) => self.emit(control(chunk.data, time), chunk, out),
            Some(7) => self.emit(private(chunk.data, time), chunk, out),
            Some(0) => {
                PROTOCOL.emit_anomaly("reserved_mode", direction, chunk.data, time, out);
            }
            Some(_) => self.emit(message(chunk.data, time), chunk, out),
        }
        Step::Next
    }

    fn end(&mut self, _: Time, _: &mut dyn Out) {}

    fn memory(&self) -> usize {
        0
    }
}

fn message(data: &[u8], time: Time) -> Option<Record<'_>> {
    let mut reader = Reader::new(data);
    let [first, stratum, poll, precision] = reader.take(4)?.first_chunk().copied()?;
    let (delay, dispersion) = (reader.u32()?, reader.u32()?);
    let id = reader.take(4)?.first_chunk::<4>()?;
    let mut times = [Value::None, Value::None, Value::None, Value::None];
    for time in &mut times {
        *time = Value::Time(point(reader.u32()?, reader.u32()?));
    }
    let [reference_time, origin, receive, transmit] = times;
    let version = first >> 3 & 7;
    let (extensions, is_signed) = behind(version, reader);
    let reference = if stratum < 2 { id.to_vec() } else { Ipv4Addr::from(*id).to_string().into_bytes() };
    let [a, b, c, d] = *id;
    Some(record!(
        NTP,
        time,
        version = version,
        mode = first & 7,
        stratum = stratum,
        poll = power(poll),
        precision = power(precision),
        root_delay = fixed(delay),
        root_dispersion = fixed(dispersion),
        reference = reference,
        reference_time = reference_time,
        origin_time = origin,
        receive_time = receive,
        transmit_time = transmit,
        extensions = extensions,
        leap = first >> 6,
        reference_id = format!("{a:02x}:{b:02x}:{c:02x}:{d:02x}"),
        authenticated = is_signed,
    ))
}

/// Number of extension fields (RFC 7822) after a message, and whether a checksum follows.
fn behind(version: u8, mut rest: Reader<'_>) -> (u64, bool) {
    let mut count = 0;
    while version == 4 && rest.rest().len() > CHECKS.into_iter().max().unwrap_or(0) {
        let (Some(_), Some(len)) = (rest.u16(), rest.u16()) else { break };
        if len < 4 || rest.take(usize::from(len) - 4).is_none() {
            break;
        }
        count += 1;
    }
    (count, CHECKS.contains(&rest.rest().len()))
}

/// A time in seconds since 1900 and fractions of 2^-32; values before 1970 belong to the era after 2036. Zero means
/// unknown and is kept.
fn point(seconds: u32, fraction: u32) -> Time {
    if seconds == 0 && fraction == 0 {
        return Time(0);
    }
    let seconds = u64::from(seconds);
    let since = seconds.checked_sub(EPOCH).unwrap_or(seconds + (1 << 32) - EPOCH);
    Time(since * 1_000_000_000 + ((u64::from(fraction) * 1_000_000_000) >> 32))
}

/// Two to the power of the value, in seconds.
fn power(exponent: u8) -> Value<'static> {
    Value::Duration((f64::from(exponent as i8).exp2() * 1e9) as u64)
}

/// Seconds with 16 fractional bits.
fn fixed(number: u32) -> Value<'static> {
    Value::Duration((u64::from(number) * 1_000_000_000) >> 16)
}

fn control(data: &[u8], time: Time) -> Option<Record<'_>> {
    let mut reader = Reader::new(data);
    let (first, second, sequence) = (reader.u8()?, reader.u8()?, reader.u16()?);
    let (_, association) = (reader.u16()?, reader.u16()?);
    Some(record!(
        CONTROL,
        time,
        version = first >> 3 & 7,
        mode = Value::Uint(6),
        response = second & 0x80 != 0,
        error = second >> 6 & 1,
        more = second & 0x20 != 0,
        operation = second & 0x1f,
        implementation = Value::None,
        sequence = sequence,
        association = association,
        bytes = data.len(),
    ))
}

fn private(data: &[u8], time: Time) -> Option<Record<'_>> {
    let mut reader = Reader::new(data);
    let (first, sequence, flow_ref, request) = (reader.u8()?, reader.u8()?, reader.u8()?, reader.u8()?);
    let error = reader.u16()?;
    Some(record!(
        CONTROL,
        time,
        version = first >> 3 & 7,
        mode = Value::Uint(7),
        response = first & 0x80 != 0,
        error = error >> 12,
        more = first & 0x40 != 0,
        operation = request,
        implementation = flow_ref,
        sequence = sequence & 0x7f,
        association = Value::None,
        bytes = data.len(),
    ))
}
