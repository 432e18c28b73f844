//! Answers to questions: what a store has, as tables.

use super::{Compare, Counting, Matter, POINTS, Question, kept};
use crate::basis::Moved;
use crate::label::{list_row, text_row};
use crate::payload::Withheld;
use crate::share::{Window, crossing_bound};
use crate::tally::{Cell, Measure, Subject, Sums, Tally, TallyRow, TallyWanted, unit_of};
use crate::{
    FlowOrder, FlowsWanted, RecordOrder, RecordsWanted, Steps, Store, StoreError, TimeRange, fields,
};
use serde_json::{Number, Value, json};
use std::collections::{HashMap, HashSet};
use weir_api::basis::{Basis, CLOSING, Source};
use weir_api::web::{Answered, Column, Crossing, Flow, TopList};
use weir_api::{Count, Key, TopRow, Unit, nearest_rank, state_words};
use weir_filter::FlowTest;
use weir_filter::fields::FieldInfo;
use weir_output::figures;
use weir_output::summary::Naming;

const SECOND: f64 = 1e9;
/// Quantiles of a field's values.
const QUANTILES: [(&str, f64); 4] = [("p50", 0.5), ("p90", 0.9), ("p95", 0.95), ("p99", 0.99)];
/// Length of a point of a series for its quantiles, by which links are billed.
const BILLED: u64 = 300 * 1_000_000_000;
/// The most points of a series for its quantiles: 5 weeks of five minutes.
const MAX_POINTS: u64 = 10_080;
/// The most rows of the time before.
const MAX_BEFORE: usize = 500_000;

/// Answers a question.
pub fn of(question: &Question, store: &dyn Store) -> Result<Answered, StoreError> {
    let all = FlowTest::All(Vec::new());
    let test = question.test.clone().unwrap_or(all);
    match &question.matter {
        Matter::Count(counting) => counted(question, store, counting, test),
        Matter::List(name, rank) => match store.table(name, question.span)? {
            Some(kept) => Ok(kept::answered(question, kept)),
            None => Ok(top_table(store.top(name, question.span, *rank, question.limit)?)),
        },
        Matter::Flows => flows(question, store, test),
        Matter::Flow(id) => flow(question, store, id),
        Matter::Records(table, shown) => records(question, store, table, shown, test),
        Matter::Series(name) => series(question, store, name),
        Matter::SeriesQuantiles(name) => series_quantiles(question, store, name),
        Matter::Distinct => distinct(question, store),
        Matter::New => news(question, store),
        Matter::Events => events(question, store),
        Matter::Quantiles(counting, field) => quantiles(question, store, counting, *field, test),
    }
}

fn columns(names: &[(&str, &str)]) -> Vec<Column> {
    names.iter().map(|(name, unit)| Column { name: (*name).to_owned(), unit: (*unit).to_owned() }).collect()
}

fn column(name: impl Into<String>, unit: &str) -> Column {
    Column { name: name.into(), unit: unit.to_owned() }
}

impl Question {
    fn time(&self, seconds: f64) -> String {
        self.moments.zone.rfc3339((seconds * 1e6).round() as u64 * 1000)
    }

    fn at(&self, nanoseconds: u64) -> String {
        self.moments.zone.date_time(nanoseconds)
    }

    fn wanted(&self, counting: &Counting, test: FlowTest) -> TallyWanted {
        TallyWanted {
            subject: counting.subject,
            by: counting.by.clone(),
            measure: counting.measure,
            test,
            span: self.span,
            limit: self.limit,
            steps: 0,
            grid: None,
            values: None,
        }
    }
}

/// A stored list, or rows computed from flows or records.
fn counted(
    question: &Question,
    store: &dyn Store,
    counting: &Counting,
    test: FlowTest,
) -> Result<Answered, StoreError> {
    let is_plain = question.test.is_none()
        && question.compare.is_none()
        && question.points.is_none()
        && question.every.is_none();
    if let (true, Some((list, by)), Some(rank)) = (is_plain, counting.list, counting.measure.rank()) {
        return Ok(top_table(store.ranked(list, by, question.span, Some(rank), question.limit, 0)?));
    }
    let mut wanted = question.wanted(counting, test);
    if set_parts(question, store, &mut wanted)? {
        return over_time(question, counting, store, store.tally(&wanted)?);
    }
    let tally = store.tally(&wanted)?;
    let before = match question.compare {
        None => None,
        Some(compare) => {
            let span = earlier(compare, tally.span);
            let wanted = TallyWanted { span, limit: MAX_BEFORE, ..wanted };
            let range = (span.from.unwrap_or(0), span.to.unwrap_or(0));
            let is_watched = store.watched_within(&[range])?.iter().any(|seconds| *seconds > 0.0);
            let before = store.tally(&wanted)?;
            Some(Earlier {
                span,
                extent: store.extent()?,
                is_watched: is_watched || before.total.rows > 0,
                tally: before,
            })
        }
    };
    let names = host_names(store, &tally)?;
    let mut answer = table(counting, &tally, &names);
    if let Some(before) = before {
        compare(question, counting, &mut answer, &tally, &before);
    }
    finish(counting, &mut answer, &tally);
    Ok(answer)
}

/// Sets the parts of the range, if the query has `points` or `every`. Returns whether there are parts.
fn set_parts(question: &Question, store: &dyn Store, wanted: &mut TallyWanted) -> Result<bool, StoreError> {
    if let Some(points) = question.points {
        wanted.steps = points;
        return Ok(true);
    }
    let Some(every) = question.every else { return Ok(false) };
    let (first, last) = store.extent()?.unwrap_or_default();
    let from = question.span.from.unwrap_or(first);
    let to = question.span.to.unwrap_or_else(|| last.saturating_add(1));
    let begin = part_with(question, every, from);
    let steps = to.saturating_sub(begin).div_ceil(every).max(1);
    if steps > super::MAX_STEPS as u64 {
        return Err(StoreError::Unknown(format!(
            "{steps} parts of the time: at most {} can be counted; choose a longer `every`",
            super::MAX_STEPS
        )));
    }
    wanted.steps = steps as usize;
    wanted.grid = Some((begin, every));
    Ok(true)
}

/// The beginning of the part that contains a time. Parts begin at multiples of `every` by the clocks of the zone.
fn part_with(question: &Question, every: u64, time: u64) -> u64 {
    let local = i128::from(time) + i128::from(question.moments.zone.offset(time)) * 1_000_000_000;
    time.saturating_sub(local.rem_euclid(i128::from(every)) as u64)
}

/// The range of the comparison.
fn earlier(compare: Compare, (from, to): (u64, u64)) -> TimeRange {
    let by = match compare {
        Compare::Before => to.saturating_sub(from),
        Compare::Earlier(by) => by,
    };
    TimeRange { from: Some(from.saturating_sub(by)), to: Some(to.saturating_sub(by)) }
}

/// The names that clients resolved to the hosts of an answer.
fn host_names(store: &dyn Store, tally: &Tally) -> Result<HashMap<Key, String>, StoreError> {
    let keys: Vec<Key> = tally
        .rows
        .iter()
        .flat_map(|row| &row.cells)
        .filter_map(|cell| match cell {
            Cell::Key(key) => Some(*key),
            _ => None,
        })
        .collect();
    store.names(&keys)
}

/// A value of a dimension as a cell.
fn cell(cell: &Cell) -> Value {
    match cell {
        Cell::None => Value::Null,
        Cell::Key(key) => {
            let row = TopRow { key: *key, count: Count::default(), flows: 0, error: 0 };
            json!(list_row(&row, Naming::numeric()).label)
        }
        Cell::Text(text) => json!(text_row(text.clone(), Count::default(), 0).label),
        Cell::Bool(yes) => json!(yes),
        Cell::Number(digits) => digits.parse::<Number>().map_or_else(|_| json!(digits), Value::Number),
    }
}

/// A column of sums, with the function that gives its cells.
struct SumColumn {
    column: Column,
    value: fn(&Sums) -> Value,
}

/// The columns of sums in an answer.
fn sums_of(counting: &Counting) -> Vec<SumColumn> {
    let of =
        |name: &str, unit: &str, value: fn(&Sums) -> Value| SumColumn { column: column(name, unit), value };
    let mut found = Vec::new();
    if let Measure::Sum(field) = counting.measure {
        found.push(of(field.name, unit_of(field), |sums| number(sums.sum)));
    }
    if let Measure::Distinct(_) = counting.measure {
        found.push(of("distinct", "values", |sums| number(sums.sum)));
    }
    let bytes = of("bytes", "bytes", |sums| json!(sums.count.bytes));
    let packets = of("packets", "packets", |sums| json!(sums.count.packets));
    let flows = of("flows", "flows", |sums| json!(sums.flows));
    match counting.subject {
        Subject::Flows if counting.by.is_empty() => found.extend([flows, packets, bytes]),
        Subject::Flows if counting.measure == Measure::Rows => found.extend([flows, bytes, packets]),
        Subject::Flows => found.extend([bytes, packets, flows]),
        Subject::Records(_) => {
            if matches!(counting.measure, Measure::Bytes | Measure::Packets) {
                found.extend([bytes, packets]);
            }
            found.push(of("records", "records", |sums| json!(sums.rows)));
            found.push(flows);
        }
    }
    found
}

/// The column of errors in an answer, if it has one: what rows may lack, in the unit of the ranking, and what flows that cross
/// an end of the time may be off. These are of bytes or packets, and have no column beside what rows lack in another unit.
struct ErrorColumn {
    column: Column,
    /// The measure, if rows lack something.
    missing: Option<Measure>,
    crossing: fn(&Sums) -> u64,
}

impl ErrorColumn {
    fn of(counting: &Counting, tally: &Tally) -> Option<Self> {
        let Counting { subject, measure, by, .. } = counting;
        let is_moved = matches!(measure, Measure::Bytes | Measure::Packets);
        let is_crossed = tally.crossing.is_some() && (*subject == Subject::Flows || is_moved);
        let missing = (tally.missing() > 0.0).then_some(*measure);
        if by.is_empty() || !(is_crossed || missing.is_some()) {
            return None;
        }
        let unit = match missing {
            None if *measure != Measure::Packets => "bytes",
            _ => measure.unit(*subject),
        };
        let crossing: fn(&Sums) -> u64 = match measure {
            Measure::Packets => |sums| sums.error.packets,
            _ if missing.is_none() || is_moved => |sums| sums.error.bytes,
            _ => |_| 0,
        };
        Some(Self { column: column("error", unit), missing, crossing })
    }

    /// The cell of a row with these sums, which may lack something.
    fn value(&self, sums: &Sums, missing: f64) -> Value {
        let crossing = (self.crossing)(sums);
        match self.missing {
            Some(Measure::Sum(_)) => number(missing),
            _ => json!(crossing.saturating_add(missing.ceil() as u64)),
        }
    }
}

/// A sum, as an integer if it is one.
fn number(value: f64) -> Value {
    if value.fract() == 0.0 && value.abs() < 9e15 { json!(value as i64) } else { json!(value) }
}

fn table(counting: &Counting, tally: &Tally, names: &HashMap<Key, String>) -> Answered {
    let (sums, error) = (sums_of(counting), ErrorColumn::of(counting, tally));
    let mut columns: Vec<Column> = counting.names.iter().map(|name| column(name, "")).collect();
    columns.extend(sums.iter().map(|sum| sum.column.clone()));
    columns.extend(error.iter().map(|error| error.column.clone()));
    let name_of = |row: &TallyRow| {
        row.cells.iter().find_map(|cell| match cell {
            Cell::Key(key) => names.get(key),
            _ => None,
        })
    };
    let has_names = tally.rows.iter().any(|row| name_of(row).is_some());
    let of = |cells: Vec<Value>, from: &Sums, missing: f64, name: Option<&String>| {
        let mut row = cells;
        row.extend(sums.iter().map(|sum| (sum.value)(from)));
        row.extend(error.iter().map(|error| error.value(from, missing)));
        if has_names {
            row.push(json!(name));
        }
        row
    };
    if has_names {
        columns.push(column("name", ""));
    }
    let no_cells = || vec![Value::Null; counting.names.len()];
    let has_rows = !counting.by.is_empty();
    let rows: Vec<Vec<Value>> = match has_rows {
        true => tally
            .rows
            .iter()
            .map(|row| of(row.cells.iter().map(cell).collect(), &row.sums, row.missing, name_of(row)))
            .collect(),
        false => vec![of(Vec::new(), &tally.total, 0.0, None)],
    };
    Answered {
        columns,
        rows,
        other: (has_rows && tally.has_other()).then(|| of(no_cells(), &tally.other, 0.0, None)),
        total: has_rows.then(|| of(no_cells(), &tally.listed, 0.0, None)),
        notes: listed_twice(counting, tally).into_iter().collect(),
        ..Answered::default()
    }
}

/// A note for a list in whose rows some flows or records are more than once.
fn listed_twice(counting: &Counting, tally: &Tally) -> Option<String> {
    let (listed, total) = (&tally.listed, &tally.total);
    let is_more =
        !counting.by.is_empty() && (listed.rows > total.rows || listed.count.bytes > total.count.bytes);
    let once = match counting.subject {
        Subject::Flows => format!("{} bytes", figures::count(total.count.bytes)),
        Subject::Records(_) => format!("{} records", figures::count(total.rows)),
    };
    is_more.then(|| format!("what has several values is in several rows; counted once, it is {once}"))
}

/// What an answer is compared with.
struct Earlier {
    span: TimeRange,
    /// Begin and end of the stored data.
    extent: Option<(u64, u64)>,
    /// Whether any part of the time was watched. If not, there is no value to compare with.
    is_watched: bool,
    tally: Tally,
}

/// Adds the values of an earlier time to an answer.
fn compare(
    question: &Question,
    counting: &Counting,
    answer: &mut Answered,
    tally: &Tally,
    earlier: &Earlier,
) {
    let Earlier { span, extent, is_watched, tally: before } = earlier;
    let measure = counting.measure;
    let unit = answer
        .columns
        .iter()
        .find(|column| match measure {
            Measure::Rows => {
                column.unit == if counting.subject == Subject::Flows { "flows" } else { "records" }
            }
            Measure::Flows => column.unit == "flows",
            Measure::Packets => column.unit == "packets",
            Measure::Bytes => column.unit == "bytes",
            Measure::Sum(_) | Measure::Distinct(_) => true,
        })
        .map_or(String::new(), |column| column.unit.clone());
    answer.columns.extend([column("before", &unit), column("change", "%")]);
    let known: HashMap<&[Cell], &Sums> =
        before.rows.iter().map(|row| (row.cells.as_slice(), &row.sums)).collect();
    let cells = |now: &Sums, then: Option<&Sums>| {
        // Without room for all groups, what has no row in the time before is not known.
        if then.is_none() && before.lost.is_some() {
            return [Value::Null, Value::Null];
        }
        let (now, then) = (now.of(measure), then.map_or(0.0, |then| then.of(measure)));
        let change =
            if then > 0.0 { json!(((now - then) / then * 1000.0).round() / 10.0) } else { Value::Null };
        if *is_watched { [number(then), change] } else { [Value::Null, Value::Null] }
    };
    if counting.by.is_empty() {
        if let Some(row) = answer.rows.first_mut() {
            row.extend(cells(&tally.total, Some(&before.total)));
        }
    } else {
        for (row, counted) in answer.rows.iter_mut().zip(&tally.rows) {
            row.extend(cells(&counted.sums, known.get(counted.cells.as_slice()).copied()));
        }
        let mut shown = Sums::default();
        for counted in &tally.rows {
            if let Some(sums) = known.get(counted.cells.as_slice()) {
                shown.add(sums);
            }
        }
        if let Some(total) = &mut answer.total {
            total.extend(cells(&tally.listed, Some(&before.listed)));
        }
        if let Some(other) = &mut answer.other {
            let mut all = before.other;
            before.rows.iter().for_each(|row| all.add(&row.sums));
            other.extend(cells(&tally.other, Some(&all.without(&shown))));
        }
        if tally.groups == tally.rows.len() as u64 && tally.lost.is_none() {
            let now: HashSet<&[Cell]> = tally.rows.iter().map(|row| row.cells.as_slice()).collect();
            let gone = before.rows.iter().filter(|row| !now.contains(row.cells.as_slice())).count();
            if gone > 0 {
                answer.notes.push(format!("{gone} rows of the earlier time have no row in this one"));
            }
        }
    }
    let (from, to) = (span.from.unwrap_or(0), span.to.unwrap_or(0));
    let mut note = format!("compared with {} to {}", question.at(from), question.at(to));
    match *extent {
        Some((first, _)) if first >= to => note.push_str("; nothing of that time is stored"),
        Some((first, _)) if first > from => {
            note.push_str(&format!("; that time is stored only from {} on", question.at(first)));
        }
        _ if !is_watched => note.push_str("; nothing was watched in that time"),
        _ => {}
    }
    answer.notes.push(note);
    answer.partial = answer.partial.take().or_else(|| before.partial.clone());
}

/// The meaning of the states of connections in an answer: `SF normal end, S0 no answer`.
pub fn states(answer: &Answered) -> Option<String> {
    let place = answer.columns.iter().position(|column| column.name == "state")?;
    let mut found: Vec<&str> = answer.rows.iter().filter_map(|row| row.get(place)?.as_str()).collect();
    found.sort_unstable();
    found.dedup();
    let words: Vec<String> = found
        .into_iter()
        .map(|state| (state, state_words(state)))
        .filter(|(_, words)| !words.is_empty())
        .map(|(state, words)| format!("{state} {words}"))
        .collect();
    (!words.is_empty()).then(|| format!("states: {}", words.join(", ")))
}

/// The basis of an answer that is computed from flows or records.
fn basis(counting: &Counting, tally: &Tally) -> Basis {
    let (from, to) = tally.span;
    let source = match counting.subject {
        Subject::Flows => Source::Flows,
        Subject::Records(_) => Source::Records,
    };
    let bound = match counting.measure {
        Measure::Packets => crossing_bound(tally.crossing.as_ref(), Unit::Packets),
        Measure::Bytes => crossing_bound(tally.crossing.as_ref(), Unit::Bytes),
        Measure::Rows if counting.subject == Subject::Flows => {
            crossing_bound(tally.crossing.as_ref(), Unit::Bytes)
        }
        Measure::Rows | Measure::Flows | Measure::Sum(_) | Measure::Distinct(_) => 0,
    };
    let missing = tally.missing().ceil() as u64;
    // What flows that cross an end may be off in bytes is no bound of their number.
    let bound = match counting.measure {
        Measure::Rows if missing > 0 => missing,
        _ => bound.saturating_add(missing),
    };
    Basis {
        range: [from as f64 / SECOND, to as f64 / SECOND],
        source,
        bound: Some(bound),
        ..Basis::default()
    }
}

/// The note of an answer whose time was moved outwards. What is not stored is no note: the time is watched from there on.
pub fn range_note(question: &Question, moved: &Moved, basis: &Basis) -> Option<String> {
    let [from, to] = basis.range.map(|time| (time * 1e6).round() as u64 * 1000);
    let earlier = question.span.from.is_some_and(|asked| from + 1000 < asked);
    let later = question.span.to.is_some_and(|asked| to > asked + 1000);
    let why = match moved.source {
        Source::Flows => "which has whole cells",
        _ => "the cells that are stored there",
    };
    (earlier || later)
        .then(|| format!("the answer is of {} to {}, {why}", question.at(from), question.at(to)))
}

/// Adds basis, bounds and notes to an answer.
fn finish(counting: &Counting, answer: &mut Answered, tally: &Tally) {
    answer.basis = Some(basis(counting, tally));
    answer.crossing = tally.crossing;
    if let Some(crossing) = &tally.crossing {
        answer.notes.push(crossing_note(crossing));
    }
    if answer.partial.is_none() {
        answer.partial.clone_from(&tally.partial);
    }
}

/// The bounds of an answer in which flows cross an end of the time.
pub fn crossing_note(crossing: &Crossing) -> String {
    let Crossing { flows, counted, whole } = crossing;
    let flows = if *flows == 1 {
        "1 flow crosses an end of the time and counts".to_owned()
    } else {
        format!("{} flows cross an end of the time and count", figures::count(*flows))
    };
    let rest = figures::bytes(whole.bytes.saturating_sub(counted.bytes));
    let (counted, whole) = (figures::bytes(counted.bytes), figures::bytes(whole.bytes));
    format!(
        "{flows} with the share in it, {counted} of {whole}: the true sum may be up to {counted} lower or up to {rest} higher"
    )
}

/// A column for each of the heaviest, and one for the others. A part of the time in which nothing was watched has no value.
fn over_time(
    question: &Question,
    counting: &Counting,
    store: &dyn Store,
    tally: Tally,
) -> Result<Answered, StoreError> {
    let steps = tally.other_over.len();
    let (begin, to) = tally.span;
    let (from, length) = tally.grid;
    let watched = store.watched_within(&Window { from: begin, to }.parts(from, length, steps))?;
    let value = |at: usize, sum: f64| match watched.get(at) {
        Some(0.0) if sum == 0.0 => Value::Null,
        _ => number(sum),
    };
    let unit = counting.measure.unit(counting.subject);
    let label = |row: &TallyRow| {
        let texts = row.cells.iter().map(|found| match cell(found) {
            Value::String(text) => text,
            Value::Null => "-".to_owned(),
            other => other.to_string(),
        });
        texts.collect::<Vec<_>>().join(", ")
    };
    let mut columns = columns(&[("time", "")]);
    if counting.by.is_empty() {
        columns.push(column("all", unit));
    } else {
        columns.extend(tally.rows.iter().map(|row| column(label(row), unit)));
    }
    let has_other = tally.has_other();
    if has_other {
        columns.push(column("other", unit));
    }
    let rows = (0..steps).map(|at| {
        let begin = from + at as u64 * length;
        let mut row = vec![json!(question.moments.zone.rfc3339(begin))];
        row.extend(tally.rows.iter().map(|found| value(at, found.over.get(at).copied().unwrap_or(0.0))));
        if has_other {
            row.push(value(at, tally.other_over.get(at).copied().unwrap_or(0.0).max(0.0)));
        }
        row
    });
    // The last part of a time that is not a multiple may lie after its end.
    let rows: Vec<Vec<Value>> =
        rows.enumerate().filter(|(at, _)| from + *at as u64 * length < to).map(|(_, row)| row).collect();
    let mut answer = Answered { columns, rows, ..Answered::default() };
    answer.notes.push(format!("each row covers {} s", length as f64 / SECOND));
    let is_shown = |at: &usize| from + *at as u64 * length < to;
    let unwatched = (0..steps).filter(is_shown).filter(|at| watched.get(*at) == Some(&0.0)).count();
    if unwatched > 0 {
        answer.notes.push(format!("nothing was watched in {unwatched} of the rows: they have no values"));
    }
    let zone = &question.moments.zone;
    if question.every.is_some() && zone.offset(from) != zone.offset(to) {
        answer.notes.push(
            "the clocks change in this time: rows have equal lengths and do not follow them".to_owned(),
        );
    }
    finish(counting, &mut answer, &tally);
    Ok(answer)
}

/// Quantiles of a field by keys.
fn quantiles(
    question: &Question,
    store: &dyn Store,
    counting: &Counting,
    field: FieldInfo,
    test: FlowTest,
) -> Result<Answered, StoreError> {
    let wanted = TallyWanted { values: Some(field), ..question.wanted(counting, test) };
    let tally = store.tally(&wanted)?;
    let names = host_names(store, &tally)?;
    let unit = unit_of(field);
    let mut columns: Vec<Column> = counting.names.iter().map(|name| column(name, "")).collect();
    columns.push(column("count", ""));
    columns.push(column("least", unit));
    columns.extend(QUANTILES.map(|(name, _)| column(name, unit)));
    columns.push(column("most", unit));
    columns.push(column("name", ""));
    let rows = tally.rows.iter().filter(|row| !row.values.is_empty()).map(|row| {
        let mut cells: Vec<Value> = row.cells.iter().map(cell).collect();
        cells.push(json!(row.values.len()));
        cells.push(json!(row.values.first()));
        cells.extend(QUANTILES.map(|(_, part)| json!(quantile(&row.values, part))));
        cells.push(json!(row.values.last()));
        cells.push(json!(row.cells.iter().find_map(|cell| match cell {
            Cell::Key(key) => names.get(key),
            _ => None,
        })));
        cells
    });
    let rows: Vec<Vec<Value>> = rows.collect();
    let mut answer = Answered {
        rows,
        columns,
        basis: Some(basis(counting, &tally)),
        partial: tally.partial,
        ..Answered::default()
    };
    if tally.groups > tally.rows.len() as u64 {
        answer.notes.push(format!(
            "only the {} rows with the most values are shown, of {}",
            tally.rows.len(),
            tally.groups
        ));
    }
    Ok(answer)
}

/// A quantile of sorted values by nearest rank.
pub(super) fn quantile(values: &[f64], part: f64) -> Option<f64> {
    values.get(nearest_rank(part, values.len() as u64) as usize).copied()
}

/// Quantiles of a series' points: of five minutes, unless the time is longer than five weeks.
fn series_quantiles(question: &Question, store: &dyn Store, name: &str) -> Result<Answered, StoreError> {
    let (first, last) = store.extent()?.unwrap_or_default();
    let (from, to) =
        (question.span.from.unwrap_or(first).max(first), question.span.to.unwrap_or(last).min(last));
    let points = (to.saturating_sub(from) / BILLED).clamp(1, MAX_POINTS) as usize;
    let data = store.points(&[name.to_owned()], question.span, points)?;
    let Some(found) = data.series.first() else { return Err(no_series(name)) };
    let mut values: Vec<f64> = found.avg.iter().flatten().copied().collect();
    values.sort_unstable_by(f64::total_cmp);
    let unit = unit_of_series(store, name)?;
    let mut cells = vec![json!(name), json!(values.len()), json!(values.first())];
    cells.extend(QUANTILES.map(|(_, part)| json!(quantile(&values, part))));
    cells.push(json!(values.last()));
    let mut columns = columns(&[("series", ""), ("points", "")]);
    columns.push(column("least", &unit));
    columns.extend(QUANTILES.map(|(name, _)| column(name, &unit)));
    columns.push(column("most", &unit));
    Ok(Answered {
        columns,
        rows: vec![cells],
        basis: Some(data.basis),
        partial: data.partial,
        notes: vec![format!("quantiles of averages over {} s", data.step)],
        ..Answered::default()
    })
}

fn no_series(name: &str) -> StoreError {
    StoreError::Unknown(format!("no series {name:?}; `weir store series` lists them"))
}

fn unit_of_series(store: &dyn Store, name: &str) -> Result<String, StoreError> {
    let known = store.series()?.into_iter().find(|info| info.id == name);
    Ok(known.map_or(String::new(), |info| info.unit))
}

fn series(question: &Question, store: &dyn Store, name: &str) -> Result<Answered, StoreError> {
    let ids = [name.to_owned()];
    let data = match question.every {
        None => store.points(&ids, question.span, question.points.unwrap_or(POINTS))?,
        Some(every) => {
            let (first, _) = store.extent()?.unwrap_or_default();
            let from = question.span.from.unwrap_or(first).max(first);
            let steps = Steps::Exact { base: part_with(question, every, from), step: every };
            store.kept_points(&ids, question.span, steps)?
        }
    };
    let Some(found) = data.series.first() else { return Err(no_series(name)) };
    let values = found.avg.iter().zip(&found.min).zip(&found.max);
    let rows =
        data.times.iter().zip(values).map(|(at, ((avg, min), max))| {
            vec![json!(question.time(*at)), json!(avg), json!(min), json!(max)]
        });
    let unit = unit_of_series(store, name)?;
    Ok(Answered {
        columns: columns(&[("time", ""), ("average", &unit), ("min", &unit), ("max", &unit)]),
        rows: rows.collect(),
        basis: Some(data.basis),
        notes: vec![format!("each row covers {} s", data.step)],
        crossing: data.crossing,
        partial: data.partial,
        ..Answered::default()
    })
}

fn distinct(question: &Question, store: &dyn Store) -> Result<Answered, StoreError> {
    let found = store.distinct(question.span)?;
    let rows = found.rows.into_iter().map(|row| {
        vec![json!(row.name), json!(row.of), json!(row.estimate), json!(row.most), json!(row.error_percent)]
    });
    Ok(Answered {
        columns: columns(&[("name", ""), ("of", ""), ("estimate", ""), ("at most", ""), ("error", "%")]),
        rows: rows.collect(),
        basis: Some(found.basis),
        partial: found.partial,
        ..Answered::default()
    })
}

fn news(question: &Question, store: &dyn Store) -> Result<Answered, StoreError> {
    let found = store.news(question.span)?;
    let rows = found
        .rows
        .into_iter()
        .take(question.limit)
        .map(|row| vec![json!(row.kind), json!(row.label), json!(row.bytes), json!(row.packets)]);
    let against = format!(
        "compared with {} to {}",
        question.at((found.against.from * SECOND) as u64),
        question.at((found.against.to * SECOND) as u64)
    );
    Ok(Answered {
        columns: columns(&[("kind", ""), ("key", ""), ("bytes", "bytes"), ("packets", "packets")]),
        rows: rows.collect(),
        notes: if found.against.from < found.against.to { vec![against] } else { Vec::new() },
        basis: Some(found.basis),
        partial: found.partial,
        ..Answered::default()
    })
}

/// Events, the latest first. Numbers that an event has as evidence are in its text.
fn events(question: &Question, store: &dyn Store) -> Result<Answered, StoreError> {
    let found = store.events(question.span, question.limit)?;
    let rows = found.events.into_iter().map(|event| {
        let end = if event.open { Value::Null } else { json!(question.time(event.time)) };
        vec![
            json!(question.time(event.begin)),
            end,
            json!(event.kind),
            json!(event.severity),
            json!(event.subject),
            json!(event.count),
            json!(event.text),
            json!(event.filter),
        ]
    });
    let names = ["begin", "end", "kind", "severity", "subject", "count", "text", "filter"];
    Ok(Answered {
        columns: names.iter().map(|name| column(*name, "")).collect(),
        rows: rows.collect(),
        partial: found.partial,
        ..Answered::default()
    })
}

fn flows(question: &Question, store: &dyn Store, test: FlowTest) -> Result<Answered, StoreError> {
    let (order, descending) = question.order.unwrap_or((FlowOrder::Last, true));
    let wanted = FlowsWanted {
        test,
        span: question.span,
        order,
        descending,
        limit: question.limit,
        offset: 0,
        fields: Vec::new(),
    };
    let found = store.flows(&wanted)?;
    let rows = found.rows.iter().map(|flow| {
        vec![
            json!(question.time(flow.first)),
            json!(((flow.last - flow.first) * 1e6).round() / 1e6),
            json!(flow.protocol),
            json!(flow.source),
            json!(flow.source_port),
            json!(flow.destination),
            json!(flow.destination_port),
            json!(flow.packets.iter().sum::<u64>()),
            json!(flow.bytes.iter().sum::<u64>()),
            json!(flow.state),
            json!(flow.service),
            json!(flow.name),
            json!(flow.uid),
        ]
    });
    let rows: Vec<Vec<Value>> = rows.collect();
    let shown = rows.len() as u64;
    let mut answer = Answered {
        columns: columns(&[
            ("first", ""),
            ("duration", "s"),
            ("protocol", ""),
            ("source", ""),
            ("port", ""),
            ("destination", ""),
            ("port", ""),
            ("packets", "packets"),
            ("bytes", "bytes"),
            ("state", ""),
            ("service", ""),
            ("name", ""),
            ("uid", ""),
        ]),
        rows,
        basis: Some(found.basis),
        partial: found.partial,
        ..Answered::default()
    };
    if found.matched > shown {
        answer.notes.push(format!("{shown} of {} flows", figures::count(found.matched)));
    }
    match found.rows.iter().filter(|flow| flow.open).count() {
        0 => {}
        1 => answer.notes.push("1 of these flows is still open: it has the sums stored until now".to_owned()),
        open => answer
            .notes
            .push(format!("{open} of these flows are still open: they have the sums stored until now")),
    }
    Ok(answer)
}

/// A flow, its further properties and its records, a line each.
fn flow(question: &Question, store: &dyn Store, id: &str) -> Result<Answered, StoreError> {
    let Some(found) = store.flow(id)? else {
        return Err(StoreError::Unknown(format!("no flow {id:?}: it was never stored, or has expired")));
    };
    let flow = &found.flow;
    let mut rows = vec![
        vec![json!("flow"), json!(question.time(flow.first)), json!("uid"), json!(flow.uid)],
        vec![
            json!("flow"),
            Value::Null,
            json!("endpoints"),
            json!(format!(
                "{} {} port {} > {} port {}",
                flow.protocol, flow.source, flow.source_port, flow.destination, flow.destination_port
            )),
        ],
    ];
    let facts = [
        ("packets", json!(flow.packets)),
        ("bytes", json!(flow.bytes)),
        ("state", json!(flow.state)),
        ("service", json!(flow.service)),
        ("name", json!(flow.name)),
    ];
    let facts = facts.into_iter().filter(|(_, value)| !value.is_null());
    rows.extend(facts.map(|(name, value)| vec![json!("flow"), Value::Null, json!(name), value]));
    rows.extend(
        found.details.iter().map(|row| vec![json!("flow"), Value::Null, json!(row.name), json!(row.value)]),
    );
    let mut withheld = Withheld::default();
    for mut record in found.records {
        if !question.payload {
            withheld.withhold(&record.table, &mut record.values);
        }
        for (at, (name, value)) in record.values.into_iter().enumerate() {
            let time = if at == 0 { json!(question.time(record.time)) } else { Value::Null };
            rows.push(vec![json!(record.table), time, json!(name), value]);
        }
    }
    Ok(Answered {
        columns: columns(&[("of", ""), ("time", ""), ("field", ""), ("value", "")]),
        rows,
        partial: found.partial.or_else(|| withheld.sentence()),
        notes: command(question, flow).into_iter().collect(),
        ..Answered::default()
    })
}

/// The command that selects the packets of a flow and no others: by both ends with their ports, and by time, because the ends may have
/// used the same ports before. Fragments without ports are not among them. `None` for a flow without ports.
fn command(question: &Question, flow: &Flow) -> Option<String> {
    if !matches!(flow.protocol.as_str(), "tcp" | "udp" | "sctp") {
        return None;
    }
    let end = |side: &str, host: &str, port: u16| format!("src host {host} and {side} src port {port}");
    let protocol = flow.protocol.as_str();
    let there = end(protocol, &flow.source, flow.source_port);
    let back = end(protocol, &flow.destination, flow.destination_port);
    let to = |host: &str, port: u16| format!("dst host {host} and {protocol} dst port {port}");
    let expression = format!(
        "({there} and {}) or ({back} and {})",
        to(&flow.destination, flow.destination_port),
        to(&flow.source, flow.source_port)
    );
    // Seconds as floating-point numbers are exact to a quarter of a microsecond.
    let late = if flow.protocol == "tcp" { (CLOSING / 1000) as i64 } else { 2 };
    let nanoseconds =
        |seconds: f64, more: i64| ((seconds * 1e6) as u64).saturating_add_signed(more).saturating_mul(1000);
    let [since, until] = [nanoseconds(flow.first, -1), nanoseconds(flow.last, late)]
        .map(|time| question.moments.zone.rfc3339(time));
    Some(format!("its packets: weir FILE '{expression}' --since {since} --until {until} -w OUT.pcap"))
}

fn records(
    question: &Question,
    store: &dyn Store,
    table: &str,
    shown: &[FieldInfo],
    test: FlowTest,
) -> Result<Answered, StoreError> {
    let found = store.records(&RecordsWanted {
        table: table.to_owned(),
        test,
        text: question.words.clone(),
        payload: question.payload,
        span: question.span,
        order: RecordOrder::Time,
        descending: true,
        limit: question.limit,
        offset: 0,
    })?;
    let all: Vec<&str> = match shown {
        [] => {
            let mut names: Vec<&str> = Vec::new();
            for field in fields::tables(table).flat_map(|table| table.fields) {
                if !names.contains(&field.name) {
                    names.push(field.name);
                }
            }
            names
        }
        shown => shown.iter().map(|field| field.name).collect(),
    };
    let mut names = vec![("time", ""), ("source", ""), ("destination", ""), ("port", "")];
    names.extend(all.iter().map(|name| (*name, "")));
    let is_time = |name: &str| {
        let mut fields = fields::tables(table).flat_map(|table| table.fields);
        fields.any(|field| field.name == name && matches!(field.kind, weir_proto::Kind::Time))
    };
    let times: Vec<bool> = all.iter().map(|name| is_time(name)).collect();
    let count = found.rows.len() as u64;
    let rows = found.rows.into_iter().map(|row| {
        let mut cells = vec![
            json!(question.time(row.time)),
            json!(row.source),
            json!(row.destination),
            json!(row.destination_port),
        ];
        cells.extend(all.iter().zip(&times).map(|(name, is_time)| {
            let value = row.values.get(*name).cloned().unwrap_or(Value::Null);
            match value.as_f64().filter(|seconds| *is_time && *seconds >= 0.0) {
                Some(seconds) => json!(question.time(seconds)),
                None => value,
            }
        }));
        cells
    });
    let mut answer = Answered {
        columns: columns(&names),
        rows: rows.collect(),
        basis: Some(found.basis),
        partial: found.partial,
        ..Answered::default()
    };
    if found.matched > count {
        answer.notes.push(format!("{count} of {} records, the latest first", figures::count(found.matched)));
    }
    Ok(answer)
}

fn top_table(top: TopList) -> Answered {
    let has_names = top.rows.iter().any(|row| row.name.is_some());
    let rows = top.rows.into_iter().map(|row| {
        let mut cells =
            vec![json!(row.label), json!(row.bytes), json!(row.packets), json!(row.flows), json!(row.error)];
        if has_names {
            cells.push(json!(row.name));
        }
        cells
    });
    let key = if top.key.is_empty() { "key" } else { &top.key };
    let mut names = vec![
        (key, ""),
        ("bytes", "bytes"),
        ("packets", "packets"),
        ("flows", "flows"),
        ("error", top.unit.as_str()),
    ];
    if has_names {
        names.push(("name", ""));
    }
    Answered {
        columns: columns(&names),
        rows: rows.collect(),
        notes: top.crossing.as_ref().map(crossing_note).into_iter().collect(),
        basis: Some(top.basis),
        crossing: top.crossing,
        partial: top.partial,
        ..Answered::default()
    }
}
