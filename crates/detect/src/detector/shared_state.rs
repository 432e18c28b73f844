//! What rules remember beyond a flow, for all workers of a run: counts of thresholds, and bits of hosts.
//!
//! Flows of one host may be read by several workers. Where packets have an order, a worker waits for its turn before it looks at this
//! state, so that a run gives equal alerts with any number of workers.

use super::Moment;
use super::hosts::Of;
use super::limits::{Judged, Judgement, Limits};
use crate::rule::Rule;
use crate::state::{BitAction, HostBits};
use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::{Mutex, MutexGuard, PoisonError};
use weir_wire::Time;

/// Maximum number of bits of hosts. Where there is no room, a bit is not set.
const MAX_BITS: usize = 1 << 16;

/// The order of the packets of all workers.
pub trait Turn: Debug + Send + Sync {
    /// Waits until all workers have taken their packets before the one of this number, which is read now; without one, until they have come as far
    /// as this worker has.
    fn wait(&self, packet: Option<u32>);
}

/// What rules remember beyond a flow.
#[derive(Debug, Default)]
pub struct SharedState {
    limits: Mutex<Limits>,
    bits: Mutex<Bits>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Each change is a single one, so that a panic leaves the state whole.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl SharedState {
    pub(super) fn judge(&self, judged: &Judged<'_>) -> Judgement {
        lock(&self.limits).judge(judged)
    }

    /// Whether the bits of hosts are as a rule wants them.
    pub(super) fn bits_hold(&self, rule: &Rule, moment: &Moment<'_>) -> bool {
        let bits = lock(&self.bits);
        rule.host_bits.iter().all(|bit| match bit.action {
            BitAction::IsSet => bits.is_set(bit, moment),
            BitAction::IsNotSet => !bits.is_set(bit, moment),
            BitAction::Set | BitAction::Unset | BitAction::Toggle => true,
        })
    }

    /// Changes the bits of hosts as a rule wants when it matches. Returns whether there was room.
    pub(super) fn change_bits(&self, rule: &Rule, moment: &Moment<'_>) -> bool {
        let mut bits = lock(&self.bits);
        rule.host_bits.iter().fold(true, |had_room, bit| {
            let sets = match bit.action {
                BitAction::Set => true,
                BitAction::Unset => false,
                BitAction::Toggle => !bits.is_set(bit, moment),
                BitAction::IsSet | BitAction::IsNotSet => return had_room,
            };
            bits.change(bit, moment, sets) && had_room
        })
    }
}

/// Bits of hosts, each with the time at which it is cleared.
#[derive(Debug, Default)]
struct Bits {
    of: HashMap<Of, Vec<(Box<str>, Time)>>,
    number: usize,
}

impl Bits {
    fn is_set(&self, bit: &HostBits, moment: &Moment<'_>) -> bool {
        let of = self.of.get(&Of::of_bit(bit.of, moment));
        of.into_iter().flatten().any(|(name, until)| *name == bit.name && moment.time < *until)
    }

    /// Sets or clears a bit. Returns whether there was room.
    fn change(&mut self, bit: &HostBits, moment: &Moment<'_>, sets: bool) -> bool {
        if sets && self.number >= MAX_BITS {
            self.forget(moment.time);
        }
        let key = Of::of_bit(bit.of, moment);
        let of = self.of.entry(key).or_default();
        let before = of.len();
        of.retain(|(name, until)| *name != bit.name && moment.time < *until);
        self.number -= before - of.len();
        let has_room = !sets || self.number < MAX_BITS;
        if sets && has_room {
            of.push((bit.name.clone(), Time(moment.time.0 + u64::from(bit.expires) * 1_000_000_000)));
            self.number += 1;
        }
        if of.is_empty() {
            self.of.remove(&key);
        }
        has_room
    }

    /// Forgets what was cleared by now.
    fn forget(&mut self, now: Time) {
        for of in self.of.values_mut() {
            of.retain(|(_, until)| now < *until);
        }
        self.of.retain(|_, of| !of.is_empty());
        self.number = self.of.values().map(Vec::len).sum();
    }
}
