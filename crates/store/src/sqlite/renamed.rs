//! Series of counters, and a list, that were renamed in version 3 of the database of series.

use rusqlite::{Transaction, params};

/// Names of counters before version 3, and since.
static RENAMED: [(&str, &str); 18] = [
    ("said", "with_payload"),
    ("refused", "skipped"),
    ("known", "identified"),
    ("unknown", "unidentified"),
    ("expected_in_vain", "expectation_expired"),
    ("stream_octets", "stream_bytes"),
    ("repeated", "retransmitted"),
    ("different", "overlap_conflict"),
    ("behind_end", "after_fin"),
    ("given_up", "abandoned"),
    ("unparsed", "unidentified_packets"),
    ("unparsed_lost", "unidentified_packets_lost"),
    ("files_refused", "files_skipped"),
    ("file_octets", "file_bytes"),
    ("file_octets_kept", "file_bytes_kept"),
    ("file_octets_cut", "file_bytes_cut"),
    ("file_octets_shed", "file_bytes_shed"),
    ("checksums_pending", "checksums_offloaded"),
];

fn counter(id: &str) -> Option<&str> {
    id.strip_prefix("ledger/")
}

/// The present name of a series.
pub fn current(id: String) -> String {
    match RENAMED.iter().find(|(before, _)| counter(&id) == Some(*before)) {
        Some((_, now)) => super::counter_id(now),
        None => id,
    }
}

/// The other name of a series: the earlier one of a present name and the reverse; the name itself for all others. A
/// store of an earlier version that is only read keeps the earlier names.
pub fn other(id: &str) -> String {
    let pairs = RENAMED.iter().flat_map(|(before, now)| [(before, now), (now, before)]);
    let found = pairs.into_iter().find(|(name, _)| counter(id) == Some(**name));
    found.map_or_else(|| id.to_owned(), |(_, other)| super::counter_id(other))
}

/// Gives all series, and the list of unidentified ports, their present names. Data that is already stored under a
/// present name stays there.
pub fn migrate(to: &Transaction<'_>) -> rusqlite::Result<()> {
    to.execute("UPDATE OR IGNORE readings SET name = 'unidentified' WHERE name = 'unparsed'", [])?;
    let mut rename = to.prepare("UPDATE OR IGNORE series SET name = ?2 WHERE name = ?1")?;
    for (before, now) in RENAMED {
        rename.execute(params![super::counter_id(before), super::counter_id(now)])?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_api::counters;

    #[test]
    fn every_present_name_is_a_counter_and_no_earlier_name_is() {
        for (before, now) in RENAMED {
            assert!(counters().any(|counter| counter.name == now), "{now}");
            assert!(counters().all(|counter| counter.name != before), "{before}");
            assert_eq!(current(format!("ledger/{before}")), format!("ledger/{now}"));
            assert_eq!(other(&format!("ledger/{before}")), format!("ledger/{now}"));
            assert_eq!(other(&format!("ledger/{now}")), format!("ledger/{before}"));
        }
        assert_eq!(current("chart/said/known/bits".to_owned()), "chart/said/known/bits");
        assert_eq!(other("ledger/caught"), "ledger/caught");
    }
}
