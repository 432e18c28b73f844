use super::*;
use crate::figures::width;
use crate::fixtures;
use std::borrow::Cow;
use weir_api::{
    Answer, AnswerId, Datum, Fold, Folded, KeyColumn, KeyKind, Schema, Shown, Sketch, Table, TableColumn,
    TableRow,
};
use weir_api::{CaptureCount, DecodeErrors, Key, TopRow};

fn facts() -> Facts {
    let total = fixtures::snapshot();
    Facts {
        inputs: vec![InputFacts {
            name: "web.pcap".to_owned(),
            format: "pcap".to_owned(),
            links: vec!["Ethernet".to_owned()],
            packets: total.ledger.caught,
            bytes: total.ledger.bytes,
            in_order: Some(true),
            ..InputFacts::default()
        }],
        states: vec![("REJ".to_owned(), 399), ("SF".to_owned(), 6)],
        total,
        ..Facts::default()
    }
}

#[test]
fn the_summary_of_a_capture() {
    let text = render(&facts(), &Style::default());
    let expected = "\
web.pcap  pcap, Ethernet, 906 packets, 359.8 kB, 0.547 s
          2026-11-21 01:46:08.985 -> 01:46:09.532 UTC
          complete  in time order
TRAFFIC   5.26 Mb/s avg   1,656 pkt/s   ▁▂▆▆▆▅▄▅▆▆▆▆▄▁▁▁▃▄█▅  (each bar 28 ms)
          IPv4 100%  TCP 100%
HOSTS     1 address:  100% from 10.99.0.2
TALKERS   10.99.0.2:8000 <-> 10.99.0.1   tcp     6 flows  261.0 kB  ████████████
          10.99.0.2:443  <-> 10.99.0.77  https?   1 flow   98.0 kB  ████▌
          10.99.0.2:80   <-> 10.99.0.1   http?   2 flows    1.2 kB  ▏
PORTS     tcp/8000 73%   tcp/443 https? 27%   tcp/80 http? <1%
FLOWS     405 flows: 399 refused (REJ), 6 normal end (SF)
NOTE      checksum offload (sender 10.99.0.2): checks relaxed
LOSS      none   read 906 = decoded 906 = analysed 906
Next      weir open web.pcap  its pages in the browser
          weir talk web.pcap 'host 10.99.0.2 and port 8000'
          weir web.pcap 'host 10.99.0.2 and port 8000' -w part.pcapng
          weir web.pcap -o out --log zeek,eve  logs into out/
";
    assert_eq!(text, expected);
}

#[test]
fn an_interval_is_one_line() {
    let mut snapshot = fixtures::snapshot();
    let text = line(&snapshot, &Zone::utc(), true);
    assert_eq!(
        text,
        "01:46:09 UTC  1,656 pkt/s  5.26 Mb/s  +405 flows  top 10.99.0.2:8000 <-> 10.99.0.1 tcp 73%  loss 0"
    );
    snapshot.ledger.capture.dropped = 94;
    assert!(line(&snapshot, &Zone::utc(), true).ends_with("  LOSS 94 (9.40%)"));
    snapshot.interval.end = snapshot.interval.start;
    assert!(line(&snapshot, &Zone::utc(), true).contains("0 pkt/s  0 b/s"));
}

/// Wrong checksums of one sender are a note, whatever their share, and those of others stay errors.
#[test]
fn checksums_left_to_a_card_are_a_note_and_damaged_packets_are_errors() {
    let (host, other) = (fixtures::ip("10.99.0.7"), fixtures::ip("10.99.0.8"));
    let lines = |own: u64, right: u64, damaged: u64| {
        let mut facts = facts();
        facts.total.offloaders.clear();
        for (packets, from, to, is_right) in
            [(own, host, other, false), (right, other, host, true), (damaged, other, host, false)]
        {
            (0..packets).for_each(|_| facts.total.senders.add(from, to, 6, is_right));
        }
        facts.total.ledger.checksums_verified = own + right + damaged;
        facts.total.ledger.checksums_bad = own + damaged;
        let text = render(&facts, &Style::default());
        let of = |label| text.lines().find(|line| line.starts_with(label)).map(str::to_owned);
        (of("ERRORS"), of("NOTE"))
    };
    let note = Some("NOTE      checksum offload (sender 10.99.0.7): checks relaxed".to_owned());
    for (own, right) in [(558, 221), (2, 900), (700, 1)] {
        assert_eq!(lines(own, right, 0), (None, note.clone()), "{own} {right}");
        let errors = format!("ERRORS    3 of {} checksums wrong", own + right + 3);
        assert_eq!(lines(own, right, 3), (Some(errors), note.clone()), "{own} {right}");
    }
    let errors = "ERRORS    20 of 20 checksums wrong".to_owned();
    assert_eq!(lines(10, 0, 10), (Some(errors), None), "both directions are wrong");
}

/// All facts at once, each as long as possible.
fn hostile() -> Facts {
    let mut facts = facts();
    let nasty = "\u{1b}]0;owned\u{7}\u{202e}日本語\n\t".repeat(40);
    facts.inputs = (0..30)
        .map(|n| InputFacts {
            name: format!("{nasty}{n}"),
            format: format!("{nasty}{n}"),
            links: vec![format!("{nasty}{n}"), "x".repeat(500)],
            undecoded: vec![format!("{nasty}{n}"), "x".repeat(500)],
            packets: u64::MAX / 64,
            bytes: u64::MAX / 64,
            problem: Some(nasty.clone()),
            in_order: Some(false),
            lost_before: Some(u64::MAX / 64),
            live: n == 3,
        })
        .collect();
    facts.expression = Some(nasty.clone());
    facts.states = (0..40).map(|n| (format!("{nasty}{n}"), u64::MAX)).collect();
    facts.notes = vec![nasty.clone(); 9];
    facts.failures = vec![nasty; 9];
    let total = &mut facts.total;
    total.offloaders = (0..4).map(|_| fixtures::ip("2001:db8:aaaa:bbbb:cccc:dddd:eeee:ffff")).collect();
    total.interval.end = u64::MAX;
    total.ledger.errors = DecodeErrors([[u64::MAX / 32; 4]; 4]);
    total.ledger.capture =
        CaptureCount { offered: 1, dropped: u64::MAX / 4, interface_dropped: u64::MAX / 4, outside: 0 };
    total.ledger.filtered = 77;
    total.ledger.unflowed = u64::MAX / 4;
    total.ledger.checksums_bad = u64::MAX;
    total.ledger.checksums_verified = u64::MAX;
    total.ledger.time_jumps = u64::MAX;
    total.ledger.rows_shed = u64::MAX;
    total.ledger.packets_unwritten = u64::MAX;
    total.flows.evicted = u64::MAX;
    total.flows.created = u64::MAX;
    for answer in &mut total.answers {
        let Reading::Top(top) = &mut answer.reading else { continue };
        let key = match top.key {
            KeyKind::Talker => |n: u16| Key::Talker {
                server: fixtures::ip("2001:db8:aaaa:bbbb:cccc:dddd:eeee:ffff"),
                port: 65_000 + n,
                client: fixtures::ip("2001:db8:aaaa:bbbb:cccc:dddd:eeee:ffff"),
                protocol: 17,
            },
            KeyKind::Service => |n: u16| Key::Port { protocol: 17, port: 138 + n },
            _ => continue,
        };
        top.rows = (0..50)
            .map(|n| TopRow {
                key: key(n),
                count: fixtures::count(u64::MAX / 64, u64::MAX / 64),
                flows: u64::MAX,
                error: u64::MAX / 128,
            })
            .collect();
    }
    facts
}

#[test]
fn no_facts_make_it_longer_wider_or_unsafe() {
    let variants = [
        hostile(),
        Facts { inputs: hostile().inputs.into_iter().take(1).collect(), ..hostile() },
        facts(),
        Facts::default(),
        Facts { interrupted: true, ..hostile() },
    ];
    for facts in &variants {
        for columns in [0, 40, 60, 79, 80, 120, 500] {
            let style = Style { width: columns, ..Style::default() };
            let text = render(facts, &style);
            assert!(text.lines().count() <= MAX_LINES, "{columns}:\n{text}");
            assert!(!text.is_empty() && text.ends_with('\n'));
            for line in text.lines() {
                assert!(width(line) <= columns.max(MIN_WIDTH), "{columns}: {} {line:?}", width(line));
                assert!(!line.chars().any(|c| c.is_control() || c == '\u{202e}'), "{line:?}");
            }
            assert!(text.contains("\nLOSS"), "{columns}:\n{text}");
            let balance = text.split("LOSS").nth(1).unwrap();
            assert!(balance.contains("analysed"), "{columns}: the balance is whole\n{text}");
        }
        assert!(!line(&facts.total, &Zone::utc(), true).contains(char::is_control));
    }
}

#[test]
fn colour_changes_only_colour() {
    for facts in [facts(), hostile()] {
        let plain = render(&facts, &Style::default());
        let coloured = render(&facts, &Style { colour: true, ..Style::default() });
        assert!(coloured.contains("\u{1b}[1;36mLOSS"));
        let mut stripped = String::new();
        let mut rest = coloured.as_str();
        while let Some((before, after)) = rest.split_once("\u{1b}[") {
            stripped.push_str(before);
            rest = after.split_once('m').unwrap().1;
        }
        stripped.push_str(rest);
        let trimmed = |text: &str| text.lines().map(|line| line.trim_end().to_owned()).collect::<Vec<_>>();
        assert_eq!(trimmed(&stripped), trimmed(&plain));
    }
}

#[test]
fn loss_is_never_shown_as_none() {
    let mut lossy = facts();
    lossy.total.ledger.capture.dropped = 94;
    lossy.total.ledger.capture.offered += 94;
    let text = render(&lossy, &Style::default());
    assert!(text.contains("LOSS      9.40% of packets (94): kernel dropped 94\n"), "{text}");
    assert!(text.contains("read 906 = decoded 906 = analysed 906"), "{text}");

    let mut cut = facts();
    cut.inputs[0].problem = Some("cut off at byte 4711, after 906 packets".to_owned());
    let text = render(&cut, &Style::default());
    assert!(text.contains("          cut off at byte 4711, after 906 packets\n"), "{text}");
    assert!(text.contains("LOSS      unknown after the error") && !text.contains("complete"), "{text}");

    let mut before = facts();
    before.inputs[0].lost_before = Some(12);
    let text = render(&before, &Style::default());
    assert!(
        text.contains("LOSS      none in this run") && text.contains("12 packets lost during capture"),
        "{text}"
    );

    let mut unbalanced = facts();
    unbalanced.total.ledger.flowed -= 1;
    let text = render(&unbalanced, &Style::default());
    assert!(text.contains("ledger imbalance: analysed 906 is not in flows + outside flows 905"), "{text}");

    let mut filtered = facts();
    filtered.expression = Some("tcp port 80".to_owned());
    filtered.total.ledger.caught += 94;
    filtered.total.ledger.filtered = 94;
    let text = render(&filtered, &Style::default());
    assert!(text.contains("906 of 1,000 packets match: tcp port 80"), "{text}");
    assert!(text.contains("read 1,000 = not matched 94 + analysed 906"), "{text}");
}

#[test]
fn an_error_is_shown_to_its_end() {
    let mut cut = facts();
    cut.inputs[0].problem = Some(
        "truncated at byte 99,976, after 10,455 packets: record of 100 bytes or more, but only 24 are present"
            .to_owned(),
    );
    cut.total.ledger.caught = 1_310_455;
    cut.total.ledger.analysed = 1_310_455;
    let text = render(&cut, &Style::default());
    let problem = "
          truncated at byte 99,976, after 10,455 packets: record of 100 bytes or
          more, but only 24 are present
";
    assert!(text.contains(problem), "{text}");
    let loss = "
LOSS      unknown after the error
          read 1,310,455 = decoded 1,310,455 = analysed 1,310,455
";
    assert!(text.contains(loss) && !text.contains('…'), "{text}");
}

/// Sparklines and bars have the room that they need, whatever is next to them.
#[test]
fn sparklines_and_bars_are_never_truncated() {
    let talker = |port, client: &str| Key::Talker {
        server: fixtures::ip("2001:db8:aaaa:bbbb:cccc:dddd:eeee:ffff"),
        port,
        client: fixtures::ip(client),
        protocol: 17,
    };
    let mut cells = 0;
    for shift in 0..44 {
        let mut facts = facts();
        facts.total.interval.end = facts.total.interval.start + (547_000_000 << shift);
        for answer in &mut facts.total.answers {
            match &mut answer.reading {
                Reading::Series(series) => series.step <<= shift,
                Reading::Top(top) if top.key == KeyKind::Talker => {
                    let clients = ["10.0.0.1", "fd00::1", "2001:db8:aaaa:bbbb:cccc:dddd:eeee:1"];
                    let rows = clients.iter().enumerate().map(|(n, client)| TopRow {
                        key: talker(60_000 + n as u16, client),
                        count: fixtures::count(1, 1_234 << shift >> n),
                        flows: 1 << (shift / 2),
                        error: 1 << (shift / 3),
                    });
                    top.rows = rows.collect();
                }
                _ => {}
            }
        }
        for columns in 60..120 {
            let text = render(&facts, &Style { width: columns, ..Style::default() });
            for line in text.lines().filter(|line| line.contains(['█', '▁'])) {
                let whole = match line.contains(" <-> ") {
                    true => line.ends_with(|c| ('█'..='▏').contains(&c)),
                    false => line.contains("(each bar ") && line.ends_with(')'),
                };
                assert!(whole, "{columns}:\n{text}");
                cells += usize::from(line.contains("(each bar "));
            }
        }
    }
    assert!(cells > 1_000, "only {cells} strips");
}

#[test]
fn undecoded_packets_are_shown() {
    let mut facts = facts();
    facts.inputs[0].undecoded = vec!["USER0".to_owned()];
    facts.total.ledger.errors.0[0][2] = 3;
    let text = render(&facts, &Style::default());
    let expected = "\nERRORS    3 packets skipped: link type not supported (USER0)\n";
    assert!(text.contains(expected) && !text.contains("partly"), "{text}");
    assert!(text.contains("read 906 = decoded 903 + skipped 3 = analysed 906"), "{text}");

    facts.total.ledger.errors.0[1][0] = 2;
    let text = render(&facts, &Style::default());
    assert!(text.contains(expected), "{text}");
    assert!(text.contains("\n          2 packets partly decoded: network truncated 2\n"), "{text}");
    assert!(text.contains("decoded 901 + partly 2 + skipped 3 = analysed 906"), "{text}");
}

#[test]
fn suggested_commands_are_valid_in_a_shell() {
    let next = |name: &str| {
        let mut facts = facts();
        facts.inputs[0].name = name.to_owned();
        let text = render(&facts, &Style::default());
        text.split_once("\nNext      ").map(|(_, next)| next.to_owned())
    };
    let spaced = next("my captures/it's.pcap").unwrap();
    assert!(spaced.starts_with("weir open 'my captures/it'\\''s.pcap'  its pages"), "{spaced}");
    let long = next("captures/of/last/week/web.pcap").unwrap();
    let two = "          weir captures/of/last/week/web.pcap \\\n            'host 10.99.0.2 and port 8000' -w part.pcapng\n";
    assert!(long.contains(two), "{long}");
    assert_eq!(next("-"), None, "standard input is gone");
    assert_eq!(next(&"x".repeat(90)), None, "no command has room");
    assert!(next("-x.pcap").unwrap().starts_with("weir open ./-x.pcap "));
}

#[test]
fn scans_are_shown_if_there_are_some() {
    let mut facts = facts();
    facts.total.add_events(&fixtures::events());
    let text = render(&facts, &Style::default());
    let expected = "
FINDINGS  10.99.0.102 -> 10.99.0.1  41 ports (1-40, 443) in 0.213 s, refused
          10.99.0.102 -> 30 hosts, tcp/445 in 3.000 s, 13% of flows refused
";
    assert!(text.contains(expected), "{text}");

    let many = weir_api::Trials::of_event(&facts.total.events[0]).unwrap();
    for n in 1..6 {
        let target = fixtures::ip(&format!("10.99.1.{n}"));
        let mut row = many.clone();
        row.sweep = weir_api::Sweep::Ports { source: target, target };
        (1_000..3_000).for_each(|port| {
            row.failed.add(port);
        });
        facts.total.add_events(&[row.event()]);
    }
    let text = render(&facts, &Style::default());
    assert_eq!(text.matches(" -> 10.99.1.").count(), 2, "{text}");
    assert!(
        text.contains("  2,041 ports ") && !text.contains('…') && text.contains("  and 5 more scans\n"),
        "{text}"
    );
    assert!(text.lines().count() <= MAX_LINES, "{text}");

    // Ports are counted exactly, and many hosts are not.
    let mut hosts = many;
    hosts.sweep = weir_api::Sweep::Hosts { source: fixtures::ip("10.99.1.9"), port: 22 };
    (0..2_000).for_each(|n| {
        hosts.failed.add(0xffff_0a00_0000 + n);
    });
    let line = scan_line(&hosts, 80);
    assert!(line.starts_with("10.99.1.9 -> about ") && line.contains(" hosts, tcp/22"), "{line}");

    let long = fixtures::ip("2001:db8:aaaa:bbbb:cccc:dddd:eeee:ffff");
    facts.total.events.truncate(1);
    facts.total.events[0].subject = weir_api::Subject::Pair { source: long, target: long };
    let text = render(&facts, &Style::default());
    let scans = text.lines().find(|line| line.starts_with("FINDINGS")).unwrap();
    assert!(scans.contains(" -> 2001:db8:") && scans.contains("  41 ports"), "{text}");
}

#[test]
fn findings_of_subscriptions_are_shown_with_their_number() {
    use std::sync::Arc;
    use weir_api::event::FINDING;
    use weir_api::{Event, Folded, Origin, Subject};
    let mut facts = facts();
    let origin = |name: &str| {
        let (severity, quiet) = (None, None);
        Some(Arc::new(Origin { subscription: "trigger x".into(), name: Some(name.into()), severity, quiet }))
    };
    let host = Subject::Host(fixtures::ip("10.10.10.10"));
    let flood = Event::at(&FINDING, host, 5).with("most", "", Folded::Max(Some(2_500)));
    let pair = Subject::Pair { source: fixtures::ip("10.0.0.1"), target: fixtures::ip("10.0.0.2") };
    let logins = Event { count: 12, origin: origin("refused-login"), ..Event::at(&FINDING, pair, 6) };
    facts.total.add_events(&[Event { origin: origin("syn-flood"), ..flood }, logins.clone()]);
    let text = render(&facts, &Style::default());
    let expected = "
FINDINGS  refused-login  10.0.0.1 -> 10.0.0.2  12 times
          syn-flood  10.10.10.10  2,500
";
    assert!(text.contains(expected), "{text}");
    let flooded = Subject::Target {
        target: fixtures::ip("10.10.10.10"),
        protocol: 6,
        port: Some(25_565),
        of_sender: false,
    };
    let mut sources = weir_api::DistinctValues::default();
    (0..40).for_each(|n| {
        sources.add(n);
    });
    let flood = Event::at(&weir_api::event::SYN_FLOOD, flooded, 5)
        .with("sources", "", Folded::Distinct(sources))
        .with("answered", "packets", Folded::Sum(0));
    let mut with_flood = facts.clone();
    with_flood.total.add_events(&[Event { count: 2_500, ..flood }]);
    let text = render(&with_flood, &Style::default());
    let expected = "FINDINGS  syn flood -> 10.10.10.10 tcp/25565  2,500 from 40 hosts, unanswered\n";
    assert!(text.contains(expected), "{text}");
    let beside = with_flood.total.events[0].clone().with("fragments", "packets", Folded::Sum(93));
    let whole = "syn flood -> 10.10.10.10 tcp/25565  2,500, 93 fragments, from 40 hosts, unanswered";
    assert_eq!(flood_line(&beside, 100), whole);
    assert_eq!(flood_line(&beside, 69), whole.replace(", from 40 hosts", ""));
    for n in 1..5 {
        facts.total.add_events(&[Event { origin: origin(&format!("z{n}")), ..logins.clone() }]);
    }
    let text = render(&facts, &Style::default());
    assert!(text.contains("  and 4 more findings\n"), "{text}");
}

#[test]
fn inexact_numbers_are_marked() {
    let mut facts = facts();
    for answer in &mut facts.total.answers {
        if let Reading::Top(top) = &mut answer.reading {
            top.rows.edit().iter_mut().for_each(|row| row.error = row.count.bytes / 20);
        }
    }
    let text = render(&facts, &Style::default());
    assert!(text.contains("261.0 kB  ±5%"), "{text}");
    assert!(text.contains("tcp/8000 73% ±5%"), "{text}");
    assert!(!text.contains("IPv4"), "shares that are not exact are left out:\n{text}");
    assert!(line(&facts.total, &Zone::utc(), true).contains("73% ±5%"));
}

#[test]
fn a_list_shows_its_size_and_its_shed_keys() {
    let mut facts = facts();
    facts.total.answers[0].reading = fixtures::flooded(&facts.total);
    facts.total.answers.push(fixtures::answer(
        "\u{1b}many",
        Some("c"),
        "distinct",
        fixtures::distinct(100_000),
    ));
    let text = lists(&facts.total);
    let expected = "
Top lists
  talkers                      3 rows        98,304 inserts   9.0 MB without a row, each key at most 4.0 kB
  services                     3 rows             3 inserts   exact
  sources                      1 rows             1 inserts   exact
  protocols                    1 rows             1 inserts   exact

Distinct counts
  hosts                        3 hosts
  c/\\x1bmany          ";
    assert!(text.starts_with(expected) && text.ends_with(" ±1.6%\n"), "{text}");
    assert_eq!(lists(&Snapshot::default()), "");
    assert_eq!(
        [(0, 5), (5, 100), (5, 5), (6, 5)].map(|(error, value)| error_share(error, value)),
        [None, Some("±5%".to_owned()), Some("±100%".to_owned()), Some("±>100%".to_owned())]
    );
}

#[test]
fn an_empty_capture_has_a_short_summary() {
    let facts = Facts {
        inputs: vec![InputFacts {
            name: "empty.pcap".into(),
            format: "pcap".into(),
            ..InputFacts::default()
        }],
        ..Facts::default()
    };
    let text = render(&facts, &Style::default());
    assert_eq!(
        text,
        "empty.pcap  pcap, 0 packets, 0 B\n          complete\nTRAFFIC   none\nLOSS      none   read 0 = decoded 0 = analysed 0\n"
    );
}

#[test]
fn numeric_shows_no_names() {
    let text = render(&facts(), &Style { names: false, ..Style::default() });
    assert!(!text.contains("https") && text.contains("tcp/443 27%"), "{text}");
}

/// A flood from as many addresses as packets: no pair stands out, but its target does.
#[test]
fn a_flood_shows_its_target() {
    let mut facts = facts();
    let all = analysed(&facts.total);
    let victim = Key::Address(fixtures::ip("192.0.2.80"));
    for answer in &mut facts.total.answers {
        let Reading::Top(top) = &mut answer.reading else { continue };
        let rows = 0..400;
        top.rows = match top.key {
            KeyKind::Talker => rows
                .map(|n| Key::Talker {
                    server: fixtures::ip("192.0.2.80"),
                    port: n,
                    client: std::net::Ipv4Addr::from(n as u32).into(),
                    protocol: 17,
                })
                .map(|key| fixtures::row(key, 1, 60, 1))
                .collect(),
            KeyKind::Service => {
                rows.map(|n| fixtures::row(Key::Port { protocol: 17, port: n }, 1, 60, 1)).collect()
            }
            _ => continue,
        };
    }
    facts.total.answers.push(fixtures::answer(
        "destinations",
        None,
        "top",
        fixtures::top(KeyKind::Destination, vec![fixtures::row(victim, all.packets, all.bytes, 400)]),
    ));
    let text = render(&facts, &Style::default());
    assert!(text.contains("HOSTS     2 addresses:  100% from 10.99.0.2  100% to 192.0.2.80\n"), "{text}");
    assert!(text.contains("PORTS     400 ports, each below 1%\n"), "{text}");
    assert!(text.contains("'host 192.0.2.80 and port "), "no sender of a flood is offered:\n{text}");
}

#[test]
fn the_time_range_is_shown_with_what_is_outside() {
    let mut facts = facts();
    let (first, last) = (facts.total.interval.start, facts.total.interval.end);
    facts.range =
        Some(RangeFacts { from: first, until: last, outside: 94, times: Some((first - 5, first - 1)) });
    let text = render(&facts, &Style::default());
    let line = "          906 of 1,000 packets in the range 2026-11-21 01:46:08.985 ->\n          01:46:09.532 UTC\n";
    assert!(text.contains(line), "{text}");
    for (from, until, words) in [
        (first, u64::MAX, "in the range since 2026-11-21 01:46:08.985 UTC\n"),
        (0, last, "in the range until 2026-11-21 01:46:09.532 UTC\n"),
    ] {
        facts.range = Some(RangeFacts { from, until, outside: 94, times: None });
        let text = render(&facts, &Style::default());
        assert!(text.contains(words), "{text}");
    }
    // Nothing in the range: the times of the packets are shown.
    let day = 86_400_000_000_000;
    facts.total = Snapshot::default();
    facts.range =
        Some(RangeFacts { from: last + day, until: u64::MAX, outside: 906, times: Some((first, last)) });
    let text = render(&facts, &Style::default());
    assert!(text.contains("0 of 906 packets in the range since 2026-11-22"), "{text}");
    assert!(text.contains("the packets are from 2026-11-21 01:46:08.985 -> 01:46:09.532 UTC\n"), "{text}");
}

#[test]
fn tunnels_and_packets_without_ip_are_named() {
    let mut facts = facts();
    let all = analysed(&facts.total);
    let tunnel = |name: &str, network| vec![Datum::Text(name.into()), network];
    let vxlan = |n| tunnel("VXLAN", Datum::Number(n));
    facts.total.answers.push(weighed("tunnels", vec![(vxlan(42), all.packets)]));
    let text = render(&facts, &Style::default());
    assert!(text.contains("\nTUNNELS   all inside VXLAN 42\n"), "{text}");

    facts.total.answers.pop();
    let mut tunnels = vec![(tunnel("GRE", Datum::Nothing), 453)];
    tunnels.extend((0..90).map(|n| (vxlan(n), 1)));
    facts.total.ledger.unflowed = 12;
    let kinds = [("type 0x1234", 1), ("ARP", 2), ("encrypted Wi-Fi", 6), ("Wi-Fi management", 3)];
    let kinds = kinds.map(|(name, n)| (vec![Datum::Text(name.into())], n));
    facts.total.answers.extend([weighed("tunnels", tunnels), weighed("packets without IP", kinds.into())]);
    let text = render(&facts, &Style::default());
    assert!(text.contains("\nTUNNELS   50% inside GRE   <1% inside VXLAN 0"), "{text}");
    assert!(text.contains("more tunnels\n"), "{text}");
    let kinds =
        "12 packets outside flows: 6 encrypted Wi-Fi, 3 Wi-Fi management, 2\n          ARP, 1 type 0x1234\n";
    assert!(text.contains(kinds), "{text}");
}

/// The answer of a built-in subscription: a table of keys with their weights.
fn weighed(subscription: &str, rows: Vec<(Vec<Datum>, u64)>) -> Answer {
    let schema = Schema {
        name: "rows".into(),
        keys: Vec::new().into(),
        columns: Vec::new().into(),
        shown: Shown::Heaviest(10),
    };
    let row = |(key, weight)| TableRow { key, values: vec![Folded::Sum(weight)], error: 0 };
    let rows = rows.into_iter().map(row).collect();
    fixtures::answer(subscription, None, "rows", Reading::Table(Table::new(schema, 512, rows, 0)))
}

/// A resolved name takes the place of the server's address; the bar stays.
#[test]
fn names_and_bars_stand_together() {
    let mut facts = facts();
    let (server, client) = (fixtures::ip("10.99.0.2"), fixtures::ip("10.99.0.77"));
    facts.names.insert((server, client), "a-rather-long-name-of-a-host.example.org".to_owned());
    let text = render(&facts, &Style::default());
    let row = text.lines().find(|line| line.contains("10.99.0.77")).unwrap();
    assert!(row.contains("…") && row.contains(".example.org:443 <-> 10.99.0.77"), "{text}");
    assert!(row.ends_with(|c| ('█'..='▏').contains(&c)), "{text}");
    let numeric = render(&facts, &Style { names: false, ..Style::default() });
    assert!(numeric.contains("10.99.0.2:443") && !numeric.contains("example"), "{numeric}");
}

/// A list with these keys, the first ones the heaviest. Its values are times if the keys are servers.
fn listed(of: SubscriptionId, keys: Vec<Vec<Datum>>) -> Answer {
    let fold = if keys.iter().any(|key| key.len() > 1) { Fold::Sketch } else { Fold::Sum };
    let column = TableColumn::new("value", fold, "", "Help.");
    let key = KeyColumn::new("key", "", "Help.");
    let schema = Schema {
        name: Cow::Borrowed("list"),
        keys: Cow::Owned(vec![key; keys.first().map_or(1, Vec::len)]),
        columns: Cow::Owned(vec![column]),
        shown: Shown::Heaviest(10),
    };
    let row = |(at, key): (usize, Vec<Datum>)| {
        let value = match fold {
            Fold::Sketch => {
                let mut sketch = Sketch::default();
                (0..1_000 - at).for_each(|_| sketch.add(0.5));
                Folded::Sketch(sketch)
            }
            _ => Folded::Sum(1_000 - at as u64),
        };
        TableRow { key, values: vec![value], error: 0 }
    };
    let rows: Vec<TableRow> = keys.into_iter().enumerate().map(row).collect();
    let reading = Reading::Table(Table::new(schema, 1_000, rows, 0));
    Answer { id: AnswerId { subscription: of, place: 0 }, label: Default::default(), reading, nanoseconds: 0 }
}

/// Whatever the width, what a section shows of a list and the number of its others are the whole list.
#[test]
fn each_list_states_its_own_remainder() {
    let texts = |word: &str, n: usize| {
        (0..n).map(|n| vec![Datum::Text(format!("{word}{n:03}").into())]).collect::<Vec<_>>()
    };
    let lists = [
        ("NAMES", builtin::NAMES, "name", "", 37),
        ("SITES", builtin::SITES, "site", "", 23),
        ("WEB", builtin::TLS_VERSIONS, "tls", "version", 4),
        ("WEB", builtin::STATUS_CODES, "status", "code", 7),
        ("WEB", builtin::USER_AGENTS, "program", "agent", 12),
        ("LATENCY", builtin::LATENCY, "10.7.0.", "server", 31),
    ];
    for without in 0..=lists.len() {
        let mut total = Snapshot::default();
        for (at, (_, of, word, noun, n)) in lists.iter().enumerate() {
            let keys = match *noun {
                _ if at == without => Vec::new(),
                "server" => (0..*n)
                    .map(|n| vec![Datum::Address(fixtures::ip(&format!("10.7.0.{n}"))), Datum::Number(80)])
                    .collect(),
                _ => texts(word, *n),
            };
            total.answers.push(listed(*of, keys));
        }
        total.answers.sort_by_key(|answer| answer.id);
        let tunnels = (0..9).map(|n| (vec![Datum::Text("VXLAN".into()), Datum::Number(n)], 1));
        total.answers.push(weighed("tunnels", tunnels.collect()));
        let facts = Facts { total, ..Facts::default() };
        for room in 50..200 {
            let sections = [
                applications::names(&facts, room),
                applications::sites(&facts, room),
                applications::web(&facts, room),
                applications::latency(&facts, room),
                sections::tunnels(&facts, room),
            ];
            let tunnels = [("TUNNELS", SubscriptionId(0), "VXLAN", "tunnel", 9)];
            for (at, (label, _, word, noun, n)) in lists.iter().chain(&tunnels).enumerate() {
                if at == without {
                    continue;
                }
                let section = sections.iter().find(|section| section.label == *label).unwrap();
                let (line, _) = section.lines.first().unwrap_or_else(|| panic!("{label} at {room}"));
                let shown = line.matches(word).count();
                // "   and 3 more codes", or the number alone if none is shown.
                let others: usize = line
                    .split("   ")
                    .filter_map(|part| {
                        let part = part.strip_prefix("and ").unwrap_or(part);
                        let (number, rest) = part.split_once(' ')?;
                        let rest = rest.strip_prefix("more").unwrap_or(rest).trim_start();
                        let is_its = rest.trim_end_matches('s') == *noun;
                        is_its.then(|| number.parse::<usize>().unwrap())
                    })
                    .sum();
                assert_eq!(shown + others, *n, "{label} of {noun} at {room}: {line}");
                let is_short = shown <= 1 || width(line) <= room;
                assert!(is_short, "{label} at {room}: {line}");
            }
        }
    }
}

/// What is shown of the packets without IP and what is stated of the others are all of them.
#[test]
fn conversations_without_ip_add_up() {
    let mac = |n: u8| Datum::Mac([2, 0, 0, 0, 0, n]);
    let text = |text: &str| Datum::Text(text.into());
    let conversation = |n: usize| match n {
        0 => vec![mac(1), Datum::Mac([0xff; 6]), text("beacon"), mac(1), text("home")],
        1 => vec![Datum::Nothing, mac(1), text("ack"), Datum::Nothing, Datum::Nothing],
        n => vec![mac(n as u8), mac(1), text("encrypted Wi-Fi"), mac(0xbb), Datum::Nothing],
    };
    let facts = |rows: usize, flows: u64, shed: u64| {
        let mut answer = listed(builtin::FRAMES, (0..rows).map(conversation).collect());
        if let Reading::Table(table) = &mut answer.reading {
            (table.shed, table.absent) = (Some(vec![shed]), shed);
        }
        let mut total = Snapshot { answers: vec![answer], ..Snapshot::default() };
        total.flows.created = flows;
        Facts { total, ..Facts::default() }
    };
    let lines = |rows, flows, shed, room| -> Vec<String> {
        super::frames::frames(&facts(rows, flows, shed), room)
            .lines
            .into_iter()
            .map(|(line, _)| line)
            .collect()
    };
    assert_eq!(lines(0, 0, 0, 70), [""; 0]);
    assert_eq!(lines(1, 0, 0, 70), ["1,000 beacon of \"home\"  02:00:00:00:00:01 -> all"]);
    let all = lines(3, 0, 0, 70);
    assert_eq!(all[1], "999 ack  to 02:00:00:00:00:01");
    assert_eq!(all[2], "998 encrypted Wi-Fi  02:00:00:00:00:02 -> 02:00:00:00:00:01  by 02:00:00:00:00:bb");
    // Beside flows there is one, with the rest after it, or below where there is no room.
    let one = "1,000 beacon of \"home\"  02:00:00:00:00:01 -> all";
    assert_eq!(lines(3, 9, 0, 90), [format!("{one}  and 1,997 packets of 2 others")]);
    assert_eq!(lines(3, 9, 0, 70), [one, "and 1,997 packets of 2 others"]);
    assert_eq!(lines(1, 9, 5, 70), [one, "and 5 packets of more than 0 others"]);
    let all = lines(9, 0, 6, 70);
    assert_eq!((all.len(), all[5].as_str()), (6, "and 3,980 packets of more than 4 others"));
}
