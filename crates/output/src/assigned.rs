//! Passes to an output the readings that subscriptions assign to it, over the intervals that they ask for.

use crate::{OpenFlows, Output, OutputSpec, Takes};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use weir_api::{Answer, Event, EventKind, Interval, Snapshot};
use weir_engine::{FlowIdentity, FlowRecord};
use weir_proto::Record;

/// Passes to an output only the readings that are assigned to it, over the intervals that their subscriptions ask for.
pub fn assigned(spec: &OutputSpec, output: Box<dyn Output>) -> Box<dyn Output> {
    match spec.takes {
        Takes::Known => output,
        takes => Box::new(ByAssignment { output, assigned: Assigned::new(spec.name, takes == Takes::Every) }),
    }
}

/// An output, and the readings that it takes.
struct ByAssignment {
    output: Box<dyn Output>,
    assigned: Assigned,
}

impl ByAssignment {
    /// Passes on the readings of longer intervals. All of them are tried, and the first error is returned.
    fn pass_on(&mut self, over: Vec<Snapshot>) -> io::Result<()> {
        let mut result = Ok(());
        for long in &over {
            result = result.and(self.output.readings(long));
        }
        result
    }
}

impl Output for ByAssignment {
    fn interval(&mut self, snapshot: &Snapshot) -> io::Result<()> {
        let (now, over) = self.assigned.take(snapshot);
        let result = self.output.interval(&now);
        result.and(self.pass_on(over))
    }

    fn flow(&mut self, flow: &FlowRecord) -> io::Result<()> {
        self.output.flow(flow)
    }

    fn named_flow(&mut self, flow: &FlowRecord, name: Option<&str>) -> io::Result<()> {
        self.output.named_flow(flow, name)
    }

    fn open_flows(&mut self, open: &OpenFlows<'_>) -> io::Result<()> {
        self.output.open_flows(open)
    }

    fn record(&mut self, flow: &FlowIdentity, record: &Record<'_>) -> io::Result<()> {
        self.output.record(flow, record)
    }

    fn event(&mut self, event: &Event) -> io::Result<()> {
        self.output.event(event)
    }

    fn muted_event(&mut self, event: &Event, mute: u64) -> io::Result<()> {
        self.output.muted_event(event, mute)
    }

    fn failure(&self) -> &'static EventKind {
        self.output.failure()
    }

    fn flush(&mut self) -> io::Result<()> {
        self.output.flush()
    }

    fn roll(&mut self, now: u64) -> io::Result<()> {
        self.output.roll(now)
    }

    fn finish(&mut self) -> io::Result<()> {
        let rest = self.assigned.finish();
        let result = self.pass_on(rest);
        result.and(self.output.finish())
    }
}

/// Selects and collects the readings of one output.
struct Assigned {
    /// The output's name.
    name: &'static str,
    /// Whether the output adds intervals up itself, and takes every interval of the run.
    takes_all: bool,
    /// Readings over intervals that are longer than the run's and have not ended, by their length in nanoseconds.
    held: BTreeMap<u64, Snapshot>,
}

impl Assigned {
    pub fn new(name: &'static str, takes_all: bool) -> Self {
        Self { name, takes_all, held: BTreeMap::new() }
    }

    /// Divides a finished interval into what the output takes now, and the longer intervals that ended with it or before
    /// it, in order.
    pub fn take<'s>(&mut self, snapshot: &'s Snapshot) -> (Cow<'s, Snapshot>, Vec<Snapshot>) {
        let (name, takes_all) = (self.name, self.takes_all);
        let is_for = |answer: &Answer| {
            let outputs = &answer.label.outputs;
            outputs.as_ref().is_none_or(|outputs| outputs.iter().any(|output| output == name))
        };
        let is_long = |answer: &Answer| !takes_all && answer.label.interval > 0;
        let is_plain = |answer: &Answer| is_for(answer) && !is_long(answer);
        if self.held.is_empty() && snapshot.answers.iter().all(is_plain) {
            return (Cow::Borrowed(snapshot), Vec::new());
        }
        let mut lengths: BTreeMap<u64, Vec<Answer>> =
            self.held.keys().map(|length| (*length, Vec::new())).collect();
        for answer in snapshot.answers.iter().filter(|answer| is_for(answer) && is_long(answer)) {
            lengths.entry(answer.label.interval).or_default().push(answer.clone());
        }
        let mut over = Vec::new();
        for (length, mut answers) in lengths {
            // Merging needs the order of their numbers; reports have that of the plan.
            answers.sort_by_key(|answer| answer.id);
            over.extend(self.add(length, snapshot, answers));
        }
        let answers = snapshot.answers.iter().filter(|answer| is_plain(answer)).cloned().collect();
        (Cow::Owned(Snapshot { answers, ..snapshot.clone() }), over)
    }

    /// Adds the readings of an interval of the run to those of a longer one. Returns the longer ones that are over.
    fn add(&mut self, length: u64, snapshot: &Snapshot, answers: Vec<Answer>) -> Vec<Snapshot> {
        let Interval { start, end } = snapshot.interval;
        let start = start - start % length;
        let interval = Interval { start, end: start.saturating_add(length) };
        let outline = Arc::clone(&snapshot.outline);
        let part = Snapshot { interval, answers, outline, ..Snapshot::default() };
        let mut over = Vec::new();
        match self.held.get_mut(&length) {
            Some(held) if held.interval.start == start => held.merge(&part),
            // Packets that came late are a further part of an interval that was reported.
            Some(held) if held.interval.start > start => {
                over.extend((!part.answers.is_empty()).then_some(part));
                return over;
            }
            _ => over.extend(self.held.insert(length, part)),
        }
        if end >= interval.end {
            over.extend(self.held.remove(&length));
        }
        over
    }

    /// The readings of longer intervals that have not ended.
    pub fn finish(&mut self) -> Vec<Snapshot> {
        std::mem::take(&mut self.held).into_values().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_api::{AnswerId, AnswerLabel, Count, Reading, SubscriptionId};

    const SECOND: u64 = 1_000_000_000;

    /// A snapshot of ten seconds that begins at `start` seconds, with an answer for each length and output.
    fn snapshot(start: u64, of: &[(u64, &str)]) -> Snapshot {
        let answers = (1..).zip(of).map(|(number, (length, output))| Answer {
            id: AnswerId { subscription: SubscriptionId(number), place: 0 },
            label: Arc::new(AnswerLabel {
                interval: length * SECOND,
                outputs: match *output {
                    "" => None,
                    "none" => Some(Vec::new()),
                    names => Some(names.split_whitespace().map(str::to_owned).collect()),
                },
                ..AnswerLabel::default()
            }),
            reading: Reading::Count(Count { packets: 1, bytes: 10 }),
            nanoseconds: 0,
        });
        Snapshot {
            interval: Interval { start: start * SECOND, end: (start + 10) * SECOND },
            answers: answers.collect(),
            ..Snapshot::default()
        }
    }

    fn packets(snapshot: &Snapshot) -> Vec<(u32, u64)> {
        let packets = |answer: &Answer| match answer.reading {
            Reading::Count(count) => (answer.id.subscription.0, count.packets),
            _ => panic!("not a count"),
        };
        snapshot.answers.iter().map(packets).collect()
    }

    #[test]
    fn an_output_takes_what_is_assigned_to_it() {
        let snapshot = snapshot(0, &[(0, ""), (0, "csv"), (0, "store csv"), (0, "store"), (0, "none")]);
        assert_eq!(packets(&Assigned::new("csv", false).take(&snapshot).0), [(1, 1), (2, 1), (3, 1)]);
        assert_eq!(packets(&Assigned::new("ndjson", false).take(&snapshot).0), [(1, 1)]);
    }

    #[test]
    fn longer_intervals_are_sums_and_begin_at_multiples_of_their_length() {
        let mut assigned = Assigned::new("csv", false);
        let of = [(0, ""), (30, ""), (20, "")];
        let mut over = Vec::new();
        for start in [10, 20, 30, 50] {
            let snapshot = snapshot(start, &of);
            let (now, ended) = assigned.take(&snapshot);
            assert_eq!(packets(&now), [(1, 1)]);
            over.extend(ended);
        }
        over.extend(assigned.finish());
        let found: Vec<_> = over
            .iter()
            .map(|long| (long.interval.start / SECOND, long.interval.end / SECOND, packets(long)))
            .collect();
        assert_eq!(
            found,
            [
                (0, 20, vec![(3, 1)]),
                (0, 30, vec![(2, 2)]),
                (20, 40, vec![(3, 2)]),
                (40, 60, vec![(3, 1)]),
                (30, 60, vec![(2, 2)]),
            ]
        );
        // An output that adds up itself takes every interval.
        let snapshot = snapshot(0, &of);
        assert_eq!(packets(&Assigned::new("store", true).take(&snapshot).0).len(), 3);
    }

    #[test]
    fn late_parts_are_readings_of_their_interval() {
        let mut assigned = Assigned::new("csv", false);
        assert!(assigned.take(&snapshot(60, &[(60, "")])).1.is_empty());
        let late = assigned.take(&snapshot(10, &[(60, "")])).1;
        assert_eq!((late[0].interval.start, packets(&late[0])), (0, vec![(1, 1)]));
        assert_eq!(packets(&assigned.finish()[0]), [(1, 1)]);
    }
}
