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
use weir_wire::{Direction, Time};

/// The protocols that keep the law.
const CHECKED: [&str; 30] = [
    "dce_rpc",
    "dnp3",
    "dns",
    "ftp",
    "ftp_data",
    "http",
    "http2",
    "imap",
    "irc",
    "irc_dcc",
    "kerberos",
    "ldap",
    "modbus",
    "mqtt",
    "mysql",
    "pop3",
    "postgresql",
    "rdp",
    "rfb",
    "sip",
    "smb",
    "smtp",
    "socks",
    "ssh",
    "stun",
    "syslog",
    "telnet",
    "tls",
    "websocket",
    "xmpp",
];

/// Values that the bytes of a hole name, if a line of it begins with one of these words; of SMB and DCE/RPC, if a record with bytes in it is
/// of one of these commands or requests. A field is one of any table, or of `table.field`.
struct Named {
    protocol: &'static str,
    words: &'static [&'static str],
    fields: &'static [&'static str],
}

const NAMED: [Named; 22] = [
    Named { protocol: "smb", words: &BINDS, fields: &OF_INTERFACES },
    Named { protocol: "dce_rpc", words: &BINDS, fields: &OF_INTERFACES },
    Named { protocol: "irc", words: &["USER"], fields: &["user"] },
    Named { protocol: "irc", words: &["NICK"], fields: &["nick"] },
    // Logins are inferred from the sizes of encrypted messages, which after a hole do not count.
    Named { protocol: "ssh", words: &[""], fields: &["auth_success", "auth_attempts"] },
    Named { protocol: "smtp", words: &["EHLO", "HELO", "LHLO"], fields: &["helo"] },
    // After a command that is lost, its reply and its challenges are not known as such.
    Named { protocol: "smtp", words: &["AUTH", "334", ANSWER], fields: &["user", "mechanism"] },
    // A password is shown of a guest only, whom the user's name tells.
    Named { protocol: "ftp", words: &["USER", "PASS"], fields: &["user", "password", "argument"] },
    // Paths are relative to the working directory.
    Named { protocol: "ftp", words: &["CWD", "CDUP", "PWD", "257"], fields: &["argument"] },
    // The reply to a lost transfer is taken for a late one to the transfer before.
    Named { protocol: "ftp", words: &["NLST"], fields: &["reply_code", "reply"] },
    Named { protocol: "pop3", words: &["USER", "APOP"], fields: &["user"] },
    // The greeting, the login, and the commands that change what they name.
    Named { protocol: "mysql", words: &[""], fields: &["user", "database", "server_version"] },
    // The first messages of both sides.
    Named {
        protocol: "postgresql",
        words: &[""],
        fields: &["user", "database", "application_name", "server_version", "from_protocol"],
    },
    // The text of a statement is in the message that prepares it.
    Named { protocol: "postgresql", words: &["P", "B"], fields: &["frontend_arg"] },
    // The first bytes name the protocol that TLS follows.
    Named { protocol: "rdp", words: &[""], fields: &["from_protocol"] },
    Named { protocol: "xmpp", words: &[""], fields: &["from_protocol"] },
    // A login is a line of any word, with its literals and answers to challenges.
    Named { protocol: "imap", words: &[""], fields: &["user"] },
    // The folder is the one that a command selects and its answer confirms.
    Named { protocol: "imap", words: &["a2 "], fields: &["folder", "target"] },
    Named { protocol: "smb", words: &NEGOTIATES, fields: &["dialect", "smb_dialect"] },
    Named { protocol: "smb", words: &CONNECTS, fields: &["path", "share", "smb_share"] },
    // All that is known of an open file besides its number.
    Named { protocol: "smb", words: &OPENS, fields: &OF_FILES },
    Named { protocol: "smb", words: &RENAMES, fields: &NAMES },
];

const BINDS: [&str; 2] = ["BIND", "ALTER_CONTEXT"];
const OF_INTERFACES: [&str; 4] = ["named_pipe", "endpoint", "operation", "interfaces"];
const NEGOTIATES: [&str; 2] = ["SMB2_COMMAND_NEGOTIATE_PROTOCOL", "SMB1_COMMAND_NEGOTIATE_PROTOCOL"];
const CONNECTS: [&str; 2] = ["SMB2_COMMAND_TREE_CONNECT", "SMB1_COMMAND_TREE_CONNECT_ANDX"];
const OPENS: [&str; 2] = ["SMB2_COMMAND_CREATE", "SMB1_COMMAND_NT_CREATE_ANDX"];
const RENAMES: [&str; 2] = ["SMB2_COMMAND_SET_INFO", "SMB1_COMMAND_RENAME"];
const NAMES: [&str; 6] =
    ["filename", "smb_filename", "name_or_path", "renamed_from", "smb_files.name", "smb_files.prev_name"];
const OF_FILES: [&str; 13] = [
    "filename",
    "smb_filename",
    "name_or_path",
    "renamed_from",
    "smb_files.name",
    "smb_files.prev_name",
    "smb_files.path",
    "smb_files.size",
    "smb_files.modified",
    "smb_files.accessed",
    "smb_files.created",
    "smb_files.changed",
    "files.total_bytes",
];

/// Stands for a line of base64 alone: an answer to a challenge.
const ANSWER: &str = "base64";

/// Whether a line begins with a word.
fn begins_with(line: &[u8], word: &str) -> bool {
    let line = line.trim_ascii_end();
    match word {
        ANSWER => {
            !line.is_empty() && line.iter().all(|byte| byte.is_ascii_alphanumeric() || b"+/=".contains(byte))
        }
        _ => line.starts_with(word.as_bytes()),
    }
}

/// Conversations whose messages do not stand alone, each with the reason.
const EXCEPTED: [(&str, &str); 11] = [
    ("dce_rpc/repeated.talk", "an answer has the number of a call that was begun twice"),
    ("ftp/errors.talk", "a reply without a code cannot be told from the rest of a lost reply"),
    (
        "http/inside-a-tunnel-with-noise.talk",
        "where the tunnel begins shows whose the byte before a response is",
    ),
    ("http/odd.talk", "where a malformed message ends depends on those around it"),
    ("http/ranges.talk", "a file is joined from several responses"),
    ("http/upload.talk", "whether the announced body follows is named by the response that is lost"),
    ("ldap/start-tls.talk", "whether TLS follows is named by the response that is lost"),
    (
        "kerberos/malformed.talk",
        "an error does not name its request: without it, it is taken for that of another",
    ),
    (
        "modbus/registers.talk",
        "behind the rest of a lost request the next is known late, behind its response",
    ),
    (
        "postgresql/malformed.talk",
        "an answer does not name its request: behind malformed bytes it is taken for that of another",
    ),
    ("imap/errors.talk", "whether a literal follows is named by the response that is lost"),
];

/// Records whose bytes of the client say how all others are read: a version that no later message repeats.
const KEYS: [&str; 1] = ["mqtt_connect"];

/// Protocols whose messages have no mark, with their table: after a hole that ends within one, the next is found only if at least this
/// number of them follow.
const UNMARKED: [(&str, &str, usize); 3] =
    [("modbus", "modbus", 4), ("mqtt", "mqtt", 2), ("websocket", "websocket_frames", 3)];

/// Fields that count what was before the record, or that are made of such numbers, of any table or of one.
const COUNTED: [&str; 10] = [
    "transaction",
    "depth",
    "trans_depth",
    "file",
    "files",
    "orig_fuids",
    "resp_fuids",
    "smb.id",
    "smb_id",
    "dns_message.tx",
];

/// Whether a field is one of these, each of any table or of one.
fn is_among(record: &Record<'_>, field: &str, fields: &[&str]) -> bool {
    fields.iter().any(|name| match name.split_once('.') {
        Some((table, of_table)) => table == record.table.name && of_table == field,
        None => *name == field,
    })
}

/// Whether a row of a file that is deleted when it is closed follows from bytes that the hole has: they opened it.
fn is_deleted(record: &Record<'_>, touched: &[&Record<'_>]) -> bool {
    let is = |record: &Record<'_>, action: &'static str| {
        record.table.name == "smb_files" && *record.get("action") == action.into()
    };
    is(record, "SMB::FILE_DELETE")
        && touched.iter().any(|open| is(open, "SMB::FILE_OPEN") && open.get("name") == record.get("name"))
}

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

impl Hole {
    /// Whether a record ends where the hole begins, or begins where it ends: the hole has cut the rest of it off.
    fn borders(&self, record: &Record<'_>) -> bool {
        let at = record.at.of(self.side);
        !at.is_empty() && (at.end == self.bytes.start || self.bytes.end == at.start)
    }

    /// The time at which the hole shows: the side sends again. An answer to lost bytes is unexpected until then.
    fn shown(&self, talk: &Talk) -> Time {
        let is_next = |turn: &Turn| matches!(turn, Turn::Data(side, _) if *side == self.side);
        let later = talk.turns.iter().skip(self.turn + 1).position(is_next);
        later.map_or(Time(u64::MAX), |later| time_of(self.turn + 1 + later))
    }
}

/// The time at which a turn arrives, as in [`Talk::emit`].
fn time_of(turn: usize) -> Time {
    Time(1_700_000_000_000_000_000 + (turn as u64 + 1) * 1_000_000)
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

/// Number of commands in a client's bytes; `None` for a protocol whose answers do not depend on their order.
fn commands(folder: &str, data: &[u8]) -> Option<usize> {
    let lines = || data.split(|byte| *byte == b'\n');
    match folder {
        "ftp" | "pop3" | "imap" => Some(lines().count() - 1),
        "smtp" => Some(lines().filter(|line| is_command(line)).count()),
        "http" => Some(lines().filter(|line| is_request(line)).count()),
        _ => None,
    }
}

/// Whether a line of a client is a command of SMTP, or the end of a mail.
fn is_command(line: &[u8]) -> bool {
    let words = [
        "EHLO",
        "HELO",
        "MAIL FROM:",
        "RCPT TO:",
        "DATA",
        "BDAT",
        "RSET",
        "NOOP",
        "QUIT",
        "AUTH",
        "STARTTLS",
    ];
    let line = line.trim_ascii_end();
    line == b"." || words.iter().any(|word| line.to_ascii_uppercase().starts_with(word.as_bytes()))
}

/// The blocks that a client sends without waiting for answers, the answers to them, and the block before them, whose loss
/// shows only then: which command an answer belongs to is not known after a hole.
fn pipelined(folder: &str, blocks: &[Turn]) -> Vec<bool> {
    let mut pipelined = vec![false; blocks.len()];
    let (mut begin, mut asked, mut is_answered) = (0, 0, false);
    for (at, turn) in blocks.iter().enumerate() {
        match turn {
            Turn::Data(Direction::Forward, data) => {
                // After such a block, HTTP and POP3 do not know again which command an answer belongs to.
                let is_for_good = asked > 1 && matches!(folder, "http" | "pop3");
                if std::mem::take(&mut is_answered) && !is_for_good {
                    (begin, asked) = (at.saturating_sub(1), 0);
                }
                asked += commands(folder, data).unwrap_or(0);
            }
            _ => is_answered = true,
        }
        if asked > 1 {
            pipelined[begin..=at].fill(true);
        }
    }
    pipelined
}

/// Whether a record is a part of what another stands for, as a file in a response.
fn is_within(record: &Record<'_>, other: &Record<'_>) -> bool {
    [Direction::Forward, Direction::Reverse].into_iter().all(|side| {
        let (part, all) = (record.at.of(side), other.at.of(side));
        part.is_empty() || all.start <= part.start && part.end <= all.end
    })
}

/// Whether a record may be what a hole has left of another one: it has bytes of it.
fn is_of(record: &Record<'_>, other: &Record<'_>) -> bool {
    is_within(record, other)
        || [Direction::Forward, Direction::Reverse].into_iter().any(|side| {
            let (part, all) = (record.at.of(side), other.at.of(side));
            all.start < part.end && part.start < all.end
        })
}

/// Records of which each may switch the flow to another protocol: where its bytes are lost, what follows is not read as that.
const SWITCHING: [&str; 2] = ["http", "socks"];

/// Whether the bytes of a record are after those of another one of another protocol, on both sides.
fn is_behind(record: &Record<'_>, other: &Record<'_>) -> bool {
    let is_later = |side| {
        let (later, before) = (record.at.of(side), other.at.of(side));
        later.is_empty() || before.end <= later.start
    };
    let is_of_any =
        PROTOCOLS.iter().any(|protocol| protocol.tables.iter().any(|table| **table == *record.table));
    is_of_any
        && !are_of_one_protocol(record, other)
        && is_later(Direction::Forward)
        && is_later(Direction::Reverse)
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
    let is_left = |field: &str| !is_among(record, field, &COUNTED) && !is_among(record, field, masked);
    let values = values.filter(|(field, _)| is_left(field.name));
    (record.table.name, record.time.0, values.map(|(_, value)| value.clone()).collect())
}

/// A record in a failure: its table, time and bytes, with its values.
fn described(record: &Record<'static>) -> String {
    let fields = record.table.fields.iter().zip(&record.values).filter(|(_, value)| !value.is_none());
    let values: Vec<_> = fields.map(|(field, value)| format!("{}={}", field.name, shown(value))).collect();
    format!("{} at {} of {:?}: {}", record.table.name, moment(record), record.at, values.join(" "))
}

/// A value in a failure.
fn shown(value: &Value<'_>) -> String {
    match value {
        Value::Text(text) => format!("{:?}", String::from_utf8_lossy(text)),
        Value::List(values) => format!("{:?}", values.iter().map(shown).collect::<Vec<_>>()),
        value => format!("{value:?}"),
    }
}

/// Milliseconds of a record's time within its second.
fn moment(record: &Record<'_>) -> u64 {
    record.time.0 % 1_000_000_000 / 1_000_000
}

/// A record that is not found as it was, with the fields in which the record of its table and time differs, if there is one.
fn differences(record: &Record<'static>, found: &[Record<'static>]) -> String {
    let is_like = |other: &&Record<'static>| *other.table == *record.table && other.time == record.time;
    let Some(other) = found.iter().find(is_like) else { return format!("lost: {}", described(record)) };
    let fields = record.table.fields.iter().zip(record.values.iter().zip(&other.values));
    let fields =
        fields.filter(|(field, (value, other))| value != other && !is_among(record, field.name, &COUNTED));
    let fields =
        fields.map(|(field, (value, other))| format!("{}: {} is {}", field.name, shown(value), shown(other)));
    format!("{} at {}: {}", record.table.name, moment(record), fields.collect::<Vec<_>>().join(", "))
}

/// What a hole has done to the records of a conversation.
#[derive(Default)]
struct Count {
    checked: usize,
    named: usize,
    unidentified: usize,
    pipelined: usize,
    keys: usize,
    excepted: usize,
}

/// Records without those of counts: when counts leave depends on what was counted before.
fn of_messages(mut records: Vec<Record<'static>>) -> Vec<Record<'static>> {
    records.retain(|record| !crate::is_requested(record.table));
    records
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
    let touched: Vec<_> = expected.iter().filter(|record| hole.touches(record)).collect();
    let is_of_command = |word: &str| {
        let is = |record: &&Record<'_>| {
            [("smb", "command"), ("dce_rpc", "request")].iter().any(|(table, field)| {
                record.table.name == *table && *record.get(field) == word.to_owned().into()
            })
        };
        touched.iter().any(is)
    };
    let has = |word: &&str| {
        is_of_command(word) || data.split(|byte| *byte == b'\n').any(|line| begins_with(line, word))
    };
    let named = NAMED.iter().filter(|named| named.protocol == folder && named.words.iter().any(has));
    let masked: Vec<&str> = named.flat_map(|named| named.fields.iter().copied()).collect();
    let mut without = talk.clone();
    without.turns[hole.turn] = Turn::Gap(hole.side, data.len() as u64);
    let found = of_messages(without.emitted(|data| vec![data.to_vec()]).records);
    let mut left: Vec<_> = found.iter().map(|record| plain(record, &masked)).collect();
    if hole.side == Direction::Forward && touched.iter().any(|record| KEYS.contains(&record.table.name)) {
        count.keys += 1;
        return Vec::new();
    }
    let is_within_message = touched.iter().any(|record| hole.bytes.end < record.at.of(hole.side).end);
    let is_alone = UNMARKED.iter().any(|(protocol, table, wanted)| {
        let is_later = |record: &&Record<'_>| {
            record.table.name == *table && hole.bytes.end < record.at.of(hole.side).start
        };
        folder == *protocol && expected.iter().filter(is_later).count() < *wanted
    });
    if is_within_message && is_alone {
        count.keys += 1;
        return Vec::new();
    }
    let is_switched = |record: &Record<'_>| {
        touched.iter().any(|other| SWITCHING.contains(&other.table.name) && is_behind(record, other))
    };
    let (mut lost, mut unidentified) = (Vec::new(), false);
    for record in expected.iter().filter(|record| !record.at.is_empty() && !hole.touches(record)) {
        let is_part = ["files", "mail"].contains(&record.table.name)
            && expected.iter().any(|other| hole.touches(other) && is_within(record, other));
        let value = plain(record, &masked);
        if let Some(at) = left.iter().position(|other| *other == value) {
            left.swap_remove(at);
        } else if hole.bytes.start < HEAD && found.iter().all(|other| !are_of_one_protocol(record, other)) {
            unidentified = true;
        } else if !is_part && !is_switched(record) && !is_deleted(record, &touched) {
            lost.push(differences(record, &found));
        }
    }
    let shown = hole.shown(talk);
    for record in found.iter().filter(|record| left.contains(&plain(record, &masked))) {
        let is_cut = hole.borders(record) || touched.iter().any(|other| is_of(record, other));
        let is_reply = *record.table == crate::ANOMALY && record.time < shown;
        let is_not_switched = *record.table == crate::ANOMALY && expected.iter().any(is_switched);
        if !record.at.is_empty() && !hole.touches(record) && !is_cut && !is_reply && !is_not_switched {
            lost.push(format!("added: {}", described(record)));
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
        let lined = Talk { turns: by_line(&talk.turns), ..talk.clone() };
        for talk in [talk, lined] {
            let pipelined = pipelined(&folder, &talk.turns);
            if EXCEPTED.iter().any(|(excepted, _)| *excepted == name) {
                count.excepted += holes(&talk).len();
                continue;
            }
            let expected = of_messages(talk.emitted(|data| vec![data.to_vec()]).records);
            for hole in holes(&talk) {
                if !CHECKED.contains(&folder.as_str()) {
                    *other.entry(folder.clone()).or_insert(0) += 1;
                } else if pipelined[hole.turn] {
                    count.pipelined += 1;
                } else {
                    let lost = lost(&folder, &talk, &hole, &expected, &mut count);
                    if !lost.is_empty() {
                        failures.push(format!(
                            "{name}: without turn {} {:?} {:?}: {}",
                            hole.turn,
                            hole.side,
                            hole.bytes,
                            lost.join("; ")
                        ));
                    }
                }
            }
        }
    }
    let Count { checked, named, unidentified, pipelined, keys, excepted } = count;
    println!(
        "{checked} pairs of conversation and segment: {named} with values that the segment names, {unidentified} that \
         identify the protocol; besides {pipelined} of clients that do not wait, {keys} of messages that no other shows how to read, {excepted} of conversations that are \
         excepted; other protocols: {other:?}"
    );
    assert!(failures.is_empty(), "{} of {checked}:\n{}", failures.len(), failures.join("\n"));
    assert!(checked >= 1_815 && unidentified * 10 < checked, "{checked}, {unidentified} unidentified");
}
