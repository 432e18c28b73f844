//! Line-based and binary protocols over TCP: the shortest commands, the longest lists, and bytes one at a time.

use super::{Capture, Case, Flow, stream};
use weir_wire::Direction::{self, Forward, Reverse};

pub const CASES: &[Case] = &[
    Case {
        name: "ftp-commands",
        about: "FTP commands of 4 letters",
        fill: |c| ftp(c, |_| b"NOOP\n".to_vec()),
    },
    Case { name: "ftp-ports", about: "FTP data connections that are announced", fill: |c| ftp(c, announced) },
    Case { name: "ftp-data", about: "the same, and each of them opened", fill: ftp_data },
    Case {
        name: "ftp-paths",
        about: "FTP folders in one another",
        fill: |c| ftp(c, |_| b"CWD a\n".to_vec()),
    },
    Case { name: "irc-messages", about: "IRC messages of one letter", fill: |c| irc(c, b"PRIVMSG a b\n") },
    Case { name: "irc-joins", about: "IRC channels", fill: |c| irc(c, b"JOIN a,b,c,d,e\n") },
    Case { name: "irc-empty", about: "IRC lines without content", fill: |c| irc(c, b"\n") },
    Case { name: "syslog-lines", about: "syslog messages without content", fill: syslog },
    Case { name: "dns-tcp", about: "DNS queries over TCP", fill: dns },
    Case { name: "mqtt-pings", about: "MQTT pings", fill: |c| mqtt(c, b"\xc0\0") },
    Case {
        name: "mqtt-publishes",
        about: "MQTT messages of one byte",
        fill: |c| mqtt(c, b"\x30\x04\0\x01ab"),
    },
    Case { name: "mqtt-properties", about: "MQTT messages of user properties", fill: mqtt_properties },
    Case { name: "mqtt-topics", about: "MQTT subscriptions to many topics", fill: mqtt_topics },
    Case { name: "mqtt-unanswered", about: "MQTT messages that wait for an answer", fill: mqtt_unanswered },
    Case { name: "smb-requests", about: "SMB 2 commands without an answer", fill: |c| smb(c, Forward, 1) },
    Case { name: "smb-responses", about: "SMB 2 answers to nothing", fill: |c| smb(c, Reverse, 1) },
    Case { name: "smb-compounds", about: "compounds of 64 SMB 2 commands", fill: |c| smb(c, Forward, 64) },
    Case { name: "smb-keepalives", about: "NetBIOS keep-alives", fill: smb_keepalives },
    Case {
        name: "telnet-options",
        about: "Telnet options",
        fill: |c| {
            stream(c, [40_000, 23], &[(Reverse, b"\xff\xfd\x18")], Forward, |_| b"\xff\xfb\x18".to_vec())
        },
    },
    Case {
        name: "imap-commands",
        about: "IMAP commands",
        fill: |c| {
            stream(c, [40_000, 143], &[(Reverse, b"* OK IMAP4rev1\r\n")], Forward, |n| {
                format!("a{n} NOOP\r\n").into_bytes()
            })
        },
    },
    Case {
        name: "imap-literals",
        about: "IMAP literals of one byte",
        fill: |c| {
            stream(c, [40_000, 143], &[(Reverse, b"* OK IMAP4rev1\r\n")], Forward, |_| {
                b"a FETCH {1}\r\na".to_vec()
            })
        },
    },
    Case {
        name: "imap-fetches",
        about: "IMAP messages of one byte",
        fill: |c| {
            stream(
                c,
                [40_000, 143],
                &[(Reverse, b"* OK IMAP4rev1\r\n"), (Forward, b"a FETCH 1 BODY[]\r\n")],
                Reverse,
                |_| b"* 1 FETCH (BODY[] {1}\r\na)\r\n".to_vec(),
            )
        },
    },
    Case {
        name: "pop3-commands",
        about: "POP3 commands",
        fill: |c| stream(c, [40_000, 110], &[(Reverse, b"+OK POP3\r\n")], Forward, |_| b"NOOP\r\n".to_vec()),
    },
    Case { name: "xmpp-tags", about: "XMPP elements in one another", fill: |c| xmpp(c, b"<a>") },
    Case { name: "xmpp-attributes", about: "an XMPP element of attributes", fill: |c| xmpp(c, b" a='b'") },
    Case {
        name: "sip-tcp",
        about: "SIP messages of few bytes",
        fill: |c| {
            stream(c, [5060, 5060], &[], Forward, |n| {
                format!("BYE sip:a SIP/2.0\nCall-ID:{n}\n\n").into_bytes()
            })
        },
    },
    Case {
        name: "http2-pings",
        about: "HTTP/2 frames without content",
        fill: |c| {
            stream(c, [40_000, 80], &[(Forward, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")], Forward, |_| {
                b"\0\0\0\x04\0\0\0\0\0".to_vec()
            })
        },
    },
    Case { name: "ssh-lists", about: "SSH key exchanges of long lists", fill: ssh },
    Case {
        name: "unidentified",
        about: "streams of a few bytes of no protocol, in segments of one byte",
        fill: unidentified,
    },
    Case {
        name: "undecided",
        about: "streams that could be one of several protocols, in segments of one byte",
        fill: undecided,
    },
];

fn ftp(capture: &mut Capture, command: fn(u32) -> Vec<u8>) {
    let turns: [(Direction, &[u8]); 4] = [
        (Reverse, b"220 FTP\r\n"),
        (Forward, b"USER a\r\n"),
        (Reverse, b"331 p\r\n"),
        (Forward, b"PASS b\r\n"),
    ];
    stream(capture, [40_000, 21], &turns, Forward, command);
}

fn announced(n: u32) -> Vec<u8> {
    format!("PORT 10,1,2,3,{},{}\n", n >> 8 & 255, n & 255).into_bytes()
}

fn ftp_data(capture: &mut Capture) {
    let mut flow = capture.tcp([40_000, 21]);
    flow.send(capture, Reverse, b"220 FTP\r\n");
    flow.send(capture, Forward, b"USER a\r\n");
    capture.fill(|capture, n| {
        let ports: Vec<u8> = (0..4096).flat_map(|at| announced(n * 4096 + at)).collect();
        flow.send(capture, Forward, &ports);
        for at in 0..4096 {
            // Of another host: nothing was announced for it.
            let port = (n * 4096 + at) as u16;
            let mut data = Flow { client: [10, 1, 2, 3], ..capture.midstream([port, 20]) };
            data.send(capture, Reverse, b"a");
        }
    });
}

fn irc(capture: &mut Capture, line: &[u8]) {
    let turns: [(Direction, &[u8]); 2] =
        [(Forward, b"NICK a\r\nUSER a b c :d\r\n"), (Reverse, b":s 001 a :b\r\n")];
    stream(capture, [40_000, 6667], &turns, Forward, |_| line.to_vec());
}

fn syslog(capture: &mut Capture) {
    stream(capture, [40_000, 514], &[(Forward, b"<13>Nov 23 04:00:00 a b: c\n")], Forward, |_| {
        b"<1>\n".to_vec()
    });
}

fn dns(capture: &mut Capture) {
    stream(capture, [40_000, 53], &[], Forward, |n| {
        [&[0, 17, (n >> 8) as u8, n as u8][..], &[1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1]].concat()
    });
}

const CONNECT: &[u8] = b"\x10\x0d\0\x04MQTT\x04\x02\0\x3c\0\x01a";
const CONNECT_5: &[u8] = b"\x10\x0e\0\x04MQTT\x05\x02\0\x3c\0\0\x01a";

fn mqtt(capture: &mut Capture, packet: &[u8]) {
    let turns: [(Direction, &[u8]); 2] = [(Forward, CONNECT), (Reverse, b"\x20\x02\0\0")];
    stream(capture, [40_000, 1883], &turns, Forward, |_| packet.to_vec());
}

/// A packet with its length of two bytes.
fn mqtt_packet(kind: u8, body: &[u8]) -> Vec<u8> {
    [&[kind, body.len() as u8 | 0x80, (body.len() >> 7) as u8], body].concat()
}

fn mqtt_properties(capture: &mut Capture) {
    // A topic, the length of the properties, and 2,000 pairs of two letters.
    let properties = b"\x26\0\x01a\0\x01b".repeat(2000);
    let length = [properties.len() as u8 | 0x80, (properties.len() >> 7) as u8];
    let packet = mqtt_packet(0x30, &[&[0, 1, b't'][..], &length, &properties].concat());
    stream(capture, [40_000, 1883], &[(Forward, CONNECT_5), (Reverse, b"\x20\x03\0\0\0")], Forward, |_| {
        packet.clone()
    });
}

fn mqtt_topics(capture: &mut Capture) {
    let packet = mqtt_packet(0x82, &[&[0, 1][..], &b"\0\x01a\0".repeat(3500)].concat());
    stream(capture, [40_000, 1883], &[(Forward, CONNECT), (Reverse, b"\x20\x02\0\0")], Forward, |_| {
        packet.clone()
    });
}

fn mqtt_unanswered(capture: &mut Capture) {
    stream(capture, [40_000, 1883], &[(Forward, CONNECT), (Reverse, b"\x20\x02\0\0")], Forward, |n| {
        vec![0x32, 6, 0, 1, b'a', (n >> 8) as u8, n as u8, b'b']
    });
}

/// Frames of `each` SMB 2 messages, each with a header and a size only.
fn smb(capture: &mut Capture, side: Direction, each: u32) {
    stream(capture, [40_000, 445], &[], side, |n| {
        let mut frame = Vec::new();
        for at in 0..each {
            let mut message = vec![0xfe, b'S', b'M', b'B', 64, 0, 0, 0, 0, 0, 0, 0, 13, 0, 1, 0];
            message.extend(u32::from(side == Reverse).to_le_bytes());
            message.extend(if at + 1 < each { 72_u32 } else { 0 }.to_le_bytes());
            message.extend(u64::from(n * each + at).to_le_bytes());
            message.resize(64, 0);
            message.extend([4, 0, 0, 0, 0, 0, 0, 0]);
            frame.extend(message);
        }
        [&(frame.len() as u32).to_be_bytes()[..], &frame].concat()
    });
}

fn smb_keepalives(capture: &mut Capture) {
    stream(capture, [40_000, 139], &[(Forward, b"\x81\0\0\0")], Forward, |_| b"\x85\0\0\0".to_vec());
}

fn xmpp(capture: &mut Capture, unit: &[u8]) {
    let open = b"<?xml version='1.0'?><stream:stream to='a' xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams'><message";
    stream(capture, [40_000, 5222], &[(Forward, open)], Forward, |_| unit.to_vec());
}

fn ssh(capture: &mut Capture) {
    // A key exchange of ten lists, the first one of 15,000 names.
    let names = b"a,".repeat(15_000);
    let mut body = [&[20][..], &[0; 16], &(names.len() as u32).to_be_bytes(), &names].concat();
    body.extend([0; 4 * 9 + 5]);
    let packet = [&(body.len() as u32 + 5).to_be_bytes()[..], &[4], &body, &[0; 4]].concat();
    let message = [&b"SSH-2.0-a\r\n"[..], &packet].concat();
    capture.fill(|capture, _| {
        let mut flow = capture.tcp([40_000, 22]);
        flow.send(capture, Forward, &message);
        flow.send(capture, Reverse, &message);
    });
}

/// Flows that each send `data` in segments of one byte.
fn short(capture: &mut Capture, data: &[u8]) {
    capture.fill(|capture, _| {
        let mut flow = capture.midstream([40_000, 4000]).in_pieces_of(1);
        flow.send(capture, Forward, data);
    });
}

fn unidentified(capture: &mut Capture) {
    short(capture, b"\xee\xdd");
}

fn undecided(capture: &mut Capture) {
    short(capture, &b"A".repeat(1000));
}
