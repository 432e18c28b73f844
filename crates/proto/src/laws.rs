//! Properties that hold for every protocol, tested over the registry and the conversations under `testdata/`.
//!
//! A conversation is a text file `testdata/<protocol>/<case>.talk`; testdata/README.md describes its format.

use crate::talk::{Talk, Turn};
use crate::{
    Asked, Buffer, Columns, Expected, Field, Out, PREFIXES, PROTOCOLS, Record, Session, Setup, TCP, Table,
    Value, Wants, all_buffers, buffers, lossless, tables,
};
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use weir_wire::stream::Chunk;
use weir_wire::{Direction, Time};

/// The output of a session.
#[derive(Default)]
pub(crate) struct Collected {
    pub records: Vec<Record<'static>>,
    pub content: Vec<(u64, Vec<u8>)>,
    pub expected: Vec<Expected>,
    /// What is asked for before the records.
    pub asked: Asked,
    pub fields: Vec<(&'static Table, &'static str, Value<'static>)>,
    /// Values of buffers; pieces are joined.
    pub buffers: Vec<(&'static Buffer, Direction, Vec<u8>)>,
    /// What is emitted once more at the end of files.
    pub again: Vec<(&'static Buffer, Direction, Vec<u8>)>,
    /// What each side has emitted, in order.
    pub emissions: [Vec<Emission>; 2],
    /// Buffers whose last value may have more pieces.
    open: Vec<(&'static Buffer, Direction, usize)>,
}

/// What a side emits beside bytes.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Emission {
    /// The next buffers belong to the transaction with this number.
    Transaction(u64),
    /// A value of the buffer with this name.
    Value(&'static str),
    /// The message has no more buffers.
    Complete,
}

impl Collected {
    /// The values of a buffer that a side sent, a number with decimal digits, each with the number of its transaction.
    pub fn numbered(&self, name: &str, side: Direction) -> Vec<(u64, String)> {
        let mut values = self.buffers.iter().filter(|(_, of, _)| *of == side);
        let (mut number, mut found) = (0, Vec::new());
        for emission in &self.emissions[side as usize] {
            match emission {
                Emission::Transaction(next) => number = *next,
                Emission::Value(of) => {
                    let (buffer, _, bytes) = values.next().unwrap();
                    let text = || match buffer.is_number {
                        true => u64::from_be_bytes(bytes.as_slice().try_into().unwrap()).to_string(),
                        false => lossless(bytes).to_string(),
                    };
                    found.extend((*of == name).then(|| (number, text())));
                }
                Emission::Complete => {}
            }
        }
        found
    }

    /// The numbers of the transactions of a side, each with a mark for each time that its buffers were complete.
    pub fn outline(&self, side: Direction) -> String {
        let (mut outline, mut last) = (Vec::new(), None);
        for emission in &self.emissions[side as usize] {
            match emission {
                Emission::Transaction(number) if last == Some(*number) => {}
                Emission::Transaction(number) => {
                    outline.push(format!(" {number}"));
                    last = Some(*number);
                }
                Emission::Value(_) => {}
                Emission::Complete => outline.push("!".to_owned()),
            }
        }
        outline.concat().trim_start().to_owned()
    }

    /// The content of each file that is no message as a whole, in order of the first bytes.
    pub fn parts(&self) -> Vec<&[u8]> {
        let is_message = |id: u64| {
            self.records.iter().any(|record| {
                *record.table == crate::FILES
                    && *record.get("file") == crate::file_name(id).into()
                    && *record.get("mime_type") == "message/rfc822".into()
            })
        };
        let parts = self.content.iter().filter(|(id, _)| !is_message(*id));
        parts.map(|(_, content)| content.as_slice()).collect()
    }
}

impl Collected {
    /// An output that asks for every early field and buffer.
    pub(crate) fn asking_all() -> Self {
        Self { asked: Asked::all(), ..Self::default() }
    }
}

impl Out for Collected {
    fn record(&mut self, record: Record<'_>) {
        assert_eq!(
            record.values.len(),
            record.table.fields.len(),
            "{}: a value for each field",
            record.table.name
        );
        self.records.push(record.into_owned());
    }

    fn asked(&self) -> Asked {
        self.asked
    }

    fn field(&mut self, table: &'static Table, field: &'static Field, value: Value<'_>) {
        assert!(table.fields.iter().any(|known| std::ptr::eq(known, field)), "{}", field.name);
        assert!(self.asked.has_table(table) && !value.is_none(), "{}.{}", table.name, field.name);
        self.fields.push((table, field.name, value.into_owned()));
    }

    fn buffer_again(&mut self, buffer: &'static Buffer, side: Direction, bytes: &[u8]) {
        if !bytes.is_empty() {
            self.again.push((buffer, side, bytes.to_vec()));
        }
    }

    fn buffer(&mut self, buffer: &'static Buffer, side: Direction, bytes: &[u8]) {
        assert!(self.asked.has(buffer), "{}", buffer.name);
        let open = self.open.iter().position(|(known, of, _)| *known == buffer && *of == side);
        match open {
            Some(at) if bytes.is_empty() => _ = self.open.remove(at),
            Some(at) => self.buffers[self.open[at].2].2.extend_from_slice(bytes),
            None if buffer.is_stream && bytes.is_empty() => {}
            None => {
                self.emissions[side as usize].push(Emission::Value(buffer.name));
                if buffer.is_stream {
                    self.open.push((buffer, side, self.buffers.len()));
                }
                self.buffers.push((buffer, side, bytes.to_vec()));
            }
        }
    }

    fn transaction(&mut self, side: Direction, number: u64) {
        assert!(self.asked.has_buffers(), "a number without a buffer");
        let emissions = &mut self.emissions[side as usize];
        let last = emissions.iter().rev().find_map(|emission| match emission {
            Emission::Transaction(number) => Some(*number),
            Emission::Value(_) | Emission::Complete => None,
        });
        if last != Some(number) {
            // Pieces of another transaction are not joined.
            self.open.retain(|(_, of, _)| *of != side);
        }
        emissions.push(Emission::Transaction(number));
    }

    fn side_is_complete(&mut self, side: Direction) {
        self.emissions[side as usize].push(Emission::Complete);
    }

    fn expect(&mut self, expected: Expected) {
        // The flow of `emit`.
        assert_eq!(expected.flow, 0x1234_5678, "the flow that announced it");
        self.expected.push(expected);
    }

    fn content(&mut self, file: u64, _: u64, bytes: &[u8]) -> bool {
        match self.content.iter_mut().find(|(name, _)| *name == file) {
            Some((_, content)) => content.extend_from_slice(bytes),
            None => self.content.push((file, bytes.to_vec())),
        }
        true
    }
}

impl Talk {
    /// The output of a session when each block is cut by `cut`.
    pub(crate) fn emitted(&self, cut: impl Fn(&[u8]) -> Vec<Vec<u8>>) -> Collected {
        let mut emitted = Collected::default();
        self.emit(|data, see| cut(data).iter().for_each(|piece| see(piece)), &mut emitted);
        emitted
    }

    /// The output of a session of which everything is asked for early, when each block is cut by `cut`.
    pub(crate) fn asked(&self, cut: impl Fn(&[u8]) -> Vec<Vec<u8>>) -> Collected {
        let mut emitted = Collected::asking_all();
        self.emit(|data, see| cut(data).iter().for_each(|piece| see(piece)), &mut emitted);
        emitted
    }

    /// The streams of both directions, with a zero for each missing byte.
    fn streams(&self) -> [Vec<u8>; 2] {
        let mut streams = [Vec::new(), Vec::new()];
        for turn in &self.turns {
            match turn {
                Turn::Gap(direction, bytes) => {
                    let stream: &mut Vec<u8> = &mut streams[*direction as usize];
                    stream.resize(stream.len() + *bytes as usize, 0);
                }
                Turn::Data(direction, data) => streams[*direction as usize].extend_from_slice(data),
            }
        }
        streams
    }

    /// Runs a session over the blocks; `cut` emits each piece of a block. Each block arrives a millisecond after the
    /// previous one.
    pub(crate) fn emit(&self, cut: impl Fn(&[u8], &mut dyn FnMut(&[u8])), emitted: &mut impl Out) {
        let setup = Setup {
            flow: 0x1234_5678,
            initiator: (IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), self.ports[0]),
            responder: (IpAddr::V4(Ipv4Addr::new(198, 51, 100, 2)), self.ports[1]),
            ip_proto: self.ip_proto,
            wants: Wants { hashes: crate::Hashes::ALL, content: true, ..Wants::default() },
        };
        let (mut session, mut gaps) = (Session::new(), [0; 2]);
        let mut time = Time(1_700_000_000_000_000_000);
        for turn in &self.turns {
            time.0 += 1_000_000;
            match turn {
                Turn::Gap(direction, bytes) => gaps[*direction as usize] += bytes,
                Turn::Data(direction, data) => {
                    cut(data, &mut |data| {
                        let gap = std::mem::take(&mut gaps[*direction as usize]);
                        let chunk = Chunk { time, direction: *direction, gap, data };
                        session.chunk(&chunk, &|| setup.clone(), emitted);
                    });
                }
            }
        }
        session.end(time, &|| setup.clone(), emitted);
    }
}

pub(crate) fn testdata() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata")
}

/// Every conversation of a protocol.
pub(crate) fn talks(name: &str, port: u16) -> Vec<(PathBuf, Talk)> {
    let Ok(folder) = std::fs::read_dir(testdata().join(name)) else { return Vec::new() };
    let mut paths: Vec<PathBuf> = folder.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let talks = paths.into_iter().filter(|path| path.extension().is_some_and(|e| e == "talk"));
    talks
        .map(|path| {
            let text = std::fs::read_to_string(&path).unwrap();
            let talk = Talk::parse(&text, [49152, port]);
            let talk = talk.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            (path, talk)
        })
        .collect()
}

pub(crate) fn all_talks() -> impl Iterator<Item = (PathBuf, Talk)> {
    PROTOCOLS
        .iter()
        .flat_map(|protocol| talks(protocol.name, protocol.ports.first().copied().unwrap_or(4444)))
}

fn whole(data: &[u8]) -> Vec<Vec<u8>> {
    vec![data.to_vec()]
}

#[test]
fn names_are_unique_well_formed_and_have_help() {
    let plain = |name: &str| name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    let mut names = BTreeSet::new();
    for protocol in PROTOCOLS {
        assert!(plain(protocol.name) && names.insert(protocol.name), "{}", protocol.name);
        assert!(protocol.help.ends_with('.'), "{}", protocol.name);
    }
    let mut names = BTreeSet::new();
    for table in tables() {
        assert!(plain(table.name) && names.insert(table.name), "{}", table.name);
        assert!(table.help.ends_with('.'), "{}", table.name);
        for (what, of) in [
            ("name", (|field: &crate::Field| field.name) as fn(&crate::Field) -> &'static str),
            ("column", |field| field.zeek),
            ("key", |field| field.eve),
        ] {
            let mut seen = BTreeSet::new();
            for name in table.fields.iter().map(of).filter(|name| !name.is_empty()) {
                assert!(seen.insert(name), "{}: {what} {name} twice", table.name);
            }
        }
        for field in table.fields {
            assert!(plain(field.name) && field.help.ends_with('.'), "{}.{}", table.name, field.name);
            assert!(field.zeek.is_empty() || !table.zeek.is_empty(), "{}.{}", table.name, field.name);
            let is_shared =
                tables().any(|other| !other.eve.is_empty() && std::ptr::eq(other.fields, table.fields));
            assert!(
                field.eve.is_empty() || !table.eve.is_empty() || is_shared,
                "{}.{}",
                table.name,
                field.name
            );
        }
    }
}

#[test]
fn every_protocol_has_a_conversation_that_identifies_it() {
    for protocol in PROTOCOLS {
        let talks = talks(protocol.name, protocol.ports.first().copied().unwrap_or(4444));
        assert!(!talks.is_empty(), "testdata/{} has no conversation", protocol.name);
        let own = |emitted: &Collected| {
            emitted.records.iter().filter(|r| protocol.tables.iter().any(|t| **t == *r.table)).count()
        };
        let found: usize = talks.iter().map(|(_, talk)| own(&talk.emitted(whole))).sum();
        assert!(found > 0 || protocol.tables.is_empty(), "{}: its conversations emit nothing", protocol.name);
    }
}

/// The records of a stream do not depend on its segmentation.
#[test]
fn records_do_not_depend_on_segmentation() {
    for (path, talk) in all_talks().filter(|(_, talk)| talk.ip_proto == TCP) {
        let expected = talk.emitted(whole);
        let longest =
            talk.turns.iter().map(|turn| if let Turn::Data(_, data) = turn { data.len() } else { 0 }).max();
        let step = 1 + longest.unwrap_or(0) / 600;
        for cut in (1..longest.unwrap_or(0)).step_by(step) {
            let emitted = talk.emitted(|data| match data.split_at_checked(cut) {
                Some((head, tail)) if !tail.is_empty() => vec![head.to_vec(), tail.to_vec()],
                _ => vec![data.to_vec()],
            });
            assert_eq!(emitted.records, expected.records, "{} cut at {cut}", path.display());
            assert_eq!(emitted.content, expected.content, "{} cut at {cut}", path.display());
        }
        for size in [1, 2, 3, 7] {
            let emitted = talk.emitted(|data| data.chunks(size).map(<[u8]>::to_vec).collect());
            assert_eq!(emitted.records, expected.records, "{} in pieces of {size}", path.display());
            assert_eq!(emitted.content, expected.content, "{} in pieces of {size}", path.display());
        }
    }
}

/// Takes records of one table, of which some fields are read.
struct Reading {
    table: &'static Table,
    columns: Columns,
    records: Vec<Record<'static>>,
}

impl Out for Reading {
    fn record(&mut self, record: Record<'_>) {
        self.records.extend((*record.table == *self.table).then(|| record.into_owned()));
    }

    fn takes(&self, table: &Table) -> bool {
        *table == *self.table
    }

    fn reads(&self, table: &'static Table) -> Columns {
        if self.takes(table) { self.columns } else { Columns::NONE }
    }

    fn expect(&mut self, _: Expected) {}

    fn content(&mut self, _: u64, _: u64, _: &[u8]) -> bool {
        true
    }
}

/// What is read of a record does not depend on what else is read, and other values may be missing.
#[test]
fn a_field_that_is_read_is_that_of_the_whole_record() {
    let mut left_out = 0;
    for (path, talk) in all_talks() {
        let whole = talk.emitted(whole).records;
        for table in tables().filter(|table| whole.iter().any(|record| record.table == *table)) {
            let whole: Vec<&Record<'_>> = whole.iter().filter(|record| *record.table == *table).collect();
            for (place, field) in table.fields.iter().enumerate() {
                let columns = Columns::of(table, [field.name]);
                let mut reading = Reading { table, columns, records: Vec::new() };
                talk.emit(|data, see| see(data), &mut reading);
                let place_of = format!("{}: {}.{}", path.display(), table.name, field.name);
                assert_eq!(reading.records.len(), whole.len(), "{place_of}");
                for (part, whole) in reading.records.iter().zip(&whole) {
                    assert_eq!((part.time, part.at), (whole.time, whole.at), "{place_of}");
                    assert_eq!(part.values[place], whole.values[place], "{place_of}");
                    let others = part.values.iter().zip(&whole.values);
                    let missing = others.filter(|(part, whole)| part != whole);
                    left_out += missing.inspect(|(part, _)| assert!(part.is_none(), "{place_of}")).count();
                }
            }
        }
    }
    assert!(left_out > 1_000, "{left_out} values were left out");
}

/// Tables whose records may come in another order than the messages of a side: transactions overlap in them, or a record of
/// a whole session, mail or file follows those of its parts.
const OVERLAPPING: [&str; 25] = [
    "anomaly",
    "dce_rpc",
    "dnp3",
    "dns",
    "files",
    "imap",
    "kerberos",
    "ldap",
    "ldap_search",
    "llmnr",
    "mail",
    "modbus",
    "mqtt",
    "mysql",
    "netbios",
    "postgresql",
    "radius",
    "sip",
    "smb",
    "smb_files",
    "smb_mapping",
    "stun",
    "stun_message",
    "tunnel",
    "websocket",
];

/// The bytes that a record stands for are within the streams, and those of the records of a table follow each other. An HTTP
/// record has the bytes of its own request and response.
#[test]
fn records_stand_for_bytes_of_their_streams() {
    let (mut placed, mut requests) = (BTreeSet::new(), 0);
    for (path, talk) in all_talks() {
        let path = path.display();
        let streams = talk.streams();
        let mut last = std::collections::BTreeMap::new();
        for record in talk.emitted(whole).records {
            let name = record.table.name;
            for side in [Direction::Forward, Direction::Reverse] {
                let at = record.at.of(side);
                let length = streams[side as usize].len() as u64;
                assert!(at.start <= at.end && at.end <= length, "{path}: {name} {at:?} of {length}");
                if at.is_empty() || OVERLAPPING.contains(&name) {
                    continue;
                }
                let before = last.insert((name, side as usize), at.start).unwrap_or(0);
                assert!(before <= at.start, "{path}: {name} {at:?} after {before}");
            }
            if !record.at.is_empty() {
                placed.insert(name);
            }
            if name == "http" {
                let bytes = |side| {
                    let at = record.at.of(side);
                    &streams[side as usize][at.start as usize..at.end as usize]
                };
                let (request, response) = (bytes(Direction::Forward), bytes(Direction::Reverse));
                if let (Value::Text(method), Value::Text(uri)) = (record.get("method"), record.get("url")) {
                    let line = [&**method, b" ", &**uri].concat();
                    let request = request.trim_ascii_start();
                    assert!(
                        request.starts_with(&line),
                        "{path}: {} in {}",
                        lossless(&line),
                        lossless(request)
                    );
                    requests += 1;
                }
                if !record.get("status_code").is_none() {
                    let is_line = [&b"HTTP/"[..], b"ICY "].iter().any(|word| response.starts_with(word));
                    assert!(is_line, "{path}: {}", lossless(response));
                }
            }
        }
    }
    assert!(requests >= 50, "{requests}");
    let unplaced: Vec<&str> =
        tables().map(|table| table.name).filter(|name| !placed.contains(name)).collect();
    // The engine emits alerts, measurements have none, and a conversation is no announced flow.
    assert_eq!(unplaced, ["alert", "stream", "stream_sample", "ftp_data"]);
}

/// Whether a value has text.
fn is_text(value: &Value<'_>) -> bool {
    match value {
        Value::Text(_) => true,
        Value::List(values) => values.iter().any(is_text),
        _ => false,
    }
}

/// Fields that are delivered early have the values of the records, and do not depend on segmentation; nor do buffers.
/// Records do not depend on what is asked for.
#[test]
fn early_fields_and_buffers_are_those_of_the_records() {
    let (mut seen, mut tables_seen, mut fields_seen) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for (path, talk) in all_talks() {
        let path = path.display();
        let (whole_talk, plain) = (talk.asked(whole), talk.emitted(whole));
        assert_eq!(whole_talk.records, plain.records, "{path}");
        assert!(plain.fields.is_empty() && plain.buffers.is_empty(), "{path}");
        for (table, field, value) in &whole_talk.fields {
            let early = whole_talk.fields.iter().filter(|(of, name, _)| of == table && name == field);
            let rows = || whole_talk.records.iter().filter(|record| record.table == *table);
            let (mut unmatched, mut all) = (Vec::new(), 0);
            for (_, _, value) in early {
                all += 1;
                if rows().all(|record| record.get(field) != value) {
                    unmatched.push(value);
                }
            }
            // A transaction that is refused has no record.
            let refused = all - rows().count().min(all);
            let name = format!("{}.{field}", table.name);
            assert!(unmatched.len() <= refused, "{path}: {name} {unmatched:?} in none of its records");
            tables_seen.insert(table.name);
            fields_seen.extend(is_text(value).then_some((table.name, *field)));
        }
        seen.extend(whole_talk.buffers.iter().map(|(buffer, ..)| buffer.name));
        for size in [1, 2, 3, 7, 100].into_iter().filter(|_| talk.ip_proto == TCP) {
            let cut = talk.asked(|data| data.chunks(size).map(<[u8]>::to_vec).collect());
            assert_eq!(cut.fields, whole_talk.fields, "{path} in pieces of {size}");
            let sorted = |of: &Collected| {
                let mut buffers = of.buffers.clone();
                buffers.sort_by_key(|(buffer, side, _)| (buffer.name, *side as u8));
                buffers
            };
            assert_eq!(sorted(&cut), sorted(&whole_talk), "{path} in pieces of {size}");
            assert_eq!(cut.emissions, whole_talk.emissions, "{path} in pieces of {size}");
        }
    }
    for table in ["smtp", "http", "ftp_command", "tls", "dns", "ssh", "sip", "irc"] {
        assert!(tables_seen.contains(table), "{table}");
    }
    let listed: BTreeSet<_> = crate::early_fields().map(|(table, field)| (table.name, field.name)).collect();
    let unlisted: Vec<_> = fields_seen.difference(&listed).collect();
    assert!(unlisted.is_empty() && fields_seen.len() * 10 > listed.len() * 9, "{unlisted:?}");
    let unseen: Vec<_> = all_buffers()
        .filter(|buffer| !buffer.protocol().is_some_and(is_announced_alone))
        .map(|buffer| buffer.name)
        .filter(|name| !seen.contains(name))
        .collect();
    assert!(unseen.is_empty(), "{unseen:?}");
}

/// Whether a protocol is found in no payload: another flow announces it, and the tests of that protocol see its buffers.
fn is_announced_alone(protocol: &crate::Protocol) -> bool {
    protocol.name == "ftp_data"
}

/// Transactions are numbered in order of arrival: requests and responses of HTTP, commands and replies of FTP and SMB share
/// one, so do calls of DCE/RPC and their responses, a mail has one, and so has each message of the others.
#[test]
fn transactions_are_numbered() {
    use Direction::{Forward, Reverse};
    let cases = [
        ("http", 80, "pipeline", "http.uri.raw", Forward, "0 /a%20b?x=%31 | 1 /large | 2 /none | 3 /last"),
        ("http", 80, "pipeline", "http.stat_code", Reverse, "0 200 | 1 200 | 2 304 | 3 404"),
        (
            "http",
            80,
            "upload",
            "http.response_line",
            Reverse,
            "0 HTTP/1.1 100 Continue | 0 HTTP/1.1 201 Created",
        ),
        (
            "dns",
            53,
            "session",
            "dns.query",
            Forward,
            "0 www.Example.ORG | 2 nobody.example.org | 3 no.example.org | 6 lost.example.org",
        ),
        (
            "dns",
            53,
            "session",
            "dns.queries.rrname",
            Reverse,
            "1 www.Example.ORG | 4 no.example.org | 5 nobody.example.org | 7 www.Example.ORG",
        ),
        // The greeting is number 0.
        (
            "ftp",
            21,
            "session",
            "ftp.command",
            Forward,
            "1 USER | 2 PASS | 3 PWD | 4 CWD | 5 PASV | 6 SIZE | 7 RETR | 8 EPSV | 9 NLST | 10 CDUP | 11 PORT | 12 STOR",
        ),
        (
            "ftp",
            21,
            "session",
            "ftp.completion_code",
            Reverse,
            "0 220 | 0 220 | 1 331 | 2 230 | 2 230 | 3 257 | 4 250 | 5 227 | 6 213 | 7 150 | 7 226 | 8 229 | 9 150 | 9 226 | 10 250 | 11 200 | 12 150 | 12 226 | 13 200",
        ),
        ("smtp", 25, "mail", "smtp.helo", Forward, "0 client.example.org"),
        (
            "smtp",
            25,
            "mail",
            "smtp.rcpt_to",
            Forward,
            "0 <bob@example.net> | 0 <eve@example.net> | 1 <alice@example.org>",
        ),
        (
            "smtp",
            25,
            "reset",
            "smtp.mail_from",
            Forward,
            "0 <first@b.example> | 1 <second@b.example> | 2 <third@b.example>",
        ),
        ("mqtt", 1883, "exactly-once", "mqtt.publish.topic", Forward, "3 a/b | 14 last | 15 never"),
        ("mqtt", 1883, "exactly-once", "mqtt.publish.topic", Reverse, "8 a/c"),
        ("snmp", 161, "session", "snmp.community", Forward, "0 public | 2 public | 4 private | 6 public"),
        ("rfb", 5900, "none", "rfb.name", Reverse, "5 kiosk"),
        (
            "websocket",
            80,
            "frames",
            "websocket.payload",
            Reverse,
            "0 welcome | 2 first part\n | 3 ping | 5 second part\n | 6 first part\nsecond part\nlast part\n",
        ),
        ("sip", 5060, "call", "sip.method", Forward, "0 INVITE | 2 INVITE"),
        ("sip", 5060, "call", "sip.stat_code", Reverse, "1 100 | 3 180 | 4 200"),
        (
            "sip",
            5060,
            "call",
            "sdp.origin",
            Forward,
            "0 alice 2890844526 2890844526 IN IP4 192.0.2.1 | 2 alice 2890844526 2890844526 IN IP4 192.0.2.1",
        ),
        ("sip", 5060, "call", "sdp.origin", Reverse, "4 alice 2890844526 2890844526 IN IP4 198.51.100.2"),
        (
            "sip",
            5060,
            "call",
            "sdp.media.media",
            Reverse,
            "4 audio 3456 RTP/AVP 0 97 | 4 video 51372 RTP/SAVPF 99 | 4 application 0 UDP/X *",
        ),
        (
            "sip",
            5060,
            "media",
            "sdp.media.connection_data",
            Forward,
            "0 IN IP4 192.0.2.8 | 0 IN IP4 192.0.2.9",
        ),
        ("snmp", 161, "traps", "snmp.trap_address", Forward, "0 192.0.2.1 | 3 192.0.2.1"),
        ("snmp", 161, "traps", "snmp.trap_oid", Forward, "0 1.3.6.1.4.1.4 | 3 1.3.6.1.4.1.4"),
        ("smb", 445, "files", "smb.share", Forward, "3 \\\\srv\\docs | 4 \\\\srv\\none"),
        ("smb", 445, "files", "smb.ntlmssp_user", Forward, "2 alice"),
        ("smb", 445, "files", "smb.ntlmssp_domain", Forward, "2 EXAMPLE"),
        ("kerberos", 88, "service", "krb5.cname", Reverse, "1 ann | 3 ann"),
        (
            "kerberos",
            88,
            "service",
            "krb5.sname",
            Reverse,
            "1 HTTP | 1 web.example.org | 3 cifs | 3 nowhere | 5 krbtgt | 5 OTHER.ORG",
        ),
        ("tftp", 69, "session", "tftp.file", Forward, "0 boot/image | 1 boot/image"),
        ("tftp", 69, "session", "tftp.mode", Forward, "0 octet | 1 octet"),
        ("dhcp", 67, "lease", "dhcp.hostname", Forward, "0 laptop | 2 laptop"),
    ];
    for (protocol, port, case, buffer, side, expected) in cases {
        let mut all = talks(protocol, port).into_iter();
        let (_, talk) = all.find(|(path, _)| path.file_stem().is_some_and(|stem| stem == case)).unwrap();
        let found = talk.asked(whole).numbered(buffer, side);
        let found: Vec<_> = found.iter().map(|(number, text)| format!("{number} {text}")).collect();
        let found = found.join(" | ");
        assert!(found.starts_with(expected), "{protocol} {case} {buffer}: {found}");
    }
}

/// Rules look at no empty text of these protocols and of mails: the root of DNS, the user that asks for an engine of SNMP.
#[test]
fn empty_texts_are_left_out() {
    const OF: [&str; 7] = ["dns", "mdns", "llmnr", "ldap", "mqtt", "snmp", "smb"];
    let (mut texts, mut engines) = (0, 0);
    for (path, talk) in all_talks() {
        let emitted = talk.asked(whole);
        let of_protocols = emitted.buffers.iter().filter(|(buffer, ..)| {
            let is_one = buffer.protocol().is_none_or(|protocol| OF.contains(&protocol.name));
            is_one && !buffer.is_number && !buffer.name.starts_with("file.")
        });
        for (buffer, _, bytes) in of_protocols {
            assert!(!bytes.is_empty(), "{}: {}", path.display(), buffer.name);
            texts += 1;
        }
        let users = emitted.records.iter().map(|record| record.get("usm"));
        engines += users.filter(|user| **user == Value::from("")).count();
    }
    assert!(texts > 300 && engines > 0, "{texts} {engines}");
}

/// Numbers that rules test are those of their messages, and belong to the transactions of these.
#[test]
fn numbers_belong_to_their_messages() {
    use Direction::{Forward, Reverse};
    let cases = [
        ("dns", 53, "session", "dns.opcode", Forward, "0 0 | 2 0 | 3 0 | 6 0"),
        ("dns", 53, "session", "dns.rcode", Reverse, "1 0 | 4 5 | 5 3 | 7 0"),
        ("dns", 53, "session", "dns.rrtype", Forward, "0 1 | 2 28 | 3 1 | 6 16"),
        ("dns", 53, "session", "dns.rrtype", Reverse, "1 5 | 1 1 | 7 1"),
        ("mqtt", 1883, "exactly-once", "mqtt.type", Reverse, "1 2 | 4 9 | 5 5 | 7 7 | 8 3 | 11 13 | 13 11"),
        (
            "mqtt",
            1883,
            "exactly-once",
            "mqtt.qos",
            Forward,
            "0 0 | 2 1 | 3 2 | 6 1 | 10 0 | 12 1 | 14 0 | 15 1 | 16 0",
        ),
        ("mqtt", 1883, "exactly-once", "mqtt.qos", Reverse, "8 1 | 11 0"),
        (
            "mqtt",
            1883,
            "exactly-once",
            "mqtt.protocol_version",
            Forward,
            "0 4 | 2 4 | 3 4 | 6 4 | 9 4 | 10 4 | 12 4 | 14 4 | 15 4 | 16 4",
        ),
        ("mqtt", 1883, "exactly-once", "mqtt.reason_code", Reverse, "1 0 | 4 1 | 4 128"),
        ("dce_rpc", 135, "endpoints", "dcerpc.opnum", Forward, "1 3 | 3 5 | 4 4"),
        ("dce_rpc", 135, "endpoints", "dcerpc.opnum", Reverse, "1 3 | 3 5 | 4 4"),
        ("snmp", 161, "session", "snmp.version", Forward, "0 2 | 2 2 | 4 1 | 6 2 | 7 2 | 8 2"),
        ("snmp", 161, "session", "snmp.pdu_type", Forward, "0 0 | 2 5 | 4 3 | 6 1 | 7 2 | 8 9"),
        ("rfb", 5900, "none", "rfb.sectype", Forward, "3 1"),
        (
            "websocket",
            80,
            "frames",
            "websocket.opcode",
            Reverse,
            "0 1 | 2 1 | 3 9 | 5 0 | 6 0 | 7 1 | 11 2 | 12 1 | 15 1 | 16 1 | 18 10 | 20 1 | 22 8",
        ),
        ("tls", 443, "tls12", "tls.version", Forward, "0 771"),
        ("tls", 443, "tls12", "tls.version", Reverse, "0 771"),
        ("tls", 443, "tls12", "tls.state", Forward, "0 1 | 0 16"),
        ("tls", 443, "tls12", "tls.state", Reverse, "0 2 | 0 12"),
        ("tls", 443, "tls12", "tls.cert_chain_len", Reverse, "0 2"),
        ("tls", 443, "tls13", "tls.cert_chain_len", Reverse, "0 0"),
        ("tls", 443, "tls12", "tls.cert_not_before", Reverse, "0 1795309185"),
        ("tls", 443, "tls12", "tls.cert_not_after", Reverse, "0 2110669185"),
        ("tls", 443, "tls12", "tls.cert_validity", Reverse, "0 2"),
        ("snmp", 161, "traps", "snmp.trap_type", Forward, "0 3 | 3 9"),
        ("ftp", 21, "session", "ftp.dynamic_port", Forward, "11 1029 | 13 5282"),
        ("ftp", 21, "session", "ftp.dynamic_port", Reverse, "5 51210 | 8 51313"),
        ("ntp", 123, "session", "ntp.version", Forward, "0 4 | 3 3 | 5 2 | 7 2"),
        ("ntp", 123, "session", "ntp.mode", Forward, "0 3 | 3 3 | 5 6 | 7 7"),
        ("ntp", 123, "session", "ntp.stratum", Reverse, "1 2 | 2 0 | 4 1"),
        ("dhcp", 67, "lease", "dhcp.leasetime", Reverse, "1 3600 | 3 3600"),
        (
            "ldap",
            389,
            "directory",
            "ldap.request.operation",
            Forward,
            "0 0 | 2 3 | 3 3 | 10 6 | 12 8 | 14 12 | 16 14 | 18 10 | 20 3 | 21 16 | 22 23 | 24 2",
        ),
        (
            "ldap",
            389,
            "directory",
            "ldap.responses.operation",
            Reverse,
            "1 1 | 4 4 | 5 4 | 6 5 | 7 4 | 8 19 | 9 5 | 11 7 | 13 9 | 15 13 | 17 15 | 19 11 | 23 24",
        ),
        (
            "ldap",
            389,
            "directory",
            "ldap.responses.result_code",
            Reverse,
            "1 0 | 6 0 | 9 4 | 11 50 | 13 0 | 15 0 | 17 6 | 19 32 | 23 0",
        ),
        ("smb", 445, "multi-protocol", "smb.version", Forward, "0 1 | 1 2 | 2 2 | 3 2"),
        // A command of version 1 that asks for version 2 is answered in that one.
        ("smb", 445, "multi-protocol", "smb.version", Reverse, "0 1 | 1 2 | 2 2 | 3 2"),
        (
            "mqtt",
            1883,
            "exactly-once",
            "mqtt.flags",
            Forward,
            "0 0 | 2 0 | 3 0 | 6 0 | 10 0 | 12 0 | 14 0 | 15 0 | 16 0",
        ),
        ("mqtt", 1883, "exactly-once", "mqtt.flags", Reverse, "8 1 | 11 0"),
        ("mqtt", 1883, "exactly-once", "mqtt.connect.flags", Forward, "0 230"),
        ("mqtt", 1883, "exactly-once", "mqtt.connack.session_present", Reverse, "1 0"),
        ("mqtt", 1883, "properties", "mqtt.connack.session_present", Reverse, "3 1"),
        ("ftp", 21, "session", "ftp.mode", Forward, "5 0 | 8 0 | 11 1 | 13 1"),
        ("ftp", 21, "session", "ftp.mode", Reverse, "5 0 | 8 0 | 11 1 | 13 1"),
        ("ftp", 21, "errors", "ftp.reply_received", Reverse, "1 1 | 2 1 | 3 1 | 4 1 | 5 1 | 6 1"),
        (
            "websocket",
            80,
            "chat",
            "websocket.mask",
            Forward,
            "1 939139389 | 2 939139389 | 4 939139389 | 5 939139389 | 8 939139389",
        ),
        ("dnp3", 20000, "outstation-begins", "dnp3.func", Forward, "0 130 | 2 129 | 4 129 | 6 129"),
        ("dnp3", 20000, "outstation-begins", "dnp3.func", Reverse, "1 0 | 2 1 | 3 0 | 5 0 | 6 20"),
        ("dnp3", 20000, "outstation-begins", "dnp3.ind", Forward, "0 36864 | 2 2048 | 4 0 | 6 0"),
        ("kerberos", 88, "service", "krb5.err_code", Reverse, "3 7 | 5 60"),
        ("kerberos", 88, "service", "krb5.weak_encryption", Reverse, "1 0"),
        ("kerberos", 88, "service", "krb5.ticket_encryption", Reverse, "1 23"),
        ("kerberos", 88, "service", "krb5.msg_type", Forward, "0 12 | 2 12 | 4 10"),
        ("kerberos", 88, "service", "krb5.msg_type", Reverse, "1 13 | 3 30 | 5 30"),
    ];
    for (protocol, port, case, number, side, expected) in cases {
        let mut all = talks(protocol, port).into_iter();
        let (_, talk) = all.find(|(path, _)| path.file_stem().is_some_and(|stem| stem == case)).unwrap();
        let found = talk.asked(whole).numbered(number, side);
        let found: Vec<_> =
            found.iter().map(|(transaction, value)| format!("{transaction} {value}")).collect();
        assert_eq!(found.join(" | "), expected, "{protocol} {case} {number}");
    }
}

/// The number of a response of SMB is that of its command, although no buffer has bytes of it but its version.
#[test]
fn responses_have_the_numbers_of_their_commands() {
    let mut all = talks("smb", 445).into_iter();
    let (_, talk) = all.find(|(path, _)| path.ends_with("files.talk")).unwrap();
    let emitted = talk.asked(whole);
    let is_other = |name: &&str| !name.starts_with("file.") && *name != "smb.version";
    let of_messages = emitted.emissions[1]
        .iter()
        .find(|emission| matches!(emission, Emission::Value(name) if is_other(name)));
    assert_eq!(of_messages, None);
    let outline = emitted.outline(Direction::Reverse);
    assert!(outline.starts_with("0! 1! 2! 3! 4! "), "{outline}");
}

/// Each message of a side is complete once, and each part of a handshake.
#[test]
fn sides_are_complete_once() {
    for (protocol, port, case, client, server) in [
        ("http", 80, "pipeline", "0! 1! 2! 3!", "0! 1! 2! 3!"),
        ("http", 80, "simple", "0!", "0!"),
        ("dns", 53, "session", "0! 2! 3! 6!", "1! 4! 5! 7!"),
        // A mail is complete with its envelope, with its header, and with its URLs.
        ("smtp", 25, "mail", "0!!! 1!!", ""),
        ("smtp", 25, "reset", "0! 1!! 2!", ""),
        ("snmp", 161, "session", "0! 2! 4! 6! 7! 8!", "1! 3! 5!"),
        ("dnp3", 20000, "outstation-begins", "0! 2! 4! 6!", "1! 2! 3! 5! 6!"),
        ("rfb", 5900, "none", "1! 3! 4!", "0! 2! 5!"),
        ("tls", 443, "tls12", "!!", "!!!"),
        ("ssh", 22, "password", "!!", "!!"),
        ("dce_rpc", 135, "endpoints", "0! 1! 2! 3! 4!", "0! 1! 2! 3! 4!"),
        // The packets of a call are complete with the last one.
        ("dce_rpc", 135, "big-endian", "0! 1! 2! 3!", "0! 1! 2! 3!"),
    ] {
        let mut all = talks(protocol, port).into_iter();
        let (_, talk) = all.find(|(path, _)| path.file_stem().is_some_and(|stem| stem == case)).unwrap();
        let emitted = talk.asked(whole);
        let sides = [Direction::Forward, Direction::Reverse].map(|side| emitted.outline(side));
        assert_eq!(sides, [client, server], "{protocol} {case}");
    }
}

/// A side is complete after all of its buffers but those of files and mails and the pieces of a body. The handshakes of TLS and SSH are one transaction,
/// of which each message is complete, and a server of FTP may send a reply to no command.
#[test]
fn no_buffer_follows_a_complete_side() {
    let mut seen = BTreeSet::new();
    for (path, talk) in all_talks() {
        let emitted = talk.asked(whole);
        for emission in emitted.emissions.iter().flat_map(|side| side.windows(2)) {
            if let [Emission::Complete, Emission::Value(name)] = emission {
                let buffer = all_buffers().find(|buffer| buffer.name == *name).unwrap();
                let protocol = buffer.protocol().map(|protocol| protocol.name);
                let comes_again = protocol.is_none_or(|name| ["tls", "quic", "ssh", "ftp"].contains(&name));
                assert!(buffer.is_stream || comes_again, "{}: {name}", path.display());
            }
        }
        if emitted.emissions.iter().flatten().any(|emission| *emission == Emission::Complete) {
            seen.extend(path.parent().and_then(Path::file_name).map(|name| name.to_owned()));
        }
    }
    let has_buffers =
        |protocol: &&&crate::Protocol| !protocol.buffers.is_empty() && !is_announced_alone(protocol);
    for protocol in PROTOCOLS.iter().filter(has_buffers) {
        assert!(seen.contains(std::ffi::OsStr::new(protocol.name)), "{}", protocol.name);
    }
}

#[test]
fn buffers_are_named_after_their_protocol() {
    assert!(tables().count() <= 128 && all_buffers().count() <= 256);
    assert!(buffers().chain(crate::numbers()).count() == all_buffers().count());
    let mut names = BTreeSet::new();
    for buffer in all_buffers() {
        let begins = buffer.name.split('.').next().unwrap();
        let own = PREFIXES.iter().find(|(prefix, _)| *prefix == begins).map_or(&begins, |(_, own)| own);
        let own = (!crate::SHARED_BUFFERS.contains(&buffer)).then_some(*own);
        assert_eq!(buffer.protocol().map(|protocol| protocol.name), own, "{}", buffer.name);
        assert_eq!(own.is_none(), ["file", "email"].contains(&begins), "{}", buffer.name);
        assert!(buffer.help.ends_with('.') && names.insert(buffer.name), "{}", buffer.name);
    }
    // Each prefix is listed once, is in use, and is not the name of a protocol.
    let mut prefixes = BTreeSet::new();
    for (prefix, _) in PREFIXES {
        let is_used = names.iter().any(|name| name.split('.').next() == Some(prefix));
        let is_protocol = PROTOCOLS.iter().any(|protocol| protocol.name == *prefix);
        assert!(prefixes.insert(prefix) && is_used && !is_protocol, "{prefix}");
    }
}

/// With any bytes changed, removed or truncated, a parser continues or gives up.
#[test]
fn changed_bytes_make_no_parser_panic() {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut random = move |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % below.max(1) as u64) as usize
    };
    for (_, talk) in all_talks() {
        for _ in 0..200 {
            let mut broken = talk.clone();
            for turn in &mut broken.turns {
                let Turn::Data(direction, data) = turn else { continue };
                match random(6) {
                    0 if !data.is_empty() => {
                        for _ in 0..=random(4) {
                            let at = random(data.len());
                            data[at] = random(256) as u8;
                        }
                    }
                    1 => data.truncate(random(data.len() + 1)),
                    2 => {
                        let at = random(data.len() + 1);
                        data.splice(at..at, (0..random(40)).map(|n| (n * 37) as u8).collect::<Vec<_>>());
                    }
                    3 => *turn = Turn::Gap(*direction, 1 + random(3000) as u64),
                    _ => {}
                }
            }
            broken.asked(whole);
        }
    }
}
