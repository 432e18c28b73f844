//! What the triggers of a run do at present, for readers of the run.

use super::TriggerSpec;
use super::kept::Removed;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use weir_api::{Event, EventState};

/// The present state of each trigger. The collector and the writer of files change it.
pub struct Board {
    rows: Mutex<Vec<State>>,
    /// Nanoseconds before now from which on the ring of each worker has all packets.
    reach: Vec<AtomicU64>,
}

/// The present state of a trigger.
#[derive(Clone, Debug)]
pub struct State {
    /// The trigger.
    pub spec: Arc<TriggerSpec>,
    /// What its latest whole interval came to, in the unit of its threshold.
    pub value: Option<u64>,
    /// Beginnings of its open events by their identifiers, in nanoseconds since the epoch.
    on: BTreeMap<u64, u64>,
    /// The files that are being written.
    pub open: Vec<OpenFile>,
    /// The older files that were removed, so that there was room for newer ones.
    pub removed: Removed,
    /// Number of times that a file was not written.
    pub failed: u64,
}

/// A file that is being written.
#[derive(Clone, Debug)]
pub struct OpenFile {
    /// Its path when it has ended.
    pub path: PathBuf,
    /// The path at which it is written; `None` without packets.
    pub place: Option<PathBuf>,
}

impl State {
    /// That of a trigger of which nothing is known.
    fn of(spec: &Arc<TriggerSpec>) -> Self {
        Self {
            spec: Arc::clone(spec),
            value: None,
            on: BTreeMap::new(),
            open: Vec::new(),
            removed: Removed::default(),
            failed: 0,
        }
    }

    /// The beginning of its earliest open event, in nanoseconds since the epoch; `None` while it is off.
    pub fn since(&self) -> Option<u64> {
        self.on.values().min().copied()
    }
}

impl Board {
    /// The board of these triggers, for a number of workers that have rings.
    pub fn new(specs: &[Arc<TriggerSpec>], workers: usize) -> Self {
        Self {
            rows: Mutex::new(specs.iter().map(State::of).collect()),
            reach: (0..workers).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    fn rows(&self) -> MutexGuard<'_, Vec<State>> {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The state of all triggers, in the order of the configuration.
    pub fn states(&self) -> Vec<State> {
        self.rows().clone()
    }

    /// Nanoseconds before now from which on the rings of all workers have all packets; `None` without rings.
    pub fn reach(&self) -> Option<u64> {
        self.reach.iter().map(|one| one.load(Ordering::Relaxed)).min()
    }

    /// Notes the reach of the ring of a worker, in nanoseconds.
    pub fn reaches(&self, worker: usize, nanoseconds: u64) {
        if let Some(reach) = self.reach.get(worker) {
            reach.store(nanoseconds, Ordering::Relaxed);
        }
    }

    /// Notes what the latest whole interval of each trigger came to.
    pub fn measure(&self, value: impl Fn(&TriggerSpec) -> Option<u64>) {
        self.rows().iter_mut().for_each(|row| row.value = value(&row.spec));
    }

    /// Notes that an event of a trigger begins or ends.
    pub fn event(&self, event: &Event) {
        for row in self.rows().iter_mut().filter(|row| row.spec.is_by(event)) {
            match event.state {
                EventState::End => row.on.remove(&event.id),
                EventState::Begin | EventState::Update => row.on.insert(event.id, event.begin),
            };
        }
    }

    /// Has these triggers from now on. Those that stay keep their state.
    pub fn change_triggers(&self, specs: &[Arc<TriggerSpec>]) {
        let mut rows = self.rows();
        let mut before = std::mem::take(&mut *rows);
        rows.extend(specs.iter().map(|spec| {
            let at = before.iter().position(|row| Arc::ptr_eq(&row.spec, spec));
            at.map_or_else(|| State::of(spec), |at| before.swap_remove(at))
        }));
    }

    /// Changes the state of a trigger.
    fn change(&self, spec: &Arc<TriggerSpec>, change: impl FnOnce(&mut State)) {
        if let Some(row) = self.rows().iter_mut().find(|row| Arc::ptr_eq(&row.spec, spec)) {
            change(row);
        }
    }

    /// Notes that a file is being written.
    pub fn opens(&self, spec: &Arc<TriggerSpec>, path: &Path) {
        self.change(spec, |row| row.open.push(OpenFile { path: path.to_owned(), place: None }));
    }

    /// Notes where a file is written.
    pub fn places(&self, spec: &Arc<TriggerSpec>, path: &Path, place: &Path) {
        self.change(spec, |row| {
            let open = row.open.iter_mut().find(|open| open.path == path);
            open.into_iter().for_each(|open| open.place = Some(place.to_owned()));
        });
    }

    /// Notes that a file has ended, and whether it failed.
    pub fn closes(&self, spec: &Arc<TriggerSpec>, path: &Path, has_failed: bool) {
        self.change(spec, |row| {
            row.open.retain(|open| open.path != path);
            row.failed += u64::from(has_failed);
        });
    }

    /// Notes that older files were removed.
    pub fn removes(&self, spec: &Arc<TriggerSpec>, removed: Removed) {
        self.change(spec, |row| {
            row.removed.files += removed.files;
            row.removed.bytes += removed.bytes;
        });
    }
}
