//! What a run asks when nobody says otherwise: the subscriptions behind the summary and the live screen.

use weir_api::{FunctionCall, SubscriptionSpec};

/// The subscriptions of the summary, and for a live run those that only its screen shows.
pub fn built_in(live: bool) -> Vec<SubscriptionSpec> {
    let top = |by: &str| FunctionCall::new("top").with("by", by);
    let all = |name: &str, function: FunctionCall| SubscriptionSpec::new(name, "", vec![function]);
    let mut specs = vec![
        all("talkers", top("talker")),
        all("services", top("service")),
        all("sources", top("source")),
        all("destinations", top("destination")),
        all("flows", top("flow")),
        all("protocols", top("protocol").with("rows", 256)),
        all("rate", FunctionCall::new("rate")),
    ];
    if live {
        specs.extend([
            all("cast", FunctionCall::new("cast")),
            all("size", FunctionCall::new("size")),
            all("ipproto", FunctionCall::new("ipproto")),
        ]);
    }
    specs
}
