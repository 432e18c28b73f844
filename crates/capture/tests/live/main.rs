//! Live capture on veth pairs in separate network namespaces. Needs root and ip(8); skipped otherwise.
#![allow(unsafe_code, missing_docs, clippy::unwrap_used, clippy::print_stdout)]

mod net;
mod reassembly;

use std::collections::BTreeMap;
use std::io::Write;
use std::time::{Duration, Instant};

use net::{Net, Sender, frame, ipv4, ipv6, keep_capabilities, numbered, tun};
use weir_capture::{
    CaptureStats, Files, Input, LinkChange, LiveError, ReadOptions, RingOptions, Rings, SockFilter, Source,
};
use weir_wire::{ErrorKind, Hints, Layer, LinkType, Packet, Time, decode, steer_hash};

/// A captured packet.
#[derive(Clone, Debug)]
struct Received {
    time: Time,
    data: Vec<u8>,
    wire_len: u32,
    interface: u32,
    link: LinkType,
    hints: Hints,
}

impl Received {
    fn of(p: Packet<'_>) -> Self {
        let Packet { time, wire_len, interface, link, hints, .. } = p;
        Self { time, data: p.data.to_vec(), wire_len, interface, link, hints }
    }

    fn packet(&self) -> Packet<'_> {
        let Self { time, wire_len, interface, link, hints, .. } = *self;
        Packet { time, data: &self.data, wire_len, interface, link, hints, number: 0 }
    }
}

fn options(interfaces: &[&str]) -> RingOptions {
    RingOptions { interfaces: interfaces.iter().map(|s| (*s).to_owned()).collect(), ..RingOptions::default() }
}

fn open(options: &RingOptions) -> Rings {
    Rings::open(options, 1).expect("open").pop().expect("one worker")
}

/// Stops, reads all remaining packets, and checks that the ledger adds up.
fn finish(rings: &mut Rings) -> (Vec<Received>, CaptureStats) {
    rings.stop().expect("stop");
    let mut seen = Vec::new();
    let begin = Instant::now();
    while !rings.is_drained() {
        seen.extend(rings.next_batch(Duration::from_millis(100)).expect("batch").packets().map(Received::of));
        assert!(begin.elapsed() < HANGS, "never drained");
    }
    assert!(rings.next_batch(Duration::ZERO).expect("batch").is_empty());
    let stats = rings.stats().expect("stats");
    assert_eq!(stats.received, stats.delivered + stats.dropped, "{stats:?}");
    (seen, stats)
}

/// The number in the payload of a [`numbered`] frame.
fn number(seen: &Received) -> u32 {
    u32::from_be_bytes(seen.data[42..46].try_into().unwrap())
}

/// A limit that only a hang reaches, even on a busy machine.
const HANGS: Duration = Duration::from_secs(600);

/// Maximum number of waits per second on an idle link. A ring whose poll(2) returns at once waits some hundred
/// thousand times.
const MAX_WAITS: u64 = 1000;

/// Reads until the given number of link changes has been reported.
fn read_until(rings: &mut Rings, changes: usize) -> (Vec<Received>, Vec<LinkChange>) {
    let (begin, mut seen, mut found) = (Instant::now(), Vec::new(), Vec::new());
    while found.len() < changes {
        seen.extend(rings.next_batch(Duration::from_millis(20)).expect("batch").packets().map(Received::of));
        found.extend(rings.take_events().iter().map(|e| e.change));
        assert!(begin.elapsed() < HANGS, "{found:?}, not {changes} changes");
    }
    (seen, found)
}

/// Reads for some time.
fn read(rings: &mut Rings, time: Duration) -> Vec<Received> {
    let end = Instant::now() + time;
    let mut seen = Vec::new();
    while let Some(left) = end.checked_duration_since(Instant::now()) {
        seen.extend(rings.next_batch(left).expect("batch").packets().map(Received::of));
    }
    seen
}

#[test]
fn a_burst_before_the_stop_is_captured_completely() {
    let Some(_net) = Net::new(1) else { return };
    let sender = Sender::new("a0");
    let mut rings = open(&options(&["b0"]));
    drop(rings);
    for n in [1, 2, 10, 1_000, 20_000] {
        rings = open(&options(&["b0"]));
        assert_eq!(sender.send(&numbered(n)), n as usize);
        let (seen, stats) = finish(&mut rings);
        let numbers: Vec<u32> = seen.iter().map(number).collect();
        assert_eq!(numbers, (0..n).collect::<Vec<u32>>());
        assert_eq!((stats.delivered, stats.dropped), (n.into(), 0));
        assert!(seen.iter().all(|p| p.hints.has(Hints::INBOUND) && p.link == LinkType::ETHERNET));
    }
}

#[test]
fn packets_sent_after_the_stop_are_not_counted() {
    let Some(_net) = Net::new(1) else { return };
    let sender = Sender::new("a0");
    let mut rings = open(&options(&["b0"]));
    sender.send(&numbered(10));
    rings.stop().unwrap();
    sender.send(&numbered(1000));
    let (seen, stats) = finish(&mut rings);
    assert_eq!((seen.len(), stats.received), (10, 10));
}

#[test]
fn the_ledger_equals_the_senders_count() {
    let Some(net) = Net::new(1) else { return };
    let mut rings = open(&options(&["b0"]));
    let frames = numbered(1024);
    let sender = std::thread::spawn({
        let sender = Sender::new("a0");
        move || sender.send_at(&frames, 300_000.0, Duration::from_secs(2))
    });
    let (mut count, mut bytes) = (0u64, 0u64);
    while !sender.is_finished() {
        for packet in rings.next_batch(Duration::from_millis(100)).unwrap().packets() {
            count += 1;
            bytes += packet.data.len() as u64;
        }
    }
    let sent = sender.join().unwrap();
    let (rest, stats) = finish(&mut rings);
    count += rest.len() as u64;
    bytes += rest.iter().map(|p| p.data.len() as u64).sum::<u64>();
    println!("sent {sent}, {stats:?}");
    // A reader that does not run for a while loses packets, which are counted.
    assert_eq!((stats.delivered, stats.delivered + stats.dropped), (count, sent));
    assert_eq!(bytes, count * 60);
    drop(net);
}

#[test]
fn a_full_ring_drops_packets_and_counts_them() {
    let Some(_net) = Net::new(1) else { return };
    let sender = Sender::new("a0");
    let mut rings = open(&RingOptions { ring_bytes: 1 << 20, ..options(&["b0"]) });
    let sent = sender.send(&numbered(50_000)) as u64;
    let (seen, stats) = finish(&mut rings);
    assert_eq!(stats.received, sent);
    assert!(stats.dropped > 0 && stats.freezes > 0, "{stats:?}");
    assert_eq!(stats.delivered, seen.len() as u64);
}

#[test]
fn counters_accumulate() {
    let Some(_net) = Net::new(1) else { return };
    let sender = Sender::new("a0");
    let mut rings = open(&options(&["b0"]));
    for round in 1..=3 {
        sender.send(&numbered(100));
        let begin = Instant::now();
        while rings.stats().unwrap().received < round * 100 && begin.elapsed() < HANGS {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(rings.stats().unwrap().received, round * 100);
    }
    let (seen, stats) = finish(&mut rings);
    assert_eq!((seen.len(), stats.delivered), (300, 300));
}

/// Headers between the addresses and the IP packet: none, many kinds of tags, labels, PPPoE.
fn shims(v6: bool) -> Vec<Vec<u8>> {
    let ip: [u8; 2] = if v6 { [0x86, 0xdd] } else { [0x08, 0x00] };
    let ppp: [u8; 2] = if v6 { [0x00, 0x57] } else { [0x00, 0x21] };
    // Any length that is not too short is valid.
    let pppoe = [&[0x88, 0x64, 0x11, 0, 0, 7, 0, 90][..], &ppp].concat();
    let label = [0x00, 0x01, 0x00, 0x40];
    let last = [0x00, 0x01, 0x01, 0x40];
    vec![
        ip.to_vec(),
        [&[0x81, 0, 0x20, 5][..], &ip].concat(),
        [&[0x81, 0, 0, 0][..], &ip].concat(),
        [&[0x88, 0xa8, 0x60, 9, 0x81, 0, 0xef, 0xff][..], &ip].concat(),
        [&[0x81, 0, 0, 1, 0x81, 0, 0, 2][..], &ip].concat(),
        [&[0x91, 0, 0, 1, 0x81, 0, 0, 2, 0x81, 0, 0, 3][..], &ip].concat(),
        [&[0x88, 0x47][..], &last].concat(),
        [&[0x88, 0x48][..], &label, &label, &last].concat(),
        pppoe.clone(),
        [&[0x81, 0, 0, 77][..], &pppoe].concat(),
        [&[0x81, 0, 0, 77, 0x88, 0x47][..], &label, &last].concat(),
    ]
}

#[test]
fn removed_vlan_tags_are_put_back() {
    let Some(_net) = Net::new(1) else { return };
    let mut frames: Vec<Vec<u8>> = Vec::new();
    for (i, shim) in shims(false).iter().enumerate() {
        frames.push(frame(shim, &ipv4([10, 0, 0, 1], [10, 0, 0, 2], 0, i as u32, 18 + i)));
    }
    // Captured at both ends: outgoing frames still have their tags, incoming ones have lost the first.
    let (out, into) = (Sender::new("b0"), Sender::new("a0"));
    let mut rings = open(&options(&["b0"]));
    into.send(&frames);
    let (seen, _) = finish(&mut rings);
    check_frames(&seen, &frames);
    assert!(seen.iter().all(|p| p.hints.has(Hints::INBOUND)));

    let mut rings = open(&options(&["a0"]));
    out.send(&frames);
    let (seen, _) = finish(&mut rings);
    check_frames(&seen, &frames);

    // The tag is put back before the packet is cut.
    let mut rings = open(&RingOptions { snaplen: 20, ..options(&["b0"]) });
    into.send(&frames);
    let (seen, _) = finish(&mut rings);
    assert_eq!(seen.len(), frames.len());
    for (seen, frame) in seen.iter().zip(&frames) {
        assert_eq!((&seen.data[..], seen.wire_len as usize), (&frame[..20], frame.len()));
    }
}

/// A file and a live capture of equal frames give equal packets on the same workers.
#[test]
fn every_capture_goes_through_a_ring_unchanged() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    if !root.is_dir() {
        println!("skipped: ../shared/data is absent");
        return;
    }
    let Some(net) = Net::new(1) else { return };
    for interface in ["a0", "b0"] {
        net.ip(&["link", "set", interface, "mtu", "65535"]);
    }
    let sender = Sender::new("a0");
    let (mut captures, mut packets, mut tagged) = (0, 0, 0);
    let breadth = root.with_file_name("breadth");
    let mut folders: Vec<_> = [root, breadth].into_iter().filter(|folder| folder.is_dir()).collect();
    let mut frames = Vec::new();
    let mut strays = BTreeMap::new();
    while let Some(folder) = folders.pop() {
        folders.extend(std::fs::read_dir(&folder).unwrap().map(|e| e.unwrap().path()).filter(|p| p.is_dir()));
        let Ok(mut files) = Files::open(&[Input::Path(folder)], &ReadOptions::default()) else { continue };
        let mut chunk = weir_wire::PacketBuf::default();
        // Each bad file gives a separate error.
        while !matches!(files.fill(&mut chunk), Ok(false)) {
            for packet in chunk.batch().packets() {
                // Only frames that the kernel accepts for sending: whole frames with more than a header.
                let whole =
                    packet.data.len() as u32 == packet.wire_len && (15..65_000).contains(&packet.wire_len);
                if packet.link == LinkType::ETHERNET && whole {
                    frames.push(packet.data.to_vec());
                }
            }
        }
        captures += files.describe().count();
        while frames.len() > 5000 {
            let part = frames.split_off(frames.len() - 5000);
            packets += part.len();
            tagged += through(&sender, &part, &mut strays);
        }
    }
    packets += frames.len();
    tagged += through(&sender, &frames, &mut strays);
    println!("{packets} packets of {captures} captures, {tagged} of them tagged; elsewhere: {strays:x?}");
    assert!(packets > 70_000 && tagged > 4_000);
    // Some fuzzed headers, and pseudowires without a control word.
    assert!(strays.values().sum::<u32>() < 50);
}

/// Packets on another worker than the decoder computes: by EtherType and error.
type Strays = BTreeMap<(u16, Option<(Layer, ErrorKind)>), u32>;

/// Sends frames to a ring of two workers and compares. Returns how many have tags.
fn through(sender: &Sender, frames: &[Vec<u8>], strays: &mut Strays) -> usize {
    let mut all = Rings::open(&options(&["b0"]), 2).expect("open");
    assert_eq!(sender.send(frames), frames.len());
    let mut seen: Vec<_> = all.iter_mut().map(|rings| finish(rings).0.into_iter().peekable()).collect();
    for frame in frames {
        let packet = Packet {
            time: Time(0),
            data: frame,
            wire_len: frame.len() as u32,
            interface: 0,
            link: LinkType::ETHERNET,
            hints: Hints::default(),
            number: 0,
        };
        let layers = decode(&packet);
        let worker = steer_hash(&packet, &layers) as usize % 2;
        if seen[worker].next_if(|p| p.data == *frame).is_none() {
            // The kernel's program skips fewer headers than the decoder, and does not check them all.
            let got = seen[1 - worker].next_if(|p| p.data == *frame);
            assert!(
                got.is_some(),
                "sent {frame:02x?}\n next are {:02x?}\n and {:02x?}",
                seen[0].peek().map(|p| p.data.clone()),
                seen[1].peek().map(|p| p.data.clone()),
            );
            *strays.entry((layers.ether_type, layers.error.map(|e| (e.layer, e.kind)))).or_default() += 1;
        }
    }
    assert!(seen.iter_mut().all(|rest| rest.next().is_none()));
    frames.iter().filter(|f| f[12] == 0x81 && f[13] == 0).count()
}

fn check_frames(seen: &[Received], frames: &[Vec<u8>]) {
    assert_eq!(seen.len(), frames.len());
    for (seen, frame) in seen.iter().zip(frames) {
        assert_eq!(seen.data, *frame);
        assert_eq!(seen.wire_len as usize, frame.len());
    }
}

#[test]
fn a_vlan_interface_and_its_parent_are_captured() {
    let Some(net) = Net::new(1) else { return };
    if !net.try_ip(&["link", "add", "link", "b0", "name", "b0.5", "type", "vlan", "id", "5"]) {
        println!("skipped: this kernel has no VLAN interfaces");
        return;
    }
    net.ip(&["link", "set", "b0.5", "up"]);
    let tagged = frame(&[0x81, 0, 0, 5, 8, 0], &ipv4([10, 0, 0, 1], [10, 0, 0, 2], 0, 1, 18));
    let bare = frame(&[8, 0], &tagged[18..]);
    let mut rings = open(&options(&["b0", "b0.5"]));
    Sender::new("a0").send(std::slice::from_ref(&tagged));
    let (seen, _) = finish(&mut rings);
    let mut got: Vec<_> = seen.into_iter().map(|p| (p.interface, p.data)).collect();
    got.sort();
    assert_eq!(got, [(0, tagged), (1, bare)]);
}

#[test]
fn packets_are_cut_and_filtered_by_the_kernel() {
    let Some(_net) = Net::new(1) else { return };
    let sender = Sender::new("a0");
    let op = |code, k| SockFilter { code, jt: 0, jf: 0, k };
    // ldb [45]; jeq #3: all packets whose number is 3 modulo 256.
    let filter =
        vec![op(0x30, 45), SockFilter { code: 0x15, jt: 0, jf: 1, k: 3 }, op(0x06, 262_144), op(0x06, 0)];
    let mut rings =
        open(&RingOptions { filters: vec![(LinkType::ETHERNET, filter)], snaplen: 50, ..options(&["b0"]) });
    sender.send(&numbered(1000));
    let (seen, stats) = finish(&mut rings);
    assert_eq!(seen.iter().map(number).collect::<Vec<_>>(), [3, 259, 515, 771]);
    assert!(seen.iter().all(|p| p.data.len() == 50 && p.wire_len == 60));
    assert_eq!(stats.received, 4);

    // The filter for cooked headers, restricted to the incoming interface; ldh [0]; jeq #0x800; ldb [51]; jeq #3; ldw
    // [4]; jeq #index.
    let index = weir_capture::interfaces().unwrap().iter().find(|i| i.name == "b0").unwrap().index;
    let unless = |k, jf| SockFilter { code: 0x15, jt: 0, jf, k };
    let filter = vec![
        op(0x28, 0),
        unless(0x800, 5),
        op(0x30, 51),
        unless(3, 3),
        op(0x20, 4),
        unless(index, 1),
        op(0x06, 262_144),
        op(0x06, 0),
    ];
    let mut rings = open(&RingOptions { filters: vec![(LinkType::LINUX_SLL2, filter)], ..options(&["any"]) });
    sender.send(&numbered(1000));
    let (seen, _) = finish(&mut rings);
    assert_eq!(
        seen.iter().map(|p| p.data[50..52].to_vec()).collect::<Vec<_>>(),
        [[0, 3], [1, 3], [2, 3], [3, 3]]
    );
}

#[test]
fn workers_get_both_directions_of_an_address_pair() {
    let Some(_net) = Net::new(1) else { return };
    let sender = Sender::new("a0");
    let mut frames = Vec::new();
    for pair in 0..64u8 {
        let v4 = ([10, 0, pair, 1], [192, 168, 3, pair.wrapping_mul(37)]);
        let (mut six, mut six2) = ([0x20; 16], [0xfd; 16]);
        (six[15], six2[13]) = (pair, pair.wrapping_mul(11));
        for (src, dst) in [v4, (v4.1, v4.0)] {
            for shim in shims(false) {
                frames.push(frame(&shim, &ipv4(src, dst, 0, 1, 40)));
                frames.push(frame(&shim, &ipv4(src, dst, 0x2000, 2, 40)));
                frames.push(frame(&shim, &ipv4(src, dst, 0x0007, 3, 40)));
            }
        }
        for (src, dst) in [(six, six2), (six2, six)] {
            for shim in shims(true) {
                frames.push(frame(&shim, &ipv6(src, dst, 4, 40)));
            }
        }
    }
    frames.push(frame(&[0x08, 0x06], &[0; 46]));
    for workers in [1, 2, 3, 8] {
        let mut all = Rings::open(&options(&["b0"]), workers).expect("open");
        sender.send(&frames);
        let mut total = 0;
        let mut counts = Vec::new();
        for (worker, rings) in all.iter_mut().enumerate() {
            let (seen, stats) = finish(rings);
            for p in &seen {
                let layers = decode(&p.packet());
                let hash = steer_hash(&p.packet(), &layers);
                assert_eq!(hash as usize % workers, worker, "{:02x?}", p.data);
            }
            assert_eq!(stats.delivered, seen.len() as u64);
            total += seen.len();
            counts.push(seen.len());
        }
        println!("{workers} workers: {counts:?}");
        assert_eq!(total, frames.len());
        assert!(counts.iter().all(|n| *n > frames.len() / workers / 4), "{counts:?}");
    }
}

#[test]
fn fanout_groups_do_not_collide() {
    let Some(_net) = Net::new(2) else { return };
    let mut first = Rings::open(&options(&["b0"]), 2).expect("open");
    let mut second = Rings::open(&options(&["b0"]), 2).expect("open");
    let mut third = Rings::open(&options(&["b1"]), 2).expect("open");
    Sender::new("a0").send(&numbered(100));
    let count = |all: &mut Vec<Rings>| all.iter_mut().map(|r| finish(r).0.len()).sum::<usize>();
    assert_eq!((count(&mut first), count(&mut second), count(&mut third)), (100, 100, 0));
}

#[test]
fn several_interfaces_are_one_stream() {
    let Some(_net) = Net::new(2) else { return };
    let (one, two) = (Sender::new("a0"), Sender::new("a1"));
    let mut rings = open(&options(&["b0", "b1"]));
    for i in 0..200 {
        let sender = if i % 2 == 0 { &one } else { &two };
        sender.send(&numbered(1));
    }
    let (seen, stats) = finish(&mut rings);
    assert_eq!((seen.len(), stats.received), (200, 200));
    assert_eq!(seen.iter().filter(|p| p.interface == 1).count(), 100);
    // Times rise on each interface. A batch is a block of one interface; how the kernel cuts the burst into blocks, and so
    // how far batches overlap, depends on how busy the machine is.
    for interface in 0..2 {
        let times: Vec<Time> = seen.iter().filter(|p| p.interface == interface).map(|p| p.time).collect();
        assert!(times.is_sorted(), "interface {interface}");
    }
}

#[test]
fn loopback_is_seen_once() {
    let Some(net) = Net::new(0) else { return };
    net.ip(&["link", "set", "lo", "up"]);
    for (name, link, front) in [("lo", LinkType::ETHERNET, 14), ("any", LinkType::LINUX_SLL2, 20)] {
        let mut rings = open(&options(&[name]));
        let to = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let from = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        for i in 0..5u8 {
            from.send_to(&[i; 10], to.local_addr().unwrap()).unwrap();
        }
        let (seen, stats) = finish(&mut rings);
        assert_eq!((seen.len(), stats.received), (5, 5), "{name}");
        for (i, p) in seen.iter().enumerate() {
            assert_eq!((p.link, p.data.len(), p.wire_len), (link, front + 38, front as u32 + 38));
            assert_eq!(p.data[front + 28..], [i as u8; 10]);
            // The sender leaves the checksum to the card, and loopback has no card.
            assert!(p.hints.has(Hints::CHECKSUM_PENDING), "{:?}", p.hints);
        }
    }
}

#[test]
fn any_has_cooked_headers() {
    let Some(_net) = Net::new(2) else { return };
    let plain = frame(&[8, 0], &ipv4([10, 0, 0, 1], [10, 0, 0, 2], 0, 1, 18));
    let tagged = frame(&[0x81, 0, 0x60, 5, 8, 0], &plain[14..]);
    let mut rings = open(&options(&["any"]));
    assert_eq!(rings.links(), [LinkType::LINUX_SLL2]);
    Sender::new("a1").send(&[plain.clone(), tagged.clone()]);
    let (seen, _) = finish(&mut rings);
    let index = weir_capture::interfaces().unwrap().iter().find(|i| i.name == "b1").unwrap().index;
    let came: Vec<&Received> = seen.iter().filter(|p| p.hints.has(Hints::INBOUND)).collect();
    assert_eq!(came.len(), 2);
    let header = |protocol: [u8; 2], more: &[u8]| {
        let mut h = vec![protocol[0], protocol[1], 0, 0];
        h.extend_from_slice(&index.to_be_bytes());
        // The header fields: Ethernet; packet type "other host", as the destination address is not that of the
        // interface; six bytes of source address.
        h.extend_from_slice(&[0, 1, 3, 6, 2, 0, 0, 0, 0, 2, 0, 0]);
        h.extend_from_slice(more);
        h.extend_from_slice(&plain[14..]);
        h
    };
    assert_eq!(came[0].data, header([8, 0], &[]));
    assert_eq!(came[1].data, header([0x81, 0], &[0x60, 5, 8, 0]));
    for (p, frame) in came.iter().zip([plain, tagged]) {
        assert_eq!(p.wire_len as usize, frame.len() - 14 + 20);
    }
}

#[test]
fn a_tunnel_interface_gives_raw_ip() {
    let Some(net) = Net::new(0) else { return };
    if !std::path::Path::new("/dev/net/tun").exists() {
        println!("skipped: no /dev/net/tun");
        return;
    }
    let mut file = tun("t0");
    net.ip(&["link", "set", "t0", "up"]);
    let mut all = Rings::open(&options(&["t0"]), 2).expect("open");
    let packets: Vec<Vec<u8>> = (0..20).map(|i| ipv4([10, 0, 0, i], [10, 1, 0, 2], 0, 1, 18)).collect();
    for packet in &packets {
        file.write_all(packet).unwrap();
    }
    let mut total = 0;
    for (worker, rings) in all.iter_mut().enumerate() {
        assert_eq!(rings.links(), [LinkType::RAW]);
        for p in finish(rings).0 {
            assert!(packets.contains(&p.data));
            assert_eq!(steer_hash(&p.packet(), &decode(&p.packet())) as usize % 2, worker);
            total += 1;
        }
    }
    assert_eq!(total, 20);
}

#[test]
fn a_capture_continues_after_the_link_was_down() {
    let Some(net) = Net::new(1) else { return };
    let mut rings = open(&options(&["b0"]));
    let sender = Sender::new("a0");
    sender.send(&numbered(10));
    net.ip(&["link", "set", "b0", "down"]);
    let (mut seen, down) = read_until(&mut rings, 1);
    let before = rings.waits();
    seen.extend(read(&mut rings, Duration::from_millis(500)));
    let waits = rings.waits() - before;
    assert!(waits < MAX_WAITS, "{waits} while the link was down");
    net.ip(&["link", "set", "b0", "up"]);
    let (more, up) = read_until(&mut rings, 1);
    seen.extend(more);
    sender.send(&numbered(10));
    assert_eq!([down, up].concat(), [LinkChange::Down, LinkChange::Up]);
    seen.extend(finish(&mut rings).0);
    assert_eq!(seen.len(), 20);

    // Too short for the periodic check: the socket's error reports it.
    let mut rings = open(&options(&["b0"]));
    read(&mut rings, Duration::from_millis(50));
    net.ip(&["link", "set", "b0", "down"]);
    net.ip(&["link", "set", "b0", "up"]);
    assert_eq!(read_until(&mut rings, 2).1, [LinkChange::Down, LinkChange::Up]);
}

#[test]
fn a_capture_continues_after_the_interface_was_removed() {
    let Some(net) = Net::new(1) else { return };
    for workers in [1, 2] {
        let mut all = Rings::open(&options(&["b0"]), workers).expect("open");
        let mut count = 0;
        let all_read = |all: &mut Vec<Rings>, ms| {
            let end = Instant::now() + Duration::from_millis(ms);
            let mut count = 0;
            while Instant::now() < end {
                for rings in &mut *all {
                    count += rings.next_batch(Duration::from_millis(10)).unwrap().len();
                }
            }
            count
        };
        Sender::new("a0").send(&numbered(10));
        net.ip(&["link", "del", "b0"]);
        let before: u64 = all.iter().map(Rings::waits).sum();
        count += all_read(&mut all, 500);
        let waits = all.iter().map(Rings::waits).sum::<u64>() - before;
        assert!(waits < MAX_WAITS, "{waits} while the interface did not exist");
        assert_eq!(count, 10, "packets before the removal are read");
        net.add_pair(0);
        let (begin, mut changes) = (Instant::now(), Vec::new());
        while !changes.contains(&LinkChange::Back) && begin.elapsed() < HANGS {
            count += all_read(&mut all, 20);
            changes.extend(all[0].take_events().iter().map(|e| e.change).filter(|c| *c != LinkChange::Down));
        }
        Sender::new("a0").send(&numbered(10));
        assert_eq!(changes.first(), Some(&LinkChange::Removed));
        assert!(changes.contains(&LinkChange::Back), "{changes:?}");
        assert!(all.iter_mut().skip(1).all(|r| r.take_events().is_empty()));
        let mut received = 0;
        for rings in &mut all {
            let (seen, stats) = finish(rings);
            count += seen.len();
            received += stats.received;
        }
        assert_eq!((count, received), (20, 20), "{workers} workers");
    }
}

/// One worker finds that the interface exists again and opens rings for all; another stops before it has checked.
#[test]
fn a_ring_not_taken_by_its_worker_is_read_after_the_stop() {
    let Some(net) = Net::new(1) else { return };
    let mut all = Rings::open(&options(&["b0"]), 2).expect("open");
    let frames = |n: u8| -> Vec<_> {
        (0..n).map(|i| frame(&[8, 0], &ipv4([10, 0, 0, i], [10, 3, 0, 9], 0, i.into(), 18))).collect()
    };
    Sender::new("a0").send(&frames(50));
    net.ip(&["link", "del", "b0"]);
    let mut count = read(&mut all[0], Duration::from_millis(300)).len();
    net.add_pair(0);
    let (begin, mut is_back) = (Instant::now(), false);
    while !is_back && begin.elapsed() < HANGS {
        count += read(&mut all[0], Duration::from_millis(20)).len();
        is_back = all[0].take_events().iter().any(|e| e.change == LinkChange::Back);
    }
    assert!(is_back);
    Sender::new("a0").send(&frames(100));
    let one = finish(&mut all[1]);
    let zero = finish(&mut all[0]);
    assert!(one.0.len() > 40, "{}", one.0.len());
    assert_eq!(count + zero.0.len() + one.0.len(), 150);
    assert_eq!(zero.1.received + one.1.received, 150);
}

#[test]
fn an_interface_that_is_down_may_be_opened() {
    let Some(net) = Net::new(1) else { return };
    net.ip(&["link", "set", "b0", "down"]);
    let mut rings = open(&options(&["b0"]));
    assert_eq!(rings.take_events().iter().map(|e| e.change).collect::<Vec<_>>(), [LinkChange::Down]);
    net.ip(&["link", "set", "b0", "up"]);
    assert_eq!(read_until(&mut rings, 1).1, [LinkChange::Up]);
    Sender::new("a0").send(&numbered(3));
    assert_eq!(finish(&mut rings).0.len(), 3);
}

#[test]
fn an_idle_ring_sleeps() {
    let Some(_net) = Net::new(1) else { return };
    let mut rings = open(&options(&["b0"]));
    let begin = Instant::now();
    assert!(rings.next_batch(Duration::from_millis(500)).unwrap().is_empty());
    assert!(begin.elapsed() >= Duration::from_millis(500));
    assert!((1..MAX_WAITS).contains(&rings.waits()), "{}", rings.waits());
}

/// CAP_NET_RAW is needed, and no other capability is.
#[test]
fn cap_net_raw_is_needed_and_sufficient() {
    let Some(net) = Net::new(1) else { return };
    std::thread::scope(|scope| {
        let enough = scope.spawn(|| {
            net.enter();
            const CAP_NET_RAW: u64 = 1 << 13;
            keep_capabilities(CAP_NET_RAW);
            Rings::open(&options(&["b0", "any"]), 2).map(drop)
        });
        enough.join().unwrap().expect("CAP_NET_RAW is enough");
        let none = scope.spawn(|| {
            net.enter();
            keep_capabilities(0);
            Rings::open(&options(&["b0"]), 1).map(drop)
        });
        let error = none.join().unwrap().expect_err("no capability");
        assert!(matches!(error, LiveError::Privilege), "{error:?}");
        let program = std::env::current_exe().unwrap();
        let command = format!("sudo setcap cap_net_raw=ep {}", program.display());
        assert!(error.to_string().contains(&command), "{error}");
    });
}

#[test]
fn an_interface_that_cannot_be_opened_is_an_error() {
    let Some(_net) = Net::new(1) else { return };
    let error = |options: &RingOptions, workers| Rings::open(options, workers).expect_err("bad").to_string();
    let text = error(&options(&["b00"]), 1);
    assert!(
        text.starts_with("there is no interface \"b00\" (did you mean \"b0\"?); the interfaces are: lo, "),
        "{text}"
    );
    let text = error(&options(&["an_interface_with_a_long_name"]), 1);
    assert!(
        text.starts_with("there is no interface \"an_interface_with_a_long_name\"; the interfaces are: "),
        "{text}"
    );
    error(&options(&[]), 1);
    error(&options(&["b0", "b0"]), 1);
    error(&options(&["b0"]), 0);
    error(&options(&["b0"]), 257);
    let huge = RingOptions { ring_bytes: 1 << 40, ..options(&["b0"]) };
    let text = error(&huge, 1);
    assert!(text.contains("smaller ring"), "{text}");
}

#[test]
fn interfaces_are_listed_with_their_counters() {
    let Some(net) = Net::new(1) else { return };
    net.ip(&["addr", "add", "10.9.8.7/24", "dev", "b0"]);
    Sender::new("a0").send(&numbered(7));
    let all = weir_capture::interfaces().unwrap();
    let find = |name| all.iter().find(|i| i.name == name).expect("interface");
    let b0 = find("b0");
    assert!(b0.up && b0.running && !b0.loopback);
    assert_eq!(b0.addresses, [std::net::IpAddr::from([10, 9, 8, 7])]);
    assert_eq!((b0.received.packets, b0.received.bytes), (7, 7 * 60));
    assert_eq!(find("a0").sent.packets, 7);
    assert!(!find("lo").up);
}
