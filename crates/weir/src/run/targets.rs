//! The targets of functions that deliver, in a run: what is checked before it, and where they are opened.

use super::{Request, Run};
use crate::collector::TargetPlan;
use crate::delivered::{Delivered, DestinationKind};
use std::path::Path;
use std::sync::Arc;
use weir_api::AnswerId;
use weir_engine::{Plan, Target};
use weir_output::check_name;

/// Checks that a run can open the targets of a plan.
///
/// # Errors
/// It cannot: the text says what to change.
pub fn check(plan: &Plan, request: &Request) -> Result<(), String> {
    for (id, target) in plan.targets() {
        let wrong = |text: &str| {
            let name = plan.name(id.subscription).unwrap_or_default();
            format!("subscription `{name}`: {text}")
        };
        if let Target::Log(log) = target {
            check_name(log).map_err(|error| wrong(&error))?;
        }
        let kind = target.kind();
        match &request.logs {
            None => {
                let text = format!(
                    "the {kind} {target} needs a directory: give it with --output DIR, or as `dir` in [output] of weir.toml"
                );
                return Err(wrong(&text));
            }
            Some(_) if request.streams_log() => {
                let text =
                    format!("the {kind} {target} needs a directory, and --output - is standard output");
                return Err(wrong(&text));
            }
            Some(_) => {}
        }
    }
    Ok(())
}

impl Run {
    /// What is counted of a target.
    pub(super) fn counts_of(&self, target: &Target) -> Arc<Delivered> {
        let kind = match target {
            Target::Files(_) => DestinationKind::Files,
            Target::Log(_) => DestinationKind::Log,
            Target::Packets { .. } => DestinationKind::Packets,
        };
        self.destinations.of(kind, &target.to_string())
    }

    /// The logs of the functions of a plan in the directory of a request's logs. A request without one has no logs.
    pub(super) fn targets(&self, plan: &Plan, request: &Request) -> TargetPlan {
        let directory = request.logs.as_ref().map_or(Path::new(""), |(directory, _)| directory);
        let log = |(id, target): (AnswerId, &Target)| {
            let Target::Log(log) = target else { return None };
            Some((id, log.clone(), self.counts_of(target)))
        };
        TargetPlan { context: self.context(directory), functions: plan.targets().filter_map(log).collect() }
    }
}
