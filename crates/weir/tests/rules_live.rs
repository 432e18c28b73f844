//! Rules of a live run, which change while it captures. Needs root and ip(8); otherwise each test is skipped, with the reason.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod support;

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Stdio;
use support::net::*;
use support::*;

/// Sends a datagram with the text in WEIR_SAY.
#[test]
#[ignore = "run by the other tests, in a namespace"]
fn speaker() {
    let Ok(text) = std::env::var("WEIR_SAY") else { return };
    let socket = std::net::UdpSocket::bind(("10.77.0.1", 4_000)).unwrap();
    socket.send_to(text.as_bytes(), "10.77.0.9:5000").unwrap();
}

fn say(net: &Net, text: &str) {
    finish(start(net.test(&net.here, "speaker").env("WEIR_SAY", text))).exits(0);
}

fn rule(sid: u32, word: &str) -> String {
    format!("alert udp any any -> any any (msg:\"{word}\"; content:\"{word}\"; sid:{sid};)\n")
}

/// The number of alerts of a rule.
fn alerts(logs: &Path, sid: u32) -> usize {
    let text = fs::read_to_string(logs.join("eve.json")).unwrap_or_default();
    text.matches(&format!("\"signature_id\":{sid},")).count()
}

#[test]
fn rules_of_a_live_run_follow_their_files() {
    let Some(net) = Net::new() else { return };
    let folder = tempfile::tempdir().unwrap();
    let (rules, logs) = (folder.path().join("rules"), folder.path().join("logs"));
    fs::create_dir(&rules).unwrap();
    let own = rules.join("own.rules");
    fs::write(&own, rule(1, "first")).unwrap();
    let child = net.start(&["-i", "far", "-S", text(&rules), "-o", text(&logs), "--log", "eve"]);
    let comes = |sid: u32, word: &str| {
        eventually(|| {
            say(&net, word);
            alerts(&logs, sid) > 0
        })
    };
    assert!(comes(1, "first"));
    // A rule is added, and one in a new file; both files are renamed into their places, as editors do.
    fs::write(rules.join("part"), rule(1, "first") + &rule(2, "second")).unwrap();
    fs::rename(rules.join("part"), &own).unwrap();
    assert!(comes(2, "second"));
    fs::write(rules.join("new.rules"), rule(3, "third")).unwrap();
    assert!(comes(3, "third"));
    // What cannot be read changes nothing.
    fs::write(&own, [&[0xff, 0xfe][..], rule(4, "fourth").as_bytes()].concat()).unwrap();
    let before = alerts(&logs, 2);
    assert!(eventually(|| {
        say(&net, "second");
        alerts(&logs, 2) > before
    }));
    // A rule is changed and one removed.
    fs::write(&own, rule(1, "other")).unwrap();
    let before = alerts(&logs, 1);
    assert!(eventually(|| {
        say(&net, "other");
        alerts(&logs, 1) > before
    }));
    // The alerts of what was said before are written before that of the last word.
    let settled = || {
        let before = alerts(&logs, 3);
        say(&net, "third");
        assert!(eventually(|| alerts(&logs, 3) > before));
        (alerts(&logs, 1), alerts(&logs, 2))
    };
    assert!(eventually(|| settled() == settled()));
    let before = settled();
    ["first", "second"].iter().for_each(|word| say(&net, word));
    assert_eq!(settled(), before);
    signal(&child, "HUP");
    signal(&child, "INT");
    let ran = finish(child).exits(130);
    for line in ["1 added", "1 changed, 1 removed", "those before stay in force"] {
        assert!(ran.stderr.contains(line), "{line}: {}", ran.stderr);
    }
}

/// Breaks a file or mends it.
type Does<'a> = &'a dyn Fn();

#[test]
fn files_that_are_unreadable_or_gone_leave_the_rules_in_force() {
    let Some(net) = Net::new() else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let (rules, logs, errors, away) = (path("rules"), path("logs"), path("errors"), path("away"));
    fs::create_dir(&rules).unwrap();
    let own = rules.join("own.rules");
    fs::write(&own, rule(1, "first")).unwrap();
    let mut command = net.weir(&["-i", "far", "-S", text(&rules), "-o", text(&logs), "--log", "eve"]);
    command.stdout(Stdio::null()).stderr(fs::File::create(&errors).unwrap());
    let mut child = net.listening(command.spawn().unwrap());
    let alerts_again = |sid: u32, word: &str| {
        let before = alerts(&logs, sid);
        eventually(|| {
            say(&net, word);
            alerts(&logs, sid) > before
        })
    };
    let said = |what: &str| fs::read_to_string(&errors).unwrap_or_default().matches(what).count();
    assert!(alerts_again(1, "first"));
    let mode = |mode: u32| fs::set_permissions(&own, fs::Permissions::from_mode(mode)).unwrap();
    // The program has given up the rights of root when it reads the files again.
    let unreadable: [(&str, Does<'_>, Does<'_>); 4] = [
        ("a file without permissions", &|| mode(0), &|| mode(0o644)),
        ("a directory that is gone", &|| fs::rename(&rules, &away).unwrap(), &|| {
            fs::rename(&away, &rules).unwrap()
        }),
        ("a file that is gone", &|| fs::rename(&own, &away).unwrap(), &|| fs::rename(&away, &own).unwrap()),
        (
            "a link to nothing",
            &|| {
                fs::rename(&own, &away).unwrap();
                symlink("nothing", &own).unwrap();
            },
            &|| fs::rename(&away, &own).unwrap(),
        ),
    ];
    for (what, breaks, mends) in unreadable {
        let before = said("those before stay in force");
        breaks();
        signal(&child, "HUP");
        assert!(eventually(|| said("those before stay in force") > before), "{what}");
        assert!(alerts_again(1, "first"), "{what}");
        let before = said("nothing has changed");
        mends();
        signal(&child, "HUP");
        assert!(eventually(|| said("nothing has changed") > before), "{what}");
    }
    // What is readable again is followed.
    fs::write(&own, rule(1, "first") + &rule(2, "second")).unwrap();
    assert!(alerts_again(2, "second") && alerts_again(1, "first"));
    signal(&child, "INT");
    assert_eq!(wait(&mut child), Some(Some(130)));
}
