//! What a run asks when nobody says otherwise: the subscriptions behind the summary and the live screen.

use weir_api::{FunctionCall, SubscriptionSpec};

/// Names of the built-in subscriptions, by which the summary finds their readings.
pub const TALKERS: &str = "talkers";

/// The subscriptions of the summary.
pub fn built_in() -> Vec<SubscriptionSpec> {
    let top = |by: &str| FunctionCall::new("top").with("by", by);
    let all = |name: &str, function: FunctionCall| SubscriptionSpec::new(name, "", vec![function]);
    vec![
        all(TALKERS, top("talker")),
        all("services", top("service")),
        all("sources", top("source")),
        all("destinations", top("destination")),
        all("flows", top("flow")),
        all("protocols", top("protocol")),
        all("rate", FunctionCall::new("rate")),
        all("cast", FunctionCall::new("cast")),
        all("size", FunctionCall::new("size")),
        all("ipproto", FunctionCall::new("ipproto")),
    ]
}
