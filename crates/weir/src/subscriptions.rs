//! The built-in subscriptions, on which the summary, the live screen and the pages depend.

use crate::memory::list_rows;
use std::sync::Arc;
use weir_api::{FunctionCall, Level, Owner, Subscription, SubscriptionSpec, builtin};

/// The subscriptions of the summary; `memory` is the memory limit in bytes, by which the lists are sized.
pub fn summary(memory: usize) -> Vec<Subscription> {
    let top = |by: &str, rows: usize| top(by).with("rows", list_rows(memory, rows));
    built_in([
        all("talkers", top("talker", 4096)),
        all("services", top("service", 8192)),
        all("sources", top("source", 8192)),
        all("destinations", top("destination", 8192)),
        all("flows", top("flow", 4096)),
        all("protocols", top("protocol", 256)),
        all("rate", FunctionCall::new("rate")),
        SubscriptionSpec { level: Level::Flow, ..all("scans", FunctionCall::new("scans")) },
    ])
}

/// Subscriptions of the live screen only.
pub fn screen() -> Vec<Subscription> {
    built_in(["cast", "size", "ipproto"].map(|name| all(name, FunctionCall::new(name))))
}

/// Subscriptions of the pages only: distinct counts.
pub fn pages() -> Vec<Subscription> {
    let distinct = |of: &str| all(of, FunctionCall::new("distinct").with("of", of));
    built_in(["hosts", "pairs", "ports"].map(distinct))
}

/// The subscriptions for mon.lite if no configuration has any: Ourmon's fixed filters and lists of flows and ports.
pub fn ourmon(memory: usize) -> Vec<Subscription> {
    let list = |name: &str, expression: &str, by: &str| {
        let top = top(by).with("show", 20).with("rows", list_rows(memory, 8192));
        SubscriptionSpec::new(name, expression, vec![top])
    };
    let mut subscriptions = screen();
    subscriptions.extend(built_in([
        list("topn_ip", "", "flow"),
        list("topn_tcp", "tcp", "flow"),
        list("topn_udp", "udp", "flow"),
        list("topn_icmp", "icmp or icmp6", "flow"),
        list("topn_port_tcp", "tcp", "port"),
        list("topn_port_udp", "udp", "port"),
    ]));
    subscriptions
}

/// Numbers built-in subscriptions by their names.
fn built_in(specs: impl IntoIterator<Item = SubscriptionSpec>) -> Vec<Subscription> {
    let numbered = |spec: SubscriptionSpec| {
        let id = builtin::number_of(&spec.name)?;
        Some(Subscription { id, owner: Owner::Run, spec: Arc::new(spec) })
    };
    specs.into_iter().filter_map(numbered).collect()
}

fn top(by: &str) -> FunctionCall {
    FunctionCall::new("top").with("by", by)
}

fn all(name: &str, function: FunctionCall) -> SubscriptionSpec {
    SubscriptionSpec::new(name, "", vec![function])
}
