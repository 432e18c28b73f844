//! Tests of fields over records of DNS and HTTP: what they add to parsing these records, and what a list of many names
//! adds to one of few.

use crate::Result;
use crate::clock::{median, timed};
use serde_json::json;
use std::hint::black_box;
use weir_bench::random::Random;
use weir_engine::FlowIdentity;
use weir_engine::fields::{RecordView, endpoints, find, names, tables};
use weir_filter::fields::{FieldInfo, Fields};
use weir_filter::{Matches, Options, RecordSet, RecordTest};
use weir_proto::{Expected, Out, Record, Session, Setup, Wants};
use weir_wire::stream::Chunk;
use weir_wire::{Direction, FlowKey, Space, Time, mapped};

/// Tests in the set.
const TESTS: usize = 100;
/// Names in the short and the long list.
const LISTS: [usize; 2] = [10, 100_000];
/// Names that are asked for, most of which no list has.
const NAMES: usize = 20_000;

/// The fields of all tables, and a list of as many names as its path says.
struct Known;

impl Fields for Known {
    fn tables(&self) -> Vec<&'static str> {
        tables()
    }

    fn names(&self, table: &str) -> Vec<&'static str> {
        names(table)
    }

    fn find(&self, table: &str, name: &str) -> std::result::Result<Option<FieldInfo>, String> {
        Ok(find(table, name).map(|(info, _)| info))
    }

    fn time(&self, _text: &str) -> std::result::Result<f64, String> {
        Err("no time".to_owned())
    }

    fn list(&self, path: &str) -> std::result::Result<Vec<u8>, String> {
        let count: usize = path.parse().map_err(|_| "no number".to_owned())?;
        let names: Vec<String> = (0..count).map(|at| format!("listed{at}.example.net")).collect();
        Ok(names.join("\n").into_bytes())
    }
}

/// Keeps records, or counts them.
#[derive(Default)]
struct Records {
    kept: Option<Vec<Record<'static>>>,
    count: u64,
}

impl Out for Records {
    fn record(&mut self, record: Record<'_>) {
        self.count += 1;
        if let Some(kept) = &mut self.kept {
            kept.push(record.into_owned());
        }
    }

    fn expect(&mut self, _: Expected) {}

    fn content(&mut self, _file: u64, _offset: u64, _bytes: &[u8]) -> bool {
        true
    }
}

/// A name that is asked for.
fn name(random: &mut Random) -> String {
    format!("host{}.example{}.org", random.rank(NAMES), random.bits() % 100)
}

/// A question and its answer (RFC 1035, section 4).
fn dns(random: &mut Random) -> [Vec<u8>; 2] {
    let mut question = Vec::new();
    for label in name(random).split('.') {
        question.push(label.len() as u8);
        question.extend_from_slice(label.as_bytes());
    }
    question.extend_from_slice(&[0, 0, 1, 0, 1]);
    let rcode = if random.bits().is_multiple_of(10) { 3 } else { 0 };
    let id = (random.bits() as u16).to_be_bytes();
    let head = |flags: [u8; 2], answers| [id[0], id[1], flags[0], flags[1], 0, 1, 0, answers, 0, 0, 0, 0];
    let asked = [&head([1, 0], 0), question.as_slice()].concat();
    let answer = [0xc0, 12, 0, 1, 0, 1, 0, 0, 1, 44, 0, 4, 192, 0, 2, random.bits() as u8];
    let answered = match rcode {
        0 => [&head([0x81, 0x80], 1), question.as_slice(), &answer].concat(),
        _ => [&head([0x81, 0x83], 0), question.as_slice()].concat(),
    };
    [asked, answered]
}

/// A request and its response (RFC 9112).
fn http(random: &mut Random) -> [Vec<u8>; 2] {
    let status =
        ["200 OK", "200 OK", "404 Not Found", "500 Internal Server Error"][random.bits() as usize % 4];
    let request = format!(
        "GET /path/page{}?q={} HTTP/1.1\r\nHost: {}\r\nUser-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:120.0)\r\nAccept: */*\r\n\r\n",
        random.bits() % 1000,
        random.bits() % 1000,
        name(random)
    );
    let response = format!(
        "HTTP/1.1 {status}\r\nServer: nginx\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\nhello"
    );
    [request.into_bytes(), response.into_bytes()]
}

/// Parses a conversation of its own flow for each request.
fn parse(turns: &[[Vec<u8>; 2]], port: u16, ip_proto: u8, out: &mut Records) {
    let [client, server] = [[10, 0, 0, 7], [192, 0, 2, 9]].map(std::net::IpAddr::from);
    let wants = Wants::default();
    let setup = || Setup { flow: 1, initiator: (client, 40_000), responder: (server, port), ip_proto, wants };
    for (at, pair) in turns.iter().enumerate() {
        let (mut session, time) = (Session::new(), Time(1_750_000_000_000_000_000 + at as u64 * 1_000_000));
        for (data, direction) in pair.iter().zip([Direction::Forward, Direction::Reverse]) {
            session.chunk(&Chunk { time, direction, gap: 0, data }, &setup, out);
        }
        session.end(time, &setup, out);
    }
}

/// As many tests as a busy configuration has, of all operators.
fn tests(protocol: &str) -> Vec<String> {
    let fields = match protocol {
        "dns" => ["dns.query", "dns.rcode_name", "dns.type_name", "dns.answers", "dns.rtt"],
        _ => ["http.host", "http.uri", "http.user_agent", "http.method", "http.status_code"],
    };
    (0..TESTS)
        .map(|at| match at % 10 {
            0..=3 => format!("{} = host{at}.example{at}.org and net 10.0.0.0/8", fields[0]),
            4 | 5 => format!("{} under example{at}.org", fields[0]),
            6 => format!("{} in (host{at}.example1.org, host{at}.example2.org)", fields[0]),
            7 => format!("{} = word{} or {} = word{at}", fields[1], at % 30, fields[2]),
            8 => format!("{} contains word{at}", fields[3]),
            _ => format!("{} > {}", fields[4], 450 + at % 20),
        })
        .collect()
}

fn compile(text: &str) -> Result<RecordTest> {
    Ok(RecordTest::compile(text, &Options { fields: Some(&Known), ..Options::default() })?)
}

/// The records of a protocol, and their flow.
struct Input {
    records: Vec<Record<'static>>,
    flow: FlowIdentity,
}

impl Input {
    /// Evaluates a set on all records; the number of matches.
    fn run(&self, set: &RecordSet) -> u64 {
        let (mut matches, mut count) = (Matches::default(), 0);
        for record in &self.records {
            let view = RecordView { endpoints: endpoints(&self.flow), record };
            count += set.matches(&view, &mut matches).len() as u64;
        }
        count
    }

    /// Evaluates each test alone.
    fn each(&self, tests: &[RecordTest]) -> u64 {
        let hits = |record: &Record<'static>| {
            let view = RecordView { endpoints: endpoints(&self.flow), record };
            tests.iter().filter(|test| test.holds(&view)).count() as u64
        };
        self.records.iter().map(hits).sum()
    }
}

/// Measures and prints the rows.
pub fn measure(count: usize, rounds: u32, seed: u64) -> Result<()> {
    for (protocol, port, ip_proto) in [("dns", 53, 17), ("http", 80, 6)] {
        let mut random = Random(seed);
        let make = if protocol == "dns" { dns } else { http };
        let turns: Vec<[Vec<u8>; 2]> = (0..count).map(|_| make(&mut random)).collect();
        let mut kept = Records { kept: Some(Vec::new()), count: 0 };
        parse(&turns, port, ip_proto, &mut kept);
        let records: Vec<Record<'static>> = kept.kept.unwrap_or_default();
        if records.iter().filter(|record| record.table.name == protocol).count() != count {
            return Err(format!("{count} conversations of {protocol} have {} records", records.len()).into());
        }
        let key = FlowKey {
            addr: [[10, 0, 0, 7], [192, 0, 2, 9]].map(mapped),
            port: [40_000, port],
            space: Space::default(),
            proto: ip_proto,
        };
        let flow = FlowIdentity { key, initiator_is_lower: true, first: Time(0), vlan: [0; 2], alias: 0 };
        let input = Input { records, flow };
        let tests: Vec<RecordTest> =
            tests(protocol).iter().map(|text| compile(text)).collect::<Result<_>>()?;
        let set = RecordSet::new(&tests);
        if input.run(&set) != input.each(&tests) {
            return Err(format!("the set of {protocol} is not each of its tests").into());
        }
        let field = if protocol == "dns" { "dns.query" } else { "http.host" };
        let lists: Vec<RecordSet> = LISTS
            .iter()
            .map(|count| Ok(RecordSet::new([&compile(&format!("{field} in @{count}"))?])))
            .collect::<Result<_>>()?;
        let mut taken: [Vec<f64>; 5] = Default::default();
        for _ in 0..rounds {
            let all = input.records.len() as f64;
            let spent = [
                timed(|| parse(&turns, port, ip_proto, black_box(&mut Records::default()))),
                timed(|| _ = black_box(input.run(&set))),
                timed(|| _ = black_box(input.each(&tests))),
                timed(|| _ = black_box(input.run(&lists[0]))),
                timed(|| _ = black_box(input.run(&lists[1]))),
            ];
            taken.iter_mut().zip(spent).for_each(|(taken, spent)| taken.push(spent as f64 / all));
        }
        let [parsed, together, alone, short, long] = taken.map(median);
        let row = json!({
            "protocol": protocol, "records": input.records.len(), "tests": TESTS, "parsed": parsed,
            "together": together, "alone": alone, "lists": LISTS, "short": short, "long": long,
        });
        println!("{row}");
    }
    Ok(())
}
