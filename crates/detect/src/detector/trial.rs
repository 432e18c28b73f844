//! Trials of rules: how each ended and what it cost, for those who write rules. A run that does not ask for it keeps none.

use super::{MatchedIn, Moment};
use foldhash::HashSet;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use weir_wire::{Direction, Time};

/// How a trial of a part of a rule ended: what failed first. Positions are those of the lists of [`Rule`](crate::Rule).
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum TrialEnd {
    /// The header of the rule is not that of the flow.
    Header(HeaderPart),
    /// The flow does not have the protocol of the rule, or not yet.
    Protocol,
    /// The flow is established, or is not, as the rule does not want it.
    Established,
    /// A rule lets the packet or the flow pass.
    Passed,
    /// The rule matches once for a side of a flow, and has.
    Done,
    /// A buffer of [`Rule::buffers`](crate::Rule::buffers) is not there.
    Missing(u16),
    /// A test of a buffer failed, and none after it was reached.
    Test {
        /// The buffer, in [`Rule::buffers`](crate::Rule::buffers).
        buffer: u16,
        /// The test, in its tests.
        test: u16,
        /// Whether a limit of steps ended the work.
        gave_up: bool,
    },
    /// What lies in a window of a stream was found in the one before.
    FoundBefore,
    /// A place in a stream is asked for that lies before this window.
    LaterWindow,
    /// Other parts of the rule have yet to hold.
    Waits,
    /// A condition failed, in [`Rule::conditions`](crate::Rule::conditions).
    Condition(u16),
    /// The packet was put together from fragments, or was not, as the rule does not want it.
    Fragments,
    /// Bits of the flow are not as the rule wants, in [`Rule::flow_bits`](crate::Rule::flow_bits).
    FlowBits(u16),
    /// Numbers of the flow are not as the rule wants, in [`Rule::flow_ints`](crate::Rule::flow_ints).
    FlowInts(u16),
    /// Bits of hosts are not as the rule wants.
    HostBits,
    /// The flow has no room to remember a match.
    NoRoom,
    /// The rule matched, and makes no alert: `noalert`.
    Silent,
    /// The rule matched, and lets the packet or the flow pass.
    Passes,
    /// The rule matched, and a threshold, a filter, the user's suppression or more important alerts of the packet keep back the alert.
    Limited,
    /// The rule matched, and makes an alert.
    Alert,
}

impl TrialEnd {
    /// Whether the rule matched.
    pub fn is_match(self) -> bool {
        matches!(self, Self::Silent | Self::Passes | Self::Limited | Self::Alert)
    }
}

/// A part of a header.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum HeaderPart {
    /// The protocol of IP.
    Protocol,
    /// The addresses.
    Addresses,
    /// The ports.
    Ports,
}

/// The flow and the side of a trial.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct TrialFlow {
    /// Address and port of the initiator.
    pub initiator: (IpAddr, u16),
    /// Address and port of the responder.
    pub responder: (IpAddr, u16),
    /// Protocol number of IP.
    pub ip_proto: u8,
    /// When the flow began.
    pub first: Time,
}

/// A trial of a part of a rule.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Trial {
    /// The flow.
    pub flow: TrialFlow,
    /// The side that sent what was looked at.
    pub side: Direction,
    /// The time.
    pub time: Time,
    /// The number of the packet that was read, from 1; `None` at the end of a flow.
    pub packet: Option<u32>,
    /// The number of the transaction, if one was looked at.
    pub transaction: Option<u64>,
    /// What was looked at.
    pub looked_at: MatchedIn,
    /// How it ended.
    pub end: TrialEnd,
}

/// What trials of a rule cost.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct RuleCost {
    /// Parts that a search found, or that no search finds.
    pub found: u64,
    /// Of these, those whose tests were tried: the header fits, and the state of the flow.
    pub verified: u64,
    /// Of these, those whose tests held.
    pub held: u64,
    /// Matches of the rule.
    pub matched: u64,
    /// Nanoseconds for the tests.
    pub nanoseconds: u64,
}

impl RuleCost {
    /// Adds another one.
    pub fn add(&mut self, other: &Self) {
        self.found += other.found;
        self.verified += other.verified;
        self.held += other.held;
        self.matched += other.matched;
        self.nanoseconds += other.nanoseconds;
    }
}

/// Maximum number of trials that are kept, and of flows whose header is explained. Further ones are counted.
const MAX_KEPT: usize = 1 << 18;

/// The trials of a rule.
#[derive(Debug, Default)]
pub struct Trials {
    /// In the order in which they were made.
    pub trials: Vec<Trial>,
    /// Trials that had no room.
    pub not_kept: u64,
    /// The flows that the header of the rule fits, from either side.
    pub fitting: HashSet<TrialFlow>,
    others: HashSet<TrialFlow>,
}

/// Reads a monotonic clock, in nanoseconds.
pub type Clock = fn() -> u64;

/// Who looks on while rules are tried. Clones share what they keep.
#[derive(Clone, Debug)]
pub enum Onlooker {
    /// Keeps the trials of the rule with this position in [`Program::rules`](super::Program::rules).
    Of(u32, Arc<Mutex<Trials>>),
    /// Adds up what each rule costs, by its position.
    Costs(Clock, Arc<Mutex<Vec<RuleCost>>>),
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    // A worker that panicked left whole values.
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Onlooker {
    /// Keeps the trials of a rule.
    pub fn of(rule: u32) -> Self {
        Self::Of(rule, Arc::default())
    }

    /// Adds up what each rule costs.
    pub fn costs(clock: Clock) -> Self {
        Self::Costs(clock, Arc::default())
    }

    /// The trials so far, which are taken; none if costs are added up.
    pub fn take_trials(&self) -> Trials {
        match self {
            Self::Of(_, trials) => std::mem::take(&mut lock(trials)),
            Self::Costs(..) => Trials::default(),
        }
    }

    /// The costs of detectors that have ended, by the positions of rules; none if trials are kept.
    pub fn take_costs(&self) -> Vec<RuleCost> {
        match self {
            Self::Of(..) => Vec::new(),
            Self::Costs(_, costs) => std::mem::take(&mut lock(costs)),
        }
    }
}

/// What a detector keeps for who looks on.
#[derive(Debug, Default)]
pub(super) struct Watching {
    onlooker: Option<Onlooker>,
    /// Costs that were not handed over yet.
    costs: Vec<RuleCost>,
    /// What failed last.
    pub failure: Option<TrialEnd>,
}

impl Watching {
    pub fn by(onlooker: Option<Onlooker>) -> Self {
        let mut watching = Self::default();
        watching.onlooker = onlooker;
        watching
    }

    /// The rule whose trials are kept.
    pub fn rule(&self) -> Option<u32> {
        match self.onlooker {
            Some(Onlooker::Of(rule, _)) => Some(rule),
            _ => None,
        }
    }

    /// Keeps a trial of a rule, if anyone wants it.
    pub fn keep(&self, rule: u32, trial: impl FnOnce() -> Trial) {
        let Some(Onlooker::Of(wanted, trials)) = &self.onlooker else { return };
        if *wanted != rule {
            return;
        }
        let mut trials = lock(trials);
        match trials.trials.len() < MAX_KEPT {
            true => trials.trials.push(trial()),
            false => trials.not_kept += 1,
        }
    }

    /// The latest trial of a rule that made an alert and `is_it` makes none, if anyone keeps it.
    pub fn keep_back(&self, rule: u32, is_it: impl Fn(&Trial) -> bool) {
        let Some(Onlooker::Of(wanted, trials)) = &self.onlooker else { return };
        if *wanted != rule {
            return;
        }
        let mut trials = lock(trials);
        let mut latest = trials.trials.iter_mut().rev();
        if let Some(trial) = latest.find(|trial| trial.end == TrialEnd::Alert && is_it(trial)) {
            trial.end = TrialEnd::Limited;
        }
    }

    /// Keeps for each flow why the header of the rule is not the flow's. `differs` says what of the header of a rule is not the flow's,
    /// from either side.
    pub fn explain_header(
        &self,
        moment: &Moment<'_>,
        packet: Option<u32>,
        differs: impl FnOnce(u32) -> Option<HeaderPart>,
    ) {
        let Some(Onlooker::Of(number, trials)) = &self.onlooker else { return };
        let flow = flow_of(moment);
        let mut trials = lock(trials);
        let flows = trials.fitting.len() + trials.others.len();
        if flows >= MAX_KEPT || trials.fitting.contains(&flow) || trials.others.contains(&flow) {
            return;
        }
        let Some(part) = differs(*number) else {
            trials.fitting.insert(flow);
            return;
        };
        trials.others.insert(flow);
        let end = TrialEnd::Header(part);
        trials.trials.push(Trial {
            flow,
            side: moment.direction,
            time: moment.time,
            packet,
            transaction: None,
            looked_at: MatchedIn::Packet,
            end,
        });
    }

    /// The costs of a rule, if they are added up.
    pub fn cost(&mut self, rule: u32) -> Option<(&mut RuleCost, Clock)> {
        let Some(Onlooker::Costs(clock, _)) = &self.onlooker else { return None };
        let rule = rule as usize;
        if self.costs.len() <= rule {
            self.costs.resize(rule + 1, RuleCost::default());
        }
        Some((self.costs.get_mut(rule)?, *clock))
    }

    fn hand_over(&mut self) {
        if let Some(Onlooker::Costs(_, costs)) = &self.onlooker {
            let mut costs = lock(costs);
            if costs.len() < self.costs.len() {
                costs.resize(self.costs.len(), RuleCost::default());
            }
            costs.iter_mut().zip(&self.costs).for_each(|(sum, own)| sum.add(own));
        }
        self.costs.clear();
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.hand_over();
    }
}

/// The flow of a moment.
pub(super) fn flow_of(moment: &Moment<'_>) -> TrialFlow {
    let Moment { initiator, responder, ip_proto, first, .. } = *moment;
    TrialFlow { initiator, responder, ip_proto, first }
}
