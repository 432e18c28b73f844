//! `weir rules test`: what of a rule fails on captures, and where.

use super::files::KnownFiles;
use super::of_run::{self, ReadOfRun, rules};
use super::tried::{Asked, in_words, object};
use super::{Outcome, number, pass, why_not_in_force};
use crate::cli::{RuleCaptures, RuleOptions};
use crate::exit::Exit;
use std::collections::HashSet;
use weir_detect::{Action, Onlooker, Program, ProgramOptions, Rule, Ruleset};

/// Tries a rule, by its sid or by its gid and sid. Exit code 1: there is no such rule, or it is not in force.
///
/// # Errors
/// What is to be read cannot be: the exit code and the reason.
pub fn test(wanted: &str, captures: &RuleCaptures) -> Result<Outcome, (Exit, String)> {
    let (gid, sid) = number(wanted)
        .ok_or_else(|| (Exit::Usage, format!("`{wanted}` is no sid, such as 2019401 or 1:2019401")))?;
    let ReadOfRun { mut read, options, judging, beyond, .. } = read(&captures.rules)?;
    let is_it = |rule: &Rule| rule.sid == sid && gid.is_none_or(|gid| rule.gid == gid);
    if !read.program.rules.iter().any(|known| is_it(known.rule())) {
        let reasons = why_not_in_force(&read, sid);
        return match reasons.is_empty() {
            true => Err((Exit::Usage, format!("no rule has the sid {sid}"))),
            false => Ok(Outcome { text: format!("The rule is not in force.\n{reasons}"), exit: Exit::Usage }),
        };
    }
    keep_related(&mut read.set, is_it);
    let classes: Vec<_> = read.classes.iter().flat_map(|(_, config)| config.rows.clone()).collect();
    let thresholds = read.thresholds.as_ref().map_or(&[][..], |(_, config)| &config.rows);
    // Without a search each part is tried wherever its buffers are.
    let how = ProgramOptions { actions: judging.order, searches: false, ..ProgramOptions::default() };
    let program = Program::with(&read.set, &classes, how).with_thresholds(thresholds);
    let at = program.rules.iter().position(|known| is_it(known.rule())).unwrap_or_default();
    let loaded = program.rules.get(at).map(|known| known.loaded.clone());
    let onlooker = Onlooker::of(at as u32);
    let rules = rules(program, &options, &judging).watched_by(onlooker.clone());
    let passed = pass::pass(captures, rules, &beyond)?;
    let trials = onlooker.take_trials();
    let Some(loaded) = loaded else { return Err((Exit::Usage, format!("no rule has the sid {sid}"))) };
    let asked = Asked::new(&loaded, &read, &options, passed.packets);
    let text = match captures.json {
        true => format!("{}\n", object(&asked, &trials)),
        false => in_words(&asked, &trials),
    };
    Ok(Outcome { text, exit: passed.exit })
}

/// Reads the rules of options, which must name some.
///
/// # Errors
/// They cannot be read: the exit code and the reason.
pub(super) fn read(options: &RuleOptions) -> Result<ReadOfRun, (Exit, String)> {
    if options.rules.is_empty() {
        return Err((Exit::Usage, "-S names the rules: a file, or a directory".to_owned()));
    }
    let read = of_run::read(options, &mut KnownFiles::default())?;
    if let Some(note) = &read.note {
        eprintln!("weir: {note}");
    }
    Ok(read)
}

/// What rules share beyond their own tests.
#[derive(Eq, Hash, PartialEq)]
enum Shared {
    FlowBit(Box<str>),
    FlowInt(Box<str>),
    HostBit(Box<str>),
}

fn shared(rule: &Rule) -> impl Iterator<Item = Shared> + '_ {
    let flow_bits = rule.flow_bits.iter().flat_map(|bits| bits.names.iter().cloned().map(Shared::FlowBit));
    let flow_ints = rule.flow_ints.iter().map(|int| Shared::FlowInt(int.name.clone()));
    let host_bits = rule.host_bits.iter().map(|bit| Shared::HostBit(bit.name.clone()));
    flow_bits.chain(flow_ints).chain(host_bits)
}

/// Keeps of a set a rule and what has an influence on it: rules with bits and numbers that it or one of these has, and those that let
/// flows pass.
fn keep_related(set: &mut Ruleset, is_it: impl Fn(&Rule) -> bool) {
    let is_related = |rule: &Rule, known: &HashSet<Shared>| {
        is_it(rule) || rule.header.action == Action::Pass || shared(rule).any(|name| known.contains(&name))
    };
    let mut known = HashSet::new();
    loop {
        let before = known.len();
        let rules = set.rules.iter().map(|loaded| &*loaded.rule);
        let names: Vec<Shared> = rules.filter(|rule| is_related(rule, &known)).flat_map(shared).collect();
        known.extend(names);
        if known.len() == before {
            break;
        }
    }
    set.rules.retain(|loaded| is_related(&loaded.rule, &known));
}
