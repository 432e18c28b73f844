//! Floods: what `flood` counts of captures of attacks is what tshark finds in them, and on every capture its rows hold each packet
//! once, with any number of workers.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

#[path = "support/pass.rs"]
#[allow(dead_code)]
mod pass;
mod support;

use pass::{Loaded, Pass, settings};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use support::tshark;
use weir_api::{Datum, FunctionCall, Reading, SubscriptionSpec, Table};
use weir_engine::Plan;
use weir_wire::build::flags::{ACK, SYN};
use weir_wire::{Fragment, Network, Tunnel, decode, further_frames};

/// Packets, bytes, sources and answers.
type Numbers = [u64; 4];

/// The rows of a table, by their keys in words: `host kind service protocol port`.
type Rows = BTreeMap<String, Numbers>;

fn plan() -> Arc<Plan> {
    let call = FunctionCall::new("flood").with("rows", 65_536);
    Arc::new(Plan::new("", vec![SubscriptionSpec::new("flood", "", vec![call])], settings()).unwrap())
}

/// The table of a run with intervals that split the capture into about `parts`.
fn run(plan: &Arc<Plan>, capture: &Loaded, workers: usize, parts: u64) -> Option<Table> {
    let pass = Pass::new(plan, workers, capture.ample_memory());
    let total = pass.run(capture, capture.interval(parts), |_| ()).total();
    match &total.answers.first()?.reading {
        Reading::Table(table) => Some(table.clone()),
        other => panic!("{other:?}"),
    }
}

fn rows(table: &Table) -> Rows {
    let word = |part: &Datum| match part {
        Datum::Address(address) => address.to_string(),
        Datum::Text(text) => text.to_string(),
        Datum::Number(number) => number.to_string(),
        _ => "-".to_owned(),
    };
    let row = |row: &weir_api::TableRow| {
        let key: Vec<String> = row.key.iter().map(word).collect();
        let values: Vec<u64> = row.values.iter().map(|value| value.weight()).collect();
        (key.join(" "), values.try_into().unwrap())
    };
    table.rows.iter().map(row).collect()
}

/// A capture of an attack, where it is there.
fn attack(name: &str) -> Option<PathBuf> {
    let path = support::root().join("../shared/data/ddos").join(name);
    let is_there = path.is_file();
    if !is_there {
        println!("skipped: {} is not there", path.display());
    }
    is_there.then_some(path)
}

/// A packet of IPv4 as tshark shows it.
struct Seen {
    bytes: u64,
    from: String,
    to: String,
    protocol: u64,
    /// Identification, and offset of a fragment.
    fragment: (String, u64),
    has_more: bool,
    flags: u64,
    /// Ports; of a fragment without them, those of the first one.
    ports: Option<(u64, u64)>,
}

impl Seen {
    /// A line of tshark's fields; `None` for a packet without IPv4.
    fn of(line: &str) -> Option<Seen> {
        let fields: Vec<&str> = line.split(';').collect();
        let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
        let flags = fields.get(7)?.strip_prefix("0x").and_then(|hex| u64::from_str_radix(hex, 16).ok());
        let protocol = number(3)?;
        let ports = match protocol {
            6 => number(8).zip(number(9)),
            17 => number(10).zip(number(11)),
            _ => None,
        };
        Some(Seen {
            bytes: number(0)?,
            from: (*fields.get(1)?).to_owned(),
            to: (*fields.get(2)?).to_owned(),
            protocol,
            fragment: ((*fields.get(4)?).to_owned(), number(6)?),
            has_more: matches!(*fields.get(5)?, "1" | "True"),
            flags: flags.filter(|_| protocol == 6).unwrap_or_default(),
            ports,
        })
    }

    /// The packets of a capture. Fragments have the ports of the first one of their packet, if there is one.
    fn all(path: &Path) -> Vec<Seen> {
        const FIELDS: [&str; 12] = [
            "frame.len",
            "ip.src",
            "ip.dst",
            "ip.proto",
            "ip.id",
            "ip.flags.mf",
            "ip.frag_offset",
            "tcp.flags",
            "tcp.srcport",
            "tcp.dstport",
            "udp.srcport",
            "udp.dstport",
        ];
        let text = tshark::fields(path, &["-o", "ip.defragment:FALSE", "-E", "occurrence=f"], &FIELDS);
        let mut all: Vec<Seen> = text.lines().filter_map(Seen::of).collect();
        let key = |seen: &Seen| (seen.from.clone(), seen.to.clone(), seen.protocol, seen.fragment.0.clone());
        let firsts = all.iter().filter(|seen| seen.has_more && seen.fragment.1 == 0);
        let firsts: HashMap<_, _> = firsts.map(|seen| (key(seen), seen.ports)).collect();
        for seen in all.iter_mut().filter(|seen| seen.fragment.1 > 0) {
            seen.ports = firsts.get(&key(seen)).copied().flatten();
        }
        all
    }
}

/// Whether a row is compared: its kind follows from the ports and the order of packets alone.
fn is_compared(key: &str) -> bool {
    let [host, kind, service, protocol, port] = key.split(' ').collect::<Vec<_>>()[..] else {
        panic!("{key}")
    };
    !host.contains(':')
        && match kind {
            "syn" | "synack" => true,
            "rst" => matches!(port, "80" | "443"),
            "reflected" => matches!(service, "dns" | "isakmp"),
            "fragment" => protocol == "17",
            _ => false,
        }
}

/// The rows that follow from tshark's packets.
fn theirs(path: &Path) -> Rows {
    let all = Seen::all(path);
    let mut rows: BTreeMap<String, (Numbers, BTreeSet<&str>)> = BTreeMap::new();
    // The directions in which a flow has had packets: from here, and to there.
    let way = |seen: &Seen, from_here: bool| {
        let (here, there) = seen.ports.unwrap_or_default();
        let (one, other) = ((seen.from.clone(), here), (seen.to.clone(), there));
        if from_here { (seen.protocol, one, other) } else { (seen.protocol, other, one) }
    };
    let ever: HashSet<_> = all.iter().map(|seen| way(seen, true)).collect();
    let mut so_far = HashSet::new();
    for seen in &all {
        let Seen { from, to, protocol, flags, .. } = seen;
        let was_asked = so_far.contains(&way(seen, false));
        let is_first = so_far.insert(way(seen, true));
        let key = match (protocol, seen.ports) {
            (17, None) => format!("{to} fragment - 17 -"),
            (17, Some((53, _))) if !ever.contains(&way(seen, false)) => format!("{to} reflected dns 17 53"),
            (17, Some((4500, _))) if !ever.contains(&way(seen, false)) => {
                format!("{to} reflected isakmp 17 4500")
            }
            (6, Some((_, port))) if flags & 0x12 == 2 => format!("{to} syn - 6 {port}"),
            (6, Some((port, _))) if flags & 0x12 == 0x12 && was_asked => {
                rows.entry(format!("{from} syn - 6 {port}")).or_default().0[3] += 1;
                continue;
            }
            (6, Some((port, _))) if flags & 0x12 == 0x12 => format!("{to} synack tcp 6 {port}"),
            (6, Some((port @ (80 | 443), _))) if flags & 4 != 0 && !was_asked => {
                format!("{to} rst tcp 6 {port}")
            }
            (6, Some((_, port @ (80 | 443)))) if flags & 4 != 0 && is_first && !was_asked => {
                format!("{to} rst tcp 6 {port}")
            }
            _ => continue,
        };
        let (numbers, sources) = rows.entry(key).or_default();
        numbers[0] += 1;
        numbers[1] += seen.bytes;
        sources.insert(from);
    }
    let whole = |(mut numbers, sources): (Numbers, BTreeSet<&str>)| {
        numbers[2] = sources.len() as u64;
        numbers
    };
    rows.into_iter().map(|(key, row)| (key, whole(row))).collect()
}

#[test]
fn captured_attacks_have_the_rows_that_tshark_finds() {
    if !tshark::is_installed() {
        return;
    }
    // The heaviest rows: packets, and about the number of sources.
    let attacks = [
        ("pkt.TCP.synflood.spoofed.pcap", "10.10.10.10 syn - 6 25565", 2500, 2359),
        ("amp.TCP.reflection.SYNACK.pcap", "10.10.10.10 synack tcp 6 80", 1839, 0),
        ("amp.UDP.isakmp.pcap", "10.10.10.10 reflected isakmp 17 4500", 2500, 1737),
        ("amp.dns.RRSIG.fragmented.pcap", "10.10.10.10 reflected dns 17 53", 0, 0),
    ];
    let plan = plan();
    for (name, heaviest, packets, sources) in attacks {
        let Some(path) = attack(name) else { continue };
        let capture = Loaded::read(&path);
        let table = run(&plan, &capture, 1, 1).unwrap();
        assert!(table.is_exact(), "{name}");
        for workers in [2, 3, 7] {
            assert_eq!(run(&plan, &capture, workers, 1).as_ref(), Some(&table), "{name}, {workers} workers");
        }
        let shown: Vec<String> = table
            .shown()
            .iter()
            .map(|row| rows(&Table::new(Arc::clone(&table.schema), 1, vec![(*row).clone()], 0)))
            .filter_map(|row| row.into_iter().next())
            .map(|(key, numbers)| format!("{key}: {numbers:?}"))
            .collect();
        println!("{name}:\n  {}", shown.join("\n  "));
        assert!(shown[0].starts_with(heaviest), "{name}: {shown:?}");
        let all = rows(&table);
        let [of_heaviest, _, from, answered] = all[heaviest];
        assert!(packets == 0 || of_heaviest == packets, "{name}: {of_heaviest}");
        assert!(sources == 0 || from.abs_diff(sources) * 20 < sources, "{name}: {from}");
        assert_eq!(answered, 0, "{name}");
        let (mine, theirs) = (all.into_iter().filter(|(key, _)| is_compared(key)), theirs(&path));
        let mine: Rows = mine.collect();
        let without_sources = |rows: &Rows| {
            rows.iter().map(|(key, [a, b, _, d])| (key.clone(), [*a, *b, *d])).collect::<Vec<_>>()
        };
        assert_eq!(without_sources(&mine), without_sources(&theirs), "{name}");
        for (key, numbers) in &theirs {
            // Up to 256 sources are counted, and more are estimated.
            let (found, expected) = (mine[key][2], numbers[2]);
            let off = if expected <= 256 { 0 } else { expected / 20 };
            assert!(found.abs_diff(expected) <= off, "{name}, {key}: {found} sources, {expected}");
        }
    }
}

/// Whether the packets of a capture are plain: those of other kinds count to several flows, or to none.
fn is_plain(capture: &Loaded) -> bool {
    capture.packets().all(|packet| {
        let layers = decode(&packet);
        let is_whole = layers.fragment == Fragment::Whole || layers.ip_proto == 17;
        layers.tunnel == Tunnel::None
            && layers.error.is_none()
            && is_whole
            && further_frames(&packet).next().is_none()
    })
}

/// SYNs by destination and port, and the numbers of SYNs with ACK, of packets of UDP, and of ICMP.
#[derive(Debug, Default, Eq, PartialEq)]
struct Sums {
    syns: BTreeMap<(String, u16), Numbers>,
    synacks: u64,
    udp: u64,
    icmp: u64,
}

impl Sums {
    fn of_packets(capture: &Loaded) -> Sums {
        let mut sums = Sums::default();
        let mut sources: HashMap<_, BTreeSet<_>> = HashMap::new();
        for packet in capture.packets() {
            let layers = decode(&packet);
            if !matches!(layers.network_kind, Network::Ipv4 | Network::Ipv6) {
                continue;
            }
            let Some((from, to)) = weir_wire::addresses(&packet, &layers) else { continue };
            let has_flags = layers.ip_proto == 6 && layers.has_transport() && layers.ports != [0, 0];
            match (layers.ip_proto, layers.tcp_flags & (SYN | ACK)) {
                (17, _) => sums.udp += 1,
                (1 | 58, _) => sums.icmp += 1,
                (6, SYN) if has_flags => {
                    let host = std::net::Ipv6Addr::from(to).to_canonical().to_string();
                    let key = (host, layers.ports[1]);
                    let of_key = sources.entry(key.clone()).or_default();
                    of_key.insert(from);
                    let [packets, bytes, hosts, _] = sums.syns.entry(key).or_default();
                    *packets += 1;
                    *bytes += u64::from(packet.wire_len);
                    *hosts = of_key.len() as u64;
                }
                (6, both) if both == SYN | ACK && has_flags => sums.synacks += 1,
                _ => {}
            }
        }
        sums
    }

    fn of_rows(rows: &Rows) -> Sums {
        let mut sums = Sums::default();
        for (key, [packets, bytes, sources, answered]) in rows {
            let [host, kind, _, protocol, port] = key.split(' ').collect::<Vec<_>>()[..] else {
                panic!("{key}")
            };
            match kind {
                "syn" => {
                    sums.synacks += answered;
                    if *packets > 0 {
                        let key = (host.to_owned(), port.parse().unwrap());
                        sums.syns.insert(key, [*packets, *bytes, *sources, 0]);
                    }
                }
                "synack" => sums.synacks += packets,
                "udp" | "reflected" => sums.udp += packets + answered,
                "fragment" if protocol == "17" => sums.udp += packets,
                "icmp" => sums.icmp += packets + answered,
                _ => assert!(matches!(kind, "rst" | "fragment"), "{key}"),
            }
        }
        sums
    }
}

#[test]
fn rows_hold_each_packet_once_and_do_not_depend_on_workers() {
    let plan = plan();
    let (mut captures, mut packets) = (0, 0);
    for path in support::captures().into_iter().filter(|path| support::is_small(path)).step_by(3) {
        let capture = Loaded::read(&path);
        if capture.len() < 2 || !is_plain(&capture) {
            continue;
        }
        let Some(table) = run(&plan, &capture, 1, 3) else { continue };
        let (found, mut expected) = (Sums::of_rows(&rows(&table)), Sums::of_packets(&capture));
        for (key, numbers) in &mut expected.syns {
            let sources = found.syns.get(key).map_or(0, |found| found[2]);
            if numbers[2] > 256 && sources.abs_diff(numbers[2]) * 20 < numbers[2] {
                numbers[2] = sources;
            }
        }
        assert_eq!(found, expected, "{}", path.display());
        for workers in [2, 7] {
            let of_workers = run(&plan, &capture, workers, 3);
            assert_eq!(of_workers.as_ref(), Some(&table), "{}, {workers} workers", path.display());
        }
        captures += 1;
        packets += found.udp + found.icmp + found.synacks;
    }
    println!("{captures} captures: {packets} packets");
    let has_shared = support::root().join("../shared/data").is_dir();
    assert!(packets > 5_000 || !has_shared, "{packets}");
}

/// The floods that a run over a capture finds without a configuration: kind, subject, count, and the fragments beside it. Results do not depend on the number of workers.
fn found(capture: &Path) -> Vec<String> {
    found_in(capture, "30s")
}

/// Those that it finds in intervals of a length.
fn found_in(capture: &Path, interval: &str) -> Vec<String> {
    let of = |workers: &str| {
        let folder = tempfile::tempdir().unwrap();
        let [out, capture] = [folder.path(), capture].map(support::text);
        let arguments =
            [capture, "-q", "-o", out, "--log", "ndjson", "--workers", workers, "--interval", interval];
        support::weir(arguments).exits(0);
        let text = std::fs::read_to_string(folder.path().join("weir.ndjson")).unwrap_or_default();
        let lines = support::objects(&text).into_iter();
        let floods = lines.filter(|line| {
            let kind = line["event"].as_str().unwrap_or_default();
            line["state"] == "end" && (kind.ends_with("_flood") || kind == "reflection")
        });
        let text = |line: &serde_json::Value| {
            let [kind, subject] = ["event", "subject"].map(|name| line[name].as_str().unwrap_or_default());
            let beside = line["evidence"]["fragments"].as_u64().map(|fragments| format!(" and {fragments}"));
            format!("{kind} {subject} {}{}", line["count"], beside.unwrap_or_default())
        };
        let mut floods: Vec<String> = floods.map(|line| text(&line)).collect();
        floods.sort();
        floods
    };
    let one = of("1");
    for workers in ["2", "3"] {
        assert_eq!(of(workers), one, "{}, {workers} workers", capture.display());
    }
    one
}

#[test]
fn captured_attacks_are_found() {
    for (name, expected) in [
        ("pkt.TCP.synflood.spoofed.pcap", "syn_flood -> 10.10.10.10 tcp/25565 2500"),
        ("amp.TCP.reflection.SYNACK.pcap", "reflection tcp/80 -> 10.10.10.10 1839"),
        ("amp.UDP.isakmp.pcap", "reflection udp/4500 -> 10.10.10.10 2500"),
        ("amp.dns.RRSIG.fragmented.pcap", "reflection udp/53 -> 10.10.10.10 955 and 43"),
    ] {
        if let Some(capture) = attack(name) {
            assert_eq!(found(&capture), [expected]);
        }
    }
    // A minute has all of its packets, and the fragments whose first one did not come.
    if let Some(capture) = attack("amp.dns.RRSIG.fragmented.pcap") {
        assert_eq!(found_in(&capture, "1m"), ["reflection udp/53 -> 10.10.10.10 955 and 43"]);
    }
}

/// A capture of SYNs to one port: `sources` send one each `step` nanoseconds in turn, `packets` in all. The port answers or not.
fn syns(sources: u32, packets: u32, step: u64, answers: bool) -> Vec<u8> {
    /// The beginning of an interval of 30 s.
    const START: u64 = 1_699_999_980_000_000_000;
    const SERVER: [u8; 4] = [10, 0, 0, 1];
    let mut frames = Vec::new();
    for n in 0..packets {
        let time = START + u64::from(n) * step;
        let [_, a, b, c] = (n % sources).to_be_bytes();
        let (client, port) = ([198, a, b, c], 1024 + (n / sources) as u16);
        let tcp = |from, to, ports: [u16; 2], flags| {
            weir_wire::build::ethernet().ipv4(from, to).tcp(ports[0], ports[1], flags).payload(&[])
        };
        frames.push((time, tcp(client, SERVER, [port, 80], SYN)));
        if answers {
            frames.push((time + 1, tcp(SERVER, client, [80, port], SYN | ACK)));
        }
    }
    support::pcap(1, &frames)
}

/// A flood is fast or has forged senders, and is not answered: neither a busy server nor the clients of one that is down are one.
#[test]
fn servers_that_are_busy_or_down_are_not_flooded() {
    const MILLISECOND: u64 = 1_000_000;
    let folder = tempfile::tempdir().unwrap();
    let found = |name: &str, capture: Vec<u8>| found(&support::put(folder.path(), name, &capture));
    let flood = |count: u32| vec![format!("syn_flood -> 10.0.0.1 tcp/80 {count}")];
    assert_eq!(found("forged", syns(1_500, 1_500, 15 * MILLISECOND, false)), flood(1_500));
    assert_eq!(found("fast", syns(1, 4_000, MILLISECOND, false)), flood(4_000));
    assert_eq!(found("busy", syns(1_500, 4_000, MILLISECOND, true)), [""; 0]);
    assert_eq!(found("down", syns(200, 1_500, 15 * MILLISECOND, false)), [""; 0]);
    assert_eq!(found("few", syns(900, 900, MILLISECOND, false)), [""; 0]);
}

/// A flood among packets to thousands of other hosts, each of which has a bucket in common with it.
#[test]
fn a_flood_among_many_hosts_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let mut frames = Vec::new();
    for n in 0..9_000_u32 {
        let [_, _, a, b] = n.to_be_bytes();
        let server = if n % 3 == 0 { [10, 0, 0, 1] } else { [172, 16, a, b] };
        let frame =
            weir_wire::build::ethernet().ipv4([198, 18, a, b], server).tcp(5_000, 80, SYN).payload(&[]);
        frames.push((1_699_999_980_000_000_000 + u64::from(n) * 1_000_000, frame));
    }
    let found = found(&support::put(folder.path(), "crowded", &support::pcap(1, &frames)));
    let [flood] = found.as_slice() else { panic!("{found:?}") };
    let (event, count) = flood.rsplit_once(' ').unwrap();
    assert_eq!(event, "syn_flood -> 10.0.0.1 tcp/80");
    assert!((2_950..3_050).contains(&count.parse::<u32>().unwrap()), "{flood}");
}

#[test]
fn sums_for_floods_are_in_no_output_and_a_run_without_names_has_none() {
    let folder = tempfile::tempdir().unwrap();
    let capture = support::put(folder.path(), "fast", &syns(1_500, 4_000, 1_000_000, false));
    let capture = support::text(&capture);
    let summary = support::weir([capture, "-q"]).exits(0).text();
    assert!(summary.contains("FINDINGS") && summary.contains("10.0.0.1"), "{summary}");
    let json = support::weir([capture, "-q", "-j", "-v"]).exits(0).text();
    assert!(json.contains("syn_flood") && !json.contains("flooded"), "{json}");
    for options in [["-n", "-j"], ["--memory=255M", "-j"]] {
        let json = support::weir([capture, "-q", options[0], options[1]]).exits(0).text();
        assert!(!json.contains("syn_flood"), "{options:?}: {json}");
    }
}
