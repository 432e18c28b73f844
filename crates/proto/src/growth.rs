//! What a stream costs grows with its octets and no faster, whoever wrote them: each conversation under `testdata/` is
//! made longer in the ways of those who want a parser to look again and again at what it has seen, and read with n
//! octets, and with a multiple of n.

use crate::laws::{Said, Talk, all_talks, testdata};
use crate::{Expected, Out, Record, TCP};

/// Octets of the shorter one of the two: beyond the limits of what parsers keep, where some are quicker.
const OCTETS: usize = 192 << 10;

/// How much longer the other one is.
const TIMES: usize = 4;

/// How much longer it may take: four times is linear, sixteen times quadratic, and what lies between them is for the
/// machine's noise.
const MOST: u64 = 8;

/// Below this, nanoseconds, a run says nothing of its growth.
const NOTHING: u64 = 300_000;

struct Nobody;

impl Out for Nobody {
    fn record(&mut self, _: Record<'_>) {}
    fn expect(&mut self, _: Expected) {}
    fn content(&mut self, _: u64, _: u64, _: &[u8]) {}
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
    /// The longest block does not end: its first half, and then one octet.
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
    fn make(self, talk: &Talk, octets: usize) -> Talk {
        let len = |said: &Said| if let Said::Data(_, data) = said { data.len() } else { 0 };
        let is_of = |said: &&Said, wanted| matches!(said, Said::Data(side, _) if *side == wanted);
        let repeated: Vec<Said> = match self {
            Self::Again => talk.said.clone(),
            Self::Asked => {
                talk.said.iter().filter(|s| is_of(s, weir_wire::Direction::Forward)).cloned().collect()
            }
            Self::Answered => {
                talk.said.iter().filter(|s| is_of(s, weir_wire::Direction::Reverse)).cloned().collect()
            }
            Self::Endless(octet) => {
                let longest = (0..talk.said.len()).max_by_key(|at| len(&talk.said[*at]));
                let Some(Said::Data(side, data)) = longest.and_then(|at| talk.said.get(at)) else {
                    return talk.clone();
                };
                let mut data = data[..data.len() / 2].to_vec();
                // A datagram has an end.
                data.resize(if talk.ip_proto == TCP { octets } else { octets / 4 }, octet);
                let before = talk.said.iter().take(longest.unwrap_or(0)).cloned();
                let said = before.chain([Said::Data(*side, data)]).collect();
                return Talk { said, ..talk.clone() };
            }
        };
        let once: usize = repeated.iter().map(len).sum();
        let times = octets.div_ceil(once.max(1));
        let said = repeated.iter().cycle().take(repeated.len() * times).cloned().collect();
        Talk { said, ..talk.clone() }
    }
}

/// Nanoseconds that this thread has had a processor.
fn cpu_time() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

fn cost(talk: &Talk, piece: usize) -> u64 {
    let before = cpu_time();
    talk.tell(|data, see| data.chunks(piece).for_each(see), &mut Nobody);
    cpu_time() - before
}

#[test]
fn time_per_octet_does_not_rise_with_size() {
    let (mut cases, mut told, mut rising) = (0, 0, Vec::new());
    for (path, talk) in all_talks() {
        for way in WAYS {
            let [one, two] = [OCTETS, TIMES * OCTETS].map(|octets| way.make(&talk, octets));
            for piece in if talk.ip_proto == TCP { &[1448, 11][..] } else { &[usize::MAX][..] } {
                let (mut least, mut rounds) = ([u64::MAX; 2], 0);
                cases += 1;
                loop {
                    least[0] = least[0].min(cost(&one, *piece));
                    least[1] = least[1].min(cost(&two, *piece));
                    rounds += 1;
                    if least[1] <= least[0] * MOST || least[1] < NOTHING {
                        break;
                    }
                    if rounds == 12 {
                        let [one, two] = least.map(|nanoseconds| nanoseconds / 1000);
                        let path = path.strip_prefix(testdata()).unwrap_or(&path).display();
                        rising.push(format!(
                            "{path} {way:?} in pieces of {piece}: {one} us, {TIMES} times as much {two} us"
                        ));
                        break;
                    }
                }
                told += u32::from(least[1] >= NOTHING);
            }
        }
    }
    println!("{cases} cases, {told} of them above {} us", NOTHING / 1000);
    assert!(rising.is_empty(), "{}", rising.join("\n"));
    assert!(told > 100, "{told} of {cases} cases took long enough to say anything");
}
