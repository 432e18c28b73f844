//! A pass over captures in which rules look at flows, and nothing is written.

use super::suricata::Beyond;
use crate::cli::{Checksum, RuleCaptures};
use crate::drive::WholeRun;
use crate::exit::Exit;
use crate::inputs::{filter_options, inputs, report_read_errors};
use crate::offline::{self, Input, Outcome};
use crate::{clock, subscriptions};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use weir_capture::{Files, ReadOptions};
use weir_engine::{ChecksumMode, FlowConfig, Plan, Rules, Settings, Worker};

/// Interval at which idle flows end, in nanoseconds of packet time.
const TICK: u64 = 1_000_000_000;

/// What a pass has read, and how long it took.
pub struct Passed {
    /// The number of packets.
    pub packets: u64,
    /// Nanoseconds.
    pub took: u64,
    /// Whether all was read.
    pub exit: Exit,
}

/// Shows all packets of captures to rules, by one worker: what looks on sees them in their order.
///
/// # Errors
/// A capture cannot be opened: the exit code and the reason.
pub fn pass(captures: &RuleCaptures, rules: Rules, beyond: &Beyond) -> Result<Passed, (Exit, String)> {
    let checksum = match captures.checksum {
        Checksum::Auto => beyond.checksum.unwrap_or(ChecksumMode::Auto),
        mode => mode.into(),
    };
    let settings = Settings {
        filter: filter_options(false, false, 0),
        checksum,
        seeds: 1_u64.into(),
        chosen: None,
        own_apps: Default::default(),
        rules: Some(rules),
    };
    let plan = Plan::of(None, 1, "", &subscriptions::of_rules(), settings)
        .map_err(|error| (Exit::Usage, error.to_string()))?;
    let plan = Arc::new(plan);
    let flows = FlowConfig { checksums: checksum.verified(), ..FlowConfig::default() };
    let worker = Worker::new(Arc::clone(&plan), &flows);
    let files = Files::open(&inputs(&captures.captures), &ReadOptions::default())
        .map_err(|error| (crate::inputs::exit_of(&error), error.to_string()))?;
    let stop = AtomicBool::new(false);
    let begin = clock::nanoseconds();
    let input = Input::whole(files, &plan, TICK, &stop);
    let (Outcome { errors, .. }, WholeRun { packets, .. }) = offline::run_one(input, worker, ());
    let took = clock::nanoseconds().saturating_sub(begin);
    Ok(Passed { packets, took, exit: report_read_errors(&errors) })
}
