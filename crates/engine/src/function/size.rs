//! Packets by size: Ourmon's `fixed_size`.

use super::classes::Classifier;
use super::{FunctionSpec, InputKind, Memory};
use crate::Item;
use weir_api::{Level, Unit};
use weir_wire::Packet;

pub(super) static SIZE: FunctionSpec = FunctionSpec {
    name: "size",
    help: "Packets by their wire length: tiny (at most 100 bytes), small (101 to 499), med (500 to 999), big (1000 or more).",
    arguments: &[],
    levels: &[Level::Packet],
    input: InputKind::Lengths,
    memory: |_| Ok(Memory::SMALL),
    judge: None,
    delivers: None,
    identifies: false,
    build: |_| {
        Ok(Classifier::boxed(&["tiny", "small", "med", "big"], Unit::Packets, |item| match item {
            Item::Packet(packet, _) => Some(class(packet)),
            _ => None,
        }))
    },
};

/// The class of a packet by its size.
pub(super) fn class(packet: &Packet<'_>) -> usize {
    match packet.wire_len {
        0..=100 => 0,
        101..=499 => 1,
        500..=999 => 2,
        1000.. => 3,
    }
}
