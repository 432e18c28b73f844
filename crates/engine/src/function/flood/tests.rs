use super::*;
use crate::keyed::next;
use crate::{ChecksumMode, FlowConfig, Plan, Settings, Tally, Worker};
use weir_api::{FunctionCall, Snapshot, SubscriptionSpec, Table};
use weir_filter::Options;
use weir_wire::build::{self, flags};
use weir_wire::{FlowKey, LinkType, Packet, PacketBuf, Tag, Time, decode, steer_hash};

const VICTIM: [u8; 4] = [10, 0, 0, 1];
const CLIENT: [u8; 4] = [10, 0, 0, 2];
const SERVER: [u8; 4] = [192, 0, 2, 7];
const SECOND: u64 = 1_000_000_000;

/// The n-th of many hosts.
fn host(n: u8) -> [u8; 4] {
    [198, 51, 100, n]
}

fn tcp(from: ([u8; 4], u16), to: ([u8; 4], u16), flags: u8, (seq, ack): (u32, u32)) -> Vec<u8> {
    build::ethernet().ipv4(from.0, to.0).tcp(from.1, to.1, flags).seq(seq).ack(ack).payload(&[])
}

fn syn(from: ([u8; 4], u16), to: ([u8; 4], u16)) -> Vec<u8> {
    tcp(from, to, flags::SYN, (100, 0))
}

fn udp(from: ([u8; 4], u16), to: ([u8; 4], u16)) -> Vec<u8> {
    build::ethernet().ipv4(from.0, to.0).udp(from.1, to.1).payload(b"0123456789")
}

/// The table of workers that read parts of a run, each in its own interval, and of which each reads its own hosts.
fn table(parts: &[Vec<Vec<u8>>], workers: usize, expression: &str) -> Table {
    let settings = Settings {
        filter: Options::default(),
        checksum: ChecksumMode::Off,
        seeds: 1_u64.into(),
        chosen: None,
        own_apps: Default::default(),
        rules: None,
    };
    let call = FunctionCall::new("flood");
    let plan = Arc::new(
        Plan::new("", vec![SubscriptionSpec::new("list", expression, vec![call])], settings).unwrap(),
    );
    let mut whole = Snapshot::default();
    for mine in 0..workers {
        let config = FlowConfig { memory: 1 << 20, ..FlowConfig::default() };
        let mut worker = Worker::new(Arc::clone(&plan), &config);
        for (part, frames) in (1_u64..).zip(parts) {
            let mut chunk = PacketBuf::default();
            for frame in frames {
                let packet = build::packet(frame, LinkType::ETHERNET);
                if steer_hash(&packet, &decode(&packet)) as usize % workers == mine {
                    chunk.push(&Packet { time: Time(part * SECOND), ..packet });
                }
            }
            worker.batch(chunk.batch(), &mut ());
            whole.merge(&worker.tick(Time((part + 1) * SECOND), &mut ()));
        }
        whole.merge(&worker.finish(&mut ()));
    }
    whole.fill();
    let Some(Reading::Table(table)) = whole.answers.first().map(|answer| &answer.reading) else {
        panic!("{whole:?}")
    };
    table.clone()
}

/// The rows of a table as texts, `host kind service protocol port: packets bytes sources answered`.
fn texts(table: &Table) -> Vec<String> {
    let word = |part: &Datum| match part {
        Datum::Address(address) => address.to_string(),
        Datum::Text(text) => text.to_string(),
        Datum::Number(number) => number.to_string(),
        _ => "-".to_owned(),
    };
    let row = |row: &TableRow| {
        assert_eq!(row.error, 0);
        let key: Vec<String> = row.key.iter().map(word).collect();
        let values: Vec<String> = row.values.iter().map(|value| value.weight().to_string()).collect();
        format!("{}: {}", key.join(" "), values.join(" "))
    };
    let mut texts: Vec<String> = table.rows.iter().map(row).collect();
    texts.sort();
    texts
}

/// The rows of one interval, which are equal with any number of workers.
fn rows(frames: &[Vec<u8>]) -> Vec<String> {
    let whole = table(&[frames.to_vec()], 1, "");
    for workers in [2, 3, 7] {
        assert_eq!(table(&[frames.to_vec()], workers, ""), whole, "{workers} workers");
    }
    texts(&whole)
}

#[test]
fn syns_count_by_destination_and_port_with_their_sources_and_answers() {
    let mut frames: Vec<Vec<u8>> = (0..50).map(|n| syn((host(n), 4000), (VICTIM, 25_565))).collect();
    // Each SYN counts, and each source once.
    frames.extend((0..10).map(|n| syn((host(n), 4001), (VICTIM, 25_565))));
    frames.extend((0..4).map(|n| syn((host(n), 5000), (SERVER, 80))));
    frames.extend((0..3).map(|n| tcp((SERVER, 80), (host(n), 5000), flags::SYN | flags::ACK, (900, 101))));
    // A refusal is no answer, and was asked for.
    frames.push(tcp((SERVER, 80), (host(3), 5000), flags::RST | flags::ACK, (0, 101)));
    assert_eq!(rows(&frames), ["10.0.0.1 syn - 6 25565: 60 3240 50 0", "192.0.2.7 syn - 6 80: 4 216 4 3"]);
}

#[test]
fn what_a_host_did_not_ask_for_counts_by_the_service_that_reflects_it() {
    let both = flags::SYN | flags::ACK;
    // Reflectors send their answer several times.
    let mut frames: Vec<Vec<u8>> = (0..20)
        .map(|n| tcp((host(n % 10), 443), (VICTIM, 4000 + u16::from(n % 10)), both, (1, 101)))
        .collect();
    frames.push(tcp((host(30), 80), (VICTIM, 4000), flags::RST, (1, 0)));
    frames.push(tcp((host(31), 40_000), (VICTIM, 22), flags::RST, (1, 0)));
    // Two datagrams of a flow, and others of listed services, to whatever port.
    frames.extend([53, 53].map(|port| udp((host(1), port), (VICTIM, 7777))));
    frames.push(udp((host(2), 53), (VICTIM, 80)));
    frames
        .extend([19, 123, 161, 389, 1900, 11_211, 500, 4500].map(|port| udp((host(3), port), (VICTIM, 80))));
    // A server by its port alone.
    frames.push(udp((host(4), 5060), (VICTIM, 33_333)));
    assert_eq!(
        rows(&frames),
        [
            "10.0.0.1 reflected chargen 17 19: 1 52 1 0",
            "10.0.0.1 reflected dns 17 53: 3 156 2 0",
            "10.0.0.1 reflected isakmp 17 4500: 1 52 1 0",
            "10.0.0.1 reflected isakmp 17 500: 1 52 1 0",
            "10.0.0.1 reflected ldap 17 389: 1 52 1 0",
            "10.0.0.1 reflected memcached 17 11211: 1 52 1 0",
            "10.0.0.1 reflected ntp 17 123: 1 52 1 0",
            "10.0.0.1 reflected snmp 17 161: 1 52 1 0",
            "10.0.0.1 reflected ssdp 17 1900: 1 52 1 0",
            "10.0.0.1 reflected udp 17 5060: 1 52 1 0",
            "10.0.0.1 rst tcp 6 22: 1 54 1 0",
            "10.0.0.1 rst tcp 6 80: 1 54 1 0",
            "10.0.0.1 synack tcp 6 443: 20 1080 10 0",
        ]
    );
}

#[test]
fn what_a_host_asked_for_is_no_reflection() {
    let both = flags::SYN | flags::ACK;
    let (a, b) = ((CLIENT, 4000), (SERVER, 80));
    let (ask, reset) = ((CLIENT, 4001), (SERVER, 81));
    let frames = [
        // A connection that is closed, and a late RST after it.
        syn(a, b),
        tcp(b, a, both, (900, 101)),
        tcp(a, b, flags::ACK, (101, 901)),
        tcp(a, b, flags::FIN | flags::ACK, (101, 901)),
        tcp(b, a, flags::FIN | flags::ACK, (901, 102)),
        tcp(a, b, flags::ACK, (102, 902)),
        tcp(b, a, flags::RST, (902, 0)),
        // One that is refused.
        syn(ask, reset),
        tcp(reset, ask, flags::RST | flags::ACK, (0, 101)),
        // One that its initiator gives up.
        syn((CLIENT, 4002), (SERVER, 82)),
        tcp((CLIENT, 4002), (SERVER, 82), flags::RST, (101, 0)),
        // Answers of servers, and questions from the ports of servers.
        udp((CLIENT, 4000), (SERVER, 53)),
        udp((SERVER, 53), (CLIENT, 4000)),
        udp((SERVER, 53), (CLIENT, 4000)),
        udp((CLIENT, 500), (SERVER, 500)),
        udp((CLIENT, 4500), (SERVER, 4500)),
        udp((SERVER, 4500), (CLIENT, 4500)),
    ];
    assert_eq!(
        rows(&frames),
        [
            "192.0.2.7 syn - 6 80: 1 54 1 1",
            "192.0.2.7 syn - 6 81: 1 54 1 0",
            "192.0.2.7 syn - 6 82: 1 54 1 0",
            "192.0.2.7 udp - 17 4500: 1 52 1 1",
            "192.0.2.7 udp - 17 500: 1 52 1 0",
            "192.0.2.7 udp - 17 53: 1 52 1 2",
        ]
    );
}

#[test]
fn datagrams_icmp_and_fragments_count_by_destination() {
    let ping =
        |from, to, kind| build::ethernet().ipv4(from, to).icmp(kind, 0, [0, 1, 0, 1]).payload(b"0123456789");
    let fragment = |from, id, offset: u16, more| {
        let packet = build::ethernet().ipv4(from, VICTIM).fragment(id, offset, more);
        match offset {
            0 => packet.udp(53, 7777).payload(&[0; 8]),
            _ => packet.proto(UDP).raw(&[]).payload(&[0; 16]),
        }
    };
    let mut frames: Vec<Vec<u8>> = (0..30).map(|n| udp((host(n), 4000), (VICTIM, 9999))).collect();
    frames.extend((0..5).map(|n| ping(host(n), VICTIM, 8)));
    frames.push(ping(VICTIM, host(0), 0));
    // An error and an answer that nothing was sent for.
    frames.push(build::ethernet().ipv4(host(9), VICTIM).icmp(3, 3, [0; 4]).payload(&[0; 28]));
    frames.push(ping(host(8), VICTIM, 0));
    // The fragments of a datagram, in any order, are of its flow.
    frames.extend([fragment(host(1), 1, 16, false), fragment(host(1), 1, 0, true)]);
    frames.extend([fragment(host(2), 1, 0, true), fragment(host(2), 1, 16, false)]);
    // Others have no first one.
    frames.extend((3..9).map(|n| fragment(host(n), 1, 16, true)));
    frames.push(fragment(host(3), 2, 32, true));
    assert_eq!(
        rows(&frames),
        [
            "10.0.0.1 fragment - 17 -: 7 350 6 0",
            "10.0.0.1 icmp - 1 -: 7 382 7 1",
            "10.0.0.1 reflected dns 17 53: 4 200 2 0",
            "10.0.0.1 udp - 17 9999: 30 1560 30 0",
        ]
    );
}

/// What was asked for in an interval is so in those that follow, and what was not remains it until the host sends something.
#[test]
fn what_was_asked_for_does_not_depend_on_intervals() {
    let reflected = || udp((SERVER, 53), (VICTIM, 7777));
    let parts = [
        vec![udp((CLIENT, 4000), (SERVER, 53)), reflected()],
        vec![udp((SERVER, 53), (CLIENT, 4000)), reflected(), reflected()],
        vec![udp((SERVER, 53), (CLIENT, 4000)), udp((VICTIM, 7777), (SERVER, 53)), reflected()],
    ];
    let expected = ["10.0.0.1 reflected dns 17 53: 3 156 1 0", "192.0.2.7 udp - 17 53: 2 104 2 3"];
    for workers in [1, 3] {
        assert_eq!(texts(&table(&parts, workers, "")), expected, "{workers} workers");
    }
}

#[test]
fn packets_that_an_expression_selects_do_not_show_what_was_asked_for() {
    let both = flags::SYN | flags::ACK;
    let frames = vec![
        syn((CLIENT, 4000), (SERVER, 80)),
        tcp((SERVER, 80), (CLIENT, 4000), both, (900, 101)),
        tcp((host(1), 443), (VICTIM, 4000), both, (900, 101)),
        udp((CLIENT, 4000), (SERVER, 53)),
        udp((host(1), 53), (VICTIM, 7777)),
    ];
    for workers in [1, 3] {
        assert_eq!(
            texts(&table(std::slice::from_ref(&frames), workers, "ip")),
            [
                "192.0.2.7 syn - 6 80: 1 54 1 1",
                "192.0.2.7 udp - 17 53: 1 52 1 0",
                "198.51.100.1 syn - 6 443: 0 0 0 1",
                "198.51.100.1 udp - 17 53: 0 0 0 1",
            ]
        );
    }
}

/// A datagram between these addresses and ports, as the tally of a flow.
fn datagram(function: &mut dyn Function, from: ([u8; 16], u16), to: ([u8; 16], u16)) {
    let key = FlowKey { addr: [from.0, to.0], port: [from.1, to.1], proto: UDP, ..FlowKey::default() };
    function.item(&Item::Tally(&Tally {
        key: &key,
        source_is_lower: true,
        initiator_is_lower: true,
        vlan: 0,
        tag: Tag::NONE,
        packets: 1,
        bytes: 60,
        begins: true,
        carrier: false,
        unasked: true,
    }));
}

#[test]
fn a_flood_of_random_addresses_hides_no_flooded_host_and_takes_no_more_memory() {
    for rows in [16, 256] {
        let call = FunctionCall::new("flood").with("rows", rows);
        let stated = FLOOD.memory(&call).unwrap();
        let mut function = FLOOD.call(&call, 1_u64).unwrap();
        let mut state = 1;
        let mut random = || [next(&mut state).to_be_bytes(), next(&mut state).to_be_bytes()].concat();
        let mut address = || -> [u8; 16] { random().try_into().unwrap() };
        let victim = address();
        for n in 0..40_000_u32 {
            // Most destinations occur once, and some have many sources, of which others are below the lowest that counts.
            let low = u128::from(n).to_be_bytes();
            datagram(&mut *function, (address(), 4000), (address(), 9));
            datagram(&mut *function, (low, 4000), ([n as u8 % 8; 16], 9));
            if n % 4 == 0 {
                datagram(&mut *function, (address(), 4000), (victim, 80));
            }
            if n % 1000 == 0 {
                assert!(function.held() <= stated.state, "{rows} rows: {} > {stated:?}", function.held());
            }
        }
        assert!(function.held() <= stated.state);
        let reading = function.take();
        assert!(reading.memory() <= stated.reading, "{rows} rows: {} > {stated:?}", reading.memory());
        let Reading::Table(table) = reading else { panic!("a table") };
        let key = vec![
            Datum::Address(std::net::Ipv6Addr::from(victim).into()),
            Datum::Text("udp".into()),
            Datum::Nothing,
            Datum::Number(17),
            Datum::Number(80),
        ];
        let row = table.rows.iter().find(|row| row.key == key).unwrap();
        assert!(row.weight() <= 10_000 && 10_000 <= row.weight() + row.error, "{row:?}");
        let sources = row.values[2].weight();
        assert!((8_500..11_500).contains(&sources), "{rows} rows: {sources} sources");
        // Sources that no host has are one.
        let low = table.rows.iter().filter(|row| row.weight() > 1_000 && row.key != key);
        assert!(low.clone().count() >= 4 && low.clone().all(|row| row.values[2].weight() == 1));
        let all = table.rows.iter().map(TableRow::weight).sum::<u64>();
        assert!(all <= 90_000 && table.absent > 0, "{all}");
    }
}

/// Fragments have no port: a reflection states those of its protocol to its target, with any number of workers.
#[test]
fn a_reflection_states_the_fragments_beside_it() {
    let call = FunctionCall::new("flooded");
    let address = |host: [u8; 4]| std::net::Ipv4Addr::from(host).to_ipv6_mapped().octets();
    let reflector = |n: u16| address([198, 51, n.to_be_bytes()[0], n.to_be_bytes()[1]]);
    let interval = weir_api::Interval { start: 0, end: 30 * SECOND };
    let found = |fragments: u16, workers: usize| {
        let mut all: Vec<_> = (0..workers).map(|_| FLOODED.call(&call, 1_u64).unwrap()).collect();
        let packets = (0..600).map(|n| (n, (53, 7777), VICTIM));
        let packets = packets.chain((0..fragments).map(|n| (n, (0, 0), VICTIM)));
        for (n, (from, to), host) in packets.chain((0..9).map(|n| (n, (0, 0), CLIENT))) {
            datagram(&mut *all[usize::from(n) % workers], (reflector(n), from), (address(host), to));
        }
        let readings = all.iter_mut().map(|function| function.take());
        let whole = readings.reduce(|mut one, other| {
            one.merge(&other);
            one
        });
        judge::Floods.judge(&whole.unwrap(), interval, interval, &|_| false)
    };
    use crate::function::judge::Judge;
    for workers in [1, 2, 5] {
        let events = found(40, workers);
        let [reflection] = events.as_slice() else { panic!("{events:?}") };
        assert_eq!((reflection.kind.name, reflection.count), ("reflection", 600));
        assert_eq!(reflection.number("fragments"), Some(40), "{workers} workers");
        assert_eq!(found(0, workers)[0].number("fragments"), None);
    }
}

/// The end of a flood may be in the next interval: a fifth of the packets is enough for one that is open.
#[test]
fn an_open_flood_goes_on_with_less() {
    use crate::function::judge::Judge;
    let call = FunctionCall::new("flooded");
    let address = |host: [u8; 4]| std::net::Ipv4Addr::from(host).to_ipv6_mapped().octets();
    let interval = weir_api::Interval { start: 0, end: 30 * SECOND };
    let counts = |packets: u16, is_open: bool| {
        let mut function = FLOODED.call(&call, 1_u64).unwrap();
        for n in 0..packets {
            let reflector = [198, 51, n.to_be_bytes()[0], n.to_be_bytes()[1]];
            datagram(&mut *function, (address(reflector), 53), (address(VICTIM), 7777));
        }
        let events = judge::Floods.judge(&function.take(), interval, interval, &|event| {
            assert_eq!(event.kind.name, "reflection");
            is_open
        });
        events.iter().map(|event| event.count).collect::<Vec<_>>()
    };
    for is_open in [false, true] {
        assert_eq!(counts(500, is_open), [500]);
        assert_eq!(counts(99, is_open), [0; 0]);
    }
    assert_eq!((counts(100, false), counts(100, true)), (vec![], vec![100]));
}

#[test]
fn services_have_unique_ports_in_order() {
    assert!(SERVICES.windows(2).all(|pair| pair[0].0 < pair[1].0));
    assert_eq!((service(11_211), service(80)), (Some("memcached"), None));
}
