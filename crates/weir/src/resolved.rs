//! Names that clients resolved before they connected. They give a flow's address the name that its client used.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::{Arc, LazyLock};
use weir_api::{Key, Top, TopRow};
use weir_engine::{FlowIdentity, FlowRecord};
use weir_proto::{DNS, Record, Table, Value};

/// Minimum validity of a name in nanoseconds, regardless of the answer's TTL: programs keep a name that they have just
/// resolved, and use even an answer that must not be cached.
const MIN: u64 = 60_000_000_000;
/// Maximum number of names kept for a pair of client and address: the latest ones.
const NAMES: usize = 4;
/// Maximum bytes of an answer including its name (RFC 1035 2.3.4), by which the memory limit is converted into a
/// number.
const ANSWER: usize = 512;

/// Names of servers, by the address of the server and that of the client that resolved it.
pub type HostNames = BTreeMap<(IpAddr, IpAddr), String>;

/// DNS answers, by client and address.
pub struct Resolved {
    known: HashMap<(IpAddr, IpAddr), Vec<Answer>>,
    /// Keys in order of arrival.
    order: VecDeque<(IpAddr, IpAddr)>,
    max: usize,
    /// Answers that were removed to make room.
    shed: u64,
}

struct Answer {
    name: Arc<str>,
    from: u64,
    until: u64,
}

impl Resolved {
    /// A table with a memory limit in bytes.
    pub fn new(memory: usize) -> Self {
        Self { known: HashMap::new(), order: VecDeque::new(), max: (memory / ANSWER).max(64), shed: 0 }
    }

    /// Bytes in use, and answers that were removed to make room.
    pub fn memory(&self) -> (usize, u64) {
        (self.order.len() * ANSWER, self.shed)
    }

    /// The positions of the fields that names are read from, in the table that they are read from.
    pub fn places() -> impl Iterator<Item = usize> + Clone {
        static PLACES: LazyLock<Vec<usize>> = LazyLock::new(|| {
            let place = |name| DNS.fields.iter().position(|field| field.name == name);
            ["query", "records", "rtt"].into_iter().filter_map(place).collect()
        });
        PLACES.iter().copied()
    }

    /// Whether records of that table can contain answers.
    pub fn reads(table: &Table) -> bool {
        *table == DNS
    }

    /// Takes a record, and keeps its answers with addresses.
    pub fn record(&mut self, flow: &FlowIdentity, record: &Record<'_>) {
        let (Value::Text(query), Value::Rows(rows)) = (record.get("query"), record.get("records")) else {
            return;
        };
        let Ok(name) = std::str::from_utf8(query) else { return };
        if name.is_empty() || name.len() > 255 {
            return;
        }
        let asked_for = if let Value::Duration(time) = record.get("rtt") { *time } else { 0 };
        let from = record.time.0.saturating_add(asked_for);
        let (client, _) = flow.initiator();
        let mut shared: Option<Arc<str>> = None;
        for row in rows {
            let address = row.iter().find_map(|value| match value {
                Value::Address(address) => Some(*address),
                _ => None,
            });
            let Some(address) = address else { continue };
            let keep = row.iter().find_map(|value| match value {
                Value::Duration(time) => Some(*time),
                _ => None,
            });
            let until = from.saturating_add(keep.unwrap_or(0).max(MIN));
            let name = Arc::clone(shared.get_or_insert_with(|| Arc::from(name)));
            self.add((client, address), Answer { name, from, until });
        }
    }

    fn add(&mut self, key: (IpAddr, IpAddr), answer: Answer) {
        while self.order.len() >= self.max {
            if let Some(oldest) = self.order.pop_front() {
                self.shed += 1;
                // Each entry of the order is one answer, the oldest of its pair.
                let is_empty = self.known.get_mut(&oldest).is_some_and(|answers| {
                    if !answers.is_empty() {
                        answers.remove(0);
                    }
                    answers.is_empty()
                });
                if is_empty {
                    self.known.remove(&oldest);
                }
            }
        }
        let answers = self.known.entry(key).or_default();
        if answers.len() >= NAMES {
            // The position of the removed answer in the order passes to the new one.
            answers.remove(0);
        } else {
            self.order.push_back(key);
        }
        answers.push(answer);
    }

    /// The names of the servers of a list of talkers: for each the first one that is known.
    pub fn of_talkers(&self, talkers: &Top) -> HostNames {
        let named = |row: TopRow| {
            let Key::Talker { server, client, .. } = row.key else { return None };
            let first = self.known.get(&(client, server))?.first()?;
            Some(((server, client), first.name.to_string()))
        };
        talkers.ranked().into_iter().filter_map(named).collect()
    }

    /// The name of a flow's responder according to its initiator when the flow began: that of the last answer before,
    /// while it is valid.
    pub fn name(&self, flow: &FlowRecord) -> Option<Arc<str>> {
        if self.known.is_empty() {
            return None;
        }
        let address = |(address, _): ([u8; 16], u16)| std::net::Ipv6Addr::from(address).to_canonical();
        let answers = self.known.get(&(address(flow.initiator()), address(flow.responder())))?;
        let fits = |answer: &&Answer| answer.from <= flow.first.0 && flow.first.0 <= answer.until;
        answers.iter().filter(fits).max_by_key(|answer| answer.from).map(|answer| Arc::clone(&answer.name))
    }
}
