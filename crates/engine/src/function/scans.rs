//! Finds scanning hosts.

use super::{Function, FunctionSpec, InputKind, Memory, Pass};
use crate::{ConnState, FlowRecord, Item};
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use weir_api::{Level, Reading, Scans as ScansReading, Sweep, Trials};

/// Maximum number of rows in a reading; a worker holds up to twice as many.
const ROWS: usize = 1024;
/// Bytes of a row with few distinct values, as in a flood.
const ROW: usize = 2 * size_of::<(Sweep, Trials)>();
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
    memory: |_| Ok(Memory { state: 2 * ROWS * ROW, reading: ROWS * ROW }),
    build: |arguments| {
        let hasher = FixedState::with_seed(arguments.seed);
        Ok(Box::new(Scans { rows: HashMap::with_hasher(hasher) }))
    },
};

/// Counts TCP flows by target. A flow is counted when it ends: at once if the responder refused it, after the flow's
/// timeout if it did not answer. A live view shows unanswered attempts after that delay.
struct Scans {
    rows: HashMap<Sweep, Trials, FixedState>,
}

/// The outcome of an attempt.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Outcome {
    Answered,
    Refused,
    Unanswered,
}

impl Outcome {
    /// `None` if the initiator is unknown, or if it is uncertain whether the flow was an attempt.
    fn of(flow: &FlowRecord) -> Option<Outcome> {
        if flow.key.proto != TCP {
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
            ConnState::RstRH | ConnState::ShR | ConnState::Oth => None,
        }
    }
}

impl Scans {
    fn count(&mut self, sweep: Sweep, value: u128, outcome: Outcome, began: u64) {
        if self.rows.len() >= 2 * ROWS && !self.rows.contains_key(&sweep) {
            self.make_room();
        }
        let row = self.rows.entry(sweep).or_insert_with(|| Trials::new(sweep));
        match outcome {
            Outcome::Answered => {
                row.answered.add(value);
                return;
            }
            Outcome::Refused => row.refused += 1,
            Outcome::Unanswered => row.unanswered += 1,
        }
        row.failed.add(value);
        row.first = row.first.min(began);
        row.last = row.last.max(began);
    }

    /// Keeps the rows with the most failures. A flood from random addresses makes rows with one failure each, which
    /// are left out without sorting: sorting took half of the time of the whole pass.
    fn make_room(&mut self) {
        self.rows.retain(|_, row| row.failed.estimate() > 1);
        if self.rows.len() <= ROWS {
            return;
        }
        let rows = self.rows.drain().map(|(_, row)| row).collect();
        self.rows.extend(ScansReading::new(ROWS, rows).rows.into_iter().map(|row| (row.sweep, row)));
    }
}

impl Function for Scans {
    fn item(&mut self, item: &Item<'_>) -> Pass {
        let Item::Flow(flow) = item else { return Pass::Keep };
        if let Some(outcome) = Outcome::of(flow) {
            let ((source, _), (target, port)) = (flow.initiator(), flow.responder());
            let began = flow.first.0;
            let (source, host) = (address(source), u128::from_be_bytes(target));
            let ports = Sweep::Ports { source, target: address(target) };
            if outcome != Outcome::Answered || port < EPHEMERAL {
                self.count(ports, u128::from(port), outcome, began);
            }
            self.count(Sweep::Hosts { source, port }, host, outcome, began);
        }
        Pass::Keep
    }

    fn held(&self) -> usize {
        let values: usize = self.rows.values().map(|row| row.failed.memory() + row.answered.memory()).sum();
        self.rows.capacity() * size_of::<(Sweep, Trials)>() + values
    }

    fn take(&mut self) -> Reading {
        Reading::Scans(ScansReading::new(ROWS, self.rows.drain().map(|(_, row)| row).collect()))
    }
}

fn address(bytes: [u8; 16]) -> IpAddr {
    Ipv6Addr::from(bytes).to_canonical()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::{EndReason, History, Side};
    use weir_api::FunctionCall;
    use weir_wire::{FlowKey, Time, Tunnel, mapped};

    /// A TCP flow from 10.0.0.`source` to 10.0.1.`target` with one packet in each direction.
    fn flow(source: u8, target: u8, port: u16, state: ConnState) -> FlowRecord {
        let side = Side { packets: 1, frame_bytes: 60, ip_bytes: 40, ..Side::default() };
        FlowRecord {
            key: FlowKey {
                addr: [mapped([10, 0, 0, source]), mapped([10, 0, 1, target])],
                port: [40_000, port],
                vlan: 0,
                proto: TCP,
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
            carrier: false,
            carries: Tunnel::None,
            interface: 0,
            services: [0; 3],
        }
    }

    fn function() -> Box<dyn Function> {
        SCANS.call(&FunctionCall::new("scans"), 1).unwrap()
    }

    fn reading(flows: &[FlowRecord]) -> ScansReading {
        let mut function = function();
        flows.iter().for_each(|flow| {
            function.item(&Item::Flow(flow));
        });
        let Reading::Scans(scans) = function.take() else { panic!("another shape") };
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
        let found = scans.found();
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
        assert_eq!(reading(&[data, datagram, midway]).rows, Vec::new());
        let mut late = flow(1, 1, 80, ConnState::RstR);
        assert_eq!(Outcome::of(&late), Some(Outcome::Refused));
        late.reverse.payload_bytes = 9;
        assert_eq!(Outcome::of(&late), Some(Outcome::Answered));
    }

    #[test]
    fn a_flood_of_sources_does_not_hide_a_scan_nor_take_more_room() {
        let mut function = Scans { rows: HashMap::with_hasher(FixedState::with_seed(1)) };
        for n in 0..50_000_u32 {
            function.item(&Item::Flow(&flood(n)));
            if n % 100 == 0 {
                function.item(&Item::Flow(&flow(7, 1, 1 + (n / 100) as u16, ConnState::S0)));
            }
            assert!(function.rows.len() <= 2 * ROWS);
        }
        let Reading::Scans(scans) = function.take() else { panic!("another shape") };
        let source = [10, 0, 0, 7].into();
        let found: Vec<Sweep> = scans.found().iter().map(|row| row.sweep).collect();
        assert!(found.contains(&Sweep::Ports { source, target: [10, 0, 1, 1].into() }), "{found:?}");
        assert!(scans.rows.len() <= ROWS);
    }
}
