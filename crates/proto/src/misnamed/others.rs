//! Conversations of protocols that are not parsed here, with random content.

use super::{Dice, Said};
use crate::{TCP, UDP};
use weir_wire::Direction::{Forward, Reverse};

/// Makes a conversation.
type Make = dyn Fn(&mut Dice) -> Said;

/// Name, transport protocol and generator of each.
pub(super) const ALL: &[(&str, u8, &Make)] = &[
    ("amqp", TCP, &amqp),
    ("ams", TCP, &ams),
    ("bacnet", UDP, &bacnet),
    ("bittorrent", TCP, &bittorrent),
    ("bt_dht", UDP, &bt_dht),
    ("coap", UDP, &coap),
    ("cql", TCP, &cql),
    ("diameter", TCP, &diameter),
    ("dnp3", TCP, &dnp3),
    ("dnp3", UDP, &dnp3),
    ("edonkey", TCP, &edonkey),
    ("edonkey", UDP, &edonkey_udp),
    ("enip", TCP, &enip),
    ("enip", UDP, &enip),
    ("gnutella", TCP, &gnutella),
    ("gtp", UDP, &gtp),
    ("iec104", TCP, &iec104),
    ("ike", UDP, &ike),
    ("kafka", TCP, &kafka),
    ("l2tp", UDP, &l2tp),
    ("memcached", TCP, &memcached),
    ("mongo", TCP, &mongo),
    ("nats", TCP, &nats),
    ("netflow", UDP, &netflow),
    ("nntp", TCP, &nntp),
    ("omron", UDP, &omron),
    ("opcua", TCP, &opcua),
    ("openvpn", TCP, &openvpn),
    ("openvpn", UDP, &openvpn),
    ("redis", TCP, &redis),
    ("portmapper", TCP, &portmapper),
    ("rtsp", TCP, &rtsp),
    ("s7comm", TCP, &s7comm),
    ("ssdp", UDP, &ssdp),
    ("statsd", UDP, &statsd),
    ("synchrophasor", TCP, &synchrophasor),
    ("teredo", UDP, &teredo),
    ("utp", UDP, &utp),
    ("wireguard", UDP, &wireguard),
    ("x11", TCP, &x11),
    ("zmtp", TCP, &zmtp),
];

/// Both sides in turn, a few times.
fn turns(dice: &mut Dice, mut make: impl FnMut(&mut Dice, bool, usize) -> Vec<u8>) -> Said {
    let mut said = Said::new();
    for at in 0..1 + dice.below(5) {
        said.push((Forward, make(dice, true, at)));
        if dice.below(8) != 0 {
            said.push((Reverse, make(dice, false, at)));
        }
    }
    said
}

/// Parts of bytes, one after the other.
fn joined(parts: &[&[u8]]) -> Vec<u8> {
    parts.concat()
}

fn short(number: usize) -> [u8; 2] {
    (number as u16).to_be_bytes()
}

fn long(number: usize) -> [u8; 4] {
    (number as u32).to_be_bytes()
}

fn little(number: usize) -> [u8; 4] {
    (number as u32).to_le_bytes()
}

/// Lines of a client and a server, as they are.
fn text(said: &[(bool, String)]) -> Said {
    said.iter()
        .map(|(is_client, line)| (if *is_client { Forward } else { Reverse }, line.clone().into_bytes()))
        .collect()
}

fn name(dice: &mut Dice) -> String {
    String::from_utf8(dice.word(12)).unwrap()
}

/// IEEE 1815: the link layer's header and its check, then blocks with a check each.
fn dnp3(dice: &mut Dice) -> Said {
    let (there, back) = (dice.bytes(2), dice.bytes(2));
    turns(dice, |dice, is_client, _| {
        let body = dice.below(250);
        let control = if is_client { 0xc4 } else { 0x44 };
        let (to, from) = if is_client { (&there, &back) } else { (&back, &there) };
        let blocks = dice.bytes(body + body.div_ceil(16) * 2 + 2);
        joined(&[&[5, 0x64, (body + 5) as u8, control], to, from, &blocks])
    })
}

/// ASHRAE 135, Annex J: the virtual link, the network layer and a service, often with the same object.
fn bacnet(dice: &mut Dice) -> Said {
    let (function, object) = (dice.of(&[&[10_u8][..], &[11], &[10]]), dice.bytes(4));
    let (mut call, network, is_routed) = (dice.byte(), dice.bytes(3), dice.below(2) == 0);
    turns(dice, |dice, is_client, _| {
        let value = dice.below(if is_client { 4 } else { 30 });
        let value = dice.bytes(value);
        let mut body = if is_routed {
            joined(&[&[1, if is_client { 0x0c } else { 0x20 }], &network, &[1, 0x3d]])
        } else {
            vec![1, if is_client { 4 } else { 0 }]
        };
        body.extend(if is_client { [2, 3] } else { [0x30, 0] });
        body.extend([call, 12, 12]);
        body.extend(&object);
        body.extend([0x19, 0x4b]);
        body.extend(value);
        call = call.wrapping_add(u8::from(!is_client));
        joined(&[&[0x81], function, &short(body.len() + 4), &body])
    })
}

/// IEC 60870-5-104: frames of three kinds.
fn iec104(dice: &mut Dice) -> Said {
    let mut counts = [0, 0];
    turns(dice, |dice, is_client, _| {
        let mut all = Vec::new();
        for _ in 0..1 + dice.below(3) {
            match dice.below(3) {
                0 => all.extend([0x68, 4, [7, 0x0b, 0x13, 0x23, 0x43, 0x83][dice.below(6)], 0, 0, 0]),
                1 => all.extend([0x68, 4, 1, 0, (counts[0] * 2) as u8, 0]),
                _ => {
                    let body = dice.some(100);
                    all.extend([
                        0x68,
                        body.len() as u8 + 4,
                        (counts[usize::from(is_client)] * 2) as u8,
                        0,
                        0,
                        0,
                    ]);
                    all.extend(body);
                    counts[usize::from(is_client)] += 1;
                }
            }
        }
        all
    })
}

/// TPKT and COTP (RFC 1006), then S7.
fn s7comm(dice: &mut Dice) -> Said {
    let references = dice.bytes(2);
    let mut call = dice.below(1 << 16);
    turns(dice, |dice, is_client, at| {
        let body = match at {
            0 => {
                let kind = if is_client { 0xe0 } else { 0xd0 };
                let points = [0xc0, 1, 0x0a, 0xc1, 2, 1, 0, 0xc2, 2, 1, dice.byte() & 3];
                joined(&[&[17, kind, 0, 0], &references, &[0], &points])
            }
            _ => {
                call += usize::from(is_client);
                let data = dice.some(120);
                let kind = if is_client { 1 } else { 3 };
                joined(&[
                    &[2, 0xf0, 0x80, 0x32, kind, 0, 0],
                    &short(call),
                    &short(data.len()),
                    &[0, 0],
                    &data,
                ])
            }
        };
        joined(&[&[3, 0], &short(body.len() + 4), &body])
    })
}

fn enip(dice: &mut Dice) -> Said {
    let session = dice.bytes(4);
    turns(dice, |dice, _, at| {
        let command = if at == 0 { 0x65 } else { 0x6f };
        let body = if at == 0 { vec![1, 0, 0, 0] } else { dice.some(100) };
        joined(&[&[command, 0, body.len() as u8, 0], &session, &[0; 4], &dice.bytes(8), &[0; 4], &body])
    })
}

fn opcua(dice: &mut Dice) -> Said {
    turns(dice, |dice, is_client, at| {
        let kind = match (at, is_client) {
            (0, true) => b"HELF",
            (0, false) => b"ACKF",
            (1, _) => b"OPNF",
            _ => b"MSGF",
        };
        let body = dice.some(120);
        joined(&[kind, &little(body.len() + 8), &body])
    })
}

fn ams(dice: &mut Dice) -> Said {
    let (there, back) = (dice.bytes(8), dice.bytes(8));
    turns(dice, |dice, is_client, at| {
        let body = dice.some(60);
        let flags = if is_client { 4 } else { 5 };
        let head = joined(&[&there, &back, &[2, 0, flags, 0], &little(body.len()), &[0; 4], &little(at)]);
        joined(&[&[0, 0], &little(head.len() + body.len()), &head, &body])
    })
}

fn omron(dice: &mut Dice) -> Said {
    let ends = dice.bytes(6);
    turns(dice, |dice, is_client, at| {
        let first = if is_client { 0x80 } else { 0xc0 };
        joined(&[&[first, 0, 2], &ends, &[at as u8, 1, 1], &dice.some(60)])
    })
}

fn synchrophasor(dice: &mut Dice) -> Said {
    let id = dice.bytes(2);
    turns(dice, |dice, is_client, _| {
        let kind = if is_client { 0x41 } else { [0x01, 0x31, 0x21][dice.below(3)] };
        let body = dice.some(80);
        joined(&[&[0xaa, kind], &short(body.len() + 16), &id, &dice.bytes(10), &body])
    })
}

fn coap(dice: &mut Dice) -> Said {
    let token = dice.below(9);
    let token = dice.bytes(token);
    let mut id = dice.below(1 << 16);
    turns(dice, |dice, is_client, _| {
        id += usize::from(is_client);
        let (kind, code) = if is_client { (0x40, 1 + dice.byte() % 4) } else { (0x60, 0x45) };
        joined(&[&[kind | token.len() as u8, code], &short(id), &token, b"\xb4test\xff", &dice.some(60)])
    })
}

fn redis(dice: &mut Dice) -> Said {
    let is_inline = dice.below(2) == 0;
    turns(dice, |dice, is_client, at| {
        let (verb, word) = (dice.of(&["AUTH", "GET", "PING", "LIST", "QUIT"]), name(dice));
        let verb = if at == 0 { "AUTH" } else { verb };
        match (is_client, is_inline) {
            (true, true) => format!("{verb} {word}\r\n"),
            (true, false) => format!("*2\r\n${}\r\n{verb}\r\n${}\r\n{word}\r\n", verb.len(), word.len()),
            (false, _) if dice.below(4) == 0 => format!("-ERR {word}\r\n"),
            (false, _) => "+OK\r\n".to_owned(),
        }
        .into_bytes()
    })
}

fn memcached(dice: &mut Dice) -> Said {
    turns(dice, |dice, is_client, _| {
        let (word, verb) = (name(dice), dice.of(&["get", "delete", "stats", "append", "gets"]));
        match is_client {
            true => format!("{verb} {word}\r\n").into_bytes(),
            false => dice
                .of(&["END\r\n", "STORED\r\n", "ERROR\r\n", "VALUE x 0 1\r\nx\r\nEND\r\n"])
                .as_bytes()
                .to_vec(),
        }
    })
}

fn nats(dice: &mut Dice) -> Said {
    let word = name(dice);
    text(&[
        (false, format!("INFO {{\"server_id\":\"{word}\"}} \r\n")),
        (true, "CONNECT {\"verbose\":false}\r\nPING\r\n".to_owned()),
        (false, "PONG\r\n".to_owned()),
        (true, format!("SUB {word} 1\r\n")),
        (false, "PING\r\n".to_owned()),
    ])
}

fn nntp(dice: &mut Dice) -> Said {
    let word = name(dice);
    text(&[
        (false, format!("200 {word} ready - posting allowed\r\n")),
        (true, dice.of(&["LIST\r\n", "MODE READER\r\n", "CAPABILITIES\r\n", "QUIT\r\n"]).to_owned()),
        (false, format!("215 {word}\r\n.\r\n")),
    ])
}

fn rtsp(dice: &mut Dice) -> Said {
    let word = name(dice);
    text(&[
        (true, format!("OPTIONS rtsp://{word}/media RTSP/1.0\r\nCSeq: 1\r\n\r\n")),
        (false, "RTSP/1.0 200 OK\r\nCSeq: 1\r\n\r\n".to_owned()),
        (true, format!("DESCRIBE rtsp://{word}/media RTSP/1.0\r\nCSeq: 2\r\n\r\n")),
    ])
}

fn ssdp(dice: &mut Dice) -> Said {
    let word = name(dice);
    text(&[
        (true, format!("M-SEARCH * HTTP/1.1\r\nHOST: 239.255.255.250:1900\r\nST: {word}\r\n\r\n")),
        (false, format!("HTTP/1.1 200 OK\r\nST: {word}\r\n\r\n")),
        (true, format!("NOTIFY * HTTP/1.1\r\nNT: {word}\r\n\r\n")),
    ])
}

fn statsd(dice: &mut Dice) -> Said {
    turns(dice, |dice, _, _| format!("{}.{}:{}|c\n", name(dice), name(dice), dice.below(1000)).into_bytes())
}

fn x11(dice: &mut Dice) -> Said {
    let cookie = dice.bytes(16);
    let hello = joined(&[b"l\0\x0b\0\0\0\x12\0\x10\0\0\0MIT-MAGIC-COOKIE-1\0\0", &cookie]);
    vec![
        (Forward, hello),
        (Reverse, joined(&[b"\x01\0\x0b\0\0\0", &dice.some(200)])),
        (Forward, dice.some(60)),
    ]
}

fn zmtp(dice: &mut Dice) -> Said {
    let hello = |minor| joined(&[b"\xff\0\0\0\0\0\0\0\x01\x7f\x03", &[minor], b"NULL", &[0; 48]]);
    let ready = dice.some(60);
    vec![(Forward, hello(0)), (Reverse, hello(1)), (Forward, joined(&[&[4, ready.len() as u8], &ready]))]
}

fn mongo(dice: &mut Dice) -> Said {
    turns(dice, |dice, is_client, at| {
        let body = dice.some(120);
        let answered = if is_client { 0 } else { at };
        joined(&[&little(body.len() + 16), &little(at), &little(answered), &little(2013), &body])
    })
}

fn amqp(dice: &mut Dice) -> Said {
    let (start, ok) = (dice.some(200), dice.some(200));
    let frame = |body: &[u8]| joined(&[&[1, 0, 0], &long(body.len()), body, &[0xce]]);
    vec![(Forward, b"AMQP\0\0\x09\x01".to_vec()), (Reverse, frame(&start)), (Forward, frame(&ok))]
}

fn cql(dice: &mut Dice) -> Said {
    turns(dice, |dice, is_client, at| {
        let body = dice.some(60);
        let version = if is_client { 4 } else { 0x84 };
        joined(&[&[version, 0], &short(at), &[if at == 0 { 1 } else { 7 }], &long(body.len()), &body])
    })
}

fn kafka(dice: &mut Dice) -> Said {
    turns(dice, |dice, is_client, at| {
        let body = dice.some(80);
        let head = if is_client { joined(&[&short(18), &short(3)]) } else { Vec::new() };
        joined(&[&long(head.len() + 4 + body.len()), &head, &long(at), &body])
    })
}

fn diameter(dice: &mut Dice) -> Said {
    turns(dice, |dice, is_client, _| {
        let body = dice.some(80);
        let flags = if is_client { 0x80 } else { 0 };
        let length = long(body.len() + 20);
        joined(&[&[1], &length[1..], &[flags, 0, 1, 1, 0, 0, 0, 0], &dice.bytes(8), &body])
    })
}

fn portmapper(dice: &mut Dice) -> Said {
    turns(dice, |dice, is_client, _| {
        let body = dice.some(60);
        let head = if is_client {
            joined(&[&long(0), &long(2), &long(100_000), &long(2)])
        } else {
            long(1).to_vec()
        };
        let id = dice.bytes(4);
        joined(&[&long(0x8000_0000 + 4 + head.len() + body.len()), &id, &head, &body])
    })
}

fn bittorrent(dice: &mut Dice) -> Said {
    let hash = dice.bytes(20);
    turns(dice, |dice, _, at| match at {
        0 => joined(&[b"\x13BitTorrent protocol", &[0; 8], &hash, b"-TR2940-", &dice.word(12)]),
        _ => {
            let body = dice.some(60);
            joined(&[&long(body.len() + 1), &[dice.byte() % 21], &body])
        }
    })
}

fn bt_dht(dice: &mut Dice) -> Said {
    turns(dice, |dice, is_client, _| {
        let id = dice.bytes(20);
        match is_client {
            true => joined(&[b"d1:ad2:id20:", &id, b"e1:q4:ping1:t2:aa1:y1:qe"]),
            false => joined(&[b"d1:rd2:id20:", &id, b"e1:t2:aa1:y1:re"]),
        }
    })
}

fn edonkey(dice: &mut Dice) -> Said {
    turns(dice, |dice, is_client, at| {
        let body = match (at, is_client) {
            (0, true) => joined(&[&[1, 16], &dice.bytes(22), &[1, 0, 0, 0, 3, 1, 0, 17], &dice.bytes(10)]),
            (0, false) => joined(&[&[0x4c], &dice.bytes(22), &[1, 0, 0, 0, 3, 1, 0, 17], &dice.bytes(10)]),
            _ => dice.some(200),
        };
        let dialect = if at == 0 { 0xe3 } else { [0xe3, 0xc5, 0xd4][dice.below(3)] };
        joined(&[&[dialect], &little(body.len())[..4], &body])
    })
}

fn edonkey_udp(dice: &mut Dice) -> Said {
    let (number, file) = (dice.bytes(2), dice.bytes(16));
    let kind = dice.below(4);
    turns(dice, |dice, is_client, _| match (kind, is_client) {
        (0, true) => joined(&[&[0xe3, 0x96], &number, &[0xaa, 0x55]]),
        (0, false) => joined(&[&[0xe3, 0x97], &number, &[0xaa, 0x55], &dice.bytes(28)]),
        (1, true) => joined(&[&[0xe3, 0x9a], &file]),
        (1, false) => joined(&[&[0xe3, 0x9b], &file, &[1], &dice.bytes(6)]),
        (2, true) => joined(&[&[0xe4, 0x21, 0x0b], &file, &dice.bytes(16)]),
        (2, false) => joined(&[&[0xe4, 0x29], &file, &[2], &dice.bytes(50)]),
        (_, true) => joined(&[&[0xc5, 0x90], &file, &dice.bytes(4)]),
        (_, false) => joined(&[&[0xc5, 0x91], &dice.bytes(4)]),
    })
}

fn gnutella(dice: &mut Dice) -> Said {
    turns(dice, |dice, is_client, at| match (at, is_client) {
        (0, true) => joined(&[b"GNUTELLA CONNECT/0.6\r\nUser-Agent: ", &dice.word(12), b"\r\n\r\n"]),
        (0, false) | (1, true) => b"GNUTELLA/0.6 200 OK\r\n\r\n".to_vec(),
        _ => joined(&[&dice.bytes(16), &[dice.byte() % 2, 7, 0], &little(dice.below(60))[..4]]),
    })
}

fn utp(dice: &mut Dice) -> Said {
    let connection = dice.below(60_000) as u16;
    turns(dice, |dice, is_client, at| {
        let (kind, connection) = match (is_client, at) {
            (true, 0) => (0x41, connection),
            (true, _) => (0x01, connection + 1),
            (false, _) => (0x21, connection),
        };
        let (sequence, acknowledged) = if is_client { (at + 1, at) } else { (at, at + 1) };
        let data = if kind == 0x01 { dice.some(300) } else { Vec::new() };
        let numbers = [sequence, acknowledged].map(|number| (number as u16).to_be_bytes()).concat();
        joined(&[&[kind, 0], &connection.to_be_bytes(), &dice.bytes(8), &long(1 << 20), &numbers, &data])
    })
}

fn wireguard(dice: &mut Dice) -> Said {
    let mut said = vec![
        (Forward, joined(&[&[1, 0, 0, 0], &dice.bytes(144)])),
        (Reverse, joined(&[&[2, 0, 0, 0], &dice.bytes(88)])),
    ];
    let receiver = dice.bytes(4);
    for at in 0..dice.below(6) {
        said.push((Forward, joined(&[&[4, 0, 0, 0], &receiver, &little(at), &[0; 4], &dice.some(300)])));
    }
    said
}

fn openvpn(dice: &mut Dice) -> Said {
    let session = dice.bytes(8);
    turns(dice, |dice, is_client, at| {
        let kind = match (at, is_client) {
            (0, true) => 0x38,
            (0, false) => 0x40,
            _ => 0x20,
        };
        joined(&[&[kind], &session, &[0], &long(at), &dice.some(200)])
    })
}

fn l2tp(dice: &mut Dice) -> Said {
    turns(dice, |dice, _, at| {
        let body = dice.some(60);
        joined(&[&[0xc8, 2], &short(body.len() + 12), &dice.bytes(4), &short(at), &short(at), &body])
    })
}

fn ike(dice: &mut Dice) -> Said {
    let first = dice.bytes(8);
    turns(dice, |dice, is_client, _| {
        let body = dice.some(200);
        let second = if is_client { vec![0; 8] } else { dice.bytes(8) };
        joined(&[&first, &second, &[0x21, 0x20, 0x22, 8, 0, 0, 0, 0], &long(body.len() + 28), &body])
    })
}

fn gtp(dice: &mut Dice) -> Said {
    let tunnel = dice.bytes(4);
    turns(dice, |dice, _, _| {
        let body = dice.some(200);
        joined(&[&[0x30, 0xff], &short(body.len()), &tunnel, &body])
    })
}

/// IPv6 in UDP (RFC 4380), of which nothing is a header of IPv4.
fn teredo(dice: &mut Dice) -> Said {
    turns(dice, |dice, _, _| {
        let body = dice.some(100);
        joined(&[&[0x60, 0, 0, 0], &short(body.len()), &[59, 255], &dice.bytes(32), &body])
    })
}

fn netflow(dice: &mut Dice) -> Said {
    let source = dice.bytes(4);
    let mut said = Said::new();
    for at in 0..1 + dice.below(6) {
        said.push((Forward, joined(&[&[0, 9, 0, 1], &dice.bytes(8), &long(at), &source, &dice.some(200)])));
    }
    said
}
