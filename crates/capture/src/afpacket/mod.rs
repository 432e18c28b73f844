//! Live capture on Linux: TPACKET_V3 rings of packet sockets (packet(7), Documentation/networking/packet_mmap.rst).
//!
//! Rings are used because a reader spends 6 to 8 ns per packet, where recv(2) takes 1,130. Each worker has its own
//! rings, so that workers share nothing and the kernel steers (see `program`). Packets stay in the ring until the next
//! call.
//!
//! The sockets are held by a helper (see `helper`): the process that reads packets has only the memory of the rings.
//!
//! Not supported: AF_XDP, sending, hardware time stamps.

mod blocks;
mod error;
mod helper;
mod keeper;
mod message;
mod opener;
mod program;
mod ring;
mod rings;
mod socket;

use weir_wire::LinkType;

pub use error::LiveError;
pub use helper::RingHelper;
pub use rings::{LinkChange, LinkEvent, Rings};

/// An instruction of a classic BPF program (`struct sock_filter`, linux/filter.h), in host byte order.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct SockFilter {
    /// The opcode.
    pub code: u16,
    /// Instructions to skip when a condition holds.
    pub jt: u8,
    /// Instructions to skip when it does not.
    pub jf: u8,
    /// The operand.
    pub k: u32,
}

/// The interfaces to capture, and how.
#[derive(Clone, Debug)]
pub struct RingOptions {
    /// Names of interfaces; their packets form one stream. "any" captures all interfaces, including later ones; its
    /// packets have the link type LINUX_SLL2.
    pub interfaces: Vec<String>,
    /// Whether the interfaces accept frames for other hosts. "any" never does.
    pub promiscuous: bool,
    /// Maximum number of bytes to keep of a packet, including its restored VLAN tag; 0 means 262,144.
    pub snaplen: u32,
    /// Memory for the ring of one worker on one interface, in bytes; rounded to blocks of 256 KiB, at least two.
    pub ring_bytes: usize,
    /// Milliseconds after which the kernel delivers a block that is not full: the maximum delay of a packet on a
    /// quiet link.
    pub block_timeout_ms: u32,
    /// Kernel filters, each with its link type. They only save work. The kernel delivers packets of other link types
    /// unfiltered, and also packets with cooked headers if it lacks a field that the filter tests. A filter returns
    /// the number of bytes to keep, at most [`RingOptions::snaplen`]. The kernel sees a frame without its outermost
    /// VLAN tag.
    pub filters: Vec<(LinkType, Vec<SockFilter>)>,
}

impl Default for RingOptions {
    /// Promiscuous, whole packets, 32 MiB per ring, 20 ms, no filter.
    fn default() -> Self {
        Self {
            interfaces: Vec::new(),
            promiscuous: true,
            snaplen: 0,
            ring_bytes: 32 << 20,
            block_timeout_ms: 20,
            filters: Vec::new(),
        }
    }
}
