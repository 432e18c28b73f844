//! Finds scanning hosts.

use super::ends::words;
use super::times::Times;
use super::top::ip;
use super::{Function, FunctionSpec, InputKind, Memory};
use crate::bounded::{Amount, Bounded};
use crate::keyed::Tuple;
use crate::{ConnState, FlowRecord, Item};
use weir_api::{
    Bits, Count, Datum, DistinctValues, Folded, Level, Reading, Sweep, Table, TableRow, Trials, Unit,
};
use weir_wire::build::flags::{ACK, FIN, PSH, RST, SYN, URG};

/// Maximum number of rows in a reading.
const ROWS: usize = 1024;
/// Rows of a worker: exact while three quarters of them are in use.
const KEPT: usize = 4 * ROWS;
/// Bytes of the values of a row that each has: room for four of them. Most rows of a flood have one.
const FEW: usize = 4 * size_of::<u128>();
/// Bytes that are assumed for further values of all rows, as if 32 had all ports. It is no limit: a scan must not be missed because
/// other hosts have many targets.
const FURTHER: usize = 32 * Bits::MEMORY;
const TCP: u8 = 6;
/// The first ephemeral port (Linux's `ip_local_port_range`). An ephemeral port that answers was not found by probing:
/// another connection announced it, as FTP's passive mode does for every file.
const EPHEMERAL: u16 = 32_768;

pub(super) static SCANS: FunctionSpec = FunctionSpec {
    name: "scans",
    help: "Initiators that tried 20 or more TCP ports of a host, or one port of 20 or more hosts, with at least four in five attempts failing. A flow counts when it has ended.",
    arguments: &[],
    levels: &[Level::Flow],
    input: InputKind::Packets,
    memory: |_| {
        let state = Bounded::<Tuple, Attempts>::bytes(KEPT) + FURTHER;
        Ok(Memory { state, reading: ROWS * (ROW + FEW) + FURTHER })
    },
    judge: Some(|_, _| Ok(Box::<super::probes::Probes>::default())),
    delivers: None,
    identifies: false,
    build: |arguments| Ok(Box::new(Scans { list: Bounded::new(KEPT, Unit::Packets, arguments.seeds.run) })),
};

/// Counts TCP flows by target. A flow is counted when it ends: at once if the responder refused it, after the flow's
/// timeout if it did not answer. A live view shows unanswered attempts after that delay.
struct Scans {
    /// By the initiator as `a`. Ports of a host have the host as `b`; hosts with a port have the port as the first of
    /// `ports`, and [`HOSTS`] as `protocol`.
    list: Bounded<Tuple, Attempts>,
}

/// The `protocol` of a key for hosts with a port.
const HOSTS: u8 = 1;

/// The attempts of a row.
#[derive(Clone, Debug, Default)]
struct Attempts {
    failed: DistinctValues,
    answered: DistinctValues,
    refused: u64,
    unanswered: u64,
    flows: u64,
    /// Beginning of the first and the last failed flow.
    times: Times,
    error: u32,
}

/// An attempt.
#[derive(Clone, Copy, Debug)]
struct Attempt {
    /// The port or the host.
    value: u128,
    outcome: Outcome,
    began: u64,
}

/// Rows are ranked by their number of failed targets.
impl Amount for Attempts {
    type More = Attempt;
    const LEAST: u32 = 0;
    const OWN: usize = FEW;

    fn weight_of(more: &Attempt, _: Unit) -> u64 {
        u64::from(more.outcome != Outcome::Answered)
    }

    fn count_of(_: &Attempt) -> Count {
        Count { packets: 1, bytes: 0 }
    }

    fn add(&mut self, more: &Attempt, _: Unit, _: usize) -> u64 {
        self.flows += 1;
        match more.outcome {
            Outcome::Answered => {
                self.answered.add(more.value);
                return 0;
            }
            Outcome::Refused => self.refused += 1,
            Outcome::Unanswered => self.unanswered += 1,
        }
        self.times.add(more.began, more.began);
        // Where the values are no longer known, each flow counts.
        u64::from(self.failed.add(more.value))
    }

    fn memory(&self) -> usize {
        self.failed.memory() + self.answered.memory()
    }

    fn weight(&self, _: Unit) -> u64 {
        self.failed.estimate()
    }

    fn count(&self) -> Count {
        Count { packets: self.flows, bytes: 0 }
    }

    fn error(&mut self) -> &mut u32 {
        &mut self.error
    }
}

/// Flags of TCP that a probe is known by.
const FLAGS: u8 = FIN | SYN | RST | PSH | ACK | URG;

/// The outcome of an attempt.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Outcome {
    Answered,
    Refused,
    Unanswered,
}

impl Outcome {
    /// `None` if the initiator is unknown, or if it is uncertain whether the flow was an attempt.
    pub(super) fn of(flow: &FlowRecord) -> Option<Outcome> {
        // Late segments of a closed connection are no attempt.
        if flow.key.proto != TCP || flow.follows != 0 {
            return None;
        }
        match flow.state {
            ConnState::Rej => Some(Outcome::Refused),
            ConnState::RstR if flow.forward.payload_bytes + flow.reverse.payload_bytes == 0 => {
                Some(Outcome::Refused)
            }
            // Data from the initiator alone: only one direction was captured.
            ConnState::S0 | ConnState::RstOS0 | ConnState::SH => {
                (flow.forward.payload_bytes == 0).then_some(Outcome::Unanswered)
            }
            ConnState::S1
            | ConnState::S2
            | ConnState::S3
            | ConnState::SF
            | ConnState::RstO
            | ConnState::RstR => Some(Outcome::Answered),
            // No connection has segments without a flag: they are probes (nmap's NULL scan). Without an answer it is uncertain, as
            // flags of a cut header look so.
            ConnState::RstRH if flow.forward.packets > 0 && flow.forward.tcp_flags & FLAGS == 0 => {
                Some(Outcome::Refused)
            }
            ConnState::RstRH | ConnState::ShR | ConnState::Oth => None,
        }
    }
}

impl Function for Scans {
    fn item(&mut self, item: &Item<'_>) {
        let Item::FlowEnd(flow, _) = item else { return };
        if let Some(outcome) = Outcome::of(flow) {
            let ((source, _), (target, port)) = (flow.initiator(), flow.responder());
            let (source, host) = (words(source), words(target));
            let attempt = |value| Attempt { value, outcome, began: flow.first.0 };
            if outcome != Outcome::Answered || port < EPHEMERAL {
                let ports = Tuple { a: source, b: host, ..Tuple::default() };
                self.list.add_more(ports, attempt(port.into()));
            }
            let hosts = Tuple { a: source, ports: [port, 0], protocol: HOSTS, ..Tuple::default() };
            self.list.add_more(hosts, attempt(u128::from_be_bytes(target)));
        }
    }

    fn held(&self) -> usize {
        self.list.memory()
    }

    fn take(&mut self) -> Reading {
        let mut taken = self.list.take();
        // In the order of the table, which compares longer keys.
        taken
            .rows
            .sort_unstable_by_key(|row| (row.key.a, row.key.protocol != HOSTS, row.key.b, row.key.ports));
        let rows = taken.rows.into_iter().map(|row| {
            let Tuple { a: source, b: host, ports: [port, _], protocol } = row.key;
            let source = ip(source);
            let sweep = match protocol {
                HOSTS => Sweep::Hosts { source, port },
                _ => Sweep::Ports { source, target: ip(host) },
            };
            let Attempts { failed, answered, refused, unanswered, times, .. } = row.amount;
            let (first, last) = (times.first().unwrap_or(u64::MAX), times.last().unwrap_or(0));
            Trials { sweep, failed, answered, refused, unanswered, first, last }.row(row.error)
        });
        Reading::Table(Table::new(&weir_api::SCANS, ROWS, rows.collect(), taken.absent))
    }
}

/// Bytes of a row of a reading, without its values.
const ROW: usize = size_of::<TableRow>() + 3 * size_of::<Datum>() + 6 * size_of::<Folded>();

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::{EndReason, History, Side};
    use weir_api::FunctionCall;
    use weir_filter::Directions;
    use weir_wire::{FlowKey, Time, Tunnel, mapped};

    /// A TCP flow from 10.0.0.`source` to 10.0.1.`target` with one packet in each direction.
    pub fn flow(source: u8, target: u8, port: u16, state: ConnState) -> FlowRecord {
        let side = Side { packets: 1, frame_bytes: 60, ip_bytes: 40, ..Side::default() };
        FlowRecord {
            key: FlowKey {
                addr: [mapped([10, 0, 0, source]), mapped([10, 0, 1, target])],
                port: [40_000, port],
                proto: TCP,
                ..FlowKey::default()
            },
            initiator_is_lower: true,
            id: 1,
            first: Time(u64::from(port)),
            last: Time(u64::from(port)),
            forward: side,
            reverse: side,
            tcp: None,
            state,
            history: History::default(),
            end: EndReason::Rst,
            vlan: [0, 0],
            tunnel: Tunnel::None,
            parent: 0,
            other_parent: 0,
            follows: 0,
            carrier: false,
            carries: Tunnel::None,
            interface: 0,
            services: [0; 4],
            is_unidentified: false,
            own_apps: 0,
            alerted: false,
            verdict: None,
        }
    }

    fn function() -> Box<dyn Function> {
        SCANS.call(&FunctionCall::new("scans"), 1_u64).unwrap()
    }

    fn reading(flows: &[FlowRecord]) -> Table {
        let mut function = function();
        flows.iter().for_each(|flow| {
            function.item(&Item::FlowEnd(flow, Directions::BOTH));
        });
        let Reading::Table(scans) = function.take() else { panic!("another shape") };
        scans
    }

    /// A flow without an answer, from the n-th of many sources.
    pub fn flood(n: u32) -> FlowRecord {
        let [_, a, b, c] = n.to_be_bytes();
        let mut flow = flow(1, 1, 80, ConnState::S0);
        flow.key.addr[0] = mapped([1 + a, b, c, 9]);
        flow.key.port[0] = n as u16;
        flow
    }

    #[test]
    fn port_and_host_scans_are_found_and_a_client_is_not_a_scan() {
        let ports = (1..=60).map(|port| {
            let open = [22, 25, 53].contains(&port);
            flow(1, 1, port, if open { ConnState::RstO } else { ConnState::Rej })
        });
        let hosts = (1..=30).map(|host| flow(2, host, 445, ConnState::S0));
        // Often refused, but at the same two ports; and many ports that answer.
        let client = (0..90).map(|n| flow(3, 1, 80 + n % 2, ConnState::Rej));
        let busy = (1..=90).map(|port| flow(4, 1, port, ConnState::SF));
        let files = (40_000..40_060).map(|port| flow(1, 1, port, ConnState::SF));
        let scans = reading(&ports.chain(hosts).chain(client).chain(busy).chain(files).collect::<Vec<_>>());
        let found = Trials::found(&scans);
        assert_eq!(found.len(), 2, "{found:?}");
        let (source, target) = ([10, 0, 0, 1].into(), [10, 0, 1, 1].into());
        assert_eq!(found[0].sweep, Sweep::Ports { source, target });
        assert_eq!((found[0].failed.estimate(), found[0].refused, found[0].unanswered), (57, 57, 0));
        assert_eq!((found[0].answered.estimate(), found[0].first, found[0].last), (3, 1, 60));
        assert_eq!(found[1].sweep, Sweep::Hosts { source: [10, 0, 0, 2].into(), port: 445 });
        assert_eq!((found[1].failed.estimate(), found[1].unanswered), (30, 30));
    }

    #[test]
    fn ambiguous_outcomes_are_not_counted() {
        let mut data = flow(1, 1, 80, ConnState::S0);
        data.forward.payload_bytes = 1;
        let mut datagram = flow(1, 1, 53, ConnState::S0);
        datagram.key.proto = 17;
        let midway = flow(1, 1, 80, ConnState::Oth);
        assert_eq!(reading(&[data, datagram, midway]).rows.to_vec(), Vec::new());
        let mut late = flow(1, 1, 80, ConnState::RstR);
        assert_eq!(Outcome::of(&late), Some(Outcome::Refused));
        late.reverse.payload_bytes = 9;
        assert_eq!(Outcome::of(&late), Some(Outcome::Answered));
    }

    /// A segment without flags is a probe if a RST answers it. What only acknowledges may belong to a connection that its server
    /// has lost.
    #[test]
    fn refused_segments_without_flags_are_attempts() {
        let scan = |flags: u8, state| {
            let with_flags = |port| {
                let mut flow = flow(1, 1, port, state);
                flow.forward.tcp_flags = flags;
                flow
            };
            Trials::found(&reading(&(1..=30).map(with_flags).collect::<Vec<_>>())).len()
        };
        assert_eq!(scan(0, ConnState::RstRH), 1);
        assert_eq!(scan(ACK, ConnState::RstRH), 0);
        assert_eq!(scan(0, ConnState::Oth), 0);
    }

    #[test]
    fn a_flood_of_sources_does_not_hide_a_scan_nor_take_more_room() {
        let mut function = function();

        for n in 0..50_000_u32 {
            function.item(&Item::FlowEnd(&flood(n), Directions::BOTH));
            if n % 100 == 0 {
                function
                    .item(&Item::FlowEnd(&flow(7, 1, 1 + (n / 100) as u16, ConnState::S0), Directions::BOTH));
            }
            assert!(function.held() <= SCANS.memory(&FunctionCall::new("scans")).unwrap().state);
        }
        let Reading::Table(scans) = function.take() else { panic!("another shape") };
        let source = [10, 0, 0, 7].into();
        let found: Vec<Sweep> = Trials::found(&scans).iter().map(|row| row.sweep).collect();
        assert!(found.contains(&Sweep::Ports { source, target: [10, 0, 1, 1].into() }), "{found:?}");
        assert!(scans.rows.len() <= ROWS);
    }
}
