//! The Domain Name System (RFC 1035) and protocols with its message format: multicast DNS (RFC 6762), link-local name
//! resolution (RFC 4795) and the NetBIOS name service (RFC 1002).
//!
//! Two tables: Suricata has a row for each message, Zeek a row for each question with its answer.

mod buffers;
mod emit;
mod present;
mod wire;
mod words;

use crate::anomaly::Anomaly;
use crate::early::begin_transaction;
use crate::work::looked_at;
use crate::{Heads, Out, Parser, Probe, Protocol, Setup, Span, Step, TCP, Table, Transport};
use std::collections::{BTreeMap, VecDeque};
use weir_wire::stream::Chunk;
use weir_wire::{Direction, Time};
use wire::{HEADER, Header, Message, UPDATE, Walk};

pub use emit::DNS;
pub(crate) use present::netbios_name;

pub(crate) static PROTOCOL: Protocol = Protocol {
    name: "dns",
    help: "The Domain Name System (RFC 1035).",
    transport: Transport::Both,
    ports: &[53],
    probe: |heads| probe(heads, Flavour::Plain),
    parser: |setup| Box::new(Dns::new(setup, Flavour::Plain)),
    tables: &[&emit::MESSAGE],
    buffers: buffers::ALL_PLAIN,
};

pub(crate) static MDNS: Protocol = Protocol {
    name: "mdns",
    help: "Multicast DNS (RFC 6762).",
    transport: Transport::Udp,
    ports: &[5353],
    probe: |heads| probe(heads, Flavour::Multicast),
    parser: |setup| Box::new(Dns::new(setup, Flavour::Multicast)),
    tables: &[&emit::MDNS],
    buffers: buffers::ALL_MULTICAST,
};

pub(crate) static LLMNR: Protocol = Protocol {
    name: "llmnr",
    help: "Link-Local Multicast Name Resolution (RFC 4795).",
    transport: Transport::Both,
    ports: &[5355],
    probe: |heads| probe(heads, Flavour::LinkLocal),
    parser: |setup| Box::new(Dns::new(setup, Flavour::LinkLocal)),
    tables: &[&emit::LLMNR],
    buffers: buffers::ALL_LINK_LOCAL,
};

pub(crate) static NBNS: Protocol = Protocol {
    name: "nbns",
    help: "NetBIOS name service (RFC 1002).",
    transport: Transport::Udp,
    ports: &[137],
    probe: |heads| probe(heads, Flavour::NetBios),
    parser: |setup| Box::new(Dns::new(setup, Flavour::NetBios)),
    tables: &[],
    buffers: &[],
};

/// The protocol of the messages.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Flavour {
    Plain,
    Multicast,
    LinkLocal,
    NetBios,
}

impl Flavour {
    fn protocol(self) -> &'static Protocol {
        match self {
            Self::Plain => &PROTOCOL,
            Self::Multicast => &MDNS,
            Self::LinkLocal => &LLMNR,
            Self::NetBios => &NBNS,
        }
    }

    /// The table of its messages; `None` where only transactions have records.
    fn messages(self) -> Option<&'static Table> {
        match self {
            Self::Plain => Some(&emit::MESSAGE),
            Self::Multicast => Some(&emit::MDNS),
            Self::LinkLocal => Some(&emit::LLMNR),
            Self::NetBios => None,
        }
    }

    /// The buffers of its messages.
    fn names(self) -> Option<&'static buffers::Names> {
        match self {
            Self::Plain => Some(&buffers::PLAIN),
            Self::Multicast => Some(&buffers::MULTICAST),
            Self::LinkLocal => Some(&buffers::LINK_LOCAL),
            Self::NetBios => None,
        }
    }
}

/// Maximum number of unanswered questions of a flow. Zeek keeps 50 of each of 50 numbers.
const MAX_WAITING: usize = 256;
/// Bytes before a message over TCP: its length.
const PREFIX: usize = 2;

fn probe(heads: &Heads<'_>, flavour: Flavour) -> Probe {
    let home = heads.is_home(flavour.protocol().ports);
    // These protocols differ from plain DNS only by their ports.
    if !home && flavour != Flavour::Plain {
        return Probe::Reject;
    }
    let mut found = Probe::Reject;
    for head in heads.both() {
        let one = if heads.ip_proto == TCP { probe_stream(head, home) } else { probe_datagram(head, home) };
        match (one, heads.ip_proto == TCP) {
            (Probe::Match, _) => return Probe::Match,
            (Probe::Reject, true) => return Probe::Reject,
            (Probe::Maybe, _) => found = Probe::Maybe,
            (Probe::Reject, false) => {}
        }
    }
    found
}

/// On a DNS port, a malformed message may be followed by a good one.
fn probe_datagram(data: &[u8], home: bool) -> Probe {
    match plausible(data, home) {
        Ok(end) if home || end == data.len() || data.get(10..12) != Some(&[0, 0]) => Probe::Match,
        _ if home => Probe::Maybe,
        _ => Probe::Reject,
    }
}

fn probe_stream(data: &[u8], home: bool) -> Probe {
    let Some((len, rest)) = data.split_first_chunk::<PREFIX>() else { return Probe::Maybe };
    let len = usize::from(u16::from_be_bytes(*len));
    if len < HEADER + 5 {
        return Probe::Reject;
    }
    match plausible(rest.get(..len).unwrap_or(rest), home) {
        Ok(_) => Probe::Match,
        Err(Walk::Short) if rest.len() < len => Probe::Maybe,
        Err(_) => Probe::Reject,
    }
}

/// Checks whether the bytes begin like a message; returns the end of its first question.
fn plausible(data: &[u8], home: bool) -> Result<usize, Walk> {
    let header = Header::read(data).ok_or(Walk::Short)?;
    let [questions, answers, authorities, additionals] = header.counts;
    if home {
        // A multicast response has no question, and error responses may have none.
        return match questions {
            0 if header.is_response() => Ok(HEADER),
            0 => Err(Walk::Wrong),
            _ => wire::first_question(data).map(|(_, _, _, end)| end),
        };
    }
    let is_known =
        matches!(header.opcode(), 0 | 4 | UPDATE) && !header.has(Header::Z) && header.rcode() <= 10;
    let is_small = match header.is_response() {
        false => header.opcode() == UPDATE || answers == 0 && authorities == 0 && header.rcode() == 0,
        true => answers.max(authorities).max(additionals) < 256,
    };
    if questions != 1 || !is_known || !is_small || additionals > 255 {
        return Err(Walk::Wrong);
    }
    let (name, kind, class, end) = wire::first_question(data)?;
    let is_text = name.iter().all(|byte| byte.is_ascii_graphic() || *byte < 64);
    let is_class = matches!(class, 1 | 3 | 254 | 255);
    if is_text && is_class && words::is_known_type(kind) { Ok(end) } else { Err(Walk::Wrong) }
}

/// A question without an answer so far.
#[derive(Debug)]
struct Waiting {
    time: Time,
    /// The bytes of its message.
    at: Span,
    header: Header,
    query: Option<Vec<u8>>,
    kind: Option<u16>,
    class: Option<u16>,
}

/// The state of one direction of a TCP stream.
#[derive(Default)]
struct Half {
    /// An incomplete message, with its length prefix.
    held: Vec<u8>,
    /// Remaining bytes of a message of which bytes are missing.
    skip: usize,
    /// The message boundary is lost: the next bytes are parsed as a message, and if they are none, the parser ends.
    guess: bool,
    lost: bool,
}

struct Dns {
    flavour: Flavour,
    is_tcp: bool,
    halves: [Half; 2],
    message: Message,
    waiting: VecDeque<Waiting>,
    /// Messages so far.
    count: u64,
    is_full: bool,
    /// Whether an answer of an unknown type was noted: once for a flow.
    has_unknown: bool,
}

impl Dns {
    fn new(setup: &Setup, flavour: Flavour) -> Self {
        Self {
            flavour,
            is_tcp: setup.ip_proto == TCP,
            halves: Default::default(),
            message: Message::default(),
            waiting: VecDeque::new(),
            count: 0,
            is_full: false,
            has_unknown: false,
        }
    }

    fn proto(&self) -> &'static str {
        if self.is_tcp { "tcp" } else { "udp" }
    }

    /// Parses one message; `false` if the bytes are no message.
    fn message(&mut self, data: &[u8], chunk: &Chunk<'_>, is_guess: bool, out: &mut dyn Out) -> bool {
        let (time, direction) = (chunk.time, chunk.direction);
        let mut message = std::mem::take(&mut self.message);
        let is_read = message.read(data);
        let is_whole = is_read && message.fault.is_none();
        // A message whose counts exceed its content by far belongs to another protocol.
        let is_bare = message.questions.is_empty() && message.records.is_empty() && message.fault.is_some();
        if is_guess && (!is_whole || message.len != data.len()) {
            self.message = message;
            return false;
        }
        if !is_read {
            self.flavour.protocol().emit_anomaly("DNS_truncated_len_lt_hdr_len", direction, data, time, out);
        } else {
            if let Some(fault) = message.fault {
                self.flavour.protocol().emit_anomaly(fault, direction, data, time, out);
            }
            if let Some(unknown) = message.records.iter().find(|rr| rr.is_unknown_to_zeek())
                && !std::mem::replace(&mut self.has_unknown, true)
            {
                let kind = unknown.kind.to_string();
                let protocol = self.flavour.protocol();
                protocol.emit_anomaly("DNS_RR_unknown_type", direction, kind.as_bytes(), time, out);
            }
            if !is_bare {
                self.emitted(&message, data, time, direction, out);
            }
        }
        message.shrink();
        self.message = message;
        is_read
    }

    fn emitted(
        &mut self,
        message: &Message,
        data: &[u8],
        time: Time,
        direction: Direction,
        out: &mut dyn Out,
    ) {
        let emitted = emit::ParsedMessage { message, data, flavour: self.flavour };
        let tx = self.count;
        self.count += 1;
        if let Some(names) = self.flavour.names() {
            begin_transaction(direction, tx, out);
            buffers::hand_on(names, message, direction, out);
            out.side_is_complete(direction);
        }
        if self.flavour.messages().is_some_and(|table| out.takes(table)) {
            out.record(emitted.message(time, tx));
        }
        let header = message.header;
        if self.flavour == Flavour::Plain {
            odd_header(header, tx, time, direction, out);
        }
        let is_netbios = self.flavour == Flavour::NetBios;
        if !is_netbios && !matches!(header.opcode(), 0 | 4 | UPDATE) {
            return;
        }
        let proto = self.proto();
        if header.is_response() {
            looked_at(self.waiting.len());
            let at = self.waiting.iter().position(|waiting| waiting.header.id == header.id);
            let waiting = at.and_then(|at| self.waiting.remove(at));
            let mut at = waiting.as_ref().map(|waiting| waiting.at).unwrap_or_default();
            at.add(out.here());
            out.record(emitted.transaction(proto, time, waiting.as_ref()).over(at));
            return;
        }
        let waiting = emitted.waiting(time, out.here());
        if self.flavour == Flavour::Multicast {
            return out.record(emit::unanswered(self.flavour, proto, &waiting));
        }
        emit::hand_on(self.flavour, proto, &waiting, out);
        self.waiting.push_back(waiting);
        if self.waiting.len() > MAX_WAITING {
            if !std::mem::replace(&mut self.is_full, true) {
                self.flavour.protocol().emit_anomaly("too_many_queries", direction, &[], time, out);
            }
            if let Some(oldest) = self.waiting.pop_front() {
                out.record(emit::unanswered(self.flavour, proto, &oldest));
            }
        }
    }

    /// Bytes of a stream.
    fn stream(&mut self, chunk: &Chunk<'_>, out: &mut dyn Out) -> Step {
        let side = usize::from(chunk.direction == Direction::Reverse);
        let Some(half) = self.halves.get_mut(side) else { return Step::GiveUp };
        let mut half = std::mem::take(half);
        if chunk.gap > 0 {
            half.miss(chunk.gap);
            self.give_up_repeated(out);
        }
        let mut data = chunk.data;
        while !data.is_empty() && !half.lost {
            if half.skip > 0 {
                let skipped = half.skip.min(data.len());
                half.skip -= skipped;
                data = data.get(skipped..).unwrap_or_default();
                continue;
            }
            let (mut held, is_guess) = (std::mem::take(&mut half.held), half.guess);
            let Some(whole) = next(&mut held, &mut data) else {
                half.held = held;
                break;
            };
            looked_at(whole.len());
            out.message(data.len());
            let is_good = self.message(whole, chunk, is_guess, out);
            (half.guess, half.lost) = (false, !is_good);
            held.clear();
            if held.capacity() < 4096 {
                half.held = held;
            }
        }
        let is_lost = half.lost;
        if let Some(place) = self.halves.get_mut(side) {
            *place = half;
        }
        let both = is_lost && self.halves.iter().all(|half| half.lost);
        if both { Step::GiveUp } else { Step::Next }
    }

    /// Emits the queries whose identifier a later one has: no two outstanding queries of a connection have the same (RFC 7766 6.2.1),
    /// so that the responses to the earlier ones are lost.
    fn give_up_repeated(&mut self, out: &mut dyn Out) {
        looked_at(self.waiting.len());
        let mut latest = BTreeMap::new();
        for waiting in &self.waiting {
            latest.insert(waiting.header.id, waiting.at);
        }
        let is_repeated = |waiting: &Waiting| latest.get(&waiting.header.id) != Some(&waiting.at);
        let proto = self.proto();
        for waiting in std::mem::take(&mut self.waiting) {
            if is_repeated(&waiting) {
                out.record(emit::unanswered(self.flavour, proto, &waiting));
            } else {
                self.waiting.push_back(waiting);
            }
        }
    }
}

impl Half {
    /// Bytes are missing.
    fn miss(&mut self, gap: u64) {
        let gap = usize::try_from(gap).unwrap_or(usize::MAX);
        let of_message = match self.held.first_chunk::<PREFIX>() {
            Some(len) => PREFIX + usize::from(u16::from_be_bytes(*len)) - self.held.len(),
            None => 0,
        };
        let left = of_message.max(self.skip);
        self.held = Vec::new();
        // The gap is after the message: the next bytes may begin another message.
        self.guess |= gap > left;
        self.skip = left.saturating_sub(gap);
    }
}

/// The next message of a stream, joined in `held` if it comes in parts. `None` if the message is incomplete; its bytes
/// are then in `held`.
fn next<'a, 'd: 'a>(held: &'a mut Vec<u8>, data: &mut &'d [u8]) -> Option<&'a [u8]> {
    if held.is_empty()
        && let Some((len, rest)) = data.split_first_chunk::<PREFIX>()
        && let Some((whole, rest)) = rest.split_at_checked(usize::from(u16::from_be_bytes(*len)))
    {
        *data = rest;
        return Some(whole);
    }
    let mut take = |held: &mut Vec<u8>, len: usize| {
        let (head, rest) = data.split_at(data.len().min(len.saturating_sub(held.len())));
        looked_at(1 + head.len());
        held.extend_from_slice(head);
        *data = rest;
        held.len() >= len
    };
    if !take(held, PREFIX) {
        return None;
    }
    let len = PREFIX + held.first_chunk::<PREFIX>().map_or(0, |len| usize::from(u16::from_be_bytes(*len)));
    if !take(held, len) {
        return None;
    }
    held.get(PREFIX..)
}

/// Emits what is odd about the header of a message, by Suricata's names: an opcode that is not assigned (IANA, "DNS OpCodes"), and
/// the bit Z, which is reserved (RFC 1035 4.1.1).
fn odd_header(header: Header, tx: u64, time: Time, direction: Direction, out: &mut dyn Out) {
    const ASSIGNED: u8 = 6;
    let odd = [("invalid_opcode", header.opcode() > ASSIGNED), ("z_flag_set", header.has(Header::Z))];
    for (name, _) in odd.into_iter().filter(|(_, is_so)| *is_so) {
        let found = Anomaly { name, direction, detail: &[], transaction: Some(tx) };
        out.record(found.record(time, &PROTOCOL));
    }
}

impl Parser for Dns {
    fn chunk(&mut self, chunk: &Chunk<'_>, out: &mut dyn Out) -> Step {
        if self.is_tcp {
            return self.stream(chunk, out);
        }
        if !chunk.data.is_empty() {
            self.message(chunk.data, chunk, false, out);
        }
        Step::Next
    }

    fn end(&mut self, _: Time, out: &mut dyn Out) {
        let proto = self.proto();
        for waiting in std::mem::take(&mut self.waiting) {
            out.record(emit::unanswered(self.flavour, proto, &waiting));
        }
    }

    fn memory(&self) -> usize {
        let waiting = |waiting: &Waiting| waiting.query.as_ref().map_or(0, Vec::capacity);
        self.message.memory()
            + self.halves.iter().map(|half| half.held.capacity()).sum::<usize>()
            + self.waiting.capacity() * size_of::<Waiting>()
            + self.waiting.iter().map(waiting).sum::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::laws::{Collected, talks};
    use crate::{ANOMALY, Record, Value};

    fn emitted(case: &str) -> Collected {
        let all = talks("dns", 53);
        let (_, talk) = all.iter().find(|(path, _)| path.ends_with(case)).unwrap();
        talk.emitted(|data| vec![data.to_vec()])
    }

    fn rows(emitted: &Collected) -> Vec<&Record<'static>> {
        emitted.records.iter().filter(|record| *record.table == emit::DNS).collect()
    }

    fn text(record: &Record<'_>, field: &str) -> String {
        match record.get(field) {
            Value::Text(text) => String::from_utf8_lossy(text).into_owned(),
            value => format!("{value:?}"),
        }
    }

    #[test]
    fn answers_are_assigned_to_their_questions() {
        let emitted = emitted("session.talk");
        let rows: Vec<_> =
            rows(&emitted).into_iter().map(|r| (text(r, "query"), text(r, "rcode_name"))).collect();
        let expected = [
            ("www.example.org", "NOERROR"),
            ("no.example.org", "REFUSED"),
            ("nobody.example.org", "NXDOMAIN"),
            ("www.example.org", "NOERROR"),
            ("lost.example.org", "None"),
        ];
        assert_eq!(rows, expected.map(|(query, rcode)| (query.to_owned(), rcode.to_owned())));
        let Value::Rows(records) = &emitted.records[2].get("records") else { panic!() };
        assert_eq!(records[1][3], Value::Address([192, 0, 2, 80].into()));
        assert_eq!(emitted.records[2].get("rtt"), &Value::Duration(1_000_000));
    }

    /// The names of each section are values of their own, and a response has those in its data too.
    #[test]
    fn headers_with_unassigned_opcodes_and_the_reserved_bit_are_anomalies() {
        let odd = |flags: u16| {
            let mut out = Collected::default();
            odd_header(Header { flags, ..Header::default() }, 5, Time(0), Direction::Reverse, &mut out);
            assert!(out.records.iter().all(|record| *record.get("transaction") == Value::Uint(5)));
            out.records.iter().map(|record| text(record, "event")).collect::<Vec<_>>()
        };
        assert_eq!(odd(6 << 11), Vec::<String>::new());
        assert_eq!(odd(7 << 11), ["invalid_opcode"]);
        assert_eq!(odd(0x81b0), Vec::<String>::new());
        assert_eq!(odd(0x81f0), ["z_flag_set"]);
    }

    #[test]
    fn names_of_sections_are_buffers() {
        let text = "> \\x00M\\x00\\x00\\x00\\x01\\x00\\x00\\x00\\x00\\x00\\x00\\x01A\\x00\\x00\\x0f\\x00\\x01\n\
                    < \\x00M\\x80\\x00\\x00\\x01\\x00\\x01\\x00\\x01\\x00\\x01\\x01A\\x00\\x00\\x0f\\x00\\x01\
                    \\xc0\\x0c\\x00\\x0f\\x00\\x01\\x00\\x00\\x00\\x01\\x00\\x06\\x00\\x05\\x02mx\\x00\
                    \\x02au\\x00\\x00\\x02\\x00\\x01\\x00\\x00\\x00\\x01\\x00\\x04\\x02ns\\x00\
                    \\x02ad\\x00\\x00\\x01\\x00\\x01\\x00\\x00\\x00\\x01\\x00\\x04\\xc0\\x00\\x02\\x01\n";
        for (protocol, port) in [("dns", 53), ("mdns", 5353), ("llmnr", 5355)] {
            let text = [&format!(": udp 50000 {port}\n"), text].concat();
            let talk = crate::talk::Talk::parse(&text, [50000, port]).unwrap();
            let emitted = talk.asked(|data| vec![data.to_vec()]);
            let values = |name: &str| -> Vec<(Direction, &str)> {
                let name = format!("{protocol}.{name}");
                let of_name = emitted.buffers.iter().filter(|(buffer, ..)| buffer.name == name);
                of_name.map(|(_, side, bytes)| (*side, std::str::from_utf8(bytes).unwrap())).collect()
            };
            let (asked, answered) = (Direction::Forward, Direction::Reverse);
            assert_eq!(values("queries.rrname"), [(asked, "A"), (answered, "A")], "{protocol}");
            assert_eq!(values("answers.rrname"), [(answered, "A")], "{protocol}");
            assert_eq!(values("authorities.rrname"), [(answered, "au")], "{protocol}");
            assert_eq!(values("additionals.rrname"), [(answered, "ad")], "{protocol}");
            let all = ["A", "A", "mx", "au", "ns", "ad"].map(|name| (answered, name));
            assert_eq!(values("response.rrname"), all, "{protocol}");
        }
    }

    #[test]
    fn gaps_in_a_stream_create_no_answers() {
        let emitted = emitted("gaps.talk");
        let answered = rows(&emitted).iter().filter(|record| !record.get("rcode").is_none()).count();
        // The answer after the truncated one, and two after the lost one; the last chunk begins within a message.
        assert_eq!(answered, 3);
        assert!(emitted.records.iter().all(|record| *record.table != ANOMALY));
    }

    #[test]
    fn unanswered_questions_are_removed() {
        let setup = crate::Setup {
            flow: 1,
            initiator: ([192, 0, 2, 1].into(), 50000),
            responder: ([192, 0, 2, 2].into(), 53),
            ip_proto: crate::UDP,
            wants: Default::default(),
        };
        let (mut dns, mut out) = (Dns::new(&setup, Flavour::Plain), Collected::default());
        for id in 0..1000_u16 {
            let mut data = id.to_be_bytes().to_vec();
            data.extend(b"\x01\0\0\x01\0\0\0\0\0\0\x01a\0\0\x01\0\x01");
            let chunk = Chunk { time: Time(0), direction: Direction::Forward, gap: 0, data: &data };
            dns.chunk(&chunk, &mut out);
        }
        assert_eq!(dns.waiting.len(), MAX_WAITING);
        assert!(dns.memory() < 1 << 16);
        dns.end(Time(1), &mut out);
        assert_eq!(rows(&out).len(), 1000);
        let anomalies = out.records.iter().filter(|record| *record.table == ANOMALY);
        assert_eq!(anomalies.count(), 1);
    }
}
