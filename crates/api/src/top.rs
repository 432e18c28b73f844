//! Merges lists of the heaviest keys.
//!
//! Each row has a bound: the true count of its key is at least `count` and at most `count + error`. A key without a
//! row has at most [`Top::absent`]. A full list may have lost a key that another list has a row for; if only one of
//! two lists has a row, the row of the sum is therefore uncertain by the other list's `absent`.
//!
//! Merging is commutative. It is associative while the rows of the sum fit into `capacity`. Beyond that the lightest
//! rows are left out, which depends on the order; the bounds hold in every order.

use crate::rows::{Keyed, Limit, Rows};
use crate::{Count, KeyKind, Unit};
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// The subject of a row of a top list.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Key {
    /// An address.
    Address(IpAddr),
    /// Source and destination address.
    Pair(IpAddr, IpAddr),
    /// A five-tuple; ports are 0 where the protocol has none.
    Flow {
        /// Source address.
        source: IpAddr,
        /// Source port.
        source_port: u16,
        /// Destination address.
        destination: IpAddr,
        /// Destination port.
        destination_port: u16,
        /// IP protocol number.
        protocol: u8,
    },
    /// A port of an IP protocol.
    Port {
        /// IP protocol number.
        protocol: u8,
        /// Port.
        port: u16,
    },
    /// IP protocol number.
    Protocol(u8),
    /// VLAN identifier.
    Vlan(u16),
    /// A server's port and its peer.
    Talker {
        /// The responder.
        server: IpAddr,
        /// Its port.
        port: u16,
        /// The initiator.
        client: IpAddr,
        /// IP protocol number.
        protocol: u8,
    },
}

impl Key {
    /// The first 64 bits of the order of keys: of two keys with other prefixes the one with the lower prefix is lower.
    pub fn prefix(&self) -> u64 {
        /// Bits, the first one highest, and their number.
        type Bits = (u128, u32);
        fn address(address: IpAddr) -> Bits {
            // IPv4 is lower than IPv6.
            match address {
                IpAddr::V4(four) => (u128::from(four.to_bits()) << 95, 33),
                IpAddr::V6(six) => (1 << 127 | six.to_bits() >> 1, 128),
            }
        }
        fn port(port: u16) -> Bits {
            (u128::from(port) << 112, 16)
        }
        /// Each part stands after the bits of the parts before it.
        fn joined(parts: [Bits; 3]) -> u64 {
            let mut from = 0;
            let joined = parts.into_iter().fold(0, |joined, (bits, number)| {
                let placed = bits.checked_shr(from).unwrap_or(0);
                from += number;
                joined | placed
            });
            (joined >> 64) as u64
        }
        const NOTHING: Bits = (0, 0);
        let (kind, order) = match *self {
            Key::Address(one) => (0, joined([address(one), NOTHING, NOTHING])),
            Key::Pair(one, other) => (1, joined([address(one), address(other), NOTHING])),
            Key::Flow { source, source_port, destination, .. } => {
                (2, joined([address(source), port(source_port), address(destination)]))
            }
            Key::Port { protocol, port: of } => {
                (3, joined([(u128::from(protocol) << 120, 8), port(of), NOTHING]))
            }
            Key::Protocol(protocol) => (4, u64::from(protocol) << 56),
            Key::Vlan(vlan) => (5, u64::from(vlan) << 48),
            Key::Talker { server, port: of_server, client, .. } => {
                (6, joined([address(server), port(of_server), address(client)]))
            }
        };
        // The kind is decided first, in three bits.
        kind << 61 | order >> 3
    }
}

/// A list of the heaviest keys: exact while the distinct keys fit into `capacity`, else with bounds; see the module.
///
/// Rows have no order. [`Top::ranked`] selects those to show; this happens only after the merge.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Top {
    /// The kind of key.
    pub key: KeyKind,
    /// Number of rows to show.
    pub show: usize,
    /// The ranking unit.
    pub unit: Unit,
    /// Maximum number of rows.
    #[serde(skip)]
    pub capacity: usize,
    /// The rows.
    pub rows: Rows<TopRow>,
    /// Upper bound for a key without a row, in the list's unit; 0 when no key is missing.
    pub absent: u64,
    /// Number of inserts of keys without a row: new keys, and keys that were refused or displaced before. Far above
    /// `capacity` under a flood of random addresses. While the list is exact, it is the number of keys, for any number
    /// of workers. Otherwise a key that several workers have seen (a host, a port) may count once for each of them.
    pub inserts: u64,
    /// Counts of keys without a row.
    pub shed: Count,
}

/// A row of a top list.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
pub struct TopRow {
    /// The key.
    pub key: Key,
    /// Packets and bytes of the key.
    #[serde(flatten)]
    pub count: Count,
    /// Flows with the key.
    pub flows: u64,
    /// Upper bound of the undercount, in the list's unit; 0 when `count` is exact. The true value is never below
    /// `count`.
    pub error: u64,
}

impl Top {
    /// Whether every row is exact and no key is missing.
    pub fn is_exact(&self) -> bool {
        self.shed == Count::default() && self.rows.iter().all(|row| row.error == 0)
    }

    /// The most by which a row may be off, or a key without a row has, in the list's unit; 0 if the list is exact.
    pub fn bound(&self) -> u64 {
        self.rows.iter().map(|row| row.error).max().unwrap_or(0).max(self.absent)
    }

    /// The rows to show, heaviest first; rows of equal weight in the order of their keys.
    pub fn ranked(&self) -> Vec<TopRow> {
        self.rows.heaviest(self.show, |row| row.count.in_unit(self.unit)).into_iter().copied().collect()
    }

    /// Merges another list; see the module for the bounds of the sum.
    pub(crate) fn merge(&mut self, other: &Top) {
        let absent = (self.absent, other.absent);
        self.absent = self.absent.saturating_add(other.absent);
        self.shed.add(&other.shed);
        self.capacity = self.capacity.max(other.capacity);
        let limit = limit(self.capacity, self.unit, &mut self.shed, &mut self.absent);
        let both = self.rows.merge(&other.rows, absent, limit);
        // A key in both lists is one key, so that the sum does not depend on the number of workers.
        self.inserts = (self.inserts + other.inserts).saturating_sub(both as u64);
    }

    /// Reduces the list to `rows` rows: the heaviest. The rest is counted as shed.
    #[must_use]
    pub fn within(mut self, capacity: usize) -> Self {
        self.capacity = capacity;
        self.trim();
        self
    }

    /// Keeps the heaviest `capacity` rows; removed rows are counted as shed.
    fn trim(&mut self) {
        self.rows.trim(limit(self.capacity, self.unit, &mut self.shed, &mut self.absent));
    }
}

/// The heaviest `capacity` rows; rows that leave are counted as shed.
fn limit<'t>(
    capacity: usize,
    unit: Unit,
    shed: &'t mut Count,
    absent: &'t mut u64,
) -> Limit<impl Fn(&TopRow) -> u64, impl FnMut(&TopRow, u64) + 't> {
    let removed = |row: &TopRow, weight: u64| {
        shed.add(&row.count);
        *absent = (*absent).max(weight.saturating_add(row.error));
    };
    Limit { capacity, weight: move |row: &TopRow| row.count.in_unit(unit), removed }
}

impl Keyed for TopRow {
    type Key = Key;

    fn key(&self) -> &Key {
        &self.key
    }

    fn prefix(&self) -> u64 {
        self.key.prefix()
    }

    fn merge(&mut self, other: &Self) {
        self.count.add(&other.count);
        self.flows += other.flows;
        self.add_error(other.error);
    }

    fn add_error(&mut self, absent: u64) {
        self.error = self.error.saturating_add(absent);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::cmp::Reverse;
    use std::collections::BTreeMap;

    fn ip() -> impl Strategy<Value = IpAddr> {
        // Few values in few places, so that parts are equal or nearly so.
        let bytes = || proptest::sample::select(vec![0_u8, 1, 2, 127, 128, 254, 255]);
        let four = (bytes(), bytes()).prop_map(|(a, b)| IpAddr::from([a, 0, 0, b]));
        let six = (bytes(), 0..16_usize, bytes()).prop_map(|(a, at, b)| {
            let mut six = [0; 16];
            six[0] = a;
            six[at] = b;
            IpAddr::from(six)
        });
        prop_oneof![four, six]
    }

    fn key() -> impl Strategy<Value = Key> {
        let number = || prop_oneof![Just(0_u16), Just(1), Just(255), Just(256), Just(u16::MAX)];
        let part = || (ip(), number(), ip(), number(), proptest::sample::select(vec![0_u8, 6, 17, 255]));
        (0..7_u8, part()).prop_map(|(kind, part)| {
            let (source, source_port, destination, destination_port, protocol) = part;
            match kind {
                0 => Key::Address(source),
                1 => Key::Pair(source, destination),
                2 => Key::Flow { source, source_port, destination, destination_port, protocol },
                3 => Key::Port { protocol, port: source_port },
                4 => Key::Protocol(protocol),
                5 => Key::Vlan(source_port),
                _ => Key::Talker { server: source, port: source_port, client: destination, protocol },
            }
        })
    }

    fn row(v: u16, bytes: u64, error: u64) -> TopRow {
        TopRow { key: Key::Vlan(v), count: Count { packets: 1, bytes }, flows: 1, error }
    }

    fn list(capacity: usize, absent: u64, rows: Vec<TopRow>) -> Top {
        let (key, unit, shed) = (KeyKind::Vlan, Unit::Bytes, Count { packets: 0, bytes: absent });
        let inserts = rows.len() as u64;
        Top { key, show: 2, unit, capacity, rows: rows.into(), absent, inserts, shed }
    }

    proptest! {
        #[test]
        fn prefixes_of_keys_have_the_order_of_the_keys(one in key(), other in key()) {
            prop_assert!(one.prefix() == other.prefix() || one.prefix().cmp(&other.prefix()) == one.cmp(&other));
        }

        #[test]
        fn a_trimmed_list_has_the_first_rows_of_the_ranking(weights in prop::collection::vec(0..20_u64, 0..60), capacity in 0..40_usize) {
            let rows: Vec<TopRow> = weights.iter().zip(0..).map(|(bytes, v)| row(v, *bytes, bytes % 3)).collect();
            let whole = list(100, 7, rows.clone());
            let mut ranked = rows;
            ranked.sort_by_key(|row| (Reverse(row.count.bytes), row.key));
            for show in [0, 1, 7, ranked.len()] {
                let shown: Vec<TopRow> = ranked.iter().take(show).copied().collect();
                prop_assert_eq!(Top { show, ..whole.clone() }.ranked(), shown);
            }
            let shed = whole.shed.bytes;
            let removed = ranked.split_off(capacity.min(ranked.len()));
            let trimmed = whole.within(capacity);
            prop_assert_eq!(&trimmed.rows, &Rows::from(ranked));
            let bytes: u64 = removed.iter().map(|row| row.count.bytes).sum();
            prop_assert_eq!(trimmed.shed.bytes, shed + bytes);
            let heaviest = removed.iter().map(|row| row.count.bytes + row.error).max().unwrap_or(0);
            prop_assert_eq!(trimmed.absent, heaviest.max(7));
        }
    }

    #[test]
    fn a_trimmed_list_keeps_the_heaviest_and_counts_the_rest() {
        let mut a = list(3, 0, vec![row(1, 10, 0), row(2, 50, 0)]);
        a.merge(&list(3, 0, vec![row(1, 5, 0), row(3, 70, 0), row(4, 1, 0)]));
        assert_eq!(a.rows.by_key().iter().map(|r| r.count.bytes).collect::<Vec<_>>(), [15, 50, 70]);
        assert_eq!((a.shed, a.absent), (Count { packets: 1, bytes: 1 }, 1));
        assert_eq!(a.ranked().iter().map(|r| r.key).collect::<Vec<_>>(), [Key::Vlan(3), Key::Vlan(2)]);
        assert!(!a.is_exact());
    }

    #[test]
    fn a_key_missing_in_one_list_is_uncertain_by_its_absent_bound() {
        let mut a = list(9, 7, vec![row(1, 10, 1), row(2, 50, 0)]);
        a.merge(&list(9, 100, vec![row(1, 5, 2), row(3, 70, 3)]));
        let errors: Vec<u64> = a.rows.by_key().iter().map(|row| row.error).collect();
        assert_eq!((errors, a.absent), (vec![3, 100, 10], 107));
    }

    /// The true counts, and a list that is correct about them: some rows are missing, some undercount.
    fn lists() -> impl Strategy<Value = (BTreeMap<u16, u64>, Top)> {
        let entry = (0_u64..1000, any::<bool>(), 0_u64..50);
        (proptest::collection::btree_map(0_u16..40, entry, 0..30), 0_u64..20).prop_map(|(entries, slack)| {
            let truth = entries.iter().map(|(key, (n, ..))| (*key, *n)).collect();
            let rows: Vec<TopRow> = entries
                .iter()
                .filter(|(_, (_, known, _))| *known)
                .map(|(key, (n, _, error))| row(*key, n.saturating_sub(*error), *error))
                .collect();
            let missing = entries.values().filter(|(_, known, _)| !known).map(|(n, ..)| *n).max();
            let absent = missing.map_or(0, |max| max + slack);
            (truth, list(1000, absent, rows))
        })
    }

    fn sum(parts: &[&Top]) -> Top {
        let (first, rest) = parts.split_first().unwrap();
        let mut sum = (*first).clone();
        rest.iter().for_each(|part| sum.merge(part));
        sum
    }

    fn is_right(top: &Top, truth: &BTreeMap<u16, u64>) -> Result<(), TestCaseError> {
        for (key, n) in truth {
            match top.rows.iter().find(|row| row.key == Key::Vlan(*key)) {
                Some(row) => {
                    prop_assert!(row.count.bytes <= *n && *n <= row.count.bytes + row.error, "{row:?} {n}");
                }
                None => prop_assert!(*n <= top.absent, "key {key} had {n}, not {} at most", top.absent),
            }
        }
        Ok(())
    }

    proptest! {
        #[test]
        fn merging_exact_lists_is_commutative_associative_and_exact(
            (t, a) in lists(), (u, b) in lists(), (v, c) in lists()
        ) {
            let mut truth = t;
            u.iter().chain(&v).for_each(|(key, n)| *truth.entry(*key).or_insert(0) += n);
            let whole = sum(&[&a, &b, &c]);
            is_right(&whole, &truth)?;
            prop_assert_eq!(&sum(&[&a, &b]), &sum(&[&b, &a]));
            prop_assert_eq!(&sum(&[&a, &sum(&[&b, &c])]), &whole);
            prop_assert_eq!(&sum(&[&c, &a, &b]), &whole);
            let nothing = list(1000, 0, Vec::new());
            prop_assert_eq!(&sum(&[&nothing, &a]), &a);
            prop_assert_eq!(&sum(&[&a, &nothing]), &a);
        }

        #[test]
        fn bounds_hold_in_every_order_when_rows_are_left_out(
            parts in proptest::collection::vec(lists(), 1..6), capacity in 0_usize..12, turn in 0_usize..6
        ) {
            let mut truth = BTreeMap::new();
            for (part, _) in &parts {
                part.iter().for_each(|(key, n)| *truth.entry(*key).or_insert(0) += n);
            }
            let mut tops: Vec<Top> = parts.into_iter().map(|(_, top)| Top { capacity, ..top }).collect();
            tops.iter_mut().for_each(Top::trim);
            let n = tops.len();
            tops.rotate_left(turn % n);
            // From left to right, and as a tree.
            is_right(&sum(&tops.iter().collect::<Vec<_>>()), &truth)?;
            let (left, right) = tops.split_at(n / 2);
            if !left.is_empty() {
                let halves = [left, right].map(|half| sum(&half.iter().collect::<Vec<_>>()));
                let total = sum(&[&halves[0], &halves[1]]);
                is_right(&total, &truth)?;
                prop_assert!(total.rows.len() <= capacity);
            }
        }
    }
}
