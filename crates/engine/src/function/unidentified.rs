//! Unidentified traffic by transport protocol and responder's port.

use super::top::TOP;
use super::{Argument, Arguments, Function, FunctionSpec, InputKind};
use crate::{FlowRecord, Item};
use weir_api::{FunctionCall, Level, Reading};

pub(super) static UNIDENTIFIED: FunctionSpec = FunctionSpec {
    name: "unidentified",
    help: "Unidentified flows by transport and port of the responder, in fixed memory. The protocols of flows are identified by their content; a flow counts when it has ended.",
    arguments: &[Argument {
        name: "ports",
        help: "Number of ports to keep, 16 to 1048576.",
        default: Some("4096"),
    }],
    levels: &[Level::Flow],
    input: InputKind::Packets,
    memory: |arguments| TOP.memory(&by_port(arguments)?),
    judge: None,
    delivers: None,
    identifies: true,
    build: |arguments| Ok(Box::new(Unidentified { list: TOP.call(&by_port(arguments)?, arguments.seeds)? })),
};

/// The call of the list.
fn by_port(arguments: &Arguments<'_>) -> Result<FunctionCall, String> {
    let ports: usize = arguments.within("ports", 16..=1 << 20)?;
    Ok(FunctionCall::new("top").with("by", "service").with("rows", ports))
}

/// A list of ports.
struct Unidentified {
    list: Box<dyn Function>,
}

impl Function for Unidentified {
    fn item(&mut self, item: &Item<'_>) {
        if let Item::FlowEnd(flow, _) = item
            && is_unidentified(flow)
        {
            self.list.item(item);
        }
    }

    fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    fn take(&mut self) -> Reading {
        self.list.take()
    }

    fn held(&self) -> usize {
        self.list.held()
    }
}

/// Whether a TCP or UDP flow had payload in which no protocol was identified. Flows of other transports with ports are always
/// unidentified, tunnels never.
fn is_unidentified(flow: &FlowRecord) -> bool {
    (flow.is_unidentified || has_no_parser(flow.key.proto)) && !flow.carrier
}

/// Whether a transport has ports and no protocol parser: DCCP, SCTP, UDP-Lite.
pub(crate) fn has_no_parser(ip_proto: u8) -> bool {
    matches!(ip_proto, 33 | 132 | 136)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::function::scans::tests::flood;
    use weir_filter::Directions;

    #[test]
    fn flows_without_a_protocol_count_by_port() {
        let call = FunctionCall::new("unidentified").with("ports", 16);
        let mut list = UNIDENTIFIED.call(&call, 1_u64).unwrap();
        let nothing = list.take();
        let flow = |proto: u8, is_unidentified: bool, carrier: bool| {
            let mut flow = FlowRecord { is_unidentified, carrier, ..flood(7) };
            flow.key.proto = proto;
            flow
        };
        for flow in [flow(6, false, false), flow(17, true, true), flow(132, false, true)] {
            list.item(&Item::FlowEnd(&flow, Directions::BOTH));
        }
        assert_eq!(list.take(), nothing);
        for flow in [flow(6, true, false), flow(17, true, false), flow(132, false, false)] {
            list.item(&Item::FlowEnd(&flow, Directions::BOTH));
        }
        let Reading::Top(top) = list.take() else { panic!("no list") };
        assert_eq!(top.rows.len(), 3);
    }

    #[test]
    fn the_number_of_ports_has_limits() {
        for ports in ["0", "15", "1048577", "x"] {
            let call = FunctionCall::new("unidentified").with("ports", ports);
            assert!(UNIDENTIFIED.call(&call, 1_u64).is_err(), "{ports}");
            assert!(UNIDENTIFIED.memory(&call).is_err(), "{ports}");
        }
    }
}
