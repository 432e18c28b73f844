//! The rights that a run needs to open its rings, and how it gives them away.
//!
//! Only the opening of rings needs rights. When they are open, and before there is another thread, a run over links
//! becomes another user, keeps no capability and may not get any again, makes no system calls but those of `calls`, and
//! opens no files but those of `paths`. So neither parsers nor the store nor the pages ever run with the rights that
//! opened the rings. Rings on an interface that comes back are opened by a process of its own (`helper`).
//!
//! A run over files needs no rights. It is confined in the same way, but keeps its user, and as root the rights over
//! files: captures and folders may be of any user.

mod calls;
pub mod helper;
mod paths;
mod user;

pub use paths::{Paths, explained};
pub use user::Account;

use calls::Part;
use caps::{CapSet, Capability, CapsHashSet};
use landlock::RulesetCreated;
use std::path::Path;

/// What root needs to read captures and to write outputs that belong to any user.
static OVER_FILES: &[Capability] =
    &[Capability::CAP_DAC_OVERRIDE, Capability::CAP_DAC_READ_SEARCH, Capability::CAP_FOWNER];

/// Gives away what opened the rings. The folders of outputs are made before, for the user that will write to them.
///
/// # Errors
/// When the user cannot be taken, a right does not go, or the user may not write to an output.
pub fn give_up(user: Option<&Account>, paths: &Paths) -> Result<(), String> {
    one_thread()?;
    give_up_here(user, paths)
}

/// Gives away the rights of this thread and of those that it makes.
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

/// Confines a run over files: `paths` are its outputs, and everything may be read.
///
/// # Errors
/// When a right does not go.
pub fn confine_reader(paths: &mut Paths) -> Result<(), String> {
    one_thread()?;
    paths.make_folders(None)?;
    paths.read(Path::new("/"));
    let rules = paths.rules().map_err(|error| error.to_string());
    keep_only(OVER_FILES, None)?;
    // What the kernel lacks is said where there were rights to lose.
    confine(rules, Part::Run);
    Ok(())
}

/// Forbids the kernel to give this process rights again, and enforces `rules` and the system calls of a part. What the
/// kernel cannot enforce, for people.
fn confine(rules: Result<RulesetCreated, String>, part: Part) -> Vec<String> {
    let mut missing = Vec::new();
    if let Err(error) = rustix::thread::set_no_new_privs(true) {
        missing.push(format!("this kernel does not refuse new rights (no_new_privs): {error}"));
    }
    match rules.and_then(|rules| paths::enforce(rules).map_err(|error| error.to_string())) {
        Ok(true) => {}
        Ok(false) => missing.push(
            "this kernel has no Landlock (Linux 5.13 and later have it): which files can be opened is up to the user alone"
                .to_owned(),
        ),
        Err(error) => missing.push(format!("Landlock refuses its rules: {error}")),
    }
    if let Err(error) = calls::refuse_others(part) {
        missing.push(format!("system calls are not filtered: {error}"));
    }
    missing
}

/// Keeps these capabilities, as far as they are there, and becomes the user.
fn keep_only(kept: &[Capability], user: Option<&Account>) -> Result<(), String> {
    let failed = |what: &str| {
        let what = what.to_owned();
        move |error: caps::errors::CapsError| format!("{what}: {error}")
    };
    let permitted = caps::read(None, CapSet::Permitted).map_err(failed("capabilities cannot be read"))?;
    let kept: CapsHashSet = kept.iter().copied().filter(|one| permitted.contains(one)).collect();
    // What is not in the bounding set cannot come back by running a program. To take it out needs a capability too.
    if caps::has_cap(None, CapSet::Effective, Capability::CAP_SETPCAP).unwrap_or(false) {
        let bounding = caps::read(None, CapSet::Bounding).map_err(failed("capabilities cannot be read"))?;
        for other in bounding.difference(&kept) {
            caps::drop(None, CapSet::Bounding, *other).map_err(failed("a capability does not go"))?;
        }
    }
    if let Some(user) = user {
        // Another user keeps none, unless this is asked for.
        caps::securebits::set_keepcaps(!kept.is_empty()).map_err(failed("capabilities cannot be kept"))?;
        user.become_it()?;
        caps::securebits::set_keepcaps(false).map_err(failed("capabilities cannot be dropped"))?;
    }
    // A kernel without ambient capabilities has none.
    let _ = caps::clear(None, CapSet::Ambient);
    caps::clear(None, CapSet::Inheritable).map_err(failed("capabilities cannot be dropped"))?;
    for set in [CapSet::Effective, CapSet::Permitted] {
        caps::set(None, set, &kept).map_err(failed("capabilities cannot be dropped"))?;
    }
    for set in [CapSet::Effective, CapSet::Permitted] {
        if caps::read(None, set).map_err(failed("capabilities cannot be read"))? != kept {
            return Err("capabilities were dropped and are still there".to_owned());
        }
    }
    Ok(())
}

/// Rights belong to threads: what is given away here must not be in another one.
fn one_thread() -> Result<(), String> {
    match std::fs::read_dir("/proc/self/task").map(Iterator::count) {
        Ok(threads) if threads > 1 => {
            Err(format!("rights cannot be given away: there are {threads} threads already"))
        }
        // Without /proc it is not known.
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
