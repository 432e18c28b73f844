//! Expected flows: those that the parser of another flow has announced.
//!
//! A flow between the hosts of the flow that announced it is read by the same worker, because workers are chosen by the pair
//! of addresses, and waits with that worker. Media of a call and files of a chat may flow between other hosts. Their
//! announcements are shared by all workers of a run, and are made and taken in the order of packets, so that a run over files
//! gives the same results with any number of workers. On a link they hold from the moment at which they are made.

use crate::FlowIdentity;
use crate::announcers::{Announcers, Outlook};
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use weir_proto::{Expected, may_begin_elsewhere};
use weir_wire::{Batch, Layers, Time};

/// Bytes of an expected flow, including its parser.
const EXPECTED: usize = 512;
/// Maximum number of expected flows: announcing a flow costs a sender nothing.
const MAX_EXPECTED: usize = 4096;

/// The expected flows.
#[derive(Default)]
struct Expectations {
    /// Expected flows with their places in the order, by protocol, responder address and port.
    waiting: HashMap<(IpAddr, u16, u8), (u64, Expected)>,
    /// Keys in the order of announcement. One that is taken leaves from anywhere: flows begin in any order.
    order: BTreeMap<u64, (IpAddr, u16, u8)>,
    /// The next place in the order.
    next: u64,
    in_vain: u64,
}

impl Expectations {
    fn add(&mut self, expected: Expected) {
        let at = (expected.responder.0, expected.responder.1, expected.ip_proto);
        self.forget(expected.from);
        while self.order.len() >= MAX_EXPECTED {
            self.drop_oldest();
        }
        match self.waiting.entry(at) {
            // A newer announcement of the same port replaces the older one, in its place.
            Entry::Occupied(mut older) => {
                older.get_mut().1 = expected;
                self.in_vain += 1;
            }
            Entry::Vacant(room) => {
                room.insert((self.next, expected));
                self.order.insert(self.next, at);
                self.next += 1;
            }
        }
    }

    /// Memory of the expected flows in bytes.
    fn memory(&self) -> usize {
        self.waiting.len() * EXPECTED
    }

    /// Where the expectation of that flow waits; `None` if it is not expected.
    fn find(&self, flow: &FlowIdentity, now: Time) -> Option<(IpAddr, u16, u8)> {
        if self.waiting.is_empty() {
            return None;
        }
        let ((initiator, _), (responder, port)) = (flow.initiator(), flow.responder());
        let at = (responder, port, flow.key.proto);
        let is_it = |(_, expected): &&(u64, Expected)| {
            expected.initiator.is_none_or(|address| address == initiator) && now <= expected.until
        };
        self.waiting.get(&at).filter(is_it).map(|_| at)
    }

    /// Removes and returns the expectation of that flow.
    fn take(&mut self, flow: &FlowIdentity, now: Time) -> Option<Expected> {
        let at = self.find(flow, now)?;
        let (place, expected) = self.waiting.remove(&at)?;
        self.order.remove(&place);
        Some(expected)
    }

    fn forget(&mut self, now: Time) {
        while let Some((_, oldest)) = self.order.values().next().and_then(|at| self.waiting.get(at)) {
            if oldest.until >= now {
                return;
            }
            self.drop_oldest();
        }
    }

    fn drop_oldest(&mut self) {
        if self.order.pop_first().and_then(|(_, at)| self.waiting.remove(&at)).is_some() {
            self.in_vain += 1;
        }
    }
}

/// Announced flows between other hosts than those of the announcing flow wait for ports from this one on: services that a
/// host begins with administrator's rights are not announced, and their flows need not wait for other workers.
const FIRST_PORT: u16 = 1024;

/// The order of the packets of a run's workers.
pub trait PacketOrder: Send + Sync {
    /// A worker has taken its packets before the one of that number. Numbers wrap around.
    fn pass(&self, worker: usize, packet: u32);

    /// No packet of a worker before the one of that number will announce a flow, whether it was taken or not.
    fn promise(&self, worker: usize, packet: u32);

    /// Waits until all workers have taken their packets before the one of that number, which `worker` takes now.
    fn wait(&self, worker: usize, packet: u32);

    /// Waits until all workers have taken the packets that are before those which `worker` takes next.
    fn wait_here(&self, worker: usize);

    /// Waits until each worker has taken its packets before the one of that number, which `worker` takes now, or has promised
    /// that the others before it announce nothing.
    fn wait_for_promises(&self, worker: usize, packet: u32);
}

/// Announcements that all workers of a run share. Clones share them.
#[derive(Clone, Default)]
pub struct Announcements {
    shared: Arc<Shared>,
    /// The worker of this handle, and the order of workers; `None` if announcements hold from the moment at which they are
    /// made.
    order: Option<(usize, Arc<dyn PacketOrder>)>,
}

#[derive(Default)]
struct Shared {
    expected: Mutex<Expectations>,
    /// Number of expected flows.
    number: AtomicUsize,
}

impl Announcements {
    /// The handle of a worker of a run in which packets have an order.
    #[must_use]
    pub fn in_order(&self, worker: usize, order: Arc<dyn PacketOrder>) -> Self {
        Self { shared: Arc::clone(&self.shared), order: Some((worker, order)) }
    }

    fn pass(&self, packet: u32) {
        if let Some((worker, order)) = &self.order {
            order.pass(*worker, packet);
        }
    }

    fn promise(&self, packet: u32) {
        if let Some((worker, order)) = &self.order {
            order.promise(*worker, packet);
        }
    }

    /// The announcements, after all workers have taken what is before a packet.
    fn before(&self, packet: u32) -> MutexGuard<'_, Expectations> {
        if let Some((worker, order)) = &self.order {
            order.wait(*worker, packet);
        }
        self.lock()
    }

    fn lock(&self) -> MutexGuard<'_, Expectations> {
        self.shared.expected.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an announcement of a packet. Returns the number of those that were dropped for it.
    fn add(&self, packet: u32, expected: Expected) -> u64 {
        let mut all = self.before(packet);
        let before = all.in_vain;
        all.add(expected);
        self.shared.number.store(all.waiting.len(), Ordering::Release);
        all.in_vain - before
    }

    /// Removes and returns the expectation of a flow that begins with that packet.
    fn take(&self, packet: u32, flow: &FlowIdentity, now: Time) -> Option<Expected> {
        if let Some((worker, order)) = &self.order {
            order.wait_for_promises(*worker, packet);
        }
        // Without an order, none is missed that could be taken.
        if self.number() == 0 || self.lock().find(flow, now).is_none() {
            return None;
        }
        // A flow before this one, which another worker reads, may take it.
        let mut all = self.before(packet);
        let taken = all.take(flow, now);
        self.shared.number.store(all.waiting.len(), Ordering::Release);
        taken
    }

    fn number(&self) -> usize {
        self.shared.number.load(Ordering::Acquire)
    }
}

/// The announcements that concern one worker.
#[derive(Default)]
pub(crate) struct Announced {
    /// Expected flows between the hosts of the flow that announced them.
    here: Expectations,
    /// Those between other hosts.
    elsewhere: Announcements,
    /// Announcements of this worker for which there was no room elsewhere, and those that they replaced.
    in_vain: u64,
    /// Number of the packet that is read; `None` between packets.
    packet: Option<u32>,
    /// The flows of this worker that may announce flows between other hosts.
    announcers: Announcers,
    /// What the worker reads next, if packets have an order.
    outlook: Outlook,
}

impl Announced {
    /// Shares announcements with other workers from now on.
    pub fn share(&mut self, elsewhere: Announcements) {
        self.elsewhere = elsewhere;
    }

    /// Looks at packets that are read after those that it looked at before, and before the packet of number `end`, so that other
    /// workers need not wait until they were read.
    pub fn look_ahead(&mut self, batch: Batch<'_>, layers: &[Layers], end: u32) {
        if self.elsewhere.order.is_some()
            && let Some(promised) = self.outlook.look(batch, layers, end, &self.announcers)
        {
            self.elsewhere.promise(promised);
        }
    }

    /// Whether the packets that were looked at are to be looked at again, from the next one on.
    pub fn looks_again(&mut self) -> bool {
        self.outlook.forget()
    }

    /// A packet of that number is read.
    pub fn begin(&mut self, packet: u32) {
        self.packet = Some(packet);
        self.elsewhere.pass(packet);
        if let Some(promised) = self.outlook.pass(packet) {
            self.elsewhere.promise(promised);
        }
    }

    /// No packet is read until the next one begins. Flows that end meanwhile announce nothing to other hosts: when they end
    /// has no place in the order of packets.
    pub fn end(&mut self) {
        self.packet = None;
    }

    /// Follows whether the flow of a row may announce flows between other hosts, after its session has read a packet with this
    /// payload.
    pub fn follow(&mut self, row: u32, flow: &FlowIdentity, may_announce: bool, payload: &[u8]) {
        if !may_announce {
            self.announcers.remove(row);
        } else if !self.announcers.has(row)
            && begins(flow, payload)
            && self.announcers.add(row, flow.key.port)
        {
            self.outlook.open();
        }
    }

    /// The flow of a row has ended.
    pub fn end_flow(&mut self, row: u32) {
        self.announcers.remove(row);
    }

    /// Takes the announcement of the flow of a row, which reads a packet with this payload. Flows between other hosts are announced
    /// only by flows that began to do so with a packet whose payload shows it: others could not be told before they are read.
    pub fn add(&mut self, row: u32, flow: &FlowIdentity, payload: &[u8], expected: Expected) {
        let (hosts, other) = ((flow.initiator().0, flow.responder().0), expected.responder.0);
        let is_here = expected
            .initiator
            .is_some_and(|initiator| [(initiator, other), (other, initiator)].contains(&hosts));
        match self.packet {
            _ if is_here => self.here.add(expected),
            Some(packet)
                if expected.responder.1 >= FIRST_PORT
                    && (self.announcers.has(row) || begins(flow, payload)) =>
            {
                self.in_vain += self.elsewhere.add(packet, expected);
            }
            _ => self.in_vain += 1,
        }
    }

    /// Removes and returns the expectation of a flow.
    pub fn take(&mut self, flow: &FlowIdentity, now: Time) -> Option<Expected> {
        self.here.take(flow, now).or_else(|| {
            let packet = self.packet.filter(|_| flow.responder().1 >= FIRST_PORT)?;
            self.elsewhere.take(packet, flow, now)
        })
    }

    /// Memory of the expected flows in bytes. Those that are shared count in full for each worker: there are at most 4,096.
    pub fn memory(&self) -> usize {
        self.here.memory() + self.elsewhere.number() * EXPECTED + self.announcers.memory()
    }

    /// Number of expected flows that did not begin in time, or for which there was no room.
    pub fn in_vain(&self) -> u64 {
        self.here.in_vain + self.in_vain
    }
}

/// Whether a flow may begin to announce flows between other hosts with a packet of this payload.
fn begins(flow: &FlowIdentity, payload: &[u8]) -> bool {
    may_begin_elsewhere(flow.key.proto, flow.key.port, payload)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;
    use weir_proto::{PROTOCOLS, Setup, Wants};
    use weir_wire::FlowKey;

    const UDP: u8 = 17;
    const INVITE: &[u8] = b"INVITE sip:b@example.test SIP/2.0\r\n";

    fn flow(from: [u8; 4], to: [u8; 4], port: u16) -> FlowIdentity {
        let mapped = |address: [u8; 4]| Ipv4Addr::from(address).to_ipv6_mapped().octets();
        let key = FlowKey {
            addr: [mapped(from), mapped(to)],
            port: [4000, port],
            proto: UDP,
            ..FlowKey::default()
        };
        FlowIdentity { key, initiator_is_lower: true, first: Time(1), vlan: [0, 0], alias: 0 }
    }

    fn expected(of: &FlowIdentity, initiator: Option<[u8; 4]>, responder: [u8; 4], port: u16) -> Expected {
        let protocol = PROTOCOLS[0];
        let setup = Setup {
            flow: 1,
            initiator: of.initiator(),
            responder: of.responder(),
            ip_proto: UDP,
            wants: Wants::default(),
        };
        Expected {
            flow: 1,
            responder: (Ipv4Addr::from(responder).into(), port),
            initiator: initiator.map(|address| Ipv4Addr::from(address).into()),
            ip_proto: UDP,
            from: Time(1),
            until: Time(100),
            protocol,
            parser: (protocol.parser)(&setup),
        }
    }

    #[test]
    fn flows_between_other_hosts_reach_another_worker_once() {
        let shared = Announcements::default();
        let mut workers = [Announced::default(), Announced::default()];
        workers.iter_mut().for_each(|worker| worker.share(shared.clone()));
        let [one, other] = &mut workers;
        let (caller, proxy, media) = ([10, 0, 0, 1], [10, 0, 0, 2], [10, 0, 0, 3]);
        let call = flow(caller, proxy, 5060);
        one.begin(0);
        other.begin(0);
        one.add(7, &call, INVITE, expected(&call, None, media, 5004));
        let found = flow([10, 0, 0, 9], media, 5004);
        assert!(other.take(&flow([10, 0, 0, 9], media, 5006), Time(5)).is_none());
        assert!(other.take(&found, Time(101)).is_none());
        assert!(other.take(&found, Time(5)).is_some());
        assert!(one.take(&found, Time(5)).is_none());
        // Between the hosts of the call it waits with the worker that reads both.
        one.add(7, &call, INVITE, expected(&call, Some(proxy), caller, 900));
        let back = flow(proxy, caller, 900);
        assert!(other.take(&back, Time(5)).is_none() && one.take(&back, Time(5)).is_some());
        // Ports of services, and what is announced when a flow ends, are not shared.
        one.add(7, &call, INVITE, expected(&call, None, media, 80));
        one.end();
        one.add(7, &call, INVITE, expected(&call, None, media, 5004));
        assert_eq!((one.in_vain(), one.memory(), other.memory()), (2, 0, 0));
    }

    /// A flow that begins leaves its room to another, and the order of the others as it is; the oldest goes first.
    #[test]
    fn announcements_that_are_taken_leave_room() {
        let mut all = Expectations::default();
        let (client, server) = ([10, 0, 0, 1], [10, 0, 0, 2]);
        let control = flow(client, server, 21);
        let add = |all: &mut Expectations, port| all.add(expected(&control, None, client, port));
        let take = |all: &mut Expectations, port| all.take(&flow(server, client, port), Time(5)).is_some();
        let last = 2000 + MAX_EXPECTED as u16;
        (2000..last - 1).for_each(|port| add(&mut all, port));
        // The same port again keeps its place.
        add(&mut all, 2000);
        assert!(take(&mut all, 3000) && !take(&mut all, 3000));
        assert_eq!((all.waiting.len(), all.in_vain), (MAX_EXPECTED - 2, 1));
        add(&mut all, last - 1);
        add(&mut all, last);
        assert_eq!((all.waiting.len(), all.in_vain), (MAX_EXPECTED, 1));
        add(&mut all, last + 1);
        assert_eq!((all.waiting.len(), all.in_vain), (MAX_EXPECTED, 2));
        assert!(!take(&mut all, 2000) && take(&mut all, 2001) && take(&mut all, last));
        assert_eq!(all.order.len(), all.waiting.len());
    }
}
