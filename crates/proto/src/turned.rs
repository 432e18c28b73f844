//! A flow whose server is its initiator: a conversation whose beginning was not seen, and whose ports do not say who the
//! server is, or are wrong about it.
//!
//! Parsers know two roles, the client's and the server's, and take the initiator for the client. Here the roles are
//! exchanged before the parser, and after it in what it emits.

use crate::file::FILES;
use crate::{
    ANOMALY, Asked, Buffer, Columns, Expected, Field, Out, Parser, Protocol, Record, Setup, Span, Step,
    Table, Value,
};
use weir_wire::stream::Chunk;
use weir_wire::{Direction, Time};

/// A parser of a flow whose server is its initiator.
pub(crate) struct Turned(pub Box<dyn Parser>);

/// The flow as the parser takes it.
pub(crate) fn setup(flow_ref: &Setup) -> Setup {
    Setup { initiator: flow_ref.responder, responder: flow_ref.initiator, ..flow_ref.clone() }
}

impl Parser for Turned {
    fn chunk(&mut self, chunk: &Chunk<'_>, out: &mut dyn Out) -> Step {
        self.0.chunk(&Chunk { direction: chunk.direction.opposite(), ..*chunk }, &mut Turning(out))
    }

    fn end(&mut self, time: Time, out: &mut dyn Out) {
        self.0.end(time, &mut Turning(out));
    }

    fn follows(&mut self, protocol: &'static Protocol) {
        self.0.follows(protocol);
    }

    fn touch(&self) -> u64 {
        self.0.touch()
    }

    fn memory(&self) -> usize {
        size_of_val(&*self.0) + self.0.memory()
    }
}

/// Exchanges the sides of what a parser emits.
struct Turning<'a>(&'a mut dyn Out);

impl Out for Turning<'_> {
    fn record(&mut self, mut record: Record<'_>) {
        record.at = record.at.turned();
        // The two tables that many protocols share name the side by its place in the flow, all others by its role.
        for (table, name) in [(&ANOMALY, "reverse"), (&FILES, "is_orig")] {
            let at =
                table.fields.iter().position(|field| field.name == name).filter(|_| *record.table == *table);
            if let Some(Value::Bool(side)) = at.and_then(|at| record.values.get_mut(at)) {
                *side = !*side;
            }
        }
        self.0.record(record);
    }

    fn takes(&self, table: &Table) -> bool {
        self.0.takes(table)
    }

    fn reads(&self, table: &'static Table) -> Columns {
        self.0.reads(table)
    }

    fn asked(&self) -> Asked {
        self.0.asked()
    }

    fn field(&mut self, table: &'static Table, field: &'static Field, value: Value<'_>) {
        self.0.field(table, field, value);
    }

    fn buffer(&mut self, buffer: &'static Buffer, side: Direction, bytes: &[u8]) {
        self.0.buffer(buffer, side.opposite(), bytes);
    }

    fn buffer_again(&mut self, buffer: &'static Buffer, side: Direction, bytes: &[u8]) {
        self.0.buffer_again(buffer, side.opposite(), bytes);
    }

    fn transaction(&mut self, side: Direction, number: u64) {
        self.0.transaction(side.opposite(), number);
    }

    fn side_is_complete(&mut self, side: Direction) {
        self.0.side_is_complete(side.opposite());
    }

    fn expect(&mut self, expected: Expected) {
        self.0.expect(expected);
    }

    fn carries(&mut self, protocol: &'static Protocol) {
        self.0.carries(protocol);
    }

    fn file(&mut self, file: u64, read: u64) {
        self.0.file(file, read);
    }

    fn content(&mut self, file: u64, offset: u64, bytes: &[u8]) -> bool {
        self.0.content(file, offset, bytes)
    }

    fn may_inflate(&mut self) -> bool {
        self.0.may_inflate()
    }

    fn inflated(&mut self, bytes: u64) {
        self.0.inflated(bytes);
    }

    fn message(&mut self, unread: usize) -> Span {
        self.0.message(unread).turned()
    }

    fn more(&mut self, unread: usize) -> Span {
        self.0.more(unread).turned()
    }

    fn rest(&mut self, side: Direction) -> Span {
        self.0.rest(side.opposite()).turned()
    }

    fn here(&self) -> Span {
        self.0.here().turned()
    }

    fn both(&self) -> Span {
        self.0.both().turned()
    }
}

#[cfg(test)]
mod tests {
    use crate::laws::talks;
    use crate::talk::{Talk, Turn};
    use crate::{Record, Value};
    use weir_wire::Direction;

    fn talk(case: &str) -> Talk {
        talks("http", 80).into_iter().find(|(path, _)| path.ends_with(case)).unwrap().1
    }

    /// The conversation as it is when its server is taken for the initiator.
    fn turned(talk: &Talk) -> Talk {
        let turns = talk.turns.iter().map(|turn| match turn {
            Turn::Data(side, data) => Turn::Data(side.opposite(), data.clone()),
            Turn::Gap(side, bytes) => Turn::Gap(side.opposite(), *bytes),
        });
        Talk { turns: turns.collect(), ports: [talk.ports[1], talk.ports[0]], ..talk.clone() }
    }

    fn is_of_side(record: &Record<'_>, name: &str) -> Option<bool> {
        if let Value::Bool(side) = record.get(name) { Some(*side) } else { None }
    }

    /// Whoever is taken for the initiator, on any port and however cut, a response that comes first has its row, and so
    /// has what follows; only the sides are exchanged.
    #[test]
    fn a_response_that_comes_first_has_its_row() {
        for (case, rows) in [("middle.talk", 3), ("icy-first.talk", 1)] {
            for ports in [[40_000, 8081], [40_000, 80], [50_000, 40_000]] {
                let straight = Talk { ports, ..talk(case) };
                let expected = straight.emitted(|data| vec![data.to_vec()]);
                assert_eq!(
                    expected.records.iter().filter(|r| r.table.name == "http").count(),
                    rows,
                    "{case}"
                );
                for size in [1, 2, 7, 50, 9999] {
                    let found =
                        turned(&straight).emitted(|data| data.chunks(size).map(<[u8]>::to_vec).collect());
                    assert_eq!(found.records.len(), expected.records.len(), "{case} {ports:?} {size}");
                    assert_eq!(found.content, expected.content);
                    for (record, straight) in found.records.iter().zip(&expected.records) {
                        for side in [Direction::Forward, Direction::Reverse] {
                            assert_eq!(record.at.of(side), straight.at.of(side.opposite()), "{case}");
                        }
                        let named = ["reverse", "is_orig"].into_iter().filter(|name| {
                            matches!(record.table.name, "anomaly" | "files")
                                && record.table.fields.iter().any(|field| field.name == *name)
                        });
                        let mut values = record.values.to_vec();
                        for name in named {
                            assert_ne!(is_of_side(record, name), is_of_side(straight, name), "{case}");
                            let at = record.table.fields.iter().position(|field| field.name == name).unwrap();
                            values[at] = straight.get(name).clone();
                        }
                        assert_eq!(values, straight.values.to_vec(), "{case} {ports:?}");
                    }
                }
            }
        }
    }

    /// A flow of which the ports name the wrong server, and of which only requests were seen, has a row for each.
    #[test]
    fn requests_of_the_responder_have_their_rows() {
        for ports in [[80, 53], [80, 25], [8081, 40_000]] {
            let requests = b"GET /a HTTP/1.1\r\nHost: a.test\r\n\r\nGET /b HTTP/1.1\r\nHost: b.test\r\n\r\n";
            let turns = vec![Turn::Data(Direction::Reverse, requests.to_vec())];
            let talk = Talk { turns, ports, ..talk("middle.talk") };
            for size in [9999, 7, 1] {
                let found = talk.emitted(|data| data.chunks(size).map(<[u8]>::to_vec).collect());
                let rows: Vec<_> =
                    found.records.iter().filter(|record| record.table.name == "http").collect();
                let hosts: Vec<_> = rows.iter().map(|row| row.get("host").clone()).collect();
                assert_eq!(
                    hosts,
                    [Value::from("a.test"), Value::from("b.test")],
                    "{ports:?} {size}: {:?}",
                    found.records
                );
                assert!(rows.iter().all(|row| !row.at.of(Direction::Reverse).is_empty()), "{ports:?} {size}");
            }
        }
    }

    /// What may be a request on its own port is none where only the ports of the flow are turned: its method must be known.
    #[test]
    fn doubtful_requests_of_the_responder_are_none() {
        for line in
            ["\r\nGET /a HTTP/1.1", " GET /a HTTP/1.1", "GOT /a HTTP/1.1", "get /a HTTP/1.1", "\tGET /a"]
        {
            let turns =
                vec![Turn::Data(Direction::Reverse, format!("{line}\r\nHost: a.test\r\n\r\n").into_bytes())];
            let talk = Talk { turns, ports: [80, 53], ..talk("middle.talk") };
            let found = talk.emitted(|data| vec![data.to_vec()]);
            assert!(found.records.iter().all(|record| record.table.name != "http"), "{line:?}");
        }
    }

    /// A response that is cut off anywhere has a row as soon as its first line is whole.
    #[test]
    fn a_response_that_is_cut_off_has_its_row() {
        let whole = turned(&talk("icy-first.talk"));
        let Some(Turn::Data(side, data)) = whole.turns.first().cloned() else { panic!("{whole}") };
        let line = data.iter().position(|byte| *byte == b'\n').unwrap() + 1;
        for end in 1..=data.len() {
            let cut = Talk { turns: vec![Turn::Data(side, data[..end].to_vec())], ..whole.clone() };
            let found = cut.emitted(|data| vec![data.to_vec()]);
            let rows = found.records.iter().filter(|record| record.table.name == "http").count();
            assert_eq!(rows, usize::from(end >= line), "{end} of {}", data.len());
        }
    }
}
