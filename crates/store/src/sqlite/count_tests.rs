//! Tests of counts over the records of the conversations in testdata: by fields, by parts of a time, and in little memory.

use super::field_tests::{BEGIN, S, Written, leaves, test_of, write_all};
use super::own_tests::{store, writer};
use super::*;
use crate::fixtures;
use crate::loan::tests::Purse;
use crate::query::{Asking, Question};
use crate::tally::Sums;
use serde_json::Value;
use std::collections::BTreeSet;
use weir_engine::FlowRecord;
use weir_output::Output;
use weir_proto::Record;
use weir_wire::Time;

const DAY: u64 = 86_400 * S;

/// Every field of every table that has values: counted by the store, and by adding up what was written.
#[test]
fn counts_by_every_field_are_those_of_the_records() {
    let folder = tempfile::tempdir().unwrap();
    let written = write_all(folder.path());
    let store = store(folder.path());
    /// Number of records and the flows of each value.
    type Values = BTreeMap<String, (u64, HashSet<u64>)>;
    let mut truth: BTreeMap<(&str, String), Values> = BTreeMap::new();
    for one in &written {
        for (table, _, values) in &one.records {
            for (name, value) in values {
                let mut texts: Vec<String> = leaves(Some(value))
                    .iter()
                    .map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned))
                    .collect();
                texts.sort();
                texts.dedup();
                for text in texts {
                    let (records, flows) =
                        truth.entry((table, name.clone())).or_default().entry(text).or_default();
                    *records += 1;
                    flows.insert(one.flow.id);
                }
            }
        }
    }
    assert!(truth.len() > 200, "{}", truth.len());
    for ((table, name), values) in &truth {
        let question =
            Question::parse(&format!("count {table} by {table}.{name} limit 10000"), &Asking::default());
        let answer = question.unwrap_or_else(|error| panic!("{table}.{name}: {error}")).ask(&store).unwrap();
        assert_eq!(answer.partial, None);
        let mut found = BTreeMap::new();
        for row in &answer.rows {
            let key = match &row[0] {
                Value::Null => continue,
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            found.insert(key, (row[1].as_u64().unwrap(), row[2].as_u64().unwrap()));
        }
        let wanted: BTreeMap<String, (u64, u64)> = values
            .iter()
            .map(|(text, (records, flows))| (text.clone(), (*records, flows.len() as u64)))
            .collect();
        assert_eq!(found, wanted, "{table}.{name}");
    }
}

/// Senders, receivers, clients and servers are four lists, by the two directions of each flow; with an expression that holds
/// for all flows they are the same.
#[test]
fn four_lists_of_hosts_are_of_the_directions_of_flows() {
    let folder = tempfile::tempdir().unwrap();
    let written = write_all(folder.path());
    let store = store(folder.path());
    let mut truth: [BTreeMap<String, Sums>; 5] = Default::default();
    for Written { flow, .. } in &written {
        let (client, server) =
            (weir_output::row::ip(flow.initiator().0), weir_output::row::ip(flow.responder().0));
        let (sent, received) = (
            fixtures::count(flow.forward.packets, flow.forward.frame_bytes),
            fixtures::count(flow.reverse.packets, flow.reverse.frame_bytes),
        );
        let mut both = sent;
        both.add(&received);
        for (list, host, count, flows) in [
            // A flow is one of the sender that began it, and of the receiver that was spoken to.
            (0, client, sent, 1),
            (0, server, received, 0),
            (1, server, sent, 1),
            (1, client, received, 0),
            (2, client, both, 1),
            (3, server, both, 1),
            (4, client, both, 1),
            (4, server, both, 1),
        ] {
            truth[list].entry(host.to_string()).or_default().add(&Sums {
                rows: flows,
                flows,
                count,
                ..Sums::default()
            });
        }
    }
    for (list, by) in truth.iter().zip([
        GroupBy::Sender,
        GroupBy::Receiver,
        GroupBy::Client,
        GroupBy::Server,
        GroupBy::Host,
    ]) {
        for text in ["", "ip or ip6", "flow.packets > 0"] {
            let top = store
                .group(by, &test_of(text), TimeRange::default(), RankBy::Unit(Unit::Bytes), 100, 4)
                .unwrap();
            assert!(top.basis.bound == Some(0) && top.crossing.is_none());
            let found: BTreeMap<String, (u64, u64, u64)> =
                top.rows.iter().map(|row| (row.label.clone(), (row.bytes, row.packets, row.flows))).collect();
            let wanted: BTreeMap<String, (u64, u64, u64)> = list
                .iter()
                .map(|(host, sums)| (host.clone(), (sums.count.bytes, sums.count.packets, sums.flows)))
                .collect();
            assert_eq!(found, wanted, "{by:?} where {text}");
            for row in &top.rows {
                assert_eq!(row.spark.as_ref().unwrap().iter().sum::<u64>(), row.bytes, "{by:?}: {row:?}");
            }
        }
    }
}

/// Lists of flows show what kept lists do: a port of protocols that have ports, and of others none.
#[test]
fn protocols_without_ports_have_none_in_lists_of_flows() {
    let folder = tempfile::tempdir().unwrap();
    let mut to = writer(folder.path());
    let protocols = [1_u8, 2, 6, 17, 33, 47, 50, 58, 89, 132, 136, 255];
    for protocol in protocols {
        for port in [41_017, 41_018] {
            let mut flow = fixtures::flow();
            (flow.key.proto, flow.key.port) = (protocol, [port; 2]);
            flow.id = u64::from(protocol) << 16 | u64::from(port);
            to.flow(&flow).unwrap();
        }
    }
    to.finish().unwrap();
    let store = store(folder.path());
    for by in [GroupBy::Service, GroupBy::Talker, GroupBy::Flow] {
        let wanted = TallyWanted {
            subject: Subject::Flows,
            by: vec![Dimension::Key(by)],
            measure: Measure::Bytes,
            test: FlowTest::All(Vec::new()),
            span: TimeRange::default(),
            limit: 100,
            steps: 0,
            grid: None,
            values: None,
        };
        let mut found: BTreeMap<u8, BTreeSet<u16>> = BTreeMap::new();
        for row in store.tally(&wanted).unwrap().rows {
            let [Cell::Key(key)] = row.cells.as_slice() else { panic!("{row:?}") };
            let (protocol, port) = match *key {
                Key::Port { protocol, port } | Key::Talker { protocol, port, .. } => (protocol, port),
                Key::Flow { protocol, source_port, destination_port, .. } => {
                    assert_eq!(source_port, destination_port, "{key:?}");
                    (protocol, destination_port)
                }
                _ => panic!("{key:?}"),
            };
            found.entry(protocol).or_default().insert(port);
        }
        for protocol in protocols {
            let has_ports = [6, 17, 33, 132, 136].contains(&protocol);
            let expected = if has_ports { BTreeSet::from([41_017, 41_018]) } else { BTreeSet::from([0]) };
            assert_eq!(found.get(&protocol), Some(&expected), "{by:?} of protocol {protocol}");
        }
    }
}

/// The sums over the parts of a range are the sums of the range, for any number of parts.
#[test]
fn parts_of_a_time_come_to_the_whole() {
    let folder = tempfile::tempdir().unwrap();
    let written = write_all(folder.path());
    let store = store(folder.path());
    let (first, last) = (BEGIN, written.iter().map(|one| one.flow.last.0).max().unwrap() + 1);
    let ask = |by: Vec<Dimension>, span: TimeRange, steps: usize, limit: usize| {
        let wanted = TallyWanted {
            subject: Subject::Flows,
            by,
            measure: Measure::Bytes,
            test: FlowTest::All(Vec::new()),
            span,
            limit,
            steps,
            grid: None,
            values: None,
        };
        store.tally(&wanted).unwrap()
    };
    let whole = ask(Vec::new(), TimeRange::default(), 0, 10).total;
    for parts in [1, 2, 7, 100] {
        let mut sum = Sums::default();
        let length = (last - first).div_ceil(parts);
        for at in 0..parts {
            let span = TimeRange { from: Some(first + at * length), to: Some(first + (at + 1) * length) };
            let tally = ask(vec![Dimension::Key(GroupBy::Service)], span, 0, 3);
            sum.add(&tally.total);
            let mut rows = tally.other;
            tally.rows.iter().for_each(|row| rows.add(&row.sums));
            assert_eq!(rows.count, tally.total.count, "rows and others are all");
            if let Some(crossing) = tally.crossing {
                assert!(crossing.counted.bytes <= crossing.whole.bytes && crossing.flows > 0);
            }
        }
        assert_eq!(sum.count, whole.count, "{parts} parts");
        let span = TimeRange { from: Some(first), to: Some(last) };
        let over = ask(vec![Dimension::Key(GroupBy::Service)], span, parts as usize, 3);
        let sum: f64 = over.rows.iter().flat_map(|row| &row.over).chain(&over.other_over).sum();
        assert_eq!(sum, whole.count.bytes as f64, "over {parts} parts");
    }
}

/// Parts of a length begin at its multiples, have that length, and add up to everything.
#[test]
fn parts_of_a_length_begin_at_its_multiples() {
    let folder = tempfile::tempdir().unwrap();
    let written = write_all(folder.path());
    let store = store(folder.path());
    let count = |flow: &FlowRecord| flow.forward.frame_bytes + flow.reverse.frame_bytes;
    let truth: u64 = written.iter().map(|one| count(&one.flow)).sum();
    for every in ["7s", "1m", "1h", "1d"] {
        let text = format!("top service every {every} limit 3");
        let answer = Question::parse(&text, &Asking::default()).unwrap().ask(&store).unwrap();
        let numbers = answer.rows.iter().flat_map(|row| row.iter().skip(1)).filter_map(Value::as_u64);
        assert_eq!(numbers.sum::<u64>(), truth, "{text}");
        let times: Vec<u64> = answer
            .rows
            .iter()
            .map(|row| row[0].as_str().unwrap().parse::<jiff::Timestamp>().unwrap().as_second() as u64)
            .collect();
        let length = crate::moment::length(every).unwrap();
        assert!(times.iter().all(|time| time % length == 0), "{times:?}");
        assert!(times.windows(2).all(|pair| pair[1] - pair[0] == length), "{times:?}");
    }
}

/// The time that questions over 30 days of 200,000 flows and a million records take: printed, not asserted.
#[test]
#[ignore = "writes a store of half a gigabyte; --nocapture prints its figures"]
fn a_month_is_counted() {
    let folder = tempfile::tempdir().unwrap();
    let dns = weir_proto::tables().find(|table| table.name == "dns").unwrap();
    let http = weir_proto::tables().find(|table| table.name == "http").unwrap();
    let tls = weir_proto::tables().find(|table| table.name == "tls").unwrap();
    let mut to = writer(folder.path());
    let (flows, each) = (200_000_u64, 5);
    let begun = std::time::Instant::now();
    for at in 0..flows {
        let mut flow = fixtures::flow();
        let first = BEGIN + at * (30 * DAY / flows);
        flow.key.addr = [
            weir_wire::mapped([10, 0, (at % 40) as u8, (at % 250) as u8]),
            weir_wire::mapped([192, 0, 2, (at % 97) as u8]),
        ];
        flow.key.port = [40_000, [443, 80, 53][(at % 3) as usize]];
        (flow.first, flow.last) = (Time(first), Time(first + (at % 200) * S));
        let identity = weir_output::FlowIdentity {
            key: flow.key,
            initiator_is_lower: true,
            first: flow.first,
            vlan: [0; 2],
            alias: 0,
        };
        flow.id = identity.id();
        for nth in 0..each {
            let table = [tls, http, dns][(at % 3) as usize];
            let name = format!("host{}.example{}.org", (at * 7 + nth) % 5000, at % 50);
            let mut record =
                Record::new(table, Time(first + nth * S), vec![weir_proto::Value::None; table.fields.len()]);
            for (field, value) in [
                ("query", weir_proto::Value::from(name.clone())),
                ("rcode_name", ["NOERROR", "NXDOMAIN"][(at % 2) as usize].into()),
                ("type_name", "A".into()),
                ("rtt", weir_proto::Value::Duration(at * 1000)),
                ("answers", weir_proto::Value::list(["192.0.2.1", "192.0.2.2"])),
                ("host", name.clone().into()),
                ("uri", format!("/path/to/a/page?number={at}&more=of%20it").into()),
                ("method", "GET".into()),
                (
                    "user_agent",
                    "Mozilla/5.0 (X11; Linux x86_64; rv:120.0) Gecko/20100101 Firefox/120.0".into(),
                ),
                ("status_code", [200_u64, 200, 404, 500][(at % 4) as usize].into()),
                ("server_name", name.clone().into()),
                ("version", "TLSv13".into()),
                ("cipher", "TLS_AES_256_GCM_SHA384".into()),
                ("ja4", "t13d1516h2_8daaf6152771_02713d6af862".into()),
                ("duration", weir_proto::Value::Duration(at * 100)),
            ] {
                record.set(field, value);
            }
            to.record(&identity, &record).unwrap();
        }
        to.flow(&flow).unwrap();
    }
    to.finish().unwrap();
    let bytes: u64 = schema::partitions(folder.path()).iter().map(|(_, path)| schema::size(path)).sum();
    println!(
        "{flows} flows and {} records in {} partitions, {} bytes, written in {:?}",
        flows * each,
        schema::partitions(folder.path()).len(),
        bytes,
        begun.elapsed()
    );
    let store = store(folder.path());
    for text in [
        "top client",
        "top sender where ip",
        "top service points 30",
        "count flows by state",
        "top tls.server_name by flows where net 10.0.7.0/24",
        "top tls.server_name by flows",
        "top tls.server_name by bytes",
        "count http by status_code, host",
        "top dns.query where dns.rcode_name = NXDOMAIN",
        "top dns.query points 30",
        "top dns.query compare 1w since 7d",
        "quantiles dns.rtt by server",
        "quantiles flow.duration by server",
        "flows order -bytes where http.status_code >= 500",
        "count where dns.query under example7.org and flow.bytes > 1k",
        "records http where http.uri ~ \"number=1999.$\"",
    ] {
        let answer = (0..2)
            .map(|_| Question::parse(text, &Asking::default()).unwrap().ask(&store).unwrap())
            .min_by(|a, b| a.milliseconds.total_cmp(&b.milliseconds))
            .unwrap();
        println!(
            "{:8.0} ms  {} rows  {text}  {}",
            answer.milliseconds,
            answer.rows.len(),
            answer.partial.unwrap_or_default()
        );
    }
    let begun = std::time::Instant::now();
    let paths = crate::paths::of(&store, &FlowTest::All(Vec::new()), TimeRange::default(), 12).unwrap();
    println!("{:8.0} ms  {} links  paths", begun.elapsed().as_secs_f64() * 1e3, paths.links.len());
}

/// Distinct values are counted once for each group and once in all, whatever the number of rows that have them.
#[test]
fn distinct_values_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let written = write_all(folder.path());
    let store = store(folder.path());
    let ask = |text: &str| Question::parse(text, &Asking::default()).unwrap().ask(&store).unwrap();
    let label = |(address, _): ([u8; 16], u16)| std::net::Ipv6Addr::from(address).to_canonical().to_string();
    let mut services: BTreeMap<String, BTreeSet<(u8, u16)>> = BTreeMap::new();
    let mut types: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for one in &written {
        let service = (one.flow.key.proto, one.flow.responder().1);
        services.entry(label(one.flow.initiator())).or_default().insert(service);
        for (_, _, body) in one.records.iter().filter(|(table, ..)| *table == "dns") {
            let text = |name: &str| body.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
            types.entry(text("query")).or_default().extend(body.get("type_name").map(|_| text("type_name")));
        }
    }
    let found = |text: &str| -> (BTreeMap<String, u64>, Option<u64>) {
        let answer = ask(text);
        let of =
            |row: &Vec<Value>| (row[0].as_str().unwrap_or_default().to_owned(), row[1].as_u64().unwrap());
        (answer.rows.iter().map(of).collect(), answer.total.unwrap()[1].as_u64())
    };
    let (clients, all) = found("top client by distinct service limit 10000");
    assert_eq!(clients, services.iter().map(|(client, set)| (client.clone(), set.len() as u64)).collect());
    assert_eq!(all, Some(services.values().flatten().collect::<BTreeSet<_>>().len() as u64));
    let (queries, all) = found("top dns.query by distinct dns.qtype_name limit 10000");
    assert!(queries.len() > 10, "{queries:?}");
    assert_eq!(queries, types.iter().map(|(query, set)| (query.clone(), set.len() as u64)).collect());
    assert_eq!(all, Some(types.values().flatten().collect::<BTreeSet<_>>().len() as u64));
    // Values of groups without a row may be those of others: their number is not known.
    let few = ask("top dns.query by distinct dns.qtype_name limit 1");
    assert_eq!(few.rows.len(), 1);
    assert!(few.other.unwrap()[1].is_null());
}

/// A field with half a million values is counted within its bound, which is stated. A heavy one that comes last is first.
#[test]
fn many_values_are_bounded() {
    let folder = tempfile::tempdir().unwrap();
    let written = write_all(folder.path());
    let path = schema::partitions(folder.path()).pop().unwrap().1;
    let rows = Connection::open(path).unwrap();
    let heavy = tally::MAX_GROUPS + 2000;
    rows.execute_batch(&format!(
        "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {})
         INSERT INTO records (tbl, uid, time, proto, src, sport, dst, dport, vlan, body)
         SELECT 'telnet', i % 1000, {}, 6, zeroblob(16), 1, zeroblob(16), 2, 0, json_object('user', CASE WHEN i > {heavy} AND i % 4 = 0 THEN 'heavy' ELSE 'u' || i END) FROM n",
        tally::MAX_GROUPS + 22_000,
        written[0].flow.last.0,
    ))
    .unwrap();
    drop(rows);
    let store = SqliteStore { patience: Duration::from_secs(600), ..store(folder.path()) };
    let field = weir_filter::fields::FieldInfo {
        table: "telnet",
        name: "user",
        kind: weir_filter::fields::FieldKind::Text,
        place: 0,
    };
    let wanted = TallyWanted {
        subject: Subject::Records("telnet"),
        by: vec![Dimension::Field(field)],
        measure: Measure::Rows,
        test: FlowTest::All(Vec::new()),
        span: TimeRange::default(),
        limit: 5,
        steps: 0,
        grid: None,
        values: None,
    };
    let tally = store.tally(&wanted).unwrap();
    let partial = tally.partial.as_ref().unwrap();
    assert!(partial.contains("different values") && partial.contains("a row may lack up to"), "{partial}");
    let is_first = |tally: &crate::tally::Tally| {
        let row = &tally.rows[0];
        let truth = 5000.0;
        let counted = row.sums.of(Measure::Rows);
        assert_eq!(row.cells, [Cell::Text("heavy".to_owned())]);
        assert!(counted <= truth && truth <= counted + row.missing, "{row:?}");
        assert!(tally.lost.unwrap() <= 100.0 && tally.missing() <= 100.0, "{:?}", tally.lost);
    };
    is_first(&tally);
    let shown: u64 = tally.rows.iter().map(|row| row.sums.rows).sum();
    assert_eq!(shown + tally.other.rows, tally.total.rows);
    assert!(tally.total.rows > tally::MAX_GROUPS as u64);
    // With less memory than that.
    let all = 8 << 20;
    let purse = Arc::new(Purse(Mutex::new(all)));
    let store = store.within(purse.clone());
    let little = store.tally(&wanted).unwrap();
    assert!(little.partial.as_ref().unwrap().contains("--memory"));
    is_first(&little);
    assert!(little.groups > 1000 && little.groups < tally::MAX_GROUPS as u64, "{}", little.groups);
    assert_eq!(little.total.rows, tally.total.rows);
    assert_eq!(little.rows.len(), 5);
    assert_eq!(
        little.rows.iter().map(|row| row.sums.rows).sum::<u64>() + little.other.rows,
        little.total.rows
    );
    assert!(*purse.0.lock().unwrap() < all);
    drop(little);
    assert_eq!(*purse.0.lock().unwrap(), all);
    // As an answer: its errors and its bound are in the unit of the ranking.
    let question = Question::parse("top telnet.user limit 5", &Asking::default()).unwrap();
    let answer = question.ask(&store).unwrap();
    let error = answer.columns.iter().position(|column| column.name == "error").unwrap();
    assert_eq!(answer.columns[error].unit, "records");
    let missing = answer.rows[0][error].as_u64().unwrap();
    let counted = answer.rows[0][1].as_u64().unwrap();
    assert!(counted <= 5000 && 5000 <= counted + missing && missing <= 100, "{:?}", answer.rows);
    assert!(answer.basis.as_ref().unwrap().bound.unwrap() >= missing && answer.other.is_some());
    assert!(answer.partial.unwrap().contains(" records, and a row may lack up to "));
}

/// The bytes of flows take half of the memory at most, so that the values of records that are ranked by them have theirs.
#[test]
fn bytes_of_flows_leave_memory_for_values() {
    const FLOWS: i64 = 20_000;
    let folder = tempfile::tempdir().unwrap();
    let written = write_all(folder.path());
    let path = schema::partitions(folder.path()).pop().unwrap().1;
    let rows = Connection::open(path).unwrap();
    rows.execute_batch("BEGIN; CREATE TEMP TABLE one AS SELECT * FROM flows LIMIT 1;").unwrap();
    for uid in 1_000_000_i64..1_000_000 + FLOWS {
        rows.execute("UPDATE one SET uid = ?1, id = ?1", [uid]).unwrap();
        rows.execute("INSERT INTO flows SELECT * FROM one", []).unwrap();
        rows.execute(
            "INSERT INTO records (tbl, uid, time, proto, src, sport, dst, dport, vlan, body)
             VALUES ('telnet', ?1, ?2, 6, zeroblob(16), 1, zeroblob(16), 2, 0, json_object('user', 'u' || (?1 % 40)))",
            [uid, written[0].flow.last.0 as i64],
        )
        .unwrap();
    }
    rows.execute_batch("COMMIT").unwrap();
    drop(rows);
    let purse = Arc::new(Purse(Mutex::new(2 << 20)));
    let store = store(folder.path()).within(purse.clone());
    let question = Question::parse("top telnet.user by bytes limit 50", &Asking::default()).unwrap();
    let answer = question.ask(&store).unwrap();
    let partial = answer.partial.unwrap();
    assert!(answer.rows.len() >= 20, "{} rows: {partial}", answer.rows.len());
    assert!(partial.starts_with("bytes are known only of the first "), "{partial}");
    drop(store);
    assert_eq!(*purse.0.lock().unwrap(), 2 << 20);
}

/// With any memory the sums of all rows are right, and an answer that leaves something out says so.
#[test]
fn tallies_within_little_memory_keep_their_sums() {
    let folder = tempfile::tempdir().unwrap();
    write_all(folder.path());
    let host = Dimension::Key(GroupBy::Host);
    let service = Dimension::Key(GroupBy::Service);
    let plain = TallyWanted {
        subject: Subject::Flows,
        by: vec![host],
        measure: Measure::Bytes,
        test: FlowTest::All(Vec::new()),
        span: TimeRange::default(),
        limit: 1000,
        steps: 0,
        grid: None,
        values: None,
    };
    let (mut cut, mut whole) = (0, 0);
    for subject in [Subject::Flows, Subject::Records("dns")] {
        for measure in [Measure::Rows, Measure::Flows, Measure::Bytes, Measure::Distinct(service)] {
            for steps in [0, 50] {
                let wanted = TallyWanted { subject, measure, steps, ..plain.clone() };
                let full = store(folder.path()).tally(&wanted).unwrap();
                for pieces in [0, 1, 2, 64] {
                    let purse = Arc::new(Purse(Mutex::new(pieces << 16)));
                    let found = store(folder.path()).within(purse.clone()).tally(&wanted).unwrap();
                    let text = format!("{wanted:?}, {pieces} pieces");
                    let rows: u64 = found.rows.iter().map(|row| row.sums.rows).sum();
                    assert_eq!(rows + found.other.rows, full.listed.rows, "{text}");
                    assert_eq!(found.total.rows, full.total.rows, "{text}");
                    if found.partial.is_none() {
                        assert_eq!(found.total, full.total, "{text}");
                        assert_eq!(
                            (found.rows.len(), found.groups),
                            (full.rows.len(), full.groups),
                            "{text}"
                        );
                        whole += 1;
                    } else {
                        cut += 1;
                    }
                    drop(found);
                    assert_eq!(*purse.0.lock().unwrap(), pieces << 16, "{text}");
                }
            }
        }
    }
    assert!(cut >= 16 && whole >= 16, "{cut} and {whole}");
}
