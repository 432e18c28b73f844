//! Queries for flows and records.

use super::beside;
use super::condition::{Condition, bounds};
use super::connection::describe;
use super::courses::{Courses, flow_row};
use super::partition::{Part, Progress};
use crate::body::{self, Leaf};
use crate::payload::{Withheld, has_text};
use crate::share::{Crossings, Window, both, crossing_bound};
use crate::{FlowOrder, FlowsWanted, RecordOrder, RecordsWanted, StoreError, TimeRange};
use rusqlite::types::{Value as Sql, ValueRef};
use rusqlite::{Connection, Row, ToSql, params_from_iter};
use serde_json::{Map, Value};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::atomic::Ordering;
use weir_api::Unit;
use weir_api::basis::{Basis, Source};
use weir_api::web::{Flow, FlowHistogram, FlowRecordRow, Flows, RecordRow, Records};
use weir_filter::fields::FieldInfo;
use weir_output::format::read_uid;
use weir_output::ports;
use weir_output::row::{ip, uid};

/// Maximum number of rows before and on a page.
pub const MAX_ROWS: usize = 100_000;
/// Bins of a histogram.
const BINS: u64 = 120;
const SECOND: f64 = 1e9;

/// The sort key of a row; a page keeps those of all its rows. Rows without a value come first, numbers before texts.
#[derive(Clone, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
enum Order {
    #[default]
    Absent,
    /// Sorts as the number does.
    Number(u64),
    /// At most [`MAX_ORDER`] bytes.
    Text(Box<[u8]>),
    /// After all others.
    Last,
}

/// Bytes by which texts are sorted.
const MAX_ORDER: usize = 128;

fn order_column(order: FlowOrder) -> &'static str {
    match order {
        FlowOrder::First => "first",
        FlowOrder::Last => "last",
        FlowOrder::Duration => "last - first",
        FlowOrder::Bytes => "fbytes + rbytes",
        FlowOrder::Packets => "fpackets + rpackets",
        FlowOrder::Source => "src",
        FlowOrder::Destination => "dst",
        FlowOrder::Service => "ifnull(service, '')",
        FlowOrder::State => "state",
    }
}

fn order_of(value: ValueRef<'_>) -> Order {
    match value {
        // Offset, so that negative numbers come first.
        ValueRef::Integer(n) => Order::Number(n as u64 ^ 1 << 63),
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => {
            Order::Text(bytes.get(..MAX_ORDER).unwrap_or(bytes).into())
        }
        ValueRef::Real(_) | ValueRef::Null => Order::Absent,
    }
}

/// The order of the kept rows: the greatest is removed first when there is no room.
#[derive(Eq, Ord, PartialEq, PartialOrd)]
enum Rank {
    Up(Order, (usize, i64)),
    Down(Reverse<Order>, (usize, i64)),
}

impl Rank {
    fn place(self) -> (usize, i64) {
        match self {
            Rank::Up(_, place) | Rank::Down(_, place) => place,
        }
    }
}

/// The bins of a histogram of flows.
pub struct Bins {
    /// The range.
    window: Window,
    /// Length of a bin in nanoseconds.
    step: u64,
    /// Begin and end of each.
    pub parts: Vec<(u64, u64)>,
}

impl Bins {
    /// The bins over a range; an absent end of it is that of the stored rows.
    pub fn of(span: TimeRange, extent: (u64, u64)) -> Self {
        let window =
            Window { from: span.from.unwrap_or(extent.0), to: span.to.unwrap_or(extent.1.saturating_add(1)) };
        let length = window.to.saturating_sub(window.from);
        let step = length.div_ceil(BINS).max(1);
        let count = length.div_ceil(step).max(1) as usize;
        Self { window, step, parts: window.parts(window.from, step, count) }
    }
}

/// Flows of partitions, the latest first; the condition is that of the test. The rows go to `each`, in order, until it returns false:
/// only their places are in memory together.
pub fn flows(
    parts: &[Part],
    wanted: &FlowsWanted,
    condition: Condition,
    extent: (u64, u64),
    each: &mut dyn FnMut(Flow) -> bool,
) -> Result<Flows, StoreError> {
    let condition = condition.by_direction().during(wanted.span);
    let mut progress = Progress::default();
    let Bins { window, step, parts: bins } = Bins::of(wanted.span, extent);
    let Window { from, to } = window;
    let courses = Courses::new(parts, window);
    let mut crossings = Crossings::default();
    let mut answer = Flows {
        histogram: FlowHistogram {
            step: step as f64 / SECOND,
            times: bins.iter().map(|(start, _)| *start as f64 / SECOND).collect(),
            flows: vec![0; bins.len()],
            bytes: vec![0; bins.len()],
            watched: Vec::new(),
        },
        ..Flows::default()
    };
    let max = wanted.offset.saturating_add(wanted.limit).min(MAX_ROWS);
    let mut page: BinaryHeap<Rank> = BinaryHeap::new();
    let text = format!(
        "SELECT id, uid, first, last, fpackets, rpackets, fbytes, rbytes, {} FROM {} WHERE {}",
        order_column(wanted.order),
        condition.from,
        condition.text
    );
    for (at, part) in parts.iter().enumerate() {
        let go_on = progress.ask(part, |connection| {
            condition.register(connection)?;
            let mut query = connection.prepare_cached(&text)?;
            let mut rows = query.query(params_from_iter(&condition.values))?;
            while let Some(row) = rows.next()? {
                let flow = flow_row(row, 1)?;
                let (id, (first, last)) = (row.get(0)?, flow.times);
                let place = |time: u64| (time.saturating_sub(from) / step).min(bins.len() as u64 - 1);
                let (begin, end) = (place(first), place(last.min(to.saturating_sub(1))));
                let (is_inside, is_one) = (window.holds(first, last), begin >= end);
                let (inside, course) = match is_inside && is_one {
                    true => (flow.whole(), None),
                    false => {
                        let course = courses.of(part, &flow)?;
                        (both(course.crossing(&window, &mut crossings)).count, Some(course))
                    }
                };
                answer.matched += 1;
                answer.matched_packets += inside.packets;
                answer.matched_bytes += inside.bytes;
                if let Some(flows) = answer.histogram.flows.get_mut(begin as usize) {
                    *flows += 1;
                }
                for bin in begin..=end.max(begin) {
                    let bin = bin as usize;
                    let (Some((at, until)), Some(sum)) = (bins.get(bin), answer.histogram.bytes.get_mut(bin))
                    else {
                        continue;
                    };
                    let part = Window { from: *at, to: *until };
                    *sum += match &course {
                        Some(course) if !is_one => both(course.within(&part)).count.bytes,
                        _ => inside.bytes,
                    };
                }
                let (order, place) = (order_of(row.get_ref(8)?), (at, id));
                page.push(if wanted.descending {
                    Rank::Down(Reverse(order), place)
                } else {
                    Rank::Up(order, place)
                });
                if page.len() > max {
                    page.pop();
                }
            }
            Ok(())
        })?;
        if !go_on {
            break;
        }
    }
    unhurried(parts);
    for (at, id) in page.into_sorted_vec().into_iter().map(Rank::place).skip(wanted.offset) {
        if let Some(part) = parts.get(at)
            && !each(one_flow(parts, part, id, &wanted.fields)?)
        {
            break;
        }
    }
    answer.crossing = crossings.stated();
    answer.basis = Basis {
        source: Source::Flows,
        bound: Some(crossing_bound(answer.crossing.as_ref(), Unit::Bytes)),
        ..Basis::default()
    };
    answer.partial = progress.partial(parts.len()).or(condition.partial);
    if wanted.offset.saturating_add(wanted.limit) > MAX_ROWS {
        answer.partial = Some(format!(
            "only the first {MAX_ROWS} rows can be paged: narrow the time range or the expression"
        ));
    }
    Ok(answer)
}

/// Ends the time limit of the search: the rows that were found are read one by one, for as long as they are taken.
fn unhurried(parts: &[Part]) {
    parts.iter().for_each(|part| part.is_hurried.store(false, Ordering::Relaxed));
}

const FLOW_COLUMNS: &str = "uid, first, last, proto, src, sport, dst, dport, fpackets, rpackets, fbytes, rbytes, vlan, \
                            state, service, name, detail, id";

fn one_flow(parts: &[Part], part: &Part, id: i64, fields: &[FieldInfo]) -> Result<Flow, StoreError> {
    let describe = describe(&part.path);
    let mut query = part
        .connection
        .prepare_cached(&format!("SELECT {FLOW_COLUMNS} FROM flows WHERE id = ?"))
        .map_err(describe)?;
    let (flow, number, times, detail) = query
        .query_row([id], |row| {
            let number = |at: usize| Ok::<u64, rusqlite::Error>(row.get::<_, i64>(at)? as u64);
            let (flow, detail) = flow_of(row)?;
            Ok((flow, number(0)?, (number(1)?, number(2)?), detail))
        })
        .map_err(describe)?;
    Ok(Flow { values: beside::values(parts, part, (id, number), times, &detail, fields)?, ..flow })
}

/// A flow with its details.
fn flow_of(row: &Row<'_>) -> rusqlite::Result<(Flow, String)> {
    let id: i64 = row.get(0)?;
    let (first, last): (i64, i64) = (row.get(1)?, row.get(2)?);
    let number: u8 = row.get(3)?;
    let (source, destination): ([u8; 16], [u8; 16]) = (row.get(4)?, row.get(6)?);
    let (source_port, destination_port): (u16, u16) = (row.get(5)?, row.get(7)?);
    let count = |at: usize| Ok::<u64, rusqlite::Error>(row.get::<_, i64>(at)? as u64);
    let vlan: u16 = row.get(12)?;
    let detail: String = row.get(16)?;
    let community = member(&detail, "community_id").unwrap_or_default();
    Ok((
        Flow {
            id: format!("{}.{first}", uid(id as u64)),
            uid: uid(id as u64),
            community_id: community,
            first: first as f64 / SECOND,
            last: last as f64 / SECOND,
            protocol: ports::protocol(number),
            source: ip(source).to_string(),
            source_port,
            destination: ip(destination).to_string(),
            destination_port,
            packets: [count(8)?, count(9)?],
            bytes: [count(10)?, count(11)?],
            state: row.get(13)?,
            service: row.get(14)?,
            vlan: (vlan != 0).then_some(vlan),
            name: row.get(15)?,
            // See the schema.
            open: row.get::<_, i64>(17)? < 0,
            values: Map::new(),
        },
        detail,
    ))
}

fn member(object: &str, name: &str) -> Option<String> {
    let object: Map<String, Value> = serde_json::from_str(object).ok()?;
    Some(object.get(name)?.as_str()?.to_owned())
}

/// The number in a flow's identifier, and the time of its first packet, if given.
pub fn number_of(id: &str) -> Option<(u64, Option<u64>)> {
    let (name, first) = id.split_once('.').map_or((id, None), |(name, first)| (name, Some(first)));
    let number = read_uid(name)?;
    Some((number, first.map(str::parse).transpose().ok()?))
}

/// The flow of a number in a partition, with its details.
pub fn flow(part: &Part, number: u64, first: Option<u64>) -> Result<Option<(Flow, String)>, StoreError> {
    let describe = describe(&part.path);
    let text =
        format!("SELECT {FLOW_COLUMNS} FROM flows WHERE uid = ?1 AND first = ifnull(?2, first) LIMIT 1");
    let mut query = part.connection.prepare_cached(&text).map_err(describe)?;
    let mut rows = query.query((number as i64, first.map(|first| first as i64))).map_err(describe)?;
    rows.next().map_err(describe)?.map(flow_of).transpose().map_err(describe)
}

/// Records of a flow in order, up to a maximum number.
pub fn flows_in(part: &Part, number: u64, max: usize) -> Result<Vec<FlowRecordRow>, StoreError> {
    let describe = describe(&part.path);
    let text = "SELECT tbl, time, body FROM records WHERE uid = ?1 ORDER BY time, id LIMIT ?2";
    let mut query = part.connection.prepare_cached(text).map_err(describe)?;
    let rows = query
        .query_map((number as i64, max as i64), |row| {
            let body: String = row.get(2)?;
            Ok(FlowRecordRow {
                table: row.get(0)?,
                time: row.get::<_, i64>(1)? as f64 / SECOND,
                values: serde_json::from_str(&body).unwrap_or_default(),
            })
        })
        .map_err(describe)?;
    rows.collect::<Result<_, _>>().map_err(describe)
}

/// Records of partitions. The rows go to `each`, in order, until it returns false: only their places are in memory together.
pub fn records(
    parts: &[Part],
    wanted: &RecordsWanted,
    condition: Condition,
    each: &mut dyn FnMut(RecordRow) -> bool,
) -> Result<Records, StoreError> {
    let (from, to) = bounds(wanted.span);
    let mut condition = condition.and(
        "tbl = ? AND time >= ? AND time < ?",
        [Sql::Text(wanted.table.clone()), Sql::Integer(from), Sql::Integer(to)],
    );
    if !wanted.text.is_empty() {
        condition = condition.and("instr(lower(body), lower(?)) > 0", [Sql::Text(wanted.text.clone())]);
    }
    let found = match (wanted.order, wanted.descending) {
        (RecordOrder::Time, true) => latest_records(parts, wanted, &condition)?,
        _ => sorted_records(parts, wanted, &condition)?,
    };
    let mut withheld = found.withheld;
    unhurried(parts);
    let text = format!("SELECT {RECORD_COLUMNS} FROM records WHERE id = ?");
    for (at, id) in found.places {
        let Some(part) = parts.get(at) else { continue };
        let describe = describe(&part.path);
        let mut query = part.connection.prepare_cached(&text).map_err(describe)?;
        let mut row = query.query_row([id], record_of).map_err(describe)?;
        if !wanted.payload {
            withheld.withhold(&wanted.table, &mut row.values);
        }
        if !each(row) {
            break;
        }
    }
    let mut answer = Records { table: wanted.table.clone(), matched: found.matched, ..Records::default() };
    answer.basis = Basis { source: Source::Records, bound: Some(0), ..Basis::default() };
    answer.partial =
        found.progress.partial(parts.len()).or(condition.partial).or_else(|| withheld.sentence());
    if wanted.offset.saturating_add(wanted.limit) > MAX_ROWS {
        answer.partial = Some(format!(
            "only the first {MAX_ROWS} rows can be paged: narrow the time range or the expression"
        ));
    }
    Ok(answer)
}

/// The records that were found.
#[derive(Default)]
struct Found {
    /// The partition and the identifier of each row of the page, in order.
    places: Vec<(usize, i64)>,
    /// Number of matching rows on all pages.
    matched: u64,
    progress: Progress,
    /// Fields that were left out in the search.
    withheld: Withheld,
}

const RECORD_COLUMNS: &str = "uid, time, src, sport, dst, dport, body, \
                              EXISTS (SELECT 1 FROM flows WHERE flows.uid = records.uid)";

/// Records in an order that every one of them has to be read for.
fn sorted_records(
    parts: &[Part],
    wanted: &RecordsWanted,
    condition: &Condition,
) -> Result<Found, StoreError> {
    let (columns, field) = match wanted.order {
        RecordOrder::Time => ("time", None),
        RecordOrder::Client => ("src", None),
        RecordOrder::Server => ("dst", None),
        RecordOrder::Field(name) => ("NULL", Some(name)),
    };
    let text = format!("SELECT id, {columns}, body FROM records WHERE {}", condition.text);
    // Without the right to payload a text that was found may stand in a field that is not shown.
    let is_searched = !wanted.payload && !wanted.text.is_empty();
    let max = wanted.offset.saturating_add(wanted.limit).min(MAX_ROWS);
    let Found { mut matched, mut progress, mut withheld, .. } = Found::default();
    let mut page: BinaryHeap<Rank> = BinaryHeap::new();
    for (at, part) in parts.iter().enumerate() {
        let go_on = progress.ask(part, |connection| {
            condition.register(connection)?;
            let mut query = connection.prepare_cached(&text)?;
            let mut rows = query.query(params_from_iter(&condition.values))?;
            while let Some(row) = rows.next()? {
                let body = row.get_ref(2)?.as_str().unwrap_or_default();
                if is_searched {
                    let mut values: Map<String, Value> = serde_json::from_str(body).unwrap_or_default();
                    withheld.withhold(&wanted.table, &mut values);
                    if !has_text(&values, &wanted.text) {
                        continue;
                    }
                }
                matched += 1;
                let order = match field {
                    Some(name) => order_of_field(body, name),
                    None => Some(order_of(row.get_ref(1)?)),
                };
                let place = (at, row.get(0)?);
                // A row without a value is the last one in both orders.
                page.push(match (order, wanted.descending) {
                    (Some(order), false) => Rank::Up(order, place),
                    (None, false) => Rank::Up(Order::Last, place),
                    (order, true) => Rank::Down(Reverse(order.unwrap_or_default()), place),
                });
                if page.len() > max {
                    page.pop();
                }
            }
            Ok(())
        })?;
        if !go_on {
            break;
        }
    }
    let places = page.into_sorted_vec().into_iter().map(Rank::place).skip(wanted.offset).collect();
    Ok(Found { places, matched, progress, withheld })
}

/// The sort key of the first value of a field: numbers by value, before text in any case of ASCII letters.
fn order_of_field(body: &str, name: &str) -> Option<Order> {
    let mut found = None;
    body::leaves(body::member(body, name)?, &mut |leaf| {
        found.get_or_insert(leaf);
    });
    let number = |value: f64| {
        let bits = value.to_bits();
        // The bits of negative numbers sort in reverse.
        Order::Number(if bits >> 63 == 1 { !bits } else { bits ^ 1 << 63 })
    };
    Some(match found? {
        Leaf::Text(text) => {
            Order::Text(text.bytes().take(MAX_ORDER).map(|byte| byte.to_ascii_lowercase()).collect())
        }
        Leaf::Bool(yes) => number(f64::from(u8::from(yes))),
        leaf => number(leaf.number()?),
    })
}

/// Records, the latest first: partitions are in the order of time.
fn latest_records(
    parts: &[Part],
    wanted: &RecordsWanted,
    condition: &Condition,
) -> Result<Found, StoreError> {
    let Found { mut places, mut matched, mut progress, mut withheld } = Found::default();
    let count = format!("SELECT count(*) FROM records WHERE {}", condition.text);
    let of_columns = |columns: &str| {
        format!(
            "SELECT {columns} FROM records WHERE {} ORDER BY time DESC, id DESC LIMIT ? OFFSET ?",
            condition.text
        )
    };
    let (rows, bodies) = (of_columns("id"), of_columns("id, body"));
    let (mut skip, limit) = (wanted.offset as u64, wanted.limit.min(MAX_ROWS));
    for (at, part) in parts.iter().enumerate() {
        let go_on = progress.ask(part, |connection| {
            condition.register(connection)?;
            if !wanted.payload && !wanted.text.is_empty() {
                // The database may find the text in a field that is not shown: each row is searched again without such
                // fields.
                matched += search(connection, &bodies, condition, |id, mut values| {
                    withheld.withhold(&wanted.table, &mut values);
                    let is_found = has_text(&values, &wanted.text);
                    if is_found && skip > 0 {
                        skip -= 1;
                    } else if is_found && places.len() < limit {
                        places.push((at, id));
                    }
                    is_found
                })?;
                return Ok(());
            }
            let here: i64 = connection
                .prepare_cached(&count)?
                .query_row(params_from_iter(&condition.values), |row| row.get(0))?;
            matched += here as u64;
            let room = limit - places.len();
            if room > 0 && skip < here as u64 {
                let page = [Sql::Integer(room as i64), Sql::Integer(skip as i64)];
                let values: Vec<&dyn ToSql> =
                    condition.values.iter().chain(&page).map(|value| value as &dyn ToSql).collect();
                let mut query = connection.prepare_cached(&rows)?;
                for id in query.query_map(values.as_slice(), |row| row.get(0))? {
                    places.push((at, id?));
                }
            }
            skip = skip.saturating_sub(here as u64);
            Ok(())
        })?;
        if !go_on {
            break;
        }
    }
    Ok(Found { places, matched, progress, withheld })
}

/// Calls `show` for every row of a condition, and counts those for which it returns true.
fn search(
    connection: &Connection,
    text: &str,
    condition: &Condition,
    mut show: impl FnMut(i64, Map<String, Value>) -> bool,
) -> rusqlite::Result<u64> {
    let all = [Sql::Integer(-1), Sql::Integer(0)];
    let values: Vec<&dyn ToSql> =
        condition.values.iter().chain(&all).map(|value| value as &dyn ToSql).collect();
    let mut query = connection.prepare_cached(text)?;
    let mut found = 0;
    let mut rows = query.query(values.as_slice())?;
    while let Some(row) = rows.next()? {
        let body = row.get_ref(1)?.as_str().unwrap_or_default();
        found += u64::from(show(row.get(0)?, serde_json::from_str(body).unwrap_or_default()));
    }
    Ok(found)
}

fn record_of(row: &Row<'_>) -> rusqlite::Result<RecordRow> {
    let number: i64 = row.get(0)?;
    let name = uid(number as u64);
    let body: String = row.get(6)?;
    Ok(RecordRow {
        time: row.get::<_, i64>(1)? as f64 / SECOND,
        flow: row.get::<_, bool>(7)?.then(|| name.clone()),
        uid: name,
        source: ip(row.get(2)?).to_string(),
        source_port: row.get(3)?,
        destination: ip(row.get(4)?).to_string(),
        destination_port: row.get(5)?,
        values: serde_json::from_str(&body).unwrap_or_default(),
    })
}
