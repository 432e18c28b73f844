//! The built-in subscriptions, on which the summary, the live screen and the pages depend.

use crate::memory::list_rows;
use weir_api::{FunctionCall, Level, SubscriptionSpec};

/// The subscriptions of the summary; `memory` is the memory limit in bytes, by which the lists are sized.
pub fn summary(memory: usize) -> Vec<SubscriptionSpec> {
    let top = |by: &str, rows: usize| top(by).with("rows", list_rows(memory, rows));
    vec![
        all("talkers", top("talker", 4096)),
        all("services", top("service", 8192)),
        all("sources", top("source", 8192)),
        all("destinations", top("destination", 8192)),
        all("flows", top("flow", 4096)),
        all("protocols", top("protocol", 256)),
        all("rate", FunctionCall::new("rate")),
        SubscriptionSpec { level: Level::Flow, ..all("scans", FunctionCall::new("scans")) },
    ]
}

/// Subscriptions of the live screen only.
pub fn screen() -> Vec<SubscriptionSpec> {
    ["cast", "size", "ipproto"].iter().map(|name| all(name, FunctionCall::new(name))).collect()
}

/// Subscriptions of the pages only: distinct counts.
pub fn pages() -> Vec<SubscriptionSpec> {
    let distinct = |of: &str| all(of, FunctionCall::new("distinct").with("of", of));
    ["hosts", "pairs", "ports"].map(distinct).into()
}

/// The subscriptions for mon.lite if no configuration has any: Ourmon's fixed filters and lists of flows and ports.
pub fn ourmon(memory: usize) -> Vec<SubscriptionSpec> {
    let list = |name: &str, expression: &str, by: &str| {
        let top = top(by).with("show", 20).with("rows", list_rows(memory, 8192));
        SubscriptionSpec::new(name, expression, vec![top])
    };
    let mut specs = screen();
    specs.extend([
        list("topn_ip", "", "flow"),
        list("topn_tcp", "tcp", "flow"),
        list("topn_udp", "udp", "flow"),
        list("topn_icmp", "icmp or icmp6", "flow"),
        list("topn_port_tcp", "tcp", "port"),
        list("topn_port_udp", "udp", "port"),
    ]);
    specs
}

fn top(by: &str) -> FunctionCall {
    FunctionCall::new("top").with("by", by)
}

fn all(name: &str, function: FunctionCall) -> SubscriptionSpec {
    SubscriptionSpec::new(name, "", vec![function])
}
