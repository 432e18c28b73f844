//! The rules that look at the flows of a run.

use super::files::{self, KnownFiles, Wanted};
use crate::cli::RuleOptions;
use crate::exit::Exit;
use weir_detect::Program;
use weir_engine::Rules;

/// The rules of a run.
#[derive(Default)]
pub struct OfRun {
    /// The rules that look at flows; `None` if none are given.
    pub rules: Option<Rules>,
    /// A sentence, if some are not in force.
    pub note: Option<String>,
    /// What was read.
    pub known: KnownFiles,
}

/// Reads the rules of the options of a run.
///
/// # Errors
/// A file cannot be read, or a variable is wrong: the exit code and the reason.
pub fn of_run(options: &RuleOptions) -> Result<OfRun, (Exit, String)> {
    if options.rules.is_empty() {
        return Ok(OfRun::default());
    }
    let mut known = KnownFiles::default();
    let read = files::read_again(&Wanted::of_run(options), None, &mut known)?;
    let note = read.note();
    Ok(OfRun { rules: Some(rules(read.program, options)), note, known })
}

/// The rules of a program, as the options of a run want them.
pub(super) fn rules(program: Program, options: &RuleOptions) -> Rules {
    Rules::new(program).with_payload(options.alert_payload)
}
