//! What is odd about the segments of a TCP connection.

use crate::FlowIdentity;
use std::fmt;
use weir_wire::{Direction, Time};

/// A segment that TCP (RFC 9293) does not allow, or that no common system sends. The variants are those of Zeek's
/// weird.log that the states of both endpoints decide, by its names in snake case.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u8)]
pub enum Oddity {
    /// A SYN with another sequence number than the one before it.
    SynSeqJump,
    /// A SYN of an endpoint that sent data before.
    SynInsideConnection,
    /// The first segment of the initiator is a SYN-ACK.
    ConnectionOriginatorSynAck,
    /// A SYN-ACK that acknowledges no SYN of the initiator.
    BadSynAck,
    /// Both endpoints sent a SYN.
    SimultaneousOpen,
    /// The initiator repeats its SYN, with ACK.
    RepeatedSynWithAck,
    /// The responder repeats its SYN, without ACK.
    RepeatedSynReplyWithoutAck,
    /// A FIN although the peer has not answered.
    InappropriateFin,
    /// Payload before the connection was established.
    DataBeforeEstablished,
    /// A SYN of an endpoint that sent segments without one.
    SynAfterPartial,
    /// A SYN after a FIN.
    SynAfterClose,
    /// A FIN after a FIN, beyond the end of the stream.
    FinAdvancedLastSeq,
    /// A SYN after a RST.
    SynAfterReset,
    /// Payload after a RST.
    DataAfterReset,
    /// SYN and RST in one segment.
    TcpChristmas,
    /// A SYN with urgent data.
    BaroqueSyn,
    /// A SYN with payload.
    SynWithData,
    /// A segment from before the start of its stream.
    SeqUnderflow,
    /// An acknowledgement from before the start of the peer's stream.
    AckUnderflow,
    /// The endpoint acknowledges segments of a peer that sends none here.
    PossibleSplitRouting,
    /// Much payload after a hole, and no acknowledgement at all.
    AboveHoleDataWithoutAnyAcks,
    /// A SYN begins another connection between the ports of one that is open.
    ActiveConnectionReuse,
    /// A SYN begins another connection between the ports of one that was closed less than 5 seconds before.
    PrematureConnectionReuse,
    /// A receiver takes back a part of the window that it announced ([`crate::Windows`]).
    WindowRecision,
    /// A thousand FINs of one endpoint or more, the last within a second of its segment before.
    FinStorm,
    /// A thousand RSTs of one endpoint or more, the last within a second of its segment before.
    RstStorm,
}

impl Oddity {
    /// Each of them, with Zeek's name.
    const NAMES: [(Self, &'static str); 26] = [
        (Self::SynSeqJump, "SYN_seq_jump"),
        (Self::SynInsideConnection, "SYN_inside_connection"),
        (Self::ConnectionOriginatorSynAck, "connection_originator_SYN_ack"),
        (Self::BadSynAck, "bad_SYN_ack"),
        (Self::SimultaneousOpen, "simultaneous_open"),
        (Self::RepeatedSynWithAck, "repeated_SYN_with_ack"),
        (Self::RepeatedSynReplyWithoutAck, "repeated_SYN_reply_wo_ack"),
        (Self::InappropriateFin, "inappropriate_FIN"),
        (Self::DataBeforeEstablished, "data_before_established"),
        (Self::SynAfterPartial, "SYN_after_partial"),
        (Self::SynAfterClose, "SYN_after_close"),
        (Self::FinAdvancedLastSeq, "FIN_advanced_last_seq"),
        (Self::SynAfterReset, "SYN_after_reset"),
        (Self::DataAfterReset, "data_after_reset"),
        (Self::TcpChristmas, "TCP_christmas"),
        (Self::BaroqueSyn, "baroque_SYN"),
        (Self::SynWithData, "SYN_with_data"),
        (Self::SeqUnderflow, "TCP_seq_underflow_or_misorder"),
        (Self::AckUnderflow, "TCP_ack_underflow_or_misorder"),
        (Self::PossibleSplitRouting, "possible_split_routing"),
        (Self::AboveHoleDataWithoutAnyAcks, "above_hole_data_without_any_acks"),
        (Self::ActiveConnectionReuse, "active_connection_reuse"),
        (Self::PrematureConnectionReuse, "premature_connection_reuse"),
        (Self::WindowRecision, "window_recision"),
        (Self::FinStorm, "FIN_storm"),
        (Self::RstStorm, "RST_storm"),
    ];

    const fn bit(self) -> u32 {
        1 << self as u8
    }
}

/// What is odd about segments: a set of what TCP (RFC 9293) does not allow, and of what no common system sends.
#[derive(Clone, Copy, Default, Eq, PartialEq)]
pub struct Oddities(u32);

impl Oddities {
    /// Whether the set is empty.
    #[inline]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Adds an oddity if the condition holds.
    #[inline]
    pub(crate) fn note(&mut self, oddity: Oddity, is_so: bool) {
        self.0 |= oddity.bit() * u32::from(is_so);
    }

    /// Adds all of another set, and returns what it adds. A peer that is not seen is no news of a connection that was odd before.
    #[must_use]
    pub fn add(&mut self, mut more: Self) -> Self {
        if !self.is_empty() {
            more.0 &= !Oddity::PossibleSplitRouting.bit();
        }
        let added = Self(more.0 & !self.0);
        self.0 |= added.0;
        added
    }

    /// The names of its members, in the words of Zeek's weird.log.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        Oddity::NAMES.into_iter().filter(move |(oddity, _)| self.0 & oddity.bit() != 0).map(|(_, name)| name)
    }

    /// Every name.
    pub fn all() -> impl Iterator<Item = &'static str> {
        Oddity::NAMES.into_iter().map(|(_, name)| name)
    }
}

impl fmt::Debug for Oddities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.names()).finish()
    }
}

/// A segment that is odd, and its flow.
#[derive(Clone, Copy, Debug)]
pub struct OddSegment {
    /// The flow's row in its table: see [`crate::FlowPacket::row`].
    pub row: u32,
    /// The flow's identity. If the segment begins another connection between the ports of this flow, it is the flow before.
    pub flow: FlowIdentity,
    /// The sending side.
    pub direction: Direction,
    /// The segment's time.
    pub time: Time,
    /// What is odd about it.
    pub oddities: Oddities,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_oddity_is_new_once_and_a_silent_peer_only_alone() {
        let mut known = Oddities::default();
        let mut odd = Oddities::default();
        odd.note(Oddity::SynSeqJump, true);
        odd.note(Oddity::BadSynAck, false);
        assert_eq!(known.add(odd).names().collect::<Vec<_>>(), ["SYN_seq_jump"]);
        odd.note(Oddity::PossibleSplitRouting, true);
        assert!(known.add(odd).is_empty());
        odd.note(Oddity::DataAfterReset, true);
        assert_eq!(format!("{:?}", known.add(odd)), r#"{"data_after_reset"}"#);
        let mut fresh = Oddities::default();
        assert_eq!(fresh.add(odd), odd);
    }

    #[test]
    fn every_oddity_has_a_name_and_a_bit_of_its_own() {
        let mut bits = 0;
        for (oddity, name) in Oddity::NAMES {
            assert_eq!(bits & oddity.bit(), 0, "{name}");
            bits |= oddity.bit();
        }
        assert_eq!(bits, (1 << Oddity::NAMES.len()) - 1);
    }
}
