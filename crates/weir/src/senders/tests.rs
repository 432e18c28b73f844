//! Servers that read, close, hang and return, each in a thread of the test.

use super::frames;
use super::{Answer, Process, Sender, Settings, Tries};
use crate::place::Place;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;
use tokio_rustls::rustls::{ServerConfig, ServerConnection, StreamOwned};
use weir_api::event::CLOCK_LEAP;
use weir_api::{Event, Subject};
use weir_output::Output;

/// More than any step of a test takes.
const LONG: Duration = Duration::from_secs(20);

fn listener() -> (TcpListener, Place) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let place = Place { host: "localhost".to_owned(), port: listener.local_addr().unwrap().port() };
    (listener, place)
}

fn accept(listener: &TcpListener) -> TcpStream {
    let (socket, _) = listener.accept().unwrap();
    socket.set_read_timeout(Some(LONG)).unwrap();
    socket
}

fn stream(place: Place, roots: Option<String>, patience: Duration) -> Settings {
    Settings::Stream { place, roots, patience }
}

/// Reads a message after its number of bytes.
fn message(from: &mut impl BufRead) -> String {
    let mut length = Vec::new();
    from.read_until(b' ', &mut length).unwrap();
    let length = String::from_utf8(length).unwrap().trim().parse().unwrap();
    let mut bytes = vec![0; length];
    from.read_exact(&mut bytes).unwrap();
    String::from_utf8(bytes).unwrap()
}

fn event(count: u64) -> Event {
    Event { count, ..Event::at(&CLOCK_LEAP, Subject::Sensor, 1) }
}

/// An output that sends the counts of events.
fn counts(process: Process, tries: Tries) -> Sender {
    let message = |event: &Event| event.count.to_string().into_bytes();
    Sender::start("test", process, tries, message, Arc::default()).unwrap()
}

#[test]
fn messages_come_after_their_length_and_a_new_connection_follows_one_that_was_closed() {
    let (listener, place) = listener();
    let process = Process::inside(&stream(place, None, LONG));
    let (closing, closed) = std::sync::mpsc::channel();
    let server = std::thread::spawn(move || {
        let first = message(&mut BufReader::new(accept(&listener)));
        // The first connection is closed, which over loopback takes no time.
        closing.send(()).unwrap();
        let mut second = BufReader::new(accept(&listener));
        let after = [message(&mut second), message(&mut second)];
        let mut rest = String::new();
        second.read_to_string(&mut rest).unwrap();
        (first, after, rest)
    });
    assert_eq!(process.send(b"one").unwrap(), Answer::Sent);
    // What is sent before the end of the connection has arrived is lost without an error.
    closed.recv_timeout(LONG).unwrap();
    assert_eq!(process.send("zwö\nlf".as_bytes()).unwrap(), Answer::Sent);
    assert_eq!(process.send(b"end").unwrap(), Answer::Sent);
    process.end();
    let (first, after, rest) = server.join().unwrap();
    assert_eq!((first.as_str(), after, rest.as_str()), ("one", ["zwö\nlf".to_owned(), "end".to_owned()], ""));
}

#[test]
fn a_server_that_never_reads_fails_after_a_while() {
    let (listener, place) = listener();
    let process = Process::inside(&stream(place, None, Duration::from_millis(50)));
    let large = vec![b'x'; frames::MAX];
    let failed = (0..100).find_map(|_| match process.send(&large).unwrap() {
        Answer::Sent => None,
        other => Some(other),
    });
    assert_eq!(failed, Some(Answer::Failed("the server does not read".to_owned())));
    drop(listener);
    assert!(matches!(process.send(b"x").unwrap(), Answer::Failed(_)), "nothing listens");
}

#[test]
fn a_certificate_is_checked_with_its_name() {
    let mine = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let other = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth();
    let key = PrivateKeyDer::try_from(mine.signing_key.serialize_der()).unwrap();
    let config = Arc::new(config.with_single_cert(vec![mine.cert.der().clone()], key).unwrap());
    let (listener, place) = listener();
    let at_address = Place { host: "127.0.0.1".to_owned(), ..place.clone() };
    let server = std::thread::spawn(move || {
        let mut texts = Vec::new();
        for _ in 0..3 {
            let connection = ServerConnection::new(Arc::clone(&config)).unwrap();
            let mut from = BufReader::new(StreamOwned::new(connection, accept(&listener)));
            if from.fill_buf().is_ok_and(|bytes| !bytes.is_empty()) {
                texts.push([message(&mut from), message(&mut from)]);
            }
        }
        texts
    });
    let refused = |place: &Place, roots: &str, why: &str| {
        let process = Process::inside(&stream(place.clone(), Some(roots.to_owned()), LONG));
        let answer = process.send(b"secret").unwrap();
        assert!(matches!(&answer, Answer::Failed(text) if text.contains(why)), "{answer:?}");
    };
    refused(&place, &other.cert.pem(), "invalid peer certificate");
    refused(&at_address, &mine.cert.pem(), "not valid for name");
    let process = Process::inside(&stream(place, Some(mine.cert.pem()), LONG));
    assert_eq!(process.send(b"one").unwrap(), Answer::Sent);
    assert_eq!(process.send(b"two").unwrap(), Answer::Sent);
    process.end();
    assert_eq!(server.join().unwrap(), [["one".to_owned(), "two".to_owned()]]);
}

#[test]
fn messages_wait_for_a_server_that_starts_later_and_the_failure_is_reported_once() {
    let (listener, place) = listener();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let mut output = counts(Process::inside(&stream(place, None, LONG)), Tries::All);
    output.event(&event(1)).unwrap();
    output.event(&event(2)).unwrap();
    let error = loop {
        if let Err(error) = output.flush() {
            break error.to_string();
        }
        std::thread::sleep(Duration::from_millis(1));
    };
    assert!(error.starts_with("test: ") && error.ends_with(" wait, 0 lost so far"), "{error}");
    output.flush().expect("it is reported once");
    let listener = TcpListener::bind(address).unwrap();
    let server = std::thread::spawn(move || {
        let mut from = BufReader::new(accept(&listener));
        [message(&mut from), message(&mut from)]
    });
    assert_eq!(server.join().unwrap(), ["1", "2"]);
    output.finish().unwrap();
}

#[test]
fn a_server_that_never_answers_loses_what_has_no_room_and_the_end_does_not_wait_for_it() {
    // The other end of the process is never read.
    let (ours, _theirs) = std::os::unix::net::UnixStream::pair().unwrap();
    let mut output = counts(Process::of(ours), Tries::AtMost(3));
    let delivered = Arc::clone(output.delivered());
    for count in 0..1_100 {
        delivered.offer(1);
        output.event(&event(count)).expect("it never waits");
        delivered.write(1, 0);
    }
    let error = output.flush().unwrap_err().to_string();
    assert!(error.contains("events come faster than they can be sent"), "{error}");
    let error = output.finish().unwrap_err().to_string();
    assert!(error.starts_with("test: 1100 messages were not sent"), "{error}");
    let counts = delivered.count();
    assert_eq!((counts.offered, counts.written, counts.lost), (1_100, 0, 1_100));
}

/// Answers requests with these status lines and headers, each over a connection of its own. Returns the bodies.
fn answering(listener: TcpListener, answers: Vec<String>) -> std::thread::JoinHandle<Vec<String>> {
    std::thread::spawn(move || {
        let mut bodies = Vec::new();
        for answer in answers {
            let mut from = BufReader::new(accept(&listener));
            let (mut length, mut line) = (0, String::new());
            while from.read_line(&mut line).unwrap() > 2 {
                let lower = line.to_ascii_lowercase();
                length =
                    lower.strip_prefix("content-length:").map_or(length, |text| text.trim().parse().unwrap());
                line.clear();
            }
            let mut body = vec![0; length];
            from.read_exact(&mut body).unwrap();
            bodies.push(String::from_utf8(body).unwrap());
            let text = format!("HTTP/1.1 {answer}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
            from.get_mut().write_all(text.as_bytes()).unwrap();
        }
        bodies
    })
}

fn webhook(place: &Place, patience: Duration) -> Settings {
    Settings::Webhook {
        url: format!("http://{place}/x"),
        port: place.port,
        secret: None,
        roots: None,
        patience,
    }
}

#[test]
fn a_webhook_that_fails_may_be_tried_again_and_one_that_refuses_or_redirects_is_not() {
    let (listener, place) = listener();
    let (elsewhere, other) = self::listener();
    elsewhere.set_nonblocking(true).unwrap();
    let redirect = format!("302 Found\r\nlocation: http://{other}/");
    let answers = ["200 OK", "204 No Content", "500 Wrong", "429 Many", "404 Not Found", &redirect];
    let server = answering(listener, answers.map(str::to_owned).to_vec());
    let process = Process::inside(&webhook(&place, LONG));
    let answer = |body: &str| process.send(body.as_bytes()).unwrap();
    assert_eq!([answer("1"), answer("2")], [Answer::Sent, Answer::Sent]);
    let status = |status: u16| format!("answered with {status}");
    assert_eq!([answer("3"), answer("4")], [500, 429].map(|code| Answer::Failed(status(code))));
    assert_eq!([answer("5"), answer("6")], [404, 302].map(|code| Answer::Refused(status(code))));
    assert_eq!(server.join().unwrap(), ["1", "2", "3", "4", "5", "6"]);
    assert!(elsewhere.accept().is_err(), "a redirect was followed");
    assert!(matches!(answer("7"), Answer::Failed(_)), "nothing listens");
}

#[test]
fn a_webhook_that_hangs_fails_after_a_while() {
    let (_listener, place) = listener();
    let process = Process::inside(&webhook(&place, Duration::from_millis(50)));
    assert!(matches!(process.send(b"1").unwrap(), Answer::Failed(_)));
}

#[test]
fn an_event_is_posted_three_times_at_most() {
    let (listener, place) = listener();
    let answers = ["500 Wrong", "200 OK", "503 Wrong", "500 Wrong", "429 Many", "404 Not Found", "200 OK"];
    let server = answering(listener, answers.map(str::to_owned).to_vec());
    let mut output = counts(Process::inside(&webhook(&place, LONG)), Tries::AtMost(3));
    for count in 1..=4 {
        output.event(&event(count)).unwrap();
    }
    assert_eq!(server.join().unwrap(), ["1", "1", "2", "2", "2", "3", "4"]);
    let error = output.finish().unwrap_err().to_string();
    assert_eq!(error, "test: 2 messages were not sent: answered with 404");
}
