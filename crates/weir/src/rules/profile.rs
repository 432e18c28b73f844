//! `weir rules profile`: what each rule costs on captures.

use super::of_run::{ReadOfRun, rules};
use super::{Outcome, pass, test};
use crate::cli::RuleCaptures;
use crate::clock;
use crate::exit::Exit;
use serde_json::{Value, json};
use weir_detect::{LoadedRule, Onlooker, RuleCost};
use weir_output::aligned;
use weir_output::figures::{count, counted, decimal, duration, percent, printable};

/// Number of rules that are shown.
const SHOWN: usize = 20;

/// Measures the rules on captures.
///
/// # Errors
/// What is to be read cannot be: the exit code and the reason.
pub fn profile(captures: &RuleCaptures) -> Result<Outcome, (Exit, String)> {
    let ReadOfRun { read, options, judging, beyond, .. } = test::read(&captures.rules)?;
    let loaded: Vec<LoadedRule> = read.program.rules.iter().map(|known| known.loaded.clone()).collect();
    let onlooker = Onlooker::costs(clock::nanoseconds);
    let rules = rules(read.program, &options, &judging).watched_by(onlooker.clone());
    let passed = pass::pass(captures, rules, &beyond)?;
    let mut rows: Vec<(&LoadedRule, RuleCost)> = loaded.iter().zip(onlooker.take_costs()).collect();
    rows.retain(|(_, cost)| *cost != RuleCost::default());
    rows.sort_by_key(|(loaded, cost)| {
        (std::cmp::Reverse((cost.nanoseconds, cost.found)), loaded.rule.gid, loaded.rule.sid)
    });
    let sum = rows.iter().fold(RuleCost::default(), |mut sum, (_, cost)| {
        sum.add(cost);
        sum
    });
    let profile = Profile { rules: loaded.len(), rows, sum, packets: passed.packets, took: passed.took };
    let text = match captures.json {
        true => format!("{}\n", profile.object()),
        false => profile.in_words(),
    };
    Ok(Outcome { text, exit: passed.exit })
}

/// What rules cost.
struct Profile<'r> {
    /// The number of rules in force.
    rules: usize,
    /// Those that a search found anywhere, or that are tried without one; the dearest first.
    rows: Vec<(&'r LoadedRule, RuleCost)>,
    sum: RuleCost,
    packets: u64,
    /// Nanoseconds of the pass.
    took: u64,
}

impl Profile<'_> {
    fn per_packet(&self, n: u64) -> f64 {
        n as f64 / self.packets.max(1) as f64
    }

    fn in_words(&self) -> String {
        let Self { rows, sum, took, .. } = self;
        let row = |(loaded, cost): &(&LoadedRule, RuleCost)| {
            let rule = &loaded.rule;
            vec![
                format!("{}:{}", rule.gid, rule.sid),
                count(cost.found),
                count(cost.verified),
                count(cost.held),
                count(cost.matched),
                duration(cost.nanoseconds),
                percent(cost.nanoseconds, sum.nanoseconds),
                duration(cost.nanoseconds.checked_div(cost.verified).unwrap_or_default()),
                printable(&rule.message),
            ]
        };
        let head = ["rule", "found", "verified", "held", "matched", "time", "share", "each", "message"];
        let shown: Vec<_> = rows.iter().take(SHOWN).map(row).collect();
        let is_number = [false, true, true, true, true, true, true, true];
        let table = aligned(&head.map(str::to_owned), &shown, &is_number);
        let left = rows.len().saturating_sub(SHOWN);
        let more = match left {
            0 => String::new(),
            left => format!("and {} more: --json has all\n", counted(left as u64, "rule")),
        };
        format!(
            "{table}{more}\n{} of {} were found in {}: {} a packet found, {} verified; {} matches\n\
             their tests took {} of {}, {} ({} ns a packet)\n",
            count(rows.len() as u64),
            counted(self.rules as u64, "rule"),
            counted(self.packets, "packet"),
            decimal(self.per_packet(sum.found)),
            decimal(self.per_packet(sum.verified)),
            count(sum.matched),
            duration(sum.nanoseconds),
            duration(*took),
            percent(sum.nanoseconds, *took),
            decimal(self.per_packet(sum.nanoseconds)),
        )
    }

    fn object(&self) -> Value {
        let row = |(loaded, cost): &(&LoadedRule, RuleCost)| {
            let rule = &loaded.rule;
            json!({
                "gid": rule.gid,
                "sid": rule.sid,
                "message": &*rule.message,
                "found": cost.found,
                "verified": cost.verified,
                "held": cost.held,
                "matched": cost.matched,
                "nanoseconds": cost.nanoseconds,
            })
        };
        json!({
            "packets": self.packets,
            "nanoseconds": self.took,
            "in_force": self.rules,
            "verified": self.sum.verified,
            "nanoseconds_of_tests": self.sum.nanoseconds,
            "rules": self.rows.iter().map(row).collect::<Vec<_>>(),
        })
    }
}
