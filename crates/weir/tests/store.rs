//! The store of the program: queries agree with the capture, and the store of a killed process is consistent.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod support;

use rusqlite::Connection;
use serde_json::Value;
use std::net::UdpSocket;
use std::ops::Range;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, SystemTime};
use support::*;

fn query(folder: &Path, question: &str) -> Value {
    let ran = weir(["query", "-d", text(folder), "-j", question]).exits(0).quietly();
    serde_json::from_str(&ran.text()).unwrap()
}

fn sample() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/sample/sample.pcap")
}

#[test]
fn queries_of_a_store_agree_with_the_capture() {
    let folder = tempfile::tempdir().unwrap();
    let capture = sample();
    weir([text(&capture), "-o", text(folder.path()), "--log", "store", "-q"]).exits(0);
    // Expressions that a flow's key decides: either all packets of a flow match or none.
    for expression in
        ["tcp port 80", "udp port 53", "ip6 and tcp", "tcp and host 10.99.0.104", "tcp and not port 22"]
    {
        let counted = weir(["count", text(&capture), "-e", expression, "-j"]).exits(0).json();
        let truth = counted.iter().find(|line| line["packets"].is_u64()).unwrap();
        let answer = query(folder.path(), &format!("count where {expression}"));
        let row = &answer["rows"][0];
        assert_eq!(
            (&row[1], &row[2]),
            (&truth["packets"], &truth["bytes"]),
            "{expression}: {answer} {truth}"
        );
    }
    let facts = weir([text(&capture), "-j"]).exits(0).json();
    let sources = facts.iter().find(|line| line["subscription"] == "sources").unwrap();
    let answer = query(folder.path(), "top sender limit 3");
    for at in 0..3 {
        let (row, truth) = (&answer["rows"][at], &sources["rows"][at]);
        assert_eq!(
            (&row[0], &row[1], &row[4]),
            (&truth["label"], &truth["bytes"], &truth["error"]),
            "{answer}"
        );
    }
    let web = query(folder.path(), "records http limit 100 text weir.test");
    assert!(web["rows"].as_array().unwrap().len() > 10, "{web}");
    weir(["query", "-d", text(folder.path()), "flows where len > 9"]).exits(1).says("only packets have");
    weir(["query", "-d", "/nowhere", "flows"]).exits(2).says("no store");
    let csv = weir(["query", "-d", text(folder.path()), "--csv", "top service limit 2"]).exits(0).text();
    assert_eq!(csv.lines().count(), 3, "{csv}");
    weir(["store", "state", "-d", text(folder.path())]).exits(0).prints("when all tiers are full");
    weir(["store", "series", "-d", text(folder.path())]).exits(0).prints("ledger/caught  packets/s");
}

/// The rows of a table of a store, each as text.
/// The command that the details of a flow state selects the packets of this flow and no others, also where the ends use the same
/// ports again.
#[test]
fn the_command_of_a_flow_selects_its_packets() {
    let folder = tempfile::tempdir().unwrap();
    let twice = conversation(1_795_305_600 * SECOND).into_iter();
    let packets: Vec<(u64, Vec<u8>)> =
        twice.flat_map(|(time, data)| [(time, data.clone()), (time + 7200 * SECOND, data)]).collect();
    let mut packets = packets;
    packets.sort();
    let again = put(folder.path(), "again.pcap", &pcap(1, &packets));
    let mut compared = 0;
    for (n, capture) in [sample(), again].iter().enumerate() {
        let store = folder.path().join(n.to_string());
        weir([text(capture), "-o", text(&store), "--log", "store", "-q"]).exits(0);
        let flows = query(&store, "flows limit 60");
        let uid =
            flows["columns"].as_array().unwrap().iter().position(|column| column["name"] == "uid").unwrap();
        for row in flows["rows"].as_array().unwrap() {
            let answer = query(&store, &format!("flow {}", row[uid].as_str().unwrap()));
            let Some(command) = answer["notes"][0].as_str() else { continue };
            let fields = answer["rows"].as_array().unwrap();
            let known = fields.iter().find(|field| field[2] == "packets").unwrap()[3].clone();
            let known: u64 = known.as_array().unwrap().iter().filter_map(Value::as_u64).sum();
            let command = command.strip_prefix("its packets: weir ").unwrap();
            let parts: Vec<&str> = command.split('\'').collect();
            let out = folder.path().join("out.pcap");
            let after = parts[2].replace("OUT.pcap", text(&out));
            let arguments = [text(capture), "-q", parts[1]].into_iter().chain(after.split_whitespace());
            weir(arguments).exits(0);
            let counted = weir(["count", text(&out), "-e", "ip or ip6", "-j"]).exits(0).json();
            let found = counted.iter().find_map(|line| line["packets"].as_u64()).unwrap();
            assert_eq!(found, known, "{command}");
            compared += 1;
        }
    }
    println!("{compared} flows");
    assert!(compared > 40, "{compared}");
}

fn rows_of(database: &Path, query: &str) -> Vec<String> {
    let database = Connection::open(database).unwrap();
    let mut query = database.prepare(query).unwrap();
    let columns = query.column_count();
    let rows = query.query_map([], |row| {
        Ok((0..columns).map(|at| format!("{:?}", row.get_ref(at).unwrap())).collect::<Vec<_>>().join(" "))
    });
    rows.unwrap().map(Result::unwrap).collect()
}

#[test]
fn stores_of_every_command_have_equal_contents() {
    let folder = tempfile::tempdir().unwrap();
    let capture = sample();
    let (log, open) = (folder.path().join("log"), folder.path().join("open"));
    // Distinct counts depend on the key of the store.
    for store in [&log, &open] {
        std::fs::create_dir(store).unwrap();
        std::fs::write(store.join("seed"), "00112233445566778899aabbccddeeff\n").unwrap();
    }
    weir([text(&capture), "-q", "-o", text(&log), "--log", "store"]).exits(0);
    weir(["open", text(&capture), "--no-wait", "--store", text(&open)]).exits(0);
    let main = [
        "SELECT name, unit, help FROM series ORDER BY name",
        "SELECT tier, name, time, seconds, sum, least, most FROM points JOIN series ON id = series ORDER BY 1, 2, 3",
        "SELECT tier, name, time, until, kind, body FROM readings ORDER BY 1, 2, 3",
        "SELECT start, stop FROM watched ORDER BY 1",
        "SELECT address, name, time FROM names ORDER BY 1",
        "SELECT name, value FROM meta WHERE name NOT IN ('created') ORDER BY 1",
    ];
    for query in main {
        let [log, open] = [&log, &open].map(|store| rows_of(&store.join("weir.db"), query));
        assert!(!log.is_empty(), "{query}");
        assert_eq!(log, open, "{query}");
    }
    let rows = |store: &Path, query: &str| -> Vec<String> {
        let files = std::fs::read_dir(store).unwrap().map(|entry| entry.unwrap().path());
        let files = files.filter(|path| path.extension().is_some_and(|ending| ending == "db"));
        let mut found: Vec<String> = files
            .filter(|path| path.file_name().unwrap().to_string_lossy().starts_with("rows-"))
            .flat_map(|path| rows_of(&path, query))
            .collect();
        found.sort();
        found
    };
    for query in [
        "SELECT uid, first, last, src, dst, fbytes, rbytes, state, name FROM flows",
        "SELECT tbl, uid, time, body FROM records",
    ] {
        let found = rows(&log, query);
        assert!(found.len() > 10, "{query}");
        assert_eq!(found, rows(&open, query), "{query}");
    }
}

#[test]
fn exported_series_can_be_read_by_other_tools() {
    let folder = tempfile::tempdir().unwrap();
    weir([text(&sample()), "-o", text(folder.path()), "--log", "store", "-q", "--interval", "1s"]).exits(0);
    let rrd = folder.path().join("rrd");
    weir(["store", "export", "-d", text(folder.path()), "--rrd", text(&rrd), "-s", "ledger/caught"]).exits(0);
    let xml = std::fs::read_to_string(rrd.join("ledger_caught.xml")).unwrap();
    assert_eq!(xml.matches("<rra>").count(), 12, "four tiers, three functions");
    let metrics = weir(["store", "export", "-d", text(folder.path()), "--prometheus", "-s", "ledger/caught"])
        .exits(0)
        .text();
    assert!(metrics.ends_with("# EOF\n") && metrics.matches("weir_series{").count() > 10, "{metrics}");
    weir(["store", "export", "-d", text(folder.path()), "--prometheus", "-s", "x"])
        .exits(1)
        .says("no series");
    let Ok(restored) = Command::new("rrdtool")
        .args(["restore", text(&rrd.join("ledger_caught.xml")), text(&rrd.join("x.rrd"))])
        .output()
    else {
        println!("skipped: rrdtool is not installed");
        return;
    };
    assert!(restored.status.success(), "{}", String::from_utf8_lossy(&restored.stderr));
    let mut fetch = Command::new("rrdtool");
    fetch.args([
        "fetch",
        text(&rrd.join("x.rrd")),
        "AVERAGE",
        "-s",
        "1795252799",
        "-e",
        "1795252811",
        "-r",
        "1",
    ]);
    let printed = String::from_utf8(fetch.output().unwrap().stdout).unwrap();
    let values: Vec<f64> = printed
        .lines()
        .filter_map(|line| line.split_once(": ")?.1.trim().parse().ok())
        .filter(|value: &f64| value.is_finite())
        .collect();
    assert!(values.len() > 10 && values.iter().sum::<f64>() > 5000.0, "{printed}");
}

/// Bytes of a question about flows, and by how much they may be off.
fn bytes_of(folder: &Path, expression: &str, (from, to): (u64, u64)) -> (u64, u64) {
    let [from, to] = [from, to].map(|time| weir_output::zone::rfc3339(time * SECOND));
    let question = format!("count since {from} until {to} where {expression}");
    let answer = query(folder, &question);
    let place =
        |name: &str| answer["columns"].as_array().unwrap().iter().position(|column| column["name"] == name);
    let value = |name: &str| place(name).map_or(0, |at| answer["rows"][0][at].as_u64().unwrap());
    assert!(answer["basis"]["bound"].is_u64(), "{answer}");
    (value("bytes"), value("error").max(answer["basis"]["bound"].as_u64().unwrap()))
}

/// Of flows that cross the ends of a range, what they moved within it is counted, as far as the answer says: on the capture of
/// the lab and a sample of others, in thirds of their time.
#[test]
fn a_range_has_what_the_packets_of_its_time_have() {
    let (mut asked, mut exact, mut others) = (0, 0, 0);
    for capture in [sample()].into_iter().chain(diverse(30)) {
        let folder = tempfile::tempdir().unwrap();
        weir([text(&capture), "-o", text(folder.path()), "--log", "store", "-q", "--interval", "1s"]);
        let Some((first, last)) = times(folder.path()) else { continue };
        let (first, end) = (first / SECOND, last / SECOND + 1);
        if !(3..86_400).contains(&(end - first)) {
            continue;
        }
        let third = |n: u64| first + (end - first) * n / 3;
        let counted = |(from, to): (u64, u64)| {
            let [since, until] = [from, to].map(|time| weir_output::zone::rfc3339(time * SECOND));
            let arguments = ["count", text(&capture), "--since", &since, "--until", &until];
            let counted = weir(arguments.into_iter().chain(["-e", "ip and tcp", "-j"])).json();
            // A capture on whose link the expression cannot match has no count.
            counted.iter().find_map(|line| line["bytes"].as_u64())
        };
        // Flows inside of tunnels, and the fragments of flows, are no packets of the expression.
        let (whole, bound) = bytes_of(folder.path(), "ip and tcp", (first, end));
        if (Some(whole), bound) != (counted((first, end)), 0) {
            others += 1;
            continue;
        }
        for range in [(third(0), third(1)), (third(1), third(2)), (third(2), third(3))] {
            let (truth, (bytes, bound)) =
                (counted(range).unwrap_or(0), bytes_of(folder.path(), "ip and tcp", range));
            asked += 1;
            exact += usize::from(bound == 0);
            assert!(
                bytes.abs_diff(truth) <= bound,
                "{capture:?} {range:?}: {bytes} of {truth}, bound {bound}"
            );
        }
    }
    println!("{asked} ranges, {exact} of them without bound; {others} captures have other packets");
    assert!(asked >= 3 && exact > 0, "{exact} of {asked}");
}

/// The flows that no tunnel carried have the packets that an expression selects, because both are about the outermost headers:
/// on captures of the sample that have tunnels.
#[test]
fn flows_outside_of_tunnels_have_the_packets_of_the_expression() {
    let (mut tunnels, mut packets) = (0, 0);
    for capture in diverse(400) {
        let folder = tempfile::tempdir().unwrap();
        weir([text(&capture), "-o", text(folder.path()), "--log", "store", "-q"]);
        if times(folder.path()).is_none() {
            continue;
        }
        let of = |question: &str| query(folder.path(), question)["rows"][0][1].as_u64().unwrap_or(0);
        let fragments = ["count", text(&capture), "-e", "ip[6:2] & 0x3fff != 0 or ip6[6] = 44", "-j"];
        let fragments = weir(fragments).json().iter().find_map(|line| line["packets"].as_u64());
        if of("count flows where flow.tunnel") == 0 || fragments.is_some_and(|fragments| fragments > 0) {
            continue;
        }
        tunnels += 1;
        for expression in ["tcp", "udp", "sctp"] {
            let counted = weir(["count", text(&capture), "-e", expression, "-j"]).json();
            let truth = counted.iter().find_map(|line| line["packets"].as_u64()).unwrap_or(0);
            let outside = of(&format!("count flows where {expression} and not flow.tunnel"));
            assert_eq!(outside, truth, "{capture:?}: {expression}");
            packets += truth;
        }
    }
    println!("{tunnels} captures with tunnels, {packets} packets");
    assert!(tunnels == 0 || packets > 0, "no expression selected a packet");
}

/// Values of a run over a capture and of a run on a link that continues its store count once: both hash with the key of the store.
#[test]
fn equal_values_of_a_capture_and_of_a_link_count_once() {
    if !is_root() {
        println!("skipped: not root");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let plan = "[[subscription]]\nname = \"asked\"\nlevel = \"record\"\nwhere = \"dns.query ends .weir-test\"\n\
                functions = [\"distinct dns.query\"]\n";
    std::fs::write(at("weir.toml"), plan).unwrap();
    let (capture, store, config) = (at("asked.pcap"), at("store"), at("weir.toml"));
    let ask = |names: Range<u32>| {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        for number in names {
            let name = format!("n{number:04}");
            let mut question = vec![0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 5];
            question.extend(name.bytes().chain([9]).chain(*b"weir-test").chain([0, 0, 1, 0, 1]));
            socket.send_to(&question, "127.0.0.1:53").unwrap();
        }
    };
    let count = || {
        let answer = query(&store, "list asked");
        answer["rows"][0][1].as_u64().unwrap_or(0)
    };
    let on_link = |more: &[&str], names: Range<u32>, expected: u64| {
        let begun = [&["-i", "lo", "-q", "--interval", "1s", "--config", text(&config)], more].concat();
        let mut child = Command::new(env!("CARGO_BIN_EXE_weir"))
            .args(begun)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // Names are sent again until the run has seen them: it may begin later than the first ones.
        let is_seen = eventually(|| {
            ask(names.clone());
            thread::sleep(Duration::from_millis(300));
            match expected {
                // The run ends by itself after some rounds.
                0 => child.try_wait().unwrap().is_some(),
                expected => count() >= expected,
            }
        });
        Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
        child.wait().unwrap();
        assert!(is_seen);
    };
    on_link(&["-c", "500", "-w", text(&capture)], 0..60, 0);
    let ran = ["-q", "--config", text(&config), "-o", text(&store), "--log", "store"];
    weir([text(&capture)].into_iter().chain(ran)).exits(0);
    assert_eq!(count(), 60);
    on_link(&["-o", text(&store), "--log", "store"], 30..90, 90);
    assert_eq!(count(), 90);
}

/// The number of later fragments in the note of an answer; 0 without a note.
fn later_fragments(answer: &Value) -> u64 {
    let notes = answer["notes"].as_array().cloned().unwrap_or_default();
    let note = notes.iter().filter_map(Value::as_str).find(|note| note.contains("later fragment"));
    note.map_or(0, |note| note.split(' ').next().unwrap().replace(',', "").parse().unwrap())
}

/// An answer over flows that is about ports says how many packets an expression over packets does not find by a port: on captures of
/// the sample that have fragments, and no tunnels.
#[test]
fn an_answer_about_ports_says_how_many_later_fragments_have_none() {
    let (mut with_fragments, mut others, mut told) = (0, 0, 0);
    for capture in diverse(400) {
        let folder = tempfile::tempdir().unwrap();
        let ran = weir([text(&capture), "-o", text(folder.path()), "--log", "store", "-j"]);
        let facts = ran.json();
        let flows = facts.iter().find(|line| line["kind"] == "flows");
        if flows.is_none_or(|flows| flows["fragments_joined"].as_u64() <= Some(0)) {
            continue;
        }
        if query(folder.path(), "count flows where flow.tunnel")["rows"][0][1].as_u64() > Some(0) {
            others += 1;
            continue;
        }
        with_fragments += 1;
        // After extension headers of IPv6 pcap-filter sees no port, not even that of the first fragment.
        for expression in
            ["ip and udp portrange 1-65535", "ip and tcp portrange 1-65535", "ip and udp port 53"]
        {
            let counted = weir(["count", text(&capture), "-e", expression, "-j"]).json();
            let truth = counted.iter().find_map(|line| line["packets"].as_u64()).unwrap_or(0);
            let answer = query(folder.path(), &format!("count flows where {expression}"));
            let packets = answer["rows"][0][1].as_u64().unwrap_or(0);
            let by_field =
                query(folder.path(), &format!("count flows where {expression} and flow.later_fragments > 0"));
            let fragments = later_fragments(&answer);
            assert_eq!(later_fragments(&by_field), fragments, "{capture:?}: {expression}");
            assert_eq!(
                packets - truth,
                fragments,
                "{capture:?}: {expression}: {packets} and {truth} packets"
            );
            told += fragments;
        }
        for question in ["count flows", "count flows where udp", "records dns where port 53"] {
            assert_eq!(later_fragments(&query(folder.path(), question)), 0, "{question}");
        }
    }
    assert!(told > 0, "the sample has fragments");
    println!("{with_fragments} captures with fragments, {others} with tunnels, {told} fragments");
}

/// Begins a run on the loopback interface whose store has intervals of a second.
fn store_of_loopback(folder: &Path) -> Child {
    Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(["-i", "lo", "-q", "-o", text(folder), "--log", "store", "--interval", "1s"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// A transfer that goes on is in every answer, with what it has moved up to the last interval, and each interval has its own part.
#[test]
fn a_flow_is_in_every_answer_while_it_is_open() {
    if !is_root() {
        println!("skipped: not root");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut child = store_of_loopback(folder.path());
    assert!(eventually(|| points(folder.path()).0 > 0));
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = socket.local_addr().unwrap().port();
    let stop = Arc::new(AtomicBool::new(false));
    let sender = {
        let stop = Arc::clone(&stop);
        thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                let _ = socket.send_to(&[7; 8_000], "127.0.0.1:9");
                thread::sleep(Duration::from_millis(10));
            }
        })
    };
    let flows = || query(folder.path(), &format!("flows where udp port {port}"));
    let bytes = |answer: &Value| answer["rows"][0][8].as_u64().unwrap_or(0);
    assert!(eventually(|| bytes(&flows()) > 2_000_000), "{}", flows());
    let open = flows();
    assert_eq!(open["rows"].as_array().unwrap().len(), 1, "{open}");
    assert!(open["notes"].to_string().contains("open"), "{open}");
    let top = query(folder.path(), &format!("top port where udp port {port}"));
    assert!(top["rows"][0][1].as_u64() >= Some(bytes(&open)), "{top}");
    let every = query(folder.path(), &format!("count every 1s where udp port {port}"));
    assert_eq!(every["basis"]["bound"], 0, "each interval is a part: {every}");
    // The process is killed: what was known of the flow stays.
    child.kill().unwrap();
    child.wait().unwrap();
    stop.store(true, Ordering::Relaxed);
    sender.join().unwrap();
    let last = bytes(&flows());
    let mut child = store_of_loopback(folder.path());
    let other = UdpSocket::bind("127.0.0.1:0").unwrap();
    let is_settled = || {
        let _ = other.send_to(b"one more", "127.0.0.1:9");
        !flows()["notes"].to_string().contains("open")
    };
    assert!(eventually(is_settled), "{}", flows());
    child.kill().unwrap();
    child.wait().unwrap();
    let settled = flows();
    assert_eq!((settled["rows"].as_array().unwrap().len(), bytes(&settled)), (1, last), "{settled}");
    let id = settled["rows"][0][12].as_str().unwrap();
    let detail = query(folder.path(), &format!("flow {id}"));
    assert!(detail.to_string().contains("unfinished"), "{detail}");
}

/// A process that is killed repeatedly while it writes: the store is consistent, and all stored data remains.
#[test]
fn a_killed_process_loses_no_stored_data() {
    if !is_root() {
        println!("skipped: not root");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let sender = {
        let stop = Arc::clone(&stop);
        thread::spawn(move || {
            let mut port = 20_000_u16;
            while !stop.load(Ordering::Relaxed) {
                // Each datagram is a separate flow.
                port = if port > 60_000 { 20_000 } else { port + 1 };
                if let Ok(socket) = UdpSocket::bind(("127.0.0.1", port)) {
                    let _ = socket.send_to(b"a datagram of weir", "127.0.0.1:9");
                }
                thread::sleep(Duration::from_micros(200));
            }
        })
    };
    let now = || SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs_f64();
    let mut before = 0;
    for round in 0..6_u64 {
        let mut child = store_of_loopback(folder.path());
        let rows = || points(folder.path()).0;
        assert!(eventually(|| rows() > before + 1), "round {round}: {} intervals", rows());
        // Each round ends at another phase of the work.
        thread::sleep(Duration::from_millis(137 * round % 1000));
        let seen = rows();
        child.kill().unwrap();
        child.wait().unwrap();
        let (count, last) = points(folder.path());
        // Stored data remains, and an interval is stored only after its end.
        assert!(
            count >= seen && last <= now(),
            "round {round}: {count} of {seen}, the last one ended at {last}"
        );
        before = count;
        for entry in std::fs::read_dir(folder.path()).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|ending| ending == "db") {
                let check: String = Connection::open(&path)
                    .unwrap()
                    .query_row("PRAGMA integrity_check", [], |row| row.get(0))
                    .unwrap();
                assert_eq!(check, "ok", "{}", path.display());
            }
        }
        weir(["query", "-d", text(folder.path()), "top sender"]).exits(0).prints("127.0.0.1");
    }
    stop.store(true, Ordering::Relaxed);
    sender.join().unwrap();
}

/// Times of the first and of the last packet of a store.
fn times(folder: &Path) -> Option<(u64, u64)> {
    let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY;
    let main = Connection::open_with_flags(folder.join("weir.db"), flags).ok()?;
    let of = |name: &str| {
        main.query_row("SELECT value FROM meta WHERE name = ?1", [name], |row| row.get::<_, i64>(0)).ok()
    };
    Some((of("first packet")? as u64, of("last packet")? as u64))
}

/// Number of stored intervals, and the end of the last one in seconds.
fn points(folder: &Path) -> (u64, f64) {
    let path = folder.join("weir.db");
    let Ok(main) = Connection::open_with_flags(&path, rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY) else {
        return (0, 0.0);
    };
    let count = main.query_row(
        "SELECT count(*) FROM points WHERE tier = 0 AND series = (SELECT id FROM series WHERE name = 'ledger/caught')",
        [],
        |row| row.get::<_, i64>(0),
    );
    let last = main.query_row("SELECT value FROM meta WHERE name = 'last'", [], |row| row.get::<_, i64>(0));
    (count.unwrap_or(0) as u64, last.unwrap_or(0) as f64 / 1e9)
}

/// A file system of a fixed size, unmounted when the value is dropped.
struct Small(tempfile::TempDir);

impl Small {
    fn new(kilobytes: u32) -> Option<Small> {
        let folder = tempfile::tempdir().unwrap();
        let size = format!("size={kilobytes}k");
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &size, "weir-test"])
            .arg(folder.path())
            .stderr(Stdio::null())
            .status();
        if !mounted.is_ok_and(|status| status.success()) {
            println!("skipped: no file system can be mounted here");
            return None;
        }
        Some(Small(folder))
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path()).status();
    }
}

/// Flows of one packet each, a thousand per second.
fn many_flows(flows: u32) -> Vec<u8> {
    let mut packets = Vec::new();
    for flow in 0..flows {
        let [_, a, b, c] = flow.to_be_bytes();
        let frame =
            weir_wire::build::ethernet().ipv4([10, a, b, c], [192, 0, 2, 1]).udp(4000, 53).payload(&[1; 20]);
        packets.push((1_700_000_000 * SECOND + u64::from(flow) * SECOND / 1000, frame));
    }
    pcap(1, &packets)
}

/// Rows are lost and counted; the run neither waits nor retries for each of them.
#[test]
fn a_full_disk_neither_ends_nor_delays_a_run_over_a_file() {
    let Some(small) = Small::new(2048) else { return };
    let folder = tempfile::tempdir().unwrap();
    let capture = put(folder.path(), "many.pcap", &many_flows(60_000));
    let server = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    server.set_read_timeout(Some(std::time::Duration::from_secs(20))).unwrap();
    let syslog = format!("udp:{}", server.local_addr().unwrap());
    let out = text(small.0.path());
    let ran = weir([text(&capture), "-o", out, "--log", "store", "-j", "--syslog", &syslog]).exits(4);
    assert_eq!(ran.fact("ledger", "analysed"), 60_000);
    // It is an event, which does not need the disk. The traffic is one, too.
    let mut bytes = [0; 4096];
    let mut message = String::new();
    while !message.contains(" disk_full [") {
        let length = server.recv(&mut bytes).unwrap();
        message = String::from_utf8_lossy(&bytes[..length]).into_owned();
        assert!(message.contains(" disk_full [") || message.contains(" udp_flood ["), "{message}");
    }
    assert!(message.contains("state=\"begin\""), "{message}");
    assert_eq!(ran.stderr.matches("full").count(), 1, "{}", ran.stderr);
    let lost = ran.stderr.lines().find_map(|line| line.split_once(" rows lost")?.0.rsplit(' ').next());
    let lost: u64 = lost.unwrap_or_else(|| panic!("{}", ran.stderr)).parse().unwrap();
    assert!(lost > 1000, "{}", ran.stderr);
}

/// The first signal ends the run while the disk is full.
#[test]
fn a_signal_is_handled_while_the_disk_is_full() {
    let Some(small) = Small::new(2048) else { return };
    let mut command = program();
    command.args(["-r", "-", "-o", text(small.0.path()), "--log", "store", "-j"]);
    let mut child = start(command.stdin(Stdio::piped()));
    let mut to = child.stdin.take().unwrap();
    // No further bytes arrive, and the pipe stays open.
    std::io::Write::write_all(&mut to, &many_flows(60_000)).unwrap();
    thread::sleep(Duration::from_millis(500));
    signal(&child, "TERM");
    let ran = finish(child).exits(4);
    assert!(ran.fact("ledger", "analysed") > 0, "{}", ran.text());
    drop(to);
}

/// A signal is also handled while the reader of packets or of the summary has stopped, and while a pipe has no reader.
#[test]
fn a_signal_is_handled_while_the_output_is_not_read() {
    let folder = tempfile::tempdir().unwrap();
    let capture = put(folder.path(), "many.pcap", &many_flows(60_000));
    let fifo = folder.path().join("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    for arguments in [&["-w", "-"][..], &["-j"], &["-w", text(&fifo)]] {
        let (reader, writer) = full_pipe();
        let mut command = program();
        command.arg(&capture).args(arguments).stdin(Stdio::null()).stdout(writer).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        thread::sleep(Duration::from_millis(1000));
        assert!(child.try_wait().unwrap().is_none(), "{arguments:?}: the run waits for its reader");
        signal(&child, "INT");
        let ran = finish(child);
        let expected = if arguments == ["-w", "-"] { 4 } else { 130 };
        assert_eq!(ran.code, Some(expected), "{arguments:?}: {}", ran.stderr);
        drop(reader);
    }
}

/// As with head(1): no error, no panic.
#[test]
fn a_reader_that_closes_the_output_is_no_error() {
    let folder = tempfile::tempdir().unwrap();
    let capture = put(folder.path(), "many.pcap", &many_flows(60_000));
    let store = folder.path().join("store");
    weir([text(&sample()), "-q", "-o", text(&store), "--log", "store"]).exits(0);
    let store = text(&store);
    for arguments in [
        &[text(&capture), "-w", "-"][..],
        &[text(&capture), "-j", "-v"],
        &["store", "series", "-d", store],
        &["store", "export", "-d", store, "--prometheus"],
        &["query", "-d", store, "flows"],
        &["man"],
        &["--help"],
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = program();
        command.args(arguments).stdin(Stdio::null()).stdout(writer).stderr(Stdio::piped());
        finish(command.spawn().unwrap()).exits(0).quietly();
    }
}

/// Starts a run that writes packets from a pipe that stays open, and waits until all are written.
fn writing(capture: &[u8], to: &Path, packets: u64) -> (std::process::Child, std::process::ChildStdin) {
    let mut command = program();
    command.args(["-q", "-r", "-", "-w", text(to)]);
    let mut child = start(command.stdin(Stdio::piped()));
    let mut input = child.stdin.take().unwrap();
    std::io::Write::write_all(&mut input, capture).unwrap();
    let own = format!(".{}.", to.file_name().unwrap().to_str().unwrap());
    let is_written = || {
        let folder = std::fs::read_dir(to.parent().unwrap()).unwrap().flatten();
        let mut parts = folder.filter(|file| file.file_name().to_str().unwrap().starts_with(&own));
        parts.any(|part| weir([text(&part.path()), "-j"]).fact("ledger", "caught") == packets)
    };
    assert!(eventually(is_written), "the packets are written");
    (child, input)
}

/// As a service that is restarted: written packets are salvaged before the name is used again.
#[test]
fn packets_of_a_killed_run_are_salvaged() {
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("x.pcap");
    let names = || {
        let files = std::fs::read_dir(folder.path()).unwrap().flatten();
        let mut names: Vec<String> = files.map(|file| file.file_name().into_string().unwrap()).collect();
        names.sort();
        names
    };
    let capture = many_flows(3000);
    for n in 1..=2 {
        let (mut child, _input) = writing(&capture, &to, 3000);
        child.kill().unwrap();
        wait(&mut child).unwrap();
        let saved = format!("x.pcap.{n}: 3,000 packets salvaged from a run that was killed");
        weir([text(&sample()), "-q", "-w", text(&to)]).exits(0).says(&saved);
    }
    assert_eq!(names(), ["x.pcap", "x.pcap.1", "x.pcap.2"]);
    for saved in ["x.pcap.1", "x.pcap.2"] {
        let caught = weir([text(&folder.path().join(saved)), "-j"]).exits(0).fact("ledger", "caught");
        assert_eq!(caught, 3000, "{saved}");
    }
    // The file of a running process is not touched.
    let (child, input) = writing(&capture, &to, 3000);
    weir([text(&sample()), "-q", "-w", text(&to)]).exits(0).quietly();
    drop(input);
    finish(child).exits(0);
    assert_eq!(names(), ["x.pcap", "x.pcap.1", "x.pcap.2"]);
    assert_eq!(weir([text(&to), "-j"]).exits(0).fact("ledger", "caught"), 3000);
}
