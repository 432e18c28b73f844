//! The cost profile: processing cost of each stage and subscription, which `-v` shows.

use serde_json::{Value, json};
use std::fmt::Write;
use weir_api::web::CostRow;
use weir_api::{Answer, Snapshot};
use weir_output::figures::printable;

/// The cost of a subscription, or of all lines of a chart.
struct Cost<'s> {
    name: &'s str,
    chart: Option<&'s str>,
    lines: usize,
    nanoseconds: u64,
}

fn subscriptions(total: &Snapshot) -> Vec<Cost<'_>> {
    let mut costs: Vec<Cost<'_>> = Vec::new();
    let mut last: Option<&Answer> = None;
    for answer in &total.answers {
        let is_same = last.is_some_and(|last| {
            let same_chart = answer.label.chart.is_some() && last.label.chart == answer.label.chart;
            same_chart
                || (answer.label.chart == last.label.chart
                    && answer.label.subscription == last.label.subscription)
        });
        let is_same_line = last.is_some_and(|last| last.label.subscription == answer.label.subscription);
        match costs.last_mut().filter(|_| is_same) {
            Some(cost) => {
                cost.lines += usize::from(!is_same_line);
                cost.nanoseconds += answer.nanoseconds;
            }
            None => costs.push(Cost {
                name: answer.label.chart.as_deref().unwrap_or(&answer.label.subscription),
                chart: answer.label.chart.as_deref(),
                lines: 1,
                nanoseconds: answer.nanoseconds,
            }),
        }
        last = Some(answer);
    }
    costs
}

fn per_packet(nanoseconds: u64, total: &Snapshot) -> f64 {
    nanoseconds as f64 / total.ledger.analysed.max(1) as f64
}

/// The cost profile as a table; "" if nothing was measured.
pub fn table(total: &Snapshot) -> String {
    let stages = total.costs.parts();
    let subscriptions = subscriptions(total);
    if stages.iter().all(|(_, ns)| *ns == 0) && subscriptions.iter().all(|cost| cost.nanoseconds == 0) {
        return String::new();
    }
    let mut text = String::from("\nProcessing cost, ns per packet\n");
    let mut row = |name: &str, nanoseconds: u64| {
        let _ = writeln!(text, "  {name:<46} {:>20.2}", per_packet(nanoseconds, total));
    };
    for (stage, nanoseconds) in stages.into_iter().filter(|(_, nanoseconds)| *nanoseconds > 0) {
        row(&format!("stage {stage}"), nanoseconds);
    }
    for Cost { name, chart, lines, nanoseconds } in subscriptions {
        match chart {
            Some(_) => row(&format!("chart {}, {lines} lines", printable(name)), nanoseconds),
            None => row(&printable(name), nanoseconds),
        }
    }
    text
}

/// The cost profile as one line of JSON.
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
                "subscription": answer.label.subscription,
                "chart": answer.label.chart,
                "function": answer.label.function,
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

/// The cost profile as rows for the pages, stages first.
pub fn costs(total: &Snapshot) -> Vec<CostRow> {
    let row = |name: &str, kind: &str, nanoseconds: u64| CostRow {
        name: name.to_owned(),
        kind: kind.to_owned(),
        ns_per_packet: per_packet(nanoseconds, total),
    };
    let stages = total.costs.parts().into_iter().map(|(stage, nanoseconds)| row(stage, "stage", nanoseconds));
    let subscriptions = subscriptions(total);
    let subscriptions = subscriptions.iter().map(|cost| row(cost.name, "subscription", cost.nanoseconds));
    stages.chain(subscriptions).collect()
}
