//! The state of a run for the pages.
//!
//! The collector passes each tick to the hub, which computes sums, metrics and a message of the event stream and
//! publishes them together as one [`Now`]. Readers take the latest state and hold no lock: the collector never waits
//! for a reader, and a packet never waits for the collector.

use crate::clients::Clients;
use crate::delivered::Destinations;
use crate::desk::{Described, Desk};
use crate::memory::{Load, Share};
use crate::recent::Recent;
use crate::triggers::Board;
use axum::body::Bytes;
use serde::Serialize;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};
use tokio::sync::watch;
use weir_api::web::{Event, ListRow, MemoryRow, Mode, QueueRow, Tick};
use weir_api::{Answer, Count, Reading, Snapshot, builtin};
use weir_output::Applications;
use weir_output::event::web;
use weir_output::metrics::Metrics;
use weir_output::summary::{Naming, top_of};
use weir_store::label::list_row;
use weir_store::{Health, points};

/// Events kept in memory, besides those of the store.
const EVENTS: usize = 1000;
/// Talkers of a tick.
const TALKERS: usize = 5;

/// Properties of the run that do not change.
#[derive(Clone, Debug)]
pub struct About {
    /// Name of the sensor.
    pub sensor: String,
    /// Origin of the data.
    pub mode: Mode,
    /// Interfaces or files.
    pub source: Vec<String>,
    /// Further options that decide which packets a run over files has, as words of a command line; `None` if no command line
    /// repeats the run.
    pub options: Option<Vec<String>>,
    /// Start and end of the packets that a run over files reads, in nanoseconds since the epoch.
    pub times: [Option<u64>; 2],
    /// Start of the program, in nanoseconds since the epoch.
    pub started: u64,
    /// Interval in nanoseconds.
    pub interval: u64,
    /// Time zone, by its IANA name.
    pub zone: String,
}

/// State of the run at one time.
#[derive(Clone, Debug, Default)]
pub struct Now {
    /// Sums since the start. Answers have their cost and no readings.
    pub total: Snapshot,
    /// All counters, for Prometheus.
    pub metrics: Metrics,
    /// The last tick of a live run as a message of the event stream.
    pub tick: Option<Bytes>,
    /// Memory of tables.
    pub memory: Vec<MemoryRow>,
    /// Queues between threads.
    pub queues: Vec<QueueRow>,
    /// Whether the run has ended.
    pub ended: bool,
}

/// Counts of event streams.
#[derive(Debug, Default)]
pub struct Streams {
    /// Open streams.
    pub connected: AtomicU64,
    /// Streams dropped because the client read too slowly.
    pub dropped: AtomicU64,
}

/// Passes the state of a run to the pages.
pub struct Hub {
    /// Properties of the run.
    pub about: About,
    /// Counts of event streams.
    pub streams: Streams,
    /// Subscriptions of clients, and their answers.
    pub clients: Clients,
    now: watch::Sender<Arc<Now>>,
    /// The run's expression at its start.
    expression: String,
    /// The subscriptions of a run, whose expression may change.
    desk: OnceLock<Arc<Desk>>,
    events: Mutex<VecDeque<Event>>,
    /// Packets lost before the present period of loss; `None` while none are lost.
    lossy_since: Mutex<Option<u64>>,
    /// The store's writer, which also stores events.
    health: OnceLock<Arc<Health>>,
    /// Memory shares of tables.
    tables: Mutex<Vec<Share>>,
    /// Bytes for answers of many rows, if the run divides its memory.
    answers: OnceLock<usize>,
    /// What is counted of logs and packet files.
    destinations: OnceLock<Destinations>,
    /// What the triggers of a run do at present.
    board: OnceLock<Arc<Board>>,
    /// Tables of functions that the store does not have yet.
    recent: Mutex<Arc<Recent>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Each lock guards one value, so that a panic cannot leave a partial update.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Nanoseconds since the epoch, by the system clock.
pub fn clock() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64
}

/// Converts nanoseconds to seconds.
pub fn seconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e9
}

impl Hub {
    /// A hub before the first tick.
    pub fn new(about: About, expression: String) -> Hub {
        let (now, _) = watch::channel(Arc::new(Now::default()));
        Hub {
            about,
            streams: Streams::default(),
            clients: Clients::default(),
            now,
            expression,
            desk: OnceLock::new(),
            events: Mutex::default(),
            lossy_since: Mutex::default(),
            health: OnceLock::new(),
            tables: Mutex::default(),
            answers: OnceLock::new(),
            destinations: OnceLock::new(),
            board: OnceLock::new(),
            recent: Mutex::default(),
        }
    }

    /// The latest state.
    pub fn now(&self) -> Arc<Now> {
        Arc::clone(&self.now.borrow())
    }

    /// Subscribes to changes of the state.
    pub fn watch(&self) -> watch::Receiver<Arc<Now>> {
        self.now.subscribe()
    }

    /// The run's expression.
    pub fn expression(&self) -> String {
        self.desk.get().map_or_else(|| self.expression.clone(), |desk| desk.expression())
    }

    /// Follows the expression of a run.
    pub fn follow(&self, desk: &Arc<Desk>) {
        // A process has one run.
        let _ = self.desk.set(Arc::clone(desk));
    }

    /// The subscriptions of the run; `None` without a run.
    pub fn desk(&self) -> Option<Arc<Desk>> {
        self.desk.get().cloned()
    }

    /// The plan in effect in words; `None` without a run.
    pub fn described(&self) -> Option<Described> {
        self.desk.get().map(|desk| desk.described())
    }

    /// The tables of functions that the store does not have yet.
    pub fn recent(&self) -> Arc<Recent> {
        Arc::clone(&lock(&self.recent))
    }

    /// Adds a part of the interval that begins at `start`, in nanoseconds since the epoch.
    pub fn part_of(&self, start: u64, part: &Snapshot) {
        if self.about.mode == Mode::Live {
            Arc::make_mut(&mut lock(&self.recent)).add(start, part);
        }
    }

    /// Sets the store's writer.
    pub fn set_health(&self, health: Arc<Health>) {
        // A process has one run.
        let _ = self.health.set(health);
    }

    /// The store's writer, if any.
    pub fn health(&self) -> Option<Arc<Health>> {
        self.health.get().cloned()
    }

    /// Sets the memory shares of tables.
    pub fn set_tables(&self, tables: Vec<Share>) {
        *lock(&self.tables) = tables;
    }

    /// Sets the memory for answers of many rows, once.
    pub fn set_answers(&self, bytes: usize) {
        let _ = self.answers.set(bytes);
    }

    /// Sets where the run counts what it delivers, once.
    pub fn set_destinations(&self, destinations: Destinations) {
        let _ = self.destinations.set(destinations);
    }

    /// Sets what the triggers of a run over links do at present, once.
    pub fn set_board(&self, board: Arc<Board>) {
        let _ = self.board.set(board);
    }

    /// What the triggers of a run do at present; `None` without triggers.
    pub fn board(&self) -> Option<Arc<Board>> {
        self.board.get().cloned()
    }

    /// What is counted of logs and packet files; none without a run.
    pub fn destinations(&self) -> Destinations {
        self.destinations.get().cloned().unwrap_or_default()
    }

    /// Bytes for answers of many rows; `None` if no run divides its memory.
    pub fn answers(&self) -> Option<usize> {
        self.answers.get().copied()
    }

    /// Adds a complete tick.
    pub fn tick(&self, tick: &Snapshot, load: &Load) {
        let before = self.now();
        self.watch_loss(&before.total, tick);
        Arc::make_mut(&mut lock(&self.recent)).follow(&tick.outline);
        let mut total = before.total.clone();
        total.merge(&without_readings(tick));
        if total.outline.plan != before.total.outline.plan {
            total.forget_removed();
        }
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

    /// Adds packets of a tick that was reported already.
    pub fn late(&self, part: &Snapshot) {
        let mut next = Now::clone(&self.now());
        next.total.merge(&without_readings(part));
        next.metrics.add(part);
        self.now.send_replace(Arc::new(next));
    }

    /// Records an event at the start of packet loss, and at its end with the first tick without loss.
    fn watch_loss(&self, before: &Snapshot, tick: &Snapshot) {
        let lost = |s: &Snapshot| s.ledger.capture.lost();
        let mut since = lock(&self.lossy_since);
        let (now, end) = (lost(tick), tick.interval.end);
        match (*since, now) {
            (None, 1..) => {
                *since = Some(lost(before));
                let text = format!("packet loss: {now} of {} packets", tick.ledger.capture.offered);
                self.note_at(end, "loss", text);
            }
            (Some(known), 0) => {
                *since = None;
                self.note_at(
                    end,
                    "loss",
                    format!("packet loss ended: {} packets lost", lost(before) - known),
                );
            }
            _ => {}
        }
    }

    /// Ends the run with its totals.
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
            used: share.used(total, load),
            limit: share.limit as u64,
            shed: (share.shed)(total, load),
            help: share.help.to_owned(),
        };
        lock(&self.tables).iter().map(row).collect()
    }

    /// Records an event at the present time of the system clock.
    pub fn note(&self, kind: &str, text: impl Into<String>) {
        self.note_at(clock(), kind, text);
    }

    /// Records an event at a time in nanoseconds since the epoch.
    pub fn note_at(&self, time: u64, kind: &str, text: impl Into<String>) {
        let event = Event::note(seconds(time), kind, text.into());
        if let Some(health) = self.health.get() {
            health.keep_event(event.clone());
        }
        self.keep(event);
    }

    /// Keeps an event, which is in the store too, so that it is shown before it is written. A later state replaces an
    /// earlier one. `muted` is the mute that hides it.
    pub fn event(&self, event: &weir_api::Event, muted: Option<u64>) {
        self.keep(Event { muted, ..web(event) });
    }

    fn keep(&self, event: Event) {
        let mut events = lock(&self.events);
        events.retain(|known| known.id.is_none() || known.id != event.id);
        if events.len() >= EVENTS {
            events.pop_front();
        }
        events.push_back(event);
    }

    /// Events in memory, latest first.
    pub fn events(&self) -> Vec<Event> {
        lock(&self.events).iter().rev().cloned().collect()
    }

    /// Counts one event stream for the lifetime of the returned value.
    pub fn open_stream(self: &Arc<Self>) -> OpenStream {
        self.streams.connected.fetch_add(1, Ordering::Relaxed);
        OpenStream(Arc::clone(self))
    }
}

/// An open event stream.
pub struct OpenStream(Arc<Hub>);

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.0.streams.connected.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A snapshot without readings but the identified protocols, which name services: its size is bounded when it is added up.
fn without_readings(snapshot: &Snapshot) -> Snapshot {
    let reading = |answer: &Answer| match answer.id.subscription {
        builtin::APPLICATIONS => answer.reading.clone(),
        _ => Reading::Count(Count::default()),
    };
    let answer = |answer: &Answer| Answer {
        id: answer.id,
        label: Arc::clone(&answer.label),
        reading: reading(answer),
        nanoseconds: answer.nanoseconds,
    };
    Snapshot {
        interval: snapshot.interval,
        watched: snapshot.watched,
        packets: snapshot.packets,
        ledger: snapshot.ledger,
        flows: snapshot.flows,
        sessions: snapshot.sessions,
        costs: snapshot.costs,
        offloaders: snapshot.offloaders.clone(),
        answers: snapshot.answers.iter().map(answer).collect(),
        outline: Arc::clone(&snapshot.outline),
        // They are in the list of events.
        events: Vec::new(),
        event_count: snapshot.event_count,
        senders: snapshot.senders.clone(),
    }
}

/// Converts a tick for the event stream.
fn described(tick: &Snapshot, total: &Snapshot) -> Tick {
    let length = tick.watched_seconds();
    let talkers = top_of(tick, builtin::TALKERS).map_or_else(Vec::new, |top| {
        let rows = top.ranked().into_iter().take(TALKERS);
        let applications = Applications::of(total);
        let naming = Naming::by_content(&applications);
        rows.map(|row| list_row(&row, naming)).collect::<Vec<ListRow>>()
    });
    Tick {
        time: seconds(tick.interval.end),
        seconds: length,
        packets: tick.ledger.caught,
        bytes: tick.ledger.bytes,
        caught: total.ledger.caught,
        dropped: total.ledger.capture.lost(),
        flows_active: total.flows.active(),
        series: points(tick)
            .into_iter()
            .map(|point| {
                let value = point.shown(length);
                (point.id, value)
            })
            .collect(),
        talkers,
    }
}

/// A message of an event stream (HTML, 9.2.5). JSON has no line breaks.
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
            options: Some(Vec::new()),
            times: [None; 2],
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
    fn ticks_add_up_and_are_streamed() {
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
    fn a_file_has_no_event_stream() {
        let hub = hub(Mode::File);
        hub.tick(&tick(1, 10), &Load::default());
        assert!(hub.now().tick.is_none());
    }

    #[test]
    fn the_start_and_the_end_of_loss_are_events() {
        let hub = hub(Mode::Live);
        for (second, dropped) in [(1, 0), (2, 3), (3, 4), (4, 0), (5, 0)] {
            let mut tick = tick(second, 10);
            tick.ledger.capture.dropped = dropped;
            tick.ledger.capture.offered = 10 + dropped;
            hub.tick(&tick, &Load::default());
        }
        let described: Vec<(f64, String)> =
            hub.events().into_iter().map(|event| (event.time, event.text)).collect();
        let began = (3.0, "packet loss: 3 of 13 packets".to_owned());
        assert_eq!(described, [(5.0, "packet loss ended: 7 packets lost".to_owned()), began]);
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
