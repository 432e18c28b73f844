//! `weir anon` and `--anon`: the output contains no address or name of the capture and keeps its structure.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod support;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use support::*;

const KEY: &[u8; 32] = b"0123456789abcdefghijklmnopqrstuv";

/// A folder with a key.
fn desk() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let key = put(folder.path(), "K", KEY);
    (folder, key)
}

/// Columns of a Zeek log, joined per row.
fn columns(log: &Path, wanted: &[&str]) -> Vec<String> {
    let log = fs::read_to_string(log).unwrap();
    let fields = log.lines().find_map(|line| line.strip_prefix("#fields\t")).unwrap();
    let fields: Vec<&str> = fields.split('\t').collect();
    let rows = log.lines().filter(|line| !line.starts_with('#')).map(|line| {
        let cells: Vec<&str> = line.split('\t').collect();
        let cell = |name: &&str| cells[fields.iter().position(|field| field == name).unwrap()];
        wanted.iter().map(cell).collect::<Vec<_>>().join(" ")
    });
    rows.collect()
}

/// Whether a text has an address that is not a part of a longer one.
fn has(text: &str, address: &str) -> bool {
    let is_part = |c: Option<char>| c.is_some_and(|c| c.is_ascii_hexdigit() || c == '.' || c == ':');
    text.match_indices(address).any(|(at, found)| {
        let (before, after) = (text[..at].chars().next_back(), text[at + found.len()..].chars().next());
        !is_part(before) && !is_part(after.filter(|c| *c != '.' && *c != ':'))
    })
}

#[test]
fn logs_equal_those_of_the_anonymised_capture_and_contain_no_original() {
    let (desk, key) = desk();
    let path = |name: &str| desk.path().join(name);
    let (sample, key) = (sample(), text(&key).to_owned());
    weir([text(&sample), "-o", text(&path("plain"))]).exits(0);
    let ran = weir([
        text(&sample),
        "-o",
        text(&path("logs")),
        "--log",
        "zeek,eve,csv,text,ndjson",
        "--anon",
        "cryptopan",
        "--key-file",
        &key,
        "-v",
    ])
    .exits(0);
    let ends = ["id.orig_h", "id.orig_p", "id.resp_h", "id.resp_p", "proto", "orig_bytes", "resp_bytes"];
    let of = |folder: &str| {
        let mut rows = columns(&path(folder).join("conn.log"), &ends);
        rows.sort();
        rows
    };
    let originals: BTreeSet<String> = columns(&path("plain").join("conn.log"), &["id.orig_h", "id.resp_h"])
        .iter()
        .flat_map(|row| row.split(' ').map(str::to_owned).collect::<Vec<_>>())
        .collect();
    assert!(originals.len() > 5);
    let mut looked = 0;
    let files = fs::read_dir(path("logs")).unwrap().map(|entry| entry.unwrap().path());
    let texts = files.map(|file| (file.display().to_string(), fs::read_to_string(file).unwrap()));
    for (name, text) in texts.chain([("the summary".to_owned(), ran.text())]) {
        let found: Vec<&String> = originals.iter().filter(|address| has(&text, address)).collect();
        // The notes about the inputs have the file's name and no address.
        assert!(found.is_empty(), "{name}: {found:?}");
        looked += 1;
    }
    assert!(looked > 6, "{looked}");

    // Logs of an anonymised capture have equal rows.
    weir(["anon", text(&sample), text(&path("y.pcap")), "--key-file", &key]).exits(0).quietly();
    weir([text(&path("y.pcap")), "-o", text(&path("by_capture"))]).exits(0);
    assert_eq!(of("logs").len(), of("plain").len());
    assert_ne!(of("logs"), of("plain"));
    assert_eq!(of("logs"), of("by_capture"));
    // A row of a protocol belongs to a flow in conn.log.
    let uids: BTreeSet<String> =
        columns(&path("logs").join("conn.log"), &["uid", "community_id"]).into_iter().collect();
    for log in ["dns.log", "http.log", "ssl.log"].map(|log| path("logs").join(log)) {
        if log.exists() {
            assert!(columns(&log, &["uid", "community_id"]).iter().all(|uid| uids.contains(uid)), "{log:?}");
        }
    }
}

#[test]
fn an_anonymised_capture_keeps_its_structure_and_passes_the_audit() {
    let mut audited = 0;
    for capture in diverse(20) {
        let (desk, key) = desk();
        let made = desk.path().join("y.pcapng");
        let plain = weir([text(&capture), "-j"]);
        if plain.code != Some(0) {
            continue;
        }
        weir(["anon", text(&capture), text(&made), "--key-file", text(&key), "--audit"]).exits(0).quietly();
        let image = weir([text(&made), "-j"]).exits(0);
        for field in ["caught", "bytes", "captured_bytes", "flowed"] {
            let name = capture.display();
            assert_eq!(image.fact("ledger", field), plain.fact("ledger", field), "{name}: {field}");
        }
        audited += 1;
    }
    println!("{audited} captures");
    assert!(audited > 0);
}

#[test]
fn an_audit_finds_values_that_were_kept() {
    use weir_wire::build;
    let (desk, key) = desk();
    let frame =
        build::ethernet().ipv4([10, 1, 1, 1], [10, 1, 1, 2]).udp(1, 2).payload(b"\x01 call 10.1.1.2 now");
    let capture = put(desk.path(), "x.pcap", &pcap(1, &[(1, frame)]));
    let made = desk.path().join("y.pcap");
    let arguments = ["anon", text(&capture), text(&made), "--key-file", text(&key), "--audit"];
    weir(arguments).exits(0).quietly();
    let ran = weir(arguments.iter().chain(&["--payload", "keep"])).exits(4);
    assert!(ran.stderr.contains("10.1.1.2 as text") && ran.stderr.contains("packet 1"), "{}", ran.stderr);
    weir(arguments.iter().chain(&["--payload", "cut", "--shift", "-0.5"])).exits(0).quietly();
    assert_eq!(fs::metadata(&made).unwrap().len(), 24 + 16 + 42);
}

#[test]
fn runs_with_equal_keys_are_equal_and_runs_with_a_table_differ() {
    let (desk, key) = desk();
    let hex: String = KEY.iter().map(|byte| format!("{byte:02x}")).collect();
    let hex = put(desk.path(), "hex", format!("{hex}\n").as_bytes());
    let (sample, made) = (sample(), desk.path().join("y.pcap"));
    let run = |more: &[&str]| {
        weir(["anon", text(&sample), text(&made)].iter().chain(more)).exits(0).quietly();
        fs::read(&made).unwrap()
    };
    for mode in ["cryptopan", "ipcrypt"] {
        let one = run(&["--mode", mode, "--key-file", text(&key)]);
        assert!(one == run(&["--mode", mode, "--key-file", text(&hex)]), "{mode}");
    }
    assert!(run(&["--mode", "table"]) != run(&["--mode", "table"]));
    assert_eq!(run(&["--mode", "nullip"]).len(), fs::metadata(&made).unwrap().len() as usize);
}

/// A capture of a request that names hosts and people, in two segments.
fn named_capture() -> Vec<u8> {
    use weir_wire::build::{self, flags::*};
    let tcp = |seq: u32, ack: u32, flags, data: &[u8]| {
        build::ethernet()
            .ipv4([10, 7, 7, 1], [10, 7, 7, 2])
            .tcp(4000, 80, flags)
            .seq(seq)
            .ack(ack)
            .payload(data)
    };
    let request: &[u8] =
        b"GET /home/janedoe HTTP/1.1\r\nHost: www.smithfamily.org\r\nCookie: a=quuxgrault\r\n\r\n";
    let back = |ack, flags| {
        build::ethernet()
            .ipv4([10, 7, 7, 2], [10, 7, 7, 1])
            .tcp(80, 4000, flags)
            .seq(900)
            .ack(ack)
            .payload(b"")
    };
    let packets = [
        tcp(99, 0, SYN, b""),
        back(100, SYN | ACK),
        tcp(100, 901, ACK, &request[..14]),
        tcp(114, 901, ACK, &request[14..]),
        tcp(100 + request.len() as u32, 901, ACK | FIN, b""),
    ];
    let timed: Vec<(u64, Vec<u8>)> =
        packets.into_iter().enumerate().map(|(n, p)| (n as u64 + 1, p)).collect();
    pcap(1, &timed)
}

/// Everything in a folder: names of files, then bytes.
fn all(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    files.map(|file| (file.file_name().into_string().unwrap(), fs::read(file.path()).unwrap())).collect()
}

const NAMED: [&str; 7] =
    ["10.7.7.1", "10.7.7.2", "010.007.007", "janedoe", "smithfamily", "quuxgrault", "secretname"];

fn names_no_host(what: &str, bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let found: Vec<_> = NAMED.iter().filter(|name| text.contains(*name)).collect();
    assert!(found.is_empty(), "{what}: {found:?}");
}

#[test]
fn streams_and_reports_contain_no_original_names() {
    let (desk, key) = desk();
    let capture = put(desk.path(), "secretname.pcap", &named_capture());
    let (capture, key) = (text(&capture), text(&key));
    let keyed = ["--anon", "cryptopan", "--key-file", key];
    let size = named_capture().windows(5).filter(|window| window == b"GET /").count();
    assert_eq!(size, 1);
    for (payload, begins) in [("keep", &b"GET "[..]), ("blank", &[0; 4]), ("cut", b"")] {
        let out = desk.path().join(payload);
        let more = ["--payload", payload];
        weir(["streams", capture, "-q", "-o", text(&out)].iter().chain(&keyed).chain(&more)).exits(0);
        let files = all(&out);
        assert_eq!(files.len(), 1);
        for (name, bytes) in files {
            assert!(bytes.starts_with(begins) && (bytes.len() > 60) == (payload != "cut"), "{payload}");
            names_no_host(&name, &bytes);
            names_no_host(&name, name.as_bytes());
        }
    }
    let page = |options: &[&str]| {
        let at = desk.path().join("report.html");
        let model = desk.path().join("model.json");
        let all = ["report", capture, "-o", text(&at), "--model", text(&model)];
        weir(all.iter().chain(options)).exits(0);
        (fs::read_to_string(at).unwrap(), fs::read_to_string(model).unwrap())
    };
    let (plain, model) = page(&[]);
    assert!(plain.contains("10.7.7.1") && plain.contains("secretname"));
    let (image, image_model) = page(&keyed);
    names_no_host("report", image.as_bytes());
    names_no_host("model", image_model.as_bytes());
    assert_eq!(model, image_model, "distributions are equal");
    let (image, _) = page(&["--anon", "nullip"]);
    assert!(image.contains("0.0.0.0"));
}

#[test]
fn an_audit_searches_folders_of_logs() {
    let (desk, key) = desk();
    let capture = put(desk.path(), "x.pcap", &named_capture());
    let (capture, key) = (text(&capture), text(&key));
    let keyed = ["--key-file", key];
    let logs = desk.path().join("logs");
    let options = ["-q", "-o", text(&logs), "--log", "zeek,zeek-json,eve,csv,text", "--anon", "cryptopan"];
    weir([capture].iter().chain(&options).chain(&keyed)).exits(0);
    assert!(all(&logs).len() > 6);
    let audit = |path: &Path| weir(["anon", capture, "--audit-path", text(path)].iter().chain(&keyed));
    let clean = audit(&logs).exits(0);
    assert!(
        clean.text().contains("2 addresses and") && clean.text().contains(" files of "),
        "{}",
        clean.text()
    );
    // Each form in which an original value could remain.
    let gz = |bytes: &[u8]| {
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        std::io::Write::write_all(&mut packed, bytes).unwrap();
        packed.finish().unwrap()
    };
    let mut far = vec![b'.'; (4 << 20) - 3];
    far.extend(b" 10.7.7.1 ");
    far.extend([b'.'; 1000]);
    let plants: [(&str, Vec<u8>, &str); 13] = [
        ("a.log", b"1\t10.7.7.1\tx\n".to_vec(), "10.7.7.1 as text"),
        ("a.log", b"#x\t10.7.7.2\n".to_vec(), "10.7.7.2 as text"),
        ("a.log", b"PORT 10,7,7,1,4,5\n".to_vec(), "10.7.7.1 as text"),
        ("a.log", b"1.7.7.10.in-addr.arpa\n".to_vec(), "10.7.7.1 as text"),
        ("a.json", b"{\"h\":\"::ffff:10.7.7.2\"}\n".to_vec(), "10.7.7.2 as text"),
        ("010.007.007.001.04000-x", b"".to_vec(), "the name of"),
        ("a.json", b"{\"host\":\"WWW.smithfamily.org\"}\n".to_vec(), "www.smithfamily.org as text"),
        ("a.bin", [&[0, 1, 2][..], &[10, 7, 7, 2], &[0]].concat(), "10.7.7.2 as bytes"),
        ("a.bin", b"\0\x03www\x0bsmithfamily\x03org\0".to_vec(), "www.smithfamily.org as bytes"),
        (
            "a.bin",
            "www.smithfamily.org".bytes().flat_map(|c| [c, 0]).collect(),
            "www.smithfamily.org as bytes",
        ),
        ("a.log.gz", gz(b"10.7.7.1\n"), "10.7.7.1 as text"),
        ("a.log.zst", zstd::encode_all(&b"10.7.7.2\n"[..], 1).unwrap(), "10.7.7.2 as text"),
        ("far.log", far, "byte 4194302: 10.7.7.1"),
    ];
    for (name, bytes, leak) in plants {
        let planted = put(&logs, name, &bytes);
        let ran = audit(&logs).exits(4);
        assert!(
            ran.stderr.contains(leak) && ran.stderr.contains("LEAKS in"),
            "{name}: {leak}: {}",
            ran.stderr
        );
        assert!(ran.stderr.contains(", 1 LEAKS"), "once: {}", ran.stderr);
        fs::remove_file(planted).unwrap();
    }
    audit(&logs).exits(0);
    // A capture in the folder is searched packet by packet.
    fs::copy(capture, logs.join("x.pcapng")).unwrap();
    assert!(audit(&logs).exits(4).stderr.contains("x.pcapng, byte"));
    fs::remove_file(logs.join("x.pcapng")).unwrap();
    // Logs that were not anonymised contain original values.
    weir([capture, "-q", "-o", text(&desk.path().join("plain"))]).exits(0);
    let found = audit(&desk.path().join("plain")).exits(4).stderr;
    assert!(found.contains("10.7.7.1") && found.contains("smithfamily"), "{found}");
    weir(["anon", capture, "--key-file", key]).exits(1).says("OUT");
    weir(["anon", "-", "--audit-path", text(&logs)].iter().chain(&keyed)).exits(1).says("second time");
    weir(["anon", capture, "--audit-path", "/nowhere/x"].iter().chain(&keyed)).exits(2).says("/nowhere/x");
}

#[test]
fn a_configuration_can_request_anonymisation() {
    let (desk, key) = desk();
    let capture = put(desk.path(), "secretname.pcap", &named_capture());
    let toml = |body: &str| put(desk.path(), "weir.toml", format!("[anon]\n{body}\n").as_bytes());
    let run = |config: &Path, more: &[&str]| {
        let out = desk.path().join("logs");
        let _ = fs::remove_dir_all(&out);
        let ran = weir(["-c", text(config), text(&capture), "-o", text(&out)].iter().chain(more)).exits(0);
        let conn = columns(&out.join("conn.log"), &["id.orig_h", "ts"]);
        let http = columns(&out.join("http.log"), &["host", "uri"]);
        (conn[0].clone(), http[0].clone(), ran.text())
    };
    let config = toml(&format!("mode = \"cryptopan\"\nkey_file = {:?}", text(&key)));
    let (conn, http, summary) = run(&config, &[]);
    for bytes in [&conn, &http, &summary] {
        names_no_host("configured", bytes.replace("secretname.pcap", "").as_bytes());
    }
    let plain = put(desk.path(), "plain.toml", b"");
    let by_line = run(&plain, &["--anon", "cryptopan", "--key-file", text(&key)]);
    assert_eq!((&conn, &http), (&by_line.0, &by_line.1), "equal to the result of options");
    // The command line overrides the configuration.
    assert!(run(&config, &["--anon", "ipcrypt"]).0 != conn);
    let config = toml(
        "mode = \"nullip\"\nshift = \"100\"\nclasses = { name = \"keep\", url = \"drop\" }\npayload = \"keep\"\nkeep_vendors = true",
    );
    let (conn, http, _) = run(&config, &[]);
    assert!(conn.starts_with("0.0.0.0 10"), "{conn}");
    assert_eq!(http, "www.smithfamily.org -");
    let config = toml("mode = \"nullip\"\nfields = [\"HTTP,HOST,UNCHANGED\", \"HTTP,URI,REPLACE,/gone\"]");
    assert_eq!(run(&config, &[]).1, "www.smithfamily.org /gone");
    assert_eq!(
        run(&config, &["--anon-field", "HTTP,HOST,STRIP,3"]).1,
        "www /gone",
        "the command line overrides the configuration"
    );
    // An error names the accepted values.
    for (body, words) in [
        ("mode = \"hide\"", "cryptopan"),
        ("mod = \"table\"", "\"mode\""),
        ("shift = \"soon\"", "seconds"),
        ("classes = { nam = \"keep\" }", "\"name\""),
        ("classes = { name = \"hide\" }", "pseudonym"),
        ("payload = \"some\"", "blank"),
        ("key_file = \"\"", "empty path"),
        ("fields = [\"IP,TTL,NULL\"]", "MAP_DISTRIBUTION"),
    ] {
        let ran = weir(["config", "check", text(&toml(body))]).exits(1);
        assert!(ran.stderr.contains(words) && ran.stderr.contains("weir.toml:2"), "{body}: {}", ran.stderr);
    }
}

#[test]
fn an_invalid_key_or_policy_is_an_error() {
    let (desk, key) = desk();
    let short = put(desk.path(), "short", b"secret");
    let same = put(desk.path(), "same", &[7; 32]);
    let sample = sample();
    let (sample, made) = (text(&sample), desk.path().join("y.pcap"));
    let made = text(&made);
    weir(["anon", sample, made]).exits(1).says("--key-file");
    weir(["anon", sample, made, "--key-file", text(&short)]).exits(1).says("32 bytes");
    weir(["anon", sample, made, "--key-file", "/nowhere/K"]).exits(1).says("/nowhere/K");
    weir(["anon", sample, made, "--mode", "ipcrypt", "--key-file", text(&same)]).exits(1).says("differ");
    weir(["anon", sample, made, "--mode", "table", "--key-file", text(&key)]).exits(1).says("takes no key");
    weir(["anon", sample, "-", "--mode", "table", "--audit"]).exits(1).says("--audit");
    for option in [
        &["--key-file", text(&key)][..],
        &["--payload", "keep"],
        &["--shift", "1"],
        &["--anon-policy", "name=keep"],
        &["--anon-field", "IP,TTL,ZERO"],
        &["--keep-vendors"],
        &["--hide-top-domains"],
    ] {
        for (command, at) in
            [(&[][..], "--anon"), (&["report"], "report"), (&["streams", "-o", made], "streams")]
        {
            let ran = weir(command.iter().chain(&[sample]).chain(option)).exits(1);
            assert!(
                ran.stderr.contains(option[0]) && ran.stderr.contains("--anon MODE"),
                "{at}: {}",
                ran.stderr
            );
        }
    }
    weir([sample, "--anon", "table", "--anon-policy", "name=hide"]).exits(1).says("pseudonym");
    assert!(!Path::new(made).exists());
}
