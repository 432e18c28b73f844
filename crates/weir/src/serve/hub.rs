//! What a run tells those who look at it.
//!
//! The collector hands over each pulse; here it becomes sums, a text for metrics and a message for streams, and all of
//! that is swapped in as one [`Now`]. Whoever reads takes the latest and holds nothing back: the collector never waits
//! for a reader, and a packet never for the collector.

use axum::body::Bytes;
use serde::Serialize;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};
use tokio::sync::watch;
use weir_api::web::{Event, ListRow, MemoryRow, Mode, QueueRow, Tick};
use weir_api::{Answer, Count, KeyKind, Reading, Snapshot};
use weir_output::metrics::Metrics;
use weir_output::store::label::list_row;
use weir_output::store::sqlite::{Health, points};
use weir_output::summary::top_by;

/// Events that are remembered besides those of the store.
const EVENTS: usize = 1000;
/// Talkers of a pulse.
const TALKERS: usize = 5;

/// What does not change while the program runs.
#[derive(Clone, Debug)]
pub struct About {
    /// The sensor's name.
    pub sensor: String,
    /// Where the data come from.
    pub mode: Mode,
    /// Interfaces or files.
    pub source: Vec<String>,
    /// When the program began, in nanoseconds since the epoch.
    pub started: u64,
    /// Nanoseconds of a report.
    pub interval: u64,
    /// The time zone, by its name in the IANA database.
    pub zone: String,
}

/// What is known at a moment.
#[derive(Clone, Debug, Default)]
pub struct Now {
    /// Sums since the beginning. What functions found is left out of the answers; what they cost is there.
    pub total: Snapshot,
    /// All that is counted, for Prometheus.
    pub metrics: Metrics,
    /// The last pulse of a link as a message of a stream.
    pub tick: Option<Bytes>,
    /// Tables that packets fill.
    pub memory: Vec<MemoryRow>,
    /// What is under way between threads.
    pub queues: Vec<QueueRow>,
    /// The run is over: nothing more comes.
    pub ended: bool,
}

/// How full the collector is when it hands a pulse over.
#[derive(Clone, Debug, Default)]
pub struct Load {
    /// Messages that wait for it.
    pub messages: usize,
    /// Messages that can.
    pub max_messages: usize,
    /// Bytes of rows and records that wait for the end of their interval.
    pub waiting: usize,
}

/// Who reads streams of events.
#[derive(Debug, Default)]
pub struct Streams {
    /// How many there are.
    pub connected: AtomicU64,
    /// How many were dropped because they did not read.
    pub dropped: AtomicU64,
}

/// The place where a run and those who look at it meet.
pub struct Hub {
    /// What does not change.
    pub about: About,
    /// Who reads.
    pub streams: Streams,
    now: watch::Sender<Arc<Now>>,
    expression: Mutex<String>,
    events: Mutex<VecDeque<Event>>,
    /// Packets that had been lost before, while some are.
    lossy_since: Mutex<Option<u64>>,
    /// The store's writer, which keeps events too.
    health: OnceLock<Arc<Health>>,
    /// Limits of tables, which the run knows.
    tables: Mutex<Vec<Share>>,
}

/// A table's share of the memory.
#[derive(Clone, Debug)]
pub struct Share {
    /// The table.
    pub table: &'static str,
    /// What it is for.
    pub help: &'static str,
    /// The most bytes that it takes.
    pub limit: usize,
    /// Bytes of one row of it.
    pub each: u64,
    /// What of it is in use; none where that is not counted.
    pub used: Option<fn(&Snapshot, &Load, &Share) -> u64>,
    /// What had no room.
    pub shed: fn(&Snapshot) -> u64,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Whoever panicked here had only begun to write one value.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Nanoseconds since the epoch, by the clock of the machine.
pub fn clock() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64
}

/// Nanoseconds as seconds with a fraction.
pub fn seconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e9
}

impl Hub {
    /// A hub to which nothing has been told.
    pub fn new(about: About, expression: String) -> Hub {
        let (now, _) = watch::channel(Arc::new(Now::default()));
        Hub {
            about,
            streams: Streams::default(),
            now,
            expression: Mutex::new(expression),
            events: Mutex::default(),
            lossy_since: Mutex::default(),
            health: OnceLock::new(),
            tables: Mutex::default(),
        }
    }

    /// What is known now.
    pub fn now(&self) -> Arc<Now> {
        Arc::clone(&self.now.borrow())
    }

    /// To be woken when there is something new.
    pub fn watch(&self) -> watch::Receiver<Arc<Now>> {
        self.now.subscribe()
    }

    /// The run's expression.
    pub fn expression(&self) -> String {
        lock(&self.expression).clone()
    }

    /// Another one holds.
    pub fn set_expression(&self, expression: &str) {
        expression.clone_into(&mut lock(&self.expression));
    }

    /// What the run finds is written by it.
    pub fn set_health(&self, health: Arc<Health>) {
        // There is one run.
        let _ = self.health.set(health);
    }

    /// The store's writer, where there is one.
    pub fn health(&self) -> Option<Arc<Health>> {
        self.health.get().cloned()
    }

    /// How the memory is divided.
    pub fn set_tables(&self, tables: Vec<Share>) {
        *lock(&self.tables) = tables;
    }

    /// Takes an interval that is complete.
    pub fn tick(&self, tick: &Snapshot, load: &Load) {
        let before = self.now();
        self.watch_loss(&before.total, tick);
        let mut total = before.total.clone();
        total.merge(&without_readings(tick));
        let mut metrics = before.metrics.clone();
        metrics.add(tick);
        let message = (self.about.mode == Mode::Live).then(|| message("tick", &described(tick, &total)));
        let next = Now {
            memory: self.memory(&total, load),
            queues: vec![QueueRow {
                name: "collector".to_owned(),
                length: load.messages as u64,
                capacity: load.max_messages as u64,
                shed: total.ledger.rows_shed,
            }],
            total,
            metrics,
            tick: message,
            ended: false,
        };
        self.now.send_replace(Arc::new(next));
    }

    /// Notes when packets begin to be lost, and when that ends with a pulse in which none is.
    fn watch_loss(&self, before: &Snapshot, tick: &Snapshot) {
        let lost = |s: &Snapshot| s.ledger.capture.dropped + s.ledger.capture.interface_dropped;
        let mut since = lock(&self.lossy_since);
        let (now, end) = (lost(tick), tick.interval.end);
        match (*since, now) {
            (None, 1..) => {
                *since = Some(lost(before));
                let text = format!("packets are being lost: {now} of {}", tick.ledger.capture.offered);
                self.note_at(end, "loss", text);
            }
            (Some(known), 0) => {
                *since = None;
                self.note_at(
                    end,
                    "loss",
                    format!("no packets are lost any more: {} were", lost(before) - known),
                );
            }
            _ => {}
        }
    }

    /// The run is over, and this is what it found in all.
    pub fn end(&self, total: &Snapshot) {
        let before = self.now();
        let mut metrics = Metrics::default();
        metrics.add(total);
        let load = Load::default();
        let slim = without_readings(total);
        let memory = self.memory(&slim, &load);
        let next =
            Now { total: slim, metrics, tick: None, memory, queues: before.queues.clone(), ended: true };
        self.now.send_replace(Arc::new(next));
    }

    fn memory(&self, total: &Snapshot, load: &Load) -> Vec<MemoryRow> {
        let row = |share: &Share| MemoryRow {
            table: share.table.to_owned(),
            used: share.used.map(|used| used(total, load, share).min(share.limit as u64)),
            limit: share.limit as u64,
            shed: (share.shed)(total),
            help: share.help.to_owned(),
        };
        lock(&self.tables).iter().map(row).collect()
    }

    /// Notes something that has happened, by the clock of the machine.
    pub fn note(&self, kind: &str, text: impl Into<String>) {
        self.note_at(clock(), kind, text);
    }

    /// Notes something that happened at a time, in nanoseconds since the epoch.
    pub fn note_at(&self, time: u64, kind: &str, text: impl Into<String>) {
        let event = Event { time: seconds(time), kind: kind.to_owned(), text: text.into() };
        if let Some(health) = self.health.get() {
            health.note(time, kind, event.text.clone());
        }
        let mut events = lock(&self.events);
        if events.len() >= EVENTS {
            events.pop_front();
        }
        events.push_back(event);
    }

    /// What has happened, the latest first.
    pub fn events(&self) -> Vec<Event> {
        lock(&self.events).iter().rev().cloned().collect()
    }

    /// One more reads a stream, as long as the value lives.
    pub fn reader(self: &Arc<Self>) -> Reader {
        self.streams.connected.fetch_add(1, Ordering::Relaxed);
        Reader(Arc::clone(self))
    }
}

/// Somebody who reads a stream.
pub struct Reader(Arc<Hub>);

impl Drop for Reader {
    fn drop(&mut self) {
        self.0.streams.connected.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What of a snapshot can be added up for ever without growing.
fn without_readings(snapshot: &Snapshot) -> Snapshot {
    let answer = |answer: &Answer| Answer {
        subscription: answer.subscription.clone(),
        chart: answer.chart.clone(),
        function: answer.function.clone(),
        reading: Reading::Count(Count::default()),
        nanoseconds: answer.nanoseconds,
    };
    Snapshot {
        interval: snapshot.interval,
        ledger: snapshot.ledger,
        flows: snapshot.flows,
        sessions: snapshot.sessions,
        costs: snapshot.costs,
        offloaders: snapshot.offloaders.clone(),
        answers: snapshot.answers.iter().map(answer).collect(),
    }
}

/// What a stream tells of a pulse.
fn described(tick: &Snapshot, total: &Snapshot) -> Tick {
    let length = seconds(tick.interval.end.saturating_sub(tick.interval.start));
    let talkers = top_by(tick, KeyKind::Talker).map_or_else(Vec::new, |top| {
        let rows = top.ranked().into_iter().take(TALKERS);
        rows.map(|row| list_row(&row)).collect::<Vec<ListRow>>()
    });
    Tick {
        time: seconds(tick.interval.end),
        seconds: length,
        packets: tick.ledger.caught,
        bytes: tick.ledger.bytes,
        caught: total.ledger.caught,
        dropped: total.ledger.capture.dropped + total.ledger.capture.interface_dropped,
        flows_active: total.flows.active(),
        series: points(tick).into_iter().map(|point| (point.id, point.value)).collect(),
        talkers,
    }
}

/// A message of a stream of events (HTML, 9.2.5): JSON has no line breaks.
pub fn message(event: &str, data: &impl Serialize) -> Bytes {
    let data = serde_json::to_string(data).unwrap_or_else(|_| "{}".to_owned());
    Bytes::from(format!("event: {event}\ndata: {data}\n\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_api::{Interval, Ledger};

    fn hub(mode: Mode) -> Hub {
        let about = About {
            sensor: "s".to_owned(),
            mode,
            source: vec!["x".to_owned()],
            started: 0,
            interval: 1,
            zone: "UTC".to_owned(),
        };
        Hub::new(about, String::new())
    }

    fn tick(second: u64, caught: u64) -> Snapshot {
        let interval = Interval { start: second * 1_000_000_000, end: (second + 1) * 1_000_000_000 };
        let ledger = Ledger { caught, analysed: caught, ..Ledger::default() };
        Snapshot { interval, ledger, ..Snapshot::default() }
    }

    #[test]
    fn pulses_add_up_and_are_told() {
        let hub = hub(Mode::Live);
        hub.tick(&tick(1, 10), &Load::default());
        hub.tick(&tick(2, 32), &Load::default());
        let now = hub.now();
        assert_eq!(now.total.ledger.caught, 42);
        let text = String::from_utf8(now.tick.clone().unwrap_or_default().to_vec()).unwrap_or_default();
        assert!(text.starts_with("event: tick\ndata: {") && text.ends_with("}\n\n"), "{text}");
        assert!(text.contains("\"packets\":32") && text.contains("\"caught\":42"), "{text}");
        assert!(text.contains("\"ledger/caught\":32.0"), "{text}");
        assert!(now.metrics.text().contains("weir_caught_packets_total 42"), "{}", now.metrics.text());
        hub.end(&tick(1, 7));
        assert!(hub.now().ended && hub.now().total.ledger.caught == 7);
    }

    #[test]
    fn a_file_has_no_stream() {
        let hub = hub(Mode::File);
        hub.tick(&tick(1, 10), &Load::default());
        assert!(hub.now().tick.is_none());
    }

    #[test]
    fn loss_is_told_when_it_begins_and_when_it_ends() {
        let hub = hub(Mode::Live);
        for (second, dropped) in [(1, 0), (2, 3), (3, 4), (4, 0), (5, 0)] {
            let mut tick = tick(second, 10);
            tick.ledger.capture.dropped = dropped;
            tick.ledger.capture.offered = 10 + dropped;
            hub.tick(&tick, &Load::default());
        }
        let described: Vec<(f64, String)> =
            hub.events().into_iter().map(|event| (event.time, event.text)).collect();
        let began = (3.0, "packets are being lost: 3 of 13".to_owned());
        assert_eq!(described, [(5.0, "no packets are lost any more: 7 were".to_owned()), began]);
    }

    #[test]
    fn events_are_bounded_and_the_latest_come_first() {
        let hub = hub(Mode::Live);
        for n in 0..EVENTS + 5 {
            hub.note_at(n as u64 * 1_000_000_000, "link", n.to_string());
        }
        let events = hub.events();
        assert_eq!(events.len(), EVENTS);
        assert_eq!(events.first().map(|event| event.time), Some((EVENTS + 4) as f64));
    }
}
