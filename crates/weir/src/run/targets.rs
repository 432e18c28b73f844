//! The targets of functions that deliver, in a run: what is checked before it, and where they are opened.

use super::{Request, Run};
use crate::collector::TargetPlan;
use std::path::Path;
use weir_engine::{Plan, Target};
use weir_output::check_name;

/// Checks that a run can open the targets of a plan.
///
/// # Errors
/// It cannot: the text says what to change.
pub fn check(plan: &Plan, request: &Request) -> Result<(), String> {
    for (id, target) in plan.targets() {
        let Target::Log(log) = target;
        let wrong = |text: &str| {
            let name = plan.name(id.subscription).unwrap_or_default();
            format!("subscription `{name}`: {text}")
        };
        check_name(log).map_err(|error| wrong(&error))?;
        match &request.logs {
            None => {
                let text = format!(
                    "the log {target} needs a directory: give it with --output DIR, or as `dir` in [output] of weir.toml"
                );
                return Err(wrong(&text));
            }
            Some(_) if request.streams_log() => {
                let text = format!("the log {target} needs a directory, and --output - is standard output");
                return Err(wrong(&text));
            }
            Some(_) => {}
        }
    }
    Ok(())
}

impl Run {
    /// The targets of a plan in the directory of a request's logs. A request without one has no targets.
    pub(super) fn targets(&self, plan: &Plan, request: &Request) -> TargetPlan {
        let directory = request.logs.as_ref().map_or(Path::new(""), |(directory, _)| directory);
        TargetPlan {
            context: self.context(directory),
            functions: plan.targets().map(|(id, target)| (id, target.clone())).collect(),
        }
    }
}
