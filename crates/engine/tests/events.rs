//! Rules of events see the anomalies of a pass, with and without a log that has them.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use weir_api::{FunctionCall, Level, SubscriptionSpec};
use weir_detect::{NoSources, Program, Reading, RuleFile, Ruleset, Variables};
use weir_engine::{
    ChecksumMode, Emitted, FlowConfig, Plan, Rules, SessionConfig, SessionStats, Settings, Sink, Worker,
};
use weir_filter::Options;
use weir_proto::Value;
use weir_wire::build::{self, Builder, flags};
use weir_wire::{LinkType, Packet, PacketBuf, Time};

const CLIENT: [u8; 4] = [10, 0, 0, 1];
const SERVER: [u8; 4] = [10, 0, 0, 2];

/// The sids of alerts and the events of anomalies, in order, each with its own table's name.
#[derive(Default)]
struct Got(Vec<String>);

impl Sink for Got {
    fn take(&mut self, emitted: Emitted<'_>) {
        let Emitted::Record(flow, record, _) = emitted else { return };
        let shown = match (record.table.name, record.get("sid"), record.get("event")) {
            ("alert", Value::Uint(sid), _) => {
                let alert = format!("alert {sid} from {}", flow.initiator().0.to_canonical());
                match (record.get("tunnel"), record.get("tunnel_src"), record.get("tunnel_src_port")) {
                    (Value::Text(kind), Value::Address(source), port) => {
                        format!("{alert} in {} of {source} {port:?}", String::from_utf8_lossy(kind))
                    }
                    _ => alert,
                }
            }
            ("anomaly", _, Value::Text(event)) => format!("anomaly {}", String::from_utf8_lossy(event)),
            _ => return,
        };
        self.0.push(shown);
    }
}

/// What a run over frames of raw IP emits. `logs`: whether records of anomalies are asked for, too.
fn emitted(rules: &str, frames: &[Vec<u8>], logs: bool) -> Vec<String> {
    run(rules, frames, logs, SessionConfig::default()).0
}

/// What is emitted with these limits, and the counts of sessions.
fn run(rules: &str, frames: &[Vec<u8>], logs: bool, sessions: SessionConfig) -> (Vec<String>, SessionStats) {
    let reading = Reading { variables: Variables::default(), sources: &NoSources, with_switched_off: false };
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
    let tables: &[&str] = if logs { &["alert", "anomaly"] } else { &["alert"] };
    let log = |table: &&str| {
        let rows = FunctionCall::new("rows").with("of", table).with("to", "eve").with("bodies", "no");
        SubscriptionSpec::delivering(table, Level::Record, vec![rows])
    };
    let mut specs: Vec<SubscriptionSpec> = tables.iter().map(log).collect();
    specs.push(SubscriptionSpec::delivering("rules", Level::Record, vec![FunctionCall::new("rules")]));
    let plan = Plan::new("", specs, settings).unwrap();
    let flows = FlowConfig { memory: 1 << 20, ..FlowConfig::default() };
    let mut worker = Worker::with(Arc::new(plan), &flows, &sessions);
    let (mut chunk, mut got) = (PacketBuf::default(), Got::default());
    for (number, frame) in (1_u32..).zip(frames) {
        let packet = build::packet(frame, LinkType::RAW);
        chunk.push(&Packet { time: Time(u64::from(number) * 1_000_000), number, ..packet });
    }
    worker.batch(chunk.batch(), &mut got);
    worker.finish(&mut got);
    (got.0, worker.sessions().unwrap())
}

fn from(sender: [u8; 4]) -> Builder {
    build::ip().ipv4(sender, if sender == CLIENT { SERVER } else { CLIENT })
}

/// A question for `a.b` with the flags of its header.
fn question(bits: [u8; 2]) -> Vec<u8> {
    let mut message = vec![0, 7];
    message.extend(bits);
    message.extend(b"\0\x01\0\0\0\0\0\0\x01a\x01b\0\0\x01\0\x01");
    from(CLIENT).udp(4000, 53).payload(&message)
}

#[test]
fn messages_of_dns_with_odd_headers() {
    let rules = "alert dns any any -> any any (app-layer-event:dns.invalid_opcode; sid:1;)
alert dns any any -> any any (flow:to_client; app-layer-event:dns.z_flag_set; sid:2;)
alert dns any any -> any any (flow:to_server; app-layer-event:dns.z_flag_set; dns.query; content:\"a.b\"; sid:3;)";
    assert_eq!(emitted(rules, &[question([1, 0])], true), Vec::<String>::new());
    assert_eq!(emitted(rules, &[question([0x48, 0])], false), ["alert 1 from 10.0.0.1"]);
    assert_eq!(
        emitted(rules, &[question([1, 0x40])], true),
        ["alert 3 from 10.0.0.1", "anomaly z_flag_set"],
        "the log and the rules have one anomaly"
    );
}

#[test]
fn packets_and_fragments() {
    let rules = "alert tcp any any -> any any (decode-event:tcp.pkt_too_small; sid:1;)
alert pkthdr any any -> any any (decode-event:ipv4.frag_overlap; sid:2;)
alert ip 10.0.0.2 any -> any any (decode-event:ipv4.frag_overlap; sid:3;)
alert tcp any any -> any any (flow:to_client; stream-event:3whs_synack_with_wrong_ack; sid:4;)";
    let short = from(CLIENT).proto(6).raw(&[0; 19]).payload(b"");
    assert_eq!(emitted(rules, &[short], false), ["alert 1 from 10.0.0.1"]);
    let piece =
        |sender: [u8; 4], offset, bytes: u8| from(sender).fragment(9, offset, true).payload(&[bytes; 64]);
    let overlap = |sender| [piece(sender, 0, 1), piece(sender, 32, 2)];
    assert_eq!(emitted(rules, &overlap(CLIENT), false), ["alert 2 from 10.0.0.1"]);
    assert_eq!(emitted(rules, &overlap(SERVER), false), ["alert 2 from 10.0.0.2", "alert 3 from 10.0.0.2"]);
    let apart = [piece(CLIENT, 0, 1), piece(CLIENT, 64, 2)];
    assert_eq!(emitted(rules, &apart, false), Vec::<String>::new());
    let handshake = |ack| {
        let syn = from(CLIENT).tcp(4000, 80, flags::SYN).seq(100).payload(b"");
        [syn, from(SERVER).tcp(80, 4000, flags::SYN | flags::ACK).seq(900).ack(ack).payload(b"")]
    };
    assert_eq!(emitted(rules, &handshake(101), false), Vec::<String>::new());
    assert_eq!(emitted(rules, &handshake(99), false), ["alert 4 from 10.0.0.1"]);
}

#[test]
fn conditions_on_the_packet_that_completes_a_message() {
    let rules = "alert dns any any -> any any (dns.query; content:\"a.b\"; ttl:64; sid:1;)
alert dns any any -> any any (dns.query; content:\"a.b\"; dsize:21; sid:2;)
alert dns any any -> any any (dns.query; content:\"a.b\"; dsize:22; sid:3;)
alert dns any any -> any any (udp.hdr; content:\"|0f a0|\"; startswith; dns.query; content:\"a.b\"; sid:4;)
alert dns any any -> any any (udp.hdr; content:\"|0f a1|\"; startswith; dns.query; content:\"a.b\"; sid:5;)
alert dns any any -> any any (app-layer-event:dns.invalid_opcode; ttl:64; sid:6;)";
    let with_ttl = |ttl: u8, bits| {
        let mut frame = question(bits);
        frame[8] = ttl;
        frame
    };
    let found = |frame| emitted(rules, &[frame], false);
    let from_client = |sids: &[u8]| -> Vec<String> {
        sids.iter().map(|sid| format!("alert {sid} from 10.0.0.1")).collect()
    };
    assert_eq!(found(with_ttl(64, [1, 0])), from_client(&[1, 2, 4]));
    assert_eq!(found(with_ttl(63, [1, 0])), from_client(&[2, 4]));
    assert!(found(with_ttl(64, [0x48, 0])).contains(&"alert 6 from 10.0.0.1".to_owned()));
    assert!(!found(with_ttl(63, [0x48, 0])).contains(&"alert 6 from 10.0.0.1".to_owned()));
    // Of a request in two segments, the second one counts.
    let rules = "alert http any any -> any any (http.uri; content:\"/a\"; ttl:7; sid:1;)
alert http any any -> any any (http.uri; content:\"/a\"; ttl:8; sid:2;)";
    let segment = |ttl, seq, text: &[u8]| {
        from(CLIENT).ttl(ttl).tcp(4000, 80, flags::ACK).seq(seq).ack(901).payload(text)
    };
    let halves = [&b"GET /a HTTP/1.1\r\nHost:"[..], b" a\r\n\r\n"];
    let segments = |first, second| {
        let syn = from(CLIENT).tcp(4000, 80, flags::SYN).seq(100).payload(b"");
        let both = from(SERVER).tcp(80, 4000, flags::SYN | flags::ACK).seq(900).ack(101).payload(b"");
        let next = 101 + halves[0].len() as u32;
        vec![syn, both, segment(first, 101, halves[0]), segment(second, next, halves[1])]
    };
    assert_eq!(emitted(rules, &segments(8, 7), false), ["alert 1 from 10.0.0.1"]);
    assert_eq!(emitted(rules, &segments(7, 8), false), ["alert 2 from 10.0.0.1"]);
}

#[test]
fn fragments_and_what_is_put_together_from_them() {
    let rules = "alert udp any any -> any any (flow:only_frag; content:\"needle\"; sid:1;)
alert udp any any -> any any (flow:no_frag; content:\"needle\"; sid:2;)
alert udp any any -> any any (flow:only_frag; sid:3;)";
    let mut text = vec![b'x'; 64];
    text[20..26].copy_from_slice(b"needle");
    let whole = from(CLIENT).udp(4000, 9).payload(&text);
    assert_eq!(emitted(rules, std::slice::from_ref(&whole), false), ["alert 2 from 10.0.0.1"]);
    // The content lies over the end of the first fragment: 24 bytes of it, and the header of UDP.
    let piece = |at: u16, more, bytes: &[u8]| from(CLIENT).proto(17).fragment(9, at, more).payload(bytes);
    let datagram = &whole[20..];
    let pieces = [piece(0, true, &datagram[..32]), piece(32, false, &datagram[32..])];
    assert_eq!(emitted(rules, &pieces, false), ["alert 1 from 10.0.0.1", "alert 3 from 10.0.0.1"]);
}

/// Datagrams of flows of their own.
fn datagrams(payload: &[u8]) -> Vec<Vec<u8>> {
    (0..100).map(|n| from(CLIENT).udp(4000 + n, 9).payload(payload)).collect()
}

#[test]
fn what_rules_do_not_look_at_is_counted() {
    let rule = "alert udp any any -> any any (content:\"x\"; sid:1;)";
    let (all, stats) = run(rule, &datagrams(b"x"), false, SessionConfig::default());
    assert_eq!((all.len(), stats.rules_unseen), (100, 0));
    // An eighth of this is the room of some flows.
    let little = SessionConfig { memory: 64 << 10, ..SessionConfig::default() };
    let (some, stats) = run(rule, &datagrams(b"x"), false, little);
    assert!(stats.rules_unseen > 0 && !some.is_empty(), "{stats:?}");
    assert_eq!(some.len() as u64 + stats.rules_unseen, 100, "a packet is looked at or counted");
}

#[test]
fn a_stream_without_a_protocol_is_looked_at_to_its_end() {
    // More than is read to identify a protocol, and to find TLS after something else.
    const EXCHANGES: u32 = 200;
    let ends = |sender: [u8; 4]| if sender == CLIENT { (4000, 7777) } else { (7777, 4000) };
    let segment = |sender, flags, seq, ack, text: &[u8]| {
        let (from_port, to_port) = ends(sender);
        from(sender).tcp(from_port, to_port, flags).seq(seq).ack(ack).payload(text)
    };
    let (mut client, mut server) = (101, 901);
    let mut frames = vec![
        segment(CLIENT, flags::SYN, 100, 0, b""),
        segment(SERVER, flags::SYN | flags::ACK, 900, 101, b""),
        segment(CLIENT, flags::ACK, client, server, b""),
    ];
    for n in 0..EXCHANGES {
        let text = |what: &str| [&[0x99; 500][..], format!("{what}{n}.").as_bytes()].concat();
        for (sender, text) in [(CLIENT, text("question")), (SERVER, text("answer"))] {
            let (own, other) = if sender == CLIENT { (&mut client, server) } else { (&mut server, client) };
            frames.push(segment(sender, flags::ACK, *own, other, &text));
            *own += text.len() as u32;
        }
    }
    let last = EXCHANGES - 1;
    let rules = format!(
        "alert tcp-stream any any -> any any (content:\"question{last}.\"; sid:1;)\n\
         alert tcp any any -> any any (flow:to_client; content:\"answer{last}.\"; sid:2;)\n"
    );
    let (mut found, _) = run(&rules, &frames, false, SessionConfig::default());
    found.sort_unstable();
    assert_eq!(found.len(), 2, "{found:?}");
}

#[test]
fn limits_of_rules_are_counted() {
    // Each place of the first literal is tried with each of the second.
    let rule = "alert udp any any -> any any (content:\"a\"; content:\"a\"; distance:0; content:\"b\"; distance:0; sid:1;)";
    let (found, stats) = run(rule, &datagrams(&[b'a'; 1_000])[..1], false, SessionConfig::default());
    assert_eq!(
        (found.len(), stats.rules_given_up),
        (0, 0),
        "nothing finds a rule whose literals are not there"
    );
    let payload = [&[b'a'; 1_000][..], b"b"].concat();
    let rule = rule.replace("content:\"b\"; distance:0", "content:\"b\"; distance:1");
    let (found, stats) = run(&rule, &datagrams(&payload)[..1], false, SessionConfig::default());
    assert_eq!(found.len() as u64 + stats.rules_given_up, 1, "{stats:?}");
    // More bits than a flow keeps.
    let bits: String = (0..1_001).map(|n| {
        format!("alert udp any any -> any any (content:\"x\"; flowbits:set,b{n}; flowbits:noalert; sid:{};)\n", n + 1)
    }).collect();
    let (_, stats) = run(&bits, &datagrams(b"x")[..1], false, SessionConfig::default());
    assert_eq!(stats.rules_cut, 1);
}

#[test]
fn an_alert_in_a_tunnel_has_the_ends_of_the_outermost_packet() {
    let rule = "alert udp any any -> any !4789 (content:\"x\"; sid:1;)";
    let (here, there) = ([172, 16, 0, 1], [172, 16, 0, 2]);
    let inner = |sender: [u8; 4]| from(sender).udp(4_000, 9).payload(b"x");
    let frames = [
        inner(CLIENT),
        build::ip().ipv4(here, there).proto(4).payload(&inner([10, 0, 0, 3])),
        build::ip().ipv4(there, here).gre().ipv4(SERVER, CLIENT).udp(7, 8).payload(b"x"),
        build::ip()
            .ipv4(here, there)
            .udp(50_000, 4789)
            .raw(&[8, 0, 0, 0, 0, 0, 7, 0])
            .frame()
            .ipv4(CLIENT, SERVER)
            .udp(5, 6)
            .payload(b"x"),
    ];
    let got = emitted(rule, &frames, false);
    assert_eq!(
        got,
        [
            "alert 1 from 10.0.0.1",
            "alert 1 from 10.0.0.3 in ip-in-ip of 172.16.0.1 None",
            "alert 1 from 10.0.0.2 in gre of 172.16.0.2 None",
            "alert 1 from 10.0.0.1 in vxlan of 172.16.0.1 Uint(50000)",
        ]
    );
}

/// All bytes of a flow may wait for one that never comes: they are read when it ends.
#[test]
fn bytes_that_waited_are_read_at_the_end() {
    let rules = "alert tcp-stream any any -> any any (content:\"evil\"; sid:1;)";
    let syn = from(CLIENT).tcp(4000, 80, flags::SYN).seq(100).payload(b"");
    let late = from(CLIENT).tcp(4000, 80, flags::ACK).seq(111).ack(1).payload(b"an evil word");
    assert_eq!(emitted(rules, &[syn, late], false), ["alert 1 from 10.0.0.1"]);
}

/// A flow whose ports name the wrong server: what its responder asks for is a request to rules, whatever came before.
#[test]
fn rules_take_the_client_of_a_turned_flow_for_the_client() {
    let rules = "alert http any any -> any any (flow:to_server; http.uri; content:\"/evil\"; sid:1;)
alert http any any -> any any (flow:to_client; http.stat_code; content:\"404\"; sid:2;)
alert tcp any any -> any any (flow:to_client; content:\"GET \"; sid:3;)
alert http any any -> any any (flow:to_server; flowbits:isset,asked; http.uri; content:\"/again\"; sid:4;)
alert tcp any any -> any any (flow:to_server; content:\"GET /evil\"; flowbits:set,asked; sid:5;)
alert http 10.0.0.2 any -> 10.0.0.1 any (http.uri; content:\"/evil\"; sid:6;)
alert http 10.0.0.1 any -> 10.0.0.2 any (http.uri; content:\"/evil\"; sid:7;)";
    let (one, other) = (b"GET /evil HTTP/1.1\r\nHost: a\r\n\r\n", b"GET /again HTTP/1.1\r\nHost: a\r\n\r\n");
    let answer = b"HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n";
    let asks = |seq: u32, ack: u32| from(SERVER).tcp(53, 80, flags::ACK).seq(seq).ack(ack);
    let answers = |seq: u32, ack: u32| from(CLIENT).tcp(80, 53, flags::ACK).seq(seq).ack(ack);
    let talk = [
        asks(200, 100).payload(one),
        answers(100, 200 + one.len() as u32).payload(answer),
        asks(200 + one.len() as u32, 100 + answer.len() as u32).payload(other),
    ];
    let sids = |frames: &[Vec<u8>]| {
        let mut found = emitted(rules, frames, false);
        found.sort();
        let sid = |alert: String| alert.strip_suffix(" from 10.0.0.1").unwrap().to_owned();
        found.into_iter().map(sid).collect::<Vec<String>>()
    };
    assert_eq!(sids(&talk), [1, 2, 4, 5, 6].map(|sid| format!("alert {sid}")));
    // Who sends a SYN is the client, whatever its port.
    let handshake = [
        from(CLIENT).tcp(80, 53, flags::SYN).seq(99).payload(b""),
        from(SERVER).tcp(53, 80, flags::SYN | flags::ACK).seq(199).ack(100).payload(b""),
        answers(100, 200).payload(b""),
    ];
    assert_eq!(sids(&[&handshake[..], &talk].concat()), ["alert 3", "alert 3"]);
}

/// The packets of a tunnel are packets of their own to rules, with the state of a flow.
#[test]
fn outer_packets_of_tunnels() {
    let (here, there) = ([172, 16, 0, 1], [172, 16, 0, 2]);
    let rules = "alert ip any any -> 172.16.0.2 any (msg:\"once for a side\"; sid:1;)
alert ip any any -> any any (ip_proto:4; ttl:>0; sid:2;)
alert udp any any -> any 4789 (content:\"evil\"; sid:4;)
alert udp 172.16.0.2 any -> 172.16.0.1 4789 (content:\"|08|\"; startswith; sid:5;)
alert ip any any -> any any (flow:to_client; ip_proto:4; sid:6;)";
    let carried = |outer: Builder| outer.ipv4(CLIENT, SERVER).tcp(7, 8, flags::ACK).payload(b"evil");
    let vxlan = |from: [u8; 4], to: [u8; 4]| {
        build::ip().ipv4(from, to).udp(50_000, 4789).raw(&[8, 0, 0, 0, 0, 0, 7, 0]).frame()
    };
    let frames = [
        carried(build::ip().ipv4(here, there)),
        carried(build::ip().ipv4(here, there)),
        build::ip().ipv4(there, here).ipv4(SERVER, CLIENT).tcp(8, 7, flags::ACK).payload(b"ok"),
        carried(vxlan(there, here)),
    ];
    let mut found = emitted(rules, &frames, false);
    found.sort();
    let alerts = [(1, 1), (2, 1), (2, 1), (2, 1), (4, 2), (5, 2), (6, 1)];
    assert_eq!(found, alerts.map(|(sid, end)| format!("alert {sid} from 172.16.0.{end}")));
}
