//! Reading and writing packets: pcap and pcapng files, and live capture (AF_PACKET).
//!
//! ```
//! use weir_capture::{Files, Input, PacketWriter, ReadOptions, Target, WriteOptions};
//! use weir_wire::{LinkType, PacketBuf, Time, build};
//!
//! let folder = tempfile::tempdir().unwrap();
//! let path = folder.path().join("x.pcapng.zst");
//! let frame = build::ethernet().ipv4([192, 0, 2, 1], [192, 0, 2, 2]).udp(40000, 53).payload(b"query");
//! let mut writer = PacketWriter::create(Target::Path(path.clone()), WriteOptions::default(), &[], Time(0)).unwrap();
//! writer.write(&build::packet(&frame, LinkType::ETHERNET)).unwrap();
//! writer.close().1.unwrap();
//!
//! let mut files = Files::open(&[Input::Path(path)], &ReadOptions::default()).unwrap();
//! let mut packets = PacketBuf::default();
//! while files.fill(&mut packets).unwrap() {
//!     for packet in packets.batch().packets() {
//!         assert_eq!(packet.data, frame);
//!     }
//! }
//! ```

mod afpacket;
mod file;
mod interface;
mod source;
mod write;

pub use afpacket::{LinkChange, LinkEvent, LiveError, RingHelper, RingOptions, Rings, SockFilter};
pub use file::{
    Blocks, Comment, Compression, Files, Format, Input, InputInfo, InterfaceInfo, Kept, LATEST,
    MAX_INTERFACES, Order, Outside, Progress, ReadAhead, ReadError, ReadOptions, Severity, TimeRange, latest,
};
pub use interface::{Counters, Interface, interfaces};
pub use source::{CaptureStats, Source};
pub use write::{
    FileFormat, FilePlace, PacketWriter, Patience, Repair, Rotate, Statistics, Target, WriteError,
    WriteOptions, Written, repair, salvage, salvage_leftovers,
};
