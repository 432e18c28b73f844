//! Flows and records counted by their values, in one pass over the partitions of a time.

use super::condition;
use super::condition::{Condition, detail};
use super::courses::{Courses, flow_row};
use super::groups::{Bounds, ENTRY, Groups, LISTED, STEP};
use super::partition::{Part, Progress};
use crate::body;
use crate::body::Leaf;
use crate::fields::{FlowField, FlowSource, can_be_negative};
use crate::loan::Loan;
use crate::share::{Course, Crossings, Share, Window, both};
use crate::tally::{Cell, Dimension, GroupBy, Measure, Subject, Sums, Tally, TallyRow, TallyWanted};
use crate::{StoreError, TimeRange};
use foldhash::fast::RandomState;
use rusqlite::types::{Value as Sql, ValueRef};
use rusqlite::{Connection, Row, params_from_iter};
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use weir_api::{Count, Key};
use weir_filter::FLOW;
use weir_filter::fields::FieldInfo;
use weir_output::figures;
use weir_output::ports::has_ports;
use weir_output::row::ip;

/// Different values that are counted at most.
pub const MAX_GROUPS: usize = 500_000;
/// Values that are kept for quantiles.
const MAX_VALUES: usize = 8_000_000;
/// Flows that are kept to count each once.
const MAX_SEEN: usize = 4_000_000;
/// Bytes of memory of the part of a flow.
const FLOW_SUM: usize = 112;
/// Values of a row's list that are counted.
const MAX_LIST: usize = 256;

/// Flows by number: their part in the range, and its maximum error.
pub type FlowSums = HashMap<i64, Share, RandomState>;

/// Counts rows.
pub fn tally(
    parts: &[Part],
    wanted: &TallyWanted,
    condition: &Condition,
    extent: (u64, u64),
    flows: &FlowSums,
    memory: Loan,
) -> Result<Tally, StoreError> {
    let window = Window {
        from: wanted.span.from.unwrap_or(extent.0),
        to: wanted.span.to.unwrap_or(extent.1.saturating_add(1)),
    };
    let mut counter = Counter::new(wanted, window, flows, parts, memory);
    let (text, values) = counter.query(condition, wanted.span);
    let mut progress = Progress::default();
    for part in parts {
        let go_on = progress.ask(part, |connection| {
            condition.register(connection)?;
            let mut query = connection.prepare(&text)?;
            let mut rows = query.query(params_from_iter(&values))?;
            while let Some(row) = rows.next()? {
                counter.row(part, row)?;
            }
            Ok(())
        })?;
        if !go_on {
            break;
        }
    }
    let partial = progress.partial(parts.len()).or_else(|| condition.partial.clone());
    let mut answer = counter.finish();
    answer.partial = partial.or(answer.partial);
    answer.span = (window.from, window.to);
    Ok(answer)
}

/// The parts of flows in a range, for records that are ranked by the bytes of their flows. They hold at most half of the
/// memory that is there: the other half is for the values that the records are counted by.
pub fn flow_sums(
    parts: &[Part],
    span: TimeRange,
    extent: (u64, u64),
    memory: &mut Loan,
) -> Result<(FlowSums, Option<String>), StoreError> {
    let window =
        Window { from: span.from.unwrap_or(extent.0), to: span.to.unwrap_or(extent.1.saturating_add(1)) };
    let (from, to) = condition::bounds(span);
    let text = "SELECT uid, first, last, fpackets, rpackets, fbytes, rbytes FROM flows WHERE last >= ? AND first < ?";
    let courses = Courses::new(parts, window);
    let mut sums = FlowSums::default();
    let mut progress = Progress::default();
    let mut is_full = false;
    for part in parts {
        let go_on = progress.ask(part, |connection| {
            let mut query = connection.prepare_cached(text)?;
            let mut rows = query.query([from, to])?;
            while let Some(row) = rows.next()? {
                let flow = flow_row(row, 0)?;
                let inside = match window.holds(flow.times.0, flow.times.1) {
                    true => Share::exact(flow.whole()),
                    false => both(courses.of(part, &flow)?.within(&window)),
                };
                // The second one is given back.
                is_full |= sums.len() >= MAX_SEEN || !memory.take(2 * FLOW_SUM);
                if !is_full {
                    sums.insert(flow.uid, inside);
                }
            }
            Ok(())
        })?;
        if !go_on {
            break;
        }
    }
    memory.release(sums.len() * FLOW_SUM);
    memory.give_back();
    let full = is_full
        .then(|| format!("bytes are known only of the first {} flows: choose a shorter time", sums.len()));
    Ok((sums, progress.partial(parts.len()).or(full)))
}

/// Where a row has a value.
enum Source {
    /// A key of the endpoints, whose columns begin there.
    Key(GroupBy, usize),
    /// A column.
    Column(usize),
    /// Members of the flow's detail in a column.
    Detail(usize, &'static [&'static str]),
    /// A field of the record's body in a column.
    Body(usize, &'static str),
}

/// The columns that a query reads after those that every query reads.
#[derive(Default)]
struct Columns(Vec<String>);

impl Columns {
    /// The place of a column.
    fn place(&mut self, text: &str, before: usize) -> usize {
        let at = self.0.iter().position(|known| known == text).unwrap_or_else(|| {
            self.0.push(text.to_owned());
            self.0.len() - 1
        });
        before + at
    }
}

/// Columns of a row's key, which stand together.
const KEY_COLUMNS: [&str; 6] = ["src", "sport", "dst", "dport", "proto", "vlan"];
/// Columns that are read of every flow, and of every record.
const FLOW_COLUMNS: [&str; 7] = ["uid", "first", "last", "fpackets", "rpackets", "fbytes", "rbytes"];
const RECORD_COLUMNS: [&str; 2] = ["uid", "time"];

/// A direction of a flow.
#[derive(Clone, Copy, Eq, PartialEq)]
enum Side {
    Client,
    Server,
}

/// When a row moved what it counts with.
#[derive(Clone, Copy)]
struct When<'c> {
    /// The first and the last time.
    times: (u64, u64),
    /// The course between them, where they are not in one part of the time.
    course: Option<&'c Course>,
    /// The direction that counts; `None` for both.
    side: Option<usize>,
}

impl When<'_> {
    /// The packets and bytes of the directions that count.
    fn of(&self, shares: &[Share; 2]) -> Count {
        let mut sum = Count::default();
        let counts = (0..).zip(shares).filter(|(at, _)| self.side.is_none_or(|side| side == *at));
        counts.for_each(|(_, share)| sum.add(&share.count));
        sum
    }
}

struct Counter<'w> {
    wanted: &'w TallyWanted,
    window: Window,
    courses: Courses<'w>,
    flows: &'w FlowSums,
    columns: Columns,
    sources: Vec<Source>,
    measured: Option<Source>,
    valued: Option<Source>,
    distinct: Option<DistinctValues>,
    /// Begin and length of the parts of the time.
    grid: (u64, u64),
    /// Whether an end of a flow is a dimension, so that each direction is a row.
    by_end: bool,
    /// Whether a direction counts with what was sent in it alone.
    by_direction: bool,
    groups: Groups,
    all_seen: HashSet<i64, RandomState>,
    total: Sums,
    contributed: Sums,
    contributed_over: Vec<f64>,
    crossings: Crossings,
    kept_values: usize,
    is_full: bool,
    memory: Loan,
    /// Encoded values of a row's dimensions, and where each begins and ends.
    scratch: Vec<u8>,
    choices: Vec<Vec<(usize, usize)>>,
    key: Vec<u8>,
}

impl<'w> Counter<'w> {
    fn new(
        wanted: &'w TallyWanted,
        window: Window,
        flows: &'w FlowSums,
        parts: &'w [Part],
        memory: Loan,
    ) -> Self {
        let mut columns = Columns::default();
        let before = match wanted.subject {
            Subject::Flows => FLOW_COLUMNS.len(),
            Subject::Records(_) => RECORD_COLUMNS.len(),
        };
        let ends: Vec<GroupBy> = wanted
            .by
            .iter()
            .filter_map(|dimension| match dimension {
                Dimension::Key(by @ (GroupBy::Sender | GroupBy::Receiver | GroupBy::Host)) => Some(*by),
                _ => None,
            })
            .collect();
        let distinct = match wanted.measure {
            Measure::Distinct(dimension) => Some(dimension),
            _ => None,
        };
        if wanted.by.iter().chain(&distinct).any(|dimension| matches!(dimension, Dimension::Key(_))) {
            for column in KEY_COLUMNS {
                columns.place(column, before);
            }
        }
        let mut source_of = |dimension: &Dimension| match *dimension {
            Dimension::Key(GroupBy::State) => Source::Column(columns.place("state", before)),
            Dimension::Key(GroupBy::Application) => Source::Column(columns.place("service", before)),
            Dimension::Key(GroupBy::Name) => Source::Column(columns.place("name", before)),
            Dimension::Key(by) => Source::Key(by, before),
            Dimension::Field(field) => source(field, &mut columns, before),
        };
        let sources: Vec<Source> = wanted.by.iter().map(&mut source_of).collect();
        let distinct = distinct.as_ref().map(source_of).map(DistinctValues::new);
        let measured = match wanted.measure {
            Measure::Sum(field) => Some(source(field, &mut columns, before)),
            _ => None,
        };
        let valued = wanted.values.map(|field| source(field, &mut columns, before));
        Self {
            wanted,
            window,
            courses: Courses::new(parts, window),
            flows,
            columns,
            choices: sources.iter().map(|_| Vec::new()).collect(),
            sources,
            measured,
            valued,
            distinct,
            grid: wanted.grid.unwrap_or_else(|| {
                let length = window.to.saturating_sub(window.from).div_ceil(wanted.steps.max(1) as u64);
                (window.from, length.max(1))
            }),
            by_end: !ends.is_empty(),
            by_direction: ends.iter().any(|by| *by != GroupBy::Host),
            groups: Groups::new(Bounds {
                measure: wanted.measure,
                is_first_come: is_first_come(wanted),
                groups: MAX_GROUPS,
                rows: wanted.limit,
                steps: wanted.steps,
            }),
            all_seen: HashSet::default(),
            total: Sums::default(),
            contributed: Sums::default(),
            contributed_over: vec![0.0; wanted.steps],
            crossings: Crossings::default(),
            kept_values: 0,
            is_full: false,
            memory,
            scratch: Vec::new(),
            key: Vec::new(),
        }
    }

    /// The query and its values.
    fn query(&self, condition: &Condition, span: TimeRange) -> (String, Vec<Sql>) {
        let columns = |first: &[&str]| {
            let first = first.iter().map(|column| (*column).to_owned());
            first.chain(self.columns.0.iter().cloned()).collect::<Vec<_>>().join(", ")
        };
        let (from, to) = condition::bounds(span);
        let condition = condition.clone();
        match self.wanted.subject {
            Subject::Flows => {
                let condition = condition.by_direction().during(span);
                let text = format!(
                    "SELECT {} FROM {} WHERE {}",
                    columns(&FLOW_COLUMNS),
                    condition.from,
                    condition.text
                );
                (text, condition.values)
            }
            Subject::Records(table) => {
                let values = [Sql::Text(table.to_owned()), Sql::Integer(from), Sql::Integer(to)];
                let condition = condition.and("tbl = ? AND time >= ? AND time < ?", values);
                let text =
                    format!("SELECT {} FROM records WHERE {}", columns(&RECORD_COLUMNS), condition.text);
                (text, condition.values)
            }
        }
    }

    fn row(&mut self, part: &Part, row: &Row<'_>) -> rusqlite::Result<()> {
        let uid: i64 = row.get(0)?;
        let mut measured = 0.0;
        if let Some(source) = &self.measured {
            read(source, row, &mut |leaf| measured += leaf.number().unwrap_or(0.0))?;
        }
        let mut values = Vec::new();
        if let Some(source) = &self.valued {
            read(source, row, &mut |leaf| values.extend(leaf.number()))?;
            // A row without the value says nothing about it.
            if values.is_empty() {
                return Ok(());
            }
        }
        if let Some(distinct) = &mut self.distinct {
            self.is_full |= !distinct.take(row, &mut self.memory)?;
        }
        match self.wanted.subject {
            Subject::Flows => self.flow(part, row, measured, &values),
            Subject::Records(_) => self.record(row, uid, measured, &values),
        }
    }

    fn flow(&mut self, part: &Part, row: &Row<'_>, sum: f64, values: &[f64]) -> rusqlite::Result<()> {
        let flow = flow_row(row, 0)?;
        let (uid, (first, last)) = (flow.uid, flow.times);
        let is_inside = self.window.holds(first, last);
        let is_spread = self.wanted.steps > 0 && self.step_of(first) < self.step_of(last);
        let (sides, course) = match is_inside && !is_spread {
            true => (flow.sums.map(Share::exact), None),
            false => {
                let course = self.courses.of(part, &flow)?;
                (course.crossing(&self.window, &mut self.crossings), Some(course))
            }
        };
        let ([sent, _], both) = (sides, both(sides));
        let sums =
            Sums { rows: 1, flows: 1, count: both.count, sent: sent.count.bytes, sum, error: both.error };
        self.total.add(&sums);
        let when = |side| When { times: (first, last), course: course.as_ref(), side };
        if !self.by_end {
            self.choose(row, Side::Client)?;
            self.contribute(uid, &sums, when(None), values);
            return Ok(());
        }
        for (at, side) in [Side::Client, Side::Server].into_iter().enumerate() {
            // A host that sent nothing is no sender.
            if self.by_direction && flow.sums.get(at).is_some_and(|sums| sums.packets == 0) {
                continue;
            }
            self.choose(row, side)?;
            let one = sides.get(at).filter(|_| self.by_direction);
            let Share { count, error } = *one.unwrap_or(&both);
            // As in the lists that are counted: a flow is one of the host that began it, and of the host that was spoken to.
            let flows = u64::from(!self.by_direction || side == Side::Client);
            let sums = Sums { rows: flows, flows, count, sent: 0, sum, error };
            self.contribute(uid, &sums, when(one.map(|_| at)), values);
            if !self.by_direction && is_own_peer(row)? {
                break;
            }
        }
        Ok(())
    }

    fn record(&mut self, row: &Row<'_>, uid: i64, sum: f64, values: &[f64]) -> rusqlite::Result<()> {
        let time = row.get::<_, i64>(1)? as u64;
        let Share { count, error } = self.flows.get(&uid).copied().unwrap_or_default();
        let mut is_new = !self.all_seen.contains(&uid);
        if is_new {
            is_new = self.all_seen.len() < MAX_SEEN && self.memory.take(ENTRY);
            self.is_full |= !is_new;
            let _ = is_new && self.all_seen.insert(uid);
        }
        let mut sums = Sums { rows: 1, flows: 1, count, sent: 0, sum, error };
        if is_new {
            self.total.add(&sums);
        } else {
            self.total.add(&Sums { rows: 1, sum, ..Sums::default() });
        }
        let sides: &[Side] = if self.by_end { &[Side::Client, Side::Server] } else { &[Side::Client] };
        for side in sides {
            self.choose(row, *side)?;
            sums.rows = 1;
            self.contribute(uid, &sums, When { times: (time, time), course: None, side: None }, values);
        }
        Ok(())
    }

    /// Encodes the values that a row has in each dimension.
    fn choose(&mut self, row: &Row<'_>, side: Side) -> rusqlite::Result<()> {
        self.scratch.clear();
        let scratch = &mut self.scratch;
        for (source, choices) in self.sources.iter().zip(&mut self.choices) {
            choices.clear();
            if let Source::Key(by, at) = source {
                let begin = scratch.len();
                push_key(scratch, *by, *at, row, side)?;
                choices.push((begin, scratch.len()));
                continue;
            }
            read(source, row, &mut |leaf| {
                let begin = scratch.len();
                push_leaf(scratch, &leaf);
                let is_known =
                    choices.iter().any(|(from, to)| scratch.get(*from..*to) == scratch.get(begin..));
                if is_known || choices.len() >= MAX_LIST {
                    scratch.truncate(begin);
                } else {
                    choices.push((begin, scratch.len()));
                }
            })?;
            if choices.is_empty() {
                let begin = scratch.len();
                scratch.push(ABSENT);
                choices.push((begin, scratch.len()));
            }
        }
        Ok(())
    }

    /// Adds a row to each combination of its values.
    fn contribute(&mut self, uid: i64, sums: &Sums, when: When<'_>, values: &[f64]) {
        let is_one = self.choices.iter().all(|choices| choices.len() == 1);
        let mut at = vec![0_usize; if is_one { 0 } else { self.choices.len() }];
        loop {
            self.key.clear();
            if is_one {
                // The values stand one after the other.
                self.key.extend_from_slice(&self.scratch);
            }
            for (choice, choices) in at.iter().zip(&self.choices) {
                if let Some(bytes) = choices.get(*choice).and_then(|(from, to)| self.scratch.get(*from..*to))
                {
                    self.key.extend_from_slice(bytes);
                }
            }
            self.add(uid, sums, when, values);
            // The next combination.
            let mut place = at.len();
            loop {
                let Some(before) = place.checked_sub(1) else { return };
                place = before;
                let (Some(digit), Some(choices)) = (at.get_mut(place), self.choices.get(place)) else {
                    return;
                };
                *digit += 1;
                if *digit < choices.len() {
                    break;
                }
                *digit = 0;
            }
        }
    }

    fn add(&mut self, uid: i64, sums: &Sums, when: When<'_>, values: &[f64]) {
        // Each flow counts once for a value, however many records it has with it.
        let flow = (self.wanted.subject != Subject::Flows).then_some(uid);
        let more = self.steps_of(when).map_or(0, |(from, to)| (to - from + 1) as usize * STEP);
        let Some((number, sums)) = self.groups.add(&self.key, flow, sums, more, &mut self.memory) else {
            self.contributed.add(sums);
            self.spread(None, sums, when);
            return;
        };
        if let (Some(distinct), Some(group)) = (&mut self.distinct, self.groups.get_mut(number)) {
            let (found, has_room) = distinct.count(number, &mut self.memory);
            group.sums.sum += found as f64;
            self.is_full |= !has_room;
        }
        self.contributed.add(&sums);
        let has_memory = values.is_empty() || self.memory.take(values.len() * LISTED);
        let room = if has_memory { MAX_VALUES - self.kept_values } else { 0 };
        self.kept_values += values.len().min(room);
        self.is_full |= values.len() > room;
        if let Some(group) = self.groups.get_mut(number) {
            group.values.extend(values.iter().take(room));
        }
        self.spread(Some(number), &sums, when);
    }

    /// The part of the time in which a time lies.
    fn step_of(&self, time: u64) -> u64 {
        let (begin, length) = self.grid;
        let time = time.clamp(self.window.from, self.window.to.saturating_sub(1).max(self.window.from));
        (time.saturating_sub(begin) / length).min((self.wanted.steps as u64).saturating_sub(1))
    }

    /// The first and the last part of the time to which a row adds.
    fn steps_of(&self, when: When<'_>) -> Option<(u64, u64)> {
        let begin = self.step_of(when.times.0);
        let is_spread =
            when.course.is_some() && matches!(self.wanted.measure, Measure::Packets | Measure::Bytes);
        (self.wanted.steps > 0).then(|| (begin, if is_spread { self.step_of(when.times.1) } else { begin }))
    }

    /// Adds the measure to the parts of the time.
    fn spread(&mut self, group: Option<u32>, sums: &Sums, when: When<'_>) {
        let Some((begin, end)) = self.steps_of(when) else { return };
        let steps = self.wanted.steps as u64;
        let (begin_of_grid, length) = self.grid;
        let measure = self.wanted.measure;
        let course = when.course.filter(|_| matches!(measure, Measure::Packets | Measure::Bytes));
        for place in begin..=end {
            let value = match course {
                Some(course) if begin < end => {
                    let from = begin_of_grid + place * length;
                    let to = if place + 1 == steps { self.window.to } else { from + length };
                    let part = Window { from: from.max(self.window.from), to: to.min(self.window.to) };
                    Sums { count: when.of(&course.within(&part)), ..Sums::default() }.of(measure)
                }
                _ => sums.of(measure),
            };
            if value == 0.0 {
                continue;
            }
            if let Some(sum) = self.contributed_over.get_mut(place as usize) {
                *sum += value;
            }
            if let Some(number) = group {
                let has_room = self.groups.add_part(number, place as u32, value, &mut self.memory);
                self.is_full |= !has_room;
            }
        }
    }

    /// What the answer leaves out.
    fn partial(&self, groups: u64, lost: Option<f64>, missing: f64) -> Option<String> {
        let by = if self.memory.is_refused() { " by the memory for answers (--memory)" } else { "" };
        let mut notes = Vec::new();
        if let Some(lost) = lost {
            let unit = self.wanted.measure.unit(self.wanted.subject);
            let amount =
                |value: f64| format!("{} {unit}", figures::count(value.ceil() as u64)).trim().to_owned();
            let bound = match lost.is_finite() {
                true => format!(
                    "values without a row have at most {}, and a row may lack up to {}",
                    amount(lost),
                    amount(missing)
                ),
                false => "values that arrived later have no row, however heavy they are".to_owned(),
            };
            notes.push(format!(
                "limited to {} different values{by}: {} rows with further values are in the sum of others; {bound}",
                figures::count(groups),
                figures::count(self.groups.left_out())
            ));
        }
        if self.is_full || self.groups.is_full() {
            notes.push(format!(
                "too many rows for exact sums of flows, parts, quantiles or distinct values{}: choose a shorter time",
                if lost.is_none() { by } else { "" }
            ));
        }
        (!notes.is_empty()).then(|| notes.join("; "))
    }

    fn finish(mut self) -> Tally {
        let groups = self.groups.len() as u64;
        let (heaviest, lost) = self.groups.heaviest();
        let mut shown = Sums::default();
        let mut other_over = std::mem::take(&mut self.contributed_over);
        let rows: Vec<TallyRow> = heaviest
            .into_iter()
            .map(|mut group| {
                shown.add(&group.sums);
                let mut over = vec![0.0; self.wanted.steps];
                for (place, value) in group.over {
                    if let (Some(sum), Some(other)) =
                        (over.get_mut(place as usize), other_over.get_mut(place as usize))
                    {
                        *sum += value;
                        *other -= value;
                    }
                }
                group.values.sort_unstable_by(f64::total_cmp);
                let cells = decode(&group.key, &self.wanted.by);
                TallyRow { cells, sums: group.sums, missing: group.missing, over, values: group.values }
            })
            .collect();
        let other = self.contributed.without(&shown);
        if let Some(distinct) = &self.distinct {
            // The groups without a row may have values of those with a row.
            self.contributed.sum = distinct.numbers.len() as f64;
            self.total.sum = self.contributed.sum;
        }
        let missing = rows.iter().map(|row| row.missing).fold(0.0, f64::max);
        let partial = self.partial(groups, lost, missing);
        Tally {
            rows,
            groups,
            lost,
            other: if self.distinct.is_some() { Sums { sum: f64::NAN, ..other } } else { other },
            other_over,
            total: self.total,
            listed: self.contributed,
            grid: self.grid,
            crossing: self.crossings.stated(),
            partial,
            memory: Arc::new(self.memory),
            ..Tally::default()
        }
    }
}

/// The distinct values of a dimension, in all rows and in each group.
struct DistinctValues {
    source: Source,
    /// The numbers of the encoded values.
    numbers: HashMap<Box<[u8]>, u32, RandomState>,
    /// Pairs of a group and the number of a value in it.
    seen: HashSet<(u32, u32), RandomState>,
    /// The numbers of the current row's values.
    row: Vec<u32>,
    scratch: Vec<u8>,
}

impl DistinctValues {
    fn new(source: Source) -> Self {
        Self {
            source,
            numbers: HashMap::default(),
            seen: HashSet::default(),
            row: Vec::new(),
            scratch: Vec::new(),
        }
    }

    /// Takes the values of a row. Returns `false` if there are too many different ones.
    fn take(&mut self, row: &Row<'_>, memory: &mut Loan) -> rusqlite::Result<bool> {
        let Self { source, numbers, row: found, scratch, .. } = self;
        found.clear();
        let mut has_room = true;
        let mut intern = |value: &[u8]| {
            let number = match numbers.get(value) {
                Some(number) => *number,
                None if numbers.len() < MAX_GROUPS && memory.take(2 * ENTRY + value.len()) => {
                    let number = numbers.len() as u32;
                    numbers.insert(value.into(), number);
                    number
                }
                None => {
                    has_room = false;
                    return;
                }
            };
            found.push(number);
        };
        if let Source::Key(by, at) = source {
            scratch.clear();
            push_key(scratch, *by, *at, row, Side::Client)?;
            intern(scratch);
        } else {
            read(source, row, &mut |leaf| {
                scratch.clear();
                push_leaf(scratch, &leaf);
                intern(scratch);
            })?;
        }
        Ok(has_room)
    }

    /// The number of the row's values that are new in a group, and whether all could be kept.
    fn count(&mut self, group: u32, memory: &mut Loan) -> (usize, bool) {
        let mut new = 0;
        for number in &self.row {
            let pair = (group, *number);
            if self.seen.contains(&pair) {
                continue;
            }
            if self.seen.len() >= MAX_SEEN || !memory.take(ENTRY) {
                return (new, false);
            }
            self.seen.insert(pair);
            new += 1;
        }
        (new, true)
    }
}

fn source(field: FieldInfo, columns: &mut Columns, before: usize) -> Source {
    if field.table != FLOW {
        return Source::Body(columns.place("body", before), field.name);
    }
    match FlowField::find(field.name).map(|field| field.source) {
        Some(FlowSource::Detail(members)) => Source::Detail(columns.place("detail", before), members),
        Some(FlowSource::Column(text) | FlowSource::Words(text)) => {
            Source::Column(columns.place(text, before))
        }
        None => Source::Column(columns.place("NULL", before)),
    }
}

/// Whether groups stay in the order in which they come: where the measure of a row says nothing of its group, or can be below
/// zero, and where a group needs every one of its rows.
fn is_first_come(wanted: &TallyWanted) -> bool {
    let is_unfit = match wanted.measure {
        Measure::Distinct(_) => true,
        Measure::Sum(field) => can_be_negative(field),
        Measure::Rows | Measure::Flows | Measure::Packets | Measure::Bytes => false,
    };
    is_unfit || wanted.values.is_some()
}

/// Whether both ends of a flow have one address.
fn is_own_peer(row: &Row<'_>) -> rusqlite::Result<bool> {
    let at = FLOW_COLUMNS.len();
    Ok(row.get_ref(at)? == row.get_ref(at + 2)?)
}

/// Calls `each` with the values that a row has.
fn read(source: &Source, row: &Row<'_>, each: &mut dyn FnMut(Leaf<'_>)) -> rusqlite::Result<()> {
    match *source {
        Source::Key(..) => {}
        Source::Body(at, name) => {
            let text = row.get_ref(at)?.as_str().unwrap_or_default();
            if let Some(written) = body::member(text, name) {
                body::leaves(written, &mut |leaf| each(leaf));
            }
        }
        Source::Detail(at, members) => {
            let text = row.get_ref(at)?.as_str().unwrap_or_default();
            if let Some(leaf) = detail(text, members) {
                each(leaf);
            }
        }
        Source::Column(at) => match row.get_ref(at)? {
            ValueRef::Null => {}
            ValueRef::Integer(number) => each(Leaf::Number(&number.to_string())),
            ValueRef::Real(number) => each(Leaf::Number(&number.to_string())),
            ValueRef::Text(text) => each(Leaf::Text(String::from_utf8_lossy(text))),
            ValueRef::Blob(bytes) => {
                let address = <[u8; 16]>::try_from(bytes).map(ip);
                each(Leaf::Text(Cow::Owned(address.map(|ip| ip.to_string()).unwrap_or_default())));
            }
        },
    }
    Ok(())
}

/// Tags of encoded values.
const ABSENT: u8 = 0;
const TEXT: u8 = 1;
const NUMBER: u8 = 2;
const FALSE: u8 = 3;
const TRUE: u8 = 4;

fn push_leaf(to: &mut Vec<u8>, leaf: &Leaf<'_>) {
    let mut with_length = |tag: u8, bytes: &[u8]| {
        to.push(tag);
        to.extend_from_slice(&(bytes.len() as u32).to_be_bytes());
        to.extend_from_slice(bytes);
    };
    match leaf {
        Leaf::Bool(yes) => to.push(if *yes { TRUE } else { FALSE }),
        Leaf::Text(text) => with_length(TEXT, text.as_bytes()),
        Leaf::Number(digits) => with_length(NUMBER, digits.as_bytes()),
        Leaf::Sum(sum) => with_length(NUMBER, sum.to_string().as_bytes()),
    }
}

fn push_key(to: &mut Vec<u8>, by: GroupBy, at: usize, row: &Row<'_>, side: Side) -> rusqlite::Result<()> {
    let [src, sport, dst, dport, proto, vlan] = [at, at + 1, at + 2, at + 3, at + 4, at + 5];
    let address = |to: &mut Vec<u8>, column: usize| -> rusqlite::Result<()> {
        to.extend_from_slice(&row.get::<_, [u8; 16]>(column)?);
        Ok(())
    };
    // Of protocols without ports something else is stored in their place, such as types of ICMP.
    let port = |to: &mut Vec<u8>, column: usize| -> rusqlite::Result<()> {
        let port: u16 = if has_ports(row.get(proto)?) { row.get(column)? } else { 0 };
        to.extend_from_slice(&port.to_be_bytes());
        Ok(())
    };
    let (own, peer) = if side == Side::Client { (src, dst) } else { (dst, src) };
    match by {
        GroupBy::Client => address(to, src)?,
        GroupBy::Server => address(to, dst)?,
        GroupBy::Sender | GroupBy::Host => address(to, own)?,
        GroupBy::Receiver => address(to, peer)?,
        GroupBy::Pair => {
            address(to, src)?;
            address(to, dst)?;
        }
        GroupBy::Talker => {
            address(to, dst)?;
            port(to, dport)?;
            address(to, src)?;
            to.push(row.get(proto)?);
        }
        GroupBy::Flow => {
            address(to, src)?;
            port(to, sport)?;
            address(to, dst)?;
            port(to, dport)?;
            to.push(row.get(proto)?);
        }
        GroupBy::Service => {
            to.push(row.get(proto)?);
            port(to, dport)?;
        }
        GroupBy::Protocol => to.push(row.get(proto)?),
        GroupBy::Vlan => to.extend_from_slice(&row.get::<_, u16>(vlan)?.to_be_bytes()),
        GroupBy::State | GroupBy::Application | GroupBy::Name => {}
    }
    Ok(())
}

/// Reads encoded values.
struct Decoder<'k>(&'k [u8]);

impl Decoder<'_> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let (front, rest) = self.0.split_at_checked(N).unwrap_or((&[], &[]));
        self.0 = rest;
        front.try_into().unwrap_or([0; N])
    }

    fn byte(&mut self) -> u8 {
        let [byte] = self.take();
        byte
    }

    fn text(&mut self) -> String {
        let length = u32::from_be_bytes(self.take()) as usize;
        let (front, rest) = self.0.split_at_checked(length).unwrap_or((&[], &[]));
        self.0 = rest;
        String::from_utf8_lossy(front).into_owned()
    }

    fn key(&mut self, by: GroupBy) -> Key {
        let port = |this: &mut Self| u16::from_be_bytes(this.take());
        match by {
            GroupBy::Pair => Key::Pair(ip(self.take()), ip(self.take())),
            GroupBy::Talker => {
                let (server, port, client) = (ip(self.take()), port(self), ip(self.take()));
                Key::Talker { server, port, client, protocol: self.byte() }
            }
            GroupBy::Flow => {
                let (source, source_port) = (ip(self.take()), port(self));
                let (destination, destination_port) = (ip(self.take()), port(self));
                Key::Flow { source, source_port, destination, destination_port, protocol: self.byte() }
            }
            GroupBy::Service => Key::Port { protocol: self.byte(), port: port(self) },
            GroupBy::Protocol => Key::Protocol(self.byte()),
            GroupBy::Vlan => Key::Vlan(port(self)),
            _ => Key::Address(ip(self.take())),
        }
    }

    fn leaf(&mut self) -> Cell {
        match self.byte() {
            TEXT => Cell::Text(self.text()),
            NUMBER => Cell::Number(self.text()),
            FALSE => Cell::Bool(false),
            TRUE => Cell::Bool(true),
            _ => Cell::None,
        }
    }
}

fn decode(key: &[u8], by: &[Dimension]) -> Vec<Cell> {
    let mut decoder = Decoder(key);
    by.iter()
        .map(|dimension| match dimension {
            Dimension::Field(_) | Dimension::Key(GroupBy::State | GroupBy::Application | GroupBy::Name) => {
                decoder.leaf()
            }
            Dimension::Key(by) => Cell::Key(decoder.key(*by)),
        })
        .collect()
}

/// The first and the last time of the flows that have a part of a time in some partitions.
pub fn flows_extent(parts: &[Part], span: TimeRange) -> Result<TimeRange, StoreError> {
    let (from, to) = condition::bounds(span);
    let mut found: Option<(u64, u64)> = None;
    let mut progress = Progress::default();
    for part in parts {
        progress.ask(part, |connection: &Connection| {
            let text = "SELECT min(first), max(last) FROM flows WHERE last >= ? AND first < ?";
            let ends: (Option<i64>, Option<i64>) = connection
                .prepare_cached(text)?
                .query_row([from, to], |row| Ok((row.get(0)?, row.get(1)?)))?;
            if let (Some(first), Some(last)) = ends {
                let (first, last) = (first as u64, last as u64);
                found = Some(found.map_or((first, last), |(a, b)| (a.min(first), b.max(last))));
            }
            Ok(())
        })?;
    }
    Ok(match found {
        Some((first, last)) => TimeRange { from: Some(first), to: Some(last.saturating_add(1)) },
        None => span,
    })
}
