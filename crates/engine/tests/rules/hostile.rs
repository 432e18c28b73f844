//! Flows that are made to cost much, under rules.

use crate::carriers::{CARRIERS, Flow, pieces};
use crate::run::{Run, alerts, plan};
use std::io::Write;

/// Gzip of this number of equal bytes, after some others.
fn bomb(size: usize) -> Vec<u8> {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    gzip.write_all(b"a needle ").unwrap();
    let piece = vec![b'x'; 1 << 20];
    (0..size >> 20).for_each(|_| gzip.write_all(&piece).unwrap());
    gzip.finish().unwrap()
}

#[test]
fn the_beginning_of_a_bomb_is_looked_at_and_the_rest_is_left_compressed() {
    let rules = "alert http any any -> any any (file.data; content:\"a needle\"; startswith; sid:1;)
alert http any any -> any any (http.response_body; content:\"xxxxxxxx\"; sid:2;)
alert http any any -> any any (file.data; content:\"a needlf\"; sid:3;)";
    let body = bomb(256 << 20);
    let head = format!("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {}\r\n\r\n", body.len());
    let answer = [head.as_bytes(), &body].concat();
    let turns = [(true, &b"GET /a HTTP/1.1\r\nHost: a\r\n\r\n"[..]), (false, &answer)];
    let flow = Flow { is_tcp: true, ports: (50_000, 80), turns: &turns };
    let frames = flow.frames(CARRIERS[0].1, &|length| pieces(1_400, length));
    let (found, stats) = Run::new(&plan(rules), 1).read(&frames).end();
    assert_eq!(found, [(50_000, 1), (50_000, 2)]);
    // A limit by the size of what was received holds, and nothing beyond what rules look at is kept.
    assert!(stats[0].inflated < 256 << 20, "{}", stats[0].inflated);
}

#[test]
fn ten_thousand_requests_in_a_row_and_their_answers_match_each() {
    const COUNT: usize = 10_000;
    let rules = "alert http any any -> any any (http.uri; content:\"/evil\"; sid:1;)
alert http any any -> any any (http.stat_code; content:\"404\"; sid:2;)";
    let requests = b"GET /evil HTTP/1.1\r\nHost: a\r\n\r\n".repeat(COUNT);
    let answers = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n".repeat(COUNT);
    let turns = [(true, &requests[..]), (false, &answers)];
    let flow = Flow { is_tcp: true, ports: (50_000, 80), turns: &turns };
    for size in [1_400, 97] {
        let frames = flow.frames(CARRIERS[0].1, &|length| pieces(size, length));
        let found = alerts(&plan(rules), &frames);
        let of = |sid: u64| found.iter().filter(|(_, known)| *known == sid).count();
        assert_eq!((of(1), of(2)), (COUNT, COUNT), "segments of {size} bytes");
    }
}

#[test]
fn a_message_of_a_thousand_parts_is_looked_at_in_each() {
    let rules = "alert smtp any any -> any any (file.data; content:\"needle\"; sid:1;)
alert smtp any any -> any any (file.name; content:\"part500.bin\"; sid:2;)
alert smtp any any -> any any (email.subject; content:\"many\"; file.data; content:\"needle\"; sid:3;)";
    let part = |number: usize| {
        let text = if number == 999 { "a needle" } else { "only hay" };
        format!(
            "--b\r\nContent-Type: application/x\r\nContent-Disposition: attachment; filename=part{number}.bin\r\n\r\n{text}\r\n"
        )
    };
    let parts: String = (0..1_000).map(part).collect();
    let mail =
        format!("Subject: many\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n{parts}--b--\r\n.\r\n");
    let turns: [(bool, &[u8]); 11] = [
        (false, b"220 mx ESMTP\r\n"),
        (true, b"HELO a\r\n"),
        (false, b"250 ok\r\n"),
        (true, b"MAIL FROM:<a@a.example>\r\n"),
        (false, b"250 ok\r\n"),
        (true, b"RCPT TO:<b@b.example>\r\n"),
        (false, b"250 ok\r\n"),
        (true, b"DATA\r\n"),
        (false, b"354 go on\r\n"),
        (true, mail.as_bytes()),
        (false, b"250 ok\r\n"),
    ];
    let flow = Flow { is_tcp: true, ports: (50_000, 25), turns: &turns };
    for size in [1_400, 61] {
        let frames = flow.frames(CARRIERS[0].1, &|length| pieces(size, length));
        let found: Vec<u64> = alerts(&plan(rules), &frames).iter().map(|(_, sid)| *sid).collect();
        assert_eq!(found, [1, 2, 3], "segments of {size} bytes");
    }
}
