//! Values of a list's rows over a range, part by part, for small curves.

use super::readings;
use crate::StoreError;
use crate::tiers::{Cell, LISTS};
use rusqlite::Connection;
use std::collections::HashMap;
use std::path::Path;
use weir_api::{Key, Reading, TopRow};

/// Over longer ranges, cells of hours are read even if parts are shorter than an hour: cells of half minutes would be
/// too many.
const LONG: u64 = 12 * 3_600_000_000_000;

/// A value for each key and part of the time.
pub fn read(
    of: &Connection,
    path: &Path,
    name: &str,
    (from, to): (u64, u64),
    keys: &[Key],
    (parts, since): (usize, &[u64; LISTS.len()]),
    weight: impl Fn(&TopRow) -> u64,
) -> Result<Vec<Vec<u64>>, StoreError> {
    let mut curves = vec![vec![0; parts]; keys.len()];
    let places: HashMap<&Key, usize> = keys.iter().enumerate().map(|(at, key)| (key, at)).collect();
    let tier = tier((from, to), parts, since);
    for (begin, end, reading) in readings::cells(of, path, tier, name, (from, to), true)? {
        let Reading::Top(top) = reading else { continue };
        let first = part(begin.max(from), (from, to), parts);
        let last = part(end.min(to).saturating_sub(1).max(from), (from, to), parts).max(first);
        for row in &top.rows {
            let Some(curve) = places.get(&row.key).and_then(|at| curves.get_mut(*at)) else { continue };
            // A cell that is longer than a part is spread evenly over its parts.
            let share = weight(row) / (last - first + 1) as u64;
            curve.iter_mut().take(last + 1).skip(first).for_each(|value| *value += share);
        }
    }
    Ok(curves)
}

/// The part of a range that contains an instant.
fn part(time: u64, (from, to): (u64, u64), parts: usize) -> usize {
    let at = u128::from(time - from) * parts as u128 / u128::from((to - from).max(1));
    (at as usize).min(parts.saturating_sub(1))
}

/// The tier with the longest cells that are not longer than a part, among the tiers that have data from the start of the
/// range.
fn tier((from, to): (u64, u64), parts: usize, since: &[u64; LISTS.len()]) -> usize {
    let length = to - from;
    let wanted = length / parts.max(1) as u64;
    let is_short = |cell: Cell| cell != Cell::Interval && cell.length() <= wanted;
    let mut tier = (0..LISTS.len()).rev().find(|at| LISTS.get(*at).is_some_and(|tier| is_short(tier.cell)));
    if tier.is_none() && length > LONG {
        tier = Some(1);
    }
    let mut tier = tier.unwrap_or(0);
    while tier + 1 < LISTS.len() && since.get(tier).is_some_and(|since| *since > from) {
        tier += 1;
    }
    tier
}
