//! What a flow was, and what it had since it was last asked.

use weir_wire::{FlowKey, Time, Tunnel};

/// A flow that has ended, or a part of one that the active timeout cut. Forward is the initiator's direction
/// (Zeek's originator).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FlowRecord {
    /// Its identity.
    pub key: FlowKey,
    /// Whether the initiator is the lower endpoint of the key.
    pub initiator_is_lower: bool,
    /// The same in every run over the same packets, whatever the number of workers: the uid of the logs.
    pub id: u64,
    /// The flow over UDP that carries it, if one does.
    pub parent: Option<u64>,
    /// The tunnel that carries it.
    pub tunnel: Tunnel,
    /// First packet.
    pub first: Time,
    /// Last packet.
    pub last: Time,
    /// What the initiator sent.
    pub forward: Side,
    /// What the responder sent.
    pub reverse: Side,
    /// Zeek's conn_state.
    pub state: ConnState,
    /// Zeek's history.
    pub history: History,
    /// Why it ended.
    pub end: EndReason,
    /// Outer and inner VLAN identifier of its first packet, 0 where absent.
    pub vlan: [u16; 2],
    /// Interface of its first packet.
    pub interface: u32,
}

impl FlowRecord {
    /// Address and port of the initiator.
    pub fn initiator(&self) -> ([u8; 16], u16) {
        self.endpoint(self.initiator_is_lower)
    }

    /// Address and port of the responder.
    pub fn responder(&self) -> ([u8; 16], u16) {
        self.endpoint(!self.initiator_is_lower)
    }

    fn endpoint(&self, lower: bool) -> ([u8; 16], u16) {
        let ([low, high], [low_port, high_port]) = (self.key.addr, self.key.port);
        if lower { (low, low_port) } else { (high, high_port) }
    }
}

/// What one side of a flow sent. Three byte columns, apart: frame, IP, payload.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Side {
    /// Packets.
    pub packets: u64,
    /// Octets of frames on the wire.
    pub frame_bytes: u64,
    /// Octets of IP packets, headers included.
    pub ip_bytes: u64,
    /// Octets above the transport header, retransmissions included.
    pub payload_bytes: u64,
    /// Octets that the sequence numbers of TCP span, as Zeek counts `orig_bytes`; for the rest the payload.
    pub stream_bytes: u64,
    /// All TCP flags seen, by or.
    pub tcp_flags: u8,
    /// Time to live of the first packet.
    pub ttl: u8,
}

/// What one direction of a flow had since the last roll-up: what top lists are fed from. Each packet is in one
/// tally only: that of its innermost flow.
#[derive(Clone, Copy, Debug)]
pub struct Tally<'a> {
    /// The flow.
    pub key: &'a FlowKey,
    /// Whether the sender of this direction is the lower endpoint.
    pub source_is_lower: bool,
    /// Whether the initiator of the flow is the lower endpoint.
    pub initiator_is_lower: bool,
    /// Whether the flow began since the last roll-up; true in one of its tallies only.
    pub begins: bool,
    /// Outer VLAN identifier, 0 when there is none.
    pub vlan: u16,
    /// Packets.
    pub packets: u64,
    /// Octets of frames on the wire.
    pub bytes: u64,
}

/// Takes what a flow table gives.
pub trait FlowSink {
    /// Takes a flow that has ended.
    fn end(&mut self, record: &FlowRecord);
    /// Takes what one direction of one flow had since the last roll-up.
    fn tally(&mut self, tally: &Tally<'_>);
}

/// Why a flow ended.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum EndReason {
    /// Nothing came for the idle timeout.
    #[default]
    Idle,
    /// It was as old as the active timeout: a later record goes on with it.
    Active,
    /// Both sides had closed it.
    Fin,
    /// A side had reset it.
    Rst,
    /// The table was full, and it was the least recently used.
    Evicted,
    /// The run ended.
    Shutdown,
}

/// Zeek's conn_state (base/protocols/conn).
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
#[allow(missing_docs)]
pub enum ConnState {
    S0,
    S1,
    SF,
    Rej,
    S2,
    S3,
    Rsto,
    Rstr,
    Rstos0,
    Rstrh,
    Sh,
    Shr,
    #[default]
    Oth,
}

impl ConnState {
    /// Zeek's name.
    pub fn name(self) -> &'static str {
        match self {
            ConnState::S0 => "S0",
            ConnState::S1 => "S1",
            ConnState::SF => "SF",
            ConnState::Rej => "REJ",
            ConnState::S2 => "S2",
            ConnState::S3 => "S3",
            ConnState::Rsto => "RSTO",
            ConnState::Rstr => "RSTR",
            ConnState::Rstos0 => "RSTOS0",
            ConnState::Rstrh => "RSTRH",
            ConnState::Sh => "SH",
            ConnState::Shr => "SHR",
            ConnState::Oth => "OTH",
        }
    }
}

/// Zeek's history: one letter for each kind of event, capital for the initiator. Bounded.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct History {
    len: u8,
    letters: [u8; 31],
}

impl History {
    /// Adds a letter; beyond 31 nothing is added.
    pub fn push(&mut self, letter: u8) {
        if let Some(place) = self.letters.get_mut(usize::from(self.len)) {
            *place = letter;
            self.len += 1;
        }
    }

    /// The letters.
    pub fn as_str(&self) -> &str {
        let letters = self.letters.get(..usize::from(self.len)).unwrap_or_default();
        std::str::from_utf8(letters).unwrap_or_default()
    }
}
