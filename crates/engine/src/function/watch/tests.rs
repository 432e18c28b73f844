use super::super::scans::tests::flow;
use super::*;
use crate::ConnState;
use weir_filter::{Directions, FlowEndpoints};
use weir_proto::Record;
use weir_wire::Time;
use weir_wire::mapped;

/// A function with a list of these lines.
fn watch(lines: &str) -> Watch {
    let mut list = List::new(1);
    list.add("bad.txt", None, lines.as_bytes()).unwrap();
    let call = FunctionCall::new("watch").with("file", "bad.txt");
    let asked = arguments(&call, 1_u64.into()).unwrap();
    Watch::new(&Asked::of(&asked).unwrap(), Arc::new(list), 1_u64.into())
}

/// The subject, the line and the count of each event of what was shown.
fn events(watch: &mut Watch) -> Vec<(String, u64, u64)> {
    let call = FunctionCall::new("watch").with("file", "bad.txt");
    let mut judge = super::super::judge_of(&call, 1).unwrap();
    assert_eq!(&*judge.named().unwrap().name, "watched");
    let interval = Interval { start: 0, end: 100 };
    let found = judge.judge(&watch.take(), interval, interval, &|_| false);
    let event = |event: &Event| (event.subject.to_string(), event.number("line").unwrap(), event.count);
    let mut found: Vec<_> = found.iter().map(event).collect();
    found.sort_unstable();
    found
}

#[test]
fn flows_of_watched_hosts_pass_and_are_counted() {
    let mut watch = watch("10.0.1.7\n10.0.0.0/24\n");
    let mut show = |source, target| {
        watch.passes(&Item::FlowEnd(&flow(source, target, 80, ConnState::SF), Directions::BOTH))
    };
    assert!(show(1, 7) && show(1, 7) && show(2, 9));
    let mut other = flow(1, 7, 80, ConnState::SF);
    other.key.addr = [mapped([192, 0, 2, 1]), mapped([192, 0, 2, 2])];
    assert!(!watch.passes(&Item::FlowEnd(&other, Directions::BOTH)));
    let expected = [
        ("10.0.0.1 -> 10.0.1.7 10.0.0.0/24 of bad.txt", 2, 2),
        ("10.0.0.1 -> 10.0.1.7 10.0.1.7 of bad.txt", 1, 2),
        ("10.0.0.2 -> 10.0.1.9 10.0.0.0/24 of bad.txt", 2, 1),
    ];
    assert_eq!(events(&mut watch), expected.map(|(text, line, count)| (text.to_owned(), line, count)));
}

/// Whether a record of a table passes with this value of a field.
fn passes(watch: &mut Watch, table: &str, field: &str, value: Value<'static>) -> bool {
    let table = weir_proto::tables().find(|known| known.name == table).unwrap();
    let mut record = Record::new(table, Time(5), vec![Value::None; table.fields.len()]);
    record.set(field, value);
    let address = [mapped([192, 0, 2, 1]), mapped([192, 0, 2, 2])];
    let endpoints = FlowEndpoints { address, port: [1, 2], protocol: 17, vlan: 0 };
    watch.passes(&Item::Record(&RecordView { endpoints, record: &record }))
}

#[test]
fn records_with_watched_names_and_addresses_pass() {
    let mut watch = watch("evil.example\n198.51.100.0/24\n2001:db8::1\n");
    let text = |text: &'static str| Value::Text(text.as_bytes().into());
    for (table, field, value) in [
        ("dns", "query", text("www.EVIL.example")),
        ("dns", "answers", Value::List(vec![text("a.example"), text("b.evil.example")])),
        ("dns", "answers", Value::List(vec![text("198.51.100.7")])),
        ("http", "host", text("evil.example:8080")),
        ("http", "host", text("198.51.100.7:80")),
        ("http", "host", text("[2001:db8::1]:80")),
        ("http", "host", text("2001:db8::1")),
        ("tls", "server_name", text("evil.example")),
    ] {
        assert!(passes(&mut watch, table, field, value.clone()), "{table}.{field} {value:?}");
    }
    for (table, field, value) in [
        ("dns", "query", text("notevil.example")),
        ("http", "host", text("198.51.101.7:80")),
        ("http", "user_agent", text("evil.example")),
        ("http", "host", text("")),
        ("http", "host", text("[]")),
    ] {
        assert!(!passes(&mut watch, table, field, value.clone()), "{table}.{field} {value:?}");
    }
    let rows = Value::Rows(vec![vec![
        text("a.example"),
        text("CNAME"),
        Value::None,
        Value::Address("198.51.100.1".parse().unwrap()),
        text("evil.example"),
        Value::None,
    ]]);
    assert!(passes(&mut watch, "dns", "records", rows));
    let found = events(&mut watch);
    let pair = "192.0.2.1 -> 192.0.2.2";
    assert_eq!(found.len(), 3);
    assert_eq!(found[2], (format!("{pair} evil.example of bad.txt"), 1, 5));
}

#[test]
fn a_record_is_one_hit_of_an_entry_and_of_a_bounded_number_of_entries() {
    let lines: String = (0..100).map(|n| format!("n{n}.example\n")).collect();
    let mut watch = watch(&lines);
    let names =
        (0..100).flat_map(|n| [n, n]).map(|n| Value::Text(format!("n{n}.example").into_bytes().into()));
    assert!(passes(&mut watch, "dns", "answers", Value::List(names.collect())));
    let found = events(&mut watch);
    assert_eq!(found.len(), MAX_HITS);
    assert!(found.iter().all(|(_, _, count)| *count == 1));
}

#[test]
fn wrong_calls_are_named() {
    let error = |call: FunctionCall| {
        let options = Options::default();
        list_of(&call, &options, 1_u64.into()).unwrap_err()
    };
    let call = || FunctionCall::new("watch");
    assert!(error(call()).contains("needs the argument `file`"));
    assert!(error(call().with("file", "a,,b")).contains("empty path"));
    assert!(error(call().with("file", "a").with("name", "a b")).contains("letters"));
    assert!(error(call().with("file", "a").with("rows", 3)).contains("16"));
    assert!(error(call().with("file", "a")).contains("no file can be read"));
    assert!(list_of(&FunctionCall::new("event"), &Options::default(), 1_u64.into()).unwrap().is_none());
}
