//! What a run asks when nobody says otherwise: the subscriptions behind the summary and the live screen.

use weir_api::{FunctionCall, Level, SubscriptionSpec};

/// The subscriptions of the summary.
pub fn summary() -> Vec<SubscriptionSpec> {
    vec![
        all("talkers", top("talker").with("rows", 4096)),
        all("services", top("service")),
        all("sources", top("source")),
        all("destinations", top("destination")),
        all("flows", top("flow").with("rows", 4096)),
        all("protocols", top("protocol").with("rows", 256)),
        all("rate", FunctionCall::new("rate")),
        SubscriptionSpec { level: Level::Flow, ..all("scans", FunctionCall::new("scans")) },
    ]
}

/// What only the live screen shows.
pub fn screen() -> Vec<SubscriptionSpec> {
    ["cast", "size", "ipproto"].iter().map(|name| all(name, FunctionCall::new(name))).collect()
}

/// What only pages show: how many different ones there were.
pub fn pages() -> Vec<SubscriptionSpec> {
    let distinct = |of: &str| all(of, FunctionCall::new("distinct").with("of", of));
    ["hosts", "pairs", "ports"].map(distinct).into()
}

/// What a mon.lite is made of where no configuration says: Ourmon's fixed filters and lists of flows and ports.
pub fn ourmon() -> Vec<SubscriptionSpec> {
    let list = |name: &str, expression: &str, by: &str| {
        SubscriptionSpec::new(name, expression, vec![top(by).with("show", 20)])
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
