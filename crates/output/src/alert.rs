//! The ends of the packet in which a rule matched.

use std::net::IpAddr;
use weir_engine::FlowIdentity;
use weir_proto::Record;

/// The source and the destination of the packet, each with the number that the flow has there: a port, or a type of ICMP.
pub fn ends(flow: &FlowIdentity, record: &Record<'_>) -> [(IpAddr, u16); 2] {
    let (initiator, responder) = (flow.initiator(), flow.responder());
    if *record.get("direction") == "to_client".into() {
        [responder, initiator]
    } else {
        [initiator, responder]
    }
}

/// The type and the code of the packet, if it is of ICMP. Requests and their replies have code 0: another code belongs to a flow
/// of one direction.
pub fn icmp(flow: &FlowIdentity, record: &Record<'_>) -> Option<[u16; 2]> {
    let [(_, kind), (_, code)] = ends(flow, record);
    matches!(flow.key.proto, 1 | 58).then(|| [kind, if flow.key.is_one_way() { code } else { 0 }])
}
