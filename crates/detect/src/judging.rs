//! How verdicts of rules are carried out, and what of flows is looked at.

use crate::header::Action;

/// What becomes of the verdicts of rules: of `drop`, `reject` and `pass`.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Verdicts {
    /// `drop` and `reject` make alerts like any other; `pass` ends the alerts of its packet or flow, and makes none.
    #[default]
    Watched,
    /// As Suricata does where it only watches: a rule that would drop a flow ends the alerts of its later packets, and `pass` makes an
    /// alert if it has the keyword `alert`.
    Passive,
    /// As [`Verdicts::Passive`], and alerts of `drop` and `reject` say that they have blocked.
    Inline,
}

/// What rules look at of a flow of TCP that begins without a SYN.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Midstream {
    /// Everything. It is not established.
    #[default]
    Whole,
    /// Everything. It is established from its first packet on.
    Established,
    /// Its packets alone: no stream, no messages, and no protocol.
    Packets,
    /// Nothing.
    Nothing,
}

/// The order in which actions are judged, as a rank of each.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ActionOrder([u8; Action::NUMBER]);

impl Default for ActionOrder {
    fn default() -> Self {
        Self::new([Action::Pass, Action::Drop, Action::Reject, Action::Alert])
    }
}

impl ActionOrder {
    /// The order of four actions, the first one first. [`Action::Reject`] stands for each action that refuses.
    pub fn new(order: [Action; 4]) -> Self {
        let mut ranks = [0; Action::NUMBER];
        for (rank, action) in (0..).zip(order) {
            let of_it: &[Action] = match action {
                Action::Reject => &[Action::Reject, Action::RejectDestination, Action::RejectBoth],
                _ => &[action],
            };
            for (within, one) in (0..).zip(of_it) {
                if let Some(place) = ranks.get_mut(*one as usize) {
                    *place = 4 * rank + within;
                }
            }
        }
        Self(ranks)
    }

    /// The rank of an action.
    pub(crate) fn rank(&self, action: Action) -> u8 {
        self.0.get(action as usize).copied().unwrap_or_default()
    }
}

/// How flows are judged. The default is that of a run without a configuration of Suricata.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Judging {
    /// What becomes of verdicts.
    pub verdicts: Verdicts,
    /// The order of actions. It counts when a [`Program`](crate::Program) is made.
    pub order: ActionOrder,
    /// What is looked at of flows of TCP without a SYN.
    pub midstream: Midstream,
    /// Whether a flow of TCP is established when its initiator goes on after its SYN without an answer.
    pub is_oneside: bool,
    /// Whether streams are looked at with each segment, and not only when a window is full or the other side answers.
    pub each_segment: bool,
    /// Bytes of a side of a stream that are looked at.
    pub depth: u64,
    /// Bytes of a stream that are looked at together, of the client and of the server.
    pub windows: [usize; 2],
    /// Bytes of a body of HTTP that are looked at, of the client and of the server.
    pub bodies: [usize; 2],
    /// Maximum number of alerts of a packet, of which the most important ones are kept; `None`: no limit. Who takes the matches of a
    /// detector keeps it, by [`AlertsOfPacket`](crate::AlertsOfPacket).
    pub alerts_per_packet: Option<u16>,
}

impl Judging {
    /// Bytes of a body that are looked at by default, Suricata's limit.
    pub const BODY: usize = 100 << 10;
    /// Bytes of a stream that are looked at together by default, as in Suricata.
    pub const WINDOW: usize = 2_560;
    /// Bytes of a side of a stream that are looked at by default, as in Suricata.
    pub const DEPTH: u64 = 1 << 20;

    /// Whether verdicts are carried out.
    pub(crate) fn carries_out(&self) -> bool {
        self.verdicts != Verdicts::Watched
    }
}

impl Default for Judging {
    fn default() -> Self {
        Self {
            verdicts: Verdicts::default(),
            order: ActionOrder::default(),
            midstream: Midstream::default(),
            is_oneside: false,
            each_segment: false,
            depth: Self::DEPTH,
            windows: [Self::WINDOW; 2],
            bodies: [Self::BODY; 2],
            alerts_per_packet: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn actions_have_the_order_that_is_given() {
        let ranked = |order: ActionOrder| {
            let mut actions = [
                Action::Alert,
                Action::RejectBoth,
                Action::Drop,
                Action::RejectDestination,
                Action::Pass,
                Action::Reject,
            ];
            actions.sort_by_key(|action| order.rank(*action));
            actions
        };
        let rejects = [Action::Reject, Action::RejectDestination, Action::RejectBoth];
        let [first, second, third] = rejects;
        assert_eq!(
            ranked(ActionOrder::default()),
            [Action::Pass, Action::Drop, first, second, third, Action::Alert]
        );
        let order = ActionOrder::new([Action::Alert, Action::Reject, Action::Drop, Action::Pass]);
        assert_eq!(ranked(order), [Action::Alert, first, second, third, Action::Drop, Action::Pass]);
    }
}
