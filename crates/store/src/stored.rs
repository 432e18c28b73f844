//! Stored flows and records, as exports pass them on.

use std::net::IpAddr;

/// A stored flow.
pub struct StoredFlow<'r> {
    /// Its number, of which the identifier is made.
    pub uid: u64,
    /// Times of its first and last packet, in nanoseconds since the epoch.
    pub times: [u64; 2],
    /// IP protocol number.
    pub ip_proto: u8,
    /// Address and port of the initiator and of the responder.
    pub ends: [(IpAddr, u16); 2],
    /// Packets of both directions.
    pub packets: [u64; 2],
    /// Bytes on the wire of both directions.
    pub bytes: [u64; 2],
    /// State of the connection.
    pub state: &'r str,
    /// Identified protocols, separated by blanks.
    pub services: Option<&'r str>,
    /// Name that the initiator had resolved for the responder.
    pub name: Option<&'r str>,
    /// A JSON object with the further columns of the log.
    pub detail: &'r str,
}

/// A stored record.
pub struct StoredRecord<'r> {
    /// The number of its flow.
    pub uid: u64,
    /// Its time, in nanoseconds since the epoch.
    pub time: u64,
    /// IP protocol number of its flow.
    pub ip_proto: u8,
    /// Address and port of the initiator and of the responder.
    pub ends: [(IpAddr, u16); 2],
    /// A JSON object with its fields.
    pub body: &'r str,
}
