//! Protocols over UDP: lists in datagrams, names that point to others, keys that have to be derived.

use super::{Capture, Case, conversations};
use weir_wire::Direction::{Forward, Reverse};

pub const CASES: &[Case] = &[
    Case { name: "dns-queries", about: "a query for a name of one letter in each flow", fill: queries },
    Case { name: "dns-one-flow", about: "queries of one flow", fill: one_flow },
    Case {
        name: "dns-pointers",
        about: "records whose names point to the longest one",
        fill: |c| records(c, true, &POINTER_RECORD),
    },
    Case {
        name: "dns-targets",
        about: "records that point to the longest name twice",
        fill: |c| records(c, true, &TARGET_RECORD),
    },
    Case { name: "dns-records", about: "the shortest records", fill: |c| records(c, false, &SHORT_RECORD) },
    Case {
        name: "dns-addresses",
        about: "addresses of one name",
        fill: |c| records(c, false, &ADDRESS_RECORD),
    },
    Case { name: "dns-texts", about: "texts without content", fill: texts },
    Case { name: "dns-questions", about: "questions for the longest name", fill: questions },
    Case { name: "dns-chain", about: "pointers to pointers", fill: chain },
    Case { name: "mdns-records", about: "multicast messages of short records", fill: mdns },
    Case { name: "snmp-bindings", about: "SNMP variables without content", fill: snmp },
    Case {
        name: "ntp-flows",
        about: "NTP in each flow",
        fill: |c| flows(c, [40_000, 123], &[&[0x23][..], &[0; 47]].concat()),
    },
    Case {
        name: "quic-keys",
        about: "the first packet of a QUIC connection in each flow, which cannot be opened",
        fill: quic,
    },
    Case { name: "quic-coalesced", about: "datagrams of short QUIC packets", fill: coalesced },
    Case { name: "rtp-sources", about: "RTP of a new source in each packet", fill: rtp },
    Case { name: "rtcp-blocks", about: "RTCP of the shortest parts", fill: rtcp },
    Case {
        name: "sip-calls",
        about: "a SIP request in each flow",
        fill: |c| flows(c, [5060, 5060], b"BYE sip:a SIP/2.0\nCall-ID:a\n\n"),
    },
    Case {
        name: "sip-headers",
        about: "SIP headers of one letter",
        fill: |c| {
            flows(c, [5060, 5060], &[&b"BYE sip:a SIP/2.0\n"[..], &b"a:b\n".repeat(16_000), b"\n"].concat())
        },
    },
    Case { name: "sip-media", about: "session descriptions of media and codecs", fill: sdp },
    Case { name: "dhcp-options", about: "DHCP options without content", fill: dhcp },
    Case {
        name: "dhcp-flows",
        about: "a DHCP message in each flow",
        fill: |c| flows(c, [68, 67], &dhcp_message(b"\x35\x01\x01\xff")),
    },
    Case {
        name: "syslog-flows",
        about: "a syslog message in each flow",
        fill: |c| flows(c, [40_000, 514], b"<1>"),
    },
    Case {
        name: "tftp-requests",
        about: "a TFTP request in each flow",
        fill: |c| flows(c, [40_000, 69], b"\0\x01a\0octet\0"),
    },
    Case { name: "dtls-fragments", about: "a hello in fragments of one byte", fill: dtls },
    Case { name: "netbios-names", about: "NetBIOS names", fill: netbios },
];

/// A flow for each datagram.
fn flows(capture: &mut Capture, ports: [u16; 2], data: &[u8]) {
    conversations(capture, 17, ports, |_| vec![(Forward, data.to_vec())]);
}

/// One flow of datagrams.
fn one(capture: &mut Capture, ports: [u16; 2], mut data: impl FnMut(u32) -> Vec<u8>) {
    let mut flow = capture.udp(ports);
    capture.fill(|capture, n| flow.send(capture, Forward, &data(n)));
}

fn query(n: u32) -> Vec<u8> {
    [&(n as u16).to_be_bytes()[..], &[1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, b'a', 0, 0, 1, 0, 1]].concat()
}

fn queries(capture: &mut Capture) {
    conversations(capture, 17, [40_000, 53], |n| vec![(Forward, query(n))]);
}

fn one_flow(capture: &mut Capture) {
    one(capture, [40_000, 53], query);
}

/// A record without data whose name is that of the question.
const POINTER_RECORD: [u8; 12] = [0xc0, 12, 0, 5, 0, 1, 0, 0, 0, 0, 0, 0];
/// A record whose data is that name, too.
const TARGET_RECORD: [u8; 14] = [0xc0, 12, 0, 5, 0, 1, 0, 0, 0, 0, 0, 2, 0xc0, 12];
const SHORT_RECORD: [u8; 11] = [0, 0, 16, 0, 1, 0, 0, 0, 0, 0, 0];
const ADDRESS_RECORD: [u8; 15] = [0, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4, 10, 0, 0, 1];

/// The longest name: of 255 bytes that are escaped where they are written.
fn long_name() -> Vec<u8> {
    let label = [&[63][..], &[1; 63]].concat();
    [label.repeat(3), vec![61], vec![1; 61], vec![0]].concat()
}

/// An answer with as many records as fit, of a question for the longest or the shortest name.
fn answer(n: u32, is_long: bool, record: &[u8]) -> Vec<u8> {
    let name = if is_long { long_name() } else { vec![0] };
    let count = ((super::DATAGRAM - 20 - name.len()) / record.len()).min(4095) as u16;
    let mut data =
        [&(n as u16).to_be_bytes()[..], &[0x81, 0x80, 0, 1], &count.to_be_bytes(), &[0; 4], &name].concat();
    data.extend([0, 1, 0, 1]);
    data.extend(record.repeat(count.into()));
    data
}

fn records(capture: &mut Capture, is_long: bool, record: &[u8]) {
    let mut flow = capture.udp([40_000, 53]);
    capture.fill(|capture, n| {
        flow.send(capture, Forward, &query(n));
        flow.send(capture, Reverse, &answer(n, is_long, record));
    });
}

fn texts(capture: &mut Capture) {
    // A record of 60,000 empty strings.
    let record = [&[0, 0, 16, 0, 1, 0, 0, 0, 0][..], &60_000_u16.to_be_bytes(), &[0; 60_000]].concat();
    records(capture, false, &record);
}

fn questions(capture: &mut Capture) {
    let mut data = [&[0, 1, 1, 0, 0x0f, 0xff, 0, 0, 0, 0, 0, 0][..], &long_name(), &[0, 1, 0, 1]].concat();
    data.extend([0xc0, 12, 0, 1, 0, 1].repeat(4094));
    one(capture, [40_000, 53], |_| data.clone());
}

fn chain(capture: &mut Capture) {
    // Pointers to the pointers before them, then names that go through 120 of them.
    let mut data = vec![0, 1, 0x81, 0x80, 0, 0, 0x0f, 0xfe, 0, 0, 0, 0];
    data.extend([1, b'a', 0, 0, 16, 0, 1, 0, 0, 0, 0, 0, 240]);
    let first = data.len();
    (0..120).for_each(|at| {
        data.extend((0xc000 | (if at == 0 { 12 } else { first + 2 * at - 2 }) as u16).to_be_bytes())
    });
    let last = (0xc000 | (first + 238) as u16).to_be_bytes();
    data.extend([&last[..], &[0, 16, 0, 1, 0, 0, 0, 0, 0, 0]].concat().repeat(4093));
    one(capture, [40_000, 53], |_| data.clone());
}

fn mdns(capture: &mut Capture) {
    let mut data = vec![0, 0, 0x84, 0, 0, 0, 0x0f, 0xff, 0, 0, 0, 0];
    data.extend(SHORT_RECORD.repeat(4095));
    one(capture, [5353, 5353], |_| data.clone());
}

fn snmp(capture: &mut Capture) {
    let long = |tag: u8, data: &[u8]| [&[tag, 0x82], &(data.len() as u16).to_be_bytes()[..], data].concat();
    let bindings = long(0x30, &b"\x30\x05\x06\x01\x2b\x05\0".repeat(9000));
    let body = long(0xa0, &[&b"\x02\x01\x01\x02\x01\0\x02\x01\0"[..], &bindings].concat());
    let data = long(0x30, &[&b"\x02\x01\x01\x04\x01a"[..], &body].concat());
    one(capture, [40_000, 161], |_| data.clone());
}

/// An Initial packet of QUIC version 1 with `length` bytes in its protected part.
fn initial(n: u32, length: u8) -> Vec<u8> {
    let mut data = vec![0xc3, 0, 0, 0, 1, 8];
    data.extend(u64::from(n).to_be_bytes());
    data.extend([0, 0, length]);
    data.resize(data.len() + usize::from(length), 7);
    data
}

fn quic(capture: &mut Capture) {
    conversations(capture, 17, [40_000, 443], |n| vec![(Forward, initial(n, 21))]);
}

fn coalesced(capture: &mut Capture) {
    conversations(capture, 17, [40_000, 443], |n| {
        vec![(Forward, (0..1800).flat_map(|at| initial(n * 1800 + at, 21)).collect())]
    });
}

fn rtp(capture: &mut Capture) {
    one(capture, [40_000, 5004], |n| {
        [&[0x80, 0][..], &(n as u16).to_be_bytes(), &[0, 0, 0, 0], &n.to_be_bytes()].concat()
    });
}

fn rtcp(capture: &mut Capture) {
    // A report without content, then as many goodbyes as fit.
    let mut data = vec![0x80, 201, 0, 1, 0, 0, 0, 1];
    (0..8000_u32).for_each(|n| data.extend([&[0x81, 203, 0, 1][..], &n.to_be_bytes()].concat()));
    one(capture, [40_000, 5005], |_| data.clone());
}

fn sdp(capture: &mut Capture) {
    let mut body = b"v=0\nc=IN IP4 10.1.2.3\n".to_vec();
    for n in 0..16_u32 {
        let kinds: String = (0..32).map(|kind| format!(" {kind}")).collect();
        body.extend(format!("m=audio {} RTP/AVP{kinds}\n", 1000 + 2 * n).into_bytes());
        body.extend(b"a=b\n".repeat(29));
    }
    let head = format!(
        "INVITE sip:a SIP/2.0\nCall-ID:a\nContent-Type:application/sdp\nContent-Length:{}\n\n",
        body.len()
    );
    flows(capture, [5060, 5060], &[head.as_bytes(), &body].concat());
}

fn dhcp_message(options: &[u8]) -> Vec<u8> {
    let mut data = vec![1, 1, 6, 0, 0, 0, 0, 7];
    data.resize(236, 0);
    data.extend(b"\x63\x82\x53\x63");
    data.extend(options);
    data
}

fn dhcp(capture: &mut Capture) {
    let options: Vec<u8> = (0..60_000_u32).step_by(2).flat_map(|n| [(1 + n / 2 % 250) as u8, 0]).collect();
    let data = dhcp_message(&[b"\x35\x01\x01", options.as_slice(), b"\xff"].concat());
    one(capture, [68, 67], |_| data.clone());
}

fn dtls(capture: &mut Capture) {
    // A hello of 4,000 bytes, in records of a byte.
    let record = |at: u16| {
        let mut data = vec![22, 0xfe, 0xfd, 0, 0, 0, 0, 0, 0];
        data.extend(at.to_be_bytes());
        data.extend([0, 13, 1, 0, 0x0f, 0xa0, 0, 0, 0]);
        data.extend(at.to_be_bytes());
        data.extend([0, 0, 1, 0xfe]);
        data
    };
    conversations(capture, 17, [40_000, 4433], |_| {
        (0..4000).step_by(60).map(|from| (Forward, (from..from + 60).flat_map(record).collect())).collect()
    });
}

fn netbios(capture: &mut Capture) {
    let name = [&[32][..], &b"CA".repeat(16), &[0]].concat();
    conversations(capture, 17, [137, 137], |n| {
        let head = [&(n as u16).to_be_bytes()[..], &[1, 0x10, 0, 1, 0, 0, 0, 0, 0, 0]].concat();
        vec![(Forward, [&head[..], &name, &[0, 32, 0, 1]].concat())]
    });
}
