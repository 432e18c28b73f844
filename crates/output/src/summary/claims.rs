//! IPv4 addresses that several hardware addresses claim by ARP.

use super::Facts;
use crate::figures::count;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use weir_api::{Datum, Reading, TableRow, builtin, mac_text};

/// Maximum addresses that are shown, and hardware addresses of each.
const ADDRESSES: usize = 2;
const MACS: usize = 3;

/// A line for each address that several stations of one VLAN claim, those with the most claims of others than the first one:
/// `10.0.0.1 is claimed by 02:00:00:00:00:0a (12 ARP) and 02:00:00:00:00:0b (3 ARP)`.
pub fn conflicts(facts: &Facts) -> Vec<String> {
    let Some(Reading::Table(table)) = facts.total.reading_of(builtin::ARP) else { return Vec::new() };
    let mut claims: BTreeMap<&[Datum], Vec<&TableRow>> = BTreeMap::new();
    for row in &table.rows {
        let place = row.key.get(..3).unwrap_or_default();
        claims.entry(place).or_default().push(row);
    }
    let mut conflicts: Vec<(&[Datum], Vec<&TableRow>)> =
        claims.into_iter().filter(|(_, rows)| rows.len() > 1).collect();
    for (_, rows) in &mut conflicts {
        rows.sort_by(|a, b| b.weight().cmp(&a.weight()).then_with(|| a.key.cmp(&b.key)));
    }
    let second = |rows: &[&TableRow]| rows.iter().skip(1).map(|row| row.weight()).sum::<u64>();
    conflicts.sort_by_key(|(_, rows)| Reverse(second(rows)));
    let mut lines: Vec<String> =
        conflicts.iter().take(ADDRESSES).filter_map(|(place, rows)| line(place, rows)).collect();
    let more = conflicts.len().saturating_sub(ADDRESSES) as u64;
    if let Some(last) = lines.last_mut().filter(|_| more > 0) {
        let noun = if more == 1 { "address" } else { "addresses" };
        last.push_str(&format!(
            "; and so {} {} more {noun}",
            if more == 1 { "is" } else { "are" },
            count(more)
        ));
    }
    lines
}

fn line(place: &[Datum], rows: &[&TableRow]) -> Option<String> {
    let [Datum::Address(address), vlans @ ..] = place else { return None };
    let vlans: Vec<String> = vlans
        .iter()
        .filter_map(|id| if let Datum::Number(id) = id { Some(id.to_string()) } else { None })
        .collect();
    let vlan = if vlans.is_empty() { String::new() } else { format!(" in VLAN {}", vlans.join(".")) };
    let claim = |row: &&TableRow| {
        let Some(Datum::Mac(mac)) = row.key.last() else { return None };
        let error = if row.error > 0 { format!(" ±{}", count(row.error)) } else { String::new() };
        Some(format!("{} ({}{error} ARP)", mac_text(mac), count(row.weight())))
    };
    let mut macs: Vec<String> = rows.iter().take(MACS).filter_map(claim).collect();
    let more = rows.len().saturating_sub(MACS) as u64;
    if more > 0 {
        macs.push(format!("{} more", count(more)));
    }
    let last = macs.pop()?;
    Some(format!("{address}{vlan} is claimed by {} and {last}", macs.join(", ")))
}
