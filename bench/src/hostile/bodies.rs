//! HTTP: compressed bodies, small messages, headers, chunks, parts and files.

use super::{Capture, Case, conversations, stream};
use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::Write;
use weir_wire::Direction::{self, Forward, Reverse};

pub const CASES: &[Case] = &[
    Case { name: "gzip-body", about: "one body of gzip members of 16 MiB of zeros", fill: gzip_body },
    Case {
        name: "gzip-flows",
        about: "a flow for each MiB of zeros in gzip",
        fill: |c| gzip_flows(c, 1 << 20),
    },
    Case {
        name: "gzip-small",
        about: "a flow for each 64 KiB of zeros in gzip",
        fill: |c| gzip_flows(c, 1 << 16),
    },
    Case { name: "gzip-thrice", about: "zeros in gzip in gzip in gzip, a flow each", fill: gzip_thrice },
    Case { name: "gzip-members", about: "gzip members without content", fill: gzip_members },
    Case {
        name: "deflate-tables",
        about: "deflate blocks of a code table and no content",
        fill: deflate_tables,
    },
    Case {
        name: "brotli-flows",
        about: "a flow for each 16 MiB of zeros in brotli",
        fill: |c| brotli(c, BROTLI),
    },
    Case {
        name: "brotli-open",
        about: "flows with an unfinished brotli stream of a large window",
        fill: |c| brotli(c, BROTLI_OPEN),
    },
    Case { name: "http-requests", about: "pipelined requests of 11 bytes", fill: requests },
    Case { name: "http-transactions", about: "pipelined requests and their responses", fill: transactions },
    Case { name: "http-headers", about: "headers of one letter", fill: headers },
    Case { name: "http-folded", about: "a header in lines of one letter", fill: folded },
    Case { name: "http-chunks", about: "a body in chunks of one byte", fill: |c| chunks(c, "") },
    Case {
        name: "http-coded-chunks",
        about: "a gzip body in chunks of one byte",
        fill: |c| chunks(c, "Content-Encoding: gzip\r\n"),
    },
    Case { name: "http-bytes", about: "a body in segments of one byte", fill: bytes },
    Case { name: "http-files", about: "responses with a body of 8 bytes", fill: files },
    Case { name: "http-ranges", about: "responses with a byte of a file each", fill: ranges },
    Case { name: "http-parts", about: "a form of files of one byte", fill: parts },
    Case { name: "http-boundaries", about: "a form of what is nearly a delimiter", fill: boundaries },
    Case { name: "websocket-frames", about: "WebSocket frames without content", fill: websocket },
];

/// 16 MiB of zeros, as brotli's encoder writes them.
const BROTLI: &[u8] = b"\x9f\xff\xff\xff\xf8\x27\x00\xe2\xb1\x40\x20\xf7\xfe\x1f";
/// A MiB of zeros without the end of the stream, and a window of 16 MiB.
const BROTLI_OPEN: &[u8] = b"\xaf\xff\xff\x87\x7f\x02\x20\x1e\x0b\x04\x72\xef\x1f\x0c";

const PORTS: [u16; 2] = [40_000, 80];
const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";

fn gzip(data: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(data).and_then(|()| encoder.finish()).unwrap_or_default()
}

fn response(headers: &str, body: &[u8]) -> Vec<u8> {
    let head = format!("HTTP/1.1 200 OK\r\n{headers}Content-Length: {}\r\n\r\n", body.len());
    [head.as_bytes(), body].concat()
}

/// A request whose response has a body that does not end.
fn endless(capture: &mut Capture, headers: &str, unit: impl FnMut(u32) -> Vec<u8>) {
    let head = format!("HTTP/1.1 200 OK\r\n{headers}\r\n");
    stream(capture, PORTS, &[(Forward, GET), (Reverse, head.as_bytes())], Reverse, unit);
}

/// A flow for each response.
fn responses(capture: &mut Capture, response: &[u8]) {
    conversations(capture, 6, PORTS, |_| vec![(Forward, GET.to_vec()), (Reverse, response.to_vec())]);
}

fn gzip_body(capture: &mut Capture) {
    let member = gzip(&vec![0; 16 << 20]);
    endless(capture, "Content-Encoding: gzip\r\n", |_| member.clone());
}

fn gzip_flows(capture: &mut Capture, size: usize) {
    responses(capture, &response("Content-Encoding: gzip\r\n", &gzip(&vec![0; size])));
}

fn gzip_thrice(capture: &mut Capture) {
    let body = gzip(&gzip(&gzip(&vec![0; 16 << 20])));
    responses(capture, &response("Content-Encoding: gzip, gzip, gzip\r\n", &body));
}

fn gzip_members(capture: &mut Capture) {
    let member = gzip(b"");
    endless(capture, "Content-Encoding: gzip\r\n", |_| member.clone());
}

/// Bits of a deflate stream, the first one lowest.
#[derive(Default)]
struct Bits {
    bytes: Vec<u8>,
    count: usize,
}

impl Bits {
    fn put(&mut self, value: u32, bits: u32) {
        for bit in 0..bits {
            if self.count.is_multiple_of(8) {
                self.bytes.push(0);
            }
            if let Some(last) = self.bytes.last_mut() {
                *last |= ((value >> bit & 1) as u8) << (self.count % 8);
            }
            self.count += 1;
        }
    }

    /// A block (RFC 1951, 3.2.7) whose codes have the end of the block alone.
    fn empty_block(&mut self) {
        // Not the last; dynamic codes; 257 literals, 1 distance, 18 lengths of code lengths.
        for (value, bits) in [(0, 1), (2, 2), (0, 5), (0, 5), (14, 4)] {
            self.put(value, bits);
        }
        // In the order of the format: 18 is the third, 1 the last one.
        (0..18).for_each(|at| self.put(u32::from(at == 2 || at == 17), 3));
        // 138 and 118 zeros, then a length of 1 for the end of the block and for the distance.
        for (value, bits) in [(1, 1), (127, 7), (1, 1), (107, 7), (0, 1), (0, 1)] {
            self.put(value, bits);
        }
        // The end of the block.
        self.put(0, 1);
    }
}

fn deflate_tables(capture: &mut Capture) {
    let mut bits = Bits::default();
    // Eight blocks end at a byte.
    (0..8).for_each(|_| bits.empty_block());
    endless(capture, "Content-Encoding: deflate\r\n", |_| bits.bytes.clone());
}

fn brotli(capture: &mut Capture, body: &[u8]) {
    let response = response("Content-Encoding: br\r\n", body);
    capture.fill(|capture, _| {
        let mut flow = capture.midstream(PORTS);
        flow.send(capture, Forward, b"GET / HTTP/1.1\n\n");
        flow.send(capture, Reverse, &response);
    });
}

fn requests(capture: &mut Capture) {
    stream(capture, PORTS, &[(Forward, GET)], Forward, |_| b"GET / HTTP/1.1\n\n".to_vec());
}

fn transactions(capture: &mut Capture) {
    let mut flow = capture.tcp(PORTS);
    let requests = b"GET / HTTP/1.1\n\n".repeat(80);
    let responses = b"HTTP/1.1 204\n\n".repeat(80);
    capture.fill(|capture, _| {
        flow.send(capture, Forward, &requests);
        flow.send(capture, Reverse, &responses);
    });
}

fn headers(capture: &mut Capture) {
    stream(capture, PORTS, &[(Forward, b"GET / HTTP/1.1\r\n")], Forward, |n| {
        if n % 4000 == 3999 { b"\nGET / HTTP/1.1\n".to_vec() } else { b"a:b\n".to_vec() }
    });
}

fn folded(capture: &mut Capture) {
    stream(capture, PORTS, &[(Forward, b"GET / HTTP/1.1\r\na: b\r\n")], Forward, |_| b" a\n".to_vec());
}

fn chunks(capture: &mut Capture, headers: &str) {
    let zeros = gzip(&vec![0; 1 << 20]);
    let headers = format!("Transfer-Encoding: chunked\r\n{headers}");
    endless(capture, &headers, |n| {
        let byte = zeros.get(n as usize % zeros.len()).copied().unwrap_or_default();
        vec![b'1', b'\n', byte, b'\n']
    });
}

fn bytes(capture: &mut Capture) {
    let mut flow = capture.tcp(PORTS).in_pieces_of(1);
    flow.send(capture, Forward, b"POST / HTTP/1.1\r\nContent-Length: 1000000\r\n\r\n");
    capture.fill(|capture, _| flow.send(capture, Forward, &[b'a'; 100]));
}

/// Requests and responses in turn, each response with a body of its own.
fn exchange(capture: &mut Capture, mut response: impl FnMut(u32) -> Vec<u8>) {
    let mut flow = capture.tcp(PORTS);
    let mut n = 0;
    capture.fill(|capture, _| {
        let (mut requests, mut responses) = (Vec::new(), Vec::new());
        for _ in 0..40 {
            requests.extend(b"GET / HTTP/1.1\n\n");
            responses.extend(response(n));
            n += 1;
        }
        flow.send(capture, Forward, &requests);
        flow.send(capture, Reverse, &responses);
    });
}

fn files(capture: &mut Capture) {
    exchange(capture, |n| format!("HTTP/1.1 200\nContent-Length: 8\n\n{n:08x}").into_bytes());
}

fn ranges(capture: &mut Capture) {
    exchange(capture, |n| {
        let range = format!("{n}-{n}/{}", 1_000_000 + n);
        format!("HTTP/1.1 206\nContent-Range: bytes {range}\nContent-Length: 1\n\na").into_bytes()
    });
}

/// A POST of a form whose body does not end.
fn form(capture: &mut Capture, unit: impl FnMut(u32) -> Vec<u8>) {
    let head = b"POST / HTTP/1.1\r\nContent-Type: multipart/form-data; boundary=b\r\nContent-Length: 9000000\r\n\r\n";
    let turns: [(Direction, &[u8]); 2] = [(Forward, head), (Forward, b"--b\r\n\r\n")];
    stream(capture, PORTS, &turns, Forward, unit);
}

fn parts(capture: &mut Capture) {
    // As many as are read of a message, then another message.
    let part = b"\n--b\nContent-Type: a\n\na";
    let head = b"POST / HTTP/1.1\nContent-Type: multipart/form-data; boundary=b\nContent-Length: ";
    let body = [&part.repeat(1000)[..], b"\n--b--\n"].concat();
    let message = [&head[..], body.len().to_string().as_bytes(), b"\n\n", &body].concat();
    stream(capture, PORTS, &[], Forward, |_| message.clone());
}

fn boundaries(capture: &mut Capture) {
    form(capture, |_| b"\r\n--".to_vec());
}

fn websocket(capture: &mut Capture) {
    let ask = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
        Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    let answer = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
        Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";
    stream(capture, PORTS, &[(Forward, ask), (Reverse, answer)], Reverse, |_| b"\x82\0".to_vec());
}
