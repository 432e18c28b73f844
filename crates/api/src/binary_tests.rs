use super::*;
use crate::{
    AnswerLabel, Datum, EVENT_KINDS, Event, Fold, Folded, KeyColumn, Origin, SCANS, SampledValues, Schema,
    Shown, Subject, SubscriptionId, Sweep, Table, TableColumn, TableRow, Trials,
};
use proptest::prelude::*;
use std::borrow::Cow;

const fn of(name: &'static str, fold: Fold) -> TableColumn {
    TableColumn::new(name, fold, "u", "Help.")
}

static SCHEMA: Schema = Schema {
    name: Cow::Borrowed("names"),
    keys: Cow::Borrowed(&[KeyColumn::new("name", "dns.query", "Help.")]),
    columns: Cow::Borrowed(&[
        of("sum", Fold::Sum),
        of("min", Fold::Min),
        of("max", Fold::Max),
        of("distinct", Fold::Distinct),
        of("last", Fold::Last),
        of("sketch", Fold::Sketch),
        of("sample", Fold::Sample),
    ]),
    shown: Shown::Heaviest(3),
};

fn ip(n: u64) -> IpAddr {
    if n.is_multiple_of(3) {
        IpAddr::from(u128::from(n).to_be_bytes())
    } else {
        IpAddr::from((n as u32).to_be_bytes())
    }
}

fn key(n: u64) -> Key {
    let (port, protocol) = (n as u16, (n >> 8) as u8);
    match n % 7 {
        0 => Key::Address(ip(n)),
        1 => Key::Pair(ip(n), ip(n / 2)),
        2 => Key::Flow {
            source: ip(n),
            source_port: port,
            destination: ip(n / 2),
            destination_port: 7,
            protocol,
        },
        3 => Key::Port { protocol, port },
        4 => Key::Protocol(protocol),
        5 => Key::Vlan(port),
        _ => Key::Talker { server: ip(n), port, client: ip(n / 5), protocol },
    }
}

/// Readings of every shape, made of some numbers.
fn readings(numbers: &[u64]) -> Vec<Reading> {
    let count = |n: u64| Count { packets: n % 1_000, bytes: n % (1 << 40) };
    let keys: BTreeMap<Key, u64> = numbers.iter().map(|n| (key(*n), *n)).collect();
    let rows = keys.iter().map(|(key, n)| TopRow { key: *key, count: count(*n), flows: n % 9, error: n % 5 });
    let top = Top {
        key: KeyKind::Talker,
        show: 10,
        unit: Unit::Packets,
        capacity: 1000,
        rows: rows.collect(),
        absent: numbers.len() as u64,
        inserts: 7,
        shed: count(55),
    };
    let mut histogram = Histogram::new("größe", vec![0, 64, 1 << 40]);
    let mut series = Series::new(1_000_000);
    let mut seen = Distinct::default();
    for n in numbers {
        histogram.add(*n);
        series.add(n % (1 << 60), &count(*n));
        seen.add(*n);
    }
    let mut distinct = DistinctCount::new(DistinctOf::Hosts, 9, seen.clone());
    distinct.merge(&DistinctCount::new(DistinctOf::Hosts, 3, seen));
    let mut table = Table::new(&SCHEMA, 100, Vec::new(), 0);
    let mut scans = Table::new(&SCANS, 100, Vec::new(), 0);
    for n in numbers {
        let mut values = DistinctValues::default();
        values.add(u128::from(*n) << 60);
        let mut ports = DistinctValues::default();
        numbers.iter().for_each(|port| {
            ports.add(u128::from(*port as u16));
        });
        let mut sketch = Sketch::default();
        sketch.add(f64::from_bits(*n));
        let mut sample = SampledValues::default();
        numbers.iter().for_each(|port| sample.add(u128::from(*port as u16), n % 4));
        let datum = match n % 5 {
            0 => Datum::Nothing,
            1 => Datum::Address(ip(*n)),
            2 => Datum::Number(n % 50),
            3 => Datum::Mac([2, 0, 0, 0, 0, (n % 50) as u8]),
            _ => Datum::Text(format!("ü{}", n % 50).into()),
        };
        let row = TableRow {
            values: vec![
                Folded::Sum(n % 100),
                Folded::Min(Some(*n)),
                Folded::Max(None),
                Folded::Distinct(values.clone()),
                Folded::Last(Some((*n, datum.clone()))),
                Folded::Sketch(sketch),
                Folded::Sample(sample),
            ],
            key: vec![datum],
            error: n % 3,
        };
        table.merge(&Table::new(&SCHEMA, 100, vec![row], 0));
        let mut trials = Trials::new(match n % 2 {
            0 => Sweep::Ports { source: ip(n % 8), target: ip(n % 9) },
            _ => Sweep::Hosts { source: ip(n % 8), port: (n % 5) as u16 },
        });
        if n % 3 > 0 {
            (trials.failed, trials.refused, trials.first, trials.last) = (values, 1, *n, *n);
            trials.answered = ports;
        }
        scans.merge(&Table::new(&SCANS, 100, vec![trials.row(0)], 0));
    }
    let mut counting = Table::counting(&SCHEMA, 3, table.rows.to_vec(), 0, vec![7; 7]);
    counting.merge(&Table::counting(&SCHEMA, 3, Vec::new(), 2, vec![1; 6]));
    let class = |label: &str, n| Class { label: label.to_owned(), count: count(n) };
    vec![
        Reading::Count(count(numbers.iter().fold(0, |sum, n| sum ^ n))),
        Reading::Top(top),
        Reading::Classes { unit: Unit::Bytes, classes: vec![class("a", numbers.len() as u64), class("", 0)] },
        Reading::Histogram(histogram),
        Reading::Series(series),
        Reading::Distinct(distinct),
        Reading::Table(table),
        Reading::Table(counting),
        Reading::Table(scans),
    ]
}

/// A snapshot in which everything has a value.
fn snapshot(numbers: &[u64]) -> Snapshot {
    let mut snapshot = Snapshot {
        interval: Interval { start: 5, end: 1 << 60 },
        watched: Some(Interval { start: 1, end: 9 }),
        packets: None,
        offloaders: vec![ip(1), ip(3)],
        ..Snapshot::default()
    };
    snapshot.ledger.caught = numbers.len() as u64;
    snapshot.ledger.capture.dropped = 3;
    snapshot.ledger.errors.0[3][2] = 4;
    snapshot.flows.holes_shed = 5;
    snapshot.sessions.file_bytes_shed = 6;
    snapshot.costs.flows = 7;
    snapshot.answers = answers(numbers);
    let outline = answers(&[]).into_iter().rev().enumerate().map(|(at, answer)| (answer, at % 3 == 0));
    snapshot.outline = Arc::new(Outline::new(7, outline));
    // A snapshot without numbers is read as one of an earlier version, which has no judges.
    if !numbers.is_empty() {
        let calls = vec![FunctionCall::new("event").with("name", "x").with("above", 5)];
        let id = snapshot.answers[0].id;
        set_judges(&mut snapshot, &BTreeMap::from([(id, calls)]));
    }
    for n in numbers {
        let subject = match n % 6 {
            0 => Subject::Sensor,
            4 => Subject::Line { series: format!("s{}", n % 50).into(), expression: "tcp port 22".into() },
            5 => Subject::Called {
                source: ip(*n),
                target: ip(n / 3),
                protocol: 6,
                port: (n % 2 == 0).then_some(*n as u16),
            },
            3 => Subject::Key(format!("é{}", n % 50).into()),
            1 => Subject::Pair { source: ip(*n), target: ip(n / 3) },
            _ => Subject::Output(format!("ü{}", n % 50).into()),
        };
        let mut event = Event::at(EVENT_KINDS[*n as usize % EVENT_KINDS.len()], subject, *n)
            .with("flows", "flows", Folded::Sum(n % 100))
            .with("first", "time", Folded::Min(Some(*n)));
        event.origin = (n % 5 == 1).then(|| {
            Arc::new(Origin {
                subscription: format!("s{}", n % 3).into(),
                name: (n % 2 == 0).then(|| "found".into()),
                severity: (n % 7 == 0).then_some(crate::Severity::Notice),
                quiet: (n % 11 == 0).then_some(*n),
            })
        });
        event.identify();
        snapshot.add_events(&[event]);
    }
    (snapshot.event_count.begun, snapshot.event_count.muted) = (8, 3);
    for n in numbers {
        snapshot.senders.add(ip(*n), ip(n / 2), (n % 3) as u8, n % 5 < 3);
    }
    snapshot
}

fn answers(numbers: &[u64]) -> Vec<Answer> {
    let answer = |(at, reading): (u32, Reading)| Answer {
        id: AnswerId { subscription: SubscriptionId(at / 2), place: (at % 2) as u16 },
        label: Arc::new(AnswerLabel {
            subscription: format!("s{at}"),
            chart: (at % 2 == 0).then(|| "chart".to_owned()),
            function: "f".to_owned(),
            outputs: [None, Some(Vec::new()), Some(vec!["csv".to_owned(), "store".to_owned()])]
                [at as usize % 3]
                .clone(),
            ..AnswerLabel::default()
        }),
        reading,
        nanoseconds: at.into(),
    };
    (0..).zip(readings(numbers)).map(answer).collect()
}

#[test]
fn the_form_of_readings_does_not_change() {
    let count = Reading::Count(Count { packets: 300, bytes: 5 });
    assert_eq!(count.encode(), [b'W', b'R', 6, 0, 0xac, 2, 5]);
    for version in [1, 4, 5, 6] {
        assert_eq!(Reading::decode(&[b'W', b'R', version, 0, 0xac, 2, 5]).as_ref(), Ok(&count));
    }
    let mut histogram = Histogram::new("s", vec![0, 64]);
    histogram.add(70);
    let bytes = Reading::Histogram(histogram).encode();
    assert_eq!(bytes[..12], [b'W', b'R', 6, 3, 1, b's', 2, 0, 64, 2, 0, 1]);
}

#[test]
fn bytes_of_something_else_are_errors() {
    let bytes = Reading::Count(Count { packets: 1, bytes: 60 }).encode();
    let with = |at: usize, byte: u8| {
        let mut bytes = bytes.clone();
        bytes[at] = byte;
        Reading::decode(&bytes)
    };
    assert_eq!(with(0, b'X'), Err(DecodeError::Kind));
    assert_eq!(with(2, 7), Err(DecodeError::Version(7)));
    assert_eq!(with(2, 0), Err(DecodeError::Version(0)));
    assert_eq!(with(3, 99), Err(DecodeError::Invalid("shape")));
    assert_eq!(Snapshot::decode(&bytes), Err(DecodeError::Kind));
    assert_eq!(Reading::decode(&[bytes.clone(), vec![0]].concat()), Err(DecodeError::Further));
    // A list of 2^62 classes, and a count beyond all counts.
    let head = [b'W', b'R', 1, 2, 0];
    let huge = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x3f];
    assert_eq!(Reading::decode(&[&head[..], &huge].concat()), Err(DecodeError::Truncated));
    let count = [&[b'W', b'R', 1, 0][..], &[0xff; 9], &[1, 0]].concat();
    assert_eq!(Reading::decode(&count), Err(DecodeError::Invalid("count")));
    let mut one = Reading::Count(Count::default());
    let other = Reading::Series(Series::new(1)).encode();
    assert_eq!(one.merge_encoded(&other), Err(DecodeError::Unlike));
    assert_eq!(one, Reading::Count(Count::default()));
}

#[test]
fn answers_of_one_number_with_other_shapes_are_refused() {
    let mut one = Snapshot { answers: answers(&[1]), ..Snapshot::default() };
    let mut other = one.clone();
    other.answers[0].reading = Reading::Series(Series::new(1));
    let before = one.clone();
    assert_eq!(one.merge_encoded(&other.encode()), Err(DecodeError::Unlike));
    assert_eq!(one, before);
    other.answers.swap(0, 1);
    assert_eq!(Snapshot::decode(&other.encode()), Err(DecodeError::Invalid("order of answers")));
}

/// The parts of a snapshot that answers have since version 8: the states of flows after the counts of flows, and the identified
/// protocols, tunnels and packets without IP after the costs.
fn with_parts(snapshot: &Snapshot) -> Vec<u8> {
    let Snapshot { interval, watched, packets, ledger, flows, sessions, costs, .. } = snapshot;
    let mut start = b"WS\x07".to_vec();
    interval.write(&mut start);
    watched.write(&mut start);
    packets.write(&mut start);
    ledger.write(&mut start);
    flows.write(&mut start);
    let mut parts = start.clone();
    (1..=13_u64).for_each(|flows| (flows << 20).write(&mut parts));
    for bytes in [&mut start, &mut parts] {
        sessions.write(bytes);
        costs.write(bytes);
    }
    let shares = BTreeMap::from([(0_u8, 900_u64), (7, 1 << 40)]);
    BTreeMap::from([((6_u8, 443_u16), shares.clone())]).write(&mut parts);
    BTreeMap::from([(((6_u8, 443_u16), ip(1)), shares.clone()), (((17, 53), ip(2)), shares)])
        .write(&mut parts);
    // A tunnel with a network, one without, a frame of Wi-Fi, an EtherType, a type of Cisco's, a service access point.
    let count = [2, 120];
    let tunnels = [&[0, 5][..], b"VXLAN", &[1, 42], &count, &[0, 3], b"GRE", &[0], &count].concat();
    let frames = [&[1, 3][..], &count, &[2, 6], &count, &[3, 0x80, 64], &count, &[4, 66], &count].concat();
    parts.extend([&[6][..], &tunnels, &frames].concat());
    let form = snapshot.encode();
    // Without the number of muted events.
    parts.extend_from_slice(&form[start.len()..form.len() - 1]);
    parts
}

/// Before version 8 parts of a snapshot have what tables have now. Before version 6 there are no flows of late segments. Before version 5 no table counts what it leaves out. A snapshot of version 2 has no senders of checksums, and one of version
/// 1 no events.
#[test]
fn earlier_snapshots_are_read() {
    let mut snapshot = snapshot(&[]);
    snapshot.event_count = Default::default();
    let (tables, others): (Vec<Answer>, Vec<Answer>) =
        snapshot.answers.into_iter().partition(|answer| matches!(answer.reading, Reading::Table(_)));
    for Answer { reading, .. } in tables {
        let mut bytes = reading.encode();
        let Reading::Table(mut table) = reading else { continue };
        let shed = table.shed.take().map_or(1, |shed| shed.len() + 2);
        bytes[2] = 4;
        bytes.truncate(bytes.len() - shed);
        assert_eq!(Reading::decode(&bytes), Ok(Reading::Table(table)));
    }
    // They are in the outline too.
    let empty = others.iter().map(|answer| (Arc::new(answer.clone()), false));
    snapshot.outline = Arc::new(Outline::new(7, empty));
    snapshot.answers = others;
    assert_eq!(snapshot.encode()[2], 9);
    let mut bytes = with_parts(&snapshot);
    assert_eq!(Snapshot::decode(&bytes).as_ref(), Ok(&snapshot));
    bytes[2] = 6;
    // No origins, and no judges.
    bytes.truncate(bytes.len() - 2);
    assert_eq!(Snapshot::decode(&bytes).as_ref(), Ok(&snapshot));
    bytes[2] = 5;
    // Two counts of 0.
    bytes.truncate(bytes.len() - 2);
    assert_eq!(Snapshot::decode(&bytes).as_ref(), Ok(&snapshot));
    bytes[2] = 3;
    assert_eq!(Snapshot::decode(&bytes).as_ref(), Ok(&snapshot));
    bytes[2] = 2;
    // Four empty sets.
    bytes.truncate(bytes.len() - 4);
    assert_eq!(Snapshot::decode(&bytes).as_ref(), Ok(&snapshot));
    bytes[2] = 1;
    // No events, and four counts of 0.
    bytes.truncate(bytes.len() - 5);
    assert_eq!(Snapshot::decode(&bytes), Ok(snapshot));
}

/// In version 1, distinct values have no number of additions, and many ports are registers. What is added later has both.
#[test]
fn distinct_values_of_version_1_are_read_and_added_to() {
    let of = |ports: std::ops::Range<u128>| {
        let mut values = DistinctValues::default();
        ports.for_each(|port| {
            values.add(port);
        });
        values
    };
    let mut registers = Distinct::<u128>::default();
    (0..1_014).for_each(|port| registers.add(port));
    assert!(!registers.is_exact());
    let estimate = registers.estimate();
    let reading = |failed: DistinctValues, answered: DistinctValues| {
        let mut trials = Trials::new(Sweep::Ports { source: ip(1), target: ip(2) });
        (trials.failed, trials.answered) = (failed, answered);
        Reading::Table(Table::new(&SCANS, 9, vec![trials.row(0)], 0))
    };
    let (failed, answered) = (DistinctValues::from_parts(Seen::Values(registers), 0, 1_014), of(5..8));
    let mut bytes = reading(failed.clone(), answered.clone()).encode();
    bytes[2] = 1;
    // What is shed, which is not counted, is last.
    assert_eq!(bytes.pop(), Some(0));
    for values in [&failed, &answered] {
        let (mut all, mut added) = (Vec::new(), Vec::new());
        values.write(&mut all);
        values.parts().2.write(&mut added);
        let at = bytes.windows(all.len()).position(|window| window == all).unwrap();
        let end = at + all.len();
        bytes.drain(end - added.len()..end);
    }
    let trials = |reading: &Reading| {
        let Reading::Table(table) = reading else { panic!("another shape") };
        Trials::of(&table.rows[0]).unwrap()
    };
    let mut sum = Reading::decode(&bytes).unwrap();
    let before = trials(&sum);
    assert_eq!((before.failed.estimate(), before.failed.is_exact()), (estimate, false));
    assert_eq!((before.answered.values(), before.answered.is_exact()), (Some(vec![5, 6, 7]), true));
    // Ports that are counted exactly: some known, others new.
    sum.merge_encoded(&reading(of(714..1_314), of(7..400)).encode()).unwrap();
    let after = trials(&sum);
    let off = after.failed.estimate() as f64 / 1_314.0 - 1.0;
    assert!(off.abs() < 4.0 * Distinct::STANDARD_ERROR, "{}", after.failed.estimate());
    assert_eq!((after.answered.estimate(), after.answered.is_exact()), (395, true));
    assert_eq!(Reading::decode(&sum.encode()), Ok(sum));
}

#[test]
fn every_beginning_of_a_snapshot_is_an_error() {
    let snapshot = snapshot(&[1, 2, 3, 70, 71]);
    let bytes = snapshot.encode();
    assert_eq!(Snapshot::decode(&bytes).as_ref(), Ok(&snapshot));
    for end in 0..bytes.len() {
        assert!(Snapshot::decode(&bytes[..end]).is_err(), "{end} of {} bytes", bytes.len());
    }
}

fn numbers() -> impl Strategy<Value = Vec<u64>> {
    let number = prop_oneof![0..100_u64, any::<u64>(), (0..1_u64 << 52).prop_map(|n| n << 11)];
    prop::collection::vec(number, 0..700)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn decoding_gives_what_was_encoded(numbers in numbers()) {
        for reading in readings(&numbers) {
            prop_assert_eq!(Reading::decode(&reading.encode()), Ok(reading));
        }
        let snapshot = snapshot(&numbers);
        prop_assert_eq!(Snapshot::decode(&snapshot.encode()), Ok(snapshot));
    }

    #[test]
    fn merging_bytes_is_merging(some in numbers(), others in numbers()) {
        for (mut one, other) in readings(&some).into_iter().zip(readings(&others)) {
            let mut sum = one.clone();
            sum.merge(&other);
            let encoded = one.encode();
            prop_assert_eq!(one.merge_encoded(&other.encode()), Ok(()));
            prop_assert_eq!(&one, &sum);
            // The decoded one has its columns by value.
            let mut one = Reading::decode(&encoded).unwrap();
            one.merge(&other);
            prop_assert_eq!(&one, &sum);
        }
        let (mut one, other) = (snapshot(&some), snapshot(&others));
        let mut sum = one.clone();
        sum.merge(&other);
        prop_assert_eq!(one.merge_encoded(&other.encode()), Ok(()));
        prop_assert_eq!(one, sum);
    }

    /// What changed bytes decode to is encoded as it is, and can be merged and shown.
    #[test]
    fn changed_bytes_are_an_error_or_a_valid_reading(
        numbers in prop::collection::vec(0..300_u64, 0..12), changes in prop::collection::vec((any::<u16>(), any::<u8>()), 1..4)
    ) {
        for reading in readings(&numbers) {
            let mut bytes = reading.encode();
            for (at, byte) in &changes {
                let at = 3 + usize::from(*at) % (bytes.len() - 3);
                bytes[at] = *byte;
            }
            let Ok(mut read) = Reading::decode(&bytes) else { continue };
            prop_assert_eq!(Reading::decode(&read.encode()).map(|again| again.encode()), Ok(read.encode()));
            read.cells();
            read.figures(&mut |_| ());
            if read.is_like(&reading) {
                read.merge(&reading);
            }
        }
    }
}
