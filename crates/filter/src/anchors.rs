//! Finds among many tests of flows those that can hold for one, without evaluating the others.
//!
//! A test that requires an address of a network, or a port, has it as an *anchor*, by which it is found. Tests without anchors
//! are found for every flow.

use crate::flowtest::{Directions, FlowEndpoints, FlowRow, FlowTest};
use foldhash::fast::RandomState;
use hashbrown::HashMap;

/// Ports of a range up to which each is an anchor.
const PORTS: u16 = 16;
/// The most anchors of one test.
const ANCHORS: usize = 64;
/// So many tests are evaluated in less time than their anchors take to look up.
const FEW: usize = 8;

/// A property of flows without which a test does not hold.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Anchor {
    /// One of the addresses is of this network: the number of its leading bits, and these.
    Network(u8, u128),
    /// One of the ports.
    Port(u16),
}

/// Tests by their anchors; a test's number is its position.
#[derive(Debug, Default)]
pub(crate) struct Anchors {
    networks: HashMap<(u8, u128), Vec<u32>, RandomState>,
    /// The lengths of these networks.
    lengths: Vec<u8>,
    ports: HashMap<u16, Vec<u32>, RandomState>,
    /// Tests without anchors.
    others: Vec<u32>,
}

impl Anchors {
    pub fn new(tests: &[(u32, &FlowTest)]) -> Self {
        let mut anchors = Self::default();
        for (number, test) in tests {
            match anchors_of(test).filter(|_| tests.len() > FEW) {
                Some(of_test) => of_test.into_iter().for_each(|anchor| anchors.add(anchor, *number)),
                None => anchors.others.push(*number),
            }
        }
        anchors
    }

    fn add(&mut self, anchor: Anchor, number: u32) {
        match anchor {
            Anchor::Network(length, bits) => {
                if !self.lengths.contains(&length) {
                    self.lengths.push(length);
                }
                self.networks.entry((length, bits)).or_default().push(number);
            }
            Anchor::Port(port) => self.ports.entry(port).or_default().push(number),
        }
    }

    /// Calls `see` with every test that can hold for a flow, some of them more than once.
    pub fn each(&self, flow: &FlowEndpoints, mut see: impl FnMut(u32)) {
        self.others.iter().for_each(|number| see(*number));
        for length in &self.lengths {
            for address in flow.address {
                let network = (*length, leading(u128::from_be_bytes(address), *length));
                self.networks.get(&network).into_iter().flatten().for_each(|number| see(*number));
            }
        }
        if !self.ports.is_empty() {
            for port in flow.port {
                self.ports.get(&port).into_iter().flatten().for_each(|number| see(*number));
            }
        }
    }
}

/// The tests of flows by many subscriptions; a test's number is its position.
#[derive(Debug, Default)]
pub struct FlowTests {
    /// Each with the test of the reverse direction, if that is another one.
    tests: Vec<(FlowTest, Option<FlowTest>)>,
    anchors: Anchors,
}

impl FlowTests {
    /// A set of tests, numbered from 0.
    pub fn new(tests: impl IntoIterator<Item = FlowTest>) -> Self {
        let tests: Vec<FlowTest> = tests.into_iter().collect();
        let numbered: Vec<(u32, &FlowTest)> = (0..).zip(&tests).collect();
        let anchors = Anchors::new(&numbered);
        let turned = |test: FlowTest| {
            let reversed = test.is_directed().then(|| test.reversed());
            (test, reversed)
        };
        Self { anchors, tests: tests.into_iter().map(turned).collect() }
    }

    /// Finds the numbers of the tests that hold for a direction of a flow, in ascending order, with the directions for which
    /// each one holds. `found` is reused memory.
    pub fn matches<R: FlowRow>(&self, flow: &R, found: &mut Vec<(u32, Directions)>) {
        found.clear();
        self.anchors.each(flow.endpoints(), |number| found.push((number, Directions::NONE)));
        found.sort_unstable_by_key(|(number, _)| *number);
        found.dedup_by_key(|(number, _)| *number);
        found.retain_mut(|(number, directions)| {
            let Some((test, reversed)) = self.tests.get(*number as usize) else { return false };
            let forward = test.holds(flow);
            let reverse = reversed.as_ref().map_or(forward, |test| test.holds(flow));
            *directions = Directions { forward, reverse };
            forward || reverse
        });
    }
}

/// The leading bits of an address.
fn leading(address: u128, length: u8) -> u128 {
    address.checked_shr(128 - u32::from(length)).unwrap_or(0)
}

/// Anchors of which one holds for every flow for which a test holds.
fn anchors_of(test: &FlowTest) -> Option<Vec<Anchor>> {
    match test {
        FlowTest::Address(_, low, high) => {
            let length = (low ^ high).leading_zeros() as u8;
            // A range that is no network is within the smallest one that has both ends.
            Some(vec![Anchor::Network(length, leading(*low, length))])
        }
        FlowTest::Port(_, low, high) if high.checked_sub(*low).is_some_and(|more| more < PORTS) => {
            Some((*low..=*high).map(Anchor::Port).collect())
        }
        // The one that the fewest flows are expected to have.
        FlowTest::All(tests) => {
            let found = tests.iter().filter_map(anchors_of);
            found.max_by_key(|anchors| anchors.iter().map(selectivity).min())
        }
        FlowTest::Any(tests) => {
            let mut all = Vec::new();
            for test in tests {
                let more = anchors_of(test)?;
                all.extend(more.into_iter().filter(|anchor| !all.contains(anchor)).collect::<Vec<_>>());
                if all.len() > ANCHORS {
                    return None;
                }
            }
            Some(all)
        }
        _ => None,
    }
}

/// The larger, the fewer flows are expected to have an anchor. A port is compared with a network of 2^16 addresses.
fn selectivity(anchor: &Anchor) -> u8 {
    match anchor {
        Anchor::Network(length, _) => *length,
        Anchor::Port(_) => 112,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Options;
    use proptest::prelude::*;

    fn test(text: &str) -> FlowTest {
        FlowTest::of_key(text, &Options::default()).unwrap()
    }

    fn flow(source: [u8; 4], destination: [u8; 4], port: [u16; 2]) -> FlowEndpoints {
        let address = |v4: [u8; 4]| std::net::Ipv4Addr::from(v4).to_ipv6_mapped().octets();
        FlowEndpoints { address: [address(source), address(destination)], port, protocol: 6, vlan: 0 }
    }

    #[test]
    fn a_test_is_found_by_its_most_selective_part() {
        let of = |text: &str| anchors_of(&test(text));
        let host = Anchor::Network(128, 0xffff_0a01_0203);
        assert_eq!(of("host 10.1.2.3 and tcp port 80"), Some(vec![host]));
        assert_eq!(of("net 10.0.0.0/8 and port 80"), Some(vec![Anchor::Port(80)]));
        assert_eq!(of("port 80 or port 81 or host 10.1.2.3").map(|all| all.len()), Some(3));
        assert_eq!(of("port 80 or udp"), None);
        assert_eq!(of("not host 10.1.2.3"), None);
        assert_eq!(of("portrange 1-1000"), None);
        assert_eq!(of("tcp"), None);
    }

    proptest! {
        /// The tests that hold are those that hold alone.
        #[test]
        fn what_is_found_is_what_holds(
            picks in prop::collection::vec((0..10_u8, 0..4_u8, 0..4_u16), 0..60),
            ends in (0..4_u8, 0..4_u8, 0..4_u16, 0..4_u16),
        ) {
            let text = |(kind, host, port): &(u8, u8, u16)| match kind {
                0 => format!("host 10.0.0.{host}"),
                1 => format!("src net 10.0.0.{}/31 and dst port {port}", host & 2),
                2 => format!("port {port}"),
                3 => format!("portrange {port}-{}", port + 2),
                4 => format!("not port {port}"),
                5 => format!("host 10.0.0.{host} or port {port}"),
                6 => format!("tcp and (dst host 10.0.0.{host} or src port {port})"),
                7 => "udp".to_owned(),
                8 => format!("net 10.0.0.0/8 and not host 10.0.0.{host}"),
                _ => String::new(),
            };
            let tests: Vec<FlowTest> = picks.iter().map(|pick| test(&text(pick))).collect();
            let flow = flow([10, 0, 0, ends.0], [10, 0, 0, ends.1], [ends.2, ends.3]);
            let reversed = flow.reversed();
            let holds = |test: &FlowTest| Directions { forward: test.holds(&flow), reverse: test.holds(&reversed) };
            let all = (0..).zip(tests.iter().map(holds));
            let expected: Vec<_> = all.filter(|(_, found)| *found != Directions::NONE).collect();
            let mut found = vec![(7, Directions::BOTH)];
            FlowTests::new(tests.clone()).matches(&flow, &mut found);
            prop_assert_eq!(found, expected);
        }
    }
}
