//! Tests of fields over the records of the conversations in testdata: decided by the store, and by a second evaluation that
//! shares no code with it.

use super::own_tests::{store, writer};
use super::*;
use crate::RecordOrder;
use crate::fixtures;
use crate::query::Asking;
use serde_json::{Map, Value};
use std::fs;
use weir_engine::FlowRecord;
use weir_output::Output;
use weir_proto::talk::{Talk, Turn};
use weir_proto::{Expected, Out, Record, Session, Setup, Wants, is_requested};
use weir_wire::Time;
use weir_wire::stream::Chunk;

pub(super) const S: u64 = 1_000_000_000;
pub(super) const BEGIN: u64 = 1_750_000_000 * S;

#[derive(Default)]
struct Collected(Vec<Record<'static>>);

impl Out for Collected {
    fn record(&mut self, record: Record<'_>) {
        self.0.push(record.into_owned());
    }

    fn expect(&mut self, _expected: Expected) {}

    fn content(&mut self, _file: u64, _offset: u64, _bytes: &[u8]) -> bool {
        true
    }
}

/// The records of a conversation.
fn emitted(talk: &Talk, begin: u64) -> Vec<Record<'static>> {
    let setup = Setup {
        flow: 1,
        initiator: ("192.0.2.1".parse().unwrap(), talk.ports[0]),
        responder: ("198.51.100.2".parse().unwrap(), talk.ports[1]),
        ip_proto: talk.ip_proto,
        wants: Wants::default(),
    };
    let (mut session, mut records, mut gaps) = (Session::new(), Collected::default(), [0; 2]);
    let mut time = Time(begin);
    for turn in &talk.turns {
        time.0 += 1_000_000;
        match turn {
            Turn::Gap(direction, bytes) => gaps[*direction as usize] += bytes,
            Turn::Data(direction, data) => {
                let gap = std::mem::take(&mut gaps[*direction as usize]);
                let chunk = Chunk { time, direction: *direction, gap, data };
                session.chunk(&chunk, &|| setup.clone(), &mut records);
            }
        }
    }
    session.end(time, &|| setup.clone(), &mut records);
    records.0
}

/// A flow and its records, as they were written.
pub(super) struct Written {
    pub(super) flow: FlowRecord,
    services: String,
    pub(super) records: Vec<(&'static str, u64, Map<String, Value>)>,
}

/// Writes every conversation of testdata as a flow, in partitions of a few flows.
pub(super) fn write_all(folder: &Path) -> Vec<Written> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata");
    let mut talks = Vec::new();
    for entry in fs::read_dir(root).unwrap().flatten() {
        for file in fs::read_dir(entry.path()).into_iter().flatten().flatten() {
            if file.path().extension().is_some_and(|extension| extension == "talk") {
                talks.push(file.path());
            }
        }
    }
    talks.sort();
    assert!(talks.len() > 50, "{}", talks.len());
    let mut all = Vec::new();
    let mut to = writer(folder);
    for (at, path) in talks.iter().enumerate() {
        let protocol =
            path.parent().and_then(|folder| folder.file_name()).unwrap().to_string_lossy().into_owned();
        let port = weir_proto::PROTOCOLS.iter().find(|known| known.name == protocol);
        let port = port.and_then(|known| known.ports.first().copied()).unwrap_or(4444);
        let text = fs::read_to_string(path).unwrap();
        let Ok(talk) = Talk::parse(&text, [49_152, port]) else { continue };
        let begin = BEGIN + at as u64 * 60 * S;
        // What only functions see is in no store.
        let mut records = emitted(&talk, begin);
        records.retain(|record| !is_requested(record.table));
        let mut flow = fixtures::flow();
        flow.key.addr =
            [weir_wire::mapped([10, 0, 0, at as u8 % 7]), weir_wire::mapped([192, 0, 2, at as u8 % 5])];
        flow.key.port = talk.ports;
        flow.key.proto = talk.ip_proto;
        flow.first = Time(begin);
        flow.last = Time(begin + (at as u64 % 9) * S);
        flow.forward.packets = 1 + at as u64;
        flow.forward.frame_bytes = 100 * at as u64;
        flow.tcp = (talk.ip_proto == 6).then(Default::default);
        if let Some(tcp) = &mut flow.tcp {
            tcp.retransmitted = [at as u16 % 3, at as u16 % 2];
        }
        let identity = weir_output::FlowIdentity {
            key: flow.key,
            initiator_is_lower: flow.initiator_is_lower,
            first: flow.first,
            vlan: flow.vlan,
            alias: 0,
        };
        flow.id = identity.id();
        let place = weir_proto::PROTOCOLS.iter().position(|known| known.name == protocol);
        flow.services = [place.map_or(0, |place| place as u8 + 1), 0, 0, 0];
        // Records are in an earlier partition than their flow now and then.
        let mut maker = rows::Maker::default();
        for record in &records {
            to.record(&identity, record).unwrap();
        }
        if at % 7 == 3 {
            to.flush().unwrap();
            let now = flow.last.0;
            to.begin_partition(now);
        }
        to.flow(&flow).unwrap();
        let records = records.iter().map(|record| {
            let body = maker.body(record);
            (record.table.name, record.time.0, serde_json::from_str(&body).unwrap())
        });
        let records = records.collect();
        all.push(Written { flow, services: if place.is_some() { protocol } else { String::new() }, records });
    }
    to.finish().unwrap();
    all
}

/// An expression as a tree, for the second evaluation.
#[derive(Clone, Debug)]
enum Node {
    All(Vec<Node>),
    Any(Vec<Node>),
    Not(Box<Node>),
    Udp,
    Sender(u8),
    /// `table.name op value`.
    Field(&'static str, String, &'static str, String),
}

impl Node {
    fn text(&self) -> String {
        let join = |nodes: &[Node], word: &str| {
            format!("({})", nodes.iter().map(Node::text).collect::<Vec<_>>().join(word))
        };
        match self {
            Node::All(nodes) => join(nodes, " and "),
            Node::Any(nodes) => join(nodes, " or "),
            Node::Not(node) => format!("not {}", node.text()),
            Node::Udp => "udp".to_owned(),
            Node::Sender(last) => format!("src host 10.0.0.{last}"),
            Node::Field(table, name, "", _) => format!("{table}.{name}"),
            Node::Field(table, name, "in", value) => format!("{table}.{name} in ({0},{0})", quoted(value)),
            Node::Field(table, name, op, value) => format!("{table}.{name} {op} {}", quoted(value)),
        }
    }

    /// The table of all tests, if they are of one and none is negated.
    fn table(&self) -> Option<&'static str> {
        match self {
            Node::Field(table, ..) => Some(table),
            Node::All(nodes) | Node::Any(nodes) => {
                let first = nodes.first()?.table()?;
                nodes.iter().all(|node| node.table() == Some(first)).then_some(first)
            }
            _ => None,
        }
    }

    /// Whether it tells a sender from a receiver.
    fn is_directed(&self) -> bool {
        match self {
            Node::All(nodes) | Node::Any(nodes) => nodes.iter().any(Node::is_directed),
            Node::Not(node) => node.is_directed(),
            Node::Sender(_) => true,
            Node::Udp | Node::Field(..) => false,
        }
    }

    /// Whether it holds for a flow: of one that tells a sender from a receiver for a direction that has packets.
    fn holds_for_flow(&self, written: &Written) -> bool {
        let flow = &written.flow;
        let is_sent =
            |side: &weir_engine::Side, is_reverse| side.packets > 0 && self.holds(written, None, is_reverse);
        match self.is_directed() {
            true => is_sent(&flow.forward, false) || is_sent(&flow.reverse, true),
            false => self.holds(written, None, false),
        }
    }

    /// Whether it holds for a row, in a direction of its flow: for a flow, or for a record of it.
    fn holds(&self, written: &Written, record: Option<usize>, is_reverse: bool) -> bool {
        let own = record.and_then(|at| written.records.get(at)).map_or("flow", |(table, ..)| *table);
        if let Some(table) = self.table().filter(|table| *table != own) {
            return match table {
                "flow" => self.holds(written, None, is_reverse),
                _ => (0..written.records.len())
                    .any(|at| written.records[at].0 == table && self.holds(written, Some(at), is_reverse)),
            };
        }
        match self {
            Node::Any(nodes) => nodes.iter().any(|node| node.holds(written, record, is_reverse)),
            Node::Not(node) => !node.holds(written, record, is_reverse),
            Node::Udp => written.flow.key.proto == 17,
            Node::Sender(last) => {
                let flow = &written.flow;
                let sender = if is_reverse { flow.responder() } else { flow.initiator() };
                sender.0 == weir_wire::mapped([10, 0, 0, *last])
            }
            Node::Field(_, name, op, value) => {
                let values = match record {
                    None => written.flow_values(name),
                    Some(at) => leaves(written.records[at].2.get(name.as_str())),
                };
                decide(&values, op, value)
            }
            // Tests of another table in a conjunction hold for one and the same row.
            Node::All(nodes) => {
                let mut tables: Vec<&str> =
                    nodes.iter().filter_map(Node::table).filter(|table| *table != own).collect();
                tables.sort_unstable();
                tables.dedup();
                let apart = nodes.iter().filter(|node| node.table().is_none_or(|table| table == own));
                apart.clone().all(|node| node.holds(written, record, is_reverse))
                    && tables.iter().all(|table| {
                        let of: Vec<Node> =
                            nodes.iter().filter(|node| node.table() == Some(*table)).cloned().collect();
                        match *table {
                            "flow" => of.iter().all(|node| node.holds(written, None, is_reverse)),
                            _ => (0..written.records.len()).any(|at| {
                                written.records[at].0 == *table
                                    && of.iter().all(|node| node.holds(written, Some(at), is_reverse))
                            }),
                        }
                    })
            }
        }
    }
}

impl Written {
    fn flow_values(&self, name: &str) -> Vec<Value> {
        let flow = &self.flow;
        let number = |number: u64| vec![Value::from(number)];
        match name {
            "bytes" => number(flow.forward.frame_bytes + flow.reverse.frame_bytes),
            "packets" => number(flow.forward.packets + flow.reverse.packets),
            "server_port" => number(flow.responder().1.into()),
            "duration" => vec![Value::from((flow.last.0 - flow.first.0) as f64 / 1e9)],
            "service" if self.services.is_empty() => Vec::new(),
            "service" => vec![Value::from(self.services.clone())],
            "retransmitted" => flow
                .tcp
                .map_or(Vec::new(), |tcp| number(tcp.retransmitted.iter().map(|n| u64::from(*n)).sum())),
            other => panic!("{other}"),
        }
    }
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

pub(super) fn leaves(value: Option<&Value>) -> Vec<Value> {
    match value {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Array(values)) => values.iter().flat_map(|value| leaves(Some(value))).collect(),
        Some(Value::Object(members)) => members.values().flat_map(|value| leaves(Some(value))).collect(),
        Some(value) => vec![value.clone()],
    }
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.to_ascii_lowercase(),
        other => other.to_string(),
    }
}

fn decide(values: &[Value], op: &str, wanted: &str) -> bool {
    let wanted = wanted.to_ascii_lowercase();
    let equals = |value: &Value| match (value.as_f64(), wanted.parse::<f64>()) {
        (Some(found), Ok(number)) => found == number,
        _ => plain(value) == wanted,
    };
    let order = |value: &Value| match (value.as_f64(), wanted.parse::<f64>()) {
        (Some(found), Ok(number)) => found.partial_cmp(&number),
        _ => Some(plain(value).as_bytes().cmp(wanted.as_bytes())),
    };
    match op {
        "" => !values.is_empty(),
        "!=" => !values.is_empty() && !values.iter().any(equals),
        "=" | "in" => values.iter().any(equals),
        "<" => values.iter().any(|value| order(value).is_some_and(|order| order.is_lt())),
        ">=" => values.iter().any(|value| order(value).is_some_and(|order| order.is_ge())),
        "contains" | "~" => values.iter().any(|value| plain(value).contains(&wanted)),
        "begins" => values.iter().any(|value| plain(value).starts_with(&wanted)),
        "ends" => values.iter().any(|value| plain(value).ends_with(&wanted)),
        other => panic!("{other}"),
    }
}

/// Makes expressions from stored values.
struct Maker<'w> {
    state: u64,
    written: &'w [Written],
}

impl Maker<'_> {
    fn pick(&mut self, below: usize) -> usize {
        // SplitMix64.
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % below.max(1) as u64) as usize
    }

    fn node(&mut self, depth: usize) -> Node {
        match self.pick(if depth == 0 { 6 } else { 10 }) {
            0 => Node::Udp,
            1 => Node::Sender(self.pick(8) as u8),
            2 => self.flow_field(),
            3..=5 => self.record_field(),
            6 => Node::Not(Box::new(self.node(depth - 1))),
            7 | 8 => Node::All((0..2 + self.pick(2)).map(|_| self.node(depth - 1)).collect()),
            _ => Node::Any((0..2 + self.pick(2)).map(|_| self.node(depth - 1)).collect()),
        }
    }

    fn flow_field(&mut self) -> Node {
        let names = ["bytes", "packets", "server_port", "duration", "service", "retransmitted"];
        let name = names[self.pick(names.len())];
        let (from, which) = (self.pick(self.written.len()), self.pick(4));
        let value = self.written[from].flow_values(name).first().map_or("0".to_owned(), plain);
        let op = if name == "service" { ["=", "!=", "", "in"][which] } else { ["=", "!=", "<", ">="][which] };
        Node::Field("flow", name.to_owned(), op, value)
    }

    fn record_field(&mut self) -> Node {
        loop {
            let written = &self.written[self.pick(self.written.len())];
            if written.records.is_empty() {
                continue;
            }
            let (table, _, values) = &written.records[self.pick(written.records.len())];
            let name = values.keys().nth(self.pick(values.len())).cloned();
            let Some(name) = name else { continue };
            let found = leaves(values.get(&name));
            let which = self.pick(found.len());
            let Some(value) = found.get(which) else { continue };
            let is_text = value.is_string() && !is_address(table, &name);
            let text = match value {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            let op = match (value, is_text) {
                (Value::Bool(_), _) => ["=", "!=", "", "="][self.pick(4)],
                (Value::Number(_), _) => ["=", "!=", "<", ">=", "in", ""][self.pick(6)],
                (_, false) => ["=", "!="][self.pick(2)],
                (_, true) => ["=", "!=", "<", ">=", "contains", "begins", "ends", "~"][self.pick(8)],
            };
            // Expressions have their own characters, and one kind of value does not go with another.
            if text.chars().any(char::is_control) || op == "in" && text.contains(['(', ')']) {
                continue;
            }
            let text = match op {
                "contains" | "begins" | "ends" | "~" => self.part(&text, op),
                _ => text,
            };
            return Node::Field(table, name, op, text);
        }
    }

    /// A part of a text that an operator finds in it, most often.
    fn part(&mut self, text: &str, op: &str) -> String {
        let chars: Vec<char> = text.chars().collect();
        let (from, length) = (self.pick(chars.len()), self.pick(6));
        let part: String = match op {
            "begins" => chars.iter().take(length).collect(),
            "ends" => chars.iter().skip(chars.len().saturating_sub(length)).collect(),
            _ => chars.iter().skip(from).take(length).collect(),
        };
        // A pattern of letters and digits means itself.
        if op == "~" { part.chars().filter(char::is_ascii_alphanumeric).collect() } else { part }
    }
}

fn is_address(table: &str, name: &str) -> bool {
    let mut fields = crate::fields::tables(table).flat_map(|table| table.fields);
    fields.any(|field| {
        let text = format!("{:?}", field.kind);
        field.name == name && text.contains("Address") && !text.contains("Rows")
    })
}

pub(super) fn test_of(text: &str) -> FlowTest {
    Asking::default().test(text).unwrap_or_else(|error| panic!("{error}"))
}

/// Random expressions over every conversation: the flows that the store finds, and the records of a table, are those of the
/// second evaluation.
#[test]
fn the_store_finds_what_a_second_evaluation_finds() {
    let folder = tempfile::tempdir().unwrap();
    let written = write_all(folder.path());
    let store = store(folder.path());
    assert!(store.parts(TimeRange::default()).unwrap().len() > 3);
    let mut maker = Maker { state: 15, written: &written };
    let (mut found_some, mut fields) = (0, 0);
    for _ in 0..600 {
        let node = maker.node(2);
        let text = node.text();
        let test = test_of(&text);
        test.fields(&mut |_| fields += 1);
        let flows =
            store.flows(&FlowsWanted { limit: 1000, ..crate::suite::wanted_of(test.clone()) }).unwrap();
        let mut found: Vec<String> = flows.rows.into_iter().map(|row| row.uid).collect();
        let truth = written.iter().filter(|written| node.holds_for_flow(written));
        let mut truth: Vec<String> = truth.map(|written| weir_output::row::uid(written.flow.id)).collect();
        found.sort();
        truth.sort();
        assert_eq!(found, truth, "flows where {text}");
        found_some += usize::from(!truth.is_empty() && truth.len() < written.len());
        let table = written[maker.pick(written.len())].records.first().map_or("dns", |(table, ..)| *table);
        let records = store
            .records(&RecordsWanted {
                table: table.to_owned(),
                test,
                text: String::new(),
                payload: true,
                span: TimeRange::default(),
                order: RecordOrder::Time,
                descending: true,
                limit: 0,
                offset: 0,
            })
            .unwrap();
        let truth: usize = written
            .iter()
            .map(|written| {
                let own = (0..written.records.len()).filter(|at| written.records[*at].0 == table);
                own.filter(|at| node.holds(written, Some(*at), false)).count()
            })
            .sum();
        assert_eq!(records.matched, truth as u64, "records {table} where {text}");
    }
    assert!(found_some > 100 && fields > 500, "{found_some} expressions, {fields} tests");
}

/// Records are read in the order of any field, complete, and those without a value last; pages of them are parts of one order.
#[test]
fn records_are_sorted_by_every_field() {
    let folder = tempfile::tempdir().unwrap();
    let written = write_all(folder.path());
    let store = store(folder.path());
    let read = |table: &str, order: RecordOrder, descending: bool, limit: usize, offset: usize| {
        let wanted = RecordsWanted {
            table: table.to_owned(),
            test: FlowTest::All(Vec::new()),
            text: String::new(),
            payload: true,
            span: TimeRange::default(),
            order,
            descending,
            limit,
            offset,
        };
        store.records(&wanted).unwrap()
    };
    let mut tables: Vec<&str> =
        written.iter().flat_map(|written| written.records.iter().map(|(table, ..)| *table)).collect();
    tables.sort_unstable();
    tables.dedup();
    let mut sorted = 0;
    for table in tables {
        let all = written.iter().flat_map(|written| &written.records).filter(|(of, ..)| *of == table);
        let all: Vec<&Map<String, Value>> = all.map(|(_, _, values)| values).collect();
        let names: Vec<&'static str> =
            crate::fields::tables(table).flat_map(|table| table.fields).map(|field| field.name).collect();
        for (name, descending) in names.into_iter().flat_map(|name| [(name, false), (name, true)]) {
            let order = RecordOrder::Field(name);
            let answer = read(table, order, descending, 10_000, 0);
            assert_eq!(
                (answer.matched as usize, answer.rows.len()),
                (all.len(), all.len()),
                "{table}.{name}"
            );
            let values: Vec<Vec<Value>> =
                answer.rows.iter().map(|row| leaves(row.values.get(name))).collect();
            let of_truth = all.iter().map(|values| leaves(values.get(name)));
            let text = |values: &Vec<Value>| values.first().map(plain);
            let (mut found, mut truth): (Vec<_>, Vec<_>) =
                (values.iter().map(text).collect(), of_truth.map(|values| text(&values)).collect());
            found.sort();
            truth.sort();
            assert_eq!(found, truth, "{table}.{name}");
            for pair in values.windows(2) {
                let [first, second] = pair else { unreachable!() };
                let is_in_order = match (first.first(), second.first()) {
                    (_, None) => true,
                    (None, Some(_)) => false,
                    (Some(a), Some(b)) => {
                        let order = match (a.as_f64(), b.as_f64()) {
                            (Some(a), Some(b)) => a.total_cmp(&b),
                            // Texts are sorted by their first bytes.
                            _ => {
                                let first = |value| plain(value).bytes().take(128).collect::<Vec<u8>>();
                                first(a).cmp(&first(b))
                            }
                        };
                        if descending { order.is_ge() } else { order.is_le() }
                    }
                };
                assert!(is_in_order, "{table}.{name} {descending}: {first:?} before {second:?}");
            }
            sorted += 1;
            if all.len() > 4 {
                let page = read(table, order, descending, 2, 1);
                let part: Vec<Vec<Value>> =
                    page.rows.iter().map(|row| leaves(row.values.get(name))).collect();
                assert_eq!(part, values[1..3], "{table}.{name}");
            }
        }
        let times = |descending| {
            let rows = read(table, RecordOrder::Time, descending, 10_000, 0).rows;
            rows.iter().map(|row| row.time).collect::<Vec<_>>()
        };
        let (mut up, down) = (times(false), times(true));
        assert!(up.is_sorted(), "{table}");
        up.reverse();
        assert_eq!(up, down, "{table}");
    }
    assert!(sorted > 200, "{sorted}");
}
