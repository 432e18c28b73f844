//! Laws that hold on every available capture: in this process with the engine's workers, and on some captures with the
//! built program.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

#[path = "support/changes.rs"]
mod changes;
#[path = "support/pass.rs"]
mod pass;
mod support;

use pass::{Loaded, Pass, content, each_capture, everything, settings};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use support::*;
use weir_api::{Answer, FunctionCall, Level, Reading, SCANS, Snapshot, SubscriptionSpec, Trials};
use weir_capture::{FileFormat, PacketWriter, Target, WriteOptions};
use weir_engine::Plan;
use weir_wire::{Layers, Network, Time, build, decode};

/// The first part in which two snapshots differ.
fn difference(one: &Snapshot, other: &Snapshot) -> Option<String> {
    if one.ledger != other.ledger || one.interval != other.interval || one.offloaders != other.offloaders {
        let parts = |snapshot: &Snapshot| {
            format!("{:?} {:?} {:?}\n", snapshot.interval, snapshot.offloaders, snapshot.ledger)
        };
        return Some(parts(one) + &parts(other));
    }
    if one.flows != other.flows {
        return Some(format!("{:?}\n{:?}", one.flows, other.flows));
    }
    // With very many sources not every trial is in the list; the scans found are equal.
    let same = |one: &Answer, other: &Answer| match (&one.reading, &other.reading) {
        (Reading::Table(mine), Reading::Table(theirs))
            if *mine.schema == SCANS && *theirs.schema == SCANS =>
        {
            Trials::found(mine) == Trials::found(theirs)
        }
        _ => one == other,
    };
    let pairs = one.answers.iter().zip(&other.answers).find(|(one, other)| !same(one, other));
    pairs
        .map(|(one, other)| format!("{} {}:\n{one:?}\n{other:?}", one.label.function, one.label.subscription))
}

#[test]
fn results_do_not_depend_on_the_number_of_workers() {
    let plan = Arc::new(Plan::new("", everything(), settings()).unwrap());
    let (agree, disagree) = (Cell::new(0), RefCell::new(Vec::new()));
    let cases = each_capture(|path, capture| {
        let (interval, memory) = (capture.interval(4), capture.ample_memory());
        let alone = Pass::new(&plan, 1, memory).run(capture, interval, |_| ());
        for snapshot in &alone.snapshots {
            assert_eq!(snapshot.ledger.imbalance(), None);
        }
        let total = alone.total();
        assert_eq!(total.ledger.caught, capture.len(), "every packet is caught");
        assert_eq!(total.ledger.analysed, capture.len(), "and analysed");
        assert_eq!(
            (total.flows.active(), total.flows.evicted),
            (0, 0),
            "every flow ends, and none is evicted"
        );
        assert_eq!(total.flows.ended, alone.rows.len() as u64, "each with a row");
        let in_rows: u64 = alone.rows.iter().map(|row| row.forward.packets + row.reverse.packets).sum();
        assert!(in_rows >= total.ledger.flowed, "the packets of a flow are in its row");
        let differs = [2, 3, 7].into_iter().find_map(|workers| {
            let several = Pass::new(&plan, workers, memory).run(capture, interval, |_| ());
            assert_eq!(several.total().ledger.imbalance(), None, "{workers} workers");
            let pairs = alone.snapshots.iter().zip(&several.snapshots);
            let differs = pairs.into_iter().find_map(|(one, other)| difference(one, other));
            let differs = differs.or_else(|| (alone.rows != several.rows).then(|| "flows".to_owned()));
            differs.map(|what| format!("{workers} workers: {what}"))
        });
        match differs {
            None => agree.set(agree.get() + 1),
            Some(what) => disagree.borrow_mut().push(format!("{}: {what}", path.display())),
        }
    });
    println!("1, 2, 3 and 7 workers agree on {} of {cases} captures", agree.get());
    let disagree = disagree.borrow();
    assert!(disagree.is_empty(), "{} differ:\n{}", disagree.len(), disagree.join("\n"));
}

/// Of every row of attempts of every capture, in each interval and in total: no more failed ports or hosts than failed flows.
#[test]
fn no_more_targets_fail_than_flows() {
    let spec = SubscriptionSpec::new("scans", "", vec![FunctionCall::new("scans")]);
    let specs = vec![SubscriptionSpec { level: Level::Flow, ..spec }];
    let plan = Arc::new(Plan::new("", specs, settings()).unwrap());
    let rows = Cell::new(0);
    let cases = each_capture(|_, capture| {
        for workers in [1, 3] {
            let ran =
                Pass::new(&plan, workers, capture.ample_memory()).run(capture, capture.interval(4), |_| ());
            for snapshot in ran.snapshots.iter().chain([&ran.total()]) {
                let Reading::Table(table) = &snapshot.answers[0].reading else { panic!("another shape") };
                for trials in table.rows.iter().filter_map(Trials::of) {
                    rows.set(rows.get() + 1);
                    let (failed, flows) = (trials.failed.estimate(), trials.refused + trials.unanswered);
                    assert!(failed <= flows, "{failed} of {flows}: {:?}", trials.sweep);
                    let event = trials.event();
                    assert_eq!((event.count, event.number("failed")), (flows, Some(failed)));
                }
            }
        }
    });
    println!("{} rows of attempts in {cases} captures", rows.get());
    assert!(rows.get() > 0);
}

/// Of every capture: the list of packets without IP and what it leaves out are the packets outside flows that have no IP header,
/// with ample room and with almost none.
#[test]
fn packets_without_ip_are_all_in_their_list_or_left_out() {
    let list = |rows: usize| {
        let call = FunctionCall::new("frames").with("rows", rows);
        SubscriptionSpec::new(&format!("list of {rows}"), "", vec![call])
    };
    let plan = Arc::new(Plan::new("", vec![list(4096), list(16)], settings()).unwrap());
    let (counted, left_out) = (Cell::new(0), Cell::new(0));
    let cases = each_capture(|path, capture| {
        let without_ip = |layers: &Layers| matches!(layers.network_kind, Network::None | Network::Arp);
        let expected = capture.packets().filter(|packet| without_ip(&decode(packet))).count() as u64;
        for workers in [1, 3] {
            let ran =
                Pass::new(&plan, workers, capture.ample_memory()).run(capture, capture.interval(4), |_| ());
            let total = ran.total();
            assert!(expected <= total.ledger.unflowed, "{}", path.display());
            for answer in &total.answers {
                let Reading::Table(table) = &answer.reading else { panic!("another shape") };
                let listed: u64 = table.rows.iter().map(|row| row.weight()).sum();
                let shed = table.shed.as_ref().map_or(0, |shed| shed[0]);
                assert_eq!(listed + shed, expected, "{} {}", path.display(), answer.label.subscription);
                left_out.set(left_out.get() + shed);
            }
        }
        counted.set(counted.get() + expected);
    });
    println!("{} packets without IP in {cases} captures, {} left out", counted.get(), left_out.get());
    assert!(counted.get() > 0);
}

/// Output and logs of `weir` for a capture, without the facts that depend on the run.
fn printed(path: &Path, folder: &Path, options: &[&str]) -> BTreeMap<String, Vec<u8>> {
    let out = folder.join(format!("out{}", options.join("")));
    let logs = ["--log", "zeek,zeek-json,eve,csv,ndjson,mon"];
    let ran = weir([text(path), "-j", "-o", text(&out)].iter().chain(&logs).chain(options));
    assert!(matches!(ran.code, Some(0 | 2 | 3)), "{}: {:?} {}", path.display(), ran.code, ran.stderr);
    assert!(!ran.stderr.contains("ledger"), "{}: {}", path.display(), ran.stderr);
    let mut files = BTreeMap::from([("standard output".to_owned(), ran.stdout)]);
    for entry in fs::read_dir(&out).into_iter().flatten().flatten() {
        let bytes = fs::read(entry.path()).unwrap();
        let lines = bytes.split_inclusive(|byte| *byte == b'\n');
        let of_the_run = [&b"#open"[..], b"#close", br#"{"v":1,"kind":"run""#];
        let lines = lines.filter(|line| !of_the_run.iter().any(|start| line.starts_with(start)));
        files.insert(entry.file_name().into_string().unwrap(), lines.flatten().copied().collect());
    }
    files
}

#[track_caller]
fn equal(one: &BTreeMap<String, Vec<u8>>, other: &BTreeMap<String, Vec<u8>>, what: &str) {
    assert_eq!(one.keys().collect::<Vec<_>>(), other.keys().collect::<Vec<_>>(), "{what}");
    for (name, bytes) in one {
        let (mine, theirs) = (String::from_utf8_lossy(bytes), String::from_utf8_lossy(&other[name]));
        let differs = mine.lines().zip(theirs.lines()).find(|(one, other)| one != other);
        assert!(*bytes == other[name], "{what}: {name} differs: {differs:#?}");
    }
}

#[test]
fn output_and_logs_do_not_depend_on_the_number_of_workers() {
    let folder = tempfile::tempdir().unwrap();
    let captures = diverse(40);
    for (n, path) in captures.iter().enumerate() {
        let folder = folder.path().join(n.to_string());
        let one = printed(path, &folder, &["--workers", "1"]);
        for workers in ["2", "3", "7"] {
            let other = printed(path, &folder, &["--workers", workers]);
            equal(&one, &other, &format!("{}: {workers} workers", path.display()));
        }
    }
    println!("zeek, zeek-json, eve, csv, ndjson, mon and -j agree on {} captures", captures.len());
}

/// Files with packets and content of a run with that many workers, its records and its counts.
fn leaving(path: &Path, folder: &Path, workers: &str, limits: &[&str]) -> BTreeMap<String, Vec<u8>> {
    let out = folder.join(format!("{workers}{}", limits.join("")));
    fs::create_dir_all(&out).unwrap();
    let at = |name: &str| out.join(name);
    let (packets, unidentified, files, logs) = (at("w.pcapng"), at("u.pcapng"), at("files"), at("logs"));
    let outlets = ["-w", text(&packets), "--unidentified", text(&unidentified), "--files", text(&files)];
    let logs = ["-o", text(&logs), "--log", "zeek-json"];
    // Enough memory for all packets of undecided flows: a worker sheds the oldest of its own.
    let others = ["-j", "--workers", workers, "--memory", "2G"];
    let ran = weir([text(path)].iter().chain(&outlets).chain(&logs).chain(&others).chain(limits));
    assert!(matches!(ran.code, Some(0 | 2 | 3)), "{}: {:?} {}", path.display(), ran.code, ran.stderr);
    assert!(!ran.stderr.contains("add up"), "{}: {}", path.display(), ran.stderr);
    // The summary names the files.
    let summary = String::from_utf8_lossy(&ran.stdout).replace(text(&out), "");
    let mut left = BTreeMap::from([("standard output".to_owned(), summary.into_bytes())]);
    for folder in [&out, &out.join("files"), &out.join("logs")] {
        for entry in
            fs::read_dir(folder).into_iter().flatten().flatten().filter(|entry| entry.path().is_file())
        {
            left.insert(entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap());
        }
    }
    left
}

/// Packets by `-w` and `--unidentified` leave in the order of the capture, and limits of extracted files allow what they
/// allow one worker.
#[test]
fn packets_and_files_that_leave_do_not_depend_on_the_number_of_workers() {
    let folder = tempfile::tempdir().unwrap();
    // Longer than a unit and a round of several workers.
    let (model, page) = (folder.path().join("model.json"), folder.path().join("page.html"));
    let long = folder.path().join("long.pcap");
    weir(["report", text(&sample()), "-o", text(&page), "--model", text(&model)]).exits(0);
    weir(["generate", text(&model), "-o", text(&long), "--seconds", "20"]).exits(0);
    let mut captures = diverse(30);
    captures.push(long);
    let (mut packets, mut unidentified, mut files) = (0, 0, 0);
    for (n, path) in captures.iter().enumerate() {
        let folder = folder.path().join(n.to_string());
        let limits: [&[&str]; 3] = [&[], &["--files-count", "3"], &["--files-total", "20000"]];
        for limits in limits {
            let one = leaving(path, &folder, "1", limits);
            for workers in ["2", "3", "7"] {
                let other = leaving(path, &folder, workers, limits);
                equal(&one, &other, &format!("{}: {workers} workers, {limits:?}", path.display()));
            }
            let is_file =
                |name: &&String| !["standard output", "w.pcapng", "u.pcapng"].contains(&name.as_str());
            files += one
                .keys()
                .filter(is_file)
                .filter(|name| !name.ends_with(".json") && !name.ends_with(".log"))
                .count();
        }
        let read = |name: &str| Loaded::read(&folder.join("7").join(name));
        let (written, unknown, capture) = (read("w.pcapng"), read("u.pcapng"), Loaded::read(path));
        assert!(
            capture
                .packets()
                .map(|packet| content(&packet))
                .eq(written.packets().map(|packet| content(&packet)))
        );
        packets += written.len();
        unidentified += unknown.len();
        let is_in_order = |capture: &Loaded| {
            let times: Vec<Time> = capture.packets().map(|packet| packet.time).collect();
            times.is_sorted()
        };
        assert!(!is_in_order(&capture) || is_in_order(&unknown), "{}", path.display());
    }
    println!(
        "{packets} packets, {unidentified} of unidentified flows and {files} files of {} captures",
        captures.len()
    );
    assert!(packets > 10_000 && unidentified > 1_000 && files > 20);
}

fn write(capture: &Loaded, format: FileFormat, path: &Path) {
    let options = WriteOptions { format: Some(format), nanoseconds: true, ..WriteOptions::default() };
    let target = Target::Path(path.to_owned());
    let mut writer = PacketWriter::create(target, options, &capture.interfaces, Time(0)).unwrap();
    for packet in capture.packets() {
        writer.write(&packet).unwrap();
    }
    let (written, closed) = writer.close();
    closed.unwrap();
    assert_eq!((written.packets, written.lost), (capture.len(), 0));
}

#[test]
fn a_capture_gives_equal_results_as_pcap_and_as_pcapng() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("copy");
    let classic = Cell::new(0);
    let cases = each_capture(|_, capture| {
        let mut formats = vec![FileFormat::Pcapng];
        let mut packets = capture.packets();
        let link = packets.next().map(|packet| packet.link);
        let years = |packet: weir_wire::Packet<'_>| packet.time.secs() <= u64::from(u32::MAX);
        // A classic file has one link type, and times until 2106.
        if capture.packets().all(|packet| Some(packet.link) == link && years(packet)) {
            formats.push(FileFormat::Pcap);
            classic.set(classic.get() + 1);
        }
        for format in formats {
            write(capture, format, &path);
            let again = Loaded::read(&path);
            assert_eq!(again.len(), capture.len(), "{format:?}");
            for (one, other) in capture.packets().zip(again.packets()) {
                assert_eq!(content(&one), content(&other), "{format:?}");
            }
        }
    });
    println!("{cases} captures as pcapng, {} as pcap", classic.get());
}

#[test]
fn output_and_logs_of_a_pcap_and_a_pcapng_are_equal() {
    let folder = tempfile::tempdir().unwrap();
    let mut cases = 0;
    for (n, path) in diverse(12).iter().enumerate() {
        let folder = folder.path().join(n.to_string());
        fs::create_dir(&folder).unwrap();
        let capture = Loaded::read(path);
        if capture.interfaces.len() != 1 {
            continue;
        }
        let answers = [FileFormat::Pcap, FileFormat::Pcapng].map(|format| {
            let copy = folder.join(format!("{format:?}"));
            write(&capture, format, &copy);
            let mut files = printed(&copy, &folder.join(format!("of {format:?}")), &[]);
            let facts = String::from_utf8(files.remove("standard output").unwrap()).unwrap();
            let facts: Vec<&str> = facts.lines().filter(|line| !line.contains(r#""kind":"input""#)).collect();
            files.insert("facts".to_owned(), facts.join("\n").into_bytes());
            files
        });
        equal(&answers[0], &answers[1], &path.display().to_string());
        cases += 1;
    }
    println!("pcap and pcapng agree on {cases} captures");
    assert!(cases > 0);
}

/// Two hundred expressions of all kinds.
fn expressions() -> Vec<String> {
    let mut all: Vec<String> = [
        "ip",
        "ip6",
        "arp",
        "tcp",
        "udp",
        "icmp",
        "icmp6",
        "sctp",
        "igmp",
        "esp",
        "vlan",
        "mpls",
        "pppoes",
        "not ip",
        "broadcast",
        "multicast",
        "ether multicast",
        "ip multicast",
        "tcp or udp",
        "ip and not tcp",
        "tcp[tcpflags] & (tcp-syn|tcp-fin) != 0",
        "tcp[13] & 4 != 0",
        "ip[0] & 0xf != 5",
        "ip[6:2] & 0x1fff != 0",
        "ip[8] < 5",
        "udp[4:2] > 100",
        "ether[0] & 1 = 1",
        "ip6[6] = 58",
        "icmp[icmptype] = icmp-echo",
        "len > 1000",
        "less 64",
        "greater 1400",
        "len - 14 < 60",
        "host 10.0.0.1",
        "net 10",
        "net 192.168.0.0/16",
        "src net 172.16.0.0/12",
        "dst net 224.0.0.0/4",
        "net 2001:db8::/32",
        "ip6 net fe80::/10",
        "host ::1",
        "portrange 1-1023",
        "src portrange 1024-65535",
        "tcp portrange 6000-6100",
        "proto 47",
        "ip proto \\udp",
        "ether proto 0x88a8",
        "ether proto \\arp",
        "ip protochain 6",
        "ip6 protochain 58",
        "vlan and ip",
        "(tcp and port 80) or (udp and port 53)",
        "not (src net 10 and dst net 10)",
        "tcp and not port 22",
        "ether host 00:00:00:00:00:00",
        "ether src ff:ff:ff:ff:ff:ff",
        "port 53 and greater 512",
        "stp",
        "isis",
    ]
    .map(str::to_owned)
    .into();
    for port in [
        20, 21, 22, 23, 25, 53, 67, 68, 80, 110, 123, 137, 138, 143, 161, 179, 389, 443, 445, 502, 514, 1900,
        5060,
    ] {
        all.extend([
            format!("tcp port {port}"),
            format!("udp dst port {port}"),
            format!("src port {port} and ip"),
        ]);
    }
    for byte in 0..37 {
        all.push(format!("src net {}.0.0.0/8", byte * 7));
        all.push(format!("ip[{byte}] = {} or len = {}", byte * 5, 60 + byte));
    }
    assert!(all.len() >= 200, "{}", all.len());
    all.truncate(200);
    all
}

fn counting(name: &str, expression: &str) -> SubscriptionSpec {
    SubscriptionSpec::new(name, expression, vec![FunctionCall::new("packets")])
}

fn packets(reading: &Reading) -> u64 {
    let Reading::Count(count) = reading else { panic!("{reading:?}") };
    count.packets
}

#[test]
fn an_expression_counts_equally_alone_and_among_two_hundred() {
    let expressions = expressions();
    let specs = expressions.iter().map(|expression| counting(expression, expression)).collect();
    let among = Arc::new(Plan::counting(specs, settings()).unwrap());
    let alone: Vec<Arc<Plan>> = expressions
        .iter()
        .map(|text| Arc::new(Plan::counting(vec![counting("alone", text)], settings()).unwrap()))
        .collect();
    let whole_run: Vec<Arc<Plan>> = expressions
        .iter()
        .map(|text| Arc::new(Plan::new(text, vec![counting("all", "")], settings()).unwrap()))
        .collect();
    let case = Cell::new(0);
    let matched = RefCell::new(vec![false; expressions.len()]);
    let cases = each_capture(|_, capture| {
        let run =
            |plan: &Arc<Plan>, workers| Pass::new(plan, workers, 1 << 20).run(capture, u64::MAX, |_| ());
        let counts: Vec<u64> = run(&among, 1).total().answers.iter().map(|a| packets(&a.reading)).collect();
        assert!(
            run(&among, 3).total().answers.iter().map(|a| packets(&a.reading)).eq(counts.iter().copied())
        );
        // Each capture gets some of the expressions in turn, so that each expression is used many times.
        for n in 0..8 {
            let at = (case.get() * 8 + n) % expressions.len();
            let total = run(&alone[at], 1).total();
            assert_eq!(packets(&total.answers[0].reading), counts[at], "alone: {}", expressions[at]);
            let outcome = run(&whole_run[at], 1);
            let total = outcome.total();
            assert_eq!(total.ledger.analysed, counts[at], "as the run's: {}", expressions[at]);
            assert_eq!(
                total.ledger.filtered,
                capture.len() - counts[at],
                "as the run's: {}",
                expressions[at]
            );
            assert_eq!(outcome.kept, counts[at], "written: {}", expressions[at]);
            assert_eq!(total.ledger.imbalance(), None);
        }
        for (matched, count) in matched.borrow_mut().iter_mut().zip(&counts) {
            *matched |= *count > 0;
        }
        case.set(case.get() + 1);
    });
    let used = matched.borrow().iter().filter(|matched| **matched).count();
    println!("{} expressions on {cases} captures, {used} of them match somewhere", expressions.len());
    assert!(used > 50, "{used}");
}

/// Tests that a flow's key decides are counted by flow, the others by packet. The sum equals a count by packet in
/// every interval, even if the table evicts flows.
#[test]
fn counts_by_flow_equal_counts_by_packet() {
    by_flow_as_by_packet(&expressions());
}

/// Also when packets without the TCP flags of any expression are skipped.
#[test]
fn counts_of_tcp_flags_equal_counts_by_packet() {
    by_flow_as_by_packet(&[
        "tcp[13] & 2 != 0 and net 10.0.0.0/8",
        "tcp[tcpflags] & (tcp-syn|tcp-fin) != 0",
        "tcp[13] = 0x12 or (tcp[13] > 0x10 and greater 100)",
        "tcp[tcpflags] & tcp-rst != 0 and not net 192.168.0.0/16",
        "tcp",
        "port 80 or port 443",
    ]);
}

/// Also for VLANs, which are counted by the tag of a flow's first packet; packets with another tag are counted
/// separately.
#[test]
fn counts_of_vlans_equal_counts_by_packet() {
    let expressions = [
        "vlan",
        "vlan 5",
        "vlan 6 and tcp",
        "not vlan",
        "not vlan 5",
        "vlan 5 or vlan 7",
        "not vlan 5 and udp",
        "tcp and not vlan",
        "vlan and net 10.0.0.0/8",
        "vlan 0",
        "vlan 5 and tcp[13] & 2 != 0",
        "vlan 5 and vlan 6",
        "vlan and port 53",
        "vlan 5 and port 80",
        "vlan 6 and port 80",
        "vlan 7 and port 80",
        "tcp or vlan",
        "vlan and less 100",
        "vlan 6 and (src net 192.168.0.0/16 or dst port 443)",
        "not (vlan 5 and host 10.0.0.1)",
        "vlan and arp",
        "tcp",
        "net 10.0.0.0/8",
    ];
    let nets = (0..60).map(|n| format!("vlan {} and net {}.0.0.0/8", 4 + n % 4, n * 4 + 10));
    let all: Vec<String> = expressions.map(str::to_owned).into_iter().chain(nets).collect();
    by_flow_as_by_packet_of(&all, Some(Loaded::tagged));
}

fn by_flow_as_by_packet(expressions: &[impl AsRef<str>]) {
    by_flow_as_by_packet_of(expressions, None);
}

/// `change` derives another capture from each.
fn by_flow_as_by_packet_of(expressions: &[impl AsRef<str>], change: Option<fn(&Loaded) -> Loaded>) {
    let mut specs = Vec::new();
    for (number, lines) in expressions.chunks(10).enumerate() {
        let chart = Some(format!("chart {number}"));
        specs.extend(
            lines
                .iter()
                .map(AsRef::as_ref)
                .map(|text| SubscriptionSpec { chart: chart.clone(), ..counting(text, text) }),
        );
        specs.push(SubscriptionSpec { chart, remainder: true, ..counting("xtra", "") });
    }
    let by_flow = Arc::new(Plan::new("", specs.clone(), settings()).unwrap());
    let by_packet = Arc::new(Plan::counting(specs, settings()).unwrap());
    let differences = RefCell::new(Vec::new());
    let cases = each_capture(|path, capture| {
        let changed = change.map(|change| change(capture));
        let capture = changed.as_ref().unwrap_or(capture);
        let interval = capture.interval(4);
        let truth = Pass::new(&by_packet, 1, 1 << 20).run(capture, interval, |_| ()).snapshots;
        for (workers, memory) in [(1, 1 << 17), (1, capture.ample_memory()), (3, 1 << 18)] {
            let counted = Pass::new(&by_flow, workers, memory).run(capture, interval, |_| ()).snapshots;
            // In silence flows end and no packet is counted.
            let (with_packets, silent): (Vec<&Snapshot>, Vec<&Snapshot>) =
                counted.iter().partition(|snapshot| snapshot.ledger.caught > 0);
            let is_zero =
                |answer: &Answer| !matches!(&answer.reading, Reading::Count(count) if count.packets > 0);
            assert!(silent.iter().all(|snapshot| snapshot.answers.iter().all(is_zero)), "{}", path.display());
            let truth: Vec<&Snapshot> = truth.iter().filter(|snapshot| snapshot.ledger.caught > 0).collect();
            assert_eq!(with_packets.len(), truth.len());
            let pairs = truth.into_iter().zip(with_packets);
            let wrong = pairs.flat_map(|(one, other)| one.answers.iter().zip(&other.answers));
            if let Some((packets, flows)) =
                wrong.into_iter().find(|(one, other)| one.reading != other.reading)
            {
                let text = format!(
                    "{}: {}: {:?} by packet, {:?} by flow",
                    path.display(),
                    packets.label.subscription,
                    packets.reading,
                    flows.reading
                );
                differences.borrow_mut().push(text);
            }
        }
    });
    for text in differences.borrow().iter().take(10) {
        println!("{text}");
    }
    println!("{} of {} runs the same", cases * 3 - differences.borrow().len(), cases * 3);
    assert!(differences.borrow().is_empty());
}

#[test]
fn an_expression_counts_equally_in_every_command() {
    let folder = tempfile::tempdir().unwrap();
    let expressions = expressions();
    let list = put(folder.path(), "list", format!("# all\n\n{}\n", expressions.join("\n")).as_bytes());
    let sample = sample();
    let rows = weir(["count", text(&sample), "-F", text(&list), "-j"]).exits(0).quietly().json();
    assert_eq!(rows.len(), expressions.len());
    for (row, expression) in rows.iter().zip(&expressions).step_by(9) {
        assert_eq!(row["expression"], expression.as_str());
        let count = row["packets"].as_u64().unwrap();
        let alone = weir(["count", text(&sample), "-e", expression, "-j"]).exits(0).json();
        assert_eq!(alone[0], *row);
        let run = weir([text(&sample), "-j", expression]).exits(0);
        assert_eq!(run.fact("ledger", "analysed"), count, "{expression}");
        assert_eq!(run.fact("ledger", "filtered"), run.fact("ledger", "caught") - count, "{expression}");
        let file = put(folder.path(), "filter", expression.as_bytes());
        assert_eq!(weir([text(&sample), "-j", "-F", text(&file)]).exits(0).fact("ledger", "analysed"), count);
    }
}

#[test]
fn a_change_of_plan_counts_each_packet_once() {
    let make = || Arc::new(Plan::new("", everything(), settings()).unwrap());
    let (plan, again) = (make(), make());
    let other =
        Arc::new(Plan::new("", vec![counting("all", ""), counting("tcp", "tcp")], settings()).unwrap());
    let part = Arc::new(Plan::new("tcp", vec![counting("all", "")], settings()).unwrap());
    let swaps = Cell::new(0);
    let cases = each_capture(|_, capture| {
        let run = |change: &mut dyn FnMut(&mut [weir_engine::Worker])| {
            Pass::new(&plan, 2, 8 << 20).run(capture, capture.interval(5), |workers| change(workers))
        };
        let quiet = run(&mut |_| ());
        // A change to an equal plan has no effect.
        let swapped =
            run(&mut |workers| workers.iter_mut().for_each(|w| w.change_plan(Arc::clone(&again), &mut ())));
        assert_eq!(difference(&quiet.total(), &swapped.total()), None, "changed at every interval");
        assert!(quiet.rows == swapped.rows, "the flows differ");
        // With changes to other plans and back, each packet is counted exactly once.
        let mut turn = 0;
        let mixed = run(&mut |workers| {
            turn += 1;
            swaps.set(swaps.get() + 1);
            let next = [&plan, &other, &part][turn % 3];
            workers.iter_mut().for_each(|worker| worker.change_plan(Arc::clone(next), &mut ()));
        });
        let (mut caught, mut analysed) = (0, 0);
        for snapshot in &mixed.snapshots {
            assert_eq!(snapshot.ledger.imbalance(), None);
            caught += snapshot.ledger.caught;
            analysed += snapshot.ledger.analysed;
            let count = snapshot.answers.iter().find(|answer| answer.label.function == "packets").unwrap();
            assert_eq!(packets(&count.reading), snapshot.ledger.analysed);
        }
        assert_eq!(caught, capture.len());
        assert_eq!(mixed.kept, analysed);
    });
    println!("{cases} captures, {} changes of plan", swaps.get());
}

/// SYN packets between random addresses, as records of a pcap file.
struct Flood {
    record: Vec<u8>,
    state: u64,
    left: u64,
}

impl Flood {
    fn new(packets: u64) -> Flood {
        let frame =
            build::ethernet().ipv4([10, 0, 0, 1], [10, 0, 0, 2]).tcp(1, 2, build::flags::SYN).payload(&[]);
        Flood { record: record(1_700_000_000 * SECOND, &frame), state: 0x9e37_79b9_7f4a_7c15, left: packets }
    }

    /// About a megabyte of records.
    fn next(&mut self) -> Option<Vec<u8>> {
        let n = self.left.min(1 << 14);
        let mut bytes = Vec::with_capacity(n as usize * self.record.len());
        for _ in 0..n {
            self.state =
                self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            // Addresses and ports follow 16 bytes of record header, 14 of Ethernet and 12 of IP.
            self.record[42..54]
                .copy_from_slice(&[self.state.to_be_bytes(), (!self.state).to_be_bytes()].concat()[..12]);
            bytes.extend(&self.record);
        }
        self.left -= n;
        (n > 0).then_some(bytes)
    }
}

#[test]
fn memory_stays_under_its_cap_in_a_flood_of_new_flows() {
    const PACKETS: u64 = 2_000_000;
    /// The program, stacks, and data on its way between threads: beyond the tables that --memory limits.
    const ALLOWANCE: u64 = 24 << 20;
    let folder = tempfile::tempdir().unwrap();
    let logs = folder.path().join("logs");
    for extra in [&[][..], &["-o", text(&logs), "--log", "zeek"]] {
        let arguments = ["-", "-j", "--memory", "32M", "--workers", "2"].iter().chain(extra);
        let mut child = start(program().args(arguments).stdin(Stdio::piped()));
        let status = format!("/proc/{}/status", child.id());
        let mut to = child.stdin.take().unwrap();
        to.write_all(&pcap(1, &[])).unwrap();
        let (mut flood, mut peak) = (Flood::new(PACKETS), 0);
        while let Some(bytes) = flood.next() {
            to.write_all(&bytes).unwrap();
            peak = peak.max(high_water(&status));
        }
        // The last tables are still allocated when the input ends: the program waits for more until then.
        std::thread::sleep(std::time::Duration::from_millis(50));
        peak = peak.max(high_water(&status));
        drop(to);
        let ran = finish(child).exits(0).quietly();
        println!("{extra:?}: {} KiB of memory at most", peak >> 10);
        assert!(peak > 0 && peak < (32 << 20) + ALLOWANCE, "{peak} bytes");
        assert_eq!(ran.fact("ledger", "flowed"), PACKETS);
        let created = ran.fact("flows", "created");
        assert!(created > PACKETS * 99 / 100 && ran.fact("flows", "evicted") > created / 2);
        assert_eq!(ran.fact("flows", "ended"), created, "each flow is recorded");
    }
    let rows = fs::read_to_string(logs.join("conn.log")).unwrap();
    assert!(rows.lines().filter(|line| !line.starts_with('#')).count() as u64 > PACKETS * 99 / 100);
}

/// Peak resident memory of a process in bytes.
fn high_water(status: &str) -> u64 {
    let text = fs::read_to_string(status).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok()).unwrap_or(0) << 10
}

#[test]
fn the_program_ends_on_every_kind_of_capture() {
    let captures = diverse(150);
    for path in &captures {
        let ran = weir([text(path), "-v", "-q", "--memory", "16M"]);
        let name = path.display();
        assert!(matches!(ran.code, Some(0 | 2 | 3)), "{name}: {:?} {}", ran.code, ran.stderr);
        assert!(!ran.stderr.contains("ledger") && !ran.stderr.contains("panicked"), "{name}: {}", ran.stderr);
        if ran.code == Some(2) {
            continue;
        }
        let ledger = |name: &str| -> u64 {
            let text = ran.text();
            let line = text.lines().find(|line| line.trim_start().starts_with(name)).unwrap().to_owned();
            line.split_whitespace().last().unwrap().replace(',', "").parse().unwrap()
        };
        assert_eq!(ledger("offered"), ledger("caught"), "{name}");
        assert_eq!(ledger("caught"), ledger("not matched") + ledger("analysed"), "{name}");
        assert_eq!(ledger("analysed"), ledger("in flows") + ledger("outside flows"), "{name}");
        assert_eq!(ledger("flows"), ledger("ended"), "{name}");
    }
    println!("{} captures", captures.len());
}
