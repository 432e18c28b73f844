//! The rules that look at the flows of a run.

use super::files::{self, Wanted};
use crate::cli::RuleOptions;
use crate::exit::Exit;
use weir_engine::Rules;

/// The rules of the options of a run, with a sentence if some are not in force; `None` without rules.
///
/// # Errors
/// A file cannot be read, or a variable is wrong: the exit code and the reason.
pub fn of_run(options: &RuleOptions) -> Result<Option<(Rules, Option<String>)>, (Exit, String)> {
    if options.rules.is_empty() {
        return Ok(None);
    }
    let read = files::read(&Wanted {
        paths: &options.rules,
        variables: &options.rule_var,
        thresholds: None,
        with_switched_off: false,
    })?;
    let refused = read.refused() > 0;
    let note = refused.then(|| format!("{}; `weir rules check` names the refused ones", read.total()));
    Ok(Some((Rules::new(read.program), note)))
}
