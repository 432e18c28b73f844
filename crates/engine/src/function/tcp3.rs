//! TCP bytes of two ports: Ourmon's `fixed_tcp3`.

use super::classes::Classifier;
use super::{Argument, FunctionSpec, InputKind, Memory};
use crate::Item;
use weir_api::{Level, Unit};

pub(super) static TCP3: FunctionSpec = FunctionSpec {
    name: "tcp3",
    help: "TCP bytes with the first port as source or destination, with the second port, and of all other TCP packets; at stream level, bytes of payload.",
    arguments: &[
        Argument {
            name: "port1",
            help: "First port, 0 to 65535. A packet with both ports counts to the first.",
            default: None,
        },
        Argument { name: "port2", help: "Second port, 0 to 65535.", default: None },
    ],
    levels: &[Level::Packet, Level::Stream, Level::Flow],
    input: InputKind::Packets,
    memory: |_| Ok(Memory::SMALL),
    judge: None,
    delivers: None,
    identifies: false,
    build: |arguments| {
        let (first, second): (u16, u16) = (arguments.parse("port1")?, arguments.parse("port2")?);
        let labels = [first.to_string(), second.to_string(), "xtra".to_owned()];
        Ok(Classifier::boxed(&labels, Unit::Bytes, move |item| {
            let (proto, ports) = match item {
                Item::Packet(_, layers) if layers.has_transport() => (layers.ip_proto, layers.ports),
                Item::Packet(_, layers) => (layers.ip_proto, [0, 0]),
                _ => item.key().map(|key| (key.proto, key.port))?,
            };
            (proto == 6).then(|| [first, second].iter().position(|p| ports.contains(p)).unwrap_or(2))
        }))
    },
};
