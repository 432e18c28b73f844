//! Files of the machine that nobody may read through the pages: whatever a client names, no answer has their content.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod support;

use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use support::http::*;
use support::*;

/// Text that no answer may contain. Each line of the secret has it, in the forms that values of lists take.
const CANARY: &str = "canary4711";
const LOOKER: &str = "looker-looker-looker-1";
const WRITER: &str = "writer-writer-writer-1";

/// A folder with a secret, a list that the configuration names, and a file of tokens.
struct Planted {
    folder: tempfile::TempDir,
    secret: PathBuf,
    tokens: PathBuf,
}

impl Planted {
    fn new() -> Planted {
        let folder = tempfile::tempdir().unwrap();
        let lines = format!("{CANARY}:*:20228:0:99999:7:::\n{CANARY}.example\n{CANARY} 192.0.2.1\n");
        let secret = put_private(folder.path(), "secret", lines.as_bytes());
        let tokens = format!("# {CANARY}\n{LOOKER} lou\tlook\n{WRITER} wim write\n");
        let tokens = put_private(folder.path(), "tokens", tokens.as_bytes());
        put(folder.path(), "known", b"192.0.2.1\n");
        Planted { folder, secret, tokens }
    }

    /// Every way of naming one of the files that occurred to anybody.
    fn names(&self) -> Vec<String> {
        let mut names = Vec::new();
        for file in
            [&self.secret, &self.tokens, &PathBuf::from("/etc/passwd"), &PathBuf::from("/proc/self/environ")]
        {
            let path = text(file);
            let relative = format!("../../../../../../../../..{path}");
            for path in [
                path,
                &relative,
                &format!("/proc/self/root{path}"),
                &format!("//{path}"),
                &format!("/./{path}"),
            ] {
                names.push(path.to_owned());
                names.push(format!("@{path}"));
                names.push(format!("file://{path}"));
            }
        }
        names
    }

    /// Configurations that name the file wherever a configuration can name one.
    fn configurations(&self, file: &str) -> Vec<String> {
        let list = toml_text(&format!("@\"{file}\""));
        let bare = format!("@{file}");
        let mut all = Vec::new();
        for level in ["packet", "stream", "flow", "record"] {
            for (field, operator) in [
                ("dns.rtt", "in"),
                ("dns.query", "in"),
                ("dns.query", "under"),
                ("flow.client", "in"),
                ("http.status_code", "in"),
            ] {
                for list in [&list[1..list.len() - 1], &bare] {
                    let expression = format!("{field} {operator} {list}");
                    all.push(format!(
                        "[[subscription]]\nname = \"a\"\nlevel = \"{level}\"\nwhere = \"{expression}\"\nchain = [\"packets\"]\n"
                    ));
                    all.push(format!(
                        "[[subscription]]\nname = \"a\"\nlevel = \"{level}\"\nchain = [\"where {expression}\", \"packets\"]\n"
                    ));
                    all.push(format!(
                        "[[subscription]]\nname = \"a\"\nlevel = \"{level}\"\nchain = [\"search http.uri for {bare}\"]\n"
                    ));
                    all.push(format!(
                        "[[chart]]\nname = \"c\"\nunit = \"bytes\"\nlines = [{{ name = \"l\", expression = \"{expression}\" }}]\n"
                    ));
                    all.push(format!("expression = \"{expression}\"\n"));
                }
            }
        }
        for key in [
            "server]\ntokens",
            "server]\nusers",
            "server]\ntls_cert",
            "server]\ntls_key",
            "server]\naccess_log",
            "anon]\nkey_file",
            "store]\ndir",
            "output]\ndir",
            "packets]\nwrite",
            "files]\ndir",
        ] {
            all.push(format!("[{key} = {}\n", toml_text(file)));
        }
        all
    }
}

fn toml_text(value: &str) -> String {
    format!("\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\""))
}

fn encoded(value: &str) -> String {
    value.bytes().map(|byte| format!("%{byte:02x}")).collect()
}

/// What the answers of a server must not have.
fn has_secret(answer: &Answer) -> bool {
    let text = answer.text();
    [CANARY, WRITER, "root:x:", "root:*:"].iter().any(|secret| text.contains(secret))
}

/// Posts a configuration, with a token if there is one.
fn post(server: &Server, token: &str, path: &str, body: &str) -> Answer {
    let bearer = format!("Bearer {token}");
    let headers = [("Content-Type", "application/json"), ("Authorization", &bearer)];
    let headers = &headers[..if token.is_empty() { 1 } else { 2 }];
    let body = json!({ "text": body }).to_string();
    loop {
        let answer = server.request("POST", path, headers, &body);
        // Another check of this client has not given its place back.
        if answer.status != 503 {
            return answer;
        }
    }
}

/// Every route with every parameter, and every configuration, that names a secret file: no answer has its content, and none
/// differs from that for a file that does not exist.
#[test]
fn no_route_shows_the_content_of_a_file() {
    let planted = Planted::new();
    let store = planted.folder.path().join("store");
    weir([text(&sample()), "-q", "-o", text(&store), "--log", "store"]).exits(0);
    let port = port().to_string();
    let server = Server::start(program().current_dir(planted.folder.path()).args([
        "serve",
        "--store",
        text(&store),
        "--port",
        &port,
        "--token-file",
        text(&planted.tokens),
    ]));
    let bearer = format!("Bearer {LOOKER}");
    let get = |path: &str| server.request("GET", path, &[("Authorization", &bearer)], "");
    let document = get("/api/openapi.json").is(200).json();
    let names = planted.names();
    let mut asked = 0;
    for (path, methods) in document["paths"].as_object().unwrap() {
        if path == "/api/v1/live" || methods.get("get").is_none() {
            continue;
        }
        let parameters = methods["get"]["parameters"].as_array().cloned().unwrap_or_default();
        let of_query = parameters.iter().filter(|one| one["in"] == "query");
        let keys: Vec<&str> = of_query.filter_map(|one| one["name"].as_str()).collect();
        // Two ways in which a parameter can name each file: as it is, and in an expression.
        for name in names.iter().step_by(if keys.is_empty() { 1 } else { 3 }) {
            let place = path.replace("{id}", &encoded(name)).replace("{table}", &encoded(name));
            assert!(!has_secret(&get(&place)), "{place}");
            let place = path.replace("{id}", "1").replace("{table}", "dns");
            for key in &keys {
                for value in [
                    name.clone(),
                    format!("dns.query in @\"{name}\""),
                    format!("count dns where dns.rtt in @{name}"),
                ] {
                    let place = format!("{place}?{key}={}", encoded(&value));
                    assert!(!has_secret(&get(&place)), "{place}");
                    asked += 1;
                }
            }
        }
        for level in ["packet", "flow", "record"] {
            if path == "/api/v1/filter" {
                for name in [text(&planted.secret), "/nowhere"] {
                    let expression = encoded(&format!("dns.rtt in @{name}"));
                    let answer = get(&format!("{path}?level={level}&expression={expression}")).json();
                    assert_eq!(answer["ok"], false, "{name} {answer}");
                }
            }
        }
    }
    for name in &names {
        for place in
            [name.clone(), encoded(name), format!("/assets{name}"), format!("/{}", name.replace('/', "%2f"))]
        {
            let place = if place.starts_with('/') { place } else { format!("/{place}") };
            assert!(!has_secret(&get(&place)), "{place}");
        }
    }
    let mut refusals: Option<Value> = None;
    for file in [
        text(&planted.secret),
        text(&planted.tokens),
        "secret",
        "tokens",
        "/nowhere",
        "/etc/passwd",
        "/proc/kmsg",
    ] {
        for configuration in planted.configurations(file) {
            for (token, path) in [(LOOKER, "/api/v1/config/check"), (WRITER, "/api/v1/config/check")] {
                let answer = post(&server, token, path, &configuration);
                assert!(!has_secret(&answer), "{configuration}");
                asked += 1;
            }
        }
        // The reason is one for files that exist and files that do not.
        let text = format!(
            "[[subscription]]\nname = \"a\"\nlevel = \"record\"\nwhere = 'dns.rtt in @\"{file}\"'\nchain = [\"records\"]\n"
        );
        let answer = post(&server, LOOKER, "/api/v1/config/check", &text).is(200).json();
        assert_eq!(answer["ok"], false, "{answer}");
        let message = answer["errors"][0]["message"].as_str().unwrap().replace(file, "FILE");
        let known = refusals.get_or_insert_with(|| Value::from(message.clone()));
        assert_eq!(*known, message);
    }
    println!("{asked} questions, none answered with the content of a file");
    // The file that the same text would read on the command line, where errors have no line of it either.
    let text = format!(
        "[[subscription]]\nname = \"a\"\nlevel = \"record\"\nwhere = 'dns.rtt in @\"{}\"'\nchain = [\"records\"]\n",
        text(&planted.secret)
    );
    let configuration = put(planted.folder.path(), "weir.toml", text.as_bytes());
    let ran = weir(["config", "check", support::text(&configuration)]).exits(1);
    assert!(ran.stderr.contains("lines 1, 2, 3") && !ran.stderr.contains(CANARY), "{}", ran.stderr);
}

/// The pages of a capture, which need no token on loopback: a client may name the lists of the configuration and no other file.
#[test]
fn clients_may_name_the_lists_of_the_configuration() {
    let planted = Planted::new();
    let of = |file: &str| {
        format!(
            "[[subscription]]\nname = \"a\"\nlevel = \"record\"\nwhere = 'dns.answers in @{file}'\nchain = [\"records\"]\n"
        )
    };
    let configuration = put(planted.folder.path(), "weir.toml", of("known").as_bytes());
    let port = port().to_string();
    let server = Server::start(program().current_dir(planted.folder.path()).args([
        "open",
        text(&sample()),
        "--port",
        &port,
        "--config",
        text(&configuration),
    ]));
    let ok = |file: &str| post(&server, "", "/api/v1/config/check", &of(file)).is(200).json()["ok"].clone();
    assert_eq!(ok("known"), true, "a list of the configuration");
    for file in ["secret", "./known", "tokens", "absent"] {
        assert_eq!(ok(file), false, "{file}");
    }
}

/// Pipes, devices and files of the kernel as lists, keys and tables of users: an error, and no wait.
#[test]
fn what_is_no_file_does_not_hold_the_program() {
    let planted = Planted::new();
    let pipe = planted.folder.path().join("pipe");
    mknodat(CWD, &pipe, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    let sample = sample();
    for file in [&pipe, Path::new("/dev/zero"), Path::new("/proc/kmsg"), planted.folder.path()] {
        let named = toml_text(text(file));
        let list = format!(
            "[[subscription]]\nname = \"a\"\nlevel = \"record\"\nwhere = 'dns.rtt in @{named}'\nchain = [\"records\"]\n"
        );
        let configuration = put(planted.folder.path(), "weir.toml", list.as_bytes());
        weir(["config", "check", text(&configuration)]).exits(1).says("no");
        weir([text(&sample), "--config", text(&configuration)]).exits(1);
        weir([text(&sample), &format!("dns.rtt in @{named}")]).exits(1);
        let key = format!("[anon]\nmode = \"cryptopan\"\nkey_file = {named}\n");
        let configuration = put(planted.folder.path(), "weir.toml", key.as_bytes());
        weir([text(&sample), "--config", text(&configuration)]).exits(1);
        for key in ["tokens", "users"] {
            let configuration =
                put(planted.folder.path(), "weir.toml", format!("[server]\n{key} = {named}\n").as_bytes());
            let store = text(planted.folder.path());
            weir(["serve", "--store", store, "--port", "1", "--config", text(&configuration)]).exits(1);
        }
    }
}
