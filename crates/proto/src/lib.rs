//! Application parsers: chunks of streams in, records out.
//!
//! Each protocol is one file and one line in [`PROTOCOLS`]. A [`Protocol`] holds everything that the rest of the
//! program needs: its log columns, JSON keys, fields in expressions, the privacy of each field, and its page in the
//! manual all come from that one value. A [`Session`] identifies the protocol of a flow and passes payload to its
//! parser.
//!
//! This crate reads no clock and no file, no state grows without a limit, and no bytes make a parser panic.
//!
//! ```
//! use weir_proto::talk::{Talk, Turn};
//! use weir_proto::{Expected, Out, Record, Session, Setup, Wants};
//! use weir_wire::{Time, stream::Chunk};
//!
//! #[derive(Default)]
//! struct Records(Vec<Record<'static>>);
//! impl Out for Records {
//!     fn record(&mut self, record: Record<'_>) {
//!         self.0.push(record.into_owned());
//!     }
//!     fn expect(&mut self, _: Expected) {}
//!     fn content(&mut self, _file: u64, _offset: u64, _bytes: &[u8]) -> bool {
//!         true
//!     }
//! }
//!
//! let talk = Talk::parse("< +OK ready\\r\\n\n> STAT\\r\\n\n< +OK 1 120\\r\\n", [40000, 110]).unwrap();
//! let [initiator, responder] = ["192.0.2.1", "192.0.2.2"].map(|address| address.parse().unwrap());
//! let (wants, ip_proto) = (Wants::default(), talk.ip_proto);
//! let setup = Setup { flow: 1, initiator: (initiator, 40000), responder: (responder, 110), ip_proto, wants };
//! let (mut session, mut records, time) = (Session::new(), Records::default(), Time(0));
//! for turn in &talk.turns {
//!     if let Turn::Data(direction, data) = turn {
//!         session.chunk(&Chunk { time, direction: *direction, gap: 0, data }, &|| setup.clone(), &mut records);
//!     }
//! }
//! session.end(time, &|| setup.clone(), &mut records);
//! assert_eq!(records.0[0].table.name, "pop3");
//! assert_eq!(records.0[0].get("command"), &"STAT".into());
//! ```

#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]
#![cfg_attr(
    not(test),
    deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic)
)]

mod alert;
mod anomaly;
mod ber;
mod columns;
mod dce_rpc;
mod dhcp;
mod dhcpv6;
mod dnp3;
mod dns;
mod dtls;
mod early;
mod elsewhere;
mod file;
mod frames;
mod ftp;
mod gssapi;
mod hex;
mod home;
mod http;
mod http2;
mod identified;
mod imap;
mod inflation;
mod irc;
mod kerberos;
mod ldap;
mod line;
mod messages;
mod mime;
mod modbus;
mod mqtt;
mod mysql;
mod names;
mod ntp;
mod odd_packet;
mod packed;
mod parser;
mod place;
mod pop3;
mod postgresql;
mod protocol;
mod quic;
mod radius;
mod rdp;
mod record;
mod rfb;
mod rtp;
mod session;
mod sip;
mod smb;
mod smtp;
mod snmp;
mod socks;
mod sought;
mod ssh;
mod stream;
mod stun;
mod syslog;
pub mod talk;
mod telnet;
mod tftp;
mod tls;
mod tunnel;
mod turned;
mod turns;
mod waiting;
mod websocket;
#[cfg(feature = "work")]
pub mod work;
#[cfg(not(feature = "work"))]
mod work;
mod xmpp;

pub use alert::{ALERT, Alert, AlertPlace, AlertSide, AlertTunnel, AlertValue};
pub use anomaly::{ANOMALY, Anomaly, ZeekLog, is_no_event, odd_packet, odd_segment, zeek_log};
pub use columns::Columns;
pub use dnp3::DNP3_FUNCTIONS;
pub use dns::DNS;
pub use early::{Asked, Buffer, PREFIXES, early_fields};
pub use elsewhere::may_begin_elsewhere;
pub use file::{FILES, file_id, file_name};
pub use inflation::Inflation;
pub use irc::IRC_CHANNEL;
pub use mime::MAIL;
pub use odd_packet::{OddPacket, ZeekEnds};
pub use packed::{Packed, Place, Spare};
pub use parser::{Expected, Hashes, Heads, MAX_FILES, Out, Parser, Probe, Setup, Step, Wants};
pub use place::Span;
pub use protocol::{Field, Kind, Privacy, Protocol, TCP, Table, Transport, UDP, field};
#[doc(hidden)]
pub use record::assert_names;
pub use record::{Record, Value, fields_from, lossless};
pub use session::Session;
pub use stream::{STREAM, STREAM_SAMPLE};
pub use tunnel::{OF_PROXIES, TUNNEL, is_of_proxy};

/// Every protocol, in the order in which they are probed.
pub static PROTOCOLS: &[&Protocol] = &[
    &identified::bacnet::PROTOCOL, //
    &identified::bgp::PROTOCOL,
    &identified::bittorrent::PROTOCOL,
    &identified::bt_dht::PROTOCOL,
    &identified::coap::PROTOCOL,
    &dce_rpc::PROTOCOL,
    &dhcp::PROTOCOL,
    &dhcpv6::PROTOCOL,
    &dnp3::PROTOCOL,
    &dns::LLMNR,
    &dns::MDNS,
    &dns::NBNS,
    &dns::PROTOCOL,
    &dtls::PROTOCOL,
    &identified::edonkey::PROTOCOL,
    &identified::enip::PROTOCOL,
    &ftp::DATA,
    &ftp::PROTOCOL,
    &identified::gnutella::PROTOCOL,
    &gssapi::PROTOCOL,
    &http2::PROTOCOL,
    &http::PROTOCOL,
    &identified::iec104::PROTOCOL,
    &identified::ike::PROTOCOL,
    &imap::PROTOCOL,
    &irc::DCC,
    &irc::PROTOCOL,
    &kerberos::PROTOCOL,
    &ldap::PROTOCOL,
    &modbus::PROTOCOL,
    &identified::mount::PROTOCOL,
    &mqtt::PROTOCOL,
    &mysql::PROTOCOL,
    &identified::nfs::PROTOCOL,
    &identified::nntp::PROTOCOL,
    &gssapi::NTLM,
    &ntp::PROTOCOL,
    &identified::openvpn::PROTOCOL,
    &identified::opcua::PROTOCOL,
    &pop3::PROTOCOL,
    &identified::portmapper::PROTOCOL,
    &postgresql::PROTOCOL,
    &quic::PROTOCOL,
    &radius::PROTOCOL,
    &rdp::PROTOCOL,
    &identified::redis::PROTOCOL,
    &rfb::PROTOCOL,
    &identified::rpc::PROTOCOL,
    &rtp::PROTOCOL,
    &identified::rtsp::PROTOCOL,
    &identified::s7comm::PROTOCOL,
    &sip::PROTOCOL,
    &smb::PROTOCOL,
    &smtp::PROTOCOL,
    &snmp::PROTOCOL,
    &socks::PROTOCOL,
    &identified::srvloc::PROTOCOL,
    &identified::ssdp::PROTOCOL,
    &ssh::PROTOCOL,
    &stun::PROTOCOL,
    &syslog::PROTOCOL,
    &identified::tds::PROTOCOL,
    &telnet::PROTOCOL,
    &tftp::PROTOCOL,
    &tls::PROTOCOL,
    &identified::utp::PROTOCOL,
    &websocket::PROTOCOL,
    &identified::wireguard::PROTOCOL,
    &xmpp::PROTOCOL,
];

/// Protocols that stand alone: they announce no flows, switch to no other protocol, carry no files, and emit only rows
/// of their own tables and of [`ANOMALY`]. If no output uses these tables, the flow is not parsed after
/// identification: see [`Wants::unread`].
pub static ALONE: &[&Protocol] = &[
    &dhcp::PROTOCOL, //
    &dhcpv6::PROTOCOL,
    &mqtt::PROTOCOL,
    &ntp::PROTOCOL,
    &rtp::PROTOCOL,
    &snmp::PROTOCOL,
    &stun::PROTOCOL,
    &syslog::PROTOCOL,
];

/// Protocols that announce flows. They are parsed even where protocols are only identified, because the announced flows
/// are identified by the announcement: see [`Wants::identifies`].
pub static ANNOUNCING: &[&Protocol] = &[
    &ftp::PROTOCOL, //
    &irc::PROTOCOL,
    &sip::PROTOCOL,
    &tftp::PROTOCOL,
];

/// Those of [`ANNOUNCING`] whose announced flows may be between other hosts than those of the announcing flow.
pub(crate) static ELSEWHERE: &[&Protocol] = &[
    &ftp::PROTOCOL, //
    &irc::PROTOCOL,
    &sip::PROTOCOL,
];

/// A protocol that is also identified where the server is taken for the initiator, because a response came first or the ports say so:
/// no other protocol has its responses.
pub(crate) struct Turning {
    /// The protocol.
    pub protocol: &'static Protocol,
    /// Whether what a client sends, while its server has sent nothing, leaves no doubt, or may become so.
    pub is_plain_request: fn(&[u8]) -> bool,
}

/// All of these.
pub(crate) static TURNING: &[Turning] =
    &[Turning { protocol: &http::PROTOCOL, is_plain_request: http::is_plain_request }];

/// The fields that name the site that a client asks for, as table and field.
pub static SITE: [(&str, &str); 3] = [("http", "host"), ("tls", "server_name"), ("quic", "server_name")];

/// Tables that many protocols share.
pub static SHARED_TABLES: &[&Table] = &[
    &ALERT, //
    &ANOMALY,
    &FILES,
    &STREAM,
    &STREAM_SAMPLE,
    &TUNNEL,
    &dns::DNS,
    &mime::MAIL,
];

/// Tables that are in no log and no expression: parsers make their records only for functions that name them, and nothing else sees
/// them. They are not among [`tables`].
pub static REQUESTED: &[&Table] = &[&IRC_CHANNEL];

/// Whether a table is one of [`REQUESTED`].
pub fn is_requested(table: &Table) -> bool {
    REQUESTED.iter().any(|requested| std::ptr::eq(*requested, table))
}

/// Every table, in the order of the manual.
pub fn tables() -> impl Iterator<Item = &'static Table> {
    SHARED_TABLES.iter().chain(PROTOCOLS.iter().flat_map(|protocol| protocol.tables)).copied()
}

/// The protocols of flows that other flows announce.
pub(crate) static ANNOUNCED: &[&Protocol] =
    &[&ftp::data::PROTOCOL, &irc::dcc::PROTOCOL, &rtp::PROTOCOL, &tftp::PROTOCOL];

/// The tables that may have records of flows that other flows announce.
pub fn announced_tables() -> impl Iterator<Item = &'static Table> {
    [&ALERT, &ANOMALY, &FILES]
        .into_iter()
        .chain(ANNOUNCED.iter().flat_map(|protocol| protocol.tables.iter().copied()))
}

/// Buffers of files and of mails, which many protocols carry.
pub static SHARED_BUFFERS: &[&Buffer] = &[
    &file::NAME, //
    &file::MAGIC,
    &file::DATA,
    &file::MIN_SIZE,
    &file::SIZE,
    &file::MD5,
    &file::SHA1,
    &file::SHA256,
    &mime::FROM,
    &mime::TO,
    &mime::CC,
    &mime::SUBJECT,
    &mime::DATE,
    &mime::MESSAGE_ID,
    &mime::X_MAILER,
    &mime::RECEIVED,
    &mime::URL,
];

/// Every buffer with bytes, in the order of the manual.
pub fn buffers() -> impl Iterator<Item = &'static Buffer> {
    all_buffers().filter(|buffer| !buffer.is_number)
}

/// Every buffer whose values are numbers, by protocol.
pub fn numbers() -> impl Iterator<Item = &'static Buffer> {
    all_buffers().filter(|buffer| buffer.is_number)
}

/// Every buffer, of both kinds.
fn all_buffers() -> impl Iterator<Item = &'static Buffer> {
    SHARED_BUFFERS.iter().chain(PROTOCOLS.iter().flat_map(|protocol| protocol.buffers)).copied()
}

#[cfg(test)]
mod golden;
#[cfg(test)]
mod growth;
#[cfg(test)]
mod holes;
#[cfg(test)]
mod laws;
#[cfg(test)]
mod misnamed;
