//! The mutes of a run: those of its store.

use std::mem;
use weir_api::{Event, Facts, Mute};
use weir_store::{Marks, StoreError};

/// The mutes of a run.
#[derive(Default)]
pub struct Mutes {
    marks: Option<Box<dyn Marks>>,
    /// Whether they may change while the run goes on.
    changes: bool,
    mutes: Vec<Mute>,
    /// Whether the last attempt to read them failed.
    is_failing: bool,
}

impl Mutes {
    /// The mutes of a store. Those of a run over files are read once, so that its events do not depend on when they are found.
    pub fn of(marks: Box<dyn Marks>, is_live: bool) -> Self {
        let mut mutes = Self { marks: Some(marks), changes: true, ..Self::default() };
        mutes.refresh();
        mutes.changes = is_live;
        mutes
    }

    /// Reads the mutes if they have changed. Those that were read last hold while they cannot be read.
    pub fn refresh(&mut self) {
        let Some(marks) = self.marks.as_ref().filter(|_| self.changes) else { return };
        match marks.changed_mutes() {
            Ok(changed) => {
                self.is_failing = false;
                self.mutes = changed.unwrap_or_else(|| mem::take(&mut self.mutes));
            }
            Err(error) => self.complain(&error),
        }
    }

    /// Reports the first of a series of failures.
    fn complain(&mut self, error: &StoreError) {
        if !mem::replace(&mut self.is_failing, true) {
            eprintln!("weir: mutes are not read: {error}");
        }
    }

    /// The number of the first mute that hides an event at a time in nanoseconds since the epoch.
    pub fn of_event(&self, event: &Event, at: u64) -> Option<u64> {
        if self.mutes.is_empty() {
            return None;
        }
        let facts = Facts::of(event);
        self.mutes.iter().find(|mute| mute.hides(&facts, at)).map(|mute| mute.number)
    }
}
