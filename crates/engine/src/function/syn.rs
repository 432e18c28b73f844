//! TCP connections that hosts begin and end: Ourmon's list of SYNs and its work weight.

use super::ends::{EndpointRoles, words};
use super::top::ip;
use super::{Argument, Arguments, Function, FunctionSpec, InputKind, Memory};
use crate::Item;
use crate::bounded::{Amount, Bounded, kept};
use crate::item::each_error;
use crate::keyed::Address;
use std::sync::Arc;
use weir_api::{
    Bits, Count, Datum, Distinct, DistinctValues, Folded, Hashed, Level, Reading, SampledValues, Schema,
    Shown, SynCounts, SynHost, TableRow, Unit, WorkWeight,
};
use weir_wire::build::flags::{ACK, FIN, RST, SYN as SYNCHRONISE};
use weir_wire::{Layers, Packet, Time, addresses};

pub(super) static SYN: FunctionSpec = FunctionSpec {
    name: "syn",
    help: "Hosts by the TCP connections that they try to begin and end. Ourmon's work weight of a host is work / (packets_sent + packets_received): near 1 for a scanner, near 0 for a host that transfers data. Beside it are the addresses and ports that the host sends SYNs to, the ICMP errors that return to it, and Ourmon's flags.",
    arguments: &[
        Argument { name: "show", help: "Number of rows to show, 1 to 1000.", default: Some("10") },
        Argument { name: "rows", help: "Number of hosts to keep, 16 to 1048576.", default: Some("8192") },
    ],
    levels: &[Level::Packet],
    input: InputKind::Control,
    memory: |arguments| {
        let (_, rows) = shape(arguments)?;
        let kept = kept(rows);
        Ok(Memory {
            state: 256 + Bounded::<Address, Host>::bytes(rows) + room(kept),
            reading: 1024 + kept * (row() + FEW + 2 * SampledValues::MEMORY) + room(kept),
        })
    },
    judge: None,
    delivers: None,
    identifies: false,
    build: |arguments| {
        let (show, rows) = shape(arguments)?;
        let schema = Schema { shown: Shown::Syn(show), ..weir_api::SYN.clone() };
        let list = Bounded::with_room(rows, Unit::Packets, arguments.seeds.run, room(kept(rows)));
        Ok(Box::new(Hosts { schema: Arc::new(schema), list }))
    },
};

/// Rows to show and to keep.
fn shape(arguments: &Arguments<'_>) -> Result<(u32, usize), String> {
    Ok((arguments.within("show", 1..=1000)?, arguments.within("rows", 16..=1 << 20)?))
}

/// Bytes of a row of a reading, without addresses and ports.
fn row() -> usize {
    size_of::<TableRow>() + size_of::<Datum>() + weir_api::SYN.columns.len() * size_of::<Folded>()
}

/// Bytes of addresses and ports that each row has: room for four of both.
const FEW: usize = 2 * 4 * size_of::<u128>();

/// Bytes that all rows share for further addresses and ports: 16 more values for each row, and as if 64 rows had all ports and as
/// many addresses as are counted.
fn room(kept: usize) -> usize {
    kept * 16 * size_of::<u128>() + 64 * (Bits::MEMORY + Distinct::SIZE)
}

/// IP protocol number.
const TCP: u8 = 6;

/// What is counted of a host.
#[derive(Clone, Debug, Default)]
struct Host {
    counts: SynCounts,
    begun: Begun,
    /// SYNs whose address or port found no room. They count to the error, so that a row without one lacks nothing in any column.
    uncounted: u64,
    error: u32,
}

/// The connections that a host tries to begin. Most hosts of a flood try one, and need no heap memory.
#[derive(Clone, Debug, Default)]
enum Begun {
    #[default]
    None,
    /// SYNs with equal addresses and ports, and their number.
    One(Begin, u32),
    Many(Box<Begins>),
}

/// A SYN without ACK.
#[derive(Clone, Copy, Debug)]
struct Begin {
    target: Address,
    time: u64,
    /// Source and destination port.
    ports: [u16; 2],
}

/// Several SYNs without ACK.
#[derive(Clone, Debug)]
struct Begins {
    targets: DistinctValues,
    ports: DistinctValues,
    /// Samples of destination and source ports.
    samples: [PortSample; 2],
    last: (u64, Address),
}

/// A [`SampledValues`] of ports that needs no further memory, since most rows have one.
#[derive(Clone, Debug, Default)]
struct PortSample {
    ports: [u16; SampledValues::MAX],
    counts: [u64; SampledValues::MAX],
    /// Number of ports in it, and the greatest hash of them if it is full.
    len: usize,
    greatest: u64,
    /// SYNs to ports that are not in it.
    others: u64,
}

impl PortSample {
    fn add(&mut self, port: u16, times: u64) {
        let known = self.ports.iter().take(self.len).position(|known| *known == port);
        if let Some(count) = known.and_then(|at| self.counts.get_mut(at)) {
            *count += times;
            return;
        }
        let hash = |port: u16| u128::from(port).hash();
        // Hashes of ports differ.
        let at = match self.len < SampledValues::MAX {
            true => Some(self.len),
            false if hash(port) > self.greatest => None,
            false => self.ports.iter().position(|known| hash(*known) == self.greatest),
        };
        let places = at.and_then(|at| Some((self.ports.get_mut(at)?, self.counts.get_mut(at)?)));
        let Some((place, count)) = places else {
            self.others += times;
            return;
        };
        self.others += *count;
        (*place, *count) = (port, times);
        self.len = SampledValues::MAX.min(self.len + 1);
        if self.len == SampledValues::MAX {
            self.greatest = self.ports.iter().map(|port| hash(*port)).fold(0, u64::max);
        }
    }

    fn shown(&self) -> SampledValues {
        let mut sample = SampledValues::default();
        let kept = self.ports.iter().zip(&self.counts).take(self.len);
        kept.for_each(|(port, count)| sample.add((*port).into(), *count));
        sample.add_others(self.others);
        sample
    }
}

/// Bytes of the connections of a row beside addresses and ports.
const BEGINS: usize = size_of::<Begins>();

impl Begun {
    /// Adds a SYN, as far as it needs at most `room` bytes of heap memory beyond those of before. Returns whether all of it is counted.
    fn add(&mut self, more: &Begin, room: usize) -> bool {
        match self {
            Self::None => {
                *self = Self::One(*more, 1);
                true
            }
            Self::One(one, times) => {
                if (one.target, one.ports) == (more.target, more.ports) && *times < u32::MAX {
                    one.time = one.time.max(more.time);
                    *times += 1;
                    return true;
                }
                if room < BEGINS + FEW {
                    return false;
                }
                let mut many = Begins::new(one, *times);
                let is_counted = many.add(more, 1, room.saturating_sub(BEGINS + many.memory()));
                *self = Self::Many(Box::new(many));
                is_counted
            }
            Self::Many(many) => many.add(more, 1, room),
        }
    }

    fn memory(&self) -> usize {
        if let Self::Many(many) = self { BEGINS + many.memory() } else { 0 }
    }
}

impl Begins {
    /// A SYN that was seen a number of times.
    fn new(begin: &Begin, times: u32) -> Self {
        let mut begins = Self {
            targets: DistinctValues::default(),
            ports: DistinctValues::default(),
            samples: Default::default(),
            last: (begin.time, begin.target),
        };
        begins.add(begin, times.into(), usize::MAX);
        begins
    }

    /// Adds a SYN as [`Begun::add`] does.
    fn add(&mut self, more: &Begin, times: u64, mut room: usize) -> bool {
        let Self { targets, ports, samples: [to, from], last } = self;
        // Of equal times the greater address, as tables have it.
        if (more.time, ip(more.target)) > (last.0, ip(last.1)) {
            *last = (more.time, more.target);
        }
        let [high, low] = more.target;
        let [source, destination] = more.ports;
        let mut is_counted = true;
        for (values, value) in
            [(targets, u128::from(high) << 64 | u128::from(low)), (ports, destination.into())]
        {
            let before = values.memory();
            match values.add_within(value, room) {
                Some(_) => values.add_again(times.saturating_sub(1)),
                None => is_counted = false,
            }
            room = (room + before).saturating_sub(values.memory());
        }
        to.add(destination, times);
        from.add(source, times);
        is_counted
    }

    fn memory(&self) -> usize {
        self.targets.memory() + self.ports.memory()
    }
}

/// What is counted at once. The packets of flags are counted apart.
#[derive(Clone, Copy, Debug)]
enum More {
    /// A SYN without ACK that the host sent, and its flags.
    Begin(Begin, u8),
    /// Flags of another packet that the host sent.
    SentFlags(u8),
    /// Flags of a packet that the host received.
    ReceivedFlags(u8),
    /// Packets that the host sent.
    Sent(u64),
    /// Packets that the host received.
    Received(u64),
    /// An ICMP error that returns to the host.
    Error,
}

impl Amount for Host {
    type More = More;
    /// Most packets begin and end nothing.
    const LEAST: u32 = 0;
    const OWN: usize = BEGINS + FEW;

    /// The host's part in beginning and ending connections.
    fn weight_of(more: &More, _: Unit) -> u64 {
        let has = |flags: u8, flag| u64::from(flags & flag != 0);
        match *more {
            More::Begin(_, flags) | More::SentFlags(flags) => has(flags, SYNCHRONISE) + has(flags, FIN),
            More::ReceivedFlags(flags) => has(flags, RST),
            More::Sent(_) | More::Received(_) | More::Error => 0,
        }
    }

    fn count_of(more: &More) -> Count {
        Count { packets: Self::weight_of(more, Unit::Packets), bytes: 0 }
    }

    fn add(&mut self, more: &More, unit: Unit, room: usize) -> u64 {
        let has = |flags: u8, flag| u64::from(flags & flag != 0);
        if let More::Begin(begin, _) = more
            && !self.begun.add(begin, room)
        {
            self.uncounted += 1;
        }
        let SynCounts { syn, synack, fin, rst, packets, syn_received, icmp_errors } = &mut self.counts;
        let ([fin_sent, fin_received], [rst_sent, rst_received]) = (fin, rst);
        let [sent, received] = packets;
        match *more {
            More::Begin(_, flags) | More::SentFlags(flags) => {
                let is_syn = has(flags, SYNCHRONISE);
                *syn += is_syn;
                *synack += is_syn & has(flags, ACK);
                *fin_sent += has(flags, FIN);
                *rst_sent += has(flags, RST);
            }
            More::ReceivedFlags(flags) => {
                *syn_received += has(flags, SYNCHRONISE);
                *fin_received += has(flags, FIN);
                *rst_received += has(flags, RST);
            }
            More::Sent(packets) => *sent += packets,
            More::Received(packets) => *received += packets,
            More::Error => *icmp_errors += 1,
        }
        Self::weight_of(more, unit)
    }

    fn memory(&self) -> usize {
        self.begun.memory()
    }

    fn uncounted(&self) -> u64 {
        self.uncounted
    }

    fn weight(&self, _: Unit) -> u64 {
        self.counts.work(WorkWeight::Sent)
    }

    fn count(&self) -> Count {
        Count { packets: self.weight(Unit::Packets), bytes: 0 }
    }

    fn error(&mut self) -> &mut u32 {
        &mut self.error
    }
}

impl Host {
    /// The host of a row.
    fn shown(self) -> SynHost {
        let many = match self.begun {
            Begun::None => return SynHost { counts: self.counts, ..SynHost::default() },
            Begun::One(one, times) => Begins::new(&one, times),
            Begun::Many(many) => *many,
        };
        let Begins { targets, ports, samples, last: (time, target) } = many;
        let samples = samples.map(|sample| sample.shown());
        SynHost { counts: self.counts, targets, ports, last: Some((time, ip(target))), samples }
    }
}

struct Hosts {
    schema: Arc<Schema>,
    list: Bounded<Address, Host>,
}

impl Hosts {
    fn flags(&mut self, ends: &EndpointRoles, flags: u8, time: Time) {
        let EndpointRoles { source, destination, ports, .. } = *ends;
        if flags & (SYNCHRONISE | FIN | RST) != 0 {
            let begin = Begin { target: destination, time: time.0, ports };
            let is_begin = flags & (SYNCHRONISE | ACK) == SYNCHRONISE;
            let sent = if is_begin { More::Begin(begin, flags) } else { More::SentFlags(flags) };
            self.list.add_more(source, sent);
            self.list.add_more(destination, More::ReceivedFlags(flags));
        }
    }

    fn packets(&mut self, ends: &EndpointRoles, packets: u64) {
        self.list.add_more(ends.source, More::Sent(packets));
        self.list.add_more(ends.destination, More::Received(packets));
    }

    /// Takes an error at a level of a packet.
    fn error(&mut self, packet: &Packet<'_>, level: &Layers) {
        if let Some((_, host)) = addresses(packet, level) {
            self.list.add_more(words(host), More::Error);
        }
    }

    /// Takes a packet, where an expression selects packets.
    fn packet(&mut self, packet: &Packet<'_>, layers: &Layers) {
        each_error(packet, layers, |level, _| self.error(packet, level));
        if layers.ip_proto != TCP {
            return;
        }
        let Some(ends) = EndpointRoles::of(&Item::Packet(packet, layers)) else { return };
        if layers.has_transport() {
            self.flags(&ends, layers.tcp_flags, packet.time);
        }
        self.packets(&ends, 1);
    }
}

impl Function for Hosts {
    fn item(&mut self, item: &Item<'_>) {
        match item {
            Item::Packet(packet, layers) => return self.packet(packet, layers),
            Item::Error(packet, level, _) => return self.error(packet, level),
            _ => {}
        }
        if item.key().is_none_or(|key| key.proto != TCP) {
            return;
        }
        let Some(ends) = EndpointRoles::of(item) else { return };
        match item {
            Item::Control(control) => self.flags(&ends, control.flags, control.time),
            // Control packets are in tallies too.
            Item::Tally(tally) => self.packets(&ends, tally.packets),
            _ => {}
        }
    }

    fn held(&self) -> usize {
        self.list.memory()
    }

    fn take(&mut self) -> Reading {
        self.list.take_table(&self.schema, |host, of| (vec![Datum::Address(ip(host))], of.shown().values()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::function::tests::table_of;
    use crate::keyed::next;
    use std::collections::{BTreeMap, BTreeSet};
    use std::net::IpAddr;
    use weir_api::{FunctionCall, Table};
    use weir_wire::build;
    use weir_wire::{LinkType, decode};

    const HOST: [u8; 4] = [10, 0, 0, 1];
    const SERVER: [u8; 4] = [192, 0, 2, 7];
    const ROUTER: [u8; 4] = [203, 0, 113, 9];

    fn segment(from: [u8; 4], to: [u8; 4], flags: u8) -> Vec<u8> {
        build::ethernet().ipv4(from, to).tcp(4000, 80, flags).payload(&[])
    }

    fn frames() -> Vec<Vec<u8>> {
        let quotes = [
            build::ip().ipv4(HOST, SERVER).tcp(4000, 80, SYNCHRONISE).payload(&[]),
            build::ip().ipv4(HOST, SERVER).udp(4000, 53).payload(b"query"),
            vec![0xff; 8],
        ];
        let errors =
            quotes.iter().map(|quote| build::ethernet().ipv4(ROUTER, HOST).icmp(3, 1, [0; 4]).payload(quote));
        let echo = build::ethernet().ipv4(ROUTER, HOST).icmp(0, 0, [0; 4]).payload(&quotes[0]);
        let segments = [
            segment(HOST, SERVER, SYNCHRONISE),
            segment(SERVER, HOST, SYNCHRONISE | ACK),
            segment(HOST, SERVER, ACK),
            segment(SERVER, HOST, FIN | ACK),
            segment(HOST, SERVER, RST),
        ];
        errors.chain([echo]).chain(segments).collect()
    }

    fn rows(workers: usize, show: impl Fn(&mut dyn Function, &Vec<u8>)) -> Vec<(Datum, Vec<u64>)> {
        let table = table_of(&SYN, &FunctionCall::new("syn"), (&frames(), workers), show);
        let row = |row: &TableRow| {
            (row.key[0].clone(), row.values.iter().map(Folded::weight).collect::<Vec<u64>>())
        };
        table.rows.by_key().into_iter().map(row).collect()
    }

    #[test]
    fn flags_packets_and_errors_count_to_hosts() {
        let packets = |function: &mut dyn Function, frame: &Vec<u8>| {
            let packet = build::packet(frame, LinkType::ETHERNET);
            function.item(&Item::Packet(&packet, &decode(&packet)));
        };
        let expected = vec![
            (Datum::Address(HOST.into()), vec![1, 1, 0, 0, 1, 1, 0, 3, 2, 1, 3, 1, 1, 1, 1, 1]),
            (Datum::Address(SERVER.into()), vec![3, 1, 1, 1, 0, 0, 1, 2, 3, 1, 0, 0, 0, 0, 0, 0]),
        ];
        for workers in [1, 2, 3] {
            assert_eq!(rows(workers, packets), expected, "{workers}");
        }
        // Beside sums of flows errors alone are shown.
        let errors = |function: &mut dyn Function, frame: &Vec<u8>| {
            let packet = build::packet(frame, LinkType::ETHERNET);
            each_error(&packet, &decode(&packet), |level, quote| {
                function.item(&Item::Error(&packet, level, quote));
            });
        };
        assert_eq!(
            rows(1, errors),
            [(Datum::Address(HOST.into()), vec![0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0])]
        );
    }

    /// SYNs of some hosts, as (source, target, ports), and a plain count of each host: targets, ports, and SYNs by destination and
    /// source port.
    type Sent = ([u8; 4], [u8; 4], [u16; 2]);
    type Plain = (BTreeSet<[u8; 4]>, BTreeSet<u16>, BTreeMap<u16, u64>, BTreeMap<u16, u64>);

    fn plain(sent: &[Sent]) -> BTreeMap<IpAddr, Plain> {
        let mut hosts: BTreeMap<IpAddr, Plain> = BTreeMap::new();
        for (source, target, [from, to]) in sent {
            let (targets, ports, sent_to, sent_from) = hosts.entry((*source).into()).or_default();
            targets.insert(*target);
            ports.insert(*to);
            *sent_to.entry(*to).or_default() += 1;
            *sent_from.entry(*from).or_default() += 1;
        }
        hosts
    }

    fn listed(call: &FunctionCall, sent: &[Sent], workers: usize) -> Table {
        let sent: Vec<(u64, &Sent)> = (0..).zip(sent).collect();
        table_of(&SYN, call, (&sent, workers), |function, (time, (source, target, ports))| {
            let frame =
                build::ethernet().ipv4(*source, *target).tcp(ports[0], ports[1], SYNCHRONISE).payload(&[]);
            let packet = Packet { time: Time(*time), ..build::packet(&frame, LinkType::ETHERNET) };
            function.item(&Item::Packet(&packet, &decode(&packet)));
        })
    }

    fn hosts(table: &Table) -> impl Iterator<Item = (IpAddr, SynHost, u64)> {
        table.rows.by_key().into_iter().map(|row| match row.key[..] {
            [Datum::Address(host)] => (host, SynHost::of(row).unwrap(), row.error),
            _ => panic!("{row:?}"),
        })
    }

    /// The counts of a sample: of the ports with the ten smallest hashes.
    fn sampled(counts: &BTreeMap<u16, u64>) -> Vec<(u128, u64)> {
        let mut all: Vec<(u128, u64)> = counts.iter().map(|(port, count)| ((*port).into(), *count)).collect();
        all.sort_by_key(|(port, _)| port.hash());
        all.truncate(SampledValues::MAX);
        all.sort_unstable();
        all
    }

    #[test]
    fn addresses_and_ports_are_those_of_a_plain_count_for_any_number_of_workers() {
        let mut state = 7;
        let mut random = |n: u64| next(&mut state) % n;
        for (of_hosts, of_targets, of_ports) in [(1, 200, 60_000), (5, 3, 3), (40, 200, 40), (3, 1, 1)] {
            let mut one = || {
                let (source, target) = (random(of_hosts) as u8, random(of_targets) as u8);
                (
                    [10, 0, 0, source],
                    [192, 0, 2, target],
                    [random(of_ports), random(of_ports)].map(|n| n as u16),
                )
            };
            let sent: Vec<Sent> = (0..3_000).map(|_| one()).collect();
            let expected = plain(&sent);
            let whole = listed(&FunctionCall::new("syn"), &sent, 1);
            for workers in [2, 3, 7] {
                assert_eq!(listed(&FunctionCall::new("syn"), &sent, workers), whole, "{workers}");
            }
            let mut seen = 0;
            for (host, found, error) in hosts(&whole) {
                let Some((targets, ports, to, from)) = expected.get(&host) else {
                    assert_eq!((found.targets.estimate(), found.last), (0, None));
                    continue;
                };
                assert_eq!(error, 0);
                assert_eq!(found.targets.estimate(), targets.len() as u64);
                assert_eq!(found.ports.estimate(), ports.len() as u64);
                let samples = found.samples.map(|sample| (sample.values(), sample.added()));
                let all = to.values().sum::<u64>();
                assert_eq!(samples, [(sampled(to), all), (sampled(from), all)]);
                let last = sent.iter().rposition(|(source, ..)| IpAddr::from(*source) == host).unwrap();
                assert_eq!(found.last, Some((last as u64, sent[last].1.into())));
                seen += 1;
            }
            assert_eq!(seen, expected.len());
        }
    }

    /// Only SYNs without ACK begin a connection, and a SYN that is sent again is one of the same port.
    #[test]
    fn answers_begin_nothing_and_repeated_syns_count() {
        let again = ([10, 0, 0, 1], [192, 0, 2, 1], [4000, 80]);
        let table = listed(&FunctionCall::new("syn"), &[again; 5], 1);
        let (_, host, _) = hosts(&table).next().unwrap();
        assert_eq!((host.targets.estimate(), host.ports.estimate()), (1, 1));
        assert_eq!(host.samples[0].values(), [(80, 5)]);
        assert_eq!(host.last, Some((4, [192, 0, 2, 1].into())));
        let (_, server, _) = hosts(&table).nth(1).unwrap();
        assert_eq!((server.targets, server.last), (DistinctValues::default(), None));
    }

    /// Where more hosts try many ports than there is room for, the errors of their rows say so.
    #[test]
    fn what_finds_no_room_is_in_the_error() {
        assert!(size_of::<(Address, Host)>() <= 256, "{}", size_of::<(Address, Host)>());
        let call = FunctionCall::new("syn").with("rows", 256);
        let sent: Vec<Sent> = (0..700_u32)
            .flat_map(|n| (0..160).map(move |host| (n, host)))
            .map(|(n, host)| {
                let [.., high, low] = n.to_be_bytes();
                ([10, 0, 0, host], [198, 51, high, low], [4000, n as u16])
            })
            .collect();
        let expected = plain(&sent);
        for workers in [1, 2] {
            let table = listed(&call, &sent, workers);
            let (mut short, mut whole) = (0, 0);
            for (host, found, error) in hosts(&table) {
                let Some((_, ports, ..)) = expected.get(&host) else { continue };
                let counted = found.ports.estimate();
                assert!(
                    counted <= 700 && ports.len() as u64 <= counted + error,
                    "{host}: {counted} + {error}"
                );
                // Each row has room for four.
                assert!(counted >= 4);
                if error == 0 { whole += 1 } else { short += 1 }
            }
            assert!(short > 0 && whole + short > 100, "{whole} and {short} of {workers}");
        }
    }
}
