//! Flows by the protocol that was identified in them.

use super::ends::words;
use super::top::ip;
use super::{Argument, Arguments, Function, FunctionSpec, InputKind, Memory};
use crate::bounded::{Bounded, Row, Taken, kept};
use crate::keyed::{Address, KeyHash, Keyed};
use crate::{FlowRecord, Item};
use std::borrow::Cow;
use std::sync::Arc;
use weir_api::{
    Count, Datum, Fold, Folded, KeyColumn, Level, OWN_WORDS, Reading, Schema, Shown, Table, TableColumn,
    TableRow, Unit,
};
use weir_proto::PROTOCOLS;

pub(super) static APPLICATIONS: FunctionSpec = FunctionSpec {
    name: "applications",
    help: "Flows with payload by the protocol that was identified in them, for each port or server, in fixed memory: exact while the distinct keys fit, else with an upper bound of the error for each row. A flow counts when it has ended.",
    arguments: &[
        Argument { name: "by", help: "port, or server for address and port.", default: Some("port") },
        Argument { name: "show", help: "Number of rows to show, 1 to 1000.", default: Some("10") },
        Argument { name: "rows", help: "Number of keys to keep, 16 to 1048576.", default: Some("4096") },
    ],
    levels: &[Level::Flow],
    input: InputKind::Packets,
    memory: |arguments| {
        let Shape { by, rows, .. } = Shape::of(arguments)?;
        let rows = kept(rows);
        let row = size_of::<TableRow>()
            + by.keys().len() * size_of::<Datum>()
            + COLUMNS.len() * size_of::<Folded>()
            + MAX_NAME;
        Ok(Memory { state: 256 + Bounded::<Key>::bytes(rows), reading: 256 + rows * row })
    },
    judge: None,
    delivers: None,
    identifies: true,
    build: |arguments| {
        let Shape { by, show, rows } = Shape::of(arguments)?;
        let schema = Schema {
            name: Cow::Borrowed("applications"),
            keys: Cow::Borrowed(by.keys()),
            columns: Cow::Borrowed(&COLUMNS),
            shown: Shown::Heaviest(show),
        };
        let list = Bounded::new(rows, Unit::Bytes, arguments.seeds.run);
        Ok(Box::new(Applications { by, schema: Arc::new(schema), list }))
    },
};

/// Maximum bytes of the name of a protocol.
const MAX_NAME: usize = 24;

static KEYS: [KeyColumn; 4] = [
    KeyColumn::new("server", "", "Address of the responder."),
    KeyColumn::new("port", "", "Port of the responder."),
    KeyColumn::new("transport", "", "Number of the IP protocol."),
    KeyColumn::new(
        "protocol",
        OWN_WORDS,
        "Protocol that was identified; none if payload was not identified.",
    ),
];

static COLUMNS: [TableColumn; 2] = [
    TableColumn::new(
        "bytes",
        Fold::Sum,
        "bytes",
        "Bytes on the wire, both directions, link-layer headers included.",
    ),
    TableColumn::new(
        "flows",
        Fold::Sum,
        "flows",
        "Ended flows, or parts of long ones, without those of late segments.",
    ),
];

/// What flows are listed by, besides the protocol.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum By {
    Port,
    Server,
}

impl By {
    /// The parts of a key.
    fn keys(self) -> &'static [KeyColumn] {
        match self {
            By::Port => KEYS.last_chunk::<3>().map_or(&[], |keys| keys),
            By::Server => &KEYS,
        }
    }
}

/// The arguments of a list.
struct Shape {
    by: By,
    show: u32,
    rows: usize,
}

impl Shape {
    fn of(arguments: &Arguments<'_>) -> Result<Self, String> {
        Ok(Self {
            by: arguments.choice("by", &[("port", By::Port), ("server", By::Server)])?,
            show: arguments.within("show", 1..=1000)?,
            rows: arguments.within("rows", 16..=1 << 20)?,
        })
    }
}

/// A protocol at a port.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
struct Key {
    /// The position in the list of protocols, plus 1; 0 stands for payload in which none was identified.
    protocol: u8,
    transport: u8,
    port: u16,
    /// All zeros in a list by port.
    server: Address,
}

impl Key {
    fn of(flow: &FlowRecord, by: By) -> Self {
        let [protocol, ..] = flow.services;
        let (address, port) = flow.responder();
        let server = if by == By::Server { words(address) } else { Address::default() };
        Self { protocol, transport: flow.key.proto, port, server }
    }

    fn parts(&self, by: By) -> Vec<Datum> {
        let protocol = usize::from(self.protocol).checked_sub(1).and_then(|at| PROTOCOLS.get(at));
        let protocol = protocol.map_or(Datum::Nothing, |protocol| Datum::Text(protocol.name.into()));
        let port = [Datum::Number(self.port.into()), Datum::Number(self.transport.into()), protocol];
        let server = (by == By::Server).then(|| Datum::Address(ip(self.server)));
        server.into_iter().chain(port).collect()
    }
}

impl Keyed for Key {
    fn hash(&self, hash: &KeyHash) -> u64 {
        let Self { protocol, transport, port, server: [high, low] } = *self;
        hash.of([high, low, u64::from(port) << 16 | u64::from(transport) << 8 | u64::from(protocol)])
    }
}

/// A list.
struct Applications {
    by: By,
    schema: Arc<Schema>,
    list: Bounded<Key>,
}

impl Function for Applications {
    fn item(&mut self, item: &Item<'_>) {
        if let Item::FlowEnd(flow, _) = item
            && !flow.carrier
            && (flow.services.first().is_some_and(|first| *first > 0) || flow.is_unidentified)
        {
            let bytes = flow.forward.frame_bytes + flow.reverse.frame_bytes;
            self.list.add(Key::of(flow, self.by), Count { packets: 0, bytes }, u32::from(flow.follows == 0));
        }
    }

    fn held(&self) -> usize {
        self.list.memory()
    }

    fn take(&mut self) -> Reading {
        let capacity = self.list.capacity();
        let Taken { rows, absent, .. } = self.list.take();
        let row = |Row { key, amount, error }: Row<Key>| {
            let values = [amount.count.bytes, amount.flows.into()].map(Folded::Sum);
            TableRow { key: key.parts(self.by), values: values.into(), error }
        };
        let rows = rows.into_iter().map(row).collect();
        Reading::Table(Table::new(Arc::clone(&self.schema), capacity, rows, absent))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::function::scans::tests::flood;
    use weir_api::FunctionCall;
    use weir_filter::Directions;

    fn rows(by: &str, flows: &[FlowRecord]) -> Vec<(Vec<Datum>, [u64; 2])> {
        let mut list = APPLICATIONS.call(&FunctionCall::new("applications").with("by", by), 1_u64).unwrap();
        flows.iter().for_each(|flow| list.item(&Item::FlowEnd(flow, Directions::BOTH)));
        let Reading::Table(table) = list.take() else { panic!("no table") };
        let sum = |value: &Folded| if let Folded::Sum(sum) = value { *sum } else { 0 };
        table
            .rows
            .by_key()
            .into_iter()
            .map(|row| (row.key.clone(), [0, 1].map(|at| sum(&row.values[at]))))
            .collect()
    }

    #[test]
    fn flows_with_payload_count_to_their_protocol_and_responder() {
        let flow = |n: u32, first: u8, is_unidentified: bool| {
            let mut flow = FlowRecord { services: [first, 0, 0, 0], is_unidentified, ..flood(n) };
            flow.key.proto = 6;
            flow.forward.frame_bytes = 100;
            flow
        };
        let carrier = FlowRecord { carrier: true, ..flow(3, 1, false) };
        let flows = [flow(1, 1, false), flow(1, 1, false), flow(2, 0, true), flow(3, 0, false), carrier];
        let server = |flow: &FlowRecord| {
            let (address, port) = flow.responder();
            (Datum::Address(ip(words(address))), Datum::Number(port.into()))
        };
        let named = Datum::Text(PROTOCOLS[0].name.into());
        let found = rows("server", &flows);
        let [first, _, other, ..] = &flows;
        let expected = [(Datum::Nothing, other, 1), (named, first, 2)].map(|(protocol, flow, n)| {
            let (address, port) = server(flow);
            let bytes = n * (flow.forward.frame_bytes + flow.reverse.frame_bytes);
            (vec![address, port, Datum::Number(6), protocol], [bytes, n])
        });
        assert_eq!(found, expected);
        let by_port: Vec<Vec<Datum>> = rows("port", &flows).into_iter().map(|(key, _)| key).collect();
        assert_eq!(by_port, expected.map(|(key, _)| key[1..].to_vec()));
    }

    #[test]
    fn arguments_have_limits_and_names_fit() {
        for (name, value) in [("by", "host"), ("rows", "15"), ("rows", "1048577"), ("show", "0")] {
            let call = FunctionCall::new("applications").with(name, value);
            assert!(APPLICATIONS.call(&call, 1_u64).is_err(), "{name} = {value}");
            assert!(APPLICATIONS.memory(&call).is_err(), "{name} = {value}");
        }
        assert!(PROTOCOLS.iter().all(|protocol| protocol.name.len() <= MAX_NAME));
    }
}
