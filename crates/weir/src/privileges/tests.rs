//! Operations that a confined thread may not do, tried in a separate process.

use super::*;
use nix::unistd::{Uid, setresuid};
use std::fs::{self, File};
use std::io::ErrorKind;
use std::net::{TcpStream, UdpSocket};
use std::os::unix::fs::chown;
use std::path::Path;
use std::process::{Command, Stdio};
use weir_capture::{LiveError, RingOptions, Rings};

/// The user `nobody`.
const NOBODY: u32 = 65_534;

/// Runs an otherwise ignored test of this program in a separate process, with an order in its environment.
fn apart(test: &str, order: &Path) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--ignored", "--exact", "--test-threads=1", "--nocapture", test]);
    let ran = command.env("WEIR_CONFINED", order).stdin(Stdio::null()).output().unwrap();
    let text = String::from_utf8_lossy(&ran.stdout);
    assert!(
        ran.status.success() && text.contains("1 passed"),
        "{text}{}",
        String::from_utf8_lossy(&ran.stderr)
    );
}

#[test]
fn a_confined_live_run_is_refused_other_operations() {
    if !Uid::effective().is_root() {
        println!("skipped: not root");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("secret"), "x").unwrap();
    fs::create_dir(folder.path().join("out")).unwrap();
    chown(folder.path().join("out"), Some(NOBODY), Some(NOBODY)).unwrap();
    fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    apart("privileges::tests::confined", folder.path());
}

#[test]
#[ignore = "run by a_confined_live_run_is_refused_other_operations, in a separate process"]
fn confined() {
    let Some(folder) = std::env::var_os("WEIR_CONFINED").map(std::path::PathBuf::from) else { return };
    let out = folder.join("out");
    let user = Account::alone(NOBODY, NOBODY);
    let mut paths = Paths::default();
    paths.folder(&out);
    let (mine, port) = (std::process::id() as i32, std::net::TcpListener::bind("127.0.0.1:0").unwrap());
    // The test runs in a thread that is not the first of the process.
    give_up_here(Some(&user), &paths).unwrap();

    // The required operations work.
    weir_files::replace(&out.join("x"), b"1").unwrap();
    weir_files::replace(&out.join("x"), b"2").unwrap();
    assert_eq!(fs::read(out.join("x")).unwrap(), b"2");
    weir_files::make_folders(&out.join("a/b")).unwrap();
    fs::remove_dir_all(out.join("a")).unwrap();
    assert_eq!(std::thread::spawn(|| 7).join().unwrap(), 7);
    assert!(fs::read("/etc/hosts").is_ok() || !Path::new("/etc/hosts").exists());

    // Files: every user may read /etc/passwd, and it is not among the allowed paths.
    let refused = |error: std::io::Error| assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{error}");
    for path in ["/etc/shadow", "/etc/passwd", "/proc/1/status", "/"] {
        refused(File::open(path).unwrap_err());
    }
    refused(File::open(folder.join("secret")).unwrap_err());
    refused(fs::read_dir(&folder).unwrap_err());
    refused(File::create("/tmp/weir-confined").unwrap_err());
    refused(std::os::unix::fs::symlink("/etc/passwd", out.join("link")).unwrap_err());
    // Sockets.
    let options = RingOptions { interfaces: vec!["lo".to_owned()], ..RingOptions::default() };
    let rings = Rings::open(&options, 1).unwrap_err();
    assert!(matches!(rings, LiveError::Privilege | LiveError::UnknownInterface { .. }), "{rings:?}");
    refused(UdpSocket::bind("127.0.0.1:0").unwrap_err());
    refused(TcpStream::connect(port.local_addr().unwrap()).unwrap_err());
    // Processes.
    refused(Command::new("/bin/true").status().unwrap_err());
    let parent = nix::unistd::getppid();
    assert_eq!(nix::sys::ptrace::attach(parent), Err(nix::Error::EPERM));
    assert_eq!(nix::sys::signal::kill(parent, None), Err(nix::Error::EPERM));
    // Rights.
    assert_eq!(setresuid(Uid::from_raw(0), Uid::from_raw(0), Uid::from_raw(0)), Err(nix::Error::EPERM));
    assert_eq!(nix::unistd::setgroups(&[]), Err(nix::Error::EPERM));
    assert!(caps::raise(None, CapSet::Effective, Capability::CAP_NET_RAW).is_err());
    assert_eq!(nix::unistd::getpid().as_raw(), mine);
}

#[test]
fn privileges_are_dropped_before_other_threads_start() {
    let (to, from) = std::sync::mpsc::channel::<()>();
    let thread = std::thread::spawn(move || from.recv());
    assert!(one_thread().unwrap_err().contains("threads"));
    drop(to);
    let _ = thread.join().unwrap();
}

#[test]
fn a_missing_user_is_an_error() {
    let error = Account::of_run(Some("no-such-user")).unwrap_err();
    assert_eq!(error, "--user: no user no-such-user exists");
    assert!(Account::of_run(Some("root")).map_or(true, |user| user.is_none() || !Uid::effective().is_root()));
}

#[test]
fn a_process_that_sends_connects_to_one_port() {
    apart("privileges::tests::sending", Path::new("/"));
}

#[test]
#[ignore = "run by a_process_that_sends_connects_to_one_port, in a separate process"]
fn sending() {
    if std::env::var_os("WEIR_CONFINED").is_none() {
        return;
    }
    let [mine, other] = [(); 2].map(|()| std::net::TcpListener::bind("127.0.0.1:0").unwrap());
    let (to, elsewhere) = (mine.local_addr().unwrap(), other.local_addr().unwrap());
    // Landlock knows ports since Linux 6.7.
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let number = |at: usize| release.split(['.', '-']).nth(at).and_then(|part| part.parse::<u32>().ok());
    let knows_ports = (number(0), number(1)) >= (Some(6), Some(7));
    helper::confine_sender(None, to.port()).unwrap();

    TcpStream::connect(to).unwrap();
    TcpStream::connect(("localhost", to.port())).unwrap();
    assert_eq!(std::thread::spawn(|| 7).join().unwrap(), 7);
    let refused = |error: std::io::Error| assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{error}");
    if knows_ports {
        refused(TcpStream::connect(elsewhere).unwrap_err());
    }
    for path in ["/etc/passwd", "/proc/self/status", "/"] {
        refused(File::open(path).unwrap_err());
    }
    refused(File::create("/tmp/weir-sending").unwrap_err());
    refused(std::os::unix::net::UnixDatagram::unbound().unwrap_err());
    refused(std::net::TcpListener::bind("127.0.0.1:0").unwrap_err());
    refused(Command::new("/bin/true").status().unwrap_err());
}
