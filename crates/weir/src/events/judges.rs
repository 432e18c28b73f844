//! The judges of a run: each judges the merged readings of one function of one subscription.

use super::Counted;
use std::collections::HashMap;
use std::sync::Arc;
use weir_api::{Answer, AnswerId, Event, FunctionCall, Interval, Origin, Reading, Snapshot, builtin};
use weir_engine::{Judge, drops_of, judge_of};

/// The judges of the subscriptions that had a reading so far.
pub struct Judges {
    /// Length of the run's intervals in nanoseconds.
    length: u64,
    judges: HashMap<AnswerId, Vec<Judging>>,
    /// The judges of the packets that the run lost, each with its call.
    of_drops: Vec<(FunctionCall, Judging)>,
    /// Number of the latest plan, and its answers that have judges.
    plan: u64,
    judged: Vec<AnswerId>,
}

/// A judge, and the origin of its events.
struct Judging {
    judge: Box<dyn Judge>,
    origin: Option<Arc<Origin>>,
}

impl Judging {
    /// A judge of the readings of a subscription.
    fn new(call: &FunctionCall, length: u64, subscription: &str) -> Option<Self> {
        let judge = judge_of(call, length)?;
        let named = judge.named();
        let origin = Origin {
            subscription: subscription.into(),
            name: named.as_ref().map(|named| named.name.clone()),
            severity: named.as_ref().map(|named| named.severity),
            quiet: named.map(|named| named.quiet),
        };
        Some(Self { judge, origin: Some(Arc::new(origin)) })
    }

    /// The findings in a reading. `is_open` is asked about events with their origin.
    fn judge(
        &mut self,
        reading: &Reading,
        watched: Interval,
        interval: Interval,
        is_open: &dyn Fn(&Event) -> bool,
    ) -> Vec<Event> {
        let origin = &self.origin;
        let is_open = |event: &Event| is_open(&Event { origin: origin.clone(), ..event.clone() });
        let found = self.judge.judge(reading, watched, interval, &is_open);
        self.with_origin(found)
    }

    /// The findings in intervals that have not ended, without those whose events are open.
    fn so_far(&self, is_open: &dyn Fn(&Event) -> bool) -> Vec<Event> {
        let is_open = |event: &Event| is_open(&Event { origin: self.origin.clone(), ..event.clone() });
        self.with_origin(self.judge.so_far(&is_open))
    }

    /// Whether its events are of a subscription of this name.
    fn is_of(&self, subscription: &str) -> bool {
        self.origin.as_ref().is_some_and(|origin| *origin.subscription == *subscription)
    }

    fn with_origin(&self, mut found: Vec<Event>) -> Vec<Event> {
        for event in &mut found {
            event.origin.clone_from(&self.origin);
        }
        found
    }
}

impl Judges {
    /// No judges.
    pub fn new(length: u64) -> Self {
        Self { length, judges: HashMap::new(), of_drops: Vec::new(), plan: 0, judged: Vec::new() }
    }

    /// Judges the packets that the run lost from now on, by these calls of `event`, each for events of a subscription of this name.
    /// Judges that it had already go on.
    pub fn judge_drops<'c>(&mut self, calls: impl Iterator<Item = (&'c FunctionCall, &'c str)>) {
        let mut before = std::mem::take(&mut self.of_drops);
        self.of_drops.extend(calls.filter_map(|(call, name)| {
            let is_this = |(known, judging): &(FunctionCall, Judging)| known == call && judging.is_of(name);
            match before.iter().position(is_this) {
                Some(at) => Some(before.swap_remove(at)),
                None => Some((call.clone(), Judging::new(call, self.length, name)?)),
            }
        }));
    }

    /// The findings in a snapshot whose readings are merged over all workers. Judges of subscriptions that the plan no longer has
    /// judge what they have, and end.
    pub fn judge(&mut self, snapshot: &Snapshot, is_open: &dyn Fn(&Event) -> bool) -> Vec<Event> {
        let outline = &snapshot.outline;
        let is_new = outline.plan > self.plan;
        if is_new {
            self.plan = outline.plan;
            let judged = outline.answers().filter(|(_, answer)| !answer.label.judges.is_empty());
            self.judged = judged.map(|(id, _)| id).collect();
        }
        let mut found = Vec::new();
        if !self.of_drops.is_empty() {
            let (drops, interval) = (drops_of(&snapshot.ledger), snapshot.interval);
            let watched = snapshot.watched.unwrap_or(interval);
            for (_, judging) in &mut self.of_drops {
                found.extend(judging.judge(&drops, watched, interval, is_open));
            }
        }
        for answer in snapshot.answers.iter().filter(|answer| !answer.label.judges.is_empty()) {
            self.judge_answer(answer, snapshot, is_open, &mut found);
        }
        // An interval without packets has a reading, too.
        for id in self.judged_without(snapshot) {
            if let Some(answer) = outline.answer(id) {
                self.judge_answer(answer, snapshot, is_open, &mut found);
            }
        }
        if is_new {
            for (_, judges) in self.judges.extract_if(|id, _| !outline.has(*id)) {
                found.extend(finished(judges));
            }
        }
        found
    }

    /// Takes what a worker has counted of a tick so far. Returns the findings of judges whose thresholds it passes, without those whose
    /// events are open.
    pub fn ahead(&mut self, counted: &Counted, is_open: &dyn Fn(&Event) -> bool) -> Vec<Event> {
        let Counted { worker, watched, .. } = *counted;
        let mut found = Vec::new();
        if counted.ledger.capture.lost() > 0 {
            for (_, judging) in &mut self.of_drops {
                judging.judge.ahead(worker, drops_of(&counted.ledger), watched);
                found.extend(judging.so_far(is_open));
            }
        }
        let length = self.length;
        for (id, count) in &counted.counts {
            let Some(answer) = counted.outline.answer(*id) else { continue };
            for judging in self.judges.entry(*id).or_insert_with(|| judges_of(answer, length)) {
                judging.judge.ahead(worker, Reading::Count(*count), watched);
                found.extend(judging.so_far(is_open));
            }
        }
        found
    }

    /// The findings of all judges in intervals that have not ended, without those whose events are open.
    pub fn so_far(&self, is_open: &dyn Fn(&Event) -> bool) -> Vec<Event> {
        self.all().flat_map(|judging| judging.so_far(is_open)).collect()
    }

    /// The judged answers of the plan that a snapshot does not have.
    fn judged_without(&self, snapshot: &Snapshot) -> Vec<AnswerId> {
        let has = |id: &AnswerId| snapshot.answers.binary_search_by_key(id, |answer| answer.id).is_ok();
        self.judged.iter().copied().filter(|id| !has(id)).collect()
    }

    fn judge_answer(
        &mut self,
        answer: &Answer,
        snapshot: &Snapshot,
        is_open: &dyn Fn(&Event) -> bool,
        found: &mut Vec<Event>,
    ) {
        let interval = snapshot.interval;
        let watched = snapshot.watched.unwrap_or(interval);
        let length = self.length;
        let judges = self.judges.entry(answer.id).or_insert_with(|| judges_of(answer, length));
        for judging in judges {
            found.extend(judging.judge(&answer.reading, watched, interval, is_open));
        }
    }

    /// Ends all judges with the run. Returns what they find in what they have.
    pub fn finish(&mut self) -> Vec<Event> {
        let mut judges: Vec<_> = std::mem::take(&mut self.judges).into_iter().collect();
        judges.sort_unstable_by_key(|(id, _)| *id);
        let of_drops = std::mem::take(&mut self.of_drops).into_iter().map(|(_, judging)| judging).collect();
        let of_drops = finished(of_drops);
        of_drops.into_iter().chain(judges.into_iter().flat_map(|(_, judges)| finished(judges))).collect()
    }

    /// What the latest whole interval of a subscription came to, in the unit of the threshold it is compared with.
    pub fn latest(&self, subscription: &str) -> Option<u64> {
        let of_it = self.all().filter(|judging| judging.is_of(subscription));
        of_it.filter_map(|judging| judging.judge.latest()).max()
    }

    /// Bytes that the judges hold.
    pub fn held(&self) -> usize {
        self.all().map(|judging| judging.judge.held()).sum()
    }

    fn all(&self) -> impl Iterator<Item = &Judging> {
        self.judges.values().flatten().chain(self.of_drops.iter().map(|(_, judging)| judging))
    }
}

fn finished(judges: Vec<Judging>) -> Vec<Event> {
    let finish = |mut judging: Judging| {
        let found = judging.judge.finish();
        judging.with_origin(found)
    };
    judges.into_iter().flat_map(finish).collect()
}

/// The judges of a function.
fn judges_of(answer: &Answer, length: u64) -> Vec<Judging> {
    let label = &answer.label;
    let length = if label.interval == 0 { length } else { label.interval };
    let judging = |call: &FunctionCall| {
        let judging = Judging::new(call, length, &label.subscription)?;
        let is_built_in = answer.id.subscription < builtin::FIRST_FREE;
        Some(Judging { origin: judging.origin.filter(|_| !is_built_in), ..judging })
    };
    label.judges.iter().filter_map(judging).collect()
}
