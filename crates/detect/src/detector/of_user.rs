//! What the user's threshold.config says of a rule.

use super::Moment;
use crate::config::ThresholdLine;
use crate::header::Action;
use crate::rule::Rule;
use crate::sets::AddressSet;
use crate::state::{Threshold, Track};
use std::sync::Arc;

/// What a user wants of the alerts of a rule: the lines of threshold.config about it.
#[derive(Clone, Debug, Default)]
pub(super) struct OfUser {
    /// The threshold that takes the place of the rule's own.
    pub threshold: Option<Threshold>,
    /// Whether no match makes an alert.
    is_suppressed: bool,
    /// Matches with such addresses make no alert.
    suppressed: Vec<(Track, Arc<AddressSet>)>,
    /// Rules that match often make no alerts for a time.
    pub pauses: Vec<Pause>,
}

/// A `rate_filter` whose action is `pass`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pause {
    pub track: Track,
    pub count: u32,
    pub seconds: u32,
    /// The seconds that it lasts; 0: forever.
    pub lasts: u32,
}

impl OfUser {
    /// The lines about a rule. A threshold of all rules or of a group does not change a rule that has its own; one of a single rule
    /// does ("Global Thresholds" in the Suricata User Guide).
    pub fn new(lines: &[ThresholdLine], rule: &Rule) -> Self {
        let mut wanted = Self::default();
        let (mut of_rule, mut of_all) = (None, None);
        for line in lines {
            match line {
                ThresholdLine::Suppress { of, addresses } if of.has(rule.gid, rule.sid) => match addresses {
                    Some((track, addresses)) => wanted.suppressed.push((*track, Arc::clone(addresses))),
                    None => wanted.is_suppressed = true,
                },
                ThresholdLine::Threshold { of, is } if of.has(rule.gid, rule.sid) => match of.sid {
                    0 => of_all = Some(*is),
                    _ => of_rule = Some(*is),
                },
                // Nothing is blocked, so that only an action without alerts is another one.
                ThresholdLine::Rate { of, track, count, seconds, action: Action::Pass, lasts }
                    if of.has(rule.gid, rule.sid) =>
                {
                    wanted.pauses.push(Pause {
                        track: *track,
                        count: *count,
                        seconds: *seconds,
                        lasts: *lasts,
                    });
                }
                _ => {}
            }
        }
        wanted.threshold = of_rule.or(of_all.filter(|_| rule.threshold.is_none()));
        wanted
    }

    /// Whether a match makes no alert because of its addresses.
    pub fn suppresses(&self, moment: &Moment<'_>) -> bool {
        let (source, destination) = (moment.sender().0, moment.receiver().0);
        let has = |(track, addresses): &(Track, Arc<AddressSet>)| match track {
            Track::Source => addresses.has(source),
            Track::Destination => addresses.has(destination),
            _ => addresses.has(source) || addresses.has(destination),
        };
        self.is_suppressed || self.suppressed.iter().any(has)
    }
}
