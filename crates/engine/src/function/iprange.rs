//! Bytes between two networks: Ourmon's `fixed_iprange1`.

use super::classes::Classifier;
use super::{Argument, FunctionSpec, InputKind, Memory};
use crate::Item;
use weir_api::{Level, Net, Unit};
use weir_wire::addresses;

pub(super) static IPRANGE: FunctionSpec = FunctionSpec {
    name: "iprange",
    help: "IP bytes between two networks, and bytes of all other IP packets; at stream level, bytes of payload.",
    arguments: &[
        Argument { name: "net1", help: "First network, as address/prefix length.", default: None },
        Argument { name: "net2", help: "Second network, as address/prefix length.", default: None },
    ],
    levels: &[Level::Packet, Level::Stream, Level::Flow],
    input: InputKind::Packets,
    memory: |_| Ok(Memory::SMALL),
    judge: None,
    delivers: None,
    identifies: false,
    build: |arguments| {
        let (one, two): (Net, Net) = (arguments.parse("net1")?, arguments.parse("net2")?);
        let labels = [format!("{}-{}", arguments.text("net1")?, arguments.text("net2")?), "xtra".to_owned()];
        Ok(Classifier::boxed(&labels, Unit::Bytes, move |item| {
            let (a, b) = match item {
                Item::Packet(packet, layers) => addresses(packet, layers)?,
                _ => item.key().map(|key| key.addr.into())?,
            };
            let [a, b] = [a, b].map(u128::from_be_bytes);
            let between = one.has_mapped(a) && two.has_mapped(b) || one.has_mapped(b) && two.has_mapped(a);
            Some(usize::from(!between))
        }))
    },
};
