//! Dropping of privileges after the rings are open.
//!
//! Only the opening of rings needs privileges. When they are open, and before other threads start, a live run changes
//! its user, drops all capabilities for good, allows only the system calls of `calls`, and opens only the files of
//! `paths`. Thus parsers, store and pages never run with the privileges that opened the rings. A separate process
//! (`helper`) opens rings on interfaces that return.
//!
//! A run over files needs no privileges. Its captures are opened first. Then it is confined likewise, but keeps its user, and as root the
//! capabilities to write into folders that belong to other users, if its outputs are in such folders.

mod calls;
pub mod helper;
mod paths;
mod user;

pub use paths::{Paths, Unwritable, explained, may_create_in, may_write};
pub use user::Account;

use calls::Part;
use caps::{CapSet, Capability, CapsHashSet};
use landlock::RulesetCreated;

/// Capabilities with which root writes outputs into folders of any user, and reads captures that are not open yet. Landlock limits
/// both to the paths of the run.
static OVER_FILES: &[Capability] = &[Capability::CAP_DAC_OVERRIDE, Capability::CAP_FOWNER];

/// Drops the privileges that opened the rings. Creates the folders of outputs before, for the user that will write to
/// them.
///
/// # Errors
/// The user cannot be changed, a capability cannot be dropped, or the user may not write to an output.
pub fn give_up(user: Option<&Account>, paths: &Paths) -> Result<(), String> {
    one_thread()?;
    give_up_here(user, paths)
}

/// Becomes a user, with its rights alone: for a check of what that user may do.
///
/// # Errors
/// The process has several threads, or the user cannot be changed.
pub fn act_as(user: &Account) -> Result<(), String> {
    one_thread()?;
    keep_only(&[], Some(user))
}

/// Drops the privileges of this thread and of its later children.
fn give_up_here(user: Option<&Account>, paths: &Paths) -> Result<(), String> {
    paths.make_folders(user)?;
    let rules = paths.rules().map_err(|error| error.to_string());
    keep_only(&[], user)?;
    paths.check()?;
    for missing in confine(rules, Part::Run) {
        eprintln!("weir: {missing}");
    }
    Ok(())
}

/// Confines a run over files to `paths`: its outputs, and the inputs that are not open. It keeps capabilities over files only if it
/// needs them for one of these.
///
/// # Errors
/// A capability cannot be dropped.
pub fn confine_reader(paths: &Paths) -> Result<(), String> {
    one_thread()?;
    paths.make_folders(None)?;
    let rules = paths.rules().map_err(|error| error.to_string());
    keep_only(if paths.are_own() { &[] } else { OVER_FILES }, None)?;
    // Missing features of the kernel are reported only in runs that drop privileges.
    confine(rules, Part::Run);
    Ok(())
}

/// Prevents the process from gaining privileges again, and enforces `rules` and the system calls of a part. Returns
/// messages about features that the kernel lacks.
fn confine(rules: Result<RulesetCreated, String>, part: Part) -> Vec<String> {
    let mut missing = Vec::new();
    if let Err(error) = rustix::thread::set_no_new_privs(true) {
        missing.push(format!("this kernel does not support no_new_privs: {error}"));
    }
    match rules.and_then(|rules| paths::enforce(rules).map_err(|error| error.to_string())) {
        Ok(true) => {}
        Ok(false) => missing.push(
            "this kernel has no Landlock (Linux 5.13 and later have it): access to files is restricted only by the user's permissions"
                .to_owned(),
        ),
        Err(error) => missing.push(format!("Landlock refuses its rules: {error}")),
    }
    if let Err(error) = calls::refuse_others(part) {
        missing.push(format!("system calls are not filtered: {error}"));
    }
    missing
}

/// Keeps these capabilities, if the process has them, and changes the user.
fn keep_only(kept: &[Capability], user: Option<&Account>) -> Result<(), String> {
    let failed = |what: &str| {
        let what = what.to_owned();
        move |error: caps::errors::CapsError| format!("{what}: {error}")
    };
    let permitted = caps::read(None, CapSet::Permitted).map_err(failed("capabilities cannot be read"))?;
    let kept: CapsHashSet = kept.iter().copied().filter(|one| permitted.contains(one)).collect();
    // A capability outside the bounding set cannot return by executing a program. Removing it needs a capability too.
    if caps::has_cap(None, CapSet::Effective, Capability::CAP_SETPCAP).unwrap_or(false) {
        let bounding = caps::read(None, CapSet::Bounding).map_err(failed("capabilities cannot be read"))?;
        for other in bounding.difference(&kept) {
            caps::drop(None, CapSet::Bounding, *other).map_err(failed("a capability cannot be dropped"))?;
        }
    }
    if let Some(user) = user {
        // A change of the user drops all capabilities unless this is set.
        caps::securebits::set_keepcaps(!kept.is_empty()).map_err(failed("capabilities cannot be kept"))?;
        user.become_it()?;
        caps::securebits::set_keepcaps(false).map_err(failed("capabilities cannot be dropped"))?;
    }
    // Fails on kernels without ambient capabilities, which need no clearing.
    let _ = caps::clear(None, CapSet::Ambient);
    caps::clear(None, CapSet::Inheritable).map_err(failed("capabilities cannot be dropped"))?;
    for set in [CapSet::Effective, CapSet::Permitted] {
        caps::set(None, set, &kept).map_err(failed("capabilities cannot be dropped"))?;
    }
    for set in [CapSet::Effective, CapSet::Permitted] {
        if caps::read(None, set).map_err(failed("capabilities cannot be read"))? != kept {
            return Err("capabilities were dropped and are still present".to_owned());
        }
    }
    Ok(())
}

/// Checks that the process has one thread. Privileges belong to threads, and another thread would keep them.
fn one_thread() -> Result<(), String> {
    match std::fs::read_dir("/proc/self/task").map(Iterator::count) {
        Ok(threads) if threads > 1 => {
            Err(format!("cannot drop privileges: {threads} threads are running already"))
        }
        // Without /proc the number is unknown.
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
