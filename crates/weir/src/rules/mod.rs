//! `weir rules`: what is known of rule files without a packet.

mod addresses;
mod check;
mod explain;
mod files;
mod follow;
mod keywords;
mod of_run;
mod stats;
mod suricata;
mod update;

pub use files::KnownFiles;
pub use follow::{Following, Watched, directories};
pub use of_run::{OfRun, of_run};

use crate::cli::{RuleFiles, RulesCommand};
use crate::exit::{Exit, complain, print};
use addresses::AddressFiles;
use weir_detect::ActionOrder;

/// Runs the command.
pub fn rules(command: &RulesCommand) -> Exit {
    match command {
        RulesCommand::Check(options) => with_set(options, check::check),
        RulesCommand::Stats(options) => with_set(options, stats::stats),
        RulesCommand::Explain { sid, files } => {
            with_set(files, |read, as_json| explain::explain(read, sid, as_json))
        }
        RulesCommand::Update(options) => update::update(options),
        RulesCommand::Keywords { json } => print(&keywords::keywords(*json)),
    }
}

/// What a command prints, and with which exit code it ends.
struct Outcome {
    text: String,
    exit: Exit,
}

/// Reads the files and answers.
fn with_set(options: &RuleFiles, answer: impl Fn(&files::Read, bool) -> Outcome) -> Exit {
    let wanted = files::Wanted {
        paths: &options.paths,
        variables: &options.rule_var,
        thresholds: options.threshold_config.as_deref(),
        addresses: AddressFiles {
            categories: options.rule_categories.as_deref(),
            reputation: &options.rule_reputation,
            geoip: options.rule_geoip.as_deref(),
        },
        with_switched_off: options.all,
        actions: ActionOrder::default(),
    };
    match files::read(&wanted) {
        Ok(read) => {
            let outcome = answer(&read, options.json);
            print(&outcome.text).or(outcome.exit)
        }
        Err((exit, reason)) => complain(exit, reason),
    }
}
