//! The query language: one query on one line, or as a JSON object.
//!
//! ```text
//! top src by bytes since 24h where dst net 10.0.0.0/8
//! top services by flows in 2026-03 limit 5
//! flows order -bytes since yesterday limit 20 where tcp port 443
//! count since 1h where net 192.0.2.0/24
//! records dns text example.org since 2h
//! series ledger/caught since 7d points 100
//! ```
//!
//! The subject comes first, then clauses in any order. `where` takes the rest of the line, an expression of
//! pcap-filter(7) in which `src` is the initiator of a flow. Without it a list is read as stored, with its error; with
//! it flows are added up. Durations count back from the end of the stored data. Dates are UTC.

use super::{FlowOrder, FlowsWanted, GroupBy, RankBy, RecordsWanted, Store, StoreError, TimeRange};
use crate::zone::rfc3339;
use jiff::Timestamp;
use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use serde_json::{Map, Value, json};
use std::fmt;
use std::time::Instant;
use weir_api::Unit;
use weir_api::web::{Answered, Column, TopList};
use weir_filter::{FilterError, FlowTest, Options};

/// Default number of rows of an answer.
const ROWS: usize = 20;
/// Maximum number of rows of an answer.
const MAX_ROWS: usize = 10_000;
/// Default number of points of a series.
const POINTS: usize = 600;
const SECOND: u64 = 1_000_000_000;

/// An error in a query, and its position.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct QueryError {
    /// The error, and the accepted values.
    pub message: String,
    /// Position in the text, in bytes.
    pub offset: usize,
    /// Length of the erroneous part, in bytes.
    pub length: usize,
}

impl fmt::Display for QueryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for QueryError {}

/// A query.
#[derive(Clone, Debug)]
pub struct Question {
    text: String,
    subject: Subject,
    span: TimeRange,
    /// Counts back from the end of the stored data.
    ago: Option<u64>,
    until_ago: Option<u64>,
    rank: Option<RankBy>,
    order: Option<(FlowOrder, bool)>,
    limit: usize,
    points: usize,
    words: String,
    test: Option<FlowTest>,
    /// Whether records show payload.
    payload: bool,
}

#[derive(Clone, Debug, PartialEq)]
enum Subject {
    /// The heaviest keys: of a list without an expression, of flows with one.
    Top(Option<&'static str>, GroupBy),
    /// A list by its own name.
    List(String),
    Flows,
    Count,
    Records(String),
    Series(String),
    Distinct,
}

/// A subject of rankings: its names, its list, and the key by which flows are added up.
static KEYS: &[(&[&str], Option<&str>, GroupBy)] = &[
    (&["src", "source", "sources"], Some("sources"), GroupBy::Source),
    (&["dst", "destination", "destinations"], Some("destinations"), GroupBy::Destination),
    (&["talker", "talkers"], Some("talkers"), GroupBy::Talker),
    (&["service", "services", "port", "ports"], Some("services"), GroupBy::Service),
    (&["flow", "flows"], Some("flows"), GroupBy::Flow),
    (&["protocol", "protocols"], Some("protocols"), GroupBy::Protocol),
    (&["pair", "pairs"], None, GroupBy::Pair),
    (&["vlan", "vlans"], None, GroupBy::Vlan),
    (&["state", "states"], None, GroupBy::State),
    (&["application", "applications"], None, GroupBy::Application),
    (&["name", "names"], None, GroupBy::Name),
];

/// The lists whose keys flows have too, with the key by which flows are added up to such a list.
pub fn lists_of_flows() -> impl Iterator<Item = (&'static str, GroupBy)> {
    KEYS.iter().filter_map(|(_, list, by)| Some(((*list)?, *by)))
}

/// A word of the text and its position.
#[derive(Clone, Copy, Debug)]
struct Word<'t> {
    text: &'t str,
    at: usize,
}

struct Words<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Words<'t> {
    fn peek(&self) -> Option<Word<'t>> {
        let rest = self.text.get(self.at..)?;
        let at = self.at + rest.find(|c: char| !c.is_whitespace())?;
        let rest = self.text.get(at..)?;
        let length = rest.find(char::is_whitespace).unwrap_or(rest.len());
        Some(Word { text: rest.get(..length)?, at })
    }

    fn next(&mut self) -> Option<Word<'t>> {
        let word = self.peek()?;
        self.at = word.at + word.text.len();
        Some(word)
    }

    fn want(&mut self, what: &str) -> Result<Word<'t>, QueryError> {
        self.next().ok_or_else(|| QueryError {
            message: format!("expected {what}"),
            offset: self.text.len(),
            length: 0,
        })
    }
}

impl Word<'_> {
    fn wrong(&self, message: impl Into<String>) -> QueryError {
        QueryError { message: message.into(), offset: self.at, length: self.text.len() }
    }
}

const SUBJECTS: &str =
    "`top KEY`, `list NAME`, `flows`, `count`, `records TABLE`, `series NAME` or `distinct`";
const CLAUSES: &str = "`by`, `since`, `until`, `in`, `order`, `limit`, `points`, `text` or `where`";

impl Question {
    /// The query of a client that may not see payload: fields that hold it are empty, and are not searched.
    #[must_use]
    pub fn without_payload(mut self) -> Self {
        self.payload = false;
        self
    }

    /// Parses a query; `options` resolves names of hosts in its expression.
    ///
    /// # Errors
    ///
    /// The error in the query, and its position.
    pub fn parse(text: &str, options: &Options<'_>) -> Result<Self, QueryError> {
        if text.trim_start().starts_with('{') {
            return Self::of_json(text, options);
        }
        let mut words = Words { text, at: 0 };
        let first = words.want(SUBJECTS)?;
        let subject = subject(first, || words.want("a name"))?;
        let mut question = Self::new(text, subject);
        while let Some(clause) = words.next() {
            if clause.text == "where" {
                let begin = words.peek().map_or(text.len(), |word| word.at);
                question.filter(text.get(begin..).unwrap_or_default(), begin, options)?;
                break;
            }
            // `order by` is accepted too.
            if clause.text == "order" && words.peek().is_some_and(|word| word.text == "by") {
                words.next();
            }
            let value = words.want(&format!("something after `{}`", clause.text))?;
            question.clause(clause, value)?;
        }
        question.check()?;
        Ok(question)
    }

    fn new(text: &str, subject: Subject) -> Self {
        Self {
            text: text.to_owned(),
            subject,
            span: TimeRange::default(),
            ago: None,
            until_ago: None,
            rank: None,
            order: None,
            limit: ROWS,
            points: POINTS,
            words: String::new(),
            test: None,
            payload: true,
        }
    }

    /// `{"top": "src", "by": "bytes", "since": "24h", "where": "dst net 10.0.0.0/8"}`.
    fn of_json(text: &str, options: &Options<'_>) -> Result<Self, QueryError> {
        let whole = |message: String| QueryError { message, offset: 0, length: text.len() };
        let object: Map<String, Value> =
            serde_json::from_str(text).map_err(|error| whole(format!("not a JSON object: {error}")))?;
        let texts: Vec<(&str, String)> = object
            .iter()
            .map(|(name, value)| match value {
                Value::String(text) => (name.as_str(), text.clone()),
                Value::Bool(true) | Value::Null => (name.as_str(), String::new()),
                other => (name.as_str(), other.to_string()),
            })
            .collect();
        let is_subject =
            |name: &str| ["top", "list", "flows", "count", "records", "series", "distinct"].contains(&name);
        let of_subject: Vec<_> = texts.iter().filter(|(name, _)| is_subject(name)).collect();
        let [(name, value)] = of_subject.as_slice() else {
            return Err(whole(format!("expected one of {SUBJECTS}")));
        };
        let in_object = |error: QueryError| whole(error.message);
        let word = |text| Word { text, at: 0 };
        let subject = subject(word(name), || Ok(word(value))).map_err(in_object)?;
        let mut question = Self::new(text, subject);
        for (name, value) in texts.iter().filter(|(name, _)| !is_subject(name)) {
            match *name {
                "where" => question.filter(value, 0, options),
                name => question.clause(word(name), word(value)),
            }
            .map_err(in_object)?;
        }
        question.check().map_err(in_object)?;
        Ok(question)
    }

    fn filter(&mut self, text: &str, at: usize, options: &Options<'_>) -> Result<(), QueryError> {
        let test = FlowTest::parse(text, options).map_err(|FilterError { message, span, .. }| {
            QueryError { message, offset: at + span.start, length: span.len() }
        })?;
        self.test = Some(test);
        Ok(())
    }

    fn clause(&mut self, clause: Word<'_>, value: Word<'_>) -> Result<(), QueryError> {
        let number = || {
            let number = value.text.parse::<usize>().ok().filter(|n| (1..=MAX_ROWS).contains(n));
            number.ok_or_else(|| value.wrong(format!("expected a number from 1 to {MAX_ROWS}")))
        };
        match clause.text {
            "by" => {
                let rank = RankBy::parse(value.text);
                self.rank = Some(rank.map_err(|names| value.wrong(format!("expected {names}")))?);
            }
            "since" | "from" => match moment(value)? {
                Moment::Ago(ago) => self.ago = Some(ago),
                Moment::At(from, _) => self.span.from = Some(from),
            },
            "until" | "to" => match moment(value)? {
                Moment::Ago(ago) => self.until_ago = Some(ago),
                Moment::At(until, _) => self.span.to = Some(until),
            },
            "in" => match moment(value)? {
                Moment::At(from, to) => self.span = TimeRange { from: Some(from), to: Some(to) },
                Moment::Ago(_) => {
                    return Err(
                        value.wrong("expected a year, a month or a day: `2026`, `2026-03`, `2026-03-15`")
                    );
                }
            },
            "order" => {
                let order = FlowOrder::parse(value.text);
                self.order = Some(order.map_err(|names| value.wrong(format!("expected {names}")))?);
            }
            "limit" => self.limit = number()?,
            "points" => self.points = number()?,
            "text" => self.words = value.text.to_owned(),
            _ => return Err(clause.wrong(format!("expected {CLAUSES}, found `{}`", clause.text))),
        }
        Ok(())
    }

    /// Combinations that are not allowed.
    fn check(&self) -> Result<(), QueryError> {
        let refuse = |message: &str| {
            Err(QueryError { message: message.to_owned(), offset: 0, length: self.text.len() })
        };
        match &self.subject {
            Subject::Series(_) | Subject::Distinct | Subject::List(_) if self.test.is_some() => refuse(
                "series, distinct counts and lists cannot be filtered: `where` is for top, flows, count and records",
            ),
            subject if self.order.is_some() && *subject != Subject::Flows => {
                refuse("`order` is for flows; top has `by`")
            }
            subject if !self.words.is_empty() && !matches!(subject, Subject::Records(_)) => {
                refuse("`text` is for records")
            }
            _ => Ok(()),
        }
    }

    /// Queries a store.
    ///
    /// # Errors
    ///
    /// Those of [`Store`].
    pub fn ask(&self, store: &dyn Store) -> Result<Answered, StoreError> {
        let begun = Instant::now();
        let end = store.extent()?.map_or(0, |(_, last)| last);
        let back = |ago: u64| end.saturating_sub(ago);
        let span = TimeRange {
            from: self.span.from.or(self.ago.map(back)),
            to: self.span.to.or(self.until_ago.map(back)),
        };
        let mut answered = self.answer(store, span)?;
        answered.q.clone_from(&self.text);
        answered.milliseconds = begun.elapsed().as_secs_f64() * 1e3;
        Ok(answered)
    }

    fn answer(&self, store: &dyn Store, span: TimeRange) -> Result<Answered, StoreError> {
        let all = FlowTest::All(Vec::new());
        match &self.subject {
            Subject::Top(list, by) => {
                let rank = self.rank;
                let top = match (list, &self.test) {
                    (Some(list), None) => store.top(list, span, rank, self.limit)?,
                    (_, test) => store.group(
                        *by,
                        test.as_ref().unwrap_or(&all),
                        span,
                        rank.unwrap_or(RankBy::Unit(Unit::Bytes)),
                        self.limit,
                    )?,
                };
                Ok(top_table(top))
            }
            Subject::List(name) => Ok(top_table(store.top(name, span, self.rank, self.limit)?)),
            Subject::Flows | Subject::Count => {
                let (order, descending) = self.order.unwrap_or((FlowOrder::Last, true));
                let limit = if self.subject == Subject::Count { 0 } else { self.limit };
                let test = self.test.clone().unwrap_or(all);
                let found = store.flows(&FlowsWanted { test, span, order, descending, limit, offset: 0 })?;
                if self.subject == Subject::Count {
                    return Ok(Answered {
                        columns: columns(&[("flows", "flows"), ("packets", "packets"), ("bytes", "bytes")]),
                        rows: vec![vec![
                            json!(found.matched),
                            json!(found.matched_packets),
                            json!(found.matched_bytes),
                        ]],
                        partial: found.partial,
                        ..Answered::default()
                    });
                }
                let rows = found.rows.iter().map(|flow| {
                    vec![
                        json!(time(flow.first)),
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
                Ok(Answered {
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
                    rows: rows.collect(),
                    partial: found.partial,
                    ..Answered::default()
                })
            }
            Subject::Records(table) => self.records(store, span, table),
            Subject::Series(name) => {
                let data = store.points(std::slice::from_ref(name), span, self.points)?;
                let Some(points) = data.series.first() else {
                    return Err(StoreError::Unknown(format!(
                        "no series {name:?}; `weir store series` lists them"
                    )));
                };
                let values = points.avg.iter().zip(&points.min).zip(&points.max);
                let rows = data.times.iter().zip(values).map(|(at, ((avg, min), max))| {
                    vec![json!(time(*at)), json!(avg), json!(min), json!(max)]
                });
                let unit = store
                    .series()?
                    .into_iter()
                    .find(|info| info.id == *name)
                    .map_or(String::new(), |info| info.unit);
                Ok(Answered {
                    columns: columns(&[("time", ""), ("average", &unit), ("min", &unit), ("max", &unit)]),
                    rows: rows.collect(),
                    partial: data.partial,
                    ..Answered::default()
                })
            }
            Subject::Distinct => {
                let found = store.distinct(span)?;
                let rows = found.rows.into_iter().map(|row| {
                    vec![json!(row.name), json!(row.of), json!(row.estimate), json!(row.error_percent)]
                });
                Ok(Answered {
                    columns: columns(&[("name", ""), ("of", ""), ("estimate", ""), ("error", "%")]),
                    rows: rows.collect(),
                    ..Answered::default()
                })
            }
        }
    }

    fn records(&self, store: &dyn Store, span: TimeRange, table: &str) -> Result<Answered, StoreError> {
        let Some(known) = weir_proto::tables().find(|known| known.name == table) else {
            let mut names: Vec<&str> = weir_proto::tables().map(|table| table.name).collect();
            names.sort_unstable();
            names.dedup();
            return Err(StoreError::Unknown(format!("no records {table:?}; there are {}", names.join(", "))));
        };
        let found = store.records(&RecordsWanted {
            table: table.to_owned(),
            test: self.test.clone().unwrap_or(FlowTest::All(Vec::new())),
            text: self.words.clone(),
            payload: self.payload,
            span,
            limit: self.limit,
            offset: 0,
        })?;
        let mut names = vec![("time", ""), ("source", ""), ("destination", ""), ("port", "")];
        names.extend(known.fields.iter().map(|field| (field.name, "")));
        let rows = found.rows.into_iter().map(|row| {
            let mut cells = vec![
                json!(time(row.time)),
                json!(row.source),
                json!(row.destination),
                json!(row.destination_port),
            ];
            cells.extend(
                known.fields.iter().map(|field| row.values.get(field.name).cloned().unwrap_or(Value::Null)),
            );
            cells
        });
        Ok(Answered {
            columns: columns(&names),
            rows: rows.collect(),
            partial: found.partial,
            ..Answered::default()
        })
    }
}

fn time(seconds: f64) -> String {
    rfc3339((seconds * 1e6).round() as u64 * 1000)
}

fn columns(names: &[(&str, &str)]) -> Vec<Column> {
    names.iter().map(|(name, unit)| Column { name: (*name).to_owned(), unit: (*unit).to_owned() }).collect()
}

fn top_table(top: TopList) -> Answered {
    let rows = top.rows.into_iter().map(|row| {
        vec![json!(row.label), json!(row.bytes), json!(row.packets), json!(row.flows), json!(row.error)]
    });
    let key = if top.key.is_empty() { "key" } else { &top.key };
    Answered {
        columns: columns(&[
            (key, ""),
            ("bytes", "bytes"),
            ("packets", "packets"),
            ("flows", "flows"),
            ("error", &top.unit),
        ]),
        rows: rows.collect(),
        partial: top.partial,
        ..Answered::default()
    }
}

fn subject<'t>(
    word: Word<'t>,
    mut name: impl FnMut() -> Result<Word<'t>, QueryError>,
) -> Result<Subject, QueryError> {
    Ok(match word.text {
        "top" => {
            let key = name()?;
            let found = KEYS.iter().find(|(names, ..)| names.contains(&key.text));
            let Some((_, list, by)) = found else {
                let names: Vec<&str> = KEYS.iter().filter_map(|(names, ..)| names.first().copied()).collect();
                return Err(key.wrong(format!("expected one of {}, found `{}`", names.join(", "), key.text)));
            };
            Subject::Top(*list, *by)
        }
        "list" => Subject::List(name()?.text.to_owned()),
        "flows" => Subject::Flows,
        "count" => Subject::Count,
        "records" => Subject::Records(name()?.text.to_owned()),
        "series" => Subject::Series(name()?.text.to_owned()),
        "distinct" => Subject::Distinct,
        other => return Err(word.wrong(format!("expected {SUBJECTS}, found `{other}`"))),
    })
}

enum Moment {
    /// Nanoseconds before the end of the stored data.
    Ago(u64),
    /// A time, and the end of the day, month or year that it names.
    At(u64, u64),
}

fn moment(word: Word<'_>) -> Result<Moment, QueryError> {
    let text = word.text;
    let wrong = || {
        word.wrong("expected a length of time (`90s`, `15m`, `24h`, `7d`, `2w`), a date (`2026-03`, `2026-03-15`) or a time (`2026-03-15T12:30`)")
    };
    let number = text.strip_suffix(['s', 'm', 'h', 'd', 'w']);
    if let Some(count) = number.and_then(|number| number.parse::<u64>().ok()) {
        let unit = match text.as_bytes().last() {
            Some(b's') => 1,
            Some(b'm') => 60,
            Some(b'h') => 3600,
            Some(b'd') => 86_400,
            _ => 7 * 86_400,
        };
        return count.checked_mul(unit * SECOND).map(Moment::Ago).ok_or_else(wrong);
    }
    let at = |time: DateTime| -> Option<u64> {
        let zoned = time.to_zoned(TimeZone::UTC).ok()?;
        u64::try_from(zoned.timestamp().as_nanosecond()).ok()
    };
    let midnight = |date: Date| at(date.to_datetime(jiff::civil::Time::midnight()));
    let parts: Vec<Option<i16>> = text.split('-').map(|part| part.parse().ok()).collect();
    let date = match parts.as_slice() {
        [Some(year)] if text.len() == 4 => {
            Date::new(*year, 1, 1).ok().map(|first| (first, first.last_of_year()))
        }
        [Some(year), Some(month)] => {
            Date::new(*year, *month as i8, 1).ok().map(|first| (first, first.last_of_month()))
        }
        [Some(year), Some(month), Some(day)] => {
            Date::new(*year, *month as i8, *day as i8).ok().map(|date| (date, date))
        }
        _ => None,
    };
    if let Some((first, last)) = date {
        let bounds = midnight(first).zip(last.tomorrow().ok().and_then(midnight));
        return bounds.map(|(from, to)| Moment::At(from, to)).ok_or_else(wrong);
    }
    let stamp = text.parse::<Timestamp>().ok().and_then(|time| u64::try_from(time.as_nanosecond()).ok());
    let stamp = stamp.or_else(|| at(text.parse::<DateTime>().ok()?));
    stamp.map(|time| Moment::At(time, time.saturating_add(SECOND))).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Question, QueryError> {
        Question::parse(text, &Options::default())
    }

    #[test]
    fn queries_are_parsed() {
        let question = parse("top src by bytes since 24h where dst net 10.0.0.0/8").unwrap();
        assert_eq!(question.subject, Subject::Top(Some("sources"), GroupBy::Source));
        assert_eq!(question.ago, Some(86_400 * SECOND));
        assert_eq!(question.rank, Some(RankBy::Unit(Unit::Bytes)));
        assert!(question.test.is_some());
        let march = parse("top services in 2026-03 limit 5").unwrap();
        let span = march.span;
        assert_eq!((span.from, span.to), (Some(1_772_323_200 * SECOND), Some(1_775_001_600 * SECOND)));
        assert_eq!(march.limit, 5);
        let flows = parse("flows order by -bytes since 2026-03-01T12:00:00Z until 1h").unwrap();
        assert_eq!(flows.order, Some((FlowOrder::Bytes, true)));
        assert_eq!((flows.span.from, flows.until_ago), (Some(1_772_366_400 * SECOND), Some(3600 * SECOND)));
        for text in [
            "count",
            "distinct",
            "series ledger/caught points 9",
            "records dns text example.org",
            "list sources",
        ] {
            parse(text).unwrap();
        }
    }

    #[test]
    fn queries_in_json_are_parsed() {
        let json =
            parse(r#"{"top": "src", "by": "flows", "since": "24h", "limit": 7, "where": "tcp"}"#).unwrap();
        let text = parse("top src by flows since 24h limit 7 where tcp").unwrap();
        assert_eq!(
            (json.subject, json.rank, json.ago, json.limit),
            (text.subject, text.rank, text.ago, text.limit)
        );
        assert_eq!(json.test, text.test);
        assert!(parse(r#"{"flows": true, "order": "-bytes"}"#).is_ok());
        for wrong in
            [r#"{"by": "flows"}"#, r#"{"top": "src", "flows": 1}"#, "{", r#"{"top": "src", "nonsense": 1}"#]
        {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn errors_have_a_position() {
        for (text, place, says) in [
            ("", "", "expected `top KEY`"),
            ("tpo src", "tpo", "found `tpo`"),
            ("top sorce", "sorce", "src, dst"),
            ("top src by weight", "weight", "`bytes`, `packets` or `flows`"),
            ("top src since yesterdy", "yesterdy", "a length of time"),
            ("top src limit 0", "0", "from 1"),
            ("top src wher tcp", "wher", "`where`"),
            ("flows where tcp prt 80", "prt", ""),
            ("flows where len > 100", "len > 100", "only packets have"),
            ("top src in 7d", "7d", "`2026-03`"),
            ("top src in 2026-13", "2026-13", ""),
            ("series ledger/caught where tcp", "series ledger/caught where tcp", "cannot be filtered"),
            ("flows order size", "size", "duration"),
        ] {
            let error = parse(text).unwrap_err();
            assert_eq!(text.get(error.offset..error.offset + error.length), Some(place), "{text}: {error}");
            assert!(error.message.contains(says), "{text}: {error}");
        }
    }
}
