//! Alerts of rules in stored records, added up by the rule that matched.
//!
//! An alert is about the packet in which its rule matched: the source is who sent this packet, which the column `direction` says.

use crate::body::text_of;
use crate::muted_alerts::{self, MutedAlerts, TABLE};
use crate::{Store, StoreError, StoredRecord, TimeRange};
use std::cmp::Reverse;
use std::collections::HashMap;
use weir_api::basis::{Basis, Source};
use weir_api::web::{RuleAlerts, RuleAlertsRow};
use weir_api::{Distinct, mapped};
use weir_filter::FlowTest;

/// Maximum number of rules that are added up, each in at most 10 kB of memory. Alerts of further rules are only counted.
pub const MAX_RULES: usize = 2000;
const SECOND: f64 = 1e9;

/// The alerts of a time range that a test of records holds for, by rule: those that a mute hides (`is_muted`), or the others. At most
/// `limit` rules have a row. Whether the run has rules is not known here.
///
/// # Errors
///
/// Those of [`Store`].
pub fn by_rule(
    store: &dyn Store,
    test: &FlowTest,
    span: TimeRange,
    limit: usize,
    mutes: &MutedAlerts,
    is_muted: bool,
) -> Result<RuleAlerts, StoreError> {
    let mut found = Found::default();
    let wanted = mutes.narrow(test.clone(), is_muted);
    let partial = store.each_record(TABLE, &wanted, "", span, &mut |record| found.add(record))?;
    let (muted, partial_of_muted) = match (is_muted, mutes.is_empty()) {
        (true, _) => (found.alerts, None),
        (false, true) => (0, None),
        (false, false) => muted_alerts::count(store, &mutes.narrow(test.clone(), true), span)?,
    };
    let answer = found.answer(limit, partial.or(partial_of_muted));
    Ok(RuleAlerts { muted, ..answer })
}

/// Group, number and revision of a rule.
type Rule = [u64; 3];

/// Alerts by their rules.
#[derive(Default)]
struct Found {
    rules: HashMap<Rule, Sum>,
    /// Alerts of rules, and those that are not added up because there are too many rules.
    alerts: u64,
    beyond: u64,
}

impl Found {
    fn add(&mut self, record: &StoredRecord<'_>) {
        let number = |name: &str| text_of(record.body, name).and_then(|digits| digits.parse().ok());
        let [Some(gid), Some(sid), Some(rev)] = ["gid", "sid", "rev"].map(number) else { return };
        let rule = [gid, sid, rev];
        self.alerts += 1;
        if self.rules.len() >= MAX_RULES && !self.rules.contains_key(&rule) {
            self.beyond += 1;
            return;
        }
        self.rules.entry(rule).or_default().add(record);
    }

    fn answer(self, limit: usize, partial: Option<String>) -> RuleAlerts {
        let rules = self.rules.len();
        let mut rows: Vec<RuleAlertsRow> = self.rules.into_iter().map(|(rule, sum)| sum.row(rule)).collect();
        rows.sort_by_key(|row| {
            (row.severity.unwrap_or(u64::MAX), Reverse(row.alerts), [row.gid, row.sid, row.rev])
        });
        rows.truncate(limit);
        let unlisted = rules - rows.len();
        let left_out = [
            partial,
            (self.beyond > 0).then(|| {
                format!("more than {MAX_RULES} rules: {} alerts of others have no row", self.beyond)
            }),
            match unlisted {
                0 => None,
                1 => Some("1 more rule has alerts; `limit` gives it".to_owned()),
                many => Some(format!("{many} more rules have alerts; `limit` gives them")),
            },
        ];
        let left_out: Vec<String> = left_out.into_iter().flatten().collect();
        RuleAlerts {
            rows,
            rules: rules as u64,
            alerts: self.alerts,
            muted: 0,
            looks: false,
            basis: Basis { source: Source::Records, bound: Some(0), ..Basis::default() },
            partial: (!left_out.is_empty()).then(|| left_out.join("; ")),
        }
    }
}

/// The alerts of a rule.
#[derive(Default)]
struct Sum {
    alerts: u64,
    blocked: u64,
    /// Times of the first and the last, in nanoseconds since the epoch.
    times: Option<(u64, u64)>,
    /// Addresses that sent the packets, and that they were sent to.
    hosts: [Distinct<u128>; 2],
    signature: String,
    category: Option<String>,
    severity: Option<u64>,
}

impl Sum {
    fn add(&mut self, record: &StoredRecord<'_>) {
        self.alerts += 1;
        let is = |name: &str, word: &str| text_of(record.body, name).is_some_and(|text| text == word);
        self.blocked += u64::from(is("action", "blocked"));
        let [client, server] = record.ends.map(|(address, _)| mapped(address));
        let [sources, destinations] = &mut self.hosts;
        let (source, destination) = match is("direction", "to_client") {
            true => (server, client),
            false => (client, server),
        };
        sources.add(source);
        destinations.add(destination);
        let (first, last) = self.times.unwrap_or((record.time, record.time));
        self.times = Some((first.min(record.time), last.max(record.time)));
        // Records of one time can be in any order.
        if record.time >= last {
            self.signature = text_of(record.body, "signature").unwrap_or_default();
            self.category = text_of(record.body, "category");
            self.severity = text_of(record.body, "severity").and_then(|digits| digits.parse().ok());
        }
    }

    fn row(self, [gid, sid, rev]: Rule) -> RuleAlertsRow {
        let (first, last) = self.times.unwrap_or_default();
        let [sources, destinations] = self.hosts;
        let is_exact = sources.is_exact() && destinations.is_exact();
        RuleAlertsRow {
            gid,
            sid,
            rev,
            signature: self.signature,
            category: self.category,
            severity: self.severity,
            alerts: self.alerts,
            blocked: self.blocked,
            first: first as f64 / SECOND,
            last: last as f64 / SECOND,
            sources: sources.estimate(),
            destinations: destinations.estimate(),
            error_percent: if is_exact { 0.0 } else { Distinct::STANDARD_ERROR * 100.0 },
            filter: format!("{TABLE}.gid = {gid} and {TABLE}.sid = {sid} and {TABLE}.rev = {rev}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::IpAddr;

    const S: u64 = 1_000_000_000;

    /// An alert of a rule of two hosts at a second.
    fn body(sid: u64, severity: u64, rest: &str) -> String {
        format!(
            "{{\"action\":\"allowed\",\"gid\":1,\"sid\":{sid},\"rev\":3,\"signature\":\"rule {sid}\",\"severity\":{severity}{rest}}}"
        )
    }

    fn add(found: &mut Found, second: u64, (client, server): (u8, u8), body: &str) {
        let end = |last: u8, port: u16| (IpAddr::from([10, 0, 0, last]), port);
        let ends = [end(client, 40_000), end(server, 80)];
        found.add(&StoredRecord { uid: 1, time: second * S, ip_proto: 6, ends, body });
    }

    #[test]
    fn rows_are_by_rule_with_the_most_severe_first() {
        let mut found = Found::default();
        let to_client = ",\"direction\":\"to_client\"";
        add(&mut found, 7, (1, 9), &body(5, 2, ""));
        add(
            &mut found,
            9,
            (2, 9),
            &body(5, 2, ",\"direction\":\"to_server\",\"category\":\"a \\\"class\\\"\""),
        );
        add(&mut found, 8, (3, 8), &body(5, 2, to_client));
        add(&mut found, 4, (1, 9), &body(6, 2, to_client));
        add(&mut found, 5, (1, 9), &body(7, 1, "").replace("allowed", "blocked"));
        // What is no alert of a rule has no row.
        add(&mut found, 5, (1, 9), "{\"gid\":1,\"sid\":8}");
        let answer = found.answer(10, None);
        let of: Vec<_> = answer.rows.iter().map(|row| (row.sid, row.alerts, row.blocked)).collect();
        assert_eq!(of, [(7, 1, 1), (5, 3, 0), (6, 1, 0)]);
        assert_eq!((answer.rules, answer.alerts, answer.partial), (3, 5, None));
        let [_, five, six] = &answer.rows[..] else { panic!("{:?}", answer.rows) };
        assert_eq!((five.first, five.last), (7.0, 9.0));
        // 10.0.0.8 answered 10.0.0.3.
        assert_eq!((five.sources, five.destinations, five.error_percent), (3, 2, 0.0));
        assert_eq!((six.sources, six.destinations), (1, 1));
        assert_eq!((five.signature.as_str(), five.category.as_deref()), ("rule 5", Some("a \"class\"")));
        assert_eq!(five.filter, "alert.gid = 1 and alert.sid = 5 and alert.rev = 3");
    }

    #[test]
    fn the_words_of_a_rule_are_those_of_its_latest_alert() {
        let mut found = Found::default();
        add(&mut found, 9, (1, 9), &body(5, 1, ",\"category\":\"new\""));
        add(&mut found, 7, (1, 9), &body(5, 3, ",\"category\":\"old\""));
        let row = found.answer(10, None).rows.remove(0);
        assert_eq!((row.category.as_deref(), row.severity), (Some("new"), Some(1)));
    }

    #[test]
    fn what_has_no_row_is_in_partial() {
        let mut found = Found::default();
        (0..3).for_each(|sid| add(&mut found, sid, (1, 9), &body(sid, sid, "")));
        let answer = found.answer(2, Some("late".to_owned()));
        assert_eq!(answer.partial.as_deref(), Some("late; 1 more rule has alerts; `limit` gives it"));
        assert_eq!((answer.rows.len(), answer.rules, answer.alerts), (2, 3, 3));
        let mut found = Found::default();
        let rules = MAX_RULES as u64 + 5;
        (0..rules).for_each(|sid| add(&mut found, sid, (1, 9), &body(sid, 1, "")));
        add(&mut found, 9, (1, 9), &body(0, 1, ""));
        let answer = found.answer(usize::MAX, None);
        assert_eq!(answer.partial.as_deref(), Some("more than 2000 rules: 5 alerts of others have no row"));
        assert_eq!((answer.rows.len(), answer.alerts), (MAX_RULES, rules + 1));
    }

    #[test]
    fn the_number_of_many_hosts_has_an_error() {
        let mut found = Found::default();
        for host in 0..1000_u16 {
            let [high, low] = host.to_be_bytes();
            let ends = [(IpAddr::from([10, 0, high, low]), 1), (IpAddr::from([10, 9, 9, 9]), 2)];
            found.add(&StoredRecord { uid: 1, time: 0, ip_proto: 6, ends, body: &body(1, 1, "") });
        }
        let row = found.answer(1, None).rows.remove(0);
        assert!(row.error_percent > 0.0 && row.error_percent < 5.0, "{row:?}");
        assert!((900..1100).contains(&row.sources) && row.destinations == 1, "{row:?}");
    }
}
