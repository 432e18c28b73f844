//! Hosts by what they try to reach: distinct addresses and ports, by the kind of the probe.

use super::ends::words;
use super::link_list::word;
use super::scans::Outcome;
use super::times::Times;
use super::top::ip;
use super::{Argument, Arguments, Function, FunctionSpec, InputKind, Memory};
use crate::bounded::{Amount, Bounded, kept};
use crate::keyed::{Address, KeyHash, Keyed};
use crate::uncommon::Uncommon;
use crate::{Asker, FlowRecord, Item, Question, QuestionKind};
use std::borrow::Cow;
use std::sync::Arc;
use weir_api::{
    Bits, Count, Datum, DistinctValues, Fold, Folded, KeyColumn, Level, OWN_WORDS, Reading, Schema, Shown,
    TableColumn, TableRow, Unit,
};
use weir_wire::Mac;
use weir_wire::build::flags::{ACK, FIN, PSH, RST, SYN, URG};

pub(super) static FANOUT: FunctionSpec = FunctionSpec {
    name: "fanout",
    help: "Hosts by what they try to reach, with the kind of the probe: by distinct addresses, by distinct ports, by the ports of one host (a vertical scan), or by the hosts with one port (a horizontal scan). Clients and resolvers have rows too, with answered flows. A flow counts when it has ended. Questions of ARP and of neighbour discovery count as flows, each at once.",
    arguments: &[
        Argument {
            name: "by",
            help: "`addresses`: hosts by distinct destination addresses; `ports`: hosts by distinct destination ports; `vertical`: pairs of hosts by distinct ports; `horizontal`: hosts and ports by distinct destination addresses.",
            default: Some("addresses"),
        },
        Argument { name: "show", help: "Number of rows to show, 1 to 1000.", default: Some("10") },
        Argument { name: "rows", help: "Number of rows to keep, 16 to 1048576.", default: Some("8192") },
    ],
    levels: &[Level::Flow],
    input: InputKind::Uncommon(Uncommon::Questions),
    memory: |arguments| {
        let (_, _, rows) = shape(arguments)?;
        let kept = kept(rows);
        Ok(Memory {
            state: 256 + Bounded::<Subject, Tried>::bytes(rows) + room(kept),
            reading: 1024 + kept * (ROW + FEW) + room(kept),
        })
    },
    judge: None,
    delivers: None,
    identifies: false,
    build: |arguments| {
        let (by, show, rows) = shape(arguments)?;
        let schema = Schema {
            name: Cow::Borrowed("fanout"),
            keys: Cow::Borrowed(by.keys()),
            columns: Cow::Borrowed(by.columns()),
            shown: Shown::Heaviest(show),
        };
        let list = Bounded::with_room(rows, Unit::Packets, arguments.seeds.run, room(kept(rows)));
        Ok(Box::new(Fanout { by, schema: Arc::new(schema), list }))
    },
};

/// What the rows are by, rows to show, and rows to keep.
fn shape(arguments: &Arguments<'_>) -> Result<(By, u32, usize), String> {
    let choices = [
        ("addresses", By::Addresses),
        ("ports", By::Ports),
        ("vertical", By::Vertical),
        ("horizontal", By::Horizontal),
    ];
    let by = arguments.choice("by", &choices)?;
    Ok((by, arguments.within("show", 1..=1000)?, arguments.within("rows", 16..=1 << 20)?))
}

/// Bytes of addresses and ports that each row has: room for four of both. Most rows of a flood have one.
const FEW: usize = 2 * 4 * size_of::<u128>();

/// Bytes that all rows share for further addresses and ports: 16 more values for each row, and as if 64 rows had all ports.
fn room(kept: usize) -> usize {
    kept * 16 * size_of::<u128>() + 64 * Bits::MEMORY
}

/// What a row is of.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum By {
    Addresses,
    Ports,
    Vertical,
    Horizontal,
}

/// The parts of keys.
const SOURCE: KeyColumn = KeyColumn::new(
    "source",
    "",
    "The host that began the flows; the hardware address of one that asks by ARP without an address of its own.",
);
const TARGET: KeyColumn = KeyColumn::new("target", "", "The host that it tried to reach.");
const PORT: KeyColumn = KeyColumn::new(
    "port",
    "",
    "The destination port; for `ip` the number of the IP protocol; none for ICMP, ARP and neighbour discovery.",
);
const KIND: KeyColumn = KeyColumn::new(
    "kind",
    OWN_WORDS,
    "The kind of the probe, by the first packet of the flow: syn, connect, fin, null, xmas, maimon, ack, other (TCP), udp, sctp, echo, timestamp (ICMP), arp, nd (neighbour discovery), ip (other IP protocols).",
);

/// The columns of values.
const TARGETS: TableColumn =
    TableColumn::new("targets", Fold::Distinct, "", "Distinct destination addresses.");
const PORTS: TableColumn = TableColumn::new(
    "ports",
    Fold::Distinct,
    "",
    "Distinct destination ports; for `ip` distinct numbers of IP protocols.",
);
const FLOWS: TableColumn = flows("flows", "Flows, or parts of long ones; for `arp` and `nd` questions.");
const ANSWERED: TableColumn =
    flows("answered", "Flows that the target answered, and did not refuse; for `arp` and `nd` answers.");
const REFUSED: TableColumn = flows("refused", "Flows of TCP that the target refused with a RST.");
const SILENT: TableColumn = flows("silent", "Flows without an answer; not for `arp` and `nd`.");
const FIRST: TableColumn = TableColumn::new("first", Fold::Min, "time", "Beginning of the first flow.");
const LAST: TableColumn = TableColumn::new("last", Fold::Max, "time", "Beginning of the last flow.");

/// A column of flows.
const fn flows(name: &'static str, help: &'static str) -> TableColumn {
    TableColumn::new(name, Fold::Sum, "flows", help)
}

impl By {
    fn keys(self) -> &'static [KeyColumn] {
        static HOST: [KeyColumn; 2] = [SOURCE, KIND];
        static VERTICAL: [KeyColumn; 3] = [SOURCE, TARGET, KIND];
        static HORIZONTAL: [KeyColumn; 3] = [SOURCE, PORT, KIND];
        match self {
            Self::Addresses | Self::Ports => &HOST,
            Self::Vertical => &VERTICAL,
            Self::Horizontal => &HORIZONTAL,
        }
    }

    fn columns(self) -> &'static [TableColumn] {
        static ADDRESSES: [TableColumn; 8] = [TARGETS, PORTS, FLOWS, ANSWERED, REFUSED, SILENT, FIRST, LAST];
        static OF_PORTS: [TableColumn; 8] = [PORTS, TARGETS, FLOWS, ANSWERED, REFUSED, SILENT, FIRST, LAST];
        static VERTICAL: [TableColumn; 7] = [PORTS, FLOWS, ANSWERED, REFUSED, SILENT, FIRST, LAST];
        static HORIZONTAL: [TableColumn; 7] = [TARGETS, FLOWS, ANSWERED, REFUSED, SILENT, FIRST, LAST];
        match self {
            Self::Addresses => &ADDRESSES,
            Self::Ports => &OF_PORTS,
            Self::Vertical => &VERTICAL,
            Self::Horizontal => &HORIZONTAL,
        }
    }
}

/// Bytes of a row of a reading, without the addresses and ports: the longest name of a kind has nine letters.
const ROW: usize = size_of::<TableRow>() + 3 * size_of::<Datum>() + 9 + 8 * size_of::<Folded>();

/// The kind of a probe.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[repr(u8)]
enum Kind {
    /// A SYN. The flow may be a client's.
    #[default]
    Syn,
    /// A SYN, and a handshake that the initiator completed, without payload of it.
    Connect,
    Fin,
    Null,
    Xmas,
    Maimon,
    Ack,
    /// Another segment of TCP.
    Other,
    Udp,
    Sctp,
    Echo,
    Timestamp,
    Arp,
    /// Neighbour discovery.
    Nd,
    /// Another IP protocol.
    Ip,
}

impl Kind {
    /// The kind of a flow, and its destination port; `None` for messages of ICMP that ask nothing.
    fn of(flow: &FlowRecord) -> Option<(Self, Option<u16>)> {
        let (_, kind_of_icmp) = flow.initiator();
        let (_, port) = flow.responder();
        match flow.key.proto {
            6 => Some((Self::of_tcp(flow), Some(port))),
            17 => Some((Self::Udp, Some(port))),
            132 => Some((Self::Sctp, Some(port))),
            1 | 58 if flow.key.is_one_way() => None,
            protocol @ (1 | 58) => match (protocol, kind_of_icmp) {
                (1, 8) | (58, 128) => Some((Self::Echo, None)),
                (1, 13) => Some((Self::Timestamp, None)),
                _ => None,
            },
            protocol => Some((Self::Ip, Some(protocol.into()))),
        }
    }

    /// The kind of the first segment. A record has the flags of all segments together, and the order in which kinds of segments
    /// first came. A probe is not followed by other segments of its sender, but for a RST.
    fn of_tcp(flow: &FlowRecord) -> Self {
        let history = flow.history.as_str();
        let first =
            history.chars().find(|letter| matches!(letter, 'S' | 'H' | 'A' | 'D' | 'F' | 'R' | 'I' | 'Q'));
        // A segment of the responder came first. Only a SYN says that the initiator tried something.
        let first = if history.starts_with('^') && first != Some('S') { Some('^') } else { first };
        let flags = flow.forward.tcp_flags & (FIN | SYN | RST | PSH | ACK | URG);
        let has_payload = flow.forward.payload_bytes > 0;
        match first {
            Some('S') => {
                let answered = history.find('h');
                let completes = answered
                    .is_some_and(|at| history.chars().skip(at).any(|letter| matches!(letter, 'A' | 'F')));
                if completes && !has_payload { Self::Connect } else { Self::Syn }
            }
            Some('F') if !has_payload => match flags & !RST {
                FIN => Self::Fin,
                MAIMON => Self::Maimon,
                XMAS => Self::Xmas,
                _ => Self::Other,
            },
            Some('A') if flags & !RST == ACK && !has_payload && flow.reverse.payload_bytes == 0 => Self::Ack,
            None if flags == 0 && !has_payload => Self::Null,
            _ => Self::Other,
        }
    }

    /// What became of a flow of this kind; `None` where it is uncertain.
    fn outcome(self, flow: &FlowRecord) -> Option<Outcome> {
        match self {
            Self::Syn | Self::Connect => Outcome::of(flow),
            _ if flow.reverse.packets == 0 => Some(Outcome::Unanswered),
            Self::Fin | Self::Null | Self::Xmas | Self::Maimon | Self::Ack | Self::Other
                if flow.reverse.tcp_flags & RST != 0 =>
            {
                Some(Outcome::Refused)
            }
            _ => Some(Outcome::Answered),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Syn => "syn",
            Self::Connect => "connect",
            Self::Fin => "fin",
            Self::Null => "null",
            Self::Xmas => "xmas",
            Self::Maimon => "maimon",
            Self::Ack => "ack",
            Self::Other => "other",
            Self::Udp => "udp",
            Self::Sctp => "sctp",
            Self::Echo => "echo",
            Self::Timestamp => "timestamp",
            Self::Arp => "arp",
            Self::Nd => "nd",
            Self::Ip => "ip",
        }
    }
}

/// Uriel Maimon's probe (Phrack 49, article 15, 1996).
const MAIMON: u8 = FIN | ACK;
/// The probe that nmap names after a Christmas tree.
const XMAS: u8 = FIN | PSH | URG;

/// A hardware address from a word.
fn mac_of(word: u64) -> Mac {
    let [_, _, mac @ ..] = word.to_be_bytes();
    mac
}

/// What a flow counts to.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
struct Subject {
    /// That of a station is [`STATION`] and its hardware address.
    source: Address,
    /// The target of a vertical row, else 0.
    target: Address,
    /// The port of a horizontal row.
    port: Option<u16>,
    kind: Kind,
}

impl Keyed for Subject {
    fn hash(&self, hash: &KeyHash) -> u64 {
        let port = self.port.map_or(0, |port| u64::from(port) | 1 << 16);
        let rest = port << 8 | self.kind as u64;
        hash.of([self.source[0], self.source[1], self.target[0], self.target[1], rest])
    }
}

/// The upper half of what stands for a station without an address, in rows of ARP, whose addresses are those of IPv4.
const STATION: u64 = 1;

/// The flows of a row.
#[derive(Clone, Debug, Default)]
struct Tried {
    /// The values that the row is ranked by, addresses or ports.
    ranking: DistinctValues,
    /// Ports in a row that is ranked by addresses, addresses in one that is ranked by ports; none where they are in the key.
    others: DistinctValues,
    flows: u64,
    answered: u64,
    refused: u64,
    silent: u64,
    /// Beginning of the first and the last flow.
    times: Times,
    /// Flows to an address or port for which there was no room. Both count to the error, so that a row without one lacks nothing in any
    /// column.
    uncounted: u64,
    error: u32,
}

/// What counts to a row.
#[derive(Clone, Copy, Debug)]
enum Seen {
    /// A flow, or a question.
    Try(Try),
    /// An answer to a question. A question and its answer may be at two workers, so that each counts on its own.
    Answer,
}

/// A flow.
#[derive(Clone, Copy, Debug)]
struct Try {
    ranking: u128,
    others: Option<u128>,
    outcome: Option<Outcome>,
    began: u64,
}

/// Rows are ranked by their number of distinct values.
impl Amount for Tried {
    type More = Seen;
    const LEAST: u32 = 0;
    const OWN: usize = FEW;

    fn weight_of(more: &Seen, _: Unit) -> u64 {
        u64::from(matches!(more, Seen::Try(_)))
    }

    fn count_of(more: &Seen) -> Count {
        Count { packets: u64::from(matches!(more, Seen::Try(_))), bytes: 0 }
    }

    fn add(&mut self, more: &Seen, _: Unit, room: usize) -> u64 {
        let Seen::Try(more) = more else {
            self.answered += 1;
            return 0;
        };
        self.flows += 1;
        match more.outcome {
            Some(Outcome::Answered) => self.answered += 1,
            Some(Outcome::Refused) => self.refused += 1,
            Some(Outcome::Unanswered) => self.silent += 1,
            None => {}
        }
        self.times.add(more.began, more.began);
        let before = self.ranking.memory();
        let ranking = self.ranking.add_within(more.ranking, room);
        let room = (room + before).saturating_sub(self.ranking.memory());
        let others = more.others.map_or(Some(false), |value| self.others.add_within(value, room));
        if ranking.is_none() || others.is_none() {
            self.uncounted += 1;
        }
        ranking.unwrap_or(true).into()
    }

    fn memory(&self) -> usize {
        self.ranking.memory() + self.others.memory()
    }

    fn uncounted(&self) -> u64 {
        self.uncounted
    }

    fn weight(&self, _: Unit) -> u64 {
        self.ranking.estimate()
    }

    fn count(&self) -> Count {
        Count { packets: self.flows, bytes: 0 }
    }

    fn error(&mut self) -> &mut u32 {
        &mut self.error
    }
}

struct Fanout {
    by: By,
    schema: Arc<Schema>,
    list: Bounded<Subject, Tried>,
}

impl Fanout {
    /// Takes a flow that its initiator tried.
    fn flow(&mut self, flow: &FlowRecord) -> Option<()> {
        let (kind, port) = Kind::of(flow)?;
        let ((source, _), (target, _)) = (flow.initiator(), flow.responder());
        let (address, number) = (u128::from_be_bytes(target), port.map(u128::from));
        let host = Subject { source: words(source), kind, ..Subject::default() };
        let (subject, ranking, others) = match self.by {
            By::Addresses => (host, address, number),
            // What has no ports is in no list of ports.
            By::Ports => (host, number?, Some(address)),
            By::Vertical => (Subject { target: words(target), ..host }, number?, None),
            By::Horizontal => (Subject { port, ..host }, address, None),
        };
        let more = Try { ranking, others, outcome: kind.outcome(flow), began: flow.first.0 };
        self.list.add_more(subject, Seen::Try(more));
        Some(())
    }

    /// Takes a question or an answer. Neither has a port.
    fn question(&mut self, question: &Question) {
        if matches!(self.by, By::Ports | By::Vertical) {
            return;
        }
        let source = match question.asker {
            Asker::Host(address) => words(address),
            Asker::Station(mac) => [STATION, word(Some(mac))],
        };
        let kind = match question.kind {
            QuestionKind::Arp => Kind::Arp,
            QuestionKind::Nd => Kind::Nd,
        };
        let ranking = u128::from_be_bytes(question.target);
        let asked = Try { ranking, others: None, outcome: None, began: question.time.0 };
        let seen = if question.is_answer { Seen::Answer } else { Seen::Try(asked) };
        self.list.add_more(Subject { source, kind, ..Subject::default() }, seen);
    }

    /// The key of a row.
    fn key(by: By, subject: Subject) -> Vec<Datum> {
        let source = match subject.source {
            [STATION, mac] if subject.kind == Kind::Arp => Datum::Mac(mac_of(mac)),
            address => Datum::Address(ip(address)),
        };
        let kind = Datum::Text(subject.kind.name().into());
        match by {
            By::Addresses | By::Ports => vec![source, kind],
            By::Vertical => vec![source, Datum::Address(ip(subject.target)), kind],
            By::Horizontal => {
                vec![source, subject.port.map_or(Datum::Nothing, |port| Datum::Number(port.into())), kind]
            }
        }
    }
}

impl Function for Fanout {
    fn item(&mut self, item: &Item<'_>) {
        let flow = match item {
            Item::FlowEnd(flow, _) => flow,
            Item::Question(question) => return self.question(question),
            _ => return,
        };
        // The late segments of a closed connection try nothing, nor does an initiator that sent nothing: only the answers of
        // such a flow were seen.
        if flow.follows == 0 && flow.forward.packets > 0 {
            self.flow(flow);
        }
    }

    fn held(&self) -> usize {
        self.list.memory()
    }

    fn take(&mut self) -> Reading {
        let by = self.by;
        self.list.take_table(&self.schema, |subject, tried| {
            let Tried { ranking, others, flows, answered, refused, silent, times, .. } = tried;
            let mut values = vec![Folded::Distinct(ranking)];
            if matches!(by, By::Addresses | By::Ports) {
                values.push(Folded::Distinct(others));
            }
            values.extend([flows, answered, refused, silent].map(Folded::Sum));
            values.extend(times.folded());
            (Self::key(by, subject), values)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::scans::tests::{flood, flow};
    use super::*;
    use crate::function::tests::table_of;
    use crate::question::tests::{advertisement, arp, solicitation};
    use crate::{ConnState, Tally};
    use weir_api::{FunctionCall, Table};
    use weir_filter::Directions;
    use weir_flow::{FlowConfig, FlowSink, FlowTable};
    use weir_wire::{LinkType, Packet, Time, build, decode};

    const NAMES: [&str; 4] = ["addresses", "ports", "vertical", "horizontal"];
    /// A segment that ends a connection at once.
    const RST_ACK: u8 = RST | ACK;

    fn call(by: &str) -> FunctionCall {
        FunctionCall::new("fanout").with("by", by)
    }

    fn table(by: &str, flows: &[FlowRecord], workers: usize) -> Table {
        table_of(&FANOUT, &call(by), (flows, workers), |function, flow| {
            function.item(&Item::FlowEnd(flow, Directions::BOTH));
        })
    }

    /// The flows that have ended.
    #[derive(Default)]
    struct Ended(Vec<FlowRecord>);

    impl FlowSink for Ended {
        fn end(&mut self, flow: &FlowRecord) {
            self.0.push(*flow);
        }

        fn tally(&mut self, _: &Tally<'_>) {}
    }

    /// The flows of frames, of which each comes a microsecond after the one before.
    fn flows(frames: &[Vec<u8>]) -> Vec<FlowRecord> {
        let (mut table, mut ended) = (FlowTable::new(&FlowConfig::default()), Ended::default());
        for (at, frame) in (1..).zip(frames) {
            let packet = Packet { time: Time(at * 1_000), ..build::packet(frame, LinkType::ETHERNET) };
            table.packet(&packet, &decode(&packet), &mut ended);
        }
        table.drain(&mut ended);
        ended.0
    }

    fn host(n: u8) -> [u8; 4] {
        [10, 0, 0, n]
    }

    fn target(n: u8) -> [u8; 4] {
        [10, 0, 1, n]
    }

    /// Segments between the source and a port of the target, each with its flags and payload; `true` goes to the target.
    fn tcp(source: u8, to: (u8, u16), segments: &[(bool, u8, &[u8])]) -> Vec<Vec<u8>> {
        let (to, port) = to;
        let mut numbers = [1_000_u32, 9_000];
        let frame = |(forward, flags, payload): &(bool, u8, &[u8])| {
            let (me, you) = if *forward { (0, 1) } else { (1, 0) };
            let ends = [(host(source), 40_123), (target(to), port)];
            let ack = if flags & ACK != 0 { numbers[you] } else { 0 };
            let frame = build::ethernet().ipv4(ends[me].0, ends[you].0).tcp(ends[me].1, ends[you].1, *flags);
            let frame = frame.seq(numbers[me]).ack(ack).window(1_024).payload(payload);
            numbers[me] += payload.len() as u32 + u32::from(flags & (SYN | FIN) != 0);
            frame
        };
        segments.iter().map(frame).collect()
    }

    /// A connection with payload of both sides.
    fn client(source: u8, to: (u8, u16)) -> Vec<Vec<u8>> {
        let (data, none): (&[u8], &[u8]) = (b"text", b"");
        let handshake = [(true, SYN, none), (false, SYN | ACK, none), (true, ACK, none)];
        let payload = [(true, PSH | ACK, data), (false, PSH | ACK, data)];
        let end = [(true, FIN | ACK, none), (false, FIN | ACK, none), (true, ACK, none)];
        tcp(source, to, &[&handshake[..], &payload, &end].concat())
    }

    /// A datagram, and its answer.
    fn datagrams(source: u8, to: u8, port: u16, is_answered: bool) -> Vec<Vec<u8>> {
        let (source, to) = (host(source), target(to));
        let request = build::ethernet().ipv4(source, to).udp(40_123, port).payload(b"request");
        let answer = build::ethernet().ipv4(to, source).udp(port, 40_123).payload(b"answer");
        let mut frames = vec![request];
        frames.extend(is_answered.then_some(answer));
        frames
    }

    fn icmp(source: u8, to: u8, kinds: &[u8]) -> Vec<Vec<u8>> {
        let (source, to) = (host(source), target(to));
        let message = |(at, kind): (usize, &u8)| {
            let (from, to) = if at == 0 { (source, to) } else { (to, source) };
            build::ethernet().ipv4(from, to).icmp(*kind, 0, [0; 4]).payload(&[0; 12])
        };
        kinds.iter().enumerate().map(message).collect()
    }

    /// The rows of a table as `key: column=number ...` without columns of 0 and times.
    fn texts(table: &Table) -> Vec<String> {
        let row = |row: &&TableRow| {
            let key = row.key.iter().map(|part| match part {
                Datum::Address(address) => address.to_string(),
                Datum::Number(number) => number.to_string(),
                Datum::Text(text) => text.to_string(),
                other => format!("{other:?}"),
            });
            let values = table.schema.columns.iter().zip(&row.values);
            let values = values.filter(|(column, value)| column.unit != "time" && value.weight() > 0);
            let values = values.map(|(column, value)| format!("{}={}", column.name, value.weight()));
            format!("{}: {}", key.collect::<Vec<_>>().join(" "), values.collect::<Vec<_>>().join(" "))
        };
        table.shown().iter().map(row).collect()
    }

    /// Probes as nmap sends them, and the answers of open, closed and filtered ports.
    #[test]
    fn the_kind_of_a_probe_is_that_of_its_first_packet() {
        let none: &[u8] = b"";
        let (to, back) = (|flags| (true, flags, none), |flags| (false, flags, none));
        let open = [to(SYN), back(SYN | ACK)];
        let six = |last: u8| [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last];
        let ping6 = |from, to, kind| {
            build::ethernet().ipv6(six(from), six(to)).icmp(kind, 0, [0; 4]).payload(&[0; 8])
        };
        let raw = |from, to, proto| build::ethernet().ipv4(from, to).proto(proto).payload(&[0; 20]);
        let probes: Vec<(&str, Vec<Vec<u8>>)> = vec![
            ("syn answered", tcp(1, (1, 80), &[open[0], open[1], to(RST)])),
            ("syn refused", tcp(1, (1, 81), &[to(SYN), back(RST_ACK)])),
            ("syn silent", tcp(1, (1, 82), &[to(SYN)])),
            ("syn answered", client(1, (1, 83))),
            ("connect answered", tcp(1, (1, 84), &[open[0], open[1], to(ACK), to(RST_ACK)])),
            (
                "connect answered",
                tcp(1, (1, 85), &[open[0], open[1], to(ACK), to(FIN | ACK), back(FIN | ACK), to(ACK)]),
            ),
            // A server that speaks first.
            (
                "connect answered",
                tcp(1, (1, 86), &[open[0], open[1], to(ACK), (false, PSH | ACK, b"220"), to(RST_ACK)]),
            ),
            ("fin silent", tcp(1, (1, 87), &[to(FIN)])),
            ("fin refused", tcp(1, (1, 88), &[to(FIN), back(RST_ACK)])),
            ("null silent", tcp(1, (1, 89), &[to(0)])),
            ("null refused", tcp(1, (1, 90), &[to(0), back(RST_ACK)])),
            ("xmas silent", tcp(1, (1, 91), &[to(XMAS), to(XMAS)])),
            ("xmas refused", tcp(1, (1, 92), &[to(XMAS), back(RST_ACK)])),
            ("maimon silent", tcp(1, (1, 93), &[to(MAIMON)])),
            ("maimon refused", tcp(1, (1, 94), &[to(MAIMON), back(RST)])),
            ("ack silent", tcp(1, (1, 95), &[to(ACK)])),
            ("ack refused", tcp(1, (1, 96), &[to(ACK), back(RST)])),
            ("other silent", tcp(1, (1, 97), &[to(SYN | FIN)])),
            ("other refused", tcp(1, (1, 98), &[to(PSH | URG), back(RST_ACK)])),
            // A connection that was under way.
            ("other answered", tcp(1, (1, 99), &[(true, PSH | ACK, b"x"), back(ACK)])),
            ("udp answered", datagrams(1, 1, 53, true)),
            ("udp silent", datagrams(1, 1, 161, false)),
            ("echo answered", icmp(1, 1, &[8, 0])),
            ("echo silent", icmp(1, 2, &[8])),
            ("echo answered", vec![ping6(1, 2, 128), ping6(2, 1, 129)]),
            ("timestamp answered", icmp(1, 1, &[13, 14])),
            (
                "sctp answered",
                vec![
                    build::ethernet()
                        .ipv4(host(1), target(1))
                        .proto(132)
                        .payload(&[0x9c, 0xbb, 0x0b, 0x59, 0, 0, 0, 0, 0, 0, 0, 0]),
                    build::ethernet()
                        .ipv4(target(1), host(1))
                        .proto(132)
                        .payload(&[0x0b, 0x59, 0x9c, 0xbb, 0, 0, 0, 0, 0, 0, 0, 0]),
                ],
            ),
            ("ip silent", vec![raw(host(1), target(1), 103)]),
            ("ip answered", vec![raw(host(1), target(1), 89), raw(target(1), host(1), 89)]),
        ];
        for (expected, frames) in &probes {
            let (kind, outcome) = expected.split_once(' ').unwrap();
            let rows = texts(&table("horizontal", &flows(frames), 1));
            let [row] = rows.as_slice() else { panic!("{expected}: {rows:?}") };
            assert!(row.ends_with(&format!(" {kind}: targets=1 flows=1 {outcome}=1")), "{expected}: {row}");
        }
        // These ask nothing: errors, replies without a request, and answers of a port to which nothing was sent.
        let others = [
            icmp(1, 1, &[3]),
            icmp(1, 1, &[0]),
            tcp(1, (1, 80), &[back(SYN | ACK)]),
            vec![
                build::ethernet()
                    .ipv4(target(1), host(1))
                    .udp(53, 40_123)
                    .payload(&[0, 1, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
            ],
        ];
        for frames in &others {
            assert_eq!(flows(frames).len(), 1);
            assert_eq!(texts(&table("addresses", &flows(frames), 1)), Vec::<String>::new());
        }
    }

    /// A vertical, a horizontal and a block scan, a client and a resolver: each scan is first in its list, and the others have
    /// few targets that answer.
    #[test]
    fn each_scan_is_first_in_its_list() {
        let none: &[u8] = b"";
        let closed = [(true, SYN, none), (false, RST_ACK, none)];
        let open = [(true, SYN, none), (false, SYN | ACK, none), (true, RST, none)];
        let mut frames = Vec::new();
        for port in 1..=1_000 {
            frames.extend(tcp(1, (1, port), if port == 80 { &open } else { &closed }));
        }
        for to in 1..=250 {
            frames.extend(tcp(2, (to, 445), &[(true, SYN, none)]));
        }
        for (to, port) in (1..=40).flat_map(|to| (1..=30).map(move |port| (to, port))) {
            frames.extend(datagrams(3, to, port, false));
        }
        (1..=6).for_each(|to| frames.extend(client(4, (to, 443))));
        (1..=60).for_each(|n| frames.extend(datagrams(5, 1 + n % 3, 53, n % 20 > 0)));
        let flows = flows(&frames);
        let rows = |by| texts(&table(by, &flows, 1));
        let all = [
            "10.0.0.2 syn: targets=250 ports=1 flows=250 silent=250",
            "10.0.0.3 udp: targets=40 ports=30 flows=1200 silent=1200",
            "10.0.0.4 syn: targets=6 ports=1 flows=6 answered=6",
            "10.0.0.5 udp: targets=3 ports=1 flows=3 answered=3",
            "10.0.0.1 syn: targets=1 ports=1000 flows=1000 answered=1 refused=999",
        ];
        assert_eq!(rows("addresses"), all);
        assert_eq!(
            rows("ports")[..2],
            [
                "10.0.0.1 syn: ports=1000 targets=1 flows=1000 answered=1 refused=999",
                "10.0.0.3 udp: ports=30 targets=40 flows=1200 silent=1200",
            ]
        );
        assert_eq!(
            rows("vertical")[..2],
            [
                "10.0.0.1 10.0.1.1 syn: ports=1000 flows=1000 answered=1 refused=999",
                "10.0.0.3 10.0.1.1 udp: ports=30 flows=30 silent=30",
            ]
        );
        assert_eq!(
            rows("horizontal")[..2],
            [
                "10.0.0.2 445 syn: targets=250 flows=250 silent=250",
                "10.0.0.3 1 udp: targets=40 flows=40 silent=40",
            ]
        );
        for by in NAMES {
            let one = table(by, &flows, 1);
            assert!(one.is_exact());
            for workers in [2, 3, 7] {
                assert_eq!(table(by, &flows, workers), one, "{by}, {workers} workers");
            }
            let Some([.., Folded::Min(Some(first)), Folded::Max(Some(last))]) =
                one.rows.first().map(|row| row.values.as_slice())
            else {
                panic!("{by}: {:?}", one.rows)
            };
            assert!((1_000..=*last).contains(first), "{by}: {first} {last}");
        }
    }

    /// The table of packets of ARP and neighbour discovery, with each at the next of some workers.
    fn asked(by: &str, frames: &[Vec<u8>], workers: usize) -> Table {
        table_of(&FANOUT, &call(by), (frames, workers), |function, frame| {
            let packet = Packet { time: Time(7), ..build::packet(frame, LinkType::ETHERNET) };
            if let Some(question) = Question::of(&packet, &decode(&packet)) {
                function.item(&Item::Question(&question));
            }
        })
    }

    #[test]
    fn hosts_that_ask_by_arp_and_neighbour_discovery_have_rows() {
        let lan = |n: u8| [10, 0, 0, n];
        // A sweep that two hosts answer, a router whose hosts all live, and a station without an address that asks for many.
        let sweep = (2..=254).map(|to| arp(1, lan(1), lan(to)));
        let found = [9, 77].map(|to| arp(2, lan(to), lan(1)));
        let router = (2..=40).flat_map(|to| [arp(1, lan(254), lan(to)), arp(2, lan(to), lan(254))]);
        let station = (1..=30).map(|to| arp(1, [0; 4], lan(to)));
        let tested = [arp(2, lan(30), [0; 4]), arp(1, lan(5), lan(5))];
        let six = (2..=50).map(|to| solicitation(1, to));
        let frames: Vec<Vec<u8>> = sweep
            .chain(found)
            .chain(router)
            .chain(station)
            .chain(tested)
            .chain(six)
            .chain([advertisement(1, 3)])
            .collect();
        let one = asked("addresses", &frames, 1);
        assert!(one.is_exact());
        assert_eq!(
            texts(&one),
            [
                "10.0.0.1 arp: targets=253 flows=253 answered=2",
                "fe80::200:ff:fe00:1 nd: targets=49 flows=49 answered=1",
                "10.0.0.254 arp: targets=39 flows=39 answered=39",
                "Mac([2, 0, 0, 0, 0, 9]) arp: targets=30 flows=30 answered=1",
            ]
        );
        assert_eq!(
            texts(&asked("horizontal", &frames, 1))[0],
            "10.0.0.1 Nothing arp: targets=253 flows=253 answered=2"
        );
        assert_eq!(one.rows[0].values[6..], [Folded::Min(Some(7)), Folded::Max(Some(7))]);
        for by in NAMES {
            let one = asked(by, &frames, 1);
            assert_eq!(one.rows.is_empty(), matches!(by, "ports" | "vertical"), "{by}");
            for workers in [2, 3, 7] {
                assert_eq!(asked(by, &frames, workers), one, "{by}, {workers} workers");
            }
        }
    }

    /// An answer whose question belongs to an interval before has a row without a question.
    #[test]
    fn an_answer_alone_asks_for_nothing() {
        let table = asked("addresses", &[arp(2, host(2), host(1))], 1);
        assert_eq!(texts(&table), ["10.0.0.1 arp: answered=1"]);
        let mut all = Reading::Table(table);
        all.merge(&Reading::Table(asked("addresses", &[arp(1, host(1), host(2))], 1)));
        let Reading::Table(all) = all else { panic!("a table") };
        assert_eq!(texts(&all), ["10.0.0.1 arp: targets=1 flows=1 answered=1"]);
    }

    #[test]
    fn all_ports_of_a_host_are_counted_exactly() {
        let flows: Vec<FlowRecord> = (0..=u16::MAX).map(|port| flow(1, 1, port, ConnState::S0)).collect();
        for by in ["ports", "vertical"] {
            for workers in [1, 3] {
                let table = table(by, &flows, workers);
                let Some(Folded::Distinct(ports)) = table.rows[0].values.first() else { panic!("ports") };
                assert!(table.is_exact() && ports.is_exact(), "{by}");
                assert_eq!(ports.estimate(), 65_536, "{by}");
            }
        }
    }

    #[test]
    fn a_flood_of_random_hosts_takes_no_more_room_and_does_not_hide_a_scan() {
        for by in NAMES {
            let stated = FANOUT.memory(&call(by)).unwrap();
            let mut function = FANOUT.call(&call(by), 1_u64).unwrap();
            let mut state = 7;
            for n in 0..60_000_u32 {
                let mut from_all = flood(n);
                let random = crate::keyed::next(&mut state).to_be_bytes();
                from_all.key.addr =
                    [[random[0], random[1], random[2], random[3]], [random[4], random[5], 1, 1]]
                        .map(weir_wire::mapped);
                from_all.key.port[1] = u16::from_be_bytes([random[6], random[7]]);
                function.item(&Item::FlowEnd(&from_all, Directions::BOTH));
                if n % 60 == 0 {
                    let at = n / 60;
                    let (to, port) = if by == "vertical" { (1, at as u16) } else { ((at % 250) as u8, 80) };
                    let port = if by == "ports" { at as u16 } else { port };
                    function.item(&Item::FlowEnd(&flow(7, to, port, ConnState::S0), Directions::BOTH));
                }
                if n % 1_000 == 0 {
                    assert!(function.held() <= stated.state, "{by}");
                }
            }
            let reading = function.take();
            assert!(reading.memory() <= stated.reading, "{by}");
            let Reading::Table(table) = reading else { panic!("a table") };
            let scan = table.shown()[0];
            assert_eq!(scan.key[0], Datum::Address([10, 0, 0, 7].into()), "{by}");
            let tried = if matches!(by, "addresses" | "horizontal") { 250 } else { 1_000 };
            assert!(scan.weight() <= tried && scan.weight() + scan.error >= tried, "{by}: {scan:?}");
        }
    }

    /// Hosts that all try more than the room of a list: each row states what it may lack, in any number of workers.
    #[test]
    fn rows_without_room_state_their_error() {
        let call = call("vertical").with("rows", 128);
        let stated = FANOUT.memory(&call).unwrap();
        let mut function = FANOUT.call(&call, 1_u64).unwrap();
        let mut merged = function.take();
        for part in 0..2 {
            for port in 1..=2_000 {
                for target in 0..80 {
                    let (source, target) = (1 + target % 40, target / 40);
                    let mut flow = flow(source, target, port, ConnState::S0);
                    flow.key.port[1] += part * 1_000;
                    function.item(&Item::FlowEnd(&flow, Directions::BOTH));
                }
                assert!(function.held() <= stated.state, "{port}");
            }
            merged.merge(&function.take());
        }
        let Reading::Table(table) = merged else { panic!("a table") };
        assert!(table.rows.iter().any(|row| row.error > 0));
        for row in &table.rows {
            assert!(
                row.weight() <= 3_000 && row.weight() + row.error >= 3_000,
                "{} {}",
                row.weight(),
                row.error
            );
        }
    }
}
