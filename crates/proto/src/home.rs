//! Protocols that share one pair of ports (RFC 7983, RFC 9443): STUN opens the way, DTLS agrees on keys, media and its
//! reports follow, and data of a relay's channels, in any order and all at once.
//!
//! Each datagram goes to a session of its kind, by its own first bytes, and each session keeps its state until the flow
//! ends.

use crate::{Out, Protocol, Session, Setup, dtls, rtp, stun};
use weir_wire::Time;
use weir_wire::stream::Chunk;

/// Number of kinds.
const KINDS: usize = 4;

/// Kinds of datagrams.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Kind {
    /// STUN, and data of channels.
    Stun,
    /// DTLS.
    Dtls,
    /// RTP and RTCP, and what keeps their way open.
    Media,
    /// All others.
    Other,
}

impl Kind {
    /// The kind of a datagram.
    fn of(datagram: &[u8]) -> Self {
        match datagram.first() {
            // A relay's channels have numbers from 0x4000 to 0x4fff.
            Some(0..=3) if stun::can_be(datagram) => Self::Stun,
            Some(64..=79) => Self::Stun,
            Some(20..=63) => Self::Dtls,
            Some(0..=3 | 128..=191) => Self::Media,
            _ => Self::Other,
        }
    }

    /// The kind of a protocol that shares its ports; `None` if it has them alone.
    pub fn of_protocol(protocol: &Protocol) -> Option<Self> {
        [(&stun::PROTOCOL, Self::Stun), (&dtls::PROTOCOL, Self::Dtls), (&rtp::PROTOCOL, Self::Media)]
            .into_iter()
            .find_map(|(known, kind)| std::ptr::eq(known, protocol).then_some(kind))
    }
}

/// The sessions of a flow, by kind.
pub(crate) struct Home {
    parts: [Session; KINDS],
}

impl Home {
    /// A home in which one session is there already.
    pub fn with(kind: Kind, session: Session) -> Self {
        let mut parts = [(); KINDS].map(|()| Session::part());
        if let Some(part) = parts.get_mut(kind as usize) {
            *part = session;
        }
        Self { parts }
    }

    /// Takes a datagram, before which these numbers of bytes of each direction had arrived. Returns whether a protocol was
    /// found.
    pub fn chunk(
        &mut self,
        before: [u64; 2],
        chunk: &Chunk<'_>,
        setup: &dyn Fn() -> Setup,
        out: &mut dyn Out,
    ) -> bool {
        let Some(part) = self.parts.get_mut(Kind::of(chunk.data) as usize) else { return false };
        let found = part.found;
        part.datagram(before, chunk, setup, out);
        part.found != found
    }

    /// Ends the flow.
    pub fn end(&mut self, time: Time, setup: &dyn Fn() -> Setup, out: &mut dyn Out) {
        self.parts.iter_mut().for_each(|part| part.end(time, setup, out));
    }

    /// Ends the parsing before the flow ends.
    pub fn stop(&mut self, time: Time, out: &mut dyn Out) {
        self.parts.iter_mut().for_each(|part| part.stop(time, out));
    }

    /// The protocols that were found, as in [`Session::places`].
    pub fn places(&self) -> impl Iterator<Item = u8> {
        self.parts.iter().flat_map(Session::places)
    }

    /// Heap memory in bytes.
    pub fn memory(&self) -> usize {
        self.parts.iter().map(Session::memory).sum()
    }

    /// As [`Session::may_announce`].
    pub fn may_announce(&self) -> bool {
        self.parts.iter().any(Session::may_announce)
    }

    /// Prefetches memory: see [`Session::touch`].
    pub fn touch(&self) -> u64 {
        self.parts.get(Kind::Media as usize).map_or(0, Session::touch)
    }
}
