//! Simple Network Management Protocol, versions 1 (RFC 1157), 2c (RFC 1901, RFC 3416) and 3 (RFC 3412, RFC 3414).
//!
//! Two tables: Suricata has a row for each message, Zeek a row for each flow.

use crate::ber::{expect, integer, object, unsigned, value};
use crate::early::begin_transaction;
use crate::hex::hex;
use crate::{
    Buffer, Field, Heads, Kind, Out, Parser, Privacy, Probe, Protocol, Record, Step, Table, Transport, Value,
    field, record, values,
};
use std::net::{IpAddr, Ipv4Addr};
use weir_wire::stream::Chunk;
use weir_wire::{Reader, Time};

pub(crate) static PROTOCOL: Protocol = Protocol {
    name: "snmp",
    help: "Simple Network Management Protocol (RFC 3411).",
    transport: Transport::Udp,
    ports: &[161, 162],
    probe,
    parser: |_| Box::new(Snmp::default()),
    tables: &[&SNMP, &MESSAGE],
    buffers: &[&COMMUNITY, &USM, &TRAP_OID, &TRAP_ADDRESS, &TRAP_TYPE, &VERSION, &PDU_TYPE],
};

static COMMUNITY: Buffer = Buffer::whole("snmp.community", "Community string (versions 1 and 2c).");
static USM: Buffer = Buffer::whole("snmp.usm", "User name of the security model (version 3).");
static TRAP_OID: Buffer =
    Buffer::whole("snmp.trap_oid", "Enterprise of a trap of version 1: 1.3.6.1.4.1.311.");
static TRAP_ADDRESS: Buffer =
    Buffer::whole("snmp.trap_address", "Address of the agent of a trap of version 1, as text.");
static TRAP_TYPE: Buffer =
    Buffer::number("snmp.trap_type", "Generic trap of a trap of version 1 (RFC 1157 4.1.6).");
static VERSION: Buffer = Buffer::number("snmp.version", "Version of a message: 1, 2 (2c) or 3.");
static PDU_TYPE: Buffer =
    Buffer::number("snmp.pdu_type", "Type of the PDU: 0 to 8; none if it is encrypted.");

static SNMP: Table = Table {
    name: "snmp",
    help: "Sum of all messages of a flow.",
    zeek: "snmp",
    eve: "",
    fields: &[
        field("duration", Kind::Duration, "Time from the first message to the last, in seconds.")
            .zeek("duration"),
        field("version", Kind::Word, "Version of the protocol: 1, 2c or 3.").zeek("version"),
        field("community", Kind::Text, "First community string.").zeek("community").privacy(Privacy::Secret),
        field("get_requests", Kind::Uint, "Number of variables in GetRequest and GetNextRequest.")
            .zeek("get_requests"),
        field("get_bulk_requests", Kind::Uint, "Number of variables in GetBulkRequest.")
            .zeek("get_bulk_requests"),
        field("get_responses", Kind::Uint, "Number of variables in responses.").zeek("get_responses"),
        field("set_requests", Kind::Uint, "Number of variables in SetRequest.").zeek("set_requests"),
        field("display_string", Kind::Text, "Description of the responder (sysDescr).")
            .zeek("display_string")
            .privacy(Privacy::Content),
        field("up_since", Kind::Time, "Start time of the responder (from sysUpTime).").zeek("up_since"),
    ],
};

static MESSAGE: Table = Table {
    name: "snmp_message",
    help: "An SNMP message.",
    zeek: "",
    eve: "snmp",
    fields: &[
        field("version", Kind::Uint, "Version of the protocol: 1, 2 or 3.").eve("snmp.version"),
        field("pdu_type", Kind::Word, "Type of the PDU; encrypted if it cannot be read.")
            .eve("snmp.pdu_type"),
        field("error", Kind::Word, "Error status of the response, by name (RFC 3416, 3)."),
        field("trap_type", Kind::Word, "Generic trap (version 1).").eve("snmp.trap_type"),
        field("trap_oid", Kind::Text, "Enterprise of the trap (version 1).").eve("snmp.trap_oid"),
        field("trap_address", Kind::Address, "Address of the agent that sent the trap (version 1).")
            .eve("snmp.trap_address"),
        field("vars", Kind::List(&Kind::Text), "Names of the variables.").eve("snmp.vars"),
        field("community", Kind::Text, "Community string (versions 1 and 2c).")
            .eve("snmp.community")
            .privacy(Privacy::Secret),
        field("usm", Kind::Text, "User name (version 3).").eve("snmp.usm").privacy(Privacy::User),
        field("request", Kind::Int, "Request identifier, equal in request and response."),
        field("engine", Kind::Text, "Authoritative engine (version 3), in hexadecimal digits.")
            .privacy(Privacy::Fingerprint),
        field("context", Kind::Text, "Context name (version 3).").privacy(Privacy::Name),
        field("authenticated", Kind::Bool, "Whether the message is authenticated (version 3)."),
        field("variables", Kind::Rows(VARIABLE), "Variables with their values."),
    ],
};

static VARIABLE: &[Field] = &[
    field("name", Kind::Text, "Name of the variable (object identifier)."),
    field("type", Kind::Word, "Type of the value."),
    field("number", Kind::Int, "Value, if it is a number."),
    field("address", Kind::Address, "Value, if it is an address."),
    field("text", Kind::Text, "Value, if it is neither a number nor an address.").privacy(Privacy::Content),
];

/// Maximum number of variables of one message. A datagram has room for some thousands of the shortest.
const MAX_VARIABLES: usize = 256;
/// sysDescr.0 and sysUpTime.0.
const DESCRIPTION: &str = "1.3.6.1.2.1.1.1.0";
const UPTIME: &str = "1.3.6.1.2.1.1.3.0";

/// Tags of SNMP's own types, beside those of BER.
mod tag {
    pub use crate::ber::tag::*;
    pub const ADDRESS: u8 = 0x40;
    pub const COUNTER: u8 = 0x41;
    pub const GAUGE: u8 = 0x42;
    pub const TICKS: u8 = 0x43;
    pub const OPAQUE: u8 = 0x44;
    pub const COUNTER64: u8 = 0x46;
}

/// Tags of PDUs.
mod pdu {
    pub const GET: u8 = 0xa0;
    pub const GET_NEXT: u8 = 0xa1;
    pub const RESPONSE: u8 = 0xa2;
    pub const SET: u8 = 0xa3;
    pub const TRAP: u8 = 0xa4;
    pub const GET_BULK: u8 = 0xa5;
}

fn probe(heads: &Heads<'_>) -> Probe {
    let is = |data: &[u8]| {
        let mut reader = Reader::new(data);
        let body = expect(&mut reader, tag::SEQUENCE)?;
        let mut body = Reader::new(body);
        let version = expect(&mut body, tag::INTEGER)?;
        match (version, value(&mut body)?) {
            ([0 | 1], (tag::BYTES, _)) => matches!(value(&mut body)?, (0xa0..=0xa8, _)).then_some(()),
            ([3], (tag::SEQUENCE, _)) => expect(&mut body, tag::BYTES).map(|_| ()),
            _ => None,
        }
    };
    // Malformed messages are parsed only on the protocol's ports.
    let home = heads.is_home(PROTOCOL.ports);
    match heads.both().any(|head| is(head).is_some()) {
        true => Probe::Match,
        false if home && heads.both().all(|head| head.first() == Some(&tag::SEQUENCE)) => Probe::Maybe,
        false => Probe::Reject,
    }
}

/// A message.
#[derive(Default)]
struct Message<'a> {
    /// 0, 1 or 3, as in the message.
    version: u8,
    community: Option<&'a [u8]>,
    user: Option<&'a [u8]>,
    engine: Option<&'a [u8]>,
    context: Option<&'a [u8]>,
    authenticated: Option<bool>,
    /// Tag of the PDU; none if it is encrypted.
    kind: Option<u8>,
    request: Option<i64>,
    error: i64,
    trap: Option<(String, Option<IpAddr>, i64)>,
    variables: Vec<Variable<'a>>,
    /// Number of all variables.
    count: u64,
}

struct Variable<'a> {
    name: String,
    tag: u8,
    value: &'a [u8],
}

impl<'a> Message<'a> {
    fn read(data: &'a [u8]) -> Option<Self> {
        let mut message = Self::default();
        let mut body = Reader::new(expect(&mut Reader::new(data), tag::SEQUENCE)?);
        message.version = *expect(&mut body, tag::INTEGER)?.first()?;
        match message.version {
            0 | 1 => {
                message.community = Some(expect(&mut body, tag::BYTES)?);
                message.say(&mut body)?;
            }
            3 => message.read_third(&mut body)?,
            _ => return None,
        }
        Some(message)
    }

    /// Reads a version 3 message (RFC 3412, 6): its header, its security parameters (RFC 3414, 2.4), and the message
    /// within.
    fn read_third(&mut self, body: &mut Reader<'a>) -> Option<()> {
        let mut about = Reader::new(expect(body, tag::SEQUENCE)?);
        expect(&mut about, tag::INTEGER)?;
        expect(&mut about, tag::INTEGER)?;
        let flags = *expect(&mut about, tag::BYTES)?.first()?;
        let model = integer(expect(&mut about, tag::INTEGER)?)?;
        self.authenticated = Some(flags & 1 != 0);
        let security = expect(body, tag::BYTES)?;
        if model == 3 {
            let mut security = Reader::new(expect(&mut Reader::new(security), tag::SEQUENCE)?);
            self.engine = Some(expect(&mut security, tag::BYTES)?);
            expect(&mut security, tag::INTEGER)?;
            expect(&mut security, tag::INTEGER)?;
            self.user = Some(expect(&mut security, tag::BYTES)?);
        }
        match value(body)? {
            (tag::SEQUENCE, scoped) => {
                let mut scoped = Reader::new(scoped);
                expect(&mut scoped, tag::BYTES)?;
                self.context = Some(expect(&mut scoped, tag::BYTES)?);
                self.say(&mut scoped)
            }
            (tag::BYTES, _) => Some(()),
            _ => None,
        }
    }

    /// Reads the PDU.
    fn say(&mut self, reader: &mut Reader<'a>) -> Option<()> {
        let (kind, said) = value(reader).filter(|(kind, _)| kind & 0xe0 == 0xa0)?;
        self.kind = Some(kind);
        let mut said = Reader::new(said);
        if kind == pdu::TRAP {
            let flow_ref = object(expect(&mut said, tag::OBJECT)?)?;
            let (_, address) = value(&mut said)?;
            let address = address.first_chunk::<4>().map(|bytes| Ipv4Addr::from(*bytes).into());
            self.trap = Some((flow_ref, address, integer(expect(&mut said, tag::INTEGER)?)?));
            expect(&mut said, tag::INTEGER)?;
            value(&mut said)?;
        } else {
            self.request = integer(expect(&mut said, tag::INTEGER)?);
            let error = integer(expect(&mut said, tag::INTEGER)?)?;
            expect(&mut said, tag::INTEGER)?;
            // In GetBulkRequest these two numbers have another meaning.
            self.error = if kind == pdu::GET_BULK { 0 } else { error };
        }
        let mut list = Reader::new(expect(&mut said, tag::SEQUENCE)?);
        while !list.rest().is_empty() {
            let mut variable = Reader::new(expect(&mut list, tag::SEQUENCE)?);
            let name = object(expect(&mut variable, tag::OBJECT)?)?;
            let (tag, value) = value(&mut variable)?;
            self.count += 1;
            if self.variables.len() < MAX_VARIABLES {
                self.variables.push(Variable { name, tag, value });
            }
        }
        Some(())
    }

    /// The version by its name: 1, 2 for 2c, or 3.
    fn named_version(&self) -> u8 {
        if self.version == 3 { 3 } else { self.version + 1 }
    }

    fn record(&self, time: Time) -> Record<'_> {
        let names = self.variables.iter().map(|variable| Value::from(&variable.name)).collect::<Vec<_>>();
        let rows = self.variables.iter().map(Variable::row).collect::<Vec<_>>();
        let (oid, address, kind) = match &self.trap {
            Some((oid, address, kind)) => (Some(oid.as_str()), *address, Some(trap(*kind))),
            None => (None, None, None),
        };
        record!(
            MESSAGE,
            time,
            version = self.named_version(),
            pdu_type = self.kind.map_or_else(|| "encrypted".to_owned(), said),
            error = (self.error != 0).then(|| error(self.error)),
            trap_type = kind,
            trap_oid = oid,
            trap_address = address,
            vars = Value::list(names),
            community = self.community,
            usm = self.user,
            request = self.request,
            engine = self.engine.filter(|engine| !engine.is_empty()).map(hex),
            context = self.context.filter(|context| !context.is_empty()),
            authenticated = self.authenticated,
            variables = Value::rows(rows),
        )
    }
}

impl Variable<'_> {
    fn row(&self) -> Vec<Value<'_>> {
        let (mut number, mut address, mut text) = (Value::None, Value::None, Value::None);
        let kind = match self.tag {
            tag::INTEGER => "integer",
            tag::BYTES => "bytes",
            tag::NULL => "null",
            tag::OBJECT => "object",
            tag::ADDRESS => "address",
            tag::COUNTER => "counter",
            tag::GAUGE => "gauge",
            tag::TICKS => "ticks",
            tag::OPAQUE => "opaque",
            tag::COUNTER64 => "counter64",
            0x80 => "no_such_object",
            0x81 => "no_such_instance",
            0x82 => "end_of_view",
            _ => "unknown",
        };
        match self.tag {
            tag::INTEGER => number = integer(self.value).into(),
            tag::COUNTER | tag::GAUGE | tag::TICKS | tag::COUNTER64 => number = unsigned(self.value).into(),
            tag::ADDRESS => address = self.value.first_chunk::<4>().map(|a| IpAddr::from(*a)).into(),
            tag::OBJECT => text = object(self.value).into(),
            tag::NULL | 0x80..=0x82 => {}
            _ => text = self.value.into(),
        }
        values!(VARIABLE, name = &self.name, type = kind, number = number, address = address, text = text)
    }
}

/// The kind of PDU, in Suricata's words.
fn said(kind: u8) -> String {
    match kind {
        pdu::GET => "get_request",
        pdu::GET_NEXT => "get_next_request",
        pdu::RESPONSE => "response",
        pdu::SET => "set_request",
        pdu::TRAP => "trap_v1",
        pdu::GET_BULK => "get_bulk_request",
        0xa6 => "inform_request",
        0xa7 => "trap_v2",
        0xa8 => "report",
        _ => return format!("Unknown(0x{:x})", kind & 0x1f),
    }
    .to_owned()
}

/// The generic trap, in the words of RFC 1157 as in Suricata.
fn trap(kind: i64) -> String {
    match kind {
        0 => "ColdStart",
        1 => "WarmStart",
        2 => "LinkDown",
        3 => "LinkUp",
        4 => "AuthenticationFailure",
        5 => "EgpNeighborLoss",
        6 => "EnterpriseSpecific",
        _ => return format!("TrapType({kind})"),
    }
    .to_owned()
}

/// The error status, in the words of RFC 3416 as in Suricata.
fn error(number: i64) -> String {
    const ERRORS: [&str; 19] = [
        "NoError",
        "TooBig",
        "NoSuchName",
        "BadValue",
        "ReadOnly",
        "GenErr",
        "NoAccess",
        "WrongType",
        "WrongLength",
        "WrongEncoding",
        "WrongValue",
        "NoCreation",
        "InconsistentValue",
        "ResourceUnavailable",
        "CommitFailed",
        "UndoFailed",
        "AuthorizationError",
        "NotWritable",
        "InconsistentName",
    ];
    let known = usize::try_from(number).ok().and_then(|number| ERRORS.get(number));
    known.map_or_else(|| format!("ErrorStatus({number})"), |known| (*known).to_owned())
}

/// The counts of the flow so far.
#[derive(Default)]
struct Snmp {
    /// Number of messages of both sides.
    messages: u64,
    first: Option<Time>,
    last: Time,
    version: u8,
    community: Option<Vec<u8>>,
    get: u64,
    bulk: u64,
    responses: u64,
    set: u64,
    description: Option<Vec<u8>>,
    up_since: Option<Time>,
}

impl Snmp {
    fn add(&mut self, message: &Message<'_>, time: Time) {
        if self.first.is_none() {
            (self.first, self.version) = (Some(time), message.version);
        }
        self.last = time;
        if self.community.is_none() {
            self.community = message.community.map(<[u8]>::to_vec);
        }
        match message.kind {
            Some(pdu::GET | pdu::GET_NEXT) => self.get += message.count,
            Some(pdu::GET_BULK) => self.bulk += message.count,
            Some(pdu::SET) => self.set += message.count,
            Some(pdu::RESPONSE) => {
                self.responses += message.count;
                for variable in &message.variables {
                    match (variable.name.as_str(), variable.tag) {
                        (DESCRIPTION, tag::BYTES) => self.description = Some(variable.value.to_vec()),
                        (UPTIME, tag::TICKS | tag::COUNTER | tag::GAUGE) => {
                            let ticks = unsigned(variable.value).unwrap_or_default();
                            self.up_since =
                                Some(Time(time.0.saturating_sub(ticks.saturating_mul(10_000_000))));
                        }
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
}

impl Parser for Snmp {
    fn chunk(&mut self, chunk: &Chunk<'_>, out: &mut dyn Out) -> Step {
        if chunk.data.is_empty() {
            return Step::Next;
        }
        let (time, direction) = (chunk.time, chunk.direction);
        let Some(message) = Message::read(chunk.data) else {
            PROTOCOL.emit_anomaly("malformed_data", direction, chunk.data, time, out);
            return Step::Next;
        };
        if message.count > MAX_VARIABLES as u64 {
            PROTOCOL.emit_anomaly("too_many_variables", direction, &[], time, out);
        }
        begin_transaction(direction, self.messages, out);
        self.messages += 1;
        for (buffer, text) in [(&COMMUNITY, message.community), (&USM, message.user)] {
            // An empty text is left out, as in Suricata: the user of a message that asks for the engine.
            if let Some(text) = text.filter(|text| !text.is_empty()) {
                out.emit(buffer, direction, text);
            }
        }
        if let Some((oid, address, kind)) = &message.trap {
            out.emit(&TRAP_OID, direction, oid.as_bytes());
            if let Ok(kind) = u32::try_from(*kind) {
                out.emit_number(&TRAP_TYPE, direction, kind.into());
            }
            if let Some(address) = address.filter(|_| out.asked().has(&TRAP_ADDRESS)) {
                out.buffer(&TRAP_ADDRESS, direction, address.to_string().as_bytes());
            }
        }
        out.emit_number(&VERSION, direction, message.named_version().into());
        if let Some(kind) = message.kind {
            out.emit_number(&PDU_TYPE, direction, (kind & 0x1f).into());
        }
        out.side_is_complete(direction);
        if out.takes(&MESSAGE) {
            out.record(message.record(time));
        }
        self.add(&message, time);
        Step::Next
    }

    fn end(&mut self, _: Time, out: &mut dyn Out) {
        let Some(first) = self.first.take() else { return };
        let version = match self.version {
            0 => "1",
            1 => "2c",
            _ => "3",
        };
        out.record(record!(
            SNMP,
            first,
            duration = Value::Duration(self.last.since(first)),
            version = version,
            community = self.community.take(),
            get_requests = self.get,
            get_bulk_requests = self.bulk,
            get_responses = self.responses,
            set_requests = self.set,
            display_string = self.description.take(),
            up_since = self.up_since,
        ));
    }

    fn memory(&self) -> usize {
        let texts = [&self.community, &self.description].into_iter().flatten();
        texts.map(Vec::capacity).sum()
    }
}

#[cfg(test)]
mod tests {
    use crate::laws::talks;

    #[test]
    fn communities_and_users_are_buffers() {
        let of = |case: &str, name: &str| -> Vec<String> {
            let (_, talk) = talks("snmp", 161).into_iter().find(|(path, _)| path.ends_with(case)).unwrap();
            let emitted = talk.asked(|data| vec![data.to_vec()]);
            let found = emitted.buffers.into_iter().filter(|(buffer, ..)| buffer.name == name);
            found.map(|(_, _, bytes)| String::from_utf8(bytes).unwrap()).collect()
        };
        assert_eq!(of("session.talk", "snmp.community")[..2], ["public", "public"]);
        assert!(of("session.talk", "snmp.usm").is_empty());
        assert_eq!(of("third.talk", "snmp.usm"), ["alice"]);
        // A message that is malformed has none.
        assert_eq!(of("third.talk", "snmp.community"), ["x"]);
    }
}
