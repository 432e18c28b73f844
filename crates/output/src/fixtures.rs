//! Snapshots and flows for tests.

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::net::IpAddr;
use std::sync::Arc;
use weir_api::event::DISK_FULL;
use weir_api::{
    Answer, AnswerId, AnswerLabel, Class, Count, Distinct, DistinctCount, DistinctOf, Event, FlowCount,
    Histogram, Interval, Key, KeyKind, Ledger, Reading, SCANS, Series, Snapshot, Subject, SubscriptionId,
    Sweep, Table, Top, TopRow, Trials, Unit, builtin,
};
use weir_engine::{ConnState, EndReason, FlowIdentity, FlowRecord, History, Side};
use weir_proto::{Alert, AlertPlace, AlertSide, Anomaly, PROTOCOLS, Record};
use weir_wire::{Direction, FlowKey, LinkType, Time, Tunnel, mapped};

pub const START: u64 = 1_795_225_568_985_000_000;

pub fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

pub fn count(packets: u64, bytes: u64) -> Count {
    Count { packets, bytes }
}

pub fn top(key: KeyKind, rows: Vec<TopRow>) -> Reading {
    let inserts = rows.len() as u64;
    Reading::Top(Top {
        key,
        show: 10,
        unit: Unit::Bytes,
        capacity: 8192,
        rows: rows.into(),
        absent: 0,
        inserts,
        shed: Count::default(),
    })
}

pub fn row(key: Key, packets: u64, bytes: u64, flows: u64) -> TopRow {
    TopRow { key, count: count(packets, bytes), flows, error: 0 }
}

pub fn answer(subscription: &str, chart: Option<&str>, function: &str, reading: Reading) -> Answer {
    let label = AnswerLabel {
        subscription: subscription.to_owned(),
        chart: chart.map(str::to_owned),
        function: function.to_owned(),
        ..AnswerLabel::default()
    };
    // Equal names have equal numbers.
    let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one(&label);
    let other = SubscriptionId(builtin::FIRST_FREE.0 | hash as u32);
    let id = AnswerId { subscription: builtin::number_of(subscription).unwrap_or(other), place: 0 };
    Answer { id, label: Arc::new(label), reading, nanoseconds: 0 }
}

pub fn classes(unit: Unit, parts: &[(&str, u64, u64)]) -> Reading {
    let classes = parts
        .iter()
        .map(|(label, p, b)| Class { label: (*label).to_owned(), count: count(*p, *b) })
        .collect();
    Reading::Classes { unit, classes }
}

/// The events of [`scans`]: a scan of ports, and a scan of hosts.
pub fn events() -> Vec<Event> {
    let Reading::Table(table) = scans() else { return Vec::new() };
    let found = Trials::found(&table).into_iter().map(|scan| {
        let mut event = scan.event();
        event.identify();
        event
    });
    found.collect()
}

/// An event about the monitor itself.
pub fn full_disk() -> Event {
    Event::at(&DISK_FULL, Subject::Output("conn.log".into()), START)
}

/// A scan of ports, a scan of hosts, and a client that was refused once.
pub fn scans() -> Reading {
    let source = ip("10.99.0.102");
    let mut ports = Trials::new(Sweep::Ports { source, target: ip("10.99.0.1") });
    (1..=40).chain([443]).for_each(|port| {
        ports.failed.add(port);
    });
    (ports.refused, ports.first, ports.last) = (41, START, START + 213_000_000);
    let mut hosts = Trials::new(Sweep::Hosts { source, port: 445 });
    (1..=30).for_each(|host| {
        hosts.failed.add(host);
    });
    (hosts.refused, hosts.unanswered, hosts.first, hosts.last) = (4, 26, START, START + 3_000_000_000);
    let mut client = Trials::new(Sweep::Hosts { source, port: 81 });
    client.failed.add(1);
    let rows = [ports, hosts, client].map(|row| row.row(0));
    Reading::Table(Table::new(&SCANS, 100, rows.into(), 0))
}

/// The given number of hosts.
pub fn distinct(hosts: u64) -> Reading {
    let mut seen = Distinct::default();
    let mut hash = 0_u64;
    for _ in 0..hosts {
        hash = hash.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        seen.add((hash ^ hash >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9));
    }
    Reading::Distinct(DistinctCount::new(DistinctOf::Hosts, 1, seen))
}

/// The talkers of a snapshot in a list that was full: each may undercount by 5 %.
pub fn flooded(snapshot: &Snapshot) -> Reading {
    let reading = snapshot.answers.first().map(|answer| answer.reading.clone());
    let Some(Reading::Top(mut top)) = reading else { panic!("the first answer is the list of talkers") };
    top.rows.edit().iter_mut().for_each(|row| row.error = row.count.bytes / 20);
    (top.inserts, top.shed, top.absent) = (98_304, count(98_301, 9_000_000), 4_000);
    Reading::Top(top)
}

/// A scan and six downloads.
pub fn snapshot() -> Snapshot {
    let mut series = Series::new(1_000_000);
    let shape = [400, 2300, 2300, 1500, 2100, 2300, 2300, 400, 400, 900, 3200];
    for at in 0..548 {
        let packets = if at < 358 { 2 } else { 1 };
        series.add(START + at * 1_000_000, &count(packets, shape[at as usize * 11 / 548] * 2 / 5));
    }
    let talker =
        |port, client| Key::Talker { server: ip("10.99.0.2"), port, client: ip(client), protocol: 6 };
    let service = |port| Key::Port { protocol: 6, port };
    let all = series.cells.iter().fold(Count::default(), |mut sum, cell| {
        sum.add(cell);
        sum
    });
    let mut histogram = Histogram::new("size", vec![0, 64, 128]);
    histogram.add(60);
    histogram.add(1500);
    Snapshot {
        interval: Interval { start: START, end: START + 547_000_000 },
        watched: None,
        packets: None,
        ledger: Ledger {
            caught: all.packets,
            bytes: all.bytes,
            captured_bytes: all.bytes,
            analysed: all.packets,
            flowed: all.packets,
            capture: weir_api::CaptureCount { offered: all.packets, ..Default::default() },
            ..Ledger::default()
        },
        flows: FlowCount { created: 405, ended: 405, ..FlowCount::default() },
        sessions: weir_api::SessionCount::default(),
        offloaders: vec![ip("10.99.0.2")],
        senders: weir_api::ChecksumSenders::default(),
        costs: weir_api::Costs::default(),
        answers: vec![
            answer(
                "talkers",
                None,
                "top",
                top(
                    KeyKind::Talker,
                    vec![
                        row(talker(80, "10.99.0.1"), 106, 1200, 2),
                        row(talker(443, "10.99.0.77"), 90, 98_000, 1),
                        row(talker(8000, "10.99.0.1"), 500, 261_000, 6),
                    ],
                ),
            ),
            answer(
                "services",
                None,
                "top",
                top(
                    KeyKind::Service,
                    vec![
                        row(service(80), 106, 1200, 2),
                        row(service(443), 90, 98_000, 1),
                        row(service(8000), 500, 261_000, 6),
                    ],
                ),
            ),
            answer(
                "sources",
                None,
                "top",
                top(KeyKind::Source, vec![row(Key::Address(ip("10.99.0.2")), all.packets, all.bytes, 405)]),
            ),
            answer(
                "protocols",
                None,
                "top",
                top(KeyKind::Protocol, vec![row(Key::Protocol(6), all.packets, all.bytes, 405)]),
            ),
            answer("rate", None, "rate", Reading::Series(series)),
            answer(
                "size",
                None,
                "size",
                classes(
                    Unit::Packets,
                    &[("tiny", 1, 60), ("small", 2, 400), ("med", 0, 0), ("big", 9, 9000)],
                ),
            ),
            answer("sizes", None, "distribution", Reading::Histogram(histogram)),
            answer("all", None, "packets", Reading::Count(all)),
            answer("hosts", None, "distinct", distinct(3)),
        ],
        outline: Arc::default(),
        events: Vec::new(),
        event_count: weir_api::EventCount::default(),
    }
}

/// A flow from 10.0.0.5:40000 to 192.0.2.1:443 that was closed regularly.
pub fn flow() -> FlowRecord {
    let mut flow = FlowRecord {
        key: FlowKey {
            addr: [mapped([10, 0, 0, 5]), mapped([192, 0, 2, 1])],
            port: [40_000, 443],
            proto: 6,
            ..FlowKey::default()
        },
        initiator_is_lower: true,
        id: 0x0123_4567_89ab_cdef,
        first: Time(START),
        last: Time(START + 211_484_000),
        forward: Side {
            packets: 7,
            frame_bytes: 610,
            ip_bytes: 512,
            payload_bytes: 136,
            tcp_flags: 0x1b,
            ttl: 64,
            ..Side::default()
        },
        reverse: Side {
            packets: 7,
            frame_bytes: 5477,
            ip_bytes: 5379,
            payload_bytes: 5007,
            tcp_flags: 0x1b,
            ttl: 57,
            ..Side::default()
        },
        tcp: Some(Default::default()),
        state: ConnState::SF,
        history: History::default(),
        end: EndReason::Fin,
        vlan: [0, 0],
        tunnel: Tunnel::None,
        parent: 0,
        other_parent: 0,
        follows: 0,
        carrier: false,
        carries: Tunnel::None,
        interface: 0,
        services: [0; 4],
        is_unidentified: false,
        own_apps: 0,
        alerted: false,
        verdict: None,
    };
    flow.tcp.as_mut().unwrap().stream_bytes = [136, 5007];
    flow
}

/// A ping over IPv6 without an answer, in a VLAN, through a tunnel.
pub fn ping() -> FlowRecord {
    let address = |last| {
        let mut bytes = [0; 16];
        bytes[..4].copy_from_slice(&[0x20, 0x01, 0x0d, 0xb8]);
        bytes[15] = last;
        bytes
    };
    FlowRecord {
        key: FlowKey { addr: [address(1), address(2)], port: [129, 128], proto: 58, ..FlowKey::default() },
        initiator_is_lower: false,
        id: 7,
        first: Time(START),
        last: Time(START),
        forward: Side {
            packets: 1,
            frame_bytes: 118,
            ip_bytes: 104,
            payload_bytes: 56,
            ttl: 64,
            ..Side::default()
        },
        reverse: Side::default(),
        tcp: None,
        state: ConnState::Oth,
        end: EndReason::Idle,
        vlan: [12, 34],
        tunnel: Tunnel::Vxlan,
        parent: 61,
        ..flow()
    }
}

/// The identity of [`flow`].
pub fn identity() -> FlowIdentity {
    let FlowRecord { key, initiator_is_lower, first, vlan, .. } = flow();
    FlowIdentity { key, initiator_is_lower, first, vlan, alias: 0 }
}

/// A record of a malformed message.
pub fn record() -> Record<'static> {
    let anomaly = Anomaly {
        name: "line_too_long",
        direction: Direction::Reverse,
        detail: b"a\tb, \"c\" \xff\x1b[0m",
        transaction: None,
    };
    anomaly.record(Time(START + 7_000_000), PROTOCOLS[0])
}

/// A record of an alert in a stream of the responder.
pub fn alert(message: &str) -> Record<'static> {
    let pair = |(key, value): (&str, &str)| (key.into(), value.into());
    let references = [("url", "example.org"), ("cve", "2021-44228")].map(pair);
    let metadata = [("created_at", "2010_07_30"), ("tag", "one two"), ("tag", "three")].map(pair);
    let alert = Alert {
        action: "allowed",
        gid: 1,
        sid: 2_009_187,
        rev: 4,
        message,
        category: "Web Application Attack",
        severity: 3,
        references: &references,
        metadata: &metadata,
        direction: Direction::Reverse,
        app_proto: Some("dce_rpc"),
        transaction: Some(2),
        buffers: &[],
        place: AlertPlace::Stream,
        at_end: false,
        sides: [AlertSide { packets: 3, bytes: 400 }, AlertSide { packets: 2, bytes: 150 }],
        tunnel: None,
        payload: b"a\"b\r\n\0\xff",
        packet: Some((LinkType::C_HDLC, b"\x0f\0\x08\0")),
    };
    alert.record(Time(START + 7_000_000)).into_owned()
}
