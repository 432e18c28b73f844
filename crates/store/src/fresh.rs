//! Hosts and services at home that a day's flows have, and those of the days before it do not.
//!
//! The flows of the day are read first, and the days before then remove what they have: the memory is that of one day's hosts and
//! services, at most 200,000 of them.

use crate::{Store, StoreError, StoredFlow, TimeRange};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::Hash;
use std::net::IpAddr;
use weir_filter::FlowTest;
use weir_output::Home;
use weir_output::figures::counted;
use weir_output::ports;

/// The days before in which a host or a service is known.
pub const DAYS: u64 = 7;
const DAY: u64 = 86_400_000_000_000;
/// Maximum number of hosts, and of services, of a day.
const MOST: usize = 200_000;
/// The first ephemeral port (Linux's `ip_local_port_range`): one that answers was announced by another connection, or is the
/// client's of a flow whose begin was not seen.
const EPHEMERAL: u16 = 32_768;

/// A service of a host.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Service {
    /// Its host.
    pub host: IpAddr,
    /// Its port.
    pub port: u16,
    /// IP protocol number.
    pub ip_proto: u8,
}

/// What a day has of a new host or service.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Seen {
    /// Begin of its first flow, in nanoseconds since the epoch.
    pub first: u64,
    /// The other end of that flow.
    pub peer: IpAddr,
    /// Number of its flows.
    pub flows: u64,
    /// Bytes on the wire of its flows, both directions.
    pub bytes: u64,
}

impl Seen {
    fn of(flow: &StoredFlow<'_>, peer: IpAddr) -> Self {
        let [sent, received] = flow.bytes;
        Self { first: flow.times[0], peer, flows: 1, bytes: sent.saturating_add(received) }
    }

    fn add(&mut self, other: &Self) {
        if (other.first, other.peer) < (self.first, self.peer) {
            (self.first, self.peer) = (other.first, other.peer);
        }
        self.flows += other.flows;
        self.bytes = self.bytes.saturating_add(other.bytes);
    }
}

/// New hosts and services of a day.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Fresh {
    /// Hosts at home that sent packets, in the order of their first flow.
    pub hosts: Vec<(IpAddr, Seen)>,
    /// Services at home that answered, in the order of their first flow.
    pub services: Vec<(Service, Seen)>,
    /// Begin of the first flow of the days before, in nanoseconds since the epoch; `None` if there is nothing to compare with, so
    /// that nothing is new.
    pub since: Option<u64>,
    /// What the answer leaves out.
    pub notes: Vec<String>,
}

/// What is new in a day, from the flows of a store. `day` is begin and end in nanoseconds since the epoch.
///
/// # Errors
///
/// The store cannot be read.
pub fn of(store: &dyn Store, day: (u64, u64), home: &Home) -> Result<Fresh, StoreError> {
    let all = FlowTest::All(Vec::new());
    let (mut hosts, mut services) = (Known::default(), Known::default());
    let mut fresh = Fresh::default();
    let span = |from: u64, to: u64| TimeRange { from: Some(from), to: Some(to) };
    let note = store.each_flow(&all, span(day.0, day.1), &mut |flow| {
        // A flow that began before is of the day before.
        if (day.0..day.1).contains(&flow.times[0]) {
            each_sender(flow, home, |host, peer| hosts.add(host, Seen::of(flow, peer)));
            if let Some(service) = service(flow, home) {
                services.add(service, Seen::of(flow, flow.ends[0].0));
            }
        }
    })?;
    fresh.notes.extend(note);
    let note = store.each_flow(&all, span(day.0.saturating_sub(DAYS * DAY), day.0), &mut |flow| {
        let begin = flow.times[0];
        fresh.since = Some(fresh.since.map_or(begin, |first| first.min(begin)));
        each_sender(flow, home, |host, _| {
            hosts.seen.remove(&host);
        });
        if let Some(service) = service(flow, home) {
            services.seen.remove(&service);
        }
    })?;
    fresh.notes.extend(note);
    let shed = hosts.shed + services.shed;
    if shed > 0 {
        fresh.notes.push(format!("{} found no room: something new may be missing", counted(shed, "flow")));
    }
    if fresh.since.is_some() {
        (fresh.hosts, fresh.services) = (hosts.sorted(), services.sorted());
    }
    Ok(fresh)
}

/// Calls `each` with every end of a flow at home that sent packets, and the other end.
fn each_sender(flow: &StoredFlow<'_>, home: &Home, mut each: impl FnMut(IpAddr, IpAddr)) {
    let [(one, _), (other, _)] = flow.ends;
    for (host, peer, packets) in [(one, other, flow.packets[0]), (other, one, flow.packets[1])] {
        if packets > 0 && home.has(host) {
            each(host, peer);
        }
    }
}

/// The service at home that answered in a flow.
fn service(flow: &StoredFlow<'_>, home: &Home) -> Option<Service> {
    let [_, (host, port)] = flow.ends;
    let answers = flow.packets[1] > 0 && ports::has_ports(flow.ip_proto) && (1..EPHEMERAL).contains(&port);
    // A port that refuses answers with a reset alone.
    (answers && flow.state != "REJ" && home.has(host)).then_some(Service {
        host,
        port,
        ip_proto: flow.ip_proto,
    })
}

/// What the day has, within a bound.
struct Known<K> {
    seen: HashMap<K, Seen>,
    /// Flows that found no room.
    shed: u64,
}

impl<K> Default for Known<K> {
    fn default() -> Self {
        Self { seen: HashMap::new(), shed: 0 }
    }
}

impl<K: Copy + Eq + Hash + Ord> Known<K> {
    fn add(&mut self, key: K, seen: Seen) {
        let is_full = self.seen.len() >= MOST;
        match self.seen.entry(key) {
            Entry::Occupied(mut known) => known.get_mut().add(&seen),
            Entry::Vacant(_) if is_full => self.shed += 1,
            Entry::Vacant(room) => {
                room.insert(seen);
            }
        }
    }

    fn sorted(self) -> Vec<(K, Seen)> {
        let mut rows: Vec<(K, Seen)> = self.seen.into_iter().collect();
        rows.sort_unstable_by_key(|(key, seen)| (seen.first, *key));
        rows
    }
}
