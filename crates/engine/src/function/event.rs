//! Turns what reaches it into events: items, or the rows of the reading before it that pass a threshold.

use super::drops::{DROPS, PER_MILLION, drops_of, per_million};
use super::ends::words;
use super::found::Found;
use super::judge::{Named, SEVERITIES};
use super::top::ip;
use super::{Argument, Arguments, Function, FunctionSpec, InputKind, Judge, Memory};
use crate::Item;
use crate::bounded::Bounded;
use crate::fields::endpoints_of;
use crate::keyed::Tuple;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::SocketAddr;
use std::sync::Arc;
use weir_api::event::FINDING;
use weir_api::{
    Count, Datum, Event, Fold, Folded, FunctionCall, Interval, Key, KeyColumn, Ledger, Level, Reading,
    Schema, Severity, Shown, Subject, SynCounts, TableColumn, TableRow, UdpHost, Unit, WORM_DIFFERENCE,
    WorkWeight, mac_text,
};

/// Over packets, streams and flows.
pub(super) static EVENT: FunctionSpec =
    FunctionSpec { levels: &[Level::Packet, Level::Stream, Level::Flow], ..SPEC };

/// Over records.
pub(super) static EVENT_OF_RECORDS: FunctionSpec = FunctionSpec { levels: &[Level::Record], ..SPEC };

const SPEC: FunctionSpec = FunctionSpec {
    name: "event",
    help: "Events of what reaches it: of flows and records, one for each pair of hosts; with above or below, one for each row of the function before it whose number passes the threshold in an interval.",
    arguments: &[
        Argument {
            name: "name",
            help: "The name of the events: letters, digits, hyphens and underscores, at most 64.",
            default: None,
        },
        Argument { name: "severity", help: "low or high: a notice or a warning.", default: Some("high") },
        Argument { name: "above", help: "Events of rows with more than this number.", default: Some("") },
        Argument { name: "below", help: "Events of rows with less than this number.", default: Some("") },
        Argument {
            name: "column",
            help: "The column with the number; by default the column of the ranking, else the first.",
            default: Some(""),
        },
        Argument {
            name: "rows",
            help: "Number of pairs of hosts to keep, 16 to 65536.",
            default: Some("1024"),
        },
        Argument {
            name: "quiet",
            help: "Seconds without a finding after which an event has ended, 1 to 86400; by default 300, or two intervals if these are longer.",
            default: Some(""),
        },
        Argument {
            name: "keep",
            help: "While an event of above is open, rows with more than this number keep it open; by default as above.",
            default: Some(""),
        },
        Argument {
            name: "hold",
            help: "Seconds for which a row passes before its event begins, 0 to 3600.",
            default: Some("0"),
        },
        Argument {
            name: "over",
            help: "Seconds that are compared with above or below as a whole, 0.1 to 3600, in tenths; by default an interval of the subscription.",
            default: Some(""),
        },
    ],
    levels: &Level::ALL,
    input: InputKind::Packets,
    memory: |arguments| {
        let rows = Asked::of(arguments)?.rows.next_multiple_of(8);
        Ok(Memory { state: 256 + Bounded::<Tuple, Found>::bytes(rows), reading: 256 + rows * ROW })
    },
    judge: Some(|arguments, length| {
        let asked = Asked::of(arguments)?;
        let length = asked.over.unwrap_or(length);
        let quiet = asked.quiet.unwrap_or_else(|| QUIET.max(length.saturating_mul(2)));
        let named = Named { name: asked.name.into(), severity: asked.severity, quiet };
        Ok(match asked.is_threshold() {
            true => Box::new(Threshold {
                asked: asked.into(),
                named,
                length: length.max(1),
                open: None,
                judged: None,
                latest: None,
                passed: HashMap::new(),
                ahead: BTreeMap::new(),
            }),
            false => Box::new(Items(named)),
        })
    }),
    delivers: None,
    identifies: false,
    build: |arguments| {
        let asked = Asked::of(arguments)?;
        let list = Bounded::new(asked.rows.next_multiple_of(8), Unit::Packets, arguments.seeds.run);
        Ok(Box::new(Pairs { list, schema: Arc::new(PAIRS.clone()) }))
    },
};

/// A tenth of a second in nanoseconds.
const TENTH: u64 = 100_000_000;

/// Least time without a finding after which an event has ended, in nanoseconds.
pub(super) const QUIET: u64 = 300_000_000_000;

/// The subject of a reading without keys.
const ALL: &str = "all";

/// Bytes of a row of a reading.
const ROW: usize = size_of::<TableRow>() + 2 * size_of::<Datum>() + 3 * size_of::<Folded>();

/// The items by their hosts.
static PAIRS: Schema = Schema {
    name: Cow::Borrowed("findings"),
    keys: Cow::Borrowed(&[
        KeyColumn::new("source", "", "The initiator."),
        KeyColumn::new("target", "", "The responder."),
    ]),
    columns: Cow::Borrowed(&[
        TableColumn::new("items", Fold::Sum, "items", "Flows or records."),
        TableColumn::new("first", Fold::Min, "time", "Time of the first."),
        TableColumn::new("last", Fold::Max, "time", "Time of the last."),
    ]),
    shown: Shown::Heaviest(10),
};

/// What a call asks for.
struct Asked<'a> {
    name: &'a str,
    severity: Severity,
    above: Option<f64>,
    below: Option<f64>,
    column: &'a str,
    rows: usize,
    /// Nanoseconds without a finding after which an event has ended.
    quiet: Option<u64>,
    /// Nanoseconds that are judged as a whole.
    over: Option<u64>,
    /// Numbers above this keep an open event of `above`.
    keep: Option<f64>,
    /// Nanoseconds for which a row passes before its event begins.
    hold: u64,
}

impl<'a> Asked<'a> {
    fn of(arguments: &Arguments<'a>) -> Result<Self, String> {
        let name = arguments.name("name")?;
        let limit = |argument: &str| match arguments.text(argument)? {
            "" => Ok(None),
            _ => match arguments.parse::<f64>(argument)? {
                number if number.is_finite() => Ok(Some(number)),
                number => Err(format!("`event`: {argument} = `{number}` is not a number")),
            },
        };
        let rows: usize = arguments.within("rows", 16..=1 << 16)?;
        let seconds = |name: &str, most: u64| match arguments.text(name)? {
            "" => Ok::<_, String>(None),
            _ => Ok(Some(arguments.within::<u64>(name, 1..=most)? * 1_000_000_000)),
        };
        Ok(Self {
            name,
            severity: arguments.choice("severity", &SEVERITIES)?,
            above: limit("above")?,
            below: limit("below")?,
            column: arguments.text("column")?,
            rows,
            quiet: seconds("quiet", 86_400)?,
            over: window(arguments)?,
            keep: limit("keep")?,
            hold: arguments.within::<u64>("hold", 0..=3_600)? * 1_000_000_000,
        })
    }

    fn is_threshold(&self) -> bool {
        self.above.is_some() || self.below.is_some()
    }
}

/// Nanoseconds that a call compares with its threshold as a whole; `None` if it says no time, or is of another function.
pub fn window_of(call: &FunctionCall) -> Option<u64> {
    if call.name != EVENT.name {
        return None;
    }
    let arguments = Arguments::new(EVENT.name, EVENT.arguments, call, 0_u64.into()).ok()?;
    window(&arguments).ok()?
}

/// The argument `over` in nanoseconds.
fn window(arguments: &Arguments<'_>) -> Result<Option<u64>, String> {
    if arguments.text("over")?.is_empty() {
        return Ok(None);
    }
    let seconds = arguments.within::<f64>("over", 0.1..=3_600.0)?;
    let tenths = (seconds * 10.0).round();
    if (tenths - seconds * 10.0).abs() > 1e-6 {
        return Err(format!("`event`: over = `{seconds}` has more than tenths of a second"));
    }
    Ok(Some(tenths as u64 * TENTH))
}

/// Whether a call judges the reading of the function before it, instead of items.
///
/// # Errors
/// An argument is invalid.
pub(crate) fn is_threshold(call: &FunctionCall) -> Result<bool, String> {
    if call.name != EVENT.name {
        return Ok(false);
    }
    let arguments = Arguments::new(EVENT.name, EVENT.arguments, call, 0_u64.into())?;
    Ok(Asked::of(&arguments)?.is_threshold())
}

/// Checks that items of a level can be events of this function.
///
/// # Errors
/// They cannot.
pub(crate) fn check_level(function: &FunctionSpec, level: Level) -> Result<(), String> {
    if function.name == EVENT.name && !matches!(level, Level::Flow | Level::Record) {
        return Err("`event` without above or below needs level = \"flow\" or \"record\"".to_owned());
    }
    Ok(())
}

/// The call with the name of the column that it judges, for readings of this function.
///
/// # Errors
/// The reading has no such column, or no rows with numbers.
pub(crate) fn judging(
    call: &FunctionCall,
    function: &str,
    reading: &Reading,
) -> Result<FunctionCall, String> {
    let arguments = Arguments::new(EVENT.name, EVENT.arguments, call, 0_u64.into())?;
    let columns: Vec<&str> = columns(reading);
    let first = match reading {
        Reading::Top(top) => Some(top.unit.name()),
        _ if function == "bytes" => Some("bytes"),
        _ => columns.first().copied(),
    };
    let Some(first) = first.filter(|_| !columns.is_empty()) else {
        return Err(format!("`event`: the reading of `{function}` has no rows with a number"));
    };
    match Asked::of(&arguments)?.column {
        "" => Ok(call.clone().with("column", first)),
        column if columns.contains(&column) => Ok(call.clone()),
        column => Err(format!("`event`: column = `{column}` is none of {}", columns.join(", "))),
    }
}

/// The call for packets that a run lost, with the name of the column that it compares.
///
/// # Errors
/// An argument is invalid or missing.
pub fn judging_drops(call: &FunctionCall) -> Result<FunctionCall, String> {
    if !is_threshold(call)? {
        return Err("`drops` needs above or below".to_owned());
    }
    judging(call, DROPS, &drops_of(&Ledger::default()))
}

/// The weight of a host over UDP, and the work weight of a host over TCP in percent. They follow from other columns.
const WEIGHT: &str = "weight";

/// The number of hosts of a list of SYNs that sent more than [`WORM_DIFFERENCE`] SYNs beyond the FINs that they received: Ourmon's
/// `tworm`.
const WORMS: &str = "worms";

/// Whether a row is of a host that [`WORMS`] counts.
fn is_worm(row: &TableRow) -> bool {
    SynCounts::of(row).is_some_and(|counts| counts.may_be_worm(WORM_DIFFERENCE))
}

/// How [`WEIGHT`] follows from a row of a table that is shown in this way; `None` if the table has no such weight.
fn weight_of(shown: Shown) -> Option<fn(&TableRow) -> u64> {
    match shown {
        Shown::Udp(_) => Some(|row| UdpHost::of(row).map_or(0, |host| host.weight())),
        Shown::Syn(_) => Some(|row| SynCounts::of(row).map_or(0, |counts| counts.weight(WorkWeight::Sent))),
        Shown::Heaviest(_) | Shown::Scans => None,
    }
}

/// The columns of a reading that hold numbers to compare.
fn columns(reading: &Reading) -> Vec<&str> {
    match reading {
        Reading::Count(_) | Reading::Classes { .. } => vec!["packets", "bytes"],
        Reading::Top(_) => vec!["packets", "bytes", "flows"],
        Reading::Distinct(_) => vec!["estimate"],
        Reading::Table(table) if table.schema.name == DROPS => vec!["packets", PER_MILLION],
        Reading::Table(table) => {
            let is_number = |column: &&TableColumn| {
                matches!(column.fold, Fold::Sum | Fold::Distinct)
                    || column.unit != "time" && column.fold == Fold::Max
            };
            let names = table.schema.columns.iter().filter(is_number).map(|column| &*column.name);
            // What rows are ranked by is compared unless another column is named.
            let shown = table.schema.shown;
            let first = matches!(shown, Shown::Udp(_)).then_some(WEIGHT);
            let last = matches!(shown, Shown::Syn(_)).then_some([WEIGHT, WORMS]);
            first.into_iter().chain(names).chain(last.into_iter().flatten()).collect()
        }
        Reading::Histogram(_) | Reading::Series(_) | Reading::Flooded(_) => Vec::new(),
    }
}

/// Calls `each` with the subject and the number of each row of a reading.
fn each_row(reading: &Reading, column: &str, each: &mut dyn FnMut(&dyn Fn() -> Subject, u64)) {
    let of_count = |count: &Count| if column == "bytes" { count.bytes } else { count.packets };
    match reading {
        Reading::Count(count) => each(&|| Subject::Key(ALL.into()), of_count(count)),
        Reading::Distinct(count) => each(&|| Subject::Key(ALL.into()), count.estimate()),
        Reading::Classes { classes, .. } => {
            for class in classes {
                each(&|| Subject::Key(class.label.as_str().into()), of_count(&class.count));
            }
        }
        Reading::Top(top) => {
            for row in &top.rows {
                let number = if column == "flows" { row.flows } else { of_count(&row.count) };
                each(&|| of_key(&row.key), number);
            }
        }
        Reading::Table(table) => {
            if column == WORMS && matches!(table.schema.shown, Shown::Syn(_)) {
                let worms = table.rows.iter().filter(|row| is_worm(row)).count();
                return each(&|| Subject::Key(ALL.into()), worms as u64);
            }
            if column == WEIGHT
                && let Some(weight) = weight_of(table.schema.shown)
            {
                return table.rows.iter().for_each(|row| each(&|| of_parts(&row.key), weight(row)));
            }
            if column == PER_MILLION {
                let shares = table.rows.iter().filter_map(|row| per_million(&table.schema, row));
                return shares.for_each(|share| each(&|| Subject::Key(ALL.into()), share));
            }
            let Some(at) = table.schema.columns.iter().position(|known| known.name == column) else { return };
            for row in &table.rows {
                if let Some(value) = row.values.get(at) {
                    each(&|| of_parts(&row.key), value.weight());
                }
            }
        }
        Reading::Histogram(_) | Reading::Series(_) | Reading::Flooded(_) => {}
    }
}

/// The subject of a key of a top list.
fn of_key(key: &Key) -> Subject {
    let text = match *key {
        Key::Address(host) => return Subject::Host(host),
        Key::Pair(source, target) => return Subject::Pair { source, target },
        Key::Flow { source, source_port, destination, destination_port, protocol } => {
            let [from, to] = [(source, source_port), (destination, destination_port)].map(SocketAddr::from);
            format!("{from} -> {to} protocol {protocol}")
        }
        Key::Port { protocol, port } => format!("protocol {protocol} port {port}"),
        Key::Protocol(protocol) => format!("protocol {protocol}"),
        Key::Vlan(vlan) => format!("vlan {vlan}"),
        Key::Talker { server, port, client, protocol } => {
            format!("{client} -> {} protocol {protocol}", SocketAddr::from((server, port)))
        }
    };
    Subject::Key(text.into())
}

/// The subject of a key of a table.
fn of_parts(parts: &[Datum]) -> Subject {
    match *parts {
        [] => Subject::Key(ALL.into()),
        [Datum::Address(host)] => Subject::Host(host),
        [Datum::Address(source), Datum::Address(target)] => Subject::Pair { source, target },
        _ => {
            let text = |part: &Datum| match part {
                Datum::Nothing => "-".to_owned(),
                Datum::Address(address) => address.to_string(),
                Datum::Number(number) => number.to_string(),
                Datum::Text(text) => text.to_string(),
                Datum::Mac(mac) => mac_text(mac),
            };
            let texts: Vec<String> = parts.iter().map(text).collect();
            Subject::Key(texts.join(" ").into())
        }
    }
}

/// Counts flows or records by their hosts.
struct Pairs {
    /// By the initiator as `a` and the responder as `b`.
    list: Bounded<Tuple, Found>,
    schema: Arc<Schema>,
}

impl Function for Pairs {
    fn item(&mut self, item: &Item<'_>) {
        let ([source, target], time) = match item {
            Item::FlowEnd(flow, _) => (endpoints_of(flow).address, flow.last),
            Item::Record(view) => (view.endpoints.address, view.record.time),
            _ => return,
        };
        self.list.add_more(Tuple { a: words(source), b: words(target), ..Tuple::default() }, (time, time));
    }

    fn held(&self) -> usize {
        self.list.memory()
    }

    fn take(&mut self) -> Reading {
        self.list.take_table(&self.schema, |pair, found| {
            let values = found.values().to_vec();
            ([pair.a, pair.b].map(|address| Datum::Address(ip(address))).to_vec(), values)
        })
    }
}

/// Makes an event of each pair of hosts.
struct Items(Named);

impl Judge for Items {
    fn judge(
        &mut self,
        reading: &Reading,
        _: Interval,
        interval: Interval,
        _: &dyn Fn(&Event) -> bool,
    ) -> Vec<Event> {
        let Reading::Table(table) = reading else { return Vec::new() };
        let event = |row: &TableRow| {
            let event = Found::event(&row.values, of_parts(&row.key), interval)?;
            let items = Folded::Sum(event.count);
            Some(event.with("items", "", items))
        };
        table.rows.iter().filter_map(event).collect()
    }

    fn named(&self) -> Option<Named> {
        Some(self.0.clone())
    }
}

/// The limits of a threshold.
struct Limits {
    above: Option<f64>,
    below: Option<f64>,
    column: Box<str>,
    keep: Option<f64>,
    hold: u64,
}

impl From<Asked<'_>> for Limits {
    fn from(asked: Asked<'_>) -> Self {
        let Asked { above, below, keep, hold, column, .. } = asked;
        Self { above, below, column: column.into(), keep, hold }
    }
}

/// Judges the rows of whole intervals.
struct Threshold {
    asked: Limits,
    named: Named,
    /// Length of an interval in nanoseconds.
    length: u64,
    /// The interval under way: what was watched of it, and its reading.
    open: Option<(Interval, Reading)>,
    /// End of the last interval that was judged.
    judged: Option<u64>,
    /// See [`Judge::latest`].
    latest: Option<u64>,
    /// With `hold`, the rows that passed in the last interval that was judged, and since when without a break.
    passed: HashMap<Subject, Passed>,
    /// What workers have counted of intervals whose readings follow, by the beginnings of these and the numbers of the workers.
    ahead: BTreeMap<(u64, usize), (Interval, Reading)>,
}

/// The intervals without a break in which a row passed, in nanoseconds since the epoch.
#[derive(Clone, Copy)]
struct Passed {
    from: u64,
    until: u64,
}

impl Passed {
    /// With an interval in which the row passes, after those before it.
    fn next(before: Option<&Passed>, interval: Interval) -> Self {
        let before = before.filter(|before| before.until == interval.start);
        Self { from: before.map_or(interval.start, |before| before.from), until: interval.end }
    }

    fn length(self) -> u64 {
        self.until.saturating_sub(self.from)
    }
}

/// Tells whether an event of the kind and subject of this one is open.
type IsOpen<'a> = &'a dyn Fn(&Event) -> bool;

impl Threshold {
    /// The beginning of the interval that has a time.
    fn start_of(&self, time: u64) -> u64 {
        time - time % self.length
    }

    /// The watched time after the interval under way: what was watched without a gap was watched to its end.
    fn follow(&mut self, watched: Interval, interval: Interval) {
        if let Some((open, _)) = &mut self.open
            && (watched.start..=interval.start).contains(&open.end)
        {
            open.end = interval.start;
        }
    }

    /// Judges the interval under way.
    fn close(&mut self, is_open: IsOpen<'_>) -> Vec<Event> {
        let Some((watched, reading)) = self.open.take() else { return Vec::new() };
        let start = self.start_of(watched.start);
        let end = start.saturating_add(self.length);
        // What comes late for an interval that was judged is less than its whole.
        let is_whole =
            watched.start <= start && watched.end >= end && self.judged.is_none_or(|judged| judged <= start);
        self.judged = self.judged.max(Some(end));
        self.latest = Some(self.outermost(&reading));
        let mut found = self.passing(&reading, watched, is_whole, is_open);
        self.hold(&mut found, Interval { start, end }, is_open);
        found
    }

    /// Leaves out what has not passed for long enough, of the rows that pass in an interval.
    fn hold(&mut self, found: &mut Vec<Event>, interval: Interval, is_open: IsOpen<'_>) {
        let hold = self.asked.hold;
        if hold == 0 {
            return;
        }
        let before = std::mem::take(&mut self.passed);
        found.retain(|event| {
            let passed = Passed::next(before.get(&event.subject), interval);
            self.passed.insert(event.subject.clone(), passed);
            passed.length() >= hold || is_open(event)
        });
    }

    /// The number of a reading that is nearest to the threshold, or furthest beyond it; 0 without rows.
    fn outermost(&self, reading: &Reading) -> u64 {
        let (mut most, mut least) = (None, None);
        each_row(reading, &self.asked.column, &mut |_, number| {
            most = most.max(Some(number));
            least = Some(least.map_or(number, |least: u64| least.min(number)));
        });
        if self.asked.above.is_some() { most } else { least }.unwrap_or_default()
    }

    /// The rows that pass the threshold. What is not the whole of an interval may have too little, but not too much.
    fn passing(
        &self,
        reading: &Reading,
        watched: Interval,
        is_whole: bool,
        is_open: IsOpen<'_>,
    ) -> Vec<Event> {
        let Limits { above, below, keep, column, .. } = &self.asked;
        let mut found = Vec::new();
        each_row(reading, column, &mut |subject, number| {
            let is_above = |limit: &Option<f64>| limit.is_some_and(|limit| number as f64 > limit);
            let passes = is_above(above) || is_whole && below.is_some_and(|limit| (number as f64) < limit);
            if !passes && !is_above(keep) {
                return;
            }
            let event = self.event(subject(), watched, number);
            if passes || is_open(&event) {
                found.push(event);
            }
        });
        found
    }

    /// The intervals of a silence before a time, in which the only row of a reading without keys is 0.
    fn silence(
        &mut self,
        reading: &Reading,
        watched: Interval,
        start: u64,
        is_open: IsOpen<'_>,
    ) -> Option<Event> {
        let first =
            self.start_of(watched.start.saturating_add(self.length - 1)).max(self.judged.unwrap_or(0));
        let number = start.checked_sub(first)? / self.length;
        let is_single = matches!(reading, Reading::Count(_) | Reading::Distinct(_));
        if number == 0 || !is_single || self.asked.below.is_none_or(|limit| limit <= 0.0) {
            return None;
        }
        (self.judged, self.latest) = (Some(start), Some(0));
        let subject = Subject::Key(ALL.into());
        let silent = Interval { start: first, end: start };
        let passed = Passed::next(self.passed.get(&subject), silent);
        if self.asked.hold > 0 {
            self.passed.insert(subject.clone(), passed);
        }
        let event = self.event(subject, silent, 0);
        let is_held = passed.length() >= self.asked.hold || is_open(&event);
        is_held.then_some(Event { count: number, ..event })
    }

    /// Whether a number that passes the threshold in a part of an interval passes it in the whole.
    fn is_passed_for_good(&self) -> bool {
        let may_fall = [WEIGHT, WORMS, PER_MILLION].contains(&&*self.asked.column);
        self.asked.above.is_some() && self.asked.hold == 0 && !may_fall
    }

    /// The beginnings of the intervals of which something is known and that are not judged.
    fn under_way(&self) -> BTreeSet<u64> {
        let of_ahead = self.ahead.keys().map(|(start, _)| *start);
        let starts = self.open.iter().map(|(open, _)| open.start).chain(of_ahead);
        let starts = starts.map(|start| self.start_of(start));
        starts.filter(|start| self.judged.is_none_or(|judged| judged <= *start)).collect()
    }

    fn event(&self, subject: Subject, watched: Interval, number: u64) -> Event {
        let event = Event::over(&FINDING, subject, watched);
        event.with("most", "", Folded::Max(Some(number))).with("least", "", Folded::Min(Some(number)))
    }
}

impl Judge for Threshold {
    fn judge(
        &mut self,
        reading: &Reading,
        watched: Interval,
        interval: Interval,
        is_open: IsOpen<'_>,
    ) -> Vec<Event> {
        if interval.start >= interval.end {
            return Vec::new();
        }
        self.ahead.retain(|(start, _), _| *start >= interval.end);
        let start = self.start_of(interval.start);
        let of_open = self.open.as_ref().map(|(open, _)| self.start_of(open.start));
        if of_open.is_some_and(|open| start < open) {
            let mut late = self.passing(reading, interval, false, is_open);
            late.retain(|event| self.asked.hold == 0 || is_open(event));
            return late;
        }
        let mut found = Vec::new();
        if of_open.is_some_and(|open| start > open) {
            self.follow(watched, interval);
            found.extend(self.close(is_open));
        }
        found.extend(self.silence(reading, watched, start, is_open));
        let part = Interval { start: watched.start.clamp(start, interval.start), end: interval.end };
        match &mut self.open {
            Some((open, sum)) => {
                *open = Interval { start: open.start.min(part.start), end: open.end.max(part.end) };
                sum.merge(reading);
            }
            None => self.open = Some((part, reading.clone())),
        }
        if interval.end >= start.saturating_add(self.length) {
            found.extend(self.close(is_open));
        }
        found
    }

    fn ahead(&mut self, worker: usize, reading: Reading, watched: Interval) {
        if self.is_passed_for_good() {
            self.ahead.insert((watched.start, worker), (watched, reading));
        }
    }

    fn so_far(&self, is_open: IsOpen<'_>) -> Vec<Event> {
        if !self.is_passed_for_good() {
            return Vec::new();
        }
        let mut found = Vec::new();
        for start in self.under_way() {
            let is_of = |(watched, _): &&(Interval, Reading)| self.start_of(watched.start) == start;
            let parts = self.open.iter().filter(is_of).chain(self.ahead.values().filter(is_of));
            let sum = parts.fold(None, |sum: Option<(Interval, Cow<'_, Reading>)>, (watched, reading)| {
                let Some((all, mut sum)) = sum else { return Some((*watched, Cow::Borrowed(reading))) };
                sum.to_mut().merge(reading);
                Some((Interval { start: all.start.min(watched.start), end: all.end.max(watched.end) }, sum))
            });
            if let Some((watched, sum)) = sum {
                found.extend(self.passing(&sum, watched, false, is_open));
            }
        }
        found.retain(|event| !is_open(event));
        found
    }

    fn finish(&mut self) -> Vec<Event> {
        self.close(&|_| false)
    }

    fn held(&self) -> usize {
        let passed = self.passed.capacity() * size_of::<(Subject, Passed)>();
        let ahead =
            self.ahead.values().map(|(_, reading)| size_of::<(Interval, Reading)>() + reading.memory());
        self.open.as_ref().map_or(0, |(_, reading)| reading.memory()) + passed + ahead.sum::<usize>()
    }

    fn latest(&self) -> Option<u64> {
        self.latest
    }

    fn named(&self) -> Option<Named> {
        Some(self.named.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;
    const MINUTE: u64 = 60 * SECOND;

    fn call(arguments: &[(&str, &str)]) -> FunctionCall {
        let is_named = arguments.iter().any(|(name, _)| *name == "name");
        let default = [("name", "x")].into_iter().filter(|_| !is_named);
        let all = default.chain(arguments.iter().copied());
        all.fold(FunctionCall::new("event"), |call, (name, value)| call.with(name, value))
    }

    fn judge(arguments: &[(&str, &str)]) -> Box<dyn Judge> {
        let call = judging(&call(arguments), "packets", &Reading::Count(Count::default())).unwrap();
        super::super::judge_of(&call, MINUTE).unwrap()
    }

    /// Shows an interval of this many seconds from a second on with this many packets; before it there was a watched
    /// silence of this many seconds. Returns the beginnings, ends and counts of the events, in seconds.
    fn show(
        judge: &mut dyn Judge,
        from: u64,
        seconds: u64,
        silence: u64,
        packets: u64,
    ) -> Vec<(u64, u64, u64)> {
        let interval = Interval { start: from * SECOND, end: (from + seconds) * SECOND };
        let watched = Interval { start: (from - silence) * SECOND, ..interval };
        let reading = Reading::Count(Count { packets, bytes: 0 });
        in_seconds(&judge.judge(&reading, watched, interval, &|_| false))
    }

    fn in_seconds(events: &[Event]) -> Vec<(u64, u64, u64)> {
        events.iter().map(|event| (event.begin / SECOND, event.last / SECOND, event.count)).collect()
    }

    #[test]
    fn an_interval_is_judged_as_a_whole_however_it_is_cut() {
        for cut in [60, 30, 10, 1] {
            let mut judge = judge(&[("above", "59")]);
            let mut found = Vec::new();
            for from in (120..240).step_by(cut as usize) {
                // One packet a second in the first minute, and none in the second.
                let packets = if from < 180 { cut } else { 0 };
                found.extend(show(&mut *judge, from, cut, 0, packets));
            }
            assert_eq!(found, [(120, 179, 1)], "{cut}");
            assert!(judge.finish().is_empty());
        }
    }

    #[test]
    fn too_little_is_found_in_whole_intervals_and_in_silence_alone() {
        let mut judge = judge(&[("below", "10")]);
        // The minute under way when the run begins, and one with enough.
        assert_eq!(show(&mut *judge, 150, 30, 0, 1), []);
        assert_eq!(show(&mut *judge, 180, 60, 0, 10), []);
        assert_eq!(show(&mut *judge, 240, 60, 0, 9), [(240, 299, 1)]);
        // Three silent minutes before the one that begins at 480, and its first half was silent, too.
        assert_eq!(show(&mut *judge, 510, 30, 210, 1), [(300, 479, 3), (480, 539, 1)]);
        // What was not watched is not silence.
        assert_eq!(show(&mut *judge, 900, 60, 0, 20), []);
        // The part that comes late is not the whole, and neither is the end of the run.
        assert_eq!(show(&mut *judge, 900, 60, 0, 1), []);
        assert_eq!(show(&mut *judge, 960, 30, 0, 1), []);
        assert!(judge.finish().is_empty());
    }

    #[test]
    fn too_much_is_found_in_a_part_of_an_interval() {
        let mut judge = judge(&[("above", "10")]);
        assert_eq!(show(&mut *judge, 150, 30, 0, 11), [(150, 179, 1)]);
        assert_eq!(show(&mut *judge, 180, 30, 0, 11), []);
        // A late part of an earlier minute changes nothing in the one under way.
        assert_eq!(show(&mut *judge, 120, 60, 0, 11), [(120, 179, 1)]);
        assert_eq!(in_seconds(&judge.finish()), [(180, 209, 1)]);
    }

    /// The findings of minutes with these numbers of packets, while an event is open or not.
    fn minutes(arguments: &[(&str, &str)], numbers: &[u64], is_open: bool) -> Vec<u64> {
        let mut judge = judge(arguments);
        let mut found = Vec::new();
        for (minute, packets) in (2..).zip(numbers) {
            let interval = Interval { start: minute * MINUTE, end: (minute + 1) * MINUTE };
            let reading = Reading::Count(Count { packets: *packets, bytes: 0 });
            let events = judge.judge(&reading, interval, interval, &|_| is_open);
            found.extend(events.iter().map(|event| event.begin / MINUTE));
            assert_eq!(judge.latest(), Some(*packets));
        }
        found
    }

    /// The sums of all workers pass a threshold before the readings of their intervals are there.
    #[test]
    fn what_has_passed_is_found_before_the_interval_has_ended() {
        let mut judge = judge(&[("above", "10")]);
        let count = |packets: u64| Reading::Count(Count { packets, bytes: 0 });
        let second = |from: u64| Interval { start: from * SECOND, end: (from + 1) * SECOND };
        let now = |judge: &dyn Judge| in_seconds(&judge.so_far(&|_| false));
        assert_eq!(show(&mut *judge, 120, 1, 0, 5), []);
        judge.ahead(0, count(3), second(121));
        judge.ahead(1, count(2), second(121));
        assert_eq!(now(&*judge), []);
        // What a worker has counted since takes the place of what it had.
        judge.ahead(1, count(3), second(121));
        assert_eq!(now(&*judge), [(120, 121, 1)]);
        assert!(judge.so_far(&|_| true).is_empty(), "it is open");
        // The reading takes the place of both.
        assert_eq!(show(&mut *judge, 121, 1, 0, 4), []);
        assert_eq!(now(&*judge), []);
        assert_eq!(show(&mut *judge, 122, 1, 0, 2), []);
        assert_eq!(now(&*judge), [(120, 122, 1)]);
        // The next minute begins in one worker.
        judge.ahead(0, count(11), second(180));
        assert_eq!(now(&*judge), [(120, 122, 1), (180, 180, 1)]);
        assert_eq!(show(&mut *judge, 180, 60, 0, 11), [(120, 122, 1), (180, 239, 1)]);
        assert_eq!(now(&*judge), []);
    }

    /// What may be less in the end, or is too little, is judged when the interval has ended.
    #[test]
    fn what_may_change_is_not_found_before_the_interval_has_ended() {
        for arguments in [&[("below", "10")][..], &[("above", "1"), ("hold", "60")]] {
            let mut judge = judge(arguments);
            let minute = Interval { start: 2 * MINUTE, end: 2 * MINUTE + SECOND };
            judge.ahead(0, Reading::Count(Count { packets: 5, bytes: 0 }), minute);
            assert!(judge.so_far(&|_| false).is_empty(), "{arguments:?}");
        }
    }

    #[test]
    fn an_open_event_is_kept_by_lower_numbers() {
        let numbers = [11, 9, 8, 12];
        assert_eq!(minutes(&[("above", "10"), ("keep", "8")], &numbers, false), [2, 5]);
        assert_eq!(minutes(&[("above", "10"), ("keep", "8")], &numbers, true), [2, 3, 5]);
        assert_eq!(minutes(&[("above", "10")], &numbers, true), [2, 5]);
    }

    #[test]
    fn a_number_passes_for_its_time_before_an_event_begins() {
        let numbers = [11, 11, 9, 11, 11, 11, 11, 9, 11];
        assert_eq!(minutes(&[("above", "10"), ("hold", "180")], &numbers, false), [7, 8]);
        assert_eq!(minutes(&[("above", "10"), ("hold", "60")], &numbers, false), [2, 3, 5, 6, 7, 8, 10]);
        // What is open goes on.
        assert_eq!(minutes(&[("above", "10"), ("hold", "180")], &numbers, true), [2, 3, 5, 6, 7, 8, 10]);
        // Two silent minutes, and a third that begins to pass.
        let mut judge = judge(&[("below", "10"), ("hold", "180")]);
        assert_eq!(show(&mut *judge, 180, 60, 0, 10), []);
        assert_eq!(show(&mut *judge, 360, 60, 120, 9), [(360, 419, 1)]);
    }

    /// The weight of a host over UDP is that of the sums of a whole interval.
    #[test]
    fn weights_are_judged_of_merged_sums() {
        let part = |sent: u64, received: u64, errors: u64| {
            let host = UdpHost { sent, received, errors, ..UdpHost::default() };
            let key = vec![Datum::Address([10, 0, 0, 1].into())];
            let row = TableRow { key, values: host.values(), error: 0 };
            Reading::Table(weir_api::Table::new(&weir_api::UDP, 16, vec![row], 0))
        };
        for (last, expected) in [(part(0, 90, 8), 0), (part(0, 89, 8), 1)] {
            let call = judging(&call(&[("above", "100")]), "udp", &part(0, 0, 0)).unwrap();
            let mut judge = super::super::judge_of(&call, MINUTE).unwrap();
            let mut found = Vec::new();
            for (at, reading) in [(2, part(100, 0, 2)), (3, last)] {
                let interval = Interval { start: at * MINUTE / 2, end: (at + 1) * MINUTE / 2 };
                found.extend(judge.judge(&reading, interval, interval, &|_| false));
            }
            assert_eq!(found.len(), expected);
            assert!(found.iter().all(|event| event.value("most") == Some(&Folded::Max(Some(110)))));
        }
        let named = judging(&call(&[("above", "1"), ("column", "received")]), "udp", &part(0, 0, 0)).unwrap();
        assert!(named.arguments.contains(&("column".to_owned(), "received".to_owned())));
    }

    /// The work weight of a host over TCP can be judged; without a name of a column it is the work.
    #[test]
    fn work_weights_are_judged_of_merged_sums() {
        let part = |syn: u64, packets: [u64; 2]| {
            let counts = SynCounts { syn, packets, ..SynCounts::default() };
            let host = weir_api::SynHost { counts, ..Default::default() };
            let key = vec![Datum::Address([10, 0, 0, 1].into())];
            let row = TableRow { key, values: host.values(), error: 0 };
            Reading::Table(weir_api::Table::new(&weir_api::SYN, 16, vec![row], 0))
        };
        let empty = part(0, [0, 0]);
        for (column, last, expected) in
            [("weight", [0, 40], 0), ("weight", [0, 20], 1), ("syn", [0, 40], 1), ("", [0, 40], 1)]
        {
            let limits = [("above", "75"), ("column", column)];
            let limits = if column.is_empty() { &limits[..1] } else { &limits[..] };
            let call = judging(&call(limits), "syn", &empty).unwrap();
            let mut judge = super::super::judge_of(&call, MINUTE).unwrap();
            let mut found = Vec::new();
            for (at, reading) in [(2, part(90, [90, 0])), (3, part(0, last))] {
                let interval = Interval { start: at * MINUTE / 2, end: (at + 1) * MINUTE / 2 };
                found.extend(judge.judge(&reading, interval, interval, &|_| false));
            }
            assert_eq!(found.len(), expected, "{column}");
        }
    }

    /// Hosts are worms by the sums of a whole interval: the second part of one brings its FINs.
    #[test]
    fn hosts_that_may_be_worms_are_counted_of_merged_sums() {
        let host = |host: u8, syn: u64, fin: u64| {
            let counts = SynCounts { syn, fin: [0, fin], ..SynCounts::default() };
            let host_of = weir_api::SynHost { counts, ..Default::default() };
            TableRow {
                key: vec![Datum::Address([10, 0, 0, host].into())],
                values: host_of.values(),
                error: 0,
            }
        };
        let reading = |rows: Vec<TableRow>| Reading::Table(weir_api::Table::new(&weir_api::SYN, 16, rows, 0));
        let call =
            judging(&call(&[("above", "1"), ("column", "worms")]), "syn", &reading(Vec::new())).unwrap();
        for (fins, expected) in [(0, vec![2]), (5, Vec::new())] {
            let mut judge = super::super::judge_of(&call, MINUTE).unwrap();
            let parts = [
                (2, vec![host(1, 15, 0), host(2, 21, 0), host(3, 400, 380)]),
                (3, vec![host(1, 10, fins), host(3, 0, 1)]),
            ];
            let mut found = Vec::new();
            for (at, rows) in parts {
                let interval = Interval { start: at * MINUTE / 2, end: (at + 1) * MINUTE / 2 };
                found.extend(judge.judge(&reading(rows), interval, interval, &|_| false));
            }
            let numbers: Vec<u64> =
                found.iter().filter_map(|event| Some(event.value("most")?.weight())).collect();
            assert_eq!(numbers, expected);
            assert!(found.iter().all(|event| event.subject == Subject::Key("all".into())));
        }
    }

    #[test]
    fn wrong_arguments_are_named() {
        let count = Reading::Count(Count::default());
        let error = |arguments: &[(&str, &str)]| judging(&call(arguments), "packets", &count).unwrap_err();
        assert!(error(&[("above", "many")]).contains("many"));
        assert!(error(&[("above", "inf")]).contains("not a number"));
        assert!(error(&[("above", "1"), ("column", "colour")]).contains("packets, bytes"));
        assert!(error(&[("name", "a b")]).contains("letters"));
        let series = Reading::Series(weir_api::Series::new(1));
        assert!(judging(&call(&[("above", "1")]), "rate", &series).unwrap_err().contains("no rows"));
    }

    /// The numbers of the events of some seconds with this many lost and caught packets.
    fn lost(arguments: &[(&str, &str)], seconds: &[(u64, u64)]) -> Vec<u64> {
        let named = FunctionCall::new("event").with("name", "x");
        let call = arguments.iter().fold(named, |call, (name, value)| call.with(name, value));
        let call = judging_drops(&call).unwrap();
        let mut judge = super::super::judge_of(&call, SECOND).unwrap();
        let mut events: Vec<Event> = Vec::new();
        for (at, (lost, caught)) in (1_u64..).zip(seconds) {
            let [dropped, interface_dropped] = [lost - lost / 3, lost / 3];
            let capture =
                weir_api::CaptureCount { dropped, interface_dropped, ..weir_api::CaptureCount::default() };
            let ledger = Ledger { capture, caught: *caught, ..Ledger::default() };
            let interval = Interval { start: at * SECOND, end: (at + 1) * SECOND };
            events.extend(judge.judge(&drops_of(&ledger), interval, interval, &|_| false));
        }
        events.extend(judge.finish());
        events.iter().map(|event| event.value("most").map_or(0, Folded::weight)).collect()
    }

    #[test]
    fn lost_packets_are_compared_by_number_and_by_share() {
        let seconds = [(0, 100), (10, 90), (11, 9_989), (0, 0), (3, 0)];
        assert_eq!(lost(&[("above", "10")], &seconds), [11]);
        assert_eq!(lost(&[("above", "2")], &seconds), [10, 11, 3]);
        // A tenth, 0.11 %, and all.
        let share = |above| lost(&[("above", above), ("column", PER_MILLION)], &seconds);
        assert_eq!(share("1099"), [100_000, 1_100, 1_000_000]);
        assert_eq!(share("1100"), [100_000, 1_000_000]);
        // The share of two seconds is that of their sums: the first begins at an even second.
        let both = [("above", "1"), ("column", PER_MILLION), ("over", "2")];
        assert_eq!(lost(&both, &[(0, 1), (10, 90), (10, 390)]), [40_000]);
    }

    #[test]
    fn lost_packets_need_a_threshold_and_a_column() {
        let named = FunctionCall::new("event").with("name", "x");
        assert!(judging_drops(&named).unwrap_err().contains("above or below"));
        let above = named.with("above", 1);
        let call = judging_drops(&above).unwrap();
        assert!(call.arguments.contains(&("column".to_owned(), "packets".to_owned())));
        let error = judging_drops(&above.with("column", "bytes")).unwrap_err();
        assert!(error.contains("packets, per_million"), "{error}");
    }
}
