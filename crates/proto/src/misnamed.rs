//! How often probes are wrong: over random bytes, over messages of protocols that do not exist, over those of protocols
//! that are not parsed here, and over the conversations under `testdata/` on unusual ports.
//!
//! Each conversation runs through a session, on ports that belong to no protocol. A probe may be wrong in at most one of
//! 100,000. The generators are seeded, so that each run makes the same conversations.

mod others;

use crate::laws::{Collected, all_talks};
use crate::talk::Turn;
use crate::{PROTOCOLS, Protocol, Session, Setup, TCP, UDP, Wants};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use weir_wire::stream::Chunk;
use weir_wire::{Direction, Time};

/// One conversation in this number may get a wrong name.
const RARE: usize = 100_000;

/// What each side says, in order.
pub(crate) type Said = Vec<(Direction, Vec<u8>)>;

/// Random numbers (xorshift64*).
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number below another one.
    fn below(&mut self, end: usize) -> usize {
        (self.next() >> 16) as usize % end
    }

    fn byte(&mut self) -> u8 {
        (self.next() >> 32) as u8
    }

    fn bytes(&mut self, length: usize) -> Vec<u8> {
        (0..length).map(|_| self.byte()).collect()
    }

    /// Random bytes, of which there are often few.
    fn some(&mut self, most: usize) -> Vec<u8> {
        let most = 1 + self.below(most);
        let length = 1 + self.below(most);
        self.bytes(length)
    }

    fn of<'a, T: ?Sized>(&mut self, choices: &[&'a T]) -> &'a T {
        choices[self.below(choices.len())]
    }

    /// Letters and digits.
    fn word(&mut self, most: usize) -> Vec<u8> {
        let kinds = ["abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "0123456789", "aB3._-"];
        let letters = self.of(&kinds).as_bytes();
        let length = 1 + self.below(most);
        (0..length).map(|_| letters[self.below(letters.len())]).collect()
    }
}

fn side(at: usize) -> Direction {
    if at == 0 { Direction::Forward } else { Direction::Reverse }
}

/// The sides of a conversation's turns: they take turns mostly, and one of them may be silent.
fn sides(dice: &mut Dice) -> Vec<usize> {
    let (first, is_one_sided) = (usize::from(dice.below(5) == 0), dice.below(6) == 0);
    let turns = 1 + dice.below(8);
    let mut sides = Vec::new();
    for at in 0..turns {
        let turn = if is_one_sided { first } else { (first + at) % 2 };
        sides.push(if dice.below(10) == 0 { first } else { turn });
    }
    sides
}

fn noise(dice: &mut Dice) -> Said {
    sides(dice).into_iter().map(|at| (side(at), dice.some(300))).collect()
}

/// Messages with constants, a length, a kind and a counter, as most binary protocols have them.
fn framed(dice: &mut Dice) -> Said {
    let marks = {
        let size = dice.below(5);
        let first = dice.bytes(size);
        let second = if dice.below(3) == 0 { dice.bytes(size) } else { first.clone() };
        [first, second]
    };
    let parts: Vec<usize> = (0..1 + dice.below(5)).map(|_| dice.below(9)).collect();
    let (constant, is_whole) = (dice.bytes(4), dice.below(2));
    let mut counter = dice.next() as u32 & [0xff, 0xffff, 0xffff_ffff][dice.below(3)];
    let (body_kind, most) = (dice.below(4), [12, 60, 400][dice.below(3)]);
    let mut said = Vec::new();
    for at in sides(dice) {
        let body = match body_kind {
            0 => vec![0; 1 + dice.below(most)],
            1 => dice.word(most),
            _ => dice.some(most),
        };
        let mut message = marks[at].clone();
        let size: usize = parts.iter().map(|part| [1, 2, 2, 4, 4, 1, 2, 1, 4][*part]).sum();
        let length = body.len() + is_whole * (message.len() + size);
        for part in &parts {
            match part {
                0 => message.push(length as u8),
                1 => message.extend((length as u16).to_be_bytes()),
                2 => message.extend((length as u16).to_le_bytes()),
                3 => message.extend((length as u32).to_be_bytes()),
                4 => message.extend((length as u32).to_le_bytes()),
                5 => message.push(counter as u8),
                6 => message.extend((counter as u16).to_be_bytes()),
                7 => message.push(dice.below(16) as u8),
                _ => message.extend(&constant),
            }
        }
        message.extend(body);
        said.push((side(at), message));
        counter = counter.wrapping_add(1);
    }
    said
}

/// Lines of words, with codes and marks, as most protocols of text have them.
fn lines(dice: &mut Dice) -> Said {
    let marks = ["", "", "", ":", "+", "-", "*", "#", "/", "<", "@", "$", "!"].map(str::as_bytes);
    let own = [dice.of(&marks), dice.of(&marks)];
    let (verbs, code) = ([dice.word(8), dice.word(4)], dice.below(3) == 0);
    let end = dice.of(&["\r\n", "\n", "\0", "\r"].map(str::as_bytes));
    let blank = dice.of(&[" ", " ", "\t", ":", "=", ", "].map(str::as_bytes));
    let mut said = Vec::new();
    for at in sides(dice) {
        let mut line = own[at].to_vec();
        if code && at == 1 {
            line.extend((100 + dice.below(500)).to_string().bytes());
        } else if dice.below(2) == 0 {
            line.extend(&verbs[at]);
        } else {
            line.extend(dice.word(10));
        }
        for _ in 0..dice.below(6) {
            line.extend(blank);
            line.extend(dice.word(12));
        }
        line.extend(end);
        said.push((side(at), line));
    }
    said
}

/// The names that a conversation gets on these ports.
pub(crate) fn names(said: &Said, ports: [u16; 2], ip_proto: u8) -> Vec<&'static Protocol> {
    let address = |last| IpAddr::V4(Ipv4Addr::new(192, 0, 2, last));
    let setup = Setup {
        flow: 0x1234_5678,
        initiator: (address(1), ports[0]),
        responder: (address(2), ports[1]),
        ip_proto,
        wants: Wants { identifies: true, ..Wants::default() },
    };
    let (mut session, mut out, mut time) =
        (Session::new(), Collected::default(), Time(1_700_000_000_000_000_000));
    for (direction, data) in said {
        time.0 += 1_000_000;
        session.chunk(&Chunk { time, direction: *direction, gap: 0, data }, &|| setup.clone(), &mut out);
    }
    session.end(time, &|| setup.clone(), &mut out);
    session.found().collect()
}

/// Ports that belong to no protocol.
fn foreign(dice: &mut Dice) -> [u16; 2] {
    loop {
        let ports = [49_152 + dice.below(16_000) as u16, 1024 + dice.below(40_000) as u16];
        if !PROTOCOLS.iter().any(|known| known.ports.contains(&ports[1])) {
            return ports;
        }
    }
}

/// The number of wrong names of each protocol.
#[derive(Default)]
struct Wrong {
    conversations: usize,
    names: BTreeMap<&'static str, (usize, String)>,
}

impl Wrong {
    /// Runs conversations of a kind over transport protocols: the name of the kind is none of the wrong ones.
    fn run(
        &mut self,
        kind: &str,
        times: usize,
        dice: &mut Dice,
        make: &dyn Fn(&mut Dice) -> Said,
        over: &[u8],
    ) {
        for _ in 0..times {
            let (said, ports) = (make(dice), foreign(dice));
            for ip_proto in over {
                self.conversations += 1;
                for name in names(&said, ports, *ip_proto).iter().filter(|name| name.name != kind) {
                    let count = self.names.entry(name.name).or_default();
                    count.0 += 1;
                    if count.1.is_empty() {
                        count.1 = format!("{kind} on {ports:?}: {}", shown(&said));
                    }
                }
            }
        }
    }

    #[track_caller]
    fn check(&self, what: &str) {
        println!("{what}: {} conversations", self.conversations);
        for (name, (count, example)) in &self.names {
            println!("  {name} {count} times, first in {example}");
        }
        let over: Vec<_> =
            self.names.iter().filter(|(_, (count, _))| count * RARE > self.conversations).collect();
        assert!(over.is_empty(), "{what}, {} conversations: {over:#?}", self.conversations);
    }
}

fn shown(said: &Said) -> String {
    let turn = |(direction, data): &(Direction, Vec<u8>)| {
        let mark = if *direction == Direction::Forward { '>' } else { '<' };
        format!(
            "{mark} {}",
            data.iter()
                .take(24)
                .copied()
                .flat_map(std::ascii::escape_default)
                .map(char::from)
                .collect::<String>()
        )
    };
    said.iter().take(8).map(turn).collect::<Vec<_>>().join(" ")
}

#[test]
fn random_bytes_have_no_name() {
    let mut wrong = Wrong::default();
    wrong.run("noise", 200_000, &mut Dice(0x7e57_0001), &noise, &[TCP, UDP]);
    wrong.check("random bytes");
}

#[test]
fn messages_of_unknown_protocols_have_no_name() {
    let mut wrong = Wrong::default();
    wrong.run("frames", 200_000, &mut Dice(0x7e57_0002), &framed, &[TCP, UDP]);
    wrong.check("made frames");
    let mut wrong = Wrong::default();
    wrong.run("lines", 200_000, &mut Dice(0x7e57_0003), &lines, &[TCP, UDP]);
    wrong.check("made lines");
}

#[test]
fn protocols_that_are_not_parsed_have_no_other_name() {
    let mut wrong = Wrong::default();
    let mut dice = Dice(0x7e57_0004);
    let times = RARE / others::ALL.len() + 1;
    for (kind, ip_proto, make) in others::ALL {
        wrong.run(kind, times, &mut dice, make, &[*ip_proto]);
    }
    assert!(wrong.conversations >= RARE);
    wrong.check("protocols that are not parsed");
}

/// On ports that belong to no protocol, a conversation has the names that it has on its own ports, or none.
#[test]
fn ports_do_not_change_a_name() {
    let (mut dice, mut alike) = (Dice(0x7e57_0005), 0);
    for (path, talk) in all_talks() {
        let mut said = Said::new();
        for turn in &talk.turns {
            match turn {
                Turn::Data(direction, data) => said.push((*direction, data.clone())),
                Turn::Gap(..) => {}
            }
        }
        let mut own: BTreeSet<_> =
            names(&said, talk.ports, talk.ip_proto).iter().map(|name| name.name).collect();
        if own.iter().any(|name| ["llmnr", "mdns", "nbns"].contains(name)) {
            // Only their ports tell them from DNS.
            own.insert("dns");
        }
        for _ in 0..4 {
            let ports = foreign(&mut dice);
            let found: BTreeSet<_> =
                names(&said, ports, talk.ip_proto).iter().map(|name| name.name).collect();
            assert!(found.is_subset(&own), "{}: {found:?} on {ports:?}, {own:?} at home", path.display());
            alike += usize::from(found == own);
        }
    }
    println!("{alike} of {} conversations have all their names on foreign ports", 4 * all_talks().count());
    assert!(alike > 0);
}
