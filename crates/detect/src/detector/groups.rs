//! Which parts of rules payload is searched for, by the ports of its flow.
//!
//! A rule for one port is not searched for in flows of other ports: a flow has the parts whose ports fit, in one search. Ports
//! fall into classes that no rule tells apart; flows of equal classes share what they have. It is made when the first of them
//! comes, since most pairs of classes never do.

use super::part::{FoundHere, Part, ProgramRule};
use super::view::{Searched, View};
use crate::header::{Header, Way};
use crate::sets::PortSet;
use foldhash::HashMap;
use std::sync::{Arc, PoisonError, RwLock};
use weir_wire::Direction;

/// Maximum number of groups that are made for one kind of packets. Flows beyond have the parts of all ports.
const MAX_GROUPS: usize = 256;
/// Maximum number of pairs of ports whose group a worker remembers.
const MAX_PAIRS: usize = 1 << 16;

/// What payload of flows is searched for.
#[derive(Debug)]
pub(super) struct Group {
    /// In packets.
    pub packets: Vec<View>,
    /// In streams.
    pub streams: Vec<View>,
}

/// The ports of a rule's header.
#[derive(Debug, Eq, Hash, PartialEq)]
struct Ports {
    from: Arc<PortSet>,
    to: Arc<PortSet>,
    /// Whether packets may go the other way, too.
    is_both_ways: bool,
}

impl Ports {
    fn have(&self, from: u16, to: u16) -> bool {
        let goes = |from, to| self.from.has(from) && self.to.has(to);
        goes(from, to) || self.is_both_ways && goes(to, from)
    }
}

/// The parts whose rules have equal ports.
#[derive(Debug, Default)]
struct Bucket {
    packets: Vec<u32>,
    streams: Vec<u32>,
}

/// The groups of one kind of packets, from one side of their flows.
#[derive(Debug)]
pub(super) struct Groups {
    buckets: Vec<(Ports, Bucket)>,
    /// The first port of each class, in order.
    classes: Box<[u16]>,
    /// Whether literals are searched for, and parts kept apart by ports.
    searches: bool,
    /// The groups that were made, by their buckets.
    made: RwLock<HashMap<Box<[u32]>, Arc<Group>>>,
    /// Literals of groups of the program before.
    before: Vec<Arc<Searched>>,
}

/// The groups of one kind of packets while they are collected.
#[derive(Debug, Default)]
pub(super) struct Collected {
    buckets: HashMap<Ports, Bucket>,
}

impl Collected {
    /// Adds a part that is found in streams, or else in packets. `is_both_ways` says that the rule looks at both sides.
    pub fn add(&mut self, header: &Header, is_both_ways: bool, is_stream: bool, part: u32) {
        let ports = Ports {
            from: Arc::clone(&header.source.ports),
            to: Arc::clone(&header.destination.ports),
            is_both_ways: is_both_ways || header.way != Way::Forward,
        };
        let bucket = self.buckets.entry(ports).or_default();
        if is_stream { &mut bucket.streams } else { &mut bucket.packets }.push(part);
    }

    /// The groups. Without `searches` every flow has all parts. `before` are literals of groups of the program before.
    pub fn groups(self, searches: bool, before: Vec<Arc<Searched>>) -> Groups {
        let mut buckets: Vec<(Ports, Bucket)> = self.buckets.into_iter().collect();
        // The order of a map is none.
        buckets.sort_by(|(_, left), (_, right)| {
            (&left.packets, &left.streams).cmp(&(&right.packets, &right.streams))
        });
        let classes = starts(buckets.iter().flat_map(|(ports, _)| [&*ports.from, &*ports.to]));
        Groups { buckets, classes, searches, made: RwLock::default(), before }
    }
}

/// Divides all ports where a range of a set begins or ends: no set tells ports between two such places apart.
fn starts<'a>(sets: impl Iterator<Item = &'a PortSet>) -> Box<[u16]> {
    let edges = |set: &'a PortSet| {
        set.as_slice().iter().flat_map(|(from, to)| std::iter::once(*from).chain(to.checked_add(1)))
    };
    let mut starts: Vec<u16> = std::iter::once(0).chain(sets.flat_map(edges)).collect();
    starts.sort_unstable();
    starts.dedup();
    starts.into()
}

impl Groups {
    /// The class of a port.
    fn class(&self, port: u16) -> u16 {
        self.classes.partition_point(|start| *start <= port).saturating_sub(1) as u16
    }

    /// The literals of the groups that were made, for a program that follows; of those that the program before had made and this one
    /// has not needed yet as many as there is room for.
    pub fn searched(&self) -> Vec<Arc<Searched>> {
        let made = self.made.read().unwrap_or_else(PoisonError::into_inner);
        let views = made.values().flat_map(|group| group.packets.iter().chain(&group.streams));
        let mut searched: Vec<Arc<Searched>> = views.map(|view| Arc::clone(view.searched())).collect();
        let room = (2 * MAX_GROUPS).saturating_sub(searched.len());
        let unused = self.before.iter().filter(|one| !searched.iter().any(|known| Arc::ptr_eq(known, one)));
        let unused: Vec<_> = unused.take(room).cloned().collect();
        searched.extend(unused);
        searched
    }

    /// The group of packets from one port to another. Without ports, packets have the parts of all rules.
    pub fn group(&self, rules: &[ProgramRule], parts: &[Part], ports: Option<(u16, u16)>) -> Arc<Group> {
        let numbered = (0..).zip(&self.buckets);
        let fits = |(_, (bucket, _)): &(u32, &(Ports, Bucket))| match ports {
            Some((from, to)) if self.searches => bucket.have(from, to),
            _ => true,
        };
        self.of_buckets(rules, parts, numbered.filter(fits).map(|(number, _)| number).collect())
    }

    /// The group of these buckets.
    fn of_buckets(&self, rules: &[ProgramRule], parts: &[Part], fitting: Box<[u32]>) -> Arc<Group> {
        let (known, is_full) = {
            let made = self.made.read().unwrap_or_else(PoisonError::into_inner);
            (made.get(&fitting).cloned(), made.len() >= MAX_GROUPS)
        };
        if let Some(group) = known {
            return group;
        }
        let all: Box<[u32]> = (0..self.buckets.len() as u32).collect();
        if is_full && fitting != all {
            return self.of_buckets(rules, parts, all);
        }
        let buckets = || fitting.iter().filter_map(|at| self.buckets.get(*at as usize));
        let mut packets: Vec<u32> =
            buckets().flat_map(|(_, bucket)| bucket.packets.iter().copied()).collect();
        let mut streams: Vec<u32> =
            buckets().flat_map(|(_, bucket)| bucket.streams.iter().copied()).collect();
        packets.sort_unstable();
        streams.sort_unstable();
        let views =
            |numbers: &[u32]| View::of(FoundHere { rules, parts, numbers }, self.searches, &self.before);
        let group = Arc::new(Group { packets: views(&packets), streams: views(&streams) });
        let mut made = self.made.write().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(made.entry(fitting).or_insert(group))
    }
}

/// A class of packets, the side that sends, and the classes of the ports from and to which it does.
type Kind = (u8, Direction, Option<(u16, u16)>);

/// The groups that a worker has met. A flow keeps the number of its own.
#[derive(Debug, Default)]
pub(super) struct Met {
    groups: Vec<Arc<Group>>,
    /// The number of the group, by the kind of packets and the classes of their ports.
    numbers: HashMap<Kind, u32>,
}

impl Met {
    /// The number of the group of payload that one side sends in packets of a class, from a port to another if there are ports.
    /// `make` makes it.
    pub fn number(
        &mut self,
        groups: &Groups,
        (class, side): (u8, Direction),
        ports: Option<(u16, u16)>,
        make: impl FnOnce() -> Arc<Group>,
    ) -> u32 {
        let classes = ports.map(|(from, to)| (groups.class(from), groups.class(to)));
        let key = (class, side, classes);
        if let Some(number) = self.numbers.get(&key) {
            return *number;
        }
        let group = make();
        let known = self.groups.iter().position(|known| Arc::ptr_eq(known, &group));
        let number = known.unwrap_or(self.groups.len());
        if known.is_none() {
            self.groups.push(group);
        }
        if self.numbers.len() >= MAX_PAIRS {
            self.numbers.clear();
        }
        self.numbers.insert(key, number as u32);
        number as u32
    }

    /// The group with a number.
    pub fn group(&self, number: u32) -> Option<&Group> {
        self.groups.get(number as usize).map(|group| &**group)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn no_set_tells_ports_of_a_class_apart(
            sets in proptest::collection::vec(proptest::collection::vec((any::<u16>(), any::<u16>()), 0..4), 0..6),
            ports in proptest::collection::vec(any::<u16>(), 2..40),
        ) {
            let sets: Vec<PortSet> = sets.into_iter().map(PortSet::of).collect();
            let groups = Groups {
                buckets: Vec::new(),
                classes: starts(sets.iter()),
                searches: true,
                made: RwLock::default(),
                before: Vec::new(),
            };
            let edges = sets.iter().flat_map(|set| set.as_slice()).flat_map(|(from, to)| [*from, *to]);
            let around = edges.flat_map(|port| [port.wrapping_sub(1), port, port.wrapping_add(1)]);
            let ports: Vec<u16> = ports.into_iter().chain(around).collect();
            for one in &ports {
                for other in &ports {
                    let are_alike = sets.iter().all(|set| set.has(*one) == set.has(*other));
                    prop_assert!(are_alike || groups.class(*one) != groups.class(*other));
                }
            }
        }
    }
}
