//! The privileges of a run after its rings are open, and the permissions of its files. Needs root and ip(8); otherwise
//! each test is skipped, with the reason.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod support;

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use support::http::*;
use support::net::*;
use support::*;

/// The user `nobody`, which every system has.
const NOBODY: u32 = 65_534;
/// The bit of CAP_NET_RAW.
const NET_RAW: &str = "0000000000002000";
const NOTHING: &str = "0000000000000000";

/// Runs in a namespace, in a separate process.
#[test]
#[ignore = "run by the other tests, in a namespace"]
fn sender() {
    send_unsegmented();
}

type Status = BTreeMap<String, Vec<String>>;

fn status(path: &Path) -> Status {
    let text = fs::read_to_string(path).unwrap_or_default();
    let fields = text.lines().filter_map(|line| line.split_once(':'));
    fields
        .map(|(name, values)| (name.to_owned(), values.split_whitespace().map(str::to_owned).collect()))
        .collect()
}

/// The status of each thread of a process (proc_pid_status(5)).
fn threads(process: u32) -> Vec<Status> {
    let tasks = fs::read_dir(format!("/proc/{process}/task")).unwrap().flatten();
    tasks.map(|task| status(&task.path().join("status"))).filter(|status| !status.is_empty()).collect()
}

/// The child of a process.
fn child_of(process: u32) -> u32 {
    let parent = process.to_string();
    let all = fs::read_dir("/proc").unwrap().flatten();
    let numbers = all.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let mut children = numbers.filter(|number| {
        let status = status(Path::new(&format!("/proc/{number}/status")));
        status.get("PPid").is_some_and(|of| of.first() == Some(&parent))
    });
    children.next().expect("the helper runs")
}

/// Whether every thread of a process has this user and these capabilities, and cannot gain others.
fn is_confined(process: u32, user: u32, capabilities: &str) -> bool {
    let user = user.to_string();
    let threads = threads(process);
    threads.iter().all(|status| {
        let all = |name: &str, expected: &str| status[name].iter().all(|value| value == expected);
        all("Uid", &user)
            && all("Gid", &user)
            && all("Groups", &user)
            && ["CapPrm", "CapEff", "CapBnd"].iter().all(|set| all(set, capabilities))
            && ["CapInh", "CapAmb"].iter().all(|set| all(set, NOTHING))
            && all("NoNewPrivs", "1")
            && all("Seccomp", "2")
    }) && !threads.is_empty()
}

/// A folder of the user `nobody`, which other users cannot read.
fn folder_of_nobody() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    chown(folder.path(), Some(NOBODY), Some(NOBODY)).unwrap();
    folder
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

#[track_caller]
fn becomes_confined(child: &Child, user: u32) {
    let process = child.id();
    let is = eventually(|| is_confined(process, user, NOTHING));
    assert!(is, "{:#?}", threads(process));
    let helper = child_of(process);
    assert!(is_confined(helper, user, NET_RAW), "{:#?}", threads(helper));
    assert_eq!(fs::read_to_string(format!("/proc/{helper}/comm")).unwrap(), "weir-rings\n");
}

#[test]
fn a_live_run_has_no_capabilities_and_its_helper_has_one() {
    let Some(net) = Net::new() else { return };
    let folder = folder_of_nobody();
    let (logs, packets) = (folder.path().join("logs"), folder.path().join("x.pcapng"));
    let arguments = ["-i", "far", "-j", "--user", "nobody", "-o", text(&logs), "-w", text(&packets)];
    let child = net.start(&arguments);
    becomes_confined(&child, NOBODY);
    let sent = net.send(100);
    signal(&child, "INT");
    let ran = finish(child).exits(130);
    assert_eq!(ran.fact("ledger", "caught"), sent);
    assert_eq!((mode(&logs), mode(&packets)), (0o700, 0o600));
    assert_eq!(
        fs::metadata(&logs).unwrap().uid(),
        NOBODY,
        "created for the user before privileges are dropped"
    );
    for entry in fs::read_dir(&logs).unwrap().flatten() {
        assert_eq!(mode(&entry.path()), 0o600, "{}", entry.path().display());
        assert_eq!(entry.metadata().unwrap().uid(), NOBODY);
    }
    assert!(fs::read_dir(&logs).unwrap().count() > 0);
}

#[test]
fn the_caller_of_sudo_is_the_default_user() {
    let Some(net) = Net::new() else { return };
    if Command::new("id").arg("weir").output().is_ok_and(|found| found.status.success()) {
        println!("skipped: the user weir exists");
        return;
    }
    let user = NOBODY.to_string();
    for (caller, expected) in [(Some(&user), NOBODY), (None, 0)] {
        let mut command = net.weir(&["-i", "far", "-j"]);
        command.env_remove("SUDO_UID").env_remove("SUDO_GID");
        if let Some(caller) = caller {
            command.env("SUDO_UID", caller).env("SUDO_GID", caller);
        }
        let child = net.listening(start(&mut command));
        if expected == 0 {
            let is = eventually(|| threads(child.id()).iter().all(|status| status["CapEff"] == [NOTHING]));
            assert!(is, "{:#?}", threads(child.id()));
        } else {
            becomes_confined(&child, expected);
        }
        signal(&child, "INT");
        finish(child).exits(130);
    }
}

#[test]
fn an_interface_that_returns_is_reopened_without_privileges() {
    let Some(net) = Net::new() else { return };
    let folder = tempfile::tempdir().unwrap();
    let heard = folder.path().join("stderr");
    let arguments = ["serve", "-i", "far", "--user", "nobody", "--port", &support::http::port().to_string()];
    net.ip(&net.there, &["link", "set", "lo", "up"]);
    let mut command = net.weir(&arguments);
    let child = net
        .listening(command.stdout(Stdio::null()).stderr(fs::File::create(&heard).unwrap()).spawn().unwrap());
    becomes_confined(&child, NOBODY);
    for _ in 0..2 {
        net.ip(&net.here, &["link", "del", "near"]);
        net.link();
        let before = |text: &str| fs::read_to_string(&heard).unwrap().matches(text).count();
        let back = before("far: has returned");
        assert!(
            eventually(|| before("far: has returned") > back || back > 0),
            "{}",
            fs::read_to_string(&heard).unwrap()
        );
        becomes_confined(&child, NOBODY);
    }
    signal(&child, "INT");
    finish(child);
}

/// The caller's umask allows everything.
#[test]
fn files_are_private_with_any_umask() {
    if !is_root() {
        println!("skipped: not root");
        return;
    }
    let capture = sample();
    for (given, file, directory) in [(&[][..], 0o600, 0o700), (&["--mode", "640"][..], 0o640, 0o750)] {
        let out = tempfile::tempdir().unwrap();
        let at = |name: &str| out.path().join(name).to_str().unwrap().to_owned();
        let run = |arguments: &[&str]| {
            let mut command = Command::new("sh");
            command.args(["-c", "umask 0; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_weir")]);
            run(command.args(arguments).args(given).stdin(Stdio::null())).exits(0);
        };
        let input = text(&capture);
        run(&[input, "-q", "-o", &at("logs"), "--log", "zeek,eve,store,mon,csv", "-w", &at("x.pcapng")]);
        run(&["streams", input, "-o", &at("streams"), "-q"]);
        run(&["report", input, "-o", &at("report.html"), "--model", &at("model.json")]);
        let mut folders = vec![out.path().to_owned()];
        let mut files = 0;
        while let Some(inside) = folders.pop() {
            for entry in fs::read_dir(inside).unwrap().flatten() {
                let path = entry.path();
                if path.is_dir() {
                    assert_eq!(mode(&path), directory, "{}", path.display());
                    folders.push(path);
                } else {
                    // The key of a store is for the owner alone.
                    let expected =
                        if path.file_name().is_some_and(|name| name == "seed") { 0o600 } else { file };
                    assert_eq!(mode(&path), expected, "{}", path.display());
                    files += 1;
                }
            }
        }
        assert!(files > 8, "{files} files");
    }
    weir([text(&capture), "--mode", "777"]).exits(1).says("octal");
}

#[test]
fn the_error_for_a_folder_of_another_user_has_the_chown_command() {
    let Some(net) = Net::new() else { return };
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
    let at = text(folder.path());
    for outputs in [&["-o", at][..], &["-w", &format!("{at}/x.pcap")]] {
        let command = &mut net.weir(&[&["-i", "far", "--user", "nobody"][..], outputs].concat());
        run(command).exits(4).says(&format!("chown nobody {at}"));
    }
    run(&mut net.weir(&["-i", "far", "--user", "no-such-user"])).exits(1).says("no user no-such-user exists");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn no_thread_of_a_server_has_capabilities() {
    let Some(net) = Net::new() else { return };
    net.ip(&net.there, &["link", "set", "lo", "up"]);
    // A privileged port is bound before the privileges are dropped.
    let mut server =
        Server::start(&mut net.weir(&["serve", "-i", "far", "--port", "443", "--user", "nobody"]));
    let process = server.child.id();
    assert!(is_confined(process, NOBODY, NOTHING), "{:#?}", threads(process));
    // A thread sets its name only after it has started.
    let names = || threads(process).iter().map(|status| status["Name"].concat()).collect::<Vec<_>>();
    let has_begun = (0..600).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(100));
        names().iter().any(|name| name == "pages")
    });
    assert!(has_begun, "{:?}", names());
    signal(&server.child, "INT");
    assert!(server.child.wait().unwrap().success() || server.child.wait().unwrap().code() == Some(130));
}

#[test]
fn the_next_run_removes_the_temporary_folder_of_a_killed_one() {
    let Some(net) = Net::new() else { return };
    net.ip(&net.there, &["link", "set", "lo", "up"]);
    let place = tempfile::tempdir().unwrap();
    fs::set_permissions(place.path(), Permissions::from_mode(0o1777)).unwrap();
    let folders = || {
        let entries = fs::read_dir(place.path()).unwrap().flatten();
        entries.map(|entry| (entry.path(), mode(&entry.path()))).collect::<Vec<_>>()
    };
    let serve = || {
        let port = support::http::port().to_string();
        let mut command = net.weir(&["serve", "-i", "far", "--user", "nobody", "--port", &port]);
        Server::start(command.env("TMPDIR", place.path()))
    };
    let mut killed = serve();
    let left = folders();
    assert!(matches!(left.as_slice(), [(_, 0o700)]), "{left:?}");
    killed.child.kill().unwrap();
    killed.child.wait().unwrap();
    assert_eq!(folders(), left);
    let mut next = serve();
    let now = folders();
    assert!(now.len() == 1 && now != left, "{left:?} {now:?}");
    signal(&next.child, "INT");
    next.child.wait().unwrap();
    assert_eq!(folders(), []);
}

/// The pages of a capture need no privileges either.
#[test]
fn a_run_over_files_is_confined() {
    let capture = sample();
    let mut server = Server::start(program().args(["open", text(&capture)]));
    for status in threads(server.child.id()) {
        assert_eq!(
            (&status["NoNewPrivs"], &status["Seccomp"]),
            (&vec!["1".to_owned()], &vec!["2".to_owned()])
        );
        // Its store belongs to its user: no capability is needed.
        assert_eq!(u64::from_str_radix(&status["CapEff"][0], 16).unwrap(), 0);
    }
    signal(&server.child, "INT");
    server.child.wait().unwrap();
}

/// A capture of another user is opened before the rights to open it are dropped; its pages can read it again.
#[test]
fn the_pages_of_another_users_capture_have_its_packets_and_no_capability() {
    if !is_root() {
        return println!("skipped: only root may give files to other users");
    }
    let folder = tempfile::tempdir().unwrap();
    let (capture, theirs) = (sample(), folder.path().join("theirs.pcap"));
    fs::copy(&capture, &theirs).unwrap();
    fs::set_permissions(&theirs, Permissions::from_mode(0o600)).unwrap();
    chown(&theirs, Some(NOBODY), Some(NOBODY)).unwrap();
    let port = port().to_string();
    let server = Server::start(program().args(["open", text(&theirs), text(&capture), "--port", &port]));
    for status in threads(server.child.id()) {
        assert_eq!(u64::from_str_radix(&status["CapEff"][0], 16).unwrap(), 0);
    }
    let size = server.json("/api/v1/packets/size");
    assert!(size["packets"].as_u64().unwrap() > 0 && size["partial"].is_null(), "{size}");
    let packets = server.get("/api/v1/packets").is(200).body;
    assert_eq!(packets.len() as u64, size["bytes"].as_u64().unwrap());
    assert_eq!(server.get("/api/v1/packets").is(200).body, packets, "a second reader begins at the start");
}

/// A file that was given to the user of the run, as the manual advises, can be replaced though it still has the group of root.
#[test]
fn a_configuration_with_the_group_of_another_user_is_rewritten() {
    if !is_root() {
        return println!("skipped: only root may give files to other users");
    }
    let folder = tempfile::tempdir().unwrap();
    chown(folder.path(), Some(NOBODY), Some(NOBODY)).unwrap();
    let path = folder.path().join("weir.toml");
    for (before, after) in [(0o640, 0o600), (0o644, 0o644), (0o660, 0o600), (0o600, 0o600)] {
        fs::write(&path, "old").unwrap();
        chown(&path, Some(NOBODY), Some(0)).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(before)).unwrap();
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.args(["--ignored", "--exact", "rewriter"]).env("REWRITE", &path);
        assert!(child.stdout(Stdio::null()).status().unwrap().success());
        assert_eq!((fs::read(&path).unwrap(), mode(&path)), (b"new".to_vec(), after));
        assert_eq!(fs::metadata(&path).unwrap().uid(), NOBODY);
    }
}

/// Runs in a separate process, as another user.
#[test]
#[ignore = "run by another test, as another user"]
fn rewriter() {
    nix::unistd::setgroups(&[]).unwrap();
    nix::unistd::setgid(NOBODY.into()).unwrap();
    nix::unistd::setuid(NOBODY.into()).unwrap();
    weir_files::rewrite(Path::new(&std::env::var_os("REWRITE").unwrap()), b"new").unwrap();
}

/// The descriptors of all threads of a process that are packet sockets of its network namespace, and the number of such
/// sockets in the namespace.
fn packet_sockets(process: u32) -> (usize, usize) {
    let table = fs::read_to_string(format!("/proc/{process}/net/packet")).unwrap();
    let inodes = table.lines().skip(1).filter_map(|line| line.split_whitespace().last());
    let names: Vec<String> = inodes.map(|inode| format!("socket:[{inode}]")).collect();
    // A thread may have a table of descriptors of its own.
    let tasks = fs::read_dir(format!("/proc/{process}/task")).unwrap().flatten();
    let open = tasks.filter_map(|task| fs::read_dir(task.path().join("fd")).ok()).flatten().flatten();
    let held = open.filter_map(|entry| fs::read_link(entry.path()).ok());
    (held.filter(|to| names.iter().any(|name| to.as_os_str() == name.as_str())).count(), names.len())
}

/// The number of packet sockets of a run's helper, of which the run has none.
#[track_caller]
fn held_by_the_helper_alone(run: u32) -> usize {
    let (of_helper, all) = packet_sockets(child_of(run));
    assert_eq!((packet_sockets(run).0, of_helper), (0, all));
    all
}

/// A packet socket can send. The process that reads packets therefore has none, before and after the return of an interface.
#[test]
fn a_run_has_no_socket_that_could_send_frames() {
    let Some(net) = Net::new() else { return };
    let folder = tempfile::tempdir().unwrap();
    let heard = folder.path().join("stderr");
    net.ip(&net.there, &["link", "set", "lo", "up"]);
    for workers in ["1", "2"] {
        let file = fs::File::create(&heard).unwrap();
        let mut command =
            net.weir(&["-i", "far", "-i", "lo", "-j", "--workers", workers, "--user", "nobody"]);
        let child = net.listening(command.stdout(Stdio::piped()).stderr(file).spawn().unwrap());
        becomes_confined(&child, NOBODY);
        let rings = 2 * workers.parse::<usize>().unwrap();
        assert_eq!(held_by_the_helper_alone(child.id()), rings);
        // The thread that maps rings has the filters of the run and its own.
        let filters: Vec<_> = threads(child.id())
            .iter()
            .map(|status| (status["Name"].concat() == "mapper", status["Seccomp_filters"].concat()))
            .collect();
        let of =
            |is_mapper: bool| filters.iter().filter(move |(is, _)| *is == is_mapper).map(|(_, n)| n.as_str());
        assert_eq!(of(true).collect::<Vec<_>>(), ["4"], "{filters:?}");
        assert!(of(false).all(|filters| filters == "2"), "{filters:?}");

        let mut sent = net.send(100);
        for _ in 0..3 {
            let before = fs::read_to_string(&heard).unwrap().matches("far: has returned").count();
            net.ip(&net.here, &["link", "del", "near"]);
            assert!(eventually(|| fs::read_to_string(&heard).unwrap().matches("removed").count() > before));
            net.link();
            let text = || fs::read_to_string(&heard).unwrap();
            assert!(eventually(|| text().matches("far: has returned").count() > before), "{}", text());
            // Former rings are released.
            assert!(eventually(|| packet_sockets(child.id()).1 == rings), "{:?}", packet_sockets(child.id()));
            assert_eq!(held_by_the_helper_alone(child.id()), rings);
            sent += net.send(100);
        }
        signal(&child, "INT");
        let ran = finish(child).exits(130);
        assert_eq!(ran.fact("ledger", "caught"), sent);
    }
}

fn signal_process(process: u32, name: &str) {
    let sent = Command::new("kill").args(["-s", name, &process.to_string()]).status().unwrap();
    assert!(sent.success());
}

/// Whether a process has ended. Its parent may not have waited for it.
fn has_ended(process: u32) -> bool {
    let status = status(Path::new(&format!("/proc/{process}/status")));
    status.get("State").is_none_or(|state| state.first().is_some_and(|letter| letter == "Z"))
}

/// A service manager sends the signals that end a run to its helper too.
#[test]
fn the_helper_outlives_the_signals_that_end_a_run() {
    let Some(net) = Net::new() else { return };
    let child = net.start(&["-i", "far", "-j", "--user", "nobody"]);
    becomes_confined(&child, NOBODY);
    let helper = child_of(child.id());
    let mut sent = net.send(50);
    for name in ["TERM", "INT", "HUP", "QUIT", "USR1"] {
        signal_process(helper, name);
    }
    sent += net.send(50);
    signal(&child, "TERM");
    let ran = finish(child);
    assert_eq!(ran.fact("ledger", "caught"), sent);
    assert!(eventually(|| has_ended(helper)));
}

#[test]
fn the_helper_of_a_killed_run_ends() {
    let Some(net) = Net::new() else { return };
    let mut child = net.start(&["-i", "far", "-j"]);
    let helper = child_of(child.id());
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(eventually(|| has_ended(helper)), "{:?}", status(Path::new(&format!("/proc/{helper}/status"))));
}

#[test]
fn a_run_whose_helper_is_killed_ends_with_an_error() {
    let Some(net) = Net::new() else { return };
    for interface in ["far", "any"] {
        let child = net.start(&["-i", interface, "-j", "--user", "nobody"]);
        becomes_confined(&child, NOBODY);
        signal_process(child_of(child.id()), "KILL");
        finish(child).exits(2).says("the process that holds the rings has ended");
    }
}

/// A check by root is of the user that the run becomes, so that it says what the run would.
#[test]
fn a_check_by_root_is_of_the_user_of_the_run() {
    if !is_root() {
        return println!("skipped: only root becomes another user");
    }
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
    let (file, theirs) = (folder.path().join("weir.toml"), folder.path().join("theirs"));
    fs::create_dir(&theirs).unwrap();
    chown(&theirs, Some(NOBODY), Some(NOBODY)).unwrap();
    let check = |dir: &Path| {
        fs::write(&file, format!("[output]\ndir = \"{}\"\n", dir.display())).unwrap();
        let number = NOBODY.to_string();
        run(program()
            .args(["config", "check", text(&file)])
            .env("SUDO_UID", &number)
            .env("SUDO_GID", &number))
    };
    check(&theirs).exits(0);
    check(&folder.path().join("new")).exits(0);
    check(Path::new("/etc")).exits(1).says("output.dir: /etc: ").says("may not write here");
    assert!(!folder.path().join("new").exists(), "a check makes nothing");
}
