//! What leaves a run: every log, packet file, directory and event, each as the end of the chain of a subscription.

use crate::{database, syslog, webhook};
use serde::Serialize;
use std::path::Path;
use utoipa::ToSchema;
use weir_api::{Subscription, SubscriptionId};
use weir_engine::{Plan, Target, judge_of};

/// Something that leaves a run.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, ToSchema)]
pub struct Leaving {
    /// What it is: `log`, `log of the run`, `packet file`, `directory`, `store`, `syslog`, `webhook`, `names` or `event`.
    pub what: String,
    /// Its name; of a file without its directory, unless it is shown to the user who started the program.
    pub to: String,
    /// The number of the subscription that ends there; none for what takes the rows of all.
    #[schema(required = true)]
    pub subscription: Option<u32>,
}

impl Leaving {
    /// What leaves by a subscription.
    pub fn by(subscription: SubscriptionId, what: &str, to: &str) -> Self {
        Self { what: what.to_owned(), to: to.to_owned(), subscription: Some(subscription.0) }
    }
}

/// The last part of a path.
pub fn file_name(path: &str) -> &str {
    Path::new(path).file_name().and_then(|name| name.to_str()).unwrap_or(path)
}

/// What a target is, in a word.
fn kind(target: &Target) -> &'static str {
    match target {
        Target::Rows(rows) if *rows.log == *database::OUTPUT.name => "store",
        Target::Rows(rows) if *rows.log == *syslog::NAME => "syslog",
        Target::Rows(rows) if *rows.log == *webhook::NAME => "webhook",
        _ => target.kind(),
    }
}

/// What leaves by the functions of subscriptions: their targets, and the events that they find.
pub fn of_functions(plan: &Plan, subscriptions: &[Subscription]) -> Vec<Leaving> {
    let mut all: Vec<Leaving> = plan
        .targets()
        .map(|(id, target)| Leaving::by(id.subscription, kind(target), &target.to_string()))
        .collect();
    for one in subscriptions {
        for call in &one.spec.functions {
            // The length of an interval changes nothing about what an event is called.
            let Some(judge) = judge_of(call, 1_000_000_000) else { continue };
            let name = judge.named().map_or_else(|| call.name.clone(), |named| named.name.to_string());
            all.push(Leaving::by(one.id, "event", &name));
        }
    }
    all.sort_by_key(|one| one.subscription);
    all.dedup();
    all
}
