//! What a stream costs grows with its bytes and no faster, whoever wrote them: each conversation under `testdata/` is
//! made longer in the ways of those who want a parser to look again and again at what it has seen, and read with n
//! bytes, and with a multiple of n.

use crate::laws::{all_talks, testdata};
use crate::talk::{Talk, Turn};
use crate::{Expected, Out, Record, TCP};

/// Bytes of the shorter one of the two: beyond the limits of what parsers keep, where some are quicker.
const BYTES: usize = 192 << 10;

/// How much longer the other one is.
const TIMES: usize = 4;

/// How much longer it may take: four times is linear, sixteen times quadratic, and what lies between them is for the
/// machine's noise.
const MAX: u64 = 8;

/// Below this, nanoseconds, a run says nothing of its growth.
const NOTHING: u64 = 300_000;

struct NullSink;

impl Out for NullSink {
    fn record(&mut self, _: Record<'_>) {}
    fn expect(&mut self, _: Expected) {}
    fn content(&mut self, _: u64, _: u64, _: &[u8]) -> bool {
        true
    }
}

/// How a conversation is made longer.
#[derive(Clone, Copy, Debug)]
enum Longer {
    /// All of it again and again.
    Again,
    /// What the initiator says, again and again, without an answer.
    Asked,
    /// What the responder says, again and again, without a question.
    Answered,
    /// The longest block does not end: its first half, and then one byte.
    Endless(u8),
}

const WAYS: [Longer; 7] = [
    Longer::Again,
    Longer::Asked,
    Longer::Answered,
    Longer::Endless(b'a'),
    Longer::Endless(b' '),
    Longer::Endless(b'\n'),
    Longer::Endless(0),
];

impl Longer {
    fn make(self, talk: &Talk, bytes: usize) -> Talk {
        let len = |turn: &Turn| if let Turn::Data(_, data) = turn { data.len() } else { 0 };
        let is_of = |turn: &&Turn, wanted| matches!(turn, Turn::Data(side, _) if *side == wanted);
        let repeated: Vec<Turn> = match self {
            Self::Again => talk.turns.clone(),
            Self::Asked => {
                talk.turns.iter().filter(|s| is_of(s, weir_wire::Direction::Forward)).cloned().collect()
            }
            Self::Answered => {
                talk.turns.iter().filter(|s| is_of(s, weir_wire::Direction::Reverse)).cloned().collect()
            }
            Self::Endless(byte) => {
                let longest = (0..talk.turns.len()).max_by_key(|at| len(&talk.turns[*at]));
                let Some(Turn::Data(side, data)) = longest.and_then(|at| talk.turns.get(at)) else {
                    return talk.clone();
                };
                let mut data = data[..data.len() / 2].to_vec();
                // A datagram has an end.
                data.resize(if talk.ip_proto == TCP { bytes } else { bytes / 4 }, byte);
                let before = talk.turns.iter().take(longest.unwrap_or(0)).cloned();
                let turns = before.chain([Turn::Data(*side, data)]).collect();
                return Talk { turns, ..talk.clone() };
            }
        };
        let once: usize = repeated.iter().map(len).sum();
        let times = bytes.div_ceil(once.max(1));
        let turns = repeated.iter().cycle().take(repeated.len() * times).cloned().collect();
        Talk { turns, ..talk.clone() }
    }
}

/// Nanoseconds that this thread has had a processor.
fn cpu_time() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

fn cost(talk: &Talk, piece: usize) -> u64 {
    let before = cpu_time();
    talk.emit(|data, see| data.chunks(piece).for_each(see), &mut NullSink);
    cpu_time() - before
}

#[test]
fn time_per_byte_does_not_rise_with_size() {
    let (mut cases, mut emitted, mut rising) = (0, 0, Vec::new());
    for (path, talk) in all_talks() {
        for way in WAYS {
            let [one, two] = [BYTES, TIMES * BYTES].map(|bytes| way.make(&talk, bytes));
            for piece in if talk.ip_proto == TCP { &[1448, 11][..] } else { &[usize::MAX][..] } {
                let (mut min, mut rounds) = ([u64::MAX; 2], 0);
                cases += 1;
                loop {
                    min[0] = min[0].min(cost(&one, *piece));
                    min[1] = min[1].min(cost(&two, *piece));
                    rounds += 1;
                    if min[1] <= min[0] * MAX || min[1] < NOTHING {
                        break;
                    }
                    if rounds == 12 {
                        let [one, two] = min.map(|nanoseconds| nanoseconds / 1000);
                        let path = path.strip_prefix(testdata()).unwrap_or(&path).display();
                        rising.push(format!(
                            "{path} {way:?} in pieces of {piece}: {one} us, {TIMES} times as much {two} us"
                        ));
                        break;
                    }
                }
                emitted += u32::from(min[1] >= NOTHING);
            }
        }
    }
    println!("{cases} cases, {emitted} of them above {} us", NOTHING / 1000);
    assert!(rising.is_empty(), "{}", rising.join("\n"));
    assert!(emitted > 100, "{emitted} of {cases} cases took long enough to say anything");
}
