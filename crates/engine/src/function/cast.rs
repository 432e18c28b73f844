//! Multicast, unicast, broadcast: Ourmon's `fixed_cast`.

use super::classes::Classifier;
use super::{FunctionSpec, InputKind, Memory};
use crate::Item;
use weir_api::{Level, Unit};
use weir_wire::{Layers, LinkType, Packet, addresses};

pub(super) static CAST: FunctionSpec = FunctionSpec {
    name: "cast",
    help: "Bytes of multicast, unicast and broadcast packets, by the link-layer destination address; by the IP destination address if the link layer has no addresses.",
    arguments: &[],
    levels: &[Level::Packet],
    input: InputKind::Packets,
    memory: |_| Ok(Memory::SMALL),
    judge: None,
    delivers: None,
    identifies: false,
    build: |_| {
        Ok(Classifier::boxed(&["mcast", "ucast", "bcast", "xtra"], Unit::Bytes, |item| match item {
            Item::Packet(packet, layers) => Some(cast(packet, layers)),
            _ => None,
        }))
    },
};

const MULTICAST: usize = 0;
const UNICAST: usize = 1;
const BROADCAST: usize = 2;
const OTHER: usize = 3;

fn cast(packet: &Packet<'_>, layers: &Layers) -> usize {
    match packet.link {
        LinkType::ETHERNET | LinkType::DSA_TAG_BRCM | LinkType::DSA_TAG_DSA | LinkType::DSA_TAG_EDSA => {
            match packet.data.first_chunk::<6>() {
                Some([0xff, 0xff, 0xff, 0xff, 0xff, 0xff]) => BROADCAST,
                Some([first, ..]) if first & 1 == 1 => MULTICAST,
                Some(_) => UNICAST,
                None => OTHER,
            }
        }
        // The packet type of the kernel: 1 broadcast, 2 multicast, 0, 3 and 4 unicast.
        LinkType::LINUX_SLL => by_packet_type(packet.data.get(1)),
        LinkType::LINUX_SLL2 => by_packet_type(packet.data.get(10)),
        _ => by_address(packet, layers),
    }
}

fn by_packet_type(packet_type: Option<&u8>) -> usize {
    match packet_type {
        Some(1) => BROADCAST,
        Some(2) => MULTICAST,
        Some(_) => UNICAST,
        None => OTHER,
    }
}

fn by_address(packet: &Packet<'_>, layers: &Layers) -> usize {
    match addresses(packet, layers) {
        Some((_, [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 255, 255, 255, 255])) => BROADCAST,
        Some((_, [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 224..=239, ..] | [0xff, ..])) => MULTICAST,
        Some(_) => UNICAST,
        None => OTHER,
    }
}
