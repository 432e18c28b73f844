//! `weir generate`: generates a capture from a model.
//!
//! Each group of the model is generated separately. The model's distributions determine the gaps between flows, the
//! number of requests, their sizes and their waits. TCP flows have a handshake, segments, acknowledgements and a
//! close; UDP flows have datagrams. Payload is zeros, because a model has no content. Groups of other protocols, and
//! groups without requests, are skipped with a message.

use crate::cli;
use crate::exit::{Exit, complain};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use weir_capture::{PacketWriter, Target, WriteOptions};
use weir_output::model::{Described, Group, Model, Random, VERSION};
use weir_wire::build::flags::{ACK, FIN, PSH, SYN};
use weir_wire::{Direction, LinkType, Time, build};

/// Maximum payload of a segment or datagram, in bytes.
const SEGMENT: u64 = 1448;
/// Maximum size of a request or response in bytes, because a fitted tail is unbounded.
const MAX: f64 = 16.0 * 1024.0 * 1024.0;
/// Maximum number of requests of a flow.
const REQUESTS: f64 = 10_000.0;
/// Nanoseconds between segments that are sent together: about those of a link of 1 Gbit/s.
const SERIAL: u64 = 12_000;
/// Start of the capture: 2025-01-01, so that equal models and seeds give equal bytes.
const BEGIN: u64 = 1_735_689_600_000_000_000;

/// Runs `weir generate`.
pub fn generate(options: &cli::Generate) -> Exit {
    let model = match load(&options.model) {
        Ok(model) => model,
        Err(error) => return complain(Exit::Usage, format!("{}: {error}", options.model.display())),
    };
    let generated: Vec<&Group> = model.groups.iter().filter(|group| can_be_generated(group)).collect();
    if generated.is_empty() {
        return complain(Exit::Usage, "the model has no group of TCP or UDP flows with requests");
    }
    for group in model.groups.iter().filter(|group| !can_be_generated(group)) {
        eprintln!(
            "weir: {}, {} to {}: skipped, because it has no requests over TCP or UDP",
            group.protocol.escape_debug(),
            group.from.escape_debug(),
            group.to.escape_debug()
        );
    }
    let target = match options.output.as_os_str() {
        dash if dash == "-" => Target::Stdout,
        _ => Target::Path(options.output.clone()),
    };
    let write = WriteOptions {
        nanoseconds: true,
        application: "weir generate".to_owned(),
        ..WriteOptions::default()
    };
    let mut writer = match PacketWriter::create(target, write, &[], Time(BEGIN)) {
        Ok(writer) => writer,
        Err(error) => return complain(Exit::Output, error),
    };
    let end = BEGIN.saturating_add(u64::from(options.seconds) * 1_000_000_000);
    let mut schedule = Schedule { coming: BinaryHeap::new(), number: 0, end };
    let mut generators: Vec<GroupGenerator<'_>> = generated
        .iter()
        .enumerate()
        .map(|(at, group)| GroupGenerator::new(group, at, options.seed))
        .collect();
    // The flow with the earliest start is generated next. Each packet of a flow follows the flow's start, so that all
    // earlier packets can be written.
    while let Some(generator) =
        generators.iter_mut().min_by_key(|generator| generator.next).filter(|generator| generator.next < end)
    {
        let begin = generator.next;
        if let Err(error) = schedule.write_until(begin, &mut writer) {
            return complain(Exit::Output, error);
        }
        generator.flow(&mut schedule);
    }
    let written = schedule.write_until(u64::MAX, &mut writer).and_then(|()| writer.close().1);
    match written {
        Ok(()) => Exit::Good,
        Err(error) => complain(Exit::Output, error),
    }
}

fn load(path: &std::path::Path) -> Result<Model, String> {
    let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
    let model: Model = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    if model.v != VERSION {
        return Err(format!("unsupported model version {}; expected {VERSION}", model.v));
    }
    let described = model.groups.iter().flat_map(|group| &group.quantities);
    for (name, described) in described {
        if let Some(fitted) = described.fits.iter().find(|fitted| !fitted.fit.is_sound()) {
            return Err(format!("{name}: {:?} is not a distribution", fitted.fit));
        }
    }
    Ok(model)
}

fn can_be_generated(group: &Group) -> bool {
    matches!(group.ip_proto, 6 | 17) && group.quantities.contains_key("request_size")
}

/// Future packets, by time and then in the order of their creation.
struct Schedule {
    coming: BinaryHeap<Reverse<(u64, u64, Vec<u8>)>>,
    number: u64,
    /// End of the capture, at which flows are truncated.
    end: u64,
}

impl Schedule {
    fn put(&mut self, time: u64, frame: Vec<u8>) {
        if time < self.end {
            self.number += 1;
            self.coming.push(Reverse((time, self.number, frame)));
        }
    }

    fn write_until(&mut self, time: u64, writer: &mut PacketWriter) -> Result<(), weir_capture::WriteError> {
        while self.coming.peek().is_some_and(|Reverse((at, ..))| *at < time) {
            let Some(Reverse((at, _, frame))) = self.coming.pop() else { break };
            let mut packet = build::packet(&frame, LinkType::ETHERNET);
            packet.time = Time(at);
            writer.write(&packet)?;
        }
        Ok(())
    }
}

/// The generator of a group.
struct GroupGenerator<'m> {
    group: &'m Group,
    random: Random,
    next: u64,
    flows: u64,
    place: u8,
}

/// One flow that is being generated.
struct GeneratedFlow {
    time: u64,
    client: ([u8; 4], u16),
    server: ([u8; 4], u16),
    /// The next sequence number of each side.
    seq: [u32; 2],
    round_trip: u64,
    is_tcp: bool,
}

impl<'m> GroupGenerator<'m> {
    fn new(group: &'m Group, at: usize, seed: u64) -> Self {
        let mut random = Random::new(seed ^ (at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let first = nanoseconds(group.quantities.get("flow_gap"), &mut random).unwrap_or_default();
        Self { group, random, next: BEGIN.saturating_add(first), flows: 0, place: (at % 250) as u8 }
    }

    fn draw(&mut self, name: &str) -> Option<f64> {
        self.group.quantities.get(name).map(|described| described.draw(&mut self.random))
    }

    fn nanoseconds(&mut self, name: &str) -> Option<u64> {
        nanoseconds(self.group.quantities.get(name), &mut self.random)
    }

    fn bytes(&mut self, name: &str) -> u64 {
        self.draw(name).map_or(0, |bytes| bytes.round().clamp(1.0, MAX) as u64)
    }

    /// Generates one flow. Returns the start of the next one.
    fn flow(&mut self, schedule: &mut Schedule) {
        let flow = self.flows;
        self.flows += 1;
        // Ports repeat only after 64,000 flows, so that flows have different keys.
        let port = 1024 + (flow % 64_000) as u16;
        let host = (flow / 64_000 % 250) as u8;
        let address = |place: &str, side: u8, host: u8| match place {
            "outside" => [203, side, self.place, host],
            _ => [10, side, self.place, host],
        };
        let client = (address(&self.group.from, 1, host.saturating_add(1)), port);
        let server = match self.group.to.as_str() {
            "multicast" => ([239, 0, self.place, 1], self.group.port),
            to => (address(to, 2, 1), self.group.port),
        };
        let round_trip = self.nanoseconds("round_trip").unwrap_or(1_000_000).max(2);
        let mut generated = GeneratedFlow {
            time: self.next,
            client,
            server,
            seq: [self.random.bits() as u32, self.random.bits() as u32],
            round_trip,
            is_tcp: self.group.ip_proto == 6,
        };
        let gap = self.nanoseconds("flow_gap").unwrap_or(u64::MAX);
        self.next = self.next.saturating_add(gap.max(1));
        let requests = self.draw("requests").unwrap_or(1.0).round().clamp(0.0, REQUESTS) as u64;
        generated.open(schedule);
        for request in 0..requests {
            if generated.time >= schedule.end {
                return;
            }
            if request > 0 {
                generated.time = generated.time.saturating_add(self.nanoseconds("think").unwrap_or_default());
            }
            generated.send(Direction::Forward, self.bytes("request_size"), schedule);
            let Some(wait) = self.nanoseconds("wait") else { continue };
            generated.time = generated.time.saturating_add(wait);
            generated.send(Direction::Reverse, self.bytes("response_size"), schedule);
        }
        generated.close(schedule);
    }
}

fn nanoseconds(described: Option<&Described>, random: &mut Random) -> Option<u64> {
    Some((described?.draw(random).max(0.0) * 1e9).round() as u64)
}

impl GeneratedFlow {
    fn packet(&mut self, direction: Direction, flags: u8, bytes: u64, schedule: &mut Schedule) {
        let (from, to) = match direction {
            Direction::Forward => (self.client, self.server),
            Direction::Reverse => (self.server, self.client),
        };
        let [forward, reverse] = self.seq;
        let (seq, ack) = match direction {
            Direction::Forward => (forward, reverse),
            Direction::Reverse => (reverse, forward),
        };
        let frame = build::ethernet().ipv4(from.0, to.0);
        let payload = vec![0; bytes as usize];
        let frame = if self.is_tcp {
            let ack = if flags & ACK == 0 { 0 } else { ack };
            frame.tcp(from.1, to.1, flags).seq(seq).ack(ack).payload(&payload)
        } else {
            frame.udp(from.1, to.1).payload(&payload)
        };
        schedule.put(self.time, frame);
        let marks = u32::from(flags & (SYN | FIN) != 0);
        if let Some(next) = self.seq.get_mut(direction as usize) {
            *next = next.wrapping_add(bytes as u32).wrapping_add(marks);
        }
    }

    fn open(&mut self, schedule: &mut Schedule) {
        if !self.is_tcp {
            return;
        }
        self.packet(Direction::Forward, SYN, 0, schedule);
        self.time = self.time.saturating_add(self.round_trip / 2);
        self.packet(Direction::Reverse, SYN | ACK, 0, schedule);
        self.time = self.time.saturating_add(self.round_trip - self.round_trip / 2);
        self.packet(Direction::Forward, ACK, 0, schedule);
    }

    /// Sends a number of bytes from one side, and an acknowledgement from the other side at the end.
    fn send(&mut self, direction: Direction, bytes: u64, schedule: &mut Schedule) {
        let mut left = bytes;
        while left > 0 {
            let now = left.min(SEGMENT);
            left -= now;
            let flags = if left == 0 { PSH | ACK } else { ACK };
            self.packet(direction, flags, now, schedule);
            if left > 0 {
                self.time = self.time.saturating_add(SERIAL);
            }
        }
        if self.is_tcp {
            let other = match direction {
                Direction::Forward => Direction::Reverse,
                Direction::Reverse => Direction::Forward,
            };
            self.packet(other, ACK, 0, schedule);
        }
    }

    fn close(&mut self, schedule: &mut Schedule) {
        if !self.is_tcp {
            return;
        }
        for (direction, flags) in
            [(Direction::Forward, FIN | ACK), (Direction::Reverse, FIN | ACK), (Direction::Forward, ACK)]
        {
            self.time = self.time.saturating_add(self.round_trip / 2);
            self.packet(direction, flags, 0, schedule);
        }
    }
}
