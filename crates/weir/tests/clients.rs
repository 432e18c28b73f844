//! Subscriptions of clients over HTTP on a live link: what each counts is what a count over the dump of its own time has, and
//! no other client sees it. Needs root and ip(8); otherwise each test is skipped, with the reason.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod support;

use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Child;
use support::http::*;
use support::net::*;
use support::random::Random;
use support::*;
use weir_capture::{Files, Input, ReadOptions};
use weir_wire::{Packet, PacketBuf};

/// Runs in a namespace, in a separate process.
#[test]
#[ignore = "run by the other tests, in a namespace"]
fn sender() {
    send_unsegmented();
}

/// Whether an expression selects a packet.
type Holds = fn(&Seen) -> bool;

/// Expressions, each with what it selects of the packets of a test by their protocol, destination port and length.
const EXPRESSIONS: [(&str, Holds); 8] = [
    ("", |_| true),
    ("udp", |seen| seen.is_udp),
    ("tcp", |_| false),
    ("udp dst port 9", |seen| seen.is_udp && seen.port == 9),
    ("not udp dst port 9", |seen| !(seen.is_udp && seen.port == 9)),
    ("udp and greater 1000", |seen| seen.is_udp && seen.length >= 1000),
    ("udp and less 999", |seen| seen.is_udp && seen.length <= 999),
    ("src host 10.77.0.1 and udp dst port 10", |seen| seen.is_udp && seen.port == 10),
];

/// Functions whose readings have a sum of packets or bytes.
const FUNCTIONS: [&str; 4] = ["packets", "bytes", "top source rows 64", "top flow show 3 rows 64"];

/// A packet of the dump.
struct Seen {
    /// Nanoseconds since the epoch.
    time: u64,
    length: u64,
    is_udp: bool,
    /// Destination port.
    port: u16,
}

/// The packets of a dump; those that the link carries besides the test's are no IPv4.
fn dump(path: &Path) -> Vec<Seen> {
    let seen = |packet: Packet<'_>| {
        let udp = packet.data.get(12..14) == Some(&[8, 0]) && packet.data.get(23) == Some(&17);
        let port = packet.data.get(36..38).map_or(0, |port| u16::from_be_bytes([port[0], port[1]]));
        Seen { time: packet.time.0, length: packet.wire_len.into(), is_udp: udp, port }
    };
    let mut files = Files::open(&[Input::Path(path.to_owned())], &ReadOptions::default()).unwrap();
    let (mut all, mut chunk) = (Vec::new(), PacketBuf::default());
    while files.fill(&mut chunk).unwrap() {
        all.extend(chunk.batch().packets().map(seen));
        chunk = PacketBuf::default();
    }
    all
}

/// A request of the namespace in which it runs.
fn request(host: &str, method: &str, path: &str, token: &str, body: &str) -> (u16, Value) {
    let mut stream = TcpStream::connect(host).unwrap();
    let length = body.len();
    let authorization = match token {
        "" => String::new(),
        token => format!("Authorization: Bearer {token}\r\n"),
    };
    let text = format!(
        "{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{authorization}\
         Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
    );
    stream.write_all(text.as_bytes()).unwrap();
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    let answer = Answer::parse(&bytes);
    (answer.status, serde_json::from_str(&answer.text()).unwrap_or(Value::Null))
}

/// The text of a subscription.
fn subscription(name: &str, condition: &str, function: &str) -> String {
    json!({"text": format!(
        "[[subscription]]\nname = \"{name}\"\nwhere = '{condition}'\nfunctions = [\"{function}\"]\n"
    )})
    .to_string()
}

/// Adds and removes subscriptions at random, and prints each with what it asked and its whole answer.
#[test]
#[ignore = "run by the other tests, in a namespace"]
fn changer() {
    let Ok(order) = std::env::var("WEIR_CHANGE") else { return };
    let order: Value = serde_json::from_str(&order).unwrap();
    let host = order["host"].as_str().unwrap().to_owned();
    let ask = |method: &str, path: &str, body: &str| request(&host, method, path, "", body);
    let mut random = Random(order["seed"].as_u64().unwrap());
    let mut open: Vec<(u64, usize, usize)> = Vec::new();
    let mut closed = Vec::new();
    for _ in 0..order["changes"].as_u64().unwrap() {
        if open.is_empty() || open.len() < 40 && random.below(2) == 0 {
            let (at, function) = (random.below(EXPRESSIONS.len()), random.below(FUNCTIONS.len()));
            let body = subscription("x", EXPRESSIONS[at].0, FUNCTIONS[function]);
            let (status, answer) = ask("POST", "/api/v1/subscriptions", &body);
            assert_eq!(status, 200, "{answer}");
            open.push((answer["ids"][0].as_u64().unwrap(), at, function));
        } else {
            let one = open.swap_remove(random.below(open.len()));
            let (status, answer) = ask("DELETE", &format!("/api/v1/subscriptions/{}", one.0), "");
            assert_eq!(status, 200, "{answer}");
            closed.push(one);
        }
    }
    for one in open.drain(..) {
        ask("DELETE", &format!("/api/v1/subscriptions/{}", one.0), "");
        closed.push(one);
    }
    for (id, at, function) in closed {
        let mut answer = Value::Null;
        let is_complete = eventually(|| {
            answer = ask("GET", &format!("/api/v1/subscriptions/{id}"), "").1;
            answer["complete"] == true
        });
        assert!(is_complete, "{answer}");
        println!("asked: {}", json!({"expression": at, "function": function, "answer": answer}));
    }
}

/// Packets and bytes of the reading of a function; what a list left out is in its sums.
fn sums(answer: &Value) -> (Option<u64>, Option<u64>) {
    let total = &answer["answers"][0]["total"];
    let of = |unit: &str| match total["rows"].as_array() {
        Some(rows) => {
            let rows: Option<u64> = rows.iter().map(|row| row[unit].as_u64()).sum();
            Some(rows? + total["shed"][unit].as_u64()?)
        }
        None => total[unit].as_u64(),
    };
    (of("packets"), of("bytes"))
}

/// Runs changes while packets cross the link, and compares. Packets of the dump that the queue had no room for are counted:
/// then there is nothing to compare with.
fn changes_while_packets_pass(changes: u64, packets: u64, pause: u64, workers: &str) {
    let Some(net) = Net::new() else { return };
    net.ip(&net.there, &["link", "set", "lo", "up"]);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("dump.pcapng");
    let port = port().to_string();
    let arguments =
        ["serve", "-i", "far", "--port", &port, "-w", text(&file), "--workers", workers, "-n", "-j"];
    let server = Server::start(&mut net.weir(&arguments));
    let order = json!({"host": server.host(), "changes": changes, "seed": 7 + changes}).to_string();
    let mut command = net.test(&net.there, "changer");
    command.env("WEIR_CHANGE", order);
    let sender: Child = net.begin_to_send(packets, pause);
    let changer = start(&mut command);
    let ran = finish(changer).exits(0);
    Net::sent(sender);
    let (code, _) = server.end();
    assert_eq!(code, Some(130));
    let dump = dump(&file);
    let printed = ran.text();
    let asked: Vec<Value> = printed
        .lines()
        .filter_map(|line| line.split_once("asked: "))
        .map(|(_, answer)| serde_json::from_str(answer).unwrap())
        .collect();
    assert!(asked.len() as u64 >= changes / 3, "{} of {changes}", asked.len());
    let (mut equal, mut with_packets) = (0, 0);
    for one in &asked {
        let (expression, holds) = EXPRESSIONS[one["expression"].as_u64().unwrap() as usize];
        let answer = &one["answer"];
        let nanoseconds = |key: &str| (answer[key].as_f64().unwrap() * 1e6).round() as u64 * 1_000;
        let (from, until) = (nanoseconds("from"), nanoseconds("until"));
        let within = dump.iter().filter(|seen| (from..until).contains(&seen.time) && holds(seen));
        let (packets, bytes) = within.fold((0, 0), |(n, bytes), seen| (n + 1, bytes + seen.length));
        let (counted, counted_bytes) = sums(answer);
        assert!(counted.is_some() || counted_bytes.is_some(), "{answer}");
        assert_eq!(counted.unwrap_or(packets), packets, "{expression}: {answer}");
        assert_eq!(counted_bytes.unwrap_or(bytes), bytes, "{expression}: {answer}");
        // It is complete: what was asked is what is answered, and all of it was watched.
        let basis = &answer["answers"][0]["basis"];
        let times = json!([answer["from"], answer["until"]]);
        assert_eq!((&basis["asked"], &basis["range"]), (&times, &times), "{answer}");
        let length = (until - from) as f64 / 1e9;
        assert!((basis["watched"].as_f64().unwrap() - length).abs() < 2e-6, "{length}: {answer}");
        assert_eq!((&basis["source"], &basis["bound"]), (&json!("cells"), &json!(0)), "{answer}");
        equal += 1;
        with_packets += usize::from(packets > 0);
    }
    println!(
        "clients: {equal} of {} subscriptions equal a count over the dump, {with_packets} with packets",
        asked.len()
    );
    assert!(with_packets > 0, "no subscription saw a packet");
}

#[test]
fn what_a_client_counts_is_what_the_dump_has() {
    for workers in ["1", "2"] {
        changes_while_packets_pass(120, 60_000, 2_000, workers);
    }
}

/// The basis of each reading of a subscription that is there: its own time, up to the last whole second.
fn check_basis(one: &Value) {
    let number = |value: &Value| value.as_f64().unwrap();
    let [answer] = one["answers"].as_array().unwrap().as_slice() else { panic!("{one}") };
    let (basis, from, summed) = (&answer["basis"], number(&one["from"]), number(&one["summed"]));
    assert_eq!(basis["range"], json!([from, summed]), "{one}");
    assert_eq!(number(&basis["asked"][0]), from, "{one}");
    assert!(number(&basis["asked"][1]) >= summed, "{one}");
    assert!((number(&basis["watched"]) - (summed - from)).abs() < 2e-6, "{one}");
    assert_eq!(answer["partial"], "the interval under way is not counted yet", "{one}");
    let latest = &answer["latest"];
    let (basis, start, end) = (&latest["basis"], number(&latest["start"]), number(&latest["end"]));
    assert_eq!(basis["asked"], json!([start, end]), "{one}");
    assert_eq!(basis["range"], json!([start.max(from), end]), "{one}");
    assert!((number(&basis["watched"]) - (end - start.max(from))).abs() < 2e-6, "{one}");
    assert_eq!((&latest["partial"], &basis["bound"]), (&Value::Null, &json!(0)), "{one}");
}

/// A client sees its own subscriptions, within its rights and limits; outputs, lists, metrics and other clients see nothing.
#[test]
fn a_client_alone_has_its_answers() {
    let Some(net) = Net::new() else { return };
    net.ip(&net.there, &["link", "set", "lo", "up"]);
    let folder = tempfile::tempdir().unwrap();
    let lines = b"looker-looker-looker-1 lou look\nwriter-writer-writer-1 ann look,write\n\
                  packer-packer-packer-1 bob look,write,packets\n";
    let tokens = put_private(folder.path(), "tokens", lines);
    let port = port().to_string();
    let logs = folder.path().join("logs");
    let all = ["serve", "-i", "far", "--port", &port, "--token-file", text(&tokens), "--interval", "1s"];
    let server = Server::start(&mut net.weir(&[&all[..], &["-o", text(&logs), "--log", "ndjson"]].concat()));
    let requests = std::cell::RefCell::new(Vec::new());
    let ask = |token: &str, method: &str, path: &str, body: &str| -> (u64, Value) {
        let order =
            json!({"host": server.host(), "token": token, "method": method, "path": path, "body": body});
        requests.borrow_mut().push(path.to_owned());
        let mut command = net.test(&net.there, "one_request");
        let ran = run(command.env("WEIR_ASK", order.to_string())).exits(0);
        let answer = ran.text();
        let line = answer.lines().find_map(|line| line.split_once("answer: ")).unwrap().1.to_owned();
        let answer: Value = serde_json::from_str(&line).unwrap();
        (answer["status"].as_u64().unwrap(), answer["body"].clone())
    };
    let (lou, ann, bob) = ("looker-looker-looker-1", "writer-writer-writer-1", "packer-packer-packer-1");
    let path = "/api/v1/subscriptions";
    let secret = subscription("the secret of ann", "udp", "top source");
    assert_eq!(ask(lou, "POST", path, &secret).0, 403);
    let (status, added) = ask(ann, "POST", path, &secret);
    assert_eq!(status, 200, "{added}");
    let one = format!("{path}/{}", added["ids"][0]);
    let sent = net.send(500);
    let counted = || sums(&ask(ann, "GET", &one, "").1).0;
    assert!(eventually(|| counted() == Some(sent)), "{:?} of {sent}", counted());
    let (_, whole) = ask(ann, "GET", path, "");
    assert_eq!(whole["subscriptions"].as_array().unwrap().len(), 1, "{whole}");
    check_basis(&whole["subscriptions"][0]);
    check_basis(&ask(ann, "GET", &one, "").1);
    assert_eq!(whole["subscriptions"][0]["answers"][0]["total"]["rows"][0]["label"], "10.77.0.1", "{whole}");
    // Others.
    for other in [lou, bob] {
        assert_eq!(ask(other, "GET", path, "").1, json!({"subscriptions": []}));
        assert_eq!(ask(other, "GET", &one, "").0, 404);
    }
    assert_eq!(ask(bob, "DELETE", &one, "").0, 404);
    for route in ["/api/v1/tables", "/api/v1/lists", "/api/v1/charts", "/api/v1/series", "/metrics"] {
        let (_, answer) = ask(lou, "GET", route, "");
        assert!(!answer.to_string().contains("secret of ann"), "{route}: {answer}");
    }
    // What a client may not have.
    let text = |lines: &str| json!({"text": lines}).to_string();
    let subscribed = |lines: &str| text(&format!("[[subscription]]\nname = \"x\"\n{lines}\n"));
    for (body, status, says) in [
        (text("interval = \"1s\"\n"), 400, "unknown key"),
        (text(""), 400, "no subscription"),
        (subscribed("functions = [\"nothing\"]"), 400, "line 3"),
        (subscribed("functions = [\"packets\"]\noutputs = [\"csv\"]"), 400, "alone"),
        (subscribed("chain = [\"write to x.pcap\"]"), 400, "write"),
        (subscribed("chain = [\"packets\", \"event much above 1\"]"), 400, "event"),
        (subscribed("level = \"record\"\nchain = [\"log x\"]"), 400, "log"),
        (subscribed("level = \"record\"\nchain = [\"top http.cookie\"]"), 403, "cookie"),
        (
            subscribed("level = \"record\"\nwhere = 'http.cookie contains x'\nchain = [\"packets\"]"),
            400,
            "cookie",
        ),
        (subscribed("level = \"stream\"\nchain = [\"packets\"]"), 403, "packets"),
        (subscribed("where = 'src net in @/etc/shadow'\nchain = [\"packets\"]"), 400, ""),
        (
            subscribed("chain = [\"top source rows 1048576\"]")
                .replace("name = \\\"x\\\"", "name = \\\"y\\\""),
            429,
            "at most",
        ),
    ] {
        let (found, answer) = ask(ann, "POST", path, &body);
        assert_eq!(found, status, "{body}: {answer}");
        assert!(answer.to_string().contains(says), "{body}: {answer}");
        assert!(!answer.to_string().contains("root:"), "{answer}");
    }
    // Who has the right to payload may count its fields.
    let of_cookies = subscribed("level = \"record\"\nchain = [\"top http.cookie\"]");
    assert_eq!(ask(bob, "POST", path, &of_cookies).0, 200);
    assert_eq!(ask(ann, "GET", path, "").1["subscriptions"].as_array().unwrap().len(), 1);
    // It is removed, and its answer stays for a while.
    let (status, removed) = ask(ann, "DELETE", &one, "");
    assert_eq!(status, 200, "{removed}");
    assert_eq!(ask(ann, "DELETE", &one, "").0, 404);
    net.send(100);
    assert!(eventually(|| ask(ann, "GET", &one, "").1["complete"] == true));
    assert_eq!(sums(&ask(ann, "GET", &one, "").1).0, Some(sent));
    let (code, summary) = server.end();
    assert_eq!(code, Some(130));
    let log = std::fs::read_to_string(logs.join("weir.ndjson")).unwrap();
    assert!(log.contains("\"subscription\":\"talkers\""), "the log has answers of the run");
    assert!(!log.contains("secret of ann") && !summary.contains("secret of ann"), "{summary}");
}

/// Sends one request from inside a namespace, and prints the answer.
#[test]
#[ignore = "run by the other tests, in a namespace"]
fn one_request() {
    let Ok(order) = std::env::var("WEIR_ASK") else { return };
    let order: Value = serde_json::from_str(&order).unwrap();
    let word = |key: &str| order[key].as_str().unwrap();
    let (status, body) = request(word("host"), word("method"), word("path"), word("token"), word("body"));
    println!("answer: {}", json!({"status": status, "body": body}));
}

/// A thousand changes at full speed.
#[test]
#[ignore = "takes minutes: part of make test-long"]
fn a_thousand_changes() {
    changes_while_packets_pass(1_000, 6_000_000, 120, "2");
}
