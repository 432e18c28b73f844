//! What is asked of the store when an hour has ended, and of captures at their end: the answers are findings.
//!
//! The flows and series that are stored are read, which takes time: a live run asks in a thread of its own ([`live`]), and the collector
//! takes the findings from a queue ([`queue`]). Findings that were reported are not reported again, by whatever run.

pub mod live;
mod queue;

pub use queue::Findings;

use crate::database;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use weir_api::event::{BEACON, CHANGED_SERIES, NEW_HOST, NEW_SERVICE};
use weir_api::{Event, Folded, Net, Subject, SubscriptionSpec};
use weir_output::{Home, ports};
use weir_store::beacons::{self, Beacon, PARTS};
use weir_store::changes::{self, Change};
use weir_store::fresh::{self, DAYS, Seen};
use weir_store::period::Period;
use weir_store::{Reported, Store, StoreError, line_id};

const HOUR: u64 = 3_600_000_000_000;
const DAY: u64 = 24 * HOUR;
/// Maximum number of findings of a kind that are handed over for an hour, and at the end of captures for a day.
const MOST: usize = 20;
/// A pair with at least this score is a finding: RITA calls this a medium threat, and reports lower scores as low ones.
const MIN_SCORE: f64 = 0.9;

/// A question.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Question {
    /// Which pairs of hosts have even flows.
    Beacons,
    /// Which hosts and services are new.
    New,
    /// Which lines of charts have changed.
    Changes,
}

impl Question {
    /// All questions, with their words in a configuration.
    pub const ALL: [(&'static str, Question); 3] =
        [("beacons", Question::Beacons), ("new", Question::New), ("changes", Question::Changes)];

    /// Its word.
    pub fn word(self) -> &'static str {
        Self::ALL.iter().find(|(_, question)| *question == self).map_or("", |(word, _)| word)
    }
}

/// What to ask, and of which store.
pub struct Questions {
    folder: PathBuf,
    asked: Vec<Question>,
    /// Networks whose flows are no beacons.
    allowed: Vec<Net>,
    home: Home,
    /// Expressions of lines by the names of their series.
    expressions: BTreeMap<String, String>,
    reported: Box<dyn Reported>,
}

impl Questions {
    /// Questions to the store in a directory. `allowed` are networks whose flows are no beacons.
    pub fn new(folder: &Path, asked: &[Question], allowed: &[Net], home: Home) -> Self {
        Self {
            folder: folder.to_owned(),
            asked: asked.to_owned(),
            allowed: allowed.to_owned(),
            home,
            expressions: BTreeMap::new(),
            reported: database::reported(folder),
        }
    }

    /// States the expressions of the lines of these subscriptions in findings.
    #[must_use]
    pub fn with_expressions<'s>(mut self, of: impl IntoIterator<Item = &'s SubscriptionSpec>) -> Self {
        for spec in of {
            let Some(chart) = spec.chart.as_deref().filter(|_| !spec.remainder) else { continue };
            for bits in [false, true] {
                self.expressions.insert(line_id(chart, &spec.name, bits), spec.expression.trim().to_owned());
            }
        }
        self
    }

    /// The directory of the store.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Begin and end of what is stored, in nanoseconds since the epoch; `None` if that is nothing.
    ///
    /// # Errors
    ///
    /// The store cannot be read.
    pub fn stored(&self) -> Result<Option<(u64, u64)>, StoreError> {
        database::read_patiently(&self.folder)?.extent()
    }

    /// Asks about an hour that has ended, and hands over what is found. Beacons are those of the 24 hours to its end.
    ///
    /// # Errors
    ///
    /// The store cannot be read, or what is reported cannot be noted.
    pub fn ask(&mut self, hour: (u64, u64), to: &Findings) -> Result<(), StoreError> {
        self.ask_of(hour, &[hour.0], to)
    }

    /// Asks about the last day of all that a run over files has stored, and hands over what is found.
    ///
    /// # Errors
    ///
    /// As [`Questions::ask`].
    pub fn ask_at_end(&mut self, to: &Findings) -> Result<(), StoreError> {
        let store = database::read_patiently(&self.folder)?;
        let Some((first, last)) = store.watched_extent()? else { return Ok(()) };
        // The last packet belongs to the day.
        let last = last.saturating_add(1);
        let begin = last.saturating_sub(DAY).max(first);
        let hours = (0..DAY / HOUR).rev().filter_map(|hours| last.checked_sub(hours * HOUR));
        let mut hours: Vec<u64> = hours.map(|time| Period::Hour.of(time).0).collect();
        hours.dedup();
        self.ask_of((begin, last), &hours, to)
    }

    /// Asks about what is new in a time, beacons of the day to its end, and changes of hours with these begins.
    fn ask_of(&mut self, span: (u64, u64), hours: &[u64], to: &Findings) -> Result<(), StoreError> {
        let store = database::read_patiently(&self.folder)?;
        for question in self.asked.clone() {
            match question {
                Question::Beacons => self.beacons(&*store, span.1, to)?,
                Question::New => self.new_ones(&*store, span, to)?,
                Question::Changes => self.changes(&*store, hours, to)?,
            }
        }
        Ok(())
    }

    fn beacons(&self, store: &dyn Store, end: u64, to: &Findings) -> Result<(), StoreError> {
        let day = (end.saturating_sub(DAY), end);
        let found = beacons::of(store, day, &self.allowed)?;
        let found = found.beacons.into_iter().filter(|beacon| beacon.score() >= MIN_SCORE);
        hand(found.map(|found| beacon(&found, end)).collect(), to);
        Ok(())
    }

    fn new_ones(&mut self, store: &dyn Store, span: (u64, u64), to: &Findings) -> Result<(), StoreError> {
        let found = fresh::of(store, span, &self.home)?;
        let host = |(host, seen): &(IpAddr, Seen)| {
            new_one(Event::at(&NEW_HOST, Subject::Host(*host), seen.first), seen, span.1)
        };
        let service = |(service, seen): &(fresh::Service, Seen)| {
            let (target, protocol) = (service.host, service.ip_proto);
            let subject = Subject::Target { target, protocol, port: Some(service.port), of_sender: false };
            new_one(Event::at(&NEW_SERVICE, subject, seen.first), seen, span.1)
        };
        self.report(found.hosts.iter().map(host).collect(), span.1, to)?;
        self.report(found.services.iter().map(service).collect(), span.1, to)
    }

    /// Hands over the events that were not reported in the days before.
    fn report(&mut self, mut events: Vec<Event>, time: u64, to: &Findings) -> Result<(), StoreError> {
        let name = |event: &Event| format!("{} {}", event.kind.name, event.subject);
        let names: Vec<String> = events.iter().map(name).collect();
        let new = self.reported.see(&names, time, DAYS * DAY)?;
        let mut new = new.into_iter().peekable();
        // Their order is that of the events.
        events.retain(|event| new.next_if(|next| *next == name(event)).is_some());
        hand(events, to);
        Ok(())
    }

    fn changes(&self, store: &dyn Store, hours: &[u64], to: &Findings) -> Result<(), StoreError> {
        let mut events = Vec::new();
        for begin in hours {
            let found = changes::of(store, *begin)?;
            events.extend(found.iter().map(|change| self.change(change, *begin)));
        }
        hand(events, to);
        Ok(())
    }

    fn change(&self, change: &Change, begin: u64) -> Event {
        let expression = self.expressions.get(&change.series).cloned().unwrap_or_default();
        let subject = Subject::Line { series: change.series.as_str().into(), expression: expression.into() };
        let (unit, each) = if change.is_bits { ("bytes", 450.0) } else { ("packets", 3600.0) };
        // Of a rate, what an hour has.
        let sum = |rate: f64| Some((rate * each).round() as u64);
        let values = change.values;
        let event = Event { last: begin + HOUR - 1, ..Event::at(&CHANGED_SERIES, subject, begin) };
        event
            .with("now", unit, Folded::Max(sum(values.now)))
            .with("median", unit, Folded::Max(sum(values.median)))
            .with("least", unit, Folded::Min(sum(values.least)))
            .with("greatest", unit, Folded::Max(sum(values.greatest)))
            .with("weeks", "weeks", Folded::Max(Some(values.weeks)))
    }
}

/// Hands over the first events; the others are counted.
fn hand(mut events: Vec<Event>, to: &Findings) {
    let left_out = events.len().saturating_sub(MOST) as u64;
    events.truncate(MOST);
    to.hand(events, left_out);
}

/// A pair that is found in the day to `end`.
fn beacon(found: &Beacon, end: u64) -> Event {
    let pair = &found.pair;
    let subject = Subject::Called {
        source: pair.initiator,
        target: pair.responder,
        protocol: pair.ip_proto,
        port: ports::has_ports(pair.ip_proto).then_some(pair.port),
    };
    let thousandths = |part: f64| Folded::Max(Some((part * 1e3).round() as u64));
    let mut event = Event { last: end - 1, ..Event::at(&BEACON, subject, found.begins.0) };
    for (name, part) in PARTS.into_iter().zip(found.parts) {
        event = event.with(name, "thousandths", thousandths(part));
    }
    event
        .with("score", "thousandths", thousandths(found.score()))
        .with("flows", "flows", Folded::Max(Some(found.flows)))
        .with("gap", "seconds", Folded::Max(Some(found.gap.round() as u64)))
        .with("bytes", "bytes", Folded::Max(Some(found.bytes.round() as u64)))
}

/// A new host or service that is found at `end`.
fn new_one(event: Event, seen: &Seen, end: u64) -> Event {
    let event = Event { last: (end - 1).max(event.begin), ..event };
    event.with("flows", "flows", Folded::Sum(seen.flows)).with("bytes", "bytes", Folded::Sum(seen.bytes))
}
