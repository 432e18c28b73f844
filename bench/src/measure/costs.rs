//! Measures the cost of the cost profile: the whole pass with its clock, and without.

use crate::clock::{median, timed};
use crate::{Packets, Result};
use serde_json::json;
use std::sync::{Arc, OnceLock};
use std::time::Instant;
use weir_api::{FunctionCall, SubscriptionSpec};
use weir_bench::random::Random;
use weir_bench::traffic::Pool;
use weir_engine::{ChecksumMode, FlowConfig, Plan, Settings, Worker};
use weir_filter::Options;

use crate::tables::Source;

/// The lists of the summary.
const LISTS: [&str; 5] = ["source", "port", "pair", "flow", "protocol"];

/// Number of batches between two readings of the thread's clock, and between two ends of an interval.
const PART: usize = 64;
const INTERVAL: usize = 512;

/// The program's clock.
fn clock() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

/// A chart with this number of lines and its remainder, flows and lists.
fn plan(lines: usize, pool: &Pool, seed: u64) -> Result<Plan> {
    let line = |name: &str, expression: &str, remainder| SubscriptionSpec {
        chart: Some("chart".to_owned()),
        remainder,
        ..SubscriptionSpec::new(name, expression, vec![FunctionCall::new("packets")])
    };
    let expressions = pool.expressions(lines, &mut Random(seed));
    let mut specs: Vec<_> = expressions.iter().map(|text| line(text, text, false)).collect();
    specs.push(line("xtra", "", true));
    specs.extend(LISTS.iter().map(|by| {
        SubscriptionSpec::new(&format!("by {by}"), "", vec![FunctionCall::new("top").with("by", by)])
    }));
    let settings = Settings {
        filter: Options::default(),
        checksum: ChecksumMode::Auto,
        seeds: seed.into(),
        chosen: None,
        own_apps: Default::default(),
        rules: None,
    };
    Ok(Plan::new("", specs, settings)?)
}

/// Measures and prints the rows. Both workers take equal packets, alternating in parts, each of them first every other
/// time; a round has this number of packets and gives one ratio.
pub fn measure(packets: usize, rounds: u32, seed: u64) -> Result<()> {
    let pool = Pool::new(&mut Random(seed));
    for which in [Packets::Zipf, Packets::Flood] {
        for lines in [1, 80, 10_000] {
            let plan = Arc::new(plan(lines, &pool, seed)?);
            let config = FlowConfig { seed: [seed, !seed], ..FlowConfig::default() };
            let mut with = Worker::new(Arc::clone(&plan), &config);
            with.measure(clock);
            let mut without = Worker::new(plan, &config);
            let mut source = Source::new(which, &pool, seed);
            let (mut ratios, mut each, mut base) = (Vec::new(), Vec::new(), Vec::new());
            // The first round fills tables and lists.
            for round in 0..=rounds {
                let (mut taken, mut done) = ([0, 0], 0);
                let mut part = 0;
                while done < packets {
                    let parts: Vec<_> = (0..PART).map(|_| source.take()).collect();
                    part += 1;
                    let pass = |worker: &mut Worker| {
                        timed(|| {
                            for (chunk, layers) in &parts {
                                worker.decoded(chunk.batch(), layers, &mut ());
                            }
                            if part % (INTERVAL / PART) == 0 {
                                worker.tick(source.now(), &mut ());
                            }
                        })
                    };
                    for turn in [part % 2, 1 - part % 2] {
                        taken[turn] += pass(if turn == 0 { &mut with } else { &mut without });
                    }
                    done += parts.iter().map(|(chunk, _)| chunk.slots.len()).sum::<usize>();
                }
                if round > 0 {
                    ratios.push(taken[0] as f64 / taken[1] as f64);
                    each.push(taken[0] as f64 / done as f64);
                    base.push(taken[1] as f64 / done as f64);
                }
            }
            let row = json!({
                "what": "costs", "traffic": format!("{which:?}").to_lowercase(), "lines": lines,
                "with": median(each), "without": median(base), "ratio": median(ratios),
            });
            println!("{row}");
        }
    }
    Ok(())
}
