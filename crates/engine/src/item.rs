//! The items that functions see.

use crate::fields::RecordView;
use crate::{Control, FlowIdentity, FlowRecord, Question, Tally};
use weir_api::Count;
use weir_filter::Directions;
use weir_proto::{Buffer, Field, Table, Value};
use weir_wire::stream::Chunk;
use weir_wire::{Direction, FlowKey, Layers, Packet, Quoted, levels, quoted};

/// An item for a function. Its kind depends on the level and on the input of the subscription's function.
#[derive(Clone, Copy, Debug)]
pub enum Item<'a> {
    /// A packet and its layers.
    Packet(&'a Packet<'a>, &'a Layers),
    /// Sums of one direction of one flow since they were shown last. Functions that need only the flow's key and sums
    /// get them in place of each packet.
    Tally(&'a Tally<'a>),
    /// A packet that may begin or end a connection, or that begins its flow.
    Control(&'a Control<'a>),
    /// An error of ICMP or ICMPv6 at a level of a packet: the packet, the layers of the level, and what the error quotes. It is
    /// for functions that see sums of flows, which have its packet too, in place of packets.
    Error(&'a Packet<'a>, &'a Layers, &'a Quoted<'a>),
    /// A chunk of a flow's stream, or a datagram.
    Chunk(&'a FlowIdentity, &'a Chunk<'a>),
    /// A whole value of a buffer that a side of a flow has sent.
    Buffer(&'a FlowIdentity, &'static Buffer, Direction, &'a [u8]),
    /// The value of a field of a transaction of a flow, before its record.
    Field(&'a FlowIdentity, &'static Table, &'static Field, &'a Value<'a>),
    /// A flow that has ended, with the directions that are selected; one without packets is not among them.
    FlowEnd(&'a FlowRecord, Directions),
    /// A question for a host of the link, or its answer. Functions at flow level whose input is [`crate::Uncommon::Questions`] see
    /// them beside flows.
    Question(&'a Question),
    /// A record of a protocol.
    Record(&'a RecordView<'a>),
    /// A record of a table of [`weir_proto::REQUESTED`]. Functions that do not ask for the table ignore it.
    Requested(&'a RecordView<'a>),
}

impl Item<'_> {
    /// Packets and bytes of the item. A chunk counts as a packet, with the bytes of its payload, and a value of a buffer or
    /// field as one with its bytes.
    pub fn count(&self) -> Count {
        match self {
            Item::Packet(packet, _) => Count { packets: 1, bytes: u64::from(packet.wire_len) },
            Item::Tally(tally) => Count { packets: tally.packets, bytes: tally.bytes },
            Item::Control(Control { tally, .. }) => Count { packets: tally.packets, bytes: tally.bytes },
            Item::Chunk(_, chunk) => {
                // A gap at the end of a stream has no payload.
                Count { packets: u64::from(!chunk.data.is_empty()), bytes: chunk.data.len() as u64 }
            }
            Item::Buffer(_, _, _, bytes) => Count { packets: 1, bytes: bytes.len() as u64 },
            Item::Field(_, _, _, value) => Count { packets: 1, bytes: text_bytes(value) },
            Item::FlowEnd(flow, directions) => {
                let both = [(directions.forward, &flow.forward), (directions.reverse, &flow.reverse)];
                let sides = both.iter().filter(|(is_selected, _)| *is_selected).map(|(_, side)| side);
                Count {
                    packets: sides.clone().map(|side| side.packets).sum(),
                    bytes: sides.map(|side| side.frame_bytes).sum(),
                }
            }
            // The packet of an error is in a tally, and a question belongs to no flow.
            Item::Error(..) | Item::Question(_) | Item::Record(_) | Item::Requested(_) => Count::default(),
        }
    }

    /// The key of the item's flow, if the item has one.
    pub fn key(&self) -> Option<&FlowKey> {
        match self {
            Item::Tally(tally) => Some(tally.key),
            Item::Control(control) => Some(control.tally.key),
            Item::Chunk(flow, _) | Item::Buffer(flow, ..) | Item::Field(flow, ..) => Some(&flow.key),
            Item::FlowEnd(flow, _) => Some(&flow.key),
            Item::Packet(..) | Item::Error(..) | Item::Question(_) | Item::Record(_) | Item::Requested(_) => {
                None
            }
        }
    }
}

/// Calls `each` with the errors of ICMP and ICMPv6 at all levels of a packet: the layers of the level, and what is quoted.
pub(crate) fn each_error(packet: &Packet<'_>, layers: &Layers, mut each: impl FnMut(&Layers, &Quoted<'_>)) {
    // No error is a common packet.
    if layers.common {
        return;
    }
    for level in levels(packet, layers) {
        if let Some(quote) = quoted(packet, &level) {
            each(&level, &quote);
        }
    }
}

/// Bytes of the texts in a value.
fn text_bytes(value: &Value<'_>) -> u64 {
    match value {
        Value::Text(text) => text.len() as u64,
        Value::List(values) => values.iter().map(text_bytes).sum(),
        _ => 0,
    }
}
