//! `weir serve` on a live link, tested from the namespace in which it listens. Needs root and ip(8); otherwise each
//! test is skipped, with the reason.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod support;

use serde_json::{Value, json};
use socket2::{Domain, Socket, Type};
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Child;
use std::sync::mpsc::channel;
use std::thread;
use support::http::*;
use support::net::*;
use support::*;

/// Runs in a namespace, in a separate process.
#[test]
#[ignore = "run by the other tests, in a namespace"]
fn sender() {
    send_unsegmented();
}

/// Sends the given requests from inside a namespace, and prints each answer on a line.
#[test]
#[ignore = "run by the other tests, in a namespace"]
fn asker() {
    let Ok(order) = std::env::var("WEIR_ASK") else { return };
    let order: Value = serde_json::from_str(&order).unwrap();
    let host = order["host"].as_str().unwrap();
    for request in order["requests"].as_array().unwrap() {
        let mut stream = TcpStream::connect(host).unwrap();
        stream.write_all(request.as_str().unwrap().as_bytes()).unwrap();
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes);
        let answer = Answer::parse(&bytes);
        println!("answer: {}", json!({"status": answer.status, "body": answer.text()}));
    }
}

/// Takes the next complete tick out of a stream's text. Returns its time in milliseconds.
fn next_tick(text: &mut String) -> Option<u64> {
    const BEGIN: &str = "event: tick\ndata: ";
    let begin = text.find(BEGIN)? + BEGIN.len();
    let end = begin + text[begin..].find("\n\n")?;
    let tick: Value = serde_json::from_str(&text[begin..end]).unwrap();
    text.drain(..end);
    Some((tick["time"].as_f64().unwrap() * 1000.0).round() as u64)
}

/// Opens event streams from inside a namespace, and leaves some of them unread.
#[test]
#[ignore = "run by the other tests, in a namespace"]
fn reader() {
    let Ok(order) = std::env::var("WEIR_READ") else { return };
    let order: Value = serde_json::from_str(&order).unwrap();
    let host = order["host"].as_str().unwrap().to_owned();
    let number = |key: &str| order[key].as_u64().unwrap();
    let request = format!("GET /api/v1/live HTTP/1.1\r\nHost: {host}\r\n\r\n");
    let mut slow = Vec::new();
    for _ in 0..number("slow") {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.set_recv_buffer_size(4096).unwrap();
        socket.connect(&host.parse::<SocketAddr>().unwrap().into()).unwrap();
        let mut stream = TcpStream::from(socket);
        stream.write_all(request.as_bytes()).unwrap();
        slow.push(stream);
    }
    let (to, from) = channel();
    for _ in 0..number("streams") {
        let (to, host, request, ticks) =
            (to.clone(), host.clone(), request.clone(), number("pulses") as usize);
        thread::Builder::new()
            .stack_size(256 << 10)
            .spawn(move || {
                let mut stream = TcpStream::connect(host).unwrap();
                stream.write_all(request.as_bytes()).unwrap();
                stream.set_read_timeout(Some(HANGS)).unwrap();
                let (mut times, mut buffer, mut text) = (Vec::new(), [0; 16 << 10], String::new());
                while times.len() < ticks {
                    let n = stream.read(&mut buffer).expect("ticks continue to arrive");
                    if n == 0 {
                        break;
                    }
                    text.push_str(&String::from_utf8_lossy(&buffer[..n]));
                    while let Some(time) = next_tick(&mut text) {
                        times.push(time);
                    }
                }
                to.send(times).unwrap();
            })
            .unwrap();
    }
    drop(to);
    let all: Vec<Vec<u64>> = from.iter().collect();
    // All streams are compared from the first tick that all have received.
    let first = all.iter().filter_map(|times| times.first()).max().copied().unwrap_or_default();
    let last = all.iter().filter_map(|times| times.last()).min().copied().unwrap_or_default();
    let within = |times: &Vec<u64>| -> Vec<u64> {
        times.iter().copied().filter(|time| (first..=last).contains(time)).collect()
    };
    let alike = all.iter().filter(|times| within(times) == within(&all[0])).count();
    let apart = all.iter().flat_map(|times| times.windows(2).map(|two| two[1].saturating_sub(two[0]))).min();
    let min = all.iter().map(Vec::len).min();
    println!("read: {}", json!({"streams": all.len(), "min": min, "alike": alike, "apart": apart}));
    drop(slow);
}

/// The program that serves at the far end of the link.
struct Pages<'n> {
    net: &'n Net,
    server: Server,
}

impl<'n> Pages<'n> {
    fn start(net: &'n Net, arguments: &[&str]) -> Self {
        net.ip(&net.there, &["link", "set", "lo", "up"]);
        let port = port().to_string();
        let all: Vec<&str> =
            ["serve", "-i", "far", "--port", &port].into_iter().chain(arguments.iter().copied()).collect();
        Self { net, server: Server::start(&mut net.weir(&all)) }
    }

    fn own(&self, test: &str) -> std::process::Command {
        self.net.test(&self.net.there, test)
    }

    /// Status and body of each request.
    #[track_caller]
    fn ask(&self, requests: &[String]) -> Vec<(u64, String)> {
        let order = json!({"host": self.server.host(), "requests": requests}).to_string();
        let ran = run(self.own("asker").env("WEIR_ASK", order)).exits(0);
        let answers = ran.text();
        let answers = answers.lines().filter_map(|line| line.split_once("answer: "));
        let read = |(_, answer): (&str, &str)| {
            let answer: Value = serde_json::from_str(answer).unwrap();
            (answer["status"].as_u64().unwrap(), answer["body"].as_str().unwrap().to_owned())
        };
        answers.map(read).collect()
    }

    fn request(&self, method: &str, path: &str, headers: &str, body: &str) -> String {
        let length = body.len();
        let host = self.server.host();
        format!(
            "{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nContent-Length: {length}\r\n{headers}\r\n{body}"
        )
    }

    #[track_caller]
    fn json(&self, path: &str) -> Value {
        let (status, body) = self.ask(&[self.request("GET", path, "", "")]).remove(0);
        assert_eq!(status, 200, "{body}");
        serde_json::from_str(&body).unwrap()
    }

    /// Reads `streams` streams until each has had `ticks` ticks, and keeps `slow` others open without reading them.
    fn read(&self, streams: u64, slow: u64, ticks: u64) -> Child {
        let order = json!({"host": self.server.host(), "streams": streams, "slow": slow, "pulses": ticks});
        let reader = start(self.own("reader").env("WEIR_READ", order.to_string()));
        let clients = || self.json("/api/v1/sensor")["clients"][0].clone();
        assert!(eventually(|| clients()["connected"] == streams + slow), "{}", clients());
        reader
    }
}

#[track_caller]
fn emitted(reader: Child) -> Value {
    let ran = finish(reader).exits(0);
    let text = ran.text();
    let line = text
        .lines()
        .find_map(|line| line.split_once("read: "))
        .expect("the reader prints its results")
        .1
        .to_owned();
    serde_json::from_str(&line).unwrap()
}

#[test]
fn the_pages_count_every_packet_of_a_link() {
    let Some(net) = Net::new() else { return };
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    let pages = Pages::start(&net, &["--interval", "1s", "--store", text(&store)]);
    let status = pages.json("/api/v1/status");
    assert_eq!((&status["mode"], &status["source"]), (&json!("live"), &json!(["far"])));
    let sent = net.send(5000);
    let caught = || {
        let sensor = pages.json("/api/v1/sensor");
        let rows = sensor["ledger"].as_array().unwrap().clone();
        rows.iter().find(|row| row["name"] == "caught").unwrap()["value"].as_u64().unwrap()
    };
    assert!(eventually(|| caught() == sent), "{} of {sent}", caught());
    assert!(eventually(|| !pages.json("/api/v1/top?list=talkers")["rows"].as_array().unwrap().is_empty()));
    let events = pages.json("/api/v1/events");
    assert_eq!(events["events"][0]["kind"], "start", "{events}");
    let (code, printed) = pages.server.end();
    assert_eq!(code, Some(130), "the exit code of every live run");
    assert!(printed.contains("interrupted") && printed.contains("5,000"), "{printed}");
    // The stored data is served again, with the events of the sensor.
    let port = port().to_string();
    let again = Server::start(program().args(["serve", "--store", text(&store), "--port", &port]));
    let events = again.json("/api/v1/events")["events"].to_string();
    assert!(events.contains("\"end\"") && events.contains("\"start\""), "{events}");
    let flows = again.json("/api/v1/flows");
    assert_eq!(flows["matched_packets"].as_u64(), Some(sent), "{flows}");
}

#[test]
fn packets_of_an_unfinished_file_can_be_read() {
    let Some(net) = Net::new() else { return };
    let folder = tempfile::tempdir().unwrap();
    let dump = folder.path().join("dump.pcapng");
    let pages = Pages::start(&net, &["-w", text(&dump), "-j"]);
    assert_eq!(pages.json("/api/v1/status")["packets"], json!(true));
    let size = |question: &str| pages.json(&format!("/api/v1/packets/size?{question}"));
    let mut sent = 0;
    for packets in [3000, 20_000] {
        sent += net.send(packets);
        assert!(eventually(|| size("filter=udp")["packets"] == sent), "{} of {sent}", size("filter=udp"));
    }
    assert!(!dump.exists(), "the file gets its name when it is finished");
    assert_eq!(size("filter=udp")["partial"], Value::Null, "an incomplete record is not reported");
    assert_eq!(size("filter=tcp")["packets"], 0);
    assert_eq!(size("from=1&to=2"), json!({"packets": 0, "bytes": 24, "partial": null}));
    // The file has grown since 3,000 packets were counted; the download still has these.
    assert_eq!(size("filter=udp&limit=3000")["packets"], 3000);
    assert_eq!(size("filter=udp&limit=0")["packets"], 0);
    let (code, _) = pages.server.end();
    assert_eq!((code, dump.exists()), (Some(130), true));
}

/// Two files of a megabyte in turn: the answer reports that earlier files no longer exist.
#[test]
fn packets_of_rotated_files_can_be_read() {
    let Some(net) = Net::new() else { return };
    let folder = tempfile::tempdir().unwrap();
    let dump = folder.path().join("dump.pcap");
    let pages = Pages::start(&net, &["-w", text(&dump), "-C", "1", "-W", "2", "-j"]);
    let sender = net.begin_to_send(60_000, 500);
    let size = || pages.json("/api/v1/packets/size");
    // No answer fails while files appear and disappear.
    assert!(eventually(|| size()["partial"] != Value::Null));
    let sent = Net::sent(sender);
    let kept = || -> u64 {
        fs::read_dir(folder.path()).unwrap().map(|file| file.unwrap().metadata().unwrap().len()).sum()
    };
    let is_enough = |size: &Value| {
        size["packets"].as_u64().is_some_and(|packets| packets > 13_000 && packets < sent)
            && size["bytes"].as_u64().is_some_and(|bytes| bytes <= kept())
    };
    assert!(eventually(|| is_enough(&size())), "{} of {sent}, {} bytes are present", size(), kept());
    let last = size();
    assert!(
        last["partial"].as_str().is_some_and(|text| text.contains("files of the dump no longer exist")),
        "{last}"
    );
    assert_eq!(pages.server.end().0, Some(130));
}

/// Two hundred streams get the same ticks, each of another second, without loss of packets.
#[test]
fn two_hundred_streams_cause_no_loss_on_a_busy_link() {
    let Some(net) = Net::new() else { return };
    let pages = Pages::start(&net, &["-j"]);
    let reader = pages.read(200, 0, 9);
    let sender = net.begin_to_send(200_000, 2000);
    let read = emitted(reader);
    println!("{read}");
    assert_eq!((&read["streams"], &read["min"], &read["alike"]), (&json!(200), &json!(9), &json!(200)));
    assert!(read["apart"].as_u64() >= Some(1000), "{read}");
    let sent = Net::sent(sender);
    let (code, printed) = pages.server.end();
    assert_eq!(code, Some(130));
    let ledger = objects(&printed).into_iter().find(|fact| fact["kind"] == "ledger").unwrap();
    assert_eq!((&ledger["caught"], &ledger["dropped"]), (&json!(sent), &json!(0)), "no packet is lost");
}

/// At the full speed of one core, drops caused by two hundred streams are counted. `bench/run --only pages` measures
/// the cost of streams.
#[test]
fn two_hundred_streams_at_full_speed_count_their_losses() {
    let Some(net) = Net::new() else { return };
    let pages = Pages::start(&net, &["-j"]);
    let reader = pages.read(200, 0, 5);
    let sent = net.send(1_500_000);
    let read = emitted(reader);
    let (code, printed) = pages.server.end();
    assert_eq!(code, Some(130));
    let ledger = objects(&printed).into_iter().find(|fact| fact["kind"] == "ledger").unwrap();
    let (caught, dropped) = (ledger["caught"].as_u64().unwrap(), ledger["dropped"].as_u64().unwrap());
    println!("{dropped} of {sent} dropped; {read}");
    assert_eq!(caught + dropped, sent, "lost packets are counted");
    assert_eq!((&read["streams"], &read["min"], &read["alike"]), (&json!(200), &json!(5), &json!(200)));
}

#[test]
fn a_stream_that_is_not_read_is_dropped_and_others_continue() {
    let Some(net) = Net::new() else { return };
    let pages = Pages::start(&net, &[]);
    let mut reader = pages.read(3, 5, u64::MAX);
    let clients = || pages.json("/api/v1/sensor")["clients"][0].clone();
    assert!(eventually(|| clients()["dropped"] == 5), "{}", clients());
    assert!(eventually(|| clients()["connected"] == 3), "{}", clients());
    let metrics = pages.ask(&[pages.request("GET", "/metrics", "", "")]).remove(0).1;
    assert!(metrics.contains("weir_event_streams_dropped_total 5"), "{metrics}");
    let _ = reader.kill();
    let _ = reader.wait();
    assert!(eventually(|| clients()["connected"] == 0), "{}", clients());
    assert_eq!(pages.server.end().0, Some(130));
}

#[test]
fn downloads_need_the_right_packets_and_are_recorded() {
    let Some(net) = Net::new() else { return };
    let folder = tempfile::tempdir().unwrap();
    let (dump, log) = (folder.path().join("dump.pcap"), folder.path().join("downloads"));
    let lines = b"looker-looker-looker-1 lou look\nloader-loader-loader-1 ann look,packets\n";
    let tokens = put_private(folder.path(), "tokens", lines);
    let pages = Pages::start(
        &net,
        &["-w", text(&dump), "--token-file", text(&tokens), "--access-log", text(&log), "-j"],
    );
    let get = |token: &str, path: &str| {
        let headers = format!("Authorization: Bearer {token}\r\n");
        pages.ask(&[pages.request("GET", path, &headers, "")]).remove(0)
    };
    let (lou, ann) = ("looker-looker-looker-1", "loader-loader-loader-1");
    let sent = net.send(1000);
    let size = || serde_json::from_str::<Value>(&get(ann, "/api/v1/packets/size?filter=udp").1).unwrap();
    assert!(eventually(|| size()["packets"] == sent), "{}", size());
    assert_eq!(get(ann, "/api/v1/packets?filter=udp").0, 200);
    for path in ["/api/v1/packets?filter=udp", "/api/v1/packets/size?filter=udp"] {
        let (status, body) = get(lou, path);
        assert_eq!(status, 403, "{body}");
        assert!(body.contains("lou has the rights look, but not packets"), "{body}");
    }
    let status = |token: &str| serde_json::from_str::<Value>(&get(token, "/api/v1/status").1).unwrap();
    let (of_lou, of_ann) = (status(lou), status(ann));
    assert_eq!((&of_ann["user"], &of_ann["packets"]), (&json!("ann"), &json!(true)));
    assert_eq!((&of_lou["packets"], of_ann["packets_refused"].is_null()), (&json!(false), true));
    assert!(of_lou["packets_refused"].as_str().is_some_and(|text| text.contains("packets")), "{of_lou}");
    let bytes = size()["bytes"].clone();
    assert_eq!(pages.server.end().0, Some(130));
    let lines: Vec<Value> = objects(&fs::read_to_string(&log).unwrap());
    let of = |name: &str, route: &str| {
        let is_it = |line: &&Value| line["name"] == name && line["route"] == route;
        lines.iter().filter(is_it).cloned().collect::<Vec<_>>()
    };
    let download = of("ann", "/api/v1/packets").remove(0);
    assert_eq!((&download["what"], &download["filter"]), (&json!("download"), &json!("udp")));
    assert_eq!(
        (&download["status"], &download["bytes"], &download["complete"]),
        (&json!(200), &bytes, &json!(true))
    );
    assert!(download["address"] == "127.0.0.1" && download["time"].is_string(), "{download}");
    let refused = of("lou", "/api/v1/packets").remove(0);
    assert_eq!((&refused["status"], &refused["what"]), (&json!(403), &json!("download")));
    assert!(!fs::read_to_string(&log).unwrap().contains("looker-looker"), "no token is written");
}

#[test]
fn applying_a_configuration_needs_the_right_write() {
    let Some(net) = Net::new() else { return };
    let folder = tempfile::tempdir().unwrap();
    let old = "interval = \"1s\"\n";
    let file = put(folder.path(), "weir.toml", old.as_bytes());
    let tokens =
        put_private(folder.path(), "tokens", b"reader-reader-reader-1\nwriter-writer-writer-1 write\n");
    let pages = Pages::start(&net, &["-c", text(&file), "--token-file", text(&tokens), "-j"]);
    let apply = |token: &str, new: &str| {
        let headers = format!("Content-Type: application/json\r\nAuthorization: Bearer {token}\r\n");
        let body = json!({"text": new}).to_string();
        let (status, body) =
            pages.ask(&[pages.request("POST", "/api/v1/config/apply", &headers, &body)]).remove(0);
        (status, serde_json::from_str::<Value>(&body).unwrap())
    };
    let get = |path: &str| {
        let headers = "Authorization: Bearer writer-writer-writer-1\r\n";
        let (status, body) = pages.ask(&[pages.request("GET", path, headers, "")]).remove(0);
        assert_eq!(status, 200, "{body}");
        serde_json::from_str::<Value>(&body).unwrap()
    };
    assert_eq!(get("/api/v1/status")["write"], true);
    let before = net.send(1000);
    let new = format!(
        "{old}[[chart]]\nname = \"mine\"\nunit = \"packets\"\nlines = [{{ name = \"nine\", expression = \"udp port 9\" }}]\n"
    );
    assert_eq!(apply("reader-reader-reader-1", &new).0, 403);
    let (status, bad) = apply("writer-writer-writer-1", "interval = \"1s\"\nexpression = \"udp prt 9\"\n");
    assert_eq!((status, &bad["ok"], &bad["applied"]), (200, &json!(false), &json!(false)), "{bad}");
    assert_eq!(fs::read_to_string(&file).unwrap(), old, "an invalid configuration changes nothing");
    let (status, good) = apply("writer-writer-writer-1", &new);
    assert_eq!((status, &good["applied"]), (200, &json!(true)), "{good}");
    assert_eq!(fs::read_to_string(&file).unwrap(), new);
    let mine = || {
        let charts = get("/api/v1/charts");
        charts["charts"].as_array().unwrap().iter().find(|chart| chart["name"] == "mine").cloned()
    };
    assert!(eventually(|| mine().is_some()), "the new chart is listed");
    let id = mine().unwrap()["lines"][0]["id"].as_str().unwrap().to_owned();
    let points = || {
        let data = get(&format!("/api/v1/series/data?ids={id}"));
        let points = data["series"][0]["max"].as_array().cloned().unwrap_or_default();
        points.iter().filter_map(Value::as_f64).sum::<f64>()
    };
    // The change takes effect from the tick after next on.
    let mut after = 0;
    let has_points = eventually(|| {
        after += net.send(100);
        points() > 0.0
    });
    assert!(has_points, "the new line has points");
    assert!(get("/api/v1/events")["events"].to_string().contains("configuration applied"));
    let (code, printed) = pages.server.end();
    assert_eq!(code, Some(130));
    let ledger = objects(&printed).into_iter().find(|fact| fact["kind"] == "ledger").unwrap();
    assert_eq!(ledger["caught"], json!(before + after), "a change of plans counts each packet once");
}

/// A check gives the verdict of applying, and leaves nothing behind. Clients that may not apply learn nothing about folders.
#[test]
fn a_check_refuses_what_applying_refuses() {
    let Some(net) = Net::new() else { return };
    let folder = tempfile::tempdir().unwrap();
    let kept = |name: &str| folder.path().join(name).display().to_string();
    fs::create_dir(kept("logs")).unwrap();
    let old = format!("[output]\ndir = \"{}\"\nlog = [\"csv:flow\"]\n", kept("logs"));
    let file = put(folder.path(), "weir.toml", old.as_bytes());
    let tokens =
        put_private(folder.path(), "tokens", b"reader-reader-reader-1\nwriter-writer-writer-1 write\n");
    let pages = Pages::start(&net, &["-c", text(&file), "--token-file", text(&tokens), "-j"]);
    let post = |token: &str, route: &str, new: &str| {
        let headers = format!("Content-Type: application/json\r\nAuthorization: Bearer {token}\r\n");
        let body = json!({"text": new}).to_string();
        let path = format!("/api/v1/config/{route}");
        let (status, body) = pages.ask(&[pages.request("POST", &path, &headers, &body)]).remove(0);
        assert_eq!(status, 200, "{body}");
        serde_json::from_str::<Value>(&body).unwrap()
    };
    let output = |dir: &str| format!("[output]\ndir = \"{dir}\"\nlog = [\"csv:flow\"]\n");
    let more = |text: &str| format!("{old}{text}");
    fs::write(kept("file"), b"").unwrap();
    let refused = [
        output("/etc"),
        output("/proc"),
        output("/etc/a/b"),
        output(&kept("file")),
        output(&kept("file/a")),
        more("[packets]\nwrite = \"/etc/a.pcapng\"\n"),
        more("[packets]\nunidentified = \"/proc/a.pcapng\"\n"),
        more(&format!("[packets]\nwrite = \"{}\"\n", kept("absent/a.pcapng"))),
        more("[files]\ndir = \"/etc\"\n"),
        more("[files]\ndir = \"/etc/a\"\n"),
    ];
    for new in refused {
        let (check, apply) =
            (post("writer-writer-writer-1", "check", &new), post("writer-writer-writer-1", "apply", &new));
        assert_eq!((&check["ok"], &apply["applied"]), (&json!(false), &json!(false)), "{new}: {check}");
        assert_eq!(check["errors"], apply["errors"], "{new}");
        assert_eq!(post("reader-reader-reader-1", "check", &new)["ok"], true, "{new}");
    }
    assert_eq!(fs::read_to_string(&file).unwrap(), old, "nothing was changed");
    for new in [
        output(&kept("logs/more/logs")),
        more(&format!("[packets]\nwrite = \"{}\"\n", kept("logs/a.pcapng"))),
    ] {
        let before = fs::read_dir(kept("logs")).unwrap().count();
        let check = post("writer-writer-writer-1", "check", &new);
        assert_eq!((&check["ok"], &check["applied"]), (&json!(true), &json!(false)), "{check}");
        assert_eq!(fs::read_dir(kept("logs")).unwrap().count(), before, "a check writes nothing");
        let apply = post("writer-writer-writer-1", "apply", &new);
        assert_eq!(apply["applied"], true, "{apply}");
        assert_eq!((&check["difference"], &check["restart"]), (&apply["difference"], &apply["restart"]));
    }
    assert_eq!(pages.server.end().0, Some(130));
}

/// As a person at a terminal adds a subscription.
#[test]
fn a_configuration_is_applied_by_a_command() {
    let Some(net) = Net::new() else { return };
    let folder = tempfile::tempdir().unwrap();
    let old = "interval = \"1s\"\n";
    let file = put(folder.path(), "weir.toml", old.as_bytes());
    let tokens = put_private(folder.path(), "tokens", b"writer-writer-writer-1 write\n");
    let token = put_private(folder.path(), "token", b"writer-writer-writer-1\n");
    let pages = Pages::start(&net, &["-c", text(&file), "--token-file", text(&tokens), "-j"]);
    let to = format!("http://{}", pages.server.host());
    let apply = |name: &str, text_of: &str, more: &[&str]| {
        let new = put(folder.path(), name, text_of.as_bytes());
        run(net.weir(&["config", "apply", text(&new), "--to", &to]).args(more))
    };
    let list = "[[subscription]]\nname = \"names\"\nlevel = \"record\"\nchain = [\"top dns.query\"]\n";
    let new = format!("{old}{list}");
    apply("new.toml", &new, &[]).exits(1).says("a user and password, or a token");
    let bad = apply("bad.toml", "interval = \"1s\"\nexpression = \"udp prt 9\"\n", &[]).exits(1);
    bad.says("bad.toml:2:");
    assert_eq!(fs::read_to_string(&file).unwrap(), old, "nothing was changed");
    let with_token = ["--token-file", text(&token)];
    let applied = apply("new.toml", &new, &with_token).exits(0);
    assert!(applied.text().ends_with("configuration applied: +4 -0 lines\n"), "{}", applied.text());
    assert_eq!(fs::read_to_string(&file).unwrap(), new, "the program's own file has it");
    let restart = apply("new.toml", &format!("memory = \"1G\"\n{new}"), &with_token).exits(0);
    assert_eq!(
        restart.text(),
        "+memory = \"1G\"\nconfiguration applied: +1 -0 lines; needs a restart: memory\n"
    );
    assert_eq!(pages.server.end().0, Some(130));
    apply("new.toml", &new, &with_token).exits(1).says("is `weir serve` running there?");
}

/// Without users and tokens, who started the program on loopback needs no file of rights to change it.
#[test]
fn the_user_who_started_the_program_may_change_it() {
    let Some(net) = Net::new() else { return };
    let folder = tempfile::tempdir().unwrap();
    let old = "interval = \"1s\"\nexpression = \"udp\"\n";
    let file = put(folder.path(), "weir.toml", old.as_bytes());
    let pages = Pages::start(&net, &["-c", text(&file), "-j"]);
    let to = format!("http://{}", pages.server.host());
    let apply = |text_of: &str| {
        let new = put(folder.path(), "new.toml", text_of.as_bytes());
        run(&mut net.weir(&["config", "apply", text(&new), "--to", &to]))
    };
    let list = "[[subscription]]\nname = \"names\"\nlevel = \"record\"\nchain = [\"top dns.query\"]\n";
    let new = format!("{old}{list}");
    let applied = apply(&new).exits(0).text();
    assert!(applied.ends_with("configuration applied: +4 -0 lines\n"), "{applied}");
    assert_eq!(fs::read_to_string(&file).unwrap(), new, "the program's own file has it");
    // The kernel selects packets by the expression of the start.
    let restart = apply(&new.replace("udp", "tcp")).exits(0).text();
    assert!(restart.contains("needs a restart: expression"), "{restart}");
    assert_eq!(pages.server.end().0, Some(130));
}
