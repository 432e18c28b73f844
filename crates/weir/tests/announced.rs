//! Flows between other hosts than those that announced them: the same flows are announced with any number of workers, in the
//! order of packets.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod support;

use std::collections::BTreeMap;
use std::fs;
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

const ROUNDS: usize = 600;

/// In each round two callers announce media to one host and port, with different codecs, and two hosts send there. The first
/// one sends the announced stream, and the later announcement describes it.
fn rounds() -> Vec<u8> {
    let mut packets = Vec::new();
    let mut add = |frame| {
        let time = packets.len() as u64 * 1_000;
        packets.push((1_700_000_000_000_000_000 + time, frame));
    };
    for round in 0..ROUNDS {
        let (high, low) = ((round / 200) as u8, (round % 200) as u8 + 1);
        let media = ([10, 2, high, low], 20_000);
        let proxy = ([10, 0, 0, 1], 5060);
        for (caller, codec) in [(1, "opus/48000/2"), (2, "speex/16000")] {
            let caller = ([10, 10 + caller, high, low.wrapping_mul(7)], 5060);
            add(datagram(caller, proxy, &invite(round * 2 + usize::from(caller.0[1]), media, codec)));
        }
        for packet in 0..6 {
            for sender in [1, 2] {
                let from = ([10, 20 + sender, high, low.wrapping_mul(13)], 30_000 + u16::from(sender));
                add(datagram(from, media, &rtp(round as u32 * 2 + u32::from(sender), packet)));
            }
        }
    }
    pcap(1, &packets)
}

#[test]
fn media_between_other_hosts_are_announced_in_the_order_of_packets() {
    let folder = tempfile::tempdir().unwrap();
    let capture = put(folder.path(), "calls.pcap", &rounds());
    let mut first: Option<BTreeMap<String, Vec<String>>> = None;
    for workers in ["1", "2", "3", "7"] {
        for again in 0..3 {
            let out = folder.path().join(format!("{workers}-{again}"));
            let options = [text(&capture), "--log", "csv", "-o", text(&out), "--workers", workers, "-q"];
            weir(options).exits(0);
            let mut logs = BTreeMap::new();
            for entry in fs::read_dir(&out).unwrap().flatten() {
                // The list of calls has fewer rows than there are calls: which ones depends on the workers.
                let is_compared = |line: &&str| !line.contains(",calls,");
                let text = fs::read_to_string(entry.path()).unwrap();
                let mut lines: Vec<String> = text.lines().filter(is_compared).map(str::to_owned).collect();
                lines.sort_unstable();
                logs.insert(entry.file_name().into_string().unwrap(), lines);
            }
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
