//! Conversations built packet by packet, as a sensor between two hosts captures them.

use super::*;
use weir_wire::build::flags::{FIN, PSH};
use weir_wire::{FlowKey, LinkType, build, decode};

const MS: u64 = 1_000_000;

/// A measured flow; times are in milliseconds.
struct Scene {
    measures: Measures,
    exchanges: Vec<Exchange>,
    samples: Vec<Sample>,
    end: Option<Measure>,
}

/// A segment: sender, flags, numbers, payload and timestamps.
#[derive(Clone, Copy, Debug)]
struct Step {
    at: u64,
    direction: Direction,
    flags: u8,
    seq: u32,
    ack: u32,
    bytes: usize,
    stamps: Option<(u32, u32)>,
}

fn step(at: u64, direction: Direction, flags: u8, seq: u32, ack: u32, bytes: usize) -> Step {
    Step { at, direction, flags, seq, ack, bytes, stamps: None }
}

use Direction::{Forward as Client, Reverse as Server};

impl Scene {
    fn new(sample: u64) -> Self {
        let measures = Measures::new(MeasureConfig { sample, memory: 1 << 20, details: true, delays: false });
        Self { measures, exchanges: Vec::new(), samples: Vec::new(), end: None }
    }

    fn packet(&mut self, at: u64, direction: Direction, bytes: &[u8]) {
        let mut packet = build::packet(bytes, LinkType::ETHERNET);
        packet.time = Time(at);
        let layers = decode(&packet);
        let (key, is_lower) = FlowKey::of(&packet, &layers).unwrap();
        let initiator_is_lower = is_lower == (direction == Client);
        let flow = FlowIdentity { key, initiator_is_lower, first: Time(0), vlan: [0; 2], alias: 0 };
        let seen = FlowPacket { row: 3, flow, direction, packet: &packet, layers: &layers };
        let Self { measures, exchanges, samples, .. } = self;
        measures.packet(&seen, |_, emitted| match emitted {
            Measured::Exchange(exchange) => exchanges.push(*exchange),
            Measured::Sample(sample) => samples.push(*sample),
            _ => {}
        });
    }

    fn play(&mut self, all: &[Step]) {
        for s in all {
            let ([from, to], [sport, dport]) = match s.direction {
                Client => ([[10, 0, 0, 1], [10, 0, 0, 2]], [40_000, 80]),
                Server => ([[10, 0, 0, 2], [10, 0, 0, 1]], [80, 40_000]),
            };
            let ttl = if s.direction == Client { 60 } else { 117 };
            let mut frame = build::ethernet().ipv4(from, to).ttl(ttl).tcp(sport, dport, s.flags);
            frame = frame.seq(s.seq).ack(s.ack).window(500);
            let mut options = Vec::new();
            if s.flags & SYN != 0 {
                options.extend([2, 4, 5, 0xb4, 3, 3, 7, 1]);
            }
            if let Some((value, echo)) = s.stamps {
                options.extend([1, 1, 8, 10]);
                options.extend(value.to_be_bytes());
                options.extend(echo.to_be_bytes());
            }
            if !options.is_empty() {
                frame = frame.options(&options);
            }
            self.packet(s.at * MS, s.direction, &frame.payload(&vec![b'x'; s.bytes]));
        }
    }

    fn finish(mut self) -> Self {
        let Self { measures, exchanges, samples, end, .. } = &mut self;
        measures.end(3, |_, emitted| match emitted {
            Measured::Exchange(exchange) => exchanges.push(*exchange),
            Measured::Sample(sample) => samples.push(*sample),
            Measured::End(measure) => *end = Some(measure.clone()),
            _ => {}
        });
        self
    }
}

/// SYN at 0, SYN-ACK after 40 ms, its acknowledgement 10 ms later.
fn opened() -> [Step; 3] {
    [
        step(0, Client, SYN, 100, 0, 0),
        step(40, Server, SYN | ACK, 500, 101, 0),
        step(50, Client, ACK, 101, 501, 0),
    ]
}

fn measured(rest: &[Step]) -> Measure {
    let mut scene = Scene::new(0);
    scene.play(&opened());
    scene.play(rest);
    scene.finish().end.unwrap()
}

/// The time to the first byte of a flow with these segments, in milliseconds.
fn first_byte(all: &[Step]) -> Option<u64> {
    let mut scene = Scene::new(0);
    scene.play(all);
    let first_byte = scene.finish().end.unwrap().first_byte;
    assert!(first_byte.is_none_or(|time| time % MS == 0));
    first_byte.map(|time| time / MS)
}

#[test]
fn a_time_to_the_first_byte_has_both_its_ends() {
    let [syn, answer, ack] = opened();
    let request = step(60, Client, ACK | PSH, 101, 501, 20);
    let response = step(160, Server, ACK | PSH, 501, 121, 300);
    let greeting = step(160, Server, ACK | PSH, 501, 101, 300);
    assert_eq!(first_byte(&[syn, answer, ack, request, response]), Some(100));
    assert_eq!(first_byte(&[syn, answer, ack, greeting, request]), Some(110), "the responder speaks first");
    // Without one of the packets of the handshake.
    assert_eq!(first_byte(&[answer, ack, request, response]), Some(100));
    assert_eq!(first_byte(&[syn, ack, greeting]), Some(110));
    assert_eq!(first_byte(&[syn, answer, greeting]), None, "the end of the handshake was not seen");
    // Without a request: the response acknowledges its bytes.
    assert_eq!(first_byte(&[syn, answer, ack, response]), None);
    // Without a beginning, also if the side that counts as the initiator is not.
    assert_eq!(first_byte(&[response]), None);
    assert_eq!(first_byte(&[ack, response]), None);
    assert_eq!(first_byte(&[ack, request, response]), None);
    let turned =
        |step: Step| Step { direction: if step.direction == Client { Server } else { Client }, ..step };
    assert_eq!(first_byte(&[answer, ack, request, response, request].map(turned)), None);
    assert_eq!(first_byte(&[response, request, response].map(turned)), None);
}

#[test]
fn datagrams_have_a_first_byte_only_after_a_question() {
    let first_byte = |all: &[(u64, Direction)]| {
        let mut scene = Scene::new(0);
        for (at, direction) in all {
            let ([from, to], [sport, dport]) = match direction {
                Client => ([[10, 0, 0, 1], [10, 0, 0, 2]], [40_000, 53]),
                Server => ([[10, 0, 0, 2], [10, 0, 0, 1]], [53, 40_000]),
            };
            let frame = build::ethernet().ipv4(from, to).udp(sport, dport).payload(b"x");
            scene.packet(*at, *direction, &frame);
        }
        scene.finish().end.unwrap().first_byte
    };
    assert_eq!(first_byte(&[(5, Client), (9, Server), (20, Server)]), Some(4));
    // A reflected answer.
    assert_eq!(first_byte(&[(5, Server)]), None);
    assert_eq!(first_byte(&[(5, Server), (7, Client), (9, Server)]), None);
}

#[test]
fn a_request_and_its_response() {
    let mut scene = Scene::new(100 * MS);
    scene.play(&opened());
    scene.play(&[
        step(60, Client, ACK | PSH, 101, 501, 20),
        step(100, Server, ACK, 501, 121, 0),
        step(160, Server, ACK | PSH, 501, 121, 300),
        step(168, Client, ACK, 121, 801, 0),
        step(300, Client, ACK | PSH, 121, 801, 30),
        step(350, Server, ACK | PSH, 801, 151, 10),
    ]);
    let scene = scene.finish();
    let end = scene.end.unwrap();
    assert_eq!(end.handshake(), Some(50 * MS));
    assert_eq!(end.side(Client).handshake, Some(40 * MS));
    assert_eq!(end.side(Server).handshake, Some(10 * MS));
    let [client, server] = [Client, Server].map(|direction| end.side(direction).clone());
    assert_eq!((client.round_trips.count, client.round_trips.sum), (2, 90 * MS));
    assert_eq!((client.round_trips.min, client.round_trips.max), (Some(40 * MS), Some(50 * MS)));
    // A sixteenth of the only difference.
    assert_eq!(client.jitter(), Some(10.0 * MS as f64 / 16.0));
    assert_eq!((server.round_trips.count, server.round_trips.min), (1, Some(8 * MS)));
    assert_eq!((client.hops(), server.hops()), (Some(4), Some(11)));
    assert_eq!((client.window, client.mss), (Some(500 << 7), Some(1460)));
    assert_eq!((client.lost, client.retransmitted, server.lost), (0, 0, 0));
    assert_eq!((end.first_byte, end.requests), (Some(100 * MS), 2));
    let exchange = |begin, think: Option<u64>, request, wait: u64, response| Exchange {
        begin: Time(begin * MS),
        think: think.map(|think| think * MS),
        request,
        wait: Some(wait * MS),
        response,
    };
    assert_eq!(scene.exchanges, [exchange(60, None, 20, 100, 300), exchange(300, Some(140), 30, 50, 10)]);
    let packets = |sample: &Sample| (sample.begin.0 / MS, sample.sides.map(|side| side.packets));
    let samples: Vec<_> = scene.samples.iter().map(packets).collect();
    assert_eq!(samples, [(0, [3, 1]), (100, [1, 2]), (300, [1, 1])]);
}

#[test]
fn retransmitted_segments_are_not_timed() {
    let end = measured(&[
        step(60, Client, ACK, 101, 501, 100),
        step(360, Client, ACK, 101, 501, 100),
        step(400, Server, ACK, 501, 201, 0),
    ]);
    let client = end.side(Client);
    assert_eq!((client.round_trips.count, client.retransmitted, client.lost, client.spurious), (0, 1, 1, 0));
    assert_eq!((client.bytes, client.fresh_bytes), (200, 100));
    assert_eq!(client.loss(), Some(1.0 / 3.0));
}

#[test]
fn timestamps_identify_the_acknowledged_segment() {
    let stamped = |at, stamps| Step { stamps: Some(stamps), ..step(at, Client, ACK, 101, 501, 100) };
    for (echo, round_trip) in [(7, 340), (9, 40)] {
        let answer = Step { stamps: Some((1, echo)), ..step(400, Server, ACK, 501, 201, 0) };
        let end = measured(&[stamped(60, (7, 0)), stamped(360, (9, 0)), answer]);
        let client = end.side(Client);
        assert_eq!((client.round_trips.count, client.round_trips.sum), (1, round_trip * MS), "{echo}");
    }
    // The timestamp clock did not advance between the segments.
    let answer = Step { stamps: Some((1, 7)), ..step(400, Server, ACK, 501, 201, 0) };
    let end = measured(&[stamped(60, (7, 0)), stamped(360, (7, 0)), answer]);
    assert_eq!(end.side(Client).round_trips.count, 0);
}

#[test]
fn early_filling_is_reordering_and_late_filling_is_retransmission() {
    for (at, out_of_order, lost) in [(62, 1, 0), (130, 0, 1)] {
        let end = measured(&[
            step(60, Client, ACK, 101, 501, 100),
            step(61, Client, ACK, 301, 501, 100),
            step(at, Client, ACK, 201, 501, 100),
        ]);
        let client = end.side(Client);
        assert_eq!((client.out_of_order, client.lost), (out_of_order, lost), "{at}");
        assert_eq!(client.fresh_bytes, 300);
    }
}

#[test]
fn acknowledged_segments_were_not_lost() {
    let end = measured(&[
        step(60, Client, ACK, 101, 501, 100),
        step(100, Server, ACK, 501, 201, 0),
        step(110, Client, ACK, 101, 501, 100),
        // A keep-alive is no retransmission.
        step(900, Client, ACK, 200, 501, 1),
        step(950, Client, ACK | FIN, 201, 501, 0),
    ]);
    let client = end.side(Client);
    assert_eq!((client.retransmitted, client.spurious, client.lost, client.segments), (1, 1, 0, 4));
}

#[test]
fn sequence_numbers_wrap() {
    let mut scene = Scene::new(0);
    let top = u32::MAX - 49;
    scene.play(&[
        step(0, Client, SYN, top.wrapping_sub(1), 0, 0),
        step(40, Server, SYN | ACK, 500, top, 0),
        step(50, Client, ACK, top, 501, 100),
        step(90, Server, ACK, 501, top.wrapping_add(100), 0),
    ]);
    let end = scene.finish().end.unwrap();
    assert_eq!((end.side(Client).round_trips.sum, end.side(Client).retransmitted), (40 * MS, 0));
}

#[test]
fn datagrams_have_the_jitter_of_their_arrival() {
    let mut scene = Scene::new(0);
    let frame = build::ethernet().ipv4([10, 0, 0, 1], [10, 0, 0, 2]).udp(1, 2).payload(b"x");
    for at in [0, 20, 40, 76] {
        scene.packet(at * MS, Client, &frame);
    }
    let end = scene.finish().end.unwrap();
    assert_eq!(end.side(Client).jitter(), Some(16.0 * MS as f64 / 16.0));
    let throughput = end.side(Client).throughput().unwrap();
    assert!((throughput - 4.0 / 0.076).abs() < 1e-9);
}

#[test]
fn memory_is_bounded_and_unmeasured_packets_are_counted() {
    let mut measures =
        Measures::new(MeasureConfig { memory: 2 * size_of::<Measure>(), ..MeasureConfig::default() });
    let frame = build::ethernet().ipv4([10, 0, 0, 1], [10, 0, 0, 2]).udp(1, 2).payload(b"x");
    let packet = build::packet(&frame, LinkType::ETHERNET);
    let layers = decode(&packet);
    let (key, initiator_is_lower) = FlowKey::of(&packet, &layers).unwrap();
    let flow = FlowIdentity { key, initiator_is_lower, first: Time(0), vlan: [0; 2], alias: 0 };
    for row in 0..3 {
        let seen = FlowPacket { row, flow, direction: Client, packet: &packet, layers: &layers };
        measures.packet(&seen, |_, _| {});
    }
    assert_eq!(measures.refused(), 1);
    assert!(size_of::<Measure>() <= 1400, "{}", size_of::<Measure>());
}

/// A conversation of random segments: flags, numbers that often fit, and payload.
fn random_steps(random: &mut impl FnMut(u64) -> u64) -> Vec<Step> {
    const FLAGS: [u8; 7] = [SYN, SYN | ACK, ACK, ACK, ACK | PSH, ACK | FIN, RST];
    let mut now = 0;
    (0..1 + random(24))
        .map(|_| {
            now += random(30);
            let (direction, [seq, ack]) = match random(2) {
                0 => (Client, [100, 500]),
                _ => (Server, [500, 100]),
            };
            let bytes = [0, 0, 1, 700][random(4) as usize];
            let flags = FLAGS[random(7) as usize];
            step(now, direction, flags, seq + random(4) as u32, ack + random(4) as u32, bytes)
        })
        .collect()
}

/// A flow of which only the delays are asked for is measured no further than they need, and has the same ones.
#[test]
fn delays_do_not_depend_on_how_long_a_flow_is_measured() {
    let mut state = 7_u64;
    let mut random = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let mut cut_short = 0;
    for round in 0..4_000 {
        let mut steps = if round % 2 == 0 { opened().to_vec() } else { Vec::new() };
        steps.extend(random_steps(&mut random));
        let mut whole = Scene::new(0);
        whole.play(&steps);
        let expected = whole.finish().end.unwrap().delays();
        let config = MeasureConfig { memory: 1 << 20, delays: true, ..MeasureConfig::default() };
        let mut scene = Scene { measures: Measures::new(config), ..Scene::new(0) };
        scene.play(&steps);
        let mut open = None;
        let known = scene.measures.end(3, |_, emitted| {
            if let Measured::End(measure) = emitted {
                open = Some(measure.delays());
            }
        });
        assert_eq!(known.or(open), Some(expected), "{steps:?}");
        assert!(known.is_none() || open.is_none());
        assert_eq!(scene.measures.bytes, 0);
        cut_short += u32::from(known.is_some());
    }
    assert!(cut_short > 500, "{cut_short}");
}

#[test]
fn a_flow_with_known_delays_is_not_measured_and_frees_its_memory() {
    let config = MeasureConfig { memory: 1 << 20, delays: true, ..MeasureConfig::default() };
    let mut scene = Scene { measures: Measures::new(config), ..Scene::new(0) };
    scene.play(&opened());
    scene.play(&[step(60, Client, ACK | PSH, 101, 501, 10)]);
    assert_eq!(scene.measures.bytes, size_of::<Measure>());
    scene.play(&[step(75, Server, ACK | PSH, 501, 111, 10), step(90, Client, ACK, 111, 511, 0)]);
    assert_eq!(scene.measures.bytes, size_of::<Delays>());
    let delays = scene.measures.end(3, |_, _| panic!("it is not measured")).unwrap();
    assert_eq!((delays.handshake(), delays.first_byte), (Some(50 * MS), Some(15 * MS)));
}
