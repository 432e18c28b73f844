//! Hostile captures: about a megabyte of frames each, made to cost as much as they can in one parser or stage.
//!
//! `generate hostile DIR` writes them for `bench/run --only hostile`, which measures their CPU time; tests pass them
//! through the engine and bound the work that is counted. The modules list captures that are written by hand.
//! [`of_talk`] makes four more of each conversation under `testdata/`, so that each parser has some.

mod bodies;
mod certificates;
mod datagrams;
mod mail;
mod packets;
mod streams;

use std::error::Error;
use std::fs;
use std::path::Path;
use weir_proto::PROTOCOLS;
use weir_proto::talk::{Talk, Turn};
use weir_wire::Direction::{self, Forward, Reverse};
use weir_wire::build::ethernet;
use weir_wire::build::flags::{ACK, FIN, PSH, SYN};

/// Bytes of frames in the captures that are measured.
pub const BYTES: usize = 1_000_000;
/// Bytes of payload in a TCP segment.
const SEGMENT: usize = 1448;
/// Bytes of payload in the largest UDP datagram in IPv4.
const DATAGRAM: usize = 65_507;

/// A hostile capture.
pub struct Case {
    /// Name of its file, without the extension.
    pub name: &'static str,
    /// What is in it.
    pub about: &'static str,
    fill: fn(&mut Capture),
}

/// All that are written by hand.
pub fn cases() -> impl Iterator<Item = &'static Case> {
    [bodies::CASES, certificates::CASES, datagrams::CASES, mail::CASES, packets::CASES, streams::CASES]
        .into_iter()
        .flatten()
}

impl Case {
    /// Frames of at least `bytes` bytes: the capture ends with the frame that reaches the limit.
    pub fn capture(&self, bytes: usize) -> Capture {
        let mut capture = Capture::new(bytes);
        (self.fill)(&mut capture);
        capture
    }
}

/// How a conversation fills a capture.
#[derive(Clone, Copy, Debug)]
pub enum Way {
    /// A flow for each repetition.
    Flows,
    /// All repetitions in one flow.
    Again,
    /// What the initiator sends, repeated in one flow.
    Asked,
    /// What the responder sends, repeated in one flow.
    Answered,
}

impl Way {
    /// All of them, with their names.
    pub const ALL: [(&str, Self); 4] = [
        ("flows", Self::Flows),
        ("again", Self::Again),
        ("asked", Self::Asked),
        ("answered", Self::Answered),
    ];

    /// What is in the capture.
    pub fn about(self) -> &'static str {
        match self {
            Self::Flows => "a flow for each repetition",
            Self::Again => "all repetitions in one flow",
            Self::Asked => "what the initiator sends, repeated in one flow",
            Self::Answered => "what the responder sends, repeated in one flow",
        }
    }
}

/// The conversations `FOLDER/PROTOCOL/CASE.talk`, in the order of their names, which are `PROTOCOL-CASE`.
///
/// # Errors
/// When one cannot be read.
pub fn talks(folder: &Path) -> Result<Vec<(String, Talk)>, Box<dyn Error>> {
    let mut found = Vec::new();
    for protocol in PROTOCOLS {
        let Ok(entries) = fs::read_dir(folder.join(protocol.name)) else { continue };
        // Ports of a text that does not name its own.
        let ports = [40_000, protocol.ports.first().copied().unwrap_or(4444)];
        for entry in entries {
            let path = entry?.path();
            let Some(stem) = path.file_stem().filter(|_| path.extension().is_some_and(|end| end == "talk"))
            else {
                continue;
            };
            let text = fs::read_to_string(&path)?;
            let talk = Talk::parse(&text, ports).map_err(|error| format!("{}: {error}", path.display()))?;
            found.push((format!("{}-{}", protocol.name, stem.to_string_lossy()), talk));
        }
    }
    found.sort_by(|one, other| one.0.cmp(&other.0));
    Ok(found)
}

/// A capture that repeats a conversation up to `bytes` bytes. Gaps in the conversation are left out. `None` if the selected
/// side sends nothing.
pub fn of_talk(talk: &Talk, way: Way, bytes: usize) -> Option<Capture> {
    let mut capture = Capture::new(bytes);
    let wanted = |side: Direction| match way {
        Way::Flows | Way::Again => true,
        Way::Asked => side == Forward,
        Way::Answered => side == Reverse,
    };
    let turns: Vec<(Direction, &[u8])> = talk
        .turns
        .iter()
        .filter_map(|turn| match turn {
            Turn::Data(side, data) if wanted(*side) && !data.is_empty() => Some((*side, data.as_slice())),
            _ => None,
        })
        .collect();
    if turns.is_empty() {
        return None;
    }
    let mut flow = None;
    while !capture.is_full() {
        let mut now = flow.take().unwrap_or_else(|| match talk.ip_proto {
            6 => capture.tcp(talk.ports),
            _ => capture.udp(talk.ports),
        });
        for (side, data) in &turns {
            now.send(&mut capture, *side, data);
        }
        match way {
            Way::Flows => now.close(&mut capture),
            _ => flow = Some(now),
        }
    }
    Some(capture)
}

/// Frames of Ethernet.
pub struct Capture {
    /// The frames in their order.
    pub frames: Vec<Vec<u8>>,
    /// Bytes of all frames.
    pub bytes: usize,
    /// Microseconds from a frame to the next; 1 unless the case is about time.
    pub step: u64,
    /// Number of bytes; the capture ends with the frame that reaches it.
    limit: usize,
    flows: u32,
}

impl Capture {
    fn new(limit: usize) -> Self {
        Self { frames: Vec::new(), bytes: 0, step: 1, limit, flows: 0 }
    }

    fn is_full(&self) -> bool {
        self.bytes >= self.limit
    }

    fn push(&mut self, frame: Vec<u8>) {
        if !self.is_full() {
            self.bytes += frame.len();
            self.frames.push(frame);
        }
    }

    /// Runs `more` with a count from 0 until the capture is full.
    fn fill(&mut self, mut more: impl FnMut(&mut Self, u32)) {
        let mut n = 0;
        while !self.is_full() {
            more(self, n);
            n += 1;
        }
    }

    /// A flow with a client of its own, without packets. The client keeps the conversation's port.
    fn flow(&mut self, proto: u8, ports: [u16; 2]) -> Flow {
        self.flows += 1;
        let client = (0x0a00_0000 + self.flows).to_be_bytes();
        Flow { client, ports, proto, sent: [1; 2], segment: SEGMENT }
    }

    /// A TCP connection after its handshake.
    fn tcp(&mut self, ports: [u16; 2]) -> Flow {
        let flow = self.flow(6, ports);
        flow.segment(self, Forward, SYN, 0, &[]);
        flow.segment(self, Reverse, SYN | ACK, 0, &[]);
        flow
    }

    /// A TCP connection whose beginning was not captured.
    fn midstream(&mut self, ports: [u16; 2]) -> Flow {
        self.flow(6, ports)
    }

    /// A UDP flow.
    fn udp(&mut self, ports: [u16; 2]) -> Flow {
        self.flow(17, ports)
    }
}

/// One connection: `turns`, then `side` sends units until the capture is full.
fn stream(
    capture: &mut Capture,
    ports: [u16; 2],
    turns: &[(Direction, &[u8])],
    side: Direction,
    mut unit: impl FnMut(u32) -> Vec<u8>,
) {
    let mut flow = capture.tcp(ports);
    for (side, data) in turns {
        flow.send(capture, *side, data);
    }
    let mut n = 0;
    capture.fill(|capture, _| {
        let mut data = Vec::new();
        while data.len() < 4 * SEGMENT {
            data.extend(unit(n));
            n += 1;
        }
        flow.send(capture, side, &data);
    });
}

/// Flows that each carry the turns that `turns` makes for their number.
fn conversations(
    capture: &mut Capture,
    proto: u8,
    ports: [u16; 2],
    mut turns: impl FnMut(u32) -> Vec<(Direction, Vec<u8>)>,
) {
    capture.fill(|capture, n| {
        let mut flow = capture.flow(proto, ports);
        for (side, data) in turns(n) {
            flow.send(capture, side, &data);
        }
    });
}

/// One flow.
struct Flow {
    client: [u8; 4],
    ports: [u16; 2],
    proto: u8,
    /// Next sequence number of each side.
    sent: [u32; 2],
    /// Bytes of payload in a segment.
    segment: usize,
}

const SERVER: [u8; 4] = [192, 0, 2, 1];

impl Flow {
    /// The flow with smaller segments.
    fn in_pieces_of(self, segment: usize) -> Self {
        Self { segment, ..self }
    }

    /// Sends the bytes of one side: in segments, or in datagrams.
    fn send(&mut self, capture: &mut Capture, side: Direction, data: &[u8]) {
        if self.proto == 17 {
            for piece in data.chunks(DATAGRAM) {
                let [client, server] = self.ports;
                capture.push(match side {
                    Forward => ethernet().ipv4(self.client, SERVER).udp(client, server).payload(piece),
                    Reverse => ethernet().ipv4(SERVER, self.client).udp(server, client).payload(piece),
                });
            }
            return;
        }
        for piece in data.chunks(self.segment) {
            if capture.is_full() {
                return;
            }
            self.segment(capture, side, ACK | PSH, self.sent[side as usize], piece);
            self.sent[side as usize] = self.sent[side as usize].wrapping_add(piece.len() as u32);
        }
    }

    /// Sends bytes at a distance from the next sequence number, which stays.
    fn send_at(&self, capture: &mut Capture, side: Direction, distance: u32, data: &[u8]) {
        self.segment(capture, side, ACK | PSH, self.sent[side as usize].wrapping_add(distance), data);
    }

    /// Ends a connection; a UDP flow has no end.
    fn close(&self, capture: &mut Capture) {
        if self.proto == 6 {
            self.segment(capture, Forward, ACK | FIN, self.sent[0], &[]);
            self.segment(capture, Reverse, ACK | FIN, self.sent[1], &[]);
        }
    }

    fn segment(&self, capture: &mut Capture, side: Direction, flags: u8, seq: u32, data: &[u8]) {
        let [client, server] = self.ports;
        let ack = self.sent[1 - side as usize];
        let frame = match side {
            Forward => ethernet().ipv4(self.client, SERVER).tcp(client, server, flags),
            Reverse => ethernet().ipv4(SERVER, self.client).tcp(server, client, flags),
        };
        let frame = frame.seq(seq);
        capture.push(if flags & ACK != 0 { frame.ack(ack) } else { frame }.payload(data));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use weir_wire::build::packet;
    use weir_wire::{Checksum, LinkType, decode, verify};

    #[test]
    fn captures_are_full_and_have_right_checksums_and_names_of_their_own() {
        let mut names = BTreeSet::new();
        for case in cases() {
            assert!(names.insert(case.name), "{}", case.name);
            let capture = case.capture(BYTES);
            let longest = capture.frames.iter().map(Vec::len).max().unwrap_or_default();
            assert!((BYTES..BYTES + longest).contains(&capture.bytes), "{}: {}", case.name, capture.bytes);
            for frame in &capture.frames {
                let packet = packet(frame, LinkType::ETHERNET);
                let sums = verify(&packet, &decode(&packet));
                let is_bad = sums.network == Checksum::Bad || sums.transport == Checksum::Bad;
                assert!(!is_bad, "{}", case.name);
            }
        }
    }
}
