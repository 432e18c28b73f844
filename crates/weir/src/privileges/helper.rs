//! The helper process that opens rings on interfaces that return, after the run has dropped its privileges.
//!
//! It executes this program with a hidden subcommand. It has the user of the run, keeps only CAP_NET_RAW, opens no
//! files, and ends with the run.

use super::calls::Part;
use super::paths::Paths;
use super::{Account, confine, keep_only};
use crate::cli;
use crate::exit::{Exit, complain};
use caps::Capability;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::Arc;
use weir_capture::{RingHelper, RingOptions};

/// Name of the subcommand.
pub const NAME: &str = "ring-helper";

/// Starts the process, while this one is still privileged; `None` if no interface can return.
///
/// # Errors
/// The process cannot be started.
pub fn start(
    options: &RingOptions,
    workers: usize,
    user: Option<&Account>,
) -> Result<Option<Arc<RingHelper>>, String> {
    if options.interfaces.iter().all(|name| name == "any") {
        return Ok(None);
    }
    // The path of this program may belong to another file by now.
    let mut command = Command::new("/proc/self/exe");
    command.arg0("weir").arg(NAME).env_clear().current_dir("/");
    // Ctrl-C must reach only the run, which still drains its rings.
    command.process_group(0);
    command.args(["--workers", &workers.to_string()]);
    command.args(["--ring-bytes", &options.ring_bytes.to_string()]);
    command.args(["--block-timeout", &options.block_timeout_ms.to_string()]);
    if !options.promiscuous {
        command.arg("--no-promiscuous");
    }
    if let Some((uid, gid)) = user.map(Account::numbers) {
        command.args(["--uid", &uid.to_string(), "--gid", &gid.to_string()]);
    }
    command.arg("--").args(&options.interfaces);
    let started = RingHelper::start(&mut command);
    started
        .map(|helper| Some(Arc::new(helper)))
        .map_err(|error| format!("cannot start the process that reopens interfaces: {error}"))
}

/// Runs the helper process.
pub fn run(options: &cli::RingHelper) -> Exit {
    attempt(options).unwrap_or_else(|error| complain(Exit::Unreadable, format!("{NAME}: {error}")))
}

fn attempt(options: &cli::RingHelper) -> Result<Exit, String> {
    let socket = std::io::stdin().as_fd().try_clone_to_owned().map_err(|error| error.to_string())?;
    // Sets the name in lists of processes, which otherwise is that of the link to the program.
    let _ = rustix::thread::set_name(c"weir-rings");
    let user = options.uid.zip(options.gid).map(|(uid, gid)| Account::alone(uid, gid));
    let rules = Paths::nothing().map_err(|error| error.to_string());
    keep_only(&[Capability::CAP_NET_RAW], user.as_ref())?;
    // The run reports the features that the kernel lacks.
    confine(rules, Part::RingHelper);
    let rings = RingOptions {
        interfaces: options.interfaces.clone(),
        promiscuous: !options.no_promiscuous,
        ring_bytes: options.ring_bytes,
        block_timeout_ms: options.block_timeout,
        ..RingOptions::default()
    };
    RingHelper::serve(&socket, &rings, options.workers).map_err(|error| error.to_string())?;
    Ok(Exit::Good)
}
