use super::answer::quantile;
use super::*;
use std::borrow::Cow;
use weir_api::{Cell, Fold, Folded, Reading, Schema, Shown, Sketch, Table, TableColumn, TableRow, Unit};
use weir_output::model::{Described, Values};
use weir_output::zone::Zone;

const SECOND: u64 = 1_000_000_000;
/// 2026-03-30T13:30:00Z.
const NOW: u64 = 1_774_877_400 * SECOND;
const DAY: u64 = 86_400 * SECOND;

fn asking() -> Asking<'static> {
    Asking { moments: Moments { zone: Zone::utc(), now: NOW }, ..Asking::default() }
}

fn parse(text: &str) -> Result<Question, QueryError> {
    Question::parse(text, &asking())
}

fn counting(question: &Question) -> &Counting {
    match &question.matter {
        Matter::Count(counting) | Matter::Quantiles(counting, _) => counting,
        other => panic!("{other:?}"),
    }
}

#[test]
fn names_of_lists_and_series_can_have_several_words() {
    let name = |text: &str| match parse(text).unwrap_or_else(|error| panic!("{text}: {error}")).matter {
        Matter::List(name, _) | Matter::Series(name) | Matter::SeriesQuantiles(name) => name,
        other => panic!("{other:?}"),
    };
    assert_eq!(name("list failed names since 1h"), "failed names");
    assert_eq!(name("list \"sent by host\" by bytes limit 3"), "sent by host");
    assert_eq!(name("series failed names/distinct points 9"), "failed names/distinct");
    assert_eq!(name("quantiles series ledger/bytes"), "ledger/bytes");
    assert_eq!(name("{\"list\": \"failed names\", \"since\": \"1h\"}"), "failed names");
    assert!(parse("list").is_err());
}

#[test]
fn queries_are_parsed() {
    let question = parse("top client by bytes since 24h where dst net 10.0.0.0/8").unwrap();
    let of = counting(&question);
    assert_eq!((of.subject, of.by.as_slice()), (Subject::Flows, &[Dimension::Key(GroupBy::Client)][..]));
    assert_eq!((of.measure, of.list), (Measure::Bytes, None));
    assert_eq!(question.span, TimeRange { from: Some(NOW - DAY), to: None });
    assert!(question.test.is_some());
    let march = parse("top services in 2026-03 limit 5").unwrap();
    assert_eq!(counting(&march).list, Some(("services", GroupBy::Service)));
    let span = march.span;
    assert_eq!((span.from, span.to), (Some(1_772_323_200 * SECOND), Some(1_775_001_600 * SECOND)));
    assert_eq!(march.limit, 5);
    let flows = parse("flows order by -bytes since 2026-03-01T12:00:00Z until 1h").unwrap();
    assert_eq!(flows.order, Some((FlowOrder::Bytes, true)));
    assert_eq!(flows.span, TimeRange { from: Some(1_772_366_400 * SECOND), to: Some(NOW - 3600 * SECOND) });
    let minute = parse("top host at today 12:05 where tcp").unwrap();
    let begin = 1_774_828_800 * SECOND + (12 * 60 + 5) * 60 * SECOND;
    assert_eq!(minute.span, TimeRange { from: Some(begin), to: Some(begin + 60 * SECOND) });
    let days = parse("flows since 3 days ago 14:05 until yesterday").unwrap();
    assert_eq!(days.span.to.map(|to| to % DAY), Some(0));
    for text in [
        "count",
        "distinct",
        "new since 1d",
        "events since 7d limit 50",
        "flow Cabc",
        "series ledger/caught points 9",
        "quantiles series ledger/bytes",
        "records dns text example.org",
        "records x509 show subject, not_after where x509.not_after < now",
        "list sources by flows",
    ] {
        parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    }
}

#[test]
fn records_are_counted_by_their_fields_and_keys() {
    let name = |question: &Question| counting(question).names.join(" ");
    let question = parse("top tls.sni by flows since 1d where host 10.0.0.7").unwrap();
    assert_eq!(counting(&question).subject, Subject::Records("tls"));
    assert_eq!((name(&question).as_str(), counting(&question).measure), ("server_name", Measure::Flows));
    let question = parse("count http by status, host ,client").unwrap();
    assert_eq!(
        (counting(&question).subject, name(&question).as_str()),
        (Subject::Records("http"), "status_code host client")
    );
    assert_eq!(counting(&question).measure, Measure::Rows);
    let question = parse("top client, dns.query points 24 by records").unwrap();
    assert_eq!((counting(&question).subject, question.points), (Subject::Records("dns"), Some(24)));
    let question = parse("quantiles dns.rtt by server every 1h");
    assert!(question.unwrap_err().message.contains("`every` is for"));
    // Each subject takes `every` or says which ones do.
    for (text, is_taken) in [
        ("top client every 1h", true),
        ("count flows by state every 1h", true),
        ("count dns every 1h", true),
        ("series ledger/caught every 1h", true),
        ("quantiles series ledger/caught every 1h", false),
        ("list talkers every 1h", false),
        ("flows every 1h", false),
        ("records dns every 1h", false),
        ("distinct every 1h", false),
        ("new every 1h", false),
        ("events every 1h", false),
    ] {
        match parse(text) {
            Ok(_) => assert!(is_taken, "{text}"),
            Err(wrong) => assert!(!is_taken && wrong.message.contains("`every` is for"), "{text}: {wrong:?}"),
        }
    }
    let question = parse("quantiles flow.duration by server, service").unwrap();
    assert!(
        matches!(&question.matter, Matter::Quantiles(of, field) if of.subject == Subject::Flows && field.name == "duration")
    );
    let question = parse("top server by flow.retransmitted compare 1w").unwrap();
    assert!(matches!(counting(&question).measure, Measure::Sum(field) if field.name == "retransmitted"));
    assert_eq!(question.compare, Some(Compare::Earlier(7 * DAY)));
    let question = parse("count flows by state compare since 1h").unwrap();
    assert_eq!((question.compare, counting(&question).list), (Some(Compare::Before), None));
}

#[test]
fn queries_in_json_are_parsed() {
    let json =
        parse(r#"{"top": "client", "by": "flows", "since": "24h", "limit": 7, "where": "tcp"}"#).unwrap();
    let text = parse("top client by flows since 24h limit 7 where tcp").unwrap();
    assert_eq!((json.matter, json.span, json.limit), (text.matter, text.span, text.limit));
    assert_eq!(json.test, text.test);
    let json =
        parse(r#"{"count": "http", "by": ["status", "host"], "compare": true, "in": "yesterday"}"#).unwrap();
    let text = parse("count http by status, host compare in yesterday").unwrap();
    assert_eq!((json.matter, json.span, json.compare), (text.matter, text.span, text.compare));
    assert!(parse(r#"{"flows": true, "order": "-bytes"}"#).is_ok());
    for wrong in [
        r#"{"by": "flows"}"#,
        r#"{"top": "client", "flows": 1}"#,
        "{",
        r#"{"top": "client", "nonsense": 1}"#,
        r#"{"top": "client", "limit": "5 where"}"#,
        r#"{"top": "src where tcp"}"#,
    ] {
        assert!(parse(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn errors_have_a_position() {
    for (text, place, says) in [
        ("", "", "expected `top KEY`"),
        ("tpo src", "tpo", "found `tpo`"),
        ("top sorce", "sorce", "client, server"),
        ("top tls.server_nam", "tls.server_nam", "did you mean `tls.server_name`"),
        ("top tls.server_name, http.host", "http.host", "not a field of the table `tls`"),
        ("count http by satus_code", "satus_code", "did you mean `http.status_code`"),
        ("count htp", "htp", "or `http`"),
        ("count http by sender", "sender", "have no `sender`"),
        ("quantiles dns.query by server", "dns.query", "is not a number"),
        (
            "top src",
            "src",
            "use `sender` for that end of packets, or `client` for the host that began the flow",
        ),
        ("count by dst", "dst", "use `receiver` for that end of packets, or `server`"),
        ("top client by weight", "weight", "`bytes`, `packets` or `flows`"),
        ("top client by flow.state", "flow.state", "is not a number"),
        ("top client since yesterdy", "yesterdy", "a length of time"),
        ("top client limit 0", "0", "from 1"),
        ("top client every 0s", "0s", "a length of time"),
        ("top client wher tcp", "wher", "`where`"),
        ("flows where tcp prt 80", "prt", ""),
        ("flows where len > 100", "len > 100", "only packets have"),
        ("flows where dns.qury = a", "dns.qury", "did you mean `dns.query`"),
        ("top client in 7d", "7d", "`2026-03`"),
        ("top client in 2026-13", "2026-13", ""),
        ("top client since 1h until 2h", "top client since 1h until 2h", "ends before it begins"),
        ("series ledger/caught where tcp", "series ledger/caught where tcp", "cannot be filtered"),
        ("flows order size", "size", "duration"),
        ("flows by bytes", "bytes", "flows have `order`"),
        ("flows compare", "flows compare", "top and count"),
        ("top client points 10 compare", "top client points 10 compare", "over time"),
        ("records dns show time", "time", "no field `time`"),
    ] {
        let error = parse(text).unwrap_err();
        assert_eq!(text.get(error.offset..error.offset + error.length), Some(place), "{text}: {error}");
        assert!(error.message.contains(says), "{text}: {error}");
    }
}

#[test]
fn payload_is_withheld_from_keys_and_tests() {
    let bare = Asking { without_payload: true, ..asking() };
    for text in [
        "top http.user_agent",
        "count http by user_agent",
        "flows where http.user_agent contains a",
        "records http show user_agent",
    ] {
        assert!(parse(text).is_ok(), "{text}");
        let error = Question::parse(text, &bare).unwrap_err();
        assert!(error.message.contains("the right packets"), "{text}: {error}");
    }
}

#[test]
fn lists_are_kept_or_computed() {
    let kept = |text: &str| counting(&parse(text).unwrap()).list;
    assert_eq!(kept("top senders"), Some(("sources", GroupBy::Sender)));
    assert_eq!(kept("top receivers"), Some(("destinations", GroupBy::Receiver)));
    assert_eq!(kept("top clients"), None);
    assert_eq!(list_of_flows("sources"), Some(GroupBy::Sender));
    assert_eq!(list_of_flows("servers"), Some(GroupBy::Server));
    assert_eq!(Measure::Bytes.rank(), Some(RankBy::Unit(Unit::Bytes)));
}

#[test]
fn distinct_values_rank_a_list() {
    let question = parse("top dns.query by distinct client since 1d limit 5").unwrap();
    let of = counting(&question);
    assert_eq!(of.subject, Subject::Records("dns"));
    assert_eq!(of.measure, Measure::Distinct(Dimension::Key(GroupBy::Client)));
    // A field of records makes them the rows, even if the key is of flows.
    let question = parse("top client by distinct dns.query").unwrap();
    assert_eq!(counting(&question).subject, Subject::Records("dns"));
    let question = parse("top client by distinct server where tcp").unwrap();
    assert_eq!(counting(&question).subject, Subject::Flows);
    let json = parse(r#"{"top": "client", "by": "distinct server"}"#).unwrap();
    assert_eq!(counting(&json).measure, counting(&question).measure);
    for (text, wanted) in [
        ("top client by distinct", "expected a key or field"),
        ("top client by distinct nothing", "expected one of"),
        ("top client by distinct host", "two hosts"),
        ("top client by distinct server points 5", "over time"),
        ("count flows by distinct client", "`by distinct` is for top"),
        ("top dns.query by distinct http.host", "is not a field of the table"),
    ] {
        let error = parse(text).unwrap_err();
        assert!(error.message.contains(wanted), "{text}: {error}");
    }
}

#[test]
fn the_time_of_the_command_line_is_that_of_a_query_without_one() {
    let span = TimeRange { from: Some(NOW - DAY), to: None };
    let asking = Asking { span, ..asking() };
    let parse = |text: &str| Question::parse(text, &asking);
    assert_eq!(parse("top client").unwrap().span, span);
    let both = parse("top client until 1h").unwrap().span;
    assert_eq!(both, TimeRange { from: span.from, to: Some(NOW - 3600 * SECOND) });
    assert!(parse("top client since 1h").unwrap_err().message.contains("twice"));
    assert!(parse("top client until 2w").unwrap_err().message.contains("ends before it begins"));
}

/// A list, a query and a model describe the same values by the same numbers, however few there are.
#[test]
fn quantiles_have_one_definition() {
    let column = TableColumn {
        name: Cow::Borrowed("t"),
        fold: Fold::Sketch,
        unit: Cow::Borrowed("s"),
        help: Cow::Borrowed("Help."),
    };
    let schema = Schema {
        name: Cow::Borrowed("times"),
        keys: Cow::Borrowed(&[]),
        columns: Cow::Owned(vec![column]),
        shown: Shown::Heaviest(1),
    };
    let (mut sorted, mut state) = (Vec::new(), 1_u64);
    for n in 1..=200_usize {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        sorted.push((1 + (state >> 44)) as f64 / 1e6);
        sorted.sort_by(f64::total_cmp);
        let (mut sketch, mut values) = (Sketch::default(), Values::default());
        for value in &sorted {
            sketch.add(*value);
            values.add(*value);
        }
        let model = Described::of(&values);
        // The smallest value that this percentage of the values does not exceed.
        let exact = |percent: usize| sorted[(percent * n).div_ceil(100).max(1) - 1];
        let near = |found: f64, exact: f64| (found - exact).abs() <= sketch.error() * exact * (1.0 + 1e-12);
        for percent in 0..=100 {
            let (part, exact) = (percent as f64 / 100.0, exact(percent));
            assert_eq!(quantile(&sorted, part), Some(exact), "a query: {percent} % of {n}");
            assert_eq!(model.quantiles[percent], exact, "a model: {percent} % of {n}");
            assert!(near(sketch.quantile(part).unwrap(), exact), "a sketch: {percent} % of {n}");
        }
        let row = TableRow { key: Vec::new(), values: vec![Folded::Sketch(sketch.clone())], error: 0 };
        let reading = Reading::Table(Table::new(schema.clone(), 1, vec![row], 0));
        let cells = reading.cells();
        let of_row: Vec<f64> = cells.rows[0]
            .values
            .iter()
            .filter_map(|cell| match cell {
                Cell::Number(number) => Some(*number),
                _ => None,
            })
            .collect();
        assert_eq!(of_row.len(), 4, "{:?}", cells.rows[0].values);
        for (found, percent) in of_row.into_iter().zip([50, 90, 99, 100]) {
            assert!(near(found, exact(percent)), "a list: {percent} % of {n}: {found}");
        }
    }
}
