//! The rules that look at the flows of a run.

use super::files::{self, KnownFiles, Read, Wanted};
use super::suricata::{Beyond, Suricata};
use crate::cli::RuleOptions;
use crate::exit::Exit;
use weir_detect::{Judging, Program};
use weir_engine::Rules;

/// The rules of a run.
#[derive(Default)]
pub struct OfRun {
    /// The rules that look at flows; `None` if none are given.
    pub rules: Option<Rules>,
    /// The options, with what a configuration of Suricata says in the place of its options.
    pub options: RuleOptions,
    /// What this configuration says of other parts of the run.
    pub beyond: Beyond,
    /// Sentences about keys of the configuration without effect, and about rules that are not in force.
    pub notes: Vec<String>,
    /// What was read.
    pub known: KnownFiles,
}

/// Reads the rules of the options of a run.
///
/// # Errors
/// A file cannot be read, a variable is wrong, or a value of a configuration: the exit code and the reason.
pub fn of_run(options: &RuleOptions) -> Result<OfRun, (Exit, String)> {
    if options.rules.is_empty() {
        return Ok(OfRun { options: options.clone(), ..OfRun::default() });
    }
    let mut known = KnownFiles::default();
    let ReadOfRun { read, options, judging, beyond, note } = read(options, &mut known)?;
    let notes = note.into_iter().chain(read.note()).collect();
    Ok(OfRun { rules: Some(rules(read.program, &options, &judging)), options, beyond, notes, known })
}

/// The rules of options, and what these say.
pub(super) struct ReadOfRun {
    pub read: Read,
    /// As in [`OfRun`].
    pub options: RuleOptions,
    pub judging: Judging,
    pub beyond: Beyond,
    /// A sentence about keys of a configuration without effect.
    pub note: Option<String>,
}

/// Reads the rules of options.
///
/// # Errors
/// As [`of_run`].
pub(super) fn read(options: &RuleOptions, known: &mut KnownFiles) -> Result<ReadOfRun, (Exit, String)> {
    let Suricata { variables, thresholds, judging, beyond, note } = Suricata::of(options)?;
    let options = RuleOptions {
        // The last one counts.
        rule_var: variables.into_iter().chain(options.rule_var.iter().cloned()).collect(),
        threshold_config: options.threshold_config.clone().or(thresholds),
        ..options.clone()
    };
    let read = files::read_again(&Wanted::of_run(&options, &judging), None, known)?;
    Ok(ReadOfRun { read, options, judging, beyond, note })
}

/// The rules of a program, as the options of a run want them.
pub(super) fn rules(program: Program, options: &RuleOptions, judging: &Judging) -> Rules {
    Rules::new(program).with_payload(options.alert_payload).judged_by(*judging)
}
