//! `weir rules`: what is known of rule files, and what rules do on captures.

mod addresses;
mod check;
mod explain;
mod files;
mod follow;
mod keywords;
mod of_run;
mod pass;
mod profile;
mod stats;
mod suricata;
mod test;
mod train;
mod tried;
mod update;

pub use files::KnownFiles;
pub use follow::{Following, Watched, directories};
pub use of_run::{OfRun, of_run};

use crate::cli::{RuleFiles, RulesCommand};
use crate::exit::{Exit, complain, print};
use addresses::AddressFiles;
use weir_detect::ProgramOptions;

/// Runs the command.
pub fn rules(command: &RulesCommand) -> Exit {
    match command {
        RulesCommand::Check(options) => with_set(options, check::check),
        RulesCommand::Stats(options) => with_set(options, stats::stats),
        RulesCommand::Explain { sid, files } => {
            with_set(files, |read, as_json| explain::explain(read, sid, as_json))
        }
        RulesCommand::Test { sid, captures } => said(test::test(sid, captures)),
        RulesCommand::Profile(captures) => said(profile::profile(captures)),
        RulesCommand::Train { captures, output } => said(train::train(captures, output)),
        RulesCommand::Update(options) => update::update(options),
        RulesCommand::Keywords { json } => print(&keywords::keywords(*json)),
    }
}

/// What a command prints, and with which exit code it ends.
struct Outcome {
    text: String,
    exit: Exit,
}

/// Prints the result.
fn said(result: Result<Outcome, (Exit, String)>) -> Exit {
    match result {
        Ok(outcome) => print(&outcome.text).or(outcome.exit),
        Err((exit, reason)) => complain(exit, reason),
    }
}

/// The gid, if there is one, and the sid of a rule: `2019401` or `1:2019401`.
fn number(text: &str) -> Option<(Option<u32>, u32)> {
    match text.split_once(':') {
        Some((gid, sid)) => Some((Some(gid.parse().ok()?), sid.parse().ok()?)),
        None => Some((None, text.parse().ok()?)),
    }
}

/// Why a rule with this sid is not in force; empty if no rule has it.
fn why_not_in_force(read: &files::Read, sid: u32) -> String {
    let refused = read.set.refusals.iter().filter(|refusal| refusal.sid == Some(sid)).map(check::refusal);
    let unread = read.program.unread.iter().filter(|(loaded, _)| loaded.rule.sid == sid).map(check::unread);
    refused.chain(unread).collect()
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
        program: ProgramOptions::default(),
        rarity: None,
    };
    match files::read(&wanted) {
        Ok(read) => {
            let outcome = answer(&read, options.json);
            print(&outcome.text).or(outcome.exit)
        }
        Err((exit, reason)) => complain(exit, reason),
    }
}
