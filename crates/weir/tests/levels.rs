//! Subscriptions over streams: what their functions see is what `weir streams` writes, of the flows that they cover and of no
//! others. Functions over control packets: they see those that an expression finds among all packets.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

#[path = "support/pass.rs"]
#[allow(dead_code)]
mod pass;
mod support;

use pass::{Loaded, Pass, settings};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use support::*;
use weir_api::{
    Count, Datum, Folded, FunctionCall, Hashed, Level, Owner, Reading, Snapshot, Subscription,
    SubscriptionId, SubscriptionSpec, SynHost,
};
use weir_engine::{Control, FlowConfig, FlowIdentity, FlowRecord, Plan, Tally, Worker};
use weir_filter::Filter;
use weir_flow::{FlowSink, FlowTable};
use weir_wire::build::{self, flags};
use weir_wire::{Direction, Fragment, LinkType, Network, Packet, PacketBuf, Time, Tunnel, addresses, decode};

/// Largest capture in packets.
const MAX_PACKETS: u64 = 20_000;

/// Whether an expression covers what a side of a flow sends.
type Covers = fn(&FlowIdentity, Direction) -> bool;

fn has_port(flow: &FlowIdentity, port: u16) -> bool {
    matches!(flow.key.proto, 6 | 17) && flow.key.port.contains(&port)
}

fn is_ten(address: [u8; 16]) -> bool {
    address[..13] == [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10]
}

/// Expressions over flows, and what they cover.
const EXPRESSIONS: [(&str, Covers); 7] = [
    ("", |_, _| true),
    ("tcp", |flow, _| flow.key.proto == 6),
    ("udp", |flow, _| flow.key.proto == 17),
    ("port 53 or port 80", |flow, _| has_port(flow, 53) || has_port(flow, 80)),
    ("tcp and not port 80", |flow, _| flow.key.proto == 6 && !has_port(flow, 80)),
    ("net 10.0.0.0/8", |flow, _| flow.key.addr.into_iter().any(is_ten)),
    ("src net 10.0.0.0/8", |flow, side| is_ten(flow.key.addr[sender(flow, side)])),
];

/// The place of a side in the flow's key.
fn sender(flow: &FlowIdentity, side: Direction) -> usize {
    usize::from((side == Direction::Forward) != flow.initiator_is_lower)
}

fn over_streams(expression: &str, functions: &[FunctionCall]) -> SubscriptionSpec {
    let spec = SubscriptionSpec::new(expression, expression, functions.to_vec());
    SubscriptionSpec { level: Level::Stream, ..spec }
}

/// The counts of the first function of each subscription with this name.
fn count(snapshot: &Snapshot, name: &str) -> Count {
    let counts = snapshot.answers.iter().filter(|answer| answer.label.subscription == name);
    counts.fold(Count::default(), |mut sum, answer| {
        if let Reading::Count(count) = &answer.reading {
            sum.add(count);
        }
        sum
    })
}

#[test]
fn functions_see_the_chunks_that_are_handed_on_of_the_flows_that_they_cover() {
    let bytes = [FunctionCall::new("bytes")];
    let hands_on = SubscriptionSpec::delivering("chunks", Level::Stream, vec![FunctionCall::new("stream")]);
    let specs = EXPRESSIONS.iter().map(|(text, _)| over_streams(text, &bytes)).chain([hands_on]);
    let plan = Arc::new(Plan::new("", specs.collect(), settings()).unwrap());
    let (mut captures, mut chunks, mut covered) = (0, 0, 0);
    for path in diverse(150) {
        let capture = Loaded::read(&path);
        if !(2..=MAX_PACKETS).contains(&capture.len()) {
            continue;
        }
        captures += 1;
        for workers in [1, 2, 3, 7] {
            let outcome =
                Pass::new(&plan, workers, capture.ample_memory()).run(&capture, capture.interval(3), |_| ());
            let total = outcome.total();
            chunks += outcome.chunks.len();
            for (text, covers) in EXPRESSIONS {
                let mut expected = Count::default();
                for (_, _, bytes) in outcome.chunks.iter().filter(|(flow, side, _)| covers(flow, *side)) {
                    expected.add(&Count { packets: u64::from(*bytes > 0), bytes: *bytes as u64 });
                }
                assert_eq!(count(&total, text), expected, "{}, {workers} workers: {text}", path.display());
                covered += expected.bytes;
            }
        }
        // The other way to the bytes of TCP.
        let ran = weir(["streams", text(&path), "-o", "-"]);
        let outcome = Pass::new(&plan, 1, capture.ample_memory()).run(&capture, 10_000_000_000, |_| ());
        assert_eq!(count(&outcome.total(), "tcp").bytes, ran.stdout.len() as u64, "{}", path.display());
    }
    println!("{captures} captures, {chunks} chunks, {covered} bytes covered");
    assert!(covered > 100_000);
}

#[test]
fn streams_are_reassembled_only_for_the_flows_that_a_subscription_covers() {
    let calls = [FunctionCall::new("bytes"), FunctionCall::new("top").with("by", "destination")];
    let (mut fewer, mut captures) = (0, 0);
    for path in diverse(120) {
        let capture = Loaded::read(&path);
        if !(2..=MAX_PACKETS).contains(&capture.len()) {
            continue;
        }
        let run = |expression: &str| {
            let plan = Arc::new(Plan::new("", vec![over_streams(expression, &calls)], settings()).unwrap());
            let (interval, memory) = (capture.interval(3), capture.ample_memory());
            Pass::new(&plan, 2, memory).run(&capture, interval, |_| ()).total()
        };
        let (all, some) = (run("tcp"), run("tcp port 80 or tcp port 25"));
        for (total, name) in [(&all, "tcp"), (&some, "tcp port 80 or tcp port 25")] {
            let count = count(total, name);
            assert_eq!(count.bytes, total.sessions.stream_bytes, "{}: {name}", path.display());
            // Each byte is in the list of its receiver.
            let lists = total.answers.iter().filter_map(|answer| match &answer.reading {
                Reading::Top(top) => Some(top.rows.iter().map(|row| row.count.bytes).sum::<u64>()),
                _ => None,
            });
            assert_eq!(lists.sum::<u64>(), count.bytes);
            // No protocol is looked for.
            assert_eq!((total.sessions.sessions, total.sessions.with_payload), (0, 0));
        }
        captures += 1;
        fewer += u32::from(some.sessions.streams < all.sessions.streams);
    }
    println!("{captures} captures; {fewer} have TCP streams that were not reassembled");
    assert!(fewer > 0);
}

/// Segments of two connections that are open all the time, 100 bytes each: to port 80 and to port 25.
fn segments() -> PacketBuf {
    let mut packets = PacketBuf::default();
    for n in 0..100_u32 {
        for (port, begin) in [(80, u32::MAX - 3_000), (25, 7)] {
            let at = begin.wrapping_add(n * 100);
            let frame =
                build::ethernet().ipv4([10, 0, 0, 1], [10, 0, 0, 2]).tcp(40_000, port, flags::ACK).seq(at);
            let frame = frame.ack(1).payload(&[b'x'; 100]);
            let time = Time(1_000_000_000 + u64::from(n) * 1_000_000);
            packets.push(&Packet { time, ..build::packet(&frame, LinkType::ETHERNET) });
        }
    }
    packets
}

#[test]
fn a_young_subscription_sees_open_flows_from_their_next_packet_on() {
    let one = |id: u32, spec: SubscriptionSpec| Subscription {
        id: SubscriptionId(id),
        owner: Owner::Client(1),
        spec: Arc::new(spec),
    };
    let bytes = [FunctionCall::new("bytes")];
    let web = || one(1, over_streams("tcp port 80", &bytes));
    let all = || one(2, over_streams("", &bytes));
    let log = || {
        let spec = SubscriptionSpec::delivering("log", Level::Record, vec![FunctionCall::new("rows")]);
        one(3, spec)
    };
    let packets = segments();
    let slots = &packets.slots;
    // The plans after each 40 packets, of which 20 are of each flow; alone, and beside a log that is there from the start or
    // comes later.
    let plans = [vec![], vec![web()], vec![all(), web()], vec![], vec![web()]];
    for with_log in [vec![], vec![0, 1, 2, 3, 4], vec![2, 3, 4]] {
        let plans = plans.iter().enumerate().map(|(at, subscriptions)| {
            let mut subscriptions = subscriptions.clone();
            if with_log.contains(&at) {
                subscriptions.insert(0, log());
            }
            Arc::new(Plan::of(None, at as u64 + 1, "", &subscriptions, settings()).unwrap())
        });
        let plans: Vec<Arc<Plan>> = plans.collect();
        let mut worker = Worker::new(Arc::clone(&plans[0]), &FlowConfig::default());
        let mut seen = Vec::new();
        for (plan, slots) in plans.iter().zip(slots.chunks(40)) {
            worker.change_plan(Arc::clone(plan), &mut ());
            worker.batch(weir_wire::Batch { bytes: &packets.bytes, slots }, &mut ());
            let snapshot = worker.hand_over(&mut ());
            // No early byte waits: a stream that was not read for a time begins anew.
            seen.push((count(&snapshot, "tcp port 80").bytes, count(&snapshot, "").bytes));
        }
        assert_eq!(seen, [(0, 0), (2_000, 0), (2_000, 4_000), (0, 0), (2_000, 0)], "{with_log:?}");
        let last = worker.finish(&mut ());
        assert_eq!(count(&last, "tcp port 80"), Count::default());
        // The flows began before the log, or are parsed.
        let sessions = worker.sessions().unwrap();
        let parsed = if with_log.first() == Some(&0) { 2 } else { 0 };
        assert_eq!(sessions.sessions, parsed, "{with_log:?}");
    }
}

#[test]
fn early_segments_wait_for_functions_over_streams_if_nothing_else_is_read() {
    let segment = |n: u32| {
        let frame = build::ethernet().ipv4([10, 0, 0, 1], [10, 0, 0, 2]).tcp(40_000, 80, flags::ACK);
        frame.seq(1_000 + n * 100).ack(1).payload(&[b'a' + n as u8; 100])
    };
    // The third segment comes before the second one.
    let packets: Vec<(u64, Vec<u8>)> =
        [0, 2, 1, 3].into_iter().zip(1_000_000_000..).map(|(n, time)| (time, segment(n))).collect();
    let folder = tempfile::tempdir().unwrap();
    let capture = put(folder.path(), "early.pcap", &pcap(1, &packets));
    let config = "[[subscription]]\nname = \"payload\"\nlevel = \"stream\"\nchain = [\"bytes\"]\n";
    let config = put(folder.path(), "weir.toml", config.as_bytes());
    let lines = weir(["-n", "-j", "-c", text(&config), text(&capture)]).exits(0).json();
    let line = lines.iter().find(|line| line["subscription"] == "payload").unwrap();
    assert_eq!((line["packets"].as_u64(), line["bytes"].as_u64()), (Some(4), Some(400)), "{line}");
}

/// The TCP packets of a host and the ICMP errors that return to it; the addresses that it sends SYNs without ACK to; and how many
/// of them have each destination and source port.
#[derive(Clone, Debug, Default, PartialEq)]
struct OfHost {
    sums: [u64; 11],
    targets: BTreeSet<IpAddr>,
    ports: [BTreeMap<u16, u64>; 2],
}

/// What a row of `syn` has of these targets: numbers of addresses and ports, and samples of ports.
type Listed = ([u64; 11], [u64; 2], [Vec<(u128, u64)>; 2]);

impl OfHost {
    fn listed(&self) -> Listed {
        let sample = |ports: &BTreeMap<u16, u64>| {
            let mut all: Vec<(u128, u64)> =
                ports.iter().map(|(port, count)| ((*port).into(), *count)).collect();
            all.sort_by_key(|(port, _)| port.hash());
            all.truncate(10);
            all.sort_unstable();
            all
        };
        let [to, from] = &self.ports;
        (self.sums, [self.targets.len() as u64, to.len() as u64], [sample(to), sample(from)])
    }
}

/// IPv4 hosts, counted packet by packet with expressions.
fn by_host(capture: &Loaded) -> BTreeMap<IpAddr, OfHost> {
    let filter = |text: &str| Filter::compile(text, &settings().filter).unwrap();
    let [tcp, error, syn, synack, fin, rst] = [
        "ip proto \\tcp",
        "icmp[0] == 3 or icmp[0] == 4 or icmp[0] == 5 or icmp[0] == 11 or icmp[0] == 12",
        "tcp[tcpflags] & tcp-syn != 0",
        "tcp[tcpflags] & (tcp-syn|tcp-ack) == (tcp-syn|tcp-ack)",
        "tcp[tcpflags] & tcp-fin != 0",
        "tcp[tcpflags] & tcp-rst != 0",
    ]
    .map(filter);
    let mut hosts: BTreeMap<IpAddr, OfHost> = BTreeMap::new();
    for packet in capture.packets() {
        let layers = decode(&packet);
        let is_error = error.matches(&packet, &layers);
        if layers.network_kind != Network::Ipv4 || !is_error && !tcp.matches(&packet, &layers) {
            continue;
        }
        let (source, destination) = addresses(&packet, &layers).unwrap();
        let [from, to] = [source, destination].map(|end| Ipv6Addr::from(end).to_canonical());
        let [syn, synack, fin, rst] =
            [&syn, &synack, &fin, &rst].map(|filter| u64::from(filter.matches(&packet, &layers)));
        let mut add = |host, values: [u64; 11]| {
            let OfHost { sums, .. } = hosts.entry(host).or_default();
            sums.iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
        };
        if is_error {
            add(to, [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
            continue;
        }
        add(from, [syn + fin, syn, synack, fin, 0, rst, 0, 1, 0, 0, 0]);
        add(to, [rst, 0, 0, 0, fin, 0, rst, 0, 1, syn, 0]);
        if (syn, synack) == (1, 0) {
            let host = hosts.entry(from).or_default();
            host.targets.insert(to);
            // The ports of the header, at its beginning.
            for (ports, port) in host.ports.iter_mut().zip([layers.ports[1], layers.ports[0]]) {
                *ports.entry(port).or_default() += 1;
            }
        }
    }
    hosts
}

/// The rows of IPv4 hosts of a reading of `syn`.
fn rows(snapshot: &Snapshot, name: &str) -> BTreeMap<IpAddr, Listed> {
    let mut rows = BTreeMap::new();
    for answer in snapshot.answers.iter().filter(|answer| answer.label.subscription == name) {
        let Reading::Table(table) = &answer.reading else { panic!("{answer:?}") };
        assert!(table.is_exact());
        for row in &table.rows {
            let [Datum::Address(host)] = row.key[..] else { panic!("{row:?}") };
            let sums = row.values.iter().take(11).map(|value| match value {
                Folded::Sum(sum) => *sum,
                other => panic!("{other:?}"),
            });
            let SynHost { targets, ports, last, samples, .. } = SynHost::of(row).unwrap();
            assert_eq!(last.is_some(), targets.estimate() > 0);
            if host.is_ipv4() {
                let sums = sums.collect::<Vec<_>>().try_into().unwrap();
                let listed = samples.map(|sample| sample.values());
                rows.insert(host, (sums, [targets.estimate(), ports.estimate()], listed));
            }
        }
    }
    rows
}

/// Whether the packets of a capture are whole, without errors and tunnels, so that each counts to the flow of its outermost
/// headers.
fn is_plain(capture: &Loaded) -> bool {
    let ip = Filter::compile("ip", &settings().filter).unwrap();
    capture.packets().all(|packet| {
        let layers = decode(&packet);
        // Expressions look through fewer encapsulations than flows do: not through FabricPath.
        ip.matches(&packet, &layers) == (layers.network_kind == Network::Ipv4)
            && layers.tunnel == Tunnel::None
            && layers.error.is_none()
            && layers.fragment == Fragment::Whole
            && weir_wire::further_frames(&packet).next().is_none()
    })
}

#[test]
fn control_packets_are_those_that_an_expression_finds_among_all_packets() {
    let syn = || vec![FunctionCall::new("syn").with("rows", 65_536)];
    let specs = ["", "ip", "tcp"]
        .map(|expression| SubscriptionSpec::new(&format!("{expression}!"), expression, syn()));
    let plan = Arc::new(Plan::new("", specs.into(), settings()).unwrap());
    let (mut captures, mut packets, mut hosts, mut errors) = (0, 0, 0, 0);
    for path in diverse(300) {
        let capture = Loaded::read(&path);
        if !(2..=MAX_PACKETS).contains(&capture.len()) || !is_plain(&capture) {
            continue;
        }
        let expected = by_host(&capture);
        // An expression leaves out the errors that it does not match, and the hosts that only draw errors.
        let without_errors = expected.iter().map(|(host, of)| {
            let mut of = of.clone();
            of.sums[10] = 0;
            (*host, of)
        });
        let without_errors = without_errors.filter(|(_, of)| of.sums != [0; 11]);
        let without_errors: BTreeMap<IpAddr, Listed> =
            without_errors.map(|(host, of)| (host, of.listed())).collect();
        let expected: BTreeMap<IpAddr, Listed> =
            expected.iter().map(|(host, of)| (*host, of.listed())).collect();
        for workers in [1, 2, 3, 7] {
            let total = Pass::new(&plan, workers, capture.ample_memory())
                .run(&capture, capture.interval(3), |_| ())
                .total();
            // From control packets and tallies, and from the packets that an expression selects.
            for (name, expected) in [("!", &expected), ("ip!", &expected), ("tcp!", &without_errors)] {
                assert_eq!(rows(&total, name), *expected, "{}, {workers} workers: {name}", path.display());
            }
        }
        captures += 1;
        hosts += expected.len();
        packets += expected.values().map(|values| values.0[0]).sum::<u64>();
        errors += expected.values().map(|values| values.0[10]).sum::<u64>();
    }
    println!(
        "{captures} captures, {hosts} hosts with {packets} packets that begin or end connections, {errors} ICMP errors"
    );
    assert!(packets > 200 && errors > 0);
}

/// Expressions that a sender or a receiver decides, at times in both directions of a flow.
const DIRECTED: [&str; 6] = [
    "src net 10.0.0.0/8",
    "dst net 10.0.0.0/8 or dst net 192.168.0.0/16",
    "src port 53 or dst port 80",
    "ip and not src portrange 1-1023",
    "tcp and dst portrange 1024-65535",
    "src net 10.0.0.0/8 and src portrange 1-1023",
];

#[test]
fn flows_have_the_packets_of_the_directions_that_an_expression_selects() {
    let over_flows = |name: String, expression: &str, functions: Vec<FunctionCall>| SubscriptionSpec {
        level: Level::Flow,
        ..SubscriptionSpec::new(&name, expression, functions)
    };
    let packets = || FunctionCall::new("packets");
    let selected = |text: &str| FunctionCall::new("where").with("expression", text);
    let specs = DIRECTED.iter().flat_map(|text| {
        let begins = over_flows((*text).to_owned(), text, vec![packets()]);
        let behind = over_flows(format!("{text} behind"), "", vec![selected(text), packets()]);
        // What another function before it has left.
        let both = vec![selected("src net 10.0.0.0/8"), selected(text), packets()];
        [begins, behind, over_flows(format!("{text} of ten"), "ip", both)]
    });
    let plan = Arc::new(Plan::new("", specs.collect(), settings()).unwrap());
    let filter = |text: &str| Filter::compile(text, &settings().filter).unwrap();
    let ten = filter("src net 10.0.0.0/8");
    let (mut captures, mut found) = (0, 0);
    for path in diverse(300) {
        let capture = Loaded::read(&path);
        if !(2..=MAX_PACKETS).contains(&capture.len()) || !is_plain(&capture) {
            continue;
        }
        captures += 1;
        for workers in [1, 2, 3, 7] {
            let total = Pass::new(&plan, workers, capture.ample_memory())
                .run(&capture, capture.interval(3), |_| ())
                .total();
            for text in DIRECTED {
                let (one, mut all, mut both) = (filter(text), Count::default(), Count::default());
                for packet in capture.packets() {
                    let layers = decode(&packet);
                    let count = Count { packets: 1, bytes: u64::from(packet.wire_len) };
                    // A network is also one of ARP, which is no flow.
                    if matches!(layers.network_kind, Network::Ipv4 | Network::Ipv6)
                        && one.matches(&packet, &layers)
                    {
                        all.add(&count);
                        if ten.matches(&packet, &layers) {
                            both.add(&count);
                        }
                    }
                }
                let name = path.display();
                assert_eq!(count(&total, text), all, "{name}, {workers} workers: {text}");
                assert_eq!(
                    count(&total, &format!("{text} behind")),
                    all,
                    "{name}, {workers} workers: {text}"
                );
                assert_eq!(
                    count(&total, &format!("{text} of ten")),
                    both,
                    "{name}, {workers} workers: {text}"
                );
                found += all.packets;
            }
        }
    }
    println!("{captures} captures, {found} packets");
    assert!(found > 10_000);
}

/// Counts the control packets of a table of flows.
#[derive(Default)]
struct Begun {
    asks: bool,
    /// Control packets, those that begin a flow, those with flags, and those without either: the first of flows that follow a
    /// closed connection.
    seen: [u64; 4],
}

impl FlowSink for Begun {
    fn end(&mut self, _: &FlowRecord) {}

    fn tally(&mut self, _: &Tally<'_>) {}

    fn asks_control(&self) -> bool {
        self.asks
    }

    fn control(&mut self, control: &Control<'_>) {
        let is_flag = control.flags & (flags::SYN | flags::FIN | flags::RST) != 0;
        let [all, begins, flagged, others] = &mut self.seen;
        *all += 1;
        *begins += u64::from(control.tally.begins);
        *flagged += u64::from(is_flag);
        *others += u64::from(!is_flag && !control.tally.begins);
    }
}

#[test]
fn the_first_packet_of_each_flow_is_a_control_packet_if_one_asks() {
    let (mut flows, mut flagged) = (0, 0);
    for path in diverse(200) {
        let capture = Loaded::read(&path);
        if capture.len() > MAX_PACKETS {
            continue;
        }
        for asks in [true, false] {
            let mut table =
                FlowTable::new(&FlowConfig { memory: capture.ample_memory(), ..FlowConfig::default() });
            let mut begun = Begun { asks, ..Begun::default() };
            for chunk in &capture.chunks {
                let layers: Vec<_> = chunk.batch().packets().map(|packet| decode(&packet)).collect();
                table.batch(chunk.batch(), &layers, &mut begun);
            }
            if asks {
                // Datagrams without their first fragment are reported when they are counted, at the end.
                table.drain(&mut begun);
                let stats = table.stats();
                let others = begun.seen[3];
                assert_eq!(begun.seen[1], stats.created - stats.followed, "{}", path.display());
                assert!(others <= stats.followed, "{}: {others} others", path.display());
                flows += begun.seen[1];
                flagged += begun.seen[2];
            } else {
                assert_eq!(begun.seen, [0; 4]);
            }
        }
    }
    println!("{flows} flows, {flagged} packets with SYN, FIN or RST");
    assert!(flows > 1_000 && flagged > 1_000);
}
