use super::*;
use crate::fixtures::{answer, classes, count, ip, row, top};
use std::collections::BTreeMap;
use weir_api::{
    CaptureCount, Datum, DistinctValues, Fold, Folded, FunctionCall, Ledger, SampledValues, Table, TableRow,
};
use weir_engine::FunctionSpec;

/// The configuration of the paper's figure 3, with additions.
fn snapshot() -> Snapshot {
    let line = |name: &str, bytes| answer(name, Some("ports"), "bytes", Reading::Count(count(7, bytes)));
    let flow = |port, protocol| Key::Flow {
        source: ip("10.0.0.1"),
        source_port: port,
        destination: ip("192.0.2.9"),
        destination_port: 80,
        protocol,
    };
    let v6 = Key::Flow {
        source: ip("2001:db8::1"),
        source_port: 1,
        destination: ip("2001:db8::2"),
        destination_port: 2,
        protocol: 17,
    };
    let fixed = [("a", 1, 10), ("b", 2, 20), ("xtra", 3, 30)];
    Snapshot {
        ledger: Ledger {
            caught: 53420,
            capture: CaptureCount { dropped: 7, ..CaptureCount::default() },
            ..Ledger::default()
        },
        answers: vec![
            answer(
                "fixed",
                None,
                "ipproto",
                classes(Unit::Bytes, &[("tcp", 1, 10), ("udp", 1, 20), ("icmp", 1, 30), ("xtra", 1, 40)]),
            ),
            answer(
                "fixed",
                None,
                "tcp3",
                classes(Unit::Bytes, &[("80", 1, 10), ("25", 2, 20), ("xtra", 3, 30)]),
            ),
            answer(
                "fixed",
                None,
                "iprange",
                classes(Unit::Bytes, &[("10.0.0.0/8-2001:db8::/32", 1, 10), ("xtra", 3, 30)]),
            ),
            answer(
                "fixed",
                None,
                "cast",
                classes(
                    Unit::Bytes,
                    &[("mcast", 1, 2337215), ("ucast", 1, 15691896), ("bcast", 0, 0), ("xtra", 0, 0)],
                ),
            ),
            answer(
                "fixed",
                None,
                "size",
                classes(
                    Unit::Packets,
                    &[("tiny", 1, 60), ("small", 2, 400), ("med", 3, 0), ("big", 9, 9000)],
                ),
            ),
            line("ssh", 254153),
            line("p2p", 19371519),
            answer("in:the:way", Some("other\nchart"), "packets", Reading::Count(count(5, 500))),
            line("web", 41028782),
            line("ftp", 32941),
            line("email", 1157835),
            line("xtra", 99),
            answer("xtra", Some("other\nchart"), "packets", Reading::Count(count(6, 600))),
            answer(
                "topn_ip",
                None,
                "top",
                top(
                    KeyKind::Flow,
                    vec![row(flow(5, 6), 3, 300, 1), row(flow(6, 1), 3, 900, 1), row(v6, 1, 10, 1)],
                ),
            ),
            answer("topn_tcp", None, "top", top(KeyKind::Flow, vec![row(flow(5, 6), 3, 300, 1)])),
            answer(
                "topn_port_tcp",
                None,
                "top",
                top(KeyKind::Port, vec![row(Key::Port { protocol: 6, port: 80 }, 3, 300, 1)]),
            ),
            answer("topn_port_udp", None, "top", top(KeyKind::Port, vec![])),
            answer("mine", None, "cast", classes(Unit::Bytes, &fixed)),
        ],
        ..Snapshot::default()
    }
}

#[test]
fn the_format_of_the_probe() {
    let expected = "\
elog: ourmon restarted
pkts: caught:53420 : drops:7: caught2:0 : drop2:0
fixed_ipproto: tcp:10 : udp:20 : icmp:30 : xtra:40:
fixed_tcp3: 80:10 : 25:20 : xtra:30:
fixed_iprange1: 10.0.0.0/8-2001_db8__/32:10 : xtra:30:
fixed_cast: mcast:2337215 : ucast:15691896 : bcast:0 : xtra:0:
fixed_size: tiny:1 : small:2 : med:3 : big:9:
bpf:ports:0:5:ssh:254153:p2p:19371519:web:41028782:ftp:32941:email:1157835:xtra:99
bpf:other\\x0achart:1:1:in_the_way:5:xtra:6
topn_ip : 3 : 10.0.0.1.6->192.0.2.9.80(icmp): 900 : 10.0.0.1.5->192.0.2.9.80(tcp): 300 : [2001.db8..1].1->[2001.db8..2].2(udp): 10 :
topn_tcp : 1 : 10.0.0.1.5->192.0.2.9.80: 300 :
hs_stat: 0: 0: 0: 0: 0: 0: 3: 3:
tcp_ports: 1: 300,80,3,0:
udp_ports: 0:
";
    assert_eq!(mon_lite(&snapshot(), Dialect::Probe, &Worms::default(), true), expected);
}

/// The value of a column from a number: itself, or that many values; a sample has port 1000 + n n times.
fn folded(fold: Fold, n: u64) -> Folded {
    match fold {
        Fold::Distinct => {
            let mut values = DistinctValues::default();
            (0..n).for_each(|value| _ = values.add(value.into()));
            Folded::Distinct(values)
        }
        Fold::Last => Folded::Last(Some((n, Datum::Address([192, 0, 2, n as u8].into())))),
        Fold::Sample => {
            let mut sample = SampledValues::default();
            (1..=n).for_each(|port| sample.add((1000 + port).into(), port));
            Folded::Sample(sample)
        }
        _ => Folded::Sum(n),
    }
}

/// The table of a function with rows of numbers by host. The number of the place and 1 is in each column that is not named.
fn hosts(function: &str, rows: &[(&str, &[(&str, u64)])]) -> Reading {
    let mut built = FunctionSpec::find(function).unwrap().call(&FunctionCall::new(function), 1_u64).unwrap();
    let Reading::Table(empty) = built.take() else { panic!("a table") };
    let row = |(host, named): &(&str, &[(&str, u64)])| {
        let columns = empty.schema.columns.iter().zip(1..);
        let value = |(column, place): (&weir_api::TableColumn, u64)| {
            let value = named.iter().find(|(name, _)| *name == column.name);
            folded(column.fold, value.map_or(place, |(_, value)| *value))
        };
        TableRow { key: vec![Datum::Address(ip(host))], values: columns.map(value).collect(), error: 0 }
    };
    Reading::Table(Table::new(empty.schema.clone(), 16, rows.iter().map(row).collect(), 0))
}

/// A line of hosts, read as Ourmon's graphics engine would: the numbers of each host.
fn read_hosts(line: &str) -> Vec<(IpAddr, Vec<u64>)> {
    let line: String = line.chars().filter(|c| *c != ' ').collect();
    let mut parts = line.strip_suffix(':').unwrap().split(':').peekable();
    let (numbers, has_ports) = match parts.next() {
        Some("syn_list") => (7, true),
        Some("icmp_errorlist") => (7, false),
        Some("udperror_list") => (5, true),
        name => panic!("{name:?}"),
    };
    let count: usize = parts.next().unwrap().parse().unwrap();
    parts.next_if(|last| last.is_empty());
    let address = |text: &str| match text.strip_prefix('[') {
        Some(six) => six.trim_end_matches(']').replace('.', ":").parse().unwrap(),
        None => text.parse().unwrap(),
    };
    let mut hosts = Vec::new();
    for _ in 0..count {
        let host = address(parts.next().unwrap());
        let mut values: Vec<u64> = parts.by_ref().take(numbers).map(|n| n.parse().unwrap()).collect();
        assert_eq!(values.len(), numbers, "{line}");
        if has_ports {
            values.push(parts.next().unwrap().parse().unwrap());
        }
        if has_ports && values.last() > Some(&0) {
            let ports = parts.next().unwrap().strip_suffix(',').unwrap();
            let before = values.len();
            values.extend(ports.split(',').map(|n| n.parse::<u64>().unwrap()));
            assert_eq!((values.len() - before) as u64, 2 * values[before - 1], "{line}");
        }
        hosts.push((host, values));
    }
    assert_eq!(parts.next(), None, "{line}");
    hosts
}

/// A list of `fanout` with rows of host, kind and distinct values.
fn fanout(by: &str, rows: &[(&str, &str, std::ops::Range<u16>)]) -> Reading {
    let call = FunctionCall::new("fanout").with("by", by).with("show", 2);
    let mut built = FunctionSpec::find("fanout").unwrap().call(&call, 1_u64).unwrap();
    let Reading::Table(empty) = built.take() else { panic!("a table") };
    let row = |(source, kind, range): &(&str, &str, std::ops::Range<u16>)| {
        let value = |column: &weir_api::TableColumn| {
            let mut seen = DistinctValues::default();
            range.clone().for_each(|value| _ = seen.add(value.into()));
            match column.fold {
                Fold::Distinct => Folded::Distinct(seen),
                fold => folded(fold, 0),
            }
        };
        let key = vec![Datum::Address(ip(source)), Datum::Text((*kind).into())];
        TableRow { key, values: empty.schema.columns.iter().map(value).collect(), error: 0 }
    };
    Reading::Table(Table::new(empty.schema.clone(), 16, rows.iter().map(row).collect(), 0))
}

/// What a host tries in two ways counts once, and each list has its kinds of probes.
#[test]
fn hosts_that_reach_for_many_are_in_four_lines() {
    let addresses = [("10.0.0.1", "syn", 0..20), ("10.0.0.1", "udp", 10..30), ("2001:db8::1", "arp", 0..5)];
    let ports = [
        ("10.0.0.1", "syn", 0..20),
        ("10.0.0.1", "fin", 5..25),
        ("10.0.0.1", "udp", 20..40),
        ("10.0.0.2", "udp", 0..50),
        ("10.0.0.3", "sctp", 0..3),
        ("10.0.0.4", "ip", 0..60),
    ];
    let mut snapshot = snapshot();
    snapshot.answers.extend([
        answer("topn_scans", None, "fanout", fanout("addresses", &addresses)),
        answer("topn_port_scans", None, "fanout", fanout("ports", &ports)),
        answer("mine", None, "fanout", fanout("ports", &ports)),
    ]);
    for dialect in [Dialect::Probe, Dialect::Paper] {
        let text = mon_lite(&snapshot, dialect, &Worms::default(), false);
        let lines: Vec<&str> = text.lines().filter(|line| line.contains("scan:")).collect();
        assert_eq!(
            lines,
            [
                "ip_scan: 2 : 10.0.0.1:30: [2001.db8..1]:5:",
                "ip_portscan: 2 : 10.0.0.2:50: 10.0.0.1:40:",
                "tcp_portscan: 1 : 10.0.0.1:25:",
                "udp_portscan: 2 : 10.0.0.2:50: 10.0.0.1:20:",
            ]
        );
    }
}

/// A line of portreport.txt: host, flags, the two percentages, the four pairs and the target, as text, and the ports.
fn read_signature(line: &str) -> (String, Vec<String>, Vec<(u64, u64)>) {
    let mut parts = line.split_whitespace();
    let host = parts.next().unwrap().to_owned();
    let flags = parts.next().and_then(|flags| flags.strip_prefix('(')?.strip_suffix(')')).unwrap();
    let columns = [flags].into_iter().chain(parts.by_ref().take(7)).map(str::to_owned).collect();
    let ports = parts.next().unwrap_or_default();
    assert_eq!(parts.next(), None, "{line}");
    let pair = |text: &str| {
        let (port, percent) = text.strip_prefix('[').unwrap().split_once(',').unwrap();
        (port.parse().unwrap(), percent.parse().unwrap())
    };
    (host, columns, ports.split_terminator(']').map(pair).collect())
}

#[test]
fn port_signatures_are_read_back() {
    let worm = [
        ("syn", 400),
        ("synack", 0),
        ("fin_received", 0),
        ("fin_sent", 0),
        ("rst_received", 300),
        ("packets_sent", 400),
        ("packets_received", 300),
        ("icmp_errors", 200),
        ("targets", 390),
        ("ports", 3),
        ("last_target", 9),
        ("port_sample", 3),
        ("source_port_sample", 2),
    ];
    // As many SYNs beyond FINs as a host may have, and one more.
    let quiet = [("syn", 24), ("fin_received", 4), ("port_sample", 1)];
    let busy = [("syn", 25), ("fin_received", 4), ("port_sample", 0), ("source_port_sample", 0)];
    let list = hosts("syn", &[("2001:db8::1", &busy), ("10.0.0.2", &worm), ("10.0.0.1", &quiet)]);
    let mut snapshot = snapshot();
    snapshot.answers.push(answer("topn_syn", None, "syn", list.clone()));
    for dialect in [Dialect::Probe, Dialect::Paper] {
        let text = mon_lite(&snapshot, dialect, &Worms::default(), false);
        assert!(text.ends_with("\ntworm: 2: 1: 1:\n"), "{text}");
    }
    let Reading::Table(worms) = &list else { panic!("a table") };
    let net = |text: &str| text.parse::<weir_api::Net>().unwrap();
    for (set, expected) in [
        (
            Worms {
                home: crate::Home { nets: vec![net("2001:db8::/32"), net("10.0.0.2")] },
                ..Worms::default()
            },
            "2: 2: 0:",
        ),
        (Worms { home: crate::Home::unknown(), ..Worms::default() }, "2: 0: 2:"),
        (Worms { weight: 101, ..Worms::default() }, "1: 0: 1:"),
        (Worms { difference: 21, ..Worms::default() }, "1: 1: 0:"),
    ] {
        assert_eq!(worms::line(worms, &set), format!("tworm: {expected}"));
    }
    let busy = [("work", 9), ("syn", 50), ("packets_sent", 900)];
    let scanner = [("work", 90), ("syn", 40), ("packets_sent", 40)];
    let server = [("work", 20), ("syn", 70), ("packets_sent", 700)];
    let list_of = hosts("syn", &[("10.0.0.1", &busy), ("10.0.0.2", &scanner), ("10.0.0.3", &server)]);
    let of_syn = answer("topn_syn", None, "syn", list_of);
    for (order, expected) in
        [(WormOrder::Ranked, [2, 3, 1]), (WormOrder::Syns, [3, 1, 2]), (WormOrder::Weight, [2, 3, 1])]
    {
        let line = hosts::line(&of_syn, order).unwrap();
        let places = expected.map(|host| line.find(&format!(" 10.0.0.{host}:")).unwrap());
        assert!(places.is_sorted(), "{order:?} {line}");
    }
    let Reading::Table(table) = &list else { panic!("a table") };
    let text = worms::report(table, &Worms::default());
    let read: Vec<_> = text.lines().map(read_signature).collect();
    let columns = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(
        read,
        [
            (
                "10.0.0.2".into(),
                columns("EWOR 100 0 390/3 2/1001 192.0.2.9 400/300 6/400"),
                vec![(1001, 16), (1002, 33), (1003, 50)],
            ),
            ("[2001.db8..1]".into(), columns("WO 211 12 12/13 0/- 192.0.2.14 8/9 0/25"), vec![]),
        ]
    );
    assert!(text.starts_with("10.0.0.2         (EWOR)     100   0 390/3"), "{text}");
    // An older table has no ports.
    let schema = weir_api::Schema {
        columns: table.schema.columns[..11].to_vec().into(),
        shown: weir_api::Shown::Heaviest(10),
        ..(*table.schema).clone()
    };
    let rows = table.rows.iter().map(|row| TableRow { values: row.values[..11].to_vec(), ..row.clone() });
    let older = Table::new(schema, 16, rows.collect(), 0);
    let line = worms::report(&older, &Worms::default());
    assert_eq!(read_signature(line.lines().next().unwrap()).1, columns("EWOR 100 0 -/- -/- - 400/300 -/400"));
    // It is beside mon.lite.
    let directory = tempfile::tempdir().unwrap();
    let context = OutputContext { directory: directory.path().to_owned(), ..OutputContext::default() };
    let mut mon = (MON.open)(&context).unwrap();
    mon.interval(&snapshot).unwrap();
    mon.finish().unwrap();
    assert_eq!(std::fs::read_to_string(directory.path().join(PORTS)).unwrap(), text);
}

#[test]
fn lists_of_hosts_are_read_back() {
    let syn = [
        ("syn", 20),
        ("synack", 3),
        ("fin_received", 4),
        ("rst_received", 5),
        ("packets_sent", 60),
        ("packets_received", 7),
        ("icmp_errors", 8),
        ("port_sample", 3),
    ];
    let errors = [
        ("errors", 100),
        ("tcp", 1),
        ("udp", 2),
        ("icmp", 3),
        ("unreachable", 10),
        ("port_unreachable", 20),
        ("prohibited", 30),
        ("too_big", 40),
        ("redirect", 6),
        ("time_exceeded", 7),
    ];
    let udp = [("sent", 9), ("received", 4), ("errors", 6), ("unreachable", 5), ("pings", 2)];
    let quiet = [("sent", 900), ("received", 900), ("unreachable", 0), ("pings", 0)];
    let mut snapshot = snapshot();
    snapshot.answers.extend([
        answer(
            "topn_syn",
            None,
            "syn",
            hosts("syn", &[("10.0.0.1", &syn), ("2001:db8::1", &[("work", 90), ("port_sample", 0)])]),
        ),
        answer("topn_icmperror", None, "icmperror", hosts("icmperror", &[("10.0.0.1", &errors)])),
        answer("topn_udperror", None, "udp", hosts("udp", &[("10.0.0.2", &quiet), ("10.0.0.1", &udp)])),
        // In no list of Ourmon.
        answer("mine", None, "syn", hosts("syn", &[("10.0.0.1", &syn)])),
    ]);
    for dialect in [Dialect::Probe, Dialect::Paper] {
        let text = mon_lite(&snapshot, dialect, &Worms::default(), false);
        let lists: BTreeMap<&str, &str> = text
            .lines()
            .filter(|line| line.contains("list:"))
            .map(|line| (line.split(':').next().unwrap(), line))
            .collect();
        assert_eq!(lists.len(), 3, "{text}");
        let of = |numbers: &[u64]| numbers.to_vec();
        assert_eq!(
            read_hosts(lists["syn_list"]),
            [
                (ip("2001:db8::1"), of(&[2, 3, 5, 7, 8, 9, 11, 0])),
                (ip("10.0.0.1"), of(&[20, 3, 4, 5, 60, 7, 8, 3, 1003, 3, 1002, 2, 1001, 1]))
            ]
        );
        assert_eq!(read_hosts(lists["icmp_errorlist"]), [(ip("10.0.0.1"), of(&[100, 1, 2, 3, 100, 6, 7]))]);
        assert_eq!(
            read_hosts(lists["udperror_list"]),
            [(ip("10.0.0.1"), of(&[30, 9, 4, 5, 2, 0])), (ip("10.0.0.2"), of(&[0, 900, 900, 0, 0, 0]))]
        );
        assert!(text.contains("\nicmp_errorlist: 1 : 10.0.0.1:100:1:2:3:100:6:7:\n"), "{text}");
    }
    // A list without hosts, and a table that lacks a column.
    let table = Table::new(&weir_api::UDP, 16, vec![], 0);
    snapshot.answers = vec![
        answer("topn_udperror", None, "udp", Reading::Table(table)),
        answer("topn_syn", None, "syn", Reading::Table(Table::new(&weir_api::SCANS, 16, vec![], 0))),
    ];
    let text = mon_lite(&snapshot, Dialect::Probe, &Worms::default(), false);
    assert!(text.ends_with("\nudperror_list: 0 :\nsyn_list: 0 :\ntworm: 0: 0: 0:\n"), "{text}");
    assert!(read_hosts("udperror_list: 0 :").is_empty());
}

/// Messages of channels: total, joins, messages, pings, pongs, hosts.
fn irc(channels: &[[u64; 4]]) -> Reading {
    let call = FunctionCall::new("irc");
    let spec = weir_engine::RECORD_FUNCTIONS.iter().find(|spec| spec.name == "irc").unwrap();
    let mut built = spec.call(&call, 1_u64).unwrap();
    let Reading::Table(empty) = built.take() else { panic!("a table") };
    let rows = channels.iter().enumerate().map(|(at, counts)| TableRow {
        key: vec![Datum::Text(format!("#{at}").into())],
        values: [counts.iter().sum()]
            .iter()
            .chain(counts)
            .map(|n| Folded::Sum(*n))
            .chain([folded(Fold::Distinct, 2)])
            .collect(),
        error: 0,
    });
    Reading::Table(Table::new(empty.schema.clone(), 16, rows.collect(), 0))
}

#[test]
fn messages_of_irc_are_read_back() {
    let mut snapshot = snapshot();
    let channels = [[1, 40, 300, 5000], [2, 60, 0, 0]];
    snapshot.answers.extend([
        answer("topn_irc", None, "irc", irc(&channels)),
        answer("mine", None, "irc", irc(&[[7; 4]])),
    ]);
    for dialect in [Dialect::Probe, Dialect::Paper] {
        let text = mon_lite(&snapshot, dialect, &Worms::default(), false);
        let lines: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("ircstats:")).collect();
        assert_eq!(lines.len(), 1, "{text}");
        let numbers = lines[0].strip_suffix(':').unwrap().split(':').map(|n| n.trim().parse().unwrap());
        // Joins, pings, pongs and messages.
        assert_eq!(numbers.collect::<Vec<u64>>(), [3, 300, 5000, 100], "{text}");
    }
    // No channel, and a table that lacks the columns.
    for (reading, line) in
        [(irc(&[]), Some("ircstats: 0: 0: 0: 0:")), (hosts("udp", &[("10.0.0.1", &[])]), None)]
    {
        assert_eq!(irc_line(&answer("topn_irc", None, "irc", reading)).as_deref(), line);
    }
}

/// The name is in the first line, where no separator is within it, and only as the probe writes it.
#[test]
fn the_name_of_the_probe_is_in_the_first_line() {
    let directory = tempfile::tempdir().unwrap();
    let context = OutputContext {
        directory: directory.path().to_owned(),
        sysname: "north:1".to_owned(),
        ..OutputContext::default()
    };
    for (spec, first) in [(&MON, "sysname: north_1\nelog: ourmon restarted\npkts: "), (&MON_PAPER, "pkts: ")]
    {
        let mut mon = (spec.open)(&context).unwrap();
        mon.interval(&snapshot()).unwrap();
        mon.finish().unwrap();
        let text = std::fs::read_to_string(directory.path().join(FILE)).unwrap();
        assert!(text.starts_with(first), "{text}");
    }
}

/// The parts of a text about a trigger: name, state, subject, what its number is, the number, and the threshold.
fn text_of_trigger(line: &str) -> [String; 6] {
    let text = line.strip_prefix("elog: ").unwrap();
    let (name, rest) = text.split_once(" trigger ").unwrap();
    let (rest, threshold) = rest.rsplit_once(", threshold: ").unwrap();
    let (rest, number) = rest.rsplit_once(" count: ").unwrap();
    let (state, rest) = rest.split_once(", ").unwrap();
    let (subject, which) = rest.rsplit_once(", ").unwrap_or(("", rest));
    [name, state, subject, which, number, threshold].map(str::to_owned)
}

/// Texts about triggers are in the file that is written next, and over files in that of the whole run, in both dialects.
#[test]
fn texts_about_triggers_are_read_back() {
    use weir_api::event::FINDING;
    use weir_api::{EventState, Interval, Origin, Subject};
    let trigger = |name: &str, threshold: &str, is_below| TriggerThreshold {
        name: name.to_owned(),
        subscription: format!("trigger {name}"),
        threshold: threshold.to_owned(),
        is_below,
    };
    let event = |name: &str, subject, state, least, most| Event {
        origin: Some(Origin { subscription: name.into(), name: None, severity: None, quiet: None }.into()),
        state,
        ..Event::over(&FINDING, subject, Interval { start: 5, end: 9 })
            .with("least", "", Folded::Min(Some(least)))
            .with("most", "", Folded::Max(Some(most)))
    };
    let (all, v6) = (Subject::Key("all".into()), Subject::Host(ip("2001:db8::1")));
    for (spec, existing) in [&MON, &MON_PAPER]
        .map(|spec| (spec, Existing::Continue))
        .into_iter()
        .chain([(&MON, Existing::Replace), (&MON_PAPER, Existing::Replace)])
    {
        let directory = tempfile::tempdir().unwrap();
        let context = OutputContext {
            directory: directory.path().to_owned(),
            existing,
            triggers: vec![trigger("burst", "40", false), trigger("quiet", "5", true)],
            ..OutputContext::default()
        };
        let read = || {
            let text = std::fs::read_to_string(directory.path().join(FILE)).unwrap();
            let lines = text.lines().filter(|line| line.starts_with("elog: ") && !line.contains("restarted"));
            lines.map(text_of_trigger).collect::<Vec<_>>()
        };
        let mut mon = (spec.open)(&context).unwrap();
        mon.event(&event("trigger burst", all.clone(), EventState::Begin, 45, 45)).unwrap();
        mon.event(&event("trigger quiet", v6.clone(), EventState::Begin, 3, 3)).unwrap();
        // What goes on, and what no trigger has found.
        mon.event(&event("trigger burst", all.clone(), EventState::Update, 45, 90)).unwrap();
        mon.event(&event("noisy", all.clone(), EventState::Begin, 45, 45)).unwrap();
        mon.interval(&snapshot()).unwrap();
        let on = [
            ["burst", "on", "", "current", "45", "40"].map(str::to_owned),
            ["quiet", "on", "[2001.db8..1]", "current", "3", "5"].map(str::to_owned),
        ];
        assert_eq!(read(), on);
        mon.event(&event("trigger burst", all.clone(), EventState::End, 45, 90)).unwrap();
        mon.event(&event("trigger quiet", v6.clone(), EventState::End, 2, 4)).unwrap();
        mon.interval(&snapshot()).unwrap();
        mon.finish().unwrap();
        let off = [
            ["burst", "off", "", "highest", "90", "40"].map(str::to_owned),
            ["quiet", "off", "[2001.db8..1]", "lowest", "2", "5"].map(str::to_owned),
        ];
        match existing {
            Existing::Replace => assert_eq!(read(), [on, off].concat()),
            _ => assert_eq!(read(), off),
        }
    }
    let mut texts = elog::Texts::default();
    let one = event("trigger burst", all, EventState::Begin, 45, 45);
    (0..1_030).for_each(|_| texts.add(&one, &[trigger("burst", "40", false)]));
    let lines = texts.lines();
    assert!(lines.lines().count() == 1_025 && lines.ends_with("elog: 6 more texts about triggers\n"));
}

/// The figures of the paper, without the line breaks of its columns.
#[test]
fn the_format_of_the_paper() {
    let text = mon_lite(&snapshot(), Dialect::Paper, &Worms::default(), true);
    for line in [
        "pkts: caught 53420 drops: 7",
        "fixed_cast: mcast: 2337215: unicast: 15691896: bcast: 0:",
        "bpf:ports:5:ssh:254153:p2p:19371519:web:41028782:ftp:32941:email:1157835",
    ] {
        assert!(text.lines().any(|other| other == line), "{line}\n{text}");
    }
}

/// Parses a line like Ourmon's graphics engine: spaces are removed, colons separate, counts are every second item
/// from the third on.
#[test]
fn the_graphics_engine_finds_its_counts() {
    let text = mon_lite(&snapshot(), Dialect::Probe, &Worms::default(), false);
    let items = |tag: &str| -> Vec<String> {
        let line = text.lines().find(|line| line.starts_with(tag)).unwrap().replace(' ', "");
        line.split(':').map(str::to_owned).collect()
    };
    assert_eq!(items("pkts")[2], "53420");
    assert_eq!(items("pkts")[4], "7");
    assert_eq!([2, 4, 6, 8].map(|at| items("fixed_ipproto")[at].clone()), ["10", "20", "30", "40"]);
    assert_eq!(items("fixed_iprange1")[2], "10");
    let set = items("bpf:ports");
    let lines: usize = set[3].parse().unwrap();
    assert_eq!(set.len(), 4 + 2 * lines + 2);
    assert_eq!(items("hs_stat")[7], "3");
}

#[test]
fn the_file_covers_the_interval_live_and_the_run_over_files() {
    let directory = tempfile::tempdir().unwrap();
    let context = |existing| OutputContext {
        directory: directory.path().to_owned(),
        existing,
        ..OutputContext::default()
    };
    let read = || std::fs::read_to_string(directory.path().join(FILE)).unwrap();
    let mut mon = (MON.open)(&context(Existing::Continue)).unwrap();
    mon.interval(&snapshot()).unwrap();
    assert!(read().starts_with("elog: ourmon restarted\n"));
    mon.interval(&snapshot()).unwrap();
    assert!(read().starts_with("pkts: caught:53420 : drops:7:"));
    mon.finish().unwrap();

    let mut mon = (MON.open)(&context(Existing::Replace)).unwrap();
    mon.interval(&snapshot()).unwrap();
    mon.interval(&snapshot()).unwrap();
    assert!(read().contains("pkts: caught:106840 : drops:14:") && read().contains("fixed_size: tiny:2 :"));
    mon.finish().unwrap();
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
}
