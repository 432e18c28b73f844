//! Bytes by IP protocol: Ourmon's `fixed_ipproto`.

use super::classes::Classifier;
use super::{FunctionSpec, InputKind, Memory};
use crate::Item;
use weir_api::{Level, Unit};
use weir_wire::Network;

pub(super) static IPPROTO: FunctionSpec = FunctionSpec {
    name: "ipproto",
    help: "Bytes of TCP, UDP and ICMP (of IPv4 and IPv6), and of all other packets; at stream level, bytes of payload.",
    arguments: &[],
    levels: &[Level::Packet, Level::Stream, Level::Flow],
    input: InputKind::Packets,
    memory: |_| Ok(Memory::SMALL),
    judge: None,
    delivers: None,
    identifies: false,
    build: |_| {
        Ok(Classifier::boxed(&["tcp", "udp", "icmp", "xtra"], Unit::Bytes, |item| {
            let proto = match item {
                Item::Packet(_, layers) if matches!(layers.network_kind, Network::Ipv4 | Network::Ipv6) => {
                    layers.ip_proto
                }
                Item::Packet(..) => return Some(3),
                _ => item.key()?.proto,
            };
            Some(match proto {
                6 => 0,
                17 => 1,
                1 | 58 => 2,
                _ => 3,
            })
        }))
    },
};
