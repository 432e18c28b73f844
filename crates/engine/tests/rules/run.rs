//! A pass over frames with rules.

use std::net::IpAddr;
use std::sync::Arc;
use weir_api::{FunctionCall, Level, SubscriptionSpec};
use weir_detect::{NoSources, Program, Reading, RuleFile, Ruleset, Variables};
use weir_engine::{
    ChecksumMode, Emitted, FlowConfig, FlowIdentity, Plan, RuleState, Rules, SessionConfig, SessionStats,
    Settings, Sink, Worker,
};
use weir_filter::Options;
use weir_proto::Value;
use weir_wire::{LinkType, Packet, PacketBuf, Time, build};

/// A frame, and the flow that it is of: all frames of a flow are read by one worker.
#[derive(Clone)]
pub struct Frame {
    pub flow: u16,
    pub link: LinkType,
    pub bytes: Vec<u8>,
}

/// Alerts in order: the port of the client of the flow, and the sid of the rule. The second list has the flows that ended with an alert,
/// by that port.
#[derive(Default)]
pub struct Alerts(pub Vec<(u16, u64)>, pub Vec<u16>);

impl Sink for Alerts {
    fn take(&mut self, emitted: Emitted<'_>) {
        if let Emitted::Flow(flow, _) = emitted
            && flow.alerted
        {
            self.1.push(flow.initiator().1.max(flow.responder().1));
        }
        let Emitted::Record(flow, record, _) = emitted else { return };
        // Packets that carry others have alerts of their own.
        if is_between_tunnels(flow) {
            return;
        }
        if let ("alert", Value::Uint(sid)) = (record.table.name, record.get("sid")) {
            let (one, other) = (flow.initiator().1, flow.responder().1);
            self.0.push((one.max(other), *sid));
        }
    }
}

/// Whether a flow is between the ends of a tunnel.
fn is_between_tunnels(flow: &FlowIdentity) -> bool {
    match flow.initiator().0.to_canonical() {
        IpAddr::V4(address) => address.octets()[0] != 10,
        IpAddr::V6(address) => address.octets()[0] != 0xfd,
    }
}

/// The plan of a run with rules. All of them are in force.
pub fn plan(rules: &str) -> Arc<Plan> {
    let reading = Reading { variables: Variables::default(), sources: &NoSources, with_switched_off: false };
    let set = Ruleset::read([RuleFile { name: "x.rules", bytes: rules.as_bytes() }], &reading);
    assert!(set.refusals.is_empty(), "{:?}", set.refusals);
    let program = Program::new(&set, &[]);
    assert!(program.unread.is_empty(), "{:?}", program.unread);
    let settings = Settings {
        filter: Options::default(),
        checksum: ChecksumMode::Off,
        seeds: 1_u64.into(),
        chosen: None,
        own_apps: Default::default(),
        rules: Some(Rules::new(program)),
    };
    let rows = FunctionCall::new("rows").with("of", "alert").with("to", "eve").with("bodies", "no");
    let specs = vec![
        SubscriptionSpec::delivering("alert", Level::Record, vec![rows]),
        SubscriptionSpec::delivering("rules", Level::Record, vec![FunctionCall::new("rules")]),
    ];
    Arc::new(Plan::new("", specs, settings).unwrap())
}

/// A run: its workers share what rules remember beyond a flow.
pub struct Run {
    workers: Vec<Worker>,
    found: Alerts,
    number: u32,
}

impl Run {
    pub fn new(plan: &Arc<Plan>, workers: usize) -> Self {
        let flows = FlowConfig { memory: 8 << 20, ..FlowConfig::default() };
        let state = RuleState::default();
        let worker = |_| {
            let mut worker = Worker::with(Arc::clone(plan), &flows, &SessionConfig::default());
            worker.share(&Default::default(), &state);
            worker
        };
        Self { workers: (0..workers).map(worker).collect(), found: Alerts::default(), number: 0 }
    }

    /// Reads frames, a microsecond apart.
    pub fn read(&mut self, frames: &[Frame]) -> &mut Self {
        let count = self.workers.len();
        let first = self.number;
        for (at, worker) in self.workers.iter_mut().enumerate() {
            let mut chunk = PacketBuf::default();
            for (number, frame) in (first + 1..).zip(frames) {
                if usize::from(frame.flow) % count == at {
                    let time = Time(1_000_000_000 + u64::from(number) * 1_000);
                    chunk.push(&Packet { time, number, ..build::packet(&frame.bytes, frame.link) });
                }
            }
            worker.batch(chunk.batch(), &mut self.found);
        }
        self.number += frames.len() as u32;
        self
    }

    /// Goes on with another plan.
    pub fn change(&mut self, plan: &Arc<Plan>) -> &mut Self {
        for worker in &mut self.workers {
            worker.change_plan(Arc::clone(plan), &mut self.found);
        }
        self
    }

    /// The flows that have ended with an alert, in order, by the ports of their clients.
    pub fn alerted(&mut self) -> Vec<u16> {
        let mut alerted = std::mem::take(&mut self.found.1);
        alerted.sort_unstable();
        alerted
    }

    /// Ends the run. Returns its alerts in order of flows and sids, and the counts of each worker.
    pub fn end(&mut self) -> (Vec<(u16, u64)>, Vec<SessionStats>) {
        let mut caught = 0;
        for worker in &mut self.workers {
            let mut snapshot = worker.finish(&mut self.found);
            // Nothing was lost before a worker.
            snapshot.ledger.capture.offered = snapshot.ledger.caught;
            assert_eq!(snapshot.ledger.imbalance(), None);
            caught += snapshot.ledger.caught;
        }
        assert_eq!(caught, u64::from(self.number), "each packet is counted once");
        let mut found = std::mem::take(&mut self.found.0);
        found.sort_unstable();
        (found, self.workers.iter().map(|worker| worker.sessions().unwrap()).collect())
    }
}

/// The alerts of a run of one worker, in order.
pub fn alerts(plan: &Arc<Plan>, frames: &[Frame]) -> Vec<(u16, u64)> {
    Run::new(plan, 1).read(frames).end().0
}
