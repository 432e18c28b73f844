//! The suite of stores over SQLite, and what only this engine has.

use super::*;
use crate::fixtures::{self, count};
use crate::suite::{DAY0, Engine, S, behaviours, caught, context, ids, interval, limits, wanted};
use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use weir_api::{
    Answer, AnswerId, AnswerLabel, Datum, DistinctValues, Fold, Folded, Interval, KeyKind, Reading, Schema,
    Shown, SynCounts, SynHost, Table, TableColumn, TableRow, TopRow,
};
use weir_filter::Options;
use weir_output::{Existing, Home, Output, OutputContext, Worms};

static SQLITE: Engine = Engine {
    write: |context, keep| Box::new(Writer::open(context, keep).unwrap()),
    read: |folder| Box::new(store(folder)),
};

behaviours!(SQLITE);

pub(super) fn writer(folder: &Path) -> Writer {
    Writer::open(&context(folder, Existing::Continue), limits()).unwrap()
}

pub(super) fn store(folder: &Path) -> SqliteStore {
    SqliteStore::open(folder, None).unwrap()
}

/// Turns a store into one of an earlier version.
fn revert(folder: &Path, steps: &str) {
    Connection::open(folder.join(MAIN)).unwrap().execute_batch(steps).unwrap();
}

/// Writes an interval of 10 seconds.
fn write_one(folder: &Path, start: u64) {
    let mut to = writer(folder);
    to.interval(&interval(start, 10 * S, 5, &[(1, 9)])).unwrap();
    to.finish().unwrap();
}

/// Takes back the steps to versions 5 and 7.
const WITHOUT_EVENTS: &str = "DROP INDEX events_muted; ALTER TABLE events DROP COLUMN muted; DROP INDEX events_by_id; ALTER TABLE events DROP COLUMN id;
    ALTER TABLE events DROP COLUMN begin; ALTER TABLE events DROP COLUMN body;";

/// A store of the version without names, which is no longer written.
#[test]
fn a_store_without_names_is_still_read() {
    let folder = tempfile::tempdir().unwrap();
    write_one(folder.path(), DAY0);
    revert(folder.path(), "DROP TABLE names; DROP TABLE watched; PRAGMA user_version = 1");
    let top = store(folder.path()).top("sources", TimeRange::default(), None, 3).unwrap();
    assert_eq!((top.rows.len(), top.rows[0].name.as_deref()), (1, None));
}

/// A store that an earlier version has written is first read only and then written by this version: its series are
/// found by their present names, and by their earlier ones.
#[test]
fn renamed_series_are_found_in_a_store_of_an_earlier_version() {
    let folder = tempfile::tempdir().unwrap();
    write_one(folder.path(), DAY0);
    revert(folder.path(), WITHOUT_EVENTS);
    revert(
        folder.path(),
        "UPDATE series SET name = 'ledger/said' WHERE name = 'ledger/with_payload';
         UPDATE series SET name = 'ledger/stream_octets' WHERE name = 'ledger/stream_bytes';
         DROP TABLE watched;
         PRAGMA user_version = 2",
    );
    let listed = |store: &SqliteStore| -> Vec<String> {
        store.series().unwrap().into_iter().map(|series| series.id).collect()
    };
    let points = |store: &SqliteStore, id: &str| {
        let data = store.points(&[id.to_owned()], TimeRange::default(), 100).unwrap();
        data.series.first().map(|series| series.avg.len())
    };
    for is_migrated in [false, true] {
        if is_migrated {
            write_one(folder.path(), DAY0 + 10 * S);
        }
        let store = store(folder.path());
        for (before, now) in
            [("ledger/said", "ledger/with_payload"), ("ledger/stream_octets", "ledger/stream_bytes")]
        {
            let ids = listed(&store);
            assert!(ids.iter().any(|id| id == now) && ids.iter().all(|id| id != before), "{ids:?}");
            assert!(points(&store, now).is_some(), "{now}");
            assert_eq!(points(&store, before), points(&store, now), "{before}");
        }
        assert_eq!(points(&store, "ledger/caught"), points(&store, "ledger/with_payload"));
    }
}

/// Writes more names than the maximum: those used last are kept.
#[test]
fn names_are_bounded_and_the_oldest_are_removed() {
    let folder = tempfile::tempdir().unwrap();
    let mut main = schema::open(&folder.path().join(MAIN), Kind::Main).unwrap();
    let transaction = main.transaction().unwrap();
    let mut waiting = names::Names::new(usize::MAX);
    for at in 0..70_000_u32 {
        waiting.see(u128::from(at).to_be_bytes(), "a", u64::from(at));
    }
    waiting.write(&transaction).unwrap();
    let count =
        || transaction.query_row("SELECT count(*) FROM names", [], |row| row.get::<_, i64>(0)).unwrap();
    assert_eq!(count(), 65_536);
    names::sweep(&transaction, 5).unwrap();
    assert_eq!(count(), 65_531);
    transaction
        .execute_batch(
            "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 300000)
            INSERT INTO names SELECT CAST(i AS BLOB), 'b', 1000000 + i FROM n",
        )
        .unwrap();
    names::sweep(&transaction, 5).unwrap();
    assert_eq!(count(), 262_144);
    let oldest: i64 = transaction.query_row("SELECT min(time) FROM names", [], |row| row.get(0)).unwrap();
    assert_eq!(oldest, 1_000_000 + 300_000 - 262_144 + 1);
}

/// A query for everything gets a partial answer within the time limit, marked as such.
#[test]
fn a_query_for_everything_is_stopped_and_marked_partial() {
    let folder = tempfile::tempdir().unwrap();
    let mut to = writer(folder.path());
    let all = 40_000;
    for at in 0..all {
        let mut flow = fixtures::flow();
        (flow.id, flow.key.port[0]) = (at, at as u16);
        to.flow(&flow).unwrap();
    }
    to.interval(&interval(DAY0, 10 * S, all, &[])).unwrap();
    let mut store = store(folder.path());
    assert_eq!(store.flows(&wanted("")).unwrap().matched, all);
    store.patience = Duration::ZERO;
    let none = FlowTest::parse("src host 203.0.113.77", &Options::default()).unwrap();
    let flows = store.flows(&wanted("not host 203.0.113.77")).unwrap();
    let group = store.group(GroupBy::Flow, &none, TimeRange::default(), RankBy::Flows, 10, 0).unwrap();
    let series: Vec<String> = (0..100_000).map(|_| counter_id("caught")).collect();
    let heaviest = store.heaviest(&series, TimeRange::default(), 10, 3).unwrap();
    // SQLite checks the time limit each 10,000 of its steps, of which a row takes several.
    assert!(flows.matched < 10_000, "{}", flows.matched);
    for partial in [flows.partial, group.partial, heaviest.partial] {
        let partial = partial.unwrap();
        assert!(partial.contains("stopped at the time limit"), "{partial}");
    }
}

/// Late segments are added to the row of their connection, wherever it is: in the same batch, written before, or in the partition
/// before. Those of an unknown connection are a row.
#[test]
fn late_segments_are_added_to_the_row_of_their_connection() {
    let of = |id: u64, follows: u64| {
        let mut flow = fixtures::flow();
        (flow.id, flow.follows) = (id, follows);
        flow
    };
    let late = |id: u64, follows: u64, is_turned: bool| {
        let mut flow = of(id, follows);
        flow.last.0 += 7 * S;
        if is_turned {
            flow.initiator_is_lower = !flow.initiator_is_lower;
            std::mem::swap(&mut flow.forward, &mut flow.reverse);
        }
        flow
    };
    let folder = tempfile::tempdir().unwrap();
    let mut to = writer(folder.path());
    // 1 is in the partition before and gets two, 2 is written before, 3 is in the batch, and 9 is unknown.
    to.flow(&of(1, 0)).unwrap();
    to.flush().unwrap();
    let now = fixtures::flow().last.0;
    to.begin_partition(now + S);
    to.flow(&of(2, 0)).unwrap();
    to.flush().unwrap();
    for flow in [
        of(3, 0),
        late(11, 1, false),
        late(12, 2, true),
        late(13, 3, false),
        late(14, 9, false),
        late(15, 1, true),
    ] {
        to.flow(&flow).unwrap();
    }
    to.finish().unwrap();
    assert_eq!(to.health().lost_rows(), 0);
    let mut found = Vec::new();
    for (_, path) in schema::partitions(folder.path()) {
        let database = Connection::open(path).unwrap();
        let mut query = database
            .prepare("SELECT uid, last, fpackets, rpackets, fbytes, rbytes, detail FROM flows ORDER BY uid")
            .unwrap();
        let rows = query
            .query_map([], |row| {
                let numbers: [i64; 6] =
                    [row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?, row.get(5)?];
                Ok((numbers, row.get::<_, String>(6)?))
            })
            .unwrap();
        let rows: Vec<([i64; 6], String)> = rows.map(Result::unwrap).collect();
        let last: i64 =
            database.query_row("SELECT value FROM meta WHERE name = 'last'", [], |row| row.get(0)).unwrap();
        assert_eq!(Some(last), rows.iter().map(|(numbers, _)| numbers[1]).max());
        found.extend(rows);
    }
    let flow = fixtures::flow();
    let sums =
        [flow.forward.packets, flow.reverse.packets, flow.forward.frame_bytes, flow.reverse.frame_bytes];
    let row = |uid: i64, times: u64, seconds: u64| {
        let [a, b, c, d] = sums.map(|n| (n * times) as i64);
        [uid, (flow.last.0 + seconds * S) as i64, a, b, c, d]
    };
    let numbers: Vec<[i64; 6]> = found.iter().map(|(numbers, _)| *numbers).collect();
    assert_eq!(numbers, [row(1, 3, 7), row(2, 2, 7), row(3, 2, 7), row(14, 1, 7)]);
    for (numbers, detail) in &found {
        let detail: serde_json::Value = serde_json::from_str(detail).unwrap();
        let times = numbers[2] as u64 / flow.forward.packets;
        for (name, once) in [
            ("frame_bytes", flow.forward.frame_bytes),
            ("reverse_frame_bytes", flow.reverse.frame_bytes),
            ("ip_bytes", flow.forward.ip_bytes),
            ("reverse_ip_bytes", flow.reverse.ip_bytes),
            ("payload_bytes", flow.forward.payload_bytes),
            ("reverse_payload_bytes", flow.reverse.payload_bytes),
        ] {
            assert_eq!(detail[name], once * times, "{name} of {numbers:?}");
        }
        let duration = numbers[1] as u64 - flow.first.0;
        assert_eq!(detail["duration"].to_string().parse::<f64>().unwrap(), (duration / 1000) as f64 / 1e6);
    }
}

#[test]
fn a_full_disk_loses_no_row_that_has_room_to_wait() {
    let folder = tempfile::tempdir().unwrap();
    let mut to = writer(folder.path());
    to.interval(&interval(DAY0, 30 * S, 7, &[(1, 1)])).unwrap();
    to.limit_pages(Some(0));
    let mut emitted = 0;
    for at in 1..40 {
        let sources: Vec<(u8, u64)> = (0..200).map(|host| (host, at * 100)).collect();
        emitted += u64::from(to.interval(&interval(DAY0 + at * 30 * S, 30 * S, 7, &sources)).is_err());
        to.flow(&fixtures::flow()).unwrap();
    }
    assert_eq!(emitted, 1, "it is reported once");
    let health = to.health();
    assert!(health.why().is_some_and(|why| why.contains("full")), "{:?}", health.why());
    let with_health = SqliteStore::open(folder.path(), Some(health.clone())).unwrap();
    assert_eq!(with_health.state().unwrap().state, "waiting");
    to.limit_pages(None);
    to.flush().unwrap();
    assert_eq!((health.why(), health.lost_rows()), (None, 0));
    to.interval(&interval(DAY0 + 40 * 30 * S, 30 * S, 7, &[])).unwrap();
    let store = store(folder.path());
    let data = store.points(&ids("caught"), TimeRange::default(), 1000).unwrap();
    assert_eq!(caught(&data).into_iter().flatten().count(), 41);
    let events = store.events(TimeRange::default(), 10).unwrap().events;
    assert!(events.iter().any(|event| event.text.contains("writing resumed")), "{events:?}");
}

/// What is written to a removed or replaced file is lost: the writer says so instead.
#[test]
fn a_store_that_is_removed_while_it_is_written_is_noticed() {
    for is_replaced in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let mut to = Writer::open(&context(folder.path(), Existing::Continue), limits()).unwrap();
        to.interval(&interval(DAY0, 30 * S, 7, &[(1, 1)])).unwrap();
        to.flush().unwrap();
        let path = folder.path().join(MAIN);
        let body = std::fs::read(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        if is_replaced {
            std::fs::write(folder.path().join("other"), body).unwrap();
            std::fs::rename(folder.path().join("other"), &path).unwrap();
        }
        let error = to
            .interval(&interval(DAY0 + 30 * S, 30 * S, 7, &[(1, 1)]))
            .and_then(|()| to.flush())
            .unwrap_err()
            .to_string();
        let words = if is_replaced { "another file" } else { "was removed" };
        assert!(error.contains(words) && error.contains(MAIN), "{error}");
        assert!(to.health().failed_attempts() > 0);
    }
}

/// However many rows and intervals arrive while the disk is full, there is one attempt per second.
#[test]
fn a_full_disk_is_retried_once_a_second() {
    static CLOCK: AtomicU64 = AtomicU64::new(0);
    let folder = tempfile::tempdir().unwrap();
    let context = OutputContext {
        clock: Some(|| CLOCK.load(Ordering::Relaxed)),
        ..context(folder.path(), Existing::Continue)
    };
    let mut to = Writer::open(&context, limits()).unwrap();
    to.interval(&interval(DAY0, 30 * S, 7, &[(1, 1)])).unwrap();
    to.flow(&fixtures::flow()).unwrap();
    to.flush().unwrap();
    to.limit_pages(Some(0));
    let mut errors = 0;
    for second in 1..=5_u64 {
        for at in 0..4000 {
            to.flow(&fixtures::flow()).unwrap();
            if at % 100 == 0 {
                let start = DAY0 + (second * 100 + at / 100) * 30 * S;
                errors += u64::from(to.interval(&interval(start, 30 * S, 7, &[(1, 1)])).is_err());
                errors += u64::from(to.flush().is_err());
            }
        }
        assert_eq!(to.health().failed_attempts(), second);
        CLOCK.fetch_add(S, Ordering::Relaxed);
    }
    assert_eq!(errors, 1, "it is reported once");
    to.limit_pages(None);
    to.flush().unwrap();
    assert_eq!((to.health().failed_attempts(), to.health().lost_rows()), (0, 0));
    let flows = store(folder.path()).flows(&wanted("")).unwrap();
    assert_eq!(flows.matched, 20_001);
}

/// More rows than one batch, none of which can be written.
#[test]
fn rows_beyond_the_buffer_cause_no_attempt() {
    let folder = tempfile::tempdir().unwrap();
    let context = OutputContext { clock: Some(|| 0), ..context(folder.path(), Existing::Replace) };
    let mut to = Writer::open(&context, limits()).unwrap();
    to.flow(&fixtures::flow()).unwrap();
    to.flush().unwrap();
    to.limit_pages(Some(0));
    let rows = 300_000;
    for _ in 0..rows {
        to.flow(&fixtures::flow()).unwrap();
    }
    assert_eq!(to.health().failed_attempts(), 1);
    let lost = to.health().lost_rows();
    assert!(to.flush().is_err());
    let error = to.finish().unwrap_err().to_string();
    assert!(error.contains(&format!("{rows} rows lost")), "{lost}, {error}");
}

/// A run over files collects intervals: the stored data is equal, and coarse cells are written once for many
/// intervals.
#[test]
fn collected_intervals_are_stored_as_single_ones() {
    let (many, few) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut changes = Vec::new();
    let intervals = 600;
    for (folder, existing) in [(&many, Existing::Continue), (&few, Existing::Replace)] {
        // Long enough that nothing is dropped, which would be counted too.
        let long = 3653 * 86_400 * S;
        let keep =
            Keep { free: 0, series: [long; SERIES.len()], lists: [long; LISTS.len()], ..Keep::default() };
        let mut to = Writer::open(&context(folder.path(), existing), keep).unwrap();
        for at in 0..intervals {
            // Two intervals of an hour, then silence.
            let start = DAY0 + (at / 2) * 3600 * S + at % 2 * 30 * S;
            to.interval(&interval(start, 30 * S, at + 1, &[(1, at + 1), (2 + (at % 50) as u8, 9)])).unwrap();
        }
        to.finish().unwrap();
        changes.push(to.changes());
    }
    let [single, gathered] = changes[..] else { panic!() };
    let series = store(few.path()).series().unwrap().len() as u64;
    println!("{single} and {gathered} rows of {series} series");
    // The cells of intervals, of hours and of days; for lists likewise.
    let cells = intervals + intervals / 2 + intervals / 2 + intervals / 48;
    assert!(gathered < (series + 1) * (cells + 100), "{gathered} rows");
    assert!(gathered * 3 < single * 2, "{gathered} rows against {single}");
    for points in [1, 10, 300, 10_000] {
        let of = |folder: &Path| store(folder).points(&ids("caught"), TimeRange::default(), points).unwrap();
        assert_eq!(of(many.path()), of(few.path()), "{points}");
    }
    for hours in [1, 7, 24, 100, 300] {
        let span = TimeRange { from: Some(DAY0 + 3600 * S), to: Some(DAY0 + (1 + hours) * 3600 * S) };
        let of = |folder: &Path| store(folder).top("sources", span, None, 100).unwrap();
        assert_eq!(of(many.path()), of(few.path()), "{hours} hours");
    }
}

#[test]
fn a_corrupt_database_is_moved_aside_and_a_newer_one_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let mut to = writer(folder.path());
    to.interval(&interval(DAY0, 30 * S, 7, &[(1, 1)])).unwrap();
    to.finish().unwrap();
    drop(to);
    let path = folder.path().join(MAIN);
    let mut bytes = std::fs::read(&path).unwrap();
    let from = bytes.len() / 2;
    bytes[from..].fill(0xa5);
    std::fs::write(&path, &bytes).unwrap();
    let mut to = writer(folder.path());
    to.interval(&interval(DAY0 + 60 * S, 30 * S, 7, &[(1, 1)])).unwrap();
    let store = store(folder.path());
    assert_eq!(store.extent().unwrap(), Some((DAY0 + 60 * S, DAY0 + 90 * S)));
    let events = store.events(TimeRange::default(), 10).unwrap().events;
    assert!(events.iter().any(|event| event.text.contains("corrupt-")), "{events:?}");
    drop(to);
    let main = schema::open(&path, Kind::Main).unwrap();
    main.pragma_update(None, "user_version", 99).unwrap();
    drop(main);
    let error = Writer::open(&context(folder.path(), Existing::Continue), limits()).err().unwrap();
    assert!(error.to_string().contains("version 99") && path.exists(), "{error}");
}

#[test]
fn a_run_over_files_does_not_replace_the_store_of_a_live_one() {
    let folder = tempfile::tempdir().unwrap();
    let mut to = writer(folder.path());
    to.interval(&interval(DAY0, 30 * S, 7, &[])).unwrap();
    drop(to);
    let open = |existing| Writer::open(&context(folder.path(), existing), limits());
    assert!(open(Existing::Replace).err().unwrap().to_string().contains("live run"));
    let other = tempfile::tempdir().unwrap();
    for _ in 0..2 {
        let mut to = Writer::open(&context(other.path(), Existing::Replace), limits()).unwrap();
        to.flow(&fixtures::flow()).unwrap();
        to.interval(&interval(DAY0, 30 * S, 7, &[])).unwrap();
        to.finish().unwrap();
        assert_eq!(store(other.path()).flows(&wanted("")).unwrap().matched, 1);
    }
}

/// A year of the six lists of the summary, each full, on a link whose hosts change constantly: intervals of half a
/// minute for the last two days, which is their retention, and of an hour before.
#[test]
#[ignore = "compresses 14,000 intervals of lists, which takes minutes: `make test-long` runs it"]
fn a_year_of_every_list_stays_under_a_gigabyte() {
    let folder = tempfile::tempdir().unwrap();
    let mut to = writer(folder.path());
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = move || {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        random >> 33
    };
    let lists = [
        ("talkers", KeyKind::Talker, 4096),
        ("services", KeyKind::Service, 1024),
        ("sources", KeyKind::Source, 1024),
        ("destinations", KeyKind::Destination, 1024),
        ("flows", KeyKind::Flow, 4096),
        ("protocols", KeyKind::Protocol, 20),
    ];
    let mut fill = |start: u64, length: u64| {
        let mut snapshot = interval(start, length, 1_000_000, &[]);
        snapshot.answers.clear();
        for (name, kind, rows) in lists {
            let mut made = std::collections::BTreeMap::new();
            for at in 0..rows {
                // Half of the hosts are always present, half of them only once.
                let host = |n: u64| {
                    IpAddr::from((0x0a00_0000 + if at % 2 == 0 { at as u32 } else { n as u32 }).to_be_bytes())
                };
                let (a, b, port) = (host(next()), host(next()), next() as u16);
                let key = match kind {
                    KeyKind::Talker => Key::Talker { server: a, port, client: b, protocol: 6 },
                    KeyKind::Service => Key::Port { protocol: 6, port },
                    KeyKind::Flow => Key::Flow {
                        source: a,
                        source_port: port,
                        destination: b,
                        destination_port: 443,
                        protocol: 6,
                    },
                    KeyKind::Protocol => Key::Protocol(at as u8),
                    _ => Key::Address(a),
                };
                let bytes = 1_000_000_000 / (at as u64 + 1) + next() % 1000;
                made.insert(
                    key,
                    TopRow { key, count: count(bytes / 700 + 1, bytes), flows: 1, error: next() % 500 },
                );
            }
            let mut reading = fixtures::top(kind, made.into_values().collect());
            if let Reading::Top(top) = &mut reading {
                top.absent = 400;
            }
            snapshot.answers.push(fixtures::answer(name, None, "top", reading));
        }
        snapshot
    };
    let begun = std::time::Instant::now();
    let (hours, halves) = (363 * 24, 2 * 24 * 120);
    for at in 0..hours {
        to.interval(&fill(DAY0 + at * 3600 * S, 3600 * S)).unwrap();
    }
    let end = DAY0 + hours * 3600 * S;
    for at in 0..halves {
        to.interval(&fill(end + at * 30 * S, 30 * S)).unwrap();
    }
    let each = begun.elapsed().as_secs_f64() * 1e3 / (hours + halves) as f64;
    to.finish().unwrap();
    let size = schema::size(&folder.path().join(MAIN));
    let store = store(folder.path());
    // 2027-03.
    let march = TimeRange { from: Some(1_803_859_200 * S), to: Some(1_806_537_600 * S) };
    let asked = std::time::Instant::now();
    let top = store.top("sources", march, None, 20).unwrap();
    let took = asked.elapsed();
    let asked = std::time::Instant::now();
    let day = TimeRange { from: Some(end + 3 * 3600 * S + 17 * S), to: Some(end + 27 * 3600 * S + 17 * S) };
    let of_day = store.top("talkers", day, None, 20).unwrap();
    let took_day = asked.elapsed();
    let state = store.state().unwrap();
    println!(
        "a year of six lists: {:.0} MB (bound {:.0} MB); {each:.1} ms an interval; sources of March in {took:?}, talkers of \
         24 hours in {took_day:?}",
        size as f64 / 1e6,
        state.bound as f64 / 1e6
    );
    assert!(size < 1 << 30, "{size}");
    assert_eq!((top.rows.len(), top.partial, of_day.rows.len()), (20, None, 20));
    assert!(took.as_secs_f64() < 1.0 && took_day.as_secs_f64() < 1.0, "{took:?} {took_day:?}");
}

/// A store of version 3 has a cell for each interval, and an interval that follows a silence is as long as both.
#[test]
fn a_silence_that_an_earlier_version_swallowed_is_unknown() {
    let folder = tempfile::tempdir().unwrap();
    let mut to = writer(folder.path());
    to.interval(&interval(DAY0, 30 * S, 30, &[(1, 9)])).unwrap();
    to.interval(&interval(DAY0 + 30 * S, 30 * S, 60, &[(1, 9)])).unwrap();
    to.finish().unwrap();
    drop(to);
    // The second one ended four hours later, with its packets.
    let long = 4 * 3600;
    revert(folder.path(), WITHOUT_EVENTS);
    let swallowed = format!(
        "DROP TABLE watched;
         DELETE FROM meta WHERE name LIKE 'since%';
         UPDATE points SET seconds = {long} WHERE tier = 0 AND time = {second};
         UPDATE points SET seconds = {long} + 30 WHERE tier > 0;
         UPDATE readings SET until = {end} WHERE tier = 0 AND time = {second};
         UPDATE meta SET value = {end} WHERE name = 'last';
         UPDATE meta SET value = {interval} WHERE name = 'interval';
         PRAGMA user_version = 3",
        second = DAY0 + 30 * S,
        end = DAY0 + 30 * S + long * S,
        interval = 30 * S,
    );
    revert(folder.path(), &swallowed);
    let mut to = writer(folder.path());
    to.flush().unwrap();
    drop(to);
    let store = store(folder.path());
    let end = DAY0 + 30 * S + long * S;
    let data = store.points(&ids("caught"), TimeRange::default(), 100_000).unwrap();
    let found: Vec<(usize, f64)> =
        caught(&data).into_iter().enumerate().filter_map(|(at, v)| Some((at, v?))).collect();
    assert_eq!(found, [(0, 1.0), (480, 2.0)], "the packets are at the end, and the silence is nothing");
    let five = TimeRange { from: Some(DAY0), to: Some(DAY0 + 5 * 3600 * S) };
    let hours = store.points(&ids("caught"), five, 5).unwrap();
    let known: Vec<f64> = caught(&hours).into_iter().flatten().collect();
    assert_eq!((hours.step, known), (3600.0, vec![1.0, 2.0]));
    let span = TimeRange { from: Some(end - 30 * S), to: Some(end) };
    assert_eq!(store.top("sources", span, None, 9).unwrap().rows[0].bytes, 9);
}

/// Rewrites the tables of a store as an earlier version wrote them: distinct values have no number of additions. It is 300 in
/// each of these.
fn without_additions(folder: &Path) {
    let main = Connection::open(folder.join(MAIN)).unwrap();
    let mut query = main.prepare("SELECT tier, name, time, body FROM readings WHERE kind = 'table'").unwrap();
    let row = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?));
    let rows: Vec<(i64, String, i64, Vec<u8>)> =
        query.query_map([], row).unwrap().collect::<Result<_, _>>().unwrap();
    assert!(!rows.is_empty());
    for (tier, name, time, body) in rows {
        let mut bytes = zstd::bulk::decompress(&body, 1 << 20).unwrap();
        bytes[2] = 1;
        // An estimate of 0 from before they were renamed, and 300 in LEB128.
        let end = [0, 0xac, 2];
        let at = bytes.windows(end.len()).position(|window| window == end).unwrap();
        bytes.drain(at + 1..at + end.len());
        // Nor do tables count what they leave out: this one does not.
        assert_eq!(bytes.pop(), Some(0));
        let body = zstd::bulk::compress(&bytes, 3).unwrap();
        main.execute(
            "UPDATE readings SET body = ?4 WHERE tier = ?1 AND name = ?2 AND time = ?3",
            rusqlite::params![tier, name, time, body],
        )
        .unwrap();
    }
}

/// Both while the values are known, and when only their number is estimated.
#[test]
fn distinct_values_of_an_earlier_version_are_read_and_added_to() {
    let schema = Schema {
        name: Cow::Borrowed("names"),
        keys: Cow::Borrowed(&[]),
        columns: Cow::Owned(vec![TableColumn {
            name: Cow::Borrowed("names"),
            fold: Fold::Distinct,
            unit: Cow::Borrowed(""),
            help: Cow::Borrowed("Names."),
        }]),
        shown: Shown::Heaviest(1),
    };
    for many in [100, 300_u128] {
        let folder = tempfile::tempdir().unwrap();
        let write = |start: u64, names: std::ops::Range<u128>| {
            let mut values = DistinctValues::default();
            names.cycle().take(300).for_each(|name| {
                values.add(1 << 100 | name);
            });
            let row = TableRow { key: Vec::new(), values: vec![Folded::Distinct(values)], error: 0 };
            let reading = Reading::Table(Table::new(schema.clone(), 1, vec![row], 0));
            let mut snapshot = interval(start, 10 * S, 5, &[]);
            snapshot.answers.push(fixtures::answer("asked", None, "distinct", reading));
            let mut to = writer(folder.path());
            to.interval(&snapshot).unwrap();
            to.finish().unwrap();
        };
        let counted = || {
            let kept = store(folder.path()).table("asked", TimeRange::default()).unwrap().unwrap();
            kept.table.unwrap().rows[0].weight() as f64
        };
        // Four standard errors of an estimate.
        let bound = if many > 256 { 0.065 } else { 0.0 };
        let is_near = |exact: u128| (counted() / exact as f64 - 1.0).abs() <= bound;
        write(DAY0, 0..many);
        without_additions(folder.path());
        assert!(is_near(many), "{} of {many}", counted());
        write(DAY0 + 10 * S, many / 2..many + many / 2);
        assert!(is_near(many + many / 2), "{} of {}", counted(), many + many / 2);
    }
}

#[test]
fn silence_takes_no_row() {
    let folder = tempfile::tempdir().unwrap();
    let mut to = writer(folder.path());
    for (at, watched_from) in [(0, 0), (5, 1)] {
        let mut snapshot = interval(DAY0 + at * 60 * S, 60 * S, 60, &[(1, 9)]);
        snapshot.watched =
            Some(Interval { start: DAY0 + watched_from * 60 * S, end: DAY0 + (at + 1) * 60 * S });
        to.interval(&snapshot).unwrap();
    }
    to.finish().unwrap();
    let rows: i64 = Connection::open(folder.path().join(MAIN))
        .unwrap()
        .query_row("SELECT count(*) FROM points WHERE tier = 0 AND sum = 0", [], |row| row.get(0))
        .unwrap();
    assert_eq!(rows, 0);
}

/// A second writer would add its cells to those of the first.
#[test]
fn a_store_has_one_writer_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let context = OutputContext {
        directory: folder.path().to_owned(),
        existing: weir_output::Existing::Continue,
        ..OutputContext::default()
    };
    let first = Writer::open(&context, Keep::default()).unwrap();
    let again = Writer::open(&context, Keep::default()).err().unwrap().to_string();
    assert!(again.contains("another Weir writes into this store"), "{again}");
    let replace = OutputContext { existing: weir_output::Existing::Replace, ..context.clone() };
    assert!(Writer::open(&replace, Keep::default()).is_err(), "the store of a run is not removed");
    drop(first);
    assert!(Writer::open(&context, Keep::default()).is_ok());
}

/// A host with 30 SYNs and no FIN in each part of an interval may be a worm in the merged reading alone. A list of SYNs with settings of
/// the run's own, and an earlier store without these series.
#[test]
fn hosts_that_may_be_worms_are_series_of_total_us_and_them() {
    let folder = tempfile::tempdir().unwrap();
    write_one(folder.path(), DAY0);
    let worms = Worms {
        home: Home { nets: vec!["192.0.2.0/24".parse().unwrap()] },
        difference: 50,
        ..Worms::default()
    };
    let context = OutputContext { worms, ..context(folder.path(), Existing::Continue) };
    let mut to = Writer::open(&context, limits()).unwrap();
    for (at, parts) in [(1, 2), (2, 2), (3, 1)] {
        let mut one = interval(DAY0 + at * 10 * S, 10 * S, 5, &[(1, 9)]);
        let row = |address: &str| {
            let counts = SynCounts { syn: 30, packets: [30, 0], ..SynCounts::default() };
            let host = SynHost { counts, ..SynHost::default() };
            TableRow { key: vec![Datum::Address(address.parse().unwrap())], values: host.values(), error: 0 }
        };
        let part =
            || Table::new(&weir_api::SYN, 16, vec![row("192.0.2.1"), row("10.0.0.1"), row("10.0.0.2")], 0);
        let mut table = part();
        (1..parts).for_each(|_| table.merge(&part()));
        let label = AnswerLabel {
            subscription: "a/b".to_owned(),
            function: "syn".to_owned(),
            ..AnswerLabel::default()
        };
        one.answers.push(Answer {
            id: AnswerId::default(),
            label: Arc::new(label),
            reading: Reading::Table(table),
            nanoseconds: 0,
        });
        to.interval(&one).unwrap();
    }
    to.finish().unwrap();
    let names = ["total", "us", "them"].map(|line| format!("worms/a%2fb/{line}"));
    let data = store(folder.path()).points(&names, TimeRange::default(), 1000).unwrap();
    let found: Vec<_> = data.series.iter().map(|one| (one.id.as_str(), one.avg.clone())).collect();
    let expected = [[3.0, 3.0, 0.0], [1.0, 1.0, 0.0], [2.0, 2.0, 0.0]];
    let expected: Vec<_> = names
        .iter()
        .zip(expected)
        .map(|(name, hosts)| (name.as_str(), [None].into_iter().chain(hosts.map(Some)).collect()))
        .collect();
    assert_eq!(found, expected);
    let unit =
        store(folder.path()).series().unwrap().into_iter().find(|info| info.id == names[0]).unwrap().unit;
    assert_eq!(unit, "hosts");
}
