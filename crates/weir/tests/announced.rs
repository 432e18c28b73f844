//! Flows between other hosts than those that announced them: the same flows are announced with any number of workers, in the
//! order of packets.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod support;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use support::*;
use weir_wire::build;

type Host = [u8; 4];

fn datagram(from: (Host, u16), to: (Host, u16), payload: &[u8]) -> Vec<u8> {
    build::ethernet().ipv4(from.0, to.0).udp(from.1, to.1).payload(payload)
}

/// A call with media of a codec to a host.
fn invite(call: usize, media: (Host, u16), codec: &str) -> Vec<u8> {
    let address = media.0.map(|part| part.to_string()).join(".");
    let body = format!(
        "v=0\r\no=a 1 1 IN IP4 {address}\r\ns=-\r\nc=IN IP4 {address}\r\nt=0 0\r\nm=audio {} RTP/AVP 96\r\na=rtpmap:96 {codec}\r\n",
        media.1
    );
    format!(
        "INVITE sip:b@example.org SIP/2.0\r\nVia: SIP/2.0/UDP a.example.org;branch=z9hG4bK{call}\r\nMax-Forwards: 70\r\n\
         From: <sip:a@example.org>;tag={call}\r\nTo: <sip:b@example.org>\r\nCall-ID: {call}@example.org\r\n\
         CSeq: 1 INVITE\r\nContent-Type: application/sdp\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

fn rtp(stream: u32, packet: u16) -> Vec<u8> {
    let mut bytes = vec![0x80, 96];
    bytes.extend(packet.to_be_bytes());
    bytes.extend((u32::from(packet) * 160).to_be_bytes());
    bytes.extend(stream.to_be_bytes());
    bytes.extend([0x55; 160]);
    bytes
}

/// A capture of frames a microsecond apart.
fn in_time(frames: Vec<Vec<u8>>) -> Vec<u8> {
    let times = (1_700_000_000_000_000_000..).step_by(1_000);
    pcap(1, &times.zip(frames).collect::<Vec<_>>())
}

const ROUNDS: usize = 600;

/// In each round two callers announce media to one host and port, with different codecs, and two hosts send there. The first
/// one sends the announced stream, and the later announcement describes it.
fn rounds() -> Vec<u8> {
    let mut frames = Vec::new();
    for round in 0..ROUNDS {
        let (high, low) = ((round / 200) as u8, (round % 200) as u8 + 1);
        let media = ([10, 2, high, low], 20_000);
        let proxy = ([10, 0, 0, 1], 5060);
        for (caller, codec) in [(1, "opus/48000/2"), (2, "speex/16000")] {
            let caller = ([10, 10 + caller, high, low.wrapping_mul(7)], 5060);
            frames.push(datagram(caller, proxy, &invite(round * 2 + usize::from(caller.0[1]), media, codec)));
        }
        for packet in 0..6 {
            for sender in [1, 2] {
                let from = ([10, 20 + sender, high, low.wrapping_mul(13)], 30_000 + u16::from(sender));
                frames.push(datagram(from, media, &rtp(round as u32 * 2 + u32::from(sender), packet)));
            }
        }
    }
    in_time(frames)
}

/// A segment of TCP.
fn segment(from: (Host, u16), to: (Host, u16), (seq, ack): (u32, u32), payload: &[u8]) -> Vec<u8> {
    build::ethernet().ipv4(from.0, to.0).tcp(from.1, to.1, 0x18).seq(seq).ack(ack).payload(payload)
}

/// In each round a client of IRC offers a file of a third host, and a fourth host fetches it. The client's bytes come in segments
/// of each size, in every second round the later ones first, and in every third round after a line of another protocol.
fn offers() -> Vec<u8> {
    let mut frames = Vec::new();
    for round in 0..ROUNDS {
        let (high, low) = ((round / 200) as u8, (round % 200) as u8 + 1);
        let host = |net: u8, factor: u8| [10, net, high, low.wrapping_mul(factor)];
        let (client, server) = ((host(1, 1), 40_000), (host(2, 3), 6667));
        let (holder, fetcher) = ((host(3, 7), 20_000), (host(4, 13), 41_000));
        let address = u32::from_be_bytes(holder.0);
        let hello = b":irc.example.org NOTICE AUTH :*** Looking up\r\n";
        frames.push(segment(server, client, (500, 100), hello));
        let offer = format!(
            "NICK a\r\nUSER a b c :d\r\nPRIVMSG b :\x01DCC SEND file.txt {address} {} 5\x01\r\n",
            holder.1
        );
        let size = 1 + round % offer.len();
        let pieces = offer.as_bytes().chunks(size).zip((0..).step_by(size));
        let mut pieces: Vec<(&[u8], u32)> = pieces.collect();
        if round % 2 == 1 {
            pieces.reverse();
        }
        if round % 3 == 2 {
            frames.push(segment(client, server, (80, 500), b"GET / HTTP/1.1\r\n\r\n\r\n"));
        }
        for (piece, at) in pieces {
            frames.push(segment(client, server, (100 + at, 546), piece));
        }
        for (payload, at) in [(&b"12"[..], 0), (b"345", 2)] {
            frames.push(segment(holder, fetcher, (900 + at, 700), payload));
        }
    }
    in_time(frames)
}

/// The lines of all logs of a run, in order, by the names of their files.
fn logs(capture: &Path, out: &Path, workers: &str) -> BTreeMap<String, Vec<String>> {
    weir([text(capture), "--log", "csv", "-o", text(out), "--workers", workers, "-q"]).exits(0);
    let mut logs = BTreeMap::new();
    for entry in fs::read_dir(out).unwrap().flatten() {
        // The list of calls has fewer rows than there are calls: which ones depends on the workers.
        let is_compared = |line: &&str| !line.contains(",calls,");
        let text = fs::read_to_string(entry.path()).unwrap();
        let mut lines: Vec<String> = text.lines().filter(is_compared).map(str::to_owned).collect();
        lines.sort_unstable();
        logs.insert(entry.file_name().into_string().unwrap(), lines);
    }
    logs
}

#[test]
fn offers_in_any_segments_are_announced_with_any_number_of_workers() {
    let folder = tempfile::tempdir().unwrap();
    let capture = put(folder.path(), "offers.pcap", &offers());
    let mut first: Option<BTreeMap<String, Vec<String>>> = None;
    for workers in ["1", "2", "3", "7"] {
        let found = logs(&capture, &folder.path().join(workers), workers);
        let fetched = found["flows.csv"].iter().filter(|line| line.contains("irc_dcc")).count();
        println!("{fetched} of {ROUNDS} files were fetched as announced");
        // Of a client that begins with a line of HTTP nothing is known.
        assert!(fetched >= ROUNDS * 2 / 3, "{fetched}");
        match &first {
            None => first = Some(found),
            Some(first) => assert_eq!(first, &found, "{workers} workers"),
        }
    }
}

#[test]
fn media_between_other_hosts_are_announced_in_the_order_of_packets() {
    let folder = tempfile::tempdir().unwrap();
    let capture = put(folder.path(), "calls.pcap", &rounds());
    let mut first: Option<BTreeMap<String, Vec<String>>> = None;
    for workers in ["1", "2", "3", "7"] {
        for again in 0..3 {
            let out = folder.path().join(format!("{workers}-{again}"));
            let logs = logs(&capture, &out, workers);
            let rtp = &logs["rtp.csv"];
            let announced = rtp.iter().filter(|line| line.contains("speex")).count();
            assert_eq!(announced, ROUNDS, "{workers} workers: {:?}", rtp.first());
            assert!(rtp.iter().all(|line| !line.contains("opus")));
            assert!(rtp.iter().filter(|line| line.contains("speex")).all(|line| line.contains(",30001,")));
            match &first {
                None => first = Some(logs),
                Some(first) => assert_eq!(first, &logs, "{workers} workers"),
            }
        }
    }
}
