//! The hosts that rules remember something of.

use super::Moment;
use crate::state::BitOf;
use std::net::IpAddr;

/// A host, or two.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) enum Of {
    Address(IpAddr),
    /// Both directions are of one pair: the lower address is the first one.
    Pair(IpAddr, IpAddr),
}

impl Of {
    pub fn pair(one: IpAddr, other: IpAddr) -> Self {
        Self::Pair(one.min(other), one.max(other))
    }

    /// Whose bit it is.
    pub fn of_bit(of: BitOf, moment: &Moment<'_>) -> Self {
        let (source, destination) = (moment.sender().0, moment.receiver().0);
        match of {
            BitOf::Source => Self::Address(source),
            BitOf::Destination => Self::Address(destination),
            BitOf::Pair => Self::pair(source, destination),
        }
    }
}
