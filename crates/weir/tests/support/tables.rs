//! Tables of a pass in the test's process.

use super::pass::{Loaded, Pass, settings};
use std::path::Path;
use std::sync::Arc;
use weir_api::{Reading, SubscriptionSpec, Table};
use weir_engine::Plan;

/// The tables of subscriptions in a run over a capture, in their order.
pub fn tables_of<const N: usize>(path: &Path, workers: usize, specs: [SubscriptionSpec; N]) -> [Table; N] {
    let names = specs.each_ref().map(|spec| spec.name.clone());
    let plan = Arc::new(Plan::new("", specs.into(), settings()).unwrap());
    let capture = Loaded::read(path);
    let pass = Pass::new(&plan, workers, capture.ample_memory());
    let total = pass.run(&capture, capture.interval(3), |_| ()).total();
    names.map(|name| {
        let answer = total.answers.iter().find(|answer| answer.label.subscription == name);
        match answer.map(|answer| &answer.reading) {
            Some(Reading::Table(table)) => table.clone(),
            other => panic!("{name}: {other:?}"),
        }
    })
}
