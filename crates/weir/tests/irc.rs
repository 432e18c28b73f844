//! Channels of IRC have the messages and hosts that connections show, with any number of workers, and logs do not change by that.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

#[path = "support/pass.rs"]
#[allow(dead_code)]
mod pass;
mod support;
#[path = "support/tables.rs"]
mod tables;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use support::aside::is_aside;
use support::{SECOND, captures, pcap, put, text, weir};
use tables::tables_of;
use weir_api::{Datum, Folded, FunctionCall, Level, SubscriptionSpec, Table};
use weir_wire::build::{self, flags};

const SERVER: [u8; 4] = [192, 0, 2, 1];

type Packets = Vec<(u64, Vec<u8>)>;

/// Who says what.
type Said<'s> = (usize, &'s [u8]);

/// A connection of a client to a server of IRC, a packet each tenth of a second.
fn connection(out: &mut Packets, client: [u8; 4], port: u16, said: &[Said<'_>]) {
    let (ends, ports) = ([client, SERVER], [port, 6667]);
    let mut next = [1000_u32, 5000];
    let mut time = SECOND;
    let mut send = |from: usize, bits: u8, payload: &[u8]| {
        let to = 1 - from;
        let frame = build::ethernet().ipv4(ends[from], ends[to]).tcp(ports[from], ports[to], bits);
        time += SECOND / 10;
        out.push((time, frame.seq(next[from]).ack(next[to]).payload(payload)));
        next[from] += payload.len() as u32 + u32::from(bits & (flags::SYN | flags::FIN) != 0);
    };
    send(0, flags::SYN, &[]);
    send(1, flags::SYN | flags::ACK, &[]);
    send(0, flags::ACK, &[]);
    send(0, flags::ACK | flags::PSH, b"NICK a\r\nUSER a 0 * :A\r\n");
    send(1, flags::ACK | flags::PSH, b":irc 001 a :Welcome\r\n");
    said.iter().for_each(|(from, payload)| send(*from, flags::ACK | flags::PSH, payload));
    send(0, flags::FIN | flags::ACK, &[]);
    send(1, flags::FIN | flags::ACK, &[]);
    send(0, flags::ACK, &[]);
}

fn client(n: u8) -> [u8; 4] {
    [10, 0, 0, n]
}

fn sorted(mut packets: Packets) -> Packets {
    packets.sort_by_key(|(time, _)| *time);
    packets
}

/// Five clients in one channel, of which some are in others.
fn packets() -> Packets {
    let mut out = Packets::new();
    for n in 1..=5 {
        let said: [Said<'_>; 5] = [
            (0, b"JOIN #Bots\r\n"),
            (1, b":a!a@h JOIN #bots\r\nPING :1\r\n"),
            (0, b"PONG :1\r\nPRIVMSG #bots :the secret text\r\n"),
            (1, b":b!b@h PRIVMSG #bots :JOIN #decoy\r\n"),
            (0, b"PRIVMSG friend :#decoy\r\n"),
        ];
        connection(&mut out, client(n), 4000 + u16::from(n), &said);
    }
    connection(&mut out, client(1), 5000, &[(0, b"JOIN #one,#\x1b[31mred\r\n"), (0, b"PART #one\r\n")]);
    connection(&mut out, client(6), 5000, &[(0, "JOIN #кириллица\r\nNOTICE #один,#bots :x\r\n".as_bytes())]);
    sorted(out)
}

fn spec(name: &str, call: FunctionCall) -> SubscriptionSpec {
    SubscriptionSpec { level: Level::Record, ..SubscriptionSpec::new(name, "", vec![call]) }
}

/// The tables by channel and by host, and the number of records that a function beside them sees.
fn tables(path: &Path, workers: usize, rows: usize) -> [Table; 3] {
    let irc = |by: &str| FunctionCall::new("irc").with("by", by).with("rows", rows);
    let records = spec("records", FunctionCall::new("records"));
    tables_of(path, workers, [spec("channel", irc("channel")), spec("host", irc("host")), records])
}

/// The key of each row as text, with its numbers.
fn rows(table: &Table) -> BTreeMap<String, Vec<u64>> {
    let part = |datum: &Datum| match datum {
        Datum::Address(address) => address.to_string(),
        Datum::Text(text) => text.to_string(),
        other => panic!("{other:?}"),
    };
    let key = |key: &[Datum]| key.iter().map(part).collect::<Vec<_>>().join(" ");
    let rows = table.rows.iter();
    rows.map(|row| (key(&row.key), row.values.iter().map(Folded::weight).collect())).collect()
}

#[test]
fn channels_have_their_messages_and_hosts_their_channels() {
    let folder = tempfile::tempdir().unwrap();
    let path = put(folder.path(), "x.pcap", &pcap(1, &packets()));
    let [by_channel, by_host, records] = tables(&path, 1, 8192);
    let expected: [(&str, [u64; 6]); 5] = [
        ("#bots", [26, 5, 11, 5, 5, 6]),
        ("#one", [1, 1, 0, 0, 0, 1]),
        ("#\x1b[31mred", [1, 1, 0, 0, 0, 1]),
        ("#кириллица", [1, 1, 0, 0, 0, 1]),
        ("#один", [1, 0, 1, 0, 0, 1]),
    ];
    let expected = expected.map(|(name, numbers)| (name.to_owned(), numbers.to_vec()));
    assert_eq!(rows(&by_channel), expected.into());
    let of_hosts = rows(&by_host);
    assert_eq!(of_hosts.len(), 5 + 2 + 3, "{of_hosts:?}");
    assert_eq!(of_hosts["10.0.0.1 #bots"], [5, 1, 2, 1, 1]);
    assert_eq!(of_hosts["10.0.0.6 #один"], [1, 0, 1, 0, 0]);
    let alone = tables_of(&path, 1, [spec("records", FunctionCall::new("records"))]);
    assert_eq!(std::slice::from_ref(&records), alone, "other functions see no record of a count");
    for workers in [2, 3, 7] {
        let [channel, host, of_logs] = tables(&path, workers, 8192);
        assert_eq!([channel, host, of_logs], [by_channel.clone(), by_host.clone(), records.clone()]);
    }
}

/// More channels than rows: what is lost is in the errors, and a busy channel keeps its row.
#[test]
fn a_flood_of_channels_keeps_the_busy_ones() {
    let folder = tempfile::tempdir().unwrap();
    let mut out = Packets::new();
    let mut number = 0;
    for n in 0..40_u8 {
        let lines: Vec<Vec<u8>> = (0..40)
            .map(|_| {
                let mut names = Vec::new();
                for _ in 0..20 {
                    number += 1;
                    names.push(format!("#{number}"));
                }
                format!("JOIN {}\r\nPRIVMSG #busy :x\r\n", names.join(",")).into_bytes()
            })
            .collect();
        let said: Vec<Said<'_>> = lines.iter().map(|line| (0, line.as_slice())).collect();
        connection(&mut out, client(n), 4000, &said);
    }
    let path = put(folder.path(), "x.pcap", &pcap(1, &sorted(out)));
    for workers in [1, 2, 3] {
        let [by_channel, ..] = tables(&path, workers, 64);
        assert!(!by_channel.is_exact() && by_channel.rows.len() <= 64 && by_channel.absent > 0);
        let busy = [Datum::Text("#busy".into())];
        let row = by_channel.rows.iter().find(|row| row.key == busy).unwrap();
        assert!(row.weight() <= 1600 && 1600 <= row.weight() + row.error, "{row:?}");
    }
}

/// The program escapes names, and writes byte for byte the logs that it writes without the list.
#[test]
fn the_program_shows_channels_and_its_logs_stay() {
    let folder = tempfile::tempdir().unwrap();
    let path = put(folder.path(), "x.pcap", &pcap(1, &packets()));
    let run = |name: &str, config: &str| {
        let config = put(folder.path(), &format!("{name}.toml"), config.as_bytes());
        let logs = folder.path().join(name);
        let arguments =
            [text(&path), "-c", text(&config), "-o", text(&logs), "--log", "zeek", "--log", "csv", "-q"];
        weir(arguments).exits(0);
        let mut files = BTreeMap::new();
        for entry in std::fs::read_dir(&logs).unwrap() {
            let entry = entry.unwrap();
            files.insert(
                entry.file_name().into_string().unwrap(),
                std::fs::read_to_string(entry.path()).unwrap(),
            );
        }
        files
    };
    let list = |chain: &str| {
        format!(
            "[[subscription]]\nname = \"list\"\nlevel = \"record\"\nchain = [\"{chain}\"]\noutputs = [\"csv\"]\n"
        )
    };
    let mut with = run("with", &list("irc show 100"));
    let mut without = run("without", &list("records"));
    let values = with.remove("values.csv").unwrap();
    assert!(without.remove("values.csv").is_some());
    let plain = |mut files: BTreeMap<String, String>| {
        // The times of opening and closing, and the list itself.
        let is_other = |line: &&str| {
            !line.starts_with("#open") && !line.starts_with("#close") && !line.contains(",list,,")
        };
        let lines = |text: &String| {
            let kept = text.lines().filter(is_other);
            kept.collect::<Vec<_>>().join("\n")
        };
        files.values_mut().for_each(|text| *text = lines(text));
        files
    };
    let (with, without) = (plain(with), plain(without));
    assert!(with.contains_key("irc.log"), "{:?}", with.keys());
    assert_eq!(with, without);
    assert!(
        values.contains("#bots") && values.contains("кириллица") && !values.contains("decoy"),
        "{values}"
    );
    assert!(!values.contains("secret") && !values.contains('\x1b'), "{values:?}");
}

/// Joins of clients, as tshark finds them.
fn tshark(path: &Path) -> Option<u64> {
    let arguments = ["-n", "-r", text(path), "-Y", "irc.request.command", "-T", "fields"];
    let fields = ["-e", "irc.request.command", "-E", "aggregator=,"];
    let output = Command::new("tshark").args(arguments).args(fields).output().ok()?;
    let commands = String::from_utf8_lossy(&output.stdout).into_owned();
    let commands = commands.lines().flat_map(|line| line.split(','));
    Some(commands.filter(|command| command.eq_ignore_ascii_case("JOIN")).count() as u64)
}

/// Other projects' captures of IRC: the joins of those on its ports are those that tshark finds.
#[test]
fn captures_have_the_joins_that_tshark_finds() {
    let (mut seen, mut aside, mut found_any) = ((0, 0), (0, 0), 0);
    for path in captures() {
        if !text(&path).to_ascii_lowercase().contains("irc") {
            continue;
        }
        let Some(expected) = tshark(&path) else {
            println!("skipped: tshark is not here");
            return;
        };
        let [by_channel, ..] = tables(&path, 2, 8192);
        let sum = |column: usize| rows(&by_channel).values().map(|numbers| numbers[column]).sum::<u64>();
        println!(
            "{}: {} channels, {} joins of {expected}, {} messages, {} pings, {} pongs",
            path.display(),
            by_channel.rows.len(),
            sum(1),
            sum(2),
            sum(3),
            sum(4)
        );
        // tshark knows IRC by its port alone, and takes what no parser of IRC took for none.
        let is_equal = sum(1) == expected || expected == 0;
        let part = if is_aside(text(&path)) { &mut aside } else { &mut seen };
        *part = (part.0 + u64::from(is_equal), part.1 + 1);
        found_any += 1;
    }
    if found_any == 0 {
        println!("skipped: no capture of IRC is here");
    }
    println!("{} of {} equal, {} of {} set aside", seen.0, seen.1, aside.0, aside.1);
    assert_eq!(seen.0, seen.1);
}

/// A report about hosts flags the channel whose hosts scan, and not the channel beside it.
#[test]
fn a_report_flags_channels_of_hosts_that_scan() {
    let folder = tempfile::tempdir().unwrap();
    let mut out = packets();
    for n in 0..120_u8 {
        let syn = build::ethernet().ipv4(client(1 + n % 2), [198, 51, 100, n]).tcp(4444, 445, flags::SYN);
        out.push((2 * SECOND + u64::from(n), syn.payload(&[])));
    }
    connection(&mut out, client(9), 5000, &[(0, b"JOIN #quiet\r\n")]);
    let path = put(folder.path(), "x.pcap", &pcap(1, &sorted(out)));
    let config = "[[subscription]]\nname = \"tcp hosts\"\nchain = [\"syn\"]\n\
        [[subscription]]\nname = \"chat\"\nlevel = \"record\"\nchain = [\"irc by host\"]\n";
    let config = put(folder.path(), "weir.toml", config.as_bytes());
    let store = folder.path().join("store");
    weir([text(&path), "-c", text(&config), "-o", text(&store), "--log", "store", "-q"]).exits(0);
    let report = |more: &[&str]| {
        let arguments = ["report", "--store", text(&store), "--hosts", "day", "--at", "1970-01-01"];
        let output = Command::new(env!("CARGO_BIN_EXE_weir")).args(arguments).args(more).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let lines = report(&["-j"]);
    let mut channels: BTreeMap<String, [serde_json::Value; 3]> = BTreeMap::new();
    for line in lines.lines() {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        for row in line["irc"][0]["rows"].as_array().into_iter().flatten() {
            let name = row["channel"].as_str().unwrap().to_owned();
            channels.insert(name, ["channel_hosts", "wormy_hosts", "evil"].map(|key| row[key].clone()));
        }
    }
    let of = |hosts: u64, wormy: u64| [hosts.into(), wormy.into(), (wormy > 0).into()];
    assert_eq!((&channels["#bots"], &channels["#quiet"]), (&of(6, 2), &of(1, 0)), "{lines}");
    assert_eq!((&channels["#one"], &channels["#кириллица"]), (&of(1, 1), &of(1, 0)), "{lines}");
    let text = report(&[]);
    let (scanner, quiet) = (text.find("2 of 6 hosts wormy E; "), text.find("0 of 1 host wormy; "));
    assert!(scanner.is_some() && scanner < quiet && !text.contains('\x1b'), "{text}");
}
