//! The rules that look at the flows of a run.

use super::files::{self, Wanted};
use crate::cli::RuleOptions;
use crate::exit::Exit;
use weir_detect::{Class, Program};
use weir_engine::Rules;
use weir_output::figures::{count, counted};

/// The rules of the options of a run, with a sentence about those that are not in force; `None` without rules.
///
/// # Errors
/// A file cannot be read, or a variable is wrong: the exit code and the reason.
pub fn of_run(options: &RuleOptions) -> Result<Option<(Rules, String)>, (Exit, String)> {
    if options.rules.is_empty() {
        return Ok(None);
    }
    let read = files::read(&Wanted {
        paths: &options.rules,
        variables: &options.rule_var,
        thresholds: None,
        with_switched_off: false,
    })?;
    let classes: Vec<Class> = read.classes.iter().flat_map(|(_, config)| config.rows.clone()).collect();
    let program = Program::new(&read.set, &classes);
    let in_force = count(program.rules.len() as u64);
    let mut text = format!("{in_force} of {} in force", counted(read.set.offered() as u64, "rule"));
    let others = [
        (read.set.refusals.len() + program.unread.len(), "refused; `weir rules check` names them"),
        (read.set.replaced, "replaced by a rule with their sid"),
    ];
    for (number, what) in others.into_iter().filter(|(number, _)| *number > 0) {
        text.push_str(&format!("; {} {what}", count(number as u64)));
    }
    Ok(Some((Rules::new(program), text)))
}
