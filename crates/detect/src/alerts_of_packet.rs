//! The alerts of a packet, of which a limit keeps the most important ones.

use crate::detector::Match;
use std::cmp::Reverse;

/// The most important alerts of a packet, or of the end of a flow, up to a limit. Each has what its owner knows of it.
///
/// The order is Suricata's (`packet-alert-max`): that in which rules are judged, which is by action, bits, priority, gid and sid; of one
/// rule the alert of the later transaction comes first. So it does not depend on when a rule matched within the packet.
#[derive(Debug)]
pub struct AlertsOfPacket<T> {
    most: usize,
    /// The most important one first.
    kept: Vec<(Match, T)>,
}

impl<T> AlertsOfPacket<T> {
    /// Keeps at most this number of alerts.
    pub fn new(most: u16) -> Self {
        Self { most: most.into(), kept: Vec::new() }
    }

    /// Takes an alert, with what `of_it` returns if there is room. Returns the alert that has no room: the
    /// least important of all.
    pub fn add(&mut self, found: Match, of_it: impl FnOnce() -> T) -> Option<Match> {
        let at = self.kept.partition_point(|(kept, _)| rank(kept) <= rank(&found));
        if at >= self.most {
            return Some(found);
        }
        let is_full = self.kept.len() == self.most;
        let dropped = if is_full { self.kept.pop().map(|(dropped, _)| dropped) } else { None };
        self.kept.insert(at, (found, of_it()));
        dropped
    }

    /// The alerts, which are taken, the most important one first.
    pub fn take(&mut self) -> impl Iterator<Item = (Match, T)> + '_ {
        self.kept.drain(..)
    }
}

/// The place of an alert in the order. Rules have the numbers of their order.
fn rank(found: &Match) -> (u32, Reverse<Option<u64>>) {
    (found.rule, Reverse(found.transaction))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::detector::MatchedIn;
    use weir_wire::Direction;

    fn found((rule, transaction): (u32, Option<u64>)) -> Match {
        Match {
            rule,
            transaction,
            direction: Direction::Forward,
            matched_in: MatchedIn::Transaction,
            protocol: 0,
        }
    }

    /// All orders of some alerts.
    fn orders(of: &[(u32, Option<u64>)]) -> Vec<Vec<(u32, Option<u64>)>> {
        if of.is_empty() {
            return vec![Vec::new()];
        }
        let begun_with = |at: usize| {
            let mut others = of.to_vec();
            let first = others.remove(at);
            orders(&others).into_iter().map(move |order| [vec![first], order].concat())
        };
        (0..of.len()).flat_map(begun_with).collect()
    }

    #[test]
    fn the_most_important_ones_are_kept_in_whatever_order_they_come() {
        let all = [(2, None), (7, Some(4)), (7, Some(3)), (7, None), (9, Some(4))];
        for most in 1..=6 {
            for order in orders(&all) {
                let mut alerts = AlertsOfPacket::new(most);
                let mut dropped: Vec<_> = order
                    .iter()
                    .filter_map(|one| alerts.add(found(*one), || *one))
                    .map(|found| (found.rule, found.transaction))
                    .collect();
                dropped.sort_by_key(|(rule, transaction)| (*rule, Reverse(*transaction)));
                let kept: Vec<_> = alerts
                    .take()
                    .map(|(found, of_it)| {
                        assert_eq!((found.rule, found.transaction), of_it);
                        of_it
                    })
                    .collect();
                let (expected, left) = all.split_at(all.len().min(most.into()));
                assert_eq!((&*kept, &*dropped), (expected, left), "{order:?}");
                assert_eq!(alerts.take().count(), 0);
            }
        }
    }

    #[test]
    fn equal_ones_stay_in_the_order_in_which_they_come() {
        let mut alerts = AlertsOfPacket::new(2);
        let dropped: Vec<bool> =
            (0..3).map(|number| alerts.add(found((1, None)), || number).is_some()).collect();
        assert_eq!(dropped, [false, false, true]);
        assert_eq!(alerts.take().map(|(_, number)| number).collect::<Vec<_>>(), [0, 1]);
    }
}
