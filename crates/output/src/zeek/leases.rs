//! Rows of DHCP sessions, joined.
//!
//! A client's broadcasts and a server's answers are flows of their own, and the parser emits a row for each. The number
//! that the client chose joins them, as in Zeek's dhcp.log.

use std::collections::VecDeque;
use weir_engine::FlowIdentity;
use weir_proto::{Record, Value};

/// Rows that wait; beyond, the oldest is written as it is.
const MAX_WAITING: usize = 4096;
/// Zeek's limits of a row: with as many flows or messages it is written, and another one begins.
const MAX_FLOWS: usize = 10;
const MAX_MESSAGES: usize = 50;
/// Nanoseconds after the last message of a row in which others may still come: a flow of UDP ends after a minute
/// without packets, and its row comes then.
const PATIENCE: u64 = 120_000_000_000;
/// Zeek's limits of a session in nanoseconds: a later message belongs to it before the first has passed, or if the
/// silence is short and the session not too old.
const MIN_AGE: u64 = 10_000_000_000;
const MAX_SILENCE: u64 = 5_000_000_000;
const MAX_AGE: u64 = 30_000_000_000;

/// A row that waits, with the flow that it begins in.
pub type Waiting = (FlowIdentity, Record<'static>);

/// Rows that wait for others of their session, the oldest first.
#[derive(Default)]
pub struct Leases {
    waiting: VecDeque<Joined>,
}

/// A row that was joined of rows of these flows.
struct Joined {
    flow: FlowIdentity,
    record: Record<'static>,
    flows: Vec<u64>,
}

impl Joined {
    /// Whether it stays within the limits together with a row of the same session.
    fn has_room(&self, flow: u64, record: &Record<'_>) -> bool {
        let flows = self.flows.len() + usize::from(!self.flows.contains(&flow));
        flows <= MAX_FLOWS && messages(&self.record) + messages(record) <= MAX_MESSAGES
    }

    fn is_full(&self) -> bool {
        self.flows.len() >= MAX_FLOWS || messages(&self.record) >= MAX_MESSAGES
    }

    fn into_row(self) -> Waiting {
        (self.flow, self.record)
    }
}

/// Number of a row's messages.
fn messages(record: &Record<'_>) -> usize {
    if let Value::List(types) = record.get("types") { types.len() } else { 0 }
}

impl Leases {
    /// Takes a row. Returns one that is full, or that gives its place because there are too many.
    pub fn add(&mut self, flow: &FlowIdentity, record: Record<'static>) -> Option<Waiting> {
        let fits =
            |joined: &Joined| is_one_session(&joined.record, &record) && joined.has_room(flow.id(), &record);
        let at = self.waiting.iter().position(fits).unwrap_or(self.waiting.len());
        match self.waiting.get_mut(at) {
            Some(joined) => {
                if !joined.flows.contains(&flow.id()) {
                    joined.flows.push(flow.id());
                }
                if joined.record.time <= record.time {
                    join(&mut joined.record, &record);
                } else {
                    let later = std::mem::replace(&mut joined.record, record);
                    join(&mut joined.record, &later);
                    joined.flow = *flow;
                }
            }
            None => self.waiting.push_back(Joined { flow: *flow, record, flows: vec![flow.id()] }),
        }
        let leaves = match self.waiting.get(at) {
            Some(joined) if joined.is_full() => self.waiting.remove(at),
            _ if self.waiting.len() > MAX_WAITING => self.waiting.pop_front(),
            _ => None,
        };
        leaves.map(Joined::into_row)
    }

    /// The rows of sessions that nothing is expected of any more at that time.
    pub fn ended(&mut self, now: u64) -> Vec<Waiting> {
        let is_open = |joined: &Joined| last(&joined.record).saturating_add(PATIENCE) >= now;
        if self.waiting.iter().all(is_open) {
            return Vec::new();
        }
        let (open, ended) =
            std::mem::take(&mut self.waiting).into_iter().partition::<VecDeque<Joined>, _>(is_open);
        self.waiting = open;
        ended.into_iter().map(Joined::into_row).collect()
    }

    /// All rows.
    pub fn all(&mut self) -> Vec<Waiting> {
        std::mem::take(&mut self.waiting).into_iter().map(Joined::into_row).collect()
    }
}

/// The time of a row's last message.
fn last(record: &Record<'_>) -> u64 {
    match record.get("duration") {
        Value::Duration(span) => record.time.0.saturating_add(*span),
        _ => record.time.0,
    }
}

/// Whether two rows are of one session.
fn is_one_session(one: &Record<'_>, other: &Record<'_>) -> bool {
    let (first, second) = if one.time <= other.time { (one, other) } else { (other, one) };
    let silence = second.time.0.saturating_sub(last(first));
    let age = second.time.since(first.time);
    one.get("id") == other.get("id") && (age < MIN_AGE || silence <= MAX_SILENCE && age <= MAX_AGE)
}

/// A field's value.
fn owned(record: &Record<'_>, name: &str) -> Value<'static> {
    record.get(name).clone().into_owned()
}

/// A client's own address, which counts more than the one that it is given.
fn own_address(record: &Record<'_>) -> Option<Value<'static>> {
    let client = owned(record, "client");
    (record.get("assigned").is_none() && !client.is_none()).then_some(client)
}

/// Adds a row to one that began before it.
fn join(first: &mut Record<'static>, second: &Record<'static>) {
    let end = last(first).max(last(second));
    let client = own_address(first).or_else(|| own_address(second));
    let mut messages: Vec<(Value<'static>, Value<'static>)> = Vec::new();
    for record in [&*first, second] {
        if let (Value::List(types), Value::List(times)) = (owned(record, "types"), owned(record, "times")) {
            messages.extend(types.into_iter().zip(times));
        }
    }
    messages.sort_by_key(|(_, time)| if let Value::Time(time) = time { time.0 } else { 0 });
    let (types, times) = messages.into_iter().unzip();
    for field in second.table.fields {
        let value = owned(second, field.name);
        let stays = matches!(field.name, "client" | "mac") && !first.get(field.name).is_none();
        if !value.is_none() && !stays {
            first.set(field.name, value);
        }
    }
    if let Some(client) = client {
        first.set("client", client);
    }
    first.set("types", Value::List(types));
    first.set("times", Value::List(times));
    first.set("duration", Value::Duration(end.saturating_sub(first.time.0)));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures;
    use weir_wire::Time;

    const SECOND: u64 = 1_000_000_000;

    fn row(
        id: u64,
        begin: u64,
        types: &[(&'static str, u64)],
        more: &[(&str, Value<'static>)],
    ) -> Record<'static> {
        let table = weir_proto::tables().find(|table| table.name == "dhcp").unwrap();
        let values = vec![Value::None; table.fields.len()];
        let mut record = Record::new(table, Time(begin * SECOND), values);
        let end = types.iter().map(|(_, time)| *time).max().unwrap_or(begin);
        record.set("id", id.into());
        record.set("duration", Value::Duration((end - begin) * SECOND));
        record.set("types", types.iter().map(|(name, _)| *name).collect());
        record.set("times", types.iter().map(|(_, time)| Time(time * SECOND)).collect());
        more.iter().for_each(|(name, value)| record.set(name, value.clone()));
        record
    }

    fn address(last: u8) -> Value<'static> {
        Value::Address([192, 0, 2, last].into())
    }

    #[test]
    fn both_flows_of_a_session_are_one_row() {
        let client = row(7, 100, &[("DISCOVER", 100), ("REQUEST", 102)], &[("host", "laptop".into())]);
        let given = [("client", address(9)), ("assigned", address(9)), ("server", address(1))];
        let server = row(7, 101, &[("OFFER", 101), ("ACK", 103)], &given);
        for order in [[&client, &server], [&server, &client]] {
            let mut leases = Leases::default();
            for row in order {
                assert!(leases.add(&fixtures::identity(), row.clone()).is_none());
            }
            let [(_, joined)] = leases.all().try_into().unwrap();
            assert_eq!(joined.time, Time(100 * SECOND));
            let types = ["DISCOVER", "OFFER", "REQUEST", "ACK"];
            assert_eq!(*joined.get("types"), types.into_iter().collect());
            assert_eq!(*joined.get("duration"), Value::Duration(3 * SECOND));
            assert_eq!((joined.get("host"), joined.get("server")), (&"laptop".into(), &address(1)));
            assert_eq!(*joined.get("client"), address(9));
        }
    }

    #[test]
    fn what_is_far_apart_or_of_another_number_stays_apart() {
        let mut leases = Leases::default();
        for (id, begin) in [(7, 100), (8, 100), (7, 140), (7, 105)] {
            leases.add(&fixtures::identity(), row(id, begin, &[("INFORM", begin)], &[]));
        }
        assert_eq!(leases.waiting.len(), 3);
        assert_eq!(leases.ended(200 * SECOND).len(), 0);
        assert_eq!(leases.ended(226 * SECOND).len(), 2);
        assert_eq!(leases.all().len(), 1);
    }

    /// Rows of one session, of as many flows and with as many messages as these, are written in rows within the limits,
    /// and no message is lost or written twice.
    #[test]
    fn rows_of_a_session_do_not_grow_with_its_traffic() {
        for (flows, each) in [(1000, 1), (1000, 7), (300, 49), (300, 50), (9, 5), (4, 12), (5, 10)] {
            let (mut leases, mut rows) = (Leases::default(), Vec::new());
            let kinds = vec![("DISCOVER", 100); each];
            for flow in 0..flows as u64 {
                let identity = FlowIdentity { first: Time(flow), ..fixtures::identity() };
                rows.extend(leases.add(&identity, row(7, 100, &kinds, &[])));
            }
            rows.extend(leases.all());
            let sizes: Vec<usize> = rows.iter().map(|(_, row)| messages(row)).collect();
            assert_eq!(sizes.iter().sum::<usize>(), flows * each);
            let most = MAX_MESSAGES.min(MAX_FLOWS * each);
            assert!(sizes.iter().all(|size| *size <= most), "{flows} flows of {each}: {sizes:?}");
            // No more rows than needed.
            let in_one = MAX_FLOWS.min(MAX_MESSAGES / each);
            assert_eq!(rows.len(), flows.div_ceil(in_one), "{flows} flows of {each}: {sizes:?}");
        }
    }

    #[test]
    fn rows_that_wait_have_a_limit() {
        let mut leases = Leases::default();
        let all = (0..MAX_WAITING as u64 + 3)
            .filter_map(|id| leases.add(&fixtures::identity(), row(id, 100, &[("INFORM", 100)], &[])));
        assert_eq!(all.count(), 3);
    }
}
