//! The parts of rules: what must be in messages of one side, in a stream, or in a packet, and events.

use super::about::About;
use super::handle::At;
use super::of_user::OfUser;
use super::prepared::Prepared;
use crate::rule::{BufferTests, Rule};
use crate::ruleset::LoadedRule;
use crate::state::BitAction;
use std::sync::Arc;

/// A part of a rule.
#[derive(Debug)]
pub(super) struct Part {
    /// The position of its rule in [`Program::rules`].
    pub rule: u32,
    pub about: About,
    /// The positions of its tests in [`Rule::buffers`].
    pub tests: Arc<[u16]>,
    /// The position in [`Rule::buffers`] of the buffer that it is found in, if one must be there.
    pub found_in: Option<u16>,
    /// The literal that finds it, if one does.
    pub literal: Option<At>,
}

/// Parts of a program that are found in one place.
#[derive(Clone, Copy)]
pub(super) struct FoundHere<'p> {
    pub rules: &'p [ProgramRule],
    pub parts: &'p [Part],
    /// Their numbers, in order.
    pub numbers: &'p [u32],
}

/// A rule of the program.
#[derive(Debug)]
pub struct ProgramRule {
    /// The rule, and where it is.
    pub loaded: LoadedRule,
    /// What its class says; the name of its class if it is unknown, "" without one.
    pub category: Arc<str>,
    /// Its priority: its own, that of its class, or 3.
    pub severity: u8,
    /// Its place among others: see [`Program::rules`].
    pub(super) order: u128,
    /// Number of its parts.
    pub(super) parts: u8,
    /// Whether its packets and its streams are both looked at: either is enough.
    pub(super) is_alternative: bool,
    /// The protocol that the flow must have, as its place in [`PROTOCOLS`] from 1.
    pub(super) protocol: Option<u8>,
    /// Numbers of the flow's bits that it tests and that it changes.
    pub(super) bits: Box<[(BitAction, Box<[u32]>)]>,
    /// What the user wants of its alerts.
    pub(super) of_user: OfUser,
    /// The position in [`Rule::buffers`] of the tests of what it decodes.
    pub(super) decoded: Option<u16>,
    /// What does not depend on other rules.
    pub(super) prepared: Arc<Prepared>,
}

impl ProgramRule {
    /// The rule.
    pub fn rule(&self) -> &Rule {
        &self.loaded.rule
    }

    /// The tests of what it decodes.
    pub(super) fn decoded(&self) -> Option<&BufferTests> {
        self.loaded.rule.buffers.get(usize::from(self.decoded?))
    }
}
