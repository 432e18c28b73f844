//! The program as a server, and a simple HTTP client.

use super::*;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::mpsc::{Receiver, channel};

/// A port that no other test of this process uses. It is below the range of ports that the kernel assigns to
/// connections, so that it is most likely free.
pub fn port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let base = 10_000 + (std::process::id() % 200) as u16 * 100;
    loop {
        let port = base + NEXT.fetch_add(1, Ordering::Relaxed);
        if std::net::TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

/// An answer.
#[derive(Debug)]
pub struct Answer {
    /// Its status.
    pub status: u16,
    /// Headers by their names in lower case.
    pub headers: BTreeMap<String, String>,
    /// The body.
    pub body: Vec<u8>,
}

impl Answer {
    /// Parses all bytes that a server has sent on a connection.
    pub fn parse(bytes: &[u8]) -> Answer {
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n").unwrap_or(bytes.len());
        let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
        let mut lines = head.lines();
        let status = lines.next().and_then(|line| line.split(' ').nth(1)).and_then(|code| code.parse().ok());
        let headers: BTreeMap<String, String> = lines
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
            .collect();
        let mut body = bytes.get(end + 4..).unwrap_or_default().to_vec();
        if headers.get("transfer-encoding").is_some_and(|coding| coding == "chunked") {
            body = unchunked(&body);
        }
        Answer { status: status.unwrap_or(0), headers, body }
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The body as JSON.
    #[track_caller]
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    /// Checks the status of the answer, and returns the answer.
    #[track_caller]
    pub fn is(self, status: u16) -> Answer {
        assert_eq!(self.status, status, "{}", self.text());
        self
    }
}

fn unchunked(mut rest: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    while let Some(at) = rest.windows(2).position(|two| two == b"\r\n") {
        let length = usize::from_str_radix(String::from_utf8_lossy(&rest[..at]).trim(), 16).unwrap_or(0);
        if length == 0 {
            break;
        }
        out.extend(rest.get(at + 2..at + 2 + length).unwrap_or_default());
        rest = rest.get(at + 4 + length..).unwrap_or_default();
    }
    out
}

/// The program while it serves.
pub struct Server {
    /// The process.
    pub child: Child,
    /// The address that it printed.
    pub address: String,
    /// Standard output before the address.
    pub printed: String,
    lines: Mutex<Receiver<String>>,
}

impl Server {
    /// Starts a command, and waits for the address on its standard output.
    #[track_caller]
    pub fn start(command: &mut Command) -> Server {
        let mut child = super::start(command.stdin(Stdio::null()));
        let stdout = child.stdout.take().expect("piped");
        let (to, lines) = channel();
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if to.send(line).is_err() {
                    return;
                }
            }
        });
        let mut printed = String::new();
        let end = Instant::now() + HANGS;
        loop {
            match lines.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(line) if line.starts_with("http") => {
                    return Server { child, address: line, printed, lines: Mutex::new(lines) };
                }
                Ok(line) => printed += &(line + "\n"),
                Err(_) => {
                    let _ = child.kill();
                    panic!("no address: {printed} {:?}", finish(child));
                }
            }
        }
    }

    /// Starts `weir open` of the sample with more arguments.
    #[track_caller]
    pub fn open(arguments: &[&str]) -> Server {
        let port = port().to_string();
        let sample = sample();
        Server::start(program().args(["open", text(&sample), "--port", &port]).args(arguments))
    }

    /// Host and port of the address.
    pub fn host(&self) -> String {
        let address = self.address.split("://").nth(1).unwrap_or_default();
        address.trim_end_matches('/').to_owned()
    }

    /// A connection.
    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.host()).expect("the server listens");
        stream.set_read_timeout(Some(HANGS)).expect("a timeout");
        stream
    }

    /// Sends these bytes, and reads until the server closes the connection.
    pub fn send(&self, bytes: &[u8]) -> Answer {
        let mut stream = self.connect();
        // A server that refuses a request does not read all of it.
        let _ = stream.write_all(bytes);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        Answer::parse(&answer)
    }

    /// Sends a request with additional headers.
    pub fn request(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        let mut text = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n");
        if !headers.iter().any(|(name, _)| *name == "Host") {
            text += &format!("Host: {}\r\n", self.host());
        }
        for (name, value) in headers {
            text += &format!("{name}: {value}\r\n");
        }
        if method == "POST" {
            text += &format!("Content-Length: {}\r\n", body.len());
        }
        self.send((text + "\r\n" + body).as_bytes())
    }

    /// Sends a GET request for a path.
    pub fn get(&self, path: &str) -> Answer {
        self.request("GET", path, &[], "")
    }

    /// The JSON answer of a GET request, which must succeed.
    #[track_caller]
    pub fn json(&self, path: &str) -> serde_json::Value {
        self.get(path).is(200).json()
    }

    /// Ends the program as Ctrl-C does. Returns its exit code and the rest of its standard output.
    #[track_caller]
    pub fn end(mut self) -> (Option<i32>, String) {
        signal(&self.child, "INT");
        let code = wait(&mut self.child).expect("the program ends");
        (code, self.lines.get_mut().expect("no thread panics").iter().map(|line| line + "\n").collect())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
