//! Judges: they find events in the readings of functions, where an interval is complete and its readings are merged.

use super::{Arguments, FUNCTIONS, RECORD_FUNCTIONS, flood};
use weir_api::{Event, FunctionCall, Interval, Reading, Severity};

/// Finds events in the readings of one function of one subscription. Its state is bounded, and its time is that of the
/// intervals, so that events do not depend on the number of workers.
pub trait Judge: Send {
    /// Takes the reading of a part of the run, merged over all workers: of an interval, or of packets that came late for
    /// one. `watched` is the watched time that ends with it, which begins earlier after a silence. `is_open` tells whether
    /// an event of this kind and subject is open. Returns the events, in any order, without an origin.
    fn judge(
        &mut self,
        reading: &Reading,
        watched: Interval,
        interval: Interval,
        is_open: &dyn Fn(&Event) -> bool,
    ) -> Vec<Event>;

    /// Takes what a worker has counted so far in an interval of a live run, in place of what it had counted of the interval before.
    /// The reading of the interval follows. `watched` ends where the worker is.
    fn ahead(&mut self, worker: usize, reading: Reading, watched: Interval) {
        let _ = (worker, reading, watched);
    }

    /// The events of what is not judged yet and will be found whatever follows, without those that are open. They are found again
    /// when all of it is judged.
    fn so_far(&self, is_open: &dyn Fn(&Event) -> bool) -> Vec<Event> {
        let _ = is_open;
        Vec::new()
    }

    /// Judges what was taken and not judged yet: the subscription or the run has ended.
    fn finish(&mut self) -> Vec<Event> {
        Vec::new()
    }

    /// Bytes of heap memory that it holds.
    fn held(&self) -> usize {
        0
    }

    /// What the latest whole interval came to, if a number is compared with a threshold: the greatest number of its rows, or the
    /// least one if only too little is found. `None` before the first interval.
    fn latest(&self) -> Option<u64> {
        None
    }

    /// The name and the rest of the origin of its events, if they are not those of the kind.
    fn named(&self) -> Option<Named> {
        None
    }
}

/// Builds the judge of a call, for intervals of a length in nanoseconds.
pub type BuildJudge = fn(&Arguments<'_>, u64) -> Result<Box<dyn Judge>, String>;

/// What the events of a judge are called.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Named {
    /// Their name.
    pub name: Box<str>,
    /// How urgent they are.
    pub severity: Severity,
    /// Nanoseconds without a further finding after which one has ended.
    pub quiet: u64,
}

/// The words for the urgency of events, in calls of functions.
pub(super) const SEVERITIES: [(&str, Severity); 2] = [("low", Severity::Notice), ("high", Severity::Warning)];

/// The judge of a call; `None` if its function finds no events. `length` is that of an interval of the subscription, in
/// nanoseconds. Arguments were checked when the subscription was compiled.
pub fn judge_of(call: &FunctionCall, length: u64) -> Option<Box<dyn Judge>> {
    let functions = FUNCTIONS.iter().chain(RECORD_FUNCTIONS).copied();
    let mut functions = functions.chain([&flood::FLOODED]);
    let spec = functions.find(|spec| spec.name == call.name && spec.judge.is_some())?;
    spec.judge(call, length)?.ok()
}
