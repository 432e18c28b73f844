//! Triggers: events that each write a packet file, over captures and over links.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod support;

use std::fs;
use std::path::Path;
use std::thread;
use std::time::Duration;
use support::net::*;
use support::*;
use weir_wire::build;

/// Runs in a namespace, in a separate process.
#[test]
#[ignore = "run by the other tests, in a namespace"]
fn sender() {
    send_unsegmented();
}

/// The files of a directory, by name.
fn files(directory: &Path) -> Vec<(String, Vec<u8>)> {
    let entries = fs::read_dir(directory).unwrap().flatten();
    let mut files: Vec<_> = entries
        .map(|entry| (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap()))
        .collect();
    files.sort();
    files
}

/// A frame of UDP from a host to port 53 of another.
fn datagram(host: u8, length: usize) -> Vec<u8> {
    let frame = build::ethernet().ipv4([10, 0, 0, host], [10, 0, 0, 99]);
    frame.udp(40_000, 53).payload(&vec![0; length])
}

/// Every second a packet of one host, and in each `gap`-th second a burst of 50 packets of another.
fn bursts(number: u64, gap: u64) -> Vec<u8> {
    let mut packets = Vec::new();
    for second in 0..number * gap {
        let start = (1_000 + second) * SECOND;
        packets.push((start, datagram(1, 20)));
        if second % gap == gap / 2 {
            packets.extend((1..=50).map(|n| (start + n * 10_000_000, datagram(2, n as usize))));
        }
    }
    pcap(1, &packets)
}

fn configuration(dumps: &Path, keys: &str) -> String {
    format!("[[trigger]]\nname = \"burst\"\nto = {:?}\n{keys}\n", text(dumps))
}

/// The packets of a capture, as `weir count` has them.
fn packets_of(path: &Path, expression: &str) -> u64 {
    weir(["-j", "-q", text(path), expression]).exits(0).fact("ledger", "analysed")
}

/// As many files as there are bursts, each from before its burst, and equal for any number of workers.
#[test]
fn each_crossing_of_a_threshold_writes_a_file_that_begins_before_it() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    for (bursts_of, gap) in [(1, 30), (7, 20), (50, 12)] {
        let capture = put(folder.path(), "x.pcap", &bursts(bursts_of, gap));
        let mut before = None;
        for workers in ["1", "2", "3"] {
            let dumps = at(&format!("d{bursts_of}-{workers}"));
            let keys = "when = \"packets\"\nabove = 40\nover = \"1s\"\nrearm = \"3s\"\nbefore = \"3s\"\nafter = \"4s\"\n\
                        filter = \"udp port 53\"";
            let config = put(folder.path(), "weir.toml", configuration(&dumps, keys).as_bytes());
            let ran = weir(["-c", text(&config), "--workers", workers, text(&capture)]).exits(0);
            let written = files(&dumps);
            assert_eq!(written.len() as u64, bursts_of, "{}", ran.text());
            let note = format!("{bursts_of} packet file");
            assert!(ran.text().contains(&note), "{}", ran.text());
            assert!(before.is_none_or(|before| before == written), "{workers} workers");
            for (name, _) in &written {
                let path = dumps.join(name);
                // Three seconds before the second of the burst, that second, and three after it.
                assert_eq!(packets_of(&path, "host 10.0.0.1"), 7, "{name}");
                assert_eq!(packets_of(&path, "host 10.0.0.2"), 50, "{name}");
            }
            before = Some(written);
        }
    }
}

/// A number that swings about the threshold opens one file while its event is open.
#[test]
fn a_number_that_swings_opens_one_file() {
    let folder = tempfile::tempdir().unwrap();
    let dumps = folder.path().join("dumps");
    let capture = put(folder.path(), "x.pcap", &bursts(20, 4));
    let keys = "when = \"packets\"\nabove = 40\nover = \"1s\"\nrearm = \"10s\"";
    let config = put(folder.path(), "weir.toml", configuration(&dumps, keys).as_bytes());
    weir(["-q", "-c", text(&config), text(&capture)]).exits(0);
    assert_eq!(files(&dumps).len(), 1);
}

/// A capture with these numbers of packets in its seconds.
fn seconds_of(numbers: &[u64]) -> Vec<u8> {
    let mut packets = Vec::new();
    for (second, number) in (1_000..).zip(numbers) {
        packets.extend((0..*number).map(|n| (second * SECOND + n * 1_000_000, datagram(2, n as usize))));
    }
    pcap(1, &packets)
}

/// A trigger stays on down to a lower number, and goes on when its number has passed for some time.
/// Tenths of a second are compared as well: packets that come within one, and not as many within a second.
#[test]
fn windows_may_be_tenths_of_a_second() {
    let folder = tempfile::tempdir().unwrap();
    let mut packets = Vec::new();
    for second in 0..20 {
        let gap = if second % 10 == 5 { 1_500_000 } else { 20_000_000 };
        // The burst ends within a tenth of a second that begins at 0.2.
        let start = (1_000 + second) * SECOND + 200_000_000;
        packets.extend((0..40).map(|n| (start + n * gap, datagram(1, 20))));
    }
    let capture = put(folder.path(), "x.pcap", &pcap(1, &packets));
    for (over, expected) in [("100ms", 2), ("300ms", 2), ("1s", 0)] {
        let mut first = None;
        for workers in ["1", "2", "3"] {
            let dumps = folder.path().join(format!("{over}-{workers}"));
            let keys =
                format!("when = \"packets\"\nabove = 39\nover = {over:?}\nrearm = \"2s\"\nafter = \"1s\"");
            let keys = keys.replace("39", if over == "1s" { "40" } else { "39" });
            let config = put(folder.path(), "weir.toml", configuration(&dumps, &keys).as_bytes());
            let ran = weir(["-c", text(&config), "--workers", workers, text(&capture)]).exits(0);
            let written = if dumps.exists() { files(&dumps) } else { Vec::new() };
            assert_eq!(written.len(), expected, "{over}: {}", ran.text());
            assert_eq!(first.get_or_insert_with(|| written.clone()), &written, "{over}, {workers} workers");
        }
    }
}

#[test]
fn a_trigger_goes_off_below_a_lower_number_and_on_after_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let written = |numbers: &[u64], keys: &str| {
        let dumps = folder.path().join("dumps");
        let _ = fs::remove_dir_all(&dumps);
        let capture = put(folder.path(), "x.pcap", &seconds_of(numbers));
        let keys = format!("when = \"packets\"\nabove = 40\nover = \"1s\"\nrearm = \"3s\"\n{keys}");
        let config = put(folder.path(), "weir.toml", configuration(&dumps, &keys).as_bytes());
        weir(["-q", "-c", text(&config), text(&capture)]).exits(0);
        files(&dumps).into_iter().map(|(name, _)| name).collect::<Vec<_>>()
    };
    let swings = [50, 36, 36, 36, 36, 36, 50];
    assert_eq!(written(&swings, "").len(), 1);
    assert_eq!(written(&swings, "below = 36").len(), 2);
    assert_eq!(written(&swings, "below = 35.5").len(), 1);
    let last = written(&[50, 10, 50, 50, 10, 50, 50, 50, 10], "hold = \"3s\"");
    // The third second without a break is 1,007 s after the epoch.
    assert_eq!(last, ["burst.19700101T001647.000000Z.pcapng"]);
    assert!(written(&[50, 50, 10, 50, 50], "hold = \"3s\"").is_empty());
}

/// Limits of packets, bytes, lengths and files hold, and the summary says what they cost.
#[test]
fn limits_hold_and_are_said() {
    let folder = tempfile::tempdir().unwrap();
    let capture = put(folder.path(), "x.pcap", &bursts(5, 20));
    let run = |name: &str, keys: &str| {
        let dumps = folder.path().join(name);
        let keys = format!(
            "when = \"top source\"\ncolumn = \"packets\"\nabove = 40\nover = \"1s\"\nrearm = \"3s\"\nafter = \"4s\"\nfilter = \"host {{host}}\"\n{keys}"
        );
        let config = put(folder.path(), "weir.toml", configuration(&dumps, &keys).as_bytes());
        let ran = weir(["-c", text(&config), text(&capture)]).exits(0);
        let shown = ran.text();
        let note = shown.lines().find(|line| line.contains("of triggers")).unwrap().trim().to_owned();
        (files(&dumps), note, dumps)
    };
    let (written, note, dumps) = run("packets", "packets = 10");
    assert!(note.contains("5 packet files of triggers") && note.contains("50 packets, 5 full"), "{note}");
    assert_eq!(packets_of(&dumps.join(&written[0].0), "host 10.0.0.2"), 10);
    let (written, note, _) = run("files", "files = 2");
    assert_eq!(written.len(), 2);
    assert!(note.contains("3 too many"), "{note}");
    let (.., dumps) = run("short", "snaplen = 60");
    let cut = weir(["-j", text(&dumps.join(&files(&dumps)[0].0))]).exits(0);
    assert_eq!(cut.fact("ledger", "analysed"), 50);
    let (written, note, _) = run("bytes", "bytes = \"1K\"");
    assert!(written.iter().all(|(_, bytes)| bytes.len() < 3_000) && note.contains("5 full"), "{note}");
}

/// A rate is per second, whatever time it is compared over, and a line of a chart is what the chart draws.
#[test]
fn rates_and_lines_of_charts_open_files() {
    let folder = tempfile::tempdir().unwrap();
    let capture = put(folder.path(), "x.pcap", &bursts(4, 20));
    // A burst is 51 packets in an even second, and a packet follows in the next one. Frames have 42 bytes and their payload.
    let burst = 62 + (43..=92).sum::<u64>();
    let chart = "[[chart]]\nname = \"of hosts\"\nunit = \"packets\"\nlines = [\n\
                 { name = \"one\", expression = \"host 10.0.0.1\" },\n\
                 { name = \"two\", expression = \"host 10.0.0.2\" },\n]\n";
    for (keys, number) in [
        ("when = \"rate\"\nabove = 50".to_owned(), 4),
        ("when = \"rate\"\nabove = 51".to_owned(), 0),
        ("when = \"rate\"\nabove = 25.9\nover = \"2s\"".to_owned(), 4),
        ("when = \"rate\"\nabove = 26\nover = \"2s\"".to_owned(), 0),
        ("when = \"rate\"\nabove = 0\nwhere = \"host 10.0.0.2\"".to_owned(), 4),
        (format!("when = \"rate\"\ncolumn = \"bytes\"\nabove = {}", burst - 1), 4),
        (format!("when = \"rate\"\ncolumn = \"bytes\"\nabove = {burst}"), 0),
        (format!("line = \"of hosts/two\"\nabove = 49\nover = \"1s\"\n{chart}"), 4),
        (format!("line = \"of hosts/one\"\nabove = 49\nover = \"1s\"\n{chart}"), 0),
    ] {
        let dumps = tempfile::tempdir_in(folder.path()).unwrap();
        let keys = format!("rearm = \"3s\"\n{keys}");
        let config = put(folder.path(), "weir.toml", configuration(dumps.path(), &keys).as_bytes());
        let ran = weir(["-c", text(&config), text(&capture)]).exits(0);
        assert_eq!(files(dumps.path()).len(), number, "{keys}: {}", ran.text());
    }
}

/// All files of a trigger are within its limit.
#[test]
fn the_files_of_a_trigger_have_a_limit() {
    let folder = tempfile::tempdir().unwrap();
    let dumps = folder.path().join("dumps");
    let capture = put(folder.path(), "x.pcap", &bursts(100, 12));
    let keys = "when = \"rate\"\nabove = 40\nrearm = \"3s\"\nafter = \"4s\"\nfiles = 1000\nlimit = \"1M\"";
    let config = put(folder.path(), "weir.toml", configuration(&dumps, keys).as_bytes());
    let mut before = None;
    for workers in ["1", "2"] {
        let _ = fs::remove_dir_all(&dumps);
        let ran = weir(["-c", text(&config), "--workers", workers, text(&capture)]).exits(0);
        let written = files(&dumps);
        let bytes: usize = written.iter().map(|(_, bytes)| bytes.len()).sum();
        assert!(bytes <= 1 << 20 && (1..100).contains(&written.len()), "{bytes} in {}", written.len());
        assert!(ran.text().contains(&format!("{} too many", 100 - written.len())), "{}", ran.text());
        assert!(before.is_none_or(|before| before == written), "{workers} workers");
        before = Some(written);
    }
}

/// The numbers of the statistics of an interface in a pcapng file (section 4.6): packets received and dropped.
fn statistics(bytes: &[u8]) -> Vec<(u64, u64)> {
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
    let long = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
    let (mut at, mut found) = (0, Vec::new());
    while at < bytes.len() {
        if word(at) == 5 {
            // After the type, the length, the number of the interface and the time: two options of 8 bytes each.
            assert_eq!([word(at + 20), word(at + 32)], [4 | 8 << 16, 5 | 8 << 16]);
            found.push((long(at + 24), long(at + 36)));
        }
        at += word(at + 4);
    }
    found
}

/// Lost packets open a file, by their number and by their share, and the file says how many they were.
#[test]
fn lost_packets_open_a_file_that_counts_them() {
    let Some(net) = Net::new() else { return };
    let folder = tempfile::tempdir().unwrap();
    let dumps = folder.path().join("dumps");
    let keys =
        "when = \"drops\"\nover = \"1s\"\nabove = 100\nbefore = \"20s\"\nafter = \"5s\"\npackets = 1000";
    let share = keys.replace("100\n", "\"0.1%\"\n");
    let never = keys.replace("100\n", "100000000\n");
    let all = [("number", keys), ("share", &share), ("never", &never)];
    let tables = all.map(|(name, keys)| configuration(&dumps, keys).replace("burst", name)).concat();
    let config = put(folder.path(), "weir.toml", tables.as_bytes());
    let run = ["-i", "far", "-c", text(&config), "--memory", "32M", "--workers", "1", "--user", "root"];
    let child = net.start(&run);
    assert_eq!(net.send(10), 10);
    // A stopped program reads no packets, so that the ring overflows.
    signal(&child, "STOP");
    net.send(500_000);
    signal(&child, "CONT");
    let is_written = |name: &str| {
        net.send(10);
        files(&dumps).iter().any(|(file, _)| file.starts_with(name) && file.ends_with("Z.pcapng"))
    };
    assert!(eventually(|| is_written("number")) && eventually(|| is_written("share")), "no file");
    signal(&child, "INT");
    let ran = finish(child);
    let written = files(&dumps);
    let names: Vec<&String> = written.iter().map(|(name, _)| name).collect();
    assert_eq!(names.len(), 2, "{names:?}: {}", ran.text());
    for (name, bytes) in &written {
        let says = String::from_utf8_lossy(bytes);
        for part in ["drops, event", "ledger of the run at the event", "those are not in this file"] {
            assert!(says.contains(part), "{name}: {part}");
        }
        let statistics = statistics(bytes);
        let [(received, dropped)] = statistics[..] else { panic!("{name}: {statistics:?}") };
        assert!(dropped > 100 && received > dropped, "{name}: {dropped} of {received}");
        let read = packets_of(&dumps.join(name), "");
        assert!((1..=1_000).contains(&read) && read <= received - dropped, "{name}: {read}");
    }
}

/// The comment of a file has the formula, the number and the expression.
#[test]
fn a_file_says_why_it_was_written() {
    let folder = tempfile::tempdir().unwrap();
    let dumps = folder.path().join("dumps");
    let capture = put(folder.path(), "x.pcap", &bursts(1, 20));
    let keys = "when = \"packets\"\nabove = 40\nover = \"1s\"\nbefore = \"2s\"\nwhere = \"udp\"";
    let config = put(folder.path(), "weir.toml", configuration(&dumps, keys).as_bytes());
    weir(["-q", "-c", text(&config), text(&capture)]).exits(0);
    let written = files(&dumps);
    let [(name, bytes)] = written.as_slice() else { panic!("{written:?}") };
    assert_eq!(name, "burst.19700101T001650.000000Z.pcapng");
    let text = String::from_utf8_lossy(bytes);
    for part in [
        "trigger burst: packets, event name burst above 40 over 1 keep 32 where udp",
        "event burst of all, 1970-01-01T00:16:50.000000000Z",
        "numbers: least 51, most 51",
        "packets: udp",
        "before the event: 2.000 s wanted, 2.000 s written",
        "after its beginning: 60.000 s wanted",
    ] {
        assert!(text.contains(part), "{part}");
    }
}

/// A hundred triggers that go on at once each write their file.
#[test]
fn a_hundred_triggers_write_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let dumps = folder.path().join("dumps");
    let capture = put(folder.path(), "x.pcap", &bursts(1, 20));
    let keys = "when = \"packets\"\nabove = 40\nover = \"1s\"\nafter = \"1s\"\nbefore = \"1s\"";
    let tables: String =
        (0..100).map(|n| configuration(&dumps, keys).replace("burst", &format!("burst-{n}"))).collect();
    let config = put(folder.path(), "weir.toml", tables.as_bytes());
    let mut before = None;
    for workers in ["1", "3"] {
        let _ = fs::remove_dir_all(&dumps);
        weir(["-q", "-c", text(&config), "--workers", workers, text(&capture)]).exits(0);
        let written = files(&dumps);
        assert_eq!(written.len(), 100);
        for (name, _) in written.iter().step_by(33) {
            assert_eq!(packets_of(&dumps.join(name), ""), 52, "{name}");
        }
        assert!(before.is_none_or(|before| before == written), "{workers} workers");
        before = Some(written);
    }
}

/// A clock that goes back an hour and ahead ten years opens a file for each burst, equal for any number of workers.
#[test]
fn a_clock_that_leaps_opens_the_files_of_its_bursts() {
    let folder = tempfile::tempdir().unwrap();
    let dumps = folder.path().join("dumps");
    let mut packets = Vec::new();
    for start in [1_000_000_u64, 996_400, 316_360_000] {
        for second in start..start + 9 {
            let number = if second == start + 4 { 50 } else { 1 };
            packets.extend((0..number).map(|n| (second * SECOND + n * 1_000_000, datagram(2, n as usize))));
        }
    }
    let capture = put(folder.path(), "x.pcap", &pcap(1, &packets));
    let keys =
        "when = \"packets\"\nabove = 40\nover = \"1s\"\nrearm = \"3s\"\nbefore = \"2s\"\nafter = \"2s\"";
    let config = put(folder.path(), "weir.toml", configuration(&dumps, keys).as_bytes());
    let mut before = None;
    for workers in ["1", "2", "3"] {
        let _ = fs::remove_dir_all(&dumps);
        weir(["-q", "-c", text(&config), "--workers", workers, text(&capture)]).exits(0);
        let written = files(&dumps);
        let names: Vec<&str> = written.iter().map(|(name, _)| &**name).collect();
        assert_eq!(
            names,
            [
                "burst.19700112T124644.000000Z.pcapng",
                "burst.19700112T134644.000000Z.pcapng",
                "burst.19800110T134644.000000Z.pcapng"
            ]
        );
        for name in &names {
            // Two seconds before the burst, its second, and one after it.
            assert_eq!(packets_of(&dumps.join(name), ""), 53, "{name}");
        }
        assert!(before.is_none_or(|before| before == written), "{workers} workers");
        before = Some(written);
    }
}

/// The check of a configuration says how far back files of links can begin, at full speed and at the rate of its store.
#[test]
fn a_check_says_how_long_the_rings_are() {
    let folder = tempfile::tempdir().unwrap();
    let (dumps, store) = (folder.path().join("dumps"), folder.path().join("store"));
    let capture = put(folder.path(), "x.pcap", &bursts(20, 4));
    weir(["-q", text(&capture), "-o", text(&store), "--log", "store"]).exits(0);
    let checked = |head: &str, tail: &str| {
        let text_of = format!("{head}\n{}\n{tail}", configuration(&dumps, "when = \"packets\"\nabove = 40"));
        let config = put(folder.path(), "weir.toml", text_of.as_bytes());
        weir(["config", "check", text(&config)]).exits(0).text()
    };
    let link = "interfaces = [\"lo\"]\nmemory = \"512M\"";
    assert!(!checked("", "").contains("triggers keep"), "captures are read again");
    let without = checked(link, "");
    assert!(
        without.contains("triggers keep at most 75.5 MB of packets: ") && without.contains("1 Gbit/s\n"),
        "{without}"
    );
    let with = checked(link, &format!("[store]\ndir = {:?}\n", text(&store)));
    let set = checked("interfaces = [\"lo\"]\ntrigger_memory = \"128M\"\nmemory = \"1G\"", "");
    assert!(set.contains("triggers keep at most 134.2 MB of packets: "), "{set}");
    // 20 bursts of 50 packets and 80 others in 80 seconds.
    assert!(with.contains("the last hour of the store (") && with.contains("pkt/s"), "{with}");
}

/// Ourmon's file has a text when a trigger goes on and when it goes off, with the number and the threshold.
#[test]
fn ourmons_file_has_texts_about_triggers() {
    let folder = tempfile::tempdir().unwrap();
    let (dumps, out) = (folder.path().join("dumps"), folder.path().join("out"));
    let capture = put(folder.path(), "x.pcap", &bursts(2, 20));
    let keys = "when = \"packets\"\nwhere = \"host 10.0.0.2\"\nabove = 40\nover = \"1s\"\nrearm = \"3s\"";
    let config = put(folder.path(), "weir.toml", configuration(&dumps, keys).as_bytes());
    for log in ["mon", "mon-paper"] {
        weir(["-c", text(&config), "-o", text(&out), "--log", log, text(&capture)]).exits(0);
        let file = fs::read_to_string(out.join("mon.lite")).unwrap();
        let texts: Vec<&str> = file.lines().filter_map(|line| line.strip_prefix("elog: burst ")).collect();
        let [on, off] = [("on", "current"), ("off", "highest")]
            .map(|(state, which)| format!("trigger {state}, {which} count: 50, threshold: 40"));
        assert_eq!(texts, [&on, &off, &on, &off], "{file}");
    }
}

/// What is set for the packets of triggers is checked against the memory, of the file and of the run.
#[test]
fn the_memory_of_the_rings_is_set() {
    let folder = tempfile::tempdir().unwrap();
    let dumps = folder.path().join("dumps");
    let config = |head: &str| {
        let text_of = format!("{head}\n{}", configuration(&dumps, "when = \"packets\"\nabove = 40"));
        put(folder.path(), "weir.toml", text_of.as_bytes())
    };
    for (head, reason) in [
        (
            "trigger_memory = \"300M\"\nmemory = \"512M\"",
            ":1:18: 300M is more than half of memory, which is 512M",
        ),
        ("trigger_memory = \"300M\"", "more than half"),
        ("trigger_memory = \"100K\"", "less than 1M"),
        ("trigger_memory = 5", "trigger_memory cannot be an integer"),
    ] {
        weir(["config", "check", text(&config(head))]).exits(1).says(reason);
    }
    let path = config("trigger_memory = \"64M\"");
    let explained = weir(["config", "explain", text(&path)]).exits(0).text();
    let line = explained.lines().find(|line| line.contains("trigger_memory")).unwrap();
    assert!(line.contains("64M") && line.contains(":1"), "{line}");
    let capture = bursts(20, 4);
    let piped = |options: &[&str]| {
        let mut arguments = vec!["-q", "-c", text(&path)];
        arguments.extend(options);
        weir_reads(arguments.into_iter().chain(["-"]), capture.clone())
    };
    piped(&["--memory", "64M"]).exits(1).says("trigger_memory = 64M is too much of 64M");
    piped(&["--workers", "64", "--memory", "4G"]).exits(1).says("is too little for 64 workers: at least 74M");
    let shares = piped(&["-v"]).exits(0).text();
    let share = shares.lines().find(|line| line.trim_start().starts_with("triggers ")).unwrap();
    assert!(share.contains("65,536"), "{share}");
}

/// Events of others write files, too: a scan is found where flows end.
#[test]
fn the_events_of_others_write_files() {
    let folder = tempfile::tempdir().unwrap();
    let dumps = folder.path().join("dumps");
    let keys = "event = \"port_scan\"\nfilter = \"host {host} and host {peer}\"\npackets = 50";
    let config = put(folder.path(), "weir.toml", configuration(&dumps, keys).as_bytes());
    let ran = weir(["-c", text(&config), text(&sample())]).exits(0);
    let written = files(&dumps);
    assert!(!written.is_empty(), "{}", ran.text());
    for (name, _) in &written {
        let path = dumps.join(name);
        assert_eq!(packets_of(&path, "host 10.99.0.104"), 50, "{name}");
    }
}

#[test]
fn invalid_triggers_are_errors_with_a_reason() {
    let folder = tempfile::tempdir().unwrap();
    let dumps = folder.path().join("dumps");
    for (keys, reason) in [
        ("when = \"packets\"", "above or below"),
        ("above = 3", "above"),
        ("when = \"packets\"\nabove = \"many\"", "many"),
        ("when = \"packets\"\nabove = 3\nover = \"250ms\"", "tenths"),
        ("when = \"packets\"\nabove = 3\nover = \"50ms\"", "0.1"),
        ("when = \"packets\"\nabove = 3\nfilter = \"host {hots}\"", "{host}"),
        ("when = \"packets\"\nabove = 3\nfilter = \"host\"", "host"),
        ("event = \"port_scan\"\nabove = 3", "for the events of others"),
        ("when = \"packets\"\nabove = 3\nname = \"b\"", "name"),
        ("when = \"top source\"\nabove = 3\ncolumn = \"weight\"", "packets, bytes, flows"),
        ("when = \"drops\"", "above or below"),
        ("when = \"drops\"\nabove = 3\nwhere = \"udp\"", "cannot be selected"),
        ("when = \"drops\"\nabove = 3\ncolumn = \"bytes\"", "packets, per_million"),
        ("when = \"drops\"\nabove = \"101%\"", "0%"),
        ("when = \"drops\"\nabove = \"1%\"\nbelow = 3", "both shares"),
        ("when = \"packets\"\nabove = \"1%\"", "for drops"),
        ("when = \"rate\"", "above or below"),
        ("when = \"rate\"\nlevel = \"flow\"\nabove = 3", "of packets"),
        ("line = \"ports/ssh\"\nabove = 3", ":4:8: no chart has the line"),
        (
            "line = \"p/shh\"\nabove = 3\n[[chart]]\nname = \"p\"\nlines = [{ name = \"ssh\", expression = \"port 22\" }]",
            "did you mean \"p/ssh\"",
        ),
        ("line = \"ports/ssh\"\nwhen = \"packets\"\nabove = 3", "measure and expression"),
        ("when = \"packets\"\nabove = 3\nlimit = \"1K\"", "less than 1M"),
    ] {
        let config = put(folder.path(), "weir.toml", configuration(&dumps, keys).as_bytes());
        let ran = weir(["config", "check", text(&config)]);
        assert_ne!(ran.code, Some(0), "{keys}");
        assert!(ran.stderr.contains(reason), "{keys}: {}", ran.stderr);
    }
    let config =
        put(folder.path(), "weir.toml", configuration(&dumps, "when = \"packets\"\nabove = 3").as_bytes());
    let anonymous = weir([
        "-c",
        text(&config),
        "--anon",
        "nullip",
        "-o",
        text(&folder.path().join("l")),
        text(&sample()),
    ]);
    assert!(anonymous.stderr.contains("anonymisation"), "{}", anonymous.stderr);
}

/// What cannot be read again is kept in rings: the files of standard input have the packets of those of a capture.
#[test]
fn files_of_standard_input_begin_before_their_events() {
    let folder = tempfile::tempdir().unwrap();
    let capture = put(folder.path(), "x.pcap", &bursts(7, 20));
    let keys =
        "when = \"packets\"\nabove = 40\nover = \"1s\"\nrearm = \"3s\"\nbefore = \"3s\"\nafter = \"4s\"";
    let written = |name: &str, read: &dyn Fn(&Path) -> Ran| {
        let dumps = folder.path().join(name);
        let config = put(folder.path(), "weir.toml", configuration(&dumps, keys).as_bytes());
        let ran = read(&config).exits(0);
        assert!(ran.text().contains("7 packet files of triggers"), "{name}: {}", ran.text());
        let names = files(&dumps).into_iter().map(|(name, _)| name);
        names.map(|name| (packets_of(&dumps.join(&name), ""), name)).collect::<Vec<_>>()
    };
    let expected = written("captures", &|config| weir(["-c", text(config), text(&capture)]));
    assert_eq!(expected.len(), 7);
    for workers in ["1", "2", "3"] {
        let piped = written(workers, &|config| {
            weir_reads(["-c", text(config), "--workers", workers, "-"], bursts(7, 20))
        });
        assert_eq!(piped, expected, "{workers} workers");
    }
}

/// Calls `each` with the capture of each attack, its configuration, the directory of the files of a trigger on floods, and the number of
/// files.
fn each_attack(mut each: impl FnMut(&Path, &Path, &Path, usize)) {
    let data = root().join("../shared/data/ddos");
    let mut skipped = 0;
    for (name, above, number) in [
        ("pkt.TCP.synflood.spoofed.pcap", 100, 1),
        // SYNs with ACK and RSTs of port 80, and SYNs with ACK of port 443.
        ("amp.TCP.reflection.SYNACK.pcap", 100, 3),
        ("amp.UDP.isakmp.pcap", 100, 1),
        // Answers of DNS, and fragments without a first one.
        ("amp.dns.RRSIG.fragmented.pcap", 40, 2),
    ] {
        let capture = data.join(name);
        if !capture.is_file() {
            skipped += 1;
            continue;
        }
        let folder = tempfile::tempdir().unwrap();
        let dumps = folder.path().join("dumps");
        let keys = format!(
            "when = \"flood\"\nabove = {above}\nover = \"1s\"\nbefore = \"20s\"\nfilter = \"dst host {{host}}\""
        );
        let config = put(folder.path(), "weir.toml", configuration(&dumps, &keys).as_bytes());
        each(&capture, &config, &dumps, number);
    }
    println!("{skipped} of 4 captures of attacks were not there and are skipped");
}

/// Checks that each file has all that the target receives. Returns the number of files.
fn has_whole_attack(capture: &Path, dumps: &Path, ran: &Ran) -> usize {
    let (written, all) = (files(dumps), packets_of(capture, "dst host 10.10.10.10"));
    for (file, _) in &written {
        assert_eq!(packets_of(&dumps.join(file), ""), all, "{capture:?}: {file}\n{}", ran.text());
    }
    written.len()
}

/// Captures of attacks, each with a trigger on floods: a file has all that the target receives from the first packet on.
#[test]
fn captures_of_attacks_trip_their_triggers() {
    each_attack(|capture, config, dumps, number| {
        let ran = weir(["-c", text(config), text(capture)]).exits(0);
        assert_eq!(has_whole_attack(capture, dumps, &ran), number, "{capture:?}: {}", ran.text());
    });
}

/// Sends the frames of a capture (classic pcap, microseconds, little-endian) over an interface, at their own times.
const REPLAY: &str = "
import socket, struct, sys, time
link = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
link.bind((sys.argv[1], 0))
data, at, begun, first = open(sys.argv[2], 'rb').read(), 24, time.time(), None
while at + 16 <= len(data):
    seconds, micros, length, _ = struct.unpack_from('<IIII', data, at)
    when = seconds + micros / 1e6
    first = when if first is None else first
    time.sleep(max(0, when - first - (time.time() - begun)))
    link.send(data[at + 16:at + 16 + length])
    at += 16 + length
";

/// The captures of attacks, replayed over a link at their own speed, trip their triggers, and the files begin with the first packet.
#[test]
fn attacks_over_a_link_trip_their_triggers() {
    each_attack(|capture, config, dumps, _| {
        let Some(net) = Net::new() else { return };
        let run = ["-i", "far", "-c", text(config), "--workers", "2", "--user", "root"];
        // Some frames are larger than Ethernet's.
        net.ip(&net.here, &["link", "set", "near", "mtu", "9000"]);
        net.ip(&net.there, &["link", "set", "far", "mtu", "9000"]);
        let child = net.start(&run);
        let sent = net.inside(&net.here, "python3").args(["-c", REPLAY, "near", text(capture)]).status();
        assert!(sent.unwrap().success());
        let is_begun = || dumps.exists() && !files(dumps).is_empty();
        assert!(eventually(is_begun), "{capture:?}: no file");
        // The other rows of the list are judged with the end of their second.
        thread::sleep(Duration::from_millis(1_500));
        signal(&child, "INT");
        has_whole_attack(capture, dumps, &finish(child).exits(130));
    });
}

/// Over a link, a file begins with packets from before its event, whichever worker had them.
#[test]
fn a_file_of_a_link_begins_before_its_event() {
    for (workers, over) in [("1", "1s"), ("2", "1s"), ("1", "300ms"), ("2", "300ms")] {
        let Some(net) = Net::new() else { return };
        let folder = tempfile::tempdir().unwrap();
        let dumps = folder.path().join("dumps");
        let keys = format!(
            "when = \"packets\"\nabove = 500\nover = {over:?}\nbefore = \"20s\"\nafter = \"3s\"\nfilter = \"udp\""
        );
        let config = put(folder.path(), "weir.toml", configuration(&dumps, &keys).as_bytes());
        let run = ["-i", "far", "-c", text(&config), "--workers", workers, "--user", "root"];
        let child = net.start(&run);
        assert_eq!(net.send(10), 10);
        thread::sleep(Duration::from_millis(2_500));
        assert_eq!(net.send(3_000), 3_000);
        let is_written = || files(&dumps).iter().any(|(name, _)| name.ends_with("Z.pcapng"));
        assert!(eventually(is_written), "no file");
        signal(&child, "INT");
        let ran = finish(child).exits(130);
        let written = files(&dumps);
        let [(name, _)] = written.as_slice() else { panic!("{written:?}") };
        let path = dumps.join(name);
        assert_eq!(packets_of(&path, "udp"), 3_010, "{}", ran.text());
        let read = weir([text(&path)]).exits(0);
        assert!(read.text().contains("in time order"), "{}", read.text());
        assert!(ran.text().contains("1 packet file of triggers"), "{}", ran.text());
    }
}

/// Over a link, a file is begun when the threshold is passed, and not when the hour that is counted has ended. So it is by the rows of a
/// list.
#[test]
fn a_file_of_a_link_is_begun_in_the_midst_of_its_window() {
    for (keys, workers) in [
        ("when = \"packets\"\nwhere = \"udp\"\nabove = 2990", "2"),
        ("when = \"top source\"\nwhere = \"udp\"\nabove = 2990", "2"),
        ("line = \"p/udp\"\nabove = 2990", "1"),
    ] {
        let Some(net) = Net::new() else { return };
        let folder = tempfile::tempdir().unwrap();
        let dumps = folder.path().join("dumps");
        let chart = "[[chart]]\nname = \"p\"\nlines = [{ name = \"udp\", expression = \"udp\" }]";
        let keys =
            format!("{keys}\nover = \"1h\"\nbefore = \"20s\"\nafter = \"1h\"\nfilter = \"udp\"\n{chart}");
        let config = put(folder.path(), "weir.toml", configuration(&dumps, &keys).as_bytes());
        let child = net.start(&["-i", "far", "-c", text(&config), "--workers", workers, "--user", "root"]);
        assert_eq!(net.send(3_000), 3_000);
        let is_begun = || dumps.exists() && !files(&dumps).is_empty();
        assert!(eventually(is_begun), "no file: {keys}");
        signal(&child, "INT");
        let ran = finish(child).exits(130);
        let written = files(&dumps);
        let [(name, _)] = written.as_slice() else { panic!("{written:?}") };
        assert_eq!(packets_of(&dumps.join(name), "udp"), 3_000, "{keys}\n{}", ran.text());
    }
}

/// A run goes on with other triggers and charts while a file is written, and the file gets its packets. A trigger that needs more than
/// the run began with waits for a restart.
#[test]
fn triggers_change_while_a_file_is_written() {
    let Some(net) = Net::new() else { return };
    let folder = tempfile::tempdir().unwrap();
    let dumps = folder.path().join("dumps");
    let common =
        "when = \"packets\"\nover = \"1h\"\nbefore = \"20s\"\nafter = \"1h\"\nfilter = \"udp\"\nabove = ";
    let config = put(folder.path(), "weir.toml", configuration(&dumps, &format!("{common}500")).as_bytes());
    let run = ["-i", "far", "-c", text(&config), "--workers", "2", "--user", "root"];
    let child = net.start(&run);
    assert_eq!(net.send(3_000), 3_000);
    let has = |name: &str| dumps.exists() && files(&dumps).iter().any(|(file, _)| file.contains(name));
    assert!(eventually(|| has("burst.")), "no file");
    let changed = configuration(&dumps, &format!("{common}500000"));
    let second = configuration(&dumps, &format!("{common}20")).replace("burst", "second");
    let chart = "[[chart]]\nname = \"p\"\nlines = [{ name = \"udp\", expression = \"udp\" }]\n";
    put(folder.path(), "weir.toml", format!("{changed}{second}{chart}").as_bytes());
    signal(&child, "HUP");
    assert!(eventually(|| net.send(10) == 10 && has("second.")), "no file of the new trigger");
    let longer = second.replace("20s", "30s");
    put(folder.path(), "weir.toml", format!("{longer}{chart}").as_bytes());
    signal(&child, "HUP");
    assert!(eventually(|| net.send(10) == 10));
    signal(&child, "INT");
    let ran = finish(child).exits(130);
    let written = files(&dumps);
    let [(burst, _), (second, _)] = written.as_slice() else { panic!("{written:?}") };
    let packets = |name: &String| packets_of(&dumps.join(name), "udp");
    assert!(packets(burst) >= 3_021, "{}", ran.text());
    assert!(packets(second) >= 21, "{}", ran.text());
    assert_eq!(ran.stderr.matches("needs a restart: trigger").count(), 1, "{}", ran.stderr);
}

/// A file that goes while it is written is an event, and the rest of the packets goes to a new one.
#[test]
fn a_file_that_goes_while_it_is_written_is_begun_again() {
    let Some(net) = Net::new() else { return };
    let folder = tempfile::tempdir().unwrap();
    let (dumps, logs) = (folder.path().join("dumps"), folder.path().join("logs"));
    let keys = format!(
        "when = \"packets\"\nabove = 500\nover = \"1s\"\nafter = \"60s\"\nfilter = \"udp\"\n\
         [output]\nlog = [\"events\"]\ndir = {:?}",
        text(&logs)
    );
    fs::create_dir(&logs).unwrap();
    let config = put(folder.path(), "weir.toml", configuration(&dumps, &keys).as_bytes());
    let child = net.start(&["-i", "far", "-c", text(&config), "--user", "root"]);
    assert_eq!(net.send(3_000), 3_000);
    let is_there = || dumps.exists() && !files(&dumps).is_empty();
    assert!(eventually(is_there), "no file");
    let first: Vec<_> = fs::read_dir(&dumps).unwrap().flatten().collect();
    first.iter().for_each(|file| fs::remove_file(file.path()).unwrap());
    assert!(eventually(|| net.send(10) == 10 && is_there()), "no second file");
    assert_eq!(net.send(7), 7);
    // The packets are written when all workers have reached their time.
    thread::sleep(Duration::from_millis(2_500));
    signal(&child, "INT");
    let ran = finish(child).exits(4);
    assert!(ran.stderr.contains("removed while it was written"), "{}", ran.stderr);
    assert!(ran.text().contains("1 FAILED"), "{}", ran.text());
    let written = files(&dumps);
    let [(name, _)] = written.as_slice() else { panic!("{} files", written.len()) };
    assert!(packets_of(&dumps.join(name), "udp") >= 7, "{}", ran.text());
    let log: String =
        files(&logs).iter().map(|(_, bytes)| String::from_utf8_lossy(bytes).into_owned()).collect();
    assert!(log.contains("output_failed"), "{log}");
}
