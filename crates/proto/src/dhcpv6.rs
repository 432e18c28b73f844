//! DHCP for IPv6 (RFC 8415): each message, extracted from the relays' envelopes.

use crate::hex::hex;
use crate::{
    Heads, Kind, Out, Parser, Privacy, Probe, Protocol, Record, Step, Table, Transport, Value, field, record,
};
use std::net::{IpAddr, Ipv6Addr};
use weir_wire::stream::Chunk;
use weir_wire::{Reader, Time};

pub(crate) static PROTOCOL: Protocol = Protocol {
    name: "dhcpv6",
    help: "DHCP for IPv6 (RFC 8415).",
    transport: Transport::Udp,
    ports: &[546, 547],
    probe,
    parser: |_| Box::new(Dhcpv6),
    tables: &[&DHCPV6],
    buffers: &[],
};

static DHCPV6: Table = Table {
    name: "dhcpv6",
    help: "A DHCPv6 message.",
    zeek: "",
    eve: "",
    fields: &[
        field("type", Kind::Word, "Type of the message."),
        field("id", Kind::Uint, "Transaction identifier, chosen by the client."),
        field("client", Kind::Text, "Client identifier (DUID, option 1) in hexadecimal digits.")
            .privacy(Privacy::Fingerprint),
        field("server", Kind::Text, "Server identifier (DUID, option 2) in hexadecimal digits.")
            .privacy(Privacy::Fingerprint),
        field(
            "addresses",
            Kind::List(&Kind::Address),
            "Addresses that are requested or assigned (option 5).",
        ),
        field("prefixes", Kind::List(&Kind::Address), "Prefixes that are requested or assigned (option 26)."),
        field(
            "prefix_lengths",
            Kind::List(&Kind::Uint),
            "Lengths of the prefixes in bits, in the order of the prefixes.",
        ),
        field("preferred", Kind::Duration, "Preferred lifetime of the first address or prefix, in seconds."),
        field("valid", Kind::Duration, "Valid lifetime of the first address or prefix, in seconds."),
        field("status", Kind::Uint, "First status code that is not success (option 13; RFC 8415, 21.13)."),
        field("message", Kind::Text, "Text of the status code (option 13).").privacy(Privacy::Content),
        field("fqdn", Kind::Text, "Fully qualified domain name of the client (option 39).")
            .privacy(Privacy::Name),
        field("dns_servers", Kind::List(&Kind::Address), "Addresses of DNS servers (option 23)."),
        field("domains", Kind::List(&Kind::Text), "Domains of the search list (option 24).")
            .privacy(Privacy::Name),
        field(
            "parameters",
            Kind::List(&Kind::Uint),
            "Numbers of the options that the client requests (option 6).",
        ),
        field("vendor_class", Kind::Text, "Vendor class of the client (option 16).")
            .privacy(Privacy::Content),
        field("relays", Kind::Uint, "Number of relays that forwarded the message."),
        field("link", Kind::Address, "Link address of the relay nearest to the client."),
        field("peer", Kind::Address, "Peer address of the relay nearest to the client."),
    ],
};

/// Relays around a message: RFC 8415 has a limit of 8 (HOP_COUNT_LIMIT).
const MAX_RELAYS: u64 = 8;
/// Maximum number of values of one list.
const MAX_LIST: usize = 64;

const TYPES: [&str; 16] = [
    "",
    "SOLICIT",
    "ADVERTISE",
    "REQUEST",
    "CONFIRM",
    "RENEW",
    "REBIND",
    "REPLY",
    "RELEASE",
    "DECLINE",
    "RECONFIGURE",
    "INFORMATION-REQUEST",
    "RELAY-FORW",
    "RELAY-REPL",
    "LEASEQUERY",
    "LEASEQUERY-REPLY",
];
/// Types of relays' envelopes.
const RELAY: std::ops::RangeInclusive<u8> = 12..=13;

fn probe(heads: &Heads<'_>) -> Probe {
    // On other ports, the content alone is too unspecific.
    if !heads.is_home(PROTOCOL.ports) {
        return Probe::Reject;
    }
    let is = |data: &[u8]| {
        let (kind, head) = match data.first() {
            Some(kind) if RELAY.contains(kind) => (*kind, 34),
            Some(kind) => (*kind, 4),
            None => return false,
        };
        let is_known = TYPES.get(usize::from(kind)).is_some_and(|name| !name.is_empty());
        is_known && data.get(head..).is_some_and(is_options)
    };
    if heads.both().any(is) { Probe::Match } else { Probe::Reject }
}

/// Whether the bytes are well-formed options up to their end.
fn is_options(data: &[u8]) -> bool {
    let mut reader = Reader::new(data);
    while !reader.rest().is_empty() {
        let (Some(code), Some(len)) = (reader.u16(), reader.u16()) else { return false };
        if code > 255 || reader.take(len.into()).is_none() {
            return false;
        }
    }
    true
}

/// The values found in a message's options.
#[derive(Default)]
struct Found<'a> {
    client: Option<&'a [u8]>,
    server: Option<&'a [u8]>,
    addresses: Vec<Value<'a>>,
    prefixes: Vec<Value<'a>>,
    prefix_lengths: Vec<Value<'a>>,
    lifetimes: Option<(u32, u32)>,
    status: Option<(u16, &'a [u8])>,
    fqdn: Option<Vec<u8>>,
    dns_servers: Vec<Value<'a>>,
    domains: Vec<Value<'a>>,
    parameters: Vec<Value<'a>>,
    vendor_class: Option<&'a [u8]>,
    relayed: Option<&'a [u8]>,
}

impl<'a> Found<'a> {
    /// Reads options; `None` if they are malformed. Options of an association hold further options, down to one more
    /// level.
    fn read(&mut self, data: &'a [u8], depth: u8) -> Option<()> {
        let mut reader = Reader::new(data);
        while !reader.rest().is_empty() {
            let (code, len) = (reader.u16()?, reader.u16()?);
            let value = reader.take(len.into())?;
            let mut inner = Reader::new(value);
            match code {
                1 => self.client = Some(value),
                2 => self.server = Some(value),
                3 | 4 | 25 if depth == 0 => {
                    inner.take(if code == 4 { 4 } else { 12 })?;
                    self.read(inner.rest(), 1)?;
                }
                5 if depth == 1 => {
                    let address = inner.take(16)?.first_chunk::<16>().copied()?;
                    let lifetimes = (inner.u32()?, inner.u32()?);
                    self.lifetimes.get_or_insert(lifetimes);
                    push(&mut self.addresses, IpAddr::from(address));
                    self.read(inner.rest(), 2)?;
                }
                26 if depth == 1 => {
                    let lifetimes = (inner.u32()?, inner.u32()?);
                    self.lifetimes.get_or_insert(lifetimes);
                    let len = inner.u8()?;
                    let prefix = inner.take(16)?.first_chunk::<16>().copied()?;
                    push(&mut self.prefixes, IpAddr::from(prefix));
                    push(&mut self.prefix_lengths, len);
                    self.read(inner.rest(), 2)?;
                }
                6 => {
                    while let Some(wanted) = inner.u16() {
                        push(&mut self.parameters, wanted);
                    }
                }
                9 => self.relayed = Some(value),
                13 => {
                    let status = (inner.u16()?, inner.rest());
                    if self.status.is_none_or(|(known, _)| known == 0) {
                        self.status = Some(status);
                    }
                }
                16 => {
                    inner.u32()?;
                    let len = inner.u16()?;
                    self.vendor_class = Some(inner.take(len.into())?);
                }
                23 => {
                    for address in value.as_chunks::<16>().0 {
                        push(&mut self.dns_servers, IpAddr::from(*address));
                    }
                }
                24 => {
                    while !inner.rest().is_empty() {
                        push(&mut self.domains, name(&mut inner)?);
                    }
                }
                39 => {
                    inner.u8()?;
                    self.fqdn = name(&mut inner);
                }
                _ => {}
            }
        }
        Some(())
    }

    fn record(self, kind: u8, id: u32, relays: u64, relay: Option<[IpAddr; 2]>, time: Time) -> Record<'a> {
        let span = |seconds: u32| Value::Duration(u64::from(seconds) * 1_000_000_000);
        let (link, peer) = relay.map_or((None, None), |[link, peer]| (Some(link), Some(peer)));
        let message = self.status.map(|(_, message)| message).filter(|message| !message.is_empty());
        record!(
            DHCPV6,
            time,
            type = TYPES.get(usize::from(kind)).copied().unwrap_or("unknown"),
            id = id,
            client = self.client.map(hex),
            server = self.server.map(hex),
            addresses = Value::list(self.addresses),
            prefixes = Value::list(self.prefixes),
            prefix_lengths = Value::list(self.prefix_lengths),
            preferred = self.lifetimes.map_or(Value::None, |(preferred, _)| span(preferred)),
            valid = self.lifetimes.map_or(Value::None, |(_, valid)| span(valid)),
            status = self.status.map(|(status, _)| status),
            message = message,
            fqdn = self.fqdn,
            dns_servers = Value::list(self.dns_servers),
            domains = Value::list(self.domains),
            parameters = Value::list(self.parameters),
            vendor_class = self.vendor_class,
            relays = relays,
            link = link,
            peer = peer,
        )
    }
}

fn push<'a>(list: &mut Vec<Value<'a>>, value: impl Into<Value<'a>>) {
    if list.len() < MAX_LIST {
        list.push(value.into());
    }
}

/// A domain name as labels (RFC 8415, 10). A partial name of a client lacks the final label.
fn name(reader: &mut Reader<'_>) -> Option<Vec<u8>> {
    let mut labels = Vec::new();
    while let Some(len @ 1..64) = reader.u8() {
        labels.push(reader.take(len.into())?);
    }
    Some(labels.join(&b'.'))
}

struct Dhcpv6;

/// Reads a message; `None` if the bytes are no message.
fn read(mut data: &[u8], time: Time) -> Option<Record<'_>> {
    let (mut relays, mut relay) = (0, None);
    loop {
        let mut reader = Reader::new(data);
        let kind = reader.u8()?;
        if !RELAY.contains(&kind) {
            let [high, mid, low] = reader.take(3)?.first_chunk().copied()?;
            let mut found = Found::default();
            found.read(reader.rest(), 0)?;
            return Some(found.record(kind, u32::from_be_bytes([0, high, mid, low]), relays, relay, time));
        }
        relays += 1;
        reader.u8()?;
        let mut address = || reader.take(16)?.first_chunk::<16>().map(|bytes| Ipv6Addr::from(*bytes).into());
        relay = Some([address()?, address()?]);
        let mut found = Found::default();
        found.read(reader.rest(), 0)?;
        data = found.relayed.filter(|_| relays <= MAX_RELAYS)?;
    }
}

impl Parser for Dhcpv6 {
    fn chunk(&mut self, chunk: &Chunk<'_>, out: &mut dyn Out) -> Step {
        match read(chunk.data, chunk.time) {
            Some(record) => out.record(record),
            None if chunk.data.is_empty() => {}
            None => {
                PROTOCOL.emit_anomaly("malformed_message", chunk.direction, chunk.data, chunk.time, out);
            }
        }
        Step::Next
    }

    fn end(&mut self, _: Time, _: &mut dyn Out) {}

    fn memory(&self) -> usize {
        0
    }
}
