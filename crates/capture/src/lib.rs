//! Packets in and out: pcap, pcapng, AF_PACKET.

mod afpacket;
mod file;
mod interface;
mod write;

pub use afpacket::{CaptureStats, LinkChange, LinkEvent, LiveError, RingOptions, Rings, SockFilter};
pub use file::{
    Blocks, Comment, Compression, Files, Format, Input, InputInfo, InterfaceInfo, MAX_INTERFACES, Order,
    Progress, ReadError, ReadOptions, Severity,
};
pub use interface::{Counters, Interface, interfaces};
pub use write::{
    FileFormat, FilePlace, PacketWriter, Repair, Rotate, Statistics, Target, WriteError, WriteOptions,
    Written, repair, salvage,
};
