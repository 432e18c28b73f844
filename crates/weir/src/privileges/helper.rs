//! The processes beside a run: the one that holds the sockets of all rings, so that the run cannot send through them, and those that
//! send events.
//!
//! They execute this program with a hidden subcommand, have the user of the run, and end with the run. The first keeps only
//! CAP_NET_RAW and opens no files. The others keep no capability, read what names are looked up in, and connect to one port.

use super::calls::{self, Part};
use super::paths::Paths;
use super::{Account, confine, keep_only};
use crate::cli;
use crate::exit::{Exit, complain};
use caps::{CapSet, Capability};
use rustix::process::{DumpableBehavior, Signal};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use weir_capture::{RingHelper, RingOptions};

/// Name of the subcommand.
pub const NAME: &str = "ring-helper";

/// Starts the process, while this one is still privileged.
///
/// # Errors
/// The process cannot be started.
pub fn start(
    options: &RingOptions,
    workers: usize,
    user: Option<&Account>,
) -> Result<Arc<RingHelper>, String> {
    // A capability of this process that is neither root's nor the program file's is lost with exec(2) otherwise. This
    // process drops all of them later. A failure shows when the rings are opened.
    for set in [CapSet::Inheritable, CapSet::Ambient] {
        let _ = caps::raise(None, set, Capability::CAP_NET_RAW);
    }
    let mut command = command(NAME, user);
    command.args(["--workers", &workers.to_string()]);
    command.args(["--ring-bytes", &options.ring_bytes.to_string()]);
    command.args(["--block-timeout", &options.block_timeout_ms.to_string()]);
    command.args(["--snaplen", &options.snaplen.to_string()]);
    if !options.promiscuous {
        command.arg("--no-promiscuous");
    }
    command.arg("--").args(&options.interfaces);
    RingHelper::start(&mut command, options, workers)
        .map_err(|error| format!("cannot start the process that holds the rings: {error}"))
}

/// The command of a process beside this one, by the name of its subcommand.
fn command(name: &str, user: Option<&Account>) -> Command {
    // The path of this program may belong to another file by now.
    let mut command = Command::new("/proc/self/exe");
    command.arg0("weir").arg(name).env_clear().current_dir("/");
    // Ctrl-C must reach only the run, which still has work to do.
    command.process_group(0);
    if let Some((uid, gid)) = user.map(Account::numbers) {
        command.args(["--uid", &uid.to_string(), "--gid", &gid.to_string()]);
    }
    command
}

/// Starts a process that sends, by the name of its subcommand, and returns the socket to it. It ends when the socket is closed.
///
/// # Errors
/// The process cannot be started.
pub fn start_sender(name: &str, user: Option<&Account>) -> io::Result<UnixStream> {
    let (ours, theirs) = UnixStream::pair()?;
    command(name, user).stdin(Stdio::from(OwnedFd::from(theirs))).stdout(Stdio::null()).spawn()?;
    Ok(ours)
}

/// Confines this process, which sends: it may look up names, and connect over TCP to `port`, and to the port of DNS.
///
/// # Errors
/// The user cannot be changed, or a capability cannot be dropped.
pub fn confine_sender(user: Option<&Account>, port: u16) -> Result<(), String> {
    let rules = Paths::rules_of_sender(port).map_err(|error| error.to_string());
    settle(c"weir-sender", &[], user)?;
    // The run reports the features that the kernel lacks.
    confine(rules, Part::Sender);
    Ok(())
}

/// Takes the name, the capabilities and the user of a process beside a run, which it survives no longer than its end.
fn settle(name: &std::ffi::CStr, kept: &[Capability], user: Option<&Account>) -> Result<(), String> {
    // Sets the name in lists of processes, which otherwise is that of the link to the program.
    let _ = rustix::thread::set_name(name);
    keep_only(kept, user)?;
    outlive_signals().map_err(|error| error.to_string())?;
    // Both are reset by a change of the user. The run has the same user, and must not look into this process.
    let _ = rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable);
    let _ = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
    Ok(())
}

/// Makes the run map rings on interfaces that return in a thread that can use their sockets for nothing else. Call it when
/// the privileges are dropped, and before other threads start.
pub fn map_apart(helper: &RingHelper) {
    let confine = || calls::refuse_others(Part::Mapper).map_err(std::io::Error::other);
    if let Err(error) = helper.map_apart(confine) {
        eprintln!(
            "weir: sockets of interfaces that return are not kept from the process that reads packets (Linux 5.9 and later \
             can): {error}"
        );
    }
}

/// Runs the helper process.
pub fn run(options: &cli::RingHelper) -> Exit {
    attempt(options).unwrap_or_else(|error| complain(Exit::Unreadable, format!("{NAME}: {error}")))
}

fn attempt(options: &cli::RingHelper) -> Result<Exit, String> {
    let socket = std::io::stdin().as_fd().try_clone_to_owned().map_err(|error| error.to_string())?;
    let user = options.uid.zip(options.gid).map(|(uid, gid)| Account::alone(uid, gid));
    let rules = Paths::nothing().map_err(|error| error.to_string());
    settle(c"weir-rings", &[Capability::CAP_NET_RAW], user.as_ref())?;
    // The run reports the features that the kernel lacks.
    confine(rules, Part::RingHelper);
    let rings = RingOptions {
        interfaces: options.interfaces.clone(),
        promiscuous: !options.no_promiscuous,
        ring_bytes: options.ring_bytes,
        block_timeout_ms: options.block_timeout,
        snaplen: options.snaplen,
        ..RingOptions::default()
    };
    RingHelper::serve(&socket, &rings, options.workers).map_err(|error| error.to_string())?;
    Ok(Exit::Good)
}

/// Handles the signals that end or inform a run by doing nothing: a service manager sends them to all processes of the
/// run, which still drains its rings.
fn outlive_signals() -> std::io::Result<()> {
    let unread = Arc::new(AtomicBool::new(false));
    for signal in [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2] {
        signal_hook::flag::register(signal, Arc::clone(&unread))?;
    }
    Ok(())
}
