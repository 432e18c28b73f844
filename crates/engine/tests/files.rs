//! Rules of files see the size, the checksums and the name of a file in a pass, whichever packet names its flow.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use weir_api::{FunctionCall, Level, SubscriptionSpec};
use weir_detect::{Program, Reading, RuleFile, Ruleset, Sources, Variables};
use weir_engine::{ChecksumMode, Emitted, FlowConfig, Plan, Rules, SessionConfig, Settings, Sink, Worker};
use weir_filter::Options;
use weir_proto::Value;
use weir_wire::build::{self, flags};
use weir_wire::{LinkType, Packet, PacketBuf, Time};

const CLIENT: [u8; 4] = [10, 0, 0, 1];
const SERVER: [u8; 4] = [10, 0, 0, 2];

/// The checksums of `abc`: RFC 1321 A.5, RFC 3174 7.3 and FIPS 180-2 B.1.
struct Abc;

impl Sources for Abc {
    fn read(&self, _rules: &str, name: &str) -> Result<Vec<u8>, String> {
        let text = match name {
            "md5" => "900150983cd24fb0d6963f7d28e17f72",
            "sha1" => "A9993E364706816ABA3E25717850C26C9CD0D89D",
            "sha256" => "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad  a.bin",
            _ => return Err("no such file".to_owned()),
        };
        Ok(text.as_bytes().to_vec())
    }
}

/// The sids of alerts, and of each file whether it has a checksum.
#[derive(Default)]
struct Got {
    alerts: Vec<u64>,
    files: Vec<bool>,
}

impl Sink for Got {
    fn take(&mut self, emitted: Emitted<'_>) {
        let Emitted::Record(_, record, _) = emitted else { return };
        match (record.table.name, record.get("sid")) {
            ("alert", Value::Uint(sid)) => self.alerts.push(*sid),
            ("files", _) => {
                self.files.push(["md5", "sha1", "sha256"].iter().any(|sum| !record.get(sum).is_none()));
            }
            _ => {}
        }
    }
}

/// What a run over a flow of TCP emits: each text is a segment, with the side that sends it.
fn run(rules: &str, texts: &[([u8; 4], &str)]) -> Got {
    let reading = Reading { variables: Variables::default(), sources: &Abc, with_switched_off: false };
    let set = Ruleset::read([RuleFile { name: "x.rules", bytes: rules.as_bytes() }], &reading);
    assert!(set.refusals.is_empty(), "{:?}", set.refusals);
    let program = Program::new(&set, &[]);
    assert!(program.unread.is_empty(), "{:?}", program.unread);
    let settings = Settings {
        filter: Options::default(),
        checksum: ChecksumMode::Off,
        seeds: 1_u64.into(),
        chosen: None,
        own_apps: Default::default(),
        rules: Some(Rules::new(program)),
    };
    let log = |table: &str| {
        let rows = FunctionCall::new("rows").with("of", table).with("to", "eve").with("bodies", "no");
        SubscriptionSpec::delivering(table, Level::Record, vec![rows])
    };
    let rules = SubscriptionSpec::delivering("rules", Level::Record, vec![FunctionCall::new("rules")]);
    let plan = Plan::new("", vec![log("alert"), log("files"), rules], settings).unwrap();
    let flows = FlowConfig { memory: 1 << 20, ..FlowConfig::default() };
    let mut worker = Worker::with(Arc::new(plan), &flows, &SessionConfig::default());
    let segment = |from: [u8; 4], [own, other]: [u32; 2], flags: u8, text: &str| {
        let (to, ports) = if from == CLIENT { (SERVER, (4000, 80)) } else { (CLIENT, (80, 4000)) };
        build::ip().ipv4(from, to).tcp(ports.0, ports.1, flags).seq(own).ack(other).payload(text.as_bytes())
    };
    let mut next = [101, 901];
    let mut frames = vec![
        segment(CLIENT, [100, 0], flags::SYN, ""),
        segment(SERVER, [900, 101], flags::SYN | flags::ACK, ""),
        segment(CLIENT, next, flags::ACK, ""),
    ];
    for (from, text) in texts {
        let [client, server] = &mut next;
        let (own, other) = if *from == CLIENT { (client, server) } else { (server, client) };
        frames.push(segment(*from, [*own, *other], flags::ACK, text));
        *own += text.len() as u32;
    }
    let (mut chunk, mut got) = (PacketBuf::default(), Got::default());
    for (number, frame) in (1_u32..).zip(&frames) {
        let packet = build::packet(frame, LinkType::RAW);
        chunk.push(&Packet { time: Time(u64::from(number) * 1_000_000), number, ..packet });
    }
    worker.batch(chunk.batch(), &mut got);
    worker.finish(&mut got);
    got
}

const REQUEST: ([u8; 4], &str) = (CLIENT, "GET /a.bin HTTP/1.1\r\nHost: a\r\n\r\n");
const ANSWER: ([u8; 4], &str) = (SERVER, "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc");

/// Headers of mails are of no protocol by themselves: the flow says which one it is.
#[test]
fn a_rule_of_a_protocol_sees_the_header_of_its_mail() {
    let texts = [
        (SERVER, "220 a ESMTP\r\n"),
        (CLIENT, "EHLO b\r\n"),
        (SERVER, "250 a\r\n"),
        (CLIENT, "MAIL FROM:<a@a.example>\r\n"),
        (SERVER, "250 ok\r\n"),
        (CLIENT, "RCPT TO:<b@b.example>\r\n"),
        (SERVER, "250 ok\r\n"),
        (CLIENT, "DATA\r\n"),
        (SERVER, "354 go\r\n"),
        (CLIENT, "Subject: an offer\r\n\r\ntext\r\n.\r\n"),
    ];
    for (protocol, matches) in [("smtp", 1), ("tcp", 1), ("imap", 0)] {
        let rule = format!("alert {protocol} any any -> any any (email.subject; content:\"offer\"; sid:1;)");
        assert_eq!(run(&rule, &texts).alerts.len(), matches, "{protocol}");
    }
}

#[test]
fn a_rule_alone_sees_the_file_of_an_answer() {
    for (options, matches) in [
        ("filesize:3;", 1),
        ("filesize:>2;", 1),
        ("filesize:>3;", 0),
        ("filesize:<3;", 0),
        ("filemd5:md5;", 1),
        ("filesha1:sha1;", 1),
        ("filesha256:sha256;", 1),
        ("filesha256:!sha256;", 0),
        ("filesize:3; filename:\"a.bin\";", 1),
        ("filesize:3; filename:\"b.bin\";", 0),
        ("file_data; content:\"abc\"; filesize:3;", 1),
        ("file_data; content:\"abx\"; filesize:3;", 0),
        ("http.stat_code; content:\"200\"; filemd5:md5;", 1),
        ("http.uri; content:\"a.bin\"; filemd5:md5;", 0),
        ("filestore;", 1),
        ("fileext:\"bin\"; filestore:response,file;", 1),
        ("fileext:\"exe\"; filestore;", 0),
    ] {
        for protocol in ["http", "tcp"] {
            let got =
                run(&format!("alert {protocol} any any -> any any ({options} sid:1;)"), &[REQUEST, ANSWER]);
            assert_eq!(got.alerts.len(), matches, "{protocol} {options}");
            let asks = ["md5", "sha1", "sha256"].iter().any(|sum| options.contains(sum));
            assert_eq!(got.files, [asks], "{options}: checksums only on request");
        }
    }
    let smtp = run("alert smtp any any -> any any (filesize:3; sid:1;)", &[REQUEST, ANSWER]);
    assert!(smtp.alerts.is_empty());
}

#[test]
fn a_file_in_the_packet_that_names_its_flow() {
    let upload = (CLIENT, "POST /up HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc");
    let rules = "alert http any any -> any any (filesize:3; sid:1;)
alert http any any -> any any (flow:to_server; filename:\"up\"; sid:2;)
alert http any any -> any any (http.uri; content:\"/up\"; filemd5:md5; sid:3;)
alert http any any -> any any (flow:to_client; filesize:3; sid:4;)
alert ftp-data any any -> any any (filesize:3; sid:5;)";
    let mut got = run(rules, &[upload]).alerts;
    got.sort_unstable();
    assert_eq!(got, [1, 2, 3]);
}

#[test]
fn a_file_that_is_cut_off_has_a_least_size_alone() {
    let cut = (SERVER, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nabc");
    let rules = "alert http any any -> any any (filesize:3; sid:1;)
alert http any any -> any any (filesize:>2; sid:2;)
alert http any any -> any any (filemd5:md5; sid:3;)
alert http any any -> any any (filesize:<9; sid:4;)";
    assert_eq!(run(rules, &[REQUEST, cut]).alerts, [2]);
}
