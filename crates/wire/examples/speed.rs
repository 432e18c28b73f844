//! Measures the decoding time of packets that lie in the first-level cache: `cargo run --release -p weir-wire
//! --example speed`.
#![allow(clippy::print_stdout, reason = "an example reports on its standard output")]

use std::hint::black_box;
use std::time::Instant;

use weir_wire::build::{self, flags};
use weir_wire::{FlowKey, LinkType, Packet, decapsulate, decode, steer_hash, verify};

const ROUNDS: u32 = 2_000_000;
const REPEATS: usize = 7;

/// Prints the time for each packet in nanoseconds: the best of several runs, because other programs disturb the slower
/// ones.
fn measure(name: &str, packets: &[Packet<'_>], mut work: impl FnMut(&Packet<'_>)) {
    let mut best = f64::INFINITY;
    for _ in 0..REPEATS {
        let start = Instant::now();
        for _ in 0..ROUNDS / packets.len() as u32 {
            for packet in packets {
                work(black_box(packet));
            }
        }
        best = best.min(start.elapsed().as_nanos() as f64 / f64::from(ROUNDS));
    }
    println!("{name:<44} {best:6.2} ns");
}

fn main() {
    let (a, b) = ([10, 0, 0, 1], [10, 0, 0, 2]);
    let v6 = [[0x20; 16], [0xfe; 16]];
    let vxlan = [8, 0, 0, 0, 0, 0, 7, 0];
    let tcp: Vec<Vec<u8>> = (0..16)
        .map(|port| build::ethernet().ipv4(a, b).tcp(port, 80, flags::ACK).payload(&[0; 20]))
        .collect();
    let large = build::ethernet().ipv4(a, b).tcp(1, 80, flags::ACK).payload(&[7; 1460]);
    let others = [
        ("Ethernet, IPv4, UDP", build::ethernet().ipv4(a, b).udp(1, 53).payload(b"")),
        (
            "Ethernet, two VLAN tags, IPv4, TCP",
            build::ethernet().vlan(1).vlan(2).ipv4(a, b).tcp(1, 2, 2).payload(b""),
        ),
        ("Ethernet, IPv6, TCP", build::ethernet().ipv6(v6[0], v6[1]).tcp(1, 2, 2).payload(b"")),
        (
            "Ethernet, IPv4, UDP, VXLAN",
            build::ethernet().ipv4(a, b).udp(1, 4789).raw(&vxlan).frame().payload(b""),
        ),
    ];
    let tcp: Vec<Packet<'_>> = tcp.iter().map(|data| build::packet(data, LinkType::ETHERNET)).collect();
    measure("the loop alone", &tcp, |packet| {
        black_box(packet);
    });
    measure("decode: Ethernet, IPv4, TCP", &tcp, |packet| {
        black_box(&decode(packet));
    });
    for (name, data) in &others {
        measure(&format!("decode: {name}"), &[build::packet(data, LinkType::ETHERNET)], |packet| {
            black_box(&decode(packet));
        });
    }
    measure("decode and flow key: Ethernet, IPv4, TCP", &tcp, |packet| {
        let layers = decode(packet);
        black_box(&FlowKey::of(packet, &layers));
    });
    measure("decode and steer: Ethernet, IPv4, TCP", &tcp, |packet| {
        black_box(steer_hash(packet, &decode(packet)));
    });
    measure("decode and decapsulate: VXLAN", &[build::packet(&others[3].1, LinkType::ETHERNET)], |packet| {
        black_box(&decapsulate(packet, &decode(packet)));
    });
    measure(
        "decode and checksums: 1,514 bytes of TCP",
        &[build::packet(&large, LinkType::ETHERNET)],
        |packet| {
            black_box(&verify(packet, &decode(packet)));
        },
    );
}
