//! Calls of SIP (RFC 3261), with the loss and jitter of their media.
//!
//! Transactions are joined by the Call-ID, which stateless and stateful proxies forward, so that a call that is seen in
//! several places is one row. Streams belong to the call whose session description announced them.

use super::keyed_rows::{KeyedRows, Row, Weighed};
use super::record_key::{self, Keys, TEXT};
use super::{Argument, Arguments, Function, FunctionSpec, InputKind, Memory};
use crate::Item;
use std::sync::Arc;
use weir_api::{CALLS, Call, Datum, Folded, Level, Reading, Schema, Shown, Table, TableRow};
use weir_filter::fields::FieldValue;
use weir_proto::{Record, Value};

pub(super) static SPEC: FunctionSpec = FunctionSpec {
    name: "calls",
    help: "Calls of SIP by their identifier: caller and callee, final status, times, and loss and jitter of their RTP streams, in fixed memory: exact while the calls fit, else with an upper bound of the error for each row.",
    arguments: &[
        Argument { name: "show", help: "Number of rows to show, 1 to 1000.", default: Some("10") },
        Argument { name: "rows", help: "Number of calls to keep, 16 to 65536.", default: Some("1024") },
    ],
    levels: &[Level::Record],
    input: InputKind::Packets,
    memory: |arguments| {
        let (_, rows) = shape(arguments)?;
        let bytes = 1024 + rows * ROW;
        Ok(Memory { state: bytes + KeyedRows::<Vec<Folded>>::doors_of(rows), reading: bytes })
    },
    judge: None,
    delivers: None,
    identifies: false,
    build: |arguments| {
        let (show, rows) = shape(arguments)?;
        let schema = Schema { shown: Shown::Heaviest(show), ..CALLS.clone() };
        Ok(Box::new(Calls {
            schema: Arc::new(schema),
            rows: KeyedRows::new(rows, arguments.seeds.run),
            key: Keys::default(),
        }))
    },
};

/// The tables whose records it reads.
pub(super) const TABLES: [&str; 2] = ["sip", "rtp"];

/// Rows to show, and calls to keep.
fn shape(arguments: &Arguments<'_>) -> Result<(u32, usize), String> {
    Ok((arguments.within("show", 1..=1000)?, arguments.within("rows", 16..=1 << 16)?))
}

/// Maximum bytes of the name of a party. Longer ones are cut.
const PARTY: usize = 128;
/// Number of columns.
const COLUMNS: usize = 12;
/// Maximum bytes of a row, with its place in the index. A byte that is no text becomes three.
const ROW: usize = 2 * size_of::<TableRow>()
    + COLUMNS * size_of::<Folded>()
    + size_of::<Datum>()
    + 3 * (TEXT + 2 * PARTY)
    + 32;

/// The calls of an interval.
struct Calls {
    schema: Arc<Schema>,
    rows: KeyedRows<Vec<Folded>>,
    /// Reused memory.
    key: Keys,
}

/// Calls are ranked by their number of records.
impl Weighed for Vec<Folded> {
    fn weight(&self) -> u64 {
        self.first().map_or(0, Folded::weight)
    }
}

impl Function for Calls {
    fn item(&mut self, item: &Item<'_>) {
        let Item::Record(view) = item else { return };
        let record = view.record;
        let part = match record.table.name {
            "sip" => of_transaction(record),
            "rtp" => Some(of_stream(record)),
            _ => None,
        };
        let (Some(part), id) = (part, text(record, "call_id")) else { return };
        // A transaction without an identifier belongs to no call.
        if id.is_empty() && part.streams == 0 {
            return;
        }
        self.key.clear();
        match id {
            [] => self.key.push_empty(),
            id => self.key.push(&FieldValue::Text(id)),
        }
        let key = self.key.iter().next().unwrap_or_default();
        let Some(values) = self.rows.value(key, 1, || Call::default().values()) else { return };
        values.iter_mut().zip(part.values()).for_each(|(value, more)| value.merge(&more));
    }

    fn take(&mut self) -> Reading {
        let (rows, absent) = self.rows.take();
        let rows = rows.into_iter().map(|Row { key, value, error, .. }| {
            let key = record_key::parts(&key);
            TableRow { key: if key.is_empty() { vec![Datum::Nothing] } else { key }, values: value, error }
        });
        Reading::Table(Table::new(Arc::clone(&self.schema), self.rows.capacity(), rows.collect(), absent))
    }
}

/// What a transaction shows of its call; `None` if it is of none.
fn of_transaction(record: &Record<'_>) -> Option<Call> {
    let (began, end) = (record.time.0, record.time.0.saturating_add(span(record, "duration").unwrap_or(0)));
    let asked = text(record, "method");
    // The request may not have been captured; its method is after the number.
    let method = match asked {
        [] => text(record, "seq").rsplit(|byte| *byte == b' ').next().unwrap_or_default(),
        method => method,
    };
    let call = Call { records: 1, ..Call::default() };
    match method {
        b"INVITE" => {}
        b"BYE" => return Some(Call { ended: Some(began), ..call }),
        b"ACK" | b"CANCEL" => return Some(call),
        _ => return None,
    }
    let (from, to) = match asked {
        [] => (text(record, "response_from"), text(record, "response_to")),
        _ => (text(record, "request_from"), text(record, "request_to")),
    };
    let (caller, (callee, parameters)) = (address(from).0, address(to));
    // A request with the tag of the other side changes a call that has begun, whoever sends it (RFC 3261 12.2.1.1).
    if !asked.is_empty() && has_tag(parameters) {
        return Some(call);
    }
    let status = number(record, "status_code").filter(|status| *status >= 200);
    Some(Call {
        caller: party(caller).map(|caller| (began, caller)),
        callee: party(callee).map(|callee| (began, callee)),
        status: status.map(|status| (end, Datum::Number(status))),
        begun: Some(began),
        answered: status.filter(|status| *status < 300).map(|_| end),
        ended: status.filter(|status| *status >= 300).map(|_| end),
        ..call
    })
}

/// What a stream shows of its call.
fn of_stream(record: &Record<'_>) -> Call {
    Call {
        records: 1,
        streams: 1,
        packets: number(record, "packets").unwrap_or(0),
        lost: number(record, "lost").unwrap_or(0),
        jitter: span(record, "jitter"),
        heard: Some(record.time.0.saturating_add(span(record, "duration").unwrap_or(0))),
        ..Call::default()
    }
}

fn text<'r>(record: &'r Record<'_>, field: &str) -> &'r [u8] {
    if let Value::Text(text) = record.get(field) { text } else { &[] }
}

fn number(record: &Record<'_>, field: &str) -> Option<u64> {
    if let Value::Uint(number) = record.get(field) { Some(*number) } else { None }
}

fn span(record: &Record<'_>, field: &str) -> Option<u64> {
    if let Value::Duration(span) = record.get(field) { Some(*span) } else { None }
}

/// The URI in a From or To field, and the parameters after it (RFC 3261 20.10): `"A" <sip:a@example.org>;tag=1`, or
/// `sip:a@example.org;tag=1`.
fn address(field: &[u8]) -> (&[u8], &[u8]) {
    let name = past_quotes(field);
    let rest = field.get(name..).unwrap_or_default();
    let open = rest.iter().position(|byte| *byte == b'<');
    let Some(rest) = open.and_then(|open| rest.get(open + 1..)) else {
        let end = field.iter().position(|byte| *byte == b';').unwrap_or(field.len());
        return field.split_at_checked(end).unwrap_or_default();
    };
    let end = rest.iter().position(|byte| *byte == b'>').unwrap_or(rest.len());
    rest.split_at_checked(end).unwrap_or_default()
}

/// Length of the quoted name at the beginning of a field; 0 without one.
fn past_quotes(field: &[u8]) -> usize {
    if field.first() != Some(&b'"') {
        return 0;
    }
    let mut is_escaped = false;
    let end = field.iter().skip(1).position(|byte| {
        let is_end = *byte == b'"' && !is_escaped;
        is_escaped = *byte == b'\\' && !is_escaped;
        is_end
    });
    end.map_or(0, |end| end + 2)
}

fn has_tag(parameters: &[u8]) -> bool {
    let mut parameters = parameters.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
    parameters.any(|one| one.get(..4).is_some_and(|name| name.eq_ignore_ascii_case(b"tag=")))
}

/// The party that a URI names: user and host, or a telephone number, without password and parameters.
fn party(uri: &[u8]) -> Option<Datum> {
    let uri = uri.trim_ascii();
    let schemes: [&[u8]; 3] = [b"sips:", b"sip:", b"tel:"];
    let is_of =
        |scheme: &&&[u8]| uri.get(..scheme.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(scheme));
    let uri = schemes.iter().find(is_of).and_then(|scheme| uri.get(scheme.len()..)).unwrap_or(uri);
    // A user may contain the characters that end a host (RFC 3261 25.1).
    let (user, host) = match uri.iter().rposition(|byte| *byte == b'@') {
        Some(at) => uri.split_at_checked(at).unwrap_or_default(),
        None => (&[][..], uri),
    };
    let user = user.split(|byte| matches!(byte, b':' | b';')).next().unwrap_or_default();
    let host = host.split(|byte| matches!(byte, b';' | b'?')).next().unwrap_or_default();
    let name = [user, host].concat();
    let name = String::from_utf8_lossy(name.get(..PARTY).unwrap_or(&name));
    (!name.is_empty()).then(|| Datum::Text(name.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fields::RecordView;
    use crate::function::tests::table_of;
    use weir_api::FunctionCall;
    use weir_filter::FlowEndpoints;
    use weir_wire::Time;

    /// A record of a table with some of its fields.
    fn record(table: &str, time: u64, values: &[(&str, Value<'static>)]) -> Record<'static> {
        let table = weir_proto::tables().find(|known| known.name == table).unwrap();
        let mut record = Record::new(table, Time(time), vec![Value::None; table.fields.len()]);
        values.iter().for_each(|(field, value)| record.set(field, value.clone()));
        record
    }

    fn value(text: &'static str) -> Value<'static> {
        Value::Text(text.as_bytes().into())
    }

    /// A transaction: time, method, To, status and time to the response.
    fn transaction(
        id: &'static str,
        time: u64,
        method: &'static str,
        to: &'static str,
        answer: Option<(u64, u64)>,
    ) -> Record<'static> {
        let mut values = vec![
            ("call_id", value(id)),
            ("method", value(method)),
            ("request_from", value("Alice <sip:alice@example.org>")),
            ("request_to", value(to)),
        ];
        if let Some((status, after)) = answer {
            values.extend([("status_code", Value::Uint(status)), ("duration", Value::Duration(after))]);
        }
        record("sip", time, &values)
    }

    fn stream(id: Option<&'static str>, time: u64, packets: u64, lost: u64, jitter: u64) -> Record<'static> {
        let id = id.map_or(Value::None, value);
        let values = [
            ("call_id", id),
            ("packets", Value::Uint(packets)),
            ("lost", Value::Uint(lost)),
            ("jitter", Value::Duration(jitter)),
            ("duration", Value::Duration(50)),
        ];
        record("rtp", time, &values)
    }

    /// The table of some workers, to each of which every n-th record goes.
    fn read(records: &[Record<'static>], workers: usize, rows: usize) -> Table {
        let endpoints = FlowEndpoints { address: [[0; 16]; 2], port: [1, 2], protocol: 17, vlan: 0 };
        let call = FunctionCall::new("calls").with("rows", rows);
        table_of(&SPEC, &call, (records, workers), |function, record| {
            function.item(&Item::Record(&RecordView { endpoints, record }));
        })
    }

    fn call(table: &Table, id: &str) -> Call {
        let id = if id.is_empty() { Datum::Nothing } else { Datum::Text(id.into()) };
        Call::of(table.rows.iter().find(|row| row.key == [id.clone()]).unwrap()).unwrap()
    }

    const BOB: &str = "Bob <sip:bob@example.com>";
    const TAGGED: &str = "Bob <sip:bob@example.com>;tag=a6c85cf";

    fn talk() -> Vec<Record<'static>> {
        vec![
            transaction("one", 100, "INVITE", BOB, Some((401, 5))),
            transaction("one", 110, "INVITE", BOB, Some((100, 1))),
            transaction("one", 110, "INVITE", BOB, Some((180, 10))),
            transaction("one", 110, "INVITE", BOB, Some((200, 90))),
            transaction("one", 201, "ACK", TAGGED, None),
            // The call is put on hold, which the other side refuses.
            transaction("one", 300, "INVITE", TAGGED, Some((488, 9))),
            transaction("one", 900, "BYE", TAGGED, Some((200, 3))),
            transaction("two", 120, "INVITE", BOB, Some((486, 30))),
            transaction("three", 120, "OPTIONS", BOB, Some((200, 30))),
            transaction("", 120, "INVITE", BOB, Some((200, 30))),
            stream(Some("one"), 210, 1_000, 4, 2_000),
            stream(Some("one"), 215, 996, 0, 7_000),
            stream(None, 215, 10, 1, 100),
        ]
    }

    #[test]
    fn a_call_has_its_parties_status_times_and_media() {
        let table = read(&talk(), 1, 64);
        let known = |time: u64, text: &str| Some((time, Datum::Text(text.into())));
        let one = call(&table, "one");
        assert_eq!(
            (one.caller.clone(), one.callee.clone()),
            (known(110, "alice@example.org"), known(110, "bob@example.com"))
        );
        assert_eq!((one.records, one.status.clone()), (9, Some((200, Datum::Number(200)))));
        assert_eq!((one.begun, one.answered, one.ended), (Some(100), Some(200), Some(900)));
        assert_eq!((one.streams, one.packets, one.lost, one.jitter), (2, 1_996, 4, Some(7_000)));
        assert_eq!((one.heard, one.length()), (Some(265), Some(700)));
        let two = call(&table, "two");
        assert_eq!((two.status, two.answered, two.ended), (Some((150, Datum::Number(486))), None, Some(150)));
        let none = call(&table, "");
        assert_eq!((none.caller, none.streams, none.packets, none.lost), (None, 1, 10, 1));
        assert_eq!(table.rows.len(), 3, "OPTIONS is no call, and one without identifier is not joined");
    }

    #[test]
    fn responses_alone_show_the_call() {
        let values = [
            ("call_id", value("one")),
            ("seq", value("1 INVITE")),
            ("response_from", value("<sip:alice@example.org>")),
            ("response_to", value(TAGGED)),
            ("status_code", Value::Uint(200)),
        ];
        let one = call(&read(&[record("sip", 7, &values)], 1, 64), "one");
        assert_eq!((one.answered, one.callee), (Some(7), Some((7, Datum::Text("bob@example.com".into())))));
    }

    #[test]
    fn workers_do_not_matter() {
        let alone = read(&talk(), 1, 64);
        for workers in [2, 3, 7] {
            assert_eq!(read(&talk(), workers, 64), alone, "{workers}");
        }
    }

    /// Whatever the identifiers, no more is held than stated, and a call with more records than all of them stays.
    #[test]
    fn a_flood_of_calls_is_bounded() {
        let mut records = talk();
        for n in 0..2_000_u32 {
            let id: &'static str = Box::leak(format!("{n}{}", "é".repeat(300)).into_boxed_str());
            let to: &'static str = Box::leak(format!("<sip:{}@example.com>", "\u{fffd}".repeat(200)).into());
            records.push(transaction(id, 500, "INVITE", to, None));
        }
        let table = read(&records, 1, 64);
        assert_eq!((table.rows.len(), call(&table, "one").records), (64, 9));
        assert!(table.absent >= 1 && !table.is_exact());
        let stated = SPEC.memory(&FunctionCall::new("calls").with("rows", 64)).unwrap();
        assert!(table.memory() <= stated.reading, "{} > {}", table.memory(), stated.reading);
    }

    #[test]
    fn parties_are_read_from_every_form_of_address() {
        let of = |field: &str| {
            let (uri, parameters) = address(field.as_bytes());
            (party(uri), has_tag(parameters))
        };
        let text = |text: &str| Some(Datum::Text(text.into()));
        for (field, name, tag) in [
            ("Alice <sip:alice@example.org>", "alice@example.org", false),
            (r#""<x> \" y" <sips:alice@example.org;transport=tcp?a=b> ; TAG=1"#, "alice@example.org", true),
            ("sip:alice@example.org;tag=1", "alice@example.org", true),
            ("SIP:alice:secret@192.0.2.1:5060", "alice@192.0.2.1:5060", false),
            ("<sip:alice;tag=no@example.org>", "alice@example.org", false),
            ("<tel:+1-555>;tag=", "+1-555", true),
            ("<sip:192.0.2.1", "192.0.2.1", false),
        ] {
            assert_eq!(of(field), (text(name), tag), "{field}");
        }
        for field in ["", "<>", "\"open <sip:a@b", "<sip:>;x"] {
            let (found, tag) = of(field);
            assert!(found.is_none() || field.contains("open"), "{field} {found:?}");
            assert!(!tag);
        }
    }
}
