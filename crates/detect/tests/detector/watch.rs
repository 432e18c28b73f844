//! A flow that two detectors look at: one searches for literals, the other one verifies everything. They must agree.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use weir_detect::{
    Anomaly, Detector, DetectorStats, FlowState, Judging, Match, Moment, Places, Program, ProgramOptions,
    Reading, Reputations, RuleFile, Ruleset, Scores, Seen, Sources, Variables,
};
use weir_proto::PROTOCOLS;
use weir_wire::Direction::{self, Forward};
use weir_wire::build;
use weir_wire::stream::Chunk;
use weir_wire::{Hints, Layers, LinkType, Time, decode};

pub const CLIENT: [u8; 4] = [10, 0, 0, 1];
pub const SERVER: [u8; 4] = [10, 0, 0, 2];

/// What rules of these tests name: lists of one checksum, of digits that are repeated, countries and reputations.
struct Files;

impl Sources for Files {
    fn read(&self, _rules: &str, name: &str) -> Result<Vec<u8>, String> {
        let bytes = match name {
            "md5.txt" => 16,
            "sha1.txt" => 20,
            "sha256.txt" => 32,
            _ => return Err("no such file".to_owned()),
        };
        Ok("AB".repeat(bytes).into_bytes())
    }

    fn places(&self) -> Option<Arc<dyn Places>> {
        Some(Arc::new(Countries))
    }

    fn reputations(&self, category: &str) -> Option<Arc<Scores>> {
        let mut all = Reputations::new(b"1,Bad,\n2,Good,").expect("they are categories");
        all.add(b"10.0.0.1,1,30\n10.0.0.2,2,31\n10.0.0.3,1,31").expect("they are reputations");
        all.of(category)
    }
}

/// 10.0.0.1 is in Germany, 10.0.0.2 in France, and others are unknown.
#[derive(Debug)]
struct Countries;

impl Places for Countries {
    fn country(&self, address: IpAddr) -> Option<[u8; 2]> {
        match address {
            IpAddr::V4(address) if address == Ipv4Addr::from(CLIENT) => Some(*b"DE"),
            IpAddr::V4(address) if address == Ipv4Addr::from(SERVER) => Some(*b"FR"),
            _ => None,
        }
    }
}

pub fn read(rules: &str) -> Ruleset {
    let reading = Reading { variables: Variables::default(), sources: &Files, with_switched_off: false };
    Ruleset::read([RuleFile { name: "x.rules", bytes: rules.as_bytes() }], &reading)
}

/// The rules of a text, each of which must be in force.
pub fn set_of(rules: &str) -> Ruleset {
    let set = read(rules);
    assert!(set.refusals.is_empty(), "{:?}\n{rules}", set.refusals);
    set
}

/// A flow that both detectors look at.
pub struct Watch {
    pub both: [(Detector, FlowState); 2],
    pub moment: Moment<'static>,
}

pub fn seen<'a>(data: &'a [u8], layers: &'a Layers) -> Seen<'a> {
    Seen { data, layers, hints: Hints(0) }
}

pub fn address(bytes: [u8; 4]) -> IpAddr {
    Ipv4Addr::from(bytes).into()
}

impl Watch {
    /// A flow of TCP.
    pub fn new(rules: &str) -> Self {
        Self::of(&set_of(rules))
    }

    pub fn of(set: &Ruleset) -> Self {
        let programs = [
            Program::new(set, &[]),
            Program::with(set, &[], ProgramOptions { searches: false, ..ProgramOptions::default() }),
        ];
        Self {
            both: programs.map(|program| {
                assert!(program.unread.is_empty(), "{:?}", program.unread);
                let mut detector = Detector::new(Arc::new(program));
                detector.at_packet(Some(1));
                (detector, FlowState::default())
            }),
            moment: Moment {
                time: Time(0),
                direction: Forward,
                initiator: (address(CLIENT), 40_000),
                responder: (address(SERVER), 80),
                ip_proto: 6,
                protocols: [0; 4],
                is_unidentified: false,
                first: Time(0),
                packet: None,
            },
        }
    }

    /// A flow of TCP that is judged so. Its streams are looked at with each segment.
    pub fn judged(rules: &str, judging: Judging) -> Self {
        let mut watch = Self::new(rules);
        let judging = Judging { each_segment: true, ..judging };
        watch.each(|detector, _, _| detector.judge_by(&judging));
        watch
    }

    pub fn at_packet(&mut self, number: u32) -> &mut Self {
        self.each(|detector, _, _| detector.at_packet(Some(number)))
    }

    pub fn over(mut self, ip_proto: u8) -> Self {
        self.moment.ip_proto = ip_proto;
        self
    }

    pub fn between(mut self, initiator: ([u8; 4], u16), responder: ([u8; 4], u16)) -> Self {
        self.moment.initiator = (address(initiator.0), initiator.1);
        self.moment.responder = (address(responder.0), responder.1);
        self
    }

    pub fn named(mut self, protocol: &str) -> Self {
        let place = PROTOCOLS.iter().position(|one| one.name == protocol).expect(protocol);
        self.moment.protocols[0] = place as u8 + 1;
        self
    }

    pub fn each(
        &mut self,
        mut look: impl FnMut(&mut Detector, &mut FlowState, &Moment<'static>),
    ) -> &mut Self {
        for (detector, state) in &mut self.both {
            look(detector, state, &self.moment);
        }
        self
    }

    pub fn packet(&mut self, direction: Direction, frame: &[u8]) -> &mut Self {
        let layers: Layers = decode(&build::packet(frame, LinkType::ETHERNET));
        for (detector, state) in &mut self.both {
            let seen = seen(frame, &layers);
            Detector::sees(state, direction, &seen);
            detector.packet(state, &Moment { direction, packet: Some(seen), ..self.moment });
        }
        self
    }

    /// A packet whose payload is part of no stream.
    pub fn unread(&mut self, direction: Direction, frame: &[u8]) -> &mut Self {
        let layers: Layers = decode(&build::packet(frame, LinkType::ETHERNET));
        for (detector, state) in &mut self.both {
            let packet = Some(seen(frame, &layers));
            detector.unread_packet(state, &Moment { direction, packet, ..self.moment });
        }
        self
    }

    /// A packet of the client.
    pub fn seen(&mut self, seen: Seen<'_>) -> &mut Self {
        for (detector, state) in &mut self.both {
            Detector::sees(state, Forward, &seen);
            detector.packet(state, &Moment { packet: Some(seen), ..self.moment });
        }
        self
    }

    pub fn gap(&mut self, direction: Direction, gap: u64, data: &[u8]) -> &mut Self {
        let chunk = Chunk { time: Time(0), direction, gap, data };
        self.each(|detector, state, moment| detector.chunk(state, &Moment { direction, ..*moment }, &chunk))
    }

    pub fn chunk(&mut self, direction: Direction, data: &[u8]) -> &mut Self {
        self.gap(direction, 0, data)
    }

    pub fn transaction(&mut self, side: Direction, number: u64) -> &mut Self {
        self.each(|_, state, _| Detector::transaction(state, side, number))
    }

    pub fn buffer(&mut self, name: &str, direction: Direction, value: &[u8]) -> &mut Self {
        let mut all = weir_proto::buffers().chain(weir_proto::numbers());
        let buffer = all.find(|buffer| buffer.name == name).expect(name);
        self.each(|detector, state, moment| {
            detector.buffer(state, &Moment { direction, ..*moment }, buffer, value);
        })
    }

    /// A whole message: its numbers, and its other buffers.
    pub fn counted(
        &mut self,
        direction: Direction,
        numbers: &[(&str, u64)],
        values: &[(&str, &str)],
    ) -> &mut Self {
        for (name, number) in numbers {
            self.buffer(name, direction, &number.to_be_bytes());
        }
        self.message(direction, values)
    }

    pub fn complete(&mut self, direction: Direction) -> &mut Self {
        self.each(|detector, state, moment| detector.complete(state, &Moment { direction, ..*moment }))
    }

    /// A whole message: its buffers.
    pub fn message(&mut self, direction: Direction, values: &[(&str, &str)]) -> &mut Self {
        for (name, value) in values {
            self.buffer(name, direction, value.as_bytes());
        }
        self.complete(direction)
    }

    pub fn anomaly(&mut self, direction: Direction, anomaly: Anomaly<'_>) -> &mut Self {
        self.each(|detector, state, moment| {
            detector.event(state, &Moment { direction, ..*moment }, &anomaly);
        })
    }

    pub fn end(&mut self) -> &mut Self {
        self.each(|detector, state, moment| detector.end(state, moment))
    }

    pub fn matches(&mut self) -> Vec<Match> {
        let [searching, plain] =
            self.both.each_mut().map(|(detector, _)| detector.take().collect::<Vec<_>>());
        assert_eq!(searching, plain, "the search changes what matches");
        searching
    }

    /// The numbers of the rules that matched since it was called last, in order.
    pub fn sids(&mut self) -> Vec<u32> {
        let found = self.matches();
        let rules = &self.both[0].0.program().rules;
        found.iter().map(|one| rules[one.rule as usize].rule().sid).collect()
    }

    /// Other rules are in force from now on.
    pub fn follow(&mut self, rules: &str) -> &mut Self {
        let set = set_of(rules);
        let programs = [
            Program::new(&set, &[]),
            Program::with(&set, &[], ProgramOptions { searches: false, ..ProgramOptions::default() }),
        ];
        for ((detector, _), program) in self.both.iter_mut().zip(programs) {
            detector.follow(Arc::new(program));
        }
        self
    }

    pub fn memory(&self) -> usize {
        self.both.iter().map(|(_, state)| state.memory()).max().unwrap_or_default()
    }

    pub fn stats(&self) -> DetectorStats {
        self.both[0].0.stats()
    }
}

pub fn tcp(flags: u8) -> build::Builder {
    build::ethernet().ipv4(CLIENT, SERVER).tcp(40_000, 80, flags)
}

pub fn answer(flags: u8) -> build::Builder {
    build::ethernet().ipv4(SERVER, CLIENT).tcp(80, 40_000, flags)
}

pub fn udp(payload: &[u8]) -> Vec<u8> {
    build::ethernet().ipv4(CLIENT, SERVER).udp(40_000, 80).payload(payload)
}

pub fn icmp(kind: u8, code: u8, rest: [u8; 4]) -> Vec<u8> {
    build::ethernet().ipv4(CLIENT, SERVER).icmp(kind, code, rest).payload(b"ping")
}

pub fn icmpv6(kind: u8, rest: [u8; 4]) -> Vec<u8> {
    build::ethernet().ipv6([1; 16], [2; 16]).icmp(kind, 0, rest).payload(b"ping")
}

pub fn with_options(options: &[u8]) -> Vec<u8> {
    build::ethernet().ipv4(CLIENT, SERVER).options(options).udp(1, 2).payload(b"x")
}

/// A datagram with bytes of its IPv4 header changed.
pub fn patched(at: usize, bytes: &[u8]) -> Vec<u8> {
    let mut frame = udp(b"abc");
    frame[14 + at..14 + at + bytes.len()].copy_from_slice(bytes);
    frame
}

/// Whether a packet alone matches `alert PROTOCOL any any -> any any (OPTIONS; sid:1;)`.
pub fn packet_matches(protocol: &str, options: &str, frame: &[u8]) -> bool {
    let rule = format!("alert {protocol} any any -> any any ({options} sid:1;)");
    let layers: Layers = decode(&build::packet(frame, LinkType::ETHERNET));
    let mut watch = Watch::new(&rule).over(layers.ip_proto);
    if layers.network_kind == weir_wire::Network::Ipv6 {
        watch.moment.initiator.0 = IpAddr::from([1_u8; 16]);
        watch.moment.responder.0 = IpAddr::from([2_u8; 16]);
    }
    !watch.packet(Forward, frame).sids().is_empty()
}

/// The first packet matches, the second one does not.
pub fn differ(protocol: &str, options: &str, hit: &[u8], miss: &[u8]) {
    assert!(packet_matches(protocol, options, hit), "{protocol} {options} misses");
    assert!(!packet_matches(protocol, options, miss), "{protocol} {options} matches");
}
