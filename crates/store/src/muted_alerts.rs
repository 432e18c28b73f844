//! Alerts of rules that mutes hide, as tests of stored records.
//!
//! The mutes hold that are there when a store is asked, for older alerts too. The source of an alert is who sent the packet in
//! which its rule matched; the port is that of the server of its flow, in whichever direction the packet went.

use crate::body::text_of;
use crate::query::Asking;
use crate::{Store, StoreError, StoredRecord, TimeRange};
use std::collections::HashMap;
use weir_api::{Mute, Net, RuleId, Scope, mapped};
use weir_filter::fields::{
    Comparison, FieldInfo, FieldKind, FieldTest, FieldValue, Number, Operand, Operation,
};
use weir_filter::{Endpoints, FlowEndpoints, FlowRow, FlowTest};

/// The table of the records.
pub const TABLE: &str = "alert";

/// The time of a record in nanoseconds since the epoch. It is a column and no field of the record, so that expressions do not have it.
pub(crate) const TIME: FieldInfo =
    FieldInfo { table: TABLE, name: "ts", kind: FieldKind::Number, place: FieldInfo::STORED };

/// The mutes of rules, and which alerts are asked for.
#[derive(Clone, Debug)]
pub struct MutedAlerts {
    /// The number of each mute with the test of what it hides, in the order of the mutes.
    tests: Vec<(u64, FlowTest)>,
}

/// Alerts by the mute that hides them.
#[derive(Debug, Default)]
pub struct Hidden {
    /// Number of alerts by the number of the first mute that hides them.
    pub by_mute: HashMap<u64, u64>,
    /// Why the numbers are lower bounds; `None` if they are exact.
    pub partial: Option<String>,
}

impl MutedAlerts {
    /// Those of the mutes that are of a rule.
    ///
    /// # Errors
    ///
    /// Tables of records have no alerts.
    pub fn of(mutes: &[Mute]) -> Result<Self, StoreError> {
        let of_rules = mutes.iter().filter(|mute| mute.scope.rule.is_some());
        let test = |mute: &Mute| {
            let until = mute.until.map(|until| number(TIME, Comparison::Less, until));
            Ok((mute.number, FlowTest::All([of_scope(&mute.scope)?].into_iter().chain(until).collect())))
        };
        Ok(Self { tests: of_rules.map(test).collect::<Result<_, StoreError>>()? })
    }

    /// Whether no mute is of a rule.
    pub fn is_empty(&self) -> bool {
        self.tests.is_empty()
    }

    /// A test of alerts, of those that a mute hides (`is_muted`) or of the others.
    #[must_use]
    pub fn narrow(&self, test: FlowTest, is_muted: bool) -> FlowTest {
        let hidden = FlowTest::Any(self.tests.iter().map(|(_, test)| test.clone()).collect());
        match (is_muted, self.is_empty()) {
            (true, _) => FlowTest::All(vec![test, hidden]),
            (false, true) => test,
            (false, false) => FlowTest::All(vec![test, FlowTest::Not(Box::new(hidden))]),
        }
    }

    /// Number of alerts of a range that each mute hides. An alert that several mutes hide counts for the first of them.
    ///
    /// # Errors
    ///
    /// Those of [`Store`].
    pub fn hidden(&self, store: &dyn Store, span: TimeRange) -> Result<Hidden, StoreError> {
        let mut found = Hidden::default();
        if self.is_empty() {
            return Ok(found);
        }
        let test = self.narrow(FlowTest::All(Vec::new()), true);
        found.partial = store.each_record(TABLE, &test, "", span, &mut |record| {
            let alert = Alert::of(record);
            if let Some((number, _)) = self.tests.iter().find(|(_, test)| test.holds(&alert)) {
                *found.by_mute.entry(*number).or_default() += 1;
            }
        })?;
        Ok(found)
    }
}

/// Number of alerts of a range for which a test holds, and why it is a lower bound if it is one.
///
/// # Errors
///
/// Those of [`Store`].
pub fn count(
    store: &dyn Store,
    test: &FlowTest,
    span: TimeRange,
) -> Result<(u64, Option<String>), StoreError> {
    let mut count = 0;
    let partial = store.each_record(TABLE, test, "", span, &mut |_| count += 1)?;
    Ok((count, partial))
}

/// The test of the alerts of a rule.
pub fn of_rule(rule: RuleId) -> FlowTest {
    let equal = |name, value| {
        let field = FieldInfo { table: TABLE, name, kind: FieldKind::Number, place: FieldInfo::STORED };
        number(field, Comparison::Equal, value)
    };
    FlowTest::All(vec![equal("gid", rule.gid), equal("sid", rule.sid)])
}

/// The test of the alerts that a mute with this scope hides; of a scope without a rule that of no alert.
///
/// # Errors
///
/// Tables of records have no alerts.
pub fn of_scope(scope: &Scope) -> Result<FlowTest, StoreError> {
    let Some(rule) = scope.rule else { return Ok(FlowTest::Any(Vec::new())) };
    let mut all = vec![of_rule(rule)];
    if let Some(port) = scope.port {
        all.push(FlowTest::Protocol(port.protocol));
        all.push(FlowTest::Port(Endpoints::Server, port.port, port.port));
    }
    if scope.source.is_some() || scope.target.is_some() {
        let answers = Asking::default().test_of_records("alert.direction = to_client");
        let answers = answers.map_err(|error| StoreError::Unknown(error.to_string()))?;
        let between = |from: Endpoints, to: Endpoints| {
            [(from, scope.source), (to, scope.target)]
                .into_iter()
                .filter_map(|(end, net)| Some(within(end, net?)))
        };
        let forward = FlowTest::Not(Box::new(answers.clone()));
        let ways = [
            [forward].into_iter().chain(between(Endpoints::Client, Endpoints::Server)).collect(),
            [answers].into_iter().chain(between(Endpoints::Server, Endpoints::Client)).collect(),
        ];
        all.push(FlowTest::Any(ways.map(FlowTest::All).into()));
    }
    Ok(FlowTest::All(all))
}

/// An end of the flow is in a net. Networks of IPv6 have no address of IPv4.
fn within(end: Endpoints, net: Net) -> FlowTest {
    let rest = u128::MAX.checked_shr(u32::from(net.mapped_prefix())).unwrap_or(0);
    let addresses = FlowTest::Address(end, net.first(), net.first() | rest);
    FlowTest::All(vec![FlowTest::IsV4(net.is_v4()), addresses])
}

fn number(field: FieldInfo, comparison: Comparison, value: u64) -> FlowTest {
    let value = Operand::Number(Number::Whole(value.into()));
    FlowTest::Field(FieldTest { field, operation: Operation::Compare(comparison, value) })
}

/// A stored alert that tests are decided on.
struct Alert<'r> {
    record: &'r StoredRecord<'r>,
    ends: FlowEndpoints,
}

impl<'r> Alert<'r> {
    fn of(record: &'r StoredRecord<'r>) -> Self {
        let ends = FlowEndpoints {
            address: record.ends.map(|(address, _)| mapped(address).to_be_bytes()),
            port: record.ends.map(|(_, port)| port),
            protocol: record.ip_proto,
            vlan: 0,
        };
        Self { record, ends }
    }
}

impl FlowRow for Alert<'_> {
    fn endpoints(&self) -> &FlowEndpoints {
        &self.ends
    }

    fn field(&self, test: &FieldTest) -> bool {
        if test.field.name == TIME.name {
            return test.holds(Some(FieldValue::Number(Number::Whole(self.record.time.into()))));
        }
        let text = text_of(self.record.body, test.field.name);
        test.holds(text.as_deref().and_then(|text| match test.field.kind {
            FieldKind::Number => Number::parse(text).map(FieldValue::Number),
            _ => Some(FieldValue::Text(text.as_bytes())),
        }))
    }

    fn has_row(&self, _table: &str, _test: &FlowTest) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::IpAddr;
    use weir_api::MuteScope;

    fn mute(number: u64, [rule, source, target, port]: [&str; 4], until: Option<u64>) -> Mute {
        let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let (source, target, port) = (some(source), some(target), some(port));
        let scope = MuteScope { kinds: Vec::new(), rule: some(rule), source, target, port };
        let (reason, who) = (String::new(), String::new());
        Mute { number, scope: scope.read().unwrap(), until, reason, who, made: 0 }
    }

    /// Whether each alert is hidden: one to a server at second 5, and one in its answer at second 9.
    fn hides(scope: [&str; 4], until: Option<u64>) -> [bool; 2] {
        let mutes = MutedAlerts::of(&[mute(1, scope, until)]).unwrap();
        let hidden = mutes.narrow(FlowTest::All(Vec::new()), true);
        let shown = mutes.narrow(FlowTest::All(Vec::new()), false);
        [("to_server", 5), ("to_client", 9)].map(|(direction, time)| {
            let body = format!("{{\"gid\":1,\"sid\":7,\"rev\":3,\"direction\":\"{direction}\"}}");
            let ends = [(IpAddr::from([10, 0, 0, 1]), 40_000), (IpAddr::from([192, 0, 2, 9]), 80)];
            let record = StoredRecord { uid: 1, time, ip_proto: 6, ends, body: &body };
            let alert = Alert::of(&record);
            assert_ne!(hidden.holds(&alert), shown.holds(&alert));
            hidden.holds(&alert)
        })
    }

    #[test]
    fn an_alert_is_hidden_if_it_meets_every_condition() {
        for (scope, expected) in [
            (["1:7", "", "", ""], [true, true]),
            (["1:8", "", "", ""], [false, false]),
            (["2:7", "", "", ""], [false, false]),
            // The source is who sent the packet, and the port is the server's.
            (["1:7", "10.0.0.0/8", "", ""], [true, false]),
            (["1:7", "", "10.0.0.0/8", ""], [false, true]),
            (["1:7", "10.0.0.0/8", "192.0.2.9", "tcp/80"], [true, false]),
            (["1:7", "10.0.0.0/8", "192.0.2.8", ""], [false, false]),
            (["1:7", "", "", "tcp/80"], [true, true]),
            (["1:7", "", "", "tcp/40000"], [false, false]),
            (["1:7", "", "", "udp/80"], [false, false]),
            (["1:7", "0.0.0.0/0", "", ""], [true, true]),
            (["1:7", "::/0", "", ""], [false, false]),
            // Without a rule a mute is of events.
            (["", "10.0.0.0/8", "", ""], [false, false]),
        ] {
            assert_eq!(hides(scope, None), expected, "{scope:?}");
        }
    }

    #[test]
    fn a_mute_hides_alerts_of_before_its_end() {
        assert_eq!(hides(["1:7", "", "", ""], Some(9)), [true, false]);
        assert_eq!(hides(["1:7", "", "", ""], Some(10)), [true, true]);
    }
}
