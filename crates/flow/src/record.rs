//! The output of a flow table.

use crate::{CommunityId, FlowIdentity, FlowPacket, History, IpTunnel, OddSegment, community_id};
use weir_wire::{Direction, FlowKey, Layers, Packet, Tag, Time, Tunnel};

/// A flow that has ended, or the part of it that the active timeout cut off.
///
/// Forward is the initiator's direction (RFC 5103). The initiator is the sender of the first packet. If that packet is
/// a SYN-ACK, a TCP packet that is not a SYN, or UDP, and goes from a typical server port to a port that is not one,
/// the initiator is its receiver.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FlowRecord {
    /// The flow's key, equal for both directions.
    pub key: FlowKey,
    /// Whether the initiator is the lower endpoint of `key`: `addr[0]`, `port[0]`.
    pub initiator_is_lower: bool,
    /// An identifier of the flow, equal in every run and for every number of tables: a hash of the key and the time of
    /// the first packet. The parts of a flow that the active timeout cuts share it. Never 0.
    pub id: u64,
    /// Time of the first packet.
    pub first: Time,
    /// Time of the last packet; as in Zeek, packets after both sides of a TCP flow closed do not count for it.
    pub last: Time,
    /// Packets from the initiator.
    pub forward: Side,
    /// Packets from the responder.
    pub reverse: Side,
    /// Facts of TCP flows only.
    pub tcp: Option<TcpSummary>,
    /// State of the flow, as Zeek names it.
    pub state: ConnState,
    /// Events of the flow, in Zeek's letters.
    pub history: History,
    /// Reason for the end of the flow.
    pub end: EndReason,
    /// The protocols that were identified in the flow, the first one first: their positions in the list of protocols,
    /// plus 1; 0 for none.
    pub services: [u8; 4],
    /// Whether payload was read and no protocol was identified in it.
    pub is_unidentified: bool,
    /// Applications that users describe by what a side of a flow says first: a bit for each, by its position in their list.
    pub own_apps: u32,
    /// Whether a rule made an alert in the flow, after thresholds and suppressions. Each part of a flow that the active timeout cuts
    /// has what its whole flow had until then.
    pub alerted: bool,
    /// What rules have decided about the rest of the flow; `None` if nothing.
    pub verdict: Option<FlowVerdict>,
    /// VLAN identifiers of the first packet, outer and next; 0 when absent.
    pub vlan: [u16; 2],
    /// The tunnel that carried the first packet; [`Tunnel::None`] if none.
    pub tunnel: Tunnel,
    /// [`FlowRecord::id`] of the UDP flow that carried the first packet, or the identifier of the tunnel directly over
    /// IP that carried it ([`IpTunnel::identity`]), which has no record; 0 if none.
    pub parent: u64,
    /// What [`FlowRecord::parent`] is, of the first packet of the other side, where another flow or tunnel carried it; 0 if none
    /// did. VXLAN and Geneve choose the port of the sender for each direction, so that two flows carry what is one inside.
    /// Not known of a flow that follows another.
    pub other_parent: u64,
    /// [`FlowRecord::id`] of the closed TCP connection whose late segments this flow is; 0 if none.
    ///
    /// A closed connection leaves the table some seconds later (as in Zeek), and its segments that arrive afterwards, such
    /// as retransmitted FINs, begin a flow. That flow follows the connection if it begins without SYN on its key less than
    /// [`crate::LATE`] from its last packet. A flow that follows one that follows names the first connection. Only a log of
    /// Zeek's and our own logs of rows have it as a row: elsewhere its packets and bytes are added to its connection, and
    /// it is not counted as a flow.
    pub follows: u64,
    /// Whether this flow carried other flows: its packets are also counted in those.
    pub carrier: bool,
    /// The kind of tunnel over UDP that this flow is, if it carried packets with content.
    pub carries: Tunnel,
    /// Interface of the first packet.
    pub interface: u32,
}

impl FlowRecord {
    /// An empty record, to be overwritten.
    pub(crate) fn empty() -> Self {
        Self {
            key: FlowKey::default(),
            initiator_is_lower: false,
            id: 0,
            first: Time(0),
            last: Time(0),
            forward: Side::default(),
            reverse: Side::default(),
            tcp: None,
            state: ConnState::default(),
            history: History::default(),
            end: EndReason::Shutdown,
            vlan: [0; 2],
            tunnel: Tunnel::None,
            parent: 0,
            other_parent: 0,
            follows: 0,
            carrier: false,
            carries: Tunnel::None,
            interface: 0,
            services: [0; 4],
            is_unidentified: false,
            own_apps: 0,
            alerted: false,
            verdict: None,
        }
    }

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

    /// Nanoseconds from the first packet to the last.
    pub fn duration(&self) -> u64 {
        self.last.since(self.first)
    }

    /// The packets of one direction.
    pub fn side(&self, direction: Direction) -> &Side {
        match direction {
            Direction::Forward => &self.forward,
            Direction::Reverse => &self.reverse,
        }
    }

    /// The value of Zeek's `orig_bytes` or `resp_bytes`: for TCP by the sequence numbers, for UDP and ICMP the
    /// captured payload, for other protocols 0.
    pub fn zeek_bytes(&self, direction: Direction) -> u64 {
        match (self.key.proto, &self.tcp) {
            (_, Some(tcp)) => tcp.stream_bytes[direction as usize & 1],
            (1 | 17 | 58, None) => self.side(direction).payload_bytes,
            _ => 0,
        }
    }

    /// Community ID, version 1, for a seed of the site (0 by default).
    pub fn community_id(&self, seed: u16) -> CommunityId {
        community_id(&self.key, seed)
    }
}

/// One direction of a flow.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Side {
    /// Packets; each IP fragment counts as one.
    pub packets: u64,
    /// Bytes of the frames on the wire, link-layer headers included. For a flow inside a tunnel, bytes of the whole
    /// outer frame.
    pub frame_bytes: u64,
    /// Bytes of the IP packets, headers included.
    pub ip_bytes: u64,
    /// Bytes of the transport payload, retransmitted ones included.
    pub payload_bytes: u64,
    /// Every TCP flag that was set in some packet.
    pub tcp_flags: u8,
    /// Time to live or hop limit of the first packet of the direction.
    pub ttl: u8,
    /// Ethernet source address of the first packet; zero if it has none.
    pub mac: [u8; 6],
    /// Packets with a wrong checksum, which are in no other count; see [`crate::FlowConfig::checksums`].
    pub bad_checksums: u16,
    /// Those of the packets that are fragments without the ports: all of a packet's fragments but the first (RFC 791 2.3,
    /// RFC 8200 4.5). 65,535 means this number or more.
    pub later_fragments: u16,
}

/// Further facts of a TCP flow. Arrays are in the order of [`Direction`].
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct TcpSummary {
    /// Bytes of the stream by the sequence numbers, as Zeek counts them: bytes sent, each once, captured or not.
    pub stream_bytes: [u64; 2],
    /// Bytes that were acknowledged and not seen.
    pub missed_bytes: [u64; 2],
    /// Packets with payload that was sent before; 65,535 means this number or more.
    pub retransmitted: [u16; 2],
}

/// State of a flow: Zeek's `conn_state`.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum ConnState {
    /// An attempt without a reply.
    S0,
    /// Established, not closed.
    S1,
    /// Established; the initiator has tried to close, without a reply.
    S2,
    /// Established; the responder has tried to close, without a reply.
    S3,
    /// Established and closed.
    SF,
    /// The attempt was rejected.
    Rej,
    /// Established, the initiator aborted.
    RstO,
    /// The responder aborted.
    RstR,
    /// The initiator sent a SYN and then a RST; no SYN-ACK was seen.
    RstOS0,
    /// The responder sent a SYN-ACK and then a RST; no SYN was seen.
    RstRH,
    /// The initiator sent a SYN and then a FIN; no SYN-ACK was seen.
    SH,
    /// The responder sent a SYN-ACK and then a FIN, and no SYN was seen; or a datagram, without one in the other
    /// direction.
    ShR,
    /// Anything else: the flow began before the capture, or the protocol has no states.
    #[default]
    Oth,
}

impl ConnState {
    /// Zeek's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::S0 => "S0",
            Self::S1 => "S1",
            Self::S2 => "S2",
            Self::S3 => "S3",
            Self::SF => "SF",
            Self::Rej => "REJ",
            Self::RstO => "RSTO",
            Self::RstR => "RSTR",
            Self::RstOS0 => "RSTOS0",
            Self::RstRH => "RSTRH",
            Self::SH => "SH",
            Self::ShR => "SHR",
            Self::Oth => "OTH",
        }
    }
}

/// What rules have decided about the rest of a flow. No packet is touched in either case.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum FlowVerdict {
    /// A rule with `drop` or `reject` is about the flow, and verdicts are carried out.
    Drop,
    /// A rule with `pass` is about the flow.
    Pass,
}

/// The reason why a flow was recorded.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum EndReason {
    /// The flow had no packet for its idle timeout.
    Idle,
    /// The active timeout cut the flow, which continues.
    Active,
    /// Both sides closed the connection, or the one side that was seen did.
    Fin,
    /// One side reset the connection.
    Rst,
    /// A SYN with other sequence numbers began another connection between the same ports.
    Reused,
    /// The table was full and this was the least recently used flow.
    Evicted,
    /// The run ended.
    Shutdown,
    /// None: the flow was open when the record was made ([`crate::FlowTable::open`]).
    Open,
}

impl EndReason {
    /// Every reason for which a table ends a flow, in the order of [`FlowStats::by_reason`].
    pub const ALL: [Self; 7] =
        [Self::Idle, Self::Active, Self::Fin, Self::Rst, Self::Reused, Self::Evicted, Self::Shutdown];

    /// The name of the reason: one lower-case word.
    pub fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Active => "active",
            Self::Fin => "fin",
            Self::Rst => "rst",
            Self::Reused => "reused",
            Self::Evicted => "evicted",
            Self::Shutdown => "shutdown",
            Self::Open => "open",
        }
    }
}

/// The sums of one direction of one flow since the last roll-up. Counters and top lists use them in place of each
/// packet.
#[derive(Clone, Copy, Debug)]
pub struct Tally<'a> {
    /// The flow.
    pub key: &'a FlowKey,
    /// Whether the sender is the lower endpoint of `key`.
    pub source_is_lower: bool,
    /// Whether the flow's initiator is the lower endpoint of `key`.
    pub initiator_is_lower: bool,
    /// Outer VLAN identifier of the flow's first packet; 0 when absent.
    pub vlan: u16,
    /// VLAN tag of the flow's first packet.
    pub tag: Tag,
    /// Packets.
    pub packets: u64,
    /// Bytes of the frames on the wire.
    pub bytes: u64,
    /// Whether it is the first tally of its flow: set once per flow, in one direction, and never for a flow that follows a
    /// closed connection ([`FlowRecord::follows`]).
    pub begins: bool,
    /// Whether the flow carries others (a tunnel over UDP). Its packets are then also in tallies of the carried flows.
    pub carrier: bool,
    /// Whether the receiver has sent no packet of the flow so far, so that it asked for nothing. A flow that the active timeout
    /// has cut begins again in this respect, and one that follows a closed connection is never unasked.
    pub unasked: bool,
}

/// A packet that may begin or end a connection, or that begins its flow: one with SYN, FIN or RST, or a flow's first packet.
#[derive(Clone, Copy, Debug)]
pub struct Control<'a> {
    /// Its flow and direction, and its number and bytes, which also come in a later tally. `begins` is set for the first
    /// packet of a flow, unless the flow follows a closed connection ([`FlowRecord::follows`]).
    pub tally: Tally<'a>,
    /// The time of the packet.
    pub time: Time,
    /// The flags of its TCP header; 0 without one.
    pub flags: u8,
}

/// Receives the results of a table.
pub trait FlowSink {
    /// Takes a flow that has ended. Its last tallies were emitted before.
    fn end(&mut self, record: &FlowRecord);
    /// Takes the sums of a direction since the last roll-up. Not called for directions without packets.
    fn tally(&mut self, tally: &Tally<'_>);
    /// Takes a packet that is being counted to this flow although its own headers do not show the key: a fragment, a
    /// packet in a tunnel or one that carries another, one with extension headers or an unusual link layer, or one
    /// with a decoding error. It is called for exactly the packets for which [`weir_wire::shows_its_key`] is false.
    /// The packets and bytes also come in a tally; key-based counters must subtract them.
    fn irregular(&mut self, irregular: &Tally<'_>) {
        let _ = irregular;
    }
    /// Whether [`FlowSink::vlan_changed`] is called.
    fn asks_tags(&self) -> bool {
        false
    }
    /// Takes a packet that shows the flow's key ([`FlowSink::irregular`] is not called for it) but has another VLAN
    /// tag than the flow's first packet, as on a mirror port that shows both sides of a router. The packets and bytes
    /// also come in a tally under the flow's tag; tag-based counters must move them to `tag`, the packet's own.
    fn vlan_changed(&mut self, vlan_changed: &Tally<'_>, tag: Tag) {
        let _ = (vlan_changed, tag);
    }
    /// Whether [`FlowSink::control`] is called.
    fn asks_control(&self) -> bool {
        false
    }
    /// Takes a packet with SYN, FIN or RST, or the first packet of a flow. Not called for packets that no row could take or
    /// whose checksum is wrong.
    fn control(&mut self, control: &Control<'_>) {
        let _ = control;
    }
    /// Whether [`FlowSink::odd`] is called.
    fn asks_oddities(&self) -> bool {
        false
    }
    /// Takes a segment that is odd, before [`FlowSink::packet`] is called for it.
    fn odd(&mut self, odd: &OddSegment) {
        let _ = odd;
    }
    /// Whether [`FlowSink::packet`], [`FlowSink::ahead`], [`FlowSink::fragment`], [`FlowSink::leaving`],
    /// [`FlowSink::wrong_checksum`] and [`FlowSink::wrong_header`] are called.
    const PACKETS: bool = false;
    /// Announces packets that are likely to belong to the flows in these rows, so that per-flow state can be
    /// prefetched in parallel.
    fn ahead(&mut self, rows: impl Iterator<Item = u32>)
    where
        Self: Sized,
    {
        let _ = rows;
    }
    /// Takes a packet that was counted to a flow. Not called for fragments, for packets with a wrong checksum if
    /// checksums are verified, and for packets that carry others.
    fn packet(&mut self, seen: &FlowPacket<'_>) {
        let _ = seen;
    }
    /// Takes a packet of a flow whose TCP, UDP or ICMP checksum is wrong, where checksums are verified.
    fn wrong_checksum(&mut self, seen: &FlowPacket<'_>) {
        let _ = seen;
    }
    /// Takes a packet whose IPv4 header has a wrong checksum, where checksums are verified: it is of no flow.
    fn wrong_header(&mut self, packet: &Packet<'_>, layers: &Layers) {
        let _ = (packet, layers);
    }
    /// Takes a fragment of an IP packet; in a tunnel, the layers are the fragment's.
    fn fragment(&mut self, packet: &Packet<'_>, layers: &Layers) {
        let _ = (packet, layers);
    }
    /// Takes a tunnel directly over IP when it is found, and when it ends.
    fn tunnel(&mut self, tunnel: &IpTunnel) {
        let _ = tunnel;
    }
    /// Announces that the next record is of the flow in that row, whose last packet was at `last`. `is_over`: the row
    /// is free afterwards; otherwise the flow continues. `flow` computes the facts about the flow.
    fn leaving(&mut self, row: u32, last: Time, is_over: bool, flow: &dyn Fn() -> FlowIdentity) {
        let _ = (row, last, is_over, flow);
    }
    /// Takes a packet for which [`weir_wire::shows_its_key`] is true and that is in no tally, because no row could
    /// take it or its checksum is wrong. For every key and direction, the tallies minus the irregular plus the
    /// uncounted packets are exactly the packets whose headers show the key.
    fn uncounted(&mut self, uncounted: &Tally<'_>) {
        let _ = uncounted;
    }
}

/// Counts of a table since its creation. `created = ended + active`, always.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct FlowStats {
    /// Packets that were counted to a flow, including those with a wrong checksum. A packet that counts to the flow of
    /// a tunnel and to the carried flow counts once.
    pub packets: u64,
    /// Flows in the table.
    pub active: u64,
    /// Flows begun.
    pub created: u64,
    /// Flows begun that follow a closed connection ([`FlowRecord::follows`]); included in `created`.
    pub followed: u64,
    /// Closed connections that were forgotten, because too many had closed, while late segments could still follow.
    pub closed_shed: u64,
    /// Flows ended, for any reason but [`EndReason::Active`].
    pub ended: u64,
    /// Flows that ended because the table was full; included in `ended`.
    pub evicted: u64,
    /// Records emitted, by reason, in the order of [`EndReason::ALL`].
    pub by_reason: [u64; 7],
    /// Later fragments of IP packets, counted to the flow of the first fragment.
    pub fragments_joined: u64,
    /// Later fragments whose first fragment did not arrive in time: counted to a flow without ports.
    pub fragments_unmatched: u64,
    /// Later fragments that were counted without ports because the table of fragments was full; included in
    /// `fragments_unmatched`.
    pub fragments_shed: u64,
    /// Flows split, and ticks postponed, because the time jumped; see [`crate::FlowConfig::jump`].
    pub time_jumps: u64,
    /// TCP streams whose gaps are no longer tracked because too many had holes at once.
    pub holes_shed: u64,
    /// Memory of the table in bytes when it is full.
    pub memory: u64,
    /// Number of flows in the table when it is full.
    pub capacity: u64,
}
