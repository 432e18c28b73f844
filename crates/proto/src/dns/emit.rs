//! Messages and transactions as records.

use super::present::{self, Reply};
use super::wire::{Data, Header, MAX_RECORDS, Message, Name, Rr, Section, UPDATE, kind, options, strings};
use super::{Flavour, Waiting, words};
use crate::Out;
use crate::early::early;
use crate::{Field, Kind, Privacy, Record, Span, Table, Value, field, record, values};
use weir_wire::{Reader, Time};

/// A query with its response. In multicast DNS each message is a row, since a response answers no single query.
pub static DNS: Table = Table {
    name: "dns",
    help: "A query with its response, or either alone if the other was not captured.",
    zeek: "dns",
    eve: "",
    fields: &[
        field("proto", Kind::Word, "Transport protocol: udp or tcp.").zeek("proto"),
        field("id", Kind::Uint, "Identifier of the message, equal in query and response.").zeek("trans_id"),
        field("rtt", Kind::Duration, "Time from the query to its response, in seconds.").zeek("rtt"),
        field("query", Kind::Text, "Queried name (QNAME), in lower case.")
            .zeek("query")
            .privacy(Privacy::Name),
        field("class", Kind::Uint, "Queried class (QCLASS).").zeek("qclass"),
        field("class_name", Kind::Word, "Name of the queried class.").zeek("qclass_name"),
        field("type", Kind::Uint, "Queried type (QTYPE).").zeek("qtype"),
        field("type_name", Kind::Word, "Name of the queried type.").zeek("qtype_name"),
        field("rcode", Kind::Uint, "Response code (RCODE).").zeek("rcode"),
        field("rcode_name", Kind::Word, "Name of the response code.").zeek("rcode_name"),
        field(
            "authoritative",
            Kind::Bool,
            "Whether the server is authoritative for the name (AA of the response).",
        )
        .zeek("AA"),
        field("truncated", Kind::Bool, "Whether the query was truncated (TC of the query).").zeek("TC"),
        field("recursion_desired", Kind::Bool, "Whether the client requests recursion (RD).").zeek("RD"),
        field("recursion_available", Kind::Bool, "Whether the server offers recursion (RA).").zeek("RA"),
        field("z", Kind::Uint, "Three reserved bits of the query (Z); two of them are AD and CD today.")
            .zeek("Z"),
        field("answers", Kind::List(&Kind::Text), "Data of the answer records as text.")
            .zeek("answers")
            .privacy(Privacy::Name),
        field("ttls", Kind::List(&Kind::Duration), "Time to live of each answer record, in seconds.")
            .zeek("TTLs"),
        field("rejected", Kind::Bool, "Whether the response has no records at all.").zeek("rejected"),
        field("opcode", Kind::Uint, "Operation (OPCODE).").zeek("opcode"),
        field("opcode_name", Kind::Word, "Name of the operation.").zeek("opcode_name"),
        field("records", Kind::Rows(RECORD), "Answer records with names, addresses and times to live."),
    ],
};

static RECORD: &[Field] = &[
    field("name", Kind::Text, "Owner name of the record.").privacy(Privacy::Name),
    field("type", Kind::Word, "Type of the record."),
    field("ttl", Kind::Duration, "Time to live of the record, in seconds."),
    field("address", Kind::Address, "Address in the record (A, AAAA)."),
    field("target", Kind::Text, "Name in the record (CNAME, MX, NS, PTR, SRV).").privacy(Privacy::Name),
    field("data", Kind::Text, "Other data of the record.").privacy(Privacy::Content),
];

static SOA: &[Field] = &[
    field("mname", Kind::Text, "Primary name server of the zone (MNAME of SOA).")
        .eve("mname")
        .privacy(Privacy::Name),
    field("rname", Kind::Text, "Mail address of the person responsible for the zone (RNAME of SOA).")
        .eve("rname")
        .privacy(Privacy::Name),
    field("serial", Kind::Uint, "Serial number of the zone (SERIAL of SOA).").eve("serial"),
    field("refresh", Kind::Uint, "Seconds between refreshes of the zone (REFRESH of SOA).").eve("refresh"),
    field("retry", Kind::Uint, "Seconds until a failed refresh is repeated (RETRY of SOA).").eve("retry"),
    field("expire", Kind::Uint, "Seconds until the zone expires without a refresh (EXPIRE of SOA).")
        .eve("expire"),
    field("minimum", Kind::Uint, "Seconds for which a negative answer may be cached (MINIMUM of SOA).")
        .eve("minimum"),
];

static SRV: &[Field] = &[
    field(
        "priority",
        Kind::Uint,
        "Priority of the server; clients try lower values first (PRIORITY of SRV).",
    )
    .eve("priority"),
    field(
        "weight",
        Kind::Uint,
        "Relative share of the server among servers of equal priority (WEIGHT of SRV).",
    )
    .eve("weight"),
    field("port", Kind::Port, "Port of the service (PORT of SRV).").eve("port"),
    field("name", Kind::Text, "Host that provides the service (TARGET of SRV).")
        .eve("name")
        .privacy(Privacy::Name),
];

static SSHFP: &[Field] = &[
    field("fingerprint", Kind::Text, "Fingerprint of the key (SSHFP).")
        .eve("fingerprint")
        .privacy(Privacy::Fingerprint),
    field("algorithm", Kind::Uint, "Number of the algorithm of the key (SSHFP, RFC 4255, 3.1.1).")
        .eve("algo"),
    field("type", Kind::Uint, "Number of the algorithm of the fingerprint (SSHFP, RFC 4255, 3.1.2).")
        .eve("type"),
];

static OPT: &[Field] = &[
    field("code", Kind::Uint, "Code of the option (RFC 6891, 6.1.2).").eve("code"),
    field("data", Kind::Text, "Data of the option in hexadecimal digits.")
        .eve("data")
        .privacy(Privacy::Content),
];

/// A record in a message. Exactly one of the fields marked `rdata` has a value.
static DETAIL: &[Field] = &[
    field("name", Kind::Text, "Owner name of the record.").eve("rrname").privacy(Privacy::Name),
    field(
        "name_truncated",
        Kind::Bool,
        "Whether the owner name was longer than the limit and was truncated.",
    ),
    field("type", Kind::Word, "Type of the record.").eve("rrtype"),
    field("ttl", Kind::Uint, "Time to live of the record, in seconds.").eve("ttl"),
    field("address", Kind::Address, "Address in the record (A, AAAA).").eve("rdata"),
    field("target", Kind::Text, "Name in the record (CNAME, MX, NS, PTR).")
        .eve("rdata")
        .privacy(Privacy::Name),
    field(
        "target_truncated",
        Kind::Bool,
        "Whether the name in the record was longer than the limit and was truncated.",
    ),
    field("text", Kind::Text, "Text in the record (TXT).").eve("rdata").privacy(Privacy::Content),
    field("soa_mname", Kind::Text, "Primary name server of the zone (MNAME of SOA).")
        .eve("soa.mname")
        .privacy(Privacy::Name),
    field("soa_rname", Kind::Text, "Mail address of the person responsible for the zone (RNAME of SOA).")
        .eve("soa.rname")
        .privacy(Privacy::Name),
    field("soa_serial", Kind::Uint, "Serial number of the zone (SERIAL of SOA).").eve("soa.serial"),
    field("soa_refresh", Kind::Uint, "Seconds between refreshes of the zone (REFRESH of SOA).")
        .eve("soa.refresh"),
    field("soa_retry", Kind::Uint, "Seconds until a failed refresh is repeated (RETRY of SOA).")
        .eve("soa.retry"),
    field("soa_expire", Kind::Uint, "Seconds until the zone expires without a refresh (EXPIRE of SOA).")
        .eve("soa.expire"),
    field("soa_minimum", Kind::Uint, "Seconds for which a negative answer may be cached (MINIMUM of SOA).")
        .eve("soa.minimum"),
    field(
        "srv_priority",
        Kind::Uint,
        "Priority of the server; clients try lower values first (PRIORITY of SRV).",
    )
    .eve("srv.priority"),
    field(
        "srv_weight",
        Kind::Uint,
        "Relative share of the server among servers of equal priority (WEIGHT of SRV).",
    )
    .eve("srv.weight"),
    field("srv_port", Kind::Port, "Port of the service (PORT of SRV).").eve("srv.port"),
    field("srv_name", Kind::Text, "Host that provides the service (TARGET of SRV).")
        .eve("srv.name")
        .privacy(Privacy::Name),
    field("sshfp_fingerprint", Kind::Text, "Fingerprint of the key (SSHFP).")
        .eve("sshfp.fingerprint")
        .privacy(Privacy::Fingerprint),
    field("sshfp_algorithm", Kind::Uint, "Number of the algorithm of the key (SSHFP, RFC 4255, 3.1.1).")
        .eve("sshfp.algo"),
    field("sshfp_type", Kind::Uint, "Number of the algorithm of the fingerprint (SSHFP, RFC 4255, 3.1.2).")
        .eve("sshfp.type"),
    field("options", Kind::Rows(OPT), "Options of EDNS (RFC 6891).").eve("opt"),
    field("data", Kind::Text, "Other data of the record.").privacy(Privacy::Content),
];

/// The fields of the records of one section, of which Suricata's events have fewer than of others: those whose path begins
/// with a word of `lacks` have none.
const fn section<const N: usize>(fields: &[Field], lacks: &[&str]) -> [Field; N] {
    let mut section = [const { field("", Kind::Bool, "") }; N];
    let (mut to, mut from) = (section.as_mut_slice(), fields);
    while let ([place, places @ ..], [one, others @ ..]) = (to, from) {
        let Field { name, kind, help, zeek, mut eve, privacy, of_body } = *one;
        let mut words = lacks;
        while let [word, rest @ ..] = words {
            if begins(eve.as_bytes(), word.as_bytes()) {
                eve = "";
            }
            words = rest;
        }
        *place = Field { name, kind, help, zeek, eve, privacy, of_body };
        (to, from) = (places, others);
    }
    section
}

const fn begins(mut text: &[u8], mut word: &[u8]) -> bool {
    while let [first, rest @ ..] = word {
        match text {
            [same, behind @ ..] if *same == *first => text = behind,
            _ => return false,
        }
        word = rest;
    }
    true
}

static ANSWER: &[Field] = &section::<{ DETAIL.len() }>(DETAIL, &["opt"]);
static AUTHORITY: &[Field] = &section::<{ DETAIL.len() }>(DETAIL, &["srv.", "sshfp.", "opt"]);
static ADDITIONAL: &[Field] = &section::<{ DETAIL.len() }>(DETAIL, &["soa.", "srv.", "sshfp."]);
static SIMPLE_AUTHORITY: &[Field] = &section::<{ SIMPLE.len() }>(SIMPLE, &["ptr", "txt"]);

/// A record in a multicast DNS message; the field names the type. Suricata's events have names and texts only.
static SIMPLE: &[Field] = &[
    field("name", Kind::Text, "Owner name of the record.").eve("rrname").privacy(Privacy::Name),
    field(
        "name_truncated",
        Kind::Bool,
        "Whether the owner name was longer than the limit and was truncated.",
    )
    .eve("rrname_truncated"),
    field("type", Kind::Word, "Type of the record."),
    field("ttl", Kind::Uint, "Time to live of the record, in seconds."),
    field("flush", Kind::Bool, "Whether the record replaces cached ones (cache-flush bit, RFC 6762)."),
    field("a", Kind::Address, "Address in an A record."),
    field("aaaa", Kind::Address, "Address in an AAAA record."),
    field("cname", Kind::Text, "Name in a CNAME record.").privacy(Privacy::Name),
    field("mx", Kind::Text, "Name in an MX record.").privacy(Privacy::Name),
    field("ns", Kind::Text, "Name in an NS record.").privacy(Privacy::Name),
    field("ptr", Kind::Text, "Name in a PTR record.").eve("ptr").privacy(Privacy::Name),
    field(
        "target_truncated",
        Kind::Bool,
        "Whether the name in the record was longer than the limit and was truncated.",
    ),
    field("txt", Kind::List(&Kind::Text), "Texts in a TXT record.").eve("txt").privacy(Privacy::Content),
    field("soa_mname", Kind::Text, "Primary name server of the zone (MNAME of SOA).").privacy(Privacy::Name),
    field("soa_rname", Kind::Text, "Mail address of the person responsible for the zone (RNAME of SOA).")
        .privacy(Privacy::Name),
    field("soa_serial", Kind::Uint, "Serial number of the zone (SERIAL of SOA)."),
    field("soa_refresh", Kind::Uint, "Seconds between refreshes of the zone (REFRESH of SOA)."),
    field("soa_retry", Kind::Uint, "Seconds until a failed refresh is repeated (RETRY of SOA)."),
    field("soa_expire", Kind::Uint, "Seconds until the zone expires without a refresh (EXPIRE of SOA)."),
    field("soa_minimum", Kind::Uint, "Seconds for which a negative answer may be cached (MINIMUM of SOA)."),
    field(
        "srv_priority",
        Kind::Uint,
        "Priority of the server; clients try lower values first (PRIORITY of SRV).",
    ),
    field(
        "srv_weight",
        Kind::Uint,
        "Relative share of the server among servers of equal priority (WEIGHT of SRV).",
    ),
    field("srv_port", Kind::Port, "Port of the service (PORT of SRV)."),
    field("srv_name", Kind::Text, "Host that provides the service (TARGET of SRV).").privacy(Privacy::Name),
    field("options", Kind::Rows(OPT), "Options of EDNS (RFC 6891)."),
    field("hinfo", Kind::Text, "Data of a HINFO record.").privacy(Privacy::Content),
    field("nsec", Kind::Text, "Data of an NSEC record.").privacy(Privacy::Content),
    field("data", Kind::Text, "Other data of the record.").privacy(Privacy::Content),
];

static QUERY: &[Field] = &[
    field("name", Kind::Text, "Queried name (QNAME).").eve("rrname").privacy(Privacy::Name),
    field("type", Kind::Word, "Queried type (QTYPE).").eve("rrtype"),
    field(
        "name_truncated",
        Kind::Bool,
        "Whether the queried name was longer than the limit and was truncated.",
    )
    .eve("rrname_truncated"),
];

/// A message with Suricata's names of its parts under `$eve`; in link-local name resolution two bits have another
/// meaning.
macro_rules! message_table {
    ($table:ident, $name:literal, $help:literal, $eve:literal, $aa:literal, $rd:literal) => {
        pub(super) static $table: Table = Table {
            name: $name,
            help: $help,
            zeek: "",
            eve: $eve,
            fields: &[
                field("version", Kind::Uint, "Version of the event's format.").eve(concat!($eve, ".version")),
                field("type", Kind::Word, "Kind of message: request or response (QR).").eve(concat!($eve, ".type")),
                field("tx", Kind::Uint, "Number of the transaction in the flow, from 0.")
                    .eve(concat!($eve, ".tx_id")),
                field("id", Kind::Uint, "Identifier of the message, equal in query and response.")
                    .eve(concat!($eve, ".id")),
                field("flags", Kind::Text, "All flags of the header in hexadecimal digits.").eve(concat!($eve, ".flags")),
                field("response", Kind::Bool, "Whether the message is a response (QR).").eve(concat!($eve, ".qr")),
                field(
                    "authoritative",
                    Kind::Bool,
                    "Whether the server is authoritative (AA); in LLMNR, whether the name conflicts (C).",
                )
                .eve(concat!($eve, ".", $aa)),
                field("truncated", Kind::Bool, "Whether the message was truncated (TC).").eve(concat!($eve, ".tc")),
                field("recursion_desired", Kind::Bool, "Whether the client requests recursion (RD); in LLMNR, whether the response is tentative (T).")
                    .eve(concat!($eve, ".", $rd)),
                field("recursion_available", Kind::Bool, "Whether the server offers recursion (RA).")
                    .eve(concat!($eve, ".ra")),
                field("z", Kind::Bool, "Reserved bit of the header (Z).").eve(concat!($eve, ".z")),
                field("opcode", Kind::Uint, "Operation (OPCODE).").eve(concat!($eve, ".opcode")),
                field("rcode", Kind::Word, "Response code (RCODE).").eve(concat!($eve, ".rcode")),
                field("queries", Kind::Rows(QUERY), "Questions of the message.").eve(concat!($eve, ".queries")),
                field("answers", Kind::Rows(ANSWER), "Records of the answer section.").eve(concat!($eve, ".answers")),
                field("grouped_a", Kind::List(&Kind::Address), "Addresses of the A answers.")
                    .eve(concat!($eve, ".grouped.A")),
                field("grouped_aaaa", Kind::List(&Kind::Address), "Addresses of the AAAA answers.")
                    .eve(concat!($eve, ".grouped.AAAA")),
                field("grouped_cname", Kind::List(&Kind::Text), "Names of the CNAME answers.")
                    .eve(concat!($eve, ".grouped.CNAME"))
                    .privacy(Privacy::Name),
                field("grouped_mx", Kind::List(&Kind::Text), "Names of the MX answers.")
                    .eve(concat!($eve, ".grouped.MX"))
                    .privacy(Privacy::Name),
                field("grouped_ns", Kind::List(&Kind::Text), "Names of the NS answers.")
                    .eve(concat!($eve, ".grouped.NS"))
                    .privacy(Privacy::Name),
                field("grouped_ptr", Kind::List(&Kind::Text), "Names of the PTR answers.")
                    .eve(concat!($eve, ".grouped.PTR"))
                    .privacy(Privacy::Name),
                field("grouped_txt", Kind::List(&Kind::Text), "Texts of the TXT answers.")
                    .eve(concat!($eve, ".grouped.TXT"))
                    .privacy(Privacy::Content),
                field("grouped_null", Kind::List(&Kind::Text), "Data of the NULL answers.")
                    .eve(concat!($eve, ".grouped.NULL"))
                    .privacy(Privacy::Content),
                field("grouped_soa", Kind::Rows(SOA), "Data of the SOA answers.").eve(concat!($eve, ".grouped.SOA")),
                field("grouped_srv", Kind::Rows(SRV), "Data of the SRV answers.").eve(concat!($eve, ".grouped.SRV")),
                field("grouped_sshfp", Kind::Rows(SSHFP), "Data of the SSHFP answers.")
                    .eve(concat!($eve, ".grouped.SSHFP")),
                field("authorities", Kind::Rows(AUTHORITY), "Records of the authority section.")
                    .eve(concat!($eve, ".authorities")),
                field("additionals", Kind::Rows(ADDITIONAL), "Records of the additional section; OPT only if it has options.")
                    .eve(concat!($eve, ".additionals")),
                field("edns_size", Kind::Uint, "Maximum UDP payload of the sender in bytes (EDNS)."),
                field("dnssec_ok", Kind::Bool, "Whether the sender requests DNSSEC records (DO bit of EDNS)."),
            ],
        };
    };
}

message_table!(MESSAGE, "dns_message", "A DNS message.", "dns", "aa", "rd");
message_table!(
    LLMNR,
    "llmnr_message",
    "A message of link-local multicast name resolution.",
    "llmnr",
    "c",
    "t"
);

/// A multicast message.
pub(super) static MDNS: Table = Table {
    name: "mdns_message",
    help: "A multicast DNS message.",
    zeek: "",
    eve: "mdns",
    fields: &[
        field("type", Kind::Word, "Kind of message: request or response (QR).").eve("mdns.type"),
        field("id", Kind::Uint, "Identifier of the message; 0 in multicast messages.").eve("mdns.id"),
        field("flags", Kind::List(&Kind::Word), "Flags that are set in the header.").eve("mdns.flags"),
        field("opcode", Kind::Uint, "Operation (OPCODE).").eve("mdns.opcode"),
        field("rcode", Kind::Uint, "Response code (RCODE).").eve("mdns.rcode"),
        field("queries", Kind::Rows(QUERY), "Questions of the message.").eve("mdns.queries"),
        field("answers", Kind::Rows(SIMPLE), "Records of the answer section.").eve("mdns.answers"),
        field(
            "authorities",
            Kind::Rows(SIMPLE_AUTHORITY),
            "Records of the authority section, which a host is about to claim.",
        )
        .eve("mdns.authorities"),
        field(
            "additionals",
            Kind::Rows(SIMPLE),
            "Records of the additional section; OPT only if it has options.",
        )
        .eve("mdns.additionals"),
    ],
};

/// The data of a SOA record.
#[derive(Default)]
struct Soa<'a> {
    mname: Value<'a>,
    rname: Value<'a>,
    serial: Value<'a>,
    refresh: Value<'a>,
    retry: Value<'a>,
    expire: Value<'a>,
    minimum: Value<'a>,
}

impl<'a> Soa<'a> {
    fn row(self) -> Vec<Value<'a>> {
        values!(
            SOA,
            mname = self.mname,
            rname = self.rname,
            serial = self.serial,
            refresh = self.refresh,
            retry = self.retry,
            expire = self.expire,
            minimum = self.minimum
        )
    }
}

/// The data of an SRV record.
#[derive(Default)]
struct Srv<'a> {
    priority: Value<'a>,
    weight: Value<'a>,
    port: Value<'a>,
    name: Value<'a>,
}

impl<'a> Srv<'a> {
    fn row(self) -> Vec<Value<'a>> {
        values!(SRV, priority = self.priority, weight = self.weight, port = self.port, name = self.name)
    }
}

/// The data of an SSHFP record.
#[derive(Default)]
struct Sshfp {
    fingerprint: Value<'static>,
    algorithm: Value<'static>,
    kind: Value<'static>,
}

impl Sshfp {
    fn row(self) -> Vec<Value<'static>> {
        values!(SSHFP, fingerprint = self.fingerprint, algorithm = self.algorithm, type = self.kind)
    }
}

/// A parsed message.
pub(super) struct ParsedMessage<'a> {
    pub message: &'a Message,
    pub data: &'a [u8],
    pub flavour: Flavour,
}

/// A value that a row has only if it is true.
fn set(is: bool) -> Value<'static> {
    if is { Value::Bool(true) } else { Value::None }
}

impl<'a> ParsedMessage<'a> {
    fn text(&self, name: Name) -> Value<'a> {
        self.message.text(name).into()
    }

    fn section(&self, section: Section) -> impl Iterator<Item = &'a Rr> {
        let is_empty = move |rr: &Rr| section == Section::Additional && rr.kind == kind::OPT;
        let data = self.data;
        let all = self.message.records.iter().filter(move |rr| rr.section == section);
        all.filter(move |rr| !(is_empty(rr) && rr.bytes(data).is_empty()))
    }

    /// The message as a record.
    pub fn message(&self, time: Time, tx: u64) -> Record<'a> {
        if self.flavour == Flavour::Multicast {
            return self.multicast(time);
        }
        let header = &self.message.header;
        let is_response = header.is_response();
        let edns = self.message.records.iter().find(|rr| rr.kind == kind::OPT);
        let of = |kind: u16| self.section(Section::Answer).filter(move |rr| rr.kind == kind);
        let addresses = |kind| Value::list(of(kind).filter_map(Rr::address).map(Value::from));
        let names = |kind| Value::list(of(kind).filter_map(Rr::target).map(|name| self.text(name)));
        let record = record!(
            MESSAGE,
            time,
            version = 3_u8,
            type = if is_response { "response" } else { "request" },
            tx = if is_response { Value::None } else { tx.into() },
            id = header.id,
            flags = format!("{:x}", header.flags),
            response = set(is_response),
            authoritative = set(header.has(Header::AA)),
            truncated = set(header.has(Header::TC)),
            recursion_desired = set(header.has(Header::RD)),
            recursion_available = set(header.has(Header::RA)),
            z = set(header.has(Header::Z)),
            opcode = header.opcode(),
            rcode = Value::Text(cow(words::eve_rcode(header.rcode()))),
            queries = self.queries(false),
            answers = self.details(Section::Answer),
            grouped_a = addresses(kind::A),
            grouped_aaaa = addresses(kind::AAAA),
            grouped_cname = names(kind::CNAME),
            grouped_mx = names(kind::MX),
            grouped_ns = names(kind::NS),
            grouped_ptr = names(kind::PTR),
            grouped_txt = Value::list(of(kind::TXT).flat_map(|rr| strings(rr.bytes(self.data)))),
            grouped_null = Value::list(of(kind::NULL).map(|rr| rr.bytes(self.data))),
            grouped_soa = Value::rows(of(kind::SOA).map(|rr| self.soa(rr).row())),
            grouped_srv = Value::rows(of(kind::SRV).map(|rr| self.srv(rr).row())),
            grouped_sshfp = Value::rows(of(kind::SSHFP).map(|rr| self.sshfp(rr).row())),
            authorities = self.details(Section::Authority),
            additionals = self.details(Section::Additional),
            edns_size = edns.map(|rr| rr.class),
            dnssec_ok = edns.map(|rr| rr.ttl & 0x8000 != 0),
        );
        // Both tables have the same fields.
        Record { table: self.flavour.messages().unwrap_or(&MESSAGE), ..record }
    }

    fn queries(&self, is_lower: bool) -> Value<'a> {
        let row = |question: &super::wire::Question| {
            // In multicast the highest bit of a class requests the kind of answer.
            let mut name = words::eve_type(question.kind);
            if is_lower {
                name = name.to_ascii_lowercase().into();
            }
            values!(
                QUERY,
                name = self.text(question.name),
                type = Value::Text(cow(name)),
                name_truncated = set(question.name.is_cut)
            )
        };
        Value::rows(self.message.questions.iter().map(row))
    }

    fn details(&self, section: Section) -> Value<'a> {
        let mut all = Vec::new();
        for rr in self.section(section) {
            if matches!(rr.kind, kind::TXT) {
                let texts = strings(rr.bytes(self.data)).take(MAX_RECORDS - all.len().min(MAX_RECORDS));
                all.extend(texts.map(|text| self.detail(rr, text.into())));
            } else {
                let text = if rr.kind == kind::NULL { rr.bytes(self.data).into() } else { Value::None };
                all.push(self.detail(rr, text));
            }
        }
        Value::rows(all)
    }

    fn detail(&self, rr: &Rr, text: Value<'a>) -> Vec<Value<'a>> {
        let is_name = matches!(rr.kind, kind::CNAME | kind::MX | kind::NS | kind::PTR);
        let target = rr.target().filter(|_| is_name);
        let (soa, srv, sshfp) = (self.soa(rr), self.srv(rr), self.sshfp(rr));
        values!(
            DETAIL,
            name = self.text(rr.name),
            name_truncated = set(rr.name.is_cut),
            type = Value::Text(cow(words::eve_type(rr.kind))),
            ttl = rr.ttl,
            address = rr.address(),
            target = target.map_or(Value::None, |name| self.text(name)),
            target_truncated = set(target.is_some_and(|name| name.is_cut)),
            text = text,
            soa_mname = soa.mname,
            soa_rname = soa.rname,
            soa_serial = soa.serial,
            soa_refresh = soa.refresh,
            soa_retry = soa.retry,
            soa_expire = soa.expire,
            soa_minimum = soa.minimum,
            srv_priority = srv.priority,
            srv_weight = srv.weight,
            srv_port = srv.port,
            srv_name = srv.name,
            sshfp_fingerprint = sshfp.fingerprint,
            sshfp_algorithm = sshfp.algorithm,
            sshfp_type = sshfp.kind,
            options = self.options(rr),
            data = present::data(rr, self.message, self.data),
        )
    }

    fn soa(&self, rr: &Rr) -> Soa<'a> {
        let (kind::SOA, Data::Names(mname, rname)) = (rr.kind, rr.data) else { return Soa::default() };
        let mut reader = Reader::new(rr.rest(self.data));
        let mut number = || reader.u32().into();
        Soa {
            mname: self.text(mname),
            rname: self.text(rname),
            serial: number(),
            refresh: number(),
            retry: number(),
            expire: number(),
            minimum: number(),
        }
    }

    fn srv(&self, rr: &Rr) -> Srv<'a> {
        let (kind::SRV, Data::Name(name)) = (rr.kind, rr.data) else { return Srv::default() };
        let mut reader = Reader::new(rr.bytes(self.data));
        let mut number = || reader.u16().into();
        Srv { priority: number(), weight: number(), port: number(), name: self.text(name) }
    }

    fn sshfp(&self, rr: &Rr) -> Sshfp {
        match rr.bytes(self.data) {
            [algorithm, kind, print @ ..] if rr.kind == kind::SSHFP => Sshfp {
                fingerprint: present::hex(print, ":").into(),
                algorithm: (*algorithm).into(),
                kind: (*kind).into(),
            },
            _ => Sshfp::default(),
        }
    }

    fn options(&self, rr: &Rr) -> Value<'a> {
        // The record belongs into the additional section (RFC 6891 6.1.1).
        if rr.kind != kind::OPT || rr.section != Section::Additional {
            return Value::None;
        }
        let row = |(code, data): (u16, &[u8])| values!(OPT, code = code, data = present::hex(data, ""));
        Value::rows(options(rr.bytes(self.data)).map(row))
    }

    fn multicast(&self, time: Time) -> Record<'a> {
        let header = &self.message.header;
        let flags = [
            (Header::AA, "aa"),
            (Header::TC, "tc"),
            (Header::RD, "rd"),
            (Header::RA, "ra"),
            (Header::Z, "z"),
            (0x20, "ad"),
            (0x10, "cd"),
        ];
        let flags = flags.into_iter().filter(|(bit, _)| header.has(*bit)).map(|(_, name)| name);
        let of = |section| Value::rows(self.section(section).map(|rr| self.simple(rr)));
        record!(
            MDNS,
            time,
            type = if header.is_response() { "response" } else { "request" },
            id = header.id,
            flags = Value::list(flags),
            opcode = header.opcode(),
            rcode = header.rcode(),
            queries = self.queries(true),
            answers = of(Section::Answer),
            authorities = of(Section::Authority),
            additionals = of(Section::Additional),
        )
    }

    fn simple(&self, rr: &Rr) -> Vec<Value<'a>> {
        let bytes = rr.bytes(self.data);
        let name_of = |kind: u16| {
            let name = rr.target().filter(|_| rr.kind == kind);
            name.map_or(Value::None, |name| self.text(name))
        };
        let address_of = |kind: u16| Value::from(rr.address().filter(|_| rr.kind == kind));
        let bytes_of = |kind: u16| if rr.kind == kind { bytes.into() } else { Value::None };
        let is_cut = rr.kind != kind::SRV && rr.target().is_some_and(|name| name.is_cut);
        let (soa, srv) = (self.soa(rr), self.srv(rr));
        values!(
            SIMPLE,
            name = self.text(rr.name),
            name_truncated = set(rr.name.is_cut),
            type = Value::Text(cow(words::eve_type(rr.kind))),
            ttl = rr.ttl,
            flush = set(rr.class & 0x8000 != 0 && rr.kind != kind::OPT),
            a = address_of(kind::A),
            aaaa = address_of(kind::AAAA),
            cname = name_of(kind::CNAME),
            mx = name_of(kind::MX),
            ns = name_of(kind::NS),
            ptr = name_of(kind::PTR),
            target_truncated = set(is_cut),
            txt = if rr.kind == kind::TXT { strings(bytes).collect() } else { Value::None },
            soa_mname = soa.mname,
            soa_rname = soa.rname,
            soa_serial = soa.serial,
            soa_refresh = soa.refresh,
            soa_retry = soa.retry,
            soa_expire = soa.expire,
            soa_minimum = soa.minimum,
            srv_priority = srv.priority,
            srv_weight = srv.weight,
            srv_port = srv.port,
            srv_name = srv.name,
            options = self.options(rr),
            hinfo = bytes_of(kind::HINFO),
            nsec = bytes_of(kind::NSEC),
            data = present::data(rr, self.message, self.data),
        )
    }

    /// The transaction that the message completes: its question and the answers.
    pub fn transaction(&self, proto: &'static str, time: Time, waiting: Option<&'a Waiting>) -> Record<'a> {
        let header = &self.message.header;
        let is_netbios = self.flavour == Flavour::NetBios;
        let [_, counts @ ..] = header.counts;
        let is_bare = counts == [0; 3] && header.opcode() != UPDATE;
        let mut row = DnsRow::new(self.flavour, proto, header, waiting);
        let (mut query, mut is_emitted) = (None, false);
        for rr in self.message.records.iter().filter(|rr| self.is_answer(rr)) {
            let reply = self.reply(rr, is_netbios);
            if !matches!(reply, Reply::Suppressed) {
                is_emitted = true;
                query = query.or(Some(rr.name));
            }
            if let Reply::Shown(value) = reply {
                row.answers.push(value);
                row.ttls.push(Value::Duration(u64::from(rr.ttl) * 1_000_000_000));
            }
            if rr.section == Section::Answer {
                row.records.push(self.record(rr));
            }
        }
        if is_emitted {
            row.authoritative = header.has(Header::AA);
            row.recursive = header.has(Header::RA);
            row.rtt = waiting.map(|waiting| time.since(waiting.time)).filter(|rtt| *rtt > 0);
        }
        if row.query.is_none() {
            let question = self.message.questions.first().map(|question| question.name);
            let name = query.or(question.filter(|_| header.opcode() != UPDATE));
            row.query = name.map_or(Value::None, |name| self.query(name));
        }
        row.rcode = Some(header.rcode());
        let is_empty = is_bare && !self.message.questions.is_empty();
        row.rejected = is_empty || (header.rcode() != 0 && header.counts.first() == Some(&0));
        row.record(waiting.map_or(time, |waiting| waiting.time))
    }

    /// Whether Zeek counts a record among the answers.
    fn is_answer(&self, rr: &Rr) -> bool {
        let is_update = self.message.header.opcode() == UPDATE && self.flavour != Flavour::NetBios;
        rr.section == Section::Answer || is_update && rr.section == Section::Authority
    }

    fn reply(&self, rr: &Rr, is_netbios: bool) -> Reply {
        if is_netbios || self.message.header.opcode() != UPDATE {
            return present::reply(rr, self.message, self.data, is_netbios);
        }
        // RFC 2136: the class shows whether a record is to be added or deleted.
        const NONE: u16 = 254;
        const ANY: u16 = 255;
        let kind = words::zeek_type(rr.kind);
        let name = String::from_utf8_lossy(self.message.text(rr.name)).to_ascii_lowercase();
        let text = match (rr.section, rr.class, rr.kind) {
            (Section::Answer, NONE, ANY) => format!("pre: NameNotInUse {name}"),
            (Section::Answer, ANY, ANY) => format!("pre: NameInUse {name}"),
            (Section::Answer, NONE, _) => format!("pre: NoRRSet {kind} {name}"),
            (Section::Answer, _, _) => format!("pre: RRSetExists {kind} {name}"),
            (_, ANY, ANY) => format!("del: RRSet * {name}"),
            (_, NONE, _) => format!("del: RR {kind} {name}"),
            (_, ANY, _) => format!("del: RRSet {kind}"),
            _ => match present::reply(rr, self.message, self.data, false) {
                Reply::Shown(Value::Address(address)) => format!("add: {kind} {name} {address}"),
                Reply::Shown(Value::Text(text)) => format!("add: {}", String::from_utf8_lossy(&text)),
                other => return other,
            },
        };
        Reply::Shown(text.into())
    }

    fn record(&self, rr: &Rr) -> Vec<Value<'a>> {
        let is_netbios = self.flavour == Flavour::NetBios && rr.kind == kind::NB;
        let address = match rr.address() {
            None if is_netbios => present::netbios_address(rr.bytes(self.data)),
            address => address,
        };
        let data = match rr.kind {
            kind::TXT | kind::SPF => {
                Some(strings(rr.bytes(self.data)).collect::<Vec<_>>().join(&b' ')).filter(|t| !t.is_empty())
            }
            _ => present::data(rr, self.message, self.data),
        };
        values!(
            RECORD,
            name = self.query(rr.name),
            type = Value::Text(cow(words::eve_type(rr.kind))),
            ttl = Value::Duration(u64::from(rr.ttl) * 1_000_000_000),
            address = address,
            target = rr.target().map_or(Value::None, |name| self.text(name)),
            data = data,
        )
    }

    /// A name in the form of a transaction's fields.
    fn query(&self, name: Name) -> Value<'a> {
        let text = self.message.text(name);
        let decoded = present::netbios_name(text).filter(|_| self.flavour == Flavour::NetBios);
        match decoded {
            Some((name, _)) => name.into(),
            None if text.iter().any(u8::is_ascii_uppercase) => present::lower(text).into(),
            None => text.into(),
        }
    }

    /// The part of a question that is kept until its answer arrives.
    pub fn waiting(&self, time: Time, at: Span) -> Waiting {
        let header = &self.message.header;
        // If there are several questions, Zeek logs the last one.
        let question = self.message.questions.last().filter(|_| header.opcode() != UPDATE);
        let query = question.map(|question| match self.query(question.name) {
            Value::Text(text) => text.into_owned(),
            _ => Vec::new(),
        });
        Waiting {
            time,
            at,
            header: *header,
            query,
            kind: question.map(|question| question.kind),
            class: question.map(|question| question.class),
        }
    }
}

fn cow(text: std::borrow::Cow<'static, str>) -> std::borrow::Cow<'static, [u8]> {
    match text {
        std::borrow::Cow::Borrowed(text) => std::borrow::Cow::Borrowed(text.as_bytes()),
        std::borrow::Cow::Owned(text) => std::borrow::Cow::Owned(text.into_bytes()),
    }
}

/// Hands on a question before its answer.
pub(super) fn hand_on(flavour: Flavour, proto: &'static str, waiting: &Waiting, out: &mut dyn Out) {
    early!(
        out, DNS, of { unanswered(flavour, proto, waiting) } proto, id, query, class, class_name, type, type_name,
        truncated, recursion_desired, z, opcode, opcode_name,
    );
}

/// A question without an answer.
pub(super) fn unanswered<'a>(flavour: Flavour, proto: &'static str, waiting: &'a Waiting) -> Record<'a> {
    DnsRow::new(flavour, proto, &waiting.header, Some(waiting)).record(waiting.time).over(waiting.at)
}

/// A transaction being built.
struct DnsRow<'a> {
    flavour: Flavour,
    proto: &'static str,
    id: u16,
    opcode: u8,
    rtt: Option<u64>,
    query: Value<'a>,
    waiting: Option<&'a Waiting>,
    rcode: Option<u8>,
    authoritative: bool,
    recursive: bool,
    answers: Vec<Value<'a>>,
    ttls: Vec<Value<'a>>,
    records: Vec<Vec<Value<'a>>>,
    rejected: bool,
}

impl<'a> DnsRow<'a> {
    fn new(flavour: Flavour, proto: &'static str, header: &Header, waiting: Option<&'a Waiting>) -> Self {
        Self {
            flavour,
            proto,
            id: header.id,
            opcode: header.opcode(),
            rtt: None,
            query: waiting.and_then(|waiting| waiting.query.as_ref()).into(),
            waiting,
            rcode: None,
            authoritative: false,
            recursive: false,
            answers: Vec::new(),
            ttls: Vec::new(),
            records: Vec::new(),
            rejected: false,
        }
    }

    fn record(self, time: Time) -> Record<'a> {
        let is_netbios = self.flavour == Flavour::NetBios;
        let (class, kind) = self.waiting.map_or((None, None), |waiting| (waiting.class, waiting.kind));
        let kind_name = |kind| match kind {
            kind::SRV if is_netbios => "NBSTAT".into(),
            kind::NB if is_netbios => "NB".into(),
            _ => words::zeek_type(kind),
        };
        let question = self.waiting.filter(|waiting| waiting.kind.is_some()).map(|waiting| waiting.header);
        let has = |flag| Value::Bool(question.is_some_and(|header| header.has(flag)));
        record!(
            DNS,
            time,
            proto = self.proto,
            id = self.id,
            rtt = self.rtt.map_or(Value::None, Value::Duration),
            query = self.query,
            class = class,
            class_name = class.map_or(Value::None, |class| Value::Text(cow(words::class(class)))),
            type = kind,
            type_name = kind.map_or(Value::None, |kind| Value::Text(cow(kind_name(kind)))),
            rcode = self.rcode,
            rcode_name = self.rcode.map_or(Value::None, |rcode| Value::Text(cow(words::zeek_rcode(rcode)))),
            authoritative = self.authoritative,
            truncated = has(Header::TC),
            recursion_desired = has(Header::RD),
            recursion_available = self.recursive,
            z = question.map_or(0, |header| header.flags >> 4 & 7),
            answers = Value::list(self.answers),
            ttls = Value::list(self.ttls),
            rejected = self.rejected,
            opcode = self.opcode,
            opcode_name = Value::Text(cow(words::opcode(self.opcode, is_netbios))),
            records = Value::rows(self.records),
        )
    }
}
