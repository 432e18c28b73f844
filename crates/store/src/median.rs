//! The middle of values, which a few that are far off do not move.

/// The median of sorted values; 0 of none.
pub(crate) fn median(sorted: &[f64]) -> f64 {
    let at = |place: usize| sorted.get(place).copied().unwrap_or_default();
    let half = sorted.len() / 2;
    match sorted.len() % 2 {
        0 if half > 0 => f64::midpoint(at(half - 1), at(half)),
        _ => at(half),
    }
}
