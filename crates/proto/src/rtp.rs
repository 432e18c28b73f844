//! Real-time Transport Protocol and its control protocol (RFC 3550): each stream with its loss, and each source with
//! its reports.
//!
//! Streams are identified by session descriptions, or by content: a single header is too unspecific, so that several
//! consecutive ones are required.

use crate::work::looked_at;
use crate::{
    Heads, Kind, Out, Parser, Privacy, Probe, Protocol, Step, Table, Transport, Value, field, record, values,
};
use weir_wire::stream::Chunk;
use weir_wire::{Direction, Reader, Time};

pub(crate) static PROTOCOL: Protocol = Protocol {
    name: "rtp",
    help: "Real-time Transport Protocol and its control protocol (RFC 3550).",
    transport: Transport::Udp,
    ports: &[],
    probe,
    parser: |_| Box::new(Rtp::default()),
    tables: &[&RTP, &RTCP],
    buffers: &[],
};

static RTP: Table = Table {
    name: "rtp",
    help: "A stream of one source, emitted at its end.",
    zeek: "",
    eve: "",
    fields: &[
        field("reverse", Kind::Bool, "Whether the responder sent the stream."),
        field("ssrc", Kind::Uint, "Synchronisation source (SSRC)."),
        field("payload_type", Kind::Uint, "Payload type of most of the first packets."),
        field("codec", Kind::Text, "Codec of the payload type, as announced or assigned by RFC 3551."),
        field("announced", Kind::Bool, "Whether a session description announced the stream."),
        field("packets", Kind::Uint, "Packets received, without duplicates."),
        field("bytes", Kind::Uint, "Payload bytes received."),
        field("lost", Kind::Uint, "Packets that were sent and not received, from the sequence numbers."),
        field("out_of_order", Kind::Uint, "Packets received after one with a later sequence number."),
        field("duplicates", Kind::Uint, "Packets received more than once."),
        field("restarts", Kind::Uint, "Number of restarts of the sequence numbers."),
        field(
            "jitter",
            Kind::Duration,
            "Jitter at the end of the stream (RFC 3550, A.8) in seconds, if the clock rate of the codec is known.",
        ),
        field("jitter_max", Kind::Duration, "Maximum jitter in seconds."),
        field("duration", Kind::Duration, "Time from the first packet to the last, in seconds."),
        field(
            "call_id",
            Kind::Text,
            "Identifier of the SIP call (Call-ID) whose session description announced the stream, at most 256 bytes.",
        )
        .privacy(Privacy::Fingerprint),
    ],
};

static REPORTS: [crate::Field; 5] = [
    field("ssrc", Kind::Uint, "Synchronisation source (SSRC) that the report is about."),
    field("fraction_lost", Kind::Real, "Maximum fraction of packets lost between two reports, from 0 to 1."),
    field("lost", Kind::Int, "Cumulative number of packets lost."),
    field("jitter", Kind::Uint, "Jitter, in units of the codec's clock."),
    field("reports", Kind::Uint, "Number of reports."),
];

static RTCP: Table = Table {
    name: "rtcp",
    help: "What a source sent and received, according to its own RTCP reports.",
    zeek: "",
    eve: "",
    fields: &[
        field("reverse", Kind::Bool, "Whether the responder sent the reports."),
        field("ssrc", Kind::Uint, "Synchronisation source (SSRC)."),
        field("cname", Kind::Text, "Canonical name of the source (CNAME of SDES).").privacy(Privacy::Mail),
        field("tool", Kind::Text, "Software of the source (TOOL of SDES)."),
        field("packets", Kind::Uint, "Number of reports."),
        field("sent_packets", Kind::Uint, "RTP packets that the source sent."),
        field("sent_bytes", Kind::Uint, "Payload bytes that the source sent."),
        field("reports", Kind::Rows(&REPORTS), "Reception reports of the source about other sources."),
        field("bye", Kind::Bool, "Whether the source sent BYE."),
        field("duration", Kind::Duration, "Time from the first report to the last, in seconds."),
    ],
};

/// Maximum number of streams of one flow: a conference over one port has one for each speaker.
const MAX_STREAMS: usize = 64;
/// Maximum number of sources of reports, and of sources in the reports of each.
const MAX_SOURCES: usize = 64;
/// Number of foreign packets after which the flow is given up.
const MAX_WRONG: u32 = 64;
/// Maximum step of a sequence number forwards or backwards within one stream (RFC 3550, A.1).
const MAX_DROPOUT: u16 = 3000;
const MAX_MISORDER: u16 = 100;

const HEADER: usize = 12;

/// The meaning of a payload type.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Codec {
    kind: u8,
    name: Vec<u8>,
    /// Clock rate in ticks per second.
    clock: Option<u32>,
}

/// Payload types that RFC 3551 assigns.
const ASSIGNED: [(u8, &str, u32); 24] = [
    (0, "PCMU", 8000),
    (3, "GSM", 8000),
    (4, "G723", 8000),
    (5, "DVI4", 8000),
    (6, "DVI4", 16_000),
    (7, "LPC", 8000),
    (8, "PCMA", 8000),
    (9, "G722", 8000),
    (10, "L16", 44_100),
    (11, "L16", 44_100),
    (12, "QCELP", 8000),
    (13, "CN", 8000),
    (14, "MPA", 90_000),
    (15, "G728", 8000),
    (16, "DVI4", 11_025),
    (17, "DVI4", 22_050),
    (18, "G729", 8000),
    (25, "CelB", 90_000),
    (26, "JPEG", 90_000),
    (28, "nv", 90_000),
    (31, "H261", 90_000),
    (32, "MPV", 90_000),
    (33, "MP2T", 90_000),
    (34, "H263", 90_000),
];

impl Codec {
    /// The assigned meaning of a payload type.
    pub fn of(kind: u8) -> Self {
        match ASSIGNED.iter().find(|(assigned, ..)| *assigned == kind) {
            Some((_, name, clock)) => Self { kind, name: (*name).into(), clock: Some(*clock) },
            None => Self { kind, name: Vec::new(), clock: None },
        }
    }

    /// The codec in a session description: `PCMU/8000`, `opus/48000/2`.
    pub fn named(kind: u8, map: &[u8]) -> Self {
        /// Maximum length of a name.
        const NAME: usize = 32;
        let mut parts = map.split(|byte| *byte == b'/');
        let name = parts.next().unwrap_or_default();
        let clock = parts.next().and_then(|clock| std::str::from_utf8(clock).ok()?.parse().ok());
        let name = name.get(..NAME).unwrap_or(name).to_vec();
        Self { kind, name, clock: clock.filter(|clock| *clock > 0) }
    }
}

/// Maximum bytes of the identifier of a call.
const MAX_CALL: usize = 256;

/// A parser for an expected flow with these codecs, of the call with this identifier.
pub(crate) fn announced(codecs: &[Codec], call: Option<&[u8]>) -> Box<dyn Parser> {
    let call = call.map(|call| call.get(..MAX_CALL).unwrap_or(call).into());
    Box::new(Rtp { codecs: codecs.to_vec(), is_announced: true, call, ..Rtp::default() })
}

/// The header of a packet.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Header {
    kind: u8,
    seq: u16,
    timestamp: u32,
    ssrc: u32,
    /// Bytes of payload.
    payload: usize,
}

impl Header {
    fn read(data: &[u8]) -> Option<Self> {
        let mut reader = Reader::new(data);
        let (first, second) = (reader.u8()?, reader.u8()?);
        let kind = second & 0x7f;
        // 72 to 76 would be RTCP's types 200 to 204.
        if first >> 6 != 2 || (72..=76).contains(&kind) {
            return None;
        }
        let (seq, timestamp, ssrc) = (reader.u16()?, reader.u32()?, reader.u32()?);
        reader.take(usize::from(first & 0x0f) * 4)?;
        if first & 0x10 != 0 {
            reader.u16()?;
            let words = reader.u16()?;
            reader.take(usize::from(words) * 4)?;
        }
        let padding = if first & 0x20 == 0 { 0 } else { usize::from(*data.last()?).max(1) };
        let payload = reader.rest().len().checked_sub(padding)?;
        Some(Self { kind, seq, timestamp, ssrc, payload })
    }
}

fn probe(heads: &Heads<'_>) -> Probe {
    // Lower ports belong to other protocols.
    if heads.ports.iter().any(|port| *port < 1024) {
        return Probe::Reject;
    }
    let both = heads.both().map(behind_opening);
    let answers = both.map(|head| match (is_control(head), is_stream(head)) {
        (Probe::Match, _) | (_, Probe::Match) => Probe::Match,
        // Only what opens the way was sent so far.
        _ if head.is_empty() => Probe::Maybe,
        (Probe::Reject, Probe::Reject) => Probe::Reject,
        _ => Probe::Maybe,
    });
    // One side's packets are enough: the other may send something else before them.
    answers.fold(Probe::Reject, |best, answer| match (best, answer) {
        (Probe::Match, _) | (_, Probe::Match) => Probe::Match,
        (Probe::Maybe, _) | (_, Probe::Maybe) => Probe::Maybe,
        _ => Probe::Reject,
    })
}

/// The payload after what opens the way through address translators before media: zeros.
fn behind_opening(head: &[u8]) -> &[u8] {
    match head {
        [0, 0, 0, 0, ..] => {
            let zeros = head.iter().take_while(|byte| **byte == 0).count();
            head.get(zeros..).unwrap_or_default()
        }
        _ => head,
    }
}

/// Whether these are consecutive packets of one stream. Packets have no length field, so that headers with the next
/// numbers are searched for; 56 bits must match in each. Messages of other protocols can begin with such constants:
/// their numbers must be no lengths, and their times must go on as those of media do.
fn is_stream(head: &[u8]) -> Probe {
    /// Number of headers that have to be found.
    const WANTED: u16 = 3;
    let Some(first) = Header::read(head) else { return Probe::Reject };
    let assigned = first.kind >= 96 || ASSIGNED.iter().any(|(kind, ..)| *kind == first.kind);
    if !assigned || first.ssrc == 0 {
        return Probe::Reject;
    }
    let (mut rest, mut found) = (head.get(HEADER..).unwrap_or_default(), 1);
    let mut steps = Steps::new(first);
    while found < WANTED {
        let expected = first.seq.wrapping_add(found);
        let next = rest.windows(HEADER).enumerate().find_map(|(at, window)| match window {
            [version, kind, high, low, a, b, c, d, ssrc @ ..]
                if version >> 6 == 2 && kind & 0x7f == first.kind && *ssrc == first.ssrc.to_be_bytes() =>
            {
                let seq = u16::from_be_bytes([*high, *low]);
                Some((at, seq, u32::from_be_bytes([*a, *b, *c, *d])))
            }
            _ => None,
        });
        let Some((at, seq, timestamp)) = next else { return Probe::Maybe };
        steps.take(at + HEADER, seq, timestamp);
        rest = rest.get(at + HEADER..).unwrap_or_default();
        found += u16::from(seq == expected);
    }
    if steps.are_of_media(rest.len()) { Probe::Match } else { Probe::Maybe }
}

/// The steps from header to header of what may be a stream.
struct Steps {
    kind: u8,
    seq: u16,
    timestamp: u32,
    /// Whether each number so far differs from the length of its message by the same.
    are_lengths: bool,
    surplus: Option<u16>,
    /// Whether each time so far is near the one before.
    are_near: bool,
    any_advance: bool,
    /// The length of the longest message.
    longest: usize,
}

impl Steps {
    fn new(first: Header) -> Self {
        Self {
            kind: first.kind,
            seq: first.seq,
            timestamp: first.timestamp,
            are_lengths: true,
            surplus: None,
            are_near: true,
            any_advance: false,
            longest: 0,
        }
    }

    /// Takes the next header, which begins this number of bytes after the last one.
    fn take(&mut self, length: usize, seq: u16, timestamp: u32) {
        /// Ten seconds at the highest usual rate, for silence that is not sent, and a second for frames out of order.
        const MOST: std::ops::Range<i32> = -90_000..960_000;
        /// Types up to this one are of sound, in which each packet has a time of its own (RFC 3551, section 6).
        const SOUND: u8 = 18;
        let surplus = (length as u16).wrapping_sub(self.seq);
        self.are_lengths &= *self.surplus.get_or_insert(surplus) == surplus;
        let step = timestamp.wrapping_sub(self.timestamp) as i32;
        self.are_near &= MOST.contains(&step) && (step != 0 || seq == self.seq || self.kind > SOUND);
        self.any_advance |= step != 0;
        self.longest = self.longest.max(length);
        (self.seq, self.timestamp) = (seq, timestamp);
    }

    /// Whether they are those of media; `last`: bytes of the last message after its header.
    fn are_of_media(&self, last: usize) -> bool {
        /// A picture is cut into packets of one time only if it is larger than they get.
        const LARGE: usize = 400;
        self.are_near && !self.are_lengths && (self.any_advance || self.longest.max(last) >= LARGE)
    }
}

/// Whether the payload is a compound of reports whose lengths add up.
fn is_control(head: &[u8]) -> Probe {
    let mut packets = Packets(Reader::new(head));
    let first = packets.next();
    match first {
        Some(Packet { kind: 200 | 201, .. }) => {}
        _ => return Probe::Reject,
    }
    let others = packets.by_ref().count();
    match (packets.0.rest().is_empty(), others) {
        (true, 1..) => Probe::Match,
        (true, 0) => Probe::Maybe,
        (false, _) => Probe::Reject,
    }
}

/// A packet of RTCP.
struct Packet<'a> {
    kind: u8,
    count: u8,
    body: Reader<'a>,
}

/// The packets of a compound.
struct Packets<'a>(Reader<'a>);

impl<'a> Iterator for Packets<'a> {
    type Item = Packet<'a>;

    fn next(&mut self) -> Option<Packet<'a>> {
        let mut reader = self.0;
        let (first, kind) = (reader.u8()?, reader.u8()?);
        let words = reader.u16()?;
        if first >> 6 != 2 || !(200..=207).contains(&kind) {
            return None;
        }
        let body = Reader::new(reader.take(usize::from(words) * 4)?);
        self.0 = reader;
        Some(Packet { kind, count: first & 0x1f, body })
    }
}

/// State of a stream.
struct Stream {
    direction: Direction,
    first: Header,
    begun: Time,
    last: Time,
    clock: Option<u32>,
    /// Number of packets in sequences that have ended.
    expected_before: u64,
    base: u32,
    /// The highest sequence number, extended by its wraps.
    highest: u32,
    /// A bit for each of the 64 numbers below the highest: whether it was received.
    seen: u64,
    /// The number that would begin a new sequence.
    bad: Option<u16>,
    packets: u64,
    bytes: u64,
    out_of_order: u64,
    duplicates: u64,
    restarts: u64,
    transit: f64,
    jitter: f64,
    jitter_max: f64,
}

impl Stream {
    fn new(direction: Direction, header: Header, clock: Option<u32>, time: Time) -> Self {
        Self {
            direction,
            first: header,
            begun: time,
            last: time,
            clock,
            expected_before: 0,
            base: header.seq.into(),
            highest: header.seq.into(),
            seen: 0,
            bad: None,
            packets: 0,
            bytes: 0,
            out_of_order: 0,
            duplicates: 0,
            restarts: 0,
            transit: 0.0,
            jitter: 0.0,
            jitter_max: 0.0,
        }
    }

    fn packet(&mut self, header: Header, time: Time) {
        let highest = self.highest as u16;
        let ahead = header.seq.wrapping_sub(highest);
        if self.packets == 0 {
            self.seen = 1;
        } else if ahead == 0 {
            self.duplicates += 1;
            return;
        } else if ahead < MAX_DROPOUT {
            self.highest = self.highest.saturating_add(ahead.into());
            self.seen = self.seen.checked_shl(ahead.into()).unwrap_or(0) | 1;
        } else if ahead > u16::MAX - MAX_MISORDER {
            let behind = ahead.wrapping_neg();
            let mark = 1_u64.checked_shl(behind.into()).unwrap_or(0);
            if self.seen & mark != 0 {
                self.duplicates += 1;
                return;
            }
            self.seen |= mark;
            self.out_of_order += 1;
            // A packet before the first one received.
            let place = self.highest.checked_sub(behind.into());
            self.base = self.base.min(place.unwrap_or(self.base));
        } else if self.bad == Some(header.seq) {
            self.expected_before += u64::from(self.highest - self.base) + 1;
            self.restarts += 1;
            (self.base, self.highest, self.seen) = (header.seq.into(), header.seq.into(), 1);
            // The packet before it, which began this sequence, was received too.
            if let Some(before) = self.base.checked_sub(1) {
                (self.base, self.seen) = (before, 3);
                self.packets += 1;
            }
            self.transit = f64::NAN;
        } else {
            self.bad = Some(header.seq.wrapping_add(1));
            return;
        }
        self.bad = None;
        self.packets += 1;
        self.bytes += header.payload as u64;
        self.delay(header, time);
        self.last = time;
    }

    /// Updates the jitter (RFC 3550, A.8).
    fn delay(&mut self, header: Header, time: Time) {
        let Some(clock) = self.clock else { return };
        let arrival = time.since(self.begun) as f64 / 1e9 * f64::from(clock);
        // The difference, so that timestamps may wrap.
        let sent = f64::from(header.timestamp.wrapping_sub(self.first.timestamp) as i32);
        let transit = arrival - sent;
        if self.packets > 1 && self.transit.is_finite() {
            let moved = (transit - self.transit).abs();
            // A jump of the source's clock is no delay.
            if moved < f64::from(clock) * 10.0 {
                self.jitter += (moved - self.jitter) / 16.0;
                self.jitter_max = self.jitter_max.max(self.jitter);
            }
        }
        self.transit = transit;
    }

    fn emit(&self, of: &Rtp, out: &mut dyn Out) {
        let expected = self.expected_before + u64::from(self.highest - self.base) + 1;
        let span = |units: f64| {
            self.clock.map_or(Value::None, |clock| Value::Duration((units / f64::from(clock) * 1e9) as u64))
        };
        let codec = codec(&of.codecs, self.first.kind);
        out.record(record!(
            RTP,
            self.begun,
            reverse = self.direction == Direction::Reverse,
            ssrc = self.first.ssrc,
            payload_type = self.first.kind,
            codec = if codec.name.is_empty() { Value::None } else { codec.name.into() },
            announced = of.is_announced,
            packets = self.packets,
            bytes = self.bytes,
            lost = expected.saturating_sub(self.packets),
            out_of_order = self.out_of_order,
            duplicates = self.duplicates,
            restarts = self.restarts,
            jitter = span(self.jitter),
            jitter_max = span(self.jitter_max),
            duration = Value::Duration(self.last.since(self.begun)),
            call_id = of.call.as_deref(),
        ));
    }
}

fn codec(codecs: &[Codec], kind: u8) -> Codec {
    codecs.iter().find(|codec| codec.kind == kind).cloned().unwrap_or_else(|| Codec::of(kind))
}

/// A source's report about another.
struct Report {
    ssrc: u32,
    fraction: u8,
    lost: i32,
    jitter: u32,
    times: u64,
}

/// A source of reports.
struct Source {
    direction: Direction,
    ssrc: u32,
    begun: Time,
    last: Time,
    cname: Option<Vec<u8>>,
    tool: Option<Vec<u8>>,
    packets: u64,
    sent: Option<(u32, u32)>,
    reports: Vec<Report>,
    bye: bool,
}

impl Source {
    fn emit(&self, out: &mut dyn Out) {
        let reports = self.reports.iter().map(|report| {
            values!(
                REPORTS,
                ssrc = report.ssrc,
                fraction_lost = f64::from(report.fraction) / 256.0,
                lost = i64::from(report.lost),
                jitter = report.jitter,
                reports = report.times,
            )
        });
        out.record(record!(
            RTCP,
            self.begun,
            reverse = self.direction == Direction::Reverse,
            ssrc = self.ssrc,
            cname = self.cname.as_ref(),
            tool = self.tool.as_ref(),
            packets = self.packets,
            sent_packets = self.sent.map(|(packets, _)| packets),
            sent_bytes = self.sent.map(|(_, bytes)| bytes),
            reports = Value::Rows(reports.collect()),
            bye = self.bye,
            duration = Value::Duration(self.last.since(self.begun)),
        ));
    }
}

#[derive(Default)]
struct Rtp {
    codecs: Vec<Codec>,
    is_announced: bool,
    /// The identifier of the call that announced the flow.
    call: Option<Box<[u8]>>,
    streams: Vec<Stream>,
    sources: Vec<Source>,
    wrong: u32,
}

impl Parser for Rtp {
    fn chunk(&mut self, chunk: &Chunk<'_>, out: &mut dyn Out) -> Step {
        let _ = out;
        let control = matches!(chunk.data, [first, 200..=207, ..] if first >> 6 == 2);
        let is_read = if control { self.control(chunk) } else { self.packet(chunk) };
        match is_read {
            Some(()) => self.wrong = 0,
            // STUN, DTLS and ZRTP share the ports of announced streams (RFC 7983).
            None if self.is_announced && matches!(chunk.data.first(), Some(0..=63)) => {}
            None => self.wrong += 1,
        }
        if self.wrong > MAX_WRONG { Step::GiveUp } else { Step::Next }
    }

    fn end(&mut self, _: Time, out: &mut dyn Out) {
        for stream in std::mem::take(&mut self.streams) {
            stream.emit(self, out);
        }
        for source in std::mem::take(&mut self.sources) {
            source.emit(out);
        }
    }

    fn memory(&self) -> usize {
        let sources = self.sources.iter().map(|source| {
            let texts = [&source.cname, &source.tool].into_iter().flatten().map(Vec::capacity).sum::<usize>();
            texts + source.reports.capacity() * size_of::<Report>()
        });
        self.streams.capacity() * size_of::<Stream>()
            + self.sources.capacity() * size_of::<Source>()
            + self.codecs.capacity() * size_of::<Codec>()
            + self.call.as_ref().map_or(0, |call| call.len())
            + sources.sum::<usize>()
    }
}

impl Rtp {
    fn packet(&mut self, chunk: &Chunk<'_>) -> Option<()> {
        let header = Header::read(chunk.data)?;
        let direction = chunk.direction;
        let is_same = |stream: &Stream| stream.first.ssrc == header.ssrc && stream.direction == direction;
        looked_at(self.streams.len());
        let at = match self.streams.iter().position(is_same) {
            Some(at) => at,
            None if self.streams.len() == MAX_STREAMS => return None,
            None => {
                let clock = codec(&self.codecs, header.kind).clock;
                self.streams.push(Stream::new(direction, header, clock, chunk.time));
                self.streams.len() - 1
            }
        };
        self.streams.get_mut(at)?.packet(header, chunk.time);
        Some(())
    }

    fn control(&mut self, chunk: &Chunk<'_>) -> Option<()> {
        let mut packets = Packets(Reader::new(chunk.data));
        let mut any = None;
        for mut packet in packets.by_ref() {
            any = Some(());
            match packet.kind {
                200 | 201 => {
                    self.report(&mut packet, chunk);
                }
                202 => {
                    self.describe(&mut packet, chunk);
                }
                203 => {
                    for _ in 0..packet.count {
                        let Some(ssrc) = packet.body.u32() else { break };
                        if let Some(source) = self.source(ssrc, chunk) {
                            source.bye = true;
                        }
                    }
                }
                _ => {}
            }
        }
        any
    }

    fn source(&mut self, ssrc: u32, chunk: &Chunk<'_>) -> Option<&mut Source> {
        let direction = chunk.direction;
        let is_same = |source: &Source| source.ssrc == ssrc && source.direction == direction;
        looked_at(self.sources.len());
        let at = match self.sources.iter().position(is_same) {
            Some(at) => at,
            None if self.sources.len() == MAX_SOURCES => return None,
            None => {
                self.sources.push(Source {
                    direction,
                    ssrc,
                    begun: chunk.time,
                    last: chunk.time,
                    cname: None,
                    tool: None,
                    packets: 0,
                    sent: None,
                    reports: Vec::new(),
                    bye: false,
                });
                self.sources.len() - 1
            }
        };
        let source = self.sources.get_mut(at)?;
        source.last = chunk.time;
        Some(source)
    }

    fn report(&mut self, packet: &mut Packet<'_>, chunk: &Chunk<'_>) -> Option<()> {
        let body = &mut packet.body;
        let source = self.source(body.u32()?, chunk)?;
        source.packets += 1;
        if packet.kind == 200 {
            body.take(12)?;
            source.sent = Some((body.u32()?, body.u32()?));
        }
        for _ in 0..packet.count {
            let ssrc = body.u32()?;
            let loss = body.u32()?;
            body.u32()?;
            let jitter = body.u32()?;
            body.take(8)?;
            let fraction = (loss >> 24) as u8;
            // A signed number of 24 bits.
            let lost = ((loss << 8) as i32) >> 8;
            let has_room = source.reports.len() < MAX_SOURCES;
            match source.reports.iter_mut().find(|report| report.ssrc == ssrc) {
                Some(report) => {
                    report.fraction = report.fraction.max(fraction);
                    (report.lost, report.jitter, report.times) = (lost, jitter, report.times + 1);
                }
                None if has_room => {
                    source.reports.push(Report { ssrc, fraction, lost, jitter, times: 1 });
                }
                None => {}
            }
        }
        Some(())
    }

    /// Takes the source descriptions (SDES).
    fn describe(&mut self, packet: &mut Packet<'_>, chunk: &Chunk<'_>) -> Option<()> {
        const CNAME: u8 = 1;
        const TOOL: u8 = 6;
        for _ in 0..packet.count {
            let body = &mut packet.body;
            let whole = body.rest().len();
            let ssrc = body.u32()?;
            loop {
                let item = body.u8()?;
                if item == 0 {
                    break;
                }
                let bytes = body.u8()?;
                let text = body.take(bytes.into())?;
                let Some(source) = self.source(ssrc, chunk) else { continue };
                match item {
                    CNAME => source.cname = Some(text.to_vec()),
                    TOOL => source.tool = Some(text.to_vec()),
                    _ => {}
                }
            }
            let read = whole - body.rest().len();
            body.take(read.next_multiple_of(4) - read)?;
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::RTP;
    use crate::laws::talks;
    use crate::{Record, Value};

    fn emitted(case: &str) -> Vec<Record<'static>> {
        let (_, talk) = talks("rtp", 0).into_iter().find(|(path, _)| path.ends_with(case)).unwrap();
        talk.emitted(|data| vec![data.to_vec()]).records
    }

    #[test]
    fn lost_late_and_duplicate_packets_are_counted() {
        let records = emitted("stream.talk");
        let [there, back] = records.as_slice() else { panic!("{records:?}") };
        // One of the ten numbers is missing, and none of the three after the restart.
        for (name, number) in
            [("packets", 12), ("lost", 1), ("out_of_order", 1), ("duplicates", 1), ("restarts", 1)]
        {
            assert_eq!(there.get(name), &Value::Uint(number), "{name}");
        }
        assert_eq!(back.get("packets"), &Value::Uint(4));
        assert_eq!(back.get("codec"), &"PCMA".into());
        // Four packets, each two milliseconds after the previous one and 20 by its clock: |D| is 18.
        let jitter: f64 = (0..3).fold(0.0, |jitter, _| jitter + (18.0 - jitter) / 16.0);
        let Value::Duration(span) = back.get("jitter") else { panic!() };
        assert!((*span as f64 / 1e6 - jitter).abs() < 1e-3, "{span} {jitter}");
    }

    /// Three packets in a row are enough, whatever opened the way and whatever the other side sends.
    #[test]
    fn media_behind_other_packets_are_found() {
        let mut records = emitted("opened.talk");
        records.retain(|record| *record.table == RTP);
        let [stream] = records.as_slice() else { panic!("{records:?}") };
        assert_eq!((stream.get("packets"), stream.get("announced")), (&Value::Uint(4), &Value::Bool(false)));
    }

    /// Three large packets identify a stream that was not announced.
    #[test]
    fn large_packets_are_identified() {
        let records = emitted("large.talk");
        let [stream] = records.as_slice() else { panic!("{records:?}") };
        assert_eq!(stream.get("packets"), &Value::Uint(5));
        assert_eq!(stream.get("bytes"), &Value::Uint(5 * 1190));
    }

    #[test]
    fn reports_are_parsed() {
        let records = emitted("control.talk");
        let [first, second] = records.as_slice() else { panic!("{records:?}") };
        assert_eq!(first.get("cname"), &"alice@192.0.2.1".into());
        assert_eq!(first.get("sent_packets"), &Value::Uint(200));
        assert_eq!(first.get("bye"), &Value::Bool(true));
        let row = vec![2_u8.into(), Value::Real(0.25), Value::Int(4), 14_u8.into(), 2_u8.into()];
        assert_eq!(first.get("reports"), &Value::Rows(vec![row]));
        let row = vec![1_u8.into(), Value::Real(0.0), Value::Int(-1), 5_u8.into(), 1_u8.into()];
        assert_eq!(second.get("reports"), &Value::Rows(vec![row]));
    }
}
