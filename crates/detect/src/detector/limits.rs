//! Which matches become alerts: `threshold` and `detection_filter`, and what the user's threshold.config says.
//!
//! A time begins with its first match, by the time of packets, and ends after its seconds.

use super::Moment;
use super::hosts::Of;
use super::of_user::{OfUser, Pause};
use crate::rule::Rule;
use crate::state::{DetectionFilter, Threshold, ThresholdKind, Track};
use std::collections::HashMap;
use std::net::IpAddr;
use weir_wire::Time;

/// Maximum number of counts. Where there is no room, matches become alerts.
const MAX_COUNTS: usize = 1 << 16;

/// Whose matches are counted.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
enum Whose {
    Hosts(Of),
    Rule,
    Flow((IpAddr, u16), (IpAddr, u16), u8),
}

impl Whose {
    fn new(track: Track, moment: &Moment<'_>) -> Self {
        let (source, destination) = (moment.sender().0, moment.receiver().0);
        match track {
            Track::Source => Self::Hosts(Of::Address(source)),
            Track::Destination => Self::Hosts(Of::Address(destination)),
            Track::Both => Self::Hosts(Of::pair(source, destination)),
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

/// The number of a rule for its user, which it keeps when rules change: its gid and its sid.
type Number = (u32, u32);

/// Which matches are counted together: those of a rule, for a purpose with a count and seconds, of a flow or of hosts. A limit that
/// has changed counts anew.
type Key = (Number, For, (u32, u32), Whose);

/// The counts of a run.
#[derive(Debug, Default)]
pub(super) struct Limits {
    counts: HashMap<Key, Counted>,
}

/// A match that is judged.
pub(super) struct Judged<'j> {
    pub rule: &'j Rule,
    pub of_user: &'j OfUser,
    pub moment: &'j Moment<'j>,
    /// Whether it has a place in the order of packets. If not it is judged by the counts so far, and not counted.
    pub counts: bool,
}

/// What becomes of a match.
#[derive(Clone, Copy, Debug)]
pub(super) struct Judgement {
    /// Whether it becomes an alert.
    pub passes: bool,
    /// Whether there was no room for a count of it.
    pub no_room: bool,
}

/// Whether a rule's alerts are limited by counts of more than one flow.
pub(super) fn is_limited(rule: &Rule, of_user: &OfUser) -> bool {
    let threshold = of_user.threshold.or(rule.threshold);
    rule.detection_filter.is_some()
        || threshold.is_some_and(|threshold| threshold.track != Track::Flow)
        || !of_user.pauses.is_empty()
}

/// Whether a rule's alerts are limited by counts.
pub(super) fn has_counts(rule: &Rule, of_user: &OfUser) -> bool {
    is_limited(rule, of_user) || of_user.threshold.or(rule.threshold).is_some()
}

impl Limits {
    /// Judges a match.
    pub fn judge(&mut self, judged: &Judged<'_>) -> Judgement {
        let mut judging = Judging { limits: self, judged, no_room: false };
        let Judged { rule, of_user, moment, .. } = judged;
        let threshold = of_user.threshold.or(rule.threshold);
        let passes = rule.detection_filter.is_none_or(|filter| judging.filter(&filter))
            && threshold.is_none_or(|threshold| judging.threshold(&threshold))
            && !of_user.suppresses(moment)
            && !judging.is_paused(&of_user.pauses);
        Judgement { passes, no_room: judging.no_room }
    }
}

/// The work of judging a match.
struct Judging<'j> {
    limits: &'j mut Limits,
    judged: &'j Judged<'j>,
    no_room: bool,
}

impl Judging<'_> {
    /// Whether a rule has matched so often that it makes no alerts for a time.
    fn is_paused(&mut self, pauses: &[Pause]) -> bool {
        let now = self.judged.moment.time;
        let mut is_paused = false;
        for (at, pause) in (0..).zip(pauses) {
            let over = self.count(For::Pause(at), pause.track, (pause.count, pause.seconds), |counted| {
                counted.count = counted.count.saturating_add(1);
                if counted.count == pause.count {
                    // From the next match on the time is that of the pause; 0 is forever.
                    let seconds = if pause.lasts == 0 { u32::MAX } else { pause.lasts };
                    *counted = Counted { since: now, seconds, ..*counted };
                }
                counted.count > pause.count
            });
            is_paused |= over.unwrap_or(false);
        }
        is_paused
    }

    fn filter(&mut self, filter: &DetectionFilter) -> bool {
        let passes = self.count(For::Filter, filter.track, (filter.count, filter.seconds), |counted| {
            counted.count = counted.count.saturating_add(1);
            counted.count > filter.count
        });
        passes.unwrap_or(true)
    }

    fn threshold(&mut self, threshold: &Threshold) -> bool {
        // A backoff has no end.
        let seconds = match threshold.kind {
            ThresholdKind::Backoff(_) => u32::MAX,
            _ => threshold.seconds,
        };
        let passes = self.count(For::Threshold, threshold.track, (threshold.count, seconds), |counted| {
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
        });
        passes.unwrap_or(true)
    }

    /// Counts the match in its present time. `limit` is a number of matches and a number of seconds. Returns what `count` says of it;
    /// `None` without room.
    fn count(
        &mut self,
        what: For,
        track: Track,
        limit: (u32, u32),
        count: impl FnOnce(&mut Counted) -> bool,
    ) -> Option<bool> {
        let Judged { rule, moment, counts, .. } = self.judged;
        let key = ((rule.gid, rule.sid), what, limit, Whose::new(track, moment));
        let begun = Counted { since: moment.time, seconds: limit.1, count: 0, next: 0 };
        let all = &mut self.limits.counts;
        let known = all.get(&key).copied().filter(|counted| !counted.is_over(moment.time));
        let mut counted = known.unwrap_or(begun);
        let says = count(&mut counted);
        if *counts {
            if all.len() >= MAX_COUNTS && !all.contains_key(&key) {
                all.retain(|_, counted| !counted.is_over(moment.time));
                if all.len() >= MAX_COUNTS {
                    self.no_room = true;
                    return None;
                }
            }
            all.insert(key, counted);
        }
        Some(says)
    }
}
