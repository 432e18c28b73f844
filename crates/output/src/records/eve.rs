//! Records as events of Suricata's eve.json.

use super::json::Style;
use crate::ports;
use crate::row::Times;
use crate::zone::Zone;
use serde_json::{Map, Value as Json};
use weir_engine::FlowIdentity;
use weir_proto::{Record, Value};

const EVE: Style = Style { times: Times::Rfc3339, name: |field| field.eve };

/// The event that a record is; `None` where Suricata has none of its kind.
pub fn event(flow: &FlowIdentity, record: &Record<'_>, zone: &Zone) -> Option<Map<String, Json>> {
    let table = record.table;
    if table.eve.is_empty() {
        return None;
    }
    let (mut from, mut to) = (flow.initiator(), flow.responder());
    if is_reverse(record) {
        std::mem::swap(&mut from, &mut to);
    }
    let ((source, source_port), (destination, destination_port)) = (from, to);
    let mut event = Map::new();
    event.insert("timestamp".into(), zone.eve(record.time.0).into());
    // 51 bits, as Suricata's, so that JavaScript reads it.
    event.insert("flow_id".into(), (flow.id() & ((1 << 51) - 1)).into());
    event.insert("event_type".into(), table.eve.into());
    let vlan: Vec<u16> = flow.vlan.into_iter().filter(|id| *id != 0).collect();
    if !vlan.is_empty() {
        event.insert("vlan".into(), vlan.into());
    }
    event.insert("src_ip".into(), source.to_string().into());
    event.insert("src_port".into(), source_port.into());
    event.insert("dest_ip".into(), destination.to_string().into());
    event.insert("dest_port".into(), destination_port.into());
    event.insert("ip_v".into(), if source.is_ipv4() { 4 } else { 6 }.into());
    event.insert("proto".into(), ports::protocol(flow.key.proto).to_ascii_uppercase().into());
    event.insert("community_id".into(), flow.community_id(0).to_string().into());
    event.extend(EVE.object(table.fields, &record.values));
    Some(event)
}

/// Whether the responder said it: Suricata's events of what one side says, such as an answer of DNS or a file that is
/// sent, have that side as their source.
fn is_reverse(record: &Record<'_>) -> bool {
    let is = |name: &str, value: &Value<'_>| record.get(name) == value;
    is("reverse", &Value::Bool(true))
        || is("is_orig", &Value::Bool(false))
        // A whole exchange, too, says whether there was a response: of one message, this is which one it is.
        || is("type", &"response".into())
}
