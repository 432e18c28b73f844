//! `weir open` and `weir serve`: answers of the HTTP interface, and refused requests.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod support;

use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::thread;
use std::time::Duration;
use support::http::*;
use support::*;
use weir_wire::build;

fn array<'v>(value: &'v Value, key: &str) -> &'v Vec<Value> {
    value[key].as_array().unwrap_or_else(|| panic!("{key} is not a list in {value}"))
}

fn has(value: &Value, keys: &[&str]) {
    for key in keys {
        assert!(value.get(key).is_some(), "{key} is missing in {value}");
    }
}

#[test]
fn every_route_answers_with_the_documented_fields() {
    let server = Server::open(&[]);
    assert!(server.printed.contains("10,444") || server.printed.contains("10 444"), "{}", server.printed);
    let status = server.json("/api/v1/status");
    has(&status, &["version", "sensor", "started", "now", "interval", "first", "last", "zone"]);
    assert_eq!(
        (&status["mode"], &status["write"], &status["packets"]),
        (&json!("file"), &json!(false), &json!(true))
    );
    assert!(status["first"].as_f64() < status["last"].as_f64(), "{status}");

    let charts = server.json("/api/v1/charts");
    assert_eq!(charts["charts"][0]["name"], "traffic");
    assert_eq!(charts["charts"][0]["unit"], "bits/s");
    let mut ids = Vec::new();
    for chart in array(&charts, "charts") {
        has(chart, &["title", "configured"]);
        ids.extend(array(chart, "lines").iter().map(|line| line["id"].as_str().unwrap().to_owned()));
    }
    let series = server.json("/api/v1/series");
    let known: BTreeSet<&str> =
        array(&series, "series").iter().map(|series| series["id"].as_str().unwrap()).collect();
    assert!(known.contains("ledger/caught") && known.contains("ledger/dropped"));
    assert!(ids.len() > 4 && ids.iter().all(|id| known.contains(id.as_str())), "{ids:?}");
    let data =
        server.json(&format!("/api/v1/series/data?ids={}&points=50", ids.join(",").replace(' ', "%20")));
    has(&data, &["step", "tier", "times", "partial"]);
    assert_eq!(array(&data, "series").len(), ids.len(), "{data}");
    let protocols = array(&charts, "charts").iter().find(|chart| chart["name"] == "ipproto").unwrap();
    let lines = array(protocols, "lines").len();
    let heaviest = server.json("/api/v1/series/data?chart=ipproto&top=2&points=50");
    assert_eq!((array(&heaviest, "series").len(), array(&heaviest, "ranking").len()), (2, lines));
    assert_eq!(heaviest["series"][0]["id"], heaviest["ranking"][0]["id"], "{heaviest}");
    assert_eq!(array(&heaviest["others"], "avg").len(), array(&heaviest, "times").len());
    let band = server.json("/api/v1/series/band?ids=ledger/caught&points=50&weeks=2");
    has(&band, &["times", "weeks", "series"]);

    let lists = server.json("/api/v1/lists");
    has(&lists, &["distinct"]);
    for list in array(&lists, "lists") {
        let name = list["name"].as_str().unwrap();
        let top = server.json(&format!("/api/v1/top?list={name}&limit=5"));
        has(&top, &["key", "unit", "absent", "inserts", "total", "basis", "partial"]);
        assert!((1..=5).contains(&array(&top, "rows").len()), "{top}");
        for row in array(&top, "rows") {
            has(row, &["label", "key", "packets", "bytes", "flows", "error", "filter", "name"]);
        }
        assert!(top.get("filter").is_none());
    }
    let narrowed = server.json("/api/v1/top?list=sources&filter=udp+port+53&by=packets");
    assert_eq!(narrowed["filter"], "udp port 53");
    has(&server.json("/api/v1/distinct"), &["rows"]);
    has(&server.json("/api/v1/new"), &["rows", "against", "partial"]);

    let answer = server.json("/api/v1/query?q=top+client+by+bytes+limit+2+where+udp+port+53");
    has(&answer, &["q", "columns", "partial", "milliseconds"]);
    assert_eq!(array(&answer, "rows").len(), 2, "{answer}");
    assert_eq!(array(&server.json("/api/v1/distinct"), "rows").len(), 3);

    let flows = server.json("/api/v1/flows?sort=-bytes&limit=3");
    has(&flows, &["matched", "matched_packets", "matched_bytes", "histogram", "partial"]);
    assert_eq!(array(&flows, "rows").len(), 3);
    let bytes = |row: &Value| row["bytes"][0].as_u64().unwrap() + row["bytes"][1].as_u64().unwrap();
    let sums: Vec<u64> = array(&flows, "rows").iter().map(bytes).collect();
    assert!(sums.is_sorted_by(|a, b| a >= b), "{sums:?}");
    let id = flows["rows"][0]["id"].as_str().unwrap();
    let detail = server.json(&format!("/api/v1/flows/{id}"));
    assert_eq!(detail["flow"]["id"], id);
    has(&detail, &["details", "records", "partial"]);

    let protocols = server.json("/api/v1/protocols");
    let tables: Vec<&str> =
        array(&protocols, "tables").iter().map(|table| table["name"].as_str().unwrap()).collect();
    assert_eq!(tables.iter().collect::<BTreeSet<_>>().len(), tables.len(), "each table once");
    for table in ["dns", "http", "files"] {
        assert!(tables.contains(&table), "{tables:?}");
        let rows = server.json(&format!("/api/v1/records/{table}?limit=2"));
        assert_eq!(rows["table"], table);
        assert!(rows["matched"].as_u64().unwrap() > 0, "{rows}");
        has(&rows["rows"][0], &["time", "flow", "uid", "source", "source_port", "destination", "values"]);
    }

    let config = server.json("/api/v1/config");
    assert!(
        array(&config, "values").iter().any(|value| value["key"] == "memory" && value["origin"] == "default")
    );
    let filter = server.json("/api/v1/filter?expression=tcp++port%20443");
    assert_eq!((&filter["ok"], &filter["canonical"]), (&json!(true), &json!("tcp port 443")));
    assert!(!array(&filter, "explain").is_empty());
    let wrong = server.json("/api/v1/filter?expression=tcp+prt+443");
    assert_eq!(
        (&wrong["ok"], &wrong["error"]["offset"], &wrong["error"]["length"]),
        (&json!(false), &json!(4), &json!(3))
    );
    let tried = server.json("/api/v1/filter/try?expression=udp+port+53");
    assert!(
        tried["flows"].as_u64() > Some(0) && tried["flows"].as_u64() < tried["of"]["flows"].as_u64(),
        "{tried}"
    );
    has(&server.json("/api/v1/events"), &["events", "partial"]);
    assert_eq!(server.get("/healthz").is(200).text(), "ok\n");
    assert!(server.get("/metrics").is(200).text().contains("\nweir_caught_packets_total 10444\n"));
    assert_eq!(server.end().0, Some(0), "Ctrl-C ends it");
}

#[test]
fn numbers_equal_those_of_the_other_commands() {
    let server = Server::open(&[]);
    let sample = sample();
    let facts = weir([text(&sample), "-j"]).exits(0);
    let sensor = server.json("/api/v1/sensor");
    let mut compared = 0;
    for row in array(&sensor, "ledger") {
        let name = row["name"].as_str().unwrap();
        let fact = facts.json().into_iter().find(|fact| fact["kind"] == "ledger").unwrap();
        if let Some(value) = fact.get(name).and_then(Value::as_u64) {
            assert_eq!(row["value"].as_u64(), Some(value), "{name}");
            compared += 1;
        }
    }
    assert!(compared >= 8, "{compared} counters compared");
    // Parts add up to their whole.
    let value = |name: &str| {
        let row = array(&sensor, "ledger").iter().find(|row| row["name"] == name);
        row.unwrap()["value"].as_u64().unwrap()
    };
    assert_eq!(value("offered"), value("caught") + value("dropped"));
    assert_eq!(value("caught"), value("filtered") + value("analysed"));
    assert_eq!(sensor["imbalance"], Value::Null);
    has(&sensor, &["memory", "costs", "queues", "clients", "store"]);

    // What flows of an expression have is what its packets have: of a flow the directions that match. Packets without IP, as ARP, are in
    // no flow.
    for expression in [
        "ip and src host 10.99.0.1",
        "ip and dst host 10.99.0.1",
        "src port 53",
        "dst port 443 and tcp",
        "ip and src net 10.99.0.0/16 and not dst port 53",
        "ip and (src host 10.99.0.1 or dst port 80)",
        "ip and host 10.99.0.1",
    ] {
        let counted = weir(["count", text(&sample), "-j", "-e", expression]).exits(0);
        let counted = &counted.json()[0];
        let tried = server.json(&format!("/api/v1/filter/try?expression={}", expression.replace(' ', "+")));
        assert_eq!(
            [&tried["packets"], &tried["bytes"]],
            [&counted["packets"], &counted["bytes"]],
            "{expression}"
        );
        assert!(counted["packets"].as_u64() > Some(0), "{expression}");
        let query = format!("/api/v1/query?q=count+flows+where+{}", expression.replace(' ', "+"));
        let row = &server.json(&query)["rows"][0];
        assert_eq!([&row[1], &row[2]], [&counted["packets"], &counted["bytes"]], "{expression}");
    }
    for expression in ["udp port 53", "tcp port 80", "icmp", "host 10.99.0.1"] {
        let counted = weir(["count", text(&sample), "-j", "-e", expression]).exits(0);
        let counted = &counted.json()[0];
        let size = server.json(&format!("/api/v1/packets/size?filter={}", expression.replace(' ', "+")));
        assert_eq!(size["packets"], counted["packets"], "{expression}");
        let answer = server.get(&format!("/api/v1/packets?filter={}", expression.replace(' ', "+"))).is(200);
        assert_eq!(
            answer.body.len() as u64,
            size["bytes"].as_u64().unwrap(),
            "the length equals the announced size"
        );
        assert_eq!(answer.headers["content-type"], "application/vnd.tcpdump.pcap");
        let folder = tempfile::tempdir().unwrap();
        let copy = put(folder.path(), "copy.pcap", &answer.body);
        if counted["packets"].as_u64() > Some(0) {
            let read = weir([text(&copy), "-j"]).exits(0);
            assert_eq!(Some(read.fact("ledger", "caught")), counted["packets"].as_u64(), "{expression}");
        }
    }
}

#[test]
fn every_answer_has_the_security_headers() {
    let server = Server::open(&[]);
    for path in [
        "/",
        "/flows",
        "/api/v1/status",
        "/api/v1/nothing",
        "/nothing.js",
        "/healthz",
        "/api/v1/flows?limit=x",
    ] {
        let answer = server.get(path);
        let policy = &answer.headers["content-security-policy"];
        for part in ["default-src 'self'", "script-src 'self'", "frame-ancestors 'none'", "base-uri 'none'"] {
            assert!(policy.contains(part), "{path}: {policy}");
        }
        assert!(!policy.contains("unsafe") && !policy.contains("http"), "{policy}");
        assert_eq!(answer.headers["x-content-type-options"], "nosniff", "{path}");
        assert_eq!(answer.headers["referrer-policy"], "no-referrer", "{path}");
        assert_eq!(answer.headers["cross-origin-resource-policy"], "same-origin", "{path}");
        assert!(answer.headers.contains_key("cache-control"), "{path}");
        assert!(!answer.headers.contains_key("strict-transport-security"), "{path}: there is no TLS");
    }
    assert_eq!(server.get("/api/v1/status").headers["cache-control"], "no-store");
}

#[test]
fn requests_from_other_sites_are_refused() {
    let server = Server::open(&[]);
    let port = server.host().split(':').nth(1).unwrap().to_owned();
    for good in [format!("localhost:{port}"), format!("127.0.0.1:{port}"), format!("[::1]:{port}")] {
        server.request("GET", "/api/v1/status", &[("Host", &good)], "").is(200);
    }
    for wrong in
        [format!("evil.example:{port}"), "localhost:1".to_owned(), String::new(), "evil.example".to_owned()]
    {
        let answer = server.request("GET", "/api/v1/status", &[("Host", &wrong)], "");
        assert!(answer.status == 403 || answer.status == 400, "{wrong}: {}", answer.status);
        assert!(!answer.text().contains("\"mode\""), "{wrong}");
    }
    let body = "{\"text\": \"\"}";
    let json = ("Content-Type", "application/json");
    let check =
        |origin: &str| server.request("POST", "/api/v1/config/check", &[json, ("Origin", origin)], body);
    assert_eq!(check(server.address.trim_end_matches('/')).status, 200);
    for wrong in ["http://evil.example", "null", "http://localhost:1"] {
        assert_eq!(check(wrong).status, 403, "{wrong}");
    }
    // A form of another site does not have this content type.
    let form = [("Content-Type", "text/plain")];
    assert_eq!(server.request("POST", "/api/v1/config/check", &form, body).status, 400);
    // No client has the right to write.
    assert_eq!(server.request("POST", "/api/v1/config/apply", &[json], body).status, 403);
}

#[test]
fn errors_of_requests_name_the_accepted_values() {
    let server = Server::open(&[]);
    for (path, status, says) in [
        ("/api/v1/flows?limit=0", 400, "from 1 to"),
        ("/api/v1/flows?limit=many", 400, "limit"),
        ("/api/v1/flows?sort=weight", 400, "bytes"),
        ("/api/v1/flows?filter=tcp+prt", 400, "offset"),
        ("/api/v1/flows?filter=tcp%5B13%5D%3D2", 400, "only packets have"),
        ("/api/v1/flows?from=NaN", 400, "seconds since the epoch"),
        ("/api/v1/flows?from=-1", 400, "seconds since the epoch"),
        ("/api/v1/flows?to=1e300", 400, "seconds since the epoch"),
        ("/api/v1/flows?from=20&to=10", 400, "before it starts"),
        ("/api/v1/flows/nothing", 404, "no flow"),
        ("/api/v1/top?list=nothing", 404, "nothing"),
        ("/api/v1/top", 400, "list"),
        ("/api/v1/top?list=sources&by=weight", 400, "flows"),
        ("/api/v1/series/data?ids=", 400, "ledger/caught"),
        ("/api/v1/series/data?ids=a&points=99999999", 400, "from 1 to"),
        ("/api/v1/series/data", 400, "ledger/caught"),
        ("/api/v1/series/data?chart=nothing", 404, "/api/v1/charts"),
        ("/api/v1/series/data?chart=traffic&top=101", 400, "from 1 to 100"),
        ("/api/v1/records/nothing", 404, "/api/v1/protocols"),
        ("/api/v1/records/dns?sort=qeury", 400, "did you mean `dns.query`?"),
        ("/api/v1/records/dns?filter=dns.qeury=a", 400, "did you mean `dns.query`?"),
        ("/api/v1/flows?format=xml", 400, "expected `csv`, `ndjson` or `json`"),
        ("/api/v1/packets?filter=host", 400, "offset"),
        ("/api/v1/nothing", 404, "openapi"),
    ] {
        let answer = server.get(path).is(status);
        assert!(
            answer.json()["error"].is_string() && answer.text().contains(says),
            "{path}: {}",
            answer.text()
        );
    }
    assert_eq!(server.request("DELETE", "/api/v1/flows", &[], "").status, 405);
    assert_eq!(server.request("PUT", "/", &[], "").status, 405);
}

/// Means are sums over a capture's own length, in the pages and in the summary, however long the intervals are.
/// The routes that have numbers over a range, with the parameters that they need. Downloads are of exactly the times that are asked
/// for, and events have times of their own.
fn over_a_range(document: &Value) -> Vec<String> {
    let mut found = Vec::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        let parameters = methods["get"]["parameters"].as_array().map(Vec::as_slice).unwrap_or_default();
        let has = |name: &str| parameters.iter().any(|parameter| parameter["name"] == name);
        let is_exact =
            path.starts_with("/api/v1/packets") || path == "/api/v1/events" || path == "/api/v1/range";
        if !(has("from") && has("to")) || is_exact {
            continue;
        }
        match path.as_str() {
            "/api/v1/top" => {
                let lists = ["sources", "services", "talkers", "clients", "hosts", "names"];
                found.extend(lists.map(|list| format!("{path}?list={list}")));
            }
            "/api/v1/series/data" => found
                .extend(["ids=ledger/bytes", "chart=ipproto", "filter=udp"].map(|of| format!("{path}?{of}"))),
            "/api/v1/series/band" => found.push(format!("{path}?ids=ledger/bytes")),
            _ => found.push(format!("{}?", path.replace("{table}", "dns"))),
        }
    }
    found
}

/// Routes whose answers have no numbers over a time: what is there, what is running, single flows and events with times of
/// their own, and packets of exactly the times that are asked for.
const WITHOUT_BASIS: [&str; 17] = [
    "/api/openapi.json",
    "/api/v1/charts",
    "/api/v1/config",
    "/api/v1/dumps",
    "/api/v1/events",
    "/api/v1/fields",
    "/api/v1/filter",
    "/api/v1/flows/{id}",
    "/api/v1/functions",
    "/api/v1/lists",
    "/api/v1/mutes",
    "/api/v1/packets/size",
    "/api/v1/plan",
    "/api/v1/protocols",
    "/api/v1/sensor",
    "/api/v1/series",
    "/api/v1/status",
];

/// Whether a value of a schema has a basis.
fn has_basis(document: &Value, schema: &Value, within: &mut Vec<String>) -> bool {
    let named = schema["$ref"].as_str().and_then(|name| name.rsplit('/').next());
    match (named, schema) {
        (Some("Basis"), _) => true,
        // A schema that contains itself.
        (Some(name), _) if within.iter().any(|outer| outer == name) => false,
        (Some(name), _) => {
            within.push(name.to_owned());
            let found = has_basis(document, &document["components"]["schemas"][name], within);
            within.pop();
            found
        }
        (None, Value::Object(parts)) => parts.values().any(|part| has_basis(document, part, within)),
        (None, Value::Array(parts)) => parts.iter().any(|part| has_basis(document, part, within)),
        _ => false,
    }
}

#[test]
fn every_answer_with_numbers_over_a_time_has_a_basis() {
    let server = Server::open(&[]);
    let document = server.json("/api/openapi.json");
    let mut with = 0;
    for (path, methods) in document["paths"].as_object().unwrap() {
        let answer = &methods["get"]["responses"]["200"]["content"]["application/json"];
        if answer.is_null() {
            continue;
        }
        let is_needed = !WITHOUT_BASIS.contains(&path.as_str());
        assert_eq!(has_basis(&document, answer, &mut Vec::new()), is_needed, "{path}");
        with += usize::from(is_needed);
    }
    assert!(with >= 14, "{with}");
    // Each reading of a function has one of its own.
    for reading in ["ClientAnswer", "IntervalReading"] {
        let schema = &document["components"]["schemas"][reading];
        let has = |name: &str| array(schema, "required").iter().any(|required| required == name);
        assert!(has("basis") && has("partial"), "{schema}");
    }
}

#[test]
fn every_answer_over_a_range_is_of_the_moved_one() {
    let server = Server::open(&["--interval", "3s"]);
    let document = server.json("/api/openapi.json");
    let routes = over_a_range(&document);
    assert!(routes.len() >= 16, "{routes:?}");
    let [first, last] =
        ["watched_from", "watched_to"].map(|name| server.json("/api/v1/status")[name].as_f64().unwrap());
    let sample = sample();
    for (from, to) in [
        (first + 4.1, first + 4.3),
        (first + 2.0, first + 8.5),
        (first - 7.0, first + 1.0),
        (first - 86_400.0, last + 0.5),
    ] {
        let during = format!("from={from}&to={to}");
        let basis = server.json(&format!("/api/v1/range?{during}"));
        let range = |basis: &Value| {
            ["range", "asked"]
                .map(|name| array(basis, name).iter().map(|time| time.as_f64().unwrap()).collect::<Vec<_>>())
        };
        let [moved, asked] = range(&basis);
        assert_eq!(asked, [from, to]);
        // Moved outwards, to whole intervals, as far as there is a capture.
        assert!(
            moved[0] <= from.max(first) && moved[1] >= to.min(last) && moved[1] - moved[0] < to - from + 6.0,
            "{basis}"
        );
        assert!(
            moved
                .iter()
                .all(|time| time % 3.0 == 0.0 || (*time - first).abs() < 3.0 || (*time - last).abs() < 3.0),
            "{basis}"
        );
        // What has been moved stays.
        let again = server.json(&format!("/api/v1/range?from={}&to={}", moved[0], moved[1]));
        assert_eq!(again["range"], basis["range"]);
        for route in &routes {
            let answer = server.json(&format!("{route}&{during}"));
            assert_eq!(range(&answer["basis"]), [moved.clone(), asked.clone()], "{route}: {answer}");
            assert_eq!(answer["basis"]["watched"], basis["watched"], "{route}");
            // A column may say whether the number of distinct values in a row is exact.
            let said = answer.to_string().replace("\"name\":\"exact\"", "");
            assert!(!said.contains("\"exact\""), "{route}: a bound of 0 says that");
        }
        let query = format!("/api/v1/query?q=top+sender+since+{from}+until+{to}");
        let answered = range(&server.json(&query)["basis"]);
        assert_eq!(answered[0], moved);
        assert!(answered[1].iter().zip(&asked).all(|(a, b)| (a - b).abs() < 1e-6), "{answered:?}");

        // The sums of a series and of lists are those of the packets of the range.
        let times = ["--since", &moved[0].to_string(), "--until", &moved[1].to_string()].map(str::to_owned);
        let counted =
            weir(["count", text(&sample), "-j", &times[0], &times[1], &times[2], &times[3], "-e", ""])
                .exits(0);
        let counted = &counted.json()[0];
        let data = server.json(&format!("/api/v1/series/data?ids=ledger/bytes,ledger/caught&{during}"));
        let sum = |at: usize| -> f64 {
            let rates = array(&data["series"][at], "avg").iter().map(|rate| rate.as_f64().unwrap_or(0.0));
            rates.zip(array(&data, "widths")).map(|(rate, width)| rate * width.as_f64().unwrap()).sum()
        };
        assert_eq!(
            ((sum(0) / 8.0).round(), sum(1).round()),
            (counted["bytes"].as_f64().unwrap(), counted["packets"].as_f64().unwrap()),
            "{during}"
        );
        let watched: f64 = array(&data, "widths").iter().map(|width| width.as_f64().unwrap()).sum();
        assert!((watched - basis["watched"].as_f64().unwrap()).abs() < 1e-6, "{during}");
        let top = server.json(&format!("/api/v1/top?list=sources&{during}"));
        let packets = weir([
            "count",
            text(&sample),
            "-j",
            &times[0],
            &times[1],
            &times[2],
            &times[3],
            "-e",
            "ip or ip6",
        ])
        .exits(0);
        assert_eq!(top["total"]["bytes"], packets.json()[0]["bytes"], "{during}: {top}");
    }
}

/// A limit of packets ends the reading. The pages of what was read are served.
#[test]
fn the_first_packets_of_a_capture_have_pages() {
    let server = Server::open(&["-c", "100"]);
    assert!(server.get("/metrics").is(200).text().contains("\nweir_caught_packets_total 100\n"));
    assert_eq!(server.end().0, Some(0));
}

#[test]
fn the_watched_time_of_a_capture_is_its_own_length() {
    let folder = tempfile::tempdir().unwrap();
    let capture = folder.path().join("half.pcap");
    let second = 1_000_000_000;
    let frame =
        weir_wire::build::ethernet().ipv4([10, 0, 0, 1], [10, 0, 0, 2]).udp(1000, 2000).payload(&[7; 100]);
    let times = [100 * second + 900_000_000, 101 * second + 100_000_000, 101 * second + 428_000_000];
    let packets: Vec<(u64, Vec<u8>)> = times.iter().map(|time| (*time, frame.clone())).collect();
    std::fs::write(&capture, pcap(1, &packets)).unwrap();
    let summary = weir([text(&capture)]).exits(0);
    let bits = 3.0 * frame.len() as f64 * 8.0 / 0.528;
    summary.prints(&format!("{:.2} kb/s avg", bits / 1000.0));
    let server = Server::start(program().args(["open", text(&capture), "--port", &port().to_string()]));
    let status = server.json("/api/v1/status");
    let [from, to] = ["watched_from", "watched_to"].map(|name| status[name].as_f64().unwrap());
    assert!((from - 100.9).abs() < 1e-6 && (to - from - 0.528).abs() < 1e-6, "{status}");
    assert!(status["first"].as_f64().unwrap() <= from && status["last"].as_f64().unwrap() >= to, "{status}");
}

#[test]
fn answers_with_rows_are_csv_and_ndjson_too() {
    let server = Server::open(&[]);
    for (path, column) in [
        ("/api/v1/flows?limit=5&sort=-bytes", "received_bytes"),
        ("/api/v1/records/dns?limit=5&sort=query", "rcode_name"),
        ("/api/v1/top?list=services&limit=5", "label"),
        ("/api/v1/query?q=count+dns+by+query", "query"),
        ("/api/v1/series/data?ids=ledger/caught&points=5", "ledger/caught"),
        ("/api/v1/findings?filter=tcp", "text"),
    ] {
        let answer = server.json(path);
        let rows = answer["rows"].as_array().or(answer["times"].as_array()).unwrap().len();
        assert!(rows > 0, "{path}: {answer}");
        let csv = server.get(&format!("{path}&format=csv")).is(200);
        assert_eq!(csv.headers["content-type"], "text/csv; charset=utf-8");
        assert!(csv.headers["content-disposition"].contains(".csv"), "{:?}", csv.headers);
        let text = csv.text();
        let mut lines = text.split_terminator("\r\n");
        assert!(lines.next().unwrap().split(',').any(|name| name == column), "{text}");
        assert_eq!(lines.count(), rows, "{path}: {text}");
        let lines = server.get(&format!("{path}&format=ndjson")).is(200);
        assert_eq!(lines.headers["content-type"], "application/x-ndjson");
        let lines: Vec<Value> =
            lines.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines.len(), rows, "{path}");
        assert!(lines.iter().all(|line| line.get(column).is_some()), "{lines:?}");
    }
    let all = server.json("/api/v1/records/dns?limit=1")["matched"].as_u64().unwrap();
    let part = server.get("/api/v1/records/dns?limit=1&format=csv").is(200);
    assert!(part.headers["x-weir-partial"].starts_with(&format!("1 of {all} rows")), "{:?}", part.headers);
    // The whole of a table is one download.
    let whole = server.get("/api/v1/records/dns?limit=100000&format=ndjson").is(200);
    assert_eq!(whole.text().lines().count() as u64, all);
}

#[test]
fn fields_and_findings_are_answered() {
    let server = Server::open(&[]);
    let words = server.json("/api/v1/fields");
    let table = |name: &str| array(&words, "tables").iter().find(|table| table["name"] == name).unwrap();
    let field = |of: &str, name: &str| {
        array(table(of), "fields").iter().find(|field| field["name"] == name).unwrap().clone()
    };
    assert_eq!(field("flow", "bytes")["kind"], "number");
    assert_eq!(field("dns", "rtt")["kind"], "duration");
    assert_eq!(
        (&field("dns", "answers")["list"], &field("http", "cookie")["payload"]),
        (&json!(true), &json!(true))
    );
    assert!(
        array(&words, "words").contains(&json!("portrange"))
            && array(&words, "operators").contains(&json!("under"))
    );
    // The summary of the sample has one scan, in these words.
    let found = server.json("/api/v1/findings");
    let [row] = array(&found, "rows").as_slice() else { panic!("{found}") };
    assert!(row["text"].as_str().unwrap().starts_with("10.99.0.104 -> 10.99.0.3  53 ports ("), "{row}");
    let filter = row["filter"].as_str().unwrap().replace(' ', "+");
    let flows = server.json(&format!("/api/v1/flows?filter={filter}&limit=1"));
    assert!(flows["matched"].as_u64() >= Some(53), "{flows}");
    assert!(array(&server.json("/api/v1/findings?filter=udp"), "rows").is_empty());
    // It is an event as well, with all ports in its words.
    let events = server.json("/api/v1/events");
    let scan = array(&events, "events").iter().find(|event| event["kind"] == "port_scan").unwrap();
    let ports = |row: &Value| row["text"].as_str().unwrap().split(", ...").next().unwrap().to_owned();
    assert!(scan["text"].as_str().unwrap().starts_with(&ports(row)), "{scan}");
    assert_eq!(scan["filter"], row["filter"]);
    assert_eq!((&scan["open"], &scan["evidence"]["failed"]), (&json!(false), &json!(53)));
    let csv = server.get("/api/v1/events?format=csv").is(200).text();
    assert!(csv.contains("evidence.failed") && csv.contains(",port_scan,"), "{csv}");
    assert!(array(&server.json("/api/v1/events?to=1000"), "events").is_empty());
}

/// What a mute hides is left out of the findings and counted, as it is of the events, and listed on request.
#[test]
fn muted_findings_are_left_out_and_counted() {
    let folder = tempfile::tempdir().unwrap();
    let store = text(folder.path());
    weir([text(&sample()), "-q", "-o", store, "--log", "store"]).exits(0);
    let server = Server::start(program().args(["serve", "--store", store, "--port", &port().to_string()]));
    let found = |query: &str| {
        let answer = server.json(&format!("/api/v1/findings{query}"));
        let rows = array(&answer, "rows").iter().map(|row| row["muted"].clone()).collect::<Vec<_>>();
        (rows, answer["muted"].as_u64().unwrap())
    };
    assert_eq!((found(""), found("?muted=yes")), ((vec![Value::Null], 0), (vec![], 0)));
    let mute = |scope: Value| {
        let headers = [("Content-Type", "application/json")];
        let body = json!({"scope": scope}).to_string();
        server.request("POST", "/api/v1/mutes", &headers, &body).is(200).json()["number"].clone()
    };
    // A scan of the ports of one host is of another kind, has another source, and is of no port.
    mute(json!({"kinds": ["address_scan"]}));
    mute(json!({"kinds": ["port_scan"], "source": "10.99.0.103"}));
    mute(json!({"source": "10.99.0.104", "port": "tcp/22"}));
    assert_eq!(found(""), (vec![Value::Null], 0));
    let number = mute(json!({"kinds": ["port_scan"], "source": "10.99.0.104", "target": "10.99.0.0/24"}));
    assert_eq!((found(""), found("?muted=no")), ((vec![], 1), (vec![], 1)));
    assert_eq!(found("?muted=yes"), (vec![number.clone()], 1));
    server.get("/api/v1/findings?muted=perhaps").is(400);
    server.request("DELETE", &format!("/api/v1/mutes/{number}"), &[], "").is(200);
    assert_eq!(found(""), (vec![Value::Null], 0));
}

#[test]
fn every_documented_route_is_answered() {
    let server = Server::open(&[]);
    let document = server.json("/api/openapi.json");
    assert!(document["openapi"].as_str().unwrap().starts_with("3."));
    let paths = document["paths"].as_object().unwrap();
    assert!(paths.len() >= 25, "{}", paths.len());
    let text = document.to_string();
    for (at, _) in text.match_indices("#/components/schemas/") {
        let name = text[at + 21..].split('"').next().unwrap();
        assert!(document["components"]["schemas"][name].is_object(), "{name}");
    }
    let id = server.json("/api/v1/flows?limit=1")["rows"][0]["id"].as_str().unwrap().to_owned();
    for (path, methods) in paths.iter().filter(|(path, _)| *path != "/api/v1/live") {
        let path = path
            .replace("{id}", &id)
            .replace("{table}", "dns")
            .replace("{number}", "1")
            .replace("{name}", "x");
        let mut needed: Vec<String> = methods["get"]["parameters"]
            .as_array()
            .into_iter()
            .flatten()
            .filter(|parameter| parameter["required"] == true && parameter["in"] == "query")
            .map(|parameter| match parameter["name"].as_str().unwrap() {
                "list" => "list=sources".to_owned(),
                "ids" => "ids=ledger/caught".to_owned(),
                "q" => "q=count".to_owned(),
                name => format!("{name}=tcp"),
            })
            .collect();
        // Series need one of two parameters.
        if path.ends_with("/series/data") {
            needed.push("ids=ledger/caught".to_owned());
        }
        // A run over files has no subscriptions of clients, and this one no triggers.
        let is_absent = path.starts_with("/api/v1/subscriptions/") || path.starts_with("/api/v1/dumps/");
        let expected = if is_absent { 404 } else { 200 };
        match methods.get("get") {
            Some(_) => drop(server.get(&format!("{path}?{}", needed.join("&"))).is(expected)),
            None => {
                let method = if methods.get("post").is_some() { "POST" } else { "DELETE" };
                let json = [("Content-Type", "application/json")];
                let answer = server.request(method, &path, &json, "{\"text\":\"\"}");
                // The text is a configuration, and neither a mute nor an acknowledgement.
                let expected: &[u16] = match (method, path.as_str()) {
                    ("DELETE", _) => &[404],
                    (_, path) if path.contains("/mutes") || path.contains("/events") => &[400],
                    _ => &[200, 403],
                };
                assert!(expected.contains(&answer.status), "{path}: {}", answer.status);
            }
        }
    }
}

/// The time of the first packet of [`questions`], in seconds since the epoch.
const BEGIN: u64 = 1_795_341_600;

/// A capture in which two hosts ask a third one, which answers one of them with the word of another rule; and both rules.
fn questions(folder: &Path) -> [PathBuf; 2] {
    let says = |second: u64, from: (u8, u16), to: (u8, u16), word: &str| {
        let frame = build::ethernet().ipv4([10, 0, 7, from.0], [10, 0, 7, to.0]);
        ((BEGIN + second) * 1_000_000_000, frame.udp(from.1, to.1).payload(word.as_bytes()))
    };
    let server = (9, 5000);
    let packets = [
        says(1, (1, 4000), server, "question"),
        says(2, (2, 4000), server, "question"),
        says(3, server, (2, 4000), "answer"),
        says(31, (2, 4000), server, "question"),
    ];
    let capture = put(folder, "x.pcap", &pcap(1, &packets));
    let rule = |word: &str, sid: u32, rest: &str| {
        format!(
            "alert udp any any -> any any (msg:\"{word}\"; content:\"{word}\"; sid:{sid}; rev:4;{rest})\n"
        )
    };
    let rules = rule("question", 7, " classtype:misc-activity;") + &rule("answer", 8, " priority:1;");
    let rules = put(folder, "x.rules", rules.as_bytes());
    [capture, rules]
}

#[test]
fn alerts_of_rules_are_added_up_by_rule() {
    let folder = tempfile::tempdir().unwrap();
    let [capture, rules] = questions(folder.path());
    let open = |arguments: &[&str]| {
        let port = port().to_string();
        let capture = ["open", text(&capture), "--interval", "30s", "--port", &port];
        Server::start(program().args(capture).args(arguments))
    };
    let server = open(&["-S", text(&rules)]);
    let shown = |answer: &Value| -> Vec<[u64; 6]> {
        let row = |row: &Value| {
            ["gid", "sid", "rev", "alerts", "sources", "destinations"].map(|name| row[name].as_u64().unwrap())
        };
        array(answer, "rows").iter().map(row).collect()
    };
    let all = server.json("/api/v1/alerts");
    assert_eq!(shown(&all), [[1, 8, 4, 1, 1, 1], [1, 7, 4, 3, 2, 1]], "{all}");
    assert_eq!((&all["looks"], &all["alerts"], &all["partial"]), (&json!(true), &json!(4), &Value::Null));
    let question = &all["rows"][1];
    let times = ["first", "last"].map(|name| question[name].as_f64().unwrap());
    assert_eq!(times, [BEGIN as f64 + 1.0, BEGIN as f64 + 31.0]);
    assert_eq!(
        (&question["signature"], &question["category"]),
        (&json!("question"), &json!("misc-activity"))
    );
    // The filter of a row selects its alerts, their flows and the packets of these.
    let filter = question["filter"].as_str().unwrap().replace(' ', "%20");
    let matched = |path: &str| server.json(&format!("{path}?filter={filter}"))["matched"].clone();
    assert_eq!([matched("/api/v1/records/alert"), matched("/api/v1/flows")], [json!(3), json!(2)]);
    let size = server.json(&format!("/api/v1/packets/size?filter={filter}"));
    assert_eq!(size["packets"], 4, "{size}");
    // By time and by expression.
    let first = server.json(&format!("/api/v1/alerts?from={BEGIN}&to={}", BEGIN + 30));
    assert_eq!(shown(&first), [[1, 8, 4, 1, 1, 1], [1, 7, 4, 2, 2, 1]], "{first}");
    let some = server.json("/api/v1/alerts?filter=alert.severity=1%20and%20host%2010.0.7.2");
    assert_eq!(shown(&some), [[1, 8, 4, 1, 1, 1]], "{some}");
    let few = server.json("/api/v1/alerts?limit=1");
    assert_eq!((shown(&few).len(), &few["rules"]), (1, &json!(2)));
    assert_eq!(few["partial"], "1 more rule has alerts; `limit` gives it");
    let csv = server.get("/api/v1/alerts?format=csv").is(200).text();
    assert!(csv.lines().nth(2).is_some_and(|line| line.contains("question")), "{csv}");
    server.get("/api/v1/alerts?filter=nonsense").is(400);
    let none = open(&[]).json("/api/v1/alerts");
    assert_eq!((shown(&none).len(), &none["looks"]), (0, &json!(false)), "{none}");
}

/// Alerts that a mute of their rule hides are stored, counted apart and listed on request, in the next run, too. The mute is counted,
/// and ends when it is removed.
#[test]
fn muted_alerts_of_rules_are_left_out_and_counted() {
    let folder = tempfile::tempdir().unwrap();
    let [capture, rules] = questions(folder.path());
    let store = folder.path().join("store");
    let store = text(&store);
    let run =
        || weir([text(&capture), "-q", "-S", text(&rules), "-o", store, "--log", "store,fast"]).exits(0);
    run();
    let serve = || Server::start(program().args(["serve", "--store", store, "--port", &port().to_string()]));
    let post = |server: &Server, path: &str, scope: &Value| {
        let headers = [("Content-Type", "application/json")];
        let body = json!({"scope": scope, "reason": "ours"}).to_string();
        server.request("POST", &format!("/api/v1/{path}"), &headers, &body)
    };
    // Rules with their alerts, and the number of muted ones.
    let shown = |server: &Server, query: &str| {
        let answer = server.json(&format!("/api/v1/alerts{query}"));
        let of = |row: &Value| ["sid", "alerts"].map(|name| row[name].as_u64().unwrap());
        let rows = array(&answer, "rows").iter().map(of).collect::<Vec<_>>();
        (rows, answer["muted"].as_u64().unwrap())
    };
    let records = |server: &Server, query: &str| {
        server.json(&format!("/api/v1/records/alert{query}"))["matched"].as_u64().unwrap()
    };
    let server = serve();
    assert_eq!(shown(&server, ""), (vec![[8, 1], [7, 3]], 0));
    // Two of the three questions are of one host. A mute of a net, without the rule, is of events.
    let scope = json!({"rule": "1:7", "source": "10.0.7.2", "target": "10.0.7.0/24", "port": "udp/5000"});
    let preview = post(&server, "mutes/preview", &scope).is(200).json();
    assert_eq!(
        [&preview["count"], &preview["of"], &preview["partial"]],
        [&json!(2), &json!(3), &Value::Null]
    );
    post(&server, "mutes", &json!({"source": "10.0.7.0/24"})).is(200);
    assert_eq!(shown(&server, "").1, 0);
    let added = post(&server, "mutes", &scope).is(200).json();
    assert!(added["scope"]["rule"] == "1:7" && !added["who"].as_str().unwrap().is_empty(), "{added}");
    // The answer is sent by the server of the flow.
    post(&server, "mutes", &json!({"rule": "1:8", "source": "10.0.7.9", "port": "udp/5000"})).is(200);
    for wrong in [json!({"rule": "7"}), json!({"rule": 7}), json!({"rule": "1:7", "kinds": ["port_scan"]})] {
        post(&server, "mutes", &wrong).is(400);
    }
    drop(server);

    // In another process, with the alerts of another run.
    run();
    let server = serve();
    assert_eq!((shown(&server, ""), shown(&server, "?muted=no")), ((vec![[7, 1]], 3), (vec![[7, 1]], 3)));
    assert_eq!(shown(&server, "?muted=yes"), (vec![[8, 1], [7, 2]], 3));
    let first = format!("?from={BEGIN}&to={}", BEGIN + 3);
    assert_eq!(shown(&server, &first), (vec![[7, 1]], 1));
    assert_eq!(shown(&server, "?filter=alert.sid=7"), (vec![[7, 1]], 2));
    assert_eq!(["", "?muted=no", "?muted=yes"].map(|query| records(&server, query)), [4, 1, 3]);
    for wrong in
        ["/api/v1/alerts?muted=perhaps", "/api/v1/records/alert?muted=x", "/api/v1/records/dns?muted=no"]
    {
        server.get(wrong).is(400);
    }
    let preview = post(&server, "mutes/preview", &json!({"rule": "1:7"})).is(200).json();
    assert_eq!([&preview["count"], &preview["of"]], [&json!(1), &json!(1)], "{preview}");
    let mutes = server.json("/api/v1/mutes");
    let hits: Vec<_> = array(&mutes, "mutes").iter().map(|mute| mute["hits"].as_u64().unwrap()).collect();
    assert_eq!((hits, &mutes["partial"]), (vec![0, 2, 1], &Value::Null), "{mutes}");
    // A log has every alert.
    let log = fs::read_to_string(Path::new(store).join("fast.log")).unwrap();
    assert_eq!(log.lines().filter(|line| line.contains("[1:7:4]")).count(), 3, "{log}");
    server.request("DELETE", "/api/v1/mutes/2", &[], "").is(200);
    assert_eq!(shown(&server, ""), (vec![[7, 3]], 1));
}

/// Hosts that try ports 22 and 445, and one that tries port 80: new in the first run, and known in the second.
#[test]
fn port_signatures_of_a_store_are_listed_by_their_time() {
    const BEGIN: u64 = 1_795_341_600;
    let folder = tempfile::tempdir().unwrap();
    let mut packets = Vec::new();
    for (host, second, ports) in [(1, 1, [22, 445]), (2, 1, [445, 22]), (3, 61, [80, 80])] {
        for n in 0..30_u16 {
            let time = (BEGIN + second) * 1_000_000_000 + u64::from(n) * 1000 + u64::from(host);
            let frame = build::ethernet().ipv4([10, 0, 7, host], [10, 1, 0, n as u8]);
            packets.push((
                time,
                frame.tcp(20_000 + n, ports[usize::from(n % 2)], build::flags::SYN).payload(&[]),
            ));
        }
    }
    packets.sort();
    let capture = put(folder.path(), "x.pcap", &pcap(1, &packets));
    let rows = "interval = \"30s\"\n[[subscription]]\nname = \"tcp hosts\"\nchain = [\"syn\"]\n";
    let config = put(folder.path(), "weir.toml", rows.as_bytes());
    let store = folder.path().join("store");
    let signatures = |query: &str| {
        let port = port().to_string();
        let server = Server::start(program().args(["serve", "--store", text(&store), "--port", &port]));
        server.json(&format!("/api/v1/signatures{query}"))
    };
    let shown = |answer: &Value| -> Vec<(String, bool, u64, u64)> {
        let row = |row: &Value| {
            let number = |name: &str| row[name].as_u64().unwrap();
            (row["filter"].as_str().unwrap().to_owned(), row["new"] == true, number("hosts"), number("runs"))
        };
        array(answer, "rows").iter().map(row).collect()
    };
    let run = || {
        weir([text(&capture), "-c", text(&config), "-o", text(&store), "-q", "--log", "store"]).exits(0);
    };
    run();
    let [ssh, web] = ["tcp dst port 22 or tcp dst port 445", "tcp dst port 80"];
    let all = signatures("");
    assert_eq!(shown(&all), [(web.to_owned(), true, 1, 1), (ssh.to_owned(), true, 2, 1)], "{all}");
    assert_eq!(all["rows"][1]["ports"], json!([22, 445]));
    // Each is in the answer of its own interval alone.
    let first = signatures(&format!("?from={}&to={}", BEGIN, BEGIN + 30));
    assert_eq!(shown(&first), [(ssh.to_owned(), true, 2, 1)], "{first}");
    // The first packet is a second after the beginning of the interval.
    assert_eq!((&first["basis"]["bound"], &first["basis"]["watched"]), (&json!(0), &json!(29.0)), "{first}");
    let some = signatures("?limit=1");
    assert_eq!(shown(&some), [(web.to_owned(), true, 1, 1)]);
    assert_eq!(some["partial"], "further signatures of this time are not listed: 1");
    run();
    let again = signatures(&format!("?from={}&to={}", BEGIN, BEGIN + 30));
    assert_eq!(shown(&again), [(ssh.to_owned(), false, 2, 2)], "{again}");
}

/// The triggers of a run have their values beside their thresholds, and their files are listed and downloaded.
#[test]
fn the_files_of_triggers_are_listed_and_downloaded() {
    let folder = tempfile::tempdir().unwrap();
    let dumps = folder.path().join("dumps");
    let trigger = |name: &str, keys: &str| {
        format!("[[trigger]]\nname = {name:?}\nwhen = \"packets\"\n{keys}\nto = {:?}\n", text(&dumps))
    };
    let tables = trigger("some", "above = 1\nbefore = \"1s\"\nafter = \"1s\"\nlimit = \"1G\"")
        + &trigger("none", "above = 1000000000\nover = \"10s\"");
    let config = put(folder.path(), "weir.toml", tables.as_bytes());
    let server = Server::open(&["-c", text(&config)]);
    assert!(eventually(|| !array(&server.json("/api/v1/dumps"), "files").is_empty()), "no file");
    let answer = server.json("/api/v1/dumps");
    let [some, none] = &array(&answer, "triggers")[..] else { panic!("{answer}") };
    assert_eq!(
        (&some["name"], &some["unit"], &some["above"]),
        (&"some".into(), &"packets".into(), &1.0.into())
    );
    assert_eq!((&some["limit"], &some["ring_seconds"]), (&(1_u64 << 30).into(), &Value::Null));
    assert_eq!((&none["files"], &none["when"]), (&0.into(), &"packets in 10 s".into()));
    assert!(none["value"].is_u64(), "{none}");
    let file = &answer["files"][0];
    assert!(file["reason"].as_str().unwrap().contains("trigger some: packets"), "{file}");
    assert_eq!(file["open"], false);
    // The time of its packets is that of its trigger, and not the default.
    let [begun, from, to] = ["begun", "from", "to"].map(|name| file[name].as_f64().unwrap());
    assert!((begun - from - 1.0).abs() < 1e-3 && (to - begun - 1.0).abs() < 1e-3, "{file}");
    assert!(file["reason"].as_str().unwrap().contains("after its beginning: 1.000 s wanted"), "{file}");
    assert_eq!((&some["filter"], &none["filter"]), (&"".into(), &"".into()));
    let path = format!("/api/v1/dumps/{}", file["name"].as_str().unwrap());
    let read = server.get(&path).is(200);
    assert_eq!(read.body.len() as u64, file["bytes"].as_u64().unwrap());
    assert_eq!(read.body, std::fs::read(dumps.join(file["name"].as_str().unwrap())).unwrap());
    assert_eq!(read.headers["content-length"], read.body.len().to_string());
    // Names are those of the list, and no paths.
    for name in ["x", "..%2Fweir.toml", "none.20260101T000000.000000Z.pcapng"] {
        server.get(&format!("/api/v1/dumps/{name}")).is(404);
    }
}

/// The program of tests/tools.txt, or one that is installed.
#[test]
fn the_document_is_valid_openapi() {
    let server = Server::open(&[]);
    let folder = tempfile::tempdir().unwrap();
    let document = put(folder.path(), "openapi.json", &server.get("/api/openapi.json").is(200).body);
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(
        || std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target"),
        std::path::PathBuf::from,
    );
    let name = "openapi-spec-validator";
    let ran = [target.join("tools/bin").join(name), name.into()]
        .into_iter()
        .find_map(|program| std::process::Command::new(program).arg(&document).output().ok());
    match ran {
        None => println!("skipped: {name} is not installed"),
        Some(ran) => assert!(
            ran.status.success(),
            "{}{}",
            String::from_utf8_lossy(&ran.stdout),
            String::from_utf8_lossy(&ran.stderr)
        ),
    }
}

#[test]
fn files_outside_of_the_pages_are_never_served() {
    let server = Server::open(&[]);
    for path in [
        "/../../../../etc/passwd",
        "/..%2f..%2f..%2f..%2fetc/passwd",
        "/%2e%2e/%2e%2e/%2e%2e/etc/passwd",
        "/assets/../../../Cargo.toml",
        "/assets/..%5c..%5cCargo.toml",
        "//etc/passwd.",
        "/.%00./Cargo.toml",
        "/....//....//etc/passwd.txt",
        "/api/v1/flows/..%2f..%2fetc%2fpasswd",
        "/api/v1/records/..%2fdns",
    ] {
        let answer = server.get(path);
        assert!(matches!(answer.status, 400 | 404), "{path}: {} {}", answer.status, answer.text());
        assert!(!answer.text().contains("root:") && !answer.text().contains("[workspace]"), "{path}");
    }
    // An address that the pages make gives the index page; a file that does not exist does not.
    assert!(server.get("/talkers").is(200).headers["content-type"].starts_with("text/html"));
    server.get("/assets/nothing.js").is(404);
}

#[test]
fn requests_that_are_too_long_are_refused() {
    let server = Server::open(&[]);
    assert_eq!(server.get(&format!("/api/v1/flows?filter={}", "a".repeat(9000))).status, 414);
    let answer = server.request("GET", "/", &[("X-Long", &"a".repeat(100_000))], "");
    assert!(matches!(answer.status, 431 | 0), "{}", answer.status);
    let body = format!("{{\"text\": \"{}\"}}", "#".repeat(2 << 20));
    let answer =
        server.request("POST", "/api/v1/config/check", &[("Content-Type", "application/json")], &body);
    assert!(matches!(answer.status, 413 | 0), "{}", answer.status);
    let body = format!("{{\"text\": \"{}\"}}", "#".repeat(1 << 19));
    server.request("POST", "/api/v1/config/check", &[("Content-Type", "application/json")], &body).is(200);
    for garbage in [
        &b"\x16\x03\x01\x02\x00\x01\x00"[..],
        b"GET / HTTP/9.9\r\n\r\n",
        b"\r\n\r\n\r\n",
        b"GET\r\n\r\n",
        &[0xff; 5000],
    ] {
        let answer = server.send(&[garbage, b"\r\n\r\n"].concat());
        assert!(answer.status == 0 || (400..600).contains(&answer.status), "{}", answer.status);
    }
    server.get("/healthz").is(200);
}

#[test]
fn idle_connections_are_closed_while_others_are_served() {
    let server = Server::open(&[]);
    let mut slow: Vec<_> = (0..100).map(|_| server.connect()).collect();
    for (n, stream) in slow.iter_mut().enumerate() {
        stream.write_all(if n % 2 == 0 { b"GET / HT" } else { b"GET / HTTP/1.1\r\nX: a" }).unwrap();
    }
    for _ in 0..3 {
        server.get("/api/v1/status").is(200);
        // A byte from time to time does not prolong the limit.
        slow.iter_mut().for_each(|stream| drop(stream.write_all(b"a")));
        thread::sleep(Duration::from_secs(1));
    }
    // The server ends each connection: reading gives an end or a reset before the client's own limit.
    for stream in &mut slow {
        let mut rest = Vec::new();
        let ended = stream.read_to_end(&mut rest);
        let is_open =
            ended.is_err_and(|error| matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut));
        assert!(!is_open, "an idle connection is still open");
    }
    server.get("/healthz").is(200);
}

#[test]
fn a_configuration_check_reports_lines_and_differences() {
    let folder = tempfile::tempdir().unwrap();
    let file = put(folder.path(), "weir.toml", b"interval = \"10s\"\n[server]\nport = 8471\n");
    let server = Server::open(&["--config", text(&file)]);
    let config = server.json("/api/v1/config");
    assert!(config["text"].as_str().unwrap().contains("interval"));
    let value =
        |key: &str| array(&config, "values").iter().find(|value| value["key"] == key).unwrap().clone();
    assert_eq!(value("interval")["value"], "10s");
    assert!(value("interval")["origin"].as_str().unwrap().ends_with("weir.toml:1"));
    // The file has a port too; the command line's value is in effect.
    let port = server.host().rsplit(':').next().unwrap().to_owned();
    let shown = value("server.port");
    assert_eq!((&shown["value"], &shown["origin"]), (&json!(port), &json!("command line")));
    let check = |new: &str| {
        let body = json!({"text": new}).to_string();
        server
            .request("POST", "/api/v1/config/check", &[("Content-Type", "application/json")], &body)
            .is(200)
            .json()
    };
    let wrong = check("interval = \"10s\"\n[server]\nprot = 8471\n");
    assert_eq!((&wrong["ok"], &wrong["errors"][0]["line"]), (&json!(false), &json!(3)));
    let good = check("interval = \"10s\"\n[server]\nport = 8472\n");
    assert_eq!((&good["ok"], &good["applied"]), (&json!(true), &json!(false)));
    assert_eq!(good["difference"], "-port = 8471\n+port = 8472\n");
}

#[test]
fn tables_of_subscriptions_have_all_records_of_a_capture() {
    let folder = tempfile::tempdir().unwrap();
    let text_of = "[[subscription]]\nname = \"asked\"\nlevel = \"record\"\nwhere = 'dns.query contains \"e\"'\n\
        chain = [\"top dns.query,source show 3\", \"records\", \"quantiles dns.rtt\"]\n\
        [[subscription]]\nname = \"senders\"\nfunctions = [\"top source show 2\", \"packets\"]\n";
    let file = put(folder.path(), "weir.toml", text_of.as_bytes());
    let server = Server::open(&["--config", text(&file)]);
    let answer = server.json("/api/v1/tables");
    let asked = &answer["subscriptions"][0];
    assert_eq!(
        (&asked["name"], &asked["owner"], &asked["level"], &asked["expression"]),
        (&json!("asked"), &json!("configuration"), &json!("record"), &json!("dns.query contains \"e\"")),
        "{answer}"
    );
    let [top, records, quantiles] = array(asked, "tables").as_slice() else { panic!("{asked}") };
    assert_eq!(top["call"], "top by dns.query,source show 3");
    let columns = array(top, "columns");
    let fields: Vec<&Value> = columns.iter().map(|column| &column["field"]).collect();
    assert_eq!(fields, [&json!("dns.query"), &Value::Null, &Value::Null]);
    let matching = server.json("/api/v1/query?q=count+dns+where+dns.query+contains+%22e%22");
    let all = matching["rows"][0][0].as_u64().unwrap();
    assert!(all > 10, "{matching}");
    assert_eq!(
        (&top["ranked"], &records["ranked"], &quantiles["ranked"]),
        (&json!(2), &json!(0), &Value::Null)
    );
    assert_eq!((&top["total"], &records["rows"][0]["values"][0]), (&json!(all), &json!(all)));
    let shown: u64 = array(top, "rows").iter().map(|row| row["values"][2].as_u64().unwrap()).sum();
    assert_eq!((array(top, "rows").len(), top["others"]["sum"].as_u64()), (3, Some(all - shown)), "{top}");
    assert!(top["others"]["keys"].as_u64() > Some(0), "{top}");
    let units: Vec<&Value> = array(quantiles, "columns").iter().map(|column| &column["unit"]).collect();
    assert!(units.iter().all(|unit| **unit == "seconds"), "{quantiles}");
    // A top list over packets, by its own unit; a number of packets is no list.
    let [senders] = array(&answer["subscriptions"][1], "tables").as_slice() else { panic!("{answer}") };
    let bytes = server.json("/api/v1/top?list=sources")["total"]["bytes"].as_u64();
    assert_eq!((senders["total"].as_u64(), array(senders, "rows").len()), (bytes, 2), "{senders}");
    let ranked = &senders["columns"][senders["ranked"].as_u64().unwrap() as usize];
    assert_eq!((&ranked["name"], &ranked["unit"]), (&json!("bytes"), &json!("bytes")));
    assert!(senders["rows"][0]["filter"].as_str().unwrap().starts_with("host "), "{senders}");
    // More rows than the function shows, and fewer.
    for (limit, rows) in [(1, 1), (5, 5)] {
        let answer = server.json(&format!("/api/v1/tables?limit={limit}"));
        assert_eq!(array(&answer["subscriptions"][0]["tables"][0], "rows").len(), rows);
    }
    server.get("/api/v1/tables?limit=1001").is(400);
    // Before the capture there is nothing, and its columns are known.
    let before = server.json("/api/v1/tables?from=1&to=2");
    let before = &before["subscriptions"][0]["tables"][0];
    assert_eq!((array(before, "rows").len(), array(before, "columns").len()), (0, 3), "{before}");
}

#[test]
fn the_plan_in_effect_is_the_explained_one() {
    let server = Server::open(&[]);
    let plan = server.json("/api/v1/plan");
    let sample = sample();
    let explained = weir(["explain", "-j", "--plan", "open", text(&sample)]).exits(0);
    let explained: Value = serde_json::from_str(&explained.text()).unwrap();
    assert_eq!(plan["subscriptions"], explained["subscriptions"]);
    assert_eq!(plan["demand"], explained["demand"]);
    let functions = server.json("/api/v1/functions");
    let record: Vec<&Value> = array(&functions, "functions")
        .iter()
        .filter(|function| array(function, "levels").contains(&json!("record")))
        .map(|function| &function["name"])
        .collect();
    assert!(["records", "top", "distinct", "quantiles"].iter().all(|name| record.contains(&&json!(name))));
    // An expression is checked at the level of its subscription.
    let check = |level: &str| {
        let path = format!("/api/v1/filter?expression=tcp+and+dns.rcode_name+%3D+NXDOMAIN&level={level}");
        server.json(&path)
    };
    assert_eq!(
        (&check("record")["ok"], &check("packet")["ok"], &check("flow")["ok"]),
        (&json!(true), &json!(false), &json!(false))
    );
    assert_eq!(check("packet")["error"]["offset"], 8, "{}", check("packet"));
    server.get("/api/v1/filter?expression=tcp&level=rcord").is(400);
}

#[test]
fn a_port_in_use_is_reported() {
    let sample = sample();
    let port = port().to_string();
    let first = Server::start(program().args(["open", text(&sample), "--port", &port]));
    weir(["open", text(&sample), "--port", &port]).exits(4).says("is in use");
    weir(["serve", "-i", "lo", "--port", &port]).exits(4).says("is in use");
    drop(first);
    // Without --port the next free port is used.
    let usual = std::net::TcpListener::bind(("127.0.0.1", 8470));
    let other = Server::start(program().args(["open", text(&sample)]));
    other.get("/healthz").is(200);
    assert!(usual.is_err() || !other.address.contains(":8470/"), "{}", other.address);
}

#[test]
fn errors_of_usage_are_reported() {
    let sample = sample();
    weir(["open"]).exits(1).says("nothing to open");
    weir(["open", "/nowhere.pcap"]).exits(2).says("no such file");
    weir(["open", text(&sample), "--port", "0"]).exits(1);
    weir(["open", text(&sample), "tcp prt 80"]).exits(1).says("prt");
    weir(["serve", text(&sample)]).exits(1).says("weir open");
    weir(["serve"]).exits(1).says("--store");
    weir(["serve", "--store", "/nowhere/store"]).exits(4).says("/nowhere/store");
    weir(["open", text(&sample), "-o", "/tmp/x", "--log", "store"]).exits(1).says("--store DIR");
    // The option for scripts, in which Ctrl-C is not possible.
    let folder = tempfile::tempdir().unwrap();
    weir(["open", text(&sample), "--no-wait"]).exits(1).says("--store");
    let kept = folder.path().join("kept");
    let ran = weir(["open", text(&sample), "--no-wait", "--store", text(&kept)]).exits(0);
    assert!(!ran.text().contains("http://"), "{}", ran.text());
    assert!(kept.join("rows").is_dir() || kept.read_dir().unwrap().count() > 0);
    let file = put(folder.path(), "weir.toml", b"[server]\nlisten = \"loopback\"\ntls_cert = \"x\"\n");
    let ran = weir(["config", "check", text(&file)]).exits(1).says("tls_cert without tls_key");
    assert!(ran.stderr.contains("weir.toml:2:10"), "{}", ran.stderr);
}

#[test]
fn a_store_is_kept_and_served_again() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    let first = Server::open(&["--store", text(&store)]);
    let flows = first.json("/api/v1/flows?limit=2");
    assert_eq!(first.end().0, Some(0));
    let port = port().to_string();
    let again = Server::start(program().args(["serve", "--store", text(&store), "--port", &port]));
    assert_eq!(again.json("/api/v1/status")["mode"], "store");
    assert_eq!(again.json("/api/v1/flows?limit=2"), flows);
    assert_eq!(again.end().0, Some(0));
}

mod guarded {
    use super::*;
    use std::net::TcpStream;
    use std::path::{Path, PathBuf};
    use std::sync::Arc;
    use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
    use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

    const TOKEN: &str = "0123456789abcdefghij0123456789";

    struct Files {
        _folder: tempfile::TempDir,
        certificate: PathBuf,
        key: PathBuf,
        tokens: PathBuf,
        users: PathBuf,
        der: CertificateDer<'static>,
    }

    fn files() -> Files {
        let made = rcgen::generate_simple_self_signed(["weir.test", "localhost"].map(str::to_owned)).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let hashed = weir_reads(["serve", "--hash-password", "ann"], b"a long password\n".to_vec()).exits(0);
        assert!(hashed.text().starts_with("ann:look:$argon2id$"), "{}", hashed.text());
        Files {
            certificate: put(folder.path(), "cert.pem", made.cert.pem().as_bytes()),
            key: put_private(folder.path(), "key.pem", made.signing_key.serialize_pem().as_bytes()),
            tokens: put_private(folder.path(), "tokens", format!("{TOKEN}\n").as_bytes()),
            users: put_private(folder.path(), "users", hashed.text().as_bytes()),
            der: made.cert.der().clone(),
            _folder: folder,
        }
    }

    fn stored(folder: &Path) -> PathBuf {
        let store = folder.join("store");
        let sample = sample();
        weir([text(&sample), "-q", "-o", text(&store), "--log", "store"]).exits(0);
        store
    }

    #[test]
    fn other_addresses_need_tls_and_authentication() {
        let files = files();
        let folder = tempfile::tempdir().unwrap();
        let store = stored(folder.path());
        let port = port().to_string();
        let tls = ["--tls-cert", text(&files.certificate), "--tls-key", text(&files.key)];
        let token = ["--token-file", text(&files.tokens)];
        let common = ["serve", "--store", text(&store), "--port", &port, "--listen", "0.0.0.0"];
        weir(common).exits(1).says("TLS");
        weir(common.iter().chain(&tls)).exits(1).says("--user-file");
        weir(common.iter().chain(&token)).exits(1).says("--tls-cert");
        weir(
            common
                .iter()
                .chain(&["--tls-cert", text(&files.key), "--tls-key", text(&files.key)])
                .chain(&token),
        )
        .exits(1)
        .says("key.pem");
        weir(common.iter().chain(&tls).chain(&["--user-file", text(&files.tokens)]))
            .exits(1)
            .says("tokens:1");

        let server = Server::start(program().args(common).args(tls).args(token));
        assert!(server.address.starts_with("https://"), "{}", server.address);
        let ask = |path: &str, header: &str| {
            let mut roots = RootCertStore::empty();
            roots.add(files.der.clone()).unwrap();
            let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
            let config =
                ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
            let config = config.with_root_certificates(roots).with_no_client_auth();
            let name = ServerName::try_from("weir.test").unwrap();
            let tcp = TcpStream::connect(format!("127.0.0.1:{port}")).unwrap();
            let mut stream = StreamOwned::new(ClientConnection::new(Arc::new(config), name).unwrap(), tcp);
            write!(stream, "GET {path} HTTP/1.1\r\nHost: weir.test\r\nConnection: close\r\n{header}\r\n")
                .unwrap();
            let mut bytes = Vec::new();
            let _ = stream.read_to_end(&mut bytes);
            Answer::parse(&bytes)
        };
        assert_eq!(ask("/api/v1/status", "").status, 401);
        assert_eq!(ask("/", "").status, 401);
        assert_eq!(ask("/healthz", "").status, 200);
        let answer = ask("/api/v1/status", &format!("Authorization: Bearer {TOKEN}\r\n")).is(200).json();
        assert_eq!((&answer["mode"], &answer["write"]), (&json!("store"), &json!(false)));
        assert_eq!(ask("/api/v1/status", "Authorization: Bearer 0123456789abcdefghijk\r\n").status, 401);
        let strict = &ask("/healthz", "").headers["strict-transport-security"];
        assert_eq!(strict, "max-age=31536000", "the browser must use TLS from now on");
        // The command that applies configurations trusts the program's certificate.
        let new = put(folder.path(), "new.toml", b"");
        let token = put_private(folder.path(), "token", TOKEN.as_bytes());
        let to = format!("https://localhost:{port}");
        let apply = ["config", "apply", text(&new), "--to", &to, "--token-file", text(&token)];
        weir(apply).exits(1).says("its certificate is needed");
        let trust = ["--certificate", text(&files.certificate)];
        weir(apply.iter().chain(&trust)).exits(1).says("has the rights look, but not write");
        // A request without TLS gets no answer.
        let mut plain = TcpStream::connect(format!("127.0.0.1:{port}")).unwrap();
        plain.write_all(b"GET /api/v1/status HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        let mut bytes = Vec::new();
        let _ = plain.read_to_end(&mut bytes);
        assert!(!bytes.starts_with(b"HTTP"), "{}", String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn passwords_are_required_on_loopback_if_users_are_configured() {
        let files = files();
        let folder = tempfile::tempdir().unwrap();
        let store = stored(folder.path());
        let port = port().to_string();
        let arguments =
            ["serve", "--store", text(&store), "--port", &port, "--user-file", text(&files.users)];
        let server = Server::start(program().args(arguments));
        let refused = server.get("/api/v1/status").is(401);
        assert!(
            refused.headers["www-authenticate"].starts_with("Basic "),
            "a browser shows its log-in dialog"
        );
        assert!(refused.json()["help"].as_str().unwrap().contains("password"));
        // "ann:a long password" and "ann:another password" in Base64.
        let ask = |base64: &str| {
            let value = format!("Basic {base64}");
            server.request("GET", "/api/v1/status", &[("Authorization", &value)], "").status
        };
        assert_eq!(ask("YW5uOmEgbG9uZyBwYXNzd29yZA=="), 200);
        assert_eq!(ask("YW5uOmFub3RoZXIgcGFzc3dvcmQ="), 401);
        assert_eq!(ask("%%%"), 401);
        let body = "{\"text\": \"\"}";
        let headers =
            [("Authorization", "Basic YW5uOmEgbG9uZyBwYXNzd29yZA=="), ("Content-Type", "application/json")];
        assert_eq!(server.request("POST", "/api/v1/config/apply", &headers, body).status, 403);
    }

    #[test]
    fn a_password_is_hashed_or_refused() {
        weir_reads(["serve", "--hash-password", "ann"], b"short".to_vec()).exits(1).says("8 characters");
        weir_reads(["serve", "--hash-password", "a:b"], b"long enough".to_vec()).exits(1).says("colon");
        let one = weir_reads(["serve", "--hash-password"], b"long enough\n".to_vec()).exits(0);
        let two = weir_reads(["serve", "--hash-password"], b"long enough\n".to_vec()).exits(0);
        assert!(one.text().starts_with("weir:look:") && one.text() != two.text(), "salted");
    }
}

/// A run with an unread standard output still ends.
#[test]
fn ctrl_c_ends_the_program_while_it_reads_a_capture() {
    let mut child = start(program().args(["open", "-", "--port", &port().to_string()]).stdin(Stdio::piped()));
    let held = child.stdin.take();
    handles(&child, 2);
    thread::sleep(Duration::from_millis(500));
    signal(&child, "INT");
    finish(child).exits(130);
    drop(held);
}

/// The percent-encoded form of a text in a query.
fn encoded(text: &str) -> String {
    text.bytes()
        .map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => char::from(byte).to_string(),
            byte => format!("%{byte:02X}"),
        })
        .collect()
}

#[test]
fn ends_of_a_range_are_read_in_the_words_of_queries() {
    let server = Server::open(&[]);
    for (since, until) in [
        ("yesterday 9:00", "today 14:05"),
        ("3 days ago", "now"),
        ("2h", "13:50"),
        ("2020-01-01", "2031-01-01T12:30:00Z"),
        ("1000000000", "yesterday"),
    ] {
        let zone = "Europe/Berlin";
        let query = format!("flows since {since} until {until}");
        let path = format!("/api/v1/query?q={}&zone={zone}", encoded(&query));
        let status = server.get(&path).status;
        let path = format!("/api/v1/range?since={}&until={}&zone={zone}", encoded(since), encoded(until));
        if status == 400 {
            // A time of day can be before the other end.
            assert_eq!(server.get(&path).status, 400, "{since} to {until}");
            continue;
        }
        let asked =
            &server.json(&format!("/api/v1/query?q={}&zone={zone}", encoded(&query)))["basis"]["asked"];
        assert_eq!(&server.json(&path)["asked"], asked, "{since} to {until}");
    }
    let body = server.get("/api/v1/range?since=yesterdy").is(400).text();
    assert!(
        body.contains("since: ") && body.contains("is not a time") && body.contains("3 days ago"),
        "{body}"
    );
    server.get("/api/v1/range?since=now&until=yesterday").is(400);
    server.get("/api/v1/range?since=now&from=1").is(400);
}

/// The tables of a subscription.
fn tables_of<'t>(tables: &'t Value, name: &str) -> &'t Value {
    let found = array(tables, "subscriptions").iter().find(|one| one["name"] == name);
    found.unwrap_or_else(|| panic!("no {name} in {tables}"))
}

#[test]
fn a_filter_narrows_the_lists_of_records() {
    let server = Server::open(&[]);
    let all = server.json("/api/v1/tables?limit=50");
    // Every flow matches: the lists that are computed from records are those that were counted.
    let every = server.json(&format!("/api/v1/tables?limit=50&filter={}", encoded("flow.packets > 0")));
    for name in ["names", "sites", "tls versions", "user agents", "status codes"] {
        let (counted, computed) = (tables_of(&all, name), tables_of(&every, name));
        assert_eq!(computed["whole"], Value::Null, "{name}");
        assert!(!array(&counted["tables"][0], "rows").is_empty(), "{name}");
        for part in ["columns", "rows", "others", "total", "ranked", "absent"] {
            assert_eq!(computed["tables"][0][part], counted["tables"][0][part], "{part} of {name}");
        }
    }
    let names = array(&tables_of(&all, "names")["tables"][0], "rows");
    let (first, second) = (names[0]["values"][0].as_str().unwrap(), names[1]["values"][0].as_str().unwrap());
    let narrowed = format!("dns.query = \"{second}\"");
    let some = server.json(&format!("/api/v1/tables?filter={}", encoded(&narrowed)));
    let rows = array(&tables_of(&some, "names")["tables"][0], "rows");
    assert!(rows.iter().any(|row| row["values"] == names[1]["values"]), "{some}");
    assert!(rows.iter().all(|row| row["values"][0] != first), "{some}");
    // Delays are measured for the list alone, without --measure.
    let latency = tables_of(&some, "latency");
    assert!(latency["whole"].as_str().is_some_and(|why| why.contains("--measure")), "{latency}");
    assert!(!array(&latency["tables"][0], "rows").is_empty());
    // Packets are counted as they pass, and are not stored.
    let frames = tables_of(&some, "frames");
    assert!(frames["whole"].as_str().is_some_and(|why| why.contains("not stored")), "{frames}");
    assert_eq!(frames["tables"], tables_of(&all, "frames")["tables"]);
    // Records have no sender.
    let some = server.json(&format!("/api/v1/tables?filter={}", encoded("src host 10.0.0.1")));
    assert!(tables_of(&some, "names")["whole"].is_string(), "{some}");
    server.get("/api/v1/tables?filter=tcp+prt+80").is(400);
}

#[test]
fn a_filter_narrows_delays_that_are_stored() {
    let server = Server::open(&["--measure"]);
    let all = server.json("/api/v1/tables?limit=50");
    let every = server.json(&format!("/api/v1/tables?limit=50&filter={}", encoded("flow.packets > 0")));
    let (counted, computed) = (tables_of(&all, "latency"), tables_of(&every, "latency"));
    assert_eq!(computed["whole"], Value::Null);
    for table in 0..2 {
        assert!(!array(&counted["tables"][table], "rows").is_empty());
        assert_eq!(computed["tables"][table], counted["tables"][table]);
    }
}

#[test]
fn flows_have_any_field_beside_them() {
    let server = Server::open(&[]);
    let fields =
        "flow.sent_ttl,flow.client_mac,flow.bytes,flow.client,flow.service,dns.query,flow.inner_vlan";
    let path = format!("/api/v1/flows?limit=40&fields={fields}&filter={}", encoded("dns.query"));
    let flows = server.json(&path);
    assert!(!array(&flows, "rows").is_empty());
    for row in array(&flows, "rows") {
        let values = &row["values"];
        let bytes = row["bytes"][0].as_u64().unwrap() + row["bytes"][1].as_u64().unwrap();
        assert_eq!(
            (
                &values["flow.bytes"],
                &values["flow.client"],
                &values["flow.service"],
                &values["flow.inner_vlan"]
            ),
            (&json!(bytes), &row["source"], &row["service"], &Value::Null)
        );
        let detail = server.json(&format!("/api/v1/flows/{}", row["id"].as_str().unwrap()));
        let fact = |name: &str| {
            array(&detail, "details")
                .iter()
                .find(|fact| fact["name"] == name)
                .map(|fact| fact["value"].clone())
        };
        assert_eq!(
            fact("ttl"),
            values["flow.sent_ttl"].as_u64().map(|ttl| json!(ttl.to_string())),
            "{detail}"
        );
        assert_eq!(fact("mac"), Some(values["flow.client_mac"].clone()));
        let asked: BTreeSet<&str> = array(&detail, "records")
            .iter()
            .filter(|record| record["table"] == "dns")
            .filter_map(|record| record["values"]["query"].as_str())
            .collect();
        let given: BTreeSet<&str> = match &values["dns.query"] {
            Value::Array(all) => all.iter().filter_map(Value::as_str).collect(),
            one => one.as_str().into_iter().collect(),
        };
        assert!(!given.is_empty() && given.is_subset(&asked), "{given:?} of {asked:?}");
        assert!(given == asked || given.len() == 8, "{given:?} of {asked:?}");
    }
    assert!(server.json("/api/v1/flows?limit=1")["rows"][0].get("values").is_none());
    server.get("/api/v1/flows?fields=flow.colour").is(400);
    let many = vec!["flow.bytes"; 33].join(",");
    server.get(&format!("/api/v1/flows?fields={many}")).is(400);
}
