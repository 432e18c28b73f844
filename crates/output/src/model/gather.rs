//! The values of a report and of a model, collected in one pass.

use super::{Described, Group, Model, QUANTITIES, VERSION, Values};
use crate::ports;
use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv6Addr};
use weir_anon::Anonymiser;
use weir_engine::{Emitted, FlowIdentity, FlowRecord, Measure, Measured, Sink};
use weir_proto::PROTOCOLS;
use weir_wire::{Batch, Time};

/// Maximum number of values of one flow that wait until its protocol is identified.
const EACH: usize = 256;
/// Maximum number of such values of all flows.
const ALL: usize = 4 << 20;
/// Maximum number of hosts that are counted individually.
const HOSTS: usize = 100_000;
/// Maximum number of groups; the flows of later ones are counted together.
const GROUPS: usize = 200;
/// Maximum number of points of the chart over time.
const MOMENTS: usize = 240;
/// Maximum number of flows that are shown individually.
const STREAMS: usize = 50;

/// One host.
#[derive(Clone, Copy, Debug, Default)]
pub struct Host {
    /// Flows.
    pub flows: u64,
    /// Packets that it sent and received.
    pub packets: u64,
    /// Bytes of IP packets that it sent.
    pub sent: u64,
    /// Bytes of IP packets that it received.
    pub received: u64,
}

/// A step of the chart over time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Moment {
    /// Packets.
    pub packets: u64,
    /// Bytes on the wire.
    pub bytes: u64,
}

/// A flow in the report.
#[derive(Clone, Debug)]
pub struct StreamRow {
    /// Its counts.
    pub record: FlowRecord,
    /// Its measurements.
    pub measure: Measure,
    /// Its protocol.
    pub protocol: String,
}

/// Collects the values of a report.
#[derive(Default)]
pub struct Gather {
    /// Packets, and bytes on the wire.
    pub packets: u64,
    /// Bytes on the wire.
    pub bytes: u64,
    /// Time of the first packet.
    pub first: Option<Time>,
    /// Time of the last packet.
    pub last: Time,
    /// Flows.
    pub flows: u64,
    /// Traffic over time: each moment is [`Gather::step`] nanoseconds long, the first begins at [`Gather::first`].
    pub moments: Vec<Moment>,
    /// Length of a moment in nanoseconds.
    pub step: u64,
    /// Hosts up to a maximum number; later ones are not counted individually.
    pub hosts: HashMap<IpAddr, Host>,
    /// Flows of hosts beyond the maximum number.
    pub other_hosts: u64,
    /// Flows, packets and bytes of IP packets of each protocol.
    pub protocols: BTreeMap<String, (u64, u64, u64)>,
    /// Records by table.
    pub records: BTreeMap<&'static str, u64>,
    /// The flows with most bytes, the largest first.
    pub streams: Vec<StreamRow>,
    /// Values that were left out for lack of room.
    pub shed: u64,
    waiting: HashMap<u64, Waiting>,
    waiting_values: usize,
    groups: HashMap<(String, &'static str, &'static str), Gathered>,
}

/// Values of a flow that has not ended.
#[derive(Default)]
struct Waiting {
    values: Vec<(Quantity, f64)>,
    kept: [u32; QUANTITIES.len()],
    measure: Option<Box<Measure>>,
}

/// Position in [`QUANTITIES`].
#[derive(Clone, Copy)]
enum Quantity {
    PacketSize,
    PacketGap,
    FlowSize,
    FlowDuration,
    FlowGap,
    RoundTrip,
    Requests,
    RequestSize,
    ResponseSize,
    Wait,
    Think,
    Burst,
}

#[derive(Default)]
struct Gathered {
    flows: u64,
    ip_proto: u8,
    port: u16,
    /// Start times of flows, until they are sorted.
    begun: Vec<Time>,
    values: [Values; QUANTITIES.len()],
}

fn seconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e9
}

/// The group of an address: of a private network (RFC 1918, RFC 4193, RFC 3927), or not.
fn place(address: IpAddr) -> &'static str {
    match address {
        address if address.is_multicast() => "multicast",
        IpAddr::V4(v4) if v4.is_broadcast() => "multicast",
        IpAddr::V4(v4)
            if v4.is_private() || v4.is_link_local() || v4.is_loopback() || v4.is_unspecified() =>
        {
            "inside"
        }
        IpAddr::V6(v6)
            if v6.is_unique_local()
                || v6.is_unicast_link_local()
                || v6.is_loopback()
                || v6.is_unspecified() =>
        {
            "inside"
        }
        _ => "outside",
    }
}

/// The protocol of a flow: identified, else by its port.
fn spoken(flow: &FlowRecord, port: u16) -> String {
    let found = usize::from(flow.services[0]).checked_sub(1).and_then(|at| PROTOCOLS.get(at));
    let transport = ports::protocol(flow.key.proto);
    match found {
        Some(protocol) => protocol.name.to_owned(),
        None if matches!(flow.key.proto, 6 | 17) => match ports::service(flow.key.proto, port) {
            Some(service) => format!("{transport} {service}"),
            None => transport,
        },
        None => transport,
    }
}

impl Gather {
    /// The collected values as a model.
    pub fn model(&mut self) -> Model {
        let groups = self.groups.iter_mut().map(|((protocol, from, to), gathered)| {
            gathered.begun.sort_unstable();
            let gaps = gathered.begun.iter().zip(gathered.begun.iter().skip(1));
            let mut flow_gaps = Values::default();
            gaps.for_each(|(before, after)| flow_gaps.add(seconds(after.since(*before))));
            gathered.values[Quantity::FlowGap as usize] = flow_gaps;
            let described = QUANTITIES.iter().zip(&gathered.values).filter(|(_, values)| values.count() > 0);
            Group {
                protocol: protocol.clone(),
                from: (*from).to_owned(),
                to: (*to).to_owned(),
                ip_proto: gathered.ip_proto,
                port: gathered.port,
                flows: gathered.flows,
                quantities: described
                    .map(|((name, ..), values)| ((*name).to_owned(), Described::of(values)))
                    .collect(),
            }
        });
        let mut groups: Vec<Group> = groups.collect();
        let name = |group: &Group| (group.protocol.clone(), group.from.clone(), group.to.clone());
        groups.sort_by(|a, b| b.flows.cmp(&a.flows).then_with(|| name(a).cmp(&name(b))));
        Model { v: VERSION, groups }
    }

    /// Anonymises the values of a report. Groups of hosts are kept: they separate private networks from others, and
    /// identify no host.
    pub fn anonymise(&mut self, anonymiser: &mut Anonymiser) {
        for (address, host) in std::mem::take(&mut self.hosts) {
            let image = self.hosts.entry(anonymiser.address(address)).or_default();
            image.flows += host.flows;
            image.packets += host.packets;
            image.sent += host.sent;
            image.received += host.received;
        }
        self.streams.iter_mut().for_each(|stream| anonymiser.flow(&mut stream.record));
        self.first = self.first.map(|first| anonymiser.time(first));
        self.last = anonymiser.time(self.last);
    }

    fn keep(&mut self, flow: &FlowIdentity, quantity: Quantity, value: f64) {
        if self.waiting_values >= ALL {
            self.shed += 1;
            return;
        }
        let waiting = self.waiting.entry(flow.id()).or_default();
        let Some(kept) = waiting.kept.get_mut(quantity as usize) else { return };
        if *kept as usize >= EACH {
            self.shed += 1;
            return;
        }
        *kept += 1;
        self.waiting_values += 1;
        waiting.values.push((quantity, value));
    }

    fn moment(&mut self, time: Time, bytes: u32) {
        let first = *self.first.get_or_insert(time);
        if self.step == 0 {
            self.step = 10_000_000;
        }
        // A wrong clock must not make a chart of a million years.
        let mut at = time.since(first) / self.step;
        while at >= MOMENTS as u64 {
            self.step = self.step.saturating_mul(2);
            let halves = self.moments.chunks(2).map(|pair| Moment {
                packets: pair.iter().map(|moment| moment.packets).sum(),
                bytes: pair.iter().map(|moment| moment.bytes).sum(),
            });
            self.moments = halves.collect();
            at = time.since(first) / self.step;
        }
        let at = at as usize;
        if self.moments.len() <= at {
            self.moments.resize(at + 1, Moment::default());
        }
        if let Some(moment) = self.moments.get_mut(at) {
            moment.packets += 1;
            moment.bytes += u64::from(bytes);
        }
        self.last = self.last.max(time);
    }

    fn host(&mut self, address: IpAddr, host: Host) {
        if self.hosts.len() >= HOSTS && !self.hosts.contains_key(&address) {
            self.other_hosts += 1;
            return;
        }
        let all = self.hosts.entry(address).or_default();
        all.flows += host.flows;
        all.packets += host.packets;
        all.sent += host.sent;
        all.received += host.received;
    }

    /// Takes a flow into its group.
    fn group(&mut self, flow: &FlowRecord, protocol: &str, waiting: Waiting) {
        let (from, to) = (address(flow.initiator().0), address(flow.responder().0));
        let mut key = (protocol.to_owned(), place(from), place(to));
        if self.groups.len() >= GROUPS && !self.groups.contains_key(&key) {
            key = ("other".to_owned(), "any", "any");
        }
        let group = self.groups.entry(key).or_default();
        if group.flows == 0 {
            group.ip_proto = flow.key.proto;
            group.port = if ports::has_ports(flow.key.proto) { flow.responder().1 } else { 0 };
        }
        group.flows += 1;
        if group.begun.len() < ALL {
            group.begun.push(flow.first);
        }
        let mut add = |quantity: Quantity, value: f64| {
            if let Some(values) = group.values.get_mut(quantity as usize) {
                values.add(value);
            }
        };
        add(Quantity::FlowSize, (flow.forward.payload_bytes + flow.reverse.payload_bytes) as f64);
        add(Quantity::FlowDuration, seconds(flow.duration()));
        if let Some(measure) = &waiting.measure {
            add(Quantity::Requests, measure.requests as f64);
            if let Some(handshake) = measure.handshake() {
                add(Quantity::RoundTrip, seconds(handshake));
            }
        }
        waiting.values.iter().for_each(|(quantity, value)| add(*quantity, *value));
    }
}

fn address(bytes: [u8; 16]) -> IpAddr {
    Ipv6Addr::from(bytes).to_canonical()
}

impl Gather {
    fn flow(&mut self, flow: &FlowRecord) {
        // The packets of a carrier are also in the carried flows.
        if flow.carrier {
            return;
        }
        // Late segments are of a connection that was counted.
        let own = u64::from(flow.follows == 0);
        self.flows += own;
        let protocol = spoken(flow, flow.responder().1);
        let (forward, reverse) = (&flow.forward, &flow.reverse);
        let packets = forward.packets + reverse.packets;
        let total = self.protocols.entry(protocol.clone()).or_default();
        total.0 += own;
        total.1 += packets;
        total.2 += forward.ip_bytes + reverse.ip_bytes;
        let host = Host { flows: own, packets, sent: forward.ip_bytes, received: reverse.ip_bytes };
        self.host(address(flow.initiator().0), host);
        self.host(address(flow.responder().0), Host { sent: host.received, received: host.sent, ..host });
        let mut waiting = self.waiting.remove(&flow.id).unwrap_or_default();
        self.waiting_values -= waiting.values.len();
        if let Some(measure) = waiting.measure.as_deref() {
            self.streams.push(StreamRow {
                record: *flow,
                measure: measure.clone(),
                protocol: protocol.clone(),
            });
            if self.streams.len() > 2 * STREAMS {
                self.cut();
            }
        }
        waiting.values.shrink_to_fit();
        if own > 0 {
            self.group(flow, &protocol, waiting);
        }
    }

    fn matching(&mut self, packets: Batch<'_>) {
        for packet in packets.packets() {
            self.packets += 1;
            self.bytes += u64::from(packet.wire_len);
            self.moment(packet.time, packet.wire_len);
        }
    }

    fn measured(&mut self, measure: &Measure, measured_value: Measured<'_>) {
        let flow = &measure.flow;
        match measured_value {
            Measured::Packet { bytes, gap, .. } => {
                self.keep(flow, Quantity::PacketSize, bytes as f64);
                if let Some(gap) = gap {
                    self.keep(flow, Quantity::PacketGap, seconds(gap));
                }
            }
            Measured::Exchange(exchange) => {
                self.keep(flow, Quantity::RequestSize, exchange.request as f64);
                if exchange.response > 0 {
                    self.keep(flow, Quantity::ResponseSize, exchange.response as f64);
                }
                if let Some(wait) = exchange.wait {
                    self.keep(flow, Quantity::Wait, seconds(wait));
                }
                if let Some(think) = exchange.think {
                    self.keep(flow, Quantity::Think, seconds(think));
                }
            }
            Measured::Burst(burst) => self.keep(flow, Quantity::Burst, burst.packets as f64),
            Measured::Sample(_) => {}
            Measured::End(measure) => {
                self.waiting.entry(flow.id()).or_default().measure = Some(Box::new(measure.clone()));
            }
        }
    }

    /// Keeps the flows with most bytes.
    pub fn cut(&mut self) {
        let bytes = |row: &StreamRow| row.record.forward.ip_bytes + row.record.reverse.ip_bytes;
        self.streams.sort_by_key(|row| (std::cmp::Reverse(bytes(row)), row.record.first, row.record.key));
        self.streams.truncate(STREAMS);
    }
}

impl Sink for Gather {
    fn take(&mut self, emitted: Emitted<'_>) {
        match emitted {
            Emitted::Flow(flow, _) => self.flow(flow),
            Emitted::Matching(packets) => self.matching(packets),
            Emitted::Record(_, record, _) => *self.records.entry(record.table.name).or_default() += 1,
            Emitted::Measured(flow, measured_value) => self.measured(flow, measured_value),
            Emitted::Open(_)
            | Emitted::Chunk(..)
            | Emitted::Packets(..)
            | Emitted::Missing(..)
            | Emitted::Withheld(_)
            | Emitted::Decided(_) => {}
        }
    }
}
