//! The lines of the summary that appear where there is something to say: calls, Wi-Fi networks, claims by ARP, and domains with
//! very many names.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod support;

use support::*;
use weir_wire::build;

const MS: u64 = 1_000_000;
/// Link types of a capture file.
const ETHERNET: u32 = 1;
const IEEE802_11: u32 = 105;

/// The summary of a capture, equal for any number of workers.
fn summary(link: u32, packets: &[(u64, Vec<u8>)]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let file = put(folder.path(), "x.pcap", &pcap(link, packets));
    let of = |workers: &str| weir([text(&file), "-q", "--workers", workers]).exits(0).text();
    let alone = of("1");
    for workers in ["2", "3", "7"] {
        assert_eq!(of(workers), alone, "{workers} workers");
    }
    alone
}

/// The lines of a section, without its label.
fn section(summary: &str, label: &str) -> Vec<String> {
    let lines = summary.lines().skip_while(|line| !line.starts_with(label)).enumerate();
    let lines = lines.take_while(|(at, line)| *at == 0 || line.starts_with(' '));
    lines.map(|(_, line)| line.get(10..).unwrap_or_default().to_owned()).collect()
}

const ALICE: [u8; 4] = [192, 0, 2, 1];
const PROXY: [u8; 4] = [192, 0, 2, 53];
const BOB: [u8; 4] = [198, 51, 100, 2];

/// A message of SIP between two hosts.
fn sip(from: [u8; 4], to: [u8; 4], first: &str, seq: &str, body: &str) -> Vec<u8> {
    let is_late = !seq.ends_with("INVITE") || !first.starts_with("INVITE");
    let tag = if is_late { ";tag=b" } else { "" };
    let kind = if body.is_empty() { "" } else { "Content-Type: application/sdp\r\n" };
    let message = format!(
        "{first}\r\nVia: SIP/2.0/UDP 192.0.2.1:5060;branch=z9hG4bK1\r\nFrom: \"A <x>\" <sip:alice@example.org>;tag=a\r\n\
         To: Bob <sip:bob@example.com;user=phone>{tag}\r\nCall-ID: one@192.0.2.1\r\nCSeq: {seq}\r\n{kind}\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    build::ethernet().ipv4(from, to).udp(5060, 5060).payload(message.as_bytes())
}

fn description(address: &str, port: u16) -> String {
    format!(
        "v=0\r\no=- 1 1 IN IP4 {address}\r\ns=-\r\nc=IN IP4 {address}\r\nt=0 0\r\nm=audio {port} RTP/AVP 0\r\n"
    )
}

/// A packet of PCMU: 20 ms of sound.
fn rtp(ends: [[u8; 4]; 2], ports: [u16; 2], seq: u16, ssrc: u32) -> Vec<u8> {
    let mut payload = vec![0x80, 0];
    payload.extend(seq.to_be_bytes());
    payload.extend((u32::from(seq) * 160).to_be_bytes());
    payload.extend(ssrc.to_be_bytes());
    payload.extend([0xd5; 160]);
    build::ethernet().ipv4(ends[0], ends[1]).udp(ports[0], ports[1]).payload(&payload)
}

/// A call over a proxy, whose media go from end to end: numbers wrap, two packets are lost, two come in the other order.
fn call() -> Vec<(u64, Vec<u8>)> {
    let mut packets = Vec::new();
    let (offer, answer) = (description("192.0.2.1", 41_000), description("198.51.100.2", 42_000));
    let messages = [
        (0, "INVITE sip:bob@example.com SIP/2.0", "1 INVITE", offer.as_str()),
        (3_000, "SIP/2.0 200 OK", "1 INVITE", answer.as_str()),
        (3_020, "ACK sip:bob@example.com SIP/2.0", "1 ACK", ""),
        (9_000, "BYE sip:bob@example.com SIP/2.0", "2 BYE", ""),
        (9_010, "SIP/2.0 200 OK", "2 BYE", ""),
    ];
    for (ms, first, seq, body) in messages {
        let mut hops = [(ALICE, PROXY), (PROXY, BOB)];
        if first.starts_with("SIP") {
            hops = [(BOB, PROXY), (PROXY, ALICE)];
        }
        for ((from, to), after) in hops.into_iter().zip(0..) {
            packets.push(((ms + after) * MS, sip(from, to, first, seq, body)));
        }
    }
    for n in 0..100_u64 {
        // Numbers 65,496 to 59; 65,500 and 10 are lost, 20 comes before 19, and every fourth packet is 8 ms late.
        let seq = 65_496_u16.wrapping_add(n as u16);
        let late = if n % 4 == 0 { 8 } else { 0 };
        let at = (3_100 + n * 20 + late) * MS;
        let at = if seq == 19 { at + 21 * MS } else { at };
        if seq != 65_500 && seq != 10 {
            packets.push((at, rtp([ALICE, BOB], [41_000, 42_000], seq, 7)));
        }
    }
    packets.sort_by_key(|(time, _)| *time);
    packets
}

#[test]
fn a_call_is_shown_with_its_outcome_and_its_media() {
    let summary = summary(ETHERNET, &call());
    let lines = section(&summary, "CALLS");
    let [who, media] = lines.as_slice() else { panic!("{summary}") };
    // The proxy forwards the answer a millisecond later, and the first of both counts.
    assert_eq!(who, "alice@example.org -> bob@example.com  200, 6.001 s", "{summary}");
    let jitter = media
        .trim()
        .strip_prefix("1 stream, lost 2 of 100 (2.00%), jitter ")
        .unwrap_or_else(|| panic!("{summary}"));
    let jitter: f64 = jitter.strip_suffix(" ms").unwrap().parse().unwrap();
    // Half of the steps are 8 ms beside their time: the mean is 4 ms, and the last steps sway it by a few sixteenths.
    assert!((2.5..6.5).contains(&jitter), "{summary}");
}

#[test]
fn calls_that_fail_or_go_on_say_so() {
    let invite = || sip(ALICE, BOB, "INVITE sip:bob@example.com SIP/2.0", "1 INVITE", "");
    let busy = sip(BOB, ALICE, "SIP/2.0 486 Busy Here", "1 INVITE", "");
    let taken = sip(BOB, ALICE, "SIP/2.0 200 OK", "1 INVITE", "");
    let who = "alice@example.org -> bob@example.com  ";
    for (packets, outcome) in [
        (vec![(0, invite())], "not answered"),
        (vec![(0, invite()), (500 * MS, busy)], "486 after 0.500 s"),
        (vec![(0, invite()), (500 * MS, taken)], "200, open"),
    ] {
        let summary = summary(ETHERNET, &packets);
        assert_eq!(section(&summary, "CALLS"), [format!("{who}{outcome}")], "{summary}");
    }
    let options = sip(ALICE, BOB, "OPTIONS sip:bob@example.com SIP/2.0", "1 OPTIONS", "");
    assert!(section(&summary(ETHERNET, &[(0, options)]), "CALLS").is_empty());
}

#[test]
fn streams_that_no_call_announced_are_shown_apart() {
    let packets: Vec<_> = (0..20)
        .filter(|n| *n != 10)
        .map(|n| (n * 20 * MS, rtp([ALICE, BOB], [41_000, 42_000], n as u16, 7)))
        .collect();
    let summary = summary(ETHERNET, &packets);
    let expected = "of no call: 1 stream, lost 1 of 20 (5.00%), jitter 0.00 ms";
    assert_eq!(section(&summary, "CALLS"), [expected], "{summary}");
}

/// A frame of Wi-Fi.
fn frame(control: u8, flags: u8, addresses: [[u8; 6]; 3], body: &[u8]) -> Vec<u8> {
    let [one, two, three] = addresses;
    [&[control, flags, 0, 0][..], &one, &two, &three, &[0; 2], body].concat()
}

#[test]
fn networks_are_shown_with_channel_and_stations() {
    let all = [0xff; 6];
    let mac = |n: u8| [2, 0, 0, 0, 0, n];
    let beacon = |bssid: [u8; 6], name: &[u8], channel: u8| {
        let body = [&[0; 12][..], &[0, name.len() as u8], name, &[3, 1, channel]].concat();
        frame(0x80, 0, [all, bssid, bssid], &body)
    };
    let mut frames = Vec::new();
    for _ in 0..9 {
        frames.push(beacon(mac(0xa), b"home", 6));
    }
    for station in 1..=3 {
        frames.push(frame(0x08, 0x41, [mac(0xa), mac(station), mac(9)], &[0; 20]));
        frames.push(frame(0x08, 0x42, [mac(station), mac(0xa), mac(9)], &[0; 20]));
    }
    for n in 0..4 {
        for _ in n..4 {
            frames.push(beacon(mac(0xb0 + n), b"guest", 11));
        }
    }
    let packets: Vec<_> = frames.iter().cloned().zip(0..).map(|(frame, ms)| (ms * MS, frame)).collect();
    let summary = summary(IEEE802_11, &packets);
    let expected = [
        "\"home\"  02:00:00:00:00:0a  channel 6  3 stations",
        "\"guest\"  02:00:00:00:00:b0  channel 11  no station",
        "\"guest\"  02:00:00:00:00:b1  channel 11  no station",
        "and 2 more access points",
    ];
    assert_eq!(section(&summary, "WI-FI"), expected, "{summary}");
    // Data alone shows no network.
    let data: Vec<_> = packets.into_iter().filter(|(_, frame)| frame[0] == 0x08).collect();
    assert!(section(&self::summary(IEEE802_11, &data), "WI-FI").is_empty());
}

/// A packet of ARP: its operation, and the sender's two addresses.
fn arp(operation: u8, mac: u8, address: [u8; 4], vlan: Option<u8>) -> Vec<u8> {
    let mac = [2, 0, 0, 0, 0, mac];
    let tag = vlan.map(|id| vec![0x81, 0, 0, id]).unwrap_or_default();
    let body = [&[0, 1, 8, 0, 6, 4, 0, operation][..], &mac, &address, &[0; 6], &[10, 0, 0, 1]].concat();
    [&[0xff; 6][..], &mac, &tag, &[8, 6], &body].concat()
}

#[test]
fn an_address_of_two_stations_is_shown() {
    let host = [10, 0, 0, 1];
    let mut packets: Vec<Vec<u8>> = (0..12).map(|n| arp(1 + n % 2, 0xa, host, None)).collect();
    packets.extend((0..3).map(|_| arp(2, 0xb, host, None)));
    // Probes claim nothing, and the address of another VLAN is another one.
    packets.extend((0..9).map(|n| arp(1, n, [0; 4], None)));
    packets.extend((1..5).map(|vlan| arp(2, vlan, [10, 0, 0, 7], Some(vlan))));
    let timed =
        |packets: Vec<Vec<u8>>| packets.into_iter().zip(0..).map(|(p, ms)| (ms * MS, p)).collect::<Vec<_>>();
    let found = summary(ETHERNET, &timed(packets.clone()));
    let expected = "10.0.0.1 is claimed by 02:00:00:00:00:0a (12 ARP) and 02:00:00:00:00:0b (3 ARP)";
    let wrapped = section(&found, "ERRORS").join(" ");
    assert_eq!(wrapped, expected, "{found}");
    packets.retain(|packet| packet[11] != 0xb);
    let found = summary(ETHERNET, &timed(packets));
    assert!(!found.contains("claimed"), "{found}");
}

/// A query of DNS.
fn query(id: u16, name: &str) -> Vec<u8> {
    let mut data = [id, 0x0100, 1, 0, 0, 0].map(u16::to_be_bytes).concat();
    for label in name.split('.') {
        data.push(label.len() as u8);
        data.extend(label.as_bytes());
    }
    data.extend([0, 0, 16, 0, 1]);
    build::ethernet().ipv4(ALICE, PROXY).udp(30_000 + id, 53).payload(&data)
}

#[test]
fn the_domain_with_most_names_is_shown() {
    let of = |names: &[String]| {
        let packets: Vec<_> =
            names.iter().zip(0..).map(|(name, n)| (u64::from(n) * MS, query(n, name))).collect();
        let summary = summary(ETHERNET, &packets);
        section(&summary, "NAMES").into_iter().nth(1)
    };
    let tunnel = |n: u32| format!("{n:04x}.data.DNScat.example");
    let site = |n: u32| format!("www.site{n}.co.uk");
    // Each name twice: the different ones count.
    let names: Vec<String> = (0..150).chain(0..150).map(tunnel).chain((0..10).map(site)).collect();
    assert_eq!(of(&names).as_deref(), Some("dnscat.example has 150 of 160 different names"));
    // Names below a public suffix are of as many domains.
    assert_eq!(of(&(0..40).map(site).collect::<Vec<_>>()), None);
    assert_eq!(of(&(0..9).map(tunnel).collect::<Vec<_>>()), None, "too few");
    let half: Vec<String> = (0..20).map(tunnel).chain((0..20).map(site)).collect();
    assert_eq!(of(&half), None, "no more than half");
}

/// The numbers of captures of others, by their own tools.
#[test]
fn captures_of_others_show_what_is_in_them() {
    let shared = root().join("../shared/data");
    if !shared.is_dir() {
        println!("skipped: ../shared/data is absent");
        return;
    }
    let shown = |path: &str, label: &str| {
        let ran = weir([text(&shared.join(path)), "-q"]).exits(0).text();
        section(&ran, label).join("\n")
    };
    let call = shown("wireshark/sip-rtp.pcapng", "CALLS");
    let who = "200.57.7.195:55061 -> francisco@bestel.com:…  200, open after 24.126 s";
    assert!(call.starts_with(who), "{call}");
    assert!(call.contains("1 stream, lost 0, jitter 3.34 ms"), "{call}");
    let wifi = shown("libpcap/filter/wpa-Induction.pcap", "WI-FI");
    assert_eq!(wifi, "\"Coherer\"  00:0c:41:82:b2:55  channel 1  1 station");
    let names = shown("suricata-verify/tests/dns/bug-1158/input.pcap", "NAMES");
    assert!(names.ends_with("tunnel.com has 81 of 82 different names"), "{names}");
}
