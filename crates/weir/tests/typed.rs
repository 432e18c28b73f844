//! What the command line asks for by expressions: questions, packet files, logs and files.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod support;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use support::*;

/// The files of a directory with their contents.
fn contents(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let files = fs::read_dir(folder).into_iter().flatten().flatten();
    files.map(|file| (file.file_name().into_string().unwrap(), fs::read(file.path()).unwrap())).collect()
}

/// Questions, and a level and chain that ask them in a configuration.
const QUESTIONS: [(&str, &str, &str, &str); 6] = [
    (
        "top dns.query show 5 where dns.rcode_name = NOERROR",
        "record",
        "top dns.query show 5",
        "dns.rcode_name = NOERROR",
    ),
    ("sample 10 | top source show 3 where tcp", "packet", "sample 10\", \"top source show 3", "tcp"),
    (
        "long: packets | bytes at flow where flow.packets > 9",
        "flow",
        "packets\", \"bytes",
        "flow.packets > 9",
    ),
    (
        "quantiles stream.first_byte by destination",
        "record",
        "quantiles stream.first_byte by destination",
        "",
    ),
    ("size", "packet", "size", ""),
    ("distinct hosts where port 80", "packet", "distinct hosts", "port 80"),
];

/// A question is the subscription of a configuration that has its words, and its answer follows the summary.
#[test]
fn a_question_is_answered_as_in_a_configuration() {
    let folder = tempfile::tempdir().unwrap();
    let mut answers = 0;
    for capture in [sample()].into_iter().chain(diverse(8)) {
        for (question, level, chain, condition) in QUESTIONS {
            let name = question.split_once(": ").map_or(question, |(name, _)| name);
            let text_of = format!(
                "[[subscription]]\nname = '{name}'\nlevel = \"{level}\"\nchain = [\"{chain}\"]\nwhere = '{condition}'\n"
            );
            let file = put(folder.path(), "weir.toml", text_of.as_bytes());
            let asked = weir([text(&capture), "-q", "--subscribe", question]);
            let configured = weir([text(&capture), "-q", "--config", text(&file)]);
            assert_eq!(asked.text(), configured.text(), "{question} of {}", capture.display());
            let whole = asked.text();
            let (summary, answer) = whole.split_once(&format!("\n\n{name}\n")).unwrap_or((&whole, ""));
            assert_eq!(weir([text(&capture), "-q"]).text().trim_end(), summary, "{question}");
            answers += usize::from(answer.lines().count() > 1);
        }
    }
    println!("{answers} answers with rows");
    assert!(answers > 20, "{answers}");
}

/// Files of packets that expressions select, in one pass, are those of a run for each expression.
#[test]
fn packet_files_with_an_expression_are_those_of_runs_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let (out, expected) = (folder.path().join("out"), folder.path().join("expected.pcapng"));
    let expressions = [
        "port 53",
        "not port 53",
        "greater 500 or arp",
        "dns.rcode_name = NXDOMAIN",
        "http.status_code >= 300 or ftp",
        "flow.packets > 6 and tcp",
    ];
    let mut compared = 0;
    for capture in [sample(), root().join("testdata/sample/first-200.pcapng")].iter().chain(&diverse(10)) {
        // Without names nothing else has payload read.
        for (workers, names) in [("1", "-q"), ("2", "-q"), ("7", "-q"), ("1", "-n")] {
            let _ = fs::remove_dir_all(&out);
            fs::create_dir(&out).unwrap();
            let files: Vec<String> = (0..expressions.len())
                .flat_map(|n| {
                    [
                        "-w".to_owned(),
                        format!("{}={}", text(&out.join(format!("{n}.pcapng"))), expressions[n]),
                    ]
                })
                .collect();
            let given = [text(capture), names, "--workers", workers];
            weir(given.into_iter().chain(files.iter().map(String::as_str)));
            for (n, expression) in expressions.iter().enumerate() {
                // Flows that several flows of the capture share by address and time are chosen more widely there.
                let is_of_flows = expression.contains('.');
                if is_of_flows && (workers != "1" || *capture != sample()) {
                    continue;
                }
                let _ = fs::remove_file(&expected);
                weir([text(capture), "-q", "-w", text(&expected), expression]);
                let found = fs::read(out.join(format!("{n}.pcapng"))).unwrap_or_default();
                let is_equal = fs::read(&expected).unwrap_or_default() == found;
                assert!(is_equal, "{expression} of {}, {workers} workers", capture.display());
                compared += usize::from(!found.is_empty());
            }
        }
    }
    println!("{compared} packet files are those of runs with their expression");
    assert!(compared > 60, "{compared}");
}

type Test<'t> = &'t dyn Fn(&serde_json::Value) -> bool;

/// The rows of a log that an expression selects are the rows of the whole log that have what it tests.
#[test]
fn logs_with_an_expression_have_the_rows_that_it_selects() {
    let folder = tempfile::tempdir().unwrap();
    let (out, all) = (folder.path().join("out"), folder.path().join("all"));
    let mut rows = [0; 3];
    for capture in [sample()].into_iter().chain(diverse(12)) {
        for workers in ["1", "2", "7"] {
            let _ = fs::remove_dir_all(&out);
            let _ = fs::remove_dir_all(&all);
            let selected = [
                "--log",
                "zeek-json:dns=dns.type_name = A",
                "--log",
                "zeek-json:http+flow=port 80",
                "--log",
                "zeek-json:ssl=tls.version = TLSv13 or quic_tls.version = TLSv13",
            ];
            let given = [text(&capture), "-q", "--workers", workers];
            weir(given.into_iter().chain(["-o", text(&out)]).chain(selected));
            weir(given.into_iter().chain(["-o", text(&all), "--log", "zeek-json"]));
            let (found, whole) = (contents(&out), contents(&all));
            let is_of_port = |row: &serde_json::Value| row["id.orig_p"] == 80 || row["id.resp_p"] == 80;
            let tests: [(&str, Test); 4] = [
                ("dns.json", &|row| row["qtype_name"] == "A"),
                ("http.json", &is_of_port),
                ("conn.json", &is_of_port),
                ("ssl.json", &|row| row["version"] == "TLSv13"),
            ];
            for (n, (name, holds)) in tests.iter().enumerate() {
                let lines = |files: &BTreeMap<String, Vec<u8>>| {
                    objects(&String::from_utf8_lossy(files.get(*name).map_or(&[], Vec::as_slice)))
                };
                let expected: Vec<_> = lines(&whole).into_iter().filter(|row| holds(row)).collect();
                assert_eq!(lines(&found), expected, "{name} of {}, {workers} workers", capture.display());
                rows[n.min(2)] += expected.len();
            }
            assert!(
                found.keys().all(|name| tests.iter().any(|(known, _)| known == name)),
                "{:?}",
                found.keys()
            );
        }
    }
    println!("{rows:?} rows of logs with expressions");
    assert!(rows.iter().all(|rows| *rows > 100), "{rows:?}");
}

/// A log of lines with an expression goes to standard output, and the files of two directories are those of `extract`.
#[test]
fn rows_on_standard_output_and_files_in_directories() {
    let folder = tempfile::tempdir().unwrap();
    let sample = sample();
    let whole = weir([text(&sample), "-q", "-o", "-", "--log", "eve:dns"]).exits(0);
    let part =
        weir([text(&sample), "-q", "-o", "-", "--log", "eve:dns=dns_message.rcode = NXDOMAIN"]).exits(0);
    let (whole, part) = (whole.text(), part.text());
    let expected: Vec<&str> = whole.lines().filter(|line| line.contains("NXDOMAIN")).collect();
    assert_eq!(part.lines().collect::<Vec<_>>(), expected);
    assert!(!expected.is_empty());
    let (all, texts, named) =
        (folder.path().join("all"), folder.path().join("texts"), folder.path().join("named"));
    let chain = "[output]\ndir = \"DIR\"\nlog = []\n[[subscription]]\nname = \"x\"\nlevel = \"record\"\n\
                 where = 'files.mime_type contains text'\nchain = [\"extract texts\"]\n";
    let file = put(folder.path(), "weir.toml", chain.replace("DIR", text(&named)).as_bytes());
    weir([text(&sample), "-q", "--config", text(&file)]).exits(0);
    let selected = format!("{}=files.mime_type contains text", text(&texts));
    weir([text(&sample), "-q", "--files", text(&all), "--files", &selected]).exits(0);
    assert_eq!(contents(&texts), contents(&named.join("texts")));
    assert!(contents(&all).len() > contents(&texts).len() && !contents(&texts).is_empty());
}

#[test]
fn what_cannot_be_asked_is_refused_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let (sample, out) = (sample(), folder.path().join("out"));
    let out = text(&out);
    std::os::unix::fs::symlink(".", folder.path().join("link")).unwrap();
    let [linked, real] = ["link/x.pcap=tcp", "x.pcap=udp"].map(|name| folder.path().join(name));
    let (linked, real, of_log) = (text(&linked), text(&real), &format!("{out}/eve.json"));
    for (given, reason) in [
        (&["--subscribe", "top dns.query by source"][..], "two values of by, dns.query and source: give one"),
        (&["--subscribe", "top dns.ask"], "table dns has no field ask"),
        (&["--subscribe", "tpo source"], "did you mean \"top\"?"),
        (&["--subscribe", "top source where tpc port 80"], "did you mean `tcp`?"),
        (&["--subscribe", "writeto /tmp/x"], "no function \"writeto\""),
        (&["-w", "a", "-w", "b"], "-w a has all that matches already"),
        (&["-w", "a=port 5x"], "-w a='port 5x': unknown port '5x'"),
        (&["-w", "=tcp"], "the name is missing"),
        (&["-w-=tcp"], "give the expression as that of the run"),
        (
            &["-w", "x.pcap=tcp", "-w", "./x.pcap=udp"],
            "the packet file x.pcap and the packet file ./x.pcap are one file",
        ),
        (
            &["-w", "x.pcap", "--unidentified", "./x.pcap"],
            "the packet file x.pcap and the packet file ./x.pcap are one file",
        ),
        (&["-w", linked, "-w", real], "are one file: give another name"),
        (&["-w", of_log, "-o", out, "--log", "eve"], "--log eve and the packet file"),
        (
            &["--files", "x", "--files", "./x=files.total_bytes > 1"],
            "the directory x and the directory ./x are one file",
        ),
        (&["-w", "no/x.pcap=tcp"], "no/x.pcap: cannot create"),
        (&["-o", out, "--log", "zeek", "--log", "zeek:dns=net 10.0.0.0/8"], "--log zeek writes all its rows"),
        (&["-o", out, "--log", "mon=tcp"], "is not made of rows that can be selected"),
        (&["-o", out, "--log", "store=tcp"], "is not made of rows that can be selected"),
        (&["-o", out, "--log", "eve=greater 100"], "is decided per packet"),
        (
            &["-o", out, "--log", "eve=dns.rcode = 3"],
            "the log eve has no rows of dns; test fields of dns_message",
        ),
        (&["-o", "-", "--log", "zeek=tcp"], "does not consist of lines of JSON"),
        (&["-o", "-", "--log", "eve=tcp", "--log", "ndjson=tcp"], "it has room for one log"),
        (&["--files", "x=dns.query = \"a\""], "needs records of files"),
    ] {
        let ran = weir([text(&sample), "-q"].iter().chain(given));
        assert!(matches!(ran.code, Some(1 | 4)), "{given:?}: {:?}", ran.code);
        assert!(ran.stderr.contains(reason), "{given:?}: {}", ran.stderr);
    }
    // The content of files is not anonymised, so that both together are refused.
    let chain = format!(
        "[output]\ndir = \"{out}\"\n[[subscription]]\nname = \"x\"\nlevel = \"record\"\nwhere = 'files'\nchain = [\"extract x\"]\n"
    );
    let file = put(folder.path(), "weir.toml", chain.as_bytes());
    let ran = weir([text(&sample), "-q", "--anon", "table", "--config", text(&file)]).exits(1);
    assert!(ran.stderr.contains("cannot be combined with anonymisation"), "{}", ran.stderr);
    // Two that name one file share it: a packet is once in it.
    let [all, both] = ["all.pcap", "both.pcap"].map(|name| folder.path().join(name));
    let selected = format!("{}=tcp", text(&both));
    weir([text(&sample), "-q", "-w", text(&all)]).exits(0);
    weir([text(&sample), "-q", "-w", &selected, "-w", text(&both)]).exits(0);
    assert_eq!(std::fs::read(all).unwrap(), std::fs::read(both).unwrap());
    // A name that has an equals sign.
    let name = folder.path().join("a=b.pcap");
    weir([text(&sample), "-q", "-w", &format!("{}=", text(&name))]).exits(0);
    assert!(name.exists());
}

#[test]
fn no_output_replaces_a_capture_that_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let before = std::fs::read(sample()).unwrap();
    let (capture, key) = (put(folder.path(), "x.pcap", &before), put_private(folder.path(), "key", &[1; 32]));
    std::os::unix::fs::symlink("x.pcap", folder.path().join("y.pcap")).unwrap();
    let [linked, expression, all] = ["y.pcap", "y.pcap=tcp", "z.pcap"].map(|name| folder.path().join(name));
    let (capture, linked, folder) = (text(&capture), text(&linked), text(folder.path()));
    for given in [
        &[capture, "-w", capture][..],
        &[capture, "-w", linked, "udp"],
        &[linked, "--unidentified", capture],
        &[capture, "-w", text(&expression)],
        &[folder, "-w", capture],
        &["anon", capture, linked, "--key-file", text(&key)],
        &["anon", folder, capture, "--key-file", text(&key)],
    ] {
        let ran = weir(given).exits(1);
        let is_said = ran.stderr.contains("are one file") || ran.stderr.contains("is read");
        assert!(is_said && ran.stderr.contains("another name"), "{given:?}: {}", ran.stderr);
        assert_eq!(std::fs::read(capture).unwrap(), before, "{given:?}");
    }
    // One that is read twice, or that is beside the others, is no reason.
    weir([capture, capture, "-q", "-w", text(&all)]).exits(0);
    weir(["anon", capture, text(&all), "--key-file", text(&key)]).exits(0);
}
