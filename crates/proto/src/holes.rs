//! A law of streams with a hole: whatever segment is missing, the records that have no bytes in it are as they are without
//! the hole.
//!
//! What depends on the hole by nature is listed here: values that its bytes name ([`NAMED`]), conversations whose messages
//! do not stand alone ([`EXCEPTED`]), the bytes that identify a protocol, and clients that do not wait for answers.

use crate::laws::all_talks;
use crate::talk::{Talk, Turn};
use crate::{PROTOCOLS, Record, TCP, Value};
use std::collections::BTreeMap;
use std::ops::Range;
use weir_wire::Direction;

/// The protocols that keep the law.
const CHECKED: [&str; 9] = ["ftp", "ftp_data", "http", "http2", "imap", "irc_dcc", "pop3", "stun", "telnet"];

/// Values that the bytes of a hole name, if a line of it begins with one of these words.
struct Named {
    protocol: &'static str,
    words: &'static [&'static str],
    fields: &'static [&'static str],
}

const NAMED: [Named; 6] = [
    // A password is shown of a guest only, whom the user's name tells.
    Named { protocol: "ftp", words: &["USER", "PASS"], fields: &["user", "password", "argument"] },
    // Paths are relative to the working directory.
    Named { protocol: "ftp", words: &["CWD", "CDUP", "PWD", "257"], fields: &["argument"] },
    // The reply to a lost transfer is taken for a late one to the transfer before.
    Named { protocol: "ftp", words: &["NLST"], fields: &["reply_code", "reply"] },
    Named { protocol: "pop3", words: &["USER", "APOP"], fields: &["user"] },
    // A login is a line of any word, with its literals and answers to challenges.
    Named { protocol: "imap", words: &[""], fields: &["user"] },
    // The folder is the one that a command selects and its answer confirms.
    Named { protocol: "imap", words: &["a2 "], fields: &["folder", "target"] },
];

/// Conversations whose messages do not stand alone, each with the reason.
const EXCEPTED: [(&str, &str); 8] = [
    ("ftp/errors.talk", "a reply without a code cannot be told from the rest of a lost reply"),
    ("http/connect.talk", "the bytes that switch the protocol are lost"),
    ("http/inside-a-tunnel-with-noise.talk", "the bytes that switch the protocol are lost"),
    ("http/tunnel.talk", "the bytes that switch the protocol are lost"),
    ("http/odd.talk", "where a malformed message ends depends on those around it"),
    ("http/ranges.talk", "a file is joined from several responses"),
    ("http/upload.talk", "whether the announced body follows is named by the response that is lost"),
    ("imap/errors.talk", "whether a literal follows is named by the response that is lost"),
];

/// Fields that count what was before the record, or that are made of such numbers.
const COUNTED: [&str; 5] = ["transaction", "depth", "file", "orig_fuids", "resp_fuids"];

/// Number of bytes of a side that identify a protocol, as in a session.
const HEAD: u64 = 1024;

/// A segment that is missing: its place among the turns, and its bytes in the stream of its side.
struct Hole {
    turn: usize,
    side: Direction,
    bytes: Range<u64>,
}

impl Hole {
    /// Whether a record stands for bytes of the hole.
    fn touches(&self, record: &Record<'_>) -> bool {
        let at = record.at.of(self.side);
        at.start < self.bytes.end && self.bytes.start < at.end
    }
}

/// The conversation with a turn for each line.
fn by_line(turns: &[Turn]) -> Vec<Turn> {
    let turns = turns.iter().flat_map(|turn| match turn {
        Turn::Data(side, data) if data.len() < 20_000 => {
            data.split_inclusive(|byte| *byte == b'\n').map(|line| Turn::Data(*side, line.to_vec())).collect()
        }
        turn => vec![turn.clone()],
    });
    turns.collect()
}

/// Every segment with payload.
fn holes(talk: &Talk) -> Vec<Hole> {
    let (mut at, mut holes) = ([0; 2], Vec::new());
    for (turn, block) in talk.turns.iter().enumerate() {
        let Turn::Data(side, data) = block else { continue };
        let begin = at[*side as usize];
        at[*side as usize] += data.len() as u64;
        if !data.is_empty() {
            holes.push(Hole { turn, side: *side, bytes: begin..at[*side as usize] });
        }
    }
    holes
}

/// Whether a line of a client is a request of HTTP: its second word is a path.
fn is_request(line: &[u8]) -> bool {
    line.split(|byte| *byte == b' ').nth(1).is_some_and(|word| word.starts_with(b"/"))
}

/// The first block from which on a client does not wait for the answers, with the block before it, whose loss shows only
/// then: which command an answer belongs to is not known behind a hole.
fn first_pipelined(folder: &str, blocks: &[Turn]) -> usize {
    let mut asked = 0;
    let is_so = |turn: &Turn| {
        let Turn::Data(Direction::Forward, data) = turn else {
            asked = 0;
            return false;
        };
        asked += match folder {
            "ftp" | "pop3" | "imap" => data.iter().filter(|byte| **byte == b'\n').count(),
            "http" => data.split(|byte| *byte == b'\n').filter(|line| is_request(line)).count(),
            _ => 0,
        };
        asked > 1
    };
    blocks.iter().position(is_so).map_or(blocks.len(), |at| at.saturating_sub(1))
}

/// Whether a record is a part of what another stands for, as a file in a response.
fn is_within(record: &Record<'_>, other: &Record<'_>) -> bool {
    [Direction::Forward, Direction::Reverse].into_iter().all(|side| {
        let (part, all) = (record.at.of(side), other.at.of(side));
        part.is_empty() || all.start <= part.start && part.end <= all.end
    })
}

/// Whether two records are of one protocol.
fn are_of_one_protocol(record: &Record<'_>, other: &Record<'_>) -> bool {
    let has = |tables: &[&'static crate::Table], record: &Record<'_>| {
        tables.iter().any(|table| **table == *record.table)
    };
    PROTOCOLS.iter().any(|protocol| has(protocol.tables, record) && has(protocol.tables, other))
}

/// A record without the fields that depend on the hole by nature.
fn plain(record: &Record<'static>, masked: &[&str]) -> (&'static str, u64, Vec<Value<'static>>) {
    let values = record.table.fields.iter().zip(&record.values);
    let values = values.filter(|(field, _)| !COUNTED.contains(&field.name) && !masked.contains(&field.name));
    (record.table.name, record.time.0, values.map(|(_, value)| value.clone()).collect())
}

/// What a hole has done to the records of a conversation.
#[derive(Default)]
struct Count {
    checked: usize,
    named: usize,
    unidentified: usize,
    pipelined: usize,
    excepted: usize,
}

/// The records that differ without having bytes in the hole, beyond what is so by nature.
fn lost(
    folder: &str,
    talk: &Talk,
    hole: &Hole,
    expected: &[Record<'static>],
    count: &mut Count,
) -> Vec<String> {
    let Turn::Data(_, data) = &talk.turns[hole.turn] else { return Vec::new() };
    let has = |word: &&str| data.split(|byte| *byte == b'\n').any(|line| line.starts_with(word.as_bytes()));
    let named = NAMED.iter().filter(|named| named.protocol == folder && named.words.iter().any(has));
    let masked: Vec<&str> = named.flat_map(|named| named.fields.iter().copied()).collect();
    let mut without = talk.clone();
    without.turns[hole.turn] = Turn::Gap(hole.side, data.len() as u64);
    let found = without.emitted(|data| vec![data.to_vec()]).records;
    let mut left: Vec<_> = found.iter().map(|record| plain(record, &masked)).collect();
    let (mut lost, mut unidentified) = (Vec::new(), false);
    for record in expected.iter().filter(|record| !record.at.is_empty() && !hole.touches(record)) {
        let is_part = ["files", "mail"].contains(&record.table.name)
            && expected.iter().any(|other| hole.touches(other) && is_within(record, other));
        let value = plain(record, &masked);
        if let Some(at) = left.iter().position(|other| *other == value) {
            left.swap_remove(at);
        } else if hole.bytes.start < HEAD && found.iter().all(|other| !are_of_one_protocol(record, other)) {
            unidentified = true;
        } else if !is_part {
            lost.push(format!("{} at {}", record.table.name, record.time.0 % 1_000_000_000 / 1_000_000));
        }
    }
    count.checked += 1;
    count.named += usize::from(!masked.is_empty());
    count.unidentified += usize::from(unidentified);
    lost
}

#[test]
fn a_hole_changes_only_records_with_bytes_in_it() {
    let (mut count, mut failures, mut other) = (Count::default(), Vec::new(), BTreeMap::new());
    let has_gap = |talk: &Talk| talk.turns.iter().any(|turn| matches!(turn, Turn::Gap(..)));
    // A conversation with a gap of its own would have two holes.
    for (path, talk) in all_talks().filter(|(_, talk)| talk.ip_proto == TCP && !has_gap(talk)) {
        let folder = path.parent().unwrap().file_name().unwrap().to_string_lossy().into_owned();
        let name = format!("{folder}/{}", path.file_name().unwrap().to_string_lossy());
        let blocks = first_pipelined(&folder, &talk.turns);
        let lines = by_line(&talk.turns[..blocks]).len();
        let lined = Talk { turns: by_line(&talk.turns), ..talk.clone() };
        for (talk, waits) in [(talk, blocks), (lined, lines)] {
            if EXCEPTED.iter().any(|(excepted, _)| *excepted == name) {
                count.excepted += holes(&talk).len();
                continue;
            }
            let expected = talk.emitted(|data| vec![data.to_vec()]).records;
            for hole in holes(&talk) {
                if !CHECKED.contains(&folder.as_str()) {
                    *other.entry(folder.clone()).or_insert(0) += 1;
                } else if hole.turn >= waits {
                    count.pipelined += 1;
                } else {
                    let lost = lost(&folder, &talk, &hole, &expected, &mut count);
                    if !lost.is_empty() {
                        failures.push(format!("{name}: without turn {}: {lost:?}", hole.turn));
                    }
                }
            }
        }
    }
    let Count { checked, named, unidentified, pipelined, excepted } = count;
    println!(
        "{checked} pairs of conversation and segment: {named} with values that the segment names, {unidentified} that \
         identify the protocol; besides {pipelined} of clients that do not wait, {excepted} of conversations that are \
         excepted; other protocols: {other:?}"
    );
    assert!(failures.is_empty(), "{} of {checked}:\n{}", failures.len(), failures.join("\n"));
    assert!(checked >= 400 && unidentified * 10 < checked, "{checked}, {unidentified} unidentified");
}
