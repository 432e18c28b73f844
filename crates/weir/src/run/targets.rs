//! The targets of functions that deliver, in a run: what is checked before it, and where they are opened.

use super::{Request, Run, written};
use crate::collector::TargetPlan;
use crate::delivered::{Delivered, DestinationKind};
use crate::outputs;
use std::path::Path;
use std::sync::Arc;
use weir_api::AnswerId;
use weir_engine::{Place, Plan, Target};
use weir_output::{Log, OutputContext, check_name};

/// Checks that a run can open the targets of a plan. `is_anonymised`: nothing may leave as it was.
///
/// # Errors
/// It cannot: the text says what to change.
pub fn check(plan: &Plan, request: &Request, is_anonymised: bool) -> Result<(), String> {
    let logs: Vec<&str> = request.logs.iter().flat_map(|(_, kinds)| kinds).map(String::as_str).collect();
    for (id, target) in plan.targets() {
        let wrong = |text: &str| {
            let name = plan.name(id.subscription).unwrap_or_default();
            format!("subscription `{name}`: {text}")
        };
        if let Target::Log(log) = target {
            check_name(log).map_err(|error| wrong(&error))?;
        }
        if let Target::OfRun(name) = target {
            check_files(name, &logs).map_err(|error| wrong(&error))?;
        }
        if let Target::Packets { file, of: Some(_) } = target
            && file.place == Place::Path
            && &*file.name == "-"
        {
            return Err(wrong("standard output is for -w; give another file"));
        }
        if matches!(target, Target::Files(_)) && is_anonymised {
            return Err(wrong("files are written as they are, which cannot be combined with anonymisation"));
        }
        let Some(Place::Logs) = target.place() else { continue };
        let kind = target.kind();
        match &request.logs {
            None => {
                let text = format!(
                    "the {kind} {target} needs a directory: give it with --output DIR, or as `dir` in [output] of weir.toml"
                );
                return Err(wrong(&text));
            }
            // What standard output can have was checked.
            Some(_) if request.streams_log() && matches!(target, Target::OfRun(_)) => {}
            Some(_) if request.streams_log() => {
                let text =
                    format!("the {kind} {target} needs a directory, and --output - is standard output");
                return Err(wrong(&text));
            }
            Some(_) => {}
        }
    }
    written::check(plan, request)
}

/// Checks that a log whose rows an expression selects has no file of a log of all rows.
fn check_files(name: &str, logs: &[&str]) -> Result<(), String> {
    let known = outputs::all();
    let one = Log::find(&known, name)?;
    for other in logs.iter().filter_map(|text| Log::find(&known, text).ok()) {
        if let Some(file) = one.shares(&other) {
            return Err(format!(
                "--log {} writes all its rows into the files of {name}, such as {file}: leave it out",
                other.text()
            ));
        }
    }
    Ok(())
}

impl Run {
    /// What is counted of a target.
    pub(super) fn counts_of(&self, target: &Target) -> Arc<Delivered> {
        let kind = match target {
            Target::Files(_) => DestinationKind::Files,
            Target::Log(_) | Target::OfRun(_) | Target::Names | Target::Streams => DestinationKind::Log,
            Target::Rows(_) => DestinationKind::OfRun,
            Target::Packets { .. } => DestinationKind::Packets,
        };
        self.destinations.of(kind, &target.to_string())
    }

    /// The logs of the functions of a plan in the directory of a request's logs. A request without one has no logs.
    pub(super) fn targets(&self, plan: &Plan, request: &Request) -> TargetPlan {
        let directory = request.logs.as_ref().map_or(Path::new(""), |(directory, _)| directory);
        let log = |(id, target): (AnswerId, &Target)| {
            let is_log = matches!(target, Target::Log(_) | Target::OfRun(_));
            is_log.then(|| (id, target.clone(), self.counts_of(target)))
        };
        let context = OutputContext { is_stream: request.streams_log(), ..self.context(directory) };
        let keep = self.keep();
        TargetPlan { context, keep, functions: plan.targets().filter_map(log).collect() }
    }
}
