//! Frames below any application: small packets, fragments, segments out of order, tunnels.

use super::{Capture, Case};
use crate::random::Random;
use weir_wire::Direction::{Forward, Reverse};
use weir_wire::build::flags::{ACK, SYN};
use weir_wire::build::{Builder, ethernet};

pub const CASES: &[Case] = &[
    Case { name: "packet-flows", about: "a UDP flow of one byte in each frame", fill: packet_flows },
    Case { name: "packet-hours", about: "the same, an hour apart", fill: hours },
    Case { name: "packet-syns", about: "a connection begun in each frame", fill: syns },
    Case { name: "packet-empty", about: "the shortest datagrams, each a flow", fill: empty },
    Case { name: "packet-icmp", about: "ICMP errors that quote a packet", fill: icmp },
    Case { name: "packet-sweep", about: "one host that calls all others", fill: sweep },
    Case {
        name: "fragments-first",
        about: "first fragments of packets that stay incomplete",
        fill: fragments_first,
    },
    Case {
        name: "fragments-tiny",
        about: "packets in fragments of 8 bytes",
        fill: |c| fragments(c, Order::Rising),
    },
    Case {
        name: "fragments-reversed",
        about: "the same, the last one first",
        fill: |c| fragments(c, Order::Falling),
    },
    Case {
        name: "fragments-apart",
        about: "the same, every other one first",
        fill: |c| fragments(c, Order::Apart),
    },
    Case {
        name: "fragments-overlap",
        about: "fragments over one another",
        fill: |c| fragments(c, Order::Overlap),
    },
    Case { name: "segments-bytes", about: "a stream in segments of one byte", fill: |c| segments(c, |n| n) },
    Case {
        name: "segments-reversed",
        about: "the same, backwards in windows of 1,000",
        fill: |c| segments(c, |n| n / 1000 * 1000 + 999 - n % 1000),
    },
    Case {
        name: "segments-apart",
        about: "every other byte of a stream",
        fill: |c| segments(c, |n| 2 * n + 2),
    },
    Case { name: "segments-middle", about: "bytes of a stream between two others", fill: segments_middle },
    Case { name: "segments-overlap", about: "segments over all that waits", fill: segments_overlap },
    Case { name: "streams-holes", about: "many streams with a hole", fill: streams_holes },
    Case {
        name: "tunnels-ip",
        about: "IP in IP, as deep as a frame has room",
        fill: |c| tunnels(c, |b| b.ipv4([10, 9, 0, 1], [10, 9, 0, 2]), 70),
    },
    Case {
        name: "tunnels-gre",
        about: "GRE in GRE",
        fill: |c| tunnels(c, |b| b.ipv4([10, 9, 0, 1], [10, 9, 0, 2]).gre(), 58),
    },
    Case { name: "tunnels-vlan", about: "VLAN tags", fill: |c| tunnels(c, |b| b.vlan(7), 350) },
    Case { name: "tunnels-flows", about: "a tunnel for each frame", fill: tunnels_flows },
    Case { name: "extensions", about: "IPv6 extension headers of 8 bytes", fill: extensions },
];

/// A host in 11.0.0.0/8.
fn host(n: u32) -> [u8; 4] {
    (0x0b00_0000 | n & 0x00ff_ffff).to_be_bytes()
}

fn packet_flows(capture: &mut Capture) {
    let mut random = Random(1);
    capture.fill(|capture, _| {
        let bits = random.bits() as u32;
        capture.push(
            ethernet().ipv4(host(bits), host(bits >> 8)).udp((bits >> 16) as u16, bits as u16).payload(b"a"),
        );
    });
}

/// Each packet begins an interval, and the end of its flow another one in the silence.
fn hours(capture: &mut Capture) {
    capture.step = 3_600_000_000;
    packet_flows(capture);
}

fn syns(capture: &mut Capture) {
    capture.fill(|capture, n| {
        capture.push(ethernet().ipv4(host(n), host(!n)).tcp((n >> 3) as u16, 80, SYN).payload(b""));
    });
}

fn empty(capture: &mut Capture) {
    capture.fill(|capture, n| capture.push(ethernet().ipv4(host(n), host(!n)).proto(200).payload(b"")));
}

fn icmp(capture: &mut Capture) {
    capture.fill(|capture, n| {
        let quoted = ethernet().ipv4(host(n), host(!n)).udp(n as u16, 53).payload(b"");
        let quoted = quoted.get(14..).unwrap_or_default();
        capture.push(ethernet().ipv4([10, 0, 0, 1], host(n)).icmp(3, 3, [0; 4]).payload(quoted));
    });
}

fn sweep(capture: &mut Capture) {
    capture.fill(|capture, n| {
        capture.push(ethernet().ipv4([10, 0, 0, 1], host(n)).udp(1000, n as u16).payload(b""));
    });
}

fn fragments_first(capture: &mut Capture) {
    capture.fill(|capture, n| {
        let frame = ethernet().ipv4(host(n), [10, 0, 0, 1]).fragment(n as u16, 0, true).proto(17);
        capture.push(frame.payload(&[0, 53, 0, 53, 1, 0, 0, 0]));
    });
}

enum Order {
    Rising,
    Falling,
    /// Every other one, then those between them.
    Apart,
    /// Each begins 8 bytes after the one before, and goes on for 64.
    Overlap,
}

/// Packets of 500 fragments, as many as are kept of one.
fn fragments(capture: &mut Capture, order: Order) {
    const EACH: u16 = 500;
    let len = if matches!(order, Order::Overlap) { 64 } else { 8 };
    capture.fill(|capture, n| {
        for at in 0..EACH {
            let place = match order {
                Order::Rising | Order::Overlap => at,
                Order::Falling => EACH - 1 - at,
                Order::Apart if at < EACH / 2 => 2 * at,
                Order::Apart => 2 * (at - EACH / 2) + 1,
            };
            // In units of 8 bytes.
            let frame = ethernet()
                .ipv4(host(n), [10, 0, 0, 1])
                .fragment(n as u16, 8 * place, place + 1 < EACH)
                .proto(17);
            capture.push(frame.payload(&vec![at as u8; len]));
        }
    });
}

const PORTS: [u16; 2] = [40_000, 80];
const POST: &[u8] = b"POST / HTTP/1.1\r\nContent-Length: 9000000\r\n\r\n";

/// A stream of single bytes; `place` gives the distance of each.
fn segments(capture: &mut Capture, place: impl Fn(u32) -> u32) {
    let mut flow = capture.tcp(PORTS);
    flow.send(capture, Forward, POST);
    capture.fill(|capture, n| flow.send_at(capture, Forward, place(n), b"a"));
}

/// Bytes at the two ends, then each between those that are there: the middle of the list of what waits.
fn segments_middle(capture: &mut Capture) {
    segments(capture, |n| {
        let (round, at) = (n / 900, n % 900);
        let side = if at % 2 == 0 { 2000 - at } else { at };
        round * 5000 + 2 + 2 * side
    });
}

/// Bytes that wait apart, then a segment over all of them, again and again.
fn segments_overlap(capture: &mut Capture) {
    let mut flow = capture.tcp(PORTS);
    flow.send(capture, Forward, POST);
    let over = vec![b'b'; 1440];
    capture.fill(|capture, n| match n % 16 {
        15 => flow.send_at(capture, Forward, 1, &over),
        _ => flow.send_at(capture, Forward, 2 + 2 * (n.wrapping_mul(97) % 700), b"a"),
    });
}

fn streams_holes(capture: &mut Capture) {
    capture.fill(|capture, _| {
        let flow = capture.midstream(PORTS);
        flow.segment(capture, Forward, SYN, 0, &[]);
        flow.send_at(capture, Forward, 1, b"a");
        flow.segment(capture, Reverse, ACK, 1, b"a");
    });
}

fn tunnels(capture: &mut Capture, header: fn(Builder) -> Builder, depth: u32) {
    capture.fill(|capture, n| {
        let frame = (0..depth).fold(ethernet(), |frame, _| header(frame));
        capture.push(frame.ipv4(host(n), host(!n)).udp(1000, n as u16).payload(b"a"));
    });
}

fn tunnels_flows(capture: &mut Capture) {
    capture.fill(|capture, n| {
        let outer = ethernet().ipv4(host(n), host(!n)).gre();
        capture.push(outer.ipv4(host(n + 1), host(n + 2)).udp(1000, n as u16).payload(b"a"));
    });
}

fn extensions(capture: &mut Capture) {
    capture.fill(|capture, n| {
        let mut source = [0x20; 16];
        source[12..].copy_from_slice(&n.to_be_bytes());
        let frame = (0..170).fold(ethernet().ipv6(source, [0x21; 16]), |frame, _| {
            frame.extension(60, &[0, 1, 4, 0, 0, 0, 0])
        });
        capture.push(frame.udp(1000, 1000).payload(b"a"));
    });
}
