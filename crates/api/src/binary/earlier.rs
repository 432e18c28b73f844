//! Parts that snapshots had before version 8, and that answers have since. No program kept such snapshots: the parts are checked
//! and left out.

use super::{Binary, Bytes, DecodeError};
use crate::{CONN_STATES, Count};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// An IP protocol and a port.
type Service = (u8, u16);
/// Bytes by the number of a protocol.
type Shares = BTreeMap<u8, u64>;

/// Skips the number of flows of each state.
pub fn skip_states(from: &mut Bytes<'_>) -> Result<(), DecodeError> {
    CONN_STATES.iter().try_for_each(|_| from.count().map(drop))
}

/// Skips the protocols of ports and of servers, then the packets in tunnels and those without IP.
pub fn skip_tables(from: &mut Bytes<'_>) -> Result<(), DecodeError> {
    BTreeMap::<Service, Shares>::read(from)?;
    BTreeMap::<(Service, IpAddr), Shares>::read(from)?;
    for _ in 0..from.length()? {
        skip_part(from)?;
        Count::read(from)?;
    }
    Ok(())
}

/// Skips a kind of packets: a tunnel, a frame of IEEE 802.11, an EtherType, a type of Cisco's, a service access point.
fn skip_part(from: &mut Bytes<'_>) -> Result<(), DecodeError> {
    match from.byte()? {
        0 => <(String, Option<u32>)>::read(from).map(drop),
        1 | 4 => from.byte().map(drop),
        2 | 3 => u16::read(from).map(drop),
        _ => Err(DecodeError::Invalid("part")),
    }
}
