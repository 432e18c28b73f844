//! `weir open` and `weir serve`: rights, the access log, and limits per client.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod support;

use serde_json::{Value, json};
use socket2::{Domain, Socket, Type};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use support::http::*;
use support::*;

const LOOKER: &str = "looker-looker-looker-1";
const LOADER: &str = "loader-loader-loader-1";
const WRITER: &str = "writer-writer-writer-1";

/// A folder with a store of the sample and a file of tokens, and the program that serves it.
struct Stored {
    folder: tempfile::TempDir,
    server: Server,
}

impl Stored {
    fn start(arguments: &[&str]) -> Stored {
        let folder = tempfile::tempdir().unwrap();
        let store = folder.path().join("store");
        weir([text(&sample()), "-q", "-o", text(&store), "--log", "store"]).exits(0);
        let lines = format!("{LOOKER} lou\tlook\n{LOADER} ann packets\n{WRITER} write\n");
        let tokens = put_private(folder.path(), "tokens", lines.as_bytes());
        let port = port().to_string();
        let server = Server::start(
            program()
                .args(["serve", "--store", text(&store), "--port", &port, "--token-file", text(&tokens)])
                .args(arguments),
        );
        Stored { folder, server }
    }

    fn get(&self, token: &str, path: &str) -> Answer {
        self.server.request("GET", path, &[("Authorization", &format!("Bearer {token}"))], "")
    }

    fn log(&self) -> PathBuf {
        self.folder.path().join("store/access.log")
    }
}

fn lines(log: &Path) -> Vec<Value> {
    objects(&std::fs::read_to_string(log).unwrap_or_default())
}

/// A connection from another address of this machine.
fn connect_from(server: &Server, address: &str) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.bind(&format!("{address}:0").parse::<SocketAddr>().unwrap().into()).unwrap();
    socket.connect(&server.host().parse::<SocketAddr>().unwrap().into()).unwrap();
    let stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(HANGS)).unwrap();
    stream
}

fn get_from(server: &Server, address: &str, path: &str, headers: &str) -> Answer {
    let mut stream = connect_from(server, address);
    let host = server.host();
    let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{headers}\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    Answer::parse(&bytes)
}

fn metric(server: &Server, headers: &str, name: &str) -> u64 {
    let text = get_from(server, "127.0.0.2", "/metrics", headers).is(200).text();
    let line = text.lines().find_map(|line| line.strip_prefix(&format!("weir_{name}_total ")));
    line.unwrap_or_else(|| panic!("{name} is missing in {text}")).parse().unwrap()
}

/// Every documented route is requested with each token. The status is 403 exactly if the token lacks the documented
/// right.
#[test]
fn the_server_requires_the_documented_right_of_each_route() {
    let stored = Stored::start(&[]);
    let document = stored.get(LOOKER, "/api/openapi.json").is(200).json();
    let mut counts = (0, 0);
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let right = operation["x-right"].as_str().unwrap();
            assert!(["none", "look", "packets", "write"].contains(&right), "{path}");
            if path == "/api/v1/live" {
                continue;
            }
            let place = path.replace("{id}", "nothing").replace("{table}", "dns");
            let method = method.to_uppercase();
            let json = ("Content-Type", "application/json");
            let body = "{\"text\":\"\"}";
            let nameless = stored.server.request(&method, &place, &[json], body).status;
            assert_eq!(nameless == 401, right != "none", "{path}: {nameless}");
            for (token, has) in
                [(LOOKER, ["look"].as_slice()), (LOADER, &["look", "packets"]), (WRITER, &["look", "write"])]
            {
                let bearer = format!("Bearer {token}");
                let status =
                    stored.server.request(&method, &place, &[json, ("Authorization", &bearer)], body).status;
                let lacks = right != "none" && !has.contains(&right);
                if lacks {
                    assert_eq!(status, 403, "{path} with {has:?}");
                    counts.0 += 1;
                } else if path != "/api/v1/config/apply" {
                    // The requested object may be missing; the right is not.
                    assert_ne!(status, 403, "{path} with {has:?}");
                    counts.1 += 1;
                }
            }
        }
    }
    println!("{} refused, {} answered", counts.0, counts.1);
    assert!(counts.0 >= 6 && counts.1 > 60, "{counts:?}");
    let status = stored.get(LOOKER, "/api/v1/status").json();
    assert_eq!((&status["user"], &status["rights"]), (&json!("lou"), &json!("look")));
    let status = stored.get(WRITER, "/api/v1/status").json();
    assert_eq!(
        (&status["user"], &status["rights"]),
        (&json!("token-3"), &json!("look,write")),
        "the earlier form of a line"
    );
}

#[test]
fn downloads_and_refusals_are_recorded_without_content() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    let server = Server::open(&["--store", text(&store)]);
    let answer = server.get("/api/v1/packets?filter=udp+port+53&from=1").is(200);
    server.get("/api/v1/packets?filter=host").is(400);
    server.get("/api/v1/flows?filter=tcp").is(200);
    let bytes = answer.body.len();
    assert!(bytes > 1000, "{bytes}");
    assert_eq!(metric(&server, "", "downloads"), 1);
    assert_eq!(server.end().0, Some(0));
    let log = store.join("access.log");
    let lines = lines(&log);
    assert_eq!(lines.len(), 2, "requests without payload are not recorded: {lines:?}");
    let first = &lines[0];
    for (key, value) in [
        ("what", json!("download")),
        ("address", json!("127.0.0.1")),
        ("route", json!("/api/v1/packets")),
        ("filter", json!("udp port 53")),
        ("from", json!("1")),
        ("status", json!(200)),
        ("bytes", json!(bytes)),
        ("complete", json!(true)),
    ] {
        assert_eq!(first[key], value, "{key} of {first}");
    }
    assert!(first["name"].as_str().is_some_and(|name| name.starts_with("uid-")), "{first}");
    assert_eq!((&lines[1]["status"], &lines[1]["filter"]), (&json!(400), &json!("host")));
    let mode = std::fs::metadata(&log).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

/// Runs as another user, in a separate process.
#[test]
#[ignore = "run by another test, as another user"]
fn neighbour() {
    let Ok(host) = std::env::var("WEIR_HOST") else { return };
    for (method, path, body) in [
        ("GET", "/api/v1/status", ""),
        ("GET", "/api/v1/packets?filter=udp", ""),
        ("GET", "/api/v1/records/http?limit=1", ""),
        ("POST", "/api/v1/config/apply", "{\"text\": \"\"}"),
    ] {
        let mut stream = TcpStream::connect(&host).unwrap();
        let head = format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close");
        let kind = format!("Content-Type: application/json\r\nContent-Length: {}", body.len());
        let request = format!("{head}\r\n{kind}\r\n\r\n{body}");
        stream.write_all(request.as_bytes()).unwrap();
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes);
        let answer = Answer::parse(&bytes);
        println!("answer: {}", json!({"status": answer.status, "body": answer.text()}));
    }
}

/// Without users and tokens, other users of the machine may look, and only the user who started the program may read
/// packets and change the configuration.
#[test]
fn on_loopback_only_the_user_who_started_the_program_may_do_more_than_look() {
    let server = Server::open(&[]);
    assert_eq!(server.json("/api/v1/status")["packets"], true);
    if !is_root() {
        println!("skipped: only root can ask as another user");
        return;
    }
    let test = std::env::current_exe().unwrap();
    let mut other = std::process::Command::new("/proc/self/exe");
    // That user may lack access to the test's folder, so that the program is opened before the change of user.
    let _ = test;
    other
        .args(["--ignored", "--exact", "neighbour", "--nocapture"])
        .env("WEIR_HOST", server.host())
        .uid(65534);
    let ran = run(&mut other).exits(0);
    let printed = ran.text();
    let answers: Vec<Value> = printed
        .lines()
        .filter_map(|line| line.split_once("answer: "))
        .map(|(_, answer)| serde_json::from_str(answer).unwrap())
        .collect();
    let body = |n: usize| serde_json::from_str::<Value>(answers[n]["body"].as_str().unwrap()).unwrap();
    assert_eq!(answers.len(), 4, "{printed}");
    assert_eq!((&body(0)["user"], &body(0)["packets"]), (&json!("uid-65534"), &json!(false)), "{}", body(0));
    assert!(
        body(0)["packets_refused"].as_str().is_some_and(|text| text.contains("--token-file")),
        "{}",
        body(0)
    );
    assert_eq!(answers[1]["status"], 403, "{printed}");
    assert_eq!(answers[2]["status"], 200, "the right look suffices: {printed}");
    assert_eq!(answers[3]["status"], 403, "{printed}");
    assert!(answers[3]["body"].as_str().unwrap().contains("the user who started weir"), "{printed}");
}

#[test]
fn files_with_secrets_that_others_can_read_are_refused() {
    let made = rcgen::generate_simple_self_signed(vec!["weir.test".to_owned()]).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    weir([text(&sample()), "-q", "-o", text(&store), "--log", "store"]).exits(0);
    let certificate = put(folder.path(), "cert.pem", made.cert.pem().as_bytes());
    let key = put_private(folder.path(), "key.pem", made.signing_key.serialize_pem().as_bytes());
    let tokens = put_private(folder.path(), "tokens", format!("{LOOKER} lou look\n").as_bytes());
    let hashed = weir_reads(["serve", "--hash-password", "ann"], b"a long password\n".to_vec()).exits(0);
    let users = put_private(folder.path(), "users", hashed.text().as_bytes());
    let port = port().to_string();
    let arguments = [
        "serve",
        "--store",
        text(&store),
        "--port",
        &port,
        "--tls-cert",
        text(&certificate),
        "--tls-key",
        text(&key),
        "--token-file",
        text(&tokens),
        "--user-file",
        text(&users),
    ];
    for file in [&key, &tokens, &users] {
        for mode in [0o644, 0o604, 0o660] {
            std::fs::set_permissions(file, std::fs::Permissions::from_mode(mode)).unwrap();
            weir(arguments).exits(1).says(&format!("chmod 600 {}", file.display()));
        }
        std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o600)).unwrap();
    }
    // The certificate is public.
    std::fs::set_permissions(&certificate, std::fs::Permissions::from_mode(0o644)).unwrap();
    assert!(Server::start(program().args(arguments)).address.starts_with("https://"));
}

#[test]
fn one_address_cannot_take_all_connections() {
    let server = Server::open(&[]);
    let held: Vec<TcpStream> = (0..300).map(|_| server.connect()).collect();
    assert!(eventually(|| metric(&server, "", "refused_connections") == 300 - 256));
    // The refused connections are closed, and another address is answered.
    let mut closed = 0;
    for mut stream in held.into_iter().skip(256) {
        closed += u32::from(matches!(stream.read(&mut [0; 1]), Ok(0) | Err(_)));
    }
    assert_eq!(closed, 44);
    get_from(&server, "127.0.0.2", "/api/v1/status", "").is(200);
}

#[test]
fn event_streams_are_limited_per_client() {
    let stored = Stored::start(&[]);
    let open = |token: &str| {
        let mut stream = stored.server.connect();
        let host = stored.server.host();
        let request =
            format!("GET /api/v1/live HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut head = [0; 12];
        stream.read_exact(&mut head).unwrap();
        (String::from_utf8_lossy(&head[9..]).into_owned(), stream)
    };
    let mut held = Vec::new();
    for n in 0..250 {
        let (status, stream) = open(LOOKER);
        assert_eq!(status, "200", "stream {n}");
        held.push(stream);
    }
    assert_eq!(open(LOOKER).0, "429");
    assert_eq!(open(LOADER).0, "200", "another client has a separate limit");
    drop(held);
    assert!(eventually(|| open(LOOKER).0 == "200"), "closed streams free their places");
    assert!(metric(&stored.server, &format!("Authorization: Bearer {LOOKER}\r\n"), "refused_streams") >= 1);
}

#[test]
fn failed_log_ins_are_delayed_by_address_and_recorded() {
    let users_folder = tempfile::tempdir().unwrap();
    let hashed = weir_reads(["serve", "--hash-password", "ann"], b"a long password\n".to_vec()).exits(0);
    let users = put_private(users_folder.path(), "users", hashed.text().as_bytes());
    let stored = Stored::start(&["--user-file", text(&users)]);
    // "ann:another password" and "ann:a long password" in Base64.
    let wrong = [("Authorization", "Basic YW5uOmFub3RoZXIgcGFzc3dvcmQ=")];
    let right = "Authorization: Basic YW5uOmEgbG9uZyBwYXNzd29yZA==\r\n";
    let mut failed = 0;
    // Each failure doubles the wait, so that one of these requests has to wait, regardless of the speed of the
    // machine.
    let waiting = (0..20).find_map(|_| {
        let answer = stored.server.request("GET", "/api/v1/status", &wrong, "");
        failed += u64::from(answer.status == 401);
        (answer.status == 429).then_some(answer)
    });
    let waiting = waiting.expect("an address that fails has to wait");
    assert!(waiting.headers["retry-after"].parse::<u64>().unwrap() >= 1);
    assert!(failed >= 1);
    // A token is accepted at once, and another address does not wait.
    stored.get(LOOKER, "/api/v1/status").is(200);
    let answer = get_from(&stored.server, "127.0.0.2", "/api/v1/status", right).is(200).json();
    assert_eq!((&answer["user"], &answer["rights"]), (&json!("ann"), &json!("look")));
    assert_eq!(metric(&stored.server, right, "failed_logins"), failed);
    assert!(metric(&stored.server, right, "delayed_logins") >= 1);
    let log = stored.log();
    assert!(eventually(|| lines(&log).len() as u64 == failed), "{:?}", lines(&log));
    for line in lines(&log) {
        assert_eq!(
            (&line["what"], &line["name"], &line["status"]),
            (&json!("login"), &json!("ann"), &json!(401))
        );
        assert_eq!(line["address"], "127.0.0.1");
    }
    let written = std::fs::read_to_string(&log).unwrap();
    assert!(!written.contains("password") && !written.contains("YW5u"), "{written}");
}

#[test]
fn configuration_checks_take_a_place_before_their_body_is_read() {
    let server = Server::open(&[]);
    let body = "{\"text\": \"\"}";
    let json = [("Content-Type", "application/json")];
    let check = || server.request("POST", "/api/v1/config/check", &json, body).status;
    let head = format!(
        "POST /api/v1/config/check HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        server.host(),
        body.len()
    );
    let answer_to = |mut stream: TcpStream, rest: &str| {
        let mut bytes = Vec::new();
        // The server may have answered and closed before it reads the rest.
        let _ = stream.write_all(rest.as_bytes());
        let _ = stream.read_to_end(&mut bytes);
        Answer::parse(&bytes).status
    };
    assert_eq!(check(), 200);
    // Which of two requests takes the place is up to the server, and a client has 10 seconds to send its text. So this
    // is tried until a request that has sent only a part of its text is the one that has the place.
    let one_at_a_time = || {
        let mut held = server.connect();
        held.write_all(format!("{head}{}", &body[..1]).as_bytes()).unwrap();
        let refused = (0..20).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(10));
            check() == 503
        });
        // Another client has a separate place.
        let other = answer_to(connect_from(&server, "127.0.0.2"), &format!("{head}{body}"));
        assert_eq!(other, 200);
        answer_to(held, &body[1..]) == 200 && refused
    };
    assert!(eventually(one_at_a_time), "a check of this client is in progress");
    assert!(eventually(|| check() == 200));
    assert!(metric(&server, "", "refused_checks") >= 1);
    // The answer is bounded too: it lists only some of 80,000 errors.
    let mistakes: String = (0..80_000).map(|n| format!("x{n} = 1\n")).collect();
    let text = json!({"text": mistakes}).to_string();
    let answer = server.request("POST", "/api/v1/config/check", &json, &text).is(200);
    assert_eq!(answer.json()["errors"].as_array().map(Vec::len), Some(101));
    assert!(answer.text().contains("79,900 more errors"), "{}", answer.body.len());
    // The length of an expression is bounded, because its program grows with it.
    let text = json!({"text": format!("expression = \"ip[0{}] = 1\"\n", "+1".repeat(40_000))}).to_string();
    let answer = server.request("POST", "/api/v1/config/check", &json, &text).is(200).json();
    assert!(answer["errors"][0]["message"].as_str().unwrap().contains("64 KiB"), "{answer}");
}

/// Texts that records withhold from a client with the right to look are in no other answer either: not in lists, tables or queries.
#[test]
fn no_answer_has_payload_without_the_right_to_packets() {
    let stored = Stored::start(&[]);
    let records = stored.get(LOADER, "/api/v1/records/http?limit=1000").is(200).json();
    let agents: std::collections::BTreeSet<String> = records["rows"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|row| row["values"]["user_agent"].as_str().map(str::to_owned))
        .collect();
    assert!(!agents.is_empty(), "{records}");
    let has_agent = |answer: &Answer| agents.iter().any(|agent| answer.text().contains(agent.as_str()));
    let tables = stored.get(LOADER, "/api/v1/tables").is(200).json();
    let names =
        tables["subscriptions"].as_array().unwrap().iter().flat_map(|one| one["tables"].as_array().unwrap());
    let names: Vec<&str> = names.filter_map(|table| table["name"].as_str()).collect();
    let document = stored.get(LOOKER, "/api/openapi.json").is(200).json();
    let paths =
        document["paths"].as_object().unwrap().iter().filter(|(_, methods)| methods["get"].is_object());
    let mut places: Vec<String> = paths
        .filter(|(path, _)| *path != "/api/v1/live" && !path.starts_with("/api/v1/packets"))
        .map(|(path, _)| path.replace("{table}", "http").replace("{id}", "nothing"))
        .collect();
    for name in &names {
        let text: String = format!("list {name}").bytes().map(|byte| format!("%{byte:02x}")).collect();
        places.push(format!("/api/v1/query?q={text}"));
        places.push(format!("/api/v1/query?q={text}&format=csv"));
    }
    let mut shown = 0;
    for place in &places {
        assert!(!has_agent(&stored.get(LOOKER, place)), "{place}");
        shown += usize::from(has_agent(&stored.get(LOADER, place)));
    }
    println!("{shown} of {} answers have user agents for a client with the right", places.len());
    assert!(shown >= 3, "tables, a query and records: {shown}");
}
