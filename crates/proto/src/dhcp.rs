//! Dynamic Host Configuration Protocol (RFC 2131, RFC 2132): the configuration of a host.
//!
//! Two tables: Suricata has a row for each message, Zeek a row for all messages of one transaction identifier. A
//! client's broadcasts and a server's answers are often two flows; their rows share the identifier.

use crate::early::begin_transaction;
use crate::work::looked_at;
use crate::{
    Buffer, Field, Heads, Kind, Out, Parser, Privacy, Probe, Protocol, Record, Setup, Step, Table, Transport,
    Value, field, record,
};
use std::collections::VecDeque;
use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr};
use weir_wire::stream::Chunk;
use weir_wire::{Direction, Reader, Time};

pub(crate) static PROTOCOL: Protocol = Protocol {
    name: "dhcp",
    help: "Dynamic Host Configuration Protocol (RFC 2131).",
    transport: Transport::Udp,
    ports: &[67, 68, 4011],
    probe,
    parser: |setup| Box::new(Dhcp::new(setup)),
    tables: &[&DHCP, &MESSAGE],
    buffers: &[&LEASE_TIME, &RENEWAL_TIME, &REBINDING_TIME, &HOST_NAME],
};

static LEASE_TIME: Buffer =
    Buffer::number("dhcp.leasetime", "Lease time of a message in seconds (option 51).");
static RENEWAL_TIME: Buffer =
    Buffer::number("dhcp.renewal_time", "Seconds before the client renews its lease (option 58).");
static REBINDING_TIME: Buffer = Buffer::number(
    "dhcp.rebinding_time",
    "Seconds before the client asks any server for its lease (option 59).",
);

static HOST_NAME: Buffer = Buffer::whole(
    "dhcp.hostname",
    "Host name of the client (option 12), up to its first zero byte; none if it is empty.",
);

static DHCP: Table = Table {
    name: "dhcp",
    help: "All messages of one flow with one transaction identifier: how a host obtained its address.",
    zeek: "dhcp",
    eve: "",
    fields: &[
        field("id", Kind::Uint, "Transaction identifier, chosen by the client (xid)."),
        field(
            "client",
            Kind::Address,
            "Address of the client: the one in use (ciaddr) or else the sender's address.",
        )
        .zeek("client_addr"),
        field("server", Kind::Address, "Address of the server that assigned the address.")
            .zeek("server_addr"),
        field("mac", Kind::Text, "Hardware address of the client (chaddr or client identifier).")
            .zeek("mac")
            .privacy(Privacy::Address),
        field("host", Kind::Text, "Host name that the client sent (option 12).")
            .zeek("host_name")
            .privacy(Privacy::Name),
        field("fqdn", Kind::Text, "Fully qualified domain name of the client (option 81).")
            .zeek("client_fqdn")
            .privacy(Privacy::Name),
        field("domain", Kind::Text, "Domain name that the server assigned (option 15).")
            .zeek("domain")
            .privacy(Privacy::Name),
        field("requested", Kind::Address, "Address that the client requested (option 50).")
            .zeek("requested_addr"),
        field("assigned", Kind::Address, "Address that the server assigned (yiaddr).").zeek("assigned_addr"),
        field("lease", Kind::Duration, "Lease time that the server granted, in seconds (option 51).")
            .zeek("lease_time"),
        field("client_message", Kind::Text, "Reason in the client's DECLINE or RELEASE (option 56).")
            .zeek("client_message")
            .privacy(Privacy::Content),
        field("server_message", Kind::Text, "Reason in the server's NAK (option 56).")
            .zeek("server_message")
            .privacy(Privacy::Content),
        field("types", Kind::List(&Kind::Word), "Types of the messages in order of time (option 53).")
            .zeek("msg_types"),
        field("times", Kind::List(&Kind::Time), "Times of the messages, in the order of their types."),
        field("duration", Kind::Duration, "Time from the first message to the last, in seconds.")
            .zeek("duration"),
        field("circuit", Kind::Text, "Circuit of the client, from the relay (option 82, suboption 1).")
            .zeek("circuit_id")
            .privacy(Privacy::Fingerprint),
        field("remote", Kind::Text, "Remote host of the client, from the relay (option 82, suboption 2).")
            .zeek("agent_remote_id")
            .privacy(Privacy::Fingerprint),
        field("subscriber", Kind::Text, "Subscriber of the client, from the relay (option 82, suboption 6).")
            .zeek("subscriber_id")
            .privacy(Privacy::User),
    ],
};

static MESSAGE: Table =
    Table { name: "dhcp_message", help: "A DHCP message.", zeek: "", eve: "dhcp", fields: MESSAGE_FIELDS };

static MESSAGE_FIELDS: &[Field] = &[
    field("type", Kind::Word, "Direction of the message: request or reply (op).").eve("dhcp.type"),
    field("id", Kind::Uint, "Transaction identifier, chosen by the client (xid).").eve("dhcp.id"),
    field("mac", Kind::Text, "Hardware address of the client (chaddr).")
        .eve("dhcp.client_mac")
        .privacy(Privacy::Address),
    field("assigned", Kind::Address, "Address that the server assigns (yiaddr).").eve("dhcp.assigned_ip"),
    field("client", Kind::Address, "Address that the client uses already (ciaddr).").eve("dhcp.client_ip"),
    field("relay", Kind::Address, "Address of the relay agent (giaddr), in replies.").eve("dhcp.relay_ip"),
    field("next_server", Kind::Address, "Address of the next server for booting (siaddr), in replies.")
        .eve("dhcp.next_server_ip"),
    field("dhcp_type", Kind::Word, "Type of the message (option 53).").eve("dhcp.dhcp_type"),
    field("client_id", Kind::Text, "Client identifier in hexadecimal digits (option 61).")
        .eve("dhcp.client_id")
        .privacy(Privacy::Fingerprint),
    field("lease_time", Kind::Uint, "Lease time in seconds (option 51).").eve("dhcp.lease_time"),
    field(
        "rebinding_time",
        Kind::Uint,
        "Time after which the client may renew with any server, in seconds (option 59).",
    )
    .eve("dhcp.rebinding_time"),
    field(
        "renewal_time",
        Kind::Uint,
        "Time after which the client renews with this server, in seconds (option 58).",
    )
    .eve("dhcp.renewal_time"),
    field("subnet_mask", Kind::Text, "Subnet mask (option 1).").eve("dhcp.subnet_mask"),
    field("hostname", Kind::Text, "Host name of the client (option 12).")
        .eve("dhcp.hostname")
        .privacy(Privacy::Name),
    field("requested", Kind::Address, "Address that the client requests (option 50).")
        .eve("dhcp.requested_ip"),
    field(
        "params",
        Kind::List(&Kind::Word),
        "Names of the options that the client requests (option 55), as far as Suricata names them.",
    )
    .eve("dhcp.params"),
    field("dns_servers", Kind::List(&Kind::Address), "Addresses of DNS servers (option 6).")
        .eve("dhcp.dns_servers"),
    field("routers", Kind::List(&Kind::Address), "Addresses of routers (option 3).").eve("dhcp.routers"),
    field("vendor_class", Kind::Text, "Vendor class of the client (option 60).")
        .eve("dhcp.vendor_class_identifier")
        .privacy(Privacy::Content),
    field(
        "parameters",
        Kind::List(&Kind::Uint),
        "Numbers of all options that the client requests, in its order (option 55).",
    ),
    field("domain", Kind::Text, "Domain name that the server assigns (option 15).").privacy(Privacy::Name),
    field("server", Kind::Address, "Server identifier (option 54)."),
    field("message", Kind::Text, "Error message (option 56).").privacy(Privacy::Content),
    field("boot_file", Kind::Text, "Name of the boot file (file or option 67).").privacy(Privacy::Url),
];

/// Maximum number of transaction identifiers of one flow at a time.
const MAX_NUMBERS: usize = 64;
/// Maximum number of messages of one row, as in Zeek.
const MAX_MESSAGES: usize = 50;
/// Zeek's limits of a session, in nanoseconds: its row is emitted at the earliest after `MIN_AGE`, if nothing came for
/// `MAX_SILENCE`, and whatever comes after `MAX_AGE`.
const MIN_AGE: u64 = 10_000_000_000;
const MAX_SILENCE: u64 = 5_000_000_000;
const MAX_AGE: u64 = 30_000_000_000;
/// Bytes before the options, including the magic cookie.
const HEADER: usize = 240;
const MARK: &[u8] = &[0x63, 0x82, 0x53, 0x63];

const REPLY: u8 = 2;

/// Codes of options (RFC 2132 and later RFCs).
mod code {
    pub const SUBNET_MASK: u8 = 1;
    pub const ROUTERS: u8 = 3;
    pub const DNS_SERVERS: u8 = 6;
    pub const HOST_NAME: u8 = 12;
    pub const DOMAIN: u8 = 15;
    pub const REQUESTED: u8 = 50;
    pub const LEASE: u8 = 51;
    pub const OVERLOAD: u8 = 52;
    pub const TYPE: u8 = 53;
    pub const SERVER: u8 = 54;
    pub const PARAMETERS: u8 = 55;
    pub const MESSAGE: u8 = 56;
    pub const RENEWAL: u8 = 58;
    pub const REBINDING: u8 = 59;
    pub const VENDOR_CLASS: u8 = 60;
    pub const CLIENT_ID: u8 = 61;
    pub const BOOT_FILE: u8 = 67;
    pub const FQDN: u8 = 81;
    pub const RELAY: u8 = 82;
}

fn probe(heads: &Heads<'_>) -> Probe {
    let is = |data: &[u8]| {
        let is_head = matches!(data, [1 | REPLY, _, 0..=16, ..]);
        is_head && data.get(HEADER - MARK.len()..HEADER) == Some(MARK)
    };
    if heads.both().any(is) { Probe::Match } else { Probe::Reject }
}

/// A message.
struct Message<'a> {
    op: u8,
    id: u32,
    /// Addresses of the client, of the assignment, of the next server and of the relay.
    addresses: [Ipv4Addr; 4],
    hardware: &'a [u8],
    /// Options by code; options in several parts are joined (RFC 3396).
    options: Vec<(u8, Vec<u8>)>,
    boot_file: &'a [u8],
    is_cut: bool,
}

impl<'a> Message<'a> {
    fn read(data: &'a [u8]) -> Option<Self> {
        let mut reader = Reader::new(data);
        let [op, _, hardware_len, _] = reader.take(4)?.first_chunk().copied()?;
        let id = reader.u32()?;
        reader.take(4)?;
        let mut addresses = [Ipv4Addr::UNSPECIFIED; 4];
        for address in &mut addresses {
            *address = Ipv4Addr::from(reader.u32()?);
        }
        let hardware = reader.take(16)?;
        let hardware = hardware.get(..usize::from(hardware_len)).unwrap_or(hardware);
        let (name, boot_file) = (reader.take(64)?, reader.take(128)?);
        if reader.take(MARK.len())? != MARK {
            return None;
        }
        let mut message = Self { op, id, addresses, hardware, options: Vec::new(), boot_file, is_cut: false };
        message.read_options(reader.rest());
        // Option overload: unused sname and file fields can hold more options.
        let overload = message.option(code::OVERLOAD).and_then(|data| data.first()).copied().unwrap_or(0);
        if overload & 1 != 0 {
            message.read_options(boot_file);
            message.boot_file = &[];
        }
        if overload & 2 != 0 {
            message.read_options(name);
        }
        Some(message)
    }

    fn read_options(&mut self, data: &[u8]) {
        let mut reader = Reader::new(data);
        // An option may come in pieces (RFC 3396), as many as there are bytes.
        let mut places = [None; 256];
        for (at, (code, _)) in self.options.iter().enumerate() {
            if let Some(place) = places.get_mut(usize::from(*code)) {
                *place = Some(at);
            }
        }
        while let Some(code) = reader.u8() {
            looked_at(2);
            match code {
                0 => continue,
                255 => return,
                _ => {}
            }
            let Some(value) = reader.u8().and_then(|len| reader.take(len.into())) else {
                self.is_cut = true;
                return;
            };
            let Some(place) = places.get_mut(usize::from(code)) else { return };
            match place.and_then(|at: usize| self.options.get_mut(at)) {
                Some((_, known)) => known.extend_from_slice(value),
                None => {
                    *place = Some(self.options.len());
                    self.options.push((code, value.to_vec()));
                }
            }
        }
    }

    fn option(&self, code: u8) -> Option<&[u8]> {
        self.options.iter().find(|(known, _)| *known == code).map(|(_, value)| value.as_slice())
    }

    /// An option with text; trailing zero bytes are removed.
    fn text(&self, code: u8) -> Option<&[u8]> {
        self.option(code).map(without_zeros).filter(|text| !text.is_empty())
    }

    fn number(&self, code: u8) -> Option<u32> {
        self.option(code).and_then(|value| Reader::new(value).u32())
    }

    fn address(&self, code: u8) -> Option<IpAddr> {
        self.number(code).map(|number| Ipv4Addr::from(number).into())
    }

    fn list(&self, code: u8) -> Value<'static> {
        let addresses = self.option(code).map(|value| value.as_chunks::<4>().0);
        addresses.map_or(Value::None, |all| all.iter().map(|a| IpAddr::from(*a)).collect())
    }

    fn kind(&self) -> Option<u8> {
        self.option(code::TYPE).and_then(|value| value.first()).copied()
    }

    fn mac(&self) -> Option<String> {
        (!self.hardware.is_empty()).then(|| colons(self.hardware))
    }

    fn record(&self, time: Time) -> Record<'_> {
        let is_reply = self.op == REPLY;
        let [client, assigned, next_server, relay] = self.addresses.map(IpAddr::from);
        let in_reply = |address: IpAddr| Value::from(is_reply.then_some(address));
        let wanted = self.option(code::PARAMETERS);
        let names: Option<Value<'_>> =
            wanted.map(|codes| codes.iter().filter_map(|code| parameter(*code)).collect());
        let mask = self.number(code::SUBNET_MASK).map(|mask| Ipv4Addr::from(mask).to_string());
        let boot_file = self.text(code::BOOT_FILE).unwrap_or_else(|| without_zeros(self.boot_file));
        record!(
            MESSAGE,
            time,
            type = match self.op {
                1 => "request",
                REPLY => "reply",
                _ => "<unknown>",
            },
            id = self.id,
            mac = self.mac(),
            assigned = assigned,
            client = client,
            relay = in_reply(relay),
            next_server = in_reply(next_server),
            dhcp_type = self.kind().map(|kind| TYPES.get(usize::from(kind)).map_or("unknown", |(_, eve)| eve)),
            client_id = self.option(code::CLIENT_ID).map(colons),
            lease_time = self.number(code::LEASE),
            rebinding_time = self.number(code::REBINDING),
            renewal_time = self.number(code::RENEWAL),
            subnet_mask = mask,
            hostname = self.text(code::HOST_NAME),
            requested = self.address(code::REQUESTED),
            params = names.unwrap_or_default(),
            dns_servers = self.list(code::DNS_SERVERS),
            routers = self.list(code::ROUTERS),
            vendor_class = self.text(code::VENDOR_CLASS),
            parameters = wanted.map_or(Value::None, |codes| codes.iter().copied().collect()),
            domain = self.text(code::DOMAIN),
            server = self.address(code::SERVER),
            message = self.text(code::MESSAGE),
            boot_file = Some(boot_file).filter(|file| !file.is_empty()),
        )
    }
}

/// Names of message types, as Zeek and as Suricata writes them.
const TYPES: [(&str, &str); 19] = [
    ("", "unknown"),
    ("DISCOVER", "discover"),
    ("OFFER", "offer"),
    ("REQUEST", "request"),
    ("DECLINE", "decline"),
    ("ACK", "ack"),
    ("NAK", "nak"),
    ("RELEASE", "release"),
    ("INFORM", "inform"),
    ("FORCERENEW", "unknown"),
    ("LEASEQUERY", "unknown"),
    ("LEASEUNASSIGNED", "unknown"),
    ("LEASEUNKNOWN", "unknown"),
    ("LEASEACTIVE", "unknown"),
    ("BULKLEASEQUERY", "unknown"),
    ("LEASEQUERYDONE", "unknown"),
    ("ACTIVELEASEQUERY", "unknown"),
    ("LEASEQUERYSTATUS", "unknown"),
    ("TLS", "unknown"),
];

/// Suricata's names of requested parameters.
fn parameter(code: u8) -> Option<&'static str> {
    Some(match code {
        code::SUBNET_MASK => "subnet_mask",
        code::ROUTERS => "router",
        code::DNS_SERVERS => "dns_server",
        code::DOMAIN => "domain",
        35 => "arp_timeout",
        42 => "ntp_server",
        66 => "tftp_server_name",
        150 => "tftp_server_ip",
        _ => return None,
    })
}

fn without_zeros(text: &[u8]) -> &[u8] {
    let end = text.iter().position(|byte| *byte == 0).unwrap_or(text.len());
    text.get(..end).unwrap_or_default()
}

/// Bytes in hexadecimal digits with colons between them.
fn colons(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 3);
    for (at, byte) in bytes.iter().enumerate() {
        let _ = write!(text, "{}{byte:02x}", if at > 0 { ":" } else { "" });
    }
    text
}

/// A name of option 81 (RFC 4702): as text, or as labels.
fn full_name(value: &[u8]) -> Option<Vec<u8>> {
    let (head, name) = value.split_at_checked(3)?;
    if head.first()? & 4 == 0 {
        return Some(without_zeros(name).to_vec()).filter(|name| !name.is_empty());
    }
    let (mut reader, mut labels) = (Reader::new(name), Vec::new());
    while let Some(len @ 1..64) = reader.u8() {
        labels.push(reader.take(len.into())?);
    }
    Some(labels.join(&b'.')).filter(|name| !name.is_empty())
}

/// The state of a transaction number.
#[derive(Default)]
struct Lease {
    id: u32,
    first: Time,
    last: Time,
    client: Option<IpAddr>,
    server: Option<IpAddr>,
    mac: Option<String>,
    /// The hardware address in the client's messages, if it sends no client identifier.
    hardware: Option<String>,
    host: Option<Vec<u8>>,
    fqdn: Option<Vec<u8>>,
    domain: Option<Vec<u8>>,
    requested: Option<IpAddr>,
    assigned: Option<IpAddr>,
    seconds: Option<u32>,
    messages: [Option<Vec<u8>>; 2],
    types: Vec<&'static str>,
    times: Vec<Time>,
    relay: [Option<Vec<u8>>; 3],
}

impl Lease {
    /// Whether a message at that time begins another session.
    fn is_over(&self, time: Time) -> bool {
        let (age, silence) = (time.since(self.first), time.since(self.last));
        age >= MIN_AGE && (silence > MAX_SILENCE || age > MAX_AGE)
    }

    fn emit(self, out: &mut dyn Out) {
        if !out.takes(&DHCP) {
            return;
        }
        let [client_message, server_message] = self.messages;
        let [circuit, remote, subscriber] = self.relay;
        out.record(record!(
            DHCP,
            self.first,
            id = self.id,
            client = self.client,
            server = self.server,
            mac = self.mac.or(self.hardware),
            host = self.host,
            fqdn = self.fqdn,
            domain = self.domain,
            requested = self.requested,
            assigned = self.assigned,
            lease = self
                .seconds
                .map_or(Value::None, |seconds| Value::Duration(u64::from(seconds) * 1_000_000_000)),
            client_message = client_message,
            server_message = server_message,
            types = self.types.into_iter().collect::<Value<'_>>(),
            times = self.times.into_iter().collect::<Value<'_>>(),
            duration = Value::Duration(self.last.since(self.first)),
            circuit = circuit,
            remote = remote,
            subscriber = subscriber,
        ));
    }

    fn add(&mut self, message: &Message<'_>, source: IpAddr, time: Time) {
        self.last = time;
        let kind = message.kind().and_then(|kind| TYPES.get(usize::from(kind)));
        if let Some((name, _)) = kind.filter(|(name, _)| !name.is_empty()) {
            self.types.push(name);
            self.times.push(time);
        }
        let set = |place: &mut Option<Vec<u8>>, code: u8| {
            if let Some(text) = message.text(code) {
                *place = Some(text.to_vec());
            }
        };
        let [client_message, server_message] = &mut self.messages;
        if message.op == REPLY {
            set(server_message, code::MESSAGE);
            set(&mut self.domain, code::DOMAIN);
            let [_, given, ..] = message.addresses;
            if !given.is_unspecified() {
                (self.server, self.assigned) = (Some(source), Some(given.into()));
            }
            self.client = self.client.or(self.assigned);
            self.mac = self.mac.take().or_else(|| message.mac());
            self.seconds = message.number(code::LEASE).or(self.seconds);
        } else {
            set(client_message, code::MESSAGE);
            set(&mut self.host, code::HOST_NAME);
            if !matches!(source, IpAddr::V4(source) if source.is_unspecified() || source.is_broadcast()) {
                self.client = Some(source);
            }
            self.fqdn = message.option(code::FQDN).and_then(full_name).or(self.fqdn.take());
            match message.option(code::CLIENT_ID) {
                Some([1, mac @ ..]) if !mac.is_empty() => self.mac = Some(colons(mac)),
                _ => self.hardware = message.mac(),
            }
            self.requested = message.address(code::REQUESTED).or(self.requested);
        }
        let mut relay = Reader::new(message.option(code::RELAY).unwrap_or_default());
        while let (Some(code), Some(len)) = (relay.u8(), relay.u8()) {
            let Some(value) = relay.take(len.into()) else { break };
            let [circuit, remote, subscriber] = &mut self.relay;
            match code {
                1 => *circuit = Some(value.to_vec()),
                2 => *remote = Some(value.to_vec()),
                6 => *subscriber = Some(value.to_vec()),
                _ => {}
            }
        }
    }
}

struct Dhcp {
    ends: [IpAddr; 2],
    leases: VecDeque<Lease>,
    /// Number of messages of both sides.
    messages: u64,
}

impl Dhcp {
    fn new(setup: &Setup) -> Self {
        Self { ends: [setup.initiator.0, setup.responder.0], leases: VecDeque::new(), messages: 0 }
    }

    /// Emits the times and the host name of a message.
    fn hand_on(&mut self, message: &Message<'_>, side: Direction, out: &mut dyn Out) {
        begin_transaction(side, self.messages, out);
        self.messages += 1;
        let times =
            [(&LEASE_TIME, code::LEASE), (&RENEWAL_TIME, code::RENEWAL), (&REBINDING_TIME, code::REBINDING)];
        for (buffer, option) in times {
            if let Some(seconds) = message.number(option) {
                out.emit_number(buffer, side, seconds.into());
            }
        }
        if let Some(name) = message.text(code::HOST_NAME) {
            out.emit(&HOST_NAME, side, name);
        }
        out.side_is_complete(side);
    }
}

impl Parser for Dhcp {
    fn chunk(&mut self, chunk: &Chunk<'_>, out: &mut dyn Out) -> Step {
        let (time, direction) = (chunk.time, chunk.direction);
        let Some(message) = Message::read(chunk.data) else {
            if !chunk.data.is_empty() {
                PROTOCOL.emit_anomaly("malformed_message", direction, chunk.data, time, out);
            }
            return Step::Next;
        };
        if message.is_cut {
            PROTOCOL.emit_anomaly("truncated_options", direction, &[], time, out);
        }
        self.hand_on(&message, direction, out);
        if out.takes(&MESSAGE) {
            out.record(message.record(time));
        }
        looked_at(self.leases.len());
        if self.leases.iter().any(|lease| lease.is_over(time)) {
            let leases = std::mem::take(&mut self.leases);
            let (over, others): (VecDeque<_>, VecDeque<_>) =
                leases.into_iter().partition(|lease| lease.is_over(time));
            over.into_iter().for_each(|lease| lease.emit(out));
            self.leases = others;
        }
        let [initiator, responder] = self.ends;
        let source = if direction == Direction::Forward { initiator } else { responder };
        looked_at(self.leases.len());
        let at = self.leases.iter().position(|lease| lease.id == message.id);
        let known = at.and_then(|at| self.leases.remove(at));
        let mut lease =
            known.unwrap_or_else(|| Lease { id: message.id, first: time, last: time, ..Lease::default() });
        lease.add(&message, source, time);
        if lease.types.len() >= MAX_MESSAGES {
            lease.emit(out);
            return Step::Next;
        }
        // Sorted by last activity, the oldest first.
        self.leases.push_back(lease);
        if self.leases.len() > MAX_NUMBERS
            && let Some(oldest) = self.leases.pop_front()
        {
            PROTOCOL.emit_anomaly("too_many_transactions", direction, &[], time, out);
            oldest.emit(out);
        }
        Step::Next
    }

    fn end(&mut self, _: Time, out: &mut dyn Out) {
        for lease in std::mem::take(&mut self.leases) {
            lease.emit(out);
        }
    }

    fn memory(&self) -> usize {
        let texts = |lease: &Lease| {
            let texts = [&lease.host, &lease.fqdn, &lease.domain].into_iter();
            let texts = texts.chain(&lease.messages).chain(&lease.relay).flatten();
            let messages =
                lease.types.capacity() * size_of::<&str>() + lease.times.capacity() * size_of::<Time>();
            texts.map(Vec::capacity).sum::<usize>() + messages
        };
        self.leases.capacity() * size_of::<Lease>() + self.leases.iter().map(texts).sum::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::laws::talks;

    #[test]
    fn refusals_of_both_sides_are_in_their_rows() {
        let all = talks("dhcp", 67);
        let (_, talk) = all.iter().find(|(path, _)| path.ends_with("refused.talk")).unwrap();
        let emitted = talk.emitted(|data| vec![data.to_vec()]);
        let rows: Vec<_> = emitted.records.iter().filter(|record| *record.table == DHCP).collect();
        let [refused, declined] = rows[..] else { panic!("{rows:?}") };
        assert_eq!(*refused.get("types"), ["REQUEST", "NAK"].into_iter().collect());
        assert_eq!(*refused.get("server_message"), "wrong network".into());
        assert_eq!((refused.get("server"), refused.get("assigned")), (&Value::None, &Value::None));
        assert_eq!(
            *declined.get("types"),
            ["DISCOVER", "OFFER", "REQUEST", "ACK", "DECLINE"].into_iter().collect()
        );
        assert_eq!(*declined.get("client_message"), "in use".into());
        assert_eq!(*declined.get("requested"), Value::Address([192, 0, 2, 9].into()));
    }

    #[test]
    fn a_session_ends_by_silence_or_age() {
        const SECOND: u64 = 1_000_000_000;
        let lease = |last: u64| Lease { first: Time(0), last: Time(last * SECOND), ..Lease::default() };
        let cases = [(0, 9, false), (0, 10, true), (8, 13, false), (8, 14, true), (30, 31, true)];
        for (last, now, is_over) in cases {
            assert_eq!(lease(last).is_over(Time(now * SECOND)), is_over, "{last} {now}");
        }
    }
}
