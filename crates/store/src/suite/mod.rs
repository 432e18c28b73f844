//! The behaviour of a store, whatever engine it has: each function takes an engine, and [`behaviours`] makes a test of each.

mod cells;
mod news;

pub use cells::*;
pub use news::*;

use crate::fixtures::{self, count, ip};
use crate::query::{Asking, Question};
use crate::tally::GroupBy;
use crate::{
    FlowOrder, FlowsWanted, Keep, RankBy, RecordOrder, RecordsWanted, Steps, Store, TimeRange, counter_id,
    line_id,
};
use jiff::Timestamp;
use std::net::IpAddr;
use std::path::Path;
use weir_api::basis::Source;
use weir_api::web::SeriesData;
use weir_api::{Interval, Key, KeyKind, Ledger, Reading, Snapshot, TopRow};
use weir_engine::FlowRecord;
use weir_filter::{FlowEndpoints, FlowTest, Options};
use weir_output::zone::Zone;
use weir_output::{Existing, Output, OutputContext};
use weir_wire::Time;

pub const S: u64 = 1_000_000_000;
/// Midnight of a Sunday in UTC: 2026-11-22.
pub const DAY0: u64 = 1_795_305_600 * S;

/// An engine under test.
pub struct Engine {
    /// Opens the store of a folder for writing, within these limits.
    pub write: fn(&OutputContext, Keep) -> Box<dyn Output>,
    /// Opens the store of a folder for queries.
    pub read: fn(&Path) -> Box<dyn Store>,
}

impl Engine {
    fn open(&self, context: &OutputContext, keep: Keep) -> Box<dyn Output> {
        (self.write)(context, keep)
    }

    /// Continues the store of a folder, or creates one.
    fn writer(&self, folder: &Path) -> Box<dyn Output> {
        self.open(&context(folder, Existing::Continue), limits())
    }

    fn store(&self, folder: &Path) -> Box<dyn Store> {
        (self.read)(folder)
    }
}

/// A test of an engine for each behaviour.
macro_rules! behaviours {
    ($engine:ident) => {
        behaviours! {
            $engine:
            written_data_is_read_back
            points_of_every_step_have_the_same_sum
            steps_of_an_exact_length_begin_at_their_multiples
            each_function_of_a_subscription_has_its_list
            the_heaviest_series_and_the_sum_of_the_others_are_complete
            tiers_keep_their_configured_age_and_readers_see_it
            the_band_follows_local_time_across_clock_changes
            intervals_of_a_second_give_points_of_a_second
            a_short_first_interval_is_in_one_whole_step
            a_list_over_a_range_is_the_sum_of_its_intervals
            curves_add_up_to_their_rows
            points_of_a_short_time_are_computed_from_flows_where_intervals_are_gone
            every_range_has_an_answer
            answers_say_that_flows_before_their_range_are_gone
            news_are_keys_that_were_not_seen_before
            the_band_covers_the_previous_weeks
            sql_conditions_equal_their_tests
            a_store_of_files_stays_under_its_size_limit
            clock_jumps_lose_nothing
            a_truncated_list_keeps_its_bounds
            silence_is_zero_where_it_was_watched_and_absent_elsewhere
            what_comes_later_of_an_interval_is_added_to_it
            lists_are_rounded_only_where_finer_ones_are_gone
            new_services_are_those_that_answered
            a_scan_is_found_in_the_range_in_which_it_was
            an_event_is_kept_once_with_its_last_state
            events_of_a_killed_run_have_ended
            cells_are_of_the_finest_tier_that_has_the_range
        }
    };
    ($engine:ident: $($name:ident)*) => {
        $(
            #[test]
            fn $name() {
                crate::suite::$name(&$engine);
            }
        )*
    };
}
pub(crate) use behaviours;

pub fn context(folder: &Path, existing: Existing) -> OutputContext {
    OutputContext { directory: folder.to_owned(), existing, start: DAY0, ..OutputContext::default() }
}

/// The default limits, whatever room the disk has.
pub fn limits() -> Keep {
    Keep { free: 0, ..Keep::default() }
}

/// An interval with a number of packets, from sources that sent a number of bytes each.
pub fn interval(start: u64, length: u64, caught: u64, sources: &[(u8, u64)]) -> Snapshot {
    let rows = sources
        .iter()
        .map(|(host, bytes)| fixtures::row(Key::Address(IpAddr::from([10, 0, 0, *host])), 1, *bytes, 1))
        .collect();
    Snapshot {
        interval: Interval { start, end: start + length },
        ledger: Ledger { caught, bytes: caught * 100, ..Ledger::default() },
        answers: vec![fixtures::answer("sources", None, "top", fixtures::top(KeyKind::Source, rows))],
        ..Snapshot::default()
    }
}

pub fn caught(data: &SeriesData) -> Vec<Option<f64>> {
    data.series.first().map(|points| points.avg.clone()).unwrap_or_default()
}

pub fn ids(name: &str) -> Vec<String> {
    vec![counter_id(name)]
}

pub fn wanted(text: &str) -> FlowsWanted {
    wanted_of(FlowTest::parse(text, &Options::default()).unwrap())
}

pub fn wanted_of(test: FlowTest) -> FlowsWanted {
    FlowsWanted {
        test,
        span: TimeRange::default(),
        order: FlowOrder::First,
        descending: false,
        limit: 100,
        offset: 0,
        fields: Vec::new(),
    }
}

pub fn written_data_is_read_back(engine: &Engine) {
    let folder = tempfile::tempdir().unwrap();
    let mut to = engine.writer(folder.path());
    let snapshot = fixtures::snapshot();
    let (flow, ping) = (fixtures::flow(), fixtures::ping());
    // An open flow ends after the last interval.
    to.interval(&snapshot).unwrap();
    to.named_flow(&flow, Some("www.example.org")).unwrap();
    to.flow(&ping).unwrap();
    to.record(&fixtures::identity(), &fixtures::record()).unwrap();
    to.finish().unwrap();
    let store = engine.store(folder.path());
    assert_eq!(store.extent().unwrap(), Some((snapshot.interval.start, snapshot.interval.end)));
    let data = store.points(&ids("caught"), TimeRange::default(), 100).unwrap();
    let seconds = (snapshot.interval.end - snapshot.interval.start) as f64 / 1e9;
    let found: Vec<f64> = caught(&data).into_iter().flatten().collect();
    assert!((found[0] * seconds - snapshot.ledger.caught as f64).abs() < 1e-6, "{found:?}");
    let talkers = snapshot.answers.iter().find(|answer| answer.label.subscription == "talkers").unwrap();
    let Reading::Top(talkers) = &talkers.reading else { panic!() };
    let top = store.top("talkers", TimeRange::default(), None, 3).unwrap();
    let ranked: Vec<u64> = talkers.ranked().iter().take(3).map(|row| row.count.bytes).collect();
    assert_eq!(top.rows.iter().map(|row| row.bytes).collect::<Vec<_>>(), ranked);
    assert!(top.basis.bound == Some(0) && top.rows[0].filter.contains("host "), "{top:?}");
    // The initiator had resolved that name for the responder; the pair of both has it, too.
    let all = FlowTest::All(Vec::new());
    for (by, wanted) in [
        (GroupBy::Server, Some("www.example.org")),
        (GroupBy::Client, None),
        (GroupBy::Pair, Some("www.example.org")),
    ] {
        let group = store.group(by, &all, TimeRange::default(), RankBy::Flows, 10, 0).unwrap();
        let named: Vec<&str> = group.rows.iter().filter_map(|row| row.name.as_deref()).collect();
        assert_eq!(named, wanted.into_iter().collect::<Vec<_>>(), "{by:?}: {group:?}");
    }
    // The rows of a list add up to its total, in every list: a flow is in the rows of both its hosts.
    for by in [
        GroupBy::Sender,
        GroupBy::Receiver,
        GroupBy::Client,
        GroupBy::Server,
        GroupBy::Host,
        GroupBy::Pair,
        GroupBy::Service,
        GroupBy::Application,
        GroupBy::Name,
    ] {
        let all_of = |limit| store.group(by, &all, TimeRange::default(), RankBy::Flows, limit, 0).unwrap();
        let whole = all_of(1000);
        assert_eq!(
            whole.rows.iter().map(|row| row.bytes).sum::<u64>(),
            whole.total.bytes,
            "{by:?}: {whole:?}"
        );
        assert_eq!(
            whole.rows.iter().map(|row| row.packets).sum::<u64>(),
            whole.total.packets,
            "{by:?}: {whole:?}"
        );
        assert_eq!(all_of(1).total, whole.total, "{by:?}");
    }
    let error = store.top("talker", TimeRange::default(), None, 3).unwrap_err().to_string();
    assert!(error.contains("talkers"), "{error}");

    let flows = store.flows(&wanted("")).unwrap();
    assert_eq!((flows.matched, flows.rows.len()), (2, 2));
    let all: u64 = [&flow, &ping].iter().map(|f| f.forward.frame_bytes + f.reverse.frame_bytes).sum();
    assert_eq!(flows.matched_bytes, all);
    assert_eq!(flows.histogram.flows.iter().sum::<u64>(), 2);
    let shown = flows.rows.iter().find(|row| row.name.is_some()).unwrap();
    assert_eq!(shown.packets, [flow.forward.packets, flow.reverse.packets]);
    assert_eq!(shown.state, flow.state.name());
    assert!(shown.community_id.starts_with("1:"), "{shown:?}");
    let detail = store.flow(&shown.id).unwrap().unwrap();
    assert_eq!(detail.flow, *shown);
    assert!(detail.details.iter().any(|row| row.name == "ttl"), "{detail:?}");
    assert!(store.flow("Czzzzzzzzzzzzzzzzzz").unwrap().is_none() && store.flow("'; DROP").unwrap().is_none());

    let table = fixtures::record().table.name.to_owned();
    assert_eq!(store.record_counts().unwrap(), [(table.clone(), 1)]);
    let ask_with = |text: &str, payload: bool| {
        let test = FlowTest::All(Vec::new());
        let wanted = RecordsWanted {
            table: table.clone(),
            test,
            text: text.to_owned(),
            payload,
            span: TimeRange::default(),
            order: RecordOrder::Time,
            descending: true,
            limit: 9,
            offset: 0,
        };
        store.records(&wanted).unwrap()
    };
    let ask = |text: &str| ask_with(text, true);
    let records = ask("");
    assert_eq!((records.matched, records.rows.len()), (1, 1));
    assert!(!records.rows[0].values.is_empty());
    assert_eq!(ask("no such thing").matched, 0);
    // Without the right to see payload its fields are empty, and a search does not find their text.
    let bare = ask_with("", false);
    assert_eq!((bare.matched, bare.rows.len()), (1, 1));
    assert!(records.rows[0].values.contains_key("detail") && !bare.rows[0].values.contains_key("detail"));
    assert_eq!((ask("b, ").matched, ask_with("b, ", false).matched), (1, 0), "in the detail");
    assert_eq!((ask("LINE_too").matched, ask_with("LINE_too", false).matched), (1, 1), "in the name");
    assert_eq!(ask_with("LINE_too", false).rows.len(), 1);
    assert!(bare.partial.unwrap().contains("without the right packets"));
    let state = store.state().unwrap();
    assert!(state.bytes > 0 && state.bound > 0 && state.state == "reading", "{state:?}");
    assert!(store.distinct(TimeRange::default()).unwrap().rows.len() <= 1);
}

pub fn points_of_every_step_have_the_same_sum(engine: &Engine) {
    let folder = tempfile::tempdir().unwrap();
    let mut to = engine.writer(folder.path());
    // Three hours of half minutes.
    let values: Vec<u64> = (0..360).map(|at| 100 + at * 37 % 91).collect();
    for (at, value) in values.iter().enumerate() {
        to.interval(&interval(DAY0 + at as u64 * 30 * S, 30 * S, *value, &[])).unwrap();
    }
    let store = engine.store(folder.path());
    let all: u64 = values.iter().sum();
    for points in [1, 3, 7, 36, 180, 360, 5000] {
        let data = store.points(&ids("caught"), TimeRange::default(), points).unwrap();
        let sum: f64 = caught(&data).into_iter().flatten().map(|rate| rate * data.step).sum();
        // The last bucket may end after the data; its rate is then over the measured part.
        let whole = (3.0 * 3600.0 / data.step).fract() == 0.0;
        assert!(
            !whole || (sum - all as f64).abs() < 1e-3,
            "{points}: {sum} is not {all}, step {}",
            data.step
        );
        assert!(data.times.len() <= points.max(1) + 1, "{points}: {}", data.times.len());
        let (min, max) = (&data.series[0].min, &data.series[0].max);
        let min = min.iter().flatten().fold(f64::MAX, |a, b| a.min(*b));
        let max = max.iter().flatten().fold(0.0_f64, |a, b| a.max(*b));
        assert!((min * 30.0 - 100.0).abs() < 1e-6 && (max * 30.0 - 190.0).abs() < 1e-6, "{min} {max}");
    }
    let hour = TimeRange { from: Some(DAY0 + 3600 * S), to: Some(DAY0 + 7200 * S) };
    let data = store.points(&ids("caught"), hour, 1).unwrap();
    let expected: u64 = values[120..240].iter().sum();
    assert_eq!((data.tier.as_str(), data.times.len()), ("1h", 1));
    assert!((caught(&data)[0].unwrap() * 3600.0 - expected as f64).abs() < 1e-3);
}

/// Steps of an exact length, from whatever tier adds up to them: over a day of half minutes, of which the first hours are kept in
/// coarse cells only.
pub fn steps_of_an_exact_length_begin_at_their_multiples(engine: &Engine) {
    let folder = tempfile::tempdir().unwrap();
    let mut keep = Keep { free: 0, ..Keep::default() };
    (keep.series[0], keep.series[1]) = (6 * 3600 * S, 12 * 3600 * S);
    let mut to = engine.open(&context(folder.path(), Existing::Continue), keep);
    let value = |at: u64| 100 + at * 37 % 91;
    for at in 0..2 * 1440 {
        to.interval(&interval(DAY0 + at * 30 * S, 30 * S, value(at), &[])).unwrap();
    }
    to.finish().unwrap();
    let store = engine.store(folder.path());
    let (minute, hour) = (60 * S, 3600 * S);
    let ask = |from: u64, to: u64, base: u64, step: u64| {
        let span = TimeRange { from: Some(from), to: Some(to) };
        store.kept_points(&ids("caught"), span, Steps::Exact { base, step })
    };
    for (from, to, offset, step, tier) in [
        (DAY0, DAY0 + 24 * hour, 0, hour, "1h"),
        (DAY0 + 2 * hour, DAY0 + 20 * hour, hour, 6 * hour, "1h"),
        (DAY0 + 14 * hour, DAY0 + 24 * hour, 0, 10 * minute, "5m"),
        (DAY0 + 14 * hour, DAY0 + 24 * hour, 30 * minute, hour, "5m"),
        (DAY0 + 14 * hour + 5 * minute, DAY0 + 19 * hour + 10 * minute, 0, hour, "1h"),
        (DAY0 + 19 * hour, DAY0 + 24 * hour, 0, 90 * S, "interval"),
        (DAY0 + 19 * hour + 30 * S, DAY0 + 20 * hour + 30 * S, 0, 30 * minute, "5m"),
        (DAY0, DAY0 + 24 * hour, 0, 24 * hour, "1d"),
    ] {
        let what = format!("{from} to {to}, {step} at {offset}");
        let first = from - (from - offset) % step;
        // A base before the range, in it and after it is an equal grid.
        for base in [offset, first, first + 2 * step, first + 50 * step] {
            let data = ask(from, to, base, step).unwrap();
            assert_eq!((data.tier.as_str(), data.step), (tier, (step / S) as f64), "{what}");
            let starts: Vec<u64> = (first..to).step_by(step as usize).collect();
            assert_eq!(data.times, starts.iter().map(|at| (at / S) as f64).collect::<Vec<_>>(), "{what}");
            for ((start, rate), width) in starts.iter().zip(caught(&data)).zip(&data.widths) {
                let cells = (*start).max(from)..(start + step).min(to);
                let expected: u64 =
                    (0..2880).filter(|at| cells.contains(&(DAY0 + at * 30 * S))).map(value).sum();
                let sum = rate.unwrap() * width;
                assert!((sum - expected as f64).abs() < 1e-3, "{what}: {sum} is not {expected} at {start}");
            }
        }
    }
    // Lengths that no stored cells add up to, and more parts than an answer has.
    for (from, step, offset) in [
        (DAY0, 10 * minute, 0),
        (DAY0, hour, 30 * minute),
        (DAY0 + 14 * hour, 7 * minute, 0),
        (DAY0 + 19 * hour, 45 * S, 0),
    ] {
        let wrong = ask(from, DAY0 + 24 * hour, offset, step).unwrap_err().to_string();
        assert!(wrong.contains("`every` takes a multiple of them"), "{wrong}");
    }
}

/// Two lists of one subscription have names of their own.
pub fn each_function_of_a_subscription_has_its_list(engine: &Engine) {
    let folder = tempfile::tempdir().unwrap();
    let mut to = engine.writer(folder.path());
    let mut snapshot = interval(DAY0, 10 * S, 5, &[(1, 100)]);
    let mut second = fixtures::answer("sources", None, "top", fixtures::top(KeyKind::Port, Vec::new()));
    second.id.place = 1;
    let mut third = second.clone();
    third.id.place = 2;
    snapshot.answers.extend([second, third]);
    to.interval(&snapshot).unwrap();
    to.finish().unwrap();
    let mut names: Vec<String> =
        engine.store(folder.path()).lists().unwrap().lists.into_iter().map(|list| list.name).collect();
    names.sort_unstable();
    assert!(names.contains(&"sources".to_owned()), "{names:?}");
    assert!(names.contains(&"sources top".to_owned()), "{names:?}");
    assert!(names.contains(&"sources top 2".to_owned()), "{names:?}");
}

/// As in a capture, the first and the last interval are shorter, and the day began long before.
pub fn the_heaviest_series_and_the_sum_of_the_others_are_complete(engine: &Engine) {
    const LINES: u64 = 10_000;
    let folder = tempfile::tempdir().unwrap();
    let mut to = engine.writer(folder.path());
    for at in 0..4 {
        let mut snapshot = interval(DAY0 + at * 10 * S, 10 * S, 5, &[]);
        snapshot.answers = (0..LINES)
            .map(|line| {
                // Every second line is absent in every second interval.
                let packets = if (line + at) % 2 == 0 { 10 * (line + 1) } else { 0 };
                let name = format!("line {line}");
                fixtures::answer(&name, Some("chart"), "count", Reading::Count(count(packets, packets * 100)))
            })
            .collect();
        to.interval(&snapshot).unwrap();
    }
    let store = engine.store(folder.path());
    let ids: Vec<String> = (0..LINES).map(|line| line_id("chart", &format!("line {line}"), false)).collect();
    let data = store.heaviest(&ids, TimeRange::default(), 600, 3).unwrap();
    let names: Vec<&str> = data.series.iter().map(|series| series.id.as_str()).collect();
    let (ranking, others) = (data.ranking.unwrap(), data.others.unwrap());
    assert_eq!(names, ids[9997..].iter().rev().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(ranking.iter().take(3).map(|one| one.id.as_str()).collect::<Vec<_>>(), names);
    assert_eq!((ranking.len(), ranking[0].weight), (10_000, 2.0 * 10.0 * 10_000.0));
    assert!(data.times.len() >= 4 && data.partial.is_none());
    for at in 0..4 {
        let sum: f64 = data.series.iter().map(|series| series.avg[at].unwrap()).sum();
        let all: u64 =
            (0..LINES).filter(|line| (line + at as u64).is_multiple_of(2)).map(|line| line + 1).sum();
        assert!((sum + others.avg[at].unwrap() - all as f64).abs() < 1e-3, "{at}: {sum}");
    }
}

pub fn tiers_keep_their_configured_age_and_readers_see_it(engine: &Engine) {
    let folder = tempfile::tempdir().unwrap();
    let hour = 3600 * S;
    let mut keep = Keep { free: 0, ..Keep::default() };
    (keep.series[0], keep.series[1], keep.lists[0]) = (hour, 3 * hour, hour);
    let mut to = engine.open(&context(folder.path(), Existing::Continue), keep);
    for at in 0..10 * 60 {
        to.interval(&interval(DAY0 + at * 60 * S, 60 * S, 60, &[(1, 9)])).unwrap();
    }
    to.finish().unwrap();
    let store = engine.store(folder.path());
    let state = store.state().unwrap();
    let first = |name: &str| {
        let tier = state.tiers.iter().find(|tier| tier.name == name).unwrap();
        (tier.keep, tier.first.unwrap() - (DAY0 / S) as f64)
    };
    // Old data is searched for once an hour.
    assert_eq!(first("series interval"), (3600.0, 9.0 * 3600.0));
    assert_eq!(first("series 5m"), (3.0 * 3600.0, 7.0 * 3600.0));
    assert_eq!(first("series 1h"), (366.0 * 86_400.0, 0.0));
    assert_eq!(first("lists interval"), (3600.0, 9.0 * 3600.0));
    assert_eq!(first("lists 1h"), (92.0 * 86_400.0, 0.0));
    assert!(state.tiers.iter().all(|tier| tier.bytes > 0 || tier.name == "flows and records"), "{state:?}");
}

/// Two weeks of intervals of an hour around the night of a clock change; the value of each is its local hour.
pub fn the_band_follows_local_time_across_clock_changes(engine: &Engine) {
    for (name, from) in [("back", "2026-10-18T22:00:00Z"), ("forward", "2026-03-22T23:00:00Z")] {
        let folder = tempfile::tempdir().unwrap();
        let mut to = engine.writer(folder.path());
        let zone = Zone::named("Europe/Berlin").unwrap();
        let begin = from.parse::<Timestamp>().unwrap().as_nanosecond() as u64;
        let shown = |time: u64| zone.clock(time).get(..2).unwrap().parse::<u64>().unwrap();
        for at in 0..14 * 24 {
            let start = begin + at * 3600 * S;
            to.interval(&interval(start, 3600 * S, 3600 * (shown(start) + 1), &[])).unwrap();
        }
        let store = engine.store(folder.path());
        // The week after the change, without the hour of which a part was before the first interval.
        let span = TimeRange { from: Some(begin + (7 * 24 + 1) * 3600 * S), to: None };
        let band = store.band(&ids("caught"), span, 167, 1, &zone).unwrap();
        assert_eq!((band.weeks, band.times.len()), (1, 167), "{name}");
        for (time, mid) in band.times.iter().zip(&band.series[0].mid) {
            // In the night of the change no hour began at two: the next hour replaces it.
            let is_skipped = *time == 1_775_347_200.0;
            let now = shown((time * 1e9) as u64) + 1 + u64::from(is_skipped);
            assert!((mid.unwrap() - now as f64).abs() < 1e-6, "{name}: {time}: {mid:?} {now}");
        }
        // In a zone without clock changes the weeks are an hour apart.
        let utc = store.band(&ids("caught"), span, 167, 1, &Zone::utc()).unwrap();
        assert_ne!(utc.series[0].mid, band.series[0].mid);
    }
}

pub fn intervals_of_a_second_give_points_of_a_second(engine: &Engine) {
    let folder = tempfile::tempdir().unwrap();
    let mut to = engine.writer(folder.path());
    let start = DAY0 + 43_200 * S + S / 2;
    to.interval(&interval(start, S / 2, 5, &[])).unwrap();
    for at in 0..20 {
        to.interval(&interval(start + S / 2 + at * S, S, 10, &[])).unwrap();
    }
    to.interval(&interval(start + S / 2 + 20 * S, S / 3, 3, &[])).unwrap();
    let store = engine.store(folder.path());
    for from in [None, Some(DAY0 - 7 * 86_400 * S), Some(start)] {
        let span = TimeRange { from, to: Some(start + 21 * S) };
        let data = store.points(&ids("caught"), span, 100_000).unwrap();
        assert_eq!((data.step, data.tier.as_str()), (1.0, "interval"), "{from:?}");
        let found: Vec<f64> = caught(&data).into_iter().flatten().collect();
        assert_eq!((found.len(), found[0], found[1]), (22, 10.0, 10.0), "{from:?}");
    }
}

/// The first interval of a live run ends at the next half minute: a step is still half a minute and contains all of
/// it.
pub fn a_short_first_interval_is_in_one_whole_step(engine: &Engine) {
    let folder = tempfile::tempdir().unwrap();
    let whole = OutputContext { interval: 30 * S, ..context(folder.path(), Existing::Continue) };
    let mut to = engine.open(&whole, limits());
    to.interval(&interval(DAY0 + 14 * S, 16 * S, 3540, &[])).unwrap();
    to.finish().unwrap();
    let data = engine.store(folder.path()).points(&ids("caught"), TimeRange::default(), 600).unwrap();
    assert_eq!((data.step, data.times.as_slice()), (30.0, &[(DAY0 / S) as f64][..]));
    assert_eq!(caught(&data), [Some(3540.0 / 16.0)]);
}

pub fn a_list_over_a_range_is_the_sum_of_its_intervals(engine: &Engine) {
    let folder = tempfile::tempdir().unwrap();
    let mut to = engine.writer(folder.path());
    // Intervals of ten minutes, over the end of a month, with weeks and days in it.
    let start = DAY0 + 5 * 86_400 * S;
    let step = 600 * S;
    let sources = |at: u64| [((at % 50) as u8, 1000 + at), (77, 10), ((at % 7) as u8 + 100, 500)];
    let count = 6 * 24 * 9;
    for at in 0..count {
        to.interval(&interval(start + at * step, step, 1, &sources(at))).unwrap();
    }
    let store = engine.store(folder.path());
    // Single intervals are kept for two days; before that, ends are rounded to hours, as `partial` states.
    let last = count - 2 * 144;
    let exact =
        [(0, count), (0, 6), (144, 288), (6, 900), (last + 7, count), (6, last + 100), (last + 9, last + 10)];
    let rounded = [(1, count), (5, 7), (145, 1000)];
    for ((from, to), is_exact) in
        exact.map(|span| (span, true)).into_iter().chain(rounded.map(|span| (span, false)))
    {
        let mut truth = std::collections::BTreeMap::new();
        for at in from..to {
            for (host, bytes) in sources(at) {
                *truth.entry(format!("10.0.0.{host}")).or_insert(0) += bytes;
            }
        }
        let span = TimeRange { from: Some(start + from * step), to: Some(start + to * step) };
        let top = store.top("sources", span, None, 1000).unwrap();
        let found = top.rows.into_iter().map(|row| (row.label, row.bytes)).collect();
        assert_eq!(truth == found, is_exact, "{from}..{to}: {truth:?}\n{found:?}");
        assert_eq!(top.partial.is_none(), is_exact, "{from}..{to}: {:?}", top.partial);
    }
    let nothing = TimeRange { from: Some(DAY0 - 2 * S), to: Some(DAY0 - S) };
    assert!(store.top("sources", nothing, None, 10).unwrap().rows.is_empty());
}

/// Two days of intervals of ten minutes: curves of hours from cells of hours, of minutes from intervals. The sum of a
/// curve equals its row.
pub fn curves_add_up_to_their_rows(engine: &Engine) {
    let folder = tempfile::tempdir().unwrap();
    let mut to = engine.writer(folder.path());
    let length = 600 * S;
    for at in 0..288 {
        // One source sends always, the other only in the second hour of each day.
        let second = if at / 6 % 24 == 1 { 700 } else { 0 };
        to.interval(&interval(DAY0 + at * length, length, 10, &[(1, 1000 + at), (2, second)])).unwrap();
    }
    to.finish().unwrap();
    let store = engine.store(folder.path());
    let (day, hour) = (86_400 * S, 3600 * S);
    for (from, long, parts) in
        [(0, 2 * day, 48), (day, day, 24), (day, 6 * hour, 36), (hour, hour, 6), (0, day, 7)]
    {
        let span = TimeRange { from: Some(DAY0 + from), to: Some(DAY0 + from + long) };
        let top = store.top_over_time("sources", span, None, 10, parts).unwrap();
        for row in &top.rows {
            let curve = row.spark.as_ref().unwrap();
            let sum: u64 = curve.iter().sum();
            // The rounding error of a cell in several parts is less than their number.
            assert!(sum <= row.bytes && row.bytes - sum < 49 * 4, "{parts} parts: {sum} of {}", row.bytes);
            assert_eq!(curve.len(), parts);
        }
    }
    let span = TimeRange { from: Some(DAY0), to: Some(DAY0 + 2 * day) };
    let top = store.top_over_time("sources", span, None, 10, 48).unwrap();
    let second = top.rows.iter().find(|row| row.label == "10.0.0.2").unwrap();
    let spoken: Vec<usize> = second
        .spark
        .iter()
        .flatten()
        .enumerate()
        .filter(|(_, value)| **value > 0)
        .map(|(at, _)| at)
        .collect();
    assert_eq!(spoken, [1, 25]);
    assert!(store.top("sources", span, None, 10).unwrap().rows.iter().all(|row| row.spark.is_none()));
}

/// A flow of a client to a TCP port of 192.0.2.9, with 7 packets of 610 bytes from the client and, if it was answered, 7 of
/// 5477 bytes from the server.
fn flow_to(id: u64, port: u16, (first, last): (u64, u64), is_answered: bool) -> FlowRecord {
    let mut flow = fixtures::flow();
    flow.id = id;
    (flow.first, flow.last) = (Time(first), Time(last));
    flow.key.addr = [weir_wire::mapped([10, 0, 0, 5]), weir_wire::mapped([192, 0, 2, 9])];
    flow.key.port = [1000, port];
    if !is_answered {
        flow.reverse = Default::default();
    }
    flow
}

/// Where only coarser cells are left, the points of all traffic are computed from flows; an expression always is.
pub fn points_of_a_short_time_are_computed_from_flows_where_intervals_are_gone(engine: &Engine) {
    let folder = tempfile::tempdir().unwrap();
    let hour = 3600 * S;
    let mut keep = Keep { free: 0, ..Keep::default() };
    (keep.series[0], keep.series[1]) = (hour, 2 * hour);
    let mut to = engine.open(&context(folder.path(), Existing::Continue), keep);
    for at in 0..10 * 60 {
        to.interval(&interval(DAY0 + at * 60 * S, 60 * S, 60, &[])).unwrap();
    }
    // One within the minute, and one of which half is in it.
    let minute = DAY0 + hour + 60 * S;
    to.flow(&flow_to(1, 80, (minute + 20 * S, minute + 21 * S), true)).unwrap();
    to.flow(&flow_to(2, 25, (minute + 30 * S, minute + 90 * S), false)).unwrap();
    to.finish().unwrap();
    let store = engine.store(folder.path());
    let sum = |data: &SeriesData, at: usize| -> f64 {
        let values = data.series[at].avg.iter().map(|value| value.unwrap_or(0.0));
        values.zip(&data.widths).map(|(value, width)| value * width).sum()
    };
    let span = TimeRange { from: Some(minute), to: Some(minute + 60 * S) };
    let both = [ids("bytes"), ids("caught")].concat();
    let data = store.points(&both, span, 6).unwrap();
    assert_eq!((data.tier.as_str(), data.step, data.times.len()), ("flows", 10.0, 6));
    assert_eq!(data.basis.range, [(minute / S) as f64, (minute / S + 60) as f64]);
    assert_eq!((data.basis.source, data.basis.bound, &data.partial), (Source::Flows, Some(305), &None));
    assert_eq!(data.series.iter().map(|points| points.id.as_str()).collect::<Vec<_>>(), both);
    assert_eq!((sum(&data, 0).round(), sum(&data, 1).round()), ((610.0 + 5477.0 + 305.0) * 8.0, 17.0));
    let crossing = data.crossing.unwrap();
    assert_eq!((crossing.flows, crossing.counted.bytes, crossing.whole.bytes), (1, 305, 610));
    // The hour is stored whole, and a recent minute in detail.
    let whole = TimeRange { from: Some(DAY0 + hour), to: Some(DAY0 + 2 * hour) };
    assert_eq!(store.points(&both, whole, 6).unwrap().tier, "1h");
    let recent = TimeRange { from: Some(DAY0 + 599 * 60 * S), to: None };
    assert_eq!(store.points(&both, recent, 6).unwrap().tier, "interval");
    // Other series have no flows: the answer states its range.
    let dropped = store.points(&ids("dropped"), span, 6).unwrap();
    assert_eq!((dropped.tier.as_str(), dropped.basis.range[0]), ("1h", ((DAY0 + hour) / S) as f64));
    assert!(dropped.partial.as_deref().is_some_and(|text| text.contains("rounded to 1h")), "{dropped:?}");
    let test = FlowTest::parse("tcp port 80", &Options::default()).unwrap();
    let data = store.points_of_flows(&test, span, 6).unwrap();
    assert_eq!((sum(&data, 0).round(), data.crossing), ((610.0 + 5477.0) * 8.0, None));
}

/// Ranges that are reversed, empty, in the future or much longer than the stored time have an answer of every query, and
/// none has more than the stored packets.
pub fn every_range_has_an_answer(engine: &Engine) {
    let folder = tempfile::tempdir().unwrap();
    let mut to = engine.writer(folder.path());
    for at in 0..60 {
        to.interval(&interval(DAY0 + at * 60 * S, 60 * S, 60, &[(1, 9)])).unwrap();
        to.flow(&flow_to(at + 1, 80, (DAY0 + at * 60 * S, DAY0 + at * 60 * S + S), true)).unwrap();
    }
    to.finish().unwrap();
    let store = engine.store(folder.path());
    let year = 365 * 86_400 * S;
    let (begin, end) = (DAY0, DAY0 + 3600 * S);
    let all = FlowTest::All(Vec::new());
    for (from, to, packets) in [
        (end, begin, 0),
        (begin + 600 * S, begin + 600 * S, 0),
        (end + year, end + 2 * year, 0),
        (0, 1, 0),
        (begin - 5 * year, end + 5 * year, 3600),
        (0, u64::MAX, 3600),
        (u64::MAX - 1, u64::MAX, 0),
        (begin, end, 3600),
    ] {
        let span = TimeRange { from: Some(from), to: Some(to) };
        let what = format!("{from} to {to}");
        for points in [1, 7, 100_000] {
            let data = store.points(&ids("caught"), span, points).unwrap();
            let values = data.series[0].avg.iter().map(|value| value.unwrap_or(0.0));
            let sum: f64 = values.zip(&data.widths).map(|(value, width)| value * width).sum();
            assert!(sum <= 3600.5 && (packets == 0 || (sum - 3600.0).abs() < 0.5), "{what}: {sum}");
            assert!(data.times.len() <= 100_001, "{what}");
            let flows = store.points_of_flows(&all, span, points).unwrap();
            assert!(flows.times.len() <= 10_001, "{what}");
        }
        let top = store.top_over_time("sources", span, None, 9, 5).unwrap();
        let bytes = top.rows.first().map_or(0, |row| row.bytes);
        assert!(bytes <= 540 && (packets == 0 || bytes == 540), "{what}: {bytes}");
        let group = store.group(GroupBy::Server, &all, span, RankBy::Flows, 9, 5).unwrap();
        let flows = group.rows.first().map_or(0, |row| row.flows);
        assert!(packets == 0 && flows <= 1 || flows == 60, "{what}: {flows} flows");
        assert!(store.flows(&FlowsWanted { span, ..wanted("") }).unwrap().rows.len() <= 100, "{what}");
        store.news(span).unwrap();
        store.distinct(span).unwrap();
        store.events(span, 9).unwrap();
        store.band(&ids("caught"), span, 100, 4, &Zone::utc()).unwrap();
        store.trial(&all, span).unwrap();
    }
}

pub fn answers_say_that_flows_before_their_range_are_gone(engine: &Engine) {
    let folder = tempfile::tempdir().unwrap();
    let day = 86_400 * S;
    let keep = Keep { free: 0, age: 2 * day, ..Keep::default() };
    let mut to = engine.open(&context(folder.path(), Existing::Continue), keep);
    for at in 0..6 {
        to.flow(&flow_to(at + 1, 80, (DAY0 + at * day, DAY0 + at * day + S), true)).unwrap();
        to.interval(&interval(DAY0 + at * day, day, 60, &[])).unwrap();
        to.flush().unwrap();
    }
    to.finish().unwrap();
    let store = engine.store(folder.path());
    let flows = |from: u64| {
        let span = TimeRange { from: Some(from), to: None };
        store.group(GroupBy::Server, &FlowTest::All(Vec::new()), span, RankBy::Flows, 9, 0).unwrap()
    };
    let old = flows(DAY0);
    assert!(old.rows[0].flows < 6, "{old:?}");
    assert!(old.partial.unwrap().contains("no longer stored"));
    assert_eq!(flows(DAY0 + 5 * day).partial, None);
}

pub fn news_are_keys_that_were_not_seen_before(engine: &Engine) {
    let folder = tempfile::tempdir().unwrap();
    let mut to = engine.writer(folder.path());
    for at in 0..48 {
        let new: &[(u8, u64)] = if at < 40 { &[(1, 10)] } else { &[(1, 10), (2, 99)] };
        to.interval(&interval(DAY0 + at * 3600 * S, 3600 * S, 1, new)).unwrap();
    }
    let store = engine.store(folder.path());
    let news = store.news(TimeRange { from: Some(DAY0 + 40 * 3600 * S), to: None }).unwrap();
    assert_eq!(news.rows.iter().map(|row| row.label.as_str()).collect::<Vec<_>>(), ["10.0.0.2"]);
    assert!(store.news(TimeRange::default()).unwrap().partial.is_some());
    let band = store
        .band(&ids("caught"), TimeRange { from: Some(DAY0 + 40 * 3600 * S), to: None }, 10, 4, &Zone::utc())
        .unwrap();
    assert_eq!(band.weeks, 0, "there is no week before");
}

pub fn the_band_covers_the_previous_weeks(engine: &Engine) {
    let folder = tempfile::tempdir().unwrap();
    let mut to = engine.writer(folder.path());
    for at in 0..24 * 7 * 4 {
        let week = at / (24 * 7);
        to.interval(&interval(DAY0 + at * 3600 * S, 3600 * S, 3600 * (week + 1), &[])).unwrap();
    }
    let store = engine.store(folder.path());
    let last = DAY0 + 3 * 7 * 86_400 * S;
    let span = TimeRange { from: Some(last), to: Some(last + 86_400 * S) };
    let band = store.band(&ids("caught"), span, 24, 4, &Zone::utc()).unwrap();
    assert_eq!((band.weeks, band.times.len()), (3, 24));
    let [points] = band.series.as_slice() else { panic!("{band:?}") };
    assert!(points.low.iter().all(|low| *low == Some(1.0)), "{points:?}");
    assert!(
        points.mid.iter().all(|mid| *mid == Some(2.0)) && points.high.iter().all(|high| *high == Some(3.0))
    );
}

/// Evaluates each test in SQL and directly.
pub fn sql_conditions_equal_their_tests(engine: &Engine) {
    let folder = tempfile::tempdir().unwrap();
    let mut to = engine.writer(folder.path());
    let mut flows: Vec<FlowRecord> = Vec::new();
    for at in 0..64_u32 {
        let mut flow = if at % 4 == 0 { fixtures::ping() } else { fixtures::flow() };
        flow.id = u64::from(at) + 1;
        flow.first = Time(DAY0 + u64::from(at) * S);
        flow.last = Time(flow.first.0 + u64::from(at % 5) * S);
        flow.key.addr = match at % 3 {
            0 => [weir_wire::mapped([10, 0, 0, at as u8]), weir_wire::mapped([192, 0, 2, 9])],
            1 => [weir_wire::mapped([10, 0, 1, 1]), weir_wire::mapped([10, 0, 0, 3])],
            _ => [[0x20; 16], [at as u8; 16]],
        };
        if at % 4 != 0 {
            flow.key.port = [1000 + at as u16, [53, 80, 443][at as usize % 3]];
            flow.key.proto = if at % 5 == 0 { 17 } else { 6 };
        }
        flow.initiator_is_lower = at % 2 == 0;
        flow.vlan = [[0, 5, 7][at as usize % 3], 0];
        flows.push(flow);
    }
    for flow in &flows {
        to.flow(flow).unwrap();
    }
    to.flush().unwrap();
    let store = engine.store(folder.path());
    for text in [
        "",
        "host 10.0.0.3",
        "src host 10.0.0.3",
        "dst net 192.0.2.0/24",
        "not net 10.0.0.0/8",
        "ip6",
        "tcp port 80 or udp",
        "src port 1007",
        "portrange 1010-1030 and not vlan 5",
        "vlan",
        "icmp",
        "ip and not (tcp or icmp)",
        "src and dst net 10.0.0.0/8",
        "src net 10.0.0.0/28 or dst port 443",
        "proto 1",
        "ip6 src host 2020:2020:2020:2020:2020:2020:2020:2020",
    ] {
        let test = FlowTest::parse(text, &Options::default()).unwrap();
        let truth: Vec<String> = flows
            .iter()
            .filter(|flow| {
                let (source, destination) = (flow.initiator(), flow.responder());
                let ends = FlowEndpoints {
                    address: [source.0, destination.0],
                    port: [source.1, destination.1],
                    protocol: flow.key.proto,
                    vlan: flow.vlan[0],
                };
                let is_sent = |packets: u64, ends: &FlowEndpoints| packets > 0 && test.holds(ends);
                match test.is_directed() {
                    true => {
                        is_sent(flow.forward.packets, &ends)
                            || is_sent(flow.reverse.packets, &ends.reversed())
                    }
                    false => test.holds(&ends),
                }
            })
            .map(|flow| weir_output::row::uid(flow.id))
            .collect();
        let found = store.flows(&wanted(text)).unwrap();
        assert_eq!(found.rows.into_iter().map(|row| row.uid).collect::<Vec<_>>(), truth, "{text}");
        let trial = store.trial(&test, TimeRange::default()).unwrap();
        assert_eq!((trial.flows, trial.of.flows), (truth.len() as u64, 64), "{text}");
    }
    // Orders and pages.
    for (name, order) in FlowOrder::ALL {
        let mut whole = Vec::new();
        for offset in (0..70).step_by(10) {
            let page = store.flows(&FlowsWanted { order, offset, limit: 10, ..wanted("") }).unwrap();
            whole.extend(page.rows.into_iter().map(|row| row.id));
        }
        assert_eq!(whole.len(), 64, "{name}");
        let mut down: Vec<String> = store
            .flows(&FlowsWanted { order, descending: true, limit: 64, ..wanted("") })
            .unwrap()
            .rows
            .into_iter()
            .map(|row| row.id)
            .collect();
        whole.sort();
        down.sort();
        assert_eq!(whole, down, "{name}");
    }
    let groups = store
        .group(GroupBy::Service, &FlowTest::All(Vec::new()), TimeRange::default(), RankBy::Flows, 100, 0)
        .unwrap();
    assert_eq!(groups.rows.iter().map(|row| row.flows).sum::<u64>(), 64);
}

/// All rows have one second and one interval, as in a flood.
pub fn a_store_of_files_stays_under_its_size_limit(engine: &Engine) {
    let folder = tempfile::tempdir().unwrap();
    let keep = Keep { bytes: 10 << 20, free: 0, ..Keep::default() };
    let mut to = engine.open(&context(folder.path(), Existing::Replace), keep);
    let size = || {
        let files = std::fs::read_dir(folder.path()).unwrap().flatten();
        files.filter_map(|file| file.metadata().ok()).map(|data| data.len()).sum::<u64>()
    };
    let mut max = 0;
    for at in 0..120_000_u64 {
        to.flow(&fixtures::flow()).unwrap();
        if at % 100 == 0 {
            max = max.max(size());
        }
        if at % 2000 == 0 {
            // Short intervals, so that series and lists alone would exceed the limit.
            for second in 0..20 {
                let start = DAY0 + (at / 2000 * 20 + second) * S;
                let sources: Vec<(u8, u64)> = (0..100).map(|host| (host, at + second)).collect();
                to.interval(&interval(start, S, 7, &sources)).unwrap();
            }
        }
    }
    to.finish().unwrap();
    max = max.max(size());
    println!("{max} bytes at most, {} at the end", size());
    assert!(max <= 10 << 20, "{max} bytes");
    assert!(size() > 5 << 20, "the limit is used: {} bytes", size());
    let store = engine.store(folder.path());
    let data = store.points(&ids("caught"), TimeRange::default(), 10).unwrap();
    assert!(caught(&data).iter().all(Option::is_some), "coarser cells are stored: {data:?}");
    let events = store.events(TimeRange::default(), 100).unwrap().events;
    assert!(events.iter().any(|event| event.text.contains("size limit")), "{events:?}");
}

pub fn clock_jumps_lose_nothing(engine: &Engine) {
    let folder = tempfile::tempdir().unwrap();
    let mut to = engine.writer(folder.path());
    let year = 365 * 86_400 * S;
    let times = [0, 3600 * S, 0, 10 * year, 10 * year + 30 * S, 7200 * S];
    for time in times {
        to.interval(&interval(DAY0 + time, 30 * S, 30, &[(1, 5)])).unwrap();
    }
    let store = engine.store(folder.path());
    let span = TimeRange { from: Some(DAY0), to: Some(DAY0 + 86_400 * S) };
    let data = store.points(&ids("caught"), span, 3000).unwrap();
    let measured: Vec<f64> = caught(&data).into_iter().flatten().collect();
    // Data written twice for one time is added, and silence between is zero only where it was watched.
    assert_eq!(measured, [2.0, 1.0, 1.0]);
    let top = store.top("sources", TimeRange::default(), None, 9).unwrap();
    assert_eq!(top.rows[0].bytes, 5 * times.len() as u64);
    let kinds: Vec<String> =
        store.events(TimeRange::default(), 10).unwrap().events.into_iter().map(|event| event.kind).collect();
    assert!(kinds.contains(&"clock".to_owned()), "{kinds:?}");
}

pub fn a_truncated_list_keeps_its_bounds(engine: &Engine) {
    let folder = tempfile::tempdir().unwrap();
    let mut to = engine.writer(folder.path());
    let mut truth: std::collections::BTreeMap<u32, u64> = std::collections::BTreeMap::new();
    for at in 0..20_u64 {
        let rows: Vec<TopRow> = (0..3000_u32)
            .map(|host| {
                let bytes = 10 + u64::from(host % 97) * (at + 1);
                *truth.entry(host).or_default() += bytes;
                TopRow {
                    key: Key::Address(IpAddr::from((0x0a00_0000 + host).to_be_bytes())),
                    count: count(1, bytes),
                    flows: 1,
                    error: 0,
                }
            })
            .collect();
        let mut snapshot = interval(DAY0 + at * 60 * S, 60 * S, 1, &[]);
        snapshot.answers =
            vec![fixtures::answer("sources", None, "top", fixtures::top(KeyKind::Source, rows))];
        to.interval(&snapshot).unwrap();
    }
    let top = engine.store(folder.path()).top("sources", TimeRange::default(), None, 10_000).unwrap();
    assert!(
        top.basis.bound > Some(0) && top.rows.len() <= 1024 && top.absent > 0,
        "{} {}",
        top.rows.len(),
        top.absent
    );
    let all: u64 = truth.values().sum();
    assert_eq!(top.total.bytes, all, "keys without a row are in the total");
    let found: std::collections::BTreeMap<&str, (u64, u64)> =
        top.rows.iter().map(|row| (row.label.as_str(), (row.bytes, row.error))).collect();
    for (host, bytes) in truth {
        let label = ip(&IpAddr::from((0x0a00_0000 + host).to_be_bytes()).to_string()).to_string();
        match found.get(label.as_str()) {
            Some((low, error)) => {
                assert!(*low <= bytes && bytes <= low + error, "{label} {low} {error} {bytes}")
            }
            None => assert!(bytes <= top.absent, "{label} had {bytes}, and {} is the most", top.absent),
        }
    }
}

pub fn silence_is_zero_where_it_was_watched_and_absent_elsewhere(engine: &Engine) {
    let folder = tempfile::tempdir().unwrap();
    let mut to = engine.writer(folder.path());
    let minute = 60 * S;
    let mut flow = fixtures::flow();
    (flow.first, flow.last) = (Time(DAY0 + S), Time(DAY0 + 2 * S));
    to.flow(&flow).unwrap();
    for (at, watched_from) in [(0, 0), (5, 1), (9, 9)] {
        let mut snapshot = interval(DAY0 + at * minute, minute, 60, &[(1, 9)]);
        snapshot.watched =
            Some(Interval { start: DAY0 + watched_from * minute, end: DAY0 + (at + 1) * minute });
        snapshot.answers.push(fixtures::answer("hosts", None, "distinct", fixtures::distinct(3)));
        to.interval(&snapshot).unwrap();
    }
    to.finish().unwrap();
    let store = engine.store(folder.path());
    assert_eq!(store.extent().unwrap(), Some((DAY0, DAY0 + 10 * minute)));
    let data = store.points(&ids("caught"), TimeRange::default(), 10).unwrap();
    let (one, zero) = (Some(1.0), Some(0.0));
    assert_eq!(caught(&data), [one, zero, zero, zero, zero, one, None, None, None, one]);
    let coarse = store.points(&ids("caught"), TimeRange::default(), 2).unwrap();
    assert_eq!((coarse.step, caught(&coarse)), (300.0, vec![Some(0.2), Some(1.0)]));
    assert_eq!((coarse.series[0].min[0], coarse.series[0].max[0]), (zero, one));
    // Nothing was measured where there was nothing.
    let hosts = store.points(&["distinct/hosts".to_owned()], TimeRange::default(), 10).unwrap();
    assert_eq!(caught(&hosts).iter().filter(|value| value.is_some()).count(), 3);
    // A series that was always zero is known.
    let dropped = store.points(&ids("dropped"), TimeRange::default(), 10).unwrap();
    assert_eq!(caught(&dropped)[1..3], [zero, zero]);
    // Queries, and the histogram of flows, as the series.
    let span = TimeRange { from: Some(DAY0), to: Some(DAY0 + 10 * minute) };
    let ask = |text: &str, [from, to]: [u64; 2]| {
        let [from, to] = [from, to].map(|at| (DAY0 + at * minute) / S);
        let text = format!("{text} since {from} until {to}");
        Question::parse(&text, &Asking::default()).unwrap().ask(&*store).unwrap()
    };
    for text in ["count flows every 1m", "top client every 1m", "top client by packets points 10"] {
        let answer = ask(text, [0, 10]);
        let values: Vec<Option<bool>> =
            answer.rows.iter().map(|row| row[1].as_f64().map(|value| value > 0.0)).collect();
        let (some, none) = (Some(true), Some(false));
        assert_eq!(
            values,
            [some, none, none, none, none, none, None, None, None, none],
            "{text}: {answer:?}"
        );
        assert!(
            answer.notes.iter().any(|note| note.contains("in 3 of the rows")),
            "{text}: {:?}",
            answer.notes
        );
    }
    let found = store.flows(&FlowsWanted { span, ..wanted("") }).unwrap().histogram;
    let unwatched = found.times.iter().zip(&found.watched).filter(|(_, watched)| **watched == 0.0);
    let unwatched: Vec<u64> = unwatched.map(|(time, _)| (*time as u64 - DAY0 / S) / 60).collect();
    assert!(!unwatched.is_empty() && unwatched.iter().all(|at| (6..9).contains(at)), "{unwatched:?}");
    // Of the three minutes before the last one, nothing can be compared.
    for (from, is_absent) in [(9, true), (5, false)] {
        let answer = ask("count flows by client compare", [from, from + 1]);
        let before = answer.columns.iter().position(|column| column.name == "before").unwrap();
        let total = answer.total.unwrap();
        assert_eq!(total[before].is_null(), is_absent, "{from}: {total:?}");
        assert_eq!(
            answer.notes.iter().any(|note| note.contains("nothing was watched")),
            is_absent,
            "{:?}",
            answer.notes
        );
    }
}

pub fn what_comes_later_of_an_interval_is_added_to_it(engine: &Engine) {
    let folder = tempfile::tempdir().unwrap();
    let mut to = engine.writer(folder.path());
    for packets in [30, 60] {
        to.interval(&interval(DAY0, 30 * S, packets, &[(1, packets)])).unwrap();
        to.interval(&interval(DAY0 + 30 * S, 30 * S, 30, &[])).unwrap();
    }
    let store = engine.store(folder.path());
    let data = store.points(&ids("caught"), TimeRange::default(), 2).unwrap();
    assert_eq!(caught(&data), [Some(3.0), Some(2.0)]);
    let coarse = store.points(&ids("caught"), TimeRange { from: None, to: Some(DAY0 + 300 * S) }, 1).unwrap();
    let series = &coarse.series[0];
    assert_eq!((series.avg[0], series.max[0]), (Some(2.5), Some(3.0)));
    let hour = TimeRange { from: Some(DAY0), to: Some(DAY0 + 3600 * S) };
    assert_eq!(store.top("sources", hour, None, 9).unwrap().rows[0].bytes, 90);
}

/// A list of a minute for which only coarser cells are left says which time it is of; where finer ones are left, a silence
/// is not answered with an hour.
pub fn lists_are_rounded_only_where_finer_ones_are_gone(engine: &Engine) {
    let folder = tempfile::tempdir().unwrap();
    let hour = 3600 * S;
    let mut keep = Keep { free: 0, ..Keep::default() };
    keep.lists[0] = 2 * hour;
    let mut to = engine.open(&context(folder.path(), Existing::Continue), keep);
    for at in 0..10 * 6 {
        to.interval(&interval(DAY0 + at * 600 * S, 60 * S, 60, &[(1, 10 + at)])).unwrap();
    }
    to.finish().unwrap();
    let store = engine.store(folder.path());
    let list = |from: u64, to: u64| {
        let span = TimeRange { from: Some(DAY0 + from), to: Some(DAY0 + to) };
        let top = store.top("sources", span, None, 9).unwrap();
        (top.rows.first().map_or(0, |row| row.bytes), top.partial)
    };
    let sum = |from: u64, to: u64| (from..to).map(|at| 10 + at).sum::<u64>();
    // Silence, and an interval, of the last two hours.
    assert_eq!(list(9 * hour + 120 * S, 9 * hour + 180 * S), (0, None));
    assert_eq!(list(9 * hour + 600 * S, 9 * hour + 660 * S), (10 + 55, None));
    let (bytes, partial) = list(hour + 120 * S, hour + 180 * S);
    assert_eq!(bytes, sum(6, 12));
    assert!(partial.unwrap().contains("rounded to 1h"));
    // Both ends of a range, of which one is gone.
    let (bytes, partial) = list(hour + 120 * S, 9 * hour + 660 * S);
    assert_eq!(bytes, sum(6, 56));
    assert!(partial.is_some());
    assert_eq!(list(hour, 9 * hour + 660 * S), (sum(6, 56), None));
}
