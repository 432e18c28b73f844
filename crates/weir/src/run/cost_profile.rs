//! What each subscription and each stage has cost: the receipts that `-v` shows.

use serde_json::{Value, json};
use std::fmt::Write;
use weir_api::web::CostRow;
use weir_api::{Answer, Snapshot};
use weir_engine::UNIDENTIFIED;
use weir_output::figures::printable;

/// Lines of a chart, and answers of a subscription, are one receipt.
struct CostProfile<'s> {
    name: &'s str,
    chart: Option<&'s str>,
    lines: usize,
    nanoseconds: u64,
}

fn cost_profile(total: &Snapshot) -> Vec<CostProfile<'_>> {
    let mut cost_profile: Vec<CostProfile<'_>> = Vec::new();
    let mut last: Option<&Answer> = None;
    // What no protocol knows is counted with the flows, and has no cost of its own.
    for answer in total.answers.iter().filter(|answer| answer.function != UNIDENTIFIED) {
        let is_same = last.is_some_and(|last| {
            let same_chart = answer.chart.is_some() && last.chart == answer.chart;
            same_chart || (answer.chart == last.chart && answer.subscription == last.subscription)
        });
        let is_same_line = last.is_some_and(|last| last.subscription == answer.subscription);
        match cost_profile.last_mut().filter(|_| is_same) {
            Some(profile) => {
                profile.lines += usize::from(!is_same_line);
                profile.nanoseconds += answer.nanoseconds;
            }
            None => cost_profile.push(CostProfile {
                name: answer.chart.as_deref().unwrap_or(&answer.subscription),
                chart: answer.chart.as_deref(),
                lines: 1,
                nanoseconds: answer.nanoseconds,
            }),
        }
        last = Some(answer);
    }
    cost_profile
}

fn per_packet(nanoseconds: u64, total: &Snapshot) -> f64 {
    nanoseconds as f64 / total.ledger.analysed.max(1) as f64
}

/// A table for people; empty where nothing was measured.
pub fn table(total: &Snapshot) -> String {
    let stages = total.costs.parts();
    let cost_profile = cost_profile(total);
    if stages.iter().all(|(_, ns)| *ns == 0) && cost_profile.iter().all(|profile| profile.nanoseconds == 0) {
        return String::new();
    }
    let mut text = String::from("\nCost, in nanoseconds a packet\n");
    let mut row = |name: &str, nanoseconds: u64| {
        let _ = writeln!(text, "  {name:<46} {:>20.2}", per_packet(nanoseconds, total));
    };
    for (stage, nanoseconds) in stages.into_iter().filter(|(_, nanoseconds)| *nanoseconds > 0) {
        row(&format!("stage {stage}"), nanoseconds);
    }
    for CostProfile { name, chart, lines, nanoseconds } in cost_profile {
        match chart {
            Some(_) => row(&format!("chart {}, {lines} lines", printable(name)), nanoseconds),
            None => row(&printable(name), nanoseconds),
        }
    }
    text
}

/// One line for programs.
pub fn json(total: &Snapshot) -> String {
    let stages: serde_json::Map<String, Value> = total
        .costs
        .parts()
        .into_iter()
        .map(|(stage, ns)| (stage.to_owned(), json!({"ns": ns, "ns_per_packet": per_packet(ns, total)})))
        .collect();
    let subscriptions: Vec<Value> = total
        .answers
        .iter()
        .map(|answer| {
            json!({
                "subscription": answer.subscription,
                "chart": answer.chart,
                "function": answer.function,
                "ns": answer.nanoseconds,
                "ns_per_packet": per_packet(answer.nanoseconds, total),
            })
        })
        .collect();
    let packets = total.ledger.analysed;
    json!({"v": 1, "kind": "costs", "packets": packets, "stages": stages, "subscriptions": subscriptions})
        .to_string()
        + "\n"
}

/// The same as rows, stages first.
pub fn costs(total: &Snapshot) -> Vec<CostRow> {
    let row = |name: &str, kind: &str, nanoseconds: u64| CostRow {
        name: name.to_owned(),
        kind: kind.to_owned(),
        ns_per_packet: per_packet(nanoseconds, total),
    };
    let stages = total.costs.parts().into_iter().map(|(stage, nanoseconds)| row(stage, "stage", nanoseconds));
    let cost_profile = cost_profile(total);
    let subscriptions =
        cost_profile.iter().map(|profile| row(profile.name, "subscription", profile.nanoseconds));
    stages.chain(subscriptions).collect()
}
