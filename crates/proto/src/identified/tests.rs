use super::*;
use crate::laws::all_talks;
use crate::misnamed::names;
use crate::talk::Turn;
use crate::{PROTOCOLS, UDP};

/// Ports of no protocol.
const FOREIGN: [u16; 2] = [49152, 49153];

fn probe(protocol: &Protocol, ports: [u16; 2], ip_proto: u8, forward: &[u8], reverse: &[u8]) -> Probe {
    (protocol.probe)(&Heads { forward, reverse, ports, ip_proto })
}

/// A stream is identified on any port, and undecided or identified where it is cut; with the byte at this place changed it is
/// another protocol's.
#[track_caller]
fn check_stream(protocol: &Protocol, forward: &[u8], reverse: &[u8], changed: usize) {
    assert_eq!(probe(protocol, FOREIGN, TCP, forward, reverse), Probe::Match);
    let first = if forward.is_empty() { reverse } else { forward };
    let of_first = |head: &[u8]| match forward.is_empty() {
        true => probe(protocol, FOREIGN, TCP, &[], head),
        false => probe(protocol, FOREIGN, TCP, head, &[]),
    };
    for cut in 2..first.len() {
        assert_ne!(of_first(&first[..cut]), Probe::Reject, "cut at {cut}");
    }
    assert_eq!(of_first(&first[..2]), Probe::Maybe);
    let mut near = first.to_vec();
    near[changed] ^= 0x55;
    assert_eq!(of_first(&near), Probe::Reject);
}

/// A datagram is identified on any port, and neither where it is cut nor with the byte at this place changed.
#[track_caller]
fn check_datagram(protocol: &Protocol, forward: &[u8], reverse: &[u8], changed: usize) {
    assert_eq!(probe(protocol, FOREIGN, UDP, forward, reverse), Probe::Match);
    for cut in 1..forward.len() {
        assert_ne!(probe(protocol, FOREIGN, UDP, &forward[..cut], &[]), Probe::Match, "cut at {cut}");
    }
    let mut near = forward.to_vec();
    near[changed] ^= 0x55;
    assert_eq!(probe(protocol, FOREIGN, UDP, &near, reverse), Probe::Reject);
}

/// The bytes of both sides of a conversation under `testdata/`, or of its first turn of each.
fn said(protocol: &str, case: &str, turns: usize) -> [Vec<u8>; 2] {
    let (_, talk) = all_talks().find(|(path, _)| path.ends_with(format!("{protocol}/{case}.talk"))).unwrap();
    let mut sides = [Vec::new(), Vec::new()];
    for turn in talk.turns.iter().take(turns) {
        if let Turn::Data(direction, data) = turn {
            sides[*direction as usize].extend_from_slice(data);
        }
    }
    sides
}

#[test]
fn conversations_have_the_name() {
    let mut found = 0;
    for (path, talk) in all_talks() {
        let folder = path.parent().unwrap().file_name().unwrap();
        let protocol = PROTOCOLS.iter().find(|protocol| *protocol.name == *folder).unwrap();
        if !is_only_identified(protocol) {
            continue;
        }
        let data = talk.turns.iter().filter_map(|turn| match turn {
            Turn::Data(direction, data) => Some((*direction, data.clone())),
            Turn::Gap(..) => None,
        });
        let names = names(&data.collect(), talk.ports, talk.ip_proto);
        assert_eq!(
            names.iter().map(|name| name.name).collect::<Vec<_>>(),
            [protocol.name],
            "{}",
            path.display()
        );
        found += 1;
    }
    assert!(found >= 24, "{found}");
}

/// A handshake in a stream of a protocol that is not parsed is found as in any other.
#[test]
fn tls_is_found_within() {
    let (_, talk) = all_talks().find(|(path, _)| path.ends_with("tls/after-negotiation.talk")).unwrap();
    let [greeting, _] = [b"\x13BitTorrent protocol".to_vec(), Vec::new()];
    let mut data = vec![(weir_wire::Direction::Forward, greeting)];
    data.extend(talk.turns.iter().filter_map(|turn| match turn {
        Turn::Data(direction, data) => Some((*direction, data.clone())),
        Turn::Gap(..) => None,
    }));
    let names = names(&data, FOREIGN, TCP);
    assert_eq!(names.iter().map(|name| name.name).collect::<Vec<_>>(), ["bittorrent", "tls"]);
}

#[test]
fn bacnet() {
    let [request, response] = said("bacnet", "read-property", 2);
    check_datagram(&bacnet::PROTOCOL, &request, &response, 4);
    check_datagram(&bacnet::PROTOCOL, b"\x81\x05\0\x06\0\x3c", &[], 3);
}

#[test]
fn bgp() {
    let [open, _] = said("bgp", "open", 1);
    check_stream(&bgp::PROTOCOL, &open, &[], 15);
    check_stream(&bgp::PROTOCOL, &open, &[], 18);
}

#[test]
fn bittorrent() {
    let [handshake, _] = said("bittorrent", "handshake", 1);
    check_stream(&bittorrent::PROTOCOL, &handshake, &[], 19);
}

#[test]
fn bt_dht() {
    let [query, response] = said("bt_dht", "ping", 2);
    check_datagram(&bt_dht::PROTOCOL, &query, &response, 2);
}

#[test]
fn coap() {
    let [request, response] = said("coap", "get", 2);
    check_datagram(&coap::PROTOCOL, &request, &response, 2);
    let home = |head: &[u8]| probe(&coap::PROTOCOL, [49152, 5683], UDP, head, &[]);
    assert_eq!(home(&request), Probe::Match);
    assert_eq!(home(&request[..request.len() - 1]), Probe::Reject);
}

#[test]
fn dnp3() {
    let [request, response] = said("dnp3", "read", 2);
    check_stream(&crate::dnp3::PROTOCOL, &request, &response, 8);
    check_datagram(&crate::dnp3::PROTOCOL, &request, &response, 4);
}

#[test]
fn edonkey() {
    let [hello, answer] = said("edonkey", "hello", 2);
    // The kind.
    check_stream(&edonkey::PROTOCOL, &hello, &answer, 5 + 1);
    let alone = |head: &[u8]| probe(&edonkey::PROTOCOL, FOREIGN, TCP, head, &[]);
    assert_eq!(alone(&answer), Probe::Match);
    assert_eq!(probe(&edonkey::PROTOCOL, FOREIGN, TCP, &[], &answer), Probe::Match);
    // A greeting to a server has no length before the hash.
    let mut to_server = hello.clone();
    to_server.remove(6);
    to_server[1] -= 1;
    assert_eq!(alone(&to_server), Probe::Match);
    // A length of 2 GiB, one that is too short, no tags, 2^31 tags, and a tag without a type.
    for (at, byte) in [(4, 0x80), (1, 20), (29, 0), (32, 0x80), (33, 0)] {
        let mut near = hello.clone();
        near[at] = byte;
        assert_eq!(alone(&near), Probe::Reject, "byte {at}");
    }
    // Frames of another kind say nothing, and a side that speaks otherwise decides against it.
    assert_eq!(alone(b"\xc5\x02\0\0\0\x60\0"), Probe::Maybe);
    assert_eq!(probe(&edonkey::PROTOCOL, FOREIGN, TCP, &hello, b"HTTP/1.1 200 OK"), Probe::Reject);
}

#[test]
fn edonkey_over_udp() {
    let [state, answer] = said("edonkey", "state", 2);
    check_datagram(&edonkey::PROTOCOL, &state, &answer, 1);
    check_datagram(&edonkey::PROTOCOL, &state, &[], 1);
    let of = |forward: &[u8], reverse: &[u8]| probe(&edonkey::PROTOCOL, FOREIGN, UDP, forward, reverse);
    // Another number, a long question, an answer that is cut, and a number without the constant.
    let mut other = answer.clone();
    other[2] ^= 1;
    assert_eq!(of(&state, &other), Probe::Reject);
    assert_eq!(of(&[&state[..], b"x"].concat(), &answer), Probe::Reject);
    assert_eq!(of(&state, &answer[..13]), Probe::Reject);
    assert_eq!(of(b"\xe3\x96abcd", &[]), Probe::Maybe);
    assert_eq!(of(b"\xe3\x96abcd", b"\xe3\x97abcd\x07\0\0\0\x2a\0\0\0"), Probe::Match);
    for kind in [0x9a, 0x94] {
        let sources = [&[0xe3, kind][..], b"abcdefghijklmnop"].concat();
        let found = [b"\xe3\x9babcdefghijklmnop\x01".as_slice(), &[192, 0, 2, 7, 0x36, 0x12]].concat();
        assert_eq!(of(&sources, &found), Probe::Match);
        assert_eq!(of(&[&sources[..2], &[7; 16], &sources[2..]].concat(), &found), Probe::Match);
        assert_eq!(of(&sources, &[]), Probe::Maybe);
        assert_eq!(of(&sources, b"\xe3\x9bbbcdefghijklmnop\x01"), Probe::Reject);
        assert_eq!(of(&sources[..17], &found), Probe::Reject);
    }
    let place = b"\xc5\x90abcdefghijklmnop\0\0";
    for (answer, expected) in [
        (b"\xc5\x91\x07\0".as_slice(), Probe::Match),
        (b"\xc5\x92", Probe::Match),
        (b"\xc5\x93", Probe::Match),
        (b"", Probe::Maybe),
        (b"\xc5\x91\x07", Probe::Reject),
        (b"\xc5\x93\0", Probe::Reject),
        (b"\xe3\x92", Probe::Reject),
        (b"\xc5", Probe::Reject),
    ] {
        assert_eq!(of(place, answer), expected, "{answer:?}");
    }
    assert_eq!(of(&place[..17], b"\xc5\x92"), Probe::Reject);
    // A message over TCP.
    assert_eq!(of(&said("edonkey", "hello", 1)[0], &[]), Probe::Reject);
}

#[test]
fn kad_over_udp() {
    let [near, contacts] = said("edonkey", "kad", 2);
    check_datagram(&edonkey::PROTOCOL, &near, &contacts, 1);
    let of = |forward: &[u8], reverse: &[u8]| probe(&edonkey::PROTOCOL, FOREIGN, UDP, forward, reverse);
    // A question alone; another identifier, purpose, number of contacts and length.
    assert_eq!(of(&near, &[]), Probe::Maybe);
    for (side, at) in [(1, 2), (0, 2), (1, 18)] {
        let mut both = [near.clone(), contacts.clone()];
        both[side][at] ^= 0x40;
        assert_eq!(of(&both[0], &both[1]), Probe::Reject, "{side} {at}");
    }
    for cut in 1..contacts.len() {
        assert_eq!(of(&near, &contacts[..cut]), Probe::Reject, "{cut}");
    }
    assert_eq!(of(&[&near[..], b"x"].concat(), &contacts), Probe::Reject);
    // Greetings, and contacts for a beginning.
    let greeting = |kind: u8, version: u8, tags: u8| {
        [&[0xe4, kind][..], b"abcdefghijklmnop\x36\x12", &[version, tags]].concat()
    };
    assert_eq!(of(&greeting(0x11, 9, 0), &greeting(0x19, 8, 1)), Probe::Match);
    assert_eq!(of(&greeting(0x11, 9, 0), &greeting(0x19, 1, 1)), Probe::Reject);
    assert_eq!(of(&greeting(0x11, 9, 99), &greeting(0x19, 8, 1)), Probe::Reject);
    let begin = |contacts: u8, bytes: usize| {
        let head = [b"\xe4\x09abcdefghijklmnop\x36\x12\x09".as_slice(), &[contacts, 0]].concat();
        [&head[..], &vec![7; bytes]].concat()
    };
    assert_eq!(of(b"\xe4\x01", &begin(2, 50)), Probe::Match);
    assert_eq!(of(b"\xe4\x01", &begin(2, 51)), Probe::Reject);
    assert_eq!(of(b"\xe4\x01\0", &begin(2, 50)), Probe::Reject);
}

#[test]
fn gnutella() {
    let [request, answer] = said("gnutella", "handshake", 2);
    check_stream(&gnutella::PROTOCOL, &request, &answer, 10);
    check_stream(&gnutella::PROTOCOL, &[], &answer, 8);
    let alone = |head: &[u8]| probe(&gnutella::PROTOCOL, FOREIGN, TCP, head, &[]);
    assert_eq!(alone(b"GNUTELLA CONNECT/0.4\n\n"), Probe::Match);
    for near in ["GNUTELLA CONNECTED", "gnutella connect/0.6", " GNUTELLA/0.6", "GNUTELLAS/0.6"] {
        assert_eq!(alone(near.as_bytes()), Probe::Reject, "{near}");
    }
}

#[test]
fn enip() {
    let [register, _] = said("enip", "register", 1);
    check_stream(&enip::PROTOCOL, &register, &[], 20);
    let [list, _] = said("enip", "identity", 1);
    check_datagram(&enip::PROTOCOL, &list, &[], 2);
}

#[test]
fn iec104() {
    let [start, confirmed] = said("iec104", "start", 2);
    check_stream(&iec104::PROTOCOL, &start, &confirmed, 3);
    let [_, data] = said("iec104", "midway", 1);
    check_stream(&iec104::PROTOCOL, &[], &data, 2);
    assert_eq!(probe(&iec104::PROTOCOL, FOREIGN, TCP, &[], &data[..16]), Probe::Maybe);
    assert_eq!(probe(&iec104::PROTOCOL, [49152, 2404], TCP, &[], &data[..16]), Probe::Match);
    let after_keep_alive = [&[0], &data[..]].concat();
    assert_eq!(probe(&iec104::PROTOCOL, [49152, 2404], TCP, &[0], &after_keep_alive), Probe::Match);
    assert_eq!(probe(&iec104::PROTOCOL, FOREIGN, TCP, &[0], &after_keep_alive), Probe::Reject);
}

#[test]
fn ike() {
    let [request, response] = said("ike", "version-2", 2);
    check_datagram(&ike::PROTOCOL, &request, &response, 17);
    let [behind, _] = said("ike", "behind-nat", 1);
    check_datagram(&ike::PROTOCOL, &behind, &[], 31);
}

#[test]
fn nntp() {
    let [command, greeting] = said("nntp", "reader", 2);
    let probe = |ports, forward: &[u8], reverse: &[u8]| {
        super::tests::probe(&nntp::PROTOCOL, ports, TCP, forward, reverse)
    };
    assert_eq!(probe(FOREIGN, &command, &greeting), Probe::Match);
    assert_eq!(probe(FOREIGN, &[], &greeting), Probe::Maybe);
    assert_eq!(probe([49152, 119], &[], &greeting), Probe::Match);
    assert_eq!(probe([49152, 119], &[], &greeting[..9]), Probe::Maybe);
    assert_eq!(probe(FOREIGN, b"USER ann\r\n", &greeting), Probe::Reject);
    assert_eq!(probe(FOREIGN, &command, b"220 news\r\n"), Probe::Reject);
}

#[test]
fn openvpn() {
    let [client, server] = said("openvpn", "reset", 2);
    let probe = |forward: &[u8], reverse: &[u8]| {
        super::tests::probe(&openvpn::PROTOCOL, FOREIGN, UDP, forward, reverse)
    };
    assert_eq!(probe(&client, &server), Probe::Match);
    assert_eq!(probe(&client, &[]), Probe::Maybe);
    let mut near = server.clone();
    near[20] ^= 1;
    assert_eq!(probe(&client, &near), Probe::Reject);
}

#[test]
fn opcua() {
    let [hello, _] = said("opcua", "hello", 1);
    check_stream(&opcua::PROTOCOL, &hello, &[], 4);
    let [both, acknowledgement] = said("opcua", "hello", 3);
    check_stream(&opcua::PROTOCOL, &acknowledgement, &[], 4);
    let open = &both[hello.len()..];
    check_stream(&opcua::PROTOCOL, open, &[], 20);
}

#[test]
fn redis() {
    let [command, reply] = said("redis", "get", 2);
    check_stream(&redis::PROTOCOL, &command, &reply, 4);
    assert_eq!(probe(&redis::PROTOCOL, FOREIGN, TCP, &command, &[]), Probe::Maybe);
    assert_eq!(probe(&redis::PROTOCOL, [49152, 6379], TCP, &command, &[]), Probe::Match);
    assert_eq!(probe(&redis::PROTOCOL, [49152, 6379], TCP, &command, b"OK\r\n"), Probe::Reject);
}

#[test]
fn mount() {
    let [call, reply] = said("mount", "mnt", 2);
    check_datagram(&mount::PROTOCOL, &call, &reply, 15);
    assert_eq!(probe(&mount::PROTOCOL, FOREIGN, UDP, &call, &[]), Probe::Maybe);
}

#[test]
fn nfs() {
    let [call, reply] = said("nfs", "null", 2);
    check_stream(&nfs::PROTOCOL, &call, &reply, 15);
    assert_eq!(probe(&nfs::PROTOCOL, FOREIGN, TCP, &call, &[]), Probe::Maybe);
    assert_eq!(probe(&nfs::PROTOCOL, [49152, 2049], TCP, &call, &[]), Probe::Match);
    assert_eq!(probe(&rpc::PROTOCOL, [49152, 2049], TCP, &call, &reply), Probe::Reject);
}

#[test]
fn portmapper() {
    let [call, reply] = said("portmapper", "getport", 2);
    check_datagram(&portmapper::PROTOCOL, &call, &reply, 15);
    assert_eq!(probe(&portmapper::PROTOCOL, [49152, 111], UDP, &call, &[]), Probe::Match);
}

#[test]
fn rpc() {
    let [call, reply] = said("rpc", "own-program", 2);
    check_datagram(&rpc::PROTOCOL, &call, &reply, 2);
    assert_eq!(probe(&rpc::PROTOCOL, FOREIGN, UDP, &call, &[]), Probe::Maybe);
    assert_eq!(probe(&rpc::PROTOCOL, [49152, 111], UDP, &call, &[]), Probe::Maybe);
    // The program of the lock manager over TCP, 100021.
    let mark = |bytes: &[u8]| [&(0x8000_0000 | bytes.len() as u32).to_be_bytes(), bytes].concat();
    let (mut call, reply) = (mark(&call), mark(&reply));
    call[16..20].copy_from_slice(&100_021_u32.to_be_bytes());
    check_stream(&rpc::PROTOCOL, &call, &reply, 15);
    assert_eq!(probe(&rpc::PROTOCOL, [49152, 111], TCP, &call, &[]), Probe::Match);
}

#[test]
fn rtsp() {
    let [request, response] = said("rtsp", "play", 2);
    check_stream(&rtsp::PROTOCOL, &request, &response, 6);
    check_stream(&rtsp::PROTOCOL, &[], &response, 5);
    assert_eq!(probe(&rtsp::PROTOCOL, FOREIGN, TCP, b"OPTIONS * HTTP/1.1\r\n", &[]), Probe::Reject);
}

#[test]
fn s7comm() {
    let [request, _] = said("s7comm", "setup", 1);
    let [all, answers] = said("s7comm", "setup", 3);
    check_stream(&s7comm::PROTOCOL, &all[request.len()..], &answers, 14);
    check_stream(&s7comm::PROTOCOL, &all, &answers, 18);
    assert_eq!(probe(&s7comm::PROTOCOL, FOREIGN, TCP, &request, &[]), Probe::Maybe);
    let [all, _] = said("s7comm", "plus", 2);
    check_stream(&s7comm::PROTOCOL, &all, &[], 1);
    // Another protocol over the same transport.
    let mut other = request.clone();
    other.extend(b"\x03\0\0\x0a\x02\xf0\x80\x0d\x01\0");
    assert_eq!(probe(&s7comm::PROTOCOL, [49152, 102], TCP, &other, &[]), Probe::Reject);
}

#[test]
fn srvloc() {
    let [request, _] = said("srvloc", "request", 1);
    check_datagram(&srvloc::PROTOCOL, &request, &[], 4);
}

#[test]
fn ssdp() {
    let [search, response] = said("ssdp", "search", 2);
    assert_eq!(probe(&ssdp::PROTOCOL, FOREIGN, UDP, &search, &[]), Probe::Match);
    assert_eq!(probe(&ssdp::PROTOCOL, [1900, 49152], UDP, &response, &[]), Probe::Match);
    assert_eq!(probe(&ssdp::PROTOCOL, FOREIGN, UDP, &response, &[]), Probe::Reject);
    assert_eq!(
        probe(&ssdp::PROTOCOL, FOREIGN, UDP, b"NOTIFY sip:a@192.0.2.1 SIP/2.0\r\n", &[]),
        Probe::Reject
    );
}

#[test]
fn tds() {
    let [login, _] = said("tds", "pre-login", 1);
    check_stream(&tds::PROTOCOL, &login, &[], 8);
    check_stream(&tds::PROTOCOL, &login, &[], 15);
}

#[test]
fn wireguard() {
    let [initiation, response] = said("wireguard", "handshake", 2);
    check_datagram(&wireguard::PROTOCOL, &initiation, &[], 1);
    check_datagram(&wireguard::PROTOCOL, &response, &[], 3);
}

#[test]
fn utp() {
    let [syn, state] = said("utp", "connect", 2);
    let [data, _] = said("utp", "connect", 3);
    let data = data[syn.len()..].to_vec();
    let both = |one: &[u8], other: &[u8]| {
        let found = probe(&utp::PROTOCOL, FOREIGN, UDP, one, other);
        assert_eq!(found, probe(&utp::PROTOCOL, FOREIGN, UDP, other, one));
        found
    };
    // One side alone decides nothing, however often it repeats its packet.
    assert_eq!(both(&syn, &[]), Probe::Maybe);
    assert_eq!(both(&syn.repeat(3), &[]), Probe::Maybe);
    assert_eq!(both(&syn.repeat(3), &state), Probe::Match);
    // A connection that is under way.
    assert_eq!(both(&data, &state), Probe::Match);
    assert_eq!(both(&syn, &data), Probe::Reject);
    for cut in 1..syn.len() {
        assert_eq!(both(&syn[..cut], &[]), Probe::Reject, "cut at {cut}");
        assert_eq!(both(&syn, &state[..cut]), Probe::Reject, "answer cut at {cut}");
    }
    // Version, type, extension, connection, timestamp, window, acknowledgement.
    for (at, byte) in [(0, 0x22), (0, 0x51), (0, 0x41), (1, 3), (1, 1), (3, 0x35), (12, 0x10), (19, 2)] {
        let mut near = state.clone();
        near[at] = byte;
        assert_eq!(both(&syn, &near), Probe::Reject, "byte {at}");
    }
    let mut without_time = syn.clone();
    without_time[4..8].fill(0);
    assert_eq!(both(&without_time, &state), Probe::Reject);
    // Extensions: four bytes of acknowledgements, eight of flags, and lengths that do not fit.
    let extended = |kind: u8, length: u8| {
        let mut packet = state.clone();
        packet[1] = kind;
        packet.extend([0, length]);
        packet.extend(vec![0; length.into()]);
        packet
    };
    for (kind, length, found) in
        [(1, 4, Probe::Match), (2, 8, Probe::Match), (1, 3, Probe::Reject), (2, 4, Probe::Reject)]
    {
        assert_eq!(both(&syn, &extended(kind, length)), found, "{kind} {length}");
    }
}
