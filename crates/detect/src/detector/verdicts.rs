//! What becomes of the verdicts of rules, and what of a flow is looked at.

use super::fitting::matches_once;
use super::flow_state::FlowState;
use super::{Detector, MatchedIn, Moment};
use crate::header::Action;
use crate::judging::{Judging, Midstream};
use crate::rule::Rule;

impl Detector {
    /// Bytes of the stream of a side that are looked at together.
    pub(super) fn window(&self, side: usize) -> usize {
        self.judging.windows.get(side).copied().unwrap_or(Judging::WINDOW)
    }

    /// Whether streams and messages of a flow are looked at.
    pub(super) fn reads(&self, state: &FlowState, moment: &Moment<'_>) -> bool {
        let scope = state.scope(moment.ip_proto == 6, &self.judging);
        !state.is_over(self.number) && matches!(scope, Midstream::Whole | Midstream::Established)
    }

    /// Carries out the action of a rule that matches.
    pub(super) fn carry_out(&mut self, rule: &Rule, state: &mut FlowState, matched_in: MatchedIn) {
        // A rule of addresses or of an application is about the flow.
        let is_of_flow = matched_in != MatchedIn::Packet
            || matches_once(rule)
            || self.judging.carries_out() && is_of_header(rule);
        match rule.header.action {
            Action::Pass if is_of_flow => state.is_passed = true,
            Action::Pass => self.is_packet_passed = true,
            Action::Alert => {}
            Action::Drop | Action::Reject | Action::RejectDestination | Action::RejectBoth => {
                if is_of_flow && self.judging.carries_out() {
                    state.drop_at(self.number);
                }
            }
        }
    }
}

/// Whether a rule asks for nothing but its header: for Suricata it is about the flow then, whatever its protocol.
fn is_of_header(rule: &Rule) -> bool {
    rule.buffers.is_empty()
        && rule.conditions.is_empty()
        && rule.flow.side.is_none()
        && rule.flow.is_established.is_none()
}
