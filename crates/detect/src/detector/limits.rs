//! Which matches become alerts: `threshold` and `detection_filter`, and what the user's threshold.config says.
//!
//! A time begins with its first match, by the time of packets, and ends after its seconds.

use super::Moment;
use super::of_user::{OfUser, Pause};
use super::renumbering::Renumbering;
use crate::rule::Rule;
use crate::state::{DetectionFilter, Threshold, ThresholdKind, Track};
use std::collections::HashMap;
use std::net::IpAddr;
use weir_wire::Time;

/// Maximum number of counts. Where there is no room, matches become alerts.
const MOST: usize = 1 << 16;

/// Whose matches are counted.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
enum Of {
    Address(IpAddr),
    Pair(IpAddr, IpAddr),
    Rule,
    Flow((IpAddr, u16), (IpAddr, u16), u8),
}

impl Of {
    fn new(track: Track, moment: &Moment<'_>) -> Self {
        let (source, destination) = (moment.sender().0, moment.receiver().0);
        match track {
            Track::Source => Self::Address(source),
            Track::Destination => Self::Address(destination),
            // Both directions are of one pair.
            Track::Both => Self::Pair(source.min(destination), source.max(destination)),
            Track::Rule => Self::Rule,
            Track::Flow => Self::Flow(moment.initiator, moment.responder, moment.ip_proto),
        }
    }
}

/// What a count is for.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
enum For {
    Filter,
    Threshold,
    /// A pause, by its place among those of the rule.
    Pause(u32),
}

/// The matches of a time.
#[derive(Clone, Copy, Debug)]
struct Counted {
    since: Time,
    seconds: u32,
    count: u32,
    /// The count at which `backoff` lets the next one pass.
    next: u32,
}

impl Counted {
    fn is_over(&self, now: Time) -> bool {
        now.since(self.since) > u64::from(self.seconds) * 1_000_000_000
    }
}

/// The counts of a worker.
#[derive(Debug, Default)]
pub(super) struct Limits {
    /// By the rule, what is counted for, and whose matches are counted.
    counts: HashMap<(u32, For, Of), Counted>,
}

impl Limits {
    /// Gives rules the numbers of another program.
    pub fn renumber(&mut self, to: &Renumbering) {
        let counts = std::mem::take(&mut self.counts).into_iter();
        let renumbered =
            counts.filter_map(|((rule, what, of), counted)| Some(((to.rule(rule)?, what, of), counted)));
        self.counts = renumbered.collect();
    }

    /// Whether a match of a rule becomes an alert. It is counted.
    pub fn let_pass(&mut self, number: u32, rule: &Rule, of_user: &OfUser, moment: &Moment<'_>) -> bool {
        let threshold = of_user.threshold.or(rule.threshold);
        rule.detection_filter.is_none_or(|filter| self.filter(number, &filter, moment))
            && threshold.is_none_or(|threshold| self.threshold(number, &threshold, moment))
            && !of_user.suppresses(moment)
            && !self.is_paused(number, &of_user.pauses, moment)
    }

    /// Whether a rule has matched so often that it makes no alerts for a time. The match is counted.
    fn is_paused(&mut self, number: u32, pauses: &[Pause], moment: &Moment<'_>) -> bool {
        let mut is_paused = false;
        for (at, pause) in (0..).zip(pauses) {
            let key = (number, For::Pause(at), Of::new(pause.track, moment));
            let Some(counted) = self.counted(key, pause.seconds, moment.time) else { continue };
            counted.count = counted.count.saturating_add(1);
            if counted.count > pause.count {
                is_paused = true;
            } else if counted.count == pause.count {
                // From the next match on the time is that of the pause; 0 is forever.
                let seconds = if pause.lasts == 0 { u32::MAX } else { pause.lasts };
                *counted = Counted { since: moment.time, seconds, ..*counted };
            }
        }
        is_paused
    }

    fn filter(&mut self, number: u32, filter: &DetectionFilter, moment: &Moment<'_>) -> bool {
        let key = (number, For::Filter, Of::new(filter.track, moment));
        let Some(counted) = self.counted(key, filter.seconds, moment.time) else { return true };
        counted.count = counted.count.saturating_add(1);
        counted.count > filter.count
    }

    fn threshold(&mut self, number: u32, threshold: &Threshold, moment: &Moment<'_>) -> bool {
        let key = (number, For::Threshold, Of::new(threshold.track, moment));
        // A backoff has no end.
        let seconds = match threshold.kind {
            ThresholdKind::Backoff(_) => u32::MAX,
            _ => threshold.seconds,
        };
        let Some(counted) = self.counted(key, seconds, moment.time) else { return true };
        counted.count = counted.count.saturating_add(1);
        match threshold.kind {
            ThresholdKind::Limit => counted.count <= threshold.count,
            ThresholdKind::Both => counted.count == threshold.count,
            ThresholdKind::Threshold if counted.count >= threshold.count => {
                counted.count = 0;
                true
            }
            ThresholdKind::Threshold => false,
            ThresholdKind::Backoff(factor) => {
                let next = if counted.next == 0 { threshold.count } else { counted.next };
                let passes = counted.count == next;
                counted.next = if passes { next.saturating_mul(factor.max(1)) } else { next };
                passes
            }
        }
    }

    /// The count of a key in its present time; `None` without room.
    fn counted(&mut self, key: (u32, For, Of), seconds: u32, now: Time) -> Option<&mut Counted> {
        if self.counts.len() >= MOST && !self.counts.contains_key(&key) {
            self.counts.retain(|_, counted| !counted.is_over(now));
            if self.counts.len() >= MOST {
                return None;
            }
        }
        let begun = Counted { since: now, seconds, count: 0, next: 0 };
        let counted = self.counts.entry(key).or_insert(begun);
        if counted.is_over(now) {
            *counted = begun;
        }
        Some(counted)
    }
}
