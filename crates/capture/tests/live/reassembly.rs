//! Reassembly of overlapping fragments and segments by a host, and by Weir under the policy named after that host's
//! system: the packets of each case go to the kernel of this machine and to Weir.
//!
//! The cases come from the models of overlapping pieces in the literature, in ../shared/data/reassembly-overlap: each
//! model in its order, reversed and shuffled, and each two pieces of it that touch or overlap, in both orders.

use crate::net::{Net, tap, tun};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, TcpListener, UdpSocket};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::time::Duration;
use weir_flow::defrag::{Defrag, DefragConfig};
use weir_flow::stream::{Overlap, Segment, StreamConfig, Streams};
use weir_wire::build::flags::{ACK, FIN, PSH, RST, SYN};
use weir_wire::build::{self, packet};
use weir_wire::{Direction, LinkType, Network, Time, decode};

/// Bytes of a unit of the models: fragments begin at multiples of it.
const UNIT: usize = 8;
/// Shuffles of each model.
const SHUFFLES: usize = 60;
/// Addresses of this host, and of a peer that these tests simulate.
const HOST4: [u8; 4] = [10, 9, 0, 1];
const PEER4: [u8; 4] = [10, 9, 0, 2];
const HOST6: [u8; 16] = [0xfd, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
const PEER6: [u8; 16] = [0xfd, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2];
const PEER_MAC: [u8; 6] = [2, 0, 0, 0, 0, 2];
const HOST_MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
const PORT: u16 = 4000;

/// A piece of a model: units from `start` to before `end`, filled with `letter`.
#[derive(Clone, Copy, Debug)]
struct Piece {
    start: usize,
    end: usize,
    letter: u8,
}

impl Piece {
    fn bytes(self) -> Vec<u8> {
        (self.start..self.end)
            .flat_map(|unit| {
                let mut bytes = [self.letter; UNIT];
                bytes[UNIT - 1] = b'0' + (unit % 64) as u8;
                bytes
            })
            .collect()
    }
}

/// Pieces in the order in which they are sent.
struct Case {
    name: String,
    pieces: Vec<Piece>,
}

impl Case {
    fn end(&self) -> usize {
        self.pieces.iter().map(|piece| piece.end).max().unwrap_or(0)
    }

    /// Units that no piece covers, as pieces.
    fn holes(&self) -> Vec<Piece> {
        let is_hole = |unit: &usize| !self.pieces.iter().any(|p| (p.start..p.end).contains(unit));
        (0..self.end())
            .filter(is_hole)
            .map(|unit| Piece { start: unit, end: unit + 1, letter: b'.' })
            .collect()
    }
}

/// All cases; `None`, with the reason printed, if the models are absent.
fn cases() -> Option<Vec<Case>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/reassembly-overlap");
    let mut cases = Vec::new();
    for model in ["shankar", "novak"] {
        let Ok(text) = std::fs::read_to_string(folder.join(format!("custom_{model}.json"))) else {
            println!("skipped: {} has no model {model}", folder.display());
            return None;
        };
        let json: Value = serde_json::from_str(&text).unwrap();
        let intervals: BTreeMap<usize, Piece> = json["base_interval_c"]["hm"]
            .as_object()
            .unwrap()
            .iter()
            .map(|(number, at)| {
                let (number, at) =
                    (number.parse().unwrap(), |name: &str| at[name].as_u64().unwrap() as usize);
                (number, Piece { start: at("start"), end: at("end") + 1, letter: b'a' + number as u8 })
            })
            .collect();
        let whole: Vec<Piece> = intervals.values().copied().collect();
        let backwards = whole.iter().rev().copied().collect();
        cases.push(Case { name: format!("{model}, backwards"), pieces: backwards });
        let mut state = 1_u64;
        for n in 0..SHUFFLES {
            let mut pieces = whole.clone();
            for at in (1..pieces.len()).rev() {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                pieces.swap(at, (state >> 33) as usize % (at + 1));
            }
            cases.push(Case { name: format!("{model}, shuffle {n}"), pieces });
        }
        cases.push(Case { name: model.to_owned(), pieces: whole });
        for relation in json["rc"]["v"].as_array().unwrap() {
            let [one, two, word] = [0, 1, 2].map(|n| &relation[n]);
            // Before and after: these pieces do not overlap.
            if matches!(word.as_str(), Some("B" | "Bi")) {
                continue;
            }
            let [one, two] = [one, two].map(|n| intervals[&(n.as_u64().unwrap() as usize)]);
            let base = one.start.min(two.start);
            let [one, two] = [one, two].map(|p| Piece { start: p.start - base, end: p.end - base, ..p });
            let end = one.end.max(two.end);
            let behind = Piece { start: end, end: end + 1, letter: b'z' };
            for (order, pieces) in [("", [one, two, behind]), (", turned", [two, one, behind])] {
                let name = format!("{model} {}{word}{}{order}", one.letter as char, two.letter as char);
                cases.push(Case {
                    name: format!("{name}, the end first"),
                    pieces: [pieces[2], pieces[0], pieces[1]].into(),
                });
                cases.push(Case { name, pieces: pieces.into() });
            }
        }
    }
    Some(cases)
}

/// An interface to the kernel whose other end belongs to the test.
struct Way {
    file: File,
    /// Whether packets have Ethernet headers. The kernel keeps packets from such a device in other memory, which
    /// decides whether it joins adjacent segments.
    is_tap: bool,
}

impl Way {
    fn new(net: &Net, is_tap: bool) -> Self {
        let file = if is_tap { tap("t0") } else { tun("t0") };
        if is_tap {
            net.ip(&["link", "set", "t0", "address", "02:00:00:00:00:01"]);
        }
        std::fs::write("/proc/sys/net/ipv6/conf/t0/disable_ipv6", "0").unwrap();
        net.ip(&["link", "set", "t0", "up"]);
        net.ip(&["addr", "add", "10.9.0.1/24", "dev", "t0"]);
        net.ip(&["addr", "add", "fd09::1/64", "dev", "t0", "nodad"]);
        if is_tap {
            for peer in ["10.9.0.2", "fd09::2"] {
                net.ip(&[
                    "neigh",
                    "add",
                    peer,
                    "lladdr",
                    "02:00:00:00:00:02",
                    "dev",
                    "t0",
                    "nud",
                    "permanent",
                ]);
            }
        }
        // SAFETY: no memory is passed.
        unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) };
        Self { file, is_tap }
    }

    fn write(&mut self, ip: &[u8]) {
        let mut frame = Vec::new();
        if self.is_tap {
            frame.extend(HOST_MAC);
            frame.extend(PEER_MAC);
            frame.extend(if ip[0] >> 4 == 4 { [8, 0] } else { [0x86, 0xdd] });
        }
        frame.extend(ip);
        assert_eq!(self.file.write(&frame).unwrap(), frame.len());
    }

    /// IP packets that the kernel has sent.
    fn read(&mut self) -> Vec<Vec<u8>> {
        let (mut packets, mut buffer) = (Vec::new(), [0; 2048]);
        loop {
            match self.file.read(&mut buffer) {
                Ok(n) => packets.push(buffer[if self.is_tap { 14 } else { 0 }..n].to_vec()),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return packets,
                Err(error) => panic!("{error}"),
            }
        }
    }
}

/// The number of agreements, and the differences.
#[derive(Default)]
struct Tally {
    agreed: usize,
    differ: Vec<String>,
}

impl Tally {
    fn compare(&mut self, what: String, kernel: &[Vec<u8>], ours: &[Vec<u8>]) {
        if kernel == ours {
            self.agreed += 1;
        } else {
            let show = |all: &[Vec<u8>]| {
                let units = |one: &Vec<u8>| one.iter().step_by(UNIT).map(|c| *c as char).collect::<String>();
                all.iter().map(units).collect::<Vec<_>>().join(" and ")
            };
            self.differ.push(format!("{what}: kernel {:?}, Weir {:?}", show(kernel), show(ours)));
        }
    }

    /// Prints how many agreed, and compares it with the number required.
    fn hold(self, what: &str, required: usize) {
        for line in self.differ.iter().take(20) {
            println!("  {line}");
        }
        println!(
            "{what}: agrees {} of {}, required {required}",
            self.agreed,
            self.agreed + self.differ.len()
        );
        assert!(self.agreed >= required);
    }
}

/// Position of the header of the datagram.
#[derive(Clone, Copy, Debug)]
enum HeaderGoes {
    First,
    Last,
    /// In each piece that starts at offset 0.
    Within,
}

fn fragment(is_v6: bool, id: u16, at: usize, more: bool, data: &[u8]) -> Vec<u8> {
    if !is_v6 {
        return build::ip().ipv4(PEER4, HOST4).fragment(id, at as u16, more).proto(17).payload(data);
    }
    let field = at as u16 | u16::from(more);
    let mut ip = vec![0x60, 0, 0, 0];
    ip.extend((8 + data.len() as u16).to_be_bytes());
    ip.extend([44, 64]);
    ip.extend(PEER6);
    ip.extend(HOST6);
    ip.extend([17, 0]);
    ip.extend(field.to_be_bytes());
    ip.extend(u32::from(id).to_be_bytes());
    ip.extend(data);
    ip
}

/// The fragments of a case, then each unit of the datagram again.
fn fragments(case: &Case, id: u16, is_v6: bool, header: HeaderGoes) -> Vec<Vec<u8>> {
    let (end, mut sent) = (case.end(), Vec::new());
    let udp = [5000, PORT, (8 + end * UNIT) as u16, 0].map(u16::to_be_bytes).concat();
    let mut send = |piece: Piece| {
        let mut at = (piece.start + 1) * UNIT;
        let mut data = piece.bytes();
        if piece.start == 0 && matches!(header, HeaderGoes::Within) {
            at = 0;
            data.splice(0..0, udp.iter().copied());
        }
        sent.push(fragment(is_v6, id, at, piece.end < end, &data));
    };
    let mut with_holes = case.pieces.clone();
    with_holes.extend(case.holes());
    with_holes.iter().copied().for_each(&mut send);
    // Each unit again, after the outcome of the pieces is fixed.
    (0..end).for_each(|unit| send(Piece { start: unit, end: unit + 1, letter: b'+' }));
    let head = fragment(is_v6, id, 0, true, &udp);
    match header {
        HeaderGoes::First => {
            sent.insert(0, head.clone());
            sent.push(head);
        }
        HeaderGoes::Last => {
            sent.insert(with_holes.len(), head.clone());
            sent.push(head);
        }
        HeaderGoes::Within => {}
    }
    sent
}

/// Datagrams in the kernel's socket, up to one that is sent now.
fn received(socket: &UdpSocket, way: &mut Way, is_v6: bool) -> Vec<Vec<u8>> {
    let end = [5000, PORT, 11, 0].map(u16::to_be_bytes).concat();
    // An unfragmented packet is not a fragment, and IPv6 then requires a checksum.
    way.write(&fragment(is_v6, 0xffff, 0, false, &[&end[..], b"end"].concat()));
    let (mut all, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        let n = socket.recv(&mut buffer).expect("the datagram that marks the end");
        if &buffer[..n] == b"end" {
            return all;
        }
        all.push(buffer[..n].to_vec());
    }
}

#[test]
fn fragments_are_reassembled_as_by_the_kernel() {
    let Some(cases) = cases() else { return };
    let Some(net) = Net::new(0) else { return };
    let mut way = Way::new(&net, false);
    let mut tally = Tally::default();
    for is_v6 in [false, true] {
        let address = if is_v6 { IpAddr::from(HOST6) } else { IpAddr::from(HOST4) };
        let socket = UdpSocket::bind((address, PORT)).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        if is_v6 {
            // UDP_NO_CHECK6_RX: a checksum would match one outcome only.
            let one: libc::c_int = 1;
            let at: *const libc::c_int = &one;
            // SAFETY: the pointer is to a live value of the size given.
            let set = unsafe { libc::setsockopt(socket.as_raw_fd(), libc::IPPROTO_UDP, 102, at.cast(), 4) };
            assert_eq!(set, 0);
        }
        let mut defrag = Defrag::new(DefragConfig { overlap: Overlap::Linux, ..DefragConfig::default() });
        let mut id = 0;
        for case in &cases {
            for header in [HeaderGoes::First, HeaderGoes::Last, HeaderGoes::Within] {
                id += 1;
                let mut ours = Vec::new();
                for frame in fragments(case, id, is_v6, header) {
                    way.write(&frame);
                    let packet = packet(&frame, LinkType::RAW);
                    if let Some((whole, layers)) = defrag.fragment(&packet, &decode(&packet)) {
                        ours.push(layers.payload_of(whole.data).to_vec());
                    }
                }
                let kernel = received(&socket, &mut way, is_v6);
                let version = if is_v6 { 6 } else { 4 };
                tally.compare(format!("IPv{version}, {}, header {header:?}", case.name), &kernel, &ours);
            }
        }
        assert_eq!(defrag.stats().shed, 0);
    }
    tally.hold("fragments, kernel and Weir", 1464);
}

/// A connection of which the test simulates one side.
struct Connection<'a> {
    way: &'a mut Way,
    streams: &'a mut Streams,
    row: u32,
    is_v6: bool,
    port: u16,
    /// The bytes of the test's side that Weir has emitted.
    seen: Vec<u8>,
    /// Sequence number of the next byte that the kernel sends, after its first segment.
    kernel: Option<u32>,
}

const FIRST: u32 = 0xffff_ff00;

impl Connection<'_> {
    fn send(&mut self, offset: u32, flags: u8, data: &[u8]) {
        let seq = FIRST.wrapping_add(offset);
        let ack = self.kernel.unwrap_or_default();
        let ip = if self.is_v6 { build::ip().ipv6(PEER6, HOST6) } else { build::ip().ipv4(PEER4, HOST4) };
        self.way.write(&ip.tcp(self.port, PORT, flags).seq(seq).ack(ack).window(60_000).payload(data));
        let ack = (flags & ACK != 0).then_some(ack);
        self.feed(Direction::Forward, (seq, ack), flags, data);
        self.hear();
    }

    /// Reads the packets that the kernel has sent.
    fn hear(&mut self) {
        for ip in self.way.read() {
            let layers = decode(&packet(&ip, LinkType::RAW));
            if layers.network_kind == Network::None || layers.ports != [PORT, self.port] {
                continue;
            }
            let tcp = &ip[layers.transport as usize..];
            let word = |at: usize| u32::from_be_bytes(tcp[at..at + 4].try_into().unwrap());
            let flags = tcp[13];
            self.kernel = Some(word(4).wrapping_add(u32::from(flags & (SYN | FIN) != 0)));
            self.feed(Direction::Reverse, (word(4), Some(word(8))), flags, &[]);
        }
    }

    fn feed(&mut self, direction: Direction, (seq, ack): (u32, Option<u32>), flags: u8, data: &[u8]) {
        let segment = Segment { time: Time(0), direction, seq, ack, flags, urgent: None, data, cut: 0 };
        let seen = &mut self.seen;
        self.streams.segment(self.row, &segment, |chunk| {
            assert_eq!(chunk.gap, 0, "everything was sent");
            seen.extend_from_slice(chunk.data);
        });
    }
}

/// Weir's result for a case: its fragments, and its segments after a hole that is filled last.
fn weir(case: &Case, overlap: Overlap) -> [Vec<u8>; 2] {
    let mut defrag = Defrag::new(DefragConfig { overlap, ..DefragConfig::default() });
    let mut whole = Vec::new();
    for frame in fragments(case, 1, false, HeaderGoes::First) {
        let packet = packet(&frame, LinkType::RAW);
        if let Some((packet, layers)) = defrag.fragment(&packet, &decode(&packet)) {
            whole.extend_from_slice(layers.payload_of(packet.data));
            break;
        }
    }
    let mut streams = Streams::new(StreamConfig { overlap, ..StreamConfig::default() });
    let mut stream = Vec::new();
    let first = Piece { start: 0, end: 1, letter: b'^' };
    let moved = |piece: &Piece| Piece { start: piece.start + 1, end: piece.end + 1, ..*piece };
    let begin = Segment {
        time: Time(0),
        direction: Direction::Forward,
        seq: 0,
        ack: None,
        flags: SYN,
        urgent: None,
        data: &[],
        cut: 0,
    };
    streams.segment(0, &begin, |_| {});
    for piece in case.pieces.iter().map(moved).chain([first]) {
        let (seq, data) = (1 + (piece.start * UNIT) as u32, piece.bytes());
        let segment = Segment { seq, flags: ACK, data: &data, ..begin };
        streams.segment(0, &segment, |chunk| stream.extend_from_slice(chunk.data));
    }
    [whole, stream.split_off(UNIT)].map(|bytes| bytes.into_iter().step_by(UNIT).collect())
}

/// Results of each kind of host for the model, from Shankar and Paxson 2003 (table 1) and Novak 2005.
#[test]
fn the_model_gives_the_results_of_the_literature() {
    let Some(cases) = cases() else { return };
    let case = cases.iter().find(|case| case.name == "shankar").unwrap();
    let tables = [
        (Overlap::First, "aaadbbcccfff"),
        (Overlap::Last, "addddbeeefff"),
        (Overlap::Windows, "aaadbbcccfff"),
        (Overlap::Bsd, "aaaddbcccfff"),
    ];
    let mut agreed = 0;
    for (policy, table) in tables {
        for bytes in weir(case, policy) {
            assert_eq!(String::from_utf8_lossy(&bytes), table, "{}", policy.name());
            agreed += 1;
        }
    }
    println!("policies against tables: agrees {agreed} of 8, required 8");
}

#[test]
fn segments_are_reassembled_as_by_the_kernel() {
    let Some(cases) = cases() else { return };
    for (is_tap, what, required) in [(true, "tap", 872), (false, "tun", 872)] {
        let Some(net) = Net::new(0) else { return };
        let mut way = Way::new(&net, is_tap);
        let mut tally = Tally::default();
        let mut streams = Streams::new(StreamConfig { overlap: Overlap::Linux, ..StreamConfig::default() });
        let mut port = 10_000;
        for is_v6 in [false, true] {
            let address = if is_v6 { IpAddr::from(HOST6) } else { IpAddr::from(HOST4) };
            let listener = TcpListener::bind((address, PORT)).unwrap();
            for case in &cases {
                // The first bytes are present from the start, or arrive last.
                for behind in [0, 1] {
                    port += 1;
                    let (way, streams) = (&mut way, &mut streams);
                    let row = u32::from(port);
                    let mut connection =
                        Connection { way, streams, row, is_v6, port, seen: Vec::new(), kernel: None };
                    connection.send(0, SYN, &[]);
                    assert!(connection.kernel.is_some(), "the kernel answers");
                    connection.send(1, ACK, &[]);
                    let (mut socket, _) = listener.accept().unwrap();
                    let mut pieces = case.pieces.clone();
                    pieces.extend(case.holes());
                    for piece in pieces {
                        let offset = 1 + (piece.start + behind) * UNIT;
                        connection.send(offset as u32, ACK | PSH, &piece.bytes());
                    }
                    if behind > 0 {
                        connection.send(1, ACK | PSH, &Piece { start: 0, end: behind, letter: b'^' }.bytes());
                    }
                    let end = 1 + (case.end() + behind) * UNIT;
                    connection.send(end as u32, ACK | FIN, &[]);
                    socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
                    let mut kernel = Vec::new();
                    socket.read_to_end(&mut kernel).expect("an end");
                    let version = if is_v6 { 6 } else { 4 };
                    let order: String = case.pieces.iter().map(|piece| piece.letter as char).collect();
                    let what = format!("IPv{version}, {}, {order}, behind {behind}", case.name);
                    tally.compare(what, &[kernel], &[std::mem::take(&mut connection.seen)]);
                    connection.send(end as u32 + 1, RST | ACK, &[]);
                    connection.streams.end(row, Time(0), |_| {});
                }
            }
        }
        tally.hold(&format!("segments by {what}, kernel and Weir"), required);
    }
}
