//! The stored cells of a list, one by one.

use super::{DAY0, Engine, S, context, interval};
use crate::Keep;
use weir_api::Reading;
use weir_output::Existing;

/// Ten hours of minutes, of which the last hour still has its intervals: each range has the cells of the finest tier that has all of it.
pub fn cells_are_of_the_finest_tier_that_has_the_range(engine: &Engine) {
    let folder = tempfile::tempdir().unwrap();
    let (minute, hour) = (60 * S, 3600 * S);
    let mut keep = Keep { free: 0, ..Keep::default() };
    keep.lists[0] = hour;
    let mut to = engine.open(&context(folder.path(), Existing::Continue), keep);
    for at in 0..10 * 60 {
        to.interval(&interval(DAY0 + at * minute, minute, 60, &[(1, 9)])).unwrap();
    }
    to.finish().unwrap();
    let store = engine.store(folder.path());
    let cells = |from: u64, until: u64| {
        let mut cells = Vec::new();
        let span = (DAY0 + from * hour, DAY0 + until * hour);
        let mut each = |from: u64, until: u64, reading: Reading| {
            let Reading::Top(top) = reading else { panic!("{reading:?}") };
            cells.push((from - DAY0, until - DAY0, top.rows[0].count.bytes));
        };
        let tier = store.each_cell("sources", span, &mut each).unwrap();
        (tier, cells)
    };
    let minutes = |hour_of: u64| (0..60).map(move |at| hour_of * hour + at * minute);
    assert_eq!(cells(9, 10), ("interval", minutes(9).map(|at| (at, at + minute, 9)).collect()));
    assert_eq!(cells(3, 4), ("1h", vec![(3 * hour, 4 * hour, 540)]));
    let hours =
        |from: u64, to: u64| (from..to).map(|at| (at * hour, (at + 1) * hour, 540)).collect::<Vec<_>>();
    assert_eq!(cells(8, 10), ("1h", hours(8, 10)));
    assert_eq!(cells(0, 24), ("1h", hours(0, 10)));
    assert_eq!(cells(20, 21), ("interval", vec![]));
    assert!(store.each_cell("nothing", (0, u64::MAX), &mut |_, _, _| panic!("no cell")).is_ok());
}
