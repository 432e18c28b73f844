//! The fields of records, for expressions: those of every table of the parsers.

use std::net::IpAddr;
use weir_filter::fields::{FieldInfo, FieldKind, FieldValue, Number};
use weir_filter::{Directions, FlowEndpoints, RecordRow};
use weir_flow::{FlowIdentity, FlowRecord};
use weir_proto::{Field, Kind, Record, Value, lossless};

/// Nanoseconds of a microsecond, in which the store has times.
const MICROSECOND: u64 = 1_000;

/// Names of all tables, in alphabetical order.
pub fn tables() -> Vec<&'static str> {
    let mut names: Vec<&str> = weir_proto::tables().map(|table| table.name).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// Names of a table's fields, in alphabetical order; none if there is no such table.
pub fn names(table: &str) -> Vec<&'static str> {
    let mut names: Vec<&str> = weir_proto::tables()
        .filter(|known| known.name == table)
        .flat_map(|table| table.fields)
        .map(|field| field.name)
        .collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// A field of a table, by its name, else by Zeek's column, else by Suricata's key.
pub fn find(table: &str, name: &str) -> Option<(FieldInfo, &'static Field)> {
    let tables = || weir_proto::tables().filter(|known| known.name == table);
    let by = |is: &dyn Fn(&Field) -> bool| {
        tables().find_map(|table| {
            let (place, field) = table.fields.iter().enumerate().find(|(_, field)| is(field))?;
            let info = FieldInfo { table: table.name, name: field.name, kind: kind_of(field.kind), place };
            Some((info, field))
        })
    };
    let is_key = |field: &Field| {
        field.eve == name
            || field.eve.split_once('.').is_some_and(|(front, key)| {
                // `http.status` is written in the table `http` as `status`.
                front == table
                    && (key == name
                        || key.strip_prefix(table).is_some_and(|key| key.strip_prefix('_') == Some(name)))
            })
    };
    by(&|field| field.name == name).or_else(|| by(&|field| field.zeek == name)).or_else(|| by(&is_key))
}

/// The kind of a field's values, or of the values of its list.
pub fn kind_of(kind: Kind) -> FieldKind {
    match kind {
        Kind::Bool => FieldKind::Bool,
        Kind::Uint | Kind::Int | Kind::Real | Kind::Port => FieldKind::Number,
        Kind::Time => FieldKind::Time,
        Kind::Duration => FieldKind::Duration,
        Kind::Text | Kind::Word | Kind::Rows(_) => FieldKind::Text,
        Kind::Address => FieldKind::Address,
        Kind::List(inner) | Kind::Set(inner) => kind_of(*inner),
    }
}

/// The endpoints of a flow, the initiator first, with the outer VLAN identifier of its first packet.
pub fn endpoints(flow: &FlowIdentity) -> FlowEndpoints {
    let (mut address, mut port) = (flow.key.addr, flow.key.port);
    if !flow.initiator_is_lower {
        address.reverse();
        port.reverse();
    }
    FlowEndpoints { address, port, protocol: flow.key.proto, vlan: flow.vlan[0] }
}

/// The endpoints of a flow that has ended.
pub fn endpoints_of(flow: &FlowRecord) -> FlowEndpoints {
    let ((source, sport), (destination, dport)) = (flow.initiator(), flow.responder());
    FlowEndpoints {
        address: [source, destination],
        port: [sport, dport],
        protocol: flow.key.proto,
        vlan: flow.vlan[0],
    }
}

/// Those of the directions for which a test of a flow that has ended holds that have packets. A test that holds for both tells
/// no sender from a receiver.
pub(crate) fn with_packets(flow: &FlowRecord, directions: Directions) -> Directions {
    match directions {
        Directions::BOTH => Directions::BOTH,
        Directions { forward, reverse } => Directions {
            forward: forward && flow.forward.packets > 0,
            reverse: reverse && flow.reverse.packets > 0,
        },
    }
}

/// A record of a flow, as tests see it: with the values that the store has for it.
#[derive(Clone, Copy, Debug)]
pub struct RecordView<'r> {
    /// Of its flow.
    pub endpoints: FlowEndpoints,
    /// The record.
    pub record: &'r Record<'r>,
}

impl RecordRow for RecordView<'_> {
    fn endpoints(&self) -> &FlowEndpoints {
        &self.endpoints
    }

    fn table(&self) -> &'static str {
        self.record.table.name
    }

    fn values(&self, field: &FieldInfo, each: &mut dyn FnMut(FieldValue<'_>)) {
        if let Some(value) = self.record.values.get(field.place) {
            leaves(value, each);
        }
    }
}

/// A length of time in seconds: the number that is nearest to its nanoseconds in decimals, as the store reads it.
pub(crate) fn span_seconds(nanoseconds: u64) -> f64 {
    const EXACT: u64 = 1 << f64::MANTISSA_DIGITS;
    if nanoseconds <= EXACT {
        return nanoseconds as f64 / 1e9;
    }
    let (seconds, rest) = (nanoseconds / 1_000_000_000, nanoseconds % 1_000_000_000);
    format!("{seconds}.{rest:09}").parse().unwrap_or(nanoseconds as f64 / 1e9)
}

/// Calls `each` with every value in a value: itself, those of a list, and those of the rows in it.
fn leaves(value: &Value<'_>, each: &mut dyn FnMut(FieldValue<'_>)) {
    let seconds = |nanoseconds: u64| {
        let micros = nanoseconds / MICROSECOND;
        FieldValue::Number(Number::Real(micros as f64 / 1e6))
    };
    match value {
        Value::None => {}
        Value::Bool(yes) => each(FieldValue::Bool(*yes)),
        Value::Uint(number) => each(FieldValue::Number(Number::Whole((*number).into()))),
        Value::Int(number) => each(FieldValue::Number(Number::Whole((*number).into()))),
        // Logs have no other ones.
        Value::Real(number) if number.is_finite() => each(FieldValue::Number(Number::Real(*number))),
        Value::Real(_) => {}
        Value::Time(time) => each(seconds(time.0)),
        Value::Duration(span) => each(FieldValue::Number(Number::Real(span_seconds(*span)))),
        Value::Text(text) if text.is_ascii() => each(FieldValue::Text(text)),
        Value::Text(text) => each(FieldValue::Text(lossless(text).as_bytes())),
        Value::Address(IpAddr::V4(v4)) => each(FieldValue::Address(v4.to_ipv6_mapped().to_bits())),
        // As a number it would be the IPv4 address, also in text.
        Value::Address(IpAddr::V6(v6)) if v6.to_ipv4_mapped().is_some() => {
            each(FieldValue::Text(v6.to_string().as_bytes()));
        }
        Value::Address(IpAddr::V6(v6)) => each(FieldValue::Address(v6.to_bits())),
        Value::List(values) => values.iter().for_each(|value| leaves(value, each)),
        Value::Rows(rows) => rows.iter().flatten().for_each(|value| leaves(value, each)),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use weir_filter::fields::Fields;
    use weir_filter::{Options, RecordTest};
    use weir_wire::Time;

    /// All fields of records; no times and no lists.
    pub(crate) struct All;

    impl Fields for All {
        fn tables(&self) -> Vec<&'static str> {
            tables()
        }

        fn names(&self, table: &str) -> Vec<&'static str> {
            names(table)
        }

        fn find(&self, table: &str, name: &str) -> Result<Option<FieldInfo>, String> {
            Ok(find(table, name).map(|(info, _)| info))
        }

        fn time(&self, _text: &str) -> Result<f64, String> {
            Err("a time".to_owned())
        }

        fn list(&self, _path: &str) -> Result<Vec<u8>, String> {
            Err("no file".to_owned())
        }
    }

    fn holds(text: &str, record: &Record<'_>) -> bool {
        let options = Options { fields: Some(&All), ..Options::default() };
        let test = RecordTest::compile(text, &options).unwrap_or_else(|error| panic!("{error}"));
        let endpoints = FlowEndpoints { address: [[0; 16]; 2], port: [1, 2], protocol: 6, vlan: 0 };
        test.holds(&RecordView { endpoints, record })
    }

    /// A value of a kind, and a test that it satisfies.
    fn value(kind: Kind) -> (Value<'static>, &'static str) {
        match kind {
            Kind::Bool => (Value::Bool(true), "= true"),
            Kind::Uint | Kind::Port => (Value::Uint(443), "in (80, 443)"),
            Kind::Int => (Value::Int(-3), "< -2"),
            Kind::Real => (Value::Real(0.5), "= 0.5"),
            Kind::Time => (Value::Time(Time(1_750_000_000_123_456_789)), "= 1750000000.123456"),
            Kind::Duration => (Value::Duration(2_000_999), "= 0.002000999"),
            Kind::Text | Kind::Word => (Value::Text(b"A \xff\xc3\xa9".as_slice().into()), r"= 'A \xffé'"),
            Kind::Address => (Value::Address("192.0.2.7".parse().unwrap()), "= 192.0.2.0/24"),
            Kind::List(inner) | Kind::Set(inner) => {
                let (value, test) = value(*inner);
                (Value::List(vec![Value::None, value]), test)
            }
            Kind::Rows(fields) => {
                let values = fields.iter().map(|field| value(field.kind).0).collect();
                (Value::Rows(vec![values]), "~ \"\"")
            }
        }
    }

    #[test]
    fn every_field_of_every_table_can_be_tested() {
        let mut known = BTreeSet::new();
        for table in weir_proto::tables() {
            // Fields are found by their place.
            assert!(known.insert(table.name), "two tables are called {}", table.name);
            let mut record = Record::new(table, Time(0), vec![Value::None; table.fields.len()]);
            for (at, field) in table.fields.iter().enumerate() {
                let name = format!("{}.{}", table.name, field.name);
                assert!(!holds(&name, &record), "{name} has no value");
                let (value, test) = value(field.kind);
                record.values[at] = value;
                assert!(holds(&name, &record) && holds(&format!("{name} {test}"), &record), "{name} {test}");
                assert!(!holds(&format!("not {name}"), &record));
            }
        }
        assert!(known.len() > 50);
    }

    #[test]
    fn values_that_logs_leave_out_are_none() {
        let table = weir_proto::tables().find(|table| table.name == "dns").unwrap();
        let mut record = Record::new(table, Time(0), vec![Value::None; table.fields.len()]);
        record.set("query", Value::Real(f64::NAN));
        assert!(!holds("dns.query", &record));
        record.set("query", Value::Address("::ffff:192.0.2.7".parse().unwrap()));
        assert!(holds("dns.query begins ::ffff:", &record));
    }

    #[test]
    fn the_initiator_is_the_source() {
        let key = weir_wire::FlowKey {
            addr: [[1; 16], [2; 16]],
            port: [10, 20],
            proto: 17,
            ..weir_wire::FlowKey::default()
        };
        let flow =
            |lower| FlowIdentity { key, initiator_is_lower: lower, first: Time(0), vlan: [7, 8], alias: 0 };
        let (lower, higher) = (endpoints(&flow(true)), endpoints(&flow(false)));
        assert_eq!((lower.address, lower.port), ([[1; 16], [2; 16]], [10, 20]));
        assert_eq!((lower.protocol, lower.vlan), (17, 7));
        assert_eq!((higher.address, higher.port), (lower.reversed().address, [20, 10]));
    }
}
