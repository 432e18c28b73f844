//! Pairs of hosts whose flows begin at even times, with even sizes, all day: what a program does that calls home.
//!
//! The flows of a day are read twice, and again for each further part of the pairs if there are many: first an array of small counters
//! finds the pairs that may have [`MIN_FLOWS`], of which no pair is missed; then the begins and bytes of these pairs alone are held.
//! The numbers of a pair are exact. docs/anomalies.md has the formula.

use crate::median::median;
use crate::{Store, StoreError, StoredFlow, TimeRange};
use foldhash::fast::FixedState;
use std::collections::HashMap;
use std::hash::BuildHasher as _;
use std::net::IpAddr;
use weir_api::Net;
use weir_filter::FlowTest;
use weir_output::figures::{count, counted};
use weir_output::ports;

/// Pairs with fewer flows in a day are not judged.
pub const MIN_FLOWS: u64 = 20;
/// Names of the parts of a score, in their order.
pub const PARTS: [&str; 6] = ["gap_skew", "gap_spread", "bytes_skew", "bytes_spread", "day", "hours"];
/// Quartiles that are closer have no skew, in seconds and in bytes: the value of RITA.
const MIN_QUARTILES: f64 = 10.0;
/// Minimum number of gaps: quartiles need three.
const MIN_GAPS: usize = 3;
const SECOND: u64 = 1_000_000_000;
const HOURS: u64 = 24;

/// Bounds of the memory.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Number of counters, one byte each.
    counters: usize,
    /// Flows that are held at a time, 24 bytes each. A pair counts as [`PAIR`] more.
    flows: usize,
    /// Flows of a pair. A pair with more has more than one in a second for a whole day, and is not judged.
    flows_of_pair: usize,
    /// Parts in which pairs are judged.
    parts: u64,
    /// Beacons that are kept, those with the highest scores.
    beacons: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { counters: 4 << 20, flows: 1 << 20, flows_of_pair: 100_000, parts: 64, beacons: 10_000 }
    }
}

/// What a pair takes beside its flows: addresses, a name, and a list.
const PAIR: usize = 16;

/// Who begins flows to whom.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Pair {
    /// The host that begins flows.
    pub initiator: IpAddr,
    /// The host that they are to.
    pub responder: IpAddr,
    /// Its port; 0 of protocols without ports.
    pub port: u16,
    /// IP protocol number.
    pub ip_proto: u8,
}

impl Pair {
    fn of(flow: &StoredFlow<'_>) -> Self {
        let [(initiator, _), (responder, port)] = flow.ends;
        let port = if ports::has_ports(flow.ip_proto) { port } else { 0 };
        Self { initiator, responder, port, ip_proto: flow.ip_proto }
    }

    /// A pcap-filter(7) expression that matches the packets of its flows, and those of flows from the responder's port to any other
    /// port of the initiator.
    pub fn expression(&self) -> String {
        let hosts = format!("host {} and host {}", self.initiator, self.responder);
        match self.ip_proto {
            6 | 17 | 132 => format!("{hosts} and {} port {}", ports::protocol(self.ip_proto), self.port),
            _ => hosts,
        }
    }
}

/// A pair with its score.
#[derive(Clone, Debug, PartialEq)]
pub struct Beacon {
    /// The pair.
    pub pair: Pair,
    /// The latest name that the initiator had resolved for the responder.
    pub name: Option<String>,
    /// Number of its flows that began in the day.
    pub flows: u64,
    /// Times of the first and of the last begin of a flow, in nanoseconds since the epoch.
    pub begins: (u64, u64),
    /// Median of the gaps between begins, in seconds.
    pub gap: f64,
    /// Median of the bytes on the wire that the initiator sent in a flow.
    pub bytes: f64,
    /// The parts of the score, each from 0 to 1, in the order of [`PARTS`].
    pub parts: [f64; 6],
}

impl Beacon {
    /// The mean of the parts.
    pub fn score(&self) -> f64 {
        self.parts.iter().sum::<f64>() / self.parts.len() as f64
    }
}

/// The beacons of a day.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Beacons {
    /// The pairs, the highest score first.
    pub beacons: Vec<Beacon>,
    /// Flows that began in the day, without those of allowed hosts.
    pub flows: u64,
    /// Flows from or to an allowed host.
    pub allowed: u64,
    /// Pairs with enough flows, judged or not.
    pub pairs: u64,
    /// What the answer leaves out.
    pub notes: Vec<String>,
}

/// The beacons of a day, from the flows of a store. `day` is begin and end in nanoseconds since the epoch; flows from or to the `allowed`
/// networks are left out.
///
/// # Errors
///
/// The store cannot be read.
pub fn of(store: &dyn Store, day: (u64, u64), allowed: &[Net]) -> Result<Beacons, StoreError> {
    let span = TimeRange { from: Some(day.0), to: Some(day.1) };
    let all = FlowTest::All(Vec::new());
    let mut read = |each: &mut dyn FnMut(&StoredFlow<'_>)| store.each_flow(&all, span, each);
    judge(&mut read, day, allowed, Limits::default())
}

/// Reads all flows once, in any order.
type Read<'r> = dyn FnMut(&mut dyn FnMut(&StoredFlow<'_>)) -> Result<Option<String>, StoreError> + 'r;

/// As [`of`], within limits.
fn judge(
    read: &mut Read<'_>,
    day: (u64, u64),
    allowed: &[Net],
    limits: Limits,
) -> Result<Beacons, StoreError> {
    let mut found = Beacons::default();
    let mut counters = Counters::new(limits.counters);
    let is_allowed =
        |pair: &Pair| allowed.iter().any(|net| net.has(pair.initiator) || net.has(pair.responder));
    let is_of_day = |flow: &StoredFlow<'_>| (day.0..day.1).contains(&flow.times[0]);
    let note = read(&mut |flow| {
        let pair = Pair::of(flow);
        if !is_of_day(flow) {
        } else if is_allowed(&pair) {
            found.allowed += 1;
        } else {
            found.flows += 1;
            counters.add(&pair);
        }
    })?;
    found.notes.extend(note);
    let (mut part, mut parts) = (0, 1);
    let mut sums = Sums::default();
    while part < parts {
        let mut held = Held { limits, ..Held::default() };
        read(&mut |flow| {
            let pair = Pair::of(flow);
            let hash = counters.hash(&pair);
            if hash % parts == part && is_of_day(flow) && !is_allowed(&pair) && counters.is_many(&pair) {
                held.add(pair, flow);
            }
        })?;
        if held.shed > 0 && parts < limits.parts {
            // What this part needs says into how many it has to be split. Pairs that were judged are judged again.
            let needed = ((held.size + held.shed) as u64 * 5 / 4).div_ceil(limits.flows.max(1) as u64).max(2);
            (part, parts) = (0, (parts * needed).min(limits.parts));
            (sums, found.beacons) = (Sums::default(), Vec::new());
            continue;
        }
        sums.add(held, day, &mut found.beacons);
        sort(&mut found.beacons);
        found.beacons.truncate(limits.beacons);
        part += 1;
    }
    found.pairs = sums.pairs + sums.constant;
    if sums.constant > 0 {
        found.notes.push(format!(
            "{} with more than {} flows {} not judged: that is more than one in a second",
            counted(sums.constant, "pair"),
            count(limits.flows_of_pair as u64),
            if sums.constant == 1 { "is" } else { "are" },
        ));
    }
    if sums.shed > 0 {
        found.notes.push(format!("{} found no room: pairs may be missing", counted(sums.shed, "flow")));
    }
    Ok(found)
}

/// The highest scores first, then the most flows.
fn sort(beacons: &mut [Beacon]) {
    beacons.sort_by(|a, b| {
        b.score().total_cmp(&a.score()).then(b.flows.cmp(&a.flows)).then(a.pair.cmp(&b.pair))
    });
}

/// What is counted of the pairs of all parts.
#[derive(Default)]
struct Sums {
    /// Judged pairs with enough flows.
    pairs: u64,
    /// Pairs with more flows than are judged.
    constant: u64,
    shed: u64,
}

impl Sums {
    fn add(&mut self, held: Held, day: (u64, u64), beacons: &mut Vec<Beacon>) {
        self.shed += held.shed as u64;
        for (pair, flows) in held.pairs {
            if flows.is_constant {
                self.constant += 1;
                continue;
            }
            let name = flows.name;
            let flows = whole(flows.flows);
            self.pairs += u64::from(flows.len() as u64 >= MIN_FLOWS);
            if let Some(beacon) = beacon(pair, flows, day) {
                beacons.push(Beacon { name: name.map(|(_, name)| name), ..beacon });
            }
        }
    }
}

/// Counts flows by pair. A count is never too low: pairs that share counters may have too high ones.
struct Counters {
    state: FixedState,
    counters: Vec<u8>,
}

impl Counters {
    fn new(number: usize) -> Self {
        Self { state: FixedState::default(), counters: vec![0; number.max(1)] }
    }

    fn hash(&self, pair: &Pair) -> u64 {
        self.state.hash_one(pair)
    }

    /// The places of the two counters of a pair.
    fn places(&self, pair: &Pair) -> [usize; 2] {
        let hash = self.hash(pair);
        let number = self.counters.len() as u64;
        [
            ((hash >> 8) % number) as usize,
            ((hash.rotate_left(32).wrapping_mul(0x9e37_79b9_7f4a_7c15)) % number) as usize,
        ]
    }

    fn least(&self, places: [usize; 2]) -> u8 {
        places.into_iter().filter_map(|at| self.counters.get(at)).copied().min().unwrap_or(u8::MAX)
    }

    fn add(&mut self, pair: &Pair) {
        let places = self.places(pair);
        // Only the lower one is raised, which keeps errors small.
        let next = self.least(places).saturating_add(1);
        for at in places {
            if let Some(counter) = self.counters.get_mut(at) {
                *counter = next.max(*counter);
            }
        }
    }

    fn is_many(&self, pair: &Pair) -> bool {
        u64::from(self.least(self.places(pair))) >= MIN_FLOWS
    }
}

/// A flow of a pair.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
struct One {
    /// Its number, which its parts share if it was cut.
    uid: u64,
    /// Time of its begin in nanoseconds since the epoch.
    begin: u64,
    /// Bytes that the initiator sent.
    bytes: u64,
}

#[derive(Default)]
struct FlowsOfPair {
    flows: Vec<One>,
    /// A name, with the time of its flow.
    name: Option<(u64, String)>,
    is_constant: bool,
}

/// The flows of pairs that may have enough of them.
#[derive(Default)]
struct Held {
    limits: Limits,
    pairs: HashMap<Pair, FlowsOfPair>,
    /// Flows that are held, and [`PAIR`] for each pair.
    size: usize,
    /// Flows that found no room.
    shed: usize,
}

impl Held {
    fn add(&mut self, pair: Pair, flow: &StoredFlow<'_>) {
        let more = if self.pairs.contains_key(&pair) { 1 } else { 1 + PAIR };
        if self.size + more > self.limits.flows {
            self.shed += more;
            return;
        }
        let of = self.pairs.entry(pair).or_default();
        if of.is_constant {
            return;
        }
        let [begin, _] = flow.times;
        self.size += more;
        of.flows.push(One { uid: flow.uid, begin, bytes: flow.bytes[0] });
        if let Some(name) = flow.name.filter(|name| !name.is_empty())
            && of.name.as_ref().is_none_or(|(time, _)| *time < begin)
        {
            of.name = Some((begin, name.to_owned()));
        }
        if of.flows.len() > self.limits.flows_of_pair {
            self.size -= of.flows.len();
            (of.flows, of.is_constant) = (Vec::new(), true);
        }
    }
}

/// Adds the parts of a flow that was cut to one flow. The flows are then in the order of their begins.
fn whole(mut flows: Vec<One>) -> Vec<One> {
    flows.sort_unstable();
    flows.dedup_by(|part, flow| {
        let is_part = part.uid == flow.uid;
        if is_part {
            flow.bytes = flow.bytes.saturating_add(part.bytes);
        }
        is_part
    });
    flows.sort_unstable_by_key(|flow| (flow.begin, flow.uid));
    flows
}

/// The score of whole flows in the order of their begins; `None` if there are too few, or too few gaps.
fn beacon(pair: Pair, flows: Vec<One>, day: (u64, u64)) -> Option<Beacon> {
    if (flows.len() as u64) < MIN_FLOWS {
        return None;
    }
    let begins = (flows.first()?.begin, flows.last()?.begin);
    let mut seconds: Vec<u64> = flows.iter().map(|flow| flow.begin / SECOND).collect();
    seconds.dedup();
    let mut gaps: Vec<f64> =
        seconds.iter().zip(seconds.iter().skip(1)).map(|(one, next)| (next - one) as f64).collect();
    if gaps.len() < MIN_GAPS {
        return None;
    }
    let mut bytes: Vec<f64> = flows.iter().map(|flow| flow.bytes as f64).collect();
    let (gaps, bytes) = (Shape::of(&mut gaps), Shape::of(&mut bytes));
    let length = day.1.saturating_sub(day.0).max(1);
    let mut hours = [0_u64; HOURS as usize];
    for flow in &flows {
        let hour = u128::from(flow.begin.saturating_sub(day.0)) * u128::from(HOURS) / u128::from(length);
        if let Some(number) = hours.get_mut(hour as usize) {
            *number += 1;
        }
    }
    Some(Beacon {
        pair,
        name: None,
        flows: flows.len() as u64,
        begins,
        gap: gaps.median,
        bytes: bytes.median,
        parts: [
            gaps.symmetry(),
            gaps.sharpness(),
            bytes.symmetry(),
            bytes.sharpness(),
            (begins.1 - begins.0) as f64 / length as f64,
            evenness(&hours),
        ],
    })
}

/// Quartiles of values, and the median of their distances from the median.
struct Shape {
    lower: f64,
    median: f64,
    upper: f64,
    deviation: f64,
}

impl Shape {
    /// Of some values, which are overwritten.
    fn of(values: &mut [f64]) -> Self {
        values.sort_by(f64::total_cmp);
        let half = values.len() / 2;
        // The middle one of an odd number is in neither half.
        let (lower, upper) = (values.get(..half), values.get(values.len() - half..));
        let (lower, upper) = (median(lower.unwrap_or_default()), median(upper.unwrap_or_default()));
        let middle = median(values);
        values.iter_mut().for_each(|value| *value = (*value - middle).abs());
        values.sort_by(f64::total_cmp);
        Self { lower, median: middle, upper, deviation: median(values) }
    }

    /// 1 - |Bowley's skewness|. There is no skew where the quartiles are close, or the median is one of them.
    fn symmetry(&self) -> f64 {
        let width = self.upper - self.lower;
        if width < MIN_QUARTILES || self.median == self.lower || self.median == self.upper {
            return 1.0;
        }
        1.0 - ((self.upper + self.lower - 2.0 * self.median) / width).abs()
    }

    /// 1 - deviation / median, at least 0.
    fn sharpness(&self) -> f64 {
        if self.median > 0.0 { (1.0 - self.deviation / self.median).max(0.0) } else { 0.0 }
    }
}

/// 1 - standard deviation / mean of the numbers of hours, at least 0.
fn evenness(hours: &[u64]) -> f64 {
    let number = hours.len().max(1) as f64;
    let mean = hours.iter().sum::<u64>() as f64 / number;
    if mean == 0.0 {
        return 0.0;
    }
    let variance = hours.iter().map(|n| (*n as f64 - mean).powi(2)).sum::<f64>() / number;
    (1.0 - variance.sqrt() / mean).max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    const DAY: (u64, u64) = (1_795_305_600 * SECOND, (1_795_305_600 + 86_400) * SECOND);

    /// A flow: client, server, second of the day, bytes, uid.
    type Made = (u8, u8, u64, u64, u64);

    fn found(made: &[Made], allowed: &[Net], limits: Limits) -> Beacons {
        let mut read = |each: &mut dyn FnMut(&StoredFlow<'_>)| {
            for (client, server, second, bytes, uid) in made {
                let begin = DAY.0 + second * SECOND + uid * 1_000;
                each(&StoredFlow {
                    uid: *uid,
                    times: [begin, begin + SECOND],
                    ip_proto: 6,
                    ends: [
                        (IpAddr::from([10, 0, 0, *client]), 40_000 + *uid as u16),
                        (IpAddr::from([192, 0, 2, *server]), 443),
                    ],
                    packets: [3, 3],
                    bytes: [*bytes, 9],
                    state: "SF",
                    services: None,
                    name: Some("host.example"),
                    detail: "",
                });
            }
            Ok(None)
        };
        judge(&mut read, DAY, allowed, limits).unwrap()
    }

    /// The plain way: all flows of a pair at once, each statistic from its definition. It returns the parts of each pair.
    fn plain(made: &[Made]) -> BTreeMap<(u8, u8), [f64; 6]> {
        let mut by_pair: BTreeMap<(u8, u8), BTreeMap<u64, (u64, u64)>> = BTreeMap::new();
        for (client, server, second, bytes, uid) in made {
            let flow = by_pair.entry((*client, *server)).or_default().entry(*uid).or_insert((*second, 0));
            *flow = (flow.0.min(*second), flow.1 + bytes);
        }
        let middle = |values: &[f64]| -> f64 {
            let n = values.len();
            if n % 2 == 1 { values[n / 2] } else { (values[n / 2 - 1] + values[n / 2]) / 2.0 }
        };
        let two = |values: &[f64]| -> [f64; 2] {
            let mut sorted = values.to_vec();
            sorted.sort_by(|a, b| a.partial_cmp(b).unwrap());
            let n = sorted.len();
            let (q1, q2, q3) = (middle(&sorted[..n / 2]), middle(&sorted), middle(&sorted[n.div_ceil(2)..]));
            let skew = match q3 - q1 >= 10.0 && q2 != q1 && q2 != q3 {
                true => (q1 + q3 - 2.0 * q2) / (q3 - q1),
                false => 0.0,
            };
            let mut off: Vec<f64> = sorted.iter().map(|value| (value - q2).abs()).collect();
            off.sort_by(|a, b| a.partial_cmp(b).unwrap());
            [1.0 - skew.abs(), if q2 > 0.0 { (1.0 - middle(&off) / q2).max(0.0) } else { 0.0 }]
        };
        let mut parts = BTreeMap::new();
        for (pair, flows) in by_pair {
            let begins: std::collections::BTreeSet<u64> = flows.values().map(|(second, _)| *second).collect();
            let begins: Vec<u64> = begins.into_iter().collect();
            if flows.len() < 20 || begins.len() < 4 {
                continue;
            }
            let gaps: Vec<f64> = begins.windows(2).map(|two| (two[1] - two[0]) as f64).collect();
            let bytes: Vec<f64> = flows.values().map(|(_, bytes)| *bytes as f64).collect();
            let mut hours = [0.0; 24];
            flows.values().for_each(|(second, _)| hours[(*second / 3600) as usize] += 1.0);
            let mean = flows.len() as f64 / 24.0;
            let sd = (hours.iter().map(|n| (n - mean) * (n - mean)).sum::<f64>() / 24.0).sqrt();
            let [a, b] = two(&gaps);
            let [c, d] = two(&bytes);
            let share = (begins[begins.len() - 1] - begins[0]) as f64 / 86_400.0;
            parts.insert(pair, [a, b, c, d, share, (1.0 - sd / mean).max(0.0)]);
        }
        parts
    }

    fn compare(made: &[Made], limits: Limits) {
        let found = found(made, &[], limits);
        let plain = plain(made);
        assert_eq!(found.beacons.len(), plain.len());
        assert_eq!(found.flows, made.len() as u64);
        for beacon in &found.beacons {
            let [IpAddr::V4(client), IpAddr::V4(server)] = [beacon.pair.initiator, beacon.pair.responder]
            else {
                panic!("{beacon:?}")
            };
            let parts = plain[&(client.octets()[3], server.octets()[3])];
            for (mine, other) in beacon.parts.iter().zip(&parts) {
                // The begin has microseconds.
                assert!((mine - other).abs() < 1e-6, "{beacon:?} {parts:?}");
                assert!((0.0..=1.0).contains(mine));
            }
        }
        assert!(found.beacons.is_sorted_by(|a, b| a.score() >= b.score()));
    }

    fn even(client: u8, server: u8, every: u64) -> Vec<Made> {
        (0..86_400 / every).map(|n| (client, server, n * every, 600, u64::from(client) * 1_000 + n)).collect()
    }

    proptest! {
        #[test]
        fn scores_are_those_of_the_plain_way(
            made in proptest::collection::vec((0_u8..3, 0_u8..2, 0_u64..86_400, 0_u64..2_000, 1_u64..200), 0..400),
        ) {
            // A uid is of one pair.
            let made: Vec<Made> =
                made.into_iter().map(|(c, s, t, b, uid)| (c, s, t, b, uid * 6 + u64::from(c * 2 + s))).collect();
            compare(&made, Limits::default());
            // Few counters, and pairs in several parts.
            compare(&made, Limits { counters: 2, flows: 300, ..Limits::default() });
        }
    }

    #[test]
    fn an_even_pair_has_the_highest_score_and_noise_a_low_one() {
        let mut made = even(1, 1, 600);
        // In bursts within an hour, of every size.
        made.extend((0..144).map(|n| (2, 1, 40_000 + n * n % 3_571, n * n * 37 % 9_001, 9_000 + n)));
        // Too few.
        made.extend((0..19).map(|n| (3, 1, n * 4_000, 600, 20_000 + n)));
        let found = found(&made, &[], Limits::default());
        let pairs: Vec<String> =
            found.beacons.iter().map(|beacon| beacon.pair.initiator.to_string()).collect();
        assert_eq!((pairs, found.pairs), (vec!["10.0.0.1".to_owned(), "10.0.0.2".to_owned()], 2));
        let (best, noise) = (&found.beacons[0], &found.beacons[1]);
        assert!(best.score() > 0.99 && noise.score() < 0.6, "{found:?}");
        assert_eq!((best.gap, best.bytes, best.flows), (600.0, 600.0, 144));
        assert_eq!(best.pair.expression(), "host 10.0.0.1 and host 192.0.2.1 and tcp port 443");
        assert_eq!(best.name.as_deref(), Some("host.example"));
    }

    #[test]
    fn parts_of_a_flow_that_was_cut_are_one_flow() {
        let mut made = even(1, 1, 600);
        made.iter_mut().for_each(|flow| flow.4 = 7);
        assert_eq!(found(&made, &[], Limits::default()).beacons, []);
    }

    #[test]
    fn allowed_hosts_are_left_out_and_counted() {
        let made = [even(1, 1, 600), even(2, 2, 600)].concat();
        for net in ["192.0.2.2", "10.0.0.2/32"] {
            let found = found(&made, &[net.parse().unwrap()], Limits::default());
            assert_eq!((found.beacons.len(), found.allowed, found.flows), (1, 144, 144));
        }
    }

    #[test]
    fn what_finds_no_room_is_stated() {
        let made = [even(1, 1, 600), even(2, 2, 300), even(3, 3, 900)].concat();
        let limits = Limits { flows: 200, parts: 1, ..Limits::default() };
        let all = found(&made, &[], limits);
        assert!(all.notes[0].contains("found no room"), "{all:?}");
        let limits = Limits { flows_of_pair: 150, ..Limits::default() };
        let all = found(&made, &[], limits);
        assert_eq!((all.beacons.len(), all.pairs), (2, 3));
        assert!(all.notes[0].starts_with("1 pair with more than 150 flows is not judged"), "{all:?}");
    }
}
