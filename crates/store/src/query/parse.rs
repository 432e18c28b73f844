//! The parser of queries.

use super::keys::{Names, key};
use super::words::{Word, Words};
use super::{
    Asking, Compare, Counting, MAX_KEYS, MAX_ROWS, MAX_STEPS, Matter, Measure, QueryError, Question, ROWS,
};
use crate::moment::{self, Moment, Moments};
use crate::tally::{Dimension, Subject};
use crate::{FlowOrder, RankBy, TimeRange};
use serde_json::{Map, Value};
use weir_api::Unit;
use weir_filter::fields::FieldInfo;
use weir_filter::{FilterError, FlowTest};

const SUBJECTS: &str = "`top KEY`, `count`, `count TABLE by FIELD`, `quantiles FIELD by KEY`, `flows`, `flow UID`, `records TABLE`, \
    `list NAME`, `series NAME`, `distinct`, `new` or `events`";
const CLAUSES: &str =
    "`by`, `since`, `until`, `in`, `order`, `limit`, `points`, `every`, `compare`, `show`, `text` or `where`";
/// Words that begin a clause, so that no key or table has them.
const CLAUSE_WORDS: &[&str] = &[
    "by", "since", "from", "until", "to", "in", "at", "on", "order", "limit", "points", "every", "compare",
    "show", "text", "where",
];
/// Subjects, as keys of a JSON object.
const SUBJECT_WORDS: &[&str] =
    &["top", "list", "flows", "flow", "count", "records", "series", "distinct", "new", "events", "quantiles"];
/// Words that a time can have.
const MAX_TIME: usize = 5;
const SECOND: u64 = 1_000_000_000;

/// The clauses of a query, before their words are resolved.
#[derive(Default)]
struct Draft<'t> {
    /// Keys of `by`: a ranking for `top`, dimensions otherwise.
    by: Vec<Word<'t>>,
    /// The key or field of `by distinct`.
    distinct: Option<Word<'t>>,
    show: Vec<Word<'t>>,
    order: Option<Word<'t>>,
    since: Option<Moment>,
    until: Option<Moment>,
    within: Option<Moment>,
    limit: Option<usize>,
    points: Option<usize>,
    every: Option<u64>,
    compare: Option<Compare>,
    text: String,
    test: Option<FlowTest>,
    /// Why the test is none of records.
    of_records: Option<QueryError>,
}

/// The subject of a query, as words.
enum Head<'t> {
    Top(Vec<Word<'t>>),
    Count(Option<Word<'t>>),
    Quantiles(Word<'t>),
    SeriesQuantiles(Word<'t>),
    List(Word<'t>),
    Flows,
    Flow(Word<'t>),
    Records(Word<'t>),
    Series(Word<'t>),
    Distinct,
    New,
    Events,
}

/// Parses a query.
pub fn question(text: &str, asking: &Asking<'_>) -> Result<Question, QueryError> {
    if text.trim_start().starts_with('{') {
        return of_json(text, asking);
    }
    let mut words = Words::new(text);
    let head = head(&mut words)?;
    let mut draft = Draft::default();
    while let Some(clause) = words.next() {
        draft.clause(clause, &mut words, text, asking)?;
    }
    draft.question(text, &head, asking)
}

/// `{"top": "client", "by": "bytes", "since": "24h", "where": "dst net 10.0.0.0/8"}`: each member is a clause with the text
/// or number of its value, `true` for one without.
fn of_json(text: &str, asking: &Asking<'_>) -> Result<Question, QueryError> {
    let whole = |message: String| QueryError { message, offset: 0, length: text.len() };
    let in_object = |error: QueryError| whole(error.message);
    let object: Map<String, Value> =
        serde_json::from_str(text).map_err(|error| whole(format!("not a JSON object: {error}")))?;
    let texts: Vec<(&str, String)> = object
        .iter()
        .map(|(name, value)| match value {
            Value::String(text) => (name.as_str(), text.clone()),
            Value::Bool(true) | Value::Null => (name.as_str(), String::new()),
            Value::Array(values) => {
                let texts = values
                    .iter()
                    .map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned));
                (name.as_str(), texts.collect::<Vec<_>>().join(", "))
            }
            other => (name.as_str(), other.to_string()),
        })
        .collect();
    let subjects: Vec<_> = texts.iter().filter(|(name, _)| SUBJECT_WORDS.contains(name)).collect();
    let [(subject, value)] = subjects.as_slice() else {
        return Err(whole(format!("expected {SUBJECTS}")));
    };
    let line = format!("{subject} {value}");
    let mut words = Words::new(&line);
    let head = head(&mut words).map_err(in_object)?;
    if let Some(more) = words.next() {
        return Err(in_object(more.wrong(format!("found `{}` after the subject", more.text))));
    }
    let mut draft = Draft::default();
    for (name, value) in texts.iter().filter(|(name, _)| !SUBJECT_WORDS.contains(name)) {
        let mut words = Words::new(value);
        draft.clause(Word { text: name, at: 0 }, &mut words, value, asking).map_err(in_object)?;
        if let Some(more) = words.next() {
            return Err(in_object(more.wrong(format!("found `{}` after the value of `{name}`", more.text))));
        }
    }
    draft.question(text, &head, asking).map_err(in_object)
}

fn head<'t>(words: &mut Words<'t>) -> Result<Head<'t>, QueryError> {
    let first = words.want(SUBJECTS)?;
    Ok(match first.text {
        "top" => Head::Top(words.list("a key such as `client`, `service` or `tls.server_name`")?),
        "count" => match words.peek().filter(|word| !CLAUSE_WORDS.contains(&word.text)) {
            Some(table) => {
                words.next();
                Head::Count(Some(table))
            }
            None => Head::Count(None),
        },
        "quantiles" => {
            let of = words.want("a field such as `flow.duration` or `dns.rtt`, or `series NAME`")?;
            match of.text {
                "series" => Head::SeriesQuantiles(words.name("the name of a series", CLAUSE_WORDS)?),
                _ => Head::Quantiles(of),
            }
        }
        "list" => Head::List(words.name("the name of a list", CLAUSE_WORDS)?),
        "flows" => Head::Flows,
        "flow" => Head::Flow(words.want("the uid of a flow")?),
        "records" => Head::Records(words.want("a table of records")?),
        "series" => Head::Series(words.name("the name of a series", CLAUSE_WORDS)?),
        "distinct" => Head::Distinct,
        "new" => Head::New,
        "events" => Head::Events,
        other => return Err(first.wrong(format!("expected {SUBJECTS}, found `{other}`"))),
    })
}

impl<'t> Draft<'t> {
    fn clause(
        &mut self,
        clause: Word<'t>,
        words: &mut Words<'t>,
        text: &'t str,
        asking: &Asking<'_>,
    ) -> Result<(), QueryError> {
        let after = format!("a value after `{}`", clause.text);
        let number = |words: &mut Words<'t>, max: usize| {
            let value = words.want(&after)?;
            let number = value.text.parse::<usize>().ok().filter(|n| (1..=max).contains(n));
            number.ok_or_else(|| value.wrong(format!("expected a number from 1 to {max}")))
        };
        match clause.text {
            "where" => {
                let begin = words.place();
                let rest = text.get(begin..).unwrap_or_default();
                self.filter(rest, begin, asking)?;
                while words.next().is_some() {}
            }
            "by" => {
                let found = words.list(&after)?;
                match found.as_slice() {
                    [word] if word.text == "distinct" => {
                        self.distinct = Some(words.want("a key or field such as `client` or `dns.query`")?);
                    }
                    _ => self.by = found,
                }
            }
            "show" => self.show = words.list(&after)?,
            "since" | "from" => self.since = Some(time(words, &after, &asking.moments)?),
            "until" | "to" => self.until = Some(time(words, &after, &asking.moments)?),
            "in" | "at" | "on" => {
                let begin = words.place();
                let found = time(words, &after, &asking.moments)?;
                if found.from == found.to {
                    let length = words.place().min(text.trim_end().len()).saturating_sub(begin);
                    let word = text.get(begin..begin + length).unwrap_or_default().trim_end();
                    let message = "expected a range of time such as `2026`, `2026-03`, `2026-03-15`, `yesterday` or `today 14:05`";
                    return Err(Word { text: word, at: begin }.wrong(message));
                }
                self.within = Some(found);
            }
            "order" => {
                // `order by` is accepted too.
                let value = words.want(&after)?;
                self.order = Some(if value.text == "by" { words.want(&after)? } else { value });
            }
            "limit" => self.limit = Some(number(words, MAX_ROWS)?),
            "points" => self.points = Some(number(words, MAX_ROWS)?),
            "every" => {
                let value = words.want(&after)?;
                let seconds = moment::length(value.text).filter(|seconds| *seconds > 0);
                let seconds = seconds.and_then(|seconds| seconds.checked_mul(SECOND));
                self.every =
                    Some(seconds.ok_or_else(|| {
                        value.wrong("expected a length of time such as `5m`, `1h` or `1d`")
                    })?);
            }
            "compare" => {
                let earlier =
                    words.peek().and_then(|word| moment::length(word.text)).filter(|seconds| *seconds > 0);
                let earlier = earlier.and_then(|seconds| seconds.checked_mul(SECOND));
                if earlier.is_some() {
                    words.next();
                }
                self.compare = Some(earlier.map_or(Compare::Before, Compare::Earlier));
            }
            "text" => self.text = words.want(&after)?.text.to_owned(),
            _ => return Err(clause.wrong(format!("expected {CLAUSES}, found `{}`", clause.text))),
        }
        Ok(())
    }

    fn filter(&mut self, text: &str, at: usize, asking: &Asking<'_>) -> Result<(), QueryError> {
        let refused = |FilterError { mut message, span, .. }: FilterError| {
            if text.get(span.clone()).is_some_and(|word| CLAUSE_WORDS.contains(&word)) {
                message.push_str("; clauses stand before `where`");
            }
            QueryError { message, offset: at + span.start, length: span.len() }
        };
        self.test = Some(asking.test(text).map_err(refused)?);
        self.of_records = asking.test_of_records(text).map_err(refused).err();
        Ok(())
    }

    /// Resolves the words of subject and clauses.
    fn question(self, text: &str, head: &Head<'_>, asking: &Asking<'_>) -> Result<Question, QueryError> {
        let whole = |message: &str| QueryError { message: message.to_owned(), offset: 0, length: text.len() };
        let fields = asking.fields();
        let names = Names { fields: &fields };
        let matter = self.matter(head, &names)?;
        if let Some((word, message)) = self.misplaced(&matter) {
            return Err(match word {
                Some(word) => word.wrong(message),
                None => whole(message),
            });
        }
        let is_of_records = match &matter {
            Matter::Records(..) => true,
            Matter::Count(counting) | Matter::Quantiles(counting, _) => counting.subject != Subject::Flows,
            _ => false,
        };
        if let Some(error) = self.of_records.as_ref().filter(|_| is_of_records) {
            return Err(error.clone());
        }
        let mut span = self.within.map_or_else(TimeRange::default, |within| TimeRange {
            from: Some(within.from),
            to: Some(within.to),
        });
        span.from = self.since.map(|since| since.from).or(span.from);
        span.to = self.until.map(|until| until.from).or(span.to);
        let given = asking.span;
        if given.from.and(span.from).or(given.to.and(span.to)).is_some() {
            return Err(whole("the time is given twice: in the query, and by --since or --until"));
        }
        let span = TimeRange { from: span.from.or(given.from), to: span.to.or(given.to) };
        if span.from.zip(span.to).is_some_and(|(from, to)| from >= to) {
            return Err(whole("the time ends before it begins, or has no length"));
        }
        let order = self
            .order
            .map(|word| FlowOrder::parse(word.text).map_err(|names| word.wrong(format!("expected {names}"))));
        Ok(Question {
            text: text.to_owned(),
            matter,
            moments: asking.moments.clone(),
            span,
            order: order.transpose()?,
            limit: self.limit.unwrap_or(ROWS),
            is_limited: self.limit.is_some(),
            points: self.points,
            every: self.every,
            compare: self.compare,
            words: self.text,
            test: self.test,
            payload: !asking.without_payload,
        })
    }

    fn matter(&self, head: &Head<'_>, names: &Names<'_>) -> Result<Matter, QueryError> {
        Ok(match head {
            Head::Top(keys) => {
                let mut subject = names.subject(keys)?;
                if let (Subject::Flows, Some(word)) = (subject, self.distinct) {
                    subject = names.subject(&[word])?;
                }
                let mut counting = counting(names, subject, keys)?;
                if let Some(word) = self.distinct {
                    counting.measure = Measure::Distinct(names.distinct(subject, word)?);
                }
                if let [rank, more @ ..] = self.by.as_slice() {
                    if let Some(second) = more.first() {
                        return Err(second.wrong("`by` is the ranking of `top`: one of `bytes`, `packets`, `flows`, `records` or a number"));
                    }
                    counting.measure = names.measure(subject, *rank)?;
                }
                Matter::Count(counting)
            }
            Head::Count(table) => {
                let subject = match table {
                    None => names.subject(&self.by)?,
                    Some(word) if matches!(word.text, "flows" | "flow") => Subject::Flows,
                    Some(word) => Subject::Records(names.table(*word)?),
                };
                let mut counting = counting(names, subject, &self.by)?;
                // Stored lists count packets, not flows.
                counting.list = None;
                counting.measure = Measure::Rows;
                Matter::Count(counting)
            }
            Head::Quantiles(word) => {
                let field = names.number(None, *word)?;
                let subject = if field.table == weir_filter::FLOW {
                    Subject::Flows
                } else {
                    Subject::Records(field.table)
                };
                let mut counting = counting(names, subject, &self.by)?;
                counting.list = None;
                counting.measure = Measure::Rows;
                Matter::Quantiles(counting, field)
            }
            Head::SeriesQuantiles(word) => Matter::SeriesQuantiles(word.text.to_owned()),
            Head::List(word) => {
                let rank = self.by.first().map(|rank| {
                    RankBy::parse(rank.text).map_err(|names| rank.wrong(format!("expected {names}")))
                });
                Matter::List(word.text.to_owned(), rank.transpose()?)
            }
            Head::Flows => Matter::Flows,
            Head::Flow(word) => Matter::Flow(word.text.to_owned()),
            Head::Records(word) => {
                let table = names.table(*word)?;
                let shown: Vec<FieldInfo> =
                    self.show
                        .iter()
                        .map(|word| match names.dimension(Subject::Records(table), *word)? {
                            Dimension::Field(field) => Ok(field),
                            Dimension::Key(_) => Err(word
                                .wrong("time, client, server and port are always shown; expected a field")),
                        })
                        .collect::<Result<_, _>>()?;
                Matter::Records(table.to_owned(), shown)
            }
            Head::Series(word) => Matter::Series(word.text.to_owned()),
            Head::Distinct => Matter::Distinct,
            Head::New => Matter::New,
            Head::Events => Matter::Events,
        })
    }

    /// A clause that the subject does not have.
    fn misplaced(&self, matter: &Matter) -> Option<(Option<Word<'t>>, &'static str)> {
        let counts = matches!(matter, Matter::Count(_));
        let has_rows =
            counts || matches!(matter, Matter::Flows | Matter::Records(..) | Matter::Quantiles(..));
        let has_steps = counts || matches!(matter, Matter::Series(_));
        let by = self.by.first().copied();
        let is_top =
            matches!(matter, Matter::Count(counting) if matches!(counting.measure, Measure::Distinct(_)));
        Some(match matter {
            _ if self.distinct.is_some() && !is_top => (self.distinct, "`by distinct` is for top"),
            _ if self.distinct.is_some() && (self.points.is_some() || self.every.is_some()) => {
                (None, "distinct values are not counted over time: leave out `points` and `every`")
            }
            _ if self.test.is_some() && !has_rows => (
                None,
                "series, distinct counts, lists and events cannot be filtered: `where` is for top, count, quantiles, flows and records",
            ),
            _ if self.order.is_some() && *matter != Matter::Flows => {
                (self.order, "`order` is for flows; top has `by`")
            }
            _ if !self.text.is_empty() && !matches!(matter, Matter::Records(..)) => {
                (None, "`text` is for records")
            }
            _ if !self.show.is_empty() && !matches!(matter, Matter::Records(..)) => {
                (self.show.first().copied(), "`show` is for records")
            }
            _ if self.compare.is_some() && !counts => (None, "`compare` is for top and count"),
            _ if self.points.is_some() && !has_steps => (None, "`points` is for series, top and count"),
            _ if self.every.is_some() && !has_steps => (None, "`every` is for series, top and count"),
            _ if self.points.is_some_and(|points| points > MAX_STEPS) && counts => {
                (None, "top and count have at most 2000 points")
            }
            _ if (self.points.is_some() || self.every.is_some()) && self.compare.is_some() => {
                (None, "an answer over time is not compared: leave out `points` and `every`, or `compare`")
            }
            _ if by.is_some() && !counts && !matches!(matter, Matter::Quantiles(..) | Matter::List(..)) => {
                (by, "`by` is for top, count, quantiles and lists; flows have `order`")
            }
            _ => return None,
        })
    }
}

/// Parses a time of one or more words.
fn time(words: &mut Words<'_>, what: &str, moments: &Moments) -> Result<Moment, QueryError> {
    let ahead = words.ahead(MAX_TIME);
    let texts: Vec<&str> = ahead.iter().map(|word| word.text).collect();
    match moments.leading(&texts) {
        Some((found, used)) => {
            for _ in 0..used {
                words.next();
            }
            Ok(found)
        }
        None => {
            let word = words.want(what)?;
            Err(word.wrong(format!("expected {}", moment::ACCEPTED)))
        }
    }
}

fn counting(names: &Names<'_>, subject: Subject, words: &[Word<'_>]) -> Result<Counting, QueryError> {
    if let Some(word) = words.get(MAX_KEYS) {
        return Err(word.wrong(format!("at most {MAX_KEYS} keys")));
    }
    let by: Vec<Dimension> =
        words.iter().map(|word| names.dimension(subject, *word)).collect::<Result<_, _>>()?;
    let named = words.iter().zip(&by).map(|(word, dimension)| match dimension {
        Dimension::Key(_) => {
            let names = key(word.text).map_or(&[][..], |key| key.names);
            (*names.first().unwrap_or(&word.text)).to_owned()
        }
        Dimension::Field(field) => field.name.to_owned(),
    });
    let list = match words {
        [word] if subject == Subject::Flows => key(word.text).and_then(|key| Some((key.list?, key.by))),
        _ => None,
    };
    let measure = match subject {
        Subject::Flows => Measure::Bytes,
        Subject::Records(_) => Measure::Rows,
    };
    Ok(Counting { subject, names: named.collect(), by, measure, list })
}

impl Measure {
    /// The ranking of a kept list.
    pub(super) fn rank(self) -> Option<RankBy> {
        match self {
            Measure::Bytes => Some(RankBy::Unit(Unit::Bytes)),
            Measure::Packets => Some(RankBy::Unit(Unit::Packets)),
            Measure::Flows => Some(RankBy::Flows),
            Measure::Rows | Measure::Sum(_) | Measure::Distinct(_) => None,
        }
    }
}
