//! The process that opens rings on interfaces that come back, beside a run that has given its rights away.
//!
//! It is this program again, with a hidden subcommand. It has the user of the run, keeps CAP_NET_RAW and nothing else,
//! opens no file, and ends with the run.

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

/// The name of the subcommand.
pub const NAME: &str = "ring-helper";

/// Starts the process, while this one still has its rights; `None` where no interface can come back.
///
/// # Errors
/// When it does not start.
pub fn start(
    options: &RingOptions,
    workers: usize,
    user: Option<&Account>,
) -> Result<Option<Arc<RingHelper>>, String> {
    if options.interfaces.iter().all(|name| name == "any") {
        return Ok(None);
    }
    // The file of this program may be another one by now.
    let mut command = Command::new("/proc/self/exe");
    command.arg0("weir").arg(NAME).env_clear().current_dir("/");
    // Ctrl-C is for the run, which still drains its rings.
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
        .map_err(|error| format!("the process that opens interfaces again does not start: {error}"))
}

/// What the process does.
pub fn run(options: &cli::RingHelper) -> Exit {
    attempt(options).unwrap_or_else(|error| complain(Exit::Unreadable, format!("{NAME}: {error}")))
}

fn attempt(options: &cli::RingHelper) -> Result<Exit, String> {
    let socket = std::io::stdin().as_fd().try_clone_to_owned().map_err(|error| error.to_string())?;
    // Its name in lists of processes, where it is otherwise that of the link to the program.
    let _ = rustix::thread::set_name(c"weir-rings");
    let user = options.uid.zip(options.gid).map(|(uid, gid)| Account::alone(uid, gid));
    let rules = Paths::nothing().map_err(|error| error.to_string());
    keep_only(&[Capability::CAP_NET_RAW], user.as_ref())?;
    // The run says what the kernel lacks.
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
