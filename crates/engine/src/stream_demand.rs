//! The subscriptions that see the streams of a flow: decided once for each flow and plan, so that streams are reassembled only
//! for flows that a subscription covers.

use crate::{FlowIdentity, Plan, fields};
use std::collections::HashMap;
use weir_filter::Directions;
use weir_flow::Rows;

/// Numbers of subscriptions that are kept for all flows together.
const KEPT: usize = 1 << 16;

/// The subscriptions that see the stream of each flow, by the flow's row. Flows with equal subscriptions share them.
pub(crate) struct StreamDemand {
    rows: Rows<Row>,
    /// The different sets of subscriptions, in the order of their positions in the plan.
    sets: Vec<Box<[Covering]>>,
    /// The number of each set.
    numbers: HashMap<Box<[Covering]>, u32>,
    /// Numbers of subscriptions in all sets.
    kept: usize,
    /// The number of the present sets, never 0; those of rows with another number are out of date.
    generation: u32,
}

impl Default for StreamDemand {
    fn default() -> Self {
        let (rows, numbers) = (Rows::default(), HashMap::new());
        Self { rows, sets: Vec::new(), numbers, kept: 0, generation: 1 }
    }
}

#[derive(Clone, Copy, Default)]
struct Row {
    generation: u32,
    /// The number of its set, plus 1; 0 if no subscription covers the flow.
    set: u32,
}

/// A subscription that sees the stream of a flow.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) struct Covering {
    /// Its position in the plan.
    pub at: usize,
    /// The directions that it sees.
    pub directions: Directions,
}

/// The answer about a flow.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Covered {
    /// Whether a subscription sees its stream from now on.
    pub now: bool,
    /// Whether one saw it until now.
    pub before: bool,
}

impl StreamDemand {
    /// Forgets what was decided: the plan has changed. Flows are looked at again with their next packet.
    pub fn change(&mut self) {
        (self.generation, self.kept) = (self.generation.checked_add(1).unwrap_or(1), 0);
        self.sets.clear();
        self.numbers.clear();
    }

    /// Whether a subscription sees the stream of the flow in this row.
    pub fn covers(&mut self, row: u32, flow: &FlowIdentity, plan: &Plan) -> Covered {
        let generation = self.generation;
        let before = match self.rows.make(row) {
            Some(found) if found.generation == generation => {
                let is_covered = found.set > 0;
                return Covered { now: is_covered, before: is_covered };
            }
            found => found.is_some_and(|found| found.set > 0),
        };
        let endpoints = fields::endpoints(flow);
        let mut set = Vec::new();
        plan.streams
            .each(&endpoints, &mut Vec::new(), |at, directions| set.push(Covering { at, directions }));
        // Subscriptions that were added later may stand before others.
        set.sort_unstable_by_key(|one| one.at);
        let set = set.into_boxed_slice();
        let now = !set.is_empty();
        let set = if now { self.number(set) + 1 } else { 0 };
        if let Some(found) = self.rows.get_mut(row) {
            *found = Row { generation: self.generation, set };
        }
        Covered { now, before }
    }

    /// The number of a set. If there are too many, all flows are looked at again.
    fn number(&mut self, set: Box<[Covering]>) -> u32 {
        if let Some(number) = self.numbers.get(&set) {
            return *number;
        }
        if self.kept + set.len() > KEPT {
            self.change();
        }
        let number = self.sets.len() as u32;
        self.kept += set.len();
        self.sets.push(set.clone());
        self.numbers.insert(set, number);
        number
    }

    /// The subscriptions that see the stream of the flow in this row.
    pub fn of(&self, row: u32) -> &[Covering] {
        let found = self.rows.get(row).filter(|found| found.generation == self.generation);
        let set = found.and_then(|found| self.sets.get(found.set.checked_sub(1)? as usize));
        set.map_or(&[], |set| set)
    }

    /// Forgets a flow that has ended.
    pub fn end(&mut self, row: u32) {
        if let Some(found) = self.rows.get_mut(row) {
            *found = Row::default();
        }
    }

    /// Bytes of memory. Sets are counted with the plan.
    pub fn memory(&self) -> usize {
        self.rows.memory()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ChecksumMode, Settings};
    use weir_api::{FunctionCall, Level, SubscriptionSpec};
    use weir_filter::Options;
    use weir_wire::{FlowKey, Time, mapped};

    fn plan(expressions: &[&str]) -> Plan {
        let spec = |expression: &&str| SubscriptionSpec {
            level: Level::Stream,
            ..SubscriptionSpec::new(expression, expression, vec![FunctionCall::new("bytes")])
        };
        let settings = Settings {
            filter: Options::default(),
            checksum: ChecksumMode::Off,
            seeds: 1_u64.into(),
            chosen: None,
            own_apps: Default::default(),
            rules: None,
        };
        Plan::new("", expressions.iter().map(spec).collect(), settings).unwrap()
    }

    fn flow(port: u16) -> FlowIdentity {
        let addr = [mapped([10, 0, 0, 1]), mapped([10, 0, 0, 2])];
        let key = FlowKey { addr, port: [40_000, port], proto: 6, ..FlowKey::default() };
        FlowIdentity { key, initiator_is_lower: true, first: Time(0), vlan: [0; 2], alias: 0 }
    }

    /// The positions of the subscriptions that see the stream of the flow in a row.
    fn positions(demand: &StreamDemand, row: u32) -> Vec<usize> {
        demand.of(row).iter().map(|one| one.at).collect()
    }

    #[test]
    fn a_flow_is_looked_at_once_for_each_plan() {
        let (web, all) = (plan(&["tcp port 80", "udp", "port 80 or port 443"]), plan(&["", "tcp port 22"]));
        let mut demand = StreamDemand::default();
        let new = |now| Covered { now, before: false };
        assert_eq!(demand.covers(0, &flow(80), &web), new(true));
        assert_eq!(demand.covers(1, &flow(443), &web), new(true));
        assert_eq!(demand.covers(2, &flow(22), &web), new(false));
        assert_eq!([0, 1, 2, 3].map(|row| positions(&demand, row)), [vec![0, 2], vec![2], vec![], vec![]]);
        // The answer is kept: another flow in the row is not looked at before the first one has ended.
        assert_eq!(demand.covers(0, &flow(22), &web), Covered { now: true, before: true });
        demand.end(0);
        assert_eq!(demand.covers(0, &flow(22), &web), new(false));
        demand.change();
        assert_eq!(positions(&demand, 1), [0; 0]);
        assert_eq!(demand.covers(1, &flow(443), &all), Covered { now: true, before: true });
        assert_eq!(demand.covers(2, &flow(22), &all), new(true));
        assert_eq!((positions(&demand, 1), positions(&demand, 2)), (vec![0], vec![0, 1]));
    }

    #[test]
    fn sets_are_bounded() {
        let expressions: Vec<String> = (0..300).map(|n| format!("port {} or port {n}", 1000 + n)).collect();
        // Equal ones would be shown to one of them only.
        let all = (0..300).map(|n| format!("tcp and not port {}", 50_000 + n));
        let expressions: Vec<String> = expressions.into_iter().chain(all).collect();
        let expressions: Vec<&str> = expressions.iter().map(String::as_str).collect();
        let plan = plan(&expressions);
        let mut demand = StreamDemand::default();
        for row in 0..2_000 {
            let flow = flow(1000 + (row % 300) as u16);
            assert!(demand.covers(row, &flow, &plan).now);
            assert_eq!(demand.of(row).len(), 301, "{row}");
            assert!(demand.kept <= KEPT);
        }
        // Those that were forgotten are looked at again.
        assert!(
            demand.of(0).is_empty() && demand.covers(0, &flow(1000), &plan).now && demand.of(0).len() == 301
        );
    }
}
