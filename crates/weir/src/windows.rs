//! The windows that the function `event` compares with a threshold, and the parts of a run that they are made of.

use weir_api::SubscriptionSpec;
use weir_engine::window_of;

const SECOND: u64 = 1_000_000_000;

/// Nanoseconds that the function `event` of a subscription compares with its threshold as a whole, if it says so.
pub fn window(subscription: &SubscriptionSpec) -> Option<u64> {
    subscription.functions.iter().find_map(window_of)
}

/// Nanoseconds of the longest parts, of a second or a tenth, that a window of this length in nanoseconds is made of.
pub fn part(window: u64) -> u64 {
    if window.is_multiple_of(SECOND) { SECOND } else { SECOND / 10 }
}

/// Nanoseconds of the longest parts that the windows of these subscriptions are made of.
pub fn parts<'s>(subscriptions: impl IntoIterator<Item = &'s SubscriptionSpec>) -> u64 {
    subscriptions.into_iter().filter_map(window).map(part).min().unwrap_or(SECOND)
}
